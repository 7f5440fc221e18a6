/* agents.c - the table of learners. */
#include "rl/agents.h"

#include <stdio.h>
#include <string.h>

#include "rl/bcq.h"
#include "rl/ddpg.h"
#include "rl/dqn.h"
#include "rl/ppo.h"
#include "rl/td3.h"

#define NAMES_MAX 32u /* learners, or presets of one, that a diagnostic lists */

/* clang-format off */
/* One line per learner, in the order in which they are listed. */
static const struct aw_agent_factory *const factories[] = {
    &aw_ddpg_factory,
    &aw_td3_factory,
    &aw_bcq_factory,
    &aw_ppo_factory,
    &aw_dqn_factory,
    NULL,
};
/* clang-format on */

const struct aw_agent_factory *const *aw_agent_builtin(void)
{
    return factories;
}

/* "expected one of a, b, c, found x; did you mean a?" */
static enum aw_err not_found(const char *what, const char *word, const char *const *names,
                             struct aw_diag *diag)
{
    char list[AW_DIAG_TEXT_MAX / 2];
    size_t used = 0;
    list[0] = '\0';
    for (uint32_t i = 0; names[i] && used < sizeof list; i++) {
        int length = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
        used += length > 0 ? (size_t)length : sizeof list;
    }
    const char *near = aw_conf_nearest(word, names);
    return aw_fail(diag, AW_ERR_NOTFOUND, "no %s '%.64s': expected one of %s%s%s%s", what, word,
                   list, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

enum aw_err aw_agent_factory_find(const char *name, const struct aw_agent_factory **ret_factory,
                                  struct aw_diag *diag)
{
    const char *names[NAMES_MAX + 1] = {NULL};
    for (uint32_t i = 0; factories[i]; i++) {
        if (strcmp(factories[i]->name, name) == 0) {
            *ret_factory = factories[i];
            return AW_OK;
        }
        AW_ASSERT(i < NAMES_MAX);
        names[i] = factories[i]->name;
    }
    return not_found("learner", name, names, diag);
}

enum aw_err aw_agent_settings(const struct aw_agent_factory *factory, const char *preset,
                              void *settings, struct aw_diag *diag)
{
    AW_ASSERT(factory->settings_bytes <= AW_AGENT_SETTINGS_BYTES_MAX);
    const char *names[NAMES_MAX + 1] = {NULL};
    const struct aw_agent_preset *found = NULL;
    for (uint32_t i = 0; preset && preset[0] && factory->presets[i].name && !found; i++) {
        AW_ASSERT(i < NAMES_MAX);
        names[i] = factory->presets[i].name;
        if (strcmp(names[i], preset) == 0)
            found = &factory->presets[i];
    }
    if (preset && preset[0] && !found)
        return not_found("preset", preset, names, diag);
    memset(settings, 0, factory->settings_bytes);
    aw_conf_defaults(factory->fields, settings);
    for (uint32_t i = 0; found && found->pairs[i]; i++) {
        enum aw_err err = aw_conf_set_pair(factory->fields, settings, found->pairs[i], diag);
        AW_ASSERT(err == AW_OK); /* a preset that does not parse is a bug; a test reads them all */
    }
    return AW_OK;
}

void aw_agent_free(struct aw_agent *agent)
{
    if (agent->ops)
        agent->ops->free(agent->self);
    *agent = (struct aw_agent){0};
}
