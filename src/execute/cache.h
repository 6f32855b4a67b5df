/* Compiled einsum expressions of a context, least recently used first out. */
#ifndef TS_EXECUTE_CACHE_H
#define TS_EXECUTE_CACHE_H

#include "core/core.h"

typedef struct ts_einsum_cache ts_einsum_cache;
typedef struct ts_einsum_entry ts_einsum_entry;

enum { TS_KEY_WORDS = 256, TS_KEY_BYTES = 512 };

/* What makes two calls the same work: numbers (semiring, dtype, device, ranks, extents) and the expression. */
typedef struct ts_einsum_key {
    uint64_t hash;
    int32_t word_count, text_bytes;
    int64_t words[TS_KEY_WORDS];
    char text[TS_KEY_BYTES];
} ts_einsum_key;

tensum_status ts_einsum_cache_create(ts_einsum_cache **cache);
void ts_einsum_cache_destroy(ts_einsum_cache *cache);
void ts_einsum_cache_limit(ts_einsum_cache *cache, int64_t entries);
void ts_einsum_cache_stats(ts_einsum_cache *cache, tensum_cache_stats *stats);

/* Fill a key; false if the call is too large to be worth caching. */
bool ts_einsum_key_make(ts_einsum_key *key, tensum_semiring semiring, const char *expression, int64_t operand_count,
                        const tensum_tensor *operands, const tensum_tensor *output);
/* A program and a workspace for the key; both NULL if there is none. The workspace is the caller's until it is given
 * back; *workspace may come back NULL where all of the entry's are in use. The program is retained for the caller. */
void ts_einsum_cache_take(ts_einsum_cache *cache, const ts_einsum_key *key, tensum_program **program,
                          tensum_workspace **workspace);
/* Keep program and workspace under the key, or release them: the references are handed over. */
void ts_einsum_cache_give(ts_einsum_cache *cache, const ts_einsum_key *key, tensum_program *program,
                          tensum_workspace *workspace);

#endif
