/*
 * apps.c - pools of applications and segment kinds, to and from YAML.
 *
 * One table of fields drives reader, writer and documentation. Amounts may carry any unit of their
 * sort; in the unit that the struct keeps, what is written is what is read, to the last bit.
 */
#include "workload/apps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/units.h"

#define MS_MAX  3.6e6 /* an hour */
#define MIB_MAX 1048576.0
#define KIB_MAX 1048576.0

const char *const aw_payload_family_names[] = {"none",  "file", "table", "float",
                                               "image", "text", "model", NULL};

#define AT(member) offsetof(struct aw_segment, member)
/* clang-format off */
const struct aw_segment_field aw_segment_fields[] = {
    {"family", NULL, AT(family), 0, 0, "whose payload it has: see the scenarios"},
    /* Nothing runs without CPU time, and a model that divides by it must not meet 0. */
    {"cpu", "ms", AT(cpu_ms), 0.001, MS_MAX, "CPU time of a request on one core, on average"},
    {"cpu_cv", "", AT(cpu_cv), 0, 10, "its deviation over its mean"},
    {"io", "ms", AT(io_ms), 0, MS_MAX, "waiting off the CPU, on average"},
    {"io_cv", "", AT(io_cv), 0, 10, "its deviation over its mean"},
    {"memory", "Mi", AT(memory_base_mib), 0, MIB_MAX, "held as long as a replica runs"},
    {"memory_per_request", "Mi", AT(memory_flight_mib), 0, MIB_MAX, "held by a request in flight"},
    {"read", "Ki", AT(read_kib), 0, KIB_MAX, "from disk, per request"},
    {"write", "Ki", AT(write_kib), 0, KIB_MAX, "to disk, per request"},
    {"send", "Ki", AT(send_kib), 0, KIB_MAX, "over the network, per request"},
    {"cpu_exponent", "", AT(cpu_exponent), 0, 4, "CPU time grows with payload to this power"},
    {"io_exponent", "", AT(io_exponent), 0, 4, "so does waiting"},
    {"memory_exponent", "", AT(memory_exponent), 0, 4, "so does memory per request"},
    {"bytes_exponent", "", AT(bytes_exponent), 0, 4, "so do read, write and send"},
    {"parallelism", "", AT(parallelism), 1, 256, "cores that one request can use at once"},
    {"threads", "", AT(threads), 0, 65536, "requests a replica works on at once; 0: no limit"},
    {"cold_start", "ms", AT(cold_start_ms), 0, MS_MAX, "added to a replica's start"},
    {"crowding", "", AT(crowding), 0, 4,
     "how much longer CPU work takes while its core's other hardware thread is busy"},
    {"fast_tail", "", AT(fast_tail), 0, 20,
     "the fast model's p99 under light load times this; 0: as it is"},
    {NULL, NULL, 0, 0, 0, NULL},
};
/* clang-format on */
#define FIELDS_COUNT (sizeof aw_segment_fields / sizeof *aw_segment_fields - 1)

static bool is_threads(const struct aw_segment_field *field)
{
    return field->offset == AT(threads);
}

/* Of a machine rather than of an application: not written while it is 0. */
static bool is_optional(const struct aw_segment_field *field)
{
    return field->offset == AT(crowding) || field->offset == AT(fast_tail);
}

static double member_get(const struct aw_segment *segment, const struct aw_segment_field *field)
{
    const char *member = (const char *)segment + field->offset;
    if (!field->unit)
        return (double)*(const enum aw_payload_family *)member;
    return is_threads(field) ? (double)*(const uint32_t *)member : *(const double *)member;
}

static void member_set(struct aw_segment *segment, const struct aw_segment_field *field,
                       double value)
{
    char *member = (char *)segment + field->offset;
    if (!field->unit)
        *(enum aw_payload_family *)member = (enum aw_payload_family)value;
    else if (is_threads(field))
        *(uint32_t *)member = (uint32_t)value;
    else
        *(double *)member = value;
}

/* ---- reading ---- */

/* "12.5ms" with exactly the unit that is kept: no conversion, so no rounding. */
static bool kept_exactly(const char *text, const char *unit, double *ret)
{
    char number[AW_QUANTITY_TEXT_MAX];
    size_t len = strlen(text), unit_len = strlen(unit);
    if (len <= unit_len || len - unit_len >= sizeof number ||
        strcmp(text + len - unit_len, unit) != 0)
        return false;
    memcpy(number, text, len - unit_len);
    number[len - unit_len] = '\0';
    return aw_text_parse_real(number, ret) == AW_OK && *ret >= 0;
}

static enum aw_err amount_read(const struct aw_tree *tree, const struct aw_node *node,
                               const struct aw_segment_field *field, double *ret,
                               struct aw_diag *diag)
{
    const char *text;
    int64_t whole = 0;
    enum aw_err err = aw_tree_scalar(tree, node, &text, diag);
    if (err)
        return err;
    if (kept_exactly(text, field->unit, ret))
        return AW_OK;
    if (!strcmp(field->unit, "ms")) {
        err = aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &whole, diag);
        *ret = (double)whole / 1e3;
    } else {
        err = aw_quantity_parse_memory(text, &whole, diag);
        *ret = (double)whole / (!strcmp(field->unit, "Mi") ? AW_MIB_REAL : AW_KIB_REAL);
    }
    return aw_tree_place(tree, node, err ? AW_ERR_CONFIG : AW_OK, diag);
}

static enum aw_err family_read(const struct aw_tree *tree, const struct aw_node *node, double *ret,
                               struct aw_diag *diag)
{
    const char *text;
    enum aw_err err = aw_tree_string(tree, node, &text, diag);
    if (err)
        return err;
    for (uint32_t i = 0; aw_payload_family_names[i]; i++) {
        if (!strcmp(aw_payload_family_names[i], text)) {
            *ret = i;
            return AW_OK;
        }
    }
    return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag,
                            "one of: none, file, table, float, image, text, model");
}

static enum aw_err member_read(const struct aw_tree *tree, const struct aw_node *node,
                               const struct aw_segment_field *field, struct aw_segment *segment,
                               struct aw_diag *diag)
{
    char expected[128];
    double value = 0;
    enum aw_err err;
    if (!field->unit) {
        if ((err = family_read(tree, node, &value, diag)))
            return err;
    } else if (is_threads(field)) {
        int64_t whole = 0;
        if ((err = aw_tree_i64(tree, node, 0, (int64_t)field->max, &whole, diag)))
            return err;
        value = (double)whole;
    } else if (!*field->unit) {
        if ((err = aw_tree_real(tree, node, field->min, field->max, &value, diag)))
            return err;
    } else {
        if ((err = amount_read(tree, node, field, &value, diag)))
            return err;
        if (!(value >= field->min && value <= field->max)) {
            snprintf(expected, sizeof expected, "%g%s to %g%s", field->min, field->unit, field->max,
                     field->unit);
            return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, expected);
        }
    }
    member_set(segment, field, value);
    return AW_OK;
}

/* A name becomes a word in tables, file names and metrics, so it has to look like one; and it is
 * written without quotes, so it must not look like anything else to YAML. */
static bool name_is_sound(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    size_t len = strlen(text);
    return len > 0 && len < AW_APP_NAME_MAX && strspn(text, allowed) == len &&
           strchr(letters, text[0]) && strcmp(text, "null") != 0 && strcmp(text, "true") != 0 &&
           strcmp(text, "false") != 0;
}

static enum aw_err name_read(const struct aw_tree *tree, const struct aw_node *node,
                             char name[AW_APP_NAME_MAX], struct aw_diag *diag)
{
    const char *text;
    enum aw_err err = aw_tree_string(tree, node, &text, diag);
    if (err)
        return err;
    if (!name_is_sound(text))
        return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag,
                                "a name of at most 63 of a-z, 0-9, -, _ and ., beginning with a "
                                "letter");
    memset(name, 0, AW_APP_NAME_MAX);
    memcpy(name, text, strlen(text));
    return AW_OK;
}

/* All keys of a kind, or of a segment of an application, with `naming` as the one for its name. */
static enum aw_err members_read(const struct aw_tree *tree, const struct aw_node *map,
                                const char *naming, struct aw_segment *segment,
                                struct aw_diag *diag)
{
    const char *known[FIELDS_COUNT + 2] = {naming};
    for (uint32_t i = 0; i < FIELDS_COUNT; i++)
        known[i + 1] = aw_segment_fields[i].key;
    enum aw_err err = aw_tree_known(tree, map, known, diag);
    for (uint32_t i = 0; !err && i < FIELDS_COUNT; i++) {
        const struct aw_node *node = aw_node_find(map, aw_segment_fields[i].key);
        if (node)
            err = member_read(tree, node, &aw_segment_fields[i], segment, diag);
    }
    return err;
}

static struct aw_segment *kind_find(struct aw_segment *kinds, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    }
    return NULL;
}

static enum aw_err kind_read(const struct aw_tree *tree, const struct aw_node *map,
                             const struct aw_node *list, struct aw_apps *apps, struct aw_diag *diag)
{
    struct aw_segment kind = {.parallelism = 1};
    const struct aw_node *node = NULL;
    enum aw_err err;
    if ((err = members_read(tree, map, "name", &kind, diag)) ||
        (err = aw_tree_require(tree, map, "name", &node, diag)) ||
        (err = name_read(tree, node, kind.name, diag)))
        return err;
    for (const struct aw_node *other = list->first; other != map; other = other->next) {
        const struct aw_node *name = aw_node_find(other, "name");
        if (name && !strcmp(name->text, kind.name))
            return aw_tree_place(tree, node,
                                 aw_fail(diag, AW_ERR_CONFIG, "\"%s\" was defined on line %u",
                                         kind.name, name->line),
                                 diag);
    }
    if ((err = aw_tree_require(tree, map, "cpu", &node, diag)))
        return err;
    struct aw_segment *known = kind_find(apps->kinds, apps->kind_count, kind.name);
    if (!known && apps->kind_count == AW_SEGMENT_KINDS_MAX)
        return aw_tree_place(tree, map,
                             aw_fail(diag, AW_ERR_LIMIT,
                                     "at most %u segment kinds, the built-in ones included",
                                     AW_SEGMENT_KINDS_MAX),
                             diag);
    *(known ? known : &apps->kinds[apps->kind_count++]) = kind;
    return AW_OK;
}

static enum aw_err segment_read(const struct aw_tree *tree, const struct aw_node *map,
                                const struct aw_apps *apps, struct aw_segment *ret,
                                struct aw_diag *diag)
{
    const char *names[AW_SEGMENT_KINDS_MAX + 1] = {0}, *text;
    const struct aw_node *node = NULL;
    enum aw_err err;
    if ((err = aw_tree_map(tree, map, diag)) ||
        (err = aw_tree_require(tree, map, "kind", &node, diag)) ||
        (err = aw_tree_string(tree, node, &text, diag)))
        return err;
    const struct aw_segment *kind = kind_find(apps->kinds, apps->kind_count, text);
    if (!kind) {
        char quoted[AW_TEXT_QUOTE_MAX];
        for (uint32_t i = 0; i < apps->kind_count; i++)
            names[i] = apps->kinds[i].name;
        const char *nearest = aw_conf_nearest(text, names);
        aw_text_quote(text, strlen(text), quoted, sizeof quoted);
        err = nearest ? aw_fail(diag, AW_ERR_CONFIG, "no segment kind %s (did you mean \"%s\"?)",
                                quoted, nearest)
                      : aw_fail(diag, AW_ERR_CONFIG,
                                "no segment kind %s; define it under \"segments\"", quoted);
        return aw_tree_place(tree, node, err, diag);
    }
    *ret = *kind;
    return members_read(tree, map, "kind", ret, diag);
}

static enum aw_err app_read(const struct aw_tree *tree, const struct aw_node *map,
                            const struct aw_apps *apps, struct aw_app *ret, struct aw_diag *diag)
{
    static const char *const keys[] = {"name", "segments", NULL};
    const struct aw_node *name = NULL, *segments = NULL;
    enum aw_err err;
    if ((err = aw_tree_known(tree, map, keys, diag)) ||
        (err = aw_tree_require(tree, map, "name", &name, diag)) ||
        (err = name_read(tree, name, ret->name, diag)) ||
        (err = aw_tree_require(tree, map, "segments", &segments, diag)) ||
        (err = aw_tree_list(tree, segments, diag)))
        return err;
    if (segments->count < 1 || segments->count > AW_APP_SEGMENTS_MAX)
        return aw_tree_expected(tree, segments, AW_ERR_CONFIG, diag, "a list of 1 to 6 segments");
    for (const struct aw_node *n = segments->first; n; n = n->next) {
        if ((err = segment_read(tree, n, apps, &ret->segment[ret->segment_count++], diag)))
            return err;
    }
    return AW_OK;
}

static int name_order(const void *a, const void *b)
{
    const struct aw_node *x = *(const struct aw_node *const *)a;
    const struct aw_node *y = *(const struct aw_node *const *)b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* `scratch` has room for every application's name. */
static enum aw_err names_differ(const struct aw_tree *tree, const struct aw_node *list,
                                const struct aw_node **scratch, struct aw_diag *diag)
{
    uint32_t count = 0;
    for (const struct aw_node *n = list->first; n; n = n->next)
        scratch[count++] = aw_node_find(n, "name");
    qsort(scratch, count, sizeof *scratch, name_order);
    for (uint32_t i = 1; i < count; i++) {
        if (!strcmp(scratch[i - 1]->text, scratch[i]->text))
            return aw_tree_place(tree, scratch[i],
                                 aw_fail(diag, AW_ERR_CONFIG,
                                         "\"%s\" is already the name of the application on line %u",
                                         scratch[i]->text, scratch[i - 1]->line),
                                 diag);
    }
    return AW_OK;
}

static size_t carve(struct aw_apps *apps, const struct aw_node ***ret_scratch, uint32_t app_count,
                    void *block)
{
    struct aw_carve carve = {.base = block};
    apps->kinds = aw_carve_take(&carve, AW_SEGMENT_KINDS_MAX, sizeof *apps->kinds);
    apps->apps = aw_carve_take(&carve, app_count, sizeof *apps->apps);
    *ret_scratch = aw_carve_take(&carve, app_count, sizeof **ret_scratch);
    return carve.used;
}

enum aw_err aw_apps_decode(const struct aw_tree *tree, const struct aw_node *map,
                           const struct aw_segment *kinds, uint32_t kind_count,
                           const struct aw_alloc *alloc, struct aw_apps *ret, struct aw_diag *diag)
{
    static const char *const keys[] = {"segments", "apps", NULL};
    struct aw_apps apps = {.alloc = alloc};
    const struct aw_node **scratch;
    enum aw_err err = aw_tree_known(tree, map, keys, diag);
    if (err)
        return err;
    if (!kinds) {
        kinds = aw_segment_builtin();
        kind_count = AW_SEGMENT_BUILTIN_COUNT;
    }
    AW_ASSERT(kind_count <= AW_SEGMENT_KINDS_MAX);
    const struct aw_node *segment_list = aw_node_find(map, "segments");
    const struct aw_node *app_list = aw_node_find(map, "apps");
    if ((segment_list && (err = aw_tree_list(tree, segment_list, diag))) ||
        (app_list && (err = aw_tree_list(tree, app_list, diag))))
        return err;
    uint32_t app_count = app_list ? app_list->count : 0;
    if (app_count > AW_APPS_MAX)
        return aw_tree_place(tree, app_list,
                             aw_fail(diag, AW_ERR_LIMIT, "at most %u applications, found %u",
                                     AW_APPS_MAX, app_count),
                             diag);
    if (app_count == 0 && !(segment_list && segment_list->count))
        return aw_tree_place(
            tree, map,
            aw_fail(diag, AW_ERR_CONFIG, "expected \"segments\" or \"apps\" with something in it"),
            diag);

    void *block = aw_alloc_new(alloc, 1, carve(&apps, &scratch, app_count, NULL));
    if (!block)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", app_count);
    carve(&apps, &scratch, app_count, block);
    memcpy(apps.kinds, kinds, kind_count * sizeof *kinds);
    apps.kind_count = kind_count;
    for (const struct aw_node *n = segment_list ? segment_list->first : NULL; n; n = n->next) {
        if ((err = kind_read(tree, n, segment_list, &apps, diag)))
            goto out;
    }
    for (const struct aw_node *n = app_list ? app_list->first : NULL; n; n = n->next) {
        if ((err = app_read(tree, n, &apps, &apps.apps[apps.app_count], diag)))
            goto out;
        apps.app_count++;
    }
    if (app_list && (err = names_differ(tree, app_list, scratch, diag)))
        goto out;
    *ret = apps;
    return AW_OK;
out:
    aw_apps_deinit(&apps);
    return err;
}

enum aw_err aw_apps_read(const char *path, const struct aw_segment *kinds, uint32_t kind_count,
                         const struct aw_alloc *alloc, struct aw_apps *ret, struct aw_diag *diag)
{
    struct aw_tree tree;
    const struct aw_node *root = NULL;
    enum aw_err err = aw_tree_load_file(&tree, path, alloc, diag);
    if (!err)
        err = aw_tree_only(&tree, &root, diag);
    if (!err)
        err = aw_apps_decode(&tree, root, kinds, kind_count, alloc, ret, diag);
    aw_tree_deinit(&tree);
    return err;
}

void aw_apps_deinit(struct aw_apps *apps)
{
    aw_alloc_free(apps->alloc, apps->kinds); /* the head of the one block */
    *apps = (struct aw_apps){0};
}

const struct aw_app *aw_apps_find(const struct aw_apps *apps, const char *name)
{
    for (uint32_t i = 0; i < apps->app_count; i++) {
        if (!strcmp(apps->apps[i].name, name))
            return &apps->apps[i];
    }
    return NULL;
}

enum aw_err aw_apps_read_one(const char *text, struct aw_app *ret, struct aw_diag *diag)
{
    char path[AW_DIAG_FILE_MAX];
    const char *colon = access(text, F_OK) == 0 ? NULL : strrchr(text, ':');
    const size_t len = colon ? (size_t)(colon - text) : strlen(text);
    struct aw_apps apps;
    if (len >= sizeof path)
        return aw_fail(diag, AW_ERR_LIMIT, "the path of a file of applications is too long");
    memcpy(path, text, len);
    path[len] = '\0';
    enum aw_err err = aw_apps_read(path, NULL, 0, NULL, &apps, diag);
    if (err)
        return err;
    const struct aw_app *found = colon            ? aw_apps_find(&apps, colon + 1)
                                 : apps.app_count ? apps.apps
                                                  : NULL;
    if (found)
        *ret = *found;
    else
        err = aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, NULL, "has no such application");
    aw_apps_deinit(&apps);
    return err;
}

uint64_t aw_app_hash(const struct aw_app *app)
{
    uint64_t hash = AW_HASH_BEGIN;
    for (uint32_t i = 0; i < app->segment_count; i++) {
        hash = aw_hash_byte(aw_hash_text(hash, app->segment[i].name), 0xff);
        for (uint32_t f = 0; f < FIELDS_COUNT; f++) {
            const double value = member_get(&app->segment[i], &aw_segment_fields[f]);
            hash = aw_hash_bytes(hash, &value, sizeof value);
        }
    }
    return hash;
}

/* ---- writing ---- */

static const struct aw_segment *kind_of(const struct aw_segment *segment,
                                        const struct aw_segment *kinds, uint32_t kind_count)
{
    for (uint32_t i = 0; i < kind_count; i++) {
        if (!strcmp(kinds[i].name, segment->name))
            return &kinds[i];
    }
    return NULL;
}

/* Every member that is not as `base` has it; all of them where `base` is NULL. */
static void members_write(FILE *out, const struct aw_segment *segment,
                          const struct aw_segment *base)
{
    char text[AW_TEXT_REAL_MAX];
    for (uint32_t i = 0; i < FIELDS_COUNT; i++) {
        const struct aw_segment_field *field = &aw_segment_fields[i];
        double value = member_get(segment, field);
        if (base ? value == member_get(base, field) : is_optional(field) && value == 0)
            continue;
        if (field->unit)
            fprintf(out, ", %s: %s%s", field->key, aw_text_real(value, text, sizeof text),
                    field->unit);
        else
            fprintf(out, ", %s: %s", field->key, aw_payload_family_names[(size_t)value]);
    }
}

enum aw_err aw_apps_write(FILE *out, const struct aw_app *apps, uint32_t app_count,
                          const struct aw_segment *kinds, uint32_t kind_count, struct aw_diag *diag)
{
    bool used[AW_SEGMENT_KINDS_MAX] = {0};
    AW_ASSERT(kind_count <= AW_SEGMENT_KINDS_MAX);
    for (uint32_t i = 0; i < app_count; i++) {
        for (uint32_t k = 0; k < apps[i].segment_count; k++) {
            const struct aw_segment *kind = kind_of(&apps[i].segment[k], kinds, kind_count);
            if (!kind)
                return aw_fail(diag, AW_ERR_NOTFOUND, "%s: no segment kind \"%s\"", apps[i].name,
                               apps[i].segment[k].name);
            used[kind - kinds] = true;
        }
    }
    fputs("segments:\n", out);
    for (uint32_t i = 0; i < kind_count; i++) {
        if (!used[i])
            continue;
        fprintf(out, "- {name: %s", kinds[i].name);
        members_write(out, &kinds[i], NULL);
        fputs("}\n", out);
    }
    fputs("apps:\n", out);
    for (uint32_t i = 0; i < app_count; i++) {
        fprintf(out, "- name: %s\n  segments:\n", apps[i].name);
        for (uint32_t k = 0; k < apps[i].segment_count; k++) {
            const struct aw_segment *segment = &apps[i].segment[k];
            fprintf(out, "  - {kind: %s", segment->name);
            members_write(out, segment, kind_of(segment, kinds, kind_count));
            fputs("}\n", out);
        }
    }
    if (ferror(out))
        return aw_fail(diag, AW_ERR_IO, "the applications could not be written");
    return AW_OK;
}
