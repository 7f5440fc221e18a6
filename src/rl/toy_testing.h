/*
 * toy_testing.h - a world of chance for tests of learners, with every agent-level check that PPO
 * and DQN share. Included by tests alone.
 *
 * Observations and rewards are drawn, a few episodes end either way, and the action moves the next
 * observation, so that a single wrong bit in a learner changes everything after it. The world is a
 * plain struct: a copy continues identically, which is what a test of exact resume needs.
 */
#ifndef AW_RL_TOY_TESTING_H
#define AW_RL_TOY_TESTING_H

#include "base/rng.h"
#include "base/testing.h"
#include "rl/agents.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOY_ENVS = 3, TOY_OBS = 4, TOY_ACT = 2, TOY_CHOICES = 3 };

static const float toy_low[TOY_ACT] = {-2, 10}, toy_high[TOY_ACT] = {2, 50};

struct toy {
    struct aw_rng rng;
    uint32_t act_dim;
    float obs[TOY_ENVS * TOY_OBS], next_obs[TOY_ENVS * TOY_OBS];
    float action[TOY_ENVS * TOY_ACT];
    float reward[TOY_ENVS];
    bool terminated[TOY_ENVS], truncated[TOY_ENVS];
};

static inline struct aw_agent_shape toy_shape(enum aw_agent_action action)
{
    bool discrete = action == AW_AGENT_DISCRETE;
    return (struct aw_agent_shape){
        .env_count = TOY_ENVS,
        .obs_dim = TOY_OBS,
        .action = action,
        .act_dim = discrete ? 1 : TOY_ACT,
        .act_n = discrete ? TOY_CHOICES : 0,
        .act_low = toy_low,
        .act_high = toy_high,
    };
}

static inline void toy_init(struct toy *toy, enum aw_agent_action action, uint64_t seed)
{
    memset(toy, 0, sizeof *toy);
    aw_rng_init(&toy->rng, seed, 0);
    toy->act_dim = action == AW_AGENT_DISCRETE ? 1 : TOY_ACT;
    aw_rng_fill_normal(&toy->rng, toy->obs, TOY_ENVS * TOY_OBS);
}

static inline struct aw_transition toy_transition(const struct toy *toy)
{
    return (struct aw_transition){toy->obs,      toy->action,     toy->reward,
                                  toy->next_obs, toy->terminated, toy->truncated};
}

static inline enum aw_err toy_act(struct toy *toy, struct aw_agent *agent)
{
    return agent->ops->act(agent->self, toy->obs, TOY_ENVS, true, toy->action);
}

/* The world moves, the agent observes and learns. */
static inline enum aw_err toy_finish(struct toy *toy, struct aw_agent *agent,
                                     struct aw_learn_stats *stats)
{
    for (uint32_t n = 0; n < TOY_ENVS; n++) {
        for (uint32_t i = 0; i < TOY_OBS; i++)
            toy->next_obs[n * TOY_OBS + i] =
                0.5f * toy->obs[n * TOY_OBS + i] + (float)aw_rng_normal(&toy->rng);
        toy->next_obs[n * TOY_OBS] += 0.1f * toy->action[n * toy->act_dim];
        toy->reward[n] = toy->next_obs[n * TOY_OBS];
        toy->terminated[n] = aw_rng_below(&toy->rng, 10) == 0;
        toy->truncated[n] = aw_rng_below(&toy->rng, 10) == 0;
    }
    struct aw_transition transition = toy_transition(toy);
    enum aw_err err = agent->ops->observe(agent->self, &transition);
    err = err ? err : agent->ops->learn(agent->self, stats);
    memcpy(toy->obs, toy->next_obs, sizeof toy->obs);
    for (uint32_t n = 0; n < TOY_ENVS; n++)
        if (toy->terminated[n] || toy->truncated[n])
            aw_rng_fill_normal(&toy->rng, toy->obs + n * TOY_OBS, TOY_OBS);
    return err;
}

static inline void toy_run(struct toy *toy, struct aw_agent *agent, int steps)
{
    for (int i = 0; i < steps; i++) {
        assert_ok(toy_act(toy, agent));
        assert_ok(toy_finish(toy, agent, NULL));
    }
}

static inline void toy_settings(const struct aw_agent_factory *factory, const char *const *pairs,
                                void *settings)
{
    struct aw_diag diag;
    assert_ok(aw_agent_settings(factory, "", settings, &diag));
    for (size_t i = 0; pairs && pairs[i]; i++)
        if (aw_conf_set_pair(factory->fields, settings, pairs[i], &diag))
            fail_msg("%s: %s", pairs[i], diag.text);
}

static inline void toy_make(const struct aw_agent_factory *factory, const char *const *pairs,
                            enum aw_agent_action action, uint64_t seed,
                            const struct aw_alloc *alloc, struct aw_agent *ret_agent)
{
    _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    struct aw_agent_shape shape = toy_shape(action);
    struct aw_diag diag = {0};
    toy_settings(factory, pairs, settings);
    if (factory->make(&shape, settings, seed, alloc, ret_agent, &diag))
        fail_msg("%s", diag.text);
}

/* ---- files ---- */

struct toy_file {
    unsigned char *bytes;
    size_t size;
};

static inline void toy_dir(char *dir, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, size, "%s/aware-toy-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
}

static inline void toy_dir_remove(const char *dir)
{
    static const char *const files[] = {"model.safetensors", "state.safetensors"};
    char path[4096];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
}

static inline struct toy_file toy_read(const char *dir, const char *name)
{
    char path[4096];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    struct toy_file read = {malloc((size_t)info.st_size), (size_t)info.st_size};
    assert_non_null(read.bytes);
    assert_int_equal(fread(read.bytes, 1, read.size, file), read.size);
    fclose(file);
    return read;
}

/* Everything the agent is, as the bytes that it saves. */
static inline struct toy_file toy_state(struct aw_agent *agent)
{
    char dir[256];
    struct aw_diag diag = {0};
    toy_dir(dir, sizeof dir);
    if (agent->ops->save(agent->self, dir, true, &diag))
        fail_msg("%s", diag.text);
    struct toy_file state = toy_read(dir, "state.safetensors");
    toy_dir_remove(dir);
    return state;
}

/* Whether both agents are the same, bit for bit. */
static inline bool toy_same(struct aw_agent *a, struct aw_agent *b)
{
    struct toy_file x = toy_state(a), y = toy_state(b);
    bool same = x.size == y.size && memcmp(x.bytes, y.bytes, x.size) == 0;
    free(x.bytes);
    free(y.bytes);
    return same;
}

/* ---- checks that every learner must pass ---- */

/* A run that is saved after `before` steps, loaded into a new agent and continued equals one that
 * was not. With `between`, it is saved between act and observe. */
static inline void toy_check_resume(const struct aw_agent_factory *factory,
                                    const char *const *pairs, enum aw_agent_action action,
                                    int before, bool between)
{
    struct aw_agent whole, resumed;
    struct aw_diag diag = {0};
    struct toy toy, copy;
    char dir[256];
    toy_dir(dir, sizeof dir);
    toy_make(factory, pairs, action, 1, NULL, &whole);
    toy_make(factory, pairs, action, 2, NULL, &resumed);
    toy_init(&toy, action, 3);
    toy_run(&toy, &whole, before);
    if (between)
        assert_ok(toy_act(&toy, &whole));
    if (whole.ops->save(whole.self, dir, true, &diag))
        fail_msg("%s", diag.text);
    toy_init(&copy, action, 4);
    toy_run(&copy, &resumed, 5); /* a load replaces whatever there was */
    copy = toy;
    if (resumed.ops->load(resumed.self, dir, true, &diag))
        fail_msg("%s", diag.text);
    if (between) {
        assert_ok(toy_finish(&toy, &whole, NULL));
        assert_ok(toy_finish(&copy, &resumed, NULL));
    }
    toy_run(&toy, &whole, 60);
    toy_run(&copy, &resumed, 60);
    assert_memory_equal(&toy, &copy, sizeof toy);

    /* Seeds differ by design and are part of the metadata: compare what was learned. */
    float probe[TOY_ENVS * TOY_OBS], a[TOY_ENVS * TOY_ACT] = {0}, b[TOY_ENVS * TOY_ACT] = {0};
    aw_rng_fill_normal(&toy.rng, probe, TOY_ENVS * TOY_OBS);
    assert_ok(whole.ops->act(whole.self, probe, TOY_ENVS, false, a));
    assert_ok(resumed.ops->act(resumed.self, probe, TOY_ENVS, false, b));
    assert_memory_equal(a, b, sizeof a);
    aw_agent_free(&whole);
    aw_agent_free(&resumed);
    toy_dir_remove(dir);
}

static inline void toy_check_no_allocation(const struct aw_agent_factory *factory,
                                           const char *const *pairs, enum aw_agent_action action)
{
    struct aw_alloc_counting counting;
    struct aw_agent agent;
    struct toy toy;
    uint64_t updates = 0;
    aw_alloc_counting_init(&counting);
    toy_make(factory, pairs, action, 1, &counting.alloc, &agent);
    uint64_t made = counting.alloc_count;
    toy_init(&toy, action, 3);
    for (int i = 0; i < 60; i++) {
        struct aw_learn_stats stats;
        assert_ok(toy_act(&toy, &agent));
        assert_ok(agent.ops->act(agent.self, toy.obs, 1, false, toy.action));
        assert_ok(toy_finish(&toy, &agent, &stats));
        updates += stats.update_count;
    }
    assert_true(updates > 0);
    assert_int_equal(counting.alloc_count, made);
    aw_agent_free(&agent);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

static inline void toy_check_failed_allocations(const struct aw_agent_factory *factory,
                                                const char *const *pairs,
                                                enum aw_agent_action action)
{
    _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    struct aw_agent_shape shape = toy_shape(action);
    toy_settings(factory, pairs, settings);
    for (uint64_t budget = 0;; budget++) {
        assert_true(budget < 100);
        struct aw_alloc_counting counting;
        struct aw_agent agent = {0};
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        enum aw_err err = factory->make(&shape, settings, 1, &counting.alloc, &agent, NULL);
        if (err) {
            assert_int_equal(err, AW_ERR_NOMEM);
            assert_null(agent.ops);
        }
        aw_agent_free(&agent);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            return;
    }
}

/* Acting without exploration is repeatable, changes nothing, and takes many rows at once. */
static inline void toy_check_greedy(const struct aw_agent_factory *factory,
                                    const char *const *pairs, enum aw_agent_action action)
{
    struct aw_agent agent, twin;
    struct toy toy, same;
    toy_make(factory, pairs, action, 1, NULL, &agent);
    toy_make(factory, pairs, action, 1, NULL, &twin);
    toy_init(&toy, action, 3);
    same = toy;
    toy_run(&toy, &agent, 40);
    toy_run(&same, &twin, 40);
    static float obs[AW_AGENT_ACT_ROWS_MAX * TOY_OBS];
    static float all[AW_AGENT_ACT_ROWS_MAX * TOY_ACT], again[AW_AGENT_ACT_ROWS_MAX * TOY_ACT];
    aw_rng_fill_normal(&toy.rng, obs, AW_AGENT_ACT_ROWS_MAX * TOY_OBS);
    same.rng = toy.rng;
    assert_ok(agent.ops->act(agent.self, obs, AW_AGENT_ACT_ROWS_MAX, false, all));
    assert_ok(agent.ops->act(agent.self, obs, AW_AGENT_ACT_ROWS_MAX, false, again));
    assert_memory_equal(all, again, AW_AGENT_ACT_ROWS_MAX * toy.act_dim * sizeof(float));
    for (uint32_t i = 0; i < AW_AGENT_ACT_ROWS_MAX; i += 100) { /* a row alone says the same */
        float one[TOY_ACT];
        assert_ok(agent.ops->act(agent.self, obs + i * TOY_OBS, 1, false, one));
        for (uint32_t k = 0; k < toy.act_dim; k++)
            assert_close((double)one[k], (double)all[i * toy.act_dim + k], 1e-4);
    }
    assert_true(toy_same(&agent, &twin));
    aw_agent_free(&agent);
    aw_agent_free(&twin);
}

/* Each non-finite number is refused at the wall, and the agent is as it was before. */
static inline void toy_check_walls(const struct aw_agent_factory *factory, const char *const *pairs,
                                   enum aw_agent_action action)
{
    struct aw_agent agent, twin;
    struct toy toy, same;
    toy_make(factory, pairs, action, 1, NULL, &agent);
    toy_make(factory, pairs, action, 1, NULL, &twin);
    toy_init(&toy, action, 3);
    same = toy;
    toy_run(&toy, &agent, 5);
    toy_run(&same, &twin, 5);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        struct toy broken = toy;
        broken.obs[5] = bad[i];
        assert_int_equal(agent.ops->act(agent.self, broken.obs, TOY_ENVS, true, broken.action),
                         AW_ERR_DIVERGED);
        assert_int_equal(agent.ops->act(agent.self, broken.obs, TOY_ENVS, false, broken.action),
                         AW_ERR_DIVERGED);
        assert_true(toy_same(&agent, &twin));
    }
    assert_ok(toy_act(&toy, &agent));
    assert_ok(toy_act(&same, &twin));
    for (size_t i = 0; i < 3; i++) {
        struct toy broken = toy;
        float *const place[] = {&broken.obs[3], &broken.action[1], &broken.reward[2],
                                &broken.next_obs[11]};
        for (size_t p = 0; p < sizeof place / sizeof *place; p++) {
            float was = *place[p];
            *place[p] = bad[i];
            struct aw_transition transition = toy_transition(&broken);
            assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_DIVERGED);
            *place[p] = was;
        }
    }
    assert_true(toy_same(&agent, &twin));
    assert_ok(toy_finish(&toy, &agent, NULL)); /* and it goes on */
    assert_ok(toy_finish(&same, &twin, NULL));
    assert_true(toy_same(&agent, &twin));
    aw_agent_free(&agent);
    aw_agent_free(&twin);
}

/* Same seed, same bytes; another seed, others. */
static inline void toy_check_seeds(const struct aw_agent_factory *factory, const char *const *pairs,
                                   enum aw_agent_action action)
{
    struct aw_agent agent[3];
    struct toy toy[3];
    for (uint64_t i = 0; i < 3; i++) {
        toy_make(factory, pairs, action, i == 2 ? 8 : 7, NULL, &agent[i]);
        toy_init(&toy[i], action, 3);
        toy_run(&toy[i], &agent[i], 60);
    }
    assert_true(toy_same(&agent[0], &agent[1]));
    assert_memory_equal(&toy[0], &toy[1], sizeof toy[0]);
    assert_memory_not_equal(&toy[0], &toy[2], sizeof toy[0]);
    for (int i = 0; i < 3; i++)
        aw_agent_free(&agent[i]);
}

#endif
