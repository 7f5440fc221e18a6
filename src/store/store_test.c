/* store_test.c - the memory store and the SQLite store: the common suite, then what is theirs. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/conformance_testing.h"

static char folder[64] = "/tmp/aware-store-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static void remove_store(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-lock", "-journal"};
    for (uint32_t i = 0; i < 5; i++) {
        char name[600];
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

static char last_path[512];

static int remove_folder(void **state)
{
    (void)state;
    remove_store(last_path);
    return rmdir(folder); /* fails when something was left behind */
}

static void name_memory(struct backend *it)
{
    snprintf(it->url, sizeof it->url, "memory");
}

static void name_sqlite(struct backend *it)
{
    remove_store(last_path);
    snprintf(last_path, sizeof last_path, "%s/%u.db", folder, it->opened);
    snprintf(it->url, sizeof it->url, "%s", last_path);
}

static struct backend memory = {.name_next = name_memory};
static struct backend sqlite = {.lasts = true, .name_next = name_sqlite};

/* ---- memory ---- */

static void memory_never_allocates_after_open(void **state)
{
    struct aw_alloc_counting counting;
    struct aw_store store;
    struct aw_store_options options = {.rows_max = 50, .episodes_max = 8};
    (void)state;
    aw_alloc_counting_init(&counting);
    assert_ok(aw_store_open(&store, "memory", &options, &counting.alloc, NULL));
    for (uint32_t e = 0; e < 40; e++)
        append_episode(&store, e % 2 ? "a" : "b", e, 10, true);
    assert_int_equal(counting.alloc_count, 1);
    aw_store_close(&store);
    assert_int_equal(counting.free_count, 1);
    counting.fail_after = 0;
    assert_int_equal(aw_store_open(&store, "memory", NULL, &counting.alloc, NULL), AW_ERR_NOMEM);
    assert_null(store.ops);
}

static void a_full_memory_drops_the_oldest_whole_episode(void **state)
{
    struct aw_store store;
    struct aw_store_options options = {.rows_max = 10, .episodes_max = 4};
    struct counting counting;
    (void)state;
    assert_ok(aw_store_open(&store, "memory", &options, NULL, NULL));
    append_episode(&store, "a", 0, 4, true);
    append_episode(&store, "a", 1, 4, true);
    append_episode(&store, "a", 2, 4, true);
    counting = (struct counting){0};
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &counting, NULL));
    assert_true(counting.count == 8 && counting.first_episode == 1);
    append_episode(&store, "a", 3, 10, true); /* takes all there is, step by step */
    counting = (struct counting){0};
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &counting, NULL));
    assert_true(counting.count == 10 && counting.first_episode == 3);
    append_episode(&store, "a", 4, 1, true); /* overtaken, the full one is old */
    assert_ok(aw_store_check(&store, NULL));
    for (uint32_t e = 5; e < 9; e++)
        append_episode(&store, "b", e, 1, true); /* episodes run out before rows do */
    assert_ok(aw_store_check(&store, NULL));
    aw_store_close(&store);
}

static void a_memory_full_of_latest_episodes_refuses(void **state)
{
    struct aw_store store;
    struct aw_store_options options = {.rows_max = 4, .workloads_max = 2, .obs_dim_max = OBS};
    struct aw_store_counts counts;
    struct sample_row r;
    struct aw_diag diag;
    (void)state;
    assert_ok(aw_store_open(&store, "memory", &options, NULL, NULL));
    append_episode(&store, "a", 0, 2, true);
    append_episode(&store, "b", 0, 2, false);
    make_row(&r, "b", 0, 2);
    assert_int_equal(aw_store_append(&store, &r.row, &diag), AW_ERR_LIMIT);
    assert_non_null(strstr(diag.text, "full"));
    append_row(&store, "a", 1, 0, false); /* but a new episode makes the one before it old */
    assert_ok(aw_store_counts(&store, "a", &counts, NULL));
    assert_int_equal(counts.rows, 1);
    make_row(&r, "c", 0, 0);
    assert_int_equal(aw_store_append(&store, &r.row, &diag), AW_ERR_LIMIT);
    assert_non_null(strstr(diag.text, "2 workloads"));
    make_row(&r, "a", 1, 1);
    r.row.obs_dim = OBS + 1;
    r.row.obs = r.row.next_obs = (float[OBS + 1]){0};
    assert_int_equal(aw_store_append(&store, &r.row, &diag), AW_ERR_LIMIT);
    assert_ok(aw_store_check(&store, NULL));
    aw_store_close(&store);
}

/* ---- sqlite ---- */

static const char *path_of(const char *name)
{
    remove_store(last_path);
    snprintf(last_path, sizeof last_path, "%s/%s", folder, name);
    return last_path;
}

static void execute(const char *path, const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void write_bytes(const char *path, off_t at, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, at), len);
    close(fd);
}

static void a_second_writer_is_told_who_has_the_file(void **state)
{
    struct aw_store store, other;
    struct aw_diag diag = {0};
    struct aw_store_counts counts;
    char pid[32];
    const char *path = path_of("shared.db");
    (void)state;
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    append_row(&store, "a", 0, 0, false);
    assert_int_equal(aw_store_open(&other, path, NULL, NULL, &diag), AW_ERR_UNAVAILABLE);
    snprintf(pid, sizeof pid, "(%jd)", (intmax_t)getpid());
    assert_non_null(strstr(diag.text, "in use by another process"));
    assert_non_null(strstr(diag.text, pid));
    assert_string_equal(diag.file, path);
    /* a reader is welcome, sees what was written, and cannot write */
    assert_ok(
        aw_store_open(&other, path, &(struct aw_store_options){.read_only = true}, NULL, &diag));
    append_row(&store, "a", 0, 1, false);
    assert_ok(aw_store_counts(&other, NULL, &counts, NULL));
    assert_int_equal(counts.rows, 2);
    struct sample_row r;
    make_row(&r, "a", 0, 2);
    assert_int_equal(aw_store_append(&other, &r.row, &diag), AW_ERR_UNSUPPORTED);
    aw_store_close(&other);
    aw_store_close(&store);
    assert_ok(aw_store_open(&other, path, NULL, NULL, &diag));
    aw_store_close(&other);
    struct stat st;
    char lock[600];
    snprintf(lock, sizeof lock, "%s-lock", path);
    assert_int_equal(stat(lock, &st), -1); /* nothing is left lying about */
}

static void what_is_not_a_store_is_refused_by_name(void **state)
{
    struct aw_store store;
    struct aw_diag diag;
    struct aw_store_options reading = {.read_only = true};
    (void)state;
    const char *path = path_of("text.db");
    char text[4096];
    memset(text, 'x', sizeof text);
    write_bytes(path, 0, text, sizeof text);
    assert_int_equal(aw_store_open(&store, path, NULL, NULL, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "not an SQLite database"));
    assert_string_equal(diag.file, path);
    assert_null(store.ops);

    path = path_of("foreign.db");
    execute(path, "CREATE TABLE bookmarks(url)");
    assert_int_equal(aw_store_open(&store, path, NULL, NULL, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "not a store"));

    path = path_of("newer.db");
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    aw_store_close(&store);
    execute(path, "PRAGMA user_version = 2");
    assert_int_equal(aw_store_open(&store, path, NULL, NULL, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "format 2, this one reads 1"));

    path = path_of("missing.db");
    assert_int_equal(aw_store_open(&store, path, &reading, NULL, &diag), AW_ERR_NOTFOUND);
    assert_int_equal(aw_store_open(&store, "/nowhere/x.db", NULL, NULL, &diag), AW_ERR_NOTFOUND);
    assert_int_equal(aw_store_open(&store, "", NULL, NULL, &diag), AW_ERR_RANGE);
    assert_int_equal(aw_store_open(&store, "ftp://x/y", NULL, NULL, &diag), AW_ERR_UNSUPPORTED);
}

static void an_empty_file_becomes_a_store(void **state)
{
    struct aw_store store;
    const char *path = path_of("empty.db");
    (void)state;
    write_bytes(path, 0, "", 0);
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    append_row(&store, "a", 0, 0, false);
    aw_store_close(&store);
    /* and so does one whose creator died between its first and its second transaction */
    path = path_of("wal.db");
    execute(path, "PRAGMA journal_mode = WAL");
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    append_row(&store, "a", 0, 0, false);
    aw_store_close(&store);
}

static void damage_is_found_and_named(void **state)
{
    struct aw_store store;
    struct aw_diag diag = {0};
    char junk[3 * 4096];
    const char *path = path_of("damaged.db");
    (void)state;
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    for (uint32_t e = 0; e < 10; e++)
        append_episode(&store, "a", e, 20, true);
    assert_ok(aw_store_flush(&store, NULL));
    aw_store_close(&store);
    memset(junk, 0xa5, sizeof junk);
    write_bytes(path, 8 * 4096, junk, sizeof junk);
    enum aw_err err = aw_store_open(&store, path, NULL, NULL, &diag);
    if (!err) {
        err = aw_store_check(&store, &diag);
        aw_store_close(&store);
    }
    assert_int_equal(err, AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "damaged"));
    assert_string_equal(diag.file, path);
}

static void rows_that_lack_their_vectors_are_damage(void **state)
{
    struct aw_store store;
    struct aw_diag diag = {0};
    struct counting counting = {0};
    const char *path = path_of("short.db");
    (void)state;
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    append_episode(&store, "a", 0, 3, true);
    aw_store_close(&store);
    execute(path, "UPDATE step SET obs = x'0102' WHERE step = 1");
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    assert_int_equal(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &counting, &diag),
                     AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "episode 0, step 1"));
    assert_int_equal(counting.count, 1);
    aw_store_close(&store);
    execute(path, "DELETE FROM step WHERE step = 2");
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    assert_int_equal(aw_store_check(&store, &diag), AW_ERR_FORMAT);
    aw_store_close(&store);
}

/* Appends until it fails, then `*ret_sure` rows were acknowledged. */
static enum aw_err append_until_failure(struct aw_store *store, uint32_t from, bool grouped,
                                        uint32_t *ret_sure)
{
    enum aw_err err = AW_OK;
    *ret_sure = from;
    for (uint32_t i = from; !err && i < from + 100000; i++) {
        struct sample_row r;
        make_row(&r, "a", i / 100, i % 100);
        if (grouped && i % 100 == 0)
            err = aw_store_begin(store, NULL);
        err = err ? err : aw_store_append(store, &r.row, NULL);
        if (grouped && i % 100 == 99) {
            enum aw_err committed = aw_store_commit(store, NULL);
            err = err ? err : committed;
        }
        if (!err && (!grouped || i % 100 == 99))
            *ret_sure = i + 1;
    }
    if (store->grouped) /* what was lost is told again */
        assert_int_equal(aw_store_commit(store, NULL), AW_ERR_IO);
    return err;
}

static void a_full_disk_loses_nothing_that_was_acknowledged(void **state)
{
    struct rlimit old, low;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (uint32_t round = 0; round < 6; round++) {
        struct aw_store store;
        struct aw_store_counts counts;
        uint32_t sure = 0, seen = 0;
        const char *path = path_of("full.db");
        assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
        append_episode(&store, "a", 0, 100, false);
        low = old;
        low.rlim_cur = 200000 + round * 60000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        enum aw_err err = append_until_failure(&store, 100, round % 2, &sure);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(err, AW_ERR_IO);
        assert_true(sure > 100);
        /* there is room again: it goes on, with the same store and with a new one */
        append_row(&store, "b", 0, 0, false);
        aw_store_close(&store);
        assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
        assert_ok(aw_store_check(&store, NULL));
        assert_ok(aw_store_counts(&store, "a", &counts, NULL));
        assert_in_range(counts.rows, sure, sure + 100);
        assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, same_as_made, &seen, NULL));
        aw_store_close(&store);
    }
}

/* SQLite's own heap, a little more of it every time. */
static void a_heap_that_runs_out_is_told_and_damages_nothing(void **state)
{
    struct aw_store store;
    struct aw_store_counts counts;
    struct aw_diag diag = {0};
    enum aw_err err = AW_ERR_NOMEM;
    uint32_t sure = 0, failures = 0;
    const char *path = path_of("heap.db");
    (void)state;
    for (sqlite3_int64 limit = 10000; err && limit < 4000000; limit += 2000) {
        struct sample_row r;
        make_row(&r, "a", 0, sure);
        sqlite3_hard_heap_limit64(limit);
        err = aw_store_open(&store, path, NULL, NULL, &diag);
        if (!err && !(err = aw_store_append(&store, &r.row, &diag)))
            sure++;
        if (!err)
            err = aw_store_check(&store, &diag);
        aw_store_close(&store);
        sqlite3_hard_heap_limit64(0);
        if (err && err != AW_ERR_NOMEM)
            fail_msg("%s with %lld bytes: %s", aw_err_name(err), (long long)limit, diag.text);
        failures += err == AW_ERR_NOMEM;
    }
    assert_ok(err);
    assert_true(failures > 3);
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    assert_ok(aw_store_check(&store, NULL));
    assert_ok(aw_store_counts(&store, "a", &counts, NULL));
    assert_int_equal(counts.rows, sure);
    aw_store_close(&store);
}

/* As builds wrote it before resources were a table. */
#define OLD_STEP(step)                                                                          \
    "INSERT INTO step(workload, episode, step, at_us, stage, actor, model, obs, next_obs, "     \
    "action, shadow, reward, terminated, truncated, arrivals_per_s, latency_us_p99, "           \
    "slo_preservation, cpu_utilisation, memory_utilisation, cost, paper_reward, replicas, "     \
    "violated, cpu_millicores, memory_bytes) VALUES (1, 3, " #step ", 77, 1, 0, 9, "            \
    "x'0000803f', x'00000040', x'0000003f', NULL, 0.5, 0, 0, 12.5, NULL, 1.0, 0.5, 0.25, 0.1, " \
    "1.5, 4, 0, 500, 268435456);"
static const char old_file[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE workload(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE episode(workload INTEGER NOT NULL REFERENCES workload(id), "
    " episode INTEGER NOT NULL, steps INTEGER NOT NULL, reward_sum REAL NOT NULL, "
    " violations INTEGER NOT NULL, first_us INTEGER NOT NULL, last_us INTEGER NOT NULL, "
    " ended INTEGER NOT NULL, PRIMARY KEY(workload, episode)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE step(workload INTEGER NOT NULL REFERENCES workload(id), "
    " episode INTEGER NOT NULL, step INTEGER NOT NULL, at_us INTEGER NOT NULL, "
    " stage INTEGER NOT NULL, actor INTEGER NOT NULL, model INTEGER NOT NULL, "
    " obs BLOB NOT NULL, next_obs BLOB NOT NULL, action BLOB NOT NULL, shadow BLOB, "
    " reward REAL NOT NULL, terminated INTEGER NOT NULL, truncated INTEGER NOT NULL, "
    " arrivals_per_s REAL, latency_us_p99 REAL, slo_preservation REAL, cpu_utilisation REAL, "
    " memory_utilisation REAL, cost REAL, paper_reward REAL, replicas INTEGER NOT NULL, "
    " violated INTEGER NOT NULL, cpu_millicores INTEGER NOT NULL, memory_bytes INTEGER NOT NULL, "
    " UNIQUE(workload, episode, step)) STRICT;"
    "PRAGMA application_id = 1096242004; PRAGMA user_version = 1; COMMIT;"
    "INSERT INTO workload VALUES (1, 'web');"
    "INSERT INTO episode VALUES (1, 3, 1, 0.5, 0, 77, 77, 0);" OLD_STEP(0);

static enum aw_err expect_old(void *ctx, const struct aw_store_row *row)
{
    int64_t amount[AW_RESOURCES] = {4, 500, 268435456}; /* others: not known */
    assert_string_equal(row->workload, "web");
    assert_true(row->obs[0] == 1 && row->next_obs[0] == 2 && row->action[0] == 0.5f);
    assert_true(row->figures.cost == 0.1 && isnan(row->figures.latency_us_p99));
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES && row->step == 1; r++)
        amount[r] = 1000 + r;
    assert_memory_equal(row->figures.amount, amount, sizeof amount);
    ++*(uint32_t *)ctx;
    return AW_OK;
}

static void a_file_of_an_older_build_is_read_and_written_on(void **state)
{
    const struct aw_store_query all = AW_STORE_EVERY;
    const char *path = path_of("old.db");
    struct aw_store store;
    (void)state;
    execute(path, old_file);
    for (uint32_t pass = 0; pass < 3; pass++) { /* read; read and written; read again */
        uint32_t rows = 0;
        const struct aw_store_options options = {.read_only = pass != 1};
        assert_ok(aw_store_open(&store, path, &options, NULL, NULL));
        assert_ok(aw_store_check(&store, NULL));
        if (pass == 1) {
            struct aw_store_row row = {
                .workload = "web",
                .episode = 3,
                .step = 1,
                .at_us = 78,
                .policy_id = 9,
                .obs_dim = 1,
                .act_dim = 1,
                .obs = (float[]){1},
                .next_obs = (float[]){2},
                .action = (float[]){0.5f},
                .figures = {.cost = 0.1, .latency_us_p99 = NAN, .amount = {4, 500, 268435456}}};
            for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
                row.figures.amount[r] = 1000 + r;
            assert_ok(aw_store_append(&store, &row, NULL));
        }
        assert_ok(aw_store_scan(&store, &all, expect_old, &rows, NULL));
        assert_int_equal(rows, pass == 0 ? 1 : 2);
        aw_store_close(&store);
    }
    /* and the older build writes on */
    execute(path, OLD_STEP(2) "UPDATE episode SET steps = 3");
    uint32_t rows = 0;
    assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
    assert_ok(aw_store_check(&store, NULL));
    assert_ok(aw_store_scan(&store, &all, expect_old, &rows, NULL));
    assert_int_equal(rows, 3);
    aw_store_close(&store);
}

static void an_open_that_runs_out_of_memory_leaves_nothing(void **state)
{
    struct aw_alloc_counting counting;
    struct aw_store store;
    const char *path = path_of("alloc.db");
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    for (uint64_t budget = 0; err; budget++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        err = aw_store_open(&store, path, NULL, &counting.alloc, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        if (!err)
            append_row(&store, "a", 0, 0, false);
        aw_store_close(&store);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

static void stages_and_actors_have_names(void **state)
{
    (void)state;
    assert_string_equal(aw_stage_name(AW_STAGE_SERVING), "serving");
    assert_string_equal(aw_actor_name(AW_ACTOR_FALLBACK), "fallback");
    assert_null(aw_stage_name(AW_STAGE_COUNT));
    assert_null(aw_actor_name(AW_ACTOR_COUNT));
}

AW_TEST_GROUP("store")
{
    const struct CMUnitTest memory_tests[] = {
        AW_CONFORMANCE(&memory),
        cmocka_unit_test(memory_never_allocates_after_open),
        cmocka_unit_test(a_full_memory_drops_the_oldest_whole_episode),
        cmocka_unit_test(a_memory_full_of_latest_episodes_refuses),
        cmocka_unit_test(stages_and_actors_have_names),
    };
    const struct CMUnitTest sqlite_tests[] = {
        AW_CONFORMANCE(&sqlite),
        cmocka_unit_test(a_second_writer_is_told_who_has_the_file),
        cmocka_unit_test(what_is_not_a_store_is_refused_by_name),
        cmocka_unit_test(an_empty_file_becomes_a_store),
        cmocka_unit_test(damage_is_found_and_named),
        cmocka_unit_test(rows_that_lack_their_vectors_are_damage),
        cmocka_unit_test(a_file_of_an_older_build_is_read_and_written_on),
        cmocka_unit_test(an_open_that_runs_out_of_memory_leaves_nothing),
        cmocka_unit_test(a_full_disk_loses_nothing_that_was_acknowledged),
        cmocka_unit_test(a_heap_that_runs_out_is_told_and_damages_nothing),
    };
    int failed = cmocka_run_group_tests_name("memory", memory_tests, NULL, NULL);
    return failed + cmocka_run_group_tests_name("sqlite", sqlite_tests, make_folder, remove_folder);
}
