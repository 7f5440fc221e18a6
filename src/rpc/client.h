/*
 * client.h - a gRPC client with blocking calls: one connection, single calls and lockstep streams.
 *
 * Call order: open; call or stream_open as often as one likes; close the streams, then the client.
 * Memory:     the library's; answers up to AW_RPC_MESSAGE_BYTES_MAX.
 * Threads:    a client may be shared; a stream has one owner.
 *
 * Every wait has an end: the client's timeout. A refused connection fails at once, not when the
 * time is over.
 */
#ifndef AW_RPC_CLIENT_H
#define AW_RPC_CLIENT_H

#include "rpc/server.h"

struct aw_rpc_client_config {
    const char *address; /* "host:port", "unix:/path" */
    bool tls;
    const char *ca_path; /* NULL: what the system trusts */
    const char *token;   /* NULL: none */
    int64_t timeout_us;  /* of one answer */
};

struct aw_rpc_client;  /* opaque */
struct aw_rpc_talk;    /* a stream of it */
struct aw_rpc_answer { /* a received message; zeroed: none */
    const uint8_t *bytes;
    size_t size;
    _Alignas(8) unsigned char slice[AW_RPC_SLICE_BYTES]; /* the client's own business */
    bool held;
};
void aw_rpc_answer_free(struct aw_rpc_answer *answer); /* a zeroed one is a no-op */

AW_NODISCARD enum aw_err aw_rpc_client_open(struct aw_rpc_client **ret,
                                            const struct aw_rpc_client_config *config,
                                            struct aw_diag *diag);
void aw_rpc_client_close(struct aw_rpc_client *client); /* NULL is a no-op */

/* One call. An error has the server's own words in `diag`, and its status in `ret_status`, which
 * may be NULL. */
AW_NODISCARD enum aw_err aw_rpc_client_call(struct aw_rpc_client *client, const char *path,
                                            const uint8_t *bytes, size_t size,
                                            struct aw_rpc_answer *ret_answer,
                                            enum aw_rpc_status *ret_status, struct aw_diag *diag);

AW_NODISCARD enum aw_err aw_rpc_talk_open(struct aw_rpc_talk **ret, struct aw_rpc_client *client,
                                          const char *path, struct aw_diag *diag);
/* Sends one message and waits for one. After a failure the stream is over: close it. */
AW_NODISCARD enum aw_err aw_rpc_talk_exchange(struct aw_rpc_talk *talk, const uint8_t *bytes,
                                              size_t size, struct aw_rpc_answer *ret_answer,
                                              struct aw_diag *diag);
/* The halves of an exchange, for streams on which either side speaks when it likes. */
AW_NODISCARD enum aw_err aw_rpc_talk_send(struct aw_rpc_talk *talk, const uint8_t *bytes,
                                          size_t size, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_rpc_talk_receive(struct aw_rpc_talk *talk,
                                             struct aw_rpc_answer *ret_answer,
                                             struct aw_diag *diag);
void aw_rpc_talk_close(struct aw_rpc_talk *talk); /* NULL is a no-op */

#endif
