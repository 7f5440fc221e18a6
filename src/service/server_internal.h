/*
 * server_internal.h - what the files of the server share.
 *
 * server.c has connections and their states, server_trunk.c the one that carries many requests.
 * Each of those is a connection as well, without a descriptor: its request is there as a whole
 * when it begins, and its answer goes into the trunk.
 */
#ifndef AW_SERVICE_SERVER_INTERNAL_H
#define AW_SERVICE_SERVER_INTERNAL_H

#include "base/mux_frame.h"
#include "service/server.h"

#include <time.h>

#define AW__CONN_IN_BYTES      (2 * AW_HTTP1_HEAD_BYTES_MAX) /* of a connection */
#define AW__MUX_FRAME_IN_BYTES (4 * AW_MUX_FRAME_PAYLOAD_MAX)
_Static_assert(AW__CONN_IN_BYTES >= AW_MUX_FRAME_PAYLOAD_MAX, "a request of the trunk has room");

enum aw__conn_state {
    AW__CONN_CLOSED,
    AW__CONN_HEAD,
    AW__CONN_BODY,
    AW__CONN_WAIT,
    AW__CONN_SEND,
    AW__CONN_LINGER,
    AW__CONN_TRUNK,
};

struct aw__conn {
    int fd; /* -1: a stream of the trunk */
    enum aw__conn_state state;
    uint32_t serial;     /* counts connections in this place: an event may be of the one before */
    uint32_t generation; /* counts requests */
    bool readable, writable; /* as far as we know */
    bool keep_alive, closing, hung_up, is_head;
    bool tells_writable; /* epoll is asked for it */
    bool is_unix;
    bool ended;      /* of a stream: the other side knows that nothing follows */
    uint32_t stream; /* its name */
    uint32_t credit; /* of a stream: bytes that may be sent */
    enum aw_http1_framing framing;
    struct aw_http1_chunks chunks;
    uint64_t body_left;
    uint32_t in_from, in_to;  /* bytes of `in` not taken yet */
    int64_t since_us;         /* when it entered its state */
    size_t out_len, out_sent; /* copied bytes: the head, and a body that was copied */
    const char *body;
    size_t body_len, body_ready, body_sent; /* of a borrowed body */
    size_t linger_bytes;
    uint32_t next_free; /* index + 1 */
    char *in;           /* [AW__CONN_IN_BYTES] */
    char *out;          /* [AW__SERVER_COPY_BYTES_MAX] */
    _Alignas(8) unsigned char user[AW__SERVER_USER_BYTES];
};

struct aw__timer {
    int64_t at_us;
    aw__token token;
};

/* The connection that carries streams, if there is one. */
struct aw__server_trunk {
    struct aw__conn *conn; /* NULL: none */
    bool broken;           /* closed when the round ends */
    bool blocked;          /* a handler waits for room in `out` */
    size_t in_from, in_to, out_from, out_to;
    size_t out_bytes; /* of `out` */
    uint32_t *place; /* [AW_MUX_FRAME_STREAMS_MAX] index of a stream's connection + 1; NULL: none */
    char *in;        /* [AW__MUX_FRAME_IN_BYTES] */
    char *out;       /* [out_bytes] */
};

struct aw__server {
    const struct aw_alloc *alloc;
    struct aw__server_config config;
    int epoll_fd, event_fd, timer_fd; /* -1: not open */
    bool listening, draining, stop;
    bool no_files;             /* no descriptor was left for the last client: wait a little */
    struct aw__conn *stepping; /* whose step is going on */
    time_t date_at;
    char date[40];                   /* now, as answers say it */
    uint32_t conn_count, free_first; /* index + 1; 0: none */
    int64_t now_us, swept_us, ticked_us, timer_set_us;
    struct aw__conn *conn;   /* [connections_max] */
    struct aw__timer *timer; /* heap; a request has one at most, stale ones are dropped when due */
    uint32_t timer_count, timer_max;
    struct aw__server_trunk trunk;
};

static inline bool aw__conn_is_stream(const struct aw__conn *conn)
{
    return conn->fd < 0;
}

void aw__conn_enter(struct aw__server *server, struct aw__conn *conn, enum aw__conn_state state);
bool aw__conn_watch(struct aw__server *server, struct aw__conn *conn, bool writable, int how);
/* Takes a free place for it, in the state HEAD; there is one. */
struct aw__conn *aw__conn_open(struct aw__server *server, int fd);
void aw__conn_close(struct aw__server *server, struct aw__conn *conn);
/* Does whatever can be done without waiting. */
void aw__conn_step(struct aw__server *server, struct aw__conn *conn);

/* --- server_trunk.c --------------------------------------------------------------------------- */

/* Bytes of `out` of a trunk that so many connections may have streams on. */
size_t aw__server_trunk_out_bytes(uint32_t connections_max);
/* Whether this is a request for a trunk, and there can be one. */
bool aw__server_trunk_is_asked(const struct aw__server *server, const struct aw__conn *conn,
                               const struct aw_http1_head *head);
/* The connection is the trunk from now on. */
void aw__server_trunk_begin(struct aw__server *server, struct aw__conn *conn);
/* Something has come, or there is room again. */
void aw__server_trunk_step(struct aw__server *server);
/* Takes as much of a stream's answer as there is room and credit for. */
void aw__server_trunk_answer(struct aw__server *server, struct aw__conn *conn);
/* A stream is over. */
void aw__server_trunk_leave(struct aw__server *server, struct aw__conn *conn);
/* New requests get the answer to ask elsewhere. */
void aw__server_trunk_farewell(struct aw__server *server);
/* Its connection has been closed: so are the streams. */
void aw__server_trunk_end(struct aw__server *server);
/* At the end of a round: what was said in it goes out at once. */
void aw__server_trunk_settle(struct aw__server *server);

#endif
