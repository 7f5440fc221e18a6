/*
 * config.h - which API server, and our identity: from kubeconfig files or from inside a pod.
 *
 * Looked for in this order, as kubectl does: a file that was named; the files of $KUBECONFIG; the
 * file .kube/config of the home folder; the service account of the pod that we run in. Several
 * files are merged as the Kubernetes documentation says ("Organizing Cluster Access Using
 * kubeconfig Files"): the first file that says something wins, and an entry is never put together
 * from two files.
 *
 * Call order: load, pass it to aw_kube_open (which copies nothing), deinit after the client.
 * Memory:     every text is a block of the allocator; secrets are wiped before they are freed.
 * Threads:    read-only after load.
 *
 * The trap: what the file asks for and we do not do (impersonation, a password, an auth-provider)
 * is refused. To ignore `as:` would be to act with more rights than the user meant to give.
 */
#ifndef AW_KUBE_CONFIG_H
#define AW_KUBE_CONFIG_H

#include "base/alloc.h"

#define AW_KUBE_FILES_MAX        16u                 /* of $KUBECONFIG */
#define AW_KUBE_CONFIG_BYTES_MAX ((size_t)4 << 20)   /* of one kubeconfig */
#define AW_KUBE_PEM_BYTES_MAX    ((size_t)512 << 10) /* of a certificate, decoded */
#define AW_KUBE_TOKEN_BYTES_MAX  ((size_t)32 << 10)
#define AW_KUBE_EXEC_ARGS_MAX    64u
#define AW_KUBE_EXEC_ENV_MAX     64u

/* Certificates or a key: either the PEM text itself or the file that has it. Both NULL: none. */
struct aw_kube_pem {
    char *bytes;
    size_t len;
    char *file; /* read anew for each connection, so that a rotated one is taken */
};

/* A program that prints a credential (client.authentication.k8s.io). */
struct aw_kube_exec {
    char *command; /* NULL: none */
    char *args[AW_KUBE_EXEC_ARGS_MAX + 1];
    char *env[AW_KUBE_EXEC_ENV_MAX + 1]; /* "NAME=value" */
    char *api_version;
    char *install_hint; /* NULL: none */
    uint32_t arg_count, env_count;
    bool cluster_info; /* it wants to know the cluster */
};

/* Zeroed is empty. */
struct aw_kube_config {
    char *source; /* for people: "context dev of /home/me/.kube/config" */
    char *server; /* "https://host:port", no slash at the end */
    char *ns;     /* of the context; never NULL */
    char *tls_server_name;
    char *proxy_url;
    struct aw_kube_pem ca;        /* none: the system's */
    struct aw_kube_pem cert, key; /* of the client */
    char *token;
    char *token_file; /* wins over `token`, as in client-go */
    struct aw_kube_exec exec;
    bool insecure; /* the server's certificate is not looked at */
    bool in_cluster;
    const struct aw_alloc *alloc;
};

/* Where to look. Everything may be NULL: not set. */
struct aw_kube_config_from {
    const char *path;    /* a file that was named: only this one, and it must be there */
    const char *context; /* NULL: current-context */
    const char *kubeconfig, *home;
    const char *service_host, *service_port;
    const char *service_folder; /* NULL: where kubelet mounts it */
};
/* Fills everything but path and context from the environment of the process. */
void aw_kube_config_environment(struct aw_kube_config_from *from);

/* AW_ERR_NOTFOUND: there is no configuration anywhere. AW_ERR_CONFIG: it is wrong, with its place.
 * AW_ERR_UNSUPPORTED, AW_ERR_FORMAT, AW_ERR_LIMIT, AW_ERR_NOMEM. On failure `config` is zeroed. No
 * diagnostic quotes a secret. */
AW_NODISCARD enum aw_err aw_kube_config_load(struct aw_kube_config *config,
                                             const struct aw_kube_config_from *from,
                                             const struct aw_alloc *alloc, struct aw_diag *diag);
/* One kubeconfig from bytes, for tests and for files that came from elsewhere. */
AW_NODISCARD enum aw_err aw_kube_config_parse(struct aw_kube_config *config, const char *name,
                                              const char *bytes, size_t len, const char *context,
                                              const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_kube_config_deinit(struct aw_kube_config *config); /* a zeroed one is a no-op */

/* A copy of `len` bytes with a NUL, or NULL; and the end of one that may have been secret. */
char *aw__kube_keep(const struct aw_alloc *alloc, const char *bytes, size_t len);
void aw__kube_wipe(const struct aw_alloc *alloc, char *text);

#endif
