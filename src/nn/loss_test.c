/* Each forward against a naive twin in double, each backward against that twin's differences. */
#include "nn/loss.h"

#include "base/rng.h"
#include "base/testing.h"

#include <float.h>
#include <math.h>

enum { B = 6, D = 5, N = B * D };

#define FORWARD_TOLERANCE  1e-6
#define GRADIENT_TOLERANCE 1e-5

/* The loss as a function of one array among its inputs; the rest is behind `fixed`. */
typedef double twin_fn(const double *x, const void *fixed);

/* Central differences of `twin` at `at` against the gradient that the code computed. */
static void check_gradient(twin_fn *twin, const void *fixed, const float *at, size_t n,
                           const float *gradient)
{
    double x[N];
    assert_true(n <= N);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)at[i];
    for (size_t i = 0; i < n; i++) {
        double kept = x[i], h = 1e-5 * fmax(1, fabs(kept));
        x[i] = kept + h;
        double up = twin(x, fixed);
        x[i] = kept - h;
        double down = twin(x, fixed);
        x[i] = kept;
        assert_close((double)gradient[i], (up - down) / (2 * h), GRADIENT_TOLERANCE);
    }
}

static void widen(const float *from, double *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (double)from[i];
}

/* ---- regression ---- */

struct regression {
    double target[N];
    double delta;
};

static double twin_mse(const double *y, const void *fixed)
{
    const struct regression *r = fixed;
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += pow(y[i] - r->target[i], 2);
    return sum / N;
}

static double twin_huber(const double *y, const void *fixed)
{
    const struct regression *r = fixed;
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double e = fabs(y[i] - r->target[i]);
        sum += e <= r->delta ? e * e / 2 : r->delta * e - r->delta * r->delta / 2;
    }
    return sum / N;
}

static void mse_and_huber_match_their_twins(void **state)
{
    (void)state;
    float y[N], target[N], dy[N];
    double wide[N];
    struct regression fixed;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    for (int round = 0; round < 5; round++) {
        aw_rng_fill_normal(&rng, y, N);
        aw_rng_fill_normal(&rng, target, N);
        widen(y, wide, N);
        widen(target, fixed.target, N);
        assert_close(aw_loss_mse(y, target, N, dy), twin_mse(wide, &fixed), FORWARD_TOLERANCE);
        check_gradient(twin_mse, &fixed, y, N, dy);
        float delta = 0.25f * (float)(round + 1);
        fixed.delta = (double)delta;
        assert_close(aw_loss_huber(y, target, N, delta, dy), twin_huber(wide, &fixed),
                     FORWARD_TOLERANCE);
        check_gradient(twin_huber, &fixed, y, N, dy);
    }
}

static void a_loss_without_a_wanted_gradient_is_the_same_number(void **state)
{
    (void)state;
    const float y[2] = {1, 5}, target[2] = {0, 0};
    float d[2], e[2];
    assert_true(aw_loss_mse(y, target, 2, NULL) == aw_loss_mse(y, target, 2, d));
    assert_true(aw_loss_mse(y, target, 2, NULL) == 13);
    assert_true(aw_loss_huber(y, target, 2, 1, NULL) == aw_loss_huber(y, target, 2, 1, d));
    assert_true(aw_loss_huber(y, target, 2, 1, NULL) == (0.5 + 4.5) / 2);
    assert_true(aw_loss_vae_kl(y, target, 2, NULL, NULL) == aw_loss_vae_kl(y, target, 2, d, e));
}

/* ---- Gaussian ---- */

struct gaussian {
    double x[N], mean[N], log_std[N];
    double dlogp[B];
    size_t stride;
};

static double gaussian_loss(const struct gaussian *g, const double *mean, const double *log_std)
{
    double loss = 0;
    for (int b = 0; b < B; b++) {
        double density = 1;
        for (int d = 0; d < D; d++) {
            double std = exp(log_std[(size_t)b * g->stride + (size_t)d]);
            double z = (g->x[b * D + d] - mean[b * D + d]) / std;
            density *= exp(-z * z / 2) / (std * sqrt(2 * acos(-1)));
        }
        loss += g->dlogp[b] * log(density);
    }
    return loss;
}

static double twin_gaussian_mean(const double *mean, const void *fixed)
{
    return gaussian_loss(fixed, mean, ((const struct gaussian *)fixed)->log_std);
}

static double twin_gaussian_log_std(const double *log_std, const void *fixed)
{
    return gaussian_loss(fixed, ((const struct gaussian *)fixed)->mean, log_std);
}

static void the_gaussian_matches_its_density_with_shared_and_own_widths(void **state)
{
    (void)state;
    float x[N], mean[N], log_std[N], dlogp[B], logp[B], dmean[N];
    struct aw_rng rng;
    aw_rng_init(&rng, 2, 0);
    for (size_t stride = 0; stride <= D; stride += D) {
        struct gaussian fixed = {.stride = stride};
        aw_rng_fill_normal(&rng, x, N);
        aw_rng_fill_normal(&rng, mean, N);
        aw_rng_fill_uniform(&rng, log_std, N, -1, 1);
        aw_rng_fill_normal(&rng, dlogp, B);
        widen(x, fixed.x, N);
        widen(mean, fixed.mean, N);
        widen(log_std, fixed.log_std, N);
        widen(dlogp, fixed.dlogp, B);

        aw_gaussian_log_prob(x, mean, log_std, stride, B, D, logp);
        double loss = 0;
        for (int b = 0; b < B; b++)
            loss += (double)dlogp[b] * (double)logp[b];
        assert_close(loss, gaussian_loss(&fixed, fixed.mean, fixed.log_std), FORWARD_TOLERANCE);

        float dlog_std[N] = {0};
        size_t widths = stride ? N : D;
        aw_gaussian_log_prob_backward(x, mean, log_std, stride, dlogp, B, D, dmean, dlog_std);
        check_gradient(twin_gaussian_mean, &fixed, mean, N, dmean);
        check_gradient(twin_gaussian_log_std, &fixed, log_std, widths, dlog_std);

        /* the width's gradient is added to, the mean's is written, and each may be left out */
        aw_gaussian_log_prob_backward(x, mean, log_std, stride, dlogp, B, D, dmean, dlog_std);
        check_gradient(twin_gaussian_mean, &fixed, mean, N, dmean);
        for (size_t i = 0; i < widths; i++)
            dlog_std[i] /= 2;
        check_gradient(twin_gaussian_log_std, &fixed, log_std, widths, dlog_std);
        aw_gaussian_log_prob_backward(x, mean, log_std, stride, dlogp, B, D, NULL, NULL);
    }
}

static void a_gaussian_at_the_ends_of_its_width_stays_finite(void **state)
{
    (void)state;
    const float widths[] = {-20, -10, 0, 2, 20};
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        const float x = 3, mean = -2, dlogp = 1;
        float logp, dmean, dlog_std = 0;
        aw_gaussian_log_prob(&x, &mean, &widths[i], 0, 1, 1, &logp);
        aw_gaussian_log_prob_backward(&x, &mean, &widths[i], 0, &dlogp, 1, 1, &dmean, &dlog_std);
        double z = 5 * exp(-(double)widths[i]);
        assert_close((double)logp, -z * z / 2 - (double)widths[i] - log(2 * acos(-1)) / 2, 1e-6);
        assert_close((double)dmean, z * exp(-(double)widths[i]), 1e-6);
        assert_close((double)dlog_std, z * z - 1, 1e-6);
    }
}

static void the_gaussian_entropy_is_minus_the_mean_log_density(void **state)
{
    (void)state;
    enum { DRAWS = 100000 };
    const float log_std[2] = {0.5f, -1}, mean[2] = {3, -4};
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        float x[2], logp;
        for (int d = 0; d < 2; d++)
            x[d] = mean[d] + expf(log_std[d]) * (float)aw_rng_normal(&rng);
        aw_gaussian_log_prob(x, mean, log_std, 0, 1, 2, &logp);
        sum -= (double)logp;
    }
    /* the variance of z^2 / 2 is 1/2 per dimension: five standard errors */
    assert_true(fabs(sum / DRAWS - aw_gaussian_entropy(log_std, 2)) < 5 / sqrt(DRAWS));
}

/* ---- categorical ---- */

struct categorical {
    uint32_t index[B];
    double dlogp[B], dentropy[B];
};

static double twin_categorical(const double *logits, const void *fixed)
{
    const struct categorical *c = fixed;
    double loss = 0;
    for (int b = 0; b < B; b++) {
        double sum = 0, entropy = 0;
        for (int j = 0; j < D; j++)
            sum += exp(logits[b * D + j]);
        for (int j = 0; j < D; j++) {
            double p = exp(logits[b * D + j]) / sum;
            entropy -= p * log(p);
        }
        loss += c->dlogp[b] * log(exp(logits[b * D + (int)c->index[b]]) / sum) +
                c->dentropy[b] * entropy;
    }
    return loss;
}

static void the_categorical_matches_its_twin_with_and_without_entropy(void **state)
{
    (void)state;
    float logits[N], logp[N], entropy[B], dlogp[B], dentropy[B], dlogits[N];
    double wide[N];
    struct aw_rng rng;
    aw_rng_init(&rng, 4, 0);
    for (int with_entropy = 0; with_entropy < 2; with_entropy++) {
        struct categorical fixed = {0};
        for (int i = 0; i < N; i++)
            logits[i] = (float)(3 * aw_rng_normal(&rng));
        aw_rng_fill_normal(&rng, dlogp, B);
        aw_rng_fill_normal(&rng, dentropy, B);
        for (int b = 0; b < B; b++)
            fixed.index[b] = aw_rng_below(&rng, D);
        widen(dlogp, fixed.dlogp, B);
        if (with_entropy)
            widen(dentropy, fixed.dentropy, B);

        aw_categorical_log_softmax(logits, B, D, logp);
        aw_categorical_entropy(logp, B, D, entropy);
        double loss = 0;
        for (int b = 0; b < B; b++)
            loss += (double)dlogp[b] * (double)logp[b * D + (int)fixed.index[b]] +
                    fixed.dentropy[b] * (double)entropy[b];
        widen(logits, wide, N);
        assert_close(loss, twin_categorical(wide, &fixed), FORWARD_TOLERANCE);
        aw_categorical_backward(logp, fixed.index, dlogp, with_entropy ? entropy : NULL,
                                with_entropy ? dentropy : NULL, B, D, dlogits);
        check_gradient(twin_categorical, &fixed, logits, N, dlogits);
    }
}

static void logits_far_apart_give_finite_answers(void **state)
{
    (void)state;
    const struct {
        const char *why;
        float logits[3];
        double logp[3], entropy;
    } cases[] = {
        {"a certain choice", {1e4f, 0, -1e4f}, {0, -1e4, -2e4}, 0},
        {"all alike and large", {1e30f, 1e30f, 1e30f}, {-log(3), -log(3), -log(3)}, log(3)},
        {"the ends of the floats",
         {FLT_MAX, -FLT_MAX, FLT_MAX},
         {-log(2), -(double)FLT_MAX, -log(2)},
         log(2)},
        {"all alike and very negative",
         {-1e30f, -1e30f, -1e30f},
         {-log(3), -log(3), -log(3)},
         log(3)},
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        float logp[3], entropy, dlogits[3];
        const float dlogp = 1, dentropy = 1;
        const uint32_t index = 1;
        aw_categorical_log_softmax(cases[n].logits, 1, 3, logp);
        aw_categorical_entropy(logp, 1, 3, &entropy);
        aw_categorical_backward(logp, &index, &dlogp, &entropy, &dentropy, 1, 3, dlogits);
        assert_close((double)entropy, cases[n].entropy, 1e-6);
        double sum = 0;
        for (int j = 0; j < 3; j++) {
            assert_close((double)logp[j], cases[n].logp[j], 1e-6);
            assert_true(isfinite(dlogits[j]));
            sum += (double)dlogits[j];
        }
        /* adding the same to all logits changes nothing */
        assert_true(fabs(sum) < 1e-6);
    }
}

/* ---- VAE ---- */

struct vae {
    double mean[N], log_std[N], noise[N], dz[N];
};

static double kl(const double *mean, const double *log_std)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += 1 + log(pow(exp(log_std[i]), 2)) - pow(mean[i], 2) - pow(exp(log_std[i]), 2);
    return -0.5 * sum / N;
}
static double twin_kl_mean(const double *mean, const void *fixed)
{
    return kl(mean, ((const struct vae *)fixed)->log_std);
}
static double twin_kl_log_std(const double *log_std, const void *fixed)
{
    return kl(((const struct vae *)fixed)->mean, log_std);
}
static double sampled(const struct vae *vae, const double *mean, const double *log_std)
{
    double loss = 0;
    for (int i = 0; i < N; i++)
        loss += vae->dz[i] * (mean[i] + exp(log_std[i]) * vae->noise[i]);
    return loss;
}
static double twin_sample_mean(const double *mean, const void *fixed)
{
    return sampled(fixed, mean, ((const struct vae *)fixed)->log_std);
}
static double twin_sample_log_std(const double *log_std, const void *fixed)
{
    return sampled(fixed, ((const struct vae *)fixed)->mean, log_std);
}

static void the_vae_matches_its_twins(void **state)
{
    (void)state;
    float mean[N], log_std[N], noise[N], dz[N], dmean[N], dlog_std[N], z[N];
    struct vae fixed;
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    aw_rng_fill_normal(&rng, mean, N);
    aw_rng_fill_uniform(&rng, log_std, N, -2, 1);
    aw_rng_fill_normal(&rng, noise, N);
    aw_rng_fill_normal(&rng, dz, N);
    widen(mean, fixed.mean, N);
    widen(log_std, fixed.log_std, N);
    widen(noise, fixed.noise, N);
    widen(dz, fixed.dz, N);

    assert_close(aw_loss_vae_kl(mean, log_std, N, dmean, dlog_std), kl(fixed.mean, fixed.log_std),
                 FORWARD_TOLERANCE);
    check_gradient(twin_kl_mean, &fixed, mean, N, dmean);
    check_gradient(twin_kl_log_std, &fixed, log_std, N, dlog_std);

    aw_vae_sample(mean, log_std, noise, N, z);
    for (int i = 0; i < N; i++) {
        assert_close((double)z[i], fixed.mean[i] + exp(fixed.log_std[i]) * fixed.noise[i],
                     FORWARD_TOLERANCE);
        dmean[i] = 1;
        dlog_std[i] = -1;
    }
    aw_vae_sample_backward(log_std, noise, dz, N, dmean, dlog_std);
    for (int i = 0; i < N; i++) {
        dmean[i] -= 1;
        dlog_std[i] += 1;
    }
    check_gradient(twin_sample_mean, &fixed, mean, N, dmean);
    check_gradient(twin_sample_log_std, &fixed, log_std, N, dlog_std);
    aw_vae_sample_backward(log_std, noise, dz, N, NULL, NULL);
}

static void the_kl_of_the_prior_is_zero_and_never_negative_near_it(void **state)
{
    (void)state;
    const float zero = 0;
    float dmean, dlog_std;
    assert_true(aw_loss_vae_kl(&zero, &zero, 1, &dmean, &dlog_std) == 0);
    assert_true(dmean == 0 && dlog_std == 0);
    for (float log_std = 1e-6f; log_std < 1; log_std *= 2) {
        const float minus = -log_std;
        assert_true(aw_loss_vae_kl(&zero, &log_std, 1, NULL, NULL) > 0);
        assert_true(aw_loss_vae_kl(&zero, &minus, 1, NULL, NULL) > 0);
    }
}

static void nan_in_is_nan_out(void **state)
{
    (void)state;
    const float bad[2] = {NAN, 1}, good[2] = {1, 1};
    float out[2];
    assert_true(isnan(aw_loss_mse(bad, good, 2, NULL)));
    assert_true(isnan(aw_loss_huber(bad, good, 2, 1, NULL)));
    assert_true(isnan(aw_loss_vae_kl(bad, good, 2, NULL, NULL)));
    assert_true(isnan(aw_loss_vae_kl(good, bad, 2, NULL, NULL)));
    aw_categorical_log_softmax(bad, 1, 2, out);
    assert_true(isnan(out[0]) && isnan(out[1]));
    aw_gaussian_log_prob(bad, good, good, 0, 1, 2, out);
    assert_true(isnan(out[0]));
}

AW_TEST_GROUP("loss")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mse_and_huber_match_their_twins),
        cmocka_unit_test(a_loss_without_a_wanted_gradient_is_the_same_number),
        cmocka_unit_test(the_gaussian_matches_its_density_with_shared_and_own_widths),
        cmocka_unit_test(a_gaussian_at_the_ends_of_its_width_stays_finite),
        cmocka_unit_test(the_gaussian_entropy_is_minus_the_mean_log_density),
        cmocka_unit_test(the_categorical_matches_its_twin_with_and_without_entropy),
        cmocka_unit_test(logits_far_apart_give_finite_answers),
        cmocka_unit_test(the_vae_matches_its_twins),
        cmocka_unit_test(the_kl_of_the_prior_is_zero_and_never_negative_near_it),
        cmocka_unit_test(nan_in_is_nan_out),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
