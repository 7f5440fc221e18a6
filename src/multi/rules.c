/* rules.c - staffing, ENSURE, KPA, HPA. */
#include "multi/rules.h"

#include <math.h>

const char *const aw_rule_names[] = {"staffing", "ensure", "kpa", "hpa", NULL};

#define STABLE_S 60.0
#define DOWN_S   300.0 /* the HPA's stabilisation window */

static uint32_t bounded(double containers)
{
    return (uint32_t)fmin(fmax(1, ceil(containers)), AW_MULTI_CONTAINERS_MAX);
}

static void act_ensure(const struct aw_rule *rule, struct aw_rule_memory *m, struct aw_team *t,
                       uint32_t i)
{
    struct aw_multi_world *w = t->world;
    uint32_t containers = aw_team_staffing(t, i, rule->parameter), shares = w->shares[i];
    if (w->p99_s[i] > 0 && (m->best_s <= 0 || w->p99_s[i] < m->best_s))
        m->best_s = w->p99_s[i];
    if (containers + 1 < w->wanted[i]) /* the rest times out, one after the other */
        containers = w->wanted[i] - 1u;
    if ((double)w->p99_s[i] > rule->threshold * (double)m->best_s)
        shares += AW_MULTI_SHARES_STEP;
    else if (shares > AW_MULTI_SHARES_MIN &&
             (double)w->p99_s[i] < 0.5 * (1 + rule->threshold) * (double)m->best_s)
        shares -= AW_MULTI_SHARES_STEP;
    aw_multi_set(w, i, containers, shares);
}

static void act_kpa(const struct aw_rule *rule, struct aw_rule_memory *m, struct aw_team *t,
                    uint32_t i)
{
    struct aw_multi_world *w = t->world;
    const float now = w->busy[i] * (float)w->containers[i] + w->backlog[i];
    const float pace = (float)fmin(1, w->settings.step_s / STABLE_S);
    m->concurrency = m->concurrency > 0 ? m->concurrency + pace * (now - m->concurrency) : now;
    const uint32_t stable = bounded((double)m->concurrency / rule->parameter);
    const uint32_t panic = bounded((double)now / rule->parameter);
    if (panic >= 2u * w->wanted[i])
        m->hold = (uint16_t)(STABLE_S / w->settings.step_s);
    const uint32_t containers = m->hold ? (panic > w->wanted[i] ? panic : w->wanted[i]) : stable;
    m->hold -= m->hold > 0;
    aw_multi_set(w, i, containers, rule->shares);
}

static void act_hpa(const struct aw_rule *rule, struct aw_rule_memory *m, struct aw_team *t,
                    uint32_t i)
{
    struct aw_multi_world *w = t->world;
    const double ratio = (double)w->cpu_use[i] / rule->parameter;
    const uint32_t wants = fabs(ratio - 1) <= 0.1 ? w->wanted[i] : bounded(ratio * w->wanted[i]);
    if (wants >= w->wanted[i])
        m->hold = (uint16_t)(DOWN_S / w->settings.step_s);
    else if (m->hold > 0)
        m->hold--;
    aw_multi_set(w, i, wants < w->wanted[i] && m->hold ? w->wanted[i] : wants, rule->shares);
}

void aw_rule_act(const struct aw_rule *rule, struct aw_rule_memory *memory, struct aw_team *t)
{
    struct aw_multi_world *w = t->world;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->here[i])
            continue;
        switch ((enum aw_rule_kind)rule->kind) {
        case AW_RULE_ENSURE:
            act_ensure(rule, &memory[i], t, i);
            break;
        case AW_RULE_KPA:
            act_kpa(rule, &memory[i], t, i);
            break;
        case AW_RULE_HPA:
            act_hpa(rule, &memory[i], t, i);
            break;
        default:
            aw_multi_set(
                w, i, aw_team_staffing(t, i, rule->each ? (double)rule->each[i] : rule->parameter),
                rule->shares);
        }
    }
}
