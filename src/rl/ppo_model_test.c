#include "rl/ppo_model.h"

#include "base/testing.h"

#include <math.h>
#include <string.h>

enum { OBS = 3, ACT = 2, CHOICES = 4, B = 24, UNITS_MAX = 8 };

static struct aw_ppo_model_config config_of(enum aw_agent_action action)
{
    bool discrete = action == AW_AGENT_DISCRETE;
    return (struct aw_ppo_model_config){
        .action = action,
        .obs_dim = OBS,
        .act_dim = discrete ? 1 : ACT,
        .act_n = discrete ? CHOICES : 0,
        .hidden = {2, {6, 5}},
        .activation = AW_ACT_TANH,
        .log_std_init = -0.3f,
        .batch_max = B,
    };
}

static void make(struct aw_ppo_model *model, enum aw_agent_action action, uint64_t seed)
{
    struct aw_rng rng;
    struct aw_ppo_model_config config = config_of(action);
    aw_rng_init(&rng, seed, 0);
    assert_ok(aw_ppo_model_init(model, &config, &rng, NULL));
    /* away from the tiny first head, so that every weight matters */
    for (size_t i = 0; i < model->params.count; i++)
        model->params.value[i] += 0.3f * (float)aw_rng_normal(&rng);
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
                out[o] = tanh(out[o]);
        }
        memcpy(in, out, sizeof in);
    }
    for (uint32_t o = 0; o < mlp->layer[mlp->layer_count - 1].out; o++)
        y[o] = out[o];
}

/* Log-probability of the action and entropy of the policy for one observation. */
static double twin_logp(const struct aw_ppo_model *model, const double *theta, const float *obs,
                        const float *action, double *entropy)
{
    double head[UNITS_MAX], logp = 0;
    twin_forward(&model->actor, theta, obs, head);
    *entropy = 0;
    if (model->config.action == AW_AGENT_DISCRETE) {
        double sum = 0;
        for (int i = 0; i < CHOICES; i++)
            sum += exp(head[i]);
        for (int i = 0; i < CHOICES; i++)
            *entropy -= exp(head[i]) / sum * log(exp(head[i]) / sum);
        return head[(int)action[0]] - log(sum);
    }
    for (int i = 0; i < ACT; i++) {
        double log_std = theta[model->log_std + (size_t)i];
        double z = ((double)action[i] - head[i]) / exp(log_std);
        logp += -0.5 * z * z - log_std - 0.5 * log(2 * M_PI);
        *entropy += 0.5 * log(2 * M_PI * M_E) + log_std;
    }
    return logp;
}

static double twin_loss(const struct aw_ppo_model *model, const double *theta,
                        const struct aw_ppo_loss *loss, const struct aw_ppo_batch *batch)
{
    double A[B], mean = 0, square = 0, policy = 0, value = 0, entropy = 0;
    double clip = (double)loss->clip_range, hold = (double)loss->value_clip_range;
    for (int b = 0; b < B; b++)
        mean += (double)batch->advantage[b] / B;
    for (int b = 0; b < B; b++)
        square += pow((double)batch->advantage[b] - mean, 2);
    for (int b = 0; b < B; b++)
        A[b] = loss->normalise_advantage
                   ? ((double)batch->advantage[b] - mean) / (sqrt(square / (B - 1)) + 1e-8)
                   : (double)batch->advantage[b];
    for (uint32_t b = 0; b < B; b++) {
        const float *obs = batch->obs + b * OBS;
        double h, v;
        double logp = twin_logp(model, theta, obs, batch->action + b * model->config.act_dim, &h);
        double ratio = exp(logp - (double)batch->logp[b]);
        double bounded = ratio < 1 - clip ? 1 - clip : ratio > 1 + clip ? 1 + clip : ratio;
        policy += fmax(-A[b] * ratio, -A[b] * bounded) / B;
        entropy += h / B;
        twin_forward(&model->critic, theta, obs, &v);
        double old = (double)batch->value[b], want = (double)batch->target[b];
        double held = v - old < -hold ? old - hold : v - old > hold ? old + hold : v;
        double plain = pow(v - want, 2);
        value += 0.5 * (hold > 0 ? fmax(plain, pow(held - want, 2)) : plain) / B;
    }
    return policy - (double)loss->entropy_coef * entropy + (double)loss->value_coef * value;
}

/* ---- */

struct data {
    float obs[B * OBS], action[B * ACT], logp[B], value[B], advantage[B], target[B];
    struct aw_ppo_batch batch;
};

/* A batch drawn from the model itself, with old log-probabilities and values moved so that some
 * rows are clipped on either side and some are not. */
static void draw(struct data *data, struct aw_ppo_model *model, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 1);
    aw_rng_fill_normal(&rng, data->obs, B * OBS);
    const float *head = aw_ppo_policy(model, data->obs, B);
    aw_ppo_sample(model, head, B, &rng, data->action, data->logp);
    aw_ppo_values(model, data->obs, B, data->value);
    for (int b = 0; b < B; b++) {
        data->logp[b] += 0.3f * (float)aw_rng_normal(&rng);
        data->value[b] += 0.3f * (float)aw_rng_normal(&rng);
        data->advantage[b] = 0.5f + 2 * (float)aw_rng_normal(&rng);
        data->target[b] = data->value[b] + (float)aw_rng_normal(&rng);
    }
    data->batch = (struct aw_ppo_batch){.count = B,
                                        .obs = data->obs,
                                        .action = data->action,
                                        .logp = data->logp,
                                        .value = data->value,
                                        .advantage = data->advantage,
                                        .target = data->target};
}

static void the_gradient_of_the_whole_loss_equals_central_differences(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        enum aw_agent_action action;
        struct aw_ppo_loss loss;
    } cases[] = {
        {"discrete", AW_AGENT_DISCRETE, {0.2f, 0, 0.5f, 0.01f, true}},
        {"discrete, values clipped", AW_AGENT_DISCRETE, {0.1f, 0.2f, 0.7f, 0.1f, true}},
        {"discrete, raw advantages", AW_AGENT_DISCRETE, {0.2f, 0, 0.5f, 0, false}},
        {"continuous", AW_AGENT_CONTINUOUS, {0.2f, 0, 0.5f, 0.01f, true}},
        {"continuous, values clipped", AW_AGENT_CONTINUOUS, {0.1f, 0.2f, 0.7f, 0.1f, true}},
        {"continuous, raw advantages", AW_AGENT_CONTINUOUS, {0.2f, 0, 0.5f, 0, false}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct aw_ppo_model model;
        struct data data;
        struct aw_ppo_loss_stats stats;
        double theta[512];
        make(&model, cases[c].action, 7 + c);
        draw(&data, &model, 70 + c);
        assert_true(model.params.count <= 512);
        for (size_t i = 0; i < model.params.count; i++) {
            theta[i] = (double)model.params.value[i];
            model.params.grad[i] = 99; /* gradient starts from zero itself */
        }
        aw_ppo_gradient(&model, &cases[c].loss, &data.batch, &stats);
        assert_close(stats.loss, twin_loss(&model, theta, &cases[c].loss, &data.batch), 1e-5);
        assert_true(stats.clip_fraction > 0.2 && stats.clip_fraction < 0.9); /* both branches */
        assert_true(stats.approx_kl > 0);
        for (uint32_t t = 0; t < model.params.tensor_count; t++) {
            const struct aw_param *tensor = &model.params.tensor[t];
            for (size_t i = tensor->offset; i < tensor->offset + aw_param_size(tensor); i++) {
                const double h = 1e-6;
                double at = theta[i];
                theta[i] = at + h;
                double up = twin_loss(&model, theta, &cases[c].loss, &data.batch);
                theta[i] = at - h;
                double down = twin_loss(&model, theta, &cases[c].loss, &data.batch);
                theta[i] = at;
                double want = (up - down) / (2 * h), got = (double)model.params.grad[i];
                if (!(fabs(got - want) <= 1e-4 * fmax(0.1, fabs(want))))
                    fail_msg("%s: %s[%zu]: %.9g, by differences %.9g", cases[c].why, tensor->name,
                             i - tensor->offset, got, want);
            }
        }
        aw_ppo_model_deinit(&model);
    }
}

static void a_drawn_action_comes_with_its_own_log_probability(void **state)
{
    (void)state;
    for (int action = AW_AGENT_CONTINUOUS; action <= AW_AGENT_DISCRETE; action++) {
        struct aw_ppo_model model;
        make(&model, (enum aw_agent_action)action, 3);
        struct aw_rng rng;
        aw_rng_init(&rng, 5, 0);
        float obs[B * OBS], drawn[B * ACT], logp[B];
        double theta[512], entropy;
        for (size_t i = 0; i < model.params.count; i++)
            theta[i] = (double)model.params.value[i];
        aw_rng_fill_normal(&rng, obs, B * OBS);
        for (uint32_t rows = 1; rows <= B; rows += B - 1) { /* one row has its own path */
            aw_ppo_sample(&model, aw_ppo_policy(&model, obs, rows), rows, &rng, drawn, logp);
            for (uint32_t b = 0; b < rows; b++)
                assert_close((double)logp[b],
                             twin_logp(&model, theta, obs + b * OBS,
                                       drawn + b * model.config.act_dim, &entropy),
                             1e-5);
        }
        aw_ppo_model_deinit(&model);
    }
}

static void discrete_draws_follow_the_softmax(void **state)
{
    (void)state;
    struct aw_ppo_model model;
    make(&model, AW_AGENT_DISCRETE, 3);
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    const float head[CHOICES] = {0, 1, -200, 2}; /* the third has no weight at all */
    double weight = 1 + exp(1) + exp(2),
           want[CHOICES] = {1 / weight, exp(1) / weight, 0, exp(2) / weight};
    int count[CHOICES] = {0}, draws = 50000;
    for (int i = 0; i < draws; i++) {
        float action, logp;
        aw_ppo_sample(&model, head, 1, &rng, &action, &logp);
        count[(int)action]++;
    }
    for (int i = 0; i < CHOICES; i++)
        assert_true(fabs((double)count[i] / draws - want[i]) < 0.01);
    assert_int_equal(count[2], 0);
    float action;
    aw_ppo_mode(&model, head, 1, &action);
    assert_true(action == 3);
    aw_ppo_model_deinit(&model);
}

static void the_first_policy_is_nearly_indifferent(void **state)
{
    (void)state;
    struct aw_ppo_model model;
    struct aw_ppo_model_config config = config_of(AW_AGENT_DISCRETE);
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    assert_ok(aw_ppo_model_init(&model, &config, &rng, NULL));
    float obs[B * OBS];
    aw_rng_fill_normal(&rng, obs, B * OBS);
    const float *head = aw_ppo_policy(&model, obs, B);
    for (int i = 0; i < B * CHOICES; i++)
        assert_true(fabsf(head[i]) < 0.05f);
    aw_ppo_model_deinit(&model);
}

static void values_in_batches_equal_values_one_by_one(void **state)
{
    (void)state;
    struct aw_ppo_model model;
    make(&model, AW_AGENT_DISCRETE, 3);
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    enum { ROWS = 2 * B + 5 };
    float obs[ROWS * OBS], value[ROWS], one;
    aw_rng_fill_normal(&rng, obs, ROWS * OBS);
    aw_ppo_values(&model, obs, ROWS, value);
    for (int i = 0; i < ROWS; i++) {
        aw_ppo_values(&model, obs + i * OBS, 1, &one);
        assert_close((double)value[i], (double)one, 1e-6);
    }
    aw_ppo_model_deinit(&model);
}

static void every_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    struct aw_ppo_model_config config = config_of(AW_AGENT_CONTINUOUS);
    for (uint64_t budget = 0;; budget++) {
        assert_true(budget < 100);
        struct aw_alloc_counting counting;
        struct aw_ppo_model model;
        struct aw_rng rng;
        aw_rng_init(&rng, 1, 0);
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        enum aw_err err = aw_ppo_model_init(&model, &config, &rng, &counting.alloc);
        if (err == AW_OK) {
            uint64_t before = counting.alloc_count;
            struct data data;
            struct aw_ppo_loss_stats stats;
            draw(&data, &model, 1);
            aw_ppo_gradient(&model, &(struct aw_ppo_loss){0.2f, 0, 0.5f, 0, true}, &data.batch,
                            &stats);
            assert_int_equal(counting.alloc_count, before);
        } else {
            assert_int_equal(err, AW_ERR_NOMEM);
        }
        aw_ppo_model_deinit(&model);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (err == AW_OK)
            return;
    }
}

AW_TEST_GROUP("ppo_model")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_of_the_whole_loss_equals_central_differences),
        cmocka_unit_test(a_drawn_action_comes_with_its_own_log_probability),
        cmocka_unit_test(discrete_draws_follow_the_softmax),
        cmocka_unit_test(the_first_policy_is_nearly_indifferent),
        cmocka_unit_test(values_in_batches_equal_values_one_by_one),
        cmocka_unit_test(every_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("ppo_model", tests, NULL, NULL);
}
