/* verbs.h - every verb, each in its own file; the table that lists them is in verbs.c. */
#ifndef AW_FRAME_VERBS_H
#define AW_FRAME_VERBS_H

#include "frame/verb.h"

extern const struct aw_verb aw_verb_run;
extern const struct aw_verb aw_verb_get;
extern const struct aw_verb aw_verb_describe;
extern const struct aw_verb aw_verb_top;
extern const struct aw_verb aw_verb_capacity;
extern const struct aw_verb aw_verb_explain;
extern const struct aw_verb aw_verb_history;
extern const struct aw_verb aw_verb_undo;
extern const struct aw_verb aw_verb_approve;
extern const struct aw_verb aw_verb_reject;
extern const struct aw_verb aw_verb_freeze;
extern const struct aw_verb aw_verb_unfreeze;
extern const struct aw_verb aw_verb_emergency;
extern const struct aw_verb aw_verb_calm;
extern const struct aw_verb aw_verb_budget;
extern const struct aw_verb aw_verb_diff;
extern const struct aw_verb aw_verb_replay;
extern const struct aw_verb aw_verb_export;
extern const struct aw_verb aw_verb_state_show;
extern const struct aw_verb aw_verb_state_export;
extern const struct aw_verb aw_verb_state_reset;
extern const struct aw_verb aw_verb_policy_show;
extern const struct aw_verb aw_verb_policy_export;
extern const struct aw_verb aw_verb_policy_propose;
extern const struct aw_verb aw_verb_policy_rollback;
extern const struct aw_verb aw_verb_train;
extern const struct aw_verb aw_verb_eval;
extern const struct aw_verb aw_verb_pretrain;
extern const struct aw_verb aw_verb_adapt;
extern const struct aw_verb aw_verb_embed;
extern const struct aw_verb aw_verb_pretrain_library;
extern const struct aw_verb aw_verb_pretrain_multi;
extern const struct aw_verb aw_verb_env_list;
extern const struct aw_verb aw_verb_env_describe;
extern const struct aw_verb aw_verb_env_check;
extern const struct aw_verb aw_verb_env_serve;
extern const struct aw_verb aw_verb_agent_list;
extern const struct aw_verb aw_verb_agent_describe;
extern const struct aw_verb aw_verb_agent_serve;
extern const struct aw_verb aw_verb_size;
extern const struct aw_verb aw_verb_frequency_probe;
extern const struct aw_verb aw_verb_frequency_run;
extern const struct aw_verb aw_verb_frequency_restore;
extern const struct aw_verb aw_verb_congestion_wire;
extern const struct aw_verb aw_verb_task_list;
extern const struct aw_verb aw_verb_task_describe;
extern const struct aw_verb aw_verb_task_train;
extern const struct aw_verb aw_verb_task_meet;
extern const struct aw_verb aw_verb_task_compare;
extern const struct aw_verb aw_verb_task_evaluate;
extern const struct aw_verb aw_verb_chaos;
extern const struct aw_verb aw_verb_simulate;
extern const struct aw_verb aw_verb_simulate_fit;
extern const struct aw_verb aw_verb_simulate_surrogate;
extern const struct aw_verb aw_verb_calibrate;
extern const struct aw_verb aw_verb_evaluate;
extern const struct aw_verb aw_verb_experiment;
extern const struct aw_verb aw_verb_apps_generate;
extern const struct aw_verb aw_verb_apps_describe;
extern const struct aw_verb aw_verb_load;
extern const struct aw_verb aw_verb_load_show;
extern const struct aw_verb aw_verb_load_list;
extern const struct aw_verb aw_verb_serving_plan;
extern const struct aw_verb aw_verb_serving_profile;
extern const struct aw_verb aw_verb_serving_validate;
extern const struct aw_verb aw_verb_trial;
extern const struct aw_verb aw_verb_local_clean;
extern const struct aw_verb aw_verb_controller;
extern const struct aw_verb aw_verb_doctor;
extern const struct aw_verb aw_verb_scan;
extern const struct aw_verb aw_verb_recommend;
extern const struct aw_verb aw_verb_store_list;
extern const struct aw_verb aw_verb_store_export;
extern const struct aw_verb aw_verb_store_import;
extern const struct aw_verb aw_verb_store_prune;
extern const struct aw_verb aw_verb_inject;
extern const struct aw_verb aw_verb_trace_import;
extern const struct aw_verb aw_verb_trace_collect;
extern const struct aw_verb aw_verb_trace_list;
extern const struct aw_verb aw_verb_trace_show;
extern const struct aw_verb aw_verb_trace_path;
extern const struct aw_verb aw_verb_trace_graph;
extern const struct aw_verb aw_verb_trace_culprits;
extern const struct aw_verb aw_verb_trace_evaluate;
extern const struct aw_verb aw_verb_trace_learn;
extern const struct aw_verb aw_verb_serving_proxy;
extern const struct aw_verb aw_verb_serving_standin;
extern const struct aw_verb aw_verb_gpu_list;
extern const struct aw_verb aw_verb_gpu_probe;
extern const struct aw_verb aw_verb_gpu_watch;
extern const struct aw_verb aw_verb_gpu_reset;
extern const struct aw_verb aw_verb_gpu_helper;
extern const struct aw_verb aw_verb_audit_verify;
extern const struct aw_verb aw_verb_audit_show;
extern const struct aw_verb aw_verb_validate;
extern const struct aw_verb aw_verb_explain_schema;
extern const struct aw_verb aw_verb_completion;
extern const struct aw_verb aw_verb_version;
extern const struct aw_verb aw_verb_help;
extern const struct aw_verb aw__verb_man;       /* hidden: __man */
extern const struct aw_verb aw__verb_reference; /* hidden: __reference */

/* The verb of exactly this name; NULL: none, or only a group. */
const struct aw_verb *aw_verb_named(const char *name);

#endif
