/* tune.c - bisection, golden section and pattern search, whichever fits what is tuned. */
#include "fallback/tune.h"
#include "task/action.h"
#include "task/bounds.h"

#include <math.h>

#define TARGET_MIN    10u /* percent; below, nobody runs an HPA */
#define TARGET_MAX    95u
#define TARGET_STEP   12u /* first look when the reward is sought */
#define SIZE_COUNT    5u  /* CPU sizes of the first look, log-spaced over the bounds */
#define MEMORY_STEP   (1 << 20)
#define PATTERN_FIRST 0.3 /* first step of the pattern search, in units of an action */
#define PATTERN_LAST  0.02

struct point {
    struct aw_fallback_settings settings;
    struct aw_fallback_task task;
};

struct tuner {
    const struct aw_tune_config *config;
    aw_tune_evaluate *evaluate;
    void *ctx;
    struct aw_diag *diag;
    enum aw_err err;
    uint32_t evaluations, limit;
    bool found;
    struct point best;
    struct aw_tune_result best_result;
};

bool aw_tune_better(const struct aw_tune_config *config, const struct aw_tune_result *a,
                    const struct aw_tune_result *b)
{
    if (config->goal == AW_TUNE_REWARD)
        return a->reward > b->reward;
    const bool a_keeps = a->violation_share <= config->slo_budget;
    const bool b_keeps = b->violation_share <= config->slo_budget;
    if (a_keeps != b_keeps)
        return a_keeps;
    if (!a_keeps && a->violation_share != b->violation_share)
        return a->violation_share < b->violation_share;
    return a->cost < b->cost;
}

static bool over(const struct tuner *t)
{
    return t->err != AW_OK || t->evaluations >= t->limit;
}

/* False when there is nothing more to spend; `ret` is untouched then. */
static bool try(struct tuner *t, const struct point *point, struct aw_tune_result *ret)
{
    struct aw_tune_result result = {0};
    if (over(t))
        return false;
    t->err = t->evaluate(t->ctx, &point->settings, &point->task, &result, t->diag);
    t->evaluations++;
    if (t->err)
        return false;
    if (!t->found || aw_tune_better(t->config, &result, &t->best_result)) {
        t->found = true;
        t->best = *point;
        t->best_result = result;
    }
    *ret = result;
    return true;
}

/* --- HPA --------------------------------------------------------------------------------------
 */

/* The highest target that keeps the budget at this size. */
static void bisect_target(struct tuner *t, struct point point)
{
    struct aw_tune_result result;
    uint32_t low = TARGET_MIN, high = TARGET_MAX + 1; /* low keeps, as far as anything does */
    while (high - low > 1) {
        point.settings.hpa_target = (low + high) / 2;
        if (!try(t, &point, &result))
            return;
        if (result.violation_share <= t->config->slo_budget)
            low = point.settings.hpa_target;
        else
            high = point.settings.hpa_target;
    }
    if (low == TARGET_MIN) {
        point.settings.hpa_target = low;
        (void)try(t, &point, &result);
    }
}

/* The target of the highest reward at this size: a coarse look, then ever closer around the best.
 */
static void climb_target(struct tuner *t, struct point point)
{
    struct aw_tune_result result, best = {0};
    uint32_t at = TARGET_MIN;
    for (uint32_t target = TARGET_MIN; target <= TARGET_MAX; target += TARGET_STEP) {
        point.settings.hpa_target = target;
        if (!try(t, &point, &result))
            return;
        if (target == TARGET_MIN || aw_tune_better(t->config, &result, &best)) {
            best = result;
            at = target;
        }
    }
    for (uint32_t step = TARGET_STEP / 2; step > 0; step /= 2) {
        const uint32_t from = at;
        for (int side = -1; side <= 1; side += 2) {
            const int64_t target = (int64_t)from + side * (int64_t)step;
            if (target < TARGET_MIN || target > TARGET_MAX)
                continue;
            point.settings.hpa_target = (uint32_t)target;
            if (!try(t, &point, &result))
                return;
            if (aw_tune_better(t->config, &result, &best)) {
                best = result;
                at = (uint32_t)target;
            }
        }
    }
}

static void tune_target(struct tuner *t, const struct point *point)
{
    if (t->config->goal == AW_TUNE_SLO)
        bisect_target(t, *point);
    else
        climb_target(t, *point);
}

static void tune_size(struct tuner *t, struct point point)
{
    const struct aw_bounds *bounds = &point.task.bounds;
    const double low = (double)bounds->cpu_millicores_min;
    const double span = log((double)bounds->cpu_millicores_max / low);
    for (uint32_t i = 0; i < SIZE_COUNT; i++) {
        /* largest first: what is left of a short budget is then safe */
        const double at = 1 - (double)i / SIZE_COUNT;
        point.task.cpu_millicores = llround(low * exp(span * at) / 10) * 10;
        tune_target(t, &point);
    }
    for (double step = 0.5 / SIZE_COUNT; !over(t) && step > 0.05 && t->found; step /= 2) {
        const struct point from = t->best;
        for (int side = -1; side <= 1; side += 2) {
            point.task.cpu_millicores =
                llround((double)from.task.cpu_millicores * exp(side * span * step) / 10) * 10;
            if (point.task.cpu_millicores >= bounds->cpu_millicores_min &&
                point.task.cpu_millicores <= bounds->cpu_millicores_max)
                tune_target(t, &point);
        }
    }
}

/* A size of memory from what was seen, tight first; a look at a graph gives users the same. */
#define MEMORY_LOOKS 4u
static void tune_memory(struct tuner *t)
{
    static const double margins[MEMORY_LOOKS] = {1.1, 1.2, 1.4, 1.8};
    const double peak = t->best_result.memory_bytes_peak;
    struct point point = t->best;
    for (size_t i = 0; peak > 0 && i < MEMORY_LOOKS; i++) {
        const struct aw_bounds *bounds = &point.task.bounds;
        const double bytes = ceil(peak * margins[i] / MEMORY_STEP) * MEMORY_STEP;
        point.task.memory_bytes = (int64_t)fmin(fmax(bytes, (double)bounds->memory_bytes_min),
                                                (double)bounds->memory_bytes_max);
        struct aw_tune_result result;
        if (!try(t, &point, &result))
            return;
    }
}

/* --- constant ---------------------------------------------------------------------------------
 */

/* A number that is tuned, from `low` to `high`, by equal differences or by equal factors. */
struct axis {
    size_t offset; /* in struct point: of a double, or of an int64_t where it is `whole` */
    double low, high;
    bool factors, whole;
};

static double axis_get(const struct axis *axis, const struct point *point)
{
    const void *at = (const char *)point + axis->offset;
    return axis->whole ? (double)*(const int64_t *)at : *(const double *)at;
}

static void axis_set(const struct axis *axis, double value, struct point *point)
{
    void *at = (char *)point + axis->offset;
    value = fmin(fmax(value, axis->low), axis->high);
    if (axis->whole)
        *(int64_t *)at = llround(value);
    else
        *(double *)at = value;
}

/* `by` of half of the axis further. */
static double axis_move(const struct axis *axis, double value, double by)
{
    return axis->factors ? value * exp(by * log(axis->high / axis->low) / 2)
                         : value + by * (axis->high - axis->low) / 2;
}

/* Ever smaller steps from the best along every axis. `fit` (may be NULL) makes a point whole. */
static void pattern_search(struct tuner *t, const struct axis *axes, uint32_t count,
                           void (*fit)(struct point *point, const struct point *start),
                           const struct point *start)
{
    for (double step = PATTERN_FIRST; step > PATTERN_LAST;) {
        bool moved = false;
        for (uint32_t i = 0; i < count; i++)
            for (int side = -1; side <= 1; side += 2) {
                const struct aw_tune_result before = t->best_result;
                struct aw_tune_result result;
                struct point point = t->best;
                const double value = axis_get(&axes[i], &point);
                axis_set(&axes[i], axis_move(&axes[i], value, side * step), &point);
                if (axis_get(&axes[i], &point) == value)
                    continue;
                if (fit)
                    fit(&point, start);
                if (!try(t, &point, &result))
                    return;
                moved = moved || aw_tune_better(t->config, &t->best_result, &before);
            }
        if (!moved)
            step /= 2;
    }
}

static void tune_constant(struct tuner *t, struct point point)
{
    static const double cpu[] = {-0.6, -0.2, 0.2, 0.6, 1};
    static const double replicas[] = {-0.9, -0.7, -0.4, 0};
    static const struct axis axes[AW_ACTION_DIM] = {
        {offsetof(struct point, settings.constant_cpu), -1, 1, false, false},
        {offsetof(struct point, settings.constant_memory), -1, 1, false, false},
        {offsetof(struct point, settings.constant_replicas), -1, 1, false, false},
    };
    struct aw_tune_result result;
    for (size_t i = 0; i < sizeof cpu / sizeof *cpu; i++)
        for (size_t k = 0; k < sizeof replicas / sizeof *replicas; k++) {
            point.settings.constant_cpu = cpu[i];
            point.settings.constant_replicas = replicas[k];
            if (!try(t, &point, &result))
                return;
        }
    pattern_search(t, axes, AW_ACTION_DIM, NULL, NULL);
}

/* --- AIMD -------------------------------------------------------------------------------------
 */

/* It begins with as many cores as `start` has, in replicas no larger than they may be. */
static void fit_aimd(struct point *point, const struct point *start)
{
    struct aw_fallback_task *task = &point->task;
    const int64_t most = task->bounds.cpu_millicores_max,
                  all = start->task.cpu_millicores * start->task.replicas;
    task->cpu_millicores = start->task.cpu_millicores < most ? start->task.cpu_millicores : most;
    const int64_t replicas = (all + task->cpu_millicores - 1) / task->cpu_millicores;
    task->replicas =
        replicas < task->bounds.replicas_max ? (uint32_t)replicas : task->bounds.replicas_max;
}

/* How large a replica may become decides how many there are: it adds one only where the present
 * ones cannot grow. The other numbers are the rule's own. */
static void tune_aimd(struct tuner *t, struct point point)
{
    static const double slack[] = {0.5, 0.7, 0.85};
    const struct point start = point;
    const struct aw_bounds *bounds = &start.task.bounds;
    const double low = (double)bounds->cpu_millicores_min,
                 high = (double)bounds->cpu_millicores_max;
    const struct axis axes[] = {
        {offsetof(struct point, task.bounds.cpu_millicores_max), low, high, true, true},
        {offsetof(struct point, settings.aimd_slack), 0.2, 0.98, false, false},
        {offsetof(struct point, settings.aimd_cpu_step), 0.05, 8, true, false},
        {offsetof(struct point, settings.aimd_decrease), 0.5, 0.99, false, false},
        {offsetof(struct point, settings.aimd_period), 15, 600, true, false},
    };
    struct aw_tune_result result;
    for (uint32_t i = 0; i < SIZE_COUNT; i++)
        for (size_t k = 0; k < sizeof slack / sizeof *slack; k++) {
            axis_set(&axes[0], high * pow(low / high, (double)i / SIZE_COUNT), &point);
            point.settings.aimd_slack = slack[k];
            fit_aimd(&point, &start);
            if (!try(t, &point, &result))
                return;
        }
    pattern_search(t, axes, sizeof axes / sizeof *axes, fit_aimd, &start);
}

enum aw_err aw_tune(const struct aw_tune_config *config, aw_tune_evaluate *evaluate, void *ctx,
                    struct aw_fallback_settings *settings, struct aw_fallback_task *task,
                    struct aw_tune_result *ret, uint32_t *ret_evaluations, struct aw_diag *diag)
{
    struct tuner t = {.config = config,
                      .evaluate = evaluate,
                      .ctx = ctx,
                      .diag = diag,
                      .limit = config->evaluations_max};
    const struct point start = {.settings = *settings, .task = *task};
    struct aw_tune_result result;
    AW_ASSERT(config->evaluations_max > 0);
    (void)try(&t, &start, &result);
    switch ((enum aw_fallback_kind)settings->kind) {
    case AW_FALLBACK_HPA:
        t.limit -= t.limit > 2 * MEMORY_LOOKS ? MEMORY_LOOKS : 0;
        tune_size(&t, start);
        t.limit = config->evaluations_max;
        tune_memory(&t);
        break;
    case AW_FALLBACK_HPA_VPA_MEM:
        tune_size(&t, start);
        break;
    case AW_FALLBACK_HPA_VPA:
        tune_target(&t, &start);
        break;
    case AW_FALLBACK_CONSTANT:
        tune_constant(&t, start);
        break;
    case AW_FALLBACK_AIMD:
        tune_aimd(&t, start);
        break;
    case AW_FALLBACK_STATIC:
    case AW_FALLBACK_VPA:
    case AW_FALLBACK_COUNT:
        break;
    }
    if (t.err)
        return t.err;
    *settings = t.best.settings;
    *task = t.best.task;
    *ret = t.best_result;
    if (ret_evaluations)
        *ret_evaluations = t.evaluations;
    return AW_OK;
}
