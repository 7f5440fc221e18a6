/*
 * admission.h - the webhook that gives new pods their recommended size.
 *
 * An HTTPS server to which the API server sends every pod that is about to be created; it answers
 * with a patch of the requests and limits of one container, or with nothing. It never denies a pod:
 * it allows unchanged what it does not understand (admission_review.h, which is pure). Its
 * certificates are its own (certs.h): made at the start, renewed before they end, and announced in
 * the caBundle of the MutatingWebhookConfiguration.
 *
 * Call order: new; in the owner's loop step, then aw_kube_wait until `due`; free before the client.
 * Memory:     informers (bounded), tables of what they know (bounded), bodies of requests up
 *             to AW_ADMISSION_BODIES_MAX together.
 * Threads:    those of the client for new, step and free; the answers are given by threads of the
 *             server, which read the tables under a lock and never wait for the API server.
 *
 * Whether the server can resize pods in place does not matter: a pod that a scale-out, a rollout or
 * a node failure makes begins with the size of its template, and under mode Initial it keeps it.
 * With `when_needed` the objects decide: none of them has a size for new pods, and there is no
 * listener, no caBundle and no Lease.
 *
 * Any number of processes may serve: each has an authority of its own, and the caBundle holds them
 * all. All of them renew the same Lease, by which the updater sees that a webhook serves.
 *
 * The trap: a webhook that sizes pods of its own Deployment can lock itself out. failurePolicy is
 * Ignore, and the manifests leave out its own namespace.
 */
#ifndef AW_CONTROLLER_ADMISSION_H
#define AW_CONTROLLER_ADMISSION_H

#include "kube/client.h"
#include "kube/discovery.h"

#define AW_ADMISSION_PORT            9443u
#define AW_ADMISSION_PATH            "/mutate"
#define AW_ADMISSION_CONNECTIONS_MAX 1024u
#define AW_ADMISSION_THREADS         2u
#define AW_ADMISSION_IDLE_S          10u                /* without a byte, then closed */
#define AW_ADMISSION_BODY_MAX        ((size_t)3 << 20)  /* what the API server takes of an object */
#define AW_ADMISSION_BODIES_MAX      ((size_t)64 << 20) /* all bodies under way */
#define AW_ADMISSION_OBJECTS_MAX     8192u
#define AW_ADMISSION_LEASE           "aware-admission"
#define AW_ADMISSION_LEASE_RENEW_US  10000000
#define AW_ADMISSION_LEASE_ALIVE_US  60000000 /* renewed within this: a webhook serves */
#define AW_ADMISSION_BUNDLE_CHECK_US 60000000 /* whether the caBundle still has our authority */

struct aw_admission_config {
    const char *service, *ns; /* the Service it is reached by, e.g. "aware" in "aware-system" */
    const char *webhook;      /* name of the MutatingWebhookConfiguration; NULL: none is patched */
    const char *lease_ns, *lease_name; /* NULL: none is renewed */
    const char *state_dir;             /* of certificates and keys; made if it is not there, 0700 */
    const char *address;               /* NULL: all; "127.0.0.1" in tests */
    const char *watch_ns;              /* only objects of this namespace; NULL: all */
    const char *instance;              /* names this process in the Lease; NULL: "aware" */
    const struct aw_clock *clock;      /* NULL: the real one */
    uint16_t port;                     /* 0: one that is free, see aw_admission_port */
    uint32_t objects_max;              /* 0: AW_ADMISSION_OBJECTS_MAX */
    bool when_needed; /* listens only once an object has a size for new pods; then it stays */
};

/* What it has done so far; for metrics. */
struct aw_admission_counts {
    uint64_t reviews;   /* answered */
    uint64_t patched;   /* of them, with a size */
    uint64_t unread;    /* of them, not understood */
    uint64_t refused;   /* requests that were no review: path, method, too large, too many */
    uint64_t renewed;   /* certificates made since the start */
    int64_t slowest_us; /* the longest that an answer took, from the last byte on */
    int64_t total_us;   /* of all answers */
};

struct aw_admission;

/* Makes or reads the certificates and listens, unless it waits to be needed. All texts of `config`
 * are borrowed until free.
 * AW_ERR_CONFIG: no service, or a folder that other users can read; AW_ERR_IO; AW_ERR_NOMEM;
 * AW_ERR_UNAVAILABLE: the port is taken; AW_ERR_UNSUPPORTED: a libmicrohttpd without TLS. */
AW_NODISCARD enum aw_err aw_admission_new(struct aw_admission **ret_admission, struct aw_kube *kube,
                                          const struct aw_kube_server *server,
                                          const struct aw_admission_config *config,
                                          const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_admission_free(struct aw_admission *admission); /* NULL is a no-op */

/* Does what is due: informers, certificates, caBundle, Lease. An error is for the log: it tries
 * again by itself. AW_ERR_INTERRUPTED: the client was told to stop. */
AW_NODISCARD enum aw_err aw_admission_step(struct aw_admission *admission, struct aw_diag *diag);
int64_t aw_admission_due(const struct aw_admission *admission);
uint16_t aw_admission_port(const struct aw_admission *admission); /* 0: not needed so far */
bool aw_admission_synced(const struct aw_admission *admission);
struct aw_admission_counts aw_admission_counts(struct aw_admission *admission);

#endif
