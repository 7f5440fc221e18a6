/*
 * network_teacher.c - a network, taught in rounds from the workload's episodes or on its copies.
 *
 * Where there is a shared model (pretrained.h), its policy for this workload is the one to begin
 * with, and is tried on copies of the workload like any other before it may act. Rounds of the
 * workload's own learning go on beside it; what they give takes its place when it does better on
 * the same copies, so that learning begins at the model's policy and never below it. While the
 * fallback acts the model is asked again after every episode: it knows the workload better each
 * time.
 */
#include <math.h>

#include "policy/network.h"
#include "rehearsal/lesson.h"

/* Of the fallback's score: an interval hardly ever shows a network to be better
 * (docs/results/ope.md); no worse than this must do. */
#define NO_WORSE 0.05
#define GAIN     0.01 /* of ln cost, or of the paper's reward: less is not worth another policy */

static bool network_copies(const struct aw_learner_settings *settings, bool has_model)
{
    return has_model || settings->method != AW_LEARNER_BCQ;
}

/* `lambda`, or 0 where the objective has no such weight. */
static double weight(const struct aw_lesson *lesson, double lambda)
{
    return lesson->objective.kind == AW_OBJECTIVE_PAPER ? 0 : lambda;
}

static enum aw_err round_on_copies(struct aw_lesson *lesson, struct aw_actnet *actor,
                                   struct aw_learner_stats *ret_stats, struct aw_diag *diag)
{
    const struct aw_rehearse_config *from = &lesson->copies;
    const struct aw_copyenv_config copy = {
        .state = *lesson->state,
        .action = *lesson->action,
        .objective = lesson->objective,
        .lambda = fmin(AW_LAMBDA_MAX, weight(lesson, lesson->lambda_now)),
        .step_s = from->step_s,
        .stale_s = from->stale_s,
        .episode_steps = from->episode_steps,
        .controlled = from->controlled,
        .guarded = true,
        .guard = from->guard,
        .node = from->node,
        .in_place = from->in_place,
        .start = from->start,
        .record = from->record,
        .load_per_s = from->load_per_s,
        .minutes = from->minutes,
        .busier = aw_rehearse_busier(from->minutes_seen),
        .error_max = from->settings.error_max,
    };
    return aw_learner_round_on_copies(lesson->learner, &copy, lesson->seed, actor, ret_stats, diag);
}

/* One round into `actor`, which is as it was after a failure. */
static enum aw_err learn_round(struct aw_lesson *lesson, struct aw_actnet *actor,
                               struct aw_diag *diag)
{
    const enum aw_learner_round kind = lesson->offline ? AW_LEARNER_OFFLINE : AW_LEARNER_ONLINE;
    struct aw_learner_stats stats = {0};
    const enum aw_err err =
        lesson->settings->method != AW_LEARNER_BCQ
            ? round_on_copies(lesson, actor, &stats, diag)
            : aw_learner_round(lesson->learner, kind, weight(lesson, lesson->lambda_now),
                               lesson->seed, actor, &stats, diag);
    if (!err)
        lesson->learned = (struct aw_learned){.rounds = lesson->learned.rounds + 1,
                                              .copies = stats.copies,
                                              .copy_error = NAN,
                                              .value = NAN,
                                              .critic_loss = stats.critic_loss,
                                              .imitation_loss = stats.imitation};
    return err;
}

/* One number to compare policies by, lower is better. */
static enum aw_err judge(const struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                         const struct aw_actnet *actor, uint64_t seed, double *ret)
{
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    const uint32_t copies = aw_rehearsal_copies(rehearsal);
    const enum aw_err err = aw_lesson_play(lesson, rehearsal, actor, seed, each);
    if (err)
        return err;
    double paper = 0;
    for (uint32_t i = 0; i < copies; i++)
        paper += each[i].paper_reward / copies;
    *ret =
        lesson->objective.kind == AW_OBJECTIVE_PAPER ? -paper : aw_rehearsal_value(rehearsal, each);
    return AW_OK;
}

/* `next` takes the place of what is in force if there is nothing, if it is the same model's with
 * more to go by, or if it does better. */
static enum aw_err contend(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal, uint64_t seed,
                           const struct aw_actnet *next, const struct aw_policy_origin *origin)
{
    struct aw_actnet *actor = &((struct aw_network *)lesson->policy.self)->actor;
    double before = INFINITY, value = 0;
    enum aw_err err = AW_OK;
    if (actor->id != 0 && !(origin->checksum && origin->checksum == lesson->origin.checksum)) {
        err = judge(lesson, rehearsal, actor, seed, &before);
        err = err ? err : judge(lesson, rehearsal, next, seed, &value);
    }
    if (err || !(value < before - GAIN))
        return err;
    aw_actnet_copy(actor, next);
    lesson->origin = *origin;
    return AW_OK;
}

static enum aw_err estimate(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                            const struct aw_actnet *actor, uint64_t seed, struct aw_diag *diag)
{
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    const uint32_t copies = aw_rehearsal_copies(rehearsal);
    double cores = 0;
    aw_rehearsal_as_it_was(rehearsal);
    const enum aw_err err = aw_lesson_play(lesson, rehearsal, actor, seed, each);
    for (uint32_t i = 0; !err && i < copies; i++)
        cores += each[i].cores / copies;
    return err ? err : aw_lesson_estimate(lesson, rehearsal, each, cores, seed, diag);
}

/* AW_ERR_UNSUPPORTED: no copies can be made, and no policy of the model's acts; nothing changed. */
static enum aw_err learn_shared(struct aw_lesson *lesson, struct aw_diag *diag)
{
    const struct aw_actnet *actor = &((struct aw_network *)lesson->policy.self)->actor;
    static const struct aw_policy_origin own = {0};
    const uint64_t chance = lesson->seed + AW_LESSON_ESTIMATE_STREAM;
    struct aw_policy_origin origin;
    struct aw_rehearsal *rehearsal = NULL;
    struct aw_actnet next = {0};
    enum aw_err err = aw_rehearsal_new(&lesson->copies, lesson->alloc, &rehearsal, diag);
    if (err == AW_ERR_NODATA && (lesson->offline || lesson->origin.checksum == 0))
        return AW_ERR_UNSUPPORTED;
    err = err ? err : aw_actnet_init(&next, &actor->shape, lesson->alloc);
    if (!err && lesson->offline) {
        err = aw_lesson_specialise(lesson, &next, &origin, diag);
        if (!err)
            err = contend(lesson, rehearsal, chance, &next, &origin);
        else if (err ==
                 AW_ERR_NODATA) /* after a drift the fallback has no episode of its own yet */
            err = AW_OK;
    }
    if (!err) {
        err = learn_round(lesson, &next, diag);
        if (!err)
            err = contend(lesson, rehearsal, chance, &next, &own);
        else if (err == AW_ERR_NODATA && actor->id != 0)
            err = AW_OK; /* too few episodes for a round; the model's policy needs but one */
    }
    if (!err && lesson->offline)
        err = estimate(lesson, rehearsal, actor, chance, diag);
    if (err && diag && !diag->text[0])
        aw_fail(diag, err, "workload %s: nothing was learned", lesson->workload);
    aw_actnet_deinit(&next);
    aw_rehearsal_free(rehearsal);
    return err;
}

static enum aw_err network_learn(struct aw_lesson *lesson, struct aw_diag *diag)
{
    struct aw_actnet *actor = &((struct aw_network *)lesson->policy.self)->actor;
    AW_ASSERT(lesson->learner);
    enum aw_err err = lesson->model ? learn_shared(lesson, diag) : AW_ERR_UNSUPPORTED;
    /* without copies nobody can tell the model's policy from another: what acts goes on, and who
     * does not act yet learns as if there were no model */
    if (err != AW_ERR_UNSUPPORTED)
        return err;
    err = learn_round(lesson, actor, diag);
    if (!err)
        lesson->origin = (struct aw_policy_origin){0};
    if (err || !lesson->offline)
        return err;
    struct aw_ope_estimate estimate;
    err = aw_learner_estimate(lesson->learner, actor, weight(lesson, lesson->lambda), lesson->level,
                              lesson->seed + AW_LESSON_ESTIMATE_STREAM, &estimate, diag);
    if (err)
        return err;
    const double past = estimate.behaviour_mean, margin = NO_WORSE * fabs(past);
    lesson->better_mean = estimate.mean - past;
    lesson->better_low = estimate.low - past + margin;
    lesson->better_high = estimate.high - past;
    return AW_OK;
}

const struct aw_teacher_ops aw_network_teacher = {.learns = true,
                                                  .from_record = true,
                                                  .same_shape = true,
                                                  .copies = network_copies,
                                                  .learn = network_learn};
