/* env_many.h - what `env list`, `env describe` and `env check` say of environments of many agents
 * (<aware/parallel.h>); and what they share with env.c. */
#ifndef AW_CLI_ENV_MANY_H
#define AW_CLI_ENV_MANY_H

#include <aware/space.h>

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

bool aw_env_many_has(const char *name);
void aw_env_many_list(struct aw_table *table);
void aw_env_many_list_json(json_t *list);
AW_NODISCARD enum aw_err aw_env_many_describe(const struct aw_call *run, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_env_many_check(const struct aw_call *run, struct aw_diag *diag);

/* Of env.c. */
const char *aw_env_space_text(const struct aw_space *space, char *buf, size_t size);
json_t *aw_env_space_json(const struct aw_space *space);
AW_NODISCARD enum aw_err aw_env_space_print(const struct aw_space *space, const char *what,
                                            bool color, struct aw_diag *diag);

#endif
