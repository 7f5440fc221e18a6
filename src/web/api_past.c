/* api_past.c - what was: explanations, histories, the log, and all of it as lines. */
#include "web/api_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "store/transfer.h"

#include <stdlib.h>
#include <string.h>

#define TAIL_FIRST 2048u /* lines that are looked through before more of the log is */
#define TAIL_GROWS 8u

static enum aw_err no_memory(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}

/* --- entries of the log ----------------------------------------------------------------------- */

struct line {
    uint64_t seq;
    char *text;
    size_t len;
};

/* The newest lines that fit, in a ring. */
struct gathering {
    const struct aw__api_entries *ask;
    struct line *line; /* [size] */
    uint32_t size;     /* one more than asked for: it tells that there is more */
    uint64_t found;    /* of all time; the ring has the last of them */
    uint64_t visited;
    int64_t first_us; /* of the oldest line that was looked at */
    bool nomem;
};

static void gathering_reset(struct gathering *g)
{
    for (uint32_t i = 0; i < g->size; i++) {
        free(g->line[i].text);
        g->line[i] = (struct line){0};
    }
    g->found = g->visited = 0;
    g->first_us = INT64_MAX;
}

static bool is_about(const struct aw_audit_entry *entry, const char *workload)
{
    const bool order = strcmp(entry->kind, "order") == 0;
    if (!order && !memmem(entry->members, entry->members_len, workload, strlen(workload)))
        return false;
    json_t *object = json_loadb(entry->line, entry->line_len, 0, NULL);
    bool about = false;
    if (order) {
        const char *scope = json_string_value(json_object_get(object, "scope"));
        const char *name = json_string_value(json_object_get(object, "name"));
        struct aw_order given = {.scope = AW_SCOPE_WORKLOAD};
        for (uint32_t i = 0; scope && aw_order_scope_names[i]; i++)
            if (strcmp(scope, aw_order_scope_names[i]) == 0)
                given.scope = i;
        snprintf(given.name, sizeof given.name, "%s", name ? name : "");
        about = scope && aw_order_is_about(&given, workload);
    } else {
        const char *name = json_string_value(json_object_get(object, "workload"));
        about = name && strcmp(name, workload) == 0;
    }
    json_decref(object);
    return about;
}

static enum aw_err gather(void *ctx, const struct aw_audit_entry *entry)
{
    struct gathering *g = ctx;
    const struct aw__api_entries *ask = g->ask;
    g->visited++;
    if (!entry->intact)
        return AW_OK; /* `aware audit verify` is the one to tell */
    g->first_us = entry->at_us < g->first_us ? entry->at_us : g->first_us;
    if (entry->seq >= ask->before || entry->at_us < ask->since_us ||
        (ask->kind && strcmp(entry->kind, ask->kind) != 0) ||
        (ask->workload && !is_about(entry, ask->workload)))
        return AW_OK;
    struct line *line = &g->line[g->found % g->size];
    char *text = malloc(entry->line_len + 1);
    if (!text) {
        g->nomem = true;
        return AW_ERR_NOMEM;
    }
    memcpy(text, entry->line, entry->line_len);
    free(line->text);
    *line = (struct line){.seq = entry->seq, .text = text, .len = entry->line_len};
    g->found++;
    return AW_OK;
}

/* A log is long and what people ask for is mostly near its end. */
static enum aw_err gather_all(const struct aw_api *api, struct gathering *g, struct aw_diag *diag)
{
    for (uint64_t count = TAIL_FIRST;; count *= TAIL_GROWS) {
        count = count < AW_API_AUDIT_LINES_MAX ? count : AW_API_AUDIT_LINES_MAX;
        gathering_reset(g);
        const enum aw_err err = aw_audit_tail(api->config.disk, api->config.audit, count,
                                              &AW_AUDIT_EVERY, gather, g, NULL, diag);
        if (err == AW_ERR_NOTFOUND)
            return AW_OK;
        if (err)
            return g->nomem ? no_memory(diag) : err;
        if (g->found >= g->size || g->visited < count || count == AW_API_AUDIT_LINES_MAX ||
            g->first_us < g->ask->since_us)
            return AW_OK;
    }
}

enum aw_err aw__api_entries(const struct aw_api *api, struct aw__api_entries *ask, FILE *out,
                            struct aw_diag *diag)
{
    struct gathering g = {.ask = ask, .size = ask->limit + 1};
    g.line = aw_alloc_new(NULL, g.size, sizeof *g.line);
    if (!g.line)
        return no_memory(diag);
    const enum aw_err err = gather_all(api, &g, diag);
    ask->ret_next = 0;
    fputc('[', out);
    for (uint32_t i = 0; !err && i < g.found && i < ask->limit; i++) {
        const struct line *line = &g.line[(g.found - 1 - i) % g.size];
        fputs(i ? "," : "", out);
        fwrite(line->text, 1, line->len, out);
        ask->ret_next = line->seq;
    }
    fputc(']', out);
    if (g.found <= ask->limit)
        ask->ret_next = 0;
    gathering_reset(&g);
    aw_alloc_free(NULL, g.line);
    return err;
}

/* One entry by its id, parsed. AW_ERR_NOTFOUND. */
static enum aw_err entry_read(const struct aw_api *api, uint64_t id, json_t **ret,
                              struct aw_diag *diag)
{
    struct aw__api_entries ask = {.since_us = INT64_MIN, .before = id + 1, .limit = 1};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    enum aw_err err = out ? aw__api_entries(api, &ask, out, diag) : no_memory(diag);
    if (out && fclose(out) && !err)
        err = no_memory(diag);
    json_t *list = err ? NULL : json_loadb(text, len, 0, NULL);
    json_t *entry = json_array_get(list, 0);
    if (!err && json_integer_value(json_object_get(entry, "seq")) != (json_int_t)id)
        err = aw_fail(diag, AW_ERR_NOTFOUND, "the log has no entry %llu", (unsigned long long)id);
    if (!err)
        *ret = json_incref(entry);
    json_decref(list);
    free(text);
    return err;
}

/* Parameters of a list of entries. */
static enum aw_err entries_ask(const struct aw__api_call *call, struct aw__api_entries *ret,
                               struct aw_diag *diag)
{
    const char *before = aw__api_param(call, "before");
    *ret = (struct aw__api_entries){.kind = aw__api_param(call, "kind"), .before = UINT64_MAX};
    static const char *const kinds[] = {
        "decision",         "outcome", "proposal", "order",
        "policy",           "start",   "stop",     AW_AUDIT_KIND_RETAINED,
        AW_AUDIT_KIND_BREAK};
    bool known = !ret->kind;
    for (size_t i = 0; !known && i < sizeof kinds / sizeof *kinds; i++)
        known = strcmp(ret->kind, kinds[i]) == 0;
    if (!known)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "kind",
                          "expected decision, outcome, proposal, order, policy, start, stop, "
                          "retained or break, found %s",
                          aw_text_quote(ret->kind, strlen(ret->kind), (char[AW_TEXT_QUOTE_MAX]){0},
                                        AW_TEXT_QUOTE_MAX));
    enum aw_err err = aw__api_since(call, &ret->since_us, diag);
    err = err ? err : aw__api_limit(call, AW_API_PAGE, AW_API_PAGE_MAX, &ret->limit, diag);
    return err || !before ? err : aw__api_id(before, "before", &ret->before, diag);
}

/* The answer of a list, around entries whose bytes are those of the log. */
static enum aw_err entries_answer(struct aw__api_call *call, struct aw__api_entries *ask,
                                  struct aw_diag *diag)
{
    fputs("{", call->out);
    if (ask->workload) {
        json_t *name = json_string(ask->workload);
        char *text = json_dumps(name, JSON_ENCODE_ANY);
        fprintf(call->out, "\"workload\":%s,", text ? text : "null");
        free(text);
        json_decref(name);
    }
    fputs("\"entries\":", call->out);
    const enum aw_err err = aw__api_entries(call->api, ask, call->out, diag);
    if (ask->ret_next)
        fprintf(call->out, ",\"next\":%llu}\n", (unsigned long long)ask->ret_next);
    else
        fputs(",\"next\":null}\n", call->out);
    return err;
}

enum aw_err aw__api_get_audit(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw__api_entries ask;
    const enum aw_err err = entries_ask(call, &ask, diag);
    return err ? err : entries_answer(call, &ask, diag);
}

/* The name that the path means. */
static enum aw_err name_of(const struct aw__api_call *call, char *buf, size_t size,
                           struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct aw_desk_view view;
    aw_desk_lock(desk);
    const enum aw_err err = aw__api_find(call, &view, diag);
    if (!err)
        snprintf(buf, size, "%s", view.name);
    aw_desk_unlock(desk);
    return err;
}

enum aw_err aw__api_history_of(struct aw__api_call *call, const char *name, struct aw_diag *diag)
{
    struct aw__api_entries ask;
    const enum aw_err err = entries_ask(call, &ask, diag);
    if (err)
        return err;
    ask.workload = name;
    return entries_answer(call, &ask, diag);
}

enum aw_err aw__api_get_history(struct aw__api_call *call, struct aw_diag *diag)
{
    char name[AW_STORE_NAME_MAX];
    const enum aw_err err = name_of(call, name, sizeof name, diag);
    return err ? err : aw__api_history_of(call, name, diag);
}

/* --- explanations ----------------------------------------------------------------------------- */

/* From the journal, under the desk's lock; `id` 0: the latest of the workload. AW_ERR_NOTFOUND:
 * there is no journal, or it does not have it. */
static enum aw_err journal_read(struct aw_api *api, const char *workload, uint64_t id,
                                struct aw_journal_entry *ret, struct aw_diag *diag)
{
    struct aw_desk *desk = api->config.desk;
    enum aw_err err = AW_ERR_NOTFOUND;
    aw_desk_lock(desk);
    struct aw_journal *journal = aw_desk_journal(desk);
    if (!journal)
        aw_fail(diag, err, "this daemon keeps no journal: the last decision alone is explained");
    else if (id)
        err = aw_journal_get(journal, id, ret, diag);
    else
        err = aw_journal_latest(journal, workload, INT64_MAX, ret, diag);
    aw_desk_unlock(desk);
    return err;
}

/* What is worked out on demand; `*ret_why`: why it was not. NULL: it was not. */
static json_t *detail_of(const struct aw_journal_entry *entry, struct aw_diag *why)
{
    struct aw_pilot_config *config = aw_alloc_new(NULL, 1, sizeof *config);
    struct aw_fallback_task task;
    json_t *detail = NULL;
    enum aw_err err = config ? AW_OK : no_memory(why);
    if (!err && !entry->moment)
        err = aw_fail(why, AW_ERR_NOTFOUND, "the moment of this decision was not kept");
    err = err ? err : aw_explanation_config_read(entry->config, config, &task, why);
    if (!err) {
        const struct aw_explanation_snapshot moment = {.config = config,
                                                       .task = &task,
                                                       .bytes = entry->moment,
                                                       .size = entry->moment_bytes,
                                                       .orders = &entry->orders,
                                                       .at_us = entry->at_us};
        err = aw_explanation_detail(&moment, entry->account, NULL, &detail, why);
    }
    aw_alloc_free(NULL, config);
    return err ? NULL : detail;
}

/* The same shape for a recorded decision and for one that was not worth an entry. */
static enum aw_err explain_answer(struct aw__api_call *call, const char *workload, uint64_t id,
                                  int64_t at_us, json_t *account, json_t *detail,
                                  const char *detail_error, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    aw_desk_lock(desk);
    const int64_t now = aw__api_now_us(call->api);
    aw_desk_unlock(desk);
    bool ok = true;
    json_t *sentence = json_object_get(account, "sentence");
    call->body = json_object();
    aw__json_set(call->body, "workload", json_string(workload), &ok);
    aw__json_set(call->body, "decision", aw__json_id(id), &ok);
    aw__json_set(call->body, "at", aw__json_time(at_us), &ok);
    aw__json_set(call->body, "age_s", aw__json_num(1e-6 * (double)(now - at_us)), &ok);
    aw__json_set(call->body, "sentence", sentence ? json_incref(sentence) : json_null(), &ok);
    aw__json_set(call->body, "account", account, &ok);
    aw__json_set(call->body, "detail", detail ? detail : json_null(), &ok);
    aw__json_set(call->body, "detail_error", detail ? json_null() : json_string(detail_error), &ok);
    return ok ? AW_OK : no_memory(diag);
}

static enum aw_err explain_entry(struct aw__api_call *call, const struct aw_journal_entry *entry,
                                 struct aw_diag *diag)
{
    struct aw_diag why = {0};
    json_t *account = json_loads(entry->account, 0, NULL);
    json_t *detail = account ? detail_of(entry, &why) : NULL;
    if (!account)
        return aw_fail(diag, AW_ERR_FORMAT, "the journal's account of decision %llu is damaged",
                       (unsigned long long)entry->id);
    return explain_answer(call, entry->workload, entry->id, entry->at_us, account, detail,
                          why.text[0] ? why.text : "not known", diag);
}

/* Nothing was recorded: the last decision, as it is in memory. */
static enum aw_err explain_last(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct aw_desk_view view;
    char name[AW_STORE_NAME_MAX] = "";
    json_t *account = NULL;
    int64_t at_us = AW_NEVER;
    aw_desk_lock(desk);
    enum aw_err err = aw__api_find(call, &view, diag);
    if (!err && !aw__api_decided(&view))
        err = aw_fail(diag, AW_ERR_NODATA, "nothing has been decided for %s yet", view.name);
    if (!err) {
        snprintf(name, sizeof name, "%s", view.name);
        at_us = view.decision->at_us;
        account = aw_explanation_json(view.config, view.decision);
    }
    aw_desk_unlock(desk);
    if (err || !account)
        return err ? err : no_memory(diag);
    return explain_answer(call, name, 0, at_us, account, NULL,
                          "the moment of this decision was not kept", diag);
}

/* Decisions that tell nothing new are not kept. What the workload's row shows is the newest one: it
 * stands beside an older one that is explained. */
static enum aw_err latest_put(struct aw__api_call *call, int64_t explained_us, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct aw_desk_view view;
    json_t *latest = NULL;
    bool ok = true;
    aw_desk_lock(desk);
    enum aw_err err = aw__api_find(call, &view, diag);
    if (!err && aw__api_decided(&view) && view.decision->at_us > explained_us) {
        char sentence[AW_EXPLANATION_SENTENCE_MAX];
        latest = json_object();
        aw__json_set(latest, "at", aw__json_time(view.decision->at_us), &ok);
        aw__json_set(latest, "sentence",
                     json_string(aw_explanation_sentence(view.config, view.decision, sentence,
                                                         sizeof sentence)),
                     &ok);
    }
    aw_desk_unlock(desk);
    if (!err)
        aw__json_set(call->body, "latest", latest ? latest : json_null(), &ok);
    return err ? err : ok ? AW_OK : no_memory(diag);
}

enum aw_err aw__api_get_explain(struct aw__api_call *call, struct aw_diag *diag)
{
    const char *decision = aw__api_param(call, "decision");
    struct aw_journal_entry entry = {0};
    char name[AW_STORE_NAME_MAX];
    uint64_t id = 0;
    enum aw_err err = decision ? aw__api_id(decision, "decision", &id, diag) : AW_OK;
    err = err ? err : name_of(call, name, sizeof name, diag);
    if (err)
        return err;
    err = journal_read(call->api, name, id, &entry, diag);
    if (err == AW_ERR_NOTFOUND && !decision)
        return explain_last(call, diag);
    if (err == AW_ERR_NOTFOUND)
        return aw_fail(diag, AW_ERR_NOTFOUND,
                       "decision %llu is not explained: it was never kept, or is forgotten by now; "
                       "its entry is in the history",
                       (unsigned long long)id);
    if (!err && strcmp(entry.workload, name) != 0)
        err = aw_fail(diag, AW_ERR_NOTFOUND, "decision %llu is about %s, not about %s",
                      (unsigned long long)id, entry.workload, name);
    err = err ? err : explain_entry(call, &entry, diag);
    if (!err && !decision)
        err = latest_put(call, entry.at_us, diag);
    aw_journal_entry_deinit(&entry);
    return err;
}

enum aw_err aw__api_get_state(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct aw_journal_entry entry = {0};
    struct aw_desk_view view;
    char name[AW_STORE_NAME_MAX] = "";
    bool ok = true;
    json_t *body = json_object();
    aw_desk_lock(desk);
    enum aw_err err = aw__api_find(call, &view, diag);
    if (!err) {
        const struct aw_decision *d = view.decision;
        const bool decided = aw__api_decided(&view);
        snprintf(name, sizeof name, "%s", view.name);
        aw__json_set(body, "workload", json_string(name), &ok);
        aw__json_set(body, "stage", json_string(aw_stage_name(aw_pilot_stage(view.pilot))), &ok);
        aw__json_set(body, "agent",
                     view.config->learning ? json_string(aw_policy_names[view.config->agent])
                                           : json_null(),
                     &ok);
        aw__json_set(body, "model", aw__json_model(decided ? d->policy_id : 0), &ok);
        aw__json_set(body, "episode", decided ? json_integer(d->episode) : json_null(), &ok);
        aw__json_set(body, "step", decided ? json_integer(d->step) : json_null(), &ok);
        aw__json_set(body, "bytes", json_integer((json_int_t)aw_pilot_state_bytes(view.pilot)),
                     &ok);
    }
    aw_desk_unlock(desk);
    json_t *policy = NULL;
    if (!err && !journal_read(call->api, name, 0, &entry, NULL)) {
        struct aw_diag why;
        json_t *detail = detail_of(&entry, &why);
        policy = json_incref(json_object_get(detail, "policy"));
        json_decref(detail);
    }
    aw_journal_entry_deinit(&entry);
    aw__json_set(body, "policy", policy ? policy : json_null(), &ok);
    call->body = body;
    return err ? err : ok ? AW_OK : no_memory(diag);
}

enum aw_err aw__api_get_decision(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_journal_entry entry = {0};
    json_t *line = NULL;
    uint64_t id;
    bool ok = true;
    enum aw_err err = aw__api_id(call->part[1], "decision", &id, diag);
    err = err ? err : entry_read(call->api, id, &line, diag);
    if (err)
        return err;
    const bool kept = !journal_read(call->api, NULL, id, &entry, NULL);
    json_t *account = kept ? json_loads(entry.account, 0, NULL) : NULL;
    json_t *workload = json_object_get(line, "workload"), *at = json_object_get(line, "at");
    call->body = json_object();
    aw__json_set(call->body, "decision", aw__json_id(id), &ok);
    aw__json_set(call->body, "workload", workload ? json_incref(workload) : json_null(), &ok);
    aw__json_set(call->body, "at", at ? json_incref(at) : json_null(), &ok);
    aw__json_set(call->body, "entry", line, &ok);
    aw__json_set(call->body, "account", account ? account : json_null(), &ok);
    aw_journal_entry_deinit(&entry);
    return ok ? AW_OK : no_memory(diag);
}

/* --- lines ------------------------------------------------------------------------------------ */

/* A stream that takes so many lines and bytes, and refuses the next. */
struct funnel {
    FILE *out;
    uint64_t lines, lines_max, bytes, bytes_max;
    bool full;
    char last[AW_TRANSFER_LINE_MAX]; /* the line that is under way, then the last whole one */
    size_t last_len;
    bool ended; /* `last` is a whole line */
};

static ssize_t funnel_write(void *ctx, const char *bytes, size_t len)
{
    struct funnel *f = ctx;
    for (size_t i = 0; i < len; i++) {
        if (f->ended) {
            if (f->lines >= f->lines_max || f->bytes >= f->bytes_max) {
                f->full = true;
                return 0;
            }
            f->ended = false;
            f->last_len = 0;
        }
        if (f->last_len + 1 < sizeof f->last)
            f->last[f->last_len++] = bytes[i];
        f->ended = bytes[i] == '\n';
        if (f->ended) {
            f->last[f->last_len] = '\0';
            fwrite(f->last, 1, f->last_len, f->out);
            f->lines++;
            f->bytes += f->last_len;
        }
    }
    return (ssize_t)len;
}

/* "EPISODE:STEP:WORKLOAD", so that a name may hold anything. */
struct cursor {
    uint32_t episode, step;
    const char *workload; /* NULL: from the beginning */
};

static enum aw_err cursor_read(const char *text, struct cursor *ret, struct aw_diag *diag)
{
    unsigned long episode = 0, step = 0;
    char *end = NULL;
    *ret = (struct cursor){0};
    if (!text)
        return AW_OK;
    if (*text >= '0' && *text <= '9')
        episode = strtoul(text, &end, 10);
    if (end && *end == ':' && end[1] >= '0' && end[1] <= '9')
        step = strtoul(end + 1, &end, 10);
    else
        end = NULL;
    if (!end || *end != ':' || !end[1] || episode > AW_STORE_EPISODE_MAX || step >= UINT32_MAX)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "after",
                          "expected what the header Aware-Next of the page before said");
    *ret =
        (struct cursor){.episode = (uint32_t)episode, .step = (uint32_t)step, .workload = end + 1};
    return AW_OK;
}

struct names {
    char (*name)[AW_STORE_NAME_MAX]; /* [AW_WORKLOADS_MAX] */
    uint32_t count;
};

static enum aw_err take_name(void *ctx, const char *workload, const struct aw_store_counts *counts)
{
    struct names *names = ctx;
    (void)counts;
    if (names->count == AW_WORKLOADS_MAX)
        return AW_ERR_LIMIT;
    snprintf(names->name[names->count++], AW_STORE_NAME_MAX, "%s", workload);
    return AW_OK;
}

static enum aw_err rows_export(struct aw_store *store, const struct names *names,
                               const char *workload, const struct cursor *cursor, int64_t since_us,
                               struct funnel *funnel, FILE *stream, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < names->count && !funnel->full; i++) {
        struct aw_store_query query = AW_STORE_EVERY;
        const int order = cursor->workload ? strcmp(names->name[i], cursor->workload) : 1;
        uint64_t rows;
        if ((workload && strcmp(names->name[i], workload) != 0) || order < 0)
            continue;
        query.workload = names->name[i];
        query.from_us = since_us;
        if (order == 0) {
            query.episode_first = cursor->episode;
            query.step_first = cursor->step + 1;
        }
        const enum aw_err err =
            aw_store_export(store, &query, AW_TRANSFER_JSONL, stream, NULL, &rows, diag);
        if (fflush(stream) && !funnel->full)
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
        if (err && !funnel->full)
            return err;
    }
    return AW_OK;
}

/* Where the next page begins: at the last row that was written. */
static void cursor_write(const struct funnel *funnel, char *buf, size_t size)
{
    json_t *row = json_loads(funnel->last, JSON_DISABLE_EOF_CHECK, NULL);
    const char *workload = json_string_value(json_object_get(row, "workload"));
    if (workload)
        snprintf(buf, size, "%lld:%lld:%s",
                 (long long)json_integer_value(json_object_get(row, "episode")),
                 (long long)json_integer_value(json_object_get(row, "step")), workload);
    json_decref(row);
}

/* A store of its own, for reading beside the loop's. */
static enum aw_err export_trajectories(struct aw__api_call *call, uint32_t limit, int64_t since_us,
                                       struct aw_diag *diag)
{
    const char *url = call->api->config.store, *workload = aw__api_param(call, "workload");
    const struct aw_store_options options = {.read_only = true};
    const cookie_io_functions_t io = {.write = funnel_write};
    struct aw_store store = {0};
    struct cursor cursor;
    struct names names = {0};
    FILE *stream = NULL;
    if (!*url || strcmp(url, "memory") == 0)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "steps are kept in memory here, and cannot be read from outside");
    enum aw_err err = cursor_read(aw__api_param(call, "after"), &cursor, diag);
    if (err)
        return err;
    struct funnel *funnel = aw_alloc_new(NULL, 1, sizeof *funnel);
    names.name = aw_alloc_new(NULL, AW_WORKLOADS_MAX, sizeof *names.name);
    if (!funnel || !names.name) {
        err = no_memory(diag);
        goto out;
    }
    *funnel = (struct funnel){
        .out = call->out, .lines_max = limit, .bytes_max = AW_API_EXPORT_BYTES_MAX, .ended = true};
    if (!(stream = fopencookie(funnel, "w", io))) {
        err = no_memory(diag);
        goto out;
    }
    setvbuf(stream, NULL, _IOFBF, AW_TRANSFER_LINE_MAX);
    err = aw_store_open(&store, url, &options, NULL, diag);
    err = err ? err : aw_store_workloads(&store, take_name, &names, diag);
    err =
        err ? err : rows_export(&store, &names, workload, &cursor, since_us, funnel, stream, diag);
    if (!err && funnel->full)
        cursor_write(funnel, call->next, sizeof call->next);
out:
    if (stream)
        fclose(stream); /* what is left in its buffer was refused already */
    aw_store_close(&store);
    aw_alloc_free(NULL, names.name);
    aw_alloc_free(NULL, funnel);
    return err;
}

struct listing {
    FILE *out;
    uint64_t after, last; /* ids below `after` alone; the last that was written */
    uint32_t count, limit;
    bool more;
};

static enum aw_err list_decision(void *ctx, const struct aw_journal_entry *entry)
{
    struct listing *l = ctx;
    char at[AW__TIME_TEXT_MAX];
    if (entry->id >= l->after)
        return AW_OK;
    if (l->count == l->limit || ftell(l->out) > (long)AW_API_EXPORT_BYTES_MAX) {
        l->more = true;
        return AW_ERR_LIMIT;
    }
    json_t *name = json_string(entry->workload);
    char *text = json_dumps(name, JSON_ENCODE_ANY);
    json_decref(name);
    if (!text)
        return AW_ERR_NOMEM;
    fprintf(l->out, "{\"decision\":%llu,\"workload\":%s,\"at\":\"%s\",\"account\":%s}\n",
            (unsigned long long)entry->id, text, aw__time_format(entry->at_us, at, sizeof at),
            entry->account);
    free(text);
    l->last = entry->id;
    l->count++;
    return AW_OK;
}

static enum aw_err export_decisions(struct aw__api_call *call, uint32_t limit, int64_t since_us,
                                    struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    const char *after = aw__api_param(call, "after");
    struct listing listing = {.out = call->out, .after = UINT64_MAX, .limit = limit};
    enum aw_err err = after ? aw__api_id(after, "after", &listing.after, diag) : AW_OK;
    if (err)
        return err;
    aw_desk_lock(desk);
    struct aw_journal *journal = aw_desk_journal(desk);
    err = journal ? aw_journal_list(journal, aw__api_param(call, "workload"), since_us, UINT32_MAX,
                                    list_decision, &listing, diag)
                  : aw_fail(diag, AW_ERR_UNSUPPORTED, "this daemon keeps no journal");
    aw_desk_unlock(desk);
    if (listing.more) {
        snprintf(call->next, sizeof call->next, "%llu", (unsigned long long)listing.last);
        return AW_OK;
    }
    return err;
}

struct audit_page {
    FILE *out;
    const char *workload; /* NULL: all */
    uint64_t last;        /* that was written */
    uint32_t count, limit;
    bool more;
};

static enum aw_err audit_put(void *ctx, const struct aw_audit_entry *entry)
{
    struct audit_page *page = ctx;
    if (!entry->intact || (page->workload && !is_about(entry, page->workload)))
        return AW_OK; /* what is damaged `aware audit verify` tells */
    page->more = page->count == page->limit || ftell(page->out) >= (long)AW_API_EXPORT_BYTES_MAX;
    if (page->more)
        return AW_ERR_LIMIT; /* ends the walk */
    fwrite(entry->line, 1, entry->line_len, page->out);
    fputc('\n', page->out);
    page->last = entry->seq;
    page->count++;
    return AW_OK;
}

/* The bytes of the log, one entry a line, oldest first: as its files have them. */
static enum aw_err export_audit(struct aw__api_call *call, uint32_t limit, int64_t since_us,
                                struct aw_diag *diag)
{
    const char *after = aw__api_param(call, "after");
    struct aw_audit_filter filter = AW_AUDIT_EVERY;
    struct audit_page page = {
        .out = call->out, .workload = aw__api_param(call, "workload"), .limit = limit};
    enum aw_err err = after ? aw__api_id(after, "after", &filter.seq_first, diag) : AW_OK;
    if (err)
        return err;
    filter.seq_first += after != NULL;
    filter.from_us = since_us;
    err = aw_audit_scan(call->api->config.disk, call->api->config.audit, &filter, audit_put, &page,
                        NULL, diag);
    if (page.more)
        snprintf(call->next, sizeof call->next, "%llu", (unsigned long long)page.last);
    return page.more || err == AW_ERR_NOTFOUND ? AW_OK : err;
}

enum aw_err aw__api_get_export(struct aw__api_call *call, struct aw_diag *diag)
{
    const char *what = aw__api_param(call, "what");
    int64_t since_us;
    uint32_t limit;
    enum aw_err err = aw__api_since(call, &since_us, diag);
    err =
        err ? err : aw__api_limit(call, AW_API_EXPORT_LINES, AW_API_EXPORT_LINES_MAX, &limit, diag);
    if (err)
        return err;
    call->content_type = "application/x-ndjson";
    if (!what || strcmp(what, "trajectories") == 0)
        return export_trajectories(call, limit, since_us, diag);
    if (strcmp(what, "decisions") == 0)
        return export_decisions(call, limit, since_us, diag);
    if (strcmp(what, "audit") == 0)
        return export_audit(call, limit, since_us, diag);
    return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "what",
                      "expected trajectories, decisions or audit");
}
