/*
 * check.h - does an environment keep the contract of <aware/env.h>? Finds what a learner would
 * otherwise learn around: leaking seeds, hidden resets, lost final observations, silent clipping.
 *
 * Call order: make the environment, check it, look at the findings, free it (or reset and use it).
 * Memory:     one block, freed before returning. Findings go into the caller's array.
 * Threads:    single owner of the environment. Nothing is printed; same seed, same findings.
 *
 * A rule is reported once, with the first thing that broke it. Rules that stand on a broken one are
 * skipped, so that one fault yields one finding. What cannot be seen from outside is not checked:
 * an environment that resets itself to a fresh episode is caught only if it shows that episode's
 * seed.
 */
#ifndef AW_ENV_CHECK_H
#define AW_ENV_CHECK_H

#include <aware/env.h>

#include "base/alloc.h"

enum aw_env_check_level {
    AW_ENV_CHECK_ERROR, /* the contract is broken */
    AW_ENV_CHECK_WARN,  /* allowed, but most likely not meant, or could not be checked */
};

/* clang-format off */
/*    rule                level  name, and below it what it demands */
#define AW_ENV_CHECK_MAP(X)                                                                       \
    X(FUNCTIONS,          ERROR, "functions",                                                     \
      "every function of the contract is there")                                                  \
    X(NAME,               ERROR, "name",                                                          \
      "the name is lower case letters, digits and dashes, and there is a summary")                \
    X(SPACE,              ERROR, "space",                                                         \
      "both spaces have a legal number of elements or choices, each with a name "                 \
      "and a unit")                                                                               \
    X(BOUNDS,             ERROR, "bounds",                                                        \
      "no lower bound is above its upper one, and those of actions are finite")                   \
    X(REWARD_BOUNDS,      ERROR, "reward-bounds",                                                 \
      "the stated lowest reward is not above the highest")                                        \
    X(STATE_BYTES,        ERROR, "state-bytes",                                                   \
      "a snapshot has a size, and not more than the limit")                                       \
    X(RESET,              ERROR, "reset",                                                         \
      "reset succeeds for any seed")                                                              \
    X(RESET_OBSERVATION,  ERROR, "reset-observation",                                             \
      "the first observation lies in its space")                                                  \
    X(STEP,               ERROR, "step",                                                          \
      "an action from the space is carried out")                                                  \
    X(STEP_OBSERVATION,   ERROR, "step-observation",                                              \
      "what a step shows lies in the observation space")                                          \
    X(REWARD,             ERROR, "reward",                                                        \
      "rewards are finite and within the stated range")                                           \
    X(OVERRUN,            ERROR, "overrun",                                                       \
      "nothing is written beyond the end of the caller's arrays")                                 \
    X(TRUNCATION,         ERROR, "truncation",                                                    \
      "an episode is truncated at episode_steps_max, not before and not after")                   \
    X(FINAL_OBSERVATION,  ERROR, "final-observation",                                             \
      "the last step shows where the episode ended, not where the next one begins")               \
    X(SEED,               ERROR, "seed",                                                          \
      "the same seed and actions give the same episode, whatever was played before")              \
    X(CHANCE,             WARN,  "chance",                                                        \
      "different seeds give different episodes")                                                  \
    X(SNAPSHOT,           ERROR, "snapshot",                                                      \
      "a snapshot brings back the same future, and the same state the same bytes")                \
    X(SNAPSHOT_NONE,      WARN,  "snapshot-none",                                                 \
      "the environment can be put back to where it was")                                          \
    X(SNAPSHOT_FOREIGN,   ERROR, "snapshot-foreign",                                              \
      "bytes that are no snapshot are refused, and nothing changes")                              \
    X(SNAPSHOT_DAMAGED,   WARN,  "snapshot-damaged",                                              \
      "a snapshot with a flipped bit is refused")                                                 \
    X(ACTION_REFUSED,     ERROR, "action-refused",                                                \
      "a non-finite action or a choice that does not exist is AW_ERR_RANGE")                      \
    X(ACTION_STILL,       ERROR, "action-still",                                                  \
      "a refused action moves and writes nothing")                                                \
    X(ACTION_CLIPPED,     ERROR, "action-clipped",                                                \
      "a box action beyond a bound does what the bound itself does")                              \
    X(TRUNCATION_UNSEEN,  WARN,  "truncation-unseen",                                             \
      "some episode lives long enough to be truncated")
/* clang-format on */

enum aw_env_check_rule {
#define X(id, level, name, demand) AW_ENV_CHECK_RULE_##id,
    AW_ENV_CHECK_MAP(X)
#undef X
        AW_ENV_CHECK_RULE_COUNT
};

#define AW_ENV_CHECK_TEXT_MAX 256 /* bytes of a finding's sentence, with its NUL */

struct aw_env_finding {
    enum aw_env_check_level level;
    enum aw_env_check_rule rule;
    char text[AW_ENV_CHECK_TEXT_MAX]; /* one sentence: what was expected and what was found */
};

const char *aw_env_check_rule_name(enum aw_env_check_rule rule); /* "final-observation" */

/* Writes at most `max` findings; AW_ENV_CHECK_RULE_COUNT always suffices. Returns AW_OK when the
 * check ran, whatever it found, and AW_ERR_NOMEM (nothing written) when it could not. Afterwards
 * the environment is in no particular episode: reset it before use. */
AW_NODISCARD enum aw_err aw_env_check(const struct aw_env *env, uint64_t seed,
                                      const struct aw_alloc *alloc, struct aw_env_finding *findings,
                                      uint32_t max, uint32_t *ret_count);

#endif
