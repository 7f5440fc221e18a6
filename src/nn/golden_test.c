/*
 * What PyTorch computes, against what we compute: dumps of tests/golden, made by its make.py.
 *
 * A result a of a tensor is right when |a - b| <= TOLERANCE * max |b| over that tensor, for both
 * references b: torch's float32 result and torch's float64 result of the same float32 inputs. That
 * is stricter than an absolute bound where gradients are small. All dumps are read by our own
 * reader.
 */
#include "base/testing.h"
#include "nn/adam.h"
#include "nn/gru.h"
#include "nn/loss.h"
#include "nn/mlp.h"
#include "nn/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 2e-6 /* the promise is 1e-5 */

/* ---- reading the dumps ---- */

static struct aw_safetensors *mlp_dump, *gru_dump, *loss_dump, *optim_dump;

static int open_dump(const char *name, struct aw_safetensors **ret_file)
{
    const char *folder = getenv("AW_TESTDATA");
    char path[4096];
    struct aw_diag diag = {0};
    if (!folder) {
        print_error("set AW_TESTDATA to the folder tests/ of the source tree\n");
        return -1;
    }
    snprintf(path, sizeof(path), "%s/golden/%s.safetensors", folder, name);
    enum aw_err err = aw_safetensors_open(path, NULL, ret_file, &diag);
    if (err)
        print_error("%s: %s\n", path, diag.text);
    return err ? -1 : 0;
}

static int open_dumps(void **state)
{
    (void)state;
    return open_dump("mlp", &mlp_dump) || open_dump("gru", &gru_dump) ||
                   open_dump("loss", &loss_dump) || open_dump("optim", &optim_dump)
               ? -1
               : 0;
}

static int close_dumps(void **state)
{
    (void)state;
    aw_safetensors_close(mlp_dump);
    aw_safetensors_close(gru_dump);
    aw_safetensors_close(loss_dump);
    aw_safetensors_close(optim_dump);
    return 0;
}

/* The tensor CASE.NAME, of `count` elements. */
static struct aw_tensor_view find(const struct aw_safetensors *dump, const char *test_case,
                                  const char *name, enum aw_dtype dtype, size_t count)
{
    char full[AW_SAFETENSORS_NAME_MAX];
    struct aw_tensor_view view = {0};
    snprintf(full, sizeof(full), "%s.%s", test_case, name);
    if (!aw_safetensors_find(dump, full, &view) || view.dtype != dtype ||
        view.bytes != count * aw_dtype_size(dtype)) {
        print_error("no tensor %s of %zu elements of %s\n", full, count, aw_dtype_name(dtype));
        fail();
    }
    return view;
}

static const float *input(const struct aw_safetensors *dump, const char *test_case,
                          const char *name, size_t count)
{
    return find(dump, test_case, name, AW_DTYPE_F32, count).data;
}

static double worst; /* largest error seen by the running test, in units of max |b| */

static void compare(const char *test_case, const char *name, size_t i, double got, double want,
                    double scale)
{
    double error = scale > 0 ? fabs(got - want) / scale : fabs(got - want);
    worst = fmax(worst, error);
    if (!(error <= TOLERANCE)) {
        print_error("%s.%s[%zu]: we have %.9g, PyTorch %.9g; the largest is %.9g\n", test_case,
                    name, i, got, want, scale);
        fail();
    }
}

/* `got` against CASE.f32.NAME and CASE.f64.NAME. */
static void check(const struct aw_safetensors *dump, const char *test_case, const char *name,
                  const float *got, size_t count)
{
    char full[AW_SAFETENSORS_NAME_MAX];
    snprintf(full, sizeof(full), "f32.%s", name);
    const float *f32 = find(dump, test_case, full, AW_DTYPE_F32, count).data;
    snprintf(full, sizeof(full), "f64.%s", name);
    const double *f64 = find(dump, test_case, full, AW_DTYPE_F64, count).data;
    double scale = 0;
    for (size_t i = 0; i < count; i++)
        scale = fmax(scale, fabs(f64[i]));
    for (size_t i = 0; i < count; i++) {
        compare(test_case, name, i, (double)got[i], (double)f32[i], scale);
        compare(test_case, name, i, (double)got[i], f64[i], scale);
    }
}

static void check_one(const struct aw_safetensors *dump, const char *test_case, const char *name,
                      double got)
{
    const float narrow = (float)got;
    check(dump, test_case, name, &narrow, 1);
}

static void load_theta(const struct aw_safetensors *dump, const char *test_case,
                       struct aw_params *params)
{
    char prefix[AW_SAFETENSORS_NAME_MAX];
    struct aw_diag diag = {0};
    assert_ok(aw_params_alloc(params, NULL));
    snprintf(prefix, sizeof(prefix), "%s.theta.", test_case);
    enum aw_err err = aw_safetensors_copy_params(dump, params, prefix, params->value, &diag);
    if (err)
        print_error("%s: %s\n", diag.key, diag.text);
    assert_ok(err);
}

static void check_gradients(const struct aw_safetensors *dump, const char *test_case,
                            const struct aw_params *params)
{
    for (uint32_t i = 0; i < params->tensor_count; i++) {
        const struct aw_param *param = &params->tensor[i];
        char name[AW_SAFETENSORS_NAME_MAX];
        snprintf(name, sizeof(name), "grad.%s", param->name);
        check(dump, test_case, name, params->grad + param->offset, aw_param_size(param));
    }
}

static void begin(void)
{
    worst = 0;
}

static void end(const char *what)
{
    print_message("# %s: largest error %.1e\n", what, worst);
}

/* ---- layers ---- */

static void layers_match_forward_and_backward(void **state)
{
    (void)state;
    const struct {
        const char *name;
        uint32_t width_count, widths[4];
        enum aw_act hidden, output;
        uint32_t B;
    } cases[] = {
        {"linear", 2, {7, 5}, AW_ACT_NONE, AW_ACT_NONE, 3},
        {"relu", 4, {73, 40, 40, 3}, AW_ACT_RELU, AW_ACT_NONE, 64},
        {"relu_tanh", 4, {73, 40, 40, 3}, AW_ACT_RELU, AW_ACT_TANH, 64},
        {"tanh_one_row", 4, {73, 40, 40, 3}, AW_ACT_TANH, AW_ACT_NONE, 1},
        {"relu_one_row", 4, {73, 40, 40, 3}, AW_ACT_RELU, AW_ACT_TANH, 1},
        {"odd_relu", 3, {7, 13, 5}, AW_ACT_RELU, AW_ACT_NONE, 3},
        {"odd_tanh", 3, {7, 13, 5}, AW_ACT_TANH, AW_ACT_TANH, 3},
        {"narrow", 3, {1, 1, 1}, AW_ACT_TANH, AW_ACT_NONE, 2},
        {"wide", 3, {76, 64, 1}, AW_ACT_RELU, AW_ACT_NONE, 17},
    };
    begin();
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        const char *name = cases[n].name;
        uint32_t B = cases[n].B;
        size_t in = cases[n].widths[0], out = cases[n].widths[cases[n].width_count - 1];
        struct aw_params params = {0};
        struct aw_mlp mlp;
        struct aw_mlp_cache cache;
        aw_mlp_declare(&mlp, &params, "net", cases[n].widths, cases[n].width_count, cases[n].hidden,
                       cases[n].output);
        load_theta(mlp_dump, name, &params);
        assert_ok(aw_mlp_cache_init(&cache, &mlp, B, NULL));
        float *dx = aw_alloc_new(NULL, B * in, sizeof(float));
        float *rows = aw_alloc_new(NULL, B * out, sizeof(float));
        const float *x = input(mlp_dump, name, "x", B * in);

        const float *y = aw_mlp_forward(&mlp, params.value, x, B, &cache);
        check(mlp_dump, name, "y", y, B * out);
        for (uint32_t b = 0; b < B; b++)
            aw_mlp_infer(&mlp, params.value, x + b * in, rows + b * out);
        check(mlp_dump, name, "y", rows, B * out);
        aw_mlp_backward(&mlp, params.value, x, B, &cache, input(mlp_dump, name, "dy", B * out),
                        params.grad, dx);
        check(mlp_dump, name, "dx", dx, B * in);
        check_gradients(mlp_dump, name, &params);

        aw_alloc_free(NULL, rows);
        aw_alloc_free(NULL, dx);
        aw_mlp_cache_deinit(&cache);
        aw_params_deinit(&params);
    }
    end("layers");
}

static void gru_matches_forward_and_backward(void **state)
{
    (void)state;
    const struct {
        const char *name;
        uint32_t in, hidden, layers;
        bool both;
        uint32_t T, B;
    } cases[] = {
        {"plain", 13, 24, 1, false, 7, 5},       {"odd", 13, 10, 1, false, 7, 5},
        {"one_step", 3, 8, 1, false, 1, 1},      {"deep_both_ways", 13, 24, 2, true, 7, 5},
        {"odd_both_ways", 5, 10, 2, true, 4, 3}, {"three_layers", 4, 6, 3, false, 5, 2},
        {"long", 13, 64, 1, false, 20, 4},
    };
    begin();
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        const char *name = cases[n].name;
        uint32_t T = cases[n].T, B = cases[n].B, H = cases[n].hidden;
        uint32_t directions = cases[n].both ? 2 : 1;
        size_t x_count = (size_t)T * B * cases[n].in, y_count = (size_t)T * B * directions * H;
        size_t h_count = (size_t)cases[n].layers * directions * B * H;
        struct aw_params params = {0};
        struct aw_gru gru;
        struct aw_gru_cache *cache;
        aw_gru_declare(&gru, &params, "gru", cases[n].in, H, cases[n].layers, cases[n].both);
        load_theta(gru_dump, name, &params);
        float *dx = aw_alloc_new(NULL, x_count, sizeof(float));
        float *h_n = aw_alloc_new(NULL, h_count, sizeof(float));
        const float *x = input(gru_dump, name, "x", x_count);

        assert_ok(aw_gru_cache_new(&gru, T, B, false, NULL, &cache));
        check(gru_dump, name, "y", aw_gru_forward(&gru, params.value, x, T, B, cache, h_n),
              y_count);
        check(gru_dump, name, "h_n", h_n, h_count);
        aw_gru_cache_free(cache);

        assert_ok(aw_gru_cache_new(&gru, T, B, true, NULL, &cache));
        check(gru_dump, name, "y", aw_gru_forward(&gru, params.value, x, T, B, cache, h_n),
              y_count);
        check(gru_dump, name, "h_n", h_n, h_count);
        aw_gru_backward(&gru, params.value, x, T, B, cache, input(gru_dump, name, "dy", y_count),
                        input(gru_dump, name, "dh_n", h_count), params.grad, dx);
        check(gru_dump, name, "dx", dx, x_count);
        check_gradients(gru_dump, name, &params);

        aw_gru_cache_free(cache);
        aw_alloc_free(NULL, h_n);
        aw_alloc_free(NULL, dx);
        aw_params_deinit(&params);
    }
    end("gru");
}

/* ---- losses ---- */

enum { B = 6, D = 4, N = 5, COUNT = 24 };

static void mse_and_huber_match(void **state)
{
    (void)state;
    float dy[COUNT];
    begin();
    check_one(loss_dump, "mse", "loss",
              aw_loss_mse(input(loss_dump, "mse", "y", COUNT),
                          input(loss_dump, "mse", "target", COUNT), COUNT, dy));
    check(loss_dump, "mse", "dy", dy, COUNT);
    check_one(loss_dump, "huber", "loss",
              aw_loss_huber(input(loss_dump, "huber", "y", COUNT),
                            input(loss_dump, "huber", "target", COUNT), COUNT, 0.75f, dy));
    check(loss_dump, "huber", "dy", dy, COUNT);
    end("mse and huber");
}

static void gaussian_log_probabilities_match(void **state)
{
    (void)state;
    begin();
    for (size_t stride = 0; stride <= D; stride += D) {
        const char *name = stride ? "gaussian_own" : "gaussian_shared";
        size_t widths = stride ? B * D : D;
        const float *x = input(loss_dump, name, "x", B * D);
        const float *mean = input(loss_dump, name, "mean", B * D);
        const float *log_std = input(loss_dump, name, "log_std", widths);
        float logp[B], entropy[B], dmean[B * D], dlog_std[B * D] = {0};
        aw_gaussian_log_prob(x, mean, log_std, stride, B, D, logp);
        check(loss_dump, name, "logp", logp, B);
        for (size_t b = 0; b < B; b++)
            entropy[b] = (float)aw_gaussian_entropy(log_std + b * stride, D);
        check(loss_dump, name, "entropy", entropy, B);
        aw_gaussian_log_prob_backward(x, mean, log_std, stride, input(loss_dump, name, "dlogp", B),
                                      B, D, dmean, dlog_std);
        check(loss_dump, name, "dmean", dmean, B * D);
        check(loss_dump, name, "dlog_std", dlog_std, widths);
    }
    end("gaussian");
}

static void categorical_log_probabilities_match(void **state)
{
    (void)state;
    const char *name = "categorical";
    const int64_t *index = find(loss_dump, name, "index", AW_DTYPE_I64, B).data;
    uint32_t choice[B];
    for (int b = 0; b < B; b++)
        choice[b] = (uint32_t)index[b];
    float logp_all[B * N], entropy[B], dlogits[B * N];
    begin();
    aw_categorical_log_softmax(input(loss_dump, name, "logits", B * N), B, N, logp_all);
    check(loss_dump, name, "logp_all", logp_all, B * N);
    aw_categorical_entropy(logp_all, B, N, entropy);
    check(loss_dump, name, "entropy", entropy, B);
    aw_categorical_backward(logp_all, choice, input(loss_dump, name, "dlogp", B), entropy,
                            input(loss_dump, name, "dentropy", B), B, N, dlogits);
    check(loss_dump, name, "dlogits", dlogits, B * N);
    end("categorical");
}

static void the_vae_matches(void **state)
{
    (void)state;
    const float *mean = input(loss_dump, "vae", "mean", COUNT);
    const float *log_std = input(loss_dump, "vae", "log_std", COUNT);
    const float *noise = input(loss_dump, "vae", "noise", COUNT);
    float dmean[COUNT], dlog_std[COUNT], z[COUNT];
    begin();
    check_one(loss_dump, "vae", "kl", aw_loss_vae_kl(mean, log_std, COUNT, dmean, dlog_std));
    check(loss_dump, "vae", "dmean", dmean, COUNT);
    check(loss_dump, "vae", "dlog_std", dlog_std, COUNT);
    aw_vae_sample(mean, log_std, noise, COUNT, z);
    check(loss_dump, "vae", "z", z, COUNT);
    memset(dmean, 0, sizeof(dmean));
    memset(dlog_std, 0, sizeof(dlog_std));
    aw_vae_sample_backward(log_std, noise, input(loss_dump, "vae", "dz", COUNT), COUNT, dmean,
                           dlog_std);
    check(loss_dump, "vae", "z_dmean", dmean, COUNT);
    check(loss_dump, "vae", "z_dlog_std", dlog_std, COUNT);
    end("vae");
}

/* ---- optimiser ---- */

static void ten_adam_steps_match(void **state)
{
    (void)state;
    enum { ROWS = 9, COLUMNS = 11, SIZE = ROWS * COLUMNS, STEPS = 10 };
    const struct {
        const char *name;
        struct aw_adam adam;
    } cases[] = {
        {"adam", {1e-3, 0.9, 0.999, 1e-8, 0, false}},
        {"adam_decay", {3e-4, 0.9, 0.999, 1e-8, 0.01, false}},
        {"adamw", {3e-4, 0.9, 0.999, 1e-8, 0.01, true}},
        {"adam_settings", {1e-2, 0.8, 0.95, 1e-3, 0, false}},
    };
    begin();
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        const char *name = cases[n].name;
        struct aw_params params = {0};
        aw_params_add(&params, "theta", 2, ROWS, COLUMNS);
        assert_ok(aw_params_alloc(&params, NULL));
        memcpy(params.value, input(optim_dump, name, "theta", SIZE), SIZE * sizeof(float));
        const float *grads = input(optim_dump, name, "grads", (size_t)STEPS * SIZE);
        for (size_t t = 0; t < STEPS; t++) {
            memcpy(params.grad, grads + t * SIZE, SIZE * sizeof(float));
            aw_adam_step(&cases[n].adam, &params);
        }
        check(optim_dump, name, "theta", params.value, SIZE);
        check(optim_dump, name, "m", params.m, SIZE);
        check(optim_dump, name, "v", params.v, SIZE);
        aw_params_deinit(&params);
    }
    end("adam");
}

static void soft_update_and_clipping_match(void **state)
{
    (void)state;
    enum { SOFT = 37 };
    float target[SOFT];
    begin();
    memcpy(target, input(optim_dump, "soft_update", "target", SOFT), sizeof(target));
    aw_params_soft_update(target, input(optim_dump, "soft_update", "source", SOFT), 0.005f, SOFT);
    check(optim_dump, "soft_update", "target", target, SOFT);

    struct aw_params params = {0};
    size_t a = aw_params_add(&params, "a", 2, 5, 7), b = aw_params_add(&params, "b", 1, 9, 1);
    assert_ok(aw_params_alloc(&params, NULL));
    memcpy(params.grad + a, input(optim_dump, "clip", "a", 35), 35 * sizeof(float));
    memcpy(params.grad + b, input(optim_dump, "clip", "b", 9), 9 * sizeof(float));
    check_one(optim_dump, "clip", "norm", aw_params_clip_grad_norm(&params, 0.5));
    check(optim_dump, "clip", "a", params.grad + a, 35);
    check(optim_dump, "clip", "b", params.grad + b, 9);
    aw_params_deinit(&params);
    end("soft update and clipping");
}

AW_TEST_GROUP("golden")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_match_forward_and_backward),
        cmocka_unit_test(gru_matches_forward_and_backward),
        cmocka_unit_test(mse_and_huber_match),
        cmocka_unit_test(gaussian_log_probabilities_match),
        cmocka_unit_test(categorical_log_probabilities_match),
        cmocka_unit_test(the_vae_matches),
        cmocka_unit_test(ten_adam_steps_match),
        cmocka_unit_test(soft_update_and_clipping_match),
    };
    return cmocka_run_group_tests_name("golden", tests, open_dumps, close_dumps);
}
