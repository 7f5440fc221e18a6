#include "rl/replay.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

#define S 3u
#define A 2u

static void transition(uint32_t i, float *obs, float *act, float *next_obs)
{
    for (uint32_t j = 0; j < S; j++) {
        obs[j] = (float)(100 * i + j);
        next_obs[j] = (float)(100 * i + 50 + j);
    }
    for (uint32_t j = 0; j < A; j++)
        act[j] = (float)i + 0.25f * (float)(j + 1);
}

static void push(struct aw_replay *replay, uint32_t i)
{
    float obs[S], act[A], next_obs[S];
    transition(i, obs, act, next_obs);
    assert_ok(aw_replay_push(replay, obs, act, -(float)i, next_obs, i % 3 == 0));
}

static void a_sample_returns_whole_transitions_and_nothing_overwritten(void **state)
{
    (void)state;
    enum { CAPACITY = 10, PUSHED = 27, B = 64 };
    struct aw_replay replay;
    struct aw_rng rng;
    aw_rng_init(&rng, 7, 0);
    assert_ok(aw_replay_init(&replay, &(struct aw_replay_config){CAPACITY, S, A}, NULL));
    for (uint32_t i = 0; i < PUSHED; i++) {
        push(&replay, i);
        assert_int_equal(replay.count, i + 1 < CAPACITY ? i + 1 : CAPACITY);
    }
    float obs[B * S], obs_act[B * (S + A)], act[B * A], reward[B], terminal[B], next_obs[B * S];
    bool seen[PUSHED] = {false};
    for (int round = 0; round < 10; round++) {
        aw_replay_sample(&replay, &rng, B,
                         &(struct aw_replay_batch){obs, obs_act, act, reward, terminal, next_obs});
        for (size_t b = 0; b < B; b++) {
            uint32_t i = (uint32_t)-reward[b];
            assert_true(i >= PUSHED - CAPACITY && i < PUSHED);
            seen[i] = true;
            float want_obs[S], want_act[A], want_next_obs[S];
            transition(i, want_obs, want_act, want_next_obs);
            assert_memory_equal(obs + b * S, want_obs, sizeof want_obs);
            assert_memory_equal(next_obs + b * S, want_next_obs, sizeof want_next_obs);
            assert_memory_equal(act + b * A, want_act, sizeof want_act);
            assert_memory_equal(obs_act + b * (S + A), want_obs, sizeof want_obs);
            assert_memory_equal(obs_act + b * (S + A) + S, want_act, sizeof want_act);
            assert_true(terminal[b] == (i % 3 == 0 ? 1.0f : 0.0f));
        }
    }
    for (uint32_t i = PUSHED - CAPACITY; i < PUSHED; i++)
        assert_true(seen[i]);
    aw_replay_deinit(&replay);
    aw_replay_deinit(&replay);
}

static void every_transition_is_drawn_equally_often(void **state)
{
    (void)state;
    enum { CAPACITY = 16, B = 256, ROUNDS = 500 };
    struct aw_replay replay;
    struct aw_rng rng;
    aw_rng_init(&rng, 11, 0);
    assert_ok(aw_replay_init(&replay, &(struct aw_replay_config){CAPACITY, S, A}, NULL));
    for (uint32_t i = 0; i < CAPACITY; i++)
        push(&replay, i);
    float reward[B];
    uint32_t hits[CAPACITY] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        aw_replay_sample(&replay, &rng, B, &(struct aw_replay_batch){.reward = reward});
        for (uint32_t b = 0; b < B; b++)
            hits[(uint32_t)-reward[b]]++;
    }
    double expected = (double)B * ROUNDS / CAPACITY, chi2 = 0;
    for (uint32_t i = 0; i < CAPACITY; i++)
        chi2 += (hits[i] - expected) * (hits[i] - expected) / expected;
    assert_true(chi2 < 37.7); /* 15 degrees of freedom: beyond this once in a thousand seeds */
    aw_replay_deinit(&replay);
}

static void what_is_not_finite_is_refused_and_leaves_no_trace(void **state)
{
    (void)state;
    struct aw_replay replay;
    assert_ok(aw_replay_init(&replay, &(struct aw_replay_config){4, S, A}, NULL));
    push(&replay, 1);
    float before[4 * (2 * S + A + 2)];
    memcpy(before, replay.rows, sizeof before);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < 3; k++) {
        for (int where = 0; where < 4; where++) {
            float obs[S], act[A], next_obs[S], reward = 1;
            transition(2, obs, act, next_obs);
            *(where == 0   ? &obs[S - 1]
              : where == 1 ? &act[A - 1]
              : where == 2 ? &next_obs[0]
                           : &reward) = bad[k];
            assert_int_equal(aw_replay_push(&replay, obs, act, reward, next_obs, false),
                             AW_ERR_DIVERGED);
            assert_int_equal(replay.count, 1);
            assert_int_equal(replay.cursor, 1);
            assert_memory_equal(before, replay.rows, sizeof before);
        }
    }
    aw_replay_deinit(&replay);
}

static void impossible_sizes_and_missing_memory_leave_a_zeroed_ring(void **state)
{
    (void)state;
    static const struct {
        struct aw_replay_config config;
        const char *why;
    } cases[] = {
        {{0, S, A}, "no room"},
        {{AW_REPLAY_CAPACITY_MAX + 1, S, A}, "more than the maximum"},
        {{1, 0, A}, "nothing observed"},
        {{1, S, 0}, "nothing done"},
        {{1, AW_REPLAY_DIM_MAX + 1, A}, "an observation beyond the maximum"},
    };
    struct aw_replay replay;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(aw_replay_init(&replay, &cases[i].config, NULL), AW_ERR_LIMIT);
        assert_null(replay.rows);
        aw_replay_deinit(&replay);
    }
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw_replay_init(&replay, &(struct aw_replay_config){8, S, A}, &counting.alloc),
                     AW_ERR_NOMEM);
    aw_replay_deinit(&replay);
    assert_int_equal(counting.free_count, 0);
}

AW_TEST_GROUP("replay")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_returns_whole_transitions_and_nothing_overwritten),
        cmocka_unit_test(every_transition_is_drawn_equally_often),
        cmocka_unit_test(what_is_not_finite_is_refused_and_leaves_no_trace),
        cmocka_unit_test(impossible_sizes_and_missing_memory_leave_a_zeroed_ring),
    };
    return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
