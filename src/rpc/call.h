/*
 * call.h - one call of a client, from the moment that the server waits for it to its end.
 *
 * Call order: expect; then event for each tag that the worker's queue gives back.
 * Memory:     one block per call, freed when no tag of it is under way any more.
 * Threads:    events of a call come on its worker alone; `lock` guards what other threads send.
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

struct aw__worker {
    struct aw_rpc_server *server;
    grpc_completion_queue *queue;
    pthread_t thread;
    bool started;
    bool expecting; /* a call is waited for; its own thread alone, once it runs */
};

struct aw_rpc_stream {
    struct aw_rpc_server *server;
    struct aw__worker *worker;
    struct aw_rpc_stream *prev, *next; /* in the server's list, guarded by the server's lock */
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

/* Waits for one more call on this worker. */
void aw__call_expect(struct aw__worker *worker);
void aw__call_event(struct aw__tag *tag, bool ok);
/* From any thread, with the server's lock held, so that it is still there. */
void aw__call_cancel(struct aw_rpc_stream *call, enum aw_rpc_status status, const char *text);

void aw__reply_drop(struct aw_rpc_reply *reply);
grpc_slice aw__reply_slice(const struct aw_rpc_reply *reply);

#endif
