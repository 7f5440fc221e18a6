/* parallel_test.c - tenants-v0 keeps the contract of many agents, and the checker finds who does
 * not. */
#include <aware/parallel.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "multi/parallel_check.h"
#include "multi/team.h"

/* ---- an environment of three agents with one thing wrong ---- */

enum fault {
    NONE,
    LEAKS,        /* the second episode of a seed is another */
    SAME,         /* all seeds are the same */
    REVIVES,      /* agent 1 ends and comes back */
    VANISHES,     /* agent 1 is gone without an end */
    APPEARS,      /* agent 2 is there without joining */
    OVERRUNS,     /* writes a row too many */
    TOUCHES,      /* writes the row of who is not there */
    NOT_A_NUMBER, /* as an observation */
    BAD_CONTEXT,
    RICH,    /* a reward above the range */
    FORBIDS, /* everything */
    LATE,    /* truncates a step too late */
    READS,   /* actions of the absent */
    TAKES,   /* an action that is no choice */
    MOVES,   /* when it refuses */
    NOBODY,  /* is live after a reset */
    FAILS,   /* to step */
    NAMELESS,
    FAULTS
};

#define AGENTS 3u
#define STEPS  6u

static const struct aw_space_axis axes[2] = {{"x", "", -10, 10}, {"y", "", -10, 10}};

struct fake {
    enum fault fault;
    struct aw_parallel_spec spec;
    struct aw_rng rng;
    uint32_t steps, episodes;
    uint8_t here[AGENTS];
    float sum;
};

static void show(struct fake *f, uint32_t i, uint8_t flags, struct aw_parallel_rows *rows)
{
    rows->flags[i] = flags;
    rows->obs[i] = f->fault == NOT_A_NUMBER && f->steps == 2 ? NAN : fmodf(f->sum, 10);
    rows->context[i] = f->fault == BAD_CONTEXT ? 11 : 0;
    rows->allowed[2 * i] = f->fault != FORBIDS;
    rows->allowed[2 * i + 1] = 0;
    rows->reward[i] = flags & AW_PARALLEL_JOINED ? 0 : f->fault == RICH ? 2 : 1;
    if (f->fault == TOUCHES)
        rows->obs[2] = 1;
}

static enum aw_err fake_reset(void *self, uint64_t seed, struct aw_parallel_rows *rows)
{
    struct fake *f = self;
    aw_rng_init(&f->rng, f->fault == SAME ? 0 : seed + (f->fault == LEAKS ? f->episodes : 0), 0);
    f->episodes++;
    f->steps = 0;
    f->sum = (float)aw_rng_uniform(&f->rng, -1, 1);
    memset(rows->flags, 0, AGENTS);
    memcpy(f->here, (uint8_t[]){1, 1, 0}, AGENTS);
    for (uint32_t i = 0; i < 2; i++)
        show(f, i, f->fault == NOBODY ? 0 : AW_PARALLEL_LIVE | AW_PARALLEL_JOINED, rows);
    return AW_OK;
}

static enum aw_err fake_step(void *self, const float *action, struct aw_parallel_rows *rows)
{
    struct fake *f = self;
    const bool over = f->steps + 1 == STEPS + (f->fault == LATE);
    if (f->fault == FAILS)
        return AW_ERR_DIVERGED;
    for (uint32_t i = 0; i < AGENTS; i++)
        if (f->here[i] && !aw_space_accepts(&f->spec.action, &action[i]) && f->fault != TAKES) {
            f->sum += f->fault == MOVES;
            return AW_ERR_RANGE;
        }
    f->steps++;
    f->sum += (float)aw_rng_uniform(&f->rng, 0, 1);
    if (f->fault == READS && !f->here[2])
        f->sum += isnan(action[2]) ? 1 : action[2];
    memset(rows->flags, 0, AGENTS);
    if (f->fault == OVERRUNS)
        rows->reward[AGENTS] = 0;
    for (uint32_t i = 0; i < AGENTS; i++)
        if (f->here[i] && !(f->fault == VANISHES && f->steps == 2 && i == 1))
            show(f, i, over ? AW_PARALLEL_TRUNCATED : AW_PARALLEL_LIVE, rows);
    if (f->steps == 2) { /* 1 goes and 2 comes */
        f->here[1] = 0;
        f->here[2] = 1;
        if (f->fault != VANISHES)
            show(f, 1, AW_PARALLEL_TERMINATED, rows);
        show(f, 2, f->fault == APPEARS ? AW_PARALLEL_LIVE : AW_PARALLEL_LIVE | AW_PARALLEL_JOINED,
             rows);
    }
    if (f->fault == REVIVES && f->steps == 4)
        show(f, 1, AW_PARALLEL_LIVE | AW_PARALLEL_JOINED, rows);
    return AW_OK;
}

static void fake_free(void *self)
{
    (void)self;
}

static const struct aw_parallel_ops fake_ops = {fake_reset, fake_step, fake_free};

static void fake_make(struct fake *f, enum fault fault, struct aw_parallel *env)
{
    *f = (struct fake){.fault = fault,
                       .spec = {.name = fault == NAMELESS ? "No Name" : "fake-v0",
                                .summary = "three agents",
                                .observation = {AW_SPACE_BOX, 1, 0, axes},
                                .context = {AW_SPACE_BOX, 1, 0, axes},
                                .action = {AW_SPACE_DISCRETE, 1, 2, axes},
                                .agents_max = AGENTS,
                                .episode_steps_max = STEPS,
                                .reward_low = 0,
                                .reward_high = 1}};
    *env = (struct aw_parallel){.spec = &f->spec, .ops = &fake_ops, .self = f};
}

static void the_checker_finds_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        enum fault fault;
        const char *rule; /* "": none */
    } cases[FAULTS] = {
        {NONE, ""},
        {LEAKS, "seed"},
        {SAME, "chance"},
        {REVIVES, "revived"},
        {VANISHES, "flags"},
        {APPEARS, "flags"},
        {OVERRUNS, "overrun"},
        {TOUCHES, "overrun"},
        {NOT_A_NUMBER, "observation"},
        {BAD_CONTEXT, "context"},
        {RICH, "reward"},
        {FORBIDS, "mask"},
        {LATE, "truncation"},
        {READS, "absent-action"},
        {TAKES, "action-refused"},
        {MOVES, "action-still"},
        {NOBODY, "reset"},
        {FAILS, "step"},
        {NAMELESS, "name"},
    };
    struct aw_parallel_finding findings[AW_PARALLEL_CHECK_RULES];
    struct aw_parallel env;
    struct fake fake;
    uint32_t count;
    for (size_t k = 0; k < FAULTS; k++) {
        fake_make(&fake, cases[k].fault, &env);
        assert_ok(aw_parallel_check(&env, 3, NULL, findings, &count));
        const char *found = count ? aw_parallel_check_rule_name(findings[0].rule) : "";
        if (strcmp(found, cases[k].rule) != 0)
            fail_msg("fault %zu: expected \"%s\", found \"%s\": %s", k, cases[k].rule, found,
                     count ? findings[0].text : "");
    }
}

/* ---- tenants-v0 ---- */

static void tenants_keep_the_contract(void **state)
{
    (void)state;
    static const char *const churn[] = {"agents=8", "agents_max=40", "joins=0.7", "leaves=0.05"};
    static const char *const paper[] = {"actions=steps", "paper=true", "alpha=0.3",
                                        "team_weight=1"};
    static const char *const steps[] = {"actions=steps", "agents=5", "offered=0.9"};
    static const char *const alone[] = {"agents=1", "load=independent", "episode_steps=7"};
    static const struct {
        const char *const *pairs;
        size_t count;
    } cases[] = {{NULL, 0}, {churn, 4}, {paper, 4}, {steps, 3}, {alone, 3}};
    struct aw_parallel_finding findings[AW_PARALLEL_CHECK_RULES];
    struct aw_diag diag = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct aw_parallel env = {0};
        uint32_t count = 0;
        if (aw_parallel_make("tenants-v0", cases[k].pairs, cases[k].count, NULL, &env, &diag))
            fail_msg("%s", diag.text);
        assert_ok(aw_parallel_check(&env, 1, NULL, findings, &count));
        if (count)
            fail_msg("case %zu: %s: %s", k, aw_parallel_check_rule_name(findings[0].rule),
                     findings[0].text);
        aw_parallel_free(&env);
    }
}

struct arrays {
    uint8_t flags[64], allowed[64 * 8];
    float obs[64 * AW_TEAM_LOCAL], context[64 * AW_TEAM_AUX], reward[64], action[64];
};

static struct aw_parallel_rows rows_of(struct arrays *a)
{
    return (struct aw_parallel_rows){a->flags, a->obs, a->context, a->allowed, a->reward};
}

static void functions_come_and_go_and_nobody_has_a_row_twice(void **state)
{
    (void)state;
    static const char *const pairs[] = {"agents=8", "agents_max=64", "joins=0.5", "leaves=0.05"};
    static struct arrays a;
    struct aw_parallel_rows rows = rows_of(&a);
    struct aw_parallel env = {0};
    uint32_t joined = 0, left = 0, cut = 0;
    uint8_t lives[64] = {0};
    assert_ok(aw_parallel_make("tenants-v0", pairs, 4, NULL, &env, NULL));
    assert_int_equal(env.spec->agents_max, 64);
    assert_ok(env.ops->reset(env.self, 5, &rows));
    for (uint32_t k = 0; k < env.spec->episode_steps_max; k++) {
        assert_ok(env.ops->step(env.self, a.action, &rows));
        for (uint32_t i = 0; i < 64; i++) {
            joined += (a.flags[i] & AW_PARALLEL_JOINED) != 0;
            left += (a.flags[i] & AW_PARALLEL_TERMINATED) != 0;
            cut += (a.flags[i] & AW_PARALLEL_TRUNCATED) != 0;
            lives[i] += (a.flags[i] & AW_PARALLEL_JOINED) != 0;
        }
    }
    assert_true(joined > 10);
    assert_true(left > 5);
    assert_int_equal(8 + joined, left + cut);
    for (uint32_t i = 0; i < 64; i++)
        assert_true(lives[i] <= 1);
    aw_parallel_free(&env);
}

static void a_reward_is_what_the_team_earned(void **state)
{
    (void)state;
    static const char *const pairs[] = {"team_weight=1"};
    static struct arrays a;
    struct aw_parallel_rows rows = rows_of(&a);
    struct aw_parallel env = {0};
    assert_ok(aw_parallel_make("tenants-v0", pairs, 1, NULL, &env, NULL));
    assert_ok(env.ops->reset(env.self, 5, &rows));
    for (uint32_t i = 0; i < 12; i++)
        a.action[i] = 6;
    assert_ok(env.ops->step(env.self, a.action, &rows));
    double sum = 0;
    for (uint32_t i = 0; i < 12; i++) { /* its own, from what it sees: 0.7 SLO + 0.3 CPU use */
        const float *x = a.obs + (size_t)i * AW_TEAM_LOCAL;
        sum += 0.7 * (double)x[0] + 0.3 * (double)x[1];
    }
    for (uint32_t i = 0; i < 12; i++)
        assert_close((double)a.reward[i], sum / 12, 1e-5);
    aw_parallel_free(&env);
}

static void nothing_allocates_after_make(void **state)
{
    (void)state;
    static const char *const pairs[] = {"agents_max=64", "joins=1", "leaves=0.05"};
    static struct arrays a;
    struct aw_parallel_rows rows = rows_of(&a);
    struct aw_alloc_counting counting;
    struct aw_parallel env = {0};
    aw_alloc_counting_init(&counting);
    assert_ok(aw_parallel_make("tenants-v0", pairs, 3, &counting.alloc, &env, NULL));
    const uint64_t made = counting.alloc_count;
    assert_ok(env.ops->reset(env.self, 1, &rows));
    for (uint32_t k = 0; k < 20; k++)
        assert_ok(env.ops->step(env.self, a.action, &rows));
    assert_int_equal(counting.alloc_count, made);
    aw_parallel_free(&env);
    assert_int_equal(counting.free_count, made);
    for (uint64_t n = 0; n < made; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        assert_int_equal(aw_parallel_make("tenants-v0", pairs, 3, &counting.alloc, &env, NULL),
                         AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

static void what_is_asked_wrongly_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name, *pair, *says;
    } cases[] = {{"tenant-v0", "agents=3", "there are: tenants-v0"},
                 {"tenants-v0", "agent=3", "agents"},
                 {"tenants-v0", "agents=0", "from 1 to"},
                 {"tenants-v0", "leaves=0.9", "from 0 to 0.5"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct aw_diag diag = {0};
        struct aw_parallel env = {0};
        assert_int_not_equal(aw_parallel_make(cases[k].name, &cases[k].pair, 1, NULL, &env, &diag),
                             AW_OK);
        if (!strstr(diag.text, cases[k].says))
            fail_msg("case %zu: %s", k, diag.text);
        assert_null(env.self);
    }
}

AW_TEST_GROUP("parallel")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checker_finds_what_is_wrong),
        cmocka_unit_test(tenants_keep_the_contract),
        cmocka_unit_test(functions_come_and_go_and_nobody_has_a_row_twice),
        cmocka_unit_test(a_reward_is_what_the_team_earned),
        cmocka_unit_test(nothing_allocates_after_make),
        cmocka_unit_test(what_is_asked_wrongly_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
