/* api_map.c - where workloads lie among each other: GET /v1/embeddings, and who one is most like.
 */
#include "web/api_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- what is said ------------------------------------------------------------------------------
 */

static json_t *near_json(const struct aw_workload_map_point *point)
{
    bool ok = true;
    json_t *list = json_array();
    for (uint32_t i = 0; ok && i < point->near_count; i++) {
        json_t *one = json_object();
        aw__json_set(one, "name", json_string(point->near[i].name), &ok);
        aw__json_set(one, "similarity", aw__json_num(point->near[i].similarity), &ok);
        aw__json_set(one, "known", json_boolean(point->near[i].known), &ok);
        ok = json_array_append_new(list, one) == 0 && ok;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *guess_json(const struct aw_workload_map_guess *guess)
{
    if (!isfinite(guess->value))
        return json_null();
    bool ok = true;
    json_t *object = json_object();
    aw__json_set(object, "value", aw__json_num(guess->value), &ok);
    aw__json_set(object, "deviation", aw__json_num(guess->deviation), &ok);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

/* What is the same on the map and in a description. */
static void set_place(json_t *object, const struct aw_workload_map_point *point, bool *ok)
{
    aw__json_set(object, "episodes", json_integer(point->episodes), ok);
    aw__json_set(object, "by_fallback", json_boolean(point->by_fallback), ok);
    aw__json_set(object, "nearest", near_json(point), ok);
    aw__json_set(object, "quantile", aw__json_num(point->quantile), ok);
    aw__json_set(object, "out_of_distribution", json_boolean(point->odd), ok);
    aw__json_set(object, "reward_drop", guess_json(&point->drop), ok);
    aw__json_set(object, "retraining_episodes", guess_json(&point->adapt), ok);
}

json_t *aw__api_alike(const struct aw_api *api, const char *workload)
{
    struct aw_workload_map_point point;
    if (!api->map || aw_workload_map_one(api->map, workload, &point))
        return json_null();
    bool ok = true;
    json_t *object = json_object();
    set_place(object, &point, &ok);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

/* --- the map ------------------------------------------------------------------------------------
 */

/* Stages by index of the workload, as of the last tick; AW_STAGE_COUNT: not seen yet. The order of
 * workloads is the desk's, which is the map's too. NULL: no memory. */
static uint8_t *stages_of(struct aw_recent *watch, const struct aw_workload_map_view *view)
{
    uint8_t *stage = malloc(view->count + 1u);
    if (!stage)
        return NULL;
    aw_recent_lock(watch);
    for (uint32_t i = 0; i < view->count; i++) {
        const struct aw_workload_map_point *point = &view->points[i];
        const struct aw_recent_one *one =
            point->index < watch->count ? &watch->one[point->index] : NULL;
        if (one && strcmp(one->name, point->name) != 0)
            one = aw_recent_find(watch, point->name); /* moved by a reload, until the next tick */
        const uint32_t points = one ? aw_recent_points(watch, one) : 0;
        stage[i] =
            points ? aw_recent_point(watch, one, points - 1)->stage : (uint8_t)AW_STAGE_COUNT;
    }
    aw_recent_unlock(watch);
    return stage;
}

static json_t *points_json(const struct aw_workload_map_view *view, const uint8_t *stage)
{
    bool ok = true;
    json_t *list = json_array();
    for (uint32_t i = 0; ok && i < view->count; i++) {
        const struct aw_workload_map_point *point = &view->points[i];
        const char *name = aw_stage_name(stage[i]);
        json_t *one = json_object();
        aw__json_set(one, "name", json_string(point->name), &ok);
        aw__json_set(one, "x", aw__json_num(point->x), &ok);
        aw__json_set(one, "y", aw__json_num(point->y), &ok);
        aw__json_set(one, "stage", name ? json_string(name) : json_null(), &ok);
        set_place(one, point, &ok);
        ok = json_array_append_new(list, one) == 0 && ok;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *known_json(const struct aw_workload_map_view *view)
{
    bool ok = true;
    json_t *list = json_array();
    for (uint32_t i = 0; ok && i < view->dot_count; i++) {
        json_t *one = json_object();
        aw__json_set(one, "name", json_string(view->dots[i].name), &ok);
        aw__json_set(one, "x", aw__json_num(view->dots[i].x), &ok);
        aw__json_set(one, "y", aw__json_num(view->dots[i].y), &ok);
        ok = json_array_append_new(list, one) == 0 && ok;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

/* Why there is nobody on the map, where that is so. */
static json_t *missing_json(const struct aw_workload_map_view *view)
{
    char text[AW_DIAG_TEXT_MAX + 64];
    if (view->count > 0)
        return json_null();
    if (*view->trouble)
        snprintf(text, sizeof text, "no workload could be read: %s", view->trouble);
    else if (view->waiting == 0)
        snprintf(text, sizeof text, "every workload goes without this model (learning.model)");
    else
        snprintf(text, sizeof text, "no workload has finished an episode yet");
    return json_string(text);
}

static json_t *map_json(const struct aw_api *api, const struct aw_workload_map_view *view,
                        const uint8_t *stage)
{
    bool ok = true;
    json_t *body = json_object(), *explained = json_array(), *model = json_object();
    for (uint32_t k = 0; k < 2; k++)
        ok = json_array_append_new(explained, aw__json_num(view->share[k])) == 0 && ok;
    aw__json_set(model, "name", json_string(api->map_model), &ok);
    aw__json_set(model, "checksum", aw__json_model(view->checksum), &ok);
    aw__json_set(model, "known", json_integer(view->known_count), &ok);
    aw__json_set(body, "dimensions", json_integer(view->dim), &ok);
    aw__json_set(body, "model", model, &ok);
    aw__json_set(body, "projection", json_string("principal components"), &ok);
    aw__json_set(body, "projection_of", json_string(view->of_known ? "known" : "workloads"), &ok);
    aw__json_set(body, "explained", explained, &ok);
    aw__json_set(body, "points", points_json(view, stage), &ok);
    aw__json_set(body, "known", known_json(view), &ok);
    aw__json_set(body, "waiting", json_integer(view->waiting), &ok);
    aw__json_set(body, "left_out", json_integer(view->left_out), &ok);
    aw__json_set(body, "missing", missing_json(view), &ok);
    if (ok)
        return body;
    json_decref(body);
    return NULL;
}

/* Everything is copied first, so that neither the loop nor whoever embeds waits for an answer of
 * ten thousand workloads to be written. */
enum aw_err aw__api_get_embeddings(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_api *api = call->api;
    struct aw_workload_map_view view = {0};
    if (!api->map) {
        call->body = json_pack("{s:i, s:n, s:n, s:n, s:[], s:[], s:[], s:i, s:i, s:s}",
                               "dimensions", 0, "model", "projection", "projection_of", "explained",
                               "points", "known", "waiting", 0, "left_out", 0, "missing",
                               *api->map_missing ? api->map_missing : "this daemon has no model");
        return call->body ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
    }
    uint8_t *stage = NULL;
    if (!aw_workload_map_view(api->map, NULL, &view) && (stage = stages_of(&api->watch, &view)))
        call->body = map_json(api, &view, stage);
    free(stage);
    aw_workload_map_view_deinit(&view, NULL);
    return call->body ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}
