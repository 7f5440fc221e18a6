/*
 * pilot_shared.c - learning that begins at a shared model's policy for this workload.
 *
 * The model reads the fallback's episodes and gives a policy (pretrained.h). For a capacity rule
 * this policy is one more place to begin a search at: what it does on copies of the workload is
 * said in the nine numbers. For a network it is the policy to begin with. It is tried on copies of
 * the workload like any other before it may act. Rounds of the workload's own learning go on beside
 * it; what they give takes its place when it does better on the same copies, so that learning
 * begins at the model's policy and never below it. While the fallback acts the model is asked again
 * after every episode: it knows the workload better each time.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "control/pilot_internal.h"
#include "policy/capacity.h"
#include "policy/network.h"

#define GAIN 0.01 /* of ln cost, or of the paper's reward: less is not worth another policy */

double aw__pilot_read(const struct aw_pilot *pilot, double slo_preservation, double cpu_utilisation,
                      double memory_utilisation, bool violated)
{
    return pilot->config.model ? aw_pretrained_reward(pilot->config.model, slo_preservation,
                                                      cpu_utilisation, memory_utilisation, violated)
                               : 0;
}

static struct aw_rehearse_network network_of(const struct aw_pilot *pilot,
                                             const struct aw_actnet *actor)
{
    return (struct aw_rehearse_network){
        .actor = actor, .state = &pilot->state.config, .action = &pilot->action.config};
}

enum aw_err aw__pilot_play(const struct aw_pilot *pilot, struct aw_rehearsal *rehearsal,
                           const struct aw_actnet *actor, uint64_t seed, struct aw_rehearsed *ret)
{
    const struct aw_rehearse_network network = network_of(pilot, actor);
    return aw_rehearsal_play_network(rehearsal, &network, seed, ret);
}

/* One number to compare policies by, lower is better. */
static enum aw_err judge(const struct aw_pilot *pilot, struct aw_rehearsal *rehearsal,
                         const struct aw_actnet *actor, uint64_t seed, double *ret)
{
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    const uint32_t copies = aw_rehearsal_copies(rehearsal);
    const enum aw_err err = aw__pilot_play(pilot, rehearsal, actor, seed, each);
    if (err)
        return err;
    double paper = 0;
    for (uint32_t i = 0; i < copies; i++)
        paper += each[i].paper_reward / copies;
    *ret = pilot->config.objective == AW_OBJECTIVE_PAPER ? -paper
                                                         : aw_rehearsal_value(rehearsal, each);
    return AW_OK;
}

/* The model's policy for what is known of the workload now. */
static enum aw_err specialise(struct aw_pilot *pilot, struct aw_actnet *actor,
                              struct aw_pilot_origin *ret_origin, struct aw_diag *diag)
{
    const struct aw_pretrained *model = pilot->config.model;
    const struct aw_pretrained_info *info = aw_pretrained_info(model);
    struct aw_bundle bundle = {0};
    enum aw_err err = aw_pretrained_bundle_init(model, pilot->alloc, &bundle);
    if (err)
        return aw_fail(diag, err, "no memory for the episodes of workload %s", pilot->config.name);
    (void)aw_learner_bundle(pilot->learner, &bundle);
    err = aw_pretrained_specialise(model, &bundle, pilot->alloc, actor, diag);
    if (!err) {
        *ret_origin =
            (struct aw_pilot_origin){.checksum = info->checksum, .episodes = bundle.count};
        snprintf(ret_origin->name, sizeof ret_origin->name, "%s", info->name);
    }
    aw_bundle_deinit(&bundle);
    return err;
}

bool aw__pilot_asks_model(const struct aw_pilot *pilot)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    return pilot->config.model && aw_capacity_of(&pilot->policy) &&
           (memory->lifecycle.stage == AW_STAGE_OFFLINE || memory->anew);
}

enum aw_err aw__pilot_taught(struct aw_pilot *pilot, struct aw_rehearsal *rehearsal, uint64_t seed,
                             struct aw_capacity_rule *ret_rule, struct aw_pilot_origin *ret_origin)
{
    struct aw_actnet actor = {0};
    const struct aw_actnet_shape shape = {
        .obs_dim = pilot->obs_dim,
        .act_dim = AW_ACTION_DIM,
        .hidden = aw_pretrained_info(pilot->config.model)->hidden,
    };
    enum aw_err err = aw_actnet_init(&actor, &shape, pilot->alloc);
    err = err ? err : specialise(pilot, &actor, ret_origin, NULL);
    if (!err) {
        const struct aw_rehearse_network network = network_of(pilot, &actor);
        err = aw_rehearsal_translate(rehearsal, &network, seed, ret_rule);
    }
    aw_actnet_deinit(&actor);
    return err;
}

/* `next` takes the place of what is in force if there is nothing, if it is the same model's with
 * more to go by, or if it does better. */
static enum aw_err contend(struct aw_pilot *pilot, struct aw_rehearsal *rehearsal, uint64_t seed,
                           const struct aw_actnet *next, const struct aw_pilot_origin *origin)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_actnet *actor = &aw_network_of(&pilot->policy)->actor;
    double before = INFINITY, value = 0;
    enum aw_err err = AW_OK;
    if (actor->id != 0 && !(origin->checksum && origin->checksum == memory->origin.checksum)) {
        err = judge(pilot, rehearsal, actor, seed, &before);
        err = err ? err : judge(pilot, rehearsal, next, seed, &value);
    }
    if (err || !(value < before - GAIN))
        return err;
    aw_actnet_copy(actor, next);
    memory->origin = *origin;
    return AW_OK;
}

enum aw_err aw__pilot_learn_shared(struct aw_pilot *pilot, uint64_t seed, struct aw_diag *diag)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    static const struct aw_pilot_origin own = {0};
    const bool offline = memory->lifecycle.stage == AW_STAGE_OFFLINE;
    const uint64_t chance = seed + AW__PILOT_ESTIMATE_STREAM;
    struct aw_pilot_origin origin;
    struct aw_rehearsal *rehearsal = NULL;
    struct aw_actnet next = {0};
    enum aw_err err = aw__pilot_rehearsal(pilot, seed, &rehearsal, diag);
    if (err == AW_ERR_NODATA && (offline || memory->origin.checksum == 0))
        return AW_ERR_UNSUPPORTED;
    err = err ? err : aw_actnet_init(&next, &aw_pilot_network(pilot)->shape, pilot->alloc);
    if (!err && offline) {
        err = specialise(pilot, &next, &origin, diag);
        if (!err)
            err = contend(pilot, rehearsal, chance, &next, &origin);
        else if (err ==
                 AW_ERR_NODATA) /* after a drift the fallback has no episode of its own yet */
            err = AW_OK;
    }
    if (!err) {
        err = aw__pilot_round(pilot, seed, &next, diag);
        if (!err)
            err = contend(pilot, rehearsal, chance, &next, &own);
        else if (err == AW_ERR_NODATA && aw__pilot_policy_id(pilot) != 0)
            err = AW_OK; /* too few episodes for a round; the model's policy needs but one */
    }
    if (!err && offline)
        err = aw__pilot_estimate(pilot, rehearsal, chance, diag);
    if (err && diag && !diag->text[0])
        aw_fail(diag, err, "workload %s: nothing was learned", pilot->config.name);
    aw_actnet_deinit(&next);
    aw_rehearsal_free(rehearsal);
    return err;
}
