/* cache_test.c - the table of items against a naive one. */
#include "kube/cache.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"

static enum aw_err put(struct aw__kube_cache *cache, const char *key, const char *version,
                       const char *data)
{
    const struct aw_kube_item item = {key, "uid", version, data, strlen(data) + 1};
    struct aw__kube_item *fresh, *old = NULL;
    enum aw_err err = aw__kube_cache_put(cache, &item, 1, &fresh, &old);
    if (!err)
        aw__kube_item_free(cache, old);
    return err;
}

#define KEYS 300

static void it_holds_what_a_naive_table_holds(void **state)
{
    struct aw__kube_cache cache;
    struct aw_rng rng;
    int held[KEYS] = {0};
    uint32_t count = 0;
    (void)state;
    aw_rng_init(&rng, 3, 0);
    assert_ok(aw__kube_cache_init(&cache, KEYS, 1 << 20, NULL));
    for (int i = 1; i <= 20000; i++) {
        const uint32_t k = aw_rng_below(&rng, KEYS);
        char key[32], data[32];
        snprintf(key, sizeof key, "ns/%u", k);
        snprintf(data, sizeof data, "%d", i);
        struct aw__kube_item *item = aw__kube_cache_find(&cache, key);
        assert_int_equal(item != NULL, held[k] != 0);
        if (item && aw_rng_below(&rng, 2)) {
            aw__kube_cache_take(&cache, item);
            aw__kube_item_free(&cache, item);
            held[k] = 0;
            count--;
        } else {
            assert_ok(put(&cache, key, "1", data));
            count += held[k] == 0;
            held[k] = i;
        }
        assert_int_equal(cache.places.count, count);
    }
    for (uint32_t k = 0; k < KEYS; k++) {
        char key[32], data[32];
        snprintf(key, sizeof key, "ns/%u", k);
        snprintf(data, sizeof data, "%d", held[k]);
        const struct aw__kube_item *item = aw__kube_cache_find(&cache, key);
        if (held[k])
            assert_string_equal(item->view.data, data);
        else
            assert_null(item);
    }
    aw__kube_cache_deinit(&cache);
    aw__kube_cache_deinit(&cache);
}

static void it_never_grows_beyond_its_maximum(void **state)
{
    struct aw__kube_cache cache;
    char long_text[600];
    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    assert_ok(aw__kube_cache_init(&cache, 2, 1000, NULL));
    assert_ok(put(&cache, "a", "1", "x"));
    assert_ok(put(&cache, "b", "1", "x"));
    assert_int_equal(put(&cache, "c", "1", "x"), AW_ERR_LIMIT); /* objects */
    assert_ok(put(&cache, "a", "2", long_text));
    assert_int_equal(put(&cache, "b", "2", long_text), AW_ERR_LIMIT); /* bytes */
    assert_string_equal(aw__kube_cache_find(&cache, "b")->view.resource_version, "1");
    assert_true(cache.bytes <= 1000);
    aw__kube_cache_deinit(&cache);
}

static void without_memory_nothing_changes(void **state)
{
    struct aw_alloc_counting counting;
    struct aw__kube_cache cache;
    (void)state;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw__kube_cache_init(&cache, 2, 1000, &counting.alloc), AW_ERR_NOMEM);
    aw__kube_cache_deinit(&cache);
    counting.fail_after = 2;
    assert_ok(aw__kube_cache_init(&cache, 2, 1000, &counting.alloc));
    assert_ok(put(&cache, "a", "1", "x"));
    assert_int_equal(put(&cache, "a", "2", "y"), AW_ERR_NOMEM);
    assert_string_equal(aw__kube_cache_find(&cache, "a")->view.data, "x");
    aw__kube_cache_deinit(&cache);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

AW_TEST_GROUP("kube-cache")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_holds_what_a_naive_table_holds),
        cmocka_unit_test(it_never_grows_beyond_its_maximum),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
