/*
 * completion.c - the verb `completion`: a script for a shell, and the candidates it asks for.
 *
 * The scripts are thin: at every TAB they ask `aware __complete WORD...`, the last word being the
 * one under the cursor, and offer the lines they get ("candidate<TAB>what it is"). The lines
 * ":dirs" and ":files" ask for directories and files. So all shells know the same, and settings
 * complete for the learner that
 * --agent already names.
 */
#include <stdio.h>
#include <string.h>

#include <aware/env.h>

#include "cli/completion.h"
#include "frame/verbs.h"
#include "operate/names.h"
#include "rl/agents.h"
#include "simulation/simulate.h"
#include "study/experiment.h"
#include "workload/load.h"

static const char bash_script[] =
    "# bash completion for aware; load it with: source <(aware completion bash)\n"
    "_aware() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} cur prefix='' item\n"
    "    local -a words=()\n"
    "    read -ra words <<<\"$line\"\n"
    "    [[ $line == *[[:space:]] ]] && words+=('')\n"
    "    cur=${words[${#words[@]}-1]}\n"
    "    # bash replaces only what follows '=' where that breaks words\n"
    "    [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]] && prefix=${cur%\"${cur##*=}\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r item _; do\n"
    "        if [[ $item == :dirs || $item == :files ]]; then\n"
    "            compopt -o filenames\n"
    "            [[ $item == :dirs ]] && item=-d || item=-f\n"
    "            while IFS= read -r item; do COMPREPLY+=(\"$item\"); done \\\n"
    "                < <(compgen $item -- \"${cur#\"$prefix\"}\")\n"
    "        elif [[ -n $item ]]; then\n"
    "            [[ $item == *= ]] && compopt -o nospace\n"
    "            COMPREPLY+=(\"${item#\"$prefix\"}\")\n"
    "        fi\n"
    "    done < <(\"${words[0]}\" __complete -- \"${words[@]:1}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _aware aware\n";

static const char zsh_script[] =
    "#compdef aware\n"
    "# zsh completion for aware; load it with: source <(aware completion zsh)\n"
    "# or save it as _aware in a directory of $fpath\n"
    "_aware() {\n"
    "    local line item text\n"
    "    local -a plain open\n"
    "    for line in \"${(@f)$(\"${words[1]}\" __complete -- \"${(@)words[2,CURRENT]}\" "
    "2>/dev/null)}\"; do\n"
    "        item=${line%%$'\\t'*}\n"
    "        text=${line#*$'\\t'}\n"
    "        case $item in\n"
    "        '') ;;\n"
    "        :dirs) _files -/ ;;\n"
    "        :files) _files ;;\n"
    "        *=) open+=(\"${item//:/\\\\:}:$text\") ;;\n"
    "        *) plain+=(\"${item//:/\\\\:}:$text\") ;;\n"
    "        esac\n"
    "    done\n"
    "    (( $#plain )) && _describe -t candidates aware plain\n"
    "    (( $#open )) && _describe -t settings setting open -S ''\n"
    "    return 0\n"
    "}\n"
    "if [[ ${funcstack[1]} == _aware ]]; then\n"
    "    _aware \"$@\"\n"
    "elif (( $+functions[compdef] )); then\n"
    "    compdef _aware aware\n"
    "fi\n";

static const char fish_script[] =
    "# fish completion for aware; load it with: aware completion fish | source\n"
    "function __aware_complete\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    for line in (command $words[1] __complete -- $words[2..-1] 2>/dev/null)\n"
    "        if test \"$line\" = :dirs\n"
    "            __fish_complete_directories (commandline -ct) directory\n"
    "        else if test \"$line\" = :files\n"
    "            __fish_complete_path (commandline -ct) file\n"
    "        else\n"
    "            echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c aware -f -a '(__aware_complete)'\n";

static enum aw_err completion_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *shell = run->args->positional[0];
    (void)diag;
    fputs(!strcmp(shell, "bash")  ? bash_script
          : !strcmp(shell, "zsh") ? zsh_script
                                  : fish_script,
          stdout);
    return AW_OK;
}

static const char *const shells[] = {"bash", "zsh", "fish", NULL};
static const struct aw_positional completion_positionals[] = {
    {.name = "SHELL", .kind = AW_ARG_CHOICE, .choices = shells, .help = "bash, zsh or fish"},
    {.name = NULL},
};
static const struct aw_example completion_examples[] = {
    {"source <(aware completion bash)", "for this bash session"},
    {"aware completion zsh > ~/.zfunc/_aware", "for every zsh, with ~/.zfunc in $fpath"},
    {"aware completion fish > ~/.config/fish/completions/aware.fish", "for every fish"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_completion = {
    .name = "completion",
    .summary = "Print the completion script of a shell",
    .text = "The script completes verbs, options, choices, the names of environments and "
            "learners, and the keys that --set takes for the learner given with --agent.",
    .positionals = completion_positionals,
    .examples = completion_examples,
    .run = completion_run,
};

/* ---- __complete ---- */

/* The word under the cursor, and what must stand before a candidate ("--env=" in "--env=cart"). */
struct cursor {
    const char *word;   /* what has been typed of the candidate */
    const char *before; /* of `before_len` bytes, repeated in front of each candidate */
    int before_len;
};

static void offer(const struct cursor *cursor, const char *text, size_t len, const char *help)
{
    size_t typed = strlen(cursor->word);
    if (typed <= len && !strncmp(text, cursor->word, typed))
        printf("%.*s%.*s\t%s\n", cursor->before_len, cursor->before, (int)len, text, help);
}

static void offer_text(const struct cursor *cursor, const char *text, const char *help)
{
    offer(cursor, text, strlen(text), help);
}

/* The verbs, of which `first` (or NULL) is already typed: first words, then second ones. */
static void offer_verbs(const struct cursor *cursor, const char *first)
{
    const char *shown = NULL;
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        const struct aw_verb *verb = aw_verbs[i];
        size_t len = strcspn(verb->name, " ");
        if (aw_verb_hidden(verb))
            continue;
        if (first) {
            if (aw_verb_in_group(verb, first))
                offer_text(cursor, verb->name + len + 1, verb->summary);
        } else if (!shown || strcspn(shown, " ") != len || strncmp(shown, verb->name, len)) {
            offer(cursor, verb->name, len, verb->name[len] ? "Several verbs" : verb->summary);
            shown = verb->name;
        }
    }
}

/* The value that the words before the cursor give to --agent; NULL: none. */
static const struct aw_agent_factory *agent_given(char *const *words, uint32_t count)
{
    const struct aw_agent_factory *factory = NULL;
    for (uint32_t i = 0; i + 1 < count; i++) {
        const char *value = !strcmp(words[i], "--agent") || !strcmp(words[i], "-a") ? words[i + 1]
                            : !strncmp(words[i], "--agent=", 8)                     ? words[i] + 8
                                                                                    : NULL;
        if (value && aw_agent_factory_find(value, &factory, NULL))
            factory = NULL;
    }
    return factory;
}

static void offer_settings_of(const struct cursor *cursor, const struct aw_conf_field *fields)
{
    static const char *const booleans[] = {"true", "false", NULL};
    for (const struct aw_conf_field *field = fields; field->key; field++) {
        char text[256];
        size_t len = strlen(field->key);
        if (strncmp(cursor->word, field->key, len) || cursor->word[len] != '=') {
            snprintf(text, sizeof text, "%s=", field->key);
            offer_text(cursor, text, field->help);
            continue;
        }
        const char *const *values = field->type == AW_CONF_BOOL     ? booleans
                                    : field->type == AW_CONF_CHOICE ? field->choices
                                                                    : NULL;
        for (; values && *values; values++) {
            snprintf(text, sizeof text, "%s=%s", field->key, *values);
            offer_text(cursor, text, field->help);
        }
    }
}

/* The names of policies behind what is typed up to the last comma. */
static void offer_policies(const struct cursor *cursor)
{
    const char *comma = strrchr(cursor->word, ','), *name;
    int typed = comma ? (int)(comma + 1 - cursor->word) : 0;
    for (uint32_t i = 0; (name = aw_simulate_policy_name(i)); i++) {
        char text[256];
        snprintf(text, sizeof text, "%.*s%s", typed < 200 ? typed : 200, cursor->word, name);
        offer_text(cursor, text, "");
    }
}

static void take_name(void *ctx, const char *name)
{
    offer_text(ctx, name, "");
}

/* What follows `name` among the words, or stands behind its '='; NULL: it is not there. */
static const char *value_of(const char *name, char *const *words, uint32_t count)
{
    const size_t len = strlen(name);
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (!strcmp(words[i], name))
            return words[i + 1];
        if (!strncmp(words[i], name, len) && words[i][len] == '=')
            return words[i] + len + 1;
    }
    return NULL;
}

static void offer_kind(const struct cursor *cursor, const struct aw_verb *verb,
                       enum aw_arg_kind kind, const char *const *choices,
                       const struct aw_agent_factory *agent)
{
    const struct aw_agent_factory *const *agents = aw_agent_builtin();
    switch (kind) {
    case AW_ARG_CHOICE:
        for (; *choices; choices++)
            offer_text(cursor, *choices, "");
        break;
    case AW_ARG_DIR:
        puts(":dirs");
        break;
    case AW_ARG_FILE:
        puts(":files");
        break;
    case AW_ARG_ENV:
        for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++)
            offer_text(cursor, (*f)->spec->name, (*f)->spec->summary);
        break;
    case AW_ARG_AGENT:
        for (; *agents; agents++)
            offer_text(cursor, (*agents)->name, (*agents)->summary);
        break;
    case AW_ARG_PRESET:
        offer_text(cursor, "none", "the learner's own defaults");
        for (const struct aw_agent_preset *p = agent ? agent->presets : NULL; p && p->name; p++)
            offer_text(cursor, p->name, p->summary);
        break;
    case AW_ARG_SETTING:
        if (verb->settings)
            for (const struct aw_conf_field *const *t = verb->settings; *t; t++)
                offer_settings_of(cursor, *t);
        else if (agent)
            offer_settings_of(cursor, agent->fields);
        else
            for (; *agents; agents++)
                offer_settings_of(cursor, (*agents)->fields);
        break;
    case AW_ARG_POLICY:
        offer_policies(cursor);
        break;
    case AW_ARG_LOAD:
        for (const char *const *name = aw_load_pattern_names; *name; name++)
            offer_text(cursor, *name, "");
        puts(":files");
        break;
    case AW_ARG_EXPERIMENT:
        for (const struct aw_experiment_entry *e = aw_experiments; e->run; e++)
            offer_text(cursor, e->name, e->title);
        offer_text(cursor, "all", "every one of them, one after the other");
        break;
    case AW_ARG_VERB:
    case AW_ARG_FLAG:
    case AW_ARG_NUMBER:
    case AW_ARG_TEXT:
        break;
    }
}

/* The option that `word` spells, exactly, up to a '='; NULL: none. */
static const struct aw_option *option_spelled(const struct aw_verb *verb, const char *word)
{
    const struct aw_option *option;
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        size_t len = strlen(option->name);
        if (!strncmp(word, "--", 2) && !strncmp(word + 2, option->name, len) &&
            (!word[2 + len] || word[2 + len] == '='))
            return option;
        if (option->letter && word[0] == '-' && word[1] == option->letter && !word[2])
            return option;
    }
    return NULL;
}

static void complete_verb(const struct aw_verb *verb, uint32_t used, char *const *words,
                          uint32_t count)
{
    const char *word = words[count - 1];
    const struct aw_agent_factory *agent = agent_given(words, count);
    const struct aw_option *option;
    struct cursor cursor = {.word = word, .before = ""};
    uint32_t position = 0;

    for (uint32_t i = used; i + 1 < count; i++) {
        if (words[i][0] != '-') {
            position++;
            continue;
        }
        option = option_spelled(verb, words[i]);
        if (!option || option->kind == AW_ARG_FLAG || strchr(words[i], '='))
            continue;
        if (i + 2 == count) {
            offer_kind(&cursor, verb, option->kind, option->choices, agent);
            return;
        }
        i++; /* its value */
    }
    if (!strncmp(word, "--", 2) && strchr(word, '=')) {
        cursor.before = word;
        cursor.before_len = (int)(strchr(word, '=') - word) + 1;
        cursor.word = word + cursor.before_len;
        option = option_spelled(verb, word);
        if (option && option->kind != AW_ARG_FLAG)
            offer_kind(&cursor, verb, option->kind, option->choices, agent);
        return;
    }
    if (word[0] == '-') {
        for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
            char text[64];
            snprintf(text, sizeof text, "--%s", option->name);
            offer_text(&cursor, text, option->help);
        }
        return;
    }
    for (const struct aw_positional *p = verb->positionals; p && p->name; p++) {
        if (position == 0 || p->repeated) {
            offer_kind(&cursor, verb, p->kind, p->choices, agent);
            if (p->kind == AW_ARG_TEXT && !strcmp(p->name, "WORKLOAD"))
                aw_workload_names(value_of("--socket", words, count),
                                  value_of("--state", words, count), take_name, &cursor);
        }
        position--;
    }
}

void aw__complete(char *const *words, uint32_t count)
{
    const struct aw_verb *verb;
    uint32_t used;
    if (count && !strcmp(words[0], "--"))
        words++, count--;
    struct cursor cursor = {.word = count ? words[count - 1] : "", .before = ""};
    if (count > 1 && !strcmp(words[0], "help")) {
        if (count < 4)
            offer_verbs(&cursor, count == 3 ? words[1] : NULL);
    } else if (count <= 1) {
        offer_verbs(&cursor, NULL);
    } else if (!aw_verb_find(words, count - 1, &verb, &used, NULL)) {
        if (count == 2) /* of a verb that is a group as well */
            offer_verbs(&cursor, words[0]);
        complete_verb(verb, used, words, count);
    } else if (count == 2) {
        offer_verbs(&cursor, words[0]);
    }
}
