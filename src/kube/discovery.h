/*
 * discovery.h - what this server is and has, found out by asking it.
 *
 * Versions differ: evictions are policy/v1 from 1.22 on and v1beta1 before, autoscaling/v2 came
 * with 1.23, pods/resize with 1.33. The number of a version says little (gates, distributions), so
 * the lists of groups and resources decide.
 *
 * Memory:  plain structs. Threads: those of the client.
 *
 * The trap: an aggregated API that is down (metrics.k8s.io, often) is still in the list of groups.
 * Having it listed is no promise that it answers.
 */
#ifndef AW_KUBE_DISCOVERY_H
#define AW_KUBE_DISCOVERY_H

#include "kube/client.h"

#define AW_KUBE_WORD_MAX 64u /* "v1beta1", "v1.20.2+k3s1"; with the NUL, what is longer is cut */

struct aw_kube_server {
    int major, minor;               /* 1, 33 */
    char release[AW_KUBE_WORD_MAX]; /* "v1.33.1" */
    /* The best version that the server has of a group that we know; "": it has none. */
    char autoscaling[AW_KUBE_WORD_MAX]; /* v2, v2beta2, v1 */
    char policy[AW_KUBE_WORD_MAX];      /* of PodDisruptionBudgets: v1, v1beta1 */
    char events[AW_KUBE_WORD_MAX];      /* events.k8s.io: v1; "": core events */
    char leases[AW_KUBE_WORD_MAX];      /* coordination.k8s.io: v1 */
    char metrics[AW_KUBE_WORD_MAX];     /* metrics.k8s.io: v1, v1beta1 */
    char vpa[AW_KUBE_WORD_MAX];         /* autoscaling.k8s.io: v1, v1beta2 */
    char keda[AW_KUBE_WORD_MAX];        /* keda.sh: v1alpha1 */
    char eviction[AW_KUBE_WORD_MAX];    /* of pods/eviction: v1, v1beta1 */
    bool pod_resize;                    /* pods/resize is there */
};

/* Three requests: version, groups, core resources. */
AW_NODISCARD enum aw_err aw_kube_discover(struct aw_kube *kube, struct aw_kube_server *ret_server,
                                          struct aw_diag *diag);

/* The address of a kind given by name: "apps/v1", "Deployment". */
struct aw_kube_found {
    struct aw_kube_kind kind; /* its texts are below */
    bool scalable;            /* has a scale subresource */
    char group[AW_KUBE_NAME_MAX], version[AW_KUBE_WORD_MAX], plural[AW_KUBE_NAME_MAX],
        name[AW_KUBE_NAME_MAX];
};
/* `ret_found` must not be moved: its kind points into it. AW_ERR_NOTFOUND: the server has no such
 * kind; AW_ERR_CONFIG: not an apiVersion. */
AW_NODISCARD enum aw_err aw_kube_find_kind(struct aw_kube *kube, const char *api_version,
                                           const char *kind, struct aw_kube_found *ret_found,
                                           struct aw_diag *diag);

/* The decoders, for tests. Each fills its part of `server` and fails with AW_ERR_FORMAT. */
AW_NODISCARD enum aw_err aw_kube_read_version(const json_t *body, struct aw_kube_server *server,
                                              struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_kube_read_groups(const json_t *body, struct aw_kube_server *server,
                                             struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_kube_read_core(const json_t *body, struct aw_kube_server *server,
                                           struct aw_diag *diag);

#endif
