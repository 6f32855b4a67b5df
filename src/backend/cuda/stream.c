#include "backend/cuda/stream.h"

#include <stddef.h>

#include "backend/cuda/kernels/stream_plan.h"

size_t ts_cuda_stream_bytes(void) { return sizeof(ts_cuda_stream); }

tensum_status ts_cuda_add_stream(ts_cuda_list *list, const ts_cuda_kernels *kernels, ts_cuda_kernel kernel,
                                 const ts_mode *modes, int32_t kept_count, int32_t sum_count, bool two, size_t bytes,
                                 ts_cuda_stream *p, bool *added)
{
    tensum_status status = TENSUM_OK;
    ts_cuda_mode table[TS_CUDA_STREAM_MODES];
    ts_cuda_stream plan;
    int64_t blocks = (int64_t)list->units * TS_CUDA_STREAM_BLOCKS; /* as many as run at a time: each goes on to the next tile */

    *added = false;
    if (list->measure || !kernels->has[kernel] || kept_count + sum_count > TS_CUDA_STREAM_MODES) {
        return TENSUM_OK;
    }
    for (int32_t i = 0; i < kept_count + sum_count; i++) {
        table[i] = (ts_cuda_mode){.extent = modes[i].extent, .a = modes[i].a, .b = modes[i].b, .c = modes[i].c};
    }
    if (!ts_cuda_stream_plan(table, kept_count, sum_count, two, (uint32_t)bytes, &plan)) {
        return TENSUM_OK;
    }
    plan.a = p->a;
    plan.b = p->b;
    plan.c = p->c;
    plan.accumulate = p->accumulate;
    plan.modulus = p->modulus;
    plan.conjugate_a = p->conjugate_a;
    plan.conjugate_b = p->conjugate_b;
    TRY(ts_cuda_add_launch(list, kernels, kernel, ts_cuda_grid(plan.tile_count < blocks ? plan.tile_count : blocks),
                           TS_CUDA_STREAM_THREADS, ts_cuda_stream_shared(&plan, (uint32_t)bytes), &plan, sizeof plan));
    ts_cuda_reads(list, p->a, TS_CUDA_SPAN(modes, kept_count + sum_count, a, bytes));
    if (two) {
        ts_cuda_reads(list, p->b, TS_CUDA_SPAN(modes, kept_count + sum_count, b, bytes));
    }
    ts_cuda_writes(list, p->c, TS_CUDA_SPAN(modes, kept_count, c, bytes));
    *added = true;
done:
    return status;
}
