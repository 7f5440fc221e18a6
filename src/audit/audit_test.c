/* audit_test.c - what the audit log records, refuses and finds. */
#include "audit/audit_testing.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE1 FOLDER "/audit-00000001.jsonl"
#define FILE2 FOLDER "/audit-00000002.jsonl"
#define FILE3 FOLDER "/audit-00000003.jsonl"
#define HEAD  FOLDER "/head"

/* ---- writing and reading ---- */

static void a_line_is_what_the_header_says(void **state)
{
    static const char expected[] =
        "{\"seq\":1,\"at\":\"2026-11-16T02:03:04.123456Z\",\"kind\":\"decision\",\"first\":true,"
        "\"workload\":\"shop/web\",\"cpu\":0.1,\"prev\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\","
        "\"hash\":\"eb66105de6f6fa9e3b5c2c5d2c80089435e6b76e8a4ff822a1c65bacaa59dbbb\"}\n";
    struct aw_disk_sim sim;
    uint64_t seq = 0;
    size_t len = 0;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    struct aw_audit *audit = open_log(&sim, NULL, NULL);
    json_t *members = json_pack("{s:s, s:f}", "workload", "shop/web", "cpu", 0.1);
    assert_ok(aw_audit_append(audit, T0, "decision", members, &seq, NULL));
    assert_int_equal(seq, 1);
    assert_ok(aw_audit_append(audit, T0 + 1, "note", NULL, &seq, NULL));
    assert_int_equal(seq, 2);
    json_decref(members);
    assert_ok(aw_audit_commit(audit, NULL));
    aw_audit_close(audit);
    const char *bytes = aw_disk_sim_get(&sim, FILE1, &len);
    const char *newline = memchr(bytes, '\n', len);
    assert_int_equal(newline + 1 - bytes, sizeof expected - 1);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
    /* the second line: no mark, no members, and the first one's hash as prev */
    const char *second = newline + 1;
    static const char begins[] =
        "{\"seq\":2,\"at\":\"2026-11-16T02:03:04.123457Z\",\"kind\":\"note\",\"prev\":\"";
    assert_memory_equal(second, begins, sizeof begins - 1);
    assert_memory_equal(second + sizeof begins - 1, newline - 66, 64);
    aw_disk_sim_deinit(&sim);
}

/* The definition in docs/mechanisms/audit.md, word for word. */
static const char script[] =
    "import hashlib, sys\n"
    "prev, seq = '0' * 64, 0\n"
    "for path in sorted(sys.argv[1:]):\n"
    "    for line in open(path, 'rb').read().splitlines():\n"
    "        body, tail = line[:-75], line[-75:].decode()\n"
    "        hash = hashlib.sha256(body + b'}').hexdigest()\n"
    "        seq += 1\n"
    "        assert tail == ',\"hash\":\"%s\"}' % hash, (path, seq)\n"
    "        assert body.endswith(b',\"prev\":\"%s\"' % prev.encode()), (path, seq)\n"
    "        assert body.startswith(b'{\"seq\":%d,' % seq), (path, seq)\n"
    "        prev = hash\n"
    "print(seq, prev)\n";

static void ten_lines_of_python_verify_it(void **state)
{
    char folder[] = "/tmp/aware-audit-XXXXXX", command[1024], said[256] = "", expected[256];
    struct aw_audit *audit = NULL;
    struct aw_audit_head last;
    struct aw_audit_config config = {.file_bytes_max = 1000};
    (void)state;
    if (access("/usr/bin/python3", X_OK) != 0) {
        print_message("skipped: there is no /usr/bin/python3\n");
        skip();
    }
    assert_non_null(mkdtemp(folder));
    assert_ok(aw_audit_open(&audit, NULL, folder, &config, NULL, NULL, NULL));
    for (uint64_t n = 0; n < 12; n++)
        record(audit, n * 2, 2);
    aw_audit_last(audit, &last);
    aw_audit_close(audit);
    snprintf(command, sizeof command, "%s/script.py", folder);
    FILE *file = fopen(command, "w");
    assert_non_null(file);
    fputs(script, file);
    fclose(file);
    snprintf(command, sizeof command, "exec python3 %s/script.py %s/audit-*.jsonl", folder, folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(said, sizeof said, pipe));
    assert_int_equal(pclose(pipe), 0);
    snprintf(expected, sizeof expected, "%ju %s\n", (uintmax_t)last.seq, last.hash);
    assert_string_equal(said, expected);
    assert_int_equal(last.seq, 24);
    snprintf(command, sizeof command, "rm -r %s", folder);
    pipe = popen(command, "r");
    assert_int_equal(pclose(pipe), 0);
}

struct seen {
    uint64_t count, damaged;
    uint64_t n[64], seq[64];
};

static enum aw_err see(void *ctx, const struct aw_audit_entry *entry)
{
    struct seen *seen = ctx;
    if (!entry->intact) {
        seen->damaged++;
        return AW_OK;
    }
    assert_true(seen->count < 64);
    seen->n[seen->count] = n_of(entry);
    seen->seq[seen->count++] = entry->seq;
    return AW_OK;
}

static void entries_come_back_in_order_by_number_time_and_kind(void **state)
{
    struct aw_disk_sim sim;
    struct aw_audit_config config = {.file_bytes_max = 1500};
    struct aw_audit_filter all = AW_AUDIT_EVERY, some = AW_AUDIT_EVERY;
    struct seen seen = {0};
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    struct aw_audit *audit = open_log(&sim, &config, NULL);
    for (uint64_t n = 0; n < 30; n += 3)
        record(audit, n, 3);
    assert_ok(append_n(audit, 99, NULL, NULL)); /* never committed, never seen */
    assert_ok(aw_audit_scan(&sim.disk, FOLDER, &all, see, &seen, NULL, NULL));
    assert_int_equal(seen.count, 30);
    for (uint64_t i = 0; i < 30; i++)
        assert_true(seen.n[i] == i && seen.seq[i] == i + 1);
    for (uint64_t first = 1; first <= 31; first++) {
        seen = (struct seen){0};
        some.seq_first = first;
        some.seq_last = first + 4;
        assert_ok(aw_audit_scan(&sim.disk, FOLDER, &some, see, &seen, NULL, NULL));
        uint64_t left = 31 - first;
        assert_int_equal(seen.count, left < 5 ? left : 5);
        assert_true(left == 0 || seen.seq[0] == first);
    }
    some = all;
    some.from_us = T0 + 10 * 15000000;
    some.until_us = T0 + 19 * 15000000;
    some.kind = "freeze";
    seen = (struct seen){0};
    assert_ok(aw_audit_scan(&sim.disk, FOLDER, &some, see, &seen, NULL, NULL));
    assert_int_equal(seen.count, 3); /* 12, 15, 18 */
    assert_int_equal(seen.n[0], 12);
    for (uint64_t count = 0; count <= 32; count++) {
        seen = (struct seen){0};
        assert_ok(aw_audit_tail(&sim.disk, FOLDER, count, &all, see, &seen, NULL, NULL));
        assert_int_equal(seen.count, count < 30 ? count : 30);
        assert_true(count == 0 || seen.seq[seen.count - 1] == 30);
    }
    aw_audit_close(audit);
    aw_disk_sim_deinit(&sim);
}

static void nothing_is_recorded_before_a_commit_and_a_commit_is_one_write_and_one_sync(void **state)
{
    struct aw_disk_sim sim;
    struct aw_alloc_counting counting;
    struct aw_audit *audit = NULL;
    struct aw_audit_head before, after;
    uint64_t seq = 0;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    aw_alloc_counting_init(&counting);
    assert_ok(aw_audit_open(&audit, &sim.disk, FOLDER, NULL, &counting.alloc, NULL, NULL));
    record(audit, 0, 1);
    aw_audit_last(audit, &before);
    uint64_t changes = sim.change_count, allocations = counting.alloc_count;
    assert_ok(aw_audit_commit(audit, NULL)); /* nothing to do */
    for (uint64_t n = 1; n < 100; n++)
        assert_ok(append_n(audit, n, &seq, NULL));
    assert_int_equal(seq, 100);
    aw_audit_last(audit, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(sim.change_count, changes);
    assert_ok(aw_audit_commit(audit, NULL));
    assert_int_equal(sim.change_count, changes + 2);
    aw_audit_last(audit, &after);
    assert_int_equal(after.seq, 100);
    assert_ok(append_n(audit, 7, &seq, NULL));
    assert_int_equal(seq, 101);
    aw_audit_abort(audit);
    record(audit, 100, 1); /* gets the number that was given back */
    aw_audit_last(audit, &after);
    assert_int_equal(after.seq, 101);
    assert_int_equal(counting.alloc_count, allocations);
    aw_audit_close(audit);
    assert_int_equal(counting.alloc_count, counting.free_count);
    assert_verifies(&sim);
    aw_disk_sim_deinit(&sim);
}

static void what_is_no_entry_is_refused_and_the_group_stays(void **state)
{
    static const struct {
        const char *kind, *members;
        int64_t at_us;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {"", "", T0, AW_ERR_RANGE, "no kind"},
        {"Decision", "", T0, AW_ERR_RANGE, "upper case"},
        {"a\"b", "", T0, AW_ERR_RANGE, "a quote in the kind"},
        {"abcdefghijklmnopqrstuvwxyz0123456", "", T0, AW_ERR_RANGE, "too long a kind"},
        {"retained", "", T0, AW_ERR_RANGE, "the log's own kind"},
        {"break", "", T0, AW_ERR_RANGE, "the log's own kind"},
        {"x", "", -1, AW_ERR_RANGE, "before 1970"},
        {"x", "", INT64_MAX, AW_ERR_RANGE, "after 9999"},
        {"x", "\"seq\":1", T0, AW_ERR_RANGE, "a key that is taken"},
        {"x", "\"a\":1,\"hash\":2", T0, AW_ERR_RANGE, "a key that is taken"},
        {"x", "\"ha\\u0073h\":2", T0, AW_ERR_RANGE, "a key that is taken, in disguise"},
        {"x", "a:1", T0, AW_ERR_FORMAT, "no quotes"},
        {"x", "\"a\": 1", T0, AW_ERR_FORMAT, "white space"},
        {"x", "\"a\":1,", T0, AW_ERR_FORMAT, "a comma too many"},
        {"x", "\"a\":1}", T0, AW_ERR_FORMAT, "a brace: an entry of one's own could follow"},
        {"x", "\"a\":\"b\nc\"", T0, AW_ERR_FORMAT, "a line break: an entry could follow"},
        {"x", "\"a\":\"\xff\"", T0, AW_ERR_FORMAT, "not UTF-8"},
        {"x", "\"a\":01", T0, AW_ERR_FORMAT, "not a number of JSON"},
        {"x", "\"a\":.5", T0, AW_ERR_FORMAT, "not a number of JSON"},
        {"x", "\"a\":nan", T0, AW_ERR_FORMAT, "not a number of JSON"},
        {"x", "\"a\":[1,]", T0, AW_ERR_FORMAT, "a comma too many in a list"},
        {"x", "\"a\":{\"b\"}", T0, AW_ERR_FORMAT, "no value"},
        {"x", "\"a\":\"\\x\"", T0, AW_ERR_FORMAT, "no such escape"},
        {"x", "\"a\":[-0.5e+3,true,null,{\"seq\":{}},\"\\u00e4\\\"\"]", T0, AW_OK, "all of JSON"},
    };
    struct aw_disk_sim sim;
    uint64_t seq = 77;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    struct aw_audit *audit = open_log(&sim, NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_diag diag = {0};
        enum aw_err err =
            aw_audit_append_text(audit, cases[i].at_us, cases[i].kind, cases[i].members,
                                 strlen(cases[i].members), &seq, &diag);
        if (err != cases[i].err)
            fail_msg("%s: %s: %s", cases[i].why, aw_err_name(err), diag.text);
        assert_true(err == AW_OK ? seq == 1 : seq == 77 && diag.text[0]);
    }
    assert_ok(aw_audit_commit(audit, NULL));
    aw_audit_close(audit);
    assert_verifies(&sim);
    aw_disk_sim_deinit(&sim);
}

static void lines_and_groups_have_their_limits(void **state)
{
    struct aw_disk_sim sim;
    struct aw_audit_config config = {.group_bytes_max = AW_AUDIT_LINE_MAX};
    char *members = aw_alloc_new(NULL, AW_AUDIT_LINE_MAX + 1, 1);
    struct aw_diag diag = {0};
    size_t longest = 0;
    (void)state;
    assert_non_null(members);
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    struct aw_audit *audit = open_log(&sim, &config, NULL);
    for (size_t len = AW_AUDIT_LINE_MAX - 300; len <= AW_AUDIT_LINE_MAX; len++) {
        snprintf(members, AW_AUDIT_LINE_MAX + 1, "\"a\":\"%0*d\"", (int)len - 6, 0);
        enum aw_err err =
            aw_audit_append_text(audit, T0, "x", members, strlen(members), NULL, &diag);
        longest = err ? longest : len;
        assert_true(err == AW_OK || err == AW_ERR_LIMIT);
        if (!err)
            aw_audit_abort(audit);
    }
    assert_in_range(longest, AW_AUDIT_LINE_MAX - 300, AW_AUDIT_LINE_MAX - 150);
    snprintf(members, AW_AUDIT_LINE_MAX + 1, "\"a\":\"%0*d\"", (int)longest - 6, 0);
    assert_ok(aw_audit_append_text(audit, T0, "x", members, longest, NULL, &diag));
    assert_int_equal(append_n(audit, 1, NULL, &diag), AW_ERR_LIMIT);
    assert_non_null(strstr(diag.text, "full"));
    assert_ok(aw_audit_commit(audit, NULL));
    record(audit, 1, 1);
    json_t *object = json_pack("{s:s%}", "a", members, longest);
    assert_int_equal(aw_audit_append(audit, T0, "x", object, NULL, &diag), AW_ERR_LIMIT);
    json_decref(object);
    record(audit, 2, 1);
    aw_audit_close(audit);
    assert_verifies(&sim);
    aw_alloc_free(NULL, members);
    aw_disk_sim_deinit(&sim);
}

static void a_second_writer_is_refused_and_wrong_settings_too(void **state)
{
    static const struct {
        struct aw_audit_config config;
        const char *why;
    } wrong[] = {
        {{.files_max = 1}, "the newest file is always kept, and one before it"},
        {{.files_max = UINT32_MAX}, "more than are listed"},
        {{.group_bytes_max = 100}, "smaller than a line"},
        {{.group_bytes_max = UINT32_MAX}, "beyond the maximum"},
        {{.file_bytes_max = UINT64_MAX}, "beyond the maximum"},
        {{.now_us = -5}, "no time"},
    };
    struct aw_disk_sim sim;
    struct aw_audit *other = NULL;
    struct aw_diag diag = {0};
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    struct aw_audit *audit = open_log(&sim, NULL, NULL);
    assert_int_equal(aw_audit_open(&other, &sim.disk, FOLDER, NULL, NULL, NULL, &diag),
                     AW_ERR_UNAVAILABLE);
    assert_null(other);
    assert_string_equal(diag.file, FOLDER);
    aw_audit_close(audit);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (aw_audit_open(&other, &sim.disk, FOLDER, &wrong[i].config, NULL, NULL, &diag) !=
            AW_ERR_RANGE)
            fail_msg("%s", wrong[i].why);
    aw_audit_close(open_log(&sim, NULL, NULL));
    aw_audit_close(NULL);
    aw_disk_sim_deinit(&sim);
}

static void every_failed_allocation_of_opening_is_told(void **state)
{
    struct aw_disk_sim sim;
    struct aw_alloc_counting counting;
    struct aw_audit *audit = NULL;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    audit = open_log(&sim, NULL, NULL);
    record(audit, 0, 5);
    aw_audit_close(audit);
    for (uint64_t n = 0;; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        audit = NULL;
        enum aw_err err =
            aw_audit_open(&audit, &sim.disk, FOLDER, NULL, &counting.alloc, NULL, NULL);
        aw_audit_close(audit);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_true(n < 10);
    }
    aw_disk_sim_deinit(&sim);
}

/* ---- rotation and retention ---- */

static void files_rotate_and_the_chain_goes_on_over_them_and_over_restarts(void **state)
{
    struct aw_disk_sim sim;
    struct aw_audit_config config = {.file_bytes_max = 1500};
    struct aw_audit_report report;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    for (uint64_t run = 0; run < 5; run++) {
        struct aw_audit *audit = open_log(&sim, &config, NULL);
        for (uint64_t n = 0; n < 4; n++)
            record(audit, run * 8 + n * 2, 2);
        aw_audit_close(audit);
    }
    assert_ok(verify(&sim, &report, NULL));
    assert_int_equal(report.entry_count, 40);
    assert_int_equal(report.last_seq, 40);
    assert_int_equal(report.head_seq, 40);
    assert_in_range(report.file_count, 8, 14);
    aw_disk_sim_deinit(&sim);
}

static void retention_drops_the_oldest_files_and_says_so(void **state)
{
    struct aw_disk_sim sim;
    struct aw_audit_config config = {.file_bytes_max = 1500, .files_max = 3};
    struct aw_audit_report report;
    struct aw_diag diag = {0};
    size_t len = 0;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    struct aw_audit *audit = open_log(&sim, &config, NULL);
    for (uint64_t n = 0; n < 60; n += 2)
        record(audit, n, 2);
    aw_audit_close(audit);
    assert_ok(verify(&sim, &report, &diag));
    assert_int_equal(report.file_count, 3);
    assert_true(report.first_seq > 30 && report.retained_seq + 1 == report.first_seq);
    assert_null(aw_disk_sim_get(&sim, FILE1, &len));
    /* fewer files from now on: several go at once, and it still verifies */
    config.files_max = 2;
    audit = open_log(&sim, &config, NULL);
    for (uint64_t n = 60; n < 70; n += 2)
        record(audit, n, 2);
    aw_audit_close(audit);
    assert_ok(verify(&sim, &report, &diag));
    assert_int_equal(report.file_count, 2);
    aw_disk_sim_deinit(&sim);
}

static enum aw_err refuse(void *self, const char *path, struct aw_diag *diag)
{
    (void)self;
    return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot remove: Operation not permitted");
}

static void where_old_files_cannot_be_removed_the_log_still_records(void **state)
{
    struct aw_disk_sim sim;
    struct aw_audit_config config = {.file_bytes_max = 300, .files_max = 2};
    struct aw_audit_report report;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    struct aw_disk_ops ops = *sim.disk.ops; /* a disk of our own whose unlink is refused */
    ops.unlink = refuse;
    struct aw_disk disk = {.ops = &ops, .self = &sim};
    struct aw_audit *audit = NULL;
    assert_ok(aw_audit_open(&audit, &disk, FOLDER, &config, NULL, NULL, NULL));
    for (uint64_t n = 0; n < 100; n++)
        record(audit, n, 1);
    aw_audit_close(audit);
    assert_ok(verify(&sim, &report, NULL));
    assert_int_equal(report.first_seq, 1);
    assert_in_range(report.file_count, 3, 20);
    aw_disk_sim_deinit(&sim);
}

/* ---- somebody changes it ---- */

/* Three files of a few entries each. */
static void make_log(struct aw_disk_sim *sim)
{
    struct aw_audit_config config = {.file_bytes_max = 1500};
    assert_ok(aw_disk_sim_init(sim, 1, NULL));
    struct aw_audit *audit = open_log(sim, &config, NULL);
    for (uint64_t n = 0; n < 5; n++)
        record(audit, n * 2, 2);
    aw_audit_close(audit);
    size_t len = 0;
    assert_non_null(aw_disk_sim_get(sim, FILE3, &len));
    assert_null(aw_disk_sim_get(sim, FOLDER "/audit-00000004.jsonl", &len));
    assert_verifies(sim);
}

static void every_changed_byte_is_found(void **state)
{
    static const char *const files[] = {FILE1, FILE2, FILE3, HEAD};
    static const unsigned char masks[] = {0x01, 0x20, 0x80, 0xff};
    struct aw_disk_sim sim;
    uint64_t tried = 0;
    (void)state;
    make_log(&sim);
    for (size_t f = 0; f < 4; f++) {
        char copy[4096];
        size_t len = 0;
        const char *bytes = aw_disk_sim_get(&sim, files[f], &len);
        assert_true(len <= sizeof copy);
        memcpy(copy, bytes, len);
        for (size_t i = 0; i < len; i++) {
            for (size_t m = 0; m < sizeof masks; m++, tried++) {
                struct aw_audit_report report;
                struct aw_audit *audit = NULL;
                copy[i] ^= (char)masks[m];
                assert_ok(aw_disk_sim_put(&sim, files[f], copy, len));
                if (verify(&sim, &report, NULL) != AW_ERR_FORMAT)
                    fail_msg("%s: byte %zu, mask %02x: not found", files[f], i, masks[m]);
                assert_true(report.why[0] && report.file[0]);
                /* the head vouches for all of it: nobody takes this for a torn end */
                if (m == 0 && i % 7 == 0)
                    assert_int_equal(
                        aw_audit_open(&audit, &sim.disk, FOLDER, NULL, NULL, NULL, NULL),
                        AW_ERR_FORMAT);
                copy[i] ^= (char)masks[m];
            }
        }
        assert_ok(aw_disk_sim_put(&sim, files[f], copy, len));
    }
    print_message("# %ju changes, all found\n", (uintmax_t)tried);
    assert_verifies(&sim);
    aw_disk_sim_deinit(&sim);
}

struct lines {
    char bytes[4096];
    const char *line[16]; /* each with its newline */
    size_t len[16], count;
};

static void split(struct aw_disk_sim *sim, const char *path, struct lines *lines)
{
    size_t len = 0;
    const char *bytes = aw_disk_sim_get(sim, path, &len);
    assert_true(len < sizeof lines->bytes);
    memcpy(lines->bytes, bytes, len);
    lines->count = 0;
    for (const char *p = lines->bytes; p < lines->bytes + len;) {
        const char *end = memchr(p, '\n', (size_t)(lines->bytes + len - p));
        lines->line[lines->count] = p;
        lines->len[lines->count++] = (size_t)(end + 1 - p);
        p = end + 1;
    }
}

/* Writes the lines back in the order of `order`, which ends with -1. */
static void put_lines(struct aw_disk_sim *sim, const char *path, const struct lines *lines,
                      const int *order)
{
    char bytes[8192];
    size_t len = 0;
    for (; *order >= 0; order++) {
        memcpy(bytes + len, lines->line[*order], lines->len[*order]);
        len += lines->len[*order];
    }
    assert_ok(aw_disk_sim_put(sim, path, bytes, len));
}

static void what_was_removed_repeated_or_reordered_is_found_with_its_place(void **state)
{
    static const struct {
        const char *path, *file;
        int order[8]; /* lines that are left, of 4 in the first file and of 4 and 2 */
        uint32_t line;
        uint64_t seq;
        const char *text, *why;
    } cases[] = {
        {FILE1, "audit-00000001.jsonl", {0, 2, 3, -1}, 2, 2, "missing", "a line is gone"},
        {FILE1, "audit-00000001.jsonl", {1, 2, 3, -1}, 1, 1, "missing", "the first line is gone"},
        {FILE1, "audit-00000002.jsonl", {0, 1, 2, -1}, 1, 4, "missing", "the last of a file"},
        {FILE1, "audit-00000001.jsonl", {0, 1, 1, 2, 3, -1}, 3, 3, "repeated", "a line twice"},
        {FILE1, "audit-00000001.jsonl", {0, 2, 1, 3, -1}, 2, 2, "missing", "two are swapped"},
        {FILE2, "audit-00000002.jsonl", {0, 1, 2, 3, 0, -1}, 5, 9, "order", "an old line again"},
        {FILE2, "audit-00000003.jsonl", {-1}, 1, 5, "missing", "a file is empty"},
        {FILE3, "audit-00000003.jsonl", {0, -1}, 0, 10, "newest", "the newest line is gone"},
        {FILE3, "audit-00000003.jsonl", {-1}, 0, 9, "newest", "the newest lines are gone"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_disk_sim sim;
        struct lines lines;
        struct aw_audit_report report = {0};
        struct aw_audit *audit = NULL;
        struct aw_diag diag = {0};
        make_log(&sim);
        split(&sim, cases[i].path, &lines);
        put_lines(&sim, cases[i].path, &lines, cases[i].order);
        enum aw_err err = verify(&sim, &report, &diag);
        if (err != AW_ERR_FORMAT || strcmp(report.file, cases[i].file) != 0 ||
            report.line != cases[i].line || report.seq != cases[i].seq ||
            !strstr(report.why, cases[i].text))
            fail_msg("%s: %s %s:%u entry %ju: %s", cases[i].why, aw_err_name(err), report.file,
                     report.line, (uintmax_t)report.seq, report.why);
        assert_false(report.torn);
        assert_int_equal(aw_audit_open(&audit, &sim.disk, FOLDER, NULL, NULL, NULL, &diag),
                         AW_ERR_FORMAT);
        aw_disk_sim_deinit(&sim);
    }
}

static void a_removed_file_is_found(void **state)
{
    static const char *const files[] = {FILE1, FILE2, FILE3};
    static const char *const texts[] = {"oldest are missing", "entries are missing",
                                        "newest are missing"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct aw_disk_sim sim;
        struct aw_audit_report report = {0};
        make_log(&sim);
        assert_ok(sim.disk.ops->unlink(&sim, files[i], NULL));
        assert_int_equal(verify(&sim, &report, NULL), AW_ERR_FORMAT);
        assert_non_null(strstr(report.why, texts[i]));
        aw_disk_sim_deinit(&sim);
    }
    struct aw_disk_sim sim;
    struct aw_audit_report report = {0};
    make_log(&sim);
    for (size_t i = 0; i < 3; i++)
        assert_ok(sim.disk.ops->unlink(&sim, files[i], NULL));
    assert_int_equal(verify(&sim, &report, NULL), AW_ERR_FORMAT); /* the head remembers */
    assert_ok(sim.disk.ops->unlink(&sim, HEAD, NULL));
    assert_int_equal(verify(&sim, &report, NULL), AW_ERR_NOTFOUND);
    aw_disk_sim_deinit(&sim);
}

static void a_hash_kept_elsewhere_shows_a_log_that_was_made_anew(void **state)
{
    struct aw_disk_sim sim, other;
    struct aw_audit_report report = {0};
    struct aw_audit_head last;
    struct aw_audit *audit;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    audit = open_log(&sim, NULL, NULL);
    record(audit, 1, 3);
    aw_audit_last(audit, &last);
    record(audit, 4, 3);
    aw_audit_close(audit);
    assert_ok(aw_audit_verify(&sim.disk, FOLDER, last.hash, NULL, NULL, NULL, &report, NULL));
    assert_ok(aw_disk_sim_init(&other, 1, NULL)); /* the same number of entries, other decisions */
    audit = open_log(&other, NULL, NULL);
    record(audit, 10, 6);
    aw_audit_close(audit);
    assert_verifies(&other);
    assert_int_equal(
        aw_audit_verify(&other.disk, FOLDER, last.hash, NULL, NULL, NULL, &report, NULL),
        AW_ERR_FORMAT);
    assert_non_null(strstr(report.why, last.hash));
    assert_int_equal(aw_audit_verify(&sim.disk, FOLDER, "abc", NULL, NULL, NULL, &report, NULL),
                     AW_ERR_RANGE);
    aw_disk_sim_deinit(&sim);
    aw_disk_sim_deinit(&other);
}

static void after_damage_a_new_chain_names_the_break_and_the_old_one_stays(void **state)
{
    struct aw_disk_sim sim;
    struct lines lines;
    struct aw_audit *audit = NULL;
    struct aw_audit_config config = {.begin_new_chain = true, .now_us = T0};
    struct aw_audit_recovery recovery;
    struct aw_audit_report report = {0};
    struct aw_diag diag = {0};
    struct seen seen = {0};
    size_t len = 0;
    (void)state;
    make_log(&sim);
    split(&sim, FILE2, &lines);
    put_lines(&sim, FILE2, &lines, (const int[]){0, 2, 3, -1});
    assert_int_equal(aw_audit_open(&audit, &sim.disk, FOLDER, NULL, NULL, NULL, &diag),
                     AW_ERR_FORMAT);
    assert_string_equal(diag.file, FILE2);
    assert_int_equal(diag.line, 2);
    audit = open_log(&sim, &config, &recovery);
    assert_true(recovery.new_chain);
    record(audit, 50, 2);
    aw_audit_close(audit);
    const char *bytes = aw_disk_sim_get(&sim, FOLDER "/audit-00000004.jsonl", &len);
    assert_non_null(bytes);
    assert_non_null(memmem(bytes, len, "\"kind\":\"break\"", 14));
    assert_non_null(memmem(bytes, len, "\"file\":\"audit-00000002.jsonl\",\"line\":2", 38));
    /* verify still tells; what was recorded since holds; and the log goes on without being asked */
    assert_int_equal(verify(&sim, &report, NULL), AW_ERR_FORMAT);
    assert_string_equal(report.file, "audit-00000002.jsonl");
    assert_int_equal(report.new_chain_seq, 11);
    audit = open_log(&sim, NULL, &recovery);
    assert_false(recovery.new_chain);
    record(audit, 52, 1);
    aw_audit_close(audit);
    assert_ok(aw_audit_scan(&sim.disk, FOLDER, &AW_AUDIT_EVERY, see, &seen, NULL, NULL));
    assert_int_equal(seen.seq[seen.count - 1], 14);
    assert_int_equal(seen.n[seen.count - 1], 52);
    aw_disk_sim_deinit(&sim);
}

/* A line that is right in itself, with the number of another, in its place. */
static void a_forged_line_is_found_by_the_next_one(void **state)
{
    struct aw_disk_sim sim, other;
    struct lines lines, forged;
    struct aw_audit_report report = {0};
    (void)state;
    make_log(&sim);
    assert_ok(aw_disk_sim_init(&other, 1, NULL));
    struct aw_audit *audit = open_log(&other, NULL, NULL);
    record(audit, 70, 4);
    aw_audit_close(audit);
    split(&other, FILE1, &forged);
    split(&sim, FILE1, &lines);
    lines.line[0] = forged.line[0];
    lines.len[0] = forged.len[0];
    put_lines(&sim, FILE1, &lines, (const int[]){0, 1, 2, 3, -1});
    assert_int_equal(verify(&sim, &report, NULL), AW_ERR_FORMAT);
    assert_int_equal(report.line, 2);
    assert_non_null(strstr(report.why, "replaced"));
    aw_disk_sim_deinit(&sim);
    aw_disk_sim_deinit(&other);
}

static void an_edit_is_not_taken_for_a_torn_end_where_a_commit_follows(void **state)
{
    struct aw_disk_sim sim;
    struct aw_audit *audit, *other = NULL;
    struct aw_audit_recovery recovery;
    struct aw_audit_report report = {0};
    char bytes[4096];
    size_t len = 0;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    audit = open_log(&sim, NULL, NULL);
    for (uint64_t n = 0; n < 6; n += 2)
        record(audit, n, 2);
    aw_audit_close(audit);
    const char *now = aw_disk_sim_get(&sim, FILE1, &len);
    assert_true(len < sizeof bytes);
    memcpy(bytes, now, len);
    assert_ok(sim.disk.ops->unlink(&sim, HEAD, NULL)); /* as after a crash in its first minutes */
    bytes[60] ^= 1;                                    /* in the first of three commits */
    assert_ok(aw_disk_sim_put(&sim, FILE1, bytes, len));
    assert_int_equal(verify(&sim, &report, NULL), AW_ERR_FORMAT);
    assert_false(report.torn);
    assert_int_equal(aw_audit_open(&other, &sim.disk, FOLDER, NULL, NULL, NULL, NULL),
                     AW_ERR_FORMAT);
    bytes[60] ^= 1;
    bytes[len - 200] ^= 1; /* in the last: this may have been a power cut, and is called one */
    assert_ok(aw_disk_sim_put(&sim, FILE1, bytes, len));
    assert_int_equal(verify(&sim, &report, NULL), AW_ERR_FORMAT);
    assert_true(report.torn);
    audit = open_log(&sim, NULL, &recovery);
    assert_int_equal(recovery.entry_count, 5);
    assert_true(recovery.torn_bytes > 200 && recovery.torn_aside[0]);
    aw_audit_close(audit);
    assert_verifies(&sim);
    aw_disk_sim_deinit(&sim);
}

static void damaged_lines_are_shown_as_such(void **state)
{
    struct aw_disk_sim sim;
    struct lines lines;
    struct seen seen = {0};
    (void)state;
    make_log(&sim);
    split(&sim, FILE2, &lines);
    lines.bytes[20] ^= 1;
    put_lines(&sim, FILE2, &lines, (const int[]){0, 1, 2, 3, -1});
    assert_ok(aw_audit_scan(&sim.disk, FOLDER, &AW_AUDIT_EVERY, see, &seen, NULL, NULL));
    assert_int_equal(seen.count, 9);
    assert_int_equal(seen.damaged, 1);
    aw_disk_sim_deinit(&sim);
}

AW_TEST_GROUP("audit")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_what_the_header_says),
        cmocka_unit_test(ten_lines_of_python_verify_it),
        cmocka_unit_test(entries_come_back_in_order_by_number_time_and_kind),
        cmocka_unit_test(
            nothing_is_recorded_before_a_commit_and_a_commit_is_one_write_and_one_sync),
        cmocka_unit_test(what_is_no_entry_is_refused_and_the_group_stays),
        cmocka_unit_test(lines_and_groups_have_their_limits),
        cmocka_unit_test(a_second_writer_is_refused_and_wrong_settings_too),
        cmocka_unit_test(every_failed_allocation_of_opening_is_told),
        cmocka_unit_test(files_rotate_and_the_chain_goes_on_over_them_and_over_restarts),
        cmocka_unit_test(retention_drops_the_oldest_files_and_says_so),
        cmocka_unit_test(where_old_files_cannot_be_removed_the_log_still_records),
        cmocka_unit_test(every_changed_byte_is_found),
        cmocka_unit_test(what_was_removed_repeated_or_reordered_is_found_with_its_place),
        cmocka_unit_test(a_removed_file_is_found),
        cmocka_unit_test(a_hash_kept_elsewhere_shows_a_log_that_was_made_anew),
        cmocka_unit_test(after_damage_a_new_chain_names_the_break_and_the_old_one_stays),
        cmocka_unit_test(a_forged_line_is_found_by_the_next_one),
        cmocka_unit_test(an_edit_is_not_taken_for_a_torn_end_where_a_commit_follows),
        cmocka_unit_test(damaged_lines_are_shown_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
