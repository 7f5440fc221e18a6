/* fallback.c - the verb `fallback check`: case files against our HPA and VPA. */
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

#include "fallback/conformance.h"

#include <stdio.h>

struct check {
    const struct aw_call *run;
    const char *path;
    json_t *failures; /* NULL: people read along */
};

static void result_json(struct check *check, const struct aw_conformance_result *result)
{
    json_t *object = json_object();
    json_object_set_new(object, "file", json_string(check->path));
    json_object_set_new(object, "line", json_integer(result->line));
    json_object_set_new(object, "id", json_string(result->id));
    json_object_set_new(object, "kind", json_string(result->kind));
    json_object_set_new(object, "test", json_string(result->test));
    json_object_set_new(object, "expected", json_string(result->expected));
    json_object_set_new(object, "found", json_string(result->found));
    json_array_append_new(check->failures, object);
}

static void result_take(void *ctx, const struct aw_conformance_result *result)
{
    struct check *check = ctx;
    const char *red = check->run->color_out ? "\033[31m" : "";
    const char *plain = check->run->color_out ? "\033[0m" : "";
    if (result->passed)
        return;
    if (check->failures) {
        result_json(check, result);
        return;
    }
    printf("%s:%u: %sfailed%s %s (%s)%s%s\n  expected %s\n  found    %s\n", check->path,
           result->line, red, plain, result->id, result->kind, *result->test ? ", " : "",
           result->test, result->expected, result->found);
}

static enum aw_err check_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct check check = {.run = run, .failures = run->json ? json_array() : NULL};
    struct aw_conformance_summary total = {0};
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < run->args->word_count; i++) {
        struct aw_conformance_summary one;
        check.path = run->args->words[i];
        err = aw_conformance_run_file(check.path, NULL, result_take, &check, &one, diag);
        if (err)
            break;
        total.passed += one.passed;
        total.failed += one.failed;
        if (!run->json)
            printf("%s: %u of %u cases pass\n", check.path, one.passed, one.passed + one.failed);
    }
    if (err) {
        json_decref(check.failures);
        return err;
    }
    if (run->json) {
        json_t *object = json_object();
        json_object_set_new(object, "files", json_integer(run->args->word_count));
        json_object_set_new(object, "passed", json_integer(total.passed));
        json_object_set_new(object, "failed", json_integer(total.failed));
        json_object_set_new(object, "failures", check.failures);
        if ((err = aw_json_print(object, diag)))
            return err;
    }
    if (total.failed)
        return aw_fail(diag, AW_ERR_CHECK, "%u of %u cases failed", total.failed,
                       total.passed + total.failed);
    return AW_OK;
}

static const struct aw_positional check_positionals[] = {
    {.name = "FILE",
     .kind = AW_ARG_FILE,
     .help = "case files in JSON or YAML; \"-\" is standard input",
     .repeated = true},
    {.name = NULL},
};
static const struct aw_example check_examples[] = {
    {"aware fallback check tests/conformance/hpa_cases.json", "the cases taken from Kubernetes"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_fallback_check = {
    .name = "fallback check",
    .summary = "Run case files against the built-in HPA and VPA",
    .text = "A case has an id, a kind, what goes in and what is expected; a kind or key that is "
            "not known fails the case. Every failure is printed with its place, what was expected "
            "and what was found; the exit status is 1 when there was one.",
    .positionals = check_positionals,
    .examples = check_examples,
    .json = true,
    .run = check_run,
};
