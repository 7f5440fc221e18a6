/*
 * main.c - from argv to a verb, and from an error to one line and an exit code.
 *
 * SIGPIPE keeps its default: `aware env list | head -1` ends quietly, as coreutils do. Any other
 * failure to write a result is an error, found when stdout is closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/completion.h"
#include "frame/help.h"
#include "frame/verbs.h"
#include "rpc/remote.h"

#define WORDS_MAX 512

static bool color_wanted(const char *when, int fd)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    if (strcmp(when, "auto"))
        return !strcmp(when, "always");
    return isatty(fd) && !(no_color && *no_color) && term && strcmp(term, "dumb");
}

/* How many words stand before the verb: common options, each with its value. */
static int words_before_verb(int argc, char **argv)
{
    struct aw_verb bare = {.name = "", .json = true};
    const struct aw_option *option;
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        for (uint32_t k = 0; (option = aw_verb_option(&bare, k)); k++) {
            bool is_long = !strncmp(argv[i], "--", 2) && !strcmp(argv[i] + 2, option->name);
            bool is_letter = option->letter && argv[i][1] == option->letter && !argv[i][2];
            if ((is_long || is_letter) && option->kind != AW_ARG_FLAG)
                i++;
        }
    }
    return (i < argc ? i : argc) - 1;
}

static enum aw_err run_verb(const struct aw_verb *verb, int argc, char **argv, struct aw_diag *diag)
{
    struct aw_args args;
    bool help;
    enum aw_err err = aw_args_parse(verb, argc, argv, &args, &help, diag);
    if (err)
        return err;
    const char *when = aw_args_text(&args, "color");
    struct aw_call run = {
        .args = &args,
        .json = verb->json && !strcmp(aw_args_text(&args, "output"), "json"),
        .color_out = color_wanted(when, STDOUT_FILENO),
        .color_err = color_wanted(when, STDERR_FILENO),
    };
    if (help) {
        aw_help_verb(stdout, verb, run.color_out);
        return AW_OK;
    }
    struct aw_log log;
    enum aw_log_level level = AW_LOG_WARN;
    if ((err = aw_log_level_parse(aw_args_text(&args, "log-level"), &level)))
        return err;
    const char *format = aw_args_text(&args, "log-format");
    aw_log_init(&log, STDERR_FILENO, level,
                !strcmp(format, "json")       ? AW_LOG_JSON
                : !strcmp(format, "journald") ? AW_LOG_JOURNAL
                                              : AW_LOG_TEXT,
                NULL);
    log.colour = run.color_err && log.format == AW_LOG_TEXT;
    run.log = &log;
    return verb->run(&run, diag);
}

/* Options may stand before the verb or after it: `aware --color never env list`. */
static enum aw_err run_line(int argc, char **argv, struct aw_diag *diag)
{
    char *line[WORDS_MAX];
    const struct aw_verb *verb = NULL;
    int before = words_before_verb(argc, argv), count = 0;
    uint32_t used = 0;
    enum aw_err err;

    if (argc > WORDS_MAX)
        return aw_fail(diag, AW_ERR_USAGE, "more than %d words on the command line", WORDS_MAX);
    if (argc == 1) {
        aw_help_all(stdout, color_wanted("auto", STDOUT_FILENO));
        return AW_OK;
    }
    if (1 + before == argc) { /* options alone: of `help`, or of `version` */
        if (argc == 2 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")))
            return run_verb(&aw_verb_version, 1, argv, diag);
        if (!strcmp(argv[argc - 1], "--help") || !strcmp(argv[argc - 1], "-h"))
            return run_verb(&aw_verb_help, argc - 1, argv, diag);
        return run_verb(&aw_verb_help, argc, argv, diag);
    }
    char **words = argv + 1 + before;
    uint32_t word_count = (uint32_t)(argc - 1 - before);
    if (word_count == 2 && (!strcmp(words[1], "--help") || !strcmp(words[1], "-h"))) {
        char *help[] = {argv[0], words[0], NULL}; /* `aware env --help` tells of the group */
        for (uint32_t i = 0; aw_verbs[i]; i++) {
            if (aw_verb_in_group(aw_verbs[i], words[0]) && !aw_verb_named(words[0]))
                return run_verb(&aw_verb_help, 2, help, diag);
        }
    }
    if ((err = aw_verb_find(words, word_count, &verb, &used, diag)))
        return err;
    line[count++] = argv[0];
    for (int i = 0; i < before; i++)
        line[count++] = argv[1 + i];
    for (uint32_t i = used; i < word_count; i++)
        line[count++] = words[i];
    line[count] = NULL;
    return run_verb(verb, count, line, diag);
}

/* A result that did not reach the disk is not a result. */
static enum aw_err stdout_close(struct aw_diag *diag)
{
    bool failed = ferror(stdout);
    errno = 0;
    if (fclose(stdout) != 0)
        failed = true;
    if (!failed)
        return AW_OK;
    return aw_fail(diag, AW_ERR_IO, "standard output: %s", errno ? strerror(errno) : "write error");
}

int main(int argc, char **argv)
{
    struct aw_diag diag = {0};
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    enum aw_err err;

    aw_env_elsewhere_set(&aw_rpc_elsewhere);
    if (argc > 1 && !strcmp(argv[1], "__complete")) {
        aw__complete(argv + 2, (uint32_t)(argc - 2));
        return EXIT_SUCCESS;
    }
    err = argc > 0 ? run_line(argc, argv, &diag) : AW_ERR_USAGE;
    if (!err)
        err = stdout_close(&diag);
    else
        fflush(stdout);
    if (err)
        fprintf(stderr, "aware: %s\n", aw_diag_format(&diag, err, line, sizeof line));
    return aw_err_exit_code(err);
}
