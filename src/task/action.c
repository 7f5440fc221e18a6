/* action.c - the two mappings, the guard and the deadband; margins from a trial of some forty
 * variants on generated applications. */
#include "task/action.h"

#include <math.h>

/* Anchored: the lowest action leaves this much above the recent peak, the highest this much. */
const struct aw_log_range aw_action_memory_margin = {1.03, 2.06, 0.029558802f, 0.693147182f,
                                                     1.44269502f};
const struct aw_log_range aw_action_cpu_margin = {1.1, 17.6, 0.0953101814f, 2.77258873f,
                                                  0.360673755f};

#define GUARD_MARGIN     1.05 /* over the recent peak of memory */
#define GUARD_OOM_MARGIN 1.2  /* over the limit that was too small; VPA's OOM bump-up */

/* Amounts move in steps that a person would write. */
#define CPU_STEP_MILLICORES 10
#define MEMORY_STEP_BYTES   (1 << 20)

#define AMOUNT_MAX 1e15 /* before it becomes a whole number; far above any bound in use */

const struct aw_space_axis aw_action_axes[AW_ACTION_DIM] = {
    [AW_ACTION_CPU] = {"cpu", "", -1, 1},
    [AW_ACTION_MEMORY] = {"memory", "", -1, 1},
    [AW_ACTION_REPLICAS] = {"replicas", "", -1, 1},
};

uint32_t aw_action_more(const struct aw_bounds *bounds)
{
    uint32_t more = 0;
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        more |= bounds->max[r] > 0 ? AW_PLAN_BIT(r) : 0;
    return more;
}

uint32_t aw_action_dim(uint32_t more)
{
    return AW_ACTION_DIM + (uint32_t)__builtin_popcount(more);
}

enum aw_resource aw_action_resource(uint32_t more, uint32_t axis)
{
    static const enum aw_resource first[AW_ACTION_DIM] = {
        [AW_ACTION_CPU] = AW_RESOURCE_CPU,
        [AW_ACTION_MEMORY] = AW_RESOURCE_MEMORY,
        [AW_ACTION_REPLICAS] = AW_RESOURCE_REPLICAS,
    };
    if (axis < AW_ACTION_DIM)
        return first[axis];
    for (; axis > AW_ACTION_DIM; axis--)
        more &= more - 1;
    return (enum aw_resource)__builtin_ctz(more);
}

struct aw_space_axis aw_action_axis(uint32_t more, uint32_t axis)
{
    return (struct aw_space_axis){aw_resource_table[aw_action_resource(more, axis)].name, "", -1,
                                  1};
}

void aw_action_init(struct aw_action *action, const struct aw_action_config *config)
{
    const struct aw_bounds *b = &config->bounds;
    AW_ASSERT(config->window > 0 && config->window <= AW_ACTION_WINDOW_MAX);
    *action = (struct aw_action){
        .config = *config,
        .cpu_millicores =
            aw_log_range((double)b->cpu_millicores_min, (double)b->cpu_millicores_max),
        .memory_bytes = aw_log_range((double)b->memory_bytes_min, (double)b->memory_bytes_max),
        .replicas = aw_log_range((double)b->replicas_min, (double)b->replicas_max),
        .more = aw_action_more(b),
    };
    action->dim = aw_action_dim(action->more);
}

void aw_action_begin(struct aw_action_memory *memory)
{
    *memory = (struct aw_action_memory){0};
}

/* Puts `value` in the place of the oldest; the peak is searched anew only when it goes. */
static void ring_push(double *ring, uint32_t window, uint32_t at, double value, double *peak)
{
    double gone = ring[at];
    ring[at] = value;
    if (value >= *peak) {
        *peak = value;
    } else if (gone == *peak) {
        *peak = 0;
        for (uint32_t i = 0; i < window; i++)
            *peak = ring[i] > *peak ? ring[i] : *peak;
    }
}

static double known(double x)
{
    return x > 0 ? x : 0;
}

void aw_action_observe(const struct aw_action *action, struct aw_action_memory *memory,
                       const struct aw_reading *reading)
{
    const uint32_t window = action->config.window, at = memory->next;
    ring_push(memory->cpu_cores, window, at, known(reading->cpu_cores_used),
              &memory->cpu_cores_peak);
    ring_push(memory->memory_bytes, window, at, known(reading->memory_bytes_peak),
              &memory->memory_bytes_peak);
    memory->next = at + 1 < window ? at + 1 : 0;
    if (reading->oom_kills > 0) {
        double floor = GUARD_OOM_MARGIN * (double)reading->memory_bytes_wanted;
        memory->oom_floor_bytes = fmax(memory->oom_floor_bytes, floor);
        memory->oom_steps_left = action->config.oom_steps;
    } else if (memory->oom_steps_left > 0 && --memory->oom_steps_left == 0) {
        memory->oom_floor_bytes = 0;
    }
}

static double at_most(double x, double most)
{
    return x < most ? x : most;
}

/* To the nearest step; what does not fit an amount is the most that does. */
static int64_t step_nearest(double amount, int64_t step)
{
    return (int64_t)(at_most(amount, AMOUNT_MAX) / (double)step + 0.5) * step;
}

static int64_t step_up(double amount, int64_t step)
{
    double steps = at_most(amount, AMOUNT_MAX) / (double)step;
    int64_t whole = (int64_t)steps;
    return (whole + ((double)whole < steps)) * step;
}

static double unit(float value)
{
    double x = 0.5 * ((double)value + 1);
    return x > 0 ? x < 1 ? x : 1 : 0;
}

static int64_t clip(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static int64_t memory_anchored(const struct aw_action_memory *memory,
                               const struct aw_reading *reading, double at)
{
    if (!(memory->memory_bytes_peak > 0))
        return reading->memory_bytes_wanted;
    double bytes = memory->memory_bytes_peak * aw_log_range_amount(&aw_action_memory_margin, at);
    int64_t wanted = step_nearest(bytes, MEMORY_STEP_BYTES);
    bool blind = isnan(reading->memory_bytes_peak) && reading->memory_bytes_wanted > wanted;
    return blind ? reading->memory_bytes_wanted : wanted;
}

static int64_t replicas_anchored(const struct aw_action_memory *memory,
                                 const struct aw_reading *reading, double at,
                                 int64_t cpu_millicores)
{
    if (!(memory->cpu_cores_peak > 0) && isnan(reading->cpu_cores_used))
        return reading->replicas_wanted;
    double cores = memory->cpu_cores_peak * aw_log_range_amount(&aw_action_cpu_margin, at);
    int64_t wanted = step_up(1e3 * cores / (double)cpu_millicores, 1);
    bool blind = isnan(reading->cpu_cores_used) && reading->replicas_wanted > wanted;
    return blind ? reading->replicas_wanted : wanted;
}

/* The least memory that the recent past allows. */
static int64_t guard_floor(const struct aw_action *action, const struct aw_action_memory *memory)
{
    if (!action->config.guard)
        return 0;
    double floor = GUARD_MARGIN * memory->memory_bytes_peak;
    floor = floor > memory->oom_floor_bytes ? floor : memory->oom_floor_bytes;
    return step_up(floor, MEMORY_STEP_BYTES);
}

/* The present size, if `wanted` is near enough to it and it is allowed. */
static int64_t settle(int64_t wanted, int64_t present, double deadband, int64_t low, int64_t high)
{
    bool near = fabs((double)wanted - (double)present) <= deadband * (double)present;
    return near && present >= low && present <= high ? present : wanted;
}

/* A resource beyond the first three. */
static int64_t amount_of(const struct aw_action *action, const struct aw_reading *reading,
                         enum aw_resource r, double at)
{
    const struct aw_action_config *c = &action->config;
    const int64_t low = c->bounds.min[r], high = c->bounds.max[r], present = reading->wanted[r];
    const double used = aw_resource_table[r].use == AW_USE_CPU ? reading->cpu_cores_used
                                                               : reading->memory_bytes_used;
    const struct aw_log_range range = aw_bounds_range(&c->bounds, r);
    const int64_t wanted =
        clip(step_nearest(aw_log_range_amount(&range, at), aw_resource_table[r].step), low, high);
    const bool blind = isnan(used) && present > wanted;
    return blind ? clip(present, low, high) : settle(wanted, present, c->deadband, low, high);
}

void aw_action_plan(const struct aw_action *action, const struct aw_action_memory *memory,
                    const struct aw_reading *reading, const float *values, struct aw_plan *ret_plan)
{
    const struct aw_action_config *c = &action->config;
    const struct aw_bounds *b = &c->bounds;
    const double memory_at = unit(values[AW_ACTION_MEMORY]);
    const double replicas_at = unit(values[AW_ACTION_REPLICAS]);
    const bool anchored = c->mapping == AW_ACTION_ANCHORED;

    double millicores = aw_log_range_amount(&action->cpu_millicores, unit(values[AW_ACTION_CPU]));
    int64_t cpu = clip(step_nearest(millicores, CPU_STEP_MILLICORES), b->cpu_millicores_min,
                       b->cpu_millicores_max);
    cpu = settle(cpu, reading->cpu_millicores_wanted, c->deadband, b->cpu_millicores_min,
                 b->cpu_millicores_max);

    const int64_t floor =
        clip(guard_floor(action, memory), b->memory_bytes_min, b->memory_bytes_max);
    int64_t bytes = anchored ? memory_anchored(memory, reading, memory_at)
                             : step_nearest(aw_log_range_amount(&action->memory_bytes, memory_at),
                                            MEMORY_STEP_BYTES);
    bytes = clip(bytes, floor, b->memory_bytes_max);
    bytes = settle(bytes, reading->memory_bytes_wanted, c->deadband, floor, b->memory_bytes_max);

    int64_t replicas = anchored
                           ? replicas_anchored(memory, reading, replicas_at, cpu)
                           : step_nearest(aw_log_range_amount(&action->replicas, replicas_at), 1);
    *ret_plan = (struct aw_plan){
        .set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
        .replicas = clip(replicas, b->replicas_min, b->replicas_max),
        .cpu_millicores = cpu,
        .memory_bytes = bytes,
    };
    for (uint32_t i = AW_ACTION_DIM; i < action->dim; i++) {
        const enum aw_resource r = aw_action_resource(action->more, i);
        ret_plan->amount[r] = amount_of(action, reading, r, unit(values[i]));
        ret_plan->set |= AW_PLAN_BIT(r);
    }
}

/* From [0, 1]; the middle where nothing is known. */
static float value_of(const struct aw_log_range *range, double amount)
{
    return isfinite(amount) ? 2 * aw_log_range_unit(range, amount) - 1 : 0;
}

void aw_action_from_plan(const struct aw_action *action, const struct aw_action_memory *memory,
                         const struct aw_plan *plan, float *values)
{
    const double cpu = (double)plan->cpu_millicores, bytes = (double)plan->memory_bytes;
    values[AW_ACTION_CPU] = value_of(&action->cpu_millicores, cpu);
    for (uint32_t i = AW_ACTION_DIM; i < action->dim; i++) {
        const enum aw_resource r = aw_action_resource(action->more, i);
        const struct aw_log_range range = aw_bounds_range(&action->config.bounds, r);
        values[i] = plan->amount[r] > 0 ? value_of(&range, (double)plan->amount[r]) : 0;
    }
    if (action->config.mapping == AW_ACTION_ABSOLUTE) {
        values[AW_ACTION_MEMORY] = value_of(&action->memory_bytes, bytes);
        values[AW_ACTION_REPLICAS] = value_of(&action->replicas, (double)plan->replicas);
        return;
    }
    /* Replicas are rounded up, so the middle of what rounds to this many is half a replica less. */
    double cores = 1e-3 * cpu * ((double)plan->replicas - 0.5);
    double memory_peak = memory->memory_bytes_peak, cpu_peak = memory->cpu_cores_peak;
    values[AW_ACTION_MEMORY] = value_of(&aw_action_memory_margin, bytes / memory_peak);
    values[AW_ACTION_REPLICAS] = value_of(&aw_action_cpu_margin, cores / cpu_peak);
}
