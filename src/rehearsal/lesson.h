/*
 * lesson.h - how a kind of policy learns between episodes, whatever it learns by.
 *
 * A lesson is all that a workload can be learned from: copies of it, its episodes, a shared model,
 * the policy in force; and the result. A kind of policy (policy/policy.h) has a teacher, one file
 * with a table of functions, which its line in AW_POLICY_MAP names; a kind that learns nothing has
 * aw_no_teacher.
 *
 * Call order: fill in a lesson, learn, take the result, whether it failed or not.
 * Memory:     a lesson borrows everything but a policy to try, which is the caller's to take.
 * Threads:    one lesson, one thread; lessons of different workloads know nothing of each other.
 *
 * The trap: a teacher changes the policy in force only where lesson->tries is false.
 */
#ifndef AW_REHEARSAL_LESSON_H
#define AW_REHEARSAL_LESSON_H

#include "policy/policy.h"
#include "policy/pretrained.h"
#include "rehearsal/learner.h"
#include "rehearsal/rehearse.h"
#include "safety/canary.h"
#include "safety/lifecycle.h"

/* Of the lesson's seed: what policies are judged by is chance that none was found with. */
#define AW_LESSON_ESTIMATE_STREAM 1u

/* What learning has come to, for people. NAN: it has no such figure, or none yet. */
struct aw_learned {
    uint32_t rounds;       /* that gave a policy, since the pilot was made */
    uint32_t copies;       /* of the workload, that the last one learned on */
    double copy_error;     /* of a capacity rule's copies: mean of |ln| (aw_rehearsal_error) */
    double value;          /* of the rule that was found, lower is better (aw_rehearsal_value) */
    double critic_loss;    /* of a network (struct aw_learner_stats) */
    double imitation_loss; /* the same */
};

struct aw_lesson {
    const char *workload;             /* its name */
    struct aw_rehearse_config copies; /* what they are made from */
    const struct aw_state_config *state;
    const struct aw_action_config *action;
    struct aw_objective objective;
    double lambda, lambda_now; /* weight of the SLO: in every score, and in force */
    double level;              /* of the interval that the step to ONLINE asks */
    const struct aw_learner_settings *settings;
    const struct aw_fallback_settings *fallback;
    struct aw_fallback_task task;          /* as the workload stands */
    const struct aw_lifecycle_ring *lived; /* scores of the fallback's own episodes */
    bool offline;                          /* the fallback acts */
    bool looks; /* only to choose anew among what others have lived; needs no trial */
    bool tries; /* what is found goes on trial; else it takes the place of what is in force */
    const struct aw_canary_memory *canary; /* which policies are not tried again soon, */
    uint32_t rows;                         /* after so many steps */
    struct aw_learner *learner;            /* episodes of the store; NULL: none were asked for */
    const struct aw_pretrained *model;     /* shared; NULL: none */
    struct aw_policy policy;               /* in force, and what it was made for */
    const struct aw_policy_task *policy_task;
    uint64_t seed;
    const struct aw_alloc *alloc;

    /* in: the present one; out: after the lesson */
    struct aw_policy_origin origin;              /* of the policy in force */
    double better_mean, better_low, better_high; /* than the fallback, per episode; NAN: unknown */
    bool anew; /* the workload has changed since the last search */
    struct aw_learned learned;

    /* a policy to try; empty: none */
    struct aw_policy trial;
    struct aw_policy_origin trial_origin;
    struct aw_canary_candidate candidate;
};

struct aw_teacher_ops {
    bool learns;
    bool from_record; /* in rounds from the workload's episodes, while the stage says so; else by
                       * searches, which come more and more rarely, and explore nothing */
    bool least_cost;  /* it knows no objective but the least cost */
    bool looks;       /* while a workload is young it only chooses anew among what others lived */
    bool same_shape;  /* a shared model's policy is taken unchanged: it must have the same shape */
    bool shares;      /* its networks serve all workloads of a category (policy/peers.h) */

    /* Whether copies of the workload are made at all. */
    bool (*copies)(const struct aw_learner_settings *settings, bool has_model);
    /* Takes long. AW_ERR_NODATA is no failure: too little was seen yet. After any failure the
     * policy is as it was. */
    enum aw_err (*learn)(struct aw_lesson *lesson, struct aw_diag *diag);
};
extern const struct aw_teacher_ops aw_capacity_teacher, aw_network_teacher, aw_peers_teacher,
    aw_no_teacher;

const struct aw_teacher_ops *aw_teacher_ops_of(uint32_t kind); /* enum aw_policy_kind */

/* A slot that says yes: copies also tell people what would come of a plan. */
bool aw_teacher_copies(const struct aw_learner_settings *settings, bool has_model);

/* --- for teachers -----------------------------------------------------------------------------
 */

/* What a new policy would earn over the one in force, by the same copies and the same chance: into
 * lesson->candidate. */
void aw_lesson_predict(struct aw_lesson *lesson, const struct aw_rehearsed *known,
                       const struct aw_rehearsed *found, uint32_t copies);
/* By how much the policy that did `by_agent` on the copies, as the workload was, is better than the
 * fallback: into the lesson. `cores` of a replica are its size. */
AW_NODISCARD enum aw_err aw_lesson_estimate(struct aw_lesson *lesson,
                                            struct aw_rehearsal *rehearsal,
                                            const struct aw_rehearsed *by_agent, double cores,
                                            uint64_t seed, struct aw_diag *diag);
/* What `actor` does on copies. */
AW_NODISCARD enum aw_err aw_lesson_play(const struct aw_lesson *lesson,
                                        struct aw_rehearsal *rehearsal,
                                        const struct aw_actnet *actor, uint64_t seed,
                                        struct aw_rehearsed *ret);
/* The shared model's policy for what is known of the workload now. */
AW_NODISCARD enum aw_err aw_lesson_specialise(const struct aw_lesson *lesson,
                                              struct aw_actnet *actor,
                                              struct aw_policy_origin *ret_origin,
                                              struct aw_diag *diag);
struct aw_rehearse_network aw_lesson_network(const struct aw_lesson *lesson,
                                             const struct aw_actnet *actor);

#endif
