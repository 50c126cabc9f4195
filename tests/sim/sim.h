/* sim.h - a world in one process: servers, clients, a network, disks and clocks.
 *
 *   - world.c: time, chance, and what happens next; the story of one seed
 *   - node.c: hilod, with the real allocator, sequences, batches, tokens, commands,
 *     witness and change of lanes
 *   - disk.c: a store that fails, loses answers, is put back from older copies
 *   - client.c: callers, with the real cache, FLOOR and tokens
 *   - ledger.c: what was granted and acknowledged, and all that must hold
 *
 * A seed decides everything; `sim SEED` tells the story again, line by line. */
#ifndef HILO_SIM_H
#define HILO_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lane.h"
#include "run.h"
#include "store.h"

#define NODES     2
#define CLIENTS   3
#define SEQS      4
#define TOKENS    24 /* of one client */
#define REPLY_MAX 1024

/* --- world.c --- */

extern int64_t sim_now_us; /* since the beginning of the world */
extern bool sim_calm;      /* nothing fails any more */
extern bool sim_tell;      /* the story is told */

uint64_t sim_random(void);
uint64_t sim_below(uint64_t n); /* 0 to n - 1 */
/* Whether something that happens once in n times does; never once it is calm. */
bool sim_mishap(uint64_t n);

/* Calls fn(arg, n) so many microseconds from now. */
void sim_later(int64_t us, void (*fn)(void *arg, uint64_t n), void *arg, uint64_t n);

void sim_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Something that must hold does not: tells seed and reason, and ends the process. */
void sim_found(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- disk.c --- */

/* The engine of all nodes; config.dir is the node's. */
extern const struct store_engine sim_engine;

struct sim_disk;
struct sim_disk *sim_disk_of(const char *dir);
void sim_disks_reset(void);

/* What people do to a database while nobody uses it. */
void sim_disk_keep_copy(struct sim_disk *d);
/* An older copy, of an older layout, too, if that will do; false if there is none. */
bool sim_disk_put_back(struct sim_disk *d, bool any_layout);
bool sim_disk_put_back_backup(struct sim_disk *d);
void sim_disk_delete(struct sim_disk *d);

/* The next commit meets the end of the process. */
void sim_disk_kill(struct sim_disk *d);
/* Whether that has come. */
bool sim_disk_killed(const struct sim_disk *d);
void sim_disk_revive(struct sim_disk *d);

/* The mark of a sequence; false if there is none of that name. */
bool sim_disk_mark(const struct sim_disk *d, const char *name, uint64_t *ret);
const struct counter_attr *sim_disk_attr(const struct sim_disk *d, const char *name);
bool sim_disk_is_there(const struct sim_disk *d);
uint64_t sim_disk_epoch(const struct sim_disk *d); /* of its layout; 0: no database */
/* The most positions reserved at once, and failed reservations since asked last. */
uint64_t sim_disk_biggest(const struct sim_disk *d);
uint64_t sim_disk_burnt(struct sim_disk *d);

/* --- node.c --- */

struct node;
struct conn;

void sim_nodes_start(unsigned n, const char *dir);
void sim_nodes_end(void);
unsigned sim_nodes(void);
struct node *sim_node(unsigned i);
bool sim_node_is_up(const struct node *n);
struct lane sim_node_lane(const struct node *n);
uint64_t sim_epoch(void);

/* An administrator changes the lanes: all stop, are sealed, and go on in another
 * layout. */
void sim_change_lanes(void);

/* A connection of a client; NULL when the node is down. It calls answer_fn with each
 * reply, in order, or broken_fn once. */
struct conn *sim_connect(struct node *n, void *arg,
                         void (*answer_fn)(void *arg, const char *reply, size_t len),
                         void (*broken_fn)(void *arg));
void sim_send(struct conn *c, const char *line);
void sim_break(struct conn *c);

/* --- client.c --- */

void sim_clients_start(void);
void sim_clients_end(void);
/* So many ids every client has used. */
uint64_t sim_client_ids(unsigned client, unsigned seq);

/* --- ledger.c --- */

extern const char *const sim_names[SEQS];

void ledger_reset(void);

/* A reply leaves a node. line is the request. */
void ledger_answered(unsigned node, struct lane l, const char *line, const char *reply,
                     size_t len);
/* A request reaches a node: it may be carried out from now on. */
void ledger_asked(unsigned node, struct lane l, const char *line);

/* A node begins to serve. */
void ledger_started(unsigned node, struct lane l, struct sim_disk *d);

/* A layout has ended; this node has this lane in the next one. For each node of that,
 * then once for all. */
void ledger_relane(unsigned node, struct lane l);
void ledger_relaned(void);

/* Its database is an older one from now on, or its witness is lost. */
void ledger_put_back(unsigned node, bool lost_witness);
/* More positions than were granted since any copy was made, in any sequence. */
uint64_t ledger_skip(unsigned node, const struct sim_disk *d);

/* A client uses a block. */
void ledger_taken(unsigned client, unsigned seq, struct run r);

#endif
