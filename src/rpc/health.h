/*
 * health.h - grpc.health.v1: how each service is, for probes and load balancers.
 *
 * Call order: init, add each service, then set as often as things change; the methods ask. deinit
 *             when no stream watches any more.
 * Memory:     fixed: AW__HEALTH_SERVICES names, AW__HEALTH_WATCHES streams.
 * Threads:    safe everywhere; one lock.
 */
#ifndef AW_RPC_HEALTH_H
#define AW_RPC_HEALTH_H

#include <pthread.h>

#include "rpc/server.h"

#define AW__HEALTH_SERVICES 16u
#define AW__HEALTH_WATCHES  64u /* streams at once; more are RESOURCE_EXHAUSTED */

struct aw__health;
struct aw__watch {
    struct aw__health *health;
    struct aw_rpc_stream *stream; /* NULL: free */
    int32_t service;              /* index; -1: not asked yet; -2: one that is not known */
};
struct aw__health {
    pthread_mutex_t lock;
    struct {
        const char *name; /* "" for the server */
        bool serving;
    } service[AW__HEALTH_SERVICES];
    uint32_t count;
    struct aw__watch watch[AW__HEALTH_WATCHES];
};

extern const struct aw_rpc_method aw__health_methods[];

void aw__health_init(struct aw__health *health);
void aw__health_deinit(struct aw__health *health);
void aw__health_add(struct aw__health *health, const char *service);
/* Watchers get a message. A service that was not added is a bug (AW_ASSERT). */
void aw__health_set(struct aw__health *health, const char *service, bool serving);

#endif
