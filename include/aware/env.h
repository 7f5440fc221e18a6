/*
 * env.h - what a learner may ask of an environment: a Gym-like contract in C.
 *
 * Call order: new (from a factory), reset, then step until terminated or truncated, then reset.
 * Memory:     all arrays belong to the caller. After new, nothing here allocates.
 * Threads:    one owner per environment; distinct environments may step on distinct threads.
 *
 * Terminated and truncated are different things. Terminated: the task ended, the value of what
 * follows is zero. Truncated: a clock ran out, and the value of what would have followed is still
 * the learner's business. Environments never reset themselves: the observation that `step` wrote is
 * the final one, and it stays until the caller resets.
 */
#ifndef AWARE_ENV_H
#define AWARE_ENV_H

#include <aware/err.h>
#include <aware/space.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

#define AW_ENV_DIM_MAX         4096u      /* elements of one observation or action */
#define AW_ENV_NAME_MAX        64u        /* bytes of a name, with its NUL */
#define AW_ENV_ADDRESS_MAX     512u       /* of what stands for a name: "grpc://host:port/NAME" */
#define AW_ENV_STATE_BYTES_MAX (1u << 20) /* of one snapshot */

struct aw_alloc;      /* where memory comes from (base/alloc.h); NULL is the process heap */
struct aw_conf_field; /* a table of settings (base/conf.h) */

struct aw_env_spec {
    const char *name;    /* "cartpole-v1": lower case, digits, dashes */
    const char *summary; /* one sentence for a list */
    struct aw_space observation;
    struct aw_space action;
    uint32_t episode_steps_max; /* truncated after so many steps; 0: never */
    float reward_low, reward_high;
    float solved_return;  /* mean episode return that counts as solved; NAN: none stated */
    uint32_t state_bytes; /* size of a snapshot, see state_save */
};

struct aw_step {
    float reward;
    bool terminated;
    bool truncated; /* may be set together with terminated; terminated then wins for learning */
};

struct aw_env_ops {
    /* Begins an episode drawn from `seed` alone; writes observation.dim floats to `obs`. */
    enum aw_err (*reset)(void *self, uint64_t seed, float *obs);

    /* Advances one step. `action` is action.dim floats; a box action beyond its bounds is clipped,
     * a discrete one out of range or any non-finite number is AW_ERR_RANGE and nothing moves.
     * Stepping an episode that has ended is a bug (AW_ASSERT). */
    enum aw_err (*step)(void *self, const float *action, float *obs, struct aw_step *ret);

    /* A snapshot of everything that decides the future, spec.state_bytes long, and its way back.
     * Same state, same bytes; same bytes, same future. Valid on the kind of machine that wrote it.
     * load refuses (AW_ERR_FORMAT) what save did not write, and then nothing changed.
     * AW_ERR_UNAVAILABLE: this is another program's, which cannot be put back. */
    void (*state_save)(const void *self, void *bytes);
    enum aw_err (*state_load)(void *self, const void *bytes);

    void (*free)(void *self); /* NULL is a no-op */
};

/* An environment in hand. Copy it freely; `self` is what is owned. */
struct aw_env {
    const struct aw_env_spec *spec; /* lives as long as `self` */
    const struct aw_env_ops *ops;   /* no slot is ever NULL */
    void *self;
};

/* How environments are made; the table of built-ins is a list of these. */
struct aw_env_factory {
    const struct aw_env_spec *spec; /* of an environment with default options */
    /* Makes an environment from `alloc`, which outlives it; `diag` may be NULL. */
    enum aw_err (*make)(const struct aw_alloc *alloc, struct aw_env *ret_env, struct aw_diag *diag);

    /* Options, for those that have them; else all three are 0. */
    const struct aw_conf_field *fields;
    size_t settings_bytes; /* of the struct that `fields` describes */
    /* The same with `settings`, which are copied. The environment's own spec may differ from the
     * factory's in spaces, episode length and rewards: read it from the environment. */
    enum aw_err (*make_with)(const void *settings, const struct aw_alloc *alloc,
                             struct aw_env *ret_env, struct aw_diag *diag);
};
#define AW_ENV_SETTINGS_BYTES_MAX 8192u

/* Environments that live elsewhere are named by an address, SCHEME://...; register a way to reach
 * them once, before threads are made. What `find` returns lives as long as the process, and its
 * spec's name is the address. No slot is ever NULL. */
struct aw_env_elsewhere {
    enum aw_err (*find)(const char *address, const struct aw_env_factory **ret_factory,
                        struct aw_diag *diag);
    /* As aw_env_fallback_name and aw_env_fallback, of any environment: "" and false for those that
     * it does not know. */
    const char *(*fallback_name)(const struct aw_env *env);
    bool (*fallback)(const struct aw_env *env, float *action);
};
void aw_env_elsewhere_set(const struct aw_env_elsewhere *elsewhere);

/* The built-in environments, ending with a NULL. */
const struct aw_env_factory *const *aw_env_builtin(void);
/* AW_ERR_NOTFOUND with a diagnostic that names what there is and the nearest name. */
AW_NODISCARD enum aw_err aw_env_find(const char *name, const struct aw_env_factory **ret_factory,
                                     struct aw_diag *diag);
/* Finds and makes, from the process heap. */
AW_NODISCARD enum aw_err aw_env_make(const char *name, struct aw_env *ret_env,
                                     struct aw_diag *diag);
/* Finds and makes with options, each "key=value", laid over the defaults; `alloc` outlives it.
 * AW_ERR_CONFIG: an unknown option, or a value it cannot have. */
AW_NODISCARD enum aw_err aw_env_make_with(const char *name, const char *const *pairs,
                                          size_t pair_count, const struct aw_alloc *alloc,
                                          struct aw_env *ret_env, struct aw_diag *diag);
/* Defaults, then the pairs, into `settings` of factory->settings_bytes; what make_with takes. */
AW_NODISCARD enum aw_err aw_env_settings(const struct aw_env_factory *factory,
                                         const char *const *pairs, size_t pair_count,
                                         void *settings, struct aw_diag *diag);
/* The agent that an environment brings along and that needs no learning: a rule, a heuristic, what
 * one ran before. Its name, "" where there is none; and what it would do now, action.dim floats
 * that a step takes. False: it has not said. */
const char *aw_env_fallback_name(const struct aw_env *env);
bool aw_env_fallback(const struct aw_env *env, float *action);
void aw_env_free(struct aw_env *env); /* zeroes it; a zeroed one is a no-op */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
