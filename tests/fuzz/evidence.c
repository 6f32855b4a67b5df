/* UAI evidence, soft evidence and query files against a model of six variables. */
#include <string.h>

#include "fuzz.h"
#include "problems/uai.h"

static const char model_text[] = "MARKOV 6 2 2 3 4 2 1000 1 1 0 2 0.5 0.5";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    ts_input input, model_input;
    ts_uai_model model;
    int64_t count, *variables;
    if (length >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
        return 0;
    }
    FUZZ_CHECK(ts_input_from_memory("model", model_text, sizeof model_text - 1, &model_input) == TENSUM_OK);
    FUZZ_CHECK(ts_input_from_memory("fuzz", bytes, length, &input) == TENSUM_OK);
    for (int64_t sample = 0; sample < 2; sample++) {
        FUZZ_CHECK(ts_uai_read_model(&model_input, &model) == TENSUM_OK);
        if (ts_uai_read_evidence(&input, sample, &model) == TENSUM_OK) {
            for (int64_t v = 0; v < model.variable_count; v++) {
                FUZZ_CHECK(model.evidence[v] >= -1 && model.evidence[v] < model.cards[v]);
            }
        }
        if (ts_uai_read_query(&input, &model, &count, &variables) == TENSUM_OK) {
            FUZZ_CHECK(count <= model.variable_count);
            ts_free(variables);
        }
        if (ts_uai_read_soft(&input, &model) != TENSUM_OK) {
            FUZZ_CHECK(tensum_last_error()[0] != 0);
        }
        ts_uai_free(&model);
    }
    ts_input_free(&input);
    ts_input_free(&model_input);
    return 0;
}
