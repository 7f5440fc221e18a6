/* workload_map_test.c - workloads find their places, a few at a time. */
#include "pretrain/workload_map.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "meta/similarity.h"
#include "pretrain/embed.h"
#include "pretrain/embed_testing.h"

#define COUNT    9u
#define ALONE    EPISODE_STEPS
#define AFTER    (AW_WORKLOAD_MAP_AGAIN_US + 1)
#define EVERYONE 1000u

static const char *const names[COUNT] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

static struct aw_workload_map *open_map(const struct embed_world *w, uint32_t left_out)
{
    struct aw_workload_map_workload workloads[COUNT];
    struct aw_workload_map *map = NULL;
    struct aw_diag diag = {0};
    for (uint32_t i = 0; i < COUNT; i++)
        workloads[i] = (struct aw_workload_map_workload){names[i], i == left_out};
    if (aw_workload_map_new(&(struct aw_workload_map_config){w->model, w->url, workloads, COUNT},
                            NULL, &map, &diag))
        fail_msg("%s", diag.text);
    return map;
}

static const struct aw_workload_map_point *point_of(const struct aw_workload_map_view *view,
                                                    const char *name)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (strcmp(view->points[i].name, name) == 0)
            return &view->points[i];
    return NULL;
}

static void a_workload_appears_once_its_first_episode_is_told(void **state)
{
    (void)state;
    struct embed_world w;
    struct aw_workload_map_view view;
    struct aw_workload_map_point one;
    embed_world_open(&w, AW_BUNDLE_LATEST, 40);
    struct aw_workload_map *map = open_map(&w, 2);
    assert_int_equal(aw_workload_map_work(map, 0, EVERYONE), 0);
    assert_ok(aw_workload_map_view(map, NULL, &view));
    assert_int_equal(view.count, 0);
    assert_int_equal(view.waiting, COUNT - 1);
    assert_int_equal(view.left_out, 1);
    assert_int_equal(view.dot_count, 40);
    assert_true(view.of_known && view.share[0] >= view.share[1] && view.share[1] > 0);
    aw_workload_map_view_deinit(&view, NULL);
    assert_int_equal(aw_workload_map_one(map, "b", &one), AW_ERR_NODATA);
    assert_int_equal(aw_workload_map_one(map, "nobody", &one), AW_ERR_NOTFOUND);

    aw_workload_map_tell(map, 1, 1); /* before its last row is kept */
    aw_workload_map_tell(map, 2, 1); /* has no place here */
    assert_int_equal(aw_workload_map_work(map, 0, EVERYONE), 1);
    assert_int_equal(aw_workload_map_one(map, "b", &one), AW_ERR_NODATA);
    episode_write(&w, "b", 0, 1, ALONE, NULL);
    episode_write(&w, "c", 0, 1, ALONE, NULL);
    assert_int_equal(aw_workload_map_work(map, AFTER, EVERYONE), 1);
    assert_ok(aw_workload_map_one(map, "b", &one));
    assert_string_equal(one.name, "b");
    assert_int_equal(one.episodes, 1);
    assert_true(one.by_fallback && one.quantile >= 0 && isfinite(one.x) && isfinite(one.y));
    assert_int_equal(one.near_count, AW_WORKLOAD_MAP_NEAR); /* known ones: it has no peers yet */
    assert_true(one.near[0].known && one.near[0].similarity >= one.near[1].similarity);
    assert_close(one.drop.value, 1.5 - one.near[0].similarity, 1e-9);
    assert_close(one.drop.deviation, 0.25, 1e-9);
    assert_true(isnan(one.adapt.value)); /* the model does not say */
    assert_int_equal(aw_workload_map_work(map, 2 * AFTER, EVERYONE), 0);
    aw_workload_map_free(map);
    embed_world_close(&w);
}

/* Every list against one that is made the slow way, from the embeddings of the store. */
static void assert_lists_exact(const struct embed_world *w, struct aw_workload_map *map)
{
    float embedding[COUNT][AW_EMBED_DIM_MAX];
    struct aw_embed *embed = NULL;
    struct aw_embed_from from;
    struct aw_workload_map_view view;
    struct aw_store store;
    assert_ok(aw_embed_open(w->model, NULL, &embed, NULL));
    assert_ok(
        aw_store_open(&store, w->url, &(struct aw_store_options){.read_only = true}, NULL, NULL));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(aw_embed_gather(embed, &store, names[i], AW_EMBED_ALL, &from, NULL));
        assert_ok(aw_embed_make(embed, embedding[i]));
    }
    assert_ok(aw_workload_map_view(map, NULL, &view));
    assert_int_equal(view.count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct aw_workload_map_point *point = point_of(&view, names[i]);
        double best[AW_WORKLOAD_MAP_NEAR];
        uint32_t found = 0, shown = 0;
        for (uint32_t k = 0; k < COUNT; k++) {
            if (k == i)
                continue;
            double s = aw_similarity(embedding[i], embedding[k], view.dim);
            for (uint32_t j = 0; j < found; j++)
                if (s > best[j]) {
                    const double was = best[j];
                    best[j] = s;
                    s = was;
                }
            if (found < AW_WORKLOAD_MAP_NEAR)
                best[found++] = s;
        }
        for (uint32_t k = 0; k < point->near_count; k++)
            if (!point->near[k].known)
                assert_close(point->near[k].similarity, best[shown++], 1e-9);
        assert_int_equal(shown, AW_WORKLOAD_MAP_NEAR);
    }
    aw_workload_map_view_deinit(&view, NULL);
    aw_store_close(&store);
    aw_embed_close(embed);
}

static void who_is_nearest_is_kept_exactly_while_everybody_moves(void **state)
{
    (void)state;
    struct embed_world w;
    embed_world_open(&w, AW_BUNDLE_LATEST, 40);
    struct aw_workload_map *map = open_map(&w, COUNT);
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    uint32_t episodes[COUNT] = {0};
    int64_t now = 0;
    for (uint32_t round = 0; round < 12; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            if (round > 0 && aw_rng_uniform(&rng, 0, 1) < 0.6)
                continue;
            episode_write(&w, names[i], episodes[i]++, aw_rng_u64(&rng), ALONE, NULL);
            aw_workload_map_tell(map, i, episodes[i]);
        }
        for (now += AFTER; aw_workload_map_work(map, now, 2) > 0;)
            ; /* in small pieces, to the end */
        assert_lists_exact(&w, map);
    }
    aw_workload_map_free(map);
    embed_world_close(&w);
}

static void work_stops_after_what_it_was_asked_for_and_all_get_their_turn(void **state)
{
    (void)state;
    struct embed_world w;
    struct aw_workload_map_view view;
    embed_world_open(&w, AW_BUNDLE_LATEST, 0);
    struct aw_workload_map *map = open_map(&w, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        episode_write(&w, names[i], 0, i, ALONE, NULL);
        aw_workload_map_tell(map, i, 1);
    }
    for (uint32_t done = 1; done <= COUNT; done++) {
        aw_workload_map_tell(map, 0, done); /* the first is always in a hurry */
        assert_int_equal(aw_workload_map_work(map, 0, 1), 1);
        assert_ok(aw_workload_map_view(map, NULL, &view));
        assert_int_equal(view.count, done);
        assert_int_equal(view.waiting, COUNT - done);
        aw_workload_map_view_deinit(&view, NULL);
    }
    /* nobody is known: the map is that of the workloads themselves */
    assert_ok(aw_workload_map_view(map, NULL, &view));
    double middle = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        middle += view.points[i].x / COUNT;
    assert_true(!view.of_known && view.dot_count == 0 && view.share[0] > 0.2);
    assert_close(middle, 0, 1e-5);
    assert_true(isnan(view.points[0].quantile) && !view.points[0].odd);
    aw_workload_map_view_deinit(&view, NULL);
    aw_workload_map_free(map);
    embed_world_close(&w);
}

static void a_store_that_cannot_be_read_is_told_and_tried_again(void **state)
{
    (void)state;
    struct embed_world w;
    struct aw_workload_map_view view;
    struct aw_workload_map_point one;
    char url[sizeof w.url], elsewhere[128];
    embed_world_open(&w, AW_BUNDLE_LATEST, 4);
    episode_write(&w, "a", 0, 1, ALONE, NULL);
    aw_store_close(&w.store);
    memcpy(url, w.url, sizeof url);
    snprintf(elsewhere, sizeof elsewhere, "%s.away", w.url);
    assert_int_equal(rename(url, elsewhere), 0);
    struct aw_workload_map *map = open_map(&w, COUNT);
    aw_workload_map_tell(map, 0, 1);
    assert_int_equal(aw_workload_map_work(map, 0, EVERYONE), 1);
    assert_ok(aw_workload_map_view(map, NULL, &view));
    assert_true(view.count == 0 && view.trouble[0]);
    aw_workload_map_view_deinit(&view, NULL);
    assert_int_equal(rename(elsewhere, url), 0);
    assert_int_equal(aw_workload_map_work(map, AFTER, EVERYONE), 1);
    assert_ok(aw_workload_map_one(map, "a", &one));
    assert_ok(aw_workload_map_view(map, NULL, &view));
    assert_string_equal(view.trouble, "");
    aw_workload_map_view_deinit(&view, NULL);
    aw_workload_map_free(map);
    embed_world_close(&w);
}

struct onlooker {
    struct aw_workload_map *map;
    _Atomic bool stop;
    uint32_t looks;
};

static void *look_on(void *ctx)
{
    struct onlooker *o = ctx;
    while (!o->stop || o->looks == 0) {
        struct aw_workload_map_view view;
        struct aw_workload_map_point one;
        if (aw_workload_map_view(o->map, NULL, &view))
            break;
        for (uint32_t i = 0; i < view.count; i++)
            if (view.points[i].episodes == 0 || view.points[i].near_count == 0)
                return NULL; /* half made: looks stays what it was */
        (void)!aw_workload_map_one(o->map, "a", &one);
        aw_workload_map_view_deinit(&view, NULL);
        o->looks++;
    }
    return o;
}

static void others_may_look_and_tell_while_it_works(void **state)
{
    (void)state;
    struct embed_world w;
    embed_world_open(&w, AW_BUNDLE_LATEST, 10);
    struct onlooker o = {.map = open_map(&w, COUNT)};
    pthread_t thread;
    void *result = NULL;
    for (uint32_t e = 0; e < 5; e++)
        for (uint32_t i = 0; i < COUNT; i++)
            episode_write(&w, names[i], e, 100 * e + i, ALONE, NULL);
    assert_int_equal(pthread_create(&thread, NULL, look_on, &o), 0);
    for (uint32_t e = 1; e < 30; e++) {
        for (uint32_t i = 0; i < COUNT; i++)
            aw_workload_map_tell(o.map, i, e);
        while (aw_workload_map_work(o.map, (int64_t)e * AFTER, 3) > 0)
            ;
    }
    o.stop = true;
    pthread_join(thread, &result);
    assert_ptr_equal(result, &o);
    assert_true(o.looks > 0);
    aw_workload_map_free(o.map);
    embed_world_close(&w);
}

static void making_survives_every_failed_allocation(void **state)
{
    (void)state;
    struct embed_world w;
    const struct aw_workload_map_workload one = {"a", false};
    embed_world_open(&w, AW_BUNDLE_LATEST, 5);
    enum aw_err err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err; n++) {
        struct aw_alloc_counting counting;
        struct aw_workload_map *map = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw_workload_map_new(&(struct aw_workload_map_config){w.model, w.url, &one, 1},
                                  &counting.alloc, &map, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        aw_workload_map_free(map);
        assert_true(counting.alloc_count == counting.free_count);
        assert_true(n < 1000);
    }
    embed_world_close(&w);
}

AW_TEST_GROUP("workload-map")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workload_appears_once_its_first_episode_is_told),
        cmocka_unit_test(who_is_nearest_is_kept_exactly_while_everybody_moves),
        cmocka_unit_test(work_stops_after_what_it_was_asked_for_and_all_get_their_turn),
        cmocka_unit_test(a_store_that_cannot_be_read_is_told_and_tried_again),
        cmocka_unit_test(others_may_look_and_tell_while_it_works),
        cmocka_unit_test(making_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
