/* simulate.c - one controller on one application: settings, the loop, the summary. */
#include "simulation/simulate.h"

#include "simulation/simulate_aware.h"

#include "base/units.h"
#include "cluster/surrogate.h"
#include "fallback/tune.h"
#include "task/bounds.h"
#include "task/objective.h"
#include "task/turns.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SECONDS_PER_HOUR 3600.0
#define LEVEL            0.95 /* of every interval */
#define RESAMPLES        1000u
#define BAD_STEP         0.95 /* quantile over steps of p99: the worst of 20 */
/* An operator who knows nothing but the load leaves half of the capacity free, and gives memory
 * for the base and so many requests at once, with half of it again: as the environment's start. */
#define START_UTILISATION   0.5
#define START_IN_FLIGHT     16
#define START_MEMORY_MARGIN 1.5
#define START_CORES         1.0
/* Streams of a run's seed. */
#define STREAM_LOAD      0x10ad0000u
#define STREAM_BOOTSTRAP 0xb0070000u

#define AW_CONF_OF struct aw_simulate_settings
const struct aw_conf_field aw_simulate_fields[] = {
    AW_CONF_NUMBER(episodes, "10", 1, AW_SIMULATE_EPISODES_MAX, "episodes that are scored"),
    AW_CONF_NUMBER(episode_steps, "100", 1, 100000, "steps of an episode (AWARE section 2.2: 100)"),
    AW_CONF_NUMBER(warmup_steps, "40", 0, 100000,
                   "steps before the first episode that are not scored"),
    AW_CONF_NUMBER(step_s, "15", 1, 3600, "seconds of a step; the HPA's sync period"),
    AW_CONF_PLAIN(continuous, "true",
                  "episodes follow one another; if not, each begins anew elsewhere in the load"),
    AW_CONF_PLAIN(shift, "false",
                  "begin at a time of the load that the seed chooses, not at its beginning"),
    AW_CONF_NUMBER(slo_ms, "0", 0, 1e7, "latency SLO in milliseconds, for p99; 0: by slo_factor"),
    AW_CONF_NUMBER(
        slo_factor, "1.5", 0, 1000,
        "latency SLO as a multiple of the unloaded p99; 0: none (SIMPPO section 4.4 uses 1.15)"),
    AW_CONF_NUMBER(slo_budget, "0.01", 0, 1, "share of steps that may miss the SLO"),
    AW_CONF_NUMBER(reward_weight, "0.5", 0, 1, "AWARE's alpha: weight of the SLO in its reward"),
    AW_CONF_NUMBER(price_core_hour, "0.04", 0, 1e6, "$ of a core for an hour"),
    AW_CONF_NUMBER(price_gib_hour, "0.005", 0, 1e6, "$ of a GiB of memory for an hour"),
    AW_CONF_NUMBER(replicas_min, "1", 1, 64, "fewest replicas"),
    AW_CONF_NUMBER(replicas_max, "20", 1, 64, "most replicas"),
    AW_CONF_NUMBER(cpu_min_cores, "0.1", 0.001, 1024, "least CPU of a replica in cores"),
    AW_CONF_NUMBER(cpu_max_cores, "4", 0.001, 1024, "most CPU of a replica in cores"),
    AW_CONF_NUMBER(memory_min_mib, "64", 1, 1e8, "least memory of a replica in MiB"),
    AW_CONF_NUMBER(memory_max_mib, "8192", 1, 1e8, "most memory of a replica in MiB"),
    AW_CONF_NUMBER(replicas, "0", 0, 64, "replicas to begin with; 0: for twice the mean load"),
    AW_CONF_NUMBER(cpu_cores, "0", 0, 1024, "cores of a replica to begin with; 0: one"),
    AW_CONF_NUMBER(memory_mib, "0", 0, 1e8,
                   "MiB of a replica to begin with; 0: from the application"),
    {0},
};

void aw_simulate_config_init(struct aw_simulate_config *config)
{
    *config = (struct aw_simulate_config){
        .seed = 1, .tuning_episodes = 8, .tuning_budget = 60, .thread_count = 1};
    aw_conf_defaults(aw_simulate_fields, &config->settings);
    aw_conf_defaults(aw_sim_fields, &config->sim);
}

static struct aw_bounds bounds_of(const struct aw_simulate_settings *s)
{
    return (struct aw_bounds){
        .replicas_min = s->replicas_min,
        .replicas_max = s->replicas_max,
        .cpu_millicores_min = llround(s->cpu_min_cores * 1e3),
        .cpu_millicores_max = llround(s->cpu_max_cores * 1e3),
        .memory_bytes_min = llround(s->memory_min_mib * AW_MIB_REAL),
        .memory_bytes_max = llround(s->memory_max_mib * AW_MIB_REAL),
    };
}

static enum aw_err check_start(const char *key, double start, double low, double high,
                               struct aw_diag *diag)
{
    if (start == 0 || (start >= low && start <= high))
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                      "expected 0, or a start within the bounds %g to %g, found %g", low, high,
                      start);
}

enum aw_err aw_simulate_check(const struct aw_simulate_settings *s,
                              const struct aw_sim_settings *sim, struct aw_diag *diag)
{
    const struct aw_bounds bounds = bounds_of(s);
    enum aw_err err = aw_bounds_check(&bounds, diag);
    if (!err)
        err = check_start("replicas", s->replicas, s->replicas_min, s->replicas_max, diag);
    if (!err)
        err = check_start("cpu_cores", s->cpu_cores, s->cpu_min_cores, s->cpu_max_cores, diag);
    if (!err)
        err = check_start("memory_mib", s->memory_mib, s->memory_min_mib, s->memory_max_mib, diag);
    if (err)
        return err;
    if (s->cpu_max_cores > sim->node_cores || s->memory_max_mib > sim->node_memory_gib * 1024)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "a replica of %g cores and %g MiB does not fit on a node of %g cores and "
                       "%g GiB: lower cpu_max_cores or memory_max_mib, or take larger nodes",
                       s->cpu_max_cores, s->memory_max_mib, sim->node_cores, sim->node_memory_gib);
    const uint64_t warmup = (uint64_t)s->warmup_steps * (s->continuous ? 1 : s->episodes);
    const uint64_t steps = (uint64_t)s->episodes * s->episode_steps + warmup;
    if (steps > AW_SIMULATE_STEPS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "a run has at most %u steps; %" PRIu32 " episodes of %" PRIu32
                       " steps and their warm-up are %" PRIu64,
                       AW_SIMULATE_STEPS_MAX, s->episodes, s->episode_steps, steps);
    return AW_OK;
}

/* --- policies by name -------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    bool is_oracle;
    uint32_t kind; /* enum aw_fallback_kind or enum aw_oracle_goal */
    uint32_t tuning;
} named[] = {
    {"static", false, AW_FALLBACK_STATIC, AW_SIMULATE_AS_GIVEN},
    {"hpa", false, AW_FALLBACK_HPA, AW_SIMULATE_TUNE_SLO},
    {"vpa", false, AW_FALLBACK_VPA, AW_SIMULATE_AS_GIVEN},
    {"hpa+vpa", false, AW_FALLBACK_HPA_VPA, AW_SIMULATE_TUNE_SLO},
    {"hpa+vpa-mem", false, AW_FALLBACK_HPA_VPA_MEM, AW_SIMULATE_TUNE_SLO},
    {"aimd", false, AW_FALLBACK_AIMD, AW_SIMULATE_AS_GIVEN},
    {"constant", false, AW_FALLBACK_CONSTANT, AW_SIMULATE_TUNE_SLO},
    {"constant-reward", false, AW_FALLBACK_CONSTANT, AW_SIMULATE_TUNE_REWARD},
    {"oracle", true, AW_ORACLE_REWARD, AW_SIMULATE_AS_GIVEN},
    {"oracle-cost", true, AW_ORACLE_COST, AW_SIMULATE_AS_GIVEN},
};
#define NAMED_COUNT (sizeof named / sizeof *named)
/* The control loop, and how long it has lived before anything is scored. */
static const struct {
    const char *name;
    double lived_s;
} aware_named[] = {{"aware", 900}, {"aware:day2", 86400}};
#define AWARE_COUNT (sizeof aware_named / sizeof *aware_named)

const char *aw_simulate_policy_name(uint32_t index)
{
    if (index < NAMED_COUNT)
        return named[index].name;
    return index - NAMED_COUNT < AWARE_COUNT ? aware_named[index - NAMED_COUNT].name : NULL;
}

enum aw_err aw_simulate_policy_named(const char *name, struct aw_simulate_policy *ret_policy,
                                     struct aw_diag *diag)
{
    const char *names[NAMED_COUNT + AWARE_COUNT + 1] = {0};
    for (size_t i = 0; i < AWARE_COUNT; i++) {
        names[NAMED_COUNT + i] = aware_named[i].name;
        if (strcmp(name, aware_named[i].name) != 0)
            continue;
        struct aw_simulate_policy policy = {
            .is_aware = true, .lived_s = aware_named[i].lived_s, .tuning = AW_SIMULATE_AS_GIVEN};
        strncpy(policy.name, name, sizeof policy.name - 1);
        aw_conf_defaults(aw_fallback_fields, &policy.policy);
        aw_conf_defaults(aw_oracle_fields, &policy.oracle);
        policy.policy.kind = AW_FALLBACK_HPA_VPA_MEM;
        *ret_policy = policy;
        return AW_OK;
    }
    for (size_t i = 0; i < NAMED_COUNT; i++) {
        names[i] = named[i].name;
        if (strcmp(name, names[i]) != 0)
            continue;
        struct aw_simulate_policy policy = {.is_oracle = named[i].is_oracle,
                                            .tuning = named[i].tuning};
        strncpy(policy.name, name, sizeof policy.name - 1);
        aw_conf_defaults(aw_fallback_fields, &policy.policy);
        aw_conf_defaults(aw_oracle_fields, &policy.oracle);
        if (policy.is_oracle)
            policy.oracle.goal = named[i].kind;
        else
            policy.policy.kind = named[i].kind;
        *ret_policy = policy;
        return AW_OK;
    }
    const char *nearest = aw_conf_nearest(name, names);
    return aw_fail(diag, AW_ERR_NOTFOUND, "no policy is named \"%.48s\"%s%s%s", name,
                   nearest ? " (did you mean \"" : "", nearest ? nearest : "",
                   nearest ? "\"?)" : "");
}

/* --- the workload -----------------------------------------------------------------------------
 */

static double slo_us_of(const struct aw_simulate_settings *s, const struct aw_app *app)
{
    if (s->slo_ms > 0)
        return 1e3 * s->slo_ms;
    return s->slo_factor > 0 ? s->slo_factor * aw_app_unloaded_p99_us(app, 1, 0) : 0;
}

/* Alone on the largest replica: with fewer cores than it could use at once it takes longer. */
static double fastest_p99_us(const struct aw_app *app, double cores)
{
    struct aw_app limited = *app;
    for (uint32_t i = 0; i < limited.segment_count; i++)
        limited.segment[i].parallelism = fmin(limited.segment[i].parallelism, cores);
    return aw_app_unloaded_p99_us(&limited, 1, 0);
}

struct aw_fallback_task aw_simulate_task(const struct aw_simulate_settings *settings,
                                         const struct aw_simulate_case *c)
{
    struct aw_demand demand;
    aw_app_demand(&c->app, 1, 0, &demand);
    const double mean = aw_load_mean(c->load, 0, (int64_t)c->load->slot_count * c->load->slot_us);
    const double cores = settings->cpu_cores > 0 ? settings->cpu_cores : START_CORES;
    const double each = START_UTILISATION * aw_replica_capacity(&demand, cores);
    const double mib =
        START_MEMORY_MARGIN * (demand.memory_base_mib + START_IN_FLIGHT * demand.memory_flight_mib);
    struct aw_plan start = {
        .replicas = settings->replicas,
        .cpu_millicores = llround(cores * 1e3),
        .memory_bytes =
            llround((settings->memory_mib > 0 ? settings->memory_mib : ceil(mib)) * AW_MIB_REAL),
    };
    if (start.replicas == 0)
        start.replicas = (uint32_t)fmin(ceil(mean / each), settings->replicas_max);
    struct aw_fallback_task task = {.bounds = bounds_of(settings),
                                    .slo_latency_us = slo_us_of(settings, &c->app)};
    aw_bounds_clip(&task.bounds, &start);
    memcpy(task.amount, start.amount, sizeof start.amount);
    return task;
}

/* --- one run ----------------------------------------------------------------------------------
 */

struct run {
    const struct aw_simulate_settings *settings;
    const struct aw_simulate_case *c;
    const struct aw_load *load;
    const struct aw_fallback_task *task;
    bool with_events;
    aw_simulate_sink *sink;
    void *ctx;

    struct aw_objective objective;
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_fallback *policy; /* one of the three */
    struct aw_oracle *oracle;
    struct aw__simulate_life *life;
    int64_t load_offset_us, begin_us; /* begin: end of the warm-up */
    uint32_t next_event;
    struct aw_sample sample;
    bool observed; /* the sample is of now */

    /* Sums over scored steps. */
    uint32_t steps, steps_with_requests, p50_count;
    double arrivals, failures, cost, cpu_core_s, cpu_limit_core_s, memory_gib_s, memory_limit_gib_s;
    double replica_s, memory_bytes_peak;
    uint64_t violations, oom_kills, restarts, changes, replica_changes, taken_back;
    struct aw_replica_track track;
    double *p50, *p99;         /* [steps]; of those with requests */
    double *reward, *violated; /* [episodes] */
    double *scratch;           /* for quantiles and the bootstrap */
};

static void fire_events(struct run *run, int64_t now_us)
{
    const struct aw_simulate_case *c = run->c;
    while (run->with_events && run->next_event < c->event_count &&
           c->events[run->next_event].at_us + run->begin_us <= now_us) {
        const struct aw_simulate_event *event = &c->events[run->next_event++];
        const int64_t until_us = now_us + event->duration_us;
        switch (event->kind) {
        case AW_SIMULATE_DISTURB:
            aw_sim_disturb(run->sim, 0, &event->disturbance);
            break;
        case AW_SIMULATE_NEIGHBOURS:
            aw_sim_neighbours(run->sim, event->cpu_share, event->memory_share);
            break;
        case AW_SIMULATE_FAIL_NODE:
            aw_sim_fail_node(run->sim, event->node, until_us);
            break;
        case AW_SIMULATE_FAIL_METRICS:
            aw_sim_fail_metrics(run->sim, until_us);
            break;
        case AW_SIMULATE_FAIL_API:
            aw_sim_fail_api(run->sim, until_us);
            break;
        }
    }
}

static void observe(struct run *run)
{
    run->observed =
        run->cluster.ops->observe(run->cluster.self, 0, INT64_MAX, &run->sample) == AW_OK;
}

/* Decides on what was last seen, and applies it. */
static enum aw_err decide(struct run *run, int64_t now_us, struct aw_simulate_step *step)
{
    step->reason =
        (struct aw_fallback_reason){.utilization = NAN, .cause = AW_FALLBACK_CAUSE_NO_DATA};
    if (run->life) {
        step->applied = true;
        return aw__simulate_life_tick(run->life, step);
    }
    if (run->oracle) {
        enum aw_err err = aw_oracle_decide(run->oracle, run->sim, 0, run->load, run->load_offset_us,
                                           &step->plan, &step->reason);
        if (err == AW_ERR_UNAVAILABLE)
            return AW_OK;
        if (err)
            return err;
    } else if (!run->observed) {
        return AW_OK;
    } else {
        aw_fallback_decide(run->policy, &run->sample, now_us, &step->plan, &step->reason);
    }
    if (step->plan.set == 0) {
        step->applied = true;
        return AW_OK;
    }
    enum aw_err err = run->cluster.ops->apply(run->cluster.self, 0, &step->plan, INT64_MAX);
    step->applied = err == AW_OK;
    if (err)
        step->plan.set = 0;
    return err == AW_ERR_UNAVAILABLE ? AW_OK : err;
}

static void describe(const struct run *run, const struct aw_score *score,
                     struct aw_simulate_step *step)
{
    const struct aw_sample *sample = &run->sample;
    step->replicas_wanted = (uint32_t)sample->replicas_wanted;
    step->replicas_ready = sample->replicas_ready;
    step->replicas_pending = sample->replicas_pending;
    step->replicas_starting = sample->replicas_starting;
    step->rollout = sample->rollout;
    step->cpu_millicores = sample->cpu_millicores_wanted;
    step->memory_bytes = sample->memory_bytes_wanted;
    step->arrivals_per_s = step->truth.arrivals / run->settings->step_s;
    step->cpu_utilization = score->cpu_utilisation;
    step->memory_utilization = score->memory_utilisation;
    step->slo_latency_us = run->objective.slo.latency_us_p99;
    step->slo_preservation = score->sp;
    step->violated = score->violated;
    step->reward = score->paper_reward;
    step->cost = score->cost;
}

static void count(struct run *run, const struct aw_simulate_step *step)
{
    const struct aw_sim_truth *truth = &step->truth;
    run->steps++;
    run->steps_with_requests += truth->arrivals > 0;
    run->arrivals += truth->arrivals;
    run->failures += truth->failures;
    run->cost += step->cost;
    run->cpu_core_s += truth->cpu_core_s;
    run->cpu_limit_core_s += truth->cpu_limit_core_s;
    run->memory_gib_s += truth->memory_gib_s;
    run->memory_limit_gib_s += truth->memory_limit_gib_s;
    run->replica_s += truth->replica_s;
    run->violations += step->violated;
    run->oom_kills += truth->oom_kills;
    run->restarts += truth->restarts;
    run->changes += step->plan.set != 0;
    const uint32_t turn = aw_replica_track_step(&run->track, step->replicas_wanted, step->at_us);
    run->replica_changes += (turn & AW_TURN_CHANGE) != 0;
    run->taken_back += (turn & AW_TURN_REMOVED) != 0;
    run->reward[step->episode] += step->reward;
    run->violated[step->episode] += step->violated;
    if (isfinite(truth->latency_us_p50) && isfinite(truth->latency_us_p99)) {
        run->p50[run->p50_count] = truth->latency_us_p50;
        run->p99[run->p50_count++] = truth->latency_us_p99;
    }
}

/* One step; `scored` false in the warm-up. */
static enum aw_err run_step(struct run *run, uint32_t episode, uint32_t number, bool scored)
{
    const int64_t now_us = run->cluster.ops->now_us(run->cluster.self);
    const int64_t step_us = (int64_t)(run->settings->step_s * 1e6);
    struct aw_simulate_step step = {.episode = episode, .step = number, .at_us = now_us};
    struct aw_score score;
    if (scored)
        fire_events(run, now_us);
    enum aw_err err = decide(run, now_us, &step);
    if (!err)
        err = run->cluster.ops->advance(run->cluster.self, now_us + step_us);
    if (err)
        return err;
    step.truth = *aw_sim_truth(run->sim, 0);
    const struct aw_outcome outcome = aw_outcome_of_truth(&step.truth, run->settings->step_s);
    aw_objective_score(&run->objective, &outcome, run->settings->step_s, &score);
    if (run->oracle)
        aw_oracle_learn(run->oracle, &step.truth, &score);
    observe(run);
    if (run->observed && run->sample.memory_bytes_peak.at_us != AW_NEVER)
        run->memory_bytes_peak = fmax(run->memory_bytes_peak, run->sample.memory_bytes_peak.value);
    if (!scored)
        return AW_OK;
    describe(run, &score, &step);
    count(run, &step);
    return run->sink && !run->sink(run->ctx, &step) ? AW_ERR_INTERRUPTED : AW_OK;
}

/* Chance of one beginning, and where in the load it is. */
static enum aw_err begin(struct run *run, uint64_t seed, uint32_t index, uint32_t episode)
{
    const struct aw_simulate_settings *s = run->settings;
    struct aw_rng rng;
    run->track = (struct aw_replica_track){0}; /* the clock may begin anew */
    aw_rng_init(&rng, seed, ((uint64_t)index << 32) + STREAM_LOAD + episode);
    const uint64_t chance = aw_rng_u64(&rng);
    const double at = aw_rng_double(&rng);
    const double length = (double)run->load->slot_count * (double)run->load->slot_us;
    run->load_offset_us = s->shift || !s->continuous ? (int64_t)(at * length) : 0;
    const struct aw_load *load = run->load;
    uint32_t lived = 0;
    if (run->life) { /* what it has lived is part of its load, in front of what all meet */
        const enum aw_err err =
            aw__simulate_life_begin(run->life, run->load_offset_us, chance, &load, &lived);
        if (err)
            return err;
        run->load_offset_us = 0;
    }
    const struct aw_sim_workload workload = {.app = run->c->app,
                                             .load = load,
                                             .replicas = run->task->replicas,
                                             .replicas_max = run->task->bounds.replicas_max,
                                             .cpu_millicores = run->task->cpu_millicores,
                                             .memory_bytes = run->task->memory_bytes};
    enum aw_err err = aw_sim_reset(run->sim, chance);
    if (!err)
        err = aw_sim_replace(run->sim, 0, &workload, run->load_offset_us);
    if (err)
        return err;
    if (run->oracle)
        aw_oracle_reset(run->oracle);
    else if (run->policy)
        aw_fallback_reset(run->policy);
    observe(run);
    const int64_t now_us = run->cluster.ops->now_us(run->cluster.self);
    run->begin_us = now_us + (int64_t)(s->step_s * 1e6) * (lived + s->warmup_steps);
    run->next_event = 0;
    for (uint32_t i = 0; !err && i < lived + s->warmup_steps; i++)
        err = run_step(run, episode, i, false);
    return err;
}

static struct aw_interval interval(const double *x, size_t n, uint64_t seed, uint64_t stream,
                                   double *scratch)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, STREAM_BOOTSTRAP + stream);
    return aw_stats_bootstrap_mean(x, n, LEVEL, RESAMPLES, &rng, scratch);
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static void summarize(struct run *run, uint64_t seed, struct aw_simulate_summary *summary)
{
    const struct aw_simulate_settings *s = run->settings;
    const uint32_t episodes = s->episodes;
    const double hours = run->steps * s->step_s / SECONDS_PER_HOUR;
    aw_stats_sort(run->p50, run->p50_count);
    aw_stats_sort(run->p99, run->p50_count);
    const bool any = run->p50_count > 0;
    summary->mean = (struct aw_simulate_columns){
        .reward = aw_stats_mean(run->reward, episodes),
        .violation_share = ratio((double)run->violations, run->steps),
        .violations_per_100 = 100.0 * (double)run->violations / episodes,
        .cost = run->cost / hours,
        .cpu_utilization = ratio(run->cpu_core_s, run->cpu_limit_core_s),
        .memory_utilization = ratio(run->memory_gib_s, run->memory_limit_gib_s),
        .latency_us_p50 = any ? aw_stats_median(run->p50, run->p50_count) : 0,
        .latency_us_p99 = any ? aw_stats_median(run->p99, run->p50_count) : 0,
        .latency_us_p99_bad = any ? aw_stats_quantile(run->p99, run->p50_count, BAD_STEP) : 0,
        .replica_hours = run->replica_s / SECONDS_PER_HOUR / hours,
        .core_hours = run->cpu_limit_core_s / SECONDS_PER_HOUR / hours,
        .gib_hours = run->memory_limit_gib_s / SECONDS_PER_HOUR / hours,
        .oom_kills = (double)run->oom_kills / hours,
        .restarts = (double)run->restarts / hours,
        .failed_share = ratio(run->failures, run->arrivals),
        .changes = (double)run->changes / hours,
        .replica_changes = 24 * (double)run->replica_changes / hours,
        .replicas_taken_back = 24 * (double)run->taken_back / hours,
    };
    summary->reward_interval = interval(run->reward, episodes, seed, 0, run->scratch);
    for (uint32_t i = 0; i < episodes; i++)
        run->violated[i] /= s->episode_steps;
    summary->violation_interval = interval(run->violated, episodes, seed, 1, run->scratch);
    summary->episodes = episodes;
    summary->steps = run->steps;
    summary->steps_with_requests = run->steps_with_requests;
    summary->hours = hours;
    summary->requests = run->arrivals;
    summary->failed_requests = run->failures;
    summary->violations = run->violations;
    summary->oom_kills = run->oom_kills;
    summary->restarts = run->restarts;
    summary->changes = run->changes;
    summary->replica_changes = run->replica_changes;
    summary->replicas_taken_back = run->taken_back;
    summary->slo_latency_us = run->task->slo_latency_us;
    summary->slo_kept = summary->mean.violation_share <= s->slo_budget;
    summary->slo_unmeetable =
        run->task->slo_latency_us > 0 &&
        run->task->slo_latency_us < fastest_p99_us(&run->c->app, s->cpu_max_cores);
    summary->task = *run->task;
}

static void carve(struct run *run, struct aw_carve *c)
{
    const struct aw_simulate_settings *s = run->settings;
    const size_t steps = (size_t)s->episodes * s->episode_steps;
    run->p50 = aw_carve_take(c, steps, sizeof *run->p50);
    run->p99 = aw_carve_take(c, steps, sizeof *run->p99);
    run->reward = aw_carve_take(c, s->episodes, sizeof *run->reward);
    run->violated = aw_carve_take(c, s->episodes, sizeof *run->violated);
    run->scratch = aw_carve_take(c, s->episodes + RESAMPLES, sizeof *run->scratch);
}

static enum aw_err make(struct run *run, const struct aw_simulate_config *config,
                        const struct aw_simulate_policy *policy, const struct aw_alloc *alloc,
                        struct aw_diag *diag)
{
    const struct aw_simulate_settings *s = run->settings;
    const struct aw_sim_workload workload = {.app = run->c->app,
                                             .load = run->load,
                                             .replicas = run->task->replicas,
                                             .replicas_max = run->task->bounds.replicas_max,
                                             .cpu_millicores = run->task->cpu_millicores,
                                             .memory_bytes = run->task->memory_bytes};
    run->objective = (struct aw_objective){
        .kind = AW_OBJECTIVE_PAPER,
        .slo_weight = s->reward_weight,
        .slo = {.latency_us_p99 = run->task->slo_latency_us,
                .timeout_us = config->sim.request_timeout_s * 1e6},
        .prices = {.core_hour = s->price_core_hour, .gib_hour = s->price_gib_hour},
        .cost_reference_per_hour = 1,
    };
    uint32_t workload_index;
    enum aw_err err = aw_sim_new(&config->sim, config->seed, 1, alloc, &run->sim, diag);
    if (!err)
        err = aw_sim_add(run->sim, &workload, &workload_index, diag);
    if (err)
        return err;
    run->cluster = aw_sim_cluster(run->sim);
    if (policy->is_aware)
        return aw__simulate_life_new(config, run->c, policy, run->task, &run->cluster, alloc,
                                     &run->life, diag);
    if (!policy->is_oracle)
        return aw_fallback_new(&policy->policy, run->task, alloc, &run->policy, diag);
    if (config->sim.model != AW_SIM_FAST)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "%s searches by trying, which only the fast model allows", policy->name);
    return aw_oracle_new(&policy->oracle, run->task, &run->objective, s->slo_budget, s->step_s,
                         run->sim, alloc, &run->oracle, diag);
}

struct extras { /* what tuning wants to know beyond the summary */
    double memory_bytes_peak;
};

static enum aw_err run_all(const struct aw_simulate_config *config, struct run *run, uint32_t index,
                           const struct aw_simulate_policy *policy, const struct aw_alloc *alloc,
                           struct aw_simulate_summary *ret_summary, double *ret_rewards,
                           struct extras *ret_extras, struct aw_diag *diag)
{
    const struct aw_simulate_settings *s = run->settings;
    struct aw_carve c = {0};
    carve(run, &c);
    void *block = aw_alloc_new(alloc, c.used, 1);
    enum aw_err err = AW_OK;
    if (!block) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a run of %u episodes", s->episodes);
        goto out;
    }
    c = (struct aw_carve){.base = block};
    carve(run, &c);
    err = make(run, config, policy, alloc, diag);
    for (uint32_t e = 0; !err && e < s->episodes; e++) {
        if (e == 0 || !s->continuous)
            err = begin(run, config->seed, index, e);
        for (uint32_t i = 0; !err && i < s->episode_steps; i++)
            err = run_step(run, e, i, true);
    }
    if (err)
        goto out;
    struct aw_simulate_summary summary = {.tuned = policy->policy};
    memcpy(summary.policy, policy->name, sizeof summary.policy);
    if (ret_rewards)
        memcpy(ret_rewards, run->reward, s->episodes * sizeof *ret_rewards);
    summarize(run, config->seed, &summary);
    *ret_summary = summary;
    ret_extras->memory_bytes_peak = run->memory_bytes_peak;
out:
    aw_oracle_free(run->oracle);
    aw_fallback_free(run->policy);
    aw__simulate_life_free(run->life);
    aw_sim_free(run->sim);
    aw_alloc_free(alloc, block);
    return err;
}

enum aw_err aw_simulate_run(const struct aw_simulate_config *config,
                            const struct aw_simulate_case *c, uint32_t index,
                            const struct aw_simulate_policy *policy,
                            const struct aw_fallback_task *task, aw_simulate_sink *sink, void *ctx,
                            const struct aw_alloc *alloc, struct aw_simulate_summary *ret_summary,
                            double *ret_rewards, struct aw_diag *diag)
{
    enum aw_err err = aw_simulate_check(&config->settings, &config->sim, diag);
    if (err)
        return err;
    struct run run = {.settings = &config->settings,
                      .c = c,
                      .load = c->load,
                      .task = task,
                      .with_events = true,
                      .sink = sink,
                      .ctx = ctx};
    struct extras extras;
    return run_all(config, &run, index, policy, alloc, ret_summary, ret_rewards, &extras, diag);
}

/* --- tuning -----------------------------------------------------------------------------------
 */

struct tuning {
    struct aw_simulate_config config;
    const struct aw_simulate_case *c;
    uint32_t index;
    const struct aw_alloc *alloc;
};

static enum aw_err evaluate(void *ctx, const struct aw_fallback_settings *settings,
                            const struct aw_fallback_task *task, struct aw_tune_result *ret,
                            struct aw_diag *diag)
{
    const struct tuning *t = ctx;
    struct aw_simulate_policy policy = {.policy = *settings};
    struct aw_simulate_summary summary;
    struct extras extras;
    struct run run = {
        .settings = &t->config.settings, .c = t->c, .load = t->c->tuning_load, .task = task};
    enum aw_err err =
        run_all(&t->config, &run, t->index, &policy, t->alloc, &summary, NULL, &extras, diag);
    if (!err)
        *ret = (struct aw_tune_result){.violation_share = summary.mean.violation_share,
                                       .cost = summary.mean.cost,
                                       .reward = summary.mean.reward,
                                       .memory_bytes_peak = extras.memory_bytes_peak};
    return err;
}

enum aw_err aw_simulate_tune(const struct aw_simulate_config *config,
                             const struct aw_simulate_case *c, uint32_t index,
                             struct aw_simulate_policy *policy, struct aw_fallback_task *task,
                             const struct aw_alloc *alloc, bool *ret_kept, struct aw_diag *diag)
{
    enum aw_err err = aw_simulate_check(&config->settings, &config->sim, diag);
    if (err)
        return err;
    if (policy->tuning == AW_SIMULATE_AS_GIVEN || policy->is_oracle) {
        *ret_kept = true;
        return AW_OK;
    }
    if (!c->tuning_load)
        return aw_fail(diag, AW_ERR_NODATA, "%s is to be tuned, but there is no load to tune on",
                       policy->name);
    struct tuning t = {.config = *config, .c = c, .index = index, .alloc = alloc};
    t.config.settings.episodes = config->tuning_episodes > 0 ? config->tuning_episodes : 1;
    /* Pieces from all over the load tell more than the same number in a row. */
    t.config.settings.continuous = config->tuning_whole;
    t.config.seed = config->seed ^ AW_SIMULATE_TUNING_SEED;
    const struct aw_tune_config tune = {
        .goal = policy->tuning == AW_SIMULATE_TUNE_SLO ? AW_TUNE_SLO : AW_TUNE_REWARD,
        .slo_budget = config->settings.slo_budget,
        .evaluations_max = config->tuning_budget > 0 ? config->tuning_budget : 1,
    };
    struct aw_tune_result result;
    err = aw_tune(&tune, evaluate, &t, &policy->policy, task, &result, NULL, diag);
    if (!err)
        *ret_kept = result.violation_share <= tune.slo_budget;
    return err;
}
