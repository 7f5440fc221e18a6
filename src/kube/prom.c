/* prom.c - questions as requests, answers as series. */
#include "kube/prom.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/http.h"

#define ATTEMPTS_MAX 2u
#define RATE         100.0         /* requests a second; a round is a dozen */
#define RESULT       "data.result" /* of an answer: the series */
#define FORM_MAX     (3u * AW_KUBE_PROM_QUERY_MAX + 128u) /* percent-encoded */

struct aw_kube_prom {
    const struct aw_alloc *alloc;
    struct aw_kube *kube;         /* that requests go through */
    struct aw_kube *own;          /* the same, where it is ours; NULL */
    struct aw_kube_config config; /* of `own`; its texts are copies */
    char prefix[AW_KUBE_PROM_PREFIX_MAX];
    char form[FORM_MAX];
};

/* "monitoring/prometheus:9090" to the path of the Service's proxy. A scheme may stand before the
 * name, as the API has it: "monitoring/https:prometheus:9090". */
static enum aw_err set_service(struct aw_kube_prom *prom, const char *service, struct aw_diag *diag)
{
    const char *slash = strchr(service, '/');
    char ns[AW_KUBE_NAME_MAX];
    if (slash && (size_t)(slash - service) < sizeof ns) {
        memcpy(ns, service, (size_t)(slash - service));
        ns[slash - service] = '\0';
        if (aw_kube_name_valid(ns) && aw_kube_name_valid(slash + 1)) {
            snprintf(prom->prefix, sizeof prom->prefix, "/api/v1/namespaces/%s/services/%s/proxy",
                     ns, slash + 1);
            return AW_OK;
        }
    }
    return aw_fail(diag, AW_ERR_CONFIG,
                   "expected NAMESPACE/SERVICE:PORT for the Prometheus of a cluster");
}

static char *keep(const struct aw_alloc *alloc, const char *text, size_t len)
{
    return text ? aw__kube_keep(alloc, text, len) : NULL;
}

static enum aw_err open_own(struct aw_kube_prom *prom, const struct aw_kube_prom_config *config,
                            struct aw_diag *diag)
{
    struct aw_kube_config *own = &prom->config;
    size_t len = strlen(config->url);
    while (len && config->url[len - 1] == '/')
        len--;
    own->alloc = prom->alloc;
    own->server = keep(prom->alloc, config->url, len);
    own->ns = keep(prom->alloc, "default", strlen("default"));
    own->token_file = config->token_file
                          ? keep(prom->alloc, config->token_file, strlen(config->token_file))
                          : NULL;
    own->ca.file =
        config->ca_file ? keep(prom->alloc, config->ca_file, strlen(config->ca_file)) : NULL;
    if (!own->server || !own->ns || (config->token_file && !own->token_file) ||
        (config->ca_file && !own->ca.file))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a client of Prometheus");
    if (strncmp(own->server, "http://", 7) != 0 && strncmp(own->server, "https://", 8) != 0)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected http:// or https:// for the address of Prometheus");
    const struct aw_kube_options options = {.clock = config->clock,
                                            .attempts_max = ATTEMPTS_MAX,
                                            .requests_per_second = RATE,
                                            .timeout_us = AW_KUBE_PROM_TIMEOUT_US,
                                            .answer_bytes_max = AW_KUBE_PROM_ANSWER_MAX};
    const enum aw_err err = aw_kube_open(&prom->own, own, &options, prom->alloc, diag);
    prom->kube = prom->own;
    return err;
}

enum aw_err aw_kube_prom_open(struct aw_kube_prom **ret_prom,
                              const struct aw_kube_prom_config *config,
                              const struct aw_alloc *alloc, struct aw_diag *diag)
{
    if (!config->url == !config->service || (config->service && !config->kube))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected either the address of a Prometheus or its Service");
    struct aw_kube_prom *prom = aw_alloc_new(alloc, 1, sizeof *prom);
    if (!prom)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a client of Prometheus");
    prom->alloc = alloc;
    prom->kube = config->kube;
    const enum aw_err err =
        config->service ? set_service(prom, config->service, diag) : open_own(prom, config, diag);
    if (err)
        aw_kube_prom_close(prom);
    else
        *ret_prom = prom;
    return err;
}

void aw_kube_prom_close(struct aw_kube_prom *prom)
{
    if (!prom)
        return;
    aw_kube_close(prom->own);
    aw_kube_config_deinit(&prom->config);
    aw_alloc_free(prom->alloc, prom);
}

size_t aw_kube_prom_query_max(const struct aw_kube_prom *prom)
{
    return prom->own ? AW_KUBE_PROM_QUERY_MAX : AW_KUBE_PROM_PROXY_MAX;
}

/* --- answers --- */

/* [1435781451.781, "0.5"]; false: not a time and a finite number. */
static bool read_point(const json_t *pair, struct aw_kube_prom_point *ret_point)
{
    const json_t *at = json_array_get(pair, 0);
    const char *value = json_string_value(json_array_get(pair, 1));
    struct aw_kube_prom_point point = {.at_s = json_number_value(at)};
    if (json_array_size(pair) != 2 || !json_is_number(at) || !value || !isfinite(point.at_s) ||
        aw_text_parse_real(value, &point.value) != AW_OK)
        return false; /* "NaN", "+Inf" and "-Inf" are no numbers there */
    *ret_point = point;
    return true;
}

static bool is_series(const json_t *item)
{
    const json_t *labels = json_object_get(item, "metric"), *value;
    const char *key;
    if (!json_is_object(labels))
        return false;
    json_object_foreach((json_t *)(uintptr_t)labels, key,
                        value) if (!json_is_string(value)) return false;
    return true;
}

static enum aw_err fail_shape(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_FORMAT, "expected an answer of Prometheus, found something else");
}

/* What is known of an answer before its series are. */
static enum aw_err check(const json_t *body, const char **ret_type, struct aw_diag *diag)
{
    const json_t *data = json_object_get(body, "data");
    const char *type = aw_kube_text_at(data, "resultType");
    if (strcmp(aw_kube_text_at(body, "status"), "success") != 0 ||
        !json_is_array(json_object_get(data, "result")))
        return fail_shape(diag);
    if (strcmp(type, "scalar") != 0 && strcmp(type, "vector") != 0 && strcmp(type, "matrix") != 0)
        return aw_fail(diag, AW_ERR_FORMAT, "expected series from Prometheus, found another type");
    *ret_type = type;
    return AW_OK;
}

/* Of native histograms ("histogram", "histograms") nothing is known here: no point, dropped. */
static uint32_t read_points(const json_t *item, struct aw_kube_prom_point *points,
                            struct aw_kube_prom_answer *answer)
{
    const json_t *values = json_object_get(item, "values"), *pair;
    uint32_t count = 0;
    size_t i;
    if (!values) {
        const bool good = read_point(json_object_get(item, "value"), &points[0]);
        answer->dropped += !good;
        return good;
    }
    json_array_foreach(values, i, pair)
    {
        const bool good = read_point(pair, &points[count]) &&
                          (count == 0 || points[count].at_s > points[count - 1].at_s);
        count += good;
        answer->dropped += !good;
    }
    return count;
}

static void read_warnings(const json_t *body, struct aw_kube_prom_answer *answer)
{
    const char *text = json_string_value(json_array_get(json_object_get(body, "warnings"), 0));
    answer->warned = text;
    if (text)
        aw__kube_one_line(text, answer->warning, sizeof answer->warning);
}

static void tell(const struct aw_kube_labels *labels, const struct aw_kube_prom_point *points,
                 uint32_t count, const struct aw_kube_prom_visitor *visitor,
                 struct aw_kube_prom_answer *answer)
{
    if (count == 0)
        return;
    answer->series++;
    visitor->series(visitor->ctx, labels, points, count);
}

/* The points of one series; grows to the longest. Zeroed is empty. */
struct points {
    struct aw_kube_prom_point *point;
    size_t max;
};

static enum aw_err make_room(struct points *points, size_t count, struct aw_diag *diag)
{
    if (count > AW_KUBE_PROM_POINTS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "%zu points in a series, at most %u", count,
                       AW_KUBE_PROM_POINTS_MAX);
    if (count <= points->max)
        return AW_OK;
    aw_alloc_free(NULL, points->point);
    points->point = aw_alloc_new(NULL, count, sizeof *points->point);
    points->max = points->point ? count : 0;
    return points->point ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for an answer");
}

/* A series of any shape, by way of a tree. */
static enum aw_err take_tree(const char *text, size_t len, struct points *points,
                             const struct aw_kube_prom_visitor *visitor,
                             struct aw_kube_prom_answer *answer, struct aw_diag *diag)
{
    struct aw_kube_labels labels;
    json_t *item = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const size_t count = json_array_size(json_object_get(item, "values"));
    enum aw_err err =
        is_series(item) ? make_room(points, count > 0 ? count : 1, diag) : fail_shape(diag);
    if (!err) {
        labels.tree = json_object_get(item, "metric");
        tell(&labels, points->point, read_points(item, points->point, answer), visitor, answer);
    }
    json_decref(item);
    return err;
}

static enum aw_err take_series(const char *text, size_t len, struct points *points,
                               const struct aw_kube_prom_visitor *visitor,
                               struct aw_kube_prom_answer *answer, struct aw_diag *diag)
{
    struct aw_kube_labels labels;
    struct aw_kube_prom_point point;
    bool finite;
    if (!aw_kube_series_quick(text, len, &labels, &point, &finite))
        return take_tree(text, len, points, visitor, answer, diag);
    answer->dropped += !finite;
    tell(&labels, &point, finite, visitor, answer);
    return AW_OK;
}

/* Two items that together are one value: the time and the number. */
static enum aw_err take_scalar(struct aw_kube_slices *slices,
                               const struct aw_kube_prom_visitor *visitor,
                               struct aw_kube_prom_answer *answer, struct aw_diag *diag)
{
    struct aw_kube_prom_point point;
    struct aw_kube_labels none;
    json_t *pair = json_array(), *item = NULL;
    enum aw_err err = pair ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for an answer");
    none.tree = NULL;
    none.count = 0;
    while (!err && !(err = aw_kube_slices_next(slices, &item, diag)) && item)
        if (json_array_append_new(pair, item) || json_array_size(pair) > 2)
            err = fail_shape(diag);
    if (!err) {
        const bool good = read_point(pair, &point);
        answer->dropped += !good;
        tell(&none, &point, good, visitor, answer);
    }
    json_decref(pair);
    return err;
}

/* `rest` is the answer without its result, which is in `slices`. */
static enum aw_err decode(const json_t *rest, struct aw_kube_slices *slices,
                          const struct aw_kube_prom_visitor *visitor,
                          struct aw_kube_prom_answer *ret_answer, struct aw_diag *diag)
{
    struct aw_kube_prom_answer answer = {.code = ret_answer->code};
    struct points points = {0};
    const char *type = NULL, *text = NULL;
    size_t len = 0;
    uint64_t nth = 0;
    enum aw_err err = check(rest, &type, diag);
    if (err)
        return err;
    read_warnings(rest, &answer);
    if (!strcmp(type, "scalar"))
        err = take_scalar(slices, visitor, &answer, diag);
    else
        while (!err && !(err = aw_kube_slices_text(slices, &text, &len, diag)) && text) {
            err = nth++ < AW_KUBE_PROM_SERIES_MAX
                      ? take_series(text, len, &points, visitor, &answer, diag)
                      : aw_fail(diag, AW_ERR_LIMIT, "more than %u series in an answer",
                                AW_KUBE_PROM_SERIES_MAX);
        }
    if (!err)
        *ret_answer = answer;
    aw_alloc_free(NULL, points.point);
    return err;
}

enum aw_err aw_kube_prom_decode(const char *text, size_t len,
                                const struct aw_kube_prom_visitor *visitor,
                                struct aw_kube_prom_answer *ret_answer, struct aw_diag *diag)
{
    struct aw_kube_slices slices = {0};
    json_t *rest = NULL;
    enum aw_err err = aw_kube_slices_cut(text, len, RESULT, &slices, &rest, diag);
    err = err ? err : decode(rest, &slices, visitor, ret_answer, diag);
    json_decref(rest);
    return err;
}

/* --- questions --- */

static enum aw_err ask(struct aw_kube_prom *prom, const char *what, const char *query,
                       const char *more, struct aw_kube_request *request,
                       const struct aw_kube_prom_visitor *visitor,
                       struct aw_kube_prom_answer *ret_answer, struct aw_diag *diag)
{
    char path[AW_KUBE_PATH_MAX];
    struct aw_kube_status status = {0};
    struct aw_kube_slices slices = {0};
    json_t *body = NULL;
    struct aw_text form, address;
    *ret_answer = (struct aw_kube_prom_answer){0};
    aw_text_init(&form, prom->form, sizeof prom->form);
    aw_text_add(&form, "query=");
    aw_http_escape(&form, query, strlen(query));
    aw_text_add(&form, "%s", more);
    aw_text_init(&address, path, sizeof path);
    aw_text_add(&address, "%s/api/v1/%s", prom->prefix, what);
    if (prom->own) { /* in the body: a question about many namespaces is longer than an address */
        request->method = "POST";
        request->content_type = "application/x-www-form-urlencoded";
        request->text = prom->form;
    } else {
        aw_text_add(&address, "?%s", prom->form);
    }
    if (form.cut || address.cut)
        return aw_fail(diag, AW_ERR_LIMIT, "a question of %zu bytes is too long", strlen(query));
    request->path = path;
    request->split = RESULT;
    request->slices = &slices;
    enum aw_err err = aw_kube_send(prom->kube, request, &body, &status, diag);
    ret_answer->code = status.code;
    err = err ? err : decode(body, &slices, visitor, ret_answer, diag);
    json_decref(body);
    return err;
}

enum aw_err aw_kube_prom_ask(struct aw_kube_prom *prom, const char *query, int64_t timeout_us,
                             const struct aw_kube_prom_visitor *visitor,
                             struct aw_kube_prom_answer *ret_answer, struct aw_diag *diag)
{
    /* once: who asks in rounds asks again in the next */
    struct aw_kube_request request = {.timeout_us = timeout_us, .once = true};
    return ask(prom, "query", query, "", &request, visitor, ret_answer, diag);
}

enum aw_err aw_kube_prom_ask_range(struct aw_kube_prom *prom, const char *query,
                                   const struct aw_kube_prom_range *range, int64_t timeout_us,
                                   const struct aw_kube_prom_visitor *visitor,
                                   struct aw_kube_prom_answer *ret_answer, struct aw_diag *diag)
{
    struct aw_kube_request request = {.timeout_us = timeout_us};
    char more[96];
    if (range->step_s <= 0 || range->to_s < range->from_s ||
        (range->to_s - range->from_s) / range->step_s >= AW_KUBE_PROM_POINTS_MAX) {
        *ret_answer = (struct aw_kube_prom_answer){0};
        return aw_fail(diag, AW_ERR_LIMIT, "a range of more than %u points",
                       AW_KUBE_PROM_POINTS_MAX);
    }
    snprintf(more, sizeof more, "&start=%lld&end=%lld&step=%lld", (long long)range->from_s,
             (long long)range->to_s, (long long)range->step_s);
    return ask(prom, "query_range", query, more, &request, visitor, ret_answer, diag);
}
