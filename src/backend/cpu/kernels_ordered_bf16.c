#include "backend/cpu/kernel.h"
#include "backend/cpu/vector.h"

#define ORDERED_D bf16
#define ORDERED_P f32
#define ORDERED_ROUND_VECTOR ts_vround_bf16
#define ORDERED_ROUND_HALF ts_hround_bf16
#define ORDERED_INFINITY TS_INFINITY_F32
#define ORDERED_ROUNDS 1
#include "backend/cpu/ordered_float.inc"
