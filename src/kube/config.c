/* config.c - kubeconfig files, merged; the service account of a pod. */
#include "kube/config.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "base/tree.h"
#include "kube/object.h"

#define SERVICE_FOLDER  "/var/run/secrets/kubernetes.io/serviceaccount"
#define SOURCE_MAX      512u
#define NAMESPACE_BYTES 4096u

/* The files that were found, in order of precedence. */
struct files {
    struct aw_tree tree[AW_KUBE_FILES_MAX];
    char *folder[AW_KUBE_FILES_MAX]; /* of the file: relative paths begin there */
    uint32_t count;
};

/* A value and the file that it is from. */
struct found {
    const struct aw_tree *tree;
    const struct aw_node *node; /* NULL: nowhere */
    const char *folder;
};

char *aw__kube_keep(const struct aw_alloc *alloc, const char *bytes, size_t len)
{
    char *copy = aw_alloc_new(alloc, len + 1, 1);
    if (copy && len)
        memcpy(copy, bytes, len);
    return copy;
}

void aw__kube_wipe(const struct aw_alloc *alloc, char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    aw_alloc_free(alloc, text);
}

/* Decodes base64 as Go does: padded, line breaks allowed. AW_ERR_FORMAT, AW_ERR_NOMEM. */
static enum aw_err base64_decode(const char *text, size_t len, const struct aw_alloc *alloc,
                                 char **ret_bytes, size_t *ret_len)
{
    int first = 0, last = 0;
    /* to OpenSSL a dash is the end of the data, as in a PEM file */
    if (len > 2 * AW_KUBE_PEM_BYTES_MAX || memchr(text, '-', len))
        return AW_ERR_FORMAT;
    char *bytes = aw_alloc_new(alloc, len / 4 * 3 + 4, 1);
    EVP_ENCODE_CTX *context = EVP_ENCODE_CTX_new();
    enum aw_err err = bytes && context ? AW_OK : AW_ERR_NOMEM;
    if (!err) {
        EVP_DecodeInit(context);
        if (EVP_DecodeUpdate(context, (unsigned char *)bytes, &first, (const unsigned char *)text,
                             (int)len) < 0 ||
            EVP_DecodeFinal(context, (unsigned char *)bytes + first, &last) < 0)
            err = AW_ERR_FORMAT;
    }
    EVP_ENCODE_CTX_free(context);
    if (err) {
        aw_alloc_free(alloc, bytes);
        return err;
    }
    *ret_len = (size_t)(first + last);
    *ret_bytes = bytes;
    return AW_OK;
}

static enum aw_err no_memory(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for a cluster's configuration");
}

static bool is_set(const struct aw_node *node)
{
    return node && node->kind != AW_NODE_NULL && !(node->kind == AW_NODE_STRING && !node->text_len);
}

/* Keeps the text under `key` of a map; absent, null and empty leave it NULL. */
static enum aw_err keep_text(struct aw_kube_config *config, const struct found *in, const char *key,
                             char **ret, struct aw_diag *diag)
{
    const struct aw_node *node = aw_node_find(in->node, key);
    const char *text;
    if (!is_set(node))
        return AW_OK;
    enum aw_err err = aw_tree_scalar(in->tree, node, &text, diag);
    if (!err && !(*ret = aw__kube_keep(config->alloc, text, strlen(text))))
        err = no_memory(diag);
    return err;
}

/* A path as the file means it: relative to the file itself, not to where we were started. */
static enum aw_err keep_path(struct aw_kube_config *config, const struct found *in, const char *key,
                             char **ret, struct aw_diag *diag)
{
    char *plain = NULL, joined[AW_FILE_PATH_MAX];
    enum aw_err err = keep_text(config, in, key, &plain, diag);
    if (err || !plain)
        return err;
    const bool absolute = plain[0] == '/' || !in->folder;
    const int len = snprintf(joined, sizeof joined, "%s%s%s", absolute ? "" : in->folder,
                             absolute ? "" : "/", plain);
    aw_alloc_free(config->alloc, plain);
    if (len < 0 || (size_t)len >= sizeof joined)
        return aw_tree_expected(in->tree, aw_node_find(in->node, key), AW_ERR_LIMIT, diag,
                                "a shorter path");
    *ret = aw__kube_keep(config->alloc, joined, (size_t)len);
    return *ret ? AW_OK : no_memory(diag);
}

/* "x-data" in base64, which wins, or the file "x". */
static enum aw_err keep_pem(struct aw_kube_config *config, const struct found *in,
                            const char *data_key, const char *file_key, struct aw_kube_pem *ret,
                            struct aw_diag *diag)
{
    const struct aw_node *node = aw_node_find(in->node, data_key);
    if (!is_set(node))
        return keep_path(config, in, file_key, &ret->file, diag);
    enum aw_err err =
        node->kind == AW_NODE_STRING
            ? base64_decode(node->text, node->text_len, config->alloc, &ret->bytes, &ret->len)
            : AW_ERR_FORMAT;
    if (err == AW_ERR_NOMEM)
        return no_memory(diag);
    if (err) { /* not quoted: it may be a key */
        aw_fail(diag, AW_ERR_CONFIG, "expected base64 of a PEM text, found something else");
        return aw_tree_place(in->tree, node, AW_ERR_CONFIG, diag);
    }
    return AW_OK;
}

static enum aw_err keep_flag(const struct found *in, const char *key, bool *ret,
                             struct aw_diag *diag)
{
    const struct aw_node *node = aw_node_find(in->node, key);
    return is_set(node) ? aw_tree_bool(in->tree, node, ret, diag) : AW_OK;
}

/* The entry `name` of one of the lists: `clusters: [{name: x, cluster: {...}}]`. */
static enum aw_err find_named(const struct files *files, const char *list, const char *member,
                              const char *name, struct found *ret, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    for (uint32_t i = 0; i < files->count; i++) {
        const struct aw_tree *tree = &files->tree[i];
        const struct aw_node *entries = aw_node_find(tree->first, list);
        if (!is_set(entries))
            continue;
        enum aw_err err = aw_tree_list(tree, entries, diag);
        for (const struct aw_node *entry = err ? NULL : entries->first; entry;
             entry = entry->next) {
            const struct aw_node *named = aw_node_find(entry, "name");
            if (!named || named->kind == AW_NODE_LIST || named->kind == AW_NODE_MAP ||
                strcmp(named->text, name))
                continue;
            const struct aw_node *node = aw_node_find(entry, member);
            if (is_set(node))
                err = aw_tree_map(tree, node, diag);
            if (!err) /* an entry without its member is an empty one: `user: {}` may be left out */
                *ret = (struct found){tree, is_set(node) ? node : entry, files->folder[i]};
            return err;
        }
        if (err)
            return err;
    }
    return aw_fail(diag, AW_ERR_CONFIG, "no entry named %s in the list \"%s\" of the kubeconfig",
                   aw_text_quote(name, strlen(name), quoted, sizeof quoted), list);
}

/* What a user entry may ask for that we do not do. */
static enum aw_err refuse_others(const struct found *user, struct aw_diag *diag)
{
    static const struct {
        const char *key, *instead;
    } others[] = {
        {"as", "impersonation is not supported; use a context whose user has the rights itself"},
        {"as-uid", "impersonation is not supported"},
        {"as-groups", "impersonation is not supported"},
        {"as-user-extra", "impersonation is not supported"},
        {"auth-provider", "auth providers were removed from Kubernetes 1.26; use an exec plugin"},
        {"username", "passwords were removed from Kubernetes 1.19; use a token or a certificate"},
        {"password", "passwords were removed from Kubernetes 1.19; use a token or a certificate"},
    };
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct aw_node *node = aw_node_find(user->node, others[i].key);
        if (!is_set(node))
            continue;
        aw_fail(diag, AW_ERR_UNSUPPORTED, "%s", others[i].instead);
        return aw_tree_place_key(user->tree, node, AW_ERR_UNSUPPORTED, diag);
    }
    return AW_OK;
}

static enum aw_err keep_args(struct aw_kube_config *config, const struct found *exec,
                             struct aw_diag *diag)
{
    const struct aw_node *args = aw_node_find(exec->node, "args");
    if (!is_set(args))
        return AW_OK;
    enum aw_err err = aw_tree_list(exec->tree, args, diag);
    for (const struct aw_node *arg = err ? NULL : args->first; arg && !err; arg = arg->next) {
        const char *text;
        if (config->exec.arg_count == AW_KUBE_EXEC_ARGS_MAX)
            return aw_tree_expected(exec->tree, arg, AW_ERR_LIMIT, diag, "fewer arguments");
        err = aw_tree_scalar(exec->tree, arg, &text, diag);
        if (!err && !(config->exec.args[config->exec.arg_count++] =
                          aw__kube_keep(config->alloc, text, strlen(text))))
            err = no_memory(diag);
    }
    return err;
}

static enum aw_err keep_env(struct aw_kube_config *config, const struct found *exec,
                            struct aw_diag *diag)
{
    const struct aw_node *env = aw_node_find(exec->node, "env");
    if (!is_set(env))
        return AW_OK;
    enum aw_err err = aw_tree_list(exec->tree, env, diag);
    for (const struct aw_node *item = err ? NULL : env->first; item && !err; item = item->next) {
        const struct aw_node *name = NULL, *value = aw_node_find(item, "value");
        const char *name_text, *value_text = "";
        if (config->exec.env_count == AW_KUBE_EXEC_ENV_MAX)
            return aw_tree_expected(exec->tree, item, AW_ERR_LIMIT, diag, "fewer variables");
        err = aw_tree_require(exec->tree, item, "name", &name, diag);
        err = err ? err : aw_tree_scalar(exec->tree, name, &name_text, diag);
        if (!err && value && value->kind != AW_NODE_NULL)
            err = aw_tree_scalar(exec->tree, value, &value_text, diag);
        if (err)
            break;
        const size_t size = strlen(name_text) + strlen(value_text) + 2;
        char *pair = aw_alloc_new(config->alloc, size, 1);
        if (!pair)
            return no_memory(diag);
        snprintf(pair, size, "%s=%s", name_text, value_text);
        config->exec.env[config->exec.env_count++] = pair;
    }
    return err;
}

static enum aw_err keep_exec(struct aw_kube_config *config, const struct found *user,
                             struct aw_diag *diag)
{
    static const char *const versions[] = {"client.authentication.k8s.io/v1",
                                           "client.authentication.k8s.io/v1beta1"};
    const struct aw_node *node = aw_node_find(user->node, "exec"), *command = NULL;
    if (!is_set(node))
        return AW_OK;
    const struct found exec = {user->tree, node, user->folder};
    const struct aw_node *version = aw_node_find(node, "apiVersion");
    const struct aw_node *mode = aw_node_find(node, "interactiveMode");
    enum aw_err err = aw_tree_map(exec.tree, node, diag);
    err = err ? err : aw_tree_require(exec.tree, node, "command", &command, diag);
    if (err)
        return err;
    const bool known = version && version->kind == AW_NODE_STRING &&
                       (!strcmp(version->text, versions[0]) || !strcmp(version->text, versions[1]));
    if (!known)
        return aw_tree_expected(exec.tree, version ? version : node, AW_ERR_UNSUPPORTED, diag,
                                "apiVersion client.authentication.k8s.io/v1 or v1beta1");
    if (is_set(mode) && mode->kind == AW_NODE_STRING && !strcmp(mode->text, "Always"))
        return aw_tree_expected(exec.tree, mode, AW_ERR_UNSUPPORTED, diag,
                                "a plugin that needs no terminal (Never or IfAvailable)");
    /* a bare name is looked for in PATH; anything with a slash is a path */
    err = command->kind == AW_NODE_STRING && strchr(command->text, '/')
              ? keep_path(config, &exec, "command", &config->exec.command, diag)
              : keep_text(config, &exec, "command", &config->exec.command, diag);
    if (!err && !config->exec.command)
        err = aw_tree_expected(exec.tree, command, AW_ERR_CONFIG, diag, "a program");
    err = err ? err : keep_text(config, &exec, "apiVersion", &config->exec.api_version, diag);
    err = err ? err : keep_text(config, &exec, "installHint", &config->exec.install_hint, diag);
    err = err ? err : keep_flag(&exec, "provideClusterInfo", &config->exec.cluster_info, diag);
    err = err ? err : keep_args(config, &exec, diag);
    return err ? err : keep_env(config, &exec, diag);
}

static enum aw_err keep_cluster(struct aw_kube_config *config, const struct found *cluster,
                                struct aw_diag *diag)
{
    const struct aw_node *server = aw_node_find(cluster->node, "server");
    enum aw_err err = keep_text(config, cluster, "server", &config->server, diag);
    if (!err && (!config->server || (strncmp(config->server, "https://", 8) != 0 &&
                                     strncmp(config->server, "http://", 7) != 0)))
        err = aw_tree_expected(cluster->tree, server ? server : cluster->node, AW_ERR_CONFIG, diag,
                               "server: https://HOST:PORT");
    if (err)
        return err;
    for (size_t len = strlen(config->server); len && config->server[len - 1] == '/'; len--)
        config->server[len - 1] = '\0';
    err = keep_pem(config, cluster, "certificate-authority-data", "certificate-authority",
                   &config->ca, diag);
    err = err ? err : keep_flag(cluster, "insecure-skip-tls-verify", &config->insecure, diag);
    err = err ? err : keep_text(config, cluster, "tls-server-name", &config->tls_server_name, diag);
    err = err ? err : keep_text(config, cluster, "proxy-url", &config->proxy_url, diag);
    if (!err && config->insecure && (config->ca.bytes || config->ca.file))
        err = aw_tree_expected(cluster->tree, cluster->node, AW_ERR_CONFIG, diag,
                               "either insecure-skip-tls-verify or a certificate authority");
    return err;
}

static enum aw_err keep_user(struct aw_kube_config *config, const struct found *user,
                             struct aw_diag *diag)
{
    enum aw_err err = refuse_others(user, diag);
    err = err ? err
              : keep_pem(config, user, "client-certificate-data", "client-certificate",
                         &config->cert, diag);
    err = err ? err : keep_pem(config, user, "client-key-data", "client-key", &config->key, diag);
    err = err ? err : keep_text(config, user, "token", &config->token, diag);
    err = err ? err : keep_path(config, user, "tokenFile", &config->token_file, diag);
    err = err ? err : keep_exec(config, user, diag);
    const bool cert = config->cert.bytes || config->cert.file;
    if (!err && cert != (config->key.bytes || config->key.file))
        err = aw_tree_expected(user->tree, user->node, AW_ERR_CONFIG, diag,
                               "a client certificate together with its key");
    return err;
}

/* The first file that says which context is the current one. */
static enum aw_err current_context(const struct files *files, const char **ret,
                                   struct aw_diag *diag)
{
    for (uint32_t i = 0; i < files->count; i++) {
        const struct aw_node *node = aw_node_find(files->tree[i].first, "current-context");
        if (is_set(node))
            return aw_tree_scalar(&files->tree[i], node, ret, diag);
    }
    return aw_fail(diag, AW_ERR_CONFIG, "the kubeconfig has no current-context; name a context");
}

static enum aw_err choose(struct aw_kube_config *config, const struct files *files,
                          const char *context_name, struct aw_diag *diag)
{
    struct found context = {0}, cluster = {0}, user = {0};
    const struct aw_node *name = NULL;
    const char *text = NULL;
    char source[SOURCE_MAX], quoted[AW_TEXT_QUOTE_MAX];
    enum aw_err err = context_name ? AW_OK : current_context(files, &context_name, diag);
    err = err ? err : find_named(files, "contexts", "context", context_name, &context, diag);
    err = err ? err : aw_tree_require(context.tree, context.node, "cluster", &name, diag);
    err = err ? err : aw_tree_scalar(context.tree, name, &text, diag);
    err = err ? err : find_named(files, "clusters", "cluster", text, &cluster, diag);
    err = err ? err : keep_cluster(config, &cluster, diag);
    name = err ? NULL : aw_node_find(context.node, "user");
    if (!err && is_set(name)) { /* a context without a user asks anonymously */
        err = aw_tree_scalar(context.tree, name, &text, diag);
        err = err ? err : find_named(files, "users", "user", text, &user, diag);
        err = err ? err : keep_user(config, &user, diag);
    }
    err = err ? err : keep_text(config, &context, "namespace", &config->ns, diag);
    if (err)
        return err;
    if (!config->ns)
        config->ns = aw__kube_keep(config->alloc, "default", strlen("default"));
    snprintf(source, sizeof source, "context %s of %s",
             aw_text_quote(context_name, strlen(context_name), quoted, sizeof quoted),
             context.tree->file);
    config->source = aw__kube_keep(config->alloc, source, strlen(source));
    return config->ns && config->source ? AW_OK : no_memory(diag);
}

static void close_files(struct files *files, const struct aw_alloc *alloc)
{
    for (uint32_t i = 0; i < files->count; i++) {
        aw_tree_deinit(&files->tree[i]);
        aw_alloc_free(alloc, files->folder[i]);
    }
    aw_alloc_free(alloc, files);
}

/* Takes a file's bytes in; an empty file says nothing. */
static enum aw_err add_bytes(struct files *files, const char *path, const char *bytes, size_t len,
                             const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_tree *tree = &files->tree[files->count];
    const char *slash = strrchr(path, '/');
    size_t blank = 0;
    while (blank < len && (unsigned char)bytes[blank] <= ' ')
        blank++;
    if (blank == len)
        return AW_OK;
    enum aw_err err = aw_tree_load(tree, path, bytes, len, alloc, diag);
    const struct aw_node *root = NULL;
    err = err ? err : aw_tree_only(tree, &root, diag);
    err = err ? err : aw_tree_map(tree, root, diag);
    if (!err && slash &&
        !(files->folder[files->count] =
              aw__kube_keep(alloc, path, slash == path ? 1 : (size_t)(slash - path))))
        err = no_memory(diag);
    if (err)
        aw_tree_deinit(tree);
    else
        files->count++;
    return err;
}

static enum aw_err add_file(struct files *files, const char *path, bool required,
                            const struct aw_alloc *alloc, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t len = 0;
    enum aw_err err = aw_file_read(path, AW_KUBE_CONFIG_BYTES_MAX, alloc, &bytes, &len, diag);
    if (err == AW_ERR_NOTFOUND && !required)
        return AW_OK;
    if (err)
        return err;
    err = add_bytes(files, path, bytes, len, alloc, diag);
    explicit_bzero(bytes, len);
    aw_alloc_free(alloc, bytes);
    return err;
}

/* The files of a list like PATH. */
static enum aw_err add_list(struct files *files, const char *list, const struct aw_alloc *alloc,
                            struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    enum aw_err err = AW_OK;
    uint32_t seen = 0;
    while (!err && *list) {
        const size_t len = strcspn(list, ":");
        if (len >= sizeof path || (len && ++seen > AW_KUBE_FILES_MAX))
            return aw_fail(diag, AW_ERR_LIMIT,
                           "KUBECONFIG: at most %u files with paths of %u bytes", AW_KUBE_FILES_MAX,
                           AW_FILE_PATH_MAX - 1);
        memcpy(path, list, len);
        path[len] = '\0';
        if (len)
            err = add_file(files, path, false, alloc, diag);
        list += len + (list[len] == ':');
    }
    return err;
}

static enum aw_err load_service_account(struct aw_kube_config *config,
                                        const struct aw_kube_config_from *from,
                                        struct aw_diag *diag)
{
    const char *folder = from->service_folder ? from->service_folder : SERVICE_FOLDER;
    const struct aw_alloc *alloc = config->alloc;
    char path[AW_FILE_PATH_MAX], *ns = NULL;
    size_t ns_len = 0;
    struct stat there;
    const bool v6 = strchr(from->service_host, ':');
    snprintf(path, sizeof path, "https://%s%s%s:%s", v6 ? "[" : "", from->service_host,
             v6 ? "]" : "", from->service_port);
    config->server = aw__kube_keep(alloc, path, strlen(path));
    snprintf(path, sizeof path, "%s/token", folder);
    config->token_file = aw__kube_keep(alloc, path, strlen(path));
    if (stat(path, &there) != 0)
        return aw_fail_at(diag, AW_ERR_CONFIG, path, 0, 0, NULL,
                          "this pod has no service account token");
    snprintf(path, sizeof path, "%s/ca.crt", folder);
    if (stat(path, &there) == 0)
        config->ca.file = aw__kube_keep(alloc, path, strlen(path));
    snprintf(path, sizeof path, "%s/namespace", folder);
    enum aw_err err = aw_file_read(path, NAMESPACE_BYTES, alloc, &ns, &ns_len, diag);
    if (err && err != AW_ERR_NOTFOUND)
        return err;
    while (ns_len && (unsigned char)ns[ns_len - 1] <= ' ')
        ns_len--;
    config->ns = ns_len ? aw__kube_keep(alloc, ns, ns_len) : aw__kube_keep(alloc, "default", 7);
    aw_alloc_free(alloc, ns);
    config->source = aw__kube_keep(alloc, "the service account of this pod", 31);
    config->in_cluster = true;
    if (!config->server || !config->token_file || !config->ns || !config->source)
        return no_memory(diag);
    if (!aw_kube_name_valid(config->ns))
        return aw_fail_at(diag, AW_ERR_CONFIG, path, 0, 0, NULL, "expected a namespace");
    return AW_OK;
}

void aw_kube_config_environment(struct aw_kube_config_from *from)
{
    from->kubeconfig = getenv("KUBECONFIG");
    from->home = getenv("HOME");
    from->service_host = getenv("KUBERNETES_SERVICE_HOST");
    from->service_port = getenv("KUBERNETES_SERVICE_PORT");
}

enum aw_err aw_kube_config_load(struct aw_kube_config *config,
                                const struct aw_kube_config_from *from,
                                const struct aw_alloc *alloc, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    enum aw_err err = AW_OK;
    *config = (struct aw_kube_config){.alloc = alloc};
    struct files *files = aw_alloc_new(alloc, 1, sizeof *files);
    if (!files)
        return no_memory(diag);
    if (from->path) {
        err = add_file(files, from->path, true, alloc, diag);
    } else if (from->kubeconfig && from->kubeconfig[0]) {
        err = add_list(files, from->kubeconfig, alloc, diag);
    } else if (from->home && from->home[0]) {
        snprintf(path, sizeof path, "%s/.kube/config", from->home);
        err = add_file(files, path, false, alloc, diag);
    }
    if (err)
        goto out;
    const bool pod =
        from->service_host && from->service_host[0] && from->service_port && from->service_port[0];
    if (files->count)
        err = choose(config, files, from->context, diag);
    else if (pod && !from->path && !from->context)
        err = load_service_account(config, from, diag);
    else
        err = aw_fail(diag, AW_ERR_NOTFOUND,
                      "no cluster is configured: no kubeconfig was found, and this is not a pod");
out:
    close_files(files, alloc);
    if (err)
        aw_kube_config_deinit(config);
    return err;
}

enum aw_err aw_kube_config_parse(struct aw_kube_config *config, const char *name, const char *bytes,
                                 size_t len, const char *context, const struct aw_alloc *alloc,
                                 struct aw_diag *diag)
{
    *config = (struct aw_kube_config){.alloc = alloc};
    struct files *files = aw_alloc_new(alloc, 1, sizeof *files);
    if (!files)
        return no_memory(diag);
    enum aw_err err = add_bytes(files, name, bytes, len, alloc, diag);
    if (!err && files->count == 0)
        err = aw_fail_at(diag, AW_ERR_CONFIG, name, 0, 0, NULL, "the kubeconfig is empty");
    err = err ? err : choose(config, files, context, diag);
    close_files(files, alloc);
    if (err)
        aw_kube_config_deinit(config);
    return err;
}

static void free_pem(struct aw_kube_config *config, struct aw_kube_pem *pem)
{
    if (pem->bytes)
        explicit_bzero(pem->bytes, pem->len);
    aw_alloc_free(config->alloc, pem->bytes);
    aw_alloc_free(config->alloc, pem->file);
}

void aw_kube_config_deinit(struct aw_kube_config *config)
{
    const struct aw_alloc *alloc = config->alloc;
    aw_alloc_free(alloc, config->source);
    aw_alloc_free(alloc, config->server);
    aw_alloc_free(alloc, config->ns);
    aw_alloc_free(alloc, config->tls_server_name);
    aw__kube_wipe(alloc, config->proxy_url);
    free_pem(config, &config->ca);
    free_pem(config, &config->cert);
    free_pem(config, &config->key);
    aw__kube_wipe(alloc, config->token);
    aw_alloc_free(alloc, config->token_file);
    aw_alloc_free(alloc, config->exec.command);
    aw_alloc_free(alloc, config->exec.api_version);
    aw_alloc_free(alloc, config->exec.install_hint);
    for (uint32_t i = 0; i < config->exec.arg_count; i++)
        aw__kube_wipe(alloc, config->exec.args[i]);
    for (uint32_t i = 0; i < config->exec.env_count; i++)
        aw__kube_wipe(alloc, config->exec.env[i]);
    *config = (struct aw_kube_config){0};
}
