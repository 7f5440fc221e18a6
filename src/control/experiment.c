/* experiment.c - the table of experiments, and what one starts from. */
#include "control/experiment.h"

void aw_experiment_config_init(struct aw_experiment_config *config)
{
    *config = (struct aw_experiment_config){.pool = 1, .seed = 1};
}

const struct aw_experiment_entry aw_experiments[] = {
    {.run = NULL},
};
