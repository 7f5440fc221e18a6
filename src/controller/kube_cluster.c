/* kube.c - workloads of a Kubernetes cluster, as samples; what is asked of them is remembered. */
#include "controller/kube_cluster.h"
#include "base/hash.h"
#include "base/hash_table.h"

#include <math.h>
#include <string.h>

#define SAME_SHARE 0.10 /* sizes that differ by less are left alone by who carries plans out */

/* A pod that was seen. Kubernetes counts restarts for ever; what is new is a difference. */
struct known {
    uint64_t hash;   /* of its uid */
    int64_t seen_us; /* last */
    int64_t restarts;
    int64_t ended_us; /* of the last end that was counted */
    uint32_t id, kills;
};

struct slot {
    struct aw_kubecluster_place place;
    bool bound;
    bool seen;    /* there has been a sample */
    bool sized;   /* and it had a size */
    bool based;   /* `base` is known: not right after a restart */
    uint32_t way; /* AW_PLAN_*: what was asked and is not there yet */
    struct aw_plan asked;
    int64_t asked_us;                    /* AW_NEVER: nothing was */
    int64_t moved_us;                    /* when what was asked last came nearer */
    uint32_t resized;                    /* pods that had the size asked for, then */
    struct aw_plan base;                 /* as the cluster wanted it when it was asked */
    struct aw_plan there;                /* as it wants it now */
    uint32_t replicas;                   /* that there are */
    char container[AW_CLUSTER_NAME_MAX]; /* a label by the API's rules: 63 characters */
};

struct aw_kubecluster {
    struct aw_kubecluster_config config;
    struct slot *slot;          /* [workloads_max] */
    struct aw_hash_table known; /* of struct known */
    uint32_t next_id;
    struct aw_pod shown[AW_CLUSTER_PODS_MAX];
    const struct aw_alloc *alloc;
};

static int64_t now_of(const struct aw_kubecluster *cluster)
{
    return aw_clock_now_us(cluster->config.clock);
}

/* --- who is who ------------------------------------------------------------------------------- */

/* NULL: there are more pods than were foreseen. `ret_new`: it was not known. */
static struct known *known_take(struct aw_kubecluster *cluster, const char *uid, bool *ret_new)
{
    const uint64_t hash = aw_hash_text(AW_HASH_BEGIN, uid);
    struct known *known = aw_hash_table_find(&cluster->known, hash);
    *ret_new = !known;
    if (!known && (known = aw_hash_table_add(&cluster->known, hash)))
        known->id = cluster->next_id++;
    return known;
}

void aw_kubecluster_tidy(struct aw_kubecluster *cluster)
{
    const int64_t oldest = now_of(cluster) - AW_KUBECLUSTER_FORGET_US;
    for (uint32_t i = 0; i < cluster->known.places;) {
        struct known *known = aw_hash_table_at(&cluster->known, i);
        if (known && known->seen_us < oldest)
            aw_hash_table_drop(&cluster->known,
                               known); /* another may have moved here: look again */
        else
            i++;
    }
}

/* --- one pod ---------------------------------------------------------------------------------- */

static const struct aw_kube_container *container_of(const struct aw_kube_pod *pod,
                                                    const struct aw_kubecluster_place *place)
{
    const bool any = !*place->container || !strcmp(place->container, "*");
    for (uint32_t i = 0; i < pod->containers.count; i++) {
        const struct aw_kube_container *c = aw_kube_span_item(pod, pod->containers, sizeof *c, i);
        if (any || !strcmp(aw_kube_span_text(pod, c->name), place->container))
            return c;
    }
    return NULL;
}

static const struct aw_kube_container_status *status_of(const struct aw_kube_pod *pod,
                                                        const char *container)
{
    for (uint32_t i = 0; i < pod->statuses.count; i++) {
        const struct aw_kube_container_status *s =
            aw_kube_span_item(pod, pod->statuses, sizeof *s, i);
        if (!strcmp(aw_kube_span_text(pod, s->name), container))
            return s;
    }
    return NULL;
}

static bool text_is(const struct aw_kube_pod *pod, struct aw_kube_span span, const char *text)
{
    return !strcmp(aw_kube_span_text(pod, span), text);
}

/* Whether it is one of the replicas: those that ended, or are about to, no longer are. */
static bool counts(const struct aw_kube_pod *pod)
{
    return !pod->deleting && !text_is(pod, pod->phase, "Succeeded") &&
           !text_is(pod, pod->phase, "Failed");
}

/* The request decides where the pod may run and what HPA calls utilisation; a limit alone is the
 * request too (the API's own default). Where a resize waits for its node, the kubelet says what the
 * container has until then. */
static int64_t size_of(int64_t request, int64_t limit, int64_t real, bool waits, int64_t unsaid)
{
    if (waits && real > 0)
        return real;
    return request > 0 ? request : limit > 0 ? limit : unsaid;
}

static struct aw_figure figure_of(const struct aw_kube_figure *figure, int64_t now_us)
{
    if (figure->at_us == AW_KUBE_NEVER || !isfinite(figure->value) || figure->value < 0)
        return (struct aw_figure){.at_us = AW_NEVER};
    return (struct aw_figure){.value = figure->value,
                              .at_us = figure->at_us < now_us ? figure->at_us : now_us};
}

/* Restarts and kills since the last look. A pod that the program finds as it begins has a past that
 * is not news; one that comes later was made since. */
static void ends_count(struct known *known, bool fresh, const struct slot *slot,
                       const struct aw_kube_container_status *status, bool killed,
                       struct aw_sample *sample)
{
    const int64_t restarts = status ? status->restarts : 0;
    if (fresh) {
        known->restarts = slot->seen ? 0 : restarts;
        known->kills = !slot->seen && killed;
        known->ended_us = slot->seen || !status ? 0 : status->ended_us;
    }
    /* a container that ended and has not been started again has not been counted yet */
    const bool ended = status && status->ended_us > known->ended_us;
    if (restarts > known->restarts) {
        const int64_t more = restarts - known->restarts;
        sample->restarts += more < UINT16_MAX ? (uint32_t)more : UINT16_MAX;
    }
    if (killed && ended) {
        known->kills++;
        sample->oom_kills++;
    }
    if (ended)
        known->ended_us = status->ended_us;
    known->restarts = restarts;
}

/* When something began, by the cluster's clock. What lies in our future has no age that we know: it
 * counts as long ago, or its pod would be taken for young, and not be believed, until our clock has
 * come that far. */
static int64_t since(int64_t at_us, int64_t now_us)
{
    return at_us > now_us + AW_KUBECLUSTER_AHEAD_US ? 1 : at_us;
}

/* Adds the pod to the sample. */
static void pod_add(struct aw_kubecluster *cluster, struct slot *slot,
                    const struct aw_kubecluster_pod *seen, int64_t now_us, struct aw_sample *sample)
{
    const struct aw_kube_pod *pod = seen->pod;
    const struct aw_kube_container *container = container_of(pod, &slot->place);
    const char *name = container ? aw_kube_span_text(pod, container->name) : "";
    const struct aw_kube_container_status *status = status_of(pod, name);
    const bool waits = *aw_kube_span_text(pod, pod->resize_pending) || pod->resizing;
    const bool placed = *aw_kube_span_text(pod, pod->node) != '\0';
    const bool runs =
        text_is(pod, pod->phase, "Running") && status && !*aw_kube_span_text(pod, status->waiting);
    const bool ready = pod->ready && text_is(pod, pod->phase, "Running");
    const bool killed = status && text_is(pod, status->ended, "OOMKilled");
    bool fresh = false;
    struct known *known = known_take(cluster, seen->uid, &fresh);
    if (known) {
        ends_count(known, fresh, slot, status, killed, sample);
        known->seen_us = now_us;
    }
    sample->replicas_ready += ready;
    sample->replicas_pending += !ready && !placed;
    sample->replicas_starting += !ready && placed;
    if (sample->pod_count == AW_CLUSTER_PODS_MAX)
        return;
    const int64_t started =
        since(seen->started_us > 0 ? seen->started_us : pod->created_us, now_us);
    cluster->shown[sample->pod_count++] = (struct aw_pod){
        .id = known ? known->id
                    : (uint32_t)aw_hash_text(AW_HASH_BEGIN, seen->uid) | UINT32_C(1) << 31,
        .phase = ready || runs ? AW_POD_RUNNING
                 : placed      ? AW_POD_STARTING
                               : AW_POD_PENDING,
        .ready = ready,
        .started_us = (ready || runs) && started > 0 ? started : AW_NEVER,
        .ready_change_us =
            since(seen->ready_change_us > 0 ? seen->ready_change_us : pod->created_us, now_us),
        .cpu_millicores =
            size_of(container ? container->cpu_request_millicores : -1,
                    container ? container->cpu_limit_millicores : -1,
                    status ? status->cpu_limit_millicores : -1, waits, slot->place.cpu_millicores),
        .memory_bytes =
            size_of(container ? container->memory_request_bytes : -1,
                    container ? container->memory_limit_bytes : -1,
                    status ? status->memory_limit_bytes : -1, waits, slot->place.memory_bytes),
        .cpu_cores_used = figure_of(&seen->used.cpu_cores, now_us),
        .memory_bytes_used = figure_of(&seen->used.memory_bytes, now_us),
        .oom_kill_count = known ? known->kills : 0,
        .restart_count =
            known && known->restarts > 0
                ? (uint32_t)(known->restarts < UINT32_MAX ? known->restarts : UINT32_MAX)
                : 0,
    };
    if (*name && strcmp(slot->container, name) != 0) {
        memset(slot->container, 0, sizeof slot->container);
        memcpy(slot->container, name, strnlen(name, sizeof slot->container - 1));
    }
}

/* --- all pods together ------------------------------------------------------------------------ */

/* One figure over all ready replicas. */
struct sum {
    double total, highest;
    uint32_t reported, young; /* young: silent, and may be */
    int64_t oldest_us;
    bool silent; /* somebody who should have did not report */
};

static void sum_add(struct sum *sum, struct aw_figure figure, const struct aw_pod *pod,
                    int64_t now_us)
{
    if (figure.at_us == AW_NEVER) {
        const bool young = now_us - pod->ready_change_us < AW_KUBECLUSTER_YOUNG_US;
        sum->young += young;
        sum->silent = sum->silent || !young;
        return;
    }
    sum->oldest_us =
        sum->reported == 0 || figure.at_us < sum->oldest_us ? figure.at_us : sum->oldest_us;
    sum->highest = sum->reported == 0 || figure.value > sum->highest ? figure.value : sum->highest;
    sum->total += figure.value;
    sum->reported++;
}

static bool sum_known(const struct sum *sum)
{
    return sum->reported > 0 && !sum->silent;
}

static struct aw_figure sum_mean(const struct sum *sum)
{
    if (!sum_known(sum))
        return (struct aw_figure){.at_us = AW_NEVER};
    return (struct aw_figure){.value = sum->total / sum->reported, .at_us = sum->oldest_us};
}

static void usage_sum(const struct aw_kubecluster_view *view, int64_t now_us,
                      struct aw_sample *sample)
{
    struct sum cpu = {0}, memory = {0}, throttled = {0};
    uint32_t at = 0;
    for (uint32_t i = 0; i < view->pod_count && at < sample->pod_count; i++) {
        if (!counts(view->pods[i].pod))
            continue;
        const struct aw_pod *pod = &sample->pods[at++];
        if (!pod->ready)
            continue;
        sum_add(&cpu, pod->cpu_cores_used, pod, now_us);
        sum_add(&memory, pod->memory_bytes_used, pod, now_us);
        sum_add(&throttled, figure_of(&view->pods[i].used.throttled_share, now_us), pod, now_us);
    }
    sample->cpu_cores_used = sum_mean(&cpu);
    sample->cpu_cores_used.value *= cpu.reported + cpu.young;
    sample->memory_bytes_used = sum_mean(&memory);
    sample->memory_bytes_peak = sum_mean(&memory);
    if (sum_known(&memory))
        sample->memory_bytes_peak.value = memory.highest;
    sample->throttled_share = sum_mean(&throttled);
    if (sample->throttled_share.value > 1)
        sample->throttled_share.value = 1;
}

/* Replicas that should have reported by now. */
static uint32_t grown_up(const struct aw_sample *sample, int64_t now_us)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sample->pod_count; i++)
        count += sample->pods[i].ready &&
                 now_us - sample->pods[i].ready_change_us >= AW_KUBECLUSTER_YOUNG_US;
    return count;
}

/* A figure that was made from pods, and not from all that should have reported, is missing. One
 * that was not made from pods at all is a mesh's or an ingress's. */
static struct aw_figure service_figure(const struct aw_kube_figure *figure, uint32_t expected,
                                       int64_t now_us)
{
    if (figure->pods > 0 && figure->pods < expected)
        return (struct aw_figure){.at_us = AW_NEVER};
    return figure_of(figure, now_us);
}

static void service_take(const struct aw_kube_workload_metrics *service, int64_t now_us,
                         struct aw_sample *sample)
{
    const uint32_t expected = grown_up(sample, now_us);
#define TAKE(name) service_figure(&service->name, expected, now_us)
    sample->arrivals_per_s = TAKE(requests_per_s);
    sample->completions_per_s = sample->arrivals_per_s;
    sample->errors_per_s = TAKE(errors_per_s);
    if (sample->completions_per_s.at_us != AW_NEVER && sample->errors_per_s.at_us != AW_NEVER)
        sample->completions_per_s.value =
            fmax(0, sample->completions_per_s.value - sample->errors_per_s.value);
    sample->in_flight = TAKE(in_flight);
    sample->latency_us_mean = TAKE(latency_us_mean);
    sample->latency_us_p50 = TAKE(latency_us_p50);
    sample->latency_us_p95 = TAKE(latency_us_p95);
    sample->latency_us_p99 = TAKE(latency_us_p99);
    sample->inside_us_p50 = sample->inside_us_p99 = (struct aw_figure){.at_us = AW_NEVER};
#undef TAKE
}

/* --- what is wanted --------------------------------------------------------------------------- */

static bool same_size(int64_t a, int64_t b)
{
    const double larger = (double)(a > b ? a : b);
    return fabs((double)(a - b)) <= SAME_SHARE * larger;
}

static bool has_size(const struct aw_pod *pod, const struct aw_plan *plan, uint32_t which)
{
    return (!(which & AW_PLAN_CPU) || same_size(pod->cpu_millicores, plan->cpu_millicores)) &&
           (!(which & AW_PLAN_MEMORY) || same_size(pod->memory_bytes, plan->memory_bytes));
}

/* What the cluster wants by itself: its scale, and the size of the pod that was made last. */
static void there_take(struct slot *slot, const struct aw_kubecluster_view *view,
                       const struct aw_sample *sample)
{
    const struct aw_pod *youngest = NULL;
    int64_t youngest_us = INT64_MIN;
    uint32_t at = 0;
    for (uint32_t i = 0; i < view->pod_count && at < sample->pod_count; i++) {
        if (!counts(view->pods[i].pod))
            continue;
        const struct aw_pod *pod = &sample->pods[at++];
        if (view->pods[i].pod->created_us >= youngest_us) {
            youngest_us = view->pods[i].pod->created_us;
            youngest = pod;
        }
    }
    slot->there.replicas = view->replicas_wanted < 0            ? 0
                           : view->replicas_wanted < UINT32_MAX ? view->replicas_wanted
                                                                : UINT32_MAX;
    slot->replicas = sample->replicas_ready + sample->replicas_pending + sample->replicas_starting;
    if (!youngest)
        return;
    slot->there.cpu_millicores = youngest->cpu_millicores;
    slot->there.memory_bytes = youngest->memory_bytes;
    slot->sized = true;
}

/* Looks at what was asked: is it there, is it given up, has somebody else come in between? */
static void way_look(struct slot *slot, const struct aw_sample *sample, int64_t patience_us,
                     int64_t now_us)
{
    const uint32_t sizes = slot->way & AW_PLAN_SIZES;
    if (!slot->based)
        slot->base = slot->there;
    slot->based = true;
    if (slot->way & AW_PLAN_REPLICAS) {
        const int64_t wanted = slot->there.replicas;
        if (wanted == slot->asked.replicas || wanted != slot->base.replicas)
            slot->way &= ~(uint32_t)AW_PLAN_REPLICAS;
    }
    if (sizes) {
        uint32_t resized = 0;
        for (uint32_t i = 0; i < sample->pod_count; i++)
            resized += has_size(&sample->pods[i], &slot->asked, sizes);
        if (resized == sample->pod_count && resized > 0)
            slot->way &= ~sizes;
        else if (resized > slot->resized)
            slot->moved_us = now_us;
        slot->resized = resized;
    }
    if (now_us - slot->moved_us > patience_us)
        slot->way &= slot->place.new_pods_only ? (uint32_t)AW_PLAN_SIZES : 0;
}

static struct aw_plan wanted_of(const struct slot *slot)
{
    struct aw_plan asked = slot->asked;
    asked.set = slot->way;
    struct aw_plan wanted = aw_plan_over(&asked, &slot->there);
    wanted.set = slot->way;
    return wanted;
}

/* --- the contract ----------------------------------------------------------------------------- */

static uint32_t kube_capabilities(const void *self)
{
    const struct aw_kubecluster *cluster = self;
    return cluster->config.in_place ? AW_CLUSTER_IN_PLACE_RESIZE : 0;
}

static enum aw_err kube_observe(void *self, uint32_t workload, int64_t deadline_us,
                                struct aw_sample *ret_sample)
{
    struct aw_kubecluster *cluster = self;
    struct aw_kubecluster_view view = {0};
    (void)deadline_us; /* nothing here waits */
    if (workload >= cluster->config.workloads_max || !cluster->slot[workload].bound)
        return AW_ERR_NODATA;
    struct slot *slot = &cluster->slot[workload];
    const enum aw_err err =
        cluster->config.source.look(cluster->config.source.ctx, workload, &view);
    if (err)
        return err;
    const int64_t now_us = now_of(cluster);
    struct aw_sample sample = {.at_us = now_us,
                               .disk_bytes_per_s.at_us = AW_NEVER,
                               .net_bytes_per_s.at_us = AW_NEVER,
                               .pods = cluster->shown};
    for (uint32_t i = 0; i < view.pod_count; i++)
        if (counts(view.pods[i].pod))
            pod_add(cluster, slot, &view.pods[i], now_us, &sample);
    there_take(slot, &view, &sample);
    slot->seen = true;
    if (!slot->sized)
        return AW_ERR_NODATA; /* no pod has ever been seen: nobody knows its size */
    if (slot->way)
        way_look(slot, &sample, cluster->config.patience_us, now_us);
    const struct aw_plan wanted = wanted_of(slot);
    memcpy(sample.wanted, wanted.amount, sizeof sample.wanted);
    sample.rollout = view.rolling || ((slot->way & AW_PLAN_SIZES) && !slot->place.new_pods_only);
    usage_sum(&view, now_us, &sample);
    service_take(&view.service, now_us, &sample);
    *ret_sample = sample;
    return AW_OK;
}

static enum aw_err kube_apply(void *self, uint32_t workload, const struct aw_plan *plan,
                              int64_t deadline_us)
{
    struct aw_kubecluster *cluster = self;
    (void)deadline_us;
    if (workload >= cluster->config.workloads_max || !cluster->slot[workload].bound)
        return AW_ERR_NOTFOUND;
    struct slot *slot = &cluster->slot[workload];
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        AW_ASSERT(!(plan->set & AW_PLAN_SIZES & AW_PLAN_BIT(r)) || plan->amount[r] > 0);
    aw_kubecluster_remind(cluster, workload, plan, now_of(cluster));
    slot->base = slot->there;
    slot->based = true;
    return AW_OK;
}

static enum aw_err kube_advance(void *self, int64_t until_us)
{
    struct aw_kubecluster *cluster = self;
    const struct aw_clock *clock = cluster->config.clock;
    for (int64_t left; (left = until_us - now_of(cluster)) > 0;) {
        const enum aw_err err = aw_clock_sleep_until(clock, aw_clock_monotonic_us(clock) + left);
        if (err)
            return err;
    }
    return AW_OK;
}

static int64_t kube_now_us(const void *self)
{
    return now_of(self);
}

static void kube_free(void *self)
{
    aw_kubecluster_free(self);
}

static const struct aw_cluster_ops kube_ops = {.name = "kubernetes",
                                               .capabilities = kube_capabilities,
                                               .observe = kube_observe,
                                               .apply = kube_apply,
                                               .advance = kube_advance,
                                               .now_us = kube_now_us,
                                               .free = kube_free};

struct aw_cluster aw_kubecluster_cluster(struct aw_kubecluster *cluster)
{
    return (struct aw_cluster){.ops = &kube_ops, .self = cluster};
}

/* --- made, bound, asked ----------------------------------------------------------------------- */

enum aw_err aw_kubecluster_new(const struct aw_kubecluster_config *config,
                               const struct aw_alloc *alloc, struct aw_kubecluster **ret,
                               struct aw_diag *diag)
{
    if (config->workloads_max == 0 || config->workloads_max > AW_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u workloads, found %u",
                       AW_WORKLOADS_MAX, config->workloads_max);
    struct aw_kubecluster *cluster = aw_alloc_new(alloc, 1, sizeof *cluster);
    if (!cluster)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a cluster");
    cluster->config = *config;
    cluster->alloc = alloc;
    if (cluster->config.pods_max == 0)
        cluster->config.pods_max = AW_KUBECLUSTER_PODS;
    if (cluster->config.patience_us == 0)
        cluster->config.patience_us = AW_KUBECLUSTER_PATIENCE_US;
    cluster->slot = aw_alloc_new(alloc, config->workloads_max, sizeof *cluster->slot);
    const uint32_t pods_max = cluster->config.pods_max;
    if (!cluster->slot ||
        aw_hash_table_init(&cluster->known, sizeof(struct known), pods_max, pods_max, alloc)) {
        aw_kubecluster_free(cluster);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u workloads", config->workloads_max);
    }
    *ret = cluster;
    return AW_OK;
}

void aw_kubecluster_free(struct aw_kubecluster *cluster)
{
    if (!cluster)
        return;
    aw_hash_table_deinit(&cluster->known);
    aw_alloc_free(cluster->alloc, cluster->slot);
    aw_alloc_free(cluster->alloc, cluster);
}

void aw_kubecluster_bind(struct aw_kubecluster *cluster, uint32_t workload,
                         const struct aw_kubecluster_place *place)
{
    AW_ASSERT(workload < cluster->config.workloads_max);
    AW_ASSERT(place->cpu_millicores > 0 && place->memory_bytes > 0);
    struct slot *slot = &cluster->slot[workload];
    if (!slot->bound)
        *slot = (struct slot){.bound = true, .asked_us = AW_NEVER};
    slot->place = *place;
}

void aw_kubecluster_loose(struct aw_kubecluster *cluster, uint32_t workload)
{
    AW_ASSERT(workload < cluster->config.workloads_max);
    cluster->slot[workload] = (struct slot){.bound = false};
}

void aw_kubecluster_remind(struct aw_kubecluster *cluster, uint32_t workload,
                           const struct aw_plan *plan, int64_t at_us)
{
    AW_ASSERT(workload < cluster->config.workloads_max);
    struct slot *slot = &cluster->slot[workload];
    slot->asked = aw_plan_over(plan, &slot->asked);
    if (plan->set & AW_PLAN_SIZES)
        slot->resized = 0;
    slot->way |= plan->set;
    slot->based = false;
    if (plan->set)
        slot->asked_us = slot->moved_us = at_us;
}

enum aw_err aw_kubecluster_meant(const struct aw_kubecluster *cluster, uint32_t workload,
                                 struct aw_kubecluster_meant *ret)
{
    AW_ASSERT(workload < cluster->config.workloads_max);
    const struct slot *slot = &cluster->slot[workload];
    if (!slot->bound || !slot->sized)
        return AW_ERR_NODATA;
    *ret = (struct aw_kubecluster_meant){
        .at_us = slot->asked_us, .replicas = slot->replicas, .container = slot->container};
    ret->plan = wanted_of(slot);
    return AW_OK;
}
