/* adapt.c - the verb `adapt`: a model gets used to one application, episode by episode. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/verbs.h"
#include "lab/appset.h"
#include "meta/known_apps.h"
#include "pretrain/adapt.h"

#define PERCENT 100.0

struct ask {
    const struct aw_call *run;
    struct aw_pretrain_model model;
    struct aw_appset pool;
    struct aw_apps file; /* where --app names one of a file */
    struct aw_pretrain *pretrain;
    uint32_t episodes;
    struct aw_status_line line;
    struct aw_adapt_point *point; /* [episodes + 1] */
    struct aw_pretrain_score fallback;
    int64_t begin_us;
};

static double since(int64_t begin_us)
{
    return (double)(aw_clock_monotonic_us(NULL) - begin_us) * 1e-6;
}

static enum aw_err ask_take(struct ask *ask, struct aw_diag *diag)
{
    const struct aw_args *args = ask->run->args;
    struct aw_pretrain_config *config = &ask->model.config;
    const char *out = aw_args_text(args, "out");
    ask->episodes = (uint32_t)aw_args_number(args, "episodes");
    aw_status_line_init(&ask->line, stderr,
                        aw_args_given(args, "quiet") ||
                            (!ask->run->json && aw_is_terminal(stdout)));
    ask->begin_us = aw_clock_monotonic_us(NULL);
    if (out && !aw_args_given(args, "force") && access(out, F_OK) == 0)
        return aw_fail_at(diag, AW_ERR_EXISTS, out, 0, 0, NULL,
                          "there is a file already: replace it with --force, or choose another "
                          "--out");
    enum aw_err err = aw_pretrain_model_read(aw_args_text(args, "model"), &ask->model, NULL, diag);
    aw_pretrain_config_adapt(config);
    config->learn = (struct aw_pretrain_pool){.seed = 1, .count = 1, .ctx = &ask->pool};
    config->load_make = aw_appset_make;
    config->rounds = ask->episodes;
    config->seed = aw_args_number(args, "seed");
    for (uint32_t i = 0; !err && i < args->repeat_count; i++)
        err = aw_appset_setting(config, args->repeat[i], diag);
    err = err ? err
              : aw_appset_one(aw_args_text(args, "app"), "--app", &config->learn, &ask->file, diag);
    err = err ? err : aw_appset_open(&ask->pool, aw_args_text(args, "load"), diag);
    ask->point = aw_alloc_new(NULL, (size_t)ask->episodes + 1, sizeof *ask->point);
    if (!err && !ask->point)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " episodes", ask->episodes);
    return err ? err : aw_pretrain_new(config, NULL, &ask->pretrain, diag);
}

/* --- shown ------------------------------------------------------------------------------------ */

static void show(struct ask *ask, uint32_t episode)
{
    const struct aw_adapt_point *point = &ask->point[episode];
    if (!ask->run->json) {
        if (episode == 0)
            printf("EPISODE  R LIVED  R JUDGED  VIOLATIONS     CPU  MEMORY\n");
        if (episode == 0)
            printf("%7u  %7s", 0u, "-");
        else
            printf("%7" PRIu32 "  %7.1f", episode, point->lived.paper);
        printf("  %8.1f  %8.2f %%  %4.1f %%  %4.1f %%\n", point->judged.paper,
               PERCENT * point->judged.violations, PERCENT * point->judged.cpu,
               PERCENT * point->judged.memory);
        fflush(stdout);
    }
    char left[32];
    const double each = since(ask->begin_us) / (episode + 1);
    aw_status_line_draw(&ask->line, true, 0, "episode %" PRIu32 " of %" PRIu32 "  R %.1f  %s left",
                        episode, ask->episodes, point->judged.paper,
                        aw_seconds_format(each * (ask->episodes - episode), left, sizeof left));
    if (episode == ask->episodes)
        aw_status_line_clear(&ask->line);
}

static json_t *score_json(const struct aw_pretrain_score *score)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "R", aw_json_real(score->paper), "violations",
                     aw_json_real(score->violations), "cost_per_hour", aw_json_real(score->cost),
                     "cpu", aw_json_real(score->cpu), "memory", aw_json_real(score->memory));
}

static json_t *document(const struct ask *ask)
{
    json_t *curve = json_array();
    const struct aw_pretrain_pool *learn = &ask->model.config.learn;
    for (uint32_t i = 0; i <= ask->episodes; i++)
        json_array_append_new(curve, json_pack("{s:I, s:o, s:o}", "episode", (json_int_t)i, "lived",
                                               i ? score_json(&ask->point[i].lived) : json_null(),
                                               "judged", score_json(&ask->point[i].judged)));
    const char *out = aw_args_text(ask->run->args, "out");
    json_t *app = learn->apps ? json_pack("{s:s, s:s}", "from", aw_args_text(ask->run->args, "app"),
                                          "name", learn->apps[learn->first].name)
                              : json_pack("{s:I, s:I}", "seed", (json_int_t)learn->seed, "index",
                                          (json_int_t)learn->first);
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:f}", "model", ask->model.card.path, "app",
                     app, "load", ask->pool.shown, "fallback", score_json(&ask->fallback), "curve",
                     curve, "out", out ? json_string(out) : json_null(), "seconds",
                     since(ask->begin_us));
}

/* --- the run ---------------------------------------------------------------------------------- */

static enum aw_err save(struct ask *ask, const char *out, struct aw_diag *diag)
{
    struct aw_known_apps known;
    char app[AW_APP_NAME_MAX];
    aw_pretrain_app_name(&ask->model.config.learn, 0, app, sizeof app);
    const char *const meta[] = {"adapted.app", app, "adapted.load", ask->pool.shown};
    enum aw_err err = aw_known_apps_load(&known, ask->model.card.path, NULL, diag);
    err = err ? err : aw_pretrain_model_save(ask->pretrain, out, &known, meta, 2, diag);
    aw_known_apps_deinit(&known);
    return err;
}

static enum aw_err curve(struct ask *ask, struct aw_diag *diag)
{
    enum aw_err err = aw_pretrain_try_fallback(ask->pretrain, 0, &ask->fallback, diag);
    for (uint32_t e = 0; !err && e <= ask->episodes; e++) {
        struct aw_adapt_point *point = &ask->point[e];
        if (e > 0)
            err = aw_pretrain_round(ask->pretrain, &point->lived, diag);
        err = err ? err : aw_pretrain_try(ask->pretrain, 0, &point->judged, diag);
        if (!err)
            show(ask, e);
    }
    return err;
}

static enum aw_err adapt_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *out = aw_args_text(run->args, "out");
    struct ask *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    if (!ask)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a model");
    ask->run = run;
    enum aw_err err = ask_take(ask, diag);
    err = err ? err : curve(ask, diag);
    if (!err && out)
        err = save(ask, out, diag);
    if (!err && run->json)
        err = aw_json_print(document(ask), diag);
    else if (!err)
        printf("\nthe fallback: R %.1f, %.2f %% violations%s%s\n", ask->fallback.paper,
               PERCENT * ask->fallback.violations, out ? "; the model is in " : "", out ? out : "");
    aw_pretrain_free(ask->pretrain);
    aw_appset_close(&ask->pool);
    aw_apps_deinit(&ask->file);
    aw_alloc_free(NULL, ask->point);
    aw_alloc_free(NULL, ask);
    return err;
}

static const struct aw_option adapt_options[] = {
    AW_OPTION(FILE, "model", 'm', "FILE", NULL, "a model that 'aware pretrain' wrote",
              .required = true),
    AW_OPTION(FILE, "app", 'a', "FILE:NAME|[SEED:]INDEX", NULL,
              "the application; those of the generator from 800 on are never taught on",
              .required = true),
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "its load: a pattern, or a trace of which it gets its own function "
              "(default: " AW_APPSET_TRACE " in AWARE_DATA_DIR)"),
    AW_NUMBER("episodes", 'n', "N", "20", 0, AW_ADAPT_EPISODES_MAX,
              "episodes to live and learn from; 0: only judge the model as it is"),
    AW_OPTION(SETTING, "set", 0, "KEY=VALUE", NULL,
              "change a setting of the learner that does not change its shape", .repeated = true),
    AW_OPTION_SEED("1", "where all chance starts"),
    AW_OPTION(FILE, "out", 0, "FILE", NULL, "write the adapted model here"),
    AW_FLAG("force", 'f', "replace what --out names"),
    AW_FLAG("quiet", 'q', "no progress on stderr"),
    {.name = NULL},
};
static const struct aw_example adapt_examples[] = {
    {"aware adapt --model models/mine.safetensors --app 817 --load bursts",
     "20 episodes of an application that the model has never seen"},
    {"aware adapt -m models/mine.safetensors -a 817 -l traces/day.csv -n 50 --out cart.safetensors",
     "50, and keep what came of it"},
    {NULL, NULL},
};
static const struct aw_conf_field *const adapt_settings[] = {aw_pretrain_fields, aw_context_fields,
                                                             NULL};
const struct aw_verb aw_verb_adapt = {
    .name = "adapt",
    .summary = "Let a model get used to one application, episode by episode",
    .text = "The fallback lives some episodes first, by which the model knows the application. "
            "Then each row is an episode: the reward R as it was lived, with what was tried in it; "
            "and judged, as it is known to be best by then, on episodes that are the same for all "
            "rows, with the share of steps that missed the SLO and the utilisation. Row 0 is the "
            "model as it is: what a new workload gets on its first day.\n\n"
            "The model stays as it is, but for what is added to each of its actions, which is "
            "sought by what episodes live; --set lean=0 has actor and critics learn instead.",
    .options = adapt_options,
    .examples = adapt_examples,
    .json = true,
    .settings = adapt_settings,
    .run = adapt_run,
};
