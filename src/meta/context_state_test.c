/* context_state_test.c - what is saved goes on with the same bytes; a reader sees what acting sees.
 */
#include "meta/context_testing.h"

static char path[] = "/tmp/aware-state-XXXXXX";

static void learn(struct toy *toy, uint32_t updates)
{
    for (uint32_t i = 0; i < updates; i++)
        assert_ok(aw_context_learn(toy->context, NULL));
}

static void a_learner_goes_on_from_its_state_with_the_same_bytes(void **state)
{
    (void)state;
    for (uint32_t kind = AW_ENCODER_POOL; kind <= AW_ENCODER_GRU; kind++) {
        struct toy toy, other;
        uint64_t own[3] = {7, UINT64_MAX, 0}, found[3] = {0};
        begin(&toy, kind, 5);
        learn(&toy, 20);
        aw_context_keep(toy.context);
        const uint64_t kept = aw_context_checksum(toy.context);
        learn(&toy, 5);
        aw_context_teach(toy.context, 3, (const float[]){0.5f});
        assert_ok(aw_context_save_state(toy.context, path, "a 1\nb 2\n", own, 3, NULL));
        begin(&other, kind, 5);
        assert_ok(aw_context_load_state(other.context, path, "a 1\nb 2\n", found, 3, NULL));
        assert_memory_equal(own, found, sizeof own);
        learn(&toy, 30);
        learn(&other, 30);
        assert_true(aw_context_checksum(toy.context) == aw_context_checksum(other.context));
        assert_true(aw_context_recall(other.context));
        assert_true(aw_context_checksum(other.context) == kept);
        aw_context_free(other.context);
        aw_context_free(toy.context);
    }
}

static void what_a_loaded_learner_is_held_to_goes_on_with_it(void **state)
{
    (void)state;
    struct aw_context_config config;
    struct toy toy, other;
    uint64_t own[1] = {7}, found[1];
    toy_config(&config, AW_ENCODER_POOL, 5);
    config.settings.anchor = 1;
    begin_with(&toy, &config);
    assert_ok(aw_context_save(toy.context, path, NULL, 0, NULL));
    assert_ok(aw_context_load(toy.context, path, NULL));
    learn(&toy, 25);
    assert_ok(aw_context_save_state(toy.context, path, "", own, 1, NULL));
    begin_with(&other, &config);
    assert_ok(aw_context_load_state(other.context, path, "", found, 1, NULL));
    learn(&toy, 30);
    learn(&other, 30);
    assert_true(aw_context_checksum(toy.context) == aw_context_checksum(other.context));
    aw_context_free(other.context);
    aw_context_free(toy.context);
}

static void a_state_about_something_else_is_refused_with_the_line(void **state)
{
    (void)state;
    struct toy toy;
    struct aw_diag diag = {0};
    uint64_t own = 1;
    begin(&toy, AW_ENCODER_POOL, 5);
    assert_ok(aw_context_save_state(toy.context, path, "a 1\nb 2\n", &own, 1, NULL));
    static const struct {
        const char *about, *said;
    } cases[] = {{"a 1\nb 3\n", "\"b 2\""}, {"a 1\n", "\"b 2\""}, {"a 1\nb 2\nc 4\n", "\"c 4\""}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(aw_context_load_state(toy.context, path, cases[i].about, &own, 1, &diag),
                         AW_ERR_FORMAT);
        if (!strstr(diag.text, cases[i].said))
            fail_msg("%s", diag.text);
    }
    /* as many numbers of the caller's as there were */
    assert_int_equal(aw_context_load_state(toy.context, path, "a 1\nb 2\n", &own, 0, &diag),
                     AW_ERR_FORMAT);
    assert_false(aw_context_recall(toy.context)); /* nothing was kept */
    aw_context_free(toy.context);
}

static void a_reader_embeds_and_acts_as_the_learner_does(void **state)
{
    (void)state;
    struct toy toy;
    struct aw_context_reader *reader = NULL;
    begin(&toy, AW_ENCODER_POOL, 6);
    learn(&toy, 10);
    assert_ok(aw_context_reader_new(toy.context, &reader));
    const uint32_t E = aw_context_config(toy.context)->settings.embedding;
    for (uint32_t w = 0; w < TASKS; w++) {
        const float obs = 0.25f;
        float read[AW_ENCODER_EMBEDDING_MAX], a, b;
        memcpy(read, aw_context_reader_embed(toy.context, reader, w), E * sizeof *read);
        assert_ok(aw_context_reader_act(toy.context, reader, w, &obs, &a));
        live(&toy, w, false); /* known by more now, and asked the other way round */
        memcpy(read, aw_context_embed(toy.context, w), E * sizeof *read);
        assert_ok(aw_context_act(toy.context, w, &obs, 0, &b));
        assert_memory_equal(read, aw_context_reader_embed(toy.context, reader, w),
                            E * sizeof *read);
        assert_ok(aw_context_reader_act(toy.context, reader, w, &obs, &a));
        assert_true(a == b);
    }
    const float odd = NAN;
    float action;
    assert_int_equal(aw_context_reader_act(toy.context, reader, 0, &odd, &action), AW_ERR_DIVERGED);
    aw_context_reader_free(reader);
    aw_context_free(toy.context);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct aw_context_config config;
    struct aw_alloc_counting counting;
    struct aw_context *context = NULL;
    aw_alloc_counting_init(&counting);
    aw_context_config_init(&config);
    config.obs_dim = config.act_dim = 1;
    config.steps = 5;
    config.workloads = 2;
    assert_ok(aw_context_new(&config, &counting.alloc, &context, NULL));
    const uint64_t held = counting.alloc_count - counting.free_count;
    enum aw_err err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err == AW_ERR_NOMEM; n++) {
        counting.fail_after = counting.alloc_count + n;
        err = aw_context_save_state(context, path, "", NULL, 0, NULL);
        assert_int_equal(counting.alloc_count - counting.free_count, held);
    }
    assert_ok(err);
    err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err == AW_ERR_NOMEM; n++) {
        counting.fail_after = counting.alloc_count + n;
        err = aw_context_load_state(context, path, "", NULL, 0, NULL);
        assert_int_equal(counting.alloc_count - counting.free_count, held);
    }
    assert_ok(err);
    struct aw_context_reader *reader = NULL;
    err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err == AW_ERR_NOMEM; n++) {
        counting.fail_after = counting.alloc_count + n;
        err = aw_context_reader_new(context, &reader);
    }
    assert_ok(err);
    aw_context_reader_free(reader);
    aw_context_free(context);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

static int set_up(void **state)
{
    (void)state;
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

AW_TEST_GROUP("context-state")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_learner_goes_on_from_its_state_with_the_same_bytes),
        cmocka_unit_test(what_a_loaded_learner_is_held_to_goes_on_with_it),
        cmocka_unit_test(a_state_about_something_else_is_refused_with_the_line),
        cmocka_unit_test(a_reader_embeds_and_acts_as_the_learner_does),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
