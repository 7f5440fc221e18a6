/*
 * vec.h - N copies of one environment in lockstep, in contiguous arrays, on an optional thread
 * pool.
 *
 * Call order: init, reset, then: fill `action`, step, read the arrays. state_save and state_load
 *             between steps. deinit at the end.
 * Memory:     one block and one environment per copy, at init. reset, step, state_save and
 *             state_load never allocate.
 * Threads:    single owner; a step may run the copies on `pool`. The bytes do not depend on it.
 *
 * A copy whose episode ends is reset within the same step. Two arrays keep what that could hide:
 * `next_obs` always holds what the step itself showed, so at the end of an episode it is the final
 * observation, and a learner that bootstraps from it never sees another episode; `obs` holds what
 * the next action has to answer, so after an end it is the first observation of the new episode.
 * `prev_obs` is what the action just carried out had answered.
 *
 * The trap: `obs` and `prev_obs` trade places in each step. Read the pointers anew, keep none.
 */
#ifndef AW_ENV_VEC_H
#define AW_ENV_VEC_H

#include <aware/env.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/threads.h"

#define AW_VEC_COUNT_MAX 65536u /* copies */

/* An episode that ended in the last step. */
struct aw_vec_episode {
    uint32_t env;
    uint32_t length; /* steps */
    double episode_return;
    bool terminated; /* false: only its clock ran out */
};

struct aw_vec {
    const struct aw_env_spec *spec;
    uint32_t count;

    float *obs;      /* [count][observation.dim], to be answered */
    float *action;   /* [count][action.dim], the caller's to fill */
    float *prev_obs; /* [count][observation.dim], what `action` answered */
    float *next_obs; /* [count][observation.dim], what the step showed, before any reset */
    float *reward;   /* [count] */
    bool *terminated;
    bool *truncated;

    uint32_t finished_count;         /* episodes that ended in the last step */
    struct aw_vec_episode *finished; /* [finished_count], by ascending env */

    /* the rest is the vector's own business */
    struct aw_threads *pool;
    const struct aw_alloc *alloc;
    struct aw_env *envs;
    struct aw_vec_member *members;
    unsigned char *rollback; /* a snapshot of the vector, while another one is being loaded */
    bool live;               /* reset or loaded, and no environment has failed since */
};

/* `pool` may be NULL, and is borrowed. On failure `vec` is zeroed. AW_ERR_LIMIT: more copies than
 * AW_VEC_COUNT_MAX, or none. */
AW_NODISCARD enum aw_err aw_vec_init(struct aw_vec *vec, const struct aw_env_factory *factory,
                                     uint32_t count, struct aw_threads *pool,
                                     const struct aw_alloc *alloc, struct aw_diag *diag);
/* The same with options: `settings` as aw_env_settings makes them; NULL: the defaults. */
AW_NODISCARD enum aw_err aw_vec_init_with(struct aw_vec *vec, const struct aw_env_factory *factory,
                                          const void *settings, uint32_t count,
                                          struct aw_threads *pool, const struct aw_alloc *alloc,
                                          struct aw_diag *diag);
void aw_vec_deinit(struct aw_vec *vec); /* a zeroed one is a no-op */

/* Begins an episode everywhere. Copy i draws the seeds of all its episodes from (seed, i). */
AW_NODISCARD enum aw_err aw_vec_reset(struct aw_vec *vec, uint64_t seed, struct aw_diag *diag);

/* Fills `action` with what the environments' own agent would do (aw_env_fallback). AW_ERR_NODATA: a
 * copy's has not said; some of `action` is not written then. */
AW_NODISCARD enum aw_err aw_vec_fallback(struct aw_vec *vec, struct aw_diag *diag);

/* Carries out `action`. AW_ERR_RANGE: an action that no step takes (not finite, no such choice);
 * nothing moved. Any other failure (an environment's own, or AW_ERR_DIVERGED for an observation or
 * reward that is not finite) leaves copies at different times: reset or load before going on. */
AW_NODISCARD enum aw_err aw_vec_step(struct aw_vec *vec, struct aw_diag *diag);

/* Everything that decides the future of the vector. After a load, `obs` is what it was at the save;
 * the arrays that describe the last step are zero. AW_ERR_FORMAT: not a snapshot of a vector of
 * this shape; nothing changed. */
size_t aw_vec_state_bytes(const struct aw_vec *vec);
void aw_vec_state_save(const struct aw_vec *vec, void *bytes);
AW_NODISCARD enum aw_err aw_vec_state_load(struct aw_vec *vec, const void *bytes, size_t size,
                                           struct aw_diag *diag);

#endif
