/*
 * watchdog.c - what ends the agent's turn, the quiet time after it, and what exploring may spend.
 *
 * The causes are asked from the plainest to the most laborious, so that of several the one is named
 * which a person would mend first.
 */
#include "safety/watchdog.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define NONE ((double)NAN)

/* The fallback's own violations are remembered over about this many of its steps (a day of 15 s is
 * 5760), and count from this many on. */
#define FALLBACK_STEPS     4000.0
#define FALLBACK_STEPS_MIN 100.0

#define LEVEL_MAX 16u  /* doublings of the quiet time that are remembered */
#define FORGET    4    /* quiet times without a trip that take back one doubling */
#define STD_MIN   0.05 /* of a state's element: states are in [0, 1] or [-1, 1] */

#define DAY 86400

#define AW_CONF_OF struct aw_watchdog_settings
const struct aw_conf_field aw_watchdog_fields[] = {
    AW_CONF_NUMBER(slo_budget, "0.01", 0, 1, "share of steps that may miss the SLO"),
    AW_CONF_NUMBER(window, "100", 1, AW_WATCHDOG_WINDOW_MAX,
                   "steps of the agent over which violations are counted; an episode"),
    AW_CONF_NUMBER(
        slack, "3", 0, AW_WATCHDOG_WINDOW_MAX,
        "violations beyond the budget before it trips; with a budget of 1 % chance alone makes "
        "five in "
        "a hundred steps once in 270 windows"),
    AW_CONF_NUMBER(fallback_factor, "1.1", 0, 100,
                   "times the fallback's own share of violations, when that is above the budget"),
    AW_CONF_NUMBER(grace, "2", 0, AW_WATCHDOG_WINDOW_MAX,
                   "steps after taking over whose violations belong to who acted before"),
    AW_CONF_NUMBER(stale, "45", 0, DAY, "seconds after which a needed figure counts as missing"),
    AW_CONF_NUMBER(
        strange, "4", 0, 1e6,
        "deviations that an element of the state may lie outside all that was trained on"),
    AW_CONF_NUMBER(deadline, "1", 0, DAY, "seconds that a decision may take"),
    AW_CONF_NUMBER(quiet, "300", 1, DAY,
                   "seconds for which the fallback acts after a trip; doubles"),
    AW_CONF_NUMBER(quiet_max, "14400", 1, 30 * DAY, "longest of these times in seconds"),
    AW_CONF_NUMBER(explore_window, "400", AW_EXPLORE_PIECES, 1000000,
                   "steps over which exploring is accounted; four episodes"),
    AW_CONF_NUMBER(explore_violation, "0.5", 0, 100,
                   "share of slo_budget that exploring may spend in that window"),
    AW_CONF_NUMBER(explore_cost, "0.05", 0, 100,
                   "extra cost per step of that window that exploring may cause"),
    AW_CONF_NUMBER(explore_slack, "1", 0, 1000,
                   "violations while exploring that are always forgiven"),
    {0},
};

static const struct {
    const char *name, *sentence;
    bool fault;
} causes[] = {
#define X(id, name, fault, sentence) {name, sentence, fault},
    AW_WATCHDOG_CAUSE_MAP(X)
#undef X
};

const char *aw_watchdog_cause_name(enum aw_watchdog_cause cause)
{
    AW_ASSERT((size_t)cause < AW_WATCHDOG_CAUSE_COUNT);
    return causes[cause].name;
}

const char *aw_watchdog_cause_sentence(enum aw_watchdog_cause cause)
{
    AW_ASSERT((size_t)cause < AW_WATCHDOG_CAUSE_COUNT);
    return causes[cause].sentence;
}

bool aw_watchdog_cause_fault(enum aw_watchdog_cause cause)
{
    AW_ASSERT((size_t)cause < AW_WATCHDOG_CAUSE_COUNT);
    return causes[cause].fault;
}

const char *aw_watchdog_reason_format(const struct aw_watchdog_reason *reason, char *buf,
                                      size_t size)
{
    static const char *const units[AW_WATCHDOG_CAUSE_COUNT] = {
        [AW_WATCHDOG_CAUSE_NO_FIGURES] = " s old",
        [AW_WATCHDOG_CAUSE_STRANGE] = " deviations outside",
        [AW_WATCHDOG_CAUSE_DEADLINE] = " s",
        [AW_WATCHDOG_CAUSE_SLO_BUDGET] = " violations in the window",
    };
    const char *unit = units[reason->cause];
    struct aw_text text;
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "%s", aw_watchdog_cause_sentence(reason->cause));
    if (unit && isfinite(reason->value))
        aw_text_add(&text, "; %.3g%s, %.3g allowed", reason->value, unit, reason->limit);
    if (isfinite(reason->quiet_s))
        aw_text_add(&text, "; the fallback acts for %.0f s", reason->quiet_s);
    return buf;
}

void aw_watchdog_begin(struct aw_watchdog_memory *memory, int64_t now_us)
{
    memset(memory, 0, sizeof *memory);
    memory->until_us = AW_WATCHDOG_ARMED;
    memory->seen_us = memory->armed_us = now_us;
}

/* --- what has happened ------------------------------------------------------------------------
 */

static void ring_clear(struct aw_watchdog_memory *memory)
{
    memset(memory->missed, 0, sizeof memory->missed);
    memory->step_count = memory->step_next = memory->missed_count = 0;
}

static void ring_push(struct aw_watchdog_memory *memory, uint32_t window, bool missed)
{
    const uint32_t at = memory->step_next;
    uint64_t *word = &memory->missed[at / 64];
    const uint64_t bit = UINT64_C(1) << (at % 64);
    memory->missed_count -= *word & bit ? 1 : 0;
    *word = missed ? *word | bit : *word & ~bit;
    memory->missed_count += missed;
    memory->step_next = at + 1 < window ? at + 1 : 0;
    memory->step_count += memory->step_count < window;
}

static bool by_agent(enum aw_actor actor)
{
    return actor == AW_ACTOR_AGENT || actor == AW_ACTOR_EXPLORING;
}

static void account_exploring(const struct aw_watchdog_settings *settings,
                              struct aw_watchdog_memory *memory,
                              const struct aw_watchdog_input *input)
{
    const uint32_t piece_steps = settings->explore_window / AW_EXPLORE_PIECES;
    uint32_t at = memory->explore_piece % AW_EXPLORE_PIECES;
    if (memory->explore_steps[at] >= piece_steps) {
        at = (at + 1) % AW_EXPLORE_PIECES;
        memory->explore_piece = at;
        memory->explore_steps[at] = memory->explore_missed[at] = 0;
        memory->explore_extra[at] = 0;
    }
    memory->explore_steps[at]++;
    if (input->last_actor != AW_ACTOR_EXPLORING)
        return;
    memory->explore_missed[at] += input->last_slo == AW_WATCHDOG_SLO_MISSED;
    /* savings count too: what exploring loses here it may win there */
    if (isfinite(input->last_extra_cost))
        memory->explore_extra[at] += input->last_extra_cost;
}

/* The step that has ended, to whom it belongs. */
static void account(const struct aw_watchdog_settings *settings, struct aw_watchdog_memory *memory,
                    const struct aw_watchdog_input *input)
{
    const bool missed = input->last_slo == AW_WATCHDOG_SLO_MISSED;
    memory->last_slo = input->last_slo;
    if (input->last_actor == AW_ACTOR_NOBODY)
        return;
    account_exploring(settings, memory, input);
    if (by_agent(input->last_actor)) {
        memory->acted_steps += memory->acted_steps < UINT32_MAX;
        if (memory->acted_steps > settings->grace && input->last_slo != AW_WATCHDOG_SLO_UNKNOWN)
            ring_push(memory, settings->window, missed);
        return;
    }
    memory->acted_steps = 0;
    if (input->last_slo == AW_WATCHDOG_SLO_UNKNOWN)
        return;
    const double fade = 1 - 1 / FALLBACK_STEPS;
    memory->fallback_steps = fade * memory->fallback_steps + 1;
    memory->fallback_missed = fade * memory->fallback_missed + missed;
}

/* --- judging ----------------------------------------------------------------------------------
 */

static double limit_of(const struct aw_watchdog_settings *settings,
                       const struct aw_watchdog_memory *memory)
{
    double share = settings->slo_budget;
    if (memory->fallback_steps >= FALLBACK_STEPS_MIN)
        share = fmax(share,
                     settings->fallback_factor * memory->fallback_missed / memory->fallback_steps);
    return share * settings->window + settings->slack;
}

double aw_watchdog_allowed(const struct aw_watchdog_settings *settings,
                           const struct aw_watchdog_memory *memory)
{
    return fmax(limit_of(settings, memory) - memory->missed_count, 0);
}

/* What can be seen whoever acts: as long as it lasts, the agent gets nothing back. */
static enum aw_watchdog_cause look_around(const struct aw_watchdog_settings *settings,
                                          const struct aw_watchdog_input *input,
                                          struct aw_watchdog_reason *reason)
{
    if (!(input->age_s <= settings->stale)) { /* NAN: missing */
        *reason = (struct aw_watchdog_reason){.value = input->age_s, .limit = settings->stale};
        return AW_WATCHDOG_CAUSE_NO_FIGURES;
    }
    if (input->distance > settings->strange) {
        *reason = (struct aw_watchdog_reason){.value = input->distance, .limit = settings->strange};
        return AW_WATCHDOG_CAUSE_STRANGE;
    }
    return AW_WATCHDOG_CAUSE_NONE;
}

static enum aw_watchdog_cause look(const struct aw_watchdog_settings *settings,
                                   const struct aw_watchdog_memory *memory,
                                   const struct aw_watchdog_input *input,
                                   struct aw_watchdog_reason *reason)
{
    *reason = (struct aw_watchdog_reason){.value = NONE, .limit = NONE};
    if (!input->finite)
        return AW_WATCHDOG_CAUSE_NOT_FINITE;
    enum aw_watchdog_cause cause = look_around(settings, input, reason);
    if (cause)
        return cause;
    if (!(input->took_s <= settings->deadline)) {
        *reason = (struct aw_watchdog_reason){.value = input->took_s, .limit = settings->deadline};
        return AW_WATCHDOG_CAUSE_DEADLINE;
    }
    const double limit = limit_of(settings, memory);
    if (memory->missed_count > limit) {
        *reason = (struct aw_watchdog_reason){.value = memory->missed_count, .limit = limit};
        return AW_WATCHDOG_CAUSE_SLO_BUDGET;
    }
    return AW_WATCHDOG_CAUSE_NONE;
}

static double quiet_s(const struct aw_watchdog_settings *settings, uint32_t level)
{
    return fmin(ldexp(settings->quiet, (int)level), settings->quiet_max);
}

static int64_t later(int64_t time_us, double seconds)
{
    int64_t result;
    return __builtin_add_overflow(time_us, (int64_t)(seconds * 1e6), &result) ? INT64_MAX : result;
}

/* The clock went back: what is remembered goes with it, or the quiet time would last for years. */
static void clock_back(struct aw_watchdog_memory *memory, int64_t now_us)
{
    int64_t by;
    if (now_us >= memory->seen_us || __builtin_sub_overflow(now_us, memory->seen_us, &by))
        return;
    if (memory->until_us != AW_WATCHDOG_ARMED &&
        (__builtin_add_overflow(memory->until_us, by, &memory->until_us) ||
         memory->until_us == AW_WATCHDOG_ARMED))
        memory->until_us = now_us;
    if (__builtin_add_overflow(memory->armed_us, by, &memory->armed_us))
        memory->armed_us = now_us;
}

/* Each time that it has stayed armed for some quiet times, one trip is forgiven. */
static void forgive(const struct aw_watchdog_settings *settings, struct aw_watchdog_memory *memory,
                    int64_t now_us)
{
    while (memory->level > 0) {
        const int64_t due = later(memory->armed_us, FORGET * quiet_s(settings, memory->level));
        if (now_us < due)
            return;
        memory->armed_us = due;
        memory->level--;
    }
}

static enum aw_watchdog_verdict held(const struct aw_watchdog_memory *memory, int64_t now_us,
                                     struct aw_watchdog_reason *reason)
{
    const double left = ((double)memory->until_us - (double)now_us) * 1e-6;
    *reason = (struct aw_watchdog_reason){.cause = AW_WATCHDOG_CAUSE_QUIET,
                                          .value = NONE,
                                          .limit = NONE,
                                          .quiet_s = left > 0 ? left : 0};
    return AW_WATCHDOG_HELD;
}

static enum aw_watchdog_verdict judge(const struct aw_watchdog_settings *settings,
                                      struct aw_watchdog_memory *memory,
                                      const struct aw_watchdog_input *input, int64_t now_us,
                                      struct aw_watchdog_reason *reason)
{
    if (memory->until_us != AW_WATCHDOG_ARMED) {
        struct aw_watchdog_reason around;
        if (now_us < memory->until_us || look_around(settings, input, &around))
            return held(memory, now_us, reason);
        memory->until_us = AW_WATCHDOG_ARMED;
        memory->armed_us = now_us;
        memory->acted_steps = 0;
        ring_clear(memory);
    }
    forgive(settings, memory, now_us);
    *reason = (struct aw_watchdog_reason){.value = NONE, .limit = NONE, .quiet_s = NONE};
    if (!input->wanted)
        return AW_WATCHDOG_PASS;
    const enum aw_watchdog_cause cause = look(settings, memory, input, reason);
    reason->cause = cause;
    reason->quiet_s = NONE;
    if (cause == AW_WATCHDOG_CAUSE_NONE)
        return AW_WATCHDOG_PASS;
    reason->quiet_s = quiet_s(settings, memory->level);
    memory->until_us = later(now_us, reason->quiet_s);
    memory->level += memory->level < LEVEL_MAX;
    memory->cause = cause;
    memory->trips++;
    return AW_WATCHDOG_TRIPPED;
}

enum aw_watchdog_verdict aw_watchdog_step(const struct aw_watchdog_settings *settings,
                                          struct aw_watchdog_memory *memory,
                                          const struct aw_watchdog_input *input, int64_t now_us,
                                          struct aw_watchdog_reason *ret_reason)
{
    AW_ASSERT(settings->window > 0 && settings->window <= AW_WATCHDOG_WINDOW_MAX);
    AW_ASSERT(settings->explore_window >= AW_EXPLORE_PIECES);
    struct aw_watchdog_reason reason;
    clock_back(memory, now_us);
    account(settings, memory, input);
    const enum aw_watchdog_verdict verdict = judge(settings, memory, input, now_us, &reason);
    memory->seen_us = now_us;
    if (ret_reason)
        *ret_reason = reason;
    return verdict;
}

bool aw_explore_allowed(const struct aw_watchdog_settings *settings,
                        const struct aw_watchdog_memory *memory)
{
    double extra = 0, missed = 0, steps = 0;
    if (memory->until_us != AW_WATCHDOG_ARMED || memory->last_slo != AW_WATCHDOG_SLO_MET)
        return false;
    for (uint32_t i = 0; i < AW_EXPLORE_PIECES; i++) {
        extra += memory->explore_extra[i];
        missed += memory->explore_missed[i];
        steps += memory->explore_steps[i];
    }
    /* a window that is not full yet has its whole budget: else nobody could begin */
    steps = fmax(steps, settings->explore_window);
    return missed <= settings->explore_violation * settings->slo_budget * steps +
                         settings->explore_slack &&
           extra <= settings->explore_cost * steps;
}

/* --- what was trained on ----------------------------------------------------------------------
 */

void aw_familiar_begin(struct aw_familiar *familiar, uint32_t dim)
{
    AW_ASSERT(dim > 0 && dim <= AW_FAMILIAR_DIM_MAX);
    memset(familiar, 0, sizeof *familiar);
    familiar->dim = dim;
}

static bool all_finite(const struct aw_familiar *familiar, const float *state)
{
    for (uint32_t i = 0; i < familiar->dim; i++)
        if (!isfinite(state[i]))
            return false;
    return true;
}

void aw_familiar_push(struct aw_familiar *familiar, const float *state)
{
    if (!all_finite(familiar, state))
        return;
    const bool first = familiar->count++ == 0;
    for (uint32_t i = 0; i < familiar->dim; i++) {
        const double x = (double)state[i], away = x - familiar->mean[i];
        familiar->mean[i] += away / (double)familiar->count; /* Welford 1962 */
        familiar->m2[i] += away * (x - familiar->mean[i]);
        familiar->low[i] = first || state[i] < familiar->low[i] ? state[i] : familiar->low[i];
        familiar->high[i] = first || state[i] > familiar->high[i] ? state[i] : familiar->high[i];
    }
}

double aw_familiar_distance(const struct aw_familiar *familiar, const float *state)
{
    double worst = 0;
    if (!all_finite(familiar, state))
        return INFINITY;
    if (familiar->count < AW_FAMILIAR_COUNT_MIN)
        return NONE;
    for (uint32_t i = 0; i < familiar->dim; i++) {
        const double x = (double)state[i];
        const double out = fmax((double)familiar->low[i] - x, x - (double)familiar->high[i]);
        const double std = sqrt(familiar->m2[i] / (double)(familiar->count - 1));
        worst = fmax(worst, out / fmax(std, STD_MIN));
    }
    return worst;
}
