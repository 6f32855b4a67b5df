#include "execute/program.h"

tensum_status tensum_context_create(const tensum_context_options *options, tensum_context **out)
{
    tensum_status status = TENSUM_OK;
    tensum_context *context = NULL;
    if (out == NULL || (options != NULL && options->size < sizeof *options)) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_context_create: context is NULL or options->size is not set");
    }
    TRY(ts_allocate_zero(1, sizeof *context, "context", &context));
    atomic_init(&context->references, 1);
    TRY(ts_pool_create(options != NULL ? options->threads : 0, &context->pool));
    *out = context;
    context = NULL;
done:
    ts_free(context);
    return status;
}

tensum_context *tensum_context_retain(tensum_context *context)
{
    if (context != NULL) {
        atomic_fetch_add(&context->references, 1);
    }
    return context;
}

void tensum_context_release(tensum_context *context)
{
    if (context != NULL && atomic_fetch_sub(&context->references, 1) == 1) {
        ts_pool_destroy(context->pool);
        ts_free(context);
    }
}

int32_t tensum_context_threads(const tensum_context *context) { return context != NULL ? ts_pool_threads(context->pool) : 1; }
