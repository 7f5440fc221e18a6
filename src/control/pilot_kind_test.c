/* pilot_kind_test.c - a kind of policy that no other file knows, in a pilot. */
#include "control/pilot_internal.h"

#include <math.h>
#include <string.h>

#include "control/pilot_testing.h"

/* --- a policy that holds what it has ---------------------------------------------------------- */

#define HOLDS 42u

struct hold {
    const struct aw_alloc *alloc;
    const struct aw_action *action;
    uint64_t asked, found; /* found: by its teacher; 0: nothing yet */
};

static enum aw_err hold_new(const struct aw_policy_task *task, const struct aw_alloc *alloc,
                            void **ret_self)
{
    struct hold *hold = aw_alloc_new(alloc, 1, sizeof *hold);
    if (!hold)
        return AW_ERR_NOMEM;
    *hold = (struct hold){.alloc = alloc, .action = task->action};
    *ret_self = hold;
    return AW_OK;
}

static void hold_free(void *self)
{
    struct hold *hold = self;
    aw_alloc_free(hold->alloc, hold);
}

static size_t hold_bytes(const void *self)
{
    (void)self;
    return sizeof(struct hold);
}

static bool hold_act(void *self, const struct aw_policy_seen *seen, struct aw_policy_answer *ret)
{
    struct hold *hold = self;
    hold->asked++;
    ret->plan = aw__pilot_whole(&(struct aw_plan){0}, seen->reading);
    aw_action_from_plan(hold->action, seen->action, &ret->plan, ret->action);
    return true;
}

static uint64_t hold_learned(const void *self)
{
    const struct hold *hold = self;
    return hold->found ? hold->found : HOLDS;
}

static double hold_distance(const void *self, const struct aw_policy_seen *seen)
{
    (void)self;
    (void)seen;
    return NAN;
}

static enum aw_err hold_draw(void *self, struct aw_rng *rng)
{
    (void)self;
    (void)rng;
    return AW_OK;
}

static void hold_adopt(void *self, const void *other)
{
    (void)self;
    (void)other;
}

static bool hold_fits(const void *self, const void *other)
{
    (void)self;
    (void)other;
    return true;
}

static uint64_t hold_layout(uint64_t hash)
{
    return hash;
}

static size_t hold_state_bytes(const void *self)
{
    (void)self;
    return sizeof(uint64_t);
}

static void hold_save(const void *self, void *bytes)
{
    memcpy(bytes, &((const struct hold *)self)->asked, sizeof(uint64_t));
}

static enum aw_err hold_load(void *self, const void *bytes)
{
    memcpy(&((struct hold *)self)->asked, bytes, sizeof(uint64_t));
    return AW_OK;
}

static int hold_describe(const void *self, json_t *policy)
{
    (void)self;
    return json_object_set_new(policy, "holds", json_true());
}

static enum aw_err hold_read(void *self, const json_t *policy, uint64_t id, struct aw_diag *diag)
{
    (void)self;
    return id == HOLDS && json_is_true(json_object_get(policy, "holds"))
               ? AW_OK
               : aw_fail(diag, AW_ERR_FORMAT, "not one that holds");
}

static const struct aw_policy_ops hold_ops = {
    .new = hold_new,
    .free = hold_free,
    .bytes = hold_bytes,
    .act = hold_act,
    .observe = aw_policy_observes_nothing,
    .known = aw_policy_unknown,
    .learned = hold_learned,
    .distance = hold_distance,
    .sees = aw_policy_sees_nothing,
    .draw = hold_draw,
    .follow = aw_policy_follows_nothing,
    .adopt = hold_adopt,
    .taught = hold_adopt,
    .fits = hold_fits,
    .changed = aw_policy_unchanged,
    .layout = hold_layout,
    .state_bytes = hold_state_bytes,
    .save = hold_save,
    .load = hold_load,
    .describe = hold_describe,
    .read = hold_read,
};

static void a_policy_of_another_file_acts_is_saved_and_is_asked_on(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.policy = &hold_ops;
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    for (uint32_t t = 0; t < 3 * EPISODE; t++) {
        const struct aw_decision *d = bench_tick(&b);
        if (d->actor != AW_ACTOR_AGENT)
            continue;
        assert_int_equal(d->policy_id, HOLDS);
        assert_int_equal(d->by_agent.replicas, d->reading.replicas_wanted);
        assert_int_equal(d->guard.plan.set, 0);
    }
    const struct hold *hold = b.pilot->policy.self;
    assert_int_equal(hold->asked, 3 * EPISODE);
    unsigned char *bytes = test_malloc(aw_pilot_state_bytes(b.pilot));
    aw_pilot_state_save(b.pilot, bytes);
    struct aw_pilot *again = NULL;
    assert_ok(aw_pilot_new(&b.config, &b.task, 0, &b.counting.alloc, &again, NULL));
    assert_ok(aw_pilot_state_load(again, bytes));
    assert_int_equal(((const struct hold *)again->policy.self)->asked, 3 * EPISODE);
    test_free(bytes);
    aw_pilot_free(again);
    bench_end(&b);
}

/* --- and learns ------------------------------------------------------------------------------- */

/* It takes its numbers from a library; this one has a single book. */
#define BOOK 43u

static bool hold_copies(const struct aw_learner_settings *settings, bool has_model)
{
    (void)settings;
    return has_model;
}

static enum aw_err hold_learn(struct aw_lesson *lesson, struct aw_diag *diag)
{
    (void)diag;
    assert_string_equal(lesson->workload, "test/app");
    assert_true(lesson->policy.ops == &hold_ops && lesson->alloc && !lesson->learner);
    if (!lesson->offline) {
        assert_true(lesson->tries);
        return AW_ERR_NODATA;
    }
    ((struct hold *)lesson->policy.self)->found = BOOK;
    lesson->better_mean = lesson->better_low = lesson->better_high = 1;
    lesson->learned.rounds++;
    return AW_OK;
}

static const struct aw_teacher_ops hold_teacher = {
    .learns = true, .copies = hold_copies, .learn = hold_learn};

static void a_kind_with_a_teacher_of_its_own_learns_and_takes_over(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.policy = &hold_ops;
    b.config.teacher = &hold_teacher;
    bench_begin(&b);
    b.pilot->memory.next_rows = 0; /* the first search is due */
    bench_until_it_acts(&b, 3);
    assert_int_equal(aw_pilot_decision(b.pilot)->policy_id, BOOK);
    assert_int_equal(aw_pilot_learned(b.pilot)->rounds, 1);
    assert_int_equal(b.pilot->memory.record.steps, 0); /* it makes no copies */
    bench_end(&b);
}

/* --- every kind ------------------------------------------------------------------------------- */

static void who_has_seen_nothing_learns_nothing_and_says_so(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < AW_POLICY_KINDS; kind++) {
        const struct aw_teacher_ops *teacher = aw_teacher_ops_of(kind);
        assert_true(teacher->copies && teacher->learn);
        assert_true(teacher->learns != aw_policy_ops_of(kind)->elsewhere);
        struct bench b;
        bench_prepare(&b);
        b.config.agent = kind;
        bench_begin(&b);
        const struct aw_policy *policy = &b.pilot->policy;
        const size_t size = policy->ops->state_bytes(policy->self);
        unsigned char *before = test_malloc(size), *after = test_malloc(size);
        struct aw_diag diag = {0};
        policy->ops->save(policy->self, before);
        assert_ok(aw_pilot_recall(b.pilot, NULL, &diag));
        assert_int_equal(aw_pilot_learn(b.pilot, &diag), AW_ERR_NODATA);
        assert_true(diag.text[0]);
        policy->ops->save(policy->self, after);
        assert_memory_equal(before, after, size);
        assert_null(b.pilot->trial.self);
        test_free(after);
        test_free(before);
        bench_end(&b);
    }
}

/* --- agents that learned together ------------------------------------------------------------- */

static void a_newcomer_acts_by_the_network_of_its_category_after_ten_minutes(void **state)
{
    (void)state;
    struct bench b;
    static struct aw_peers_model model;
    bench_prepare(&b);
    for (uint32_t c = 0; c < AW_PEERS_CATEGORIES; c++) {
        model.net[c].theta[AW_PEERS_THETA - AW_PEERS_CHOICES + 4] = 1; /* always a little more */
        for (uint32_t i = 0; i < AW_PEERS_STATE; i++)
            model.net[c].spread[i] = 1;
    }
    assert_ok(aw_peers_model_prepare(&model));
    b.config.agent = AW_POLICY_MULTI;
    b.config.peers = &model;
    bench_begin(&b);
    uint32_t first = 0;
    for (uint32_t t = 1; t <= 100 && !first; t++)
        first = bench_tick(&b)->actor == AW_ACTOR_AGENT ? t : 0;
    assert_true(first >= 40 && first <= 50);
    const struct aw_decision *d = aw_pilot_decision(b.pilot);
    assert_string_equal(d->origin.name, "multi");
    assert_true(d->origin.checksum == model.checksum);
    /* goes on after a restart without the file of its networks */
    unsigned char *bytes = test_malloc(aw_pilot_state_bytes(b.pilot));
    struct aw_pilot *again = NULL;
    aw_pilot_state_save(b.pilot, bytes);
    b.config.peers = NULL;
    assert_ok(aw_pilot_new(&b.config, &b.task, 0, &b.counting.alloc, &again, NULL));
    assert_ok(aw_pilot_state_load(again, bytes));
    assert_true(again->policy.ops->learned(again->policy.self) ==
                b.pilot->policy.ops->learned(b.pilot->policy.self));
    test_free(bytes);
    aw_pilot_free(again);
    bench_end(&b);
}

static void without_networks_it_learns_on_copies_and_takes_over(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.agent = AW_POLICY_MULTI;
    bench_begin(&b);
    bench_until_it_acts(&b, 3);
    assert_true(aw_pilot_learned(b.pilot)->rounds >= 1);
    assert_true(aw_pilot_learned(b.pilot)->copies >= 1);
    bench_end(&b);
}

AW_TEST_GROUP("pilot-kind")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_of_another_file_acts_is_saved_and_is_asked_on),
        cmocka_unit_test(a_kind_with_a_teacher_of_its_own_learns_and_takes_over),
        cmocka_unit_test(who_has_seen_nothing_learns_nothing_and_says_so),
        cmocka_unit_test(a_newcomer_acts_by_the_network_of_its_category_after_ten_minutes),
        cmocka_unit_test(without_networks_it_learns_on_copies_and_takes_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
