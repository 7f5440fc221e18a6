/* profile_testing.h - what the tests of profiles share: texts, and an ear for findings. */
#ifndef AW_PROFILE_PROFILE_TESTING_H
#define AW_PROFILE_PROFILE_TESTING_H

#include "base/testing.h"
#include "profile/profile.h"

#include <string.h>

#define HEAD         "apiVersion: autoscaling.aware.dev/v1alpha1\n"
#define MPA          HEAD "kind: MultidimPodAutoscaler\n"
#define NAMED(name)  "metadata: {name: " name "}\nspec:\n  scaleTargetRef: {name: " name "}\n"
#define BOUNDS       "  constraints: {global: {maxReplicas: 9}}\n"
#define SLO          "  goals: {slo: {latency: {target: 200ms}}}\n"
#define CART         MPA NAMED("cart") /* four lines before what follows begins on line 6 */
#define APP(name)    HEAD "kind: SimulatedApplication\nmetadata: {name: " name "}\n"
#define CLUSTER      HEAD "kind: SimulatedCluster\nmetadata: {name: c}\n"
#define FINDINGS_MAX 64u

struct heard {
    struct aw_profile_report report;
    uint32_t count;
    struct aw_profile_finding finding[FINDINGS_MAX];
};

static inline void hear(void *ctx, const struct aw_profile_finding *finding)
{
    struct heard *heard = ctx;
    assert_true(heard->count < FINDINGS_MAX);
    heard->finding[heard->count++] = *finding;
}

static inline void heard_init(struct heard *heard)
{
    *heard = (struct heard){.report = {.take = hear}};
    heard->report.ctx = heard;
}

/* Adds a text and judges the whole; the set is the caller's. */
static inline enum aw_err read_text(struct aw_profile_set *set, const char *text,
                                    struct heard *heard, const struct aw_alloc *alloc)
{
    struct aw_tree tree;
    aw_profile_set_init(set, alloc);
    heard_init(heard);
    enum aw_err err = aw_tree_load(&tree, "f.yaml", text, strlen(text), alloc, NULL);
    if (!err)
        err = aw_profile_set_add(set, &tree, &heard->report, NULL, NULL);
    aw_tree_deinit(&tree);
    if (!err)
        err = aw_profile_set_check(set, &heard->report, NULL);
    return err;
}

static inline struct aw_profile_set read_sound(const char *text)
{
    struct aw_profile_set set;
    static struct heard heard;
    const enum aw_err err = read_text(&set, text, &heard, NULL);
    for (uint32_t i = 0; i < heard.count; i++) {
        if (heard.finding[i].err)
            fail_msg("%u:%u %s: %s", heard.finding[i].diag.line, heard.finding[i].diag.column,
                     heard.finding[i].diag.key, heard.finding[i].diag.text);
    }
    assert_ok(err);
    return set;
}

#endif
