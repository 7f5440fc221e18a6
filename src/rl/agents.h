/*
 * agents.h - the learners there are: a name, a settings table and a way to make one.
 *
 * `aware train`, `aware help`, the man page and a checkpoint's metadata all read this table, so a
 * learner is added in one place. Settings live in a plain struct of `settings_bytes` described by
 * `fields` (base/conf.h); presets are named lists of key=value that are laid over the defaults.
 */
#ifndef AW_RL_AGENTS_H
#define AW_RL_AGENTS_H

#include <aware/agent.h>

#include "base/alloc.h"
#include "base/conf.h"

#define AW_AGENT_SETTINGS_BYTES_MAX 4096u

struct aw_agent_preset {
    const char *name;         /* "aware-table2" */
    const char *summary;      /* where it comes from */
    const char *const *pairs; /* "key=value", ending with NULL */
};

struct aw_agent_factory {
    const char *name;    /* "ddpg" */
    const char *summary; /* one sentence for a list */
    const struct aw_conf_field *fields;
    size_t settings_bytes;                 /* at most AW_AGENT_SETTINGS_BYTES_MAX */
    const struct aw_agent_preset *presets; /* ends with a NULL name */
    bool continuous, discrete;             /* which actions it can take */
    bool on_policy;                        /* learns only from its own latest actions */

    /* `settings` are copied. AW_ERR_UNSUPPORTED: this learner cannot take this kind of action. */
    enum aw_err (*make)(const struct aw_agent_shape *shape, const void *settings, uint64_t seed,
                        const struct aw_alloc *alloc, struct aw_agent *ret_agent,
                        struct aw_diag *diag);
};

const struct aw_agent_factory *const *aw_agent_builtin(void); /* ends with NULL */
/* AW_ERR_NOTFOUND with a diagnostic that names what there is. */
AW_NODISCARD enum aw_err aw_agent_factory_find(const char *name,
                                               const struct aw_agent_factory **ret_factory,
                                               struct aw_diag *diag);
/* Defaults, then the preset ("" or NULL: none). */
AW_NODISCARD enum aw_err aw_agent_settings(const struct aw_agent_factory *factory,
                                           const char *preset, void *settings,
                                           struct aw_diag *diag);

#endif
