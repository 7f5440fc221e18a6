/*
 * server.h - HTTP/1.1 on one thread: epoll, keep-alive, thousands of connections, over TCP and
 * over a Unix socket beside it.
 *
 * A handler is called for each request once its head is there, of its body as it arrives, and of
 * its end; it answers then or later, from the same thread. Other threads only notify, and the
 * handler is woken. One request per connection at a time; what a client sends ahead waits in its
 * buffer.
 *
 * Call order: new, run (returns when drained or told to stop), free. Everything else from inside
 *             the handler; notify from any thread.
 * Memory:     one block at new, sized by connections_max; pages that no connection has used yet are
 *             not there. run allocates nothing.
 * Threads:    one owner; notify alone is safe from everywhere.
 *
 * The trap: a token may outlive its connection. Every call takes a stale one and does nothing.
 */
#ifndef AW_SERVICE_SERVER_H
#define AW_SERVICE_SERVER_H

#include "base/alloc.h"
#include "base/http1.h"

#define AW__SERVER_CONNECTIONS_MAX 65536u
#define AW__SERVER_COPY_BYTES_MAX  24576u /* head and body of an answer that is copied */
#define AW__SERVER_EXTRA_MAX       512u   /* bytes of a handler's own header lines */
#define AW__SERVER_USER_BYTES      64u    /* of a request, for the handler */

typedef uint64_t aw__token; /* a request on a connection */

struct aw__server;

struct aw__handler {
    /* A head is complete; it lives until this returns. AW_OK: the body may come. Anything else
     * refuses the request with that error's HTTP status and closes the connection. */
    enum aw_err (*begin)(void *self, struct aw__server *server, aw__token token,
                         const struct aw_http1_head *head);
    /* Bytes of the body, in order. As `begin`. */
    enum aw_err (*body)(void *self, aw__token token, const char *bytes, size_t len);
    /* All of it is here: answer now or later. */
    void (*end)(void *self, struct aw__server *server, aw__token token);
    /* The request is over: it was answered in full, or its client has gone. */
    void (*over)(void *self, aw__token token, bool answered);
    /* The time asked for with aw__server_timer has come. */
    void (*timer)(void *self, struct aw__server *server, aw__token token);
    /* aw_server_notify was called. */
    void (*wake)(void *self, struct aw__server *server);
    /* A signal has come, or `tick_us` have passed since the last call; signal 0: the latter. */
    void (*tick)(void *self, struct aw__server *server, int signal);
};

struct aw__server_config {
    int listen_fd; /* listening, not blocking; the server's from `new` on, which closes it */
    int unix_fd;   /* the same, a Unix socket; -1: none */
    int signal_fd; /* of signalfd(2), borrowed; -1: none */
    uint32_t connections_max;
    int64_t idle_us; /* a connection without a request is closed after it */
    int64_t tick_us; /* between two calls of `tick` */
    const struct aw__handler *handler;
    void *self;
};

struct aw__answer {
    int status;
    const char *type;  /* of the content */
    const char *extra; /* further header lines, each with its CRLF; NULL: none */
    const char *body;
    size_t len;    /* of the body in all */
    size_t ready;  /* so much of it may be sent; see aw__server_ready */
    bool borrowed; /* the body stays where it is until `over`; else it is copied */
};

/* On failure the listening sockets are still the caller's. */
AW_NODISCARD enum aw_err aw__server_new(const struct aw__server_config *config,
                                        const struct aw_alloc *alloc,
                                        struct aw__server **ret_server, struct aw_diag *diag);
void aw__server_free(struct aw__server *server); /* NULL is a no-op; closes all connections */

/* AW_OK: drained. AW_ERR_INTERRUPTED: stop was called. AW_ERR_IO: epoll failed. */
AW_NODISCARD enum aw_err aw__server_run(struct aw__server *server, struct aw_diag *diag);
void aw__server_stop(struct aw__server *server); /* run returns at once */
/* No more connections: the system refuses new ones at once. None is kept alive, and run returns
 * when the last has gone. */
void aw__server_drain(struct aw__server *server);
uint32_t aw__server_connections(const struct aw__server *server);
void aw__server_notify(struct aw__server *server); /* from any thread */

void aw__server_answer(struct aw__server *server, aw__token token, const struct aw__answer *answer);
/* More of a borrowed body may be sent: `ready` bytes of it in all. */
void aw__server_ready(struct aw__server *server, aw__token token, size_t ready);
/* `timer` is called at that time, once. A request has one such time ahead of it at most. */
void aw__server_timer(struct aw__server *server, aw__token token, int64_t at_us);
/* AW__SERVER_USER_BYTES of the request, zeroed at its beginning; NULL: the token is stale. */
void *aw__server_user(struct aw__server *server, aw__token token);

#endif
