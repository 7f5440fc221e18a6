/* recommender_object.c - objects as they come, change and go: read, taken over, let go. */
#include "controller/recommender_internal.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- places by key ---------------------------------------------------------------------------- */

static struct aw__object *object_find(const struct aw_recommender *r, const char *key,
                                      uint64_t hash)
{
    const struct aw__place *place = aw_hash_table_find(&r->places, hash);
    while (place && strcmp(r->object[place->object]->key, key) != 0)
        place = aw_hash_table_next(&r->places, place);
    return place ? r->object[place->object] : NULL;
}

static void place_add(struct aw_recommender *r, uint64_t hash, uint32_t object)
{
    struct aw__place *place = aw_hash_table_add(&r->places, hash);
    AW_ASSERT(place); /* there is room for objects_max */
    place->object = object;
}

/* After objects went, or the table was used for something else. */
static void places_make(struct aw_recommender *r)
{
    aw_hash_table_clear(&r->places);
    for (uint32_t i = 0; i < r->used; i++)
        if (r->object[i])
            place_add(r, r->object[i]->hash, i);
}

static struct aw__object *object_add(struct aw_recommender *r, const char *key, uint64_t hash)
{
    const size_t len = strlen(key) + 1;
    uint32_t place = 0;
    while (place < r->used && r->object[place])
        place++;
    struct aw__object *object =
        place < r->config.objects_max ? aw_alloc_new(r->alloc, sizeof *object + len, 1) : NULL;
    if (!object) {
        r->overflow++;
        return NULL;
    }
    *object = (struct aw__object){.hash = hash,
                                  .slot = AW__NOBODY,
                                  .wrote_us = AW_NEVER,
                                  .limited_us = AW_NEVER,
                                  .fresh = true};
    memcpy(object->key, key, len);
    place_add(r, hash, place);
    r->object[place] = object;
    r->used += place == r->used;
    r->live++;
    return object;
}

void aw__object_changed(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                        const struct aw_kube_item *after)
{
    struct aw_recommender *r = ctx;
    const char *key = after ? after->key : before->key;
    const uint64_t hash = aw_hash_text(AW_HASH_BEGIN, key);
    struct aw__object *object = object_find(r, key, hash);
    if (change == AW_KUBE_RESYNC)
        return;
    if (!after) { /* it vanished */
        if (object)
            object->gone = true;
        return;
    }
    if (!object && !(object = object_add(r, key, hash)))
        return;
    const struct aw__cluster_view_object *record = after->data;
    object->reborn = object->reborn || (*object->uid && strcmp(object->uid, after->uid) != 0);
    object->gone = false;
    object->dirty = object->dirty || object->reborn || !*object->uid ||
                    record->generation != object->generation;
    snprintf(object->uid, sizeof object->uid, "%s", after->uid);
    object->created_us = record->created_us;
}

/* --- let go ----------------------------------------------------------------------------------- */

static void lock(struct aw_recommender *r)
{
    if (r->config.desk)
        aw_desk_lock(r->config.desk);
}

static void unlock(struct aw_recommender *r)
{
    if (r->config.desk)
        aw_desk_unlock(r->config.desk);
}

static void slot_leave(struct aw_recommender *r, struct aw__object *object)
{
    if (object->slot == AW__NOBODY)
        return;
    lock(r);
    const enum aw_err err = aw_loop_remove(r->loop, object->slot);
    AW_ASSERT(!err);
    unlock(r);
    aw_kubecluster_loose(r->cluster, object->slot);
    r->slot[object->slot] = AW__NOBODY;
    object->slot = AW__NOBODY;
}

static void object_forget(struct aw_recommender *r, struct aw__object *object)
{
    slot_leave(r, object);
    aw__cluster_view_target_deinit(&object->target);
    aw_alloc_free(r->alloc, object->config);
    object->config = NULL;
    object->valid = false;
}

static void object_free(struct aw_recommender *r, uint32_t place)
{
    object_forget(r, r->object[place]);
    aw_alloc_free(r->alloc, r->object[place]->written);
    aw_alloc_free(r->alloc, r->object[place]);
    r->object[place] = NULL;
    r->target[place] = NULL;
    r->live--;
}

void aw__objects_free(struct aw_recommender *r)
{
    for (uint32_t i = 0; i < r->used; i++)
        if (r->object[i]) {
            r->object[i]->slot = AW__NOBODY; /* the loop goes as a whole */
            object_free(r, i);
        }
}

/* --- read ------------------------------------------------------------------------------------- */

/* The first thing that is wrong, as a sentence. */
static void finding_take(void *ctx, const struct aw_profile_finding *finding)
{
    struct aw__object *object = ctx;
    if (!finding->err || *object->why)
        return;
    struct aw_text text;
    aw_text_init(&text, object->why, sizeof object->why);
    if (finding->diag.key[0])
        aw_text_add(&text, "%s: ", finding->diag.key);
    aw_text_add(&text, "%s", finding->diag.text);
}

static void why_set(struct aw__object *object, const char *word, const char *text)
{
    struct aw_text to;
    aw_text_init(&to, object->why_word, sizeof object->why_word);
    aw_text_add(&to, "%s", word);
    aw_text_init(&to, object->why, sizeof object->why);
    aw_text_add(&to, "%s", text);
}

/* The object as a file of `aware run` would have it: what else the API keeps in one is not ours. */
static char *object_text(const struct aw__object *object,
                         const struct aw__cluster_view_object *record)
{
    char *text = NULL;
    const char *slash = strchr(object->key, '/');
    json_t *spec = json_loads(aw_kube_span_text(record, record->spec), 0, NULL);
    json_t *root =
        slash ? json_pack("{s:s,s:s,s:{s:s%,s:s},s:O?}", "apiVersion", AW_PROFILE_API_VERSION,
                          "kind", aw_mpa_kind.kind, "metadata", "namespace", object->key,
                          (size_t)(slash - object->key), "name", slash + 1, "spec", spec)
              : NULL;
    if (root)
        text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    json_decref(spec);
    return text;
}

static enum aw_err profile_read(struct aw_recommender *r, struct aw__object *object,
                                const struct aw__cluster_view_object *record,
                                struct aw_profile *ret)
{
    struct aw_profile_report report = {.take = finding_take, .ctx = object};
    struct aw_profile_set set;
    struct aw_tree tree = {0};
    struct aw_diag diag = {0};
    char *text = object_text(object, record);
    aw_profile_set_init(&set, r->alloc);
    enum aw_err err = text ? aw_json_parse(&tree, NULL, text, strlen(text), r->alloc, &diag)
                           : aw_fail(&diag, AW_ERR_NOMEM, "no memory for the object");
    err = err ? err : aw_profile_set_add(&set, &tree, &report, NULL, &diag);
    err = err ? err : aw_profile_set_check(&set, &report, &diag);
    if (!err && set.profile_count != 1)
        err = aw_fail(&diag, AW_ERR_CONFIG, "not a " AW_PROFILE_API_VERSION " autoscaler");
    err =
        err ? err
            : aw_profile_actuated(&set.profiles[0], AW_PLAN_COMMON, "a Kubernetes cluster", &diag);
    if (!err)
        *ret = set.profiles[0];
    if (err && !*object->why)
        why_set(object, "Invalid", diag.text);
    aw_profile_set_deinit(&set);
    aw_tree_deinit(&tree);
    free(text);
    return err;
}

static void model_take(struct aw_recommender *r, const struct aw_profile *profile,
                       struct aw_pilot_config *config)
{
    struct aw_diag why = {0};
    if (!aw_pilot_wants_model(config) || !r->config.shelf)
        return;
    if (!aw_pilot_model_take(config, r->config.shelf, profile->model, &why))
        return;
    aw_log_info(r->config.log, "a model cannot be used: the workload learns from nothing",
                AW_LOG_STR("workload", config->name), AW_LOG_STR("why", why.text));
}

/* Whether it is about somebody else now. */
static bool target_moved(const struct aw__object *object, const struct aw_profile *profile)
{
    return strcmp(object->api_version, profile->target_api_version) != 0 ||
           strcmp(object->kind, profile->target_kind) != 0 ||
           strcmp(object->target_name, profile->target_name);
}

static void target_take(struct aw_recommender *r, struct aw__object *object,
                        const struct aw_profile *profile)
{
    slot_leave(r, object);
    aw__cluster_view_target_deinit(&object->target);
    memcpy(object->ns, profile->namespace, sizeof object->ns);
    memcpy(object->name, profile->name, sizeof object->name);
    memcpy(object->api_version, profile->target_api_version, sizeof object->api_version);
    memcpy(object->kind, profile->target_kind, sizeof object->kind);
    memcpy(object->target_name, profile->target_name, sizeof object->target_name);
    object->target = (struct aw__cluster_view_target){.ns = object->ns,
                                                      .api_version = object->api_version,
                                                      .kind = object->kind,
                                                      .name = object->target_name};
}

/* What was written before this process began, or while another one led. */
static void status_take(struct aw_recommender *r, struct aw__object *object,
                        const struct aw__cluster_view_object *record)
{
    aw_mpa_status_unpack(aw_kube_span_text(record, record->status), record->status.count, &r->was);
    object->fresh = false;
    aw__object_keep(r, object, &r->was);
}

void aw__object_status(const struct aw__object *object, struct aw_mpa_status *ret)
{
    aw_mpa_status_unpack(object->written, object->written_bytes, ret);
}

void aw__object_keep(struct aw_recommender *r, struct aw__object *object,
                     const struct aw_mpa_status *status)
{
    const size_t bytes = aw_mpa_status_pack(status, NULL, 0);
    void *packed = aw_alloc_new(r->alloc, bytes, 1);
    aw_alloc_free(r->alloc, object->written);
    object->written = packed;
    object->written_bytes = packed ? aw_mpa_status_pack(status, packed, bytes) : 0;
    object->fresh = object->fresh || !packed;
}

/* Settings that cannot be taken leave those before in force; observedGeneration stays with them,
 * and whoever acts on the status sees by it that it is not about these. */
static void object_read(struct aw_recommender *r, struct aw__object *object,
                        const struct aw__cluster_view_object *record)
{
    struct aw_profile *profile = aw_alloc_new(r->alloc, 1, sizeof *profile);
    struct aw_pilot_config *config = aw_alloc_new(r->alloc, 1, sizeof *config);
    object->dirty = false;
    object->generation = record->generation;
    object->why[0] = object->why_word[0] = '\0';
    if (!profile || !config) {
        why_set(object, "NoMemory", "there is no memory for it");
        object->dirty = true; /* perhaps later */
        goto out;
    }
    if (profile_read(r, object, record, profile)) {
        if (!*object->why_word)
            snprintf(object->why_word, sizeof object->why_word, "Invalid");
        goto out;
    }
    if (*profile->recommender && strcmp(profile->recommender, "aware") != 0) {
        why_set(object, "OtherRecommender", "it names another recommender, and is left to that");
        goto out;
    }
    aw_pilot_config_of(config, profile, false);
    model_take(r, profile, config);
    config->step_s = r->config.step_s; /* one clock for all of them */
    config->in_place = r->config.server.pod_resize;
    config->node.cpu_millicores = r->node.cpu_millicores;
    config->node.memory_bytes = r->node.memory_bytes;
    if (!object->valid || target_moved(object, profile))
        target_take(r, object, profile);
    object->mode = config->guard.mode;
    object->place = (struct aw_kubecluster_place){
        .cpu_millicores = profile->pilot.bounds.cpu_millicores_max,
        .memory_bytes = profile->pilot.bounds.memory_bytes_max,
        .new_pods_only = profile->update_mode == AW_UPDATE_INITIAL,
    };
    snprintf(object->place.container, sizeof object->place.container, "%s", profile->container);
    aw_alloc_free(r->alloc, object->config);
    object->config = config;
    config = NULL;
    object->valid = true;
out:
    aw_alloc_free(r->alloc, config);
    aw_alloc_free(r->alloc, profile);
}

void aw__objects_read(struct aw_recommender *r)
{
    bool went = false;
    r->counts.invalid = 0;
    for (uint32_t i = 0; i < r->used; i++) {
        struct aw__object *object = r->object[i];
        if (!object)
            continue;
        const struct aw_kube_item *item =
            object->gone ? NULL : aw__cluster_view_object_find(r->scene, object->key);
        if (!item) {
            object_free(r, i);
            went = true;
            continue;
        }
        const struct aw__cluster_view_object *record = item->data;
        if (object->reborn) {
            object_forget(r, object);
            object->reborn = false;
            object->fresh = true;
        }
        if (object->fresh)
            status_take(r, object, record);
        if (object->dirty)
            object_read(r, object, record);
        r->target[i] = object->valid ? &object->target : NULL;
        r->counts.invalid += *object->why_word != '\0';
    }
    if (went)
        places_make(r);
    r->counts.objects = r->live;
}

void aw__objects_renew(struct aw_recommender *r)
{
    for (uint32_t i = 0; i < r->used; i++)
        if (r->object[i])
            r->object[i]->dirty = true;
}

void aw__objects_reread(struct aw_recommender *r)
{
    for (uint32_t i = 0; i < r->used; i++) {
        const struct aw_kube_item *item =
            r->object[i] ? aw__cluster_view_object_find(r->scene, r->object[i]->key) : NULL;
        if (item)
            status_take(r, r->object[i], item->data);
    }
}

/* --- taken over ------------------------------------------------------------------------------- */

/* Of two objects about one target the older one has it; of the same age, the first by name. */
static bool before(const struct aw__object *a, const struct aw__object *b)
{
    if (a->created_us != b->created_us)
        return a->created_us < b->created_us;
    return strcmp(a->key, b->key) < 0;
}

static bool same_target(const struct aw__object *a, const struct aw__object *b)
{
    return !strcmp(a->ns, b->ns) && !strcmp(a->target_name, b->target_name) &&
           !strcmp(a->kind, b->kind) && !strcmp(a->api_version, b->api_version);
}

static uint64_t target_hash(const struct aw__object *object)
{
    return aw_hash_text(AW_HASH_BEGIN, object->ns) ^
           aw_hash_text(AW_HASH_BEGIN, object->target_name) * 31 ^
           aw_hash_text(AW_HASH_BEGIN, object->kind) * 131;
}

/* Whoever came second has no pilot, and says so. The table is one over targets meanwhile, and put
 * right again at the end. */
static void rivals_find(struct aw_recommender *r)
{
    aw_hash_table_clear(&r->places);
    for (uint32_t i = 0; i < r->used; i++) {
        struct aw__object *object = r->object[i];
        if (!object || !object->valid)
            continue;
        const uint64_t hash = target_hash(object);
        struct aw__place *at = aw_hash_table_find(&r->places, hash);
        while (at && !same_target(r->object[at->object], object))
            at = aw_hash_table_next(&r->places, at);
        struct aw__object *rival = at ? r->object[at->object] : NULL;
        const bool first = !rival || before(object, rival);
        struct aw__object *loser = !rival ? NULL : first ? rival : object;
        struct aw__object *winner = first ? object : rival;
        if (!rival)
            place_add(r, hash, i);
        else if (first)
            at->object = i;
        if (loser) {
            char text[AW_MPA_MESSAGE_MAX];
            loser->dirty = loser->dirty || loser->slot != AW__NOBODY; /* to be read again */
            slot_leave(r, loser);
            snprintf(text, sizeof text, "%.128s has the same target, and is older", winner->key);
            why_set(loser, "TargetTaken", text);
        }
        if (!strcmp(winner->why_word, "TargetTaken") && first && !loser)
            why_set(winner, "", "");
    }
    places_make(r);
}

/* How the workload stands; what lies outside its bounds begins at their edge. */
static void task_of(const struct aw_pilot_config *config, const struct aw_sample *sample,
                    struct aw_fallback_task *ret)
{
    struct aw_plan plan = aw_plan_of(sample->wanted);
    aw_bounds_clip(&config->bounds, &plan);
    *ret = (struct aw_fallback_task){.bounds = config->bounds,
                                     .slo_latency_us = config->slo.latency_us_p99};
    memcpy(ret->amount, plan.amount, sizeof ret->amount);
}

/* What was recommended before a restart and is still to be done. */
static void remind(struct aw_recommender *r, const struct aw__object *object)
{
    const struct aw_mpa_recommendation *rec = &r->was.recommendation;
    aw__object_status(object, &r->was);
    if (!rec->given || object->mode == AW_GUARD_OFF)
        return;
    const struct aw_plan plan = {.set = AW_PLAN_COMMON,
                                 .replicas = rec->replicas,
                                 .cpu_millicores = rec->cpu_millicores,
                                 .memory_bytes = rec->memory_bytes};
    aw_kubecluster_remind(r->cluster, object->slot, &plan, rec->at_us);
}

static enum aw_err pilot_add(struct aw_recommender *r, struct aw__object *object,
                             const struct aw_fallback_task *task, struct aw_diag *diag)
{
    uint32_t slot = AW__NOBODY;
    enum aw_err err = aw_loop_add(r->loop, object->config, task, &slot, diag);
    if (err)
        return err;
    if ((err = aw__memory_give(r, slot, diag))) {
        const enum aw_err removed = aw_loop_remove(r->loop, slot);
        AW_ASSERT(!removed);
        return err;
    }
    /* the workload has lived on: what it was before we looked is not ours to change */
    aw_pilot_resume(aw_loop_pilot(r->loop, slot), NULL);
    err = r->config.desk ? aw_desk_follow(r->config.desk, slot, task, diag) : AW_OK;
    if (err) {
        const enum aw_err removed = aw_loop_remove(r->loop, slot);
        AW_ASSERT(!removed);
        return err;
    }
    object->slot = slot;
    return AW_OK;
}

/* The slot that the loop will give is not known before it does, and the backend wants to know the
 * workload before it is looked at: a spare slot at the end is for looking. */
static enum aw_err look_once(struct aw_recommender *r, uint32_t place, struct aw_sample *ret)
{
    const struct aw_cluster cluster = aw_kubecluster_cluster(r->cluster);
    const uint32_t spare = r->config.objects_max;
    r->slot[spare] = place;
    aw_kubecluster_bind(r->cluster, spare, &r->object[place]->place);
    const enum aw_err err = cluster.ops->observe(cluster.self, spare, AW__DEADLINE_US, ret);
    aw_kubecluster_loose(r->cluster, spare);
    r->slot[spare] = AW__NOBODY;
    return err;
}

static void object_begin(struct aw_recommender *r, uint32_t place)
{
    struct aw__object *object = r->object[place];
    struct aw_sample sample;
    struct aw_fallback_task task;
    struct aw_diag diag = {0};
    if (look_once(r, place, &sample))
        return; /* nothing to decide on yet; its status says why */
    task_of(object->config, &sample, &task);
    lock(r);
    const enum aw_err err = pilot_add(r, object, &task, &diag);
    unlock(r);
    if (err) {
        why_set(object, err == AW_ERR_CONFIG ? "Invalid" : "NoRoom", diag.text);
        return;
    }
    r->slot[object->slot] = place;
    aw_kubecluster_bind(r->cluster, object->slot, &object->place);
    remind(r, object);
    aw_alloc_free(r->alloc, object->config);
    object->config = NULL;
}

static void object_update(struct aw_recommender *r, struct aw__object *object)
{
    struct aw_diag diag = {0};
    lock(r);
    const enum aw_err err = aw_loop_update(r->loop, object->slot, object->config, &diag);
    unlock(r);
    if (err)
        why_set(object, "Invalid", diag.text);
    else
        aw_kubecluster_bind(r->cluster, object->slot, &object->place);
    aw_alloc_free(r->alloc, object->config);
    object->config = NULL;
}

void aw__objects_take(struct aw_recommender *r)
{
    rivals_find(r);
    r->counts.active = 0;
    for (uint32_t i = 0; i < r->used; i++) {
        struct aw__object *object = r->object[i];
        if (!object || !object->valid)
            continue;
        const bool taken = !strcmp(object->why_word, "TargetTaken");
        if (object->config && object->slot != AW__NOBODY)
            object_update(r, object);
        else if (object->config && !taken && object->target.found == AW__CLUSTER_VIEW_FOUND)
            object_begin(r, i);
        r->counts.active += object->slot != AW__NOBODY;
    }
}
