/*
 * vpa_internal.h - what the files of the VPA recommender share.
 *
 * vpa.c makes rounds and writes, vpa_object.c takes samples in and recommends, vpa_memory.c keeps
 * what was learned; vpa_spec.h and vpa_usage.h are what it reads and says.
 */
#ifndef AW_CONTROLLER_VPA_INTERNAL_H
#define AW_CONTROLLER_VPA_INTERNAL_H

#include "controller/vpa.h"
#include "controller/vpa_spec.h"

/* What is known of one container name of an object. */
struct aw__vpa_part {
    char name[AW_CLUSTER_NAME_MAX];
    int64_t floor[AW_VPA_RESOURCE_COUNT]; /* that stood in the status; -1: none */
    int64_t since_us;                     /* of the first sample of this process; 0: none yet */
    bool remembered;                      /* there was a past, in the file */
    uint64_t round;                       /* when a pod last had it */
    struct aw_vpa_aggregate aggregate;
};

/* One running container. */
struct aw__vpa_track {
    uint64_t id; /* of the pod's uid and the container's name */
    uint64_t round;
    int64_t oom_us; /* of the last kill that was seen */
    struct aw_vpa_container container;
};

/* One VerticalPodAutoscaler that names us. */
struct aw__vpa {
    char key[AW_KUBE_KEY_MAX];
    uint64_t hash;
    bool gone;
    char ns[AW_CLUSTER_NAME_MAX];
    char api_version[AW_KUBE_NAME_MAX], kind[AW_CLUSTER_NAME_MAX], name[AW_KUBE_NAME_MAX];
    struct aw__cluster_view_target target; /* its texts are those above */
    char why[AW__VPA_WHY_MAX];             /* it cannot be used; "": it can */
    struct aw__vpa_part **part;            /* [part_max] */
    uint32_t part_count, part_max;
    struct aw__vpa_track *track; /* [track_max], in the order of pods */
    uint32_t track_count, track_max;
    uint32_t pods;    /* of this round that have not ended */
    int64_t wrote_us; /* monotonic; AW_NEVER: never */
    char version_from[AW_KUBE_VERSION_MAX], version_to[AW_KUBE_VERSION_MAX]; /* of our last write */
    bool provided;
};

struct aw__vpas {
    struct aw__vpas_config config;
    struct aw_vpa_config logic;
    const struct aw_alloc *alloc;
    struct aw_kube_informer *informer; /* NULL: the server has no such kind, as far as we know */
    bool has_status;                   /* the kind has a status of its own */
    struct aw__vpa **object;           /* [objects_max]; NULL: free */
    struct aw__cluster_view_target **target; /* [objects_max] */
    uint32_t used;                           /* places that have ever been used */
    struct aw__usage usage;                  /* zeroed: not needed yet */
    json_t *remembered;                      /* NULL: nothing is */
    int64_t ask_us, round_us;                /* monotonic: next; 0: now */
    int64_t newest_us;                       /* of all samples, by the clock of their source */
    uint32_t cursor;                         /* where the next round begins to write */
    struct aw__vpas_counts counts;
    struct aw_diag told[3];          /* trouble that the log has; "": none */
    struct aw__vpa_advices was, now; /* that are being worked on */
    struct aw__vpa_rules rules;
};

/* --- vpa_object.c ----------------------------------------------------------------------------- */

/* Takes in what the pods of this round used. `v->was` is what the status says. */
void aw__vpa_sample(struct aw__vpas *v, struct aw__vpa *object);
/* Makes `v->now` from what is known, `v->was` and `v->rules`. Whether a container is known for less
 * than a day. */
bool aw__vpa_recommend(struct aw__vpas *v, const struct aw__vpa *object);
void aw__vpa_forget(struct aw__vpas *v, struct aw__vpa *object); /* its parts and tracks */

/* --- vpa_memory.c ----------------------------------------------------------------------------- */

void aw__vpa_memory_read(struct aw__vpas *v, const char *path);
/* Fills the aggregate of a new part; false: nothing is known of it. */
bool aw__vpa_memory_give(const struct aw__vpas *v, const struct aw__vpa *object,
                         struct aw__vpa_part *part);
/* Lets go of what was remembered of objects that are gone, or have taken it; one that has no pods
 * now may have some again. */
void aw__vpa_memory_tidy(struct aw__vpas *v);

#endif
