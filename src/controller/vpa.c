/* vpa.c - rounds of the recommender of stock VerticalPodAutoscalers: look, measure, recommend,
 * write. */
#include "controller/vpa_internal.h"

#include "base/hash.h"
#include "kube/verbs.h"

#include <stdio.h>
#include <string.h>

#define ASK_TIMEOUT_US  5000000
#define REMEMBER_ROUNDS 10u /* for which objects may come and be given what was learned */
#define KIND_PATH       "/apis/autoscaling.k8s.io/v1"

enum { FOLLOWING, MEASURING, WRITING };

/* --- made and ended --------------------------------------------------------------------------- */

enum aw_err aw__vpas_new(struct aw__vpas **ret_vpas, const struct aw__vpas_config *config,
                         const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw__vpas *v = aw_alloc_new(alloc, 1, sizeof *v);
    if (!v)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for VerticalPodAutoscalers");
    v->config = *config;
    v->config.name = config->name ? config->name : AW__VPA_NAME;
    v->alloc = alloc;
    aw_vpa_config_init(&v->logic);
    v->object = aw_alloc_new(alloc, config->objects_max, sizeof(void *));
    v->target = aw_alloc_new(alloc, config->objects_max, sizeof(void *));
    if (!v->object || !v->target) {
        aw__vpas_free(v);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u VerticalPodAutoscalers",
                       config->objects_max);
    }
    if (config->memory)
        aw__vpa_memory_read(v, config->memory);
    *ret_vpas = v;
    return AW_OK;
}

static void object_free(struct aw__vpas *v, uint32_t at)
{
    struct aw__vpa *object = v->object[at];
    if (!object)
        return;
    aw__vpa_forget(v, object);
    aw__cluster_view_target_deinit(&object->target);
    aw_alloc_free(v->alloc, object);
    v->object[at] = NULL;
    v->target[at] = NULL;
}

void aw__vpas_free(struct aw__vpas *v)
{
    if (!v)
        return;
    aw_kube_informer_close(v->informer);
    for (uint32_t i = 0; i < v->used; i++)
        object_free(v, i);
    aw__usage_deinit(&v->usage);
    json_decref(v->remembered);
    aw_alloc_free(v->alloc, v->target);
    aw_alloc_free(v->alloc, v->object);
    aw_alloc_free(v->alloc, v);
}

const struct aw__vpas_counts *aw__vpas_counts(const struct aw__vpas *v)
{
    return &v->counts;
}

/* One line when trouble begins or becomes another one, one when it is over. */
static void tell(struct aw__vpas *v, int which, enum aw_err err, const struct aw_diag *diag)
{
    static const char *const what[] = {
        [FOLLOWING] = "VerticalPodAutoscalers cannot be followed",
        [MEASURING] = "usage of containers cannot be read: recommendations stay as they are",
        [WRITING] = "the status of a VerticalPodAutoscaler cannot be written",
    };
    struct aw_diag *told = &v->told[which];
    if (err && strcmp(told->text, diag->text) != 0) {
        aw_log_warn(v->config.log, what[which], AW_LOG_STR("why", diag->text));
        *told = *diag;
    } else if (!err && *told->text) {
        aw_log_info(v->config.log, "over", AW_LOG_STR("what", what[which]));
        *told = (struct aw_diag){0};
    }
}

/* --- followed --------------------------------------------------------------------------------- */

/* Of objects that are for others nothing is kept but that they are there. */
static enum aw_err project(void *ctx, const json_t *object, void *buf, size_t size, size_t *ret_len)
{
    const struct aw__vpas *v = ctx;
    if (aw__vpa_is_for(json_object_get(object, "spec"), v->config.name))
        return aw__cluster_view_project_object(ctx, object, buf, size, ret_len);
    if (size < sizeof(struct aw__cluster_view_object))
        return AW_ERR_LIMIT;
    memset(buf, 0, sizeof(struct aw__cluster_view_object));
    *ret_len = sizeof(struct aw__cluster_view_object);
    return AW_OK;
}

/* Whether the server has the kind by now. Its status is a subresource since VPA 1.0; the one that
 * GKE brings has none (kubernetes/autoscaler#6828), and then the object itself is patched. */
static enum aw_err look_for_kind(struct aw__vpas *v, struct aw_diag *diag)
{
    const struct aw_kube_request request = {
        .path = KIND_PATH, .timeout_us = ASK_TIMEOUT_US, .once = true};
    json_t *body = NULL;
    const json_t *resource;
    bool there = false;
    size_t i;
    enum aw_err err = aw_kube_send(v->config.kube, &request, &body, NULL, diag);
    if (err)
        return err == AW_ERR_NOTFOUND ? AW_OK : err;
    v->has_status = false;
    const json_t *resources = json_object_get(body, "resources");
    json_array_foreach(resources, i, resource)
    {
        const char *name = aw_kube_text_at(resource, "name");
        there = there || !strcmp(name, aw__vpa_kind.plural);
        v->has_status = v->has_status || !strcmp(name, "verticalpodautoscalers/status");
    }
    json_decref(body);
    const struct aw_kube_informer_config config = {
        .query = {.kind = &aw__vpa_kind, .ns = v->config.ns},
        .project = project,
        .ctx = v,
        .objects_max = v->config.objects_max};
    if (there)
        err = aw_kube_informer_open(&v->informer, v->config.kube, &config, diag);
    if (v->informer)
        aw_log_info(v->config.log, "following VerticalPodAutoscalers",
                    AW_LOG_STR("recommender", v->config.name),
                    AW_LOG_BOOL("status_subresource", v->has_status));
    return err;
}

static enum aw_err follow(struct aw__vpas *v, int64_t now_us)
{
    struct aw_diag why = {0};
    enum aw_err err = AW_OK;
    if (!v->informer && now_us >= v->ask_us) {
        v->ask_us = now_us + AW__VPA_ASK_US;
        err = look_for_kind(v, &why);
    }
    if (!err && v->informer)
        err = aw_kube_informer_step(v->informer, &why);
    if (err == AW_ERR_INTERRUPTED)
        return err;
    if (err == AW_ERR_NOTFOUND && v->informer) { /* the kind itself was deleted */
        aw_kube_informer_close(v->informer);
        v->informer = NULL;
        v->ask_us = now_us + AW__VPA_ASK_US;
        err = AW_OK;
    }
    tell(v, FOLLOWING, err, &why);
    return AW_OK;
}

/* --- objects ---------------------------------------------------------------------------------- */

static json_t *json_of(const void *record, struct aw_kube_span span)
{
    return span.count ? json_loads(aw_kube_span_text(record, span), JSON_DECODE_ANY, NULL) : NULL;
}

static struct aw__vpa *object_of(struct aw__vpas *v, const char *key)
{
    const uint64_t hash = aw_hash_text(AW_HASH_BEGIN, key);
    uint32_t at = v->config.objects_max;
    for (uint32_t i = 0; i < v->used; i++) {
        if (v->object[i] && v->object[i]->hash == hash && !strcmp(v->object[i]->key, key))
            return v->object[i];
        if (!v->object[i] && at > i)
            at = i;
    }
    at = at < v->config.objects_max ? at : v->used;
    if (at >= v->config.objects_max)
        return NULL;
    struct aw__vpa *object = aw_alloc_new(v->alloc, 1, sizeof *object);
    if (!object)
        return NULL;
    snprintf(object->key, sizeof object->key, "%s", key);
    object->hash = hash;
    object->wrote_us = AW_NEVER;
    v->object[at] = object;
    v->used = at == v->used ? at + 1 : v->used;
    return object;
}

/* Whom it is about. Another target than before: what is known is of another workload. */
static void target_read(struct aw__vpas *v, struct aw__vpa *object, const json_t *spec)
{
    const char *slash = strchr(object->key, '/');
    const char *const said[] = {aw_kube_text_at(spec, "targetRef.apiVersion"),
                                aw_kube_text_at(spec, "targetRef.kind"),
                                aw_kube_text_at(spec, "targetRef.name")};
    struct aw_diag why = {0};
    *object->why = '\0';
    if (!slash || !*said[1] || !*said[2] || strlen(said[0]) >= sizeof object->api_version ||
        strlen(said[1]) >= sizeof object->kind || strlen(said[2]) >= sizeof object->name)
        snprintf(object->why, sizeof object->why, "Cannot read targetRef: expected kind and name");
    else if (aw__vpa_rules_read(spec, &v->rules, &why))
        snprintf(object->why, sizeof object->why, "%.*s", (int)sizeof object->why - 1, why.text);
    if (*object->why)
        return;
    if (strcmp(object->api_version, said[0]) != 0 || strcmp(object->kind, said[1]) != 0 ||
        strcmp(object->name, said[2]) != 0) {
        aw__vpa_forget(v, object);
        aw__cluster_view_target_deinit(&object->target);
    }
    snprintf(object->ns, sizeof object->ns, "%.*s", (int)(slash - object->key), object->key);
    snprintf(object->api_version, sizeof object->api_version, "%s", said[0]);
    snprintf(object->kind, sizeof object->kind, "%s", said[1]);
    snprintf(object->name, sizeof object->name, "%s", said[2]);
    object->target.ns = object->ns;
    object->target.api_version = object->api_version;
    object->target.kind = object->kind;
    object->target.name = object->name;
}

/* Who is there now, and who no longer is. */
static void adopt(struct aw__vpas *v)
{
    const struct aw_kube_item *item;
    uint32_t at = 0;
    for (uint32_t i = 0; i < v->used; i++)
        if (v->object[i])
            v->object[i]->gone = true;
    v->counts.objects = 0;
    while ((item = aw_kube_informer_walk(v->informer, &at))) {
        const struct aw__cluster_view_object *record = item->data;
        struct aw__vpa *object;
        if (!record->spec.count || record->deleting || !(object = object_of(v, item->key)))
            continue;
        json_t *spec = json_of(record, record->spec);
        object->gone = false;
        target_read(v, object, spec);
        json_decref(spec);
        v->counts.objects++;
    }
    for (uint32_t i = 0; i < v->used; i++)
        if (v->object[i] && v->object[i]->gone)
            object_free(v, i);
    for (uint32_t i = 0; i < v->used; i++)
        v->target[i] = v->object[i] && !*v->object[i]->why ? &v->object[i]->target : NULL;
}

/* --- usage ------------------------------------------------------------------------------------ */

static enum aw_err measure(struct aw__vpas *v)
{
    const char *ns[AW__USAGE_NS_MAX];
    uint32_t count = 0;
    struct aw_diag why = {0};
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < v->used; i++) {
        bool known = !v->target[i] || v->target[i]->found != AW__CLUSTER_VIEW_FOUND;
        for (uint32_t k = count; !known && k-- > 0;)
            known = !strcmp(ns[k], v->object[i]->ns);
        if (!known && count < AW__USAGE_NS_MAX)
            ns[count++] = v->object[i]->ns;
    }
    if (!v->usage.samples.items)
        err = aw__usage_init(&v->usage, 2 * v->config.pods_max, v->alloc);
    if (err)
        aw_fail(&why, err, "no memory for the usage of %u containers", 2 * v->config.pods_max);
    if (!err && count > 0)
        err = aw__usage_read(&v->usage, &v->config.usage, ns, count,
                             aw_clock_monotonic_us(v->config.clock) + AW__VPA_MEASURE_US, &why);
    if (err == AW_ERR_INTERRUPTED)
        return err;
    v->counts.reads_failed += err != AW_OK;
    tell(v, MEASURING, err, &why);
    return v->usage.samples.items ? AW_OK : err;
}

/* --- statuses --------------------------------------------------------------------------------- */

static void conditions_make(const struct aw__vpas *v, const struct aw__vpa *object, bool low,
                            struct aw__vpa_conditions *ret)
{
    static const char *const not_found[] = {
        [AW__CLUSTER_VIEW_UNKNOWN] = "Cannot read targetRef: the server could not be asked",
        [AW__CLUSTER_VIEW_NO_TARGET] = "Cannot read targetRef: there is no such object",
        [AW__CLUSTER_VIEW_NO_KIND] = "Cannot read targetRef: the server has no such kind",
        [AW__CLUSTER_VIEW_NO_SCALE] =
            "Cannot read targetRef: this kind has no scale, which says whose "
            "its pods are",
    };
    const enum aw__cluster_view_found found = object->target.found;
    *ret = (struct aw__vpa_conditions){.provided = v->now.count > 0, .low_confidence = low};
    if (*object->why || found != AW__CLUSTER_VIEW_FOUND) {
        ret->unsupported = *object->why || found != AW__CLUSTER_VIEW_UNKNOWN;
        ret->provided_reason = "ConfigUnsupported";
        snprintf(ret->why, sizeof ret->why, "%s", *object->why ? object->why : not_found[found]);
        return;
    }
    ret->no_pods = object->pods == 0;
    ret->provided_reason = ret->no_pods ? "NoPodsMatched" : "NoMetrics";
    snprintf(ret->why, sizeof ret->why, "%s",
             ret->no_pods ? "No pods match this VPA object"
                          : "no usage of these pods has been seen yet");
}

static enum aw_err patch(struct aw__vpas *v, struct aw__vpa *object,
                         const struct aw_kube_item *item, json_t *status, struct aw_diag *diag)
{
    const char *slash = strchr(object->key, '/');
    char ns[AW_KUBE_NAME_MAX], path[AW_KUBE_PATH_MAX];
    struct aw_text text;
    json_t *answer = NULL;
    snprintf(ns, sizeof ns, "%.*s", slash ? (int)(slash - object->key) : 0, object->key);
    const struct aw_kube_ref ref = {.kind = &aw__vpa_kind,
                                    .ns = ns,
                                    .name = slash ? slash + 1 : object->key,
                                    .sub = v->has_status ? "status" : NULL};
    json_t *body = json_pack("{s:{s:s},s:O}", "metadata", "resourceVersion", item->resource_version,
                             "status", status);
    aw_text_init(&text, path, sizeof path);
    enum aw_err err = body ? aw_kube_path(&text, &ref, diag)
                           : aw_fail(diag, AW_ERR_NOMEM, "no memory for a status");
    aw_kube_path_query(&text, "fieldManager", AW_KUBE_MANAGER);
    const struct aw_kube_request request = {.method = "PATCH",
                                            .path = path,
                                            .content_type = "application/merge-patch+json",
                                            .body = body,
                                            .timeout_us = AW__VPA_WRITE_US};
    err = err ? err : aw_kube_send(v->config.kube, &request, &answer, NULL, diag);
    json_decref(body);
    if (!err) {
        snprintf(object->version_from, sizeof object->version_from, "%s", item->resource_version);
        snprintf(object->version_to, sizeof object->version_to, "%s",
                 aw_kube_text_at(answer, "metadata.resourceVersion"));
    }
    json_decref(answer);
    return err;
}

/* Whether the copy has not heard of our last write yet. */
static bool is_behind(const struct aw__vpa *object, const struct aw_kube_item *item)
{
    return *object->version_to && !strcmp(item->resource_version, object->version_from) &&
           strcmp(object->version_from, object->version_to) != 0;
}

static bool worth_writing(const struct aw__vpas *v, const struct aw__vpa *object,
                          const json_t *status, const json_t *conditions, int64_t generation)
{
    const int64_t now_us = aw_clock_monotonic_us(v->config.clock);
    const int64_t told = aw_kube_int_at(status, "observedGeneration", -1);
    const enum aw__vpa_difference difference =
        aw__vpa_advices_differ(&v->was, &v->now, AW__VPA_DEADBAND);
    if (difference == AW__VPA_NEWS ||
        !json_equal(json_object_get(status, "conditions"), conditions) ||
        (v->has_status && told >= 0 && told != generation))
        return true;
    return difference == AW__VPA_WORDS &&
           (object->wrote_us == AW_NEVER || now_us - object->wrote_us >= AW__VPA_WORDS_US);
}

/* Recommends for one object. AW_ERR_INTERRUPTED: told to stop; other errors are of the write. */
static enum aw_err serve(struct aw__vpas *v, struct aw__vpa *object, bool may_write,
                         bool *ret_wrote, struct aw_diag *diag)
{
    const struct aw_kube_item *item = aw_kube_informer_find(v->informer, object->key);
    struct aw__vpa_conditions conditions;
    enum aw_err err = AW_OK;
    if (!item)
        return AW_OK;
    const struct aw__cluster_view_object *record = item->data;
    json_t *spec = json_of(record, record->spec), *status = json_of(record, record->status);
    v->rules.count = 0;
    if (!*object->why)
        (void)!aw__vpa_rules_read(spec, &v->rules, NULL);
    aw__vpa_advices_read(status, &v->was);
    if (!*object->why)
        aw__vpa_sample(v, object);
    /* without its rules nothing can be said that they might not forbid: what stands stays */
    const bool low = !*object->why && aw__vpa_recommend(v, object);
    if (*object->why)
        v->now = v->was;
    object->provided = v->now.count > 0;
    conditions_make(v, object, low, &conditions);
    json_t *list = aw__vpa_conditions_json(status, &conditions, aw_clock_now_us(v->config.clock));
    if (may_write && list && !is_behind(object, item) &&
        worth_writing(v, object, status, list, record->generation)) {
        json_t *made = aw__vpa_status_json(&v->now, json_incref(list), record->generation);
        *ret_wrote = true;
        err = made ? patch(v, object, item, made, diag)
                   : aw_fail(diag, AW_ERR_NOMEM, "no memory for a status");
        json_decref(made);
        if (!err)
            object->wrote_us = aw_clock_monotonic_us(v->config.clock);
        v->counts.writes += err == AW_OK;
        v->counts.conflicts += err == AW_ERR_CONFLICT;
        v->counts.failures += err && err != AW_ERR_CONFLICT && err != AW_ERR_NOTFOUND;
    }
    json_decref(list);
    json_decref(status);
    json_decref(spec);
    return err;
}

static enum aw_err serve_all(struct aw__vpas *v)
{
    struct aw_diag first = {0};
    enum aw_err failed = AW_OK;
    uint32_t writes = 0, next = v->cursor;
    const int64_t until_us = aw_clock_monotonic_us(v->config.clock) + AW__VPA_WRITING_US;
    v->counts.provided = 0;
    for (uint32_t i = 0; i < v->used; i++) {
        const uint32_t at = (v->cursor + i) % v->used;
        struct aw_diag why = {0};
        bool wrote = false;
        if (!v->object[at])
            continue;
        const bool may_write = writes < AW__VPA_WRITES_MAX && !failed &&
                               aw_clock_monotonic_us(v->config.clock) < until_us &&
                               (!v->config.leads || v->config.leads(v->config.ctx));
        const enum aw_err err = serve(v, v->object[at], may_write, &wrote, &why);
        if (err == AW_ERR_INTERRUPTED)
            return err;
        /* who changed or deleted it meanwhile is served in the next round */
        if (err && err != AW_ERR_CONFLICT && err != AW_ERR_NOTFOUND && !failed) {
            failed = err;
            first = why;
        }
        writes += wrote;
        next = wrote ? at + 1 : next;
        v->counts.provided += v->object[at]->provided;
    }
    v->cursor = v->used ? next % v->used : 0;
    tell(v, WRITING, failed, &first);
    return AW_OK;
}

/* --- a round ---------------------------------------------------------------------------------- */

static enum aw_err make_round(struct aw__vpas *v)
{
    adopt(v);
    if (v->counts.objects == 0) {
        v->counts.rounds++;
        return AW_OK;
    }
    enum aw_err err = aw__cluster_view_gather(v->config.scene, v->target, v->used, NULL);
    if (err == AW_ERR_INTERRUPTED || !aw__cluster_view_believed(v->config.scene))
        return err == AW_ERR_INTERRUPTED ? err : AW_OK;
    err = measure(v);
    if (err)
        return err == AW_ERR_INTERRUPTED ? err : AW_OK;
    err = serve_all(v);
    v->counts.rounds++;
    if (v->remembered && v->counts.rounds >= REMEMBER_ROUNDS)
        aw__vpa_memory_tidy(v);
    return err;
}

enum aw_err aw__vpas_step(struct aw__vpas *v, bool leads)
{
    const int64_t now_us = aw_clock_monotonic_us(v->config.clock);
    const enum aw_err err = follow(v, now_us);
    if (err || !leads || !v->informer || !aw_kube_informer_state(v->informer)->synced ||
        !aw__cluster_view_synced(v->config.scene) || now_us < v->round_us)
        return err;
    v->round_us = now_us + AW__VPA_ROUND_US;
    return make_round(v);
}

int64_t aw__vpas_due(const struct aw__vpas *v, bool leads)
{
    if (!v->informer)
        return v->ask_us;
    const int64_t informer_us = aw_kube_informer_due(v->informer);
    if (!leads || !aw_kube_informer_state(v->informer)->synced ||
        !aw__cluster_view_synced(v->config.scene))
        return informer_us;
    return v->round_us < informer_us ? v->round_us : informer_us;
}
