/* account_internal.h - what the files of an account share. */
#ifndef AW_CONTROL_ACCOUNT_INTERNAL_H
#define AW_CONTROL_ACCOUNT_INTERNAL_H

#include "control/account.h"

extern const char *const aw__account_axes[AW_GUARD_AXES]; /* "replicas", "cpu", "memory" */

/* NAN and infinity are null. */
json_t *aw__account_real(double value);

/* Sets a member; false: no memory, and `value` is freed whatever the outcome. */
bool aw__account_put(json_t *object, const char *key, json_t *value);

/* For tests: 1 in `config` and `task`, as large as their structs, for every byte that the text of a
 * config carries. */
void aw__account_config_carried(unsigned char *config, unsigned char *task);

#endif
