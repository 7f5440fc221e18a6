/* learn.c - see learn.h. */
#include "firm/learn.h"

#include <math.h>
#include <string.h>

#include "base/conf.h"
#include "rl/agents.h"

#define WARM_NS      (2 * AW_GRAPH_S_NS)
#define REWARD_SCALE 0.2f /* a reward of at most 5 becomes one of at most 1 */

enum aw_err aw_firm_agent_new(const char *learner, bool paper, uint64_t seed,
                              const struct aw_alloc *alloc, struct aw_agent *ret,
                              struct aw_diag *diag)
{
    static const float low[AW_GRAPH_RESOURCES] = {-1, -1, -1, -1, -1};
    static const float high[AW_GRAPH_RESOURCES] = {1, 1, 1, 1, 1};
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = AW_FIRM_OBS,
                                         .action = AW_AGENT_CONTINUOUS,
                                         .act_dim = AW_FIRM_ACT,
                                         .act_low = low,
                                         .act_high = high};
    /* Ours where the paper's exploration is too small to leave a corner: noise of 0.02 a step. */
    static const char *const ours[] = {"hidden=40,40", "gamma=0.9",       "warmup_steps=500",
                                       "batch=64",     "noise_sigma=0.3", NULL};
    const struct aw_agent_factory *factory;
    _Alignas(16) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    enum aw_err err = aw_agent_factory_find(learner, &factory, diag);
    if (!err)
        err = aw_agent_settings(factory, paper ? "firm-table3.3" : NULL, settings, diag);
    for (uint32_t i = 0; !err && !paper && ours[i]; i++) {
        char key[32];
        const char *equals = strchr(ours[i], '=');
        const size_t len = (size_t)(equals - ours[i]);
        memcpy(key, ours[i], len);
        key[len] = '\0';
        err = aw_conf_set(factory->fields, settings, key, equals + 1, diag);
    }
    return err ? err : factory->make(&shape, settings, seed, alloc, ret, diag);
}

struct episode {
    struct aw_graph_world *world;
    struct aw_firm_desk desk;
    struct aw_graph_reading readings[AW_GRAPH_SERVICES_MAX];
    uint32_t service;
    double maintenance, missed, visits_before;
    int64_t now_ns;
};

/* Half a second passes; what the agent sees then. */
static void pass(struct episode *episode, const struct aw_graph_app *app, float *obs)
{
    uint32_t count;
    double before = episode->readings[episode->service].visits_per_s;
    aw_graph_world_run(episode->world, episode->now_ns += AW_FIRM_STEP_NS);
    const struct aw_graph_done *done = aw_graph_world_done(episode->world, &count);
    episode->maintenance = aw_firm_maintenance(app, done, count, &episode->missed);
    aw_graph_world_read(episode->world, episode->readings);
    aw_firm_state(&episode->readings[episode->service], episode->maintenance, before,
                  episode->missed, obs);
}

static void draw(const struct aw_graph_app *app, const struct aw_calibration *calibration,
                 const struct aw_firm_learn *learn, struct aw_rng *rng, struct episode *episode)
{
    struct aw_graph_stress stress = {{0}, 0, 0};
    enum aw_anomaly_kind kind = AW_ANOMALY_CPU;
    for (uint32_t i = 0; i < 1000; i++) {
        episode->service =
            learn->only == AW_GRAPH_NONE ? aw_rng_below(rng, app->service_count) : learn->only;
        kind = (enum aw_anomaly_kind)aw_rng_below(rng, AW_ANOMALY_KINDS);
        if (kind != AW_ANOMALY_DELAY && aw_calibration_has(calibration, episode->service, kind))
            break; /* a delay has no limit that mends it */
    }
    if (!aw_calibration_has(calibration, episode->service, kind))
        return;
    const double start = calibration->start[episode->service][kind];
    const double end = calibration->end[episode->service][kind];
    aw_anomaly_add(app, episode->service, kind, start + aw_rng_double(rng) * (end - start),
                   &stress);
    aw_graph_world_stress(episode->world, episode->service, &stress);
}

static enum aw_err live(struct episode *episode, const struct aw_graph_app *app,
                        const struct aw_firm_learn *learn, struct aw_agent *agent,
                        double *ret_reward)
{
    float obs[AW_FIRM_OBS], next[AW_FIRM_OBS], action[AW_GRAPH_RESOURCES];
    const struct aw_graph_service *service = &app->services[episode->service];
    enum aw_err err = AW_OK;
    double sum = 0;
    pass(episode, app, obs);
    for (uint32_t t = 0; t < AW_FIRM_EPISODE_STEPS && !err; t++) {
        err = agent->ops->act(agent->self, obs, 1, true, action);
        if (err)
            break;
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
            (void)aw_firm_desk_limit(
                &episode->desk, episode->service, (enum aw_graph_resource)r,
                fmax(service->low[r], aw_firm_action(service, (enum aw_graph_resource)r,
                                                     episode->desk.limit[episode->service][r],
                                                     action[r], learn->absolute)),
                false, false, "learning");
        pass(episode, app, next);
        const double reward =
            aw_firm_reward(&episode->readings[episode->service], episode->maintenance);
        const float scaled = (float)reward * REWARD_SCALE;
        const bool terminated = false, truncated = t + 1 == AW_FIRM_EPISODE_STEPS;
        sum += reward;
        err = agent->ops->observe(agent->self, &(struct aw_transition){.obs = obs,
                                                                       .action = action,
                                                                       .reward = &scaled,
                                                                       .next_obs = next,
                                                                       .terminated = &terminated,
                                                                       .truncated = &truncated});
        if (!err)
            err = agent->ops->learn(agent->self, NULL);
        memcpy(obs, next, sizeof obs);
    }
    *ret_reward = sum / AW_FIRM_EPISODE_STEPS;
    return err;
}

enum aw_err aw_firm_teach(const struct aw_graph_app *app, const struct aw_calibration *calibration,
                          const struct aw_firm_learn *learn, struct aw_agent *agent,
                          const struct aw_alloc *alloc)
{
    struct episode *episode = aw_alloc_new(alloc, 1, sizeof *episode);
    struct aw_rng rng;
    enum aw_err err = episode ? AW_OK : AW_ERR_NOMEM;
    aw_rng_init(&rng, learn->seed, 13);
    for (uint32_t i = 0; i < learn->episodes && !err; i++) {
        const struct aw_graph_config config = {.seed = learn->seed * 1000003 + i};
        double reward = 0;
        memset(episode, 0, sizeof *episode);
        err = aw_graph_world_new(app, &config, alloc, &episode->world);
        if (!err)
            err =
                aw_firm_desk_init(&episode->desk, app, aw_graph_world_plant(episode->world), alloc);
        if (!err) {
            uint32_t count;
            aw_graph_world_run(episode->world, episode->now_ns = WARM_NS);
            aw_graph_world_done(episode->world, &count);
            aw_graph_world_read(episode->world, episode->readings);
            draw(app, calibration, learn, &rng, episode);
            err = live(episode, app, learn, agent, &reward);
        }
        aw_firm_desk_deinit(&episode->desk);
        aw_graph_world_free(episode->world);
        if (!err && learn->episode && !learn->episode(learn->ctx, i, reward))
            err = AW_ERR_INTERRUPTED;
    }
    aw_alloc_free(alloc, episode);
    return err;
}
