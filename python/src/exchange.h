/* The binary interface of DLPack 1.x (github.com/dmlc/dlpack, include/dlpack/dlpack.h), declared for ourselves.
 * Field order and sizes are the interface; names are ours. */
#ifndef TS_PYTHON_EXCHANGE_H
#define TS_PYTHON_EXCHANGE_H

#include <stdint.h>

/* Device types: only those that matter here. */
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
/* Type codes. */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };
/* Flags of a versioned tensor. */
#define DL_READ_ONLY UINT64_C(1)
#define DL_IS_COPIED UINT64_C(2)

typedef struct dl_version {
    uint32_t major, minor;
} dl_version;

typedef struct dl_device {
    int32_t type, index;
} dl_device;

typedef struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t rank;
    dl_dtype dtype;
    int64_t *extents;
    int64_t *strides; /* in elements; NULL (before 1.2): compact row-major */
    uint64_t byte_offset;
} dl_tensor;

/* In a capsule named "dltensor"; "used_dltensor" once consumed. */
typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

/* In a capsule named "dltensor_versioned"; "used_dltensor_versioned" once consumed. */
typedef struct dl_managed_versioned {
    dl_version version;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed_versioned;

/* DLPack 1.3: type(x).__dlpack_c_exchange_api__ is a capsule "dlpack_exchange_api" of this table.
 * The functions return 0, or -1 with a Python error set; none synchronizes. */
typedef struct dl_exchange_header {
    dl_version version;
    struct dl_exchange_header *previous; /* an older table, or NULL */
} dl_exchange_header;

typedef struct dl_exchange {
    dl_exchange_header header;
    int (*allocate)(dl_tensor *prototype, dl_managed_versioned **out, void *error_context,
                    void (*set_error)(void *error_context, const char *kind, const char *message));
    int (*managed_from_object)(void *object, dl_managed_versioned **out);
    int (*managed_to_object)(dl_managed_versioned *tensor, void **object); /* takes the tensor */
    int (*tensor_from_object)(void *object, dl_tensor *out); /* borrowed; may be NULL */
    int (*current_stream)(int32_t device_type, int32_t device_index, void **stream);
} dl_exchange;

#endif
