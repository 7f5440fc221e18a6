/*
 * governor.h - who chooses a frequency, without learning: Linux's governors, and rules that fit.
 *
 * Call order: reset once per episode, then next for each second.
 * Memory:     struct aw_governor_state, the caller's. Threads: pure functions of their arguments.
 */
#ifndef AW_FREQUENCY_GOVERNOR_H
#define AW_FREQUENCY_GOVERNOR_H

#include "frequency/machine.h"

struct aw_governor_state {
    const struct aw_processor *processor;
    uint32_t level, second;
    float first[AW_FREQUENCY_OBS]; /* two-point fit: what was seen at the first frequency */
    double cycles, memory_ns;      /* and what it fitted: c and m, */
    double watts_base, watts_cube; /* power = base + cube x use x (f/max)^3, of the limit */
    bool fitted;
    uint32_t floor, floor_until; /* a level that missed the objective, until a second */
};

struct aw_governor {
    const char *name, *summary;
    uint32_t (*next)(struct aw_governor_state *state, const float obs[AW_FREQUENCY_OBS]);
};

/* performance, powersave, ondemand, conservative, schedutil, nominal, two-point fit; ends with a
 * NULL name. */
extern const struct aw_governor aw_governors[];
const struct aw_governor *aw_governor_find(const char *name); /* NULL: no such */
void aw_governor_reset(struct aw_governor_state *state, const struct aw_processor *processor);

/* Oracles: the best level of the coming second, and the best one for a whole episode. */
/* What a level is worth: its second, and what the requests it leaves cost the next one. */
double aw_frequency_value(const struct aw_machine *machine, uint32_t level);
uint32_t aw_frequency_oracle(const struct aw_machine *machine);
uint32_t aw_frequency_static_best(const struct aw_frequency_pair *pair,
                                  enum aw_frequency_reward reward, uint64_t seed,
                                  double *ret_reward);

#endif
