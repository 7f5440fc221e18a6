/* objective.c - see objective.h; AWARE section 2.2 for SP, RU and the reward. */
#include "task/objective.h"

#include <math.h>

#include "base/units.h"

#define SECONDS_PER_HOUR 3600.0
/* Requests that arrive at the end of a step complete in the next one: less than this share of a
 * load left over is no missed throughput. */
#define THROUGHPUT_SLACK 0.05
#define LAMBDA_ERROR_MAX 4.0
#define BUDGET_LEAST     1e-4
#define MISS_PRICE       0.5 /* of ln cost, for missing twice the budget */
#define MISS_MORE        1.5

#define AW_CONF_OF struct aw_prices
const struct aw_conf_field aw_price_fields[] = {
#define X(id, member, name, unit, most, common, restarts, use, words, noun, up, down, low, high, \
          step, lot, lots, lot_name, price)                                                      \
    AW_CONF_NUMBER(lot##_hour, price, 0, 1e6, "$ of " lot_name " for an hour"),
    AW_SIZE_MAP(X)
#undef X
        {0},
};

double aw_prices_per_hour(const struct aw_prices *prices, const struct aw_plan *plan)
{
    double sum = 0;
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
        sum += aw_resource_table[r].lots * (double)plan->amount[r] * (double)plan->replicas *
               prices->hour[r];
    return sum;
}

struct aw_outcome aw_outcome_of(const struct aw_reading *reading)
{
    struct aw_outcome outcome = {
        .arrivals_per_s = reading->arrivals_per_s,
        .completions_per_s = reading->completions_per_s,
        .errors_per_s = reading->errors_per_s,
        .latency_us_slo = reading->latency_us_slo,
        .cpu_utilisation = reading->cpu_utilisation,
        .memory_utilisation = reading->memory_utilisation,
    };
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
        outcome.allocated[r] = aw_resource_table[r].lots * reading->allocated[r];
    return outcome;
}

double aw_slo_latency_sp(const struct aw_slo *slo, const struct aw_outcome *outcome)
{
    if (!(slo->latency_us_p99 > 0))
        return 1;
    double measured = outcome->latency_us_slo;
    if (isnan(measured)) {
        bool unanswered = outcome->errors_per_s > 0 ||
                          (outcome->arrivals_per_s > 0 && outcome->completions_per_s == 0);
        measured = unanswered ? slo->timeout_us : 0;
    }
    return measured > slo->latency_us_p99 ? slo->latency_us_p99 / measured : 1;
}

double aw_slo_throughput_sp(const struct aw_slo *slo, const struct aw_outcome *outcome)
{
    const double done = outcome->completions_per_s, arrived = outcome->arrivals_per_s;
    if (!(slo->throughput_per_s > 0) || !(arrived > 0) || isnan(done))
        return 1;
    if (done >= slo->throughput_per_s || done >= (1 - THROUGHPUT_SLACK) * arrived)
        return 1;
    return done / (arrived < slo->throughput_per_s ? arrived : slo->throughput_per_s);
}

static double known(double x)
{
    return x > 0 ? x < 1 ? x : 1 : 0;
}

void aw_objective_score(const struct aw_objective *objective, const struct aw_outcome *outcome,
                        double step_s, struct aw_score *ret_score)
{
    const double a = objective->slo_weight, hours = step_s / SECONDS_PER_HOUR;
    struct aw_score score = {
        .latency_sp = aw_slo_latency_sp(&objective->slo, outcome),
        .throughput_sp = aw_slo_throughput_sp(&objective->slo, outcome),
        .cpu_utilisation = known(outcome->cpu_utilisation),
        .memory_utilisation = known(outcome->memory_utilisation),
        .latency_us_slo = outcome->latency_us_slo,
    };
    double per_hour = 0;
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
        per_hour += outcome->allocated[r] * objective->prices.hour[r];
    score.cost = hours * per_hour;
    score.sp = score.latency_sp < score.throughput_sp ? score.latency_sp : score.throughput_sp;
    score.violated = score.sp < 1;
    score.paper_reward = a * score.sp * AW_OBJECTIVE_RESOURCES +
                         (1 - a) * (score.cpu_utilisation + score.memory_utilisation);
    *ret_score = score;
}

double aw_objective_reward(const struct aw_objective *objective, const struct aw_score *score,
                           double step_s, double lambda)
{
    if (objective->kind == AW_OBJECTIVE_PAPER)
        return score->paper_reward;
    double reference = objective->cost_reference_per_hour * step_s / SECONDS_PER_HOUR;
    double ratio = score->cost / reference;
    ratio = ratio < AW_COST_RATIO_MAX ? ratio : AW_COST_RATIO_MAX;
    return -(ratio + (score->violated ? lambda : 0));
}

void aw_objective_range(const struct aw_objective *objective, double *ret_low, double *ret_high)
{
    bool paper = objective->kind == AW_OBJECTIVE_PAPER;
    *ret_low = paper ? 0 : -(AW_COST_RATIO_MAX + AW_LAMBDA_MAX);
    *ret_high = paper ? AW_OBJECTIVE_RESOURCES : 0;
}

double aw_lambda_next(double lambda, double budget, double violation_share, double rate)
{
    double error = 0; /* of an unknown share too: what is not known moves nothing */
    if (violation_share >= 0 && budget > 0)
        error = fmin(violation_share / budget - 1, LAMBDA_ERROR_MAX);
    else if (violation_share > 0)
        error = LAMBDA_ERROR_MAX;
    double next = lambda * exp(rate * error);
    if (!(next > AW_LAMBDA_MIN)) /* NaN too: a weight that is lost starts small and grows again */
        return AW_LAMBDA_MIN;
    return next < AW_LAMBDA_MAX ? next : AW_LAMBDA_MAX;
}

double aw_episode_score(uint32_t steps, double lambda, double cost, double need,
                        double violation_share)
{
    const double ratio = need > 0 ? fmin(AW_COST_RATIO_MAX, cost / need) : 0;
    return -(double)steps * (ratio + lambda * violation_share);
}

double aw_need_per_hour(const struct aw_prices *prices, const struct aw_bounds *bounds,
                        const struct aw_reading *reading)
{
    const double least = 1e-3 * (double)bounds->cpu_millicores_min * bounds->replicas_min;
    const double used = isnan(reading->cpu_cores_used) ? 0 : reading->cpu_cores_used;
    const double cores = fmax(least, 2 * used);
    const double bytes = isnan(reading->memory_bytes_used) ? 0 : reading->memory_bytes_used;
    double need =
        prices->core_hour * cores + prices->gib_hour * fmax(1, cores) * bytes / AW_GIB_REAL;
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        need += prices->hour[r] * fmax(1, cores) * aw_resource_table[r].lots * bounds->min[r];
    return need;
}

double aw_miss_price(double missed, double budget)
{
    const double over = missed / fmax(BUDGET_LEAST, budget);
    return over <= 1 ? 0 : MISS_PRICE * fmin(over - 1, 1) + MISS_MORE * log(fmax(1, over / 2));
}
