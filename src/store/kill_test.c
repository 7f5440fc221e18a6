/*
 * kill_test.c - kill -9 at any moment: nothing that was acknowledged is lost, nothing is corrupt.
 *
 * A child writes and tells the parent through a pipe what the store has acknowledged; the parent
 * kills it at a random moment, opens the file and looks.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/conformance_testing.h"
#include "store/transfer.h"

#define KILLS       40u
#define WORKLOADS   7u
#define STEPS       20u /* of an episode */
#define IMPORT_ROWS 4000u

static char folder[64] = "/tmp/aware-kill-XXXXXX";
static char path[128];

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
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
    remove_files();
    return rmdir(folder);
}

/* Rows are numbered: tick after tick, one row of each workload a tick. */
static void make_numbered(struct sample_row *r, uint32_t number)
{
    uint32_t tick = number / WORKLOADS;
    char name[2] = {(char)('a' + number % WORKLOADS), '\0'};
    make_row(r, name, tick / STEPS, tick % STEPS);
    r->row.truncated = tick % STEPS == STEPS - 1;
}

struct job {
    uint32_t from; /* number of the first row to write */
    bool grouped;  /* a tick at a time */
    bool retains;
    const char *text; /* import this instead */
};

/* In the child, until it is killed. */
_Noreturn static void write_on(const struct job *job, int to_parent)
{
    struct aw_store store;
    uint64_t rows;
    if (aw_store_open(&store, path, NULL, NULL, NULL))
        _exit(2);
    if (job->text) {
        FILE *in = fmemopen((void *)(uintptr_t)job->text, strlen(job->text), "r");
        _exit(!in || aw_store_import(&store, AW_TRANSFER_JSONL, in, "in", NULL, &rows, NULL));
    }
    for (uint32_t number = job->from;; number++) {
        struct sample_row r;
        make_numbered(&r, number);
        bool first = number % WORKLOADS == 0, last = number % WORKLOADS == WORKLOADS - 1;
        if ((job->grouped && first && aw_store_begin(&store, NULL)) ||
            aw_store_append(&store, &r.row, NULL) ||
            (job->grouped && last && aw_store_commit(&store, NULL)))
            _exit(3);
        uint32_t sure = number + 1;
        if ((!job->grouped || last) && write(to_parent, &sure, sizeof sure) != sizeof sure)
            _exit(4);
        struct aw_store_retention retention = {.episodes_max = 3, .before_us = INT64_MIN};
        if (job->retains && last && number / WORKLOADS % STEPS == STEPS - 1 &&
            aw_store_retain(&store, &retention, NULL, NULL))
            _exit(5);
    }
}

/* Lets a child write for `us`, counted from the first acknowledged row where `works` is set, and
 * kills it; returns how many rows were acknowledged. */
static uint32_t write_and_kill(const struct job *job, bool works, uint32_t us)
{
    int pipes[2], status;
    uint32_t sure = job->from, read_back;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(pipes[0]);
        write_on(job, pipes[1]);
    }
    close(pipes[1]);
    if (works && read(pipes[0], &read_back, sizeof read_back) == (ssize_t)sizeof read_back)
        sure = read_back;
    nanosleep(&(struct timespec){.tv_nsec = us * 1000l}, NULL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) && !(job->text && WEXITSTATUS(status) == 0))
        fail_msg("the child ended by itself with %d", WEXITSTATUS(status));
    while (read(pipes[0], &read_back, sizeof read_back) == (ssize_t)sizeof read_back)
        sure = read_back;
    close(pipes[0]);
    return sure;
}

struct looking {
    uint32_t rows;
    uint32_t per_workload[WORKLOADS];
    uint32_t next[WORKLOADS]; /* tick that must follow; UINT32_MAX: any */
};

static enum aw_err look(void *ctx, const struct aw_store_row *row)
{
    struct looking *looking = ctx;
    struct sample_row r;
    uint32_t workload = (uint32_t)(row->workload[0] - 'a');
    uint32_t tick = row->episode * STEPS + row->step;
    make_numbered(&r, tick * WORKLOADS + workload);
    assert_true(aw__row_same(&r.row, row));
    assert_true(looking->next[workload] == UINT32_MAX || looking->next[workload] == tick);
    looking->next[workload] = tick + 1; /* no gaps */
    looking->per_workload[workload]++;
    looking->rows++;
    return AW_OK;
}

/* Opens what is left, checks it and returns the number of the next row to write. */
static uint32_t check_left(uint32_t sure, bool pruned)
{
    struct aw_store store;
    struct aw_diag diag = {0};
    struct looking looking = {0};
    uint32_t next = UINT32_MAX;
    if (aw_store_open(&store, path, NULL, NULL, &diag) || aw_store_check(&store, &diag))
        fail_msg("%s: %s", diag.file, diag.text);
    if (pruned)
        memset(looking.next, 0xff, sizeof looking.next);
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, look, &looking, NULL));
    for (uint32_t w = 0; w < WORKLOADS; w++) {
        uint32_t ticks = looking.next[w] == UINT32_MAX ? 0 : looking.next[w];
        uint32_t number = ticks * WORKLOADS + w; /* the first of this workload that is not kept */
        next = number < next ? number : next;
    }
    if (next < sure)
        fail_msg("row %u is lost, and %u were acknowledged", next, sure);
    aw_store_close(&store);
    return next;
}

static void kill_over_and_over(bool grouped, bool retains, uint64_t seed)
{
    struct aw_rng rng;
    uint32_t next = 0, in_flight_max = grouped ? WORKLOADS : 1, sure_total = 0;
    aw_rng_init(&rng, seed, 0);
    snprintf(path, sizeof path, "%s/%u.db", folder, (unsigned)seed);
    for (uint32_t i = 0; i < KILLS; i++) {
        struct job job = {.from = next, .grouped = grouped, .retains = retains};
        uint32_t sure = write_and_kill(&job, i % 4, aw_rng_below(&rng, i % 2 ? 20000 : 3000));
        next = check_left(sure, retains);
        /* at most the step (or the tick) in flight was written and not acknowledged */
        assert_in_range(next, sure, sure + in_flight_max);
        sure_total += sure - job.from;
    }
    assert_true(sure_total >= KILLS / 4 * 3); /* it did write */
    remove_files();
}

static void single_appends_survive(void **state)
{
    (void)state;
    kill_over_and_over(false, false, 1);
}

static void committed_ticks_survive(void **state)
{
    (void)state;
    kill_over_and_over(true, false, 2);
}

static void retention_drops_whole_episodes_or_none(void **state)
{
    (void)state;
    kill_over_and_over(true, true, 3);
}

static void a_file_whose_creator_was_killed_can_be_opened(void **state)
{
    struct aw_rng rng;
    (void)state;
    aw_rng_init(&rng, 4, 0);
    snprintf(path, sizeof path, "%s/new.db", folder);
    for (uint32_t i = 0; i < KILLS; i++) {
        struct job job = {.from = 0};
        uint32_t sure = write_and_kill(&job, false, 200 + aw_rng_below(&rng, 4000));
        check_left(sure, false);
        remove_files();
    }
}

static void a_killed_import_can_be_done_again(void **state)
{
    struct aw_store store;
    struct aw_rng rng;
    struct aw_store_counts counts;
    char *text = NULL;
    size_t len = 0;
    uint64_t rows;
    uint32_t partly = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/import.db", folder);
    aw_rng_init(&rng, 5, 0);
    assert_ok(aw_store_open(&store, "memory", NULL, NULL, NULL));
    for (uint32_t i = 0; i < IMPORT_ROWS; i++) {
        struct sample_row r;
        make_numbered(&r, i);
        assert_ok(aw_store_append(&store, &r.row, NULL));
    }
    FILE *out = open_memstream(&text, &len);
    assert_ok(aw_store_export(&store, &AW_STORE_EVERY, AW_TRANSFER_JSONL, out, NULL, &rows, NULL));
    fclose(out);
    aw_store_close(&store);
    for (uint32_t i = 0; i < KILLS / 4; i++) {
        write_and_kill(&(struct job){.text = text}, false, aw_rng_below(&rng, 250000));
        assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
        assert_ok(aw_store_check(&store, NULL));
        assert_ok(aw_store_counts(&store, NULL, &counts, NULL));
        assert_true(counts.rows % AW_TRANSFER_GROUP_ROWS == 0 && counts.rows <= IMPORT_ROWS);
        partly += counts.rows > 0 && counts.rows < IMPORT_ROWS;
        FILE *in = fmemopen(text, len, "r");
        assert_ok(aw_store_import(&store, AW_TRANSFER_JSONL, in, "in", NULL, &rows, NULL));
        fclose(in);
        assert_ok(aw_store_counts(&store, NULL, &counts, NULL));
        assert_int_equal(counts.rows, IMPORT_ROWS);
        assert_ok(aw_store_check(&store, NULL));
        aw_store_close(&store);
        remove_files();
    }
    print_message("# %u of %u imports were killed half-way\n", partly, KILLS / 4);
    free(text);
}

AW_TEST_GROUP("store-kill")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_appends_survive),
        cmocka_unit_test(committed_ticks_survive),
        cmocka_unit_test(retention_drops_whole_episodes_or_none),
        cmocka_unit_test(a_file_whose_creator_was_killed_can_be_opened),
        cmocka_unit_test(a_killed_import_can_be_done_again),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
