/*
 * trial.c - the verb `trial`: rules, a shared model and what becomes of it, on real processes.
 *
 * First everything is lived through once as `aware run --cluster local` does it: the fallback acts
 * and the model reads its episodes, then the agent acts and learns. Two states of each workload are
 * kept on the way: when the model's policy was about to take over, and at the end. Then come the
 * runs that are measured: new processes, which the fallback runs until they are warm; the next part
 * of the load; and a loop that goes on from one of these states, once with the fallback alone, once
 * with each policy; as often as asked, in turn, so that what changes on the machine meanwhile meets
 * all of them.
 *
 * The one thing that is not as in production: the step to ONLINE asks for no estimate. What nobody
 * would let act is measured, too.
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

#define ANY_ESTIMATE (-1e9) /* a threshold that every estimate reaches */
#define ANY_COPY     100.0  /* an error that every copy of a workload has less than */
#define SEED_STRIDE  1000u  /* between the loads of two repeats */

const char *const aw__trial_arm_names[] = {"fallback", "zero-shot", "adapted", NULL};

/* A pilot as it was at some moment. */
struct kept {
    void *bytes; /* NULL: not yet */
    int64_t at_us;
};

struct session {
    const struct aw_call *run;
    struct aw__trial trial;
    struct aw_local_run real;
    struct aw_job *job;
    struct aw_job_workload *workloads; /* [count] that learn */
    struct aw_local_costs *costs;      /* [count] of requests, the same in all runs */
    struct aw_store store;
    struct kept *kept[AW__TRIAL_ARMS]; /* [count] each; FALLBACK: none, it goes on from SHARED */
    bool quiet, terminal;
    int64_t begin_us;

    /* of the run that goes on */
    char title[64];
    uint64_t steps;             /* that it has */
    uint64_t steps_before;      /* of its job, which are not told of */
    struct aw__trial_cell *row; /* [count]; NULL while learning */
    enum aw_err err;
    struct aw_diag diag;
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
    const char *ranks = aw_args_text(s->run->args, "top"), *slash = strrchr(load, '/');
    const char *colon = strrchr(load, ':');
    const bool pattern = aw__load_is_pattern(load), more = colon && strchr(colon, '=');
    snprintf(s->trial.load, sizeof s->trial.load, "%.500s", slash ? slash + 1 : load);
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

/* Whoever tries a model wants to measure it: a workload that would go without one is refused. */
static enum aw_err workload_check(const struct aw_daemon_config *ask, uint32_t i,
                                  struct aw_diag *diag)
{
    const struct aw_pilot_config *pilot = &ask->workload[i].pilot;
    const char *name = aw_run_name(pilot->name);
    if (pilot->agent != AW_POLICY_NETWORK || !pilot->learning)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "%s: a trial is of networks that begin with a shared model: write an SLO "
                       "and learning: {agent: {name: network}}",
                       name);
    if (!pilot->model)
        return aw_fail(diag, AW_ERR_CONFIG, "%s: there is no shared model that it can begin with",
                       name);
    if (pilot->step_s != ask->step_s ||
        pilot->episode_steps != ask->workload[0].pilot.episode_steps)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "%s: stepSeconds and episodeSteps are the same for all in a trial", name);
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
    trial->bootstrap = (uint32_t)aw_args_number(args, "bootstrap");
    trial->adapt = (uint32_t)aw_args_number(args, "adapt");
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
    if (err)
        return err;
    const uint32_t episode = ask->workload[0].pilot.episode_steps;
    trial->steps = aw_args_given(args, "steps") ? (uint32_t)aw_args_number(args, "steps") : episode;
    if (trial->steps > episode)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--steps",
                          "a run that is measured is at most an episode, %" PRIu32
                          " steps, so that nothing is learned in it; found %" PRIu32,
                          episode, trial->steps);
    return AW_OK;
}

static enum aw_err make(struct session *s, struct aw_diag *diag)
{
    struct aw__trial *trial = &s->trial;
    const uint32_t count = trial->ask.count;
    trial->cell =
        aw_alloc_new(NULL, (size_t)trial->repeats * AW__TRIAL_ARMS * count, sizeof *trial->cell);
    s->workloads = aw_alloc_new(NULL, count, sizeof *s->workloads);
    s->costs = aw_alloc_new(NULL, count, sizeof *s->costs);
    bool made = trial->cell && s->workloads && s->costs;
    for (uint32_t a = 0; a < AW__TRIAL_ARMS; a++) {
        trial->learned[a] = aw_alloc_new(NULL, count, sizeof *trial->learned[a]);
        s->kept[a] = aw_alloc_new(NULL, count, sizeof *s->kept[a]);
        made = made && trial->learned[a] && s->kept[a];
    }
    if (!made)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a trial of %" PRIu32 " workloads", count);
    for (uint32_t i = 0; i < count; i++) {
        s->workloads[i] = trial->ask.workload[i];
        struct aw_pilot_config *pilot = &s->workloads[i].pilot;
        pilot->lifecycle.bootstrap = true;
        pilot->lifecycle.offline_least = trial->bootstrap;
        pilot->thresholds.online = ANY_ESTIMATE;
        pilot->rehearse.error_max = ANY_COPY; /* no estimate hangs on it */
    }
    return AW_OK;
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
            "%s: reward %.1f, missed %" PRIu64 " of %" PRIu64 " steps, the agent acted in %" PRIu64
            "\n",
            s->title, all.steps ? 100 * all.reward / (double)all.steps : 0, all.violations,
            all.steps, all.agent_steps);
}

static enum aw_err keep(struct session *s, enum aw__trial_arm arm, uint32_t i)
{
    const struct aw_pilot *pilot = aw_loop_pilot(aw_job_loop(s->job), i);
    struct kept *kept = &s->kept[arm][i];
    kept->at_us = aw_job_now_us(s->job);
    kept->bytes = aw_alloc_new(NULL, 1, aw_pilot_state_bytes(pilot));
    if (!kept->bytes)
        return aw_fail(&s->diag, AW_ERR_NOMEM, "no memory for the state of a workload");
    aw_pilot_state_save(pilot, kept->bytes);
    return AW_OK;
}

/* At the end of an episode: a workload is kept when its policy is about to act, which may be later
 * than asked where it took longer to know the workload; and at the end, whoever acts then. */
static enum aw_err keep_due(struct session *s, bool last)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < s->trial.ask.count; i++) {
        const bool acts = aw_pilot_stage(aw_loop_pilot(aw_job_loop(s->job), i)) >= AW_STAGE_ONLINE;
        if (!s->kept[AW__TRIAL_SHARED][i].bytes && (acts || last))
            err = keep(s, AW__TRIAL_SHARED, i);
        if (!err && last)
            err = keep(s, AW__TRIAL_ADAPTED, i);
    }
    return err;
}

static void on_learned(void *ctx, const struct aw_job_step *ended)
{
    struct session *s = ctx;
    const struct aw__trial *trial = &s->trial;
    const uint64_t step = aw_job_steps(s->job) - s->steps_before;
    const uint64_t episode = trial->ask.workload[0].pilot.episode_steps;
    const uint64_t bootstrap = trial->bootstrap * episode;
    aw_totals_add(&trial->learned[step <= bootstrap ? AW__TRIAL_FALLBACK : AW__TRIAL_ADAPTED]
                                 [ended->workload],
                  &ended->own[AW_JOB_AWARE], 1);
    if (ended->workload + 1 < trial->ask.count)
        return;
    if (step % episode == 0 && !s->err)
        s->err = keep_due(s, step == s->steps);
    progress(s, step);
}

static void on_measured(void *ctx, const struct aw_job_step *ended)
{
    struct session *s = ctx;
    const struct aw_decision *d = ended->decision;
    const uint64_t step = aw_job_steps(s->job) - s->steps_before;
    struct aw__trial_cell *cell = &s->row[ended->workload];
    aw_totals_add(&cell->totals, &ended->own[AW_JOB_AWARE], 1);
    if (d->verdict == AW_WATCHDOG_TRIPPED) {
        cell->first_trip = cell->trips ? cell->first_trip : (uint32_t)step;
        cell->trips++;
        cell->trips_by[d->watchdog.cause]++;
    }
    cell->clipped += d->guard.clips != 0;
    cell->policy_id = d->policy_id;
    cell->origin = d->origin;
    if (ended->workload + 1 == s->trial.ask.count)
        progress(s, step);
}

static void on_warm(void *ctx, const struct aw_job_step *ended)
{
    if (ended->workload == 0)
        progress(ctx, 0);
}

/* A workload goes on from a state that was kept of it: with its policy, or the fallback alone. */
static enum aw_err go_on(struct session *s, uint32_t i, const struct kept *kept, bool policy,
                         struct aw_diag *diag)
{
    struct aw_loop *loop = aw_job_loop(s->job);
    struct aw_pilot_config config = *aw_pilot_config(aw_loop_pilot(loop, i));
    config.explore_sigma = 0;
    config.learning = true; /* the kind of pilot that was kept */
    config.model = s->workloads[i].pilot.model;
    enum aw_err err = aw_loop_update(loop, i, &config, diag);
    if (err)
        return err;
    if ((err = aw_pilot_state_load(aw_loop_pilot(loop, i), kept->bytes)))
        return aw_fail(diag, err, "the state of a workload that learned cannot be loaded");
    config.learning = policy;
    return aw_loop_update(loop, i, &config, diag);
}

/* The policy of a state that was kept takes over from the fallback, which remembers what it has
 * just seen. */
static enum aw_err take_over(struct session *s, uint32_t i, const struct kept *kept,
                             struct aw_diag *diag)
{
    const struct aw_pilot *before = aw_loop_pilot(aw_job_loop(s->job), i);
    void *fallback = aw_alloc_new(NULL, 1, aw_pilot_fallback_bytes(before));
    if (!fallback)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for what the fallback remembers");
    aw_pilot_fallback_save(before, fallback);
    enum aw_err err = go_on(s, i, kept, true, diag);
    if (!err && (err = aw_pilot_fallback_load(aw_loop_pilot(aw_job_loop(s->job), i), fallback)))
        aw_fail(diag, err, "what the fallback remembers cannot be handed on");
    aw_alloc_free(NULL, fallback);
    return err;
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

/* Processes that have just begun are unlike any that a policy has seen: the fallback runs them for
 * a while, under the load that comes before what is measured; the same whoever is measured then. */
static enum aw_err warm_up(struct session *s, int64_t from_us, uint64_t seed, struct aw_diag *diag)
{
    const struct aw__trial *trial = &s->trial;
    const int64_t warm_us = llround(1e6 * trial->ask.step_s * trial->warm);
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < trial->ask.count; i++)
        err = go_on(s, i, &s->kept[AW__TRIAL_SHARED][i], false, diag);
    if (!err)
        aw_loop_resume(aw_job_loop(s->job));
    if (err || !trial->warm)
        return err;
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

/* A run that is measured: warmed up, then whoever is to act. */
static enum aw_err measured(struct session *s, enum aw__trial_arm arm, int64_t from_us,
                            uint64_t seed, struct aw_diag *diag)
{
    struct aw_local_requests before[AW_LOCAL_WORKLOADS_MAX] = {0};
    enum aw_err err = warm_up(s, from_us, seed, diag);
    for (uint32_t i = 0; !err && i < s->trial.ask.count; i++) {
        if (arm != AW__TRIAL_FALLBACK)
            err = take_over(s, i, &s->kept[arm][i], diag);
        aw_local_requests(s->real.local, i, &before[i]);
    }
    if (!err && arm != AW__TRIAL_FALLBACK)
        aw_loop_resume(aw_job_loop(s->job));
    err = err ? err : pass(s, from_us, s->steps, seed, on_measured, diag);
    if (!err)
        take(s, before);
    return err;
}

/* Starts the processes, lets them live, ends everything. */
static enum aw_err live(struct session *s, enum aw__trial_arm arm, uint64_t from_step,
                        uint64_t seed, struct aw_diag *diag)
{
    struct aw__trial *trial = &s->trial;
    int64_t begin_us = 0; /* of the loop's time: where it goes on */
    for (uint32_t a = 0; s->row && a < AW__TRIAL_ARMS; a++)
        for (uint32_t i = 0; i < trial->ask.count; i++)
            begin_us = s->kept[a][i].at_us > begin_us ? s->kept[a][i].at_us : begin_us;
    const int64_t from_us = llround(1e6 * trial->ask.step_s) * (int64_t)from_step;
    const struct aw_local_run_config config = {
        .ask = &trial->ask,
        .begin_us = begin_us,
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
    s->err = AW_OK;
    progress(s, 0);
    enum aw_err err = aw_daemon_store_open(&trial->ask, "memory", &s->store, diag);
    err = err ? err : aw_local_run_open(&s->real, &config, diag);
    err = err ? err : aw_job_new(&job, NULL, &s->job, diag);
    err = err ? err : aw_local_run_ready(&s->real, diag);
    if (!err)
        err = s->row ? measured(s, arm, from_us, seed, diag)
                     : pass(s, from_us, s->steps, seed, on_learned, diag);
    if (!err && s->err) {
        err = s->err;
        *diag = s->diag;
    }
    if (!err && aw_stop_signal)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted; everything was ended");
    aw_job_free(s->job);
    s->job = NULL;
    aw_local_run_close(&s->real);
    aw_store_close(&s->store);
    return err;
}

static enum aw_err learn(struct session *s, struct aw_diag *diag)
{
    const struct aw__trial *trial = &s->trial;
    const uint64_t episode = trial->ask.workload[0].pilot.episode_steps;
    s->row = NULL;
    s->steps = (trial->bootstrap + trial->adapt) * episode;
    snprintf(s->title, sizeof s->title, "learning");
    const enum aw_err err = live(s, AW__TRIAL_SHARED, 0, trial->ask.seed, diag);
    progress_end(s);
    if (err || s->quiet)
        return err;
    char took[32];
    aw_seconds_format(1e-6 * (double)(aw_clock_monotonic_us(NULL) - s->begin_us), took,
                      sizeof took);
    fprintf(stderr, "learning: %" PRIu32 " episodes of the fallback, %" PRIu32 " more, %s\n",
            trial->bootstrap, trial->adapt, took);
    return AW_OK;
}

static enum aw_err measure(struct session *s, struct aw_diag *diag)
{
    struct aw__trial *trial = &s->trial;
    const uint64_t episode = trial->ask.workload[0].pilot.episode_steps;
    const uint64_t from = (trial->bootstrap + trial->adapt) * episode;
    enum aw_err err = AW_OK;
    s->steps = trial->steps;
    for (uint32_t r = 0; !err && r < trial->repeats; r++)
        for (uint32_t k = 0; !err && k < AW__TRIAL_ARMS; k++) {
            const enum aw__trial_arm arm = (enum aw__trial_arm)((r + k) % AW__TRIAL_ARMS);
            s->row = aw__trial_cell(trial, r, arm, 0);
            snprintf(s->title, sizeof s->title, "run %" PRIu32 " of %" PRIu32 ", %s",
                     trial->done + 1, trial->repeats * AW__TRIAL_ARMS, aw__trial_arm_names[arm]);
            err = live(s, arm, from, trial->ask.seed + SEED_STRIDE * (r + 1), diag);
            if (!err) {
                trial->done++;
                run_tell(s);
            }
        }
    progress_end(s);
    return err;
}

static void session_free(struct session *s)
{
    for (uint32_t a = 0; a < AW__TRIAL_ARMS; a++) {
        for (uint32_t i = 0; s->kept[a] && i < s->trial.ask.count; i++)
            aw_alloc_free(NULL, s->kept[a][i].bytes);
        aw_alloc_free(NULL, s->kept[a]);
        aw_alloc_free(NULL, s->trial.learned[a]);
    }
    aw_alloc_free(NULL, s->trial.cell);
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
    err = err ? err : learn(s, diag);
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
    {.name = "bootstrap",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "3",
     .min = 1,
     .max = AW__TRIAL_EPISODES_MAX,
     .help = "episodes of the fallback, before the agent acts"},
    {.name = "adapt",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "3",
     .min = 1,
     .max = AW__TRIAL_EPISODES_MAX,
     .help = "episodes of the agent, in which it learns"},
    {.name = "steps",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .min = 1,
     .max = AW__TRIAL_STEPS_MAX,
     .help = "of a run that is measured (default: an episode, which is also the most)"},
    {.name = "warm",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "20",
     .max = AW__TRIAL_STEPS_MAX,
     .help = "steps before that, of the fallback, which are not measured: processes that have just "
             "begun are unlike any that run"},
    {.name = "repeats",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "3",
     .min = 1,
     .max = AW__TRIAL_REPEATS_MAX,
     .help = "runs of each policy; chance in the load differs between repeats and not between "
             "policies"},
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
    {"aware trial -f examples/trial/trial.yaml", "three applications, about twenty minutes"},
    {"aware trial -f examples/trial/trial.yaml --load f1250_inv.csv:compress=6,start=10h --top "
     "6,8,12",
     "under three functions of a trace"},
    {"aware trial -f shop.yaml --repeats 5 --output json", "one's own workload, for a program"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trial = {
    .name = "trial",
    .summary = "Measure rules, a shared model and its adaptation on real processes",
    .text = "The workloads run as real processes of this machine under real load. First the "
            "fallback acts (HPA and VPA) and the shared model reads its episodes; then the model's "
            "policy acts and goes on learning. After that the next part of the load is run "
            "through again and again: with the fallback alone, with the model's policy as it was "
            "(zero-shot) and with what became of it (adapted), in turn, rails and watchdog on for "
            "all. Told are the reward of AWARE section 2.2 in 100 steps, steps that missed the "
            "SLO, cost and use, each with its deviation over the repeats.\n\n"
            "Needs control groups that it may write, as 'aware run --cluster local' does. The "
            "agent is let act whatever is expected of it.",
    .options = trial_options,
    .examples = trial_examples,
    .json = true,
    .run = trial_run,
};
