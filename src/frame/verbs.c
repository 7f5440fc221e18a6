/* verbs.c - the table of verbs, and finding one by its words. */
#include "frame/verbs.h"

#include <stdio.h>
#include <string.h>

#include "base/conf.h"

#define NAMES_MAX 160u

/* clang-format off */
const struct aw_verb *const aw_verbs[] = {
    &aw_verb_run,
    &aw_verb_get,
    &aw_verb_describe,
    &aw_verb_top,
    &aw_verb_capacity,
    &aw_verb_explain,
    &aw_verb_history,
    &aw_verb_undo,
    &aw_verb_approve,
    &aw_verb_reject,
    &aw_verb_freeze,
    &aw_verb_unfreeze,
    &aw_verb_emergency,
    &aw_verb_calm,
    &aw_verb_budget,
    &aw_verb_diff,
    &aw_verb_replay,
    &aw_verb_export,
    &aw_verb_state_show,
    &aw_verb_state_export,
    &aw_verb_state_reset,
    &aw_verb_policy_show,
    &aw_verb_policy_export,
    &aw_verb_policy_propose,
    &aw_verb_policy_rollback,
    &aw_verb_train,
    &aw_verb_eval,
    &aw_verb_pretrain,
    &aw_verb_pretrain_library,
    &aw_verb_pretrain_multi,
    &aw_verb_adapt,
    &aw_verb_embed,
    &aw_verb_env_list,
    &aw_verb_env_describe,
    &aw_verb_env_check,
    &aw_verb_env_serve,
    &aw_verb_agent_list,
    &aw_verb_agent_describe,
    &aw_verb_agent_serve,
    &aw_verb_size,
    &aw_verb_frequency_probe,
    &aw_verb_frequency_run,
    &aw_verb_frequency_restore,
    &aw_verb_congestion_wire,
    &aw_verb_task_list,
    &aw_verb_task_describe,
    &aw_verb_task_train,
    &aw_verb_task_meet,
    &aw_verb_task_compare,
    &aw_verb_task_evaluate,
    &aw_verb_chaos,
    &aw_verb_simulate,
    &aw_verb_simulate_fit,
    &aw_verb_simulate_surrogate,
    &aw_verb_calibrate,
    &aw_verb_evaluate,
    &aw_verb_experiment,
    &aw_verb_apps_generate,
    &aw_verb_apps_describe,
    &aw_verb_load,
    &aw_verb_load_show,
    &aw_verb_load_list,
    &aw_verb_serving_proxy,
    &aw_verb_serving_standin,
    &aw_verb_serving_plan,
    &aw_verb_serving_profile,
    &aw_verb_serving_validate,
    &aw_verb_trial,
    &aw_verb_local_clean,
    &aw_verb_controller,
    &aw_verb_doctor,
    &aw_verb_scan,
    &aw_verb_recommend,
    &aw_verb_store_list,
    &aw_verb_store_export,
    &aw_verb_store_import,
    &aw_verb_store_prune,
    &aw_verb_trace_import,
    &aw_verb_trace_collect,
    &aw_verb_trace_list,
    &aw_verb_trace_show,
    &aw_verb_trace_path,
    &aw_verb_trace_graph,
    &aw_verb_trace_culprits,
    &aw_verb_trace_evaluate,
    &aw_verb_trace_learn,
    &aw_verb_inject,
    &aw_verb_gpu_list,
    &aw_verb_gpu_probe,
    &aw_verb_gpu_watch,
    &aw_verb_gpu_reset,
    &aw_verb_gpu_helper,
    &aw_verb_audit_verify,
    &aw_verb_audit_show,
    &aw_verb_validate,
    &aw_verb_explain_schema,
    &aw_verb_completion,
    &aw_verb_version,
    &aw_verb_help,
    &aw__verb_man,
    &aw__verb_reference,
    NULL,
};
/* clang-format on */

/* Verbs that left the program; to be told for one release. */
static const struct {
    const char *word, *where;
} moved[] = {
    {"fallback",
     "cases run in a test program, build/tests/conformance/test-upstream-cases FILE..."},
    {"bench", "benchmarks are a program of their own, build/aware-bench"},
};

/* Verbs under the names that they had before; these go on working. */
static const struct {
    const char *words[2]; /* the second may be NULL */
    const char *now;
} renamed[] = {
    {{"eval", NULL}, "train eval"},
    {{"simulate", "calibrate"}, "simulate fit-surrogate"},
};

static const struct aw_verb *renamed_find(char *const *words, uint32_t count, uint32_t *ret_used)
{
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        const char *const *was = renamed[i].words;
        if (strcmp(was[0], words[0]) || (was[1] && (count < 2 || strcmp(was[1], words[1]))))
            continue;
        *ret_used = was[1] ? 2 : 1;
        return aw_verb_named(renamed[i].now);
    }
    return NULL;
}

bool aw_verb_hidden(const struct aw_verb *verb)
{
    return !strncmp(verb->name, "__", 2);
}

bool aw_verb_in_group(const struct aw_verb *verb, const char *word)
{
    size_t len = strlen(word);
    return !strncmp(verb->name, word, len) && verb->name[len] == ' ';
}

const struct aw_verb *aw_verb_named(const char *name)
{
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        if (!strcmp(aw_verbs[i]->name, name))
            return aw_verbs[i];
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

const char *aw__verb_synopsis(const struct aw_verb *verb, char *buf, size_t size)
{
    const struct aw_option *option;
    size_t used = put(buf, size, 0, "aware ", verb->name, "", "");
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        if (option->required)
            used = put(buf, size, used, " --", option->name, " ", option->arg);
    }
    used = put(buf, size, used, " [OPTION]...", "", "", "");
    for (const struct aw_positional *p = verb->positionals; p && p->name; p++)
        used = put(buf, size, used, p->optional ? " [" : " ", p->name, p->repeated ? "..." : "",
                   p->optional ? "]" : "");
    return buf;
}

/* The second words of a group, joined: "list, describe, check". */
static const char *group_join(const char *word, char *buf, size_t size)
{
    size_t used = 0, len = strlen(word) + 1;
    buf[0] = '\0';
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        if (aw_verb_in_group(aw_verbs[i], word))
            used = put(buf, size, used, used ? ", " : "", aw_verbs[i]->name + len, "", "");
    }
    return buf;
}

static enum aw_err group_find(char *const *words, uint32_t count, const struct aw_verb **ret_verb,
                              struct aw_diag *diag)
{
    const char *names[NAMES_MAX + 1] = {0};
    char list[256];
    uint32_t name_count = 0;
    size_t len = strlen(words[0]) + 1;
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        if (!aw_verb_in_group(aw_verbs[i], words[0]))
            continue;
        names[name_count++] = aw_verbs[i]->name + len;
        if (count > 1 && !strcmp(aw_verbs[i]->name + len, words[1])) {
            *ret_verb = aw_verbs[i];
            return AW_OK;
        }
    }
    group_join(words[0], list, sizeof list);
    if (count < 2)
        return aw_fail(diag, AW_ERR_USAGE, "'aware %s' needs one of: %s", words[0], list);
    const char *nearest = aw_conf_nearest(words[1], names);
    if (nearest)
        return aw_fail(diag, AW_ERR_USAGE, "'aware %s' has no %s; did you mean '%s %s'?", words[0],
                       AW_QUOTE(words[1]), words[0], nearest);
    return aw_fail(diag, AW_ERR_USAGE, "'aware %s' has no %s; there is: %s", words[0],
                   AW_QUOTE(words[1]), list);
}

enum aw_err aw_verb_find(char *const *words, uint32_t count, const struct aw_verb **ret_verb,
                         uint32_t *ret_used, struct aw_diag *diag)
{
    const char *names[NAMES_MAX + 1] = {0};
    char first[NAMES_MAX][32];
    uint32_t name_count = 0;
    if (count == 0)
        return aw_fail(diag, AW_ERR_USAGE, "no verb given; see 'aware help'");
    const struct aw_verb *known = renamed_find(words, count, ret_used);
    if (known) {
        *ret_verb = known;
        return AW_OK;
    }
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        const struct aw_verb *verb = aw_verbs[i];
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
        if (aw_verb_in_group(verb, words[0])) {
            *ret_used = 2;
            return group_find(words, count, ret_verb, diag);
        }
        if (aw_verb_hidden(verb))
            continue;
        AW_ASSERT(name_count < NAMES_MAX);
        snprintf(first[name_count], sizeof first[0], "%.*s", (int)strcspn(verb->name, " "),
                 verb->name);
        names[name_count] = first[name_count];
        name_count++;
    }
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        if (!strcmp(moved[i].word, words[0]))
            return aw_fail(diag, AW_ERR_USAGE, "'aware %s' has moved: %s", words[0],
                           moved[i].where);
    }
    const char *nearest = aw_conf_nearest(words[0], names);
    if (nearest)
        return aw_fail(diag, AW_ERR_USAGE, "unknown verb %s; did you mean '%s'?",
                       AW_QUOTE(words[0]), nearest);
    return aw_fail(diag, AW_ERR_USAGE, "unknown verb %s; see 'aware help'", AW_QUOTE(words[0]));
}
