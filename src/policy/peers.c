/* peers.c - agents that learned together as a policy. */
#include "policy/peers.h"

#include <math.h>
#include <string.h>

#include "base/envelope.h"
#include "base/hash.h"
#include "base/units.h"

#define CONTEXT_STEPS  40u  /* that tell the category, ... */
#define CONTEXT_LOADED 10u  /* ... with load in so many of them */
#define AS_IT_IS       3u   /* the choice that leaves the rule as it is */
#define LOAD_LEAST     0.05 /* cores; below it the square root says nothing */
#define WAITS          0.7  /* ln: a request takes twice its CPU and more: it waits */
#define HOLDS_GIB      3.0  /* memory in use per core in use: it holds */
#define SWING_FADE     0.9
#define LEAN_MISSED    6u /* steps missed of the last LEAN_OF: lean further */
#define LEAN_OF        40u
#define LEAN_GRACE     10u

const double aw_peers_factor[AW_PEERS_CHOICES] = {0.6, 0.75, 0.87, 1, 1.15, 1.35, 1.7, 2.3};

struct aw_peers *aw_peers_of(const struct aw_policy *policy)
{
    return policy->ops == &aw_peers_ops ? policy->self : NULL;
}

/* Two that would act alike have the same id. */
static uint64_t id_of(const struct aw_peers_memory *m)
{
    uint64_t hash = aw_hash_bytes(AW_HASH_BEGIN, &m->net_id, sizeof m->net_id);
    hash = aw_hash_bytes(hash, &m->rule, sizeof m->rule);
    hash = aw_hash_bytes(hash, &m->category, sizeof m->category);
    hash = aw_hash_bytes(hash, &m->lean, sizeof m->lean);
    return hash ? hash : 1;
}

static void net_take(struct aw_peers_memory *m, const struct aw_peers_net *net)
{
    const uint64_t hash = aw_hash_bytes(AW_HASH_BEGIN, net, sizeof *net);
    m->net = *net;
    m->net_id = hash ? hash : 1;
}

void aw_peers_begin(struct aw_peers *peers, const struct aw_policy_task *task)
{
    memset(peers, 0, sizeof *peers);
    peers->task = *task;
    peers->task.need.slo_latency_us = 0; /* the networks were taught without slack */
    peers->memory.category = AW_PEERS_CATEGORIES;
    aw_capacity_rule_plain(&peers->memory.rule);
    aw_capacity_rule_begin(&peers->memory.lived);
    aw_context_begin(&peers->memory.context);
}

static void set(struct aw_peers *peers, uint32_t category, const struct aw_capacity_rule *rule,
                int32_t lean)
{
    struct aw_peers_memory *m = &peers->memory;
    if (memcmp(&m->rule, rule, sizeof m->rule) != 0)
        aw_capacity_rule_changed(&m->lived);
    m->rule = *rule;
    m->category = category;
    m->lean = lean < AW_PEERS_LEAN_MIN   ? AW_PEERS_LEAN_MIN
              : lean > AW_PEERS_LEAN_MAX ? AW_PEERS_LEAN_MAX
                                         : lean;
    m->known = (struct aw_policy_known){.switches = m->known.switches};
    m->recent = m->since = 0;
    m->id = id_of(m);
}

void aw_peers_lean(struct aw_peers *peers, int32_t lean)
{
    const struct aw_capacity_rule rule = peers->memory.rule;
    const uint32_t category = peers->memory.category;
    /* without a network all categories are the same */
    set(peers, category < AW_PEERS_CATEGORIES ? category : AW_PEERS_CPU, &rule, lean);
}

void aw_peers_become(struct aw_peers *peers, const struct aw_peers *other)
{
    peers->memory.net = other->memory.net;
    peers->memory.net_id = other->memory.net_id;
    set(peers, other->memory.category, &other->memory.rule, other->memory.lean);
}

void aw_peers_wear(struct aw_peers *peers, const struct aw_peers_model *model)
{
    struct aw_peers_memory *m = &peers->memory;
    AW_ASSERT(m->category < AW_PEERS_CATEGORIES);
    m->net_id = 0;
    if (model)
        net_take(m, &model->net[m->category]);
    m->id = id_of(m);
}

void aw_peers_know(struct aw_peers *peers, const float context[AW_CONTEXT_DIM])
{
    const struct aw_policy_task *task = &peers->task;
    struct aw_capacity_rule rule = peers->memory.rule;
    struct aw_library_choice choice;
    if (task->library) {
        aw_library_choose(task->library,
                          &(struct aw_library_ask){.context = context,
                                                   .prices = task->prices,
                                                   .budget = task->need.budget,
                                                   .but = UINT32_MAX},
                          &choice);
        rule = task->library->rule[choice.rule];
    }
    const enum aw_peers_category category = aw_peers_category_of(context);
    if (task->peers)
        net_take(&peers->memory, &task->peers->net[category]);
    set(peers, category, &rule, 0);
}

enum aw_peers_category aw_peers_category_of(const float context[AW_CONTEXT_DIM])
{
    const float wait = context[AW_CONTEXT_MEDIAN] - context[AW_CONTEXT_REQUEST_CPU];
    const float gib = expf(context[AW_CONTEXT_MEMORY]);
    const float cores = expf(context[AW_CONTEXT_SIZE]) * context[AW_CONTEXT_USED];
    if (wait > (float)WAITS) /* false where one is not known */
        return AW_PEERS_IO;
    return gib > (float)HOLDS_GIB * cores ? AW_PEERS_MEMORY : AW_PEERS_CPU;
}

/* --- a step ----------------------------------------------------------------------------------- */

static float within(double x, double low, double high)
{
    return isnan(x) ? 0 : (float)fmin(high, fmax(low, x));
}

/* Cores that the load needs now. 0: not known. */
static double needed(const struct aw_peers_memory *m)
{
    const struct aw_capacity_rule_memory *lived = &m->lived;
    return lived->completions_sum > 0 ? lived->cores_sum / lived->completions_sum *
                                            fmax(lived->smooth_load, m->arrivals_per_s)
                                      : 0;
}

void aw_peers_see(struct aw_peers *peers, const struct aw_reading *reading, bool violated,
                  float ret[AW_PEERS_STATE])
{
    struct aw_peers_memory *m = &peers->memory;
    const double load = reading->arrivals_per_s, before = m->arrivals_per_s;
    const double most = fmax(load, before); /* NAN only where load is, and fmax leaves it out */
    const double change = isnan(load) || most <= 0 ? 0 : (load - before) / most;
    const double wanted = fmax(1, (double)reading->replicas_wanted);
    const double cores = reading->allocated[AW_RESOURCE_CPU] * 1e-3, need = needed(m);
    const double slo = peers->task.slo.latency_us_p99;
    const double slow = slo > 0 && reading->latency_us_slo > 0 ? reading->latency_us_slo / slo : 1;
    m->swing = SWING_FADE * m->swing + (1 - SWING_FADE) * fabs(change);
    if (!isnan(load))
        m->arrivals_per_s = load;
    ret[0] = violated ? within(1 / slow, 0, 0.99) : 1;
    ret[1] = within(reading->cpu_utilisation, 0, 1);
    ret[2] = within(change, -1, 1);
    ret[3] = within(log(slow) / 2, -1.5, 1.5);
    ret[4] = within((wanted - (double)reading->replicas_ready) / wanted, -1, 1);
    ret[5] = within(log1p(reading->in_flight / fmax(0.1, cores)) / 4, 0, 1.5);
    ret[6] = within(reading->throttled_share, 0, 1);
    ret[7] = within(log(fmax(LOAD_LEAST, need)) / 3, -1, 2);
    ret[8] = within(need > 0 && cores > 0 ? log(cores / need) / 2 : 0, -1, 1.5);
    ret[9] = within(most > 0 ? (load - reading->completions_per_s) / most : 0, -1, 1);
    ret[10] = within(4 * m->swing, 0, 1.5);
    ret[11] = within(m->lived.margin_trim, 0, 1.5);
}

uint32_t aw_peers_choose(const struct aw_peers *peers, const float state[AW_PEERS_STATE])
{
    const struct aw_peers_memory *m = &peers->memory;
    float worth[AW_PEERS_CHOICES];
    uint32_t best = 0;
    if (!m->net_id)
        return AS_IT_IS;
    aw_peers_net_worth(&m->net, state, worth);
    for (uint32_t i = 1; i < AW_PEERS_CHOICES; i++)
        best = worth[i] > worth[best] ? i : best;
    return best;
}

void aw_peers_plan(struct aw_peers *peers, const struct aw_reading *reading, bool violated,
                   bool acted, uint32_t choice, struct aw_plan *ret_plan)
{
    struct aw_peers_memory *m = &peers->memory;
    const int32_t leant = (int32_t)choice + m->lean;
    struct aw_capacity_rule_values values;
    aw_capacity_rule_decode(&m->rule, &values);
    m->chosen = leant < 0                            ? 0
                : leant >= (int32_t)AW_PEERS_CHOICES ? AW_PEERS_CHOICES - 1
                                                     : (uint32_t)leant;
    values.v[AW_CAPACITY_RULE_MARGIN] *= aw_peers_factor[m->chosen];
    aw_capacity_rule_decide(&values, &peers->task.need, &m->lived, reading, violated, acted,
                            ret_plan);
}

/* --- behind the contract ---------------------------------------------------------------------- */

static enum aw_err peers_new(const struct aw_policy_task *task, const struct aw_alloc *alloc,
                             void **ret_self)
{
    struct aw_peers *peers = aw_alloc_new(alloc, 1, sizeof *peers);
    if (!peers)
        return AW_ERR_NOMEM;
    aw_peers_begin(peers, task);
    peers->alloc = alloc;
    *ret_self = peers;
    return AW_OK;
}

static void peers_free(void *self)
{
    struct aw_peers *peers = self;
    if (peers)
        aw_alloc_free(peers->alloc, peers);
}

static size_t peers_bytes(const void *self)
{
    return sizeof *(const struct aw_peers *)self;
}

static bool peers_act(void *self, const struct aw_policy_seen *seen, struct aw_policy_answer *ret)
{
    struct aw_peers *peers = self;
    float state[AW_PEERS_STATE];
    if (!peers->memory.id)
        return false;
    aw_peers_see(peers, seen->reading, seen->violated, state);
    aw_peers_plan(peers, seen->reading, seen->violated, seen->acted, aw_peers_choose(peers, state),
                  &ret->plan);
    aw_action_from_plan(peers->task.action, seen->action, &ret->plan, ret->action);
    return true;
}

/* The rule that did best elsewhere, and the network of its category if there is one, are what
 * others have lived, until it has found a lean of its own. */
static void begin_as_others(struct aw_peers *peers, const struct aw_policy_seen *seen)
{
    struct aw_peers_memory *m = &peers->memory;
    const struct aw_policy_task *task = &peers->task;
    float context[AW_CONTEXT_DIM];
    aw_context_add(&m->context, seen->reading, seen->latency_us_p50, &task->slo, seen->violated,
                   task->step_s);
    if (m->context.steps < CONTEXT_STEPS || m->context.loaded < CONTEXT_LOADED ||
        !aw_context_read(&m->context, &task->slo, context))
        return;
    aw_peers_know(peers, context);
    if (!task->peers) {
        m->known = (struct aw_policy_known){.checksum = task->library->checksum, .missed = NAN};
        return;
    }
    m->known = (struct aw_policy_known){.checksum = task->peers->checksum,
                                        .missed = (double)task->peers->missed[m->category]};
}

static void lean_further(struct aw_peers *peers)
{
    struct aw_peers_memory *m = &peers->memory;
    const struct aw_policy_known known = m->known;
    aw_peers_lean(peers, m->lean + 1);
    m->known = known;
    m->known.switches++;
    m->known.level = (uint32_t)m->lean;
}

static void peers_observe(void *self, const struct aw_policy_seen *seen)
{
    struct aw_peers *peers = self;
    struct aw_peers_memory *m = &peers->memory;
    if ((peers->task.peers || peers->task.library) && !m->id)
        begin_as_others(peers, seen);
    if (!m->id)
        return;
    const bool can = m->known.checksum && m->lean >= 0 && m->lean < AW_PEERS_LEAN_MAX;
    if (can && seen->set_aside && m->since > 0) /* it failed: more careful when it comes back */
        lean_further(peers);
    if (!seen->acted)
        return;
    m->recent = (m->recent << 1) | seen->violated;
    m->since += m->since < UINT32_MAX;
    const uint64_t window = m->recent & ((UINT64_C(1) << LEAN_OF) - 1);
    if (can && m->since > LEAN_GRACE && (uint32_t)__builtin_popcountll(window) >= LEAN_MISSED)
        lean_further(peers);
}

static const struct aw_policy_known *peers_known(const void *self)
{
    const struct aw_peers_memory *m = &((const struct aw_peers *)self)->memory;
    return m->id && m->known.checksum ? &m->known : NULL;
}

static uint64_t peers_learned(const void *self)
{
    return ((const struct aw_peers *)self)->memory.id;
}

/* Root mean square of its state over what its network has learned on. The state is only looked at:
 * what act takes in stays as it is. */
static double peers_distance(const void *self, const struct aw_policy_seen *seen)
{
    const struct aw_peers *peers = self;
    const struct aw_peers_net *net = &peers->memory.net;
    struct aw_peers look = *peers;
    float state[AW_PEERS_STATE];
    double sum = 0;
    if (!peers->memory.net_id)
        return NAN;
    aw_peers_see(&look, seen->reading, seen->violated, state);
    for (uint32_t i = 0; i < AW_PEERS_STATE; i++) {
        const double off = (double)((state[i] - net->centre[i]) / net->spread[i]);
        sum += off * off / AW_PEERS_STATE;
    }
    return sqrt(sum);
}

static enum aw_err peers_draw(void *self, struct aw_rng *rng)
{
    const uint32_t leans = AW_PEERS_LEAN_MAX - AW_PEERS_LEAN_MIN + 1;
    struct aw_peers *peers = self;
    struct aw_capacity_rule rule;
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
        rule.x[i] = aw_rng_double(rng);
    const uint32_t category = aw_rng_below(rng, AW_PEERS_CATEGORIES);
    struct aw_peers_net net = {.theta = {0}};
    aw_rng_fill_normal(rng, net.theta, AW_PEERS_THETA);
    for (uint32_t i = 0; i < AW_PEERS_STATE; i++)
        net.spread[i] = 1;
    net_take(&peers->memory, &net);
    set(peers, category, &rule, (int32_t)aw_rng_below(rng, leans) + AW_PEERS_LEAN_MIN);
    return AW_OK;
}

/* What was seen of the workload. */
static void peers_follow(void *self, const void *good)
{
    struct aw_peers_memory *m = &((struct aw_peers *)self)->memory;
    const struct aw_peers_memory *from = &((const struct aw_peers *)good)->memory;
    const struct aw_capacity_rule_memory own = m->lived;
    m->lived = from->lived;
    if (own.step > 0) { /* its trims are its own rule's */
        m->lived.margin_trim = own.margin_trim;
        m->lived.size_trim = own.size_trim;
        m->lived.size_trim_used = own.size_trim_used;
        m->lived.smooth_load = own.smooth_load;
        m->lived.since_resize = own.since_resize;
    }
    m->context = from->context;
    m->arrivals_per_s = from->arrivals_per_s;
    m->swing = from->swing;
}

static void peers_adopt(void *self, const void *other)
{
    struct aw_capacity_rule_memory *lived = &((struct aw_peers *)self)->memory.lived;
    const struct aw_peers *from = other;
    if (!from->memory.id)
        return;
    aw_peers_become(self, from);
    lived->margin_trim = from->memory.lived.margin_trim;
    lived->size_trim = from->memory.lived.size_trim;
    lived->size_trim_used = from->memory.lived.size_trim_used;
    lived->smooth_load = from->memory.lived.smooth_load;
    lived->since_resize = from->memory.lived.since_resize;
}

static void peers_taught(void *self, const void *taught)
{
    const struct aw_peers *from = taught;
    if (from->memory.id && from->memory.id != ((struct aw_peers *)self)->memory.id)
        aw_peers_become(self, from);
}

static bool peers_fits(const void *self, const void *other)
{
    (void)self;
    (void)other;
    return true;
}

static void peers_changed(void *self, bool load)
{
    struct aw_peers *peers = self;
    if (load)
        aw_capacity_rule_new_load(&peers->memory.lived);
    else
        aw_capacity_rule_new_requests(&peers->memory.lived);
}

AW_LAYOUT(peers_layout, struct aw_peers_memory, 0, rule.x, lived.margin_trim, lived.size_trim,
          lived.size_trim_used, lived.cores_sum, lived.completions_sum, lived.smooth_load,
          lived.high_load, lived.oom_floor_bytes, lived.bound_millicores, lived.spare, lived.load,
          lived.memory_bytes, lived.step, lived.idle, lived.since_resize, lived.quiet,
          AW_CONTEXT_MEMORY(context.), known.checksum, known.distance, known.missed, known.level,
          known.switches, arrivals_per_s, swing, id, recent, since, category, lean, chosen, net_id,
          net.theta, net.centre, net.spread);

static size_t peers_state_bytes(const void *self)
{
    return sizeof((const struct aw_peers *)self)->memory;
}

static void peers_save(const void *self, void *bytes)
{
    memcpy(bytes, &((const struct aw_peers *)self)->memory, peers_state_bytes(self));
}

static enum aw_err peers_load(void *self, const void *bytes)
{
    struct aw_peers *peers = self;
    struct aw_peers_memory memory;
    memcpy(&memory, bytes, sizeof memory);
    if (memory.category > AW_PEERS_CATEGORIES || memory.lean < AW_PEERS_LEAN_MIN ||
        memory.lean > AW_PEERS_LEAN_MAX || memory.chosen >= AW_PEERS_CHOICES ||
        (memory.id && memory.category == AW_PEERS_CATEGORIES))
        return AW_ERR_FORMAT;
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
        if (!(memory.rule.x[i] >= 0 && memory.rule.x[i] <= 1))
            return AW_ERR_FORMAT;
    if (memory.net_id && !aw_peers_net_sound(&memory.net))
        return AW_ERR_FORMAT;
    peers->memory = memory;
    return AW_OK;
}

/* --- as a file -------------------------------------------------------------------------------- */

static json_t *floats(const float *from, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; array && i < count; i++)
        if (json_array_append_new(array, json_real((double)from[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static bool read_floats(const json_t *policy, const char *key, uint32_t count, float *ret)
{
    const json_t *array = json_object_get(policy, key);
    bool good = json_array_size(array) == count;
    for (uint32_t i = 0; good && i < count; i++) {
        const json_t *number = json_array_get(array, i);
        good = json_is_number(number);
        ret[i] = (float)json_number_value(number);
    }
    return good;
}

static int peers_describe(const void *self, json_t *policy)
{
    const struct aw_peers *peers = self;
    const struct aw_peers_memory *m = &peers->memory;
    const char *category =
        m->category < AW_PEERS_CATEGORIES ? aw_peers_category_names[m->category] : "unknown";
    json_t *numbers = json_object();
    int bad = json_object_set_new(policy, "category", json_string(category));
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
        bad |= json_object_set_new(numbers, aw_capacity_rule_name((enum aw_capacity_rule_number)i),
                                   json_real(m->rule.x[i]));
    bad |= json_object_set_new(policy, "numbers", numbers);
    bad |= json_object_set_new(policy, "lean", json_integer(m->lean));
    bad |= m->net_id
               ? json_object_set_new(policy, "theta", floats(m->net.theta, AW_PEERS_THETA)) |
                     json_object_set_new(policy, "centre", floats(m->net.centre, AW_PEERS_STATE)) |
                     json_object_set_new(policy, "spread", floats(m->net.spread, AW_PEERS_STATE))
               : 0;
    bad |= json_object_set_new(policy, "factor", json_real(aw_peers_factor[m->chosen]));
    return bad;
}

static enum aw_err peers_read(void *self, const json_t *policy, uint64_t id, struct aw_diag *diag)
{
    struct aw_peers *peers = self;
    const char *category = json_string_value(json_object_get(policy, "category"));
    const json_t *lean = json_object_get(policy, "lean");
    uint32_t found = 0;
    while (category && found < AW_PEERS_CATEGORIES &&
           strcmp(category, aw_peers_category_names[found]) != 0)
        found++;
    if (!category || found == AW_PEERS_CATEGORIES)
        return aw_fail(diag, AW_ERR_FORMAT, "category: expected cpu, memory or io");
    if (!json_is_integer(lean) || json_integer_value(lean) < AW_PEERS_LEAN_MIN ||
        json_integer_value(lean) > AW_PEERS_LEAN_MAX)
        return aw_fail(diag, AW_ERR_FORMAT, "lean: expected a whole number from %d to %d",
                       AW_PEERS_LEAN_MIN, AW_PEERS_LEAN_MAX);
    struct aw_capacity_rule rule;
    const json_t *numbers = json_object_get(policy, "numbers");
    for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++) {
        const char *name = aw_capacity_rule_name((enum aw_capacity_rule_number)i);
        const json_t *number = json_object_get(numbers, name);
        rule.x[i] = json_is_number(number) ? json_number_value(number) : (double)NAN;
        if (!(rule.x[i] >= 0 && rule.x[i] <= 1))
            return aw_fail(diag, AW_ERR_FORMAT, "numbers.%s: expected a number from 0 to 1", name);
    }
    peers->memory.net_id = 0;
    if (json_object_get(policy, "theta")) {
        struct aw_peers_net net;
        if (!read_floats(policy, "theta", AW_PEERS_THETA, net.theta) ||
            !read_floats(policy, "centre", AW_PEERS_STATE, net.centre) ||
            !read_floats(policy, "spread", AW_PEERS_STATE, net.spread) || !aw_peers_net_sound(&net))
            return aw_fail(diag, AW_ERR_FORMAT,
                           "theta, centre, spread: expected %u, %u and %u numbers within range",
                           AW_PEERS_THETA, AW_PEERS_STATE, AW_PEERS_STATE);
        net_take(&peers->memory, &net);
    }
    set(peers, found, &rule, (int32_t)json_integer_value(lean));
    if (peers->memory.id != id)
        return aw_fail(diag, AW_ERR_FORMAT, "id: not that of this policy");
    return AW_OK;
}

const struct aw_policy_ops aw_peers_ops = {
    .new = peers_new,
    .free = peers_free,
    .bytes = peers_bytes,
    .act = peers_act,
    .observe = peers_observe,
    .known = peers_known,
    .learned = peers_learned,
    .distance = peers_distance,
    .sees = aw_policy_sees_nothing,
    .draw = peers_draw,
    .follow = peers_follow,
    .adopt = peers_adopt,
    .taught = peers_taught,
    .fits = peers_fits,
    .changed = peers_changed,
    .layout = peers_layout,
    .state_bytes = peers_state_bytes,
    .save = peers_save,
    .load = peers_load,
    .describe = peers_describe,
    .read = peers_read,
};
