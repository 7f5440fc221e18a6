/* experiment.c - which experiments there are, and what each of them begins with. */
#include "study/experiment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/threads.h"
#include "study/experiment_internal.h"

#define APPS     AW_EXPERIMENT_TAKES_APPS
#define SEEDS    AW_EXPERIMENT_TAKES_SEEDS
#define PAIRS    AW_EXPERIMENT_TAKES_PAIRS
#define SPLIT    AW_EXPERIMENT_TAKES_SPLIT
#define UNLOADED AW_EXPERIMENT_TAKES_NO_LOAD

const struct aw_experiment_entry aw_experiments[] = {
    {"characterize", "AWARE Fig. 3 and Table 3",
     "What a plain learner loses in another world, and what its early training costs",
     aw__experiment_characterize, APPS | SEEDS | PAIRS},
    {"adaptation", "AWARE Fig. 8, FLASH section 5.2",
     "How fast a policy gets used to applications it has never seen", aw__experiment_adaptation,
     APPS | SEEDS | PAIRS | SPLIT},
    {"serving", "AWARE Fig. 9", "Disturbances, with retraining and without", aw__experiment_serving,
     APPS | SEEDS},
    {"bootstrapping", "AWARE Fig. 10 and Table 3", "From the first second to SERVING",
     aw__experiment_bootstrapping, APPS | SEEDS},
    {"end-to-end", "AWARE Fig. 1", "Two days of a workload: bootstrapping, serving, retraining",
     aw__experiment_end_to_end, APPS | SEEDS},
    {"embedding", "AWARE Fig. 6, FLASH Fig. 10",
     "Who is like whom, and whether that predicts what a policy loses and how long it learns",
     aw__experiment_embedding, APPS | PAIRS | SPLIT},
    {"amortization", "FLASH Fig. 15",
     "What a model is worth that was taught on fewer applications, and when it has paid off",
     aw__experiment_amortization, APPS | SEEDS | PAIRS},
    {"ablation", "AWARE section 3.2, FLASH section 5.4",
     "What each part of the learner is there for", aw__experiment_ablation, SEEDS | PAIRS},
    {"overhead", "FLASH Table 3", "What the meta-learner costs", aw__experiment_overhead, 0},
    {"power", "mu-Serve Fig. 6.7 and 6.8",
     "Watts at equal attainment: rules that set clocks, and replicas with them",
     aw__experiment_power, SEEDS},
    {"scheduler", "mu-Serve Fig. 6.9, 6.10, B.*",
     "Shortest predicted first with ageing against first come, first served",
     aw__experiment_scheduler, SEEDS},
    {"predictor", "mu-Serve Table 6.2", "How well lengths of answers to unseen prompts are ranked",
     aw__experiment_predictor, SEEDS},
    {"tenants-training", "SIMPPO Fig. 4.3, 4.6, 4.9, 4.10",
     "Agents that learn alone, side by side and together on one cluster",
     aw__experiment_tenants_training, SEEDS | UNLOADED},
    {"tenants-serving", "SIMPPO Fig. 4.4, 4.7, 4.11",
     "What they serve together, beside tuned rules and a joint ceiling",
     aw__experiment_tenants_serving, SEEDS | UNLOADED},
    {"tenants-churn", "SIMPPO Table 4.4", "Functions come and go: what the others lose",
     aw__experiment_tenants_churn, SEEDS | UNLOADED},
    {"tenants-scale", "SIMPPO Fig. 4.12 to 4.14",
     "Learned with few functions, served with a thousand", aw__experiment_tenants_scale,
     SEEDS | UNLOADED},
    {"placement", "mu-Serve Fig. 6.14",
     "Models of like sensitivity on the same GPUs: what that alone saves", aw__experiment_placement,
     SEEDS},
    {"frequency", "mu-Serve Fig. 6.2 and 6.13", "Time, power and energy over a GPU's clocks",
     aw__experiment_frequency, 0},
    {"localization", "FIRM Fig. 3.5",
     "Which service of a graph is to blame, under one anomaly and under several",
     aw__experiment_localization, SEEDS | UNLOADED},
    {"mitigation", "FIRM Fig. 3.6",
     "How long until an anomaly in a graph of services is mended, and how that is learned",
     aw__experiment_mitigation, SEEDS | UNLOADED},
    {"firm", "FIRM Fig. 3.7",
     "A graph of services under anomalies as they come: latency, CPU, dropped requests",
     aw__experiment_firm, SEEDS | UNLOADED},
    {0},
};

void aw_experiment_config_init(struct aw_experiment_config *config)
{
    memset(config, 0, sizeof *config);
    config->pool = config->seed = 1;
}

const char *aw_experiment_load(const struct aw_experiment_entry *entry, bool spare)
{
    static const char pattern[] = "bursts:peak=3,period=10m,duration=2m,length=1h";
    static const struct {
        aw_experiment *run;
        const char *file, *spare;
    } loads[] = {
        {aw__experiment_power, "llm_traces/azure_llm_2023_conv.csv.gz", pattern},
        {aw__experiment_placement, "llm_traces/azure_llm_2023_conv.csv.gz", pattern},
        {aw__experiment_frequency, "llm_traces/azure_llm_2023_conv.csv.gz", pattern},
        {aw__experiment_scheduler, "llm_lengths/lmsys_vicuna13b_predictions.csv.gz", pattern},
        {aw__experiment_predictor, "llm_lengths/alpaca_eval_prompts.jsonl.gz", NULL},
    };
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        if (loads[i].run == entry->run)
            return spare ? loads[i].spare : loads[i].file;
    return NULL;
}

const struct aw_experiment_entry *aw_experiment_find(const char *name)
{
    for (const struct aw_experiment_entry *entry = aw_experiments; entry->name; entry++)
        if (!strcmp(entry->name, name))
            return entry;
    return NULL;
}

enum aw_err aw_experiment_check(const struct aw_experiment_entry *entry,
                                const struct aw_experiment_config *config, struct aw_diag *diag)
{
    if (config->apps && !(entry->takes & AW_EXPERIMENT_TAKES_APPS))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--apps",
                          "%s has no choice of how many applications it reports on", entry->name);
    if (config->seeds && !(entry->takes & AW_EXPERIMENT_TAKES_SEEDS))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--seeds",
                          "%s has one seed: --seed says which", entry->name);
    if (config->pair_count && !(entry->takes & AW_EXPERIMENT_TAKES_PAIRS))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--set",
                          "%s has no environment whose options could be others", entry->name);
    if (config->learned && !(entry->takes & AW_EXPERIMENT_TAKES_SPLIT))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--split",
                          "%s has its own numbers of applications to learn from", entry->name);
    if (config->learned && config->model[0])
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--split",
                          "--model names one that was taught before, who knows on what");
    if (config->learned && (config->learned < AW_EXPERIMENT_LEARNED_MIN ||
                            config->learned > AW_EXPERIMENT_LEARNED_MAX ||
                            config->learned + config->apps > AW_EXPERIMENT_POOL))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--split",
                          "%u to %u applications may be learned from, and with those reported on "
                          "they are %u at most",
                          AW_EXPERIMENT_LEARNED_MIN, AW_EXPERIMENT_LEARNED_MAX, AW_EXPERIMENT_POOL);
    return AW_OK;
}

/* What is not as ever is told whatever is printed. */
static void note_changes(const struct aw_experiment_config *config, struct aw_study_report *report)
{
    char text[512] = "";
    struct aw_text all;
    aw_text_init(&all, text, sizeof text);
    for (uint32_t i = 0; i < config->pair_count; i++)
        aw_text_add(&all, "%s%s", i ? ", " : "", config->pairs[i]);
    if (config->pair_count)
        aw_study_report_note(report,
                             "Everybody learns and is judged in another environment than the "
                             "preset's: %s.",
                             text);
    if (config->learned)
        aw_study_report_note(report,
                             "Applications 0 to %" PRIu32 " of the pool are learned from, %" PRIu32
                             " to %" PRIu32 " choose settings and checkpoints, %" PRIu32
                             " on are reported on.",
                             aw__check_first(config) - 1, aw__check_first(config),
                             aw__test_first(config) - 1, aw__test_first(config));
}

enum aw_err aw_experiment_run(const struct aw_experiment_entry *entry,
                              const struct aw_experiment_config *config,
                              const struct aw_alloc *alloc, struct aw_study_report *report,
                              struct aw_diag *diag)
{
    struct aw_experiment_config own = *config;
    if (own.threads == 0)
        own.threads = aw_threads_cpu_count();
    enum aw_err err = aw_experiment_check(entry, config, diag);
    if (err)
        return err;
    err = aw__loads_new(alloc, &own.loads);
    if (err)
        return aw_fail(diag, err, "no memory for an experiment");
    note_changes(config, report);
    err = entry->run(&own, alloc, report, diag);
    aw__loads_free(own.loads);
    return err;
}
