/* capacity_rule.c - capacity for the load, by what a request costs. */
#include "policy/capacity_rule.h"

#include "base/hash.h"
#include "base/pack16.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

/* The budget is aimed at from below: a window's worth of chance must not overspend it. */
#define TARGET_SHARE 0.9
/* Trims add to the numbers and give back what they added; they never go below them. Latency rises
 * like a wall where a replica is full: who walks down until the budget is spent, under a load that
 * is always the same, walks into it again and again, and pays with a second replica each time. Less
 * is for a search to find and for a trial to prove. */
#define MARGIN_TRIM_MAX 1.5
/* Rules were lived where a request alone takes two thirds of what the SLO allows. Where a step
 * takes less than SLACK_BELOW of it the wall is far, and what is seen of it tells when it comes
 * near: there the margin is given up little by little, and comes back at once. */
#define SLACK_BELOW     0.2
#define SLACK_ENDS      0.4
#define SLACK_GAIN      0.01 /* of the logarithm, a step */
#define SLACK_BACK      0.1
#define SLACK_MARGIN    1.15 /* capacity over need: less is never left */
#define SLACK_SIZE      0.7  /* of the size's logarithm, at most */
#define SIZE_TRIM_MAX   0.3
#define SIZE_TRIM_GAIN  0.005
#define SIZE_TRIM_SHARE 0.4  /* of the margin's rate, where the margin is not felt */
#define SPARE_MOST      1.3  /* capacity over what is wanted, at which the margin is still felt */
#define RESIZE_STEPS    40u  /* ten minutes between changes of size */
#define RESIZE_LEAST    0.03 /* change of the size's logarithm that is worth a rollout */
#define SETTLED_STEPS   2u
#define REQUEST_FADE    0.995
#define HIGH_FADE       0.9995
#define MEMORY_WINDOW   100u
#define MEMORY_MARGIN   1.08
#define MEMORY_LEAST    1.03 /* over the peak: below it, it must grow */
#define MEMORY_SHRINK   0.85 /* a smaller size must save this much to be worth a restart */
#define MEMORY_GROW     1.06
#define OOM_FACTOR      1.15
#define OOM_FADE        0.998
#define OFF_BELOW       0.1 /* of x: OFF and SLEEP are switched off there */
#define SLEEP_ABOVE     0.8
#define TOLERANCE       1.05   /* of what the replicas hold: less more is not worth another one */
#define BOUND_FADE      0.9995 /* a step: what the most replicas had to serve counts for hours */
#define BOUND_RUNG      1.25   /* of one size to the next: every change is a rollout */
#define LOAD_MAX        1e12   /* requests/s: nobody has it, and 16 bits still hold it */

_Static_assert(MEMORY_WINDOW <= AW_CAPACITY_RULE_MEMORY_HISTORY, "a window fits its ring");

enum scale { SCALE_LOG, SCALE_SHARE, SCALE_OFF, SCALE_SLEEP };

static const struct {
    const char *name, *meaning;
    double low, high;
    enum scale scale;
} number_table[AW_CAPACITY_RULE_DIM] = {
#define X(id, name, low, high, scale, meaning) {name, meaning, low, high, SCALE_##scale},
    AW_CAPACITY_RULE_MAP(X)
#undef X
};

const char *aw_capacity_rule_name(enum aw_capacity_rule_number number)
{
    return number_table[number].name;
}

const char *aw_capacity_rule_meaning(enum aw_capacity_rule_number number)
{
    return number_table[number].meaning;
}

static double between(double u, double low, double high)
{
    return low * pow(high / low, fmin(1, fmax(0, u)));
}

double aw_capacity_rule_value(const struct aw_capacity_rule *rule,
                              enum aw_capacity_rule_number number)
{
    const double x = fmin(1, fmax(0, rule->x[number]));
    const double low = number_table[number].low, high = number_table[number].high;
    switch (number_table[number].scale) {
    case SCALE_SHARE:
        return fmin(1, fmax(0, low + x * (high - low)));
    case SCALE_OFF:
        return x < OFF_BELOW ? 0 : between((x - OFF_BELOW) / (1 - OFF_BELOW), low, high);
    case SCALE_SLEEP:
        return x >= SLEEP_ABOVE ? 0 : floor(between(x / SLEEP_ABOVE, low, high));
    default:
        return between(x, low, high);
    }
}

double aw_capacity_rule_place(enum aw_capacity_rule_number number, double value)
{
    const double low = number_table[number].low, high = number_table[number].high;
    AW_ASSERT(number_table[number].scale == SCALE_LOG);
    return log(fmin(high, fmax(low, value)) / low) / log(high / low);
}

void aw_capacity_rule_decode(const struct aw_capacity_rule *rule,
                             struct aw_capacity_rule_values *ret_values)
{
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
        ret_values->v[i] = aw_capacity_rule_value(rule, (enum aw_capacity_rule_number)i);
}

void aw_capacity_rule_plain(struct aw_capacity_rule *rule)
{
    *rule = (struct aw_capacity_rule){.x = {[AW_CAPACITY_RULE_CPU] = 0.624,
                                            [AW_CAPACITY_RULE_MARGIN] = 0.306,
                                            [AW_CAPACITY_RULE_WINDOW] = 0.5,
                                            [AW_CAPACITY_RULE_PEAK] = 0.8,
                                            [AW_CAPACITY_RULE_SMOOTH] = 0.9,
                                            [AW_CAPACITY_RULE_TRIM] = 0.4,
                                            [AW_CAPACITY_RULE_FLOOR] = 0,
                                            [AW_CAPACITY_RULE_SLEEP] = 0.9,
                                            [AW_CAPACITY_RULE_ASLEEP] = 0.5}};
}

uint64_t aw_capacity_rule_id(const struct aw_capacity_rule *rule)
{
    uint64_t h = aw_hash_bytes(AW_HASH_BEGIN, rule->x, sizeof rule->x);
    return h ? h : 1;
}

void aw_capacity_rule_begin(struct aw_capacity_rule_memory *memory)
{
    memset(memory, 0, sizeof *memory);
}

void aw_capacity_rule_changed(struct aw_capacity_rule_memory *memory)
{
    memory->margin_trim = memory->size_trim = memory->size_trim_used = 0;
    memory->since_resize = 0;
}

void aw_capacity_rule_new_requests(struct aw_capacity_rule_memory *memory)
{
    memory->cores_sum = memory->completions_sum = memory->bound_millicores = 0;
}

void aw_capacity_rule_new_load(struct aw_capacity_rule_memory *memory)
{
    memory->high_load = memory->smooth_load;
}

static uint16_t highest_of(const uint16_t *values, uint32_t count)
{
    uint16_t high = 0;
    for (uint32_t i = 0; i < count; i++)
        high = values[i] > high ? values[i] : high;
    return high;
}

/* Of the last `window` steps, `step` the latest; a ring lies in two pieces. */
static double highest(const uint16_t *ring, uint32_t length, uint32_t step, uint32_t window)
{
    AW_ASSERT(window <= length);
    const uint32_t count = window <= step ? window : step + 1, end = step % length + 1;
    const uint32_t late = count < end ? count : end, early = count - late;
    const uint16_t one = highest_of(ring + end - late, late);
    const uint16_t two = highest_of(ring + length - early, early);
    return aw_unpack16(one > two ? one : two);
}

/* What the load needs, in requests/s. */
static double load_to_serve(const struct aw_capacity_rule_values *values,
                            struct aw_capacity_rule_memory *memory, double load)
{
    if (memory->step == 0)
        memory->smooth_load = load;
    memory->smooth_load += values->v[AW_CAPACITY_RULE_SMOOTH] * (load - memory->smooth_load);
    memory->high_load = fmax(load, memory->high_load * HIGH_FADE);
    const uint32_t window = (uint32_t)(values->v[AW_CAPACITY_RULE_WINDOW] + 0.5);
    const double peak = highest(memory->load, AW_CAPACITY_RULE_HISTORY, memory->step, window);
    const double share = values->v[AW_CAPACITY_RULE_PEAK];
    const double need = (1 - share) * memory->smooth_load + share * peak;
    return fmax(need, values->v[AW_CAPACITY_RULE_FLOOR] * memory->high_load);
}

/* What is taken where the SLO is far away: trims below 0, of the margin, or of the size where one
 * replica is more than is wanted. */
static void take_slack(const struct aw_capacity_rule_values *values,
                       const struct aw_capacity_rule_task *task,
                       struct aw_capacity_rule_memory *memory, double latency_us, bool felt)
{
    const double least = fmin(0, log(SLACK_MARGIN / values->v[AW_CAPACITY_RULE_MARGIN]));
    const double share = task->slo_latency_us > 0 ? latency_us / task->slo_latency_us : NAN;
    double *margin = &memory->margin_trim, *size = &memory->size_trim;
    if (!(share < SLACK_ENDS)) { /* or nobody knows */
        *margin = *margin < 0 ? fmin(0, *margin + SLACK_BACK) : *margin;
        *size = *size < 0 ? fmin(0, *size + SLACK_BACK) : *size;
    } else if (share < SLACK_BELOW && felt && *margin <= 0) {
        *margin = fmax(least, *margin - SLACK_GAIN);
    } else if (share < SLACK_BELOW && !felt && *size <= 0) {
        *size = fmax(-SLACK_SIZE, *size - SLACK_GAIN);
    }
}

static void follow(const struct aw_capacity_rule_values *values,
                   const struct aw_capacity_rule_task *task, struct aw_capacity_rule_memory *memory,
                   double latency_us, bool violated)
{
    const double off = (violated ? 1 : 0) - TARGET_SHARE * task->budget;
    const double rate = values->v[AW_CAPACITY_RULE_TRIM];
    /* where one replica is more than is wanted a met step says nothing of the margin, and more of
     * the size */
    const bool felt = memory->spare < SPARE_MOST;
    if (violated) { /* what was given up is back at once */
        memory->margin_trim = fmax(0, memory->margin_trim);
        memory->size_trim = fmax(0, memory->size_trim);
    }
    if (violated || (felt && memory->margin_trim > 0))
        memory->margin_trim = fmin(MARGIN_TRIM_MAX, fmax(0, memory->margin_trim + rate * off));
    else
        take_slack(values, task, memory, latency_us, felt);
    if (memory->quiet > SETTLED_STEPS && memory->size_trim >= 0) {
        const double gain = felt ? SIZE_TRIM_GAIN : SIZE_TRIM_SHARE * rate;
        memory->size_trim = fmin(SIZE_TRIM_MAX, fmax(0, memory->size_trim + gain * off));
    }
}

static int64_t memory_for(const struct aw_bounds *bounds, struct aw_capacity_rule_memory *memory,
                          const struct aw_reading *reading, bool resize)
{
    const double present = (double)reading->memory_bytes_wanted;
    const double peak =
        highest(memory->memory_bytes, AW_CAPACITY_RULE_MEMORY_HISTORY, memory->step, MEMORY_WINDOW);
    if (reading->oom_kills)
        memory->oom_floor_bytes = fmax(memory->oom_floor_bytes, OOM_FACTOR * present);
    else
        memory->oom_floor_bytes *= OOM_FADE;
    if (peak <= 0)
        return reading->memory_bytes_wanted;
    const double want = fmax(peak * MEMORY_MARGIN, memory->oom_floor_bytes);
    const bool roomy = present >= MEMORY_LEAST * peak;
    if (!resize && roomy && want > MEMORY_SHRINK * present && want < MEMORY_GROW * present)
        return reading->memory_bytes_wanted;
    if (isnan(reading->memory_bytes_peak) && want < present) /* old peaks alone shrink nothing */
        return reading->memory_bytes_wanted;
    const double mib = ceil(fmin(want, (double)bounds->memory_bytes_max) / AW_MIB_REAL);
    return (int64_t)mib * (int64_t)AW_MIB_REAL;
}

/* Where no more replicas are allowed, each must be larger; `millicores` of one otherwise. */
static double size_at_bound(const struct aw_bounds *bounds, struct aw_capacity_rule_memory *memory,
                            double wanted, double millicores)
{
    const double most = (double)bounds->replicas_max;
    memory->bound_millicores *= BOUND_FADE;
    if (memory->quiet > SETTLED_STEPS) /* what a request costs is not known while replicas start */
        memory->bound_millicores =
            fmax(memory->bound_millicores, fmin((double)bounds->cpu_millicores_max, wanted / most));
    while (millicores < memory->bound_millicores && millicores < (double)bounds->cpu_millicores_max)
        millicores *= BOUND_RUNG;
    return fmin(millicores, (double)bounds->cpu_millicores_max);
}

void aw_capacity_rule_decide(const struct aw_capacity_rule_values *values,
                             const struct aw_capacity_rule_task *task,
                             struct aw_capacity_rule_memory *memory,
                             const struct aw_reading *reading, bool violated, bool acts,
                             struct aw_plan *ret_plan)
{
    const struct aw_bounds *bounds = &task->bounds;
    struct aw_plan plan = {.set = AW_PLAN_COMMON,
                           .replicas = reading->replicas_wanted,
                           .cpu_millicores = reading->cpu_millicores_wanted,
                           .memory_bytes = reading->memory_bytes_wanted};
    if (!isnan(reading->cpu_cores_used) && !isnan(reading->completions_per_s)) {
        memory->cores_sum = REQUEST_FADE * memory->cores_sum + reading->cpu_cores_used;
        memory->completions_sum =
            REQUEST_FADE * memory->completions_sum + reading->completions_per_s;
    }
    const bool known = !isnan(reading->arrivals_per_s);
    const double load = known ? fmin(LOAD_MAX, reading->arrivals_per_s) : memory->smooth_load;
    memory->load[memory->step % AW_CAPACITY_RULE_HISTORY] = aw_pack16(load);
    memory->memory_bytes[memory->step % AW_CAPACITY_RULE_MEMORY_HISTORY] =
        reading->memory_bytes_peak > 0
            ? aw_pack16_up(fmin(reading->memory_bytes_peak, (double)bounds->memory_bytes_max))
            : 0;
    double need = load_to_serve(values, memory, load);

    const bool moving = reading->rollout || reading->replicas_ready < reading->replicas_wanted;
    memory->quiet = moving ? 0 : memory->quiet + 1;
    if (known) /* what nobody saw was not idle */
        memory->idle = load > 0 ? 0 : memory->idle + 1;
    memory->since_resize++;
    if (acts && known && load > 0 && memory->step > 0)
        follow(values, task, memory, reading->latency_us_slo, violated);
    const bool back = memory->size_trim_used < 0 && memory->size_trim > memory->size_trim_used;
    if ((memory->since_resize > RESIZE_STEPS || back) && memory->quiet > SETTLED_STEPS &&
        fabs(memory->size_trim - memory->size_trim_used) > RESIZE_LEAST) {
        memory->size_trim_used = memory->size_trim;
        memory->since_resize = 0;
    }
    if (!acts) { /* what was far away when it last acted need not be now */
        memory->margin_trim = fmax(0, memory->margin_trim);
        memory->size_trim = fmax(0, memory->size_trim);
    }
    const bool far = reading->latency_us_slo < SLACK_ENDS * task->slo_latency_us;
    need *= exp(far ? memory->margin_trim : fmax(0, memory->margin_trim));

    double millicores = 1e3 * values->v[AW_CAPACITY_RULE_CPU] * exp(memory->size_trim_used);
    millicores = fmin((double)bounds->cpu_millicores_max,
                      fmax((double)bounds->cpu_millicores_min, millicores));
    const double per_request =
        memory->completions_sum > 0 ? memory->cores_sum / memory->completions_sum : 0;
    const double margin = values->v[AW_CAPACITY_RULE_MARGIN];
    const double wanted = 1e3 * per_request * need * margin;
    millicores = size_at_bound(bounds, memory, wanted, millicores);
    double replicas = ceil(wanted / millicores);
    const double there = reading->replicas_wanted;
    if (replicas > there && wanted <= TOLERANCE * there * millicores)
        replicas = there;
    const double sleep = values->v[AW_CAPACITY_RULE_SLEEP];
    if (sleep > 0 && memory->idle >= sleep) {
        replicas = 1;
        millicores *= values->v[AW_CAPACITY_RULE_ASLEEP];
    }
    plan.cpu_millicores = (int64_t)(millicores / 10 + 0.5) * 10;
    plan.replicas = (uint32_t)fmin(1e6, fmax(1, replicas));
    memory->spare = plan.replicas > 1 ? 1 : millicores / fmax(1, wanted);
    const bool nothing = !known || per_request <= 0; /* to go by */
    const bool blind = nothing || isnan(reading->cpu_cores_used);
    if (nothing || (blind && plan.replicas < reading->replicas_wanted))
        plan.replicas = reading->replicas_wanted;
    if (blind)
        plan.cpu_millicores = reading->cpu_millicores_wanted;
    const bool resize = plan.cpu_millicores != reading->cpu_millicores_wanted;
    plan.memory_bytes = memory_for(bounds, memory, reading, resize);
    if (blind && plan.memory_bytes < reading->memory_bytes_wanted)
        plan.memory_bytes = reading->memory_bytes_wanted;
    aw_bounds_clip(bounds, &plan);
    memory->step++;
    *ret_plan = plan;
}
