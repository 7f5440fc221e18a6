/*
 * train.c - the verb `train`: makes or resumes a run, shows how it goes, keeps its files.
 *
 * The run advances in slices of about SLICE_US, between which the progress is drawn, signals are
 * seen and logs are written. A slice also ends at every step where a log row or an evaluation is
 * due, so what is logged does not depend on how fast the machine is.
 */
#include "train/train.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stats.h"
#include "base/threads.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/progress.h"
#include "frame/stop.h"
#include "frame/summary.h"
#include "frame/verbs.h"
#include "rpc/remote.h"
#include "telemetry/csvlog.h"
#include "telemetry/tfevents.h"

#define SLICE_US          50000                    /* how long signals and the line may wait */
#define CHECKPOINT_US     (INT64_C(300) * 1000000) /* what a power cut may cost */
#define LOG_POINTS        200u                     /* TensorBoard points over a run */
#define EVENTS_FILE       "events.out.tfevents.aware"
#define PROGRESS_FILE     "progress.csv"
#define EVALUATION_FILE   "evaluation.csv"
#define EVAL_EPISODES_MAX 10000u
#define EVAL_SEED_OFFSET  1000u /* evaluations of seed S use S + this, whatever the run drew */

static const char *const progress_columns[] = {"step", "time_s", "episode_return", "episode_length",
                                               NULL};
static const char *const evaluation_columns[] = {
    "step", "time_s", "return_mean", "return_low", "return_high", "episodes", NULL};

struct session {
    const struct aw_call *run;
    struct aw_train *train;
    const char *dir; /* NULL: nothing is kept */
    const char *preset;
    uint64_t eval_every, eval_next, log_every, log_next;
    uint32_t eval_episodes;
    double *returns; /* [eval_episodes] */
    int64_t start_us, saved_us;
    uint64_t start_step;
    double time_before_s; /* of earlier sessions of this run */
    struct aw_csvlog progress_csv, evaluation_csv;
    struct aw_tfevents events;
    struct aw_progress progress;
    struct aw_diag *diag;
    enum aw_err episode_err; /* of writing a row from inside the loop */
};

static double session_seconds(const struct session *session)
{
    return (double)(aw_clock_monotonic_us(NULL) - session->start_us) / 1e6;
}

static double wall_seconds(void)
{
    return (double)aw_clock_now_us(NULL) / 1e6;
}

/* ---- what was asked ---- */

#define ENV_PREFIX "env." /* of a --set that is meant for the environment */

/* What is served elsewhere takes its options in its address, so that whoever has the address, such
 * as a run directory, has them too. */
static enum aw_err address_build(const struct aw_args *args, char ret[static AW_ENV_ADDRESS_MAX],
                                 struct aw_diag *diag)
{
    const char *name = aw_args_text(args, "env");
    const bool elsewhere = strstr(name, "://");
    int used = snprintf(ret, AW_ENV_ADDRESS_MAX, "%s", name);
    for (uint32_t i = 0; elsewhere && i < args->repeat_count; i++) {
        const char *pair = args->repeat[i] + strlen(ENV_PREFIX);
        if (strncmp(args->repeat[i], ENV_PREFIX, strlen(ENV_PREFIX)))
            continue;
        if (strchr(pair, '&') || !strchr(pair, '='))
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--set",
                              "expected env.KEY=VALUE without &, found \"%.64s\"", args->repeat[i]);
        if (used >= 0 && (size_t)used < AW_ENV_ADDRESS_MAX)
            used += snprintf(ret + used, AW_ENV_ADDRESS_MAX - (size_t)used, "%cset.%s",
                             strchr(ret, '?') ? '&' : '?', pair);
    }
    return used < 0 || (size_t)used >= AW_ENV_ADDRESS_MAX
               ? aw_fail_at(diag, AW_ERR_LIMIT, NULL, 0, 0, "--env",
                            "a name, or an address with its options, has at most %u bytes",
                            AW_ENV_ADDRESS_MAX - 1)
               : AW_OK;
}

static enum aw_err config_build(const struct aw_call *run, struct aw_train_config *config,
                                struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const struct aw_agent_factory *agent = NULL;
    const struct aw_env_factory *env = NULL;
    const char *agent_name = aw_args_text(args, "agent"), *preset;
    const bool env_given = aw_args_text(args, "env");
    char env_name[AW_ENV_ADDRESS_MAX];
    enum aw_err err;

    if (!env_given || !agent_name)
        return aw_fail(diag, AW_ERR_USAGE, "'aware train' needs --%s NAME, or --resume DIR",
                       env_given ? "agent" : "env");
    if ((err = address_build(args, env_name, diag)) || (err = aw_env_find(env_name, &env, diag)) ||
        (err = aw_agent_factory_find(agent_name, &agent, diag)))
        return err;
    *config = (struct aw_train_config){
        .steps = aw_args_number(args, "steps"),
        .seed = aw_args_number(args, "seed"),
        .env_count = (uint32_t)aw_args_number(args, "envs"),
        .thread_count = (uint32_t)aw_args_number(args, "threads"),
        .bootstrap_episodes = (uint32_t)aw_args_number(args, "bootstrap"),
    };
    if ((err = aw_train_settings(agent, env_name, aw_args_text(args, "preset"), config->settings,
                                 &preset, diag)))
        return err;
    const char *env_pairs[AW_REPEAT_MAX];
    uint32_t env_pair_count = 0;
    for (uint32_t i = 0; i < args->repeat_count; i++) {
        const char *pair = args->repeat[i];
        if (!strncmp(pair, ENV_PREFIX, strlen(ENV_PREFIX)) && strstr(env_name, "://"))
            continue; /* is in the address */
        if (!strncmp(pair, ENV_PREFIX, strlen(ENV_PREFIX)))
            env_pairs[env_pair_count++] = pair + strlen(ENV_PREFIX);
        else if ((err = aw_conf_set_pair(agent->fields, config->settings, pair, diag)))
            return err;
    }
    if (env_pair_count && !env->fields)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "--set", "%s has no options",
                          env->spec->name);
    config->has_env_settings = env_pair_count > 0;
    if (env_pair_count &&
        (err = aw_env_settings(env, env_pairs, env_pair_count, config->env_settings, diag)))
        return err;
    snprintf(config->env, sizeof config->env, "%s", env->spec->name);
    snprintf(config->agent, sizeof config->agent, "%s", agent->name);
    snprintf(config->preset, sizeof config->preset, "%s", preset);
    return AW_OK;
}

/* A run is what it is: these may not be changed on the way. */
static enum aw_err resume_check(const struct aw_args *args, struct aw_diag *diag)
{
    static const char *const fixed[] = {"env",     "agent", "preset", "set",       "seed", "envs",
                                        "threads", "out",   "force",  "bootstrap", NULL};
    for (const char *const *name = fixed; *name; name++) {
        if (aw_args_given(args, *name))
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--resume",
                              "goes on with the run as it was; --%s cannot be given with it",
                              *name);
    }
    return AW_OK;
}

/* ---- the run directory ---- */

static bool directory_has_files(const char *path)
{
    DIR *dir = opendir(path);
    bool found = false;
    if (!dir)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(dir));)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return found;
}

static enum aw_err file_in(const char *dir, const char *name, char *buf, struct aw_diag *diag)
{
    int len = snprintf(buf, AW_FILE_PATH_MAX, "%s/%s", dir, name);
    return len < 0 || (size_t)len >= AW_FILE_PATH_MAX
               ? aw_fail(diag, AW_ERR_LIMIT, "the path of %s is too long", name)
               : AW_OK;
}

/* --force replaces a run; what else lies in the directory is not ours to remove. */
static enum aw_err directory_prepare(const char *dir, bool force, struct aw_diag *diag)
{
    static const char *const files[] = {
        "checkpoint.tmp/loop.state", /* or a save that was cut off would be taken for ours */
        "run.json",
        "model.safetensors",
        "state.safetensors",
        "loop.state",
        PROGRESS_FILE,
        EVALUATION_FILE,
        EVENTS_FILE,
        NULL,
    };
    char path[AW_FILE_PATH_MAX];
    if (directory_has_files(dir) && !force)
        return aw_fail_at(diag, AW_ERR_EXISTS, dir, 0, 0, NULL,
                          "the directory is not empty: go on with --resume, replace the run with "
                          "--force, or choose another --out");
    enum aw_err err = aw_file_mkdirs(dir, diag);
    for (const char *const *name = files; !err && *name; name++) {
        if (!(err = file_in(dir, *name, path, diag)) && unlink(path) != 0 && errno != ENOENT)
            err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    }
    return err;
}

/* The second column of the last row that was kept: how long the run had taken until then. */
static double row_seconds(const char *row)
{
    const char *comma = strchr(row, ',');
    char text[32];
    double seconds = 0;
    if (!comma)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(comma + 1, ","), comma + 1);
    return aw_text_parse_real(text, &seconds) ? 0 : seconds;
}

static enum aw_err logs_open(struct session *session, bool resumed)
{
    char path[AW_FILE_PATH_MAX], last[256] = "";
    uint64_t step = aw_train_progress(session->train)->step;
    struct aw_diag *diag = session->diag;
    enum aw_err err;
    if (!session->dir)
        return AW_OK;
    if ((err = file_in(session->dir, PROGRESS_FILE, path, diag)))
        return err;
    err = resumed ? aw_csvlog_resume(&session->progress_csv, path, progress_columns, step, last,
                                     sizeof last, diag)
                  : aw_csvlog_create(&session->progress_csv, path, progress_columns, diag);
    if (err)
        return err;
    session->time_before_s = row_seconds(last);
    if ((err = file_in(session->dir, EVENTS_FILE, path, diag)))
        return err;
    err = resumed ? aw_tfevents_resume(&session->events, path, step, wall_seconds(), diag)
                  : aw_tfevents_create(&session->events, path, wall_seconds(), diag);
    if (err || !session->eval_every)
        return err;
    if ((err = file_in(session->dir, EVALUATION_FILE, path, diag)))
        return err;
    return resumed ? aw_csvlog_resume(&session->evaluation_csv, path, evaluation_columns, step,
                                      last, sizeof last, diag)
                   : aw_csvlog_create(&session->evaluation_csv, path, evaluation_columns, diag);
}

/* ---- while it runs ---- */

static void on_episode(void *ctx, const struct aw_train_episode *episode)
{
    struct session *session = ctx;
    if (!session->dir || session->episode_err)
        return;
    aw_csvlog_u64(&session->progress_csv, episode->step);
    aw_csvlog_real(&session->progress_csv,
                   round((session->time_before_s + session_seconds(session)) * 1e3) / 1e3);
    aw_csvlog_real(&session->progress_csv, episode->episode_return);
    aw_csvlog_u64(&session->progress_csv, episode->length);
    session->episode_err = aw_csvlog_end_row(&session->progress_csv, session->diag);
}

static enum aw_err log_point(struct session *session)
{
    const struct aw_train_progress *at = aw_train_progress(session->train);
    struct aw_tfevents_scalar scalar[3 + AW_LEARN_STATS_MAX];
    char tag[AW_LEARN_STATS_MAX][AW_TFEVENTS_TAG_MAX];
    double seconds = session_seconds(session);
    uint32_t count = 0;
    if (!session->dir)
        return AW_OK;
    scalar[count++] = (struct aw_tfevents_scalar){"rollout/ep_rew_mean", at->return_mean};
    scalar[count++] = (struct aw_tfevents_scalar){"rollout/ep_len_mean", at->length_mean};
    scalar[count++] = (struct aw_tfevents_scalar){
        "time/fps", seconds > 0 ? (double)(at->step - session->start_step) / seconds : (double)NAN};
    for (uint32_t i = 0; i < at->learn.count; i++) {
        snprintf(tag[i], sizeof tag[i], "train/%.50s", at->learn.stat[i].name);
        scalar[count++] = (struct aw_tfevents_scalar){tag[i], at->learn.stat[i].value};
    }
    return aw_tfevents_add(&session->events, wall_seconds(), at->step, scalar, count,
                           session->diag);
}

static enum aw_err evaluate(struct session *session, struct aw_returns *ret)
{
    const struct aw_train_config *config = aw_train_config(session->train);
    enum aw_err err =
        aw_train_evaluate(session->train, session->eval_episodes, config->seed + EVAL_SEED_OFFSET,
                          session->returns, session->diag);
    if (err)
        return err;
    return aw_returns_of(session->returns, session->eval_episodes, ret, session->diag);
}

static enum aw_err evaluation_point(struct session *session)
{
    const struct aw_train_progress *at = aw_train_progress(session->train);
    struct aw_returns returns;
    enum aw_err err = evaluate(session, &returns);
    if (err)
        return err;
    if (!session->progress.line.quiet) {
        aw_progress_clear(&session->progress);
        fprintf(stderr, "evaluation at step %" PRIu64 ": return %.1f (%.1f to %.1f), %u episodes\n",
                at->step, returns.mean, returns.low, returns.high, session->eval_episodes);
    }
    if (!session->dir)
        return AW_OK;
    aw_csvlog_u64(&session->evaluation_csv, at->step);
    aw_csvlog_real(&session->evaluation_csv,
                   round((session->time_before_s + session_seconds(session)) * 1e3) / 1e3);
    aw_csvlog_real(&session->evaluation_csv, returns.mean);
    aw_csvlog_real(&session->evaluation_csv, returns.low);
    aw_csvlog_real(&session->evaluation_csv, returns.high);
    aw_csvlog_u64(&session->evaluation_csv, session->eval_episodes);
    if ((err = aw_csvlog_end_row(&session->evaluation_csv, session->diag)))
        return err;
    struct aw_tfevents_scalar scalar = {"eval/mean_reward", returns.mean};
    return aw_tfevents_add(&session->events, wall_seconds(), at->step, &scalar, 1, session->diag);
}

static uint64_t next_multiple(uint64_t step, uint64_t every)
{
    return every ? (step / every + 1) * every : UINT64_MAX;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What is due at this step. */
static enum aw_err points(struct session *session)
{
    uint64_t step = aw_train_progress(session->train)->step;
    enum aw_err err;
    if (step >= session->log_next || aw_train_done(session->train)) {
        session->log_next = next_multiple(step, session->log_every);
        if ((err = log_point(session)))
            return err;
    }
    if (step >= session->eval_next) {
        session->eval_next = next_multiple(step, session->eval_every);
        if ((err = evaluation_point(session)))
            return err;
    }
    int64_t now_us = aw_clock_monotonic_us(NULL);
    if (session->dir && now_us - session->saved_us > CHECKPOINT_US) {
        if ((err = aw_train_save(session->train, session->dir, true, session->diag)))
            return err;
        session->saved_us = aw_clock_monotonic_us(NULL);
        aw_log_info(session->run->log, "checkpoint saved", AW_LOG_INT("step", (int64_t)step),
                    AW_LOG_STR("dir", session->dir));
    }
    return AW_OK;
}

static enum aw_err run_to_end(struct session *session)
{
    uint64_t slice = 1;
    enum aw_err err;
    while (!aw_train_done(session->train) && !aw_stop_signal) {
        uint64_t step = aw_train_progress(session->train)->step;
        int64_t begin_us = aw_clock_monotonic_us(NULL);
        uint64_t due = min_u64(session->log_next, session->eval_next) - step;
        if ((err = aw_train_step(session->train, min_u64(slice, due), on_episode, session,
                                 session->diag)))
            return err;
        if (session->episode_err)
            return session->episode_err;
        int64_t now_us = aw_clock_monotonic_us(NULL);
        if (now_us - begin_us < SLICE_US / 2 && slice <= due)
            slice *= 2;
        else if (now_us - begin_us > SLICE_US && slice > 1)
            slice /= 2;
        if ((err = points(session)))
            return err;
        aw_progress_update(&session->progress, aw_train_progress(session->train), now_us);
    }
    return AW_OK;
}

/* ---- the end ---- */

static enum aw_err interrupted(struct session *session)
{
    const struct aw_train_progress *at = aw_train_progress(session->train);
    uint64_t steps = aw_train_config(session->train)->steps;
    struct aw_diag *diag = session->diag;
    if (!session->dir)
        return aw_fail(diag, AW_ERR_INTERRUPTED,
                       "interrupted at step %" PRIu64 " of %" PRIu64
                       "; nothing was saved, for want of --out",
                       at->step, steps);
    enum aw_err err = aw_train_save(session->train, session->dir, true, diag);
    if (err)
        return err;
    return aw_fail(diag, AW_ERR_INTERRUPTED,
                   "interrupted at step %" PRIu64 " of %" PRIu64
                   " and saved; go on with: aware train --resume %s",
                   at->step, steps, session->dir);
}

static enum aw_err report(struct session *session, const struct aw_returns *evaluation)
{
    double recent[AW_TRAIN_RECENT];
    struct aw_returns training = {0};
    uint32_t count = aw_train_recent(session->train, recent);
    double seconds = session_seconds(session);
    struct aw_summary summary = {
        .config = aw_train_config(session->train),
        .progress = aw_train_progress(session->train),
        .training = &training,
        .evaluation = session->eval_episodes ? evaluation : NULL,
        .seconds = seconds,
        .steps_per_second =
            (double)(aw_train_progress(session->train)->step - session->start_step) /
            (seconds > 0 ? seconds : 1),
        .dir = session->dir,
    };
    enum aw_err err = aw_returns_of(recent, count, &training, session->diag);
    if (err)
        return err;
    return session->run->json ? aw_json_print(aw_summary_json(&summary), session->diag)
                              : aw_summary_print(&summary, session->run->color_out);
}

/* What a person wants to know before waiting. */
static void announce(const struct session *session, bool resumed)
{
    const struct aw_train_config *config = aw_train_config(session->train);
    const struct aw_train_progress *at = aw_train_progress(session->train);
    if (session->progress.line.quiet)
        return;
    fprintf(stderr, "%s %s on %s: %" PRIu64 " steps, seed %" PRIu64 ", %u environment%s",
            resumed ? "resuming" : "training", config->agent, config->env, config->steps,
            config->seed, config->env_count, config->env_count == 1 ? "" : "s");
    if (resumed)
        fprintf(stderr, ", from step %" PRIu64, at->step);
    fputc('\n', stderr);
    if (*config->preset && !resumed)
        fprintf(stderr, "preset %s is laid over the defaults%s\n", config->preset,
                strcmp(config->preset, config->env) ? "" : " (turn it off with --preset none)");
    if (config->bootstrap_episodes && !resumed)
        fprintf(stderr, "the environment's own agent acts in the first %u episode%s\n",
                config->bootstrap_episodes, config->bootstrap_episodes == 1 ? "" : "s");
    if (!session->dir)
        fputs("nothing will be saved: --out is not given\n", stderr);
}

static enum aw_err session_run(struct session *session, bool resumed)
{
    struct aw_returns evaluation = {0};
    uint64_t step = aw_train_progress(session->train)->step;
    const struct aw_train_config *config = aw_train_config(session->train);
    enum aw_err err;

    session->log_every = config->steps / LOG_POINTS ? config->steps / LOG_POINTS : 1;
    session->log_next = next_multiple(step, session->log_every);
    session->eval_next = next_multiple(step, session->eval_every);
    session->start_step = step;
    session->start_us = session->saved_us = aw_clock_monotonic_us(NULL);
    if ((err = logs_open(session, resumed)))
        return err;
    /* So that a run killed before its first checkpoint can be resumed, from its beginning. */
    if (session->dir && !resumed &&
        (err = aw_train_save(session->train, session->dir, true, session->diag)))
        return err;
    aw_progress_init(&session->progress, stderr, aw_args_given(session->run->args, "quiet"), step,
                     config->steps, session->start_us);
    announce(session, resumed);
    aw_log_info(session->run->log, resumed ? "run resumed" : "run begun",
                AW_LOG_STR("env", config->env), AW_LOG_STR("agent", config->agent),
                AW_LOG_INT("seed", (int64_t)config->seed),
                AW_LOG_INT("steps", (int64_t)config->steps), AW_LOG_INT("step", (int64_t)step));
    err = run_to_end(session);
    aw_progress_clear(&session->progress);
    if (err)
        return err;
    if (!aw_train_done(session->train))
        return interrupted(session);
    if (session->dir && (err = aw_train_save(session->train, session->dir, true, session->diag)))
        return err;
    aw_log_info(session->run->log, session->dir ? "run ended and saved" : "run ended",
                AW_LOG_INT("step", (int64_t)aw_train_progress(session->train)->step),
                AW_LOG_STR("dir", session->dir));
    if (session->eval_episodes && (err = evaluate(session, &evaluation)))
        return err;
    return report(session, &evaluation);
}

/* What an environment of another process said itself, which its calls have no diagnostic for. */
static enum aw_err with_trouble(enum aw_err err, struct aw_diag *diag)
{
    char before[AW_DIAG_TEXT_MAX], trouble[AW_DIAG_TEXT_MAX];
    if (!err || !*aw_remote_trouble(trouble, sizeof trouble))
        return err;
    snprintf(before, sizeof before, "%s", diag->text);
    return aw_fail(diag, err, "%.200s (%.290s)", before, trouble);
}

static enum aw_err train_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const char *resume = aw_args_text(args, "resume");
    struct session session = {
        .run = run,
        .dir = resume ? resume : aw_args_text(args, "out"),
        .eval_every = aw_args_number(args, "eval-every"),
        .eval_episodes = (uint32_t)aw_args_number(args, "eval-episodes"),
        .diag = diag,
    };
    struct aw_train_config config;
    enum aw_err err;

    if (session.eval_every && !session.eval_episodes)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--eval-every",
                          "needs --eval-episodes above 0");
    aw_stop_catch(&(struct aw_stop_config){.twice = true});
    if (resume) {
        uint64_t steps = aw_args_given(args, "steps") ? aw_args_number(args, "steps") : 0;
        if ((err = resume_check(args, diag)) ||
            (err = aw_train_resume(resume, steps, NULL, &session.train, diag)))
            goto out;
    } else {
        if ((err = config_build(run, &config, diag)) ||
            (err = aw_train_new(&config, NULL, &session.train, diag)))
            goto out;
        if (session.dir &&
            (err = directory_prepare(session.dir, aw_args_given(args, "force"), diag)))
            goto out;
    }
    session.returns = aw_alloc_new(NULL, session.eval_episodes + 1, sizeof *session.returns);
    if (!session.returns) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the returns of the evaluation");
        goto out;
    }
    err = with_trouble(session_run(&session, resume != NULL), diag);
out:
    aw_csvlog_close(&session.progress_csv);
    aw_csvlog_close(&session.evaluation_csv);
    aw_tfevents_close(&session.events);
    aw_alloc_free(NULL, session.returns);
    aw_train_free(session.train);
    return err;
}

static const struct aw_option train_options[] = {
    AW_OPTION(ENV, "env", 'e', "NAME", NULL,
              "the environment to learn; 'aware env list' shows them; or where another program "
              "serves one: grpc://HOST:PORT/NAME"),
    AW_OPTION(AGENT, "agent", 'a', "NAME", NULL, "the learner; 'aware agent list' shows them"),
    AW_NUMBER("steps", 'n', "N", "100k", 1, AW_TRAIN_STEPS_MAX,
              "environment steps in all: 20000, 20k, 1M; with --resume a new total"),
    AW_NUMBER("seed", 's', "N", "0", 0, AW_TRAIN_SEED_MAX - EVAL_SEED_OFFSET,
              "where all chance starts; the same seed gives the same bytes"),
    AW_OPTION(PRESET, "preset", 'p', "NAME", NULL,
              "settings laid over the learner's defaults; without it, the preset named like the "
              "environment if there is one; none turns that off"),
    AW_OPTION(SETTING, "set", 0, "KEY=VALUE", NULL,
              "change a setting of the learner ('aware agent describe NAME' lists them) or, as "
              "env.KEY=VALUE, an option of the environment ('aware env describe NAME')",
              .repeated = true),
    AW_OPTION(DIR, "out", 0, "DIR", NULL, "keep the run in this directory"),
    AW_OPTION(DIR, "resume", 'r', "DIR", NULL,
              "go on with the run in this directory, exactly where it was saved"),
    AW_FLAG("force", 'f', "replace the run that --out already holds"),
    AW_NUMBER("envs", 0, "N", "1", 1, AW_TRAIN_ENVS_MAX, "environments stepped in lockstep"),
    AW_NUMBER("threads", 0, "N", "1", 1, AW_THREADS_MAX,
              "threads that step them; results do not depend on it"),
    AW_NUMBER("bootstrap", 0, "EPISODES", "0", 0, AW_TRAIN_BOOTSTRAP_MAX,
              "let the agent that a served environment brings along act in the first episodes, and "
              "learn from them before acting; --agent bcq is made for that"),
    AW_NUMBER("eval-every", 0, "N", "0", 0, AW_TRAIN_STEPS_MAX,
              "evaluate each time so many steps are done; 0: only at the end"),
    AW_NUMBER("eval-episodes", 0, "N", "20", 0, EVAL_EPISODES_MAX,
              "deterministic episodes of an evaluation; 0: none"),
    AW_FLAG("quiet", 'q', "no progress on stderr"),
    {.name = NULL},
};
static const struct aw_example train_examples[] = {
    {"aware train --env cartpole-v1 --agent ppo --steps 100k --out runs/cart",
     "train, and keep everything in runs/cart"},
    {"aware train --resume runs/cart --steps 200k", "train the same run for longer"},
    {"aware train -e pendulum-v1 -a td3 --set gamma=0.98 --set batch=128",
     "change settings; nothing is saved"},
    {"aware train -e pendulum-v1 -a ddpg -n 20k -q -o json", "for a script: one JSON document"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_train = {
    .name = "train",
    .summary = "Train a learner on an environment, or go on with a run",
    .text =
        "On a terminal one line shows how far it is: steps, the mean return of the last 100 "
        "episodes, steps per second and the time left. Without a terminal about 20 rows appear "
        "on stderr. The summary goes to stdout.\n\n"
        "With --out a run directory is kept: run.json, model.safetensors, state.safetensors, "
        "loop.state, progress.csv and a TensorBoard event file. Ctrl-C saves and ends; --resume "
        "continues, and gives the same bytes as a run that was never interrupted.",
    .options = train_options,
    .examples = train_examples,
    .json = true,
    .run = train_run,
};
