/* reports_test.c - a folder of reports, and names that try to leave it. */
#include "web/reports.h"

#include "base/testing.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void path_of(const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "%s/%s", folder, name);
}

static int set_up(void **state)
{
    char path[256], secret[256];
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/aware-reports-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    write_file("run.html", "<p>a run</p>");
    write_file("eval.json", "{}");
    write_file("notes.txt", "not one");
    write_file(".hidden.html", "not one");
    write_file("secret", "of another folder");
    path_of("pole", path, sizeof path);
    mkdir(path, 0700);
    write_file("pole/progress.csv", "step,episode_return\n1,2\n");
    write_file("pole/other.csv", "not one");
    write_file("pole/page.html", "not one here");
    path_of("link.html", path, sizeof path);
    path_of("secret", secret, sizeof secret);
    if (symlink(secret, path))
        return -1;
    path_of("linked", path, sizeof path);
    if (symlink("/tmp", path))
        return -1;
    path_of("pipe.html", path, sizeof path);
    return mkfifo(path, 0600);
}

static int tear_down(void **state)
{
    static const char *const names[] = {"run.html",       "eval.json",      "notes.txt",
                                        ".hidden.html",   "secret",         "pole/progress.csv",
                                        "pole/other.csv", "pole/page.html", "link.html",
                                        "linked",         "pipe.html"};
    char path[256];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(names[i], path, sizeof path);
        unlink(path);
    }
    path_of("pole", path, sizeof path);
    rmdir(path);
    return rmdir(folder);
}

static json_t *list_of(const char *from)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    assert_ok(aw_reports_list(from, out, NULL));
    fclose(out);
    json_t *json = json_loadb(text, len, 0, NULL);
    assert_non_null(json);
    free(text);
    return json;
}

static void reports_and_runs_are_listed_and_nothing_else(void **state)
{
    bool html = false, json_file = false, run = false;
    (void)state;
    json_t *json = list_of(folder), *list = json_object_get(json, "reports");
    assert_int_equal(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *kind = json_string_value(json_object_get(one, "kind"));
        html |= !strcmp(name, "run.html") && !strcmp(kind, "html");
        json_file |= !strcmp(name, "eval.json") && !strcmp(kind, "json");
        run |= !strcmp(name, "pole/progress.csv") && !strcmp(kind, "run");
        assert_int_equal(strlen(json_string_value(json_object_get(one, "modified"))), 27);
    }
    assert_true(html && json_file && run);
    assert_true(json_is_null(json_object_get(json, "missing")));
    json_decref(json);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    json_t *none = list_of(""), *gone = list_of("/tmp/aware-there-is-no-such-folder");
    assert_non_null(strstr(json_string_value(json_object_get(none, "missing")), "--reports DIR"));
    assert_non_null(json_string_value(json_object_get(gone, "missing")));
    assert_int_equal(json_array_size(json_object_get(gone, "reports")), 0);
    json_decref(none);
    json_decref(gone);
}

static void no_name_leads_out_of_the_folder(void **state)
{
    static const struct {
        const char *name;
        bool found;
        const char *why;
    } cases[] = {
        {"run.html", true, "a report"},
        {"pole/progress.csv", true, "a run"},
        {"pole/other.csv", false, "a file that is none"},
        {"pole/page.html", false, "pages lie in the folder itself"},
        {"notes.txt", false, "another kind"},
        {".hidden.html", false, "hidden"},
        {"../reports/run.html", false, "up"},
        {"pole/../run.html", false, "down and up"},
        {"/etc/passwd", false, "from the root"},
        {"link.html", false, "a link to elsewhere"},
        {"linked/progress.csv", false, "a folder that is a link"},
        {"pipe.html", false, "a pipe, which would hold the server up"},
        {"pole", false, "a folder"},
        {"", false, "nothing"},
        {"run.html/", false, "a slash behind it"},
        {"run%2ehtml", false, "names are not decoded"},
        {"a/b/progress.csv", false, "too deep"},
        {".html", false, "an end alone"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = -1;
        uint64_t bytes = 0;
        const char *type = NULL;
        const enum aw_err err = aw_report_open(folder, cases[i].name, &fd, &bytes, &type, NULL);
        if ((err == AW_OK) != cases[i].found || (err && err != AW_ERR_NOTFOUND))
            fail_msg("%s: %s", cases[i].name, cases[i].why);
        if (!err) {
            assert_true(bytes > 0 && type);
            close(fd);
        }
    }
}

static void a_report_that_is_too_large_is_refused(void **state)
{
    char path[256];
    int fd = -1;
    uint64_t bytes;
    const char *type;
    (void)state;
    path_of("run.html", path, sizeof path);
    assert_int_equal(truncate(path, (off_t)AW_REPORT_BYTES_MAX + 1), 0); /* a hole */
    assert_int_equal(aw_report_open(folder, "run.html", &fd, &bytes, &type, NULL), AW_ERR_LIMIT);
    assert_int_equal(truncate(path, 12), 0);
}

AW_TEST_GROUP("reports")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_and_runs_are_listed_and_nothing_else),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(no_name_leads_out_of_the_folder),
        cmocka_unit_test(a_report_that_is_too_large_is_refused),
    };
    return cmocka_run_group_tests_name("reports", tests, set_up, tear_down);
}
