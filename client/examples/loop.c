/* loop.c SERVERS NAME COUNT - ids in a libevent loop of one's own: nothing ever waits.
 */
#include <event2/event.h>
#include <hilo.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct event_base *base;
static hilo_seq *seq;
static int left;

static void on_id(void *arg, uint64_t id, int err)
{
    (void)arg;
    if (err == 0)
        printf("%" PRIu64 "\n", id);
    if (err != 0 || --left == 0 || hilo_next_async(seq, on_id, NULL) != 0)
        event_base_loopbreak(base);
}

int main(int argc, char **argv)
{
    hilo_options o;
    hilo *h;

    base = event_base_new();
    left = argc == 4 ? atoi(argv[3]) : 0;
    hilo_options_init(&o);
    o.servers = argv[1];
    o.base = base;
    if (hilo_open(&o, NULL, 0, &h) != 0 || hilo_seq_open(h, argv[2], NULL, &seq) != 0 ||
        hilo_next_async(seq, on_id, NULL) != 0)
        return 1;
    event_base_dispatch(base);
    hilo_close(h); /* before its base */
    event_base_free(base);
}
