/* slices.c - see slices.h. Only what nests is looked at here; whether the rest is JSON says
 * jansson.
 */
#include "kube/slices.h"

#include <stdlib.h>
#include <string.h>

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Behind the string that begins at `at`; NULL: it does not end. */
static const char *skip_string(const char *at, const char *end)
{
    const char *begin = at + 1;
    for (at = begin; (at = memchr(at, '"', (size_t)(end - at))); at++) {
        const char *slash = at;
        while (slash > begin && slash[-1] == '\\')
            slash--;
        if ((at - slash) % 2 == 0) /* a quote behind an odd number of them is one of the text */
            return at + 1;
    }
    return NULL;
}

/* Behind the value that begins at `at`; NULL: it does not end. */
static const char *skip_value(const char *at, const char *end)
{
    uint64_t depth = 0;
    if (*at == '"')
        return skip_string(at, end);
    if (*at != '{' && *at != '[')
        return at + strcspn(at, ",]} \t\r\n");
    do {
        at += strcspn(at, "\"[]{}");
        if (at >= end || !*at)
            return NULL;
        if (*at == '"') {
            if (!(at = skip_string(at, end)))
                return NULL;
            continue;
        }
        depth += *at == '[' || *at == '{' ? 1u : UINT64_MAX;
        at++;
    } while (depth > 0);
    return at;
}

/* The value of the first member of this name, in the object that begins at `at`; NULL: none. */
static const char *find_member(const char *at, const char *end, const char *name, size_t len)
{
    if (*at != '{')
        return NULL;
    at = skip_blanks(at + 1);
    while (*at == '"') {
        const char *key = at + 1;
        if (!(at = skip_string(at, end)))
            return NULL;
        const bool found = (size_t)(at - key) == len + 1 && !memcmp(key, name, len);
        at = skip_blanks(at);
        if (*at != ':')
            return NULL;
        at = skip_blanks(at + 1);
        if (found)
            return at;
        if (!(at = skip_value(at, end)))
            return NULL;
        at = skip_blanks(at);
        if (*at != ',')
            return NULL;
        at = skip_blanks(at + 1);
    }
    return NULL;
}

/* Where the array begins; NULL: there is none. */
static const char *find_array(const char *at, const char *end, const char *path)
{
    at = skip_blanks(at);
    for (uint32_t depth = 0; at && *path && depth < AW_KUBE_SLICES_DEPTH_MAX; depth++) {
        const size_t len = strcspn(path, ".");
        at = find_member(at, end, path, len);
        path += len + (path[len] == '.');
    }
    return at && !*path && *at == '[' ? at : NULL;
}

static enum aw_err no_json(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_FORMAT, "expected JSON from the server, found something else");
}

static enum aw_err parse(const char *text, size_t len, json_t **ret_value, struct aw_diag *diag)
{
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (!value)
        return no_json(diag);
    *ret_value = value;
    return AW_OK;
}

enum aw_err aw_kube_slices_cut(const char *text, size_t len, const char *path,
                               struct aw_kube_slices *ret_slices, json_t **ret_rest,
                               struct aw_diag *diag)
{
    const char *end = text + len;
    const char *array = find_array(text, end, path);
    const char *behind = array ? skip_value(array, end) : NULL;
    if (!behind) {
        *ret_slices = (struct aw_kube_slices){0};
        return parse(text, len, ret_rest, diag);
    }
    const size_t head = (size_t)(array + 1 - text), tail = (size_t)(end - behind) + 1;
    char *rest = malloc(head + tail);
    if (!rest)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an answer");
    memcpy(rest, text, head);
    memcpy(rest + head, behind - 1, tail);
    const enum aw_err err = parse(rest, head + tail, ret_rest, diag);
    free(rest);
    if (!err)
        *ret_slices = (struct aw_kube_slices){.at = array + 1, .end = behind - 1};
    return err;
}

enum aw_err aw_kube_slices_text(struct aw_kube_slices *slices, const char **ret_text,
                                size_t *ret_len, struct aw_diag *diag)
{
    const char *at = slices->at ? skip_blanks(slices->at) : NULL;
    if (!at || (at == slices->end && slices->told == 0)) {
        *ret_text = NULL;
        return AW_OK;
    }
    const char *behind = at < slices->end ? skip_value(at, slices->end) : NULL;
    if (!behind || behind == at)
        return no_json(diag);
    const char *next = skip_blanks(behind);
    if (next != slices->end && *next != ',')
        return no_json(diag);
    slices->at = next == slices->end ? NULL : next + 1;
    slices->told++;
    *ret_text = at;
    *ret_len = (size_t)(behind - at);
    return AW_OK;
}

enum aw_err aw_kube_slices_next(struct aw_kube_slices *slices, json_t **ret_item,
                                struct aw_diag *diag)
{
    const char *text = NULL;
    size_t len = 0;
    json_t *item = NULL;
    enum aw_err err = aw_kube_slices_text(slices, &text, &len, diag);
    if (!err && text)
        err = parse(text, len, &item, diag);
    if (!err)
        *ret_item = item;
    return err;
}
