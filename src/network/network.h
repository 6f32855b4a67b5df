/* The network: labels by number, operands, output. Immutable after creation. */
#ifndef TS_NETWORK_NETWORK_H
#define TS_NETWORK_NETWORK_H

#include <stdatomic.h>

#include "core/core.h"

/* Labels are numbered 0.. in order of first occurrence in the inputs, then in the output: the canonical order.
 * Operand i has raw modes modes[offsets[i] .. offsets[i+1]), the output is operand number operand_count.
 * An effective label of an operand is one whose mode there has extent != 1 (or rather: extent equal to the label's
 * extent, which is not 1); other modes are dropped, which is what broadcasting a size-1 mode means. */
struct tensum_network {
    atomic_int references;
    int64_t operand_count;
    int32_t label_count;
    int64_t *label_names;   /* [label_count] public labels */
    int64_t *label_extents; /* [label_count] */
    int64_t *offsets;       /* [operand_count + 2], into the raw arrays */
    int32_t *raw_labels;    /* label numbers */
    int64_t *raw_names;     /* public labels, for tensum_network_operand */
    int64_t *raw_extents;
    int64_t *effective_offsets; /* [operand_count + 2] */
    int32_t *effective;         /* distinct effective labels per operand, ascending */
};

/* tensum_network_parse where output_extents [output_rank] give the extents of labels that occur in the output only
 * (NULL: none are given). */
tensum_status ts_network_parse_into(const char *expression, int64_t operand_count, const int32_t *ranks,
                                    const int64_t *const *extents, int32_t output_rank, const int64_t *output_extents,
                                    tensum_network **network);
/* Print a label for a message: the character where it is one, else the number. Returns text. */
const char *ts_label_text(int64_t label, char *text, size_t bytes);

#endif
