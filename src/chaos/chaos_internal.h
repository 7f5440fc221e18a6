/* chaos_internal.h - what the files of chaos share: a world, and what was seen of it. */
#ifndef AW_CHAOS_CHAOS_INTERNAL_H
#define AW_CHAOS_CHAOS_INTERNAL_H

#include "base/disk_sim.h"
#include "base/rng.h"
#include "chaos/chaos.h"
#include "cluster/sim.h"
#include "control/agent_exchange.h"
#include "desk/desk.h"

#define AW__CHAOS_ORDERS_MAX     512u
#define AW__CHAOS_CHANGES_MAX    8192u
#define AW__CHAOS_PAST           16u /* readings that may come again */
#define AW__CHAOS_PODS_MAX       AW_CLUSTER_PODS_MAX
#define AW__CHAOS_FOLDER         "/audit"
#define AW__CHAOS_UNDO_FREEZE_US INT64_C(300000000)
#define AW__CHAOS_PIN_US         INT64_C(240000000)
#define AW__CHAOS_PROPOSAL_US    INT64_C(600000000)
#define AW__CHAOS_EPOCH_US       INT64_C(1767225600000000) /* 2026-01-01 */

/* --- memory ----------------------------------------------------------------------------------- */

/* Counts bytes, and fails on request. */
struct aw__chaos_heap {
    struct aw_alloc alloc;
    size_t bytes, bytes_max;
    uint64_t count;
    uint64_t fail_at; /* that allocation, by count, fails; 0: none */
    bool failed;
};
void aw__chaos_heap_init(struct aw__chaos_heap *heap);

/* --- what was seen of one workload ------------------------------------------------------------ */

/* One tick, as the loop was shown it. Figures that cannot be believed are NAN. */
struct aw__chaos_seen {
    int64_t t_us; /* time as a stopwatch would have it: a clock that goes back adds nothing */
    uint32_t tick;
    bool answered, rollout, forgotten;
    double cores, bytes; /* used in all; of the largest replica */
    double arrivals, oldest_age_s;
    uint32_t kills, restarts, ready;
    int64_t wanted[AW_RESOURCES];
    int64_t after[AW_RESOURCES]; /* once this tick was over */
};

/* A change that the loop made, or saw from outside. */
struct aw__chaos_change {
    int64_t t_us;
    uint32_t tick;
    bool replicas, size, forgotten;
};

/* The watchdog's promise, counted with fingers. */
struct aw__chaos_promise {
    bool missed[AW_CHAOS_STEPS_MAX]; /* of the agent's steps that count */
    uint32_t count, acted;
    double fallback_steps, fallback_missed;
    bool held; /* the fallback acted for a trip in the tick before */
    uint32_t actor;
};

enum aw__chaos_spite {
    AW__SPITE_NONE,
    AW__SPITE_SHRINK, /* the least of everything */
    AW__SPITE_GROW,
    AW__SPITE_FLIP, /* from the least to the most in every tick */
    AW__SPITE_NAN,
    AW__SPITE_HUGE,
    AW__SPITE_BLIND, /* shrinks when figures go missing */
    AW__SPITE_COUNT
};

#define AW__CHAOS_POLICIES_MAX 64u /* ids that are remembered of one workload */

struct aw__chaos_workload {
    struct aw_pilot_config pilot;
    struct aw_fallback_task task;
    struct aw_app app;
    struct aw_load load;
    uint32_t spite;                      /* enum aw__chaos_spite */
    bool poisoned;                       /* its policy is not a number in this tick */
    struct aw_capacity_rule_values rule; /* its own numbers, while they are bent */
    float base[AW_ACTION_DIM], reach[AW_ACTION_DIM];

    /* the cluster's side */
    int64_t real[AW_RESOURCES]; /* truly wanted, whatever samples showed */
    uint64_t version, known_version;
    struct aw_sample past[AW__CHAOS_PAST];
    struct aw_pod past_pods[AW__CHAOS_PAST][AW__CHAOS_PODS_MAX];
    uint64_t past_version[AW__CHAOS_PAST];
    uint32_t past_count;
    struct aw_sample shown;
    struct aw_pod shown_pods[AW__CHAOS_PODS_MAX];
    int64_t frozen_figures_us; /* METRICS_STALE: since then; AW_NEVER: not */

    /* what was seen */
    struct aw__chaos_seen *seen; /* [steps] */
    uint32_t seen_count;
    struct aw__chaos_change *change; /* [AW__CHAOS_CHANGES_MAX] */
    uint32_t change_count;
    int64_t belief[AW_RESOURCES]; /* wanted, as the loop knows it; 0: it does not */
    int64_t memory_before;
    int64_t last_now_us, t_us;
    bool sized;
    bool met; /* the cluster has answered since the last start */
    struct aw__chaos_promise promise, promise_saved;
    bool sized_saved;

    /* what people handed in, as far as it was acknowledged */
    uint64_t policy_order; /* the last order about its policies; 0: none */
    uint64_t policy_proposed[AW__CHAOS_POLICIES_MAX];
    uint32_t policy_next; /* of a ring */

    /* of this tick */
    uint32_t observed, decided, applied;
    int64_t
        asked_us; /* when it was observed: a slow answer is judged by the time of the question */
    int64_t answer_us; /* that its policy took */
    struct aw_decision decision;
    bool has_decision;
};

/* An agent at the other end of a wire. */
struct aw__chaos_agent {
    uint64_t ticket; /* 0: it is not there */
    uint64_t asked;  /* id of the last question that it fetched */
    double manners;  /* share of its ticks in which it does as agreed */
    uint32_t mood;
    bool answered; /* it has done what it will in this tick */
    bool said;     /* a good answer of it was handed in, the first and in time */
    float action[AW_ACTION_DIM];
};

/* An order that was acknowledged. */
struct aw__chaos_order {
    uint64_t id;
    struct aw_order order; /* as it was given */
    int64_t until_us;      /* of what it froze; AW_NEVER: it froze nothing */
    int64_t pin_until_us;  /* of what it pins */
    uint32_t workload;     /* that it pins; UINT32_MAX: none */
    bool ended, pin_over;
    bool tried, excused; /* it was; the last time a rail that lasts gave a reason */
    uint32_t target_set; /* what it asks for */
    int64_t target[AW_RESOURCES];
};

/* What a decision changed, to undo it. */
struct aw__chaos_deed {
    uint64_t id;
    uint32_t workload, set;
    int64_t from[AW_RESOURCES];
};
#define AW__CHAOS_DEEDS_MAX 1024u

struct aw__chaos {
    struct aw_chaos_config config;
    struct aw_chaos_result *result;
    struct aw_rng rng; /* of what happens */
    struct aw__chaos_heap heap;
    uint32_t count, steps, tick;
    int64_t step_us;
    double fault_rate[AW_CHAOS_FAULT_COUNT]; /* per tick; 0: never */
    double fault_length[AW_CHAOS_FAULT_COUNT];
    /* per fault and workload: on until this tick */
    uint32_t until[AW_CHAOS_FAULT_COUNT][AW_CHAOS_WORKLOADS_MAX];
    struct aw__chaos_workload *workload; /* [count] */

    struct aw_sim *sim;
    struct aw_cluster cluster; /* the simulator's */
    struct aw_sim_settings sim_settings;
    struct aw_store store, memory_store;
    struct aw_disk_sim disk;
    struct aw_loop_hooks hooks;
    const struct aw_loop_hooks *inner_desk;
    struct aw_desk *desk;
    struct aw_loop *loop;
    bool down;        /* could not start yet */
    bool fresh;       /* has not ticked since it started */
    uint32_t dead_in; /* calls of any kind until kill -9 strikes; 0: never */
    bool dead;        /* whatever it still does has no effect */

    /* clocks: now is the simulator's, and these */
    int64_t ahead_us;   /* that slow calls took in this tick */
    int64_t jump_us;    /* of our clock */
    int64_t figures_us; /* of the clock that figures come from */
    int64_t now_max_us;
    struct aw_clock stopwatch; /* that agents are timed by */
    int64_t stopwatch_us;
    uint32_t deciding; /* whose is asked */

    /* agents of other processes; NULL: none */
    struct aw_agent_exchange *exchange;
    struct aw_clock wire; /* that their deadlines are measured by */
    int64_t wire_us, wire_asked_us;
    struct aw_rng agent_rng; /* of what they do */
    struct aw__chaos_agent agent[AW_CHAOS_WORKLOADS_MAX];

    /* the last save */
    unsigned char *save;
    size_t save_bytes;
    uint32_t save_tick;
    uint32_t save_every;

    /* people */
    struct aw__chaos_order order[AW__CHAOS_ORDERS_MAX];
    uint32_t order_count;
    bool maybe[AW_ORDER_COUNT]; /* such an order was refused by the disk: it may be there all the
                                   same, when the power went in that moment */
    struct aw__chaos_deed deed[AW__CHAOS_DEEDS_MAX];
    uint32_t deed_count;

    /* of this tick */
    enum aw_err recorded; /* what the desk said */
    bool record_asked;
    bool kept;                  /* the store took what had happened */
    struct aw_disk_sim durable; /* what a power cut would leave now */
    bool has_durable;
    bool applying; /* a plan is looked at; its proposal has been counted already */
    bool dry;      /* promises are put to the test with what was proposed, and nothing is broken */
};

/* --- shared ----------------------------------------------------------------------------------- */

static inline bool aw__chaos_on(const struct aw__chaos *world, uint32_t fault, uint32_t w)
{
    return world->until[fault][w] > world->tick;
}
/* On for any workload: faults without one use the first. */
static inline bool aw__chaos_any(const struct aw__chaos *world, uint32_t fault)
{
    return aw__chaos_on(world, fault, 0);
}
/* A call from one part to another: kill -9 may strike here. */
void aw__chaos_seam(struct aw__chaos *world);
bool aw__chaos_chance(struct aw__chaos *world, double share);
int64_t aw__chaos_now_us(const struct aw__chaos *world);
void aw__chaos_say(struct aw__chaos *world, const char *fmt, ...) AW_PRINTF(2, 3);
void aw__chaos_digest(struct aw__chaos *world, const void *bytes, size_t size);

/* A promise was put to the test; where it does not hold the run has failed, the first time counts.
 * `w` UINT32_MAX: it is about no workload. Returns `holds`. */
bool aw__chaos_must(struct aw__chaos *world, bool holds, enum aw_invariant invariant, uint32_t w,
                    const char *fmt, ...) AW_PRINTF(5, 6);

/* chaos_world.c */
AW_NODISCARD enum aw_err aw__chaos_world_make(struct aw__chaos *world, struct aw_diag *diag);
void aw__chaos_world_free(struct aw__chaos *world);

/* chaos_life.c: started, saved, killed */
void aw__chaos_start(struct aw__chaos *world);
void aw__chaos_save(struct aw__chaos *world);
void aw__chaos_end(struct aw__chaos *world, bool kill, bool power);

/* chaos_faults.c */
void aw__chaos_faults_roll(struct aw__chaos *world);
void aw__chaos_spite(struct aw__chaos *world);
void aw__chaos_spite_over(struct aw__chaos *world);
/* A stopwatch by which agents take as long to answer as they are made to. */
void aw__chaos_stopwatch(struct aw__chaos *world);

/* chaos_external.c: external agents, in a world that has them */
AW_NODISCARD enum aw_err aw__chaos_external_make(struct aw__chaos *world, struct aw_diag *diag);
void aw__chaos_external_free(struct aw__chaos *world);
void aw__chaos_external_tick(struct aw__chaos *world); /* before a tick: agents come and go */
void aw__chaos_external_check(struct aw__chaos *world, uint32_t w,
                              const struct aw_decision *decision);

/* chaos_cluster.c, chaos_store.c */
struct aw_cluster aw__chaos_cluster(struct aw__chaos *world);
void aw__chaos_store_wrap(struct aw__chaos *world);
/* Changes the workload behind the loop's back. Zeros leave an amount unchanged. */
void aw__chaos_interfere(struct aw__chaos *world, uint32_t w, const int64_t *amount);

/* chaos_people.c */
void aw__chaos_people(struct aw__chaos *world);
uint32_t aw__chaos_frozen(const struct aw__chaos *world, uint32_t w, int64_t now_us);
bool aw__chaos_order_stands(const struct aw__chaos *world, uint64_t id, uint32_t kind, uint32_t w);
void aw__chaos_people_check(struct aw__chaos *world, uint32_t w,
                            const struct aw_decision *decision);

/* chaos_policy.c: a person hands in a policy, between ticks, or takes one back */
void aw__chaos_policy(struct aw__chaos *world);
void aw__chaos_policy_check(struct aw__chaos *world, uint32_t w,
                            const struct aw_decision *decision);

/* chaos_check.c: before the cluster carries out a plan */
void aw__chaos_check_apply(struct aw__chaos *world, uint32_t w, const struct aw_plan *plan);
/* Counts what would have been broken, had the proposal gone to the cluster as it was. */
void aw__chaos_check_proposal(struct aw__chaos *world, uint32_t w, const struct aw_plan *plan);
/* chaos_seen.c: what was shown, and what was decided on it */
void aw__chaos_note_shown(struct aw__chaos *world, uint32_t w, const struct aw_sample *sample);
void aw__chaos_note_decided(struct aw__chaos *world, uint32_t w,
                            const struct aw_decision *decision);
void aw__chaos_note_applied(struct aw__chaos *world, uint32_t w, const struct aw_plan *plan);
void aw__chaos_note_restart(struct aw__chaos *world, bool state_kept);
void aw__chaos_check_decision(struct aw__chaos *world, uint32_t w,
                              const struct aw_decision *decision);
/* chaos_log.c: what the disk holds */
void aw__chaos_check_recorded(struct aw__chaos *world, uint32_t w, const struct aw_plan *plan);
void aw__chaos_check_log(struct aw__chaos *world);
void aw__chaos_log_forget(struct aw__chaos *world);

#endif
