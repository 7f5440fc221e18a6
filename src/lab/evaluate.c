/* evaluate.c - the verb `evaluate`: what AWARE is worth on generated applications. */
#include "lab/evaluate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/verbs.h"
#include "lab/appset.h"
#include "lab/load.h"

#define POOL_STRIDE 100u /* applications of the pool that share a set of functions of the trace */
#define MEAN_CORES  2.0
#define APPS        "200-239"
#define APPS_DAY    "600-639"
/* Whatever is taught or chosen is so on applications of pool 1 below this one, and on functions of
 * odd rank. */
#define POOL_TAUGHT    1u
#define DAY_TEST_FIRST 600u

static const char *const what_names[] = {"bootstrap", "converged", "disturbances",
                                         "estimates", "day",       NULL};
static const char *const preset_names[] = {"default", "paper", NULL};

/* --- what is asked ---------------------------------------------------------------------------- */

/* "200-239" or "7". */
static enum aw_err apps_range(const char *text, uint32_t *ret_first, uint32_t *ret_count,
                              struct aw_diag *diag)
{
    char low[32];
    uint64_t first = 0, last = 0;
    const char *dash = strchr(text, '-');
    const size_t len = dash ? (size_t)(dash - text) : strlen(text);
    snprintf(low, sizeof low, "%.*s", (int)(len < 30 ? len : 30), text);
    if (aw_text_parse_u64(low, &first) || aw_text_parse_u64(dash ? dash + 1 : low, &last) ||
        last < first || last - first >= AW_EVALUATE_APPS_MAX || last >= UINT32_MAX)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--apps",
                          "expected FIRST-LAST with at most %u applications, found %s",
                          AW_EVALUATE_APPS_MAX, AW_QUOTE(text));
    *ret_first = (uint32_t)first;
    *ret_count = (uint32_t)(last - first + 1);
    return AW_OK;
}

/* Which of the busiest functions an application has: odd ranks for one hundred of the pool, even
 * ones for the next, so that what is tuned on 100-199 and reported on 200-299 shares no load. */
static uint32_t function_of(uint32_t index)
{
    return 2 * (index % POOL_STRIDE) + (index / POOL_STRIDE % 2 ? 1 : 2);
}

/* For a day the parity of a rank is a promise: nobody chooses anything on a load that is reported
 * on. Traces of a few series are lived by all. */
static enum aw_err day_apps_make(const struct aw__evaluate *ask, const char *load,
                                 struct aw_diag *diag)
{
    struct aw_appset set;
    enum aw_err err = aw_appset_open(&set, load, diag);
    for (uint32_t i = 0; !err && i < ask->count; i++) {
        struct aw_evaluate_app *app = &ask->apps[i];
        app->index = ask->first + i;
        aw_app_generate(ask->pool, app->index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT,
                        &app->app);
        const bool odd = ask->pool == POOL_TAUGHT && app->index < DAY_TEST_FIRST;
        err = aw_appset_load(&set, app->index, odd, NULL, &app->day, diag);
        if (!err)
            aw_load_scale_cores(&app->day, &app->app, MEAN_CORES);
    }
    aw_appset_close(&set);
    return err;
}

static enum aw_err app_make(const struct aw__evaluate *ask, const char *load, uint32_t i,
                            struct aw_diag *diag)
{
    struct aw_evaluate_app *app = &ask->apps[i];
    char own[AW_TEXT_MAX + 32];
    app->index = ask->first + i;
    aw_app_generate(ask->pool, app->index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT,
                    &app->app);
    snprintf(own, sizeof own, "%s", load);
    if (!aw__load_is_pattern(load))
        snprintf(own, sizeof own, "%s%stop=%" PRIu32, load,
                 strrchr(load, ':') && strchr(strrchr(load, ':'), '=') ? "," : ":",
                 function_of(app->index));
    struct aw_trace_report report;
    enum aw_err err = aw_load_parse_report(own, app->index, NULL, &app->day, &report, diag);
    if (!err)
        aw_load_scale_cores(&app->day, &app->app, MEAN_CORES);
    return err;
}

/* The command that makes the same table, wherever the trace lies. */
static void command_write(struct aw__evaluate *ask, const struct aw_args *args)
{
    struct aw_text text;
    aw_text_init(&text, ask->command, sizeof ask->command);
    aw_text_add(&text, "aware evaluate %s", what_names[ask->what]);
    const struct aw_option *option;
    for (uint32_t i = 0; (option = aw_verb_option(args->verb, i)); i++) {
        static const char *const kept[] = {
            "apps",   "pool", "seeds",      "seed",  "learn",    "after",  "agent", "preset",
            "tuning", "each", "no-ceiling", "model", "fallback", "budget", "drift", NULL};
        for (const char *const *name = kept; *name; name++) {
            if (strcmp(option->name, *name) != 0 || !args->value[i].given)
                continue;
            aw_text_add(&text, " --%s", option->name);
            if (option->kind != AW_ARG_FLAG)
                aw_text_add(&text, " %s", args->value[i].text);
        }
    }
    if (aw_args_given(args, "load"))
        aw_text_add(&text, " --load %s", ask->load);
}

static const char *trace_name(void)
{
    return strrchr(AW_APPSET_TRACE, '/') + 1;
}

static enum aw_err settings_take(struct aw__evaluate *ask, const struct aw_args *args,
                                 struct aw_diag *diag)
{
    struct aw_evaluate_config *config = &ask->config;
    const uint64_t threads = aw_args_number(args, "threads");
    aw_evaluate_config_init(config);
    config->simulate.seed = aw_args_number(args, "seed");
    config->simulate.tuning_budget = (uint32_t)aw_args_number(args, "tuning");
    config->simulate.thread_count = threads ? (uint32_t)threads : aw_threads_cpu_count();
    config->seeds = (uint32_t)aw_args_number(args, "seeds");
    config->learn_halves = (uint32_t)aw_args_number(args, "learn");
    config->after_halves = (uint32_t)aw_args_number(args, "after");
    config->apps_each = (uint32_t)aw_args_number(args, "each");
    config->ceiling = !aw_args_given(args, "no-ceiling");
    config->cores = MEAN_CORES;
    config->leave_out = ask->pool == POOL_TAUGHT; /* what the library was taught on */
    config->pilot.agent =
        strcmp(aw_args_text(args, "agent"), "network") ? AW_POLICY_CAPACITY : AW_POLICY_NETWORK;
    ask->paper = !strcmp(aw_args_text(args, "preset"), "paper");
    if (ask->paper)
        aw_evaluate_config_paper(config);
    config->fallback = aw_args_text(args, "fallback");
    config->foreign = aw_args_given(args, "load") && strcmp(ask->load, trace_name()) != 0;
    char budget[64];
    snprintf(budget, sizeof budget, "slo_budget=%.40s", aw_args_text(args, "budget"));
    return aw_conf_set_pair(aw_simulate_fields, &config->simulate.settings, budget, diag);
}

/* Whoever asks for a model wants to measure it: one that cannot be used ends the evaluation. The
 * shipped one, for which nobody asked, is left out then as a run leaves it out. */
static enum aw_err model_take(const struct aw_call *run, struct aw__evaluate *ask,
                              struct aw_diag *diag)
{
    struct aw_pilot_config *pilot = &ask->config.pilot;
    struct aw_diag why = {0};
    enum aw_err err = aw_models_open(NULL, &ask->shelf, diag);
    if (err)
        return err;
    err = aw_pilot_model_take(pilot, ask->shelf, aw_args_text(run->args, "model"), &why);
    if (!strcmp(what_names[ask->what], "estimates"))
        pilot->library = NULL; /* what others have lived is not estimated */
    if (!err)
        return AW_OK;
    if (aw_args_given(run->args, "model")) {
        *diag = why;
        return err;
    }
    aw_log_info(run->log, "the shipped model is not used", AW_LOG_STR("why", why.text));
    return AW_OK;
}

static enum aw_err ask_take(const struct aw_call *run, struct aw__evaluate *ask,
                            struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const char *data = getenv("AWARE_DATA_DIR"), *load = aw_args_text(args, "load");
    char trace[AW_TEXT_MAX];
    while (strcmp(what_names[ask->what], args->positional[0]) != 0)
        ask->what++;
    const bool markdown = aw_args_given(args, "markdown");
    const bool csv = !strcmp(aw_args_text(args, "output"), "csv");
    if (markdown && (csv || run->json))
        return aw_fail(diag, AW_ERR_USAGE, "--markdown and --output exclude each other");
    ask->format = run->json  ? AW__EVALUATE_JSON
                  : csv      ? AW__EVALUATE_CSV
                  : markdown ? AW__EVALUATE_MARKDOWN
                             : AW__EVALUATE_TEXT;
    ask->pool = aw_args_number(args, "pool");
    if (!load) {
        if (!data)
            return aw_fail(diag, AW_ERR_USAGE,
                           "no load: say --load, or set AWARE_DATA_DIR to where " AW_APPSET_TRACE
                           " is");
        snprintf(trace, sizeof trace, "%s/" AW_APPSET_TRACE, data);
        load = trace;
    }
    const char *slash = strrchr(load, '/');
    snprintf(ask->load, sizeof ask->load, "%.500s", slash ? slash + 1 : load);
    command_write(ask, args);
    const bool day = ask->what == AW__EVALUATE_DAY;
    const char *apps = aw_args_text(args, "apps");
    enum aw_err err = settings_take(ask, args, diag);
    err = err ? err : model_take(run, ask, diag);
    if (!err && aw_args_given(args, "baselines") && !day)
        err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--baselines",
                         "belongs to 'aware evaluate day': other tables tune otherwise");
    if (!err && aw_args_given(args, "baselines"))
        err = aw__evaluate_baselines(ask, aw_args_text(args, "baselines"), diag);
    err = err ? err
              : apps_range(apps  ? apps
                           : day ? APPS_DAY
                                 : APPS,
                           &ask->first, &ask->count, diag);
    if (err)
        return err;
    if (!(ask->apps = aw_alloc_new(NULL, ask->count, sizeof *ask->apps)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " applications", ask->count);
    if (day)
        return day_apps_make(ask, load, diag);
    for (uint32_t i = 0; !err && i < ask->count; i++)
        err = app_make(ask, load, i, diag);
    return err;
}

/* --- while it runs ---------------------------------------------------------------------------- */

struct watch {
    struct aw_status_line line;
    int64_t begin_us;
};

static bool watch_take(void *ctx, uint32_t done, uint32_t total)
{
    struct watch *watch = ctx;
    char took[32], left[32];
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    const double seconds = (double)(now_us - watch->begin_us) * 1e-6;
    aw_seconds_format(seconds, took, sizeof took);
    aw_seconds_format(seconds / done * (total - done), left, sizeof left);
    aw_status_line_draw(&watch->line, true, now_us,
                        "%3u %%  %" PRIu32 " of %" PRIu32 " runs, %s, %s left",
                        (unsigned)((uint64_t)done * 100 / total), done, total, took, left);
    if (done == total)
        aw_status_line_clear(&watch->line);
    if (aw_status_line_row(&watch->line, done, total))
        fprintf(stderr, "%" PRIu32 " of %" PRIu32 " runs, %s, %s left\n", done, total, took, left);
    return true;
}

/* --- the tables ------------------------------------------------------------------------------- */

static uint32_t missed_of(const struct aw_evaluate_goal *goal, uint32_t count)
{
    uint32_t missed = 0;
    for (uint32_t i = 0; i < count; i++)
        missed += !aw_evaluate_met(&goal[i]);
    return missed;
}

static double since(int64_t begin_us)
{
    return (double)(aw_clock_monotonic_us(NULL) - begin_us) * 1e-6;
}

static enum aw_err bootstrap(const struct aw_call *run, struct aw__evaluate *ask,
                             struct watch *watch, uint32_t *ret_missed, struct aw_diag *diag)
{
    struct aw_evaluate_bootstrap_sum sum;
    struct aw_evaluate_bootstrap *rows = aw_alloc_new(NULL, ask->count, sizeof *rows);
    if (!rows)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " rows", ask->count);
    enum aw_err err = aw_evaluate_bootstrap(&ask->config, ask->apps, ask->count, watch_take, watch,
                                            NULL, rows, diag);
    if (!err) {
        aw_evaluate_bootstrap_sum(&ask->config, rows, ask->count, &sum);
        *ret_missed = missed_of(sum.goal, sum.goal_count);
        ask->seconds = since(watch->begin_us);
        err = aw__evaluate_print_bootstrap(run, ask, rows, &sum, diag);
    }
    aw_alloc_free(NULL, rows);
    return err;
}

static enum aw_err converged(const struct aw_call *run, struct aw__evaluate *ask,
                             struct watch *watch, uint32_t *ret_missed, struct aw_diag *diag)
{
    struct aw_evaluate_converged_sum sum;
    struct aw_evaluate_converged *rows = aw_alloc_new(NULL, ask->count, sizeof *rows);
    if (!rows)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " rows", ask->count);
    enum aw_err err = aw_evaluate_converged(&ask->config, ask->apps, ask->count, watch_take, watch,
                                            NULL, rows, diag);
    err = err ? err : aw_evaluate_converged_sum(&ask->config, rows, ask->count, NULL, &sum, diag);
    if (!err) {
        *ret_missed = missed_of(sum.goal, sum.goal_count);
        ask->seconds = since(watch->begin_us);
        err = aw__evaluate_print_converged(run, ask, rows, &sum, diag);
    }
    aw_alloc_free(NULL, rows);
    return err;
}

static enum aw_err disturbed(const struct aw_call *run, struct aw__evaluate *ask,
                             struct watch *watch, uint32_t *ret_missed, struct aw_diag *diag)
{
    struct aw_evaluate_disturbed_sum sum;
    const uint32_t count = aw_evaluate_disturbed_count(&ask->config, ask->apps, ask->count);
    struct aw_evaluate_disturbed *rows = aw_alloc_new(NULL, count, sizeof *rows);
    if (!rows)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " rows", count);
    enum aw_err err = aw_evaluate_disturbed(&ask->config, ask->apps, ask->count, watch_take, watch,
                                            NULL, rows, diag);
    err = err ? err : aw_evaluate_disturbed_sum(&ask->config, rows, count, NULL, &sum, diag);
    if (!err) {
        *ret_missed = missed_of(sum.goal, sum.goal_count);
        ask->seconds = since(watch->begin_us);
        err = aw__evaluate_print_disturbed(run, ask, rows, count, &sum, diag);
    }
    aw_alloc_free(NULL, rows);
    return err;
}

static enum aw_err estimates(const struct aw_call *run, struct aw__evaluate *ask,
                             struct watch *watch, uint32_t *ret_missed, struct aw_diag *diag)
{
    const uint32_t most = aw_evaluate_estimates_max(&ask->config, ask->count);
    struct aw_evaluate_estimate *rows = aw_alloc_new(NULL, most, sizeof *rows);
    uint32_t count = 0;
    struct aw_evaluate_estimates_sum sum;
    if (!rows)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " rows", most);
    enum aw_err err = aw_evaluate_estimates(&ask->config, ask->apps, ask->count, watch_take, watch,
                                            NULL, rows, &count, diag);
    if (!err && count == 0)
        err = aw_fail(diag, AW_ERR_NODATA, "no search came to a policy: the load is too short");
    err = err ? err : aw_evaluate_estimates_sum(rows, count, NULL, &sum, diag);
    if (!err) {
        *ret_missed = missed_of(sum.goal, sum.goal_count);
        ask->seconds = since(watch->begin_us);
        err = aw__evaluate_print_estimates(run, ask, rows, count, &sum, diag);
    }
    aw_alloc_free(NULL, rows);
    return err;
}

static enum aw_err drift(const struct aw_call *run, struct aw__evaluate *ask, struct watch *watch,
                         uint32_t *ret_missed, struct aw_diag *diag)
{
    const char *name = aw_args_text(run->args, "drift");
    uint32_t kind = 0;
    while (kind < AW_EVALUATE_DRIFTS && strcmp(name, aw_evaluate_drift_names[kind]) != 0)
        kind++; /* "all" is none of them */
    const uint32_t count = ask->count * (kind == AW_EVALUATE_DRIFTS ? AW_EVALUATE_DRIFTS : 1);
    struct aw_evaluate_drift_sum sum;
    struct aw_evaluate_drift *rows = aw_alloc_new(NULL, count, sizeof *rows);
    if (!rows)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " rows", count);
    enum aw_err err = aw_evaluate_drift(&ask->config, ask->apps, ask->count, kind, watch_take,
                                        watch, NULL, rows, diag);
    if (!err) {
        aw_evaluate_drift_sum(&ask->config, rows, count, &sum);
        *ret_missed = missed_of(sum.goal, sum.goal_count);
        ask->seconds = since(watch->begin_us);
        err = aw__evaluate_print_drift(run, ask, rows, count, &sum, diag);
    }
    aw_alloc_free(NULL, rows);
    return err;
}

static enum aw_err day(const struct aw_call *run, struct aw__evaluate *ask, struct watch *watch,
                       uint32_t *ret_missed, struct aw_diag *diag)
{
    if (aw_args_given(run->args, "drift"))
        return drift(run, ask, watch, ret_missed, diag);
    struct aw_evaluate_day_sum sum;
    struct aw_evaluate_day *rows = aw_alloc_new(NULL, ask->count, sizeof *rows);
    if (!rows)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " rows", ask->count);
    enum aw_err err =
        aw_evaluate_day(&ask->config, ask->apps, ask->count, watch_take, watch, NULL, rows, diag);
    err = err ? err : aw_evaluate_day_sum(&ask->config, rows, ask->count, NULL, &sum, diag);
    if (!err) {
        *ret_missed = missed_of(sum.goal, sum.goal_count);
        ask->seconds = since(watch->begin_us);
        err = aw__evaluate_print_day(run, ask, rows, &sum, diag);
    }
    aw_alloc_free(NULL, rows);
    return err;
}

static enum aw_err evaluate_run(const struct aw_call *run, struct aw_diag *diag)
{
    uint32_t missed = 0;
    struct aw__evaluate *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    if (!ask)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an evaluation");
    enum aw_err err = ask_take(run, ask, diag);
    struct watch watch = {.begin_us = aw_clock_monotonic_us(NULL)};
    aw_status_line_init(&watch.line, stderr, aw_args_given(run->args, "quiet"));
    if (!err) {
        static enum aw_err (*const tables[])(const struct aw_call *, struct aw__evaluate *,
                                             struct watch *, uint32_t *, struct aw_diag *) = {
            bootstrap, converged, disturbed, estimates, day};
        err = tables[ask->what](run, ask, &watch, &missed, diag);
    }
    if (!err && missed && aw_args_given(run->args, "check"))
        err = aw_fail(diag, AW_ERR_CHECK, "%" PRIu32 " goals are missed", missed);
    aw_evaluate_apps_deinit(ask->apps, ask->apps ? ask->count : 0);
    aw_model_shelf_free(ask->shelf);
    aw_alloc_free(NULL, ask->apps);
    aw_alloc_free(NULL, ask);
    return err;
}

/* --- the verb --------------------------------------------------------------------------------- */

static const char *const drift_choices[] = {
#define X(id, name, text) name,
    AW_EVALUATE_DRIFT_MAP(X)
#undef X
        "all",
    NULL};
static const char *const policies[] = {"formula", "network", NULL};

static const struct aw_option evaluate_options[] = {
    AW_OPTION(TEXT, "apps", 'a', "FIRST-LAST", NULL,
              "applications of the pool (default: " APPS "; day: " APPS_DAY
              "); settings were chosen "
              "on 100-129, and what is taught is taught below 600: those prove nothing"),
    AW_NUMBER("pool", 0, "SEED", "1", 0, INT64_MAX, "seed of the pool of applications"),
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "a day's trace with many functions, of which each application gets its own, or a "
              "pattern (default: " AW_APPSET_TRACE " in AWARE_DATA_DIR)"),
    AW_NUMBER("seeds", 0, "N", "3", 1, AW_EVALUATE_SEEDS_MAX,
              "runs of each application, with different chance"),
    AW_OPTION_SEED("1", "the first of them"),
    AW_NUMBER("learn", 0, "N", "4", 1, AW_EVALUATE_HALVES_MAX / 2,
              "how often the first half of the day is lived through"),
    AW_NUMBER("after", 0, "N", "4", 2, AW_EVALUATE_HALVES_MAX / 2,
              "disturbances: second halves of the day after it came; the last one is compared"),
    AW_NUMBER("each", 0, "N", "5", 1, AW_EVALUATE_APPS_MAX,
              "disturbances: applications of one scenario, of those that it affects"),
    AW_OPTION(CHOICE, "agent", 0, "KIND", "formula", "what learns: formula or network",
              .choices = policies),
    AW_OPTION(TEXT, "model", 0, "FILE", "shipped",
              "what learning begins at: a model of 'aware pretrain', shipped for the one that "
              "comes with this program, or none"),
    AW_OPTION(CHOICE, "preset", 0, "NAME", "default",
              "paper: the paper's reward as objective, its state and actions, a network, HPA+VPA",
              .choices = preset_names),
    AW_NUMBER("tuning", 0, "N", "150", 1, 100000, "evaluations of a baseline's tuning, at most"),
    AW_OPTION(CHOICE, "fallback", 0, "NAME", "hpa+vpa-mem",
              "day: what acts until a policy may, as it is given, untuned",
              .choices = aw_fallback_names),
    AW_OPTION(CHOICE, "drift", 0, "KIND", NULL,
              "day: the world changes at noon for good; who learns again, beside one that does not "
              "and one that has known nothing else",
              .choices = drift_choices),
    AW_OPTION(TEXT, "baselines", 0, "FOLDER", NULL,
              "day: where tuned baselines are kept, so that they need not be tuned again beside "
              "another policy"),
    AW_OPTION(TEXT, "budget", 0, "SHARE", "0.01", "share of steps that may miss the SLO"),
    AW_FLAG("no-ceiling", 0, "converged: without the oracle of cost"),
    AW_OPTION_THREADS("0", "threads; 0: one per processor; results do not depend on it"),
    AW_FLAG("markdown", 0, "tables as the pages of results have them"),
    AW_FLAG("check", 0, "exit with status 1 where a goal is missed"),
    AW_FLAG("quiet", 'q', "no lines while it runs"),
    {.name = NULL},
};
static const struct aw_positional evaluate_positionals[] = {
    {.name = "WHAT",
     .kind = AW_ARG_CHOICE,
     .choices = what_names,
     .help =
         "bootstrap: from the first second to SERVING; converged: on load it has not seen, "
         "beside tuned baselines; disturbances: with retraining and without; estimates: what was "
         "believed of a policy before it acted, beside what it did then; day: one day from the "
         "first "
         "second on with an untuned fallback, beside tuned baselines"},
    {.name = NULL},
};
static const struct aw_example evaluate_examples[] = {
    {"aware evaluate converged --apps 200-239 --check", "is it cheaper at no more violations?"},
    {"aware evaluate bootstrap --agent network", "what learning costs, with a network"},
    {"aware evaluate disturbances --seeds 1 --each 2", "a quick look"},
    {"aware evaluate estimates --seeds 1 --tuning 20 --check",
     "do 80 % intervals hold 70 to 90 % of the truths?"},
    {"aware evaluate day --check",
     "does a policy act at minute 15, within its budget, and cheaply?"},
    {"aware evaluate day --pool 2 --apps 0-39 --fallback hpa+vpa",
     "the same on other applications, from a fallback that spirals"},
    {"aware evaluate day --apps 600-609 --seeds 1 --drift all", "does it notice, and relearn?"},
    {"aware evaluate converged --load diurnal:length=24h --seeds 1 --output json",
     "without any trace"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_evaluate = {
    .name = "evaluate",
    .summary = "Measure what AWARE is worth beside tuned autoscalers",
    .text = "Generated applications run under the busiest functions of a day of Azure Functions, "
            "one each, scaled to two cores of work on average. The first half of the day is there "
            "to learn and to tune on, the second to report. Baselines are tuned per application; "
            "the best of them is chosen on the first half. What happened is taken from the "
            "simulator, not from metrics that a controller saw.",
    .options = evaluate_options,
    .positionals = evaluate_positionals,
    .examples = evaluate_examples,
    .json = true,
    .csv = true,
    .run = evaluate_run,
};
