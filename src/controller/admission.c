/* admission.c - the webhook as a controller: what it knows, its certificates, its Lease. */
#include "controller/admission.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/admission_internal.h"
#include "controller/admission_review.h"
#include "controller/status.h"
#include "kube/lease.h"
#include "kube/verbs.h"

#define AGAIN_US    5000000 /* after a failure */
#define LEASE_S     60
#define RENEW_CHECK 3600000000 /* between two looks at the age of the certificates */

enum { MANDATES, SETS, RANGES, KINDS };

static const struct aw_kube_kind webhooks = {"admissionregistration.k8s.io", "v1",
                                             "mutatingwebhookconfigurations",
                                             "MutatingWebhookConfiguration", false};

/* What is done now and then. */
struct duty {
    int64_t due_us;  /* monotonic */
    enum aw_err err; /* of the last time */
    struct aw_diag diag;
};

struct aw_admission {
    struct aw_kube *kube;
    struct aw_admission_config config;
    const struct aw_alloc *alloc;
    struct aw_kube_informer *informers[KINDS];
    struct aw__gate gate;
    struct aw__certs certs, next; /* what is served; what will be, once it is announced */
    bool has_next;
    bool needed;    /* an object has a size for new pods */
    bool serving;   /* listens, and stays so */
    bool announced; /* the API server trusts us, as far as we know */
    uint64_t renewed;
    struct duty opening, renewing, announcing, showing;
    char intent[AW_KUBE_PROJECTION_MAX + sizeof(struct aw__sized_object)];
};

static struct aw__certs_subject subject_of(const struct aw_admission *admission)
{
    return (struct aw__certs_subject){admission->config.service, admission->config.ns,
                                      admission->config.address};
}

/* --- what is known --- */

static const char *target_of(const struct aw_kube_item *item, char *buf, size_t size)
{
    char ns[AW_KUBE_NAME_MAX];
    const char *slash = strchr(item->key, '/');
    snprintf(ns, sizeof ns, "%.*s", slash ? (int)(slash - item->key) : 0, item->key);
    return aw__mpa_intent_target(item->data, ns, buf, size);
}

/* Whether an object has something to say about new pods. Of two about one target only the older
 * has: the recommender gives the younger no recommendation. */
static bool admits(const struct aw_kube_item *item)
{
    const struct aw__mpa_intent *intent = item ? item->data : NULL;
    return intent && aw__mpa_intent_admits(aw__mpa_intent_mode(intent)) && intent->time_us != 0;
}

/* Takes an object out, unless another one has taken its place. */
static void forget(struct aw__shared_table *table, const char *target, const char *key)
{
    const struct aw__sized_object *known = aw__shared_table_find(table, target);
    const char *slash = strchr(key, '/');
    if (known && !strcmp(known->name, slash ? slash + 1 : key))
        aw__shared_table_drop(table, target);
}

static void intent_changed(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                           const struct aw_kube_item *after)
{
    struct aw_admission *admission = ctx;
    struct aw__shared_table *table = &admission->gate.intents;
    struct aw__sized_object *known = (struct aw__sized_object *)admission->intent;
    char was[AW__TARGET_MAX] = "", is[AW__TARGET_MAX] = "";
    (void)change;
    if (admits(before))
        target_of(before, was, sizeof was);
    if (admits(after))
        target_of(after, is, sizeof is);
    if (was[0] && strcmp(was, is) != 0)
        forget(table, was, before->key);
    if (!is[0])
        return;
    const struct aw__mpa_intent *intent = after->data;
    admission->needed =
        admission->needed || intent->cpu_millicores >= 0 || intent->memory_bytes >= 0;
    const char *slash = strchr(after->key, '/');
    snprintf(known->name, sizeof known->name, "%s", slash ? slash + 1 : after->key);
    memcpy(known->intent, after->data, after->len);
    /* what does not fit is counted there, and pods of it are left as they are */
    (void)!aw__shared_table_put(table, is, known, sizeof *known + after->len);
}

static void set_changed(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                        const struct aw_kube_item *after)
{
    struct aw_admission *admission = ctx;
    const struct aw_kube_workload *set = after ? after->data : NULL;
    (void)change;
    if (set && !strcmp(aw_kube_span_text(set, set->owner_kind), aw_kube_deployments.kind)) {
        const char *name = aw_kube_span_text(set, set->owner_name);
        (void)!aw__shared_table_put(&admission->gate.sets, after->key, name, strlen(name) + 1);
    } else {
        aw__shared_table_drop(&admission->gate.sets, after ? after->key : before->key);
    }
}

/* All ranges of the namespace anew: they are few. */
static void range_changed(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                          const struct aw_kube_item *after)
{
    struct aw_admission *admission = ctx;
    const char *key = after ? after->key : before->key;
    const char *slash = strchr(key, '/');
    const size_t ns_len = slash ? (size_t)(slash - key) : 0;
    struct aw__limit_range all = aw__limit_range_none;
    const struct aw_kube_item *item;
    uint32_t at = 0, count = after != NULL;
    char ns[AW_KUBE_NAME_MAX];
    (void)change;
    snprintf(ns, sizeof ns, "%.*s", (int)ns_len, key);
    if (after)
        aw__limit_range_narrow(&all, after->data);
    while ((item = aw_kube_informer_walk(admission->informers[RANGES], &at))) {
        if (strncmp(item->key, key, ns_len + 1) != 0 || !strcmp(item->key, key))
            continue;
        aw__limit_range_narrow(&all, item->data);
        count++;
    }
    if (count)
        (void)!aw__shared_table_put(&admission->gate.ranges, ns, &all, sizeof all);
    else
        aw__shared_table_drop(&admission->gate.ranges, ns);
}

static enum aw_err follow(struct aw_admission *admission, struct aw_diag *diag)
{
    const struct aw_kube_informer_config configs[KINDS] = {
        [MANDATES] = {.query = {.kind = &aw_mpa_kind, .ns = admission->config.watch_ns},
                      .project = aw__mpa_intent_project,
                      .changed = intent_changed,
                      .objects_max = admission->config.objects_max},
        [SETS] = {.query = {.kind = &aw_kube_replicasets, .ns = admission->config.watch_ns},
                  .project = aw_kube_project_workload,
                  .changed = set_changed,
                  .objects_max = AW__ADMISSION_SETS_MAX},
        [RANGES] = {.query = {.kind = &aw__limit_ranges, .ns = admission->config.watch_ns},
                    .project = aw__limit_range_project,
                    .changed = range_changed,
                    .objects_max = AW__ADMISSION_RANGES_MAX},
    };
    for (int i = 0; i < KINDS; i++) {
        struct aw_kube_informer_config config = configs[i];
        config.ctx = admission;
        enum aw_err err =
            aw_kube_informer_open(&admission->informers[i], admission->kube, &config, diag);
        if (err)
            return err;
    }
    return AW_OK;
}

/* --- life --- */

static enum aw_err open_door(struct aw_admission *admission, struct aw_diag *diag)
{
    const struct aw_admission_config *config = &admission->config;
    enum aw_err err = AW_OK;
    if (admission->gate.listener < 0)
        err = aw__gate_listen(&admission->gate, config->address, config->port, diag);
    err = err ? err : aw__gate_serve(&admission->gate, &admission->certs, diag);
    admission->serving = !err;
    return err;
}

enum aw_err aw_admission_new(struct aw_admission **ret_admission, struct aw_kube *kube,
                             const struct aw_kube_server *server,
                             const struct aw_admission_config *config, const struct aw_alloc *alloc,
                             struct aw_diag *diag)
{
    struct aw_admission *admission;
    bool made = false;
    (void)server;
    if (!config->service || !config->ns || !config->state_dir)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "a webhook needs a Service, its namespace and a folder");
    admission = aw_alloc_new(alloc, 1, sizeof *admission);
    if (!admission)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a webhook");
    admission->kube = kube;
    admission->config = *config;
    admission->alloc = alloc;
    admission->gate.listener = -1;
    struct aw_admission_config *mine = &admission->config;
    mine->instance = mine->instance ? mine->instance : "aware";
    mine->objects_max = mine->objects_max ? mine->objects_max : AW_ADMISSION_OBJECTS_MAX;
    const struct aw__certs_subject subject = subject_of(admission);
    enum aw_err err = aw__certs_load(&admission->certs, mine->state_dir, &subject,
                                     aw_clock_now_us(mine->clock), &made, diag);
    if (!err)
        err = aw__gate_open(&admission->gate, mine->objects_max, mine->clock, alloc, diag);
    if (!err)
        err = follow(admission, diag);
    if (!err && !mine->when_needed)
        err = open_door(admission, diag);
    admission->renewed += made;
    admission->renewing.due_us = aw_clock_monotonic_us(mine->clock) + RENEW_CHECK;
    if (err)
        aw_admission_free(admission);
    else
        *ret_admission = admission;
    return err;
}

void aw_admission_free(struct aw_admission *admission)
{
    if (!admission)
        return;
    aw__gate_close(&admission->gate); /* nobody looks anything up any more */
    for (int i = 0; i < KINDS; i++)
        aw_kube_informer_close(admission->informers[i]);
    aw__certs_deinit(&admission->certs);
    aw__certs_deinit(&admission->next);
    aw_alloc_free(admission->alloc, admission);
}

uint16_t aw_admission_port(const struct aw_admission *admission)
{
    return admission->serving ? admission->gate.port : 0;
}

bool aw_admission_synced(const struct aw_admission *admission)
{
    for (int i = 0; i < KINDS; i++)
        if (!aw_kube_informer_state(admission->informers[i])->synced)
            return false;
    return true;
}

struct aw_admission_counts aw_admission_counts(struct aw_admission *admission)
{
    const struct aw__gate *gate = &admission->gate;
    /* first the parts, then the whole, which is counted before them: it is never less */
    const uint64_t patched = gate->patched, unread = gate->unread;
    return (struct aw_admission_counts){
        .reviews = gate->reviews,
        .patched = patched,
        .unread = unread,
        .refused = gate->refused,
        .renewed = admission->renewed,
        .slowest_us = gate->slowest_us,
        .total_us = gate->total_us,
    };
}

/* --- certificates and their announcement --- */

/* A caBundle that is to have an authority. */
struct announcement {
    const char *ca;
    int64_t now_us;
    char old[AW__BUNDLE_MAX], merged[AW__BUNDLE_MAX];
    char encoded[AW__BUNDLE_MAX / 3 * 4 + 8];
};

/* The bytes of a caBundle, with a NUL; returns their number, 0 for what is none. */
static size_t decode(const char *text, char buf[AW__BUNDLE_MAX])
{
    size_t len = strlen(text);
    buf[0] = '\0';
    if (len % 4 != 0 || len / 4 * 3 >= AW__BUNDLE_MAX)
        return 0;
    const int decoded =
        EVP_DecodeBlock((unsigned char *)buf, (const unsigned char *)text, (int)len);
    if (decoded <= 0)
        return 0;
    size_t count = (size_t)decoded;
    while (len > 0 && text[len - 1] == '=') { /* the padding is counted as zeros */
        len--;
        count--;
    }
    buf[count] = '\0';
    return count;
}

/* Whether any webhook of the object lacked it, and has it now. */
static enum aw_err edit_bundles(struct announcement *announcement, json_t *object,
                                bool *ret_changed)
{
    json_t *webhook;
    size_t i;
    *ret_changed = false;
    json_array_foreach(json_object_get(object, "webhooks"), i, webhook)
    {
        json_t *client = json_object_get(webhook, "clientConfig");
        if (!json_is_object(client))
            continue;
        const size_t len = decode(aw_kube_text_at(client, "caBundle"), announcement->old);
        if (!aw__bundle_merge(announcement->old, len, announcement->ca, announcement->now_us,
                              announcement->merged, sizeof announcement->merged))
            continue;
        EVP_EncodeBlock((unsigned char *)announcement->encoded,
                        (const unsigned char *)announcement->merged,
                        (int)strlen(announcement->merged));
        if (json_object_set_new(client, "caBundle", json_string(announcement->encoded)) != 0)
            return AW_ERR_NOMEM;
        *ret_changed = true;
    }
    return AW_OK;
}

/* Reads the configuration and patches what it lacks: with its version, since a list is replaced as
 * a whole, and by a patch, since that is the lesser right. */
static enum aw_err edit_webhook(struct aw_admission *admission, struct announcement *announcement,
                                struct aw_diag *diag)
{
    const struct aw_kube_ref ref = {&webhooks, NULL, admission->config.webhook, NULL};
    json_t *object = NULL, *patch = NULL;
    bool changed = false;
    enum aw_err err = aw_kube_get(admission->kube, &ref, &object, NULL, diag);
    err = err ? err : edit_bundles(announcement, object, &changed);
    if (!err && changed) {
        patch = json_pack("{s:{s:s}, s:O}", "metadata", "resourceVersion",
                          aw_kube_text_at(object, "metadata.resourceVersion"), "webhooks",
                          json_object_get(object, "webhooks"));
        err = patch ? aw_kube_patch(admission->kube, &ref, AW_KUBE_PATCH_MERGE, patch, NULL, NULL,
                                    diag)
                    : aw_fail(diag, AW_ERR_NOMEM, "no memory for a patch");
    }
    json_decref(patch);
    json_decref(object);
    return err;
}

static enum aw_err announce(struct aw_admission *admission, struct aw_diag *diag)
{
    struct announcement *announcement;
    if (!admission->config.webhook) {
        admission->announced = true; /* somebody else sees to it */
        return AW_OK;
    }
    announcement = malloc(sizeof *announcement);
    if (!announcement)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a caBundle");
    announcement->ca = admission->has_next ? admission->next.ca : admission->certs.ca;
    announcement->now_us = aw_clock_now_us(admission->config.clock);
    enum aw_err err = AW_ERR_CONFLICT;
    for (uint32_t i = 0; i < AW_KUBE_UPDATE_ATTEMPTS_MAX && err == AW_ERR_CONFLICT; i++)
        err = edit_webhook(admission, announcement, diag);
    free(announcement);
    admission->announced = !err;
    return err;
}

/* Makes the next certificates in time, and serves them once their authority is known. */
static enum aw_err renew(struct aw_admission *admission, struct aw_diag *diag)
{
    const int64_t now_us = aw_clock_now_us(admission->config.clock);
    const struct aw__certs_subject subject = subject_of(admission);
    enum aw_err err = AW_OK;
    if (!admission->has_next) {
        if (!aw__certs_due(&admission->certs, now_us))
            return AW_OK;
        err = aw__certs_renew(&admission->certs, &subject, now_us, &admission->next, diag);
        admission->has_next = !err;
    }
    err = err ? err : announce(admission, diag);
    err = err ? err : aw__certs_save(&admission->next, admission->config.state_dir, diag);
    err = err ? err : aw__gate_serve(&admission->gate, &admission->next, diag);
    if (err)
        return err;
    admission->certs = admission->next;
    admission->has_next = false;
    admission->renewed++;
    return AW_OK;
}

/* --- the Lease --- */

static enum aw_err show_life(struct aw_admission *admission, struct aw_diag *diag)
{
    const char *ns = admission->config.lease_ns, *name = admission->config.lease_name;
    const struct aw_kube_ref ref = {&aw_kube_leases, ns, name, NULL};
    const struct aw_kube_ref all = {&aw_kube_leases, ns, NULL, NULL};
    struct aw_kube_lease lease = {.duration_s = LEASE_S};
    json_t *object = NULL;
    if (!ns || !name || !admission->announced || !aw_admission_synced(admission))
        return AW_OK; /* who knows nothing yet, or is not asked, sizes nothing */
    enum aw_err err = aw_kube_get(admission->kube, &ref, &object, NULL, diag);
    if (!err)
        err = aw_kube_lease_read(object, &lease, diag);
    const bool there = !err;
    json_decref(object);
    if (err && err != AW_ERR_NOTFOUND)
        return err;
    snprintf(lease.holder, sizeof lease.holder, "%s", admission->config.instance);
    lease.renewed_us = aw_clock_now_us(admission->config.clock);
    object = aw_kube_lease_write(&lease, ns, name);
    if (!object)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a Lease");
    err = there ? aw_kube_replace(admission->kube, &ref, object, NULL, NULL, diag)
                : aw_kube_create(admission->kube, &all, object, NULL, NULL, diag);
    json_decref(object);
    /* another process of ours was faster: that is as good */
    return err == AW_ERR_CONFLICT || err == AW_ERR_EXISTS ? AW_OK : err;
}

/* --- the loop --- */

/* Does `what` when it is due. A failure is told until it is over, and tried again soon. */
static enum aw_err in_time(struct aw_admission *admission, struct duty *duty, int64_t period_us,
                           enum aw_err (*what)(struct aw_admission *, struct aw_diag *),
                           struct aw_diag *diag)
{
    const int64_t now_us = aw_clock_monotonic_us(admission->config.clock);
    if (now_us >= duty->due_us) {
        duty->diag = (struct aw_diag){0};
        duty->err = what(admission, &duty->diag);
        duty->due_us = now_us + (duty->err ? AGAIN_US : period_us);
    }
    if (duty->err && diag)
        *diag = duty->diag;
    return duty->err;
}

enum aw_err aw_admission_step(struct aw_admission *admission, struct aw_diag *diag)
{
    enum aw_err first = AW_OK, err;
    for (int i = 0; i < KINDS; i++) {
        err = aw_kube_informer_step(admission->informers[i], first ? NULL : diag);
        if (err == AW_ERR_INTERRUPTED)
            return err;
        first = first ? first : err;
    }
    if (!admission->serving) {
        if (!admission->needed)
            return first;
        err = in_time(admission, &admission->opening, AGAIN_US, open_door, first ? NULL : diag);
        if (err)
            return first ? first : err;
    }
    err = in_time(admission, &admission->renewing, RENEW_CHECK, renew, first ? NULL : diag);
    first = first ? first : err;
    err = in_time(admission, &admission->announcing, AW_ADMISSION_BUNDLE_CHECK_US, announce,
                  first ? NULL : diag);
    first = first ? first : err;
    err = in_time(admission, &admission->showing, AW_ADMISSION_LEASE_RENEW_US, show_life,
                  first ? NULL : diag);
    first = first ? first : err;
    aw__gate_tidy(&admission->gate);
    return first;
}

int64_t aw_admission_due(const struct aw_admission *admission)
{
    const struct duty *duties[] = {&admission->renewing, &admission->announcing,
                                   &admission->showing};
    int64_t due_us = admission->needed ? admission->opening.due_us : INT64_MAX;
    for (size_t i = 0; admission->serving && i < sizeof duties / sizeof *duties; i++)
        due_us = i == 0 || duties[i]->due_us < due_us ? duties[i]->due_us : due_us;
    for (int i = 0; i < KINDS; i++) {
        const int64_t one_us = aw_kube_informer_due(admission->informers[i]);
        due_us = one_us < due_us ? one_us : due_us;
    }
    return due_us;
}
