/*
 * canary.c - the state machine of a new policy, and its two tests.
 *
 * The score of the policy on trial is predicted as what the policy in force earns of late, m with
 * deviation s over n episodes, and the difference g +- e of the two on copies of the workload: what
 * copies get wrong of both is wrong of neither. The mean of k episodes is then
 *
 *     m + g +- width * sqrt(e^2 + s^2 / k + s^2 / n)
 *
 * and it is rolled back below the lower end, unless it is no worse than m by the same measure: what
 * is better than what one has need not be as good as was hoped.
 */
#include "safety/canary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

#define STD_SHARE_MIN 0.05 /* of |m|: a calm past makes s tiny, which no change could match */
#define NONE          ((double)NAN)

#define AW_CONF_OF struct aw_canary_settings
const struct aw_conf_field aw_canary_fields[] = {
    AW_CONF_PLAIN(enabled, "true",
                  "a new policy is watched and tried before it takes the old one's place"),
    AW_CONF_NUMBER(shadow_steps, "40", 1, 100000,
                   "steps for which it is asked beside the policy in force; forty are ten minutes"),
    AW_CONF_NUMBER(
        share, "0.25", 0.01, 1,
        "of its first episode, the last part, in which it acts; 1 begins with whole episodes"),
    AW_CONF_NUMBER(episodes, "2", 1, 1000, "whole episodes in which it acts before it is adopted"),
    AW_CONF_NUMBER(
        clipped, "0.2", 0, 1,
        "share of shadow steps in which hard rails may cut it, beyond those in which they cut the "
        "policy in force"),
    AW_CONF_NUMBER(
        width, "3", 0.1, 100,
        "deviations from its predicted score at which it is rolled back; chance alone goes as far "
        "once in seven hundred"),
    AW_CONF_NUMBER(chance, "0.01", 0, 1,
                   "probability of so many violations by chance, below which it is rolled back"),
    AW_CONF_NUMBER(clump, "3", 1, 100,
                   "steps: violations come in groups of about so many, which count as one"),
    AW_CONF_NUMBER(grace, "2", 0, 1000,
                   "steps after taking over that still belong to who acted before"),
    AW_CONF_NUMBER(
        restore_steps, "20", 0, 1000,
        "steps for which at least the last known good allocation is asked for after a rollback"),
    {0},
};

const char *aw_canary_state_name(enum aw_canary_state state)
{
    static const char *const names[] = {"none",    "shadow",      "trial",
                                        "adopted", "rolled_back", "refused"};
    AW_ASSERT((size_t)state < AW_CANARY_STATE_COUNT);
    return names[state];
}

const char *aw_canary_cause_sentence(enum aw_canary_cause cause)
{
    static const char *const sentences[] = {
#define X(id, sentence) sentence,
        AW_CANARY_CAUSE_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)cause < AW_CANARY_CAUSE_COUNT);
    return sentences[cause];
}

const char *aw_canary_reason_format(const struct aw_canary_reason *reason, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "%s", aw_canary_state_name(reason->from));
    if (reason->to != reason->from)
        aw_text_add(&text, " -> %s", aw_canary_state_name(reason->to));
    aw_text_add(&text, ": %s", aw_canary_cause_sentence(reason->cause));
    if (reason->trial)
        aw_text_add(&text, "; policy %016" PRIx64, reason->trial);
    if (reason->good)
        aw_text_add(&text, "; last known good %016" PRIx64, reason->good);
    if (isfinite(reason->observed))
        aw_text_add(&text, "; observed %.4g", reason->observed);
    if (isfinite(reason->predicted))
        aw_text_add(&text, "; predicted %.4g", reason->predicted);
    if (isfinite(reason->limit))
        aw_text_add(&text, "; limit %.4g", reason->limit);
    if (isfinite(reason->tail))
        aw_text_add(&text, "; probability by chance %.2g", reason->tail);
    if (reason->count > 0)
        aw_text_add(&text, "; over %" PRIu32, reason->count);
    return buf;
}

/* --- figures ---------------------------------------------------------------------------------- */

double aw_canary_tail(uint32_t n, double p, uint32_t k)
{
    if (k == 0)
        return 1;
    if (k > n || p <= 0)
        return 0;
    if (p >= 1)
        return 1;
    const double log_first = n * log1p(-p);
    if (log_first < -700) { /* the first term is no number any more; so many steps are normal */
        const double mean = n * p, std = sqrt(mean * (1 - p));
        return 0.5 * erfc(((double)k - 0.5 - mean) / (std * M_SQRT2));
    }
    double term = exp(log_first), below = term;
    for (uint32_t i = 1; i < k; i++) {
        term *= p / (1 - p) * (n - i + 1) / i;
        below += term;
    }
    return fmax(0, 1 - below);
}

/* Share of steps that may miss the SLO by prediction. */
static double canary_share(const struct aw_canary_memory *memory)
{
    /* fmax prefers what is known */
    return fmax(memory->good.budget,
                fmax(memory->candidate.violation_share, memory->good.violation_share));
}

double aw_canary_mean(const struct aw_canary_memory *memory)
{
    return memory->good.score_mean + memory->candidate.gain;
}

/* Of the mean of so many episodes, from chance alone. */
static double noise(const struct aw_canary_memory *memory, uint32_t episodes)
{
    const struct aw_canary_standing *good = &memory->good;
    const double std = fmax(good->score_std, STD_SHARE_MIN * fabs(good->score_mean));
    return std * sqrt(1.0 / (episodes > 0 ? episodes : 1) + 1.0 / fmax(1, good->episodes));
}

double aw_canary_low(const struct aw_canary_settings *settings,
                     const struct aw_canary_memory *memory, uint32_t episodes)
{
    const double chance = noise(memory, episodes);
    return fmin(aw_canary_mean(memory) -
                    settings->width * hypot(chance, memory->candidate.gain_error),
                memory->good.score_mean - settings->width * chance);
}

double aw_canary_high(const struct aw_canary_settings *settings,
                      const struct aw_canary_memory *memory, uint32_t episodes)
{
    return aw_canary_mean(memory) +
           settings->width * hypot(noise(memory, episodes), memory->candidate.gain_error);
}

/* --- steps ------------------------------------------------------------------------------------ */

static struct aw_canary_reason *step_to(struct aw_canary_memory *memory, enum aw_canary_state to,
                                        enum aw_canary_cause cause)
{
    memory->reason = (struct aw_canary_reason){.cause = cause,
                                               .from = (enum aw_canary_state)memory->state,
                                               .to = to,
                                               .trial = memory->candidate.id,
                                               .good = memory->good.id,
                                               .observed = NONE,
                                               .predicted = NONE,
                                               .limit = NONE,
                                               .tail = NONE};
    memory->state = to;
    return &memory->reason;
}

static struct aw_canary_reason *roll_back(const struct aw_canary_settings *settings,
                                          struct aw_canary_memory *memory,
                                          enum aw_canary_cause cause)
{
    memory->failures++;
    memory->restore_left = memory->allocation.set ? settings->restore_steps : 0;
    return step_to(memory, AW_CANARY_ROLLED_BACK, cause);
}

void aw_canary_begin(struct aw_canary_memory *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->candidate.gain = memory->candidate.gain_error = NONE;
    memory->candidate.violation_share = NONE;
    memory->good.score_mean = memory->good.score_std = memory->good.violation_share = NONE;
    step_to(memory, AW_CANARY_NONE, AW_CANARY_CAUSE_NONE);
}

bool aw_canary_busy(const struct aw_canary_memory *memory)
{
    return memory->state == AW_CANARY_SHADOW || memory->state == AW_CANARY_TRIAL;
}

bool aw_canary_barred(const struct aw_canary_memory *memory, uint64_t id, uint64_t rows)
{
    for (uint32_t i = 0; i < AW_CANARY_BARRED_MAX; i++)
        if (memory->barred_id[i] == id && id != 0 && rows < memory->barred_rows[i])
            return true;
    return false;
}

void aw_canary_bar(struct aw_canary_memory *memory, uint64_t rows)
{
    memory->barred_id[memory->barred_next] = memory->candidate.id;
    memory->barred_rows[memory->barred_next] = rows;
    memory->barred_next = (memory->barred_next + 1) % AW_CANARY_BARRED_MAX;
}

void aw_canary_propose(struct aw_canary_memory *memory, const struct aw_canary_candidate *candidate,
                       const struct aw_canary_standing *standing, enum aw_canary_cause cause)
{
    AW_ASSERT(!aw_canary_busy(memory));
    AW_ASSERT(candidate->id != 0 && candidate->id != standing->id);
    AW_ASSERT(cause == AW_CANARY_CAUSE_FOUND || cause == AW_CANARY_CAUSE_PROPOSED);
    memory->candidate = *candidate;
    memory->good = *standing;
    memory->allocation = (struct aw_plan){0};
    memory->score_sum = 0;
    memory->steps = memory->clipped = memory->clipped_good = 0;
    memory->armed = memory->whole = 0;
    memory->acted = memory->judged = memory->missed = memory->episodes = 0;
    memory->restore_left = memory->acted_episode = 0;
    struct aw_canary_reason *reason = step_to(memory, AW_CANARY_SHADOW, cause);
    reason->predicted = aw_canary_mean(memory);
}

bool aw_canary_watch(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                     const struct aw_canary_watched *watched)
{
    if (memory->state != AW_CANARY_SHADOW)
        return false;
    memory->steps++;
    if (!watched->finite || watched->absurd) {
        memory->failures++;
        step_to(memory, AW_CANARY_REFUSED,
                watched->finite ? AW_CANARY_CAUSE_ABSURD : AW_CANARY_CAUSE_NOT_FINITE)
            ->count = memory->steps;
        return true;
    }
    memory->clipped += watched->clipped;
    memory->clipped_good += watched->clipped_good;
    if (memory->steps < settings->shadow_steps)
        return false;
    const double share = (double)memory->clipped / memory->steps;
    const double limit = settings->clipped + (double)memory->clipped_good / memory->steps;
    const bool sound = share <= limit;
    memory->failures += !sound;
    memory->whole = settings->share >= 1;
    struct aw_canary_reason *reason =
        step_to(memory, sound ? AW_CANARY_TRIAL : AW_CANARY_REFUSED,
                sound ? AW_CANARY_CAUSE_SOUND : AW_CANARY_CAUSE_CLIPPED);
    reason->count = memory->steps;
    reason->observed = share;
    reason->limit = limit;
    return true;
}

/* Steps of the part of an episode with which a trial begins. */
static uint32_t part_of(const struct aw_canary_settings *settings, uint32_t episode_steps)
{
    const double part = ceil(settings->share * episode_steps);
    return part >= episode_steps ? episode_steps : (uint32_t)fmax(1, part);
}

bool aw_canary_turn(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                    uint32_t step, uint32_t episode_steps)
{
    if (memory->state != AW_CANARY_TRIAL)
        return false;
    const uint32_t first = memory->whole ? 0 : episode_steps - part_of(settings, episode_steps);
    if (step == first)
        memory->armed = 1; /* a part is the whole part: one that was missed waits for the next */
    return memory->armed && step >= first;
}

void aw_canary_acts(struct aw_canary_memory *memory, const struct aw_plan *present)
{
    if (!memory->allocation.set)
        memory->allocation = *present;
    memory->acted++;
    memory->acted_episode++;
}

void aw_canary_rests(struct aw_canary_memory *memory)
{
    memory->acted = 0;
}

bool aw_canary_judge(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                     bool missed)
{
    if (memory->state != AW_CANARY_TRIAL || memory->acted <= settings->grace)
        return false;
    memory->judged++;
    memory->missed += missed;
    if (!missed)
        return false;
    const double share = canary_share(memory);
    const double tail = aw_canary_tail((uint32_t)(memory->judged / settings->clump), share,
                                       (uint32_t)(memory->missed / settings->clump));
    if (tail >= settings->chance)
        return false;
    struct aw_canary_reason *reason = roll_back(settings, memory, AW_CANARY_CAUSE_VIOLATIONS);
    reason->count = memory->judged;
    reason->observed = (double)memory->missed / memory->judged;
    reason->predicted = share;
    reason->limit = settings->chance;
    reason->tail = tail;
    return true;
}

bool aw_canary_trip(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                    bool own)
{
    if (memory->state != AW_CANARY_TRIAL || (memory->acted == 0 && !own))
        return false;
    struct aw_canary_reason *reason = roll_back(settings, memory, AW_CANARY_CAUSE_TRIPPED);
    reason->count = memory->judged;
    if (memory->judged > 0)
        reason->observed = (double)memory->missed / memory->judged;
    reason->predicted = canary_share(memory);
    return true;
}

static bool judge_whole(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                        double score)
{
    memory->episodes++;
    memory->score_sum += score;
    const double mean = memory->score_sum / memory->episodes;
    const double low = aw_canary_low(settings, memory, memory->episodes);
    struct aw_canary_reason *reason;
    if (mean < low) /* false where nothing was predicted */
        reason = roll_back(settings, memory, AW_CANARY_CAUSE_SCORE_LOW);
    else if (memory->episodes >= settings->episodes)
        reason = step_to(memory, AW_CANARY_ADOPTED, AW_CANARY_CAUSE_PROVEN);
    else
        return false;
    reason->count = memory->episodes;
    reason->observed = mean;
    reason->predicted = aw_canary_mean(memory);
    reason->limit = low;
    if (memory->state == AW_CANARY_ADOPTED) {
        memory->failures = 0;
        memory->good.id = memory->candidate.id;
    }
    return true;
}

bool aw_canary_episode(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                       double score, uint32_t episode_steps)
{
    const uint32_t acted = memory->acted_episode;
    memory->acted_episode = 0;
    if (memory->state != AW_CANARY_TRIAL)
        return false;
    const bool armed = memory->armed;
    const double due = memory->whole ? episode_steps : part_of(settings, episode_steps);
    memory->armed = memory->whole;
    if (!armed || acted < AW_CANARY_EPISODE_SHARE * due || !isfinite(score))
        return false; /* the fallback had to act: it says nothing of the policy */
    if (memory->whole)
        return judge_whole(settings, memory, score);
    memory->whole = memory->armed = 1;
    struct aw_canary_reason *reason = step_to(memory, AW_CANARY_TRIAL, AW_CANARY_CAUSE_PART_GOOD);
    reason->count = memory->judged;
    if (memory->judged > 0)
        reason->observed = (double)memory->missed / memory->judged;
    reason->predicted = canary_share(memory);
    return true;
}

bool aw_canary_withdraw(struct aw_canary_memory *memory, enum aw_canary_cause cause)
{
    AW_ASSERT(cause == AW_CANARY_CAUSE_STAGE || cause == AW_CANARY_CAUSE_CHANGED);
    if (!aw_canary_busy(memory))
        return false;
    step_to(memory, AW_CANARY_ROLLED_BACK, cause);
    return true;
}

bool aw_canary_order_back(const struct aw_canary_settings *settings,
                          struct aw_canary_memory *memory)
{
    if (!aw_canary_busy(memory))
        return false;
    roll_back(settings, memory, AW_CANARY_CAUSE_ORDERED);
    return true;
}

bool aw_canary_restore(struct aw_canary_memory *memory, const struct aw_plan *present)
{
    if (memory->restore_left == 0)
        return false;
    const struct aw_plan *wanted = &memory->allocation;
    bool there = true;
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        there &= present->amount[r] >= wanted->amount[r];
    memory->restore_left = there ? 0 : memory->restore_left - 1;
    return !there;
}

void aw_canary_report(const struct aw_canary_settings *settings,
                      const struct aw_canary_memory *memory, struct aw_canary_report *ret)
{
    const uint32_t episodes = memory->episodes;
    const bool busy = aw_canary_busy(memory), known = memory->state != AW_CANARY_NONE;
    *ret = (struct aw_canary_report){
        .state = (enum aw_canary_state)memory->state,
        .trial = busy ? memory->candidate.id : 0,
        .good = memory->good.id,
        .predicted_mean = known ? aw_canary_mean(memory) : NONE,
        .predicted_low = known ? aw_canary_low(settings, memory, episodes) : NONE,
        .predicted_high = known ? aw_canary_high(settings, memory, episodes) : NONE,
        .predicted_share = known ? canary_share(memory) : NONE,
        .observed_mean = episodes > 0 ? memory->score_sum / episodes : NONE,
        .observed_share = memory->judged > 0 ? (double)memory->missed / memory->judged : NONE,
        .steps = memory->judged,
        .episodes = episodes,
        .reason = memory->reason,
    };
}
