#include "nn/adam.h"

#include "base/rng.h"
#include "base/testing.h"

#include <math.h>
#include <string.h>

enum { ROWS = 9, COLUMNS = 11, SIZE = ROWS * COLUMNS, STEPS = 10 };

static void make(struct aw_params *params, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    *params = (struct aw_params){0};
    size_t offset = aw_params_add(params, "weight", 2, ROWS, COLUMNS);
    assert_ok(aw_params_alloc(params, NULL));
    aw_rng_fill_normal(&rng, params->value + offset, SIZE);
}

/* The formulas of torch.optim.Adam and AdamW word for word, in double. */
struct twin {
    double p[SIZE], m[SIZE], v[SIZE];
};

static void twin_step(struct twin *twin, const struct aw_adam *adam, const float *grad, int t)
{
    double bias1 = 1 - pow(adam->beta1, t), bias2 = 1 - pow(adam->beta2, t);
    for (int i = 0; i < SIZE; i++) {
        double g = (double)grad[i];
        if (adam->decoupled)
            twin->p[i] *= 1 - adam->lr * adam->weight_decay;
        else
            g += adam->weight_decay * twin->p[i];
        twin->m[i] = adam->beta1 * twin->m[i] + (1 - adam->beta1) * g;
        twin->v[i] = adam->beta2 * twin->v[i] + (1 - adam->beta2) * g * g;
        twin->p[i] -= adam->lr / bias1 * twin->m[i] / (sqrt(twin->v[i]) / sqrt(bias2) + adam->eps);
    }
}

static void ten_steps_match_the_textbook_in_double(void **state)
{
    (void)state;
    const struct {
        const char *why;
        struct aw_adam adam;
    } cases[] = {
        {"the defaults", {1e-3, 0.9, 0.999, 1e-8, 0, false}},
        {"decay inside the gradient", {3e-4, 0.9, 0.999, 1e-8, 0.01, false}},
        {"decay on the weights", {3e-4, 0.9, 0.999, 1e-8, 0.01, true}},
        {"an eps that is felt", {1e-2, 0.9, 0.999, 1e-1, 0, false}},
        {"no memory at all", {1e-3, 0, 0, 1e-8, 0, false}},
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        struct aw_params params;
        struct twin twin = {0};
        struct aw_rng rng;
        aw_rng_init(&rng, 7, n);
        make(&params, n);
        for (int i = 0; i < SIZE; i++)
            twin.p[i] = (double)params.value[i];
        for (int t = 1; t <= STEPS; t++) {
            for (int i = 0; i < SIZE; i++)
                params.grad[i] = (float)(aw_rng_normal(&rng) * pow(10, i % 7 - 6));
            aw_adam_step(&cases[n].adam, &params);
            twin_step(&twin, &cases[n].adam, params.grad, t);
        }
        assert_int_equal(params.step, STEPS);
        for (int i = 0; i < SIZE; i++) {
            if (fabs((double)params.value[i] - twin.p[i]) > 2e-6 * fmax(1, fabs(twin.p[i])))
                print_error("%s, element %d\n", cases[n].why, i);
            assert_close((double)params.value[i], twin.p[i], 2e-6);
            assert_close((double)params.m[i], twin.m[i], 2e-6);
            assert_close((double)params.v[i], twin.v[i], 2e-6);
        }
        aw_params_deinit(&params);
    }
}

static void the_first_step_is_the_learning_rate_against_the_sign(void **state)
{
    (void)state;
    struct aw_params params;
    make(&params, 1);
    float before = params.value[5];
    params.grad[5] = -123;
    struct aw_adam adam = aw_adam_default(0.01);
    aw_adam_step(&adam, &params);
    assert_close((double)(params.value[5] - before), 0.01, 1e-6);
    assert_true(params.grad[5] == -123);
    aw_params_deinit(&params);
}

static void the_gaps_between_tensors_stay_zero(void **state)
{
    (void)state;
    struct aw_params params;
    make(&params, 1);
    struct aw_adam adam = aw_adam_default(0.01);
    adam.weight_decay = 0.1;
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < SIZE; i++)
            params.grad[i] = 1;
        aw_adam_step(&adam, &params);
    }
    for (size_t i = SIZE; i < params.count; i++)
        assert_true(params.value[i] == 0 && params.m[i] == 0 && params.v[i] == 0);
    aw_params_deinit(&params);
}

static void a_copied_state_continues_with_the_same_bits(void **state)
{
    (void)state;
    struct aw_params a, b;
    make(&a, 1);
    make(&b, 1);
    struct aw_adam adam = aw_adam_default(0.01);
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < SIZE; i++)
            a.grad[i] = (float)sin(t * SIZE + i);
        aw_adam_step(&adam, &a);
    }
    memcpy(b.value, a.value, a.count * sizeof(float));
    memcpy(b.m, a.m, a.count * sizeof(float));
    memcpy(b.v, a.v, a.count * sizeof(float));
    memcpy(b.grad, a.grad, a.count * sizeof(float));
    b.step = a.step;
    aw_adam_step(&adam, &a);
    aw_adam_step(&adam, &b);
    assert_memory_equal(a.value, b.value, a.count * sizeof(float));
    aw_params_deinit(&a);
    aw_params_deinit(&b);
}

AW_TEST_GROUP("adam")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_steps_match_the_textbook_in_double),
        cmocka_unit_test(the_first_step_is_the_learning_rate_against_the_sign),
        cmocka_unit_test(the_gaps_between_tensors_stay_zero),
        cmocka_unit_test(a_copied_state_continues_with_the_same_bits),
    };
    return cmocka_run_group_tests_name("adam", tests, NULL, NULL);
}
