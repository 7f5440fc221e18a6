/*
 * noise.h - exploration: Ornstein-Uhlenbeck and Gaussian noise, and what fades with time.
 *
 * Noise is in the learner's units, where every action lies in [-1, 1], one process per environment
 * and action.
 *
 * Call order: init, then per step sample; reset an environment when its episode ends; deinit.
 * Memory:     one block, sized at init. Nothing else allocates.
 * Threads:    single owner. Chance comes from the caller's generator.
 */
#ifndef AW_RL_NOISE_H
#define AW_RL_NOISE_H

#include "base/alloc.h"
#include "base/rng.h"
#include "rl/persist.h"

enum aw_noise_kind {
    AW_NOISE_NONE,
    AW_NOISE_OU,       /* correlated in time (Uhlenbeck and Ornstein, 1930) */
    AW_NOISE_GAUSSIAN, /* independent from step to step */
};
extern const char *const aw_noise_kind_names[]; /* "none", "ou", "gaussian"; ends with NULL */

struct aw_noise {
    enum aw_noise_kind kind;
    uint32_t env_count, act_dim;
    float sigma; /* OU: of the driving noise, per sqrt(time unit); Gaussian: deviation */
    float mu;    /* OU: where it is drawn to */
    float theta; /* OU: how strongly, per time unit */
    float dt;    /* OU: time units of one step */
    float *x;    /* OU: [env_count][act_dim], where each process stands */
    const struct aw_alloc *alloc;
};

struct aw_noise_config {
    enum aw_noise_kind kind;
    uint32_t env_count, act_dim;
    float sigma, mu, theta, dt;
};

AW_NODISCARD enum aw_err aw_noise_init(struct aw_noise *noise, const struct aw_noise_config *config,
                                       const struct aw_alloc *alloc);
void aw_noise_deinit(struct aw_noise *noise);

/* Writes act_dim numbers for environment `env`; OU moves on: x += theta (mu - x) dt +
 * sigma sqrt(dt) N(0, 1). */
void aw_noise_sample(struct aw_noise *noise, uint32_t env, struct aw_rng *rng, float *ret_noise);
/* A new episode begins at mu. */
void aw_noise_reset(struct aw_noise *noise, uint32_t env);
/* STATE part NAME. */
void aw_noise_persist(struct aw_noise *noise, struct aw_persist *persist, const char *name);

/* What fades with time, exact at the ends and defined for every t: from start at t = 0 straight to
 * end at t = duration and there after; duration 0: end at once. */
double aw_schedule_linear(double start, double end, double duration, double t);

#endif
