/*
 * parallel_check.h - does an environment of many agents keep the contract of <aware/parallel.h>?
 * Finds what a team of learners would otherwise learn around: seeds that leak, agents that come
 * back, rows that are written beyond the end, masks that forbid everything.
 *
 * Call order: make the environment, check it, look at the findings, free it (or reset and use it).
 * Memory:     one block, freed before returning. Findings go into the caller's array.
 * Threads:    single owner of the environment. Nothing is printed; same seed, same findings.
 *
 * A rule is reported once, with the first thing that broke it.
 */
#ifndef AW_MULTI_PARALLEL_CHECK_H
#define AW_MULTI_PARALLEL_CHECK_H

#include <aware/parallel.h>

#include "base/alloc.h"

/* clang-format off */
/*    rule               error?  name, and below it what it demands */
#define AW_PARALLEL_CHECK_MAP(X)                                                                  \
    X(FUNCTIONS,         true,  "functions",                                                      \
      "every function of the contract is there")                                                  \
    X(NAME,              true,  "name",                                                           \
      "the name is lower case letters, digits and dashes, and there is a summary")                \
    X(SPACE,             true,  "space",                                                          \
      "spaces and the number of agents are legal, and every element has a name and a unit")       \
    X(RESET,             true,  "reset",                                                          \
      "reset succeeds for any seed, and someone is live")                                        \
    X(STEP,              true,  "step",                                                           \
      "allowed actions are carried out")                                                          \
    X(FLAGS,             true,  "flags",                                                          \
      "who is live joined or was live, who ended is not live, and who is gone is gone")           \
    X(REVIVED,           true,  "revived",                                                        \
      "an agent that ended does not come back in the same episode")                               \
    X(OBSERVATION,       true,  "observation",                                                    \
      "what an agent sees lies in the observation space")                                         \
    X(CONTEXT,           true,  "context",                                                        \
      "what its critic sees lies in the space of the context")                                    \
    X(MASK,              true,  "mask",                                                           \
      "an agent that is live has a choice that is allowed, and masks are 0 or 1")                 \
    X(REWARD,            true,  "reward",                                                         \
      "rewards are finite and within the stated range, and 0 for who joins")                      \
    X(TRUNCATION,        true,  "truncation",                                                     \
      "all that are left are truncated at episode_steps_max, and nobody before")                  \
    X(OVERRUN,           true,  "overrun",                                                        \
      "nothing is written beyond the end of the caller's arrays, nor into rows of the absent")    \
    X(SEED,              true,  "seed",                                                           \
      "the same seed and actions give the same episode, whatever was played before")              \
    X(ABSENT_ACTION,     true,  "absent-action",                                                  \
      "actions of agents that are not live are not read")                                         \
    X(ACTION_REFUSED,    true,  "action-refused",                                                 \
      "an action that is not finite or no choice is AW_ERR_RANGE")                                \
    X(ACTION_STILL,      true,  "action-still",                                                   \
      "a refused step moves and writes nothing")                                                  \
    X(CHANCE,            false, "chance",                                                         \
      "different seeds give different episodes")
/* clang-format on */

enum aw_parallel_check_rule {
#define X(id, error, name, demand) AW_PARALLEL_CHECK_##id,
    AW_PARALLEL_CHECK_MAP(X)
#undef X
        AW_PARALLEL_CHECK_RULES
};

#define AW_PARALLEL_CHECK_TEXT_MAX 256 /* bytes of a finding's sentence, with its NUL */

struct aw_parallel_finding {
    enum aw_parallel_check_rule rule;
    bool error;                            /* else a warning: allowed, but most likely not meant */
    char text[AW_PARALLEL_CHECK_TEXT_MAX]; /* what was expected and what was found */
};

const char *aw_parallel_check_rule_name(enum aw_parallel_check_rule rule); /* "revived" */

/* Writes at most AW_PARALLEL_CHECK_RULES findings. AW_OK when the check ran, whatever it found;
 * AW_ERR_NOMEM (nothing written) when it could not. Reset the environment before use. */
AW_NODISCARD enum aw_err aw_parallel_check(const struct aw_parallel *env, uint64_t seed,
                                           const struct aw_alloc *alloc,
                                           struct aw_parallel_finding *findings,
                                           uint32_t *ret_count);

#endif
