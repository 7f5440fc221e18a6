/* peers_test.c - agents that learned together: their networks, their file, how they begin. */
#include "policy/peers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "base/units.h"

/* Networks that know one choice each: that of `choice[category]`. */
static void model_make(struct aw_peers_model *model, const uint32_t choice[AW_PEERS_CATEGORIES])
{
    memset(model, 0, sizeof *model);
    for (uint32_t c = 0; c < AW_PEERS_CATEGORIES; c++) {
        model->net[c].theta[AW_PEERS_THETA - AW_PEERS_CHOICES + choice[c]] = 1;
        for (uint32_t i = 0; i < AW_PEERS_STATE; i++)
            model->net[c].spread[i] = 1;
        model->missed[c] = 0.01f * (float)(c + 1);
    }
    assert_ok(aw_peers_model_prepare(model));
}

static void the_last_bias_alone_decides_where_weights_are_none(void **state)
{
    (void)state;
    struct aw_peers_model model;
    model_make(&model, (const uint32_t[]){1, 5, 7});
    const float seen[AW_PEERS_STATE] = {1, 0.5f, -1};
    for (uint32_t c = 0; c < AW_PEERS_CATEGORIES; c++) {
        float worth[AW_PEERS_CHOICES];
        aw_peers_net_worth(&model.net[c], seen, worth);
        for (uint32_t i = 0; i < AW_PEERS_CHOICES; i++)
            assert_true(worth[i] == (i == ((const uint32_t[]){1, 5, 7})[c] ? 1.0f : 0.0f));
    }
}

/* By hand: one unit of each layer passes on what it sees, if that is positive. */
static void a_network_is_what_its_weights_say(void **state)
{
    (void)state;
    struct aw_peers_net net = {.theta = {0}};
    const uint32_t second = AW_PEERS_HIDDEN * (AW_PEERS_STATE + 1),
                   third = second + AW_PEERS_HIDDEN * (AW_PEERS_HIDDEN + 1);
    net.theta[2 * AW_PEERS_STATE + 4] = 3;           /* unit 2 of the first sees state 4 */
    net.theta[second + 5 * AW_PEERS_HIDDEN + 2] = 2; /* unit 5 of the second sees it */
    net.theta[third + 6 * AW_PEERS_HIDDEN + 5] = -1; /* choice 6 sees that */
    float worth[AW_PEERS_CHOICES], seen[AW_PEERS_STATE] = {0};
    seen[4] = 0.5f;
    aw_peers_net_worth(&net, seen, worth);
    assert_true(worth[6] == -3.0f && worth[5] == 0.0f);
    seen[4] = -0.5f;
    aw_peers_net_worth(&net, seen, worth);
    assert_true(worth[6] == 0.0f);
}

static void a_model_reads_back_and_every_damage_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-peers-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct aw_peers_model model, back;
    struct aw_diag diag = {0};
    model_make(&model, (const uint32_t[]){0, 3, 6});
    for (uint32_t c = 0; c < AW_PEERS_CATEGORIES; c++) /* what one has must not become another's */
        model.net[c].centre[1] = 0.25f * (float)c;
    assert_ok(aw_peers_model_prepare(&model));
    const struct aw_library_note note = {"command", "test"};
    assert_ok(aw_peers_model_save(&model, path, &note, 1, NULL, &diag));
    assert_ok(aw_peers_model_open(path, NULL, &back, &diag));
    assert_memory_equal(&model, &back, sizeof model);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -40, SEEK_END), 0);
    assert_int_equal(fputc(0x5a, file), 0x5a);
    assert_int_equal(fclose(file), 0);
    memset(&back, 7, sizeof back);
    assert_int_equal(aw_peers_model_open(path, NULL, &back, &diag), AW_ERR_FORMAT);
    assert_true(diag.text[0] && back.checksum == UINT64_C(0x0707070707070707));
    assert_int_equal(unlink(path), 0);
    model.net[1].theta[3] = NAN;
    assert_int_equal(aw_peers_model_prepare(&model), AW_ERR_DIVERGED);
}

/* --- a newcomer ------------------------------------------------------------------------------- */

struct scene {
    struct aw_peers_model model;
    struct aw_action action;
    struct aw_action_memory memory;
    struct aw_policy_task task;
    struct aw_policy policy;
    struct aw_reading reading;
    double median_us;
};

static void begin(struct scene *s, const uint32_t choice[AW_PEERS_CATEGORIES])
{
    const struct aw_bounds bounds = {.min = {1, 100, 64 * AW_MIB},
                                     .max = {40, 4000, 4096 * AW_MIB}};
    memset(s, 0, sizeof *s);
    model_make(&s->model, choice);
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
                                      .strange = 4,
                                      .slo = {.quantile = 0.99, .latency_us_p99 = 2e5},
                                      .step_s = 15,
                                      .peers = &s->model};
    s->median_us = 2.2e4; /* of which 20 ms are CPU: 100 requests/s on two cores */
    assert_ok(aw_policy_new(&aw_peers_ops, &s->task, NULL, &s->policy));
}

static struct aw_policy_seen show(struct scene *s, uint32_t t, bool violated, bool acted)
{
    s->reading = (struct aw_reading){.at_us = t * INT64_C(15000000),
                                     .replicas_wanted = 4,
                                     .replicas_ready = 4,
                                     .cpu_millicores_wanted = 1000,
                                     .memory_bytes_wanted = 1024 * AW_MIB,
                                     .allocated = {0, 4000, 4096.0 * AW_MIB},
                                     .cpu_cores_used = 2,
                                     .memory_bytes_used = 250.0 * AW_MIB,
                                     .memory_bytes_peak = 300.0 * AW_MIB,
                                     .arrivals_per_s = 100,
                                     .completions_per_s = 100,
                                     .in_flight = 3,
                                     .latency_us_slo = violated ? 4e5 : 1e5,
                                     .cpu_utilisation = 0.5,
                                     .memory_utilisation = 0.25};
    aw_action_observe(&s->action, &s->memory, &s->reading);
    return (struct aw_policy_seen){.reading = &s->reading,
                                   .action = &s->memory,
                                   .latency_us_p50 = s->median_us,
                                   .violated = violated,
                                   .acted = acted};
}

/* Steps until it has learned what it is; 0: never. */
static uint32_t until_known(struct scene *s)
{
    for (uint32_t t = 0; t < 100; t++) {
        const struct aw_policy_seen seen = show(s, t, false, false);
        s->policy.ops->observe(s->policy.self, &seen);
        if (s->policy.ops->learned(s->policy.self))
            return t + 1;
    }
    return 0;
}

static void a_newcomer_begins_with_the_network_of_its_category_after_ten_minutes(void **state)
{
    (void)state;
    static const struct {
        double median_us;
        enum aw_peers_category category;
        const char *why;
    } row[] = {
        {2.2e4, AW_PEERS_CPU, "a request is all CPU"},
        {9e4, AW_PEERS_IO, "a request waits for most of its time"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct scene s;
        struct aw_policy_answer answer;
        begin(&s, (const uint32_t[]){1, 4, 7});
        s.median_us = row[i].median_us;
        assert_int_equal(until_known(&s), 40); /* steps of 15 s: ten minutes */
        const struct aw_peers *peers = aw_peers_of(&s.policy);
        if (peers->memory.category != (uint32_t)row[i].category)
            fail_msg("%s: found %s", row[i].why, aw_peers_category_names[peers->memory.category]);
        const struct aw_policy_known *known = s.policy.ops->known(s.policy.self);
        assert_non_null(known);
        assert_true(known->checksum == s.model.checksum);
        const struct aw_policy_seen seen = show(&s, 50, false, true);
        assert_true(s.policy.ops->act(s.policy.self, &seen, &answer));
        assert_int_equal(peers->memory.chosen, ((const uint32_t[]){1, 4, 7})[row[i].category]);
        aw_policy_free(&s.policy);
    }
}

static void more_is_asked_for_by_larger_choices_and_leans(void **state)
{
    (void)state;
    int64_t replicas = 0;
    for (uint32_t choice = 0; choice < AW_PEERS_CHOICES; choice++) {
        struct scene s;
        struct aw_policy_answer answer = {0};
        begin(&s, (const uint32_t[]){choice, choice, choice});
        assert_true(until_known(&s) > 0);
        for (uint32_t t = 41; t < 60; t++) {
            const struct aw_policy_seen seen = show(&s, t, false, true);
            assert_true(s.policy.ops->act(s.policy.self, &seen, &answer));
        }
        assert_true(answer.plan.replicas >= replicas);
        replicas = answer.plan.replicas;
        aw_policy_free(&s.policy);
    }
    assert_true(replicas >= 8); /* 2 cores, times more than 2 for what is plain, times 2.3 */
}

static void missed_steps_make_it_lean_and_a_new_policy_is_named(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, (const uint32_t[]){3, 3, 3});
    assert_true(until_known(&s) > 0);
    const uint64_t first = s.policy.ops->learned(s.policy.self);
    const struct aw_peers *peers = aw_peers_of(&s.policy);
    for (uint32_t t = 41; t < 60; t++) {
        const struct aw_policy_seen seen = show(&s, t, true, true);
        s.policy.ops->observe(s.policy.self, &seen);
    }
    assert_int_equal(peers->memory.lean, 1);
    assert_true(s.policy.ops->learned(s.policy.self) != first);
    assert_int_equal(s.policy.ops->known(s.policy.self)->level, 1);
    for (uint32_t t = 60; t < 400; t++) {
        const struct aw_policy_seen seen = show(&s, t, true, true);
        s.policy.ops->observe(s.policy.self, &seen);
    }
    assert_int_equal(peers->memory.lean, AW_PEERS_LEAN_MAX);
    aw_policy_free(&s.policy);
}

static void states_are_finite_whatever_is_missing(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, (const uint32_t[]){3, 3, 3});
    struct aw_peers *peers = aw_peers_of(&s.policy);
    const double odd[] = {NAN, 0, -1, 1e300, INFINITY};
    for (uint32_t t = 0; t < 200; t++) {
        float seen[AW_PEERS_STATE];
        (void)show(&s, t, t % 3 == 0, true);
        double *const figure[] = {&s.reading.cpu_cores_used,    &s.reading.arrivals_per_s,
                                  &s.reading.completions_per_s, &s.reading.in_flight,
                                  &s.reading.latency_us_slo,    &s.reading.throttled_share,
                                  &s.reading.cpu_utilisation,   &s.reading.allocated[1]};
        *figure[t % 8] = odd[t / 8 % 5];
        aw_peers_see(peers, &s.reading, t % 3 == 0, seen);
        for (uint32_t i = 0; i < AW_PEERS_STATE; i++)
            if (!(fabsf(seen[i]) <= 2))
                fail_msg("state %u is %g in step %u", i, (double)seen[i], t);
    }
    aw_policy_free(&s.policy);
}

static void a_forged_state_is_refused(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, (const uint32_t[]){3, 3, 3});
    assert_true(until_known(&s) > 0);
    struct aw_peers_memory sound, forged[6];
    assert_int_equal(s.policy.ops->state_bytes(s.policy.self), sizeof sound);
    s.policy.ops->save(s.policy.self, &sound);
    assert_ok(s.policy.ops->load(s.policy.self, &sound));
    for (uint32_t i = 0; i < 6; i++)
        forged[i] = sound;
    forged[0].category = AW_PEERS_CATEGORIES + 1;
    forged[1].category = AW_PEERS_CATEGORIES; /* and yet it has learned something */
    forged[2].lean = AW_PEERS_LEAN_MAX + 1;
    forged[3].chosen = AW_PEERS_CHOICES;
    forged[4].rule.x[2] = 1.5;
    forged[5].net.theta[17] = INFINITY;
    for (uint32_t i = 0; i < 6; i++)
        if (s.policy.ops->load(s.policy.self, &forged[i]) != AW_ERR_FORMAT)
            fail_msg("forged state %u is taken", i);
    aw_policy_free(&s.policy);
}

AW_TEST_GROUP("peers")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_bias_alone_decides_where_weights_are_none),
        cmocka_unit_test(a_network_is_what_its_weights_say),
        cmocka_unit_test(a_model_reads_back_and_every_damage_is_refused),
        cmocka_unit_test(a_newcomer_begins_with_the_network_of_its_category_after_ten_minutes),
        cmocka_unit_test(more_is_asked_for_by_larger_choices_and_leans),
        cmocka_unit_test(missed_steps_make_it_lean_and_a_new_policy_is_named),
        cmocka_unit_test(states_are_finite_whatever_is_missing),
        cmocka_unit_test(a_forged_state_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
