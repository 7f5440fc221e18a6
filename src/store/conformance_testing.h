/*
 * conformance_testing.h - one suite for every backend of the store; included by tests alone.
 *
 * A test program fills a `struct backend` per backend and runs AW_CONFORMANCE(&backend) with
 * cmocka. Every test begins with an empty store at a URL of its own.
 */
#ifndef AW_STORE_CONFORMANCE_TESTING_H
#define AW_STORE_CONFORMANCE_TESTING_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/testing.h"
#include "store/backend.h"

struct backend {
    bool lasts; /* what was kept is there after a close */
    struct aw_store_options options;
    char url[512];
    uint32_t opened;                       /* stores so far, for names of their own */
    void (*name_next)(struct backend *it); /* sets url to that of an empty store */
};

#define OBS      5u
#define ACT      3u
#define TWIN_MAX 600u

/* A row whose every number follows from its key, with memory for its vectors. */
struct sample_row {
    struct aw_store_row row;
    char name[AW_STORE_NAME_MAX];
    float obs[OBS], next_obs[OBS], action[ACT], shadow[ACT];
};

static inline void make_row(struct sample_row *r, const char *workload, uint32_t episode,
                            uint32_t step)
{
    struct aw_rng rng;
    *r = (struct sample_row){0};
    aw_rng_init(&rng, aw__key(episode, step), workload[0]);
    snprintf(r->name, sizeof r->name, "%s", workload);
    aw_rng_fill_normal(&rng, r->obs, OBS);
    aw_rng_fill_normal(&rng, r->next_obs, OBS);
    aw_rng_fill_uniform(&rng, r->action, ACT, -1, 1);
    aw_rng_fill_uniform(&rng, r->shadow, ACT, -1, 1);
    r->obs[0] = -0.0f;
    r->obs[1] = 1e-42f; /* not normal */
    r->row = (struct aw_store_row){
        .workload = r->name,
        .episode = episode,
        .step = step,
        .at_us = 1700000000000000 + (int64_t)episode * 1500000000 + (int64_t)step * 15000000,
        .stage = episode % AW_STAGE_COUNT,
        .actor = step % AW_ACTOR_COUNT,
        .policy_id = aw_rng_u64(&rng) | 1ull << 63,
        .obs_dim = OBS,
        .act_dim = ACT,
        .obs = r->obs,
        .action = r->action,
        .shadow = step % 3 ? r->shadow : NULL,
        .reward = aw_rng_float(&rng) * 2,
        .next_obs = r->next_obs,
        .figures =
            {
                .arrivals_per_s = aw_rng_double(&rng) * 1e3,
                .latency_us_p99 = step % 2 ? aw_rng_double(&rng) * 1e6 : (double)NAN,
                .slo_preservation = aw_rng_double(&rng),
                .cpu_utilisation = aw_rng_double(&rng),
                .memory_utilisation = 0,
                .cost = 1e-300,
                .paper_reward = aw_rng_normal(&rng),
                .replicas = 1 + step,
                .violated = step % 4 == 1,
                .cpu_millicores = INT64_MAX,
                .memory_bytes = INT64_MIN,
            },
    };
    for (uint32_t k = AW_RESOURCE_MEMORY + 1; k < AW_RESOURCES; k++)
        r->row.figures.amount[k] = INT64_MAX - k - step;
}

static inline void open_next(struct backend *it, struct aw_store *store)
{
    struct aw_diag diag = {0};
    it->opened++;
    it->name_next(it);
    if (aw_store_open(store, it->url, &it->options, NULL, &diag))
        fail_msg("%s: %s: %s", it->url, diag.file, diag.text);
}

/* Closes and opens again where the backend lasts. */
static inline void open_again(struct backend *it, struct aw_store *store)
{
    if (!it->lasts)
        return;
    aw_store_close(store);
    assert_ok(aw_store_open(store, it->url, &it->options, NULL, NULL));
}

static inline void append_row(struct aw_store *store, const char *workload, uint32_t episode,
                              uint32_t step, bool end)
{
    struct sample_row r;
    struct aw_diag diag = {0};
    make_row(&r, workload, episode, step);
    r.row.truncated = end;
    if (aw_store_append(store, &r.row, &diag))
        fail_msg("%s", diag.text);
}

static inline void append_episode(struct aw_store *store, const char *workload, uint32_t episode,
                                  uint32_t steps, bool end)
{
    assert_ok(aw_store_begin(store, NULL));
    for (uint32_t i = 0; i < steps; i++)
        append_row(store, workload, episode, i, end && i + 1 == steps);
    assert_ok(aw_store_commit(store, NULL));
}

struct counting {
    uint32_t count;
    uint32_t stop_at;
    uint32_t first_episode, first_step, last_episode, last_step;
    char first[AW_STORE_NAME_MAX];
};

static inline enum aw_err count_row(void *ctx, const struct aw_store_row *row)
{
    struct counting *counting = ctx;
    if (counting->count == 0) {
        counting->first_episode = row->episode;
        counting->first_step = row->step;
        snprintf(counting->first, sizeof counting->first, "%s", row->workload);
    }
    counting->last_episode = row->episode;
    counting->last_step = row->step;
    counting->count++;
    return counting->count == counting->stop_at ? AW_ERR_INTERRUPTED : AW_OK;
}

static inline enum aw_err same_as_made(void *ctx, const struct aw_store_row *row)
{
    struct sample_row r;
    make_row(&r, row->workload, row->episode, row->step);
    r.row.truncated = row->truncated;
    assert_true(aw__row_same(&r.row, row));
    ++*(uint32_t *)ctx;
    return AW_OK;
}

/* ---- the tests ---- */

static inline void an_empty_store_has_nothing(void **state)
{
    struct aw_store store;
    struct aw_store_counts counts = {1, 1, 1};
    struct aw_store_last last;
    struct aw_store_episode episodes[2];
    struct aw_rng rng;
    uint32_t count = 9;
    struct counting counting = {0};
    aw_rng_init(&rng, 1, 0);
    open_next(*state, &store);
    assert_ok(aw_store_counts(&store, NULL, &counts, NULL));
    assert_true(!counts.workloads && !counts.episodes && !counts.rows);
    assert_ok(aw_store_counts(&store, "web", &counts, NULL));
    assert_true(!counts.workloads && !counts.episodes && !counts.rows);
    assert_int_equal(aw_store_last(&store, "web", &last, NULL), AW_ERR_NODATA);
    assert_ok(aw_store_recent_returns(&store, "web", 2, episodes, &count, NULL));
    assert_int_equal(count, 0);
    assert_ok(aw_store_top_episodes(&store, "web", 2, episodes, &count, NULL));
    assert_int_equal(count, 0);
    assert_int_equal(aw_store_sample(&store, "web", 1, &rng, &(struct aw_store_batch){0}, NULL),
                     AW_ERR_NODATA);
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &counting, NULL));
    assert_int_equal(counting.count, 0);
    assert_ok(aw_store_flush(&store, NULL));
    assert_ok(aw_store_check(&store, NULL));
    aw_store_close(&store);
    aw_store_close(&store);
}

static inline void rows_come_back_bit_by_bit(void **state)
{
    struct aw_store store;
    uint32_t seen = 0;
    open_next(*state, &store);
    append_episode(&store, "shop/web, \"front\" \\ = \xc3\xa9 'x'", 0, 9, true);
    append_episode(&store, "b", 3, 9, false);
    for (uint32_t i = 0; i < 2; i++) {
        seen = 0;
        assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, same_as_made, &seen, NULL));
        assert_int_equal(seen, 18);
        open_again(*state, &store);
    }
    aw_store_close(&store);
}

static inline void the_largest_row_comes_back(void **state)
{
    static float wide[AW_STORE_OBS_MAX];
    struct backend *it = *state;
    struct backend large = *it;
    struct aw_store store;
    struct sample_row r;
    struct aw_store_last last;
    float read[AW_STORE_OBS_MAX], reward;
    uint32_t count;
    char name[AW_STORE_NAME_MAX];
    for (uint32_t i = 0; i < AW_STORE_OBS_MAX; i++)
        wide[i] = -1.17549435e-38f / (float)(i + 1);
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    large.options.obs_dim_max = AW_STORE_OBS_MAX;
    large.options.act_dim_max = AW_STORE_ACT_MAX;
    open_next(&large, &store);
    it->opened = large.opened;
    make_row(&r, name, AW_STORE_EPISODE_MAX, UINT32_MAX);
    r.row.obs = r.row.next_obs = r.row.action = r.row.shadow = wide;
    r.row.obs_dim = AW_STORE_OBS_MAX;
    r.row.act_dim = AW_STORE_ACT_MAX;
    r.row.at_us = INT64_MAX;
    r.row.reward = 3.40282347e38f;
    r.row.terminated = true;
    assert_ok(aw_store_append(&store, &r.row, NULL));
    assert_ok(aw_store_append(&store, &r.row, NULL));
    assert_ok(aw_store_last(&store, name, &last, NULL));
    assert_true(last.episode == AW_STORE_EPISODE_MAX && last.step == UINT32_MAX && last.ended);
    struct aw_store_batch batch = {
        AW_STORE_OBS_MAX, AW_STORE_ACT_MAX, NULL, NULL, &reward, read, NULL};
    assert_ok(aw_store_read_episode(&store, name, AW_STORE_EPISODE_MAX, 1, &batch, &count, NULL));
    assert_memory_equal(read, wide, sizeof wide);
    assert_true(reward == r.row.reward);
    aw_store_close(&store);
}

static inline void the_same_row_again_is_nothing_and_another_is_a_conflict(void **state)
{
    static const struct {
        const char *why;
        size_t offset;
    } changed[] = {{"time", offsetof(struct aw_store_row, at_us)},
                   {"stage", offsetof(struct aw_store_row, stage)},
                   {"actor", offsetof(struct aw_store_row, actor)},
                   {"model", offsetof(struct aw_store_row, policy_id)},
                   {"reward", offsetof(struct aw_store_row, reward)},
                   {"terminated", offsetof(struct aw_store_row, terminated)},
                   {"truncated", offsetof(struct aw_store_row, truncated)},
                   {"cost", offsetof(struct aw_store_row, figures.cost)},
#define X(id, member, ...) {#member, offsetof(struct aw_store_row, figures.member)},
                   AW_RESOURCE_MAP(X)
#undef X
    };
    struct aw_store store;
    struct sample_row r;
    struct aw_store_counts counts;
    struct aw_diag diag;
    open_next(*state, &store);
    append_episode(&store, "web", 0, 4, true);
    append_episode(&store, "web", 1, 2, false);
    for (uint32_t pass = 0; pass < 2; pass++) {
        append_row(&store, "web", 0, 0, false);
        append_row(&store, "web", 1, 1, false);
        for (uint32_t i = 0; i < sizeof changed / sizeof *changed; i++) {
            make_row(&r, "web", 0, 2);
            assert_ok(aw_store_append(&store, &r.row, NULL));
            ((unsigned char *)&r.row)[changed[i].offset] ^= 1;
            if (aw_store_append(&store, &r.row, &diag) != AW_ERR_CONFLICT)
                fail_msg("%s changed, and it was no conflict", changed[i].why);
            assert_non_null(strstr(diag.text, "episode 0, step 2"));
        }
        make_row(&r, "web", 0, 2);
        r.obs[0] = 0.0f;
        assert_int_equal(aw_store_append(&store, &r.row, NULL), AW_ERR_CONFLICT);
        make_row(&r, "web", 0, 2);
        r.row.shadow = NULL;
        assert_int_equal(aw_store_append(&store, &r.row, NULL), AW_ERR_CONFLICT);
        make_row(&r, "web", 0, 2);
        r.row.obs_dim--;
        assert_int_equal(aw_store_append(&store, &r.row, NULL), AW_ERR_CONFLICT);
        /* also beside good rows in one group, which are kept */
        assert_ok(aw_store_begin(&store, NULL));
        append_row(&store, "web", 1, 2 + pass, false);
        assert_int_equal(aw_store_append(&store, &r.row, NULL), AW_ERR_CONFLICT);
        assert_ok(aw_store_commit(&store, NULL));
        assert_ok(aw_store_counts(&store, "web", &counts, NULL));
        assert_int_equal(counts.rows, 7 + pass);
        open_again(*state, &store);
    }
    assert_ok(aw_store_check(&store, NULL));
    aw_store_close(&store);
}

static inline void a_zero_that_lost_its_sign_is_the_same(void **state)
{
    struct aw_store store;
    struct sample_row r;
    open_next(*state, &store);
    make_row(&r, "web", 0, 0);
    r.row.reward = -0.0f;
    r.row.figures.cost = -0.0;
    r.row.figures.paper_reward = -(double)NAN;
    assert_ok(aw_store_append(&store, &r.row, NULL));
    assert_ok(aw_store_append(&store, &r.row, NULL));
    r.row.reward = 0.0f;
    r.row.figures.cost = 0.0;
    r.row.figures.paper_reward = (double)NAN;
    assert_ok(aw_store_append(&store, &r.row, NULL));
    aw_store_close(&store);
}

static inline void what_is_no_row_is_refused(void **state)
{
    struct aw_store store;
    struct sample_row r;
    struct aw_store_counts counts;
    struct aw_diag diag;
    char long_name[AW_STORE_NAME_MAX + 1];
    memset(long_name, 'x', sizeof long_name);
    long_name[AW_STORE_NAME_MAX] = '\0';
    const char *names[] = {"", NULL, "a\nb", "\xff", long_name};
    open_next(*state, &store);
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        make_row(&r, "web", 0, 0);
        r.row.workload = names[i];
        assert_int_equal(aw_store_append(&store, &r.row, &diag), AW_ERR_RANGE);
        assert_string_equal(diag.key, "workload");
    }
    for (uint32_t i = 0; i < 12; i++) {
        make_row(&r, "web", 0, 1);
        enum aw_err expected = i < 6 ? AW_ERR_DIVERGED : AW_ERR_RANGE;
        switch (i) {
        case 0:
            r.obs[2] = NAN;
            break;
        case 1:
            r.next_obs[OBS - 1] = INFINITY;
            break;
        case 2:
            r.action[0] = -INFINITY;
            break;
        case 3:
            r.shadow[ACT - 1] = NAN;
            break;
        case 4:
            r.row.reward = NAN;
            break;
        case 5:
            r.row.figures.cost = (double)INFINITY;
            break;
        case 6:
            r.row.obs_dim = 0;
            break;
        case 7:
            r.row.act_dim = AW_STORE_ACT_MAX + 1;
            break;
        case 8:
            r.row.stage = AW_STAGE_COUNT;
            break;
        case 9:
            r.row.actor = AW_ACTOR_COUNT;
            break;
        case 10:
            r.row.figures.violated = 2;
            break;
        default:
            r.row.episode = AW_STORE_EPISODE_MAX + 1;
            break;
        }
        if (aw_store_append(&store, &r.row, &diag) != expected)
            fail_msg("case %u", i);
        assert_true(diag.text[0] && diag.key[0]);
    }
    assert_ok(aw_store_counts(&store, NULL, &counts, NULL));
    assert_int_equal(counts.rows, 0);
    aw_store_close(&store);
}

static inline void a_group_is_seen_at_once_and_kept_by_commit(void **state)
{
    struct aw_store store;
    struct aw_store_last last;
    struct counting counting = {0};
    open_next(*state, &store);
    assert_ok(aw_store_begin(&store, NULL));
    append_row(&store, "a", 0, 0, false);
    append_row(&store, "b", 0, 0, false);
    append_row(&store, "a", 0, 1, false);
    append_row(&store, "a", 0, 1, false);
    assert_ok(aw_store_last(&store, "a", &last, NULL));
    assert_int_equal(last.step, 1);
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &counting, NULL));
    assert_int_equal(counting.count, 3);
    assert_ok(aw_store_commit(&store, NULL));
    open_again(*state, &store);
    counting = (struct counting){0};
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &counting, NULL));
    assert_int_equal(counting.count, 3);
    assert_ok(aw_store_begin(&store, NULL));
    assert_ok(aw_store_commit(&store, NULL));
    aw_store_close(&store);
}

static inline void scans_keep_to_their_range_and_order(void **state)
{
    static const struct {
        const char *why, *workload;
        uint32_t e0, s0, e1, s1;
        int64_t from_s, until_s; /* since the first row */
        uint32_t count, first_episode, first_step;
    } cases[] = {
        {"everything, names in order", NULL, 0, 0, 99, 99, 0, 1 << 20, 20, 0, 0},
        {"one workload", "b", 0, 0, 99, 99, 0, 1 << 20, 10, 0, 0},
        {"nobody", "c", 0, 0, 99, 99, 0, 1 << 20, 0, 0, 0},
        {"one episode", "a", 1, 0, 1, 99, 0, 1 << 20, 5, 1, 0},
        {"across a boundary", "a", 0, 3, 1, 1, 0, 1 << 20, 4, 0, 3},
        {"one row", "a", 1, 2, 1, 2, 0, 1 << 20, 1, 1, 2},
        {"from the middle", "a", 1, 4, 9, 0, 0, 1 << 20, 1, 1, 4},
        {"nothing between", "a", 0, 7, 0, 99, 0, 1 << 20, 0, 0, 0},
        {"turned around", "a", 1, 0, 0, 99, 0, 1 << 20, 0, 0, 0},
        {"time, both ends included", "a", 0, 0, 99, 99, 15, 45, 3, 0, 1},
        {"time over episodes", "b", 0, 0, 99, 99, 60, 1500, 2, 0, 4},
    };
    struct aw_store store;
    open_next(*state, &store);
    append_episode(&store, "b", 0, 5, true);
    append_episode(&store, "a", 0, 5, true);
    append_episode(&store, "a", 1, 5, false);
    append_episode(&store, "b", 1, 5, false);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct counting counting = {0};
        struct aw_store_query query = {cases[i].workload,
                                       cases[i].e0,
                                       cases[i].s0,
                                       cases[i].e1,
                                       cases[i].s1,
                                       1700000000000000 + cases[i].from_s * 1000000,
                                       1700000000000000 + cases[i].until_s * 1000000};
        assert_ok(aw_store_scan(&store, &query, count_row, &counting, NULL));
        if (counting.count != cases[i].count ||
            (counting.count && (counting.first_episode != cases[i].first_episode ||
                                counting.first_step != cases[i].first_step)))
            fail_msg("%s: %u rows from (%u, %u)", cases[i].why, counting.count,
                     counting.first_episode, counting.first_step);
        if (i == 0)
            assert_string_equal(counting.first, "a");
    }
    struct counting stopped = {.stop_at = 3};
    assert_int_equal(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &stopped, NULL),
                     AW_ERR_INTERRUPTED);
    assert_int_equal(stopped.count, 3);
    append_row(&store, "a", 1, 5, false); /* a scan that was stopped stands in nobody's way */
    aw_store_close(&store);
}

static inline void only_ended_episodes_have_returns(void **state)
{
    struct aw_store store;
    struct aw_store_episode e[4];
    uint32_t count;
    open_next(*state, &store);
    append_episode(&store, "a", 0, 2, true);
    append_episode(&store, "a", 1, 3, false); /* abandoned */
    append_episode(&store, "a", 2, 4, true);
    append_episode(&store, "a", 3, 1, false); /* at work */
    assert_ok(aw_store_recent_returns(&store, "a", 4, e, &count, NULL));
    assert_int_equal(count, 2);
    assert_int_equal(e[0].episode, 0);
    assert_int_equal(e[1].episode, 2);
    assert_int_equal(e[1].step_count, 4);
    assert_int_equal(e[1].violation_count, 1);
    assert_true(e[1].ended && e[1].last_us - e[1].first_us == 3 * 15000000);
    assert_close(e[1].reward_mean, e[1].reward_sum / 4, 0);
    assert_ok(aw_store_recent_returns(&store, "a", 1, e, &count, NULL));
    assert_true(count == 1 && e[0].episode == 2);
    assert_ok(aw_store_top_episodes(&store, "a", 0, e, &count, NULL));
    assert_int_equal(count, 0);
    aw_store_close(&store);
}

static inline void of_equal_returns_the_newer_is_better(void **state)
{
    static const float rewards[] = {1, -5, 1, 2, -5};
    struct aw_store store;
    struct aw_store_episode e[5];
    uint32_t count;
    static const uint32_t expected[] = {3, 2, 0, 4, 1};
    open_next(*state, &store);
    for (uint32_t i = 0; i < 5; i++) {
        struct sample_row r;
        make_row(&r, "a", i, 0);
        r.row.reward = rewards[i];
        r.row.terminated = true;
        assert_ok(aw_store_append(&store, &r.row, NULL));
    }
    for (uint32_t m = 1; m <= 5; m++) {
        assert_ok(aw_store_top_episodes(&store, "a", m, e, &count, NULL));
        assert_int_equal(count, m);
        for (uint32_t i = 0; i < m; i++)
            assert_int_equal(e[i].episode, expected[i]);
    }
    aw_store_close(&store);
}

static inline void samples_are_uniform_and_the_same_for_a_seed(void **state)
{
    enum { ROWS = 12, DRAWS = 3000 };
    struct aw_store store;
    struct aw_rng rng, twin;
    uint32_t hits[ROWS] = {0}, steps[] = {4, 1, 5, 2}, next = 0;
    float first[ROWS] = {0}, reward[DRAWS], obs[DRAWS][OBS];
    open_next(*state, &store);
    for (uint32_t e = 0; e < 4; e++) {
        append_episode(&store, "a", e * 7, steps[e], e < 3);
        append_episode(&store, "b", e, 3, e < 3);
        for (uint32_t i = 0; i < steps[e]; i++) {
            struct sample_row r;
            make_row(&r, "a", e * 7, i);
            first[next++] = r.row.reward;
        }
    }
    aw_rng_init(&rng, 5, 0);
    twin = rng;
    struct aw_store_batch batch = {OBS, ACT, &obs[0][0], NULL, reward, NULL, NULL};
    assert_ok(aw_store_sample(&store, "a", DRAWS, &rng, &batch, NULL));
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t rank = aw_rng_below(&twin, ROWS); /* the rank-th row in the order of keys */
        assert_true(reward[i] == first[rank]);
        hits[rank]++;
    }
    for (uint32_t i = 0; i < ROWS; i++) /* 250 expected, deviation 15 */
        assert_in_range(hits[i], 175, 325);
    batch.obs_dim = OBS + 1;
    assert_int_equal(aw_store_sample(&store, "a", 1, &rng, &batch, NULL), AW_ERR_FORMAT);
    batch.obs_dim = OBS;
    assert_int_equal(aw_store_sample(&store, "a", AW_STORE_BATCH_MAX + 1, &rng, &batch, NULL),
                     AW_ERR_LIMIT);
    aw_store_close(&store);
}

static inline void an_episode_is_read_into_slices(void **state)
{
    struct aw_store store;
    float obs[4][OBS], action[4][ACT], next_obs[4][OBS], reward[4];
    bool terminated[4] = {true, true, true, true};
    uint32_t count = 0;
    struct aw_store_batch batch = {
        OBS, ACT, &obs[0][0], &action[0][0], reward, &next_obs[0][0], terminated};
    open_next(*state, &store);
    append_episode(&store, "a", 6, 4, true);
    append_episode(&store, "a", 7, 4, true);
    assert_ok(aw_store_read_episode(&store, "a", 7, 4, &batch, &count, NULL));
    assert_int_equal(count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        struct sample_row r;
        make_row(&r, "a", 7, i);
        assert_memory_equal(obs[i], r.obs, sizeof r.obs);
        assert_memory_equal(next_obs[i], r.next_obs, sizeof r.next_obs);
        assert_memory_equal(action[i], r.action, sizeof r.action);
        assert_true(reward[i] == r.row.reward && !terminated[i]);
    }
    assert_int_equal(aw_store_read_episode(&store, "a", 7, 3, &batch, &count, NULL), AW_ERR_LIMIT);
    assert_int_equal(aw_store_read_episode(&store, "a", 5, 3, &batch, &count, NULL), AW_ERR_NODATA);
    aw_store_close(&store);
}

static inline void retention_drops_whole_episodes_and_never_the_latest(void **state)
{
    static const struct {
        const char *why;
        struct aw_store_retention retention;
        uint32_t dropped, rows_a, rows_b;
    } cases[] = {
        {"no limit", {0, 0, INT64_MIN}, 0, 20, 9},
        {"three episodes each", {3, 0, INT64_MIN}, 5, 15, 9},
        {"one each", {1, 0, INT64_MIN}, 15 + 6, 5, 3},
        {"those over before the third began", {0, 0, 1700003000000000}, 10 + 6, 10, 3},
        {"later than all: the latest stay", {0, 0, INT64_MAX}, 15 + 6, 5, 3},
        {"rows: the first begun go, a before b", {0, 24, INT64_MIN}, 5, 15, 9},
        {"rows: one more is one episode more", {0, 23, INT64_MIN}, 8, 15, 6},
        {"rows: fewer than the latest have", {0, 1, INT64_MIN}, 15 + 6, 5, 3},
        {"both", {3, 21, INT64_MIN}, 8, 15, 6},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_store store;
        struct aw_store_counts a, b;
        uint64_t dropped = 99;
        open_next(*state, &store);
        for (uint32_t e = 0; e < 3; e++) {
            append_episode(&store, "b", e, 3, true);
            append_episode(&store, "a", e, 5, true);
        }
        append_episode(&store, "a", 3, 5, false);
        assert_ok(aw_store_retain(&store, &cases[i].retention, &dropped, NULL));
        open_again(*state, &store);
        assert_ok(aw_store_counts(&store, "a", &a, NULL));
        assert_ok(aw_store_counts(&store, "b", &b, NULL));
        if (dropped != cases[i].dropped || a.rows != cases[i].rows_a || b.rows != cases[i].rows_b)
            fail_msg("%s: %u dropped, %u and %u left", cases[i].why, (unsigned)dropped,
                     (unsigned)a.rows, (unsigned)b.rows);
        assert_ok(aw_store_check(&store, NULL));
        append_row(&store, "a", 3, 5, true);
        aw_store_close(&store);
    }
}

/* ---- a naive twin: an array of keys, sorted by looking at all of it ---- */

struct twin {
    struct {
        char workload[2];
        uint32_t episode, step;
        bool end;
    } row[TWIN_MAX];
    uint32_t count;
};

static inline bool twin_has(const struct twin *twin, const char *workload, uint32_t episode,
                            uint32_t step)
{
    for (uint32_t i = 0; i < twin->count; i++) {
        if (!strcmp(twin->row[i].workload, workload) && twin->row[i].episode == episode &&
            twin->row[i].step == step)
            return true;
    }
    return false;
}

static inline void a_store_agrees_with_a_plain_array(void **state)
{
    static struct twin twin;
    struct aw_store store;
    struct aw_rng rng;
    uint32_t seen = 0, found;
    aw_rng_init(&rng, 11, 0);
    twin = (struct twin){0};
    open_next(*state, &store);
    while (twin.count < TWIN_MAX) { /* in any order, some of them twice */
        char workload[2] = {(char)('a' + aw_rng_below(&rng, 3)), '\0'};
        uint32_t episode = aw_rng_below(&rng, 12), step = aw_rng_below(&rng, 40);
        bool end = step == 39;
        if (aw_rng_below(&rng, 20) == 0) {
            if (store.grouped)
                assert_ok(aw_store_commit(&store, NULL));
            else
                assert_ok(aw_store_begin(&store, NULL));
        }
        append_row(&store, workload, episode, step, end);
        if (!twin_has(&twin, workload, episode, step)) {
            memcpy(twin.row[twin.count].workload, workload, 2);
            twin.row[twin.count].episode = episode;
            twin.row[twin.count].step = step;
            twin.row[twin.count++].end = end;
        }
    }
    if (store.grouped)
        assert_ok(aw_store_commit(&store, NULL));
    open_again(*state, &store);
    assert_ok(aw_store_check(&store, NULL));
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, same_as_made, &seen, NULL));
    assert_int_equal(seen, TWIN_MAX);
    for (char name[2] = "a"; name[0] <= 'c'; name[0]++) {
        struct aw_store_episode e[12];
        struct aw_store_counts counts;
        uint32_t rows = 0, ended = 0;
        double sum[12] = {0};
        bool ends[12] = {false};
        for (uint32_t i = 0; i < twin.count; i++) {
            struct sample_row r;
            if (strcmp(twin.row[i].workload, name) != 0)
                continue;
            make_row(&r, name, twin.row[i].episode, twin.row[i].step);
            sum[twin.row[i].episode] += (double)r.row.reward;
            ends[twin.row[i].episode] |= twin.row[i].end;
            rows++;
        }
        for (uint32_t i = 0; i < 12; i++)
            ended += ends[i];
        assert_ok(aw_store_counts(&store, name, &counts, NULL));
        assert_int_equal(counts.rows, rows);
        assert_ok(aw_store_recent_returns(&store, name, 12, e, &found, NULL));
        assert_int_equal(found, ended);
        for (uint32_t i = 0; i < found; i++) {
            assert_close(e[i].reward_sum, sum[e[i].episode], 1e-12); /* summed in another order */
            assert_true(i == 0 || e[i].episode > e[i - 1].episode);
        }
        assert_ok(aw_store_top_episodes(&store, name, 12, e, &found, NULL));
        assert_int_equal(found, ended);
        for (uint32_t i = 1; i < found; i++)
            assert_true(e[i].reward_sum <= e[i - 1].reward_sum);
    }
    aw_store_close(&store);
}

struct naming {
    char all[64];
    uint64_t rows;
};

static inline enum aw_err add_name(void *ctx, const char *workload,
                                   const struct aw_store_counts *counts)
{
    struct naming *naming = ctx;
    size_t len = strlen(naming->all);
    snprintf(naming->all + len, sizeof naming->all - len, "%s;", workload);
    naming->rows += counts->rows;
    assert_int_equal(counts->workloads, 1);
    return strcmp(workload, "zz") ? AW_OK : AW_ERR_CHECK;
}

static inline void workloads_are_visited_by_name(void **state)
{
    struct aw_store store;
    struct naming naming = {0};
    open_next(*state, &store);
    append_episode(&store, "m", 0, 3, true);
    append_episode(&store, "b", 0, 2, true);
    append_episode(&store, "m", 1, 2, true);
    append_episode(&store, "Z", 0, 1, true);
    assert_ok(aw_store_workloads(&store, add_name, &naming, NULL));
    assert_string_equal(naming.all, "Z;b;m;");
    assert_int_equal(naming.rows, 8);
    append_row(&store, "zz", 0, 0, false);
    assert_int_equal(aw_store_workloads(&store, add_name, &naming, NULL), AW_ERR_CHECK);
    aw_store_close(&store);
}

#define AW_CONFORMANCE_TEST(f, it) cmocka_unit_test_prestate(f, it)
/* clang-format off */
#define AW_CONFORMANCE(it)                                                                         \
    AW_CONFORMANCE_TEST(an_empty_store_has_nothing, it),                                           \
    AW_CONFORMANCE_TEST(rows_come_back_bit_by_bit, it),                                            \
    AW_CONFORMANCE_TEST(the_largest_row_comes_back, it),                                           \
    AW_CONFORMANCE_TEST(the_same_row_again_is_nothing_and_another_is_a_conflict, it),              \
    AW_CONFORMANCE_TEST(a_zero_that_lost_its_sign_is_the_same, it),                                \
    AW_CONFORMANCE_TEST(what_is_no_row_is_refused, it),                                            \
    AW_CONFORMANCE_TEST(a_group_is_seen_at_once_and_kept_by_commit, it),                           \
    AW_CONFORMANCE_TEST(scans_keep_to_their_range_and_order, it),                                  \
    AW_CONFORMANCE_TEST(only_ended_episodes_have_returns, it),                                     \
    AW_CONFORMANCE_TEST(of_equal_returns_the_newer_is_better, it),                                 \
    AW_CONFORMANCE_TEST(samples_are_uniform_and_the_same_for_a_seed, it),                          \
    AW_CONFORMANCE_TEST(an_episode_is_read_into_slices, it),                                       \
    AW_CONFORMANCE_TEST(retention_drops_whole_episodes_and_never_the_latest, it),                  \
    AW_CONFORMANCE_TEST(a_store_agrees_with_a_plain_array, it),                                    \
    AW_CONFORMANCE_TEST(workloads_are_visited_by_name, it)
/* clang-format on */

#endif
