/* replay.c - runs a fuzz target over the files of directories, without a fuzzer. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "fuzz.h"

static int replay(const char *dir, const char *name)
{
    static uint8_t data[1 << 20];
    char path[1024];
    size_t size;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "re");
    if (f == NULL)
        return -1;
    size = fread(data, 1, sizeof data, f);
    fclose(f);
    return LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    unsigned n = 0;

    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        const struct dirent *entry;

        while (dir != NULL && (entry = readdir(dir)) != NULL) {
            if (entry->d_name[0] == '.')
                continue;
            if (replay(argv[i], entry->d_name) != 0)
                return EXIT_FAILURE;
            n++;
        }
        if (dir != NULL)
            closedir(dir);
    }
    printf("%u inputs\n", n);
    return n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
