/* pretrain_multi.c - the verb `pretrain multi`: agents of one cluster that learn together. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/pretrain.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/verbs.h"
#include "lab/appset.h"
#include "policy/models.h"
#include "pretrain/peers_teach.h"

#define ENDING  ".safetensors"
#define PERCENT 100.0

struct ask {
    const struct aw_call *run;
    struct aw_peers_teach_config config;
    struct aw_appset loads;
    struct aw_model_shelf *shelf;
    struct aw_peers_model made;
    struct aw_peers_taught taught;
    struct aw_status_line line;
    int64_t begin_us;
    double took_s, cpu_s;
    char model[512], card[512], command[768];
};

static double since(int64_t begin_us)
{
    return 1e-6 * (double)(aw_clock_monotonic_us(NULL) - begin_us);
}

static bool show_progress(void *ctx, uint32_t done, uint32_t total)
{
    struct ask *ask = ctx;
    char left[32];
    aw_seconds_format(since(ask->begin_us) / done * (total - done), left, sizeof left);
    aw_status_line_draw(&ask->line, done == total, aw_clock_monotonic_us(NULL),
                        "learning: episode %" PRIu32 " of %" PRIu32 "  %s left", done, total, left);
    if (aw_status_line_row(&ask->line, done, total))
        fprintf(ask->line.out, "learning: %" PRIu32 " of %" PRIu32 " episodes, %s left\n", done,
                total, left);
    return true;
}

static enum aw_err ask_take(struct ask *ask, struct aw_diag *diag)
{
    const struct aw_args *args = ask->run->args;
    struct aw_peers_teach_config *config = &ask->config;
    aw_peers_teach_config_init(config);
    /* what is reported has even ranks of the trace, what is learned from odd ones (appset.h) */
    config->learn = (struct aw_pretrain_pool){.seed = 1, .first = 0, .count = 560};
    config->choose = (struct aw_pretrain_pool){.seed = 1, .first = 560, .count = 200};
    config->report = (struct aw_pretrain_pool){.seed = 1, .first = 800, .count = 200};
    config->load_make = aw_appset_make;
    config->load_ctx = &ask->loads;
    config->episodes = (uint32_t)aw_args_number(args, "episodes");
    config->towns = (uint32_t)aw_args_number(args, "towns");
    config->simulate.seed = aw_args_number(args, "seed");
    enum aw_err err =
        aw__pretrain_files(args, "model", sizeof ask->model, ask->model, ask->card, diag);
    err = err ? err : aw_appset_open(&ask->loads, aw_args_text(args, "load"), diag);
    err = err ? err : aw_models_open(NULL, &ask->shelf, diag);
    err = err ? err
              : aw_model_shelf_library(ask->shelf, AW_MODEL_SHELF_SHIPPED, &config->library, diag);
    if (err)
        return err;
    const char *slash = strrchr(ask->model, '/');
    const char *name = slash ? slash + 1 : ask->model;
    snprintf(ask->command, sizeof ask->command,
             "aware pretrain multi --episodes %" PRIu32 " --towns %" PRIu32 " --seed %" PRIu64
             " --load %s --out models/%.*s",
             config->episodes, config->towns, config->simulate.seed, ask->loads.shown,
             (int)(strlen(name) - strlen(ENDING)), name);
    return AW_OK;
}

/* --- what was made ---------------------------------------------------------------------------- */

static void rows_add(const struct ask *ask, struct aw_text *text)
{
    const struct aw_peers_lived *learned = &ask->taught.learned;
    aw_text_add(text, "| learned together | %.2f %% | %.2f | %.3f |\n", PERCENT * learned->missed,
                learned->cost, learned->value);
    for (uint32_t i = 0; i < AW_PEERS_CHOICES; i++) {
        const struct aw_peers_lived *fixed = &ask->taught.fixed[i];
        aw_text_add(text, "| always %g | %.2f %% | %.2f | %.3f |\n", aw_peers_factor[i],
                    PERCENT * fixed->missed, fixed->cost, fixed->value);
    }
}

static enum aw_err card_write(const struct ask *ask, struct aw_diag *diag)
{
    char page[8192];
    struct aw_text text;
    const struct aw_peers_teach_config *c = &ask->config;
    aw_text_init(&text, page, sizeof page);
    aw_text_add(
        &text,
        "# Agents that learned together\n\n"
        "One network for each category of workloads (CPU, memory, I/O), for `learning.agent."
        "name: multi`. In every step it chooses a factor on the margin of the "
        "workload's capacity rule, which comes from the library.\n\n"
        "Taught by SIMPPO in %" PRIu32 " towns of %" PRIu32 " to %" PRIu32
        " applications on one simulated cluster with %g to %g times the cores that their "
        "mean loads need; load: %s; %" PRIu32 " episodes, of which the networks after %" PRIu32
        " were the best in towns of other applications.\n\n"
        "Made by\n\n    %s\n\nChecksum %016" PRIx64 ".\n\n"
        "## Where applications are not known\n\n"
        "%" PRIu32 " towns of applications and loads that nothing was learned from or chosen "
        "by; steps that missed the SLO, cost over what the load needs, and ln of the cost "
        "with misses priced in (lower is better).\n\n"
        "| who chooses the factor | missed | cost | value |\n|---|--:|--:|--:|\n",
        c->towns, c->agents_min, c->agents_max, c->room_min, c->room_max, ask->loads.shown,
        c->episodes, ask->taught.episodes, ask->command, ask->made.checksum, c->towns_checked);
    rows_add(ask, &text);
    aw_text_add(&text, "\n| category | agents reported | missed |\n|---|--:|--:|\n");
    for (uint32_t i = 0; i < AW_PEERS_CATEGORIES; i++)
        aw_text_add(&text, "| %s | %" PRIu32 " | %.2f %% |\n", aw_peers_category_names[i],
                    ask->taught.agents[i], PERCENT * (double)ask->made.missed[i]);
    return aw_file_replace(ask->card, page, strlen(page), NULL, diag);
}

static json_t *lived_json(const char *name, const struct aw_peers_lived *lived)
{
    return json_pack("{s:s, s:f, s:f, s:f}", "choice", name, "missed_share", lived->missed, "cost",
                     lived->cost, "value", lived->value);
}

static json_t *document(const struct ask *ask)
{
    json_t *rows = json_array();
    char sum[24], name[24];
    json_array_append_new(rows, lived_json("learned", &ask->taught.learned));
    for (uint32_t i = 0; rows && i < AW_PEERS_CHOICES; i++) {
        snprintf(name, sizeof name, "%g", aw_peers_factor[i]);
        json_array_append_new(rows, lived_json(name, &ask->taught.fixed[i]));
    }
    snprintf(sum, sizeof sum, "%016" PRIx64, ask->made.checksum);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:o, s:f, s:f}", "model", ask->model, "card",
                     ask->card, "command", ask->command, "checksum", sum, "episodes",
                     (int)ask->taught.episodes, "reported", rows, "took_s", ask->took_s, "cpu_s",
                     ask->cpu_s);
}

static enum aw_err print_text(const struct ask *ask)
{
    char took[32], cpu[32];
    printf("%s and %s: learned in %s (%s of CPU), the best after %" PRIu32 " episodes\n\n",
           ask->model, ask->card, aw_seconds_format(ask->took_s, took, sizeof took),
           aw_seconds_format(ask->cpu_s, cpu, sizeof cpu), ask->taught.episodes);
    printf("In towns that nothing was learned from:\n\n%-20s  %8s  %6s  %6s\n", "FACTOR", "MISSED",
           "COST", "VALUE");
    const struct aw_peers_lived *learned = &ask->taught.learned;
    printf("%-20s  %6.2f %%  %6.2f  %6.3f\n", "learned together", PERCENT * learned->missed,
           learned->cost, learned->value);
    for (uint32_t i = 0; i < AW_PEERS_CHOICES; i++) {
        const struct aw_peers_lived *fixed = &ask->taught.fixed[i];
        printf("always %-13g  %6.2f %%  %6.2f  %6.3f\n", aw_peers_factor[i],
               PERCENT * fixed->missed, fixed->cost, fixed->value);
    }
    return AW_OK;
}

static enum aw_err multi_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct ask *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    if (!ask)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to teach agents");
    ask->run = run;
    enum aw_err err = ask_take(ask, diag);
    if (!err) {
        const double cpu_s = aw_clock_process_cpu_s();
        aw_status_line_init(&ask->line, stderr, aw_args_given(run->args, "quiet"));
        ask->begin_us = aw_clock_monotonic_us(NULL);
        err =
            aw_peers_teach(&ask->config, show_progress, ask, NULL, &ask->made, &ask->taught, diag);
        aw_status_line_clear(&ask->line);
        ask->took_s = since(ask->begin_us);
        ask->cpu_s = aw_clock_process_cpu_s() - cpu_s;
    }
    const struct aw_library_note notes[] = {{"command", ask->command}, {"load", ask->loads.shown}};
    err = err ? err
              : aw_peers_model_save(&ask->made, ask->model, notes, sizeof notes / sizeof *notes,
                                    NULL, diag);
    err = err ? err : card_write(ask, diag);
    if (!err)
        err = run->json ? aw_json_print(document(ask), diag) : print_text(ask);
    aw_appset_close(&ask->loads);
    aw_model_shelf_free(ask->shelf);
    aw_alloc_free(NULL, ask);
    return err;
}

static const struct aw_option multi_options[] = {
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "a trace with many functions, of which each application gets its own, or a pattern "
              "(default: " AW_APPSET_TRACE " in AWARE_DATA_DIR)"),
    AW_OPTION(FILE, "out", 0, "NAME", NULL, "writes NAME" ENDING " and its card, NAME.md",
              .required = true),
    AW_NUMBER("episodes", 0, "N", "1500", 1, 1000000, "episodes, of 100 steps of one town each"),
    AW_NUMBER("towns", 0, "N", "32", 1, 1000, "towns to learn in, of 6 to 20 applications"),
    AW_OPTION_SEED("1", "where all chance starts; the same seed gives the same model"),
    AW_FLAG("force", 'f', "replace files that are there"),
    AW_FLAG("quiet", 'q', "no progress on stderr"),
    {.name = NULL},
};
static const struct aw_example multi_examples[] = {
    {"aware pretrain multi --out models/multi --load traces/day.csv",
     "32 towns, each application with a function of the trace as its load"},
    {"aware pretrain multi --out models/ours --load bursts --episodes 100", "a short one"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_pretrain_multi = {
    .name = "pretrain multi",
    .summary = "Teach agents of one cluster together, for learning.agent.name: multi",
    .text = "Applications share simulated clusters of different sizes, and their agents learn "
            "together (SIMPPO): one network for each category of workloads sees its own workload, "
            "the critic sees a summary of all others, and part of the reward is the team's. The "
            "best networks in towns of other applications are written, and what they came to in "
            "towns of others again, beside the same rules with a fixed factor.",
    .options = multi_options,
    .examples = multi_examples,
    .json = true,
    .run = multi_run,
};
