/* verbs.c - the table of verbs, and finding one by its words. */
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#include "base/conf.h"

#define NAMES_MAX 96u

/* clang-format off */
const struct aw__verb *const aw__verbs[] = {
    &aw__verb_run,
    &aw__verb_get,
    &aw__verb_describe,
    &aw__verb_top,
    &aw__verb_explain,
    &aw__verb_history,
    &aw__verb_undo,
    &aw__verb_approve,
    &aw__verb_reject,
    &aw__verb_freeze,
    &aw__verb_unfreeze,
    &aw__verb_emergency,
    &aw__verb_calm,
    &aw__verb_budget,
    &aw__verb_diff,
    &aw__verb_replay,
    &aw__verb_export,
    &aw__verb_state_show,
    &aw__verb_state_export,
    &aw__verb_state_reset,
    &aw__verb_policy_show,
    &aw__verb_policy_export,
    &aw__verb_policy_propose,
    &aw__verb_policy_rollback,
    &aw__verb_train,
    &aw__verb_eval,
    &aw__verb_pretrain,
    &aw__verb_adapt,
    &aw__verb_embed,
    &aw__verb_env_list,
    &aw__verb_env_describe,
    &aw__verb_env_check,
    &aw__verb_env_serve,
    &aw__verb_agent_list,
    &aw__verb_agent_describe,
    &aw__verb_agent_serve,
    &aw__verb_bench,
    &aw__verb_chaos,
    &aw__verb_simulate,
    &aw__verb_simulate_fit,
    &aw__verb_simulate_calibrate,
    &aw__verb_calibrate,
    &aw__verb_evaluate,
    &aw__verb_experiment,
    &aw__verb_fallback_check,
    &aw__verb_apps_generate,
    &aw__verb_apps_describe,
    &aw__verb_load,
    &aw__verb_load_show,
    &aw__verb_load_list,
    &aw__verb_trial,
    &aw__verb_local_clean,
    &aw__verb_controller,
    &aw__verb_doctor,
    &aw__verb_scan,
    &aw__verb_store_list,
    &aw__verb_store_export,
    &aw__verb_store_import,
    &aw__verb_store_prune,
    &aw__verb_audit_verify,
    &aw__verb_audit_show,
    &aw__verb_validate,
    &aw__verb_explain_schema,
    &aw__verb_completion,
    &aw__verb_version,
    &aw__verb_help,
    &aw__verb_man,
    &aw__verb_reference,
    NULL,
};
/* clang-format on */

bool aw__verb_hidden(const struct aw__verb *verb)
{
    return !strncmp(verb->name, "__", 2);
}

bool aw__verb_in_group(const struct aw__verb *verb, const char *word)
{
    size_t len = strlen(word);
    return !strncmp(verb->name, word, len) && verb->name[len] == ' ';
}

const struct aw__verb *aw__verb_named(const char *name)
{
    for (uint32_t i = 0; aw__verbs[i]; i++) {
        if (!strcmp(aw__verbs[i]->name, name))
            return aw__verbs[i];
    }
    return NULL;
}

static size_t put(char *buf, size_t size, size_t used, const char *a, const char *b, const char *c,
                  const char *d)
{
    if (used < size)
        used += (size_t)snprintf(buf + used, size - used, "%s%s%s%s", a, b, c, d);
    return used;
}

const char *aw__verb_synopsis(const struct aw__verb *verb, char *buf, size_t size)
{
    const struct aw__option *option;
    size_t used = put(buf, size, 0, "aware ", verb->name, "", "");
    for (uint32_t i = 0; (option = aw__verb_option(verb, i)); i++) {
        if (option->required)
            used = put(buf, size, used, " --", option->name, " ", option->arg);
    }
    used = put(buf, size, used, " [OPTION]...", "", "", "");
    for (const struct aw__positional *p = verb->positionals; p && p->name; p++)
        used = put(buf, size, used, p->optional ? " [" : " ", p->name, p->repeated ? "..." : "",
                   p->optional ? "]" : "");
    return buf;
}

/* The second words of a group, joined: "list, describe, check". */
static const char *group_join(const char *word, char *buf, size_t size)
{
    size_t used = 0, len = strlen(word) + 1;
    buf[0] = '\0';
    for (uint32_t i = 0; aw__verbs[i]; i++) {
        if (aw__verb_in_group(aw__verbs[i], word))
            used = put(buf, size, used, used ? ", " : "", aw__verbs[i]->name + len, "", "");
    }
    return buf;
}

static enum aw_err group_find(char *const *words, uint32_t count, const struct aw__verb **ret_verb,
                              struct aw_diag *diag)
{
    const char *names[NAMES_MAX + 1] = {0};
    char list[256];
    uint32_t name_count = 0;
    size_t len = strlen(words[0]) + 1;
    for (uint32_t i = 0; aw__verbs[i]; i++) {
        if (!aw__verb_in_group(aw__verbs[i], words[0]))
            continue;
        names[name_count++] = aw__verbs[i]->name + len;
        if (count > 1 && !strcmp(aw__verbs[i]->name + len, words[1])) {
            *ret_verb = aw__verbs[i];
            return AW_OK;
        }
    }
    group_join(words[0], list, sizeof list);
    if (count < 2)
        return aw_fail(diag, AW_ERR_USAGE, "'aware %s' needs one of: %s", words[0], list);
    const char *nearest = aw_conf_nearest(words[1], names);
    if (nearest)
        return aw_fail(diag, AW_ERR_USAGE, "'aware %s' has no %s; did you mean '%s %s'?", words[0],
                       AW__QUOTE(words[1]), words[0], nearest);
    return aw_fail(diag, AW_ERR_USAGE, "'aware %s' has no %s; there is: %s", words[0],
                   AW__QUOTE(words[1]), list);
}

enum aw_err aw__verb_find(char *const *words, uint32_t count, const struct aw__verb **ret_verb,
                          uint32_t *ret_used, struct aw_diag *diag)
{
    const char *names[NAMES_MAX + 1] = {0};
    char first[NAMES_MAX][32];
    uint32_t name_count = 0;
    if (count == 0)
        return aw_fail(diag, AW_ERR_USAGE, "no verb given; see 'aware help'");
    for (uint32_t i = 0; aw__verbs[i]; i++) {
        const struct aw__verb *verb = aw__verbs[i];
        /* "simulate" is a verb, and the group of "simulate fit": a second word that fits decides */
        if (!strcmp(verb->name, words[0])) {
            if (count > 1 && !group_find(words, count, ret_verb, NULL)) {
                *ret_used = 2;
                return AW_OK;
            }
            *ret_verb = verb;
            *ret_used = 1;
            return AW_OK;
        }
        if (aw__verb_in_group(verb, words[0])) {
            *ret_used = 2;
            return group_find(words, count, ret_verb, diag);
        }
        if (aw__verb_hidden(verb))
            continue;
        AW_ASSERT(name_count < NAMES_MAX);
        snprintf(first[name_count], sizeof first[0], "%.*s", (int)strcspn(verb->name, " "),
                 verb->name);
        names[name_count] = first[name_count];
        name_count++;
    }
    const char *nearest = aw_conf_nearest(words[0], names);
    if (nearest)
        return aw_fail(diag, AW_ERR_USAGE, "unknown verb %s; did you mean '%s'?",
                       AW__QUOTE(words[0]), nearest);
    return aw_fail(diag, AW_ERR_USAGE, "unknown verb %s; see 'aware help'", AW__QUOTE(words[0]));
}
