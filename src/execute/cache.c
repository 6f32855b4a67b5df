#include <pthread.h>

#include "execute/cache.h"

enum { BUCKETS = 1024, SPARE = 4, DEFAULT_ENTRIES = 256 };
static const size_t largest_kept = (size_t)16 << 20; /* bytes of a workspace that stays with an entry */

struct ts_einsum_entry {
    ts_einsum_entry *chain;          /* same bucket */
    ts_einsum_entry *newer, *older;  /* by last use */
    uint64_t hash;
    int32_t word_count, text_bytes;
    tensum_program *program;
    tensum_workspace *spare[SPARE];
    int32_t spare_count;
    int64_t content[];               /* words, then the text */
};

struct ts_einsum_cache {
    pthread_mutex_t mutex;
    ts_einsum_entry *buckets[BUCKETS];
    ts_einsum_entry *newest, *oldest;
    int64_t count, limit;
    int64_t hits, misses, evictions;
};

tensum_status ts_einsum_cache_create(ts_einsum_cache **out)
{
    ts_einsum_cache *cache = NULL;
    tensum_status status = ts_allocate_zero(1, sizeof *cache, "einsum cache", &cache);
    if (status == TENSUM_OK) {
        pthread_mutex_init(&cache->mutex, NULL);
        cache->limit = DEFAULT_ENTRIES;
        *out = cache;
    }
    return status;
}

static void free_entry(ts_einsum_entry *entry)
{
    for (int32_t i = 0; i < entry->spare_count; i++) {
        tensum_workspace_release(entry->spare[i]);
    }
    tensum_program_release(entry->program);
    ts_free(entry);
}

static void unlink_entry(ts_einsum_cache *cache, ts_einsum_entry *entry)
{
    *(entry->newer != NULL ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void link_newest(ts_einsum_cache *cache, ts_einsum_entry *entry)
{
    entry->older = cache->newest;
    entry->newer = NULL;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

/* Take entries out until at most `limit` are left; returns them as a chain to be freed without the lock. */
static ts_einsum_entry *shrink(ts_einsum_cache *cache, int64_t limit)
{
    ts_einsum_entry *removed = NULL;
    while (cache->count > limit) {
        ts_einsum_entry *entry = cache->oldest, **link = &cache->buckets[entry->hash % BUCKETS];
        while (*link != entry) {
            link = &(*link)->chain;
        }
        *link = entry->chain;
        unlink_entry(cache, entry);
        cache->count--;
        entry->chain = removed;
        removed = entry;
    }
    return removed;
}

static void free_chain(ts_einsum_entry *entry)
{
    while (entry != NULL) {
        ts_einsum_entry *next = entry->chain;
        free_entry(entry);
        entry = next;
    }
}

void ts_einsum_cache_destroy(ts_einsum_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    free_chain(shrink(cache, 0));
    pthread_mutex_destroy(&cache->mutex);
    ts_free(cache);
}

void ts_einsum_cache_limit(ts_einsum_cache *cache, int64_t entries)
{
    pthread_mutex_lock(&cache->mutex);
    cache->limit = entries < 0 ? 0 : entries;
    int64_t before = cache->count;
    ts_einsum_entry *removed = shrink(cache, cache->limit);
    cache->evictions += before - cache->count;
    pthread_mutex_unlock(&cache->mutex);
    free_chain(removed);
}

void ts_einsum_cache_stats(ts_einsum_cache *cache, tensum_cache_stats *stats)
{
    pthread_mutex_lock(&cache->mutex);
    stats->hits = cache->hits;
    stats->misses = cache->misses;
    stats->evictions = cache->evictions;
    stats->entries = cache->count;
    stats->limit = cache->limit;
    pthread_mutex_unlock(&cache->mutex);
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

static bool put_tensor(ts_einsum_key *key, const tensum_tensor *tensor)
{
    if (tensor->rank < 0 || key->word_count + tensor->rank + 1 > TS_KEY_WORDS) {
        return false;
    }
    key->words[key->word_count++] = tensor->rank;
    for (int32_t i = 0; i < tensor->rank; i++) {
        key->words[key->word_count++] = tensor->extents[i];
    }
    return true;
}

bool ts_einsum_key_make(ts_einsum_key *key, tensum_semiring semiring, const char *expression, int64_t operand_count,
                        const tensum_tensor *operands, const tensum_tensor *output)
{
    size_t length = strlen(expression);
    if (length > TS_KEY_BYTES) {
        return false;
    }
    key->words[0] = (int64_t)semiring << 32 | (int64_t)output->dtype;
    key->words[1] = (int64_t)output->device.kind << 32 | output->device.index;
    key->words[2] = operand_count;
    key->word_count = 3;
    for (int64_t i = 0; i < operand_count; i++) {
        if (!put_tensor(key, &operands[i])) {
            return false;
        }
    }
    if (!put_tensor(key, output)) {
        return false;
    }
    uint64_t hash = length;
    for (int32_t i = 0; i < key->word_count; i++) {
        hash = mix(hash, (uint64_t)key->words[i]);
    }
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        memcpy(&word, expression + i, length - i < 8 ? length - i : 8);
        hash = mix(hash, word);
    }
    memcpy(key->text, expression, length);
    key->text_bytes = (int32_t)length;
    key->hash = hash;
    return true;
}

static ts_einsum_entry *find(const ts_einsum_cache *cache, const ts_einsum_key *key)
{
    ts_einsum_entry *entry = cache->buckets[key->hash % BUCKETS];
    while (entry != NULL &&
           !(entry->hash == key->hash && entry->word_count == key->word_count && entry->text_bytes == key->text_bytes &&
             memcmp(entry->content, key->words, (size_t)key->word_count * sizeof(int64_t)) == 0 &&
             memcmp(entry->content + key->word_count, key->text, (size_t)key->text_bytes) == 0)) {
        entry = entry->chain;
    }
    return entry;
}

void ts_einsum_cache_take(ts_einsum_cache *cache, const ts_einsum_key *key, tensum_program **program,
                          tensum_workspace **workspace)
{
    *program = NULL;
    *workspace = NULL;
    pthread_mutex_lock(&cache->mutex);
    ts_einsum_entry *entry = find(cache, key);
    if (entry == NULL) {
        cache->misses++;
    } else {
        cache->hits++;
        *program = tensum_program_retain(entry->program);
        if (entry->spare_count > 0) {
            *workspace = entry->spare[--entry->spare_count];
        }
        if (cache->newest != entry) {
            unlink_entry(cache, entry);
            link_newest(cache, entry);
        }
    }
    pthread_mutex_unlock(&cache->mutex);
}

/* A new entry without workspaces, or NULL: a cache that cannot grow is not an error. */
static ts_einsum_entry *make_entry(const ts_einsum_key *key, tensum_program *program)
{
    ts_einsum_entry *entry = NULL;
    size_t words = (size_t)key->word_count * sizeof(int64_t);
    if (ts_allocate_zero(1, sizeof *entry + words + (size_t)key->text_bytes, "einsum cache", &entry) != TENSUM_OK) {
        return NULL;
    }
    entry->hash = key->hash;
    entry->word_count = key->word_count;
    entry->text_bytes = key->text_bytes;
    entry->program = tensum_program_retain(program);
    memcpy(entry->content, key->words, words);
    memcpy(entry->content + key->word_count, key->text, (size_t)key->text_bytes);
    return entry;
}

void ts_einsum_cache_give(ts_einsum_cache *cache, const ts_einsum_key *key, tensum_program *program,
                          tensum_workspace *workspace)
{
    ts_einsum_entry *fresh = NULL, *removed = NULL;
    for (int attempt = 0; attempt < 2; attempt++) {
        pthread_mutex_lock(&cache->mutex);
        ts_einsum_entry *entry = find(cache, key);
        if (entry == NULL && fresh != NULL && cache->limit > 0) {
            entry = fresh;
            fresh = NULL;
            entry->chain = cache->buckets[key->hash % BUCKETS];
            cache->buckets[key->hash % BUCKETS] = entry;
            link_newest(cache, entry);
            int64_t before = ++cache->count;
            removed = shrink(cache, cache->limit);
            cache->evictions += before - cache->count;
        }
        if (entry != NULL && entry->program == program && workspace != NULL && entry->spare_count < SPARE &&
            tensum_program_workspace_bytes(program) <= largest_kept) {
            entry->spare[entry->spare_count++] = workspace;
            workspace = NULL;
        }
        bool known = entry != NULL;
        pthread_mutex_unlock(&cache->mutex);
        if (known || attempt == 1) {
            break;
        }
        fresh = make_entry(key, program);
    }
    free_chain(removed);
    if (fresh != NULL) {
        free_entry(fresh);
    }
    tensum_workspace_release(workspace);
    tensum_program_release(program);
}
