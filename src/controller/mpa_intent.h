/*
 * mpa_intent.h - what the updater and the admission webhook read of an object: its target, how far
 * we may go, and what the recommender last wrote into its status.
 *
 * The status is all that passes between recommender and actors. So they can be separate processes
 * with separate rights, and a person who reads the object sees everything that they know.
 *
 * Memory:  a projection (kube/project.h): a record without pointers, in the caller's buffer.
 * Threads: pure functions of their arguments.
 *
 * The trap: an object that says no mode is Off. On a cluster nothing is changed unasked.
 */
#ifndef AW_CONTROLLER_MPA_INTENT_H
#define AW_CONTROLLER_MPA_INTENT_H

#include "kube/project.h"

#define AW__MPA_INTENT_ABLE "AbleToScale" /* the one condition that the updater writes */
#define AW__MPA_INTENT_CONFLICT \
    "ConflictingAutoscaler" /* its reason where another autoscaler acts too */

/* What has an amount: everything that is done to CPU is done to memory. */
enum aw__resource {
    AW__CPU,    /* millicores */
    AW__MEMORY, /* bytes */
    AW__RESOURCES,
};

enum aw__mpa_intent_mode {
    AW__MPA_INTENT_OFF,      /* recommend only; so is a mode we do not know */
    AW__MPA_INTENT_INITIAL,  /* new pods are sized, nothing else */
    AW__MPA_INTENT_AUTO,     /* resized in place where the server can, else evicted */
    AW__MPA_INTENT_RECREATE, /* always evicted for a new size */
    AW__MPA_INTENT_IN_PLACE, /* in place, and evicted where the node cannot */
    AW__MPA_INTENT_APPROVE,  /* as AUTO: what no person approved of is never recommended */
    AW__MPA_INTENT_MODES,
};

struct aw__mpa_intent {
    struct aw_kube_span target_version, target_kind, target_name;
    struct aw_kube_span mode_text;
    int64_t replicas_min, replicas_max; /* 1 and 0 where they are not said */
    int64_t generation, generation_seen;
    /* The recommendation. */
    int64_t replicas;                     /* -1: none */
    int64_t cpu_millicores, memory_bytes; /* -1: none */
    int64_t time_us;                      /* wall; 0: there is no recommendation */
    struct aw_kube_span container;        /* that is sized; "": the first */
    struct aw_kube_span decision;
    /* Conditions. */
    bool frozen;
    struct aw_kube_span able, able_reason; /* AbleToScale: "True", "False"; "": never said */
};

extern const struct aw_kube_field aw__mpa_intent_fields[];

/* For aw_kube_informer_config.project; `ctx` is not used. AW_ERR_FORMAT: an amount that cannot be
 * read. */
AW_NODISCARD enum aw_err aw__mpa_intent_project(void *ctx, const json_t *object, void *buf,
                                                size_t size, size_t *ret_len);
enum aw__mpa_intent_mode aw__mpa_intent_mode(const struct aw__mpa_intent *intent);
/* Whether the updater acts on objects of this mode, and whether new pods are sized. */
bool aw__mpa_intent_updates(enum aw__mpa_intent_mode mode);
bool aw__mpa_intent_admits(enum aw__mpa_intent_mode mode);
/* The kind of the target, and its group: "Deployment" and "apps" where nothing is said. Versions
 * are left out: apps/v1 and apps/v1beta1 name the same thing. */
const char *aw__mpa_intent_target_kind(const struct aw__mpa_intent *intent);
/* "namespace/group/Kind/name" of anything that is scaled; returns `buf`. `api_version` "" is
 * apps/v1. */
#define AW__TARGET_MAX (4u * AW_KUBE_NAME_MAX)
const char *aw__target_key(const char *ns, const char *api_version, const char *kind,
                           const char *name, char *buf, size_t size);
/* The same for the target of an intent in `ns`. */
const char *aw__mpa_intent_target(const struct aw__mpa_intent *intent, const char *ns, char *buf,
                                  size_t size);

#endif
