/* store.h - the contract of a store: where marks are kept.
 *
 * A counter is a name, its attributes and its mark, the first position never reserved.
 * A store moves marks up, atomically and durably, and does little else. Engines are
 * rows of functions; all of them pass the one test in tests/store_test.c.
 *
 * Threads. One at a time: open, load and close are called on the main thread, commit on
 * either thread of the crew. An engine needs no locks.
 *
 * Ownership. Operations belong to the caller; names they point to live until commit
 * returns.
 *
 * Tokens are kept for their caller: an engine looks at none of them, and forgets the
 * ones it is told to.
 *
 * Ordering. Operations of a batch happen in their order. A batch holds at most one
 * operation of a counter (merging them is the caller's job), and creates no name that
 * exists (the caller has loaded them all).
 *
 * Outcome of a batch. STORE_DONE: everything in it is durable and each operation has
 * its own answer in err; an operation with an err has moved nothing. STORE_FAILED:
 * nothing of it may be used by anyone; what is not known to have failed is burnt by the
 * engine, so a later batch can't reserve it again; trying again is allowed. STORE_DEAD:
 * the same, and the engine can't be believed any more (a failed sync, a damaged or
 * changed file): no batch follows. STORE_GONE: the same, and what the engine had open
 * is no longer what its path names: end the process, and let nobody start another one
 * before that is mended. Closing touches only what is open. */
#ifndef HILO_STORE_H
#define HILO_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lane.h"
#include "record.h"

#define STORE_UUID_LEN     36
#define STORE_TEXT_MAX     600
#define STORE_SETTINGS_MAX 96

struct store;

/* Attributes live with the counter; the engine carries them and looks at none. */
struct counter_attr {
    uint64_t start; /* the first id wanted */
    uint64_t max;   /* the last id allowed */
    bool each;      /* durability: each grant, rather than ahead of it */
    bool retired;
};

bool counter_attr_same(const struct counter_attr *a, const struct counter_attr *b);

struct store_identity {
    char uuid[STORE_UUID_LEN + 1];
    struct lane lane;
    uint64_t epoch;  /* of the layout; from 1 */
    uint64_t starts; /* how often this store was opened, this time included */
    /* When it was used last it had a witness, of this layout epoch; 0: it had none. */
    uint64_t witnessed;
    int64_t uptime_ms; /* how long hilod has run with it, as last kept */
    bool is_backup;    /* it is a copy made by backup, and was never used */
    bool sealed;       /* its layout has ended: nothing may be granted in it */
    uint64_t skip;     /* positions that new counters leave out */
    /* What the engine found when it read its own settings back, as "name:value" lines
     * ended by CR LF; for INFO. */
    char settings[STORE_SETTINGS_MAX];
};

struct store_config {
    const char *dir;
    struct lane lane; /* a zero in number or stripe: not given, what is stored holds */
    bool allow_network_fs; /* the administrator insists */
    /* What a witness that is there says; NULL for none. A new store is made as this one
     * if from_witness, and then only; else it is refused. */
    const struct record_header *witnessed;
    const char *witness_path;
    bool from_witness;
    bool has_to_exist; /* a new store is refused */
    bool made_sealed;  /* a new store is for engine->relane, and nothing else */
    /* Positions that a counter which is made from now on leaves out: there may have
     * been one of its name. */
    uint64_t skip;
};

/* A message for people: what, where, and the way out. config: it is a matter of
 * configuration, trying again does not help. */
struct store_error {
    bool config;
    char text[STORE_TEXT_MAX];
};

enum store_kind {
    STORE_CREATE,  /* a counter of this name, at floor; its handle is the answer */
    STORE_ALTER,   /* attributes; and the mark up to floor, if it is lower */
    STORE_RESERVE, /* section 3 of the design: first = max(mark, floor), mark = first +
                      n */
    STORE_TOKEN,   /* keeps `token`, in place of one of the same text */
    STORE_PURGE,   /* forgets tokens from before token.at_ms; keeps uptime_ms */
    STORE_GIVE_BACK, /* the mark from `mark` down to `floor`, if it is still there */
};

/* A grant that may be asked for again. */
struct store_token {
    const char *text;
    size_t len;
    uint64_t counter;
    uint64_t asked, atleast; /* ids */
    uint64_t first, count;   /* positions granted */
    int64_t at_ms;           /* when, in running time of the store */
};

struct store_op {
    enum store_kind kind;
    uint64_t counter; /* handle; the answer of STORE_CREATE */
    const char *name; /* STORE_CREATE; the witness's otherwise, as attr and rate are */
    size_t name_len;
    struct counter_attr attr; /* STORE_CREATE, STORE_ALTER */
    uint64_t rate;            /* the most ids of this counter seen in a second */
    uint64_t floor;           /* position */
    uint64_t min, count;      /* STORE_RESERVE: count positions, at least min */
    uint64_t limit;           /* STORE_RESERVE: all of them below this one */
    struct store_token token; /* STORE_TOKEN, STORE_PURGE */
    int64_t uptime_ms;        /* STORE_PURGE: how long hilod has run with this store */
    void *owner;              /* the caller's, untouched */
    /* Answers. */
    int err; /* 0, HILO_EEXHAUSTED, HILO_ENOSEQ */
    uint64_t
        first; /* STORE_RESERVE: the count positions from here on are the caller's */
    uint64_t mark; /* the counter's mark; STORE_GIVE_BACK reads the expected one here */
};

enum store_outcome {
    STORE_DONE,
    STORE_FAILED,
    STORE_DEAD,
    STORE_GONE,
    STORE_UNWITNESSED, /* only of a guard; see guard.h */
};

enum store_backup {
    BACKUP_MORE,  /* call again with the same path */
    BACKUP_DONE,  /* it is on the disk, and marked as a copy */
    BACKUP_FAILED /* *ret_error; there is no file */
};

struct store_stats {
    uint64_t commits; /* batches made durable */
    uint64_t syncs;   /* times the engine asked the disk to sync, start included */
    uint64_t failures;
    uint64_t free_bytes; /* left where the data is, when last looked; 0: unknown */
};

typedef void store_counter_fn(void *arg, uint64_t counter, const char *name,
                              size_t name_len, const struct counter_attr *attr,
                              uint64_t mark);

typedef void store_token_fn(void *arg, const struct store_token *token);

struct store_engine {
    const char *name;
    const char *help;
    bool durable;
    bool shared; /* other processes may reserve from the same counters */

    /* 0, *ret and *ret_identity; or -1 and *ret_error. */
    int (*open)(const struct store_config *config, struct store **ret,
                struct store_identity *ret_identity, struct store_error *ret_error);
    /* Calls fn for each counter, in the order of their creation; at the start, and
     * whenever no batch is under way. 0, or -1 and *ret_error. */
    int (*load)(struct store *s, store_counter_fn *fn, void *arg,
                struct store_error *ret_error);
    /* Calls fn for each token, the oldest first; at the start. NULL where an engine
     * keeps none. */
    int (*load_tokens)(struct store *s, store_token_fn *fn, void *arg,
                       struct store_error *ret_error);
    /* *ret_error is written unless the outcome is STORE_DONE. With n = 0 the engine has
     * a look at what it stands on; to be called once a second. */
    enum store_outcome (*commit)(struct store *s, struct store_op *ops, size_t n,
                                 struct store_error *ret_error);
    /* Keeps in the store whether it has a witness; and that it is no backup any more.
     * 0, or -1 and *ret_error. NULL where an engine keeps nothing. */
    int (*set_witnessed)(struct store *s, bool witnessed,
                         struct store_error *ret_error);
    /* Ends the layout, for good. 0, or -1 and *ret_error. NULL where an engine has
     * no layout to change, as relane is. */
    int (*seal)(struct store *s, struct store_error *ret_error);
    /* Begins the next one, in one transaction: the identity's lane, epoch and skip, and
     * these STORE_CREATE (each at its mark) instead of all counters and tokens. It is
     * sealed no more, and witnessed as before. Only to be closed afterwards. 0, or -1
     * and *ret_error. */
    int (*relane)(struct store *s, const struct store_identity *next,
                  const struct store_op *ops, size_t n, struct store_error *ret_error);
    /* Copies the store to a new file, a part at each call, between batches: what they
     * change is in the copy, too. NULL where an engine has no copies of its own. */
    enum store_backup (*backup)(struct store *s, const char *path,
                                struct store_error *ret_error);
    void (*stats)(const struct store *s, struct store_stats *ret);
    void (*close)(struct store *s);
};

extern const struct store_engine store_sqlite;
extern const struct store_engine store_memory;

/* The engine of that name, or NULL. */
const struct store_engine *store_engine_find(const char *name);

/* What STORE_RESERVE answers for a counter at mark; false (and op->err) when it can't
 * be met. Otherwise op->first, op->count and op->mark are the answer. Pure; shared by
 * engines. */
bool store_reserve_at(struct store_op *op, uint64_t mark);

/* The identity of a new store. Fills what the configuration leaves open: lane 1 of 1,
 * the default stripe, epoch 1, a random UUID. */
void store_identity_new(const struct store_config *config, struct store_identity *ret);

/* What counters that are made from now on leave out: the most that was ever said, to
 * this store, now, or to its witness, of which an older copy does not know. */
uint64_t store_skip(const struct store_config *config,
                    const struct store_identity *stored);

/* 0 if the configuration says nothing that contradicts the stored lane; else -1 and
 * what. */
int store_identity_check(const struct store_config *config,
                         const struct store_identity *stored, const char *where,
                         struct store_error *ret_error);

void store_error_set(struct store_error *e, bool config, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
