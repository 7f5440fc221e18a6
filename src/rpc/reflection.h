/*
 * reflection.h - grpc.reflection.v1alpha: tells tools such as grpcurl which services there are,
 * from the descriptors that were made at build time.
 *
 * Call order: init with the names of the services; the method asks.
 * Memory:     the struct; names are borrowed.
 * Threads:    read-only after init.
 */
#ifndef AW_RPC_REFLECTION_H
#define AW_RPC_REFLECTION_H

#include "rpc/descriptors.h"
#include "rpc/server.h"

struct aw__reflection {
    struct aw__descriptors set;
    const char *service[AW_RPC_SERVICES_MAX + 2];
    uint32_t service_count;
};

extern const struct aw_rpc_method aw__reflection_methods[];

void aw__reflection_init(struct aw__reflection *reflection);
void aw__reflection_add(struct aw__reflection *reflection, const char *service);

#endif
