/* remote_spec.h - what the files of a remote environment share: an address, its connection and the
 * spec that was made of its description. Private to remote.c and remote_spec.c. */
#ifndef AW_RPC_REMOTE_SPEC_H
#define AW_RPC_REMOTE_SPEC_H

#include "rpc/client.h"
#include "rpc/remote.h"
#include "rpc/target.h"

struct aw__remote {
    char address[AW_ENV_ADDRESS_MAX]; /* as it was written; spec.name points here */
    struct aw_rpc_target target;
    struct aw_rpc_client *client;
    struct aw_env_spec spec;
    struct aw_env_factory factory;
    char summary[160];
    char fallback[AW_ENV_NAME_MAX];
    void *axes;                       /* one block: axes and their names */
    struct aw_remote_option *options; /* [option_count] */
    uint32_t option_count;
};

extern const uint32_t aw__remote_state_bytes;

/* Room for a request without floats: its name, all its options, and what goes around them. */
#define AW__REMOTE_REQUEST_BYTES \
    (64u + AW_ENV_NAME_MAX + AW_ENV_ADDRESS_MAX + 16u * AW_RPC_TARGET_OPTIONS)

AW_NODISCARD enum aw_err aw__remote_make(struct aw__remote *remote, const struct aw_alloc *alloc,
                                         struct aw_env *ret_env, struct aw_diag *diag);
void aw__remote_trouble_set(const char *text);
/* As aw_env_fallback_name and aw_env_fallback. */
const char *aw__remote_fallback_name(const struct aw_env *env);
bool aw__remote_fallback(const struct aw_env *env, float *action);

/* Makes the spec of a description (a DescribeResponse, as it came). AW_ERR_FORMAT: it does not
 * describe an environment. On failure `remote` holds nothing that needs freeing but its client. */
AW_NODISCARD enum aw_err aw__remote_describe(struct aw__remote *remote, const uint8_t *bytes,
                                             size_t size, struct aw_diag *diag);
void aw__remote_deinit(struct aw__remote *remote); /* a zeroed one is a no-op */

#endif
