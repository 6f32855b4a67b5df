/* qsim's circuit files: the number of qubits, then a line `time gate qubit [qubit] [parameters]` per gate. From 0. */
#include "problems/circuit.h"

tensum_status ts_circuit_add(ts_circuit *circuit, const ts_gate *gate)
{
    tensum_status status =
        ts_reserve(circuit->gate_count + 1, sizeof *circuit->gates, "gates", &circuit->gate_capacity, &circuit->gates);
    if (status == TENSUM_OK) {
        circuit->gates[circuit->gate_count++] = *gate;
    }
    return status;
}

void ts_circuit_free(ts_circuit *circuit) { ts_free(circuit->gates); }

tensum_status ts_qsim_read(const ts_input *input, ts_circuit *circuit)
{
    tensum_status status = TENSUM_OK;
    ts_scanner scanner;
    int64_t before = 0;
    bool header = false;
    ts_scanner_start(&scanner, input);
    circuit->format = "qsim";
    do {
        ts_gate gate = {0};
        double parameters[3];
        int32_t parameter_count;
        int64_t time;
        char name[16];
        if (!ts_scan_in_line(&scanner) || input->bytes[scanner.token] == '#') {
            continue;
        }
        if (!header) {
            TRY(ts_token_integer(&scanner, "the number of qubits", 1, 10000, &circuit->qubit_count));
            header = true;
            continue;
        }
        TRY(ts_token_integer(&scanner, "the time of a gate", before, INT64_MAX, &time));
        before = time;
        if (!ts_scan_in_line(&scanner) || scanner.length >= sizeof name) {
            return ts_scan_fail(&scanner, "a gate");
        }
        memcpy(name, input->bytes + scanner.token, scanner.length);
        name[scanner.length] = 0;
        size_t at = scanner.token;
        if (!ts_gate_shape(name, &gate.qubit_count, &parameter_count)) {
            return ts_scan_fail(&scanner, "a unitary gate of qsim (measurements are not supported)");
        }
        for (int32_t i = 0; i < gate.qubit_count; i++) {
            if (!ts_scan_in_line(&scanner)) {
                return ts_input_fail(input, scanner.position, "expected %d qubits of gate %s", (int)gate.qubit_count, name);
            }
            TRY(ts_token_integer(&scanner, "a qubit", 0, circuit->qubit_count - 1, &gate.qubits[i]));
            for (int32_t k = 0; k < i; k++) {
                if (gate.qubits[k] == gate.qubits[i]) {
                    return ts_scan_fail(&scanner, "another qubit than before");
                }
            }
        }
        for (int32_t i = 0; i < parameter_count; i++) {
            if (!ts_scan_in_line(&scanner)) {
                return ts_input_fail(input, scanner.position, "expected %d parameters of gate %s", (int)parameter_count, name);
            }
            TRY(ts_token_real(&scanner, "a parameter", &parameters[i]));
        }
        if (ts_scan_in_line(&scanner)) {
            return ts_scan_fail(&scanner, "the end of the line");
        }
        if (!ts_gate_matrix(name, gate.qubit_count, parameter_count, parameters, gate.matrix)) {
            return ts_input_fail(input, at, "gate %s does not take these qubits and parameters", name);
        }
        TRY(ts_circuit_add(circuit, &gate));
    } while (ts_scan_next_line(&scanner));
    if (!header) {
        status = ts_input_fail(input, input->length, "expected the number of qubits, found the end of the file");
    }
done:
    return status;
}
