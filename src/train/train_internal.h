/* train_internal.h - private to the files of the training loop. */
#ifndef AW_TRAIN_TRAIN_INTERNAL_H
#define AW_TRAIN_TRAIN_INTERNAL_H

#include "env/vec.h"
#include "train/train.h"

/* Rows in which evaluation asks the learner: always so many, also when fewer episodes are left, so
 * that an action never depends on how many episodes were asked for. */
#define AW__EVAL_LANES    16u
#define AW__STAT_NAME_MAX 48u /* bytes of the name of a figure, with its NUL, in a checkpoint */

struct aw__lane {
    struct aw_env env;
    uint32_t episode; /* which episode runs here */
    uint32_t length;  /* steps of it so far */
    double episode_return;
    bool busy;
};

struct aw_train {
    const struct aw_alloc *alloc;
    struct aw_train_config config;
    const struct aw_agent_factory *factory;
    struct aw_agent agent;
    struct aw_threads pool;
    struct aw_vec vec;
    struct aw_train_progress progress;

    double recent_return[AW_TRAIN_RECENT]; /* a ring */
    double recent_length[AW_TRAIN_RECENT];
    uint32_t recent_count, recent_next;

    /* names of figures that came out of a checkpoint, to which progress.learn then points */
    char stat_name[AW_LEARN_STATS_MAX][AW__STAT_NAME_MAX];

    struct aw__lane lane[AW__EVAL_LANES];
    float *lane_obs;    /* [AW__EVAL_LANES][obs_dim] */
    float *lane_action; /* [AW__EVAL_LANES][act_dim] */
};

/* As aw_train_new and aw_train_resume, with the learner in hand; NULL: by the name in the config.
 */
AW_NODISCARD enum aw_err aw__train_new(const struct aw_train_config *config,
                                       const struct aw_agent_factory *factory,
                                       const struct aw_alloc *alloc, struct aw_train **ret_train,
                                       struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__train_load(const char *dir, uint64_t steps, bool resumable,
                                        const struct aw_agent_factory *factory,
                                        const struct aw_alloc *alloc, struct aw_train **ret_train,
                                        struct aw_diag *diag);

/* Means of the ring into progress. */
void aw__train_recent_update(struct aw_train *train);

/* DIR/run.json. */
AW_NODISCARD enum aw_err aw__run_write(const struct aw_train_config *config,
                                       const struct aw_agent_factory *factory, const char *dir,
                                       struct aw_diag *diag);
/* `factory` NULL: the one that the file names. On failure the outputs are untouched. */
AW_NODISCARD enum aw_err aw__run_read(const char *dir, const struct aw_agent_factory *factory,
                                      struct aw_train_config *ret_config,
                                      const struct aw_agent_factory **ret_factory,
                                      struct aw_diag *diag);

/* "DIR/name" into `buf`; AW_ERR_LIMIT when it does not fit. */
AW_NODISCARD enum aw_err aw__path_join(const char *dir, const char *name, char *buf, size_t size,
                                       struct aw_diag *diag);

#endif
