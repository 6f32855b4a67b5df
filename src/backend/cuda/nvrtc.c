#define _GNU_SOURCE
#include "backend/cuda/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/cache.h"

typedef struct nvrtc_program *program_handle;

/* X(member, exported symbol, needed, result, arguments) */
#define NVRTC_CALLS(X)                                                                                                \
    X(version, "nvrtcVersion", 1, int, (int *major, int *minor))                                                      \
    X(error_string, "nvrtcGetErrorString", 1, const char *, (int result))                                             \
    X(create, "nvrtcCreateProgram", 1, int,                                                                           \
      (program_handle * program, const char *text, const char *name, int header_count, const char *const *headers,    \
       const char *const *include_names))                                                                             \
    X(compile, "nvrtcCompileProgram", 1, int, (program_handle program, int option_count, const char *const *options)) \
    X(destroy, "nvrtcDestroyProgram", 1, int, (program_handle * program))                                             \
    X(log_bytes, "nvrtcGetProgramLogSize", 1, int, (program_handle program, size_t *bytes))                           \
    X(log, "nvrtcGetProgramLog", 1, int, (program_handle program, char *text))                                        \
    X(cubin_bytes, "nvrtcGetCUBINSize", 1, int, (program_handle program, size_t *bytes))                              \
    X(cubin, "nvrtcGetCUBIN", 1, int, (program_handle program, char *image))                                          \
    X(ptx_bytes, "nvrtcGetPTXSize", 1, int, (program_handle program, size_t *bytes))                                  \
    X(ptx, "nvrtcGetPTX", 1, int, (program_handle program, char *image))                                              \
    X(architecture_count, "nvrtcGetNumSupportedArchs", 1, int, (int *count))                                          \
    X(architectures, "nvrtcGetSupportedArchs", 1, int, (int *numbers))

typedef struct nvrtc_table {
#define NVRTC_MEMBER(member, symbol, needed, result, arguments) result(*member) arguments;
    NVRTC_CALLS(NVRTC_MEMBER)
#undef NVRTC_MEMBER
    int major, minor;
} nvrtc_table;

/* ---- the library ---- */

/* NVRTC opens its companion by name, which is found beside it only if it is loaded already. */
static void open_companion(const nvrtc_table *table, void *any_symbol)
{
    Dl_info where;
    char path[4096];
    const char *slash;

    if (dladdr(any_symbol, &where) == 0 || where.dli_fname == NULL) {
        return;
    }
    slash = strrchr(where.dli_fname, '/');
    if (slash == NULL) {
        return;
    }
    if (snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - where.dli_fname), where.dli_fname,
                 table->major, table->minor) < (int)sizeof path) {
        (void)dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* where it is not, NVRTC looks for it itself */
    }
}

static tensum_status check(const nvrtc_table *table, int result, const char *what)
{
    const char *words = result != 0 ? table->error_string(result) : NULL;

    return result == 0 ? TENSUM_OK
                       : ts_fail(TENSUM_STATUS_DEVICE, "NVRTC: %s: %s (%d)", what, words != NULL ? words : "unknown error",
                                 result);
}

static tensum_status open_library(nvrtc_table *table)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *chosen = secure_getenv("TENSUM_NVRTC_LIBRARY");
    tensum_status status = TENSUM_OK;
    void *library = NULL, *symbol = NULL;

    /* Never closed: opened once a module, and the loader counts. */
    if (chosen != NULL && chosen[0] != '\0') {
        library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    } else {
        for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; i++) {
            library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        }
    }
    if (library == NULL) {
        const char *reason = dlerror();
        return ts_fail(TENSUM_STATUS_UNSUPPORTED,
                       "this library has no kernels for it, and NVRTC, which would compile them, is not there (%s): install "
                       "it with CUDA or as the Python package nvidia-cuda-nvrtc, or set TENSUM_NVRTC_LIBRARY to its file",
                       reason != NULL ? reason : "libnvrtc.so");
    }
#define NVRTC_FIND(member, name, needed, result, arguments)                                                            \
    symbol = dlsym(library, name);                                                                                     \
    if (symbol == NULL && (needed)) {                                                                                  \
        return ts_fail(TENSUM_STATUS_UNSUPPORTED,                                                                      \
                       "this library has no kernels for it, and NVRTC, which would compile them, has no function %s: " \
                       "it is too old", name);                                                                         \
    }                                                                                                                  \
    memcpy(&table->member, &symbol, sizeof table->member);
    NVRTC_CALLS(NVRTC_FIND)
#undef NVRTC_FIND
    TRY(check(table, table->version(&table->major, &table->minor), "nvrtcVersion"));
    open_companion(table, symbol);
done:
    return status;
}

/* ---- what to compile ---- */

enum { MOST_OPTIONS = 12, OPTION_BYTES = 96 };

typedef struct request {
    char text[512];
    char option_text[MOST_OPTIONS][OPTION_BYTES];
    const char *options[MOST_OPTIONS];
    int option_count;
    bool ptx;
    char name[128]; /* of the file that keeps it */
} request;

static void add_option(request *wanted, const char *format, const char *value)
{
    char *text = wanted->option_text[wanted->option_count];

    (void)snprintf(text, OPTION_BYTES, format, value);
    wanted->options[wanted->option_count++] = text;
}

typedef struct semiring_words {
    const char *name, *add, *mul, *dtypes, *selective;
} semiring_words;
static const semiring_words semirings[TENSUM_SEMIRING_COUNT] = {
#define TENSUM_SEMIRING(id, name, alias, add, mul, dtypes, selective, summary) \
    [TENSUM_##id] = {#name, #add, #mul, #dtypes, #selective},
#include <tensum/semirings.def>
#undef TENSUM_SEMIRING
};

static void describe_module(request *wanted, int module, tensum_dtype dtype)
{
    if (module == TS_CUDA_COMMON) {
        (void)snprintf(wanted->text, sizeof wanted->text, "#include \"standard.h\"\n#include \"common.cu\"\n");
        return;
    }
    /* The semiring's list of dtypes, cut down to one. */
    (void)snprintf(wanted->text, sizeof wanted->text,
                   "#include \"standard.h\"\n#include \"algebra/algebra.h\"\n#undef TS_DTYPES_%s\n"
                   "#define TS_DTYPES_%s(s, a, m, sel) TS_PAIR(s, a, m, sel, %s)\n#include \"module.cu\"\n",
                   semirings[module].dtypes, semirings[module].dtypes, tensum_dtype_name(dtype));
    add_option(wanted, "-DTS_MODULE_SEMIRING=%s", semirings[module].name);
    add_option(wanted, "-DTS_MODULE_ADD=%s", semirings[module].add);
    add_option(wanted, "-DTS_MODULE_MUL=%s", semirings[module].mul);
    add_option(wanted, "-DTS_MODULE_DTYPES=%s", semirings[module].dtypes);
    add_option(wanted, "-DTS_MODULE_SELECTIVE=%s", semirings[module].selective);
}

/* Machine code where this NVRTC knows the device; else PTX of the newest architecture before it, for the driver. */
static tensum_status choose_architecture(const nvrtc_table *table, const ts_cuda_device *device, request *wanted)
{
    tensum_status status = TENSUM_OK;
    int count = 0, best = 0;
    int *numbers = NULL;
    char text[16];

    TRY(check(table, table->architecture_count(&count), "nvrtcGetNumSupportedArchs"));
    TRY(ts_allocate_zero((size_t)ts_max64(count, 0), sizeof *numbers, "a list of architectures", &numbers));
    TRY(check(table, table->architectures(numbers), "nvrtcGetSupportedArchs"));
    for (int i = 0; i < count; i++) {
        best = numbers[i] <= device->capability && numbers[i] > best ? numbers[i] : best;
    }
    if (best == 0) {
        TRY(ts_fail(TENSUM_STATUS_UNSUPPORTED, "this library has no kernels for it, and NVRTC %d.%d does not know sm_%d",
                    table->major, table->minor, device->capability));
    }
    wanted->ptx = best != device->capability;
    (void)snprintf(text, sizeof text, "%d", best);
    add_option(wanted, wanted->ptx ? "--gpu-architecture=compute_%s" : "--gpu-architecture=sm_%s", text);
    add_option(wanted, "%s", "--std=c++17");
    add_option(wanted, "%s", "--fmad=false");
    add_option(wanted, "%s", "-default-device");
done:
    ts_free(numbers);
    return status;
}

/* The file's name: what a person wants to see, and a hash of all that the image depends on. */
static void name_file(const nvrtc_table *table, const ts_cuda_device *device, int module, tensum_dtype dtype,
                      request *wanted)
{
    size_t source_count = 0;
    const ts_cuda_source *sources = ts_cuda_sources(&source_count);
    ts_cuda_hash hash = TS_CUDA_HASH_INIT;
    char versions[64];

    (void)snprintf(versions, sizeof versions, "tensum %s nvrtc %d.%d", tensum_version(), table->major, table->minor);
    ts_cuda_hash_add(&hash, versions, strlen(versions) + 1);
    ts_cuda_hash_add(&hash, wanted->text, strlen(wanted->text) + 1);
    for (int i = 0; i < wanted->option_count; i++) {
        ts_cuda_hash_add(&hash, wanted->options[i], strlen(wanted->options[i]) + 1);
    }
    for (size_t i = 0; i < source_count; i++) {
        ts_cuda_hash_add(&hash, sources[i].name, strlen(sources[i].name) + 1);
        ts_cuda_hash_add(&hash, sources[i].text, strlen(sources[i].text) + 1);
    }
    (void)snprintf(wanted->name, sizeof wanted->name, "%s%s%s-sm_%d-%016llx%016llx.%s",
                   module == TS_CUDA_COMMON ? "common" : semirings[module].name, module == TS_CUDA_COMMON ? "" : "-",
                   module == TS_CUDA_COMMON ? "" : tensum_dtype_name(dtype), device->capability,
                   (unsigned long long)hash.state[0], (unsigned long long)hash.state[1], wanted->ptx ? "ptx" : "cubin");
}

/* ---- compiling ---- */

static tensum_status make_image(const nvrtc_table *table, const request *wanted, void **image, size_t *bytes)
{
    tensum_status status = TENSUM_OK;
    size_t source_count = 0, log_bytes = 0;
    const ts_cuda_source *sources = ts_cuda_sources(&source_count);
    const char **texts = NULL, **names = NULL;
    char *log = NULL;
    void *made = NULL;
    program_handle program = NULL;
    int result;

    TRY(ts_allocate(source_count, sizeof *texts, "the sources of kernels", &texts));
    TRY(ts_allocate(source_count, sizeof *names, "the sources of kernels", &names));
    for (size_t i = 0; i < source_count; i++) {
        texts[i] = sources[i].text;
        names[i] = sources[i].name;
    }
    TRY(check(table, table->create(&program, wanted->text, "tensum_kernels.cu", (int)source_count, texts, names),
              "nvrtcCreateProgram"));
    result = table->compile(program, wanted->option_count, wanted->options);
    if (result != 0) {
        if (table->log_bytes(program, &log_bytes) == 0 && log_bytes > 0) {
            TRY(ts_allocate_zero(log_bytes + 1, 1, "the compiler's words", &log));
            if (table->log(program, log) != 0) {
                log[0] = '\0';
            }
        }
        status = check(table, result, "nvrtcCompileProgram");
        TRY(log == NULL || log[0] == '\0' ? status
                                         : ts_fail(TENSUM_STATUS_DEVICE, "NVRTC: the kernels do not compile: %.300s", log));
    }
    TRY(check(table, wanted->ptx ? table->ptx_bytes(program, bytes) : table->cubin_bytes(program, bytes),
              wanted->ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize"));
    TRY(ts_allocate_zero(*bytes + 1, 1, "a module's image", &made));
    TRY(check(table, wanted->ptx ? table->ptx(program, made) : table->cubin(program, made),
              wanted->ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN"));
    *image = made;
    made = NULL;
done:
    if (program != NULL) {
        (void)table->destroy(&program);
    }
    ts_free(made);
    ts_free(log);
    ts_free(texts);
    ts_free(names);
    return status;
}

tensum_status ts_cuda_compile(ts_cuda_device *device, int module, tensum_dtype dtype, bool fresh, void **image,
                              bool *kept)
{
    tensum_status status = TENSUM_OK;
    nvrtc_table table = {0};
    request wanted = {.option_count = 0};
    size_t source_count = 0, bytes = 0;

    (void)ts_cuda_sources(&source_count);
    if (source_count == 0) {
        TRY(ts_fail(TENSUM_STATUS_UNSUPPORTED, "this library was built without kernels (TENSUM_CUDA=OFF)"));
    }
    TRY(open_library(&table));
    TRY(choose_architecture(&table, device, &wanted));
    describe_module(&wanted, module, dtype);
    name_file(&table, device, module, dtype, &wanted);
    *kept = !fresh && ts_cuda_cache_read(wanted.name, image);
    if (!*kept) {
        TRY(make_image(&table, &wanted, image, &bytes));
        TS_CUDA_COUNT(device, module_compilations, 1);
        ts_cuda_cache_write(wanted.name, *image, bytes);
    }
done:
    return status == TENSUM_OK ? status : ts_fail_prefix(status, "cuda:%d, %s (sm_%d)", (int)device->ordinal, device->name,
                                                         device->capability);
}
