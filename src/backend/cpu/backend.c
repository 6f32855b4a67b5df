/* The CPU backend: which instruction set, which kernels, and the slots of the seam. */
#define _GNU_SOURCE
#include "backend/cpu/cpu.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- tables of kernels: [semiring][dtype], one per instruction set, from the one list of pairs ---- */

enum {
#define TENSUM_DTYPE(ID, name, bytes, gradient, summary) NUMBER_OF_##name = TENSUM_##ID,
#include <tensum/dtypes.def>
#undef TENSUM_DTYPE
    NUMBER_OF_DTYPES = TENSUM_DTYPE_COUNT
};

typedef const ts_cpu_kernel *table[TENSUM_SEMIRING_COUNT][TENSUM_DTYPE_COUNT];

/* Weak: a pair that no kernel file names yet (a semiring that has just been declared) is left to the oracle's loops. */
#define WEAK __attribute__((weak))
#define TS_PAIR(s, a, m, sel, d) extern WEAK const ts_cpu_kernel ts_cpu_kernel_##s##_##d##_generic;
#include "algebra/pairs.def"
#define TENSUM_SEMIRING(ID, name, alias, add, mul, dtypes, selective, summary) \
    [TENSUM_##ID] = {TS_DTYPES_##dtypes(name, add, mul, selective)},
#define TS_PAIR(s, a, m, sel, d) [NUMBER_OF_##d] = &ts_cpu_kernel_##s##_##d##_generic,
static const table kernels_generic = {
#include <tensum/semirings.def>
};
#undef TS_PAIR
#undef TENSUM_SEMIRING

#if defined(TS_CPU_X86)
#define TS_PAIR(s, a, m, sel, d)                                        \
    extern WEAK const ts_cpu_kernel ts_cpu_kernel_##s##_##d##_avx2;     \
    extern WEAK const ts_cpu_kernel ts_cpu_kernel_##s##_##d##_avx512;
#include "algebra/pairs.def"
#define TENSUM_SEMIRING(ID, name, alias, add, mul, dtypes, selective, summary) \
    [TENSUM_##ID] = {TS_DTYPES_##dtypes(name, add, mul, selective)},
#define TS_PAIR(s, a, m, sel, d) [NUMBER_OF_##d] = &ts_cpu_kernel_##s##_##d##_avx2,
static const table kernels_avx2 = {
#include <tensum/semirings.def>
};
#undef TS_PAIR
#define TS_PAIR(s, a, m, sel, d) [NUMBER_OF_##d] = &ts_cpu_kernel_##s##_##d##_avx512,
static const table kernels_avx512 = {
#include <tensum/semirings.def>
};
#undef TS_PAIR
#undef TENSUM_SEMIRING
#endif

extern ts_cpu_stream_lines ts_cpu_stream_lines_generic, ts_cpu_stream_lines_avx2, ts_cpu_stream_lines_avx512;
extern const ts_cpu_shuffler ts_cpu_shufflers_generic[], ts_cpu_shufflers_avx2[], ts_cpu_shufflers_avx512[],
    ts_cpu_shufflers_avx512vbmi[];

/* ---- instruction sets, the best first. The compiler's probe asks CPUID and, by XGETBV, the operating system. ---- */

#if defined(TS_CPU_X86)
static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma");
}
static int has_vbmi(void) { return __builtin_cpu_supports("avx512vbmi"); }
static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif
static int always(void) { return 1; }

static const struct isa {
    const char *name;
    int (*usable)(void);
    const table *kernels;
    const ts_cpu_shuffler *shufflers, *later_shufflers; /* the later ones where `later` says so */
    int (*later)(void);
    ts_cpu_stream_lines *stream;
} isas[] = {
#if defined(TS_CPU_X86)
    {"avx512", has_avx512, &kernels_avx512, ts_cpu_shufflers_avx512, ts_cpu_shufflers_avx512vbmi, has_vbmi, ts_cpu_stream_lines_avx512},
    {"avx2", has_avx2, &kernels_avx2, ts_cpu_shufflers_avx2, NULL, NULL, ts_cpu_stream_lines_avx2},
#endif
    {"generic", always, &kernels_generic, ts_cpu_shufflers_generic, NULL, NULL, ts_cpu_stream_lines_generic},
};
enum { ISA_COUNT = sizeof isas / sizeof isas[0] };

/* Environment TENSUM_CPU_ISA asks for one by name; what the machine cannot run is passed over. */
static const struct isa *choose(void)
{
    const char *wanted = getenv("TENSUM_CPU_ISA");
    for (int pass = wanted != NULL ? 0 : 1; pass < 2; pass++) {
        for (int i = 0; i < ISA_COUNT; i++) {
            if ((pass == 1 || strcmp(wanted, isas[i].name) == 0) && isas[i].usable()) {
                return &isas[i];
            }
        }
    }
    return &isas[ISA_COUNT - 1];
}

static const struct isa *chosen_isa(void)
{
    static _Atomic(const struct isa *) chosen; /* the answer never changes: a cache, not state */
    const struct isa *isa = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (isa == NULL) {
        isa = choose();
        atomic_store_explicit(&chosen, isa, memory_order_relaxed);
    }
    return isa;
}

const ts_cpu_kernel *ts_cpu_kernel_find(tensum_semiring semiring, tensum_dtype dtype)
{
    if ((unsigned)semiring >= TENSUM_SEMIRING_COUNT || (unsigned)dtype >= TENSUM_DTYPE_COUNT) {
        return NULL;
    }
    return (*chosen_isa()->kernels)[semiring][dtype];
}

const ts_cpu_shuffler *ts_cpu_shuffler_find(size_t element)
{
    const struct isa *isa = chosen_isa();
    if (element < 1 || element > 8) {
        return NULL;
    }
    const ts_cpu_shuffler *shufflers = isa->later != NULL && isa->later() ? isa->later_shufflers : isa->shufflers;
    const ts_cpu_shuffler *shuffler = &shufflers[__builtin_ctz((unsigned)element)];
    return shuffler->lines != NULL ? shuffler : NULL;
}

ts_cpu_stream_lines *ts_cpu_stream_find(void) { return chosen_isa()->stream; }

const char *ts_cpu_isa_name(void) { return chosen_isa()->name; }

/* ---- caches ---- */

#define LEAST_CACHE ((int64_t)4 << 10)
#define MOST_CACHE ((int64_t)256 << 20)

/* Kibibytes from `text` on, behind which a comma or the end has to follow. */
static const char *read_kibibytes(const char *text, int64_t *bytes)
{
    char *end;
    const long long value = strtoll(text, &end, 10);
    *bytes = value > 0 && value <= MOST_CACHE >> 10 ? (int64_t)value << 10 : 0;
    return end != text && *end == ',' ? end + 1 : end;
}

static int64_t usable_size(int64_t wanted, int64_t reported, int64_t usual)
{
    const int64_t size = wanted > 0 ? wanted : reported > 0 ? reported : usual;
    return ts_max64(LEAST_CACHE, ts_min64(size, MOST_CACHE));
}

/* Environment TENSUM_CPU_CACHES: kibibytes of the first and the second level, such as 48,1024. */
static ts_cpu_caches find_caches(void)
{
    const char *text = getenv("TENSUM_CPU_CACHES");
    int64_t wanted[2] = {0}, reported[2] = {0};
    if (text != NULL) {
        read_kibibytes(read_kibibytes(text, &wanted[0]), &wanted[1]);
    }
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
    reported[0] = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    reported[1] = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return (ts_cpu_caches){usable_size(wanted[0], reported[0], 32 << 10), usable_size(wanted[1], reported[1], 512 << 10)};
}

ts_cpu_caches ts_cpu_cache_sizes(void)
{
    static _Atomic(int64_t) first, second; /* answers that never change; the second is written last */
    ts_cpu_caches caches = {.second = atomic_load_explicit(&second, memory_order_acquire)};
    if (caches.second == 0) {
        caches = find_caches();
        atomic_store_explicit(&first, caches.first, memory_order_relaxed);
        atomic_store_explicit(&second, caches.second, memory_order_release);
        return caches;
    }
    caches.first = atomic_load_explicit(&first, memory_order_relaxed);
    return caches;
}

/* ---- slots ---- */

static int32_t device_count(void) { return 1; }

static tensum_status device_query(int32_t index, tensum_device_info *info)
{
    const struct isa *isa = chosen_isa();
    cpu_set_t set;
    size_t used = 0;
    (void)index;
    snprintf(info->name, sizeof info->name, "cpu");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file != NULL) {
        char line[256];
        while (fgets(line, sizeof line, file) != NULL) {
            const char *colon = strchr(line, ':');
            if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
                line[strcspn(line, "\n")] = '\0';
                snprintf(info->name, sizeof info->name, "%.127s", colon + 2);
                break;
            }
        }
        fclose(file);
    }
    snprintf(info->driver, sizeof info->driver, "%s", isa->name);
    const ts_cpu_kernel *f32 = (*isa->kernels)[TENSUM_MAX_PLUS][TENSUM_F32];
    const ts_cpu_kernel *f64 = (*isa->kernels)[TENSUM_MAX_PLUS][TENSUM_F64];
    const ts_cpu_kernel *i16 = (*isa->kernels)[TENSUM_MAX_PLUS][TENSUM_I16];
    const ts_cpu_caches caches = ts_cpu_cache_sizes();
    used += (size_t)snprintf(info->detail, sizeof info->detail,
                             "tiles f32 %dx%d, f64 %dx%d, i16 %dx%d; caches %d KiB, %d KiB; can run:", (int)f32->rows,
                             (int)f32->columns, (int)f64->rows, (int)f64->columns, (int)i16->rows, (int)i16->columns,
                             (int)(caches.first >> 10), (int)(caches.second >> 10));
    for (int i = 0; i < ISA_COUNT && used < sizeof info->detail; i++) {
        if (isas[i].usable()) {
            used += (size_t)snprintf(info->detail + used, sizeof info->detail - used, " %s", isas[i].name);
        }
    }
    const long pages = sysconf(_SC_PHYS_PAGES), available = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    info->memory_total = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    info->memory_free = available > 0 && page > 0 ? (uint64_t)available * (uint64_t)page : 0;
    info->units = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return TENSUM_OK;
}

static unsigned supports(tensum_semiring semiring, tensum_dtype dtype) { return ts_pair_modes(semiring, dtype); }

static const ts_backend *oracle(void) { return ts_backend_find(TENSUM_REFERENCE); }

static bool has_kernel(const ts_algebra *algebra) { return ts_cpu_kernel_find(algebra->semiring, algebra->dtype) != NULL; }

static size_t contract_scratch(const ts_contract_spec *spec, int32_t threads)
{
    return has_kernel(&spec->algebra) ? ts_cpu_contract_scratch(spec, threads) : 0;
}
static size_t reduce_scratch(const ts_reduce_spec *spec, int32_t threads)
{
    return has_kernel(&spec->algebra) ? ts_cpu_reduce_scratch(spec, threads) : 0;
}
static size_t adjoint_scratch(const ts_adjoint_spec *spec, int32_t threads)
{
    return has_kernel(&spec->algebra) ? ts_cpu_adjoint_scratch(spec, threads) : 0;
}
static tensum_status contract(const ts_contract_spec *spec, const void *a, const void *b, void *c, void *winners,
                              const ts_run *run)
{
    return has_kernel(&spec->algebra) ? ts_cpu_contract(spec, a, b, c, winners, run)
                                      : oracle()->contract(spec, a, b, c, winners, run);
}
static tensum_status reduce(const ts_reduce_spec *spec, const void *a, void *c, void *winners, const ts_run *run)
{
    return has_kernel(&spec->algebra) ? ts_cpu_reduce_step(spec, a, c, winners, run)
                                      : oracle()->reduce(spec, a, c, winners, run);
}
static tensum_status adjoint(const ts_adjoint_spec *spec, const void *a, const void *b, const void *c, const void *winners,
                             const void *g, void *d, const ts_run *run)
{
    return has_kernel(&spec->algebra) ? ts_cpu_adjoint(spec, a, b, c, winners, g, d, run)
                                      : oracle()->adjoint(spec, a, b, c, winners, g, d, run);
}
static tensum_status reduce_adjoint(const ts_reduce_adjoint_spec *spec, const void *a, const void *c, const void *winners,
                                    const void *g, void *d, const ts_run *run)
{
    return has_kernel(&spec->algebra) ? ts_cpu_reduce_adjoint(spec, a, c, winners, g, d, run)
                                      : oracle()->reduce_adjoint(spec, a, c, winners, g, d, run);
}

const ts_backend ts_backend_cpu = {
    .name = "cpu",
    .kind = TENSUM_CPU,
    .device_count = device_count,
    .device_query = device_query,
    .supports = supports,
    .contract_scratch = contract_scratch,
    .reduce_scratch = reduce_scratch,
    .adjoint_scratch = adjoint_scratch,
    .contract = contract,
    .prepare_bytes = ts_cpu_prepared_bytes,
    .prepare = ts_cpu_prepare,
    .chain_positions = ts_cpu_chain_positions,
    .chain_scratch = ts_cpu_chain_scratch,
    .chain = ts_cpu_chain,
    .reduce = reduce,
    .adjoint = adjoint,
    .reduce_adjoint = reduce_adjoint,
    .fill = ts_cpu_fill,
};
