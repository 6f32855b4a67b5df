#include <inttypes.h>

#include "execute/workspace.h"

tensum_status tensum_combine(tensum_semiring semiring, const tensum_tensor *part, const tensum_tensor *c)
{
    ts_mode modes[64];
    int32_t count = 0;
    int64_t part_compact = 1, c_compact = 1, size = 1;
    if (part == NULL || c == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_combine: part and c must not be NULL");
    }
    tensum_status status = ts_pair_check(semiring, c->dtype);
    if (status != TENSUM_OK) {
        return status;
    }
    if (semiring == TENSUM_SUM_PRODUCT_MOD) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "tensum_combine does not know the modulus of sum_product_mod");
    }
    if (part->dtype != c->dtype) {
        return ts_fail(TENSUM_STATUS_DTYPE_MISMATCH, "part has dtype %s, c has %s",
                       tensum_dtype_name(part->dtype) ? tensum_dtype_name(part->dtype) : "(unknown)", tensum_dtype_name(c->dtype));
    }
    if (part->rank != c->rank) {
        return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "part has rank %d, c has %d", (int)part->rank, (int)c->rank);
    }
    for (int32_t i = c->rank - 1; i >= 0; i--) {
        int64_t extent = c->extents[i];
        if (part->extents[i] != extent) {
            return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "mode %d: part has extent %" PRId64 ", c has %" PRId64, (int)i,
                           part->extents[i], extent);
        }
        ts_mode mode = {extent, part->strides != NULL ? part->strides[i] : part_compact, 0,
                        c->strides != NULL ? c->strides[i] : c_compact, 0, 0, 0};
        part_compact *= extent;
        c_compact *= extent;
        size *= extent;
        if (extent != 1) {
            if (count == 64) {
                return ts_fail(TENSUM_STATUS_UNSUPPORTED, "more than 64 modes of extent other than 1");
            }
            modes[count++] = mode;
        }
    }
    if (size == 0) {
        return TENSUM_OK;
    }
    ts_reduce_spec spec = {{semiring, c->dtype, 0}, count, 0, modes, size, 1, true, 0};
    ts_run run = {NULL, NULL, 0};
    return ts_backend_find(TENSUM_REFERENCE)->reduce(&spec, part->data, c->data, NULL, &run);
}
