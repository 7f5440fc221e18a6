/*
 * doctor.h - is everything there that a controller needs? One finding each, with what to do.
 *
 * Only asks: reads, and SelfSubjectAccessReviews, which change nothing.
 *
 * Memory:  findings are handed to a function of the caller, one after the other.
 * Threads: those of the client.
 *
 * The trap: a right that was granted a moment ago may take a second to be seen.
 */
#ifndef AW_KUBE_DOCTOR_H
#define AW_KUBE_DOCTOR_H

#include "kube/client.h"
#include "kube/discovery.h"

#define AW_KUBE_FINDING_MAX   256u
#define AW_KUBE_DOCTOR_ASK_US 10000000 /* for one question */
#define AW_KUBE_MINOR_OLDEST  20       /* the oldest Kubernetes 1.x that is tested */

enum aw_kube_verdict {
    AW_KUBE_FINE,
    AW_KUBE_NOTE, /* works, and there is something to know */
    AW_KUBE_LACK, /* something will not work */
};

struct aw_kube_finding {
    const char *check; /* "server", "rights", "metrics", "resize", "eviction", "others" */
    enum aw_kube_verdict verdict;
    char text[AW_KUBE_FINDING_MAX]; /* what was found */
    char fix[AW_KUBE_FINDING_MAX];  /* what to do; "": nothing */
};

struct aw_kube_doctor {
    const char *ns;         /* to work in; NULL: all namespaces */
    const char *own_ns;     /* where the controllers run, and their Leases are; NULL: as `ns` */
    const char *prometheus; /* "monitoring/prometheus:9090", through the server; NULL: not asked */
    bool acts;              /* rights to act are needed too, not only those to look */
    void (*found)(void *ctx, const struct aw_kube_finding *finding);
    void *ctx;
};

struct aw_kube_health {
    uint32_t fine, notes, lacks;
};

/* AW_OK when all questions could be asked, whatever the answers. AW_ERR_UNAVAILABLE, _CONFIG, ...:
 * the server cannot be spoken with, and the first finding has said so. */
AW_NODISCARD enum aw_err aw_kube_examine(struct aw_kube *kube, const struct aw_kube_doctor *doctor,
                                         struct aw_kube_health *ret_health, struct aw_diag *diag);

const char *aw_kube_verdict_name(enum aw_kube_verdict verdict); /* "ok", "note", "lack" */

#endif
