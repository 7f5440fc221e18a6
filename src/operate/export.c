/* export.c - the verb `export`: decisions, trajectories or the audit log as lines of JSON. */
#include "audit/audit.h"
#include "base/file.h"
#include "base/json.h"
#include "desk/journal.h"
#include "frame/json.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <stdio.h>
#include <string.h>

#define PAGE 10000u

/* Where lines go: standard output, or a file that is replaced wholly or not at all. */
struct sink {
    struct aw_file_writer writer; /* zeroed: standard output */
    bool to_file;
    uint64_t lines;
};

static enum aw_err sink_put(struct sink *sink, const char *bytes, size_t len, struct aw_diag *diag)
{
    for (size_t i = 0; i < len; i++)
        sink->lines += bytes[i] == '\n';
    if (sink->to_file)
        return aw_file_writer_write(&sink->writer, bytes, len, diag);
    if (fwrite(bytes, 1, len, stdout) != len)
        return aw_fail(diag, AW_ERR_IO, "standard output: cannot write");
    return AW_OK;
}

/* --- from a running daemon -------------------------------------------------------------------- */

/* Page after page: a header of one says where the next begins. */
static enum aw_err from_daemon(const struct aw_call *run, struct aw__client *client,
                               struct sink *sink, struct aw_diag *diag)
{
    const char *what = aw_args_text(run->args, "what"), *since = aw_args_text(run->args, "since");
    const char *workload = run->args->positional[0];
    char name[AW_STORE_NAME_MAX] = "";
    if (workload) { /* "cart" becomes "shop/cart", and what is not there is said */
        json_t *found = NULL;
        const enum aw_err err = aw__client_workload(client, workload, &found, diag);
        if (err)
            return err;
        snprintf(name, sizeof name, "%s", aw_at_text(found, "name"));
        json_decref(found);
        workload = name;
    }
    char path[AW__CLIENT_PATH_MAX], after[AW_HTTP_HEADER_MAX] = "";
    for (;;) {
        struct aw_text text;
        struct aw_http_answer answer;
        aw_text_init(&text, path, sizeof path);
        aw_text_add(&text, "/v1/export?what=%s&limit=%u", what, PAGE);
        if (workload) {
            aw_text_add(&text, "&workload=");
            aw_http_escape(&text, workload, strlen(workload));
        }
        if (since) {
            aw_text_add(&text, "&since=");
            aw_http_escape(&text, since, strlen(since));
        }
        if (*after) {
            aw_text_add(&text, "&after=");
            aw_http_escape(&text, after, strlen(after));
        }
        enum aw_err err = aw__client_send(client, path, NULL, NULL, &answer, diag);
        err = err ? err : sink_put(sink, answer.body, answer.len, diag);
        if (err || !*answer.header)
            return err;
        snprintf(after, sizeof after, "%s", answer.header);
    }
}

/* --- from a stopped one ----------------------------------------------------------------------- */

struct walk {
    struct sink *sink;
    const char *workload; /* NULL: all */
    struct aw_diag *diag;
};

static enum aw_err audit_line(void *ctx, const struct aw_audit_entry *line)
{
    struct walk *walk = ctx;
    if (walk->workload && line->intact) {
        json_t *entry = json_loadb(line->line, line->line_len, 0, NULL);
        const bool is_it = !strcmp(aw_at_text(entry, "workload"), walk->workload) ||
                           !strcmp(aw_at_text(entry, "name"), walk->workload);
        json_decref(entry);
        if (!is_it)
            return AW_OK;
    }
    enum aw_err err = sink_put(walk->sink, line->line, line->line_len, walk->diag);
    return err ? err : sink_put(walk->sink, "\n", 1, walk->diag);
}

static enum aw_err decision_line(void *ctx, const struct aw_journal_entry *entry)
{
    struct walk *walk = ctx;
    char head[AW_STORE_NAME_MAX + 160], when[AW_SHOW_MAX];
    const int len = snprintf(head, sizeof head,
                             "{\"decision\":%llu,\"workload\":\"%s\",\"at\":\"%s\",\"account\":",
                             (unsigned long long)entry->id, entry->workload,
                             aw_time_write(entry->at_us, when, sizeof when));
    enum aw_err err = sink_put(walk->sink, head, (size_t)len, walk->diag);
    err = err ? err : sink_put(walk->sink, entry->account, strlen(entry->account), walk->diag);
    return err ? err : sink_put(walk->sink, "}\n", 2, walk->diag);
}

static enum aw_err from_left(const struct aw_call *run, struct aw__client *client,
                             struct sink *sink, struct aw_diag *diag)
{
    const char *what = aw_args_text(run->args, "what"), *name = run->args->positional[0];
    char path[AW_TEXT_MAX + 32];
    json_t *row = NULL;
    enum aw_err err = name ? aw__offline_row(client, name, &row, diag) : AW_OK;
    if (err)
        return err;
    struct walk walk = {
        .sink = sink, .workload = row ? aw_at_text(row, "name") : NULL, .diag = diag};
    if (!strcmp(what, "trajectories"))
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       "the daemon is stopped; 'aware store export %s/trajectories.db' reads what "
                       "it left",
                       client->state);
    if (!strcmp(what, "audit")) {
        snprintf(path, sizeof path, "%s/audit", client->state);
        return aw_audit_scan(NULL, path, &AW_AUDIT_EVERY, audit_line, &walk, NULL, diag);
    }
    struct aw_journal *journal = NULL;
    snprintf(path, sizeof path, "%s/decisions.db", client->state);
    err = aw_journal_open(&journal, path, true, 0, diag);
    err = err ? err
              : aw_journal_list(journal, walk.workload, INT64_MIN, UINT32_MAX, decision_line, &walk,
                                diag);
    aw_journal_close(journal);
    return err;
}

static enum aw_err export_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *file = aw_args_text(run->args, "file");
    struct aw__client client;
    struct sink sink = {.to_file = file && strcmp(file, "-") != 0};
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    if (!aw__client_running(&client) && aw_args_given(run->args, "since"))
        err = aw__client_need(&client, "--since", diag);
    if (!err && sink.to_file)
        err = aw_file_writer_open(&sink.writer, file, NULL, diag);
    if (!err)
        err = aw__client_running(&client) ? from_daemon(run, &client, &sink, diag)
                                          : from_left(run, &client, &sink, diag);
    if (!err && sink.to_file)
        err = aw_file_writer_commit(&sink.writer, diag);
    else if (sink.to_file)
        aw_file_writer_abort(&sink.writer);
    aw__client_close(&client);
    if (!err && sink.to_file)
        fprintf(stderr, "aware: %llu lines to %s\n", (unsigned long long)sink.lines, file);
    return err;
}

static const char *const whats[] = {"decisions", "trajectories", "audit", NULL};
static const struct aw_option options[] = {
    AW_OPTION(CHOICE, "what", 0, "WHAT", "decisions",
              "decisions with their accounts, trajectories (finished steps), or the audit log",
              .choices = whats),
    AW_OPTION(FILE, "file", 'f', "FILE", NULL,
              "replace this file, wholly or not at all (default: standard output)"),
    AW_OPTION(TEXT, "since", 0, "TIME", NULL,
              "only what is younger: 2h, or a time; of a running daemon"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_positional positionals[] = {
    {.name = "WORKLOAD",
     .kind = AW_ARG_TEXT,
     .help = "only of this one: NAME, or NAMESPACE/NAME",
     .optional = true},
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware export cart | jq .account.sentence", "every decision about it that is kept"},
    {"aware export --what audit -f audit.jsonl", "the whole log, as it is"},
    {"aware export --what trajectories --since 1d -f steps.jsonl",
     "steps for 'aware store import'"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_export = {
    .name = "export",
    .summary = "Write decisions, trajectories or the audit log as lines of JSON",
    .options = options,
    .positionals = positionals,
    .examples = examples,
    .run = export_run,
};
