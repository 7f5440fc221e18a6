/* load_parse.c - a load as one word: a pattern or a file, with settings. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/quantity.h"
#include "base/text.h"
#include "workload/trace.h"

#define VALUE_MAX 320u /* bytes of a setting with its key */

static bool among(const char *key, const char *const *names)
{
    for (; *names; names++) {
        if (!strcmp(*names, key))
            return true;
    }
    return false;
}

/* Turns what people write into the plain number that the table wants: "1h" to 3600, "50/s" to 50. A
 * plain number stays, and so does everything that is neither. */
static enum aw_err value_plain(const char *key, const char *value, bool peak_is_rate, char *buf,
                               size_t size, struct aw_diag *diag)
{
    static const char *const times[] = {"period", "duration", "length", "slot", "start", NULL};
    double number;
    enum aw_err err = AW_OK;
    snprintf(buf, size, "%s", value);
    if (aw_text_parse_real(value, &number) == AW_OK)
        return AW_OK;
    if (among(key, times)) {
        int64_t us = 0;
        err = aw_duration_parse(value, AW_QUANTITY_POSITIVE_OR_0, &us, diag);
        number = (double)us / 1e6;
    } else if (!strcmp(key, "mean") || (peak_is_rate && !strcmp(key, "peak"))) {
        err = aw_rate_parse(value, &number, diag);
    } else {
        return AW_OK;
    }
    if (err) {
        if (diag)
            snprintf(diag->key, sizeof diag->key, "%.100s", key);
        return AW_ERR_CONFIG;
    }
    aw_text_real(number, buf, size);
    return AW_OK;
}

/* "key=value,..." into the settings of `table`. `*ret_length` is set when length was among them. */
static enum aw_err settings_parse(const char *text, const struct aw_conf_field *table,
                                  bool peak_is_rate, void *settings, bool *ret_length,
                                  struct aw_diag *diag)
{
    *ret_length = false;
    while (*text) {
        char pair[VALUE_MAX], plain[VALUE_MAX], quoted[AW_TEXT_QUOTE_MAX];
        size_t len = strcspn(text, ",");
        aw_text_quote(text, len, quoted, sizeof quoted);
        if (len >= sizeof pair)
            return aw_fail(diag, AW_ERR_LIMIT, "a setting of a load is too long: %s", quoted);
        memcpy(pair, text, len);
        pair[len] = '\0';
        char *value = strchr(pair, '=');
        if (!value)
            return aw_fail(diag, AW_ERR_CONFIG, "expected key=value, found %s", quoted);
        *value++ = '\0';
        enum aw_err err = value_plain(pair, value, peak_is_rate, plain, sizeof plain, diag);
        if (err || (err = aw_conf_set(table, settings, pair, plain, diag)))
            return err;
        *ret_length |= !strcmp(pair, "length");
        text += len;
        if (*text == ',' && !*++text)
            return aw_fail(diag, AW_ERR_CONFIG, "expected key=value after the last comma");
    }
    return AW_OK;
}

static enum aw_err pattern_parse(uint32_t pattern, const char *rest, uint64_t seed,
                                 const struct aw_alloc *alloc, struct aw_load *ret,
                                 struct aw_diag *diag)
{
    struct aw_load_settings settings;
    bool length;
    aw_conf_defaults(aw_load_fields, &settings);
    enum aw_err err = settings_parse(rest, aw_load_fields, false, &settings, &length, diag);
    if (err)
        return err;
    /* "pattern" is a key of the table, for files; here the word before the colon has said it. */
    settings.pattern = pattern;
    if (!length) /* a week-long day would otherwise be cut at its night */
        settings.length_s = fmax(settings.length_s, settings.period_s);
    return aw_load_generate(&settings, seed, alloc, ret, diag);
}

static enum aw_err trace_parse(const char *path, const char *rest, const struct aw_alloc *alloc,
                               struct aw_load *ret, struct aw_trace_report *report,
                               struct aw_diag *diag)
{
    struct aw_trace_settings settings;
    struct aw_trace_report own;
    struct aw_load load = {0};
    bool length;
    aw_conf_defaults(aw_trace_fields, &settings);
    enum aw_err err = settings_parse(rest, aw_trace_fields, true, &settings, &length, diag);
    if (err || (err = aw_trace_read(path, &settings, alloc, &load, report ? report : &own, diag)))
        return err;
    if (report)
        err = aw_trace_judge(report, path, diag);
    else if (own.bad_count)
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, own.finding[0].line, own.finding[0].column,
                         NULL, "%s", own.finding[0].text);
    if (err)
        aw_load_deinit(&load);
    else
        *ret = load;
    return err;
}

/* The path [AW_FILE_PATH_MAX] and the settings of a load that is a file. */
static enum aw_err file_parse(const char *text, char *path, const char **ret_rest,
                              struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    const size_t word = strcspn(text, ":");
    *ret_rest = "";
    /* A path may have colons of its own: settings follow the last one that has '=' behind it. */
    const char *colon = strrchr(text, ':');
    size_t path_len = strlen(text);
    if (colon && strchr(colon, '=')) {
        path_len = (size_t)(colon - text);
        *ret_rest = colon + 1;
    }
    if (path_len >= AW_FILE_PATH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "a path has at most %u bytes", AW_FILE_PATH_MAX - 1);
    memcpy(path, text, path_len);
    path[path_len] = '\0';
    if (access(path, F_OK)) {
        const char *nearest = NULL;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(word < 63 ? word : 63), text);
        nearest = aw_conf_nearest(name, aw_load_pattern_names);
        aw_text_quote(path, path_len, quoted, sizeof quoted);
        if (nearest)
            return aw_fail(diag, AW_ERR_NOTFOUND,
                           "%s is neither a pattern nor a file (did you mean \"%s\"?)", quoted,
                           nearest);
        return aw_fail(diag, AW_ERR_NOTFOUND,
                       "%s is neither a file nor one of the patterns: constant, diurnal, poisson, "
                       "spikes, bursts, ramp",
                       quoted);
    }
    return AW_OK;
}

enum aw_err aw_trace_pack_parse(const char *text, uint32_t max, const struct aw_alloc *alloc,
                                struct aw_trace_pack *ret_pack, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    const char *rest;
    struct aw_trace_settings settings;
    struct aw_trace_report report;
    struct aw_trace_pack pack = {0};
    bool length;
    aw_conf_defaults(aw_trace_fields, &settings);
    enum aw_err err = file_parse(text, path, &rest, diag);
    err = err ? err : settings_parse(rest, aw_trace_fields, true, &settings, &length, diag);
    err = err ? err : aw_trace_pack(path, &settings, max, alloc, &pack, &report, diag);
    if (!err && (err = aw_trace_judge(&report, path, diag)))
        aw_trace_pack_deinit(&pack);
    if (!err)
        *ret_pack = pack;
    return err;
}

enum aw_err aw_load_parse_report(const char *text, uint64_t seed, const struct aw_alloc *alloc,
                                 struct aw_load *ret_load, struct aw_trace_report *report,
                                 struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    if (report)
        *report = (struct aw_trace_report){0};
    if (!*text)
        return aw_fail(diag, AW_ERR_CONFIG, "expected a pattern or a file, found nothing");
    size_t word = strcspn(text, ":");
    for (uint32_t i = 0; aw_load_pattern_names[i]; i++) {
        if (strlen(aw_load_pattern_names[i]) == word &&
            !memcmp(aw_load_pattern_names[i], text, word))
            return pattern_parse(i, text[word] ? text + word + 1 : "", seed, alloc, ret_load, diag);
    }
    const char *rest;
    const enum aw_err err = file_parse(text, path, &rest, diag);
    return err ? err : trace_parse(path, rest, alloc, ret_load, report, diag);
}

enum aw_err aw_load_parse(const char *text, uint64_t seed, const struct aw_alloc *alloc,
                          struct aw_load *ret_load, struct aw_diag *diag)
{
    return aw_load_parse_report(text, seed, alloc, ret_load, NULL, diag);
}
