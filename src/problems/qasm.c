/* OpenQASM 2.0: registers, gate definitions, parameter expressions, broadcasts over registers. Barriers and final
 * measurements are passed over; classical control, reset and measurements in the middle are refused by name. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "problems/circuit.h"

enum { NAME_BYTES = 64, MOST_ARGUMENTS = 64, MOST_DEPTH = 64, MOST_GATES = 1000000, MOST_TEXT = 1 << 28 };

typedef struct word {
    const char *start;
    size_t length;
} word;

typedef struct qreg {
    char name[NAME_BYTES];
    int64_t first, size;
} qreg;

/* A definition: its body is parsed anew at every use, with the names bound. */
typedef struct definition {
    char name[NAME_BYTES];
    char parameters[MOST_ARGUMENTS / 4][NAME_BYTES];
    char qubits[MOST_ARGUMENTS / 4][NAME_BYTES];
    int32_t parameter_count, qubit_count;
    size_t body; /* just behind the brace */
} definition;

/* What names mean while a body is read; NULL outside. */
typedef struct scope {
    const definition *gate;
    const double *parameters;
    const int64_t *qubits;
} scope;

typedef struct parser {
    const ts_input *input;
    size_t position;
    word token;
    ts_circuit *circuit;
    qreg *registers;
    size_t register_count, register_capacity;
    definition *definitions;
    size_t definition_count, definition_capacity;
    uint8_t *measured; /* [qubit_count] */
    size_t measured_capacity;
    size_t applications; /* of gates, defined ones included */
    size_t passed;       /* bytes read, those of bodies at every use */
    int depth;
} parser;

static tensum_status fail(const parser *p, const char *expected)
{
    return ts_input_fail(p->input, (size_t)(p->token.start - p->input->bytes), "expected %s, found '%.*s'", expected,
                         (int)(p->token.length < 40 ? p->token.length : 40), p->token.start);
}

/* Step to the next token: a name, a number, a string, "->", "==", or one character; length 0 at the end. */
static void next(parser *p)
{
    const char *text = p->input->bytes;
    size_t i = p->position, length = p->input->length;
    for (;;) {
        while (i < length && isspace((unsigned char)text[i])) {
            i++;
        }
        if (i + 1 < length && text[i] == '/' && text[i + 1] == '/') {
            while (i < length && text[i] != '\n') {
                i++;
            }
            continue;
        }
        break;
    }
    size_t start = i;
    if (i < length) {
        unsigned char c = (unsigned char)text[i];
        if (isalpha(c) || c == '_') {
            while (i < length && (isalnum((unsigned char)text[i]) || text[i] == '_')) {
                i++;
            }
        } else if (isdigit(c) || (c == '.' && i + 1 < length && isdigit((unsigned char)text[i + 1]))) {
            while (i < length && (isdigit((unsigned char)text[i]) || text[i] == '.')) {
                i++;
            }
            if (i < length && (text[i] == 'e' || text[i] == 'E')) {
                size_t j = i + 1;
                j += j < length && (text[j] == '+' || text[j] == '-');
                if (j < length && isdigit((unsigned char)text[j])) {
                    while (j < length && isdigit((unsigned char)text[j])) {
                        j++;
                    }
                    i = j;
                }
            }
        } else if (c == '"') {
            i++;
            while (i < length && text[i] != '"' && text[i] != '\n') {
                i++;
            }
            i += i < length && text[i] == '"';
        } else if (i + 1 < length && ((c == '-' && text[i + 1] == '>') || (c == '=' && text[i + 1] == '='))) {
            i += 2;
        } else {
            i++;
        }
    }
    p->token.start = text + start;
    p->token.length = i - start;
    p->passed += i - p->position;
    p->position = i;
}

static bool is(const parser *p, const char *text) { return strlen(text) == p->token.length && memcmp(text, p->token.start, p->token.length) == 0; }

static tensum_status expect(parser *p, const char *text)
{
    char quoted[NAME_BYTES];
    if (!is(p, text)) {
        snprintf(quoted, sizeof quoted, "'%s'", text);
        return fail(p, quoted);
    }
    next(p);
    return TENSUM_OK;
}

static tensum_status name_token(parser *p, const char *what, char *name)
{
    if (p->token.length == 0 || p->token.length >= NAME_BYTES || !(isalpha((unsigned char)p->token.start[0]) || p->token.start[0] == '_')) {
        return fail(p, what);
    }
    memcpy(name, p->token.start, p->token.length);
    name[p->token.length] = 0;
    next(p);
    return TENSUM_OK;
}

static tensum_status integer_token(parser *p, const char *what, int64_t lowest, int64_t highest, int64_t *value)
{
    if (p->token.length == 0 || !ts_parse_integer(p->token.start, p->token.length, value) || *value < lowest || *value > highest) {
        return fail(p, what);
    }
    next(p);
    return TENSUM_OK;
}

/* ---- parameter expressions: sums of products of powers ---- */

static tensum_status expression(parser *p, const scope *names, double *value);

static tensum_status function(parser *p, const scope *names, const char *name, double *value)
{
    tensum_status status = TENSUM_OK;
    static const char *const known[] = {"sin", "cos", "tan", "exp", "ln", "sqrt"};
    double x;
    TRY(expect(p, "("));
    TRY(expression(p, names, &x));
    TRY(expect(p, ")"));
    double results[] = {sin(x), cos(x), tan(x), exp(x), log(x), sqrt(x)};
    for (int i = 0; i < 6; i++) {
        if (strcmp(name, known[i]) == 0) {
            *value = results[i];
            return TENSUM_OK;
        }
    }
    status = fail(p, "sin, cos, tan, exp, ln or sqrt");
done:
    return status;
}

static tensum_status atom(parser *p, const scope *names, double *value)
{
    tensum_status status = TENSUM_OK;
    char name[NAME_BYTES];
    if (is(p, "(")) {
        next(p);
        TRY(expression(p, names, value));
        return expect(p, ")");
    }
    if (p->token.length > 0 && (isdigit((unsigned char)p->token.start[0]) || p->token.start[0] == '.')) {
        if (!ts_parse_real(p->token.start, p->token.length, value)) {
            return fail(p, "a number");
        }
        next(p);
        return TENSUM_OK;
    }
    word start = p->token;
    TRY(name_token(p, "a number, a parameter or '('", name));
    if (is(p, "(")) {
        return function(p, names, name, value);
    }
    if (strcmp(name, "pi") == 0) {
        *value = 3.14159265358979323846;
        return TENSUM_OK;
    }
    for (int32_t i = 0; names != NULL && i < names->gate->parameter_count; i++) {
        if (strcmp(name, names->gate->parameters[i]) == 0) {
            *value = names->parameters[i];
            return TENSUM_OK;
        }
    }
    p->token = start;
    status = fail(p, "pi or a parameter of the gate");
done:
    return status;
}

static tensum_status signed_power(parser *p, const scope *names, double *value)
{
    tensum_status status = TENSUM_OK;
    int sign = 1;
    while (is(p, "-") || is(p, "+")) {
        sign = is(p, "-") ? -sign : sign;
        next(p);
    }
    TRY(atom(p, names, value));
    if (is(p, "^")) {
        double exponent;
        next(p);
        if (++p->depth > MOST_DEPTH) {
            return fail(p, "an expression that is not nested so deeply");
        }
        TRY(signed_power(p, names, &exponent));
        p->depth--;
        *value = pow(*value, exponent);
    }
    *value *= sign;
done:
    return status;
}

static tensum_status term(parser *p, const scope *names, double *value)
{
    tensum_status status = TENSUM_OK;
    TRY(signed_power(p, names, value));
    while (is(p, "*") || is(p, "/")) {
        bool divide = is(p, "/");
        double other;
        next(p);
        TRY(signed_power(p, names, &other));
        *value = divide ? *value / other : *value * other;
    }
done:
    return status;
}

static tensum_status expression(parser *p, const scope *names, double *value)
{
    tensum_status status = TENSUM_OK;
    if (++p->depth > MOST_DEPTH) {
        return fail(p, "an expression that is not nested so deeply");
    }
    TRY(term(p, names, value));
    while (is(p, "+") || is(p, "-")) {
        bool subtract = is(p, "-");
        double other;
        next(p);
        TRY(term(p, names, &other));
        *value = subtract ? *value - other : *value + other;
    }
    p->depth--;
done:
    return status;
}

/* ---- gates ---- */

static tensum_status gate_statement(parser *p, const scope *names);

/* The last gate of that name defined before the one whose body is being read. */
static const definition *find_definition(const parser *p, const scope *names, const char *name)
{
    size_t count = names != NULL ? (size_t)(names->gate - p->definitions) : p->definition_count;
    for (size_t i = count; i > 0; i--) {
        if (strcmp(p->definitions[i - 1].name, name) == 0) {
            return &p->definitions[i - 1];
        }
    }
    return NULL;
}

/* A qubit argument: one qubit, or a whole register to be broadcast over. */
typedef struct operand {
    int64_t first, size;
    bool whole;
} operand;

static tensum_status read_operand(parser *p, const scope *names, operand *out)
{
    tensum_status status = TENSUM_OK;
    char name[NAME_BYTES];
    word start = p->token;
    TRY(name_token(p, "a qubit", name));
    if (names != NULL) {
        for (int32_t i = 0; i < names->gate->qubit_count; i++) {
            if (strcmp(name, names->gate->qubits[i]) == 0) {
                *out = (operand){names->qubits[i], 1, false};
                return TENSUM_OK;
            }
        }
        p->token = start;
        return fail(p, "a qubit of the gate");
    }
    for (size_t i = 0; i < p->register_count; i++) {
        const qreg *r = &p->registers[i];
        if (strcmp(name, r->name) != 0) {
            continue;
        }
        if (!is(p, "[")) {
            *out = (operand){r->first, r->size, true};
            return TENSUM_OK;
        }
        int64_t index;
        next(p);
        TRY(integer_token(p, "an index inside the register", 0, r->size - 1, &index));
        *out = (operand){r->first + index, 1, false};
        return expect(p, "]");
    }
    p->token = start;
    status = fail(p, "a quantum register");
done:
    return status;
}

/* One application, on qubits; user-defined gates by reading their bodies. */
static tensum_status apply(parser *p, const scope *outer, const char *name, word at, int32_t parameter_count, const double *parameters, int32_t qubit_count,
                           const int64_t *qubits)
{
    tensum_status status = TENSUM_OK;
    const definition *user = find_definition(p, outer, name);
    ts_gate gate = {0};
    word here = p->token;
    size_t position = p->position;
    if (++p->applications > MOST_GATES || p->passed > MOST_TEXT + p->input->length) {
        return ts_input_fail(p->input, (size_t)(at.start - p->input->bytes), "the circuit expands to more than %d gates or %d bytes", MOST_GATES, MOST_TEXT);
    }
    for (int32_t i = 0; i < qubit_count; i++) {
        for (int32_t k = 0; k < i; k++) {
            if (qubits[k] == qubits[i]) {
                p->token = at;
                return fail(p, "a gate on different qubits");
            }
        }
        if (p->measured[qubits[i]]) {
            return ts_input_fail(p->input, (size_t)(at.start - p->input->bytes), "gate %s follows a measurement of its qubit: only final measurements are supported", name);
        }
    }
    if (user != NULL) {
        scope names = {user, parameters, qubits};
        if (user->parameter_count != parameter_count || user->qubit_count != qubit_count) {
            return ts_input_fail(p->input, (size_t)(at.start - p->input->bytes), "gate %s takes %d parameters and %d qubits, found %d and %d",
                                 name, (int)user->parameter_count, (int)user->qubit_count, (int)parameter_count, (int)qubit_count);
        }
        if (++p->depth > MOST_DEPTH) {
            p->token = at;
            return fail(p, "gates that are not nested so deeply");
        }
        p->position = user->body;
        next(p);
        while (!is(p, "}")) {
            TRY(gate_statement(p, &names));
        }
        p->depth--;
        p->token = here;
        p->position = position;
        return TENSUM_OK;
    }
    int32_t takes_qubits = 0, takes_parameters = 0;
    if (!ts_gate_shape(name, &takes_qubits, &takes_parameters)) {
        p->token = at;
        return fail(p, "a gate of qelib1.inc or one defined before");
    }
    if (qubit_count > TS_GATE_QUBITS || !ts_gate_matrix(name, qubit_count, parameter_count, parameters, gate.matrix)) {
        return ts_input_fail(p->input, (size_t)(at.start - p->input->bytes), "gate %s takes %d parameters and %d qubits, found %d and %d", name,
                             (int)takes_parameters, (int)takes_qubits, (int)parameter_count, (int)qubit_count);
    }
    gate.qubit_count = qubit_count;
    memcpy(gate.qubits, qubits, (size_t)qubit_count * sizeof *qubits);
    TRY(ts_circuit_add(p->circuit, &gate));
done:
    return status;
}

/* `name(params) q, r;` or a barrier; the token is its first. */
static tensum_status gate_statement(parser *p, const scope *names)
{
    tensum_status status = TENSUM_OK;
    char name[NAME_BYTES];
    double parameters[MOST_ARGUMENTS];
    operand operands[MOST_ARGUMENTS];
    int32_t parameter_count = 0, operand_count = 0;
    int64_t width = 1;
    word at = p->token;
    TRY(name_token(p, "a gate", name));
    bool barrier = strcmp(name, "barrier") == 0;
    if (is(p, "(")) {
        next(p);
        while (!is(p, ")")) {
            if (parameter_count == MOST_ARGUMENTS) {
                return fail(p, "')'");
            }
            TRY(expression(p, names, &parameters[parameter_count++]));
            if (!is(p, ",")) {
                break;
            }
            next(p);
        }
        TRY(expect(p, ")"));
    }
    for (;;) {
        operand one;
        TRY(read_operand(p, names, &one));
        if (!barrier) {
            if (operand_count == MOST_ARGUMENTS) {
                return fail(p, "';'");
            }
            if (one.whole && width != 1 && one.size != width) {
                p->token = at;
                return fail(p, "registers of one size");
            }
            width = one.whole ? one.size : width;
            operands[operand_count++] = one;
        }
        if (!is(p, ",")) {
            break;
        }
        next(p);
    }
    TRY(expect(p, ";"));
    for (int64_t k = 0; k < width && !barrier; k++) {
        int64_t qubits[MOST_ARGUMENTS];
        for (int32_t i = 0; i < operand_count; i++) {
            qubits[i] = operands[i].first + (operands[i].whole ? k : 0);
        }
        TRY(apply(p, names, name, at, parameter_count, parameters, operand_count, qubits));
    }
done:
    return status;
}

/* `gate name(params) qubits { body }`, the token is `gate`. */
static tensum_status define(parser *p)
{
    tensum_status status = TENSUM_OK;
    definition new_gate = {0};
    next(p);
    TRY(name_token(p, "the name of the gate", new_gate.name));
    if (is(p, "(")) {
        next(p);
        while (!is(p, ")")) {
            if (new_gate.parameter_count == MOST_ARGUMENTS / 4) {
                return fail(p, "')'");
            }
            TRY(name_token(p, "a parameter", new_gate.parameters[new_gate.parameter_count++]));
            if (!is(p, ",")) {
                break;
            }
            next(p);
        }
        TRY(expect(p, ")"));
    }
    for (;;) {
        if (new_gate.qubit_count == MOST_ARGUMENTS / 4) {
            return fail(p, "'{'");
        }
        TRY(name_token(p, "a qubit of the gate", new_gate.qubits[new_gate.qubit_count++]));
        if (!is(p, ",")) {
            break;
        }
        next(p);
    }
    if (!is(p, "{")) {
        return fail(p, "'{'");
    }
    new_gate.body = p->position;
    while (!is(p, "}")) {
        if (p->token.length == 0) {
            return fail(p, "'}'");
        }
        next(p);
    }
    next(p);
    TRY(ts_reserve(p->definition_count + 1, sizeof *p->definitions, "gates", &p->definition_capacity, &p->definitions));
    p->definitions[p->definition_count++] = new_gate;
done:
    return status;
}

static tensum_status add_register(parser *p)
{
    tensum_status status = TENSUM_OK;
    qreg new_register = {0};
    next(p);
    TRY(name_token(p, "the name of the register", new_register.name));
    TRY(expect(p, "["));
    TRY(integer_token(p, "the size of the register (1 to 10000)", 1, 10000, &new_register.size));
    TRY(expect(p, "]"));
    TRY(expect(p, ";"));
    new_register.first = p->circuit->qubit_count;
    p->circuit->qubit_count += new_register.size;
    TRY(ts_reserve((size_t)p->circuit->qubit_count, 1, "qubits", &p->measured_capacity, &p->measured));
    memset(p->measured + new_register.first, 0, (size_t)new_register.size);
    TRY(ts_reserve(p->register_count + 1, sizeof *p->registers, "registers", &p->register_capacity, &p->registers));
    p->registers[p->register_count++] = new_register;
done:
    return status;
}

static tensum_status measure(parser *p)
{
    tensum_status status = TENSUM_OK;
    operand qubits;
    next(p);
    TRY(read_operand(p, NULL, &qubits));
    TRY(expect(p, "->"));
    while (p->token.length > 0 && !is(p, ";")) {
        next(p);
    }
    TRY(expect(p, ";"));
    memset(p->measured + qubits.first, 1, (size_t)qubits.size);
done:
    return status;
}

static tensum_status skip_statement(parser *p)
{
    while (p->token.length > 0 && !is(p, ";")) {
        next(p);
    }
    return expect(p, ";");
}

static tensum_status statement(parser *p)
{
    if (is(p, "include") || is(p, "creg")) {
        return skip_statement(p); /* qelib1.inc is built in */
    }
    if (is(p, "qreg")) {
        return add_register(p);
    }
    if (is(p, "gate")) {
        return define(p);
    }
    if (is(p, "measure")) {
        return measure(p);
    }
    if (is(p, "if") || is(p, "reset") || is(p, "opaque")) {
        return ts_input_fail(p->input, (size_t)(p->token.start - p->input->bytes), "'%.*s' is not supported: circuits have to be unitary",
                             (int)p->token.length, p->token.start);
    }
    return gate_statement(p, NULL);
}

tensum_status ts_qasm_read(const ts_input *input, ts_circuit *circuit)
{
    tensum_status status = TENSUM_OK;
    parser p = {0};
    p.input = input;
    p.circuit = circuit;
    circuit->format = "OpenQASM 2";
    next(&p);
    TRY(expect(&p, "OPENQASM"));
    if (!is(&p, "2.0") && !is(&p, "2")) {
        status = fail(&p, "version 2.0");
        goto done;
    }
    next(&p);
    TRY(expect(&p, ";"));
    while (p.token.length > 0) {
        TRY(statement(&p));
    }
    if (circuit->qubit_count == 0) {
        status = fail(&p, "a quantum register");
    }
done:
    ts_free(p.registers);
    ts_free(p.definitions);
    ts_free(p.measured);
    return status;
}
