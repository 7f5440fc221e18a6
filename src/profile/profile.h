/*
 * profile.h - what users write: the autoscalers of workloads, and a simulated world for them.
 *
 * Four kinds of apiVersion autoscaling.aware.dev/v1alpha1, in YAML or JSON:
 *
 *   MultidimPodAutoscaler  a target, its SLO, its bounds, and how it is learned (struct aw_profile)
 *   SimulatedApplication   what runs as the target of that name on the simulated cluster
 *   SimulatedCluster       the nodes of the simulated cluster; at most one
 *   Tenant                 what several workloads together are promised of a shared cluster
 *
 * One table (aw_profile_kinds, see schema.h) describes every field; docs/mechanisms/profile.md says
 * what they mean together.
 *
 * Call order: aw_profile_set_init, add files or trees, aw_profile_set_check, use, deinit.
 * Memory:     profiles are plain structs without pointers, copied freely. A set grows in blocks of
 *             its allocator, up to the maxima below.
 * Threads:    single owner; read-only after the check.
 *
 * Whatever is wrong becomes a finding with file, line, column and path, all of them and not only
 * the first. An object with an error is not in the set, and the set's check says AW_ERR_CONFIG.
 *
 * The trap: a profile that says no updateMode has update_mode AW_UPDATE_OFF and update_mode_given
 * false. Off only recommends; a simulation, where nothing can break, may take it as Auto.
 */
#ifndef AW_PROFILE_PROFILE_H
#define AW_PROFILE_PROFILE_H

#include <aware/cluster.h>

#include "base/promtext.h"
#include "base/tree.h"
#include "cluster/local.h"
#include "cluster/sim.h"
#include "control/pilot.h"
#include "fallback/fallback.h"
#include "safety/guard.h"
#include "task/bounds.h"
#include "task/objective.h"
#include "tenancy/arbiter.h"
#include "workload/app.h"
#include "workload/scenario.h"

#define AW_PROFILE_API_VERSION "autoscaling.aware.dev/v1alpha1"

#define AW_PROFILES_MAX        AW_WORKLOADS_MAX
#define AW_PROFILE_APPS_MAX    AW_SIM_WORKLOADS_MAX
#define AW_PROFILE_TENANTS_MAX AW_WORKLOADS_MAX
#define AW_PROFILE_FILES_MAX   65536u /* of one directory */
#define AW_PROFILE_FAULTS_MAX  32u    /* of a simulated cluster */
#define AW_PROFILE_KEY_MAX     128u   /* bytes of "namespace/name", with its NUL */

/* Where an object was written. */
struct aw_profile_place {
    char file[AW_DIAG_FILE_MAX];
    uint32_t line, column;
};

enum aw_update_mode {
    AW_UPDATE_OFF,                  /* recommend only */
    AW_UPDATE_INITIAL,              /* size new replicas; change no running one */
    AW_UPDATE_AUTO,                 /* act, by the means that disturb least */
    AW_UPDATE_RECREATE,             /* act; a new size restarts replicas */
    AW_UPDATE_IN_PLACE_OR_RECREATE, /* act; resize in place, restart where that is impossible */
    AW_UPDATE_APPROVE,              /* recommend; act on what a person has approved of */
};

/* Where a workload learns again after it drifted (AWARE Alg. 1). */
enum aw_retraining { AW_RETRAINING_ONLINE, AW_RETRAINING_OFFLINE };

/* What the agent sees and does (task/state.h, action.h). */
enum aw_profile_task { AW_PROFILE_TASK_DEFAULT, AW_PROFILE_TASK_PAPER };

/* spec.tenancy of an autoscaler, or all of a Tenant. */
struct aw_profile_terms {
    struct aw_tenancy_terms terms;
    bool given;
};

/* One Tenant. */
struct aw_profile_tenant {
    char name[AW_CLUSTER_NAME_MAX];
    char namespace[AW_CLUSTER_NAME_MAX]; /* any: tenants are of the cluster */
    struct aw_profile_place place;
    struct aw_profile_terms tenancy;
};

/* One MultidimPodAutoscaler, with every default filled in. */
struct aw_profile {
    char name[AW_CLUSTER_NAME_MAX];
    char namespace[AW_CLUSTER_NAME_MAX];
    struct aw_profile_place place;

    /* spec.scaleTargetRef */
    char target_api_version[AW_CLUSTER_NAME_MAX];
    char target_kind[AW_CLUSTER_NAME_MAX];
    char target_name[AW_CLUSTER_NAME_MAX];

    /* What it comes to, as far as it can be said here: a pilot's settings but for those that
     * aw_pilot_config_of makes of what follows. Without pointers. */
    struct aw_pilot_config pilot;

    int64_t slo_window_us;               /* over which the budget is counted */
    uint32_t bound_line[AW_RESOURCES];   /* where a size is bounded; 0: nowhere */
    bool requests_only;                  /* limits stay as they are */
    char container[AW_CLUSTER_NAME_MAX]; /* the one that is sized; "*": whichever there is */

    /* spec.policy, spec.recommenders */
    uint32_t update_mode; /* enum aw_update_mode */
    bool update_mode_given;
    char recommender[AW_CLUSTER_NAME_MAX]; /* "": ours */

    /* spec.tenancy */
    struct aw_profile_terms tenancy;  /* within its tenant, or of itself where it names none */
    char tenant[AW_CLUSTER_NAME_MAX]; /* "": it is its own */

    /* spec.learning */
    uint32_t retraining; /* enum aw_retraining; high stakes are in it */
    bool high_stakes;
    uint32_t task; /* enum aw_profile_task */
    uint64_t seed; /* of the learner's chance; workloads of one seed still differ by name */
    char model
        [AW_MODEL_SHELF_PATH_MAX]; /* of a network: "shipped", "none" or a path (pretrained.h) */
};

/* "namespace/name". Returns `buf`. */
const char *aw_profile_key(const struct aw_profile *profile, char *buf, size_t size);
/* What the guard lets pass; `simulated` tells what a profile that says no updateMode means. */
enum aw_guard_mode aw_profile_mode(const struct aw_profile *profile, bool simulated);
/* Whether there is an SLO to learn for; without one the fallback always acts. */
bool aw_profile_has_slo(const struct aw_profile *profile);

/* AW_ERR_CONFIG, with file and line: `cluster` ("the local cluster") cannot set a resource that is
 * bounded; `sets` is what it can (aw_cluster_sets). */
AW_NODISCARD enum aw_err aw_profile_actuated(const struct aw_profile *profile, uint32_t sets,
                                             const char *cluster, struct aw_diag *diag);

/* The same application as processes of this machine, for the local cluster. */
struct aw_profile_local {
    char command[512]; /* words with spaces between, "{port}" in one; "": aware-workload */
    char user[64];     /* whom the command runs as where we are root */
    char health[128];  /* path of the health check */
    char path[128];    /* that requests ask for */
    char metrics[128]; /* path of a replica's own metrics; "": those of aware-workload, if it is */
    char histogram[AW_PROMTEXT_NAME_MAX]; /* there, of how long requests took */
    uint32_t port;                        /* where clients connect; 0: any */
};

/* One SimulatedApplication. */
struct aw_profile_app {
    char name[AW_CLUSTER_NAME_MAX]; /* of the target that it stands for */
    char namespace[AW_CLUSTER_NAME_MAX];
    struct aw_profile_place place;
    struct aw_app app;
    char load[AW_CONF_TEXT_MAX]; /* for aw_load_parse; a file's path is made absolute or relative
                                  * to the working directory */
    double load_cores; /* a load that names no rate keeps so many cores busy on average; 0: as is */
    uint64_t load_seed;
    struct aw_schedule scenarios; /* from the beginning of the run */
    uint32_t replicas;            /* to begin with; 0: for the load */
    int64_t cpu_millicores;       /* 0: one core */
    int64_t memory_bytes;         /* 0: for the application */
    char pool[48];                /* "SEED:INDEX" of the application; "": it was written out */
    struct aw_profile_local local;
};

enum aw_profile_fault_kind {
    AW_PROFILE_FAULT_NODE,
    AW_PROFILE_FAULT_METRICS,
    AW_PROFILE_FAULT_API,
};
struct aw_profile_fault {
    uint32_t kind; /* enum aw_profile_fault_kind */
    uint32_t node; /* NODE: which */
    int64_t at_us, duration_us;
};

/* The SimulatedCluster, or its defaults. */
struct aw_profile_cluster {
    char name[AW_CLUSTER_NAME_MAX]; /* "": none was written */
    struct aw_profile_place place;
    struct aw_sim_settings sim;
    struct aw_local_settings local; /* where the applications are processes of this machine */
    uint64_t seed;
    struct aw_arbiter_settings arbiter; /* between tenants, where there are any */
    uint32_t fault_count;
    struct aw_profile_fault fault[AW_PROFILE_FAULTS_MAX]; /* by time */
};

/* --- what is wrong, and what is odd -----------------------------------------------------------
 */

struct aw_profile_finding {
    enum aw_err err;     /* AW_OK: a warning */
    const char *warning; /* its name, "unbounded"; NULL for an error */
    struct aw_diag diag; /* file, line, column, path, what was expected and what was found */
};

/* `take` is called with every finding, and may be NULL; the counts are kept either way. */
struct aw_profile_report {
    void (*take)(void *ctx, const struct aw_profile_finding *finding);
    void *ctx;
    uint32_t error_count, warning_count;
};

/* --- a set ------------------------------------------------------------------------------------
 */

struct aw_profile_set {
    uint32_t profile_count, profile_capacity;
    uint32_t app_count, app_capacity;
    uint32_t tenant_count, tenant_capacity;
    struct aw_profile *profiles;       /* [profile_count], in the order they were read */
    struct aw_profile_app *apps;       /* [app_count] */
    struct aw_profile_tenant *tenants; /* [tenant_count] */
    struct aw_profile_cluster cluster;
    const struct aw_alloc *alloc;
};

/* What one file or tree held. */
struct aw_profile_counts {
    uint32_t profiles, apps, clusters, tenants; /* without errors or with */
    uint32_t errors, warnings;
};

void aw_profile_set_init(struct aw_profile_set *set, const struct aw_alloc *alloc);
void aw_profile_set_deinit(struct aw_profile_set *set); /* a zeroed one is a no-op */

/* Reads a file, standard input ("-"), or of a directory every *.yaml, *.yml and *.json that is not
 * hidden, by name. What is wrong in it, unreadable files included, goes to the report (errors
 * counted there); the result is an error only where going on makes no sense: AW_ERR_NOMEM, or
 * AW_ERR_LIMIT for too many objects. `each` (may be NULL) is called after every file. */
AW_NODISCARD enum aw_err aw_profile_set_read(struct aw_profile_set *set, const char *path,
                                             struct aw_profile_report *report,
                                             void (*each)(void *ctx, const char *file,
                                                          const struct aw_profile_counts *counts),
                                             void *ctx, struct aw_diag *diag);
/* The same from a tree with any number of documents; `ret_counts` may be NULL. */
AW_NODISCARD enum aw_err aw_profile_set_add(struct aw_profile_set *set, const struct aw_tree *tree,
                                            struct aw_profile_report *report,
                                            struct aw_profile_counts *ret_counts,
                                            struct aw_diag *diag);
/* What only shows when all are there: two objects of one name, two autoscalers of one target, a
 * start outside the bounds. AW_ERR_CONFIG when the report has any error, these or earlier ones,
 * with how many in `diag`. */
AW_NODISCARD enum aw_err aw_profile_set_check(struct aw_profile_set *set,
                                              struct aw_profile_report *report,
                                              struct aw_diag *diag);

/* Where no SimulatedApplication was written: a generated one for the target of each profile, by its
 * name, that can meet the SLO if any can, under a daily load of two cores. Otherwise nothing. */
AW_NODISCARD enum aw_err aw_profile_set_stand_in(struct aw_profile_set *set, struct aw_diag *diag);

/* The application that stands for a profile's target; NULL: none was written. */
const struct aw_profile_app *aw_profile_set_app(const struct aw_profile_set *set,
                                                const struct aw_profile *profile);

/* Whether any object speaks of tenancy: without, everybody gets what it asks for. */
bool aw_profile_set_shared(const struct aw_profile_set *set);
/* The index of a profile's Tenant in the set; AW_ARBITER_ALONE: it names none. */
uint32_t aw_profile_set_tenant(const struct aw_profile_set *set, const struct aw_profile *profile);

/* What a user wrote, as the settings of a pilot. `simulated`: a profile that says no updateMode
 * acts. */
void aw_pilot_config_of(struct aw_pilot_config *config, const struct aw_profile *profile,
                        bool simulated);

#endif
