/*
 * driver.c - runs a fuzz target over given files, and over the files of given directories.
 *
 * Speaks TAP, one test per input. An input that fails ends the process; the line before tells
 * which one it was.
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX (32L << 20)
#define NAME_MAX_BYTES  4096

static unsigned run_count;

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    /* of the very size, so that a sanitizer notices reading beyond */
    uint8_t *bytes = size >= 0 && size <= INPUT_BYTES_MAX ? malloc((size_t)size + !size) : NULL;
    if (bytes)
        rewind(file);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        printf("Bail out! cannot read %s\n", path);
        exit(1);
    }
    printf("# %s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    const char *slash = strrchr(path, '/');
    printf("ok %u - %s\n", ++run_count, slash ? slash + 1 : path);
    free(bytes);
    fclose(file);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct dirent **entry;
        int n = scandir(argv[i], &entry, NULL, alphasort);
        if (n < 0)
            run_file(argv[i]);
        for (int k = 0; k < n; k++) {
            char path[NAME_MAX_BYTES];
            int len = snprintf(path, sizeof path, "%s/%s", argv[i], entry[k]->d_name);
            if (entry[k]->d_name[0] != '.' && len > 0 && len < NAME_MAX_BYTES)
                run_file(path);
            free(entry[k]);
        }
        if (n >= 0)
            free(entry);
    }
    printf("1..%u\n", run_count);
    return run_count ? 0 : 1; /* a corpus that vanished is a failure */
}
