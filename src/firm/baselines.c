/*
 * baselines.c - whom FIRM is compared with: Kubernetes' autoscaler (CPU use, replicas), AIMD on all
 * five limits of every service, and Autothrottle's Captain (NSDI'24; CPU limits by throttling).
 */
#include <math.h>
#include <string.h>

#include "firm/manager_internal.h"

#define HPA_SYNC      (15 * AW_GRAPH_S_NS / AW_FIRM_STEP_NS) /* steps */
#define CAPTAIN_STEPS (AW_GRAPH_S_NS / AW_FIRM_STEP_NS)
#define HPA_TOLERANCE 0.1
#define USES          5u

void aw__firm_hpa(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                  const struct aw_firm_sight *sight)
{
    for (uint32_t s = 0; s < manager->app->service_count; s++) {
        struct aw__firm_care *care = &manager->care[s];
        care->use_sum += sight->readings[s].use[AW_GRAPH_CPU];
        if (manager->steps % HPA_SYNC)
            continue;
        const double ratio = care->use_sum / (double)HPA_SYNC / manager->settings.hpa_target;
        const uint32_t current = desk->replicas[s];
        uint32_t wanted = current;
        care->use_sum = 0;
        if (fabs(ratio - 1) > HPA_TOLERANCE)
            wanted = (uint32_t)fmin(AW_GRAPH_SCALE_MAX, fmax(1, ceil(current * ratio)));
        care->wanted[care->wanted_at++ % AW__FIRM_HPA_HISTORY] = wanted;
        for (uint32_t i = 0; i < AW__FIRM_HPA_HISTORY && wanted < current; i++)
            wanted = care->wanted[i] > wanted ? care->wanted[i] : wanted;
        if (wanted < current && care->wanted_at < AW__FIRM_HPA_HISTORY)
            wanted = current; /* the window has not been looked over yet */
        (void)aw_firm_desk_scale(desk, s, wanted, false, "CPU use against its target");
    }
}

void aw__firm_aimd(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                   const struct aw_firm_sight *sight)
{
    for (uint32_t s = 0; s < manager->app->service_count; s++) {
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
            const double limit = desk->limit[s][r];
            const double start = manager->app->services[s].limit[r];
            double to = sight->missed ? limit + manager->settings.aimd_add * start
                                      : limit * (1 - manager->settings.aimd_cut);
            if (r != AW_GRAPH_CPU) /* below that every transfer takes longer: to its favour */
                to = fmax(to, start);
            (void)aw_firm_desk_limit(desk, s, (enum aw_graph_resource)r, to, false, false,
                                     sight->missed ? "the SLO is missed" : "the SLO holds");
        }
    }
}

/* Every second: throttling above three times its target raises the limit at once; else it shrinks
 * to what was used, plus a margin that throttling widens. */
void aw__firm_captain(struct aw_firm_manager *manager, struct aw_firm_desk *desk,
                      const struct aw_firm_sight *sight)
{
    const double target = manager->settings.captain_target;
    if (manager->steps % CAPTAIN_STEPS)
        return;
    for (uint32_t s = 0; s < manager->app->service_count; s++) {
        struct aw__firm_care *care = &manager->care[s];
        const struct aw_graph_reading *reading = &sight->readings[s];
        const double rate = reading->throttled, limit = desk->limit[s][AW_GRAPH_CPU];
        double most = 0, mean = 0, square = 0;
        if (care->use_at == 0)
            care->margin = 3;
        care->use[care->use_at++ % USES] =
            reading->use[AW_GRAPH_CPU] * reading->limit[AW_GRAPH_CPU];
        care->margin = fmax(0, care->margin + rate - target);
        for (uint32_t i = 0; i < USES; i++) {
            most = fmax(most, care->use[i]);
            mean += care->use[i] / USES;
        }
        for (uint32_t i = 0; i < USES; i++)
            square += (care->use[i] - mean) * (care->use[i] - mean) / USES;
        const double wanted = most + care->margin * sqrt(square);
        if (care->shrunk && rate > target) { /* taking was wrong */
            care->margin += rate - target;
            (void)aw_firm_desk_limit(desk, s, AW_GRAPH_CPU, care->limit_before, true, true,
                                     "throttled after it shrank");
            care->shrunk = false;
        } else if (rate > 3 * target) {
            (void)aw_firm_desk_limit(desk, s, AW_GRAPH_CPU, limit * (1 + rate - 3 * target), true,
                                     false, "throttled");
            care->shrunk = false;
        } else if (care->use_at >= USES && wanted <= 0.9 * limit) {
            care->limit_before = limit;
            care->shrunk = aw_firm_desk_limit(desk, s, AW_GRAPH_CPU, fmax(wanted, 0.5 * limit),
                                              false, false, "it uses less");
        } else {
            care->shrunk = false;
        }
    }
}
