/* evaluate.c - see evaluate.h. */
#include "congestion/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel_tasks.h"
#include "base/stats.h"
#include "congestion/episode.h"
#include "congestion/learn.h"
#include "congestion/recorded.h"

#define SETS_MAX  256u
#define RESAMPLES 1000u

/* ---- who is compared ---- */

enum embedding { NONE, SEEN, ZEROED, SHUFFLED, TRUE };

static const struct method {
    const char *name;
    const struct aw_controller *controller;
    enum embedding embedding;
    bool boxes, traces;
} methods[] = {
    {"oracle", &aw_rate_oracle, NONE, true, true},
    {"bbr-like", &aw_bbr_like, NONE, true, true},
    {"bbr-tuned", &aw_bbr_tuned, NONE, true, true},
    {"cubic-like", &aw_cubic_like, NONE, true, true},
    {"vivace", &aw_vivace, NONE, true, true},
    {"aimd", &aw_aimd, NONE, true, false},
    {"hold-start", &aw_hold_start, NONE, true, false},
    {"hold-best", &aw_hold_best, NONE, true, true},
    {"adaptive", &aw_adaptive_controller, SEEN, true, true},
    {"adaptive, embedding zeroed", &aw_adaptive_controller, ZEROED, true, true},
    {"adaptive, embedding shuffled", &aw_adaptive_controller, SHUFFLED, true, true},
    {"adaptive, true parameters", &aw_adaptive_controller, TRUE, true, true},
};
#define METHOD_COUNT (sizeof methods / sizeof *methods)
enum { ORACLE = 0, BBR = 1 };

struct seat { /* what one thread needs */
    struct aw_flow flow;
    struct aw_latency_histogram rtts;
    union {
        struct aw_adaptive adaptive;
        char bytes[AW_CONTROLLER_BYTES_MAX];
    } self;
};

/* `other` is the link whose embedding is given when it is shuffled. */
static void play(const struct method *method, const struct aw_adaptive_policy *policy,
                 struct aw_episode_plan plan, const struct aw_link *other, struct seat *seat,
                 struct aw_episode *ret)
{
    if (method->controller == &aw_hold_best) {
        aw_episode_run(&plan, &aw_bbr_like, &seat->flow, &seat->self, &seat->rtts, NULL, NULL, ret);
        plan.remembered = ret->best_delivery;
    }
    if (method->embedding != NONE) {
        seat->self.adaptive = (struct aw_adaptive){.policy = policy};
        if (method->embedding == ZEROED)
            seat->self.adaptive.mode = AW_ADAPTIVE_ZEROED;
        else if (method->embedding != SEEN)
            seat->self.adaptive.mode = AW_ADAPTIVE_GIVEN;
        if (seat->self.adaptive.mode == AW_ADAPTIVE_GIVEN)
            aw_adaptive_truth(method->embedding == TRUE ? &plan.link : other,
                              seat->self.adaptive.given);
    }
    aw_episode_run(&plan, method->controller, &seat->flow, &seat->self, &seat->rtts, NULL, NULL,
                   ret);
}

struct job {
    const struct aw_adaptive_policy *policy;
    const struct aw_task_sink *sink;
    const struct aw_recorded *recorded; /* NULL: boxes */
    struct aw_link *link;               /* [count] */
    uint32_t count;
    uint64_t seed;
    struct aw_episode *episode; /* [METHOD_COUNT][count] */
};

static bool wanted(const struct job *job, uint32_t method)
{
    return job->recorded ? methods[method].traces : methods[method].boxes;
}

/* One turn is one link, with every method on it. */
static enum aw_err turn(void *ctx, uint32_t index, struct aw_diag *diag)
{
    struct job *job = ctx;
    struct seat *seat = aw_alloc_new(NULL, 1, sizeof *seat);
    if (!seat)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a link");
    const struct aw_episode_plan plan = {
        .link = job->link[index],
        .seconds = job->link[index].trace ? AW_TRACE_SECONDS : 0,
        .steps = AW_BOX_STEPS,
        .seed = job->seed + index,
    };
    /* far away in the list: another site, or another box */
    const struct aw_link *other = &job->link[(index + job->count / 2) % job->count];
    for (uint32_t m = 0; m < METHOD_COUNT; m++) {
        if (wanted(job, m))
            play(&methods[m], job->policy, plan, other, seat,
                 &job->episode[m * job->count + index]);
    }
    aw_alloc_free(NULL, seat);
    return AW_OK;
}

static bool progress(void *ctx, uint32_t done, uint32_t total)
{
    const struct job *job = ctx;
    return job->sink->progress(job->sink->self, (double)done / total,
                               job->recorded ? "recorded paths" : "boxes");
}

static enum aw_err job_open(struct job *job, uint32_t count, struct aw_diag *diag)
{
    job->count = count;
    job->link = aw_alloc_new(NULL, count, sizeof *job->link);
    job->episode = aw_alloc_new(NULL, METHOD_COUNT * (size_t)count, sizeof *job->episode);
    return job->link && job->episode ? AW_OK
                                     : aw_fail(diag, AW_ERR_NOMEM, "no memory for %u links", count);
}

static void job_close(struct job *job)
{
    aw_alloc_free(NULL, job->link);
    aw_alloc_free(NULL, job->episode);
}

static enum aw_err job_run(struct job *job, uint32_t threads, struct aw_diag *diag)
{
    return aw_parallel_tasks(threads, job->count, turn, job, progress, job, NULL, diag);
}

/* ---- boxes ---- */

static void box_row(const struct job *job, uint32_t method, double *regret, double *scratch)
{
    const struct aw_task_sink *sink = job->sink;
    double utilisation = 0, rtt_ratio = 0, loss = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        const struct aw_episode *episode = &job->episode[method * job->count + i];
        regret[i] = episode->regret;
        utilisation += episode->utilisation / job->count;
        rtt_ratio += episode->rtt_ratio / job->count;
        loss += episode->loss / job->count;
    }
    struct aw_rng rng;
    aw_rng_init(&rng, job->seed, method);
    const struct aw_interval interval =
        aw_stats_bootstrap_mean(regret, job->count, 0.95, RESAMPLES, &rng, scratch);
    const double mean = aw_stats_mean(regret, job->count);
    aw_stats_sort(regret, job->count);
    sink->text(sink->self, "method", methods[method].name);
    sink->figure(sink->self, "boxes", job->count);
    sink->figure(sink->self, "regret", mean);
    sink->figure(sink->self, "regret_low", interval.low);
    sink->figure(sink->self, "regret_high", interval.high);
    sink->figure(sink->self, "regret_median", aw_stats_median(regret, job->count));
    sink->figure(sink->self, "regret_p90", aw_stats_quantile(regret, job->count, 0.9));
    sink->figure(sink->self, "utilisation", utilisation);
    sink->figure(sink->self, "rtt_ratio", rtt_ratio);
    sink->figure(sink->self, "loss", loss);
    sink->row(sink->self);
}

enum aw_err aw_congestion_boxes(const struct aw_adaptive_policy *policy,
                                const struct aw_task_ask *ask, uint32_t stride,
                                const struct aw_task_sink *sink, struct aw_diag *diag)
{
    const uint32_t unseen = (AW_BOX_COUNT - AW_BOXES_LEARNED + stride - 1) / stride;
    const uint32_t seeds = ask->seeds ? ask->seeds : 1;
    struct job job = {.policy = policy, .sink = sink, .seed = ask->seed};
    double *scratch = NULL;
    enum aw_err err = job_open(&job, seeds * unseen, diag);
    for (uint32_t s = 0; !err && s < seeds; s++) {
        uint32_t order[AW_BOX_COUNT];
        aw_box_order(order);
        for (uint32_t i = 0; i < unseen; i++)
            aw_box_link(order[AW_BOXES_LEARNED + i * stride], ask->seed + s,
                        &job.link[s * unseen + i]);
    }
    if (!err)
        err = job_run(&job, ask->threads, diag);
    if (!err) {
        scratch = aw_alloc_new(NULL, 2 * (size_t)job.count + RESAMPLES, sizeof(double));
        if (!scratch)
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u boxes", job.count);
    }
    for (uint32_t m = 0; !err && m < METHOD_COUNT; m++)
        if (wanted(&job, m))
            box_row(&job, m, scratch, scratch + job.count);
    aw_alloc_free(NULL, scratch);
    job_close(&job);
    return err;
}

/* ---- recorded paths ---- */

struct sum {
    uint32_t runs;
    double score, utilisation, rtt_ratio, rtt_p95_s, p95_of_bbr, loss;
};

static struct sum sum_of(const struct job *job, uint32_t method, const char *kind, const char *site)
{
    struct sum sum = {0};
    for (uint32_t i = 0; i < job->count; i++) {
        const struct aw_recorded_run *run = &job->recorded->run[i];
        if (kind && (strcmp(run->kind, kind) || strcmp(run->site, site)))
            continue;
        const struct aw_episode *episode = &job->episode[method * job->count + i];
        const struct aw_episode *bbr = &job->episode[BBR * job->count + i];
        sum.runs++;
        sum.score += episode->genet;
        sum.utilisation += episode->utilisation;
        sum.rtt_ratio += episode->rtt_ratio;
        sum.rtt_p95_s += episode->rtt_p95_s;
        sum.p95_of_bbr += bbr->rtt_p95_s > 0 ? episode->rtt_p95_s / bbr->rtt_p95_s : 1;
        sum.loss += episode->loss;
    }
    const double n = sum.runs ? sum.runs : 1;
    sum.score /= n;
    sum.utilisation /= n;
    sum.rtt_ratio /= n;
    sum.rtt_p95_s /= n;
    sum.p95_of_bbr /= n;
    sum.loss /= n;
    return sum;
}

static void set_rows(const struct job *job, const char *set, const char *kind, const char *site,
                     double random_loss)
{
    const struct aw_task_sink *sink = job->sink;
    const double oracle = sum_of(job, ORACLE, kind, site).score;
    const double bbr = sum_of(job, BBR, kind, site).score;
    for (uint32_t m = 0; m < METHOD_COUNT; m++) {
        if (!wanted(job, m))
            continue;
        const struct sum sum = sum_of(job, m, kind, site);
        sink->text(sink->self, "set", set);
        sink->figure(sink->self, "random_loss", random_loss);
        sink->text(sink->self, "method", methods[m].name);
        sink->figure(sink->self, "runs", sum.runs);
        sink->figure(sink->self, "score", sum.score);
        sink->figure(sink->self, "gap_closed",
                     oracle > bbr ? (sum.score - bbr) / (oracle - bbr) : (double)NAN);
        sink->figure(sink->self, "utilisation", sum.utilisation);
        sink->figure(sink->self, "rtt_ratio", sum.rtt_ratio);
        sink->figure(sink->self, "rtt_p95_ms", sum.rtt_p95_s * 1e3);
        sink->figure(sink->self, "p95_of_bbr", sum.p95_of_bbr);
        sink->figure(sink->self, "loss", sum.loss);
        sink->row(sink->self);
    }
}

/* Each kind and site once, in the order of the file. */
static void rows_of_sets(const struct job *job, double random_loss)
{
    const struct aw_recorded_run *known[SETS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->count && count < SETS_MAX; i++) {
        const struct aw_recorded_run *run = &job->recorded->run[i];
        uint32_t at = 0;
        while (at < count &&
               (strcmp(known[at]->kind, run->kind) || strcmp(known[at]->site, run->site)))
            at++;
        if (at == count)
            known[count++] = run;
    }
    for (uint32_t i = 0; count > 1 && i < count; i++) {
        char set[sizeof known[i]->kind + sizeof known[i]->site + 1];
        snprintf(set, sizeof set, "%s %s", known[i]->kind, known[i]->site);
        set_rows(job, set, known[i]->kind, known[i]->site, random_loss);
    }
    set_rows(job, "all", NULL, NULL, random_loss);
}

enum aw_err aw_congestion_traces(const struct aw_adaptive_policy *policy,
                                 const struct aw_task_ask *ask, const struct aw_task_sink *sink,
                                 struct aw_diag *diag)
{
    static const double losses[AW_CONGESTION_LOSS_CASES] = {0, 0.01};
    struct aw_recorded recorded = {0};
    enum aw_err err = aw_recorded_read(ask->data, NULL, &recorded, diag);
    if (err)
        return err;
    struct job job = {.policy = policy, .sink = sink, .recorded = &recorded, .seed = ask->seed};
    err = job_open(&job, recorded.count, diag);
    for (uint32_t l = 0; !err && l < AW_CONGESTION_LOSS_CASES; l++) {
        for (uint32_t i = 0; i < recorded.count; i++)
            aw_recorded_link(&recorded.run[i], 1, losses[l], &job.link[i]);
        err = job_run(&job, ask->threads, diag);
        if (!err)
            rows_of_sets(&job, losses[l]);
    }
    if (!err && !recorded.described)
        sink->note(sink->self,
                   "No table of runs beside the file: a one-way delay of 50 ms for all.");
    job_close(&job);
    aw_recorded_deinit(&recorded);
    return err;
}
