/* object.c - paths are built from checked names; times are RFC 3339. */
#include "kube/object.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/http.h"

/* clang-format off */
const struct aw_kube_kind
    aw_kube_pods           = {"", "v1", "pods", "Pod", true},
    aw_kube_nodes          = {"", "v1", "nodes", "Node", false},
    aw_kube_deployments    = {"apps", "v1", "deployments", "Deployment", true},
    aw_kube_statefulsets   = {"apps", "v1", "statefulsets", "StatefulSet", true},
    aw_kube_replicasets    = {"apps", "v1", "replicasets", "ReplicaSet", true},
    aw_kube_leases         = {"coordination.k8s.io", "v1", "leases", "Lease", true},
    aw_kube_events_core    = {"", "v1", "events", "Event", true},
    aw_kube_events_v1      = {"events.k8s.io", "v1", "events", "Event", true},
    aw_kube_access_reviews = {"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                              "SelfSubjectAccessReview", false};
/* clang-format on */

bool aw_kube_name_valid(const char *name)
{
    const size_t len = strnlen(name, AW_KUBE_NAME_MAX);
    if (len == 0 || len == AW_KUBE_NAME_MAX || !strcmp(name, ".") || !strcmp(name, ".."))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] <= ' ' || (unsigned char)name[i] >= 0x7f || name[i] == '/' ||
            name[i] == '%')
            return false;
    return true;
}

static enum aw_err add_segment(struct aw_text *text, const char *what, const char *name,
                               struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    if (!aw_kube_name_valid(name))
        return aw_fail(diag, AW_ERR_CONFIG, "expected %s, found %s", what,
                       aw_text_quote(name, strlen(name), quoted, sizeof quoted));
    aw_text_add_bytes(text, "/", 1);
    aw_http_escape(text, name, strlen(name));
    return AW_OK;
}

enum aw_err aw_kube_path(struct aw_text *text, const struct aw_kube_ref *ref, struct aw_diag *diag)
{
    const struct aw_kube_kind *kind = ref->kind;
    enum aw_err err = AW_OK;
    aw_text_add(text, kind->group[0] ? "/apis" : "/api");
    if (kind->group[0])
        err = add_segment(text, "an API group", kind->group, diag);
    err = err ? err : add_segment(text, "an API version", kind->version, diag);
    if (!err && kind->namespaced && ref->ns) {
        aw_text_add(text, "/namespaces");
        err = add_segment(text, "a namespace", ref->ns, diag);
    } else if (!err && kind->namespaced && ref->name) {
        err = aw_fail(diag, AW_ERR_CONFIG, "a %s has a namespace, and none was given", kind->kind);
    }
    err = err ? err : add_segment(text, "a resource", kind->plural, diag);
    if (!err && ref->name)
        err = add_segment(text, "the name of an object", ref->name, diag);
    if (!err && ref->sub)
        err = add_segment(text, "a subresource", ref->sub, diag);
    if (!err && text->cut)
        err = aw_fail(diag, AW_ERR_LIMIT, "the path of a %s is too long", kind->kind);
    return err;
}

void aw_kube_path_query(struct aw_text *text, const char *key, const char *value)
{
    if (!value || !value[0])
        return;
    aw_text_add(text, "%c%s=", strchr(text->buf, '?') ? '&' : '?', key);
    aw_http_escape(text, value, strlen(value));
}

const char *aw_kube_api_version(const struct aw_kube_kind *kind, char *buf, size_t size)
{
    snprintf(buf, size, "%s%s%s", kind->group, kind->group[0] ? "/" : "", kind->version);
    return buf;
}

enum aw_err aw_kube_meta_read(const json_t *object, struct aw_kube_meta *ret_meta,
                              struct aw_diag *diag)
{
    const json_t *meta = json_object_get(object, "metadata");
    if (!json_is_object(meta))
        return aw_fail(diag, AW_ERR_FORMAT, "expected an object with metadata");
    const struct aw_kube_meta found = {
        .ns = aw_kube_text_at(meta, "namespace"),
        .name = aw_kube_text_at(meta, "name"),
        .uid = aw_kube_text_at(meta, "uid"),
        .resource_version = aw_kube_text_at(meta, "resourceVersion"),
        .generation = aw_kube_int_at(meta, "generation", 0),
        .deleting = json_is_string(json_object_get(meta, "deletionTimestamp")),
    };
    if (!aw_kube_name_valid(found.name) || (found.ns[0] && !aw_kube_name_valid(found.ns)))
        return aw_fail(diag, AW_ERR_FORMAT, "expected metadata with the name of an object");
    if (strlen(found.uid) >= AW_KUBE_UID_MAX ||
        strlen(found.resource_version) >= AW_KUBE_VERSION_MAX)
        return aw_fail(diag, AW_ERR_FORMAT, "%s: uid or resourceVersion is too long", found.name);
    *ret_meta = found;
    return AW_OK;
}

const char *aw_kube_meta_key(const struct aw_kube_meta *meta, char *buf, size_t size)
{
    snprintf(buf, size, "%s%s%s", meta->ns, meta->ns[0] ? "/" : "", meta->name);
    return buf;
}

/* Whether a value is the text `wanted`, or true where that says "true". */
static bool says(const json_t *value, const char *wanted, size_t len)
{
    if (json_is_true(value))
        return len == 4 && !memcmp(wanted, "true", 4);
    return json_is_string(value) && json_string_length(value) == len &&
           !memcmp(json_string_value(value), wanted, len);
}

/* The first item of a list whose `key` says `wanted`. */
static const json_t *item_with(const json_t *list, const char *key, size_t key_len,
                               const char *wanted, size_t wanted_len)
{
    size_t i;
    json_t *item;
    if (!json_is_array(list))
        return NULL;
    json_array_foreach(list, i, item)
    {
        if (says(json_object_getn(item, key, key_len), wanted, wanted_len))
            return item;
    }
    return NULL;
}

const json_t *aw_kube_at(const json_t *value, const char *path)
{
    while (value && *path) {
        if (*path == '[') {
            const size_t len = strcspn(path + 1, "]");
            const char *inside = path + 1, *equals = memchr(inside, '=', len);
            AW_ASSERT(inside[len] == ']');
            value = equals ? item_with(value, inside, (size_t)(equals - inside), equals + 1,
                                       len - (size_t)(equals - inside) - 1)
                           : json_object_getn(value, inside, len);
            path += len + 2;
        } else {
            const size_t len = strcspn(path, ".[");
            value = json_object_getn(value, path, len);
            path += len;
        }
        path += *path == '.';
    }
    return value;
}

const char *aw_kube_text_at(const json_t *value, const char *path)
{
    const char *text = json_string_value(aw_kube_at(value, path));
    return text ? text : "";
}

int64_t aw_kube_int_at(const json_t *value, const char *path, int64_t fallback)
{
    const json_t *found = aw_kube_at(value, path);
    return json_is_integer(found) ? (int64_t)json_integer_value(found) : fallback;
}

/* Reads `count` digits; -1 when they are not. */
static int digits(const char **at, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return -1;
        value = value * 10 + (**at - '0');
    }
    return value;
}

static bool skip(const char **at, const char *any)
{
    if (!**at || !strchr(any, **at))
        return false;
    (*at)++;
    return true;
}

enum aw_err aw_kube_time_parse(const char *text, int64_t *ret_us)
{
    const char *at = text;
    struct tm tm = {0};
    int64_t fraction_us = 0, unit = 100000, offset_s = 0;
    bool fine =
        (tm.tm_year = digits(&at, 4)) >= 0 && skip(&at, "-") && (tm.tm_mon = digits(&at, 2)) >= 1 &&
        skip(&at, "-") && (tm.tm_mday = digits(&at, 2)) >= 1 && skip(&at, "Tt") &&
        (tm.tm_hour = digits(&at, 2)) >= 0 && skip(&at, ":") && (tm.tm_min = digits(&at, 2)) >= 0 &&
        skip(&at, ":") && (tm.tm_sec = digits(&at, 2)) >= 0;
    if (!fine || tm.tm_mon > 12 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 ||
        tm.tm_sec > 60)
        return AW_ERR_FORMAT;
    if (skip(&at, ".")) {
        if (*at < '0' || *at > '9')
            return AW_ERR_FORMAT;
        for (; *at >= '0' && *at <= '9'; at++, unit /= 10)
            fraction_us += (*at - '0') * unit; /* what is finer is cut */
    }
    if (!skip(&at, "Zz")) {
        const int sign = *at == '-' ? -1 : 1;
        if (!skip(&at, "+-"))
            return AW_ERR_FORMAT;
        const int hours = digits(&at, 2), colon = skip(&at, ":"), minutes = digits(&at, 2);
        if (hours < 0 || hours > 23 || !colon || minutes < 0 || minutes > 59)
            return AW_ERR_FORMAT;
        offset_s = sign * (hours * 3600 + minutes * 60);
    }
    if (*at)
        return AW_ERR_FORMAT;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_us = ((int64_t)timegm(&tm) - offset_s) * 1000000 + fraction_us;
    return AW_OK;
}

const char *aw_kube_time_print(int64_t us, char *buf, size_t size)
{
    int64_t fraction = us % 1000000;
    fraction += fraction < 0 ? 1000000 : 0;
    const time_t seconds = (time_t)((us - fraction) / 1000000);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || tm.tm_year > 9999 - 1900 || tm.tm_year < -1900)
        return aw_kube_time_print(0, buf, size);
    snprintf(buf, size, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)fraction);
    return buf;
}
