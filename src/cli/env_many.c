/* env_many.c - see env_many.h. */
#include "cli/env_many.h"

#include <aware/parallel.h>
#include <stdio.h>

#include "base/conf.h"
#include "multi/parallel_check.h"

bool aw_env_many_has(const char *name)
{
    const struct aw_parallel_factory *factory = NULL;
    return aw_parallel_find(name, &factory, NULL) == AW_OK;
}

static json_t *spec_json(const struct aw_parallel_spec *spec)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(spec->name));
    json_object_set_new(object, "summary", json_string(spec->summary));
    json_object_set_new(object, "agents_max", json_integer(spec->agents_max));
    json_object_set_new(object, "observation", aw_env_space_json(&spec->observation));
    json_object_set_new(object, "context", aw_env_space_json(&spec->context));
    json_object_set_new(object, "action", aw_env_space_json(&spec->action));
    json_object_set_new(object, "episode_steps_max", json_integer(spec->episode_steps_max));
    json_object_set_new(object, "reward_low", aw_json_real((double)spec->reward_low));
    json_object_set_new(object, "reward_high", aw_json_real((double)spec->reward_high));
    return object;
}

void aw_env_many_list_json(json_t *list)
{
    for (const struct aw_parallel_factory *const *f = aw_parallel_builtin(); *f; f++)
        json_array_append_new(list, spec_json((*f)->spec));
}

void aw_env_many_list(struct aw_table *table)
{
    char text[64];
    for (const struct aw_parallel_factory *const *f = aw_parallel_builtin(); *f; f++) {
        const struct aw_parallel_spec *spec = (*f)->spec;
        aw_table_add(table, "%s", spec->name);
        aw_table_add(table, "%u agents, %s", spec->agents_max,
                     aw_env_space_text(&spec->observation, text, sizeof text));
        aw_table_add(table, "%s", aw_env_space_text(&spec->action, text, sizeof text));
        aw_table_add(table, "%u", spec->episode_steps_max);
        aw_table_add(table, "%s", spec->summary);
    }
}

static enum aw_err options_print(const struct aw_conf_field *field, bool color,
                                 struct aw_diag *diag)
{
    static const char *const heads[] = {"OPTION", "DEFAULT", "TAKES", "WHAT IT DOES", NULL};
    struct aw_table table;
    printf("\nOptions:\n");
    aw_table_init(&table, heads);
    for (; field->key; field++) {
        char takes[128];
        aw_table_add(&table, "%s", field->key);
        aw_table_add(&table, "%s", *field->initial ? field->initial : "-");
        aw_table_add(&table, "%s", aw_conf_expects(field, takes, sizeof takes));
        aw_table_add(&table, "%s", field->help);
    }
    return aw_table_print(&table, stdout, color, diag);
}

enum aw_err aw_env_many_describe(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_parallel_factory *factory = NULL;
    enum aw_err err = aw_parallel_find(run->args->positional[0], &factory, diag);
    if (err)
        return err;
    const struct aw_parallel_spec *spec = factory->spec;
    if (run->json)
        return aw_json_print(spec_json(spec), diag);
    printf("%s: %s\n\n", spec->name, spec->summary);
    printf("Agents:   %u that act at once; see agents, agents_max, joins and leaves below\n",
           spec->agents_max);
    printf("Episode:  at most %u steps\n", spec->episode_steps_max);
    printf("Reward:   %g to %g for each step and agent\n", (double)spec->reward_low,
           (double)spec->reward_high);
    if ((err = aw_env_space_print(&spec->observation, "Observation of an agent", run->color_out,
                                  diag)) ||
        (err =
             aw_env_space_print(&spec->context, "Context, for its critic", run->color_out, diag)) ||
        (err = aw_env_space_print(&spec->action, "Action of an agent", run->color_out, diag)))
        return err;
    return options_print(factory->fields, run->color_out, diag);
}

static enum aw_err findings_print(const struct aw_call *run, const char *name,
                                  const struct aw_parallel_finding *findings, uint32_t count,
                                  uint32_t errors, struct aw_diag *diag)
{
    static const char *const heads[] = {"LEVEL", "RULE", "FINDING", NULL};
    if (run->json) {
        json_t *object = json_object(), *list = json_array();
        json_object_set_new(object, "env", json_string(name));
        json_object_set_new(object, "rules", json_integer(AW_PARALLEL_CHECK_RULES));
        json_object_set_new(object, "errors", json_integer(errors));
        json_object_set_new(object, "warnings", json_integer(count - errors));
        for (uint32_t i = 0; i < count; i++) {
            const char *rule = aw_parallel_check_rule_name(findings[i].rule);
            json_t *entry = json_object();
            json_object_set_new(entry, "level",
                                json_string(findings[i].error ? "error" : "warning"));
            json_object_set_new(entry, "rule", json_string(rule));
            json_object_set_new(entry, "text", json_string(findings[i].text));
            json_array_append_new(list, entry);
        }
        json_object_set_new(object, "findings", list);
        return aw_json_print(object, diag);
    }
    printf("%s: %d rules checked, %u error%s, %u warning%s\n", name, AW_PARALLEL_CHECK_RULES,
           errors, errors == 1 ? "" : "s", count - errors, count - errors == 1 ? "" : "s");
    if (!count)
        return AW_OK;
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < count; i++) {
        aw_table_add(&table, "%s", findings[i].error ? "error" : "warning");
        aw_table_add(&table, "%s", aw_parallel_check_rule_name(findings[i].rule));
        aw_table_add(&table, "%s", findings[i].text);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

enum aw_err aw_env_many_check(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_parallel_finding findings[AW_PARALLEL_CHECK_RULES];
    const char *name = run->args->positional[0];
    struct aw_parallel env = {0};
    uint32_t count = 0, errors = 0;
    enum aw_err err = aw_parallel_make(name, NULL, 0, NULL, &env, diag);
    if (err)
        return err;
    err = aw_parallel_check(&env, aw_args_number(run->args, "seed"), NULL, findings, &count);
    for (uint32_t i = 0; !err && i < count; i++)
        errors += findings[i].error;
    if (!err)
        err = findings_print(run, name, findings, count, errors, diag);
    if (!err && errors)
        err = aw_fail(diag, AW_ERR_CHECK, "%s breaks %u rule%s of the contract", name, errors,
                      errors == 1 ? "" : "s");
    aw_parallel_free(&env);
    return err;
}
