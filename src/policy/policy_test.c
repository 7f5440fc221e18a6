/* policy_test.c - one suite for every kind of policy. */
#include "policy/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "base/units.h"
#include "policy/capacity.h"
#include "policy/external.h"
#include "policy/network.h"

#define STEPS 300u

/* What a policy is made for, and a workload that it is shown. */
struct scene {
    struct aw_alloc_counting counting;
    struct aw_action action;
    struct aw_action_memory memory;
    struct aw_policy_task task;
    struct aw_reading reading;
    float obs[AW_STATE_DIM_MAX];
};

static void begin(struct scene *s)
{
    memset(s, 0, sizeof *s);
    aw_alloc_counting_init(&s->counting);
    const struct aw_bounds bounds = {.min = {1, 100, 64 * AW_MIB},
                                     .max = {20, 4000, 4096 * AW_MIB}};
    aw_action_init(&s->action, &(struct aw_action_config){.mapping = AW_ACTION_ANCHORED,
                                                          .bounds = bounds,
                                                          .window = 20,
                                                          .oom_steps = 100,
                                                          .deadband = 0.1,
                                                          .guard = true});
    aw_action_begin(&s->memory);
    s->task = (struct aw_policy_task){.need = {.bounds = bounds, .budget = 0.01},
                                      .action = &s->action,
                                      .state = AW_STATE_DEFAULT,
                                      .obs_dim = AW_STATE_DEFAULT_DIM,
                                      .hidden = 8,
                                      .strange = 4};
}

/* A step of a workload that breathes. */
static struct aw_policy_seen show(struct scene *s, uint32_t t)
{
    const double wave = 1 + 0.5 * sin(0.1 * t);
    s->reading = (struct aw_reading){.at_us = t * INT64_C(15000000),
                                     .replicas_wanted = 4,
                                     .replicas_ready = 4,
                                     .cpu_millicores_wanted = 1000,
                                     .memory_bytes_wanted = 1024 * AW_MIB,
                                     .allocated = {0, 4000, 4096.0 * AW_MIB},
                                     .cpu_cores_used = wave,
                                     .memory_bytes_used = 250.0 * AW_MIB * wave,
                                     .memory_bytes_peak = 300.0 * AW_MIB * wave,
                                     .arrivals_per_s = t % 50 == 49 ? NAN : 100 * wave,
                                     .completions_per_s = 100 * wave,
                                     .latency_us_slo = 1e5 * wave,
                                     .cpu_utilisation = 0.25 * wave,
                                     .memory_utilisation = 0.25 * wave};
    aw_action_observe(&s->action, &s->memory, &s->reading);
    for (uint32_t i = 0; i < s->task.obs_dim; i++)
        s->obs[i] = (float)(0.5 * sin(0.1 * t + i));
    return (struct aw_policy_seen){.reading = &s->reading,
                                   .action = &s->memory,
                                   .obs = s->obs,
                                   .latency_us_p50 = 5e4 * wave,
                                   .violated = t % 40 == 0,
                                   .acted = t > 0};
}

/* Lets an agent elsewhere answer, where the policy is one. */
static void answer(const struct aw_policy *policy, uint32_t t)
{
    struct aw_external *external = aw_external_of(policy);
    if (!external)
        return;
    struct aw_external_agent_settings settings;
    struct aw_external_agent_report report;
    aw_conf_defaults(aw_external_agent_fields, &settings);
    external->memory.heard = (struct aw_external_agent_answer){
        .agent = 7, .took_s = 0.1, .action = {0.1f, (float)sin(t), -0.2f}, .name = "x@1"};
    (void)aw_external_step(external, &settings, t * INT64_C(15000000), &report);
}

static void learn(const struct aw_policy *policy)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    assert_ok(policy->ops->draw(policy->self, &rng));
    answer(policy, 0);
    assert_true(policy->ops->learned(policy->self) != 0);
}

static bool ask(struct scene *s, const struct aw_policy *policy, uint32_t t,
                struct aw_policy_answer *ret)
{
    const struct aw_policy_seen seen = show(s, t);
    answer(policy, t);
    memset(ret, 0, sizeof *ret);
    return policy->ops->act(policy->self, &seen, ret);
}

#define EVERY_KIND(made, on)                                                                       \
    struct scene on;                                                                               \
    struct aw_policy made;                                                                         \
    for (uint32_t kind = 0; kind < AW_POLICY_KINDS; kind++)                                        \
        if (begin(&on),                                                                            \
            assert_ok(aw_policy_new(aw_policy_ops_of(kind), &on.task, &on.counting.alloc, &made)), \
            true)

static void no_slot_is_empty_and_every_kind_has_a_name(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < AW_POLICY_KINDS; kind++) {
        const struct aw_policy_ops *o = aw_policy_ops_of(kind);
        assert_true(o->new && o->free && o->bytes && o->act && o->observe && o->known &&
                    o->learned && o->distance && o->sees && o->draw && o->follow && o->adopt &&
                    o->fits && o->changed && o->layout && o->state_bytes && o->save && o->load &&
                    o->describe && o->read);
        assert_true(aw_policy_names[kind] && aw_policy_names[kind][0]);
    }
    assert_null(aw_policy_names[AW_POLICY_KINDS]);
}

static void who_has_learned_nothing_does_not_act(void **state)
{
    (void)state;
    EVERY_KIND(policy, s)
    {
        struct aw_policy_answer untouched = {0}, none = {0};
        const struct aw_policy_seen seen = show(&s, 0);
        assert_true(policy.ops->learned(policy.self) == 0);
        assert_false(policy.ops->act(policy.self, &seen, &none));
        assert_memory_equal(&none, &untouched, sizeof none);
        aw_policy_free(&policy);
        assert_int_equal(s.counting.alloc_count, s.counting.free_count);
    }
}

static void actions_are_finite_in_range_and_made_without_memory(void **state)
{
    (void)state;
    EVERY_KIND(policy, s)
    {
        learn(&policy);
        const uint64_t before = s.counting.alloc_count;
        for (uint32_t t = 0; t < STEPS; t++) {
            struct aw_policy_answer a;
            if (!ask(&s, &policy, t, &a))
                continue;
            for (uint32_t i = 0; i < AW_ACTION_DIM; i++)
                assert_true(a.action[i] >= -1 && a.action[i] <= 1);
            assert_true(a.plan.replicas >= 1 && a.plan.replicas <= 20);
            assert_true(a.plan.cpu_millicores >= 100 && a.plan.cpu_millicores <= 4000);
            assert_true(a.plan.memory_bytes >= 64 * AW_MIB && a.plan.memory_bytes <= 4096 * AW_MIB);
            const struct aw_policy_seen seen = show(&s, t);
            const double far = policy.ops->distance(policy.self, &seen);
            assert_true(isnan(far) || far >= 0);
            policy.ops->sees(policy.self, s.obs);
        }
        assert_int_equal(s.counting.alloc_count, before);
        assert_true(policy.ops->bytes(policy.self) > 0);
        aw_policy_free(&policy);
    }
}

static void what_is_saved_acts_the_same_when_it_is_loaded(void **state)
{
    (void)state;
    EVERY_KIND(policy, s)
    {
        struct scene other = s;
        struct aw_policy again;
        struct aw_policy_answer a, b;
        learn(&policy);
        for (uint32_t t = 0; t < STEPS / 2; t++)
            (void)ask(&s, &policy, t, &a);
        other.memory = s.memory;
        const size_t size = policy.ops->state_bytes(policy.self);
        unsigned char *bytes = malloc(size);
        assert_non_null(bytes);
        policy.ops->save(policy.self, bytes);
        assert_ok(aw_policy_new(policy.ops, &s.task, NULL, &again));
        assert_int_equal(again.ops->state_bytes(again.self), size);
        assert_ok(again.ops->load(again.self, bytes));
        assert_true(again.ops->learned(again.self) == policy.ops->learned(policy.self));
        for (uint32_t t = STEPS / 2; t < STEPS; t++) {
            assert_true(ask(&s, &policy, t, &a) == ask(&other, &again, t, &b));
            assert_memory_equal(&a, &b, sizeof a);
        }
        free(bytes);
        aw_policy_free(&again);
        aw_policy_free(&policy);
    }
}

/* The checksum finds accidents. Who writes a state with one is stopped by what it says. */
static void a_forged_state_of_an_external_agent_is_refused(void **state)
{
    (void)state;
    struct scene s;
    struct aw_policy policy;
    begin(&s);
    assert_ok(aw_policy_new(&aw_external_ops, &s.task, NULL, &policy));
    answer(&policy, 0);
    struct aw_external_memory sound, forged[10];
    assert_int_equal(policy.ops->state_bytes(policy.self), sizeof sound);
    policy.ops->save(policy.self, &sound);
    assert_ok(policy.ops->load(policy.self, &sound));
    for (uint32_t i = 0; i < 10; i++)
        forged[i] = sound;
    forged[0].agent.standing = AW_EXTERNAL_AGENT_STANDING_COUNT;
    forged[1].agent.shadow = 2;
    memset(forged[2].agent.name, 'x', sizeof sound.agent.name);
    forged[3].heard.fault = AW_EXTERNAL_AGENT_FAULT_COUNT;
    forged[4].heard.took_s = (double)NAN;
    forged[5].heard.action[1] = (float)INFINITY;
    forged[6].heard.action[0] = 1.5f;
    forged[7].heard.words.confidence = -1;
    memset(forged[8].heard.words.explanation, 'x', sizeof sound.heard.words.explanation);
    memset(forged[9].heard.name, 'x', sizeof sound.heard.name);
    for (uint32_t i = 0; i < 10; i++)
        if (policy.ops->load(policy.self, &forged[i]) != AW_ERR_FORMAT)
            fail_msg("forged state %u is taken", i);
    aw_policy_free(&policy);
}

static void a_description_is_never_empty_and_reads_back(void **state)
{
    (void)state;
    EVERY_KIND(policy, s)
    {
        struct aw_policy again;
        json_t *text = json_object();
        struct aw_diag diag = {0};
        learn(&policy);
        const uint64_t id = policy.ops->learned(policy.self);
        assert_int_equal(policy.ops->describe(policy.self, text), 0);
        assert_true(json_object_size(text) > 0);
        assert_ok(aw_policy_new(policy.ops, &s.task, NULL, &again));
        const enum aw_err err = again.ops->read(again.self, text, id, &diag);
        assert_int_equal(err, policy.ops->elsewhere ? AW_ERR_CONFIG : AW_OK);
        if (!err)
            assert_true(again.ops->learned(again.self) == id);
        assert_true(again.ops->read(again.self, text, id + 1, &diag) != AW_OK);
        assert_true(diag.text[0]);
        aw_policy_free(&again);
        json_decref(text);
        aw_policy_free(&policy);
    }
}

static void a_candidate_that_is_adopted_acts_as_it_did(void **state)
{
    (void)state;
    EVERY_KIND(policy, s)
    {
        struct aw_policy trial;
        struct aw_policy_answer a, b;
        learn(&policy);
        assert_ok(aw_policy_new(policy.ops, &s.task, NULL, &trial));
        assert_true(policy.ops->fits(policy.self, trial.self));
        learn(&trial);
        for (uint32_t t = 0; t < 20; t++) {
            const struct aw_policy_seen seen = show(&s, t);
            answer(&policy, t);
            answer(&trial, t);
            trial.ops->follow(trial.self, policy.self);
            (void)trial.ops->act(trial.self, &seen, &b);
            (void)policy.ops->act(policy.self, &seen, &a);
        }
        policy.ops->adopt(policy.self, trial.self);
        assert_true(policy.ops->learned(policy.self) == trial.ops->learned(trial.self));
        const struct aw_policy_seen seen = show(&s, 20);
        answer(&policy, 20);
        answer(&trial, 20);
        trial.ops->follow(trial.self, policy.self);
        assert_true(trial.ops->act(trial.self, &seen, &b) ==
                    policy.ops->act(policy.self, &seen, &a));
        assert_memory_equal(&a.plan, &b.plan, sizeof a.plan);
        aw_policy_free(&trial);
        aw_policy_free(&policy);
    }
}

static void want_of_memory_is_said_and_leaves_nothing(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < AW_POLICY_KINDS; kind++) {
        struct scene s;
        struct aw_policy policy = {0};
        enum aw_err err = AW_ERR_NOMEM;
        for (uint64_t n = 0; err; n++) {
            begin(&s);
            s.counting.fail_after = n;
            err = aw_policy_new(aw_policy_ops_of(kind), &s.task, &s.counting.alloc, &policy);
            if (err) {
                assert_int_equal(err, AW_ERR_NOMEM);
                assert_null(policy.self);
                assert_int_equal(s.counting.alloc_count, s.counting.free_count);
            }
        }
        aw_policy_free(&policy);
        assert_int_equal(s.counting.alloc_count, s.counting.free_count);
    }
}

AW_TEST_GROUP("policy")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_slot_is_empty_and_every_kind_has_a_name),
        cmocka_unit_test(who_has_learned_nothing_does_not_act),
        cmocka_unit_test(actions_are_finite_in_range_and_made_without_memory),
        cmocka_unit_test(what_is_saved_acts_the_same_when_it_is_loaded),
        cmocka_unit_test(a_forged_state_of_an_external_agent_is_refused),
        cmocka_unit_test(a_description_is_never_empty_and_reads_back),
        cmocka_unit_test(a_candidate_that_is_adopted_acts_as_it_did),
        cmocka_unit_test(want_of_memory_is_said_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
