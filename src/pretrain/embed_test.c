/* embed_test.c - what a model makes of the episodes that a store kept. */
#include "pretrain/embed.h"

#include <math.h>

#include "meta/inference.h"
#include "pretrain/embed_testing.h"

#define BY_AGENT 0u
#define ALONE    EPISODE_STEPS

static struct aw_embed *open_embed(const struct embed_world *w)
{
    struct aw_embed *embed = NULL;
    struct aw_diag diag = {0};
    if (aw_embed_open(w->model, NULL, &embed, &diag))
        fail_msg("%s", diag.text);
    return embed;
}

static void bundle_new(struct aw_bundle *bundle, uint32_t choice)
{
    assert_ok(aw_bundle_init(bundle,
                             &(struct aw_bundle_config){.episodes = 3,
                                                        .steps = MODEL_STEPS,
                                                        .obs_dim = AW_STATE_DEFAULT_DIM,
                                                        .act_dim = AW_ACTION_DIM,
                                                        .choice = choice},
                             NULL));
}

/* Whether what was gathered is what the bundle holds, by what the encoder makes of both. */
static void assert_same(struct embed_world *w, struct aw_embed *embed,
                        const struct aw_bundle *bundle)
{
    float ours[AW_EMBED_DIM_MAX], theirs[AW_EMBED_DIM_MAX];
    struct aw_inference frozen;
    double size = 0;
    assert_ok(aw_inference_open(&frozen, w->model, NULL, NULL));
    assert_ok(aw_inference_embed(&frozen, bundle, NULL, theirs));
    assert_ok(aw_embed_make(embed, ours));
    for (uint32_t i = 0; i < aw_embed_dim(embed); i++) {
        assert_close((double)ours[i], (double)theirs[i], 1e-6);
        size += fabs((double)ours[i]);
    }
    assert_true(size > 1e-3); /* there was something to be equal about */
    assert_true(aw_embed_checksum(embed) == frozen.checksum);
    aw_inference_close(&frozen);
}

static void a_workload_is_known_by_the_latest_episodes_of_the_fallback(void **state)
{
    (void)state;
    struct embed_world w;
    struct aw_bundle bundle;
    struct aw_embed_from from;
    embed_world_open(&w, AW_BUNDLE_LATEST, 5);
    bundle_new(&bundle, AW_BUNDLE_LATEST);
    for (uint32_t e = 0; e < 6; e++)
        episode_write(&w, "shop/cart", e, e, ALONE, &bundle);
    for (uint32_t e = 6; e < 100; e++) /* more than are listed at first */
        episode_write(&w, "shop/cart", e, e, e % 2 ? BY_AGENT : EPISODE_STEPS - 1, NULL);
    episode_write(&w, "shop/web", 0, 99, ALONE, NULL);
    struct aw_embed *embed = open_embed(&w);
    assert_ok(aw_embed_gather(embed, &w.store, "shop/cart", AW_EMBED_ALL, &from, NULL));
    assert_int_equal(from.episodes, 3);
    assert_true(from.by_fallback);
    assert_int_equal(from.newest, 99);
    assert_same(&w, embed, &bundle);
    aw_embed_close(embed);
    aw_bundle_deinit(&bundle);
    embed_world_close(&w);
}

static void without_an_episode_of_the_fallback_any_will_do_and_that_is_said(void **state)
{
    (void)state;
    struct embed_world w;
    struct aw_bundle bundle;
    struct aw_embed_from from;
    embed_world_open(&w, AW_BUNDLE_LATEST, 5);
    bundle_new(&bundle, AW_BUNDLE_LATEST);
    for (uint32_t e = 0; e < 4; e++)
        episode_write(&w, "shop/cart", e, e, BY_AGENT, &bundle);
    struct aw_embed *embed = open_embed(&w);
    assert_ok(aw_embed_gather(embed, &w.store, "shop/cart", AW_EMBED_ALL, &from, NULL));
    assert_int_equal(from.episodes, 3);
    assert_false(from.by_fallback);
    assert_same(&w, embed, &bundle);
    aw_embed_close(embed);
    aw_bundle_deinit(&bundle);
    embed_world_close(&w);
}

static void the_model_says_which_episodes_it_is_shown(void **state)
{
    (void)state;
    static const uint32_t choices[] = {AW_BUNDLE_BEST, AW_BUNDLE_ENDS};
    for (uint32_t c = 0; c < 2; c++) {
        struct embed_world w;
        struct aw_bundle bundle;
        struct aw_embed_from from;
        embed_world_open(&w, choices[c], 0);
        bundle_new(&bundle, choices[c]);
        /* the store ranks by the workload's reward, which is the same for all: of equal ones the
         * newer, so that the best three of five are the last three */
        for (uint32_t e = 0; e < 5; e++)
            episode_write(&w, "shop/cart", e, e, ALONE,
                          choices[c] == AW_BUNDLE_ENDS || e >= 2 ? &bundle : NULL);
        struct aw_embed *embed = open_embed(&w);
        assert_ok(aw_embed_gather(embed, &w.store, "shop/cart", AW_EMBED_ALL, &from, NULL));
        assert_int_equal(from.episodes, 3);
        assert_same(&w, embed, &bundle);
        aw_embed_close(embed);
        aw_bundle_deinit(&bundle);
        embed_world_close(&w);
    }
}

static void nothing_is_read_where_the_fallback_has_lived_nothing_new(void **state)
{
    (void)state;
    struct embed_world w;
    struct aw_embed_from from;
    embed_world_open(&w, AW_BUNDLE_LATEST, 5);
    episode_write(&w, "shop/cart", 0, 0, ALONE, NULL);
    struct aw_embed *embed = open_embed(&w);
    assert_ok(aw_embed_gather(embed, &w.store, "shop/cart", AW_EMBED_ALL, &from, NULL));
    assert_int_equal(from.episodes, 1);
    assert_ok(aw_embed_gather(embed, &w.store, "shop/cart", from.newest, &from, NULL));
    assert_int_equal(from.episodes, 0); /* nobody has lived anything */
    for (uint32_t e = 1; e < 4; e++)
        episode_write(&w, "shop/cart", e, e, BY_AGENT, NULL);
    assert_ok(aw_embed_gather(embed, &w.store, "shop/cart", from.newest, &from, NULL));
    assert_int_equal(from.episodes, 0); /* an agent has */
    assert_int_equal(from.newest, 3);
    episode_write(&w, "shop/cart", 4, 4, ALONE, NULL);
    assert_ok(aw_embed_gather(embed, &w.store, "shop/cart", from.newest, &from, NULL));
    assert_int_equal(from.episodes, 2);
    aw_embed_close(embed);
    embed_world_close(&w);
}

static void what_cannot_be_read_is_said(void **state)
{
    (void)state;
    static const float two[2] = {0};
    struct embed_world w;
    struct aw_embed *embed = NULL;
    struct aw_embed_from from = {.episodes = 42};
    struct aw_diag diag = {0};
    embed_world_open(&w, AW_BUNDLE_LATEST, 5);
    assert_ok(aw_store_append(&w.store,
                              &(struct aw_store_row){.workload = "odd",
                                                     .obs_dim = 2,
                                                     .act_dim = 2,
                                                     .obs = two,
                                                     .next_obs = two,
                                                     .action = two,
                                                     .truncated = true},
                              NULL));
    assert_int_equal(aw_embed_open("/nowhere/model", NULL, &embed, &diag), AW_ERR_NOTFOUND);
    assert_true(aw_embed_open(w.url, NULL, &embed, &diag) != AW_OK); /* a store is no model */
    assert_null(embed);
    embed = open_embed(&w);
    assert_int_equal(aw_embed_gather(embed, &w.store, "nobody", AW_EMBED_ALL, &from, &diag),
                     AW_ERR_NODATA);
    assert_non_null(strstr(diag.text, "no finished episode of \"nobody\""));
    assert_int_equal(aw_embed_gather(embed, &w.store, "odd", AW_EMBED_ALL, &from, &diag),
                     AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "2 states"));
    assert_int_equal(from.episodes, 42);
    aw_embed_close(embed);
    embed_world_close(&w);
}

static void opening_survives_every_failed_allocation(void **state)
{
    (void)state;
    struct embed_world w;
    embed_world_open(&w, AW_BUNDLE_LATEST, 5);
    enum aw_err err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err; n++) {
        struct aw_alloc_counting counting;
        struct aw_embed *embed = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw_embed_open(w.model, &counting.alloc, &embed, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_true((embed != NULL) == (err == AW_OK));
        aw_embed_close(embed);
        assert_true(counting.alloc_count == counting.free_count);
        assert_true(n < 1000);
    }
    embed_world_close(&w);
}

AW_TEST_GROUP("embed")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workload_is_known_by_the_latest_episodes_of_the_fallback),
        cmocka_unit_test(without_an_episode_of_the_fallback_any_will_do_and_that_is_said),
        cmocka_unit_test(the_model_says_which_episodes_it_is_shown),
        cmocka_unit_test(nothing_is_read_where_the_fallback_has_lived_nothing_new),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(opening_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
