/*
 * store.h - where trajectories are kept: every finished step of every workload, for good.
 *
 * Call order: open a backend, then append per step and read in between; close.
 * Memory:     rows that are read are written into slices the caller owns.
 * Threads:    one owner per store.
 *
 * A row is known by (workload, episode, step). Appending the same row again is a no-op, so that a
 * run which is resumed from its last checkpoint may play its steps again; appending a different row
 * under the same key is AW_ERR_CONFLICT. An append that has returned AW_OK survives kill -9.
 *
 * A step is written when it is finished, and before the next decision: whatever dies, at most the
 * step in flight is lost.
 */
#ifndef AWARE_STORE_H
#define AWARE_STORE_H

#include <aware/err.h>

#define AW_STORE_NAME_MAX 128u /* bytes of a workload's name, with its NUL */
#define AW_STORE_OBS_MAX  1024u
#define AW_STORE_ACT_MAX  16u

/* AWARE Alg. 1. */
/* clang-format off */
/*     id            name           who acts  */
#define AW_STAGE_MAP(X)                                                                            \
    X(INITIALIZED,  "initialized")                                                                 \
    X(OFFLINE,      "offline")                                                                     \
    X(ONLINE,       "online")                                                                      \
    X(SERVING,      "serving")
/*     id            name  */
#define AW_ACTOR_MAP(X)                                                                            \
    X(FALLBACK,     "fallback")                                                                    \
    X(AGENT,        "agent")                                                                       \
    X(EXPLORING,    "exploring")                                                                   \
    X(NOBODY,       "nobody")
/* clang-format on */
enum aw_stage {
#define X(id, name) AW_STAGE_##id,
    AW_STAGE_MAP(X)
#undef X
        AW_STAGE_COUNT
};
enum aw_actor {
#define X(id, name) AW_ACTOR_##id,
    AW_ACTOR_MAP(X)
#undef X
        AW_ACTOR_COUNT
};

/* What the step was, beyond what a learner reads. NAN: not known. */
struct aw_store_figures {
    double arrivals_per_s;
    double latency_us_p99;
    double slo_preservation;
    double cpu_utilisation, memory_utilisation;
    double cost;         /* $ */
    double paper_reward; /* AWARE section 2.2, whatever the objective is */
    uint32_t replicas;   /* in force at the end */
    uint32_t violated;   /* 0 or 1 */
    int64_t cpu_millicores, memory_bytes;
};

struct aw_store_row {
    const char *workload;
    uint32_t episode, step; /* logical time, from 0 */
    int64_t at_us;          /* wall (or virtual) time of the decision */
    uint32_t stage;         /* enum aw_stage */
    uint32_t actor;         /* enum aw_actor */
    uint64_t model;         /* id of the policy that was asked; 0: none yet */
    uint32_t obs_dim, act_dim;
    const float *obs;      /* [obs_dim] what was seen */
    const float *action;   /* [act_dim] what was carried out, after guard rails */
    const float *shadow;   /* [act_dim] what the other one would have done; NULL: not asked */
    float reward;          /* of the objective in force */
    const float *next_obs; /* [obs_dim] */
    bool terminated, truncated;
    struct aw_store_figures figures;
};

#endif
