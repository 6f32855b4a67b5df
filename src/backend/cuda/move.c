#include "backend/cuda/move.h"

#include "backend/cuda/kernels/move_plan.h"

size_t ts_cuda_move_bytes(void) { return sizeof(ts_cuda_move); }

tensum_status ts_cuda_add_move(ts_cuda_list *list, const ts_cuda_kernels *common, const ts_mode *modes, int32_t count,
                               ts_cuda_pointer a, ts_cuda_pointer c, bool *added)
{
    tensum_status status = TENSUM_OK;
    const size_t bytes = tensum_dtype_bytes(common->dtype);
    ts_cuda_mode table[TS_CUDA_MOVE_MODES];
    ts_cuda_kernel kernel;
    ts_cuda_move plan;

    *added = false;
    if (list->measure || count > TS_CUDA_MOVE_MODES) {
        return TENSUM_OK;
    }
    for (int32_t i = 0; i < count; i++) {
        table[i] = (ts_cuda_mode){.extent = modes[i].extent, .a = modes[i].a, .c = modes[i].c};
    }
    if (!ts_cuda_move_plan(table, count, (uint32_t)bytes, &plan)) {
        return TENSUM_OK;
    }
    kernel = ts_cuda_move_is_wide(&plan, (uint32_t)bytes) ? TS_CUDA_KERNEL_MOVE : TS_CUDA_KERNEL_MOVE_NARROW;
    if (!common->has[kernel]) {
        return TENSUM_OK;
    }
    plan.a = a;
    plan.c = c;
    TRY(ts_cuda_add_launch(list, common, kernel, ts_cuda_grid(ts_cuda_move_blocks(&plan, list->units)), TS_CUDA_MOVE_THREADS,
                           ts_cuda_move_shared(&plan), &plan, sizeof plan));
    ts_cuda_reads(list, a, TS_CUDA_SPAN(modes, count, a, bytes));
    ts_cuda_writes(list, c, TS_CUDA_SPAN(modes, count, c, bytes));
    *added = true;
done:
    return status;
}
