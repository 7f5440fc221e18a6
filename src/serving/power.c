/* power.c - the rules. Section and line numbers are those of the thesis, chapter 6. */
#include "serving/power.h"

#include <math.h>
#include <string.h>

#define SLACK_UP     0.05 /* Alg. 6.3: below it the clock goes up, and down only above it */
#define RISK_STEP    0.05
#define CAUTION_MAX  2.0 /* what is beyond 1 is not used, but remembered */
#define P90          1.2816
#define SPREAD_LEAST 0.02 /* of the logarithm of a request's work */
#define CLOCKS       10u  /* that are compared */
#define DEBT_LEAST   (-3.9)
#define DEBT_MOST    9.2 /* what is beyond DEBT_FULL is not used, but remembered */
#define SPARE_GAIN   0.05
#define SPARE_BLAME  0.003 /* of requests may be late for the sake of parking */
#define SPARE_MOST   16.0

static const char *const names[AW_POWER_RULES] = {"fixed",        "static", "race",
                                                  "miad-printed", "miad",   "predictive"};

/* Chosen on the Azure conversation trace (docs/results/serving.md). */
const struct aw_power_settings aw_power_defaults = {
    .rule = AW_POWER_PREDICTIVE,
    .static_x = 1,
    .floor_x = 0.3,
    .step_x = 75.0 / 1380,
    .margin = 0.85,
    .risk = 0.2,
    .blame = 0.004,
    .headroom = 1.1,
    .tick_s = 1,
    .switch_s = 0.02,
    .price_j = 1000,
    .target = 0.35,
};

const char *aw_power_name(uint32_t rule)
{
    AW_ASSERT(rule < AW_POWER_RULES);
    return names[rule];
}

bool aw_power_find(const char *name, uint32_t *ret_rule)
{
    for (uint32_t i = 0; i < AW_POWER_RULES; i++) {
        if (!strcmp(name, names[i])) {
            *ret_rule = i;
            return true;
        }
    }
    return false;
}

/* Requests yet to come that will be late because the device is busy for so long. */
static double late_behind(const struct aw_power_other *other, uint32_t others, double busy_s)
{
    double late = 0;
    for (uint32_t i = 0; i < others; i++)
        late += other[i].rate_per_s * fmax(busy_s - other[i].slack_s, 0);
    return late;
}

double aw_power_predict(const struct aw_power_settings *settings, const struct aw_power_item *item,
                        uint32_t count, const struct aw_power_other *other, uint32_t others,
                        double x_min, double x_now, double load)
{
    if (count == 0)
        return x_min;
    double fixed = 0, scaled = 0, need = fmax(settings->floor_x, settings->headroom * load);
    /* until the switch the old clock works on: what it has not done by then is late by the rest */
    const double late = fmax(settings->switch_s * (1 - x_now), 0);
    for (uint32_t i = 0; i < count; i++) {
        fixed += item[i].memory * item[i].work_s;
        scaled += (1 - item[i].memory) * item[i].work_s;
        const double left = settings->margin * item[i].left_s - late - fixed;
        if (fixed + scaled > item[i].left_s)
            need =
                fmax(need, i == 0 ? settings->floor_x : 1); /* lost already; those behind count */
        else if (left <= scaled)
            return 1;
        else
            need = fmax(need, scaled / left);
    }
    need = fmin(fmax(need, x_min), 1);
    /* faster, as long as those who may come are too likely to be late; what the largest clock does
     * not mend is no reason */
    const double best = late_behind(other, others, fixed + scaled);
    for (; need < 1; need = fmin(need + RISK_STEP, 1))
        if (late_behind(other, others, fixed + scaled / need) - best <= settings->risk * count)
            break;
    return need;
}

struct aw_power_chance aw_power_rest(double median_s, double high_s, double served_s)
{
    const double s = fmax(log(high_s / median_s) / P90, SPREAD_LEAST),
                 mean = median_s * exp(s * s / 2), sd = mean * sqrt(expm1(s * s));
    if (served_s <= 0)
        return (struct aw_power_chance){.mean_s = mean, .sd_s = sd};
    /* what is left of a log-normal that is known to exceed served_s; far out, a share of it */
    const double z = log(served_s / median_s) / s, beyond = 0.5 * erfc(z / M_SQRT2),
                 rest = beyond > 1e-4 ? mean * 0.5 * erfc((z - s) / M_SQRT2) / beyond - served_s
                                      : 0.3 * served_s,
                 left = fmax(rest, 0.05 * served_s);
    return (struct aw_power_chance){
        .mean_s = left, .sd_s = left * fmin(1, sd / mean + (served_s > median_s ? 0.3 : 0))};
}

double aw_power_least(const struct aw_power_settings *settings, const struct aw_gpu_kind *kind,
                      const struct aw_power_chance *chance, uint32_t count,
                      const struct aw_power_other *other, uint32_t others, double x_now,
                      double load, double debt)
{
    const double x_min = aw_gpu_x_min(kind), idle_w = aw_gpu_idle_w(kind, x_min),
                 price = settings->price_j * exp(debt), switched = settings->switch_s * (1 - x_now),
                 low = fmax(x_min, fmin(settings->headroom * load, 1));
    double best = INFINITY, chosen = 1;
    if (count == 0)
        return x_min;
    for (uint32_t k = 0; k <= CLOCKS && debt < AW_POWER_DEBT_FULL; k++) {
        const double x = low + (1 - low) * k / CLOCKS;
        double end_s = 0, variance = 0, joules = 0, late = 0;
        for (uint32_t i = 0; i < count; i++) {
            const double m = chance[i].memory, slow = m + (1 - m) / x,
                         left = chance[i].left_s - switched;
            end_s += slow * chance[i].mean_s;
            variance += slow * slow * chance[i].sd_s * chance[i].sd_s;
            joules += slow * chance[i].mean_s * (aw_gpu_busy_w(kind, m, x) - idle_w);
            const double s2 = log1p(variance / (end_s * end_s)), mu = log(end_s) - s2 / 2;
            late += left <= 0 ? 1 : 0.5 * erfc((log(left) - mu) / sqrt(2 * s2));
        }
        const double cost = joules + price * (late + late_behind(other, others, end_s));
        if (cost < best) {
            best = cost;
            chosen = x;
        }
    }
    return chosen;
}

double aw_power_bill(const struct aw_power_settings *settings, double debt, bool blamed)
{
    if (settings->blame <= 0)
        return 0;
    return fmin(fmax(debt + AW_POWER_BILL_GAIN * ((blamed ? 1 : 0) - settings->blame), DEBT_LEAST),
                DEBT_MOST);
}

double aw_power_spare(double spare, bool blamed)
{
    return fmin(fmax(spare + SPARE_GAIN * ((blamed ? 1 : 0) - SPARE_BLAME), 0), SPARE_MOST);
}

double aw_power_learn(const struct aw_power_settings *settings, double caution, bool blamed)
{
    if (settings->blame <= 0)
        return 0;
    return fmin(fmax(caution + AW_POWER_GAIN * ((blamed ? 1 : 0) - settings->blame), 0),
                CAUTION_MAX);
}

struct aw_power_settings aw_power_careful(const struct aw_power_settings *settings, double caution)
{
    struct aw_power_settings careful = *settings;
    caution = fmin(caution, 1);
    careful.floor_x += caution * (1 - careful.floor_x);
    careful.risk *= 1 - caution;
    return careful;
}

double aw_miad_printed(const struct aw_power_settings *settings, const struct aw_miad_seen *seen,
                       uint32_t models, double x, double x_min)
{
    bool down = false;
    for (uint32_t i = 0; i < models; i++) {
        if (seen[i].latency_s <= 0)
            continue;
        const double slack = (seen[i].slo_s - seen[i].latency_s) / seen[i].slo_s;
        if (slack < SLACK_UP)
            return fmin(1, 2 * x);
        const double degradation = seen[i].latency_s * settings->step_x / x;
        down |= degradation / seen[i].slo_s < slack - SLACK_UP;
    }
    return down ? fmax(x_min, x - settings->step_x) : x;
}

double aw_miad(const struct aw_power_settings *settings, const struct aw_miad_seen *seen,
               uint32_t models, bool idle, double x, double x_min, bool *ret_up_at_max)
{
    const double low = fmax(x_min, settings->floor_x);
    bool down = true;
    *ret_up_at_max = false;
    for (uint32_t i = 0; i < models; i++) {
        if (seen[i].worst_s <= 0)
            continue;
        const double slack = (seen[i].slo_s - seen[i].worst_s) / seen[i].slo_s;
        if (slack < SLACK_UP) {
            *ret_up_at_max = x >= 1;
            return fmin(1, 2 * fmax(x, low));
        }
        /* b STEP / (x (x - STEP)) of a latency (a + b/x), as a share of the latency at x */
        const double below = fmax(x - settings->step_x, low),
                     core = (1 - seen[i].memory) / (seen[i].memory * x + 1 - seen[i].memory),
                     degradation = seen[i].worst_s * core * (x - below) / below;
        down &= degradation / seen[i].slo_s < slack - SLACK_UP;
    }
    x = fmax(x, low);
    if (down && !idle)
        return fmax(low, x - settings->step_x);
    return x;
}
