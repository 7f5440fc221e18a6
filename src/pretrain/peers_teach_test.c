/* peers_teach_test.c - agents of small towns learn together, and the same again. */
#include "pretrain/peers_teach.h"

#include <string.h>

#include "base/testing.h"

static enum aw_err wave(void *ctx, uint32_t app, const struct aw_alloc *alloc,
                        struct aw_load *ret_load, struct aw_diag *diag)
{
    (void)ctx;
    return aw_load_parse("diurnal:mean=20,length=3h", 1 + app, alloc, ret_load, diag);
}

static void small(struct aw_peers_teach_config *config)
{
    aw_peers_teach_config_init(config);
    config->learn = (struct aw_pretrain_pool){.seed = 1, .first = 0, .count = 6};
    config->choose = (struct aw_pretrain_pool){.seed = 1, .first = 6, .count = 3};
    config->report = (struct aw_pretrain_pool){.seed = 1, .first = 9, .count = 3};
    config->load_make = wave;
    config->towns = 2;
    config->towns_checked = 1;
    config->agents_min = 2;
    config->agents_max = 3;
    config->episodes = 10;
}

static bool stop_at_three(void *ctx, uint32_t done, uint32_t total)
{
    (void)ctx;
    return done < 3 || total < 3;
}

static void the_same_seed_gives_the_same_networks_and_another_does_not(void **state)
{
    (void)state;
    struct aw_peers_teach_config config;
    struct aw_peers_model one, again, other;
    struct aw_peers_taught taught;
    struct aw_diag diag = {0};
    small(&config);
    if (aw_peers_teach(&config, NULL, NULL, NULL, &one, &taught, &diag))
        fail_msg("%s", diag.text);
    assert_true(one.checksum != 0 && taught.episodes >= 1 && taught.episodes <= 10);
    uint32_t agents = 0;
    for (uint32_t i = 0; i < AW_PEERS_CATEGORIES; i++)
        agents += taught.agents[i];
    assert_true(agents >= 1 && agents <= 3);
    assert_true(taught.learned.cost > 0.2 && taught.learned.missed <= 1);
    /* always more: dearer, whatever it misses */
    assert_true(taught.fixed[AW_PEERS_CHOICES - 1].cost > taught.fixed[0].cost);
    assert_ok(aw_peers_teach(&config, NULL, NULL, NULL, &again, &taught, &diag));
    assert_memory_equal(&one, &again, sizeof one);
    config.simulate.seed = 2;
    assert_ok(aw_peers_teach(&config, NULL, NULL, NULL, &other, &taught, &diag));
    assert_true(other.checksum != one.checksum);
}

static void who_is_told_to_stop_leaves_nothing(void **state)
{
    (void)state;
    struct aw_peers_teach_config config;
    struct aw_peers_model model;
    struct aw_peers_taught taught;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    small(&config);
    memset(&model, 7, sizeof model);
    assert_int_equal(
        aw_peers_teach(&config, stop_at_three, NULL, &counting.alloc, &model, &taught, NULL),
        AW_ERR_INTERRUPTED);
    assert_true(model.checksum == UINT64_C(0x0707070707070707));
    assert_int_equal(counting.alloc_count, counting.free_count);
}

AW_TEST_GROUP("peers-teach")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_networks_and_another_does_not),
        cmocka_unit_test(who_is_told_to_stop_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
