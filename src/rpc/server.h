/*
 * server.h - a gRPC server on gRPC core's completion queues: methods by path, unary or streaming.
 *
 * Call order: open with all services; they are asked on the server's threads until close returns.
 * Memory:     per call from the heap, bounded: AW_RPC_CALLS calls at once, messages up to
 *             AW_RPC_MESSAGE_BYTES_MAX, a queue of AW_RPC_QUEUE messages per stream, and a quota
 *             for what the library buffers (AW_RPC_BUFFER_BYTES).
 * Threads:    one that polls and answers, and `threads` that do what takes long; they take no
 *             signals. The callbacks of a call come one after the other.
 *
 * Health (grpc.health.v1) and reflection (grpc.reflection.v1alpha) are there by themselves. An
 * unknown method is UNIMPLEMENTED.
 *
 * On a Unix socket, its owner's alone (0600), and on loopback it speaks plainly; a token is asked
 * for where one is set. Beyond loopback it opens only with TLS and a token.
 *
 * One thread polls, because a thread that waits in the library beside another is woken for every
 * message of that one, and it for it: two such threads answered a stream a third as fast as one.
 *
 * The trap: a callback that takes long holds up every other call, unless it puts itself off
 * (aw_rpc_reply_defer). And: a stream handle is valid from `open` to the return of `close`; a
 * service that sends from threads of its own guards the handle with a lock of its own, which its
 * `close` takes as well.
 */
#ifndef AW_RPC_SERVER_H
#define AW_RPC_SERVER_H

#include "base/file.h"

#define AW_RPC_CALLS             512u       /* at once; more are RESOURCE_EXHAUSTED */
#define AW_RPC_CALLS_PER_S       50000u     /* that begin; more are RESOURCE_EXHAUSTED */
#define AW_RPC_STREAMS           128u       /* calls of one connection at once */
#define AW_RPC_MESSAGE_BYTES_MAX (4u << 20) /* what other languages' gRPC takes by default */
#define AW_RPC_QUEUE             64u        /* messages that wait to be sent on one stream */
#define AW_RPC_QUEUE_BYTES       (8u << 20) /* of them together */
#define AW_RPC_BUFFER_BYTES      (256u << 20)
#define AW_RPC_THREADS           4u
#define AW_RPC_THREADS_MAX       32u
#define AW_RPC_FIRST_MESSAGE_US  10000000 /* a call whose first message is not there then, ends */
#define AW_RPC_STREAM_IDLE_US    600000000
#define AW_RPC_ENDING_US         1000000 /* for what waits to be read when a stream ends */
#define AW_RPC_HANDSHAKE_MS      10000   /* a connection that says nothing is closed */
#define AW_RPC_KEEPALIVE_MS      30000   /* a connection with calls is asked whether it lives */
#define AW_RPC_STOP_US           2000000 /* close waits so long for calls to end by themselves */
#define AW_RPC_SERVICES_MAX      8u
#define AW_RPC_TEXT_MAX          256u /* bytes of a status message, with its NUL */
#define AW_RPC_PATH_MAX          108u /* of a Unix socket, with its NUL: sun_path of unix(7) */
#define AW_RPC_SLICE_BYTES       48u  /* room for what the library calls a slice */

/* The status codes of gRPC, with its numbers. */
enum aw_rpc_status {
    AW_RPC_OK = 0,
    AW_RPC_CANCELLED = 1,
    AW_RPC_UNKNOWN = 2,
    AW_RPC_INVALID_ARGUMENT = 3,
    AW_RPC_DEADLINE_EXCEEDED = 4,
    AW_RPC_NOT_FOUND = 5,
    AW_RPC_ALREADY_EXISTS = 6,
    AW_RPC_PERMISSION_DENIED = 7,
    AW_RPC_RESOURCE_EXHAUSTED = 8,
    AW_RPC_FAILED_PRECONDITION = 9,
    AW_RPC_ABORTED = 10,
    AW_RPC_OUT_OF_RANGE = 11,
    AW_RPC_UNIMPLEMENTED = 12,
    AW_RPC_INTERNAL = 13,
    AW_RPC_UNAVAILABLE = 14,
    AW_RPC_DATA_LOSS = 15,
    AW_RPC_UNAUTHENTICATED = 16,
};
/* What an operating error is called on the wire, and back. */
enum aw_rpc_status aw_rpc_status_of(enum aw_err err);
enum aw_err aw_rpc_status_err(enum aw_rpc_status status);
const char *aw_rpc_status_name(enum aw_rpc_status status); /* "NOT_FOUND" */

struct aw_rpc_stream; /* a call in hand; the server's */

/* What a handler answers. Zeroed is OK and no message. */
struct aw_rpc_reply {
    enum aw_rpc_status status; /* other than OK ends the call; `text` goes with it */
    char text[AW_RPC_TEXT_MAX];
    bool end;   /* of a stream: no more, with `status` */
    bool alone; /* input: no other call is under way, so none is held up */

    /* the rest is the server's own business */
    bool filled, can_defer, deferred;
    _Alignas(8) unsigned char slice[AW_RPC_SLICE_BYTES];
};
/* Room for a message of exactly `size` bytes, to be filled before the handler returns; NULL: more
 * than AW_RPC_MESSAGE_BYTES_MAX, and the reply says RESOURCE_EXHAUSTED. Asked for again, the room
 * before it is gone. */
uint8_t *aw_rpc_reply_room(struct aw_rpc_reply *reply, size_t size);
/* For `unary` and `message`, before anything else: what is asked takes long. True: return at once,
 * a worker calls again with the same bytes. False: this is the worker, go on. */
bool aw_rpc_reply_defer(struct aw_rpc_reply *reply);
void aw_rpc_reply_fail(struct aw_rpc_reply *reply, enum aw_rpc_status status, const char *fmt, ...)
    AW_PRINTF(3, 4);
/* From an error and what was said about it. */
void aw_rpc_reply_err(struct aw_rpc_reply *reply, enum aw_err err, const struct aw_diag *diag);

enum aw_rpc_kind {
    AW_RPC_UNARY,
    AW_RPC_LOCKSTEP, /* each message is answered by one, in order: the fastest */
    AW_RPC_DUPLEX,   /* either side sends when it likes */
};

struct aw_rpc_method {
    const char *path; /* "/aware.v1.Environment/Step"; NULL ends a table */
    enum aw_rpc_kind kind;
    bool anyone; /* needs no token: probes have none */

    /* UNARY. `bytes` are the request, valid until it returns. */
    void (*unary)(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply);

    /* Streams. open makes what the stream needs into `*ret_self`; a reply that is not OK refuses
     * it, and then nothing else is called. */
    void (*open)(void *ctx, struct aw_rpc_stream *stream, void **ret_self,
                 struct aw_rpc_reply *reply);
    /* A message came. LOCKSTEP: the reply's message is sent. DUPLEX: so it is if there is one;
     * further messages by aw_rpc_stream_send. */
    void (*message)(void *self, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply);
    /* DUPLEX: the peer will send nothing more; a reply with `end` set ends the stream. NULL: it
     * ends with OK. */
    void (*half_closed)(void *self, struct aw_rpc_reply *reply);
    /* The last call, however it ended. On a worker: it may take long. */
    void (*close)(void *self);
};

struct aw_rpc_service {
    const char *name; /* "aware.v1.Environment", as health and reflection know it */
    const struct aw_rpc_method *methods;
    void *ctx;
    /* About once a second, on a thread of the server; NULL: nothing to do. */
    void (*tick)(void *ctx, int64_t monotonic_us);
};

/* For DUPLEX, from any thread, while the handle is valid. Copies. AW_ERR_LIMIT: AW_RPC_QUEUE
 * messages or AW_RPC_QUEUE_BYTES wait already, or it is too large; AW_ERR_UNAVAILABLE: the stream
 * is ending. */
AW_NODISCARD enum aw_err aw_rpc_stream_send(struct aw_rpc_stream *stream, const uint8_t *bytes,
                                            size_t size);
/* Ends the stream after what waits has been sent, or AW_RPC_ENDING_US later; `close` follows.
 * `text` may be NULL. */
void aw_rpc_stream_end(struct aw_rpc_stream *stream, enum aw_rpc_status status, const char *text);
/* The peer, as gRPC writes it: "ipv4:127.0.0.1:40112", "unix:". */
const char *aw_rpc_stream_peer(const struct aw_rpc_stream *stream);

/* Zeroed but for an address is all defaults. */
struct aw_rpc_config {
    const char *listen; /* "unix:/run/x.sock", "/run/x.sock", "127.0.0.1:50051", ":0" */
    const char *token;  /* what "authorization: Bearer ..." must carry; NULL: none on loopback */
    bool orders;        /* callers act: by TCP the token is needed on loopback too, as by HTTP */
    const char *tls_cert_path, *tls_key_path; /* PEM; both or none */
    uint32_t threads;                         /* for what takes long; 0: AW_RPC_THREADS */
    uint32_t calls_max;                       /* 0: AW_RPC_CALLS */
    int64_t first_message_us;                 /* 0: AW_RPC_FIRST_MESSAGE_US */
    int64_t stream_idle_us;                   /* 0: AW_RPC_STREAM_IDLE_US */
};

struct aw_rpc_server; /* opaque */

/* Services are borrowed until close. AW_ERR_CONFIG: not an address, beyond loopback without TLS and
 * token, or for orders by TCP without a token. AW_ERR_UNAVAILABLE: another process listens there.
 * AW_ERR_EXISTS: something else is there. */
AW_NODISCARD enum aw_err aw_rpc_server_open(struct aw_rpc_server **ret_server,
                                            const struct aw_rpc_config *config,
                                            const struct aw_rpc_service *const *services,
                                            uint32_t service_count, struct aw_diag *diag);
/* No new calls; streams end with UNAVAILABLE; what is still there after AW_RPC_STOP_US is
 * cancelled. Every `close` has returned when this does. NULL is a no-op. */
void aw_rpc_server_close(struct aw_rpc_server *server);
uint16_t aw_rpc_server_port(const struct aw_rpc_server *server); /* 0 for a Unix socket */
/* What health tells of a service, "" for the server; all serve from the beginning. */
void aw_rpc_server_health(struct aw_rpc_server *server, const char *service, bool serving);

struct aw_rpc_stats {
    uint64_t calls;    /* begun, all told */
    uint64_t refused;  /* of those: limits, unknown methods, no token */
    uint64_t messages; /* received */
    uint32_t live;     /* calls under way */
};
void aw_rpc_server_stats(struct aw_rpc_server *server, struct aw_rpc_stats *ret);

#endif
