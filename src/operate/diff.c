/* diff.c - the verb `diff`: what files of autoscalers would change of what the daemon runs. */
#include "base/file.h"
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"
#include "profile/profile.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BODY_MAX ((size_t)1 << 20) /* as much as the API takes */

/* --- the files as one text -------------------------------------------------------------------- */

struct body {
    char *text;
    size_t len;
};

static enum aw_err add_file(struct body *body, const char *path, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t len;
    const bool stdin_meant = !strcmp(path, "-");
    enum aw_err err = stdin_meant
                          ? aw_file_read_fd(0, "standard input", BODY_MAX, NULL, &bytes, &len, diag)
                          : aw_file_read(path, BODY_MAX, NULL, &bytes, &len, diag);
    if (err)
        return err;
    if (body->len + len + 8 > BODY_MAX) {
        aw_alloc_free(NULL, bytes);
        return aw_fail_at(diag, AW_ERR_LIMIT, path, 0, 0, NULL,
                          "the files together have more than %zu bytes", BODY_MAX);
    }
    /* several documents of YAML, of which JSON is a part */
    body->len += (size_t)snprintf(body->text + body->len, BODY_MAX - body->len, "%s%s\n",
                                  body->len ? "---\n" : "", bytes);
    aw_alloc_free(NULL, bytes);
    return AW_OK;
}

static int is_ours(const struct dirent *entry)
{
    const char *point = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && point &&
           (!strcmp(point, ".yaml") || !strcmp(point, ".yml") || !strcmp(point, ".json"));
}

static enum aw_err add_path(struct body *body, const char *path, struct aw_diag *diag)
{
    struct stat is;
    struct dirent **names = NULL;
    char file[AW_FILE_PATH_MAX];
    enum aw_err err = AW_OK;
    if (!strcmp(path, "-") || stat(path, &is) || !S_ISDIR(is.st_mode))
        return add_file(body, path, diag);
    const int count = scandir(path, &names, is_ours, alphasort);
    if (count < 0)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "the directory cannot be read");
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        err = err ? err : add_file(body, file, diag);
        free(names[i]);
    }
    free(names);
    return err;
}

/* --- what they would do ----------------------------------------------------------------------- */

static void finding_print(void *ctx, const struct aw_profile_finding *finding)
{
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    (void)ctx;
    if (finding->err)
        fprintf(stderr, "%s\n", aw_diag_format(&finding->diag, finding->err, line, sizeof line));
}

/* What is wrong in them is told with file and line, which the daemon could not. */
static enum aw_err files_check(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_profile_report report = {.take = finding_print};
    struct aw_profile_set set;
    enum aw_err err = AW_OK;
    aw_profile_set_init(&set, NULL);
    for (uint32_t i = 0; !err && i < run->args->repeat_count; i++) {
        if (strcmp(run->args->repeat[i], "-") != 0) /* can be read once only, and is sent */
            err = aw_profile_set_read(&set, run->args->repeat[i], &report, NULL, NULL, diag);
    }
    err = err ? err : aw_profile_set_check(&set, &report, diag);
    if (!err && set.profile_count == 0 && run->args->repeat_count == 1 &&
        strcmp(run->args->repeat[0], "-") != 0)
        err = aw_fail_at(diag, AW_ERR_CONFIG, run->args->repeat[0], 0, 0, NULL,
                         "no MultidimPodAutoscaler in it");
    aw_profile_set_deinit(&set);
    return err;
}

static const char *value_text(const json_t *value, char *buf, size_t size)
{
    char *text;
    if (!value || json_is_null(value)) {
        snprintf(buf, size, "none");
    } else if (json_is_string(value)) {
        snprintf(buf, size, "%s", json_string_value(value));
    } else if ((text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)))) {
        snprintf(buf, size, "%s", text);
        free(text);
    }
    return buf;
}

/* An amount by its key: "bounds.memory_bytes_max" is 512Mi, and not 536870912. */
static const char *setting_text(const char *key, const json_t *value, char *buf, size_t size)
{
    const char *us = strstr(key, "_us");
    const bool amount = strstr(key, "millicores") || strstr(key, "bytes") ||
                        (us && (us[3] == '\0' || us[3] == '_'));
    double number = json_number_value(value);
    if (amount &&
        (json_is_number(value) ||
         (json_is_string(value) && !aw_text_parse_real(json_string_value(value), &number))))
        return aw_show_named(key, number, buf, size);
    return value_text(value, buf, size);
}

static void names_print(const json_t *names, char sign, enum aw_tone tone, bool color)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        printf("%s%c %s%s\n", aw_tone_on(tone, color), sign,
               json_string_value(json_array_get(names, i)), aw_tone_off(color));
}

static void changed_print(const json_t *one, bool color)
{
    const json_t *settings = aw_at(one, "settings"), *plan = aw_at(one, "plan");
    printf("%s~ %s%s\n", aw_tone_on(AW_TONE_ODD, color), aw_at_text(one, "name"),
           aw_tone_off(color));
    for (size_t i = 0; i < json_array_size(settings); i++) {
        const json_t *s = json_array_get(settings, i);
        const char *key = aw_at_text(s, "key");
        char from[256], to[256];
        key += strncmp(key, "config.", 7) ? 0 : 7;
        printf("    %-32s %s -> %s\n", key, setting_text(key, aw_at(s, "from"), from, sizeof from),
               setting_text(key, aw_at(s, "to"), to, sizeof to));
    }
    if (aw_at(plan, "recommended_after")) {
        char before[AW_PLAN_MAX], after[AW_PLAN_MAX];
        const json_t *now = aw_at(plan, "now");
        aw_plan_show(now, aw_at(plan, "recommended_before"), before, sizeof before);
        aw_plan_show(now, aw_at(plan, "recommended_after"), after, sizeof after);
        if (strcmp(before, after) != 0)
            printf("    the last decision recommended %s; it would have recommended %s\n", before,
                   after);
        else
            printf("    the last decision would have been the same\n");
    } else if (*aw_at_text(one, "message")) {
        printf("    %s\n", aw_at_text(one, "message"));
    }
}

static enum aw_err diff_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__client client = {0};
    struct aw_http_answer answer;
    struct body body = {.text = NULL};
    json_t *told = NULL;
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    err = aw__client_need(&client, "'aware diff'", diag);
    err = err ? err : files_check(run, diag);
    if (!err && !(body.text = malloc(BODY_MAX)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the files");
    for (uint32_t i = 0; !err && i < run->args->repeat_count; i++)
        err = add_path(&body, run->args->repeat[i], diag);
    err = err ? err
              : aw__client_send(&client, "/v1/diff", body.text, "application/yaml", &answer, diag);
    if (!err && !(told = json_loadb(answer.body, answer.len, 0, NULL)))
        err = aw_fail(diag, AW_ERR_FORMAT, "the daemon's answer is not JSON");
    free(body.text);
    aw__client_close(&client);
    if (err)
        return err;
    const json_t *changed = aw_at(told, "changed"), *added = aw_at(told, "added"),
                 *removed = aw_at(told, "removed");
    const size_t count =
        json_array_size(changed) + json_array_size(added) + json_array_size(removed);
    if (run->json) {
        json_object_set_new(told, "v", json_integer(1));
        err = aw_json_print(json_incref(told), diag);
    } else {
        names_print(added, '+', AW_TONE_GOOD, run->color_out);
        names_print(removed, '-', AW_TONE_BAD, run->color_out);
        for (size_t i = 0; i < json_array_size(changed); i++)
            changed_print(json_array_get(changed, i), run->color_out);
        if (count == 0)
            printf("Nothing would change: %lld workloads are as the files say.\n",
                   (long long)aw_at_integer(told, "unchanged"));
        else if (*aw_at_text(told, "reload"))
            printf("%s\n", aw_at_text(told, "reload"));
    }
    if (!err && count > 0)
        err = aw_fail(diag, AW_ERR_CHECK, "%zu added, %zu removed, %zu changed, %lld as they were",
                      json_array_size(added), json_array_size(removed), json_array_size(changed),
                      (long long)aw_at_integer(told, "unchanged"));
    json_decref(told);
    return err;
}

static const struct aw_option options[] = {
    AW_OPTION(FILE, "file", 'f', "FILE", NULL,
              "autoscalers in YAML or JSON, a directory of them, or - for standard input",
              .required = true, .repeated = true),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware diff -f shop.yaml", "before it is rolled out"},
    {"aware diff -f autoscalers/ || echo would change", "in a pipeline: exit status 1 as diff(1)"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_diff = {
    .name = "diff",
    .summary = "Show what files would change of what the daemon runs, field by field",
    .text = "+ is new, - would go, ~ would have other settings; for those the last recorded "
            "decision is taken again with the new settings. Nothing is changed. Exit status 0: no "
            "difference, 1: some, more: trouble.",
    .options = options,
    .examples = examples,
    .json = true,
    .run = diff_run,
};
