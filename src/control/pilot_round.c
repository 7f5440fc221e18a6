/* pilot_round.c - a round of learning on a copy of the pilot. */
#include "control/pilot_round.h"

#include <string.h>

#include "base/clock.h"
#include "control/pilot_internal.h"

struct aw_pilot_round {
    struct aw_pilot *student;
    const struct aw_alloc *alloc;
    void *begin; /* state of the pilot, with which the round began */
    size_t begin_bytes;
    uint64_t policy_id;
    int64_t forgotten_us;
    uint32_t stage, anew;
    bool ran;
    struct aw_lesson lesson;
    float load[AW__PILOT_SEARCH_MINUTES];
    enum aw_err err;
    double took_s;
};

void aw_pilot_round_free(struct aw_pilot_round *round)
{
    if (!round)
        return;
    if (round->ran)
        aw_policy_free(&round->lesson.trial);
    aw_pilot_free(round->student);
    aw_alloc_free(round->alloc, round->begin);
    aw_alloc_free(round->alloc, round);
}

enum aw_err aw_pilot_round_again(const struct aw_pilot *pilot, const void *bytes, size_t size,
                                 struct aw_store *store, struct aw_pilot_round **ret_round,
                                 struct aw_diag *diag)
{
    if (size != aw_pilot_state_bytes(pilot))
        return AW_ERR_FORMAT;
    struct aw_pilot_round *round = aw_alloc_new(pilot->alloc, 1, sizeof *round);
    if (!round)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a round of %s", pilot->config.name);
    round->alloc = pilot->alloc;
    round->begin_bytes = size;
    round->begin = aw_alloc_new(pilot->alloc, size, 1);
    enum aw_err err =
        round->begin ? aw_pilot_new_among(&pilot->config, &pilot->task, pilot->policy_task.now_us,
                                          pilot->among, pilot->alloc, &round->student, diag)
                     : AW_ERR_NOMEM;
    if (!err) {
        memcpy(round->begin, bytes, size);
        err = aw_pilot_state_load(round->student, round->begin);
    }
    err = err ? err : aw_pilot_recall(round->student, store, diag);
    if (err) {
        aw_pilot_round_free(round);
        return err;
    }
    const struct aw__pilot_memory *memory = &round->student->memory;
    round->student->learned = pilot->learned;
    round->policy_id = aw__pilot_policy_id(round->student);
    round->forgotten_us = memory->forgotten_us;
    round->stage = memory->lifecycle.stage;
    round->anew = memory->anew;
    *ret_round = round;
    return AW_OK;
}

enum aw_err aw_pilot_round_new(struct aw_pilot *pilot, struct aw_store *store,
                               struct aw_pilot_round **ret_round, struct aw_diag *diag)
{
    const size_t size = aw_pilot_state_bytes(pilot);
    void *bytes = aw_alloc_new(pilot->alloc, size, 1);
    if (!bytes)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a round of %s", pilot->config.name);
    aw_pilot_state_save(pilot, bytes);
    const enum aw_err err = aw_pilot_round_again(pilot, bytes, size, store, ret_round, diag);
    aw_alloc_free(pilot->alloc, bytes);
    if (!err)
        aw__pilot_learn_begins(pilot);
    return err;
}

void aw_pilot_round_run(struct aw_pilot_round *round, const _Atomic bool *stop)
{
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    round->err = aw__pilot_teach(round->student, round->load, stop, &round->lesson, NULL);
    round->ran = true;
    round->took_s = 1e-6 * (double)(aw_clock_monotonic_us(NULL) - begin_us);
}

/* Whether what was learned still answers what is asked. */
static bool still_asked(const struct aw_pilot *pilot, const struct aw_pilot_round *round)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    return memory->forgotten_us == round->forgotten_us && memory->lifecycle.stage == round->stage &&
           aw__pilot_policy_id(pilot) == round->policy_id && !aw_canary_busy(&memory->canary);
}

/* The policy to try belongs to the student, down to what it was made for. */
static enum aw_err trial_take(struct aw_pilot *pilot, struct aw_lesson *lesson)
{
    struct aw_policy trial = {0};
    enum aw_err err = aw_policy_new(pilot->policy.ops, &pilot->policy_task, pilot->alloc, &trial);
    err = err ? err : aw__pilot_copy_policy(pilot, &lesson->trial, &trial);
    if (err) {
        aw_policy_free(&trial);
        return err;
    }
    aw__pilot_try(pilot, &trial, &lesson->trial_origin, &lesson->candidate, AW_CANARY_CAUSE_FOUND);
    return AW_OK;
}

enum aw_err aw_pilot_round_take(struct aw_pilot *pilot, struct aw_pilot_round *round)
{
    AW_ASSERT(round->ran);
    struct aw_lesson *lesson = &round->lesson;
    if (round->err == AW_ERR_INTERRUPTED || !still_asked(pilot, round)) {
        if (pilot->memory.forgotten_us == round->forgotten_us)
            pilot->memory.learn_due = 1;
        return AW_ERR_CONFLICT;
    }
    const uint32_t anew = pilot->memory.anew;
    aw__pilot_lesson_take(pilot, lesson);
    if (anew != round->anew) /* it has changed again since */
        pilot->memory.anew = anew;
    pilot->policy.ops->taught(pilot->policy.self, round->student->policy.self);
    enum aw_err err = round->err;
    if (lesson->trial.self) {
        const enum aw_err tried = trial_take(pilot, lesson);
        err = err ? err : tried;
    }
    aw__pilot_learn_ends(pilot, err);
    return err;
}

const void *aw_pilot_round_bytes(const struct aw_pilot_round *round, size_t *ret_size)
{
    *ret_size = round->begin_bytes;
    return round->begin;
}

double aw_pilot_round_took_s(const struct aw_pilot_round *round)
{
    return round->took_s;
}
