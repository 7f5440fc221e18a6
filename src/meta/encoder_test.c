/* encoder_test.c - embeddings of bundles, and gradients against differences. */
#include "meta/encoder.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/testing.h"

#define OBS 4u
#define ACT 2u
#define IN  (OBS + ACT + 1)
#define T   6u
#define M   3u
#define W   2u

struct rig {
    struct aw_params params;
    struct aw_encoder encoder;
    struct aw_encoder_cache *cache;
    struct aw_bundle bundle[W];
    const struct aw_bundle *bundles[W];
};

static void fill(struct aw_bundle *bundle, uint32_t episodes, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    assert_ok(
        aw_bundle_init(bundle, &(struct aw_bundle_config){M, T, OBS, ACT, AW_BUNDLE_LATEST}, NULL));
    for (uint32_t e = 0; e < episodes; e++) {
        float obs[T * OBS], action[T * ACT], reward[T];
        for (uint32_t i = 0; i < T * OBS; i++)
            obs[i] = (float)aw_rng_normal(&rng);
        for (uint32_t i = 0; i < T * ACT; i++)
            action[i] = (float)aw_rng_normal(&rng);
        for (uint32_t i = 0; i < T; i++)
            reward[i] = (float)aw_rng_normal(&rng);
        assert_true(aw_bundle_add(bundle, obs, action, reward, T - e)); /* of different lengths */
    }
}

static void rig_open(struct rig *rig, uint32_t kind)
{
    const struct aw_encoder_config config = {kind, IN, 8, 8, 5};
    struct aw_rng rng;
    memset(rig, 0, sizeof *rig);
    aw_encoder_declare(&rig->encoder, &rig->params, "encoder", &config);
    assert_ok(aw_params_alloc(&rig->params, NULL));
    aw_rng_init(&rng, 3, 0);
    aw_encoder_init(&rig->encoder, rig->params.value, &rng);
    for (uint32_t i = 0; i < IN; i++) {
        rig->encoder.normal.mean[i] = 0.1f * (float)i;
        rig->encoder.normal.scale[i] = 0.5f + 0.1f * (float)i;
    }
    assert_ok(aw_encoder_cache_new(&rig->encoder, W, M, T, true, NULL, &rig->cache));
    fill(&rig->bundle[0], 3, 11);
    fill(&rig->bundle[1], 2, 12);
    rig->bundles[0] = &rig->bundle[0];
    rig->bundles[1] = &rig->bundle[1];
}

static void rig_close(struct rig *rig)
{
    aw_bundle_deinit(&rig->bundle[0]);
    aw_bundle_deinit(&rig->bundle[1]);
    aw_encoder_cache_free(rig->cache);
    aw_params_deinit(&rig->params);
}

static double loss(struct rig *rig, const float *theta, const float *weight)
{
    const float *e = aw_encoder_forward(&rig->encoder, theta, rig->bundles, W, rig->cache);
    double sum = 0;
    for (uint32_t i = 0; i < W * rig->encoder.config.embedding; i++)
        sum += (double)weight[i] * (double)e[i];
    return sum;
}

static void gradients_are_what_differences_say(void **state)
{
    (void)state;
    for (uint32_t kind = AW_ENCODER_POOL; kind <= AW_ENCODER_GRU; kind++) {
        struct rig rig;
        struct aw_rng rng;
        float weight[W * 5];
        rig_open(&rig, kind);
        aw_rng_init(&rng, 9, 0);
        for (uint32_t i = 0; i < W * 5; i++)
            weight[i] = (float)aw_rng_normal(&rng);
        loss(&rig, rig.params.value, weight);
        aw_params_zero_grad(&rig.params);
        aw_encoder_backward(&rig.encoder, rig.params.value, rig.cache, weight, rig.params.grad);
        float *moved = aw_alloc_new(NULL, rig.params.count, sizeof *moved);
        float *way = aw_alloc_new(NULL, rig.params.count, sizeof *way);
        assert_non_null(moved);
        assert_non_null(way);
        /* along each tensor by itself, so that a gradient which is missing cannot hide */
        for (uint32_t t = 0; t < rig.params.tensor_count; t++) {
            const struct aw_param *tensor = &rig.params.tensor[t];
            double along = 0;
            memset(way, 0, rig.params.count * sizeof *way);
            for (size_t i = 0; i < aw_param_size(tensor); i++) {
                way[tensor->offset + i] = (float)aw_rng_normal(&rng);
                along +=
                    (double)way[tensor->offset + i] * (double)rig.params.grad[tensor->offset + i];
            }
            double side[2];
            const float step = 2e-3f;
            for (uint32_t s = 0; s < 2; s++) {
                for (size_t i = 0; i < rig.params.count; i++)
                    moved[i] = rig.params.value[i] + (s ? step : -step) * way[i];
                side[s] = loss(&rig, moved, weight);
            }
            const double difference = (side[1] - side[0]) / (2 * (double)step);
            if (fabs(difference - along) > 2e-2 * fmax(0.1, fabs(along)))
                fail_msg("%s: %s: backward says %g, differences say %g",
                         aw_encoder_kind_names[kind], tensor->name, along, difference);
            assert_true(fabs(along) > 0);
        }
        aw_alloc_free(NULL, moved);
        aw_alloc_free(NULL, way);
        rig_close(&rig);
    }
}

static void workloads_of_one_forward_do_not_touch_each_other(void **state)
{
    (void)state;
    for (uint32_t kind = AW_ENCODER_POOL; kind <= AW_ENCODER_GRU; kind++) {
        struct rig rig;
        float both[W * 5];
        rig_open(&rig, kind);
        memcpy(both, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, W, rig.cache),
               sizeof both);
        for (uint32_t w = 0; w < W; w++) {
            const float *alone =
                aw_encoder_forward(&rig.encoder, rig.params.value, &rig.bundles[w], 1, rig.cache);
            for (uint32_t i = 0; i < 5; i++)
                assert_close((double)alone[i], (double)both[w * 5 + i], 1e-5);
        }
        rig_close(&rig);
    }
}

static void the_order_of_episodes_does_not_matter(void **state)
{
    (void)state;
    for (uint32_t kind = AW_ENCODER_POOL; kind <= AW_ENCODER_GRU; kind++) {
        struct rig rig;
        float before[5];
        rig_open(&rig, kind);
        struct aw_bundle *b = &rig.bundle[0];
        const size_t size = (size_t)T * IN;
        float swap[T * IN];
        memcpy(before,
               aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
               sizeof before);
        memcpy(swap, b->x, sizeof swap);
        memcpy(b->x, b->x + 2 * size, sizeof swap);
        memcpy(b->x + 2 * size, swap, sizeof swap);
        const uint32_t length = b->length[0];
        b->length[0] = b->length[2];
        b->length[2] = length;
        const float *after =
            aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache);
        for (uint32_t i = 0; i < 5; i++)
            assert_close((double)after[i], (double)before[i], 1e-5);
        rig_close(&rig);
    }
}

static void nothing_is_allocated_after_the_cache(void **state)
{
    (void)state;
    struct rig rig;
    struct aw_alloc_counting counting;
    rig_open(&rig, AW_ENCODER_GRU);
    aw_encoder_cache_free(rig.cache);
    aw_alloc_counting_init(&counting);
    assert_ok(aw_encoder_cache_new(&rig.encoder, W, M, T, true, &counting.alloc, &rig.cache));
    const uint64_t count = counting.alloc_count;
    const float weight[W * 5] = {1};
    loss(&rig, rig.params.value, weight);
    aw_encoder_backward(&rig.encoder, rig.params.value, rig.cache, weight, rig.params.grad);
    assert_int_equal(counting.alloc_count, count);
    rig_close(&rig);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

/* Every second step, from either end: their sums together are the sum over all. */
static void a_thinned_look_reads_the_steps_it_says(void **state)
{
    (void)state;
    struct rig rig;
    float all[5], even[5], far[5];
    rig_open(&rig, AW_ENCODER_POOL);
    memcpy(all, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
           sizeof all);
    aw_encoder_thin(rig.cache, 2, 0);
    memcpy(even, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
           sizeof even);
    for (uint32_t e = 0; e < 3; e++) /* what is not read does not matter */
        for (uint32_t t = 1; t < T; t += 2)
            rig.bundle[0].x[((size_t)e * T + t) * IN] += 1;
    memcpy(far, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
           sizeof far);
    assert_memory_equal(even, far, sizeof far);
    assert_memory_not_equal(all, even, sizeof all);
    aw_encoder_thin(rig.cache, 100, 99); /* beyond the end: the last step */
    (void)aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache);
    aw_encoder_thin(rig.cache, 1, 0);
    memcpy(far, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
           sizeof far);
    assert_memory_not_equal(all, far, sizeof far); /* now they do */
    rig_close(&rig);
}

/* Of three episodes every second: the first and the third, or the second. */
static void a_thinned_gru_reads_the_episodes_it_says(void **state)
{
    (void)state;
    struct rig rig;
    float all[5], ends[5], middle[5], again[5];
    rig_open(&rig, AW_ENCODER_GRU);
    memcpy(all, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
           sizeof all);
    aw_encoder_thin(rig.cache, 2, 0);
    memcpy(ends, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
           sizeof ends);
    aw_encoder_thin(rig.cache, 2, 1);
    memcpy(middle, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
           sizeof middle);
    assert_memory_not_equal(all, ends, sizeof all);
    assert_memory_not_equal(ends, middle, sizeof ends);
    for (uint32_t t = 0; t < T; t++)
        rig.bundle[0].x[((size_t)T + t) * IN] += 1; /* of the second */
    aw_encoder_thin(rig.cache, 2, 0);
    memcpy(again, aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache),
           sizeof again);
    assert_memory_equal(ends, again, sizeof again);
    aw_encoder_thin(rig.cache, 100, 99); /* more than there are: one of them */
    (void)aw_encoder_forward(&rig.encoder, rig.params.value, rig.bundles, 1, rig.cache);
    rig_close(&rig);
}

AW_TEST_GROUP("encoder")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_what_differences_say),
        cmocka_unit_test(workloads_of_one_forward_do_not_touch_each_other),
        cmocka_unit_test(the_order_of_episodes_does_not_matter),
        cmocka_unit_test(nothing_is_allocated_after_the_cache),
        cmocka_unit_test(a_thinned_look_reads_the_steps_it_says),
        cmocka_unit_test(a_thinned_gru_reads_the_episodes_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
