/* Making the tables of a chain, forwards (chain_table.c) and backwards (chain_back.c). */
#ifndef TS_CUDA_CHAIN_MAKER_H
#define TS_CUDA_CHAIN_MAKER_H

#include "backend/cuda/chain.h"

/* A label of the tile. */
typedef struct ts_tile_label {
    int32_t label;
    int64_t extent, whole;       /* in the tile; of the label, where it is of the run */
    bool run, cut;               /* not of a tiny operand; in pieces */
    int32_t place[TS_CUDA_CHAIN_STEPS + 1]; /* step in shared memory, of the operand and of every result; 0: not there */
    int64_t a, c[TS_CUDA_CHAIN_STEPS];
} ts_tile_label;
/* One mode of a list: what a step along it adds. */
typedef struct ts_list_mode {
    int64_t extent, global, key;
    int32_t x, y, z; /* shared, cut; or in, out, coefficient */
} ts_list_mode;

typedef struct ts_maker {
    const ts_cuda_emission *emission;
    const ts_cuda_chain_group *group;
    ts_extra_strides slots[TS_CUDA_CHAIN_STEPS]; /* tensors in device memory beside the operand: in tables, `c` of the same number */
    ts_tile_label labels[2 * TS_CHAIN_MOST_LIVE];
    int32_t count;
    int64_t run, pitch; /* elements in a row, and in shared memory */
    unsigned char *table;
    size_t bytes;    /* of the table so far */
    size_t capacity;
    int threads;
} ts_maker;

/* Room in the table; NULL where it is too small. */
void *ts_maker_room(ts_maker *m, size_t bytes, uint32_t *offset);
/* How modes (the fastest first) are divided between threads and a list: the first `own` of them make the threads' own
 * places. Returns the positions of those. */
int64_t ts_maker_divide(const ts_list_mode *modes, int32_t count, int threads, int32_t *own);
ts_list_mode ts_maker_at_of(const ts_list_mode *modes, int32_t count, int64_t index);
int64_t ts_maker_size_of(const ts_list_mode *modes, int32_t count);
/* The list that is copied, and later what each thread has of its own. places: of elements; else of units. */
bool ts_maker_write_list(ts_maker *m, const ts_list_mode *modes, int32_t count, bool places, bool own_part,
                         ts_cuda_chain_list *list);
int64_t ts_maker_stride_in(const ts_maker *m, int32_t value, int32_t label);
int64_t ts_maker_slot_stride(const ts_maker *m, int32_t slot, int32_t label);
const ts_step *ts_maker_step_of(const ts_maker *m, int32_t k);
/* Choose the tile's labels, of at most so many elements in any tensor and about so many in a run, and write where tiles begin.
 * The table is there, and the slots are known. False: not for these strides. */
bool ts_maker_begin(ts_maker *m, int64_t tile_elements, int64_t longest_run, ts_cuda_chain_table *t, int64_t *tiles);
/* Sizes of step k; its coefficients lie behind *coefficients others. */
void ts_maker_begin_step(const ts_maker *m, int32_t k, size_t *coefficients, ts_cuda_chain_step *made);
/* Lay the tile's tensors out in shared memory: the run innermost, then the other labels in the order of memory. Returns
 * elements of tensor `stage` (0: the operand, k + 1: result k). */
int64_t ts_maker_lay_out(ts_maker *m, int32_t stage, int32_t value);
/* Modes of what is loaded into or stored from tensor `stage`, from or to the operand (slot -1) or a slot; the wide ones count
 * accesses of 16 bytes. */
int32_t ts_maker_memory_modes(ts_maker *m, int32_t stage, int32_t slot, ts_list_mode *modes, int32_t *width);
/* Modes of a step's units: along the run, then labels that are only passed on, then those the tiny operand shares. */
int32_t ts_maker_unit_modes(const ts_maker *m, int32_t k, int32_t per_unit, int32_t padded, ts_list_mode *modes);
/* Share out the columns of a step whose units are fewer than threads: modes behind those of its units, as many as are returned. */
int32_t ts_maker_column_modes(const ts_maker *m, int32_t k, ts_list_mode *modes, int32_t unit_count, ts_cuda_chain_step *made);
/* Offsets of the sum's terms (canonical order) and of the columns, in shared memory, and where the coefficients are. */
bool ts_maker_write_step(ts_maker *m, int32_t k, const ts_list_mode *units, int32_t unit_count, bool copied,
                         ts_cuda_chain_step *made);

#endif
