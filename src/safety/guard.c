/*
 * guard.c - settings, and the one walk through the rails.
 *
 * The walk moves each amount into the room that a rail has left and notes whose narrowing moved it.
 * Rooms only get smaller, so the result does not depend on how often an amount is moved, and
 * passing a result again moves nothing.
 */
#include "safety/guard_internal.h"

#include "base/text.h"

#include <string.h>

#define RESTARTS_MAX AW_GUARD_RESTARTS_MAX

const char *const aw_guard_mode_names[] = {"Off", "Initial", "Auto", "Approve", NULL};

#define DAY 86400

/* clang-format off */
#define AW_CONF_OF struct aw_guard_settings
const struct aw_conf_field aw_guard_fields[] = {
    AW_CONF_ONE_OF(mode, "Off", aw_guard_mode_names,
        "Off only recommends, Initial sizes replicas once, Auto acts; users begin with Off"),
#define X(id, member, name, unit, most, common, restarts, use, words, noun, up, down, ...)         \
    AW_CONF_NUMBER(name##_up_factor, "4", 1, 1000,                                                 \
        "most that a decision may multiply " noun " by" up),                                       \
    AW_CONF_NUMBER(name##_down_factor, "2", 1, 1000,                                               \
        "most that a decision may divide " noun " by" down),
    AW_RESOURCE_MAP(X)
#undef X
    AW_CONF_NUMBER(replicas_up_least, "4", 0, 1000,
        "replicas that a decision may always add, however few there are; the HPA's default"),
    AW_CONF_NUMBER(restart_window, "3600", 60, 7 * DAY,
        "seconds over which changes of size are counted"),
    AW_CONF_NUMBER(restart_count, "12", 0, RESTARTS_MAX,
        "changes of size within that window, each of which restarts every replica; shrinking may "
        "use half of them, so that growing finds some left"),
    AW_CONF_NUMBER(change_window, "600", 60, 7 * DAY,
        "seconds over which an amount's range is kept"),
    AW_CONF_NUMBER(change_factor, "8", 1, 1000,
        "most that an amount's largest may be over its smallest within that window; growing "
        "under pressure is free of it"),
    AW_CONF_NUMBER(replicas_up_cooldown, "0", 0, DAY,
        "seconds after a change of replicas before more are added; the HPA waits for nothing"),
    AW_CONF_NUMBER(replicas_down_cooldown, "60", 0, DAY,
        "seconds after a change of replicas before some are removed"),
    AW_CONF_NUMBER(replicas_stabilisation, "300", 0, DAY,
        "seconds for which replicas that were added stay, no matter who acts; the HPA's window for "
        "scaling in"),
    AW_CONF_NUMBER(size_up_cooldown, "60", 0, DAY,
        "seconds after a change of size before it grows again"),
    AW_CONF_NUMBER(size_down_cooldown, "300", 0, DAY,
        "seconds after a change of size before it shrinks; the HPA's window for scaling in"),
    AW_CONF_NUMBER(peak_window, "300", 30, 7 * DAY,
        "seconds for which a peak of use counts; the HPA's window for scaling in"),
    AW_CONF_NUMBER(memory_margin, "0.05", 0, 10,
        "share of the recent peak of memory that stays free above it; less lets replicas be "
        "killed"),
    AW_CONF_NUMBER(cpu_margin, "0.05", 0, 10,
        "share of the recent peak of CPU use that stays free above it, over all replicas"),
    AW_CONF_NUMBER(oom_factor, "1.2", 1, 10,
        "times the size that was killed for want of memory; VPA's bump-up ratio"),
    AW_CONF_NUMBER(oom_hold, "1800", 0, 30 * DAY,
        "seconds after a kill for which that floor holds"),
    AW_CONF_NUMBER(deadband, "0.1", 0, 1,
        "relative change of both sizes that is not worth a restart; VPA's updater asks for 10 % "
        "too"),
    AW_CONF_NUMBER(pressure, "0.7", 0, 1,
        "CPU utilisation beyond which growth waits for no cool-down, window or rollout, as when "
        "the SLO is missed"),
    AW_CONF_NUMBER(crash_window, "600", 60, DAY, "seconds over which crashes are counted"),
    AW_CONF_NUMBER(crash_count, "3", 1, 1000,
        "crashes within that window, at least, that make a loop"),
    AW_CONF_NUMBER(crash_share, "0.5", 0, 100,
        "crashes per replica within that window, at least, that make a loop: one bad replica of "
        "many freezes nothing"),
    {0},
};
/* clang-format on */

const char *aw_clip_name(enum aw_clip clip)
{
    static const char *const names[] = {
#define X(id, name, sentence) name,
        AW_CLIP_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)clip < AW_CLIP_COUNT);
    return names[clip];
}

const char *aw_clip_sentence(enum aw_clip clip)
{
    static const char *const sentences[] = {
#define X(id, name, sentence) sentence,
        AW_CLIP_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)clip < AW_CLIP_COUNT);
    return sentences[clip];
}

enum aw_err aw_guard_init(struct aw_guard *guard, const struct aw_guard_settings *settings,
                          const struct aw_bounds *bounds, struct aw_diag *diag)
{
    enum aw_err err = aw_bounds_check(bounds, diag);
    if (err)
        return err;
    AW_ASSERT(settings->mode <= AW_GUARD_APPROVE && settings->restart_count <= RESTARTS_MAX);
    *guard = (struct aw_guard){.settings = *settings, .bounds = *bounds};
    return AW_OK;
}

/* --- the walk ---------------------------------------------------------------------------------
 */

/* Rails that keep things calm, not safe; a person's order does not wait for them. */
#define PACE                                                                                      \
    (AW_CLIP_BIT(AW_CLIP_CRASH_LOOP) | AW_CLIP_BIT(AW_CLIP_ROLLOUT) | AW_CLIP_BIT(AW_CLIP_STEP) | \
     AW_CLIP_BIT(AW_CLIP_RESTART_BUDGET) | AW_CLIP_BIT(AW_CLIP_CHANGE_BUDGET) |                   \
     AW_CLIP_BIT(AW_CLIP_COOL_DOWN) | AW_CLIP_BIT(AW_CLIP_DEADBAND))

static void note(struct aw__pass *pass, uint32_t axis, enum aw_clip clip, int64_t to)
{
    struct aw_guard_result *result = pass->result;
    result->axis_clips[axis] |= AW_CLIP_BIT(clip);
    result->clips |= AW_CLIP_BIT(clip);
    if (result->cut_count < AW_GUARD_CUTS_MAX)
        result->cut[result->cut_count++] =
            (struct aw_guard_cut){.to = to, .clip = (uint32_t)clip, .axis = axis};
}

static void walk(struct aw__pass *pass, const struct aw__rail *rails, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        if (pass->input->ordered && (PACE & AW_CLIP_BIT(rails[r].clip)))
            continue;
        int64_t before[AW_RESOURCES];
        const uint32_t dropped = pass->dropped;
        memcpy(before, pass->amount, sizeof before);
        rails[r].run(pass);
        for (uint32_t i = 0; i < AW_RESOURCES; i++) {
            int64_t *amount = &pass->amount[i];
            if (*amount == 0)
                continue;
            *amount = aw__larger(pass->room[i].low, aw__smaller(*amount, pass->room[i].high));
            const uint32_t axis = 1u << i;
            if (*amount != before[i] || (pass->dropped & ~dropped & axis))
                note(pass, i, rails[r].clip, pass->dropped & axis ? pass->present[i] : *amount);
        }
    }
}

/* What is proposed, as far as it can be meant; else the present. */
static void begin(struct aw__pass *pass, const struct aw_plan *proposed)
{
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const bool named = proposed->set & ~pass->uncontrolled & AW_PLAN_BIT(i);
        const int64_t amount = proposed->amount[i];
        const bool absurd = !aw__guard_sane(i, amount);
        pass->present[i] = aw__guard_wanted_of(pass->input->reading, i);
        pass->amount[i] = named && !absurd ? amount : pass->present[i];
        if ((named && absurd) || (proposed->set & ~(uint64_t)AW_PLAN_ALL))
            note(pass, i, AW_CLIP_ABSURD, pass->amount[i]);
        if (proposed->set & pass->uncontrolled & AW_PLAN_BIT(i))
            note(pass, i, AW_CLIP_UNCONTROLLED, pass->present[i]);
    }
}

static void plan_set(struct aw_plan *plan, const struct aw__pass *pass, uint32_t set)
{
    *plan = (struct aw_plan){.set = set};
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        plan->amount[i] = set & AW_PLAN_BIT(i) ? pass->amount[i] : pass->present[i];
}

static uint32_t strike(struct aw__pass *pass, uint32_t set, uint32_t out, enum aw_clip clip)
{
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (set & out & AW_PLAN_BIT(i))
            note(pass, i, clip, pass->present[i]);
    return set & ~out;
}

/* What only strikes out, strongest last, so that a plan which nobody let through names them all. */
static uint32_t struck(struct aw__pass *pass, uint32_t set)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    uint32_t smaller_set = 0, left = set;
    if (pass->input->ordered)
        return set;
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        smaller_set |= pass->amount[i] < pass->present[i] ? 1u << i : 0;
    if (pass->input->freeze == AW_GUARD_FREEZE_DOWN)
        left &= strike(pass, set, smaller_set, AW_CLIP_FREEZE);
    else if (pass->input->freeze != AW_GUARD_FREEZE_NONE)
        left &= strike(pass, set, AW_PLAN_ALL, AW_CLIP_FREEZE);
    if (s->mode == AW_GUARD_INITIAL && pass->memory->sized)
        left &= strike(pass, set, AW_PLAN_SIZES, AW_CLIP_MODE);
    else if (s->mode == AW_GUARD_OFF || s->mode == AW_GUARD_APPROVE)
        left &= strike(pass, set, AW_PLAN_ALL, AW_CLIP_MODE);
    if (pass->input->first)
        left &= strike(pass, set, AW_PLAN_ALL, AW_CLIP_RESTART);
    return left;
}

void aw_guard_pass(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                   const struct aw_guard_input *input, const struct aw_plan *proposed,
                   int64_t now_us, struct aw_guard_result *ret_result)
{
    struct aw__pass pass = {
        .guard = guard, .memory = memory, .input = input, .now_us = now_us, .result = ret_result};
    pass.uncontrolled = input->uncontrolled;
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        pass.uncontrolled |= guard->bounds.max[i] == 0 ? AW_PLAN_BIT(i) : 0;
    *ret_result = (struct aw_guard_result){.proposed = *proposed};
    begin(&pass, &ret_result->proposed);
    walk(&pass, aw__guard_hard, AW__GUARD_HARD);
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const int64_t at = pass.present[i] > 0 ? pass.present[i] : pass.amount[i];
        pass.home[i] = aw__larger(pass.room[i].low, aw__smaller(at, pass.room[i].high));
    }
    walk(&pass, aw__guard_soft, AW__GUARD_SOFT);

    uint32_t set = aw_plan_differs(pass.amount, pass.present) & ~pass.dropped;
    set = strike(&pass, set, pass.uncontrolled, AW_CLIP_UNCONTROLLED);
    if (pass.present[AW_RESOURCE_REPLICAS] == 0) /* as the HPA: zero replicas switch scaling off */
        set = strike(&pass, set, set, AW_CLIP_ZERO);
    plan_set(&ret_result->recommended, &pass, set);
    plan_set(&ret_result->plan, &pass, struck(&pass, set));
}

const char *aw_guard_clips_format(const struct aw_guard_result *result, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const char *before = text.len > 0 ? "; " : "";
        if (result->axis_clips[i] == 0)
            continue;
        aw_text_add(&text, "%s%s:", before, aw_resource_table[i].name);
        for (uint32_t clip = 0, more = 0; clip < AW_CLIP_COUNT; clip++)
            if (result->axis_clips[i] & AW_CLIP_BIT(clip))
                aw_text_add(&text, "%s %s", more++ ? "," : "", aw_clip_name(clip));
    }
    return buf;
}
