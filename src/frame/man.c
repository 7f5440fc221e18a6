/* man.c - the manual page aware(1) in mdoc, from the same tables as --help. Hidden verb `__man`. */
#include "frame/help.h"

#include <ctype.h>
#include <string.h>

#include "frame/verbs.h"

#define MAN_DATE      "November 15, 2026" /* of the last change of meaning to any table */
#define MAN_TEXT_MAX  2048u
#define MAN_LINE_WRAP 78u /* bytes of a source line; roff fills the paragraph itself */

/* Text as roff reads it: a backslash would start an escape, a dot or quote at the start of a line a
 * request. Source lines break at spaces so that the page can be read and compared. A sentence ends
 * its line, as mdoc asks. */
static void roff(FILE *out, const char *text)
{
    unsigned column = 0;
    for (const char *p = text + strspn(text, " \n"); *p; p += strspn(p, " \n")) {
        size_t len = strcspn(p, " \n"), wide = len;
        for (size_t i = 0; i < len; i++)
            wide += p[i] == '-' || p[i] == '\\';
        if (column && column + wide > MAN_LINE_WRAP) {
            fputc('\n', out);
            column = 0;
        }
        if (column)
            fputc(' ', out);
        else if (*p == '.' || *p == '\'')
            fputs("\\&", out);
        for (size_t i = 0; i < len; i++)
            fputs(p[i] == '\\' ? "\\e" : p[i] == '-' ? "\\-" : (char[2]){p[i], 0}, out);
        column += (unsigned)wide + 1;
        bool sentence = len && strchr(".?!", p[len - 1]) && p[len] == ' ';
        p += len;
        if (sentence) {
            fputc('\n', out);
            column = 0;
        }
    }
    if (column)
        fputc('\n', out);
}

static void paragraphs(FILE *out, const char *text)
{
    char paragraph[MAN_TEXT_MAX];
    bool first = true;
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)len, text);
        if (!first)
            fputs(".Pp\n", out);
        first = false;
        roff(out, paragraph);
        text += len + (end ? 2 : 0);
    }
}

/* An argument of a macro: one word, however it is spelled. */
static void macro_arg(FILE *out, const char *text)
{
    fprintf(out, " %s", strchr(text, ' ') ? "\"" : "");
    fputs(text, out);
    fputs(strchr(text, ' ') ? "\"" : "", out);
}

static void option_print(FILE *out, const struct aw_option *option)
{
    char text[MAN_TEXT_MAX];
    fputs(".It", out);
    if (option->letter)
        fprintf(out, " Fl %c ,", option->letter);
    fprintf(out, " Fl \\-%s", option->name);
    if (option->arg) {
        fputs(" Ar", out);
        macro_arg(out, option->arg);
    }
    fputc('\n', out);
    aw__option_help(option, text, sizeof text);
    text[0] = (char)toupper((unsigned char)text[0]);
    roff(out, text);
}

static void verb_print(FILE *out, const struct aw_verb *verb)
{
    const struct aw_option *option;
    char text[MAN_TEXT_MAX];
    fprintf(out, ".Ss aware %s\n.Nm\n.Cm %s\n", verb->name, verb->name);
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        if (option->required)
            fprintf(out, ".Fl \\-%s Ar %s\n", option->name, option->arg);
    }
    fputs(".Op Ar OPTION ...\n", out);
    for (const struct aw_positional *p = verb->positionals; p && p->name; p++)
        fprintf(out, "%s %s%s\n", p->optional ? ".Op Ar" : ".Ar", p->name,
                p->repeated ? " ..." : "");
    fputs(".Pp\n", out);
    snprintf(text, sizeof text, "%s.", verb->summary);
    roff(out, text);
    if (verb->text) {
        fputs(".Pp\n", out);
        paragraphs(out, verb->text);
    }
    if (!verb->options && !verb->positionals)
        return;
    fputs(".Bl -tag -width indent\n", out);
    for (const struct aw_positional *p = verb->positionals; p && p->name; p++) {
        fprintf(out, ".It Ar %s\n", p->name);
        snprintf(text, sizeof text, "%s", p->help);
        text[0] = (char)toupper((unsigned char)text[0]);
        roff(out, text);
    }
    for (option = verb->options; option && option->name; option++)
        option_print(out, option);
    fputs(".El\n", out);
}

static void notes_print(FILE *out, const char *head, const struct aw__note *notes,
                        const char *macro)
{
    fprintf(out, ".Sh %s\n.Bl -tag -width indent\n", head);
    for (; notes->name; notes++) {
        fprintf(out, ".It %s %s\n", macro, notes->name);
        roff(out, notes->text);
    }
    fputs(".El\n", out);
}

static enum aw_err man_run(const struct aw_call *run, struct aw_diag *diag)
{
    FILE *out = stdout;
    const struct aw_option *option;
    (void)run;
    (void)diag;
    fputs(".\\\" Generated from the tables of the program; do not edit.\n"
          ".Dd " MAN_DATE "\n.Dt AWARE 1\n.Os\n.Sh NAME\n.Nm aware\n"
          ".Nd learn to autoscale workloads: replicas, CPU and memory\n"
          ".Sh SYNOPSIS\n.Nm\n.Ar VERB\n.Op Ar OPTION ...\n.Op Ar ARGUMENT ...\n"
          ".Sh DESCRIPTION\n",
          out);
    roff(out, aw__about);
    fputs(".Pp\nResults go to standard output, progress and log lines to standard error.\n"
          "An error is one line on standard error.\n"
          ".Sh COMMON OPTIONS\nEvery verb takes these;\n.Fl \\-output\n"
          "where it has results.\n.Bl -tag -width indent\n",
          out);
    struct aw_verb bare = {.name = "", .json = true};
    for (uint32_t i = 0; (option = aw_verb_option(&bare, i)); i++)
        option_print(out, option);
    fputs(".El\n.Sh VERBS\n", out);
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        if (!aw_verb_hidden(aw_verbs[i]))
            verb_print(out, aw_verbs[i]);
    }
    notes_print(out, "ENVIRONMENT", aw__notes_environment, "Ev");
    notes_print(out, "FILES", aw__notes_files, "Pa");
    notes_print(out, "EXIT STATUS", aw__notes_exit, "Li");
    fputs(".Sh EXAMPLES\n", out);
    bool first = true;
    for (uint32_t i = 0; aw_verbs[i]; i++) {
        for (const struct aw_example *e = aw_verbs[i]->examples; e && e->command; e++) {
            char text[MAN_TEXT_MAX];
            if (!first)
                fputs(".Pp\n", out);
            first = false;
            snprintf(text, sizeof text, "%s:", e->help);
            text[0] = (char)toupper((unsigned char)text[0]);
            roff(out, text);
            fputs(".Dl ", out);
            roff(out, e->command);
        }
    }
    return AW_OK;
}

const struct aw_verb aw__verb_man = {
    .name = "__man",
    .summary = "Print the manual page",
    .run = man_run,
};
