/* api_policy.c - policies of a workload: looked at, taken out, and handed in. */
#include "web/api_internal.h"

#include "base/text.h"
#include "desk/policy_view.h"

#include <stdlib.h>
#include <string.h>

static enum aw_err no_memory(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}

/* What is known of a workload's policies. */
struct known {
    json_t *account; /* of its last decision */
    struct aw_policy_texts texts;
    struct aw_diag why; /* there are no texts; "": there are */
    uint64_t waits, tried;
    json_t *result; /* what became of `tried`; NULL: nothing was */
};

static void known_deinit(struct known *known)
{
    json_decref(known->account);
    json_decref(known->result);
    aw_policy_texts_deinit(&known->texts);
    *known = (struct known){0};
}

/* The present under the desk's lock, the texts from the journal, where nobody is kept waiting.
 * On failure too `ret` is to be deinited. */
static enum aw_err known_of(struct aw__api_call *call, struct known *ret, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct aw_journal_entry entry = {0};
    struct aw_desk_view view;
    *ret = (struct known){0};
    aw_desk_lock(desk);
    enum aw_err err = aw__api_find(call, &view, diag);
    if (!err && !aw__api_decided(&view))
        err = aw_fail(diag, AW_ERR_NODATA, "nothing has been decided for %s yet", view.name);
    if (!err) {
        struct aw_journal *journal = aw_desk_journal(desk);
        ret->account = aw_explanation_json(view.config, view.decision);
        ret->waits = view.policy_waits;
        ret->tried = view.policy_tried;
        if (view.policy_tried)
            ret->result = json_pack(
                "{s:o, s:s, s:s?}", "id", aw__json_id(view.policy_tried), "result",
                view.policy_err ? aw_err_name(view.policy_err) : "done", "why", view.policy_why);
        if (journal)
            (void)!aw_journal_latest(journal, view.name, INT64_MAX, &entry, &ret->why);
        else
            aw_fail(&ret->why, AW_ERR_NODATA, "this daemon keeps no journal");
    }
    aw_desk_unlock(desk);
    if (!err && (!ret->account || (ret->tried && !ret->result)))
        err = no_memory(diag);
    if (!err && entry.id)
        (void)!aw_policy_texts_read(&entry, &ret->texts, &ret->why);
    aw_journal_entry_deinit(&entry);
    return err;
}

enum aw_err aw__api_get_policy(struct aw__api_call *call, struct aw_diag *diag)
{
    struct known known;
    bool ok = true;
    enum aw_err err = known_of(call, &known, diag);
    if (!err) {
        const char *why = known.why.text;
        call->body = aw_policy_view(known.account, &known.texts);
        ok = call->body != NULL;
        aw__json_set(call->body, "waits", aw__json_id(known.waits), &ok);
        aw__json_set(call->body, "order", known.result ? json_incref(known.result) : json_null(),
                     &ok);
        aw__json_set(call->body, "texts_error",
                     *why && !known.texts.in_force ? json_string(why) : json_null(), &ok);
    }
    known_deinit(&known);
    return err ? err : ok ? AW_OK : no_memory(diag);
}

enum aw_err aw__api_get_policy_file(struct aw__api_call *call, struct aw_diag *diag)
{
    const char *which = aw__api_param(call, "which"), *text = NULL;
    struct known known;
    if (which && strcmp(which, "good") != 0 && strcmp(which, "trial") != 0)
        return aw_fail_at(
            diag, AW_ERR_RANGE, NULL, 0, 0, "which", "expected good or trial, found %s",
            aw_text_quote(which, strlen(which), (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX));
    enum aw_err err = known_of(call, &known, diag);
    if (!err && *known.why.text && !known.texts.in_force)
        err = aw_fail(diag, AW_ERR_NODATA, "%s", known.why.text);
    if (!err)
        err = aw_policy_pick(known.account, &known.texts, which && !strcmp(which, "trial"), &text,
                             diag);
    if (!err && (fputs(text, call->out) < 0 || fputc('\n', call->out) < 0))
        err = no_memory(diag);
    known_deinit(&known);
    return err;
}

enum aw_err aw__api_post_policy(struct aw__api_call *call, struct aw_diag *diag)
{
    const struct aw_api_request *request = call->request;
    const char *reason = aw__api_param(call, "reason");
    struct aw_api *api = call->api;
    struct aw_desk *desk = api->config.desk;
    struct aw_order order = {.kind = AW_ORDER_PROPOSE,
                             .scope = AW_SCOPE_WORKLOAD,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_NEVER};
    struct aw_desk_view view;
    uint64_t id = 0;
    enum aw_err err = aw__api_may_order(call, diag);
    if (err)
        return err;
    if (reason && strlen(reason) >= sizeof order.reason)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "reason",
                          "expected at most %zu bytes, found %zu", sizeof order.reason - 1,
                          strlen(reason));
    snprintf(order.reason, sizeof order.reason, "%s", reason ? reason : "");
    snprintf(order.by, sizeof order.by, "%s", request->by);
    aw_desk_lock(desk);
    err = aw__api_find(call, &view, diag);
    if (!err)
        snprintf(order.name, sizeof order.name, "%s", view.name);
    call->now_us = aw__api_now_us(api);
    aw_desk_unlock(desk);
    if (!err)
        err = aw_desk_propose(desk, &order, request->body ? request->body : "", request->body_len,
                              call->now_us, &id, diag);
    if (err)
        return err;
    aw_desk_lock(desk);
    call->body = aw__api_taken(api, id, &order, call->now_us);
    aw_desk_unlock(desk);
    call->status = 201;
    return call->body ? AW_OK : no_memory(diag);
}
