/* disk_test.c - both disks keep the contract; the simulated one loses what it may, and only that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk_sim.h"
#include "base/testing.h"

struct place {
    const struct aw_disk *disk;
    char folder[256];
};

static char temp[] = "/tmp/aware-disk-XXXXXX";
static struct aw_disk_sim shared_sim;
static struct place real_place, sim_place;

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(temp) || aw_disk_sim_init(&shared_sim, 1, NULL))
        return -1;
    real_place.disk = &aw_disk_posix;
    snprintf(real_place.folder, sizeof real_place.folder, "%s/a/b", temp);
    sim_place.disk = &shared_sim.disk;
    snprintf(sim_place.folder, sizeof sim_place.folder, "/sim/a");
    return 0;
}

static int tear_down(void **state)
{
    char path[300];
    (void)state;
    snprintf(path, sizeof path, "%s/a/b", temp);
    rmdir(path);
    snprintf(path, sizeof path, "%s/a", temp);
    rmdir(path);
    aw_disk_sim_deinit(&shared_sim);
    return rmdir(temp);
}

static const char *at(const struct place *p, const char *name)
{
    static char paths[2][300];
    static int turn;
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", p->folder, name);
    return paths[turn];
}

static enum aw_err count_name(void *ctx, const char *name)
{
    ++*(int *)ctx;
    assert_non_null(name);
    return AW_OK;
}

static int names_in(const struct place *p)
{
    int count = 0;
    assert_ok(p->disk->ops->list(p->disk->self, p->folder, count_name, &count, NULL));
    return count;
}

/* ---- what both do ---- */

static void files_are_written_read_cut_renamed_and_removed(void **state)
{
    const struct place *p = *state;
    const struct aw_disk_ops *ops = p->disk->ops;
    void *self = p->disk->self;
    char buf[32];
    size_t len = 99;
    uint64_t size = 99;
    int file = -1, other = -1;
    struct aw_diag diag = {0};
    assert_int_equal(ops->list(self, p->folder, count_name, NULL, &diag), AW_ERR_NOTFOUND);
    assert_ok(ops->make_folder(self, p->folder, &diag));
    assert_ok(ops->make_folder(self, p->folder, &diag));
    assert_int_equal(names_in(p), 0);
    assert_int_equal(ops->open(self, at(p, "x"), AW_DISK_READ, &file, &diag), AW_ERR_NOTFOUND);
    assert_int_equal(file, -1);
    assert_ok(ops->open(self, at(p, "x"), AW_DISK_CREATE, &file, &diag));
    assert_int_equal(ops->open(self, at(p, "x"), AW_DISK_CREATE, &other, &diag), AW_ERR_EXISTS);
    assert_int_equal(names_in(p), 1);

    assert_ok(ops->write(self, file, 0, "hello", 5, &diag));
    assert_ok(ops->write(self, file, 7, "world", 5, &diag));
    assert_ok(ops->size(self, file, &size, &diag));
    assert_int_equal(size, 12);
    assert_ok(ops->read(self, file, 2, buf, sizeof buf, &len, &diag));
    assert_int_equal(len, 10);
    assert_memory_equal(buf, "llo\0\0world", 10);
    assert_ok(ops->read(self, file, 12, buf, sizeof buf, &len, &diag));
    assert_int_equal(len, 0);
    assert_ok(ops->truncate(self, file, 3, &diag));
    assert_ok(ops->sync(self, file, &diag));
    assert_ok(ops->sync_folder(self, p->folder, &diag));
    assert_ok(ops->read(self, file, 0, buf, sizeof buf, &len, &diag));
    assert_int_equal(len, 3);

    assert_ok(ops->lock(self, file, &diag));
    assert_ok(ops->open(self, at(p, "x"), AW_DISK_WRITE, &other, &diag));
    assert_int_equal(ops->lock(self, other, &diag), AW_ERR_UNAVAILABLE);
    ops->close(self, file);
    assert_ok(ops->lock(self, other, &diag));
    ops->close(self, other);
    ops->close(self, -1);

    assert_ok(ops->open(self, at(p, "y"), AW_DISK_WRITE, &file, &diag));
    ops->close(self, file);
    assert_ok(ops->rename(self, at(p, "x"), at(p, "y"), &diag));
    assert_int_equal(names_in(p), 1);
    assert_ok(ops->open(self, at(p, "y"), AW_DISK_READ, &file, &diag));
    assert_ok(ops->size(self, file, &size, &diag));
    assert_int_equal(size, 3);
    ops->close(self, file);
    assert_ok(ops->unlink(self, at(p, "y"), &diag));
    assert_int_equal(ops->unlink(self, at(p, "y"), &diag), AW_ERR_NOTFOUND);
    assert_int_equal(ops->rename(self, at(p, "y"), at(p, "z"), &diag), AW_ERR_NOTFOUND);
    assert_int_equal(names_in(p), 0);
    assert_ok(ops->sync_folder(self, p->folder, &diag));
}

static void no_slot_of_a_disk_is_null(void **state)
{
    const struct place *p = *state;
    const char *const *slots = (const char *const *)(const void *)p->disk->ops;
    for (size_t i = 0; i < sizeof *p->disk->ops / sizeof *slots; i++)
        assert_non_null(slots[i]);
}

static void real_files_are_for_their_owner_alone(void **state)
{
    struct stat st;
    int file = -1;
    (void)state;
    assert_ok(aw_disk_posix.ops->open(NULL, at(&real_place, "z"), AW_DISK_CREATE, &file, NULL));
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    aw_disk_posix.ops->close(NULL, file);
    assert_int_equal(stat(real_place.folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_ok(aw_disk_posix.ops->unlink(NULL, at(&real_place, "z"), NULL));
}

/* ---- the simulated one ---- */

static int make(struct aw_disk_sim *sim, const char *path)
{
    int file = -1;
    assert_ok(sim->disk.ops->make_folder(sim, "/d", NULL));
    assert_ok(sim->disk.ops->open(sim, path, AW_DISK_WRITE, &file, NULL));
    return file;
}

static void put(struct aw_disk_sim *sim, int file, uint64_t offset, const char *text)
{
    assert_ok(sim->disk.ops->write(sim, file, offset, text, strlen(text), NULL));
}

static void what_was_synced_survives_every_cut_and_the_rest_does_not_always(void **state)
{
    uint32_t whole = 0, gone = 0, partly = 0, with_name = 0;
    char long_text[4000];
    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct aw_disk_sim sim;
        size_t len = 0;
        assert_ok(aw_disk_sim_init(&sim, seed, NULL));
        int kept = make(&sim, "/d/kept");
        put(&sim, kept, 0, "kept");
        assert_ok(sim.disk.ops->sync(&sim, kept, NULL));
        assert_ok(sim.disk.ops->sync_folder(&sim, "/d", NULL));
        put(&sim, kept, 4, long_text);
        int new_file = make(&sim, "/d/new"); /* synced, but its name is not */
        put(&sim, new_file, 0, "new");
        assert_ok(sim.disk.ops->sync(&sim, new_file, NULL));
        aw_disk_sim_power_cut(&sim, seed);
        const char *bytes = aw_disk_sim_get(&sim, "/d/kept", &len);
        assert_non_null(bytes);
        assert_true(len >= 4 && !memcmp(bytes, "kept", 4));
        for (size_t i = 4; i < len; i++)
            assert_true(bytes[i] == 'x' || bytes[i] == 0);
        bool is_whole = len == 4 + strlen(long_text) && !memcmp(bytes + 4, long_text, len - 4);
        whole += is_whole;
        gone += len == 4;
        partly += !is_whole && len > 4;
        bytes = aw_disk_sim_get(&sim, "/d/new", &len);
        with_name += bytes != NULL;
        assert_true(!bytes || (len == 3 && !memcmp(bytes, "new", 3)));
        /* files that were open are not any more */
        assert_int_equal(sim.disk.ops->write(&sim, kept, 0, "x", 1, NULL), AW_ERR_IO);
        aw_disk_sim_deinit(&sim);
    }
    assert_true(whole > 10 && gone > 10 && partly > 10);
    assert_in_range(with_name, 20, 180);
}

static void a_rename_that_was_not_synced_may_be_undone_but_never_half(void **state)
{
    uint32_t done = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct aw_disk_sim sim;
        size_t len = 0;
        assert_ok(aw_disk_sim_init(&sim, seed, NULL));
        assert_ok(aw_disk_sim_put(&sim, "/d/old", "old", 3));
        assert_ok(aw_disk_sim_put(&sim, "/d/new", "fresh", 5));
        assert_ok(sim.disk.ops->rename(&sim, "/d/new", "/d/old", NULL));
        aw_disk_sim_power_cut(&sim, seed);
        const char *old = aw_disk_sim_get(&sim, "/d/old", &len);
        assert_non_null(old);
        if (len == 5) {
            done++;
            assert_null(aw_disk_sim_get(&sim, "/d/new", &len));
        } else {
            assert_memory_equal(old, "old", 3);
            assert_non_null(aw_disk_sim_get(&sim, "/d/new", &len));
        }
        aw_disk_sim_deinit(&sim);
    }
    assert_in_range(done, 10, 90);
}

static void a_disk_takes_what_fits_and_takes_more_when_there_is_space(void **state)
{
    struct aw_disk_sim sim;
    uint64_t size = 0;
    struct aw_diag diag = {0};
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    int file = make(&sim, "/d/x");
    sim.faults.space_bytes = 6;
    put(&sim, file, 0, "1234");
    assert_int_equal(sim.disk.ops->write(&sim, file, 4, "5678", 4, &diag), AW_ERR_IO);
    assert_string_equal(diag.text, "cannot write: No space left on device");
    assert_ok(sim.disk.ops->size(&sim, file, &size, NULL));
    assert_int_equal(size, 6);
    put(&sim, file, 0, "abcd"); /* over what is there */
    assert_ok(sim.disk.ops->truncate(&sim, file, 2, NULL));
    put(&sim, file, 2, "cdef");
    sim.faults.read_only = true;
    assert_int_equal(sim.disk.ops->write(&sim, file, 0, "x", 1, &diag), AW_ERR_IO);
    assert_int_equal(sim.disk.ops->unlink(&sim, "/d/x", &diag), AW_ERR_IO);
    aw_disk_sim_deinit(&sim);
}

static void reserved_blocks_are_written_on_a_full_disk(void **state)
{
    struct aw_disk_sim sim;
    struct aw_diag diag = {0};
    uint64_t size = 0;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    int file = make(&sim, "/d/x"), other = make(&sim, "/d/y");
    sim.faults.space_bytes = 8;
    assert_int_equal(sim.disk.ops->reserve(&sim, file, 9, &diag), AW_ERR_IO);
    assert_ok(sim.disk.ops->reserve(&sim, file, 6, NULL));
    assert_ok(sim.disk.ops->size(&sim, file, &size, NULL));
    assert_int_equal(size, 0);
    assert_int_equal(sim.disk.ops->write(&sim, other, 0, "123", 3, NULL), AW_ERR_IO);
    put(&sim, file, 0, "123456");
    assert_int_equal(sim.disk.ops->write(&sim, file, 6, "7", 1, NULL), AW_ERR_IO);
    aw_disk_sim_deinit(&sim);
}

/* Not every file system can; where it can, the size stays. */
static void a_real_file_keeps_its_size_when_blocks_are_reserved(void **state)
{
    const struct aw_disk_ops *ops = aw_disk_posix.ops;
    char path[300];
    struct stat st;
    int file = -1;
    (void)state;
    snprintf(path, sizeof path, "%s/reserved", temp);
    assert_ok(ops->open(NULL, path, AW_DISK_WRITE, &file, NULL));
    const enum aw_err err = ops->reserve(NULL, file, 1u << 16, NULL);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    if (err)
        assert_int_equal(err, AW_ERR_UNAVAILABLE);
    else
        assert_true(st.st_blocks * 512 >= 1 << 16);
    ops->close(NULL, file);
    assert_ok(ops->unlink(NULL, path, NULL));
}

static void a_failed_sync_forgets_what_it_did_not_write(void **state)
{
    uint32_t lost = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct aw_disk_sim sim;
        size_t len = 0;
        assert_ok(aw_disk_sim_init(&sim, seed, NULL));
        int file = make(&sim, "/d/x");
        assert_ok(sim.disk.ops->sync_folder(&sim, "/d", NULL));
        put(&sim, file, 0, "data");
        sim.faults.fail_at = sim.call_count + 1;
        assert_int_equal(sim.disk.ops->sync(&sim, file, NULL), AW_ERR_IO);
        assert_ok(sim.disk.ops->sync(&sim, file, NULL)); /* a promise about nothing */
        assert_memory_equal(aw_disk_sim_get(&sim, "/d/x", &len), "data", 4);
        aw_disk_sim_power_cut(&sim, seed);
        const char *bytes = aw_disk_sim_get(&sim, "/d/x", &len);
        lost += len != 4 || memcmp(bytes, "data", 4) != 0;
        aw_disk_sim_deinit(&sim);
    }
    assert_in_range(lost, 10, 49);
}

static void after_the_power_went_nothing_answers_until_it_is_back(void **state)
{
    struct aw_disk_sim sim, copy;
    struct aw_clock_virtual clock;
    int other = -1;
    size_t len = 0;
    (void)state;
    aw_clock_virtual_init(&clock, 0);
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    sim.faults.clock = &clock;
    sim.faults.slow_us = 1000;
    int file = make(&sim, "/d/x");
    assert_int_equal(clock.wall_us, 2000);
    assert_ok(sim.disk.ops->sync_folder(&sim, "/d", NULL));
    put(&sim, file, 0, "one");
    assert_ok(sim.disk.ops->sync(&sim, file, NULL));
    sim.faults.cut_at = sim.change_count + 1;
    assert_int_equal(sim.disk.ops->write(&sim, file, 3, "two", 3, NULL), AW_ERR_IO);
    assert_true(sim.power_off);
    assert_int_equal(sim.disk.ops->sync(&sim, file, NULL), AW_ERR_IO);
    assert_int_equal(sim.disk.ops->open(&sim, "/d/x", AW_DISK_READ, &other, NULL), AW_ERR_IO);
    assert_ok(aw_disk_sim_copy(&copy, &sim));
    aw_disk_sim_power_cut(&sim, 7);
    aw_disk_sim_power_cut(&copy, 7);
    const char *bytes = aw_disk_sim_get(&sim, "/d/x", &len);
    size_t copy_len = 0;
    const char *copied = aw_disk_sim_get(&copy, "/d/x", &copy_len);
    assert_int_equal(len, copy_len); /* the same seed, the same bytes */
    assert_memory_equal(bytes, copied, len);
    assert_ok(sim.disk.ops->open(&sim, "/d/x", AW_DISK_READ, &other, NULL));
    aw_disk_sim_deinit(&sim);
    aw_disk_sim_deinit(&copy);
}

static void killing_the_process_keeps_the_cache(void **state)
{
    struct aw_disk_sim sim;
    int again = -1;
    size_t len = 0;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    int file = make(&sim, "/d/x");
    assert_ok(sim.disk.ops->lock(&sim, file, NULL));
    put(&sim, file, 0, "one");
    aw_disk_sim_kill(&sim);
    assert_memory_equal(aw_disk_sim_get(&sim, "/d/x", &len), "one", 3);
    assert_ok(sim.disk.ops->open(&sim, "/d/x", AW_DISK_WRITE, &again, NULL));
    assert_ok(sim.disk.ops->lock(&sim, again, NULL));
    aw_disk_sim_deinit(&sim);
}

static void every_failed_allocation_is_told_and_leaks_nothing(void **state)
{
    struct aw_alloc_counting counting;
    bool done = false;
    (void)state;
    for (uint64_t n = 0; !done; n++) {
        struct aw_disk_sim sim, copy = {.state = NULL};
        int file = -1;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        if (!aw_disk_sim_init(&sim, 1, &counting.alloc)) {
            const struct aw_disk_ops *ops = sim.disk.ops;
            done = !ops->make_folder(&sim, "/d", NULL) &&
                   !ops->open(&sim, "/d/x", AW_DISK_WRITE, &file, NULL) &&
                   !ops->write(&sim, file, 0, "abc", 3, NULL) &&
                   !ops->truncate(&sim, file, 100, NULL) && !ops->sync(&sim, file, NULL) &&
                   !ops->rename(&sim, "/d/x", "/d/y", NULL) &&
                   !ops->sync_folder(&sim, "/d", NULL) &&
                   !ops->write(&sim, file, 0, "abc", 3, NULL) && !aw_disk_sim_copy(&copy, &sim);
        }
        aw_disk_sim_deinit(&copy);
        aw_disk_sim_deinit(&sim);
        assert_int_equal(counting.alloc_count, counting.free_count);
        assert_true(n < 100);
    }
}

AW_TEST_GROUP("disk")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(files_are_written_read_cut_renamed_and_removed, &real_place),
        cmocka_unit_test_prestate(files_are_written_read_cut_renamed_and_removed, &sim_place),
        cmocka_unit_test_prestate(no_slot_of_a_disk_is_null, &real_place),
        cmocka_unit_test_prestate(no_slot_of_a_disk_is_null, &sim_place),
        cmocka_unit_test(real_files_are_for_their_owner_alone),
        cmocka_unit_test(what_was_synced_survives_every_cut_and_the_rest_does_not_always),
        cmocka_unit_test(a_rename_that_was_not_synced_may_be_undone_but_never_half),
        cmocka_unit_test(a_disk_takes_what_fits_and_takes_more_when_there_is_space),
        cmocka_unit_test(reserved_blocks_are_written_on_a_full_disk),
        cmocka_unit_test(a_real_file_keeps_its_size_when_blocks_are_reserved),
        cmocka_unit_test(a_failed_sync_forgets_what_it_did_not_write),
        cmocka_unit_test(after_the_power_went_nothing_answers_until_it_is_back),
        cmocka_unit_test(killing_the_process_keeps_the_cache),
        cmocka_unit_test(every_failed_allocation_is_told_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
