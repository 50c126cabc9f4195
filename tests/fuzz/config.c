/* config.c - fuzzes the configuration file.
 *
 * What is refused is refused with the file's name. Round trip: what is taken, printed
 * as a configuration, reads as the same. */
#include <string.h>
#include "fuzz.h"
#include "options.h"
#include "options_file.h"
#include "options_text.h"

static char *print(const struct options *o)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    CHECK(out != NULL);
    options_print_config(o, out);
    fclose(out);
    return text;
}

static void read_defaults(struct options *o)
{
    char *argv[] = {(char[]){"hilod"}, NULL};
    char error[OPTIONS_ERROR_MAX];

    CHECK(options_read(1, argv, o, error) == OPTIONS_RUN);
}

static bool read_text(const char *text, size_t size, struct options *o, char *error)
{
    char *copy = malloc(size + 1);
    bool good;

    CHECK(copy != NULL);
    memcpy(copy, text, size);
    copy[size] = '\0';
    good = options_read_text("fuzz.conf", copy, o, error);
    free(copy);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[OPTIONS_ERROR_MAX] = "";
    struct options o, again;
    char *first, *second;

    read_defaults(&o);
    if (!read_text((const char *)data, size, &o, error)) {
        CHECK(strncmp(error, "fuzz.conf:", 10) == 0);
        options_free(&o);
        return 0;
    }
    first = print(&o);
    read_defaults(&again);
    CHECK(read_text(first, strlen(first), &again, error));
    second = print(&again);
    CHECK(strcmp(first, second) == 0);
    free(first);
    free(second);
    options_free(&o);
    options_free(&again);
    return 0;
}
