/*
 * pretrain.c - the verb `pretrain`: teaches one policy on a pool of applications, and writes a
 * model with its card.
 */
#include "cli/pretrain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "frame/version.h"
#include "nn/matmul.h"
#include "pretrain/adapt.h"

#define ENV_PREFIX "env." /* of a --set that is meant for the environment */
#define ENDING     ".safetensors"

static const char *const preset_names[] = {"default", "paper", NULL};

static bool met(void *ctx, uint32_t done, uint32_t total)
{
    /* in a team everybody must stop at the same place, which is the end of a round */
    const struct aw__pretrain *ask = ctx;
    return aw__pretrain_met(ctx, done, total) && (!aw_stop_signal || ask->team.size > 1);
}

/* --- what was asked --------------------------------------------------------------------------- */

static enum aw_err settings_take(struct aw__pretrain *ask, const struct aw_args *args,
                                 struct aw_diag *diag)
{
    struct aw_pretrain_config *config = &ask->config;
    enum aw_err err = AW_OK;
    aw_pretrain_config_init(config);
    ask->paper = !strcmp(aw_args_text(args, "preset"), "paper");
    if (ask->paper)
        aw_pretrain_config_paper(config);
    config->pairs[config->pair_count++] = "objective=paper";
    config->pairs[config->pair_count++] = "load_cores=2";
    for (uint32_t i = 0; !err && i < args->repeat_count; i++) {
        const char *pair = args->repeat[i];
        if (!strncmp(pair, ENV_PREFIX, strlen(ENV_PREFIX))) {
            if (config->pair_count == AW_MODEL_CARD_PAIRS_MAX)
                return aw_fail_at(diag, AW_ERR_LIMIT, NULL, 0, 0, "--set", "at most %u options",
                                  AW_MODEL_CARD_PAIRS_MAX);
            config->pairs[config->pair_count++] = pair + strlen(ENV_PREFIX);
        } else {
            err = aw_appset_setting(config, pair, diag);
        }
    }
    if (err)
        return err;
    if (aw_args_given(args, "rounds"))
        config->rounds = (uint32_t)aw_args_number(args, "rounds");
    config->seed = aw_args_number(args, "seed");
    const uint64_t threads = aw_args_number(args, "threads");
    config->threads = threads              ? (uint32_t)threads
                      : ask->team.size > 1 ? 1 /* the processes have the processors already */
                                           : aw_threads_cpu_count();
    ask->patience = (uint32_t)aw_args_number(args, "patience");
    ask->predict = (uint32_t)aw_args_number(args, "predict");
    return AW_OK;
}

static enum aw_err pools_take(struct aw__pretrain *ask, const struct aw_args *args,
                              struct aw_diag *diag)
{
    struct aw_pretrain_pool *learn = &ask->config.learn, *check = &ask->config.check;
    learn->seed = 1;
    enum aw_err err =
        aw_appset_pool(aw_args_text(args, "apps"), "--apps", learn, &ask->learn_file, diag);
    check->seed = learn->apps ? 1 : learn->seed;
    err =
        err ? err
            : aw_appset_pool(aw_args_text(args, "check"), "--check", check, &ask->check_file, diag);
    if (!err && (learn->apps || check->apps))
        err = aw_appset_apart(learn, check, diag);
    else if (!err && check->seed == learn->seed && check->first < learn->first + learn->count &&
             learn->first < check->first + check->count)
        err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--check",
                         "shares applications with --apps: what is learned from proves nothing");
    err = err ? err : aw_appset_open(&ask->pool, aw_args_text(args, "load"), diag);
    learn->ctx = check->ctx = &ask->pool;
    ask->config.load_make = aw_appset_make;
    return err;
}

enum aw_err aw__pretrain_files(const struct aw_args *args, const char *what, size_t size,
                               char *ret_model, char *ret_card, struct aw_diag *diag)
{
    const char *out = aw_args_text(args, "out");
    char folder[AW_TEXT_MAX];
    size_t len = strlen(out);
    if (len > strlen(ENDING) && !strcmp(out + len - strlen(ENDING), ENDING))
        len -= strlen(ENDING);
    if (len + 16 >= size || len >= sizeof folder)
        return aw_fail(diag, AW_ERR_LIMIT, "the name of a file is too long");
    snprintf(ret_model, size, "%.*s" ENDING, (int)len, out);
    snprintf(ret_card, size, "%.*s.md", (int)len, out);
    if (!aw_args_given(args, "force") && access(ret_model, F_OK) == 0)
        return aw_fail_at(diag, AW_ERR_EXISTS, ret_model, 0, 0, NULL,
                          "the %s is there already: replace it with --force, or choose another "
                          "--out",
                          what);
    snprintf(folder, sizeof folder, "%.*s", (int)len, out); /* made now, not after minutes */
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return AW_OK;
    *slash = '\0';
    return aw_file_mkdirs(folder, diag);
}

static enum aw_err files_take(struct aw__pretrain *ask, const struct aw_args *args,
                              struct aw_diag *diag)
{
    const char *state = aw_args_text(args, "checkpoint");
    const bool resume = aw_args_given(args, "resume");
    if (state && strlen(state) + 32 >= sizeof ask->state)
        return aw_fail(diag, AW_ERR_LIMIT, "the name of a file is too long");
    if (resume && !state)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--resume",
                          "needs --checkpoint FILE: what to go on with");
    if (state && ask->team.size > 1)
        snprintf(ask->state, sizeof ask->state, "%s.%" PRIu32 "-of-%" PRIu32, state, ask->team.rank,
                 ask->team.size);
    else if (state)
        snprintf(ask->state, sizeof ask->state, "%s", state);
    if (state && !resume && !aw_args_given(args, "force") && access(ask->state, F_OK) == 0)
        return aw_fail_at(diag, AW_ERR_EXISTS, ask->state, 0, 0, NULL,
                          "a checkpoint is there already: go on with --resume, or replace it with "
                          "--force");
    return aw__pretrain_files(args, "model", sizeof ask->model, ask->model, ask->card, diag);
}

/* The command that makes the same model, wherever the trace and other files lie. */
static void command_write(struct aw__pretrain *ask, const struct aw_args *args)
{
    static const char *const kept[] = {"apps", "check",    "rounds",  "preset",
                                       "seed", "patience", "predict", NULL};
    const char *const files[] = {ask->config.learn.file, ask->config.check.file};
    const struct aw_option *option;
    struct aw_text text;
    aw_text_init(&text, ask->command, sizeof ask->command);
    if (ask->team.size > 1)
        aw_text_add(&text, "mpirun -n %" PRIu32 " ", ask->team.size);
    aw_text_add(&text, "aware pretrain");
    for (uint32_t i = 0; (option = aw_verb_option(args->verb, i)); i++)
        for (uint32_t k = 0; kept[k]; k++)
            if (!strcmp(option->name, kept[k]) && args->value[i].given)
                aw_text_add(&text, " --%s %s", option->name,
                            k < 2 && files[k] ? files[k] : args->value[i].text);
    for (uint32_t i = 0; i < args->repeat_count; i++)
        aw_text_add(&text, " --set %s", args->repeat[i]);
    const char *slash = strrchr(ask->model, '/');
    aw_text_add(&text, " --load %s --out models/%.*s", ask->pool.shown,
                (int)(strlen(slash ? slash + 1 : ask->model) - strlen(ENDING)),
                slash ? slash + 1 : ask->model);
}

static enum aw_err ask_take(struct aw__pretrain *ask, struct aw_diag *diag)
{
    const struct aw_args *args = ask->run->args;
    enum aw_err err = settings_take(ask, args, diag);
    err = err ? err : pools_take(ask, args, diag);
    err = err ? err : files_take(ask, args, diag);
    if (err)
        return err;
    command_write(ask, args);
    aw_status_line_init(&ask->line, stderr, aw_args_given(args, "quiet") || ask->team.rank > 0);
    ask->config.progress = met;
    ask->config.progress_ctx = ask;
    ask->config.team = (struct aw_pretrain_team){ask->team.rank, ask->team.size, aw_mpi_team_mean,
                                                 aw_mpi_team_broadcast, &ask->team};
    ask->point = aw_alloc_new(NULL, ask->config.rounds, sizeof *ask->point);
    if (!ask->point)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " rounds", ask->config.rounds);
    return AW_OK;
}

/* --- the run ---------------------------------------------------------------------------------- */

/* The states of a team belong together: each takes the place of the one before when all are there.
 */
static enum aw_err save(struct aw__pretrain *ask, struct aw_diag *diag)
{
    char next[AW_TEXT_MAX + 8];
    if (ask->team.size == 1)
        return aw_pretrain_save_state(ask->pretrain, ask->state, diag);
    snprintf(next, sizeof next, "%s.next", ask->state);
    enum aw_err err = aw_pretrain_save_state(ask->pretrain, next, diag);
    if (!err && (err = aw_mpi_team_barrier(&ask->team)))
        aw_fail(diag, err, "another process of the team is lost");
    if (!err && rename(next, ask->state) != 0)
        err = aw_fail_at(diag, AW_ERR_IO, ask->state, 0, 0, NULL, "%s", strerror(errno));
    return err;
}

static enum aw_err one_round(struct aw__pretrain *ask, struct aw_diag *diag)
{
    struct aw_pretrain *p = ask->pretrain;
    struct aw__pretrain_point *point = &ask->point[ask->point_count++];
    enum aw_err err = aw_pretrain_round(p, &point->learned, diag);
    point->round = aw_pretrain_rounds(p);
    point->checked =
        point->round % ask->config.check_every == 0 || point->round == ask->config.rounds;
    if (!err && point->checked && !(err = aw_pretrain_check(p, &point->check, NULL, diag)))
        point->best = aw_pretrain_mark(p, &point->check);
    if (!err && point->checked && ask->state[0])
        err = save(ask, diag);
    if (!err)
        aw__pretrain_row(ask, point);
    return err;
}

static bool patience_over(const struct aw__pretrain *ask)
{
    return ask->patience && aw_pretrain_best(ask->pretrain)->since >= ask->patience;
}

/* After a round: what rank 0 was asked goes for all, and all must have its weights. */
static enum aw_err together(struct aw__pretrain *ask, uint64_t *ret_stop, struct aw_diag *diag)
{
    const uint64_t own = aw_context_checksum(aw_pretrain_context(ask->pretrain));
    uint64_t told[2] = {aw_stop_signal != 0, own};
    if (aw_mpi_team_broadcast(&ask->team, told, sizeof told))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "another process of the team is lost");
    if (told[1] != own)
        return aw_fail(diag, AW_ERR_DIVERGED, "the weights are not those of process 0");
    *ret_stop = told[0];
    return AW_OK;
}

static enum aw_err rounds(struct aw__pretrain *ask, bool *ret_stopped, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    uint64_t stop = 0;
    while (!err && !stop && aw_pretrain_rounds(ask->pretrain) < ask->config.rounds) {
        if ((ask->early = patience_over(ask)))
            break;
        err = one_round(ask, diag);
        err = err ? err : together(ask, &stop, diag);
    }
    *ret_stopped = stop && aw_pretrain_rounds(ask->pretrain) < ask->config.rounds;
    return err;
}

static enum aw_err interrupted(struct aw__pretrain *ask, struct aw_diag *diag)
{
    const uint32_t done = aw_pretrain_rounds(ask->pretrain), all = ask->config.rounds;
    if (!ask->state[0])
        return aw_fail(diag, AW_ERR_INTERRUPTED,
                       "interrupted after round %" PRIu32 " of %" PRIu32
                       "; nothing was saved, for want of --checkpoint",
                       done, all);
    const enum aw_err err = save(ask, diag);
    return err ? err
               : aw_fail(diag, AW_ERR_INTERRUPTED,
                         "interrupted after round %" PRIu32 " of %" PRIu32
                         " and saved; go on with the same command and --resume",
                         done, all);
}

/* The model is there already: who does not want to wait has one that predicts nothing. */
static enum aw_err predict(struct aw__pretrain *ask, struct aw_known_apps *known,
                           const char *const *meta, size_t pairs, struct aw_diag *diag)
{
    ask->adapting = true;
    ask->adapt_us = aw_clock_monotonic_us(NULL);
    enum aw_err err = aw_pretrain_predict(ask->pretrain, ask->model, ask->predict, known, diag);
    aw_status_line_clear(&ask->line);
    if (err == AW_ERR_INTERRUPTED)
        return AW_OK;
    ask->drop = known->drop;
    ask->episodes = known->episodes;
    return err ? err : aw_pretrain_model_save(ask->pretrain, ask->model, known, meta, pairs, diag);
}

static enum aw_err finish(struct aw__pretrain *ask, struct aw_diag *diag)
{
    const struct aw_pretrain_best *best = aw_pretrain_best(ask->pretrain);
    const struct aw_pretrain_pool *learn = &ask->config.learn, *check = &ask->config.check;
    char apps[2][AW_CONF_TEXT_MAX], text[4][64];
    snprintf(text[0], sizeof text[0], "%" PRIu32, best->round);
    snprintf(text[1], sizeof text[1], "%.3f", best->score.paper);
    snprintf(text[2], sizeof text[2], "%.5f", best->score.violations);
    snprintf(text[3], sizeof text[3], "%.3f", ask->fallback.paper);
    const char *const meta[] = {
        "command",
        ask->command,
        "source",
        AW_VERSION_SOURCE,
        "kernels",
        aw_matmul_kernels(),
        "apps",
        aw_appset_text(learn, apps[0], sizeof apps[0]),
        "check",
        aw_appset_text(check, apps[1], sizeof apps[1]),
        "load",
        ask->pool.shown,
        "round",
        text[0],
        "check.R",
        text[1],
        "check.violations",
        text[2],
        "check.R.fallback",
        text[3],
    };
    struct aw_known_apps known = {0};
    aw_pretrain_recall(ask->pretrain);
    enum aw_err err = aw_pretrain_known(ask->pretrain, &known, diag);
    err = err ? err
              : aw_pretrain_model_save(ask->pretrain, ask->model, &known, meta,
                                       sizeof meta / sizeof *meta / 2, diag);
    if (!err && ask->predict > 0 && ask->team.rank == 0)
        err = predict(ask, &known, meta, sizeof meta / sizeof *meta / 2, diag);
    aw_known_apps_deinit(&known);
    ask->cpu_s = aw_clock_process_cpu_s();
    if (err || ask->team.rank > 0)
        return err;
    err = aw__pretrain_card_write(ask, diag);
    return err ? err : aw__pretrain_print(ask, diag);
}

static void tell(const struct aw__pretrain *ask, enum aw_err err, const struct aw_diag *diag)
{
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    fprintf(stderr, "aware: process %" PRIu32 " of %" PRIu32 ": %s\n", ask->team.rank,
            ask->team.size, aw_diag_format(diag, err, line, sizeof line));
}

/* In a team all begin or nobody does. What all failed at alike, rank 0 tells; what one failed at,
 * it tells itself. The exit status is rank 0's. */
static enum aw_err agree(struct aw__pretrain *ask, enum aw_err err, struct aw_diag *diag)
{
    float failed = err ? 1 : 0;
    uint32_t first = err != AW_OK;
    if (aw_mpi_team_mean(&ask->team, &failed, 1) ||
        aw_mpi_team_broadcast(&ask->team, &first, sizeof first))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "another process of the team is lost");
    if (err && ask->team.rank > 0 && !first)
        tell(ask, err, diag);
    ask->silent = failed > 0 && ask->team.rank > 0;
    if (!err && failed > 0)
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       "another process of the team could not begin; it says why");
    return err;
}

/* Killed between two renames, one state is a round ahead: it must not go on with the others. */
static enum aw_err same_round(struct aw__pretrain *ask, struct aw_diag *diag)
{
    const float own = (float)aw_pretrain_rounds(ask->pretrain);
    float mean = own;
    if (aw_mpi_team_mean(&ask->team, &mean, 1))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "another process of the team is lost");
    return mean == own ? AW_OK
                       : aw_fail_at(diag, AW_ERR_FORMAT, ask->state, 0, 0, NULL,
                                    "the checkpoints of the processes are of different rounds: "
                                    "begin anew with --force and without --resume");
}

static enum aw_err session(struct aw__pretrain *ask, struct aw_diag *diag)
{
    const bool resume = aw_args_given(ask->run->args, "resume");
    bool stopped = false;
    enum aw_err err = ask_take(ask, diag);
    err = err ? err : aw_pretrain_new(&ask->config, NULL, &ask->pretrain, diag);
    if (!err && resume)
        err = aw_pretrain_load_state(ask->pretrain, ask->state, diag);
    err = agree(ask, err, diag);
    err = err ? err : agree(ask, same_round(ask, diag), diag);
    if (err)
        return err;
    ask->begun = true;
    ask->rounds_before = aw_pretrain_rounds(ask->pretrain);
    aw__pretrain_announce(ask, resume);
    err = aw_pretrain_meet(ask->pretrain, diag);
    err = err ? err : aw_pretrain_check_fallback(ask->pretrain, &ask->fallback, NULL, diag);
    aw_status_line_clear(&ask->line);
    if (!err && !resume && ask->state[0])
        err = save(ask, diag);
    ask->learn_us = aw_clock_monotonic_us(NULL);
    err = err ? err : rounds(ask, &stopped, diag);
    aw_status_line_clear(&ask->line);
    if (err)
        return err;
    return stopped ? interrupted(ask, diag) : finish(ask, diag);
}

/* What goes wrong on the way ends the others, who would wait for this process. */
static enum aw_err team_failed(struct aw__pretrain *ask, enum aw_err err,
                               const struct aw_diag *diag)
{
    if (ask->begun && err != AW_ERR_INTERRUPTED) {
        tell(ask, err, diag);
        aw_mpi_team_end(&ask->team, aw_err_exit_code(err));
    }
    return ask->silent || (err == AW_ERR_INTERRUPTED && ask->team.rank > 0) ? AW_OK : err;
}

static enum aw_err pretrain_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__pretrain *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    if (!ask)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to pretrain");
    ask->run = run;
    ask->begin_us = aw_clock_monotonic_us(NULL);
    enum aw_err err = aw_mpi_team_join(&ask->team, diag);
    if (!err) {
        aw_stop_catch(&(struct aw_stop_config){.twice = true});
        err = session(ask, diag);
        if (err && ask->team.size > 1)
            err = team_failed(ask, err, diag);
    }
    aw_pretrain_free(ask->pretrain);
    aw_appset_close(&ask->pool);
    aw_apps_deinit(&ask->learn_file);
    aw_apps_deinit(&ask->check_file);
    aw_alloc_free(NULL, ask->point);
    aw_mpi_team_leave(&ask->team);
    aw_alloc_free(NULL, ask);
    return err;
}

/* --- the verb --------------------------------------------------------------------------------- */

static const struct aw_option pretrain_options[] = {
    AW_OPTION(FILE, "apps", 'a', "FILE|SEED:N", "0-759",
              "applications to learn from: all of a file of 'aware apps generate', the first N of "
              "a pool, or [SEED:]FIRST-LAST of it"),
    AW_OPTION(FILE, "check", 0, "FILE|SEED:N", "760-799",
              "applications that choose the best round, named in the same way; never learned from"),
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "a trace with many functions, of which each application gets its own, or a pattern "
              "(default: " AW_APPSET_TRACE " in AWARE_DATA_DIR)"),
    AW_OPTION(FILE, "out", 0, "NAME", NULL, "writes NAME" ENDING " and its card, NAME.md",
              .required = true),
    AW_NUMBER("rounds", 'n', "N", NULL, 1, 100000,
              "episodes of each application (default: 25; with the paper's preset 12)"),
    AW_NUMBER("patience", 0, "N", "3", 0, 100000,
              "stop after so many checks without a better one; 0: never"),
    AW_NUMBER("predict", 0, "N", "20", 0, AW_ADAPT_EPISODES_MAX,
              "episodes to live in each application of --check when all is learned, so that the "
              "model can tell what a new one will cost; 0: none"),
    AW_OPTION(CHOICE, "preset", 'p', "NAME", "default",
              "what we found to be good, or what AWARE has: its state and actions, a GRU of 256, "
              "the best 20 episodes",
              .choices = preset_names),
    AW_OPTION(SETTING, "set", 0, "KEY=VALUE", NULL,
              "change a setting of the learner or, as env.KEY=VALUE, an option of the environment "
              "('aware env describe autoscale-v0')",
              .repeated = true),
    AW_OPTION_SEED("1", "where all chance starts; the same seed gives the same model"),
    AW_OPTION(FILE, "checkpoint", 'c', "FILE", NULL,
              "everything is saved here after each check, to go on with"),
    AW_FLAG("resume", 'r', "go on with the checkpoint, exactly where it was saved"),
    AW_FLAG("force", 'f', "replace files that are there"),
    AW_OPTION_THREADS(
        "0", "threads that live episodes; 0: one per processor. The model does not depend on it"),
    AW_FLAG("quiet", 'q', "no progress on stderr"),
    {.name = NULL},
};
static const struct aw_example pretrain_examples[] = {
    {"aware pretrain --out models/mine --load traces/day.csv",
     "760 applications, each with a function of the trace as its load"},
    {"aware pretrain --out models/small --apps 1:200 --check 760-779 --load bursts",
     "200 applications under bursts: minutes"},
    {"aware pretrain --out models/ours --apps apps.yaml --load traces/day.csv",
     "those of a file, as 'aware apps generate -o apps.yaml' or a person writes it"},
    {"aware pretrain --out models/mine --load traces/day.csv -c mine.state --resume",
     "go on where an earlier one was stopped"},
    {"mpirun -n 4 aware pretrain --out models/mine --load traces/day.csv",
     "four processes share the applications and learn one policy"},
    {NULL, NULL},
};
static const struct aw_conf_field *const pretrain_settings[] = {aw_pretrain_fields,
                                                                aw_context_fields, NULL};
const struct aw_verb aw_verb_pretrain = {
    .name = "pretrain",
    .summary = "Teach one policy on many applications, and write a model",
    .text =
        "In every application the fallback lives some episodes first: they are what the model "
        "will know an application by. Then, in rounds, the policy lives an episode in each, with "
        "noise, and learns. Every few rounds it is judged without noise on the applications of "
        "--check; the best is what is written. On a terminal one line shows the round, the reward "
        "R of its episodes, the last check, the best one and the time left; otherwise a row "
        "appears per round.\n\n"
        "With --checkpoint everything is saved after each check. Ctrl-C ends after the present "
        "round and saves; --resume goes on, and gives the same model as a run that was never "
        "interrupted.\n\n"
        "Under mpirun the processes share the applications and average their gradients at every "
        "update, so that all have the same weights; each has a checkpoint of its own. The program "
        "needs MPI for nothing else.",
    .options = pretrain_options,
    .examples = pretrain_examples,
    .json = true,
    .settings = pretrain_settings,
    .run = pretrain_run,
};
