/* Matrices of the gates of qelib1.inc (OpenQASM 2.0, arXiv:1707.03429) and of qsim's circuits. */
#include <math.h>

#include "problems/circuit.h"

static const double pi = 3.14159265358979323846;

static ts_c128 number(double re, double im) { return (ts_c128){re, im}; }
static ts_c128 phase(double angle) { return number(cos(angle), sin(angle)); }
static ts_c128 product(ts_c128 x, ts_c128 y) { return ts_times_c128(x, y, 0); }
static ts_c128 scaled(ts_c128 x, double f) { return number(x.re * f, x.im * f); }

static void set2(ts_c128 *m, ts_c128 a, ts_c128 b, ts_c128 c, ts_c128 d)
{
    m[0] = a;
    m[1] = b;
    m[2] = c;
    m[3] = d;
}

/* U(theta, phi, lambda) of the specification, without the global phase of Rz(phi) Ry(theta) Rz(lambda). */
static void set_u(ts_c128 *m, double theta, double phi, double lambda)
{
    double c = cos(theta / 2), s = sin(theta / 2);
    set2(m, number(c, 0), scaled(phase(lambda), -s), scaled(phase(phi), s), scaled(phase(phi + lambda), c));
}

/* cos - i sin about an axis: rx, ry, rz with their usual global phase. */
static void set_rotation(ts_c128 *m, char axis, double angle)
{
    double c = cos(angle / 2), s = sin(angle / 2);
    if (axis == 'x') {
        set2(m, number(c, 0), number(0, -s), number(0, -s), number(c, 0));
    } else if (axis == 'y') {
        set2(m, number(c, 0), number(-s, 0), number(s, 0), number(c, 0));
    } else {
        set2(m, phase(-angle / 2), number(0, 0), number(0, 0), phase(angle / 2));
    }
}

/* Put a smaller gate under `controls` controls (the first qubits). */
static void control(ts_c128 *m, const ts_c128 *inner, int32_t inner_qubits, int32_t controls)
{
    int32_t small = 1 << inner_qubits, size = small << controls;
    for (int32_t i = 0; i < size * size; i++) {
        m[i] = number(0, 0);
    }
    for (int32_t i = 0; i < size - small; i++) {
        m[i * size + i] = number(1, 0);
    }
    for (int32_t r = 0; r < small; r++) {
        for (int32_t c = 0; c < small; c++) {
            m[(size - small + r) * size + size - small + c] = inner[r * small + c];
        }
    }
}

static void set_swap(ts_c128 *m)
{
    static const int to[4] = {0, 2, 1, 3};
    for (int i = 0; i < 16; i++) {
        m[i] = number(to[i / 4] == i % 4, 0);
    }
}

/* exp(-i angle/2 P x P) for P = X, Y, Z. */
static void set_pair_rotation(ts_c128 *m, char axis, double angle)
{
    double c = cos(angle / 2), s = sin(angle / 2);
    for (int i = 0; i < 16; i++) {
        m[i] = number(0, 0);
    }
    for (int i = 0; i < 4; i++) {
        bool even = i == 0 || i == 3;
        if (axis == 'z') {
            m[5 * i] = phase(even ? -angle / 2 : angle / 2);
        } else {
            m[5 * i] = number(c, 0);
            m[4 * i + 3 - i] = number(0, axis == 'y' && even ? s : -s);
        }
    }
}

/* fSim(theta, phi) of qsim and cirq. */
static void set_fsim(ts_c128 *m, double theta, double phi)
{
    for (int i = 0; i < 16; i++) {
        m[i] = number(0, 0);
    }
    m[0] = number(1, 0);
    m[5] = m[10] = number(cos(theta), 0);
    m[6] = m[9] = number(0, -sin(theta));
    m[15] = phase(-phi);
}

typedef enum gate_kind {
    ONE, U, ROTATION, HALF, CONTROLLED, SWAP, CSWAP, PAIR, FSIM, ISWAP
} gate_kind;

typedef struct gate_row {
    const char *name;
    gate_kind kind;
    int8_t qubits, parameters;
    const char *inner; /* of controlled gates */
    char axis;
} gate_row;

static const gate_row rows[] = {
    {"id", ONE, 1, 0, NULL, 0},    {"u0", ONE, 1, 1, NULL, 0},    {"x", ONE, 1, 0, NULL, 0},   {"y", ONE, 1, 0, NULL, 0},
    {"z", ONE, 1, 0, NULL, 0},     {"h", ONE, 1, 0, NULL, 0},     {"s", ONE, 1, 0, NULL, 0},   {"sdg", ONE, 1, 0, NULL, 0},
    {"t", ONE, 1, 0, NULL, 0},     {"tdg", ONE, 1, 0, NULL, 0},   {"sx", ONE, 1, 0, NULL, 0},  {"sxdg", ONE, 1, 0, NULL, 0},
    {"u", U, 1, 3, NULL, 0},       {"u3", U, 1, 3, NULL, 0},      {"U", U, 1, 3, NULL, 0},     {"u2", U, 1, 2, NULL, 0},
    {"u1", U, 1, 1, NULL, 0},      {"p", U, 1, 1, NULL, 0},       {"rx", ROTATION, 1, 1, NULL, 'x'},
    {"ry", ROTATION, 1, 1, NULL, 'y'}, {"rz", ROTATION, 1, 1, NULL, 'z'},
    {"x_1_2", HALF, 1, 0, NULL, 'x'}, {"y_1_2", HALF, 1, 0, NULL, 'y'}, {"hz_1_2", HALF, 1, 0, NULL, 'w'},
    {"cx", CONTROLLED, 2, 0, "x", 0}, {"CX", CONTROLLED, 2, 0, "x", 0}, {"cnot", CONTROLLED, 2, 0, "x", 0},
    {"cy", CONTROLLED, 2, 0, "y", 0}, {"cz", CONTROLLED, 2, 0, "z", 0}, {"ch", CONTROLLED, 2, 0, "h", 0},
    {"csx", CONTROLLED, 2, 0, "sx", 0}, {"crx", CONTROLLED, 2, 1, "rx", 0}, {"cry", CONTROLLED, 2, 1, "ry", 0},
    {"crz", CONTROLLED, 2, 1, "rz", 0}, {"cu1", CONTROLLED, 2, 1, "u1", 0}, {"cp", CONTROLLED, 2, 1, "u1", 0},
    {"cu3", CONTROLLED, 2, 3, "u3", 0}, {"ccx", CONTROLLED, 3, 0, "cx", 0}, {"ccz", CONTROLLED, 3, 0, "cz", 0},
    {"swap", SWAP, 2, 0, NULL, 0}, {"cswap", CSWAP, 3, 0, NULL, 0}, {"rxx", PAIR, 2, 1, NULL, 'x'},
    {"ryy", PAIR, 2, 1, NULL, 'y'}, {"rzz", PAIR, 2, 1, NULL, 'z'}, {"fs", FSIM, 2, 2, NULL, 0}, {"is", ISWAP, 2, 0, NULL, 0},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static void set_one(ts_c128 *m, const char *name)
{
    double r = sqrt(0.5);
    ts_c128 zero = number(0, 0), one = number(1, 0);
    if (strcmp(name, "x") == 0) {
        set2(m, zero, one, one, zero);
    } else if (strcmp(name, "y") == 0) {
        set2(m, zero, number(0, -1), number(0, 1), zero);
    } else if (strcmp(name, "z") == 0) {
        set2(m, one, zero, zero, number(-1, 0));
    } else if (strcmp(name, "h") == 0) {
        set2(m, number(r, 0), number(r, 0), number(r, 0), number(-r, 0));
    } else if (strcmp(name, "s") == 0) {
        set2(m, one, zero, zero, number(0, 1));
    } else if (strcmp(name, "sdg") == 0) {
        set2(m, one, zero, zero, number(0, -1));
    } else if (strcmp(name, "t") == 0) {
        set2(m, one, zero, zero, phase(pi / 4));
    } else if (strcmp(name, "tdg") == 0) {
        set2(m, one, zero, zero, phase(-pi / 4));
    } else if (strcmp(name, "sx") == 0) {
        set2(m, number(0.5, 0.5), number(0.5, -0.5), number(0.5, -0.5), number(0.5, 0.5));
    } else if (strcmp(name, "sxdg") == 0) {
        set2(m, number(0.5, -0.5), number(0.5, 0.5), number(0.5, 0.5), number(0.5, -0.5));
    } else { /* id, u0 */
        set2(m, one, zero, zero, one);
    }
}

/* Square roots as qsim has them: with the global phase that makes their squares X, Y and (X + Y) / sqrt(2). */
static void set_half(ts_c128 *m, char axis)
{
    double r = sqrt(0.5);
    if (axis == 'w') {
        set2(m, number(0.5, 0.5), number(0, -r), number(r, 0), number(0.5, 0.5));
        return;
    }
    set_rotation(m, axis, pi / 2);
    for (int i = 0; i < 4; i++) {
        m[i] = product(m[i], phase(pi / 4));
    }
}

static const gate_row *find_row(const char *name, int32_t qubits, int32_t parameters)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0 && (qubits < 0 || (rows[i].qubits == qubits && rows[i].parameters == parameters))) {
            return &rows[i];
        }
    }
    return NULL;
}

bool ts_gate_shape(const char *name, int32_t *qubit_count, int32_t *parameter_count)
{
    const gate_row *row = find_row(name, -1, -1);
    if (row == NULL) {
        return false;
    }
    *qubit_count = row->qubits;
    *parameter_count = row->parameters;
    return true;
}

bool ts_gate_matrix(const char *name, int32_t qubit_count, int32_t parameter_count, const double *p, ts_c128 *m)
{
    const gate_row *row = find_row(name, qubit_count, parameter_count);
    ts_c128 inner[16], swap[16];
    if (row == NULL) {
        return false;
    }
    switch (row->kind) {
    case ONE:
        set_one(m, name);
        break;
    case U:
        set_u(m, parameter_count == 3 ? p[0] : parameter_count == 2 ? pi / 2 : 0, parameter_count == 3 ? p[1] : parameter_count == 2 ? p[0] : 0,
              p[parameter_count - 1]);
        break;
    case ROTATION:
        set_rotation(m, row->axis, p[0]);
        break;
    case HALF:
        set_half(m, row->axis);
        break;
    case CONTROLLED: /* the tables are two levels deep at most */
        if (row->qubits == 3) {
            set_one(swap, row->inner + 1);
            control(inner, swap, 1, 1);
            control(m, inner, 2, 1);
        } else {
            (void)ts_gate_matrix(row->inner, 1, parameter_count, p, inner);
            control(m, inner, 1, 1);
        }
        break;
    case SWAP:
        set_swap(m);
        break;
    case CSWAP:
        set_swap(swap);
        control(m, swap, 2, 1);
        break;
    case PAIR:
        set_pair_rotation(m, row->axis, p[0]);
        break;
    case FSIM:
        set_fsim(m, p[0], p[1]);
        break;
    case ISWAP:
        set_fsim(m, -pi / 2, 0);
        break;
    }
    return true;
}
