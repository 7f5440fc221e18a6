/*
 * objective.h - what a step was worth: the SLO, the utilisation, the paper's reward, the cost.
 *
 * Two objectives. The paper's (AWARE section 2.2): r = a * SP * |R| + (1 - a) * sum of RU over the
 * resources R = {cpu, memory}; at most 2 a step. The constrained one: spend the least while the
 * share of steps that miss the SLO stays within a budget; its reward is minus the cost, relative
 * to a reference, minus lambda for a missed step, where lambda is moved by aw_lambda_next until the
 * budget is kept.
 *
 * A score is made from a reading (what a production loop sees; what rewards are made of) or from
 * the figures of a simulator (what results are reported from): the same function for both.
 *
 * Memory:  plain structs.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_TASK_OBJECTIVE_H
#define AW_TASK_OBJECTIVE_H

#include <aware/err.h>

#include "base/conf.h"
#include "task/bounds.h"
#include "task/reading.h"

#define AW_OBJECTIVE_RESOURCES 2  /* |R|: CPU and memory */
#define AW_COST_RATIO_MAX      10 /* of a step's cost over the reference; beyond, this */
#define AW_LAMBDA_MIN          0.01
#define AW_LAMBDA_MAX          100.0

struct aw_slo {
    double latency_us_p99;   /* target of the latency at `quantile`; 0: none */
    double throughput_per_s; /* 0: none */
    double quantile;         /* 0.5, 0.95 or 0.99, which 0 stands for too */
    double timeout_us;       /* latency of a request that is never answered */
};

/* $ of a lot of each resource for an hour. A replica as such costs nothing. */
struct aw_prices {
    union {
        double hour[AW_RESOURCES];
        struct {
#define X(id, member, name, unit, most, common, restarts, use, words, noun, up, down, low, high, \
          step, lot, ...)                                                                        \
    double lot##_hour;
            AW_RESOURCE_MAP(X)
#undef X
        };
    };
};
extern const struct aw_conf_field aw_price_fields[]; /* "core_hour", ...: of sizes alone */
/* $ of an hour of all that `plan` says, whatever `set` names. */
double aw_prices_per_hour(const struct aw_prices *prices, const struct aw_plan *plan);

enum aw_objective_kind { AW_OBJECTIVE_CONSTRAINED, AW_OBJECTIVE_PAPER };

struct aw_objective {
    uint32_t kind;     /* enum aw_objective_kind */
    double slo_weight; /* a, in [0, 1] */
    struct aw_slo slo;
    struct aw_prices prices;
    double cost_reference_per_hour; /* $; what counts as cost 1 in the constrained reward; > 0 */
};

/* What happened in a step, measured or simulated. NAN: unknown, or nothing to measure. */
struct aw_outcome {
    double arrivals_per_s, completions_per_s, errors_per_s;
    double latency_us_slo;                      /* at the SLO's quantile */
    double cpu_utilisation, memory_utilisation; /* in [0, 1] */
    double allocated[AW_RESOURCES];             /* of sizes, in lots: cores, GiB; mean */
};

struct aw_score {
    double latency_sp, throughput_sp;           /* SLO preservation, in [0, 1] */
    double sp;                                  /* the smaller of the two */
    bool violated;                              /* an SLO was missed: sp < 1 */
    double cpu_utilisation, memory_utilisation; /* RU; unknown counts as 0 */
    double latency_us_slo;                      /* at the SLO's quantile; NAN: no request */
    double paper_reward;                        /* in [0, 2] */
    double cost;                                /* $ */
};

struct aw_outcome aw_outcome_of(const struct aw_reading *reading);

/* SLO / measured when that is less than 1. 1 without an SLO, without requests, and where it is
 * unknown. Requests that fail or are not answered, with no latency reported: the time-out. */
double aw_slo_latency_sp(const struct aw_slo *slo, const struct aw_outcome *outcome);
/* Measured / SLO when less than 1. A load below the SLO can at best be served whole: then the load
 * takes the SLO's place. */
double aw_slo_throughput_sp(const struct aw_slo *slo, const struct aw_outcome *outcome);

void aw_objective_score(const struct aw_objective *objective, const struct aw_outcome *outcome,
                        double step_s, struct aw_score *ret_score);
/* The reward of a scored step. `lambda` is read by the constrained objective alone. */
double aw_objective_reward(const struct aw_objective *objective, const struct aw_score *score,
                           double step_s, double lambda);
/* The least and most that a step can be worth. */
void aw_objective_range(const struct aw_objective *objective, double *ret_low, double *ret_high);

/* The next weight of the SLO, after `violation_share` of recent steps missed it where `budget` may.
 * Multiplied by exp(rate * (share / budget - 1)), the exponent's error held in [-1, 4]: a run far
 * over its budget grows fast, one without any violation shrinks by exp(-rate), and a weight never
 * leaves [AW_LAMBDA_MIN, AW_LAMBDA_MAX]. A budget of 0 is never undercut, so lambda never falls. */
double aw_lambda_next(double lambda, double budget, double violation_share, double rate);

/* What an episode of `steps` was worth, at one weight of the SLO for ever: its cost over what its
 * load needed, so that a busy hour can be compared with a quiet one. */
double aw_episode_score(uint32_t steps, double lambda, double cost, double need,
                        double violation_share);

/* What missing the SLO costs, in ln of cost: nothing within the budget, half for missing twice as
 * much, then more for every doubling. Added to ln of the cost it makes one number of the two. */
double aw_miss_price(double missed, double budget);

/* What the use of a step is worth: its CPU at half utilisation, with the memory of as many cores'
 * replicas and the least of all else, in $ per hour. Load decides it and not the actor, so costs of
 * different hours can be compared by their ratio to it. What is not known counts as nothing. */
double aw_need_per_hour(const struct aw_prices *prices, const struct aw_bounds *bounds,
                        const struct aw_reading *reading);

#endif
