/* registry.c - the table of built-in environments, and finding one in it. */
#include <aware/env.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/conf.h"
#include "env/autoscale.h"
#include "env/cartpole/cartpole.h"
#include "env/identity/identity.h"
#include "env/pendulum/pendulum.h"

static const struct aw_env_factory *const builtin[] = {
    &aw__cartpole_factory,
    &aw__pendulum_factory,
    &aw__identity_box_factory,
    &aw__identity_discrete_factory,
    &aw__autoscale_factory,
    &aw__autoscale_paper_factory,
    NULL,
};
#define BUILTIN_COUNT (sizeof builtin / sizeof builtin[0] - 1)

static const struct aw_env_elsewhere *elsewhere; /* set once, before there are threads */

void aw_env_elsewhere_set(const struct aw_env_elsewhere *found)
{
    elsewhere = found;
}

const struct aw_env_factory *const *aw_env_builtin(void)
{
    return builtin;
}

static enum aw_err unknown(const char *name, struct aw_diag *diag)
{
    const char *names[BUILTIN_COUNT + 1] = {NULL};
    char list[BUILTIN_COUNT * (AW_ENV_NAME_MAX + 2)];
    size_t used = 0;
    for (size_t i = 0; i < BUILTIN_COUNT; i++) {
        names[i] = builtin[i]->spec->name;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = aw_conf_nearest(name, names);
    return aw_fail(diag, AW_ERR_NOTFOUND, "no environment is called \"%.64s\"%s%s%s; there are: %s",
                   name, nearest ? " (did you mean " : "", nearest ? nearest : "",
                   nearest ? "?)" : "", list);
}

enum aw_err aw_env_find(const char *name, const struct aw_env_factory **ret_factory,
                        struct aw_diag *diag)
{
    if (elsewhere && strstr(name, "://"))
        return elsewhere->find(name, ret_factory, diag);
    for (size_t i = 0; i < BUILTIN_COUNT; i++)
        if (strcmp(builtin[i]->spec->name, name) == 0) {
            *ret_factory = builtin[i];
            return AW_OK;
        }
    return unknown(name, diag);
}

enum aw_err aw_env_make(const char *name, struct aw_env *ret_env, struct aw_diag *diag)
{
    const struct aw_env_factory *factory = NULL;
    enum aw_err err = aw_env_find(name, &factory, diag);
    return err ? err : factory->make(NULL, ret_env, diag);
}

enum aw_err aw_env_settings(const struct aw_env_factory *factory, const char *const *pairs,
                            size_t pair_count, void *settings, struct aw_diag *diag)
{
    static const struct aw_conf_field none[] = {{0}};
    const struct aw_conf_field *fields = factory->fields ? factory->fields : none;
    AW_ASSERT(factory->settings_bytes <= AW_ENV_SETTINGS_BYTES_MAX);
    aw_conf_defaults(fields, settings);
    for (size_t i = 0; i < pair_count; i++) {
        if (!factory->fields)
            return aw_fail(diag, AW_ERR_CONFIG, "%s has no options, found \"%.64s\"",
                           factory->spec->name, pairs[i]);
        enum aw_err err = aw_conf_set_pair(fields, settings, pairs[i], diag);
        if (err)
            return err;
    }
    return AW_OK;
}

enum aw_err aw_env_make_with(const char *name, const char *const *pairs, size_t pair_count,
                             const struct aw_alloc *alloc, struct aw_env *ret_env,
                             struct aw_diag *diag)
{
    _Alignas(16) unsigned char settings[AW_ENV_SETTINGS_BYTES_MAX] = {0};
    const struct aw_env_factory *factory = NULL;
    enum aw_err err = aw_env_find(name, &factory, diag);
    if (!err)
        err = aw_env_settings(factory, pairs, pair_count, settings, diag);
    if (err)
        return err;
    return factory->fields ? factory->make_with(settings, alloc, ret_env, diag)
                           : factory->make(alloc, ret_env, diag);
}

const char *aw_env_fallback_name(const struct aw_env *env)
{
    return elsewhere ? elsewhere->fallback_name(env) : "";
}

bool aw_env_fallback(const struct aw_env *env, float *action)
{
    return elsewhere && elsewhere->fallback(env, action);
}

void aw_env_free(struct aw_env *env)
{
    if (env->ops)
        env->ops->free(env->self);
    *env = (struct aw_env){0};
}
