/* api_read.c - the present: status, health, lists, descriptions. */
#include "web/api_internal.h"

#include "base/alloc.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t aw__api_now_us(const struct aw_api *api)
{
    const int64_t tick = aw_desk_now_us(api->config.desk);
    return api->config.virtual_time ? tick : aw_clock_now_us(api->config.clock);
}

/* What tick told, at one moment. */
struct told {
    struct aw_loop_counts counts;
    double tick_age_s; /* NAN: none yet */
    bool stopping, standby, stuck;
    char store_trouble[AW_DIAG_TEXT_MAX];
};

static void told_read(struct aw_api *api, struct told *ret)
{
    const int64_t now = aw_clock_monotonic_us(api->config.clock);
    pthread_mutex_lock(&api->lock);
    const int64_t since = api->tick_mono_us == AW_NEVER ? api->started_mono_us : api->tick_mono_us;
    *ret = (struct told){
        .counts = api->counts,
        .tick_age_s = api->tick_mono_us == AW_NEVER ? NAN : 1e-6 * (double)(now - since),
        .stopping = api->stopping,
        .standby = api->standby,
        .stuck = !api->standby && api->config.stuck_s > 0 &&
                 1e-6 * (double)(now - since) > api->config.stuck_s,
    };
    memcpy(ret->store_trouble, api->store_trouble, sizeof ret->store_trouble);
    pthread_mutex_unlock(&api->lock);
}

/* --- health ----------------------------------------------------------------------------------- */

static json_t *ok_json(void)
{
    return json_pack("{s:b}", "ok", 1);
}

static enum aw_err no_memory(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}

enum aw_err aw__api_get_health(struct aw__api_call *call, struct aw_diag *diag)
{
    struct told told;
    told_read(call->api, &told);
    if (told.stuck)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "the loop has not ticked for more than %.0f s",
                       call->api->config.stuck_s);
    call->body = ok_json();
    return call->body ? AW_OK : no_memory(diag);
}

enum aw_err aw__api_get_ready(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct aw_diag why = {0};
    struct told told;
    told_read(call->api, &told);
    if (told.stopping)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "the daemon is stopping");
    if (isnan(told.tick_age_s) && !told.standby)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no tick has been finished yet");
    aw_desk_lock(desk);
    const enum aw_err err = aw_desk_health(desk, &why);
    aw_desk_unlock(desk);
    if (err)
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       "nothing can be written down, so nothing changes but growth on a missed "
                       "SLO: %s",
                       why.text);
    return aw__api_get_health(call, diag);
}

static void add_health(json_t *list, const char *name, bool fine, const char *message, bool *all,
                       bool *ok)
{
    json_t *one = json_object();
    aw__json_set(one, "name", json_string(name), ok);
    aw__json_set(one, "ok", json_boolean(fine), ok);
    aw__json_set(one, "message", json_string(message), ok);
    if (json_array_append_new(list, one))
        *ok = false;
    *all &= fine;
}

/* --- status ----------------------------------------------------------------------------------- */

struct summary {
    uint32_t total, stage[AW_STAGE_COUNT], frozen, proposals, missing, held;
    double cost, fallback_cost; /* NAN until something is known */
};

static double plus(double sum, double value)
{
    return isnan(sum) ? value : sum + value;
}

static void summary_read(const struct aw_api *api, int64_t now_us, struct summary *ret)
{
    const struct aw_desk *desk = api->config.desk;
    *ret = (struct summary){.cost = NAN, .fallback_cost = NAN};
    for (uint32_t i = 0; i < aw_desk_count(desk); i++) {
        struct aw_desk_view view;
        struct aw_orders orders;
        struct aw_plan present, other;
        if (!aw_desk_has(desk, i))
            continue;
        aw_desk_peek(desk, i, &view);
        aw__api_orders(api, view.name, now_us, &orders);
        ret->total++;
        ret->stage[aw_pilot_stage(view.pilot)]++;
        ret->frozen += orders.freeze != AW_GUARD_FREEZE_NONE;
        ret->proposals += view.proposal.id && view.proposal.expires_us > now_us;
        if (!aw__api_decided(&view))
            continue;
        const struct aw_decision *d = view.decision;
        ret->missing += d->score.violated;
        ret->held += d->verdict != AW_WATCHDOG_PASS;
        aw__api_present(&view, &present);
        other = aw_plan_over(&d->by_fallback, &present);
        ret->cost = plus(ret->cost, aw_prices_per_hour(&view.config->prices, &present));
        ret->fallback_cost =
            plus(ret->fallback_cost, aw_prices_per_hour(&view.config->prices, &other));
    }
}

static json_t *summary_json(const struct summary *summary)
{
    bool ok = true;
    json_t *object = json_object();
    aw__json_set(object, "total", json_integer(summary->total), &ok);
    for (uint32_t s = 0; s < AW_STAGE_COUNT; s++)
        aw__json_set(object, aw_stage_name(s), json_integer(summary->stage[s]), &ok);
    aw__json_set(object, "frozen", json_integer(summary->frozen), &ok);
    aw__json_set(object, "proposals", json_integer(summary->proposals), &ok);
    aw__json_set(object, "missing_slo", json_integer(summary->missing), &ok);
    aw__json_set(object, "held_by_watchdog", json_integer(summary->held), &ok);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

/* What keeps more than one workload from acting, in words. */
static json_t *holds_json(const struct aw_api *api, enum aw_err ailing,
                          const struct aw_diag *ailment, const struct told *told, int64_t now_us)
{
    const struct aw_standing_orders *book = aw_desk_book(api->config.desk);
    json_t *holds = json_array();
    bool ok = holds != NULL;
    char text[AW_DIAG_TEXT_MAX + AW_ORDER_REASON_MAX + AW_STORE_NAME_MAX];
    if (ailing) {
        snprintf(text, sizeof text,
                 AW_DESK_HELD ": the audit log cannot be written: %s; %" PRIu64
                              " changes wait to be entered",
                 ailment->text, aw_desk_counts(api->config.desk)->late_waiting);
        ok &= !json_array_append_new(holds, json_string(text));
    }
    if (*told->store_trouble) {
        snprintf(text, sizeof text, AW_DESK_HELD ": steps cannot be kept: %s", told->store_trouble);
        ok &= !json_array_append_new(holds, json_string(text));
    }
    for (uint32_t i = 0; i < book->freeze_count; i++) {
        const struct aw_order *order = &book->freeze[i].order;
        if (order->scope == AW_SCOPE_WORKLOAD || order->until_us <= now_us)
            continue;
        snprintf(text, sizeof text, "frozen by order %llu (%s%s%s%s): %s",
                 (unsigned long long)book->freeze[i].id, aw_order_scope_names[order->scope],
                 *order->name ? " " : "", order->name, order->down_only ? ", scale-down only" : "",
                 order->reason);
        ok &= !json_array_append_new(holds, json_string(text));
    }
    if (ok)
        return holds;
    json_decref(holds);
    return NULL;
}

static json_t *counts_json(const struct aw_loop_counts *loop, const struct aw_desk_counts *desk)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"ticks", loop->ticks},
        {"decisions", loop->decisions},
        {"plans_applied", loop->plans_applied},
        {"observe_failures", loop->observe_failures},
        {"apply_failures", loop->apply_failures},
        {"store_failures", loop->store_failures},
        {"record_failures", loop->record_failures},
        {"learn_rounds", loop->learn_rounds},
        {"learn_failures", loop->learn_failures},
        {"audit_entries", desk->entries},
        {"orders", desk->orders},
        {"held_ticks", desk->held},
        {"late", desk->late},
        {"late_waiting", desk->late_waiting},
        {"late_lost", desk->late_lost},
        {"journal_failures", desk->journal_failures},
        {"outcomes_lost", desk->outcomes_lost},
    };
    bool ok = true;
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        aw__json_set(object, counts[i].name, json_integer((json_int_t)counts[i].value), &ok);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

/* json_string refuses what is not UTF-8, and a path may be anything. */
static json_t *text_or_null(const char *text)
{
    json_t *value = json_string(text);
    return value ? value : json_null();
}

static void set_process(json_t *status, const struct aw_api *api, const struct told *told, bool *ok)
{
    const struct aw_api_config *config = &api->config;
    const int64_t mono = aw_clock_monotonic_us(config->clock);
    aw__json_set(status, "version", json_string(config->version), ok);
    aw__json_set(status, "api", json_integer(AW_API_VERSION), ok);
    aw__json_set(status, "pid", json_integer(getpid()), ok);
    aw__json_set(status, "started", aw__json_time(api->started_us), ok);
    aw__json_set(status, "uptime_s", aw__json_num(1e-6 * (double)(mono - api->started_mono_us)),
                 ok);
    aw__json_set(status, "cluster", json_string(config->cluster), ok);
    aw__json_set(status, "virtual_time", json_boolean(config->virtual_time), ok);
    aw__json_set(status, "speed", aw__json_num(config->speed), ok);
    aw__json_set(status, "wall", aw__json_time(aw_clock_now_us(config->clock)), ok);
    aw__json_set(status, "tick_age_s", aw__json_num(told->tick_age_s), ok);
    aw__json_set(status, "step_s", aw__json_num(config->step_s), ok);
    aw__json_set(status, "state", text_or_null(config->state), ok);
    aw__json_set(status, "stopping", json_boolean(told->stopping), ok);
}

static void set_health(json_t *status, struct aw_api *api, const struct told *told,
                       enum aw_err ailing, const struct aw_diag *ailment, bool *ok)
{
    struct aw_desk *desk = api->config.desk;
    const uint64_t lost = aw_desk_counts(desk)->journal_failures;
    json_t *health = json_array();
    bool all = true;
    char text[AW_DIAG_TEXT_MAX];
    add_health(health, "audit", !ailing, ailing ? ailment->text : "entries are written", &all, ok);
    if (!aw_desk_journal(desk))
        snprintf(text, sizeof text, "there is no journal: the last decision alone is explained");
    else if (lost)
        snprintf(text, sizeof text, "%llu explanations could not be kept",
                 (unsigned long long)lost);
    else
        snprintf(text, sizeof text, "explanations are kept");
    add_health(health, "journal", true, text, &all, ok);
    if (isnan(told->tick_age_s))
        snprintf(text, sizeof text, "no tick has been finished yet");
    else
        snprintf(text, sizeof text, "last tick %.1f s ago", told->tick_age_s);
    add_health(health, "loop", !told->stuck, text, &all, ok);
    add_health(health, "store", !*told->store_trouble,
               *told->store_trouble ? told->store_trouble : "steps are kept", &all, ok);
    aw__json_set(status, "ok", json_boolean(all), ok);
    aw__json_set(status, "health", health, ok);
}

static json_t *status_json(struct aw_api *api)
{
    struct aw_desk *desk = api->config.desk;
    struct aw_diag ailment = {0};
    struct summary summary;
    struct told told;
    bool ok = true;
    json_t *status = json_object();
    told_read(api, &told);
    set_process(status, api, &told, &ok);
    aw_desk_lock(desk);
    const int64_t now = aw__api_now_us(api);
    const enum aw_err ailing = aw_desk_health(desk, &ailment);
    summary_read(api, now, &summary);
    aw__json_set(status, "now", aw__json_time(now), &ok);
    aw__json_set(status, "workloads", summary_json(&summary), &ok);
    aw__json_set(status, "cost_per_hour", aw__json_num(summary.cost), &ok);
    aw__json_set(status, "fallback_cost_per_hour", aw__json_num(summary.fallback_cost), &ok);
    struct aw_recent_beside beside;
    aw_recent_lock(&api->watch);
    uint64_t back;
    aw_recent_beside(&api->watch, &beside);
    const double changes = aw_recent_changes(&api->watch, NULL, &back);
    aw_recent_unlock(&api->watch);
    aw__json_set(status, "replica_changes_per_day", aw__json_num(changes), &ok);
    aw__json_set(status, "replicas_removed_within_5m", json_integer((json_int_t)back), &ok);
    aw__json_set(status, "saved",
                 aw__json_num(aw_recent_saved(&beside, summary.cost, summary.fallback_cost)), &ok);
    set_health(status, api, &told, ailing, &ailment, &ok);
    aw__json_set(status, "holds", holds_json(api, ailing, &ailment, &told, now), &ok);
    aw__json_set(status, "counts", counts_json(&told.counts, aw_desk_counts(desk)), &ok);
    aw_desk_unlock(desk);
    json_t *audit = json_object();
    aw__json_set(audit, "folder", text_or_null(api->config.audit), &ok);
    aw__json_set(status, "audit", audit, &ok);
    if (ok)
        return status;
    json_decref(status);
    return NULL;
}

enum aw_err aw__api_get_status(struct aw__api_call *call, struct aw_diag *diag)
{
    call->body = status_json(call->api);
    return call->body ? AW_OK : no_memory(diag);
}

/* --- lists ------------------------------------------------------------------------------------ */

enum sort { SORT_NAME, SORT_COST, SORT_SLO, SORT_STAGE, SORT_CHANGED, SORT_COUNT };
static const char *const sort_names[] = {"name", "cost", "slo", "stage", "changed"};

/* One workload of a list, with what it is sorted by. */
struct item {
    uint32_t index;
    double key; /* larger comes first; of equal ones the name decides */
    const char *name;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    const struct item *first = a, *second = b;
    return first->key > second->key ? -1 : first->key < second->key ? 1 : by_name(a, b);
}

static double key_of(const struct aw_desk_view *view, enum sort sort)
{
    const struct aw_decision *d = view->decision;
    const double target = view->config->slo.latency_us_p99;
    struct aw_plan present;
    double key = -1;
    aw__api_present(view, &present);
    if (sort == SORT_COST)
        key = aw_prices_per_hour(&view->config->prices, &present);
    else if (sort == SORT_SLO && aw__api_decided(view) && target > 0)
        key = d->score.violated && !isfinite(d->score.latency_us_slo)
                  ? HUGE_VAL
                  : d->score.latency_us_slo / target;
    else if (sort == SORT_STAGE)
        key = (double)aw_pilot_stage(view->pilot);
    else if (sort == SORT_CHANGED)
        key = (double)view->changed_id;
    return isnan(key) ? -1 : key;
}

static bool in_namespace(const char *name, const char *namespace)
{
    const size_t len = strlen(namespace);
    return strncmp(name, namespace, len) == 0 && name[len] == '/';
}

struct filter {
    const char *namespace, *after; /* NULL: any */
    uint32_t stage;                /* AW_STAGE_COUNT: any */
    enum sort sort;
};

/* Those that fit, in order. NULL: no memory. The caller frees it. */
static struct item *items_of(const struct aw_api *api, const struct filter *filter,
                             uint32_t *ret_count)
{
    const struct aw_desk *desk = api->config.desk;
    const uint32_t slots = aw_desk_count(desk);
    struct item *items = aw_alloc_new(NULL, slots, sizeof *items);
    uint32_t count = 0;
    for (uint32_t i = 0; items && i < slots; i++) {
        struct aw_desk_view view;
        if (!aw_desk_has(desk, i))
            continue;
        aw_desk_peek(desk, i, &view);
        if ((filter->namespace && !in_namespace(view.name, filter->namespace)) ||
            (filter->stage < AW_STAGE_COUNT && aw_pilot_stage(view.pilot) != filter->stage))
            continue;
        items[count++] =
            (struct item){.index = i, .key = key_of(&view, filter->sort), .name = view.name};
    }
    if (count)
        qsort(items, count, sizeof *items, filter->sort == SORT_NAME ? by_name : by_key);
    *ret_count = count;
    return items;
}

/* Items [first, first + limit) as the answer of a list. NULL: no memory. */
static json_t *page_json(struct aw_api *api, const struct item *items, uint32_t count,
                         uint32_t first, uint32_t limit, int64_t now_us)
{
    bool ok = true;
    json_t *page = json_object(), *rows = json_array();
    uint32_t i = first;
    for (; i < count && i - first < limit; i++) {
        struct aw_desk_view view;
        aw_desk_peek(api->config.desk, items[i].index, &view);
        if (json_array_append_new(rows, aw__api_row(api, &view, now_us)))
            ok = false;
    }
    aw__json_set(page, "now", aw__json_time(now_us), &ok);
    aw__json_set(page, "total", json_integer(count), &ok);
    aw__json_set(page, "next",
                 i < count && i > first ? json_string(items[i - 1].name) : json_null(), &ok);
    aw__json_set(page, "workloads", rows, &ok);
    if (ok)
        return page;
    json_decref(page);
    return NULL;
}

/* All workloads, in the order of names. */
static json_t *rows_json(struct aw_api *api, int64_t now_us)
{
    const struct filter all = {.stage = AW_STAGE_COUNT};
    uint32_t count = 0;
    struct item *items = items_of(api, &all, &count);
    json_t *page = items ? page_json(api, items, count, 0, UINT32_MAX, now_us) : NULL;
    aw_alloc_free(NULL, items);
    return page;
}

static enum aw_err filter_read(const struct aw__api_call *call, struct filter *ret,
                               struct aw_diag *diag)
{
    const char *stage = aw__api_param(call, "stage"), *sort = aw__api_param(call, "sort");
    *ret = (struct filter){.namespace = aw__api_param(call, "namespace"),
                           .after = aw__api_param(call, "after"),
                           .stage = AW_STAGE_COUNT};
    if (stage) {
        for (ret->stage = 0; ret->stage < AW_STAGE_COUNT; ret->stage++)
            if (strcmp(stage, aw_stage_name(ret->stage)) == 0)
                break;
        if (ret->stage == AW_STAGE_COUNT)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "stage",
                              "expected initialized, offline, online or serving");
    }
    uint32_t which = 0;
    for (; sort && which < SORT_COUNT && strcmp(sort, sort_names[which]) != 0; which++)
        ;
    if (which == SORT_COUNT)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "sort",
                          "expected name, cost, slo, stage or changed");
    ret->sort = (enum sort)which;
    if (ret->after && ret->sort != SORT_NAME)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "after",
                          "goes with sort=name alone: other orders change from page to page");
    return AW_OK;
}

enum aw_err aw__api_get_workloads(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct filter filter;
    uint32_t limit, count = 0, first = 0;
    enum aw_err err = filter_read(call, &filter, diag);
    err = err ? err : aw__api_limit(call, AW_API_PAGE, AW_API_PAGE_MAX, &limit, diag);
    if (err)
        return err;
    aw_desk_lock(desk);
    struct item *items = items_of(call->api, &filter, &count);
    while (items && filter.after && first < count && strcmp(items[first].name, filter.after) <= 0)
        first++;
    if (items)
        call->body = page_json(call->api, items, count, first, limit, aw__api_now_us(call->api));
    aw_desk_unlock(desk);
    aw_alloc_free(NULL, items);
    return call->body ? AW_OK : no_memory(diag);
}

/* --- one -------------------------------------------------------------------------------------- */

enum aw_err aw__api_find(const struct aw__api_call *call, struct aw_desk_view *ret_view,
                         struct aw_diag *diag)
{
    const bool whole = call->part_count >= 3 && strcmp(call->part[1], "-") != 0;
    char name[AW_STORE_NAME_MAX];
    const char *last = call->part[call->part_count >= 3 ? 2 : 1];
    uint32_t index;
    const int len =
        snprintf(name, sizeof name, "%s%s%s", whole ? call->part[1] : "", whole ? "/" : "", last);
    if (len < 0 || (size_t)len >= sizeof name)
        return aw_fail(diag, AW_ERR_NOTFOUND, "no workload has a name of so many bytes");
    const enum aw_err err = aw_desk_find(call->api->config.desk, name, &index, diag);
    if (!err)
        aw_desk_peek(call->api->config.desk, index, ret_view);
    return err;
}

enum aw_err aw__api_get_workload(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct aw_desk_view view;
    char name[AW_STORE_NAME_MAX] = "", *recent = NULL;
    size_t recent_len = 0;
    bool ok = true;
    aw_desk_lock(desk);
    enum aw_err err = aw__api_find(call, &view, diag);
    if (!err) {
        const int64_t now = aw__api_now_us(call->api);
        snprintf(name, sizeof name, "%s", view.name);
        call->body = aw__api_row(call->api, &view, now);
        ok = call->body && aw__api_describe(call->api, &view, now, call->body);
    }
    aw_desk_unlock(desk);
    if (err || !ok)
        return err ? err : no_memory(diag);

    struct aw__api_entries ask = {
        .workload = name, .since_us = INT64_MIN, .before = UINT64_MAX, .limit = AW_API_RECENT};
    FILE *out = open_memstream(&recent, &recent_len);
    err = out ? aw__api_entries(call->api, &ask, out, diag) : no_memory(diag);
    if (out && fclose(out) && !err)
        err = no_memory(diag);
    if (!err) {
        json_t *entries = json_loadb(recent, recent_len, 0, NULL);
        aw__json_set(call->body, "recent", entries ? entries : json_array(), &ok);
        err = ok ? AW_OK : no_memory(diag);
    }
    free(recent);
    return err;
}

/* --- for a stopped daemon ----------------------------------------------------------------------
 */

enum aw_err aw_api_views(struct aw_api *api, char **ret_text, size_t *ret_len)
{
    bool ok = true;
    pthread_rwlock_rdlock(&api->gate);
    struct aw_desk *desk = api->config.desk;
    if (!desk) {
        pthread_rwlock_unlock(&api->gate);
        return AW_ERR_UNAVAILABLE;
    }
    json_t *views = json_object();
    aw__json_set(views, "saved", aw__json_time(aw_clock_now_us(api->config.clock)), &ok);
    aw__json_set(views, "status", status_json(api), &ok);
    aw_desk_lock(desk);
    const int64_t now = aw__api_now_us(api);
    aw__json_set(views, "workloads", rows_json(api, now), &ok);
    aw__json_set(views, "freezes", aw__api_freezes(api, now), &ok);
    aw__json_set(views, "proposals", aw__api_proposals(api, NULL, now), &ok);
    aw__json_set(views, "capacity", aw__api_capacity(api), &ok);
    aw_desk_unlock(desk);
    pthread_rwlock_unlock(&api->gate);
    char *text = NULL;
    size_t len = 0;
    FILE *out = ok ? open_memstream(&text, &len) : NULL;
    enum aw_err err = out ? aw_json_write(views, out, 0) : AW_ERR_NOMEM;
    if (out && fclose(out))
        err = AW_ERR_NOMEM;
    json_decref(views);
    if (err) {
        free(text);
        return AW_ERR_NOMEM;
    }
    *ret_text = text;
    *ret_len = len;
    return AW_OK;
}
