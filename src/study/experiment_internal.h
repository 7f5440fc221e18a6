/*
 * experiment_internal.h - what experiments share: how they pretrain, curves as pieces,
 * figures over applications.
 */
#ifndef AW_STUDY_EXPERIMENT_INTERNAL_H
#define AW_STUDY_EXPERIMENT_INTERNAL_H

#include "base/parallel_tasks.h"
#include "study/experiment.h"

#define AW__LEARN_FIRST 0u
#define AW__CHECK_COUNT 40u
#define AW__TEST_COUNT  200u /* the most that are reported on */
uint32_t aw__learn_count(const struct aw_experiment_config *config);
uint32_t aw__check_first(const struct aw_experiment_config *config);
uint32_t aw__test_first(const struct aw_experiment_config *config);

#define AW__RANKS 100u /* functions of a trace for either */

#define AW__NEAR 0.03 /* within so much of converged is converged */
#define AW__WAY  50u  /* episodes that count as the way there */

/* --- pieces ----------------------------------------------------------------------------------- */

#define AW__PIECE_KEY_MAX 96u
/* What a piece is called: `what`, and a hash of all that was mixed in. */
struct aw__piece_key {
    uint64_t hash;
};
void aw__piece_key_begin(struct aw__piece_key *key, const struct aw_experiment_config *config);
void aw__piece_key_text(struct aw__piece_key *key,
                        const char *text); /* NULL is a text of its own */
void aw__piece_key_number(struct aw__piece_key *key, double number);
/* Every setting but the pools; of the model its content. */
AW_NODISCARD enum aw_err aw__piece_key_pretrain(struct aw__piece_key *key,
                                                const struct aw_pretrain_config *pretrain,
                                                const struct aw_alloc *alloc, struct aw_diag *diag);
void aw__piece_key_path(const struct aw__piece_key *key, const struct aw_experiment_config *config,
                        const char *what, const char *suffix, char *buf, size_t size);

/* AW_ERR_NOTFOUND: no such piece, or a damaged one. */
AW_NODISCARD enum aw_err aw__piece_load(const char *path, double *values, size_t count,
                                        const struct aw_alloc *alloc);
AW_NODISCARD enum aw_err aw__piece_save(const char *path, const double *values, size_t count,
                                        const struct aw_alloc *alloc, struct aw_diag *diag);

/* --- loads ---------------------------------------------------------------------------------- */

/* Functions of the trace as they are first asked for: reading it takes longer than an episode. */
AW_NODISCARD enum aw_err aw__loads_new(const struct aw_alloc *alloc, struct aw__loads **ret);
void aw__loads_free(struct aw__loads *loads); /* NULL is a no-op */
/* The load of an application of the pool; the caller deinits it. */
AW_NODISCARD enum aw_err aw__load_of(const struct aw_experiment_config *config, uint32_t app,
                                     const struct aw_alloc *alloc, struct aw_load *ret,
                                     struct aw_diag *diag);

/* --- pretraining ------------------------------------------------------------------------------ */

/* What all experiments learn and judge with; pools are left out. */
void aw__pretrain_config(const struct aw_experiment_config *config, struct aw_pretrain_config *ret);
/* `count` applications from `first` on, with their loads; `config` is borrowed. */
struct aw_pretrain_pool aw__pool(const struct aw_experiment_config *config, uint32_t first,
                                 uint32_t count);
/* The model that `config` names, or one that is pretrained here, as a piece, on `apps`
 * applications. `ret_path` [AW_EXPERIMENT_PATH_MAX]. `cost` (may be NULL): seconds of CPU, episodes
 * (of the policy, and by actor) and the score on validation. */
struct aw__model_cost {
    double cpu_s, episodes, check, missed;
    struct aw_pretrain_episodes lived;
};
AW_NODISCARD enum aw_err aw__model(const struct aw_experiment_config *config, uint32_t apps,
                                   const char *variant, const struct aw_pretrain_config *pretrain,
                                   const struct aw_alloc *alloc, char *ret_path,
                                   struct aw__model_cost *ret_cost, struct aw_diag *diag);

/* The model that `config` names, or the one that experiments of this scale teach themselves. */
AW_NODISCARD enum aw_err aw__model_or_own(const struct aw_experiment_config *config,
                                          const struct aw_alloc *alloc, char *ret_path,
                                          struct aw_diag *diag);

/* A model without one episode of its own, on applications from `first` on, known by their
 * fallback's episodes: each [count], and the fallback itself (may be NULL). `embeddings` (may be
 * NULL) [count][embedding]. */
AW_NODISCARD enum aw_err aw__zero_shot(const struct aw_experiment_config *config, const char *model,
                                       uint32_t first, uint32_t count, const struct aw_alloc *alloc,
                                       struct aw_pretrain_score *each,
                                       struct aw_pretrain_score *fallback, float *embeddings,
                                       struct aw_diag *diag);

/* --- learners --------------------------------------------------------------------------------- */

/* AWARE on a new application: the model, its encoder frozen, fine-tuned with an anchor. */
AW_NODISCARD enum aw_err aw__learner_aware(const struct aw_experiment_config *config,
                                           const char *model, struct aw_pretrain_config *ret,
                                           struct aw_diag *diag);
/* The base learner alone: it is shown no context. */
void aw__learner_plain(const struct aw_experiment_config *config, struct aw_pretrain_config *ret);
/* How a learner that is carried over begins again; what a search chooses from. */
struct aw__transfer {
    double actor_lr, critic_lr, noise;
    uint32_t rests;       /* episodes for which the actor is frozen */
    double offset_search; /* instead of learning (pretrain.h); 0: it learns */
};
void aw__learner_transfer(const struct aw_experiment_config *config,
                          const struct aw__transfer *transfer, const char *source,
                          struct aw_pretrain_config *ret);
/* The `i`th application that a single policy is taught on, spread over those learned from. */
uint32_t aw__source_app(const struct aw_experiment_config *config, uint32_t i);
/* A plain learner taught on training application `app`, as a file; a piece. */
AW_NODISCARD enum aw_err aw__source(const struct aw_experiment_config *config, uint32_t app,
                                    uint32_t episodes, bool foresight, const struct aw_alloc *alloc,
                                    char *ret_path, struct aw_diag *diag);

/* TL: plain learners of some applications for training, and how they begin again: of some settings
 * the one that took the fewest episodes on applications for validation. TL+ also has a forecast of
 * the load and a table of what allocations did. */
#define AW__TL_SOURCES_MAX 8u
struct aw__tl {
    bool plus;
    uint32_t sources;
    char source[AW__TL_SOURCES_MAX][AW_EXPERIMENT_PATH_MAX];
    struct aw__transfer how;
};
/* Teaches, in pieces. */
AW_NODISCARD enum aw_err aw__tl_teach(const struct aw_experiment_config *config, bool plus,
                                      const struct aw_alloc *alloc, struct aw__tl *ret,
                                      struct aw_diag *diag);
/* Teaches and tunes, in pieces; what was chosen is noted. What can be reached on applications for
 * validation is the best of all choices, of a learner from scratch, and of AWARE with `model`. */
AW_NODISCARD enum aw_err aw__tl_make(const struct aw_experiment_config *config, bool plus,
                                     const char *model, const struct aw_alloc *alloc,
                                     struct aw_study_report *report, struct aw__tl *ret,
                                     struct aw_diag *diag);
/* The `i`th application that is adapted to; `tl` is borrowed. */
void aw__tl_pretrain_config(const struct aw_experiment_config *config, const struct aw__tl *tl,
                            uint32_t i, struct aw_pretrain_config *ret);

/* --- curves ----------------------------------------------------------------------------------- */

struct aw__curve {
    const char *who;
    uint32_t app;
    uint64_t seed;
    uint32_t episodes;
    struct aw_pretrain_config pretrain; /* pools and seed are filled in */
    struct aw_adapt_point *point;       /* [episodes + 1] */
    struct aw_pretrain_score fallback;
};
/* Runs or recalls them all. */
AW_NODISCARD enum aw_err aw__curves(const struct aw_experiment_config *config,
                                    struct aw__curve *curves, uint32_t count, const char *phase,
                                    const struct aw_alloc *alloc, struct aw_diag *diag);

/* Calls `fn` for every turn on the config's threads, and `progress`. */
AW_NODISCARD enum aw_err aw__turns(const struct aw_experiment_config *config, uint32_t turns,
                                   const char *phase, aw_parallel_tasks_turn *fn, void *ctx,
                                   const struct aw_alloc *alloc, struct aw_diag *diag);

/* --- figures ---------------------------------------------------------------------------------- */

/* Some figure of the applications in `pick` [count], some of which are there more than once. */
typedef double aw__statistic(const void *ctx, const uint32_t *pick, uint32_t count);
/* 95 % of it over applications drawn anew; with several groups (seeds) these are drawn anew first,
 * and member i of group g is number g * count + i. No interval for fewer than two. */
struct aw_interval aw__resampled(uint32_t groups, uint32_t count, aw__statistic *fn,
                                 const void *ctx);
struct aw_interval aw__resampled_mean(uint32_t groups, uint32_t count, const double *x);
/* Of the sum of a over the sum of b, for the same applications. */
struct aw_interval aw__resampled_ratio(uint32_t groups, uint32_t count, const double *a,
                                       const double *b);
/* The mean with its interval over applications. NULL: the report is full. */
struct aw_study_report_figure *aw__figure_mean(struct aw_study_report *report,
                                               enum aw_study_report_unit unit, const double *x,
                                               uint32_t n, double paper, const char *name);
/* mean(a) / mean(b), with a paired bootstrap over applications. */
struct aw_study_report_figure *aw__figure_ratio(struct aw_study_report *report, const double *a,
                                                const double *b, uint32_t n, double paper,
                                                const char *name);
/* Spearman's rank correlation over all members of all groups. */
struct aw_study_report_figure *aw__figure_rank(struct aw_study_report *report, const double *a,
                                               const double *b, uint32_t groups, uint32_t count,
                                               const char *name);
/* `scratch` [3 * n]. */
double aw__rank_correlation(const double *a, const double *b, uint32_t n, double *scratch);

/* --- amortization ----------------------------------------------------------------------------- */

/* Models taught alike on so many applications, one with each seed. */
struct aw__taught {
    uint32_t apps, seeds;
    struct aw_pretrain_episodes episodes;  /* of one */
    char (*model)[AW_EXPERIMENT_PATH_MAX]; /* [seeds] */
};
/* Adapts `apps` applications never seen with each of them, and with TL: what an application costs
 * in episodes, pretraining shared. */
AW_NODISCARD enum aw_err aw__amortize(const struct aw_experiment_config *config,
                                      const struct aw__taught *taught, uint32_t count,
                                      uint32_t apps, const struct aw_alloc *alloc,
                                      struct aw_study_report *report, struct aw_diag *diag);

/* --- crossing --------------------------------------------------------------------------------- */

#define AW__CROSSED_MAX 40u
/* Policies of the first so many sources, each to be judged in the first so many applications that
 * are reported on; everything is borrowed. */
struct aw__crossed {
    uint32_t apps;
    const char *source[AW__CROSSED_MAX];
    double converged[AW__CROSSED_MAX]; /* of each application */
    const struct aw__transfer *how;
};
/* What a policy of another application loses, and what constant sizes do that fit another best. */
AW_NODISCARD enum aw_err aw__cross(const struct aw_experiment_config *config,
                                   const struct aw__crossed *of, const struct aw_alloc *alloc,
                                   struct aw_study_report *report, struct aw_diag *diag);

/* --- experiments ------------------------------------------------------------------------------ */

aw_experiment aw__experiment_adaptation, aw__experiment_characterize, aw__experiment_embedding,
    aw__experiment_tenants_training, aw__experiment_tenants_serving, aw__experiment_tenants_churn,
    aw__experiment_tenants_scale, aw__experiment_amortization, aw__experiment_overhead,
    aw__experiment_ablation, aw__experiment_serving, aw__experiment_bootstrapping,
    aw__experiment_end_to_end;

/* serving_*.c: mu-Serve. */
aw_experiment aw__experiment_power, aw__experiment_scheduler, aw__experiment_predictor,
    aw__experiment_placement, aw__experiment_frequency;

/* experiment_graph.h: FIRM. */
aw_experiment aw__experiment_localization, aw__experiment_mitigation, aw__experiment_firm;

#endif
