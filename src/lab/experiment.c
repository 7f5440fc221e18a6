/* experiment.c - the verb `experiment`: a table or figure of the papers, made again. */
#include "lab/experiment.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "frame/version.h"
#include "lab/load.h"
#include "nn/matmul.h"

#define TRACE      "azure_functions_2019_fullday/f1250_inv.csv" /* below AWARE_DATA_DIR */
#define APPS_MAX   200u /* of the pool, that nothing is learned from */
#define SEEDS_MAX  100u
#define NAMES_MAX  64u    /* of experiments that a wrong name is compared with */
#define ENV_PREFIX "env." /* of a --set: it is meant for the environment */
/* Pieces that come in the first second of a phase come from the work folder: they say nothing about
 * how long the others take. Nor does the first of each thread say all: some phases prepare long. */
#define KEPT_US 1000000

static const char *const scale_names[] = {"quick", "full", NULL};
static const char *const preset_names[] = {"default", "paper", NULL};

/* --- what is asked ---------------------------------------------------------------------------- */

static enum aw_err entry_find(const char *name, const struct aw_experiment_entry **ret,
                              struct aw_diag *diag)
{
    const char *names[NAMES_MAX + 1] = {0}, *nearest;
    if ((*ret = aw_experiment_find(name)))
        return AW_OK;
    for (uint32_t i = 0; i < NAMES_MAX && aw_experiments[i].run; i++)
        names[i] = aw_experiments[i].name;
    if ((nearest = aw_conf_nearest(name, names)))
        return aw_fail(diag, AW_ERR_USAGE, "no experiment is called %s; did you mean '%s'?",
                       AW_QUOTE(name), nearest);
    return aw_fail(diag, AW_ERR_USAGE,
                   "no experiment is called %s; 'aware experiment --list' shows them",
                   AW_QUOTE(name));
}

AW_PRINTF(4, 5)
static enum aw_err path_set(char *into, size_t size, struct aw_diag *diag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(into, size, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= size)
        return aw_fail(diag, AW_ERR_USAGE, "a path is longer than %zu bytes", size - 1);
    return AW_OK;
}

static enum aw_err load_take(const struct aw_args *args, struct aw__experiment *ask,
                             struct aw_diag *diag)
{
    struct aw_experiment_config *config = &ask->config;
    const char *data = getenv("AWARE_DATA_DIR"), *load = aw_args_text(args, "load");
    enum aw_err err;
    if (ask->entry->takes & AW_EXPERIMENT_TAKES_NO_LOAD)
        return AW_OK;
    const char *below = aw_experiment_load(ask->entry, false);
    below = below ? below : TRACE;
    if (!load && !data)
        load = aw_experiment_load(ask->entry, true);
    if (!load && !data)
        return aw_fail(diag, AW_ERR_USAGE,
                       "no load: say --load, or set AWARE_DATA_DIR to where %s is", below);
    if (load)
        err = path_set(config->load, sizeof config->load, diag, "%s", load);
    else
        err = path_set(config->load, sizeof config->load, diag, "%s/%s", data, below);
    const char *slash = strrchr(config->load, '/');
    snprintf(ask->load, sizeof ask->load, "%s", slash ? slash + 1 : config->load);
    if (!err && !aw__load_is_pattern(config->load)) {
        char file[AW_EXPERIMENT_PATH_MAX]; /* without what follows it: "FILE:top=3" */
        snprintf(file, sizeof file, "%s", config->load);
        char *colon = strrchr(file, ':');
        if (access(file, R_OK) != 0 && colon)
            *colon = '\0';
        if (access(file, R_OK) != 0)
            return aw_fail_at(diag, AW_ERR_NOTFOUND, file, 0, 0, NULL, "no such trace");
    }
    return err;
}

static enum aw_err pairs_take(const struct aw_args *args, struct aw_experiment_config *config,
                              struct aw_diag *diag)
{
    for (uint32_t i = 0; i < args->repeat_count; i++) {
        const char *pair = args->repeat[i];
        if (strncmp(pair, ENV_PREFIX, strlen(ENV_PREFIX)) != 0)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--set",
                              "options of the environment alone, as " ENV_PREFIX "deadband=0; "
                              "not %s",
                              AW_QUOTE(pair));
        if (config->pair_count == AW_EXPERIMENT_PAIRS_MAX)
            return aw_fail_at(diag, AW_ERR_LIMIT, NULL, 0, 0, "--set", "at most %u options",
                              AW_EXPERIMENT_PAIRS_MAX);
        config->pairs[config->pair_count++] = pair + strlen(ENV_PREFIX);
    }
    return AW_OK;
}

/* "200:800": so many of the pool may be learned from, so many are left to report on. */
static enum aw_err split_take(const struct aw_args *args, struct aw_experiment_config *config,
                              struct aw_diag *diag)
{
    const char *text = aw_args_text(args, "split");
    unsigned learned = 0, unseen = 0;
    char more;
    if (!text)
        return AW_OK;
    if (strlen(text) > 9 || sscanf(text, "%u:%u%c", &learned, &unseen, &more) != 2 ||
        learned == 0 || learned + unseen != AW_EXPERIMENT_POOL)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--split",
                          "two numbers that add up to %u, as 200:800; not %s", AW_EXPERIMENT_POOL,
                          AW_QUOTE(text));
    config->learned = learned;
    return AW_OK;
}

/* Where pieces are kept, and the two files of the report: beside that folder unless said. */
static enum aw_err paths_take(const struct aw_args *args, struct aw__experiment *ask,
                              struct aw_diag *diag)
{
    struct aw_experiment_config *config = &ask->config;
    const char *work = aw_args_text(args, "work"), *report = aw_args_text(args, "report");
    const char *cache = getenv("XDG_CACHE_HOME"), *name = ask->entry->name;
    const char *folder_name = ask->all ? AW__EXPERIMENT_ALL : name; /* they share pieces */
    enum aw_err err;
    if (ask->all && report)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--report",
                          "names one page; those of all experiments are beside the work folder");
    if (work)
        err = path_set(config->work, sizeof config->work, diag, "%s", work);
    else if (cache && *cache == '/') /* the specification has other paths ignored */
        err = path_set(config->work, sizeof config->work, diag, "%s/aware/experiment-%s", cache,
                       folder_name);
    else
        err = path_set(config->work, sizeof config->work, diag, "experiment-%s", folder_name);
    if (err)
        return err;
    for (size_t len = strlen(config->work); len > 1 && config->work[len - 1] == '/'; len--)
        config->work[len - 1] = '\0';
    const char *slash = strrchr(config->work, '/');
    if (report)
        err = path_set(ask->html, sizeof ask->html, diag, "%s", report);
    else
        err = path_set(ask->html, sizeof ask->html, diag, "%.*s%s.html",
                       slash ? (int)(slash + 1 - config->work) : 0, config->work, name);
    if (err)
        return err;
    const size_t len = strlen(ask->html);
    const bool html = len > 5 && !strcmp(ask->html + len - 5, ".html");
    err = path_set(ask->json, sizeof ask->json, diag, "%.*s.json", (int)(html ? len - 5 : len),
                   ask->html);
    err = err ? err : aw_file_mkdirs(config->work, diag);
    /* now, and not after two hours */
    char folder[AW_EXPERIMENT_PATH_MAX];
    snprintf(folder, sizeof folder, "%s", ask->html);
    char *last = strrchr(folder, '/');
    if (err || !last || last == folder)
        return err;
    *last = '\0';
    return aw_file_mkdirs(folder, diag);
}

/* Of all experiments, one goes without what it does not know of. */
static void ask_trim(struct aw__experiment *ask)
{
    struct aw_experiment_config *config = &ask->config;
    const uint32_t takes = ask->entry->takes;
    config->apps = takes & AW_EXPERIMENT_TAKES_APPS ? config->apps : 0;
    config->seeds = takes & AW_EXPERIMENT_TAKES_SEEDS ? config->seeds : 0;
    config->pair_count = takes & AW_EXPERIMENT_TAKES_PAIRS ? config->pair_count : 0;
    config->learned = takes & AW_EXPERIMENT_TAKES_SPLIT ? config->learned : 0;
}

/* `ask` has its entry. */
static enum aw_err ask_take(const struct aw_call *run, struct aw__experiment *ask,
                            struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    struct aw_experiment_config *config = &ask->config;
    const char *model = aw_args_text(args, "model");
    enum aw_err err;
    ask->markdown = aw_args_given(args, "markdown");
    if (ask->markdown && run->json)
        return aw_fail(diag, AW_ERR_USAGE, "--markdown and --output json exclude each other");
    aw_experiment_config_init(config);
    config->scale =
        !strcmp(aw_args_text(args, "scale"), "full") ? AW_EXPERIMENT_FULL : AW_EXPERIMENT_QUICK;
    config->paper = !strcmp(aw_args_text(args, "preset"), "paper");
    config->pool = aw_args_number(args, "pool");
    config->seed = aw_args_number(args, "seed");
    config->apps = (uint32_t)aw_args_number(args, "apps");
    config->seeds = (uint32_t)aw_args_number(args, "seeds");
    config->threads = (uint32_t)aw_args_number(args, "threads");
    if (config->threads == 0)
        config->threads = aw_threads_cpu_count();
    snprintf(config->version, sizeof config->version, "%s %s", AW_VERSION_SOURCE,
             aw_matmul_kernels()); /* which round otherwise (matmul.h) */
    if (model && (err = path_set(config->model, sizeof config->model, diag, "%s", model)))
        return err;
    if (model && access(model, R_OK) != 0)
        return aw_fail_at(diag, AW_ERR_NOTFOUND, model, 0, 0, NULL, "no such model");
    err = pairs_take(args, config, diag);
    err = err ? err : split_take(args, config, diag);
    if (!err && ask->all)
        ask_trim(ask);
    err = err ? err : aw_experiment_check(ask->entry, config, diag);
    err = err ? err : load_take(args, ask, diag);
    return err ? err : paths_take(args, ask, diag);
}

/* The command that makes the same report, wherever the trace lies. */
static void command_write(const struct aw_call *run, const struct aw__experiment *ask, char *buf,
                          size_t size)
{
    static const struct {
        const char *name;
        uint32_t takes; /* what an experiment must know of; 0: all do */
    } kept[] = {{"scale", 0},
                {"preset", 0},
                {"pool", 0},
                {"split", AW_EXPERIMENT_TAKES_SPLIT},
                {"seed", 0},
                {"apps", AW_EXPERIMENT_TAKES_APPS},
                {"seeds", AW_EXPERIMENT_TAKES_SEEDS},
                {"model", 0}};
    const struct aw_args *args = run->args;
    const struct aw_option *option;
    struct aw_text text;
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "aware experiment %s", ask->entry->name);
    for (uint32_t i = 0; (option = aw_verb_option(args->verb, i)); i++) {
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
            if (!strcmp(option->name, kept[k].name) && args->value[i].given &&
                (ask->entry->takes & kept[k].takes) == kept[k].takes)
                aw_text_add(&text, " --%s %s", option->name, args->value[i].text);
        }
    }
    for (uint32_t i = 0; i < ask->config.pair_count; i++)
        aw_text_add(&text, " --set " ENV_PREFIX "%s", ask->config.pairs[i]);
    if (aw_args_given(args, "load"))
        aw_text_add(&text, " --load %s", ask->load);
}

/* --- while it runs ---------------------------------------------------------------------------- */

struct watch {
    struct aw_status_line line;
    char phase[AW__EXPERIMENT_LINE];
    int64_t last_us;  /* when something was told last, or the run began */
    int64_t begin_us; /* of the phase */
    int64_t kept_us;  /* from when on it is estimated how long the rest takes */
    uint32_t kept;    /* done by then */
    uint32_t threads;
};

/* A phase begins where the last one ended: its first piece may have taken long. */
static void phase_begin(struct watch *watch, const char *phase)
{
    snprintf(watch->phase, sizeof watch->phase, "%s", phase);
    watch->begin_us = watch->kept_us = watch->last_us;
    watch->kept = 0;
    watch->line.rows = 0;
    watch->line.drawn_us = 0;
}

static bool watch_take(void *ctx, const char *phase, uint32_t done, uint32_t total)
{
    struct watch *watch = ctx;
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    char line[AW__EXPERIMENT_LINE];
    double left_s = NAN;
    if (watch->line.quiet)
        return !aw_stop_signal;
    if (strncmp(phase, watch->phase, sizeof watch->phase - 1) != 0)
        phase_begin(watch, phase);
    watch->last_us = now_us;
    const bool kept = now_us - watch->begin_us < KEPT_US;
    if (!kept && done > watch->kept)
        left_s = (double)(now_us - watch->kept_us) * 1e-6 / (done - watch->kept) * (total - done);
    if (kept || done == watch->threads) {
        watch->kept_us = now_us;
        watch->kept = done;
    }
    const bool end = done >= total;
    const unsigned columns = watch->line.terminal ? aw_columns(stderr) : sizeof line;
    aw__experiment_line(phase, done, total, (double)(now_us - watch->begin_us) * 1e-6, left_s,
                        columns, line, sizeof line);
    aw_status_line_draw(&watch->line, end, now_us, "%s", line);
    if (aw_status_line_row(&watch->line, done, total))
        fprintf(stderr, "%s\n", line);
    return !aw_stop_signal;
}

/* --- what it came to -------------------------------------------------------------------------- */

static enum aw_err list_print(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"NAME", "SHOWS", "WHAT", NULL};
    if (run->json) {
        json_t *list = json_array();
        for (const struct aw_experiment_entry *entry = aw_experiments; entry->run; entry++)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", entry->name, "shows",
                                                  entry->shows, "title", entry->title));
        return aw_json_print(list, diag);
    }
    struct aw_table table;
    aw_table_init(&table, heads);
    for (const struct aw_experiment_entry *entry = aw_experiments; entry->run; entry++) {
        aw_table_add(&table, "%s", entry->name);
        aw_table_add(&table, "%s", entry->shows);
        aw_table_add(&table, "%s", entry->title);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

/* `list`: NULL, or where the document goes in place of stdout. */
static enum aw_err report_tell(const struct aw_call *run, const struct aw__experiment *ask,
                               const struct aw_study_report *report, json_t *list,
                               struct aw_diag *diag)
{
    json_t *document = aw__experiment_json(ask, report);
    if (!document)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the JSON document");
    enum aw_err err = AW_OK;
    if (run->json && list)
        json_array_append(list, document);
    else if (run->json)
        err = aw_json_print(json_incref(document), diag);
    else
        err = aw__experiment_print(ask, report, stdout, aw_columns(stdout), run->color_out, diag);
    err = err ? err : aw__experiment_json_write(document, ask->json, diag);
    err = err ? err : aw__experiment_page_write(document, ask->html, diag);
    json_decref(document);
    if (!err && !aw_args_given(run->args, "quiet")) {
        fflush(stdout);
        fprintf(stderr, "aware: the page is %s, the figures are %s\n", ask->html, ask->json);
    }
    return err;
}

/* --- one of them ------------------------------------------------------------------------------ */

static uint32_t goals_of(const struct aw_study_report *report, enum aw_study_report_verdict verdict)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < report->figures; i++)
        count += aw_study_report_verdict(&report->figure[i]) == verdict;
    return count;
}

static enum aw_err goals_check(uint32_t missed, struct aw_diag *diag)
{
    if (missed)
        return aw_fail(diag, AW_ERR_CHECK, "%" PRIu32 " goals are missed", missed);
    return AW_OK;
}

/* What became of one. */
struct outcome {
    enum aw_err err;
    uint32_t figures, met, missed;
    double seconds;
    char html[AW_EXPERIMENT_PATH_MAX];
};

static enum aw_err ask_run(const struct aw_call *run, struct aw__experiment *ask, json_t *list,
                           struct outcome *ret, struct aw_diag *diag)
{
    struct watch watch = {.threads = ask->config.threads};
    aw_status_line_init(&watch.line, stderr, aw_args_given(run->args, "quiet"));
    struct aw_study_report *report = NULL;
    enum aw_err err = aw_study_report_new(ask->entry->name, ask->entry->title, NULL, &report, diag);
    if (err)
        return err;
    command_write(run, ask, report->command, sizeof report->command);
    snprintf(report->source, sizeof report->source, "%s", AW_VERSION_SOURCE);
    ask->config.progress = watch_take;
    ask->config.progress_ctx = &watch;
    if (!watch.line.quiet && ask->all)
        fprintf(stderr, "aware: %s\n", report->command);
    if (!watch.line.quiet)
        fprintf(stderr, "aware: pieces are kept in %s\n", ask->config.work);
    const int64_t begin_us = watch.last_us = aw_clock_monotonic_us(NULL);
    err = aw_experiment_run(ask->entry, &ask->config, NULL, report, diag);
    ask->seconds = (double)(aw_clock_monotonic_us(NULL) - begin_us) * 1e-6;
    aw_status_line_clear(&watch.line);
    if (err == AW_ERR_INTERRUPTED)
        aw_fail(diag, err,
                "interrupted; what is done is kept in %s, and the same command goes on "
                "from there",
                ask->config.work);
    err = err ? err : report_tell(run, ask, report, list, diag);
    *ret = (struct outcome){.err = err,
                            .figures = report->figures,
                            .met = goals_of(report, AW_STUDY_REPORT_MET),
                            .missed = goals_of(report, AW_STUDY_REPORT_MISSED),
                            .seconds = ask->seconds};
    snprintf(ret->html, sizeof ret->html, "%s", ask->html);
    aw_study_report_free(report);
    return err;
}

/* --- all of them ------------------------------------------------------------------------------ */

static enum aw_err summary_print(const struct aw_call *run, const struct outcome *outcome,
                                 uint32_t count, struct aw_diag *diag)
{
    static const char *const heads[] = {"EXPERIMENT", "SHOWS", ">FIGURES", ">GOALS",
                                        ">MET",       ">TIME", "PAGE",     NULL};
    static const char *const heads_markdown[] = {"experiment", "shows", ">figures", ">goals",
                                                 ">met",       ">time", "page",     NULL};
    const bool markdown = aw_args_given(run->args, "markdown");
    struct aw_table table;
    char took[AW__FIGURE_MAX];
    aw_table_init(&table, markdown ? heads_markdown : heads);
    for (uint32_t i = 0; i < count; i++) {
        const struct outcome *one = &outcome[i];
        aw_table_add(&table, "%s", aw_experiments[i].name);
        aw_table_add(&table, "%s", aw_experiments[i].shows);
        if (one->err) {
            aw_table_add(&table, "-");
            aw_table_add(&table, "-");
            aw_table_add(&table, "failed");
        } else {
            aw_table_add(&table, "%" PRIu32, one->figures);
            aw_table_add(&table, "%" PRIu32, one->met + one->missed);
            aw_table_add(&table, "%" PRIu32, one->met);
        }
        aw_table_add(&table, "%s", aw_seconds_format(one->seconds, took, sizeof took));
        aw_table_add(&table, markdown && !one->err ? "[%s](%s)" : "%s", one->err ? "-" : one->html,
                     one->html);
    }
    fputs(markdown ? "\n## All of them\n\n" : "\nAll of them\n\n", stdout);
    return markdown ? aw_table_print_markdown(&table, stdout, diag)
                    : aw_table_print(&table, stdout, run->color_out, diag);
}

/* One that fails does not keep the others from being made; an interruption does. */
static enum aw_err all_run(const struct aw_call *run, struct aw__experiment *ask,
                           struct aw_diag *diag)
{
    struct outcome outcome[NAMES_MAX] = {0};
    uint32_t count = 0, failed = 0, missed = 0;
    enum aw_err err = AW_OK, first = AW_OK;
    for (count = 0; !err && count < NAMES_MAX && aw_experiments[count].run; count++) {
        *ask = (struct aw__experiment){.entry = &aw_experiments[count], .all = true};
        err = ask_take(run, ask, diag); /* now, and not after hours */
    }
    json_t *list = run->json && !err ? json_array() : NULL;
    for (uint32_t i = 0; !err && i < count; i++) {
        struct aw_diag why = {0};
        *ask = (struct aw__experiment){.entry = &aw_experiments[i], .all = true};
        err = ask_take(run, ask, diag);
        if (err)
            break;
        outcome[i].err = ask_run(run, ask, list, &outcome[i], &why);
        if (outcome[i].err == AW_ERR_INTERRUPTED) {
            err = outcome[i].err;
            if (diag)
                *diag = why;
        } else if (outcome[i].err) {
            fprintf(stderr, "aware: %s: %s\n", ask->entry->name, why.text);
            first = first ? first : outcome[i].err;
            failed++;
        }
        missed += outcome[i].missed;
    }
    if (!err && run->json)
        err = aw_json_print(json_pack("{s:O}", "experiments", list), diag);
    else if (!err)
        err = summary_print(run, outcome, count, diag);
    json_decref(list);
    if (err)
        return err;
    if (failed)
        return aw_fail(diag, first, "%" PRIu32 " of %" PRIu32 " experiments failed", failed, count);
    return aw_args_given(run->args, "check") ? goals_check(missed, diag) : AW_OK;
}

static enum aw_err experiment_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *name = run->args->positional[0];
    if (aw_args_given(run->args, "list"))
        return list_print(run, diag);
    if (!name)
        return aw_fail(diag, AW_ERR_USAGE,
                       "which experiment? 'aware experiment --list' shows them");
    struct aw__experiment *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    if (!ask)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    const bool all = !strcmp(name, AW__EXPERIMENT_ALL);
    struct outcome outcome;
    enum aw_err err = all ? AW_OK : entry_find(name, &ask->entry, diag);
    if (!err && !all)
        err = ask_take(run, ask, diag);
    /* pieces that are under way are finished first, which takes seconds: that is said at once */
    if (!err)
        aw_stop_catch(&(struct aw_stop_config){
            .twice = true,
            .first_words =
                "\naware: ending with the pieces that are under way; once more ends at once\n",
        });
    if (!err && all)
        err = all_run(run, ask, diag);
    else if (!err && !(err = ask_run(run, ask, NULL, &outcome, diag)) &&
             aw_args_given(run->args, "check"))
        err = goals_check(outcome.missed, diag);
    aw_alloc_free(NULL, ask);
    return err;
}

/* --- the verb --------------------------------------------------------------------------------- */

static const struct aw_option experiment_options[] = {
    AW_OPTION(CHOICE, "scale", 0, "SCALE", "quick",
              "quick: minutes, to see the shape; full: what is recorded, up to two hours",
              .choices = scale_names),
    AW_OPTION(CHOICE, "preset", 0, "NAME", "default",
              "paper: the paper's state, actions and encoder", .choices = preset_names),
    AW_OPTION(SETTING, "set", 0, "env.KEY=VALUE", NULL,
              "change an option of the environment that everybody learns and is judged in ('aware "
              "env describe autoscale-v0')",
              .repeated = true),
    AW_OPTION(DIR, "work", 'w', "DIR", NULL,
              "where finished pieces are kept, and taken from (default: experiment-NAME, in "
              "$XDG_CACHE_HOME/aware where that is set)"),
    AW_OPTION(FILE, "report", 0, "FILE", NULL,
              "the page, with FILE.json beside it (default: NAME.html beside the work folder)"),
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "a day's trace with many functions, of which each application gets its own, or a "
              "pattern (default: " TRACE " in AWARE_DATA_DIR)"),
    AW_OPTION(FILE, "model", 0, "FILE", NULL,
              "a pretrained model; not given: one is pretrained first, as a piece"),
    AW_NUMBER("apps", 'a', "N", "0", 0, APPS_MAX,
              "applications to report on; 0: what the scale says"),
    AW_NUMBER("seeds", 0, "N", "0", 0, SEEDS_MAX,
              "runs with different chance; 0: what the scale says"),
    AW_OPTION_SEED("1", "the first of them"),
    AW_NUMBER("pool", 0, "SEED", "1", 0, INT64_MAX, "seed of the pool of applications"),
    AW_OPTION(
        TEXT, "split", 0, "LEARN:REST", NULL,
        "of the pool's 1000 applications, those that may be learned from, the last 40 of which "
        "choose settings, and those that are reported on (default: 800:200; FLASH has 200:800)"),
    AW_OPTION_THREADS("0", "threads; 0: one per processor; results do not depend on it"),
    AW_FLAG("markdown", 0, "tables as the pages of results have them"),
    AW_FLAG("check", 0, "exit with status 1 where a goal is missed"),
    AW_FLAG("list", 0, "list the experiments, and do nothing"),
    AW_FLAG("quiet", 'q', "no lines while it runs"),
    {.name = NULL},
};
/* None has a table here: options of an environment are its own to tell. */
static const struct aw_conf_field *const experiment_settings[] = {NULL};
static const struct aw_positional experiment_positionals[] = {
    {.name = "NAME",
     .kind = AW_ARG_EXPERIMENT,
     .help = "an experiment; 'aware experiment --list' shows them; all: every one, one after the "
             "other",
     .optional = true},
    {.name = NULL},
};
static const struct aw_example experiment_examples[] = {
    {"aware experiment --list", "what there is, and which table or figure each one shows"},
    {"aware experiment adaptation", "a quick look at one of them"},
    {"aware experiment adaptation --scale full --report fig8.html", "as it is recorded"},
    {"aware experiment adaptation --preset paper --set env.deadband=0",
     "with the paper's mapping, in which every change of size counts"},
    {"aware experiment all --scale full --model models/default.safetensors --check",
     "every one of them, with one table at the end; hours"},
    {"aware experiment adaptation --load diurnal:length=24h --apps 4 --seeds 1",
     "without any trace"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_experiment = {
    .name = "experiment",
    .summary = "Make a table or figure of the papers again, beside the published figures",
    .text = "Prints the figures of an experiment with 95 % confidence intervals beside what was "
            "published and what is to be reached, and writes them as a page with plots and as "
            "JSON. Applications and loads that are reported on are never learned from.\n\n"
            "An experiment is made of pieces, which are kept as they finish. After an interruption "
            "the same command takes them from there and goes on; pieces of another version of the "
            "program or of other settings are not taken.\n\n"
            "With the name all, every experiment is made with the same options, one after the "
            "other and in one work folder; each goes without what it does not know of. One that "
            "fails or misses a goal does not keep the others from being made. A table at the end "
            "has them all, with their pages.",
    .options = experiment_options,
    .settings = experiment_settings,
    .positionals = experiment_positionals,
    .examples = experiment_examples,
    .json = true,
    .run = experiment_run,
};
