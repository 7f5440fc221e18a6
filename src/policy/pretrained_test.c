/* pretrained_test.c - a model becomes the policy of a workload, or is refused. */
#include "policy/pretrained_testing.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"

static char folder[] = "/tmp/aware-pretrained-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/" AW_MODEL_SHELF_FILE, folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* `count` episodes of a made-up workload, told to both. */
static void show(struct aw_context *context, struct aw_bundle *bundle, uint32_t count,
                 uint64_t seed)
{
    float obs[MODEL_STEPS * AW_STATE_DEFAULT_DIM], action[MODEL_STEPS * AW_ACTION_DIM];
    float reward[MODEL_STEPS];
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    for (uint32_t e = 0; e < count; e++) {
        const uint32_t steps = MODEL_STEPS - e; /* of different lengths */
        for (size_t i = 0; i < sizeof obs / sizeof *obs; i++)
            obs[i] = (float)aw_rng_uniform(&rng, -1, 1);
        for (size_t i = 0; i < sizeof action / sizeof *action; i++)
            action[i] = (float)aw_rng_uniform(&rng, -1, 1);
        for (uint32_t i = 0; i < MODEL_STEPS; i++)
            reward[i] = (float)aw_rng_uniform(&rng, -0.2, 0.2);
        if (context)
            assert_true(aw_context_episode(context, 0, obs, action, reward, steps));
        assert_true(aw_bundle_add(bundle, obs, action, reward, steps));
    }
}

static struct aw_pretrained *open_model(void)
{
    struct aw_pretrained *model = NULL;
    struct aw_diag diag = {0};
    if (aw_pretrained_open(path, NULL, &model, &diag))
        fail_msg("%s", diag.text);
    return model;
}

static void actor_new(struct aw_actnet *actor, uint32_t hidden)
{
    assert_ok(aw_actnet_init(
        actor, &(struct aw_actnet_shape){AW_STATE_DEFAULT_DIM, AW_ACTION_DIM, hidden}, NULL));
}

static void the_folded_policy_acts_as_the_model_does(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {AW_ENCODER_POOL, AW_ENCODER_GRU};
    for (uint32_t k = 0; k < 2; k++) {
        struct aw_context *context = model_new(kinds[k], 16);
        struct aw_bundle bundle;
        struct aw_actnet actor;
        struct aw_rng rng;
        model_write(context, path);
        struct aw_pretrained *model = open_model();
        assert_int_equal(aw_pretrained_info(model)->episodes, 3);
        assert_int_equal(aw_pretrained_info(model)->steps, MODEL_STEPS);
        assert_string_equal(aw_pretrained_info(model)->name, "default");
        assert_true(aw_pretrained_info(model)->checksum == aw_context_checksum(context));
        assert_ok(aw_pretrained_bundle_init(model, NULL, &bundle));
        show(context, &bundle, 5, 7); /* more than it keeps: both keep the latest */
        actor_new(&actor, 16);
        assert_ok(aw_pretrained_specialise(model, &bundle, NULL, &actor, NULL));
        aw_rng_init(&rng, 11, k);
        double spread = 0;
        for (uint32_t i = 0; i < 200; i++) {
            float obs[AW_STATE_DEFAULT_DIM], ours[AW_ACTION_DIM], theirs[AW_ACTION_DIM];
            for (uint32_t j = 0; j < AW_STATE_DEFAULT_DIM; j++)
                obs[j] = (float)aw_rng_uniform(&rng, -3, 3);
            assert_ok(aw_actnet_act(&actor, obs, ours));
            assert_ok(aw_context_act(context, 0, obs, 0, theirs));
            for (uint32_t a = 0; a < AW_ACTION_DIM; a++) {
                assert_close((double)ours[a], (double)theirs[a], 2e-6);
                spread = fmax(spread, fabs((double)ours[a]));
            }
        }
        assert_true(spread > 1e-4); /* there was something to be equal about */
        aw_actnet_deinit(&actor);
        aw_bundle_deinit(&bundle);
        aw_pretrained_close(model);
        aw_context_free(context);
    }
}

static void another_workload_gets_another_policy(void **state)
{
    (void)state;
    struct aw_context *context = model_new(AW_ENCODER_POOL, 16);
    struct aw_bundle bundle;
    struct aw_actnet actor;
    uint64_t id[3];
    model_write(context, path);
    struct aw_pretrained *model = open_model();
    assert_ok(aw_pretrained_bundle_init(model, NULL, &bundle));
    actor_new(&actor, 16);
    assert_int_equal(aw_pretrained_specialise(model, &bundle, NULL, &actor, NULL), AW_ERR_NODATA);
    assert_true(actor.id == 0);
    for (uint32_t i = 0; i < 3; i++) {
        aw_bundle_clear(&bundle);
        show(NULL, &bundle, 1, i % 2);
        assert_ok(aw_pretrained_specialise(model, &bundle, NULL, &actor, NULL));
        id[i] = actor.id;
    }
    assert_true(id[0] != id[1]);
    assert_true(id[0] == id[2]);
    aw_actnet_deinit(&actor);
    aw_bundle_deinit(&bundle);
    aw_pretrained_close(model);
    aw_context_free(context);
}

static void rewards_are_read_as_they_were_taught(void **state)
{
    (void)state;
    struct aw_context *context = model_new(AW_ENCODER_POOL, 8);
    model_write(context, path);
    struct aw_pretrained *model = open_model();
    /* (0.5 * 2 * SP + 0.5 * (cpu + memory) - 0.3 if missed - 1) * 0.1 */
    assert_close(aw_pretrained_reward(model, 1, 0.5, 0.7, false), 0.06, 1e-12);
    assert_close(aw_pretrained_reward(model, 0.5, 0.5, 0.7, true), -0.02, 1e-12);
    aw_pretrained_close(model);
    aw_context_free(context);
}

static void a_model_for_another_task_does_not_fit(void **state)
{
    (void)state;
    struct aw_context *context = model_new(AW_ENCODER_POOL, 8);
    struct aw_diag diag = {0};
    model_write(context, path);
    struct aw_pretrained *model = open_model();
    assert_ok(aw_pretrained_fits(model, AW_STATE_DEFAULT, AW_ACTION_ANCHORED, 8, &diag));
    assert_int_equal(aw_pretrained_fits(model, AW_STATE_PAPER, AW_ACTION_ANCHORED, 8, &diag),
                     AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "\"paper\""));
    assert_int_equal(aw_pretrained_fits(model, AW_STATE_DEFAULT, AW_ACTION_ABSOLUTE, 8, &diag),
                     AW_ERR_CONFIG);
    assert_int_equal(aw_pretrained_fits(model, AW_STATE_DEFAULT, AW_ACTION_ANCHORED, 64, &diag),
                     AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "8 units"));
    aw_pretrained_close(model);
    aw_context_free(context);
}

/* --- refused ---------------------------------------------------------------------------------- */

static void what_no_pilot_can_use_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *why, *key, *value;
        enum aw_err err;
        const char *says;
    } cases[] = {
        {"nobody says where", "env", NULL, AW_ERR_FORMAT, "does not say where"},
        {"another world", "env", "pendulum-v1", AW_ERR_UNSUPPORTED, "pendulum-v1"},
        {"the task has ten numbers", "env", "autoscale-paper-v0", AW_ERR_FORMAT, "19 states"},
        {"rewards that no store has", "env.options", "objective=constrained", AW_ERR_UNSUPPORTED,
         "the paper's reward"},
        {"the state is longer", "env.options", "objective=paper\nhistory=0\nhistory=2",
         AW_ERR_UNSUPPORTED, "longer state"},
        {"a forecast in the state", "pretrain.foresight", "true", AW_ERR_UNSUPPORTED,
         "longer state"},
        {"an option that is none", "env.options", "colour=red", AW_ERR_FORMAT, "colour=red"},
        {"a number that is none", "pretrain.reward_scale", "much", AW_ERR_FORMAT, "much"},
    };
    struct aw_context *context = model_new(AW_ENCODER_POOL, 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *meta[2 * MODEL_PAIRS + 2];
        size_t pairs = 0;
        for (size_t p = 0; p < MODEL_PAIRS; p++) {
            if (strcmp(model_meta[2 * p], cases[i].key) == 0)
                continue;
            meta[2 * pairs] = model_meta[2 * p];
            meta[2 * pairs++ + 1] = model_meta[2 * p + 1];
        }
        if (cases[i].value) {
            meta[2 * pairs] = cases[i].key;
            meta[2 * pairs++ + 1] = cases[i].value;
        }
        struct aw_pretrained *model = NULL;
        struct aw_diag diag = {0};
        assert_ok(aw_context_save(context, path, meta, pairs, NULL));
        const enum aw_err err = aw_pretrained_open(path, NULL, &model, &diag);
        if (err != cases[i].err || !strstr(diag.text, cases[i].says))
            fail_msg("%s: %s, \"%s\"", cases[i].why, aw_err_name(err), diag.text);
        assert_null(model);
    }
    aw_context_free(context);
}

static void no_damage_is_read_as_a_model(void **state)
{
    (void)state;
    struct aw_context *context = model_new(AW_ENCODER_POOL, 8);
    model_write(context, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char bytes[1 << 18];
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 1000 && size < sizeof bytes);
    for (size_t cut = 0; cut < size; cut += size / 37) {
        struct aw_pretrained *model = NULL;
        struct aw_diag diag = {0};
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, cut, file), cut);
        fclose(file);
        assert_int_not_equal(aw_pretrained_open(path, NULL, &model, &diag), AW_OK);
        assert_true(diag.text[0] != '\0');
    }
    /* one bit of a weight: the last four bytes belong to a tensor; and one that is no number */
    for (uint32_t no_number = 0; no_number < 2; no_number++) {
        struct aw_pretrained *model = NULL;
        struct aw_diag diag = {0};
        if (no_number)
            memset(bytes + size - 4, 0xff, 4);
        else
            bytes[size - 4] ^= 1;
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, size, file), size);
        fclose(file);
        assert_int_equal(aw_pretrained_open(path, NULL, &model, &diag), AW_ERR_FORMAT);
        assert_non_null(strstr(diag.text, "the file is damaged"));
    }
    aw_context_free(context);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct aw_context *context = model_new(AW_ENCODER_POOL, 8);
    model_write(context, path);
    struct aw_bundle bundle;
    struct aw_pretrained *whole = open_model();
    assert_ok(aw_pretrained_bundle_init(whole, NULL, &bundle));
    show(NULL, &bundle, 2, 1);
    bool done = false;
    for (uint64_t budget = 0; !done; budget++) {
        assert_true(budget < 200);
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        struct aw_pretrained *model = NULL;
        struct aw_actnet actor;
        actor_new(&actor, 8);
        enum aw_err err = aw_pretrained_open(path, &counting.alloc, &model, NULL);
        err = err ? err : aw_pretrained_specialise(model, &bundle, &counting.alloc, &actor, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_true((actor.id != 0) == (err == AW_OK));
        done = err == AW_OK;
        aw_actnet_deinit(&actor);
        aw_pretrained_close(model);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    aw_bundle_deinit(&bundle);
    aw_pretrained_close(whole);
    aw_context_free(context);
}

/* --- a shelf ---------------------------------------------------------------------------------- */

static void a_shelf_reads_each_model_once(void **state)
{
    (void)state;
    const char *const folders[] = {NULL, "", "/nowhere", folder};
    struct aw_context *context = model_new(AW_ENCODER_POOL, 8);
    struct aw_model_shelf *shelf = NULL;
    const struct aw_pretrained *first = NULL, *again = NULL, *by_path = NULL;
    struct aw_diag diag = {0};
    unlink(path);
    assert_ok(aw_model_shelf_new(folders, 4, NULL, &shelf, NULL));
    assert_int_equal(aw_model_shelf_get(shelf, AW_MODEL_SHELF_SHIPPED, &first, &diag),
                     AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, folder));
    assert_ok(aw_model_shelf_get(shelf, AW_MODEL_SHELF_NONE, &first, NULL));
    assert_null(first);
    model_write(context, path);
    assert_ok(aw_model_shelf_get(shelf, AW_MODEL_SHELF_SHIPPED, &first, &diag));
    assert_ok(aw_model_shelf_get(shelf, AW_MODEL_SHELF_SHIPPED, &again, &diag));
    assert_ok(aw_model_shelf_get(shelf, path, &by_path, &diag));
    assert_ptr_equal(first, again);
    assert_ptr_equal(first, by_path);
    assert_int_equal(aw_model_shelf_get(shelf, "/nowhere/m.safetensors", &again, &diag),
                     AW_ERR_NOTFOUND);
    assert_ptr_equal(first, again);
    aw_model_shelf_free(shelf);
    aw_context_free(context);
}

struct worker {
    const struct aw_pretrained *model;
    const struct aw_bundle *bundle;
    uint64_t id;
};

static void *work(void *ctx)
{
    struct worker *worker = ctx;
    struct aw_actnet actor;
    actor_new(&actor, 8);
    for (uint32_t i = 0; i < 20; i++)
        if (aw_pretrained_specialise(worker->model, worker->bundle, NULL, &actor, NULL))
            actor.id = 0;
    worker->id = actor.id;
    aw_actnet_deinit(&actor);
    return NULL;
}

static void pilots_share_one_model(void **state)
{
    (void)state;
    struct aw_context *context = model_new(AW_ENCODER_POOL, 8);
    struct aw_bundle bundle;
    struct worker worker[4];
    pthread_t thread[4];
    model_write(context, path);
    struct aw_pretrained *model = open_model();
    assert_ok(aw_pretrained_bundle_init(model, NULL, &bundle));
    show(NULL, &bundle, 3, 2);
    for (uint32_t i = 0; i < 4; i++) {
        worker[i] = (struct worker){model, &bundle, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(worker[i].id != 0 && worker[i].id == worker[0].id);
    aw_bundle_deinit(&bundle);
    aw_pretrained_close(model);
    aw_context_free(context);
}

AW_TEST_GROUP("pretrained")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_folded_policy_acts_as_the_model_does),
        cmocka_unit_test(another_workload_gets_another_policy),
        cmocka_unit_test(rewards_are_read_as_they_were_taught),
        cmocka_unit_test(a_model_for_another_task_does_not_fit),
        cmocka_unit_test(what_no_pilot_can_use_is_refused),
        cmocka_unit_test(no_damage_is_read_as_a_model),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_shelf_reads_each_model_once),
        cmocka_unit_test(pilots_share_one_model),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
