/* team.c - what agents of one cluster see, do and get. */
#include "multi/team.h"

#include <math.h>
#include <string.h>

#include "base/leave_one_out.h"

#define FORBIDDEN (-1e9f)
#define SMOOTH    0.5f /* of a new rate in what staffing sees */

void aw_team_settings_init(struct aw_team_settings *settings, bool paper)
{
    *settings = (struct aw_team_settings){.actions = paper ? AW_TEAM_STEPS : AW_TEAM_ANCHORED,
                                          .paper = paper,
                                          .alpha = paper ? 0.3 : 0.7,
                                          .team_weight = paper ? 1 : 0.25};
}

static void carve(struct aw_team *t, struct aw_carve *c)
{
    const size_t n = t->world->settings.agents_max;
    t->local = aw_carve_take(c, n * AW_TEAM_LOCAL, sizeof(float));
    t->aux = aw_carve_take(c, n * AW_TEAM_AUX, sizeof(float));
    t->figures = aw_carve_take(c, n * AW_TEAM_FIGURES, sizeof(float));
    t->mask = aw_carve_take(c, n * t->action_count, sizeof(float));
    t->own = aw_carve_take(c, n, sizeof(float));
    t->reward = aw_carve_take(c, n, sizeof(float));
    t->vertical = aw_carve_take(c, n, sizeof(float));
    t->horizontal = aw_carve_take(c, n, sizeof(float));
    t->smooth = aw_carve_take(c, n, sizeof(float));
    t->last = aw_carve_take(c, n, 1);
    t->caused = aw_carve_take(c, n, sizeof(float));
    t->saved = aw_carve_take(
        c, t->settings.difference ? sizeof *t->world + aw_multi_bytes(t->world) : 0, 1);
}

enum aw_err aw_team_init(struct aw_team *t, struct aw_multi_world *world,
                         const struct aw_team_settings *settings, const struct aw_alloc *alloc)
{
    *t = (struct aw_team){.settings = *settings,
                          .world = world,
                          .alloc = alloc,
                          .action_count = settings->actions == AW_TEAM_STEPS
                                              ? AW_TEAM_STEPS_COUNT
                                              : AW_TEAM_ANCHORED_COUNT};
    struct aw_carve sizing = {0};
    carve(t, &sizing);
    t->block = aw_alloc_new(alloc, sizing.used, 1);
    if (!t->block) {
        *t = (struct aw_team){0};
        return AW_ERR_NOMEM;
    }
    carve(t, &(struct aw_carve){.base = t->block});
    aw_team_begin(t);
    return AW_OK;
}

void aw_team_deinit(struct aw_team *t)
{
    if (t->block)
        aw_alloc_free(t->alloc, t->block);
    *t = (struct aw_team){0};
}

void aw_team_join(struct aw_team *t, uint32_t i)
{
    t->vertical[i] = t->horizontal[i] = t->own[i] = t->reward[i] = 0;
    t->last[i] = 0;
    t->smooth[i] = t->world->rate[i];
}

void aw_team_begin(struct aw_team *t)
{
    for (uint32_t i = 0; i < t->world->settings.agents_max; i++)
        aw_team_join(t, i);
    t->team = 0;
}

/* --- what is seen ----------------------------------------------------------------------------- */

static float preserved(const struct aw_multi_world *w, uint32_t i)
{
    return w->rate[i] > 0 && w->p99_s[i] > w->slo_s[i] ? w->slo_s[i] / w->p99_s[i] : 1;
}

static void local_of(struct aw_team *t, uint32_t i)
{
    const struct aw_multi_world *w = t->world;
    const struct aw_multi_function *f = &aw_multi_functions[w->kind[i]];
    const float most = fmaxf(w->rate[i], w->rate_before[i]);
    const float busy = w->rate[i] * (f->cpu_s + f->wait_s);
    float *x = t->local + (size_t)i * AW_TEAM_LOCAL;
    x[0] = preserved(w, i);
    x[1] = w->cpu_use[i];
    x[2] = w->memory_use[i];
    x[3] = most > 0 ? (w->rate[i] - w->rate_before[i]) / most : 0;
    x[4] = (float)w->shares[i] / AW_MULTI_SHARES_MAX;
    x[5] = f->memory_mib / 1024;
    x[6] = (float)w->containers[i] / AW_MULTI_CONTAINERS_MAX;
    memset(x + 7, 0, (AW_TEAM_LOCAL - 7) * sizeof *x);
    if (t->settings.paper)
        return;
    x[7] = busy / AW_MULTI_CONTAINERS_MAX;
    x[8] = fminf(2, w->pressure[i]);
    x[9] = fminf(1, w->backlog[i] / (w->rate[i] * (float)w->settings.step_s + 1));
    x[10] = logf(fmaxf(0.1f, fminf(10, w->p99_s[i] / w->slo_s[i])));
    x[11] = (float)(w->wanted[i] - w->containers[i]) / AW_MULTI_CONTAINERS_MAX;
}

/* Limits of CPU and memory of all its containers as shares of a node; actions as carried out; SLO
 * preservation; utilization. */
static void figures_of(struct aw_team *t, uint32_t i)
{
    const struct aw_multi_world *w = t->world;
    const float memory = aw_multi_functions[w->kind[i]].memory_mib;
    float *x = t->figures + (size_t)i * AW_TEAM_FIGURES;
    x[0] = (float)(aw_multi_cores(w, i) / w->settings.node_cores);
    x[1] = (float)w->containers[i] * memory / ((float)w->settings.node_memory_gib * 1024);
    x[2] = t->vertical[i];
    x[3] = t->horizontal[i];
    x[4] = preserved(w, i);
    x[5] = 0.5f * (w->cpu_use[i] + w->memory_use[i]);
}

static void mask_of(struct aw_team *t, uint32_t i)
{
    const struct aw_multi_world *w = t->world;
    float *mask = t->mask + (size_t)i * t->action_count;
    memset(mask, 0, t->action_count * sizeof *mask);
    if (t->settings.actions != AW_TEAM_STEPS || t->settings.paper) /* the paper punishes instead */
        return;
    mask[1] = w->wanted[i] >= AW_MULTI_CONTAINERS_MAX ? FORBIDDEN : 0;
    mask[2] = w->wanted[i] == 0 ? FORBIDDEN : 0;
    mask[3] = w->wanted[i] == 0 || w->shares[i] >= AW_MULTI_SHARES_MAX ? FORBIDDEN : 0;
    mask[4] = w->wanted[i] == 0 || w->shares[i] <= AW_MULTI_SHARES_MIN ? FORBIDDEN : 0;
}

void aw_team_observe(struct aw_team *t)
{
    const struct aw_multi_world *w = t->world;
    if (t->drive)
        t->drive->observe(t->drive->ctx, t);
    for (uint32_t i = 0; i < w->count && !t->drive; i++) {
        if (!w->here[i]) {
            memset(t->local + (size_t)i * AW_TEAM_LOCAL, 0, AW_TEAM_LOCAL * sizeof(float));
            continue;
        }
        local_of(t, i);
        figures_of(t, i);
        mask_of(t, i);
    }
    aw_leave_one_out(t->figures, w->here, w->count, AW_TEAM_FIGURES, t->aux);
}

/* --- what is done ----------------------------------------------------------------------------- */

uint32_t aw_team_staffing(const struct aw_team *t, uint32_t i, double c)
{
    const struct aw_multi_function *f = &aw_multi_functions[t->world->kind[i]];
    const double busy = (double)t->smooth[i] * ((double)f->cpu_s + (double)f->wait_s);
    const double k = ceil(busy + c * sqrt(busy));
    return (uint32_t)fmin(fmax(1, k), AW_MULTI_CONTAINERS_MAX);
}

/* Returns whether the action is legal. */
static bool act_step(struct aw_team *t, uint32_t i, uint8_t action)
{
    struct aw_multi_world *w = t->world;
    uint32_t containers = w->wanted[i], shares = w->shares[i];
    const bool none = containers == 0;
    switch (action) {
    case 1:
        if (containers >= AW_MULTI_CONTAINERS_MAX)
            return false;
        containers++;
        break;
    case 2:
        if (none)
            return false;
        containers--;
        break;
    case 3:
        if (none || shares >= AW_MULTI_SHARES_MAX)
            return false;
        shares += AW_MULTI_SHARES_STEP;
        break;
    case 4:
        if (none || shares <= AW_MULTI_SHARES_MIN)
            return false;
        shares -= AW_MULTI_SHARES_STEP;
        break;
    default:
        return true;
    }
    aw_multi_set(w, i, containers, shares);
    return true;
}

static void act_anchored(struct aw_team *t, uint32_t i, uint8_t action)
{
    static const double factor[4] = {1, 2, 3, 4.5};
    aw_multi_set(t->world, i, aw_team_staffing(t, i, factor[action % 4]), action < 4 ? 512 : 1024);
}

static float own_reward(const struct aw_team *t, uint32_t i)
{
    const struct aw_multi_world *w = t->world;
    const float alpha = (float)t->settings.alpha, kept = preserved(w, i);
    if (t->settings.paper)
        return alpha * kept + 0.5f * (1 - alpha) * (w->cpu_use[i] + w->memory_use[i]);
    return alpha * kept + (1 - alpha) * w->cpu_use[i];
}

static void settle(struct aw_team *t)
{
    const struct aw_multi_world *w = t->world;
    double sum = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->here[i])
            continue;
        t->smooth[i] += SMOOTH * (w->rate[i] - t->smooth[i]);
        sum += (double)t->own[i];
    }
    t->team = w->live ? sum / w->live : 0;
    const float part = (float)t->settings.team_weight;
    for (uint32_t i = 0; i < w->count; i++)
        t->reward[i] = (1 - part) * t->own[i] + part * (float)t->team +
                       (t->settings.difference ? t->caused[i] : 0);
}

void aw_team_act(struct aw_team *t, const uint8_t *action)
{
    static const uint8_t undoes[AW_TEAM_STEPS_COUNT] = {UINT8_MAX, 2, 1, 4, 3};
    struct aw_multi_world *w = t->world;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->here[i])
            continue;
        if (action[i] == AW_TEAM_HOLD) {
            t->horizontal[i] = t->vertical[i] = t->own[i] = 0;
            continue;
        }
        const int before = w->wanted[i], shares = w->shares[i];
        bool punished = false;
        if (t->settings.actions == AW_TEAM_STEPS) {
            punished = !act_step(t, i, action[i]) || undoes[action[i]] == t->last[i];
            t->last[i] = action[i];
        } else {
            act_anchored(t, i, action[i]);
        }
        t->horizontal[i] = (float)(w->wanted[i] - before) / 4;
        t->vertical[i] = (float)(w->shares[i] - shares) / 512;
        t->own[i] = punished && t->settings.paper ? -1 : 0;
    }
}

static double own_of_others(const struct aw_team *t, uint32_t i)
{
    double sum = 0;
    for (uint32_t k = 0; k < t->world->count; k++)
        sum += k != i && t->world->here[k] ? (double)own_reward(t, k) : 0;
    return sum;
}

/* The step with each agent at its least in turn, under the same chance. */
static void without_each(struct aw_team *t)
{
    struct aw_multi_world *w = t->world;
    aw_multi_save(w, t->saved);
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->here[i])
            continue;
        aw_multi_set(w, i, aw_team_staffing(t, i, 1), AW_MULTI_SHARES_MAX / 4);
        aw_multi_step(w);
        t->caused[i] = -(float)own_of_others(t, i);
        aw_multi_restore(w, t->saved);
    }
}

void aw_team_finish(struct aw_team *t)
{
    struct aw_multi_world *w = t->world;
    if (t->settings.difference)
        without_each(t);
    aw_multi_step(w);
    for (uint32_t i = 0; i < w->count && t->settings.difference; i++)
        t->caused[i] += w->here[i] ? (float)own_of_others(t, i) : 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->here[i])
            t->own[i] += own_reward(t, i);
    settle(t);
}

void aw_team_step(struct aw_team *t, const uint8_t *action)
{
    if (t->drive) {
        t->drive->step(t->drive->ctx, t, action);
        settle(t);
        return;
    }
    aw_team_act(t, action);
    aw_team_finish(t);
}

void aw_team_step_set(struct aw_team *t)
{
    for (uint32_t i = 0; i < t->world->count; i++)
        t->own[i] = 0;
    aw_team_finish(t);
}
