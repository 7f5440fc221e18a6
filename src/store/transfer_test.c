/* transfer_test.c - what goes out comes back to the bit, and what is bad is refused by its line. */
#include "store/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "store/conformance_testing.h"

#define NAME "shop/web, \"front\" \\ \xc3\xa9"

static void open_memory(struct aw_store *store)
{
    assert_ok(
        aw_store_open(store, "memory", &(struct aw_store_options){.rows_max = 3000}, NULL, NULL));
}

/* The whole store as text; the caller frees it. */
static char *export_all(struct aw_store *store, enum aw_transfer_format format, uint64_t *ret_rows)
{
    char *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    assert_non_null(stream);
    assert_ok(aw_store_export(store, &AW_STORE_EVERY, format, stream, NULL, ret_rows, NULL));
    fclose(stream);
    return text;
}

static enum aw_err import_text(struct aw_store *store, enum aw_transfer_format format,
                               const char *text, uint64_t *ret_rows, struct aw_diag *diag)
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(stream);
    enum aw_err err = aw_store_import(store, format, stream, "in.txt", NULL, ret_rows, diag);
    fclose(stream);
    return err;
}

static void what_goes_out_comes_back_to_the_bit(void **state)
{
    (void)state;
    for (enum aw_transfer_format format = AW_TRANSFER_JSONL; format <= AW_TRANSFER_CSV; format++) {
        struct aw_store store, other;
        uint64_t rows = 0, again = 0;
        uint32_t seen = 0;
        open_memory(&store);
        open_memory(&other);
        append_episode(&store, NAME, 0, 20, true);
        append_episode(&store, NAME, 7, 5, false);
        append_episode(&store, "b", AW_STORE_EPISODE_MAX, 3, true);
        char *text = export_all(&store, format, &rows);
        assert_int_equal(rows, 28);
        assert_ok(import_text(&other, format, text, &again, NULL));
        assert_int_equal(again, 28);
        assert_ok(aw_store_scan(&other, &AW_STORE_EVERY, same_as_made, &seen, NULL));
        assert_int_equal(seen, 28);
        char *twice = export_all(&other, format, &rows);
        assert_string_equal(text, twice);
        assert_ok(import_text(&other, format, text, &again, NULL)); /* again: nothing changes */
        free(text);
        free(twice);
        aw_store_close(&store);
        aw_store_close(&other);
    }
}

static void the_largest_row_fits_a_line(void **state)
{
    static float wide[AW_STORE_OBS_MAX];
    char name[AW_STORE_NAME_MAX];
    (void)state;
    memset(name, '"', sizeof name);
    name[sizeof name - 1] = '\0';
    for (uint32_t i = 0; i < AW_STORE_OBS_MAX; i++)
        wide[i] = -1.17549435e-38f;
    for (enum aw_transfer_format format = AW_TRANSFER_JSONL; format <= AW_TRANSFER_CSV; format++) {
        struct aw_store store;
        struct sample_row r;
        uint64_t rows;
        struct aw_store_options options = {
            .rows_max = 2, .obs_dim_max = AW_STORE_OBS_MAX, .act_dim_max = AW_STORE_ACT_MAX};
        assert_ok(aw_store_open(&store, "memory", &options, NULL, NULL));
        make_row(&r, name, 0, UINT32_MAX);
        r.row.obs = r.row.next_obs = r.row.action = r.row.shadow = wide;
        r.row.obs_dim = AW_STORE_OBS_MAX;
        r.row.act_dim = AW_STORE_ACT_MAX;
        assert_ok(aw_store_append(&store, &r.row, NULL));
        char *text = export_all(&store, format, &rows);
        assert_in_range(strlen(text), 30000, AW_TRANSFER_LINE_MAX / 4 * 3);
        assert_ok(import_text(&store, format, text, &rows, NULL));
        free(text);
        aw_store_close(&store);
    }
}

/* A good line with one part of it replaced. */
static char *changed(const char *good, const char *from, const char *to)
{
    const char *at = strstr(good, from);
    size_t size = strlen(good) + strlen(to) + 1;
    char *bad = malloc(size);
    if (!at || !bad)
        fail_msg("nothing to replace: %s", from);
    snprintf(bad, size, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return bad;
}

struct bad_case {
    const char *why, *from, *to;
    enum aw_err err;
    uint32_t line; /* of the failure */
    const char *key, *text;
};

static void refuse_all(enum aw_transfer_format format, const struct bad_case *cases, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct aw_store store;
        struct aw_diag diag = {0};
        uint64_t rows = 0;
        open_memory(&store);
        append_episode(&store, "web", 3, 2, false);
        char *good = export_all(&store, format, &rows);
        aw_store_close(&store);
        open_memory(&store);
        char *bad = changed(good, cases[i].from, cases[i].to);
        enum aw_err err = import_text(&store, format, bad, &rows, &diag);
        if (err != cases[i].err || diag.line != cases[i].line ||
            strcmp(diag.key, cases[i].key) != 0 || !strstr(diag.text, cases[i].text) ||
            strcmp(diag.file, "in.txt") != 0)
            fail_msg("%s: %s %s:%u:%u %s: %s", cases[i].why, aw_err_name(err), diag.file, diag.line,
                     diag.column, diag.key, diag.text);
        /* what came before it is kept */
        struct aw_store_counts counts;
        assert_ok(aw_store_counts(&store, NULL, &counts, NULL));
        assert_int_equal(counts.rows, rows);
        assert_int_equal(rows,
                         cases[i].line - 1 - (format == AW_TRANSFER_CSV && cases[i].line > 1));
        free(good);
        free(bad);
        aw_store_close(&store);
    }
}

static void bad_json_is_refused_by_its_line(void **state)
{
    static const struct bad_case cases[] = {
        {"not JSON", "{\"workload\"", "workload", AW_ERR_FORMAT, 1, "", ""},
        {"a list", "{\"workload\"", "[1]\n{\"workload\"", AW_ERR_FORMAT, 1, "", "an object"},
        {"in the second line", "\"step\":1", "\"step\":-1", AW_ERR_FORMAT, 2, "step",
         "whole number"},
        {"a field too many", "\"step\":1", "\"step\":1,\"mood\":2", AW_ERR_FORMAT, 2, "",
         "no field \"mood\""},
        {"a field that is missing", "\"step\":1,", "", AW_ERR_FORMAT, 2, "step", "missing"},
        {"null where a value must be", "\"terminated\":false", "\"terminated\":null", AW_ERR_FORMAT,
         1, "terminated", "expected a value"},
        {"a stage that is none", "serving", "dreaming", AW_ERR_FORMAT, 1, "stage", "dreaming"},
        {"a number for a word", "\"web\"", "5", AW_ERR_FORMAT, 1, "workload", "a string"},
        {"text in a vector", "\"obs\":[", "\"obs\":[\"x\",", AW_ERR_FORMAT, 1, "obs[0]",
         "a number"},
        {"a vector that is none", "\"shadow\":null", "\"shadow\":7", AW_ERR_FORMAT, 1, "shadow",
         "a list"},
        {"one observed number more", "\"obs\":[", "\"obs\":[1,", AW_ERR_FORMAT, 1, "next_obs",
         "6 numbers as in obs, found 5"},
        {"beyond a float", "\"obs\":[", "\"obs\":[1e39,", AW_ERR_FORMAT, 1, "obs", "a number"},
        {"a model that is none", "\"model\":\"", "\"model\":\"z", AW_ERR_FORMAT, 1, "model",
         "hexadecimal"},
        {"no name", "\"web\"", "\"\"", AW_ERR_RANGE, 1, "workload", "name"},
        {"the same key with other content", "\"step\":1", "\"step\":0", AW_ERR_CONFLICT, 2, "",
         "episode 3, step 0"},
    };
    (void)state;
    refuse_all(AW_TRANSFER_JSONL, cases, sizeof cases / sizeof *cases);
}

static void bad_csv_is_refused_by_its_line(void **state)
{
    static const struct bad_case cases[] = {
        {"no header", "workload,", "web,", AW_ERR_FORMAT, 1, "", "name of another column"},
        {"a column twice", "workload,", "step,", AW_ERR_FORMAT, 1, "", "name of another column"},
        {"a column too few", "workload,", "", AW_ERR_FORMAT, 1, "", "column workload: a header"},
        {"a column too many", "workload,", "workload,mood,", AW_ERR_FORMAT, 1, "", "mood"},
        {"a cell too few", "\"web\",3,0,", "\"web\",3,", AW_ERR_FORMAT, 2, "step", "17"},
        {"a cell too many", "\"web\",3,1", "\"web\",3,1,1,1,1,1", AW_ERR_FORMAT, 3, "stage", ""},
        {"a quote alone", "\"web\",3,1", "\"web,3,1", AW_ERR_FORMAT, 3, "", "quotes"},
        {"a quote in the middle", "\"web\",3,1", "we\"b,3,1", AW_ERR_FORMAT, 3, "", "quotes"},
        {"an empty cell", "\"web\",3,1", "\"web\",,1", AW_ERR_FORMAT, 3, "episode", "a value"},
        {"a word for a number", "\"web\",3,1", "\"web\",x,1", AW_ERR_FORMAT, 3, "episode", "\"x\""},
    };
    (void)state;
    refuse_all(AW_TRANSFER_CSV, cases, sizeof cases / sizeof *cases);
}

static void csv_columns_may_stand_in_any_order(void **state)
{
    static const char *const text =
        "\xef\xbb\xbfmemory_bytes,workload,cpu_millicores,episode,step,at_us,stage,actor,model,"
        "obs,action,shadow,reward,next_obs,terminated,truncated,arrivals_per_s,latency_us_p99,"
        "slo_preservation,cpu_utilisation,memory_utilisation,cost,paper_reward,replicas,violated"
        "\r\n\r\n5,a b,7,1,2,-3,online,agent,00000000000000ff,0.5 -0,1,,2.5,1e3 4,true,false,"
        ",,1,,,,,3,1\r\n";
    struct aw_store store;
    uint64_t rows = 0;
    struct aw_diag diag = {0};
    (void)state;
    open_memory(&store);
    if (import_text(&store, AW_TRANSFER_CSV, text, &rows, &diag))
        fail_msg("%u:%u: %s: %s", diag.line, diag.column, diag.key, diag.text);
    assert_int_equal(rows, 1);
    struct aw_store_row expected = {
        .workload = "a b",
        .episode = 1,
        .step = 2,
        .at_us = -3,
        .stage = AW_STAGE_ONLINE,
        .actor = AW_ACTOR_AGENT,
        .policy_id = 255,
        .obs_dim = 2,
        .act_dim = 1,
        .obs = (float[]){0.5f, -0.0f},
        .next_obs = (float[]){1000, 4},
        .action = (float[]){1},
        .reward = 2.5f,
        .terminated = true,
        .figures = {(double)NAN, (double)NAN, 1, (double)NAN, (double)NAN, (double)NAN, (double)NAN,
                    .amount = {3, 7, 5}, .violated = 1},
    };
    assert_ok(aw_store_append(&store, &expected, NULL)); /* the very row is kept already */
    aw_store_close(&store);
}

static void many_rows_come_in_groups(void **state)
{
    struct aw_store store, other;
    uint64_t rows;
    (void)state;
    open_memory(&store);
    open_memory(&other);
    for (uint32_t e = 0; e < 25; e++)
        append_episode(&store, "a", e, 100, true);
    char *text = export_all(&store, AW_TRANSFER_JSONL, &rows);
    text[strlen(text) - 2] = ' '; /* the last brace: the last of 2500 rows is bad */
    assert_int_equal(import_text(&other, AW_TRANSFER_JSONL, text, &rows, NULL), AW_ERR_FORMAT);
    assert_int_equal(rows, 2499);
    assert_false(other.grouped);
    assert_ok(aw_store_check(&other, NULL));
    free(text);
    aw_store_close(&store);
    aw_store_close(&other);
}

static void a_line_without_end_is_refused(void **state)
{
    struct aw_store store;
    struct aw_diag diag = {0};
    uint64_t rows;
    char *text = malloc(AW_TRANSFER_LINE_MAX + 2);
    (void)state;
    assert_non_null(text);
    memset(text, ' ', AW_TRANSFER_LINE_MAX + 1);
    text[AW_TRANSFER_LINE_MAX + 1] = '\0';
    open_memory(&store);
    assert_int_equal(import_text(&store, AW_TRANSFER_JSONL, text, &rows, &diag), AW_ERR_LIMIT);
    assert_int_equal(diag.line, 1);
    free(text);
    aw_store_close(&store);
}

static void a_full_disk_is_an_error(void **state)
{
    struct aw_store store;
    uint64_t rows = 77;
    FILE *full = fopen("/dev/full", "w");
    (void)state;
    if (!full)
        skip();
    setvbuf(full, NULL, _IONBF, 0);
    open_memory(&store);
    append_row(&store, "a", 0, 0, true);
    assert_int_equal(
        aw_store_export(&store, &AW_STORE_EVERY, AW_TRANSFER_CSV, full, NULL, &rows, NULL),
        AW_ERR_IO);
    assert_int_equal(rows, 77);
    fclose(full);
    aw_store_close(&store);
}

static void every_allocation_may_fail(void **state)
{
    struct aw_store store, other;
    struct aw_alloc_counting counting;
    uint64_t rows;
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    open_memory(&store);
    append_episode(&store, "a", 0, 2, true);
    char *text = export_all(&store, AW_TRANSFER_JSONL, &rows);
    for (uint64_t budget = 0; err; budget++) {
        FILE *in = fmemopen(text, strlen(text), "r");
        open_memory(&other);
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        err = aw_store_import(&other, AW_TRANSFER_JSONL, in, "x", &counting.alloc, &rows, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
        fclose(in);
        aw_store_close(&other);
    }
    counting.fail_after = 0;
    assert_int_equal(aw_store_export(&store, &AW_STORE_EVERY, AW_TRANSFER_CSV, stdout,
                                     &counting.alloc, &rows, NULL),
                     AW_ERR_NOMEM);
    free(text);
    aw_store_close(&store);
}

AW_TEST_GROUP("store-transfer")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_out_comes_back_to_the_bit),
        cmocka_unit_test(the_largest_row_fits_a_line),
        cmocka_unit_test(bad_json_is_refused_by_its_line),
        cmocka_unit_test(bad_csv_is_refused_by_its_line),
        cmocka_unit_test(csv_columns_may_stand_in_any_order),
        cmocka_unit_test(many_rows_come_in_groups),
        cmocka_unit_test(a_line_without_end_is_refused),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
