/* verbs.h - every verb, each in its own file; the table that lists them is in verbs.c. */
#ifndef AW_CLI_VERBS_H
#define AW_CLI_VERBS_H

#include "cli/verb.h"

extern const struct aw__verb aw__verb_run;
extern const struct aw__verb aw__verb_get;
extern const struct aw__verb aw__verb_describe;
extern const struct aw__verb aw__verb_top;
extern const struct aw__verb aw__verb_explain;
extern const struct aw__verb aw__verb_history;
extern const struct aw__verb aw__verb_undo;
extern const struct aw__verb aw__verb_approve;
extern const struct aw__verb aw__verb_reject;
extern const struct aw__verb aw__verb_freeze;
extern const struct aw__verb aw__verb_unfreeze;
extern const struct aw__verb aw__verb_emergency;
extern const struct aw__verb aw__verb_calm;
extern const struct aw__verb aw__verb_budget;
extern const struct aw__verb aw__verb_diff;
extern const struct aw__verb aw__verb_replay;
extern const struct aw__verb aw__verb_export;
extern const struct aw__verb aw__verb_state_show;
extern const struct aw__verb aw__verb_state_export;
extern const struct aw__verb aw__verb_state_reset;
extern const struct aw__verb aw__verb_policy_show;
extern const struct aw__verb aw__verb_policy_export;
extern const struct aw__verb aw__verb_policy_propose;
extern const struct aw__verb aw__verb_policy_rollback;
extern const struct aw__verb aw__verb_train;
extern const struct aw__verb aw__verb_eval;
extern const struct aw__verb aw__verb_pretrain;
extern const struct aw__verb aw__verb_adapt;
extern const struct aw__verb aw__verb_embed;
extern const struct aw__verb aw__verb_env_list;
extern const struct aw__verb aw__verb_env_describe;
extern const struct aw__verb aw__verb_env_check;
extern const struct aw__verb aw__verb_env_serve;
extern const struct aw__verb aw__verb_agent_list;
extern const struct aw__verb aw__verb_agent_describe;
extern const struct aw__verb aw__verb_agent_serve;
extern const struct aw__verb aw__verb_bench;
extern const struct aw__verb aw__verb_chaos;
extern const struct aw__verb aw__verb_simulate;
extern const struct aw__verb aw__verb_simulate_fit;
extern const struct aw__verb aw__verb_simulate_calibrate;
extern const struct aw__verb aw__verb_calibrate;
extern const struct aw__verb aw__verb_evaluate;
extern const struct aw__verb aw__verb_experiment;
extern const struct aw__verb aw__verb_fallback_check;
extern const struct aw__verb aw__verb_apps_generate;
extern const struct aw__verb aw__verb_apps_describe;
extern const struct aw__verb aw__verb_load;
extern const struct aw__verb aw__verb_load_show;
extern const struct aw__verb aw__verb_load_list;
extern const struct aw__verb aw__verb_trial;
extern const struct aw__verb aw__verb_local_clean;
extern const struct aw__verb aw__verb_controller;
extern const struct aw__verb aw__verb_doctor;
extern const struct aw__verb aw__verb_scan;
extern const struct aw__verb aw__verb_store_list;
extern const struct aw__verb aw__verb_store_export;
extern const struct aw__verb aw__verb_store_import;
extern const struct aw__verb aw__verb_store_prune;
extern const struct aw__verb aw__verb_audit_verify;
extern const struct aw__verb aw__verb_audit_show;
extern const struct aw__verb aw__verb_validate;
extern const struct aw__verb aw__verb_explain_schema;
extern const struct aw__verb aw__verb_completion;
extern const struct aw__verb aw__verb_version;
extern const struct aw__verb aw__verb_help;
extern const struct aw__verb aw__verb_man;       /* hidden: __man */
extern const struct aw__verb aw__verb_reference; /* hidden: __reference */

/* The verb of exactly this name; NULL: none, or only a group. */
const struct aw__verb *aw__verb_named(const char *name);

#endif
