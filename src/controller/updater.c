/* updater.c - see updater.h. */
#include "controller/updater.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/quantity.h"
#include "controller/admission.h"
#include "controller/status.h"
#include "controller/updater_view.h"
#include "kube/events.h"
#include "kube/lease.h"
#include "kube/verbs.h"

#define RETRY_US    30000000 /* after a failure, before the same object is tried again */
#define TELL_US     60000000 /* between two writes of one object's condition */
#define CUSTOM_US   60000000 /* between two looks at a scale that no informer follows */
#define FORGET      6u       /* rounds after which the memory of an object that is gone is free */
#define MESSAGE_MAX 400u

/* A target of a kind that is not followed: its scale is all that is known. */
struct custom {
    struct aw_kube_workload workload;
    char version[AW_KUBE_VERSION_MAX];
    int64_t read_us; /* monotonic; 0: never */
    bool there;
};

/* What is remembered of one object. */
struct slot {
    uint64_t hash;  /* of its uid */
    uint64_t round; /* in which it was seen last */
    struct aw__update_memory memory;
    struct custom custom;
    int64_t retry_us, told_us; /* monotonic */
};

struct aw_updater {
    struct aw_kube *kube;
    struct aw_kube_server server;
    struct aw_updater_config config;
    const struct aw_alloc *alloc;
    struct aw__view view;
    struct aw_kube_recorder recorder;
    struct aw_hash_table slots; /* of struct slot */
    struct aw_updater_counts counts;
    bool follow; /* somebody asks to be acted for */
    bool webhook_lives;
    int64_t lease_renewed_us; /* what the webhook's Lease said when it changed last */
    int64_t lease_changed_us; /* monotonic: when we saw that; 0: never */
    double tokens;            /* disruptions that may be made now */
    int64_t tokens_us, next_us;
    uint32_t writes_left;
};

/* One object in a round. */
struct errand {
    struct aw_updater *updater;
    const struct aw_kube_item *item;
    const struct aw__mpa_intent *intent;
    struct slot *slot;
    struct aw_kube_kind target_kind;
    struct aw_kube_found found; /* behind target_kind, where it had to be asked for */
    const char *version;        /* of the target, that the plan was made from */
    const char *target_uid;
    char ns[AW_KUBE_NAME_MAX];
    char note[MESSAGE_MAX]; /* what the reason alone does not say */
};

enum aw_err aw_updater_new(struct aw_updater **ret_updater, struct aw_kube *kube,
                           const struct aw_kube_server *server,
                           const struct aw_updater_config *config, const struct aw_alloc *alloc,
                           struct aw_diag *diag)
{
    struct aw_updater *updater = aw_alloc_new(alloc, 1, sizeof *updater);
    if (!updater)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an updater");
    *updater = (struct aw_updater){.kube = kube, .server = *server, .alloc = alloc};
    struct aw_updater_config *mine = &updater->config;
    *mine = config ? *config : (struct aw_updater_config){0};
    mine->instance = mine->instance ? mine->instance : "aware";
    mine->round_us = mine->round_us ? mine->round_us : AW_UPDATER_ROUND_US;
    mine->pause_us = mine->pause_us ? mine->pause_us : AW_UPDATER_PAUSE_US;
    mine->disruptions_per_min =
        mine->disruptions_per_min > 0 ? mine->disruptions_per_min : AW_UPDATER_DISRUPTIONS_PER_MIN;
    mine->objects_max = mine->objects_max ? mine->objects_max : AW_UPDATER_OBJECTS_MAX;
    mine->pods_max = mine->pods_max ? mine->pods_max : AW_UPDATER_PODS_MAX;
    updater->tokens = AW_UPDATER_DISRUPTIONS_BURST;
    updater->tokens_us = aw_clock_monotonic_us(mine->clock);
    aw_kube_recorder_init(&updater->recorder, kube, server, mine->instance);
    enum aw_err err = aw_hash_table_init(&updater->slots, sizeof(struct slot), mine->objects_max,
                                         2 * mine->objects_max, alloc);
    err = err ? aw_fail(diag, err, "no memory for an updater")
              : aw__view_open(&updater->view, kube, server, mine->ns, mine->objects_max,
                              mine->pods_max, alloc, diag);
    if (err)
        aw_updater_free(updater);
    else
        *ret_updater = updater;
    return err;
}

void aw_updater_free(struct aw_updater *updater)
{
    if (!updater)
        return;
    aw__view_close(&updater->view);
    aw_hash_table_deinit(&updater->slots);
    aw_alloc_free(updater->alloc, updater);
}

int64_t aw_updater_due(const struct aw_updater *updater)
{
    const int64_t due_us = aw__view_due(&updater->view, updater->follow);
    /* a round that cannot be made is not due: where nobody asks for one, only news can change that
     */
    const bool round = aw__view_ready(&updater->view, true);
    return round && updater->next_us < due_us ? updater->next_us : due_us;
}

bool aw_updater_synced(const struct aw_updater *updater)
{
    return aw__view_ready(&updater->view, updater->follow);
}

const struct aw_updater_counts *aw_updater_counts(const struct aw_updater *updater)
{
    return &updater->counts;
}

/* --- memory of objects --- */

/* Frees the memory of objects that are gone. */
static void forget(struct aw_updater *updater)
{
    struct slot *slot;
    for (uint32_t i = 0; i < updater->slots.places; i++)
        while ((slot = aw_hash_table_at(&updater->slots, i)) &&
               updater->counts.rounds - slot->round > FORGET)
            aw_hash_table_drop(&updater->slots, slot);
}

/* The memory of an object, good until the next object is looked at. NULL: there is no room. */
static struct slot *remember(struct aw_updater *updater, const char *uid)
{
    const uint64_t hash = aw_hash_text(AW_HASH_BEGIN, uid);
    struct slot *slot = aw_hash_table_find(&updater->slots, hash);
    if (!slot && updater->slots.count == updater->slots.max)
        forget(updater);
    if (!slot && !(slot = aw_hash_table_add(&updater->slots, hash)))
        return NULL;
    slot->round = updater->counts.rounds;
    return slot;
}

/* --- telling --- */

static const char *target_name(const struct errand *errand)
{
    return aw_kube_span_text(errand->intent, errand->intent->target_name);
}

static void record(struct errand *errand, const struct aw_kube_kind *kind, const char *name,
                   const char *uid, bool warning, const char *reason, const char *action)
{
    /* an event that is lost is no reason to do anything else */
    (void)!aw_kube_record(&errand->updater->recorder,
                          &(struct aw_kube_event){.kind = kind,
                                                  .ns = errand->ns,
                                                  .name = name,
                                                  .uid = uid,
                                                  .warning = warning,
                                                  .reason = reason,
                                                  .action = action,
                                                  .note = errand->note},
                          NULL);
}

/* An edit of the condition AbleToScale. */
struct edit {
    bool holds;
    const char *reason, *message;
    int64_t now_us;
};

static enum aw_err edit_condition(void *ctx, json_t *object)
{
    const struct edit *edit = ctx;
    const char *holds = edit->holds ? "True" : "False";
    json_t *status = json_object_get(object, "status"), *condition = NULL, *each;
    json_t *conditions = json_object_get(status, "conditions");
    size_t i;
    char time[AW_KUBE_TIME_MAX];
    if (!json_is_object(status))
        return AW_ERR_NODATA; /* the recommender has not been here: nothing to add to */
    if (!json_is_array(conditions)) {
        conditions = json_array();
        if (json_object_set_new(status, "conditions", conditions) != 0)
            return AW_ERR_NOMEM;
    }
    json_array_foreach(conditions, i, each)
    {
        if (!strcmp(aw_kube_text_at(each, "type"), AW__MPA_INTENT_ABLE))
            condition = each;
    }
    if (condition && !strcmp(aw_kube_text_at(condition, "status"), holds) &&
        !strcmp(aw_kube_text_at(condition, "reason"), edit->reason))
        return AW_ERR_NODATA;
    const bool turned = !condition || strcmp(aw_kube_text_at(condition, "status"), holds) != 0;
    if (!condition) {
        condition = json_object();
        if (json_array_append_new(conditions, condition) != 0)
            return AW_ERR_NOMEM;
    }
    aw_kube_time_print(edit->now_us, time, sizeof time);
    snprintf(time + strlen("2026-01-31T12:00:00"), 2, "Z"); /* metav1.Time has whole seconds */
    bool fine =
        json_object_set_new(condition, "type", json_string(AW__MPA_INTENT_ABLE)) == 0 &&
        json_object_set_new(condition, "status", json_string(holds)) == 0 &&
        json_object_set_new(condition, "reason", json_string(edit->reason)) == 0 &&
        json_object_set_new(condition, "message", json_string(edit->message)) == 0 &&
        json_object_set_new(condition, "observedGeneration",
                            json_integer(aw_kube_int_at(object, "metadata.generation", 0))) == 0;
    if (fine && turned)
        fine = json_object_set_new(condition, "lastTransitionTime", json_string(time)) == 0;
    return fine ? AW_OK : AW_ERR_NOMEM;
}

/* Whether a reason of the condition is one that only we give. */
static bool ours(const char *word)
{
    for (int i = 0; i < AW__UPDATE_REASONS; i++)
        if (aw__update_told((enum aw__update_reason)i) &&
            !strcmp(word, aw__update_word((enum aw__update_reason)i)))
            return true;
    return false;
}

/* Writes the condition where it is not said yet: what needs somebody, and that it is over. */
static void tell(struct errand *errand, enum aw__update_reason reason)
{
    struct aw_updater *updater = errand->updater;
    const struct aw__mpa_intent *intent = errand->intent;
    const char *word = aw__update_word(reason);
    const bool told = aw__update_told(reason);
    const bool said = !strcmp(aw_kube_span_text(intent, intent->able), "False");
    const char *said_word = aw_kube_span_text(intent, intent->able_reason);
    const int64_t now_us = aw_clock_monotonic_us(updater->config.clock);
    char message[MESSAGE_MAX + 128];
    const struct aw_kube_ref ref = {&aw_mpa_kind, errand->ns, aw__key_name(errand->item->key),
                                    "status"};
    struct edit edit = {.holds = !told,
                        .reason = word,
                        .message = message,
                        .now_us = aw_clock_now_us(updater->config.clock)};
    if (told ? said && !strcmp(said_word, word) : !said || !ours(said_word))
        return;
    /* these are asked before what was told, and so say nothing about it */
    if (reason == AW__UPDATE_NOT_OBSERVED || reason == AW__UPDATE_NONE_GIVEN ||
        reason == AW__UPDATE_FROZEN ||
        (reason == AW__UPDATE_STALE && strcmp(said_word, AW__MPA_INTENT_CONFLICT) != 0))
        return;
    if (errand->slot->told_us && now_us - errand->slot->told_us < TELL_US)
        return;
    errand->slot->told_us = now_us;
    snprintf(message, sizeof message, "%s%s%s", aw__update_sentence(reason),
             errand->note[0] ? ": " : "", errand->note);
    if (aw_kube_update(updater->kube, &ref, edit_condition, &edit, NULL) != AW_OK) {
        updater->counts.failed++;
        return;
    }
    updater->counts.told++;
    if (told) {
        snprintf(errand->note, sizeof errand->note, "%.*s", (int)sizeof errand->note - 1, message);
        record(errand, &aw_mpa_kind, ref.name, errand->item->uid, true, word, "Update");
    }
}

/* --- doing --- */

/* What becomes of an error of a write. */
static enum aw__update_reason failed(struct errand *errand, enum aw_err err,
                                     const struct aw_diag *diag)
{
    struct aw_updater *updater = errand->updater;
    if (err == AW_ERR_CONFLICT) { /* somebody else was there: look again in the next round */
        updater->counts.conflicts++;
        return AW__UPDATE_GO;
    }
    if (err == AW_ERR_INTERRUPTED)
        return AW__UPDATE_GO;
    updater->counts.failed++;
    errand->slot->retry_us = aw_clock_monotonic_us(updater->config.clock) + RETRY_US;
    snprintf(errand->note, sizeof errand->note, "%.*s", (int)sizeof errand->note - 1, diag->text);
    if (err == AW_ERR_CONFIG)
        return AW__UPDATE_FORBIDDEN;
    return err == AW_ERR_NOTFOUND || err == AW_ERR_RANGE || err == AW_ERR_UNSUPPORTED
               ? AW__UPDATE_FAILED
               : AW__UPDATE_GO; /* busy, slow or away: not this object's matter */
}

static const char *decision(const struct errand *errand)
{
    const char *id = aw_kube_span_text(errand->intent, errand->intent->decision);
    return id[0] ? id : "?";
}

static enum aw__update_reason scale(struct errand *errand, const struct aw__update_facts *facts,
                                    const struct aw__update_step *step)
{
    const struct aw_kube_ref ref = {&errand->target_kind, errand->ns, target_name(errand), NULL};
    struct aw_diag diag = {0};
    enum aw_err err = aw_kube_scale_set(errand->updater->kube, &ref, step->replicas,
                                        errand->version, NULL, &diag);
    if (err)
        return failed(errand, err, &diag);
    errand->updater->counts.scaled++;
    errand->slot->custom.read_us = 0;
    snprintf(errand->note, sizeof errand->note,
             "scaled from %lld to %d replicas (decision %s of %s)",
             (long long)facts->target->replicas_wanted, step->replicas, decision(errand),
             aw__key_name(errand->item->key));
    record(errand, &errand->target_kind, ref.name, errand->target_uid, false, "ScaledHorizontally",
           "Scale");
    return AW__UPDATE_GO;
}

static int64_t unless(int64_t wanted, int64_t now)
{
    return wanted == now ? -1 : wanted;
}

static void print_size(const struct aw__resources *size, char *buf, size_t len)
{
    char cpu[AW_QUANTITY_TEXT_MAX] = "-", memory[AW_QUANTITY_TEXT_MAX] = "-";
    if (size->request[AW__CPU] >= 0)
        aw_quantity_print_cpu(size->request[AW__CPU], AW_QUANTITY_MILLI, cpu, sizeof cpu);
    if (size->request[AW__MEMORY] >= 0)
        aw_quantity_print_memory(size->request[AW__MEMORY], memory, sizeof memory);
    snprintf(buf, len, "cpu %s, memory %s", cpu, memory);
}

/* Whether the server refused a size, and why; GO: it is another matter. A 403 is the word of those
 * who admit resizes (LimitRange, quota, whether the node could ever hold it) and of a missing
 * right: only its text tells them apart. */
static enum aw__update_reason why_refused(const struct aw_kube_status *status)
{
    static const struct {
        const char *words;
        enum aw__update_reason reason;
    } known[] = {
        {" cannot patch resource ", AW__UPDATE_GO}, /* a right: told as such */
        {"not yet ready to handle request", AW__UPDATE_GO},
        {"exceeded quota", AW__UPDATE_QUOTA},
        {"enough allocatable resources", AW__UPDATE_INFEASIBLE},
    };
    if (status->code == 422)
        return AW__UPDATE_REFUSED;
    if (status->code != 403)
        return AW__UPDATE_GO;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(status->message, known[i].words))
            return known[i].reason;
    return AW__UPDATE_REFUSED;
}

static enum aw__update_reason resize(struct errand *errand, const struct aw__update_facts *facts,
                                     const struct aw__update_step *step)
{
    struct aw_updater *updater = errand->updater;
    const struct aw__update_pod *pod = &facts->pods[step->pod];
    const struct aw_kube_container *container =
        aw_kube_span_item(pod->pod, pod->pod->containers, sizeof *container, step->container);
    const struct aw__resources now = aw__resources_of(container);
    const struct aw_kube_container_size size = {
        .name = aw_kube_span_text(pod->pod, container->name),
        .cpu_request_millicores = unless(step->size.request[AW__CPU], now.request[AW__CPU]),
        .cpu_limit_millicores = unless(step->size.limit[AW__CPU], now.limit[AW__CPU]),
        .memory_request_bytes = unless(step->size.request[AW__MEMORY], now.request[AW__MEMORY]),
        .memory_limit_bytes = unless(step->size.limit[AW__MEMORY], now.limit[AW__MEMORY]),
    };
    struct aw_kube_status status = {0};
    struct aw_diag diag = {0};
    char text[2 * AW_QUANTITY_TEXT_MAX];
    const int64_t now_us = aw_clock_now_us(updater->config.clock);
    enum aw_err err =
        aw_kube_resize(updater->kube, errand->ns, pod->name, &size, 1, NULL, &status, &diag);
    if (err == AW_ERR_NOTFOUND)
        return AW__UPDATE_GO; /* it went meanwhile */
    const enum aw__update_reason refusal = err ? why_refused(&status) : AW__UPDATE_GO;
    if (refusal != AW__UPDATE_GO) {
        updater->counts.refused++;
        aw__update_refused(&errand->slot->memory, step, pod->uid, refusal, now_us);
        snprintf(errand->note, sizeof errand->note, "%s: %.320s", pod->name, status.message);
        return refusal;
    }
    if (err)
        return failed(errand, err, &diag);
    updater->counts.resized++;
    aw__update_done(&errand->slot->memory, step, now_us);
    print_size(&step->size, text, sizeof text);
    snprintf(errand->note, sizeof errand->note, "resized %s in place: %s (decision %s of %s)",
             pod->name, text, decision(errand), aw__key_name(errand->item->key));
    record(errand, &errand->target_kind, target_name(errand), errand->target_uid, false,
           "ResizedInPlace", "Resize");
    return AW__UPDATE_GO;
}

static enum aw__update_reason evict(struct errand *errand, const struct aw__update_facts *facts,
                                    const struct aw__update_step *step)
{
    struct aw_updater *updater = errand->updater;
    const struct aw__update_pod *pod = &facts->pods[step->pod];
    enum aw_kube_eviction eviction = AW_KUBE_EVICTED;
    struct aw_diag diag = {0};
    char text[2 * AW_QUANTITY_TEXT_MAX];
    enum aw_err err = aw_kube_evict(updater->kube, updater->server.eviction, errand->ns, pod->name,
                                    pod->uid, &eviction, &diag);
    if (err)
        return failed(errand, err, &diag);
    print_size(&step->size, text, sizeof text);
    switch (eviction) {
    case AW_KUBE_EVICTED:
        updater->counts.evicted++;
        aw__update_done(&errand->slot->memory, step, aw_clock_now_us(updater->config.clock));
        snprintf(errand->note, sizeof errand->note,
                 "evicted %s for a new size: %s (decision %s of %s)", pod->name, text,
                 decision(errand), aw__key_name(errand->item->key));
        record(errand, &errand->target_kind, target_name(errand), errand->target_uid, false,
               "Evicted", "Evict");
        break;
    case AW_KUBE_BLOCKED:
        updater->counts.blocked++;
        errand->slot->retry_us = aw_clock_monotonic_us(updater->config.clock) + RETRY_US;
        snprintf(errand->note, sizeof errand->note,
                 "%s is not evicted now: a PodDisruptionBudget says no", pod->name);
        record(errand, &errand->target_kind, target_name(errand), errand->target_uid, true,
               "EvictionBlocked", "Evict");
        break;
    case AW_KUBE_REPLACED:
        updater->counts.conflicts++;
        break;
    }
    return AW__UPDATE_GO;
}

/* Whether one more workload may be disturbed now. */
static bool may_disrupt(struct aw_updater *updater)
{
    const int64_t now_us = aw_clock_monotonic_us(updater->config.clock);
    updater->tokens +=
        (double)(now_us - updater->tokens_us) * updater->config.disruptions_per_min / 60e6;
    updater->tokens_us = now_us;
    if (updater->tokens > AW_UPDATER_DISRUPTIONS_BURST)
        updater->tokens = AW_UPDATER_DISRUPTIONS_BURST;
    if (updater->tokens < 1)
        return false;
    updater->tokens -= 1;
    return true;
}

/* A round may take longer than we lead. */
static bool leading(const struct aw_updater *updater)
{
    return !updater->config.leads || updater->config.leads(updater->config.ctx);
}

/* Does a plan; returns what there is to tell. */
static enum aw__update_reason act(struct errand *errand, const struct aw__update_facts *facts,
                                  const struct aw__update_plan *plan)
{
    enum aw__update_reason reason = plan->reason;
    for (uint32_t i = 0; i < plan->step_count && reason == AW__UPDATE_GO; i++) {
        const struct aw__update_step *step = &plan->steps[i];
        const bool disrupts =
            step->action == AW__UPDATE_EVICT || step->action == AW__UPDATE_RESIZE_RESTART;
        if (!leading(errand->updater) || errand->updater->writes_left == 0 ||
            (disrupts && !may_disrupt(errand->updater)))
            return AW__UPDATE_PACE;
        errand->updater->writes_left--;
        switch (step->action) {
        case AW__UPDATE_SCALE:
            reason = scale(errand, facts, step);
            break;
        case AW__UPDATE_RESIZE:
        case AW__UPDATE_RESIZE_RESTART:
            reason = resize(errand, facts, step);
            break;
        case AW__UPDATE_EVICT:
            reason = evict(errand, facts, step);
            break;
        }
    }
    return reason;
}

/* --- a round --- */

/* A target that no informer follows is asked for its scale, now and then. */
static const struct aw_kube_workload *ask_scale(struct errand *errand)
{
    struct aw_updater *updater = errand->updater;
    struct custom *custom = &errand->slot->custom;
    const struct aw__mpa_intent *intent = errand->intent;
    const int64_t now_us = aw_clock_monotonic_us(updater->config.clock);
    struct aw_kube_scale scale;
    if (custom->read_us && now_us - custom->read_us < CUSTOM_US)
        return NULL; /* what is known of it is too old to act on, and too new to ask again */
    custom->read_us = now_us;
    if (aw_kube_find_kind(updater->kube, aw_kube_span_text(intent, intent->target_version),
                          aw__mpa_intent_target_kind(intent), &errand->found, NULL) != AW_OK)
        return NULL;
    errand->target_kind = errand->found.kind;
    const struct aw_kube_ref ref = {&errand->target_kind, errand->ns, target_name(errand), NULL};
    if (aw_kube_scale_get(updater->kube, &ref, &scale, NULL) != AW_OK)
        return NULL;
    custom->workload = (struct aw_kube_workload){.replicas_wanted = scale.replicas_wanted,
                                                 .replicas = scale.replicas_seen,
                                                 .replicas_updated = scale.replicas_seen};
    snprintf(custom->version, sizeof custom->version, "%s", scale.resource_version);
    errand->version = custom->version;
    errand->target_uid = "";
    return &custom->workload;
}

/* Fills what a plan is made from; false: nothing can be said about this object in this round. */
static bool gather(struct errand *errand, struct aw__update_facts *facts, char *rival, size_t size)
{
    struct aw_updater *updater = errand->updater;
    bool known;
    const struct aw_kube_item *target =
        aw__view_target(&updater->view, errand->intent, errand->ns, &known);
    *facts = (struct aw__update_facts){
        .intent = errand->intent,
        .conflict = aw__view_rival(&updater->view, errand->item, errand->ns, rival, size),
        .pods = updater->view.list,
        .can_resize = updater->server.pod_resize,
        .webhook_lives = updater->webhook_lives,
        .pause_us = updater->config.pause_us,
        .now_us = aw_clock_now_us(updater->config.clock),
    };
    if (target) {
        facts->target = target->data;
        errand->version = target->resource_version;
        errand->target_uid = target->uid;
        for (int i = AW__VIEW_DEPLOYMENTS; i <= AW__VIEW_REPLICASETS; i++)
            if (!strcmp(updater->view.kinds[i].kind, aw__mpa_intent_target_kind(errand->intent)))
                errand->target_kind = updater->view.kinds[i];
        if (!strcmp(errand->target_kind.kind, aw_kube_replicasets.kind)) {
            /* it has one revision only, and counts none of it as updated */
            errand->slot->custom.workload = *facts->target;
            errand->slot->custom.workload.replicas_updated = facts->target->replicas;
            facts->target = &errand->slot->custom.workload;
        }
    } else if (!known) {
        const int64_t before_us = errand->slot->custom.read_us;
        facts->target = ask_scale(errand);
        if (!facts->target && errand->slot->custom.read_us == before_us)
            return false;
    }
    if (facts->conflict)
        snprintf(errand->note, sizeof errand->note, "%s", facts->conflict);
    return aw__view_pods(&updater->view, errand->intent, errand->ns, &facts->pod_count);
}

static void visit(struct aw_updater *updater, const struct aw_kube_item *item)
{
    struct errand errand = {.updater = updater, .item = item, .intent = item->data};
    struct aw__update_facts facts;
    struct aw__limit_range limits;
    struct aw__update_plan plan;
    char rival[AW_KUBE_KEY_MAX];
    errand.slot = remember(updater, item->uid);
    if (!errand.slot || aw_clock_monotonic_us(updater->config.clock) < errand.slot->retry_us) {
        updater->counts.waiting++;
        return;
    }
    aw__key_ns(item->key, errand.ns, sizeof errand.ns);
    if (!gather(&errand, &facts, rival, sizeof rival)) {
        updater->counts.waiting++;
        return;
    }
    limits = aw__view_limits(&updater->view, errand.ns);
    facts.limits = &limits;
    aw__update_plan(&facts, &errand.slot->memory, &plan);
    enum aw__update_reason reason = act(&errand, &facts, &plan);
    if (reason == AW__UPDATE_GO)
        errand.note[0] = '\0'; /* what was done has been told */
    else
        updater->counts.waiting += reason != AW__UPDATE_DONE;
    tell(&errand, reason);
}

/* Whether somebody sizes new pods: its Lease changes. Seen by our own clock, as in an election, so
 * that clocks that disagree do no harm; hence the first look proves nothing. */
static bool ask_webhook(struct aw_updater *updater)
{
    const struct aw_kube_ref ref = {&aw_kube_leases, updater->config.lease_ns,
                                    updater->config.lease_name, NULL};
    const int64_t now_us = aw_clock_monotonic_us(updater->config.clock);
    struct aw_kube_lease lease;
    json_t *object = NULL;
    if (!ref.ns || !ref.name || !updater->server.eviction[0] ||
        aw_kube_get(updater->kube, &ref, &object, NULL, NULL) != AW_OK)
        return false;
    const bool read = aw_kube_lease_read(object, &lease, NULL) == AW_OK;
    json_decref(object);
    if (!read)
        return false;
    if (updater->lease_renewed_us && lease.renewed_us != updater->lease_renewed_us)
        updater->lease_changed_us = now_us;
    updater->lease_renewed_us = lease.renewed_us;
    return updater->lease_changed_us &&
           now_us - updater->lease_changed_us < AW_ADMISSION_LEASE_ALIVE_US;
}

/* How many ask to be acted for, and whether any of them may need an eviction. */
static uint32_t count_acting(const struct aw_updater *updater, bool *ret_evicts)
{
    const struct aw_kube_informer *informer = updater->view.informers[AW__VIEW_MANDATES];
    const struct aw_kube_item *item;
    uint32_t at = 0, count = 0;
    *ret_evicts = false;
    while ((item = aw_kube_informer_walk(informer, &at))) {
        const enum aw__mpa_intent_mode mode = aw__mpa_intent_mode(item->data);
        count += aw__mpa_intent_updates(mode);
        *ret_evicts =
            *ret_evicts || (aw__mpa_intent_updates(mode) &&
                            (mode == AW__MPA_INTENT_RECREATE || mode == AW__MPA_INTENT_IN_PLACE ||
                             !updater->server.pod_resize));
    }
    return count;
}

static enum aw_err do_round(struct aw_updater *updater, bool evicts, struct aw_diag *diag)
{
    const struct aw_kube_item *item;
    uint32_t at = 0;
    const int64_t begun_us = aw_clock_monotonic_us(updater->config.clock);
    updater->counts.rounds++;
    updater->counts.waiting = 0;
    updater->writes_left = AW_UPDATER_WRITES_MAX;
    aw__view_index(&updater->view);
    if (!updater->view.whole)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %u autoscalers: nothing is updated",
                       AW__VIEW_RIVALS_MAX);
    updater->webhook_lives = evicts && ask_webhook(updater);
    while ((item = aw_kube_informer_walk(updater->view.informers[AW__VIEW_MANDATES], &at)))
        if (aw__mpa_intent_updates(aw__mpa_intent_mode(item->data)))
            visit(updater, item);
    updater->counts.round_us = aw_clock_monotonic_us(updater->config.clock) - begun_us;
    return AW_OK;
}

enum aw_err aw_updater_step(struct aw_updater *updater, struct aw_diag *diag)
{
    bool evicts;
    enum aw_err err = aw__view_step(&updater->view, updater->follow, diag);
    if (err == AW_ERR_INTERRUPTED || !aw__view_ready(&updater->view, false))
        return err;
    updater->counts.objects =
        aw_kube_informer_state(updater->view.informers[AW__VIEW_MANDATES])->objects;
    updater->counts.acting = count_acting(updater, &evicts);
    updater->follow = updater->counts.acting > 0;
    const int64_t now_us = aw_clock_monotonic_us(updater->config.clock);
    if (err || now_us < updater->next_us || !aw__view_ready(&updater->view, true))
        return err; /* without anybody who asks, nothing else is ever ready */
    updater->next_us = now_us + updater->config.round_us;
    return do_round(updater, evicts, diag);
}
