/*
 * task.h - a task of managing a system: its worlds, its oracle, its baselines and its learner.
 *
 * FLASH's listing 1 (aware/meta.h) is what a learner asks of a meta-learner. This is the rest of a
 * task: where its workloads come from, what would be best for each, which simple rules there are
 * to beat, and the four things that can be done with it: train, meet, compare, evaluate. One table
 * of these (flash/tasks.c) serves every verb `aware task`; a task of a user is one more such table.
 *
 * Call order: aw_task_check once (aw_task_do does it); then pair; reset and step, or sample.
 * Memory:     a pair is a value; a world lives in `world_bytes` of the caller's storage.
 * Threads:    everything but the four verbs is a pure function of its arguments.
 *
 * The trap: a pair that is unseen must differ in what has to generalise. Two halves of the same
 * application's rows are not two applications. And `truth` is for ablations alone: a learner that
 * reads it has been told the answer.
 */
#ifndef AWARE_TASK_H
#define AWARE_TASK_H

#include <aware/err.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

#define AW_TASK_NAME_MAX     64u /* bytes of a name, with its NUL */
#define AW_TASK_DIM_MAX      256u
#define AW_TASK_TRUTH_MAX    16u
#define AW_TASK_WORLD_MAX    (1u << 26) /* bytes of a world */
#define AW_TASK_MEMORY_MAX   (1u << 16) /* bytes that a baseline may remember */
#define AW_TASK_BASELINE_MAX 32u

enum aw_task_kind {
    AW_TASK_SUPERVISED, /* what is the value of a configuration, from a few measured ones */
    AW_TASK_DISCRETE,   /* reinforcement: an action is an index, in one float */
    AW_TASK_BOX,        /* reinforcement: an action is action_dim floats in [-1, 1] */
};
const char *aw_task_kind_text(enum aw_task_kind kind); /* "supervised", "discrete", "box" */

enum aw_task_split {
    AW_TASK_LEARNED, /* pairs to learn from */
    AW_TASK_UNSEEN,  /* pairs that are met; never the same as any of the first */
};

/* An application in its environment. The same seed and split give the same pair. */
struct aw_task_pair {
    char application[AW_TASK_NAME_MAX];
    char environment[AW_TASK_NAME_MAX];
    uint64_t seed;                   /* what it was drawn with; worlds may draw more from it */
    enum aw_task_split split;        /* where it was drawn from */
    double truth[AW_TASK_TRUTH_MAX]; /* hidden parameters, scaled to about 1; ablations read them */
    uint32_t truth_count;
};

struct aw_task_step {
    double reward;
    bool done; /* the episode is over; stepping on is a bug (AW_ASSERT) */
};

/* A rule without learning. Of a reinforcement task `act` is asked, of a supervised one `predict`;
 * the other is NULL. Both are NULL where the task's own verbs know what it does; never those of the
 * fallback. `memory` is `memory_bytes` of the caller's, zeroed at the start of an episode. */
struct aw_task_baseline {
    const char *name;    /* "schedutil" */
    const char *summary; /* one line */
    size_t memory_bytes; /* at most AW_TASK_MEMORY_MAX */
    void (*act)(void *memory, const float *obs, float *action);
    /* The value of `target` from `shot_count` measured configurations: features of all are
     * [.][feature_dim], values are above 0. */
    double (*predict)(const float *features, const double *values, uint32_t shot_count,
                      const float *target);
};

/* What was asked for. Texts are NULL where nothing was given. */
struct aw_task_ask {
    const char *data;   /* a file: measurements, a trace, ... */
    const char *model;  /* a file: train writes it, the others read it */
    const char *preset; /* "default", or "paper" */
    uint64_t seed;
    uint32_t seeds;   /* how many, from `seed` on */
    uint32_t threads; /* 0: as many as there are processors */
};

/* Where a task puts what it found: figures under snake_case names, row after row. Not finite is
 * "not known". A task of one document has rows of the same keys in the same order. */
struct aw_task_sink {
    void *self;
    void (*text)(void *self, const char *key, const char *value);
    void (*figure)(void *self, const char *key, double value);
    void (*row)(void *self);                        /* ends a row */
    void (*note)(void *self, const char *sentence); /* for people, and beside the rows in JSON */
    /* How far it is, 0 to 1, and with what. False: whoever asked wants it to end, with
     * AW_ERR_INTERRUPTED. */
    bool (*progress)(void *self, double share, const char *what);
};

enum aw_task_verb { AW_TASK_TRAIN, AW_TASK_MEET, AW_TASK_COMPARE, AW_TASK_EVALUATE, AW_TASK_VERBS };
const char *aw_task_verb_text(enum aw_task_verb verb); /* "train" */

struct aw_task {
    const char *name;    /* "size": lower case, digits, dashes */
    const char *summary; /* one line, capital, no full stop */
    const char *text;    /* what a pair, an action and a reward are; paragraphs; NULL: none */
    enum aw_task_kind kind;
    /* supervised: features of a configuration; else the state. 0: by the data */
    uint32_t feature_dim;
    uint32_t action_dim; /* box: numbers; discrete: choices; supervised: 0 */
    uint32_t steps_max;  /* of an episode; supervised: 0 */
    size_t world_bytes;  /* of one world; supervised: 0 */
    uint32_t pair_count; /* unseen pairs that an experiment meets, unless told otherwise */

    /* Draws a pair. NULL: pairs come from --data alone. */
    void (*pair)(uint64_t seed, enum aw_task_split split, struct aw_task_pair *ret_pair);

    /* Reinforcement: the world, simulated, recorded or real. reset writes feature_dim floats. */
    void (*reset)(void *world, const struct aw_task_pair *pair, uint64_t seed, float *obs);
    void (*step)(void *world, const float *action, float *obs, struct aw_task_step *ret_step);

    /* Supervised: configurations of the task, and the value (above 0, lower is better) of one of
     * them as measured; `seed` is that of the measurement's noise. */
    uint32_t configuration_count;
    void (*configuration)(uint32_t index, float *features, char name[AW_TASK_NAME_MAX]);
    double (*sample)(const struct aw_task_pair *pair, uint32_t index, uint64_t seed);

    /* What an oracle reaches: mean reward of a step, or the least value. NAN: not known. NULL: no
     * oracle. */
    double (*best)(const struct aw_task_pair *pair);

    const struct aw_task_baseline *baseline; /* [baseline_count]; without one nothing is compared */
    uint32_t baseline_count;

    /* Safeguards. Is this observation possible? What is done where it is not, or where the learner
     * has been withheld: the index of a baseline. NULL: every finite observation is possible. */
    bool (*validate)(const float *obs);
    uint32_t fallback;

    /* The four verbs; NULL where the task has none. */
    enum aw_err (*verb[AW_TASK_VERBS])(const struct aw_task *task, const struct aw_task_ask *ask,
                                       const struct aw_task_sink *sink, struct aw_diag *diag);
};

/* Is the table whole? AW_ERR_CONFIG names the first member that is not as it should be. An
 * experiment needs a baseline: without one this refuses. */
AW_NODISCARD enum aw_err aw_task_check(const struct aw_task *task, struct aw_diag *diag);
/* Checks the table, then does it. AW_ERR_UNSUPPORTED: the task has no such verb. */
AW_NODISCARD enum aw_err aw_task_do(const struct aw_task *task, enum aw_task_verb verb,
                                    const struct aw_task_ask *ask, const struct aw_task_sink *sink,
                                    struct aw_diag *diag);
/* Rewards of one episode of a baseline in a pair's world, summed, and its steps. `world` and
 * `memory` are the caller's, world_bytes and memory_bytes large. */
double aw_task_play(const struct aw_task *task, const struct aw_task_baseline *baseline,
                    const struct aw_task_pair *pair, uint64_t seed, void *world, void *memory,
                    uint32_t *ret_steps);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
