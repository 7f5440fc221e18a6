/*
 * stage.h - how far a workload's policy has come (AWARE Alg. 1), and which controller acted in a
 * step.
 *
 * Memory:  names are static.
 * Threads: pure functions of their arguments.
 */
#ifndef AWARE_STAGE_H
#define AWARE_STAGE_H

#include <aware/err.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

/* AWARE Alg. 1. */
/* clang-format off */
/*     id            name  */
#define AW_STAGE_MAP(X)                                                                            \
    X(INITIALIZED,  "initialized")                                                                 \
    X(OFFLINE,      "offline")                                                                     \
    X(ONLINE,       "online")                                                                      \
    X(SERVING,      "serving")
/* Which controller acted. */
/*     id            name  */
#define AW_ACTOR_MAP(X)                                                                            \
    X(FALLBACK,     "fallback")                                                                    \
    X(AGENT,        "agent")                                                                       \
    X(EXPLORING,    "exploring")                                                                   \
    X(NOBODY,       "nobody")                                                                      \
    X(PERSON,       "person")
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
const char *aw_stage_name(uint32_t stage); /* "offline"; NULL for what is no stage */
const char *aw_actor_name(uint32_t actor); /* "agent"; NULL for what is no actor */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
