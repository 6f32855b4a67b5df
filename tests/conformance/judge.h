#ifndef CONFORMANCE_JUDGE_H
#define CONFORMANCE_JUDGE_H

#include "conformance.h"

/* Write a message; false. */
bool disagree(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

bool check_gradients(const test_case *test, const expectation *expected, const case_outcome *outcome, case_tally *tally, char *text,
                     size_t bytes);
/* Bounds for gradients of semirings that add: [size of operand t], to be freed; NULL where they are not known. */
double *gradient_tolerances(const test_case *test, const expectation *expected, int t);

#endif
