/* error.h - every error of hilo: its code, its word on the wire, its meaning.
 *
 * One table makes all three, so that a code without a word can't exist. Functions
 * return 0 or one of these codes; all are negative. The words are part of the protocol
 * (PROTOCOL.md): add rows at the end, never change or reuse one. */
#ifndef HILO_ERROR_H
#define HILO_ERROR_H

/*  X(code, value, word on the wire, meaning) */
#define HILO_ERRORS(X)                                                               \
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

enum hilo_error {
    HILO_OK = 0,
#define X(code, value, word, text) code = (value),
    HILO_ERRORS(X)
#undef X
};

/* The word an error reply begins with; "ERR" for a code that is not in the table. */
const char *error_word(int code);

/* One short sentence for people; never NULL. */
const char *error_text(int code);

#endif
