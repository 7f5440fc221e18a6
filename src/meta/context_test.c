/* context_test.c - the learner with context: bytes, files, freezing, memory. */
#include "meta/context_testing.h"
#include "meta/inference.h"

static void the_same_seed_gives_the_same_bytes_and_a_file_carries_everything(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-context-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct toy toy[2];
    for (uint32_t i = 0; i < 2; i++) {
        begin(&toy[i], AW_ENCODER_POOL, 3);
        for (uint32_t n = 0; n < 50; n++)
            assert_ok(aw_context_learn(toy[i].context, NULL));
    }
    assert_true(aw_context_checksum(toy[0].context) == aw_context_checksum(toy[1].context));
    assert_ok(aw_context_learn(toy[0].context, NULL));
    assert_true(aw_context_checksum(toy[0].context) != aw_context_checksum(toy[1].context));
    static const char *const meta[] = {"data", "toy"};
    assert_ok(aw_context_save(toy[0].context, path, meta, 1, NULL));
    assert_ok(aw_context_load(toy[1].context, path, NULL));
    assert_true(aw_context_checksum(toy[0].context) == aw_context_checksum(toy[1].context));
    for (uint32_t n = 0; n < 20; n++) {
        const float x = 0.1f * (float)n - 1;
        float a, b;
        assert_ok(aw_context_act(toy[0].context, TASKS, &x, 0, &a));
        assert_ok(aw_context_act(toy[1].context, TASKS, &x, 0, &b));
        assert_true(a == b);
    }
    struct aw_context_config config;
    assert_ok(aw_context_peek(path, &config, NULL, NULL));
    assert_int_equal(config.settings.embedding, 8);
    assert_int_equal(config.obs_dim, 1);
    for (uint32_t i = 0; i < 2; i++)
        aw_context_free(toy[i].context);
    unlink(path);
}

static void a_file_of_another_shape_or_a_damaged_one_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-context-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct toy pool, gru;
    struct aw_diag diag = {0};
    begin(&pool, AW_ENCODER_POOL, 3);
    begin(&gru, AW_ENCODER_GRU, 3);
    assert_ok(aw_context_save(pool.context, path, NULL, 0, NULL));
    const uint64_t before = aw_context_checksum(gru.context);
    assert_int_equal(aw_context_load(gru.context, path, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "another shape"));
    assert_int_equal(truncate(path, 2000), 0);
    assert_int_equal(aw_context_load(gru.context, path, &diag), AW_ERR_FORMAT);
    assert_true(aw_context_checksum(gru.context) == before);
    unlink(path);
    assert_int_equal(aw_context_load(gru.context, path, &diag), AW_ERR_NOTFOUND);
    aw_context_free(pool.context);
    aw_context_free(gru.context);
}

static void a_flipped_bit_is_not_taken_for_another_weight(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-context-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct toy toy;
    struct aw_diag diag = {0};
    begin(&toy, AW_ENCODER_POOL, 3);
    assert_ok(aw_context_save(toy.context, path, NULL, 0, NULL));
    const uint64_t before = aw_context_checksum(toy.context);
    close(fd);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    uint64_t header = 0;
    assert_int_equal(fread(&header, sizeof header, 1, file), 1);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long first = (long)(sizeof header + header), size = ftell(file);
    for (long at = first; at < size; at += (size - first) / 29) {
        for (uint32_t twice = 0; twice < 2; twice++) { /* there, and back */
            unsigned char byte = 0;
            assert_int_equal(fseek(file, at, SEEK_SET), 0);
            assert_int_equal(fread(&byte, 1, 1, file), 1);
            byte ^= 1; /* of a mantissa, or of an exponent: finite or not */
            assert_int_equal(fseek(file, at, SEEK_SET), 0);
            assert_int_equal(fwrite(&byte, 1, 1, file), 1);
            assert_int_equal(fflush(file), 0);
            struct aw_context_config config;
            struct aw_inference frozen;
            const enum aw_err expected = twice ? AW_OK : AW_ERR_FORMAT;
            assert_int_equal(aw_context_load(toy.context, path, &diag), expected);
            assert_true(aw_context_checksum(toy.context) == before);
            assert_int_equal(aw_context_peek(path, &config, NULL, NULL), expected);
            assert_int_equal(aw_inference_open(&frozen, path, NULL, NULL), expected);
            aw_inference_close(&frozen);
        }
        assert_non_null(strstr(diag.text, "the file is damaged"));
    }
    fclose(file);
    unlink(path);
    aw_context_free(toy.context);
}

static void frozen_means_frozen(void **state)
{
    (void)state;
    struct toy toy;
    begin(&toy, AW_ENCODER_POOL, 5);
    for (uint32_t n = 0; n < 20; n++)
        assert_ok(aw_context_learn(toy.context, NULL));
    float before[8];
    memcpy(before, aw_context_embed(toy.context, TASKS), sizeof before);
    aw_context_freeze(toy.context, true, true);
    const float x = 0.3f;
    float a, b;
    assert_ok(aw_context_act(toy.context, 0, &x, 0, &a));
    for (uint32_t n = 0; n < 20; n++)
        assert_ok(aw_context_learn(toy.context, NULL));
    assert_memory_equal(before, aw_context_embed(toy.context, TASKS), sizeof before);
    assert_ok(aw_context_act(toy.context, 0, &x, 0, &b));
    assert_true(a == b);
    aw_context_freeze(toy.context, true, false);
    for (uint32_t n = 0; n < 20; n++)
        assert_ok(aw_context_learn(toy.context, NULL));
    assert_memory_equal(before, aw_context_embed(toy.context, TASKS), sizeof before);
    assert_ok(aw_context_act(toy.context, 0, &x, 0, &b));
    assert_true(a != b);
    aw_context_free(toy.context);
}

static void nothing_is_allocated_after_new_and_nothing_is_learned_from_nothing(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw_context_config config;
    struct aw_context *context;
    aw_alloc_counting_init(&counting);
    aw_context_config_init(&config);
    config.obs_dim = 3;
    config.act_dim = 2;
    config.steps = 4;
    config.workloads = 2;
    config.settings.rows = 2;
    assert_ok(aw_context_new(&config, &counting.alloc, &context, NULL));
    const uint64_t count = counting.alloc_count;
    assert_int_equal(aw_context_learn(context, NULL), AW_ERR_NODATA);
    float obs[4 * 3] = {0.1f}, action[4 * 2] = {0.2f}, reward[4] = {1};
    assert_true(aw_context_episode(context, 0, obs, action, reward, 4));
    for (uint32_t t = 0; t < 3; t++)
        assert_ok(aw_context_push(context, 0, obs + 3 * t, action + 2 * t, 1, obs + 3 * t, false));
    assert_ok(aw_context_learn(context, NULL));
    obs[0] = NAN;
    assert_int_equal(aw_context_act(context, 0, obs, 0, action), AW_ERR_DIVERGED);
    assert_int_equal(aw_context_push(context, 0, obs, action, 1, obs, false), AW_ERR_DIVERGED);
    assert_int_equal(counting.alloc_count, count);
    aw_context_free(context);
    assert_int_equal(counting.alloc_count, counting.free_count);
    for (uint64_t n = 1; n < 200; n++) { /* every allocation may fail */
        aw_alloc_counting_init(&counting);
        counting.fail_after = n - 1;
        const enum aw_err err = aw_context_new(&config, &counting.alloc, &context, NULL);
        if (!err) {
            aw_context_free(context);
            return;
        }
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    fail_msg("it never succeeded");
}

static void a_learner_that_is_shown_no_context_does_not_know_one_workload_from_another(void **state)
{
    (void)state;
    struct toy toy;
    struct aw_context_config config;
    toy_config(&config, AW_ENCODER_POOL, 5);
    config.settings.to_actor = config.settings.to_critic = false;
    begin_with(&toy, &config);
    for (uint32_t n = 0; n < 30; n++)
        assert_ok(aw_context_learn(toy.context, NULL));
    const float x = 0.3f;
    float a, b;
    assert_ok(aw_context_act(toy.context, 0, &x, 0, &a));
    assert_ok(aw_context_act(toy.context, TASKS, &x, 0, &b));
    assert_true(a == b);
    const float *embedding = aw_context_embed(toy.context, 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(embedding[i] == 0);
    aw_context_free(toy.context);
}

/* A teacher says c_w; critics are not listened to. Tasks that were never taught profit. */
static void what_teachers_show_carries_over_to_workloads_never_taught(void **state)
{
    (void)state;
    struct toy toy;
    begin(&toy, AW_ENCODER_POOL, 9);
    struct aw_context_config config = *aw_context_config(toy.context);
    aw_context_free(toy.context);
    config.settings.improve = 0;
    config.settings.policy_delay = 1;
    assert_ok(aw_context_new(&config, NULL, &toy.context, NULL));
    for (uint32_t w = 0; w < TASKS + HELD; w++) {
        const float action = (float)toy.c[w];
        for (uint32_t e = 0; e < 3; e++)
            live(&toy, w, w < TASKS);
        if (w < TASKS)
            aw_context_teach(toy.context, w, &action);
    }
    assert_ok(aw_context_normalise(toy.context));
    for (uint32_t n = 0; n < 1500; n++)
        assert_ok(aw_context_learn(toy.context, NULL));
    double off = 0, without = 0;
    for (uint32_t w = TASKS; w < TASKS + HELD; w++) {
        const float x = 0;
        float a;
        assert_ok(aw_context_act(toy.context, w, &x, 0, &a));
        off += fabs((double)a - toy.c[w]) / HELD;
        without += fabs(toy.c[w]) / HELD;
    }
    assert_true(off < 0.5 * without);
    aw_context_free(toy.context);
}

struct partner {
    uint32_t calls;
    float scale;
};

static enum aw_err scaled(void *ctx, float *gradient, size_t count)
{
    struct partner *partner = ctx;
    partner->calls++;
    for (size_t i = 0; i < count; i++)
        gradient[i] *= partner->scale;
    return partner->calls < 5 ? AW_OK : AW_ERR_IO;
}

static void
learning_together_passes_every_gradient_on_and_stops_when_a_partner_is_lost(void **state)
{
    (void)state;
    struct toy alone, pair;
    struct partner partner = {.scale = 1};
    begin(&alone, AW_ENCODER_POOL, 5);
    begin(&pair, AW_ENCODER_POOL, 5);
    aw_context_together(pair.context, scaled, &partner);
    assert_ok(aw_context_learn(alone.context, NULL));
    assert_ok(aw_context_learn(pair.context, NULL)); /* critics and encoder */
    assert_int_equal(partner.calls, 2);
    assert_true(aw_context_checksum(alone.context) == aw_context_checksum(pair.context));
    partner.scale = 0;
    assert_int_equal(aw_context_learn(pair.context, NULL), AW_ERR_IO); /* the fifth: the encoder */
    assert_int_equal(partner.calls, 5);
    aw_context_free(alone.context);
    aw_context_free(pair.context);
}

/* How far the policy has gone from what was loaded, on average over states. */
static double gone(double anchor, const char *path)
{
    struct aw_context_config config;
    struct toy toy;
    float before[20];
    double sum = 0;
    toy_config(&config, AW_ENCODER_POOL, 9);
    config.settings.anchor = anchor;
    begin_with(&toy, &config);
    assert_ok(aw_context_save(toy.context, path, NULL, 0, NULL));
    assert_ok(aw_context_load(toy.context, path, NULL));
    aw_context_freeze(toy.context, true, false);
    for (uint32_t n = 0; n < 20; n++) {
        const float x = 0.1f * (float)n - 1;
        assert_ok(aw_context_act(toy.context, 0, &x, 0, &before[n]));
    }
    for (uint32_t n = 0; n < 800; n++)
        assert_ok(aw_context_learn(toy.context, NULL));
    for (uint32_t n = 0; n < 20; n++) {
        const float x = 0.1f * (float)n - 1;
        float a;
        assert_ok(aw_context_act(toy.context, 0, &x, 0, &a));
        sum += fabs((double)a - (double)before[n]) / 20;
    }
    aw_context_free(toy.context);
    return sum;
}

static void an_anchor_holds_what_was_loaded(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-context-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    const double loose = gone(0, path), held = gone(100, path);
    print_message("gone %.3f without an anchor, %.3f with one\n", loose, held);
    assert_true(held < 0.1 * loose);
    unlink(path);
}

static void an_actor_that_leans_does_what_was_loaded_and_a_little_more(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-context-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct toy toy;
    const float x = 0.3f;
    float loaded, learned, offset, upright;
    begin(&toy, AW_ENCODER_POOL, 9);
    assert_ok(aw_context_save(toy.context, path, NULL, 0, NULL));
    assert_ok(aw_context_load(toy.context, path, NULL));
    aw_context_freeze(toy.context, true, false);
    assert_ok(aw_context_act(toy.context, 0, &x, 0, &loaded));
    for (uint32_t n = 0; n < 50; n++)
        assert_ok(aw_context_learn(toy.context, NULL));
    assert_ok(aw_context_act(toy.context, 0, &x, 0, &learned));
    assert_true(learned != loaded);
    aw_context_offset(toy.context, &(double){0.25});
    assert_ok(aw_context_act(toy.context, 0, &x, 0, &offset));
    assert_close(atanh((double)offset), atanh((double)loaded) + 0.25, 1e-5);
    aw_context_offset(toy.context, &(double){0}); /* not on top of the offset before */
    assert_ok(aw_context_act(toy.context, 0, &x, 0, &upright));
    assert_true(upright == loaded);
    aw_context_free(toy.context);
    unlink(path);
}

AW_TEST_GROUP("context")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_bytes_and_a_file_carries_everything),
        cmocka_unit_test(a_file_of_another_shape_or_a_damaged_one_is_refused),
        cmocka_unit_test(a_flipped_bit_is_not_taken_for_another_weight),
        cmocka_unit_test(frozen_means_frozen),
        cmocka_unit_test(nothing_is_allocated_after_new_and_nothing_is_learned_from_nothing),
        cmocka_unit_test(
            a_learner_that_is_shown_no_context_does_not_know_one_workload_from_another),
        cmocka_unit_test(what_teachers_show_carries_over_to_workloads_never_taught),
        cmocka_unit_test(
            learning_together_passes_every_gradient_on_and_stops_when_a_partner_is_lost),
        cmocka_unit_test(an_anchor_holds_what_was_loaded),
        cmocka_unit_test(an_actor_that_leans_does_what_was_loaded_and_a_little_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
