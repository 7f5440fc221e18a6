/* main.c - `aware-bench`: runs one benchmark of the table and prints its figures. */
#include "bench/bench.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <aware/cluster.h>

#include "base/text.h"

static const struct {
    const char *name;
    aw__bench_fn *fn;
    bool has_peer; /* --against means something */
} benchmarks[] = {
#define X(name, peer, help) {#name, aw__bench_##name, peer},
    AW__BENCH_MAP(X)
#undef X
};
#define BENCHMARK_COUNT (sizeof benchmarks / sizeof *benchmarks)

/* The command line. */
struct asked {
    size_t which; /* of the benchmarks; BENCHMARK_COUNT: not said yet */
    bool check;
    struct aw__bench *bench;
    struct aw_diag *diag;
};

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

static bool missed(const struct aw__bench_figure *figure)
{
    if (isnan(figure->goal))
        return false;
    if (!isnan(figure->ratio))
        return !(figure->ratio >= figure->goal);
    return figure->lower_is_better ? !(figure->value <= figure->goal)
                                   : !(figure->value >= figure->goal);
}

static json_t *real_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static enum aw_err print_json(const char *name, const struct aw__bench *bench,
                              uint32_t missed_count, struct aw_diag *diag)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < bench->figure_count; i++) {
        const struct aw__bench_figure *figure = &bench->figure[i];
        json_array_append_new(
            list, json_pack("{ss ss so so so so sb}", "name", figure->name, "unit", figure->unit,
                            "value", real_json(figure->value), "against",
                            real_json(figure->against), "ratio", real_json(figure->ratio), "goal",
                            real_json(figure->goal), "missed", missed(figure)));
    }
    json_t *all =
        json_pack("{ss si so}", "benchmark", name, "missed", (int)missed_count, "figures", list);
    const int failed = !all || json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(all);
    if (failed)
        return aw_fail(diag, AW_ERR_IO, "standard output: cannot write the JSON document");
    putchar('\n');
    return AW_OK;
}

/* "12.35k"; at most 9 characters. */
static const char *value_format(double value, char *buf, size_t size)
{
    static const struct {
        double unit;
        const char *suffix;
    } scale[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    size_t i = 0;
    while (i < 3 && fabs(value) < scale[i].unit)
        i++;
    if (isnan(value))
        snprintf(buf, size, "-");
    else if (fabs(value) >= 1e4)
        snprintf(buf, size, "%.4g%s", value / scale[i].unit, scale[i].suffix);
    else
        snprintf(buf, size, "%.4g", value);
    return buf;
}

/* The columns of a peer and of goals only where there are such. */
static void print_table(const struct aw__bench *bench)
{
    int name_width = 4, unit_width = 4;
    bool plain = true;
    char value[32], against[32], ratio[32], goal[32];
    for (uint32_t i = 0; i < bench->figure_count; i++) {
        const struct aw__bench_figure *figure = &bench->figure[i];
        const int name_len = (int)strlen(figure->name), unit_len = (int)strlen(figure->unit);
        name_width = name_len > name_width ? name_len : name_width;
        unit_width = unit_len > unit_width ? unit_len : unit_width;
        plain = plain && isnan(figure->against) && isnan(figure->goal);
    }
    printf("%-*s  %9s  %-*s", name_width, "WHAT", "AWARE", plain ? 0 : unit_width, "UNIT");
    puts(plain ? "" : "       PEER      RATIO       GOAL  MET");
    for (uint32_t i = 0; i < bench->figure_count; i++) {
        const struct aw__bench_figure *figure = &bench->figure[i];
        printf("%-*s  %9s  %-*s", name_width, figure->name,
               value_format(figure->value, value, sizeof value), plain ? 0 : unit_width,
               figure->unit);
        if (!plain)
            printf("  %9s  %9s  %9s  %s", value_format(figure->against, against, sizeof against),
                   value_format(figure->ratio, ratio, sizeof ratio),
                   value_format(figure->goal, goal, sizeof goal),
                   isnan(figure->goal) ? "-"
                   : missed(figure)    ? "no"
                                       : "yes");
        putchar('\n');
    }
}

enum { AGAINST = 256, FIDELITY, CASES, SEED, WORKLOADS, HOURS, CSV, CHECK };

static const struct argp_option options[] = {
    {.doc = "Benchmarks:", .group = 1},
#define X(what, peer, help) {.name = #what, .flags = OPTION_DOC, .doc = help, .group = 1},
    AW__BENCH_MAP(X)
#undef X
        {.doc = "Options:", .group = 2},
    {"against", AGAINST, "PEER", 0,
     "nn: measure a peer in the same run: torch or nobody (default nobody)", 2},
    {"fidelity", FIDELITY, NULL, 0,
     "sim: compare the fast model with the reference on 500 random settings", 2},
    {"cases", CASES, "N", 0,
     "ope: policies judged, four on each record; 2 s of CPU time each (default 160)", 2},
    {"seed", SEED, "S", 0,
     "ope: of the records; seed 1 is the one that the intervals were tuned on (default 2)", 2},
    {"csv", CSV, "FILE", 0, "ope: write every case to a file", 2},
    {"workloads", WORKLOADS, "N", 0,
     "control: so many of them in one loop, then workloads that come, change and go", 2},
    {"hours", HOURS, "H", 0,
     "control: simulated, of that coming and going, with --workloads (default 24)", 2},
    {"check", CHECK, NULL, 0, "exit with status 1 where a goal is missed", 2},
    {"output", 'o', "FORMAT", 0, "how to print results: table or json (default table)", 2},
    {0},
};

static enum aw_err whole(const struct asked *asked, const char *key, const char *text, uint32_t min,
                         uint32_t max, uint32_t *ret)
{
    uint64_t number = 0;
    if (aw_text_parse_u64(text, &number) || number < min || number > max)
        return aw_fail_at(asked->diag, AW_ERR_USAGE, NULL, 0, 0, key,
                          "expected a whole number from %u to %u, found '%.40s'", min, max, text);
    *ret = (uint32_t)number;
    return AW_OK;
}

static enum aw_err either(const struct asked *asked, const char *key, const char *text,
                          const char *yes, const char *no, bool *ret)
{
    *ret = !strcmp(text, yes);
    if (!*ret && strcmp(text, no) != 0)
        return aw_fail_at(asked->diag, AW_ERR_USAGE, NULL, 0, 0, key,
                          "expected %s or %s, found '%.40s'", yes, no, text);
    return AW_OK;
}

static enum aw_err choose(struct asked *asked, const char *word)
{
    if (asked->which < BENCHMARK_COUNT)
        return aw_fail(asked->diag, AW_ERR_USAGE, "one benchmark at a time, found '%.40s'", word);
    for (asked->which = 0; asked->which < BENCHMARK_COUNT; asked->which++) {
        if (!strcmp(benchmarks[asked->which].name, word))
            return AW_OK;
    }
#define X(name, peer, help) " " #name
    return aw_fail(asked->diag, AW_ERR_USAGE, "expected one of:" AW__BENCH_MAP(X) "; found '%.40s'",
                   word);
#undef X
}

static enum aw_err finish(struct asked *asked)
{
    if (asked->which == BENCHMARK_COUNT)
        return aw_fail(asked->diag, AW_ERR_USAGE,
                       "which benchmark? 'aware-bench --help' lists them");
    if (asked->bench->against_torch && !benchmarks[asked->which].has_peer)
        return aw_fail_at(asked->diag, AW_ERR_USAGE, NULL, 0, 0, "--against",
                          "'%s' has no peer to measure", benchmarks[asked->which].name);
    return AW_OK;
}

/* argp ends at what is not 0; the diagnostic then says why. */
static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct asked *asked = state->input;
    struct aw__bench *bench = asked->bench;
    enum aw_err err = AW_OK;
    switch (key) {
    case AGAINST:
        err = either(asked, "--against", arg, "torch", "nobody", &bench->against_torch);
        break;
    case FIDELITY:
        bench->fidelity = true;
        break;
    case CASES:
        err = whole(asked, "--cases", arg, 4, 16384, &bench->case_count);
        break;
    case SEED:
        err = whole(asked, "--seed", arg, 0, 1000000, &bench->seed);
        break;
    case CSV:
        bench->csv = arg;
        break;
    case WORKLOADS:
        err = whole(asked, "--workloads", arg, 1, AW_WORKLOADS_MAX, &bench->workload_count);
        break;
    case HOURS:
        err = whole(asked, "--hours", arg, 0, 720, &bench->hours);
        break;
    case CHECK:
        asked->check = true;
        break;
    case 'o':
        err = either(asked, "--output", arg, "json", "table", &bench->json);
        break;
    case ARGP_KEY_ARG:
        err = choose(asked, arg);
        break;
    case ARGP_KEY_END:
        err = finish(asked);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return err ? EINVAL : 0;
}

static enum aw_err run(const struct asked *asked)
{
    struct aw__bench *bench = asked->bench;
    uint32_t missed_count = 0;
    enum aw_err err = benchmarks[asked->which].fn(bench, asked->diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < bench->figure_count; i++)
        missed_count += missed(&bench->figure[i]);
    if (bench->json)
        err = print_json(benchmarks[asked->which].name, bench, missed_count, asked->diag);
    else
        print_table(bench);
    if (!err && (ferror(stdout) || fclose(stdout)))
        err = aw_fail(asked->diag, AW_ERR_IO, "standard output: write error");
    if (!err && missed_count && asked->check)
        err = aw_fail(asked->diag, AW_ERR_CHECK, "%u of %u figures miss their goal", missed_count,
                      bench->figure_count);
    return err;
}

int main(int argc, char **argv)
{
    static struct aw__bench bench = {.case_count = 160, .seed = 2, .hours = 24};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "BENCHMARK",
        .doc = "Measures how fast aware is, one benchmark at a time.\v"
               "aware-bench nn --against torch --check\n"
               "aware-bench env --output json\n"
               "aware-bench control --workloads 10000 --check",
    };
    struct aw_diag diag = {0};
    struct asked asked = {.which = BENCHMARK_COUNT, .bench = &bench, .diag = &diag};
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    enum aw_err err = argp_parse(&argp, argc, argv, 0, NULL, &asked) ? AW_ERR_USAGE : AW_OK;
    if (!err)
        err = run(&asked);
    if (err)
        fprintf(stderr, "aware-bench: %s\n", aw_diag_format(&diag, err, line, sizeof line));
    return aw_err_exit_code(err);
}
