/* metrics.c - a round: questions filled, split and asked; what they bring goes into the table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/metrics_internal.h"

#define CPU_CORES_MAX    1e6 /* of a pod; what is beyond is a lie */
#define MEMORY_BYTES_MAX 0x1p60
#define PER_S_MAX        1e12
#define SHARE_SLACK      1.001           /* two rates of one scrape round differently */
#define NAMESPACE_MAX    64u             /* with the NUL: a DNS label (RFC 1123) */
#define BUCKETS_EXPECTED 20u             /* series of a pod's histogram */
#define SOURCE_PROM      AW_KUBE_QUERIES /* places in `trouble` */
#define SOURCE_API       (AW_KUBE_QUERIES + 1)

static const struct {
    double max;
    uint32_t time; /* the question that says how old it is */
} facts[AW_KUBE_QUERIES] = {
    [AW_KUBE_QUERY_CPU] = {CPU_CORES_MAX, AW_KUBE_QUERY_CPU_TIME},
    [AW_KUBE_QUERY_CPU_TIME] = {0, AW__NONE},
    [AW_KUBE_QUERY_MEMORY] = {MEMORY_BYTES_MAX, AW_KUBE_QUERY_MEMORY_TIME},
    [AW_KUBE_QUERY_MEMORY_TIME] = {0, AW__NONE},
    [AW_KUBE_QUERY_THROTTLED] = {SHARE_SLACK, AW_KUBE_QUERY_CPU_TIME},
    [AW_KUBE_QUERY_REQUESTS] = {PER_S_MAX, AW_KUBE_QUERY_REQUESTS_TIME},
    [AW_KUBE_QUERY_REQUESTS_TIME] = {0, AW__NONE},
    [AW_KUBE_QUERY_ERRORS] = {PER_S_MAX, AW_KUBE_QUERY_REQUESTS_TIME},
    [AW_KUBE_QUERY_IN_FLIGHT] = {PER_S_MAX, AW_KUBE_QUERY_REQUESTS_TIME},
    [AW_KUBE_QUERY_LATENCY] = {PER_S_MAX, AW_KUBE_QUERY_REQUESTS_TIME},
    [AW_KUBE_QUERY_LATENCY_SUM] = {PER_S_MAX, AW_KUBE_QUERY_REQUESTS_TIME},
};

static bool is_time(uint32_t id)
{
    return facts[id].time == AW__NONE;
}

/* --- open and close --- */

static void carve(struct aw_kube_metrics *metrics, struct aw_carve *carve)
{
    const uint32_t max = metrics->entry_max;
    metrics->entry = aw_carve_take(carve, max, sizeof *metrics->entry);
    metrics->bucket = aw_carve_take(carve, max, AW_KUBE_BUCKETS_MAX * sizeof *metrics->bucket);
    metrics->names = aw_carve_take(carve, metrics->names_size, 1);
    metrics->order = aw_carve_take(carve, AW_KUBE_TARGETS_MAX, sizeof *metrics->order);
    metrics->space = aw_carve_take(carve, AW_KUBE_TARGETS_MAX + 1, sizeof *metrics->space);
    metrics->text = aw_carve_take(carve, AW_KUBE_PROM_QUERY_MAX, 1);
    metrics->spaces = aw_carve_take(carve, AW_KUBE_PROM_QUERY_MAX, 1);
}

/* Which questions are asked, how, and which of them say how old the others are. */
static enum aw_err set_queries(struct aw_kube_metrics *metrics, struct aw_diag *diag)
{
    const struct aw_kube_metrics_config *config = &metrics->config;
    const struct aw__fill fill = {metrics->window, metrics->selector, "", "", "", ""};
    for (uint32_t id = 0; id < AW_KUBE_QUERIES; id++) {
        const char *query = config->query[id] ? config->query[id] : aw_kube_query_default(id);
        uint32_t spaces;
        query = config->prom ? query : "";
        metrics->query[id] = query;
        metrics->kind[id] = aw__query_kind(query);
        const size_t bytes = aw__query_bytes(query, &fill, &spaces);
        if (config->prom &&
            bytes + (spaces + 1) * (size_t)NAMESPACE_MAX > aw_kube_prom_query_max(config->prom))
            return aw_fail(diag, AW_ERR_CONFIG, "the question for %s is too long",
                           aw_kube_query_name(id));
    }
    for (uint32_t id = 0; id < AW_KUBE_QUERIES; id++) {
        const uint32_t time = facts[id].time;
        /* the default time is that of the default question */
        const bool own = time != AW__NONE && (config->query[time] || !config->query[id]);
        metrics->time_of[id] = own && metrics->kind[time] != AW__ASK_NEVER ? time : AW__NONE;
    }
    if (!config->prom) { /* metrics.k8s.io brings times of its own */
        metrics->time_of[AW_KUBE_QUERY_CPU] = AW_KUBE_QUERY_CPU_TIME;
        metrics->time_of[AW_KUBE_QUERY_MEMORY] = AW_KUBE_QUERY_MEMORY_TIME;
    }
    return AW_OK;
}

enum aw_err aw_kube_metrics_open(struct aw_kube_metrics **ret_metrics,
                                 const struct aw_kube_metrics_config *config,
                                 const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_kube_metrics metrics = {.alloc = alloc, .config = *config};
    struct aw_carve cut = {0};
    const bool has_api = config->kube && config->metrics_version && config->metrics_version[0];
    if (!config->prom && !has_api)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "no source of metrics: neither Prometheus nor "
                       "metrics.k8s.io");
    if (!metrics.config.window_us)
        metrics.config.window_us = AW_KUBE_WINDOW_US;
    if (!metrics.config.age_max_us)
        metrics.config.age_max_us = AW_KUBE_AGE_MAX_US;
    if (metrics.config.latency_unit_s <= 0)
        metrics.config.latency_unit_s = 1;
    metrics.entry_max = config->pods_max ? config->pods_max : AW_KUBE_METRICS_PODS;
    metrics.names_size = (size_t)metrics.entry_max * AW__NAME_BYTES;
    snprintf(metrics.window, sizeof metrics.window, "%llds",
             (long long)((metrics.config.window_us + 999999) / 1000000));
    if (config->selector && config->selector[0]) {
        const int len =
            snprintf(metrics.selector, sizeof metrics.selector, ",%s", config->selector);
        if (len < 0 || (size_t)len >= sizeof metrics.selector)
            return aw_fail(diag, AW_ERR_CONFIG, "the selector of metrics is too long");
    }
    enum aw_err err = set_queries(&metrics, diag);
    if (err)
        return err;
    carve(&metrics, &cut);
    struct aw_kube_metrics *made = aw_alloc_new(alloc, 1, sizeof *made);
    unsigned char *block = made ? aw_alloc_new(alloc, cut.used, 1) : NULL;
    if (!block || aw_hash_table_init(&metrics.by_key, sizeof(struct aw__metric_place),
                                     metrics.entry_max, metrics.entry_max, alloc)) {
        aw_alloc_free(alloc, block);
        aw_alloc_free(alloc, made);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for metrics");
    }
    *made = metrics;
    cut = (struct aw_carve){.base = block};
    carve(made, &cut);
    *ret_metrics = made;
    return AW_OK;
}

void aw_kube_metrics_close(struct aw_kube_metrics *metrics)
{
    if (!metrics)
        return;
    aw_hash_table_deinit(&metrics->by_key);
    aw_alloc_free(metrics->alloc, metrics->entry); /* the block begins with them */
    aw_alloc_free(metrics->alloc, metrics);
}

const struct aw_kube_metrics_state *aw_kube_metrics_state(const struct aw_kube_metrics *metrics)
{
    return &metrics->state;
}

/* --- who is told --- */

static const char *source_name(uint32_t source)
{
    if (source == SOURCE_PROM)
        return "prometheus";
    return source == SOURCE_API ? "metrics.k8s.io" : aw_kube_query_name(source);
}

static void say(struct aw_kube_metrics *metrics, uint32_t source, enum aw_err err, const char *text)
{
    if (metrics->config.told)
        metrics->config.told(metrics->config.ctx, source_name(source), err, text);
}

/* A failure is told when it begins and when it is over. */
static void note(struct aw_kube_metrics *metrics, uint32_t source, enum aw_err err,
                 const struct aw_diag *diag)
{
    struct aw__trouble *trouble = &metrics->trouble[source];
    metrics->state.failed += err != AW_OK;
    if ((err != AW_OK) != (trouble->err != AW_OK))
        say(metrics, source, err, err ? diag->text : "works again");
    trouble->err = err;
}

static void note_warning(struct aw_kube_metrics *metrics, uint32_t source,
                         const struct aw_kube_prom_answer *answer)
{
    struct aw__trouble *trouble = &metrics->trouble[source];
    char text[AW_KUBE_MESSAGE_MAX + 32];
    if (answer->warned && !trouble->warned) {
        snprintf(text, sizeof text, "answered with a reserve: %s", answer->warning);
        say(metrics, source, AW_ERR_NODATA, text);
    }
    trouble->warned = answer->warned;
}

/* --- one round --- */

struct round {
    struct aw_kube_metrics *metrics;
    const struct aw_kube_target *targets;
    int64_t deadline_us;
    enum aw_kube_query_id id;            /* being asked */
    const struct aw_kube_target *target; /* whose question it is; NULL: that of many */
    int64_t asked_us;                    /* wall */
    uint32_t asks, answers;
    bool silent; /* nobody answers: no use in asking on */
    enum aw_err err;
    struct aw_diag said;
};

/* Names go into questions: letters, digits, '-' and '.' need no escape but that of the dot. */
static bool is_plain(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.");
    return len > 0 && len < AW_KUBE_NAME_MAX && !name[len];
}

static int by_space(const void *a, const void *b, void *ctx)
{
    const struct aw_kube_target *targets = ctx;
    return strcmp(targets[*(const uint32_t *)a].ns, targets[*(const uint32_t *)b].ns);
}

/* Targets by namespace, and where each namespace begins; one past the last ends them. */
static void sort_targets(struct aw_kube_metrics *metrics, const struct aw_kube_target *targets,
                         uint32_t count)
{
    uint32_t kept = 0, spaces = 0;
    for (uint32_t i = 0; i < count && kept < AW_KUBE_TARGETS_MAX; i++)
        if (is_plain(targets[i].ns) && is_plain(targets[i].name) &&
            strlen(targets[i].ns) < NAMESPACE_MAX)
            metrics->order[kept++] = i;
    qsort_r(metrics->order, kept, sizeof *metrics->order, by_space, (void *)(uintptr_t)targets);
    for (uint32_t i = 0; i < kept; i++)
        if (i == 0 || strcmp(targets[metrics->order[i]].ns, targets[metrics->order[i - 1]].ns) != 0)
            metrics->space[spaces++] = i;
    metrics->space[spaces] = kept;
    metrics->space_count = spaces;
    metrics->order_count = kept;
}

static const char *space_name(const struct round *round, uint32_t space)
{
    const struct aw_kube_metrics *metrics = round->metrics;
    return round->targets[metrics->order[metrics->space[space]]].ns;
}

static bool is_space(const struct round *round, const char *ns)
{
    uint32_t low = 0, high = round->metrics->space_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(ns, space_name(round, middle));
        if (order == 0)
            return true;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static void take_time(struct round *round, uint32_t entry, const struct aw_kube_prom_point *point)
{
    const double age_s = point->at_s - point->value;
    if (point->value <= 0 || age_s * 1e6 < -(double)AW_KUBE_AHEAD_MAX_US || age_s > 1e9) {
        round->metrics->state.dropped++;
        return;
    }
    const int64_t age_us = age_s > 0 ? (int64_t)(age_s * 1e6) : 0;
    aw__metrics_put(round->metrics, entry, round->id, 0, round->asked_us - age_us);
}

static void take_bucket(struct round *round, uint32_t entry, const struct aw_kube_labels *labels,
                        double value)
{
    const char *le = aw_kube_label(labels, "le");
    double bound = INFINITY;
    if (!le || (strcmp(le, "+Inf") != 0 && aw_text_parse_real(le, &bound) != AW_OK) || bound < 0) {
        round->metrics->state.dropped++;
        return;
    }
    aw__metrics_put_bucket(round->metrics, entry, bound * round->metrics->config.latency_unit_s,
                           value, round->asked_us);
}

/* Whose series it is: that of the workload that was asked for, of a pod, or of a workload. */
static uint32_t owner(struct round *round, const struct aw_kube_labels *labels)
{
    struct aw_kube_metrics *metrics = round->metrics;
    const char *ns = aw_kube_label(labels, "namespace");
    const char *pod = aw_kube_label(labels, "pod");
    const char *workload = aw_kube_label(labels, "workload");
    if (round->target)
        return aw__metrics_add(metrics, round->target->ns, "//", round->target->name,
                               round->asked_us);
    const char *name = pod ? pod : workload;
    if (!ns || !name || !aw_kube_name_valid(name) || !is_space(round, ns)) {
        metrics->state.dropped += !ns || !name;
        return AW__NONE;
    }
    return aw__metrics_add(metrics, ns, pod ? "/" : "//", name, round->asked_us);
}

static void take_series(void *ctx, const struct aw_kube_labels *labels,
                        const struct aw_kube_prom_point *points, uint32_t count)
{
    struct round *round = ctx;
    struct aw_kube_metrics *metrics = round->metrics;
    const double value = points[count - 1].value;
    if (!is_time(round->id) && !(value >= 0 && value <= facts[round->id].max)) {
        metrics->state.dropped++;
        return;
    }
    const uint32_t entry = owner(round, labels);
    if (entry == AW__NONE)
        return;
    if (is_time(round->id))
        take_time(round, entry, &points[count - 1]);
    else if (round->id == AW_KUBE_QUERY_LATENCY)
        take_bucket(round, entry, labels, value);
    else
        aw__metrics_put(metrics, entry, round->id,
                        round->id == AW_KUBE_QUERY_THROTTLED ? fmin(value, 1)
                        : round->id == AW_KUBE_QUERY_LATENCY_SUM
                            ? value * metrics->config.latency_unit_s
                            : value,
                        round->asked_us);
}

static int64_t time_left_us(const struct round *round)
{
    return round->deadline_us - aw_clock_monotonic_us(round->metrics->config.clock);
}

static enum aw_err ask(struct round *round, const struct aw__fill *fill, bool *ret_whole)
{
    struct aw_kube_metrics *metrics = round->metrics;
    const struct aw_kube_prom_visitor visitor = {take_series, round};
    struct aw_kube_prom_answer answer = {0};
    struct aw_text text;
    int64_t left_us = time_left_us(round);
    round->silent = left_us <= 0;
    if (round->silent)
        return aw_fail(&round->said, AW_ERR_DEADLINE, "no time was left to ask");
    if (round->asks == AW_KUBE_ASKS_MAX)
        return aw_fail(&round->said, AW_ERR_LIMIT, "more than %u requests in one round",
                       AW_KUBE_ASKS_MAX);
    left_us = left_us < AW_KUBE_PROM_TIMEOUT_US ? left_us : AW_KUBE_PROM_TIMEOUT_US;
    aw_text_init(&text, metrics->text, aw_kube_prom_query_max(metrics->config.prom));
    aw__query_fill(metrics->query[round->id], fill, &text);
    if (text.cut)
        return aw_fail(&round->said, AW_ERR_LIMIT, "the question is too long");
    round->asked_us = aw_clock_now_us(metrics->config.clock);
    round->asks++;
    metrics->state.asked++;
    const enum aw_err err = aw_kube_prom_ask(metrics->config.prom, metrics->text, left_us, &visitor,
                                             &answer, &round->said);
    metrics->state.dropped += answer.dropped;
    round->answers += err == AW_OK;
    round->silent = err != AW_OK && answer.code == 0;
    if (err == AW_OK) {
        note_warning(metrics, round->id, &answer);
        *ret_whole = *ret_whole && !answer.warned;
    }
    return err;
}

/* The next namespaces, from `at` on, of which the answer is expected to be small enough. */
static uint32_t take_spaces(const struct round *round, uint32_t at, const struct aw__fill *fill)
{
    struct aw_kube_metrics *metrics = round->metrics;
    const uint32_t weight = round->id == AW_KUBE_QUERY_LATENCY ? BUCKETS_EXPECTED : 1;
    const size_t max = aw_kube_prom_query_max(metrics->config.prom);
    uint32_t times = 1;
    const size_t rest = aw__query_bytes(metrics->query[round->id], fill, &times);
    const size_t room = (max - rest - 1) / times;
    uint64_t series = 0;
    struct aw_text text;
    uint32_t space = at;
    aw_text_init(&text, metrics->spaces, AW_KUBE_PROM_QUERY_MAX);
    for (; space < metrics->space_count; space++) {
        const char *ns = space_name(round, space);
        uint64_t more = 0;
        for (uint32_t i = metrics->space[space]; i < metrics->space[space + 1]; i++)
            more += (uint64_t)weight * round->targets[metrics->order[i]].pods;
        if (space > at &&
            (series + more > AW_KUBE_ANSWER_SERIES || text.len + strlen(ns) + 1 > room))
            break;
        series += more;
        aw_text_add(&text, "%s%s", space > at ? "|" : "", ns);
    }
    return space;
}

static enum aw_err ask_spaces(struct round *round, struct aw__fill *fill, bool *ret_whole)
{
    enum aw_err err = AW_OK;
    fill->namespaces = round->metrics->spaces;
    for (uint32_t at = 0; !err && at < round->metrics->space_count;) {
        at = take_spaces(round, at, fill);
        err = ask(round, fill, ret_whole);
    }
    return err;
}

/* A dot of a name is any character of a pattern; "web-.+" are the pods of "web", and of "web-b"
 * too, which is why pods are matched by name only where a question says so. */
static void print_pods(const char *name, struct aw_text *text)
{
    for (; *name; name++)
        aw_text_add(text, "%s%c", *name == '.' ? "\\\\" : "", *name);
    aw_text_add(text, "-.+");
}

static enum aw_err ask_workloads(struct round *round, struct aw__fill *fill, bool *ret_whole)
{
    const struct aw_kube_metrics *metrics = round->metrics;
    char pods[3 * AW_KUBE_NAME_MAX + 4];
    struct aw_text text;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < metrics->order_count; i++) {
        round->target = &round->targets[metrics->order[i]];
        aw_text_init(&text, pods, sizeof pods);
        print_pods(round->target->name, &text);
        fill->ns = fill->namespaces = round->target->ns;
        fill->workload = round->target->name;
        fill->pods = pods;
        err = ask(round, fill, ret_whole);
    }
    round->target = NULL;
    return err;
}

static void ask_prometheus(struct round *round)
{
    struct aw_kube_metrics *metrics = round->metrics;
    enum aw_err last = AW_OK;
    for (uint32_t id = 0; id < AW_KUBE_QUERIES && !round->silent; id++) {
        struct aw__fill fill = {metrics->window, metrics->selector, "", "", "", ""};
        bool whole = true;
        enum aw_err err = AW_OK;
        round->id = (enum aw_kube_query_id)id;
        if (metrics->kind[id] == AW__ASK_SPACES)
            err = ask_spaces(round, &fill, &whole);
        else if (metrics->kind[id] == AW__ASK_WORKLOADS)
            err = ask_workloads(round, &fill, &whole);
        else if (metrics->kind[id] == AW__ASK_ONCE)
            err = ask(round, &fill, &whole);
        if (!err && whole)
            metrics->good[id] = metrics->round;
        if (!round->silent)
            note(metrics, id, err, &round->said);
        round->err = round->err ? round->err : err;
        last = err;
    }
    note(metrics, SOURCE_PROM, round->silent ? last : AW_OK, &round->said);
}

/* --- metrics.k8s.io --- */

static void take_pod(void *ctx, const char *ns, const char *name, double cores, double bytes,
                     int64_t at_us)
{
    struct round *round = ctx;
    struct aw_kube_metrics *metrics = round->metrics;
    if (at_us - round->asked_us > AW_KUBE_AHEAD_MAX_US || cores > CPU_CORES_MAX ||
        bytes > MEMORY_BYTES_MAX) {
        metrics->state.dropped++;
        return;
    }
    const uint32_t entry =
        is_space(round, ns) ? aw__metrics_add(metrics, ns, "/", name, round->asked_us) : AW__NONE;
    if (entry == AW__NONE)
        return;
    at_us = at_us < round->asked_us ? at_us : round->asked_us;
    aw__metrics_put(metrics, entry, AW_KUBE_QUERY_CPU, cores, at_us);
    aw__metrics_put(metrics, entry, AW_KUBE_QUERY_CPU_TIME, 0, at_us);
    aw__metrics_put(metrics, entry, AW_KUBE_QUERY_MEMORY, bytes, at_us);
    aw__metrics_put(metrics, entry, AW_KUBE_QUERY_MEMORY_TIME, 0, at_us);
}

static enum aw_err ask_api_for(struct round *round, const char *ns)
{
    struct aw_kube_metrics *metrics = round->metrics;
    const struct aw__api_visitor visitor = {take_pod, round};
    const int64_t left_us = time_left_us(round);
    char path[AW_KUBE_NAME_MAX + 128];
    uint64_t dropped = 0;
    json_t *body = NULL;
    if (left_us <= 0)
        return aw_fail(&round->said, AW_ERR_DEADLINE, "no time was left to ask");
    snprintf(path, sizeof path, "/apis/metrics.k8s.io/%s%s%s/pods", metrics->config.metrics_version,
             ns ? "/namespaces/" : "", ns ? ns : "");
    struct aw_kube_slices items = {0};
    const struct aw_kube_request request = {
        .path = path,
        .split = "items",
        .slices = &items,
        .once = true,
        .timeout_us = left_us < AW_KUBE_PROM_TIMEOUT_US ? left_us : AW_KUBE_PROM_TIMEOUT_US};
    round->asked_us = aw_clock_now_us(metrics->config.clock);
    metrics->state.asked++;
    enum aw_err err = aw_kube_send(metrics->config.kube, &request, &body, NULL, &round->said);
    err = err ? err : aw__metrics_api_decode(body, &items, &visitor, &dropped, &round->said);
    json_decref(body);
    metrics->state.dropped += dropped;
    round->answers += err == AW_OK;
    return err;
}

static void ask_api(struct round *round)
{
    static const enum aw_kube_query_id brought[] = {
        AW_KUBE_QUERY_CPU, AW_KUBE_QUERY_CPU_TIME, AW_KUBE_QUERY_MEMORY, AW_KUBE_QUERY_MEMORY_TIME};
    struct aw_kube_metrics *metrics = round->metrics;
    enum aw_err err = AW_OK;
    metrics->round++; /* what the first source said of the same pods is not twice, but replaced */
    if (metrics->space_count > AW__API_SPACES_MAX)
        err = ask_api_for(round, NULL);
    for (uint32_t i = 0; metrics->space_count <= AW__API_SPACES_MAX && i < metrics->space_count;
         i++)
        err = err ? err : ask_api_for(round, space_name(round, i));
    for (uint32_t i = 0; !err && i < sizeof brought / sizeof *brought; i++)
        metrics->good[brought[i]] = metrics->round;
    metrics->state.from_api = err == AW_OK;
    note(metrics, SOURCE_API, err, &round->said);
    round->err = round->err ? round->err : err;
}

/* Whether this round brought usage of anybody. */
static bool has_usage(const struct aw_kube_metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->entry_count; i++)
        if (metrics->entry[i].slot[AW_KUBE_QUERY_CPU].round == metrics->round ||
            metrics->entry[i].slot[AW_KUBE_QUERY_MEMORY].round == metrics->round)
            return true;
    return false;
}

enum aw_err aw_kube_metrics_read(struct aw_kube_metrics *metrics,
                                 const struct aw_kube_target *targets, uint32_t count,
                                 int64_t deadline_us, struct aw_diag *diag)
{
    struct round round = {.metrics = metrics, .targets = targets, .deadline_us = deadline_us};
    const struct aw_kube_metrics_config *config = &metrics->config;
    sort_targets(metrics, targets, count);
    aw__metrics_forget(metrics, aw_clock_now_us(config->clock));
    metrics->round++;
    metrics->state.rounds++;
    metrics->state.from_prom = metrics->state.from_api = false;
    if (metrics->space_count == 0)
        return AW_OK;
    if (config->prom)
        ask_prometheus(&round);
    metrics->state.from_prom = has_usage(metrics);
    if (!metrics->state.from_prom && config->kube && config->metrics_version &&
        config->metrics_version[0] && round.err != AW_ERR_INTERRUPTED)
        ask_api(&round);
    if (round.answers > 0 && round.err != AW_ERR_INTERRUPTED)
        return AW_OK;
    if (diag)
        *diag = round.said;
    return round.err;
}

enum aw_err aw__metrics_feed(struct aw_kube_metrics *metrics, const struct aw_kube_target *targets,
                             uint32_t count, enum aw_kube_query_id id, const char *text, size_t len,
                             struct aw_diag *diag)
{
    struct round round = {.metrics = metrics,
                          .targets = targets,
                          .id = id,
                          .asked_us = aw_clock_now_us(metrics->config.clock)};
    const struct aw_kube_prom_visitor visitor = {take_series, &round};
    struct aw_kube_prom_answer answer = {0};
    sort_targets(metrics, targets, count);
    aw__metrics_forget(metrics, round.asked_us);
    metrics->round++;
    metrics->good[id] = metrics->round;
    return aw_kube_prom_decode(text, len, &visitor, &answer, diag);
}
