/* status.c - Status objects; the code of the answer counts where the object does not say. */
#include "kube/status.h"

#include <string.h>

#include "base/text.h"
#include "kube/object.h"

/* The largest Status that is worth parsing; details of an Invalid may list every field. */
#define STATUS_BYTES_MAX ((size_t)1 << 20)

static const struct {
    const char *text;
    enum aw_err err;
} reasons[] = {
#define X(name, text, err) {text, err},
    AW_KUBE_REASON_MAP(X)
#undef X
};

const char *aw_kube_reason_name(enum aw_kube_reason reason)
{
    return reasons[reason].text;
}

static enum aw_kube_reason reason_of_text(const char *text)
{
    for (uint32_t i = 1; i < sizeof reasons / sizeof *reasons; i++)
        if (!strcmp(reasons[i].text, text))
            return (enum aw_kube_reason)i;
    return AW_KUBE_UNKNOWN;
}

static enum aw_kube_reason reason_of_code(int code)
{
    static const struct {
        int code;
        enum aw_kube_reason reason;
    } codes[] = {
        {400, AW_KUBE_BAD_REQUEST},
        {401, AW_KUBE_UNAUTHORIZED},
        {403, AW_KUBE_FORBIDDEN},
        {404, AW_KUBE_NOT_FOUND},
        {405, AW_KUBE_METHOD_NOT_ALLOWED},
        {406, AW_KUBE_NOT_ACCEPTABLE},
        {409, AW_KUBE_CONFLICT},
        {410, AW_KUBE_GONE},
        {413, AW_KUBE_TOO_LARGE},
        {415, AW_KUBE_UNSUPPORTED_MEDIA},
        {422, AW_KUBE_INVALID},
        {429, AW_KUBE_TOO_MANY_REQUESTS},
        {500, AW_KUBE_INTERNAL},
        {502, AW_KUBE_UNAVAILABLE},
        {503, AW_KUBE_UNAVAILABLE},
        {504, AW_KUBE_TIMEOUT},
    };
    for (uint32_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            return codes[i].reason;
    return AW_KUBE_UNKNOWN;
}

void aw__kube_one_line(const char *text, char *buf, size_t size)
{
    size_t len = 0;
    for (const char *at = text; *at && len + 1 < size; at++)
        buf[len++] = (unsigned char)*at < 0x20 || *at == 0x7f ? ' ' : *at;
    buf[len] = '\0';
    /* C1 controls hide in UTF-8, and the cut may have split a character */
    if (aw_text_utf8_bad(buf, len) != len || strstr(buf, "\xc2"))
        for (size_t i = 0; i < len; i++)
            if ((unsigned char)buf[i] >= 0x7f)
                buf[i] = '?';
}

static void keep_message(struct aw_kube_status *status, const char *text)
{
    aw__kube_one_line(text, status->message, sizeof status->message);
}

static int64_t clamp_retry(int64_t seconds)
{
    if (seconds <= 0)
        return 0;
    return seconds > AW_KUBE_RETRY_AFTER_MAX_US / 1000000 ? AW_KUBE_RETRY_AFTER_MAX_US
                                                          : seconds * 1000000;
}

void aw_kube_status_read_json(struct aw_kube_status *ret_status, int http_code, const json_t *body)
{
    struct aw_kube_status status = {.code = http_code};
    if (!strcmp(aw_kube_text_at(body, "kind"), "Status")) {
        const int64_t code = aw_kube_int_at(body, "code", 0);
        if (status.code == 0 && code >= 100 && code <= 599)
            status.code = (int)code;
        status.reason = reason_of_text(aw_kube_text_at(body, "reason"));
        status.retry_after_us = clamp_retry(aw_kube_int_at(body, "details.retryAfterSeconds", 0));
        keep_message(&status, aw_kube_text_at(body, "message"));
    } else if (!strcmp(aw_kube_text_at(body, "status"), "error")) { /* Prometheus, HTTP API v1 */
        keep_message(&status, aw_kube_text_at(body, "error"));
    }
    if (status.code == 0)
        status.code = 500; /* something was said, and it was not a success */
    if (status.reason == AW_KUBE_UNKNOWN)
        status.reason = reason_of_code(status.code);
    *ret_status = status;
}

void aw_kube_status_read(struct aw_kube_status *ret_status, int http_code, const char *body,
                         size_t len, const char *retry_after)
{
    struct aw_kube_status status;
    uint64_t seconds = 0;
    json_t *json = body && len <= STATUS_BYTES_MAX
                       ? json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL)
                       : NULL;
    aw_kube_status_read_json(&status, http_code, json);
    json_decref(json);
    /* the header may also be a date (RFC 9110, 10.2.3); API servers say seconds */
    if (retry_after && retry_after[0] && !aw_text_parse_u64(retry_after, &seconds))
        status.retry_after_us = clamp_retry(seconds > 3600 ? 3600 : (int64_t)seconds);
    *ret_status = status;
}

enum aw_err aw_kube_status_err(const struct aw_kube_status *status)
{
    if (status->code >= 200 && status->code < 300)
        return AW_OK;
    if (status->reason == AW_KUBE_UNKNOWN && status->code >= 300 && status->code < 500)
        return AW_ERR_FORMAT; /* a redirection, or something that we should not have asked */
    return reasons[status->reason].err;
}

bool aw_kube_status_is_gone(const struct aw_kube_status *status)
{
    return status->reason == AW_KUBE_GONE || status->reason == AW_KUBE_EXPIRED ||
           status->code == 410;
}
