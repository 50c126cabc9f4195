/* hilo_error.h - every error of hilo: its code, its word, its meaning.
 *
 * One table makes the enum below, hilo_strerror() and the words that error replies
 * begin with, so that none can be without the others. Codes are negative; 0 is success.
 * They are part of the library's and the protocol's interface: rows are added at the
 * end, never changed, never used again. */
#ifndef HILO_ERROR_H
#define HILO_ERROR_H

/*  X(code, value, word, meaning) */

/* What servers answer; the word begins the error reply. */
#define HILO_SERVER_ERRORS(X)                                                        \
    X(HILO_EERR, -1, "ERR", "the command is not understood")                         \
    X(HILO_ENOAUTH, -2, "NOAUTH", "login is required")                               \
    X(HILO_EWRONGPASS, -3, "WRONGPASS", "user name or password is wrong")            \
    X(HILO_ENOPERM, -4, "NOPERM", "this login may not do that")                      \
    X(HILO_ENOPROTO, -5, "NOPROTO", "the protocol version is not supported")         \
    X(HILO_ENOSEQ, -6, "NOSEQ", "there is no such sequence")                         \
    X(HILO_EBADARG, -7, "BADARG", "an argument is out of its range")                 \
    X(HILO_EEXHAUSTED, -8, "EXHAUSTED", "the sequence has no ids left")              \
    X(HILO_ETRYAGAIN, -9, "TRYAGAIN", "not now; the same request may succeed later") \
    X(HILO_ESTORAGE, -10, "STORAGE", "the store could not make it durable")          \
    X(HILO_EREGRESS, -11, "REGRESS", "a mark and what was seen of it disagree")      \
    X(HILO_ETOKEN, -12, "TOKEN", "the token belongs to another request")             \
    X(HILO_EPOOLFULL, -13, "POOLFULL", "no worker number is free")                   \
    X(HILO_ECLOCK, -14, "CLOCK", "the clock can't be trusted")

/* What the library finds out itself. */
#define HILO_CLIENT_ERRORS(X)                                                        \
    X(HILO_EAGAIN, -20, "AGAIN", "no id is in hand; the next ones are on their way") \
    X(HILO_ETIMEDOUT, -21, "TIMEDOUT", "no answer within the time-out")              \
    X(HILO_EUNAVAIL, -22, "UNAVAIL", "no server can be reached")                     \
    X(HILO_ELANE, -23, "LANE",                                                       \
      "servers contradict each other about who owns which ids")                      \
    X(HILO_EPROTO, -24, "PROTO", "what a server answered makes no sense")            \
    X(HILO_EARG, -25, "ARG", "an argument of the call is out of its range")          \
    X(HILO_ENOMEM, -26, "NOMEM", "out of memory")                                    \
    X(HILO_EFORK, -27, "FORK",                                                       \
      "the handle belongs to the parent process; open another one here")             \
    X(HILO_ECLOSED, -28, "CLOSED", "the handle is being closed")                     \
    X(HILO_EAUTH, -29, "AUTH", "a server refuses the login")                         \
    X(HILO_ESYSTEM, -30, "SYSTEM", "the system refuses a thread or a descriptor")

#define HILO_ERRORS(X)    \
    HILO_SERVER_ERRORS(X) \
    HILO_CLIENT_ERRORS(X)

enum hilo_error {
    HILO_OK = 0,
#define X(code, value, word, text) code = (value),
    HILO_ERRORS(X)
#undef X
};

#endif
