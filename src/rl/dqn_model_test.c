#include "rl/dqn_model.h"

#include "base/testing.h"

#include <math.h>
#include <string.h>

enum { OBS = 3, CHOICES = 4, B = 24, UNITS_MAX = 8 };

static const struct aw_dqn_model_config CONFIG = {
    .obs_dim = OBS,
    .act_n = CHOICES,
    .hidden = {2, {7, 6}},
    .batch_max = B,
};

static void make(struct aw_dqn_model *model, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    assert_ok(aw__dqn_model_init(model, &CONFIG, &rng, NULL));
    for (size_t i = 0; i < model->params.count; i++) {
        model->params.value[i] += 0.3f * (float)aw_rng_normal(&rng);
        model->target[i] += 0.3f * (float)aw_rng_normal(&rng);
    }
}

/* ---- the twin: everything in double, one row at a time, from the definitions ---- */

static void twin_forward(const struct aw_mlp *mlp, const double *theta, const float *x, double *y)
{
    double in[UNITS_MAX], out[UNITS_MAX];
    for (uint32_t i = 0; i < mlp->layer[0].in; i++)
        in[i] = (double)x[i];
    for (uint32_t l = 0; l < mlp->layer_count; l++) {
        const struct aw_linear *layer = &mlp->layer[l];
        for (uint32_t o = 0; o < layer->out; o++) {
            out[o] = theta[layer->bias + o];
            for (uint32_t i = 0; i < layer->in; i++)
                out[o] += theta[layer->weight + o * layer->in + i] * in[i];
            if (l + 1 < mlp->layer_count)
                out[o] = out[o] > 0 ? out[o] : 0;
        }
        memcpy(in, out, sizeof in);
    }
    memcpy(y, out, CHOICES * sizeof *y);
}

/* What Q(s, a) should become for row b: a constant of the loss. */
static double twin_target(const struct aw_dqn_model *model, const double *theta,
                          const double *target, const struct aw_dqn_loss *loss,
                          const struct aw_dqn_batch *batch, uint32_t b)
{
    double online[CHOICES], fixed[CHOICES];
    if (batch->terminal[b] > 0)
        return (double)batch->reward[b];
    twin_forward(&model->q, theta, batch->next_obs + b * OBS, online);
    twin_forward(&model->q, target, batch->next_obs + b * OBS, fixed);
    const double *chooser = loss->double_q ? online : fixed;
    int best = 0;
    for (int i = 1; i < CHOICES; i++)
        best = chooser[i] > chooser[best] ? i : best;
    return (double)batch->reward[b] + (double)loss->gamma * fixed[best];
}

static double twin_loss(const struct aw_dqn_model *model, const double *theta, const double *want,
                        const struct aw_dqn_loss *loss, const struct aw_dqn_batch *batch)
{
    double sum = 0, delta = (double)loss->huber_delta;
    for (uint32_t b = 0; b < B; b++) {
        double q[CHOICES];
        twin_forward(&model->q, theta, batch->obs + b * OBS, q);
        double error = fabs(q[(int)batch->action[b]] - want[b]);
        sum += error <= delta ? 0.5 * error * error : delta * (error - 0.5 * delta);
    }
    return sum / B;
}

/* ---- */

struct data {
    float obs[B * OBS], next_obs[B * OBS], action[B], reward[B], terminal[B];
    struct aw_dqn_batch batch;
};

static void draw(struct data *data, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 1);
    aw_rng_fill_normal(&rng, data->obs, B * OBS);
    aw_rng_fill_normal(&rng, data->next_obs, B * OBS);
    aw_rng_fill_normal(&rng, data->reward, B);
    for (int b = 0; b < B; b++) {
        data->action[b] = (float)aw_rng_below(&rng, CHOICES);
        data->terminal[b] = (float)(aw_rng_below(&rng, 4) == 0);
    }
    data->batch = (struct aw_dqn_batch){
        B, data->obs, data->action, data->reward, data->terminal, data->next_obs};
}

static void the_gradient_of_the_whole_loss_equals_central_differences(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        struct aw_dqn_loss loss;
    } cases[] = {
        {"double Q", {0.99f, 1, true}},
        {"double Q, most errors linear", {0.99f, 0.3f, true}},
        {"single Q", {0.9f, 1, false}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct aw_dqn_loss *loss = &cases[c].loss;
        struct aw_dqn_model model;
        struct data data;
        struct aw_dqn_loss_stats stats;
        double theta[512], target[512], want[B];
        make(&model, 7 + c);
        draw(&data, 70 + c);
        assert_true(model.params.count <= 512);
        for (size_t i = 0; i < model.params.count; i++) {
            theta[i] = (double)model.params.value[i];
            target[i] = (double)model.target[i];
            model.params.grad[i] = 99; /* gradient starts from zero itself */
        }
        for (uint32_t b = 0; b < B; b++)
            want[b] = twin_target(&model, theta, target, loss, &data.batch, b);
        aw__dqn_gradient(&model, loss, &data.batch, &stats);
        assert_close(stats.loss, twin_loss(&model, theta, want, loss, &data.batch), 1e-5);
        for (uint32_t t = 0; t < model.params.tensor_count; t++) {
            const struct aw_param *tensor = &model.params.tensor[t];
            for (size_t i = tensor->offset; i < tensor->offset + aw_param_size(tensor); i++) {
                const double h = 1e-6;
                double at = theta[i];
                theta[i] = at + h;
                double up = twin_loss(&model, theta, want, loss, &data.batch);
                theta[i] = at - h;
                double down = twin_loss(&model, theta, want, loss, &data.batch);
                theta[i] = at;
                double by_hand = (up - down) / (2 * h), got = (double)model.params.grad[i];
                if (!(fabs(got - by_hand) <= 1e-4 * fmax(0.1, fabs(by_hand))))
                    fail_msg("%s: %s[%zu]: %.9g, by differences %.9g", cases[c].why, tensor->name,
                             i - tensor->offset, got, by_hand);
            }
        }
        aw__dqn_model_deinit(&model);
    }
}

static void double_q_values_the_choice_of_the_online_network(void **state)
{
    (void)state;
    /* No hidden layer, observation 1: the biases are the values. */
    struct aw_dqn_model model;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    const struct aw_dqn_model_config config = {.obs_dim = 1, .act_n = 3, .batch_max = 1};
    assert_ok(aw__dqn_model_init(&model, &config, &rng, NULL));
    size_t bias = model.q.layer[0].bias;
    memset(model.params.value, 0, model.params.count * sizeof(float));
    memset(model.target, 0, model.params.count * sizeof(float));
    const float online[3] = {1, 3, 2}, target[3] = {10, 20, 30};
    memcpy(model.params.value + bias, online, sizeof online);
    memcpy(model.target + bias, target, sizeof target);
    const float one = 1, zero = 0;
    struct aw_dqn_batch batch = {1, &one, &zero, &one, &zero, &one};
    struct aw_dqn_loss_stats stats;
    aw__dqn_gradient(&model, &(struct aw_dqn_loss){0.5f, 1, true}, &batch, &stats);
    assert_close((double)model.want[0], 1 + 0.5 * 20, 1e-6); /* online prefers the second */
    aw__dqn_gradient(&model, &(struct aw_dqn_loss){0.5f, 1, false}, &batch, &stats);
    assert_close((double)model.want[0], 1 + 0.5 * 30, 1e-6); /* the target's own best */
    batch.terminal = &one;
    aw__dqn_gradient(&model, &(struct aw_dqn_loss){0.5f, 1, true}, &batch, &stats);
    assert_close((double)model.want[0], 1, 1e-6);
    assert_close(stats.q_mean, 1, 1e-6);
    aw__dqn_model_deinit(&model);
}

static void a_target_moves_by_tau_and_one_copies(void **state)
{
    (void)state;
    struct aw_dqn_model model;
    make(&model, 1);
    float before = model.target[0], online = model.params.value[0];
    aw__dqn_sync_target(&model, 0.25f);
    assert_close((double)model.target[0], 0.75 * (double)before + 0.25 * (double)online, 1e-6);
    aw__dqn_sync_target(&model, 1);
    assert_memory_equal(model.target, model.params.value, model.params.count * sizeof(float));
    aw__dqn_model_deinit(&model);
}

static void every_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    for (uint64_t budget = 0;; budget++) {
        assert_true(budget < 100);
        struct aw_alloc_counting counting;
        struct aw_dqn_model model;
        struct aw_rng rng;
        aw_rng_init(&rng, 1, 0);
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        enum aw_err err = aw__dqn_model_init(&model, &CONFIG, &rng, &counting.alloc);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        aw__dqn_model_deinit(&model);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (err == AW_OK)
            return;
    }
}

AW_TEST_GROUP("dqn_model")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_of_the_whole_loss_equals_central_differences),
        cmocka_unit_test(double_q_values_the_choice_of_the_online_network),
        cmocka_unit_test(a_target_moves_by_tau_and_one_copies),
        cmocka_unit_test(every_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("dqn_model", tests, NULL, NULL);
}
