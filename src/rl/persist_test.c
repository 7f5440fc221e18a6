#include "rl/persist.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

/* A learner reduced to what is saved of it. */
struct thing {
    float weight[4];
    double moment[2];
    uint64_t counter;
    struct aw_rng rng;
    float rows[5][3];
    uint32_t row_count;
    uint64_t update_count;
    float rate;
};

static const struct aw_conf_field fields[] = {
    AW_CONF_ROW(struct thing, "rate", rate, "0.1", 0, 1, "How fast."),
    {.key = NULL},
};
static const float low[2] = {-1, 0.1f}, high[2] = {1, 7};
static const struct aw_agent_shape shape = {1, 3, AW_AGENT_CONTINUOUS, 2, 0, low, high};

static void list(struct aw_persist *persist, struct thing *thing, const char *algorithm)
{
    aw_persist_begin(persist, &(struct aw_persist_about){.algorithm = algorithm,
                                                         .shape = &shape,
                                                         .fields = fields,
                                                         .settings = thing,
                                                         .seed = UINT64_MAX,
                                                         .update_count = &thing->update_count});
    aw_persist_add(persist, AW_PERSIST_MODEL, "weight", AW_DTYPE_F32, 4, thing->weight);
    aw_persist_add(persist, AW_PERSIST_STATE, "moment", AW_DTYPE_F64, 2, thing->moment);
    aw_persist_add_u64(persist, "counter", &thing->counter);
    aw_persist_add_rng(persist, "rng", &thing->rng);
    aw_persist_add_rows(persist, AW_PERSIST_STATE, "rows", AW_DTYPE_F32, &thing->row_count, 5, 3,
                        thing->rows);
}

static struct thing example(void)
{
    struct thing thing = {
        .weight = {1, -0.0f, 3e-40f, 3.4e38f}, /* a zero with a sign and a denormal too */
        .moment = {1.0 / 3, -1e300},
        .counter = UINT64_MAX - 1,
        .rows = {{1, 2, 3}, {4, 5, 6}},
        .row_count = 2,
        .update_count = 12,
        .rate = 0.25f,
    };
    aw_rng_init(&thing.rng, 3, 4);
    return thing;
}

static char dir[128];

static int make_dir(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/aw-persist-XXXXXX", base ? base : "/tmp");
    return mkdtemp(dir) ? 0 : -1;
}

static const char *path_of(const char *file)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return path;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path_of("model.safetensors"));
    unlink(path_of("state.safetensors"));
    return rmdir(dir);
}

static void every_bit_comes_back(void **state)
{
    (void)state;
    struct aw_persist persist;
    struct thing thing = example(), back = {.row_count = 4, .rate = 0.25f, .update_count = 12};
    list(&persist, &thing, "thing");
    assert_ok(aw_persist_save(&persist, dir, true, NULL, NULL));
    list(&persist, &back, "thing");
    assert_ok(aw_persist_load(&persist, dir, true, NULL, NULL, NULL, NULL));
    assert_memory_equal(back.weight, thing.weight, sizeof thing.weight);
    assert_memory_equal(back.moment, thing.moment, sizeof thing.moment);
    assert_memory_equal(&back.rng, &thing.rng, sizeof thing.rng);
    assert_memory_equal(back.rows, thing.rows, sizeof thing.rows);
    assert_true(back.counter == thing.counter);
    assert_int_equal(back.row_count, 2);
}

static void the_model_alone_leaves_the_state_untouched(void **state)
{
    (void)state;
    struct aw_persist persist;
    struct thing thing = example(), back = {.counter = 7, .row_count = 1};
    list(&persist, &thing, "thing");
    assert_ok(aw_persist_save(&persist, dir, false, NULL, NULL));
    assert_int_equal(access(path_of("state.safetensors"), F_OK), -1);
    list(&persist, &back, "thing");
    assert_ok(aw_persist_load(&persist, dir, false, NULL, NULL, NULL, NULL));
    assert_memory_equal(back.weight, thing.weight, sizeof thing.weight);
    assert_true(back.counter == 7);
    assert_int_equal(back.row_count, 1);
}

static void the_metadata_say_how_it_was_made(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"algorithm", "thing"},        {"seed", "18446744073709551615"},
        {"update_count", "12"},        {"obs_dim", "3"},
        {"action", "continuous"},      {"act_dim", "2"},
        {"act_low", "-1,0.100000001"}, {"act_high", "1,7"},
    };
    struct aw_persist persist;
    struct thing thing = example();
    struct aw_safetensors *file = NULL;
    list(&persist, &thing, "thing");
    assert_ok(aw_persist_save(&persist, dir, false, NULL, NULL));
    assert_ok(aw_safetensors_open(path_of("model.safetensors"), NULL, &file, NULL));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const char *found = aw_safetensors_meta(file, expected[i][0]);
        assert_non_null(found);
        assert_string_equal(found, expected[i][1]);
    }
    assert_non_null(aw_safetensors_meta(file, "setting.rate"));
    assert_non_null(aw_safetensors_meta(file, "version"));
    aw_safetensors_close(file);
}

static void what_left_the_finite_numbers_is_not_written_over_a_good_save(void **state)
{
    (void)state;
    struct aw_persist persist;
    struct aw_diag diag = {0};
    struct thing thing = example(), back = {0};
    list(&persist, &thing, "thing");
    assert_ok(aw_persist_save(&persist, dir, true, NULL, NULL));
    thing.moment[1] = NAN;
    assert_int_equal(aw_persist_save(&persist, dir, true, NULL, &diag), AW_ERR_DIVERGED);
    assert_string_equal(diag.key, "moment");
    thing.moment[1] = -1e300;
    thing.weight[2] = INFINITY;
    assert_int_equal(aw_persist_save(&persist, dir, false, NULL, &diag), AW_ERR_DIVERGED);
    list(&persist, &back, "thing");
    assert_ok(aw_persist_load(&persist, dir, true, NULL, NULL, NULL, NULL));
    assert_true(back.moment[1] == -1e300);
}

static enum aw_err refuse(void *ctx, const struct aw_persist_found *found, struct aw_diag *diag)
{
    bool *asked = ctx;
    *asked = true;
    assert_int_equal(aw_persist_peek_rows(found, "rows"), 2);
    assert_true(((const float *)aw_persist_peek(found, "weight"))[0] == 1);
    assert_null(aw_persist_peek(found, "nothing"));
    return aw_fail(diag, AW_ERR_FORMAT, "not today");
}

static void a_refused_file_changes_nothing(void **state)
{
    (void)state;
    struct aw_persist persist;
    struct aw_diag diag = {0};
    struct thing thing = example(), back = {.counter = 7};
    const struct thing untouched = back;
    bool asked = false;
    list(&persist, &thing, "thing");
    assert_ok(aw_persist_save(&persist, dir, true, NULL, NULL));

    list(&persist, &back, "other");
    assert_int_equal(aw_persist_load(&persist, dir, true, NULL, NULL, NULL, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "expected other, found thing"));

    list(&persist, &back, "thing");
    assert_int_equal(aw_persist_load(&persist, dir, true, refuse, &asked, NULL, &diag),
                     AW_ERR_FORMAT);
    assert_true(asked);

    float extra = 0;
    aw_persist_add(&persist, AW_PERSIST_MODEL, "extra", AW_DTYPE_F32, 1, &extra);
    assert_int_equal(aw_persist_load(&persist, dir, true, NULL, NULL, NULL, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.key, "extra");

    list(&persist, &back, "thing");
    persist.part[0].shape[0] = 3;
    assert_int_equal(aw_persist_load(&persist, dir, true, NULL, NULL, NULL, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.key, "weight");
    list(&persist, &back, "thing");
    persist.part[4].shape[0] = 1; /* room for fewer rows than there are */
    assert_int_equal(aw_persist_load(&persist, dir, true, NULL, NULL, NULL, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.key, "rows");
    assert_memory_equal(&back, &untouched, sizeof back);
}

static void a_generator_of_zeros_is_refused(void **state)
{
    (void)state;
    struct aw_persist persist;
    struct aw_diag diag = {0};
    struct thing thing = example(), back = {.counter = 7};
    const struct thing untouched = back;
    memset(&thing.rng, 0, sizeof thing.rng);
    list(&persist, &thing, "thing");
    assert_ok(aw_persist_save(&persist, dir, true, NULL, NULL));
    list(&persist, &back, "thing");
    assert_int_equal(aw_persist_load(&persist, dir, true, NULL, NULL, NULL, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.key, "rng");
    assert_memory_equal(&back, &untouched, sizeof back);
}

static void missing_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    struct aw_persist persist;
    struct thing thing = example();
    struct aw_alloc_counting counting;
    list(&persist, &thing, "thing");
    for (int loading = 0; loading < 2; loading++) {
        for (uint64_t budget = 0;; budget++) {
            struct aw_diag diag = {0};
            aw_alloc_counting_init(&counting);
            counting.fail_after = budget;
            enum aw_err err =
                loading ? aw_persist_load(&persist, dir, true, NULL, NULL, &counting.alloc, &diag)
                        : aw_persist_save(&persist, dir, true, &counting.alloc, &diag);
            assert_int_equal(counting.alloc_count, counting.free_count);
            if (err == AW_OK) {
                assert_true(budget > 0);
                break;
            }
            assert_int_equal(err, AW_ERR_NOMEM);
            assert_true(budget < 1000);
        }
    }
}

AW_TEST_GROUP("persist")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_bit_comes_back, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(the_model_alone_leaves_the_state_untouched, make_dir,
                                        drop_dir),
        cmocka_unit_test_setup_teardown(the_metadata_say_how_it_was_made, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(
            what_left_the_finite_numbers_is_not_written_over_a_good_save, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(a_refused_file_changes_nothing, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(a_generator_of_zeros_is_refused, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(missing_memory_is_reported_and_nothing_leaks, make_dir,
                                        drop_dir),
    };
    return cmocka_run_group_tests_name("persist", tests, NULL, NULL);
}
