/*
 * dpg.h - the deterministic policy gradient behind DDPG and TD3.
 *
 * DDPG is TD3 with one critic, no delay and no smoothing (Fujimoto et al., 2018), so both are this
 * learner with other settings; ddpg.c and td3.c hold only their tables and presets. The equations
 * are in docs/algorithms/ddpg.md and td3.md.
 *
 * Memory:  sized at make. act, observe and learn never allocate.
 * Threads: single owner.
 */
#ifndef AW_RL_DPG_H
#define AW_RL_DPG_H

#include "rl/agents.h"
#include "rl/offpolicy.h"

#define AW_DPG_CRITICS_MAX 2u

struct aw_dpg_settings {
    struct aw_offpolicy_settings base;
    struct aw_conf_u32_list hidden;
    uint32_t critic_action_layer;
    float final_init;
    float actor_lr, critic_lr;
    float weight_decay;
    float actor_pretanh_penalty;
    float imitate;
    uint32_t imitate_steps;
    uint32_t noise; /* enum aw_noise_kind */
    float noise_sigma, noise_sigma_end;
    uint32_t noise_decay_steps;
    float noise_theta, noise_dt;
    double epsilon, epsilon_end, epsilon_decay;
    uint32_t policy_delay;
    float target_noise, target_noise_clip;
};

/* A preset of both, and the rows that both tables share. */
extern const char *const aw__dpg_pendulum[];
/* clang-format off */
#define AW__DPG_FIELDS                                                                            \
    AW_CONF_NUMBER(hidden, "64,64", 1, AW_MLP_WIDTH_MAX,                                          \
        "Widths of the hidden layers of actor and critic, ReLU between."),                        \
    AW_CONF_NUMBER(critic_action_layer, "0", 0, 1,                                                \
        "Layer of the critic at which the action joins: 0 the input, 1 the second layer "         \
        "(Lillicrap et al., 2016)."),                                                             \
    AW_CONF_NUMBER(final_init, "3e-3", 0, 1,                                                      \
        "The last layers begin uniformly within plus or minus this (Lillicrap et al., 2016); "    \
        "0: as the others."),                                                                     \
    AW_CONF_NUMBER(actor_lr, "1e-3", 0, 1, "Adam's learning rate of the actor."),                 \
    AW_CONF_NUMBER(critic_lr, "1e-3", 0, 1, "Adam's learning rate of the critic."),               \
    AW_CONF_NUMBER(weight_decay, "0", 0, 1,                                                       \
        "L2 penalty on the critic's weights (Lillicrap et al. use 1e-2)."),                       \
    AW_CONF_NUMBER(actor_pretanh_penalty, "1e-3", 0, 10,                                          \
        "Weight of the squared outputs before the tanh in the actor's loss; keeps the actor "     \
        "out of saturation, where it cannot learn any more. 0: off, as in the papers."),          \
    AW_CONF_NUMBER(imitate, "0", 0, 1000,                                                         \
        "Weight of staying near the actions that were seen, in units of mean |Q|, for a run "     \
        "that begins with someone else's episodes (Fujimoto and Gu, 2021: 0.4). 0: off."),       \
    AW_CONF_NUMBER(imitate_steps, "0", 0, 1e9,                                                    \
        "Environment steps over which that weight fades to nothing; 0: it stays."),               \
    AW_CONF_ONE_OF(noise, "gaussian", aw_noise_kind_names,                                        \
        "Exploration noise on actions scaled to [-1, 1]."),                                       \
    AW_CONF_NUMBER(noise_sigma, "0.2", 0, 10,                                                     \
        "Its deviation (ou: of the driving noise) at the start."),                                \
    AW_CONF_NUMBER(noise_sigma_end, "0.1", 0, 10, "Its deviation after noise_decay_steps."),      \
    AW_CONF_NUMBER(noise_decay_steps, "10_000", 0, 1e9,                                           \
        "Environment steps over which the deviation goes from start to end; 0: the start's "      \
        "for ever."),                                                                             \
    AW_CONF_NUMBER(noise_theta, "0.15", 0, 100,                                                   \
        "ou: pull towards 0 per time unit (Lillicrap et al., 2016)."),                            \
    AW_CONF_NUMBER(noise_dt, "0.01", 1e-6, 10, "ou: time units of one step."),                    \
    AW_CONF_NUMBER(epsilon, "1", 0, 1,                                                            \
        "Exploration factor on the noise at the start (AWARE, Table 2)."),                        \
    AW_CONF_NUMBER(epsilon_end, "0", 0, 1, "The factor never falls below this."),                 \
    AW_CONF_NUMBER(epsilon_decay, "0", 0, 1,                                                      \
        "Taken off the factor at every update (AWARE, Table 2: 1e-6).")
/* clang-format on */

/* Makes one; `settings` are copied. `critic_count` 1: tensors critic.*, 2: critic1.*, critic2.*. */
AW_NODISCARD enum aw_err aw__dpg_make(const struct aw_agent_ops *ops,
                                      const struct aw_conf_field *fields, uint32_t critic_count,
                                      const struct aw_agent_shape *shape,
                                      const struct aw_dpg_settings *settings, uint64_t seed,
                                      const struct aw_alloc *alloc, struct aw_agent *ret_agent,
                                      struct aw_diag *diag);

enum aw_err aw__dpg_act(void *self, const float *obs, uint32_t count, bool explore, float *action);
enum aw_err aw__dpg_observe(void *self, const struct aw_transition *transition);
enum aw_err aw__dpg_learn(void *self, struct aw_learn_stats *stats);
enum aw_err aw__dpg_save(void *self, const char *dir, bool resumable, struct aw_diag *diag);
enum aw_err aw__dpg_load(void *self, const char *dir, bool resumable, struct aw_diag *diag);
void aw__dpg_free(void *self);

#endif
