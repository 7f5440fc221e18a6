/*
 * pilot_fields.c - the settings of a pilot: every one in one row, that says its default and how it
 * is kept.
 *
 * What is kept (the journal, the log) must come back to the same bits: thresholds that are not
 * given are NAN, and no bound is tighter than what a profile lets through.
 */
#include "control/pilot_internal.h"

#include <math.h>

/* clang-format off */
#define AW_CONF_OF struct aw_pilot_config
#define ROW(marks, member, initial, max, help) \
    AW_CONF_MARKED(AW_CONF_OF, #member, member, initial, 0, max, help, marks)
#define REAL(marks, member, initial, help) REAL_AS(marks, #member, member, initial, help)
#define REAL_AS(marks, key, member, initial, help) \
    AW_CONF_MARKED(AW_CONF_OF, key, member, initial, -INFINITY, INFINITY, help, marks)
#define ASKS AW_PILOT_ASKS

static const struct aw_conf_field plain[] = {
    ROW(0, name, "", AW_STORE_NAME_MAX, "the workload"),
    AW_BOUNDS_FIELDS
    ROW(0, controlled, "0", AW_PLAN_ALL, "AW_PLAN_*: what may be changed at all"),
    REAL(ASKS, slo.latency_us_p99, "0", "target of the latency at the quantile; 0: none"),
    REAL(ASKS, slo.throughput_per_s, "0", "requests/s to serve; 0: no such target"),
    REAL(ASKS, slo.timeout_us, "30e6", "latency of a request that is never answered"),
    REAL_AS(ASKS, "slo_quantile", slo.quantile, "0.99", "of the latency: 0.5, 0.95 or 0.99"),
    REAL(ASKS, slo_budget, "0.01", "share of steps that may miss the SLO"),
    ROW(ASKS, objective, "0", AW_OBJECTIVE_PAPER, "enum aw_objective_kind"),
    REAL(ASKS, slo_weight, "0.5", "a of the paper's reward"),
#define X(id, member, name, unit, most, common, restarts, use, words, noun, up, down, low, high,   \
          step, lot, lots, lot_name, price)                                                        \
    REAL(ASKS, prices.lot##_hour, price, "$ of " lot_name),
    AW_SIZE_MAP(X)
#undef X
    REAL(ASKS, step_s, "15", "seconds between decisions"),
    REAL(0, stale_s, "120", "seconds after which a figure counts as missing"),
    ROW(ASKS, episode_steps, "100", 0, "steps of an episode"),
    ROW(ASKS, state, "0", AW_STATE_PAPER, "enum aw_state_preset"),
    ROW(ASKS, mapping, "0", AW_ACTION_ABSOLUTE, "enum aw_action_mapping"),
    ROW(ASKS, learning, "true", 0, "false: the fallback alone, for ever"),
    ROW(0, retrain, "true", 0, "false: what serves serves for ever"),
    ROW(ASKS, agent, "0", AW_POLICY_EXTERNAL, "enum aw_policy_kind"),
    REAL(0, explore_sigma, "0.1", "how far exploring departs from the policy"),
    ROW(0, explore_hold, "4", 0, "steps for which one departure lasts"),
    REAL(ASKS, lambda, "10", "weight of the SLO to begin with, and in every score"),
    REAL(0, level, "0.8", "of the interval that the step to ONLINE asks"),
    ROW(0, seed, "0", 0, "of the workload's chance"),
    REAL(0, thresholds.online, "nan", "see struct aw_lifecycle_thresholds"),
    REAL(0, thresholds.serving, "nan", "likewise"),
    REAL(0, thresholds.deviation, "nan", "likewise"),
#define X(id, member, ...) \
    AW_CONF_MARKED(AW_CONF_OF, "node_" #member, node.member, "0", 0, 0x1p62, "of a node", 0),
    AW_SIZE_MAP(X)
#undef X
    ROW(0, in_place, "false", 0, "the cluster changes sizes without a restart"),
    {0},
};

const struct aw_conf_part aw_pilot_fields[] = {
    {"config", 0, plain},
#define PART(key, member, fields) {key, offsetof(struct aw_pilot_config, member), fields}
    PART("fallback", fallback, aw_fallback_fields),
    PART("guard", guard, aw_guard_fields),
    PART("watchdog", watchdog, aw_watchdog_fields),
    PART("lifecycle", lifecycle, aw_lifecycle_fields),
    PART("learner", learner, aw_learner_fields),
    PART("ope", learner.ope, aw_ope_fields),
    PART("rehearse", rehearse, aw_rehearse_fields),
    PART("canary", canary, aw_canary_fields),
    PART("relief", relief, aw_relief_fields),
    PART("external", external, aw_external_agent_fields),
    {0},
};
/* clang-format on */
