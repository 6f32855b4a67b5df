/* Are the values of the operands of a run inside of the semiring's domain? A first pass looks at whole blocks, in memory
 * order, and only says whether; where it finds something the second one names the first element. */
#include <inttypes.h>

#include "algebra/element.h"
#include "execute/workspace.h"

enum { BLOCK = 256 }; /* a constant number of elements, so that the compiler makes vectors of the loop */

/* The condition that an element x breaks, over elements of one type. */
#define ANY(type, bad)                                                                         \
    do {                                                                                       \
        const type *values = (const type *)(const void *)data;                                 \
        for (; count >= BLOCK && stride == 1 && found == 0; count -= BLOCK, values += BLOCK) { \
            for (int i = 0; i < BLOCK; i++) {                                                  \
                const type x = values[i];                                                      \
                found |= (bad);                                                                \
            }                                                                                  \
        }                                                                                      \
        for (int64_t i = 0; i < count; i++) {                                                  \
            const type x = values[i * stride];                                                 \
            found |= (bad);                                                                    \
        }                                                                                      \
    } while (0)

/* Is any of `count` elements outside? */
static bool any_outside(ts_algebra algebra, const char *data, int64_t count, int64_t stride)
{
    const bool plus = algebra.semiring == TENSUM_MAX_PLUS || algebra.semiring == TENSUM_MIN_PLUS;
    const bool up = algebra.semiring == TENSUM_MAX_PLUS;
    int found = 0;
    switch (algebra.dtype) {
    case TENSUM_I16: {
        const int16_t zero = up ? -TS_TROPICAL_Z_i16 : TS_TROPICAL_Z_i16;
        if (plus) {
            ANY(int16_t, (x != zero) & ((x > TS_TROPICAL_R_i16) | (x < -TS_TROPICAL_R_i16)));
        } else {
            ANY(int16_t, x < 0);
        }
        break;
    }
    case TENSUM_I32: {
        const int32_t zero = up ? -TS_TROPICAL_Z_i32 : TS_TROPICAL_Z_i32;
        if (plus) {
            ANY(int32_t, (x != zero) & ((x > TS_TROPICAL_R_i32) | (x < -TS_TROPICAL_R_i32)));
        } else {
            ANY(int32_t, x < 0);
        }
        break;
    }
    case TENSUM_I64: {
        const int64_t zero = up ? -TS_TROPICAL_Z_i64 : TS_TROPICAL_Z_i64;
        if (algebra.semiring == TENSUM_SUM_PRODUCT_MOD) {
            ANY(int64_t, (x < 0) | (x >= algebra.modulus));
        } else if (plus) {
            ANY(int64_t, (x != zero) & ((x > TS_TROPICAL_R_i64) | (x < -TS_TROPICAL_R_i64)));
        } else {
            ANY(int64_t, x < 0);
        }
        break;
    }
    case TENSUM_F16: /* negative: the sign is set, and it is neither -0 nor NaN */
        ANY(uint16_t, (x > 0x8000) & (x <= 0xfc00));
        break;
    case TENSUM_BF16:
        ANY(uint16_t, (x > 0x8000) & (x <= 0xff80));
        break;
    case TENSUM_F32: ANY(float, x < 0); break;
    case TENSUM_F64: ANY(double, x < 0); break;
    case TENSUM_BOOL: ANY(uint8_t, x > 1); break;
    default: break;
    }
    return found != 0;
}

/* Every element once, in memory order. */
static bool all_inside(ts_algebra algebra, const tensum_tensor *tensor)
{
    ts_mode modes[64];
    int64_t index[64] = {0}, compact = 1, bytes = (int64_t)tensum_dtype_bytes(tensor->dtype);
    int32_t count = 0;
    for (int32_t i = tensor->rank - 1; i >= 0; i--) {
        const ts_mode mode = {.extent = tensor->extents[i], .c = tensor->strides != NULL ? tensor->strides[i] : compact};
        compact *= tensor->extents[i];
        if (mode.extent == 0) {
            return true;
        }
        if (mode.extent > 1 && mode.c != 0) { /* what repeats is looked at once */
            modes[count++] = mode;
        }
    }
    ts_modes_sort(modes, count);
    count = ts_modes_fuse(modes, count);
    const char *data = tensor->data;
    const int64_t run = count > 0 ? modes[count - 1].extent : 1, stride = count > 0 ? modes[count - 1].c : 1;
    for (;;) {
        if (any_outside(algebra, data, run, stride)) {
            return false;
        }
        int32_t m = count - 2;
        for (; m >= 0; m--) {
            data += modes[m].c * bytes;
            if (++index[m] < modes[m].extent) {
                break;
            }
            data -= modes[m].c * modes[m].extent * bytes;
            index[m] = 0;
        }
        if (m < 0) {
            return true;
        }
    }
}

/* The first element outside, for the message. */
static tensum_status check_operand(ts_algebra algebra, const tensum_tensor *tensor, int64_t operand)
{
    int64_t index[64] = {0}, total = 1, compact = 1, strides[64], extents[64];
    int32_t rank = 0;
    size_t bytes = tensum_dtype_bytes(tensor->dtype);
    for (int32_t i = 0; i < tensor->rank; i++) {
        total *= tensor->extents[i];
    }
    for (int32_t i = tensor->rank - 1; i >= 0; i--) { /* innermost first */
        int64_t stride = tensor->strides != NULL ? tensor->strides[i] : compact;
        compact *= tensor->extents[i];
        if (tensor->extents[i] != 1 && rank < 64) {
            strides[rank] = stride;
            extents[rank++] = tensor->extents[i];
        }
    }
    const char *data = tensor->data;
    for (int64_t done = 0; done < total;) {
        int64_t run = rank > 0 ? extents[0] : 1, stride = rank > 0 ? strides[0] * (int64_t)bytes : 0;
        for (int64_t i = 0; i < run; i++) {
            if (!ts_in_domain(algebra, data + i * stride)) {
                char text[64];
                return ts_fail(TENSUM_STATUS_DOMAIN, "operand %" PRId64 ", element %" PRId64 " (row-major): %s is outside the domain of %s over %s",
                               operand, done + i, ts_format_element(algebra.dtype, data + i * stride, text, sizeof text),
                               tensum_semiring_name(algebra.semiring), tensum_dtype_name(algebra.dtype));
            }
        }
        done += run;
        for (int32_t m = 1; m < rank; m++) {
            data += strides[m] * (int64_t)bytes;
            if (++index[m] < extents[m]) {
                break;
            }
            data -= strides[m] * extents[m] * (int64_t)bytes;
            index[m] = 0;
        }
    }
    return TENSUM_OK;
}

tensum_status ts_check_domain(ts_algebra algebra, const tensum_tensor *inputs, int64_t count)
{
    bool plus = algebra.semiring == TENSUM_MAX_PLUS || algebra.semiring == TENSUM_MIN_PLUS;
    bool times = algebra.semiring == TENSUM_MAX_TIMES || algebra.semiring == TENSUM_MIN_TIMES;
    bool integer = algebra.dtype == TENSUM_I16 || algebra.dtype == TENSUM_I32 || algebra.dtype == TENSUM_I64;
    if (!times && !(plus && integer) && algebra.semiring != TENSUM_SUM_PRODUCT_MOD && algebra.dtype != TENSUM_BOOL) {
        return TENSUM_OK; /* every value is inside */
    }
    for (int64_t i = 0; i < count; i++) {
        if (all_inside(algebra, &inputs[i])) {
            continue;
        }
        tensum_status status = check_operand(algebra, &inputs[i], i);
        if (status != TENSUM_OK) {
            return status;
        }
    }
    return TENSUM_OK;
}
