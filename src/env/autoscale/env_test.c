#include "base/alloc.h"
#include "base/space.h"
#include "base/threads.h"
#include "env/autoscale.h"
#include "env/check.h"
#include "env/vec.h"
#include "task/action.h"
#include "task/objective.h"
#include "task/reading.h"
#include "task/state.h"
#include "task/testing.h"

#include <stdlib.h>

#define OBS_MAX 512

static struct aw_env make(const char *name, const char *const *pairs, size_t count)
{
    struct aw_env env = {0};
    struct aw_diag diag;
    if (aw_env_make_with(name, pairs, count, NULL, &env, &diag))
        fail_msg("%s: %s", diag.key, diag.text);
    return env;
}

static void the_static_spec_is_what_the_defaults_make(void **state)
{
    (void)state;
    static const char *const names[] = {"autoscale-v0", "autoscale-paper-v0"};
    for (int i = 0; i < 2; i++) {
        const struct aw_env_factory *factory = NULL;
        assert_ok(aw_env_find(names[i], &factory, NULL));
        struct aw_env env = make(names[i], NULL, 0);
        const struct aw_env_spec *a = factory->spec, *b = env.spec;
        assert_int_equal(a->observation.dim, b->observation.dim);
        for (uint32_t k = 0; k < a->observation.dim; k++)
            assert_string_equal(a->observation.axes[k].name, b->observation.axes[k].name);
        assert_int_equal(a->episode_steps_max, b->episode_steps_max);
        assert_true(a->reward_low == b->reward_low && a->reward_high == b->reward_high);
        assert_int_equal(a->state_bytes, b->state_bytes);
        aw_env_free(&env);
    }
}

/* Rewards come from the metrics; with fresh metrics that are not noisy they are the truth. */
static void metrics_and_truth_agree_when_nothing_moves(void **state)
{
    (void)state;
    const char *const pairs[] = {"cluster=metric_noise=0", "objective=paper",
                                 "load=constant:mean=20,noise=0"};
    struct aw_env env = make("autoscale-v0", pairs, 3);
    float obs[OBS_MAX];
    struct aw_step step;
    const struct aw_plan stay = {0};
    double cores = 0;
    assert_ok(env.ops->reset(env.self, 3, obs));
    for (int i = 0; i < 20; i++) {
        assert_ok(aw_autoscale_step_plan(&env, &stay, obs, &step, NULL));
        const struct aw_autoscale_info *info = aw_autoscale_info(&env);
        assert_close(info->measured.paper_reward, info->truth.paper_reward, 1e-9);
        assert_close(info->measured.cost, info->truth.cost, 1e-9);
        assert_close((double)step.reward, info->measured.paper_reward, 1e-6);
        assert_int_equal(info->step, i + 1);
        /* the axis `latency` is relative to this application's SLO */
        double octaves = log2(info->measured.latency_us_slo / info->slo_us);
        assert_close((double)obs[11], octaves / 4, 1e-5);
        cores += aw_autoscale_sample(&env)->cpu_cores_used.value;
    }
    /* load_cores: the mean load needs 2 cores, as is the default */
    assert_close(cores / 20, 2, 0.05);
    aw_env_free(&env);
}

static void pods_are_shown_to_whoever_asks(void **state)
{
    (void)state;
    struct aw_env env = make("autoscale-v0", NULL, 0);
    float obs[OBS_MAX];
    struct aw_step step;
    assert_ok(env.ops->reset(env.self, 3, obs));
    for (uint32_t replicas = 1; replicas <= 12; replicas++) {
        const struct aw_plan plan = {.set = AW_PLAN_REPLICAS | AW_PLAN_CPU,
                                     .replicas = replicas,
                                     .cpu_millicores = 500 + replicas / 4 * 100};
        assert_ok(aw_autoscale_step_plan(&env, &plan, obs, &step, NULL));
        const struct aw_sample *sample = aw_autoscale_sample(&env);
        struct aw_reading reading;
        aw_reading_take(sample, INT64_MAX, 0.99, &reading);
        const struct aw_score *score = &aw_autoscale_info(&env)->measured;
        assert_int_equal(sample->pod_count, sample->replicas_ready + sample->replicas_pending +
                                                sample->replicas_starting);
        /* what the environment made of the sums is what the pods say */
        assert_close(reading.cpu_utilisation, score->cpu_utilisation, 1e-12);
        assert_close(reading.memory_utilisation, score->memory_utilisation, 1e-12);
    }
    aw_env_free(&env);
}

static void a_plan_is_carried_out_within_the_bounds_and_shown(void **state)
{
    (void)state;
    const char *const pairs[] = {"replicas_max=10"};
    struct aw_env env = make("autoscale-v0", pairs, 1);
    float obs[OBS_MAX], values[AW_ACTION_DIM];
    struct aw_step step;
    assert_ok(env.ops->reset(env.self, 3, obs));
    int64_t memory = aw_autoscale_sample(&env)->memory_bytes_wanted;
    const struct aw_plan p = {
        .set = AW_PLAN_REPLICAS | AW_PLAN_CPU, .replicas = 50, .cpu_millicores = 2000};
    assert_ok(aw_autoscale_step_plan(&env, &p, obs, &step, values));
    const struct aw_sample *sample = aw_autoscale_sample(&env);
    assert_int_equal(sample->replicas_wanted, 10);
    assert_int_equal(sample->cpu_millicores_wanted, 2000);
    assert_int_equal(sample->memory_bytes_wanted, memory);
    assert_true(obs[2] == 1); /* the axis `replicas` */
    assert_close((double)values[AW_ACTION_CPU], 2 * log(20) / log(40) - 1, 1e-6);
    aw_env_free(&env);
}

static void the_seed_draws_application_and_time_of_the_load(void **state)
{
    (void)state;
    const char *const pairs[] = {"app=7:100-103"};
    struct aw_env env = make("autoscale-v0", pairs, 1);
    float obs[OBS_MAX], again[OBS_MAX], action[AW_ACTION_DIM] = {0};
    struct aw_step step;
    uint32_t seen[4] = {0};
    for (uint64_t seed = 0; seed < 64; seed++) {
        assert_ok(env.ops->reset(env.self, seed, obs));
        assert_ok(env.ops->step(env.self, action, obs, &step));
        seen[aw_autoscale_info(&env)->app]++;
    }
    for (int i = 0; i < 4; i++)
        assert_true(seen[i] > 4);
    assert_ok(env.ops->reset(env.self, 9, obs));
    assert_ok(env.ops->reset(env.self, 10, again));
    assert_ok(env.ops->reset(env.self, 9, again));
    assert_memory_equal(obs, again, env.spec->observation.dim * sizeof *obs);
    aw_env_free(&env);
}

static void without_shift_every_episode_sees_the_same_load(void **state)
{
    (void)state;
    const char *const pairs[] = {"load_shift=false", "load=diurnal:peak=4,noise=0"};
    for (int shift = 0; shift < 2; shift++) {
        struct aw_env env = make("autoscale-v0", pairs + shift, 2 - (size_t)shift);
        float obs[OBS_MAX];
        const struct aw_plan stay = {0};
        struct aw_step step;
        double low = INFINITY, high = 0;
        for (uint64_t seed = 0; seed < 16; seed++) {
            assert_ok(env.ops->reset(env.self, seed, obs));
            assert_ok(aw_autoscale_step_plan(&env, &stay, obs, &step, NULL));
            low = fmin(low, aw_autoscale_info(&env)->arrivals);
            high = fmax(high, aw_autoscale_info(&env)->arrivals);
        }
        assert_true(shift ? high > 2 * low : high < 2 * low);
        aw_env_free(&env);
    }
}

static void a_start_beyond_the_bounds_starts_at_the_bound(void **state)
{
    (void)state;
    const char *const pairs[] = {"cpu_max=500m", "slo_factor=0"};
    struct aw_env env = make("autoscale-v0", pairs, 2);
    float obs[OBS_MAX];
    assert_ok(env.ops->reset(env.self, 1, obs));
    assert_int_equal(aw_autoscale_sample(&env)->cpu_millicores_wanted, 500);
    aw_env_free(&env);
}

static void past_states_stand_behind_the_present_one(void **state)
{
    (void)state;
    const char *const pairs[] = {"history=2", "episode_steps=9"};
    struct aw_env env = make("autoscale-paper-v0", pairs, 2);
    const uint32_t dim = AW_STATE_PAPER_DIM;
    assert_int_equal(env.spec->observation.dim, 3 * dim);
    assert_string_equal(env.spec->observation.axes[dim].name, "cpu_limit[-1]");
    assert_string_equal(env.spec->observation.axes[3 * dim - 1].name, "load_change[-2]");
    float obs[2][OBS_MAX], action[AW_ACTION_DIM];
    struct aw_step step = {0};
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    assert_ok(env.ops->reset(env.self, 1, obs[0]));
    for (uint32_t i = 1; !step.truncated; i++) {
        aw_space_sample(&env.spec->action, &rng, action);
        assert_ok(env.ops->step(env.self, action, obs[i % 2], &step));
        assert_memory_equal(obs[i % 2] + dim, obs[(i + 1) % 2], 2 * dim * sizeof(float));
        assert_int_equal(step.truncated, i == 9);
    }
    aw_env_free(&env);
}

static void options_keep_the_contract(void **state)
{
    (void)state;
    const struct {
        const char *name;
        const char *pairs[3];
        const char *why;
    } cases[] = {
        {"autoscale-v0", {"app=3:0-15", "history=3", "state=paper"}, "a pool with history"},
        {"autoscale-v0", {"cluster=metric_gap=0.3", "stale_s=20", "step_s=5"}, "gaps in metrics"},
        {"autoscale-v0", {"slo_factor=0", "load=spikes", "load_cores=0"}, "no SLO"},
        {"autoscale-paper-v0", {"load=constant:mean=0", "app=1:5", "slo_per_s=5"}, "no load"},
        {"autoscale-paper-v0",
         {"cluster=in_place=true", "mapping=anchored", "app=1:7"},
         "resized in place"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_env env = make(cases[i].name, cases[i].pairs, 3);
        struct aw_env_finding findings[AW_ENV_CHECK_RULE_COUNT];
        uint32_t count = 99;
        assert_ok(aw_env_check(&env, 4, NULL, findings, AW_ENV_CHECK_RULE_COUNT, &count));
        if (count)
            fail_msg("%s: %s: %s", cases[i].why, aw_env_check_rule_name(findings[0].rule),
                     findings[0].text);
        aw_env_free(&env);
    }
}

static void what_cannot_work_is_refused_with_its_reason(void **state)
{
    (void)state;
    const struct {
        const char *pair, *text, *why;
    } cases[] = {
        {"replicas_min=30", "replicas: the smallest (30)", "min above max"},
        {"cpu_min=5", "CPU of a replica", "min above max"},
        {"memory_max=1Mi", "memory of a replica", "max below min"},
        {"cpu_max=banana", "cpu_max: ", "not an amount"},
        {"slo_ms=1", "no allocation can meet the SLO of app-1-0", "faster than alone"},
        {"slo_factor=0.5", "no allocation can meet the SLO", "half of the unloaded p99"},
        {"cpu_max=100m", "no allocation can meet the SLO", "a tenth of a core takes longer"},
        {"memory_max=70Mi", "no allocation can run app-1-0", "the base alone is larger"},
        {"cpu_max=32", "does not fit on a node", "larger than any node"},
        {"app=1:x", "app: expected SEED:INDEX", "not an application"},
        {"app=no/such.yaml", "no/such.yaml", "no such file"},
        {"scenario=earthquake@5m", "scenario: ", "no such scenario"},
        {"app=1:9-3", "app: a pool has 1 to", "an empty pool"},
        {"app=1:0-999999", "a pool has 1 to", "too large a pool"},
        {"load=constant:maen=3", "mean", "a typing error in the load"},
        {"cluster=node_coers=3", "node_cores", "a typing error in the cluster"},
        {"cluster=node_count=0", "cluster.node_count: expected", "no nodes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_alloc_counting counting;
        struct aw_env env = {0};
        struct aw_diag diag = {0};
        char text[AW_DIAG_TEXT_MAX];
        aw_alloc_counting_init(&counting);
        bool named = !strncmp(cases[i].pair, "scenario", 8) || strstr(cases[i].pair, ".yaml");
        enum aw_err err =
            aw_env_make_with("autoscale-v0", &cases[i].pair, 1, &counting.alloc, &env, &diag);
        if (err != (named ? AW_ERR_NOTFOUND : AW_ERR_CONFIG) ||
            !strstr(aw_diag_format(&diag, AW_ERR_CONFIG, text, sizeof text), cases[i].text))
            fail_msg("%s (%s): \"%s\"", cases[i].pair, cases[i].why, diag.text);
        assert_null(env.self);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

static void a_snapshot_of_other_options_is_refused(void **state)
{
    (void)state;
    const char *const other[] = {"deadband=0.3"};
    struct aw_env a = make("autoscale-v0", NULL, 0), b = make("autoscale-v0", other, 1);
    float obs[OBS_MAX];
    unsigned char *bytes = malloc(a.spec->state_bytes);
    assert_ok(a.ops->reset(a.self, 1, obs));
    assert_ok(b.ops->reset(b.self, 1, obs));
    a.ops->state_save(a.self, bytes);
    assert_int_equal(b.ops->state_load(b.self, bytes), AW_ERR_FORMAT);
    assert_ok(a.ops->state_load(a.self, bytes));
    free(bytes);
    aw_env_free(&a);
    aw_env_free(&b);
}

/* A pool, so that a load has to bring another application back. */
static void a_snapshot_goes_on_in_another_environment(void **state)
{
    (void)state;
    const char *const pairs[] = {"app=2:0-7", "history=1"};
    struct aw_env a = make("autoscale-v0", pairs, 2), b = make("autoscale-v0", pairs, 2);
    float obs_a[OBS_MAX], obs_b[OBS_MAX], action[AW_ACTION_DIM];
    struct aw_step step_a, step_b;
    struct aw_rng rng;
    unsigned char *bytes = malloc(a.spec->state_bytes);
    aw_rng_init(&rng, 21, 0);
    for (uint64_t seed = 0; seed < 8; seed++) {
        assert_ok(a.ops->reset(a.self, seed, obs_a));
        assert_ok(b.ops->reset(b.self, 1000 + seed, obs_b));
        assert_ok(aw_autoscale_set_lambda(&a, 3 + (double)seed));
        for (int i = 0; i < 30; i++) {
            aw_space_sample(&a.spec->action, &rng, action);
            assert_ok(a.ops->step(a.self, action, obs_a, &step_a));
        }
        a.ops->state_save(a.self, bytes);
        assert_ok(b.ops->state_load(b.self, bytes));
        for (int i = 0; i < 70; i++) {
            aw_space_sample(&a.spec->action, &rng, action);
            assert_ok(a.ops->step(a.self, action, obs_a, &step_a));
            assert_ok(b.ops->step(b.self, action, obs_b, &step_b));
            assert_memory_equal(obs_a, obs_b, a.spec->observation.dim * sizeof *obs_a);
            assert_true(step_a.reward == step_b.reward);
        }
    }
    free(bytes);
    aw_env_free(&a);
    aw_env_free(&b);
}

static void nothing_is_allocated_after_make(void **state)
{
    (void)state;
    const char *const pairs[] = {"app=5:0-3"};
    struct aw_alloc_counting counting;
    struct aw_env env;
    aw_alloc_counting_init(&counting);
    assert_ok(aw_env_make_with("autoscale-v0", pairs, 1, &counting.alloc, &env, NULL));
    uint64_t made = counting.alloc_count;
    counting.fail_after = 0;
    float obs[OBS_MAX], action[AW_ACTION_DIM] = {0};
    struct aw_step step;
    unsigned char *bytes = malloc(env.spec->state_bytes);
    for (uint64_t seed = 0; seed < 4; seed++) {
        assert_ok(env.ops->reset(env.self, seed, obs));
        for (int i = 0; i < 50; i++)
            assert_ok(env.ops->step(env.self, action, obs, &step));
        env.ops->state_save(env.self, bytes);
        assert_ok(env.ops->state_load(env.self, bytes));
    }
    free(bytes);
    assert_int_equal(counting.alloc_count, made);
    aw_env_free(&env);
    assert_int_equal(counting.free_count, made);
}

static void options_reach_every_copy_of_a_vector(void **state)
{
    (void)state;
    const char *const pairs[] = {"app=5:0-7", "history=1", "episode_steps=20"};
    const struct aw_env_factory *factory = NULL;
    struct aw_autoscale_settings settings;
    uint64_t digest[2] = {0};
    assert_ok(aw_env_find("autoscale-v0", &factory, NULL));
    assert_ok(aw_env_settings(factory, pairs, 3, &settings, NULL));
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct aw_threads pool;
        struct aw_vec vec;
        struct aw_rng rng;
        aw_rng_init(&rng, 2, 0);
        assert_ok(aw_threads_init(&pool, threads, NULL));
        assert_ok(aw_vec_init_with(&vec, factory, &settings, 5, &pool, NULL, NULL));
        assert_int_equal(vec.spec->observation.dim, 2 * AW_STATE_DEFAULT_DIM);
        assert_ok(aw_vec_reset(&vec, 3, NULL));
        for (int i = 0; i < 45; i++) {
            for (uint32_t k = 0; k < 5; k++)
                aw_space_sample(&vec.spec->action, &rng, vec.action + k * AW_ACTION_DIM);
            assert_ok(aw_vec_step(&vec, NULL));
            for (uint32_t k = 0; k < 5 * vec.spec->observation.dim; k++) {
                uint32_t bits;
                memcpy(&bits, &vec.next_obs[k], sizeof bits);
                digest[threads - 1] = (digest[threads - 1] ^ bits) * 0x100000001b3u;
            }
        }
        aw_vec_deinit(&vec);
        aw_threads_deinit(&pool);
    }
    assert_int_equal(digest[0], digest[1]);
}

static void lambda_weighs_violations_and_outlives_a_reset(void **state)
{
    (void)state;
    struct aw_env env = make("autoscale-v0", NULL, 0), other = {0};
    float obs[OBS_MAX];
    struct aw_step step;
    /* one starved replica for all the load: every step misses the SLO before long */
    const struct aw_plan starve = {
        .set = AW_PLAN_REPLICAS | AW_PLAN_CPU, .replicas = 1, .cpu_millicores = 100};
    assert_ok(aw_autoscale_set_lambda(&env, 42));
    assert_ok(env.ops->reset(env.self, 1, obs));
    for (int i = 0; i < 20; i++)
        assert_ok(aw_autoscale_step_plan(&env, &starve, obs, &step, NULL));
    const struct aw_autoscale_info *info = aw_autoscale_info(&env);
    assert_true(info->truth.violated && info->measured.violated);
    assert_true(info->lambda == 42 && step.reward <= -42 && step.reward > -43);
    /* the truth is told when it is asked for, with the weight that the step had */
    assert_ok(aw_autoscale_step_plan(&env, &starve, obs, &step, NULL));
    assert_ok(aw_autoscale_set_lambda(&env, 7));
    assert_true(aw_autoscale_info(&env)->lambda == 42);
    assert_int_equal(aw_autoscale_info(&env)->step, 21);
    assert_int_equal(aw_autoscale_set_lambda(&env, NAN), AW_ERR_RANGE);
    assert_ok(aw_env_make("cartpole-v1", &other, NULL));
    assert_int_equal(aw_autoscale_set_lambda(&other, 1), AW_ERR_UNSUPPORTED);
    assert_null(aw_autoscale_info(&other));
    assert_null(aw_autoscale_sample(&other));
    assert_null(aw_autoscale_settings(&other));
    aw_env_free(&other);
    aw_env_free(&env);
}

/* The guard and the anchor together: memory follows what is used, and nobody dies of it. */
static void an_anchored_action_at_its_lowest_memory_survives(void **state)
{
    (void)state;
    const char *const pairs[] = {"app=1:0-19"};
    struct aw_env env = make("autoscale-v0", pairs, 1);
    float obs[OBS_MAX];
    const float action[AW_ACTION_DIM] = {0.2f, -0.5f, 0};
    struct aw_step step;
    uint64_t kills = 0, steps = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        assert_ok(env.ops->reset(env.self, seed, obs));
        do {
            assert_ok(env.ops->step(env.self, action, obs, &step));
            kills += aw_autoscale_info(&env)->oom_kills;
            steps++;
        } while (!step.truncated);
    }
    print_message("%llu OOM kills in %llu steps\n", (unsigned long long)kills,
                  (unsigned long long)steps);
    assert_true((double)kills < 0.05 * (double)steps);
    aw_env_free(&env);
}

/* What the load does to the first minutes must not depend on a disturbance that comes later. */
static void a_scenario_begins_at_its_time_of_the_episode(void **state)
{
    (void)state;
    const char *const pairs[] = {"scenario=load-low-to-high@5m", "load=constant:mean=20,noise=0"};
    struct aw_env calm = make("autoscale-v0", pairs + 1, 1), rough = make("autoscale-v0", pairs, 2);
    float obs[OBS_MAX];
    const struct aw_plan stay = {0};
    struct aw_step step;
    double calm_sum = 0, rough_sum = 0;
    assert_ok(calm.ops->reset(calm.self, 1, obs));
    assert_ok(rough.ops->reset(rough.self, 1, obs));
    for (int i = 0; i < 40; i++) {
        assert_ok(aw_autoscale_step_plan(&calm, &stay, obs, &step, NULL));
        assert_ok(aw_autoscale_step_plan(&rough, &stay, obs, &step, NULL));
        double a = aw_autoscale_info(&calm)->arrivals, b = aw_autoscale_info(&rough)->arrivals;
        if (i < 20)
            assert_true(a == b);
        calm_sum += i < 20 ? 0 : a;
        rough_sum += i < 20 ? 0 : b;
    }
    assert_true(rough_sum > 5 * calm_sum);
    aw_env_free(&calm);
    aw_env_free(&rough);
}

/* Its snapshots are played again, so they are checked like any other. */
static void the_reference_model_keeps_the_contract(void **state)
{
    (void)state;
    const char *const pairs[] = {"model=reference", "episode_steps=8", "load_cores=0.2",
                                 "app=1:0-3", "history=1"};
    struct aw_env env = make("autoscale-v0", pairs, 5), other = make("autoscale-v0", pairs, 5);
    struct aw_env_finding findings[AW_ENV_CHECK_RULE_COUNT];
    uint32_t count = 99;
    assert_ok(aw_env_check(&env, 4, NULL, findings, AW_ENV_CHECK_RULE_COUNT, &count));
    if (count)
        fail_msg("%s: %s", aw_env_check_rule_name(findings[0].rule), findings[0].text);

    float obs[OBS_MAX], again[OBS_MAX];
    const float action[AW_ACTION_DIM] = {0.5f, 0.5f, 0};
    struct aw_step step, step_again;
    unsigned char *bytes = malloc(env.spec->state_bytes);
    assert_ok(aw_autoscale_set_lambda(&env, 9));
    assert_ok(env.ops->reset(env.self, 1, obs));
    for (int i = 0; i < 4; i++)
        assert_ok(env.ops->step(env.self, action, obs, &step));
    env.ops->state_save(env.self, bytes);
    assert_ok(other.ops->state_load(other.self, bytes));
    for (int i = 0; i < 4; i++) {
        assert_ok(env.ops->step(env.self, action, obs, &step));
        assert_ok(other.ops->step(other.self, action, again, &step_again));
        assert_memory_equal(obs, again, env.spec->observation.dim * sizeof *obs);
        assert_true(step.reward == step_again.reward);
        assert_true(aw_autoscale_info(&other)->lambda == 9);
    }
    free(bytes);
    aw_env_free(&env);
    aw_env_free(&other);

    const char *const longer[] = {"model=reference", "episode_steps=50000"};
    struct aw_diag diag;
    assert_int_equal(aw_env_make_with("autoscale-v0", longer, 2, NULL, &env, &diag), AW_ERR_LIMIT);
}

AW_TEST_GROUP("autoscale")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_static_spec_is_what_the_defaults_make),
        cmocka_unit_test(metrics_and_truth_agree_when_nothing_moves),
        cmocka_unit_test(pods_are_shown_to_whoever_asks),
        cmocka_unit_test(a_plan_is_carried_out_within_the_bounds_and_shown),
        cmocka_unit_test(the_seed_draws_application_and_time_of_the_load),
        cmocka_unit_test(without_shift_every_episode_sees_the_same_load),
        cmocka_unit_test(a_start_beyond_the_bounds_starts_at_the_bound),
        cmocka_unit_test(past_states_stand_behind_the_present_one),
        cmocka_unit_test(options_keep_the_contract),
        cmocka_unit_test(what_cannot_work_is_refused_with_its_reason),
        cmocka_unit_test(a_snapshot_of_other_options_is_refused),
        cmocka_unit_test(a_snapshot_goes_on_in_another_environment),
        cmocka_unit_test(nothing_is_allocated_after_make),
        cmocka_unit_test(options_reach_every_copy_of_a_vector),
        cmocka_unit_test(lambda_weighs_violations_and_outlives_a_reset),
        cmocka_unit_test(an_anchored_action_at_its_lowest_memory_survives),
        cmocka_unit_test(a_scenario_begins_at_its_time_of_the_episode),
        cmocka_unit_test(the_reference_model_keeps_the_contract),
    };
    return cmocka_run_group_tests_name("autoscale", tests, NULL, NULL);
}
