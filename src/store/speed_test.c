/*
 * speed_test.c - appends, samples and scans per second, for docs/mechanisms/store.md; the floors
 * are far below what any machine should reach, so that only a blunder fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/conformance_testing.h"

#define WIDE      20u /* observed numbers, as the autoscaling task has them */
#define WORKLOADS 100u
#define STEPS     100u /* of an episode */
#define BATCH     64u

static char folder[64] = "/tmp/aware-speed-XXXXXX";
static char path[128];

static int make_folder(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/speed.db", mkdtemp(folder) ? folder : "");
    return path[0] == '/' ? 0 : -1;
}

static void remove_files(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-lock"};
    for (uint32_t i = 0; i < 4; i++) {
        char name[160];
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

struct pace {
    const char *what, *url;
    bool power_safe;
    uint32_t group; /* rows of one transaction; 0: each its own */
    uint32_t rows;
    double floor_per_s;
};

static void append_many(struct aw_store *store, const struct pace *pace)
{
    static char names[WORKLOADS][16];
    struct sample_row r;
    float obs[WIDE] = {0};
    make_row(&r, "x", 0, 0);
    r.row.obs = r.row.next_obs = obs;
    r.row.obs_dim = WIDE;
    for (uint32_t i = 0; i < WORKLOADS; i++)
        snprintf(names[i], sizeof names[i], "shop/app-%u", i);
    for (uint32_t i = 0; i < pace->rows; i++) {
        uint32_t tick = i / WORKLOADS;
        r.row.workload = names[i % WORKLOADS];
        r.row.episode = tick / STEPS;
        r.row.step = tick % STEPS;
        r.row.truncated = r.row.step == STEPS - 1;
        obs[0] = (float)i;
        if (pace->group && i % pace->group == 0)
            assert_ok(aw_store_begin(store, NULL));
        assert_ok(aw_store_append(store, &r.row, NULL));
        if (pace->group && i % pace->group == pace->group - 1)
            assert_ok(aw_store_commit(store, NULL));
    }
}

/* Time as the clock on the wall has it, and as this process was given it. */
struct stopwatch {
    int64_t wall_us, cpu_us;
};

static struct stopwatch now(void)
{
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct stopwatch){aw_clock_monotonic_us(NULL),
                              cpu.tv_sec * 1000000 + cpu.tv_nsec / 1000};
}

static void report(const struct pace *pace, const char *what, double count, struct stopwatch start)
{
    struct stopwatch end = now();
    double us = (double)(end.wall_us - start.wall_us) / count;
    print_message("# %-38s %-8s %8.2f us each, %6.2f us of them CPU\n", pace->what, what, us,
                  (double)(end.cpu_us - start.cpu_us) / count);
    assert_true(1e6 / us >= pace->floor_per_s);
}

static void a_tick_of_many_workloads_is_kept_in_time(void **state)
{
    static const struct pace paces[] = {
        {"memory", "memory", false, 0, 200000, 50000},
        {"sqlite, each row its own", path, false, 0, 20000, 100},
        {"sqlite, 100 rows a transaction", path, false, 100, 200000, 1000},
        {"sqlite, power-safe, each its own", path, true, 0, 1000, 5},
        {"sqlite, power-safe, 100 a transaction", path, true, 100, 50000, 100},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof paces / sizeof *paces; i++) {
        const struct pace *pace = &paces[i];
        struct aw_store store;
        struct aw_store_options options = {.power_safe = pace->power_safe,
                                           .rows_max = 200000,
                                           .episodes_max = 4096,
                                           .workloads_max = WORKLOADS};
        float obs[BATCH][WIDE];
        struct aw_store_batch batch = {.obs_dim = WIDE, .act_dim = ACT, .obs = &obs[0][0]};
        struct aw_rng rng;
        struct counting counting = {0};
        aw_rng_init(&rng, 1, 0);
        assert_ok(aw_store_open(&store, pace->url, &options, NULL, NULL));
        struct stopwatch start = now();
        append_many(&store, pace);
        report(pace, "append", pace->rows, start);
        start = now();
        for (uint32_t k = 0; k < 100; k++)
            assert_ok(aw_store_sample(&store, "shop/app-7", BATCH, &rng, &batch, NULL));
        report(pace, "sample", 100.0 * BATCH, start);
        start = now();
        assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, count_row, &counting, NULL));
        report(pace, "scan", pace->rows, start);
        assert_int_equal(counting.count, pace->rows);
        aw_store_close(&store);
        remove_files();
    }
}

AW_TEST_GROUP("store-speed")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tick_of_many_workloads_is_kept_in_time),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
