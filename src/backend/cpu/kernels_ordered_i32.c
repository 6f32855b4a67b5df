#include "backend/cpu/kernel.h"
#include "backend/cpu/vector.h"

#define ORDERED_D i32
#define ORDERED_WIDE i64
#define ORDERED_LOWEST INT32_MIN
#define ORDERED_HIGHEST INT32_MAX
#define ORDERED_WIDE_START INT64_MIN
#define ORDERED_SATURATE(x) ((x) > INT32_MAX ? INT32_MAX : (x) < INT32_MIN ? INT32_MIN : (x))
#define ORDERED_WIDE_MULTIPLY(x, y) ((x) * (y))
#define ORDERED_ROUND_VECTOR ts_vround_i32
#include "backend/cpu/ordered_integer.inc"
