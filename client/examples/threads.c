/* threads.c SERVERS NAME COUNT - four threads share one sequence. */
#include <hilo.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
static atomic_int left;

static void *worker(void *seq)
{
    uint64_t id;

    while (atomic_fetch_sub(&left, 1) > 0 && hilo_next(seq, &id) == 0)
        printf("%" PRIu64 "\n", id);
    return NULL;
}

int main(int argc, char **argv)
{
    hilo_seq_options so;
    pthread_t threads[4];
    hilo_seq *seq;
    hilo *h;

    setenv("HILO_SERVER", argv[1], 1);
    if (argc != 4 || hilo_open(NULL, NULL, 0, &h) != 0)
        return 1;
    left = atoi(argv[3]);
    hilo_seq_options_init(&so);
    so.local_ids = 100; /* each thread keeps some: faster, and no longer in order */
    if (hilo_seq_open(h, argv[2], &so, &seq) != 0)
        return 1;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, worker, seq);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    hilo_close(h);
}
