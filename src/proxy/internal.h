/*
 * internal.h - what the files of the proxy share.
 *
 * proxy.c lives (sockets, events, timers), client.c follows a request, dispatch.c decides who is
 * next, link.c carries an answer, health.c asks upstreams, pages.c tells, energy.c accounts.
 *
 * Descriptors are registered once, edge-triggered: `readable` and `writable` remember an edge until
 * a call says EAGAIN. An event carries the generation of its slot, so that one which was closed
 * earlier in the same batch is not taken for its successor.
 */
#ifndef AW_PROXY_INTERNAL_H
#define AW_PROXY_INTERNAL_H

#include "base/http1.h"
#include "base/latency_histogram.h"
#include "base/net.h"
#include "base/text.h"
#include "proxy/proxy.h"

#include <sys/uio.h>

#define AW__PROXY_BUFFER (16u << 10) /* of a client's request, and of an answer under way */
#define AW__PROXY_HEAD   (AW_HTTP1_HEAD_BYTES_MAX + 1024u) /* of a head as we write it */
#define AW__PROXY_SAY    1024u                             /* an answer of our own */
#define AW__PROXY_PAGE   (256u << 10)                      /* metrics, explanations */
#define AW__PROXY_PAGES  4u
#define AW__PROXY_PAST   256u /* finished requests that are explained */
#define AW__PROXY_NONE   UINT32_MAX
_Static_assert(AW__PROXY_BUFFER >= 2 * AW_HTTP1_HEAD_BYTES_MAX, "a head has room");

enum aw__proxy_kind {
    AW__PROXY_LISTEN,
    AW__PROXY_WAKE,
    AW__PROXY_CLIENT,
    AW__PROXY_LINK,
    AW__PROXY_PROBE
};

struct aw__proxy_handle {
    int fd; /* -1: closed */
    uint32_t generation;
    bool readable, writable;
    bool ended; /* the other side says no more */
};

enum aw__proxy_client_state {
    AW__PROXY_CLIENT_FREE,
    AW__PROXY_CLIENT_IDLE,   /* no byte of a request yet */
    AW__PROXY_CLIENT_HEAD,   /* a head is arriving */
    AW__PROXY_CLIENT_BODY,   /* its body is */
    AW__PROXY_CLIENT_ROOM,   /* waits for a large buffer */
    AW__PROXY_CLIENT_QUEUED, /* waits for a slot */
    AW__PROXY_CLIENT_LINKED, /* an upstream has it */
    AW__PROXY_CLIENT_SAYING, /* an answer of our own goes out */
    AW__PROXY_CLIENT_ENDING, /* what still comes is thrown away, so that the answer is not lost */
};

/* What is known of a request; it becomes a line of the past. */
struct aw__proxy_request {
    uint64_t number;
    int64_t arrived_us, sent_us, first_us, last_us; /* 0: not yet */
    double key;
    double joules;
    uint64_t bytes;
    uint32_t upstream;
    uint32_t tokens, tokens_guess, tokens_max;
    uint32_t tokens_p90; /* nine of ten answers are no longer; 0: not known */
    uint32_t class;
    uint32_t passed;  /* that came earlier and still waited when it was served */
    uint32_t waiting; /* with it in the queue when it was served */
    int status;
    bool stream, streamed, guessed, cached, ordered, failed;
    uint32_t energy_tokens; /* of `tokens`, accounted for */
    char model[40];
};

struct aw__proxy_client {
    struct aw__proxy_handle handle;
    uint32_t state;                   /* enum aw__proxy_client_state */
    uint32_t pool, link, large, page; /* AW__PROXY_NONE: none */
    uint32_t tries;
    bool close_after, head_method;
    bool arriving;    /* its bytes are being read further up: do not begin again */
    int64_t since_us; /* of the state */
    int64_t moved_us; /* a byte went either way */
    char *buffer;     /* [AW__PROXY_BUFFER] its own */
    char *in;         /* `buffer`, or a large one */
    size_t in_size, in_len;
    size_t request_bytes; /* of `in`: the request; what follows belongs to the next */
    size_t body_from, body_len;
    struct aw_http1_chunks chunks;
    size_t chunk_at;           /* of `in`: raw bytes not yet taken apart */
    struct aw_http1_head head; /* points into `in` */
    const char *say;
    size_t say_len;
    char own[AW__PROXY_SAY];
    struct aw__proxy_request request;
    struct aw_prompt prompt;
    uint32_t next; /* of free ones, of those who wait for room */
};

enum aw__proxy_link_state {
    AW__PROXY_LINK_FREE,
    AW__PROXY_LINK_CONNECTING,
    AW__PROXY_LINK_BUSY,
    AW__PROXY_LINK_IDLE
};
struct aw__proxy_link {
    struct aw__proxy_handle handle;
    uint32_t state; /* enum aw__proxy_link_state */
    uint32_t upstream, client;
    bool reused, has_head, complete, surplus, keeps, sse;
    bool broken; /* the upstream has left an answer unfinished: what is here goes out, no more */
    enum aw_http1_framing framing;
    uint64_t left; /* LENGTH */
    struct aw_http1_chunks chunks;
    int64_t since_us;
    size_t head_at, head_len;  /* of `head`: the request's, later the answer's, not yet written */
    size_t body_sent;          /* of the request's body */
    bool request_gone;         /* all of the request is written */
    size_t begin, end, framed; /* of `buffer` */
    struct aw_openai_answer answer;
    uint32_t next; /* of free ones, of idle ones of its upstream */
    char head[AW__PROXY_HEAD];
    char *buffer; /* [AW__PROXY_BUFFER] */
};

struct aw__proxy_probe {
    struct aw__proxy_handle handle;
    int64_t next_us, deadline_us;
    uint32_t got;
    bool asked;
    char answer[16];
};

/* What is learned of an upstream for its clock; all at the largest clock. */
#define AW__PROXY_WINDOW 10u /* seconds in which the worst of a goal is remembered */
struct aw__proxy_speed {
    double first_s, token_s, service_s; /* to the first token, each further one, a whole answer */
    uint64_t firsts, answers;
    double rate_per_s, load, caution;
    uint64_t begun; /* since the last look */
    double missed_s;
    double worst_s[AW_CLOCKS_GOALS][AW__PROXY_WINDOW]; /* of each second */
    int64_t second;
};

struct aw__proxy_upstream {
    struct aw_proxy_upstream config;
    char text[AW_NET_TEXT_MAX];
    uint32_t pool;
    bool healthy;
    uint32_t failures;
    uint32_t in_flight, idle; /* links; the first idle one */
    uint64_t served, failed, tokens;
    int64_t down_us; /* since when */
    char why[96];    /* it is not healthy */
    struct aw__proxy_probe probe;
    struct aw__proxy_speed speed;
};

struct aw__proxy_pool {
    char model[AW_OPENAI_MODEL_MAX];
    struct aw_serving_queue queue;
};

struct aw__proxy_counters {
    uint64_t accepted, refused, requests, answered, aborted, upstream_failed, retried,
        rejected_full, rejected_time, bad_requests, bytes_out, tokens, learned, errors_mid_stream;
};

struct aw_proxy {
    struct aw_proxy_config config;
    const struct aw_alloc *alloc;
    struct aw__proxy_handle listen, wake;
    int epoll;
    uint16_t port;
    _Atomic int stop;
    int64_t now_us;
    uint32_t client_free, link_free, room_first, room_last;
    uint32_t clients, links, link_count;
    bool accept_due, dispatch_due;
    uint64_t numbers;
    double token_s; /* of service, measured */
    uint32_t upstream_count, pool_count;
    struct aw__proxy_upstream upstream[AW_PROXY_UPSTREAMS_MAX];
    struct aw__proxy_pool pool[AW_PROXY_UPSTREAMS_MAX];
    struct aw__proxy_client *client; /* [connections_max] */
    struct aw__proxy_link *link;     /* [link_count] */
    char *map;                       /* buffers of clients and links, large ones, pages, text */
    size_t map_bytes;
    char *large, *pages, *text;
    size_t large_bytes;
    uint32_t large_free_count;
    uint32_t *large_free; /* [bodies_max] */
    bool page_busy[AW__PROXY_PAGES];
    struct aw_length *length;
    struct aw__proxy_counters count;
    struct aw_latency_histogram ttft, tpot, latency, wait;
    struct aw__proxy_request past[AW__PROXY_PAST];
    uint64_t past_count, past_settled; /* settled: energy is known */
    int64_t swept_us, energy_us;
    uint64_t energy_last_uj[AW_DEVICES_MAX];
    bool energy_known[AW_DEVICES_MAX];
    double busy_j, idle_j;
    uint32_t in_flight;             /* on all upstreams */
    int64_t busy_us, busy_since_us; /* that something was, since the last account */
    uint64_t energy_tokens;         /* of requests that ended since the last account */
    struct aw__power *power;        /* NULL: clocks are left alone */
    struct aw_clocks_server measured[AW_CLOCKS_SERVERS_MAX];
    int64_t measured_us;
    uint32_t device_count;
};

/* proxy.c */
bool aw__proxy_watch(struct aw_proxy *proxy, struct aw__proxy_handle *handle, uint32_t kind,
                     uint32_t index);
void aw__proxy_unwatch(struct aw__proxy_handle *handle);
/* Bytes read; 0: none now (look at `ended`); -1: broken. */
ssize_t aw__proxy_read(struct aw__proxy_handle *handle, char *at, size_t room);
ssize_t aw__proxy_write(struct aw__proxy_handle *handle, struct iovec *parts, int count);

/* client.c */
void aw__proxy_client_accept(struct aw_proxy *proxy);
void aw__proxy_client_event(struct aw_proxy *proxy, struct aw__proxy_client *client);
void aw__proxy_client_drop(struct aw_proxy *proxy, struct aw__proxy_client *client);
/* An error in OpenAI's form. The connection stays unless the request was not read to its end. */
void aw__proxy_client_refuse(struct aw_proxy *proxy, struct aw__proxy_client *client, int status,
                             const char *code, const char *fmt, ...) AW_PRINTF(5, 6);
/* The answer has ended: the next request, if it is there already. */
void aw__proxy_client_next(struct aw_proxy *proxy, struct aw__proxy_client *client);
/* An answer that was made elsewhere; `bytes` stay until it is written. */
void aw__proxy_client_say(struct aw_proxy *proxy, struct aw__proxy_client *client,
                          const char *bytes, size_t len);
void aw__proxy_client_room(struct aw_proxy *proxy); /* a large buffer is free */
void aw__proxy_client_sweep(struct aw_proxy *proxy, struct aw__proxy_client *client);
static inline uint32_t aw__proxy_client_index(const struct aw_proxy *proxy,
                                              const struct aw__proxy_client *c)
{
    return (uint32_t)(c - proxy->client);
}

/* dispatch.c */
void aw__proxy_dispatch_queue(struct aw_proxy *proxy, struct aw__proxy_client *client);
void aw__proxy_dispatch_leave(struct aw_proxy *proxy, struct aw__proxy_client *client);
void aw__proxy_dispatch_run(struct aw_proxy *proxy);
/* A request has ended, well or not: it is counted and learned from. */
void aw__proxy_dispatch_finish(struct aw_proxy *proxy, struct aw__proxy_client *client,
                               const struct aw__proxy_link *link, bool well);

/* link.c */
bool aw__proxy_link_begin(struct aw_proxy *proxy, struct aw__proxy_client *client,
                          uint32_t upstream);
void aw__proxy_link_event(struct aw_proxy *proxy, struct aw__proxy_link *link);
void aw__proxy_link_drop(struct aw_proxy *proxy,
                         struct aw__proxy_link *link); /* its client is left alone */
void aw__proxy_link_pump(struct aw_proxy *proxy,
                         struct aw__proxy_link *link); /* the client takes bytes again */
void aw__proxy_link_sweep(struct aw_proxy *proxy, struct aw__proxy_link *link);

/* health.c */
void aw__proxy_health_event(struct aw_proxy *proxy, struct aw__proxy_upstream *upstream);
void aw__proxy_health_sweep(struct aw_proxy *proxy, struct aw__proxy_upstream *upstream);
void aw__proxy_health_down(struct aw_proxy *proxy, struct aw__proxy_upstream *upstream,
                           const char *why);

/* pages.c */
bool aw__proxy_pages_answer(struct aw_proxy *proxy, struct aw__proxy_client *client);

/* measure.c */
void aw__proxy_measure_init(struct aw_proxy *proxy);
void aw__proxy_measure_finish(struct aw_proxy *proxy, const struct aw__proxy_request *request);
void aw__proxy_measure_tick(struct aw_proxy *proxy); /* and tells it to the clocks */

/* energy.c */
void aw__proxy_energy_tick(struct aw_proxy *proxy);

#endif
