/* Front end for quantum circuits: amplitudes of bit strings (some bits may stay open) and expectation values of Pauli
 * strings, over complex numbers. Bit strings and Pauli strings begin with qubit 0 (the first of the first register). */
#include <math.h>

#include "problems/circuit.h"

typedef struct circuit_data {
    ts_circuit circuit;
    char *bits;   /* [qubit_count + 1] of 0, 1, ? */
    char *paulis; /* [qubit_count + 1] of I, X, Y, Z */
    int64_t open_count;
} circuit_data;

static void destroy(void *pointer)
{
    circuit_data *data = pointer;
    if (data != NULL) {
        ts_circuit_free(&data->circuit);
        ts_free(data->bits);
        ts_free(data->paulis);
        ts_free(data);
    }
}

static const char *first_word(const ts_input *input, size_t *length)
{
    ts_scanner scanner;
    ts_scanner_start(&scanner, input);
    do {
        if (ts_scan_in_line(&scanner) && !(scanner.length >= 2 && memcmp(input->bytes + scanner.token, "//", 2) == 0)) {
            *length = scanner.length;
            return input->bytes + scanner.token;
        }
    } while (ts_scan_next_line(&scanner));
    return NULL;
}

static bool recognize(const ts_input *input)
{
    size_t length = 0;
    const char *word = first_word(input, &length);
    return word != NULL && length == 8 && memcmp(word, "OPENQASM", 8) == 0;
}

/* A string of `allowed` letters, one per qubit, from a setting; `standard` repeated if it is not given. */
static tensum_status read_string(const tensum_problem_options *options, const char *name, const char *allowed, char standard,
                                 int64_t qubits, char **out)
{
    const char *text = ts_setting(options, name);
    tensum_status status = ts_allocate((size_t)qubits + 1, 1, name, out);
    if (status != TENSUM_OK) {
        return status;
    }
    memset(*out, standard, (size_t)qubits);
    (*out)[qubits] = 0;
    if (text == NULL) {
        return TENSUM_OK;
    }
    if ((int64_t)strlen(text) != qubits || strspn(text, allowed) != (size_t)qubits) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "setting %s=%s, expected %lld letters out of %s, qubit 0 first", name, text,
                       (long long)qubits, allowed);
    }
    memcpy(*out, text, (size_t)qubits);
    return TENSUM_OK;
}

/* Wires while the network is built: the label that each qubit's line has now. */
typedef struct wires {
    tensum_problem *problem;
    int64_t *label;
    int64_t next;
} wires;

static tensum_status add_tensor(wires *w, int32_t rank, const int64_t *labels, const ts_c128 *elements, size_t count)
{
    static const int64_t extents[2 * TS_GATE_QUBITS] = {2, 2, 2, 2, 2, 2};
    if (w->problem->dtype == TENSUM_C128) {
        return ts_problem_add_raw(w->problem, rank, labels, extents, elements, NULL);
    }
    ts_c64 narrow[64];
    for (size_t i = 0; i < count; i++) {
        narrow[i] = (ts_c64){(float)elements[i].re, (float)elements[i].im};
    }
    return ts_problem_add_raw(w->problem, rank, labels, extents, narrow, NULL);
}

/* A basis state at one end of a qubit's line. */
static tensum_status add_end(wires *w, int64_t qubit, bool one)
{
    ts_c128 state[2] = {{one ? 0 : 1, 0}, {one ? 1 : 0, 0}};
    return add_tensor(w, 1, &w->label[qubit], state, 2);
}

/* The gate, or its inverse (conjugate transpose). A diagonal gate leaves the labels as they are. */
static tensum_status add_gate(wires *w, const ts_gate *gate, bool inverse)
{
    int32_t k = gate->qubit_count, size = 1 << k;
    int64_t labels[2 * TS_GATE_QUBITS];
    ts_c128 elements[64], diagonal[8];
    bool is_diagonal = true;
    for (int32_t r = 0; r < size; r++) {
        for (int32_t c = 0; c < size; c++) {
            ts_c128 x = inverse ? ts_conjugate_c128(gate->matrix[c * size + r]) : gate->matrix[r * size + c];
            elements[r * size + c] = x;
            is_diagonal = is_diagonal && (r == c || (x.re == 0 && x.im == 0));
        }
        diagonal[r] = elements[r * size + r];
    }
    for (int32_t i = 0; i < k; i++) {
        labels[k + i] = w->label[gate->qubits[i]];
    }
    if (is_diagonal) {
        return add_tensor(w, k, labels + k, diagonal, (size_t)size);
    }
    for (int32_t i = 0; i < k; i++) {
        labels[i] = w->label[gate->qubits[i]] = w->next++;
    }
    return add_tensor(w, 2 * k, labels, elements, (size_t)size * (size_t)size);
}

static tensum_status build_amplitude(wires *w, circuit_data *data)
{
    tensum_status status = TENSUM_OK;
    const ts_circuit *circuit = &data->circuit;
    tensum_problem *problem = w->problem;
    for (int64_t q = 0; q < circuit->qubit_count; q++) {
        w->label[q] = w->next++;
        TRY(add_end(w, q, false));
    }
    for (size_t g = 0; g < circuit->gate_count; g++) {
        TRY(add_gate(w, &circuit->gates[g], false));
    }
    TRY(ts_allocate((size_t)circuit->qubit_count, sizeof *problem->output_labels, "outputs", &problem->output_labels));
    for (int64_t q = 0; q < circuit->qubit_count; q++) {
        if (data->bits[q] == '?') {
            problem->output_labels[problem->output_rank++] = w->label[q];
        } else {
            TRY(add_end(w, q, data->bits[q] == '1'));
        }
    }
    data->open_count = problem->output_rank;
    if (data->open_count > 30) {
        status = ts_fail(TENSUM_STATUS_MEMORY_LIMIT, "%lld open bits make 2^%lld amplitudes", (long long)data->open_count, (long long)data->open_count);
    }
done:
    return status;
}

/* <0| U^-1 P U |0>; gates that P's light cone does not touch cancel and are left out. */
static tensum_status build_expectation(wires *w, circuit_data *data)
{
    tensum_status status = TENSUM_OK;
    const ts_circuit *circuit = &data->circuit;
    uint8_t *cone = NULL, *kept = NULL;
    TRY(ts_allocate_zero((size_t)circuit->qubit_count, 1, "qubits", &cone));
    TRY(ts_allocate_zero(circuit->gate_count, 1, "gates", &kept));
    for (int64_t q = 0; q < circuit->qubit_count; q++) {
        cone[q] = data->paulis[q] != 'I';
    }
    for (size_t g = circuit->gate_count; g > 0; g--) {
        const ts_gate *gate = &circuit->gates[g - 1];
        for (int32_t i = 0; i < gate->qubit_count; i++) {
            kept[g - 1] |= cone[gate->qubits[i]];
        }
        for (int32_t i = 0; i < gate->qubit_count && kept[g - 1]; i++) {
            cone[gate->qubits[i]] = 1;
        }
    }
    for (int64_t q = 0; q < circuit->qubit_count; q++) {
        w->label[q] = w->next++;
        if (cone[q]) {
            TRY(add_end(w, q, false));
        }
    }
    for (size_t g = 0; g < circuit->gate_count; g++) {
        if (kept[g]) {
            TRY(add_gate(w, &circuit->gates[g], false));
        }
    }
    for (int64_t q = 0; q < circuit->qubit_count; q++) {
        ts_gate pauli = {1, {q, 0, 0}, {{0, 0}}};
        char name[2] = {(char)(data->paulis[q] - 'X' + 'x'), 0};
        if (data->paulis[q] != 'I') {
            (void)ts_gate_matrix(name, 1, 0, NULL, pauli.matrix);
            TRY(add_gate(w, &pauli, false));
        }
    }
    for (size_t g = circuit->gate_count; g > 0; g--) {
        if (kept[g - 1]) {
            TRY(add_gate(w, &circuit->gates[g - 1], true));
        }
    }
    for (int64_t q = 0; q < circuit->qubit_count; q++) {
        if (cone[q]) {
            TRY(add_end(w, q, false));
        }
    }
done:
    ts_free(cone);
    ts_free(kept);
    return status;
}

static tensum_status read(const ts_input *input, const tensum_problem_options *options, tensum_problem *problem)
{
    tensum_status status = TENSUM_OK;
    circuit_data *data = NULL;
    wires w = {problem, NULL, 0};
    bool expectation = strcmp(problem->task, "expectation") == 0;
    problem->semiring = TENSUM_SUM_PRODUCT;
    problem->dtype = options->dtype < 0 ? TENSUM_C128 : (tensum_dtype)options->dtype;
    if ((problem->dtype != TENSUM_C64 && problem->dtype != TENSUM_C128) ||
        (options->semiring >= 0 && (tensum_semiring)options->semiring != TENSUM_SUM_PRODUCT)) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "circuits are computed in sum_product over c128 or c64");
    }
    TRY(ts_allocate_zero(1, sizeof *data, "a circuit", &data));
    problem->state = data;
    TRY(recognize(input) || ts_has_suffix(input->name, ".qasm") ? ts_qasm_read(input, &data->circuit) : ts_qsim_read(input, &data->circuit));
    int64_t n = data->circuit.qubit_count;
    TRY(read_string(options, "bits", "01?", '0', n, &data->bits));
    TRY(read_string(options, "observable", "IXYZ", 'Z', n, &data->paulis));
    TRY(ts_allocate((size_t)n, sizeof *w.label, "qubits", &w.label));
    TRY(expectation ? build_expectation(&w, data) : build_amplitude(&w, data));
    ts_text_add(&problem->note, "%s, %lld qubits, %zu gates; qubit 0 first in %s %s", data->circuit.format, (long long)n,
                data->circuit.gate_count, expectation ? "observable" : "bits", expectation ? data->paulis : data->bits);
done:
    ts_free(w.label);
    return status;
}

static tensum_status answer(const tensum_problem *problem, const ts_result *result, tensum_answer *out)
{
    tensum_status status = TENSUM_OK;
    const circuit_data *data = problem->state;
    bool expectation = strcmp(problem->task, "expectation") == 0;
    int64_t count = INT64_C(1) << data->open_count;
    ts_text text = {0};
    long double probability = 0;
    TRY(ts_allocate(2 * (size_t)count, sizeof *out->values, "amplitudes", &out->values));
    out->value_count = 2 * count;
    for (int64_t i = 0; i < count; i++) {
        ts_c128 x;
        if (problem->dtype == TENSUM_C128) {
            x = ((const ts_c128 *)result->value)[i];
        } else {
            x = (ts_c128){(double)((const ts_c64 *)result->value)[i].re, (double)((const ts_c64 *)result->value)[i].im};
        }
        out->values[2 * i] = x.re;
        out->values[2 * i + 1] = x.im;
        probability += (long double)x.re * x.re + (long double)x.im * x.im;
        int64_t rest = i, shift = data->open_count;
        for (int64_t q = 0; q < data->circuit.qubit_count; q++) {
            char letter = expectation ? data->paulis[q] : data->bits[q];
            if (letter == '?') {
                letter = (rest >> --shift & 1) != 0 ? '1' : '0';
            }
            ts_text_add_bytes(&text, &letter, 1);
        }
        ts_text_add(&text, " ");
        ts_text_add_real(&text, x.re);
        if (!expectation) {
            ts_text_add(&text, " ");
            ts_text_add_real(&text, x.im);
        }
        ts_text_add(&text, "\n");
    }
    out->value = expectation ? out->values[0] : (double)probability;
    TRY(ts_text_take(&text, &out->text));
done:
    ts_text_free(&text);
    return status;
}

const ts_front_end ts_front_end_circuit = {
    .name = "circuit",
    .summary = "quantum circuits (OpenQASM 2, qsim): amplitudes and expectation values",
    .tasks = "amplitude expectation",
    .suffixes = ".qasm .qsim",
    .settings = "bits observable",
    .recognize = recognize,
    .read = read,
    .answer = answer,
    .destroy = destroy,
};
