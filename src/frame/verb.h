/*
 * verb.h - a verb as one table: what it is called, what it takes, what it says, what it does.
 *
 * From these tables come parsing, --help, `aware help`, the man page, the Markdown reference and
 * the completion of every shell, so none of them can disagree with another.
 *
 * A verb of two words ("env list") is one entry whose name has a space; the entries of one group
 * stand together in the table. Results go to stdout, everything else to stderr.
 */
#ifndef AW_FRAME_VERB_H
#define AW_FRAME_VERB_H

#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/text.h"

#define AW__OPTIONS_MAX     40u   /* options of one verb, the common ones included */
#define AW_REPEAT_MAX       64u   /* times a repeatable option may be given */
#define AW__POSITIONALS_MAX 2u    /* words after the verb; the last may stand for many */
#define AW_TEXT_MAX         4096u /* bytes of one argument, with its NUL */

/* What a user typed, for a message: quoted, on one line, cut when long. */
#define AW_QUOTE(text) \
    aw_text_quote((text), strlen(text), (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX)

/* What a value is: how it is checked and what completes it. */
enum aw_arg_kind {
    AW_ARG_FLAG,    /* no value */
    AW_ARG_NUMBER,  /* whole number: 20000, 20_000, 20k, 1M or 2e4, within [min, max] */
    AW_ARG_CHOICE,  /* one of `choices` */
    AW_ARG_TEXT,    /* any text */
    AW_ARG_DIR,     /* a directory */
    AW_ARG_FILE,    /* a file; "-" where a verb says so */
    AW_ARG_ENV,     /* the name of an environment */
    AW_ARG_AGENT,   /* the name of a learner */
    AW_ARG_PRESET,  /* the name of a preset of the learner given with --agent */
    AW_ARG_SETTING, /* key=value of the verb's own tables, or of the learner given with --agent */
    AW_ARG_POLICY,  /* the name of a policy, or several with commas between */
    AW_ARG_LOAD,    /* a pattern of load or a file */
    AW_ARG_EXPERIMENT, /* the name of an experiment */
    AW_ARG_VERB,       /* the name of a verb */
};

struct aw_option {
    const char *name; /* "steps", given as --steps; NULL ends a table */
    char letter;      /* 's', given as -s; 0: none */
    enum aw_arg_kind kind;
    const char *arg;            /* what stands for the value in help: "N"; NULL for a flag */
    const char *initial;        /* the value when not given, as a user would write it; NULL: none */
    uint64_t min, max;          /* NUMBER */
    const char *const *choices; /* CHOICE: ends with NULL */
    const char *help;           /* lower case, no full stop; one or two clauses */
    bool required;
    bool repeated; /* at most one option of a verb may be */
};

/* Rows of a table of options. Further members follow the help: .required, .repeated, .choices. */
#define AW_OPTION(kind_, name_, letter_, arg_, initial_, help_, ...)           \
    {                                                                          \
        .name = name_, .letter = letter_, .kind = AW_ARG_##kind_, .arg = arg_, \
        .initial = initial_, .help = help_, ##__VA_ARGS__                      \
    }
#define AW_FLAG(name_, letter_, help_) AW_OPTION(FLAG, name_, letter_, NULL, NULL, help_)
#define AW_NUMBER(name_, letter_, arg_, initial_, min_, max_, help_, ...)              \
    AW_OPTION(NUMBER, name_, letter_, arg_, initial_, help_, .min = min_, .max = max_, \
              ##__VA_ARGS__)
/* What several verbs have means the same in all of them. */
#define AW_OPTION_SEED(initial_, help_) AW_NUMBER("seed", 's', "N", initial_, 0, INT64_MAX, help_)
#define AW_OPTION_THREADS(initial_, help_) \
    AW_NUMBER("threads", 'j', "N", initial_, 0, AW_THREADS_MAX, help_)

struct aw_positional {
    const char *name; /* "NAME"; NULL ends a table */
    enum aw_arg_kind kind;
    const char *const *choices; /* CHOICE */
    const char *help;
    bool optional; /* only the last ones */
    bool repeated; /* only the last: it takes all words that are left */
};

struct aw_example {
    const char *command; /* without a prompt; NULL ends a table */
    const char *help;    /* what it does, one line */
};

/* A parsed command line. Text points into argv or into the tables. */
struct aw_args {
    const struct aw_verb *verb;
    struct {
        bool given;
        const char *text; /* NULL: neither given nor a default */
        uint64_t number;
    } value[AW__OPTIONS_MAX];
    const char *repeat[AW_REPEAT_MAX];
    uint32_t repeat_count;
    const char *positional[AW__POSITIONALS_MAX]; /* NULL: not given */
    char *const *words;                          /* [word_count], all of them */
    uint32_t word_count;
};

/* What a verb is handed when it runs. */
struct aw_call {
    const struct aw_args *args;
    bool json;      /* --output json: exactly one JSON document on stdout, nothing else */
    bool color_out; /* stdout may be coloured */
    bool color_err;
    struct aw_log *log; /* to stderr */
};

struct aw_verb {
    const char *name;                /* "train", "env list"; one that begins with "__" is hidden */
    const char *summary;             /* one line for a list, capital, no full stop */
    const char *text;                /* paragraphs separated by an empty line; NULL: none */
    const struct aw_option *options; /* its own, before the common ones; NULL: none */
    const struct aw_positional *positionals; /* NULL: none */
    const struct aw_example *examples;       /* NULL: none */
    bool json;                               /* has results, hence takes --output */
    bool csv;                                /* with json: --output takes csv too */
    /* Tables that an option of kind SETTING takes, ending with NULL; NULL: the learner's. */
    const struct aw_conf_field *const *settings;

    /* AW_OK or an error whose diagnostic becomes the one line on stderr. */
    enum aw_err (*run)(const struct aw_call *run, struct aw_diag *diag);
};

/* Every verb, ending with NULL. */
extern const struct aw_verb *const aw_verbs[];

/* Option `index` of a verb, its own first, then the common ones; NULL past the last. */
const struct aw_option *aw_verb_option(const struct aw_verb *verb, uint32_t index);
/* True when `verb` belongs to the group `word`: "env list" to "env". */
bool aw_verb_in_group(const struct aw_verb *verb, const char *word);
bool aw_verb_hidden(const struct aw_verb *verb);
/* "aware train --env NAME ...", without markup. Returns `buf`. */
const char *aw__verb_synopsis(const struct aw_verb *verb, char *buf, size_t size);

/* The verb that `words` begin with, and how many words it took. A wrong or missing word is
 * AW_ERR_USAGE with the nearest name; a group alone ("env") is too, and names its verbs. */
AW_NODISCARD enum aw_err aw_verb_find(char *const *words, uint32_t count,
                                      const struct aw_verb **ret_verb, uint32_t *ret_used,
                                      struct aw_diag *diag);

/* Parses argv[1..]; argv[0] is skipped, and argv is permuted. `*ret_help` is set when --help was
 * among the options: then nothing else was checked. */
AW_NODISCARD enum aw_err aw_args_parse(const struct aw_verb *verb, int argc, char **argv,
                                       struct aw_args *ret_args, bool *ret_help,
                                       struct aw_diag *diag);
/* A name that is not in the verb's table is a bug (AW_ASSERT). */
bool aw_args_given(const struct aw_args *args, const char *name);
const char *aw_args_text(const struct aw_args *args, const char *name);
uint64_t aw_args_number(const struct aw_args *args, const char *name);

/* "20k", "2e4" or "20_000" as a whole number; `key` names the value in the diagnostic. */
AW_NODISCARD enum aw_err aw_number_parse(const char *text, uint64_t min, uint64_t max,
                                         const char *key, uint64_t *ret_number,
                                         struct aw_diag *diag);

#endif
