#include "rl/qnet.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

#define S    3u
#define A    2u
#define ROWS 4u

/* L = sum_b c_b q_b, with q from double arithmetic done by hand. */
static double loss(const struct aw_qnet *net, const float *theta, const double *sa, const float *c)
{
    double sum = 0;
    for (uint32_t b = 0; b < ROWS; b++) {
        double x[16] = {0}, y[16] = {0};
        uint32_t n = 0;
        const double *row = sa + b * (S + A);
        if (net->late) {
            const struct aw_linear *layer = &net->state.layer[0];
            for (; n < layer->out; n++) {
                x[n] = (double)theta[layer->bias + n];
                for (uint32_t i = 0; i < S; i++)
                    x[n] += (double)theta[layer->weight + n * S + i] * row[i];
                x[n] = x[n] > 0 ? x[n] : 0;
            }
        } else {
            for (; n < S; n++)
                x[n] = row[n];
        }
        memcpy(x + n, row + S, A * sizeof *x);
        for (uint32_t l = 0; l < net->head.layer_count; l++) {
            const struct aw_linear *layer = &net->head.layer[l];
            for (uint32_t o = 0; o < layer->out; o++) {
                y[o] = (double)theta[layer->bias + o];
                for (uint32_t i = 0; i < layer->in; i++)
                    y[o] += (double)theta[layer->weight + o * layer->in + i] * x[i];
                if (l + 1 < net->head.layer_count && y[o] < 0)
                    y[o] = 0;
            }
            memcpy(x, y, sizeof x);
        }
        sum += (double)c[b] * y[0];
    }
    return sum;
}

static void check(bool late)
{
    struct aw_params params = {0};
    struct aw_qnet net;
    struct aw_qnet_cache cache;
    struct aw_rng rng;
    const struct aw_conf_u32_list hidden = {2, {7, 5}};
    aw_rng_init(&rng, 5, late);
    aw__qnet_declare(&net, &params, "critic", S, A, &hidden, late);
    assert_non_null(aw_params_find(&params, late ? "critic.state.0.weight" : "critic.0.weight"));
    assert_non_null(aw_params_find(&params, late ? "critic.head.2.bias" : "critic.4.bias"));
    assert_ok(aw_params_alloc(&params, NULL));
    assert_ok(aw__qnet_cache_init(&cache, &net, ROWS, NULL));
    aw__qnet_init(&net, params.value, 0, &rng);

    float s[ROWS * S], a[ROWS * A], sa[ROWS * (S + A)], c[ROWS], da[ROWS * A], only_da[ROWS * A];
    double x[ROWS * (S + A)];
    aw_rng_fill_normal(&rng, s, ROWS * S);
    aw_rng_fill_normal(&rng, a, ROWS * A);
    aw_rng_fill_normal(&rng, c, ROWS);
    aw__join(sa, s, a, ROWS, S, A);
    for (size_t i = 0; i < ROWS * (S + A); i++)
        x[i] = (double)sa[i];

    double sum = 0;
    const float *q = aw__qnet_forward(&net, params.value, s, sa, ROWS, &cache);
    for (uint32_t b = 0; b < ROWS; b++)
        sum += (double)c[b] * (double)q[b];
    assert_close(sum, loss(&net, params.value, x, c), 1e-6);

    aw_params_zero_grad(&params);
    aw__qnet_backward(&net, params.value, s, sa, ROWS, &cache, c, params.grad, da);
    aw__qnet_forward(&net, params.value, s, sa, ROWS, &cache);
    aw__qnet_backward(&net, params.value, s, sa, ROWS, &cache, c, NULL, only_da);
    assert_memory_equal(da, only_da, sizeof da);

    for (uint32_t t = 0; t < params.tensor_count; t++) {
        for (size_t i = 0; i < aw_param_size(&params.tensor[t]); i++) {
            float *weight = params.value + params.tensor[t].offset + i, at = *weight;
            *weight = at + 0x1p-10f;
            double up = loss(&net, params.value, x, c), step = (double)*weight;
            *weight = at - 0x1p-10f;
            double down = loss(&net, params.value, x, c);
            step -= (double)*weight;
            *weight = at;
            assert_close((double)params.grad[params.tensor[t].offset + i], (up - down) / step,
                         1e-4);
        }
    }
    for (uint32_t b = 0; b < ROWS; b++) {
        for (uint32_t j = 0; j < A; j++) {
            double *input = &x[b * (S + A) + S + j], at = *input;
            *input = at + 1e-6;
            double up = loss(&net, params.value, x, c);
            *input = at - 1e-6;
            double down = loss(&net, params.value, x, c);
            *input = at;
            assert_close((double)da[b * A + j], (up - down) / 2e-6, 1e-4);
        }
    }
    aw__qnet_cache_deinit(&cache);
    aw__qnet_cache_deinit(&cache);
    aw_params_deinit(&params);
}

static void gradients_equal_central_differences_when_the_action_joins_at_the_input(void **state)
{
    (void)state;
    check(false);
}

static void gradients_equal_central_differences_when_the_action_joins_late(void **state)
{
    (void)state;
    check(true);
}

AW_TEST_GROUP("qnet")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_central_differences_when_the_action_joins_at_the_input),
        cmocka_unit_test(gradients_equal_central_differences_when_the_action_joins_late),
    };
    return cmocka_run_group_tests_name("qnet", tests, NULL, NULL);
}
