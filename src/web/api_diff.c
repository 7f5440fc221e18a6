/* api_diff.c - what a file of autoscalers would change: settings, and the last decision. */
#include "web/api_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/yaml.h"
#include "profile/profile.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8u /* of settings within settings */

static enum aw_err no_memory(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Of all that is wrong the first is told, with its place. */
static void take_first(void *ctx, const struct aw_profile_finding *finding)
{
    struct aw_diag *first = ctx;
    if (finding->err && !first->text[0])
        *first = finding->diag;
}

static enum aw_err set_read(const struct aw_api_request *request, struct aw_profile_set *set,
                            struct aw_diag *diag)
{
    const char *body = request->body ? request->body : "";
    const bool json =
        request->content_type && strncmp(request->content_type, "application/json", 16) == 0;
    struct aw_diag first = {0};
    struct aw_profile_report report = {.take = take_first, .ctx = &first};
    struct aw_tree tree = {0};
    enum aw_err err = json ? aw_json_parse(&tree, "body", body, request->body_len, NULL, diag)
                           : aw_yaml_parse(&tree, "body", body, request->body_len, NULL, diag);
    if (err)
        return err;
    err = aw_profile_set_add(set, &tree, &report, NULL, diag);
    err = err ? err : aw_profile_set_check(set, &report, diag);
    if (err && first.text[0])
        *diag = first;
    if (!err && set->profile_count == 0)
        err = aw_fail(diag, AW_ERR_CONFIG, "expected at least one MultidimPodAutoscaler");
    aw_tree_deinit(&tree);
    return err;
}

/* --- settings --------------------------------------------------------------------------------- */

static void settings_differ(const json_t *before, json_t *after, const char *path, uint32_t depth,
                            json_t *list, bool *ok)
{
    const char *key;
    json_t *value;
    if (json_is_object(before) && json_is_object(after) && depth < DEPTH_MAX) {
        json_object_foreach(after, key, value)
        {
            char inner[AW_DIAG_KEY_MAX];
            snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", key);
            settings_differ(json_object_get(before, key), value, inner, depth + 1, list, ok);
        }
        return;
    }
    if (json_equal(before, after))
        return;
    json_t *one = json_object();
    aw__json_set(one, "key", json_string(path), ok);
    aw__json_set(one, "from", before ? json_deep_copy(before) : json_null(), ok);
    aw__json_set(one, "to", json_deep_copy(after), ok);
    if (json_array_append_new(list, one))
        *ok = false;
}

/* The same task on both sides: how a workload began is not a setting. */
static json_t *settings_of(const struct aw_pilot_config *config)
{
    const struct aw_fallback_task task = {.bounds = config->bounds};
    char *text = aw_explanation_config_text(config, &task);
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    json_object_del(object, "task");
    free(text);
    return object;
}

/* --- the last decision, with other settings ----------------------------------------------------
 */

static json_t *recommended(const char *account)
{
    json_t *object = json_loads(account, 0, NULL);
    json_t *plan = json_incref(json_object_get(json_object_get(object, "guard"), "recommended"));
    json_decref(object);
    return plan;
}

/* Both outputs are owned by the caller; NULL: not known. Returns what is to be said of it. */
static const char *decide_again(struct aw_api *api, const char *workload,
                                const struct aw_pilot_config *config, json_t **ret_before,
                                json_t **ret_after)
{
    struct aw_desk *desk = api->config.desk;
    struct aw_journal_entry entry = {0};
    struct aw_pilot_config *was = aw_alloc_new(NULL, 1, sizeof *was);
    struct aw_fallback_task task;
    const char *said = "no decision with its moment was kept to try them on";
    char *text = NULL;
    aw_desk_lock(desk);
    struct aw_journal *journal = aw_desk_journal(desk);
    const bool kept =
        was && journal && !aw_journal_latest(journal, workload, INT64_MAX, &entry, NULL);
    aw_desk_unlock(desk);
    if (kept && entry.moment && !aw_explanation_config_read(entry.config, was, &task, NULL)) {
        task.bounds = config->bounds;
        const struct aw_explanation_snapshot moment = {.config = config,
                                                       .task = &task,
                                                       .bytes = entry.moment,
                                                       .size = entry.moment_bytes,
                                                       .orders = &entry.orders,
                                                       .at_us = entry.at_us};
        said = "they need another state: what they would decide is not known";
        if (!aw_explanation_replay(&moment, NULL, &text, NULL)) {
            *ret_before = recommended(entry.account);
            *ret_after = recommended(text);
            said = json_equal(*ret_before, *ret_after)
                       ? "the last recorded decision would have been the same"
                       : "the last recorded decision would have been another one";
        }
    }
    free(text);
    aw_alloc_free(NULL, was);
    aw_journal_entry_deinit(&entry);
    return said;
}

/* --- one workload ----------------------------------------------------------------------------- */

struct difference {
    json_t *added, *removed, *changed; /* arrays */
    uint32_t unchanged;
    bool ok;
};

static void changed_add(struct aw_api *api, const char *name, const struct aw_pilot_config *config,
                        const struct aw_plan *present, json_t *settings, struct difference *d)
{
    json_t *before = NULL, *after = NULL, *one = json_object(), *plan = json_object();
    const char *said = decide_again(api, name, config, &before, &after);
    aw__json_set(one, "name", json_string(name), &d->ok);
    aw__json_set(one, "settings", settings, &d->ok);
    aw__json_set(plan, "now", present->set ? aw__json_amounts(present) : json_null(), &d->ok);
    aw__json_set(plan, "recommended_before", before ? before : json_null(), &d->ok);
    aw__json_set(plan, "recommended_after", after ? after : json_null(), &d->ok);
    aw__json_set(one, "plan", plan, &d->ok);
    aw__json_set(one, "message", json_string(said), &d->ok);
    if (json_array_append_new(d->changed, one))
        d->ok = false;
}

/* What a profile says against what runs. `config` is scratch. */
static void profile_differ(struct aw_api *api, const struct aw_profile *profile,
                           struct aw_pilot_config *config, struct difference *d)
{
    struct aw_desk *desk = api->config.desk;
    struct aw_desk_view view;
    struct aw_plan present = {0};
    json_t *before = NULL;
    uint32_t index;
    aw_pilot_config_of(config, profile, api->config.virtual_time);
    aw_desk_lock(desk);
    const bool runs = !aw_desk_find(desk, config->name, &index, NULL);
    if (runs) {
        aw_desk_peek(desk, index, &view);
        before = settings_of(view.config);
        aw__api_present(&view, &present);
        /* what the cluster is like does not come from a profile */
        config->node = view.config->node;
        config->in_place = view.config->in_place;
    }
    aw_desk_unlock(desk);
    if (!runs) {
        if (json_array_append_new(d->added, json_string(config->name)))
            d->ok = false;
        return;
    }
    json_t *after = settings_of(config), *settings = json_array();
    if (!before || !after)
        d->ok = false;
    settings_differ(before, after, "", 0, settings, &d->ok);
    if (json_array_size(settings) > 0) {
        changed_add(api, config->name, config, &present, settings, d);
    } else {
        d->unchanged++;
        json_decref(settings);
    }
    json_decref(before);
    json_decref(after);
}

static void find_removed(const struct aw_api *api, const struct aw_profile_set *set,
                         struct difference *d)
{
    struct aw_desk *desk = api->config.desk;
    aw_desk_lock(desk);
    for (uint32_t i = 0; i < aw_desk_count(desk); i++) {
        struct aw_desk_view view;
        bool there = false;
        if (!aw_desk_has(desk, i))
            continue;
        aw_desk_peek(desk, i, &view);
        for (uint32_t k = 0; !there && k < set->profile_count; k++) {
            char key[AW_PROFILE_KEY_MAX];
            there = strcmp(aw_profile_key(&set->profiles[k], key, sizeof key), view.name) == 0;
        }
        if (!there && json_array_append_new(d->removed, json_string(view.name)))
            d->ok = false;
    }
    aw_desk_unlock(desk);
}

enum aw_err aw__api_post_diff(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_profile_set set;
    struct aw_pilot_config *config = NULL;
    struct difference d = {
        .added = json_array(), .removed = json_array(), .changed = json_array(), .ok = true};
    aw_profile_set_init(&set, NULL);
    enum aw_err err = set_read(call->request, &set, diag);
    if (!err && !(config = aw_alloc_new(NULL, 1, sizeof *config)))
        err = no_memory(diag);
    for (uint32_t i = 0; !err && i < set.profile_count; i++)
        profile_differ(call->api, &set.profiles[i], config, &d);
    if (!err)
        find_removed(call->api, &set, &d);
    const bool moved = json_array_size(d.added) > 0 || json_array_size(d.removed) > 0;
    const bool local = strcmp(call->api->config.cluster, "local") == 0;
    const bool any = moved || json_array_size(d.changed) > 0;
    call->body = json_object();
    aw__json_set(call->body, "added", d.added, &d.ok);
    aw__json_set(call->body, "removed", d.removed, &d.ok);
    aw__json_set(call->body, "changed", d.changed, &d.ok);
    aw__json_set(call->body, "unchanged", json_integer(d.unchanged), &d.ok);
    aw__json_set(call->body, "reload",
                 json_string(!any             ? "nothing would change"
                             : moved && local ? "real processes come and go with a restart: the "
                                                "other workloads keep what they have learned"
                                              : "SIGHUP takes these over; a workload whose SLO, "
                                                "budget, prices or step change is judged anew, and "
                                                "the others lose nothing"),
                 &d.ok);
    aw_alloc_free(NULL, config);
    aw_profile_set_deinit(&set);
    return err ? err : d.ok ? AW_OK : no_memory(diag);
}
