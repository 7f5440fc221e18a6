/*
 * check.c - plays the environment under random actions and compares what has to be equal.
 *
 * An episode is compared by a trace: one hash per step over the bytes of the observation, the
 * reward and the two flags. Equal means equal to the bit. All episodes get the same actions, so
 * that a difference between them comes from their seeds.
 */
#include "env/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "base/space.h"

#define EPISODES          16u      /* of random play */
#define EPISODE_STEPS_MAX 2000u    /* of one of them; also the length of a trace */
#define GUARD_BYTES       64u      /* behind each array, to see writes beyond its end */
#define GUARD_BYTE        0xc3     /* as a float, -3.9e2: no likely value */
#define PLAN_STEPS        50u      /* look-ahead when searching for a long episode */
#define PLAN_TRIES        16u      /* random plans per step of that search */
#define SEARCH_STEPS_MAX  2000000u /* environment steps spent on it */
#define SEARCH_EPISODES   4u

static const struct {
    const char *name;
    enum aw_env_check_level level;
} rules[] = {
#define X(id, level, name, demand) [AW_ENV_CHECK_RULE_##id] = {name, AW_ENV_CHECK_##level},
    AW_ENV_CHECK_MAP(X)
#undef X
};

const char *aw_env_check_rule_name(enum aw_env_check_rule rule)
{
    AW_ASSERT((unsigned)rule < AW_ENV_CHECK_RULE_COUNT);
    return rules[rule].name;
}

struct trace {
    uint64_t first;   /* hash of the first observation */
    uint64_t *hashes; /* [EPISODE_STEPS_MAX], one per step */
    uint32_t steps;
};

struct check {
    const struct aw_env *env;
    const struct aw_env_spec *spec;
    uint64_t seed;
    uint32_t limit; /* spec->episode_steps_max; UINT32_MAX: none */

    struct aw_env_finding *findings;
    uint32_t max, count;
    bool broken[AW_ENV_CHECK_RULE_COUNT], any;

    /* each with a guard behind it */
    float *obs, *first_obs;
    unsigned char *state, *state_again;
    float *action, *other_action;
    float *plan, *new_plan; /* [PLAN_STEPS][action.dim] */
    struct trace trace, trace_again;

    bool no_way_back; /* state_load cannot: what needs it is lived once more from its seed */
    bool limit_seen;  /* an episode lived until the limit */
};

#define RULE(id) AW_ENV_CHECK_RULE_##id

static void report(struct check *c, enum aw_env_check_rule rule, const char *fmt, ...)
    AW_PRINTF(3, 4);

static void report(struct check *c, enum aw_env_check_rule rule, const char *fmt, ...)
{
    if (c->broken[rule])
        return;
    c->broken[rule] = true;
    c->any = true;
    if (c->count == c->max)
        return;
    struct aw_env_finding *finding = &c->findings[c->count++];
    finding->rule = rule;
    finding->level = rules[rule].level;
    va_list args;
    va_start(args, fmt);
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
}

/* What the spec says; nothing is called. */

static void check_name(struct check *c)
{
    const char *name = c->spec->name;
    const bool elsewhere = name && strlen(name) < AW_ENV_ADDRESS_MAX && strstr(name, "://");
    if (elsewhere) /* an address, which is not its own to choose */
        return;
    if (!name || !name[0] || strlen(name) >= AW_ENV_NAME_MAX) {
        report(c, RULE(NAME), "expected a name of 1 to %u bytes", AW_ENV_NAME_MAX - 1);
        return;
    }
    for (const char *s = name; *s; s++)
        if (!(*s >= 'a' && *s <= 'z') && !(*s >= '0' && *s <= '9') && *s != '-')
            report(c, RULE(NAME), "the name \"%s\" holds more than lower case, digits and dashes",
                   name);
    if (!c->spec->summary || !c->spec->summary[0])
        report(c, RULE(NAME), "there is no summary");
}

/* Discrete actions are told apart as floats, which hold whole numbers up to 2^24. */
#define CHOICES_MAX (1u << 24)

static void check_space(struct check *c, const struct aw_space *space, const char *what,
                        bool action)
{
    bool box = space->kind == AW_SPACE_BOX;
    if (!box && space->kind != AW_SPACE_DISCRETE) {
        report(c, RULE(SPACE), "the %s space is neither box nor discrete", what);
        return;
    }
    if (box ? space->dim < 1 || space->dim > AW_ENV_DIM_MAX || space->n != 0
            : space->dim != 1 || space->n < 1 || space->n > CHOICES_MAX) {
        report(c, RULE(SPACE), "the %s space has %u elements and %u choices", what, space->dim,
               space->n);
        return;
    }
    if (!space->axes) {
        report(c, RULE(SPACE), "the %s space names none of its elements", what);
        return;
    }
    for (uint32_t i = 0; i < (box ? space->dim : space->n); i++) {
        const struct aw_space_axis *axis = &space->axes[i];
        if (!axis->name || !axis->name[0] || !axis->unit) {
            report(c, RULE(SPACE), "element %u of the %s space has no name or no unit", i, what);
            return;
        }
        /* not (low <= high) is also true of NaN */
        if (box && !(axis->low <= axis->high))
            report(c, RULE(BOUNDS), "%s \"%s\" goes from %g to %g", what, axis->name,
                   (double)axis->low, (double)axis->high);
        if (box && action && (!isfinite(axis->low) || !isfinite(axis->high)))
            report(c, RULE(BOUNDS), "action \"%s\" has no finite bounds (%g to %g)", axis->name,
                   (double)axis->low, (double)axis->high);
    }
}

/* True when it is safe to go on and call the environment. */
static bool check_spec(struct check *c)
{
    const struct aw_env_ops *ops = c->env->ops;
    if (!ops || !ops->reset || !ops->step || !ops->state_save || !ops->state_load || !ops->free)
        report(c, RULE(FUNCTIONS), "a function of the contract is missing");
    check_name(c);
    check_space(c, &c->spec->observation, "observation", false);
    check_space(c, &c->spec->action, "action", true);
    if (!(c->spec->reward_low <= c->spec->reward_high))
        report(c, RULE(REWARD_BOUNDS), "rewards are said to go from %g to %g",
               (double)c->spec->reward_low, (double)c->spec->reward_high);
    if (c->spec->state_bytes < 1 || c->spec->state_bytes > AW_ENV_STATE_BYTES_MAX)
        report(c, RULE(STATE_BYTES), "expected a snapshot of 1 to %u bytes, found %u",
               AW_ENV_STATE_BYTES_MAX, c->spec->state_bytes);
    return !c->any;
}

/* Calls with eyes open. */

static uint64_t hash_step(const struct check *c, const struct aw_step *step)
{
    const unsigned char flags[] = {step->terminated, step->truncated};
    uint64_t hash = aw_hash_bytes(1, c->obs, c->spec->observation.dim * sizeof *c->obs);
    hash = aw_hash_bytes(hash, &step->reward, sizeof step->reward);
    return aw_hash_bytes(hash, flags, sizeof flags);
}

static void set_guard(void *end)
{
    memset(end, GUARD_BYTE, GUARD_BYTES);
}

static void look_at_guard(struct check *c, void *end, const char *what)
{
    const unsigned char *guard = end;
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (guard[i] != GUARD_BYTE) {
            report(c, RULE(OVERRUN), "%s was written beyond its end", what);
            set_guard(end);
            return;
        }
}

/* Names the element that lies outside. */
static void report_outside(struct check *c, enum aw_env_check_rule rule, const float *obs)
{
    const struct aw_space *space = &c->spec->observation;
    if (space->kind == AW_SPACE_DISCRETE) {
        report(c, rule, "observed %g of %u choices", (double)obs[0], space->n);
        return;
    }
    for (uint32_t i = 0; i < space->dim; i++) {
        const struct aw_space_axis *axis = &space->axes[i];
        if (!isfinite(obs[i]) || obs[i] < axis->low || obs[i] > axis->high) {
            report(c, rule, "expected \"%s\" within %g to %g, found %g", axis->name,
                   (double)axis->low, (double)axis->high, (double)obs[i]);
            return;
        }
    }
}

static bool reset(struct check *c, uint64_t seed)
{
    enum aw_err err = c->env->ops->reset(c->env->self, seed, c->obs);
    if (err) {
        report(c, RULE(RESET), "reset with seed %llu failed: %s", (unsigned long long)seed,
               aw_err_text(err));
        return false;
    }
    look_at_guard(c, c->obs + c->spec->observation.dim, "the observation of reset");
    if (!aw_space_contains(&c->spec->observation, c->obs))
        report_outside(c, RULE(RESET_OBSERVATION), c->obs);
    return true;
}

/* One step, the `number`th of its episode (from 1). False: it failed, and play cannot go on. */
static bool step(struct check *c, const float *action, uint32_t number, struct aw_step *ret)
{
    *ret = (struct aw_step){0};
    enum aw_err err = c->env->ops->step(c->env->self, action, c->obs, ret);
    if (err) {
        report(c, RULE(STEP), "step %u refused an action from the space (first element %g): %s",
               number, (double)action[0], aw_err_text(err));
        return false;
    }
    look_at_guard(c, c->obs + c->spec->observation.dim, "the observation of step");
    if (!aw_space_contains(&c->spec->observation, c->obs))
        report_outside(c, RULE(STEP_OBSERVATION), c->obs);
    if (!(ret->reward >= c->spec->reward_low && ret->reward <= c->spec->reward_high) ||
        !isfinite(ret->reward))
        report(c, RULE(REWARD), "expected a reward within %g to %g, found %g at step %u",
               (double)c->spec->reward_low, (double)c->spec->reward_high, (double)ret->reward,
               number);
    if (ret->truncated && number < c->limit) {
        if (c->spec->episode_steps_max)
            report(c, RULE(TRUNCATION), "truncated at step %u, expected at %u", number, c->limit);
        else
            report(c, RULE(TRUNCATION), "truncated at step %u, although no limit is stated",
                   number);
    }
    if (number == c->limit) {
        c->limit_seen = true;
        if (!ret->truncated && !ret->terminated)
            report(c, RULE(TRUNCATION), "not truncated at step %u, where the limit is", number);
    }
    return true;
}

static bool ended(const struct check *c, const struct aw_step *last, uint32_t number)
{
    return last->terminated || last->truncated || number >= c->limit;
}

/* Random play from step `from` on, until the episode ends or a trace is full. `rng` gives the
 * actions. Returns false when a step failed. */
static bool play(struct check *c, struct aw_rng *rng, uint32_t from, uint32_t steps,
                 struct trace *trace, bool *ret_ended)
{
    struct aw_step last = {0};
    trace->steps = 0;
    *ret_ended = false;
    for (uint32_t i = 0; i < steps && !*ret_ended; i++) {
        aw_space_sample(&c->spec->action, rng, c->action);
        if (!step(c, c->action, from + i + 1, &last))
            return false;
        trace->hashes[trace->steps++] = hash_step(c, &last);
        *ret_ended = ended(c, &last, from + i + 1);
    }
    return true;
}

static bool play_episode(struct check *c, uint64_t seed, struct trace *trace, bool *ret_ended)
{
    struct aw_rng rng;
    aw_rng_init(&rng, c->seed, 1);
    if (!reset(c, seed))
        return false;
    size_t obs_bytes = c->spec->observation.dim * sizeof *c->obs;
    memcpy(c->first_obs, c->obs, obs_bytes);
    trace->first = aw_hash_bytes(1, c->obs, obs_bytes);
    return play(c, &rng, 0, EPISODE_STEPS_MAX, trace, ret_ended);
}

/* The number of the first step in which two traces differ, from 1; 0 when they do not. */
static uint32_t first_difference(const struct trace *a, const struct trace *b)
{
    uint32_t shorter = a->steps < b->steps ? a->steps : b->steps;
    for (uint32_t i = 0; i < shorter; i++)
        if (a->hashes[i] != b->hashes[i])
            return i + 1;
    return a->steps == b->steps ? 0 : shorter + 1;
}

static uint64_t episode_seed(const struct check *c, uint32_t episode)
{
    struct aw_rng rng;
    aw_rng_init(&rng, c->seed, 2 + episode);
    return aw_rng_u64(&rng);
}

/* Plays EPISODES episodes and then the first one again. False: a call failed. */
static bool check_episodes(struct check *c)
{
    bool done, differ = false;
    uint32_t end_count = 0, back_count = 0, steps = 0;
    size_t obs_bytes = c->spec->observation.dim * sizeof *c->obs;
    for (uint32_t e = 0; e < EPISODES; e++) {
        struct trace *trace = e == 0 ? &c->trace : &c->trace_again;
        if (!play_episode(c, episode_seed(c, e), trace, &done))
            return false;
        steps += trace->steps;
        if (done) {
            end_count++;
            back_count += memcmp(c->obs, c->first_obs, obs_bytes) == 0;
        }
        if (e > 0)
            differ |= trace->first != c->trace.first || first_difference(trace, &c->trace) != 0;
    }
    /* Ending where one began may be chance; doing so every time, in episodes of some length, is an
     * environment that has already begun again. */
    if (end_count >= EPISODES / 2 && back_count == end_count && steps > 2 * EPISODES)
        report(c, RULE(FINAL_OBSERVATION),
               "in %u of %u episodes the last observation was the first one of the same seed",
               back_count, end_count);
    if (!differ)
        report(c, RULE(CHANCE), "%u seeds gave the same episode", EPISODES);

    if (!play_episode(c, episode_seed(c, 0), &c->trace_again, &done))
        return false;
    uint32_t where = first_difference(&c->trace, &c->trace_again);
    if (c->trace.first != c->trace_again.first)
        report(c, RULE(SEED), "the same seed gave another first observation");
    else if (where)
        report(c, RULE(SEED), "the same seed and actions gave another step %u", where);
    return true;
}

static void save(struct check *c, unsigned char *state)
{
    c->env->ops->state_save(c->env->self, state);
    look_at_guard(c, state + c->spec->state_bytes, "a snapshot");
}

/* Brings the environment to the middle of its first episode, and `c->state` with it. Returns how
 * many steps were made, or UINT32_MAX when a call failed. */
static uint32_t to_the_middle(struct check *c, struct aw_rng *rng)
{
    bool done;
    uint32_t steps = c->trace.steps / 2; /* of the first episode: not its end */
    aw_rng_init(rng, c->seed, 1);
    if (!reset(c, episode_seed(c, 0)) || !play(c, rng, 0, steps, &c->trace_again, &done))
        return UINT32_MAX;
    save(c, c->state);
    return steps;
}

static bool check_snapshot(struct check *c)
{
    struct aw_rng rng, other;
    bool done;
    uint32_t steps = to_the_middle(c, &rng);
    if (steps == UINT32_MAX)
        return false;
    save(c, c->state_again);
    if (memcmp(c->state, c->state_again, c->spec->state_bytes) != 0)
        report(c, RULE(SNAPSHOT), "two snapshots of the same state differ");

    /* another episode in between, so that load has something to bring back */
    other = rng;
    if (!reset(c, episode_seed(c, 1)) || !play(c, &other, 0, 3, &c->trace_again, &done))
        return false;
    enum aw_err err = c->env->ops->state_load(c->env->self, c->state);
    if (err == AW_ERR_UNAVAILABLE) {
        c->no_way_back = true;
        report(c, RULE(SNAPSHOT_NONE),
               "another program's environment cannot be put back to where it was: its runs can be "
               "evaluated, not resumed");
        return true;
    }
    if (err) {
        report(c, RULE(SNAPSHOT), "state_load refused what state_save wrote: %s", aw_err_text(err));
        return true;
    }
    if (!play(c, &rng, steps, EPISODE_STEPS_MAX - steps, &c->trace_again, &done))
        return false;
    struct trace rest = {.hashes = c->trace.hashes + steps, .steps = c->trace.steps - steps};
    uint32_t where = first_difference(&rest, &c->trace_again);
    if (where)
        report(c, RULE(SNAPSHOT), "after a restore, step %u was another one than before", where);
    return true;
}

/* Back to where to_the_middle was; a snapshot that loaded once loads again. */
static bool restore(struct check *c)
{
    struct aw_rng rng;
    if (c->no_way_back)
        return to_the_middle(c, &rng) != UINT32_MAX;
    enum aw_err err = c->env->ops->state_load(c->env->self, c->state);
    if (err)
        report(c, RULE(SNAPSHOT), "state_load refused its own snapshot the second time");
    return err == AW_OK;
}

/* True when the environment is still where `c->state` was taken. */
static bool unmoved(struct check *c)
{
    save(c, c->state_again);
    return memcmp(c->state, c->state_again, c->spec->state_bytes) == 0;
}

static void try_foreign(struct check *c, enum aw_env_check_rule rule, const char *what)
{
    enum aw_err err = c->env->ops->state_load(c->env->self, c->state_again);
    if (err == AW_OK)
        report(c, rule, "state_load took %s", what);
    else if (err != AW_ERR_FORMAT)
        report(c, rule, "state_load answered %s with \"%s\", expected \"%s\"", what,
               aw_err_text(err), aw_err_text(AW_ERR_FORMAT));
    else if (!unmoved(c))
        report(c, rule, "state_load refused %s, but something changed", what);
}

static bool check_foreign(struct check *c)
{
    struct aw_rng rng;
    size_t size = c->spec->state_bytes;
    if (to_the_middle(c, &rng) == UINT32_MAX)
        return false;
    memset(c->state_again, 0, size);
    try_foreign(c, RULE(SNAPSHOT_FOREIGN), "bytes that are all zero");
    memset(c->state_again, 0xa5, size);
    try_foreign(c, RULE(SNAPSHOT_FOREIGN), "bytes that are all 0xa5");
    for (size_t i = 0; i < size && !c->broken[RULE(SNAPSHOT_FOREIGN)]; i += size / 64 + 1) {
        memcpy(c->state_again, c->state, size);
        c->state_again[i] ^= 1;
        try_foreign(c, RULE(SNAPSHOT_DAMAGED), "a snapshot with one bit flipped");
    }
    return restore(c);
}

/* `c->action` must be refused, and nothing may move. */
static void try_refused(struct check *c, const char *what)
{
    size_t obs_bytes = c->spec->observation.dim * sizeof *c->obs;
    struct aw_step ret, untouched;
    memset(&ret, 0x5a, sizeof ret);
    memset(c->obs, GUARD_BYTE, obs_bytes);
    memcpy(&untouched, &ret, sizeof ret);
    enum aw_err err = c->env->ops->step(c->env->self, c->action, c->obs, &ret);
    if (err != AW_ERR_RANGE) {
        report(c, RULE(ACTION_REFUSED), "an action %s: expected \"%s\", found \"%s\"", what,
               aw_err_text(AW_ERR_RANGE), aw_err_text(err));
        return;
    }
    bool written = memcmp(&ret, &untouched, sizeof ret) != 0;
    for (size_t i = 0; i < obs_bytes; i++)
        written |= ((unsigned char *)c->obs)[i] != GUARD_BYTE;
    if (written)
        report(c, RULE(ACTION_STILL), "an action %s was refused, but something was written", what);
    if (!unmoved(c))
        report(c, RULE(ACTION_STILL), "an action %s was refused, but the state moved", what);
}

static bool check_refused(struct check *c)
{
    const struct aw_space *space = &c->spec->action;
    const struct {
        float value;
        bool discrete_only;
        const char *what;
    } cases[] = {
        {NAN, false, "that is not a number"},
        {INFINITY, false, "that is infinite"},
        {-INFINITY, false, "that is minus infinite"},
        {(float)space->n, true, "one beyond the last choice"},
        {-1, true, "below the first choice"},
        {0.5f, true, "between two choices"},
    };
    struct aw_rng rng;
    if (to_the_middle(c, &rng) == UINT32_MAX)
        return false;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].discrete_only && space->kind != AW_SPACE_DISCRETE)
            continue;
        /* the last element: a check of only the first would miss it */
        aw_space_sample(space, &rng, c->action);
        c->action[space->dim - 1] = cases[i].value;
        try_refused(c, cases[i].what);
        if (!restore(c))
            return false;
    }
    return true;
}

static bool check_clipped(struct check *c)
{
    const struct aw_space *space = &c->spec->action;
    struct aw_rng rng;
    if (space->kind != AW_SPACE_BOX)
        return true;
    uint32_t steps = to_the_middle(c, &rng);
    if (steps == UINT32_MAX)
        return false;
    for (int side = 0; side < 2; side++) {
        struct aw_step at, beyond;
        for (uint32_t i = 0; i < space->dim; i++) {
            float low = space->axes[i].low, high = space->axes[i].high;
            c->action[i] = side ? high : low;
            c->other_action[i] = side ? high + (1 + fabsf(high)) : low - (1 + fabsf(low));
        }
        if (!step(c, c->action, steps + 1, &at))
            return false;
        uint64_t wanted = hash_step(c, &at);
        if (!restore(c))
            return false;
        enum aw_err err = c->env->ops->step(c->env->self, c->other_action, c->obs, &beyond);
        if (err || hash_step(c, &beyond) != wanted)
            report(c, RULE(ACTION_CLIPPED), "an action %s its bounds %s", side ? "above" : "below",
                   err ? "was refused" : "did more than the bound does");
        if (!restore(c))
            return false;
    }
    return true;
}

/*
 * Searching for an episode that lives until its limit: many tasks end early under random play.
 * Looks PLAN_STEPS ahead along random plans from a snapshot, keeps the plan that lives longest,
 * makes its first step, and tries to do better from there.
 */

/* Steps that `plan` lives when carried out after `done` steps. Leaves the environment there. */
static uint32_t lifetime(struct check *c, const float *plan, uint32_t done, uint32_t *spent)
{
    struct aw_step last;
    for (uint32_t i = 0; i < PLAN_STEPS; i++) {
        ++*spent;
        if (!step(c, plan + (size_t)i * c->spec->action.dim, done + i + 1, &last) ||
            last.terminated)
            return i;
        if (last.truncated || done + i + 1 >= c->limit)
            return PLAN_STEPS;
    }
    return PLAN_STEPS;
}

static void draw(const struct check *c, struct aw_rng *rng, float *plan, uint32_t from)
{
    for (uint32_t i = from; i < PLAN_STEPS; i++)
        aw_space_sample(&c->spec->action, rng, plan + (size_t)i * c->spec->action.dim);
}

static bool search_episode(struct check *c, uint64_t seed, struct aw_rng *rng, uint32_t *spent)
{
    size_t dim = c->spec->action.dim, plan_bytes = PLAN_STEPS * dim * sizeof *c->plan;
    struct aw_step last = {0};
    if (!reset(c, seed))
        return false;
    draw(c, rng, c->plan, 0);
    for (uint32_t done = 0; !ended(c, &last, done) && *spent < SEARCH_STEPS_MAX; done++) {
        save(c, c->state);
        uint32_t best = lifetime(c, c->plan, done, spent);
        for (uint32_t i = 0; i < PLAN_TRIES && best < PLAN_STEPS; i++) {
            if (!restore(c))
                return false;
            draw(c, rng, c->new_plan, 0);
            uint32_t found = lifetime(c, c->new_plan, done, spent);
            if (found > best) {
                best = found;
                memcpy(c->plan, c->new_plan, plan_bytes);
            }
        }
        if (!restore(c) || !step(c, c->plan, done + 1, &last))
            return false;
        memmove(c->plan, c->plan + dim, plan_bytes - dim * sizeof *c->plan);
        draw(c, rng, c->plan, PLAN_STEPS - 1);
    }
    return true;
}

static void check_limit(struct check *c)
{
    if (!c->spec->episode_steps_max || c->broken[RULE(TRUNCATION)])
        return;
    struct aw_rng rng;
    aw_rng_init(&rng, c->seed, 0);
    uint32_t spent = 0;
    for (uint32_t e = 0; e < SEARCH_EPISODES && !c->limit_seen; e++)
        if (!search_episode(c, aw_rng_u64(&rng), &rng, &spent))
            return;
    if (!c->limit_seen)
        report(c, RULE(TRUNCATION_UNSEEN),
               "no episode lived for %u steps, so truncation was not seen", c->limit);
}

static void check_behaviour(struct check *c)
{
    if (!check_episodes(c) || c->broken[RULE(SEED)])
        return;
    if (!check_snapshot(c) || c->broken[RULE(SNAPSHOT)])
        return;
    if ((!c->no_way_back && !check_foreign(c)) || !check_refused(c) || !check_clipped(c))
        return;
    if (!c->no_way_back) /* a search goes back at every step */
        check_limit(c);
}

static void carve(struct check *c, struct aw_carve *block)
{
    size_t obs_bytes = c->spec->observation.dim * sizeof(float), state_bytes = c->spec->state_bytes;
    size_t dim = c->spec->action.dim;
    c->obs = aw_carve_take(block, 1, obs_bytes + GUARD_BYTES);
    c->state = aw_carve_take(block, 1, state_bytes + GUARD_BYTES);
    c->state_again = aw_carve_take(block, 1, state_bytes + GUARD_BYTES);
    c->first_obs = aw_carve_take(block, 1, obs_bytes);
    c->action = aw_carve_take(block, dim, sizeof(float));
    c->other_action = aw_carve_take(block, dim, sizeof(float));
    c->plan = aw_carve_take(block, PLAN_STEPS * dim, sizeof(float));
    c->new_plan = aw_carve_take(block, PLAN_STEPS * dim, sizeof(float));
    c->trace.hashes = aw_carve_take(block, EPISODE_STEPS_MAX, sizeof(uint64_t));
    c->trace_again.hashes = aw_carve_take(block, EPISODE_STEPS_MAX, sizeof(uint64_t));
}

enum aw_err aw_env_check(const struct aw_env *env, uint64_t seed, const struct aw_alloc *alloc,
                         struct aw_env_finding *findings, uint32_t max, uint32_t *ret_count)
{
    struct check c = {
        .env = env, .spec = env->spec, .seed = seed, .findings = findings, .max = max};
    c.limit = env->spec->episode_steps_max ? env->spec->episode_steps_max : UINT32_MAX;
    if (check_spec(&c)) {
        struct aw_carve block = {0};
        carve(&c, &block);
        unsigned char *base = aw_alloc_new(alloc, block.used, 1);
        if (!base)
            return AW_ERR_NOMEM;
        block = (struct aw_carve){.base = base};
        carve(&c, &block);
        set_guard(c.obs + c.spec->observation.dim);
        set_guard(c.state + c.spec->state_bytes);
        set_guard(c.state_again + c.spec->state_bytes);
        check_behaviour(&c);
        aw_alloc_free(alloc, base);
    }
    *ret_count = c.count;
    return AW_OK;
}
