/*
 * parallel_check.c - plays episodes under random allowed actions and compares what has to be equal.
 *
 * An episode is known by a hash per step over flags and the rows of all who are there. Arrays have
 * a guard behind them, and rows of agents that are not there are filled with a byte that has to
 * stay.
 */
#include "multi/parallel_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "base/space.h"

#define EPISODES    4u
#define STEPS_MAX   400u /* looked at, of an episode that is longer */
#define GUARD_BYTES 64u
#define GUARD_BYTE  0xc3

static const struct {
    const char *name;
    bool error;
} rules[] = {
#define X(id, error, name, demand) [AW_PARALLEL_CHECK_##id] = {name, error},
    AW_PARALLEL_CHECK_MAP(X)
#undef X
};

const char *aw_parallel_check_rule_name(enum aw_parallel_check_rule rule)
{
    AW_ASSERT((unsigned)rule < AW_PARALLEL_CHECK_RULES);
    return rules[rule].name;
}

struct trace {
    uint64_t hash[STEPS_MAX + 1];
    uint32_t steps;
};

struct check {
    const struct aw_parallel *env;
    const struct aw_parallel_spec *spec;
    size_t n, obs_dim, context_dim, choices, act_dim;
    struct aw_parallel_rows rows;
    uint8_t *state; /* of an agent: 0 never there, 1 live, 2 ended */
    float *action;
    struct trace trace[3];
    struct aw_parallel_finding *findings;
    uint32_t count;
    bool broken[AW_PARALLEL_CHECK_RULES];
};

#define RULE(id) AW_PARALLEL_CHECK_##id

static void report(struct check *c, enum aw_parallel_check_rule rule, const char *fmt, ...)
    AW_PRINTF(3, 4);

static void report(struct check *c, enum aw_parallel_check_rule rule, const char *fmt, ...)
{
    va_list args;
    if (c->broken[rule])
        return;
    c->broken[rule] = true;
    struct aw_parallel_finding *finding = &c->findings[c->count++];
    finding->rule = rule;
    finding->error = rules[rule].error;
    va_start(args, fmt);
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
}

/* ---- what can be seen without playing ---- */

static void check_space(struct check *c, const struct aw_space *space, const char *what,
                        bool discrete_too)
{
    const bool discrete = space->kind == AW_SPACE_DISCRETE;
    const uint32_t axes = discrete ? space->n : space->dim;
    if (discrete && !discrete_too)
        report(c, RULE(SPACE), "%s: expected a box, found choices", what);
    else if (axes == 0 || axes > AW_PARALLEL_DIM_MAX || (discrete && space->dim != 1))
        report(c, RULE(SPACE), "%s: expected 1 to %u elements or choices, found %u", what,
               AW_PARALLEL_DIM_MAX, axes);
    else
        for (uint32_t i = 0; i < axes; i++)
            if (!space->axes || !space->axes[i].name || !space->axes[i].unit ||
                (!discrete && !(space->axes[i].low <= space->axes[i].high)))
                report(c, RULE(SPACE), "%s: element %u has no name, no unit or no range", what, i);
}

static bool check_spec(struct check *c)
{
    const struct aw_parallel_spec *spec = c->spec;
    const struct aw_parallel_ops *ops = c->env->ops;
    if (!ops || !ops->reset || !ops->step || !ops->free)
        report(c, RULE(FUNCTIONS), "reset, step or free is missing");
    const size_t legal =
        spec->name ? strspn(spec->name, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;
    if (!spec->name || !*spec->name || spec->name[legal] || !spec->summary || !*spec->summary)
        report(c, RULE(NAME), "expected lower case letters, digits and dashes, and a summary");
    if (spec->agents_max == 0 || spec->agents_max > AW_PARALLEL_AGENTS_MAX)
        report(c, RULE(SPACE), "expected 1 to %u agents, found %u", AW_PARALLEL_AGENTS_MAX,
               spec->agents_max);
    check_space(c, &spec->observation, "observation", false);
    check_space(c, &spec->context, "context", false);
    check_space(c, &spec->action, "action", true);
    if (!(spec->reward_low <= spec->reward_high))
        report(c, RULE(SPACE), "the lowest reward %g is above the highest %g",
               (double)spec->reward_low, (double)spec->reward_high);
    return c->count == 0;
}

/* ---- playing ---- */

static void *guarded(struct aw_carve *block, size_t count, size_t size)
{
    return aw_carve_take(block, count * size + GUARD_BYTES, 1);
}

static void carve(struct check *c, struct aw_carve *block)
{
    c->rows.flags = guarded(block, c->n, 1);
    c->rows.obs = guarded(block, c->n * c->obs_dim, sizeof(float));
    c->rows.context = guarded(block, c->n * c->context_dim, sizeof(float));
    c->rows.allowed = guarded(block, c->n * c->choices, 1);
    c->rows.reward = guarded(block, c->n, sizeof(float));
    c->state = aw_carve_take(block, c->n, 1);
    c->action = aw_carve_take(block, c->n * c->act_dim, sizeof(float));
}

/* The arrays that an environment writes by rows: base, and bytes of a row. */
static uint32_t arrays(const struct check *c, unsigned char *base[4], size_t bytes[4])
{
    base[0] = (unsigned char *)c->rows.obs, bytes[0] = c->obs_dim * sizeof(float);
    base[1] = (unsigned char *)c->rows.context, bytes[1] = c->context_dim * sizeof(float);
    base[2] = (unsigned char *)c->rows.reward, bytes[2] = sizeof(float);
    base[3] = c->rows.allowed, bytes[3] = c->choices;
    return 4;
}

static void fill(struct check *c)
{
    unsigned char *base[4];
    size_t bytes[4];
    for (uint32_t a = 0; a < arrays(c, base, bytes); a++)
        memset(base[a], GUARD_BYTE, c->n * bytes[a] + GUARD_BYTES);
    memset(c->rows.flags + c->n, GUARD_BYTE, GUARD_BYTES);
}

static bool untouched(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != GUARD_BYTE)
            return false;
    return true;
}

static void check_written(struct check *c)
{
    unsigned char *base[4];
    size_t bytes[4];
    if (!untouched(c->rows.flags + c->n, GUARD_BYTES))
        report(c, RULE(OVERRUN), "flags were written beyond the last agent");
    for (uint32_t a = 0; a < arrays(c, base, bytes); a++) {
        if (!untouched(base[a] + c->n * bytes[a], GUARD_BYTES))
            report(c, RULE(OVERRUN), "an array was written beyond the row of the last agent");
        for (size_t i = 0; i < c->n; i++)
            if (!c->rows.flags[i] && !untouched(base[a] + i * bytes[a], bytes[a]))
                report(c, RULE(OVERRUN), "the row of agent %zu was written, who is not there", i);
    }
}

static void check_flags(struct check *c, uint32_t i, bool first)
{
    const uint8_t flags = c->rows.flags[i], ended = AW_PARALLEL_TERMINATED | AW_PARALLEL_TRUNCATED;
    const uint8_t all = AW_PARALLEL_LIVE | AW_PARALLEL_JOINED | ended;
    const bool was = c->state[i] == 1;
    if ((flags & ~all) || ((flags & AW_PARALLEL_LIVE) && (flags & ended)) ||
        (first && (flags & ended)))
        report(c, RULE(FLAGS), "agent %u: no such combination of flags: 0x%x", i, flags);
    else if (c->state[i] == 2 && flags)
        report(c, RULE(REVIVED), "agent %u ended and has flags 0x%x in a later step", i, flags);
    else if (was && (!flags || (flags & AW_PARALLEL_JOINED)))
        report(c, RULE(FLAGS), "agent %u was live and has flags 0x%x without an end", i, flags);
    else if (!was && flags && !(flags & AW_PARALLEL_JOINED))
        report(c, RULE(FLAGS), "agent %u was not there and has flags 0x%x without joining", i,
               flags);
    if (flags & ended)
        c->state[i] = 2;
    else if (flags & AW_PARALLEL_LIVE)
        c->state[i] = 1;
}

static void check_row(struct check *c, uint32_t i)
{
    const float *obs = c->rows.obs + i * c->obs_dim, reward = c->rows.reward[i];
    if (!aw_space_contains(&c->spec->observation, obs))
        report(c, RULE(OBSERVATION), "agent %u sees what is not in its space (first element %g)", i,
               (double)obs[0]);
    if (!aw_space_contains(&c->spec->context, c->rows.context + i * c->context_dim))
        report(c, RULE(CONTEXT), "the context of agent %u is not in its space", i);
    if (!isfinite(reward) || reward < c->spec->reward_low || reward > c->spec->reward_high ||
        ((c->rows.flags[i] & AW_PARALLEL_JOINED) && reward != 0))
        report(c, RULE(REWARD), "agent %u: expected %g to %g, and 0 for who joins; found %g", i,
               (double)c->spec->reward_low, (double)c->spec->reward_high, (double)reward);
    uint32_t allowed = 0;
    for (size_t k = 0; k < c->choices; k++) {
        const uint8_t one = c->rows.allowed[i * c->choices + k];
        allowed += one == 1;
        if (one > 1)
            report(c, RULE(MASK), "agent %u: expected 0 or 1 for choice %zu, found %u", i, k, one);
    }
    if (c->choices && !allowed && (c->rows.flags[i] & AW_PARALLEL_LIVE))
        report(c, RULE(MASK), "agent %u is live, and nothing is allowed to it", i);
}

static uint32_t live_count(const struct check *c)
{
    uint32_t live = 0;
    for (size_t i = 0; i < c->n; i++)
        live += c->rows.flags[i] & AW_PARALLEL_LIVE;
    return live;
}

static uint64_t look(struct check *c, uint32_t step)
{
    const uint32_t limit = c->spec->episode_steps_max;
    uint64_t hash = aw_hash_bytes(AW_HASH_BEGIN, c->rows.flags, c->n);
    check_written(c);
    for (uint32_t i = 0; i < c->n; i++) {
        check_flags(c, i, step == 0);
        if (!c->rows.flags[i])
            continue;
        check_row(c, i);
        hash = aw_hash_bytes(hash, c->rows.obs + i * c->obs_dim, c->obs_dim * sizeof(float));
        hash = aw_hash_bytes(hash, c->rows.context + i * c->context_dim,
                             c->context_dim * sizeof(float));
        hash = aw_hash_bytes(hash, c->rows.allowed + i * c->choices, c->choices);
        hash = aw_hash_bytes(hash, &c->rows.reward[i], sizeof(float));
        if ((c->rows.flags[i] & AW_PARALLEL_TRUNCATED) && (!limit || step < limit))
            report(c, RULE(TRUNCATION), "agent %u is truncated after %u steps of %u", i, step,
                   limit);
    }
    if (limit && step >= limit && live_count(c))
        report(c, RULE(TRUNCATION), "%u agents are live after %u steps of %u", live_count(c), step,
               limit);
    return hash;
}

static void draw_action(struct check *c, struct aw_rng *rng, uint32_t i)
{
    float *action = c->action + i * c->act_dim;
    if (!c->choices) {
        aw_space_sample(&c->spec->action, rng, action);
        return;
    }
    uint32_t at = aw_rng_below(rng, (uint32_t)c->choices);
    for (size_t k = 0; k < c->choices && !c->rows.allowed[i * c->choices + at]; k++)
        at = at + 1 < c->choices ? at + 1 : 0;
    *action = (float)at;
}

static void draw_actions(struct check *c, struct aw_rng *rng, float absent)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->rows.flags[i] & AW_PARALLEL_LIVE)
            draw_action(c, rng, i);
        else
            for (size_t k = 0; k < c->act_dim; k++)
                c->action[i * c->act_dim + k] = absent;
}

static bool begin(struct check *c, uint64_t seed)
{
    memset(c->state, 0, c->n);
    fill(c);
    memset(c->rows.flags, 0, c->n);
    const enum aw_err err = c->env->ops->reset(c->env->self, seed, &c->rows);
    if (err)
        report(c, RULE(RESET), "seed %llu: %s", (unsigned long long)seed, aw_err_text(err));
    else if (!live_count(c))
        report(c, RULE(RESET), "seed %llu: nobody is live", (unsigned long long)seed);
    return !err && live_count(c);
}

/* One episode; `absent` stands where the actions of those who are not live would. */
static void play(struct check *c, uint64_t seed, float absent, enum aw_parallel_check_rule rule,
                 struct trace *trace)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 17, 0); /* the same actions for all seeds */
    trace->steps = 0;
    if (!begin(c, seed))
        return;
    trace->hash[0] = look(c, 0);
    while (live_count(c) && trace->steps < STEPS_MAX) {
        draw_actions(c, &rng, absent);
        fill(c);
        const enum aw_err err = c->env->ops->step(c->env->self, c->action, &c->rows);
        if (err) {
            report(c, rule, "step %u: %s", trace->steps + 1, aw_err_text(err));
            return;
        }
        trace->steps++;
        trace->hash[trace->steps] = look(c, trace->steps);
    }
}

static bool same(const struct trace *a, const struct trace *b)
{
    return a->steps == b->steps && !memcmp(a->hash, b->hash, (a->steps + 1) * sizeof *a->hash);
}

static void check_refusal(struct check *c, uint64_t seed, float wrong, const char *what)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 17, 0);
    if (!begin(c, seed))
        return;
    (void)look(c, 0); /* who is there */
    draw_actions(c, &rng, 0);
    uint32_t at = 0;
    while (!(c->rows.flags[at] & AW_PARALLEL_LIVE))
        at++;
    float *element = &c->action[at * c->act_dim], right = *element;
    *element = wrong;
    const uint64_t flags = aw_hash_bytes(AW_HASH_BEGIN, c->rows.flags, c->n);
    fill(c);
    const enum aw_err err = c->env->ops->step(c->env->self, c->action, &c->rows);
    if (err != AW_ERR_RANGE) {
        report(c, RULE(ACTION_REFUSED), "%s: expected \"%s\", found \"%s\"", what,
               aw_err_text(AW_ERR_RANGE), aw_err_text(err));
        return;
    }
    if (aw_hash_bytes(AW_HASH_BEGIN, c->rows.flags, c->n) != flags ||
        !untouched((unsigned char *)c->rows.obs, c->n * c->obs_dim * sizeof(float)) ||
        !untouched((unsigned char *)c->rows.reward, c->n * sizeof(float)))
        report(c, RULE(ACTION_STILL), "%s: it was refused, and rows were written", what);
    *element = right;
    if (c->env->ops->step(c->env->self, c->action, &c->rows) || look(c, 1) != c->trace[0].hash[1])
        report(c, RULE(ACTION_STILL), "%s: it was refused, and the next step differs", what);
}

static void check_play(struct check *c, uint64_t seed)
{
    bool differ = false;
    play(c, seed, 0, RULE(STEP), &c->trace[0]);
    for (uint32_t k = 1; k < EPISODES; k++) {
        play(c, seed + k, 0, RULE(STEP), &c->trace[1]);
        differ |= !same(&c->trace[0], &c->trace[1]);
    }
    if (c->broken[RULE(STEP)] || c->broken[RULE(RESET)])
        return;
    if (!differ)
        report(c, RULE(CHANCE), "%u seeds gave the same episode", EPISODES);
    play(c, seed, 0, RULE(STEP), &c->trace[1]);
    if (!same(&c->trace[0], &c->trace[1]))
        report(c, RULE(SEED), "seed %llu gave another episode the second time",
               (unsigned long long)seed);
    play(c, seed, NAN, RULE(ABSENT_ACTION), &c->trace[2]);
    if (!same(&c->trace[1], &c->trace[2]))
        report(c, RULE(ABSENT_ACTION), "what stands for agents who are not there changes the step");
    if (c->broken[RULE(SEED)])
        return;
    check_refusal(c, seed, NAN, "an action that is not finite");
    if (c->choices)
        check_refusal(c, seed, (float)c->choices, "a choice that does not exist");
}

enum aw_err aw_parallel_check(const struct aw_parallel *env, uint64_t seed,
                              const struct aw_alloc *alloc, struct aw_parallel_finding *findings,
                              uint32_t *ret_count)
{
    const struct aw_parallel_spec *spec = env->spec;
    struct check *c = aw_alloc_new(alloc, 1, sizeof *c);
    if (!c)
        return AW_ERR_NOMEM;
    *c = (struct check){.env = env, .spec = spec, .findings = findings};
    if (check_spec(c)) {
        c->n = spec->agents_max;
        c->obs_dim = spec->observation.dim;
        c->context_dim = spec->context.dim;
        c->act_dim = spec->action.dim;
        c->choices = spec->action.kind == AW_SPACE_DISCRETE ? spec->action.n : 0;
        struct aw_carve block = {0};
        carve(c, &block);
        block = (struct aw_carve){.base = aw_alloc_new(alloc, block.used, 1)};
        if (!block.base) {
            aw_alloc_free(alloc, c);
            return AW_ERR_NOMEM;
        }
        void *base = block.base;
        carve(c, &block);
        check_play(c, seed);
        aw_alloc_free(alloc, base);
    }
    *ret_count = c->count;
    aw_alloc_free(alloc, c);
    return AW_OK;
}
