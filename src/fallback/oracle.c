/* oracle.c - try, score, put back; see oracle.h. */
#include "fallback/oracle.h"

#include <math.h>
#include <string.h>

static const char *const goal_names[] = {"reward", "cost", NULL};

#define AW_CONF_OF struct aw_oracle_settings
const struct aw_conf_field aw_oracle_fields[] = {
    AW_CONF_ONE_OF(goal, "reward", goal_names,
                   "what is best: the paper's reward, or cost within the SLO budget"),
    AW_CONF_NUMBER(size_horizon, "32", 1, 1000,
                   "steps over which a size of a replica is judged; a rollout must pay for itself"),
    AW_CONF_NUMBER(
        count_horizon, "4", 1, 1000,
        "steps over which a number of replicas is judged; it can change again in the next"),
    AW_CONF_NUMBER(hold, "2", 1, 100, "steps between searches for a size"),
    AW_CONF_NUMBER(refresh, "5", 1, 100000,
                   "searches for a size after which the whole grid is tried"),
    {0},
};

/* A violation in the goal of cost, in costs of a step. Covered by the budget: it must still save
 * more than it is worth to spend it now rather than later. Bare: never worth it. */
#define PRICE_COVERED 1.0
#define PRICE_BARE    100.0
#define SLOPE         0.2
#define GAIN_MIN      1e-3 /* of the better score, relative: what is less is no reason to move */
#define RATE_KEEP     0.9  /* of running means, per step */
#define HEADROOM_MIN  1.01
#define HEADROOM_MAX  50.0
#define ROLLOUT_US    45000000 /* three steps, in which most rollouts end */
#define PEAK_STEPS    20u      /* over which a peak of memory is recent */

struct candidate {
    double millicores, memory_bytes;
    /* A new size is rolled out replica by replica; taking some away meanwhile would hurt. */
    uint32_t replicas_kept;
    int64_t kept_until_us;
    double headroom;    /* cores in all over cores that the load needs */
    uint32_t lookahead; /* steps of load that are looked at, the present one included */
};

struct aw_oracle {
    struct aw_oracle_settings settings;
    struct aw_fallback_task task;
    struct aw_objective objective;
    double slo_budget, step_s;
    const struct aw_alloc *alloc;
    size_t state_bytes;
    unsigned char *state; /* [state_bytes], behind this struct in the same block */

    struct candidate now;     /* what is done: its size is that of `lasting` */
    struct candidate lasting; /* what is best in the long run, with its own headroom */
    uint32_t searches, steps;
    double bank;               /* violations saved up */
    double core_s_per_request; /* running mean; 0: not known */
    double cost_of_step;       /* likewise */
    double peak[PEAK_STEPS];   /* of memory in bytes, a ring */

    /* For the length of a decision. */
    struct aw_sim *sim;
    struct aw_cluster cluster;
    uint32_t workload;
    const struct aw_load *load;
    int64_t load_offset_us, now_us;
    uint32_t replicas_wanted;
};

enum aw_err aw_oracle_new(const struct aw_oracle_settings *settings,
                          const struct aw_fallback_task *task, const struct aw_objective *objective,
                          double slo_budget, double step_s, const struct aw_sim *sim,
                          const struct aw_alloc *alloc, struct aw_oracle **ret_oracle,
                          struct aw_diag *diag)
{
    enum aw_err err = aw_bounds_check(&task->bounds, diag);
    if (err)
        return err;
    const size_t state_bytes = aw_sim_state_bytes(sim);
    struct aw_carve carve = {0};
    (void)aw_carve_take(&carve, 1, sizeof(struct aw_oracle));
    (void)aw_carve_take(&carve, state_bytes, 1);
    void *block = aw_alloc_new(alloc, carve.used, 1);
    if (!block)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an oracle");
    carve = (struct aw_carve){.base = block};
    struct aw_oracle *oracle = aw_carve_take(&carve, 1, sizeof *oracle);
    *oracle = (struct aw_oracle){
        .settings = *settings,
        .task = *task,
        .objective = *objective,
        .slo_budget = slo_budget,
        .step_s = step_s,
        .alloc = alloc,
        .state_bytes = state_bytes,
        .state = aw_carve_take(&carve, state_bytes, 1),
    };
    aw_oracle_reset(oracle);
    *ret_oracle = oracle;
    return AW_OK;
}

void aw_oracle_free(struct aw_oracle *oracle)
{
    if (oracle)
        aw_alloc_free(oracle->alloc, oracle);
}

void aw_oracle_reset(struct aw_oracle *oracle)
{
    oracle->now = (struct candidate){.millicores = (double)oracle->task.cpu_millicores,
                                     .memory_bytes = (double)oracle->task.memory_bytes,
                                     .headroom = 2,
                                     .lookahead = 2};
    oracle->lasting = oracle->now;
    oracle->searches = oracle->steps = 0;
    oracle->bank = oracle->core_s_per_request = oracle->cost_of_step = 0;
    memset(oracle->peak, 0, sizeof oracle->peak);
}

struct aw_outcome aw_outcome_of_truth(const struct aw_sim_truth *truth, double step_s)
{
    return (struct aw_outcome){
        .arrivals_per_s = truth->arrivals / step_s,
        .completions_per_s = truth->completions / step_s,
        .errors_per_s = truth->failures / step_s,
        .latency_us_slo = truth->latency_us_p99,
        .cpu_utilisation =
            truth->cpu_limit_core_s > 0 ? truth->cpu_core_s / truth->cpu_limit_core_s : 0,
        .memory_utilisation =
            truth->memory_limit_gib_s > 0 ? truth->memory_gib_s / truth->memory_limit_gib_s : 0,
        .allocated = {[AW_RESOURCE_CPU] = truth->cpu_limit_core_s / step_s,
                      [AW_RESOURCE_MEMORY] = truth->memory_limit_gib_s / step_s},
    };
}

/* --- one candidate ----------------------------------------------------------------------------
 */

/* Cores that the highest of the coming `lookahead` steps needs. */
static double cores_needed(const struct aw_oracle *oracle, int64_t now_us, uint32_t lookahead)
{
    const int64_t step_us = (int64_t)(oracle->step_s * 1e6);
    double rate = 0;
    for (uint32_t i = 0; i < lookahead; i++) {
        const int64_t from = now_us + oracle->load_offset_us + i * step_us;
        rate = fmax(rate, aw_load_mean(oracle->load, from, from + step_us));
    }
    return rate * oracle->core_s_per_request;
}

static struct aw_plan plan_of(const struct aw_oracle *oracle, const struct candidate *c,
                              int64_t now_us)
{
    const double cores = cores_needed(oracle, now_us, c->lookahead) * c->headroom;
    const double replicas = ceil(cores * 1e3 / c->millicores - 1e-9);
    struct aw_plan plan = {
        .set = AW_PLAN_COMMON,
        .replicas = (uint32_t)fmin(fmax(replicas, 0), AW_CLUSTER_PODS_MAX),
        .cpu_millicores = llround(c->millicores / 10) * 10,
        .memory_bytes = (int64_t)(c->memory_bytes / (1 << 20)) << 20,
    };
    if (now_us < c->kept_until_us && plan.replicas < c->replicas_kept)
        plan.replicas = c->replicas_kept;
    aw_bounds_clip(&oracle->task.bounds, &plan);
    return plan;
}

static void score_step(const struct aw_oracle *oracle, struct aw_score *ret)
{
    const struct aw_sim_truth *truth = aw_sim_truth(oracle->sim, oracle->workload);
    const struct aw_outcome outcome = aw_outcome_of_truth(truth, oracle->step_s);
    aw_objective_score(&oracle->objective, &outcome, oracle->step_s, ret);
}

static double worth(const struct aw_oracle *oracle, const struct aw_score *score, double *bank)
{
    if (oracle->settings.goal == AW_ORACLE_REWARD)
        return score->paper_reward;
    const double unit = oracle->cost_of_step > 0 ? oracle->cost_of_step : score->cost;
    double price = 0;
    if (score->violated) {
        price = *bank >= 1 ? PRICE_COVERED : PRICE_BARE;
        price *= 1 - SLOPE * score->sp; /* of two that miss, the nearer: a slope to walk down */
        *bank -= 1;
    }
    *bank += oracle->slo_budget;
    return -(unit > 0 ? score->cost / unit : 0) - price;
}

/* The mean worth of a step when `c` is followed over a horizon; the cluster is left there. */
static double try(struct aw_oracle *oracle, const struct candidate *c, uint32_t horizon)
{
    const int64_t step_us = (int64_t)(oracle->step_s * 1e6);
    int64_t now = oracle->now_us;
    double total = 0, bank = oracle->bank;
    if (aw_sim_state_load(oracle->sim, oracle->state))
        return -INFINITY;
    for (uint32_t i = 0; i < horizon; i++) {
        const struct aw_plan plan = plan_of(oracle, c, now);
        struct aw_score score;
        /* A cluster that does not answer keeps what it has: that is a result too. */
        (void)oracle->cluster.ops->apply(oracle->cluster.self, oracle->workload, &plan, INT64_MAX);
        now += step_us;
        if (oracle->cluster.ops->advance(oracle->cluster.self, now))
            return -INFINITY;
        score_step(oracle, &score);
        total += worth(oracle, &score, &bank);
    }
    return total / horizon;
}

/* --- search -----------------------------------------------------------------------------------
 */

static bool better(double found, double best)
{
    return found > best + GAIN_MIN * fmax(fabs(best), 0.01);
}

/* A search under way: the best so far, and over how many steps candidates are followed. */
struct search {
    struct aw_oracle *oracle;
    uint32_t horizon;
    struct candidate best;
    double score;
};

static void consider(struct search *search, struct candidate c)
{
    const struct aw_bounds *b = &search->oracle->task.bounds;
    c.millicores =
        fmin(fmax(c.millicores, (double)b->cpu_millicores_min), (double)b->cpu_millicores_max);
    c.memory_bytes =
        fmin(fmax(c.memory_bytes, (double)b->memory_bytes_min), (double)b->memory_bytes_max);
    c.headroom = fmin(fmax(c.headroom, HEADROOM_MIN), HEADROOM_MAX);
    if (c.millicores != search->best.millicores || c.memory_bytes != search->best.memory_bytes) {
        c.replicas_kept = search->oracle->replicas_wanted;
        c.kept_until_us = search->oracle->now_us + ROLLOUT_US;
    }
    const double score = try(search->oracle, &c, search->horizon);
    if (better(score, search->score)) {
        search->best = c;
        search->score = score;
    }
}

/* `both`: all pairs, for a burst that needs more, and sooner, at the same time. */
static void search_count(struct search *search, bool both)
{
    static const double headroom[] = {1, 0.7, 0.88, 0.96, 1.05, 1.15, 1.4, 2, 3};
    static const uint32_t lookahead[] = {1, 2, 3, 5};
    struct candidate from = search->best;
    for (size_t i = 0; i < sizeof lookahead / sizeof *lookahead; i++)
        for (size_t k = 0; k < (both ? sizeof headroom / sizeof *headroom : 1); k++) {
            struct candidate c = from;
            c.lookahead = lookahead[i];
            c.headroom *= headroom[k];
            consider(search, c);
        }
    from = search->best;
    for (size_t k = 1; !both && k < sizeof headroom / sizeof *headroom; k++) {
        struct candidate c = from;
        c.headroom *= headroom[k];
        consider(search, c);
    }
}

static void search_size(struct search *search, double memory_peak)
{
    static const double millicores[] = {0.5, 0.75, 0.9, 1.12, 1.34, 2};
    static const double memory[] = {1.005, 1.02, 1.05, 1.1, 1.2, 1.4, 2};
    struct candidate from = search->best;
    for (size_t i = 0; memory_peak > 0 && i < sizeof memory / sizeof *memory; i++) {
        struct candidate c = from;
        c.memory_bytes = memory_peak * memory[i];
        consider(search, c);
    }
    from = search->best;
    for (size_t i = 0; i < sizeof millicores / sizeof *millicores; i++) {
        struct candidate c = from;
        c.millicores *= millicores[i];
        consider(search, c);
    }
}

/* Numbers of replicas and headrooms far from the last choice, where a walk by coordinates would get
 * stuck; the size is such that so many replicas are just enough. */
static void search_grid(struct search *search)
{
    static const double headroom[] = {1.1, 1.25, 1.45, 1.8, 2.5, 4};
    static const double replicas[] = {1, 2, 3, 4, 6, 10};
    /* A replica of another size has other numbers of requests in flight, hence other memory. */
    static const double memory[] = {0.75, 1, 1.6};
    const struct candidate from = search->best;
    const double needed =
        cores_needed(search->oracle, search->oracle->now_us, from.lookahead) * 1e3;
    for (size_t i = 0; i < sizeof replicas / sizeof *replicas; i++)
        for (size_t k = 0; k < sizeof headroom / sizeof *headroom; k++)
            for (size_t m = 0; needed > 0 && m < sizeof memory / sizeof *memory; m++) {
                struct candidate c = from;
                c.millicores = ceil(needed * headroom[k] / replicas[i] / 10) * 10;
                c.headroom = headroom[k];
                c.memory_bytes *= memory[m];
                consider(search, c);
            }
}

/* A size lasts, because changing it restarts replicas: it is judged over a long time, with the
 * headroom that is best in the long run. The count is then chosen for the next few steps. */
static void search_all(struct aw_oracle *oracle, double memory_peak)
{
    if ((oracle->steps - 1) % oracle->settings.hold == 0) {
        struct search size = {
            .oracle = oracle, .horizon = oracle->settings.size_horizon, .best = oracle->lasting};
        size.score = try(oracle, &size.best, size.horizon);
        if (oracle->searches++ % oracle->settings.refresh == 0)
            search_grid(&size);
        search_count(&size, false);
        search_size(&size, memory_peak);
        oracle->lasting = size.best;
    }
    struct search count = {
        .oracle = oracle, .horizon = oracle->settings.count_horizon, .best = oracle->lasting};
    count.score = try(oracle, &count.best, count.horizon);
    struct candidate same = oracle->lasting; /* the present size, as many as in the step before */
    same.headroom = oracle->now.headroom;
    same.lookahead = oracle->now.lookahead;
    consider(&count, same);
    search_count(&count, true);
    oracle->now = count.best;
}

enum aw_err aw_oracle_decide(struct aw_oracle *oracle, struct aw_sim *sim, uint32_t workload,
                             const struct aw_load *load, int64_t load_offset_us,
                             struct aw_plan *ret_plan, struct aw_fallback_reason *ret_reason)
{
    struct aw_cluster cluster = aw_sim_cluster(sim);
    struct aw_sample sample;
    AW_ASSERT(aw_sim_state_bytes(sim) == oracle->state_bytes);
    aw_sim_state_save(sim, oracle->state);
    enum aw_err err = cluster.ops->observe(cluster.self, workload, INT64_MAX, &sample);
    if (err)
        return err;
    oracle->sim = sim;
    oracle->cluster = cluster;
    oracle->workload = workload;
    oracle->load = load;
    oracle->load_offset_us = load_offset_us;
    oracle->now_us = cluster.ops->now_us(cluster.self);
    oracle->replicas_wanted = sample.replicas_wanted;

    struct aw_fallback_reason reason = {.utilization = NAN, .cause = AW_FALLBACK_CAUSE_NO_DATA};
    struct aw_plan plan = aw_plan_of(sample.wanted);
    if (sample.memory_bytes_peak.at_us != AW_NEVER)
        oracle->peak[oracle->steps % PEAK_STEPS] = sample.memory_bytes_peak.value;
    double memory_peak = 0;
    for (uint32_t i = 0; i < PEAK_STEPS; i++)
        memory_peak = fmax(memory_peak, oracle->peak[i]);
    oracle->steps++;
    if (oracle->core_s_per_request > 0) {
        search_all(oracle, memory_peak);
        plan = plan_of(oracle, &oracle->now, oracle->now_us);
        reason.cause = AW_FALLBACK_CAUSE_SEARCHED;
    }
    err = aw_sim_state_load(sim, oracle->state);
    oracle->sim = NULL;
    if (err)
        return err;
    plan.set &= aw_plan_differs(plan.amount, sample.wanted);
    *ret_plan = plan;
    if (ret_reason)
        *ret_reason = reason;
    return AW_OK;
}

static double follow(double mean, double value)
{
    return mean > 0 ? RATE_KEEP * mean + (1 - RATE_KEEP) * value : value;
}

void aw_oracle_learn(struct aw_oracle *oracle, const struct aw_sim_truth *truth,
                     const struct aw_score *score)
{
    if (truth->completions > 0 && truth->cpu_core_s > 0)
        oracle->core_s_per_request =
            follow(oracle->core_s_per_request, truth->cpu_core_s / truth->completions);
    if (score->cost > 0)
        oracle->cost_of_step = follow(oracle->cost_of_step, score->cost);
    oracle->bank += oracle->slo_budget - (score->violated ? 1 : 0);
}
