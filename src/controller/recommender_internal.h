/*
 * recommender_internal.h - what the files of the recommender share.
 *
 * recommender.c makes rounds, recommender_object.c takes objects over, recommender_status.c says
 * what is so and writes it, recommender_memory.c keeps what was learned.
 */
#ifndef AW_CONTROLLER_RECOMMENDER_INTERNAL_H
#define AW_CONTROLLER_RECOMMENDER_INTERNAL_H

#include "base/hash_table.h"
#include "cluster/time_scale.h"
#include "controller/cluster_view.h"
#include "controller/recommender.h"
#include "controller/status.h"
#include "controller/vpa.h"
#include "kube/events.h"
#include "profile/profile.h"

#define AW__NOBODY      UINT32_MAX
#define AW__LIMITED_US  300000000 /* a limit that was met so lately still holds */
#define AW__PENDING_US  60000000  /* a pod that waits so long for a node is worth a word */
#define AW__SLO_HALF    960.0     /* steps after which one counts half: four hours of 15 s */
#define AW__NODES_US    600000000 /* between two looks at nodes */
#define AW__DEADLINE_US 1000000   /* of a call of the backend, which waits for nothing */

/* One MultidimPodAutoscaler. */
struct aw__object {
    char uid[AW_KUBE_UID_MAX];
    uint64_t hash;
    bool gone;   /* the object is no longer there */
    bool reborn; /* another one of its name is */
    bool dirty;  /* its settings have not been read yet */
    bool valid;  /* they were, and can be taken */
    bool fresh;  /* nothing has been read of its status yet */
    int64_t created_us;
    int64_t generation; /* that was read last */

    char ns[AW_CLUSTER_NAME_MAX], name[AW_CLUSTER_NAME_MAX]; /* of a valid one */
    char api_version[AW_CLUSTER_NAME_MAX], kind[AW_CLUSTER_NAME_MAX];
    char target_name[AW_CLUSTER_NAME_MAX];
    struct aw__cluster_view_target target; /* of a valid one; its texts are those above */
    struct aw_pilot_config *config;        /* that waits to be taken over; NULL: none does */
    struct aw_kubecluster_place place;
    uint32_t mode;                  /* enum aw_guard_mode */
    uint32_t slot;                  /* of the loop; AW__NOBODY: none */
    char why[AW_MPA_MESSAGE_MAX];   /* it is not valid, or cannot be decided for; "": it can */
    char why_word[AW_MPA_WORD_MAX]; /* the same in one word */

    double slo_steps, slo_met; /* faded */
    int64_t limited_us;        /* when a limit was last met; AW_NEVER: never */
    uint64_t steps;            /* seen with figures */
    void *written;             /* the status, packed (status.h); NULL: nothing is known */
    size_t written_bytes;      /* of it */
    int64_t wrote_us;          /* monotonic; AW_NEVER: never */
    /* Versions before and after our last write: the copy may not have heard of it yet. */
    char version_from[AW_KUBE_VERSION_MAX], version_to[AW_KUBE_VERSION_MAX];
    bool owed;    /* it should be written */
    bool pursued; /* the recommendation is not carried out yet, and may be */
    char key[];   /* "namespace/name" */
};

struct aw__remembered; /* what a file has of a pilot (recommender_memory.c) */

/* Where an object is. */
struct aw__place {
    uint64_t hash; /* of its key */
    uint32_t object;
};

struct aw_recommender {
    struct aw_recommender_config config;
    struct aw__cluster_view *scene;
    struct aw__vpas *vpas;
    struct aw_kubecluster *cluster;
    struct aw_time_scale pace; /* between the two, where the loop's time runs faster */
    struct aw_loop *loop;
    struct aw_kube_recorder recorder;
    struct aw_recommender_counts counts;

    struct aw__object **object;              /* [objects_max]; NULL: the place is free */
    struct aw__cluster_view_target **target; /* [objects_max] of those that are valid */
    uint32_t *slot;                          /* [objects_max] object of a slot of the loop */
    struct aw_hash_table places;             /* of struct aw__place, by key */
    uint32_t used;                           /* places that have ever been used */
    uint32_t live;                           /* that are taken */
    uint32_t overflow;                       /* objects for which there was no place */
    uint32_t cursor;                         /* where the next round begins to write */

    struct aw_mpa_status scratch, was; /* that is being made, and as it was written */
    uint32_t events_left;              /* of this round */
    int64_t write_until_us;            /* monotonic: of this round; the first is always made */
    struct aw__remembered *remembered; /* NULL: nothing is */
    bool leads, begun, ails;
    bool store_ails;
    int64_t tick_us; /* monotonic: of the next round; 0: at once */
    int64_t tidy_us;
    int64_t nodes_us;                  /* monotonic: of the next look at nodes */
    struct aw__cluster_view_node node; /* the largest */
    const struct aw_alloc *alloc;
};

/* --- recommender_object.c --------------------------------------------------------------------- */

/* For the informer: an object came, changed or went. */
void aw__object_changed(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                        const struct aw_kube_item *after);
/* Before targets are looked up: reads changed objects, frees those that are gone. */
void aw__objects_read(struct aw_recommender *r);
/* After pods were found: makes pilots for objects that can be decided for. */
void aw__objects_take(struct aw_recommender *r);
/* Reads statuses from the informers' copies again: for a new leader. */
void aw__objects_reread(struct aw_recommender *r);
/* All settings are read again: something has changed that they depend on. */
void aw__objects_renew(struct aw_recommender *r);
void aw__objects_free(struct aw_recommender *r);
/* The status that was written last. Without memory to keep it, it is read again from the copies. */
void aw__object_status(const struct aw__object *object, struct aw_mpa_status *ret);
void aw__object_keep(struct aw_recommender *r, struct aw__object *object,
                     const struct aw_mpa_status *status);

/* --- recommender_status.c --------------------------------------------------------------------- */

/* After a tick: counts the result of each step. */
void aw__statuses_count(struct aw_recommender *r);
/* Writes what is to be written, as far as this round may. AW_ERR_INTERRUPTED: told to stop. */
AW_NODISCARD enum aw_err aw__statuses_write(struct aw_recommender *r, struct aw_diag *diag);

/* --- recommender_memory.c --------------------------------------------------------------------- */

/* A missing file is nothing to remember; nor is one that cannot be read, which is logged.
 */
void aw__memory_read(struct aw_recommender *r, const char *path);
/* Gives the pilot in `slot` back what it knew, if anything. AW_ERR_NOMEM: it knows nothing. */
AW_NODISCARD enum aw_err aw__memory_give(struct aw_recommender *r, uint32_t slot,
                                         struct aw_diag *diag);
void aw__memory_free(struct aw_recommender *r);

#endif
