/* scan.c - the order of a scan, and what follows from what was found. */
#include "kube/scan_internal.h"

#include <math.h>
#include <string.h>

static const struct {
    uint32_t weight;
    const char *text;
} risks[AW_KUBE_RISKS] = {
#define X(name, weight, text) {weight, text},
    AW_KUBE_RISK_MAP(X)
#undef X
};

const char *aw_kube_risk_text(enum aw_kube_risk risk)
{
    return risks[risk].text;
}

/* --- usage --- */

void aw__scan_push(struct aw__scan_usage *usage, double first, double value)
{
    if (!(value >= 0) || isinf(value))
        return;
    const double at = value < first ? 0 : 1 + log(value / first) / log(AW__SCAN_GROWTH);
    usage->weight[at < AW__SCAN_BUCKETS - 1 ? (uint32_t)at : AW__SCAN_BUCKETS - 1]++;
    usage->max = fmax(usage->max, value);
    usage->samples++;
}

/* The end of the bucket in which the quantile lies: never less than what was used. */
static double quantile_of(const struct aw__scan_usage *usage, double first, double quantile)
{
    const double rank = quantile * usage->samples;
    double sum = 0;
    uint32_t b = 0;
    for (; b < AW__SCAN_BUCKETS - 1; b++)
        if ((sum += (double)usage->weight[b]) >= rank)
            break;
    return fmin(first * pow(AW__SCAN_GROWTH, b), usage->max);
}

struct aw_kube_scan_usage aw__scan_usage_of(const struct aw__scan_usage *usage, double first)
{
    if (usage->samples == 0)
        return (struct aw_kube_scan_usage){0};
    return (struct aw_kube_scan_usage){.p50 = quantile_of(usage, first, 0.50),
                                       .p95 = quantile_of(usage, first, 0.95),
                                       .max = usage->max,
                                       .samples = usage->samples};
}

/* --- what follows --- */

/* What is requested and not needed; nothing is known of what was not measured. */
static double wasted(double request, double need, uint32_t pods)
{
    return request > 0 && need >= 0 && request > need ? pods * (request - need) : 0;
}

void aw_kube_scan_judge(struct aw_kube_scan_row *row)
{
    const bool found[AW_KUBE_RISKS] = {
        [AW_KUBE_RISK_OOM] = row->oom_kills > 0,
        [AW_KUBE_RISK_CRASH_LOOP] = row->crash_loop,
        [AW_KUBE_RISK_CONFLICT] = row->conflict[0],
        [AW_KUBE_RISK_MEMORY_NEAR] = row->memory_limit > 0 && row->memory.samples > 0 &&
                                     row->memory.max >= AW_KUBE_SCAN_NEAR_MIN * row->memory_limit,
        [AW_KUBE_RISK_THROTTLED] = row->throttled_share >= AW_KUBE_SCAN_THROTTLED_MIN,
        [AW_KUBE_RISK_CPU_OVER] = row->cpu_request > 0 && row->cpu.p95 > row->cpu_request,
        [AW_KUBE_RISK_MEMORY_OVER] =
            row->memory_request > 0 && row->memory.max > row->memory_request,
        [AW_KUBE_RISK_NO_MEMORY] = row->memory_request < 0,
        [AW_KUBE_RISK_NO_CPU] = row->cpu_request < 0,
        [AW_KUBE_RISK_NO_LIMIT] = row->memory_limit < 0,
    };
    row->risks = row->risk = 0;
    for (uint32_t i = 0; i < AW_KUBE_RISKS; i++) {
        row->risks |= found[i] ? 1u << i : 0;
        row->risk += found[i] ? risks[i].weight : 0;
    }
    row->cpu_need = row->memory_need = -1;
    if (row->cpu.samples > 0)
        row->cpu_need = fmax(AW_KUBE_SCAN_CPU_MIN, (1 + AW_KUBE_SCAN_MARGIN) * row->cpu.p95);
    if (row->memory.samples > 0) /* by its peak: what lacks memory is killed, not slowed down */
        row->memory_need =
            fmax(AW_KUBE_SCAN_MEMORY_MIN, (1 + AW_KUBE_SCAN_MARGIN) * row->memory.max);
    row->cpu_waste = wasted(row->cpu_request, row->cpu_need, row->pods);
    row->memory_waste = wasted(row->memory_request, row->memory_need, row->pods);
}

double aw_kube_scan_waste(const struct aw_kube_scan_row *row)
{
    return row->cpu_waste + row->memory_waste / 0x1p30 / AW_KUBE_SCAN_GIB_PER_CORE;
}

/* --- whose is it --- */

static int compare(const struct aw_kube_scan_row *row, const char *ns, const char *kind,
                   const char *name)
{
    int order = strcmp(row->ns, ns);
    order = order ? order : strcmp(row->kind, kind);
    return order ? order : strcmp(row->name, name);
}

struct aw_kube_scan_row *aw__scan_find(const struct aw_kube_scan *scan, const char *ns,
                                       const char *kind, const char *name)
{
    uint32_t low = 0, high = scan->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = compare(&scan->row[middle], ns, kind, name);
        if (order == 0)
            return &scan->row[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct aw_kube_scan_row *aw__scan_owner(const struct aw_kube_scan *scan, const char *ns,
                                        const char *pod)
{
    char name[AW_KUBE_NAME_MAX];
    const char *tail = strrchr(pod, '-');
    struct aw_kube_scan_row *row = NULL;
    if (!tail || tail == pod || (size_t)(tail - pod) >= sizeof name)
        return NULL;
    memcpy(name, pod, (size_t)(tail - pod));
    name[tail - pod] = '\0';
    tail++;
    if (tail[0] && tail[strspn(tail, "0123456789")] == '\0')
        row = aw__scan_find(scan, ns, "StatefulSet", name);
    if (!row && strlen(tail) == 5)
        row = aw__scan_find(scan, ns, "DaemonSet", name);
    char *hash = strrchr(name, '-');
    if (!row && strlen(tail) == 5 && hash && hash != name) {
        *hash = '\0';
        row = aw__scan_find(scan, ns, "Deployment", name);
    }
    return row;
}

/* --- the whole --- */

static void say(const struct aw_kube_scan_config *config, const char *text)
{
    if (config->told)
        config->told(config->ctx, text);
}

static void finish(struct aw_kube_scan *scan, const struct aw__scan_work *work)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        struct aw_kube_scan_row *row = &scan->row[i];
        row->cpu = aw__scan_usage_of(&work[i].cpu, AW__SCAN_CPU_FIRST);
        row->memory = aw__scan_usage_of(&work[i].memory, AW__SCAN_MEMORY_FIRST);
        row->throttled_share =
            work[i].throttled_count > 0 ? work[i].throttled_sum / work[i].throttled_count : -1;
        /* the API forgets all kills but the last of a container that is still there */
        const double kills = work[i].oom_sum < 1e6 ? round(work[i].oom_sum) : 1e6;
        row->oom_kills = kills > row->oom_kills ? (uint32_t)kills : row->oom_kills;
        aw_kube_scan_judge(row);
    }
}

enum aw_err aw_kube_scan(struct aw_kube_scan *scan, const struct aw_kube_scan_config *config,
                         const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw__scan_work *work = NULL;
    struct aw_diag said = {0};
    *scan = (struct aw_kube_scan){.alloc = alloc, .source = AW_KUBE_SCAN_NOTHING};
    enum aw_err err = aw__scan_objects(scan, config, diag);
    if (err)
        goto out;
    work = aw_alloc_new(alloc, scan->count ? scan->count : 1, sizeof *work);
    if (!work) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a scan");
        goto out;
    }
    if (config->prom) {
        const enum aw_err asked = aw__scan_history(scan, config, work, &said);
        if (asked)
            say(config, said.text);
    }
    if (scan->source == AW_KUBE_SCAN_NOTHING && scan->count > 0) {
        memset(work, 0, scan->count * sizeof *work);
        const enum aw_err asked = aw__scan_snapshot(scan, config, work, &said);
        say(config, asked ? said.text
                          : "no history: usage is one look at metrics.k8s.io, a moment and no "
                            "more; give --prometheus for what happened before");
    }
    finish(scan, work);
out:
    aw_alloc_free(alloc, work);
    if (err)
        aw_kube_scan_deinit(scan);
    return err;
}

void aw_kube_scan_deinit(struct aw_kube_scan *scan)
{
    aw_alloc_free(scan->alloc, scan->row);
    *scan = (struct aw_kube_scan){0};
}
