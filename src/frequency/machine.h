/*
 * machine.h - a processor under an application, second by second: what a frequency costs and gives.
 *
 * The time of an instruction is c/f + m: core cycles, and seconds of memory that do not scale with
 * the frequency. Power is idle + uncore + busy cores x k V(f)^2 f, with V flat below a knee and
 * rising above it. The top frequency falls with busy cores; the package has a power limit; the
 * temperature is a first-order lag and throttles. Applications have phases that change c, m and
 * demand. Counters carry log-normal noise.
 *
 * Call order: pair_draw, reset, then step; look before it leaps: `try` says what a level would give
 *             in the coming second and changes nothing.
 * Memory:     plain structs. Nothing allocates.
 * Threads:    single owner. Same seed and levels, same bytes.
 *
 * The trap: FLASH's reward (AW_REWARD_PAPER) pays for every rise of IPS after a rise of frequency,
 * and never charges for a fall: swinging earns more than holding. The default is a function of
 * where one is, not of the way there.
 */
#ifndef AW_FREQUENCY_MACHINE_H
#define AW_FREQUENCY_MACHINE_H

#include <aware/err.h>

#include "base/rng.h"

#define AW_LEVELS          12u /* of frequency, evenly from the least to the most */
#define AW_PROCESSORS      5u
#define AW_PHASES_MAX      3u
#define AW_MACHINE_SECONDS 300u

struct aw_processor {
    const char *name;
    uint32_t cores;
    double min_ghz, nominal_ghz, max_ghz;
    double turbo_all_ghz; /* the most with all cores busy */
    double knee_ghz;      /* where the voltage begins to rise */
    double volt, volt_per_ghz;
    double idle_w, uncore_w;
    double core_w;                             /* k: watts of a busy core at 1 V and 1 GHz */
    double limit_w;                            /* TDP */
    double heat_c_per_w, heat_s, heat_limit_c; /* thermal resistance, lag, throttling point */
};
extern const struct aw_processor aw_processors[AW_PROCESSORS];
double aw_level_ghz(const struct aw_processor *processor, uint32_t level);
uint32_t aw_level_of(const struct aw_processor *processor, double ghz); /* at least as fast */
uint32_t aw_level_nominal(const struct aw_processor *processor);

struct aw_phase {
    double cycles;    /* c, per instruction */
    double memory_ns; /* m, per instruction */
    double load;      /* demand, of what the machine serves at nominal frequency */
};

/* An application on a processor. */
struct aw_frequency_pair {
    struct aw_processor processor;
    bool batch;           /* no requests: as many instructions as it can */
    uint32_t phase_count; /* 1: none */
    struct aw_phase phase[AW_PHASES_MAX];
    double phase_s;      /* mean length */
    double instructions; /* of a request */
    double slo_factor;   /* latency objective, of a request's time at nominal frequency */
    double wobble;       /* of demand between seconds, log */
    double noise;        /* of counters, log */
    uint64_t seed;
};
/* Applications and processors to learn from, or others. To learn from: half of the processors are
 * the first three, half are drawn around them. With `unseen` the processor is one of the last two,
 * and the application is drawn from another stream. Phases if `phases`. */
void aw_frequency_pair_draw(uint64_t seed, bool unseen, bool phases,
                            struct aw_frequency_pair *ret_pair);

enum aw_frequency_reward { AW_REWARD_ENERGY, AW_REWARD_PAPER };
#define AW_REWARD_POWER      0.5 /* w: of power, of that at nominal frequency under full load */
#define AW_REWARD_THROUGHPUT 0.5 /* v */
#define AW_REWARD_ALPHA      0.5 /* the paper's */

/* What a second came to; figures are true, without noise. */
struct aw_second {
    double ghz;        /* in effect */
    double ips;        /* instructions per second, all cores */
    double use;        /* of the cores, 0 to 1 */
    double kept;       /* SP: share of requests within the objective */
    double throughput; /* of that at nominal frequency */
    double watts, celsius;
    double stalled; /* share of busy cycles that wait for memory */
    bool throttled;
    double missed, requests; /* beyond the objective, and all */
    double reward;
};

#define AW_FREQUENCY_OBS 8u
/* What a controller sees: IPS/(cores x max), use, frequency/max, SP, throughput, power/limit,
 * stalled share, throttled. With noise on what is counted. */
enum {
    AW_SEE_IPS,
    AW_SEE_USE,
    AW_SEE_GHZ,
    AW_SEE_KEPT,
    AW_SEE_THROUGHPUT,
    AW_SEE_WATTS,
    AW_SEE_STALLED,
    AW_SEE_THROTTLED
};

struct aw_machine {
    struct aw_frequency_pair pair;
    enum aw_frequency_reward reward;
    struct aw_rng rng;
    uint32_t phase, second, level;
    double backlog; /* requests that wait */
    double wobble, celsius, ips_before, ghz_before;
    double load; /* demand of the coming second */
};
void aw_machine_reset(struct aw_machine *machine, const struct aw_frequency_pair *pair,
                      enum aw_frequency_reward reward, uint64_t seed, float obs[AW_FREQUENCY_OBS]);
/* `ret_backlog` may be NULL: requests that would wait after it. */
void aw_machine_try(const struct aw_machine *machine, uint32_t level, struct aw_second *ret,
                    double *ret_backlog);
void aw_machine_step(struct aw_machine *machine, uint32_t level, float obs[AW_FREQUENCY_OBS],
                     struct aw_second *ret);

#endif
