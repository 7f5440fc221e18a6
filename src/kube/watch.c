/* watch.c - see watch.h. */
#include "kube/watch.h"

#include <stdio.h>
#include <string.h>

#include "kube/client_internal.h"

struct aw_kube_watch {
    struct aw_kube *kube;
    struct aw__kube_transfer transfer;
    bool failed; /* said something that is not a watch */
};

static enum aw_err add_query(struct aw_text *text, const struct aw_kube_query *query,
                             struct aw_diag *diag)
{
    const struct aw_kube_ref ref = {.kind = query->kind, .ns = query->ns};
    enum aw_err err = aw_kube_path(text, &ref, diag);
    aw_kube_path_query(text, "labelSelector", query->labels);
    aw_kube_path_query(text, "fieldSelector", query->fields);
    return err;
}

enum aw_err aw_kube_list_page(struct aw_kube *kube, const struct aw_kube_query *query,
                              const char *token, struct aw_kube_page *ret_page,
                              struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    char path[AW_KUBE_PATH_MAX], limit[16];
    struct aw_text text;
    json_t *body = NULL;
    if (ret_status)
        *ret_status = (struct aw_kube_status){0};
    aw_text_init(&text, path, sizeof path);
    enum aw_err err = add_query(&text, query, diag);
    snprintf(limit, sizeof limit, "%u", query->limit ? query->limit : AW_KUBE_PAGE_ITEMS);
    aw_kube_path_query(&text, "limit", limit);
    aw_kube_path_query(&text, "continue", token);
    if (!err && text.cut)
        err = aw_fail(diag, AW_ERR_LIMIT, "the query of a list is too long");
    if (err)
        return err;
    struct aw_kube_slices slices;
    const struct aw_kube_request request = {.path = path,
                                            .timeout_us = AW_KUBE_LIST_TIMEOUT_US,
                                            .split = "items",
                                            .slices = &slices,
                                            .once = true};
    err = aw_kube_send(kube, &request, &body, ret_status, diag);
    if (err)
        return err;
    const json_t *items = json_object_get(body, "items");
    const struct aw_kube_page page = {
        .body = body,
        .items = slices,
        .resource_version = aw_kube_text_at(body, "metadata.resourceVersion"),
        .next = aw_kube_text_at(body, "metadata.continue"),
    };
    /* an empty list of a Go server may be null */
    if ((!json_is_array(items) && !json_is_null(items)) ||
        strlen(page.resource_version) >= AW_KUBE_VERSION_MAX) {
        json_decref(body);
        return aw_fail(diag, AW_ERR_FORMAT, "expected a list of %s, found something else",
                       query->kind->plural);
    }
    *ret_page = page;
    return AW_OK;
}

void aw_kube_page_deinit(struct aw_kube_page *page)
{
    json_decref(page->body);
    *page = (struct aw_kube_page){0};
}

static enum aw_err visit_page(struct aw_kube_page *page, const struct aw_kube_visitor *visitor,
                              struct aw_diag *diag)
{
    json_t *object = NULL;
    enum aw_err err = AW_OK;
    while (!err && !(err = aw_kube_slices_next(&page->items, &object, diag)) && object) {
        err = visitor->object(visitor->ctx, object);
        json_decref(object);
    }
    return err;
}

enum aw_err aw_kube_list(struct aw_kube *kube, const struct aw_kube_query *query,
                         const struct aw_kube_visitor *visitor, struct aw_diag *diag)
{
    struct aw_kube_page page = {0}, next;
    struct aw_kube_status status;
    uint32_t restarts = 0;
    enum aw_err err = AW_OK;
    visitor->begin(visitor->ctx);
    for (;;) {
        err = aw_kube_list_page(kube, query, page.next, &next, &status, diag);
        aw_kube_page_deinit(&page);
        if (err && aw_kube_status_is_gone(&status) && restarts++ < AW_KUBE_LIST_RESTARTS_MAX) {
            visitor->begin(visitor->ctx);
            continue;
        }
        if (err)
            break;
        page = next;
        err = visit_page(&page, visitor, diag);
        if (err || !page.next[0])
            break;
    }
    aw_kube_page_deinit(&page);
    return err;
}

enum aw_err aw_kube_watch_decode(const char *line, size_t len,
                                 struct aw_kube_watch_event *ret_event, struct aw_diag *diag)
{
    static const char *const types[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", NULL};
    struct aw_kube_watch_event event = {.resource_version = ""};
    json_t *json = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const char *type = aw_kube_text_at(json, "type");
    json_t *object = json_object_get(json, "object");
    enum aw_err err = AW_OK;
    uint32_t i = 0;
    while (types[i] && strcmp(types[i], type) != 0)
        i++;
    if (!types[i] || !json_is_object(object)) {
        err = aw_fail(diag, AW_ERR_FORMAT, "expected an event of a watch, found something else");
        goto out;
    }
    event.type = (enum aw_kube_event_type)i;
    if (event.type == AW_KUBE_ERROR)
        aw_kube_status_read_json(&event.status, 0, object);
    else
        event.resource_version = aw_kube_text_at(object, "metadata.resourceVersion");
    if (event.type != AW_KUBE_ERROR &&
        (!event.resource_version[0] || strlen(event.resource_version) >= AW_KUBE_VERSION_MAX)) {
        err = aw_fail(diag, AW_ERR_FORMAT, "expected an object with a resourceVersion");
        goto out;
    }
    event.object = json_incref(object);
    *ret_event = event;
out:
    json_decref(json);
    return err;
}

enum aw_err aw_kube_watch_open(struct aw_kube_watch **ret_watch, struct aw_kube *kube,
                               const struct aw_kube_query *query, const char *resource_version,
                               struct aw_diag *diag)
{
    char path[AW_KUBE_PATH_MAX], seconds[16];
    const uint32_t lasts_s =
        AW_KUBE_WATCH_MIN_S +
        aw_rng_below(&kube->rng, AW_KUBE_WATCH_MAX_S - AW_KUBE_WATCH_MIN_S + 1);
    struct aw_text text;
    if (kube->watch_count == AW__KUBE_WATCHES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %u watches", AW__KUBE_WATCHES_MAX);
    aw_text_init(&text, path, sizeof path);
    enum aw_err err = add_query(&text, query, diag);
    snprintf(seconds, sizeof seconds, "%u", lasts_s);
    aw_kube_path_query(&text, "watch", "true");
    aw_kube_path_query(&text, "allowWatchBookmarks", "true");
    aw_kube_path_query(&text, "resourceVersion", resource_version);
    aw_kube_path_query(&text, "timeoutSeconds", seconds);
    if (!err && text.cut)
        err = aw_fail(diag, AW_ERR_LIMIT, "the query of a watch is too long");
    const int64_t now_us = aw_clock_monotonic_us(kube->options.clock);
    err = err ? err : aw__kube_take_turn(kube, now_us + kube->options.timeout_us, false, diag);
    err = err ? err : aw_kube_credential_refresh(&kube->credential, diag);
    if (err)
        return err;
    struct aw_kube_watch *watch = aw_alloc_new(kube->alloc, 1, sizeof *watch);
    if (!watch)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a watch");
    watch->kube = kube;
    const struct aw__kube_call call = {.method = "GET",
                                       .path = path,
                                       .timeout_us =
                                           (int64_t)lasts_s * 1000000 + AW_KUBE_WATCH_GRACE_US};
    err = aw__kube_transfer_init(&watch->transfer, &kube->transport, AW_KUBE_LINE_MAX, true);
    if (err)
        aw_fail(diag, err, "no memory for a watch");
    err = err ? err : aw__kube_transfer_start(&watch->transfer, &call, &kube->credential, diag);
    if (err) {
        aw__kube_transfer_deinit(&watch->transfer);
        aw_alloc_free(kube->alloc, watch);
        return err;
    }
    kube->counts.requests++;
    kube->watches[kube->watch_count++] = &watch->transfer;
    aw__kube_transport_perform(&kube->transport);
    *ret_watch = watch;
    return AW_OK;
}

void aw_kube_watch_close(struct aw_kube_watch *watch)
{
    if (!watch)
        return;
    struct aw_kube *kube = watch->kube;
    for (uint32_t i = 0; i < kube->watch_count; i++)
        if (kube->watches[i] == &watch->transfer)
            kube->watches[i--] = kube->watches[--kube->watch_count];
    aw__kube_transfer_deinit(&watch->transfer);
    aw_alloc_free(kube->alloc, watch);
}

/* The server refused to begin: its Status is the whole body. */
static enum aw_kube_watch_state refused(struct aw_kube_watch *watch,
                                        struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    struct aw_kube *kube = watch->kube;
    const struct aw__kube_transfer *transfer = &watch->transfer;
    aw_kube_status_read(ret_status, transfer->status, transfer->buf + transfer->first,
                        transfer->len - transfer->first, transfer->retry_after);
    kube->counts.refused += ret_status->code == 429;
    kube->counts.server_errors += ret_status->code >= 500;
    if (ret_status->code == 401)
        (void)aw_kube_credential_expire(&kube->credential);
    aw_fail(diag, aw_kube_status_err(ret_status), "a watch was refused: %d %s%s%s",
            ret_status->code, aw_kube_reason_name(ret_status->reason),
            ret_status->message[0] ? ": " : "", ret_status->message);
    return AW_KUBE_WATCH_FAILED;
}

enum aw_kube_watch_state aw_kube_watch_next(struct aw_kube_watch *watch,
                                            struct aw_kube_watch_event *ret_event,
                                            struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    struct aw__kube_transfer *transfer = &watch->transfer;
    const char *line;
    size_t len;
    *ret_status = (struct aw_kube_status){0};
    if (transfer->status != 0 && transfer->status != 200) {
        if (transfer->done)
            return refused(watch, ret_status, diag);
        transfer->scanned = transfer->len; /* a Status that is on its way */
        return AW_KUBE_WATCH_IDLE;
    }
    while (aw__kube_transfer_line(transfer, &line, &len)) {
        if (len == 0 || (len == 1 && line[0] == '\r'))
            continue;
        if (aw_kube_watch_decode(line, len, ret_event, diag) == AW_OK)
            return AW_KUBE_WATCH_EVENT;
        watch->kube->counts.unanswered++;
        watch->failed = true;
        return AW_KUBE_WATCH_FAILED;
    }
    if (watch->failed)
        return AW_KUBE_WATCH_FAILED;
    if (!transfer->done)
        return AW_KUBE_WATCH_IDLE;
    if (aw__kube_transfer_result(transfer, "watch", diag) == AW_OK)
        return AW_KUBE_WATCH_ENDED;
    watch->kube->counts.unanswered++;
    return AW_KUBE_WATCH_FAILED;
}
