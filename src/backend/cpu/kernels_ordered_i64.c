#include "backend/cpu/kernel.h"
#include "backend/cpu/vector.h"

#define ORDERED_D i64
#define ORDERED_WIDE i64
#define ORDERED_LOWEST INT64_MIN
#define ORDERED_HIGHEST INT64_MAX
#define ORDERED_WIDE_START INT64_MIN
#define ORDERED_SATURATE(x) (x)
#define ORDERED_WIDE_MULTIPLY(x, y) ts_ntimes_i64(x, y, 0)
#define ORDERED_SATURATES ts_vsaturate_i64 /* there is no wider type */
#include "backend/cpu/ordered_integer.inc"
