/* journal_test.c - what is put is what is got, for as long as it is kept. */
#include "desk/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/testing.h"

struct place {
    char folder[64], file[128];
};

static int set_up(void **state)
{
    static struct place place;
    snprintf(place.folder, sizeof place.folder, "/tmp/aw-journal-XXXXXX");
    if (!mkdtemp(place.folder))
        return -1;
    snprintf(place.file, sizeof place.file, "%s/journal", place.folder);
    *state = &place;
    return 0;
}

static int tear_down(void **state)
{
    const struct place *place = *state;
    static const char *const behind[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s%s", place->file, behind[i]);
        unlink(path);
    }
    return rmdir(place->folder);
}

static struct aw_journal *open_journal(const struct place *place, bool read_only, uint32_t keep)
{
    struct aw_journal *journal = NULL;
    struct aw_diag diag = {0};
    if (aw_journal_open(&journal, place->file, read_only, keep, &diag))
        fail_msg("%s", diag.text);
    return journal;
}

static void put_one(struct aw_journal *journal, uint64_t id, const char *workload, int64_t at_us)
{
    char account[64];
    snprintf(account, sizeof account, "{\"id\":%ju}", (uintmax_t)id);
    assert_ok(aw_journal_begin(journal, NULL));
    assert_ok(aw_journal_put(journal, id, workload, at_us, NULL, account, "{}", NULL, 0, NULL));
    assert_ok(aw_journal_commit(journal, NULL));
}

static void what_was_put_is_got(void **state)
{
    enum { BYTES = 50000 };
    static unsigned char moment[BYTES];
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    for (uint32_t i = 0; i < BYTES; i++)
        moment[i] = (unsigned char)aw_rng_below(&rng, i < BYTES / 2 ? 256 : 2);
    const struct aw_orders orders = {.freeze = 2,
                                     .pin_kind = AW_ORDER_UNDO,
                                     .freeze_id = INT64_MAX,
                                     .pin_id = 5,
                                     .floor_id = 6,
                                     .pin = {.set = 7, .amount = {1, INT64_MAX, INT64_MIN}},
                                     .floor = {.set = 3, .amount = {UINT32_MAX, 2, 3}},
                                     .urgent = true};
    struct aw_journal *journal = open_journal(*state, false, 0);
    assert_ok(aw_journal_begin(journal, NULL));
    assert_ok(aw_journal_put(journal, 17, "shop/cart", -5, &orders, "{\"a\":\"\xc3\xa9\"}",
                             "{\"c\":1}", moment, BYTES, NULL));
    assert_ok(aw_journal_put(journal, 18, "shop/cart", 9, NULL, "{}", "{\"c\":1}", NULL, 0, NULL));
    assert_ok(aw_journal_commit(journal, NULL));
    aw_journal_close(journal);

    journal = open_journal(*state, true, 0);
    struct aw_journal_entry entry;
    assert_ok(aw_journal_get(journal, 17, &entry, NULL));
    assert_int_equal(entry.id, 17);
    assert_string_equal(entry.workload, "shop/cart");
    assert_int_equal(entry.at_us, -5);
    assert_string_equal(entry.account, "{\"a\":\"\xc3\xa9\"}");
    assert_string_equal(entry.config, "{\"c\":1}");
    assert_int_equal(entry.moment_bytes, BYTES);
    assert_memory_equal(entry.moment, moment, BYTES);
    assert_int_equal(entry.orders.freeze, orders.freeze);
    assert_int_equal(entry.orders.pin_kind, orders.pin_kind);
    assert_true(entry.orders.freeze_id == orders.freeze_id && entry.orders.pin_id == 5);
    assert_true(entry.orders.floor_id == 6 && entry.orders.urgent);
    assert_int_equal(entry.orders.pin.set, 7);
    assert_int_equal(entry.orders.pin.replicas, 1);
    assert_true(entry.orders.pin.cpu_millicores == INT64_MAX);
    assert_true(entry.orders.pin.memory_bytes == INT64_MIN);
    assert_true(entry.orders.floor.set == 3 && entry.orders.floor.replicas == UINT32_MAX);
    assert_true(entry.orders.floor.cpu_millicores == 2 && entry.orders.floor.memory_bytes == 3);
    aw_journal_entry_deinit(&entry);
    assert_ok(aw_journal_get(journal, 18, &entry, NULL));
    assert_null(entry.moment);
    assert_int_equal(entry.moment_bytes, 0);
    assert_int_equal(entry.orders.freeze, 0);
    aw_journal_entry_deinit(&entry);
    struct aw_diag diag = {0};
    assert_int_equal(aw_journal_get(journal, 19, &entry, &diag), AW_ERR_NOTFOUND);
    assert_int_equal(aw_journal_get(journal, UINT64_MAX, &entry, &diag), AW_ERR_NOTFOUND);
    assert_int_equal(aw_journal_begin(journal, &diag), AW_ERR_UNSUPPORTED);
    aw_journal_close(journal);
}

struct listing {
    uint32_t count;
    uint64_t id[32];
    enum aw_err end_with;
};

static enum aw_err note(void *ctx, const struct aw_journal_entry *entry)
{
    struct listing *listing = ctx;
    char account[64];
    assert_true(listing->count < 32);
    snprintf(account, sizeof account, "{\"id\":%ju}", (uintmax_t)entry->id);
    assert_string_equal(entry->account, account);
    assert_null(entry->moment);
    listing->id[listing->count++] = entry->id;
    return listing->end_with;
}

static void the_newest_come_first(void **state)
{
    struct aw_journal *journal = open_journal(*state, false, 0);
    for (uint64_t i = 1; i <= 10; i++)
        put_one(journal, i, i % 2 ? "a/odd" : "a/even", (int64_t)i * 100);
    struct listing all = {0}, odd = {0}, since = {0}, few = {0}, none = {0};
    assert_ok(aw_journal_list(journal, NULL, INT64_MIN, 100, note, &all, NULL));
    assert_int_equal(all.count, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(all.id[i], 10 - i);
    assert_ok(aw_journal_list(journal, "a/odd", INT64_MIN, 100, note, &odd, NULL));
    assert_int_equal(odd.count, 5);
    assert_int_equal(odd.id[0], 9);
    assert_ok(aw_journal_list(journal, "a/odd", 700, 100, note, &since, NULL));
    assert_int_equal(since.count, 2);
    assert_ok(aw_journal_list(journal, NULL, INT64_MIN, 3, note, &few, NULL));
    assert_int_equal(few.count, 3);
    assert_ok(aw_journal_list(journal, "a/other", INT64_MIN, 3, note, &none, NULL));
    assert_int_equal(none.count, 0);
    struct listing ended = {.end_with = AW_ERR_INTERRUPTED};
    assert_int_equal(aw_journal_list(journal, NULL, INT64_MIN, 9, note, &ended, NULL),
                     AW_ERR_INTERRUPTED);
    assert_int_equal(ended.count, 1);

    struct aw_journal_entry entry;
    assert_ok(aw_journal_latest(journal, "a/even", INT64_MAX, &entry, NULL));
    assert_int_equal(entry.id, 10);
    aw_journal_entry_deinit(&entry);
    assert_ok(aw_journal_latest(journal, "a/even", 799, &entry, NULL));
    assert_int_equal(entry.id, 6);
    aw_journal_entry_deinit(&entry);
    assert_int_equal(aw_journal_latest(journal, "a/even", 199, &entry, NULL), AW_ERR_NOTFOUND);
    aw_journal_close(journal);
}

static int64_t asked(const struct place *place, const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open_v2(place->file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK);
    const int code = sqlite3_step(statement);
    assert_true(code == SQLITE_ROW || code == SQLITE_DONE);
    const int64_t number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

static void the_oldest_of_each_workload_are_forgotten(void **state)
{
    struct aw_journal *journal = open_journal(*state, false, 3);
    for (uint64_t i = 1; i <= 20; i++)
        put_one(journal, i, i <= 18 ? "a/busy" : "a/calm", (int64_t)i);
    struct listing all = {0};
    assert_ok(aw_journal_list(journal, NULL, INT64_MIN, 32, note, &all, NULL));
    static const uint64_t kept[] = {20, 19, 18, 17, 16};
    assert_int_equal(all.count, 5);
    assert_memory_equal(all.id, kept, sizeof kept);
    aw_journal_close(journal);
}

static void an_id_that_is_there_is_replaced(void **state)
{
    struct aw_journal *journal = open_journal(*state, false, 0);
    struct aw_journal_entry entry;
    for (uint32_t turn = 0; turn < 2; turn++) {
        assert_ok(aw_journal_begin(journal, NULL));
        assert_ok(aw_journal_put(journal, 1, "a/b", 5, NULL, turn ? "second" : "first", "{}", "x",
                                 1, NULL));
        assert_ok(aw_journal_commit(journal, NULL));
    }
    assert_ok(aw_journal_get(journal, 1, &entry, NULL));
    assert_string_equal(entry.account, "second");
    aw_journal_entry_deinit(&entry);
    aw_journal_close(journal);
    assert_int_equal(asked(*state, "SELECT count(*) FROM entry"), 1);
}

static void a_config_is_kept_once_and_not_for_ever(void **state)
{
    struct aw_journal *journal = open_journal(*state, false, 2);
    assert_ok(aw_journal_begin(journal, NULL));
    for (uint64_t i = 0; i < 10; i++)
        assert_ok(aw_journal_put(journal, i + 1, "a/b", (int64_t)i, NULL, "{}",
                                 i < 5 ? "old" : "new", NULL, 0, NULL));
    assert_ok(aw_journal_commit(journal, NULL));
    aw_journal_close(journal);
    assert_int_equal(asked(*state, "SELECT count(*) FROM config"), 2);
    aw_journal_close(open_journal(*state, false, 2)); /* the old one is nobody's by now */
    assert_int_equal(asked(*state, "SELECT count(*) FROM config"), 1);
    journal = open_journal(*state, true, 0);
    struct aw_journal_entry entry;
    assert_ok(aw_journal_get(journal, 10, &entry, NULL));
    assert_string_equal(entry.config, "new");
    aw_journal_entry_deinit(&entry);
    aw_journal_close(journal);
}

static void a_config_is_told_once_and_known_by_its_number(void **state)
{
    struct aw_journal *journal = open_journal(*state, false, 0);
    struct aw_journal_entry entry;
    int64_t old = 0, new = 0, again = 0;
    assert_ok(aw_journal_begin(journal, NULL));
    assert_ok(aw_journal_config(journal, "old", &old, NULL));
    assert_ok(aw_journal_config(journal, "new", &new, NULL));
    assert_true(old > 0 && new > 0 && old != new);
    assert_ok(aw_journal_put_under(journal, 1, "a/b", 1, NULL, "{}", old, NULL, 0, NULL));
    assert_ok(aw_journal_commit(journal, NULL));
    assert_ok(aw_journal_begin(journal, NULL)); /* in a later group too */
    assert_ok(aw_journal_config(journal, "new", &again, NULL));
    assert_int_equal(again, new);
    assert_ok(aw_journal_put_under(journal, 2, "a/b", 2, NULL, "{}", new, NULL, 0, NULL));
    assert_ok(aw_journal_put(journal, 3, "a/b", 3, NULL, "{}", "old", NULL, 0, NULL));
    assert_ok(aw_journal_commit(journal, NULL));
    for (uint64_t id = 1; id <= 3; id++) {
        assert_ok(aw_journal_get(journal, id, &entry, NULL));
        assert_string_equal(entry.config, id == 2 ? "new" : "old");
        aw_journal_entry_deinit(&entry);
    }
    aw_journal_close(journal);
    assert_int_equal(asked(*state, "SELECT count(*) FROM config"), 2);
}

static void what_is_taken_back_was_never_there(void **state)
{
    struct aw_journal *journal = open_journal(*state, false, 0);
    struct aw_journal_entry entry;
    aw_journal_abort(journal); /* nothing begun: nothing happens */
    put_one(journal, 1, "a/b", 1);
    assert_ok(aw_journal_begin(journal, NULL));
    assert_ok(aw_journal_put(journal, 2, "a/b", 2, NULL, "{}", "{}", NULL, 0, NULL));
    aw_journal_abort(journal);
    assert_int_equal(aw_journal_get(journal, 2, &entry, NULL), AW_ERR_NOTFOUND);
    put_one(journal, 3, "a/b", 3);
    assert_ok(aw_journal_begin(journal, NULL));
    assert_ok(aw_journal_put(journal, 4, "a/b", 4, NULL, "{}", "{}", NULL, 0, NULL));
    aw_journal_close(journal); /* in the middle of it */
    journal = open_journal(*state, true, 0);
    assert_int_equal(aw_journal_get(journal, 4, &entry, NULL), AW_ERR_NOTFOUND);
    assert_ok(aw_journal_get(journal, 3, &entry, NULL));
    aw_journal_entry_deinit(&entry);
    aw_journal_close(journal);
}

static void a_reader_looks_on_beside_the_writer(void **state)
{
    struct aw_journal *writer = open_journal(*state, false, 0);
    put_one(writer, 1, "a/b", 1);
    struct aw_journal *reader = open_journal(*state, true, 0);
    struct aw_journal_entry entry;
    assert_ok(aw_journal_begin(writer, NULL));
    assert_ok(aw_journal_put(writer, 2, "a/b", 2, NULL, "{}", "{}", NULL, 0, NULL));
    assert_ok(aw_journal_get(reader, 1, &entry, NULL)); /* it waits for nobody */
    aw_journal_entry_deinit(&entry);
    assert_int_equal(aw_journal_get(reader, 2, &entry, NULL), AW_ERR_NOTFOUND);
    assert_ok(aw_journal_commit(writer, NULL));
    assert_ok(aw_journal_get(reader, 2, &entry, NULL));
    aw_journal_entry_deinit(&entry);
    aw_journal_close(reader);
    aw_journal_close(writer);
}

static void nobody_else_may_read_it(void **state)
{
    const struct place *place = *state;
    struct stat about;
    const mode_t before = umask(0);
    aw_journal_close(open_journal(place, false, 0));
    umask(before);
    assert_int_equal(stat(place->file, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
}

static void what_is_no_journal_is_refused_and_left_alone(void **state)
{
    const struct place *place = *state;
    struct aw_journal *journal = NULL;
    struct aw_diag diag = {0};
    assert_int_equal(aw_journal_open(&journal, place->file, true, 0, &diag), AW_ERR_NOTFOUND);
    assert_int_equal(aw_journal_open(&journal, "/nowhere/at/all", false, 0, &diag),
                     AW_ERR_NOTFOUND);
    assert_int_equal(aw_journal_open(&journal, "", false, 0, &diag), AW_ERR_RANGE);
    FILE *file = fopen(place->file, "w");
    assert_non_null(file);
    for (uint32_t i = 0; i < 1000; i++)
        fputs("a letter to a friend\n", file);
    fclose(file);
    assert_int_equal(aw_journal_open(&journal, place->file, false, 0, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "not an SQLite database"));
    assert_int_equal(aw_journal_open(&journal, place->file, true, 0, &diag), AW_ERR_FORMAT);
    assert_int_equal(truncate(place->file, 0), 0);
    asked(place, "CREATE TABLE cake(slices INTEGER)");
    assert_int_equal(aw_journal_open(&journal, place->file, false, 0, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "not a journal"));
    assert_int_equal(asked(place, "SELECT count(*) FROM sqlite_schema"), 1);
    assert_null(journal);
}

static void a_newer_one_is_refused(void **state)
{
    const struct place *place = *state;
    struct aw_journal *journal = NULL;
    struct aw_diag diag = {0};
    aw_journal_close(open_journal(place, false, 0));
    asked(place, "PRAGMA user_version = 2");
    assert_int_equal(aw_journal_open(&journal, place->file, false, 0, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "newer"));
}

static void a_damaged_entry_is_an_error_and_not_a_crash(void **state)
{
    static const struct {
        const char *damage, *why;
    } row[] = {
        {"UPDATE entry SET account = x'00112233'", "an account that does not unpack"},
        {"UPDATE entry SET account_bytes = 1 << 40", "one that wants a terabyte"},
        {"UPDATE entry SET account_bytes = -1", "one that is less than nothing"},
        {"UPDATE entry SET account_bytes = account_bytes + 1", "one that is too short"},
        {"UPDATE entry SET orders = x'00'", "orders that are none"},
        {"UPDATE entry SET moment = x'78'", "a moment that was cut"},
        {"UPDATE config SET text = x''", "a config that is gone"},
    };
    const struct place *place = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct aw_journal *journal = open_journal(place, false, 0);
        assert_ok(aw_journal_begin(journal, NULL));
        assert_ok(aw_journal_put(journal, 1, "a/b", 1, NULL, "{\"some\":\"account\"}", "{}",
                                 "moment", 6, NULL));
        assert_ok(aw_journal_commit(journal, NULL));
        aw_journal_close(journal);
        asked(place, row[i].damage);
        journal = open_journal(place, true, 0);
        struct aw_journal_entry entry;
        struct aw_diag diag = {0};
        if (aw_journal_get(journal, 1, &entry, &diag) != AW_ERR_FORMAT)
            fail_msg("%s was taken", row[i].why);
        assert_non_null(strstr(diag.text, "damaged"));
        aw_journal_close(journal);
        assert_int_equal(unlink(place->file), 0);
    }
}

/* A file that may not grow is a disk that is full. */
static void a_full_disk_is_an_error_and_no_damage(void **state)
{
    enum { BYTES = 200000 };
    static unsigned char moment[BYTES];
    struct aw_rng rng;
    aw_rng_init(&rng, 2, 0);
    for (uint32_t i = 0; i < BYTES; i++)
        moment[i] = (unsigned char)aw_rng_below(&rng, 256);
    struct aw_journal *journal = open_journal(*state, false, 0);
    put_one(journal, 1, "a/b", 1);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1 << 20;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum aw_err err = AW_OK;
    struct aw_diag diag = {0};
    uint64_t id = 2;
    for (; !err && id < 1000; id++) {
        assert_ok(aw_journal_begin(journal, NULL));
        const enum aw_err put =
            aw_journal_put(journal, id, "a/b", (int64_t)id, NULL, "{}", "{}", moment, BYTES, &diag);
        err = aw_journal_commit(journal, put ? NULL : &diag);
        assert_true(!put || err); /* what was lost is not said to be kept */
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(err, AW_ERR_IO);
    assert_true(strlen(diag.text) > 10);
    struct aw_journal_entry entry;
    assert_int_equal(aw_journal_get(journal, id - 1, &entry, NULL), AW_ERR_NOTFOUND);
    for (uint64_t i = 1; i < id - 1; i++) {
        assert_ok(aw_journal_get(journal, i, &entry, NULL));
        aw_journal_entry_deinit(&entry);
    }
    put_one(journal, id, "a/b", (int64_t)id); /* room again: it goes on */
    assert_ok(aw_journal_get(journal, id, &entry, NULL));
    aw_journal_entry_deinit(&entry);
    aw_journal_close(journal);
    assert_int_equal(asked(*state, "SELECT count(*) <> 1 OR max(integrity_check) <> 'ok' "
                                   "FROM pragma_integrity_check"),
                     0);
}

static void a_name_that_does_not_fit_is_refused(void **state)
{
    char name[AW_STORE_NAME_MAX + 1];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    struct aw_journal *journal = open_journal(*state, false, 0);
    assert_ok(aw_journal_begin(journal, NULL));
    assert_int_equal(aw_journal_put(journal, 1, name, 1, NULL, "{}", "{}", NULL, 0, NULL),
                     AW_ERR_RANGE);
    assert_int_equal(aw_journal_put(journal, 1, "", 1, NULL, "{}", "{}", NULL, 0, NULL),
                     AW_ERR_RANGE);
    name[AW_STORE_NAME_MAX - 1] = '\0';
    assert_ok(aw_journal_put(journal, 1, name, 1, NULL, "{}", "{}", NULL, 0, NULL));
    assert_ok(aw_journal_commit(journal, NULL));
    struct aw_journal_entry entry;
    assert_ok(aw_journal_get(journal, 1, &entry, NULL));
    assert_string_equal(entry.workload, name);
    aw_journal_entry_deinit(&entry);
    aw_journal_close(journal);
}

AW_TEST_GROUP("journal")
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_was_put_is_got),
        TEST(the_newest_come_first),
        TEST(the_oldest_of_each_workload_are_forgotten),
        TEST(an_id_that_is_there_is_replaced),
        TEST(a_config_is_kept_once_and_not_for_ever),
        TEST(a_config_is_told_once_and_known_by_its_number),
        TEST(what_is_taken_back_was_never_there),
        TEST(a_reader_looks_on_beside_the_writer),
        TEST(nobody_else_may_read_it),
        TEST(what_is_no_journal_is_refused_and_left_alone),
        TEST(a_newer_one_is_refused),
        TEST(a_damaged_entry_is_an_error_and_not_a_crash),
        TEST(a_full_disk_is_an_error_and_no_damage),
        TEST(a_name_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
