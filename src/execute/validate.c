#include <inttypes.h>
#include <stdio.h>

#include "execute/workspace.h"

bool ts_tensor_range(const tensum_tensor *tensor, uintptr_t *first, uintptr_t *last)
{
    int64_t bytes = (int64_t)tensum_dtype_bytes(tensor->dtype), low = 0, high = 0, compact = 1;
    for (int32_t i = tensor->rank - 1; i >= 0; i--) {
        int64_t extent = tensor->extents[i];
        int64_t stride = tensor->strides != NULL ? tensor->strides[i] : compact;
        if (extent == 0) {
            return false;
        }
        compact *= extent;
        if (stride > 0) {
            high += (extent - 1) * stride;
        } else {
            low += (extent - 1) * stride;
        }
    }
    *first = (uintptr_t)tensor->data + (uintptr_t)(low * bytes);
    *last = (uintptr_t)tensor->data + (uintptr_t)((high + 1) * bytes);
    return true;
}

static size_t alignment_of(tensum_dtype dtype)
{
    switch (dtype) {
    case TENSUM_C64:
    case TENSUM_VC64:
        return 4;
    case TENSUM_C128:
    case TENSUM_VC128:
        return 8;
    default:
        return tensum_dtype_bytes(dtype);
    }
}

/* prefix and number without stdio, which would cost as much as a small run: every operand of every run has a name. */
static void numbered_name(char *name, const char *prefix, int64_t index)
{
    char digits[20];
    int count = 0;
    do {
        digits[count++] = (char)('0' + index % 10);
        index /= 10;
    } while (index > 0);
    while (*prefix != '\0') {
        *name++ = *prefix++;
    }
    while (count > 0) {
        *name++ = digits[--count];
    }
    *name = '\0';
}

/* Device, dtype, rank, extents, alignment of one tensor; `name` as in "operand 3". */
static tensum_status check_tensor(const tensum_program *program, const char *name, const tensum_tensor *tensor,
                                  tensum_dtype dtype, int64_t index)
{
    const tensum_network *network = program->plan->network;
    int64_t first = network->offsets[index], rank = network->offsets[index + 1] - first;
    bool empty = 0;
    if (tensor->dtype != dtype) {
        const char *given = tensum_dtype_name(tensor->dtype);
        return ts_fail(TENSUM_STATUS_DTYPE_MISMATCH, "%s has dtype %s, expected %s", name, given ? given : "(unknown)",
                       tensum_dtype_name(dtype));
    }
    if (tensor->rank != rank || (rank > 0 && tensor->extents == NULL)) {
        return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "%s has rank %d, expected %" PRId64, name, (int)tensor->rank, rank);
    }
    for (int64_t m = 0; m < rank; m++) {
        if (tensor->extents[m] != network->raw_extents[first + m]) {
            return ts_fail(TENSUM_STATUS_SHAPE_MISMATCH, "%s has extent %" PRId64 " in mode %" PRId64 ", expected %" PRId64, name,
                           tensor->extents[m], m, network->raw_extents[first + m]);
        }
        empty = empty || tensor->extents[m] == 0;
    }
    if (tensor->data == NULL && !empty) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s has no data", name);
    }
    if ((uintptr_t)tensor->data % alignment_of(dtype) != 0) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: data is not aligned to %zu bytes", name, alignment_of(dtype));
    }
    return TENSUM_OK;
}

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

/* Two different positions of a result must not share memory: by ascending stride, each step must clear the span of the
 * smaller ones. */
static tensum_status check_target(const char *name, const tensum_tensor *tensor)
{
    uint64_t span = 0;
    int32_t order[64], count = 0;
    if (tensor->strides == NULL) {
        return TENSUM_OK;
    }
    for (int32_t i = 0; i < tensor->rank; i++) {
        if (tensor->extents[i] == 0) {
            return TENSUM_OK;
        }
        if (tensor->extents[i] == 1) {
            continue;
        }
        if (count == 64) {
            return ts_fail(TENSUM_STATUS_UNSUPPORTED, "%s has more than 64 modes of extent other than 1", name);
        }
        int32_t j = count++;
        for (; j > 0 && magnitude(tensor->strides[order[j - 1]]) > magnitude(tensor->strides[i]); j--) {
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
    for (int32_t i = 0; i < count; i++) {
        uint64_t stride = magnitude(tensor->strides[order[i]]);
        if (stride <= span) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s: stride %" PRId64 " of mode %d makes elements overlap", name,
                           tensor->strides[order[i]], (int)order[i]);
        }
        span += stride * (uint64_t)(tensor->extents[order[i]] - 1);
    }
    return TENSUM_OK;
}

static tensum_status check_apart(const char *name, const tensum_tensor *target, const tensum_tensor *others, int64_t count,
                                 const char *other_name)
{
    uintptr_t first, last, other_first, other_last;
    if (!ts_tensor_range(target, &first, &last)) {
        return TENSUM_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        if (others[i].data != NULL && ts_tensor_range(&others[i], &other_first, &other_last) &&
            first < other_last && other_first < last) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "%s overlaps %s %" PRId64 " in memory", name, other_name, i);
        }
    }
    return TENSUM_OK;
}

/* Sift down in a heap with the largest address on top. */
static void sift(ts_extent_of *heap, int64_t at, int64_t count)
{
    const ts_extent_of moved = heap[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child].first < heap[child + 1].first;
        if (heap[child].first <= moved.first) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static int64_t put_extent(ts_extent_of *extents, int64_t count, const tensum_tensor *tensor, bool written)
{
    ts_extent_of *extent = &extents[count];
    if (tensor == NULL || tensor->data == NULL || !ts_tensor_range(tensor, &extent->first, &extent->last)) {
        return count;
    }
    extent->written = written;
    return count + 1;
}

/* Does a gradient share memory with another tensor of the run? By one pass in order of addresses: networks have
 * thousands of operands. The room is the workspace's, because runs allocate nothing (and qsort may). */
static bool gradients_overlap(ts_extent_of *extents, int64_t n, const tensum_run_arguments *arguments)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        count = put_extent(extents, count, &arguments->inputs[i], false);
        count = put_extent(extents, count, &arguments->gradients[i], true);
    }
    count = put_extent(extents, count, arguments->cotangent, false);
    count = put_extent(extents, count, arguments->output, false);
    count = put_extent(extents, count, arguments->winners, false);
    for (int64_t i = count / 2 - 1; i >= 0; i--) {
        sift(extents, i, count);
    }
    for (int64_t i = count - 1; i > 0; i--) {
        const ts_extent_of top = extents[0];
        extents[0] = extents[i];
        extents[i] = top;
        sift(extents, 0, i);
    }
    uintptr_t written = 0, any = 0; /* the ends so far */
    for (int64_t i = 0; i < count; i++) {
        if (extents[i].first < (extents[i].written ? any : written)) {
            return true;
        }
        any = extents[i].last > any ? extents[i].last : any;
        written = extents[i].written && extents[i].last > written ? extents[i].last : written;
    }
    return false;
}

/* Which gradient overlaps what, for the message. */
static tensum_status name_overlap(int64_t n, const tensum_run_arguments *arguments)
{
    tensum_status status = TENSUM_OK;
    char name[64];
    for (int64_t i = 0; i < n; i++) {
        const tensum_tensor *gradient = &arguments->gradients[i];
        if (gradient->data == NULL) {
            continue;
        }
        numbered_name(name, "the gradient of operand ", i);
        TRY(check_apart(name, gradient, arguments->inputs, n, "operand"));
        if (arguments->cotangent != NULL) {
            TRY(check_apart(name, gradient, arguments->cotangent, 1, "cotangent"));
        }
        if (arguments->output != NULL) {
            TRY(check_apart(name, gradient, arguments->output, 1, "output"));
        }
        if (arguments->winners != NULL) {
            TRY(check_apart(name, gradient, arguments->winners, 1, "winners"));
        }
        TRY(check_apart(name, gradient, arguments->gradients, i, "the gradient of operand"));
    }
done:
    return status;
}

static tensum_status check_results(const tensum_program *program, tensum_workspace *workspace,
                                   const tensum_run_arguments *arguments)
{
    tensum_status status = TENSUM_OK;
    const tensum_network *network = program->plan->network;
    int64_t n = network->operand_count;
    tensum_dtype dtype = program->plan->algebra.dtype, real = tensum_dtype_gradient(dtype);
    char name[64];
    if (arguments->output != NULL) {
        TRY(check_tensor(program, "the output", arguments->output, dtype, n));
        if (!program->saved && !arguments->kept) {
            TRY(check_target("the output", arguments->output));
        }
        TRY(check_apart("the output", arguments->output, arguments->inputs, n, "operand"));
    }
    if (arguments->winners != NULL) {
        tensum_dtype kind = arguments->winners->dtype;
        if (kind != TENSUM_I32 && kind != TENSUM_I64) {
            status = ts_fail(TENSUM_STATUS_DTYPE_MISMATCH, "winners have dtype %s, expected i32 or i64",
                             tensum_dtype_name(kind) ? tensum_dtype_name(kind) : "(unknown)");
            goto done;
        }
        if (kind == TENSUM_I32 && program->plan->steps[0].winner_bytes == 8) {
            status = ts_fail(TENSUM_STATUS_DTYPE_MISMATCH, "the sum has more than 2^31 terms: winners must be i64");
            goto done;
        }
        TRY(check_tensor(program, "the winners", arguments->winners, kind, n));
        if (!program->saved) {
            TRY(check_target("the winners", arguments->winners));
        }
        TRY(check_apart("the winners", arguments->winners, arguments->inputs, n, "operand"));
        if (arguments->output != NULL) {
            TRY(check_apart("the winners", arguments->winners, arguments->output, 1, "output"));
        }
    }
    if (arguments->cotangent != NULL) {
        TRY(check_tensor(program, "the cotangent", arguments->cotangent, real, n));
    }
    for (int64_t i = 0; arguments->gradients != NULL && i < n; i++) {
        const tensum_tensor *gradient = &arguments->gradients[i];
        if (gradient->data != NULL) {
            numbered_name(name, "the gradient of operand ", i);
            TRY(check_tensor(program, name, gradient, real, i));
            TRY(check_target(name, gradient));
        }
    }
    if (arguments->gradients != NULL && gradients_overlap(workspace->extents, n, arguments)) {
        TRY(name_overlap(n, arguments));
    }
done:
    return status;
}

/* Bytes a tensor touches, relative to its data. */
static void remember(const tensum_tensor *tensor, ts_seen *seen, int64_t *strides)
{
    uintptr_t first = 0, last = 0;
    seen->empty = !ts_tensor_range(tensor, &first, &last);
    seen->low = seen->empty ? 0 : (int64_t)(first - (uintptr_t)tensor->data);
    seen->high = seen->empty ? 0 : (int64_t)(last - (uintptr_t)tensor->data);
    seen->compact = tensor->strides == NULL;
    if (!seen->compact && tensor->rank > 0) {
        memcpy(strides, tensor->strides, (size_t)tensor->rank * sizeof *strides);
    }
}

/* Are inputs and output as in the last valid run, but for their addresses, and are those in order? */
static bool seen_before(const tensum_program *program, const tensum_workspace *workspace,
                        const tensum_run_arguments *arguments)
{
    const tensum_network *network = program->plan->network;
    const int64_t n = network->operand_count;
    const tensum_dtype dtype = program->plan->algebra.dtype;
    const uintptr_t misaligned = alignment_of(dtype) - 1;
    const ts_seen *out = &workspace->seen[n];
    const uintptr_t out_first = (uintptr_t)arguments->output->data + (uintptr_t)out->low;
    const uintptr_t out_last = (uintptr_t)arguments->output->data + (uintptr_t)out->high;
    for (int64_t i = 0; i <= n; i++) {
        const tensum_tensor *tensor = i < n ? &arguments->inputs[i] : arguments->output;
        const ts_seen *seen = &workspace->seen[i];
        const int64_t first = network->offsets[i], rank = network->offsets[i + 1] - first;
        const uintptr_t data = (uintptr_t)tensor->data;
        if (tensor->dtype != dtype || tensor->rank != rank || (rank > 0 && tensor->extents == NULL) ||
            (tensor->strides == NULL) != seen->compact || (data == 0 && !seen->empty) || (data & misaligned) != 0) {
            return false;
        }
        for (int64_t m = 0; m < rank; m++) {
            if (tensor->extents[m] != network->raw_extents[first + m] ||
                (!seen->compact && tensor->strides[m] != workspace->seen_strides[first + m])) {
                return false;
            }
        }
        if (i < n && data != 0 && !seen->empty && !out->empty && out_first < data + (uintptr_t)seen->high &&
            data + (uintptr_t)seen->low < out_last) {
            return false;
        }
    }
    return true;
}

tensum_status ts_validate_run(const tensum_program *program, tensum_workspace *workspace,
                              const tensum_run_arguments *arguments, bool *same)
{
    tensum_status status = TENSUM_OK;
    const tensum_plan *plan = program->plan;
    int64_t n = plan->network->operand_count;
    char name[64];
    if (arguments->size < sizeof *arguments) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "run arguments: size is %zu, expected %zu", arguments->size,
                       sizeof *arguments);
    }
    if (n > 0 && arguments->inputs == NULL) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "run arguments: inputs is NULL");
    }
    bool value = arguments->output != NULL, winners = arguments->winners != NULL;
    bool gradient = arguments->gradients != NULL, decode = arguments->assignments != NULL;
    if ((winners && !(program->modes & TENSUM_WINNERS)) || (gradient && !(program->modes & TENSUM_GRADIENT)) ||
        (decode && !(program->modes & TENSUM_DECODE))) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "the program was not compiled for the %s asked for",
                       winners && !(program->modes & TENSUM_WINNERS)    ? "winners"
                       : gradient && !(program->modes & TENSUM_GRADIENT) ? "gradients"
                                                                         : "assignments");
    }
    if (!value && !gradient && !decode) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "nothing to compute: output, gradients and assignments are NULL");
    }
    if (program->saved) {
        bool selects = tensum_semiring_selective(plan->algebra.semiring) && plan->steps[0].sum_count > 0;
        if (!gradient || (selects && !winners) || (plan->algebra.semiring == TENSUM_LOG_SUM_EXP && !value)) {
            return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "gradients from saved results: the %s missing",
                           !gradient ? "gradients are" : selects && !winners ? "winners are" : "output is");
        }
    }
    if (arguments->kept && (!gradient || decode || winners || program->saved || !workspace->keeps ||
                            (plan->algebra.semiring == TENSUM_LOG_SUM_EXP && !value))) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "gradients from what the last run left: %s",
                       !gradient                       ? "gradients are missing"
                       : decode || winners             ? "nothing else can be had"
                       : plan->slice_total != 1        ? "the plan has slices"
                       : program->saved || !workspace->keeps ? "there was none that left it in this workspace"
                                                       : "the output is missing");
    }
    if (arguments->accumulate && (winners || gradient || decode || !value)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "accumulate is for values only");
    }
    int64_t count = arguments->slice_count < 0 ? plan->slice_total - arguments->slice_first : arguments->slice_count;
    if (arguments->slice_first < 0 || arguments->slice_first > plan->slice_total || count < 0 ||
        count > plan->slice_total - arguments->slice_first) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "slices %" PRId64 " .. %" PRId64 " of %" PRId64, arguments->slice_first,
                       arguments->slice_first + count, plan->slice_total);
    }
    if ((gradient || decode) && count != plan->slice_total) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "gradients and assignments need all slices in one run");
    }
    if (arguments->position_count < 0) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "position_count is %" PRId64, arguments->position_count);
    }
    bool plain = value && !winners && !gradient && !decode && workspace->seen != NULL;
    *same = plain && workspace->seen_valid && seen_before(program, workspace, arguments);
    if (*same) {
        return TENSUM_OK;
    }
    workspace->seen_valid = false;
    for (int64_t i = 0; i < n; i++) {
        numbered_name(name, "operand ", i);
        TRY(check_tensor(program, name, &arguments->inputs[i], plan->algebra.dtype, i));
    }
    TRY(check_results(program, workspace, arguments));
    for (int64_t i = 0; i <= n && plain; i++) {
        remember(i < n ? &arguments->inputs[i] : arguments->output, &workspace->seen[i],
                 workspace->seen_strides + plan->network->offsets[i]);
    }
done:
    return status;
}
