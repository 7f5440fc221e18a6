/* The layer stack against a naive twin in double; its backward against the twin's differences. */
#include "nn/mlp.h"

#include "base/testing.h"

#include <math.h>
#include <string.h>

#define FORWARD_TOLERANCE  1e-6
#define GRADIENT_TOLERANCE 1e-5 /* the promise is 1e-4 */

enum { FLOATS_MAX = 4096, WIDTH_MAX = 80 };

/* ---- the twin ---- */

static double act(enum aw_act kind, double x)
{
    switch (kind) {
    case AW_ACT_NONE:
        return x;
    case AW_ACT_RELU:
        return x > 0 ? x : 0;
    case AW_ACT_TANH:
        return tanh(x);
    }
    return NAN;
}

static void twin_row(const struct aw_mlp *mlp, const double *theta, const double *x, double *y)
{
    double from[WIDTH_MAX], to[WIDTH_MAX];
    memcpy(from, x, mlp->layer[0].in * sizeof(double));
    for (uint32_t l = 0; l < mlp->layer_count; l++) {
        const struct aw_linear *layer = &mlp->layer[l];
        for (uint32_t o = 0; o < layer->out; o++) {
            double sum = theta[layer->bias + o];
            for (uint32_t i = 0; i < layer->in; i++)
                sum += theta[layer->weight + (size_t)o * layer->in + i] * from[i];
            to[o] = act(l + 1 == mlp->layer_count ? mlp->output : mlp->hidden, sum);
        }
        memcpy(from, to, layer->out * sizeof(double));
    }
    memcpy(y, from, mlp->layer[mlp->layer_count - 1].out * sizeof(double));
}

/* sum(dy * y), the loss whose gradient backward computes. */
static double twin_loss(const struct aw_mlp *mlp, const double *theta, const double *x,
                        const float *dy, uint32_t B)
{
    uint32_t in = mlp->layer[0].in, out = mlp->layer[mlp->layer_count - 1].out;
    double loss = 0, y[WIDTH_MAX];
    for (uint32_t b = 0; b < B; b++) {
        twin_row(mlp, theta, x + (size_t)b * in, y);
        for (uint32_t o = 0; o < out; o++)
            loss += (double)dy[(size_t)b * out + o] * y[o];
    }
    return loss;
}

/* ---- a stack with everything around it ---- */

struct fixture {
    struct aw_params params;
    struct aw_mlp mlp;
    struct aw_mlp_cache cache;
    uint32_t B, in, out;
    float x[FLOATS_MAX], dy[FLOATS_MAX], dx[FLOATS_MAX];
    double theta[FLOATS_MAX], wide_x[FLOATS_MAX];
};

static void set_up(struct fixture *f, const uint32_t *widths, uint32_t width_count,
                   enum aw_act hidden, enum aw_act output, uint32_t B, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    *f = (struct fixture){.B = B, .in = widths[0], .out = widths[width_count - 1]};
    aw_mlp_declare(&f->mlp, &f->params, "net", widths, width_count, hidden, output);
    assert_ok(aw_params_alloc(&f->params, NULL));
    assert_true(f->params.count <= FLOATS_MAX && B * f->in <= FLOATS_MAX &&
                B * f->out <= FLOATS_MAX);
    aw_mlp_init_fan_in(&f->mlp, f->params.value, 0, &rng);
    assert_ok(aw_mlp_cache_init(&f->cache, &f->mlp, B, NULL));
    aw_rng_fill_normal(&rng, f->x, (size_t)B * f->in);
    aw_rng_fill_normal(&rng, f->dy, (size_t)B * f->out);
    for (size_t i = 0; i < f->params.count; i++)
        f->theta[i] = (double)f->params.value[i];
    for (size_t i = 0; i < (size_t)B * f->in; i++)
        f->wide_x[i] = (double)f->x[i];
}

static void tear_down(struct fixture *f)
{
    aw_mlp_cache_deinit(&f->cache);
    aw_params_deinit(&f->params);
}

/* The central difference of the loss along one number. */
static double difference(struct fixture *f, double *number)
{
    const double h = 1e-6, kept = *number;
    *number = kept + h;
    double up = twin_loss(&f->mlp, f->theta, f->wide_x, f->dy, f->B);
    *number = kept - h;
    double down = twin_loss(&f->mlp, f->theta, f->wide_x, f->dy, f->B);
    *number = kept;
    return (up - down) / (2 * h);
}

static const struct {
    uint32_t width_count, widths[5];
    enum aw_act hidden, output;
    uint32_t B;
} cases[] = {
    {2, {3, 2}, AW_ACT_NONE, AW_ACT_NONE, 1},
    {3, {1, 1, 1}, AW_ACT_TANH, AW_ACT_NONE, 1},
    {3, {7, 13, 5}, AW_ACT_RELU, AW_ACT_NONE, 3},
    {3, {7, 13, 5}, AW_ACT_TANH, AW_ACT_TANH, 3},
    {4, {9, 16, 17, 3}, AW_ACT_RELU, AW_ACT_TANH, 8},
    {4, {33, 31, 8, 1}, AW_ACT_TANH, AW_ACT_RELU, 5},
    {5, {4, 6, 5, 7, 2}, AW_ACT_RELU, AW_ACT_NONE, 11},
    {2, {73, 40}, AW_ACT_RELU, AW_ACT_RELU, 2},
};
enum { CASE_COUNT = sizeof(cases) / sizeof(cases[0]) };

static struct fixture f; /* too large for a stack */

static void set_up_case(size_t n)
{
    set_up(&f, cases[n].widths, cases[n].width_count, cases[n].hidden, cases[n].output, cases[n].B,
           n);
}

static void forward_and_infer_match_the_twin(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up_case(n);
        const float *y = aw_mlp_forward(&f.mlp, f.params.value, f.x, f.B, &f.cache);
        for (uint32_t b = 0; b < f.B; b++) {
            double want[WIDTH_MAX];
            float one[WIDTH_MAX];
            twin_row(&f.mlp, f.theta, f.wide_x + (size_t)b * f.in, want);
            aw_mlp_infer(&f.mlp, f.params.value, f.x + (size_t)b * f.in, one);
            for (uint32_t o = 0; o < f.out; o++) {
                assert_close((double)y[(size_t)b * f.out + o], want[o], FORWARD_TOLERANCE);
                assert_close((double)one[o], want[o], FORWARD_TOLERANCE);
            }
        }
        tear_down(&f);
    }
}

static void backward_matches_the_differences_of_the_twin(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up_case(n);
        aw_mlp_forward(&f.mlp, f.params.value, f.x, f.B, &f.cache);
        aw_mlp_backward(&f.mlp, f.params.value, f.x, f.B, &f.cache, f.dy, f.params.grad, f.dx);
        for (uint32_t t = 0; t < f.params.tensor_count; t++)
            for (size_t i = 0; i < aw_param_size(&f.params.tensor[t]); i++) {
                size_t at = f.params.tensor[t].offset + i;
                assert_close((double)f.params.grad[at], difference(&f, &f.theta[at]),
                             GRADIENT_TOLERANCE);
            }
        for (size_t i = 0; i < (size_t)f.B * f.in; i++)
            assert_close((double)f.dx[i], difference(&f, &f.wide_x[i]), GRADIENT_TOLERANCE);
        tear_down(&f);
    }
}

static void backward_adds_to_gradients_writes_dx_and_keeps_dy(void **state)
{
    (void)state;
    static float once[FLOATS_MAX], first_dx[FLOATS_MAX], dy[FLOATS_MAX];
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up_case(n);
        size_t dx_count = (size_t)f.B * f.in;
        memcpy(dy, f.dy, sizeof(dy));
        aw_mlp_forward(&f.mlp, f.params.value, f.x, f.B, &f.cache);
        aw_mlp_backward(&f.mlp, f.params.value, f.x, f.B, &f.cache, f.dy, f.params.grad, f.dx);
        memcpy(once, f.params.grad, f.params.count * sizeof(float));
        memcpy(first_dx, f.dx, dx_count * sizeof(float));
        memset(f.dx, 0x7f, dx_count * sizeof(float));
        aw_mlp_backward(&f.mlp, f.params.value, f.x, f.B, &f.cache, f.dy, f.params.grad, f.dx);
        for (size_t i = 0; i < f.params.count; i++)
            assert_close((double)f.params.grad[i], 2 * (double)once[i], 1e-6);
        assert_memory_equal(f.dx, first_dx, dx_count * sizeof(float));

        /* either gradient alone, and the other is left as it is */
        memset(f.dx, 0, dx_count * sizeof(float));
        aw_mlp_backward(&f.mlp, f.params.value, f.x, f.B, &f.cache, f.dy, NULL, f.dx);
        assert_memory_equal(f.dx, first_dx, dx_count * sizeof(float));
        aw_params_zero_grad(&f.params);
        aw_mlp_backward(&f.mlp, f.params.value, f.x, f.B, &f.cache, f.dy, f.params.grad, NULL);
        assert_memory_equal(f.params.grad, once, f.params.count * sizeof(float));
        assert_memory_equal(f.dy, dy, sizeof(dy));
        tear_down(&f);
    }
}

static void the_gaps_of_the_block_get_no_gradient(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up_case(n);
        aw_mlp_forward(&f.mlp, f.params.value, f.x, f.B, &f.cache);
        aw_mlp_backward(&f.mlp, f.params.value, f.x, f.B, &f.cache, f.dy, f.params.grad, f.dx);
        for (uint32_t t = 0; t < f.params.tensor_count; t++) {
            const struct aw_param *param = &f.params.tensor[t];
            size_t end = t + 1 < f.params.tensor_count ? param[1].offset : f.params.count;
            for (size_t i = param->offset + aw_param_size(param); i < end; i++)
                assert_true(f.params.grad[i] == 0 && f.params.value[i] == 0);
        }
        tear_down(&f);
    }
}

static void a_smaller_batch_fits_a_larger_cache(void **state)
{
    (void)state;
    const uint32_t widths[] = {5, 6, 2};
    set_up(&f, widths, 3, AW_ACT_TANH, AW_ACT_NONE, 9, 1);
    float all[9 * 2];
    memcpy(all, aw_mlp_forward(&f.mlp, f.params.value, f.x, 9, &f.cache), sizeof(all));
    const float *two = aw_mlp_forward(&f.mlp, f.params.value, f.x + 3 * 5, 2, &f.cache);
    for (int i = 0; i < 4; i++)
        assert_close((double)two[i], (double)all[3 * 2 + i], FORWARD_TOLERANCE);
    tear_down(&f);
}

static void names_are_those_of_a_sequential(void **state)
{
    (void)state;
    const uint32_t widths[] = {5, 6, 7, 2};
    set_up(&f, widths, 4, AW_ACT_RELU, AW_ACT_NONE, 1, 1);
    const char *const names[] = {"net.0.weight", "net.0.bias",   "net.2.weight",
                                 "net.2.bias",   "net.4.weight", "net.4.bias"};
    assert_int_equal(f.params.tensor_count, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_string_equal(f.params.tensor[i].name, names[i]);
    assert_int_equal(f.params.tensor[2].shape[0], 7);
    assert_int_equal(f.params.tensor[2].shape[1], 6);
    tear_down(&f);
}

static void the_last_layer_begins_within_its_limit(void **state)
{
    (void)state;
    const uint32_t widths[] = {5, 6, 7};
    set_up(&f, widths, 3, AW_ACT_RELU, AW_ACT_NONE, 1, 1);
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    aw_mlp_init_fan_in(&f.mlp, f.params.value, 3e-3f, &rng);
    double first = 0, last = 0;
    for (size_t i = 0; i < 30; i++)
        first = fmax(first, fabs((double)f.params.value[f.mlp.layer[0].weight + i]));
    for (size_t i = 0; i < 42; i++)
        last = fmax(last, fabs((double)f.params.value[f.mlp.layer[1].weight + i]));
    for (size_t i = 0; i < 7; i++)
        last = fmax(last, fabs((double)f.params.value[f.mlp.layer[1].bias + i]));
    assert_true(first > 0.1 && first <= 1 / sqrt(5.0));
    assert_true(last > 1e-3 && last <= 3.0001e-3);
    tear_down(&f);
}

static void the_orthogonal_beginning_has_its_gains_and_no_bias(void **state)
{
    (void)state;
    const uint32_t widths[] = {5, 6, 7};
    set_up(&f, widths, 3, AW_ACT_TANH, AW_ACT_NONE, 1, 1);
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw_mlp_init_orthogonal(&f.mlp, f.params.value, 0.01f, &rng, &counting.alloc),
                     AW_ERR_NOMEM);
    counting.fail_after = UINT64_MAX;
    assert_ok(aw_mlp_init_orthogonal(&f.mlp, f.params.value, 0.01f, &rng, &counting.alloc));
    assert_int_equal(counting.alloc_count, counting.free_count);
    const double gain[2] = {sqrt(2), 0.01};
    for (int l = 0; l < 2; l++) {
        const struct aw_linear *layer = &f.mlp.layer[l];
        for (uint32_t c = 0; c < layer->in; c++) {
            double norm = 0;
            for (uint32_t r = 0; r < layer->out; r++)
                norm += pow((double)f.params.value[layer->weight + (size_t)r * layer->in + c], 2);
            assert_true(fabs(sqrt(norm) / gain[l] - 1) < 1e-6);
        }
        for (uint32_t r = 0; r < layer->out; r++)
            assert_true(f.params.value[layer->bias + r] == 0);
    }
    tear_down(&f);
}

static void a_cache_is_one_block_and_running_allocates_nothing(void **state)
{
    (void)state;
    const uint32_t widths[] = {5, 6, 2};
    set_up(&f, widths, 3, AW_ACT_TANH, AW_ACT_NONE, 4, 1);
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    struct aw_mlp_cache cache;
    counting.fail_after = 0;
    assert_int_equal(aw_mlp_cache_init(&cache, &f.mlp, 4, &counting.alloc), AW_ERR_NOMEM);
    aw_mlp_cache_deinit(&cache);
    counting.fail_after = UINT64_MAX;
    assert_ok(aw_mlp_cache_init(&cache, &f.mlp, 4, &counting.alloc));
    for (int i = 0; i < 3; i++) {
        aw_mlp_forward(&f.mlp, f.params.value, f.x, 4, &cache);
        aw_mlp_backward(&f.mlp, f.params.value, f.x, 4, &cache, f.dy, f.params.grad, f.dx);
    }
    aw_mlp_cache_deinit(&cache);
    aw_mlp_cache_deinit(&cache);
    assert_int_equal(counting.alloc_count, 1);
    assert_int_equal(counting.free_count, 1);
    tear_down(&f);
}

static void the_same_inputs_give_the_same_bits(void **state)
{
    (void)state;
    static float again[FLOATS_MAX];
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up_case(n);
        size_t bytes = (size_t)f.B * f.out * sizeof(float);
        memcpy(again, aw_mlp_forward(&f.mlp, f.params.value, f.x, f.B, &f.cache), bytes);
        assert_memory_equal(again, aw_mlp_forward(&f.mlp, f.params.value, f.x, f.B, &f.cache),
                            bytes);
        tear_down(&f);
    }
}

static void nan_in_the_input_reaches_the_output(void **state)
{
    (void)state;
    /* a ReLU that maps NaN to 0 would hide a diverged network from every check behind it */
    for (enum aw_act act = AW_ACT_NONE; act <= AW_ACT_TANH; act++) {
        const uint32_t widths[] = {5, 6, 2};
        set_up(&f, widths, 3, act, AW_ACT_NONE, 2, 1);
        f.x[1] = NAN;
        const float *y = aw_mlp_forward(&f.mlp, f.params.value, f.x, 2, &f.cache);
        float one[2];
        aw_mlp_infer(&f.mlp, f.params.value, f.x, one);
        assert_true(isnan(y[0]) && isnan(y[1]) && isfinite(y[2]) && isfinite(y[3]));
        assert_true(isnan(one[0]) && isnan(one[1]));
        tear_down(&f);
    }
}

AW_TEST_GROUP("mlp")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_infer_match_the_twin),
        cmocka_unit_test(backward_matches_the_differences_of_the_twin),
        cmocka_unit_test(backward_adds_to_gradients_writes_dx_and_keeps_dy),
        cmocka_unit_test(the_gaps_of_the_block_get_no_gradient),
        cmocka_unit_test(a_smaller_batch_fits_a_larger_cache),
        cmocka_unit_test(names_are_those_of_a_sequential),
        cmocka_unit_test(the_last_layer_begins_within_its_limit),
        cmocka_unit_test(the_orthogonal_beginning_has_its_gains_and_no_bias),
        cmocka_unit_test(a_cache_is_one_block_and_running_allocates_nothing),
        cmocka_unit_test(the_same_inputs_give_the_same_bits),
        cmocka_unit_test(nan_in_the_input_reaches_the_output),
    };
    return cmocka_run_group_tests_name("mlp", tests, NULL, NULL);
}
