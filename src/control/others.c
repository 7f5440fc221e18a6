/* others.c - all workloads of a loop as each one's others. */
#include "control/others.h"

#include <math.h>
#include <string.h>

#include "base/leave_one_out.h"
#include "control/loop_internal.h"

const char *const aw_others_names[AW_OTHERS_DIM] = {
    "cpu_mean",           "memory_mean",
    "vertical_mean",      "horizontal_mean",
    "kept_mean",          "use_mean",
    "cpu_deviation",      "memory_deviation",
    "vertical_deviation", "horizontal_deviation",
    "kept_deviation",     "use_deviation",
};

enum aw_err aw__others_make(struct aw_loop *loop)
{
    struct aw__others *o = &loop->others;
    if (!loop->exchange)
        return AW_OK;
    o->figures = aw_alloc_new(loop->alloc, loop->max, AW_OTHERS_FIGURES * sizeof *o->figures);
    o->global = aw_alloc_new(loop->alloc, loop->max, AW_OTHERS_DIM * sizeof *o->global);
    o->here = aw_alloc_new(loop->alloc, loop->max, sizeof *o->here);
    o->who = aw_alloc_new(loop->alloc, loop->max, sizeof *o->who);
    return o->figures && o->global && o->here && o->who ? AW_OK : AW_ERR_NOMEM;
}

void aw__others_free(struct aw_loop *loop)
{
    aw_alloc_free(loop->alloc, loop->others.who);
    aw_alloc_free(loop->alloc, loop->others.here);
    aw_alloc_free(loop->alloc, loop->others.global);
    aw_alloc_free(loop->alloc, loop->others.figures);
}

void aw__others_gather(struct aw_loop *loop)
{
    struct aw__others *o = &loop->others;
    bool changed = o->epoch == 0;
    double reward = 0;
    uint32_t finished = 0;
    o->members = 0;
    for (uint32_t i = 0; i < loop->count; i++) {
        const struct aw_pilot *pilot = loop->slot[i].pilot;
        const uint64_t who = pilot ? loop->slot[i].serial : 0;
        float own;
        o->here[i] = pilot != NULL;
        o->members += pilot != NULL;
        const bool stayed = who != 0 && who == o->who[i];
        changed |= who != o->who[i];
        o->who[i] = who;
        if (pilot && aw__pilot_figures(pilot, o->figures + (size_t)i * AW_OTHERS_FIGURES, &own) &&
            stayed) {
            reward += (double)own;
            finished++;
        }
    }
    if (changed)
        o->epoch = aw_agent_exchange_epoch(loop->exchange);
    o->has_reward = finished > 0;
    o->reward = finished ? (float)(reward / finished) : 0;
    aw_leave_one_out(o->figures, o->here, loop->count, AW_OTHERS_FIGURES, o->global);
}

void aw__others_view(const struct aw_loop *loop, uint32_t index, struct aw_others_view *ret)
{
    const struct aw__others *o = &loop->others;
    *ret = (struct aw_others_view){.epoch = o->epoch,
                                   .members = o->members,
                                   .has_reward = o->has_reward,
                                   .team_reward = o->reward};
    memcpy(ret->global, o->global + (size_t)index * AW_OTHERS_DIM, sizeof ret->global);
}
