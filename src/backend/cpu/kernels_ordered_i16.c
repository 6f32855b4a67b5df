#include "backend/cpu/kernel.h"
#include "backend/cpu/vector.h"

#define ORDERED_D i16
#define ORDERED_WIDE i32
#define ORDERED_LOWEST INT16_MIN
#define ORDERED_HIGHEST INT16_MAX
#define ORDERED_WIDE_START INT32_MIN
#define ORDERED_SATURATE(x) ((x) > INT16_MAX ? INT16_MAX : (x) < INT16_MIN ? INT16_MIN : (x))
#define ORDERED_WIDE_MULTIPLY(x, y) ((x) * (y))
#define ORDERED_ROUND_VECTOR ts_vround_i16
#include "backend/cpu/ordered_integer.inc"
