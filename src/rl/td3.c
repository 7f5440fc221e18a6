/* td3.c - TD3: its table, its preset, and dpg.c with two critics. */
#include "rl/td3.h"

#include "nn/mlp.h"
#include "rl/dpg.h"
#include "rl/noise.h"

#define AW_CONF_OF struct aw_dpg_settings
static const struct aw_conf_field fields[] = {
    AW__DPG_FIELDS,
    AW_CONF_NUMBER(
        policy_delay, "2", 1, 1000,
        "Updates of the critics for one of the actor and the targets (Fujimoto et al., 2018)."),
    AW_CONF_NUMBER(target_noise, "0.2", 0, 10,
                   "Deviation of the noise on the target's action (Fujimoto et al., 2018)."),
    AW_CONF_NUMBER(target_noise_clip, "0.5", 0, 10,
                   "That noise is cut at plus or minus this (Fujimoto et al., 2018)."),
    AW__OFFPOLICY_FIELDS(struct aw_dpg_settings, "64", "1_000", "false"),
    {.key = NULL},
};

static const struct aw_agent_preset presets[] = {
    {"pendulum-v1", "tuned for pendulum-v1: -180 or better in 20 000 steps", aw__dpg_pendulum},
    {NULL, NULL, NULL},
};

static const struct aw_agent_ops ops = {
    .name = "td3",
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
    return aw__dpg_make(&ops, fields, 2, shape, settings, seed, alloc, ret_agent, diag);
}

const struct aw_agent_factory aw_td3_factory = {
    .name = "td3",
    .summary = "twin critics, delayed policy, smoothed targets (Fujimoto et al., 2018)",
    .fields = fields,
    .settings_bytes = sizeof(struct aw_dpg_settings),
    .presets = presets,
    .continuous = true,
    .make = make,
};
