/* recent_test.c - rings against a list of everything, room that stays bounded, names that move. */
#include "web/recent.h"

#include "base/alloc.h"
#include "base/testing.h"
#include "web/api_testing.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* --- a real loop ------------------------------------------------------------------------------ */

static void points_are_what_was_decided(void **state)
{
    static struct aw_api_world world;
    struct aw_recent watch;
    (void)state;
    aw_api_world_open_with(&world, AW_GUARD_AUTO, false);
    assert_ok(aw_recent_init(&watch, world.api_config.step_s, NULL));
    double spent = 0;
    uint32_t missed = 0, steps = 0;
    for (uint32_t t = 0; t < 150; t++) {
        struct aw_desk_view view;
        aw_api_world_run(&world, 1);
        aw_recent_tick(&watch, world.desk);
        aw_desk_lock(world.desk);
        aw_desk_peek(world.desk, 1, &view);
        const struct aw_decision *d = view.decision;
        aw_recent_lock(&watch);
        const struct aw_recent_one *one = aw_recent_find(&watch, view.name);
        assert_non_null(one);
        const struct aw_recent_point *p =
            aw_recent_point(&watch, one, aw_recent_points(&watch, one) - 1);
        assert_true(p->at_us == d->at_us);
        assert_int_equal(p->stage, d->stage);
        assert_int_equal(p->actor, d->actor);
        assert_int_equal(p->ready, d->reading.replicas_ready);
        assert_int_equal(p->clips, d->guard.clips);
        assert_int_equal((p->flags & AW_RECENT_MISSED) != 0, d->score.violated);
        assert_int_equal(p->outcome == AW_RECENT_APPLIED, d->applied && d->guard.plan.set);
        if (isfinite(d->reading.arrivals_per_s))
            assert_close((double)p->arrivals_per_s, d->reading.arrivals_per_s, 1e-6);
        spent += isfinite(d->score.cost) ? d->score.cost : 0;
        missed += d->score.violated;
        steps++;
        assert_close(one->cost, spent, 1e-9);
        assert_int_equal(one->missed, missed);
        assert_int_equal(one->steps, steps);
        aw_recent_unlock(&watch);
        aw_desk_unlock(world.desk);
    }
    const struct aw_recent_one *one = aw_recent_find(&watch, "shop/web");
    uint64_t outcomes = 0, decisions = 0;
    for (uint32_t o = 0; o < AW_RECENT_OUTCOME_COUNT; o++)
        outcomes += one->outcomes[o];
    for (uint32_t a = 0; a < AW_ACTOR_COUNT; a++)
        for (uint32_t o = 0; o < AW_RECENT_OUTCOME_COUNT; o++)
            decisions += watch.decisions[a][o];
    assert_int_equal(outcomes, 150);
    assert_int_equal(decisions, 150 * AW_API_TESTING_WORKLOADS);
    assert_int_equal(aw_recent_fleets(&watch), 150);
    assert_int_equal(aw_recent_fleet(&watch, 149)->total, AW_API_TESTING_WORKLOADS);
    assert_int_equal(aw_recent_episodes(&watch, one), 1); /* of 100 steps, and one under way */
    const struct aw_recent_episode *e = aw_recent_episode(&watch, one, 0);
    assert_int_equal(e->steps + one->open.steps, 150);
    assert_true(e->reward > 0 && e->reward <= 2.0F * (float)e->steps);
    aw_recent_deinit(&watch);
    aw_api_world_close(&world);
}

static void the_twin_belongs_to_the_step_that_it_lived(void **state)
{
    static struct aw_api_world world;
    struct aw_recent watch;
    (void)state;
    aw_api_world_open_with(&world, AW_GUARD_AUTO, false);
    assert_ok(aw_recent_init(&watch, world.api_config.step_s, NULL));
    for (uint32_t t = 0; t < 10; t++) {
        aw_api_world_run(&world, 1);
        /* of the step that begins with this tick, told before the tick is */
        aw_recent_twin(&watch, 0,
                       &(struct aw_recent_twin){.latency_us = 1000.0 * t,
                                                .cost_per_hour = 3600 / watch.step_s,
                                                .reward = 1,
                                                .missed = t == 3});
        aw_recent_tick(&watch, world.desk);
    }
    const struct aw_recent_one *one = aw_recent_find(&watch, "shop/cart");
    /* slots are made by the first tick, and its twin is told of in the next but one */
    assert_int_equal(one->beside.steps, 8);
    assert_int_equal(one->beside.twin_missed, 1);
    assert_close(one->beside.twin_cost, 8, 1e-6);
    assert_close(one->beside.twin_reward, 8, 1e-6);
    const struct aw_recent_point *p = aw_recent_point(&watch, one, 4);
    assert_true((p->flags & AW_RECENT_TWIN_MISSED) != 0);
    assert_close((double)p->twin_latency_us, 3000, 1e-6);
    assert_true(isnan(aw_recent_point(&watch, one, 0)->twin_latency_us));
    aw_recent_deinit(&watch);
    aw_api_world_close(&world);
}

/* --- rings ------------------------------------------------------------------------------------ */

/* `aw_recent_costs` and a step's cost have one basis: what has a node. */
static void a_full_cluster_is_said_everywhere_and_what_waits_costs_nothing(void **state)
{
    (void)state;
    static struct aw_api_world full;
    const struct aw_desk_view *view = NULL;
    struct aw_desk_view views[AW_API_TESTING_WORKLOADS];
    int64_t pending = 0;
    aw_api_world_open_on(&full, AW_GUARD_AUTO, true, false, 9.5);
    for (uint32_t t = 0; t < 200 && !pending; t++) {
        aw_api_world_run(&full, 1);
        for (uint32_t i = 0; i < AW_API_TESTING_WORKLOADS && !pending; i++) {
            aw_desk_peek(full.desk, i, &views[i]);
            view = &views[i];
            pending = view->decision->reading.replicas_pending;
        }
    }
    assert_true(pending > 0);
    char path[128], expected[64];
    snprintf(expected, sizeof expected, "the cluster is full: %d pod%s pending", (int)pending,
             pending == 1 ? "" : "s");
    snprintf(path, sizeof path, "/v1/workloads/%s", view->name);
    struct aw_api_response answer;
    const struct aw_api_request request = {.method = "GET", .path = path, .by = AW_API_TESTING_BY};
    assert_ok(aw_api_answer(&full.api, &request, &answer));
    json_t *one = json_loadb(answer.body, answer.len, 0, NULL);
    assert_non_null(one);
    aw_api_response_deinit(&answer);
    const json_t *conditions = json_object_get(one, "conditions"), *condition;
    bool said = false;
    size_t i;
    json_array_foreach(conditions, i, condition)
    {
        said = said ||
               (strcmp(json_string_value(json_object_get(condition, "type")), "Placed") == 0 &&
                json_is_false(json_object_get(condition, "ok")) &&
                strcmp(json_string_value(json_object_get(condition, "message")), expected) == 0);
    }
    assert_true(said);
    const json_t *replicas = json_object_get(one, "replicas");
    assert_int_equal(json_integer_value(json_object_get(replicas, "pending")), pending);
    json_decref(one);
    char sentence[AW_EXPLANATION_SENTENCE_MAX];
    aw_explanation_sentence(view->config, view->decision, sentence, sizeof sentence);
    if (!strstr(sentence, expected))
        fail_msg("\"%s\" does not say: %s", sentence, expected);
    /* four of six have a node; more than these would wait as well, fewer would not */
    struct aw_decision d = *view->decision;
    struct aw_plan present = aw_plan_of(d.reading.wanted);
    double cost, other, four, three;
    d.reading.replicas_wanted = present.replicas = 6;
    d.reading.replicas_pending = 2;
    d.by_fallback = (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 9};
    aw_recent_costs(view->config, &d, &present, &cost, &other);
    present.replicas = 4;
    four = aw_prices_per_hour(&view->config->prices, &present);
    present.replicas = 3;
    three = aw_prices_per_hour(&view->config->prices, &present);
    assert_true(cost == four && other == four && three < four);
    present.replicas = 6;
    d.by_fallback.replicas = 3;
    aw_recent_costs(view->config, &d, &present, &cost, &other);
    assert_true(cost == four && other == three);
    aw_api_world_close(&full);
}

static void a_ring_keeps_the_newest(void **state)
{
    static struct aw_api_world world;
    struct aw_recent watch;
    int64_t first_us = 0, last_us = 0;
    const uint32_t beyond = 25;
    (void)state;
    aw_api_world_open_with(&world, AW_GUARD_AUTO, false);
    assert_ok(aw_recent_init(&watch, world.api_config.step_s, NULL));
    aw_api_world_run(&world, 1);
    for (uint32_t t = 0; t < AW_RECENT_POINTS_MAX + beyond; t++)
        aw_recent_tick(&watch, world.desk); /* the same decision again and again */
    aw_api_world_run(&world, 1);
    aw_recent_tick(&watch, world.desk);
    const struct aw_recent_one *one = aw_recent_find(&watch, "bank/cart");
    assert_int_equal(watch.points_max, AW_RECENT_POINTS_MAX);
    assert_int_equal(aw_recent_points(&watch, one), AW_RECENT_POINTS_MAX);
    assert_int_equal(one->point_count, AW_RECENT_POINTS_MAX + beyond + 1);
    first_us = aw_recent_point(&watch, one, 0)->at_us;
    last_us = aw_recent_point(&watch, one, AW_RECENT_POINTS_MAX - 1)->at_us;
    assert_true(last_us > first_us);
    for (uint32_t i = 0; i + 1 < AW_RECENT_POINTS_MAX; i++)
        assert_true(aw_recent_point(&watch, one, i)->at_us == first_us);
    assert_int_equal(aw_recent_fleets(&watch), AW_RECENT_FLEET_MAX);
    aw_recent_deinit(&watch);
    aw_api_world_close(&world);
}

static void room_is_taken_once_and_a_tick_without_memory_is_counted(void **state)
{
    static struct aw_api_world world;
    struct aw_alloc_counting counting;
    struct aw_recent watch;
    (void)state;
    aw_api_world_open_with(&world, AW_GUARD_AUTO, false);
    aw_api_world_run(&world, 1);
    for (uint64_t budget = 0;; budget++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        if (aw_recent_init(&watch, 15, &counting.alloc))
            continue;
        aw_recent_tick(&watch, world.desk);
        const bool made = watch.dropped == 0;
        if (made) {
            const uint64_t taken = counting.alloc_count;
            for (uint32_t t = 0; t < 50; t++)
                aw_recent_tick(&watch, world.desk);
            assert_int_equal(counting.alloc_count, taken);
        } else {
            assert_null(aw_recent_find(&watch, "shop/cart"));
        }
        aw_recent_deinit(&watch);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (made)
            break;
    }
    aw_api_world_close(&world);
}

/* After a reload workloads may come in another order, go and come. */
static void a_past_moves_with_its_name(void **state)
{
    static struct aw_api_world world;
    struct aw_recent watch;
    (void)state;
    aw_api_world_open_with(&world, AW_GUARD_AUTO, false);
    assert_ok(aw_recent_init(&watch, world.api_config.step_s, NULL));
    for (uint32_t t = 0; t < 5; t++) {
        aw_api_world_run(&world, 1);
        aw_recent_tick(&watch, world.desk);
    }
    /* as if they had been in the order web, bank, cart, with marks to know them by */
    const struct aw_recent_one first = watch.one[0];
    watch.one[0] = watch.one[1];
    watch.one[1] = watch.one[2];
    watch.one[2] = first;
    for (uint32_t i = 0; i < 3; i++)
        watch.one[i].model_changes = 100 + watch.one[i].ring;
    aw_recent_tick(&watch, world.desk);
    static const char *const names[] = {"shop/cart", "shop/web", "bank/cart"};
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(watch.one[i].name, names[i]);
        assert_int_equal(watch.one[i].point_count, 6);
        assert_int_equal(watch.one[i].model_changes, 100 + i);
    }
    /* and one in the place of another that is gone has no past */
    snprintf(watch.one[1].name, sizeof watch.one[1].name, "gone/away");
    aw_recent_tick(&watch, world.desk);
    assert_string_equal(watch.one[1].name, "shop/web");
    assert_int_equal(watch.one[1].point_count, 1);
    assert_int_equal(watch.one[1].model_changes, 0);
    assert_int_equal(watch.one[2].point_count, 7);
    aw_recent_deinit(&watch);
    aw_api_world_close(&world);
}

/* The most workloads that there may be: rings are short then, and within their bytes. */
static void a_crowd_stays_within_its_bytes(void **state)
{
    const size_t points = (size_t)AW_WORKLOADS_MAX * AW_RECENT_POINTS_MIN;
    const size_t episodes = (size_t)AW_WORKLOADS_MAX * AW_RECENT_EPISODES_MIN;
    (void)state;
    assert_true(points * sizeof(struct aw_recent_point) <= AW_RECENT_BYTES_MAX);
    assert_true(episodes * sizeof(struct aw_recent_episode) <= AW_RECENT_BYTES_MAX);
}

static void expect_same(const struct aw_recent *a, const struct aw_recent *b)
{
    assert_int_equal(a->ticks, b->ticks);
    assert_int_equal(aw_recent_fleets(a), aw_recent_fleets(b));
    for (uint32_t i = 0; i < aw_recent_fleets(a); i++)
        assert_memory_equal(aw_recent_fleet(a, i), aw_recent_fleet(b, i),
                            sizeof(struct aw_recent_fleet));
    for (uint32_t w = 0; w < a->count; w++) {
        const struct aw_recent_one *one = &a->one[w], *other = &b->one[w];
        assert_string_equal(one->name, other->name);
        assert_int_equal(one->steps, other->steps);
        assert_int_equal(one->missed, other->missed);
        assert_int_equal(one->replica_changes, other->replica_changes);
        assert_memory_equal(&one->cost, &other->cost, sizeof one->cost);
        assert_int_equal(aw_recent_points(a, one), aw_recent_points(b, other));
        for (uint32_t i = 0; i < aw_recent_points(a, one); i++)
            assert_memory_equal(aw_recent_point(a, one, i), aw_recent_point(b, other, i),
                                sizeof(struct aw_recent_point));
        assert_int_equal(aw_recent_episodes(a, one), aw_recent_episodes(b, other));
        assert_memory_equal(&one->open, &other->open, sizeof one->open);
    }
}

static void what_lately_happened_outlives_the_process(void **state)
{
    static struct aw_api_world world;
    struct aw_recent watch, after, again;
    struct aw_diag diag = {0};
    char folder[] = "/tmp/aware-recent-XXXXXX", path[64], aside[96];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/recent", folder);
    snprintf(aside, sizeof aside, "%s.refused", path);
    aw_api_world_open_with(&world, AW_GUARD_AUTO, false);
    assert_ok(aw_recent_init(&watch, world.api_config.step_s, NULL));
    assert_ok(aw_recent_init(&after, world.api_config.step_s, NULL));
    assert_ok(aw_recent_load(&after, path, &diag)); /* there is none: nothing to take over */
    for (uint32_t t = 0; t < 130; t++) {
        aw_api_world_run(&world, 1);
        aw_recent_tick(&watch, world.desk);
    }
    assert_ok(aw_recent_save(&watch, path, &diag));
    assert_ok(aw_recent_load(&after, path, &diag));
    expect_same(&watch, &after);
    assert_ok(aw_recent_save(&after, path, &diag)); /* one that ends before its first tick */
    assert_ok(aw_recent_init(&again, world.api_config.step_s, NULL));
    assert_ok(aw_recent_load(&again, path, &diag));
    expect_same(&watch, &again);
    aw_recent_deinit(&again);
    for (uint32_t t = 0; t < 3; t++) { /* and both go on alike */
        aw_api_world_run(&world, 1);
        aw_recent_tick(&watch, world.desk);
        aw_recent_tick(&after, world.desk);
    }
    expect_same(&watch, &after);
    aw_recent_deinit(&after);

    /* one that ends too soon is put aside, and nothing of it is used */
    assert_int_equal(truncate(path, 4000), 0);
    assert_ok(aw_recent_init(&after, world.api_config.step_s, NULL));
    assert_int_equal(aw_recent_load(&after, path, &diag), AW_ERR_FORMAT);
    assert_int_equal(after.ticks, 0);
    assert_int_equal(aw_recent_fleets(&after), 0);
    assert_int_equal(unlink(aside), 0);
    assert_int_equal(rmdir(folder), 0);
    aw_recent_tick(&after, world.desk);
    assert_int_equal(after.one[0].steps, 1);
    aw_recent_deinit(&after);
    aw_recent_deinit(&watch);
    aw_api_world_close(&world);
}

/* Fewer workloads than before: rings are longer, and hold what there was and no more. */
static void a_longer_ring_begins_with_what_there_was(void **state)
{
    static struct aw_api_world world;
    struct aw_recent watch, after;
    struct aw_diag diag = {0};
    char path[] = "/tmp/aware-recent-XXXXXX";
    (void)state;
    const int file = mkstemp(path);
    assert_true(file >= 0 && close(file) == 0);
    aw_api_world_open_with(&world, AW_GUARD_AUTO, false);
    assert_ok(aw_recent_init(&watch, world.api_config.step_s, NULL));
    assert_ok(aw_recent_init(&after, world.api_config.step_s, NULL));
    assert_true(aw__recent_room(&watch, 4096)); /* a crowd, before they went */
    for (uint32_t t = 0; t < 100; t++) {
        aw_api_world_run(&world, 1);
        aw_recent_tick(&watch, world.desk);
    }
    const uint32_t points = watch.points_max, episodes = watch.episodes_max;
    assert_true(points < 100);
    watch.one[0].episode_count = 2 * (uint64_t)episodes;
    assert_ok(aw_recent_save(&watch, path, &diag));
    assert_ok(aw_recent_load(&after, path, &diag));
    assert_true(after.points_max > 100 && after.episodes_max > 2 * episodes);
    for (uint32_t w = 0; w < AW_API_TESTING_WORKLOADS; w++) {
        const struct aw_recent_one *one = &watch.one[w], *other = &after.one[w];
        assert_int_equal(other->steps, 100);
        assert_int_equal(aw_recent_points(&after, other), points);
        assert_int_equal(aw_recent_episodes(&after, other), w ? 0 : episodes);
        for (uint32_t i = 0; i < points; i++)
            assert_memory_equal(aw_recent_point(&watch, one, i), aw_recent_point(&after, other, i),
                                sizeof(struct aw_recent_point));
    }
    aw_api_world_run(&world, 1);
    aw_recent_tick(&after, world.desk); /* and it goes on */
    assert_int_equal(aw_recent_points(&after, &after.one[0]), points + 1);
    assert_memory_equal(aw_recent_point(&after, &after.one[0], 0),
                        aw_recent_point(&watch, &watch.one[0], 0), sizeof(struct aw_recent_point));
    assert_int_equal(unlink(path), 0);
    aw_recent_deinit(&after);
    aw_recent_deinit(&watch);
    aw_api_world_close(&world);
}

AW_TEST_GROUP("recent")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_what_was_decided),
        cmocka_unit_test(the_twin_belongs_to_the_step_that_it_lived),
        cmocka_unit_test(a_full_cluster_is_said_everywhere_and_what_waits_costs_nothing),
        cmocka_unit_test(a_ring_keeps_the_newest),
        cmocka_unit_test(room_is_taken_once_and_a_tick_without_memory_is_counted),
        cmocka_unit_test(a_past_moves_with_its_name),
        cmocka_unit_test(what_lately_happened_outlives_the_process),
        cmocka_unit_test(a_longer_ring_begins_with_what_there_was),
        cmocka_unit_test(a_crowd_stays_within_its_bytes),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
