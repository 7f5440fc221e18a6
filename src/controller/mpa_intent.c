/* mpa_intent.c - see mpa_intent.h. */
#include "controller/mpa_intent.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
#define FIELD(kind, member, path, absent) \
    {path, AW_KUBE_FIELD_##kind, offsetof(struct aw__mpa_intent, member), absent, NULL, 0}

const struct aw_kube_field aw__mpa_intent_fields[] = {
    FIELD(TEXT,    target_version,  "spec.scaleTargetRef.apiVersion", 0),
    FIELD(TEXT,    target_kind,     "spec.scaleTargetRef.kind", 0),
    FIELD(TEXT,    target_name,     "spec.scaleTargetRef.name", 0),
    FIELD(TEXT,    mode_text,       "spec.policy.updateMode", 0),
    FIELD(INTEGER, replicas_min,    "spec.constraints.global.minReplicas", 1),
    FIELD(INTEGER, replicas_max,    "spec.constraints.global.maxReplicas", 0),
    FIELD(INTEGER, generation,      "metadata.generation", 0),
    FIELD(INTEGER, generation_seen, "status.observedGeneration", 0),
    FIELD(INTEGER, replicas,        "status.recommendation.replicas", -1),
    FIELD(CPU,     cpu_millicores,  "status.recommendation.cpu", -1),
    FIELD(BYTES,   memory_bytes,    "status.recommendation.memory", -1),
    FIELD(TIME,    time_us,         "status.recommendation.time", 0),
    FIELD(TEXT,    container,       "status.recommendation.container", 0),
    FIELD(TEXT,    decision,        "status.recommendation.decision", 0),
    FIELD(FLAG,    frozen,          "status.conditions[type=Frozen].status", 0),
    FIELD(TEXT,    able,            "status.conditions[type=AbleToScale].status", 0),
    FIELD(TEXT,    able_reason,     "status.conditions[type=AbleToScale].reason", 0),
    {NULL, AW_KUBE_FIELD_TEXT, 0, 0, NULL, 0},
};

static const struct {
    const char *text;
    bool updates, admits;
} modes[AW__MPA_INTENT_MODES] = {
    [AW__MPA_INTENT_OFF]      = {"Off",               false, false},
    [AW__MPA_INTENT_INITIAL]  = {"Initial",           false, true},
    [AW__MPA_INTENT_AUTO]     = {"Auto",              true,  true},
    [AW__MPA_INTENT_RECREATE] = {"Recreate",          true,  true},
    [AW__MPA_INTENT_IN_PLACE] = {"InPlaceOrRecreate", true,  true},
    [AW__MPA_INTENT_APPROVE]  = {"Approve",           true,  true},
};
/* clang-format on */

enum aw_err aw__mpa_intent_project(void *ctx, const json_t *object, void *buf, size_t size,
                                   size_t *ret_len)
{
    (void)ctx;
    return aw_kube_project(aw__mpa_intent_fields, sizeof(struct aw__mpa_intent), object, buf, size,
                           ret_len);
}

enum aw__mpa_intent_mode aw__mpa_intent_mode(const struct aw__mpa_intent *intent)
{
    const char *text = aw_kube_span_text(intent, intent->mode_text);
    for (int i = 0; i < AW__MPA_INTENT_MODES; i++)
        if (!strcmp(text, modes[i].text))
            return (enum aw__mpa_intent_mode)i;
    return AW__MPA_INTENT_OFF;
}

bool aw__mpa_intent_updates(enum aw__mpa_intent_mode mode)
{
    return modes[mode].updates;
}

bool aw__mpa_intent_admits(enum aw__mpa_intent_mode mode)
{
    return modes[mode].admits;
}

const char *aw__mpa_intent_target_kind(const struct aw__mpa_intent *intent)
{
    const char *kind = aw_kube_span_text(intent, intent->target_kind);
    return kind[0] ? kind : aw_kube_deployments.kind;
}

const char *aw__target_key(const char *ns, const char *api_version, const char *kind,
                           const char *name, char *buf, size_t size)
{
    const char *slash = strchr(api_version, '/');
    int group_len = slash ? (int)(slash - api_version) : 0; /* "v1" is the core group */
    if (!api_version[0]) {
        api_version = aw_kube_deployments.group;
        group_len = (int)strlen(api_version);
    }
    snprintf(buf, size, "%s/%.*s/%s/%s", ns, group_len, api_version, kind, name);
    return buf;
}

const char *aw__mpa_intent_target(const struct aw__mpa_intent *intent, const char *ns, char *buf,
                                  size_t size)
{
    return aw__target_key(ns, aw_kube_span_text(intent, intent->target_version),
                          aw__mpa_intent_target_kind(intent),
                          aw_kube_span_text(intent, intent->target_name), buf, size);
}
