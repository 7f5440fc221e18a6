/* loop_internal.h - what the files of a loop share: its insides. */
#ifndef AW_CONTROL_LOOP_INTERNAL_H
#define AW_CONTROL_LOOP_INTERNAL_H

#include "control/learning.h"
#include "control/loop.h"

#define AW__LOOP_NOBODY UINT32_MAX
/* Of a slot in a state: nobody has it. */
#define AW__LOOP_EMPTY UINT64_MAX
/* Of `key`: it does not learn. */
#define AW__LOOP_NOT_DUE UINT64_MAX

struct aw__loop_slot {
    struct aw_pilot *pilot; /* NULL: nobody has it */
    uint64_t since;         /* tick from which on it could have learned; 0: it could not */
    uint64_t serial;        /* of all that the loop has had; from 1 on */
    uint64_t key;           /* whose turn it is: the lowest first */
    uint32_t pods_max;      /* of `pods` */
    uint32_t next_free;     /* while nobody has it */
    bool fresh;             /* just added: the store may hold episodes under its name */
    bool acts;              /* in this tick */
    uint32_t round;         /* that is under way, of `rounds`; AW__LOOP_NOBODY: none is */
};

/* A round that is under way. */
struct aw__loop_round {
    bool taken;
    uint32_t place;    /* of `learning` */
    uint32_t workload; /* AW__LOOP_NOBODY: nobody waits for it any more */
    uint64_t due;      /* tick in which its result is taken; 0: when it is ready */
};

/* Tenants of the cluster. Arrays are [max] of the loop where nothing else is said. */
struct aw__loop_tenancy {
    struct aw_arbiter arbiter;
    int64_t capacity[AW_POOLS]; /* 0: not known, and nobody arbitrates */
    int64_t last_us;            /* AW_NEVER: nothing was arbitrated yet */
    uint32_t tenant_count;
    struct aw_loop_place *place;
    struct aw_arbiter_since *since;
    struct aw_loop_name *name;        /* [tenant_count] */
    struct aw_arbiter_tenant *tenant; /* [tenant_count] */
    /* of the last tick */
    uint32_t *slot; /* of each that is claimed for */
    struct aw_arbiter_workload *workload;
    struct aw_arbiter_grant *grant;
    struct aw_arbiter_standing *standing; /* [tenant_count + max] */
    struct aw_arbiter_case of;
    /* moments of all: decisions are told when all have been arbitrated */
    unsigned char *moments; /* [max][moment_each]; NULL: nobody asks */
    size_t *moment_bytes;
    size_t moment_each;
};

struct aw__others {
    float *figures; /* [max][AW_OTHERS_FIGURES] */
    float *global;  /* [max][AW_OTHERS_DIM] */
    uint8_t *here;  /* [max] */
    uint64_t *who;  /* [max] serial of who was there in the tick before; 0: nobody */
    uint64_t epoch;
    uint32_t members;
    bool has_reward;
    float reward;
};

struct aw_loop {
    struct aw_cluster cluster;
    struct aw_store *store;
    uint32_t count, max; /* slots that have been used, and that there are */
    uint32_t live;       /* that are taken */
    uint64_t serial;     /* of the last one that was added */
    uint32_t first_free; /* AW__LOOP_NOBODY: all that have been used are taken */
    int64_t deadline_us;
    const struct aw_loop_hooks *hooks;  /* NULL: none */
    const struct aw_clock *clock;       /* NULL: none */
    struct aw_agent_exchange *exchange; /* NULL: none */
    struct aw__others others;           /* where there is an exchange */
    bool steadfast;
    bool resume_due; /* the store has not been asked yet where it ends */
    bool fresh;      /* some slot is */
    void *moment;    /* scratch; NULL: nobody asks */
    size_t moment_bytes;
    struct aw__loop_slot *slot; /* [max] */
    struct aw_pilot_pods pods;  /* that they saw in this tick */
    uint32_t pods_wanted;       /* by all of them, at the most */
    struct aw_threads pool;
    struct aw_loop_counts counts;

    /* rounds beside the ticks */
    enum aw_loop_learning mode;
    uint32_t later; /* ticks */
    uint32_t round_max;
    struct aw__loop_round *rounds; /* [round_max]; NULL: learning is done at once */
    struct aw__learning learning;

    /* those that learn in this tick */
    uint32_t learn_max;
    uint64_t *lowest; /* [learn_max] keys, a heap with the highest on top */
    uint32_t *due;    /* [learn_max] slots */
    uint32_t due_count;
    enum aw_err *err;                 /* [learn_max] of the due ones */
    struct aw__loop_tenancy *tenancy; /* NULL: everybody gets what it asks for */
    const struct aw_alloc *alloc;
};

/* --- loop_learn.c ----------------------------------------------------------------------------- */

AW_NODISCARD enum aw_err aw__loop_learning_make(struct aw_loop *loop,
                                                const struct aw_loop_config *config,
                                                struct aw_diag *diag);
/* At the end of a tick: rounds that are over, and those whose turn it is. */
AW_NODISCARD enum aw_err aw__loop_learn(struct aw_loop *loop, struct aw_diag *diag);
/* Nobody waits for the round of this slot any more; it runs to its end. */
void aw__loop_round_leave(struct aw_loop *loop, struct aw__loop_slot *slot);
/* A round begins beside the ticks. `due` as a round of another life had it; 0: of this one. */
void aw__loop_round_put(struct aw_loop *loop, uint32_t workload, struct aw_pilot_round *made,
                        uint64_t due);
/* The store is asked again in the next tick: full, busy or gone may pass. */
bool aw__loop_may_pass(const struct aw_loop *loop, enum aw_err err);

/* --- loop_tenancy.c --------------------------------------------------------------------------- */

/* On failure free the loop. */
/* others.c */
AW_NODISCARD enum aw_err aw__others_make(struct aw_loop *loop);
void aw__others_free(struct aw_loop *loop);
/* Of all workloads, after they have observed. */
void aw__others_gather(struct aw_loop *loop);
void aw__others_view(const struct aw_loop *loop, uint32_t index, struct aw_others_view *ret_view);
/* pilot_external.c: what others may see of it. False: no step has ended: no reward. */
bool aw__pilot_figures(const struct aw_pilot *pilot, float ret_figures[AW_OTHERS_FIGURES],
                       float *ret_reward);

AW_NODISCARD enum aw_err aw__loop_tenancy_make(struct aw_loop *loop,
                                               const struct aw_loop_tenancy *of,
                                               uint32_t place_count, struct aw_diag *diag);
void aw__loop_tenancy_free(struct aw_loop *loop); /* none is a no-op */
/* Room for the moments of all, `each` of them. */
AW_NODISCARD enum aw_err aw__loop_tenancy_moments(struct aw_loop *loop, size_t each,
                                                  struct aw_diag *diag);
bool aw__loop_arbitrates(const struct aw_loop *loop);
/* All have decided: what they ask for is projected onto what there is. */
void aw__loop_arbitrate(struct aw_loop *loop);

#endif
