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
    TRY(ts_einsum_cache_create(&context->cache));
    *out = context;
    context = NULL;
done:
    tensum_context_release(context);
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
        ts_einsum_cache_destroy(context->cache);
        ts_pool_destroy(context->pool);
        ts_free(context);
    }
}

int32_t tensum_context_threads(const tensum_context *context) { return context != NULL ? ts_pool_threads(context->pool) : 1; }

tensum_status tensum_context_cache_stats(tensum_context *context, tensum_cache_stats *stats)
{
    if (context == NULL || stats == NULL || stats->size < sizeof *stats) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT,
                       "tensum_context_cache_stats: context or stats is NULL or stats->size is not set");
    }
    ts_einsum_cache_stats(context->cache, stats);
    return TENSUM_OK;
}

tensum_status tensum_context_cache_limit(tensum_context *context, int64_t entries)
{
    if (context == NULL || entries < 0) {
        return ts_fail(TENSUM_STATUS_INVALID_ARGUMENT, "tensum_context_cache_limit: context is NULL or entries negative");
    }
    ts_einsum_cache_limit(context->cache, entries);
    return TENSUM_OK;
}
