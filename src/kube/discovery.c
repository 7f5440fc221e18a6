/* discovery.c - see discovery.h. */
#include "kube/discovery.h"

#include <stdio.h>
#include <string.h>

#include "base/http.h"

/* "33", "20+": the digits count. */
static int number_of(const char *text)
{
    int value = 0, count = 0;
    for (; *text >= '0' && *text <= '9' && count < 4; text++, count++)
        value = value * 10 + (*text - '0');
    return count ? value : -1;
}

static void keep_word(char *word, const char *text)
{
    size_t len = 0;
    for (; text[len] && len + 1 < AW_KUBE_WORD_MAX; len++)
        word[len] =
            (unsigned char)text[len] > ' ' && (unsigned char)text[len] < 0x7f ? text[len] : '?';
    word[len] = '\0';
}

enum aw_err aw_kube_read_version(const json_t *body, struct aw_kube_server *server,
                                 struct aw_diag *diag)
{
    const int major = number_of(aw_kube_text_at(body, "major"));
    const int minor = number_of(aw_kube_text_at(body, "minor"));
    if (major < 0 || minor < 0)
        return aw_fail(diag, AW_ERR_FORMAT, "expected the version of a Kubernetes server");
    server->major = major;
    server->minor = minor;
    keep_word(server->release, aw_kube_text_at(body, "gitVersion"));
    return AW_OK;
}

static bool has_version(const json_t *group, const char *version)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(group, "versions"), i, item)
    {
        if (!strcmp(aw_kube_text_at(item, "version"), version))
            return true;
    }
    return false;
}

enum aw_err aw_kube_read_groups(const json_t *body, struct aw_kube_server *server,
                                struct aw_diag *diag)
{
    /* versions that we can speak, the best first */
    const struct {
        const char *group;
        char *word;
        const char *versions[4];
    } known[] = {
        {"autoscaling", server->autoscaling, {"v2", "v2beta2", "v1"}},
        {"policy", server->policy, {"v1", "v1beta1"}},
        {"events.k8s.io", server->events, {"v1"}},
        {"coordination.k8s.io", server->leases, {"v1"}},
        {"metrics.k8s.io", server->metrics, {"v1", "v1beta1"}},
        {"autoscaling.k8s.io", server->vpa, {"v1", "v1beta2"}},
        {"keda.sh", server->keda, {"v1alpha1"}},
    };
    const json_t *groups = json_object_get(body, "groups");
    size_t i;
    json_t *group;
    if (!json_is_array(groups))
        return aw_fail(diag, AW_ERR_FORMAT, "expected the API groups of a server");
    json_array_foreach(groups, i, group)
    {
        for (uint32_t k = 0; k < sizeof known / sizeof *known; k++) {
            if (strcmp(aw_kube_text_at(group, "name"), known[k].group) != 0)
                continue;
            for (uint32_t v = 0; known[k].versions[v] && !known[k].word[0]; v++)
                if (has_version(group, known[k].versions[v]))
                    keep_word(known[k].word, known[k].versions[v]);
        }
    }
    return AW_OK;
}

enum aw_err aw_kube_read_core(const json_t *body, struct aw_kube_server *server,
                              struct aw_diag *diag)
{
    const json_t *resources = json_object_get(body, "resources");
    size_t i;
    json_t *resource;
    if (!json_is_array(resources))
        return aw_fail(diag, AW_ERR_FORMAT, "expected the resources of the core API");
    json_array_foreach(resources, i, resource)
    {
        const char *name = aw_kube_text_at(resource, "name");
        if (!strcmp(name, "pods/resize"))
            server->pod_resize = true;
        else if (!strcmp(name, "pods/eviction"))
            keep_word(server->eviction, aw_kube_text_at(resource, "version"));
    }
    return AW_OK;
}

enum aw_err aw_kube_discover(struct aw_kube *kube, struct aw_kube_server *ret_server,
                             struct aw_diag *diag)
{
    static const struct {
        const char *path;
        enum aw_err (*read)(const json_t *body, struct aw_kube_server *server,
                            struct aw_diag *diag);
    } questions[] = {
        {"/version", aw_kube_read_version},
        {"/apis", aw_kube_read_groups},
        {"/api/v1", aw_kube_read_core},
    };
    struct aw_kube_server server = {0};
    for (uint32_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        const struct aw_kube_request request = {.path = questions[i].path};
        json_t *body = NULL;
        enum aw_err err = aw_kube_send(kube, &request, &body, NULL, diag);
        err = err ? err : questions[i].read(body, &server, diag);
        json_decref(body);
        if (err)
            return err;
    }
    *ret_server = server;
    return AW_OK;
}

/* "apps/v1" into its two parts; "v1" has the empty group. */
static enum aw_err split_version(const char *api_version, struct aw_kube_found *found,
                                 struct aw_diag *diag)
{
    const char *slash = strchr(api_version, '/');
    const char *version = slash ? slash + 1 : api_version;
    const size_t group_len = slash ? (size_t)(slash - api_version) : 0;
    if (group_len >= sizeof found->group || (slash && !group_len) ||
        strlen(version) >= sizeof found->version || !aw_kube_name_valid(version))
        return aw_fail(diag, AW_ERR_CONFIG, "expected an apiVersion such as apps/v1");
    memcpy(found->group, api_version, group_len);
    found->group[group_len] = '\0';
    snprintf(found->version, sizeof found->version, "%s", version);
    return AW_OK;
}

enum aw_err aw_kube_find_kind(struct aw_kube *kube, const char *api_version, const char *kind,
                              struct aw_kube_found *ret_found, struct aw_diag *diag)
{
    struct aw_kube_found found = {0};
    char path[AW_KUBE_PATH_MAX], scale[AW_KUBE_NAME_MAX + 8], quoted[AW_TEXT_QUOTE_MAX];
    struct aw_text text;
    json_t *body = NULL, *resource;
    size_t i;
    enum aw_err err = split_version(api_version, &found, diag);
    if (err)
        return err;
    if (found.group[0] && !aw_kube_name_valid(found.group))
        return aw_fail(diag, AW_ERR_CONFIG, "expected an apiVersion such as apps/v1");
    aw_text_init(&text, path, sizeof path);
    aw_text_add(&text, found.group[0] ? "/apis/" : "/api");
    aw_http_escape(&text, found.group, strlen(found.group));
    aw_text_add(&text, "/");
    aw_http_escape(&text, found.version, strlen(found.version));
    const struct aw_kube_request request = {.path = path};
    err = aw_kube_send(kube, &request, &body, NULL, diag);
    if (err)
        return err;
    const json_t *resources = json_object_get(body, "resources");
    json_array_foreach(resources, i, resource)
    {
        const char *name = aw_kube_text_at(resource, "name");
        if (!strchr(name, '/') && aw_kube_name_valid(name) &&
            !strcmp(aw_kube_text_at(resource, "kind"), kind)) {
            snprintf(found.plural, sizeof found.plural, "%s", name);
            found.kind.namespaced = json_is_true(json_object_get(resource, "namespaced"));
        }
    }
    snprintf(scale, sizeof scale, "%s/scale", found.plural);
    json_array_foreach(resources, i, resource)
    {
        if (!strcmp(aw_kube_text_at(resource, "name"), scale))
            found.scalable = true;
    }
    json_decref(body);
    if (!found.plural[0])
        return aw_fail(diag, AW_ERR_NOTFOUND, "the server has no kind %s in %s",
                       aw_text_quote(kind, strlen(kind), quoted, sizeof quoted), api_version);
    snprintf(found.name, sizeof found.name, "%s", kind);
    *ret_found = found;
    ret_found->kind.group = ret_found->group;
    ret_found->kind.version = ret_found->version;
    ret_found->kind.plural = ret_found->plural;
    ret_found->kind.kind = ret_found->name;
    return AW_OK;
}
