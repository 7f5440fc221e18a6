/*
 * listen.h - where a server listens: an address as people write it, and what that address demands.
 *
 * Call order: parse, then prepare a Unix socket's place before it is bound.
 * Memory:     plain struct.
 * Threads:    no shared state.
 */
#ifndef AW_RPC_LISTEN_H
#define AW_RPC_LISTEN_H

#include "rpc/server.h"

struct aw__listen {
    char target[160];           /* as gRPC core spells it: "unix:/run/x.sock", "127.0.0.1:0" */
    char path[AW_RPC_PATH_MAX]; /* of a Unix socket; "" for TCP */
    bool local;                 /* not reachable from other machines */
};

/* AW_ERR_CONFIG: not an address. */
AW_NODISCARD enum aw_err aw__listen_parse(struct aw__listen *listen, const char *text,
                                          struct aw_diag *diag);
/* Removes a socket without a listener. AW_ERR_UNAVAILABLE: a process listens on it. AW_ERR_EXISTS:
 * something else is there. */
AW_NODISCARD enum aw_err aw__listen_prepare(const struct aw__listen *listen, struct aw_diag *diag);

#endif
