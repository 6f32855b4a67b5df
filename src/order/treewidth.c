/* Bounds of the treewidth of the label graph (labels are vertices; those of a tensor are joined to each other). */
#include "order/eliminate.h"

static const char *const what = "treewidth bounds";

static int32_t count_bits(const uint64_t *row, const uint64_t *other, size_t words)
{
    int32_t count = 0;
    for (size_t w = 0; w < words; w++) {
        count += __builtin_popcountll(other != NULL ? row[w] & other[w] : row[w]);
    }
    return count;
}

/* Minor-min-width (Gogate, Dechter 2004): contract a vertex of least degree into the neighbour with which it shares the
 * fewest; the largest least degree seen is a lower bound. */
static int32_t lower_bound(uint64_t *rows, uint8_t *present, int32_t n, size_t words)
{
    int32_t bound = 0;
    for (;;) {
        int32_t least = -1, degree = INT32_MAX;
        for (int32_t v = 0; v < n; v++) {
            int32_t d = present[v] ? count_bits(rows + (size_t)v * words, NULL, words) : INT32_MAX;
            if (d < degree) {
                degree = d;
                least = v;
            }
        }
        if (least < 0) {
            return bound;
        }
        bound = degree > bound ? degree : bound;
        uint64_t *row = rows + (size_t)least * words;
        int32_t into = -1, common = INT32_MAX;
        for (int32_t u = 0; u < n; u++) {
            if (row[u / 64] >> (u % 64) & 1) {
                int32_t c = count_bits(rows + (size_t)u * words, row, words);
                if (c < common) {
                    common = c;
                    into = u;
                }
            }
        }
        present[least] = 0;
        for (int32_t u = 0; u < n; u++) {
            uint64_t *other = rows + (size_t)u * words;
            if ((row[u / 64] >> (u % 64) & 1) == 0) {
                continue;
            }
            other[least / 64] &= ~(UINT64_C(1) << (least % 64));
            if (u != into) {
                other[into / 64] |= UINT64_C(1) << (into % 64);
                rows[(size_t)into * words + (size_t)u / 64] |= UINT64_C(1) << (u % 64);
            }
        }
    }
}

tensum_status ts_treewidth_bounds(const ts_hypergraph *graph, int32_t *lower, int32_t *upper)
{
    uint64_t *rows = NULL;
    uint8_t *present = NULL;
    int32_t *pairs = NULL, *ids = NULL;
    double *ones = NULL;
    tensum_status status;
    int32_t labels = graph->label_count, most = INT32_MAX;
    size_t words = ((size_t)labels + 63) / 64;
    if (labels > 4096) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "treewidth bounds of %d labels cannot be had, at most 4096", labels);
    }
    TRY(ts_allocate_zero((size_t)labels * words, sizeof *rows, what, &rows));
    TRY(ts_allocate_zero((size_t)labels, 1, what, &present));
    TRY(ts_allocate((size_t)labels, sizeof *ones, what, &ones));
    TRY(ts_allocate(2 * (size_t)graph->tensor_count, sizeof *pairs, what, &pairs));
    for (int32_t l = 0; l < labels; l++) {
        ones[l] = 1.0;
    }
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        for (int64_t i = graph->tensor_offsets[t]; i < graph->tensor_offsets[t + 1]; i++) {
            int32_t x = graph->tensor_labels[i];
            present[x] = 1;
            for (int64_t k = graph->tensor_offsets[t]; k < graph->tensor_offsets[t + 1]; k++) {
                int32_t y = graph->tensor_labels[k];
                if (x != y) {
                    rows[(size_t)x * words + (size_t)y / 64] |= UINT64_C(1) << (y % 64);
                }
            }
        }
    }
    /* Widths count labels: every label weighs 1, and none is an output. */
    ts_hypergraph counted = *graph;
    counted.log2_extents = ones;
    TRY(ts_allocate_zero((size_t)labels, sizeof *ids, what, &ids));
    counted.is_output = (const uint8_t *)ids;
    for (int rule = 0; rule < 2; rule++) {
        double width;
        TRY(ts_eliminate(&counted, (ts_elimination)rule, 0.0, 0, INFINITY, pairs, NULL, NULL, &width));
        int32_t found = (int32_t)lround(width) - 1;
        most = found < most ? found : most;
    }
    /* Labels that a single tensor holds are gone before the elimination: their cliques are that tensor's. */
    most = most > 0 ? most : 0;
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        int32_t rank = (int32_t)(graph->tensor_offsets[t + 1] - graph->tensor_offsets[t]);
        most = rank - 1 > most ? rank - 1 : most;
    }
    *upper = most;
    *lower = lower_bound(rows, present, labels, words);
done:
    ts_free(rows);
    ts_free(present);
    ts_free(ones);
    ts_free(pairs);
    ts_free(ids);
    return status;
}
