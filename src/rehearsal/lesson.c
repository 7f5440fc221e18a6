/* lesson.c - the table of teachers, and what several of them do alike. */
#include "rehearsal/lesson.h"

#include <math.h>
#include <stdio.h>

#define ESTIMATE_DOUBT 0.2 /* of a difference of two policies, that copies may have wrong */
/* An 80 % interval: so many units below and above the mean leave a tenth of the truths beyond
 * either end, by split conformal prediction on applications that no result is reported of
 * (`aware evaluate estimates`; docs/results/ope.md says which, and what came of it). */
#define ESTIMATE_BELOW 0.43
#define ESTIMATE_ABOVE 0.33
/* A unit's parts, of the fallback's score but for the first. */
#define ESTIMATE_MISSED 0.5  /* of what the copies have wrong of the fallback's past */
#define ESTIMATE_LEAST  0.05 /* a load to come that is another */
#define ESTIMATE_RESIZE 0.2  /* per e-fold of a replica's size: sizes that were never tried */
#define ESTIMATE_MISFIT 6    /* per error of the copies */

const struct aw_teacher_ops *aw_teacher_ops_of(uint32_t kind)
{
    static const struct aw_teacher_ops *const teachers[] = {
#define X(id, policy, teacher, name) &aw_##teacher##_teacher,
        AW_POLICY_MAP(X)
#undef X
    };
    AW_ASSERT(kind < AW_POLICY_KINDS);
    return teachers[kind];
}

/* --- who learns nothing -----------------------------------------------------------------------
 */

bool aw_teacher_copies(const struct aw_learner_settings *settings, bool has_model)
{
    (void)settings;
    (void)has_model;
    return true;
}

static enum aw_err learn_nothing(struct aw_lesson *lesson, struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NODATA, "the policy of workload %s does not learn",
                   lesson->workload);
}

const struct aw_teacher_ops aw_no_teacher = {.copies = aw_teacher_copies, .learn = learn_nothing};

/* --- what a policy is worth -------------------------------------------------------------------
 */

static double score_of(const struct aw_lesson *lesson, const struct aw_rehearsed *rehearsed)
{
    const uint32_t steps = lesson->copies.episode_steps;
    if (lesson->objective.kind == AW_OBJECTIVE_PAPER)
        return steps * rehearsed->paper_reward;
    return aw_episode_score(steps, lesson->lambda, rehearsed->cost_ratio, 1,
                            rehearsed->violation_share);
}

/* Of the episodes on record; `otherwise` where there are none. */
static double fallback_mean(const struct aw_lifecycle_ring *ring, double otherwise)
{
    double mean = ring->count ? 0 : otherwise;
    for (uint32_t i = 0; i < ring->count; i++)
        mean += ring->score[i] / ring->count;
    return mean;
}

/* What the policy would earn per episode. The copies are asked for the difference to the fallback
 * alone, whose own episodes are on record: what they get wrong of both is wrong of neither.
 *
 * The unit of doubt has what makes an estimate wrong: how much is promised, how far the copies
 * disagree, what they have wrong of the fallback and of latencies, a size that nobody has tried,
 * and a load to come that is another. */
enum aw_err aw_lesson_estimate(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                               const struct aw_rehearsed *by_agent, double cores, uint64_t seed,
                               struct aw_diag *diag)
{
    struct aw_rehearsed by_fallback[AW_REHEARSE_COPIES_MAX];
    struct aw_fallback *policy = NULL;
    enum aw_err err =
        aw_fallback_new(lesson->fallback, &lesson->task, lesson->alloc, &policy, diag);
    err = err ? err : aw_rehearsal_play_fallback(rehearsal, policy, seed, by_fallback);
    aw_fallback_free(policy);
    if (err)
        return err;
    const uint32_t copies = aw_rehearsal_copies(rehearsal);
    double mean = 0, square = 0, fallback = 0;
    for (uint32_t i = 0; i < copies; i++) {
        fallback += score_of(lesson, &by_fallback[i]) / copies;
        mean += (score_of(lesson, &by_agent[i]) - score_of(lesson, &by_fallback[i])) / copies;
    }
    for (uint32_t i = 0; i < copies; i++) {
        const double off =
            score_of(lesson, &by_agent[i]) - score_of(lesson, &by_fallback[i]) - mean;
        square += off * off / copies;
    }
    const double past = fallback_mean(lesson->lived, fallback);
    const double resize = fabs(log(cores / fmax(1e-3, lesson->copies.record->last_cores)));
    const double unit = fabs(mean) + sqrt(square) + ESTIMATE_MISSED * fabs(fallback - past) +
                        fabs(past) * (ESTIMATE_LEAST + ESTIMATE_RESIZE * fmin(1, resize) +
                                      ESTIMATE_MISFIT * aw_rehearsal_error(rehearsal));
    lesson->better_mean = mean;
    lesson->better_low = mean - ESTIMATE_BELOW * unit;
    lesson->better_high = mean + ESTIMATE_ABOVE * unit;
    return AW_OK;
}

void aw_lesson_predict(struct aw_lesson *lesson, const struct aw_rehearsed *known,
                       const struct aw_rehearsed *found, uint32_t copies)
{
    struct aw_canary_candidate *ret = &lesson->candidate;
    double gain = 0, square = 0, misses = 0;
    for (uint32_t i = 0; i < copies; i++) {
        gain += (score_of(lesson, &found[i]) - score_of(lesson, &known[i])) / copies;
        misses += found[i].violation_share / copies;
    }
    for (uint32_t i = 0; i < copies; i++) {
        const double off = score_of(lesson, &found[i]) - score_of(lesson, &known[i]) - gain;
        square += off * off / copies;
    }
    ret->gain = gain;
    ret->gain_error = sqrt(square + ESTIMATE_DOUBT * ESTIMATE_DOUBT * gain * gain);
    ret->violation_share = misses;
}

/* --- a shared model ---------------------------------------------------------------------------
 */

struct aw_rehearse_network aw_lesson_network(const struct aw_lesson *lesson,
                                             const struct aw_actnet *actor)
{
    return (struct aw_rehearse_network){
        .actor = actor, .state = lesson->state, .action = lesson->action};
}

enum aw_err aw_lesson_play(const struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                           const struct aw_actnet *actor, uint64_t seed, struct aw_rehearsed *ret)
{
    const struct aw_rehearse_network network = aw_lesson_network(lesson, actor);
    return aw_rehearsal_play_network(rehearsal, &network, seed, ret);
}

enum aw_err aw_lesson_specialise(const struct aw_lesson *lesson, struct aw_actnet *actor,
                                 struct aw_policy_origin *ret_origin, struct aw_diag *diag)
{
    const struct aw_pretrained *model = lesson->model;
    const struct aw_pretrained_info *info = aw_pretrained_info(model);
    struct aw_bundle bundle = {0};
    enum aw_err err = aw_pretrained_bundle_init(model, lesson->alloc, &bundle);
    if (err)
        return aw_fail(diag, err, "no memory for the episodes of workload %s", lesson->workload);
    (void)aw_learner_bundle(lesson->learner, &bundle);
    err = aw_pretrained_specialise(model, &bundle, lesson->alloc, actor, diag);
    if (!err) {
        *ret_origin =
            (struct aw_policy_origin){.checksum = info->checksum, .episodes = bundle.count};
        snprintf(ret_origin->name, sizeof ret_origin->name, "%s", info->name);
    }
    aw_bundle_deinit(&bundle);
    return err;
}
