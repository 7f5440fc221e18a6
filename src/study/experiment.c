/* experiment.c - which experiments there are, and what each of them begins with. */
#include "study/experiment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/threads.h"
#include "study/experiment_internal.h"

#define APPS  AW_EXPERIMENT_TAKES_APPS
#define SEEDS AW_EXPERIMENT_TAKES_SEEDS
#define PAIRS AW_EXPERIMENT_TAKES_PAIRS
#define SPLIT AW_EXPERIMENT_TAKES_SPLIT

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
    {0},
};

void aw_experiment_config_init(struct aw_experiment_config *config)
{
    memset(config, 0, sizeof *config);
    config->pool = config->seed = 1;
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
