/*
 * explanation_config.c - what a pilot is made from, as text and back to the same bits.
 *
 * All of it goes through tables of settings (aw_pilot_fields, aw_fallback_task_fields), so that a
 * new one is carried by itself. Every value is a string, written so that it reads back to the same
 * bits: whole numbers of 64 bits and NAN have no place in JSON's own numbers.
 */
#include <string.h>

#include "desk/explanation_internal.h"

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
    aw__told_put(&told, "task", fields_json(aw_fallback_task_fields, task));
    for (const struct aw_conf_part *part = aw_pilot_fields; part->key; part++)
        aw__told_put(&told, part->key,
                     fields_json(part->fields, (const char *)config + part->offset));
    json_t *object = aw__told_end(&told);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(object);
    return text;
}

static enum aw_err wrong(struct aw_diag *diag, const char *part, const char *key, const char *what)
{
    return aw_fail(diag, AW_ERR_FORMAT, "not a kept config: %s.%s %s", part, key, what);
}

/* The object `part` has exactly the members of the table. */
static enum aw_err read_fields(const json_t *root, const char *part,
                               const struct aw_conf_field *fields, void *settings,
                               struct aw_diag *diag)
{
    const json_t *object = json_object_get(root, part);
    size_t count = 0;
    while (fields[count].key)
        count++;
    if (!json_is_object(object) || json_object_size(object) != count)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "not a kept config of this version: \"%s\" should have %zu members", part,
                       count);
    for (const struct aw_conf_field *field = fields; field->key; field++) {
        const char *text = json_string_value(json_object_get(object, field->key));
        if (!text)
            return wrong(diag, part, field->key, "is missing");
        if (aw_conf_set(fields, settings, field->key, text, NULL))
            return wrong(diag, part, field->key, "cannot be what it says");
    }
    return AW_OK;
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
    err = err ? err : read_fields(root, "task", aw_fallback_task_fields, &task, diag);
    for (const struct aw_conf_part *part = aw_pilot_fields; !err && part->key; part++)
        err = read_fields(root, part->key, part->fields, (char *)&config + part->offset, diag);
    json_decref(root);
    if (err)
        return err;
    *ret = config;
    *ret_task = task;
    return AW_OK;
}
