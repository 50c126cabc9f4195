/* gate.c - hot paths, each a hundred times, for an instruction count that shows a
 * slow-down in the change that causes it.
 *
 *     gate NAME     runs one path; gate alone lists them
 *
 * gate.py runs it under callgrind, which collects inside measured() only. */
#define HILO_NO_INLINE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "alloc.h"
#include "cache.h"
#include "hot.h"
#include "lane.h"
#include "local.h"
#include "name.h"
#include "number.h"
#include "reply.h"
#include "reply_parse.h"
#include "resp.h"

#define TIMES 100

static const struct lane pair = {.number = 2, .lanes = 2, .stripe = STRIPE_DEFAULT};
static volatile uint64_t sink; /* so that nothing is optimized away */

/* --- the server's --- */

static void parse(const char *text)
{
    struct resp_request request;
    enum resp_fault fault;

    for (int i = 0; i < TIMES; i++) {
        if (resp_parse(text, strlen(text), &request, &fault) != RESP_OK)
            return;
        sink += request.argc;
    }
}

static void parse_incr(void)
{
    parse("*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n");
}

static void parse_block(void)
{
    parse("*5\r\n$5\r\nBLOCK\r\n$6\r\norders\r\n$4\r\n1000\r\n$5\r\nFLOOR\r\n$"
          "8\r\n12345678\r\n");
}

static struct alloc counter;

static void fill_alloc(void)
{
    alloc_init(&counter, 0, UINT64_C(1) << 62, false);
    alloc_filled(&counter, 12345678, 10000000, 0);
}

static void allocate_one(void)
{
    for (int i = 0; i < TIMES; i++) {
        if (alloc_ones(&counter, ALLOC_NO_CAP) > 0)
            sink += alloc_take_ones(&counter, 1) + !alloc_wants_ahead(&counter);
    }
}

static void allocate_block(void)
{
    const struct alloc_request rq = {
        .count = 1000, .atleast = 1, .floor = 12345000, .cap = ALLOC_NO_CAP};
    struct alloc_grant grant;

    for (int i = 0; i < TIMES; i++) {
        if (alloc_take(&counter, pair, &rq, 0, &grant) == ALLOC_GRANTED)
            sink += grant.first;
    }
}

static char room[65536];

static void format_int(void)
{
    struct reply out = {.data = room, .cap = sizeof room};

    for (uint64_t i = 0; i < TIMES; i++)
        reply_int(&out, 12345678 + i);
    sink += out.len;
}

static void format_ints(void)
{
    struct reply out = {.data = room, .cap = sizeof room};

    reply_ints(&out, 12345678, 1, TIMES);
    sink += out.len;
}

static void format_id(void)
{
    struct reply out = {.data = room, .cap = sizeof room};

    for (uint64_t i = 0; i < TIMES; i++)
        reply_id(&out, UINT64_C(9223372036854775000) + i);
    sink += out.len;
}

static void hash_name(void)
{
    for (uint64_t i = 0; i < TIMES; i++)
        sink += name_hash("shop/orders-eu", 14, i);
}

/* --- both --- */

static void lane_ids(void)
{
    uint64_t id;

    for (uint64_t i = 0; i < TIMES; i++) {
        if (lane_id_at(pair, 12345678 + i, &id))
            sink += id;
    }
}

static void lane_floors(void)
{
    for (uint64_t i = 0; i < TIMES; i++)
        sink += lane_first_above(pair, 12345678 + i);
}

/* --- the client's --- */

static struct hilo_head_ head;

static void fill_hot(void)
{
    const struct run r = {.first = 1, .last = 1000000, .step = 1};
    int32_t pid;

    head.hot = hot_new(&pid);
    head.serial = head.hot->serial;
    hot_publish(head.hot, r, 900000);
}

static void fill_row(void)
{
    uint32_t row = local_reserve();
    struct hilo_row_ *mine;

    fill_hot();
    mine = local_row(row);
    head.row = row;
    head.way = HILO_WAY_LOCAL_;
    *mine =
        (struct hilo_row_){.serial = head.serial, .next = 1, .end = 1000000, .step = 1};
}

static void take(void)
{
    hilo_seq *s = (hilo_seq *)(void *)&head;
    uint64_t id;

    for (int i = 0; i < TIMES; i++) {
        if (hilo_take_(s, &id) == HILO_TAKEN_)
            sink += id;
    }
}

static void parse_reply(void)
{
    static const char text[] = "*3\r\n$8\r\n12345678\r\n$8\r\n12346677\r\n$1\r\n1\r\n";
    struct reply_item items[8];
    size_t n, size;

    for (int i = 0; i < TIMES; i++) {
        if (reply_parse(text, sizeof text - 1, 512, items, 8, &n, &size) == REPLY_OK)
            sink += n;
    }
}

/* --- one of them --- */

static const struct path {
    const char *name;
    void (*prepare)(void);
    void (*run)(void);
} paths[] = {
    {"parse_incr", NULL, parse_incr},
    {"parse_block", NULL, parse_block},
    {"allocate_one", fill_alloc, allocate_one},
    {"allocate_block", fill_alloc, allocate_block},
    {"format_int", NULL, format_int},
    {"format_ints", NULL, format_ints},
    {"format_id", NULL, format_id},
    {"hash_name", NULL, hash_name},
    {"lane_ids", NULL, lane_ids},
    {"lane_floors", NULL, lane_floors},
    {"hilo_next_shared", fill_hot, take},
    {"hilo_next_local", fill_row, take},
    {"parse_reply", NULL, parse_reply},
};

void measured(void (*run)(void));

void __attribute__((noinline)) measured(void (*run)(void))
{
    run();
    __asm__ volatile("" ::: "memory"); /* no jump in place of the call */
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (argc < 2) {
            puts(paths[i].name);
            continue;
        }
        if (strcmp(argv[1], paths[i].name) != 0)
            continue;
        if (paths[i].prepare != NULL)
            paths[i].prepare();
        measured(paths[i].run);
        return 0;
    }
    return argc < 2 ? 0 : 64;
}
