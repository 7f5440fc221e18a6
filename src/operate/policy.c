/* policy.c - the verbs `policy show`, `policy export`, `policy propose` and `policy rollback`:
 * policies of a workload as files, and the trial they go through. */
#include "base/file.h"
#include "base/http.h"
#include "desk/policy_view.h"
#include "desk/standing_orders.h"
#include "frame/json.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1u << 20) /* as much as the daemon reads of a request */

/* --- a stopped daemon ------------------------------------------------------------------------- */

/* What its journal has of the workload. */
struct left {
    json_t *account;
    struct aw_policy_texts texts;
    struct aw_diag why; /* there are no texts */
};

static void left_deinit(struct left *left)
{
    json_decref(left->account);
    aw_policy_texts_deinit(&left->texts);
    *left = (struct left){0};
}

static enum aw_err left_read(const struct aw__client *client, const char *name, struct left *ret,
                             struct aw_diag *diag)
{
    char path[AW_TEXT_MAX + 32];
    struct aw_journal *journal = NULL;
    struct aw_journal_entry entry = {0};
    json_t *row;
    *ret = (struct left){0};
    enum aw_err err = aw__offline_row(client, name, &row, diag);
    snprintf(path, sizeof path, "%s/decisions.db", client->state);
    err = err ? err : aw_journal_open(&journal, path, true, 0, diag);
    err = err ? err : aw_journal_latest(journal, aw_at_text(row, "name"), INT64_MAX, &entry, diag);
    if (!err && !(ret->account = json_loads(entry.account, 0, NULL)))
        err = aw_fail(diag, AW_ERR_FORMAT, "the journal's account of decision %llu is damaged",
                      (unsigned long long)entry.id);
    if (!err)
        (void)!aw_policy_texts_read(&entry, &ret->texts, &ret->why);
    aw_journal_entry_deinit(&entry);
    aw_journal_close(journal);
    if (err)
        left_deinit(ret);
    return err;
}

/* --- show ------------------------------------------------------------------------------------- */

static enum aw_err left_view(const struct aw__client *client, const char *name, json_t **ret,
                             struct aw_diag *diag)
{
    struct left left;
    enum aw_err err = left_read(client, name, &left, diag);
    if (err)
        return err;
    json_t *view = aw_policy_view(left.account, &left.texts);
    if (view) {
        json_object_set_new(view, "waits", json_null());
        json_object_set_new(view, "order", json_null());
        json_object_set_new(view, "texts_error",
                            left.texts.in_force || !*left.why.text ? json_null()
                                                                   : json_string(left.why.text));
        *ret = view;
    }
    left_deinit(&left);
    return view ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}

static void policy_print(const char *what, const json_t *view, const char *key, const char *none)
{
    const json_t *policy = aw_at(view, key);
    const char *checksum = aw_at_text(policy, "checksum");
    if (policy)
        printf("  %-10s %s  checksum %s\n", what, aw_at_text(policy, "id"),
               *checksum ? checksum : "-");
    else
        printf("  %-10s %s\n", what, none);
}

static const char *score(double value, char *buf, size_t size)
{
    if (isnan(value))
        snprintf(buf, size, "-");
    else
        snprintf(buf, size, "%.4g", value);
    return buf;
}

static void trial_print(const json_t *canary)
{
    char a[AW_SHOW_MAX], b[AW_SHOW_MAX], c[AW_SHOW_MAX], d[AW_SHOW_MAX];
    if (isnan(aw_at_real(canary, "predicted.mean")))
        printf("  score      nothing is predicted, reached %s in %lld whole episodes\n",
               score(aw_at_real(canary, "observed.mean"), d, sizeof d),
               (long long)aw_at_integer(canary, "observed.episodes"));
    else
        printf("  score      predicted %s (%s to %s), reached %s in %lld whole episodes\n",
               score(aw_at_real(canary, "predicted.mean"), a, sizeof a),
               score(aw_at_real(canary, "predicted.low"), b, sizeof b),
               score(aw_at_real(canary, "predicted.high"), c, sizeof c),
               score(aw_at_real(canary, "observed.mean"), d, sizeof d),
               (long long)aw_at_integer(canary, "observed.episodes"));
    printf("  SLO missed predicted %s of steps, reached %s of %lld\n",
           aw_show_percent(aw_at_real(canary, "predicted.missed_share"), a, sizeof a),
           aw_show_percent(aw_at_real(canary, "observed.missed_share"), b, sizeof b),
           (long long)aw_at_integer(canary, "observed.steps"));
}

static void view_print(const json_t *view)
{
    const json_t *canary = aw_at(view, "canary");
    const char *state = aw_at_text(canary, "state"), *order = aw_at_text(view, "order.result");
    printf("%s: %s, %s acts\n", aw_at_text(view, "workload"), aw_at_text(view, "stage"),
           aw_at_text(view, "actor"));
    policy_print("acting", view, "acting", "none");
    policy_print("known good", view, "good", "none yet");
    policy_print("on trial", view, "trial", "none");
    printf("  canary     %s\n", *state ? state : "-");
    if (*aw_at_text(canary, "sentence") && strcmp(state, "none") != 0)
        printf("             %s\n", aw_at_text(canary, "sentence"));
    if (strcmp(state, "none") != 0)
        trial_print(canary);
    if (aw_at(view, "waits"))
        printf("  order %lld waits for the next decision\n",
               (long long)aw_at_integer(view, "waits"));
    if (*order)
        printf("  order %lld: %s%s%s\n", (long long)aw_at_integer(view, "order.id"), order,
               *aw_at_text(view, "order.why") ? ": " : "", aw_at_text(view, "order.why"));
    if (*aw_at_text(view, "texts_error"))
        printf("  checksums are not known: %s\n", aw_at_text(view, "texts_error"));
}

static enum aw_err show_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__client client;
    char path[AW__CLIENT_PATH_MAX];
    const char *name = run->args->positional[0];
    json_t *view = NULL;
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    if (aw__client_running(&client))
        err = aw__client_ask(&client, aw__client_path(name, "/policy", path, sizeof path), NULL,
                             &view, diag);
    else
        err = left_view(&client, name, &view, diag);
    aw__client_close(&client);
    if (err)
        return err;
    if (run->json) {
        json_object_set_new(view, "v", json_integer(1));
        return aw_json_print(view, diag);
    }
    view_print(view);
    json_decref(view);
    return AW_OK;
}

/* --- export ----------------------------------------------------------------------------------- */

static enum aw_err text_write(const char *file, const char *text, struct aw_diag *diag)
{
    if (file && strcmp(file, "-") != 0)
        return aw_file_replace(file, text, strlen(text), NULL, diag);
    return fputs(text, stdout) < 0 ? aw_fail(diag, AW_ERR_IO, "cannot write to standard output")
                                   : AW_OK;
}

static enum aw_err export_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__client client;
    const char *name = run->args->positional[0], *file = aw_args_text(run->args, "out");
    const bool trial = aw_args_given(run->args, "trial");
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    if (aw__client_running(&client)) {
        char path[AW__CLIENT_PATH_MAX];
        struct aw_http_answer answer;
        err = aw__client_send(&client,
                              aw__client_path(name,
                                              trial ? "/policy/file?which=trial" : "/policy/file",
                                              path, sizeof path),
                              NULL, NULL, &answer, diag);
        err = err ? err : text_write(file, answer.body, diag);
    } else {
        const char *text = NULL;
        struct left left;
        if (!(err = left_read(&client, name, &left, diag))) {
            if (*left.why.text && !left.texts.in_force)
                err = aw_fail(diag, AW_ERR_NODATA, "%s", left.why.text);
            err = err ? err : aw_policy_pick(left.account, &left.texts, trial, &text, diag);
            err = err ? err : text_write(file, text, diag);
            left_deinit(&left);
        }
    }
    aw__client_close(&client);
    return err;
}

/* --- propose, rollback ------------------------------------------------------------------------ */

static enum aw_err taken(const struct aw_call *run, json_t *answer, struct aw_diag *diag)
{
    if (run->json) {
        json_object_set_new(answer, "v", json_integer(1));
        return aw_json_print(answer, diag);
    }
    printf("order %lld: %s\n", (long long)aw_at_integer(answer, "id"),
           aw_at_text(answer, "message"));
    json_decref(answer);
    return AW_OK;
}

static enum aw_err send_file(struct aw__client *client, const char *name, const char *reason,
                             const char *text, json_t **ret, struct aw_diag *diag)
{
    char path[AW__CLIENT_PATH_MAX];
    struct aw_http_answer answer;
    struct aw_text tail;
    aw__client_path(name, "/policy", path, sizeof path);
    if (reason && *reason) {
        const size_t len = strlen(path);
        aw_text_init(&tail, path + len, sizeof path - len);
        aw_text_add(&tail, "?reason=");
        aw_http_escape(&tail, reason, strlen(reason));
    }
    const enum aw_err err = aw__client_send(client, path, text, "application/json", &answer, diag);
    if (err)
        return err;
    *ret = json_loadb(answer.body, answer.len, 0, NULL);
    return *ret ? AW_OK : aw_fail(diag, AW_ERR_FORMAT, "the daemon's answer is not JSON");
}

static enum aw_err propose_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__client client = {0};
    const char *file = run->args->positional[1], *reason = aw_args_text(run->args, "reason");
    char *text = NULL;
    size_t len = 0;
    json_t *answer = NULL;
    if (reason && strlen(reason) >= AW_ORDER_REASON_MAX)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--reason",
                          "expected at most %u bytes, found %zu", AW_ORDER_REASON_MAX - 1,
                          strlen(reason));
    enum aw_err err = strcmp(file, "-")
                          ? aw_file_read(file, FILE_BYTES_MAX, NULL, &text, &len, diag)
                          : aw_file_read_fd(STDIN_FILENO, "standard input", FILE_BYTES_MAX, NULL,
                                            &text, &len, diag);
    if (!err && strlen(text) != len)
        err = aw_fail_at(diag, AW_ERR_FORMAT, file, 0, 0, NULL,
                         "not a policy: it holds bytes that no text has");
    err = err ? err : aw__client_open(&client, run, diag);
    err = err ? err : aw__client_need(&client, "'aware policy propose'", diag);
    err = err ? err : send_file(&client, run->args->positional[0], reason, text, &answer, diag);
    aw__client_close(&client);
    aw_alloc_free(NULL, text);
    return err ? err : taken(run, answer, diag);
}

static enum aw_err rollback_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__client client;
    const char *reason = aw_args_text(run->args, "reason");
    json_t *order = json_object(), *answer = NULL;
    json_object_set_new(order, "kind", json_string("rollback"));
    json_object_set_new(order, "name", json_string(run->args->positional[0]));
    if (reason)
        json_object_set_new(order, "reason", json_string(reason));
    enum aw_err err = aw__client_open(&client, run, diag);
    if (!err) {
        err = aw__client_need(&client, "'aware policy rollback'", diag);
        err = err ? err : aw__client_order(&client, order, &answer, diag);
        aw__client_close(&client);
    }
    json_decref(order);
    return err ? err : taken(run, answer, diag);
}

/* --- tables ----------------------------------------------------------------------------------- */

static const struct aw_positional workload_positionals[] = {
    {.name = "WORKLOAD", .kind = AW_ARG_TEXT, .help = "NAME, or NAMESPACE/NAME"},
    {.name = NULL},
};
static const struct aw_option show_options[] = {AW__CLIENT_OPTIONS, {.name = NULL}};
static const struct aw_example show_examples[] = {
    {"aware policy show cart", "which policy acts, which is known to be good, and the trial"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_policy_show = {
    .name = "policy show",
    .summary = "Show which policies a workload has, and how a trial goes",
    .text = "Ids and checksums of the policy that acts, of the last known good one and of one on "
            "trial; the state of the canary, the score and the share of missed steps that were "
            "predicted of it, and what it has reached.",
    .options = show_options,
    .positionals = workload_positionals,
    .examples = show_examples,
    .json = true,
    .run = show_run,
};

static const struct aw_option export_options[] = {
    AW_OPTION(FILE, "out", 'o', "FILE", NULL,
              "replace this file, wholly or not at all (default: standard output)"),
    AW_FLAG("trial", 0, "the policy on trial, not the last known good"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example export_examples[] = {
    {"aware policy export cart --out cart.policy.json", "the policy in force, as a file"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_policy_export = {
    .name = "policy export",
    .summary = "Write the policy of a workload as a file",
    .text = "Such a file can be kept, read, and handed in again with 'aware policy propose', for "
            "this workload or another of its kind.",
    .options = export_options,
    .positionals = workload_positionals,
    .examples = export_examples,
    .run = export_run,
};

static const struct aw_positional propose_positionals[] = {
    {.name = "WORKLOAD", .kind = AW_ARG_TEXT, .help = "NAME, or NAMESPACE/NAME"},
    {.name = "FILE",
     .kind = AW_ARG_FILE,
     .help = "a policy, as 'aware policy export' writes it; -"},
    {.name = NULL},
};
static const struct aw_option reason_options[] = {
    AW_OPTION(TEXT, "reason", 'r', "TEXT", NULL, "why, for those who ask later; kept in the log"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example propose_examples[] = {
    {"aware policy propose cart cart.policy.json --reason 'from staging'",
     "watched, then tried, then adopted or rolled back"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_policy_propose = {
    .name = "policy propose",
    .summary = "Hand in a policy for a workload, to be tried",
    .text = "The file is written to the audit log with who handed it in and why. With its next "
            "decision the workload begins to watch what the policy would do; then it acts for a "
            "part of an episode, then in whole ones; then it is adopted, or rolled back by itself "
            "when the SLO or the score falls outside of what was predicted. A file that is "
            "damaged, or of another kind or task, is refused, and nothing changes.",
    .options = reason_options,
    .positionals = propose_positionals,
    .examples = propose_examples,
    .json = true,
    .run = propose_run,
};

static const struct aw_example rollback_examples[] = {
    {"aware policy rollback cart --reason 'latency got worse'", "the last known good one acts"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_policy_rollback = {
    .name = "policy rollback",
    .summary = "Take a policy on trial back: the last known good one acts again",
    .text = "With the next decision. What the policy has done to the workload goes back as after "
            "any rollback, and it is not tried again soon.",
    .options = reason_options,
    .positionals = workload_positionals,
    .examples = rollback_examples,
    .json = true,
    .run = rollback_run,
};
