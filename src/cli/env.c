/* env.c - the verbs `env list`, `env describe` and `env check`. */
#include <aware/env.h>

#include <math.h>
#include <stdio.h>

#include "cli/env_many.h"
#include "env/check.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "rpc/remote.h"

const char *aw_env_space_text(const struct aw_space *space, char *buf, size_t size)
{
    if (space->kind == AW_SPACE_DISCRETE)
        snprintf(buf, size, "discrete(%u)", space->n);
    else
        snprintf(buf, size, "box(%u)", space->dim);
    return buf;
}

json_t *aw_env_space_json(const struct aw_space *space)
{
    bool discrete = space->kind == AW_SPACE_DISCRETE;
    json_t *object = json_object(), *axes = json_array();
    json_object_set_new(object, "kind", json_string(discrete ? "discrete" : "box"));
    json_object_set_new(object, discrete ? "n" : "dim",
                        json_integer(discrete ? space->n : space->dim));
    for (uint32_t i = 0; i < (discrete ? space->n : space->dim); i++) {
        const struct aw_space_axis *axis = &space->axes[i];
        json_t *entry = json_object();
        json_object_set_new(entry, "name", json_string(axis->name));
        if (!discrete) {
            json_object_set_new(entry, "unit", json_string(axis->unit));
            json_object_set_new(entry, "low", aw_json_real((double)axis->low));
            json_object_set_new(entry, "high", aw_json_real((double)axis->high));
        }
        json_array_append_new(axes, entry);
    }
    json_object_set_new(object, discrete ? "choices" : "elements", axes);
    return object;
}

static json_t *spec_json(const struct aw_env_spec *spec)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(spec->name));
    json_object_set_new(object, "summary", json_string(spec->summary));
    json_object_set_new(object, "observation", aw_env_space_json(&spec->observation));
    json_object_set_new(object, "action", aw_env_space_json(&spec->action));
    json_object_set_new(object, "episode_steps_max", json_integer(spec->episode_steps_max));
    json_object_set_new(object, "reward_low", aw_json_real((double)spec->reward_low));
    json_object_set_new(object, "reward_high", aw_json_real((double)spec->reward_high));
    json_object_set_new(object, "solved_return", aw_json_real((double)spec->solved_return));
    return object;
}

/* ---- list ---- */

static enum aw_err list_run(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"NAME", "OBSERVATION", "ACTION", ">STEPS", "SUMMARY", NULL};
    const struct aw_env_factory *const *factory = aw_env_builtin();
    char text[64];
    if (run->json) {
        json_t *list = json_array();
        for (; *factory; factory++)
            json_array_append_new(list, spec_json((*factory)->spec));
        aw_env_many_list_json(list);
        return aw_json_print(list, diag);
    }
    struct aw_table table;
    aw_table_init(&table, heads);
    for (; *factory; factory++) {
        const struct aw_env_spec *spec = (*factory)->spec;
        aw_table_add(&table, "%s", spec->name);
        aw_table_add(&table, "%s", aw_env_space_text(&spec->observation, text, sizeof text));
        aw_table_add(&table, "%s", aw_env_space_text(&spec->action, text, sizeof text));
        if (spec->episode_steps_max)
            aw_table_add(&table, "%u", spec->episode_steps_max);
        else
            aw_table_add(&table, "-");
        aw_table_add(&table, "%s", spec->summary);
    }
    aw_env_many_list(&table);
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static const struct aw_example list_examples[] = {
    {"aware env list", "what there is to learn"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_env_list = {
    .name = "env list",
    .summary = "List the built-in environments",
    .text = "STEPS is how many steps an episode may last before it is cut off; - means for ever. "
            "Those with agents are of many that act at once (docs/mechanisms/parallel.md).",
    .examples = list_examples,
    .json = true,
    .run = list_run,
};

/* ---- describe ---- */

enum aw_err aw_env_space_print(const struct aw_space *space, const char *what, bool color,
                               struct aw_diag *diag)
{
    static const char *const box[] = {">INDEX", "NAME", "UNIT", ">LOW", ">HIGH", NULL};
    static const char *const discrete[] = {">VALUE", "MEANING", NULL};
    char low[32], high[32], text[64];
    struct aw_table table;
    bool is_box = space->kind == AW_SPACE_BOX;
    printf("\n%s: %s\n", what, aw_env_space_text(space, text, sizeof text));
    aw_table_init(&table, is_box ? box : discrete);
    for (uint32_t i = 0; i < (is_box ? space->dim : space->n); i++) {
        const struct aw_space_axis *axis = &space->axes[i];
        aw_table_add(&table, "%u", i);
        aw_table_add(&table, "%s", axis->name);
        if (!is_box)
            continue;
        aw_table_add(&table, "%s", *axis->unit ? axis->unit : "-");
        aw_table_add(&table, "%s", aw_figure_format((double)axis->low, low, sizeof low));
        aw_table_add(&table, "%s", aw_figure_format((double)axis->high, high, sizeof high));
    }
    return aw_table_print(&table, stdout, color, diag);
}

/* The agent that an environment brings along. */
static enum aw_err fallback_print(const struct aw_env_factory *factory, struct aw_diag *diag)
{
    struct aw_env env = {0};
    const enum aw_err err = factory->make(NULL, &env, diag);
    if (!err && *aw_env_fallback_name(&env))
        printf("Agent:    %s, which needs no learning; 'aware train --bootstrap' begins with it\n",
               aw_env_fallback_name(&env));
    aw_env_free(&env);
    return err;
}

/* Of an environment that lives here, or as another program tells of its own. */
static enum aw_err options_print(const struct aw_env_factory *factory, bool color,
                                 struct aw_diag *diag)
{
    static const char *const heads[] = {"OPTION", "DEFAULT", "TAKES", "WHAT IT DOES", NULL};
    const struct aw_remote_option *told = NULL;
    const uint32_t told_count = aw_remote_options(factory, &told);
    struct aw_table table;
    if (!factory->fields && !told_count)
        return AW_OK;
    printf("\nOptions, given to 'aware train' as --set env.OPTION=VALUE:\n");
    aw_table_init(&table, heads);
    for (const struct aw_conf_field *field = factory->fields; field && field->key; field++) {
        char takes[128];
        aw_table_add(&table, "%s", field->key);
        aw_table_add(&table, "%s", *field->initial ? field->initial : "-");
        aw_table_add(&table, "%s", aw_conf_expects(field, takes, sizeof takes));
        aw_table_add(&table, "%s", field->help);
    }
    for (uint32_t i = 0; i < told_count; i++) {
        aw_table_add(&table, "%s", told[i].key);
        aw_table_add(&table, "%s", *told[i].initial ? told[i].initial : "-");
        aw_table_add(&table, "%s", told[i].takes);
        aw_table_add(&table, "%s", told[i].help);
    }
    return aw_table_print(&table, stdout, color, diag);
}

static enum aw_err describe_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_env_factory *factory = NULL;
    char low[32], high[32];
    if (aw_env_many_has(run->args->positional[0]))
        return aw_env_many_describe(run, diag);
    enum aw_err err = aw_env_find(run->args->positional[0], &factory, diag);
    if (err)
        return err;
    const struct aw_env_spec *spec = factory->spec;
    if (run->json)
        return aw_json_print(spec_json(spec), diag);
    printf("%s: %s\n\n", spec->name, spec->summary);
    if (spec->episode_steps_max)
        printf("Episode:  at most %u steps\n", spec->episode_steps_max);
    else
        printf("Episode:  as long as it takes\n");
    aw_figure_format((double)spec->reward_low, low, sizeof low);
    aw_figure_format((double)spec->reward_high, high, sizeof high);
    printf("Reward:   %s%s%s for each step\n", low, strcmp(low, high) ? " to " : "",
           strcmp(low, high) ? high : "");
    if (!isnan(spec->solved_return))
        printf("Solved:   at a mean episode return of %s\n",
               aw_figure_format((double)spec->solved_return, low, sizeof low));
    if ((err = fallback_print(factory, diag)) ||
        (err = aw_env_space_print(&spec->observation, "Observation", run->color_out, diag)) ||
        (err = aw_env_space_print(&spec->action, "Action", run->color_out, diag)))
        return err;
    return options_print(factory, run->color_out, diag);
}

static const struct aw_positional name_positional[] = {
    {.name = "NAME", .kind = AW_ARG_ENV, .help = "an environment; 'aware env list' shows them"},
    {.name = NULL},
};
static const struct aw_example describe_examples[] = {
    {"aware env describe pendulum-v1", "spaces with names, units and bounds"},
    {"aware env describe cartpole-v1 --output json", "the same for programs; null is unbounded"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_env_describe = {
    .name = "env describe",
    .summary = "Show the spaces, rewards and limits of an environment",
    .positionals = name_positional,
    .examples = describe_examples,
    .json = true,
    .run = describe_run,
};

/* ---- check ---- */

static const char *level_text(enum aw_env_check_level level)
{
    return level == AW_ENV_CHECK_ERROR ? "error" : "warning";
}

static enum aw_err findings_print(const struct aw_call *run, const char *name,
                                  const struct aw_env_finding *findings, uint32_t count,
                                  uint32_t error_count, struct aw_diag *diag)
{
    static const char *const heads[] = {"LEVEL", "RULE", "FINDING", NULL};
    if (run->json) {
        json_t *object = json_object(), *list = json_array();
        json_object_set_new(object, "env", json_string(name));
        json_object_set_new(object, "rules", json_integer(AW_ENV_CHECK_RULE_COUNT));
        json_object_set_new(object, "errors", json_integer(error_count));
        json_object_set_new(object, "warnings", json_integer(count - error_count));
        for (uint32_t i = 0; i < count; i++) {
            json_t *entry = json_object();
            json_object_set_new(entry, "level", json_string(level_text(findings[i].level)));
            json_object_set_new(entry, "rule",
                                json_string(aw_env_check_rule_name(findings[i].rule)));
            json_object_set_new(entry, "text", json_string(findings[i].text));
            json_array_append_new(list, entry);
        }
        json_object_set_new(object, "findings", list);
        return aw_json_print(object, diag);
    }
    printf("%s: %d rules checked, %u error%s, %u warning%s\n", name, AW_ENV_CHECK_RULE_COUNT,
           error_count, error_count == 1 ? "" : "s", count - error_count,
           count - error_count == 1 ? "" : "s");
    if (!count)
        return AW_OK;
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < count; i++) {
        aw_table_add(&table, "%s", level_text(findings[i].level));
        aw_table_add(&table, "%s", aw_env_check_rule_name(findings[i].rule));
        aw_table_add(&table, "%s", findings[i].text);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static enum aw_err check_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_env_finding findings[AW_ENV_CHECK_RULE_COUNT];
    const char *name = run->args->positional[0];
    struct aw_env env = {0};
    uint32_t count = 0, error_count = 0;
    if (aw_env_many_has(name))
        return aw_env_many_check(run, diag);
    enum aw_err err = aw_env_make(name, &env, diag);
    if (err)
        return err;
    if ((err = aw_env_check(&env, aw_args_number(run->args, "seed"), NULL, findings,
                            AW_ENV_CHECK_RULE_COUNT, &count)))
        goto out;
    for (uint32_t i = 0; i < count; i++)
        error_count += findings[i].level == AW_ENV_CHECK_ERROR;
    err = findings_print(run, name, findings, count, error_count, diag);
    if (!err && error_count)
        err = aw_fail(diag, AW_ERR_CHECK, "%s breaks %u rule%s of the contract", name, error_count,
                      error_count == 1 ? "" : "s");
out:
    aw_env_free(&env);
    return err;
}

static const struct aw_option check_options[] = {
    AW_OPTION_SEED("0", "where the episodes of the check start"),
    {.name = NULL},
};
static const struct aw_example check_examples[] = {
    {"aware env check cartpole-v1", "exit status 1 when it finds an error"},
    {"aware env check tenants-v0", "the same for an environment of many agents"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_env_check = {
    .name = "env check",
    .summary = "Check that an environment keeps its contract",
    .text = "Plays episodes and looks for what a learner would otherwise learn around: leaking "
            "seeds, hidden resets, lost final observations, actions that are not clipped, "
            "snapshots that do not bring back the same future.",
    .options = check_options,
    .positionals = name_positional,
    .examples = check_examples,
    .json = true,
    .run = check_run,
};
