/* The oracle: the same plan by naive loops. Never fast, never clever. */
#include <stdio.h>

#include "backend/backend.h"
#include "algebra/sums.h"
#include "backend/reference/tree_sum.h"

typedef struct position {
    int64_t a, b, c, w, g, d;
} position;

static void zero_position(position *p) { memset(p, 0, sizeof *p); }

/* Add to *p the offsets of the linear row-major index over `modes`. */
static void advance(position *p, const ts_mode *modes, int32_t count, int64_t index)
{
    for (int32_t i = count - 1; i >= 0; i--) {
        int64_t x = index % modes[i].extent;
        index /= modes[i].extent;
        p->a += x * modes[i].a;
        p->b += x * modes[i].b;
        p->c += x * modes[i].c;
        p->w += x * modes[i].w;
        p->g += x * modes[i].g;
        p->d += x * modes[i].d;
    }
}

static const char *at(const void *base, int64_t index, size_t bytes) { return (const char *)base + index * (int64_t)bytes; }

static void put_winner(void *winners, int64_t index, uint8_t bytes, int64_t winner)
{
    if (bytes == 4) {
        ((int32_t *)winners)[index] = (int32_t)winner;
    } else if (bytes == 8) {
        ((int64_t *)winners)[index] = winner;
    }
}

static int64_t get_winner(const void *winners, int64_t index, uint8_t bytes)
{
    return bytes == 4 ? ((const int32_t *)winners)[index] : ((const int64_t *)winners)[index];
}

static double get_real(const void *g, int64_t index, tensum_dtype dtype)
{
    return dtype == TENSUM_F32 ? (double)((const float *)g)[index] : ((const double *)g)[index];
}

static void put_real(void *d, int64_t index, tensum_dtype dtype, double value, bool accumulate)
{
    if (dtype == TENSUM_F32) {
        float *target = (float *)d + index;
        *target = accumulate ? *target + (float)value : (float)value;
    } else {
        double *target = (double *)d + index;
        *target = accumulate ? *target + value : value;
    }
}

static int32_t one_device(void) { return 1; }

static tensum_status query(int32_t index, tensum_device_info *info)
{
    (void)index;
    snprintf(info->name, sizeof info->name, "reference");
    snprintf(info->driver, sizeof info->driver, "naive loops");
    snprintf(info->detail, sizeof info->detail, "the oracle: right, never fast");
    return TENSUM_OK;
}

static tensum_status contract(const ts_contract_spec *spec, const void *a, const void *b, void *c, void *winners,
                              const ts_run *run)
{
    const ts_pair *pair = ts_pair_of(spec->algebra.semiring, spec->algebra.dtype);
    size_t bytes = tensum_dtype_bytes(spec->algebra.dtype);
    const ts_mode *left = spec->modes + spec->batch_count, *right = left + spec->left_count,
                  *sum = right + spec->right_count;
    (void)run;
    for (int64_t i = 0; i < spec->batch; i++) {
        for (int64_t l = 0; l < spec->left; l++) {
            for (int64_t r = 0; r < spec->right; r++) {
                position p, q;
                ts_sum total = {.modulus = spec->algebra.modulus,
                                          .conjugate_a = spec->conjugate_a,
                                          .conjugate_b = spec->conjugate_b};
                zero_position(&p);
                advance(&p, spec->modes, spec->batch_count, i);
                advance(&p, left, spec->left_count, l);
                advance(&p, right, spec->right_count, r);
                for (int64_t k = 0; k < spec->sum; k++) {
                    q = p;
                    advance(&q, sum, spec->sum_count, k);
                    pair->feed(&total, at(a, q.a, bytes), at(b, q.b, bytes));
                }
                pair->end(&total, (void *)(uintptr_t)at(c, p.c, bytes), spec->accumulate);
                put_winner(winners, p.w, spec->winner_bytes, total.winner);
            }
        }
    }
    return TENSUM_OK;
}

static tensum_status reduce(const ts_reduce_spec *spec, const void *a, void *c, void *winners, const ts_run *run)
{
    const ts_pair *pair = ts_pair_of(spec->algebra.semiring, spec->algebra.dtype);
    size_t bytes = tensum_dtype_bytes(spec->algebra.dtype);
    (void)run;
    for (int64_t i = 0; i < spec->kept; i++) {
        position p, q;
        ts_sum total = {.modulus = spec->algebra.modulus};
        zero_position(&p);
        advance(&p, spec->modes, spec->kept_count, i);
        char *target = (char *)(uintptr_t)at(c, p.c, bytes);
        if (spec->sum_count == 0 && spec->sum == 1 && !spec->accumulate) {
            memcpy(target, at(a, p.a, bytes), bytes); /* data movement keeps bits */
            put_winner(winners, p.w, spec->winner_bytes, 0);
            continue;
        }
        for (int64_t k = 0; k < spec->sum; k++) {
            q = p;
            advance(&q, spec->modes + spec->kept_count, spec->sum_count, k);
            pair->feed(&total, at(a, q.a, bytes), NULL);
        }
        pair->end(&total, target, spec->accumulate);
        put_winner(winners, p.w, spec->winner_bytes, total.winner);
    }
    return TENSUM_OK;
}

/* What the cotangent of the term (x, y) is multiplied by for the operand that holds x. */
static double factor(tensum_semiring semiring, double x, double y, bool tie_here)
{
    switch (semiring) {
    case TENSUM_MAX_TIMES:
    case TENSUM_MIN_TIMES:
        return y;
    case TENSUM_MAX_MIN: /* the product is the smaller factor; NaN counts as attaining */
        return x < y || (x != x && (y == y || tie_here)) || (x == y && tie_here) ? 1 : 0;
    case TENSUM_MIN_MAX:
        return x > y || (x != x && (y == y || tie_here)) || (x == y && tie_here) ? 1 : 0;
    default:
        return 1;
    }
}

/* The share of one term of a log-sum-exp: g exp(term - total), 0 whatever g where the total is 0 of the semiring. */
static double weighted(double g, double term, double total)
{
    return total == -TS_INFINITY_F64 ? 0 : g * exp(term - total);
}

static tensum_status adjoint(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c,
                             const void *winners, const void *g, void *d, const ts_run *run)
{
    const ts_pair *pair = ts_pair_of(spec->algebra.semiring, spec->algebra.dtype);
    size_t bytes = tensum_dtype_bytes(spec->algebra.dtype);
    tensum_dtype real = tensum_dtype_gradient(spec->algebra.dtype);
    const ts_mode *left = spec->modes + spec->batch_count, *right = left + spec->left_count,
                  *sum = right + spec->right_count;
    bool first = spec->side == 0;
    const ts_mode *own = first ? left : right, *other = first ? right : left;
    int32_t own_count = first ? spec->left_count : spec->right_count;
    int32_t other_count = first ? spec->right_count : spec->left_count;
    int64_t own_size = first ? spec->left : spec->right, other_size = first ? spec->right : spec->left;
    (void)run;
    for (int64_t i = 0; i < spec->batch; i++) {
        for (int64_t o = 0; o < own_size; o++) {
            for (int64_t k = 0; k < spec->sum; k++) {
                position p, q;
                ts_tree_sum total = {.single = real == TENSUM_F32};
                zero_position(&p);
                advance(&p, spec->modes, spec->batch_count, i);
                advance(&p, own, own_count, o);
                for (int64_t t = 0; t < other_size; t++) {
                    q = p;
                    advance(&q, other, other_count, t);
                    position s = q;
                    advance(&s, sum, spec->sum_count, k);
                    double x = pair->real(at(first ? a : b, first ? s.a : s.b, bytes));
                    double y = pair->real(at(first ? b : a, first ? s.b : s.a, bytes));
                    double share = 0;
                    if (spec->algebra.semiring == TENSUM_LOG_SUM_EXP) {
                        share = weighted(get_real(g, q.g, real), x + y, pair->real(at(c, q.c, bytes)));
                    } else if (spec->algebra.semiring == TENSUM_SUM_PRODUCT) {
                        share = get_real(g, q.g, real) * y;
                    } else if (winners == NULL ? k == 0 : get_winner(winners, q.w, spec->winner_bytes) == k) {
                        double f = factor(spec->algebra.semiring, x, y, spec->tie_here);
                        share = f == 0 && spec->algebra.semiring >= TENSUM_MAX_MIN ? 0 : get_real(g, q.g, real) * f;
                    }
                    ts_tree_feed(&total, real == TENSUM_F32 ? (double)(float)share : share);
                }
                position s = p;
                advance(&s, sum, spec->sum_count, k);
                put_real(d, s.d, real, ts_tree_end(&total), spec->accumulate);
            }
        }
    }
    return TENSUM_OK;
}

/* Complex: the sum over broadcast positions of g, for sum_product only. */
static void put_complex(void *d, int64_t index, tensum_dtype dtype, ts_c128 value, bool accumulate)
{
    if (dtype == TENSUM_C64) {
        ts_c64 *target = (ts_c64 *)d + index;
        target->re = (accumulate ? target->re : 0) + (float)value.re;
        target->im = (accumulate ? target->im : 0) + (float)value.im;
    } else {
        ts_c128 *target = (ts_c128 *)d + index;
        target->re = (accumulate ? target->re : 0) + value.re;
        target->im = (accumulate ? target->im : 0) + value.im;
    }
}

static tensum_status reduce_adjoint(const ts_reduce_adjoint_spec *spec, const void *a, const void *c,
                                    const void *winners, const void *g, void *d, const ts_run *run)
{
    const ts_pair *pair = ts_pair_of(spec->algebra.semiring, spec->algebra.dtype);
    size_t bytes = tensum_dtype_bytes(spec->algebra.dtype);
    tensum_dtype real = tensum_dtype_gradient(spec->algebra.dtype);
    bool complex = real == TENSUM_C64 || real == TENSUM_C128;
    bool selective = tensum_semiring_selective(spec->algebra.semiring) != 0;
    ts_mode own[64], broadcast[64];
    int32_t own_count = 0, broadcast_count = 0;
    (void)run;
    for (int32_t i = 0; i < spec->kept_count; i++) {
        if (spec->modes[i].d == 0) {
            broadcast[broadcast_count++] = spec->modes[i];
        } else {
            own[own_count++] = spec->modes[i];
        }
    }
    int64_t own_size = ts_modes_size(own, own_count), broadcast_size = ts_modes_size(broadcast, broadcast_count);
    for (int64_t o = 0; o < own_size; o++) {
        for (int64_t k = 0; k < spec->sum; k++) {
            position p;
            ts_tree_sum total = {.single = real == TENSUM_F32};
            ts_c128 complex_total = {0, 0};
            zero_position(&p);
            advance(&p, own, own_count, o);
            position s = p;
            advance(&s, spec->modes + spec->kept_count, spec->sum_count, k);
            for (int64_t t = 0; t < broadcast_size; t++) {
                position q = p;
                advance(&q, broadcast, broadcast_count, t);
                if (complex) {
                    ts_c128 share = real == TENSUM_C64
                                        ? (ts_c128){(double)((const ts_c64 *)g)[q.g].re, (double)((const ts_c64 *)g)[q.g].im}
                                        : ((const ts_c128 *)g)[q.g];
                    complex_total = ts_add_sum_c128(complex_total, share, 0);
                    continue;
                }
                double share = get_real(g, q.g, real);
                if (selective && winners != NULL && get_winner(winners, q.w, spec->winner_bytes) != k) {
                    share = 0;
                }
                if (spec->algebra.semiring == TENSUM_LOG_SUM_EXP) {
                    share = weighted(share, pair->real(at(a, s.a, bytes)), pair->real(at(c, q.c, bytes)));
                }
                ts_tree_feed(&total, real == TENSUM_F32 ? (double)(float)share : share);
            }
            if (complex) {
                put_complex(d, s.d, real, complex_total, spec->accumulate);
            } else {
                put_real(d, s.d, real, ts_tree_end(&total), spec->accumulate);
            }
        }
    }
    return TENSUM_OK;
}

static tensum_status fill(const ts_mode *modes, int32_t count, size_t element_bytes, const void *value, void *c,
                          const ts_run *run)
{
    int64_t size = ts_modes_size(modes, count);
    (void)run;
    for (int64_t i = 0; i < size; i++) {
        position p;
        zero_position(&p);
        advance(&p, modes, count, i);
        memcpy((void *)(uintptr_t)at(c, p.c, element_bytes), value, element_bytes);
    }
    return TENSUM_OK;
}

const ts_backend ts_backend_reference = {
    .name = "reference",
    .kind = TENSUM_REFERENCE,
    .device_count = one_device,
    .device_query = query,
    .supports = ts_pair_modes,
    .contract = contract,
    .reduce = reduce,
    .adjoint = adjoint,
    .reduce_adjoint = reduce_adjoint,
    .fill = fill,
};
