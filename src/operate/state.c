/* state.c - the verbs `state show`, `state export` and `state reset`: what was learned of a
 * workload. */
#include "base/file.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum aw_err fetch(const struct aw_call *run, json_t **ret, struct aw_diag *diag)
{
    struct aw__client client;
    char path[AW__CLIENT_PATH_MAX];
    const char *name = run->args->positional[0];
    json_t *told = NULL, *row = NULL;
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    if (aw__client_running(&client)) {
        err = aw__client_ask(&client, aw__client_path(name, "/state", path, sizeof path), NULL, ret,
                             diag);
    } else if (!(err = aw__offline_row(&client, name, &row, diag))) {
        static const char *const kept[] = {"stage", "actor", "model"};
        json_t *state = json_object();
        json_object_set_new(state, "workload", json_string(aw_at_text(row, "name")));
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            json_object_set(state, kept[i], json_object_get(row, kept[i]));
        if (!aw__offline_explain(&client, aw_at_text(row, "name"), 0, &told, NULL)) {
            json_object_set(state, "episode",
                            json_object_get(json_object_get(told, "account"), "episode"));
            json_object_set(state, "step",
                            json_object_get(json_object_get(told, "account"), "step"));
            json_object_set(state, "policy",
                            json_object_get(json_object_get(told, "detail"), "policy"));
        }
        json_decref(told);
        *ret = state;
    }
    aw__client_close(&client);
    return err;
}

static enum aw_err show_run(const struct aw_call *run, struct aw_diag *diag)
{
    json_t *state = NULL, *number;
    const char *name;
    char bytes[AW_SHOW_MAX];
    enum aw_err err = fetch(run, &state, diag);
    if (err)
        return err;
    if (run->json) {
        json_object_set_new(state, "v", json_integer(1));
        return aw_json_print(state, diag);
    }
    printf("%s: %s", aw_at_text(state, "workload"), aw_at_text(state, "stage"));
    if (aw_at(state, "agent"))
        printf(", agent %s", aw_at_text(state, "agent"));
    printf(", model %s\n", *aw_at_text(state, "model") ? aw_at_text(state, "model") : "none yet");
    if (aw_at(state, "episode"))
        printf("  episode %lld, step %lld", (long long)aw_at_integer(state, "episode"),
               (long long)aw_at_integer(state, "step"));
    if (aw_at(state, "bytes"))
        printf(", %s in memory", aw_show_memory(aw_at_real(state, "bytes"), bytes, sizeof bytes));
    putchar('\n');
    json_object_foreach(json_object_get(state, "policy"), name, number)
    {
        printf("  %-10s %10.4g  %s\n", name, aw_at_real(number, "value"),
               aw_at_text(number, "meaning"));
    }
    json_decref(state);
    return AW_OK;
}

static enum aw_err export_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *file = aw_args_text(run->args, "file");
    json_t *state = NULL;
    enum aw_err err = fetch(run, &state, diag);
    if (err)
        return err;
    json_object_set_new(state, "v", json_integer(1));
    if (!file || !strcmp(file, "-"))
        return aw_json_print(state, diag);
    char *text = json_dumps(state, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(state);
    if (!text)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the document");
    err = aw_file_replace(file, text, strlen(text), NULL, diag);
    free(text);
    return err;
}

static enum aw_err reset_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__client client;
    json_t *order = json_object(), *answer = NULL;
    json_object_set_new(order, "kind", json_string("reset"));
    json_object_set_new(order, "name", json_string(run->args->positional[0]));
    json_object_set_new(order, "reason", json_string(aw_args_text(run->args, "reason")));
    enum aw_err err = aw__client_open(&client, run, diag);
    if (!err) {
        err = aw__client_need(&client, "'aware state reset'", diag);
        err = err ? err : aw__client_order(&client, order, &answer, diag);
        aw__client_close(&client);
    }
    json_decref(order);
    if (err)
        return err;
    if (run->json) {
        json_object_set_new(answer, "v", json_integer(1));
        return aw_json_print(answer, diag);
    }
    printf("order %lld: %s\n", (long long)aw_at_integer(answer, "id"),
           aw_at_text(answer, "message"));
    json_decref(answer);
    return AW_OK;
}

static const struct aw_positional positionals[] = {
    {.name = "WORKLOAD", .kind = AW_ARG_TEXT, .help = "NAME, or NAMESPACE/NAME"},
    {.name = NULL},
};
static const struct aw_option show_options[] = {AW__CLIENT_OPTIONS, {.name = NULL}};
static const struct aw_example show_examples[] = {
    {"aware state show cart", "stage, model, and the numbers of its policy"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_state_show = {
    .name = "state show",
    .summary = "Show what was learned of a workload",
    .options = show_options,
    .positionals = positionals,
    .examples = show_examples,
    .json = true,
    .run = show_run,
};
static const struct aw_option export_options[] = {
    AW_OPTION(FILE, "file", 'f', "FILE", NULL,
              "replace this file, wholly or not at all (default: standard output)"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example export_examples[] = {
    {"aware state export cart -f cart.json", "what was learned, as JSON"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_state_export = {
    .name = "state export",
    .summary = "Write what was learned of a workload as JSON",
    .options = export_options,
    .positionals = positionals,
    .examples = export_examples,
    .run = export_run,
};
static const struct aw_option reset_options[] = {
    AW_OPTION(TEXT, "reason", 'r', "TEXT", NULL, "why, for those who ask later; kept in the log",
              .required = true),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example reset_examples[] = {
    {"aware state reset cart --reason 'another program now'", "it begins to learn anew"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_state_reset = {
    .name = "state reset",
    .summary = "Forget what was learned of a workload and begin anew",
    .text = "Stage, policy, record and thresholds begin as on the first day; the fallback acts. "
            "Sizes and replicas stay as they are, and so do the log and the trajectories.",
    .options = reset_options,
    .positionals = positionals,
    .examples = reset_examples,
    .json = true,
    .run = reset_run,
};
