/* The instruction set this file is being compiled for: vector width and tile shape. The build compiles every kernel
 * source once per instruction set and says which with TS_ISA_AVX512, TS_ISA_AVX2 or TS_ISA_GENERIC. */
#ifndef TS_CPU_ISA_H
#define TS_CPU_ISA_H

#if defined(TS_ISA_AVX512)
#define TS_ISA avx512
#define TS_VECTOR_BYTES 64
#define TS_TILE_ROWS 12 /* 12 x 2 accumulators of 32 registers */
#elif defined(TS_ISA_AVX2)
#define TS_ISA avx2
#define TS_VECTOR_BYTES 32
#define TS_TILE_ROWS 6 /* 6 x 2 accumulators of 16 registers */
#elif defined(TS_ISA_GENERIC)
#define TS_ISA generic
#define TS_VECTOR_BYTES 16 /* SSE2, NEON; elsewhere the compiler splits it */
#if defined(__aarch64__)
#define TS_TILE_ROWS 8
#else
#define TS_TILE_ROWS 4
#endif
#else
#error "the build chooses an instruction set"
#endif
/* Kernels with two accumulator planes (complex numbers, value and count, residues) halve the rows. */
#define TS_TILE_ROWS_2 (TS_TILE_ROWS / 2)
#define TS_TILE_VECTORS 2
/* Depths between two comparisons that follow the winner, a multiple of the elements of a vector; columns whose cells lie
 * together while winners are looked for: few, so that with 1024 depths they leave most of the first-level cache's ways to rows. */
#define TS_WINNER_BLOCK (TS_VECTOR_BYTES < 64 ? 16 : 32)
#define TS_CELL_COLUMNS(type) (16 / (int)sizeof(type))

#define TS_CPU_PASTE2(a, b) a##_##b
#define TS_CPU_PASTE3(a, b, c) a##_##b##_##c
#define TS_CPU_PASTE4(a, b, c, d) a##_##b##_##c##_##d
#define TS_CPU_NAME2(a, b) TS_CPU_PASTE2(a, b)
#define TS_CPU_NAME3(a, b, c) TS_CPU_PASTE3(a, b, c)
#define TS_CPU_NAME4(a, b, c, d) TS_CPU_PASTE4(a, b, c, d)

#endif
