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

/* ln of positive x, exact at 1 and a few percent off far from it: steers, decides nothing. */
INLINE void rough_log(quad *x)
{
    const quad_ints bits = (quad_ints)*x, e = (bits - 0x3f3504f3) >> 23; /* as in lanes.h */
    const quad m = (quad)(bits - (e << 23));
    *x = 2 * (m - 1) / (m + 1) + 0.6931472f * __builtin_convertvector(e, quad);
}

INLINE void quad_choose(quad *to, const quad *other, const quad_ints *when)
{
    *to = (quad)(((quad_ints)*to & ~*when) | ((quad_ints)*other & *when));
}

/* Quantiles on their way, one in each element: the share of those answered that is beyond it, where
 * it lies, and the best guess so far. All at once, for one alone would wait for itself. */
#define QUESTS 3
struct quests {
    quad share;
    quad low, high, x;
    quad_ints done;
};

/* Where each of the parts alone has the quantile: the whole has it in between. */
INLINE void quests_begin(const struct lines *lines, uint32_t parts, struct quests *q)
{
    static const ints places = {0, 1, 2, 3, 4, 5, 6, 7};
    floats log_share = {q->share[0], q->share[1], q->share[2], 1, 1, 1, 1, 1}, ends[QUESTS];
    logarithm(&log_share);
    for (int i = 0; i < QUESTS; i++) {
        const float log_of = log_share[i];
        const struct line *line = &lines->line[(log_of < LOG_HALF) + (log_of < LOG_TWENTIETH)];
        ends[i] = line->at + (log_of - line->log_share) / line->slope;
        floats first = ends[i];
        first = __builtin_shufflevector(first, first, 0, 0, 0, 0, 0, 0, 0, 0);
        const ints none = places >= (int32_t)parts;
        choose(&ends[i], &first, &none);
    }
    extreme_of(ends, 1, &q->low);
    extreme_of(ends, -1, &q->high);
    q->low[QUESTS] = q->low[0];
    q->high[QUESTS] = q->high[0];
    q->done = q->high <= NEAR * q->low;
    q->x = q->low;
    quad_choose(&q->x, &q->high, &q->done);
}

INLINE void quests_turn(const struct lines *lines, const floats *weight, float total,
                        struct quests *q)
{
    const quad x = q->x;
    floats above_of[QUESTS], slope_of[QUESTS];
    for (int i = 0; i < QUESTS; i++) {
        struct line line;
        line_at(lines, x[i], &line);
        floats e = line.log_share + line.slope * (x[i] - line.at);
        at_least(&e, LOG_LEAST);
        exponential(&e);
        above_of[i] = e * *weight;
        slope_of[i] = above_of[i] * line.slope;
    }
    quad above, slope;
    sums_of(above_of, &above);
    sums_of(slope_of, &slope);
    quad off = above / (q->share * total);
    rough_log(&off);
    const quad_ints done = q->done | ((off < LOG_NEAR) & (off > -LOG_NEAR)), right = off > 0;
    quad_choose(&q->high, &x, &(quad_ints){~right[0], ~right[1], ~right[2], ~right[3]});
    quad_choose(&q->low, &x, &right);
    const quad next = x - off * above / slope;
    const quad_ints inside = (next > q->low) & (next < q->high);
    quad to = 0.5f * (q->low + q->high);
    quad_choose(&to, &next, &inside);
    quad_choose(&to, &x, &done);
    q->x = to;
    q->done = done;
}

INLINE void quests(const struct aw__mixture *mixture, const float *share, float *x)
{
    struct quests q = {.share = {share[0], share[1], share[2], share[0]}};
    struct lines lines;
    floats weight;
    load(mixture->weight, &weight);
    lines_make(mixture, &lines);
    quests_begin(&lines, mixture->count, &q);
    for (int turn = 0; turn < TURNS_MAX && !(q.done[0] & q.done[1] & q.done[2]); turn++)
        quests_turn(&lines, &weight, (float)mixture->weight_sum, &q);
    for (int i = 0; i < QUESTS; i++)
        x[i] = q.x[i];
}

AW__LANES_TWICE(static, quests_run,
                (const struct aw__mixture *mixture, const float *share, float *x), quests,
                (mixture, share, x))

/* p50, p95 and p99 of all requests. */
static void find(const struct aw__mixture *mixture, double timeout_us, double *found_us)
{
    const double answered = mixture->weight_sum, failures = mixture->failures;
    const double total = answered + failures;
    /* The p99 of few requests is their longest: the quantile that it estimates is n / (n + 1). */
    const double above[QUESTS] = {0.5, 0.05, 1 - aw__min(0.99, total / (total + 1))};
    float x[QUESTS], share[QUESTS];
    if (mixture->count == 1 && failures == 0 && total >= 99) { /* most steps, and known */
        x[0] = mixture->p50_us[0];
        x[1] = mixture->p95_us[0];
        x[2] = mixture->p99_us[0];
    } else if (answered > 0) {
        for (int q = 0; q < QUESTS; q++)
            share[q] = (float)aw__max((above[q] * total - failures) / answered, SHARE_LEAST);
        quests_run(mixture, share, x);
    }
    for (int q = 0; q < QUESTS; q++)
        found_us[q] = failures < above[q] * total ? aw__min((double)x[q], timeout_us) : timeout_us;
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
