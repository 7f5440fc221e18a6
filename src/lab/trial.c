/*
 * trial.c - the verb `trial`: rules, a tuned HPA and AWARE on real processes.
 *
 * First what a user would find out: HPA is tried at five targets on the first part of the load, and
 * AWARE lives with the same part. Then come the runs that are measured: new processes, and each
 * controller in turn on the next part of the load; as often as asked, each time on the part after
 * that, and another one first, so that what changes on the machine meanwhile meets all of them.
 *
 * All of AWARE is as it comes: the lifecycle decides whether a policy acts.
 */
#include "lab/trial.h"

#include "base/clock.h"
#include "frame/findings.h"
#include "frame/layout.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "lab/load.h"
#include "workload/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define SEED_STRIDE 1000u /* between the loads of two repeats */

const char *const aw__trial_arm_names[] = {"rules",          "hpa-tuned", "constant",
                                           "aware-minute-0", "aware",     NULL};
const uint32_t aw__trial_targets[AW__TRIAL_TARGETS] = {80, 70, 60, 50, 40};

struct session {
    const struct aw_call *run;
    struct aw__trial trial;
    struct aw_local_run real;
    struct aw_job *job;
    struct aw_job_workload *workloads; /* [count] of the run that goes on */
    struct aw_local_costs *costs;      /* [count] of requests, the same in all runs */
    struct aw_store store;
    void **kept; /* [count] pilots that have learned */
    int64_t kept_us;
    bool quiet, terminal;
    int64_t begin_us;

    /* of the run that goes on */
    char title[64];
    uint64_t steps;             /* that it has */
    uint64_t steps_before;      /* of its job, which are not told of */
    struct aw__trial_cell *row; /* [count] */
};

struct aw__trial_cell *aw__trial_cell(const struct aw__trial *trial, uint32_t repeat,
                                      enum aw__trial_arm arm, uint32_t workload)
{
    const size_t row = (size_t)repeat * AW__TRIAL_ARMS + arm;
    return &trial->cell[row * trial->ask.count + workload];
}

/* --- what was asked --------------------------------------------------------------------------- */

/* "6,8,12": the rank of workload `i` among the busiest functions; the last one goes on by twos. */
static enum aw_err rank_of(const char *text, uint32_t i, uint32_t *ret, struct aw_diag *diag)
{
    uint64_t rank = 0;
    for (uint32_t k = 0; k <= i; k++) {
        char word[16];
        const size_t len = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), text);
        if (len == 0 && k > 0) {
            rank += 2;
            continue;
        }
        if (len >= sizeof word || aw_text_parse_u64(word, &rank) || rank == 0 ||
            rank > AW_TRACE_FUNCTIONS_MAX)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--top",
                              "expected ranks from 1 on with commas between, found %s",
                              AW_QUOTE(word));
        text += len + (text[len] == ',');
    }
    *ret = (uint32_t)rank;
    return AW_OK;
}

/* Every workload gets a function of the trace of its own. */
static enum aw_err loads_replace(struct session *s, const char *load, struct aw_diag *diag)
{
    struct aw_profile_set *set = &s->trial.ask.set;
    const char *ranks = aw_args_text(s->run->args, "top"), *colon = strrchr(load, ':');
    const bool pattern = aw__load_is_pattern(load), more = colon && strchr(colon, '=');
    const char *name = load; /* without directories; a rate behind the colon has a slash, too */
    for (const char *at = load; *at && *at != ':'; at++)
        name = *at == '/' ? at + 1 : name;
    snprintf(s->trial.load, sizeof s->trial.load, "%.500s", name);
    for (uint32_t i = 0; i < set->profile_count; i++) {
        const struct aw_profile_app *found = aw_profile_set_app(set, &set->profiles[i]);
        struct aw_profile_app *app = &set->apps[found - set->apps];
        uint32_t rank = 0;
        const enum aw_err err = rank_of(ranks, i, &rank, diag);
        if (err)
            return err;
        const int len = pattern ? snprintf(app->load, sizeof app->load, "%s", load)
                                : snprintf(app->load, sizeof app->load, "%s%stop=%" PRIu32, load,
                                           more ? "," : ":", rank);
        if (len < 0 || (size_t)len >= sizeof app->load)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--load", "too long: %s",
                              AW_QUOTE(load));
    }
    return AW_OK;
}

/* What has no SLO, or does not learn, has nothing to compare. */
static enum aw_err workload_check(const struct aw_daemon_config *ask, uint32_t i,
                                  struct aw_diag *diag)
{
    const struct aw_pilot_config *pilot = &ask->workload[i].pilot;
    const char *name = aw_run_name(pilot->name);
    if (!(pilot->slo.latency_us_p99 > 0) || !pilot->learning)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "%s: a trial compares AWARE with its rules: write an SLO, and leave "
                       "learning on",
                       name);
    if (pilot->step_s != ask->step_s)
        return aw_fail(diag, AW_ERR_CONFIG, "%s: stepSeconds is the same for all in a trial", name);
    return AW_OK;
}

static enum aw_err speed_read(const char *text, double *ret, struct aw_diag *diag)
{
    double speed = 0;
    if (aw_text_parse_real(text, &speed) ||
        !(speed >= AW_TIME_SCALE_MIN && speed <= AW_TIME_SCALE_MAX))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--speed",
                          "expected a number from %g to %g, found %s", AW_TIME_SCALE_MIN,
                          AW_TIME_SCALE_MAX, AW_QUOTE(text));
    *ret = speed;
    return AW_OK;
}

static enum aw_err ask_read(struct session *s, struct aw_diag *diag)
{
    const struct aw_args *args = s->run->args;
    const char *load = aw_args_text(args, "load");
    struct aw__trial *trial = &s->trial;
    struct aw_daemon_config *ask = &trial->ask;
    if (args->repeat_count == 0)
        return aw_fail(diag, AW_ERR_USAGE,
                       "a trial needs a file: aware trial -f examples/trial/trial.yaml");
    aw_profile_set_init(&ask->set, NULL);
    trial->tune = (uint32_t)aw_args_number(args, "tune");
    trial->learn = (uint32_t)aw_args_number(args, "learn");
    trial->steps = (uint32_t)aw_args_number(args, "steps");
    trial->repeats = (uint32_t)aw_args_number(args, "repeats");
    trial->warm = (uint32_t)aw_args_number(args, "warm");
    trial->markdown = aw_args_given(args, "markdown");
    if (trial->markdown && s->run->json)
        return aw_fail(diag, AW_ERR_USAGE, "--markdown and --output exclude each other");
    const uint64_t seed = aw_args_number(args, "seed");
    bool color = s->run->color_err;
    struct aw_profile_report report = {.take = aw_finding_print, .ctx = &color};
    ask->local = true;
    ask->models = aw_args_text(args, "models");
    enum aw_err err = speed_read(aw_args_text(args, "speed"), &ask->speed, diag);
    err = err ? err
              : aw_daemon_config_files(ask, args->repeat, args->repeat_count,
                                       aw_args_given(args, "seed") ? &seed : NULL, &report, diag);
    err = err || !load ? err : loads_replace(s, load, diag);
    err = err ? err
              : aw_daemon_config_workloads(ask, (uint32_t)aw_args_number(args, "threads"),
                                           s->run->log, diag);
    for (uint32_t i = 0; !err && i < ask->count; i++)
        err = workload_check(ask, i, diag);
    return err;
}

static enum aw_err make(struct session *s, struct aw_diag *diag)
{
    struct aw__trial *trial = &s->trial;
    const uint32_t count = trial->ask.count;
    trial->cell =
        aw_alloc_new(NULL, (size_t)trial->repeats * AW__TRIAL_ARMS * count, sizeof *trial->cell);
    trial->tuned = aw_alloc_new(NULL, count, sizeof *trial->tuned);
    s->row = aw_alloc_new(NULL, count, sizeof *s->row);
    s->workloads = aw_alloc_new(NULL, count, sizeof *s->workloads);
    s->costs = aw_alloc_new(NULL, count, sizeof *s->costs);
    s->kept = aw_alloc_new(NULL, count, sizeof *s->kept);
    if (!trial->cell || !trial->tuned || !s->row || !s->workloads || !s->costs || !s->kept)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a trial of %" PRIu32 " workloads", count);
    return AW_OK;
}

/* A workload as it begins under `arm`; `target` of the tuned HPA in percent. */
static void workload_begin(const struct aw__trial *trial, enum aw__trial_arm arm, uint32_t target,
                           uint32_t i, struct aw_job_workload *ret)
{
    *ret = trial->ask.workload[i];
    if (arm == AW__TRIAL_LEARNED)
        return;
    ret->pilot.learning = false; /* where AWARE is new it begins when the processes are warm */
    ret->pilot.relief.enabled = false;
    if (arm == AW__TRIAL_TUNED) {
        ret->pilot.fallback.kind = AW_FALLBACK_HPA;
        ret->pilot.fallback.hpa_target = target;
    }
    if (arm == AW__TRIAL_CONSTANT) {
        ret->pilot.fallback.kind = AW_FALLBACK_STATIC;
        ret->task.replicas = trial->tuned[i].replicas;
    }
}

/* --- while it runs ---------------------------------------------------------------------------- */

static void progress(const struct session *s, uint64_t step)
{
    if (s->quiet || !s->terminal)
        return;
    char took[32];
    aw_seconds_format(1e-6 * (double)(aw_clock_monotonic_us(NULL) - s->begin_us), took,
                      sizeof took);
    fprintf(stderr, "\r\033[K%s: %" PRIu64 " of %" PRIu64 " steps, %s", s->title, step, s->steps,
            took);
    fflush(stderr);
}

static void progress_end(const struct session *s)
{
    if (!s->quiet && s->terminal)
        fprintf(stderr, "\r\033[K");
}

/* A line per run where nobody watches. */
static void run_tell(const struct session *s)
{
    const uint32_t count = s->trial.ask.count;
    struct aw_totals all = {0};
    progress_end(s);
    if (s->quiet)
        return;
    for (uint32_t i = 0; i < count; i++)
        aw_totals_add(&all, &s->row[i].totals, 1);
    fprintf(stderr,
            "%s: missed %" PRIu64 " of %" PRIu64 " steps at %.4f $/h, the agent acted in %" PRIu64
            "\n",
            s->title, all.violations, all.steps,
            3600 * all.cost * count / ((double)all.steps * s->trial.ask.step_s), all.agent_steps);
}

static void on_step(void *ctx, const struct aw_job_step *ended)
{
    struct session *s = ctx;
    const struct aw_decision *d = ended->decision;
    const uint64_t step = aw_job_steps(s->job) - s->steps_before;
    struct aw__trial_cell *cell = &s->row[ended->workload];
    aw_totals_add(&cell->totals, &ended->own[AW_JOB_AWARE], 1);
    if (d->verdict == AW_WATCHDOG_TRIPPED) {
        cell->trips++;
        cell->trips_by[d->watchdog.cause]++;
    }
    cell->clipped += d->guard.clips != 0;
    if (d->actor == AW_ACTOR_AGENT && !cell->acts_from)
        cell->acts_from = (uint32_t)step;
    if (d->reading.replicas_wanted > cell->replicas_max)
        cell->replicas_max = d->reading.replicas_wanted;
    if (ended->workload + 1 == s->trial.ask.count)
        progress(s, step);
}

static void on_warm(void *ctx, const struct aw_job_step *ended)
{
    if (ended->workload == 0)
        progress(ctx, 0);
}

/* Lets steps pass under the load from `from_us` on. */
static enum aw_err pass(struct session *s, int64_t from_us, uint64_t steps, uint64_t seed,
                        aw_job_sink *told, struct aw_diag *diag)
{
    aw_job_pause(s->job); /* what was before is no step of this */
    s->steps_before = aw_job_steps(s->job);
    enum aw_err err = aw_local_run_load_begin(&s->real, from_us, steps, seed, diag);
    err = err ? err : aw_local_run_steps(&s->real, s->job, steps, told, s, diag);
    const enum aw_err sent = aw_local_run_load_end(&s->real, err ? NULL : diag);
    return err ? err : sent;
}

/* Processes that have just begun are unlike any that run: their controller runs them for a while,
 * under the load that comes before what is measured. */
static enum aw_err warm_up(struct session *s, int64_t from_us, uint64_t seed, struct aw_diag *diag)
{
    const struct aw__trial *trial = &s->trial;
    const int64_t warm_us = llround(1e6 * trial->ask.step_s * trial->warm);
    if (!trial->warm)
        return AW_OK;
    return pass(s, from_us > warm_us ? from_us - warm_us : 0, trial->warm, seed + 1, on_warm, diag);
}

static void take(struct session *s, const struct aw_local_requests *before)
{
    for (uint32_t i = 0; i < s->trial.ask.count; i++) {
        const struct aw_drive_result *sent = &s->real.load[i].result;
        struct aw__trial_cell *cell = &s->row[i];
        struct aw_local_requests seen;
        aw_local_requests(s->real.local, i, &seen);
        cell->requests = sent->all.due;
        cell->failed = aw_local_run_failed(&sent->all);
        cell->lost = seen.lost - before[i].lost;
        cell->latency_us_p99 = (double)aw_latency_histogram_quantile(&sent->latency, 0.99);
        cell->inside_us_p50 = aw_local_inside_us(s->real.local, i, 0.5);
        cell->inside_us_p99 = aw_local_inside_us(s->real.local, i, 0.99);
    }
}

/* A run under one controller: warmed up, then told of in `row`. */
static enum aw_err lived(struct session *s, enum aw__trial_arm arm, int64_t from_us, uint64_t seed,
                         struct aw_diag *diag)
{
    const uint32_t count = s->trial.ask.count;
    struct aw_loop *loop = aw_job_loop(s->job);
    struct aw_local_requests before[AW_LOCAL_WORKLOADS_MAX] = {0};
    enum aw_err err = AW_OK;
    memset(s->row, 0, count * sizeof *s->row);
    for (uint32_t i = 0; !err && arm == AW__TRIAL_LEARNED && i < count; i++)
        if ((err = aw_pilot_state_load(aw_loop_pilot(loop, i), s->kept[i])))
            aw_fail(diag, err, "the state of a workload that learned cannot be loaded");
    if (!err && arm == AW__TRIAL_LEARNED)
        aw_loop_resume(loop);
    err = err ? err : warm_up(s, from_us, seed, diag);
    for (uint32_t i = 0; !err && i < count; i++) {
        if (arm == AW__TRIAL_FRESH)
            err = aw_loop_update(loop, i, &s->trial.ask.workload[i].pilot, diag);
        aw_local_requests(s->real.local, i, &before[i]);
    }
    err = err ? err : pass(s, from_us, s->steps, seed, on_step, diag);
    if (!err)
        take(s, before);
    return err;
}

/* What AWARE knows now. */
static enum aw_err keep(struct session *s, struct aw_diag *diag)
{
    s->kept_us = aw_job_now_us(s->job);
    for (uint32_t i = 0; i < s->trial.ask.count; i++) {
        const struct aw_pilot *pilot = aw_loop_pilot(aw_job_loop(s->job), i);
        s->kept[i] = aw_alloc_new(NULL, 1, aw_pilot_state_bytes(pilot));
        if (!s->kept[i])
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for the state of a workload");
        aw_pilot_state_save(pilot, s->kept[i]);
    }
    return AW_OK;
}

/* Starts the processes, lets them live under `arm`, ends everything; `keeps` what AWARE knows at
 * the end. */
static enum aw_err live(struct session *s, enum aw__trial_arm arm, uint64_t from_step,
                        uint64_t seed, bool keeps, struct aw_diag *diag)
{
    struct aw__trial *trial = &s->trial;
    struct aw_daemon_config begun = trial->ask; /* with the workloads of this arm */
    begun.workload = s->workloads;
    const int64_t from_us = llround(1e6 * trial->ask.step_s) * (int64_t)from_step;
    const struct aw_local_run_config config = {
        .ask = &begun,
        .begin_us = s->kept_us,
        .stop = &aw_stop_signal,
        .costs = s->costs,
    };
    const struct aw_job_config job = {
        .workloads = s->workloads,
        .count = trial->ask.count,
        .cluster = &s->real.cluster,
        .seconds_per_step = trial->ask.step_s / trial->ask.speed,
        .store = &s->store,
        .thread_count = trial->ask.thread_count,
    };
    progress(s, 0);
    enum aw_err err = aw_daemon_store_open(&trial->ask, "memory", &s->store, diag);
    err = err ? err : aw_local_run_open(&s->real, &config, diag);
    err = err ? err : aw_job_new(&job, NULL, &s->job, diag);
    err = err ? err : aw_local_run_ready(&s->real, diag);
    err = err ? err : lived(s, arm, from_us, seed, diag);
    if (!err && aw_stop_signal)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted; everything was ended");
    err = err || !keeps ? err : keep(s, diag);
    aw_job_free(s->job);
    s->job = NULL;
    aw_local_run_close(&s->real);
    aw_store_close(&s->store);
    if (!err)
        run_tell(s);
    return err;
}

/* Of the targets that keep the budget the cheapest; else the one that misses least. */
static void tuned_choose(const struct aw__trial *trial, uint32_t i)
{
    struct aw__trial_tuned *tuned = &trial->tuned[i];
    const double budget = trial->ask.workload[i].pilot.slo_budget;
    for (uint32_t t = 1; t < AW__TRIAL_TARGETS; t++) {
        const struct aw_totals *a = &tuned->target[t].totals;
        const struct aw_totals *b = &tuned->target[tuned->best].totals;
        const double most = fmax(1, budget * (double)a->steps); /* one step may be chance */
        const bool keeps = (double)a->violations <= most, kept = (double)b->violations <= most;
        if (keeps && kept ? a->cost < b->cost : a->violations < b->violations)
            tuned->best = t;
    }
    tuned->replicas = tuned->target[tuned->best].replicas_max;
}

/* What is found out on the first part of the load. */
static enum aw_err tune(struct session *s, struct aw_diag *diag)
{
    struct aw__trial *trial = &s->trial;
    const uint32_t count = trial->ask.count;
    enum aw_err err = AW_OK;
    s->steps = trial->tune;
    for (uint32_t t = 0; !err && t < AW__TRIAL_TARGETS; t++) {
        for (uint32_t i = 0; i < count; i++)
            workload_begin(trial, AW__TRIAL_TUNED, aw__trial_targets[t], i, &s->workloads[i]);
        snprintf(s->title, sizeof s->title, "tuning, HPA at %" PRIu32 " %%", aw__trial_targets[t]);
        err = live(s, AW__TRIAL_TUNED, trial->warm, trial->ask.seed, false, diag);
        for (uint32_t i = 0; i < count; i++)
            trial->tuned[i].target[t] = s->row[i];
    }
    for (uint32_t i = 0; !err && i < count; i++) {
        tuned_choose(trial, i);
        workload_begin(trial, AW__TRIAL_FRESH, 0, i, &s->workloads[i]);
    }
    s->steps = trial->learn;
    snprintf(s->title, sizeof s->title, "learning");
    err = err ? err : live(s, AW__TRIAL_FRESH, trial->warm, trial->ask.seed, true, diag);
    for (uint32_t i = 0; !err && i < count; i++)
        trial->tuned[i].learning = s->row[i];
    return err;
}

static enum aw_err measure(struct session *s, struct aw_diag *diag)
{
    struct aw__trial *trial = &s->trial;
    const uint32_t count = trial->ask.count;
    const uint64_t from = trial->warm + (trial->tune > trial->learn ? trial->tune : trial->learn);
    enum aw_err err = AW_OK;
    s->steps = trial->steps;
    for (uint32_t r = 0; !err && r < trial->repeats; r++)
        for (uint32_t k = 0; !err && k < AW__TRIAL_ARMS; k++) {
            const enum aw__trial_arm arm = (enum aw__trial_arm)((r + k) % AW__TRIAL_ARMS);
            for (uint32_t i = 0; i < count; i++)
                workload_begin(trial, arm, aw__trial_targets[trial->tuned[i].best], i,
                               &s->workloads[i]);
            snprintf(s->title, sizeof s->title, "run %" PRIu32 " of %" PRIu32 ", %s",
                     trial->done + 1, trial->repeats * AW__TRIAL_ARMS, aw__trial_arm_names[arm]);
            err = live(s, arm, from + (uint64_t)r * trial->steps,
                       trial->ask.seed + SEED_STRIDE * (r + 1), false, diag);
            memcpy(aw__trial_cell(trial, r, arm, 0), s->row, count * sizeof *s->row);
            trial->done += !err;
        }
    progress_end(s);
    return err;
}

static void session_free(struct session *s)
{
    for (uint32_t i = 0; s->kept && i < s->trial.ask.count; i++)
        aw_alloc_free(NULL, s->kept[i]);
    aw_alloc_free(NULL, s->kept);
    aw_alloc_free(NULL, s->trial.cell);
    aw_alloc_free(NULL, s->trial.tuned);
    aw_alloc_free(NULL, s->row);
    aw_alloc_free(NULL, s->costs);
    aw_alloc_free(NULL, s->workloads);
    aw_daemon_config_deinit(&s->trial.ask);
    aw_alloc_free(NULL, s);
}

static enum aw_err trial_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct session *s = aw_alloc_new(NULL, 1, sizeof *s);
    if (!s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a trial");
    s->run = run;
    s->quiet = aw_args_given(run->args, "quiet");
    s->terminal = isatty(STDERR_FILENO);
    s->begin_us = aw_clock_monotonic_us(NULL);
    enum aw_err err = ask_read(s, diag);
    err = err ? err : make(s, diag);
    if (!err)
        aw_stop_catch(&(struct aw_stop_config){.twice = false});
    signal(SIGPIPE, SIG_IGN);
    err = err ? err : tune(s, diag);
    err = err ? err : measure(s, diag);
    s->trial.seconds = 1e-6 * (double)(aw_clock_monotonic_us(NULL) - s->begin_us);
    if (!err)
        err = run->json ? aw__trial_print_json(&s->trial, diag)
                        : aw__trial_print(run, &s->trial, diag);
    session_free(s);
    return err;
}

/* --- the verb --------------------------------------------------------------------------------- */

static const struct aw_option trial_options[] = {
    {.name = "file",
     .letter = 'f',
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "YAML or JSON with autoscalers and what they scale, as 'aware run --cluster local' "
             "takes it; all workloads run at the same time",
     .repeated = true},
    {.name = "load",
     .letter = 'l',
     .kind = AW_ARG_LOAD,
     .arg = "LOAD",
     .help = "a trace with many functions, of which each workload gets its own, or a pattern, in "
             "place of the loads that the files name"},
    {.name = "top",
     .kind = AW_ARG_TEXT,
     .arg = "RANKS",
     .initial = "2",
     .help = "which of the busiest functions of --load each workload gets, e.g. 6,8,12; where "
             "there are more workloads, every second one from the last on"},
    {.name = "tune",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "120",
     .min = 1,
     .max = AW__TRIAL_STEPS_MAX,
     .help = "steps that HPA is tried for at each of five targets: 80, 70, 60, 50 and 40 %"},
    {.name = "learn",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "240",
     .min = 1,
     .max = AW__TRIAL_STEPS_MAX,
     .help = "steps that AWARE lives with the workloads before 'aware' is measured"},
    {.name = "steps",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "600",
     .min = 1,
     .max = AW__TRIAL_STEPS_MAX,
     .help = "of a run that is measured"},
    {.name = "warm",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "20",
     .max = AW__TRIAL_STEPS_MAX,
     .help = "steps before that, under the same controller, which are not measured: processes that "
             "have just begun are unlike any that run"},
    {.name = "repeats",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "5",
     .min = 1,
     .max = AW__TRIAL_REPEATS_MAX,
     .help = "runs of each controller, each time on the next part of the load; all of a repeat "
             "have the same part and the same chance"},
    {.name = "speed",
     .kind = AW_ARG_TEXT,
     .arg = "X",
     .initial = "15",
     .help = "seconds of the controllers' time in a second of real time: with 15 a step of 15 s "
             "takes one"},
    {.name = "models",
     .kind = AW_ARG_DIR,
     .arg = "DIR",
     .help = "where the shipped model is looked for first (default: AWARE_MODELS, then beside this "
             "program)"},
    {.name = "seed",
     .letter = 's',
     .kind = AW_ARG_NUMBER,
     .arg = "S",
     .max = INT64_MAX,
     .help = "chance of load and learners (default: as the files say)"},
    {.name = "threads",
     .letter = 'j',
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "0",
     .max = AW_THREADS_MAX,
     .help = "threads that learn; 0: one per processor"},
    {.name = "markdown", .kind = AW_ARG_FLAG, .help = "tables as the pages of results have them"},
    {.name = "quiet", .letter = 'q', .kind = AW_ARG_FLAG, .help = "no lines while it runs"},
    {.name = NULL},
};
static const struct aw_example trial_examples[] = {
    {"aware trial -f examples/real/services.yaml", "services of Debian, five hours"},
    {"aware trial -f examples/real/services.yaml --steps 120 --tune 60 --repeats 3",
     "to see it, an hour"},
    {"aware trial -f shop.yaml --repeats 5 --output json", "one's own workload, for a program"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trial = {
    .name = "trial",
    .summary = "Measure AWARE beside a tuned HPA on real processes",
    .text = "The workloads run as real processes of this machine under real load. First HPA is "
            "tried at five targets on the first part of the load, and of those that keep the SLO's "
            "budget the cheapest is taken; AWARE lives with the same part. Then part after part of "
            "the load is run through by each of five in turn: the rules as the files say (by "
            "default HPA on CPU and VPA on memory), the tuned HPA, a constant number of replicas "
            "(what the tuned HPA had at most), AWARE as it is new, and AWARE that has learned; "
            "another one is first each time. Told are steps that missed the SLO, cost, requests "
            "that failed, from when on a learned policy acted, and AWARE against the others with "
            "intervals over the parts.\n\n"
            "Needs control groups that it may write, as 'aware run --cluster local' does. AWARE "
            "has the settings of the files, by default its own: whether a policy acts is the "
            "lifecycle's decision.",
    .options = trial_options,
    .examples = trial_examples,
    .json = true,
    .run = trial_run,
};
