/* agent.c - the verbs `agent list` and `agent describe`. */
#include <stdio.h>

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "rl/agents.h"

#define SETTING_TEXT_MAX 512u

static const char *actions_text(const struct aw_agent_factory *factory)
{
    return factory->continuous && factory->discrete ? "continuous, discrete"
           : factory->continuous                    ? "continuous"
                                                    : "discrete";
}

static json_t *factory_json(const struct aw_agent_factory *factory)
{
    char text[SETTING_TEXT_MAX];
    json_t *object = json_object(), *settings = json_array(), *presets = json_array();
    json_object_set_new(object, "name", json_string(factory->name));
    json_object_set_new(object, "summary", json_string(factory->summary));
    json_object_set_new(object, "continuous", json_boolean(factory->continuous));
    json_object_set_new(object, "discrete", json_boolean(factory->discrete));
    json_object_set_new(object, "on_policy", json_boolean(factory->on_policy));
    for (const struct aw_conf_field *field = factory->fields; field->key; field++) {
        json_t *entry = json_object();
        json_object_set_new(entry, "key", json_string(field->key));
        json_object_set_new(entry, "default", json_string(field->initial));
        json_object_set_new(entry, "expects",
                            json_string(aw_conf_expects(field, text, sizeof text)));
        json_object_set_new(entry, "help", json_string(field->help));
        json_array_append_new(settings, entry);
    }
    json_object_set_new(object, "settings", settings);
    for (const struct aw_agent_preset *preset = factory->presets; preset && preset->name;
         preset++) {
        json_t *entry = json_object(), *pairs = json_array();
        json_object_set_new(entry, "name", json_string(preset->name));
        json_object_set_new(entry, "summary", json_string(preset->summary));
        for (const char *const *pair = preset->pairs; *pair; pair++)
            json_array_append_new(pairs, json_string(*pair));
        json_object_set_new(entry, "settings", pairs);
        json_array_append_new(presets, entry);
    }
    json_object_set_new(object, "presets", presets);
    return object;
}

/* ---- list ---- */

static enum aw_err list_run(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"NAME", "ACTIONS", "LEARNS FROM", "SUMMARY", NULL};
    const struct aw_agent_factory *const *factory = aw_agent_builtin();
    if (run->json) {
        json_t *list = json_array();
        for (; *factory; factory++)
            json_array_append_new(list, factory_json(*factory));
        return aw_json_print(list, diag);
    }
    struct aw_table table;
    aw_table_init(&table, heads);
    for (; *factory; factory++) {
        aw_table_add(&table, "%s", (*factory)->name);
        aw_table_add(&table, "%s", actions_text(*factory));
        aw_table_add(&table, "%s", (*factory)->on_policy ? "rollouts" : "replay");
        aw_table_add(&table, "%s", (*factory)->summary);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static const struct aw_example list_examples[] = {
    {"aware agent list", "the learners there are"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_agent_list = {
    .name = "agent list",
    .summary = "List the learners",
    .text = "LEARNS FROM says whether a learner keeps old steps (replay) or learns only from its "
            "own latest ones (rollouts).",
    .examples = list_examples,
    .json = true,
    .run = list_run,
};

/* ---- describe ---- */

static enum aw_err settings_print(const struct aw_agent_factory *factory, bool color,
                                  struct aw_diag *diag)
{
    static const char *const heads[] = {"KEY", "DEFAULT", "MEANING", NULL};
    char text[SETTING_TEXT_MAX];
    struct aw_table table;
    printf("\nSettings, for --set KEY=VALUE:\n");
    aw_table_init(&table, heads);
    for (const struct aw_conf_field *field = factory->fields; field->key; field++) {
        aw_table_add(&table, "%s", field->key);
        aw_table_add(&table, "%s", *field->initial ? field->initial : "-");
        aw_table_add(&table, "%s (%s)", field->help, aw_conf_expects(field, text, sizeof text));
    }
    return aw_table_print(&table, stdout, color, diag);
}

static enum aw_err presets_print(const struct aw_agent_factory *factory, bool color,
                                 struct aw_diag *diag)
{
    static const char *const heads[] = {"PRESET", "SETS", NULL};
    struct aw_table table;
    if (!factory->presets || !factory->presets->name)
        return AW_OK;
    printf("\nPresets, for --preset NAME (one named like the environment is taken by itself):\n");
    aw_table_init(&table, heads);
    for (const struct aw_agent_preset *preset = factory->presets; preset->name; preset++) {
        char buf[AW_CELL_MAX];
        struct aw_text text;
        aw_text_init(&text, buf, sizeof buf);
        aw_text_add(&text, "%s:", preset->summary);
        for (const char *const *pair = preset->pairs; *pair; pair++)
            aw_text_add(&text, " %s", *pair);
        aw_table_add(&table, "%s", preset->name);
        aw_table_add(&table, "%s", buf);
    }
    return aw_table_print(&table, stdout, color, diag);
}

static enum aw_err describe_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_agent_factory *factory = NULL;
    enum aw_err err = aw_agent_factory_find(run->args->positional[0], &factory, diag);
    if (err)
        return err;
    if (run->json)
        return aw_json_print(factory_json(factory), diag);
    printf("%s: %s\n\nActions:      %s\nLearns from:  %s\n", factory->name, factory->summary,
           actions_text(factory),
           factory->on_policy ? "its own latest steps (rollouts)" : "a replay of old steps");
    if ((err = settings_print(factory, run->color_out, diag)))
        return err;
    return presets_print(factory, run->color_out, diag);
}

static const struct aw_positional name_positional[] = {
    {.name = "NAME", .kind = AW_ARG_AGENT, .help = "a learner; 'aware agent list' shows them"},
    {.name = NULL},
};
static const struct aw_example describe_examples[] = {
    {"aware agent describe ddpg", "its settings with defaults, and its presets"},
    {"aware agent describe ppo --output json", "the same for programs"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_agent_describe = {
    .name = "agent describe",
    .summary = "Show the settings and presets of a learner",
    .positionals = name_positional,
    .examples = describe_examples,
    .json = true,
    .run = describe_run,
};
