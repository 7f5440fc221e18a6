/* pretrain_show.c - how pretraining goes, what came of it, and the card of the model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/pretrain.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/version.h"
#include "nn/matmul.h"

#define PERCENT 100.0

static double since(int64_t begin_us)
{
    return (double)(aw_clock_monotonic_us(NULL) - begin_us) * 1e-6;
}

/* --- while it runs ---------------------------------------------------------------------------- */

bool aw__pretrain_met(void *ctx, uint32_t done, uint32_t total)
{
    struct aw__pretrain *ask = ctx;
    char left[32];
    const double seconds = since(ask->adapting ? ask->adapt_us : ask->begin_us);
    if (ask->line.quiet)
        return true;
    aw_seconds_format(seconds / done * (total - done), left, sizeof left);
    aw_status_line_draw(&ask->line, true, 0, "%s applications, %" PRIu32 " of %" PRIu32 ", %s left",
                        ask->adapting ? "adapting to" : "meeting", done, total, left);
    if (!ask->line.terminal && done == total)
        fprintf(stderr, "%s%" PRIu32 " applications%s in %s\n", ask->adapting ? "adapted to " : "",
                total, ask->adapting ? "" : " met", aw_seconds_format(seconds, left, sizeof left));
    fflush(stderr);
    return true;
}

void aw__pretrain_announce(const struct aw__pretrain *ask, bool resumed)
{
    const struct aw_pretrain_config *config = &ask->config;
    if (ask->line.quiet)
        return;
    fprintf(stderr,
            "%s on %s: %" PRIu32 " applications%s%s, %" PRIu32 " to check on%s%s, %" PRIu32
            " rounds, seed %" PRIu64 ", %s",
            resumed ? "resuming" : "pretraining", config->env, config->learn.count,
            config->learn.apps ? " of " : "", config->learn.apps ? config->learn.file : "",
            config->check.count, config->check.apps ? " of " : "",
            config->check.apps ? config->check.file : "", config->rounds, config->seed,
            ask->pool.shown);
    if (ask->team.size > 1)
        fprintf(stderr, ", %" PRIu32 " processes", ask->team.size);
    if (resumed)
        fprintf(stderr, ", from round %" PRIu32, ask->rounds_before);
    fputc('\n', stderr);
}

void aw__pretrain_row(struct aw__pretrain *ask, const struct aw__pretrain_point *point)
{
    const struct aw_pretrain_best *best = aw_pretrain_best(ask->pretrain);
    char check[32] = "-", best_text[48] = "-", left[32];
    if (ask->line.quiet)
        return;
    const struct aw__pretrain_point *last = NULL;
    for (uint32_t i = 0; i < ask->point_count; i++)
        last = ask->point[i].checked ? &ask->point[i] : last;
    if (last)
        snprintf(check, sizeof check, "%.1f", last->check.paper);
    if (best->round)
        snprintf(best_text, sizeof best_text, "%.1f (round %" PRIu32 ")", best->score.paper,
                 best->round);
    const uint32_t done = point->round - ask->rounds_before;
    aw_seconds_format(since(ask->learn_us) / done * (ask->config.rounds - point->round), left,
                      sizeof left);
    if (ask->line.terminal) {
        aw_status_line_draw(
            &ask->line, true, 0,
            "round %" PRIu32 " of %" PRIu32 "  train R %.1f  check R %s  best %s  %s left",
            point->round, ask->config.rounds, point->learned.paper, check, best_text, left);
        return;
    }
    if (done == 1)
        fprintf(stderr, "round  train R  violations  check R  violations  best R  left\n");
    fprintf(stderr, "%5" PRIu32 "  %7.1f  %8.2f %%", point->round, point->learned.paper,
            PERCENT * point->learned.violations);
    if (point->checked)
        fprintf(stderr, "  %7.1f  %8.2f %%", point->check.paper, PERCENT * point->check.violations);
    else
        fprintf(stderr, "  %7s  %10s", "-", "-");
    if (best->round)
        fprintf(stderr, "  %6.1f  %s\n", best->score.paper, left);
    else
        fprintf(stderr, "  %6s  %s\n", "-", left);
}

/* --- at the end ------------------------------------------------------------------------------- */

static json_t *score_json(const struct aw_pretrain_score *score)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "reward", aw_json_real(score->reward), "R",
                     aw_json_real(score->paper), "violations", aw_json_real(score->violations),
                     "cost_per_hour", aw_json_real(score->cost), "cpu", aw_json_real(score->cpu),
                     "memory", aw_json_real(score->memory));
}

static json_t *pool_json(const struct aw_pretrain_pool *pool)
{
    if (pool->apps)
        return json_pack("{s:s, s:I}", "file", pool->file, "count", (json_int_t)pool->count);
    return json_pack("{s:I, s:I, s:I}", "seed", (json_int_t)pool->seed, "first",
                     (json_int_t)pool->first, "count", (json_int_t)pool->count);
}

static json_t *document(const struct aw__pretrain *ask)
{
    const struct aw_pretrain_best *best = aw_pretrain_best(ask->pretrain);
    char checksum[20];
    snprintf(checksum, sizeof checksum, "%016" PRIx64,
             aw_context_checksum(aw_pretrain_context(ask->pretrain)));
    json_t *rounds = json_array();
    for (uint32_t i = 0; i < ask->point_count; i++) {
        const struct aw__pretrain_point *point = &ask->point[i];
        json_array_append_new(rounds,
                              json_pack("{s:I, s:o, s:o}", "round", (json_int_t)point->round,
                                        "train", score_json(&point->learned), "check",
                                        point->checked ? score_json(&point->check) : json_null()));
    }
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:b, s:s, s:s, s:o, s:o, s:I, "
        "s:f, s:f, s:o}",
        "model", ask->model, "card", ask->card, "command", ask->command, "env", ask->config.env,
        "apps", pool_json(&ask->config.learn), "check", pool_json(&ask->config.check), "load",
        ask->pool.shown, "preset", ask->paper ? "paper" : "default", "rounds",
        (json_int_t)aw_pretrain_rounds(ask->pretrain), "best_round", (json_int_t)best->round,
        "stopped_early", (int)ask->early, "checksum", checksum, "kernels", aw_matmul_kernels(),
        "policy", score_json(&best->score), "fallback", score_json(&ask->fallback), "processes",
        (json_int_t)ask->team.size, "seconds", since(ask->begin_us), "cpu_seconds", ask->cpu_s,
        "history", rounds);
}

#define FIGURES 5u
static const char *const figure_names[FIGURES] = {"reward R per episode",
                                                  "SLO violations, % of steps", "cost, $ per hour",
                                                  "CPU utilisation, %", "memory utilisation, %"};
static const int figure_digits[FIGURES] = {1, 2, 4, 1, 1};

static void figures_of(const struct aw_pretrain_score *score, double ret[FIGURES])
{
    ret[0] = score->paper;
    ret[1] = PERCENT * score->violations;
    ret[2] = score->cost;
    ret[3] = PERCENT * score->cpu;
    ret[4] = PERCENT * score->memory;
}

static void figures_table(const struct aw__pretrain *ask, struct aw_table *table)
{
    static const char *const heads[] = {"ON VALIDATION", ">MODEL", ">FALLBACK", NULL};
    double own[FIGURES], other[FIGURES];
    figures_of(&aw_pretrain_best(ask->pretrain)->score, own);
    figures_of(&ask->fallback, other);
    aw_table_init(table, heads);
    for (uint32_t i = 0; i < FIGURES; i++) {
        aw_table_add(table, "%s", figure_names[i]);
        aw_table_add(table, "%.*f", figure_digits[i], own[i]);
        aw_table_add(table, "%.*f", figure_digits[i], other[i]);
    }
}

enum aw_err aw__pretrain_print(const struct aw__pretrain *ask, struct aw_diag *diag)
{
    const struct aw_pretrain_best *best = aw_pretrain_best(ask->pretrain);
    struct aw_table table;
    char took[32], cpu[32];
    if (ask->run->json)
        return aw_json_print(document(ask), diag);
    figures_table(ask, &table);
    const enum aw_err err = aw_table_print(&table, stdout, ask->run->color_out, diag);
    if (err)
        return err;
    printf("\n%s and %s: round %" PRIu32 " of %" PRIu32 "%s, %s (%s of CPU)\n", ask->model,
           ask->card, best->round, aw_pretrain_rounds(ask->pretrain),
           ask->early ? ", stopped early" : "",
           aw_seconds_format(since(ask->begin_us), took, sizeof took),
           aw_seconds_format(ask->cpu_s, cpu, sizeof cpu));
    return AW_OK;
}

/* --- the card --------------------------------------------------------------------------------- */

/* How many there were. */
static uint32_t card_settings(FILE *out, const struct aw_conf_field *fields, const void *settings,
                              const void *defaults)
{
    uint32_t count = 0;
    for (; fields->key; fields++) {
        char value[AW_CONF_TEXT_MAX], usual[AW_CONF_TEXT_MAX];
        aw_conf_get(fields, settings, value, sizeof value);
        aw_conf_get(fields, defaults, usual, sizeof usual);
        if (!strcmp(value, usual))
            continue;
        fprintf(out, "- `%s` = %s (default %s): %s\n", fields->key, value, usual, fields->help);
        count++;
    }
    return count;
}

static void card_pool(FILE *out, const struct aw_pretrain_pool *pool)
{
    if (pool->apps)
        fprintf(out, "all %" PRIu32 " applications of the file `%s`", pool->count, pool->file);
    else
        fprintf(out, "applications %" PRIu32 " to %" PRIu32 " of the pool with seed %" PRIu64,
                pool->first, pool->first + pool->count - 1, pool->seed);
}

static void card_data(FILE *out, const struct aw__pretrain *ask)
{
    const struct aw_pretrain_config *config = &ask->config;
    fprintf(out, "## Data\n\n- learned from: ");
    card_pool(out, &config->learn);
    fprintf(out, "%s\n- chosen on: ",
            config->learn.apps
                ? ""
                : ", made by `aware apps generate`; each is a random sequence of segments");
    card_pool(out, &config->check);
    fprintf(out, ", never learned from\n");
    fprintf(out, "- load: `%s`%s\n", ask->pool.shown,
            ask->pool.pattern ? ", drawn anew for each application"
            : ask->pool.pack.count > 1
                ? "; application i has the function of rank 2 (i mod 100) + 1 by requests. Even "
                  "ranks are kept for reporting"
                : "");
    fprintf(out, "- environment: `%s` on the simulated cluster, with", config->env);
    for (uint32_t i = 0; i < config->pair_count; i++)
        fprintf(out, "%s `%s`", i ? "," : "", config->pairs[i]);
    fprintf(out, "\n- an application is known by %" PRIu32 " episodes of the fallback `%s`\n\n",
            config->fallback_episodes, aw_fallback_names[config->fallback.kind]);
}

static void card_text(FILE *out, const struct aw__pretrain *ask)
{
    const struct aw_pretrain_best *best = aw_pretrain_best(ask->pretrain);
    struct aw_pretrain_config usual;
    char took[32], cpu[32];
    const char *slash = strrchr(ask->model, '/');
    aw_pretrain_config_init(&usual);
    fprintf(out,
            "# Model card: %s\n\n"
            "A policy that scales an application it has never seen, from a few episodes of the "
            "controller that scaled it before. Encoder, actor and critics in one safetensors "
            "file, with the embeddings of the applications it was taught on.\n\n",
            slash ? slash + 1 : ask->model);
    card_data(out, ask);
    fprintf(out,
            "## How it was made\n\n"
            "```\n%s\n```\n\n"
            "- source %s, seed %" PRIu64 ", preset %s\n"
            "- %" PRIu32 " rounds%s; the weights are those after round %" PRIu32
            ", the best on validation\n"
            "- %s, %s of CPU time%s; checksum of the weights `%016" PRIx64 "`\n"
            "- kernels of OpenBLAS: %s. Those for another processor round otherwise and give other "
            "weights, alike in worth; with `OPENBLAS_CORETYPE=%s` before the command they are the "
            "same on every processor that can run these\n\n",
            ask->command, AW_VERSION_SOURCE, ask->config.seed, ask->paper ? "paper" : "default",
            aw_pretrain_rounds(ask->pretrain), ask->early ? " (stopped early)" : "", best->round,
            aw_seconds_format(since(ask->begin_us), took, sizeof took),
            aw_seconds_format(ask->cpu_s, cpu, sizeof cpu),
            ask->rounds_before ? " (of the last session)" : "",
            aw_context_checksum(aw_pretrain_context(ask->pretrain)), aw_matmul_kernels(),
            aw_matmul_kernels());
    fprintf(out, "Settings other than the defaults:\n\n");
    if (card_settings(out, aw_pretrain_fields, &ask->config, &usual) +
            card_settings(out, aw_context_fields, &ask->config.context, &usual.context) ==
        0)
        fprintf(out, "- none\n");
    fprintf(out, "\n## On validation\n\n");
}

static void card_line(FILE *out, const char *what, const struct aw_known_apps_line *line,
                      double unit, const char *suffix)
{
    fprintf(out, "| %s | %.2f%s | ", what, unit * (line->intercept + line->slope * line->at),
            suffix);
    if (line->related)
        fprintf(out, "%+.2f%s, give or take %.2f%s", unit * line->slope, suffix, unit * line->error,
                suffix);
    else
        fprintf(out, "no relation was found");
    fprintf(out, " | %.2f%s | %.2f%s |\n", unit * line->deviation, suffix, unit * line->growth,
            suffix);
}

static void card_predicts(FILE *out, const struct aw__pretrain *ask)
{
    if (!ask->drop.there)
        return;
    fprintf(
        out,
        "\n## What it predicts\n\n"
        "Over the similarity of an application to the nearest one that it knows, from %" PRIu32
        " episodes in each of the applications for validation, and from what it loses there "
        "when it takes them for known ones that are less and less like them (similarity down "
        "to %.2f); `aware embed` uses it. Below 0 it begins better than it ends after those "
        "episodes.\n\n"
        "| prediction | at similarity %.2f, mean of validation | per unit of similarity | error, "
        "one deviation | its growth per unit less like |\n"
        "|---|--:|--:|--:|--:|\n",
        ask->predict, ask->drop.lowest, ask->drop.at);
    card_line(out, "reward missing at first", &ask->drop, 100, " %");
    card_line(out, "episodes to adapt", &ask->episodes, 1, "");
}

static const char limits[] =
    "\n## Limits\n\n"
    "- The figures above chose the model, so they flatter it a little. Applications from 800 on "
    "and even ranks of the trace are for reporting: `aware experiment adaptation`.\n"
    "- It was taught in the simulated cluster. `aware embed` says how near a workload is to "
    "those it knows, and whether it lies outside of them.\n"
    "- It expects the state, actions and reward of the environment above; a file of another shape "
    "is refused.\n"
    "- Guard rails and the fallback stay in charge whatever the model says.\n";

enum aw_err aw__pretrain_card_write(const struct aw__pretrain *ask, struct aw_diag *diag)
{
    char *text = NULL;
    size_t size = 0;
    struct aw_table table;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the card of the model");
    card_text(out, ask);
    figures_table(ask, &table);
    enum aw_err err = aw_table_print_markdown(&table, out, diag);
    card_predicts(out, ask);
    fputs(limits, out);
    if (fclose(out) != 0 && !err)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the card of the model");
    err = err ? err : aw_file_replace(ask->card, text, size, NULL, diag);
    free(text);
    return err;
}
