/* request.c - fuzzes the request parser as a stream of requests.
 *
 * Two oracles. Splitting: a request is incomplete with every part of its bytes; a bad
 * one is incomplete up to some byte and then bad for the same reason, whatever follows.
 * Round trip: a request that was understood, written as an array of bulk strings, is
 * understood as the same. */
#include <string.h>
#include "fuzz.h"
#include "resp.h"

#define SPLIT_MAX 2048 /* bytes split everywhere; of longer requests every so many */

/* Parses from a buffer of exactly that size, so that a byte too far is seen. Arguments
 * are moved to the original. */
static enum resp_status parse(const char *text, size_t len, struct resp_request *ret,
                              enum resp_fault *ret_fault)
{
    char *exact = malloc(len > 0 ? len : 1);
    enum resp_status status;

    CHECK(exact != NULL);
    memcpy(exact, text, len);
    status = resp_parse(exact, len, ret, ret_fault);
    CHECK(memcmp(exact, text, len) == 0);
    if (status == RESP_OK) {
        CHECK(ret->size > 0 && ret->size <= len && ret->size <= RESP_MAX_REQUEST);
        CHECK(ret->argc <= RESP_MAX_ARGS);
        for (size_t i = 0; i < ret->argc; i++) {
            CHECK(ret->argv[i].len <= RESP_MAX_ARG);
            CHECK(ret->argv[i].p >= exact);
            CHECK(ret->argv[i].p + ret->argv[i].len <= exact + ret->size);
            ret->argv[i].p = text + (ret->argv[i].p - exact);
        }
    }
    free(exact);
    return status;
}

static void check_splits(const char *text, size_t len, enum resp_status whole,
                         enum resp_fault whole_fault)
{
    size_t step = len > SPLIT_MAX ? len / SPLIT_MAX + 1 : 1;
    bool was_bad = false;
    struct resp_request rq;
    enum resp_fault fault;

    for (size_t cut = 0; cut < len; cut += step) {
        enum resp_status status = parse(text, cut, &rq, &fault);

        CHECK(status != RESP_OK);
        CHECK(status == RESP_BAD || !was_bad);
        if (status == RESP_BAD) {
            CHECK(whole == RESP_BAD && fault == whole_fault);
            was_bad = true;
        }
    }
}

static void check_round_trip(const struct resp_request *rq)
{
    static char text[RESP_MAX_REQUEST];
    struct resp_request again;
    enum resp_fault fault;
    size_t len = (size_t)sprintf(text, "*%zu\r\n", rq->argc);

    for (size_t i = 0; i < rq->argc; i++) {
        len += (size_t)sprintf(text + len, "$%zu\r\n", rq->argv[i].len);
        memcpy(text + len, rq->argv[i].p, rq->argv[i].len);
        len += rq->argv[i].len;
        memcpy(text + len, "\r\n", 2);
        len += 2;
    }
    CHECK(parse(text, len, &again, &fault) == RESP_OK);
    CHECK(again.size == len && again.argc == rq->argc);
    for (size_t i = 0; i < rq->argc; i++) {
        CHECK(again.argv[i].len == rq->argv[i].len);
        CHECK(memcmp(again.argv[i].p, rq->argv[i].p, rq->argv[i].len) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct resp_request rq;
    enum resp_fault fault = RESP_FAULT_COUNT;

    for (;;) {
        enum resp_status status = parse(text, size, &rq, &fault);

        if (status != RESP_OK) {
            check_splits(text, size, status, fault);
            CHECK(status == RESP_BAD || size < RESP_MAX_REQUEST);
            if (status == RESP_BAD)
                CHECK(strlen(resp_fault_text(fault)) > 20);
            return 0;
        }
        check_splits(text, rq.size, status, fault);
        check_round_trip(&rq);
        text += rq.size;
        size -= rq.size;
    }
}
