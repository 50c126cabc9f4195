/* cli_main.c - hilo: the command line. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli.h"
#include "error.h"
#include "name.h"
#include "number.h"
#include "version.h"

struct command {
    const char *name;
    int least, most; /* arguments */
    cli_fn *run;
    const char *usage; /* its arguments and options */
    const char *help;
    const char *options; /* letters of the options of its own */
};

static const struct command commands[] = {
    {"next", 1, 1, cli_next, "NAME [-n COUNT]", "take ids, one on a line", "n"},
    {"block", 2, 2, cli_block, "NAME COUNT [--token T]",
     "take a block: first, last and step", "k"},
    {"create", 1, 1, cli_create,
     "NAME [--start ID] [--max ID] [--durability ahead|each]",
     "make a sequence, on every server", "SMD"},
    {"alter", 1, 1, cli_alter, "NAME [--max ID] [--durability ahead|each]",
     "change a sequence, on every server", "MD"},
    {"advance", 2, 2, cli_advance, "NAME ID",
     "make every id from now on larger than ID, on every server", ""},
    {"retire", 1, 1, cli_retire, "NAME", "end a sequence, on every server", ""},
    {"backup", 1, 1, cli_backup, "NAME",
     "copy the store of every server to a file of its backup_dir", ""},
    {"ls", 0, 1, cli_ls, "[PATTERN]", "list sequences", ""},
    {"info", 0, 1, cli_info, "[NAME]", "show the servers, or one sequence on each", ""},
    {"top", 0, 1, cli_top, "[PATTERN] [--interval S] [-n ROUNDS]",
     "watch sequences and their rates", "In"},
    {"ping", 0, 0, cli_ping, "", "ask every server whether it is there", ""},
    {"doctor", 0, 0, cli_doctor, "", "look for what is wrong, and say what to do", ""},
    {"bench", 1, 1, cli_bench, "NAME [-n COUNT] [-t THREADS]",
     "time the taking of ids; they are taken for good", "nt"},
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const struct option options[] = {
    {"server", required_argument, NULL, 's'},
    {"password-file", required_argument, NULL, 'p'},
    {"json", no_argument, NULL, 'j'},
    {"timeout", required_argument, NULL, 'T'},
    {"count", required_argument, NULL, 'n'},
    {"start", required_argument, NULL, 'S'},
    {"max", required_argument, NULL, 'M'},
    {"durability", required_argument, NULL, 'D'},
    {"token", required_argument, NULL, 'k'},
    {"threads", required_argument, NULL, 't'},
    {"interval", required_argument, NULL, 'I'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static const char general[] = "spjThV"; /* options that every command takes */

static void print_help(void)
{
    printf("hilo " HILO_VERSION " - unique 64-bit ids from hilod\n\n"
           "usage: hilo [options] COMMAND ...\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %s %s\n        %s\n", commands[i].name, commands[i].usage,
               commands[i].help);
    printf("\noptions:\n"
           "  --server LIST         HOST:PORT, [IPv6]:PORT or unix:/path, several with "
           "commas\n"
           "                        (default $HILO_SERVER, or 127.0.0.1:4456)\n"
           "  --password-file PATH  the password is its first line\n"
           "                        (default $HILO_PASSWORD_FILE)\n"
           "  --timeout MS          how long to wait for servers (default 2000)\n"
           "  --json                answer in JSON\n"
           "  --help, --version\n\n"
           "exit codes: 0 done, 1 failed, 64 wrong usage, 69 not all servers could be "
           "reached,\n75 try again\n");
}

int cli_exit_code(int err)
{
    switch (err) {
    case HILO_OK:
        return 0;
    case HILO_EUNAVAIL:
        return EXIT_UNAVAIL;
    case HILO_ETIMEDOUT:
    case HILO_ETRYAGAIN:
    case HILO_EAGAIN:
        return EXIT_TRY_AGAIN;
    case HILO_EARG:
        return EXIT_USAGE;
    default:
        return EXIT_FAILED;
    }
}

int cli_fail(const struct cli *c, int err, const char *fmt, ...)
{
    char text[1024];
    json_t *document;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fflush(stdout);
    if (!c->json) {
        fprintf(stderr, "hilo: %s\n", text);
        return cli_exit_code(err);
    }
    document =
        json_pack("{s:{s:s, s:s}}", "error", "code", error_word(err), "message", text);
    json_dumpf(document, stderr, JSON_COMPACT);
    fputc('\n', stderr);
    json_decref(document);
    return cli_exit_code(err);
}

int cli_print(json_t *document)
{
    json_dumpf(document, stdout, JSON_COMPACT);
    json_decref(document);
    putchar('\n');
    fflush(stdout);
    return 0;
}

/* What was printed has to have arrived: a full disk is no success. */
static int finish_output(const struct cli *c, int rc)
{
    bool failed = ferror(stdout) != 0;

    failed |= fflush(stdout) != 0;
    if (!failed || rc != 0)
        return rc;
    return cli_fail(c, HILO_ESYSTEM, "can't write what it has to say: %s",
                    strerror(errno));
}

bool cli_number(const struct cli *c, const char *name, const char *text, uint64_t least,
                uint64_t most, uint64_t *ret)
{
    uint64_t n;

    if (number_parse_u64(text, strlen(text), &n) && n >= least && n <= most) {
        *ret = n;
        return true;
    }
    cli_fail(c, HILO_EARG, "%s is '%.40s', but has to be %" PRIu64 " to %" PRIu64, name,
             text, least, most);
    return false;
}

/* The first line of a file; NULL, and said, when there is none. */
static char *read_password(const struct cli *c, const char *path)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    struct stat st;

    if (f == NULL || fstat(fileno(f), &st) != 0) {
        cli_fail(c, HILO_ESYSTEM, "password file %s: %s", path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        cli_fail(c, HILO_ESYSTEM, "password file %s: it is a directory", path);
    } else if (S_ISREG(st.st_mode) && (st.st_mode & S_IRWXO) != 0) {
        cli_fail(c, HILO_ESYSTEM,
                 "password file %s: everybody may read or change it; chmod 600 %s",
                 path, path);
    } else {
        if (getline(&line, &size, f) > 0)
            line[strcspn(line, "\r\n")] = '\0';
        if (line == NULL || line[0] == '\0') {
            cli_fail(c, HILO_ESYSTEM, "password file %s: its first line is empty",
                     path);
            free(line);
            line = NULL;
        }
    }
    if (f != NULL)
        fclose(f);
    return line;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* As people type it. */
static const char *option_name(int letter)
{
    switch (letter) {
    case 'n':
        return "-n";
    case 't':
        return "-t";
    case 'S':
        return "--start";
    case 'M':
        return "--max";
    case 'D':
        return "--durability";
    case 'k':
        return "--token";
    default:
        return "--interval";
    }
}

/* Takes one option; false, and said, when its value won't do. */
static bool set_option(struct cli *c, int letter, const char *value,
                       const char **password_file)
{
    uint64_t n;
    char *end;

    switch (letter) {
    case 's':
        c->servers = value;
        if (value[0] != '\0')
            return true;
        cli_fail(c, HILO_EARG, "--server is empty; leave it out for the default");
        return false;
    case 'p':
        *password_file = value;
        return true;
    case 'j':
        c->json = true;
        return true;
    case 'S':
        c->start = value;
        return cli_number(c, "--start", value, 1, HILO_ID_MAX, &n);
    case 'M':
        c->max = value;
        return cli_number(c, "--max", value, 1, HILO_ID_MAX, &n);
    case 'k':
        c->token = value;
        if (token_valid(value, strlen(value)))
            return true;
        cli_fail(c, HILO_EARG, "--token has to be " TOKEN_RULE);
        return false;
    case 'D':
        c->durability = value;
        if (strcmp(value, "ahead") == 0 || strcmp(value, "each") == 0)
            return true;
        cli_fail(c, HILO_EARG, "--durability is '%.40s', but has to be ahead or each",
                 value);
        return false;
    case 'n':
        return cli_number(c, "-n", value, 1, HILO_ID_MAX, &c->count);
    case 't':
        if (!cli_number(c, "-t", value, 1, 1024, &n))
            return false;
        c->threads = (unsigned)n;
        return true;
    case 'T':
        if (!cli_number(c, "--timeout", value, 1, 3600000, &n))
            return false;
        c->timeout_ms = (int)n;
        return true;
    case 'I':
        c->interval_s = strtod(value, &end);
        if (end != value && *end == '\0' && c->interval_s >= 0.1 &&
            c->interval_s <= 3600)
            return true;
        cli_fail(c, HILO_EARG,
                 "--interval is '%.40s', but has to be 0.1 to 3600 seconds", value);
        return false;
    default:
        return false;
    }
}

/* Options may stand anywhere. Returns -1 to go on, or an exit code. */
static int parse_options(struct cli *c, int argc, char **argv, char *given,
                         const char **password_file)
{
    size_t n = 0;
    int letter;

    opterr = 0;
    while ((letter = getopt_long(argc, argv, ":s:n:t:h", options, NULL)) != -1) {
        if (letter == 'h') {
            print_help();
            return 0;
        }
        if (letter == 'V') {
            printf("hilo " HILO_VERSION "\n");
            return 0;
        }
        if (letter == '?' || letter == ':')
            return cli_fail(c, HILO_EARG,
                            letter == ':' ? "%s needs a value; see: hilo --help"
                                          : "unknown option %s; see: hilo --help",
                            argv[optind - 1]);
        if (!set_option(c, letter, optarg, password_file))
            return EXIT_USAGE;
        if (strchr(given, letter) == NULL)
            given[n++] = (char)letter;
    }
    return -1;
}

static int run_command(struct cli *c, const char *given, int argc, char **argv)
{
    const struct command *cmd;

    if (argc == 0)
        return cli_fail(c, HILO_EARG, "a command is missing; see: hilo --help");
    cmd = find_command(argv[0]);
    if (cmd == NULL && strcmp(argv[0], "help") == 0) {
        print_help();
        return 0;
    }
    if (cmd == NULL)
        return cli_fail(c, HILO_EARG, "unknown command '%.40s'; see: hilo --help",
                        argv[0]);
    for (; *given != '\0'; given++) {
        if (strchr(general, *given) == NULL && strchr(cmd->options, *given) == NULL)
            return cli_fail(c, HILO_EARG, "%s takes no %s; it is: hilo %s%s%s",
                            cmd->name, option_name(*given), cmd->name,
                            cmd->usage[0] != '\0' ? " " : "", cmd->usage);
    }
    argc--;
    argv++;
    if (argc < cmd->least || argc > cmd->most)
        return cli_fail(c, HILO_EARG, "%s takes other arguments; it is: hilo %s%s%s",
                        cmd->name, cmd->name, cmd->usage[0] != '\0' ? " " : "",
                        cmd->usage);
    return cmd->run(c, argc, argv);
}

int main(int argc, char **argv)
{
    struct cli c = {.timeout_ms = 2000};
    const char *password_file = getenv("HILO_PASSWORD_FILE");
    char given[32] = "";
    int rc;

    c.servers = getenv("HILO_SERVER");
    rc = parse_options(&c, argc, argv, given, &password_file);
    if (rc >= 0)
        return finish_output(&c, rc);
    if (c.servers == NULL || c.servers[0] == '\0')
        c.servers = "127.0.0.1:4456";
    if (password_file != NULL && password_file[0] != '\0') {
        c.password = read_password(&c, password_file);
        if (c.password == NULL)
            return EXIT_FAILED;
    }
    rc = finish_output(&c, run_command(&c, given, argc - optind, argv + optind));
    members_close(&c);
    free(c.password);
    return rc;
}
