/* vpa_usage.c - usage of containers, from metrics.k8s.io or from cAdvisor by a Prometheus. */
#include "controller/vpa_usage.h"

#include "base/hash.h"
#include "base/quantity.h"
#include "fallback/vpa.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define QUESTION_US 5000000 /* the most that one question may take */

static const struct aw_kube_kind pod_metrics_v1beta1 = {.group = "metrics.k8s.io",
                                                        .version = "v1beta1",
                                                        .plural = "pods",
                                                        .kind = "PodMetrics",
                                                        .namespaced = true};

/* --- the table -------------------------------------------------------------------------------- */

enum aw_err aw__usage_init(struct aw__usage *usage, uint32_t max, const struct aw_alloc *alloc)
{
    *usage = (struct aw__usage){0};
    return aw_hash_table_init(&usage->samples, sizeof(struct aw__usage_sample), max, max, alloc);
}

void aw__usage_deinit(struct aw__usage *usage)
{
    aw_hash_table_deinit(&usage->samples);
    *usage = (struct aw__usage){0};
}

/* Sixty-four bits stand for the three names: of a hundred thousand containers two are confused
 * once in three billion rounds, and then one has a wrong figure for a minute. */
static uint64_t id_of(const char *ns, const char *pod, const char *container)
{
    const char *const names[] = {ns, pod, container};
    uint64_t h = AW_HASH_BEGIN;
    for (size_t i = 0; i < 3; i++) {
        h = aw_hash_text(h, names[i]);
        h = aw_hash_byte(h, 0xff);
    }
    return h;
}

/* NULL: there is no room. */
static struct aw__usage_sample *sample_put(struct aw__usage *usage, const char *ns, const char *pod,
                                           const char *container)
{
    const uint64_t id = id_of(ns, pod, container);
    struct aw__usage_sample *sample = aw_hash_table_find(&usage->samples, id);
    if (sample)
        return sample;
    sample = aw_hash_table_add(&usage->samples, id);
    if (!sample) {
        usage->left_out++;
        return NULL;
    }
    sample->cpu_millicores = sample->memory_bytes = -1;
    sample->cpu_at_us = sample->memory_at_us = AW_KUBE_NEVER;
    return sample;
}

const struct aw__usage_sample *aw__usage_find(const struct aw__usage *usage, const char *ns,
                                              const char *pod, const char *container)
{
    return aw_hash_table_find(&usage->samples, id_of(ns, pod, container));
}

/* --- metrics.k8s.io --------------------------------------------------------------------------- */

static void container_take(struct aw__usage *usage, const struct aw_kube_meta *pod,
                           const json_t *container, int64_t at_us)
{
    int64_t millicores, bytes;
    const char *name = aw_kube_text_at(container, "name");
    if (!*name ||
        aw_quantity_parse_cpu(aw_kube_text_at(container, "usage.cpu"), &millicores, NULL) ||
        aw_quantity_parse_memory(aw_kube_text_at(container, "usage.memory"), &bytes, NULL)) {
        usage->dropped++;
        return;
    }
    struct aw__usage_sample *slot = sample_put(usage, pod->ns, pod->name, name);
    if (!slot)
        return;
    slot->cpu_millicores = millicores;
    slot->memory_bytes = bytes;
    slot->cpu_at_us = slot->memory_at_us = at_us;
}

enum aw_err aw__usage_decode(struct aw__usage *usage, const json_t *body, int64_t now_us,
                             struct aw_diag *diag)
{
    const json_t *items = json_object_get(body, "items"), *pod, *container;
    size_t i, k;
    if (!json_is_array(items))
        return aw_fail(diag, AW_ERR_FORMAT, "expected a PodMetricsList, found something else");
    json_array_foreach(items, i, pod)
    {
        struct aw_kube_meta meta;
        int64_t at_us;
        if (aw_kube_meta_read(pod, &meta, NULL) || !meta.ns[0] ||
            aw_kube_time_parse(aw_kube_text_at(pod, "timestamp"), &at_us) || at_us <= 0 ||
            at_us > now_us + AW__USAGE_AHEAD_US) {
            usage->dropped++;
            continue;
        }
        const json_t *containers = json_object_get(pod, "containers");
        json_array_foreach(containers, k, container)
        {
            container_take(usage, &meta, container, at_us);
        }
    }
    return AW_OK;
}

static enum aw_err ask_api(struct aw__usage *usage, const struct aw__usage_sources *sources,
                           const char *ns, int64_t timeout_us, struct aw_diag *diag)
{
    struct aw_kube_kind kind = pod_metrics_v1beta1;
    const struct aw_kube_ref ref = {.kind = &kind, .ns = ns};
    char path[AW_KUBE_PATH_MAX];
    struct aw_text text;
    json_t *body = NULL;
    kind.version = sources->metrics_version;
    aw_text_init(&text, path, sizeof path);
    enum aw_err err = aw_kube_path(&text, &ref, diag);
    const struct aw_kube_request request = {.path = path, .timeout_us = timeout_us};
    err = err ? err : aw_kube_send(sources->kube, &request, &body, NULL, diag);
    err = err ? err : aw__usage_decode(usage, body, aw_clock_now_us(sources->clock), diag);
    json_decref(body);
    return err;
}

/* --- Prometheus ------------------------------------------------------------------------------- */

enum { CPU, CPU_TIME, MEMORY, MEMORY_TIME, QUESTIONS };

/* As in kube/metrics_query.c: the largest of a container's series, because of scrapes that are done
 * twice and of series that a restart left behind. $ stands for the matchers. A rate looks
 * back five minutes for its two samples, as Prometheus itself does. */
static const char *const questions[QUESTIONS] = {
    [CPU] =
        "max by (namespace, pod, container) (irate(container_cpu_usage_seconds_total{$}[300s]))",
    [CPU_TIME] = "max by (namespace, pod, container) "
                 "(timestamp(container_cpu_usage_seconds_total{$}))",
    [MEMORY] = "max by (namespace, pod, container) (container_memory_working_set_bytes{$})",
    [MEMORY_TIME] = "max by (namespace, pod, container) "
                    "(timestamp(container_memory_working_set_bytes{$}))",
};

struct asked {
    struct aw__usage *usage;
    int question;
    int64_t now_us;
};

/* "": there is none. */
static const char *label(const struct aw_kube_labels *labels, const char *name)
{
    const char *value = aw_kube_label(labels, name);
    return value ? value : "";
}

static void series_take(void *ctx, const struct aw_kube_labels *labels,
                        const struct aw_kube_prom_point *points, uint32_t count)
{
    const struct asked *asked = ctx;
    struct aw__usage *usage = asked->usage;
    const char *ns = label(labels, "namespace"), *pod = label(labels, "pod"),
               *container = label(labels, "container");
    const bool is_time = asked->question == CPU_TIME || asked->question == MEMORY_TIME;
    const double scale = is_time ? 1e6 : asked->question == CPU ? 1e3 : 1;
    const double amount = ceil(points[count - 1].value * scale);
    if (!*ns || !*pod || !*container || !(amount >= 0) ||
        amount >
            (is_time ? (double)(asked->now_us + AW__USAGE_AHEAD_US) : (double)AW_VPA_AMOUNT_MAX)) {
        usage->dropped++;
        return;
    }
    struct aw__usage_sample *slot = sample_put(usage, ns, pod, container);
    if (!slot)
        return;
    int64_t *const places[QUESTIONS] = {&slot->cpu_millicores, &slot->cpu_at_us,
                                        &slot->memory_bytes, &slot->memory_at_us};
    *places[asked->question] = (int64_t)amount;
}

static void question_print(struct aw_text *text, int question, const char *selector,
                           const char *const *ns, uint32_t count)
{
    const char *form = questions[question], *hole = strchr(form, '$');
    aw_text_add(text, "%.*scontainer!=\"\",container!=\"POD\",namespace=~\"", (int)(hole - form),
                form);
    for (uint32_t i = 0; i < count; i++)
        aw_text_add(text, "%s%s", i ? "|" : "", ns[i]); /* a DNS label: nothing to escape */
    aw_text_add(text, "\"%s%s%s", selector && *selector ? "," : "", selector ? selector : "",
                hole + 1);
}

static enum aw_err ask_prom(struct aw__usage *usage, const struct aw__usage_sources *sources,
                            const char *const *ns, uint32_t count, int64_t deadline_us,
                            struct aw_diag *diag)
{
    char question[AW_KUBE_PROM_PROXY_MAX];
    enum aw_err err = AW_OK;
    for (int i = 0; !err && i < QUESTIONS; i++) {
        struct asked asked = {usage, i, aw_clock_now_us(sources->clock)};
        const struct aw_kube_prom_visitor visitor = {series_take, &asked};
        struct aw_kube_prom_answer answer;
        struct aw_text text;
        const int64_t left_us = deadline_us - aw_clock_monotonic_us(sources->clock);
        if (left_us <= 0)
            return aw_fail(diag, AW_ERR_DEADLINE, "no time left to ask for usage");
        aw_text_init(&text, question, sizeof question);
        question_print(&text, i, sources->selector, ns, count);
        err = strlen(question) + 1 < sizeof question
                  ? aw_kube_prom_ask(sources->prom, question,
                                     left_us < QUESTION_US ? left_us : QUESTION_US, &visitor,
                                     &answer, diag)
                  : aw_fail(diag, AW_ERR_LIMIT, "a question about usage is too long");
    }
    return err;
}

/* --- a round ---------------------------------------------------------------------------------- */

enum aw_err aw__usage_read(struct aw__usage *usage, const struct aw__usage_sources *sources,
                           const char *const *ns, uint32_t count, int64_t deadline_us,
                           struct aw_diag *diag)
{
    const bool api = sources->metrics_version && *sources->metrics_version;
    enum aw_err first = AW_OK;
    bool api_fails = !api;
    aw_hash_table_clear(&usage->samples);
    if (!api && !sources->prom)
        return aw_fail(diag, AW_ERR_NOTFOUND,
                       "no metrics: neither metrics.k8s.io nor a Prometheus");
    for (uint32_t i = 0; !api_fails && i < count; i++) {
        const int64_t left_us = deadline_us - aw_clock_monotonic_us(sources->clock);
        first = left_us > 0 ? ask_api(usage, sources, ns[i],
                                      left_us < QUESTION_US ? left_us : QUESTION_US, diag)
                            : aw_fail(diag, AW_ERR_DEADLINE, "no time left to ask for usage");
        if (first == AW_ERR_INTERRUPTED)
            return first;
        api_fails = first != AW_OK;
    }
    if (!api_fails || !sources->prom)
        return first;
    first = AW_OK;
    for (uint32_t i = 0; !first && i < count; i += AW__USAGE_QUESTION_NS) {
        const uint32_t left = count - i;
        first = ask_prom(usage, sources, ns + i,
                         left < AW__USAGE_QUESTION_NS ? left : AW__USAGE_QUESTION_NS, deadline_us,
                         diag);
    }
    return first;
}
