/* recommended.c - a recommendation as a patch of its target. */
#include "controller/recommended.h"

#include "base/quantity.h"
#include "controller/sizing.h"

#include <string.h>

static const char *const resource_name[AW__RESOURCES] = {"cpu", "memory"};
static const char *const side_name[] = {"requests", "limits"};

/* -1: not said. */
static enum aw_err amount_read(const json_t *container, uint32_t side, uint32_t resource,
                               int64_t *ret, struct aw_diag *diag)
{
    const json_t *of = json_object_get(json_object_get(container, "resources"), side_name[side]);
    const json_t *value = json_object_get(of, resource_name[resource]);
    char digits[32];
    const char *text = json_string_value(value);
    *ret = -1;
    if (json_is_integer(value)) { /* `cpu: 2` is a number in YAML */
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        text = digits;
    }
    if (!text)
        return AW_OK;
    return resource == AW__CPU ? aw_quantity_parse_cpu(text, ret, diag)
                               : aw_quantity_parse_memory(text, ret, diag);
}

static enum aw_err resources_read(const json_t *container, struct aw__resources *ret,
                                  struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t r = 0; !err && r < AW__RESOURCES; r++) {
        err = amount_read(container, 0, r, &ret->request[r], diag);
        err = err ? err : amount_read(container, 1, r, &ret->limit[r], diag);
    }
    return err;
}

/* The container that is sized; NULL: there is none of that name. */
static const json_t *sized(const json_t *containers, const char *name)
{
    for (size_t i = 0; i < json_array_size(containers); i++) {
        const json_t *container = json_array_get(containers, i);
        if (!*name || !strcmp(aw_kube_text_at(container, "name"), name))
            return container;
    }
    return NULL;
}

static enum aw_err others_sum(const json_t *containers, const json_t *but,
                              struct aw__resources *ret, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    *ret = (struct aw__resources){0};
    for (size_t i = 0; !err && i < json_array_size(containers); i++) {
        struct aw__resources one;
        if (json_array_get(containers, i) == but)
            continue;
        err = resources_read(json_array_get(containers, i), &one, diag);
        for (uint32_t r = 0; !err && r < AW__RESOURCES; r++) {
            ret->request[r] += one.request[r] > 0 ? one.request[r] : 0;
            ret->limit[r] += one.limit[r] > 0 ? one.limit[r] : 0;
        }
    }
    return err;
}

static json_t *amount_json(uint32_t resource, int64_t amount)
{
    char text[AW_QUANTITY_TEXT_MAX];
    if (amount < 0)
        return json_null();
    return json_string(resource == AW__CPU
                           ? aw_quantity_print_cpu(amount, AW_QUANTITY_MILLI, text, sizeof text)
                           : aw_quantity_print_memory(amount, text, sizeof text));
}

/* Fields in which the two differ, as `which` has them; NULL: none, or no memory. */
static json_t *resources_json(const struct aw__resources *which, const struct aw__resources *a,
                              const struct aw__resources *b)
{
    json_t *all = NULL;
    for (uint32_t side = 0; side < 2; side++) {
        json_t *of = NULL;
        for (uint32_t r = 0; r < AW__RESOURCES; r++) {
            const int64_t x = side ? a->limit[r] : a->request[r];
            const int64_t y = side ? b->limit[r] : b->request[r];
            if (x == y)
                continue;
            of = of ? of : json_object();
            json_object_set_new(of, resource_name[r],
                                amount_json(r, side ? which->limit[r] : which->request[r]));
        }
        if (!of)
            continue;
        all = all ? all : json_object();
        json_object_set_new(all, side_name[side], of);
    }
    return all;
}

/* A patch of `target`; `replicas` < 0: they stay; takes `resources`, NULL: they stay. */
static json_t *patch_json(const json_t *target, int64_t replicas, const char *container,
                          json_t *resources)
{
    const char *ns = aw_kube_text_at(target, "metadata.namespace");
    json_t *spec = json_object();
    json_t *patch = json_pack(
        "{s:s, s:s, s:{s:s, s:s*}, s:o}", "apiVersion", aw_kube_text_at(target, "apiVersion"),
        "kind", aw_kube_text_at(target, "kind"), "metadata", "name",
        aw_kube_text_at(target, "metadata.name"), "namespace", *ns ? ns : NULL, "spec", spec);
    if (replicas >= 0)
        json_object_set_new(spec, "replicas", json_integer(replicas));
    if (resources)
        json_object_set_new(spec, "template",
                            json_pack("{s:{s:[{s:s, s:o}]}}", "spec", "containers", "name",
                                      container, "resources", resources));
    return patch;
}

enum aw_err aw_recommended_patch(const json_t *object, const json_t *target, json_t **ret_now,
                                 json_t **ret_wanted, struct aw_diag *diag)
{
    struct aw_mpa_status status;
    aw_mpa_status_read(object, &status);
    const struct aw_mpa_recommendation *rec = &status.recommendation;
    if (!rec->given)
        return aw_fail(diag, AW_ERR_NODATA, "no recommendation yet");
    const json_t *containers = aw_kube_at(target, "spec.template.spec.containers");
    const json_t *container = sized(containers, rec->container);
    if (!container)
        return aw_fail(diag, AW_ERR_FORMAT, "expected a container \"%s\" in the template",
                       rec->container);
    struct aw__resources now = {0}, wanted = {0}, others;
    enum aw_err err = resources_read(container, &now, diag);
    err = err ? err : others_sum(containers, container, &others, diag);
    if (err)
        return err;
    const int64_t sizes[AW__RESOURCES] = {rec->cpu_millicores > 0 ? rec->cpu_millicores : -1,
                                          rec->memory_bytes > 0 ? rec->memory_bytes : -1};
    aw__size(&now, sizes, &aw__limit_range_none, &others, &wanted);
    const int64_t replicas = aw_kube_int_at(target, "spec.replicas", 1);
    const bool rescaled = rec->replicas >= 0 && rec->replicas != replicas;
    json_t *resources_now = resources_json(&now, &now, &wanted);
    json_t *resources_wanted = resources_json(&wanted, &now, &wanted);
    const char *name = aw_kube_text_at(container, "name");
    *ret_now = *ret_wanted = NULL;
    if (!rescaled && !resources_wanted)
        return AW_OK;
    *ret_now = patch_json(target, rescaled ? replicas : -1, name, resources_now);
    *ret_wanted = patch_json(target, rescaled ? rec->replicas : -1, name, resources_wanted);
    if (*ret_now && *ret_wanted)
        return AW_OK;
    json_decref(*ret_now);
    json_decref(*ret_wanted);
    *ret_now = *ret_wanted = NULL;
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for a patch");
}
