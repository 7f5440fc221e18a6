/* capacity.c - nine numbers as a policy. */
#include "policy/capacity.h"

#include <math.h>
#include <string.h>

#include "base/envelope.h"

#define STRANGE_LOAD     2.0 /* times the highest load of a rehearsal */
#define CONTEXT_STEPS    40u /* that tell what kind of workload it is, ... */
#define CONTEXT_LOADED   10u /* ... with load in so many of them */
#define CONTEXT_MOST     56u /* steps after which something is chosen, whatever was seen */
#define SWITCH_MISSED    6u  /* steps missed of the last SWITCH_OF: more careful numbers */
#define SWITCH_OF        40u
#define SWITCH_LEVEL_MAX 2u /* one rule for all costs more than misses do */
#define FIT_MISSED_MOST  0.25
#define FIT_LATENCY_MOST (-0.7) /* ln of the latency over the SLO's, mean: half of it */
#define FIT_MARGIN_MOST  2.0
#define SWITCH_GRACE     10u /* steps after a change that are still the old numbers' doing */

struct aw_capacity *aw_capacity_of(const struct aw_policy *policy)
{
    return policy->ops == &aw_capacity_ops ? policy->self : NULL;
}

void aw_capacity_set(struct aw_capacity *capacity, const struct aw_capacity_rule *rule, uint64_t id)
{
    capacity->memory.rule = *rule;
    capacity->memory.id = id;
    aw_capacity_rule_decode(rule, &capacity->values);
    /* `choose` says so where the numbers come from the library */
    capacity->memory.known = (struct aw_policy_known){.switches = capacity->memory.known.switches};
    capacity->memory.recent = capacity->memory.since = 0;
}

static enum aw_err capacity_new(const struct aw_policy_task *task, const struct aw_alloc *alloc,
                                void **ret_self)
{
    struct aw_capacity *capacity = aw_alloc_new(alloc, 1, sizeof *capacity);
    struct aw_capacity_rule plain;
    if (!capacity)
        return AW_ERR_NOMEM;
    capacity->task = *task;
    capacity->alloc = alloc;
    aw_capacity_rule_plain(&plain);
    aw_capacity_set(capacity, &plain, 0);
    aw_capacity_rule_begin(&capacity->memory.lived);
    *ret_self = capacity;
    return AW_OK;
}

static void capacity_free(void *self)
{
    struct aw_capacity *capacity = self;
    if (capacity)
        aw_alloc_free(capacity->alloc, capacity);
}

static size_t capacity_bytes(const void *self)
{
    return sizeof *(const struct aw_capacity *)self;
}

static bool capacity_act(void *self, const struct aw_policy_seen *seen,
                         struct aw_policy_answer *ret)
{
    struct aw_capacity *capacity = self;
    if (!capacity->memory.id)
        return false;
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
        if (!isfinite(capacity->values.v[i]))
            return false;
    aw_capacity_rule_decide(&capacity->values, &capacity->task.need, &capacity->memory.lived,
                            seen->reading, seen->violated, seen->acted, &ret->plan);
    aw_action_from_plan(capacity->task.action, seen->action, &ret->plan, ret->action);
    return true;
}

static struct aw_library_ask ask_of(const struct aw_capacity *capacity, uint32_t level)
{
    return (struct aw_library_ask){.context = capacity->memory.seen,
                                   .prices = capacity->task.prices,
                                   .budget = capacity->task.need.budget,
                                   .level = level,
                                   .but = capacity->task.unknown - 1}; /* 0: UINT32_MAX */
}

bool aw_capacity_expect(const struct aw_capacity *capacity, struct aw_library_expected *ret)
{
    const struct aw_capacity_memory *memory = &capacity->memory;
    const struct aw_library_ask ask = ask_of(capacity, memory->known.level);
    if (!capacity->task.library || !memory->sure)
        return false;
    aw_library_expect(capacity->task.library, &ask, ret);
    return true;
}

/* Rules were lived under loads of cores, where a request alone takes two thirds of what the SLO
 * allows. Where smaller replicas were far below the SLO under the fallback, their size does here,
 * and no more than twice the need is kept: what was lived here outranks what was lived elsewhere.
 * Steps that the fallback missed are then for want of replicas, which the margin sees to. */
static struct aw_capacity_rule fitted(const struct aw_capacity_rule *rule,
                                      const struct aw_capacity_memory *memory)
{
    struct aw_capacity_rule fit = *rule;
    const float *seen = memory->seen;
    const double had = exp((double)seen[AW_CONTEXT_SIZE]);
    if (!((double)seen[AW_CONTEXT_MISSED] <= FIT_MISSED_MOST &&
          (double)seen[AW_CONTEXT_LATENCY] <= FIT_LATENCY_MOST) ||
        memory->context.loaded == 0 ||
        2 * memory->context.latencies < memory->context.loaded) /* too few say how far it is */
        return fit;
    if (had < aw_capacity_rule_value(rule, AW_CAPACITY_RULE_CPU))
        fit.x[AW_CAPACITY_RULE_CPU] = aw_capacity_rule_place(AW_CAPACITY_RULE_CPU, had);
    if (aw_capacity_rule_value(rule, AW_CAPACITY_RULE_MARGIN) > FIT_MARGIN_MOST)
        fit.x[AW_CAPACITY_RULE_MARGIN] =
            aw_capacity_rule_place(AW_CAPACITY_RULE_MARGIN, FIT_MARGIN_MOST);
    return fit;
}

/* Whether its numbers are a rule of the library as it was fitted to what was seen. */
static bool is_fitted(const struct aw_capacity *capacity)
{
    const struct aw_library *library = capacity->task.library;
    for (uint32_t r = 0; r < library->rules; r++)
        if (aw_capacity_rule_id(&library->rule[r]) == capacity->memory.id)
            return false;
    return true;
}

static struct aw_capacity_rule lived_at(const struct aw_capacity *capacity, bool fit, uint32_t rule)
{
    const struct aw_capacity_rule *of = &capacity->task.library->rule[rule];
    return fit ? fitted(of, &capacity->memory) : *of;
}

struct aw_capacity_rule aw_capacity_lived(const struct aw_capacity *capacity, uint32_t rule)
{
    return lived_at(capacity, capacity->memory.known.level == 0 || is_fitted(capacity), rule);
}

void aw_capacity_take(struct aw_capacity *capacity, uint32_t rule)
{
    const struct aw_policy_known known = capacity->memory.known;
    const struct aw_capacity_rule of = aw_capacity_lived(capacity, rule);
    aw_capacity_set(capacity, &of, aw_capacity_rule_id(&of));
    aw_capacity_rule_changed(&capacity->memory.lived);
    capacity->memory.known = known;
}

/* Takes the numbers that did best elsewhere, at least as careful as `level`; `more`: and others
 * than those in force, where there are any. */
static void choose(struct aw_capacity *capacity, uint32_t level, bool more)
{
    struct aw_capacity_memory *memory = &capacity->memory;
    const struct aw_library *library = capacity->task.library;
    const uint64_t before = memory->id;
    struct aw_library_choice choice;
    struct aw_library_ask ask = ask_of(capacity, level);
    struct aw_capacity_rule rule;
    uint64_t id;
    do {
        aw_library_choose(library, &ask, &choice);
        rule = lived_at(capacity, level == 0, choice.rule);
        id = aw_capacity_rule_id(&rule);
    } while (more && id == before && ++ask.level <= SWITCH_LEVEL_MAX);
    if (id != before) {
        aw_capacity_set(capacity, &rule, id);
        aw_capacity_rule_changed(&memory->lived);
    }
    memory->known = (struct aw_policy_known){.checksum = library->checksum,
                                             .distance = choice.distance,
                                             .missed = choice.missed,
                                             .level = choice.level,
                                             .switches = memory->known.switches};
    memory->prices = ask.prices;
    memory->budget = ask.budget;
    memory->slo_latency_us = capacity->task.slo.latency_us_p99;
}

/* What kind of workload it is, as long as nobody is sure. */
static void get_to_know(struct aw_capacity *capacity, const struct aw_policy_seen *seen)
{
    struct aw_capacity_memory *memory = &capacity->memory;
    const struct aw_policy_task *task = &capacity->task;
    aw_context_add(&memory->context, seen->reading, seen->latency_us_p50, &task->slo,
                   seen->violated, task->step_s);
    const bool enough =
        memory->context.steps >= CONTEXT_STEPS && memory->context.loaded >= CONTEXT_LOADED;
    if (!enough && (memory->id || memory->context.steps < CONTEXT_MOST))
        return;
    const bool read = aw_context_read(&memory->context, &task->slo, memory->seen);
    if (!read && memory->context.loaded > 0)
        return; /* it is busy, and nobody measures what it needs */
    if (!read) {
        for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
            memory->seen[i] = NAN;
        memory->seen[AW_CONTEXT_IDLE] = 1; /* it sleeps: so did others */
    }
    memory->sure = enough && read;
    choose(capacity, 0, false);
}

/* Prices or the budget are others than those that the numbers were chosen for. */
static bool asked_anew(const struct aw_capacity *capacity)
{
    const struct aw_capacity_memory *memory = &capacity->memory;
    bool same = memory->budget == capacity->task.need.budget;
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        same = same && memory->prices.hour[r] == capacity->task.prices.hour[r];
    return !same;
}

static void capacity_observe(void *self, const struct aw_policy_seen *seen)
{
    struct aw_capacity *capacity = self;
    struct aw_capacity_memory *memory = &capacity->memory;
    if (!capacity->task.library)
        return;
    if (!memory->sure && (!memory->id || memory->known.checksum))
        get_to_know(capacity, seen);
    if (memory->known.checksum && memory->slo_latency_us != capacity->task.slo.latency_us_p99) {
        /* numbers of a context are ratios to the SLO; until there are new ones the old rule acts */
        aw_context_begin(&memory->context);
        memory->slo_latency_us = capacity->task.slo.latency_us_p99;
        memory->sure = 0;
    }
    if (memory->sure && memory->known.checksum && asked_anew(capacity))
        choose(capacity, memory->known.switches ? memory->known.level : 0, false);
    if (seen->set_aside && memory->sure && memory->since > 0) {
        /* the policy failed: take a more careful rule of the library in its place */
        const uint32_t level = memory->known.level + 1;
        choose(capacity, level < SWITCH_LEVEL_MAX ? level : SWITCH_LEVEL_MAX, true);
        memory->recent = memory->since = 0;
    }
    if (!memory->id || !seen->acted)
        return;
    memory->recent = (memory->recent << 1) | seen->violated;
    memory->since += memory->since < UINT32_MAX;
    const uint64_t window = memory->recent & ((UINT64_C(1) << SWITCH_OF) - 1);
    if (memory->since > SWITCH_GRACE && memory->sure && memory->known.checksum &&
        (uint32_t)__builtin_popcountll(window) >= SWITCH_MISSED &&
        (memory->known.level < SWITCH_LEVEL_MAX || is_fitted(capacity))) {
        const uint32_t level = memory->known.level;
        memory->known.switches++;
        choose(capacity, level < SWITCH_LEVEL_MAX ? level + 1 : level, true);
    }
}

static const struct aw_policy_known *capacity_known(const void *self)
{
    const struct aw_capacity_memory *memory = &((const struct aw_capacity *)self)->memory;
    return memory->id && memory->known.checksum ? &memory->known : NULL;
}

static uint64_t capacity_learned(const void *self)
{
    return ((const struct aw_capacity *)self)->memory.id;
}

/* Numbers scale with the load; strange is a load far beyond any that they were tried on. */
static double capacity_distance(const void *self, const struct aw_policy_seen *seen)
{
    const struct aw_capacity *capacity = self;
    const double tried = capacity->memory.rehearsed_load;
    if (tried <= 0 || isnan(seen->reading->arrivals_per_s))
        return NAN;
    return capacity->task.strange * seen->reading->arrivals_per_s / (STRANGE_LOAD * tried);
}

static enum aw_err capacity_draw(void *self, struct aw_rng *rng)
{
    struct aw_capacity_rule rule;
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
        rule.x[i] = aw_rng_double(rng);
    aw_capacity_set(self, &rule, aw_capacity_rule_id(&rule));
    return AW_OK;
}

/* Two sets of numbers share what was seen of the workload, and have trims of their own. */
static void trims_keep(struct aw_capacity_rule_memory *to,
                       const struct aw_capacity_rule_memory *own)
{
    to->margin_trim = own->margin_trim;
    to->size_trim = own->size_trim;
    to->size_trim_used = own->size_trim_used;
    to->smooth_load = own->smooth_load;
    to->since_resize = own->since_resize;
}

static void capacity_follow(void *self, const void *good)
{
    struct aw_capacity_rule_memory *lived = &((struct aw_capacity *)self)->memory.lived;
    struct aw_capacity_rule_memory own = *lived;
    *lived = ((const struct aw_capacity *)good)->memory.lived;
    if (own.step == 0) /* its first step: it begins where the load is */
        own = (struct aw_capacity_rule_memory){.smooth_load = lived->smooth_load};
    trims_keep(lived, &own);
}

static void capacity_adopt(void *self, const void *other)
{
    struct aw_capacity *capacity = self;
    const struct aw_capacity_memory *from = &((const struct aw_capacity *)other)->memory;
    aw_capacity_set(capacity, &from->rule, from->id);
    trims_keep(&capacity->memory.lived, &from->lived);
}

/* As the teacher does it (rehearsal/capacity_teacher.c). */
static void capacity_taught(void *self, const void *taught)
{
    struct aw_capacity *capacity = self;
    const struct aw_capacity_memory *from = &((const struct aw_capacity *)taught)->memory;
    capacity->memory.rehearsed_load = from->rehearsed_load;
    if (from->id == capacity->memory.id)
        return;
    aw_capacity_set(capacity, &from->rule, from->id);
    aw_capacity_rule_changed(&capacity->memory.lived);
    if (from->known.checksum) /* a rule of the library, as before */
        capacity->memory.known = from->known;
}

static bool capacity_fits(const void *self, const void *other)
{
    (void)self;
    (void)other;
    return true;
}

static void capacity_changed(void *self, bool load)
{
    struct aw_capacity *capacity = self;
    if (load)
        aw_capacity_rule_new_load(&capacity->memory.lived);
    else
        aw_capacity_rule_new_requests(&capacity->memory.lived);
}

AW_LAYOUT(capacity_layout, struct aw_capacity_memory, 0, rule.x, lived.margin_trim, lived.size_trim,
          lived.size_trim_used, lived.cores_sum, lived.completions_sum, lived.smooth_load,
          lived.high_load, lived.oom_floor_bytes, lived.bound_millicores, lived.spare, lived.load,
          lived.memory_bytes, lived.step, lived.idle, lived.since_resize, lived.quiet,
          AW_CONTEXT_MEMORY(context.), seen, known.checksum, known.distance, known.missed,
          known.level, known.switches, prices.hour, budget, slo_latency_us, recent, since, sure,
          rehearsed_load, id);

static size_t capacity_state_bytes(const void *self)
{
    return sizeof((const struct aw_capacity *)self)->memory;
}

static void capacity_save(const void *self, void *bytes)
{
    memcpy(bytes, &((const struct aw_capacity *)self)->memory, capacity_state_bytes(self));
}

static enum aw_err capacity_load(void *self, const void *bytes)
{
    struct aw_capacity *capacity = self;
    memcpy(&capacity->memory, bytes, sizeof capacity->memory);
    aw_capacity_rule_decode(&capacity->memory.rule, &capacity->values);
    return AW_OK;
}

static int capacity_describe(const void *self, json_t *policy)
{
    const struct aw_capacity_rule *rule = &((const struct aw_capacity *)self)->memory.rule;
    json_t *numbers = json_object(), *values = json_object();
    int bad = 0;
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++) {
        const enum aw_capacity_rule_number number = (enum aw_capacity_rule_number)i;
        bad |= json_object_set_new(numbers, aw_capacity_rule_name(number), json_real(rule->x[i]));
        bad |= json_object_set_new(values, aw_capacity_rule_name(number),
                                   json_real(aw_capacity_rule_value(rule, number)));
    }
    bad |= json_object_set_new(policy, "numbers", numbers);
    bad |= json_object_set_new(policy, "values", values);
    return bad;
}

static enum aw_err capacity_read(void *self, const json_t *policy, uint64_t id,
                                 struct aw_diag *diag)
{
    const json_t *numbers = json_object_get(policy, "numbers");
    struct aw_capacity_rule rule;
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++) {
        const char *name = aw_capacity_rule_name((enum aw_capacity_rule_number)i);
        const json_t *number = json_object_get(numbers, name);
        const double x = json_is_number(number) ? json_number_value(number) : (double)NAN;
        if (!(x >= 0 && x <= 1))
            return aw_fail(diag, AW_ERR_FORMAT, "numbers.%s: expected a number from 0 to 1", name);
        rule.x[i] = x;
    }
    if (json_object_size(numbers) != AW_CAPACITY_RULE_DIM)
        return aw_fail(diag, AW_ERR_FORMAT, "numbers: expected %d of them, found %zu",
                       (int)AW_CAPACITY_RULE_DIM, json_object_size(numbers));
    if (aw_capacity_rule_id(&rule) != id)
        return aw_fail(diag, AW_ERR_FORMAT, "id: not that of these numbers");
    aw_capacity_set(self, &rule, id);
    return AW_OK;
}

const struct aw_policy_ops aw_capacity_ops = {
    .new = capacity_new,
    .free = capacity_free,
    .bytes = capacity_bytes,
    .act = capacity_act,
    .observe = capacity_observe,
    .known = capacity_known,
    .learned = capacity_learned,
    .distance = capacity_distance,
    .sees = aw_policy_sees_nothing,
    .draw = capacity_draw,
    .follow = capacity_follow,
    .adopt = capacity_adopt,
    .taught = capacity_taught,
    .fits = capacity_fits,
    .changed = capacity_changed,
    .layout = capacity_layout,
    .state_bytes = capacity_state_bytes,
    .save = capacity_save,
    .load = capacity_load,
    .describe = capacity_describe,
    .read = capacity_read,
};
