/* machine.c - see machine.h. */
#include "frequency/machine.h"

#include <math.h>

/* Cores, frequencies and power limits by the makers' data sheets; voltages, watts of a core and
 * thermal figures are chosen so that all cores at nominal frequency come near the limit. The last
 * two are of other kinds: many slow cores, and a wide range with a high turbo. */
const struct aw_processor aw_processors[AW_PROCESSORS] = {
    {"Xeon E5-2683 v3", 14, 1.2, 2.0, 3.0, 2.5, 1.5, 0.75, 0.20, 22, 14, 4.2, 120, 0.42, 12, 85},
    {"Xeon E5-2695 v4", 18, 1.2, 2.1, 3.1, 2.6, 1.6, 0.72, 0.21, 22, 16, 3.4, 120, 0.40, 12, 85},
    {"EPYC 7302P", 16, 1.5, 3.0, 3.3, 3.2, 2.0, 0.80, 0.24, 38, 30, 1.9, 155, 0.32, 15, 90},
    {"Altra-like, 80 cores", 80, 1.0, 2.6, 3.0, 3.0, 1.8, 0.70, 0.16, 30, 35, 0.95, 210, 0.28, 15,
     95},
    {"Ice-Lake-like, 24 cores", 24, 0.8, 2.4, 3.6, 3.0, 1.4, 0.68, 0.19, 30, 28, 2.7, 185, 0.30, 10,
     92},
};

#define PROCESSORS_LEARNED 3u
#define AMBIENT_C          35.0
#define BACKLOG_S          3.0 /* seconds of work that may wait; more is turned away */
#define WOBBLE_KEEP        0.8
#define EPISODE_LOAD_MAX   1.15 /* of nominal: bursts that only turbo serves */
#define SERVICE_TAIL       8.0  /* a request beyond its mean by a share x: exp(-8 x) are slower */

double aw_level_ghz(const struct aw_processor *processor, uint32_t level)
{
    return processor->min_ghz + (processor->max_ghz - processor->min_ghz) * level / (AW_LEVELS - 1);
}

uint32_t aw_level_of(const struct aw_processor *processor, double ghz)
{
    uint32_t level = 0;
    while (level + 1 < AW_LEVELS && aw_level_ghz(processor, level) < ghz - 1e-9)
        level++;
    return level;
}

uint32_t aw_level_nominal(const struct aw_processor *processor)
{
    return aw_level_of(processor, processor->nominal_ghz);
}

static double volts(const struct aw_processor *processor, double ghz)
{
    return processor->volt + processor->volt_per_ghz * fmax(0, ghz - processor->knee_ghz);
}

static double watts(const struct aw_processor *processor, double ghz, double use, double stalled)
{
    const double v = volts(processor, ghz);
    /* a core that waits for memory draws about half */
    return processor->idle_w + processor->uncore_w * (0.5 + 0.5 * use) +
           processor->cores * use * (1 - 0.5 * stalled) * processor->core_w * v * v * ghz;
}

/* A processor that nobody sells: so that what is learned is not three tables by heart. */
static void vary(struct aw_processor *processor, struct aw_rng *rng)
{
    processor->name = "drawn";
    processor->cores = 8 + aw_rng_below(rng, 89);
    processor->min_ghz = aw_rng_uniform(rng, 0.8, 1.6);
    processor->max_ghz = aw_rng_uniform(rng, 2.6, 3.8);
    processor->nominal_ghz =
        aw_rng_uniform(rng, fmax(1.8, processor->min_ghz + 0.4), 0.95 * processor->max_ghz);
    processor->turbo_all_ghz = aw_rng_uniform(rng, processor->nominal_ghz, processor->max_ghz);
    processor->knee_ghz = aw_rng_uniform(rng, processor->min_ghz + 0.1, processor->nominal_ghz);
    processor->volt = aw_rng_uniform(rng, 0.65, 0.85);
    processor->volt_per_ghz = aw_rng_uniform(rng, 0.12, 0.28);
    processor->limit_w = aw_rng_uniform(rng, 90, 240);
    processor->idle_w = processor->limit_w * aw_rng_uniform(rng, 0.12, 0.26);
    processor->uncore_w = processor->limit_w * aw_rng_uniform(rng, 0.1, 0.22);
    processor->core_w = 1;
    /* all cores at nominal frequency come to 75 to 105 % of the limit, as with the real ones */
    const double rest = processor->idle_w + processor->uncore_w;
    const double busy = watts(processor, processor->nominal_ghz, 1, 0) - rest;
    processor->core_w = (processor->limit_w * aw_rng_uniform(rng, 0.75, 1.05) - rest) / busy;
}

void aw_frequency_pair_draw(uint64_t seed, bool unseen, bool phases,
                            struct aw_frequency_pair *ret_pair)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, unseen ? 0x756e7365 : 0x6c656172);
    struct aw_frequency_pair pair = {
        .processor = aw_processors[unseen ? PROCESSORS_LEARNED + aw_rng_below(&rng, 2)
                                          : aw_rng_below(&rng, PROCESSORS_LEARNED)],
        .batch = aw_rng_double(&rng) < 0.25,
        .phase_count = phases ? 2 + aw_rng_below(&rng, AW_PHASES_MAX - 1) : 1,
        .phase_s = aw_rng_uniform(&rng, 30, 120),
        .instructions = 1e6 * pow(100, aw_rng_double(&rng)),
        .slo_factor = aw_rng_uniform(&rng, 1.8, 5),
        .wobble = aw_rng_uniform(&rng, 0.02, 0.2),
        .noise = aw_rng_uniform(&rng, 0.01, 0.04),
        .seed = seed,
    };
    for (uint32_t i = 0; i < AW_PHASES_MAX; i++)
        pair.phase[i] = (struct aw_phase){.cycles = aw_rng_uniform(&rng, 0.35, 1.5),
                                          .memory_ns = 0.8 * pow(aw_rng_double(&rng), 2),
                                          .load = aw_rng_uniform(&rng, 0.15, 0.9)};
    if (!unseen && aw_rng_double(&rng) < 0.5)
        vary(&pair.processor, &rng);
    *ret_pair = pair;
}

/* The most that the silicon allows now: turbo falls with busy cores, heat and watts throttle. */
static double allowed(const struct aw_processor *processor, double ghz, double use, double stalled,
                      double celsius, bool *ret_throttled)
{
    const double turbo = processor->max_ghz - (processor->max_ghz - processor->turbo_all_ghz) * use;
    double most = fmin(ghz, fmax(turbo, processor->nominal_ghz));
    *ret_throttled = false;
    while (most > processor->min_ghz && watts(processor, most, use, stalled) > processor->limit_w) {
        most -= 0.05;
        *ret_throttled = true;
    }
    if (celsius > processor->heat_limit_c) {
        most = fmin(most, processor->nominal_ghz * 0.8);
        *ret_throttled = true;
    }
    return fmax(most, processor->min_ghz);
}

struct outcome {
    struct aw_second second;
    double backlog;
};

/* The share of a second in which what arrives waits longer than `slack_s`, where the queue is
 * `wait_s` long at first and demand is `fill` of the capacity: the wait moves by fill - 1. */
static double late_share(double wait_s, double fill, double slack_s)
{
    const double end_s = fmax(0, wait_s + fill - 1);
    if (wait_s <= slack_s && end_s <= slack_s)
        return 0;
    if (wait_s > slack_s && end_s > slack_s)
        return 1;
    const double at = (slack_s - wait_s) / (fill - 1); /* when it crosses */
    return wait_s > slack_s ? at : 1 - at;
}

/* One second at a frequency: what is served, how late, at what power. */
static struct outcome serve(const struct aw_machine *machine, double asked_ghz, double load)
{
    const struct aw_frequency_pair *pair = &machine->pair;
    const struct aw_processor *processor = &pair->processor;
    const struct aw_phase *phase = &pair->phase[machine->phase];
    const double nominal_s = (phase->cycles / processor->nominal_ghz + phase->memory_ns) * 1e-9;
    const double demand = /* instructions of this second */
        pair->batch ? INFINITY : load * processor->cores / nominal_s;
    struct outcome out = {0};
    double ghz = asked_ghz, use = 1, per_s = 0, work = 0, capacity = 0, stalled = 0;
    for (uint32_t i = 0; i < 3; i++) { /* busy cores and turbo depend on each other */
        per_s = (phase->cycles / ghz + phase->memory_ns) * 1e-9;
        stalled = phase->memory_ns * 1e-9 / per_s;
        capacity = processor->cores / per_s;
        work = demand + machine->backlog * pair->instructions;
        use = fmin(1, work / capacity);
        ghz = allowed(processor, asked_ghz, use, stalled, machine->celsius, &out.second.throttled);
    }
    per_s = (phase->cycles / ghz + phase->memory_ns) * 1e-9;
    stalled = phase->memory_ns * 1e-9 / per_s;
    capacity = processor->cores / per_s;
    use = fmin(1, work / capacity);
    const double served = fmin(work, capacity);
    out.second.ghz = ghz;
    out.second.ips = served;
    out.second.use = use;
    out.second.stalled = stalled;
    out.second.watts = watts(processor, ghz, use, stalled);
    if (pair->batch) {
        out.second.kept = 1;
        out.second.throughput = capacity * nominal_s / processor->cores;
        return out;
    }
    out.backlog =
        fmin((work - served) / pair->instructions, BACKLOG_S * capacity / pair->instructions);
    const double request_s = pair->instructions * per_s;
    const double slack_s = pair->slo_factor * pair->instructions * nominal_s - request_s;
    const double late =
        late_share(machine->backlog * pair->instructions / capacity, demand / capacity, slack_s);
    /* M/M/c: the share that waits (Sakasegawa's exponent), and how long (exponential) */
    const double waits = pow(use, sqrt(2.0 * (processor->cores + 1)) - 1);
    const double free_per_s = fmax(0, capacity - demand) / pair->instructions;
    double missed = 1;
    if (slack_s > 0)
        missed = fmin(1, waits * exp(-free_per_s * slack_s) +
                             (1 - waits) * exp(-SERVICE_TAIL * slack_s / request_s));
    if (use >= 1)
        missed = slack_s > 0 ? exp(-SERVICE_TAIL * slack_s / request_s) : 1;
    missed = late + (1 - late) * missed;
    out.second.kept = 1 - missed;
    out.second.requests = demand / pair->instructions;
    out.second.missed = out.second.requests * missed;
    const double at_nominal = fmin(work, processor->cores / nominal_s);
    out.second.throughput = fmin(served / at_nominal, 2);
    return out;
}

static double reward_of(const struct aw_machine *machine, const struct aw_second *second)
{
    const struct aw_processor *processor = &machine->pair.processor;
    if (machine->reward == AW_REWARD_PAPER) {
        const double gain = second->ghz > machine->ghz_before + 1e-6 && second->ips > 0
                                ? (second->ips - machine->ips_before) / second->ips
                                : 0;
        return AW_REWARD_ALPHA * gain + (1 - AW_REWARD_ALPHA) * second->kept;
    }
    const double full = watts(processor, processor->nominal_ghz, 1, 0);
    return second->kept - AW_REWARD_POWER * second->watts / full +
           AW_REWARD_THROUGHPUT * (second->throughput - 1);
}

void aw_machine_try(const struct aw_machine *machine, uint32_t level, struct aw_second *ret,
                    double *ret_backlog)
{
    const struct aw_processor *processor = &machine->pair.processor;
    const struct outcome out = serve(machine, aw_level_ghz(processor, level), machine->load);
    *ret = out.second;
    ret->celsius = machine->celsius;
    ret->reward = reward_of(machine, ret);
    if (ret_backlog)
        *ret_backlog = out.backlog;
}

/* Phase and demand of the coming second. */
static void drift(struct aw_machine *machine)
{
    const struct aw_frequency_pair *pair = &machine->pair;
    if (pair->phase_count > 1 && aw_rng_double(&machine->rng) < 1 / pair->phase_s)
        machine->phase = (machine->phase + 1 + aw_rng_below(&machine->rng, pair->phase_count - 1)) %
                         pair->phase_count;
    machine->wobble = WOBBLE_KEEP * machine->wobble + sqrt(1 - WOBBLE_KEEP * WOBBLE_KEEP) *
                                                          pair->wobble *
                                                          aw_rng_normal(&machine->rng);
    machine->load = fmin(pair->phase[machine->phase].load * exp(machine->wobble), EPISODE_LOAD_MAX);
}

static void observe(struct aw_machine *machine, const struct aw_second *second, float *obs)
{
    const struct aw_processor *processor = &machine->pair.processor;
    const double noise = machine->pair.noise;
    obs[AW_SEE_IPS] = (float)(second->ips / (processor->cores * processor->max_ghz * 1e9) *
                              exp(noise * aw_rng_normal(&machine->rng)));
    obs[AW_SEE_USE] = (float)second->use;
    obs[AW_SEE_GHZ] = (float)(second->ghz / processor->max_ghz);
    obs[AW_SEE_KEPT] = (float)second->kept;
    obs[AW_SEE_THROUGHPUT] = (float)second->throughput;
    obs[AW_SEE_WATTS] =
        (float)(second->watts / processor->limit_w * exp(noise * aw_rng_normal(&machine->rng)));
    obs[AW_SEE_STALLED] =
        (float)fmin(1, second->stalled * exp(2 * noise * aw_rng_normal(&machine->rng)));
    obs[AW_SEE_THROTTLED] = second->throttled ? 1 : 0;
}

void aw_machine_step(struct aw_machine *machine, uint32_t level, float obs[AW_FREQUENCY_OBS],
                     struct aw_second *ret)
{
    AW_ASSERT(level < AW_LEVELS);
    const struct aw_processor *processor = &machine->pair.processor;
    const struct outcome out = serve(machine, aw_level_ghz(processor, level), machine->load);
    struct aw_second second = out.second;
    const double settled_c = AMBIENT_C + processor->heat_c_per_w * second.watts;
    machine->celsius += (settled_c - machine->celsius) / processor->heat_s;
    second.celsius = machine->celsius;
    second.reward = reward_of(machine, &second);
    machine->backlog = out.backlog;
    machine->ips_before = second.ips;
    machine->ghz_before = second.ghz;
    machine->level = level;
    machine->second++;
    observe(machine, &second, obs);
    drift(machine);
    *ret = second;
}

void aw_machine_reset(struct aw_machine *machine, const struct aw_frequency_pair *pair,
                      enum aw_frequency_reward reward, uint64_t seed, float obs[AW_FREQUENCY_OBS])
{
    struct aw_second second;
    *machine = (struct aw_machine){.pair = *pair, .reward = reward, .celsius = 50};
    aw_rng_init(&machine->rng, seed ^ pair->seed * 0x9e3779b97f4a7c15u, 0x667265 /* "fre" */);
    machine->phase = aw_rng_below(&machine->rng, pair->phase_count);
    drift(machine);
    /* a second at nominal frequency before the first decision */
    aw_machine_step(machine, aw_level_nominal(&pair->processor), obs, &second);
    machine->second = 0;
}
