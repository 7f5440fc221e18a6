#include "profile/profile_schema.h"
#include "profile/profile_testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- files ------------------------------------------------------------------------------------
 */

static char top[] = "/tmp/aware-profile-XXXXXX";

static int folder_make(void **state)
{
    (void)state;
    return mkdtemp(top) ? 0 : -1;
}

static int folder_drop(void **state)
{
    (void)state;
    return rmdir(top);
}

static const char *in(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", top, name);
    return path;
}

static void spill(const char *name, const char *text)
{
    FILE *file = fopen(in(name), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

struct seen {
    uint32_t count;
    char name[8][64];
    struct aw_profile_counts counts[8];
};

static void see(void *ctx, const char *file, const struct aw_profile_counts *counts)
{
    struct seen *seen = ctx;
    assert_true(seen->count < 8);
    snprintf(seen->name[seen->count], sizeof seen->name[0], "%s", strrchr(file, '/') + 1);
    seen->counts[seen->count++] = *counts;
}

static void a_directory_is_read_by_name_without_what_is_hidden_or_else(void **state)
{
    (void)state;
    static const char *const files[] = {"b.yaml", "a.yml",    "c.json", ".hidden.yaml",
                                        "d.txt",  "bad.yaml", NULL};
    struct aw_profile_set set;
    static struct heard heard;
    struct seen seen = {0};
    spill("b.yaml", MPA NAMED("b") SLO BOUNDS);
    spill("a.yml", MPA NAMED("a") SLO BOUNDS "---\n" MPA NAMED("a2") SLO BOUNDS);
    spill("c.json", "{\"apiVersion\": \"autoscaling.aware.dev/v1alpha1\", \"kind\": "
                    "\"SimulatedCluster\"}");
    spill(".hidden.yaml", "[");
    spill("d.txt", "[");
    spill("bad.yaml", "a: [\n");
    aw_profile_set_init(&set, NULL);
    heard_init(&heard);
    assert_ok(aw_profile_set_read(&set, top, &heard.report, see, &seen, NULL));
    assert_int_equal(seen.count, 4);
    assert_string_equal(seen.name[0], "a.yml");
    assert_string_equal(seen.name[1], "b.yaml");
    assert_string_equal(seen.name[2], "bad.yaml");
    assert_string_equal(seen.name[3], "c.json");
    assert_int_equal(seen.counts[0].profiles, 2);
    assert_int_equal(seen.counts[2].errors, 1);
    assert_int_equal(seen.counts[3].clusters, 1);
    assert_int_equal(heard.report.error_count, 1); /* the others were read all the same */
    assert_int_equal(heard.finding[0].err, AW_ERR_FORMAT);
    assert_string_equal(heard.finding[0].diag.file, in("bad.yaml"));
    assert_int_equal(set.profile_count, 3);
    assert_string_equal(set.profiles[2].name, "b");
    assert_int_equal(aw_profile_set_check(&set, &heard.report, NULL), AW_ERR_CONFIG);
    aw_profile_set_deinit(&set);
    for (uint32_t i = 0; files[i]; i++)
        unlink(in(files[i]));
}

static void two_files_with_one_name_are_told_with_both_places(void **state)
{
    (void)state;
    struct aw_profile_set set;
    static struct heard heard;
    struct aw_diag diag;
    char first[300];
    spill("x.yaml", MPA NAMED("b") SLO BOUNDS);
    spill("y.yaml", "# moved\n\n" MPA NAMED("b") SLO BOUNDS);
    snprintf(first, sizeof first, "%s:1", in("x.yaml"));
    aw_profile_set_init(&set, NULL);
    heard_init(&heard);
    assert_ok(aw_profile_set_read(&set, in("x.yaml"), &heard.report, NULL, NULL, NULL));
    assert_ok(aw_profile_set_read(&set, in("y.yaml"), &heard.report, NULL, NULL, NULL));
    assert_int_equal(aw_profile_set_check(&set, &heard.report, &diag), AW_ERR_CONFIG);
    assert_string_equal(diag.text, "2 errors");
    assert_int_equal(heard.count, 2); /* one name, one target */
    assert_string_equal(heard.finding[0].diag.file, in("y.yaml"));
    assert_int_equal(heard.finding[0].diag.line, 3);
    assert_non_null(strstr(heard.finding[0].diag.text, first));
    aw_profile_set_deinit(&set);
    unlink(in("x.yaml"));
    unlink(in("y.yaml"));
}

static void a_trace_is_sought_beside_the_file_that_names_it(void **state)
{
    (void)state;
    struct aw_profile_set set;
    static struct heard heard;
    spill("w.yaml", APP("a") "spec: {load: {source: 'trace.csv:mean=3/s'}}\n");
    spill("trace.csv", "1\n2\n");
    aw_profile_set_init(&set, NULL);
    heard_init(&heard);
    assert_ok(aw_profile_set_read(&set, in("w.yaml"), &heard.report, NULL, NULL, NULL));
    assert_int_equal(heard.report.error_count, 0);
    char expected[300];
    snprintf(expected, sizeof expected, "%s:mean=3/s", in("trace.csv"));
    assert_string_equal(set.apps[0].load, expected);
    assert_true(set.apps[0].load_cores == 0);
    struct aw_load load = {0};
    assert_ok(aw_load_parse(set.apps[0].load, 1, NULL, &load, NULL));
    aw_load_deinit(&load);
    aw_profile_set_deinit(&set);
    unlink(in("w.yaml"));
    unlink(in("trace.csv"));
}

static void a_file_that_is_not_there_is_a_finding_and_an_empty_folder_too(void **state)
{
    (void)state;
    struct aw_profile_set set;
    static struct heard heard;
    aw_profile_set_init(&set, NULL);
    heard_init(&heard);
    assert_ok(aw_profile_set_read(&set, in("none.yaml"), &heard.report, NULL, NULL, NULL));
    assert_ok(aw_profile_set_read(&set, top, &heard.report, NULL, NULL, NULL));
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.finding[0].err, AW_ERR_NOTFOUND);
    assert_int_equal(heard.finding[1].err, AW_ERR_NODATA);
    aw_profile_set_deinit(&set);
}

/* --- limits -----------------------------------------------------------------------------------
 */

static void one_application_too_many_is_refused(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    fputs("{\"kind\": \"List\", \"items\": [", out);
    for (uint32_t i = 0; i <= AW_PROFILE_APPS_MAX; i++)
        fprintf(out,
                "%s{\"apiVersion\": \"" AW_PROFILE_API_VERSION
                "\", \"kind\": \"SimulatedApplication\", \"metadata\": {\"name\": \"a%u\"}, "
                "\"spec\": {\"load\": {\"source\": \"constant:length=1m\"}}}",
                i ? "," : "", i);
    fputs("]}", out);
    fclose(out);
    struct aw_tree tree;
    struct aw_profile_set set;
    struct aw_profile_report report = {0};
    struct aw_diag diag;
    assert_ok(aw_tree_load(&tree, NULL, text, len, NULL, NULL));
    aw_profile_set_init(&set, NULL);
    assert_int_equal(aw_profile_set_add(&set, &tree, &report, NULL, &diag), AW_ERR_LIMIT);
    assert_non_null(strstr(diag.text, "16384 simulated applications"));
    assert_int_equal(set.app_count, AW_PROFILE_APPS_MAX);
    aw_profile_set_deinit(&set);
    aw_tree_deinit(&tree);
    free(text);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char text[] = CART SLO BOUNDS
        "---\n" APP("cart") "spec: {app: {segments: [{kind: gzip}]}, load: {source: "
                            "'constant:length=1m'}}\n";
    struct aw_alloc_counting counting;
    enum aw_err err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err; n++) {
        struct aw_profile_set set;
        static struct heard heard;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = read_text(&set, text, &heard, &counting.alloc);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_int_equal(heard.report.error_count, 0);
        aw_profile_set_deinit(&set);
        assert_int_equal(counting.alloc_count, counting.free_count);
        assert_true(n < 1000);
    }
}

/* --- the table --------------------------------------------------------------------------------
 */

static void check_table(const struct aw_schema_field *fields, const char *prefix,
                        const struct aw_schema_field *top_fields, uint32_t *count)
{
    for (const struct aw_schema_field *f = fields; f && f->name; f++) {
        char path[256], buf[512];
        struct aw_schema_found found;
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", f->name);
        assert_ok(aw_schema_find(top_fields, path, &found, NULL));
        assert_ptr_equal(found.field, f);
        if (!f->help || !*f->help || f->help[strlen(f->help) - 1] == '.')
            fail_msg("%s: expected a help of one sentence without its full stop", path);
        assert_true(*aw_schema_expects(f, buf, sizeof buf) && *aw_schema_type_name(f));
        if (f->type == AW_SCHEMA_CHOICE || f->type == AW_SCHEMA_SET)
            assert_non_null(f->choices);
        if ((f->flags & AW_SCHEMA_REQUIRED) && f->initial)
            fail_msg("%s: required, and yet with a default", path);
        (*count)++;
        for (const struct aw_conf_field *c = f->conf; c && c->key; c++) {
            char below[300], name[AW_SCHEMA_NAME_MAX];
            if (f->conf_without && !strcmp(c->key, f->conf_without))
                continue;
            snprintf(below, sizeof below, "%s.%s", path, aw_schema_conf_name(c, name, sizeof name));
            assert_ok(aw_schema_find(top_fields, below, &found, NULL));
            assert_ptr_equal(found.conf, c); /* no two names of a table fall together */
            (*count)++;
        }
        check_table(f->fields, path, top_fields, count);
    }
}

static void every_field_has_a_path_a_help_and_a_type(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (const struct aw_profile_kind *kind = aw_profile_kinds; kind->name; kind++)
        check_table(kind->fields, "", kind->fields, &count);
    assert_true(count > 150);
}

static void a_wrong_path_is_told_the_nearest(void **state)
{
    (void)state;
    static const struct {
        const char *path, *says;
    } cases[] = {
        {"spec.goal", "did you mean \"goals\""},
        {"spec.goals.slo.latencies", "did you mean \"latency\""},
        {"spec.guard.peak_window", "did you mean \"peakWindow\""},
        {"spec.goals.slo.budget.x", "nothing is below budget"},
        {"spec.guard.peakWindow.x", "nothing is below"},
        {"spec.", "after the last dot"},
        {".spec", "dots between"},
    };
    const struct aw_schema_field *fields = aw_profile_kinds[AW_PROFILE_KIND_MPA].fields;
    struct aw_schema_found found;
    struct aw_diag diag;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(aw_schema_find(fields, cases[i].path, &found, &diag), AW_ERR_NOTFOUND);
        if (!strstr(diag.text, cases[i].says))
            fail_msg("%s: %s", cases[i].path, diag.text);
    }
    assert_ok(aw_schema_find(fields, "spec.goals.metrics[].type", &found, NULL));
    assert_string_equal(found.field->name, "type");
}

/* Ten lines are enough for the simulated cluster. */
static void a_target_without_an_application_gets_one_that_can_meet_its_slo(void **state)
{
    (void)state;
    struct aw_profile_set set;
    static struct heard heard;
    struct aw_load load = {0};
    spill("x.yaml", MPA NAMED("a") SLO BOUNDS "---\n" MPA NAMED("b") SLO BOUNDS);
    aw_profile_set_init(&set, NULL);
    heard_init(&heard);
    assert_ok(aw_profile_set_read(&set, in("x.yaml"), &heard.report, NULL, NULL, NULL));
    assert_int_equal(set.app_count, 0);
    assert_ok(aw_profile_set_stand_in(&set, NULL));
    assert_int_equal(set.app_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_profile_app *app = aw_profile_set_app(&set, &set.profiles[i]);
        assert_non_null(app);
        assert_true(aw_app_unloaded_p99_us(&app->app, 1, 0) <
                    set.profiles[i].pilot.slo.latency_us_p99);
        assert_ok(aw_load_parse(app->load, app->load_seed, NULL, &load, NULL));
        aw_load_deinit(&load);
    }
    assert_string_not_equal(set.apps[0].pool, set.apps[1].pool);
    assert_ok(aw_profile_set_stand_in(&set, NULL)); /* what is there stays alone */
    assert_int_equal(set.app_count, 2);
    aw_profile_set_deinit(&set);
    unlink(in("x.yaml"));
}

AW_TEST_GROUP("profile-set")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_is_read_by_name_without_what_is_hidden_or_else),
        cmocka_unit_test(two_files_with_one_name_are_told_with_both_places),
        cmocka_unit_test(a_trace_is_sought_beside_the_file_that_names_it),
        cmocka_unit_test(a_file_that_is_not_there_is_a_finding_and_an_empty_folder_too),
        cmocka_unit_test(one_application_too_many_is_refused),
        cmocka_unit_test(a_target_without_an_application_gets_one_that_can_meet_its_slo),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_field_has_a_path_a_help_and_a_type),
        cmocka_unit_test(a_wrong_path_is_told_the_nearest),
    };
    return cmocka_run_group_tests_name("profile-set", tests, folder_make, folder_drop);
}
