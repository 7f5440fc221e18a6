/* args.c - a command line read by the tables of verb.h, through getopt_long. */
#include "frame/verb.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"

/* getopt_long answers with these for options without a letter; above any char. */
enum { LONG_BASE = 256 };

static const char *const color_choices[] = {"auto", "always", "never", NULL};
static const char *const output_choices[] = {"table", "json", NULL};
static const char *const output_csv_choices[] = {"table", "json", "csv", NULL};
static const char *const level_choices[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_choices[] = {"text", "json", "journald", NULL};

/* With csv or without, and without its letter where a verb has another use for it. */
#define OUTPUT(short_name, list, text)                                                  \
    {                                                                                   \
        .name = "output", .letter = short_name, .kind = AW_ARG_CHOICE, .arg = "FORMAT", \
        .initial = "table", .choices = list, .help = "how to print results: " text      \
    }
static const struct aw_option output_options[2][2] = {
    {OUTPUT('o', output_choices, "table or json"), OUTPUT(0, output_choices, "table or json")},
    {OUTPUT('o', output_csv_choices, "table, json or csv"),
     OUTPUT(0, output_csv_choices, "table, json or csv")},
};

static const struct aw_option common_options[] = {
    {
        .name = "color",
        .kind = AW_ARG_CHOICE,
        .arg = "WHEN",
        .initial = "auto",
        .choices = color_choices,
        .help = "colour: auto, always or never; auto obeys NO_COLOR and pipes",
    },
    {
        .name = "log-level",
        .kind = AW_ARG_CHOICE,
        .arg = "LEVEL",
        .initial = "warn",
        .choices = level_choices,
        .help = "least severe log line to print: debug, info, warn or error",
    },
    {
        .name = "log-format",
        .kind = AW_ARG_CHOICE,
        .arg = "FORMAT",
        .initial = "text",
        .choices = format_choices,
        .help = "log lines on stderr as text, json, or as journald takes them",
    },
    AW_FLAG("help", 'h', "print this help"),
    {.name = NULL},
};

const struct aw_option *aw_verb_option(const struct aw_verb *verb, uint32_t index)
{
    bool letter_taken = false;
    for (const struct aw_option *own = verb->options; own && own->name; own++) {
        letter_taken |= own->letter == 'o';
        if (index-- == 0)
            return own;
    }
    if (verb->json && index-- == 0)
        return &output_options[verb->csv][letter_taken];
    return index < sizeof common_options / sizeof *common_options - 1 ? &common_options[index]
                                                                      : NULL;
}

/* Position of the option called `name`; a name that does not exist is a bug of the verb. */
static uint32_t option_index(const struct aw_verb *verb, const char *name)
{
    const struct aw_option *option;
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        if (!strcmp(option->name, name))
            return i;
    }
    AW_ASSERT(!"an option of the verb's own table");
    return 0;
}

bool aw_args_given(const struct aw_args *args, const char *name)
{
    return args->value[option_index(args->verb, name)].given;
}

const char *aw_args_text(const struct aw_args *args, const char *name)
{
    return args->value[option_index(args->verb, name)].text;
}

uint64_t aw_args_number(const struct aw_args *args, const char *name)
{
    uint32_t index = option_index(args->verb, name);
    AW_ASSERT(aw_verb_option(args->verb, index)->kind == AW_ARG_NUMBER);
    return args->value[index].number;
}

static bool times(uint64_t *number, uint64_t factor)
{
    return !__builtin_mul_overflow(*number, factor, number);
}

/* Digits with underscores between them, then nothing, k, M, G or e and a power of ten. */
static bool number_read(const char *text, uint64_t *ret)
{
    uint64_t number = 0;
    const char *p = text;
    if (*p < '0' || *p > '9')
        return false;
    for (; (*p >= '0' && *p <= '9') || *p == '_'; p++) {
        if (*p == '_') {
            if (p[1] < '0' || p[1] > '9')
                return false;
            continue;
        }
        if (!times(&number, 10) || __builtin_add_overflow(number, (uint64_t)(*p - '0'), &number))
            return false;
    }
    uint32_t power = 0;
    if (*p == 'k')
        power = 3, p++;
    else if (*p == 'M')
        power = 6, p++;
    else if (*p == 'G')
        power = 9, p++;
    else if (*p == 'e' && p[1] >= '0' && p[1] <= '9') {
        p++;
        for (; *p >= '0' && *p <= '9' && power < 100; p++)
            power = power * 10 + (uint32_t)(*p - '0');
    }
    if (*p)
        return false;
    for (; power && number; power--) {
        if (!times(&number, 10))
            return false;
    }
    *ret = number;
    return true;
}

enum aw_err aw_number_parse(const char *text, uint64_t min, uint64_t max, const char *key,
                            uint64_t *ret_number, struct aw_diag *diag)
{
    uint64_t number;
    if (!number_read(text, &number) || number < min || number > max)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, key,
                          "expected a whole number from %llu to %llu, found %s",
                          (unsigned long long)min, (unsigned long long)max, AW_QUOTE(text));
    *ret_number = number;
    return AW_OK;
}

/* "table, json" */
static const char *choices_join(const char *const *choices, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; choices[i] && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "", choices[i]);
    return buf;
}

static enum aw_err choice_check(const char *const *choices, const char *key, const char **text,
                                struct aw_diag *diag)
{
    char list[256];
    for (uint32_t i = 0; choices[i]; i++) {
        if (!strcmp(choices[i], *text)) {
            *text = choices[i];
            return AW_OK;
        }
    }
    return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, key, "expected one of: %s; found %s",
                      choices_join(choices, list, sizeof list), AW_QUOTE(*text));
}

static enum aw_err value_set(const struct aw_option *option, uint32_t index, const char *text,
                             bool given, struct aw_args *args, struct aw_diag *diag)
{
    char key[AW_DIAG_KEY_MAX];
    enum aw_err err = AW_OK;
    snprintf(key, sizeof key, "--%s", option->name);
    if (given && option->kind != AW_ARG_FLAG && !*text)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, key, "the value is empty");
    if (given && option->kind != AW_ARG_FLAG && strlen(text) >= AW_TEXT_MAX)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, key, "the value is longer than %u bytes",
                          AW_TEXT_MAX - 1);
    if (given && !option->repeated && option->kind != AW_ARG_FLAG && args->value[index].given)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, key, "given more than once");
    if (given && option->repeated) {
        if (args->repeat_count == AW_REPEAT_MAX)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, key, "given more than %u times",
                              AW_REPEAT_MAX);
        args->repeat[args->repeat_count++] = text;
    }
    if (option->kind == AW_ARG_NUMBER)
        err =
            aw_number_parse(text, option->min, option->max, key, &args->value[index].number, diag);
    else if (option->kind == AW_ARG_CHOICE)
        err = choice_check(option->choices, key, &text, diag);
    args->value[index].text = text;
    args->value[index].given = given;
    return err;
}

/* The option that a refused word was meant to be; getopt_long says only that it was refused. */
static enum aw_err unknown_option(const struct aw_verb *verb, const char *word,
                                  struct aw_diag *diag)
{
    const char *names[AW__OPTIONS_MAX + 1] = {0};
    const struct aw_option *option;
    char name[64], matches[256] = "";
    size_t used = 0, len = strcspn(word, "=");
    uint32_t match_count = 0;
    snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), word);
    const char *bare = name + strspn(name, "-");
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        names[i] = option->name;
        if (!strncmp(name, "--", 2) && *bare && !strncmp(option->name, bare, strlen(bare))) {
            match_count++;
            if (used < sizeof matches)
                used += (size_t)snprintf(matches + used, sizeof matches - used, "%s--%s",
                                         used ? ", " : "", option->name);
        }
        if (!strcmp(option->name, bare) && option->kind == AW_ARG_FLAG && word[len] == '=')
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, name, "takes no value");
    }
    if (match_count > 1)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, name, "could be any of: %s", matches);
    const char *nearest = strlen(bare) > 1 ? aw_conf_nearest(bare, names) : NULL;
    if (nearest)
        return aw_fail(diag, AW_ERR_USAGE, "unknown option %s of 'aware %s'; did you mean --%s?",
                       AW_QUOTE(name), verb->name, nearest);
    return aw_fail(diag, AW_ERR_USAGE, "unknown option %s of 'aware %s'; see 'aware %s --help'",
                   AW_QUOTE(name), verb->name, verb->name);
}

/* The two tables that getopt_long wants, from ours. The leading ':' makes it report a missing value
 * apart from an unknown option. */
static void getopt_tables(const struct aw_verb *verb, struct option *longs, char *shorts)
{
    const struct aw_option *option;
    *shorts++ = ':';
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        AW_ASSERT(i < AW__OPTIONS_MAX);
        longs[i] = (struct option){
            .name = option->name,
            .has_arg = option->kind == AW_ARG_FLAG ? no_argument : required_argument,
            .val = LONG_BASE + (int)i,
        };
        if (option->letter) {
            *shorts++ = option->letter;
            if (option->kind != AW_ARG_FLAG)
                *shorts++ = ':';
        }
    }
}

static uint32_t letter_index(const struct aw_verb *verb, int letter)
{
    const struct aw_option *option;
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        if (option->letter == letter)
            return i;
    }
    return AW__OPTIONS_MAX;
}

static enum aw_err missing_value(const struct aw_verb *verb, int answer, struct aw_diag *diag)
{
    uint32_t index =
        answer >= LONG_BASE ? (uint32_t)(answer - LONG_BASE) : letter_index(verb, answer);
    const struct aw_option *option = aw_verb_option(verb, index);
    return aw_fail(diag, AW_ERR_USAGE, "--%s: needs a value: --%s %s", option->name, option->name,
                   option->arg);
}

/* All that a repeated positional takes. */
static enum aw_err words_check(int argc, char **argv, int first, const struct aw_positional *p,
                               struct aw_diag *diag)
{
    for (int i = first; i < argc; i++) {
        if (!*argv[i])
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, p->name, "the value is empty");
    }
    return AW_OK;
}

static enum aw_err positionals_take(const struct aw_verb *verb, int argc, char **argv, int first,
                                    struct aw_args *args, struct aw_diag *diag)
{
    uint32_t i = 0;
    args->words = argv + first;
    args->word_count = (uint32_t)(argc - first);
    for (const struct aw_positional *p = verb->positionals; p && p->name; p++, i++) {
        if (first + (int)i >= argc) {
            if (p->optional)
                continue;
            return aw_fail(diag, AW_ERR_USAGE, "'aware %s' needs %s: %s", verb->name, p->name,
                           p->help);
        }
        const char *text = argv[first + (int)i];
        if (!*text)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, p->name, "the value is empty");
        if (p->kind == AW_ARG_CHOICE) {
            enum aw_err err = choice_check(p->choices, p->name, &text, diag);
            if (err)
                return err;
        }
        args->positional[i] = text;
        if (p->repeated)
            return words_check(argc, argv, first + (int)i, p, diag);
    }
    if (first + (int)i < argc)
        return aw_fail(diag, AW_ERR_USAGE, "'aware %s' does not take %s", verb->name,
                       AW_QUOTE(argv[first + (int)i]));
    return AW_OK;
}

static enum aw_err required_check(const struct aw_verb *verb, const struct aw_args *args,
                                  struct aw_diag *diag)
{
    const struct aw_option *option;
    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        if (option->required && !args->value[i].given)
            return aw_fail(diag, AW_ERR_USAGE, "'aware %s' needs --%s %s: %s", verb->name,
                           option->name, option->arg, option->help);
    }
    return AW_OK;
}

enum aw_err aw_args_parse(const struct aw_verb *verb, int argc, char **argv,
                          struct aw_args *ret_args, bool *ret_help, struct aw_diag *diag)
{
    struct option longs[AW__OPTIONS_MAX + 1] = {0};
    char shorts[2 * AW__OPTIONS_MAX + 2] = "";
    struct aw_args args = {.verb = verb};
    const struct aw_option *option;
    enum aw_err err;

    for (uint32_t i = 0; (option = aw_verb_option(verb, i)); i++) {
        if (option->initial && (err = value_set(option, i, option->initial, false, &args, diag)))
            return err;
    }
    getopt_tables(verb, longs, shorts);
    opterr = 0;
    optind = 0; /* GNU: start afresh, also for a second command line in one process */
    for (;;) {
        /* optind still names the word that is being read; afterwards it names the next. */
        int answer = getopt_long(argc, argv, shorts, longs, NULL);
        if (answer == -1)
            break;
        if (answer == ':')
            return missing_value(verb, optopt, diag);
        if (answer == '?') {
            char letter[3] = {'-', (char)optopt, 0};
            bool is_letter = optopt > 0 && optopt < LONG_BASE;
            return unknown_option(verb, is_letter ? letter : argv[optind - 1], diag);
        }
        uint32_t index =
            answer >= LONG_BASE ? (uint32_t)(answer - LONG_BASE) : letter_index(verb, answer);
        option = aw_verb_option(verb, index);
        if (!strcmp(option->name, "help")) {
            *ret_help = true;
            *ret_args = args;
            return AW_OK;
        }
        if ((err = value_set(option, index, optarg, true, &args, diag)))
            return err;
    }
    if ((err = positionals_take(verb, argc, argv, optind, &args, diag)))
        return err;
    if ((err = required_check(verb, &args, diag)))
        return err;
    *ret_help = false;
    *ret_args = args;
    return AW_OK;
}
