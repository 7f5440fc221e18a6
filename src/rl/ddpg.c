/* ddpg.c - DDPG: its table, its presets, and dpg.c with one critic. */
#include "rl/ddpg.h"

#include "nn/mlp.h"
#include "rl/dpg.h"
#include "rl/noise.h"

#define AW_CONF_OF struct aw_dpg_settings
static const struct aw_conf_field fields[] = {
    AW__DPG_FIELDS,
    AW__OFFPOLICY_FIELDS(struct aw_dpg_settings, "64", "1_000", "false"),
    {.key = NULL},
};

static const char *const aware_table2[] = {
    "hidden=40,40",
    "actor_lr=3e-4",
    "critic_lr=3e-3",
    "gamma=0.99",
    "tau=3e-3",
    "replay_capacity=1_000_000",
    "batch=64",
    "noise=ou",
    "noise_sigma=0.2",
    "noise_decay_steps=0",
    "epsilon=1",
    "epsilon_decay=1e-6",
    "warmup_steps=64",
    "actor_pretanh_penalty=0",
    NULL,
};

static const char *const firm_table33[] = {
    "hidden=40,40",
    "critic_action_layer=1",
    "actor_lr=3e-4",
    "critic_lr=3e-3",
    "gamma=0.9",
    "tau=2e-3",
    "replay_capacity=100_000",
    "batch=64",
    "noise=ou",
    "noise_sigma=0.2",
    "noise_theta=0.15",
    "noise_dt=0.01",
    "noise_decay_steps=0",
    "epsilon=1",
    "epsilon_decay=1e-6",
    "warmup_steps=70",
    "actor_pretanh_penalty=0",
    NULL,
};

static const struct aw_agent_preset presets[] = {
    {"aware-table2", "AWARE (ATC 2023), Table 2", aware_table2},
    {"firm-table3.3", "FIRM, Table 3.3, with the critic of its code", firm_table33},
    {"pendulum-v1", "tuned for pendulum-v1: -180 or better in 20 000 steps", aw__dpg_pendulum},
    {NULL, NULL, NULL},
};

static const struct aw_agent_ops ops = {
    .name = "ddpg",
    .act = aw__dpg_act,
    .observe = aw__dpg_observe,
    .learn = aw__dpg_learn,
    .save = aw__dpg_save,
    .load = aw__dpg_load,
    .free = aw__dpg_free,
};

static enum aw_err make(const struct aw_agent_shape *shape, const void *settings, uint64_t seed,
                        const struct aw_alloc *alloc, struct aw_agent *ret_agent,
                        struct aw_diag *diag)
{
    struct aw_dpg_settings own = *(const struct aw_dpg_settings *)settings;
    own.policy_delay = 1;
    own.target_noise = own.target_noise_clip = 0;
    return aw__dpg_make(&ops, fields, 1, shape, &own, seed, alloc, ret_agent, diag);
}

const struct aw_agent_factory aw_ddpg_factory = {
    .name = "ddpg",
    .summary = "deterministic policy gradient, off-policy (Lillicrap et al., 2016)",
    .fields = fields,
    .settings_bytes = sizeof(struct aw_dpg_settings),
    .presets = presets,
    .continuous = true,
    .make = make,
};
