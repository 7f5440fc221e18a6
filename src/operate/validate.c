/* validate.c - the verb `validate`: files of autoscalers, read and judged. */
#include "frame/findings.h"
#include "frame/json.h"
#include "frame/show.h"
#include "frame/verbs.h"

#include "profile/profile.h"

#include <stdio.h>

struct validate {
    const struct aw_call *run;
    json_t *files;    /* of every file, in order */
    json_t *findings; /* NULL: people read along */
};

static json_t *finding_json(const struct aw_profile_finding *finding)
{
    json_t *object = json_object();
    json_object_set_new(object, "severity", json_string(finding->err ? "error" : "warning"));
    json_object_set_new(object, "name",
                        json_string(finding->err ? aw_err_name(finding->err) : finding->warning));
    json_object_set_new(object, "file", json_string(finding->diag.file));
    json_object_set_new(object, "line", json_integer(finding->diag.line));
    json_object_set_new(object, "column", json_integer(finding->diag.column));
    json_object_set_new(object, "path", json_string(finding->diag.key));
    json_object_set_new(object, "text", json_string(finding->diag.text));
    return object;
}

static void finding_take(void *ctx, const struct aw_profile_finding *finding)
{
    const struct validate *validate = ctx;
    bool color = validate->run->color_err;
    for (size_t i = 0; finding->err && i < json_array_size(validate->files); i++) {
        json_t *file = json_array_get(validate->files, i); /* it is found when all are there */
        if (strcmp(aw_at_text(file, "file"), finding->diag.file) == 0)
            json_object_set_new(file, "ok", json_false());
    }
    if (validate->findings) {
        json_array_append_new(validate->findings, finding_json(finding));
        return;
    }
    aw_finding_print(&color, finding);
}

static void count_print(const char **separator, const json_t *file, const char *key,
                        const char *what)
{
    const long long count = aw_at_integer(file, key);
    if (count == 0)
        return;
    printf("%s%lld %s%s", *separator, count, what, count == 1 ? "" : "s");
    *separator = ", ";
}

/* Once all files were judged together: a file is fine only then. */
static void fine_print(const json_t *files)
{
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        const char *separator = "", *name = aw_at_text(file, "file");
        if (!aw_at_true(file, "ok"))
            continue; /* said already */
        printf("%s: ok (", strcmp(name, "-") != 0 ? name : "standard input");
        count_print(&separator, file, "autoscalers", "autoscaler");
        count_print(&separator, file, "simulated_applications", "simulated application");
        count_print(&separator, file, "simulated_clusters", "simulated cluster");
        printf("%s)\n", *separator ? "" : "nothing of ours");
    }
}

static void file_take(void *ctx, const char *file, const struct aw_profile_counts *counts)
{
    const struct validate *validate = ctx;
    json_t *object = json_object();
    json_object_set_new(object, "file", json_string(file));
    json_object_set_new(object, "ok", json_boolean(counts->errors == 0));
    json_object_set_new(object, "autoscalers", json_integer(counts->profiles));
    json_object_set_new(object, "simulated_applications", json_integer(counts->apps));
    json_object_set_new(object, "simulated_clusters", json_integer(counts->clusters));
    json_object_set_new(object, "errors", json_integer(counts->errors));
    json_object_set_new(object, "warnings", json_integer(counts->warnings));
    json_array_append_new(validate->files, object);
}

static enum aw_err validate_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct validate validate = {
        .run = run, .files = json_array(), .findings = run->json ? json_array() : NULL};
    struct aw_profile_report report = {.take = finding_take, .ctx = &validate};
    struct aw_profile_set set;
    enum aw_err err = AW_OK, judged = AW_OK;
    aw_profile_set_init(&set, NULL);
    const uint32_t named = run->args->repeat_count;
    if (named + run->args->word_count == 0)
        err = aw_fail(diag, AW_ERR_USAGE, "expected a FILE, as an argument or with -f");
    for (uint32_t i = 0; !err && i < named + run->args->word_count; i++)
        err = aw_profile_set_read(&set,
                                  i < named ? run->args->repeat[i] : run->args->words[i - named],
                                  &report, file_take, &validate, diag);
    if (!err)
        judged = aw_profile_set_check(&set, &report, diag);
    if (!err && !run->json)
        fine_print(validate.files);
    if (!err && run->json) {
        json_t *object = json_object();
        json_object_set_new(object, "ok", json_boolean(!judged));
        json_object_set_new(object, "errors", json_integer(report.error_count));
        json_object_set_new(object, "warnings", json_integer(report.warning_count));
        json_object_set(object, "files", validate.files);
        json_object_set(object, "findings", validate.findings);
        err = aw_json_print(object, diag);
    }
    json_decref(validate.files);
    json_decref(validate.findings);
    aw_profile_set_deinit(&set);
    return err ? err : judged;
}

static const struct aw_option options[] = {
    {.name = "file",
     .letter = 'f',
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "the same as FILE, as 'aware run' names files",
     .repeated = true},
    {.name = NULL},
};
static const struct aw_positional positionals[] = {
    {.name = "FILE",
     .kind = AW_ARG_FILE,
     .help = "YAML or JSON of any number of documents; a directory stands for every *.yaml, *.yml "
             "and *.json in it, \"-\" for standard input",
     .optional = true,
     .repeated = true},
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware validate examples/ten-lines.yaml", "one file"},
    {"aware validate examples", "a directory"},
    {"aware validate --output json examples", "findings for a program"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_validate = {
    .name = "validate",
    .summary = "Check files of autoscalers and report every error",
    .text = "Reads MultidimPodAutoscaler, SimulatedApplication and SimulatedCluster objects as "
            "'aware run' would. Every error is a line with file, line, column, path, what was "
            "expected and what was found; warnings are odd things that are not wrong, each with "
            "its name in brackets. Files together are judged together: two autoscalers of one "
            "target are an error wherever they are.\n\n"
            "The exit status is 78 when there was an error. 'aware explain-schema' shows what "
            "can be written.",
    .options = options,
    .positionals = positionals,
    .examples = examples,
    .json = true,
    .run = validate_run,
};
