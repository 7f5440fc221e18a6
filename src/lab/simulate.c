/* simulate.c - the verb `simulate`: controllers on the simulated cluster, compared. */
#include "lab/simulate.h"

#include "base/threads.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "lab/report.h"

#include <inttypes.h>
#include <stdio.h>

/* One application under several policies, side by side. */
struct runs {
    const struct aw__simulate *ask;
    struct aw__live *live;
    struct aw__report *report; /* NULL: none was asked for */
    struct aw_simulate_summary summary[AW_SIMULATE_POLICIES_MAX];
    enum aw_err err[AW_SIMULATE_POLICIES_MAX];
    struct aw_diag diag[AW_SIMULATE_POLICIES_MAX];
};

struct one {
    struct runs *runs;
    uint32_t policy;
};

static bool step_take(void *ctx, const struct aw_simulate_step *step)
{
    const struct one *one = ctx;
    aw__live_step(one->runs->live, one->policy, step);
    if (one->runs->report)
        aw__report_add(one->runs->report, one->policy, step);
    return true;
}

static void policy_run(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    struct runs *runs = ctx;
    const struct aw__simulate *ask = runs->ask;
    struct one one = {runs, index};
    struct aw_simulate_policy policy = ask->policy[index];
    struct aw_fallback_task task = aw_simulate_task(&ask->config.settings, &ask->cases[0]);
    bool kept;
    aw__live_tune(runs->live, index);
    enum aw_err err = aw_simulate_tune(&ask->config, &ask->cases[0], 0, &policy, &task, NULL, &kept,
                                       &runs->diag[index]);
    if (!err)
        err = aw_simulate_run(&ask->config, &ask->cases[0], 0, &policy, &task, step_take, &one,
                              NULL, &runs->summary[index], NULL, &runs->diag[index]);
    runs->err[index] = err;
    aw__live_done(runs->live, index);
}

static enum aw_err run_one(const struct aw_call *run, const struct aw__simulate *ask,
                           struct aw__live *live, struct runs *runs, struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "report");
    struct aw_threads pool;
    enum aw_err err = AW_OK;
    *runs = (struct runs){.ask = ask, .live = live};
    if (path && (err = aw__report_new(ask, &runs->report, diag)))
        return err;
    const uint32_t threads =
        ask->config.thread_count < ask->policy_count ? ask->config.thread_count : ask->policy_count;
    if ((err = aw_threads_init(&pool, threads, NULL))) {
        err = aw_fail(diag, err, "no pool of %" PRIu32 " threads", threads);
        goto out;
    }
    aw_threads_parallel_for(&pool, ask->policy_count, 1, policy_run, runs);
    aw_threads_deinit(&pool);
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        if (runs->err[i]) {
            if (diag)
                *diag = runs->diag[i];
            err = runs->err[i];
            goto out;
        }
    }
    if (path)
        err = aw__report_write(runs->report, runs->summary, path, diag);
out:
    aw__report_free(runs->report);
    runs->report = NULL;
    return err;
}

static bool count_take(void *ctx, uint32_t done, uint32_t total)
{
    aw__live_count(ctx, done, total);
    return true;
}

/* What the others are compared with: what the paper compares with, or else the first. */
static uint32_t baseline_of(const struct aw__simulate *ask)
{
    static const char *const wanted[] = {"hpa+vpa-mem", "hpa", "hpa+vpa"};
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        for (uint32_t i = 0; i < ask->policy_count; i++) {
            if (!strcmp(ask->policy[i].name, wanted[k]))
                return i;
        }
    }
    return 0;
}

/* Many applications: the runner's own table. */
static enum aw_err run_many(const struct aw_call *run, const struct aw__simulate *ask,
                            struct aw__live **live, struct aw_diag *diag)
{
    const uint32_t pairs = ask->case_count * ask->policy_count, baseline = baseline_of(ask);
    struct aw_simulate_summary *summaries = aw_alloc_new(NULL, pairs, sizeof *summaries);
    struct aw_simulate_row *rows = aw_alloc_new(NULL, ask->policy_count, sizeof *rows);
    enum aw_err err = AW_OK;
    if (!summaries || !rows)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " runs", pairs);
    if (!err)
        err = aw_simulate_compare(&ask->config, ask->cases, ask->case_count, ask->policy,
                                  ask->policy_count, count_take, *live, NULL, summaries, diag);
    if (!err)
        err = aw_simulate_rows(summaries, ask->case_count, ask->policy_count, baseline,
                               ask->config.settings.slo_budget, ask->config.seed, NULL, rows, diag);
    aw__live_free(*live);
    *live = NULL;
    if (!err)
        err = aw__simulate_print_rows(run, ask, summaries, rows, baseline, diag);
    aw_alloc_free(NULL, summaries);
    aw_alloc_free(NULL, rows);
    return err;
}

static enum aw_err settings_print(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"SETTING", ">DEFAULT", "MEANING", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (const struct aw_conf_field *const *t = aw__simulate_tables; *t; t++) {
        for (const struct aw_conf_field *field = *t; field->key; field++) {
            if (!strcmp(field->key, "kind") || !strcmp(field->key, "policy") ||
                !strcmp(field->key, "goal"))
                continue;
            aw_table_add(&table, "%s", field->key);
            aw_table_add(&table, "%s", field->initial);
            aw_table_add(&table, "%s", field->help);
        }
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static enum aw_err simulate_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__live *live = NULL;
    struct runs *runs = NULL;
    if (aw_args_given(run->args, "settings"))
        return settings_print(run, diag);
    struct aw__simulate *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    if (!ask)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a simulation");
    enum aw_err err = aw__simulate_ask(run, ask, diag);
    if (err)
        goto out;
    if (ask->case_count > 1 && aw_args_given(run->args, "report")) {
        err = aw_fail(diag, AW_ERR_USAGE, "--report shows one application, not --apps %" PRIu32,
                      ask->case_count);
        goto out;
    }
    if ((err = aw__live_new(ask, stderr, aw_args_given(run->args, "quiet"), &live))) {
        err = aw_fail(diag, err, "no memory for a simulation");
        goto out;
    }
    if (ask->case_count > 1) {
        err = run_many(run, ask, &live, diag);
        goto out;
    }
    if (!(runs = aw_alloc_new(NULL, 1, sizeof *runs))) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a simulation");
        goto out;
    }
    err = run_one(run, ask, live, runs, diag);
    aw__live_free(live);
    live = NULL;
    if (!err)
        err = aw__simulate_print(run, ask, runs->summary, diag);
out:
    aw__live_free(live);
    aw_alloc_free(NULL, runs);
    aw__simulate_deinit(ask);
    aw_alloc_free(NULL, ask);
    return err;
}

static const char *const models[] = {"fast", "reference", NULL};
static const struct aw_option simulate_options[] = {
    AW_OPTION(FILE, "file", 'f', "FILE", NULL,
              "YAML with what is asked: app, load, tune_load, policy or compare, model, episodes, "
              "seed, cores, scenario, settings, workload (segments and apps); options go first"),
    AW_OPTION(FILE, "app", 'a', "APP", NULL,
              "application INDEX of the pool of SEED as SEED:INDEX, or a file as 'aware apps' "
              "writes it, FILE or FILE:NAME (default 1:0)"),
    AW_OPTION(
        LOAD, "load", 'l', "LOAD", NULL,
        "PATTERN or trace FILE, with :key=value,... (default diurnal); 'aware help load show'"),
    AW_OPTION(LOAD, "tune-load", 0, "LOAD", NULL,
              "what policies are tuned on; if not given, the pattern with another seed, other "
              "functions of a trace, or the first half of a trace whose second half is reported"),
    AW_OPTION(TEXT, "cores", 0, "N", NULL,
              "scale a load that names no rate so that it keeps so many cores busy on average, and "
              "at most 8 times as many at its peak; 0: as written (default 2)"),
    AW_OPTION(POLICY, "policy", 'p', "NAME", NULL,
              "who decides: static, hpa, vpa, hpa+vpa, hpa+vpa-mem, aimd, constant, "
              "constant-reward, oracle, oracle-cost, aware (a new workload from minute 15 on, as "
              "'aware run' has it, with an untuned hpa+vpa-mem) or aware:day2 (after a day of the "
              "load that others are tuned on) (default hpa+vpa-mem)"),
    AW_OPTION(POLICY, "compare", 'c', "NAMES", NULL,
              "several policies on the same load and chance: hpa,constant,aware:day2; or all, "
              "which are the rules and oracles"),
    AW_FLAG("as-given", 0,
            "do not tune: run hpa and constant with their defaults; so does a --set of theirs"),
    AW_NUMBER("apps", 0, "N", "1", 1, AW_SIMULATE_CASES_MAX,
              "so many applications from --app on, each under its own load: one row per policy"),
    AW_OPTION(CHOICE, "model", 'm', "MODEL", NULL,
              "fast, or reference, which follows every request (default fast)", .choices = models),
    AW_NUMBER("episodes", 'n', "N", NULL, 1, AW_SIMULATE_EPISODES_MAX,
              "episodes of 100 steps (default 10)"),
    AW_OPTION_SEED(NULL, "chance of loads and runs (default 1)"),
    AW_OPTION(TEXT, "scenario", 0, "NAME[@WHEN]", NULL,
              "what disturbs it: a name is on in the middle third, file-size@30m+10m when it says"),
    AW_OPTION(TEXT, "fault", 0, "KIND@WHEN+HOWLONG,...", NULL,
              "what breaks: node[:NUMBER], metrics or api, as in node@20m+5m,metrics@1h+3m"),
    AW_OPTION(SETTING, "set", 0, "KEY=VALUE", NULL, "change a setting; --settings lists them",
              .repeated = true),
    AW_FLAG("settings", 0, "list the settings and their defaults"),
    AW_OPTION(FILE, "report", 'r', "FILE", NULL,
              "write a page with plots that needs no other file"),
    AW_OPTION_THREADS("0", "threads; 0: one per processor; results do not depend on it"),
    AW_FLAG("quiet", 'q', "no lines while it runs"),
    {.name = NULL},
};
static const struct aw_example simulate_examples[] = {
    {"aware simulate --app 1:3 --policy hpa", "one controller on one application"},
    {"aware simulate --compare hpa,hpa+vpa-mem,constant,oracle-cost --report report.html",
     "several, and a page with plots"},
    {"aware simulate --app 1:3 --compare hpa,constant,aware,aware:day2",
     "a new workload under AWARE on its first and on its second day, beside tuned rules"},
    {"aware simulate --compare hpa,hpa+vpa-mem --fault node@20m+5m,metrics@40m+10m",
     "a node is lost, later the metrics are"},
    {"aware simulate --load spikes:peak=6 --scenario neighbour-cpu --compare hpa,aimd",
     "spikes, with a noisy neighbour in between"},
    {"aware simulate --set slo_factor=1.2 --set replicas_max=10 --model reference",
     "another SLO and fewer replicas, every request followed"},
    {"aware simulate --apps 100 --compare all --load trace.csv --episodes 28",
     "the table of all controllers"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_simulate = {
    .name = "simulate",
    .summary = "Run autoscalers on the simulated cluster and compare what they cost",
    .text = "An application from a pool runs under a load, and a policy decides every 15 seconds "
            "how many replicas of which size it gets. Told are the paper's reward, SLO violations, "
            "cost, utilisation, latency and what was reserved. HPA targets, sizes and the constant "
            "are tuned first, on load that is not reported.\n\n"
            "Policies: static changes nothing; hpa sets replicas by CPU; vpa sets size by use; "
            "hpa+vpa does both on everything, hpa+vpa-mem leaves CPU to the HPA; aimd follows the "
            "SLO; constant takes one anchored action, tuned for cost within the SLO budget "
            "(constant-reward: for the reward). oracle and oracle-cost know the load to come: "
            "ceilings for the reward, and for cost within the SLO budget.",
    .options = simulate_options,
    .examples = simulate_examples,
    .json = true,
    .csv = true,
    .settings = aw__simulate_tables,
    .run = simulate_run,
};
