#include "rl/noise.h"

#include <math.h>

#include "base/testing.h"

#define SAMPLES 200000

struct moments {
    double mean, std, lag1; /* lag1: correlation of one step with the next */
};

static struct moments measure(struct aw_noise *noise, struct aw_rng *rng)
{
    double sum = 0, squares = 0, products = 0, last = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float x;
        aw_noise_sample(noise, 0, rng, &x);
        sum += (double)x;
        squares += (double)x * (double)x;
        products += i ? (double)x * last : 0;
        last = (double)x;
    }
    double mean = sum / SAMPLES, var = squares / SAMPLES - mean * mean;
    return (struct moments){mean, sqrt(var), (products / (SAMPLES - 1) - mean * mean) / var};
}

static void gaussian_noise_has_its_deviation_and_no_memory(void **state)
{
    (void)state;
    struct aw_rng rng;
    struct aw_noise noise;
    aw_rng_init(&rng, 3, 0);
    assert_ok(
        aw_noise_init(&noise,
                      &(struct aw_noise_config){
                          .kind = AW_NOISE_GAUSSIAN, .env_count = 1, .act_dim = 1, .sigma = 0.3f},
                      NULL));
    struct moments m = measure(&noise, &rng);
    assert_close(m.mean, 0, 0.003);
    assert_close(m.std, 0.3, 0.003);
    assert_close(m.lag1, 0, 0.01);
    aw_noise_deinit(&noise);
    aw_noise_deinit(&noise);
}

static void ou_noise_has_the_moments_of_its_equation(void **state)
{
    (void)state;
    /* x' = (1 - theta dt) x + sigma sqrt(dt) n, so lag-1 correlation a = 1 - theta dt and variance
     * sigma^2 dt / (1 - a^2) */
    const float theta = 1.5f, dt = 0.1f, sigma = 0.2f;
    double a = 1 - (double)theta * (double)dt;
    struct aw_rng rng;
    struct aw_noise noise;
    aw_rng_init(&rng, 4, 0);
    assert_ok(aw_noise_init(&noise,
                            &(struct aw_noise_config){.kind = AW_NOISE_OU,
                                                      .env_count = 1,
                                                      .act_dim = 1,
                                                      .sigma = sigma,
                                                      .theta = theta,
                                                      .dt = dt},
                            NULL));
    struct moments m = measure(&noise, &rng);
    assert_close(m.mean, 0, 0.005);
    assert_close(m.lag1, a, 0.005);
    assert_close(m.std, (double)sigma * sqrt((double)dt / (1 - a * a)), 0.005);
    aw_noise_deinit(&noise);
}

static void a_reset_touches_one_environment_alone(void **state)
{
    (void)state;
    struct aw_rng rng;
    struct aw_noise noise;
    aw_rng_init(&rng, 5, 0);
    assert_ok(aw_noise_init(&noise,
                            &(struct aw_noise_config){.kind = AW_NOISE_OU,
                                                      .env_count = 2,
                                                      .act_dim = 2,
                                                      .sigma = 1,
                                                      .mu = 0.5f,
                                                      .theta = 0.15f,
                                                      .dt = 1},
                            NULL));
    float x[2];
    aw_noise_sample(&noise, 0, &rng, x);
    aw_noise_sample(&noise, 1, &rng, x);
    aw_noise_reset(&noise, 0);
    assert_true(noise.x[0] == 0.5f && noise.x[1] == 0.5f);
    assert_true(noise.x[2] == x[0] && noise.x[3] == x[1] && x[0] != 0.5f);
    aw_noise_deinit(&noise);
}

static void without_noise_nothing_is_drawn(void **state)
{
    (void)state;
    struct aw_rng rng, untouched;
    struct aw_noise noise;
    aw_rng_init(&rng, 6, 0);
    untouched = rng;
    assert_ok(aw_noise_init(
        &noise, &(struct aw_noise_config){.kind = AW_NOISE_NONE, .env_count = 1, .act_dim = 1},
        NULL));
    float x = 1;
    aw_noise_sample(&noise, 0, &rng, &x);
    assert_true(x == 0);
    assert_memory_equal(&rng, &untouched, sizeof rng);
    aw_noise_deinit(&noise);
}

static void schedules_begin_and_end_where_they_say(void **state)
{
    (void)state;
    static const struct {
        double start, end, span, t, linear;
        const char *why;
    } cases[] = {
        {1, 0.1, 100, 0, 1, "the start"},      {1, 0.1, 100, -5, 1, "before the start"},
        {1, 0.1, 100, 50, 0.55, "half way"},   {1, 0.1, 100, 100, 0.1, "the end of the line"},
        {1, 0.1, 100, 1e9, 0.1, "long after"}, {0.2, 0.6, 10, 5, 0.4, "upwards"},
        {1, 0.1, 0, 0, 0.1, "no time at all"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_close(aw_schedule_linear(cases[i].start, cases[i].end, cases[i].span, cases[i].t),
                     cases[i].linear, 1e-12);
}

AW_TEST_GROUP("noise")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussian_noise_has_its_deviation_and_no_memory),
        cmocka_unit_test(ou_noise_has_the_moments_of_its_equation),
        cmocka_unit_test(a_reset_touches_one_environment_alone),
        cmocka_unit_test(without_noise_nothing_is_drawn),
        cmocka_unit_test(schedules_begin_and_end_where_they_say),
    };
    return cmocka_run_group_tests_name("noise", tests, NULL, NULL);
}
