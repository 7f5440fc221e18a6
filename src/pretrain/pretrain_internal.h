/* pretrain_internal.h - what the files of pretraining share: applications, threads, episodes. */
#ifndef AW_PRETRAIN_PRETRAIN_INTERNAL_H
#define AW_PRETRAIN_PRETRAIN_INTERNAL_H

#include "pretrain/pretrain.h"

#include "base/bayes_opt.h"
#include "base/threads.h"
#include "pretrain/load_forecast.h"

/* One application: its environment, the fallback beside it, and the episode under way. */
struct aw__pretrain_task {
    struct aw_env env;
    struct aw_fallback *fallback;
    float *obs, *action, *reward; /* of one episode */
    uint64_t episodes;            /* lived to learn from */
    uint64_t load;                /* a hash of its load */
    struct aw_pretrain_score score;
    struct aw_load_forecast foresight;
};

/* What a thread needs for itself. */
struct aw__pretrain_worker {
    struct aw_context_reader *reader;
    float *next;     /* [obs_dim] */
    uint32_t failed; /* the first application that did, and how */
    enum aw_err err;
    struct aw_diag diag;
};

struct aw_pretrain {
    struct aw_pretrain_config config;
    struct aw_context *context;
    struct aw__pretrain_task *task; /* [count]: `learn` of them, then those for validation */
    uint32_t learn, count;          /* of this process */
    uint32_t turns;                 /* of a round: applications of the process that has the most */
    uint32_t obs_dim, act_dim, steps;
    uint32_t env_dim; /* of obs_dim, what the environment shows */
    uint32_t rounds;
    uint64_t loads; /* a hash of them all */
    struct aw_pretrain_best best;
    struct aw_bayes_opt offsets; /* of a loaded actor's actions */
    struct aw_threads threads;
    struct aw__pretrain_worker *worker; /* [threads.count] */
    const struct aw_alloc *alloc;
};

enum aw__pretrain_who { AW__WHO_FALLBACK, AW__WHO_POLICY, AW__WHO_CONSTANT };

/* One episode of an application. */
struct aw__pretrain_life {
    enum aw__pretrain_who who;
    const float *constant; /* its action */
    const float *as;       /* the embedding given to the policy; NULL: the application's own */
    double noise;
    double *learned; /* sum of what is learned from; may be NULL */
    bool push;       /* its transitions are learned from */
    bool join;       /* the application is known by it from now on */
    uint64_t seed;
};

/* The pool of application `i` of this process, and which one of it. */
const struct aw_pretrain_pool *aw__pretrain_pool(const struct aw_pretrain *p, uint32_t i,
                                                 uint32_t *ret_app);
/* Of the so-manieth episode of an application. */
uint64_t aw__pretrain_seed(const struct aw_pretrain *p, uint32_t i, uint64_t episode);

enum aw_err aw__pretrain_live(struct aw_pretrain *p, uint32_t i, uint32_t worker,
                              const struct aw__pretrain_life *life, struct aw_pretrain_score *ret,
                              struct aw_diag *diag);
/* An episode of the fallback's, by which an application is known; `learned`: from which is learned,
 * too. */
enum aw_err aw__pretrain_look(struct aw_pretrain *p, uint32_t i, uint32_t worker, bool learned,
                              struct aw_diag *diag);
/* The best constant action of an application becomes its teacher. */
enum aw_err aw__pretrain_teach(struct aw_pretrain *p, uint32_t i, uint32_t worker,
                               struct aw_diag *diag);

/* `turn` for each of the applications from `first` on, side by side; the failure of the first that
 * failed. What a turn leaves in its task does not depend on the number of threads. */
typedef enum aw_err aw__pretrain_turn(struct aw_pretrain *p, uint32_t i, uint32_t worker,
                                      const void *ctx, struct aw_diag *diag);

#endif
