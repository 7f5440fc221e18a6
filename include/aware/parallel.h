/*
 * parallel.h - what learners may ask of an environment of many agents that act at once: a
 * PettingZoo-like parallel contract in C, in flat arrays.
 *
 * Call order: new (from a factory), reset, then step while somebody is live, then reset.
 * Memory:     all arrays belong to the caller: row i of each is agent i. After new, nothing here
 *             allocates.
 * Threads:    one owner per environment; distinct environments may step on distinct threads.
 *
 * Agents come and go. Agent i has row i from when it joins until it ends, and nobody else has the
 * row in the same episode: an agent that ended never comes back, and a newcomer has a row that was
 * free. So spec.agents_max is the number of agents that an episode can ever have.
 *
 * The trap: terminated and truncated are different things, and they are an agent's own. An agent
 * that leaves terminates, while the others go on; when the clock runs out all that are left are
 * truncated, and the value of what would have followed still counts. In the step in which an agent
 * ends its row has its last observation and its last reward.
 */
#ifndef AWARE_PARALLEL_H
#define AWARE_PARALLEL_H

#include <aware/err.h>
#include <aware/space.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

#define AW_PARALLEL_AGENTS_MAX         65536u
#define AW_PARALLEL_DIM_MAX            4096u /* elements of an observation, context or action */
#define AW_PARALLEL_NAME_MAX           64u   /* bytes of a name, with its NUL */
#define AW_PARALLEL_SETTINGS_BYTES_MAX 1024u

struct aw_alloc;      /* where memory comes from (base/alloc.h); NULL is the process heap */
struct aw_conf_field; /* a table of settings (base/conf.h) */

struct aw_parallel_spec {
    const char *name;            /* "tenants-v0": lower case, digits, dashes */
    const char *summary;         /* one sentence for a list */
    struct aw_space observation; /* of one agent, the same for all */
    struct aw_space context;     /* a box: what a critic may see beside it, of all others */
    struct aw_space action;      /* of one agent, the same for all */
    uint32_t agents_max;         /* rows; agents that an episode can ever have */
    uint32_t episode_steps_max;  /* all are truncated after so many steps; 0: never */
    float reward_low, reward_high;
};

/* What has happened to an agent; 0: it is not there, and nobody reads its row. */
enum aw_parallel_flag {
    AW_PARALLEL_LIVE = 1,       /* acts in the next step */
    AW_PARALLEL_JOINED = 2,     /* was not there before; its reward is 0 */
    AW_PARALLEL_TERMINATED = 4, /* ended in this step: what follows is worth nothing */
    AW_PARALLEL_TRUNCATED = 8,  /* ended in this step: a clock ran out */
};

/* The caller's arrays, spec.agents_max rows each. reset and step write the rows of all agents whose
 * flags are not 0, zeroes into all other flags, and leave the other rows as they are. */
struct aw_parallel_rows {
    uint8_t *flags;   /* enum aw_parallel_flag, or-ed */
    float *obs;       /* [agents_max][observation.dim] */
    float *context;   /* [agents_max][context.dim] */
    uint8_t *allowed; /* [agents_max][action.n]: 1: the choice is allowed; at least one is. A box
                       * has none, and this may be NULL */
    float *reward;    /* [agents_max] */
};

struct aw_parallel_ops {
    /* Begins an episode drawn from `seed` alone. */
    enum aw_err (*reset)(void *self, uint64_t seed, struct aw_parallel_rows *rows);

    /* Advances one step. `action` is [agents_max][action.dim]; rows of agents that are not live are
     * not read. A box action beyond its bounds is clipped; a choice that does not exist or a number
     * that is not finite is AW_ERR_RANGE, and nothing moves. A choice that exists and is not
     * allowed is taken, and changes nothing by itself. A step when nobody is live is a bug
     * (AW_ASSERT). */
    enum aw_err (*step)(void *self, const float *action, struct aw_parallel_rows *rows);

    void (*free)(void *self); /* NULL is a no-op */
};

/* An environment in hand. Copy it freely; `self` is what is owned. */
struct aw_parallel {
    const struct aw_parallel_spec *spec; /* lives as long as `self` */
    const struct aw_parallel_ops *ops;   /* no slot is ever NULL */
    void *self;
};

/* How environments are made; the table of built-ins is a list of these. */
struct aw_parallel_factory {
    const struct aw_parallel_spec *spec; /* of an environment with default options */
    const struct aw_conf_field *fields;  /* its options */
    size_t settings_bytes;               /* of the struct that `fields` describes */
    /* `settings` are copied, and so may differ from the factory's the spec of what is made. `alloc`
     * outlives it; `diag` may be NULL. */
    enum aw_err (*make)(const void *settings, const struct aw_alloc *alloc,
                        struct aw_parallel *ret_env, struct aw_diag *diag);
};

/* The built-in environments, ending with a NULL. */
const struct aw_parallel_factory *const *aw_parallel_builtin(void);
/* AW_ERR_NOTFOUND with a diagnostic that names what there is. */
AW_NODISCARD enum aw_err aw_parallel_find(const char *name,
                                          const struct aw_parallel_factory **ret_factory,
                                          struct aw_diag *diag);
/* Finds and makes with options, each "key=value", laid over the defaults; `alloc` outlives it.
 * AW_ERR_CONFIG: an unknown option, or a value it cannot have. */
AW_NODISCARD enum aw_err aw_parallel_make(const char *name, const char *const *pairs,
                                          size_t pair_count, const struct aw_alloc *alloc,
                                          struct aw_parallel *ret_env, struct aw_diag *diag);
void aw_parallel_free(struct aw_parallel *env); /* zeroes it; a zeroed one is a no-op */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
