/*
 * session.h - n copies of one environment, as a client of the Environment service drives them.
 *
 * Call order: open, reset, then step; reset again at any time; close.
 * Memory:     one block and one environment per copy, at open. reset and step never allocate.
 * Threads:    single owner.
 *
 * Where copies reset themselves (SAME_STEP), a session gives the same bytes as aw_vec (env/vec.h)
 * with the same seed. It is not built on it, because a client may want to reset copies itself, one
 * by one, which is what `aw_env` over the wire needs.
 *
 * The trap: the environments' own contract makes stepping an ended episode a bug; here it comes
 * from outside, so it is looked for and refused.
 */
#ifndef AW_RPC_SESSION_H
#define AW_RPC_SESSION_H

#include <aware/env.h>

#include "base/rng.h"

#define AW__SESSION_COPIES_MAX 4096u
#define AW__SESSION_PAIRS_MAX  64u

struct aw__session_copy {
    struct aw_env env;
    struct aw_rng seeds; /* of its episodes */
    bool ended;
};

struct aw__session {
    const struct aw_env_spec *spec;
    uint32_t count;
    float *obs;           /* [count][observation.dim], to be answered */
    float *final_obs;     /* [final_count][observation.dim] */
    float *reward;        /* [count] */
    uint32_t *terminated; /* [terminated_count], ascending */
    uint32_t *truncated;  /* [truncated_count], ascending */
    uint32_t final_count, terminated_count, truncated_count;
    int64_t step_us; /* duration of the last step */

    /* the rest is the session's own business */
    const struct aw_alloc *alloc;
    struct aw__session_copy *copies;
    bool manual;    /* copies do not reset themselves */
    bool next_step; /* they do so in the place of their next step */
    bool live;      /* reset, and no environment has failed since */
    uint32_t ended_count;
};

/* `pairs` are options, "key=value". On failure `session` is zeroed. AW_ERR_LIMIT: too many copies,
 * or an answer would not fit into `message_bytes_max`. */
AW_NODISCARD enum aw_err aw__session_open(struct aw__session *session, const char *name,
                                          const char *const *pairs, size_t pair_count,
                                          uint32_t count, size_t message_bytes_max,
                                          const struct aw_alloc *alloc, struct aw_diag *diag);
void aw__session_close(struct aw__session *session); /* a zeroed one is a no-op */

struct aw__session_reset {
    uint64_t seed;
    bool exact;             /* copy i's episode is drawn from seed + i itself */
    bool manual, next_step; /* one of them at most */
    const uint32_t *only;   /* ascending; NULL: all */
    size_t only_count;
};
/* AW_ERR_FORMAT: `only` is not ascending, names no copy, or copies reset themselves.
 * AW_ERR_CONFLICT: `only` before a reset of all. Nothing moved then. Other failures are an
 * environment's own, and all have to be reset. */
AW_NODISCARD enum aw_err aw__session_reset(struct aw__session *session,
                                           const struct aw__session_reset *how,
                                           struct aw_diag *diag);
/* `action` has action_count floats. AW_ERR_FORMAT: not [count][action.dim]. AW_ERR_RANGE: one that
 * no step takes. AW_ERR_CONFLICT: not reset, or a copy has ended. Nothing moved then. */
AW_NODISCARD enum aw_err aw__session_step(struct aw__session *session, const float *action,
                                          size_t action_count, struct aw_diag *diag);

#endif
