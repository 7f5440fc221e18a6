/* embed.c - the verb `embed`: what a model makes of a workload, and whom it is like. */
#include <aware/store.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "lab/appset.h"
#include "meta/known_apps.h"
#include "pretrain/embed.h"
#include "pretrain/pretrain.h"

#define NUMBERS_ROW 8u /* of the embedding, as text */
#define PERCENT     100.0

struct ask {
    const struct aw_call *run;
    struct aw_pretrain_model model;
    struct aw_known_apps known;
    struct aw_appset pool;
    struct aw_apps file; /* where --app names one of a file */
    char name[AW_STORE_NAME_MAX];
    char from[160];               /* what it was read from */
    struct aw_pretrain *pretrain; /* of a generated application */
    float embedding[AW_EMBED_DIM_MAX];
    struct aw_known_apps_place place;
    double embed_ms, embed_cpu_ms;
};

struct stopwatch {
    int64_t begin_us;
    double cpu_s;
};

static struct stopwatch stopwatch_start(void)
{
    return (struct stopwatch){aw_clock_monotonic_us(NULL), aw_clock_process_cpu_s()};
}

static void stopwatch_stop(const struct stopwatch *begun, struct ask *ask)
{
    ask->embed_ms = (double)(aw_clock_monotonic_us(NULL) - begun->begin_us) * 1e-3;
    ask->embed_cpu_ms = 1e3 * (aw_clock_process_cpu_s() - begun->cpu_s);
}

/* --- a generated application ------------------------------------------------------------------ */

static enum aw_err from_app(struct ask *ask, struct aw_diag *diag)
{
    const struct aw_args *args = ask->run->args;
    struct aw_pretrain_config *config = &ask->model.config;
    struct aw_pretrain_pool *learn = &config->learn;
    learn->seed = 1;
    learn->count = 1;
    learn->ctx = &ask->pool;
    config->load_make = aw_appset_make;
    config->teacher_tries = 0;
    config->context.replay = 2048; /* what is met is not learned from here */
    enum aw_err err = aw_appset_one(aw_args_text(args, "app"), "--app", learn, &ask->file, diag);
    err = err ? err : aw_appset_open(&ask->pool, aw_args_text(args, "load"), diag);
    err = err ? err : aw_pretrain_new(config, NULL, &ask->pretrain, diag);
    err = err ? err : aw_pretrain_meet(ask->pretrain, diag);
    if (err)
        return err;
    aw_pretrain_app_name(learn, 0, ask->name, sizeof ask->name);
    snprintf(ask->from, sizeof ask->from, "%" PRIu32 " episodes of %s under %.100s",
             config->fallback_episodes, aw_fallback_names[config->fallback.kind], ask->pool.shown);
    const struct stopwatch begun = stopwatch_start();
    const float *made = aw_context_embed(aw_pretrain_context(ask->pretrain), 0);
    stopwatch_stop(&begun, ask);
    memcpy(ask->embedding, made, config->context.embedding * sizeof *made);
    return AW_OK;
}

/* --- a workload in a store -------------------------------------------------------------------- */

static enum aw_err from_store(struct ask *ask, struct aw_diag *diag)
{
    const struct aw_args *args = ask->run->args;
    struct aw_store store = {0};
    struct aw_embed *embed = NULL;
    struct aw_embed_from from;
    snprintf(ask->name, sizeof ask->name, "%s", aw_args_text(args, "workload"));
    enum aw_err err = aw_embed_open(ask->model.card.path, NULL, &embed, diag);
    err = err ? err
              : aw_store_open(&store, aw_args_text(args, "store"),
                              &(struct aw_store_options){.read_only = true}, NULL, diag);
    err = err ? err : aw_embed_gather(embed, &store, ask->name, AW_EMBED_ALL, &from, diag);
    if (!err) {
        const struct stopwatch begun = stopwatch_start();
        if ((err = aw_embed_make(embed, ask->embedding)))
            aw_fail(diag, err, "the model makes nothing of this workload");
        stopwatch_stop(&begun, ask);
        snprintf(ask->from, sizeof ask->from, "%" PRIu32 " episodes of %s in the store",
                 from.episodes, from.by_fallback ? "the fallback" : "the controller that acted");
    }
    aw_store_close(&store);
    aw_embed_close(embed);
    return err;
}

/* --- told ------------------------------------------------------------------------------------- */

static struct aw_known_apps_prediction predict(const struct ask *ask,
                                               const struct aw_known_apps_line *line)
{
    const struct aw_known_apps_place *place = &ask->place;
    return aw_known_apps_predict(line, place->count ? place->similarity[0] : (double)NAN,
                                 place->odd);
}

static json_t *prediction_json(const struct ask *ask, const struct aw_known_apps_line *line)
{
    const struct aw_known_apps_prediction told = predict(ask, line);
    if (!told.there)
        return json_null();
    return json_pack("{s:o, s:o, s:b, s:b}", "value", aw_json_real(told.value), "deviation",
                     aw_json_real(told.deviation), "related", (int)told.related, "outside",
                     (int)told.outside);
}

static json_t *document(const struct ask *ask)
{
    json_t *numbers = json_array(), *nearest = json_array();
    for (uint32_t i = 0; i < ask->model.config.context.embedding; i++)
        json_array_append_new(numbers, aw_json_real((double)ask->embedding[i]));
    for (uint32_t i = 0; i < ask->place.count; i++)
        json_array_append_new(nearest,
                              json_pack("{s:s, s:o}", "name", ask->known.name[ask->place.index[i]],
                                        "similarity", aw_json_real(ask->place.similarity[i])));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:o, s:b, s:o, s:o, s:o, s:o}", "model",
                     ask->model.card.path, "workload", ask->name, "from", ask->from, "embedding",
                     numbers, "nearest", nearest, "known", (json_int_t)ask->known.count, "quantile",
                     aw_json_real(ask->place.quantile), "out_of_distribution", (int)ask->place.odd,
                     "reward_drop", prediction_json(ask, &ask->known.drop), "retraining_episodes",
                     prediction_json(ask, &ask->known.episodes), "embed_ms",
                     aw_json_real(ask->embed_ms), "embed_cpu_ms", aw_json_real(ask->embed_cpu_ms));
}

static void print_prediction(const struct ask *ask, const char *what,
                             const struct aw_known_apps_line *line, double unit, const char *suffix)
{
    const struct aw_known_apps_prediction told = predict(ask, line);
    if (!told.there) {
        printf("%s: not known for this model\n", what);
        return;
    }
    printf("%s: %s%.1f%s, give or take %.1f%s%s\n", what,
           told.related ? ""
                        : "no relation to similarity was found; on applications of validation ",
           unit * told.value, suffix, unit * told.deviation, suffix,
           told.outside ? "; this workload is outside of what that was measured on" : "");
}

static enum aw_err print_text(const struct ask *ask, struct aw_diag *diag)
{
    static const char *const heads[] = {">NEAREST", "WORKLOAD", ">SIMILARITY", NULL};
    const uint32_t dim = ask->model.config.context.embedding;
    struct aw_table table;
    printf("%s, known by %s; embedded in %.2f ms (%.2f ms of CPU)\n\n", ask->name, ask->from,
           ask->embed_ms, ask->embed_cpu_ms);
    for (uint32_t i = 0; i < dim; i++)
        printf("%8.3f%s", (double)ask->embedding[i],
               (i + 1) % NUMBERS_ROW == 0 || i + 1 == dim ? "\n" : " ");
    printf("\n");
    if (ask->place.count == 0) {
        printf("the model does not say which workloads it knows\n");
        return AW_OK;
    }
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < ask->place.count; i++) {
        aw_table_add(&table, "%" PRIu32, i + 1);
        aw_table_add(&table, "%s", ask->known.name[ask->place.index[i]]);
        aw_table_add(&table, "%.3f", ask->place.similarity[i]);
    }
    const enum aw_err err = aw_table_print(&table, stdout, ask->run->color_out, diag);
    if (err)
        return err;
    printf("\n%s: nearer to its nearest than %.0f %% of the %" PRIu32 " known are to theirs\n",
           ask->place.odd ? "outside of what the model knows" : "within what the model knows",
           PERCENT * ask->place.quantile, ask->known.count);
    print_prediction(ask, "reward missing at first", &ask->known.drop, PERCENT, " %");
    print_prediction(ask, "episodes to adapt", &ask->known.episodes, 1, "");
    return AW_OK;
}

static enum aw_err asked_well(const struct aw_args *args, struct aw_diag *diag)
{
    const bool store = aw_args_given(args, "store"), app = aw_args_given(args, "app");
    if (store == app)
        return aw_fail(diag, AW_ERR_USAGE,
                       "'aware embed' needs --app INDEX, or --store PATH and "
                       "--workload NAME");
    if (store && !aw_args_given(args, "workload"))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--store", "needs --workload NAME");
    return AW_OK;
}

static enum aw_err embed_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    struct ask *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    if (!ask)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a model");
    ask->run = run;
    const char *path = aw_args_text(args, "model");
    enum aw_err err = asked_well(args, diag);
    err = err ? err : aw_pretrain_model_read(path, &ask->model, NULL, diag);
    err = err ? err : aw_known_apps_load(&ask->known, path, NULL, diag);
    if (!err)
        err = aw_args_given(args, "store") ? from_store(ask, diag) : from_app(ask, diag);
    if (!err) {
        aw_known_apps_place(&ask->known, ask->embedding, (uint32_t)aw_args_number(args, "nearest"),
                            &ask->place);
        err = run->json ? aw_json_print(document(ask), diag) : print_text(ask, diag);
    }
    aw_pretrain_free(ask->pretrain);
    aw_appset_close(&ask->pool);
    aw_apps_deinit(&ask->file);
    aw_known_apps_deinit(&ask->known);
    aw_alloc_free(NULL, ask);
    return err;
}

static const struct aw_option embed_options[] = {
    AW_OPTION(FILE, "model", 'm', "FILE", NULL, "a model that 'aware pretrain' wrote",
              .required = true),
    AW_OPTION(FILE, "app", 'a', "FILE:NAME|[SEED:]INDEX", NULL,
              "an application of a file or of the generator; the fallback lives its episodes in "
              "the simulated cluster"),
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "its load: a pattern, or a trace of which it gets its own function "
              "(default: " AW_APPSET_TRACE " in AWARE_DATA_DIR)"),
    AW_OPTION(FILE, "store", 0, "PATH", NULL, "a store of trajectories, as 'aware run' keeps it"),
    AW_OPTION(TEXT, "workload", 'w', "NAME", NULL, "a workload of the store"),
    AW_NUMBER("nearest", 'n', "N", "5", 1, AW_KNOWN_APPS_PLACES_MAX,
              "known workloads to show, the nearest first"),
    {.name = NULL},
};
static const struct aw_example embed_examples[] = {
    {"aware embed --model models/mine.safetensors --app 817 --load bursts",
     "an application that the model has never seen"},
    {"aware embed --model models/mine.safetensors --store aware.db --workload shop/cart",
     "a workload by what was kept of it"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_embed = {
    .name = "embed",
    .summary = "Show what a model makes of a workload, and which known ones it is like",
    .text = "Prints the embedding, the known workloads that are nearest with their similarity S = "
            "(1 - distance + cosine) / 2, and whether the workload lies outside of what the model "
            "knows: where it is further from its nearest than 99 % of the known ones are from "
            "theirs. What the model will lose at first and how long it takes to adapt are told "
            "where the model carries lines fitted to that, with one standard deviation; below 0 "
            "it begins better than it ends after adapting. Where likeness was found to tell "
            "nothing, that is said, with the mean on applications of validation. Of a store those "
            "episodes are read that "
            "the fallback lived alone; where there are none, those of the controller that acted.",
    .options = embed_options,
    .examples = embed_examples,
    .json = true,
    .run = embed_run,
};
