/* help.c - the verb `help`, and --help of every verb. */
#include "frame/help.h"

#include <string.h>

#include "frame/layout.h"
#include "frame/verbs.h"

#define HELP_TEXT_MAX 2048u
#define SYNOPSIS_MAX  512u
#define OPTION_COLUMN 27u /* where the text of an option starts */
#define VERB_COLUMN   18u /* where the summary of a verb starts */

const char aw__about[] =
    "aware learns to autoscale: it sets the replicas of a workload, and the CPU and memory of "
    "each, "
    "so that its SLO holds at the least cost. It begins under the controllers that people trust "
    "(HPA "
    "and VPA), acts after ten minutes with a policy that did well in similar applications, and "
    "explains "
    "every decision. "
    "'aware run' shows it on a simulated cluster.";

const struct aw__note aw__notes_environment[] = {
    {"AWARE_SOCKET",
     "Socket of the daemon that verbs ask, where neither --socket nor --state says otherwise."},
    {"NO_COLOR", "Set to anything: no colour, unless --color=always is given."},
    {"TERM", "When it is dumb: no colour and no progress line."},
    {NULL, NULL},
};

const struct aw__note aw__notes_files[] = {
    {"DIR/run.json", "What was asked: environment, learner, seed, steps and every setting."},
    {"DIR/model.safetensors", "The networks under PyTorch's parameter names, with metadata."},
    {"DIR/state.safetensors", "Moments, replay, normalisers and generator of the learner."},
    {"DIR/loop.state", "The environments in mid-episode and the counters of the run."},
    {"DIR/progress.csv", "One row for each finished episode."},
    {"DIR/events.out.tfevents.*", "The same and the losses for TensorBoard."},
    {NULL, NULL},
};

const struct aw__note aw__notes_exit[] = {
    {"0", "Done."},
    {"1", "A check did not hold: aware env check, aware explain --replay; or aware diff found a "
          "difference."},
    {"64", "Wrong usage: an unknown verb, option or value."},
    {"65", "Malformed or out-of-range input, such as a damaged file."},
    {"66", "Not found: an environment, a learner, a directory."},
    {"69", "Not supported here, or not enough data."},
    {"70", "A number left the finite range: training diverged."},
    {"71", "Out of memory."},
    {"73", "It already exists: a run directory that is not empty."},
    {"74", "Input or output failed."},
    {"75", "Try again: something changed under us or took too long."},
    {"78", "Invalid configuration: an unknown setting or a bad value."},
    {"130", "Interrupted; what was learned is saved when --out was given."},
    {NULL, NULL},
};

static const char *bold(bool color)
{
    return color ? "\033[1m" : "";
}

static const char *plain(bool color)
{
    return color ? "\033[0m" : "";
}

static void heading(FILE *out, const char *text, bool color)
{
    fprintf(out, "\n%s%s%s\n", bold(color), text, plain(color));
}

/* `term` at column 2, `text` wrapped from `column`; on the next line when the term is too long. */
static void item(FILE *out, const char *term, const char *text, unsigned column)
{
    unsigned len = (unsigned)strlen(term) + 2;
    fprintf(out, "  %s", term);
    if (len + 2 > column) {
        fputc('\n', out);
        len = 0;
    }
    fprintf(out, "%*s", (int)(column - len), "");
    aw_wrap(out, text, column, column, AW_HELP_COLUMNS);
}

static void paragraphs(FILE *out, const char *text)
{
    char paragraph[HELP_TEXT_MAX];
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)len, text);
        fputc('\n', out);
        aw_wrap(out, paragraph, 0, 0, AW_HELP_COLUMNS);
        text += len + (end ? 2 : 0);
    }
}

const char *aw__option_help(const struct aw_option *option, char *buf, size_t size)
{
    if (option->initial)
        snprintf(buf, size, "%s (default %s)", option->help, option->initial);
    else
        snprintf(buf, size, "%s%s%s", option->help, option->required ? " (required)" : "",
                 option->repeated ? " (repeatable)" : "");
    return buf;
}

void aw_help_verb(FILE *out, const struct aw_verb *verb, bool color)
{
    char term[128], text[HELP_TEXT_MAX], synopsis[SYNOPSIS_MAX];
    const struct aw_option *option;

    fprintf(out, "%sUsage:%s ", bold(color), plain(color));
    aw_wrap(out, aw__verb_synopsis(verb, synopsis, sizeof synopsis), 7, 9, AW_HELP_COLUMNS);
    snprintf(text, sizeof text, "%s.", verb->summary);
    paragraphs(out, text);
    if (verb->text)
        paragraphs(out, verb->text);
    if (verb->positionals)
        heading(out, "Arguments:", color);
    for (const struct aw_positional *p = verb->positionals; p && p->name; p++)
        item(out, p->name, p->help, OPTION_COLUMN);
    heading(out, "Options:", color);
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        char letter[8] = "    ";
        if (option->letter)
            snprintf(letter, sizeof letter, "-%c, ", option->letter);
        snprintf(term, sizeof term, "%s--%s%s%s", letter, option->name, option->arg ? " " : "",
                 option->arg ? option->arg : "");
        item(out, term, aw__option_help(option, text, sizeof text), OPTION_COLUMN);
    }
    bool headed = false;
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        if (!aw_verb_in_group(aw_verbs[i], verb->name))
            continue;
        if (!headed)
            heading(out, "Verbs:", color);
        headed = true;
        item(out, aw_verbs[i]->name, aw_verbs[i]->summary, OPTION_COLUMN);
    }
    if (verb->examples)
        heading(out, "Examples:", color);
    for (const struct aw_example *e = verb->examples; e && e->command; e++)
        fprintf(out, "%s  # %s\n  %s\n", e == verb->examples ? "" : "\n", e->help, e->command);
}

static void help_group(FILE *out, const char *word, bool color)
{
    fprintf(out, "%sUsage:%s aware %s VERB [OPTION]...\n", bold(color), plain(color), word);
    heading(out, "Verbs:", color);
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        if (aw_verb_in_group(aw_verbs[i], word))
            item(out, aw_verbs[i]->name, aw_verbs[i]->summary, VERB_COLUMN);
    }
    fprintf(out, "\n'aware help %s VERB' tells more about one.\n", word);
}

/* Verbs as a person looks for them. A word is a verb or the first word of several; those are told
 * in one line, which begins with `about`. */
static const struct section {
    const char *heading;
    struct {
        const char *word, *about;
    } row[24]; /* ends with a NULL word */
} sections[] = {
    {"Run and watch",
     {{"run", NULL},
      {"get", NULL},
      {"describe", NULL},
      {"top", NULL},
      {"capacity", NULL},
      {"explain", NULL},
      {"history", NULL},
      {"budget", NULL}}},
    {"Give orders",
     {{"freeze", NULL},
      {"unfreeze", NULL},
      {"undo", NULL},
      {"approve", NULL},
      {"reject", NULL},
      {"emergency", NULL},
      {"calm", NULL},
      {"policy", "The policies of a workload"},
      {"state", "What was learned of a workload"}}},
    {"Files and records",
     {{"validate", NULL},
      {"explain-schema", NULL},
      {"diff", NULL},
      {"replay", NULL},
      {"export", NULL},
      {"audit", "The tamper-evident audit log"},
      {"store", "Trajectories"}}},
    {"Kubernetes", {{"scan", NULL}, {"doctor", NULL}, {"controller", NULL}, {"recommend", NULL}}},
    {"Services, model servers, devices",
     {{"trace", "Requests that cross services"},
      {"inject", NULL},
      {"serving", "Model serving that saves power"},
      {"gpu", "Clocks and power of GPUs"},
      {"frequency", "Clocks of CPUs"},
      {"congestion", "Congestion control over real packets"},
      {"size", NULL}}},
    {"Learn",
     {{"train", NULL},
      {"pretrain", NULL},
      {"adapt", NULL},
      {"embed", NULL},
      {"env", "Environments"},
      {"agent", "Learners"},
      {"task", "Tasks that one meta-learner serves"}}},
    {"Measure and compare",
     {{"simulate", NULL},
      {"evaluate", NULL},
      {"experiment", NULL},
      {"trial", NULL},
      {"calibrate", NULL},
      {"chaos", NULL},
      {"apps", "Generated applications"},
      {"load", NULL},
      {"local", "Real processes of this machine"}}},
    {"This program", {{"help", NULL}, {"version", NULL}, {"completion", NULL}}},
};

static bool sectioned(const char *name)
{
    const size_t len = strcspn(name, " ");
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        for (size_t k = 0; sections[i].row[k].word; k++)
            if (strlen(sections[i].row[k].word) == len &&
                !memcmp(sections[i].row[k].word, name, len))
                return true;
    return false;
}

/* "spans of requests: import, collect, list" of the verbs that begin with `word`; "": none. */
static void group_text(const char *word, const char *about, char *buf, size_t size)
{
    size_t used = 0;
    *buf = 0;
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        if (!aw_verb_in_group(aw_verbs[i], word) || used >= size)
            continue;
        const int len = snprintf(buf + used, size - used, "%s%s%s",
                                 used    ? ""
                                 : about ? about
                                         : "",
                                 used    ? ", "
                                 : about ? ": "
                                         : "",
                                 aw_verbs[i]->name + strlen(word) + 1);
        used += len > 0 ? (size_t)len : 0;
    }
}

static void word_print(FILE *out, const char *word, const char *about)
{
    char text[HELP_TEXT_MAX], more[64];
    const struct aw_verb *verb = aw_verb_named(word);
    if (verb)
        item(out, word, verb->summary, VERB_COLUMN);
    group_text(word, verb ? NULL : about, text, sizeof text);
    snprintf(more, sizeof more, verb ? "%s VERB" : "%s", word);
    if (*text)
        item(out, more, text, VERB_COLUMN);
}

void aw_help_all(FILE *out, bool color)
{
    fprintf(out, "%sUsage:%s aware VERB [OPTION]... [ARGUMENT]...\n\n", bold(color), plain(color));
    aw_wrap(out, aw__about, 0, 0, AW_HELP_COLUMNS);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s:", sections[i].heading);
        heading(out, text, color);
        for (size_t k = 0; sections[i].row[k].word; k++)
            word_print(out, sections[i].row[k].word, sections[i].row[k].about);
    }
    bool headed = false;
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        if (aw_verb_hidden(aw_verbs[i]) || sectioned(aw_verbs[i]->name))
            continue;
        if (!headed)
            heading(out, "Others:", color);
        headed = true;
        item(out, aw_verbs[i]->name, aw_verbs[i]->summary, VERB_COLUMN);
    }
    heading(out, "Words:", color);
    item(
        out, "fallback",
        "The controller that acts while the learned policy may not: HPA and VPA, unless you choose "
        "another",
        VERB_COLUMN);
    item(out, "stage",
         "How far the policy has come. offline: the fallback acts, the policy learns; online: the "
         "policy acts on trial (skipped where the library knows similar applications); serving: "
         "it acts, and is watched",
         VERB_COLUMN);
    item(out, "budget",
         "The share of steps (15 s each) that may miss the SLO: 1 %, unless you set another; "
         "'aware budget' is about changes, not about this",
         VERB_COLUMN);
    item(out, "freeze",
         "Your order that nothing changes, or that nothing shrinks, until it ends or is lifted",
         VERB_COLUMN);
    heading(out, "First steps:", color);
    fputs("  aware run                     # the demo: five workloads, about a minute\n"
          "  aware run -f workloads.yaml   # your own; examples/ten-lines.yaml is one\n"
          "  aware run --demo NAME         # what else it does; 'aware help run' lists it\n"
          "  aware help VERB               # more about one verb; 'man aware' has it all\n",
          out);
}

static enum aw_err help_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *first = run->args->positional[0], *second = run->args->positional[1];
    const struct aw_verb *verb = NULL;
    char *words[2] = {(char *)(uintptr_t)first, (char *)(uintptr_t)second};
    uint32_t used;
    enum aw_err err;

    if (!first) {
        aw_help_all(stdout, run->color_out);
        return AW_OK;
    }
    if (!second) {
        for (uint32_t i = 0; aw_verbs[i]; i++) {
            if (aw_verb_in_group(aw_verbs[i], first) && !aw_verb_named(first)) {
                help_group(stdout, first, run->color_out);
                return AW_OK;
            }
        }
    }
    if ((err = aw_verb_find(words, second ? 2 : 1, &verb, &used, diag)))
        return err;
    if (second && used == 1)
        return aw_fail(diag, AW_ERR_USAGE, "'aware %s' has no verbs of its own", first);
    aw_help_verb(stdout, verb, run->color_out);
    return AW_OK;
}

static const struct aw_positional help_positionals[] = {
    {.name = "VERB", .kind = AW_ARG_VERB, .help = "the verb to tell about", .optional = true},
    {.name = "WORD",
     .kind = AW_ARG_VERB,
     .help = "its second word, as in env list",
     .optional = true},
    {.name = NULL},
};
static const struct aw_example help_examples[] = {
    {"aware help train", "everything about one verb"},
    {"aware help env describe", "a verb of two words"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_help = {
    .name = "help",
    .summary = "Show what a verb does and takes",
    .positionals = help_positionals,
    .examples = help_examples,
    .run = help_run,
};
