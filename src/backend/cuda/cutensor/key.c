/* Equal work has equal keys: modes are fused, sorted and nameless, and of the two orders of operands one is taken. */
#include <stddef.h>

#include "backend/cuda/cutensor/cutensor.h"

size_t ts_cutensor_key_bytes(const ts_cutensor_key *key)
{
    return offsetof(ts_cutensor_key, modes) + (size_t)key->mode_count * sizeof key->modes[0];
}

static bool library_dtype(tensum_dtype dtype, int32_t *number, int32_t *compute)
{
    *compute = 32;
    switch (dtype) {
    case TENSUM_F16:
        *number = TS_CT_R_16F;
        return true;
    case TENSUM_BF16:
        *number = TS_CT_R_16BF;
        return true;
    case TENSUM_F32:
        *number = TS_CT_R_32F;
        return true;
    case TENSUM_C64:
        *number = TS_CT_C_32F;
        return true;
    case TENSUM_F64:
        *number = TS_CT_R_64F;
        *compute = 64;
        return true;
    case TENSUM_C128:
        *number = TS_CT_C_64F;
        *compute = 64;
        return true;
    default:
        return false;
    }
}

/* Does a tensor with these strides use no element twice, as the library demands? */
static bool apart(const ts_mode *modes, int32_t count, size_t member)
{
    struct {
        int64_t stride, extent;
    } sorted[TS_CUTENSOR_MOST_MODES];
    int32_t used = 0;

    for (int32_t i = 0; i < count; i++) {
        int64_t stride;
        int32_t j = used;
        memcpy(&stride, (const char *)&modes[i] + member, sizeof stride);
        if (stride == 0) {
            continue;
        }
        for (; j > 0 && sorted[j - 1].stride > stride; j--) {
            sorted[j] = sorted[j - 1];
        }
        sorted[j].stride = stride;
        sorted[j].extent = modes[i].extent;
        used++;
    }
    for (int32_t i = 0; i + 1 < used; i++) {
        int64_t reach;
        if (!ts_multiply(sorted[i].stride, sorted[i].extent, &reach) || reach > sorted[i + 1].stride) {
            return false;
        }
    }
    return true;
}

/* Fill in the modes. */
static void put_modes(const ts_mode *modes, int32_t count, ts_cutensor_key *key)
{
    /* Tensors that have the mode, as bits: a 1, b 2, c 4. Batch, those of a, those of b, summed. */
    static const int classes[4] = {7, 5, 6, 3};
    ts_mode sorted[TS_CUTENSOR_MOST_MODES];

    key->mode_count = 0;
    for (int k = 0; k < 4; k++) {
        int32_t members = 0;
        for (int32_t i = 0; i < count; i++) {
            int has = (modes[i].a != 0) | (modes[i].b != 0) << 1 | (modes[i].c != 0) << 2;
            if (has == classes[k]) {
                sorted[members++] = modes[i];
            }
        }
        ts_modes_sort(sorted, members);
        members = ts_modes_fuse(sorted, members);
        for (int32_t i = 0; i < members; i++) {
            key->modes[key->mode_count++] = (ts_cutensor_mode){sorted[i].extent, sorted[i].a, sorted[i].b, sorted[i].c};
        }
    }
}

bool ts_cutensor_key_make(const ts_contract_spec *spec, const int32_t alignments[3], ts_cutensor_key *key, bool *swapped)
{
    ts_mode modes[TS_CUTENSOR_MOST_MODES];
    ts_cutensor_key other;
    int32_t total = spec->batch_count + spec->left_count + spec->right_count + spec->sum_count, count = 0;

    memset(key, 0, sizeof *key);
    if (spec->algebra.semiring != TENSUM_SUM_PRODUCT || spec->winner_bytes != 0 ||
        !library_dtype(spec->algebra.dtype, &key->dtype, &key->compute) || spec->batch == 0 || spec->left == 0 ||
        spec->right == 0 || spec->sum <= 1) {
        return false; /* products without a sum need no library, and it might leave -0 in them */
    }
    for (int32_t i = 0; i < total; i++) {
        const ts_mode *from = &spec->modes[i];
        int has = (from->a != 0) | (from->b != 0) << 1 | (from->c != 0) << 2;
        if (from->extent == 1) {
            continue;
        }
        if (count == TS_CUTENSOR_MOST_MODES || from->a < 0 || from->b < 0 || from->c < 0 || has == 1 || has == 2 ||
            has == 4 || has == 0) {
            return false; /* sums over one operand and broadcasts are no contraction there */
        }
        modes[count++] = (ts_mode){.extent = from->extent, .a = from->a, .b = from->b, .c = from->c};
    }
    if (!apart(modes, count, offsetof(ts_mode, a)) || !apart(modes, count, offsetof(ts_mode, b)) ||
        !apart(modes, count, offsetof(ts_mode, c))) {
        return false;
    }
    key->preference = TS_CT_WORKSPACE_DEFAULT;
    key->alignment_a = alignments[0];
    key->alignment_b = alignments[1];
    key->alignment_c = alignments[2];
    key->conjugate_a = spec->conjugate_a;
    key->conjugate_b = spec->conjugate_b;
    other = *key;
    other.alignment_a = alignments[1];
    other.alignment_b = alignments[0];
    other.conjugate_a = spec->conjugate_b;
    other.conjugate_b = spec->conjugate_a;
    put_modes(modes, count, key);
    for (int32_t i = 0; i < count; i++) {
        int64_t a = modes[i].a;
        modes[i].a = modes[i].b;
        modes[i].b = a;
    }
    put_modes(modes, count, &other);
    *swapped = other.mode_count == key->mode_count && memcmp(&other, key, ts_cutensor_key_bytes(key)) < 0;
    if (*swapped) {
        *key = other;
    }
    return true;
}
