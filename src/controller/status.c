/* status.c - the status of a MultidimPodAutoscaler, as a struct and as the object has it. */
#include "controller/status.h"

#include "base/quantity.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct aw_kube_kind aw_mpa_kind = {.group = "autoscaling.aware.dev",
                                         .version = "v1alpha1",
                                         .plural = "multidimpodautoscalers",
                                         .kind = "MultidimPodAutoscaler",
                                         .namespaced = true};

static const char *const condition_names[] = {
#define X(id, type, means) [AW_MPA_##id] = type,
    AW_MPA_CONDITION_MAP(X)
#undef X
};
static const char *const holds_names[] = {[AW_MPA_ABSENT] = "",
                                          [AW_MPA_FALSE] = "False",
                                          [AW_MPA_TRUE] = "True",
                                          [AW_MPA_UNKNOWN] = "Unknown"};

void aw_mpa_status_init(struct aw_mpa_status *status)
{
    *status = (struct aw_mpa_status){.replicas = -1};
}

/* --- reading ---------------------------------------------------------------------------------- */

static void text_read(const json_t *value, const char *path, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "%s", aw_kube_text_at(value, path));
    buf[aw_text_utf8_bad(buf, text.len)] = '\0'; /* a character that was cut in two is none */
}

static int64_t time_read(const json_t *value, const char *path)
{
    int64_t us = 0;
    const enum aw_err err = aw_kube_time_parse(aw_kube_text_at(value, path), &us);
    return err ? 0 : us;
}

/* A recommendation without one of its amounts is none. */
static void recommendation_read(const json_t *value, struct aw_mpa_recommendation *ret)
{
    struct aw_mpa_recommendation r = {0};
    const int64_t replicas = aw_kube_int_at(value, "replicas", -1);
    const char *cpu = aw_kube_text_at(value, "cpu"), *memory = aw_kube_text_at(value, "memory");
    if (replicas < 0 || replicas > INT32_MAX ||
        aw_quantity_parse_cpu(cpu, &r.cpu_millicores, NULL) ||
        aw_quantity_parse_memory(memory, &r.memory_bytes, NULL))
        return;
    r.given = true;
    r.replicas = (int32_t)replicas;
    text_read(value, "container", r.container, sizeof r.container);
    text_read(value, "decision", r.decision, sizeof r.decision);
    r.at_us = time_read(value, "time");
    *ret = r;
}

static void condition_read(const json_t *item, struct aw_mpa_status *status)
{
    const char *type = aw_kube_text_at(item, "type"), *holds = aw_kube_text_at(item, "status");
    for (uint32_t i = 0; i < AW_MPA_CONDITION_COUNT; i++) {
        struct aw_mpa_condition *c = &status->condition[i];
        if (strcmp(type, condition_names[i]) != 0)
            continue;
        *c = (struct aw_mpa_condition){0};
        for (uint32_t h = AW_MPA_FALSE; h <= AW_MPA_UNKNOWN; h++)
            if (!strcmp(holds, holds_names[h]))
                c->holds = (enum aw_mpa_holds)h;
        if (c->holds == AW_MPA_ABSENT)
            return;
        text_read(item, "reason", c->reason, sizeof c->reason);
        text_read(item, "message", c->message, sizeof c->message);
        c->changed_us = time_read(item, "lastTransitionTime");
        c->generation = aw_kube_int_at(item, "observedGeneration", 0);
    }
}

void aw_mpa_status_read(const json_t *object, struct aw_mpa_status *ret)
{
    const json_t *inside = json_object_get(object, "status");
    const json_t *value = inside ? inside : object;
    const json_t *item;
    size_t i;
    aw_mpa_status_init(ret);
    ret->generation = aw_kube_int_at(value, "observedGeneration", 0);
    text_read(value, "mode", ret->mode, sizeof ret->mode);
    text_read(value, "stage", ret->stage, sizeof ret->stage);
    const int64_t replicas = aw_kube_int_at(value, "replicas", -1);
    ret->replicas = replicas >= 0 && replicas <= INT32_MAX ? (int32_t)replicas : -1;
    text_read(value, "slo", ret->slo, sizeof ret->slo);
    text_read(value, "lastDecision.id", ret->last.id, sizeof ret->last.id);
    text_read(value, "lastDecision.actor", ret->last.actor, sizeof ret->last.actor);
    text_read(value, "lastDecision.reason", ret->last.reason, sizeof ret->last.reason);
    text_read(value, "lastDecision.message", ret->last.message, sizeof ret->last.message);
    ret->last.at_us = time_read(value, "lastDecision.time");
    recommendation_read(json_object_get(value, "recommendation"), &ret->recommendation);
    json_array_foreach(json_object_get(value, "conditions"), i, item)
    {
        condition_read(item, ret);
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

/* Whole seconds, as every time of a status has them. */
static json_t *time_json(int64_t us)
{
    char buf[AW_KUBE_TIME_MAX];
    if (us <= 0)
        return json_null();
    aw_kube_time_print(us - us % 1000000, buf, sizeof buf);
    char *dot = strchr(buf, '.');
    if (dot)
        memcpy(dot, "Z", 2);
    return json_string(buf);
}

static json_t *recommendation_json(const struct aw_mpa_recommendation *r)
{
    char cpu[AW_QUANTITY_TEXT_MAX], memory[AW_QUANTITY_TEXT_MAX];
    if (!r->given)
        return json_null();
    aw_quantity_print_cpu(r->cpu_millicores, AW_QUANTITY_MILLI, cpu, sizeof cpu);
    aw_quantity_print_memory(r->memory_bytes, memory, sizeof memory);
    json_t *value = json_object();
    json_object_set_new(value, "replicas", json_integer(r->replicas));
    json_object_set_new(value, "cpu", json_string(cpu));
    json_object_set_new(value, "memory", json_string(memory));
    json_object_set_new(value, "container", text_or_null(r->container));
    json_object_set_new(value, "decision", text_or_null(r->decision));
    json_object_set_new(value, "time", time_json(r->at_us));
    return value;
}

static json_t *last_json(const struct aw_mpa_status *status)
{
    if (!*status->last.id)
        return json_null();
    json_t *value = json_object();
    json_object_set_new(value, "id", json_string(status->last.id));
    json_object_set_new(value, "time", time_json(status->last.at_us));
    json_object_set_new(value, "actor", text_or_null(status->last.actor));
    json_object_set_new(value, "reason", text_or_null(status->last.reason));
    json_object_set_new(value, "message", text_or_null(status->last.message));
    return value;
}

static json_t *conditions_json(const struct aw_mpa_status *status)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < AW_MPA_CONDITION_COUNT; i++) {
        const struct aw_mpa_condition *c = &status->condition[i];
        if (c->holds == AW_MPA_ABSENT)
            continue;
        json_t *item = json_object();
        json_object_set_new(item, "type", json_string(condition_names[i]));
        json_object_set_new(item, "status", json_string(holds_names[c->holds]));
        json_object_set_new(item, "reason", json_string(c->reason));
        json_object_set_new(item, "message", json_string(c->message));
        json_object_set_new(item, "lastTransitionTime", time_json(c->changed_us));
        json_object_set_new(item, "observedGeneration", json_integer(c->generation));
        json_array_append_new(list, item);
    }
    return list;
}

json_t *aw_mpa_status_json(const struct aw_mpa_status *status)
{
    json_t *value = json_object();
    int failed = !value;
    failed |= json_object_set_new(value, "observedGeneration", json_integer(status->generation));
    failed |= json_object_set_new(value, "mode", text_or_null(status->mode));
    failed |= json_object_set_new(value, "stage", text_or_null(status->stage));
    failed |= json_object_set_new(
        value, "replicas", status->replicas < 0 ? json_null() : json_integer(status->replicas));
    failed |=
        json_object_set_new(value, "recommendation", recommendation_json(&status->recommendation));
    failed |= json_object_set_new(value, "slo", text_or_null(status->slo));
    failed |= json_object_set_new(value, "lastDecision", last_json(status));
    failed |= json_object_set_new(value, "conditions", conditions_json(status));
    if (!failed)
        return value;
    json_decref(value);
    return NULL;
}

/* --- packed ----------------------------------------------------------------------------------- */

/* One walk over the members goes both ways. */
struct walk {
    unsigned char *to;         /* NULL: only counted */
    const unsigned char *from; /* not NULL: members are read */
    size_t at, max;
};

static void walk_value(struct walk *walk, void *member, size_t size)
{
    if (walk->at + size <= walk->max) {
        if (walk->from)
            memcpy(member, walk->from + walk->at, size);
        else if (walk->to)
            memcpy(walk->to + walk->at, member, size);
    }
    walk->at += size;
}

static void walk_text(struct walk *walk, char *text, size_t size)
{
    const size_t left = walk->at < walk->max ? walk->max - walk->at : 0;
    size_t len = walk->from ? strnlen((const char *)walk->from + walk->at, left) : strlen(text);
    if (walk->from && (len == left || len >= size)) { /* it does not end, or is too long */
        walk->at = walk->max;
        return;
    }
    walk_value(walk, text, len + 1);
}

static void walk_condition(struct walk *walk, struct aw_mpa_condition *c)
{
    uint8_t holds = (uint8_t)c->holds;
    walk_value(walk, &holds, sizeof holds);
    if (holds > AW_MPA_UNKNOWN || holds == AW_MPA_ABSENT)
        return;
    c->holds = (enum aw_mpa_holds)holds;
    walk_value(walk, &c->changed_us, sizeof c->changed_us);
    walk_value(walk, &c->generation, sizeof c->generation);
    walk_text(walk, c->reason, sizeof c->reason);
    walk_text(walk, c->message, sizeof c->message);
}

static void walk_status(struct walk *walk, struct aw_mpa_status *s)
{
    struct aw_mpa_recommendation *r = &s->recommendation;
    uint8_t given = r->given;
    walk_value(walk, &s->generation, sizeof s->generation);
    walk_value(walk, &s->replicas, sizeof s->replicas);
    walk_text(walk, s->mode, sizeof s->mode);
    walk_text(walk, s->stage, sizeof s->stage);
    walk_text(walk, s->slo, sizeof s->slo);
    walk_value(walk, &given, sizeof given);
    r->given = given == 1;
    walk_value(walk, &r->replicas, sizeof r->replicas);
    walk_value(walk, &r->cpu_millicores, sizeof r->cpu_millicores);
    walk_value(walk, &r->memory_bytes, sizeof r->memory_bytes);
    walk_value(walk, &r->at_us, sizeof r->at_us);
    walk_text(walk, r->container, sizeof r->container);
    walk_text(walk, r->decision, sizeof r->decision);
    walk_value(walk, &s->last.at_us, sizeof s->last.at_us);
    walk_text(walk, s->last.id, sizeof s->last.id);
    walk_text(walk, s->last.actor, sizeof s->last.actor);
    walk_text(walk, s->last.reason, sizeof s->last.reason);
    walk_text(walk, s->last.message, sizeof s->last.message);
    for (uint32_t i = 0; i < AW_MPA_CONDITION_COUNT; i++)
        walk_condition(walk, &s->condition[i]);
}

size_t aw_mpa_status_pack(const struct aw_mpa_status *status, void *buf, size_t size)
{
    struct aw_mpa_status copy = *status; /* the walk could write, and does not */
    struct walk walk = {.to = buf, .max = size};
    walk_status(&walk, &copy);
    return walk.at;
}

void aw_mpa_status_unpack(const void *bytes, size_t len, struct aw_mpa_status *ret)
{
    struct walk walk = {.from = bytes, .max = len};
    aw_mpa_status_init(ret);
    if (len > 0)
        walk_status(&walk, ret);
}

/* --- conditions ------------------------------------------------------------------------------- */

void aw_mpa_condition_set(struct aw_mpa_status *status, enum aw_mpa_condition_type type, bool holds,
                          int64_t now_us, const char *reason, const char *fmt, ...)
{
    struct aw_mpa_condition *c = &status->condition[type];
    const enum aw_mpa_holds value = holds ? AW_MPA_TRUE : AW_MPA_FALSE;
    struct aw_text text;
    va_list args;
    if (c->holds != value || c->changed_us <= 0)
        c->changed_us = now_us;
    c->holds = value;
    c->generation = status->generation;
    aw_text_init(&text, c->reason, sizeof c->reason);
    aw_text_add(&text, "%s", reason);
    va_start(args, fmt);
    vsnprintf(c->message, sizeof c->message, fmt, args);
    va_end(args);
    const size_t len = strlen(c->message); /* a character that was cut in two is none */
    c->message[aw_text_utf8_bad(c->message, len)] = '\0';
}

void aw_mpa_condition_drop(struct aw_mpa_status *status, enum aw_mpa_condition_type type)
{
    status->condition[type] = (struct aw_mpa_condition){0};
}

/* --- what is news ----------------------------------------------------------------------------- */

static bool size_moved(int64_t from, int64_t to, double deadband)
{
    if (from == to)
        return false;
    return from <= 0 || fabs((double)(to - from)) > deadband * (double)from;
}

static bool recommendation_moved(const struct aw_mpa_recommendation *from,
                                 const struct aw_mpa_recommendation *to, double deadband)
{
    if (from->given != to->given)
        return true;
    return to->given && (from->replicas != to->replicas ||
                         size_moved(from->cpu_millicores, to->cpu_millicores, deadband) ||
                         size_moved(from->memory_bytes, to->memory_bytes, deadband) ||
                         strcmp(from->container, to->container) != 0);
}

enum aw_mpa_difference aw_mpa_status_differs(const struct aw_mpa_status *written,
                                             const struct aw_mpa_status *now, double deadband)
{
    /* a decision that says what the last one said, as a held one does every minute, is no news */
    bool words = strcmp(written->slo, now->slo) != 0 ||
                 strcmp(written->last.actor, now->last.actor) != 0 ||
                 strcmp(written->last.reason, now->last.reason) != 0 ||
                 strcmp(written->last.message, now->last.message) != 0 ||
                 recommendation_moved(&written->recommendation, &now->recommendation, 0);
    if (written->generation != now->generation || strcmp(written->mode, now->mode) != 0 ||
        strcmp(written->stage, now->stage) != 0 || written->replicas != now->replicas ||
        recommendation_moved(&written->recommendation, &now->recommendation, deadband))
        return AW_MPA_NEWS;
    for (uint32_t i = 0; i < AW_MPA_CONDITION_COUNT; i++) {
        const struct aw_mpa_condition *a = &written->condition[i], *b = &now->condition[i];
        if (a->holds != b->holds || strcmp(a->reason, b->reason) != 0)
            return AW_MPA_NEWS;
        words = words || strcmp(a->message, b->message);
    }
    return words ? AW_MPA_WORDS : AW_MPA_SAME;
}
