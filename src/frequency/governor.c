/* governor.c - see governor.h. Linux's rules: Documentation/admin-guide/pm/cpufreq.rst. */
#include "frequency/governor.h"

#include <math.h>
#include <string.h>

#define UP_THRESHOLD     0.80 /* ondemand */
#define CONSERVATIVE_LOW 0.20
#define SCHEDUTIL_GAIN   1.25
#define FIT_KEPT         0.97
#define FIT_FLOOR_S      30u
#define BACKLOG_COST     4.0 /* of a second of work left over: it makes those after it late */
#define FIT_EVERY        60u /* seconds after which the two points are measured again */

static uint32_t level_of_share(const struct aw_governor_state *state, double share_of_max)
{
    return aw_level_of(state->processor, share_of_max * state->processor->max_ghz);
}

static uint32_t performance(struct aw_governor_state *state, const float *obs)
{
    (void)state;
    (void)obs;
    return AW_LEVELS - 1;
}

static uint32_t powersave(struct aw_governor_state *state, const float *obs)
{
    (void)state;
    (void)obs;
    return 0;
}

static uint32_t nominal(struct aw_governor_state *state, const float *obs)
{
    (void)obs;
    return aw_level_nominal(state->processor);
}

/* Above the threshold to the top, else in proportion to the load. */
static uint32_t ondemand(struct aw_governor_state *state, const float *obs)
{
    const double use = (double)obs[AW_SEE_USE];
    if (use > UP_THRESHOLD)
        return AW_LEVELS - 1;
    const struct aw_processor *processor = state->processor;
    return aw_level_of(processor,
                       processor->min_ghz + use * (processor->max_ghz - processor->min_ghz));
}

static uint32_t conservative(struct aw_governor_state *state, const float *obs)
{
    const double use = (double)obs[AW_SEE_USE];
    if (use > UP_THRESHOLD && state->level + 1 < AW_LEVELS)
        return state->level + 1;
    return use < CONSERVATIVE_LOW && state->level ? state->level - 1 : state->level;
}

/* f = 1.25 f_max util/max, where util is invariant to the frequency: busy time x f/f_max. */
static uint32_t schedutil(struct aw_governor_state *state, const float *obs)
{
    const double util = (double)obs[AW_SEE_USE] * (double)obs[AW_SEE_GHZ];
    return level_of_share(state, SCHEDUTIL_GAIN * util);
}

/* Two seconds at two frequencies give c and m of t(f) = c/f + m, and two readings of power; then
 * the level that the reward is largest at, if demand stays and nothing queues. */
static void fit(struct aw_governor_state *state, const float *a, const float *b)
{
    const double fa = (double)a[AW_SEE_GHZ], fb = (double)b[AW_SEE_GHZ];
    if (fabs(fa - fb) < 0.02)
        return;
    /* busy seconds per instruction, in units of 1/(cores x max) */
    const double ta = (double)a[AW_SEE_USE] / fmax((double)a[AW_SEE_IPS], 1e-9);
    const double tb = (double)b[AW_SEE_USE] / fmax((double)b[AW_SEE_IPS], 1e-9);
    const double c = (ta - tb) / (1 / fa - 1 / fb);
    state->cycles = fmax(c, 0.01);
    state->memory_ns = fmax(ta - state->cycles / fa, 0);
    const double xa = (double)a[AW_SEE_USE] * fa * fa * fa;
    const double xb = (double)b[AW_SEE_USE] * fb * fb * fb;
    state->watts_cube =
        fabs(xa - xb) > 1e-3
            ? fmax(((double)a[AW_SEE_WATTS] - (double)b[AW_SEE_WATTS]) / (xa - xb), 0)
            : 0.5;
    state->watts_base = (double)a[AW_SEE_WATTS] - state->watts_cube * xa;
    state->fitted = true;
}

static uint32_t two_point(struct aw_governor_state *state, const float *obs)
{
    const struct aw_processor *processor = state->processor;
    const uint32_t at = state->second % FIT_EVERY;
    /* the objective is not in the fit: a level that missed it is not gone below for a while */
    if (at > 2 && (double)obs[AW_SEE_KEPT] < FIT_KEPT) {
        state->floor = state->level + 1 < AW_LEVELS ? state->level + 1 : AW_LEVELS - 1;
        state->floor_until = state->second + FIT_FLOOR_S;
    } else if (state->second > state->floor_until) {
        state->floor = 0;
    }
    if (at == 0)
        return AW_LEVELS - 1;
    if (at == 1) {
        memcpy(state->first, obs, sizeof state->first);
        return aw_level_nominal(processor) / 2;
    }
    if (at == 2)
        fit(state, state->first, obs);
    if (!state->fitted)
        return aw_level_nominal(processor);
    const double nominal_share = processor->nominal_ghz / processor->max_ghz;
    const double nominal_t = state->cycles / nominal_share + state->memory_ns;
    /* demand: what is being executed; a machine that is full may want more */
    const double ips = (double)obs[AW_SEE_IPS];
    const bool full = (double)obs[AW_SEE_USE] > 0.99;
    double best = -INFINITY;
    uint32_t choice = AW_LEVELS - 1;
    for (uint32_t level = state->floor; level < AW_LEVELS; level++) {
        const double f = aw_level_ghz(processor, level) / processor->max_ghz;
        const double t = state->cycles / f + state->memory_ns;
        const double use = full ? 1 : fmin(1, ips * t);
        const double power =
            (state->watts_base + state->watts_cube * use * f * f * f) * processor->limit_w;
        const double full_power = (state->watts_base + state->watts_cube * nominal_share *
                                                           nominal_share * nominal_share) *
                                  processor->limit_w;
        const double kept = !full && use > 0.85 ? fmax(0, 1 - (use - 0.85) / 0.15) : 1;
        const double throughput = full ? nominal_t / t : 1;
        const double value = kept - AW_REWARD_POWER * power / fmax(full_power, 1) +
                             AW_REWARD_THROUGHPUT * (throughput - 1);
        if (value > best) {
            best = value;
            choice = level;
        }
    }
    return choice;
}

const struct aw_governor aw_governors[] = {
    {"performance", "always the most", performance},
    {"powersave", "always the least", powersave},
    {"ondemand", "the most above 80 % use, else in proportion", ondemand},
    {"conservative", "a level up above 80 % use, a level down below 20 %", conservative},
    {"schedutil", "1.25 x the frequency that the load would fill", schedutil},
    {"nominal", "the frequency that the processor is sold with", nominal},
    {"two-point-fit", "c and m from two frequencies, then the best of the reward", two_point},
    {NULL, NULL, NULL},
};

const struct aw_governor *aw_governor_find(const char *name)
{
    for (const struct aw_governor *governor = aw_governors; governor->name; governor++) {
        if (!strcmp(governor->name, name))
            return governor;
    }
    return NULL;
}

void aw_governor_reset(struct aw_governor_state *state, const struct aw_processor *processor)
{
    *state =
        (struct aw_governor_state){.processor = processor, .level = aw_level_nominal(processor)};
}

double aw_frequency_value(const struct aw_machine *machine, uint32_t level)
{
    const struct aw_frequency_pair *pair = &machine->pair;
    const struct aw_processor *processor = &pair->processor;
    const struct aw_phase *phase = &pair->phase[machine->phase];
    const double per_s = (phase->cycles / processor->nominal_ghz + phase->memory_ns) * 1e-9;
    struct aw_second second;
    double backlog;
    aw_machine_try(machine, level, &second, &backlog);
    return second.reward - BACKLOG_COST * backlog * pair->instructions * per_s / processor->cores;
}

uint32_t aw_frequency_oracle(const struct aw_machine *machine)
{
    double best = -INFINITY;
    uint32_t choice = 0;
    for (uint32_t level = 0; level < AW_LEVELS; level++) {
        const double value = aw_frequency_value(machine, level);
        if (value > best) {
            best = value;
            choice = level;
        }
    }
    return choice;
}

uint32_t aw_frequency_static_best(const struct aw_frequency_pair *pair,
                                  enum aw_frequency_reward reward, uint64_t seed,
                                  double *ret_reward)
{
    double best = -INFINITY;
    uint32_t choice = 0;
    for (uint32_t level = 0; level < AW_LEVELS; level++) {
        struct aw_machine machine;
        struct aw_second second;
        float obs[AW_FREQUENCY_OBS];
        double sum = 0;
        aw_machine_reset(&machine, pair, reward, seed, obs);
        for (uint32_t i = 0; i < AW_MACHINE_SECONDS; i++) {
            aw_machine_step(&machine, level, obs, &second);
            sum += second.reward;
        }
        if (sum > best) {
            best = sum;
            choice = level;
        }
    }
    *ret_reward = best / AW_MACHINE_SECONDS;
    return choice;
}
