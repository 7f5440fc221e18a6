/* chaos.c - the verb `chaos`: bad days by the thousand, and the seed of the one that went wrong. */
#include "chaos/chaos.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/verbs.h"

#define SEEDS_MAX    1000000u
#define AGAIN_EVERY  16u /* seeds: one of so many is lived twice and compared */
#define BAR_COLUMNS  30u
#define DEFAULT_SEED 1u

/* All seeds, and what came of them so far. */
struct days {
    struct aw_chaos_config config;
    uint64_t first, count;
    const char *faults; /* as they were asked for; NULL: all */
    bool steps, workloads;

    pthread_mutex_t lock; /* of everything below */
    uint64_t done;
    bool failed;
    uint64_t failed_seed; /* the lowest */
    struct aw_chaos_failure failure;
    enum aw_err err;
    struct aw_diag diag;
    struct aw_chaos_result sum;
    struct aw_status_line line;
    int64_t begin_us;
};

static void draw(struct days *days)
{
    const int64_t now = aw_clock_monotonic_us(NULL);
    const double spent = 1e-6 * (double)(now - days->begin_us);
    char left[32];
    aw_seconds_format(spent / (double)days->done * (double)(days->count - days->done), left,
                      sizeof left);
    const unsigned full = (unsigned)(BAR_COLUMNS * days->done / days->count);
    aw_status_line_draw(&days->line, days->done == days->count, now,
                        "%llu of %llu seeds  [%.*s%*s]  %s left", (unsigned long long)days->done,
                        (unsigned long long)days->count, (int)full,
                        "##############################", (int)(BAR_COLUMNS - full), "", left);
}

static void take(struct days *days, uint64_t seed, const struct aw_chaos_result *result)
{
    struct aw_chaos_result *sum = &days->sum;
    sum->workloads += result->workloads;
    sum->ticks += result->ticks;
    sum->decisions += result->decisions;
    sum->changes += result->changes;
    sum->orders += result->orders;
    sum->restarts += result->restarts;
    sum->agent_steps += result->agent_steps;
    sum->learned += result->learned;
    for (uint32_t i = 0; i < AW_CHAOS_FAULT_COUNT; i++)
        sum->fault_count[i] += result->fault_count[i];
    for (uint32_t i = 0; i < AW_INVARIANT_COUNT; i++)
        sum->check_count[i] += result->check_count[i];
    for (uint32_t i = 0; i < AW_EXTERNAL_AGENT_FAULT_COUNT; i++)
        sum->answers[i] += result->answers[i];
    sum->asides += result->asides;
    sum->digest ^= result->digest; /* in any order */
    if (result->failed && (!days->failed || seed < days->failed_seed)) {
        days->failed = true;
        days->failed_seed = seed;
        days->failure = result->failure;
    }
}

static void one_seed(void *ctx, uint32_t turn, uint32_t worker)
{
    struct days *days = ctx;
    (void)worker;
    const uint64_t seed = days->first + turn;
    pthread_mutex_lock(&days->lock);
    /* after a failure only seeds below it are worth knowing */
    const bool skip = days->err || (days->failed && seed > days->failed_seed);
    pthread_mutex_unlock(&days->lock);
    if (skip)
        return;
    struct aw_chaos_config config = days->config;
    struct aw_chaos_result result;
    struct aw_diag diag = {0};
    config.seed = seed;
    config.again = seed % AGAIN_EVERY == 0;
    const enum aw_err err = aw_chaos_run(&config, &result, &diag);
    pthread_mutex_lock(&days->lock);
    days->done++;
    if (err && !days->err) {
        days->err = err;
        days->diag = diag;
    } else if (!err) {
        take(days, seed, &result);
    }
    draw(days);
    pthread_mutex_unlock(&days->lock);
}

/* --- told ------------------------------------------------------------------------------------- */

static void command_print(FILE *out, const struct days *days, const char *more)
{
    fprintf(out, "aware chaos --seed %llu%s", (unsigned long long)days->failed_seed, more);
    if (days->steps)
        fprintf(out, " --steps %u", days->config.steps);
    if (days->workloads)
        fprintf(out, " --workloads %u", days->config.workloads);
    if (days->faults)
        fprintf(out, " --faults %s", days->faults);
    if (days->config.external)
        fprintf(out, " --external");
}

static void failure_print(const struct days *days, bool color)
{
    const struct aw_chaos_failure *failure = &days->failure;
    printf("%s%s%s does not hold: %s\n", color ? "\033[31m" : "",
           aw_invariant_name(failure->invariant), color ? "\033[0m" : "",
           aw_invariant_sentence(failure->invariant));
    printf("seed %llu, tick %u%s%s: %s\n", (unsigned long long)days->failed_seed, failure->tick,
           *failure->workload ? ", " : "", failure->workload, failure->text);
    if (*failure->account)
        printf("decision: %s\n", failure->account);
    printf("again: ");
    command_print(stdout, days, " --trace");
    printf("\n");
}

static json_t *counts_json(const uint64_t *counts, uint32_t count,
                           const char *(*name)(uint32_t index))
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < count; i++)
        json_object_set_new(object, name(i), json_integer((json_int_t)counts[i]));
    return object;
}

static const char *answer_name(uint32_t fault)
{
    return aw_external_agent_fault_name((enum aw_external_agent_fault)fault);
}

static enum aw_err days_json(const struct days *days, struct aw_diag *diag)
{
    const struct aw_chaos_result *sum = &days->sum;
    json_t *object =
        json_pack("{s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "first_seed",
                  (json_int_t)days->first, "seeds", (json_int_t)days->count, "done",
                  (json_int_t)days->done, "held", !days->failed, "workloads",
                  (json_int_t)sum->workloads, "ticks", (json_int_t)sum->ticks, "decisions",
                  (json_int_t)sum->decisions, "changes", (json_int_t)sum->changes, "agent_steps",
                  (json_int_t)sum->agent_steps, "learned", (json_int_t)sum->learned, "restarts",
                  (json_int_t)sum->restarts, "orders", (json_int_t)sum->orders);
    char digest[32];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)sum->digest);
    json_object_set_new(object, "digest", json_string(digest));
    json_object_set_new(object, "faults",
                        counts_json(sum->fault_count, AW_CHAOS_FAULT_COUNT, aw_chaos_fault_name));
    json_object_set_new(object, "checks",
                        counts_json(sum->check_count, AW_INVARIANT_COUNT, aw_invariant_name));
    if (days->config.external) {
        json_object_set_new(object, "answers",
                            counts_json(sum->answers, AW_EXTERNAL_AGENT_FAULT_COUNT, answer_name));
        json_object_set_new(object, "asides", json_integer((json_int_t)sum->asides));
    }
    if (days->failed) {
        const struct aw_chaos_failure *failure = &days->failure;
        json_object_set_new(object, "failure",
                            json_pack("{s:I, s:i, s:s, s:s, s:s, s:s, s:s}", "seed",
                                      (json_int_t)days->failed_seed, "tick", (int)failure->tick,
                                      "workload", failure->workload, "invariant",
                                      aw_invariant_name(failure->invariant), "sentence",
                                      aw_invariant_sentence(failure->invariant), "text",
                                      failure->text, "decision", failure->account));
    }
    return aw_json_print(object, diag);
}

static enum aw_err days_print(const struct aw_call *run, const struct days *days,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {"INVARIANT", ">LOOKED AT", "WHAT ALWAYS HOLDS", NULL};
    const struct aw_chaos_result *sum = &days->sum;
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < AW_INVARIANT_COUNT; i++) {
        char count[32];
        aw_table_add(&table, "%s", aw_invariant_name(i));
        aw_table_add(&table, "%s",
                     aw_count_format((double)sum->check_count[i], count, sizeof count));
        aw_table_add(&table, "%s", aw_invariant_sentence(i));
    }
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    uint64_t faults = 0;
    for (uint32_t i = 0; i < AW_CHAOS_FAULT_COUNT; i++)
        faults += sum->fault_count[i];
    printf("\n%llu seeds: %u workloads, %u ticks, %llu decisions (%llu by agents), %llu changes,\n"
           "%llu faults, %llu orders, %llu starts. Everything held.\n",
           (unsigned long long)days->done, sum->workloads, sum->ticks,
           (unsigned long long)sum->decisions, (unsigned long long)sum->agent_steps,
           (unsigned long long)sum->changes, (unsigned long long)faults,
           (unsigned long long)sum->orders, (unsigned long long)sum->restarts);
    if (!days->config.external)
        return err;
    printf("External agents were set aside %llu times. Their answers:",
           (unsigned long long)sum->asides);
    for (uint32_t i = 0; i < AW_EXTERNAL_AGENT_FAULT_COUNT; i++)
        if (sum->answers[i])
            printf(" %s %llu", aw_external_agent_fault_name((enum aw_external_agent_fault)i),
                   (unsigned long long)sum->answers[i]);
    printf("\n");
    return err;
}

static enum aw_err list_print(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const fault_heads[] = {"FAULT", "WHAT GOES WRONG", NULL};
    static const char *const heads[] = {"INVARIANT", "WHAT ALWAYS HOLDS", NULL};
    if (run->json) {
        json_t *object = json_object(), *faults = json_object(), *invariants = json_object();
        for (uint32_t i = 0; i < AW_CHAOS_FAULT_COUNT; i++)
            json_object_set_new(faults, aw_chaos_fault_name(i),
                                json_string(aw_chaos_fault_sentence(i)));
        for (uint32_t i = 0; i < AW_INVARIANT_COUNT; i++)
            json_object_set_new(invariants, aw_invariant_name(i),
                                json_string(aw_invariant_sentence(i)));
        json_object_set_new(object, "faults", faults);
        json_object_set_new(object, "invariants", invariants);
        return aw_json_print(object, diag);
    }
    struct aw_table table;
    aw_table_init(&table, fault_heads);
    for (uint32_t i = 0; i < AW_CHAOS_FAULT_COUNT; i++) {
        aw_table_add(&table, "%s", aw_chaos_fault_name(i));
        aw_table_add(&table, "%s", aw_chaos_fault_sentence(i));
    }
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (err)
        return err;
    printf("\n");
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < AW_INVARIANT_COUNT; i++) {
        aw_table_add(&table, "%s", aw_invariant_name(i));
        aw_table_add(&table, "%s", aw_invariant_sentence(i));
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

/* --- asked ------------------------------------------------------------------------------------ */

/* "7" or "1..2000". */
static enum aw_err seeds_parse(const char *text, struct days *days, struct aw_diag *diag)
{
    char first[64];
    const char *dots = strstr(text, "..");
    uint64_t last;
    snprintf(first, sizeof first, "%.*s", dots ? (int)(dots - text) : (int)strlen(text), text);
    enum aw_err err =
        aw_number_parse(first, 0, UINT64_MAX - SEEDS_MAX, "--seeds", &days->first, diag);
    if (err)
        return err;
    last = days->first;
    if (dots && (err = aw_number_parse(dots + 2, days->first, days->first + SEEDS_MAX - 1,
                                       "--seeds", &last, diag)))
        return err;
    days->count = last - days->first + 1;
    return AW_OK;
}

static void trace(void *ctx, const char *line)
{
    (void)ctx;
    printf("%s\n", line);
}

static enum aw_err ask(const struct aw_call *run, struct days *days, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    days->first = DEFAULT_SEED;
    days->count = 100;
    enum aw_err err = AW_OK;
    if (aw_args_given(args, "seed") && aw_args_given(args, "seeds"))
        return aw_fail(diag, AW_ERR_USAGE, "give --seed or --seeds, not both");
    if (aw_args_given(args, "seeds"))
        err = seeds_parse(aw_args_text(args, "seeds"), days, diag);
    if (aw_args_given(args, "seed")) {
        days->first = aw_args_number(args, "seed");
        days->count = 1;
    }
    days->config.faults = AW_CHAOS_ALL;
    days->faults = aw_args_given(args, "faults") ? aw_args_text(args, "faults") : NULL;
    if (!err && days->faults)
        err = aw_chaos_faults_parse(days->faults, &days->config.faults, diag);
    days->config.external = aw_args_given(args, "external");
    days->steps = aw_args_given(args, "steps");
    days->workloads = aw_args_given(args, "workloads");
    days->config.steps = days->steps ? (uint32_t)aw_args_number(args, "steps") : 0;
    days->config.workloads = days->workloads ? (uint32_t)aw_args_number(args, "workloads") : 0;
    if (!err && aw_args_given(args, "trace")) {
        if (days->count != 1 || run->json)
            return aw_fail(diag, AW_ERR_USAGE, "--trace tells the story of one --seed, as text");
        days->config.trace = trace;
    }
    return err;
}

static enum aw_err chaos_run(const struct aw_call *run, struct aw_diag *diag)
{
    if (aw_args_given(run->args, "list"))
        return list_print(run, diag);
    struct days *days = calloc(1, sizeof *days);
    struct aw_threads pool = {0};
    if (!days)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory");
    enum aw_err err = ask(run, days, diag);
    if (err)
        goto out;
    const uint64_t threads = aw_args_number(run->args, "threads");
    uint32_t count = threads ? (uint32_t)threads : aw_threads_cpu_count();
    count = days->count < count ? (uint32_t)days->count : count;
    if ((err = aw_threads_init(&pool, count, NULL))) {
        aw_fail(diag, err, "no threads");
        goto out;
    }
    pthread_mutex_init(&days->lock, NULL);
    aw_status_line_init(&days->line, stderr, days->config.trace != NULL);
    days->begin_us = aw_clock_monotonic_us(NULL);
    aw_threads_parallel_for(&pool, (uint32_t)days->count, 1, one_seed, days);
    aw_threads_deinit(&pool);
    pthread_mutex_destroy(&days->lock);
    aw_status_line_clear(&days->line);
    if ((err = days->err)) {
        if (diag)
            *diag = days->diag;
        goto out;
    }
    if (run->json)
        err = days_json(days, diag);
    else if (days->failed)
        failure_print(days, run->color_out);
    else
        err = days_print(run, days, diag);
    if (!err && days->failed)
        err = aw_fail(diag, AW_ERR_CHECK, "%s does not hold in seed %llu",
                      aw_invariant_name(days->failure.invariant),
                      (unsigned long long)days->failed_seed);
out:
    free(days);
    return err;
}

static const struct aw_option chaos_options[] = {
    AW_OPTION_SEED(NULL, "live one bad day; the same seed gives the same day, byte for byte"),
    AW_OPTION(TEXT, "seeds", 0, "A..B", "1..100",
              "live many, and stop at the first that breaks a promise"),
    AW_NUMBER("steps", 0, "N", NULL, 1, AW_CHAOS_STEPS_MAX,
              "ticks of a day; not given: 100 to 220, by the seed"),
    AW_NUMBER("workloads", 0, "N", NULL, 1, AW_CHAOS_WORKLOADS_MAX,
              "workloads of a day; not given: 2 to 4, by the seed"),
    AW_OPTION(TEXT, "faults", 0, "LIST", "all",
              "what may go wrong: names with commas between, all, none; -NAME leaves one out"),
    AW_OPTION_THREADS("0", "days that are lived at once; 0: one per processor"),
    AW_FLAG("external", 0,
            "agents are other processes: late, silent, flooding, gone, not a number"),
    AW_FLAG("trace", 0, "print the story of one seed, tick by tick"),
    AW_FLAG("list", 0, "list faults and invariants, and do nothing"),
    {.name = NULL},
};
static const struct aw_example chaos_examples[] = {
    {"aware chaos --seeds 1..2000", "two thousand bad days; exit status 1 when one goes wrong"},
    {"aware chaos --seed 17 --trace", "what happens in one of them"},
    {"aware chaos --faults kill,power-cut,disk-full", "only these, and all of them in every day"},
    {"aware chaos --list", "what may go wrong, and what holds all the same"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_chaos = {
    .name = "chaos",
    .summary = "Simulate thousands of bad days and check every promise after every tick",
    .text = "The control loop with its guard, watchdog, audit log and orders runs on a simulated "
            "cluster in virtual time, and everything around it fails: metrics lie, the API "
            "refuses, the disk fills up, the power goes, the process is killed between two calls, "
            "people order, policies want to hurt. Which of it happens, and when, comes from the "
            "seed.\n\n"
            "After every tick each invariant is judged from outside: by what the cluster was told "
            "and what the disk holds. A day that breaks one is told with its seed, and the "
            "command that lives it again.",
    .options = chaos_options,
    .examples = chaos_examples,
    .json = true,
    .run = chaos_run,
};
