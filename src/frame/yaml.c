/* yaml.c - a JSON document as YAML in block style. */
#include "frame/show.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>

#define DEPTH_MAX 64u

/* Whether a text can stand without quotes and still be read back as that text: YAML has many ways
 * to take a plain scalar for something else, so only what is surely none of them goes bare. */
static bool plain(const char *text)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    if (!isalpha((unsigned char)*text) && *text != '/')
        return false;
    for (const char *p = text; *p; p++) {
        if (!isalnum((unsigned char)*p) && !strchr("_-./ ", *p))
            return false;
    }
    if (text[strlen(text) - 1] == ' ')
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!strcasecmp(words[i], text))
            return false;
    }
    return true;
}

static void text_write(const char *text, FILE *out)
{
    if (plain(text)) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", out);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void value_write(json_t *value, FILE *out, unsigned depth, bool in_list);

static void indent(FILE *out, unsigned depth)
{
    fprintf(out, "%*s", (int)(2 * depth), "");
}

/* Behind a key or a dash: what is short stands on the same line. */
static void member_write(json_t *value, FILE *out, unsigned depth)
{
    const bool nested = (json_is_object(value) && json_object_size(value) > 0) ||
                        (json_is_array(value) && json_array_size(value) > 0);
    fputs(nested ? "\n" : " ", out);
    value_write(value, out, depth + 1, false);
}

static void object_write(json_t *value, FILE *out, unsigned depth, bool in_list)
{
    const char *key;
    json_t *member;
    bool first = true;
    json_object_foreach(value, key, member)
    {
        if (!first || !in_list) /* the first key of an item stands behind its dash */
            indent(out, depth);
        text_write(key, out);
        fputc(':', out);
        member_write(member, out, depth);
        first = false;
    }
}

static void value_write(json_t *value, FILE *out, unsigned depth, bool in_list)
{
    char real[AW_TEXT_REAL_MAX];
    AW_ASSERT(depth < DEPTH_MAX);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        if (json_object_size(value) == 0)
            fputs("{}\n", out);
        else
            object_write(value, out, depth, in_list);
        return;
    case JSON_ARRAY:
        if (json_array_size(value) == 0)
            fputs("[]\n", out);
        for (size_t i = 0; i < json_array_size(value); i++) {
            json_t *item = json_array_get(value, i);
            if (i > 0 || !in_list)
                indent(out, depth);
            fputs("- ", out);
            value_write(item, out, depth + 1, true);
        }
        return;
    case JSON_STRING:
        text_write(json_string_value(value), out);
        break;
    case JSON_INTEGER:
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        fputs(aw_text_real(json_real_value(value), real, sizeof real), out);
        break;
    default:
        fputs(json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false", out);
    }
    fputc('\n', out);
}

enum aw_err aw_yaml_write(json_t *value, FILE *out)
{
    value_write(value, out, 0, false);
    return ferror(out) ? AW_ERR_IO : AW_OK;
}
