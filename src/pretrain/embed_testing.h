/* embed_testing.h - a small model and a store of made-up episodes, for tests. */
#ifndef AW_PRETRAIN_EMBED_TESTING_H
#define AW_PRETRAIN_EMBED_TESTING_H

#include <aware/store.h>

#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"
#include "meta/known_apps.h"
#include "policy/pretrained_testing.h"

#define EPISODE_STEPS 12u

struct embed_world {
    char folder[64], model[96], url[96];
    struct aw_context *context; /* as the model's file has it */
    struct aw_store store;
};

/* A model that knows `known` workloads, with a line for what they lose at first. */
static inline void embed_world_open(struct embed_world *w, uint32_t choice, uint32_t known)
{
    struct aw_context_config config = model_config(AW_ENCODER_POOL, 16);
    struct aw_known_apps those = {0};
    struct aw_diag diag = {0};
    struct aw_rng rng;
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "/tmp/aware-embed-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->model, sizeof w->model, "%s/model.safetensors", w->folder);
    snprintf(w->url, sizeof w->url, "%s/steps.db", w->folder);
    config.settings.choice = choice;
    assert_ok(aw_context_new(&config, NULL, &w->context, &diag));
    assert_ok(aw_known_apps_init(&those, known, config.settings.embedding, NULL));
    aw_rng_init(&rng, 3, 0);
    for (uint32_t i = 0; i < known; i++) {
        snprintf(those.name[i], sizeof those.name[i], "1:%u", i);
        for (uint32_t k = 0; k < those.dim; k++)
            those.embedding[i * those.dim + k] = (float)(0.2 * aw_rng_normal(&rng));
    }
    aw_known_apps_measure(&those);
    those.drop = (struct aw_known_apps_line){.there = true,
                                             .slope = -1,
                                             .intercept = 1.5,
                                             .deviation = 0.25,
                                             .at = 1,
                                             .lowest = -1,
                                             .related = true};
    assert_ok(aw_known_apps_save(w->context, &those, w->model, model_meta, MODEL_PAIRS, &diag));
    aw_known_apps_deinit(&those);
    assert_ok(aw_store_open(&w->store, w->url, &(struct aw_store_options){0}, NULL, &diag));
}

static inline void embed_world_close(struct embed_world *w)
{
    static const char *const files[] = {"model.safetensors", "steps.db", "steps.db-wal",
                                        "steps.db-shm", "steps.db-lock"};
    char path[128];
    aw_store_close(&w->store);
    aw_context_free(w->context);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", w->folder, files[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(w->folder), 0);
}

/* One episode whose numbers follow from `seed`. `agent_from`: the step from which an agent acts;
 * EPISODE_STEPS: none does. `bundle` (may be NULL) is shown the same, as the model was taught. */
static inline void episode_write(struct embed_world *w, const char *workload, uint32_t episode,
                                 uint64_t seed, uint32_t agent_from, struct aw_bundle *bundle)
{
    static float obs[EPISODE_STEPS * AW_STATE_DEFAULT_DIM];
    static float action[EPISODE_STEPS * AW_ACTION_DIM], reward[EPISODE_STEPS];
    struct aw_diag diag = {0};
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    aw_rng_fill_uniform(&rng, obs, EPISODE_STEPS * AW_STATE_DEFAULT_DIM, -1, 1);
    aw_rng_fill_uniform(&rng, action, EPISODE_STEPS * AW_ACTION_DIM, -1, 1);
    for (uint32_t t = 0; t < EPISODE_STEPS; t++) {
        const struct aw_store_figures figures = {.slo_preservation = 0.9,
                                                 .cpu_utilisation = aw_rng_uniform(&rng, 0, 1),
                                                 .memory_utilisation = 0.5,
                                                 .paper_reward = 77, /* made anew, not read */
                                                 .replicas = 2,
                                                 .violated = t == 3,
                                                 .cpu_millicores = 100,
                                                 .memory_bytes = 1 << 20};
        const struct aw_store_row row = {
            .workload = workload,
            .episode = episode,
            .step = t,
            .at_us = (int64_t)episode * 1000000 + t,
            .stage = AW_STAGE_OFFLINE,
            .actor = t >= agent_from ? AW_ACTOR_AGENT : AW_ACTOR_FALLBACK,
            .obs_dim = AW_STATE_DEFAULT_DIM,
            .act_dim = AW_ACTION_DIM,
            .obs = obs + (size_t)t * AW_STATE_DEFAULT_DIM,
            .action = action + (size_t)t * AW_ACTION_DIM,
            .next_obs = obs + (size_t)t * AW_STATE_DEFAULT_DIM,
            .reward = 55, /* the workload's own objective, which the model does not read */
            .truncated = t + 1 == EPISODE_STEPS,
            .figures = figures,
        };
        /* R with the SLO's weight of one half, less 0.3 for a miss, as model_meta says */
        const double r = 0.5 * 2 * 0.9 + 0.5 * (figures.cpu_utilisation + 0.5);
        reward[t] = (float)((r - (t == 3 ? 0.3 : 0) - 1) * 0.1);
        if (aw_store_append(&w->store, &row, &diag))
            fail_msg("%s", diag.text);
    }
    if (bundle)
        (void)aw_bundle_add(bundle, obs, action, reward, EPISODE_STEPS);
}

#endif
