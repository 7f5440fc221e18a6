/*
 * fuzz_profile.c - any bytes as a file of autoscalers: findings of one line each, or sound
 * profiles.
 *
 * What is in the set has no error: its bounds are bounds, its numbers finite, and the fallback that
 * it names can be made.
 */
#include "fuzz.h"

#include "profile/profile.h"

#include <math.h>
#include <string.h>

static void check_finding(void *ctx, const struct aw_profile_finding *finding)
{
    (void)ctx;
    check_refusal(&finding->diag, finding->err ? finding->err : AW_ERR_CONFIG);
    AW_ASSERT(!finding->err == (finding->warning != NULL));
}

static void check_profile(const struct aw_profile *profile)
{
    const struct aw_pilot_config *p = &profile->pilot;
    const struct aw_fallback_task task = {.bounds = p->bounds,
                                          .slo_latency_us = p->slo.latency_us_p99,
                                          .replicas = p->bounds.replicas_min,
                                          .cpu_millicores = p->bounds.cpu_millicores_min,
                                          .memory_bytes = p->bounds.memory_bytes_min};
    struct aw_fallback *policy = NULL;
    AW_ASSERT(profile->name[0] && profile->namespace[0] && profile->target_name[0] &&
              profile->place.line > 0);
    AW_ASSERT(aw_bounds_check(&p->bounds, NULL) == AW_OK);
    AW_ASSERT(aw_fallback_new(&p->fallback, &task, NULL, &policy, NULL) == AW_OK);
    aw_fallback_free(policy);
    AW_ASSERT(p->slo.latency_us_p99 >= 0 && p->slo.latency_us_p99 <= p->slo.timeout_us);
    AW_ASSERT(p->slo_budget >= 0 && p->slo_budget <= 1);
    AW_ASSERT(p->step_s >= 1 && p->episode_steps >= 2 && p->lifecycle.window >= 2);
    AW_ASSERT(!isinf(p->thresholds.online) && !isinf(p->thresholds.serving));
    AW_ASSERT(p->controlled & AW_PLAN_REPLICAS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct aw_profile_report report = {.take = check_finding};
    struct aw_profile_counts counts = {0};
    struct aw_profile_set set;
    struct aw_tree tree;
    aw_profile_set_init(&set, NULL);
    if (aw_tree_load(&tree, "input", (const char *)data, size, NULL, NULL) == AW_OK) {
        const enum aw_err err = aw_profile_set_add(&set, &tree, &report, &counts, NULL);
        AW_ASSERT(err == AW_OK || err == AW_ERR_NOMEM || err == AW_ERR_LIMIT);
        AW_ASSERT(err || (counts.errors == report.error_count &&
                          set.profile_count <= counts.profiles && set.app_count <= counts.apps));
        if (!err)
            AW_ASSERT((aw_profile_set_check(&set, &report, NULL) == AW_OK) ==
                      (report.error_count == 0));
        for (uint32_t i = 0; i < set.profile_count; i++)
            check_profile(&set.profiles[i]);
    }
    aw_tree_deinit(&tree);
    aw_profile_set_deinit(&set);
    return 0;
}
