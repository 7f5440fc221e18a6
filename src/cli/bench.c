/* bench.c - the verb `bench`: runs one benchmark of the table and prints its figures. */
#include "cli/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <aware/cluster.h>

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

/* The benchmarks there are, and the names that complete them, in the same order. */
static const struct {
    const char *name;
    aw__bench_fn *fn;
    bool has_peer; /* --against means something */
} benchmarks[] = {
    {"nn", aw__bench_nn, true},
    {"rl", aw__bench_rl, false},
    {"env", aw__bench_env, false},
    {"sim", aw__bench_sim, false},
    {"ope", aw__bench_ope, false},
    {"control", aw__bench_control, false},
    {"balancer", aw__bench_balancer, false},
    {"rpc", aw__bench_rpc, false},
};
static const char *const benchmark_names[] = {"nn",      "rl",       "env", "sim", "ope",
                                              "control", "balancer", "rpc", NULL};
_Static_assert(sizeof benchmarks / sizeof *benchmarks + 1 ==
                   sizeof benchmark_names / sizeof *benchmark_names,
               "a benchmark has a name");

struct aw__bench_figure *aw__bench_add(struct aw__bench *bench, const char *unit,
                                       const char *name_fmt, ...)
{
    AW_ASSERT(bench->figure_count < AW__BENCH_FIGURES_MAX);
    struct aw__bench_figure *figure = &bench->figure[bench->figure_count++];
    va_list args;
    *figure = (struct aw__bench_figure){.unit = unit, .against = NAN, .ratio = NAN, .goal = NAN};
    va_start(args, name_fmt);
    vsnprintf(figure->name, sizeof figure->name, name_fmt, args);
    va_end(args);
    return figure;
}

bool aw__bench_missed(const struct aw__bench_figure *figure)
{
    if (isnan(figure->goal))
        return false;
    if (!isnan(figure->ratio))
        return !(figure->ratio >= figure->goal);
    return figure->lower_is_better ? !(figure->value <= figure->goal)
                                   : !(figure->value >= figure->goal);
}

static json_t *bench_json(const char *name, const struct aw__bench *bench, uint32_t missed)
{
    json_t *object = json_object(), *list = json_array();
    json_object_set_new(object, "benchmark", json_string(name));
    json_object_set_new(object, "missed", json_integer(missed));
    for (uint32_t i = 0; i < bench->figure_count; i++) {
        const struct aw__bench_figure *figure = &bench->figure[i];
        json_t *entry = json_object();
        json_object_set_new(entry, "name", json_string(figure->name));
        json_object_set_new(entry, "unit", json_string(figure->unit));
        json_object_set_new(entry, "value", aw_json_real(figure->value));
        json_object_set_new(entry, "against", aw_json_real(figure->against));
        json_object_set_new(entry, "ratio", aw_json_real(figure->ratio));
        json_object_set_new(entry, "goal", aw_json_real(figure->goal));
        json_object_set_new(entry, "missed", json_boolean(aw__bench_missed(figure)));
        json_array_append_new(list, entry);
    }
    json_object_set_new(object, "figures", list);
    return object;
}

static const char *value_format(double value, char *buf, size_t size)
{
    if (isnan(value))
        snprintf(buf, size, "-");
    else if (fabs(value) >= 1e4)
        aw_count_format(value, buf, size);
    else
        snprintf(buf, size, "%.4g", value);
    return buf;
}

static enum aw_err bench_table(const struct aw__bench *bench, bool color, struct aw_diag *diag)
{
    static const char *const heads[] = {"WHAT",   ">AWARE", "UNIT", ">PEER",
                                        ">RATIO", ">GOAL",  "MET",  NULL};
    static const char *const bare[] = {"WHAT", ">AWARE", "UNIT", NULL};
    bool plain = true;
    char text[32];
    struct aw_table table;
    for (uint32_t i = 0; i < bench->figure_count; i++)
        plain = plain && isnan(bench->figure[i].against) && isnan(bench->figure[i].goal);
    aw_table_init(&table, plain ? bare : heads);
    for (uint32_t i = 0; i < bench->figure_count; i++) {
        const struct aw__bench_figure *figure = &bench->figure[i];
        aw_table_add(&table, "%s", figure->name);
        aw_table_add(&table, "%s", value_format(figure->value, text, sizeof text));
        aw_table_add(&table, "%s", figure->unit);
        if (plain)
            continue;
        aw_table_add(&table, "%s", value_format(figure->against, text, sizeof text));
        aw_table_add(&table, "%s", value_format(figure->ratio, text, sizeof text));
        aw_table_add(&table, "%s", value_format(figure->goal, text, sizeof text));
        aw_table_add(&table, "%s",
                     isnan(figure->goal)        ? "-"
                     : aw__bench_missed(figure) ? "no"
                                                : "yes");
    }
    return aw_table_print(&table, stdout, color, diag);
}

static enum aw_err bench_run(const struct aw_call *run, struct aw_diag *diag)
{
    static struct aw__bench bench; /* too large for a stack, and there is one per process */
    const char *name = run->args->positional[0];
    uint32_t which = 0, missed = 0;
    while (strcmp(benchmarks[which].name, name) != 0)
        which++;
    bench = (struct aw__bench){.against_torch = aw_args_given(run->args, "against")};
    if (bench.against_torch && !benchmarks[which].has_peer)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--against",
                          "'aware bench %s' has no peer to measure", name);
    enum aw_err err = benchmarks[which].fn(run, &bench, diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < bench.figure_count; i++)
        missed += aw__bench_missed(&bench.figure[i]);
    err = run->json ? aw_json_print(bench_json(name, &bench, missed), diag)
                    : bench_table(&bench, run->color_out, diag);
    if (!err && missed && aw_args_given(run->args, "check"))
        err = aw_fail(diag, AW_ERR_CHECK, "%u of %u figures miss their goal", missed,
                      bench.figure_count);
    return err;
}

static const char *const peers[] = {"torch", NULL};
static const struct aw_option bench_options[] = {
    {.name = "against",
     .kind = AW_ARG_CHOICE,
     .arg = "PEER",
     .choices = peers,
     .help = "measure a peer in the same run: torch"},
    {.name = "fidelity",
     .kind = AW_ARG_FLAG,
     .help = "sim: compare the fast model with the reference on 500 random settings"},
    {.name = "cases",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "160",
     .min = 4,
     .max = 16384,
     .help = "ope: policies judged, four on each record; 2 s of CPU time each"},
    {.name = "seed",
     .kind = AW_ARG_NUMBER,
     .arg = "S",
     .initial = "2",
     .min = 0,
     .max = 1000000,
     .help = "ope: of the records; seed 1 is the one that the intervals were tuned on"},
    {.name = "workloads",
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .min = 1,
     .max = AW_WORKLOADS_MAX,
     .help = "control: so many of them in one loop, then workloads that come, change and go"},
    {.name = "hours",
     .kind = AW_ARG_NUMBER,
     .arg = "H",
     .initial = "24",
     .min = 0,
     .max = 720,
     .help = "control: simulated, of that coming and going, with --workloads"},
    {.name = "csv", .kind = AW_ARG_FILE, .arg = "FILE", .help = "ope: write every case to a file"},
    {.name = "check", .kind = AW_ARG_FLAG, .help = "exit with status 1 where a goal is missed"},
    {.name = NULL},
};
static const struct aw_positional bench_positionals[] = {
    {.name = "WHAT",
     .kind = AW_ARG_CHOICE,
     .choices = benchmark_names,
     .help = "nn: updates, actions and encoder, with --against torch beside PyTorch; "
             "rl: training steps per second; env: steps per second of the environments; "
             "sim: of the simulated cluster, with --fidelity how near the fast model is; "
             "ope: how often intervals of off-policy evaluation hold the truth; "
             "control: one decision of a workload that serves, and what it keeps; "
             "balancer: that of the local cluster beside wrk alone; needs control groups; "
             "rpc: environments over gRPC, single steps and 256 a message"},
    {.name = NULL},
};
static const struct aw_example bench_examples[] = {
    {"aware bench nn --against torch --check", "fail where we are not as fast as we say"},
    {"aware bench env", "steps per second of every built-in environment"},
    {"aware bench control --check", "fail where a decision is slow, allocates or keeps too much"},
    {"aware bench control --workloads 10000 --check",
     "the same of ten thousand workloads, and of a day in which they come and go"},
    {"aware bench env --output json", "every figure, for a script"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_bench = {
    .name = "bench",
    .summary = "Measure how fast things are",
    .options = bench_options,
    .positionals = bench_positionals,
    .examples = bench_examples,
    .json = true,
    .run = bench_run,
};
