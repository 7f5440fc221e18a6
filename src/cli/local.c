/* local.c - the verb `local clean`: ends what local clusters have left that are no longer alive. */
#include "cluster/local.h"

#include "frame/json.h"
#include "frame/verbs.h"

#include <inttypes.h>
#include <stdio.h>

static enum aw_err clean_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *given = aw_args_text(run->args, "run-dir");
    char usual[AW_CONF_TEXT_MAX];
    const char *dir = given ? given : aw_local_run_dir(usual, sizeof usual);
    struct aw_local_cleaned cleaned = {0};
    const enum aw_err err = aw_local_clean(dir, &cleaned, diag);
    if (err)
        return err;
    if (run->json) {
        json_t *root = json_object();
        json_object_set_new(root, "run_dir", json_string(dir));
        json_object_set_new(root, "cleared", json_integer(cleaned.cleared));
        json_object_set_new(root, "alive", json_integer(cleaned.alive));
        return aw_json_print(root, diag);
    }
    if (cleaned.cleared == 0)
        printf("%s: nothing was left behind\n", dir);
    else
        printf("%s: ended and removed what %" PRIu32 " dead run%s had left\n", dir, cleaned.cleared,
               cleaned.cleared == 1 ? "" : "s");
    if (cleaned.alive)
        printf("%" PRIu32 " run%s alive and untouched\n", cleaned.alive,
               cleaned.alive == 1 ? " is" : "s are");
    return AW_OK;
}

static const struct aw_option clean_options[] = {
    AW_OPTION(DIR, "run-dir", 0, "DIR", NULL,
              "where runs are written down (default: /run/aware-local for root, else in "
              "$XDG_RUNTIME_DIR)"),
    {.name = NULL},
};
static const struct aw_example clean_examples[] = {
    {"aware local clean", "after a crash, or kill -9"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_local_clean = {
    .name = "local clean",
    .summary = "End processes and control groups that dead runs on this machine have left",
    .text = "'aware run --cluster local' writes down what it makes before it makes it, and holds a "
            "lock as long as it lives. Runs whose lock nobody holds are dead: every process in "
            "their control groups is ended, the groups and the directory are removed. Nothing else "
            "is touched, and runs that live are left alone. The next start of a run does the same.",
    .options = clean_options,
    .examples = clean_examples,
    .json = true,
    .run = clean_run,
};
