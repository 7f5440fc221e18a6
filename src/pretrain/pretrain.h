/*
 * pretrain.h - one policy with context, taught on a pool of applications, and tried on applications
 * that it has never seen.
 *
 * Every application of the pool has an environment and a load of its own. The fallback lives
 * through some episodes first: they are what the encoder reads, and are learned from too. Then, in
 * rounds, the policy lives an episode in every application, with noise, and is updated. Now and
 * then it is judged without noise on applications for validation, known by their fallback's
 * episodes alone; the best is kept.
 *
 * Call order: config_init, new; round and check until done, mark after each check; recall for the
 *             best; try whenever; save_state, and load_state right after new; free.
 * Memory:     everything at new, up to half a megabyte for each application (its transitions).
 * Threads:    single owner; inside, `threads` of them live episodes side by side, for which the
 *             allocator must be safe everywhere. Their number changes nothing of the result.
 *
 * Several processes may learn one policy together (struct aw_pretrain_team): each has its share of
 * the applications, gradients are averaged at every update, and so the weights are the same
 * everywhere at any time. All call the same functions in the same order. Only the process of rank 0
 * has the applications for validation; it sends the others what it found.
 */
#ifndef AW_PRETRAIN_PRETRAIN_H
#define AW_PRETRAIN_PRETRAIN_H

#include <aware/env.h>

#include "fallback/fallback.h"
#include "meta/context.h"
#include "meta/model_card.h"
#include "workload/app.h"
#include "workload/load.h"

#define AW_PRETRAIN_APPS_MAX    4096u
#define AW_PRETRAIN_ENV_PAPER   "autoscale-paper-v0"
#define AW_PRETRAIN_ACTIONS_MAX 16u

/* Which applications, each with its load. */
struct aw_pretrain_pool {
    uint64_t seed;
    uint32_t first, count;
    /* The load of application `app`, as aw_load_parse reads it. */
    void (*load)(void *ctx, uint32_t app, char *buf, size_t size);
    void *ctx;
    /* NULL: the generator's. Otherwise [first + count] of a file, known by their names, and `seed`
     * is where the chance of their episodes starts: no other pool of the run may have the same. */
    const struct aw_app *apps;
    const char *file; /* its name, for people; both borrowed */
};

/* By what an application of a pool, `index` from `first` on, is known: "1:17", or its name in the
 * file. Returns `buf`. */
const char *aw_pretrain_app_name(const struct aw_pretrain_pool *pool, uint32_t index, char *buf,
                                 size_t size);

/* Processes that learn together; zeroed: one alone. */
struct aw_pretrain_team {
    uint32_t rank, size;
    aw_context_reduce *reduce; /* the mean over all processes, in place */
    enum aw_err (*broadcast)(void *ctx, void *bytes, size_t count); /* of rank 0 to all */
    void *ctx;
};

struct aw_pretrain_config {
    struct aw_context_settings context;
    char env[AW_ENV_NAME_MAX];
    const char *pairs[AW_MODEL_CARD_PAIRS_MAX]; /* options of the environment; borrowed */
    uint32_t pair_count;
    struct aw_pretrain_pool learn, check;
    /* NULL, or what makes the load of an application itself, in place of a pool's `load` and with
     * that pool's `ctx`: where a trace was read once for all of them. As `load`, it may be called
     * from several threads at once. */
    enum aw_err (*load_make)(void *ctx, uint32_t app, const struct aw_alloc *alloc,
                             struct aw_load *ret_load, struct aw_diag *diag);
    struct aw_fallback_settings fallback;
    uint32_t fallback_episodes; /* by which an application is known .. */
    uint32_t fallback_learned;  /* .. and so many of them, the last, are learned from too */
    bool refresh; /* the fallback lives one more in every round, of the applications learned from */
    uint32_t rounds;      /* episodes of each application */
    uint32_t updates;     /* per application and round */
    uint32_t check_every; /* rounds */
    uint32_t check_episodes;
    double noise, noise_end;           /* deviation on actions, first and last of .. */
    uint32_t noise_rounds;             /* 0: all rounds */
    double noise_jitter;               /* share of it that is drawn anew at each step */
    double reward_shift, reward_scale; /* of what is learned: (r + shift) * scale, where r is .. */
    double reward_miss;                /* .. less by this for a step that missed its SLO */
    /* A teacher for each application that is learned from: the constant action that a search of so
     * many tries finds best over so many episodes. 0 tries: none. */
    uint32_t teacher_tries, teacher_episodes;
    bool own_episodes; /* the policy's own episodes join the bundles */
    /* To adapt what was learned elsewhere: a model (NULL: begin with nothing), whose encoder is
     * frozen, and for how many rounds its actor is too. */
    const char *model;
    uint32_t actor_rests;
    /* A loaded actor does not learn from its critics: episodes without noise search for what to add
     * to its actions, at most this far from the best at a time. 0: it learns. */
    double offset_search;
    double fade;    /* share of the rounds, the last, in which rates of learning fall to 0 */
    bool slo_boost; /* what a policy asks for is raised while the SLO is missed (slo_boost.h) .. */
    bool oom_boost; /* .. and memory after replicas were killed for want of it */
    bool foresight; /* the state also has a forecast and a table's word (load_forecast.h) */
    uint64_t seed;
    uint32_t threads; /* that live episodes; 0: one */
    struct aw_pretrain_team team;
    /* NULL, or called during aw_pretrain_meet with `done` of `total` applications; false stops it:
     * AW_ERR_INTERRUPTED. */
    bool (*progress)(void *ctx, uint32_t done, uint32_t total);
    void *progress_ctx;
};
/* What was found to be good; see docs/mechanisms/pretrain.md. The pools are the caller's. */
void aw_pretrain_config_init(struct aw_pretrain_config *config);
/* Over those, what AWARE has: its state, actions and encoder; an application is known by the best
 * 20 episodes of its fallback. How it is taught stays. */
void aw_pretrain_config_paper(struct aw_pretrain_config *config);
extern const struct aw_conf_field aw_pretrain_fields[]; /* of struct aw_pretrain_config */

/* What episodes were worth. */
struct aw_pretrain_score {
    double reward;      /* of the environment, per episode */
    double paper;       /* the paper's, per episode */
    double violations;  /* share of steps */
    double cost;        /* $ per hour */
    double cpu, memory; /* utilisation */
};

/* Adds `share` times every figure. */
void aw_pretrain_score_add(struct aw_pretrain_score *to, const struct aw_pretrain_score *score,
                           double share);

/* Episodes of a whole run, by actor, of the applications learned from and those for validation. */
struct aw_pretrain_episodes {
    double policy;   /* with noise, that are learned from */
    double fallback; /* by which applications are known, and learned from too */
    double search;   /* for teachers */
    double checks;   /* without noise, which choose the checkpoint */
};
struct aw_pretrain_episodes aw_pretrain_episodes(const struct aw_pretrain_config *config);

struct aw_pretrain; /* opaque */

AW_NODISCARD enum aw_err aw_pretrain_new(const struct aw_pretrain_config *config,
                                         const struct aw_alloc *alloc,
                                         struct aw_pretrain **ret_pretrain, struct aw_diag *diag);
void aw_pretrain_free(struct aw_pretrain *pretrain); /* NULL is a no-op */

/* One round. `ret_learned`: means of its episodes, with noise. */
AW_NODISCARD enum aw_err aw_pretrain_round(struct aw_pretrain *pretrain,
                                           struct aw_pretrain_score *ret_learned,
                                           struct aw_diag *diag);
uint32_t aw_pretrain_rounds(const struct aw_pretrain *pretrain); /* done */
/* The policy without noise on the applications for validation, known by their fallback's episodes;
 * `each` [check.count] may be NULL. */
AW_NODISCARD enum aw_err aw_pretrain_check(struct aw_pretrain *pretrain,
                                           struct aw_pretrain_score *ret_mean,
                                           struct aw_pretrain_score *each, struct aw_diag *diag);
/* The same of one application that is learned from; a try does not change anything. */
AW_NODISCARD enum aw_err aw_pretrain_try(struct aw_pretrain *pretrain, uint32_t app,
                                         struct aw_pretrain_score *ret, struct aw_diag *diag);
/* A policy that takes the application for the one with this embedding. */
AW_NODISCARD enum aw_err aw_pretrain_try_as(struct aw_pretrain *pretrain, uint32_t app,
                                            const float *embedding, struct aw_pretrain_score *ret,
                                            struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_pretrain_try_fallback(struct aw_pretrain *pretrain, uint32_t app,
                                                  struct aw_pretrain_score *ret,
                                                  struct aw_diag *diag);
/* One action [act_dim] all the time: what an agent must beat to be worth its while. */
AW_NODISCARD enum aw_err aw_pretrain_try_constant(struct aw_pretrain *pretrain, uint32_t app,
                                                  const float *action,
                                                  struct aw_pretrain_score *ret,
                                                  struct aw_diag *diag);
/* The fallback on the same episodes. */
AW_NODISCARD enum aw_err aw_pretrain_check_fallback(struct aw_pretrain *pretrain,
                                                    struct aw_pretrain_score *ret_mean,
                                                    struct aw_pretrain_score *each,
                                                    struct aw_diag *diag);
struct aw_context *aw_pretrain_context(struct aw_pretrain *pretrain);
const struct aw_pretrain_config *aw_pretrain_config(const struct aw_pretrain *pretrain);

/* Meets every application: the fallback's episodes and the search for teachers. A round, a check
 * and a try do it first where it is not done. */
AW_NODISCARD enum aw_err aw_pretrain_meet(struct aw_pretrain *pretrain, struct aw_diag *diag);

/* The best check so far. */
struct aw_pretrain_best {
    struct aw_pretrain_score score;
    double worth;   /* of the score */
    uint32_t round; /* after which it was; 0: none yet */
    uint32_t since; /* checks marked after it */
};
/* Remembers a check: true where it is the best so far, and the weights are kept. */
bool aw_pretrain_mark(struct aw_pretrain *pretrain, const struct aw_pretrain_score *score);
const struct aw_pretrain_best *aw_pretrain_best(const struct aw_pretrain *pretrain);
/* The weights of the best check are put in place; without one, nothing changes. */
void aw_pretrain_recall(struct aw_pretrain *pretrain);

/* The embeddings [learn.count][embedding] of all applications that are learned from, in their
 * order, whichever process has them. */
AW_NODISCARD enum aw_err aw_pretrain_embeddings(struct aw_pretrain *pretrain, float *ret,
                                                struct aw_diag *diag);

/* Those that were learned from, with their embeddings; the caller deinits it. In a team all call
 * it. */
struct aw_known_apps;
AW_NODISCARD enum aw_err aw_pretrain_known(struct aw_pretrain *pretrain, struct aw_known_apps *ret,
                                           struct aw_diag *diag);
/* Fills in what a workload loses at first, and how many episodes it takes to adapt, over its
 * similarity to the nearest of `known`: the model at `path`, which is this one, lives so many
 * episodes in each application for validation. The loss for an application unlike all known ones is
 * measured by treating each as known ones that are less and less like it. Three applications are
 * the fewest that a line with an error can be drawn through; with fewer nothing is filled in.
 */
AW_NODISCARD enum aw_err aw_pretrain_predict(struct aw_pretrain *pretrain, const char *path,
                                             uint32_t episodes, struct aw_known_apps *known,
                                             struct aw_diag *diag);

/* The present model, with the applications it knows, how it was taught as metadata that
 * aw_pretrain_model_read understands, and metadata of the caller's. `known` NULL: the applications
 * that were learned from. In a team all call it, and rank 0 writes. */
AW_NODISCARD enum aw_err aw_pretrain_model_save(struct aw_pretrain *pretrain, const char *path,
                                                const struct aw_known_apps *known,
                                                const char *const *meta, size_t meta_pairs,
                                                struct aw_diag *diag);
/* How a model was taught: what an application has to be shown with, or is adapted to with. The
 * pools are left out. */
struct aw_pretrain_model {
    struct aw_pretrain_config config; /* its pairs and its model point into `card` */
    struct aw_model_card card;
};
/* AW_ERR_FORMAT: damaged, or not of this program's pretraining. `ret` must not be moved. */
AW_NODISCARD enum aw_err aw_pretrain_model_read(const char *path, struct aw_pretrain_model *ret,
                                                const struct aw_alloc *alloc, struct aw_diag *diag);
/* Over what a model was taught with, what one application is adapted to with: the encoder stays as
 * it is, the actor waits until the critics know the application, and explores little. */
void aw_pretrain_config_adapt(struct aw_pretrain_config *config);

/* Everything, after any round: what is loaded goes on as if it had never stopped. In a team each
 * process has a file of its own. load_state wants a run that was made with the same configuration
 * (threads may differ) and has not begun: AW_ERR_FORMAT, with what differs, and nothing has
 * changed.
 */
AW_NODISCARD enum aw_err aw_pretrain_save_state(struct aw_pretrain *pretrain, const char *path,
                                                struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_pretrain_load_state(struct aw_pretrain *pretrain, const char *path,
                                                struct aw_diag *diag);

#endif
