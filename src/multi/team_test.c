/* team_test.c - what agents see of all others, and who is not there. */
#include "multi/team.h"

#include <math.h>
#include <string.h>

#include "base/leave_one_out.h"
#include "base/testing.h"

static void leave_one_out_is_what_the_obvious_way_finds(void **state)
{
    (void)state;
    enum { N = 37, K = 3 };
    struct aw_rng rng;
    float x[N * K], got[N * 2 * K];
    uint8_t here[N];
    aw_rng_init(&rng, 1, 0);
    for (uint32_t i = 0; i < N; i++) {
        here[i] = aw_rng_below(&rng, 4) > 0;
        for (uint32_t k = 0; k < K; k++)
            x[i * K + k] = (float)aw_rng_uniform(&rng, -1, 1) + (k == 2 ? 1000 : 0);
    }
    aw_leave_one_out(x, here, N, K, got);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < K; k++) {
            double mean = 0, square = 0, n = 0;
            for (uint32_t j = 0; j < N; j++)
                if (j != i && here[j]) {
                    mean += (double)x[j * K + k];
                    n++;
                }
            mean /= n;
            for (uint32_t j = 0; j < N; j++)
                if (j != i && here[j])
                    square += pow((double)x[j * K + k] - mean, 2);
            assert_close((double)got[i * 2 * K + k], here[i] ? mean : 0, 1e-5);
            assert_close((double)got[i * 2 * K + K + k], here[i] ? sqrt(square / n) : 0, 1e-4);
        }
    memset(here, 0, sizeof here);
    here[4] = 1; /* alone */
    aw_leave_one_out(x, here, N, K, got);
    for (uint32_t k = 0; k < 2 * K; k++)
        assert_close((double)got[4 * 2 * K + k], 0, 0);
}

static void an_action_that_is_not_legal_changes_nothing_and_costs_one(void **state)
{
    (void)state;
    struct aw_multi_world w;
    struct aw_multi_settings settings;
    struct aw_team_settings how;
    struct aw_team team;
    uint8_t action[12] = {0};
    aw_conf_defaults(aw_multi_fields, &settings);
    assert_ok(aw_multi_init(&w, &settings, NULL, NULL));
    aw_team_settings_init(&how, true);
    assert_ok(aw_team_init(&team, &w, &how, NULL));
    aw_multi_set(&w, 0, 0, 1024);
    action[0] = 2; /* fewer than none */
    action[1] = 1;
    const uint32_t wanted = w.wanted[1];
    aw_team_step(&team, action);
    assert_int_equal(w.wanted[0], 0);
    assert_true(team.own[0] < 0);
    assert_int_equal(w.wanted[1], wanted + 1);
    assert_true(team.own[1] > 0);
    action[1] = 2; /* undoes it */
    aw_team_step(&team, action);
    assert_true(team.own[1] < 0.5f);
    double sum = 0;
    for (uint32_t i = 0; i < 12; i++)
        sum += (double)team.own[i];
    assert_close(team.team, sum / 12, 1e-6);
    assert_close((double)team.reward[3], team.team, 1e-6); /* the paper's is the team's alone */
    aw_team_deinit(&team);
    aw_multi_deinit(&w);
}

/* The step itself is the same; who takes all it can is charged for what others lose. */
static void what_one_causes_is_what_others_lose_and_the_step_stays_the_same(void **state)
{
    (void)state;
    struct aw_multi_settings settings;
    struct aw_team_settings how;
    struct aw_multi_world plain_world, world;
    struct aw_team plain, team;
    aw_conf_defaults(aw_multi_fields, &settings);
    settings.offered = 0.7;
    aw_team_settings_init(&how, false);
    assert_ok(aw_multi_init(&plain_world, &settings, NULL, NULL));
    assert_ok(aw_team_init(&plain, &plain_world, &how, NULL));
    how.difference = true;
    assert_ok(aw_multi_init(&world, &settings, NULL, NULL));
    assert_ok(aw_team_init(&team, &world, &how, NULL));
    uint8_t action[AW_MULTI_FUNCTIONS] = {0};
    double modest = 0, greedy = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        aw_multi_reset(&plain_world, seed);
        aw_multi_reset(&world, seed);
        aw_team_begin(&plain);
        aw_team_begin(&team);
        for (uint32_t step = 0; step < 30; step++) {
            for (uint32_t i = 0; i < world.count; i++)
                action[i] = i < 6 ? 7 : 0; /* six take all they can, six the least */
            aw_team_observe(&plain);
            aw_team_observe(&team);
            aw_team_step(&plain, action);
            aw_team_step(&team, action);
            assert_memory_equal(plain.own, team.own, world.count * sizeof *team.own);
            assert_memory_equal(plain_world.p99_s, world.p99_s, world.count * sizeof(float));
            for (uint32_t i = 0; i < world.count; i++)
                *(i < 6 ? &greedy : &modest) += (double)team.caused[i];
        }
    }
    assert_true(greedy < -1);                   /* others lose by them */
    assert_true(fabs(modest) < 0.01 * -greedy); /* the least is what it is measured against */
    aw_team_deinit(&team);
    aw_team_deinit(&plain);
    aw_multi_deinit(&world);
    aw_multi_deinit(&plain_world);
}

AW_TEST_GROUP("team")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leave_one_out_is_what_the_obvious_way_finds),
        cmocka_unit_test(an_action_that_is_not_legal_changes_nothing_and_costs_one),
        cmocka_unit_test(what_one_causes_is_what_others_lose_and_the_step_stays_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
