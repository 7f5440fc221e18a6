/*
 * mixture.c - latencies of a step from those of its intervals and cohorts.
 *
 * Each part is known by three quantiles. The logarithm of the share that takes longer than x is
 * taken as linear between them, from 0 at x = 0, and as going on beyond the last. A quantile of the
 * whole is where the parts' shares, by weight, add up to it; Newton's method on the logarithm finds
 * it, because there a mixture is nearly a straight line. What failed counts as the time-out.
 */
#include "cluster/sim/internal.h"
#include "cluster/sim/lanes.h"

#include <string.h>

_Static_assert(AW__MIXTURE_PARTS == LANES, "all parts are one vector");

#define LOG_HALF      -0.6931471805599453f /* ln of the shares beyond p50, p95 and p99 */
#define LOG_TWENTIETH -2.995732273553991f
#define LOG_HUNDREDTH -4.605170185988091f
#define LOG_LEAST     -80.0f /* below it, a part's share is none */
#define NEAR          1.01f  /* where the parts agree this well there is nothing to search */
#define LOG_NEAR      0.01f  /* of the share that is asked for: p99 within 0.0001 */
#define TURNS_MAX     16
#define SHARE_LEAST   1e-6

void aw__mixture_begin(struct aw__mixture *mixture)
{
    mixture->count = 0;
    mixture->failures = mixture->weight_sum = mixture->mean_sum_us = mixture->spread = 0;
    for (uint32_t i = 0; i < AW__MIXTURE_PARTS; i++)
        mixture->weight[i] = 0; /* what there is no part for does not count */
}

void aw__mixture_add(struct aw__mixture *mixture, double weight, const struct aw_steady *steady,
                     double wait_mean_us, double wait_high_us, double timeout_us)
{
    mixture->weight_sum += weight;
    mixture->mean_sum_us += weight * aw__min(steady->mean_us + wait_mean_us, timeout_us);
    mixture->spread = aw__max(mixture->spread, steady->p99_spread);
    /* A step of more parts than there is room for adds to the last. */
    const bool full = mixture->count == AW__MIXTURE_PARTS;
    const uint32_t i = full ? AW__MIXTURE_PARTS - 1 : mixture->count++;
    const float w = (float)weight, all = mixture->weight[i] + w;
    const float now = full && all > 0 ? w / all : 1, before = 1 - now;
    const float p50 = (float)(steady->p50_us + wait_mean_us);
    const float p95 = (float)(steady->p95_us + wait_high_us);
    const float p99 = (float)(steady->p99_us + wait_high_us);
    mixture->weight[i] = all;
    mixture->p50_us[i] = full ? before * mixture->p50_us[i] + now * p50 : p50;
    mixture->p95_us[i] = full ? before * mixture->p95_us[i] + now * p95 : p95;
    mixture->p99_us[i] = full ? before * mixture->p99_us[i] + now * p99 : p99;
}

/* A part's line between two of its quantiles: log share at `at`, and how it falls from there. */
struct line {
    floats at, log_share, slope;
};

struct lines {
    struct line line[3];
};

INLINE void lines_make(const struct aw__mixture *mixture, struct lines *ret)
{
    const floats none = {0};
    floats p50, p95, p99;
    load(mixture->p50_us, &p50);
    load(mixture->p95_us, &p95);
    load(mixture->p99_us, &p99);
    floats gap[3] = {p50, p95 - p50, p99 - p95};
    for (int k = 0; k < 3; k++)
        at_least(&gap[k], 1e-3f);
    ret->line[0] = (struct line){none, none, LOG_HALF / gap[0]};
    ret->line[1] = (struct line){p50, none + LOG_HALF, (LOG_TWENTIETH - LOG_HALF) / gap[1]};
    ret->line[2] =
        (struct line){p95, none + LOG_TWENTIETH, (LOG_HUNDREDTH - LOG_TWENTIETH) / gap[2]};
}

INLINE void choose(floats *to, const floats *other, const ints *when)
{
    *to = (floats)(((ints)*to & ~*when) | ((ints)*other & *when));
}

/* Of the line that `at` is on, for each part. */
INLINE void line_at(const struct lines *lines, float at, struct line *ret)
{
    struct line chosen = lines->line[0];
    for (int k = 1; k < 3; k++) {
        const ints beyond = lines->line[k].at < at;
        choose(&chosen.at, &lines->line[k].at, &beyond);
        choose(&chosen.log_share, &lines->line[k].log_share, &beyond);
        choose(&chosen.slope, &lines->line[k].slope, &beyond);
    }
    *ret = chosen;
}

/* ln of a positive x, exact at 1 and a few percent off far from it: steers, decides nothing. */
INLINE float rough_log(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t e = (bits - 0x3f3504f3) >> 23; /* as in lanes.h */
    bits -= (int32_t)((uint32_t)e << 23);
    float m;
    memcpy(&m, &bits, sizeof m);
    return 2 * (m - 1) / (m + 1) + 0.6931472f * (float)e;
}

/* A quantile on its way: the share of those answered that is beyond it, where it lies, and the best
 * guess so far. */
struct quest {
    float share;
    float low, high, x;
    bool done;
};

INLINE void quest_begin(const struct lines *lines, uint32_t parts, struct quest *quest)
{
    floats log_share = {quest->share, 1, 1, 1, 1, 1, 1, 1};
    logarithm(&log_share);
    const float log_of = log_share[0];
    const struct line *line = &lines->line[log_of >= LOG_HALF        ? 0
                                           : log_of >= LOG_TWENTIETH ? 1
                                                                     : 2];
    const floats ends = line->at + (log_of - line->log_share) / line->slope;
    float x[LANES];
    store(&ends, x);
    quest->low = quest->high = x[0];
    for (uint32_t i = 1; i < parts; i++) {
        quest->low = x[i] < quest->low ? x[i] : quest->low;
        quest->high = x[i] > quest->high ? x[i] : quest->high;
    }
    quest->done = quest->high <= NEAR * quest->low;
    quest->x = quest->done ? quest->high : quest->low;
}

INLINE void quest_turn(const struct lines *lines, const floats *weight, float total,
                       struct quest *quest)
{
    const float x = quest->x;
    struct line line;
    line_at(lines, x, &line);
    floats e = line.log_share + line.slope * (x - line.at);
    at_least(&e, LOG_LEAST);
    exponential(&e);
    e *= *weight;
    const floats falls = e * line.slope;
    const float above = sum_of(&e), slope = sum_of(&falls);
    const float off = rough_log(above / (quest->share * total));
    quest->done = off < LOG_NEAR && off > -LOG_NEAR;
    quest->low = off > 0 ? x : quest->low;
    quest->high = off > 0 ? quest->high : x;
    const float next = x - off * above / slope;
    const bool inside = next > quest->low && next < quest->high;
    quest->x = quest->done ? x : inside ? next : 0.5f * (quest->low + quest->high);
}

/* All at once, for one alone would wait for itself. */
INLINE void quests(const struct aw__mixture *mixture, struct quest *quest)
{
    struct lines lines;
    floats weight;
    load(mixture->weight, &weight);
    lines_make(mixture, &lines);
    for (int q = 0; q < 3; q++)
        quest_begin(&lines, mixture->count, &quest[q]);
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (quest[0].done && quest[1].done && quest[2].done)
            return;
        for (int q = 0; q < 3; q++)
            if (!quest[q].done)
                quest_turn(&lines, &weight, (float)mixture->weight_sum, &quest[q]);
    }
}

AW__LANES_TWICE(static, quests_run, (const struct aw__mixture *mixture, struct quest *quest),
                quests, (mixture, quest))

/* p50, p95 and p99 of all requests. */
static void find(const struct aw__mixture *mixture, double timeout_us, double *found_us)
{
    const double answered = mixture->weight_sum, failures = mixture->failures;
    const double total = answered + failures;
    /* The p99 of few requests is their longest: the quantile that it estimates is n / (n + 1). */
    const double above[3] = {0.5, 0.05, 1 - aw__min(0.99, total / (total + 1))};
    struct quest quest[3];
    if (mixture->count == 1 && failures == 0 && total >= 99) { /* most steps, and known */
        quest[0].x = mixture->p50_us[0];
        quest[1].x = mixture->p95_us[0];
        quest[2].x = mixture->p99_us[0];
    } else if (answered > 0) {
        for (int q = 0; q < 3; q++) {
            const double share = (above[q] * total - failures) / answered;
            quest[q].share = (float)aw__max(share, SHARE_LEAST);
        }
        quests_run(mixture, quest);
    }
    for (int q = 0; q < 3; q++)
        found_us[q] =
            failures < above[q] * total ? aw__min((double)quest[q].x, timeout_us) : timeout_us;
}

void aw__mixture_latency(struct aw_sim *sim, uint32_t w, double *ret_mean, double *ret_p50,
                         double *ret_p95, double *ret_p99)
{
    struct aw__workload *workload = &sim->workload[w];
    const struct aw__mixture *mixture = &workload->mixture;
    const double timeout_us = sim->settings.request_timeout_s * 1e6;
    const double total = mixture->weight_sum + mixture->failures;
    if (!(total > 0)) {
        *ret_mean = *ret_p50 = *ret_p95 = *ret_p99 = NAN;
        return;
    }
    double found_us[3];
    find(mixture, timeout_us, found_us);
    /* Windows of several replicas average their spreads; longer steps do too. */
    const double replicas =
        aw__max(1, workload->step.replica_us / aw__max(workload->step.span_us, 1));
    const double windows = aw__max(workload->step.span_us * 1e-6 / AW_SURROGATE_WINDOW_S, 0.05);
    const double z = aw__noise(&workload->rng);
    const double noise = exp(aw__min(mixture->spread / sqrt(replicas * windows), 1) * z);
    *ret_mean = (mixture->mean_sum_us + mixture->failures * timeout_us) / total;
    *ret_p50 = found_us[0];
    *ret_p95 = aw__max(aw__min(timeout_us, found_us[1] * noise), *ret_p50);
    *ret_p99 = aw__max(aw__min(timeout_us, found_us[2] * noise), *ret_p95);
}
