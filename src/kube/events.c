/* events.c - see events.h. */
#include "kube/events.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "kube/client_internal.h"
#include "kube/verbs.h"

/* Letters of the object's name that its event's name keeps, so that the stamp behind it fits. */
#define NAME_KEPT 200

void aw_kube_recorder_init(struct aw_kube_recorder *recorder, struct aw_kube *kube,
                           const struct aw_kube_server *server, const char *instance)
{
    *recorder = (struct aw_kube_recorder){.kube = kube, .v1 = !strcmp(server->events, "v1")};
    snprintf(recorder->instance, sizeof recorder->instance, "%s", instance);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    hash = aw_hash_text(hash, text);
    return aw_hash_byte(hash, 0xff); /* "ab","c" is not "a","bc" */
}

static uint64_t hash_of(const struct aw_kube_event *event)
{
    uint64_t hash = AW_HASH_BEGIN + event->warning;
    hash = hash_text(hash, event->kind->plural);
    hash = hash_text(hash, event->ns);
    hash = hash_text(hash, event->name);
    hash = hash_text(hash, event->uid);
    hash = hash_text(hash, event->reason);
    hash = hash_text(hash, event->action);
    hash = hash_text(hash, event->note);
    return hash ? hash : 1;
}

/* The note as the API takes it: short enough, and whole characters. */
static void cut_note(const char *note, char buf[AW_KUBE_NOTE_MAX])
{
    size_t len = strnlen(note, AW_KUBE_NOTE_MAX - 1);
    const size_t bad = aw_text_utf8_bad(note, len);
    memcpy(buf, note, bad < len ? bad : len);
    buf[bad < len ? bad : len] = '\0';
}

static json_t *body_of(const struct aw_kube_recorder *recorder, const struct aw_kube_event *event,
                       const char *ns, const char *name, int64_t wall_us)
{
    char note[AW_KUBE_NOTE_MAX], when[AW_KUBE_TIME_MAX], version[AW_KUBE_NAME_MAX * 2];
    const char *type = event->warning ? "Warning" : "Normal";
    cut_note(event->note, note);
    aw_kube_time_print(wall_us, when, sizeof when);
    json_t *about =
        json_pack("{s:s, s:s, s:s*, s:s, s:s*}", "apiVersion",
                  aw_kube_api_version(event->kind, version, sizeof version), "kind",
                  event->kind->kind, "namespace", event->ns && event->ns[0] ? event->ns : NULL,
                  "name", event->name, "uid", event->uid && event->uid[0] ? event->uid : NULL);
    if (!about)
        return NULL;
    if (recorder->v1)
        return json_pack("{s:s, s:s, s:{s:s, s:s}, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}",
                         "apiVersion", "events.k8s.io/v1", "kind", "Event", "metadata", "namespace",
                         ns, "name", name, "eventTime", when, "reportingController",
                         AW_KUBE_MANAGER, "reportingInstance", recorder->instance, "action",
                         event->action, "reason", event->reason, "type", type, "note", note,
                         "regarding", about);
    return json_pack("{s:s, s:s, s:{s:s, s:s}, s:s, s:s, s:i, s:{s:s}, s:s, s:s, s:s, s:o}",
                     "apiVersion", "v1", "kind", "Event", "metadata", "namespace", ns, "name", name,
                     "firstTimestamp", when, "lastTimestamp", when, "count", 1, "source",
                     "component", AW_KUBE_MANAGER, "reason", event->reason, "type", type, "message",
                     note, "involvedObject", about);
}

static enum aw_err patch_count(struct aw_kube_recorder *recorder, uint32_t slot, int64_t wall_us,
                               struct aw_diag *diag)
{
    const struct aw_kube_ref ref = {.kind =
                                        recorder->v1 ? &aw_kube_events_v1 : &aw_kube_events_core,
                                    .ns = recorder->recent[slot].ns,
                                    .name = recorder->recent[slot].name};
    const json_int_t count = recorder->recent[slot].count;
    char when[AW_KUBE_TIME_MAX];
    aw_kube_time_print(wall_us, when, sizeof when);
    json_t *patch = recorder->v1 ? json_pack("{s:{s:I, s:s}}", "series", "count", count,
                                             "lastObservedTime", when)
                                 : json_pack("{s:I, s:s}", "count", count, "lastTimestamp", when);
    if (!patch)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an event");
    enum aw_err err =
        aw_kube_patch(recorder->kube, &ref, AW_KUBE_PATCH_MERGE, patch, NULL, NULL, diag);
    json_decref(patch);
    recorder->patched += err == AW_OK;
    return err;
}

/* Where the same was said, or the place of what was said longest ago. */
static uint32_t slot_of(const struct aw_kube_recorder *recorder, uint64_t hash)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < AW_KUBE_RECENT_MAX; i++) {
        if (recorder->recent[i].hash == hash)
            return i;
        if (recorder->recent[i].said_us < recorder->recent[oldest].said_us)
            oldest = i;
    }
    return oldest;
}

enum aw_err aw_kube_record(struct aw_kube_recorder *recorder, const struct aw_kube_event *event,
                           struct aw_diag *diag)
{
    const struct aw_clock *clock = recorder->kube->options.clock;
    const int64_t now_us = aw_clock_monotonic_us(clock), wall_us = aw_clock_now_us(clock);
    const uint64_t hash = hash_of(event);
    const uint32_t slot = slot_of(recorder, hash);
    const char *ns = event->ns && event->ns[0] ? event->ns : "default";
    if (recorder->recent[slot].hash == hash &&
        now_us - recorder->recent[slot].said_us < AW_KUBE_EVENT_FORGET_US) {
        recorder->recent[slot].count++;
        recorder->recent[slot].said_us = now_us;
        if (now_us - recorder->recent[slot].sent_us < AW_KUBE_EVENT_HEARTBEAT_US) {
            recorder->kept_back++;
            return AW_OK;
        }
        recorder->recent[slot].sent_us = now_us;
        return patch_count(recorder, slot, wall_us, diag);
    }
    const struct aw_kube_ref ref = {
        .kind = recorder->v1 ? &aw_kube_events_v1 : &aw_kube_events_core, .ns = ns};
    char name[AW_KUBE_NAME_MAX];
    snprintf(name, sizeof name, "%.*s.%llx%04x", NAME_KEPT, event->name,
             (unsigned long long)wall_us, (unsigned)(hash & 0xffff));
    json_t *body = body_of(recorder, event, ns, name, wall_us);
    if (!body)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an event, or a text that is not UTF-8");
    const struct aw_kube_request request = {
        .method = "POST", .body = body, .timeout_us = AW_KUBE_EVENT_TIMEOUT_US};
    enum aw_err err = aw__kube_send_ref(recorder->kube, &ref, &request, NULL, NULL, NULL, diag);
    json_decref(body);
    if (err)
        return err;
    recorder->created++;
    recorder->recent[slot].hash = hash;
    recorder->recent[slot].count = 1;
    recorder->recent[slot].said_us = recorder->recent[slot].sent_us = now_us;
    snprintf(recorder->recent[slot].ns, sizeof recorder->recent[slot].ns, "%s", ns);
    snprintf(recorder->recent[slot].name, sizeof recorder->recent[slot].name, "%s", name);
    return AW_OK;
}
