/*
 * target.h - the address of an environment that another process serves, as people write it.
 *
 *     grpc://HOST:PORT/NAME              plain
 *     grpcs://HOST:PORT/NAME             TLS
 *     grpc+unix:///PATH/OF/SOCKET?env=NAME
 *
 * After NAME may follow ?KEY=VALUE&KEY=VALUE: `ca` (file with the certificates that are trusted),
 * `token` (file whose first line is the bearer token), `timeout` (seconds that one answer may
 * take), and `set.KEY`: an option of the environment, as `--set env.KEY=VALUE` gives it. Nothing is
 * percent-decoded.
 *
 * Memory:  plain struct.
 * Threads: pure function of its arguments.
 */
#ifndef AW_RPC_TARGET_H
#define AW_RPC_TARGET_H

#include <aware/env.h>

#define AW_RPC_TARGET_FILE_MAX 256u
#define AW_RPC_TIMEOUT_S       60u /* for one answer, unless said otherwise */
#define AW_RPC_TIMEOUT_S_MAX   86400u
#define AW_RPC_TARGET_OPTIONS  32u

struct aw_rpc_target_option {
    char key[AW_ENV_NAME_MAX], value[AW_RPC_TARGET_FILE_MAX];
};

struct aw_rpc_target {
    char address[AW_ENV_ADDRESS_MAX]; /* for gRPC: "host:port", "unix:/path" */
    char env[AW_ENV_NAME_MAX];
    char ca_path[AW_RPC_TARGET_FILE_MAX];    /* "": those that the system trusts */
    char token_path[AW_RPC_TARGET_FILE_MAX]; /* "": none */
    uint32_t timeout_s;
    bool tls;
    uint32_t option_count;
    struct aw_rpc_target_option option[AW_RPC_TARGET_OPTIONS]; /* of the environment */
};

/* AW_ERR_USAGE: not an address, and why. */
AW_NODISCARD enum aw_err aw_rpc_target_parse(struct aw_rpc_target *target, const char *text,
                                             struct aw_diag *diag);

#endif
