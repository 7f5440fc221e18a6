/* explain_schema.c - the verb `explain-schema`: what can be written in files of autoscalers. */
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

#include "profile/profile_schema.h"

#include <math.h>
#include <stdio.h>

#define INDENT     2u
#define DEPTH_MAX  16u /* objects within each other */
#define LABEL_WIDE 10u

/* --- for people -------------------------------------------------------------------------------
 */

/* What decides how a field or a setting is shown. */
struct shown {
    char name[AW_SCHEMA_NAME_MAX];
    const char *type, *initial, *help;
    char allowed[AW_DIAG_TEXT_MAX];
    bool required, refused, nested;
};

static void show_field(const struct aw_schema_field *field, struct shown *ret)
{
    *ret = (struct shown){.type = aw_schema_type_name(field),
                          .initial = field->initial,
                          .help = field->help,
                          .required = field->flags & AW_SCHEMA_REQUIRED,
                          .refused = field->flags & AW_SCHEMA_REFUSED,
                          .nested = field->fields || field->conf};
    snprintf(ret->name, sizeof ret->name, "%s", field->name);
    aw_schema_expects(field, ret->allowed, sizeof ret->allowed);
}

static void show_conf(const struct aw_conf_field *field, struct shown *ret)
{
    *ret = (struct shown){
        .type = aw_schema_conf_type_name(field), .initial = field->initial, .help = field->help};
    aw_schema_conf_name(field, ret->name, sizeof ret->name);
    aw_conf_expects(field, ret->allowed, sizeof ret->allowed);
}

static void line_print(const char *label, const char *text)
{
    printf("%-*s", (int)LABEL_WIDE, label);
    aw_wrap(stdout, text, LABEL_WIDE, LABEL_WIDE, AW_HELP_COLUMNS);
}

/* "slo <object>   the service-level objective ..." */
static void child_print(const struct shown *shown, bool color)
{
    const char *bold = color ? "\033[1m" : "", *plain = color ? "\033[0m" : "";
    char note[AW_TEXT_REAL_MAX + 64] = "";
    if (shown->required)
        snprintf(note, sizeof note, ", required");
    else if (shown->refused)
        snprintf(note, sizeof note, ", refused");
    else if (shown->initial && *shown->initial)
        snprintf(note, sizeof note, ", default %.64s", shown->initial);
    printf("%*s%s%s%s  <%s>%s\n%*s", (int)INDENT, "", bold, shown->name, plain, shown->type, note,
           3 * (int)INDENT, "");
    aw_wrap(stdout, shown->help, 3 * INDENT, 3 * INDENT, AW_HELP_COLUMNS);
}

static void children_print(const struct aw_schema_field *fields, const struct aw_conf_field *conf,
                           const char *without, bool color)
{
    struct shown shown;
    printf("\nFields:\n");
    for (; fields && fields->name; fields++) {
        show_field(fields, &shown);
        child_print(&shown, color);
    }
    for (; conf && conf->key; conf++) {
        if (without && !strcmp(without, conf->key))
            continue;
        show_conf(conf, &shown);
        child_print(&shown, color);
    }
}

static void found_print(const struct aw_profile_kind *kind, const char *path,
                        const struct aw_schema_found *found, bool color)
{
    struct shown shown;
    line_print("Kind:", kind->name);
    if (!found->field) {
        line_print("Help:", kind->help);
        children_print(kind->fields, NULL, NULL, color);
        return;
    }
    if (found->conf)
        show_conf(found->conf, &shown);
    else
        show_field(found->field, &shown);
    line_print("Field:", path);
    line_print("Type:", shown.type);
    if (shown.required)
        line_print("Default:", "none, it must be written");
    else if (shown.initial)
        line_print("Default:", *shown.initial ? shown.initial : "empty");
    line_print("Allowed:", shown.refused ? "not supported" : shown.allowed);
    line_print("Help:", shown.help);
    if (!found->conf && shown.nested)
        children_print(found->field->fields, found->field->conf, found->field->conf_without, color);
}

/* One line for each key below spec. */
static void spec_print(const struct aw_schema_field *spec)
{
    struct shown shown;
    for (const struct aw_schema_field *s = spec->fields; s && s->name; s++) {
        printf("%*sspec.%-22s ", (int)INDENT, "", s->name);
        aw_wrap(stdout, s->help, INDENT + 28, INDENT + 28, AW_HELP_COLUMNS);
    }
    for (const struct aw_conf_field *c = spec->conf; c && c->key; c++) {
        show_conf(c, &shown);
        printf("%*sspec.%-22s ", (int)INDENT, "", shown.name);
        aw_wrap(stdout, shown.help, INDENT + 28, INDENT + 28, AW_HELP_COLUMNS);
    }
}

static void kinds_print(bool color)
{
    const char *bold = color ? "\033[1m" : "", *plain = color ? "\033[0m" : "";
    for (const struct aw_profile_kind *kind = aw_profile_kinds; kind->name; kind++) {
        printf("%s%s%s  (or %s)\n%*s", bold, kind->name, plain, kind->alias, (int)INDENT, "");
        aw_wrap(stdout, kind->help, INDENT, INDENT, AW_HELP_COLUMNS);
        for (const struct aw_schema_field *f = kind->fields; f->name; f++) {
            if (!strcmp(f->name, "spec"))
                spec_print(f);
        }
        putchar('\n');
    }
    printf("More: aware explain-schema spec.goals.slo, aware explain-schema "
           "SimulatedApplication.spec\n");
}

/* --- JSON -------------------------------------------------------------------------------------
 */

static json_t *shown_json(const struct shown *shown)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(shown->name));
    json_object_set_new(object, "type", json_string(shown->type));
    json_object_set_new(object, "required", json_boolean(shown->required));
    json_object_set_new(object, "supported", json_boolean(!shown->refused));
    json_object_set_new(object, "default",
                        shown->initial ? json_string(shown->initial) : json_null());
    json_object_set_new(object, "allowed", json_string(shown->allowed));
    json_object_set_new(object, "help", json_string(shown->help));
    return object;
}

static json_t *field_json(const struct aw_schema_field *field, unsigned depth);

static json_t *fields_json(const struct aw_schema_field *fields, const struct aw_conf_field *conf,
                           const char *without, unsigned depth)
{
    json_t *array = json_array();
    struct shown shown;
    AW_ASSERT(depth < DEPTH_MAX);
    for (; fields && fields->name; fields++)
        json_array_append_new(array, field_json(fields, depth));
    for (; conf && conf->key; conf++) {
        if (without && !strcmp(without, conf->key))
            continue;
        show_conf(conf, &shown);
        json_array_append_new(array, shown_json(&shown));
    }
    return array;
}

static json_t *field_json(const struct aw_schema_field *field, unsigned depth)
{
    struct shown shown;
    show_field(field, &shown);
    json_t *object = shown_json(&shown);
    if (shown.nested)
        json_object_set_new(
            object, "fields",
            fields_json(field->fields, field->conf, field->conf_without, depth + 1));
    return object;
}

static json_t *kind_json(const struct aw_profile_kind *kind)
{
    json_t *object = json_object();
    json_object_set_new(object, "kind", json_string(kind->name));
    json_object_set_new(object, "help", json_string(kind->help));
    json_object_set_new(object, "fields", fields_json(kind->fields, NULL, NULL, 0));
    return object;
}

/* --- OpenAPI ----------------------------------------------------------------------------------
 *
 * A structural schema as a CustomResourceDefinition wants it (OpenAPI 3.0 with the extensions of
 * Kubernetes). What is a number or a text, and not whole, has no type there: it is left open, and
 * this program judges it.
 */

static void bounds_set(json_t *object, double min, double max)
{
    if (min == 0 && max == 0)
        return;
    if (isfinite(min))
        json_object_set_new(object, "minimum", json_real(min));
    if (isfinite(max))
        json_object_set_new(object, "maximum", json_real(max));
}

static void choices_set(json_t *object, const char *const *choices)
{
    json_t *array = json_array();
    for (; *choices; choices++)
        json_array_append_new(array, json_string(*choices));
    json_object_set_new(object, "enum", array);
}

static void type_set(json_t *object, const char *type)
{
    json_object_set_new(object, "type", json_string(type));
}

static json_t *conf_openapi(const struct aw_conf_field *field)
{
    json_t *object = json_object(), *items;
    json_object_set_new(object, "description", json_string(field->help));
    switch (field->type) {
    case AW_CONF_BOOL:
        type_set(object, "boolean");
        break;
    case AW_CONF_U32:
    case AW_CONF_U64:
        type_set(object, "integer");
        bounds_set(object, field->min, field->max);
        break;
    case AW_CONF_F32:
    case AW_CONF_F64:
        type_set(object, "number");
        bounds_set(object, field->min, field->max);
        break;
    case AW_CONF_CHOICE:
        type_set(object, "string");
        choices_set(object, field->choices);
        break;
    case AW_CONF_U32_LIST:
        type_set(object, "array");
        json_object_set_new(object, "maxItems", json_integer(AW_CONF_LIST_MAX));
        items = json_object();
        type_set(items, "integer");
        json_object_set_new(object, "items", items);
        break;
    case AW_CONF_TEXT:
        type_set(object, "string");
        json_object_set_new(object, "maxLength", json_integer(AW_CONF_TEXT_MAX - 1));
        break;
    }
    return object;
}

static json_t *field_openapi(const struct aw_schema_field *field, unsigned depth);

static void object_openapi(json_t *object, const struct aw_schema_field *fields,
                           const struct aw_conf_field *conf, const char *without, unsigned depth)
{
    json_t *properties = json_object(), *required = json_array();
    char name[AW_SCHEMA_NAME_MAX];
    AW_ASSERT(depth < DEPTH_MAX);
    type_set(object, "object");
    for (; fields && fields->name; fields++) {
        if (fields->flags & AW_SCHEMA_REFUSED)
            continue;
        json_object_set_new(properties, fields->name, field_openapi(fields, depth + 1));
        if (fields->flags & AW_SCHEMA_REQUIRED)
            json_array_append_new(required, json_string(fields->name));
    }
    for (; conf && conf->key; conf++) {
        if (!without || strcmp(without, conf->key) != 0)
            json_object_set_new(properties, aw_schema_conf_name(conf, name, sizeof name),
                                conf_openapi(conf));
    }
    if (json_array_size(required) > 0)
        json_object_set(object, "required", required);
    json_decref(required);
    json_object_set_new(object, "properties", properties);
}

/* Of a type that is not kept as it is written. */
static void open_set(json_t *object)
{
    json_object_set_new(object, "x-kubernetes-preserve-unknown-fields", json_true());
}

/* A number or a text: no type says that (int-or-string knows whole numbers alone), its values do.
 */
static void quantiles_set(json_t *object)
{
    open_set(object);
    json_object_set_new(object, "enum",
                        json_pack("[s,s,s,f,f,f,s,s,s]", "p50", "p95", "p99", 0.5, 0.95, 0.99,
                                  "0.5", "0.95", "0.99"));
}

static void scalar_openapi(json_t *object, const struct aw_schema_field *field)
{
    switch (field->type) {
    case AW_SCHEMA_TEXT:
    case AW_SCHEMA_NAME:
        type_set(object, "string");
        json_object_set_new(object, "maxLength", json_integer((json_int_t)field->size - 1));
        if (field->type == AW_SCHEMA_NAME)
            json_object_set_new(object, "pattern", json_string("^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"));
        break;
    case AW_SCHEMA_BOOL:
        type_set(object, "boolean");
        break;
    case AW_SCHEMA_U32:
    case AW_SCHEMA_U64:
        type_set(object, "integer");
        bounds_set(object, field->min, field->max);
        break;
    case AW_SCHEMA_REAL:
        type_set(object, "number");
        bounds_set(object, field->min, field->max);
        break;
    case AW_SCHEMA_CPU:
    case AW_SCHEMA_MEMORY:
        json_object_set_new(object, "x-kubernetes-int-or-string", json_true());
        break;
    case AW_SCHEMA_DURATION:
    case AW_SCHEMA_RATE:
        type_set(object, "string");
        break;
    case AW_SCHEMA_QUANTILE:
        quantiles_set(object);
        break;
    case AW_SCHEMA_CHOICE:
        type_set(object, "string");
        choices_set(object, field->choices);
        break;
    default:
        open_set(object);
        break;
    }
}

static json_t *field_openapi(const struct aw_schema_field *field, unsigned depth)
{
    json_t *object = json_object(), *items = json_object();
    json_object_set_new(object, "description", json_string(field->help));
    switch (field->type) {
    case AW_SCHEMA_OBJECT:
        object_openapi(object, field->fields, field->conf, field->conf_without, depth);
        break;
    case AW_SCHEMA_LIST:
        type_set(object, "array");
        json_object_set_new(object, "maxItems", json_integer(field->count_max));
        object_openapi(items, field->fields, NULL, NULL, depth);
        json_object_set(object, "items", items);
        break;
    case AW_SCHEMA_SET:
        type_set(object, "array");
        type_set(items, "string");
        choices_set(items, field->choices);
        json_object_set(object, "items", items);
        break;
    case AW_SCHEMA_TEXTS:
        type_set(object, "object");
        type_set(items, "string");
        json_object_set(object, "additionalProperties", items);
        break;
    case AW_SCHEMA_ANY_OBJECT:
        type_set(object, "object");
        open_set(object);
        break;
    case AW_SCHEMA_ANY_LIST:
        type_set(object, "array");
        open_set(items);
        json_object_set(object, "items", items);
        break;
    default:
        scalar_openapi(object, field);
        break;
    }
    json_decref(items);
    return object;
}

/* The schema of one kind: apiVersion, kind and metadata are the API server's own. */
static json_t *kind_openapi(const struct aw_profile_kind *kind)
{
    json_t *object = json_object(), *properties, *own = json_object();
    json_object_set_new(object, "description", json_string(kind->help));
    object_openapi(object, kind->fields, NULL, NULL, 0);
    properties = json_object_get(object, "properties");
    type_set(own, "string");
    json_object_set(properties, "apiVersion", own);
    json_object_set(properties, "kind", own);
    json_decref(own);
    own = json_object();
    type_set(own, "object");
    json_object_set_new(properties, "metadata", own);
    own = json_object();
    type_set(own, "object");
    open_set(own);
    json_object_set_new(properties, "status", own);
    return object;
}

/* --- the verb ---------------------------------------------------------------------------------
 */

/* "SimulatedApplication.spec" and "spec" of the first kind; `*path` moves behind the kind. */
static const struct aw_profile_kind *kind_of(const char **path)
{
    const size_t len = strcspn(*path, ".");
    for (const struct aw_profile_kind *kind = aw_profile_kinds; kind->name; kind++) {
        const bool is_name = strlen(kind->name) == len && !strncasecmp(kind->name, *path, len);
        const bool is_alias = strlen(kind->alias) == len && !strncasecmp(kind->alias, *path, len);
        if (is_name || is_alias) {
            *path += len + ((*path)[len] == '.');
            return kind;
        }
    }
    return &aw_profile_kinds[0];
}

static enum aw_err openapi_print(const struct aw_profile_kind *kind, struct aw_diag *diag)
{
    json_t *object;
    if (kind)
        return aw_json_print(kind_openapi(kind), diag);
    object = json_object();
    for (kind = aw_profile_kinds; kind->name; kind++)
        json_object_set_new(object, kind->name, kind_openapi(kind));
    return aw_json_print(object, diag);
}

static enum aw_err explain_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *path = run->args->positional[0];
    const bool openapi = aw_args_given(run->args, "openapi");
    const struct aw_profile_kind *kind = path ? kind_of(&path) : NULL;
    struct aw_schema_found found = {0};
    if (path) {
        enum aw_err err = aw_schema_find(kind->fields, path, &found, diag);
        if (err)
            return err;
    }
    if (openapi && found.field)
        return aw_fail(diag, AW_ERR_USAGE, "--openapi describes a whole kind; %s is a part of one",
                       AW_QUOTE(path));
    if (openapi)
        return openapi_print(kind, diag);
    if (run->json) {
        json_t *object;
        struct shown shown;
        if (found.conf) {
            show_conf(found.conf, &shown);
            object = shown_json(&shown);
        } else if (found.field) {
            object = field_json(found.field, 0);
        } else if (kind) {
            object = kind_json(kind);
        } else {
            object = json_array();
            for (kind = aw_profile_kinds; kind->name; kind++)
                json_array_append_new(object, kind_json(kind));
        }
        return aw_json_print(object, diag);
    }
    if (kind)
        found_print(kind, path, &found, run->color_out);
    else
        kinds_print(run->color_out);
    return AW_OK;
}

static const struct aw_option options[] = {
    AW_FLAG("openapi", 0, "print the schema in OpenAPI, as a CustomResourceDefinition has it"),
    {.name = NULL},
};
static const struct aw_positional positionals[] = {
    {.name = "PATH",
     .kind = AW_ARG_TEXT,
     .help = "keys with dots between, of a MultidimPodAutoscaler or after the name of a kind",
     .optional = true},
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware explain-schema", "the kinds there are"},
    {"aware explain-schema spec.goals.slo.latency", "one field and those below it"},
    {"aware explain-schema SimulatedApplication.spec", "another kind"},
    {"aware explain-schema --openapi mpa", "for a CustomResourceDefinition"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_explain_schema = {
    .name = "explain-schema",
    .summary = "Explain the fields of an autoscaler's file",
    .text = "Shows type, default, what is allowed and what it is for, from the same table that "
            "'aware validate' and 'aware run' read files by.",
    .options = options,
    .positionals = positionals,
    .examples = examples,
    .json = true,
    .run = explain_run,
};
