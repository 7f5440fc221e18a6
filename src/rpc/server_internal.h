/* server_internal.h - private to the files of the server. */
#ifndef AW_RPC_SERVER_INTERNAL_H
#define AW_RPC_SERVER_INTERNAL_H

#include "rpc/call.h"
#include "rpc/health.h"
#include "rpc/reflection.h"

struct aw_rpc_server {
    grpc_server *grpc;
    grpc_completion_queue *queue, *stop_queue;
    pthread_t poller, workers[AW_RPC_THREADS_MAX];
    bool polling;
    uint32_t worker_count; /* of those that run */
    bool expecting;        /* a call is waited for; the thread that polls alone */
    const struct aw_rpc_service *services[AW_RPC_SERVICES_MAX + 2]; /* and health, reflection */
    uint32_t service_count;
    struct aw__health health;
    struct aw__reflection reflection;
    struct aw_rpc_service health_service, reflection_service;
    char token[AW_TOKEN_MAX]; /* "": none is asked for */
    char socket_path[AW_RPC_PATH_MAX];
    uint16_t port;
    uint32_t calls_max;
    int64_t first_message_us, stream_idle_us;
    int64_t tick_us; /* the next; the thread that polls alone */

    _Atomic bool stopping;
    _Atomic uint64_t calls, refused, messages;
    _Atomic uint64_t rate_second; /* high: the second, low: calls begun in it */

    pthread_mutex_t lock;
    pthread_cond_t empty;
    struct aw_rpc_stream *first; /* calls that run */
    _Atomic uint32_t live;       /* of them; written with the lock held */
    uint32_t made;               /* those that are waited for, too */

    pthread_mutex_t job_lock;
    pthread_cond_t job_there;
    struct aw_rpc_stream *job_first, *job_last; /* in the order in which they came */
    bool job_end;
};

/* Whether one more may run: its place is taken, and given back by leave. */
bool aw__server_enter(struct aw_rpc_server *server, struct aw_rpc_stream *call);
void aw__server_leave(struct aw_rpc_server *server, struct aw_rpc_stream *call);
/* Gives a call to a worker. */
void aw__server_job(struct aw_rpc_server *server, struct aw_rpc_stream *call);
bool aw__server_rate_allows(struct aw_rpc_server *server, int64_t monotonic_us);

#endif
