/*
 * call.h - one call of a client, from the moment that the server waits for it to its end.
 *
 * Call order: expect; then event for each tag that the server's queue gives back, and work for each
 *             call that was given to a worker.
 * Memory:     one block per call, freed when no tag of it is under way any more.
 * Threads:    events come on the thread that polls, work on a worker. A message under way on a
 *             worker keeps its tag, and the next one is asked for only when it is answered: so a
 *             service sees one after the other. `lock` guards what several threads touch.
 *
 * A call that runs always has its `ended` tag under way (RECV_CLOSE_ON_SERVER), so it cannot be
 * freed under a service that still sends.
 */
#ifndef AW_RPC_CALL_H
#define AW_RPC_CALL_H

#include <pthread.h>

#include "rpc/library.h"
#include "rpc/server.h"

enum aw__call_tag {
    AW__CALL_BEGUN,
    AW__CALL_RECEIVED,
    AW__CALL_SENT,
    AW__CALL_ENDED,
    AW__CALL_DONE
};

struct aw_rpc_stream {
    struct aw_rpc_server *server;
    struct aw_rpc_stream *prev, *next; /* in the server's list, guarded by the server's lock */
    struct aw_rpc_stream *job_next;    /* in the list of what workers have to do, by its lock */
    grpc_slice message;                /* for a worker */
    bool over;                         /* for a worker: nothing is left but to free it */
    struct aw__tag begun, received, sent, ended, done;

    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    const struct aw_rpc_service *service;
    const struct aw_rpc_method *method; /* NULL: refused */
    void *self;                         /* what the method's open made */
    bool opened, admitted;
    char peer[96];
    grpc_byte_buffer *incoming;
    grpc_byte_buffer *answer; /* LOCKSTEP and UNARY: under way */
    int cancelled;
    _Atomic int64_t heard_us; /* when the last message came, or the call */
    _Atomic bool heard;       /* a message came */
    _Atomic bool half_closed; /* nothing more will */

    pthread_mutex_t lock;
    uint32_t pending; /* tags under way */
    grpc_byte_buffer *queue[AW_RPC_QUEUE];
    uint32_t queue_head, queue_count;
    size_t queue_bytes;
    grpc_byte_buffer *sending; /* DUPLEX: under way */
    bool ending, finishing, gone;
    int64_t ending_us; /* since when */
    enum aw_rpc_status status;
    char text[AW_RPC_TEXT_MAX];
};

/* Waits for one more call. On the thread that polls. */
void aw__call_expect(struct aw_rpc_server *server);
void aw__call_event(struct aw__tag *tag, bool ok);
/* On a worker: what the thread that polls put off. */
void aw__call_work(struct aw_rpc_stream *call);
/* From any thread, with the server's lock held, so that it is still there. */
void aw__call_cancel(struct aw_rpc_stream *call, enum aw_rpc_status status, const char *text);

void aw__reply_drop(struct aw_rpc_reply *reply);
grpc_slice aw__reply_slice(const struct aw_rpc_reply *reply);

#endif
