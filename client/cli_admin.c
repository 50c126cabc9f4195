/* cli_admin.c - hilo create, alter, advance, retire and backup: on every member, or
 * said where not. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cli.h"
#include "name.h"
#include "number.h"
#include "text.h"

#define WORDS_MAX 12

/* Whether the name is one; said when it isn't, before any server is asked. */
static bool check_name(const struct cli *c, const char *name)
{
    if (name_valid(name, strlen(name)))
        return true;
    cli_fail(c, HILO_EARG, "the name of a sequence has to be " NAME_RULE);
    return false;
}

/* The same command to every member that is there; every one is tried. */
static int call_all(struct cli *c, size_t argc, const char *const *argv,
                    const char *done)
{
    char reached[1024] = "";
    unsigned n = 0;
    int rc;

    members_open(c);
    if (!members_agree(c))
        return EXIT_FAILED;
    for (unsigned i = 0; i < c->n_members; i++) {
        struct link *l = &c->members[i];

        if (l->err != 0 || member_call(c, l, argc, argv) != 0)
            continue;
        n++;
        text_add(reached, sizeof reached, "%s%s", n > 1 ? ", " : "", l->target.text);
    }
    rc = members_missing(c, done);
    if (rc != 0 || c->json)
        return rc;
    printf("%s on %s\n", done, reached);
    return 0;
}

static size_t add_options(const struct cli *c, const char **argv, size_t n)
{
    const struct {
        const char *word, *value;
    } all[] = {{"START", c->start}, {"MAX", c->max}, {"DURABILITY", c->durability}};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].value == NULL)
            continue;
        argv[n++] = all[i].word;
        argv[n++] = all[i].value;
    }
    return n;
}

static int finish(const struct cli *c, const char *name, int rc)
{
    if (rc != 0 || !c->json)
        return rc;
    return cli_print(
        json_pack("{s:s, s:i}", "sequence", name, "servers", (int)c->n_members));
}

static int settings(struct cli *c, const char *verb, const char *name, const char *done)
{
    const char *argv[WORDS_MAX] = {"SEQ", verb, name};

    if (!check_name(c, name))
        return EXIT_USAGE;
    return finish(c, name, call_all(c, add_options(c, argv, 3), argv, done));
}

int cli_create(struct cli *c, int argc, char **argv)
{
    (void)argc;
    return settings(c, "CREATE", argv[0], "created");
}

int cli_alter(struct cli *c, int argc, char **argv)
{
    (void)argc;
    if (c->max == NULL && c->durability == NULL)
        return cli_fail(c, HILO_EARG,
                        "alter changes nothing: give --max ID or --durability "
                        "ahead|each");
    return settings(c, "ALTER", argv[0], "altered");
}

int cli_advance(struct cli *c, int argc, char **argv)
{
    const char *words[] = {"SEQ", "ADVANCE", argv[0], argv[1]};
    uint64_t id;

    (void)argc;
    if (!check_name(c, argv[0]) ||
        !cli_number(c, "ID", argv[1], 1, HILO_ID_MAX - 1, &id))
        return EXIT_USAGE;
    return finish(c, argv[0], call_all(c, 4, words, "advanced"));
}

int cli_backup(struct cli *c, int argc, char **argv)
{
    const char *words[] = {"BACKUP", argv[0]};
    int rc;

    (void)argc;
    rc = call_all(c, 2, words, "backed up");
    if (rc != 0 || !c->json)
        return rc;
    return cli_print(
        json_pack("{s:s, s:i}", "backup", argv[0], "servers", (int)c->n_members));
}

int cli_retire(struct cli *c, int argc, char **argv)
{
    const char *words[] = {"SEQ", "RETIRE", argv[0]};

    (void)argc;
    if (!check_name(c, argv[0]))
        return EXIT_USAGE;
    return finish(c, argv[0], call_all(c, 3, words, "retired"));
}
