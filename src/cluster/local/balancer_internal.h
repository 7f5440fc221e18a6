/*
 * balancer_internal.h - what the files of the balancer share.
 *
 * balancer.c lives (thread, events, timers, what other threads ask), balancer_client.c follows a
 * request, balancer_backend.c knows replicas: choosing, connecting, health; balancer_trunk.c
 * carries many requests on one connection; balancer_meter.c limits bytes per second.
 *
 * Everything but `order` and the atomics belongs to the balancer's thread. What is released while a
 * batch of events is worked on is used again only after the batch: an event further down may still
 * point to it.
 */
#ifndef AW_CLUSTER_LOCAL_BALANCER_INTERNAL_H
#define AW_CLUSTER_LOCAL_BALANCER_INTERNAL_H

#include "base/mux_frame.h"
#include "base/net.h"
#include "cluster/local/balancer.h"
#include "cluster/local/frame.h"

#include <pthread.h>
#include <stdatomic.h>

#define AW__BUFFER 16384u /* bytes each way; a head must fit */
_Static_assert(AW__BUFFER >= 2 * AW_HTTP1_HEAD_BYTES_MAX, "a head that is not complete has room");
_Static_assert(AW__BUFFER >= AW_MUX_FRAME_WINDOW, "what may be under way has room");

enum aw__handle_kind {
    AW__HANDLE_LISTEN,
    AW__HANDLE_WAKE,
    AW__HANDLE_CLIENT,
    AW__HANDLE_LINK,
    AW__HANDLE_PROBE,
    AW__HANDLE_TRUNK
};
/* First member of whatever epoll knows. */
struct aw__handle {
    uint32_t kind; /* enum aw__handle_kind */
    int fd;        /* -1: closed */
    bool readable; /* perhaps: an edge has come, and no short read since */
    bool hung_up;  /* the other side says no more */
    bool broken;   /* it was reset, or both sides are silent */
    bool is_unix;
    bool tells_writable; /* epoll is asked for it */
};

enum aw__visitor_state {
    AW__VISITOR_FREE,
    AW__VISITOR_READING, /* between requests, or a head is not complete */
    AW__VISITOR_WAITING, /* for a replica */
    AW__VISITOR_LINKED,  /* request and response pass through */
    AW__VISITOR_SAYING,  /* an answer of our own */
    AW__VISITOR_ENDING,  /* what still comes is thrown away, so that the answer is not */
};

/* Bytes of a replica, one way: a bucket that each tick fills. */
struct aw__meter {
    double left;  /* bytes */
    double share; /* of them, for each in this round */
    int64_t filled_us;
    uint32_t round, without; /* how many wanted more in this one */
};
/* A connection that takes from it. */
struct aw__metered {
    double taken; /* in that round */
    uint32_t round;
    bool without;
};

struct aw__link;
struct aw__visitor {
    struct aw__handle handle;
    uint32_t state;      /* enum aw__visitor_state */
    uint32_t begin, end; /* of `in`: bytes not yet passed on */
    uint32_t own;        /* of them: belong to this request, from `begin` */
    uint32_t from, size; /* of `in`: the whole request; size 0: it must not be asked twice */
    uint32_t tries;
    bool ended; /* nothing more comes */
    bool close_after;
    bool counted; /* this request is in the books as in flight */
    struct aw__frame_head head;
    struct aw__frame frame;
    int64_t begun_us; /* of the request */
    int64_t since_us; /* of the state */
    const char *say;
    uint32_t say_left;
    struct aw__link *link;
    struct aw__visitor *prev, *next; /* connected ones; `next` of free ones */
    char *in;                        /* [AW__BUFFER] */
};

enum aw__link_state { AW__LINK_FREE, AW__LINK_CONNECTING, AW__LINK_BUSY, AW__LINK_IDLE };
struct aw__link {
    struct aw__handle handle;
    uint32_t state; /* enum aw__link_state */
    uint32_t slot;
    bool reused;               /* it has carried a request before this one */
    bool any_sent, any_passed; /* a byte of this request, of its response */
    bool has_head;
    bool surplus;        /* bytes that belong to no response */
    bool is_stream;      /* of the trunk of its backend: it has no descriptor of its own */
    bool ended;          /* of a stream: nothing more comes */
    uint16_t generation; /* counts streams in this place */
    uint32_t asked;      /* of a stream: bytes of its request */
    uint32_t owed;       /* of a stream: bytes passed on that the replica has not been told of */
    uint64_t at;         /* of a stream: where on the trunk its request begins */
    struct aw__frame_head head;
    struct aw__frame frame;
    uint32_t begin, end; /* of `out`: bytes for the client */
    uint32_t unframed;   /* of them, at the end: not looked at yet */
    int64_t since_us;
    int64_t ended_us; /* when it ended without an answer; 0: it has not */
    int64_t heard_us; /* when bytes of the answer came last; 0: none have */
    int64_t left_us;  /* when its replica was given up; 0: it was not, and counts as in flight */
    struct aw__metered metered[AW__METER_WAYS];
    struct aw__visitor *client;
    struct aw__link *prev, *next; /* of its backend; `next` of free ones */
    char *out;                    /* [AW__BUFFER] */
};

struct aw__probe {
    struct aw__handle handle;
    uint32_t slot;
    uint32_t got;
    bool asked;
    char answer[12]; /* "HTTP/1.1 200" */
    int64_t next_us, deadline_us;
    uint32_t failures;
};

enum aw__mux_frame_state {
    AW__MUX_FRAME_NONE,
    AW__MUX_FRAME_ASKING,
    AW__MUX_FRAME_ON,
    AW__MUX_FRAME_DECLINED
};
struct aw__mux_frame {
    struct aw__handle handle;
    uint32_t state; /* enum aw__mux_frame_state */
    uint32_t slot;
    bool leaving;        /* the replica wants no more requests */
    bool owes;           /* a credit message waits for room */
    bool marked;         /* looked at when the batch ends */
    int64_t deadline_us; /* ASKING */
    uint32_t in_from, in_to, out_from, out_to;
    uint32_t out_bytes;
    uint64_t put, gone; /* bytes since it was made: into `out`, out of it */
    struct aw__metered metered[AW__METER_WAYS];
    struct aw__mux_frame *next_marked;
    char *in, *out;
};

struct aw__backend {
    uint32_t mode; /* enum aw__backend_mode */
    uint16_t port;
    char path[AW_NET_UNIX_PATH_MAX]; /* of its Unix socket; "": none */
    bool ready;
    bool is_unix; /* as the last healthy check found it */
    uint32_t in_flight;
    int64_t avoid_until_us; /* a connection failed just now */
    struct aw__link *links; /* all of them, idle ones first */
    struct aw__probe probe;
    struct aw__mux_frame trunk;
    struct aw__meter meter[AW__METER_WAYS];
    uint64_t order; /* the last that was carried out */
};

/* What other threads want of a slot, and what they see of it. */
struct aw__order {
    uint32_t mode;
    uint16_t port;
    char path[AW_NET_UNIX_PATH_MAX];
    _Atomic uint64_t number, seen;
    _Atomic bool ready, is_unix, has_trunk;
    _Atomic uint32_t in_flight;
    _Atomic uint64_t connect_failures;
};

struct aw__books {
    _Atomic uint64_t arrivals, completions, refused, lost, timed_out, failed, aborted, retries;
    _Atomic uint64_t bytes, in_flight, clients;
};

struct aw__balancer {
    struct aw__balancer_config config;
    struct aw__handle listen, wake;
    int epoll;
    uint16_t port;
    pthread_t thread;
    bool thread_made;

    pthread_mutex_t lock;    /* of `order` */
    struct aw__order *order; /* [slots] */
    _Atomic bool stop, shut;
    _Atomic int64_t network[AW__METER_WAYS]; /* bytes/s that are wanted; the next tick has them */
    _Atomic uint64_t orders;
    uint64_t orders_seen;

    int64_t now_us; /* of the batch */
    uint32_t turn;  /* where the next search for a replica begins */
    bool accept_due;
    bool waiting_due;            /* a replica has become ready, or a link free */
    bool link_due;               /* a request waits for a link that is free after the batch */
    bool trunk_unread;           /* there is more to be read */
    struct aw__backend *backend; /* [slots] */
    struct aw__visitor *client_block, *clients, *client_free, *client_released;
    struct aw__link *link_block, *link_free, *link_released;
    uint32_t links, link_count;         /* places, and how many of them are taken */
    struct aw__mux_frame *trunk_marked; /* those that have something to say */
    char *buffers, *trunk_buffers;
    struct aw__books books;
    struct aw_latency_histogram latency;
    char probe_text[AW__BALANCER_PATH_MAX + 96];
    uint32_t probe_len;
    char upgrade_text[AW__BALANCER_PATH_MAX + 128];
    uint32_t upgrade_len; /* 0: no trunk is asked for */
    const struct aw_alloc *alloc;
};

static inline void aw__bump(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

bool aw__balancer_watch(struct aw__balancer *b, struct aw__handle *handle);
/* Whether epoll reports room to write on a link over a Unix socket; on TCP it always does. */
bool aw__balancer_watch_writable(struct aw__balancer *b, struct aw__handle *handle, bool tell);

/* --- balancer_client.c ------------------------------------------------------------------------ */

void aw__visitor_accept(struct aw__balancer *b);
/* Takes it as far as it goes. */
void aw__visitor_pump(struct aw__balancer *b, struct aw__visitor *c);
/* Its link has failed, or its replica is to be left at once. */
void aw__visitor_link_failed(struct aw__balancer *b, struct aw__visitor *c);
/* Bytes of an answer from a trunk. False: more than were asked for. */
bool aw__visitor_answer(struct aw__balancer *b, struct aw__visitor *c, const char *bytes,
                        uint32_t len, bool last);
/* Time limits; and those that wait try again. */
void aw__visitor_tick(struct aw__balancer *b, struct aw__visitor *c);

/* --- balancer_backend.c ----------------------------------------------------------------------- */

enum aw__link_result { AW__LINK_READY, AW__LINK_WAIT, AW__LINK_NOBODY };
/* A link to the best replica: READY to send on, or WAIT for its connection. */
enum aw__link_result aw__link_get(struct aw__balancer *b, struct aw__visitor *c);
/* The connection was made or was not. */
void aw__link_connected(struct aw__balancer *b, struct aw__link *link);
void aw__link_close(struct aw__balancer *b, struct aw__link *link);
/* Its request is over; it may carry another. */
void aw__link_keep(struct aw__balancer *b, struct aw__link *link);
/* In flight or not any more. */
void aw__backend_count(struct aw__balancer *b, uint32_t slot, int by);
void aw__backend_orders(struct aw__balancer *b);
void aw__backend_tick(struct aw__balancer *b, uint32_t slot);
void aw__probe_event(struct aw__balancer *b, struct aw__probe *probe, uint32_t events);
/* Other replicas are preferred for a while. */
void aw__backend_avoid(struct aw__balancer *b, uint32_t slot);
/* Opens and watches a handle. False: the address cannot be reached. */
bool aw__backend_connect_unix(struct aw__balancer *b, uint32_t slot, struct aw__handle *handle);

/* --- balancer_meter.c ------------------------------------------------------------------------- */

/* For a new replica; and what has come since it was last filled. */
void aw__meter_reset(struct aw__balancer *b, uint32_t slot);
void aw__meter_fill(struct aw__balancer *b, uint32_t slot);
uint32_t aw__meter_look(struct aw__meter *meter, struct aw__metered *who, uint32_t wanted);

/* How many of so many bytes may be taken; 0: none before the next tick. */
static inline uint32_t aw__meter_allows(struct aw__balancer *b, uint32_t slot,
                                        enum aw__meter_way way, struct aw__metered who[],
                                        uint32_t wanted)
{
    return b->config.network_bytes_per_s[way] == 0
               ? wanted
               : aw__meter_look(&b->backend[slot].meter[way], &who[way], wanted);
}

/* They have been. */
static inline void aw__meter_take(struct aw__balancer *b, uint32_t slot, enum aw__meter_way way,
                                  struct aw__metered who[], uint32_t bytes)
{
    if (b->config.network_bytes_per_s[way] == 0)
        return;
    b->backend[slot].meter[way].left -= bytes;
    who[way].taken += bytes;
}

/* --- balancer_trunk.c ------------------------------------------------------------------------- */

/* Of the buffer of a trunk that so many links may have streams on. */
size_t aw__mux_frame_bytes(uint32_t links);
void aw__mux_frame_init(struct aw__mux_frame *trunk, uint32_t slot, uint32_t links, char *buffer);
/* A replica is well: unless it has said no, it is asked for a trunk. */
void aw__mux_frame_ask_for(struct aw__balancer *b, uint32_t slot);
void aw__mux_frame_tick(struct aw__balancer *b, uint32_t slot);
/* Closes it, after everything that its replica has said is taken: what is in flight fails, unless
 * its answer is here; what had not gone out is tried elsewhere. */
void aw__mux_frame_give_up(struct aw__balancer *b, uint32_t slot);
/* Whether a request can be a stream there. */
bool aw__mux_frame_takes(const struct aw__balancer *b, uint32_t slot, const struct aw__visitor *c);
void aw__mux_frame_begin(struct aw__link *link);
void aw__mux_frame_ask(struct aw__balancer *b, struct aw__link *link, const char *bytes,
                       uint32_t len);
/* So much of its answer has been passed on. */
void aw__mux_frame_passed(struct aw__balancer *b, struct aw__link *link, uint32_t bytes);
/* The stream is over, as far as we are concerned. */
void aw__mux_frame_leave(struct aw__balancer *b, struct aw__link *link);
void aw__mux_frame_event(struct aw__balancer *b, struct aw__mux_frame *trunk);
/* What was too much for one time. */
void aw__trunks_read(struct aw__balancer *b);
/* At the end of a batch: what was said in it goes out. */
void aw__trunks_send(struct aw__balancer *b);

#endif
