/*
 * credential.h - our identity at this moment: a token that may change, or what a plugin printed.
 *
 * A token file is read anew each minute (bound service account tokens live for an hour and kubelet
 * replaces them); an exec plugin is run when what it printed has expired, and both at once when the
 * server said 401.
 *
 * Call order: init, refresh before each request, expire after a 401, deinit.
 * Memory:     token, certificate and key are blocks of the allocator, wiped before they are freed.
 * Threads:    single owner.
 *
 * The trap: a token file that cannot be read for a moment is not the end. The old token is used
 * until the server refuses it.
 */
#ifndef AW_KUBE_CREDENTIAL_H
#define AW_KUBE_CREDENTIAL_H

#include "base/clock.h"
#include "kube/config.h"

#define AW_KUBE_TOKEN_REREAD_US 60000000            /* client-go's cachingTokenSource: a minute */
#define AW_KUBE_EXEC_EARLY_US   10000000            /* a plugin is run so long before the expiry */
#define AW_KUBE_EXEC_TIMEOUT_US 60000000            /* of a plugin; some ask an identity server */
#define AW_KUBE_EXEC_OUTPUT_MAX ((size_t)256 << 10) /* bytes that a plugin may print */
#define AW_KUBE_EXEC_INFO_MAX   ((size_t)1 << 20)   /* of KUBERNETES_EXEC_INFO */

/* Everything is secret; nothing of it may be printed. */
struct aw_kube_credential {
    const struct aw_kube_config *config;
    const struct aw_clock *clock;
    char *token;                  /* NULL: none */
    struct aw_kube_pem cert, key; /* from a plugin; none: the configuration's */
    uint32_t cert_version;        /* grows whenever the certificate changes: connections are old */
    int64_t refresh_at_us;        /* monotonic; INT64_MAX: never by itself */
    int64_t expires_at_us;        /* wall, of a plugin's; INT64_MAX: never */
    bool loaded;
};

void aw_kube_credential_init(struct aw_kube_credential *credential,
                             const struct aw_kube_config *config, const struct aw_clock *clock);
/* Makes the credential current. AW_ERR_CONFIG: the plugin failed or printed something else;
 * AW_ERR_NOTFOUND: there is no such program or file; AW_ERR_DEADLINE; AW_ERR_NOMEM. On failure what
 * was there before stays. */
AW_NODISCARD enum aw_err aw_kube_credential_refresh(struct aw_kube_credential *credential,
                                                    struct aw_diag *diag);
/* The server refused it: the next refresh reads or runs again. False: there is nothing to renew. */
bool aw_kube_credential_expire(struct aw_kube_credential *credential);
void aw_kube_credential_deinit(struct aw_kube_credential *credential); /* zeroed is a no-op */

/* What a plugin printed: an ExecCredential. Zeroed is empty. */
struct aw_kube_exec_answer {
    char *token;
    char *cert, *key;      /* PEM */
    int64_t expires_at_us; /* wall; INT64_MAX: not said */
};
/* AW_ERR_FORMAT, and the diagnostic quotes nothing; on failure `ret_answer` is untouched. */
AW_NODISCARD enum aw_err aw_kube_exec_decode(const char *bytes, size_t len, const char *api_version,
                                             const struct aw_alloc *alloc,
                                             struct aw_kube_exec_answer *ret_answer,
                                             struct aw_diag *diag);
void aw_kube_exec_answer_deinit(struct aw_kube_exec_answer *answer, const struct aw_alloc *alloc);
/* Runs the plugin of a configuration and decodes what it prints. Its own messages go where ours go,
 * to standard error, as with kubectl; its input is empty. Ends it when `timeout_us` has passed. */
AW_NODISCARD enum aw_err aw__kube_exec_run(const struct aw_kube_config *config, int64_t timeout_us,
                                           struct aw_kube_exec_answer *ret_answer,
                                           struct aw_diag *diag);

#endif
