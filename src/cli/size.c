/* size.c - the verb `size`: which configuration should a workload run on? */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "sizing/advise.h"

#define PERCENT  100.0
#define WEIGHTED 0.05 /* a head that has less is not named */

struct asking {
    const struct aw_call *run;
    struct aw_size_tables tables;
    const struct aw_size_table *table;
    uint32_t workload;
    enum aw_size_goal goal;
    struct aw_size_advice *advice;
};

/* Which table has the workload to be sized, and where. */
static enum aw_err find(struct asking *asking, struct aw_diag *diag)
{
    const char *name = aw_args_text(asking->run->args, "workload");
    uint32_t found = 0;
    for (uint32_t t = 0; t < asking->tables.count; t++)
        for (uint32_t w = 0; w < asking->tables.table[t].workload_count; w++) {
            const struct aw_size_workload *workload = &asking->tables.table[t].workload[w];
            if (name ? strcmp(workload->name, name) != 0 : !workload->asked)
                continue;
            if (found++ == 0 ||
                (workload->asked && !asking->table->workload[asking->workload].asked)) {
                asking->table = &asking->tables.table[t];
                asking->workload = w;
            }
        }
    if (found == 0 && name)
        return aw_fail_at(diag, AW_ERR_NOTFOUND, NULL, 0, 0, "--workload",
                          "expected a workload of the files, such as \"%s\", found %s",
                          asking->tables.table[0].workload[0].name, AW_QUOTE(name));
    if (found == 0 || (found > 1 && !name))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--workload",
                          "expected the name of the workload to size: the measured file has %u",
                          found);
    return AW_OK;
}

static const char *seconds_text(double seconds, char *buf, size_t size)
{
    if (!isfinite(seconds))
        snprintf(buf, size, "-");
    else if (seconds < 1)
        snprintf(buf, size, "%.3g ms", 1e3 * seconds);
    else
        aw_seconds_format(seconds, buf, size);
    return buf;
}

static const char *usd_text(double usd, char *buf, size_t size)
{
    if (!isfinite(usd))
        snprintf(buf, size, "-");
    else if (usd < 1e-3)
        snprintf(buf, size, "$%.3g/M", 1e6 * usd);
    else if (usd < 0.1)
        snprintf(buf, size, "$%.4f", usd);
    else
        snprintf(buf, size, "$%.3g", usd);
    return buf;
}

static const char *name_of(const struct asking *asking, uint32_t row)
{
    return asking->table->config[asking->advice->row[row].config].name;
}

static json_t *row_json(const struct asking *asking, const struct aw_size_row *row)
{
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o}", "configuration",
                     asking->table->config[row->config].name, "measured", (int)row->measured,
                     "seconds", aw_json_real(row->seconds), "seconds_low",
                     aw_json_real(row->seconds_low), "seconds_high",
                     aw_json_real(row->seconds_high), "usd", aw_json_real(row->usd));
}

static json_t *document(const struct asking *asking)
{
    const struct aw_size_advice *advice = asking->advice;
    json_t *rows = json_array(), *heads = json_object(), *next = json_null();
    for (uint32_t i = 0; i < advice->row_count; i++)
        json_array_append_new(rows, row_json(asking, &advice->row[i]));
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        json_object_set_new(heads, aw_size_head_name(h), aw_json_real(advice->weight[h]));
    if (advice->next != UINT32_MAX) {
        json_decref(next);
        next = row_json(asking, &advice->row[advice->next]);
        json_object_set_new(next, "expected_gain", aw_json_real(advice->gain));
    }
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o}", "workload",
        asking->table->workload[asking->workload].name, "set", asking->table->set, "goal",
        aw_args_text(asking->run->args, "goal"), "measured", (json_int_t)advice->measured,
        "learned_workloads", (json_int_t)advice->learned_workloads, "learned_groups",
        (json_int_t)advice->learned_groups, "stop", (int)advice->stop, "kept_mape",
        aw_json_real(advice->kept_mape), "choice", row_json(asking, &advice->row[advice->choice]),
        "next", next, "heads", heads, "configurations", rows);
}

static enum aw_err table_print(const struct asking *asking, struct aw_diag *diag)
{
    static const char *const heads[] = {"CONFIGURATION", ">TIME", ">LOW", ">HIGH",
                                        ">COST",         "",      NULL};
    const struct aw_size_advice *advice = asking->advice;
    const uint32_t most = (uint32_t)aw_args_number(asking->run->args, "rows");
    struct aw_table table;
    char buf[64];
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < advice->row_count; i++) {
        const struct aw_size_row *row = &advice->row[i];
        if (most && i >= most && !row->measured && i != advice->next)
            continue;
        aw_table_add(&table, "%s", name_of(asking, i));
        aw_table_add(&table, "%s", seconds_text(row->seconds, buf, sizeof buf));
        aw_table_add(&table, "%s",
                     row->measured ? "" : seconds_text(row->seconds_low, buf, sizeof buf));
        aw_table_add(&table, "%s",
                     row->measured ? "" : seconds_text(row->seconds_high, buf, sizeof buf));
        aw_table_add(&table, "%s", usd_text(row->usd, buf, sizeof buf));
        aw_table_add(&table, "%s%s", row->measured ? "measured" : "",
                     i == advice->choice && advice->measured ? ", the choice"
                     : i == advice->next && !advice->stop    ? "next"
                                                             : "");
    }
    return aw_table_print(&table, stdout, asking->run->color_out, diag);
}

static void words_print(const struct asking *asking)
{
    const struct aw_size_advice *advice = asking->advice;
    char time[64], low[64], high[64], usd[64];
    const struct aw_size_row *choice = &advice->row[advice->choice];
    printf("\n");
    if (advice->measured) {
        printf("Choice: %s, %s", name_of(asking, advice->choice),
               seconds_text(choice->seconds, time, sizeof time));
        if (isfinite(choice->usd))
            printf(", %s", usd_text(choice->usd, usd, sizeof usd));
        printf("; the best of %u measured.\n", advice->measured);
    }
    if (advice->next == UINT32_MAX) {
        printf("Stop: every configuration was measured.\n");
    } else if (advice->stop) {
        printf("Stop: another measurement is expected to gain %.1f %%, which is less than asked for"
               " (--stop).\n",
               PERCENT * advice->gain);
    } else if (advice->measured) {
        const struct aw_size_row *next = &advice->row[advice->next];
        printf("Next:   measure %s; expected gain %.1f %% (90 %%: %s to %s).\n",
               name_of(asking, advice->next), PERCENT * advice->gain,
               seconds_text(next->seconds_low, low, sizeof low),
               seconds_text(next->seconds_high, high, sizeof high));
    } else {
        printf("Next:   measure %s first%s.\n", name_of(asking, advice->next),
               advice->learned_workloads ? ": it was best on average elsewhere" : "");
    }
    if (advice->learned_workloads == 0) {
        printf("Learned from nothing: physics and likeness of configurations alone, wide "
               "intervals. --data FILE gives it other workloads to learn from.\n");
        return;
    }
    printf("Learned from %u workloads in %u groups", advice->learned_workloads,
           advice->learned_groups);
    if (isfinite(advice->kept_mape))
        printf("; off by %.0f %% on average on those kept back", PERCENT * advice->kept_mape);
    const char *before = "; heads: ";
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        if (advice->weight[h] >= WEIGHTED) {
            printf("%s%s %.0f %%", before, aw_size_head_name(h), PERCENT * advice->weight[h]);
            before = ", ";
        }
    printf(".\n");
}

static enum aw_err size_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const char *data = aw_args_text(args, "data"), *measured = aw_args_text(args, "measured");
    const char *goal = aw_args_text(args, "goal");
    struct asking asking = {.run = run};
    struct aw_size_settings settings = aw_size_default();
    if (!data && !measured)
        return aw_fail(
            diag, AW_ERR_USAGE,
            "'aware size' needs --measured FILE, --data FILE with --workload NAME, or both");
    asking.goal = strcmp(goal, "cost") == 0      ? AW_SIZE_COST
                  : strcmp(goal, "balance") == 0 ? AW_SIZE_BALANCE
                                                 : AW_SIZE_TIME;
    settings.seed = aw_args_number(args, "seed");
    asking.advice = aw_alloc_new(NULL, 1, sizeof *asking.advice);
    enum aw_err err = asking.advice ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for advice");
    err = err ? err : aw_size_read_both(data, measured, &asking.tables, diag);
    err = err ? err : find(&asking, diag);
    err = err ? err
              : aw_size_advise(asking.table, asking.workload, asking.goal,
                               (double)aw_args_number(args, "stop") / PERCENT, &settings,
                               asking.advice, diag);
    if (!err && run->json) {
        err = aw_json_print(document(&asking), diag);
    } else if (!err) {
        err = table_print(&asking, diag);
        if (!err)
            words_print(&asking);
    }
    aw_size_tables_deinit(&asking.tables);
    aw_alloc_free(NULL, asking.advice);
    return err;
}

static const char *const goals[] = {"time", "cost", "balance", NULL};
static const struct aw_option size_options[] = {
    AW_OPTION(FILE, "measured", 'm', "FILE", NULL,
              "a CSV of what was measured of the workload: workload, configuration..., time; a row "
              "without a time is a configuration that could be measured"),
    AW_OPTION(FILE, "data", 'd', "FILE", NULL,
              "a CSV of other workloads on the same configurations, to learn from"),
    AW_OPTION(TEXT, "workload", 'w', "NAME", NULL,
              "the workload to size, where the files have several"),
    AW_OPTION(CHOICE, "goal", 'g', "GOAL", "time", "what is to be small", .choices = goals),
    AW_NUMBER("stop", 0, "PERCENT", "3", 0, 100,
              "stop when another measurement is expected to gain less"),
    AW_NUMBER("rows", 'n', "N", "12", 0, AW_SIZE_CONFIGS_MAX,
              "configurations to show, the best first; 0: all"),
    AW_OPTION_SEED("1", "of networks and folds; the same seed gives the same advice"),
    {.name = NULL},
};
static const struct aw_example size_examples[] = {
    {"aware size --data examples/sizes.csv --measured examples/size-mine.csv",
     "a workload with two measurements, learned from others"},
    {"aware size --measured examples/size-mine.csv --goal cost", "the same without any memory"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_size = {
    .name = "size",
    .summary = "Choose the configuration that a workload should run on",
    .text = "Reads what was measured of a workload, predicts all other configurations with "
            "intervals that hold 90 %, proposes the next one to measure, and says when to stop. "
            "Columns of a CSV: 'workload', a time ('time' or 'seconds', 'time_ms', ...), perhaps "
            "'cost' in USD or 'usd_per_hour', perhaps 'group' (workloads that know each other); "
            "all others are the configuration. The published formats of multi-cloud, Scout, "
            "Sizeless and AWS Lambda logs are known as they are.\n\n"
            "Nothing is changed anywhere: it reads files and prints. A cost below a tenth of a "
            "cent is told "
            "for a million runs ($/M).",
    .options = size_options,
    .examples = size_examples,
    .json = true,
    .run = size_run,
};
