/* read.c - see read.h: which format it is, and values of JSON one after the other. */
#include "trace/read.h"

#include <string.h>

#include "base/text.h"
#include "trace/read_internal.h"
#include "trace/span_store.h"

#define GUESS_BYTES 65536u /* of JSON, in which a key must appear that tells whose it is */

typedef enum aw_err json_reader(struct aw_spans *spans, const json_t *value,
                                const struct aw__value_place *place, struct aw_diag *diag);

const char *aw_span_format_name(enum aw_span_format format)
{
    static const char *const names[AW_SPAN_FORMATS] = {"auto",   "otlp",   "otlp-json",
                                                       "jaeger", "zipkin", "csv"};
    AW_ASSERT(format < AW_SPAN_FORMATS);
    return names[format];
}

static bool has(const char *bytes, size_t size, const char *text)
{
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

enum aw_span_format aw_span_format_guess(const char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && is_space(bytes[at]))
        at++;
    if (at == size)
        return AW_SPANS_OTLP_JSON; /* an empty request is a good one */
    const char *from = bytes + at;
    const size_t head = size - at < GUESS_BYTES ? size - at : GUESS_BYTES;
    if (*from == '{' || *from == '[') {
        if (has(from, head, "\"traceID\"") || has(from, head, "\"processes\""))
            return AW_SPANS_JAEGER;
        if (*from == '[')
            return AW_SPANS_ZIPKIN;
        return has(from, head, "\"data\"") ? AW_SPANS_JAEGER : AW_SPANS_OTLP_JSON;
    }
    if (memmem(from, head < 512 ? head : 512, "TraceID", 7))
        return AW_SPANS_CSV;
    return bytes[0] == 0x0a ? AW_SPANS_OTLP : AW_SPANS_AUTO;
}

static enum aw_err read_json(struct aw_spans *spans, const char *name, const char *bytes,
                             size_t size, json_reader *reader, struct aw_diag *diag)
{
    const uint32_t count_before = spans->count;
    struct aw__value_place place = {.name = name, .line = 1};
    size_t at = 0;
    enum aw_err err = AW_OK;
    while (!err) {
        for (; at < size && (is_space(bytes[at]) || bytes[at] == ','); at++)
            place.line += bytes[at] == '\n';
        if (at == size)
            break;
        json_error_t error;
        json_t *value = json_loadb(bytes + at, size - at, JSON_DISABLE_EOF_CHECK, &error);
        if (!value) {
            char quoted[AW_TEXT_QUOTE_MAX];
            err =
                aw_fail_at(diag, AW_ERR_FORMAT, name,
                           place.line + (error.line > 0 ? (uint32_t)error.line - 1 : 0),
                           error.column > 0 ? (uint32_t)error.column : 0, NULL, "expected JSON: %s",
                           aw_text_quote(error.text, strlen(error.text), quoted, sizeof quoted));
            break;
        }
        err = json_is_object(value) || json_is_array(value)
                  ? reader(spans, value, &place, diag)
                  : aw__value_refuse(diag, &place, NULL, "an object or a list", value);
        json_decref(value);
        const size_t used = error.position > 0 ? (size_t)error.position : size - at;
        for (size_t i = 0; i < used && at < size; i++, at++)
            place.line += bytes[at] == '\n';
    }
    if (err)
        spans->count = count_before;
    return err;
}

enum aw_err aw_spans_read(struct aw_spans *spans, const char *name, const char *bytes, size_t size,
                          enum aw_span_format format, enum aw_span_format *ret_format,
                          struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    if (format == AW_SPANS_AUTO)
        format = aw_span_format_guess(bytes, size);
    switch (format) {
    case AW_SPANS_OTLP:
        err = aw_spans_read_otlp(spans, name, bytes, size, diag);
        break;
    case AW_SPANS_OTLP_JSON:
        err = read_json(spans, name, bytes, size, aw__otlp_json, diag);
        break;
    case AW_SPANS_JAEGER:
        err = read_json(spans, name, bytes, size, aw__jaeger_json, diag);
        break;
    case AW_SPANS_ZIPKIN:
        err = read_json(spans, name, bytes, size, aw__zipkin_json, diag);
        break;
    case AW_SPANS_CSV:
        err = aw_spans_read_csv(spans, name, bytes, size, diag);
        break;
    default:
        err = aw_fail_at(diag, AW_ERR_FORMAT, name, 1, 0, NULL,
                         "expected spans as OTLP, Jaeger JSON, Zipkin JSON or CSV with a column "
                         "TraceID, found none of them");
    }
    if (!err && ret_format)
        *ret_format = format;
    return err;
}

/* What aware trace collect keeps. */
static enum aw_err read_store(struct aw_spans *spans, const char *path,
                              enum aw_span_format *ret_format, struct aw_diag *diag)
{
    struct aw_span_store *store = NULL;
    const uint32_t count_before = spans->count;
    enum aw_err err = aw_span_store_open(&store, path, true, diag);
    if (!err)
        err = aw_span_store_read(store, spans, diag);
    aw_span_store_close(store);
    if (err)
        spans->count = count_before;
    else if (ret_format)
        *ret_format = AW_SPANS_OTLP;
    return err;
}

enum aw_err aw_spans_read_file(struct aw_spans *spans, const char *path, enum aw_span_format format,
                               enum aw_span_format *ret_format, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t size = 0;
    if (format == AW_SPANS_AUTO && aw_span_store_is(path))
        return read_store(spans, path, ret_format, diag);
    enum aw_err err = aw_packed_read(path, AW_SPANS_FILE_MAX, spans->alloc, &bytes, &size, diag);
    if (!err)
        err = aw_spans_read(spans, strcmp(path, "-") ? path : "standard input", bytes, size, format,
                            ret_format, diag);
    aw_alloc_free(spans->alloc, bytes);
    return err;
}
