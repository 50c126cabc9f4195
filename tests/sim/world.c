/* world.c - time, chance, and the story of one seed. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "power.h"
#include "sim.h"

#define CHAOS_US INT64_C(12000000)
#define CALM_US  INT64_C(60000000) /* by then everybody has got on */

struct happening {
    int64_t at_us;
    uint64_t order; /* of those at one time, the one that was planned first */
    void (*fn)(void *arg, uint64_t n);
    void *arg;
    uint64_t n;
};

int64_t sim_now_us;
bool sim_calm, sim_tell;

static struct happening *heap;
static size_t heap_n, heap_cap;
static uint64_t planned, happened, state, seed;
static char dir[64];

/* --- chance --- */

/* SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t sim_random(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t sim_below(uint64_t n)
{
    return sim_random() % n;
}

bool sim_mishap(uint64_t n)
{
    return !sim_calm && sim_below(n) == 0;
}

/* --- telling --- */

void sim_say(const char *fmt, ...)
{
    va_list ap;

    if (!sim_tell)
        return;
    printf("%9.3f ms  ", (double)sim_now_us / 1000);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

static void clean_up(void)
{
    char command[128];

    power_watch(NULL);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (dir[0] != '\0' && system(command) != 0)
        perror(command);
}

void sim_found(const char *fmt, ...)
{
    va_list ap;

    printf("SEED %" PRIu64 ", after %.3f ms: ", seed, (double)sim_now_us / 1000);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\nsummary: 0 passed, 1 failed\nTo be told all of it: make sim SEED=%" PRIu64
           "\n",
           seed);
    fflush(stdout);
    clean_up();
    _exit(1);
}

/* --- time --- */

static bool is_before(const struct happening *a, const struct happening *b)
{
    return a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order);
}

static void swap(size_t a, size_t b)
{
    struct happening h = heap[a];

    heap[a] = heap[b];
    heap[b] = h;
}

void sim_later(int64_t us, void (*fn)(void *arg, uint64_t n), void *arg, uint64_t n)
{
    size_t i = heap_n++;

    if (heap_n > heap_cap) {
        heap_cap = 2 * heap_n;
        heap = realloc(heap, heap_cap * sizeof *heap);
        if (heap == NULL)
            abort();
    }
    heap[i] = (struct happening){
        .at_us = sim_now_us + us, .order = planned++, .fn = fn, .arg = arg, .n = n};
    for (; i > 0 && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(i, (i - 1) / 2);
}

static struct happening next(void)
{
    struct happening h = heap[0];
    size_t i = 0, least;

    heap[0] = heap[--heap_n];
    while (least = i, true) {
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < heap_n; k++) {
            if (is_before(&heap[k], &heap[least]))
                least = k;
        }
        if (least == i)
            return h;
        swap(i, least);
        i = least;
    }
}

static void live_until(int64_t us)
{
    while (heap_n > 0 && heap[0].at_us <= us) {
        struct happening h = next();

        sim_now_us = h.at_us;
        h.fn(h.arg, h.n);
        happened++;
    }
    sim_now_us = us;
}

/* --- a story --- */

/* Everybody gets ids from every sequence that has some, once nothing fails any more. */
static void get_on(void)
{
    uint64_t before[CLIENTS][SEQS];
    int64_t end = sim_now_us + CALM_US;
    bool waiting = true;

    for (unsigned c = 0; c < CLIENTS; c++)
        for (unsigned s = 0; s < SEQS; s++)
            before[c][s] = sim_client_ids(c, s);
    while (waiting && sim_now_us < end) {
        live_until(sim_now_us + 500000);
        waiting = false;
        for (unsigned c = 0; c < CLIENTS; c++)
            for (unsigned s = 0; s < 2; s++) /* of these everybody takes */
                waiting |= sim_client_ids(c, s) < before[c][s] + 100;
    }
    for (unsigned c = 0; c < CLIENTS; c++)
        for (unsigned s = 0; s < 2; s++)
            if (sim_client_ids(c, s) < before[c][s] + 100)
                sim_found(
                    "nothing fails any more, but client %u does not get ids of %s", c,
                    sim_names[s]);
}

static void change_lanes(void *unused, uint64_t n)
{
    (void)unused, (void)n;
    sim_change_lanes();
}

static void tell(uint64_t which)
{
    seed = state = which;
    srand((unsigned)which);
    sim_now_us = 0;
    sim_calm = false;
    heap_n = 0;
    planned = 0;
    power_watch(dir);
    sim_disks_reset();
    sim_nodes_start(1 + (unsigned)sim_below(NODES), dir);
    ledger_reset();
    sim_clients_start();
    power_flaky(sim_below(3) == 0 ? 100 : 0);
    for (uint64_t n = sim_below(4); n > 1; n--)
        sim_later((int64_t)sim_below(CHAOS_US), change_lanes, NULL, 0);
    live_until(CHAOS_US);
    sim_calm = true;
    power_flaky(0);
    get_on();
    sim_clients_end();
    sim_nodes_end();
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* sim FIRST COUNT [SEED...], or sim SEED to be told it */
int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    double begin = seconds(), took;
    struct stat st;

    setvbuf(stdout, NULL, _IOLBF, 0);
    sim_tell = argc == 2;
    snprintf(dir, sizeof dir, "%s/hilo-sim-XXXXXX",
             stat("/dev/shm", &st) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(dir) == NULL) {
        perror(dir);
        return 1;
    }
    for (int i = 3; i < argc; i++)
        tell(strtoull(argv[i], NULL, 10));
    for (uint64_t i = 0; i < count; i++)
        tell(first + i);
    took = seconds() - begin;
    printf("%" PRIu64 " seeds from %" PRIu64 " on, %" PRIu64
           " steps: nothing found (%.0f seeds/s)\nsummary: 1 passed, 0 failed\n",
           count, first, happened, (double)count / took);
    free(heap);
    clean_up();
    return 0;
}
