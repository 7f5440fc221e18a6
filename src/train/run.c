/* run.c - run.json: what was asked of a run, so that its directory tells all there is to know. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/tree.h"
#include "train/train_internal.h"

#define RUN_FORMAT  "aware-run"
#define RUN_VERSION 1

enum aw_err aw__path_join(const char *dir, const char *name, char *buf, size_t size,
                          struct aw_diag *diag)
{
    int len = snprintf(buf, size, "%s/%s", dir, name);
    if (len < 0 || (size_t)len >= size)
        return aw_fail(diag, AW_ERR_LIMIT, "the path of %s is longer than %zu bytes", name, size);
    return AW_OK;
}

enum aw_err aw__run_write(const struct aw_train_config *config,
                          const struct aw_agent_factory *factory, const char *dir,
                          struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX], value[AW_CONF_TEXT_MAX];
    json_t *root = json_object(), *settings = json_object();
    const struct aw_env_factory *env = NULL;
    char *text = NULL;
    enum aw_err err = aw__path_join(dir, "run.json", path, sizeof path, diag);
    if (err)
        goto out;
    /* jansson passes a NULL on: whatever failed, the dump below is NULL */
    json_object_set_new(root, "format", json_string(RUN_FORMAT));
    json_object_set_new(root, "version", json_integer(RUN_VERSION));
    json_object_set_new(root, "env", json_string(config->env));
    json_object_set_new(root, "agent", json_string(config->agent));
    json_object_set_new(root, "preset", json_string(config->preset));
    json_object_set_new(root, "seed", json_integer((json_int_t)config->seed));
    json_object_set_new(root, "steps", json_integer((json_int_t)config->steps));
    json_object_set_new(root, "envs", json_integer((json_int_t)config->env_count));
    json_object_set_new(root, "threads", json_integer((json_int_t)config->thread_count));
    if (config->bootstrap_episodes)
        json_object_set_new(root, "bootstrap", json_integer(config->bootstrap_episodes));
    for (const struct aw_conf_field *field = factory->fields; field->key; field++)
        json_object_set_new(settings, field->key,
                            json_string(aw_conf_get(field, config->settings, value, sizeof value)));
    bool whole = json_object_set(root, "settings", settings) == 0;
    if (config->has_env_settings && !(err = aw_env_find(config->env, &env, diag))) {
        json_t *options = json_object();
        for (const struct aw_conf_field *field = env->fields; field->key; field++)
            json_object_set_new(
                options, field->key,
                json_string(aw_conf_get(field, config->env_settings, value, sizeof value)));
        whole = json_object_set_new(root, "env_settings", options) == 0 && whole;
    }
    if (err)
        goto out;
    /* the newline that a text file ends with takes the place of the NUL */
    text = whole ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (!text) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for run.json");
        goto out;
    }
    size_t len = strlen(text);
    text[len] = '\n';
    err = aw_file_replace(path, text, len + 1, NULL, diag);
out:
    free(text);
    json_decref(settings);
    json_decref(root);
    return err;
}

static enum aw_err text_get(const struct aw_tree *tree, const struct aw_node *root, const char *key,
                            char *to, size_t size, struct aw_diag *diag)
{
    const struct aw_node *node = NULL;
    const char *text = NULL;
    enum aw_err err = aw_tree_require(tree, root, key, &node, diag);
    if (!err)
        err = aw_tree_string(tree, node, &text, diag);
    if (!err && strlen(text) >= size)
        err = aw_tree_place(tree, node, aw_fail(diag, AW_ERR_LIMIT, "longer than %zu bytes", size),
                            diag);
    if (!err)
        snprintf(to, size, "%s", text);
    return err;
}

static enum aw_err number_get(const struct aw_tree *tree, const struct aw_node *root,
                              const char *key, int64_t min, int64_t max, uint64_t *ret,
                              struct aw_diag *diag)
{
    const struct aw_node *node = NULL;
    int64_t value = 0;
    enum aw_err err = aw_tree_require(tree, root, key, &node, diag);
    if (!err)
        err = aw_tree_i64(tree, node, min, max, &value, diag);
    if (!err)
        *ret = (uint64_t)value;
    return err;
}

/* A map of settings as text, over the defaults of `fields`. */
static enum aw_err settings_get(const struct aw_tree *tree, const struct aw_node *root,
                                const char *key, const struct aw_conf_field *fields, void *settings,
                                struct aw_diag *diag)
{
    const struct aw_node *map = NULL;
    const char *text = NULL;
    enum aw_err err = aw_tree_require(tree, root, key, &map, diag);
    if (err || (err = aw_tree_map(tree, map, diag)))
        return err;
    aw_conf_defaults(fields, settings);
    for (const struct aw_node *node = map->first; node; node = node->next) {
        if ((err = aw_tree_scalar(tree, node, &text, diag)))
            return err;
        if ((err = aw_conf_set(fields, settings, node->key, text, diag)))
            return aw_tree_place(tree, node, err, diag);
    }
    return AW_OK;
}

static enum aw_err env_settings_get(const struct aw_tree *tree, const struct aw_node *root,
                                    struct aw_train_config *config, struct aw_diag *diag)
{
    const struct aw_env_factory *env = NULL;
    const struct aw_node *node = aw_node_find(root, "env_settings");
    if (!node)
        return AW_OK;
    enum aw_err err = aw_env_find(config->env, &env, diag);
    if (!err && !env->fields)
        err = aw_fail(diag, AW_ERR_CONFIG, "%s has no options", config->env);
    if (err)
        return aw_tree_place(tree, node, err, diag);
    config->has_env_settings = true;
    return settings_get(tree, root, "env_settings", env->fields, config->env_settings, diag);
}

enum aw_err aw__run_read(const char *dir, const struct aw_agent_factory *factory,
                         struct aw_train_config *ret_config,
                         const struct aw_agent_factory **ret_factory, struct aw_diag *diag)
{
    static const char *const keys[] = {"format",       "version",   "env",  "agent",   "preset",
                                       "seed",         "steps",     "envs", "threads", "settings",
                                       "env_settings", "bootstrap", NULL};
    char path[AW_FILE_PATH_MAX], format[32];
    struct aw_train_config config = {.env_count = 1};
    const struct aw_node *root = NULL;
    struct aw_tree tree = {0};
    uint64_t version, envs, threads, bootstrap = 0;
    enum aw_err err = aw__path_join(dir, "run.json", path, sizeof path, diag);
    if (err || (err = aw_tree_load_file(&tree, path, NULL, diag)))
        return err;
    if ((err = aw_tree_only(&tree, &root, diag)) ||
        (err = text_get(&tree, root, "format", format, sizeof format, diag)))
        goto out;
    if (strcmp(format, RUN_FORMAT) != 0) {
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "format", "is not a run of aware");
        goto out;
    }
    if ((err = number_get(&tree, root, "version", RUN_VERSION, RUN_VERSION, &version, diag)) ||
        (err = aw_tree_known(&tree, root, keys, diag)) ||
        (err = text_get(&tree, root, "env", config.env, sizeof config.env, diag)) ||
        (err = text_get(&tree, root, "agent", config.agent, sizeof config.agent, diag)) ||
        (err = text_get(&tree, root, "preset", config.preset, sizeof config.preset, diag)) ||
        (err = number_get(&tree, root, "seed", 0, AW_TRAIN_SEED_MAX, &config.seed, diag)) ||
        (err = number_get(&tree, root, "steps", 1, AW_TRAIN_STEPS_MAX, &config.steps, diag)) ||
        (err = number_get(&tree, root, "envs", 1, AW_TRAIN_ENVS_MAX, &envs, diag)) ||
        (err = number_get(&tree, root, "threads", 0, AW_THREADS_MAX, &threads, diag)) ||
        (aw_node_find(root, "bootstrap") &&
         (err = number_get(&tree, root, "bootstrap", 1, AW_TRAIN_BOOTSTRAP_MAX, &bootstrap, diag))))
        goto out;
    config.bootstrap_episodes = (uint32_t)bootstrap;
    config.env_count = (uint32_t)envs;
    config.thread_count = (uint32_t)threads;
    if (!factory && (err = aw_agent_factory_find(config.agent, &factory, diag))) {
        aw_tree_place(&tree, aw_node_find(root, "agent"), err, diag);
        goto out;
    }
    if ((err = settings_get(&tree, root, "settings", factory->fields, config.settings, diag)) ||
        (err = env_settings_get(&tree, root, &config, diag)))
        goto out;
    *ret_config = config;
    *ret_factory = factory;
out:
    aw_tree_deinit(&tree);
    return err;
}
