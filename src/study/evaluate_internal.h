/*
 * evaluate_internal.h - what the tables share: days, tuning, lives, threads.
 *
 * A life is one workload under the control loop from its first second on, seen between marks.
 */
#ifndef AW_STUDY_EVALUATE_INTERNAL_H
#define AW_STUDY_EVALUATE_INTERNAL_H

#include "base/parallel_tasks.h"
#include "study/evaluate.h"

#define AW__LIFE_MARKS_MAX 8u
#define AW__LIFE_NEVER     UINT32_MAX
#define AW__DAY_FALLBACK   "hpa+vpa-mem" /* HPA at 80 %, VPA on memory, replicas of one core */

/* The halves of a day, and both together with an even number of slots. They borrow its rates. */
struct aw__day {
    struct aw_load learn, report, whole;
    uint32_t half_steps;
};
/* AW_ERR_NODATA: a half has no whole step. */
AW_NODISCARD enum aw_err aw__day_of(const struct aw_evaluate_app *app, double step_s,
                                    struct aw__day *ret, struct aw_diag *diag);
/* The same of the first 24 hours. AW_ERR_NODATA: half of it is no longer than an hour. */
AW_NODISCARD enum aw_err aw__day_first(const struct aw_evaluate_config *config,
                                       const struct aw_evaluate_app *app, struct aw__day *ret,
                                       struct aw_diag *diag);
/* `learn` first halves, then `report` second ones. The caller deinits it. */
AW_NODISCARD enum aw_err aw__day_repeat(const struct aw__day *day, uint32_t learn, uint32_t report,
                                        const struct aw_alloc *alloc, struct aw_load *ret,
                                        struct aw_diag *diag);

/* A controller of the simulator, and how it begins. */
struct aw__rule {
    struct aw_simulate_policy policy;
    struct aw_fallback_task task;
};
/* As its name gives it; it knows no more of the load than the mean of the first half. */
AW_NODISCARD enum aw_err aw__rule_named(const struct aw_evaluate_config *config,
                                        const struct aw_evaluate_app *app,
                                        const struct aw__day *day, const char *name,
                                        struct aw__rule *ret, struct aw_diag *diag);
/* The same, tuned on the first half. */
AW_NODISCARD enum aw_err aw__rule_tune(const struct aw_evaluate_config *config,
                                       const struct aw_evaluate_app *app, const struct aw__day *day,
                                       uint64_t seed, const char *name,
                                       const struct aw_alloc *alloc, struct aw__rule *ret,
                                       struct aw_diag *diag);
/* Runs it through the first half with the chance that it was tuned with. */
AW_NODISCARD enum aw_err aw__rule_learned(const struct aw_evaluate_config *config,
                                          const struct aw_evaluate_app *app,
                                          const struct aw__day *day, uint64_t seed,
                                          const struct aw__rule *rule, const struct aw_alloc *alloc,
                                          struct aw_totals *ret, struct aw_diag *diag);
/* Runs it through the day from the first second on; `sink` is called for every step. */
AW_NODISCARD enum aw_err aw__rule_day(const struct aw_evaluate_config *config,
                                      const struct aw_evaluate_app *app, const struct aw__day *day,
                                      uint64_t seed, const struct aw__rule *rule,
                                      aw_simulate_sink *sink, void *ctx,
                                      const struct aw_alloc *alloc, struct aw_diag *diag);
/* One step of a rule as totals. */
void aw__rule_step(const struct aw_simulate_step *step, struct aw_replica_track *track,
                   struct aw_totals *ret);
/* Runs it through the day; what happened in each quarter of the second half. */
AW_NODISCARD enum aw_err aw__rule_report(const struct aw_evaluate_config *config,
                                         const struct aw_evaluate_app *app,
                                         const struct aw__day *day, uint64_t seed,
                                         const struct aw__rule *rule, const struct aw_alloc *alloc,
                                         struct aw_totals *ret_quarters, struct aw_diag *diag);

struct aw__life {
    const struct aw_evaluate_config *config;
    const struct aw_evaluate_app *app;
    const struct aw_load *load;   /* from its first second on */
    const struct aw__rule *rule;  /* the fallback, and how it begins */
    double slo_latency_us;        /* 0: the task's */
    struct aw_schedule scenarios; /* may be empty */
    uint64_t seed;
    bool twin, bootstrap, retrain;
    uint32_t mark[AW__LIFE_MARKS_MAX]; /* steps, ascending; the last ends it */
    uint32_t mark_count;
    uint32_t split;    /* step up to which `before` counts; AW__LIFE_NEVER: until it first serves */
    aw_job_sink *sink; /* called for every step; may be NULL */
    void *ctx;
    const struct aw_evaluate_config
        *then;                  /* SLO and prices from step `then_step` on; may be NULL */
    double then_slo_latency_us; /* 0: as before */
    uint32_t then_step;
    bool told; /* the pilot learns of it; else it is judged by what it does not know */
};

struct aw__lived {
    struct aw_totals span[AW__LIFE_MARKS_MAX][AW_JOB_WORLDS]; /* from mark to mark */
    struct aw_totals before[AW_JOB_WORLDS];
    enum aw_stage stage[AW__LIFE_MARKS_MAX];  /* at a mark */
    uint32_t transitions[AW__LIFE_MARKS_MAX]; /* of the stage, up to it */
    uint32_t serving_step;                    /* AW__LIFE_NEVER: it never served */
};
/* The settings of the workload: the config's pilot with this life's bounds, SLO, fallback and
 * seed. */
void aw__life_pilot(const struct aw__life *life, struct aw_pilot_config *ret);
AW_NODISCARD enum aw_err aw__life_run(const struct aw__life *life, const struct aw_alloc *alloc,
                                      struct aw__lived *ret, struct aw_diag *diag);

/* An application under a load that its heavier world can bear, with an SLO that both worlds can
 * keep: what no controller could hold would tell nothing of controllers. */
struct aw__stage {
    struct aw_evaluate_app app; /* its day is its own */
    double slo_latency_us;
};
AW_NODISCARD enum aw_err aw__stage_set(const struct aw_evaluate_config *config,
                                       const struct aw_evaluate_app *app,
                                       const struct aw_effect *effect, const struct aw_alloc *alloc,
                                       struct aw__stage *ret, struct aw_diag *diag);

/* From the shelf, or lived and put there. */
typedef enum aw_err aw__piece_live(void *ctx, uint32_t turn, struct aw_diag *diag);
AW_NODISCARD static inline enum aw_err aw__model_shelf_use(const struct aw_evaluate_shelf *shelf,
                                                           uint32_t turn, void *piece, size_t size,
                                                           aw__piece_live *live, void *ctx,
                                                           struct aw_diag *diag)
{
    if (shelf && shelf->take(shelf->ctx, turn, piece, size))
        return AW_OK;
    const enum aw_err err = live(ctx, turn, diag);
    return err || !shelf ? err : shelf->keep(shelf->ctx, turn, piece, size, diag);
}

/* Which of `count` keeps the budget for the least; where none does, the one that misses least. */
uint32_t aw__best_of(const struct aw_totals *totals, uint32_t count, double budget);
void aw__goal_add(struct aw_evaluate_goal *goals, uint32_t *count, const char *name, double value,
                  double goal, bool lower);

/* 95 % of the mean of `n` numbers, with a fixed seed. `n` at least 1. */
AW_NODISCARD enum aw_err aw__interval(const double *x, uint32_t n, const struct aw_alloc *alloc,
                                      struct aw_interval *ret, struct aw_diag *diag);
/* The same of a geometric mean, from logarithms. */
AW_NODISCARD enum aw_err aw__interval_exp(const double *x, uint32_t n, const struct aw_alloc *alloc,
                                          struct aw_interval *ret, struct aw_diag *diag);

#endif
