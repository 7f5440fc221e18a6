/* adapt.c - the curve of one learner in one application, and its figures. */
#include "pretrain/adapt.h"

#include <math.h>

#include "base/clock.h"

static enum aw_err run(struct aw_pretrain *p, uint32_t episodes, struct aw_adapt_point *ret,
                       struct aw_pretrain_score *ret_fallback, struct aw_diag *diag)
{
    enum aw_err err = ret_fallback ? aw_pretrain_try_fallback(p, 0, ret_fallback, diag) : AW_OK;
    double cpu_s = 0;
    for (uint32_t e = 0; !err && e <= episodes; e++) {
        struct aw_adapt_point point = {0};
        const double from = aw_clock_thread_cpu_s();
        if (e > 0)
            err = aw_pretrain_round(p, &point.lived, diag);
        cpu_s += e > 0 ? aw_clock_thread_cpu_s() - from : 0;
        err = err ? err : aw_pretrain_try(p, 0, &point.judged, diag);
        point.cpu_s = cpu_s;
        ret[e] = point;
    }
    return err;
}

enum aw_err aw_adapt_run(const struct aw_pretrain_config *config, uint32_t episodes,
                         const struct aw_alloc *alloc, struct aw_adapt_point *ret,
                         struct aw_pretrain_score *ret_fallback, struct aw_diag *diag)
{
    if (config->learn.count != 1 || episodes > AW_ADAPT_EPISODES_MAX)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected one application and at most %u episodes, found %u and %u",
                       AW_ADAPT_EPISODES_MAX, config->learn.count, episodes);
    struct aw_pretrain *p = NULL;
    enum aw_err err = aw_pretrain_new(config, alloc, &p, diag);
    err = err ? err : run(p, episodes, ret, ret_fallback, diag);
    aw_pretrain_free(p);
    return err;
}

struct aw_pretrain_score aw_adapt_converged(const struct aw_adapt_point *point, uint32_t episodes)
{
    const uint32_t count = episodes + 1 < AW_ADAPT_TAIL ? episodes + 1 : AW_ADAPT_TAIL;
    struct aw_pretrain_score mean = {0};
    for (uint32_t e = episodes + 1 - count; e <= episodes; e++)
        aw_pretrain_score_add(&mean, &point[e].judged, 1.0 / count);
    return mean;
}

void aw_adapt_best(struct aw_pretrain_score *best, const struct aw_adapt_point *point,
                   uint32_t episodes)
{
    const struct aw_pretrain_score own = aw_adapt_converged(point, episodes);
    if (own.paper > best->paper)
        *best = own;
}

/* The first window of judged rewards that is good enough. */
static uint32_t reached(const struct aw_adapt_point *point, uint32_t episodes, double enough)
{
    for (uint32_t e = 0; e + AW_ADAPT_WINDOW <= episodes + 1; e++) {
        double mean = 0;
        for (uint32_t k = 0; k < AW_ADAPT_WINDOW; k++)
            mean += point[e + k].judged.paper / AW_ADAPT_WINDOW;
        if (mean >= enough)
            return e;
    }
    return episodes + 1;
}

static double below(double value, double reference)
{
    return reference > 0 ? fmax(0, 1 - value / reference) : 0;
}

static struct aw_adapt_lived lived_of(const struct aw_adapt_point *point, uint32_t episodes,
                                      const struct aw_pretrain_score *converged,
                                      uint32_t episode_steps)
{
    struct aw_adapt_lived sum = {0};
    for (uint32_t e = 1; e <= episodes; e++) {
        const struct aw_pretrain_score *lived = &point[e].lived;
        sum.violations += lived->violations * episode_steps;
        sum.violation_share += lived->violations / episodes;
        sum.cpu_deficit += below(lived->cpu, converged->cpu) / episodes;
        sum.memory_deficit += below(lived->memory, converged->memory) / episodes;
    }
    return sum;
}

struct aw_adapt_measure aw_adapt_measure(const struct aw_adapt_point *point, uint32_t episodes,
                                         const struct aw_pretrain_score *converged, double share,
                                         uint32_t way, uint32_t episode_steps)
{
    const uint32_t at = reached(point, episodes, (1 - share) * converged->paper);
    const uint32_t until = at > episodes ? episodes : at;
    return (struct aw_adapt_measure){
        .drop = 1 - point[0].judged.paper / converged->paper,
        .episodes = until,
        .never = at > episodes,
        .until = lived_of(point, until, converged, episode_steps),
        .way = lived_of(point, way < episodes ? way : episodes, converged, episode_steps),
        .cpu_s = point[until].cpu_s,
    };
}
