/* manual.c - a program of the build: prints the list of options for hilod.8. */
#include "options_text.h"

int main(void)
{
    options_print_mdoc(stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
