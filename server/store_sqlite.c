/* store_sqlite.c - the engine of one machine: counters in an SQLite database.
 *
 * WAL with synchronous=FULL: a commit is one sync of the log, and it has happened when
 * COMMIT returns. The database is locked exclusively; marks live in memory and are only
 * written, since nobody else can change them. What is on disk:
 *
 *   - hilo.db: table meta (key, value: uuid, lane, lanes, stripe, epoch, starts, and
 *     where they apply witness, sealed, skip, uptime, backup), table counter (id, name,
 *     mark, start, max, each, retired), table token; application_id 0x68696c6f
 *     ("hilo"), user_version = SCHEMA
 *   - hilo.db-wal: SQLite's log, part of the database while it exists
 *   - hilo.db.lock: locked while a hilod runs, empty
 *
 * To change the schema: raise SCHEMA, append the step that leads from the version
 * before to migrations[] (never change an older one), extend tests/store_test.c by a
 * database of the old version, and say in CHANGELOG.md from which version on an older
 * hilod refuses the file. Steps run in one transaction at start.
 *
 * SQLite is used by one thread at a time (store.h), and no other file includes
 * sqlite3.h. */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clock.h"
#include "datadir.h"
#include "error.h"
#include "log.h"
#include "number.h"

#define APPLICATION_ID 0x68696c6f
#define SCHEMA         2
#define LOCK_WAIT_MS   5000
#define LOCK_STEP_MS   50
#define LOOK_MS        500
#define BACKUP_PAGES   64 /* at a time: so long a batch waits, about a millisecond */
#define MAX_VFS_KINDS  4

static const char *const migrations[SCHEMA] = {
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE counter ("
    " id INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE,"
    " mark INTEGER NOT NULL,"
    " start INTEGER NOT NULL,"
    " max INTEGER NOT NULL,"
    " each INTEGER NOT NULL,"
    " retired INTEGER NOT NULL) STRICT;",
    /* 2: tokens. login is kept for the day when there are several. */
    "CREATE TABLE token ("
    " login TEXT NOT NULL,"
    " token TEXT NOT NULL,"
    " epoch INTEGER NOT NULL,"
    " counter INTEGER NOT NULL,"
    " asked INTEGER NOT NULL,"
    " atleast INTEGER NOT NULL,"
    " first INTEGER NOT NULL,"
    " count INTEGER NOT NULL,"
    " at INTEGER NOT NULL,"
    " PRIMARY KEY (login, token)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX token_at ON token (at);",
};

enum statement {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_INSERT,
    SQL_MARK,
    SQL_ALTER,
    SQL_GIVE_BACK,
    SQL_TOKEN,
    SQL_PURGE,
    SQL_READ,
    SQL_COUNT
};

/* "mark <= new" keeps a mark from ever going down, whatever wrote the row before. */
static const char *const sql[SQL_COUNT] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_INSERT] = "INSERT INTO counter (id, name, mark, start, max, each, retired)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [SQL_MARK] = "UPDATE counter SET mark = ?3 WHERE id = ?1 AND mark <= ?3",
    [SQL_ALTER] = "UPDATE counter SET mark = ?3, start = ?4, max = ?5, each = ?6,"
                  " retired = ?7 WHERE id = ?1 AND mark <= ?3",
    [SQL_GIVE_BACK] = "UPDATE counter SET mark = ?3 WHERE id = ?1 AND mark = ?2",
    [SQL_TOKEN] = "INSERT OR REPLACE INTO token VALUES ('', ?1, ?2, ?3, ?4, ?5, ?6, ?7,"
                  " ?8)",
    [SQL_PURGE] = "DELETE FROM token WHERE at < ?1",
    [SQL_READ] = "SELECT mark FROM counter WHERE id = ?1",
};

/* The file methods of SQLite's own VFS, with its sync counted and its failures kept: a
 * failed sync inside a checkpoint is not reported by COMMIT. */
struct file_methods {
    sqlite3_io_methods patched; /* first: SQLite hands back its address */
    const sqlite3_io_methods *real;
    struct store *store;
};

struct copy {
    sqlite3 *db;
    sqlite3_backup *work;
    char *part; /* the path until it is whole */
};

struct store {
    sqlite3_vfs vfs; /* first: SQLite hands back its address */
    sqlite3_vfs *real_vfs;
    struct file_methods methods[MAX_VFS_KINDS];
    int n_methods;
    bool vfs_registered;

    sqlite3 *db;
    sqlite3_stmt *stmt[SQL_COUNT];
    char *path, *log_path;
    struct datadir_id file, log; /* those that are open */
    int lock_fd;
    uint64_t *marks; /* by handle - 1 */
    uint64_t n, cap;
    uint64_t epoch;
    uint64_t create_skip; /* what new counters leave out */
    struct store_stats stats;
    int64_t looked_ms; /* at the free space */
    struct copy copy;  /* of a backup under way */
    bool sync_failed;
};

/* --- the VFS --- */

static int file_sync(sqlite3_file *file, int flags)
{
    const struct file_methods *m = (const struct file_methods *)file->pMethods;
    int rc = m->real->xSync(file, flags);

    m->store->stats.syncs++;
    if (rc != SQLITE_OK)
        m->store->sync_failed = true;
    return rc;
}

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file,
                    int flags, int *out_flags)
{
    struct store *s = (struct store *)vfs;
    int rc = s->real_vfs->xOpen(s->real_vfs, name, file, flags, out_flags);
    int i = 0;

    if (rc != SQLITE_OK || file->pMethods == NULL)
        return rc;
    while (i < s->n_methods && s->methods[i].real != file->pMethods)
        i++;
    if (i == MAX_VFS_KINDS) {
        file->pMethods->xClose(file);
        file->pMethods = NULL;
        return SQLITE_CANTOPEN;
    }
    if (i == s->n_methods) {
        s->methods[i] = (struct file_methods){*file->pMethods, file->pMethods, s};
        s->methods[i].patched.xSync = file_sync;
        s->n_methods++;
    }
    file->pMethods = &s->methods[i].patched;
    return rc;
}

static int register_vfs(struct store *s)
{
    s->real_vfs = sqlite3_vfs_find(NULL);
    if (s->real_vfs == NULL)
        return SQLITE_ERROR;
    s->vfs = *s->real_vfs;
    s->vfs.pNext = NULL;
    s->vfs.zName = "hilo";
    s->vfs.xOpen = vfs_open;
    s->vfs_registered = true;
    return sqlite3_vfs_register(&s->vfs, 0);
}

/* --- errors --- */

static void describe(const struct store *s, const char *what, struct store_error *ret)
{
    int code = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
    int primary = code & 0xff;
    const char *advice = "";
    bool config = (primary == SQLITE_READONLY || primary == SQLITE_CANTOPEN) &&
                  (datadir_is_barred(s->path) ||
                   (s->log_path != NULL && datadir_is_barred(s->log_path)));

    if (primary == SQLITE_FULL)
        advice = ". Free some space; hilod goes on by itself";
    else if (code == SQLITE_IOERR_WRITE)
        advice = ". Check the disk and its free space; hilod goes on by itself";
    else if (primary == SQLITE_IOERR)
        advice = ". What the disk holds can't be known: check it, then restart hilod";
    else if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
        advice = ". The file is damaged, or can't be read where it lies: stop hilod "
                 "and check "
                 "the disk; if that is good, put a newer copy than this one back";
    else if (primary == SQLITE_READONLY || primary == SQLITE_CANTOPEN)
        advice = ". Check the owner and the mode of the directory and its files";
    store_error_set(ret, config, "%s: %s: %s (SQLite code %d)%s", s->path, what,
                    s->db ? sqlite3_errmsg(s->db) : "out of memory", code, advice);
}

static int refuse_sync(const struct store *s, struct store_error *ret)
{
    store_error_set(ret, false,
                    "%s: the disk refused a sync: what it holds can't be known. Check "
                    "the disk, then restart hilod",
                    s->path);
    return -1;
}

/* Whether the engine can still be believed after this failure of a batch. */
static bool survivable(const struct store *s)
{
    int code = sqlite3_extended_errcode(s->db);

    switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_BUSY:
        return true;
    default:
        return code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_NOMEM;
    }
}

/* --- opening --- */

static bool exec(struct store *s, const char *text)
{
    return sqlite3_exec(s->db, text, NULL, NULL, NULL) == SQLITE_OK;
}

/* The first column of the only row. The statement is run to its end: what it does is
 * committed only there, after the row. */
static bool query_int(struct store *s, const char *text, int64_t *ret)
{
    sqlite3_stmt *st;
    bool good;

    if (sqlite3_prepare_v2(s->db, text, -1, &st, NULL) != SQLITE_OK)
        return false;
    good = sqlite3_step(st) == SQLITE_ROW;
    if (good)
        *ret = sqlite3_column_int64(st, 0);
    good = good && sqlite3_step(st) == SQLITE_DONE;
    sqlite3_finalize(st);
    return good;
}

/* The same as text, cut to the buffer; empty where there is none. */
static bool query_text(struct store *s, const char *text, char *buf, int size)
{
    sqlite3_stmt *st;
    const char *value;
    bool good;

    buf[0] = '\0';
    if (sqlite3_prepare_v2(s->db, text, -1, &st, NULL) != SQLITE_OK)
        return false;
    good = sqlite3_step(st) == SQLITE_ROW;
    if (good) {
        value = (const char *)sqlite3_column_text(st, 0);
        snprintf(buf, (size_t)size, "%s", value != NULL ? value : "");
    }
    good = good && sqlite3_step(st) == SQLITE_DONE;
    sqlite3_finalize(st);
    return good;
}

static bool query_is(struct store *s, const char *text, const char *wanted)
{
    char value[32];

    return query_text(s, text, value, sizeof value) && strcmp(value, wanted) == 0;
}

/* Exclusive from the first access on, which also keeps the log's index in our own
 * memory. Each setting is read back: a build of SQLite may have other ideas. */
static bool set_modes(struct store *s)
{
    return query_is(s, "PRAGMA locking_mode = EXCLUSIVE", "exclusive") &&
           query_is(s, "PRAGMA journal_mode = WAL", "wal") &&
           exec(s, "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304;"
                   "PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF") &&
           query_is(s, "PRAGMA synchronous", "2") && exec(s, "BEGIN IMMEDIATE; COMMIT");
}

/* Somebody who reads the file at this moment only delays the start. */
static int lock_database(struct store *s, struct store_error *ret_error)
{
    int64_t begin = clock_steady_ms();
    bool told = false;
    char holder[128];

    while (!set_modes(s)) {
        if ((sqlite3_errcode(s->db) & 0xff) != SQLITE_BUSY) {
            describe(s, "can't set it up (WAL, synchronous=FULL, exclusive)",
                     ret_error);
            return -1;
        }
        datadir_holder(s->path, holder, sizeof holder);
        if (clock_steady_ms() - begin > LOCK_WAIT_MS) {
            store_error_set(
                ret_error, true,
                "%s is locked by %s: a database serves one hilod at a time, and "
                "nobody else meanwhile. Stop that process or choose another "
                "--data",
                s->path, holder);
            return -1;
        }
        if (!told)
            log_line(LOG_WARNING, "%s is locked by %s; waiting for up to %d s", s->path,
                     holder, LOCK_WAIT_MS / 1000);
        told = true;
        clock_sleep_ms(LOCK_STEP_MS);
    }
    return 0;
}

static bool set_meta(struct store *s, const char *key, const char *text, int64_t number)
{
    sqlite3_stmt *st;
    bool done;

    if (sqlite3_prepare_v2(s->db, "INSERT OR REPLACE INTO meta VALUES (?1, ?2)", -1,
                           &st, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
    if (text != NULL)
        sqlite3_bind_text(st, 2, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_int64(st, 2, number);
    done = sqlite3_step(st) == SQLITE_DONE;
    sqlite3_finalize(st);
    return done;
}

static bool write_identity(struct store *s, const struct store_identity *id)
{
    return set_meta(s, "uuid", id->uuid, 0) &&
           set_meta(s, "lane", NULL, (int64_t)id->lane.number) &&
           set_meta(s, "lanes", NULL, (int64_t)id->lane.lanes) &&
           set_meta(s, "stripe", NULL, (int64_t)id->lane.stripe) &&
           set_meta(s, "epoch", NULL, (int64_t)id->epoch) &&
           set_meta(s, "starts", NULL, 0) &&
           (!id->sealed || set_meta(s, "sealed", NULL, 1)) &&
           set_meta(s, "witness", NULL, (int64_t)id->witnessed);
}

static bool read_identity(struct store *s, struct store_identity *ret)
{
    sqlite3_stmt *st;

    *ret = (struct store_identity){0};
    if (sqlite3_prepare_v2(s->db, "SELECT key, value FROM meta", -1, &st, NULL) !=
        SQLITE_OK)
        return false;
    while (sqlite3_step(st) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(st, 0);
        const char *text = (const char *)sqlite3_column_text(st, 1);
        int64_t number = sqlite3_column_int64(st, 1);

        if (key == NULL || text == NULL)
            continue;
        if (strcmp(key, "uuid") == 0)
            snprintf(ret->uuid, sizeof ret->uuid, "%s", text);
        else if (strcmp(key, "lane") == 0)
            ret->lane.number = (uint32_t)number;
        else if (strcmp(key, "lanes") == 0)
            ret->lane.lanes = (uint32_t)number;
        else if (strcmp(key, "stripe") == 0)
            ret->lane.stripe = (uint64_t)number;
        else if (strcmp(key, "epoch") == 0)
            ret->epoch = (uint64_t)number;
        else if (strcmp(key, "starts") == 0)
            ret->starts = (uint64_t)number;
        else if (strcmp(key, "witness") == 0)
            ret->witnessed = (uint64_t)number;
        else if (strcmp(key, "sealed") == 0)
            ret->sealed = number != 0;
        else if (strcmp(key, "skip") == 0)
            ret->skip = (uint64_t)number;
        else if (strcmp(key, "uptime") == 0)
            ret->uptime_ms = number;
        else if (strcmp(key, "backup") == 0)
            ret->is_backup = number != 0;
    }
    return sqlite3_finalize(st) == SQLITE_OK && strlen(ret->uuid) == STORE_UUID_LEN &&
           lane_valid(ret->lane) && ret->epoch >= 1;
}

/* Of a new database. */
static int make_identity(struct store *s, const struct store_config *config,
                         struct store_identity *ret, struct store_error *ret_error)
{
    const struct record_header *w = config->witnessed;

    if (config->has_to_exist) {
        store_error_set(ret_error, true,
                        "%s is empty, and --skip and --new-witness are for a database "
                        "that was put back. If there is none, but its witness: hilod "
                        "--from-witness. If there is neither, make each sequence anew "
                        "with a START above all that was granted",
                        s->path);
        return -1;
    }
    store_identity_new(config, ret);
    ret->sealed = config->made_sealed;
    if (w == NULL)
        return 0;
    if (!config->from_witness) {
        store_error_set(ret_error, true,
                        "%s is empty, but its witness %s knows of store %s: ids would "
                        "repeat. Put the database back; if it is lost, make a new one "
                        "above all that was granted: hilod --from-witness. If no "
                        "id of it was ever used, remove the witness",
                        s->path, config->witness_path, w->uuid);
        return -1;
    }
    memcpy(ret->uuid, w->uuid, sizeof ret->uuid);
    ret->lane = w->lane;
    ret->epoch = w->epoch;
    ret->sealed = w->sealed;
    ret->witnessed = w->epoch; /* from the first moment: a copy may be put back */
    return 0;
}

/* Brings the file to the present schema. The transaction is open. */
static int migrate(struct store *s, const struct store_config *config,
                   struct store_error *ret_error)
{
    int64_t app, version, tables;
    struct store_identity fresh;
    char pragma[64];

    if (!query_int(s, "PRAGMA application_id", &app) ||
        !query_int(s, "PRAGMA user_version", &version) ||
        !query_int(s, "SELECT count(*) FROM sqlite_schema", &tables)) {
        describe(s, "can't be read", ret_error);
        return -1;
    }
    if (version == 0 && app == 0 && tables == 0) {
        if (make_identity(s, config, &fresh, ret_error) != 0)
            return -1;
        for (int i = 0; i < SCHEMA; i++) {
            if (!exec(s, migrations[i]))
                goto failed;
        }
        snprintf(pragma, sizeof pragma, "PRAGMA application_id = %d", APPLICATION_ID);
        if (!exec(s, pragma) || !write_identity(s, &fresh))
            goto failed;
    } else if (app != APPLICATION_ID || version < 1) {
        store_error_set(
            ret_error, true,
            "%s is an SQLite database, but not one of hilod's (application id "
            "%" PRId64 "): choose another --data",
            s->path, app);
        return -1;
    } else if (version > SCHEMA) {
        store_error_set(ret_error, true,
                        "%s has schema %" PRId64
                        ", made by a newer hilod; this one knows up "
                        "to %d: use the newer hilod",
                        s->path, version, SCHEMA);
        return -1;
    } else if (config->from_witness) {
        store_error_set(ret_error, true,
                        "%s is not empty: --from-witness makes a new database. Start "
                        "without it, or move this one away first",
                        s->path);
        return -1;
    } else {
        for (int64_t i = version; i < SCHEMA; i++) {
            if (!exec(s, migrations[i]))
                goto failed;
        }
    }
    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", SCHEMA);
    if (exec(s, pragma))
        return 0;
failed:
    describe(s, "can't make the tables", ret_error);
    return -1;
}

/* One durable transaction: schema, identity, and this start counted; so a start that
 * has succeeded has also written. */
static int begin_service(struct store *s, const struct store_config *config,
                         struct store_identity *ret, struct store_error *ret_error)
{
    if (!exec(s, "BEGIN IMMEDIATE")) {
        describe(s, "can't begin", ret_error);
        return -1;
    }
    if (migrate(s, config, ret_error) != 0)
        return -1;
    if (!read_identity(s, ret)) {
        describe(s, "the table meta can't be read or lacks a value", ret_error);
        return -1;
    }
    if (store_identity_check(config, ret, s->path, ret_error) != 0)
        return -1;
    ret->starts++;
    ret->skip = s->create_skip = store_skip(config, ret);
    if (!set_meta(s, "starts", NULL, (int64_t)ret->starts) ||
        (ret->skip > 0 && !set_meta(s, "skip", NULL, (int64_t)s->create_skip)) ||
        !exec(s, "COMMIT")) {
        describe(s, "can't write", ret_error);
        return -1;
    }
    /* Rewrites what an earlier failed sync may have left in memory only, and begins a
     * new log. */
    if (!exec(s, "PRAGMA wal_checkpoint(TRUNCATE)")) {
        describe(s, "can't be synced to the disk", ret_error);
        return -1;
    }
    return s->sync_failed ? refuse_sync(s, ret_error) : 0;
}

static void read_settings(struct store *s, struct store_identity *ret)
{
    char mode[16], synchronous[16];

    query_text(s, "PRAGMA journal_mode", mode, sizeof mode);
    query_text(s, "PRAGMA synchronous", synchronous, sizeof synchronous);
    snprintf(ret->settings, sizeof ret->settings,
             "journal_mode:%s\r\nsynchronous:%s\r\nfilesystem:%s\r\n", mode,
             synchronous, datadir_kind(s->path));
}

static int prepare_statements(struct store *s, struct store_error *ret_error)
{
    for (int i = 0; i < SQL_COUNT; i++) {
        if (sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->stmt[i], NULL) != SQLITE_OK) {
            describe(s, sql[i], ret_error);
            return -1;
        }
    }
    return 0;
}

/* With what SQLite may have left beside it: a journal of an earlier attempt would be
 * played into the next one. */
static void remove_part(const char *part)
{
    static const char *const ends[] = {"", "-journal", "-wal", "-shm"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(path, sizeof path, "%s%s", part, ends[i]);
        unlink(path);
    }
}

static void drop_copy(struct copy *c)
{
    sqlite3_backup_finish(c->work);
    sqlite3_close(c->db);
    if (c->part != NULL)
        remove_part(c->part);
    free(c->part);
    *c = (struct copy){0};
}

static void release(struct store *s)
{
    drop_copy(&s->copy);
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(s->stmt[i]);
    if (s->db != NULL && sqlite3_close(s->db) != SQLITE_OK)
        log_line(LOG_ERROR, "%s: closing: %s", s->path, sqlite3_errmsg(s->db));
    if (s->vfs_registered)
        sqlite3_vfs_unregister(&s->vfs);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    free(s->marks);
    free(s->path);
    free(s->log_path);
    free(s);
}

/* Brings all of the log into the database and empties it, both where they are open,
 * whatever their paths name by now: SQLite would delete the log by its path. After a
 * failed sync nothing more is done: what the log holds is for the next start to check.
 */
static void sqlite_close(struct store *s)
{
    if (!s->sync_failed && !exec(s, "PRAGMA wal_checkpoint(TRUNCATE)"))
        log_line(LOG_WARNING, "%s: the log stays: %s", s->path, sqlite3_errmsg(s->db));
    release(s);
}

static int sqlite_open(const struct store_config *config, struct store **ret,
                       struct store_identity *ret_identity,
                       struct store_error *ret_error)
{
    struct store *s = calloc(1, sizeof *s);

    if (s == NULL) {
        store_error_set(ret_error, false, "out of memory");
        return -1;
    }
    s->lock_fd = -1;
    if (datadir_prepare(config->dir, config->allow_network_fs, ret_error) != 0)
        goto failed;
    s->path = datadir_file(config->dir, "hilo.db", ret_error);
    if (s->path == NULL || datadir_check_path(s->path, config->dir,
                                              config->allow_network_fs, ret_error) != 0)
        goto failed;
    if (asprintf(&s->log_path, "%s-wal", s->path) < 0) {
        s->log_path = NULL;
        store_error_set(ret_error, false, "out of memory");
        goto failed;
    }
    s->lock_fd = datadir_lock(s->path, ret_error);
    if (s->lock_fd < 0)
        goto failed;
    if (register_vfs(s) != SQLITE_OK ||
        sqlite3_open_v2(s->path, &s->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOMUTEX,
                        "hilo") != SQLITE_OK) {
        describe(s, "can't be opened", ret_error);
        goto failed;
    }
    if (sqlite3_db_readonly(s->db, "main") == 1) { /* SQLite's way out */
        bool barred = datadir_is_barred(s->path);

        store_error_set(ret_error, barred, "can't write %s: %s%s", s->path,
                        barred ? strerror(errno) : "it could not be opened for that",
                        barred ? datadir_advice(errno) : "; start hilod once more");
        goto failed;
    }
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (lock_database(s, ret_error) != 0 ||
        begin_service(s, config, ret_identity, ret_error) != 0 ||
        prepare_statements(s, ret_error) != 0)
        goto failed;
    s->epoch = ret_identity->epoch;
    s->file = datadir_id(s->path);
    s->log = datadir_id(s->log_path);
    if (s->file.inode == 0 || s->log.inode == 0) {
        store_error_set(ret_error, false, "can't look at %s and its log: %s", s->path,
                        strerror(errno));
        goto failed;
    }
    s->stats.free_bytes = datadir_free_bytes(s->path);
    read_settings(s, ret_identity);
    *ret = s;
    return 0;
failed:
    release(s);
    return -1;
}

/* --- counters --- */

static bool remember(struct store *s, uint64_t counter, uint64_t mark)
{
    if (counter > s->cap) {
        uint64_t cap = counter > 32 ? 2 * counter : 64;
        uint64_t *marks = realloc(s->marks, cap * sizeof *marks);

        if (marks == NULL)
            return false;
        s->marks = marks;
        s->cap = cap;
    }
    s->marks[counter - 1] = mark;
    s->n = counter > s->n ? counter : s->n;
    return true;
}

static int sqlite_load(struct store *s, store_counter_fn *fn, void *arg,
                       struct store_error *ret_error)
{
    uint64_t expected = 1;
    sqlite3_stmt *st;
    int rc;

    if (sqlite3_prepare_v2(
            s->db,
            "SELECT id, name, mark, start, max, each, retired FROM counter"
            " ORDER BY id",
            -1, &st, NULL) != SQLITE_OK) {
        describe(s, "can't list counters", ret_error);
        return -1;
    }
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        uint64_t counter = (uint64_t)sqlite3_column_int64(st, 0);
        const char *name = (const char *)sqlite3_column_text(st, 1);
        int64_t mark = sqlite3_column_int64(st, 2);
        struct counter_attr attr = {
            .start = (uint64_t)sqlite3_column_int64(st, 3),
            .max = (uint64_t)sqlite3_column_int64(st, 4),
            .each = sqlite3_column_int(st, 5) != 0,
            .retired = sqlite3_column_int(st, 6) != 0,
        };

        if (counter != expected++ || mark < 0 || name == NULL ||
            (counter > s->n && !remember(s, counter, (uint64_t)mark))) {
            store_error_set(ret_error, false,
                            "%s: row %" PRIu64
                            " of the table counter can't be right (or "
                            "memory ran out): put a copy back that is sound",
                            s->path, counter);
            sqlite3_finalize(st);
            return -1;
        }
        fn(arg, counter, name, (size_t)sqlite3_column_bytes(st, 1), &attr,
           (uint64_t)mark);
    }
    if (rc != SQLITE_DONE)
        describe(s, "can't list counters", ret_error);
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : -1;
}

static int sqlite_load_tokens(struct store *s, store_token_fn *fn, void *arg,
                              struct store_error *ret_error)
{
    sqlite3_stmt *st;
    int rc;

    if (sqlite3_prepare_v2(s->db,
                           "SELECT token, counter, asked, atleast, first, count, at"
                           " FROM token WHERE login = '' AND epoch = ?1 ORDER BY at",
                           -1, &st, NULL) != SQLITE_OK) {
        describe(s, "can't list tokens", ret_error);
        return -1;
    }
    sqlite3_bind_int64(st, 1, (int64_t)s->epoch);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_token t = {
            .text = (const char *)sqlite3_column_text(st, 0),
            .len = (size_t)sqlite3_column_bytes(st, 0),
            .counter = (uint64_t)sqlite3_column_int64(st, 1),
            .asked = (uint64_t)sqlite3_column_int64(st, 2),
            .atleast = (uint64_t)sqlite3_column_int64(st, 3),
            .first = (uint64_t)sqlite3_column_int64(st, 4),
            .count = (uint64_t)sqlite3_column_int64(st, 5),
            .at_ms = sqlite3_column_int64(st, 6),
        };

        if (t.text != NULL)
            fn(arg, &t);
    }
    if (rc != SQLITE_DONE)
        describe(s, "can't list tokens", ret_error);
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : -1;
}

/* --- batches --- */

static void bind_attr(sqlite3_stmt *st, const struct counter_attr *attr)
{
    sqlite3_bind_int64(st, 4, (int64_t)attr->start);
    sqlite3_bind_int64(st, 5, (int64_t)attr->max);
    sqlite3_bind_int(st, 6, attr->each);
    sqlite3_bind_int(st, 7, attr->retired);
}

static bool run(struct store *s, enum statement which)
{
    bool done = sqlite3_step(s->stmt[which]) == SQLITE_DONE;

    sqlite3_reset(s->stmt[which]);
    return done;
}

static bool write_op(struct store *s, struct store_op *op, enum statement which,
                     uint64_t expected)
{
    sqlite3_stmt *st = s->stmt[which];

    sqlite3_bind_int64(st, 1, (int64_t)op->counter);
    if (which == SQL_INSERT)
        sqlite3_bind_text(st, 2, op->name, (int)op->name_len, SQLITE_STATIC);
    if (which == SQL_GIVE_BACK)
        sqlite3_bind_int64(st, 2, (int64_t)expected);
    sqlite3_bind_int64(st, 3, (int64_t)op->mark);
    if (which == SQL_INSERT || which == SQL_ALTER)
        bind_attr(st, &op->attr);
    return run(s, which);
}

static bool write_token(struct store *s, const struct store_token *t)
{
    sqlite3_stmt *st = s->stmt[SQL_TOKEN];

    sqlite3_bind_text(st, 1, t->text, (int)t->len, SQLITE_STATIC);
    sqlite3_bind_int64(st, 2, (int64_t)s->epoch);
    sqlite3_bind_int64(st, 3, (int64_t)t->counter);
    sqlite3_bind_int64(st, 4, (int64_t)t->asked);
    sqlite3_bind_int64(st, 5, (int64_t)t->atleast);
    sqlite3_bind_int64(st, 6, (int64_t)t->first);
    sqlite3_bind_int64(st, 7, (int64_t)t->count);
    sqlite3_bind_int64(st, 8, t->at_ms);
    return run(s, SQL_TOKEN);
}

static bool purge_tokens(struct store *s, const struct store_op *op)
{
    sqlite3_bind_int64(s->stmt[SQL_PURGE], 1, op->token.at_ms);
    return run(s, SQL_PURGE) && set_meta(s, "uptime", NULL, op->uptime_ms);
}

/* Those that are no matter of a counter. */
static bool is_of_tokens(const struct store_op *op)
{
    return op->kind == STORE_TOKEN || op->kind == STORE_PURGE;
}

/* What one operation does; *ret_which is SQL_COUNT where there is nothing to write. */
static void decide(const struct store *s, struct store_op *op, uint64_t *created,
                   enum statement *ret_which)
{
    uint64_t mark;

    *ret_which = SQL_COUNT;
    op->err = 0;
    if (op->kind == STORE_CREATE) {
        op->counter = s->n + ++*created;
        op->mark = op->floor + s->create_skip;
        if (op->mark > HILO_ID_MAX)
            op->mark = HILO_ID_MAX;
        *ret_which = SQL_INSERT;
        return;
    }
    if (op->counter == 0 || op->counter > s->n) {
        op->err = HILO_ENOSEQ;
        return;
    }
    mark = s->marks[op->counter - 1];
    if (op->kind == STORE_RESERVE) {
        if (store_reserve_at(op, mark) && op->mark != mark)
            *ret_which = SQL_MARK;
    } else if (op->kind == STORE_ALTER) {
        op->mark = mark > op->floor ? mark : op->floor;
        *ret_which = SQL_ALTER;
    } else if (op->mark == mark && op->floor <= mark) {
        op->mark = op->floor;
        *ret_which = SQL_GIVE_BACK;
    } else {
        op->mark = mark;
    }
}

static enum store_outcome fail(struct store *s, const char *what,
                               struct store_error *ret)
{
    bool go_on = survivable(s) && !s->sync_failed;

    describe(s, what, ret);
    s->stats.failures++;
    if (!sqlite3_get_autocommit(s->db) && !run(s, SQL_ROLLBACK))
        go_on = false;
    return go_on ? STORE_FAILED : STORE_DEAD;
}

static enum store_outcome contradicted(struct store *s, const struct store_op *op,
                                       struct store_error *ret)
{
    store_error_set(ret, false,
                    "%s: counter %" PRIu64
                    " was changed by somebody else while hilod held "
                    "the lock; restart hilod",
                    s->path, op->counter);
    s->stats.failures++;
    if (!sqlite3_get_autocommit(s->db))
        run(s, SQL_ROLLBACK);
    return STORE_DEAD;
}

/* The marks of a batch become what memory knows. */
static bool keep_marks(struct store *s, const struct store_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].err == 0 && !is_of_tokens(&ops[i]) &&
            !remember(s, ops[i].counter, ops[i].mark))
            return false;
    }
    return true;
}

static bool mark_is(struct store *s, uint64_t counter, uint64_t mark)
{
    sqlite3_stmt *st = s->stmt[SQL_READ];
    bool is;

    sqlite3_bind_int64(st, 1, (int64_t)counter);
    is =
        sqlite3_step(st) == SQLITE_ROW && (uint64_t)sqlite3_column_int64(st, 0) == mark;
    sqlite3_reset(st);
    return is;
}

/* A commit has failed and is rolled back. Where the row can be read and has not moved,
 * nothing has happened: frames the log may hold all the same are of no commit that was
 * reported, and the next one is written over them. Otherwise the range is burnt, it
 * lies below the mark of the next batch. */
static void settle_marks(struct store *s, const struct store_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t counter = ops[i].counter;

        if (ops[i].err != 0 || counter > s->n || is_of_tokens(&ops[i]))
            continue;
        if (ops[i].mark > s->marks[counter - 1] &&
            !mark_is(s, counter, s->marks[counter - 1]))
            s->marks[counter - 1] = ops[i].mark;
    }
}

/* Whether the paths still name what is open. A file that was put in its place holds
 * older marks, and a start with it would grant what is granted here. */
static bool is_ours(struct store *s, struct store_error *ret_error)
{
    const char *lost = datadir_lost(s->path, s->file)      ? s->path
                       : datadir_lost(s->log_path, s->log) ? s->log_path
                                                           : NULL;

    if (lost == NULL)
        return true;
    s->stats.failures++;
    store_error_set(ret_error, false,
                    "%s is no longer the file that hilod has open: it was deleted, "
                    "replaced or moved. Nothing more is granted. Put back the file "
                    "itself or the newest copy there is, then start hilod",
                    lost);
    return false;
}

static enum store_outcome fail_and_settle(struct store *s, const char *what,
                                          const struct store_op *ops, size_t n,
                                          struct store_error *ret_error)
{
    enum store_outcome outcome = fail(s, what, ret_error);

    settle_marks(s, ops, n);
    return outcome;
}

static void look_at_disk(struct store *s)
{
    s->looked_ms = clock_steady_ms();
    s->stats.free_bytes = datadir_free_bytes(s->path);
}

static enum store_outcome sqlite_commit(struct store *s, struct store_op *ops, size_t n,
                                        struct store_error *ret_error)
{
    uint64_t created = 0;
    bool wrote = false, begun = false, alone = n == 1 && ops[0].kind != STORE_PURGE;

    for (size_t i = 0; i < n; i++) {
        enum statement which = SQL_TOKEN;
        uint64_t expected = ops[i].mark;

        if (!is_of_tokens(&ops[i]))
            decide(s, &ops[i], &created, &which);
        if (which == SQL_COUNT)
            continue;
        /* The only statement of a batch is a transaction of its own. */
        if (!alone && !begun && !run(s, SQL_BEGIN))
            return fail(s, "can't begin", ret_error);
        begun = !alone;
        wrote = true;
        if (is_of_tokens(&ops[i])) {
            if (ops[i].kind == STORE_TOKEN ? !write_token(s, &ops[i].token)
                                           : !purge_tokens(s, &ops[i]))
                return fail_and_settle(s, "can't write", ops, n, ret_error);
            continue;
        }
        if (!write_op(s, &ops[i], which, expected))
            return fail_and_settle(s, "can't write", ops, n, ret_error);
        if (sqlite3_changes(s->db) != 1)
            return contradicted(s, &ops[i], ret_error);
    }
    if (begun && !run(s, SQL_COMMIT))
        return fail_and_settle(s, "can't commit", ops, n, ret_error);
    if (!keep_marks(s, ops, n)) {
        store_error_set(ret_error, false, "out of memory");
        return STORE_DEAD;
    }
    if (s->sync_failed) {
        refuse_sync(s, ret_error);
        s->stats.failures++;
        return STORE_DEAD;
    }
    if (!is_ours(s, ret_error))
        return STORE_GONE;
    if (clock_steady_ms() - s->looked_ms >= LOOK_MS)
        look_at_disk(s);
    s->stats.commits += wrote;
    return STORE_DONE;
}

static int sqlite_set_witnessed(struct store *s, bool witnessed,
                                struct store_error *ret_error)
{
    if (exec(s, "BEGIN IMMEDIATE; DELETE FROM meta WHERE key = 'backup'") &&
        set_meta(s, "witness", NULL, witnessed ? (int64_t)s->epoch : 0) &&
        exec(s, "COMMIT"))
        return 0;
    describe(s, "can't write", ret_error);
    return -1;
}

/* --- a change of layout --- */

/* What has been committed, or was not. */
static int settled(struct store *s, bool done, struct store_error *ret_error)
{
    if (s->sync_failed)
        return refuse_sync(s, ret_error);
    if (!done)
        describe(s, "can't write", ret_error);
    return done ? 0 : -1;
}

static int sqlite_seal(struct store *s, struct store_error *ret_error)
{
    return settled(s, set_meta(s, "sealed", NULL, 1), ret_error);
}

static bool insert_all(struct store *s, const struct store_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct store_op op = ops[i];

        op.counter = i + 1;
        if (!write_op(s, &op, SQL_INSERT, 0))
            return false;
    }
    return true;
}

static int sqlite_relane(struct store *s, const struct store_identity *next,
                         const struct store_op *ops, size_t n,
                         struct store_error *ret_error)
{
    return settled(s,
                   exec(s, "BEGIN IMMEDIATE; DELETE FROM token; DELETE FROM counter;"
                           "DELETE FROM meta WHERE key IN ('sealed', 'backup')") &&
                       set_meta(s, "lane", NULL, (int64_t)next->lane.number) &&
                       set_meta(s, "lanes", NULL, (int64_t)next->lane.lanes) &&
                       set_meta(s, "stripe", NULL, (int64_t)next->lane.stripe) &&
                       set_meta(s, "epoch", NULL, (int64_t)next->epoch) &&
                       set_meta(s, "skip", NULL, (int64_t)next->skip) &&
                       insert_all(s, ops, n) && exec(s, "COMMIT"),
                   ret_error);
}

/* --- backup --- */

static enum store_backup copy_failed(struct store *s, const char *path, const char *why,
                                     struct store_error *ret_error)
{
    store_error_set(ret_error, false, "the backup %s could not be made: %s", path, why);
    drop_copy(&s->copy);
    return BACKUP_FAILED;
}

static bool begin_copy(struct store *s, const char *path)
{
    struct copy *c = &s->copy;

    if (asprintf(&c->part, "%s.part", path) < 0) {
        c->part = NULL;
        return false;
    }
    remove_part(c->part);
    if (sqlite3_open_v2(c->part, &c->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return false;
    c->work = sqlite3_backup_init(c->db, "main", s->db, "main");
    return c->work != NULL;
}

/* The last page has been copied: marks the copy as one, and makes it durable. */
static bool end_copy(struct copy *c)
{
    int rc = sqlite3_backup_finish(c->work);

    c->work = NULL;
    return rc == SQLITE_OK &&
           sqlite3_exec(c->db,
                        "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;"
                        "INSERT OR REPLACE INTO meta VALUES ('backup', 1)",
                        NULL, NULL, NULL) == SQLITE_OK;
}

static enum store_backup sqlite_backup(struct store *s, const char *path,
                                       struct store_error *ret_error)
{
    struct copy *c = &s->copy;
    int rc;

    if (c->work == NULL && !begin_copy(s, path))
        return copy_failed(s, path,
                           c->db != NULL ? sqlite3_errmsg(c->db) : "out of memory",
                           ret_error);
    rc = sqlite3_backup_step(c->work, BACKUP_PAGES);
    if (rc == SQLITE_OK)
        return BACKUP_MORE;
    if (rc != SQLITE_DONE)
        return copy_failed(s, path, sqlite3_errstr(rc), ret_error);
    if (!end_copy(c))
        return copy_failed(s, path, sqlite3_errmsg(c->db), ret_error);
    if (sqlite3_close(c->db) != SQLITE_OK || link(c->part, path) != 0 ||
        datadir_sync_parent(path) != 0) {
        c->db = NULL;
        return copy_failed(s, path, strerror(errno), ret_error);
    }
    c->db = NULL;
    drop_copy(c);
    return BACKUP_DONE;
}

static void sqlite_stats(const struct store *s, struct store_stats *ret)
{
    *ret = s->stats;
}

const struct store_engine store_sqlite = {
    .name = "sqlite",
    .help = "an SQLite database in the data directory: one machine, or a pair",
    .durable = true,
    .open = sqlite_open,
    .load = sqlite_load,
    .load_tokens = sqlite_load_tokens,
    .commit = sqlite_commit,
    .set_witnessed = sqlite_set_witnessed,
    .seal = sqlite_seal,
    .relane = sqlite_relane,
    .backup = sqlite_backup,
    .stats = sqlite_stats,
    .close = sqlite_close,
};
