/* Elementwise conversion between dtypes. */
#include <math.h>

#include "algebra/algebra.h"
#include "algebra/element.h"
#include "io/arrays.h"

/* An element of any dtype; integers keep 64 bits. */
typedef struct number {
    double real, other; /* imaginary part, or the count */
    int64_t integer;
    bool is_integer;
} number;

static number load(tensum_dtype dtype, const char *at)
{
    ts_element e = {{0}};
    memcpy(e.bytes, at, tensum_dtype_bytes(dtype));
    switch (dtype) {
    case TENSUM_F16:
        return (number){.real = (double)ts_load_f16(e.u16)};
    case TENSUM_BF16:
        return (number){.real = (double)ts_load_bf16(e.u16)};
    case TENSUM_F32:
        return (number){.real = (double)e.f32[0]};
    case TENSUM_F64:
        return (number){.real = e.f64[0]};
    case TENSUM_C64:
    case TENSUM_VC64:
        return (number){.real = (double)e.f32[0], .other = (double)e.f32[1]};
    case TENSUM_C128:
    case TENSUM_VC128:
        return (number){.real = e.f64[0], .other = e.f64[1]};
    default:
        break;
    }
    int64_t i = dtype == TENSUM_I16   ? e.i16
                : dtype == TENSUM_I32 ? e.i32
                : dtype == TENSUM_I64 ? e.i64
                                      : (e.boolean != 0);
    return (number){.real = (double)i, .integer = i, .is_integer = true};
}

/* false if an integer dtype cannot hold the number. */
static bool store(number n, tensum_dtype dtype, char *at)
{
    ts_element e = {{0}};
    switch (dtype) {
    case TENSUM_F16:
        e.u16 = ts_store_f16((float)n.real);
        break;
    case TENSUM_BF16:
        e.u16 = ts_store_bf16((float)n.real);
        break;
    case TENSUM_F32:
        e.f32[0] = (float)n.real;
        break;
    case TENSUM_F64:
        e.f64[0] = n.real;
        break;
    case TENSUM_C64:
    case TENSUM_VC64:
        e.f32[0] = (float)n.real;
        e.f32[1] = (float)n.other;
        break;
    case TENSUM_C128:
    case TENSUM_VC128:
        e.f64[0] = n.real;
        e.f64[1] = n.other;
        break;
    case TENSUM_BOOL:
        e.boolean = n.is_integer ? n.integer != 0 : n.real != 0;
        break;
    default:
        if (!n.is_integer) {
            if (!(n.real > -0x1p63 && n.real < 0x1p63)) {
                return false;
            }
            n.integer = (int64_t)n.real;
        }
        if ((dtype == TENSUM_I16 && n.integer != (int16_t)n.integer) ||
            (dtype == TENSUM_I32 && n.integer != (int32_t)n.integer)) {
            return false;
        }
        if (dtype == TENSUM_I16) {
            e.i16 = (int16_t)n.integer;
        } else if (dtype == TENSUM_I32) {
            e.i32 = (int32_t)n.integer;
        } else {
            e.i64 = n.integer;
        }
    }
    memcpy(at, e.bytes, tensum_dtype_bytes(dtype));
    return true;
}

static bool is_complex(tensum_dtype dtype) { return dtype == TENSUM_C64 || dtype == TENSUM_C128; }
static bool is_counted(tensum_dtype dtype) { return dtype == TENSUM_VC64 || dtype == TENSUM_VC128; }

tensum_status tensum_convert(const tensum_tensor *from, const tensum_tensor *to)
{
    tensum_status status = TENSUM_OK;
    ts_walker source, target;
    int64_t count;
    if (from == NULL || to == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "a tensor is NULL");
    }
    if (tensum_dtype_bytes(from->dtype) == 0 || tensum_dtype_bytes(to->dtype) == 0) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "a dtype is out of range");
    }
    if (from->device.kind == TENSUM_CUDA || to->device.kind == TENSUM_CUDA) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "conversion is for tensors in host memory");
    }
    if ((is_complex(from->dtype) && !is_complex(to->dtype)) || (is_counted(from->dtype) && !is_counted(to->dtype)) ||
        (is_complex(from->dtype) && is_counted(to->dtype))) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%s cannot be converted to %s", tensum_dtype_name(from->dtype),
                       tensum_dtype_name(to->dtype));
    }
    TRY(ts_walker_start(&source, from));
    TRY(ts_walker_start(&target, to));
    TRY(ts_element_count("conversion", from->rank, from->extents, &count));
    bool same = from->rank == to->rank;
    for (int32_t i = 0; same && i < from->rank; i++) {
        same = from->extents[i] == to->extents[i];
    }
    if (!same) {
        status = ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "conversion needs equal extents");
        goto done;
    }
    bool one = is_counted(to->dtype) && !is_counted(from->dtype);
    for (int64_t i = 0; i < count; i++) {
        number n = load(from->dtype, source.pointer);
        n.other = one ? 1.0 : n.other;
        if (from->dtype == to->dtype) {
            memcpy(target.pointer, source.pointer, source.bytes);
        } else if (!store(n, to->dtype, target.pointer)) {
            status = ts_fail(TENSUM_STATUS_DOMAIN, "element %lld, %g, does not fit into %s", (long long)i, n.real,
                             tensum_dtype_name(to->dtype));
            goto done;
        }
        ts_walker_step(&source);
        ts_walker_step(&target);
    }
done:
    return status;
}
