/* Quantum circuits: gates on qubits, however the file writes them. */
#ifndef TS_PROBLEMS_CIRCUIT_H
#define TS_PROBLEMS_CIRCUIT_H

#include "algebra/element.h"
#include "problems/problem.h"

enum { TS_GATE_QUBITS = 3 };

/* A unitary on 1 to 3 qubits: matrix[row * 2^k + column], row = output, the first qubit is the most significant bit.
 * Diagonal gates are kept as matrices too; the network leaves their wires in place. */
typedef struct ts_gate {
    int32_t qubit_count;
    int64_t qubits[TS_GATE_QUBITS];
    ts_c128 matrix[64];
} ts_gate;

typedef struct ts_circuit {
    int64_t qubit_count;
    ts_gate *gates;
    size_t gate_count, gate_capacity;
    const char *format;
} ts_circuit;

tensum_status ts_circuit_add(ts_circuit *circuit, const ts_gate *gate);
void ts_circuit_free(ts_circuit *circuit);

/* gates.c: the matrix of a named gate with its parameters (radians); false if there is no gate of that name with that
 * many qubits and parameters. Names of qelib1.inc and of qsim. */
bool ts_gate_matrix(const char *name, int32_t qubit_count, int32_t parameter_count, const double *parameters, ts_c128 *matrix);
/* Is there a gate of that name; how many qubits and parameters has it (first match)? */
bool ts_gate_shape(const char *name, int32_t *qubit_count, int32_t *parameter_count);

/* qasm.c: OpenQASM 2.0 without classical control. qsim.c: Google's qsim format. */
tensum_status ts_qasm_read(const ts_input *input, ts_circuit *circuit);
tensum_status ts_qsim_read(const ts_input *input, ts_circuit *circuit);

#endif
