/* Runs a fuzz target over the files of a folder: as they are, cut short at every byte, and with changes drawn from a
 * fixed seed. Prints how many inputs were run; a failure is a crash or what a sanitizer says. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "fuzz.h"

enum { LONGEST = 1 << 16, CHANGES = 400, MOST_CUTS = 400 };

static long run_count;

static void run(const uint8_t *bytes, size_t length)
{
    /* A copy of the exact length, so that a sanitizer sees every byte read past the end. */
    uint8_t *copy = malloc(length != 0 ? length : 1);
    if (copy == NULL) {
        abort();
    }
    if (length != 0) {
        memcpy(copy, bytes, length);
    }
    LLVMFuzzerTestOneInput(copy, length);
    free(copy);
    run_count++;
}

/* Overwrite, insert, delete or repeat a few bytes. */
static size_t change(uint8_t *bytes, size_t length, ts_random *random)
{
    static const char dictionary[] = "0123456789-+.eE[]{}\",:'()<>| \n\t\xff\x00";
    int count = 1 + (int)ts_random_below(random, 4);
    for (int i = 0; i < count; i++) {
        size_t at = length != 0 ? ts_random_below(random, length) : 0;
        uint8_t byte = ts_random_below(random, 3) == 0 ? (uint8_t)ts_random_below(random, 256)
                                                       : (uint8_t)dictionary[ts_random_below(random, sizeof dictionary - 1)];
        switch (ts_random_below(random, 4)) {
        case 0:
            if (length != 0) {
                bytes[at] = byte;
            }
            break;
        case 1:
            if (length < LONGEST) {
                memmove(bytes + at + 1, bytes + at, length - at);
                bytes[at] = byte;
                length++;
            }
            break;
        case 2:
            if (length != 0) {
                memmove(bytes + at, bytes + at + 1, length - at - 1);
                length--;
            }
            break;
        default: {
            size_t part = length - at < 16 ? length - at : 16;
            if (length + part <= LONGEST) {
                memmove(bytes + at + part, bytes + at, length - at);
                length += part;
            }
        }
        }
    }
    return length;
}

static int replay(const char *path)
{
    static uint8_t original[LONGEST], changed[LONGEST];
    ts_random random;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    size_t length = fread(original, 1, LONGEST, file);
    fclose(file);
    run(original, length);
    for (size_t cut = 0; cut < length && cut < MOST_CUTS; cut++) {
        run(original, length <= MOST_CUTS ? cut : cut * length / MOST_CUTS);
    }
    ts_random_seed(&random, length);
    for (int i = 0; i < CHANGES; i++) {
        memcpy(changed, original, length);
        run(changed, change(changed, length, &random));
    }
    return 0;
}

int main(int argc, char **argv)
{
    int files = 0, failed = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    DIR *folder = opendir(argv[1]);
    if (folder == NULL) {
        perror(argv[1]);
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name) < (int)sizeof path) {
            failed += replay(path);
            files++;
        }
    }
    closedir(folder);
    printf("%ld inputs from %d files\n%d passed, %d failed\n", run_count, files, files - failed, failed);
    return failed != 0 || files == 0;
}
