#include "base/envelope.h"
#include "base/rng.h"
#include "base/testing.h"
#include "env/check.h"

#include <math.h>
#include <string.h>

/*
 * A small walk that keeps the contract, and can break it in one way at a time: x moves by the
 * action and by a little chance, an episode is truncated after 30 steps, and a walker that leaves
 * [-3, 3] has ended.
 */
enum fault {
    SOUND,
    FUNCTION_MISSING,
    NAME_UPPER,
    SUMMARY_MISSING,
    DIM_ZERO,
    AXIS_UNNAMED,
    CHOICES_NONE,
    BOUNDS_CROSSED,
    BOUND_NAN,
    ACTION_UNBOUNDED,
    REWARD_CROSSED,
    STATE_EMPTY,
    RESET_FAILS,
    RESET_OUTSIDE,
    STEP_FAILS,
    STEP_OUTSIDE,
    STEP_NAN,
    REWARD_NAN,
    REWARD_HIGH,
    OVERRUN_OBS,
    OVERRUN_STATE,
    TRUNCATED_EARLY,
    TRUNCATED_NEVER,
    TRUNCATED_UNLIMITED,
    RESETS_ITSELF,
    SEED_LEAKS,
    SEED_IGNORED,
    SNAPSHOT_FORGETS,
    SNAPSHOT_RESTLESS,
    SNAPSHOT_REFUSES_ITSELF,
    NO_WAY_BACK,
    FOREIGN_TAKEN,
    FOREIGN_CHANGES,
    FOREIGN_WRONG_ERROR,
    DAMAGE_TAKEN,
    NAN_TAKEN,
    CHOICE_TAKEN,
    HALF_CHOICE_TAKEN,
    REFUSED_MOVES,
    REFUSED_WRITES,
    UNCLIPPED,
    BEYOND_REFUSED,
    DIES_YOUNG,
};

#define LIMIT 30

struct walk {
    struct aw_rng rng;
    double x;
    double first; /* observation of the episode */
    uint32_t step;
    uint32_t live;
};
struct walk_snapshot {
    struct aw_envelope head;
    struct walk walk;
};
#define WALK(at) at rng.s, at x, at first, at step, at live
AW_LAYOUT(layout, struct walk_snapshot, 0, AW_ENVELOPE(head.), WALK(walk.));
static struct aw_format format = {
    .kind = "walk", .what = "a walk", .version = 1, .layout = {layout}};

/* One at a time: the environment's `self` is this, and a test sets the fault before each check. */
static struct world {
    enum fault fault;
    bool discrete;
    struct walk walk;
    uint32_t reset_count; /* outlives an episode: what a sound environment must not use */
    uint32_t save_count;
} world;

static enum aw_err walk_reset(void *ctx, uint64_t seed, float *obs)
{
    struct world *w = ctx;
    if (w->fault == RESET_FAILS)
        return AW_ERR_UNAVAILABLE;
    aw_rng_init(&w->walk.rng, w->fault == SEED_IGNORED ? 1 : seed, 0);
    if (w->fault == SEED_LEAKS)
        aw_rng_init(&w->walk.rng, seed, w->reset_count++);
    w->walk.x = aw_rng_uniform(&w->walk.rng, -0.5, 0.5);
    w->walk.step = 0;
    w->walk.live = 1;
    obs[0] = w->fault == RESET_OUTSIDE ? 11 : (float)w->walk.x;
    w->walk.first = (double)obs[0];
    return AW_OK;
}

static bool refused(const struct world *w, float action)
{
    if (!isfinite(action))
        return w->fault != NAN_TAKEN;
    if (w->fault == BEYOND_REFUSED && fabsf(action) > 1)
        return true;
    if (!w->discrete)
        return false;
    if (action != floorf(action))
        return w->fault != HALF_CHOICE_TAKEN;
    return !(action >= 0 && action < (w->fault == CHOICE_TAKEN ? 4 : 3));
}

static enum aw_err walk_step(void *ctx, const float *action, float *obs, struct aw_step *ret)
{
    struct world *w = ctx;
    struct walk *walk = &w->walk;
    AW_ASSERT(walk->live);
    if (refused(w, action[0])) {
        walk->x += w->fault == REFUSED_MOVES ? 0.01 : 0;
        if (w->fault == REFUSED_WRITES)
            obs[0] = 0;
        return AW_ERR_RANGE;
    }
    if (w->fault == STEP_FAILS && walk->step == 4)
        return AW_ERR_IO;
    double push = w->discrete ? (double)action[0] - 1 : (double)action[0];
    if (w->fault != UNCLIPPED)
        push = push < -1 ? -1 : push > 1 ? 1 : push;
    if (isfinite(push))
        walk->x += 0.1 * push;
    walk->x += aw_rng_uniform(&walk->rng, -0.1, 0.1);
    walk->step++;
    bool fifth = walk->step == 5;
    uint32_t limit = w->fault == TRUNCATED_EARLY ? LIMIT - 1 : LIMIT;
    *ret = (struct aw_step){
        .reward = fifth && w->fault == REWARD_NAN    ? NAN
                  : fifth && w->fault == REWARD_HIGH ? 1.5f
                                                     : (float)-fabs(walk->x),
        .terminated = fabs(walk->x) > 3 || (w->fault == DIES_YOUNG && fifth),
        .truncated = w->fault != TRUNCATED_NEVER && walk->step >= limit,
    };
    walk->live = !ret->terminated && !ret->truncated;
    obs[0] = fifth && w->fault == STEP_OUTSIDE ? -11 : (float)walk->x;
    if (fifth && w->fault == STEP_NAN)
        obs[0] = NAN;
    if (fifth && w->fault == OVERRUN_OBS)
        obs[1] = 0;
    if (w->fault == RESETS_ITSELF && ret->truncated)
        obs[0] = (float)walk->first;
    return AW_OK;
}

static void walk_save(const void *ctx, void *bytes)
{
    const struct world *w = ctx;
    struct walk_snapshot snapshot = {.walk = w->walk};
    if (w->fault == SNAPSHOT_FORGETS)
        aw_rng_init(&snapshot.walk.rng, 0, 0);
    if (w->fault == SNAPSHOT_RESTLESS)
        snapshot.walk.live |= world.save_count++ << 8;
    aw_envelope_seal(&format, 0, &snapshot, sizeof snapshot);
    memcpy(bytes, &snapshot, sizeof snapshot);
    if (w->fault == OVERRUN_STATE)
        ((unsigned char *)bytes)[sizeof snapshot] = 0;
}

static enum aw_err walk_load(void *ctx, const void *bytes)
{
    struct world *w = ctx;
    struct walk_snapshot snapshot;
    memcpy(&snapshot, bytes, sizeof snapshot);
    bool valid = !aw_envelope_open(&format, 0, &snapshot, sizeof snapshot, NULL);
    if (w->fault == DAMAGE_TAKEN)
        valid = memcmp(snapshot.head.kind, format.kind, sizeof "walk") == 0;
    if (w->fault == NO_WAY_BACK)
        return AW_ERR_UNAVAILABLE;
    if (w->fault == SNAPSHOT_REFUSES_ITSELF || (!valid && w->fault != FOREIGN_TAKEN)) {
        w->walk.x += w->fault == FOREIGN_CHANGES ? 0.01 : 0;
        return w->fault == FOREIGN_WRONG_ERROR ? AW_ERR_IO : AW_ERR_FORMAT;
    }
    w->walk = snapshot.walk;
    w->walk.live &= 0xff;
    return AW_OK;
}

static void walk_free(void *ctx)
{
    (void)ctx;
}

/* A spec that can be spoiled. */
static struct aw_space_axis obs_axes[1], action_axes[3];
static struct aw_env_spec spec;
static struct aw_env_ops ops;

static struct aw_env make(enum fault fault, bool discrete)
{
    world = (struct world){.fault = fault, .discrete = discrete};
    obs_axes[0] = (struct aw_space_axis){"x", "m", -10, 10};
    action_axes[0] = (struct aw_space_axis){"left", "", -1, 1};
    action_axes[1] = (struct aw_space_axis){"stay", "", 0, 0};
    action_axes[2] = (struct aw_space_axis){"right", "", 0, 0};
    spec = (struct aw_env_spec){
        .name = "walk-v0",
        .summary = "A walk.",
        .observation = {AW_SPACE_BOX, 1, 0, obs_axes},
        .action = {discrete ? AW_SPACE_DISCRETE : AW_SPACE_BOX, 1, discrete ? 3 : 0, action_axes},
        .episode_steps_max = LIMIT,
        .reward_low = -4,
        .reward_high = 1,
        .state_bytes = sizeof(struct walk_snapshot),
    };
    ops = (struct aw_env_ops){walk_reset, walk_step, walk_save, walk_load, walk_free};
    if (fault == FUNCTION_MISSING)
        ops.state_load = NULL;
    if (fault == NAME_UPPER)
        spec.name = "Walk-v0";
    if (fault == SUMMARY_MISSING)
        spec.summary = "";
    if (fault == DIM_ZERO)
        spec.observation.dim = 0;
    if (fault == AXIS_UNNAMED)
        obs_axes[0].name = "";
    if (fault == CHOICES_NONE)
        spec.action.n = 0;
    if (fault == BOUNDS_CROSSED)
        obs_axes[0].low = 11;
    if (fault == BOUND_NAN)
        obs_axes[0].high = NAN;
    if (fault == ACTION_UNBOUNDED)
        action_axes[0].high = INFINITY;
    if (fault == REWARD_CROSSED)
        spec.reward_high = -5;
    if (fault == STATE_EMPTY)
        spec.state_bytes = 0;
    if (fault == TRUNCATED_UNLIMITED)
        spec.episode_steps_max = 0;
    return (struct aw_env){&spec, &ops, &world};
}

enum { BOX = 1, DISCRETE = 2, BOTH = 3 };
#define NOTHING AW_ENV_CHECK_RULE_COUNT
#define R(id)   AW_ENV_CHECK_RULE_##id

static const struct {
    enum fault fault;
    int kinds;
    enum aw_env_check_rule rule; /* the only finding wanted */
    const char *why;
} cases[] = {
    {SOUND, BOTH, NOTHING, "a sound environment has no findings"},
    {FUNCTION_MISSING, BOTH, R(FUNCTIONS), "a slot is NULL"},
    {NAME_UPPER, BOTH, R(NAME), "upper case"},
    {SUMMARY_MISSING, BOTH, R(NAME), "no summary"},
    {DIM_ZERO, BOTH, R(SPACE), "an observation of nothing"},
    {AXIS_UNNAMED, BOTH, R(SPACE), "an element without a name"},
    {CHOICES_NONE, DISCRETE, R(SPACE), "no choices"},
    {BOUNDS_CROSSED, BOTH, R(BOUNDS), "low above high"},
    {BOUND_NAN, BOTH, R(BOUNDS), "a bound that is not a number"},
    {ACTION_UNBOUNDED, BOX, R(BOUNDS), "an action without a bound"},
    {REWARD_CROSSED, BOTH, R(REWARD_BOUNDS), "lowest reward above the highest"},
    {STATE_EMPTY, BOTH, R(STATE_BYTES), "no snapshot"},
    {RESET_FAILS, BOTH, R(RESET), "reset fails"},
    {RESET_OUTSIDE, BOTH, R(RESET_OBSERVATION), "first observation out of bounds"},
    {STEP_FAILS, BOTH, R(STEP), "a valid action fails"},
    {STEP_OUTSIDE, BOTH, R(STEP_OBSERVATION), "an observation out of bounds"},
    {STEP_NAN, BOTH, R(STEP_OBSERVATION), "an observation that is not a number"},
    {REWARD_NAN, BOTH, R(REWARD), "a reward that is not a number"},
    {REWARD_HIGH, BOTH, R(REWARD), "a reward above the stated range"},
    {OVERRUN_OBS, BOTH, R(OVERRUN), "one float too many"},
    {OVERRUN_STATE, BOTH, R(OVERRUN), "one byte too many"},
    {TRUNCATED_EARLY, BOTH, R(TRUNCATION), "one step early"},
    {TRUNCATED_NEVER, BOTH, R(TRUNCATION), "never"},
    {TRUNCATED_UNLIMITED, BOTH, R(TRUNCATION), "truncated although no limit is stated"},
    {RESETS_ITSELF, BOTH, R(FINAL_OBSERVATION), "shows the next beginning instead of the end"},
    {SEED_LEAKS, BOTH, R(SEED), "an episode depends on those before it"},
    {SEED_IGNORED, BOTH, R(CHANCE), "every seed is the same"},
    {SNAPSHOT_FORGETS, BOTH, R(SNAPSHOT), "the generator is not saved"},
    {SNAPSHOT_RESTLESS, BOTH, R(SNAPSHOT), "the same state saves to other bytes"},
    {SNAPSHOT_REFUSES_ITSELF, BOTH, R(SNAPSHOT), "load refuses what save wrote"},
    {NO_WAY_BACK, BOTH, R(SNAPSHOT_NONE), "another program's, which cannot be put back"},
    {FOREIGN_TAKEN, BOTH, R(SNAPSHOT_FOREIGN), "load takes anything"},
    {FOREIGN_CHANGES, BOTH, R(SNAPSHOT_FOREIGN), "load refuses after it has begun"},
    {FOREIGN_WRONG_ERROR, BOTH, R(SNAPSHOT_FOREIGN), "load refuses with another error"},
    {DAMAGE_TAKEN, BOTH, R(SNAPSHOT_DAMAGED), "load looks only at the kind"},
    {NAN_TAKEN, BOX, R(ACTION_REFUSED), "an action that is not a number moves it"},
    {CHOICE_TAKEN, DISCRETE, R(ACTION_REFUSED), "one choice too many"},
    {HALF_CHOICE_TAKEN, DISCRETE, R(ACTION_REFUSED), "half a choice"},
    {REFUSED_MOVES, BOTH, R(ACTION_STILL), "refuses, and moves"},
    {REFUSED_WRITES, BOTH, R(ACTION_STILL), "refuses, and writes"},
    {UNCLIPPED, BOX, R(ACTION_CLIPPED), "a push beyond the bound pushes harder"},
    {BEYOND_REFUSED, BOX, R(ACTION_CLIPPED), "a push beyond the bound is refused"},
    {DIES_YOUNG, BOTH, R(TRUNCATION_UNSEEN), "no episode reaches the limit"},
};

static void each_fault_is_found_and_nothing_else(void **state)
{
    (void)state;
    bool seen[AW_ENV_CHECK_RULE_COUNT + 1] = {false};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int kind = BOX; kind <= DISCRETE; kind++) {
            if (!(cases[i].kinds & kind))
                continue;
            struct aw_env env = make(cases[i].fault, kind == DISCRETE);
            struct aw_env_finding findings[AW_ENV_CHECK_RULE_COUNT];
            uint32_t count = 99;
            assert_ok(aw_env_check(&env, 1, NULL, findings, AW_ENV_CHECK_RULE_COUNT, &count));
            for (uint32_t f = 0; f < count; f++)
                if (findings[f].rule != cases[i].rule || count > 1)
                    print_error("%s: found %s: %s\n", cases[i].why,
                                aw_env_check_rule_name(findings[f].rule), findings[f].text);
            if (count != (cases[i].rule != NOTHING))
                fail_msg("%s (kind %d): %u findings", cases[i].why, kind, count);
            if (count == 0)
                continue;
            assert_int_equal(findings[0].rule, cases[i].rule);
            assert_true(strlen(findings[0].text) > 0);
            seen[cases[i].rule] = true;
        }
    for (int rule = 0; rule < AW_ENV_CHECK_RULE_COUNT; rule++)
        if (!seen[rule])
            fail_msg("no case breaks the rule %s", aw_env_check_rule_name(rule));
}

static void every_builtin_keeps_the_contract(void **state)
{
    (void)state;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct aw_env env;
            struct aw_env_finding findings[AW_ENV_CHECK_RULE_COUNT];
            uint32_t count = 99;
            assert_ok(aw_env_make((*f)->spec->name, &env, NULL));
            assert_ok(aw_env_check(&env, seed, NULL, findings, AW_ENV_CHECK_RULE_COUNT, &count));
            if (count)
                fail_msg("%s: %s: %s", env.spec->name, aw_env_check_rule_name(findings[0].rule),
                         findings[0].text);
            aw_env_free(&env);
        }
}

static void findings_stop_at_the_caller_s_maximum_and_memory_is_given_back(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    struct aw_env_finding finding;
    uint32_t count = 99;
    struct aw_env env = make(NAME_UPPER, false);
    obs_axes[0].low = 11; /* a second fault */
    assert_ok(aw_env_check(&env, 1, &counting.alloc, &finding, 1, &count));
    assert_int_equal(count, 1);
    assert_int_equal(finding.level, AW_ENV_CHECK_ERROR);
    assert_ok(aw_env_check(&env, 1, &counting.alloc, NULL, 0, &count));
    assert_int_equal(count, 0);
    env = make(SEED_IGNORED, false);
    assert_ok(aw_env_check(&env, 1, &counting.alloc, &finding, 1, &count));
    assert_int_equal(finding.level, AW_ENV_CHECK_WARN);
    assert_int_equal(counting.alloc_count, 1);
    assert_int_equal(counting.free_count, 1);
    counting.fail_after = 1;
    count = 99;
    assert_int_equal(aw_env_check(&env, 1, &counting.alloc, &finding, 1, &count), AW_ERR_NOMEM);
    assert_int_equal(count, 99);
}

AW_TEST_GROUP("env-check")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_found_and_nothing_else),
        cmocka_unit_test(every_builtin_keeps_the_contract),
        cmocka_unit_test(findings_stop_at_the_caller_s_maximum_and_memory_is_given_back),
    };
    return cmocka_run_group_tests_name("env-check", tests, NULL, NULL);
}
