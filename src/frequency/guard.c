/* guard.c - see guard.h. */
#include "frequency/guard.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

#define SECOND_US       1000000
#define COUNTED_MIN     0.1
#define GHZ_SLACK       1.1 /* measured above the range by rounding and short turbo */
#define IPC_MAX         8.0 /* instructions per cycle and core that no processor reaches */
#define CORES_MAX       4096.0
#define FALLBACK_WEIGHT 0.02 /* of a second in the fallback's mean */

const char *aw_frequency_break_text(enum aw_frequency_break why)
{
    static const char *const text[] = {
        [AW_BREAK_DATA] = "readings that cannot be true: nominal frequency",
        [AW_BREAK_LATE] = "no fresh prediction: the fallback decides",
        [AW_BREAK_MODEL] = "the model earned less than the fallback: withheld for a while",
        [AW_BREAK_USELESS] = "cores wait for memory: no more than nominal frequency",
        [AW_BREAK_THROTTLE] = "the processor throttles: no more than nominal frequency",
        [AW_BREAK_NONE] = "-",
    };
    return text[why];
}

struct aw_frequency_guard_config aw_frequency_guard_default(void)
{
    return (struct aw_frequency_guard_config){.expiry_us = 5 * SECOND_US,
                                              .bad_max = 3,
                                              .alpha_min = 0.1,
                                              .margin = 0.02,
                                              .assess_s = 30,
                                              .withheld_s = 300,
                                              .throttled_s = 30};
}

void aw_frequency_guard_init(struct aw_frequency_guard *guard,
                             const struct aw_frequency_guard_config *config, double min_ghz,
                             double nominal_ghz, double max_ghz, double watts_max)
{
    AW_ASSERT(min_ghz > 0 && nominal_ghz >= min_ghz && max_ghz >= nominal_ghz);
    *guard = (struct aw_frequency_guard){.config = *config,
                                         .min_ghz = min_ghz,
                                         .nominal_ghz = nominal_ghz,
                                         .max_ghz = max_ghz,
                                         .watts_max = watts_max};
}

/* What is not known is no lie; what is known must be possible. */
static bool possible(double value, double low, double high)
{
    return isnan(value) || (value >= low && value <= high);
}

static bool sample_true(const struct aw_frequency_guard *guard,
                        const struct aw_frequency_sample *sample)
{
    return !sample->backwards && sample->counted >= COUNTED_MIN &&
           possible(sample->ghz, guard->min_ghz / GHZ_SLACK, guard->max_ghz * GHZ_SLACK) &&
           possible(sample->ips, 0, CORES_MAX * IPC_MAX * guard->max_ghz * 1e9) &&
           possible(sample->use, 0, 1.01) && possible(sample->watts, 0, 2 * guard->watts_max) &&
           possible(sample->alpha, 0, 1) && !isinf(sample->reward);
}

static void assess(struct aw_frequency_guard *guard, const struct aw_frequency_sample *sample,
                   int64_t now_us)
{
    if (isnan(sample->reward))
        return;
    if (!sample->by_model) {
        const double weight = guard->fallback_count < 1 / FALLBACK_WEIGHT
                                  ? 1.0 / (guard->fallback_count + 1)
                                  : FALLBACK_WEIGHT;
        guard->fallback_mean += weight * (sample->reward - guard->fallback_mean);
        guard->fallback_count++;
        return;
    }
    guard->model_sum += sample->reward;
    if (++guard->model_count < guard->config.assess_s)
        return;
    const double mean = guard->model_sum / guard->model_count;
    if (guard->fallback_count && mean < guard->fallback_mean - guard->config.margin &&
        !guard->config.off[AW_BREAK_MODEL]) {
        guard->withheld_until_us = now_us + (int64_t)guard->config.withheld_s * SECOND_US;
        guard->trips[AW_BREAK_MODEL]++;
    }
    guard->model_sum = 0;
    guard->model_count = 0;
}

bool aw_frequency_guard_sample(struct aw_frequency_guard *guard,
                               const struct aw_frequency_sample *sample, int64_t now_us)
{
    if (!guard->config.off[AW_BREAK_DATA] && !sample_true(guard, sample)) {
        guard->bad++;
        guard->trips[AW_BREAK_DATA]++;
        return false;
    }
    guard->bad = 0;
    if (guard->throttles_known && sample->throttles > guard->throttles &&
        !guard->config.off[AW_BREAK_THROTTLE]) {
        guard->calm_until_us = now_us + (int64_t)guard->config.throttled_s * SECOND_US;
        guard->trips[AW_BREAK_THROTTLE]++;
    }
    guard->throttles = sample->throttles;
    guard->throttles_known = true;
    if (!isnan(sample->alpha))
        guard->alpha[guard->alphas++ % AW_GUARD_WINDOW] = sample->alpha;
    assess(guard, sample, now_us);
    return true;
}

void aw_frequency_guard_predict(struct aw_frequency_guard *guard, double ghz, int64_t now_us)
{
    if (!isfinite(ghz) || ghz < guard->min_ghz / GHZ_SLACK || ghz > guard->max_ghz * GHZ_SLACK)
        return;
    guard->predicted_ghz = ghz;
    guard->predicted_us = now_us;
    guard->predicted = true;
}

/* Is more than nominal wasted? SOL: the 90th percentile of alpha over 100 s below a limit. */
static bool useless(const struct aw_frequency_guard *guard)
{
    double sorted[AW_GUARD_WINDOW];
    if (guard->config.off[AW_BREAK_USELESS] || guard->alphas < AW_GUARD_WINDOW)
        return false;
    memcpy(sorted, guard->alpha, sizeof sorted);
    aw_stats_sort(sorted, AW_GUARD_WINDOW);
    return aw_stats_quantile(sorted, AW_GUARD_WINDOW, 0.9) < guard->config.alpha_min;
}

double aw_frequency_guard_decide(struct aw_frequency_guard *guard, double fallback_ghz,
                                 int64_t now_us, enum aw_frequency_break *ret_why)
{
    enum aw_frequency_break why = AW_BREAK_NONE;
    double ghz = guard->predicted_ghz;
    if (guard->bad >= guard->config.bad_max) {
        *ret_why = AW_BREAK_DATA;
        return guard->nominal_ghz;
    }
    if (now_us < guard->withheld_until_us) {
        why = AW_BREAK_MODEL;
        ghz = fallback_ghz;
    } else if (!guard->predicted || (now_us - guard->predicted_us > guard->config.expiry_us &&
                                     !guard->config.off[AW_BREAK_LATE])) {
        why = AW_BREAK_LATE;
        guard->trips[AW_BREAK_LATE]++;
        ghz = fallback_ghz;
    }
    if (ghz > guard->nominal_ghz && now_us < guard->calm_until_us) {
        why = AW_BREAK_THROTTLE;
        ghz = guard->nominal_ghz;
    }
    if (ghz > guard->nominal_ghz && useless(guard)) {
        why = AW_BREAK_USELESS;
        guard->trips[AW_BREAK_USELESS]++;
        ghz = guard->nominal_ghz;
    }
    *ret_why = why;
    return fmin(fmax(ghz, guard->min_ghz), guard->max_ghz);
}
