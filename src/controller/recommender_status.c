/*
 * recommender_status.c - what is so of every object, and when it is worth being written.
 *
 * A status is made anew from what was written: conditions keep the time of their last change. Then
 * the two are compared, and the difference says whether anybody would act on it (status.h).
 */
#include "controller/recommender_internal.h"

#include "base/text.h"
#include "kube/verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rails that limit what is recommended for longer than a moment; those that pass by themselves in
 * seconds would turn the condition on and off. */
#define PENDING "PodsPending"
#define LIMITS                                                                               \
    (AW_CLIP_BIT(AW_CLIP_ABSURD) | AW_CLIP_BIT(AW_CLIP_BOUNDS) | AW_CLIP_BIT(AW_CLIP_NODE) | \
     AW_CLIP_BIT(AW_CLIP_OOM_FLOOR) | AW_CLIP_BIT(AW_CLIP_CRASH_LOOP) |                      \
     AW_CLIP_BIT(AW_CLIP_UNRECORDED))

/* --- steps ------------------------------------------------------------------------------------ */

static bool has_slo(const struct aw_pilot_config *config)
{
    return config->slo.latency_us_p99 > 0 || config->slo.throughput_per_s > 0;
}

void aw__statuses_count(struct aw_recommender *r)
{
    const double fade = exp2(-1 / AW__SLO_HALF);
    const int64_t now_us = aw_clock_now_us(r->config.clock);
    for (uint32_t i = 0; i < r->used; i++) {
        struct aw__object *object = r->object[i];
        if (!object || object->slot == AW__NOBODY)
            continue;
        const struct aw_decision *d = aw_pilot_decision(aw_loop_pilot(r->loop, object->slot));
        if (d->guard.clips & LIMITS)
            object->limited_us = now_us;
        if (!d->answered || isnan(d->reading.arrivals_per_s))
            continue;
        object->steps++;
        object->slo_steps = object->slo_steps * fade + 1;
        object->slo_met = object->slo_met * fade + !d->score.violated;
    }
}

/* --- conditions ------------------------------------------------------------------------------- */

/* "cool_down" as "CoolDown". */
static const char *camel(const char *name, char *buf, size_t size)
{
    size_t len = 0;
    bool upper = true;
    for (; *name && len + 1 < size; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        buf[len++] = upper && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        upper = false;
    }
    buf[len] = '\0';
    return buf;
}

/* The updater writes this one too, once it acts (updater.h): what it said stands, but for what only
 * we find out. */
static void able_say(const struct aw__object *object, struct aw_mpa_status *now, int64_t now_us)
{
    static const struct {
        enum aw__cluster_view_found found;
        const char *word, *text;
    } lacks[] = {
        {AW__CLUSTER_VIEW_NO_TARGET, "TargetNotFound", "is not there"},
        {AW__CLUSTER_VIEW_NO_KIND, "KindNotFound", "is of a kind that this server does not have"},
        {AW__CLUSTER_VIEW_NO_SCALE, "TargetNotScalable",
         "is of a kind that has no scale subresource"},
    };
    const struct aw_mpa_condition *was = &now->condition[AW_MPA_ABLE_TO_SCALE];
    bool ours = was->holds == AW_MPA_ABSENT;
    if (!object->valid || object->target.found == AW__CLUSTER_VIEW_UNKNOWN)
        return;
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        ours = ours || !strcmp(was->reason, lacks[i].word);
        if (object->target.found != lacks[i].found)
            continue;
        if (was->holds != AW_MPA_FALSE)
            aw_mpa_condition_set(now, AW_MPA_ABLE_TO_SCALE, false, now_us, lacks[i].word,
                                 "%s %s %s", object->kind, object->target_name, lacks[i].text);
        return;
    }
    if (ours)
        aw_mpa_condition_set(now, AW_MPA_ABLE_TO_SCALE, true, now_us, "TargetFound",
                             "%s %s is there", object->kind, object->target_name);
}

static void config_say(const struct aw__object *object, struct aw_mpa_status *now, int64_t now_us)
{
    const bool wrong = *object->why_word != '\0';
    aw_mpa_condition_set(now, AW_MPA_CONFIG_INVALID, wrong, now_us,
                         wrong ? object->why_word : "Valid", "%s",
                         wrong ? object->why : "the object can be taken as it is");
    /* judged by what was read, also where that was not taken */
    now->condition[AW_MPA_CONFIG_INVALID].generation = object->generation;
}

static void pods_say(const struct aw__object *object, struct aw_mpa_status *now, int64_t now_us)
{
    if (!object->valid || object->target.found != AW__CLUSTER_VIEW_FOUND) {
        aw_mpa_condition_drop(now, AW_MPA_NO_PODS_MATCHED);
        return;
    }
    const uint32_t pods = object->target.count;
    const bool parked = object->target.replicas_wanted == 0;
    if (pods > 0)
        aw_mpa_condition_set(now, AW_MPA_NO_PODS_MATCHED, false, now_us, "PodsMatched",
                             "pods of the target are there");
    else
        aw_mpa_condition_set(now, AW_MPA_NO_PODS_MATCHED, true, now_us,
                             parked ? "ScaledToZero" : "NoPods",
                             parked ? "the target is scaled to 0"
                                    : "no pod matches the target's selector and belongs to it");
}

static void active_say(const struct aw__object *object, const struct aw_decision *d,
                       struct aw_mpa_status *now, int64_t now_us)
{
    const char *word = NULL, *text = NULL;
    if (!d || d->at_us == AW_NEVER) {
        word = "NotBegun";
        text = "there is nothing to decide on yet";
    } else if (!d->answered) {
        word = "NotSeen";
        text = "the target cannot be seen: nothing is changed meanwhile";
    } else if (object->target.replicas_wanted == 0) {
        word = "ScaledToZero";
        text = "the target is scaled to 0, which means paused";
    } else if (isnan(d->reading.cpu_cores_used) || isnan(d->reading.memory_bytes_used)) {
        word = "NoMetrics";
        text = "what its pods use is not known, or too old: nothing shrinks meanwhile";
    }
    if (word)
        aw_mpa_condition_set(now, AW_MPA_SCALING_ACTIVE, false, now_us, word, "%s", text);
    else
        aw_mpa_condition_set(now, AW_MPA_SCALING_ACTIVE, true, now_us, "FreshMetrics",
                             "decisions are made on fresh metrics");
}

static void confidence_say(const struct aw__object *object, const struct aw_pilot_config *config,
                           const struct aw_decision *d, struct aw_mpa_status *now, int64_t now_us)
{
    if (!has_slo(config))
        aw_mpa_condition_set(now, AW_MPA_LOW_CONFIDENCE, true, now_us, "NoObjective",
                             "no SLO is given: the fallback decides by use alone");
    else if (object->steps == 0)
        aw_mpa_condition_set(now, AW_MPA_LOW_CONFIDENCE, true, now_us, "NoRequestMetrics",
                             "no request has been measured: whether the SLO holds is not known");
    else if (object->steps < config->episode_steps && d->stage <= AW_STAGE_OFFLINE)
        aw_mpa_condition_set(now, AW_MPA_LOW_CONFIDENCE, true, now_us, "FewSteps",
                             "it has been watched for less than one episode of %" PRIu32 " steps",
                             config->episode_steps);
    else
        aw_mpa_condition_set(now, AW_MPA_LOW_CONFIDENCE, false, now_us, "Watched",
                             "it has been watched for an episode or more");
}

/* Pods for which no node has room: until there is, more of them are of no use to anybody. */
static uint32_t pods_waiting(const struct aw_recommender *r, const struct aw__object *object,
                             int64_t now_us)
{
    uint32_t waiting = 0;
    /* whoever is not valid was not looked up in this round */
    for (uint32_t i = 0; object->valid && i < object->target.count; i++) {
        const struct aw_kube_item *item = aw__cluster_view_pod_of(r->scene, &object->target, i);
        const struct aw_kube_pod *pod = &((const struct aw__cluster_view_pod *)item->data)->pod;
        waiting += !*aw_kube_span_text(pod, pod->node) && !pod->deleting &&
                   !strcmp(aw_kube_span_text(pod, pod->phase), "Pending") &&
                   now_us - pod->created_us >= AW__PENDING_US;
    }
    return waiting;
}

static void limits_say(const struct aw_recommender *r, const struct aw__object *object,
                       const struct aw_decision *d, struct aw_mpa_status *now, int64_t now_us)
{
    char word[AW_MPA_WORD_MAX];
    const struct aw_mpa_condition *was = &now->condition[AW_MPA_SCALING_LIMITED];
    for (uint32_t clip = 0; clip < AW_CLIP_COUNT; clip++)
        if (d->guard.clips & LIMITS & AW_CLIP_BIT(clip)) {
            aw_mpa_condition_set(now, AW_MPA_SCALING_LIMITED, true, now_us,
                                 camel(aw_clip_name((enum aw_clip)clip), word, sizeof word), "%s",
                                 aw_clip_sentence((enum aw_clip)clip));
            return;
        }
    const uint32_t waiting = pods_waiting(r, object, now_us);
    const bool lately = object->limited_us != AW_NEVER &&
                        now_us - object->limited_us < AW__LIMITED_US &&
                        strcmp(was->reason, PENDING) != 0;
    if (waiting > 0)
        aw_mpa_condition_set(now, AW_MPA_SCALING_LIMITED, true, now_us, PENDING,
                             "%u of its pods wait%s for a node", waiting, waiting == 1 ? "s" : "");
    else if (was->holds != AW_MPA_TRUE || !lately)
        aw_mpa_condition_set(now, AW_MPA_SCALING_LIMITED, false, now_us, "WithinLimits",
                             "nothing holds it back");
}

static void fallback_say(const struct aw_pilot_config *config, const struct aw_decision *d,
                         struct aw_mpa_status *now, int64_t now_us)
{
    char word[AW_MPA_WORD_MAX];
    if (d->in_charge == AW_ACTOR_AGENT)
        aw_mpa_condition_set(now, AW_MPA_FALLBACK_ACTIVE, false, now_us, "AgentDecides",
                             "the agent decides");
    else if (!config->learning)
        aw_mpa_condition_set(now, AW_MPA_FALLBACK_ACTIVE, true, now_us, "NoObjective",
                             "without an SLO there is nothing to learn for");
    else if (d->verdict != AW_WATCHDOG_PASS)
        aw_mpa_condition_set(now, AW_MPA_FALLBACK_ACTIVE, true, now_us,
                             camel(aw_watchdog_cause_name(d->watchdog.cause), word, sizeof word),
                             "%s", aw_watchdog_cause_sentence(d->watchdog.cause));
    else
        aw_mpa_condition_set(now, AW_MPA_FALLBACK_ACTIVE, true, now_us, "Learning",
                             "the agent learns from what the fallback does");
}

/* An order that changes something is carried out though the workload is frozen: an undo freezes
 * what it has put back. As long as it is tried, others must be able to act. */
static void frozen_say(const struct aw_decision *d, struct aw_mpa_status *now, int64_t now_us)
{
    const bool ordered = d->orders.pin_kind != AW_ORDER_NONE;
    const bool frozen = d->orders.freeze == AW_GUARD_FREEZE_ALL && !ordered;
    aw_mpa_condition_set(now, AW_MPA_FROZEN, frozen, now_us,
                         frozen    ? "Ordered"
                         : ordered ? "OrderUnderWay"
                                   : "NotFrozen",
                         "%s",
                         frozen    ? "a person ordered that nothing is changed"
                         : ordered ? "a person's order is being carried out"
                                   : "nobody has frozen it");
}

/* --- what is recommended ---------------------------------------------------------------------- */

static void recommendation_say(struct aw_recommender *r, struct aw__object *object,
                               const struct aw_decision *d, const char *id,
                               struct aw_mpa_status *now, int64_t now_us)
{
    struct aw_kubecluster_meant meant;
    struct aw_mpa_recommendation *rec = &now->recommendation;
    if (d->at_us == AW_NEVER || aw_kubecluster_meant(r->cluster, object->slot, &meant))
        return; /* as it was written: not being seen for a while changes nothing */
    now->replicas = (int32_t)(meant.replicas < INT32_MAX ? meant.replicas : INT32_MAX);
    if (!d->answered ||
        (!rec->given && (isnan(d->reading.cpu_cores_used) || isnan(d->reading.memory_bytes_used))))
        return; /* before anything was measured there is nothing to recommend */
    struct aw_plan plan = meant.plan;
    if (object->mode == AW_GUARD_OFF) /* nobody carries it out: what it would be, every time */
        plan = aw_plan_over(&d->guard.recommended, &plan);
    *rec = (struct aw_mpa_recommendation){.given = true,
                                          .replicas = (int32_t)plan.replicas,
                                          .cpu_millicores = plan.cpu_millicores,
                                          .memory_bytes = plan.memory_bytes,
                                          .at_us = now_us};
    snprintf(rec->container, sizeof rec->container, "%s", meant.container);
    snprintf(rec->decision, sizeof rec->decision, "%s", id);
    object->pursued = meant.plan.set && meant.at_us != AW_NEVER;
    if (object->pursued) /* what is under way is as old as the decision for it */
        rec->at_us = meant.at_us;
}

/* Objects tell real times. */
static int64_t real_us(const struct aw_recommender *r, int64_t lived_us)
{
    return r->config.speed == 1 ? lived_us : llround((double)lived_us / r->config.speed);
}

static void last_say(const struct aw_recommender *r, const struct aw_desk_view *view,
                     struct aw_mpa_status *now)
{
    char id[AW_MPA_ID_MAX], sentence[AW_EXPLANATION_SENTENCE_MAX];
    const struct aw_decision *d = view->decision;
    snprintf(id, sizeof id, "%" PRIu64, view->last_id);
    if (view->last_id == 0 || !strcmp(id, now->last.id))
        return; /* nothing notable since: the sentence stays that of the decision it is about */
    snprintf(now->last.id, sizeof now->last.id, "%s", id);
    now->last.at_us = real_us(r, d->at_us);
    snprintf(now->last.actor, sizeof now->last.actor, "%s", aw_actor_name(d->actor));
    snprintf(now->last.reason, sizeof now->last.reason, "%s",
             d->orders.pin_kind != AW_ORDER_NONE ? "Ordered"
             : d->verdict != AW_WATCHDOG_PASS    ? "Watchdog"
             : d->actor == AW_ACTOR_AGENT        ? "AgentDecided"
                                                 : "FallbackDecided");
    aw_explanation_sentence(view->config, d, sentence, sizeof sentence);
    sentence[AW_MPA_MESSAGE_MAX - 1] = '\0';
    sentence[aw_text_utf8_bad(sentence, strlen(sentence))] = '\0';
    snprintf(now->last.message, sizeof now->last.message, "%s", sentence);
}

/* With the desk's lock held, where there is one. */
static void decided_say(struct aw_recommender *r, struct aw__object *object,
                        struct aw_mpa_status *now, int64_t now_us)
{
    struct aw_desk_view view = {0};
    const struct aw_pilot *pilot = aw_loop_pilot(r->loop, object->slot);
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    const struct aw_decision *d = aw_pilot_decision(pilot);
    if (d->at_us == AW_NEVER) {
        active_say(object, NULL, now, now_us);
        return;
    }
    if (r->config.desk && aw_desk_has(r->config.desk, object->slot)) {
        aw_desk_peek(r->config.desk, object->slot, &view);
        last_say(r, &view, now);
    }
    snprintf(now->stage, sizeof now->stage, "%s", aw_stage_name(d->stage));
    recommendation_say(r, object, d, now->last.id, now, now_us);
    if (has_slo(config) && object->slo_steps > 0)
        snprintf(now->slo, sizeof now->slo, "%.1f%%", 100 * object->slo_met / object->slo_steps);
    active_say(object, d, now, now_us);
    confidence_say(object, config, d, now, now_us);
    limits_say(r, object, d, now, now_us);
    fallback_say(config, d, now, now_us);
    frozen_say(d, now, now_us);
}

/* From `r->was`, the status as it was written. */
static void status_make(struct aw_recommender *r, struct aw__object *object,
                        struct aw_mpa_status *now)
{
    const int64_t now_us = aw_clock_now_us(r->config.clock);
    *now = r->was;
    if (!*object->why_word)
        now->generation = object->generation;
    if (object->valid)
        snprintf(now->mode, sizeof now->mode, "%s", aw_guard_mode_names[object->mode]);
    config_say(object, now, now_us);
    able_say(object, now, now_us);
    pods_say(object, now, now_us);
    if (object->slot != AW__NOBODY)
        decided_say(r, object, now, now_us);
    else
        active_say(object, NULL, now, now_us);
    const bool given = now->recommendation.given;
    aw_mpa_condition_set(now, AW_MPA_RECOMMENDATION_PROVIDED, given, now_us,
                         given ? "Provided" : "NotYet", "%s",
                         given ? "there is a recommendation" : "there is no recommendation yet");
}

/* --- written ---------------------------------------------------------------------------------- */

/* Whether it is time to write what is different. */
static bool worth_writing(const struct aw__object *object, const struct aw_mpa_status *was,
                          struct aw_mpa_status *now, double deadband, int64_t mono_us)
{
    const struct aw_mpa_recommendation recommended = now->recommendation;
    const bool never = object->wrote_us == AW_NEVER;
    now->recommendation = was->recommendation;
    const enum aw_mpa_difference rest = aw_mpa_status_differs(was, now, deadband);
    now->recommendation = recommended;
    const enum aw_mpa_difference all = aw_mpa_status_differs(was, now, deadband);
    if (rest == AW_MPA_NEWS)
        return true;
    if (all == AW_MPA_NEWS)
        return object->mode != AW_GUARD_OFF || never ||
               mono_us - object->wrote_us >= AW_RECOMMENDER_QUIET_US;
    if (object->pursued && recommended.at_us / 1000000 != was->recommendation.at_us / 1000000)
        return true; /* meant again, after nobody had done it: who acts looks at the time */
    return all == AW_MPA_WORDS && !never && mono_us - object->wrote_us >= AW_RECOMMENDER_WORDS_US;
}

/* The version that our view of the object is of. */
static const char *version_of(const struct aw__object *object, const struct aw_kube_item *item)
{
    const bool behind =
        *object->version_to && !strcmp(item->resource_version, object->version_from);
    return behind ? object->version_to : item->resource_version;
}

static enum aw_err status_patch(struct aw_recommender *r, struct aw__object *object,
                                const struct aw_mpa_status *now, struct aw_diag *diag)
{
    const struct aw_kube_item *item = aw__cluster_view_object_find(r->scene, object->key);
    const char *slash = strchr(object->key, '/');
    char ns[AW_KUBE_NAME_MAX], path[AW_KUBE_PATH_MAX];
    struct aw_text text;
    if (!item || !slash)
        return AW_ERR_NOTFOUND;
    snprintf(ns, sizeof ns, "%.*s", (int)(slash - object->key), object->key);
    const struct aw_kube_ref ref = {
        .kind = &aw_mpa_kind, .ns = ns, .name = slash + 1, .sub = "status"};
    aw_text_init(&text, path, sizeof path);
    enum aw_err err = aw_kube_path(&text, &ref, diag);
    if (err)
        return err;
    aw_kube_path_query(&text, "fieldManager", AW_KUBE_MANAGER);
    json_t *patch = json_pack("{s:{s:s},s:o}", "metadata", "resourceVersion",
                              version_of(object, item), "status", aw_mpa_status_json(now));
    if (!patch)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a status");
    const struct aw_kube_request request = {.method = "PATCH",
                                            .path = path,
                                            .content_type = "application/merge-patch+json",
                                            .body = patch,
                                            .timeout_us = AW_RECOMMENDER_WRITE_US};
    json_t *answer = NULL;
    err = aw_kube_send(r->config.kube, &request, &answer, NULL, diag);
    json_decref(patch);
    if (!err) {
        snprintf(object->version_from, sizeof object->version_from, "%s", item->resource_version);
        snprintf(object->version_to, sizeof object->version_to, "%s",
                 aw_kube_text_at(answer, "metadata.resourceVersion"));
    }
    json_decref(answer);
    return err;
}

/* --- events ----------------------------------------------------------------------------------- */

/* About the object itself, or about the workload that it is for. */
static enum aw_err tell(struct aw_recommender *r, const struct aw__object *object, bool workload,
                        bool warning, const char *reason, const char *note)
{
    const char *slash = strchr(object->key, '/');
    char ns[AW_KUBE_NAME_MAX], group[AW_KUBE_NAME_MAX];
    const char *version = strchr(object->api_version, '/');
    snprintf(ns, sizeof ns, "%.*s", slash ? (int)(slash - object->key) : 0, object->key);
    snprintf(group, sizeof group, "%.*s", version ? (int)(version - object->api_version) : 0,
             object->api_version);
    const struct aw_kube_kind kind = {.group = group,
                                      .version = version ? version + 1 : object->api_version,
                                      .kind = object->kind,
                                      .namespaced = true};
    const struct aw_kube_event event = {.kind = workload ? &kind : &aw_mpa_kind,
                                        .ns = ns,
                                        .name = workload ? object->target_name
                                                : slash  ? slash + 1
                                                         : object->key,
                                        .uid = workload ? object->target.uid : object->uid,
                                        .warning = warning,
                                        .reason = reason,
                                        .action = "Recommend",
                                        .note = note};
    r->counts.events++;
    return aw_kube_record(&r->recorder, &event, NULL);
}

static bool turned(const struct aw_mpa_status *was, const struct aw_mpa_status *now,
                   enum aw_mpa_condition_type type)
{
    return now->condition[type].holds != was->condition[type].holds ||
           strcmp(now->condition[type].reason, was->condition[type].reason);
}

/* What people should hear of a status that was just written. Events may be lost: what happens to
 * one is nobody's concern. */
static void events_tell(struct aw_recommender *r, const struct aw__object *object,
                        const struct aw_mpa_status *was, const struct aw_mpa_status *now)
{
    static const struct {
        enum aw_mpa_condition_type type;
        enum aw_mpa_holds bad; /* ABSENT: either is news, and no warning */
        bool workload;
    } heard[] = {{AW_MPA_CONFIG_INVALID, AW_MPA_TRUE, false},
                 {AW_MPA_ABLE_TO_SCALE, AW_MPA_FALSE, false},
                 {AW_MPA_NO_PODS_MATCHED, AW_MPA_TRUE, false},
                 {AW_MPA_FROZEN, AW_MPA_ABSENT, true}};
    enum aw_err err = AW_OK;
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++) {
        const struct aw_mpa_condition *c = &now->condition[heard[i].type];
        if (!turned(was, now, heard[i].type))
            continue;
        if (heard[i].bad == AW_MPA_ABSENT ? was->condition[heard[i].type].holds != AW_MPA_ABSENT
                                          : c->holds == heard[i].bad)
            err = tell(r, object, heard[i].workload, heard[i].bad != AW_MPA_ABSENT, c->reason,
                       c->message);
    }
    if (*was->stage && strcmp(was->stage, now->stage) != 0) {
        char note[AW_MPA_MESSAGE_MAX];
        snprintf(note, sizeof note, "from %s to %s", was->stage, now->stage);
        err = tell(r, object, true, false, "StageChanged", note);
    }
    if (was->recommendation.given && strcmp(was->last.id, now->last.id) != 0 &&
        (was->recommendation.replicas != now->recommendation.replicas ||
         was->recommendation.cpu_millicores != now->recommendation.cpu_millicores ||
         was->recommendation.memory_bytes != now->recommendation.memory_bytes))
        err = tell(r, object, true, false, "Recommended", now->last.message);
    (void)err;
}

/* --- all of them ------------------------------------------------------------------------------ */

static double deadband_of(struct aw_recommender *r, const struct aw__object *object)
{
    if (object->slot == AW__NOBODY)
        return 0;
    return aw_pilot_config(aw_loop_pilot(r->loop, object->slot))->guard.deadband;
}

/* Whether another write may be tried in this round. */
static bool status_write(struct aw_recommender *r, struct aw__object *object,
                         const struct aw_mpa_status *now, int64_t mono_us, enum aw_err *ret_err,
                         struct aw_diag *diag)
{
    *ret_err = status_patch(r, object, now, diag);
    if (!*ret_err) {
        r->counts.writes++;
        aw__object_keep(r, object, now);
        object->wrote_us = mono_us;
        object->owed = false;
        if (r->events_left > 0) {
            const uint64_t before = r->counts.events;
            events_tell(r, object, &r->was, now);
            const uint64_t told = r->counts.events - before;
            r->events_left -= told < r->events_left ? (uint32_t)told : r->events_left;
        }
        return true;
    }
    const bool mine = *ret_err == AW_ERR_CONFLICT || *ret_err == AW_ERR_NOTFOUND;
    r->counts.conflicts += mine; /* the copy is behind; the next round has a newer one */
    r->counts.failures += !mine;
    if (mine)
        object->fresh = true;
    return mine || *ret_err == AW_ERR_FORMAT || *ret_err == AW_ERR_RANGE;
}

enum aw_err aw__statuses_write(struct aw_recommender *r, struct aw_diag *diag)
{
    struct aw_mpa_status *now = &r->scratch;
    enum aw_err first = AW_OK;
    uint32_t left = AW_RECOMMENDER_WRITES_MAX;
    bool go = true;
    r->events_left = AW_RECOMMENDER_EVENTS_MAX;
    r->counts.waiting = 0;
    const uint32_t begin = r->used ? r->cursor % r->used : 0;
    for (uint32_t n = 0; n < r->used; n++) {
        const uint32_t place = (begin + n) % r->used;
        struct aw__object *object = r->object[place];
        const int64_t mono_us = aw_clock_monotonic_us(r->config.clock);
        struct aw_diag why = {0};
        enum aw_err err = AW_OK;
        if (!object || object->gone)
            continue;
        aw__object_status(object, &r->was);
        if (r->config.desk)
            aw_desk_lock(r->config.desk);
        status_make(r, object, now);
        if (r->config.desk)
            aw_desk_unlock(r->config.desk);
        if (!worth_writing(object, &r->was, now, deadband_of(r, object), mono_us))
            continue;
        object->owed = true;
        const bool time = left == AW_RECOMMENDER_WRITES_MAX || mono_us < r->write_until_us;
        if (go && time && left > 0 && (!r->config.leads || r->config.leads(r->config.ctx))) {
            left--;
            go = status_write(r, object, now, mono_us, &err, &why);
            r->cursor = place + 1;
        }
        if (err && err != AW_ERR_CONFLICT && err != AW_ERR_NOTFOUND && !first) {
            first = err;
            if (diag)
                *diag = why;
        }
        if (err == AW_ERR_INTERRUPTED)
            return err;
        r->counts.waiting += object->owed;
    }
    return first;
}
