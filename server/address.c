/* address.c - addresses to listen on. */
#include "address.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int __attribute__((format(printf, 2, 3))) fail(char *error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(error, ADDRESS_ERROR_MAX, fmt, ap);
    va_end(ap);
    return -1;
}

bool address_is_local(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_UNIX)
        return true;
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;

        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
    }
    return false;
}

int address_check_reach(const struct sockaddr *sa, const char *text, bool open,
                        char *error)
{
    if (open || address_is_local(sa))
        return 0;
    return fail(
        error,
        "listen: %.100s can be reached from other machines, where anybody could "
        "take ids and change sequences. Give a password_file, or listen on "
        "127.0.0.1, or say --insecure if the network is your own",
        text);
}

/* Splits "HOST:PORT" or "[HOST]:PORT" in place. */
static bool split(char *text, char **ret_host, char **ret_port)
{
    char *colon = strrchr(text, ':');

    if (colon == NULL || colon == text || colon[1] == '\0')
        return false;
    *colon = '\0';
    *ret_host = text;
    *ret_port = colon + 1;
    if (text[0] == '[') {
        if (colon[-1] != ']')
            return false;
        colon[-1] = '\0';
        *ret_host = text + 1;
    }
    return strspn(*ret_port, "0123456789") == strlen(*ret_port) &&
           atol(*ret_port) <= 65535 && strlen(*ret_port) <= 5;
}

static int each_of_host(const char *text, bool open, address_fn *fn, void *arg,
                        char *error, bool *ret_config)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char copy[256], *host, *port;
    int rc;

    *ret_config = true;
    if (strlen(text) >= sizeof copy || !split(strcpy(copy, text), &host, &port))
        return fail(
            error,
            "listen is '%.100s', but has to be HOST:PORT with a port from 0 to 65535 "
            "(IPv6: [HOST]:PORT)",
            text);
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return fail(error, "listen: '%.100s': %s", text, gai_strerror(rc));
    rc = 0;
    for (const struct addrinfo *ai = found; ai != NULL && rc == 0; ai = ai->ai_next) {
        *ret_config = true;
        rc = address_check_reach(ai->ai_addr, text, open, error);
        if (rc != 0 || fn == NULL)
            continue;
        *ret_config = false;
        rc = fn(arg, ai, text, error);
    }
    freeaddrinfo(found);
    return rc;
}

int address_each(const char *addresses, bool open, address_fn *fn, void *arg,
                 char *error, bool *ret_config)
{
    char *copy = strdup(addresses), *rest = copy, *one;
    int rc = 0;

    *ret_config = false;
    if (copy == NULL)
        return fail(error, "out of memory");
    while (rc == 0 && (one = strsep(&rest, ",")) != NULL) {
        one += strspn(one, " ");
        if (*one != '\0')
            rc = each_of_host(one, open, fn, arg, error, ret_config);
    }
    free(copy);
    return rc;
}
