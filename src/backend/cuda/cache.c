#define _GNU_SOURCE
#include "backend/cuda/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* Ahead of an image in its file, so that one that was cut off or overwritten is noticed. */
typedef struct file_head {
    char magic[8];
    uint64_t bytes;
    ts_cuda_hash hash;
} file_head;
static const char magic[8] = {'T', 'S', 'K', 'E', 'R', 'N', '1', '\n'};

void ts_cuda_hash_add(ts_cuda_hash *hash, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    uint64_t a = hash->state[0], b = hash->state[1];

    for (size_t done = 0; done < bytes; done += 8) {
        uint64_t word = (uint64_t)bytes - done < 8 ? (uint64_t)bytes << 56 : 0;
        memcpy(&word, from + done, bytes - done < 8 ? bytes - done : 8);
        a = (a ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        a ^= a >> 29;
        b = (b + word) * UINT64_C(0xd6e8feb86659fd93);
        b = (b << 31 | b >> 33) + a;
    }
    hash->state[0] = a;
    hash->state[1] = b;
}

/* The folder; false where there is to be none. */
static bool folder(char *path)
{
    const char *chosen = secure_getenv("TENSUM_KERNEL_CACHE"), *base = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int length;

    if (chosen != NULL) {
        length = snprintf(path, PATH_BYTES, "%s", chosen);
    } else if (base != NULL && base[0] == '/') {
        length = snprintf(path, PATH_BYTES, "%s/tensum/kernels", base);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path, PATH_BYTES, "%s/.cache/tensum/kernels", home);
    } else {
        return false;
    }
    return length > 0 && length < PATH_BYTES - 256;
}

static bool read_fully(int file, void *to, size_t bytes)
{
    unsigned char *at = to;

    while (bytes > 0) {
        ssize_t got = read(file, at, bytes);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_fully(int file, const void *from, size_t bytes)
{
    const unsigned char *at = from;

    while (bytes > 0) {
        ssize_t put = write(file, at, bytes);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

bool ts_cuda_cache_read(const char *name, void **image)
{
    char path[PATH_BYTES];
    struct stat about;
    file_head head;
    ts_cuda_hash hash = TS_CUDA_HASH_INIT;
    unsigned char *made = NULL;
    bool good = false;
    int file;

    if (!folder(path)) {
        return false;
    }
    (void)snprintf(path + strlen(path), PATH_BYTES - strlen(path), "/%s", name);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    if (fstat(file, &about) == 0 && about.st_size > (off_t)sizeof head && read_fully(file, &head, sizeof head) &&
        memcmp(head.magic, magic, sizeof magic) == 0 && head.bytes == (uint64_t)about.st_size - sizeof head &&
        ts_allocate_zero((size_t)head.bytes + 1, 1, "a module's image", &made) == TENSUM_OK) {
        good = read_fully(file, made, (size_t)head.bytes);
        ts_cuda_hash_add(&hash, made, (size_t)head.bytes);
        good = good && memcmp(&hash, &head.hash, sizeof hash) == 0;
    }
    (void)close(file);
    if (!good) {
        ts_free(made);
        return false;
    }
    *image = made;
    return true;
}

/* Make the folder and those above it. */
static void make_folders(char *path)
{
    for (char *slash = path + 1; *slash != '\0'; slash++) {
        if (*slash == '/') {
            *slash = '\0';
            (void)mkdir(path, 0777);
            *slash = '/';
        }
    }
    (void)mkdir(path, 0777);
}

void ts_cuda_cache_write(const char *name, const void *image, size_t bytes)
{
    char path[PATH_BYTES], beside[PATH_BYTES + 16];
    file_head head = {.bytes = bytes, .hash = TS_CUDA_HASH_INIT};
    bool good;
    int file;

    if (!folder(path) || path[0] == '\0') {
        return;
    }
    make_folders(path);
    (void)snprintf(path + strlen(path), PATH_BYTES - strlen(path), "/%s", name);
    (void)snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    file = mkostemp(beside, O_CLOEXEC);
    if (file < 0) {
        return;
    }
    memcpy(head.magic, magic, sizeof magic);
    ts_cuda_hash_add(&head.hash, image, bytes);
    good = write_fully(file, &head, sizeof head) && write_fully(file, image, bytes);
    good = close(file) == 0 && good;
    /* Others see the whole file or none. */
    if (!good || rename(beside, path) != 0) {
        (void)unlink(beside);
    }
}
