/* sqlite_test.c - whose file it is, what is made of an empty one, and what is said otherwise. */
#include "base/sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/testing.h"

static const struct aw_sqlite_kind kind = {
    .name = "a shelf of boxes",
    .application_id = 0x626f7865,
    .version = 2,
    .schema = "BEGIN IMMEDIATE; CREATE TABLE box(id INTEGER PRIMARY KEY) STRICT;"
              "PRAGMA application_id = 1651472485; PRAGMA user_version = 2; COMMIT;",
    .empty = AW_ERR_NODATA,
    .owner_only = true,
};

static char folder[] = "/tmp/aware-sqlite-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/boxes.db", folder);
    return 0;
}

static void wipe(void)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", path, tails[i]);
        unlink(name);
    }
}

static int remove_folder(void **state)
{
    (void)state;
    wipe();
    return rmdir(folder);
}

static void write_bytes(const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* As anybody could. */
static void execute(const char *statements)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_file_is_made_used_and_read_beside_its_writer(void **state)
{
    (void)state;
    wipe();
    static const char *const statements[] = {"INSERT INTO box DEFAULT VALUES",
                                             "SELECT count(*) FROM box"};
    sqlite3 *db = NULL, *reader = NULL;
    sqlite3_stmt *statement[2] = {0}, *count = NULL;
    struct stat st;
    bool empty = false;
    assert_ok(aw_sqlite_open(&db, path, false, &kind, "PRAGMA synchronous = NORMAL", &empty, NULL));
    assert_true(empty);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(aw_sqlite_prepare(db, path, statements, 2, statement, NULL));
    assert_int_equal(sqlite3_step(statement[0]), SQLITE_DONE);
    sqlite3_finalize(statement[0]);
    sqlite3_finalize(statement[1]);
    assert_ok(aw_sqlite_open(&reader, path, true, &kind, "PRAGMA nonsense(", &empty, NULL));
    assert_false(empty);
    assert_ok(aw_sqlite_prepare(reader, path, &statements[1], 1, &count, NULL));
    assert_int_equal(sqlite3_step(count), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(count, 0), 1);
    sqlite3_finalize(count);
    struct aw_diag diag = {0};
    assert_int_equal(aw_sqlite_run(reader, path, statements[0], "add a box", &diag),
                     AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "cannot add a box: open for reading only"));
    assert_string_equal(diag.file, path);
    sqlite3_close(reader);
    sqlite3_close(db);
}

static void what_is_another_file_is_refused_and_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *statements;
        bool read_only;
        enum aw_err err;
        const char *says, *why;
    } rows[] = {
        {NULL, NULL, true, AW_ERR_NOTFOUND, "cannot open", "nothing is there"},
        {"", NULL, true, AW_ERR_NODATA, "nothing was kept yet", "empty, to be read"},
        {"this is no database, however long its text may go on and on .....................", NULL,
         false, AW_ERR_FORMAT, "not an SQLite database", "a text"},
        {NULL, "CREATE TABLE cat(name)", false, AW_ERR_FORMAT, "but not a shelf of boxes",
         "somebody's own"},
        {NULL, "PRAGMA application_id = 1; CREATE TABLE cat(name)", true, AW_ERR_FORMAT,
         "but not a shelf of boxes", "another program's"},
        {NULL, "PRAGMA application_id = 1651472485; PRAGMA user_version = 3", false,
         AW_ERR_UNSUPPORTED, "format 3, this one reads 2", "from the future"},
        {NULL, "PRAGMA application_id = 1651472485; PRAGMA user_version = 1", false, AW_ERR_FORMAT,
         "format 1 is not known", "never was"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wipe();
        if (rows[i].bytes)
            write_bytes(rows[i].bytes, strlen(rows[i].bytes));
        if (rows[i].statements)
            execute(rows[i].statements);
        struct aw_diag diag = {0};
        struct stat before = {0}, after = {0};
        stat(path, &before);
        sqlite3 *db = NULL;
        const enum aw_err err =
            aw_sqlite_open(&db, path, rows[i].read_only, &kind, NULL, NULL, &diag);
        if (err != rows[i].err || !strstr(diag.text, rows[i].says))
            fail_msg("%s: %s: %s", rows[i].why, aw_err_name(err), diag.text);
        assert_null(db);
        stat(path, &after);
        assert_int_equal(before.st_size, after.st_size);
    }
}

static void a_file_that_is_locked_or_torn_says_so(void **state)
{
    (void)state;
    wipe();
    sqlite3 *db = NULL, *other = NULL;
    struct aw_diag diag = {0};
    assert_ok(aw_sqlite_open(&db, path, false, &kind, NULL, NULL, NULL));
    assert_ok(aw_sqlite_open(&other, path, false, &kind, NULL, NULL, NULL));
    sqlite3_busy_timeout(other, 1);
    assert_ok(aw_sqlite_run(db, path, "BEGIN IMMEDIATE", "begin", NULL));
    assert_int_equal(aw_sqlite_run(other, path, "BEGIN IMMEDIATE", "begin", &diag),
                     AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "in use by another process: cannot begin"));
    /* what fails half way takes its transaction with it */
    assert_int_equal(aw_sqlite_run(db, path,
                                   "INSERT INTO box VALUES (1); INSERT INTO cat VALUES (1)", "add",
                                   &diag),
                     AW_ERR_IO);
    assert_true(sqlite3_get_autocommit(db));
    assert_ok(aw_sqlite_run(other, path, "BEGIN IMMEDIATE; COMMIT", "begin", NULL));
    sqlite3_close(other);
    sqlite3_close(db);

    wipe();
    assert_ok(aw_sqlite_open(&db, path, false, &kind, NULL, NULL, NULL));
    sqlite3_close(db);
    FILE *file = fopen(path, "r+"); /* the page with the list of tables */
    assert_non_null(file);
    assert_int_equal(fseek(file, 100, SEEK_SET), 0);
    for (uint32_t i = 0; i < 200; i++)
        fputc(0xff, file);
    assert_int_equal(fclose(file), 0);
    db = NULL;
    assert_int_equal(aw_sqlite_open(&db, path, true, &kind, NULL, NULL, &diag), AW_ERR_FORMAT);
    assert_null(db);
}

AW_TEST_GROUP("sqlite")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_made_used_and_read_beside_its_writer),
        cmocka_unit_test(what_is_another_file_is_refused_and_left_alone),
        cmocka_unit_test(a_file_that_is_locked_or_torn_says_so),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
