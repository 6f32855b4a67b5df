/* METIS (Karypis, Kumar 1998) as another way to cut networks in two, where libmetis is installed: opened at run time, so
 * that nothing depends on it. Used by the method "metis" only; docs/decisions/metis.md says why. */
#include "order/metis.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

static const char *const what = "METIS";

/* From metis.h, version 5. Integers have 32 or 64 bits, as the library was built; reals are not used. */
enum { OPTIONS = 40, OPTION_SEED = 8, OPTION_UFACTOR = 16, METIS_FINE = 1 };
typedef int (*set_options)(void *options);
typedef int (*part_graph)(void *vertices, void *constraints, void *starts, void *neighbours, void *vertex_weights, void *sizes,
                          void *edge_weights, void *parts, void *targets, void *imbalance, void *options, void *cut,
                          void *part);

static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* the library draws from rand() and sets signal handlers: one call at a time */
    set_options set;
    part_graph part;
    bool wide;
} metis = {PTHREAD_ONCE_INIT, PTHREAD_MUTEX_INITIALIZER, NULL, NULL, false};

static void open_library(void)
{
    static const char *const names[] = {"libmetis.so.5", "libmetis.so", "libmetis.dylib"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        return;
    }
    void *set = dlsym(library, "METIS_SetDefaultOptions"), *part = dlsym(library, "METIS_PartGraphRecursive");
    if (set != NULL && part != NULL) {
        int64_t options[OPTIONS] = {0};
        memcpy(&metis.set, &set, sizeof set);
        memcpy(&metis.part, &part, sizeof part);
        (void)metis.set(options); /* writes -1 to all: into half of the array if its integers are narrow */
        metis.wide = options[OPTIONS - 1] != 0;
    }
}

bool ts_metis_installed(void)
{
    return pthread_once(&metis.once, open_library) == 0 && metis.part != NULL;
}

/* An array of the library's integers. */
typedef struct numbers {
    void *data;
} numbers;

static tensum_status make(numbers *n, size_t count)
{
    return ts_allocate_zero(count, metis.wide ? sizeof(int64_t) : sizeof(int32_t), what, &n->data);
}
static void set(numbers n, int64_t index, int64_t value)
{
    if (metis.wide) {
        ((int64_t *)n.data)[index] = value;
    } else {
        ((int32_t *)n.data)[index] = (int32_t)value;
    }
}
static int64_t get(numbers n, int64_t index)
{
    return metis.wide ? ((const int64_t *)n.data)[index] : ((const int32_t *)n.data)[index];
}

/* The edges of net e: all pairs of its pins if they are few, else a ring. Calls `use` for both directions. */
enum { MOST_CLIQUE = 12 };
static int64_t degree_in(int64_t pins) { return pins < 2 ? 0 : pins <= MOST_CLIQUE ? pins - 1 : 2; }

static tensum_status build(const ts_nets *nets, numbers *starts, numbers *neighbours, numbers *weights)
{
    enum { UNIT = 1000 }; /* of weight 1 */
    tensum_status status;
    int64_t *next = NULL, n = nets->vertex_count;
    TRY(ts_allocate_zero((size_t)n + 1, sizeof *next, what, &next));
    for (int32_t e = 0; e < nets->net_count; e++) {
        for (int64_t i = nets->net_offsets[e]; i < nets->net_offsets[e + 1]; i++) {
            next[nets->pins[i] + 1] += degree_in(nets->net_offsets[e + 1] - nets->net_offsets[e]);
        }
    }
    for (int64_t v = 0; v < n; v++) {
        next[v + 1] += next[v];
    }
    if (next[n] > INT32_MAX) {
        status = ts_fail(TENSUM_STATUS_UNSUPPORTED, "the network is too large for METIS");
        goto done;
    }
    TRY(make(starts, (size_t)n + 1));
    TRY(make(neighbours, (size_t)next[n] + 1));
    TRY(make(weights, (size_t)next[n] + 1));
    for (int64_t v = 0; v <= n; v++) {
        set(*starts, v, next[v]);
    }
    for (int32_t e = 0; e < nets->net_count; e++) {
        int64_t first = nets->net_offsets[e], pins = nets->net_offsets[e + 1] - first, links = degree_in(pins);
        int64_t weight = links == 0 ? 0 : (int64_t)(UNIT * nets->net_weights[e] / (double)(links == 2 ? 2 : links)) + 1;
        for (int64_t i = 0; i < pins && links > 0; i++) {
            for (int64_t k = 1; k <= links; k++) {
                int64_t j = pins <= MOST_CLIQUE ? (i + k) % pins : (k == 1 ? i + 1 : i + pins - 1) % pins;
                int32_t v = nets->pins[first + i];
                set(*neighbours, next[v], nets->pins[first + j]);
                set(*weights, next[v]++, weight);
            }
        }
    }
done:
    ts_free(next);
    return status;
}

tensum_status ts_metis_bisect(const ts_nets *nets, double imbalance, uint64_t seed, uint8_t *side)
{
    tensum_status status;
    numbers starts = {NULL}, neighbours = {NULL}, weights = {NULL}, part = {NULL}, scalars = {NULL}, options = {NULL};
    int64_t n = nets->vertex_count;
    size_t width = metis.wide ? sizeof(int64_t) : sizeof(int32_t);
    if (!ts_metis_installed()) {
        return ts_fail(TENSUM_STATUS_UNSUPPORTED, "METIS is not installed: no libmetis.so.5 was found");
    }
    TRY(build(nets, &starts, &neighbours, &weights));
    TRY(make(&part, (size_t)n));
    TRY(make(&scalars, 4));
    TRY(make(&options, OPTIONS));
    set(scalars, 0, n);
    set(scalars, 1, 1); /* constraints */
    set(scalars, 2, 2); /* parts */
    (void)metis.set(options.data);
    set(options, OPTION_SEED, (int64_t)(seed % INT32_MAX));
    set(options, OPTION_UFACTOR, (int64_t)(2000.0 * imbalance) + 1); /* thousandths that a part may exceed its half by */
    char *at = scalars.data;
    pthread_mutex_lock(&metis.lock);
    int result = metis.part(at, at + width, starts.data, neighbours.data, NULL, NULL, weights.data, at + 2 * width, NULL, NULL,
                            options.data, at + 3 * width, part.data);
    pthread_mutex_unlock(&metis.lock);
    if (result != METIS_FINE) {
        status = ts_fail(TENSUM_STATUS_INTERNAL, "METIS gave up with status %d", result);
        goto done;
    }
    for (int64_t v = 0; v < n; v++) {
        side[v] = get(part, v) != 0;
    }
done:
    ts_free(starts.data);
    ts_free(neighbours.data);
    ts_free(weights.data);
    ts_free(part.data);
    ts_free(scalars.data);
    ts_free(options.data);
    return status;
}
