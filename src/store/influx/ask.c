/*
 * ask.c - talking to InfluxDB 1.x: POST /write takes line protocol, POST /query takes InfluxQL and
 * answers in JSON.
 */
#include <stdio.h>
#include <string.h>

#include "store/influx/influx.h"

#define ERROR_SHOWN 200u

/* What the server said, on one line. */
static enum aw_err fail_said(struct aw__influx *s, enum aw_err err, const char *said, size_t len,
                             struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_fail_at(diag, err, s->shown, 0, 0, NULL, "the server says %s",
                      aw_text_quote(said, len, quoted, sizeof quoted));
}

enum aw_err aw__influx_odd(struct aw__influx *s, struct aw_diag *diag)
{
    return aw_fail_at(diag, AW_ERR_FORMAT, s->shown, 0, 0, NULL,
                      "the answer is not that of an InfluxDB which this program has filled");
}

static enum aw_err fail_status(struct aw__influx *s, const struct aw_http_answer *answer,
                               struct aw_diag *diag)
{
    json_t *root = json_loadb(answer->body, answer->len, 0, NULL);
    const char *said = json_string_value(json_object_get(root, "error"));
    enum aw_err err =
        said ? fail_said(s, aw_http_status_err(answer->status), said, strlen(said), diag)
             : aw_fail_at(diag, aw_http_status_err(answer->status), s->shown, 0, 0, NULL,
                          "the server answers with status %d", answer->status);
    json_decref(root);
    return err ? err : aw__influx_odd(s, diag);
}

enum aw_err aw__influx_send(struct aw__influx *s, struct aw_diag *diag)
{
    struct aw_http_answer answer;
    if (s->pending.len == 0)
        return AW_OK;
    AW_ASSERT(!s->pending.cut);
    struct aw_http_request request = {
        .method = "POST",
        .url = s->write_url,
        .name = s->shown,
        .content_type = "text/plain; charset=utf-8",
        .body = s->pending.buf,
        .body_len = s->pending.len,
    };
    enum aw_err err = aw_http_send(s->http, &request, &answer, diag);
    if (!err && answer.status != 204)
        err = fail_status(s, &answer, diag);
    aw_text_init(&s->pending, s->pending.buf, s->pending.size);
    s->names_stale |= err != AW_OK;
    s->group_lost |= err && s->grouped;
    return err;
}

static enum aw_err check_results(struct aw__influx *s, json_t *root, json_t **ret_results,
                                 struct aw_diag *diag)
{
    json_t *results = json_object_get(root, "results"), *result;
    size_t i;
    if (!json_is_array(results))
        return aw__influx_odd(s, diag);
    json_array_foreach(results, i, result)
    {
        const char *said = json_string_value(json_object_get(result, "error"));
        if (said)
            return fail_said(s, strstr(said, "not found") ? AW_ERR_NOTFOUND : AW_ERR_FORMAT, said,
                             strlen(said), diag);
        if (json_is_true(json_object_get(result, "partial")))
            return aw__influx_odd(s, diag);
    }
    *ret_results = results;
    return AW_OK;
}

enum aw_err aw__influx_ask(struct aw__influx *s, json_t **ret_root, json_t **ret_results,
                           struct aw_diag *diag)
{
    struct aw_http_answer answer;
    enum aw_err err = aw__influx_send(s, diag);
    if (err)
        return err;
    aw_text_init(&s->form, s->form.buf, s->form.size);
    aw_text_add(&s->form, "q=");
    aw_http_escape(&s->form, s->query.buf, s->query.len);
    AW_ASSERT(!s->query.cut && !s->form.cut);
    struct aw_http_request request = {
        .method = "POST",
        .url = s->query_url,
        .name = s->shown,
        .content_type = "application/x-www-form-urlencoded",
        .body = s->form.buf,
        .body_len = s->form.len,
    };
    if ((err = aw_http_send(s->http, &request, &answer, diag)))
        return err;
    if (answer.status != 200)
        return fail_status(s, &answer, diag);
    json_t *root = json_loadb(answer.body, answer.len, 0, NULL);
    if (!root)
        return aw__influx_odd(s, diag);
    if ((err = check_results(s, root, ret_results, diag)))
        json_decref(root);
    else
        *ret_root = root;
    return err;
}

json_t *aw__influx_values(json_t *results, size_t index)
{
    json_t *series = json_object_get(json_array_get(results, index), "series");
    return json_object_get(json_array_get(series, 0), "values");
}

static bool is_plain(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
              c == '_' || c == '-' || c == '.'))
            return false;
    }
    return len > 0;
}

enum aw_err aw__influx_connect(struct aw__influx *s, const char *url,
                               const struct aw_store_options *options, struct aw_diag *diag)
{
    const char *base = url + strlen("influx+");
    const char *host = strstr(base, "://") + 3;
    const char *slash = strchr(host, '/');
    const char *at = memrchr(host, '@', slash ? (size_t)(slash - host) : strlen(host));
    const char *shown = at ? at + 1 : host;
    const char *database = slash ? slash + 1 : "";
    size_t database_len = strlen(database);
    s->read_only = options->read_only;
    if (!is_plain(database, database_len) || database_len >= sizeof s->database)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected influx+http://HOST:PORT/DATABASE with a database of letters, "
                       "digits, dots, dashes and underscores, found \"%.*s\" at the end",
                       (int)ERROR_SHOWN, database);
    snprintf(s->database, sizeof s->database, "%s", database);
    int a = snprintf(s->query_url, sizeof s->query_url, "%.*s/query?db=%s&epoch=ns",
                     (int)(slash - base), base, database);
    int b = snprintf(s->write_url, sizeof s->write_url, "%.*s/write?db=%s&precision=ns",
                     (int)(slash - base), base, database);
    snprintf(s->shown, sizeof s->shown, "%s", shown);
    if (a < 0 || (size_t)a >= sizeof s->query_url || b < 0 || (size_t)b >= sizeof s->write_url)
        return aw_fail(diag, AW_ERR_LIMIT, "the URL is longer than %u bytes", AW__INFLUX_URL_MAX);
    struct aw_http_config config = {.timeout_us = options->timeout_us ? options->timeout_us
                                                                      : AW_STORE_TIMEOUT_US};
    return aw_http_open(&s->http, &config, s->alloc, diag);
}
