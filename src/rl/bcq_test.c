#include "rl/bcq.h"

#include "rl/twin_testing.h"

#define B       6u
#define ROWS    20u
#define L       (2 * TWIN_A)
#define SAMPLES 3u
#define PHI     0.2
#define LAMBDA  0.6
#define KL      0.5
#define GAMMA   0.9

static const char *const settings_pairs[] = {
    "hidden=6,5",     "vae_hidden=7,5",     "batch=6",
    "next_samples=3", "act_samples=12",     "phi=0.2",
    "lambda=0.6",     "gamma=0.9",          "tau=0.1",
    "kl_weight=0.5",  "critic_lr=1e-2",     "actor_lr=1e-2",
    "vae_lr=1e-2",    "replay_capacity=32", NULL,
};

struct twin {
    struct twin_batch batch;
    struct twin_net encoder, decoder, perturb, target_perturb;
    struct twin_net critic[2], target_critic[2];
    uint32_t which;
    float noise[B * L];            /* of the reparameterisation */
    float next_z[B * SAMPLES * L]; /* of the candidate actions */
    float actor_z[B * L];
    double y[B];
};

static void join(const double *s, const double *tail, uint32_t count, double *x)
{
    memcpy(x, s, TWIN_S * sizeof *s);
    memcpy(x + TWIN_S, tail, count * sizeof *tail);
}

static double value(const struct twin_net *critic, const double *s, const double *a)
{
    double x[TWIN_WIDTH_MAX] = {0}, q = 0;
    join(s, a, TWIN_A, x);
    twin_forward(critic, x, false, &q);
    return q;
}

static void decode(const struct twin_net *decoder, const double *s, const double *z, double *a)
{
    double x[TWIN_WIDTH_MAX] = {0};
    join(s, z, L, x);
    twin_forward(decoder, x, false, a);
    for (uint32_t j = 0; j < TWIN_A; j++)
        a[j] = tanh(a[j]);
}

static void perturb(const struct twin_net *net, const double *s, double *a)
{
    double x[TWIN_WIDTH_MAX] = {0}, push[TWIN_WIDTH_MAX] = {0};
    join(s, a, TWIN_A, x);
    twin_forward(net, x, false, push);
    for (uint32_t j = 0; j < TWIN_A; j++)
        a[j] = twin_clip(a[j] + PHI * tanh(push[j]), 1);
}

static double vae_loss(void *ctx)
{
    const struct twin *twin = ctx;
    double reconstruction = 0, divergence = 0;
    for (uint32_t b = 0; b < B; b++) {
        double x[TWIN_WIDTH_MAX] = {0}, code[TWIN_WIDTH_MAX] = {0}, z[L], a[TWIN_WIDTH_MAX] = {0};
        join(twin->batch.obs[b], twin->batch.act[b], TWIN_A, x);
        twin_forward(&twin->encoder, x, false, code);
        for (uint32_t l = 0; l < L; l++) {
            double mean = code[l], log_std = fmin(15, fmax(-4, code[L + l])), std = exp(log_std);
            z[l] = mean + std * (double)twin->noise[b * L + l];
            divergence += -0.5 * (1 + 2 * log_std - mean * mean - std * std) / (B * L);
        }
        decode(&twin->decoder, twin->batch.obs[b], z, a);
        for (uint32_t j = 0; j < TWIN_A; j++) {
            double e = a[j] - twin->batch.act[b][j];
            reconstruction += e * e / (B * TWIN_A);
        }
    }
    return reconstruction + KL * divergence;
}

static double critic_loss(void *ctx)
{
    const struct twin *twin = ctx;
    double sum = 0;
    for (uint32_t b = 0; b < B; b++) {
        double e =
            value(&twin->critic[twin->which], twin->batch.obs[b], twin->batch.act[b]) - twin->y[b];
        sum += e * e / B;
    }
    return sum;
}

static double actor_loss(void *ctx)
{
    const struct twin *twin = ctx;
    double sum = 0;
    for (uint32_t b = 0; b < B; b++) {
        double z[L], a[TWIN_WIDTH_MAX] = {0};
        for (uint32_t l = 0; l < L; l++)
            z[l] = (double)twin->actor_z[b * L + l];
        decode(&twin->decoder, twin->batch.obs[b], z, a);
        perturb(&twin->perturb, twin->batch.obs[b], a);
        sum -= value(&twin->critic[0], twin->batch.obs[b], a) / B;
    }
    return sum;
}

static void draw_clipped(struct aw_rng *rng, float *z, size_t count)
{
    aw_rng_fill_normal(rng, z, count);
    for (size_t i = 0; i < count; i++)
        z[i] = (float)twin_clip((double)z[i], 0.5);
}

static void targets(struct twin *twin)
{
    for (uint32_t b = 0; b < B; b++) {
        double best = -INFINITY;
        for (uint32_t i = 0; i < SAMPLES; i++) {
            double z[L], a[TWIN_WIDTH_MAX] = {0};
            for (uint32_t l = 0; l < L; l++)
                z[l] = (double)twin->next_z[(b * SAMPLES + i) * L + l];
            decode(&twin->decoder, twin->batch.next_obs[b], z, a);
            perturb(&twin->target_perturb, twin->batch.next_obs[b], a);
            double q1 = value(&twin->target_critic[0], twin->batch.next_obs[b], a);
            double q2 = value(&twin->target_critic[1], twin->batch.next_obs[b], a);
            best = fmax(best, LAMBDA * fmin(q1, q2) + (1 - LAMBDA) * fmax(q1, q2));
        }
        twin->y[b] = twin->batch.reward[b] + GAMMA * (1 - twin->batch.terminal[b]) * best;
    }
}

static void an_update_follows_the_slope_of_the_papers_losses(void **state)
{
    (void)state;
    struct aw_agent agent;
    struct twin_save before, after;
    static struct twin twin;
    twin_agent("bcq", settings_pairs, ROWS, 4, &agent);
    for (int i = 0; i < 40; i++)
        assert_ok(agent.ops->learn(agent.self, NULL));
    twin_save_take(&before, &agent);
    assert_ok(agent.ops->learn(agent.self, NULL));
    twin_save_take(&after, &agent);

    struct aw_rng rng = twin_rng(&before);
    twin_batch_draw(&twin.batch, &before, &rng, B, TWIN_S, TWIN_A);
    aw_rng_fill_normal(&rng, twin.noise, B * L);
    draw_clipped(&rng, twin.next_z, B * SAMPLES * L);
    draw_clipped(&rng, twin.actor_z, B * L);
    twin_net_load(&twin.encoder, &before, "vae.encoder");
    twin_net_load(&twin.decoder, &before, "vae.decoder");
    twin_net_load(&twin.perturb, &before, "actor");
    twin_net_load(&twin.target_perturb, &before, "target.actor");
    twin_net_load(&twin.critic[0], &before, "critic1");
    twin_net_load(&twin.critic[1], &before, "critic2");
    twin_net_load(&twin.target_critic[0], &before, "target.critic1");
    twin_net_load(&twin.target_critic[1], &before, "target.critic2");

    twin_check_gradient(&twin.encoder, &before, &after, "vae.", vae_loss, &twin);
    twin_check_gradient(&twin.decoder, &before, &after, "vae.", vae_loss, &twin);
    /* candidates come from the decoder after its own step */
    twin_net_load(&twin.decoder, &after, "vae.decoder");
    targets(&twin);
    for (twin.which = 0; twin.which < 2; twin.which++)
        twin_check_gradient(&twin.critic[twin.which], &before, &after, "critic.", critic_loss,
                            &twin);
    twin_net_load(&twin.critic[0], &after, "critic1");
    twin_check_gradient(&twin.perturb, &before, &after, "actor.", actor_loss, &twin);
    twin_check_targets(&before, &after, 0.1);
    twin_save_drop(&before);
    twin_save_drop(&after);
    aw_agent_free(&agent);
}

/* The naive policy: of all kept latents, the candidate that the first critic likes best. */
static void acting_takes_the_best_of_the_candidates(void **state)
{
    (void)state;
    enum { CANDIDATES = 12 };
    struct aw_agent agent;
    struct twin_save save;
    static struct twin twin;
    twin_agent("bcq", settings_pairs, ROWS, 4, &agent);
    for (int i = 0; i < 40; i++)
        assert_ok(agent.ops->learn(agent.self, NULL));
    twin_save_take(&save, &agent);
    twin_net_load(&twin.decoder, &save, "vae.decoder");
    twin_net_load(&twin.perturb, &save, "actor");
    twin_net_load(&twin.critic[0], &save, "critic1");
    const float *latents = twin_view(&save, "latents").data;
    struct aw_rng rng;
    aw_rng_init(&rng, 8, 8);
    for (int round = 0; round < 20; round++) {
        float obs[TWIN_S], action[TWIN_A];
        double s[TWIN_S], best[TWIN_A] = {0}, best_q = -INFINITY;
        aw_rng_fill_normal(&rng, obs, TWIN_S);
        for (uint32_t i = 0; i < TWIN_S; i++)
            s[i] = (double)obs[i];
        for (uint32_t n = 0; n < CANDIDATES; n++) {
            double z[L], a[TWIN_WIDTH_MAX] = {0};
            for (uint32_t l = 0; l < L; l++)
                z[l] = (double)latents[n * L + l];
            decode(&twin.decoder, s, z, a);
            perturb(&twin.perturb, s, a);
            double q = value(&twin.critic[0], s, a);
            if (q > best_q) {
                best_q = q;
                memcpy(best, a, sizeof best);
            }
        }
        assert_ok(agent.ops->act(agent.self, obs, 1, false, action));
        assert_close((double)action[0], best[0], 1e-5);         /* bounds -1 and 1 */
        assert_close((double)action[1], 1 + 4 * best[1], 1e-5); /* bounds -3 and 5 */
    }
    twin_save_drop(&save);
    aw_agent_free(&agent);
}

/* All seen actions lie near a line through the states: candidates must lie there too. */
static void candidates_stay_near_the_actions_that_were_seen(void **state)
{
    (void)state;
    static const float low = -1, high = 1;
    const struct aw_agent_shape shape = {1, 1, AW_AGENT_CONTINUOUS, 1, 0, &low, &high};
    const struct aw_agent_factory *factory;
    struct aw_bcq_settings settings;
    struct aw_agent agent;
    struct aw_rng rng;
    aw_rng_init(&rng, 2, 2);
    assert_ok(aw_agent_factory_find("bcq", &factory, NULL));
    assert_ok(aw_agent_settings(factory, NULL, &settings, NULL));
    settings.base.replay_capacity = 2000;
    settings.hidden.value[0] = settings.hidden.value[1] = 16;
    settings.vae_hidden.value[0] = settings.vae_hidden.value[1] = 16;
    assert_ok(factory->make(&shape, &settings, 1, NULL, &agent, NULL));
    for (int i = 0; i < 2000; i++) {
        float obs = (float)aw_rng_uniform(&rng, -1, 1);
        float action = 0.5f * obs + 0.05f * (float)aw_rng_normal(&rng);
        float reward = action; /* more would always be better, and was never tried */
        bool yes = true, no = false;
        const struct aw_transition transition = {&obs, &action, &reward, &obs, &yes, &no};
        assert_ok(agent.ops->observe(agent.self, &transition));
    }
    for (int i = 0; i < 1500; i++)
        assert_ok(agent.ops->learn(agent.self, NULL));
    for (float obs = -0.8f; obs < 0.9f; obs += 0.2f) {
        float action;
        assert_ok(agent.ops->act(agent.self, &obs, 1, false, &action));
        assert_true(action > 0.5f * obs);         /* the better end of what was seen */
        assert_true(action < 0.5f * obs + 0.25f); /* 0.05 of push and 4 deviations */
    }
    aw_agent_free(&agent);
}

static void impossible_settings_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const float low = -1, high = 1;
    const struct aw_agent_shape shape = {1, 1, AW_AGENT_CONTINUOUS, 1, 0, &low, &high};
    const struct aw_agent_factory *factory;
    assert_ok(aw_agent_factory_find("bcq", &factory, NULL));
    for (int c = 0; c < 3; c++) {
        struct aw_bcq_settings settings;
        struct aw_agent agent = {0};
        struct aw_diag diag = {0};
        assert_ok(aw_agent_settings(factory, NULL, &settings, NULL));
        settings.base.replay_capacity = 5000;
        if (c == 0)
            settings.hidden.count = 0;
        if (c == 1)
            settings.vae_hidden.count = AW_CONF_LIST_MAX;
        if (c == 2) {
            settings.base.batch = 4096;
            settings.next_samples = 1000;
        }
        assert_int_equal(factory->make(&shape, &settings, 1, NULL, &agent, &diag),
                         c == 2 ? AW_ERR_LIMIT : AW_ERR_CONFIG);
        assert_string_equal(diag.key, c == 0 ? "hidden" : c == 1 ? "vae_hidden" : "next_samples");
        assert_null(agent.ops);
    }
}

AW_TEST_GROUP("bcq")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_follows_the_slope_of_the_papers_losses),
        cmocka_unit_test(acting_takes_the_best_of_the_candidates),
        cmocka_unit_test(candidates_stay_near_the_actions_that_were_seen),
        cmocka_unit_test(impossible_settings_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests_name("bcq", tests, NULL, NULL);
}
