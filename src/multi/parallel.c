/* parallel.c - the table of built-in environments of many agents, and finding one in it. */
#include <aware/parallel.h>

#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "multi/tenants_env.h"

static const struct aw_parallel_factory *const builtin[] = {&aw_tenants_factory, NULL};
#define BUILTIN_COUNT (sizeof builtin / sizeof builtin[0] - 1)

const struct aw_parallel_factory *const *aw_parallel_builtin(void)
{
    return builtin;
}

enum aw_err aw_parallel_find(const char *name, const struct aw_parallel_factory **ret_factory,
                             struct aw_diag *diag)
{
    char list[BUILTIN_COUNT * (AW_PARALLEL_NAME_MAX + 2)];
    size_t used = 0;
    for (size_t i = 0; i < BUILTIN_COUNT; i++) {
        if (strcmp(builtin[i]->spec->name, name) == 0) {
            *ret_factory = builtin[i];
            return AW_OK;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 builtin[i]->spec->name);
    }
    return aw_fail(diag, AW_ERR_NOTFOUND,
                   "no environment of many agents is called \"%.64s\"; there are: %s", name, list);
}

enum aw_err aw_parallel_make(const char *name, const char *const *pairs, size_t pair_count,
                             const struct aw_alloc *alloc, struct aw_parallel *ret_env,
                             struct aw_diag *diag)
{
    _Alignas(16) unsigned char settings[AW_PARALLEL_SETTINGS_BYTES_MAX] = {0};
    const struct aw_parallel_factory *factory = NULL;
    enum aw_err err = aw_parallel_find(name, &factory, diag);
    if (err)
        return err;
    AW_ASSERT(factory->settings_bytes <= sizeof settings);
    aw_conf_defaults(factory->fields, settings);
    for (size_t i = 0; i < pair_count; i++)
        if ((err = aw_conf_set_pair(factory->fields, settings, pairs[i], diag)))
            return err;
    return factory->make(settings, alloc, ret_env, diag);
}

void aw_parallel_free(struct aw_parallel *env)
{
    if (env->ops)
        env->ops->free(env->self);
    *env = (struct aw_parallel){0};
}
