/* service_desk.c - see service_desk.h. */
#include "desk/service_desk.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "desk/desk.h"
#include "desk/journal.h"

#define TOLD_MAX 8u /* resources of a service */

struct seat {
    char name[AW_STORE_NAME_MAX];
    uint64_t changed_id; /* its latest change; 0: none */
    struct {             /* wishes that a freeze holds, and that were written down */
        uint64_t freeze;
        char resource[32];
    } told[TOLD_MAX];
};

struct aw_service_desk {
    struct aw_service_desk_config config;
    pthread_mutex_t lock;
    struct aw_audit *audit;
    struct aw_journal *journal;
    struct aw_standing_orders book;
    struct seat seat[AW_SERVICE_DESK_MAX];
    struct aw_service_undo undo[AW_SERVICE_DESK_UNDOS];
    uint32_t undo_count;
    int64_t now_us;
    json_t *status, *rows;
    struct aw_service_desk_counts counts;
};

/* --- the record ------------------------------------------------------------------------------- */

/* One entry, written and synced; takes `members` over. */
static enum aw_err write_one(struct aw_service_desk *desk, const char *kind, json_t *members,
                             uint64_t *ret_id, struct aw_diag *diag)
{
    enum aw_err err = members
                          ? aw_audit_append(desk->audit, desk->now_us, kind, members, ret_id, diag)
                          : aw_fail(diag, AW_ERR_NOMEM, "no memory for an entry");
    json_decref(members);
    if (!err)
        err = aw_audit_commit(desk->audit, diag);
    if (err) {
        aw_audit_abort(desk->audit);
        desk->counts.failures++;
    }
    return err;
}

static json_t *members_of(const struct aw_audit_entry *entry)
{
    json_t *members = json_loadb(entry->line, entry->line_len, 0, NULL);
    static const char *const own[] = {"seq", "at", "kind", "first", "prev", "hash"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        json_object_del(members, own[i]);
    return members;
}

static uint32_t seat_of(const struct aw_service_desk *desk, const char *name)
{
    for (uint32_t i = 0; name && i < desk->config.count; i++)
        if (strcmp(desk->seat[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

static enum aw_err recall(void *ctx, const struct aw_audit_entry *entry)
{
    struct aw_service_desk *desk = ctx;
    if (!entry->intact)
        return AW_ERR_FORMAT;
    desk->now_us = entry->at_us > desk->now_us ? entry->at_us : desk->now_us;
    const bool order = strcmp(entry->kind, "order") == 0;
    if (!order && strcmp(entry->kind, "decision") != 0)
        return AW_OK;
    json_t *members = members_of(entry);
    struct aw_order given;
    enum aw_err err = AW_OK;
    if (order && !(err = aw_order_from_json(members, &given, NULL))) {
        /* what was full then was refused then */
        (void)!aw_standing_orders_apply(&desk->book, entry->seq, entry->at_us, &given, NULL);
        aw_standing_orders_done(&desk->book, entry->seq); /* its world is gone: no undo waits */
    } else if (!order && json_array_size(json_object_get(members, "changed")) > 0) {
        const uint32_t seat =
            seat_of(desk, json_string_value(json_object_get(members, "workload")));
        if (seat != UINT32_MAX)
            desk->seat[seat].changed_id = entry->seq;
    }
    json_decref(members);
    return err;
}

enum aw_err aw_service_desk_new(const struct aw_service_desk_config *config,
                                struct aw_service_desk **ret, int64_t *ret_last_us,
                                struct aw_diag *diag)
{
    AW_ASSERT(config->count <= AW_SERVICE_DESK_MAX);
    struct aw_service_desk *desk = aw_alloc_new(NULL, 1, sizeof *desk);
    if (!desk)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the desk");
    desk->config = *config;
    pthread_mutex_init(&desk->lock, NULL);
    for (uint32_t i = 0; i < config->count; i++)
        snprintf(desk->seat[i].name, sizeof desk->seat[i].name, "%s/%s", config->graph,
                 config->services[i]);
    desk->config.graph = NULL; /* both are the caller's: good during new alone */
    desk->config.services = NULL;
    enum aw_err err = aw_standing_orders_init(&desk->book, NULL);
    if (err)
        aw_fail(diag, err, "no memory for the desk");
    err = err ? err
              : aw_audit_open(&desk->audit, NULL, config->folder, &config->audit, NULL, NULL, diag);
    err =
        err ? err : aw_audit_scan(NULL, config->folder, &AW_AUDIT_EVERY, recall, desk, NULL, diag);
    if (err == AW_ERR_NOTFOUND)
        err = AW_OK;
    err = err ? err : aw_journal_open(&desk->journal, config->journal, false, 0, diag);
    *ret_last_us = desk->now_us;
    err = err ? err
              : write_one(desk, "start",
                          json_pack("{s:s, s:I}", "graph", config->graph, "workloads",
                                    (json_int_t)config->count),
                          NULL, diag);
    if (err) {
        aw_audit_close(desk->audit);
        desk->audit = NULL;
        aw_service_desk_free(desk, "");
        return err;
    }
    *ret = desk;
    return AW_OK;
}

void aw_service_desk_free(struct aw_service_desk *desk, const char *reason)
{
    if (!desk)
        return;
    if (desk->audit) /* a log that cannot be written has been told of where it mattered */
        (void)!write_one(desk, "stop", json_pack("{s:s}", "reason", reason), NULL, NULL);
    aw_journal_close(desk->journal);
    aw_audit_close(desk->audit);
    aw_standing_orders_deinit(&desk->book);
    json_decref(desk->status);
    json_decref(desk->rows);
    pthread_mutex_destroy(&desk->lock);
    aw_alloc_free(NULL, desk);
}

void aw_service_desk_now(struct aw_service_desk *desk, int64_t now_us)
{
    pthread_mutex_lock(&desk->lock);
    desk->now_us = now_us > desk->now_us ? now_us : desk->now_us;
    aw_standing_orders_expire(&desk->book, desk->now_us);
    pthread_mutex_unlock(&desk->lock);
}

int64_t aw_service_desk_now_us(struct aw_service_desk *desk)
{
    pthread_mutex_lock(&desk->lock);
    const int64_t now_us = desk->now_us;
    pthread_mutex_unlock(&desk->lock);
    return now_us;
}

struct aw_service_desk_counts aw_service_desk_counts(struct aw_service_desk *desk)
{
    pthread_mutex_lock(&desk->lock);
    const struct aw_service_desk_counts counts = desk->counts;
    pthread_mutex_unlock(&desk->lock);
    return counts;
}

/* --- changes ---------------------------------------------------------------------------------- */

/* Whether a freeze holds it; `*ret_id` is the order. */
static bool frozen(const struct aw_service_desk *desk, const struct aw_service_change *change,
                   uint64_t *ret_id)
{
    struct aw_orders orders;
    aw_standing_orders_orders(&desk->book, desk->seat[change->service].name, desk->now_us, &orders);
    *ret_id = orders.freeze_id;
    return orders.freeze == AW_GUARD_FREEZE_ALL ||
           (orders.freeze == AW_GUARD_FREEZE_DOWN && change->shrinks);
}

static json_t *entry_of(const struct seat *seat, const struct aw_service_change *change,
                        uint64_t held)
{
    json_t *changed = json_array();
    if (!held)
        json_array_append_new(changed, json_string(change->resource));
    json_t *entry =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:f}, s:{s:f}, s:o, s:b}", "workload", seat->name,
                  "actor", change->actor, "resource", change->resource, "what", change->what, "why",
                  change->why, "from", change->resource, change->from, "to", change->resource,
                  change->to, "changed", changed, "undoable", change->undoable && !held);
    if (entry && held)
        json_object_set_new(entry, "held_by", json_integer((json_int_t)held));
    return entry;
}

static void keep(struct aw_service_desk *desk, const struct aw_service_change *change, uint64_t id,
                 uint64_t held)
{
    const struct seat *seat = &desk->seat[change->service];
    static const struct aw_orders none;
    json_t *account = change->account ? json_deep_copy(change->account) : json_object();
    char sentence[2 * AW_SERVICE_DESK_TEXT_MAX];
    if (held)
        snprintf(sentence, sizeof sentence, "%s would have been done (%s), but order %llu holds it",
                 change->what, change->why, (unsigned long long)held);
    else
        snprintf(sentence, sizeof sentence, "%s: %s", change->what, change->why);
    json_object_set_new(account, "kind", json_string("service"));
    json_object_set_new(account, "sentence", json_string(sentence));
    json_object_set_new(account, "what", json_string(change->what));
    json_object_set_new(account, "why", json_string(change->why));
    json_object_set_new(account, "actor", json_string(change->actor));
    json_object_set_new(account, "held_by", held ? json_integer((json_int_t)held) : json_null());
    char *text = json_dumps(account, JSON_COMPACT);
    json_decref(account);
    if (!text || aw_journal_begin(desk->journal, NULL) ||
        aw_journal_put(desk->journal, id, seat->name, desk->now_us, &none, text, "{}", NULL, 0,
                       NULL) ||
        aw_journal_commit(desk->journal, NULL))
        desk->counts.failures++; /* an explanation is lost, the record is not */
    free(text);
}

/* Whether this wish under this freeze was written down; if not, it is from now on. */
static bool told_before(struct seat *seat, const char *resource, uint64_t freeze)
{
    for (uint32_t i = 0; i < TOLD_MAX; i++) {
        const bool same = strcmp(seat->told[i].resource, resource) == 0;
        if (same && seat->told[i].freeze == freeze)
            return true;
        if (same || !*seat->told[i].resource) {
            seat->told[i].freeze = freeze;
            snprintf(seat->told[i].resource, sizeof seat->told[i].resource, "%s", resource);
            return false;
        }
    }
    return false;
}

enum aw_err aw_service_desk_record(struct aw_service_desk *desk,
                                   const struct aw_service_change *change, uint64_t *ret_id,
                                   struct aw_diag *diag)
{
    uint64_t freeze = 0, id = 0;
    pthread_mutex_lock(&desk->lock);
    struct seat *seat = &desk->seat[change->service];
    enum aw_err err = AW_OK;
    const bool held = frozen(desk, change, &freeze);
    const bool told = held && told_before(seat, change->resource, freeze);
    desk->counts.frozen += held;
    if (!told)
        err = write_one(desk, "decision", entry_of(seat, change, held ? freeze : 0), &id, diag);
    if (!err && !told)
        keep(desk, change, id, held ? freeze : 0);
    if (!err && held)
        err = aw_fail(diag, AW_ERR_CONFLICT, "%s is frozen by order %llu", seat->name,
                      (unsigned long long)freeze);
    if (!err) {
        seat->changed_id = id;
        desk->counts.recorded++;
        *ret_id = id;
    }
    pthread_mutex_unlock(&desk->lock);
    return err;
}

void aw_service_desk_outcome(struct aw_service_desk *desk, uint32_t service, uint64_t of,
                             uint64_t order, enum aw_err err)
{
    pthread_mutex_lock(&desk->lock);
    json_t *entry = json_pack("{s:s, s:I, s:s}", "workload", desk->seat[service].name, "of",
                              (json_int_t)of, "result", err ? aw_err_name(err) : "done");
    if (entry && order) {
        json_object_set_new(entry, "order", json_integer((json_int_t)order));
        aw_standing_orders_done(&desk->book, order);
    }
    (void)!write_one(desk, "outcome", entry, NULL, NULL); /* a failure is counted */
    pthread_mutex_unlock(&desk->lock);
}

bool aw_service_desk_undo(struct aw_service_desk *desk, struct aw_service_undo *ret)
{
    pthread_mutex_lock(&desk->lock);
    const bool waits = desk->undo_count > 0;
    if (waits) {
        *ret = desk->undo[0];
        memmove(desk->undo, desk->undo + 1, --desk->undo_count * sizeof *desk->undo);
    }
    pthread_mutex_unlock(&desk->lock);
    return waits;
}

/* --- orders ----------------------------------------------------------------------------------- */

static enum aw_err find(const struct aw_service_desk *desk, const char *name, uint32_t *ret,
                        struct aw_diag *diag)
{
    for (uint32_t i = 0; i < desk->config.count; i++)
        if (strcmp(desk->seat[i].name, name) == 0 ||
            strcmp(strchr(desk->seat[i].name, '/') + 1, name) == 0) {
            *ret = i;
            return AW_OK;
        }
    return aw_fail(diag, AW_ERR_NOTFOUND, "no service is called %s", name);
}

enum aw_err aw_service_desk_find(struct aw_service_desk *desk, const char *name,
                                 uint32_t *ret_service, struct aw_diag *diag)
{
    return find(desk, name, ret_service, diag); /* names never change */
}

const char *aw_service_desk_name(const struct aw_service_desk *desk, uint32_t service)
{
    return desk->seat[service].name;
}

struct wanted {
    uint64_t id;
    json_t *members; /* NULL: not found, or no decision */
};

static enum aw_err wanted_take(void *ctx, const struct aw_audit_entry *entry)
{
    struct wanted *wanted = ctx;
    if (entry->intact && entry->seq == wanted->id && strcmp(entry->kind, "decision") == 0)
        wanted->members = members_of(entry);
    return AW_OK;
}

/* The latest change of a service, back to what it was. */
static enum aw_err undo_fill(struct aw_service_desk *desk, struct aw_order *order,
                             struct aw_service_undo *ret, struct aw_diag *diag)
{
    const unsigned long long id = order->decision;
    struct wanted wanted = {.id = order->decision};
    struct aw_audit_filter filter = AW_AUDIT_EVERY;
    filter.seq_first = filter.seq_last = order->decision;
    enum aw_err err =
        aw_audit_scan(NULL, desk->config.folder, &filter, wanted_take, &wanted, NULL, diag);
    const json_t *m = wanted.members;
    const char *resource = json_string_value(json_object_get(m, "resource"));
    const uint32_t seat = seat_of(desk, json_string_value(json_object_get(m, "workload")));
    if (!err && (!m || !resource || seat == UINT32_MAX))
        err = aw_fail(diag, AW_ERR_NOTFOUND, "the log has no decision %llu about a service", id);
    else if (!err && !json_is_true(json_object_get(m, "undoable")))
        err = aw_fail(diag, AW_ERR_CONFLICT, "decision %llu changed nothing that can go back", id);
    else if (!err && desk->seat[seat].changed_id != order->decision)
        err = aw_fail(diag, AW_ERR_CONFLICT,
                      "%s has been changed again since decision %llu, last by decision %llu; undo "
                      "that one",
                      desk->seat[seat].name, id, (unsigned long long)desk->seat[seat].changed_id);
    else if (!err && desk->undo_count == AW_SERVICE_DESK_UNDOS)
        err = aw_fail(diag, AW_ERR_LIMIT, "%u undos wait already", desk->undo_count);
    if (!err) {
        *ret = (struct aw_service_undo){.decision = order->decision, .service = seat};
        snprintf(ret->resource, sizeof ret->resource, "%s", resource);
        ret->to = json_number_value(json_object_get(json_object_get(m, "from"), resource));
        ret->from = json_number_value(json_object_get(json_object_get(m, "to"), resource));
        snprintf(order->name, sizeof order->name, "%s", desk->seat[seat].name);
        order->scope = AW_SCOPE_WORKLOAD;
        order->freeze_until_us = desk->now_us + (int64_t)(1e6 * AW_DESK_UNDO_FREEZE_S);
        order->until_us = desk->now_us + (int64_t)(1e6 * AW_DESK_PIN_S);
    }
    json_decref(wanted.members);
    return err;
}

/* A freeze must stand that this order would lift; by its number its name follows. */
static enum aw_err lift_fill(const struct aw_service_desk *desk, struct aw_order *order,
                             struct aw_diag *diag)
{
    for (uint32_t i = 0; i < desk->book.freeze_count; i++) {
        const struct aw_standing *one = &desk->book.freeze[i];
        if (order->decision
                ? one->id != order->decision
                : one->order.scope != order->scope || strcmp(one->order.name, order->name) != 0)
            continue;
        order->scope = one->order.scope;
        memcpy(order->name, one->order.name, sizeof order->name);
        return AW_OK;
    }
    return aw_fail(diag, AW_ERR_NOTFOUND, "no such freeze stands; see 'aware get --orders'");
}

static enum aw_err take(struct aw_service_desk *desk, struct aw_order *order, uint64_t *ret_id,
                        struct aw_diag *diag)
{
    struct aw_service_undo undo = {0};
    uint32_t service = 0;
    uint64_t id = 0;
    enum aw_err err = AW_OK;
    if (order->kind != AW_ORDER_FREEZE && order->kind != AW_ORDER_UNFREEZE &&
        order->kind != AW_ORDER_UNDO)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "services of a graph can be frozen, and changes of them undone; %s is for "
                       "workloads",
                       aw_order_name(order->kind));
    if (order->kind == AW_ORDER_UNDO) {
        err = undo_fill(desk, order, &undo, diag);
    } else if (order->scope == AW_SCOPE_WORKLOAD && *order->name) {
        if (!(err = find(desk, order->name, &service, diag)))
            snprintf(order->name, sizeof order->name, "%s", desk->seat[service].name);
    }
    err = err || order->kind != AW_ORDER_UNFREEZE ? err : lift_fill(desk, order, diag);
    err = err ? err : aw_order_check(order, diag);
    if (!err && order->kind == AW_ORDER_FREEZE &&
        desk->book.freeze_count == AW_STANDING_ORDERS_FREEZES_MAX)
        err = aw_fail(diag, AW_ERR_LIMIT, "%u freezes stand already", desk->book.freeze_count);
    err = err ? err : write_one(desk, "order", aw_order_to_json(order), &id, diag);
    err = err ? err : aw_standing_orders_apply(&desk->book, id, desk->now_us, order, diag);
    if (err)
        return err;
    if (order->kind == AW_ORDER_UNDO) {
        undo.order = id;
        desk->undo[desk->undo_count++] = undo;
    }
    desk->counts.orders++;
    *ret_id = id;
    return AW_OK;
}

enum aw_err aw_service_desk_order(struct aw_service_desk *desk, const struct aw_order *order,
                                  uint64_t *ret_id, struct aw_diag *diag)
{
    struct aw_order own = *order;
    pthread_mutex_lock(&desk->lock);
    const enum aw_err err = take(desk, &own, ret_id, diag);
    pthread_mutex_unlock(&desk->lock);
    return err;
}

/* --- looking ---------------------------------------------------------------------------------- */

void aw_service_desk_tell(struct aw_service_desk *desk, json_t *status, json_t *rows)
{
    pthread_mutex_lock(&desk->lock);
    json_decref(desk->status);
    json_decref(desk->rows);
    desk->status = status;
    desk->rows = rows;
    pthread_mutex_unlock(&desk->lock);
}

static json_t *time_json(int64_t us)
{
    char text[AW_AUDIT_AT_LEN + 1];
    return aw_audit_format_at(us, text) ? json_string(text) : json_null();
}

static json_t *freezes_json(const struct aw_service_desk *desk)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < desk->book.freeze_count; i++) {
        const struct aw_standing *one = &desk->book.freeze[i];
        const struct aw_order *order = &one->order;
        const bool undo = order->kind == AW_ORDER_UNDO;
        const int64_t until = undo ? order->freeze_until_us : order->until_us;
        json_array_append_new(
            list, json_pack("{s:I, s:o, s:s, s:s, s:s, s:b, s:o, s:o, s:s, s:s}", "id",
                            (json_int_t)one->id, "at", time_json(one->at_us), "kind",
                            aw_order_name(order->kind), "scope", aw_order_scope_names[order->scope],
                            "name", order->name, "down_only", order->down_only, "until",
                            time_json(until), "left_s",
                            until == AW_FOR_EVER ? json_null()
                                                 : json_real(1e-6 * (double)(until - desk->now_us)),
                            "reason", order->reason, "by", order->by));
    }
    return json_pack("{s:o, s:o, s:[]}", "now", time_json(desk->now_us), "freezes", list, "pins");
}

json_t *aw_service_desk_views(struct aw_service_desk *desk)
{
    pthread_mutex_lock(&desk->lock);
    json_t *status = desk->status ? json_deep_copy(desk->status) : json_object();
    json_t *rows = desk->rows ? json_deep_copy(desk->rows) : json_array();
    json_object_set_new(status, "now", time_json(desk->now_us));
    json_t *views = json_pack(
        "{s:o, s:o, s:{s:o, s:I, s:n, s:o}, s:o, s:{s:o, s:[]}}", "saved",
        time_json(aw_clock_now_us(NULL)), "status", status, "workloads", "now",
        time_json(desk->now_us), "total", (json_int_t)desk->config.count, "next", "workloads", rows,
        "freezes", freezes_json(desk), "proposals", "now", time_json(desk->now_us), "proposals");
    pthread_mutex_unlock(&desk->lock);
    return views;
}

enum aw_err aw_service_desk_explain(struct aw_service_desk *desk, uint32_t service,
                                    uint64_t decision, json_t **ret, struct aw_diag *diag)
{
    struct aw_journal_entry entry = {0};
    pthread_mutex_lock(&desk->lock);
    const char *name = desk->seat[service].name;
    enum aw_err err = decision ? aw_journal_get(desk->journal, decision, &entry, diag)
                               : aw_journal_latest(desk->journal, name, INT64_MAX, &entry, diag);
    if (!err && strcmp(entry.workload, name) != 0)
        err = aw_fail(diag, AW_ERR_NOTFOUND, "decision %llu is about %s, not about %s",
                      (unsigned long long)decision, entry.workload, name);
    if (!err) {
        json_t *account = json_loads(entry.account, 0, NULL);
        const json_t *sentence = json_object_get(account, "sentence");
        *ret = json_pack("{s:s, s:I, s:o, s:f, s:s, s:o, s:n, s:s}", "workload", name, "decision",
                         (json_int_t)entry.id, "at", time_json(entry.at_us), "age_s",
                         1e-6 * (double)(desk->now_us - entry.at_us), "sentence",
                         sentence ? json_string_value(sentence) : "", "account", account, "detail",
                         "detail_error", "decisions of a graph are not taken again");
        err = *ret ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
    } else if (err == AW_ERR_NOTFOUND && !decision) {
        err = aw_fail(diag, err, "nothing has been changed of %s, so there is nothing to explain",
                      name);
    }
    aw_journal_entry_deinit(&entry);
    pthread_mutex_unlock(&desk->lock);
    return err;
}
