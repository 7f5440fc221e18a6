/* The GRU against a naive twin in double; its backward against the twin's differences. */
#include "nn/gru.h"

#include "base/testing.h"
#include "nn/gru_gates.h"
#include "nn/gru_internal.h"
#include "nn/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORWARD_TOLERANCE  1e-6
#define GRADIENT_TOLERANCE 1e-5 /* the promise is 1e-4 */

enum { FLOATS_MAX = 8192, HIDDEN_MAX = 32 };

/* ---- the twin: the equations of the header, one number at a time ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* row . x + bias */
static double affine(const double *theta, size_t weight, size_t bias, size_t row, const double *x,
                     size_t n)
{
    double sum = theta[bias + row];
    for (size_t i = 0; i < n; i++)
        sum += theta[weight + row * n + i] * x[i];
    return sum;
}

static void twin_step(const struct aw_gru_cell *cell, size_t H, const double *theta,
                      const double *x, double *h)
{
    double next[HIDDEN_MAX];
    for (size_t k = 0; k < H; k++) {
        double in[3], rec[3];
        for (size_t gate = 0; gate < 3; gate++) {
            size_t row = gate * H + k;
            in[gate] = affine(theta, cell->weight_ih, cell->bias_ih, row, x, cell->in);
            rec[gate] = affine(theta, cell->weight_hh, cell->bias_hh, row, h, H);
        }
        double r = sigmoid(in[0] + rec[0]), z = sigmoid(in[1] + rec[1]);
        double n = tanh(in[2] + r * rec[2]);
        next[k] = (1 - z) * n + z * h[k];
    }
    memcpy(h, next, H * sizeof(double));
}

/* y [T][B][directions * H], h_n [layers * directions][B][H]. */
static void twin_forward(const struct aw_gru *gru, const double *theta, const double *x, size_t T,
                         size_t B, double *y, double *h_n)
{
    static double lower[FLOATS_MAX];
    size_t H = gru->hidden, directions = gru->direction_count;
    memcpy(lower, x, T * B * gru->in * sizeof(double));
    for (size_t l = 0; l < gru->layer_count; l++) {
        size_t in = gru->cell[l][0].in;
        for (size_t d = 0; d < directions; d++) {
            for (size_t b = 0; b < B; b++) {
                double *h = h_n + ((l * directions + d) * B + b) * H;
                memset(h, 0, H * sizeof(double));
                for (size_t step = 0; step < T; step++) {
                    size_t t = d ? T - 1 - step : step;
                    twin_step(&gru->cell[l][d], H, theta, lower + (t * B + b) * in, h);
                    memcpy(y + (t * B + b) * directions * H + d * H, h, H * sizeof(double));
                }
            }
        }
        memcpy(lower, y, T * B * directions * H * sizeof(double));
    }
}

/* ---- a GRU with everything around it ---- */

static struct fixture {
    struct aw_params params;
    struct aw_gru gru;
    struct aw_gru_cache *cache;
    uint32_t T, B;
    size_t x_count, y_count, h_count;
    float x[FLOATS_MAX], dy[FLOATS_MAX], dh_n[FLOATS_MAX];
    float y[FLOATS_MAX], h_n[FLOATS_MAX], dx[FLOATS_MAX];
    double theta[FLOATS_MAX], wide_x[FLOATS_MAX], want_y[FLOATS_MAX], want_h[FLOATS_MAX];
} f; /* too large for a stack */

static const struct {
    const char *why;
    uint32_t in, hidden, layers;
    bool both;
    uint32_t T, B;
} cases[] = {
    {"one number", 1, 1, 1, false, 1, 1},
    {"one step has no recurrence", 3, 8, 1, false, 1, 4},
    {"an odd width leaves a tail", 5, 7, 1, false, 6, 3},
    {"a whole number of vectors", 4, 16, 1, false, 5, 2},
    {"one more than a vector", 6, 17, 1, false, 4, 1},
    {"both ways", 3, 5, 1, true, 4, 2},
    {"layers read both directions below", 3, 4, 2, true, 5, 3},
    {"three chunks of steps, the last one short", 1, 3, 1, true, 53, 4},
    {"as deep as can be", 2, 3, 4, true, 3, 2},
};
enum { CASE_COUNT = sizeof(cases) / sizeof(cases[0]) };

static void set_up(size_t n, const struct aw_alloc *alloc)
{
    struct aw_rng rng;
    aw_rng_init(&rng, n, 0);
    f = (struct fixture){.T = cases[n].T, .B = cases[n].B};
    aw_gru_declare(&f.gru, &f.params, "gru", cases[n].in, cases[n].hidden, cases[n].layers,
                   cases[n].both);
    assert_ok(aw_params_alloc(&f.params, NULL));
    aw_gru_init_uniform(&f.gru, f.params.value, &rng);
    assert_ok(aw_gru_cache_new(&f.gru, f.T, f.B, true, alloc, &f.cache));
    size_t rows = (size_t)f.T * f.B, directions = f.gru.direction_count, H = f.gru.hidden;
    f.x_count = rows * f.gru.in;
    f.y_count = rows * directions * H;
    f.h_count = f.gru.layer_count * directions * f.B * H;
    assert_true(f.params.count <= FLOATS_MAX && f.x_count <= FLOATS_MAX &&
                f.y_count <= FLOATS_MAX && H <= HIDDEN_MAX);
    aw_rng_fill_normal(&rng, f.x, f.x_count);
    aw_rng_fill_normal(&rng, f.dy, f.y_count);
    aw_rng_fill_normal(&rng, f.dh_n, f.h_count);
    for (size_t i = 0; i < f.params.count; i++)
        f.theta[i] = (double)f.params.value[i];
    for (size_t i = 0; i < f.x_count; i++)
        f.wide_x[i] = (double)f.x[i];
}

static void tear_down(void)
{
    aw_gru_cache_free(f.cache);
    aw_params_deinit(&f.params);
}

static const float *forward(void)
{
    return aw_gru_forward(&f.gru, f.params.value, f.x, f.T, f.B, f.cache, f.h_n);
}

static void backward(const float *dy, const float *dh_n, float *grad, float *dx)
{
    aw_gru_backward(&f.gru, f.params.value, f.x, f.T, f.B, f.cache, dy, dh_n, grad, dx);
}

/* sum(dy * y) + sum(dh_n * h_n), the loss whose gradient backward computes. */
static double twin_loss(bool with_y, bool with_h)
{
    double loss = 0;
    twin_forward(&f.gru, f.theta, f.wide_x, f.T, f.B, f.want_y, f.want_h);
    for (size_t i = 0; with_y && i < f.y_count; i++)
        loss += (double)f.dy[i] * f.want_y[i];
    for (size_t i = 0; with_h && i < f.h_count; i++)
        loss += (double)f.dh_n[i] * f.want_h[i];
    return loss;
}

static double difference(double *number, bool with_y, bool with_h)
{
    const double h = 1e-5, kept = *number;
    *number = kept + h;
    double up = twin_loss(with_y, with_h);
    *number = kept - h;
    double down = twin_loss(with_y, with_h);
    *number = kept;
    return (up - down) / (2 * h);
}

static void check_differences(bool with_y, bool with_h)
{
    for (uint32_t t = 0; t < f.params.tensor_count; t++)
        for (size_t i = 0; i < aw_param_size(&f.params.tensor[t]); i++) {
            size_t at = f.params.tensor[t].offset + i;
            assert_close((double)f.params.grad[at], difference(&f.theta[at], with_y, with_h),
                         GRADIENT_TOLERANCE);
        }
    for (size_t i = 0; i < f.x_count; i++)
        assert_close((double)f.dx[i], difference(&f.wide_x[i], with_y, with_h), GRADIENT_TOLERANCE);
}

static void use_cache(bool training, bool packed)
{
    aw_gru_cache_free(f.cache);
    assert_ok(aw__gru_cache_new(&f.gru, f.T, f.B, training, packed, NULL, &f.cache));
}

static void forward_matches_the_twin_with_and_without_training(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up(n, NULL);
        twin_forward(&f.gru, f.theta, f.wide_x, f.T, f.B, f.want_y, f.want_h);
        for (int way = 0; way < 4; way++) {
            use_cache(way & 1, way & 2);
            const float *y = forward();
            for (size_t i = 0; i < f.y_count; i++)
                assert_close((double)y[i], f.want_y[i], FORWARD_TOLERANCE);
            for (size_t i = 0; i < f.h_count; i++)
                assert_close((double)f.h_n[i], f.want_h[i], FORWARD_TOLERANCE);
        }
        aw_gru_forward(&f.gru, f.params.value, f.x, f.T, f.B, f.cache, NULL);
        tear_down();
    }
}

static void backward_matches_the_differences_of_the_twin(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++)
        for (int packed = 0; packed < 2; packed++) {
            set_up(n, NULL);
            use_cache(true, packed);
            forward();
            backward(f.dy, f.dh_n, f.params.grad, f.dx);
            check_differences(true, true);
            tear_down();
        }
}

static void either_upstream_gradient_may_be_missing(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT - 1; n++) { /* the last is slow and shows nothing more */
        for (int with_y = 0; with_y < 2; with_y++) {
            set_up(n, NULL);
            forward();
            backward(with_y ? f.dy : NULL, with_y ? NULL : f.dh_n, f.params.grad, f.dx);
            check_differences(with_y, !with_y);
            tear_down();
        }
    }
}

static void backward_adds_to_gradients_and_writes_dx(void **state)
{
    (void)state;
    static float once[FLOATS_MAX], first_dx[FLOATS_MAX], dy[FLOATS_MAX], dh_n[FLOATS_MAX];
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up(n, NULL);
        memcpy(dy, f.dy, sizeof(dy));
        memcpy(dh_n, f.dh_n, sizeof(dh_n));
        forward();
        backward(f.dy, f.dh_n, f.params.grad, f.dx);
        memcpy(once, f.params.grad, f.params.count * sizeof(float));
        memcpy(first_dx, f.dx, f.x_count * sizeof(float));
        memset(f.dx, 0x7f, f.x_count * sizeof(float));
        forward();
        backward(f.dy, f.dh_n, f.params.grad, f.dx);
        for (size_t i = 0; i < f.params.count; i++)
            assert_close((double)f.params.grad[i], 2 * (double)once[i], 1e-6);
        assert_memory_equal(f.dx, first_dx, f.x_count * sizeof(float));

        forward();
        aw_params_zero_grad(&f.params);
        backward(f.dy, f.dh_n, f.params.grad, NULL);
        assert_memory_equal(f.params.grad, once, f.params.count * sizeof(float));
        assert_memory_equal(f.dy, dy, sizeof(dy));
        assert_memory_equal(f.dh_n, dh_n, sizeof(dh_n));
        tear_down();
    }
}

static void a_shorter_and_thinner_batch_fits_a_larger_cache(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up(n, NULL);
        static float y[FLOATS_MAX], grad[FLOATS_MAX];
        memcpy(y, forward(), f.y_count * sizeof(float));
        backward(f.dy, f.dh_n, f.params.grad, f.dx);
        memcpy(grad, f.params.grad, f.params.count * sizeof(float));
        aw_gru_cache_free(f.cache);
        assert_ok(aw_gru_cache_new(&f.gru, f.T + 3, f.B + 5, true, NULL, &f.cache));
        aw_params_zero_grad(&f.params);
        const float *again = forward();
        for (size_t i = 0; i < f.y_count; i++)
            assert_close((double)again[i], (double)y[i], FORWARD_TOLERANCE);
        backward(f.dy, f.dh_n, f.params.grad, f.dx);
        for (size_t i = 0; i < f.params.count; i++)
            assert_close((double)f.params.grad[i], (double)grad[i], FORWARD_TOLERANCE);
        tear_down();
    }
}

static void the_gaps_of_the_block_get_no_gradient(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up(n, NULL);
        forward();
        backward(f.dy, f.dh_n, f.params.grad, f.dx);
        for (uint32_t t = 0; t < f.params.tensor_count; t++) {
            const struct aw_param *param = &f.params.tensor[t];
            size_t end = t + 1 < f.params.tensor_count ? param[1].offset : f.params.count;
            for (size_t i = param->offset + aw_param_size(param); i < end; i++)
                assert_true(f.params.grad[i] == 0 && f.params.value[i] == 0);
        }
        tear_down();
    }
}

static void names_and_shapes_are_those_of_pytorch(void **state)
{
    (void)state;
    set_up(6, NULL); /* in 3, hidden 4, two layers both ways */
    const struct {
        const char *name;
        uint32_t rank, rows, columns;
    } want[] = {
        {"gru.weight_ih_l0", 2, 12, 3},         {"gru.weight_hh_l0", 2, 12, 4},
        {"gru.bias_ih_l0", 1, 12, 1},           {"gru.bias_hh_l0", 1, 12, 1},
        {"gru.weight_ih_l0_reverse", 2, 12, 3}, {"gru.weight_hh_l0_reverse", 2, 12, 4},
        {"gru.weight_ih_l1", 2, 12, 8},         {"gru.weight_ih_l1_reverse", 2, 12, 8},
        {"gru.bias_hh_l1_reverse", 1, 12, 1},
    };
    assert_int_equal(f.params.tensor_count, 16);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const struct aw_param *param = aw_params_find(&f.params, want[i].name);
        assert_non_null(param);
        assert_int_equal(param->rank, want[i].rank);
        assert_int_equal(param->shape[0], want[i].rows);
        assert_int_equal(param->shape[1], want[i].columns);
    }
    tear_down();
}

static void weights_begin_within_pytorchs_bound(void **state)
{
    (void)state;
    set_up(4, NULL);
    double limit = 1 / sqrt(17.0), largest = 0;
    for (size_t i = 0; i < f.params.count; i++)
        largest = fmax(largest, fabs((double)f.params.value[i]));
    assert_true(largest <= limit * (1 + 1e-6) && largest > 0.95 * limit);
    tear_down();
}

static void running_allocates_nothing_and_a_failed_cache_leaks_nothing(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    set_up(6, &counting.alloc);
    uint64_t made = counting.alloc_count;
    for (int i = 0; i < 3; i++) {
        forward();
        backward(f.dy, f.dh_n, f.params.grad, f.dx);
    }
    assert_int_equal(counting.alloc_count, made);
    tear_down();
    assert_int_equal(counting.alloc_count, counting.free_count);

    for (uint64_t budget = 0; budget < made; budget++) {
        struct aw_gru_cache *cache = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        assert_int_equal(aw_gru_cache_new(&f.gru, 4, 4, true, &counting.alloc, &cache),
                         AW_ERR_NOMEM);
        assert_null(cache);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    aw_gru_cache_free(NULL);
}

static void extreme_inputs_saturate_and_stay_finite(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up(n, NULL);
        for (size_t i = 0; i < f.x_count; i++)
            f.x[i] *= 1e6f;
        const float *y = forward();
        for (size_t i = 0; i < f.y_count; i++)
            assert_true(fabs((double)y[i]) <= 1 + 1e-6);
        backward(f.dy, f.dh_n, f.params.grad, f.dx);
        assert_true(aw_params_finite(f.params.grad, f.params.count));
        assert_true(aw_params_finite(f.dx, f.x_count));
        tear_down();
    }
}

static void nan_in_the_input_reaches_the_output(void **state)
{
    (void)state;
    for (size_t n = 0; n < CASE_COUNT; n++) {
        set_up(n, NULL);
        f.x[0] = NAN; /* the first step of the first sequence */
        const float *y = forward();
        assert_false(aw_params_finite(y, f.gru.direction_count * f.gru.hidden));
        tear_down();
    }
}

#if AW__HAVE_AVX2
/* The twin above sees one build of the gates, that of the processor at hand; so the other one is
 * held against it. Every H around a vector of 8, every row and panel, nothing beyond. */
static void both_builds_of_the_gates_agree(void **state)
{
    (void)state;
    enum { B = 3, H_MAX = 19, H_ROW = 2 * H_MAX + 3, ROW = 4 * H_MAX + 5, GUARD = 77 };
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    if (!aw__cpu_avx2()) {
        print_message("skipped: this processor has no AVX2\n");
        skip();
    }
    for (uint32_t H = 1; H <= H_MAX; H++)
        for (int way = 0; way < 4; way++) {
            const bool first = way & 1, keep = way & 2; /* no state before the first step */
            float gh[3 * B * 3 * AW__GRU_UNITS], bias[4 * H_MAX], before[B * H_ROW], dy[B * H_ROW];
            float h[2][B * H_ROW], gates[2][B * ROW], entry[B * ROW];
            aw_rng_fill_normal(&rng, bias, sizeof bias / sizeof *bias);
            aw_rng_fill_normal(&rng, before, B * H_ROW);
            aw_rng_fill_normal(&rng, dy, B * H_ROW);
            aw_rng_fill_normal(&rng, gh, sizeof gh / sizeof *gh);
            aw_rng_fill_normal(&rng, entry, B * ROW);
            for (int build = 0; build < 2; build++) {
                memcpy(gates[build], entry, sizeof entry);
                for (size_t i = 0; i < (size_t)B * H_ROW; i++)
                    h[build][i] = GUARD;
                const struct aw__gru_gates g = {.B = B,
                                                .H = H,
                                                .gh = gh,
                                                .gates = gates[build],
                                                .gates_row = ROW,
                                                .bias = bias,
                                                .h_prev = first ? NULL : before,
                                                .h = h[build],
                                                .h_row = H_ROW,
                                                .keep = keep};
                if (build)
                    aw__gru_gates_generic(&g, 0);
                else
                    aw__gru_gates_avx2(&g);
            }
            for (size_t i = 0; i < (size_t)B * H_ROW; i++) {
                assert_close((double)h[0][i], (double)h[1][i], 1e-6);
                assert_true(i % H_ROW < H || h[0][i] == GUARD);
            }
            for (size_t i = 0; i < (size_t)B * ROW; i++) {
                assert_close((double)gates[0][i], (double)gates[1][i], 1e-6);
                assert_true((keep && i % ROW < 4 * H) || gates[0][i] == entry[i]);
            }

            float dh[2][B * H_MAX], dbias[2][4 * H_MAX] = {{0}};
            aw_rng_fill_normal(&rng, dh[0], B * H_MAX);
            memcpy(dh[1], dh[0], sizeof dh[0]);
            memcpy(gates[1], gates[0], sizeof gates[0]);
            for (int build = 0; build < 2; build++) {
                const struct aw__gru_gates_backward g = {.B = B,
                                                         .H = H,
                                                         .gates = gates[build],
                                                         .gates_row = ROW,
                                                         .h_prev = first ? NULL : before,
                                                         .dy = keep ? dy : NULL,
                                                         .h_row = H_ROW,
                                                         .dh = dh[build],
                                                         .dbias = dbias[build]};
                if (build)
                    aw__gru_gates_backward_generic(&g, 0);
                else
                    aw__gru_gates_backward_avx2(&g);
            }
            for (size_t i = 0; i < (size_t)B * H; i++)
                assert_close((double)dh[0][i], (double)dh[1][i], 1e-6);
            for (size_t i = 0; i < (size_t)B * ROW; i++)
                assert_close((double)gates[0][i], (double)gates[1][i], 1e-6);
            for (size_t i = 0; i < (size_t)4 * H; i++)
                assert_close((double)dbias[0][i], (double)dbias[1][i], 1e-6);
        }
}

/* Sigmoid and tanh of the wide build, read off gates in which one sum alone is not zero: relative
 * to the truth, small numbers included, and saturated where expf would be infinite. */
static void the_gates_are_exact_to_a_few_units_in_the_last_place(void **state)
{
    (void)state;
    enum { H = 8 };
    if (!aw__cpu_avx2()) {
        print_message("skipped: this processor has no AVX2\n");
        skip();
    }
    for (int n = -4000; n <= 4000; n++) {
        const float size = powf(10, (float)(abs(n) % 1000) / 125 - 6) * (n < 0 ? -1 : 1);
        float gates[4 * H] = {size, [H] = size, [2 * H] = size}, h[H], bias[4 * H] = {0};
        aw__gru_gates_avx2(&(struct aw__gru_gates){
            .B = 1, .H = H, .gates = gates, .bias = bias, .h = h, .keep = true});
        const double x = (double)size, r = sigmoid(x), t = tanh(x);
        assert_true(fabs((double)gates[0] - r) <= 3e-7 * r + 1e-37);
        assert_true(fabs((double)gates[2 * H] - t) <= 3e-7 * fabs(t));
    }
}
#endif

AW_TEST_GROUP("gru")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_matches_the_twin_with_and_without_training),
        cmocka_unit_test(backward_matches_the_differences_of_the_twin),
        cmocka_unit_test(either_upstream_gradient_may_be_missing),
        cmocka_unit_test(backward_adds_to_gradients_and_writes_dx),
        cmocka_unit_test(a_shorter_and_thinner_batch_fits_a_larger_cache),
        cmocka_unit_test(the_gaps_of_the_block_get_no_gradient),
        cmocka_unit_test(names_and_shapes_are_those_of_pytorch),
        cmocka_unit_test(weights_begin_within_pytorchs_bound),
        cmocka_unit_test(running_allocates_nothing_and_a_failed_cache_leaks_nothing),
        cmocka_unit_test(extreme_inputs_saturate_and_stay_finite),
        cmocka_unit_test(nan_in_the_input_reaches_the_output),
#if AW__HAVE_AVX2
        cmocka_unit_test(both_builds_of_the_gates_agree),
        cmocka_unit_test(the_gates_are_exact_to_a_few_units_in_the_last_place),
#endif
    };
    return cmocka_run_group_tests_name("gru", tests, NULL, NULL);
}
