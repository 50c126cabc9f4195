/* blocking.c SERVERS NAME COUNT - prints COUNT ids.
 *
 *     cc blocking.c $(pkg-config --cflags --libs hilo) */
#include <hilo.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    hilo_options o;
    char text[512] = "";
    hilo_seq *seq;
    uint64_t id;
    hilo *h;

    if (argc != 4)
        return 64;
    hilo_options_init(&o);
    o.servers = argv[1];
    if (hilo_open(&o, text, sizeof text, &h) != 0) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    if (hilo_seq_open(h, argv[2], NULL, &seq) != 0)
        goto failed;
    for (int i = 0; i < atoi(argv[3]); i++) {
        if (hilo_next(seq, &id) != 0)
            goto failed;
        printf("%" PRIu64 "\n", id);
    }
    hilo_close(h); /* closes its sequences too */
    return 0;
failed:
    hilo_errmsg(h, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    return 1;
}
