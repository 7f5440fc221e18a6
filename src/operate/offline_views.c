/*
 * offline_views.c - what a stopped daemon left: its views, its log and its journal, told as it
 * would tell them.
 */
#include "audit/audit.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "desk/explanation.h"
#include "desk/journal.h"
#include "desk/standing_orders.h"
#include "frame/show.h"
#include "operate/client.h"

#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINES_MAX 200000u /* of the log that one question looks through, as in the API */

static const char *place(const struct aw__client *client, const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "%s/%s", client->state, name);
    return buf;
}

/* The present of the state: simulated, or of the wall clock. */
static int64_t now_us_of(const struct aw__client *client)
{
    int64_t us;
    if (aw_at_true(client->views, "status.virtual_time") &&
        !aw_time_read(aw_at_text(client->views, "status.now"), &us))
        return us;
    return aw_clock_now_us(NULL);
}

enum aw_err aw__offline_row(const struct aw__client *client, const char *name,
                            json_t **ret_borrowed, struct aw_diag *diag)
{
    json_t *rows = json_object_get(json_object_get(client->views, "workloads"), "workloads"), *row;
    json_t *found = NULL;
    uint32_t count = 0;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const bool is_whole = !strcmp(aw_at_text(row, "name"), name);
        if (!is_whole && strcmp(aw_at_text(row, "workload"), name) != 0)
            continue;
        found = row;
        count = is_whole ? 1 : count + 1;
        if (is_whole)
            break;
    }
    if (count > 1)
        return aw_fail(diag, AW_ERR_USAGE,
                       "%u workloads are called %s; say which with NAMESPACE/%s", count, name,
                       name);
    if (!found)
        return aw_fail(diag, AW_ERR_NOTFOUND, "no workload is called %s", AW_QUOTE(name));
    *ret_borrowed = found;
    return AW_OK;
}

/* --- history ---------------------------------------------------------------------------------- */

struct looking {
    const char *workload; /* NULL: all */
    uint32_t limit;
    json_t *entries; /* oldest first */
    bool failed;
};

/* "shop/cart" for an entry about it; an order may be about more than one. */
static bool is_about(const json_t *entry, const char *kind, const char *workload)
{
    struct aw_order order = {0};
    const char *scope = aw_at_text(entry, "scope");
    if (strcmp(kind, "order") != 0)
        return !strcmp(aw_at_text(entry, "workload"), workload);
    snprintf(order.name, sizeof order.name, "%s", aw_at_text(entry, "name"));
    for (uint32_t i = 0; aw_order_scope_names[i]; i++) {
        if (!strcmp(aw_order_scope_names[i], scope))
            order.scope = i;
    }
    return aw_order_is_about(&order, workload);
}

static enum aw_err look(void *ctx, const struct aw_audit_entry *line)
{
    struct looking *looking = ctx;
    if (!line->intact)
        return AW_OK; /* 'aware audit verify' tells of those */
    json_t *entry = json_loadb(line->line, line->line_len, 0, NULL);
    if (entry && (!looking->workload || is_about(entry, line->kind, looking->workload)) &&
        !json_array_append(looking->entries, entry)) {
        if (json_array_size(looking->entries) > 2 * (size_t)looking->limit) {
            json_t *late = json_array();
            for (size_t i = looking->limit; i < json_array_size(looking->entries); i++)
                json_array_append(late, json_array_get(looking->entries, i));
            json_decref(looking->entries);
            looking->entries = late;
        }
    }
    json_decref(entry);
    return AW_OK;
}

enum aw_err aw__offline_history(const struct aw__client *client, const char *name,
                                const char *since, uint32_t limit, uint64_t before, json_t **ret,
                                struct aw_diag *diag)
{
    char folder[AW_TEXT_MAX + 32];
    struct aw_audit_filter filter = AW_AUDIT_EVERY;
    json_t *row = NULL;
    enum aw_err err = name ? aw__offline_row(client, name, &row, diag) : AW_OK;
    if (err)
        return err;
    if (since && aw_time_read(since, &filter.from_us)) {
        int64_t ago;
        if ((err = aw_duration_parse(since, AW_QUANTITY_POSITIVE_OR_0, &ago, diag)))
            return err;
        filter.from_us = now_us_of(client) - ago;
    }
    if (before)
        filter.seq_last = before - 1;
    struct looking looking = {
        .workload = row ? aw_at_text(row, "name") : NULL, .limit = limit, .entries = json_array()};
    err = aw_audit_tail(NULL, place(client, "audit", folder, sizeof folder), LINES_MAX, &filter,
                        look, &looking, NULL, diag);
    if (err) {
        json_decref(looking.entries);
        return err;
    }
    json_t *answer = json_object(), *newest = json_array();
    size_t left = limit;
    for (size_t i = json_array_size(looking.entries); left > 0 && i-- > 0; left--)
        json_array_append(newest, json_array_get(looking.entries, i));
    const bool more = json_array_size(looking.entries) > limit;
    json_decref(looking.entries);
    json_object_set_new(answer, "workload",
                        looking.workload ? json_string(looking.workload) : json_null());
    json_object_set_new(answer, "entries", newest);
    const json_t *oldest = json_array_get(newest, json_array_size(newest) - 1);
    json_object_set_new(answer, "next",
                        more ? json_integer(aw_at_integer(oldest, "seq")) : json_null());
    *ret = answer;
    return AW_OK;
}

/* --- explanations ----------------------------------------------------------------------------- */

/* What is worked out from the moment: `detail`, or why not. */
static void detail_put(json_t *answer, const struct aw_journal_entry *entry)
{
    struct aw_diag diag = {0};
    struct aw_pilot_config *config = aw_alloc_new(NULL, 1, sizeof *config);
    struct aw_fallback_task task;
    json_t *detail = NULL;
    enum aw_err err = config ? AW_OK : AW_ERR_NOMEM;
    if (!err && !entry->moment)
        err = aw_fail(&diag, AW_ERR_NODATA, "the moment of this decision was not kept");
    err = err ? err : aw_explanation_config_read(entry->config, config, &task, &diag);
    if (!err) {
        const struct aw_explanation_snapshot moment = {.config = config,
                                                       .task = &task,
                                                       .bytes = entry->moment,
                                                       .size = entry->moment_bytes,
                                                       .orders = &entry->orders,
                                                       .at_us = entry->at_us};
        err = aw_explanation_detail(&moment, entry->account, NULL, &detail, &diag);
    }
    json_object_set_new(answer, "detail", err ? json_null() : detail);
    json_object_set_new(answer, "detail_error",
                        err ? json_string(*diag.text ? diag.text : aw_err_text(err)) : json_null());
    aw_alloc_free(NULL, config);
}

enum aw_err aw__offline_explain(const struct aw__client *client, const char *name,
                                uint64_t decision, json_t **ret, struct aw_diag *diag)
{
    char path[AW_TEXT_MAX + 32], when[AW_SHOW_MAX];
    struct aw_journal *journal = NULL;
    struct aw_journal_entry entry = {0};
    json_t *row = NULL, *answer = NULL;
    enum aw_err err = name ? aw__offline_row(client, name, &row, diag) : AW_OK;
    err = err ? err
              : aw_journal_open(&journal, place(client, "decisions.db", path, sizeof path), true, 0,
                                diag);
    if (err)
        return err;
    err = decision ? aw_journal_get(journal, decision, &entry, diag)
                   : aw_journal_latest(journal, aw_at_text(row, "name"), INT64_MAX, &entry, diag);
    if (!err && row && strcmp(entry.workload, aw_at_text(row, "name")) != 0)
        err = aw_fail(diag, AW_ERR_NOTFOUND, "decision %llu is about %s, not about %s",
                      (unsigned long long)entry.id, entry.workload, aw_at_text(row, "name"));
    if (!err) {
        json_t *account = json_loads(entry.account, 0, NULL);
        answer = json_object();
        json_object_set_new(answer, "workload", json_string(entry.workload));
        json_object_set_new(answer, "decision", json_integer((json_int_t)entry.id));
        json_object_set_new(answer, "at",
                            json_string(aw_time_write(entry.at_us, when, sizeof when)));
        json_object_set_new(answer, "age_s",
                            json_real(1e-6 * (double)(now_us_of(client) - entry.at_us)));
        json_object_set_new(answer, "sentence", json_string(aw_at_text(account, "sentence")));
        json_object_set_new(answer, "account", account ? account : json_null());
        detail_put(answer, &entry);
        *ret = answer;
    }
    aw_journal_entry_deinit(&entry);
    aw_journal_close(journal);
    return err;
}

/* --- orders for the next start ---------------------------------------------------------------- */

/* The orders that stand, from the log, and when its last entry was. */
struct standing {
    struct aw_standing_orders book;
    int64_t last_us;
    struct aw_diag diag;
};

static enum aw_err stand(void *ctx, const struct aw_audit_entry *line)
{
    struct standing *standing = ctx;
    static const char *const log_own[] = {"seq", "at", "kind", "first", "prev", "hash"};
    struct aw_order order;
    if (!line->intact)
        return aw_fail_at(&standing->diag, AW_ERR_FORMAT, line->file, line->line_number, 0, NULL,
                          "the log is damaged here; see 'aware audit verify'");
    standing->last_us = line->at_us > standing->last_us ? line->at_us : standing->last_us;
    if (strcmp(line->kind, "order") != 0)
        return AW_OK;
    json_t *entry = json_loadb(line->line, line->line_len, 0, NULL);
    for (size_t i = 0; i < sizeof log_own / sizeof *log_own; i++)
        json_object_del(entry, log_own[i]);
    enum aw_err err = entry ? aw_order_from_json(entry, &order, &standing->diag) : AW_ERR_FORMAT;
    err = err ? err
              : aw_standing_orders_apply(&standing->book, line->seq, line->at_us, &order,
                                         &standing->diag);
    json_decref(entry);
    return err;
}

static void order_by(char *buf, size_t size)
{
    const uid_t uid = getuid();
    const struct passwd *who = getpwuid(uid);
    snprintf(buf, size, "uid:%u (%s), daemon stopped", (unsigned)uid, who ? who->pw_name : "?");
}

static enum aw_err order_read(const struct aw__client *client, const json_t *asked, int64_t now_us,
                              struct aw_order *ret, struct aw_diag *diag)
{
    const char *scope = aw_at_text(asked, "scope"), *lasts = aw_at_text(asked, "for");
    const bool freeze = !strcmp(aw_at_text(asked, "kind"), "freeze");
    struct aw_order order = {
        .kind = freeze ? AW_ORDER_FREEZE : AW_ORDER_UNFREEZE,
        .scope = !strcmp(scope, "all")         ? AW_SCOPE_ALL
                 : !strcmp(scope, "namespace") ? AW_SCOPE_NAMESPACE
                                               : AW_SCOPE_WORKLOAD,
        .down_only = aw_at_true(asked, "down_only"),
        .until_us = AW_FOR_EVER,
        .freeze_until_us = AW_NEVER,
        .decision = (uint64_t)aw_at_integer(asked, "order"),
    };
    const char *name = aw_at_text(asked, "name");
    enum aw_err err = AW_OK;
    if (order.decision)
        order.scope = AW_SCOPE_ALL;
    if (order.scope == AW_SCOPE_WORKLOAD) {
        json_t *row;
        if ((err = aw__offline_row(client, name, &row, diag)))
            return err;
        name = aw_at_text(row, "name");
    }
    snprintf(order.name, sizeof order.name, "%s", name);
    snprintf(order.reason, sizeof order.reason, "%s", aw_at_text(asked, "reason"));
    order_by(order.by, sizeof order.by);
    if (*lasts) {
        int64_t us;
        if ((err = aw_duration_parse(lasts, AW_QUANTITY_POSITIVE_OR_0, &us, diag)))
            return err;
        order.until_us = now_us + us;
    }
    if ((err = aw_order_check(&order, diag)))
        return err;
    *ret = order;
    return AW_OK;
}

/* Whether there is anything to lift. */
static bool stands(const struct aw_standing_orders *book, const struct aw_order *order)
{
    for (uint32_t i = 0; i < book->freeze_count; i++) {
        const struct aw_standing *one = &book->freeze[i];
        if (order->decision
                ? one->id == order->decision
                : one->order.scope == order->scope && !strcmp(one->order.name, order->name))
            return true;
    }
    return false;
}

static json_t *order_answer(const struct aw_order *order, uint64_t id, int64_t now_us)
{
    char at[AW_SHOW_MAX];
    json_t *told = aw_order_to_json(order), *answer = json_object();
    json_object_set_new(told, "id", json_integer((json_int_t)id));
    json_object_set_new(told, "kind", json_string(aw_order_name(order->kind)));
    json_object_set_new(answer, "id", json_integer((json_int_t)id));
    json_object_set_new(answer, "at", json_string(aw_time_write(now_us, at, sizeof at)));
    json_object_set_new(answer, "order", told);
    json_object_set_new(answer, "message",
                        json_string("it is in the log, and stands when the daemon starts"));
    return answer;
}

enum aw_err aw__offline_order(const struct aw__client *client, const json_t *asked, json_t **ret,
                              struct aw_diag *diag)
{
    const char *kind = aw_at_text(asked, "kind");
    char folder[AW_TEXT_MAX + 32];
    struct aw_audit *audit = NULL;
    struct aw_order order;
    uint64_t id = 0;
    if (strcmp(kind, "freeze") != 0 && strcmp(kind, "unfreeze") != 0)
        return aw__client_need(client, kind, diag);
    struct standing standing = {.last_us = INT64_MIN};
    json_t *members = NULL;
    enum aw_err err = aw_standing_orders_init(&standing.book, NULL);
    /* opened first: its lock keeps a daemon from starting in between */
    err = err ? err
              : aw_audit_open(&audit, NULL, place(client, "audit", folder, sizeof folder), NULL,
                              NULL, NULL, diag);
    if (!err &&
        (err = aw_audit_scan(NULL, folder, &AW_AUDIT_EVERY, stand, &standing, NULL, diag)) &&
        *standing.diag.text && diag)
        *diag = standing.diag;
    /* what is lived already is over: the order counts from the next tick on */
    int64_t now_us = now_us_of(client);
    now_us = now_us > standing.last_us ? now_us : standing.last_us + 1;
    err = err ? err : order_read(client, asked, now_us, &order, diag);
    if (!err) {
        aw_standing_orders_expire(&standing.book, now_us);
        if (order.kind == AW_ORDER_UNFREEZE && !stands(&standing.book, &order))
            err = aw_fail(diag, AW_ERR_NOTFOUND, "no such freeze stands; see 'aware get --orders'");
    }
    if (!err && !(members = aw_order_to_json(&order)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for an order");
    err = err ? err : aw_audit_append(audit, now_us, "order", members, &id, diag);
    err = err ? err : aw_audit_commit(audit, diag);
    if (!err)
        *ret = order_answer(&order, id, now_us);
    json_decref(members);
    aw_audit_close(audit);
    aw_standing_orders_deinit(&standing.book);
    return err;
}
