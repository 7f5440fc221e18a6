/*
 * peers_teacher.c - how far an agent of those that learned together leans, tried on copies of its
 * workload. The networks are shared and stay as they are.
 */
#include <math.h>

#include "policy/peers.h"
#include "rehearsal/lesson.h"

#define LEAN_GAIN 0.03 /* of ln cost: less is not worth another policy */

/* What the agent would be with another lean. */
static void leaning(const struct aw_lesson *lesson, int32_t lean, struct aw_peers *ret)
{
    const struct aw_peers *peers = lesson->policy.self;
    aw_peers_begin(ret, lesson->policy_task);
    if (peers->memory.id)
        aw_peers_become(ret, peers);
    aw_peers_lean(ret, lean);
}

/* The lean that is worth most on chance that no estimate is made with. */
static enum aw_err seek(const struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                        int32_t *ret_lean, double *ret_value)
{
    const struct aw_peers *peers = lesson->policy.self;
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    double best = INFINITY, present = INFINITY;
    int32_t lean = 0;
    for (int32_t i = AW_PEERS_LEAN_MIN; i <= AW_PEERS_LEAN_MAX; i++) {
        struct aw_peers tried;
        leaning(lesson, i, &tried);
        const enum aw_err err = aw_rehearsal_play_peers(rehearsal, &tried, lesson->seed, each);
        if (err)
            return err;
        const double value = aw_rehearsal_value(rehearsal, each);
        if (value < best) {
            best = value;
            lean = i;
        }
        if (peers->memory.id && i == peers->memory.lean)
            present = value;
    }
    *ret_lean = best < present - LEAN_GAIN || !peers->memory.id ? lean : peers->memory.lean;
    *ret_value = fmin(best, present);
    return AW_OK;
}

/* Takes the place of what is in force, or is tried beside it. */
static enum aw_err hand_over(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                             const struct aw_peers *found)
{
    struct aw_peers *peers = lesson->policy.self;
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX], in_force[AW_REHEARSE_COPIES_MAX];
    const uint64_t chance = lesson->seed + AW_LESSON_ESTIMATE_STREAM;
    if (found->memory.id == peers->memory.id)
        return AW_OK;
    if (!lesson->tries) {
        aw_peers_become(peers, found);
        return AW_OK;
    }
    if (aw_canary_barred(lesson->canary, found->memory.id, lesson->rows))
        return AW_OK;
    aw_rehearsal_as_it_was(rehearsal);
    enum aw_err err = aw_rehearsal_play_peers(rehearsal, peers, chance, in_force);
    err = err ? err : aw_rehearsal_play_peers(rehearsal, found, chance, each);
    err =
        err ? err
            : aw_policy_new(lesson->policy.ops, lesson->policy_task, lesson->alloc, &lesson->trial);
    if (err)
        return err;
    lesson->candidate = (struct aw_canary_candidate){.id = found->memory.id};
    aw_lesson_predict(lesson, in_force, each, aw_rehearsal_copies(rehearsal));
    aw_peers_become(lesson->trial.self, found);
    lesson->trial_origin = lesson->origin;
    return AW_OK;
}

static enum aw_err estimate(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                            struct aw_diag *diag)
{
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    const uint64_t chance = lesson->seed + AW_LESSON_ESTIMATE_STREAM;
    double cores = 0;
    aw_rehearsal_as_it_was(rehearsal);
    const enum aw_err err = aw_rehearsal_play_peers(rehearsal, lesson->policy.self, chance, each);
    for (uint32_t i = 0; !err && i < aw_rehearsal_copies(rehearsal); i++)
        cores += each[i].cores / aw_rehearsal_copies(rehearsal);
    return err ? err : aw_lesson_estimate(lesson, rehearsal, each, cores, chance, diag);
}

static enum aw_err peers_learn(struct aw_lesson *lesson, struct aw_diag *diag)
{
    const struct aw_peers *peers = lesson->policy.self;
    struct aw_rehearsal *rehearsal = NULL;
    struct aw_peers found;
    int32_t lean = 0;
    double value = NAN;
    if ((lesson->policy_task->peers || lesson->policy_task->library) && !peers->memory.id)
        return aw_fail(diag, AW_ERR_NODATA, "the category of workload %s is not known yet",
                       lesson->workload);
    enum aw_err err = aw_rehearsal_new(&lesson->copies, lesson->alloc, &rehearsal, diag);
    err = err ? err : seek(lesson, rehearsal, &lean, &value);
    if (!err) {
        leaning(lesson, lean, &found);
        err = hand_over(lesson, rehearsal, &found);
    }
    if (!err) {
        lesson->anew = false;
        lesson->learned.rounds++;
        lesson->learned.copies = aw_rehearsal_copies(rehearsal);
        lesson->learned.copy_error = aw_rehearsal_error(rehearsal);
        lesson->learned.value = value;
        err = estimate(lesson, rehearsal, diag);
    }
    aw_rehearsal_free(rehearsal);
    return err;
}

const struct aw_teacher_ops aw_peers_teacher = {.learns = true,
                                                .least_cost = true,
                                                .shares = true,
                                                .copies = aw_teacher_copies,
                                                .learn = peers_learn};
