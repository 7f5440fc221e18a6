/*
 * lifecycle.c - Algorithm 1 of AWARE as a function of the last episodes.
 *
 * Thresholds that are `auto`, from the fallback's n episodes with mean m and deviation s, and the
 * agent's window of K:
 *
 *   T_online   m                       the estimate's lower bound must reach what is had already
 *   T_serving  m + serving_margin * s / sqrt(n)      m itself is only known to within s / sqrt(n)
 *   T_var      max(deviation_factor * s, 5 % of |m|) a calm load makes s tiny, which no agent that
 *                                                    tries anything could match
 *
 * SERVING ends below T_serving - hysteresis * e, where e is the standard error of the window's mean
 * (its own deviation over sqrt(K)): as far as chance alone moves it. The same e, for the difference
 * of two windows, measures drift from the agent's own level (AWARE section 5.3 retrains at 2.6 %
 * below the converged reward, although that is far above the fallback's).
 */
#include "safety/lifecycle.h"

#include "base/stats.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define DEVIATION_SHARE_MIN 0.05 /* of |mean|: T_var is never stricter */
#define BACKOFF_MAX         6u   /* doublings of offline_least */
#define NONE                ((double)NAN)

#define AW_CONF_OF struct aw_lifecycle_settings
const struct aw_conf_field aw_lifecycle_fields[] = {
    AW_CONF_PLAIN(bootstrap, "true",
                  "begin OFFLINE: the fallback acts and the agent learns from it"),
    AW_CONF_PLAIN(
        retrain_offline, "false",
        "high stakes: the fallback acts while the agent learns again (AWARE section 3.3)"),
    AW_CONF_NUMBER(
        window, "10", 2, AW_LIFECYCLE_WINDOW_MAX,
        "episodes over which mean and deviation are taken; ten know a deviation to within a "
        "quarter"),
    AW_CONF_NUMBER(fill, "5", 2, AW_LIFECYCLE_WINDOW_MAX,
                   "episodes of the window at least before anything is judged"),
    AW_CONF_NUMBER(
        offline_least, "5", 1, 1000,
        "episodes to stay OFFLINE at least; doubles each time the agent was poor or tripped"),
    AW_CONF_NUMBER(stage_least, "5", 1, 1000, "episodes to stay ONLINE and SERVING at least"),
    AW_CONF_NUMBER(streak, "2", 1, 100, "episodes in a row that must fail before SERVING ends"),
    AW_CONF_NUMBER(
        patience, "20", 0, 100000,
        "ONLINE episodes after which a mean below T_online ends it; 0 is AWARE's algorithm to the "
        "letter, which waits for ever"),
    AW_CONF_NUMBER(
        serving_margin, "1", 0, 100,
        "auto T_serving: standard errors above the fallback's mean; one means better with 84 %"),
    AW_CONF_NUMBER(
        hysteresis, "2", 0, 100,
        "standard errors of the window's mean below T_serving before SERVING ends; chance alone "
        "goes as far once in forty"),
    AW_CONF_NUMBER(deviation_factor, "2", 0, 100, "auto T_var: times the fallback's deviation"),
    AW_CONF_NUMBER(deviation_hysteresis, "0.25", 0, 100,
                   "relative excess over T_var before SERVING ends; what ten episodes know it to"),
    AW_CONF_NUMBER(
        drift, "3", 0, 100,
        "auto T_serving: standard errors of a difference below its own level before SERVING ends; "
        "0 "
        "looks at the fallback alone"),
    AW_CONF_NUMBER(trip_count, "3", 1, AW_LIFECYCLE_TRIPS_MAX,
                   "trips of the watchdog that take the agent back to OFFLINE"),
    AW_CONF_NUMBER(trip_window, "21600", 1, 8640000, "seconds within which they count"),
    {0},
};

const char *aw_lifecycle_cause_name(enum aw_lifecycle_cause cause)
{
    static const char *const names[] = {
#define X(id, name, sentence) name,
        AW_LIFECYCLE_CAUSE_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)cause < AW_LIFECYCLE_CAUSE_COUNT);
    return names[cause];
}

const char *aw_lifecycle_cause_sentence(enum aw_lifecycle_cause cause)
{
    static const char *const sentences[] = {
#define X(id, name, sentence) sentence,
        AW_LIFECYCLE_CAUSE_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)cause < AW_LIFECYCLE_CAUSE_COUNT);
    return sentences[cause];
}

static const char *stage_name(enum aw_stage stage)
{
    static const char *const names[] = {
#define X(id, name) name,
        AW_STAGE_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)stage < AW_STAGE_COUNT);
    return names[stage];
}

const char *aw_lifecycle_reason_format(const struct aw_lifecycle_reason *reason, char *buf,
                                       size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "%s", stage_name(reason->from));
    if (reason->to != reason->from)
        aw_text_add(&text, " -> %s", stage_name(reason->to));
    aw_text_add(&text, ": %s", aw_lifecycle_cause_sentence(reason->cause));
    if (isfinite(reason->mean))
        aw_text_add(&text, "; mean %.2f", reason->mean);
    if (isfinite(reason->threshold))
        aw_text_add(&text, "; threshold %.2f", reason->threshold);
    if (isfinite(reason->std))
        aw_text_add(&text, "; deviation %.2f", reason->std);
    if (isfinite(reason->deviation))
        aw_text_add(&text, " of %.2f allowed", reason->deviation);
    if (reason->count > 0)
        aw_text_add(&text, "; over %" PRIu32, reason->count);
    return buf;
}

static void offline_words(const struct aw_lifecycle_reason *reason, uint32_t least,
                          const char *fallback, struct aw_text *text)
{
    switch (reason->cause) {
    case AW_LIFECYCLE_CAUSE_YOUNG_STAGE:
        aw_text_add(text, "learning from %s: %" PRIu32, fallback, reason->count);
        if (reason->count < least)
            aw_text_add(text, " of %" PRIu32 " episodes", least);
        else /* after a setback it stays for twice as long, and twice that */
            aw_text_add(text, " episodes, more are needed after a setback");
        return;
    case AW_LIFECYCLE_CAUSE_NO_REFERENCE:
        aw_text_add(text, "learning from %s: too few of its episodes to compare with", fallback);
        return;
    case AW_LIFECYCLE_CAUSE_NO_ESTIMATE:
        aw_text_add(text, "waiting: the agent has not been compared with %s yet", fallback);
        return;
    case AW_LIFECYCLE_CAUSE_ESTIMATE_LOW:
        aw_text_add(text, "waiting: not yet better than %s", fallback);
        return;
    case AW_LIFECYCLE_CAUSE_POOR:
        aw_text_add(text, "learning again: the agent did worse than %s for too long", fallback);
        return;
    case AW_LIFECYCLE_CAUSE_TRIPS:
        aw_text_add(text, "learning again: the watchdog tripped too often");
        return;
    default:
        aw_text_add(text, "learning: %s acts", fallback);
    }
}

const char *aw_lifecycle_reason_words(const struct aw_lifecycle_reason *reason, uint32_t least,
                                      const char *fallback, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    switch (reason->to) {
    case AW_STAGE_INITIALIZED:
        aw_text_add(&text, "not begun: %s acts", fallback);
        break;
    case AW_STAGE_OFFLINE:
        offline_words(reason, least, fallback, &text);
        break;
    case AW_STAGE_ONLINE:
        aw_text_add(&text, reason->cause == AW_LIFECYCLE_CAUSE_DRIFTED
                               ? "the agent acts and learns again: the workload has drifted"
                               : "the agent acts and learns; it is not yet proven");
        break;
    default:
        aw_text_add(&text, "%s",
                    reason->cause == AW_LIFECYCLE_CAUSE_KNOWN
                        ? "the agent acts, with what did best in workloads like this one"
                    : reason->cause == AW_LIFECYCLE_CAUSE_NO_WINDOW ||
                            reason->cause == AW_LIFECYCLE_CAUSE_YOUNG_STAGE
                        ? "the agent acts and is watched; too soon to judge it"
                        : "the agent acts; it has proven itself and is watched");
    }
    return buf;
}

enum aw_err aw_lifecycle_init(struct aw_lifecycle *lifecycle,
                              const struct aw_lifecycle_settings *settings,
                              const struct aw_lifecycle_thresholds *thresholds,
                              struct aw_diag *diag)
{
    const double deviation = thresholds->deviation;
    if (settings->fill > settings->window)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "fill: expected at most the window of %" PRIu32 ", found %" PRIu32,
                       settings->window, settings->fill);
    if (isinf(thresholds->online) || isinf(thresholds->serving) || isinf(deviation))
        return aw_fail(diag, AW_ERR_CONFIG, "a threshold is infinite");
    if (deviation < 0)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "a deviation is never below 0: expected a threshold above, found %g",
                       deviation);
    AW_ASSERT(settings->window >= 2 && settings->window <= AW_LIFECYCLE_WINDOW_MAX);
    AW_ASSERT(settings->fill >= 2 && settings->trip_count <= AW_LIFECYCLE_TRIPS_MAX);
    *lifecycle = (struct aw_lifecycle){.settings = *settings, .thresholds = *thresholds};
    return AW_OK;
}

/* --- figures of the rings ---------------------------------------------------------------------
 */

struct figures {
    uint32_t count;
    double mean, std, error; /* error: standard error of the mean; NAN without enough episodes */
};

static void ring_push(struct aw_lifecycle_ring *ring, uint32_t window, double score)
{
    ring->score[ring->next] = score;
    ring->next = (ring->next + 1) % window;
    ring->count += ring->count < window;
}

static struct figures ring_figures(const struct aw_lifecycle_ring *ring, uint32_t fill)
{
    if (ring->count < fill)
        return (struct figures){ring->count, NONE, NONE, NONE};
    const double std = aw_stats_std(ring->score, ring->count);
    return (struct figures){ring->count, aw_stats_mean(ring->score, ring->count), std,
                            std / sqrt((double)ring->count)};
}

static bool is_auto(double threshold)
{
    return isnan(threshold);
}

void aw_lifecycle_limits(const struct aw_lifecycle *lifecycle,
                         const struct aw_lifecycle_memory *memory,
                         struct aw_lifecycle_limits *ret_limits)
{
    const struct aw_lifecycle_settings *s = &lifecycle->settings;
    const struct aw_lifecycle_thresholds *t = &lifecycle->thresholds;
    const struct figures fallback = ring_figures(&memory->fallback, s->fill);
    const struct figures agent = ring_figures(&memory->agent, s->fill);
    const double error = isnan(agent.error) ? 0 : agent.error;

    struct aw_lifecycle_limits limits;
    limits.online = is_auto(t->online) ? fallback.mean : t->online;
    limits.serving_enter =
        is_auto(t->serving) ? fallback.mean + s->serving_margin * fallback.error : t->serving;
    limits.serving_leave = limits.serving_enter - s->hysteresis * error;
    limits.deviation_enter = t->deviation;
    if (is_auto(t->deviation) && !isnan(fallback.mean))
        limits.deviation_enter =
            fmax(s->deviation_factor * fallback.std, DEVIATION_SHARE_MIN * fabs(fallback.mean));
    limits.deviation_leave = limits.deviation_enter * (1 + s->deviation_hysteresis);
    limits.drift = NONE;
    if (is_auto(t->serving) && s->drift > 0 && !isnan(memory->level_mean)) {
        const double std = fmax(memory->level_std, agent.std);
        limits.drift = memory->level_mean - s->drift * std * sqrt(2.0 / (double)s->window);
    }
    *ret_limits = limits;
}

/* --- transitions ------------------------------------------------------------------------------
 */

static struct aw_lifecycle_reason reason_of(const struct aw_lifecycle_memory *memory,
                                            enum aw_lifecycle_cause cause)
{
    return (struct aw_lifecycle_reason){.cause = cause,
                                        .from = memory->stage,
                                        .to = memory->stage,
                                        .mean = NONE,
                                        .std = NONE,
                                        .threshold = NONE,
                                        .deviation = NONE};
}

static void enter(struct aw_lifecycle_memory *memory, enum aw_stage stage,
                  struct aw_lifecycle_reason *reason)
{
    reason->to = stage;
    memory->agent = (struct aw_lifecycle_ring){0};
    memory->level_mean = memory->level_std = NONE;
    memory->stage = stage;
    memory->stage_episodes = memory->fail_streak = 0;
    if (stage == AW_STAGE_SERVING)
        memory->demotions = 0;
    memory->acted |= aw_lifecycle_agent_acts(memory);
}

/* Back to OFFLINE for having failed. The same estimate would let it out again at once, so each time
 * it stays for twice as long. */
static void demote(struct aw_lifecycle_memory *memory, struct aw_lifecycle_reason *reason)
{
    enter(memory, AW_STAGE_OFFLINE, reason);
    memory->demotions += memory->demotions < UINT32_MAX;
}

void aw_lifecycle_begin(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                        struct aw_lifecycle_reason *ret_reason)
{
    memset(memory, 0, sizeof *memory);
    memory->stage = AW_STAGE_INITIALIZED;
    for (uint32_t i = 0; i < AW_LIFECYCLE_TRIPS_MAX; i++)
        memory->trip_us[i] = INT64_MIN;
    const bool bootstrap = lifecycle->settings.bootstrap;
    struct aw_lifecycle_reason reason = reason_of(
        memory, bootstrap ? AW_LIFECYCLE_CAUSE_BOOTSTRAP : AW_LIFECYCLE_CAUSE_NO_BOOTSTRAP);
    enter(memory, bootstrap ? AW_STAGE_OFFLINE : AW_STAGE_ONLINE, &reason);
    if (ret_reason)
        *ret_reason = reason;
}

static uint32_t offline_least(const struct aw_lifecycle *lifecycle,
                              const struct aw_lifecycle_memory *memory)
{
    const uint32_t doublings = memory->demotions < BACKOFF_MAX ? memory->demotions : BACKOFF_MAX;
    return lifecycle->settings.offline_least << doublings;
}

/* Alg. 1, lines 10 to 13: the agent does not act, so its score is an estimate, and its lower bound
 * is what one may rely on. */
static struct aw_lifecycle_reason look_offline(const struct aw_lifecycle *lifecycle,
                                               struct aw_lifecycle_memory *memory,
                                               const struct aw_lifecycle_episode *episode,
                                               const struct aw_lifecycle_estimate *estimate)
{
    struct aw_lifecycle_limits limits;
    aw_lifecycle_limits(lifecycle, memory, &limits);
    struct aw_lifecycle_reason reason = reason_of(memory, AW_LIFECYCLE_CAUSE_YOUNG_STAGE);
    reason.threshold = limits.online;
    reason.count = memory->stage_episodes;
    if (memory->stage_episodes < offline_least(lifecycle, memory))
        return reason;
    reason.cause = AW_LIFECYCLE_CAUSE_NO_REFERENCE;
    if (isnan(limits.online))
        return reason;
    if (episode->admitted) {
        reason.cause = AW_LIFECYCLE_CAUSE_ADMITTED;
        enter(memory, AW_STAGE_ONLINE, &reason);
        return reason;
    }
    reason.cause = AW_LIFECYCLE_CAUSE_NO_ESTIMATE;
    if (!estimate || !isfinite(estimate->low))
        return reason;
    reason.mean = estimate->low;
    reason.cause = AW_LIFECYCLE_CAUSE_ESTIMATE_LOW;
    if (estimate->low < limits.online)
        return reason;
    reason.cause = AW_LIFECYCLE_CAUSE_ESTIMATE_GOOD;
    enter(memory, AW_STAGE_ONLINE, &reason);
    return reason;
}

/* Lines 14 to 17. */
static struct aw_lifecycle_reason look_online(const struct aw_lifecycle *lifecycle,
                                              struct aw_lifecycle_memory *memory)
{
    const struct aw_lifecycle_settings *s = &lifecycle->settings;
    const struct figures agent = ring_figures(&memory->agent, s->fill);
    struct aw_lifecycle_limits limits;
    aw_lifecycle_limits(lifecycle, memory, &limits);
    struct aw_lifecycle_reason reason = reason_of(memory, AW_LIFECYCLE_CAUSE_NO_WINDOW);
    reason.count = agent.count;
    reason.mean = agent.mean;
    reason.std = agent.std;
    reason.threshold = limits.serving_enter;
    reason.deviation = limits.deviation_enter;
    if (isnan(agent.mean))
        return reason;
    reason.cause = AW_LIFECYCLE_CAUSE_YOUNG_STAGE;
    if (memory->stage_episodes < s->stage_least)
        return reason;
    if (s->patience > 0 && s->bootstrap && memory->stage_episodes >= s->patience &&
        agent.mean < limits.online) {
        reason.cause = AW_LIFECYCLE_CAUSE_POOR;
        reason.threshold = limits.online;
        demote(memory, &reason);
        return reason;
    }
    reason.cause = AW_LIFECYCLE_CAUSE_NO_REFERENCE;
    if (isnan(limits.serving_enter) || isnan(limits.deviation_enter))
        return reason;
    reason.cause = AW_LIFECYCLE_CAUSE_MEAN_LOW;
    if (agent.mean < limits.serving_enter)
        return reason;
    reason.cause = AW_LIFECYCLE_CAUSE_DEVIATION_HIGH;
    if (agent.std > limits.deviation_enter)
        return reason;
    reason.cause = AW_LIFECYCLE_CAUSE_PROVEN;
    enter(memory, AW_STAGE_SERVING, &reason);
    return reason;
}

/* The first full window in SERVING is what drift is measured from. Not the best one: the best of
 * many is lucky, and what follows luck looks like drift. */
static void note_level(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                       const struct figures *agent)
{
    if (agent->count < lifecycle->settings.window || !isnan(memory->level_mean))
        return;
    memory->level_mean = agent->mean;
    memory->level_std = agent->std;
}

/* Lines 18 to 21, with what keeps it from flapping. */
static struct aw_lifecycle_reason look_serving(const struct aw_lifecycle *lifecycle,
                                               struct aw_lifecycle_memory *memory)
{
    const struct aw_lifecycle_settings *s = &lifecycle->settings;
    const struct figures agent = ring_figures(&memory->agent, s->fill);
    struct aw_lifecycle_limits limits;
    aw_lifecycle_limits(lifecycle, memory, &limits);
    struct aw_lifecycle_reason reason = reason_of(memory, AW_LIFECYCLE_CAUSE_NO_WINDOW);
    reason.count = agent.count;
    reason.mean = agent.mean;
    reason.std = agent.std;
    reason.threshold = limits.serving_leave;
    reason.deviation = limits.deviation_leave;
    if (isnan(agent.mean))
        return reason;
    /* what is not known (NAN) accuses nobody */
    if (agent.mean < limits.serving_leave) {
        reason.cause = AW_LIFECYCLE_CAUSE_MEAN_LOW;
    } else if (agent.std > limits.deviation_leave) {
        reason.cause = AW_LIFECYCLE_CAUSE_DEVIATION_HIGH;
    } else if (agent.mean < limits.drift) {
        reason.cause = AW_LIFECYCLE_CAUSE_DRIFTED;
        reason.threshold = limits.drift;
    } else {
        reason.cause = AW_LIFECYCLE_CAUSE_HOLDS;
        memory->fail_streak = 0;
        note_level(lifecycle, memory, &agent);
        return reason;
    }
    memory->fail_streak++;
    if (memory->fail_streak >= s->streak && memory->stage_episodes >= s->stage_least)
        enter(memory, s->retrain_offline ? AW_STAGE_OFFLINE : AW_STAGE_ONLINE, &reason);
    return reason;
}

bool aw_lifecycle_episode(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                          const struct aw_lifecycle_episode *episode,
                          const struct aw_lifecycle_estimate *estimate,
                          struct aw_lifecycle_reason *ret_reason)
{
    const uint32_t window = lifecycle->settings.window;
    const enum aw_stage before = memory->stage;
    AW_ASSERT(before != AW_STAGE_INITIALIZED);
    memory->episodes++;
    memory->stage_episodes++;
    const bool acts = aw_lifecycle_agent_acts(memory);
    if (isfinite(episode->score) && acts && episode->agent_share >= AW_LIFECYCLE_AGENT_SHARE)
        ring_push(&memory->agent, window, episode->score);
    if (isfinite(episode->score) && episode->agent_share <= AW_LIFECYCLE_FALLBACK_SHARE)
        ring_push(&memory->fallback, window, episode->score);

    struct aw_lifecycle_reason reason =
        before == AW_STAGE_OFFLINE  ? look_offline(lifecycle, memory, episode, estimate)
        : before == AW_STAGE_ONLINE ? look_online(lifecycle, memory)
                                    : look_serving(lifecycle, memory);
    if (ret_reason)
        *ret_reason = reason;
    return memory->stage != before;
}

/* Episodes to stay OFFLINE with a policy that others have lived: one, then twice as many each time.
 * Where stakes are high it waits as long as any other policy. */
static uint32_t known_least(const struct aw_lifecycle *lifecycle,
                            const struct aw_lifecycle_memory *memory)
{
    if (lifecycle->settings.retrain_offline)
        return offline_least(lifecycle, memory);
    const uint32_t again = memory->demotions > 0 ? memory->demotions - 1 : 0;
    return 1u << (again < BACKOFF_MAX ? again : BACKOFF_MAX);
}

bool aw_lifecycle_known(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                        struct aw_lifecycle_reason *ret_reason)
{
    if (memory->stage != AW_STAGE_OFFLINE ||
        (memory->acted && memory->stage_episodes < known_least(lifecycle, memory)))
        return false;
    const uint32_t demotions = memory->demotions;
    struct aw_lifecycle_reason reason = reason_of(memory, AW_LIFECYCLE_CAUSE_KNOWN);
    enter(memory, AW_STAGE_SERVING, &reason);
    memory->demotions = demotions; /* nothing was proven */
    if (ret_reason)
        *ret_reason = reason;
    return true;
}

bool aw_lifecycle_trip(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                       int64_t now_us, struct aw_lifecycle_reason *ret_reason)
{
    const struct aw_lifecycle_settings *s = &lifecycle->settings;
    const int64_t window_us = (int64_t)(s->trip_window * 1e6);
    memory->trip_us[memory->trip_next] = now_us;
    memory->trip_next = (memory->trip_next + 1) % AW_LIFECYCLE_TRIPS_MAX;
    uint32_t count = 0;
    for (uint32_t i = 0; i < AW_LIFECYCLE_TRIPS_MAX; i++) {
        int64_t age;
        if (memory->trip_us[i] == INT64_MIN)
            continue;
        /* a clock that went back: what is to come was just now */
        count += !__builtin_sub_overflow(now_us, memory->trip_us[i], &age) && age < window_us;
    }
    struct aw_lifecycle_reason reason = reason_of(memory, AW_LIFECYCLE_CAUSE_TRIPS);
    reason.count = count;
    const bool demoted = count >= s->trip_count && aw_lifecycle_agent_acts(memory);
    if (demoted) {
        demote(memory, &reason);
        for (uint32_t i = 0; i < AW_LIFECYCLE_TRIPS_MAX; i++)
            memory->trip_us[i] = INT64_MIN; /* paid for */
    } else {
        reason.cause = AW_LIFECYCLE_CAUSE_NONE;
    }
    if (ret_reason)
        *ret_reason = reason;
    return demoted;
}

bool aw_lifecycle_agent_acts(const struct aw_lifecycle_memory *memory)
{
    return memory->stage == AW_STAGE_ONLINE || memory->stage == AW_STAGE_SERVING;
}

bool aw_lifecycle_agent_learns(const struct aw_lifecycle_memory *memory)
{
    return memory->stage == AW_STAGE_OFFLINE || memory->stage == AW_STAGE_ONLINE;
}
