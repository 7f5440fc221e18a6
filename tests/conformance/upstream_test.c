/* upstream_test.c - every case of every file beside this one, or of the files that are given: each
 * a test under its own name. */
#include "conformance.h"

#include "base/testing.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES_MAX      4096
#define NAME_MAX_BYTES 640

/* What the files held when they were brought here; fewer means that some were lost. */
#define CASES_MIN 78

struct outcome {
    char name[NAME_MAX_BYTES];
    struct aw_conformance_result result;
};

struct outcomes {
    const char *file;
    uint32_t count;
    struct outcome items[CASES_MAX];
    struct CMUnitTest tests[CASES_MAX + 1];
};

static void holds(void **state)
{
    const struct aw_conformance_result *result = &((const struct outcome *)*state)->result;
    if (!result->passed)
        fail_msg("line %u: %s: expected %s; found %s", result->line, result->kind, result->expected,
                 result->found);
}

static void no_case_was_lost(void **state)
{
    (void)state;
    const struct outcomes *all = *state;
    assert_true(all->count >= CASES_MIN);
}

static void collect(void *ctx, const struct aw_conformance_result *result)
{
    struct outcomes *all = ctx;
    assert_true(all->count < CASES_MAX);
    struct outcome *outcome = &all->items[all->count];
    outcome->result = *result;
    snprintf(outcome->name, sizeof outcome->name, "%s %s %s", all->file, result->id, result->test);
    for (char *c = outcome->name; *c; c++)
        *c = *c == '#' ? '.' : *c; /* means something else to readers of TAP */
    all->tests[all->count++] =
        (struct CMUnitTest){.name = outcome->name, .test_func = holds, .initial_state = outcome};
}

static int is_case_file(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0;
}

static int run_file(const char *path, struct outcomes *all)
{
    char text[1024];
    struct aw_conformance_summary summary;
    struct aw_diag diag = {0};
    const char *slash = strrchr(path, '/');
    all->file = slash ? slash + 1 : path;
    enum aw_err err = aw_conformance_run_file(path, NULL, collect, all, &summary, &diag);
    if (err)
        fprintf(stderr, "%s\n", aw_diag_format(&diag, err, text, sizeof text));
    return err != AW_OK;
}

static int run_folder(const char *folder, struct outcomes *all)
{
    struct dirent **entries = NULL;
    int status = 0, count = scandir(folder, &entries, is_case_file, alphasort);
    if (count <= 0) {
        fprintf(stderr, "%s: no case files\n", folder);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        status |= run_file(path, all);
        free(entries[i]);
    }
    free(entries);
    return status;
}

int main(int argc, char **argv)
{
    const char *data = getenv("AW_TESTDATA");
    char folder[2048];
    struct outcomes *all = calloc(1, sizeof *all);
    if (!all)
        return 1;
    snprintf(folder, sizeof folder, "%s/conformance", data ? data : "tests");
    int status = argc > 1 ? 0 : run_folder(folder, all);
    for (int i = 1; i < argc; i++)
        status |= run_file(argv[i], all);
    uint32_t count = all->count;
    if (argc == 1)
        all->tests[count++] = (struct CMUnitTest){
            .name = "no_case_was_lost", .test_func = no_case_was_lost, .initial_state = all};
    if (_cmocka_run_group_tests("conformance", all->tests, count, NULL, NULL) != 0)
        status = 1;
    free(all);
    return status;
}
