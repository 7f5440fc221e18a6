/*
 * experiment.h - the experiments of the paper, each as one function that fills in a report.
 *
 * Applications come from one pool. Of the first 800 the last 40 choose settings and checkpoints,
 * and the rest are learned from; those from 800 on are reported. Where to divide is `learned`.
 * Loads are functions of a trace by rank: odd ranks for the former, even ranks for the latter. What
 * is reported of shares neither applications nor loads with what was learned from.
 *
 * Every experiment is made of pieces (a curve of one learner in one application, with one seed).
 * Pieces are kept in a folder as they finish; a run that was interrupted takes them from there and
 * goes on. A piece is named after everything that it depends on.
 *
 * Call order: config_init, changes; one of the experiments; print the report.
 * Memory:     what an experiment needs, freed again.
 * Threads:    pieces are spread over threads; the report does not depend on how many.
 */
#ifndef AW_STUDY_EXPERIMENT_H
#define AW_STUDY_EXPERIMENT_H

#include "pretrain/adapt.h"
#include "study/study_report.h"

#define AW_EXPERIMENT_PATH_MAX  512u
#define AW_EXPERIMENT_PAIRS_MAX 8u
/* Of the pool's thousand, the first that may be learned from, fewest and most. */
#define AW_EXPERIMENT_POOL        1000u
#define AW_EXPERIMENT_LEARNED     800u
#define AW_EXPERIMENT_LEARNED_MIN 100u
#define AW_EXPERIMENT_LEARNED_MAX 900u

enum aw_experiment_scale { AW_EXPERIMENT_QUICK, AW_EXPERIMENT_FULL };

/* Called as pieces finish, never from two threads at once. False stops: AW_ERR_INTERRUPTED. */
typedef bool aw_experiment_progress(void *ctx, const char *phase, uint32_t done, uint32_t total);

struct aw_experiment_config {
    enum aw_experiment_scale scale;
    bool paper;                         /* the paper's state, actions and encoder */
    char load[AW_EXPERIMENT_PATH_MAX];  /* a trace with many functions, or a pattern */
    char work[AW_EXPERIMENT_PATH_MAX];  /* folder of pieces; it exists */
    char model[AW_EXPERIMENT_PATH_MAX]; /* a pretrained model; empty: pretrain one as a piece */
    char version[64];                   /* of the program: pieces of another are not taken */
    uint64_t pool, seed;
    uint32_t apps, seeds, threads; /* 0: what the scale says */
    aw_experiment_progress *progress;
    void *progress_ctx;
    uint32_t learned; /* LEARNED_MIN to LEARNED_MAX; 0: AW_EXPERIMENT_LEARNED */
    /* Options of the environment over those of the preset, as "deadband=0"; borrowed. */
    const char *pairs[AW_EXPERIMENT_PAIRS_MAX];
    uint32_t pair_count;
    const char *pair;           /* one more, that the experiment itself is about; NULL: none */
    uint32_t fallback_episodes; /* by which an application is known; 0: as ever */
    /* Plain learners as the papers have them: no guard rails, and a miss costs what R says alone.
     */
    bool bare;
    struct aw__loads *loads; /* what was read of the trace; aw_experiment_run fills it in */
};
void aw_experiment_config_init(struct aw_experiment_config *config);

typedef enum aw_err aw_experiment(const struct aw_experiment_config *config,
                                  const struct aw_alloc *alloc, struct aw_study_report *report,
                                  struct aw_diag *diag);

/* What an experiment is asked for that not all of them know of. */
#define AW_EXPERIMENT_TAKES_APPS    1u  /* a number of applications to report on */
#define AW_EXPERIMENT_TAKES_SEEDS   2u  /* a number of runs with different chance */
#define AW_EXPERIMENT_TAKES_PAIRS   4u  /* options of the environment */
#define AW_EXPERIMENT_TAKES_SPLIT   8u  /* how many are learned from, where no model is given */
#define AW_EXPERIMENT_TAKES_NO_LOAD 16u /* applications bring their own */

struct aw_experiment_entry {
    const char *name;   /* "adaptation" */
    const char *shows;  /* "AWARE Fig. 8, FLASH section 5.2" */
    const char *title;  /* one line */
    aw_experiment *run; /* NULL ends the table */
    uint32_t takes;     /* AW_EXPERIMENT_TAKES_.. */
};
extern const struct aw_experiment_entry aw_experiments[];
/* What it runs on where no load is given: a file below AWARE_DATA_DIR (`spare` false), or a
 * pattern where there is no such folder (true). NULL: nothing of its own. */
const char *aw_experiment_load(const struct aw_experiment_entry *entry, bool spare);
/* NULL: no experiment of this name. */
const struct aw_experiment_entry *aw_experiment_find(const char *name);

/* Whether it knows of all that `config` asks for: AW_ERR_USAGE, with what it does not. */
AW_NODISCARD enum aw_err aw_experiment_check(const struct aw_experiment_entry *entry,
                                             const struct aw_experiment_config *config,
                                             struct aw_diag *diag);

/* Checks and runs one, with what the scale says where the config has 0. */
AW_NODISCARD enum aw_err aw_experiment_run(const struct aw_experiment_entry *entry,
                                           const struct aw_experiment_config *config,
                                           const struct aw_alloc *alloc,
                                           struct aw_study_report *report, struct aw_diag *diag);

#endif
