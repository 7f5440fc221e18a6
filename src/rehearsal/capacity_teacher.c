/* capacity_teacher.c - nine numbers, searched for on copies of the workload. */
#include <math.h>

#include "policy/capacity.h"
#include "rehearsal/lesson.h"

#define SEARCH_GAIN   0.03 /* of ln cost: less is not worth another policy */
#define LOOK_GAIN     0.05 /* of a value: less is not worth a rollout */
#define SEARCH_MISSES 4    /* times the budget on copies: no policy to begin with */

/* Where the search begins beside chance: at what is in force, and at what a shared model would do
 * here. A model that gives nothing to begin at is as good as none. */
struct starts {
    struct aw_capacity_rule taught;
    struct aw_policy_origin origin[AW_REHEARSE_TAUGHT + 1]; /* by enum aw_rehearse_from */
    struct aw_capacity_rule rule[AW_LIBRARY_RULES_MAX];
    double expected[AW_LIBRARY_RULES_MAX];
    struct aw_rehearse_starts at;
};

/* The capacity rule that does what the model's policy for this workload does on the copies. NODATA:
 * the fallback has lived no episode that is believed; nor is there one after any other failure. */
static enum aw_err taught(const struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                          struct aw_capacity_rule *ret_rule, struct aw_policy_origin *ret_origin)
{
    struct aw_actnet actor = {0};
    const struct aw_actnet_shape shape = {
        .obs_dim = lesson->policy_task->obs_dim,
        .act_dim = AW_ACTION_DIM,
        .hidden = aw_pretrained_info(lesson->model)->hidden,
    };
    enum aw_err err = aw_actnet_init(&actor, &shape, lesson->alloc);
    err = err ? err : aw_lesson_specialise(lesson, &actor, ret_origin, NULL);
    if (!err) {
        const struct aw_rehearse_network network = aw_lesson_network(lesson, &actor);
        err = aw_rehearsal_translate(rehearsal, &network, lesson->seed, ret_rule);
    }
    aw_actnet_deinit(&actor);
    return err;
}

/* The rules of the library, if there is one, as they would act here, and what they would take. */
static struct aw_rehearse_lived lived(const struct aw_lesson *lesson, struct aw_capacity_rule *rule,
                                      double *expected)
{
    const struct aw_capacity *capacity = lesson->policy.self;
    const struct aw_library *library = lesson->policy_task->library;
    struct aw_library_expected of[AW_LIBRARY_RULES_MAX];
    if (!library)
        return (struct aw_rehearse_lived){0};
    const bool known = aw_capacity_expect(capacity, of);
    for (uint32_t i = 0; i < library->rules; i++)
        rule[i] = aw_capacity_lived(capacity, i);
    for (uint32_t i = 0; known && i < library->rules; i++)
        expected[i] = of[i].cost + of[i].weight * of[i].price;
    return (struct aw_rehearse_lived){rule, known ? expected : NULL, library->rules};
}

static enum aw_err find_starts(const struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                               struct starts *ret)
{
    const struct aw_capacity *capacity = lesson->policy.self;
    enum aw_err err = AW_ERR_NODATA;
    *ret = (struct starts){.origin[AW_REHEARSE_KNOWN] = lesson->origin,
                           .at.known = capacity->memory.id ? &capacity->memory.rule : NULL};
    ret->at.lived = lived(lesson, ret->rule, ret->expected);
    if (lesson->learner)
        err = taught(lesson, rehearsal, &ret->taught, &ret->origin[AW_REHEARSE_TAUGHT]);
    if (!err)
        ret->at.taught = &ret->taught;
    return err == AW_ERR_NOMEM ? err : AW_OK;
}

/* What was found takes the place of what is in force, or is to be tried beside it. */
static enum aw_err hand_over(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                             const struct aw_capacity_rule *known,
                             const struct aw_capacity_rule *found,
                             const struct aw_policy_origin *origin)
{
    struct aw_capacity *capacity = lesson->policy.self;
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX], in_force[AW_REHEARSE_COPIES_MAX];
    const uint64_t id = aw_capacity_rule_id(found),
                   chance = lesson->seed + AW_LESSON_ESTIMATE_STREAM;
    if (!lesson->tries) {
        aw_capacity_set(capacity, found, id);
        aw_capacity_rule_changed(&capacity->memory.lived);
        lesson->origin = *origin;
        return AW_OK;
    }
    if (id == capacity->memory.id || aw_canary_barred(lesson->canary, id, lesson->rows))
        return AW_OK;
    aw_rehearsal_as_it_was(rehearsal);
    enum aw_err err = aw_rehearsal_play(rehearsal, known, chance, in_force);
    err = err ? err : aw_rehearsal_play(rehearsal, found, chance, each);
    err =
        err ? err
            : aw_policy_new(lesson->policy.ops, lesson->policy_task, lesson->alloc, &lesson->trial);
    if (err)
        return err;
    lesson->candidate = (struct aw_canary_candidate){.id = id};
    aw_lesson_predict(lesson, in_force, each, aw_rehearsal_copies(rehearsal));
    aw_capacity_set(lesson->trial.self, found, id);
    lesson->trial_origin = *origin;
    return AW_OK;
}

static enum aw_err search(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal)
{
    struct starts starts;
    struct aw_rehearse_found found;
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    const uint64_t chance = lesson->seed + AW_LESSON_ESTIMATE_STREAM;
    double before = INFINITY, misses = 0;
    enum aw_err err = find_starts(lesson, rehearsal, &starts);
    err = err ? err : aw_rehearsal_search(rehearsal, &starts.at, lesson->seed, &found);
    const struct aw_capacity_rule *known = starts.at.known;
    if (!err && known) {
        err = aw_rehearsal_play(rehearsal, known, chance, each);
        if (!err)
            before = aw_rehearsal_value(rehearsal, each);
    }
    err = err ? err : aw_rehearsal_play(rehearsal, &found.rule, chance, each);
    for (uint32_t i = 0; !err && i < aw_rehearsal_copies(rehearsal); i++)
        misses = fmax(misses, each[i].violation_share);
    if (!err && found.value < before - SEARCH_GAIN &&
        misses < SEARCH_MISSES * lesson->copies.budget)
        err = hand_over(lesson, rehearsal, known, &found.rule, &starts.origin[found.from]);
    if (err)
        return err;
    lesson->anew = false;
    lesson->learned.rounds++;
    lesson->learned.copies = aw_rehearsal_copies(rehearsal);
    lesson->learned.copy_error = aw_rehearsal_error(rehearsal);
    lesson->learned.value = found.value;
    return AW_OK;
}

/* What was chosen by ten minutes under another controller, chosen anew by all that was seen since.
 * Others have lived each of these rules, so none needs a trial. */
static enum aw_err look(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal)
{
    struct aw_capacity *capacity = lesson->policy.self;
    struct aw_capacity_rule rule[AW_LIBRARY_RULES_MAX];
    double expected[AW_LIBRARY_RULES_MAX], value[AW_LIBRARY_RULES_MAX];
    const struct aw_rehearse_lived rules = lived(lesson, rule, expected);
    if (!rules.expected)
        return AW_OK;
    const enum aw_err err = aw_rehearsal_rank(rehearsal, &rules, lesson->seed, value);
    uint32_t best = 0;
    double present = INFINITY;
    for (uint32_t i = 0; !err && i < rules.count; i++) {
        best = value[i] < value[best] ? i : best;
        if (aw_capacity_rule_id(&rules.rule[i]) == capacity->memory.id)
            present = value[i];
    }
    if (!err && value[best] < present - LOOK_GAIN)
        aw_capacity_take(capacity, best);
    return err;
}

static enum aw_err estimate(struct aw_lesson *lesson, struct aw_rehearsal *rehearsal,
                            struct aw_diag *diag)
{
    const struct aw_capacity *capacity = lesson->policy.self;
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    const uint64_t chance = lesson->seed + AW_LESSON_ESTIMATE_STREAM;
    aw_rehearsal_as_it_was(rehearsal);
    const enum aw_err err = aw_rehearsal_play(rehearsal, &capacity->memory.rule, chance, each);
    return err ? err
               : aw_lesson_estimate(lesson, rehearsal, each,
                                    capacity->values.v[AW_CAPACITY_RULE_CPU], chance, diag);
}

static enum aw_err capacity_learn(struct aw_lesson *lesson, struct aw_diag *diag)
{
    struct aw_capacity *capacity = lesson->policy.self;
    struct aw_rehearsal *rehearsal = NULL;
    double highest = 0;
    for (uint32_t i = 0; i < lesson->copies.minutes; i++)
        highest = fmax(highest, (double)lesson->copies.load_per_s[i]);
    capacity->memory.rehearsed_load = highest;
    enum aw_err err = aw_rehearsal_new(&lesson->copies, lesson->alloc, &rehearsal, diag);
    err = err ? err : lesson->looks ? look(lesson, rehearsal) : search(lesson, rehearsal);
    if (!err && !lesson->looks && capacity->memory.id)
        err = estimate(lesson, rehearsal, diag);
    aw_rehearsal_free(rehearsal);
    return err;
}

const struct aw_teacher_ops aw_capacity_teacher = {.learns = true,
                                                   .least_cost = true,
                                                   .looks = true,
                                                   .copies = aw_teacher_copies,
                                                   .learn = capacity_learn};
