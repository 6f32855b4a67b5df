/* Kernels of one pair for one instruction set, as the drivers call them. Includes nothing of the library but element
 * operations, so that kernels, slow to compile, are compiled anew only when they change.
 *
 * Words: a panel is TILE rows (or columns) of an operand packed so that the kernel reads it front to back: for every
 * position of the sum ("depth") its rows side by side. A tile is rows x columns accumulators, row-major. Where winners are
 * wanted, a cell is one block of depths of one row or column, side by side: a panel of rows is, block by block, the cells of
 * its rows, and columns are turned into such panels, TS_CELL_COLUMNS wide, as well. */
#ifndef TS_CPU_KERNEL_H
#define TS_CPU_KERNEL_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What packing has seen in a panel. */
enum { TS_SEEN_NAN = 1, TS_SEEN_PLUS_INFINITY = 2, TS_SEEN_MINUS_INFINITY = 4, TS_SEEN_ZERO = 8,
       TS_SEEN_WIDE = 16 /* an integer beyond 32 bits */ };
/* By multiplication: which pairs of panels can make terms that the fast kernel would get wrong or, NaN, drop. */
typedef enum ts_cpu_trouble {
    TS_TROUBLE_NEVER,    /* integers, plain sums: the fast kernel is exact for everything */
    TS_TROUBLE_NAN,      /* min, max: NaN operands */
    TS_TROUBLE_OPPOSITE, /* plus: also infinity - infinity */
    TS_TROUBLE_ZERO,     /* times: also 0 x infinity */
    TS_TROUBLE_WIDE      /* times on 64-bit integers: factors beyond 32 bits, whose products may have to saturate */
} ts_cpu_trouble;

/* Upper bounds over all kernels and instruction sets. */
#define TS_MAX_TILE_ROWS 12
#define TS_MAX_TILE_COLUMNS 64
#define TS_MAX_TILE (TS_MAX_TILE_ROWS * TS_MAX_TILE_COLUMNS)
#define TS_MAX_ACCUMULATOR_BYTES (12 * 2 * 64) /* registers of a tile */

/* Rows of an operand to be packed. Offsets are in elements from source. */
typedef struct ts_cpu_panel {
    const void *source;
    const int64_t *rows;   /* [count] */
    const int64_t *depths; /* [depth] */
    int32_t width, count;  /* panel width; rows present (the others are padding) */
    int64_t depth;
    bool rows_unit, depth_unit; /* offsets ascend by one */
    bool conjugate;
    int64_t modulus;
    const double *shifts; /* log_sum_exp: subtracted from row i before exp */
} ts_cpu_panel;

/* Where tiles go: one, or several below each other. */
typedef struct ts_cpu_store {
    void *c;
    const int64_t *rows, *columns; /* offsets of c */
    int32_t row_count, column_count;
    bool columns_unit;
    bool accumulate;
    int64_t modulus;
    const double *row_shifts, *column_shifts; /* log_sum_exp */
    int64_t *winners; /* reductions: [column_count] or NULL; set to 0 where the result is 0 of the semiring */
    uint8_t *inexact; /* log_sum_exp: [tile] set to 1 where the shifted sum lost too much; written if store says so */
} ts_cpu_store;

/* Where the first winners of a tile, or of several below each other, are looked for: among the depths that its cells hold. */
enum { TS_FOUND_NONE = -1 /* not among these depths */, TS_FOUND_FIRST = -2 /* the first of all, by definition */ };
typedef struct ts_cpu_find {
    int64_t depth;
    const void *accumulators;
    const void *blocks;    /* [tile], integers of block_bytes: last block that improved the accumulator; all bits: none of these */
    bool some;             /* none of these may be */
    const void *a, *b;     /* cells */
    int64_t line;          /* depths that a panel of cells has room for */
    int32_t row_count, column_count;
    uint8_t *positions;    /* [tile], scratch */
    int32_t *winners;      /* as accumulators: the number of a depth, or TS_FOUND_... */
    /* Or, where `to` is not NULL, results of all depths: columns lie side by side, rows at these offsets, 0 for TS_FOUND_... */
    void *to;
    const int64_t *rows;
    bool wide;             /* 64 bits */
} ts_cpu_find;

/* What was found for a row of `width` accumulators. */
static inline __attribute__((always_inline)) void ts_cpu_put_found(const ts_cpu_find *f, int32_t row, const int32_t *found, int width)
{
    const int32_t columns = f->column_count; /* what is written could be f's */
    if (f->to == NULL) {
        memcpy(f->winners + row * width, found, (size_t)width * sizeof *found);
    } else if (f->wide) {
        int64_t *to = (int64_t *)f->to + f->rows[row];
        for (int32_t j = 0; j < columns; j++) {
            to[j] = found[j] < 0 ? 0 : found[j];
        }
    } else if (columns == width) {
        int32_t *to = (int32_t *)f->to + f->rows[row];
        for (int32_t j = 0; j < width; j++) {
            to[j] = found[j] < 0 ? 0 : found[j];
        }
    } else {
        int32_t *to = (int32_t *)f->to + f->rows[row];
        for (int32_t j = 0; j < columns; j++) {
            to[j] = found[j] < 0 ? 0 : found[j];
        }
    }
}

/* A small piece by plain loops. Offsets in elements. */
typedef struct ts_cpu_direct {
    const void *a, *b;
    void *c, *winners;
    int32_t batch, left, right, sum;
    const int64_t *batch_a, *batch_b, *batch_c, *batch_w;
    const int64_t *left_a, *left_c, *left_w;
    const int64_t *right_b, *right_c, *right_w;
    const int64_t *sum_a, *sum_b;
    bool right_unit_b, right_unit_c;
    bool conjugate_a, conjugate_b, accumulate;
    bool clean;  /* no product can be NaN */
    bool *loose; /* or NULL. Otherwise a is bounded; true is written where b may not be, so that later products may be NaN */
    uint8_t winner_bytes;
    int64_t modulus;
} ts_cpu_direct;
/* Most columns and depths of a direct piece. */
#define TS_DIRECT_COLUMNS 256
#define TS_DIRECT_DEPTH 256

/* A piece of a reduction: `kept` results, each over `sum` elements. first: index of sum[0] among all. */
typedef struct ts_cpu_reduce {
    const void *a;
    const int64_t *kept, *sum; /* offsets */
    int32_t kept_count, sum_count;
    bool kept_unit, sum_unit;
    int64_t first;
    void *accumulators; /* [kept_count], arithmetic type (log_sum_exp: maximum, sum) */
    int64_t *winners;   /* [kept_count] or NULL */
    int64_t modulus;
} ts_cpu_reduce;

/* log_sum_exp: what elements of an operand get of the cotangents g of the results c: sums[i] += sum over the other
 * operand's positions o of g exp(a + b - c). Cotangents are of the gradient type. Offsets in elements. */
typedef struct ts_cpu_shares {
    const void *a, *b, *c, *g;
    const int64_t *at_a, *at_b, *at_c, *at_g; /* [count] */
    int32_t count;
    int64_t others;
    const int64_t *other_b, *other_c, *other_g; /* [others] */
    double *sums;                               /* [count] */
} ts_cpu_shares;
/* Most elements of a piece. */
#define TS_SHARES 256

/* The same by panels of exponentials, see shares.c. Weights g exp(u + v - c), packed in panels of `width` rows. */
typedef struct ts_cpu_weights {
    const void *c, *g;
    int64_t base_c, base_g;
    const int64_t *rows_c, *rows_g, *others_c, *others_g;
    int64_t row_count, other_count, width;
    const double *row_shifts, *other_shifts; /* u, v */
    double *packed;
} ts_cpu_weights;
/* d <- sums exp(a - u), or added to it. */
typedef struct ts_cpu_spread {
    const void *a;
    void *d;
    int64_t base_d;
    const int64_t *rows_a, *depths_a, *rows_d, *depths_d;
    int64_t row_count, columns, stride;
    const double *row_shifts, *sums; /* sums: [row_count][stride] */
    bool accumulate;
} ts_cpu_spread;

typedef struct ts_cpu_kernel {
    const char *variant;       /* the way of multiplying, if there are several */
    const struct ts_cpu_kernel *next; /* another way: the same but for multiply and multiply_winners, and the same bits */
    int32_t rows, columns;
    int32_t packed_bytes;      /* one packed element, all planes */
    int32_t accumulator_bytes; /* one accumulator, all planes */
    int32_t words;             /* depths per packed element: 64 for booleans, else 1 */
    int32_t block_bytes;       /* number of a block */
    int32_t winner_block;      /* packed depths between two comparisons that follow the winner */
    int32_t cell_columns;
    ts_cpu_trouble trouble;
    bool shifted;              /* log_sum_exp */
    void (*start)(void *accumulators);
    unsigned (*pack)(const ts_cpu_panel *panel, void *packed);
    /* Winners are looked for in cells, unless these are NULL: rows are then packed in cells, and columns turned into some. */
    unsigned (*pack_cells)(const ts_cpu_panel *panel, void *cells);
    void (*column_cells)(int64_t depth, const void *packed, int64_t line, void *cells);
    void (*multiply)(int64_t depth, const void *a, const void *b, void *accumulators);
    /* blocks: see ts_cpu_find; the first depth belongs to block number `block`. NULL: values alone, rows without cells. */
    void (*multiply_careful)(int64_t depth, const void *a, const void *b, void *accumulators, void *blocks, int64_t block);
    void (*multiply_winners)(int64_t depth, const void *a, const void *b, void *accumulators, void *blocks, int64_t block);
    void (*find)(const ts_cpu_find *find);
    bool (*store)(const ts_cpu_store *store, const void *accumulators);
    void (*direct)(const ts_cpu_direct *direct);
    /* Floats: is an element of a tiny operand one of those that keep a chain of so many steps from making NaN? The huge operand's
     * are looked at by `direct`. May be NULL: nothing makes NaN, or nothing is known. */
    bool (*bounded)(const void *element, int32_t steps);
    /* log_sum_exp: raise maxima of panel rows; one result by two passes (maximum, then sum: pass 0, 1). */
    void (*maxima)(const ts_cpu_panel *panel, double *maxima);
    void (*exact)(int pass, int64_t depth, const void *a, const int64_t *depths_a, const void *b,
                  const int64_t *depths_b, double state[2]);
    void (*exact_store)(const double state[2], bool accumulate, void *c);
    void (*shares)(const ts_cpu_shares *piece);
    bool (*weights)(const ts_cpu_weights *weights); /* false: out of range, not usable */
    void (*exponentials)(const ts_cpu_panel *panel, double *packed); /* exp(x - shift of the depth) */
    void (*spread)(const ts_cpu_spread *spread);
    void (*reduce_start)(void *accumulators, int64_t *winners, int32_t count);
    void (*reduce)(const ts_cpu_reduce *piece);
    void (*reduce_store)(const ts_cpu_store *store, const void *accumulators); /* rows: one; columns: kept */
} ts_cpu_kernel;

#endif
