/* library.c - the verb `pretrain library`: numbers that many applications have lived. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/pretrain.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/verbs.h"
#include "lab/appset.h"
#include "pretrain/library_teach.h"

#define ENDING  ".safetensors"
#define PERCENT 100.0

struct ask {
    const struct aw_call *run;
    struct aw_library_teach_config config;
    struct aw_appset loads;
    struct aw_apps file;
    struct aw_library library;
    struct aw_library_left_out left[AW_LIBRARY_LEVELS];
    struct aw_status_line line;
    int64_t begin_us;
    double took_s, cpu_s;
    char model[512], card[512], command[768], pool[160];
};

static double since(int64_t begin_us)
{
    return 1e-6 * (double)(aw_clock_monotonic_us(NULL) - begin_us);
}

static bool show_progress(void *ctx, uint32_t done, uint32_t total)
{
    struct ask *ask = ctx;
    char left[32];
    const double took = since(ask->begin_us);
    const uint32_t searches = ask->config.pool.count;
    const bool living = done > searches;
    const char *what = living ? "living" : "searching";
    aw_seconds_format(took / done * (total - done), left, sizeof left);
    aw_status_line_draw(&ask->line, done == total, aw_clock_monotonic_us(NULL),
                        "%s: application %" PRIu32 " of %" PRIu32 "  %s left", what,
                        living ? done - searches : done, living ? total - searches : searches,
                        left);
    if (aw_status_line_row(&ask->line, done, total))
        fprintf(ask->line.out, "%s: %" PRIu32 " of %" PRIu32 " pieces, %s left\n", what, done,
                total, left);
    return true;
}

static enum aw_err ask_take(struct ask *ask, struct aw_diag *diag)
{
    const struct aw_args *args = ask->run->args;
    struct aw_library_teach_config *config = &ask->config;
    const uint64_t threads = aw_args_number(args, "threads");
    aw_library_teach_config_init(config);
    config->pool = (struct aw_pretrain_pool){.seed = 1, .ctx = &ask->loads};
    config->load_make = aw_appset_make;
    config->load_ctx = &ask->loads;
    config->rules = (uint32_t)aw_args_number(args, "rules");
    config->tries = (uint32_t)aw_args_number(args, "tries");
    config->loads = (uint32_t)aw_args_number(args, "loads");
    config->simulate.seed = aw_args_number(args, "seed");
    config->simulate.thread_count = threads ? (uint32_t)threads : aw_threads_cpu_count();
    enum aw_err err =
        aw__pretrain_files(args, "library", sizeof ask->model, ask->model, ask->card, diag);
    err =
        err ? err
            : aw_appset_pool(aw_args_text(args, "apps"), "--apps", &config->pool, &ask->file, diag);
    err = err ? err : aw_appset_open(&ask->loads, aw_args_text(args, "load"), diag);
    const uint64_t rows = (uint64_t)config->pool.count * config->loads;
    if (!err && rows > AW_LIBRARY_APPS_MAX)
        err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--apps",
                         "expected at most %u applications times loads, found %" PRIu64,
                         AW_LIBRARY_APPS_MAX, rows);
    if (err)
        return err;
    aw_appset_text(&config->pool, ask->pool, sizeof ask->pool);
    const char *slash = strrchr(ask->model, '/');
    const char *name = slash ? slash + 1 : ask->model;
    snprintf(ask->command, sizeof ask->command,
             "aware pretrain library --apps %s --rules %" PRIu32 " --tries %" PRIu32
             " --loads %" PRIu32 " --seed %" PRIu64 " --load %s --out models/%.*s",
             config->pool.file ? config->pool.file : ask->pool, config->rules, config->tries,
             config->loads, config->simulate.seed, ask->loads.shown,
             (int)(strlen(name) - strlen(ENDING)), name);
    return AW_OK;
}

/* --- what was made ---------------------------------------------------------------------------- */

static const char *const level_text[AW_LIBRARY_LEVELS] = {"as chosen", "more careful",
                                                          "most careful", "one rule for all"};

static enum aw_err card_write(const struct ask *ask, struct aw_diag *diag)
{
    char page[8192];
    struct aw_text text;
    aw_text_init(&text, page, sizeof page);
    aw_text_add(&text,
                "# A library of capacity rules\n\n"
                "%" PRIu32 " rules, each lived for half a day in %" PRIu32
                " applications under %" PRIu32
                " loads each (%s; load: %s), and what it took. A workload begins with the rule "
                "that did best in the applications nearest to it.\n\n"
                "Made by\n\n    %s\n\nChecksum %016" PRIx64 ".\n\n"
                "## Where an application is not known\n\n"
                "Each application left out in turn, at the prices and the budget of the defaults. "
                "Cost is over the best rule of the library for that application, misses priced "
                "in.\n\n"
                "| choice | cost | missed | keep the budget |\n|---|--:|--:|--:|\n",
                ask->library.rules, ask->library.distinct, ask->config.loads, ask->pool,
                ask->loads.shown, ask->command, ask->library.checksum);
    for (uint32_t i = 0; i < AW_LIBRARY_LEVELS; i++)
        aw_text_add(&text, "| %s | %.2f | %.2f %% | %.0f %% |\n", level_text[i], ask->left[i].cost,
                    PERCENT * ask->left[i].missed, PERCENT * ask->left[i].within_share);
    aw_text_add(&text, "\n## What a context counts\n\n| number | weight |\n|---|--:|\n");
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        aw_text_add(&text, "| %s | %g |\n", aw_context_meaning[i], (double)ask->library.weight[i]);
    return aw_file_replace(ask->card, page, strlen(page), NULL, diag);
}

static json_t *document(const struct ask *ask)
{
    json_t *left = json_array();
    for (uint32_t i = 0; left && i < AW_LIBRARY_LEVELS; i++)
        json_array_append_new(left,
                              json_pack("{s:s, s:f, s:f, s:f}", "choice", level_text[i], "cost",
                                        ask->left[i].cost, "missed", ask->left[i].missed,
                                        "within_budget_share", ask->left[i].within_share));
    char sum[24];
    snprintf(sum, sizeof sum, "%016" PRIx64, ask->library.checksum);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:f, s:f}", "library", ask->model, "card",
                     ask->card, "command", ask->command, "checksum", sum, "rules",
                     (int)ask->library.rules, "applications", (int)ask->library.distinct,
                     "left_out", left, "took_s", ask->took_s, "cpu_s", ask->cpu_s);
}

static enum aw_err print_text(const struct ask *ask)
{
    char took[32], cpu[32];
    printf("%s and %s: %" PRIu32 " rules lived in %" PRIu32 " applications, %s (%s of CPU)\n\n",
           ask->model, ask->card, ask->library.rules, ask->library.distinct,
           aw_seconds_format(ask->took_s, took, sizeof took),
           aw_seconds_format(ask->cpu_s, cpu, sizeof cpu));
    printf("Each application left out in turn:\n\n%-18s  %5s  %8s  %s\n", "CHOICE", "COST",
           "MISSED", "KEEP THE BUDGET");
    for (uint32_t i = 0; i < AW_LIBRARY_LEVELS; i++)
        printf("%-18s  %5.2f  %6.2f %%  %13.0f %%\n", level_text[i], ask->left[i].cost,
               PERCENT * ask->left[i].missed, PERCENT * ask->left[i].within_share);
    return AW_OK;
}

static enum aw_err made(struct ask *ask, struct aw_diag *diag)
{
    const struct aw_simulate_settings *s = &ask->config.simulate.settings;
    const struct aw_prices prices = {.core_hour = s->price_core_hour,
                                     .gib_hour = s->price_gib_hour};
    const struct aw_library_note notes[] = {
        {"command", ask->command}, {"apps", ask->pool}, {"load", ask->loads.shown}};
    for (uint32_t i = 0; i < AW_LIBRARY_LEVELS; i++)
        aw_library_left_out(&ask->library, &prices, s->slo_budget, i, &ask->left[i]);
    enum aw_err err =
        aw_library_save(&ask->library, ask->model, notes, sizeof notes / sizeof *notes, diag);
    err = err ? err : card_write(ask, diag);
    if (err)
        return err;
    return ask->run->json ? aw_json_print(document(ask), diag) : print_text(ask);
}

static enum aw_err library_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct ask *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    if (!ask)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a library");
    ask->run = run;
    enum aw_err err = ask_take(ask, diag);
    if (!err) {
        const double cpu_s = aw_clock_process_cpu_s();
        aw_status_line_init(&ask->line, stderr, aw_args_given(run->args, "quiet"));
        ask->begin_us = aw_clock_monotonic_us(NULL);
        err = aw_library_teach(&ask->config, show_progress, ask, NULL, &ask->library, diag);
        aw_status_line_clear(&ask->line);
        ask->took_s = since(ask->begin_us);
        ask->cpu_s = aw_clock_process_cpu_s() - cpu_s;
    }
    err = err ? err : made(ask, diag);
    aw_library_deinit(&ask->library);
    aw_appset_close(&ask->loads);
    aw_apps_deinit(&ask->file);
    aw_alloc_free(NULL, ask);
    return err;
}

static const struct aw_option library_options[] = {
    AW_OPTION(FILE, "apps", 'a', "FILE|SEED:N", "0-559",
              "applications to live in: all of a file of 'aware apps generate', the first N of a "
              "pool, or [SEED:]FIRST-LAST of it"),
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "a trace with many functions, of which each application gets its own, or a pattern "
              "(default: " AW_APPSET_TRACE " in AWARE_DATA_DIR)"),
    AW_OPTION(FILE, "out", 0, "NAME", NULL, "writes NAME" ENDING " and its card, NAME.md",
              .required = true),
    AW_NUMBER("rules", 0, "N", "128", 1, AW_LIBRARY_RULES_MAX, "rules of the library"),
    AW_NUMBER("tries", 0, "N", "150", 20, 100000, "rules tried in each application"),
    AW_NUMBER("loads", 0, "N", "2", 1, 8, "loads that each application is lived under"),
    AW_OPTION_SEED("1", "where all chance starts; the same seed gives the same library"),
    AW_FLAG("force", 'f', "replace files that are there"),
    AW_OPTION_THREADS("0", "threads; 0: one per processor. The library does not depend on it"),
    AW_FLAG("quiet", 'q', "no progress on stderr"),
    {.name = NULL},
};
static const struct aw_example library_examples[] = {
    {"aware pretrain library --out models/library --load traces/day.csv",
     "560 applications, each with a function of the trace as its load: ten minutes"},
    {"aware pretrain library --out models/ours --apps apps.yaml --load bursts",
     "those of a file, under bursts"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_pretrain_library = {
    .name = "pretrain library",
    .summary = "Live rules in many applications, for new workloads to begin with",
    .text = "In every application the best numbers of a capacity rule are searched for in the "
            "simulated cluster. The most different of them are then lived in all applications, and "
            "what each took is written: cores, memory, missed steps. A new workload begins after "
            "ten minutes with the rule that did best in the applications most like it, at its own "
            "prices and budget.",
    .options = library_options,
    .examples = library_examples,
    .json = true,
    .run = library_run,
};
