/*
 * text.c - JSON to YAML with the libraries a service would use, and rendering of web pages.
 *
 * A piece is one document read, turned and written, or one page of a shop with its items escaped.
 */
#include "segments/kind.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"

struct page {
    const struct aw_alloc *alloc;
    size_t text_len, out_bytes;
    char *text; /* the document, or the prose that items are named from */
    char *out;  /* [lane][out_bytes] */
};

static enum aw_err page_open(const struct aw__setup *setup, size_t text_bytes, size_t out_bytes,
                             struct page **ret, struct aw_diag *diag)
{
    struct page *page = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = (unsigned char *)page}) {
        struct page *self = aw_carve_take(&carve, 1, sizeof *self);
        char *text = aw_carve_take(&carve, text_bytes + 1, 1);
        char *out = aw_carve_take(&carve, setup->lane_count, out_bytes);
        if (page) {
            *self = (struct page){setup->alloc, text_bytes, out_bytes, text, out};
            break;
        }
        if (!(page = aw_alloc_new(setup->alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for text of %zu bytes", text_bytes);
    }
    *ret = page;
    return AW_OK;
}

static void page_close(void *state)
{
    struct page *page = state;
    if (page)
        aw_alloc_free(page->alloc, page);
}

/* ---- json_to_yaml ---- */

#define DOCUMENT_BYTES     625.0 /* at payload 1, the middle of 250 to 1000: AWARE section 2.3 */
#define DOCUMENT_BYTES_MAX 16384u
#define YAML_GROWTH        4u /* a YAML text is never so many times longer than its JSON */
#define ITEM_BYTES         96u

static enum aw_err json_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    const uint32_t bytes = aw__sized(setup, DOCUMENT_BYTES, 1, 128, DOCUMENT_BYTES_MAX);
    struct page *page = NULL;
    enum aw_err err =
        page_open(setup, bytes + ITEM_BYTES, (size_t)bytes * YAML_GROWTH + 4096, &page, diag);
    if (err)
        return err;
    AW_ASSERT(page);
    struct aw_rng rng;
    struct aw_text text;
    aw_rng_init(&rng, setup->seed, 4);
    aw_text_init(&text, page->text, page->text_len + 1);
    aw_text_add(&text, "{\"order\":[");
    for (uint32_t i = 0; text.len + ITEM_BYTES < bytes; i++)
        aw_text_add(&text,
                    "%s{\"id\":%u,\"name\":\"item %u\",\"price\":%u.5,\"tags\":[\"a\",\"b\"]}",
                    i ? "," : "", i, aw_rng_below(&rng, 1000), aw_rng_below(&rng, 500));
    aw_text_add(&text, "],\"paid\":true,\"note\":null}");
    AW_ASSERT(!text.cut);
    page->text_len = text.len;
    *ret_state = page;
    return AW_OK;
}

static bool emit(yaml_emitter_t *emitter, yaml_event_t *event, int made)
{
    return made && yaml_emitter_emit(emitter, event);
}

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, size_t len, bool quoted)
{
    yaml_event_t event;
    return emit(emitter, &event,
                yaml_scalar_event_initialize(
                    &event, NULL, NULL, (const yaml_char_t *)text, (int)len, 1, 1,
                    quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE));
}

static bool emit_value(yaml_emitter_t *emitter, json_t *value);

static bool emit_map(yaml_emitter_t *emitter, json_t *map)
{
    yaml_event_t event;
    const char *key;
    json_t *value;
    if (!emit(emitter, &event,
              yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE)))
        return false;
    json_object_foreach(map, key, value)
    {
        if (!emit_scalar(emitter, key, strlen(key), false) || !emit_value(emitter, value))
            return false;
    }
    return emit(emitter, &event, yaml_mapping_end_event_initialize(&event));
}

static bool emit_list(yaml_emitter_t *emitter, json_t *list)
{
    yaml_event_t event;
    size_t i;
    json_t *value;
    if (!emit(
            emitter, &event,
            yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE)))
        return false;
    json_array_foreach(list, i, value)
    {
        if (!emit_value(emitter, value))
            return false;
    }
    return emit(emitter, &event, yaml_sequence_end_event_initialize(&event));
}

static bool emit_value(yaml_emitter_t *emitter, json_t *value)
{
    char buf[AW_TEXT_REAL_MAX];
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return emit_map(emitter, value);
    case JSON_ARRAY:
        return emit_list(emitter, value);
    case JSON_STRING:
        return emit_scalar(emitter, json_string_value(value), json_string_length(value), true);
    case JSON_INTEGER:
        snprintf(buf, sizeof buf, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        aw_text_real(json_real_value(value), buf, sizeof buf);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(buf, sizeof buf, "%s", json_is_true(value) ? "true" : "false");
        break;
    case JSON_NULL:
        snprintf(buf, sizeof buf, "null");
        break;
    }
    return emit_scalar(emitter, buf, strlen(buf), false);
}

static enum aw_err document_turn(const struct page *page, char *out, size_t *ret_len)
{
    yaml_emitter_t emitter;
    yaml_event_t event;
    enum aw_err err = AW_ERR_NOMEM;
    json_t *json = json_loadb(page->text, page->text_len, JSON_REJECT_DUPLICATES, NULL);
    if (!json)
        return AW_ERR_NOMEM; /* the text is ours and well formed */
    if (yaml_emitter_initialize(&emitter)) {
        yaml_emitter_set_output_string(&emitter, (unsigned char *)out, page->out_bytes, ret_len);
        if (emit(&emitter, &event,
                 yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)) &&
            emit(&emitter, &event,
                 yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)) &&
            emit_value(&emitter, json) &&
            emit(&emitter, &event, yaml_document_end_event_initialize(&event, 1)) &&
            emit(&emitter, &event, yaml_stream_end_event_initialize(&event)))
            err = AW_OK;
        yaml_emitter_delete(&emitter);
    }
    json_decref(json);
    return err;
}

static enum aw_err json_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                               struct aw_diag *diag)
{
    (void)first;
    const struct page *page = state;
    char *out = page->out + lane * page->out_bytes;
    for (uint64_t i = 0; i < count; i++) {
        size_t len = 0;
        if (document_turn(page, out, &len))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory to turn a document");
        aw__keep((double)len);
    }
    return AW_OK;
}

const struct aw__segment_kind aw__kind_json_to_yaml = {"json_to_yaml", json_open, page_close,
                                                       json_pieces, aw__agent_exchange_none};

/* ---- web_serving ---- */

#define WEB_ITEMS      12u /* rows of a page */
#define WEB_NAME_BYTES 48u /* of an item's name before escaping */
#define WEB_TEXT_BYTES 4096u
#define WEB_OUT_BYTES  16384u

static enum aw_err web_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    struct page *page = NULL;
    enum aw_err err = page_open(setup, WEB_TEXT_BYTES, WEB_OUT_BYTES, &page, diag);
    if (err)
        return err;
    AW_ASSERT(page);
    aw__prose(setup->seed, page->text, page->text_len);
    for (size_t i = 0; i < page->text_len; i += 17) /* something to escape */
        page->text[i] = "<>&\""[i % 4];
    *ret_state = page;
    return AW_OK;
}

static void add_escaped(struct aw_text *text, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        switch (bytes[i]) {
        case '<':
            aw_text_add_bytes(text, "&lt;", 4);
            break;
        case '>':
            aw_text_add_bytes(text, "&gt;", 4);
            break;
        case '&':
            aw_text_add_bytes(text, "&amp;", 5);
            break;
        case '"':
            aw_text_add_bytes(text, "&quot;", 6);
            break;
        default:
            aw_text_add_bytes(text, bytes + i, 1);
        }
    }
}

static enum aw_err web_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                              struct aw_diag *diag)
{
    (void)diag;
    const struct page *page = state;
    for (uint64_t i = first; i < first + count; i++) {
        struct aw_text text;
        aw_text_init(&text, page->out + lane * page->out_bytes, page->out_bytes);
        aw_text_add(&text, "<!doctype html><title>Page %llu</title><table>", (unsigned long long)i);
        for (uint32_t k = 0; k < WEB_ITEMS; k++) {
            const size_t at = (size_t)(i * 31 + k * 97) % (page->text_len - WEB_NAME_BYTES);
            aw_text_add(&text, "<tr><td>%u<td>", k + 1);
            add_escaped(&text, page->text + at, WEB_NAME_BYTES);
            aw_text_add(&text, "<td>%u.%02u", k * 7 % 90, k * 13 % 100);
        }
        aw_text_add(&text, "</table>");
        aw__keep((double)text.len);
    }
    return AW_OK;
}

const struct aw__segment_kind aw__kind_web_serving = {"web_serving", web_open, page_close,
                                                      web_pieces, aw__agent_exchange_none};
