/*
 * run_local.c - `aware run --cluster local`: the same loop over real processes (real.h), in real
 * time.
 *
 * There is no twin: a second machine would be needed. What is told is what was measured, a step
 * later than in a simulation: the step that a row is about has ended when its figures are known.
 */
#include "cli/real.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/quantity.h"
#include "cli/run_agents.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/stop.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define DURATION_US (INT64_C(600) * 1000000) /* real, when --duration does not say */
#define FRAME_US    100000

enum look { LOOK_NONE, LOOK_ROWS, LOOK_JSON, LOOK_CSV };

struct runner {
    const struct aw_call *run;
    struct aw_runask ask;
    struct aw_real real;
    struct aw__runagents *agents; /* NULL: nobody is to come in */
    struct aw_store store;
    struct aw__runhistory history;
    struct aw__runlive *live;
    struct aw_job_view *view;     /* [count] */
    struct aw_job_tally *episode; /* [count] so far */
    struct aw__runrow *row;       /* [count] */
    enum look look;
    _Atomic bool done;
    enum aw_err err;
    struct aw_diag diag;
};

/* --- what was asked --------------------------------------------------------------------------- */

static enum aw_err ask_read(struct runner *r, struct aw_diag *diag)
{
    static const char *const others[] = {"report", "daemon", "audit", "fresh"};
    const struct aw_args *args = r->run->args;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (aw_args_given(args, others[i]))
            return aw_fail(diag, AW_ERR_USAGE, "--%s goes without --cluster local", others[i]);
    if (args->repeat_count == 0)
        return aw_fail(diag, AW_ERR_USAGE,
                       "--cluster local needs a file: aware run --cluster local -f "
                       "examples/local.yaml");
    enum aw_err err = aw__runask_read(r->run, &r->ask, diag);
    if (err)
        return err;
    struct aw_runask *ask = &r->ask;
    ask->twin = false;
    if (!aw_args_given(args, "speed"))
        ask->speed = 1;
    if (!(ask->speed >= AW_PACE_MIN && ask->speed <= AW_PACE_MAX))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--speed",
                          "with --cluster local from %g to %g: real processes cannot be hurried",
                          AW_PACE_MIN, AW_PACE_MAX);
    ask->report[0] = '\0';
    if (!aw_args_given(args, "duration"))
        ask->steps_total = (uint64_t)ceil(1e-6 * (double)DURATION_US * ask->speed / ask->step_s);
    if (!aw_args_given(args, "state") && !aw_args_given(args, "store")) {
        ask->state[0] = '\0';
        snprintf(ask->store, sizeof ask->store, "memory");
    }
    return AW_OK;
}

/* --- made ------------------------------------------------------------------------------------- */

static enum aw_err make(struct runner *r, struct aw_diag *diag)
{
    const struct aw_runask *ask = &r->ask;
    r->view = aw_alloc_new(NULL, ask->count, sizeof *r->view);
    r->episode = aw_alloc_new(NULL, ask->count, sizeof *r->episode);
    r->row = aw_alloc_new(NULL, ask->count, sizeof *r->row);
    enum aw_err err = AW_OK;
    if (!r->view || !r->episode || !r->row)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", ask->count);
    if (*ask->state && (err = aw_file_mkdirs(ask->state, diag)))
        return err;
    struct aw_real_config config = {
        .ask = ask, .store = &r->store, .speed = ask->speed, .stop = &aw_stop_signal};
    err = aw_real_store_open(ask, ask->store, &r->store, diag);
    err = err ? err : aw__runagents_open(&r->agents, r->run, ask, diag);
    config.exchange = aw__runagents_exchange(r->agents);
    err = err ? err : aw__runhistory_init(&r->history, ask, diag);
    err = err ? err : aw_real_open(&r->real, &config, diag);
    if (!err && *ask->state) /* steps of an earlier run may be there */
        aw_loop_resume(r->real.loop);
    return err;
}

/* --- steps ------------------------------------------------------------------------------------ */

static void step_tell(struct runner *r, uint32_t i, int64_t at_us)
{
    const struct aw_runask *ask = &r->ask;
    struct aw_job_view *view = &r->view[i];
    const struct aw_pilot *pilot = aw_loop_pilot(r->real.loop, i);
    const struct aw_decision *d = aw_pilot_decision(pilot);
    struct aw_job_tally *own = &r->episode[i];
    const uint32_t episodes = view->episodes;
    view->name = ask->workload[i].pilot.name;
    view->pilot = pilot;
    view->decision = d;
    const double step_s = ask->step_s / ask->speed;
    aw_real_tally(&view->total[AW_JOB_AWARE], d, step_s);
    aw_real_tally(&view->stage[AW_JOB_AWARE][d->stage], d, step_s);
    aw_real_tally(own, d, step_s);
    view->transitions += d->moved;
    if (own->steps >= ask->workload[i].pilot.episode_steps) {
        view->recent[AW_JOB_AWARE] = *own;
        *own = (struct aw_job_tally){0};
        view->episodes++;
    }
    const struct aw_job_step step = {
        .workload = i,
        .decision = d,
        .sample = aw_pilot_sample(pilot),
        .at_us = at_us,
        .truth[AW_JOB_AWARE] = d->score,
        .arrivals_per_s = isfinite(d->reading.arrivals_per_s) ? d->reading.arrivals_per_s : 0,
        .replicas_ready[AW_JOB_AWARE] = d->reading.replicas_ready,
        .plan[AW_JOB_AWARE] = d->guard.plan,
    };
    const uint32_t events = aw__runhistory_step(&r->history, ask, &step, view);
    aw__runrow_of(&r->row[i], &step, view);
    if (r->look == LOOK_JSON || r->look == LOOK_CSV)
        aw__runlines_step(stdout, r->look == LOOK_JSON, ask, &step);
    for (uint32_t n = events; r->look == LOOK_ROWS && n-- > 0;) {
        const struct aw__runevent *event = aw__runhistory_event(&r->history, n);
        if (event)
            aw__runrows_event(stdout, ask, event);
    }
    if (r->look == LOOK_ROWS && view->episodes > episodes)
        aw__runrows_episode(stdout, ask, &r->row[i], at_us);
}

static void on_step(void *ctx, uint64_t step)
{
    struct runner *r = ctx;
    const int64_t step_us = llround(1e6 * r->ask.step_s);
    for (uint32_t i = 0; i < r->ask.count; i++)
        step_tell(r, i, (int64_t)(step - 1) * step_us);
    if (r->live)
        aw__runlive_tell(r->live, r->row, step, &r->history);
    if (r->look != LOOK_NONE)
        fflush(stdout);
}

static enum aw_err steps(struct runner *r, struct aw_diag *diag)
{
    return aw_real_steps(&r->real, r->ask.steps_total, on_step, r, diag);
}

static void *steps_thread(void *ctx)
{
    struct runner *r = ctx;
    r->err = steps(r, &r->diag);
    r->done = true;
    return NULL;
}

static enum aw_err steps_shown(struct runner *r, struct aw_diag *diag)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&thread, NULL, steps_thread, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread to run on: %s", strerror(failed));
    while (!r->done) {
        aw__runlive_draw(r->live, aw_stop_signal != 0);
        const enum aw_err err = aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + FRAME_US);
        (void)err; /* a signal only brings the next frame forward */
    }
    pthread_join(thread, NULL);
    if (r->err)
        *diag = r->diag;
    return r->err;
}

/* --- the end ---------------------------------------------------------------------------------- */

static enum aw_err summary_print(struct runner *r, struct aw_diag *diag)
{
    static const char *const heads[] = {"WORKLOAD", "STAGE",  ">STEPS",  ">MISSED", ">REWARD",
                                        ">COST $",  ">CORES", ">CPU%",   ">MEM%",   ">REQUESTS",
                                        ">FAILED",  ">P99",   ">INSIDE", ">OOM",    NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < r->ask.count; i++) {
        const struct aw_job_tally *t = &r->view[i].total[AW_JOB_AWARE];
        const struct aw_drive_result *sent = &r->real.load[i].result;
        const double n = t->steps ? (double)t->steps : 1;
        const double inside = aw_local_inside_us(r->real.local, i, 0.99);
        char p99[AW_QUANTITY_TEXT_MAX];
        aw_table_add(&table, "%s", aw_run_name(r->ask.workload[i].pilot.name));
        aw_table_add(&table, "%s", aw_stage_name(aw_pilot_stage(aw_loop_pilot(r->real.loop, i))));
        aw_table_add(&table, "%" PRIu64, t->steps);
        aw_table_add(&table, "%" PRIu64, t->violations);
        aw_table_add(&table, "%.1f", aw__run_reward(t, r->ask.workload[i].pilot.episode_steps));
        aw_table_add(&table, "%.5f", t->cost);
        aw_table_add(&table, "%.2f", t->core_s * r->ask.speed / (n * r->ask.step_s));
        aw_table_add(&table, "%.1f", 100 * t->cpu_utilisation / n);
        aw_table_add(&table, "%.1f", 100 * t->memory_utilisation / n);
        aw_table_add(&table, "%" PRIu64, sent->all.due);
        aw_table_add(&table, "%" PRIu64, aw_real_failed(&sent->all));
        aw_table_add(&table, "%s",
                     aw_duration_round((int64_t)aw_latency_histogram_quantile(&sent->latency, 0.99),
                                       p99, sizeof p99));
        aw_table_add(&table, "%s",
                     isfinite(inside) ? aw_duration_round((int64_t)inside, p99, sizeof p99) : "-");
        aw_table_add(&table, "%" PRIu64, t->oom_kills);
    }
    return aw_table_print(&table, stdout, r->run->color_out, diag);
}

static enum aw_err summary_json(struct runner *r, struct aw_diag *diag)
{
    json_t *root = json_object(), *list = json_array();
    for (uint32_t i = 0; i < r->ask.count; i++) {
        const struct aw_job_tally *t = &r->view[i].total[AW_JOB_AWARE];
        const struct aw_drive_result *sent = &r->real.load[i].result;
        struct aw_local_requests seen;
        json_t *one = json_object();
        const double n = t->steps ? (double)t->steps : 1;
        aw_local_requests(r->real.local, i, &seen);
        json_object_set_new(one, "name", json_string(r->ask.workload[i].pilot.name));
        json_object_set_new(
            one, "stage",
            json_string(aw_stage_name(aw_pilot_stage(aw_loop_pilot(r->real.loop, i)))));
        json_object_set_new(one, "steps", json_integer((json_int_t)t->steps));
        json_object_set_new(one, "violations", json_integer((json_int_t)t->violations));
        json_object_set_new(one, "agent_steps", json_integer((json_int_t)t->agent_steps));
        json_object_set_new(one, "reward_per_step", aw_json_real(t->reward / n));
        json_object_set_new(one, "cost", aw_json_real(t->cost));
        json_object_set_new(one, "core_s", aw_json_real(t->core_s));
        json_object_set_new(one, "gib_s", aw_json_real(t->gib_s));
        json_object_set_new(one, "cpu_utilisation", aw_json_real(t->cpu_utilisation / n));
        json_object_set_new(one, "memory_utilisation", aw_json_real(t->memory_utilisation / n));
        json_object_set_new(one, "oom_kills", json_integer((json_int_t)t->oom_kills));
        json_object_set_new(one, "requests", json_integer((json_int_t)sent->all.due));
        json_object_set_new(one, "failed", json_integer((json_int_t)aw_real_failed(&sent->all)));
        json_object_set_new(one, "answered_ok", json_integer((json_int_t)sent->all.ok));
        json_object_set_new(
            one, "latency_us_p99",
            aw_json_real((double)aw_latency_histogram_quantile(&sent->latency, 0.99)));
        json_object_set_new(one, "inside_us_p50",
                            aw_json_real(aw_local_inside_us(r->real.local, i, 0.5)));
        json_object_set_new(one, "inside_us_p99",
                            aw_json_real(aw_local_inside_us(r->real.local, i, 0.99)));
        json_object_set_new(one, "balancer_lost", json_integer((json_int_t)seen.lost));
        json_object_set_new(one, "balancer_retries", json_integer((json_int_t)seen.retries));
        json_array_append_new(list, one);
    }
    json_object_set_new(root, "type", json_string("summary"));
    json_object_set_new(root, "cluster", json_string("local"));
    json_object_set_new(root, "interrupted", json_boolean(aw_stop_signal != 0));
    json_object_set_new(root, "workloads", list);
    char *line = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(root);
    if (!line)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the summary");
    puts(line); /* one line, as every step is */
    free(line);
    return AW_OK;
}

static void trouble_tell(struct runner *r)
{
    for (uint32_t i = 0; i < r->ask.count; i++) {
        char trouble[AW_DIAG_TEXT_MAX];
        aw_local_trouble(r->real.local, i, trouble, sizeof trouble);
        if (*trouble)
            aw_log_warn(r->run->log, "replicas had trouble, last of all this",
                        AW_LOG_STR("workload", r->ask.workload[i].pilot.name),
                        AW_LOG_STR("why", trouble));
    }
}

static void runner_close(struct runner *r)
{
    aw__runlive_free(r->live);
    aw_real_close(&r->real);
    aw__runagents_close(r->agents);
    aw_store_close(&r->store);
    aw__runhistory_deinit(&r->history);
    aw_alloc_free(NULL, r->row);
    aw_alloc_free(NULL, r->episode);
    aw_alloc_free(NULL, r->view);
    aw_runask_deinit(&r->ask);
    aw_alloc_free(NULL, r);
}

enum aw_err aw__run_local(const struct aw_call *run, struct aw_diag *diag)
{
    struct runner *r = aw_alloc_new(NULL, 1, sizeof *r);
    const bool quiet = aw_args_given(run->args, "quiet");
    if (!r)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a run");
    r->run = run;
    r->look = run->json                                           ? LOOK_JSON
              : !strcmp(aw_args_text(run->args, "output"), "csv") ? LOOK_CSV
                                                                  : LOOK_NONE;
    enum aw_err err = ask_read(r, diag);
    if (err)
        goto out;
    aw_stop_catch(&(struct aw_stop_config){.twice = false});
    signal(SIGPIPE, SIG_IGN);
    err = make(r, diag);
    if (!err && !quiet && r->look == LOOK_NONE)
        for (uint32_t i = 0; i < r->ask.count; i++)
            fprintf(stderr, "%s listens on http://127.0.0.1:%u\n",
                    aw_run_name(r->ask.workload[i].pilot.name),
                    (unsigned)aw_local_port(r->real.local, i));
    err = err ? err : aw_real_ready(&r->real, diag);
    if (!err)
        aw__runagents_wait(r->agents, r->ask.agents_wait_s, &aw_stop_signal);
    if (err || aw_stop_signal)
        goto out;
    const bool watched = !quiet && (r->look == LOOK_NONE || !isatty(STDOUT_FILENO));
    if ((err = aw__runlive_new(&r->ask, stderr, watched, run->color_err, 0, &r->live))) {
        err = aw_fail(diag, err, "no memory for the table");
        goto out;
    }
    if (r->look == LOOK_NONE && !r->live && !quiet)
        r->look = LOOK_ROWS;
    if (r->look == LOOK_ROWS)
        aw__runrows_head(stdout, &r->ask);
    else if (r->look != LOOK_NONE)
        aw__runlines_head(stdout, r->look == LOOK_JSON, &r->ask, 0);
    err = aw_real_load_begin(&r->real, 0, r->ask.steps_total, r->ask.seed, diag);
    err = err ? err : r->live ? steps_shown(r, diag) : steps(r, diag);
    const enum aw_err sent = aw_real_load_end(&r->real, err ? NULL : diag);
    err = err ? err : sent;
    aw__runlive_free(r->live);
    r->live = NULL;
    if (!err && r->look != LOOK_CSV)
        err = r->look == LOOK_JSON ? summary_json(r, diag) : summary_print(r, diag);
    trouble_tell(r);
out:
    runner_close(r);
    if (!err && aw_stop_signal)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted; everything was ended");
    return err;
}
