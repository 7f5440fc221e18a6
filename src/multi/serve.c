/* serve.c - steps without learning, and their figures. */
#include "multi/serve.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

static void carve(struct aw_serve *s, struct aw_carve *c)
{
    const size_t n = s->agents_max, rows = n * s->steps_max;
    s->p50 = aw_carve_take(c, rows, sizeof *s->p50);
    s->p99 = aw_carve_take(c, rows, sizeof *s->p99);
    s->rate = aw_carve_take(c, rows, sizeof *s->rate);
    s->kept = aw_carve_take(c, n, sizeof *s->kept);
    s->cores = aw_carve_take(c, n, sizeof *s->cores);
    s->use = aw_carve_take(c, n, sizeof *s->use);
    s->reward = aw_carve_take(c, n, sizeof *s->reward);
    s->lived = aw_carve_take(c, n, sizeof *s->lived);
    s->memory = aw_carve_take(c, n, sizeof *s->memory);
    s->scratch = aw_carve_take(c, n, sizeof *s->scratch);
    s->action = aw_carve_take(c, n, 1);
}

enum aw_err aw_serve_init(struct aw_serve *s, uint32_t agents_max, uint32_t steps_max,
                          const struct aw_alloc *alloc)
{
    *s = (struct aw_serve){.agents_max = agents_max, .steps_max = steps_max, .alloc = alloc};
    struct aw_carve sizing = {0};
    carve(s, &sizing);
    s->block = aw_alloc_new(alloc, sizing.used, 1);
    if (!s->block) {
        *s = (struct aw_serve){0};
        return AW_ERR_NOMEM;
    }
    carve(s, &(struct aw_carve){.base = s->block});
    aw_serve_begin(s);
    return AW_OK;
}

void aw_serve_deinit(struct aw_serve *s)
{
    if (s->block)
        aw_alloc_free(s->alloc, s->block);
    *s = (struct aw_serve){0};
}

void aw_serve_begin(struct aw_serve *s)
{
    const size_t n = s->agents_max;
    s->steps = 0;
    memset(s->rate, 0, n * s->steps_max * sizeof *s->rate);
    memset(s->kept, 0, n * sizeof *s->kept);
    memset(s->cores, 0, n * sizeof *s->cores);
    memset(s->use, 0, n * sizeof *s->use);
    memset(s->reward, 0, n * sizeof *s->reward);
    memset(s->lived, 0, n * sizeof *s->lived);
    memset(s->memory, 0, n * sizeof *s->memory);
}

static void record(struct aw_serve *s, const struct aw_team *t, uint32_t step, uint32_t only)
{
    const struct aw_multi_world *w = t->world;
    for (uint32_t i = 0; i < w->count; i++) {
        const size_t at = (size_t)step * s->agents_max + i;
        if (!w->here[i] || (only != AW_MULTI_NOWHERE && only != i))
            continue;
        s->p50[at] = w->p50_s[i];
        s->p99[at] = w->p99_s[i];
        s->rate[at] = w->rate[i];
        s->kept[i] += w->p99_s[i] <= w->slo_s[i];
        s->cores[i] += aw_multi_cores(w, i);
        s->use[i] += (double)w->cpu_use[i];
        s->reward[i] += (double)t->own[i];
        s->lived[i]++;
    }
}

void aw_serve_run(struct aw_serve *s, struct aw_team *t, const struct aw_serve_actor *actor,
                  uint32_t steps, uint32_t only)
{
    for (uint32_t k = 0; k < steps; k++) {
        if (actor->simppo) {
            aw_team_observe(t);
            aw_simppo_act(actor->simppo, actor->greedy, s->action);
            aw_team_step(t, s->action);
        } else {
            aw_rule_act(&actor->rule, s->memory, t);
            aw_team_step_set(t);
        }
        if (s->steps + k < s->steps_max)
            record(s, t, s->steps + k, only);
    }
    s->steps += steps;
}

void aw_serve_episodes(struct aw_serve *s, struct aw_team *t, const struct aw_serve_actor *actor,
                       uint32_t episodes, uint32_t steps, uint64_t seed, bool alone)
{
    aw_serve_begin(s);
    for (uint32_t k = 0; k < episodes; k++) {
        const uint32_t from = s->steps, worlds = alone ? t->world->settings.agents : 1;
        for (uint32_t a = 0; a < worlds; a++) {
            s->steps = from;
            memset(s->memory, 0, s->agents_max * sizeof *s->memory);
            if (alone)
                aw_multi_reset_alone(t->world, seed + k, a);
            else
                aw_multi_reset(t->world, seed + k);
            aw_team_begin(t);
            aw_serve_run(s, t, actor, steps, alone ? a : AW_MULTI_NOWHERE);
        }
    }
}

void aw_serve_figures(struct aw_serve *s, struct aw_serve_figures *ret)
{
    double sum = 0, square = 0;
    *ret = (struct aw_serve_figures){0};
    for (uint32_t i = 0; i < s->agents_max; i++) {
        if (s->lived[i] == 0)
            continue;
        const double kept = s->kept[i] / s->lived[i];
        ret->reward += s->reward[i] / s->lived[i];
        ret->missed += 1 - kept;
        ret->cores += s->cores[i] / s->lived[i];
        ret->use += s->use[i] / s->lived[i];
        s->scratch[ret->agents++] = kept;
        sum += kept;
        square += kept * kept;
    }
    const double n = ret->agents ? ret->agents : 1;
    ret->reward /= n;
    ret->missed /= n;
    ret->cores /= n;
    ret->use /= n;
    ret->jain = square > 0 ? sum * sum / (n * square) : 0;
    aw_stats_sort(s->scratch, ret->agents);
    ret->worst = ret->agents ? s->scratch[0] : 0;
    ret->fifth = ret->agents ? aw_stats_quantile(s->scratch, ret->agents, 0.05) : 0;
}

/* Share of requests that take longer than `x`. */
static double beyond(const struct aw_serve *s, uint32_t agent, double x)
{
    double late = 0, all = 0;
    const uint32_t steps = s->steps < s->steps_max ? s->steps : s->steps_max;
    for (uint32_t k = 0; k < steps; k++) {
        const size_t at = (size_t)k * s->agents_max + agent;
        const double rate = (double)s->rate[at], p50 = (double)s->p50[at], p99 = (double)s->p99[at];
        if (!(rate > 0))
            continue;
        const double deviation = fmax(1e-6, log(fmax(p99, p50 * 1.0001) / p50) / 2.326348);
        late += rate * 0.5 * erfc(log(x / p50) / deviation * M_SQRT1_2);
        all += rate;
    }
    return all > 0 ? late / all : NAN;
}

double aw_serve_p99(const struct aw_serve *s, uint32_t agent)
{
    double low = 1e-4, high = 1e3;
    if (isnan(beyond(s, agent, 1)))
        return NAN;
    for (uint32_t i = 0; i < 60; i++) {
        const double middle = sqrt(low * high);
        *(beyond(s, agent, middle) > 0.01 ? &low : &high) = middle;
    }
    return sqrt(low * high);
}
