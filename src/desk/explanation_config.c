/*
 * explanation_config.c - what a pilot is made from, as text and back to the same bits.
 *
 * Settings that have a table (base/conf.h) go through it, so a new one is carried by itself; the
 * rest is in two tables here. Every value is a string, written so that it reads back to the same
 * bits: whole numbers of 64 bits and NAN have no place in JSON's own numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "desk/explanation_internal.h"

enum kind {
    REAL,  /* double, NAN too */
    COUNT, /* uint32_t */
    SEED,  /* uint64_t */
    WHOLE, /* int64_t, not negative */
    FLAG,  /* bool */
    NAME,  /* char[AW_STORE_NAME_MAX] */
};

struct member {
    const char *key;
    size_t offset;
    enum kind kind;
    uint32_t max; /* COUNT, WHOLE: the most that can be; 0: anything */
};

#define OF(kind, member, max)                                        \
    {                                                                \
#member, offsetof(struct aw_pilot_config, member), kind, max \
    }
static const struct member config_members[] = {
    OF(NAME, name, 0),
#define MOST(unit) (AW_AMOUNT_##unit == AW_AMOUNT_COUNT ? UINT32_MAX : 0)
#define X(id, member, name, unit, ...) \
    OF(WHOLE, bounds.member##_min, MOST(unit)), OF(WHOLE, bounds.member##_max, MOST(unit)),
    AW_RESOURCE_MAP(X)
#undef X
        OF(COUNT, controlled, AW_PLAN_ALL),
    OF(REAL, slo.latency_us_p99, 0),
    OF(REAL, slo.throughput_per_s, 0),
    OF(REAL, slo.timeout_us, 0),
    {"slo_quantile", offsetof(struct aw_pilot_config, slo.quantile), REAL, 0},
    OF(REAL, slo_budget, 0),
    OF(COUNT, objective, AW_OBJECTIVE_PAPER),
    OF(REAL, slo_weight, 0),
    OF(REAL, prices.core_hour, 0),
    OF(REAL, prices.gib_hour, 0),
    OF(REAL, step_s, 0),
    OF(REAL, stale_s, 0),
    OF(COUNT, episode_steps, 0),
    OF(COUNT, state, AW_STATE_PAPER),
    OF(COUNT, mapping, AW_ACTION_ABSOLUTE),
    OF(FLAG, learning, 0),
    OF(FLAG, retrain, 0),
    OF(COUNT, agent, AW_POLICY_EXTERNAL),
    OF(REAL, explore_sigma, 0),
    OF(COUNT, explore_hold, 0),
    OF(REAL, lambda, 0),
    OF(REAL, level, 0),
    OF(SEED, seed, 0),
    OF(REAL, thresholds.online, 0),
    OF(REAL, thresholds.serving, 0),
    OF(REAL, thresholds.deviation, 0),
    OF(WHOLE, node_cpu_millicores, 0),
    OF(WHOLE, node_memory_bytes, 0),
    OF(FLAG, in_place, 0),
};
#undef OF
#define CONFIG_MEMBERS (sizeof config_members / sizeof *config_members)

#define OF(kind, member, max)                                         \
    {                                                                 \
#member, offsetof(struct aw_fallback_task, member), kind, max \
    }
static const struct member task_members[] = {
#define X(id, member, name, unit, ...) \
    OF(WHOLE, bounds.member##_min, MOST(unit)), OF(WHOLE, bounds.member##_max, MOST(unit)),
    AW_RESOURCE_MAP(X)
#undef X
        OF(REAL, slo_latency_us, 0),
    OF(REAL, slo_quantile, 0),
#define X(id, member, name, unit, ...) OF(WHOLE, member, MOST(unit)),
    AW_RESOURCE_MAP(X)
#undef X
};
#undef OF
#define TASK_MEMBERS (sizeof task_members / sizeof *task_members)

/* Settings that have a table of their own. */
static const struct part {
    const char *key;
    size_t offset; /* in struct aw_pilot_config */
    const struct aw_conf_field *fields;
} parts[] = {
    {"fallback", offsetof(struct aw_pilot_config, fallback), aw_fallback_fields},
    {"guard", offsetof(struct aw_pilot_config, guard), aw_guard_fields},
    {"watchdog", offsetof(struct aw_pilot_config, watchdog), aw_watchdog_fields},
    {"lifecycle", offsetof(struct aw_pilot_config, lifecycle), aw_lifecycle_fields},
    {"learner", offsetof(struct aw_pilot_config, learner), aw_learner_fields},
    {"ope", offsetof(struct aw_pilot_config, learner.ope), aw_ope_fields},
    {"rehearse", offsetof(struct aw_pilot_config, rehearse), aw_rehearse_fields},
    {"canary", offsetof(struct aw_pilot_config, canary), aw_canary_fields},
    {"external", offsetof(struct aw_pilot_config, external), aw_external_fields},
};
#define PARTS (sizeof parts / sizeof *parts)

/* --- out --------------------------------------------------------------------------------------
 */

static void put_member(struct aw__told *told, const struct member *member, const void *base)
{
    const void *from = (const char *)base + member->offset;
    char buf[AW_STORE_NAME_MAX > AW_TEXT_REAL_MAX ? AW_STORE_NAME_MAX : AW_TEXT_REAL_MAX];
    struct aw_text text;
    aw_text_init(&text, buf, sizeof buf);
    switch (member->kind) {
    case REAL: {
        double value;
        memcpy(&value, from, sizeof value);
        aw_text_real(value, buf, sizeof buf);
        break;
    }
    case COUNT: {
        uint32_t value;
        memcpy(&value, from, sizeof value);
        aw_text_add(&text, "%" PRIu32, value);
        break;
    }
    case SEED: {
        uint64_t value;
        memcpy(&value, from, sizeof value);
        aw_text_add(&text, "%" PRIu64, value);
        break;
    }
    case WHOLE: {
        int64_t value;
        memcpy(&value, from, sizeof value);
        aw_text_add(&text, "%" PRId64, value);
        break;
    }
    case FLAG: {
        bool value;
        memcpy(&value, from, sizeof value);
        aw_text_add(&text, "%s", value ? "true" : "false");
        break;
    }
    case NAME:
        aw_text_add_bytes(&text, from, strnlen(from, AW_STORE_NAME_MAX - 1));
        break;
    }
    aw__told_text(told, member->key, buf);
}

static json_t *members_json(const struct member *members, size_t count, const void *base)
{
    struct aw__told told = aw__told_begin();
    for (size_t i = 0; i < count; i++)
        put_member(&told, &members[i], base);
    return aw__told_end(&told);
}

static json_t *fields_json(const struct aw_conf_field *fields, const void *settings)
{
    struct aw__told told = aw__told_begin();
    for (const struct aw_conf_field *field = fields; field->key; field++) {
        char text[AW_CONF_TEXT_MAX];
        aw__told_text(&told, field->key, aw_conf_get(field, settings, text, sizeof text));
    }
    return aw__told_end(&told);
}

char *aw_explanation_config_text(const struct aw_pilot_config *config,
                                 const struct aw_fallback_task *task)
{
    struct aw__told told = aw__told_begin();
    aw__told_whole(&told, "format", AW_EXPLANATION_FORMAT_VERSION);
    aw__told_put(&told, "config", members_json(config_members, CONFIG_MEMBERS, config));
    aw__told_put(&told, "task", members_json(task_members, TASK_MEMBERS, task));
    for (size_t i = 0; i < PARTS; i++)
        aw__told_put(&told, parts[i].key,
                     fields_json(parts[i].fields, (const char *)config + parts[i].offset));
    json_t *object = aw__told_end(&told);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(object);
    return text;
}

/* --- in ---------------------------------------------------------------------------------------
 */

static enum aw_err wrong(struct aw_diag *diag, const char *part, const char *key, const char *what)
{
    return aw_fail(diag, AW_ERR_FORMAT, "not a kept config: %s.%s %s", part, key, what);
}

static bool read_real(const char *text, void *to)
{
    double value;
    if (strcmp(text, "nan") == 0)
        value = NAN;
    else if (strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0)
        value = *text == '-' ? -INFINITY : INFINITY;
    else if (aw_text_parse_real(text, &value))
        return false;
    memcpy(to, &value, sizeof value);
    return true;
}

static bool read_number(const struct member *member, const char *text, void *to)
{
    uint64_t value;
    if (aw_text_parse_u64(text, &value))
        return false;
    if (member->kind == COUNT) {
        const uint32_t count = (uint32_t)value;
        memcpy(to, &count, sizeof count);
        return value <= (member->max ? member->max : UINT32_MAX);
    }
    memcpy(to, &value, sizeof value);
    return member->kind == SEED || value <= (member->max ? member->max : INT64_MAX);
}

static bool read_member(const struct member *member, const char *text, void *base)
{
    void *to = (char *)base + member->offset;
    switch (member->kind) {
    case REAL:
        return read_real(text, to);
    case COUNT:
    case SEED:
    case WHOLE:
        return read_number(member, text, to);
    case FLAG: {
        const bool value = strcmp(text, "true") == 0;
        memcpy(to, &value, sizeof value);
        return value || strcmp(text, "false") == 0;
    }
    case NAME: {
        const size_t len = strlen(text);
        if (len >= AW_STORE_NAME_MAX)
            return false;
        memcpy(to, text, len + 1);
        return true;
    }
    }
    return false;
}

/* The object of a part, with exactly so many members. */
static enum aw_err part_of(const json_t *root, const char *key, size_t count, const json_t **ret,
                           struct aw_diag *diag)
{
    const json_t *object = json_object_get(root, key);
    if (!json_is_object(object) || json_object_size(object) != count)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "not a kept config of this version: \"%s\" should have %zu members", key,
                       count);
    *ret = object;
    return AW_OK;
}

static enum aw_err read_members(const json_t *root, const char *part, const struct member *members,
                                size_t count, void *base, struct aw_diag *diag)
{
    const json_t *object = NULL;
    enum aw_err err = part_of(root, part, count, &object, diag);
    for (size_t i = 0; !err && i < count; i++) {
        const char *text = json_string_value(json_object_get(object, members[i].key));
        if (!text)
            err = wrong(diag, part, members[i].key, "is missing");
        else if (!read_member(&members[i], text, base))
            err = wrong(diag, part, members[i].key, "cannot be what it says");
    }
    return err;
}

static enum aw_err read_fields(const json_t *root, const struct part *part, void *settings,
                               struct aw_diag *diag)
{
    size_t count = 0;
    const json_t *object = NULL;
    while (part->fields[count].key)
        count++;
    enum aw_err err = part_of(root, part->key, count, &object, diag);
    for (size_t i = 0; !err && i < count; i++) {
        const char *key = part->fields[i].key;
        const char *text = json_string_value(json_object_get(object, key));
        if (!text)
            err = wrong(diag, part->key, key, "is missing");
        else if (aw_conf_set(part->fields, settings, key, text, NULL))
            err = wrong(diag, part->key, key, "cannot be what it says");
    }
    return err;
}

enum aw_err aw_explanation_config_read(const char *text, struct aw_pilot_config *ret,
                                       struct aw_fallback_task *ret_task, struct aw_diag *diag)
{
    struct aw_pilot_config config;
    struct aw_fallback_task task;
    json_error_t where;
    memset(&config, 0, sizeof config);
    memset(&task, 0, sizeof task);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return aw_fail(diag, AW_ERR_FORMAT, "not a kept config: %s", where.text);
    enum aw_err err = AW_OK;
    if (json_integer_value(json_object_get(root, "format")) != AW_EXPLANATION_FORMAT_VERSION)
        err = aw_fail(diag, AW_ERR_FORMAT, "not a kept config of format %d",
                      AW_EXPLANATION_FORMAT_VERSION);
    err = err ? err : read_members(root, "config", config_members, CONFIG_MEMBERS, &config, diag);
    err = err ? err : read_members(root, "task", task_members, TASK_MEMBERS, &task, diag);
    for (size_t i = 0; !err && i < PARTS; i++)
        err = read_fields(root, &parts[i], (char *)&config + parts[i].offset, diag);
    json_decref(root);
    if (err)
        return err;
    *ret = config;
    *ret_task = task;
    return AW_OK;
}

/* --- for tests --------------------------------------------------------------------------------
 */

static void carry(unsigned char *bytes, const struct member *members, size_t count)
{
    static const size_t size[] = {
        [REAL] = sizeof(double),   [COUNT] = sizeof(uint32_t), [SEED] = sizeof(uint64_t),
        [WHOLE] = sizeof(int64_t), [FLAG] = sizeof(bool),      [NAME] = AW_STORE_NAME_MAX,
    };
    for (size_t i = 0; i < count; i++)
        memset(bytes + members[i].offset, 1, size[members[i].kind]);
}

void aw__explanation_config_carried(unsigned char *config, unsigned char *task)
{
    static const size_t size[] = {
        [AW_CONF_BOOL] = sizeof(bool),
        [AW_CONF_U32] = sizeof(uint32_t),
        [AW_CONF_U64] = sizeof(uint64_t),
        [AW_CONF_F32] = sizeof(float),
        [AW_CONF_F64] = sizeof(double),
        [AW_CONF_CHOICE] = sizeof(uint32_t),
        [AW_CONF_U32_LIST] = sizeof(struct aw_conf_u32_list),
        [AW_CONF_TEXT] = AW_CONF_TEXT_MAX,
    };
    carry(config, config_members, CONFIG_MEMBERS);
    carry(task, task_members, TASK_MEMBERS);
    for (size_t i = 0; i < PARTS; i++)
        for (const struct aw_conf_field *field = parts[i].fields; field->key; field++)
            memset(config + parts[i].offset + field->offset, 1, size[field->type]);
}
