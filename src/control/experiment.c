/* experiment.c - which experiments there are, and what each of them begins with. */
#include "control/experiment.h"

#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "control/experiment_internal.h"

const struct aw_experiment_entry aw_experiments[] = {
    {"characterize", "AWARE Fig. 3 and Table 3",
     "What a plain learner loses in another world, and what its early training costs",
     aw__experiment_characterize},
    {"adaptation", "AWARE Fig. 8, FLASH section 5.2",
     "How fast a policy gets used to applications it has never seen", aw__experiment_adaptation},
    {"serving", "AWARE Fig. 9", "Disturbances, with retraining and without",
     aw__experiment_serving},
    {"bootstrapping", "AWARE Fig. 10 and Table 3", "From the first second to SERVING",
     aw__experiment_bootstrapping},
    {"end-to-end", "AWARE Fig. 1", "Two days of a workload: bootstrapping, serving, retraining",
     aw__experiment_end_to_end},
    {"embedding", "AWARE Fig. 6, FLASH Fig. 10",
     "Who is like whom, and whether that predicts what a policy loses", aw__experiment_embedding},
    {"amortization", "FLASH Fig. 15", "What a model is worth that was taught on fewer applications",
     aw__experiment_amortization},
    {"ablation", "AWARE section 3.2, FLASH section 5.4",
     "What each part of the learner is there for", aw__experiment_ablation},
    {"overhead", "FLASH Table 3", "What the meta-learner costs", aw__experiment_overhead},
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

enum aw_err aw_experiment_run(const struct aw_experiment_entry *entry,
                              const struct aw_experiment_config *config,
                              const struct aw_alloc *alloc, struct aw_findings *findings,
                              struct aw_diag *diag)
{
    struct aw_experiment_config own = *config;
    if (own.threads == 0)
        own.threads = aw_threads_cpu_count();
    enum aw_err err = aw__loads_new(alloc, &own.loads);
    if (err)
        return aw_fail(diag, err, "no memory for an experiment");
    err = entry->run(&own, alloc, findings, diag);
    aw__loads_free(own.loads);
    return err;
}
