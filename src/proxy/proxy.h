/*
 * proxy.h - stands in front of model servers that speak OpenAI's HTTP: orders the queue, bounds
 * what is in flight, passes answers through untouched, and measures.
 *
 * A request is taken in whole, its prompt is read for a guess of the answer's length, and it waits
 * in the queue of its model in the order of serving/order.h until one of the model's servers has a
 * slot. The answer's body passes byte by byte as it came, chunks included; of heads, only what
 * belongs to one connection is replaced (RFC 9110 section 7.6.1). Lengths of finished answers teach
 * the predictor. Prompts are kept for as long as their request lives, and never written anywhere.
 *
 * Call order: open, run (until stop, from any thread or a signal handler), close.
 * Memory:     one block and one mapping at open. Nothing is allocated per connection or request.
 * Threads:    run owns everything; stop and port may be called from others.
 *
 * The trap: it speaks plain HTTP, as the other doors do. Beyond loopback it wants a token, and
 * something that speaks TLS in front.
 */
#ifndef AW_PROXY_PROXY_H
#define AW_PROXY_PROXY_H

#include "base/alloc.h"
#include "base/log.h"
#include "proxy/openai.h"
#include "proxy/power.h"
#include "serving/length.h"
#include "serving/order.h"
#include "web/listen_auth.h"

#include <aware/device.h>

#include <netinet/in.h>

#define AW_PROXY_UPSTREAMS_MAX   32u
#define AW_PROXY_SLOTS_MAX       1024u
#define AW_PROXY_CONNECTIONS_MAX 65536u
#define AW_PROXY_BODY_MAX        ((size_t)64 << 20)
#define AW_PROXY_HEALTH_MAX      128u

struct aw_proxy_upstream {
    struct sockaddr_in address;
    char model[AW_OPENAI_MODEL_MAX]; /* it serves; "": any */
    uint64_t devices;                /* bits of those that it runs on; 0: all */
};

/* Zeroed members are their defaults, which stand behind them. */
struct aw_proxy_config {
    struct aw_listen_auth door;
    uint32_t upstream_count;
    struct aw_proxy_upstream upstream[AW_PROXY_UPSTREAMS_MAX];
    uint32_t slots;           /* requests in flight on each upstream: 16 */
    uint32_t connections_max; /* clients at once: 10 240 */
    uint32_t queue_max;       /* requests that wait, of each model: as many as clients */
    size_t body_bytes_max;    /* of a request: 4 MiB */
    uint32_t bodies_max;      /* requests beyond 16 KiB that are held at once: 64 */
    struct aw_serving_order order;
    bool no_learning;                  /* lengths are neither guessed nor learned: FCFS */
    char health[AW_PROXY_HEALTH_MAX];  /* path that is asked: "/health" */
    char upstream_token[AW_TOKEN_MAX]; /* sent to upstreams instead of the client's; "": none */
    int64_t arrive_us;                 /* for a request to arrive whole: 30 s */
    int64_t idle_us;                   /* a connection without a request: 75 s */
    int64_t queue_us;                  /* a request waits at most: 300 s */
    int64_t first_us;                  /* for the first byte of an answer: 600 s */
    int64_t stall_us;                  /* between two bytes, either way: 60 s */
    int64_t connect_us;                /* to an upstream: 2 s */
    int64_t health_us;                 /* between two questions: 2 s */
    const struct aw_devices *devices;  /* whose energy is accounted; NULL: none */
    struct aw_proxy_power power;       /* clocks of the devices; zeroed: left alone */
    struct aw_log *log;                /* NULL: silent */
};

struct aw_proxy;
AW_NODISCARD enum aw_err aw_proxy_open(struct aw_proxy **ret_proxy,
                                       const struct aw_proxy_config *config,
                                       const struct aw_alloc *alloc, struct aw_diag *diag);
/* Until aw_proxy_stop. AW_ERR_IO: epoll failed. */
AW_NODISCARD enum aw_err aw_proxy_run(struct aw_proxy *proxy, struct aw_diag *diag);
void aw_proxy_stop(struct aw_proxy *proxy);  /* safe in a signal handler */
void aw_proxy_close(struct aw_proxy *proxy); /* NULL is a no-op */
uint16_t aw_proxy_port(const struct aw_proxy *proxy);

#endif
