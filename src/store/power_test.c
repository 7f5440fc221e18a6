/*
 * power_test.c - the power goes at any step: what the SQLite store promises of it.
 *
 * SQLite runs on a file system of ours (https://www.sqlite.org/vfs.html) over the simulated disk of
 * base/disk_sim.h: writes wait in a cache until they are synced, and of what waits any part may be
 * on the disk after a cut. The same run is made over and over, and each time the power goes one
 * step later. With power_safe every acknowledged row is there afterwards; without it some of the
 * newest may be gone, and nothing else; the file is intact in both cases.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/disk_sim.h"
#include "store/conformance_testing.h"

#define WORKLOADS   3u
#define STEPS       4u /* of an episode */
#define TICKS       14u
#define KEPT        2u /* episodes, where there is retention */
#define SHM_REGIONS 8u
#define SHM_BYTES   32768
#define VFS_NAME    "aware-power"
#define SEEDS       3u

/* ---- the file system ---- */

static struct aw_disk_sim *disk; /* that is in the drive */
static char folder[64] = "/tmp/aware-power-XXXXXX";
static char path[128];

struct file {
    sqlite3_file base;
    int id;
    bool sync_name; /* with its next sync its folder is synced too, as the file system of Unix does
                     */
    void *shm[SHM_REGIONS]; /* one process has the file: its memory is shared with nobody */
};

static int file_close(sqlite3_file *base)
{
    struct file *f = (struct file *)(void *)base;
    disk->disk.ops->close(disk, f->id);
    return SQLITE_OK;
}

static int file_read(sqlite3_file *base, void *buf, int amount, sqlite3_int64 offset)
{
    const struct file *f = (struct file *)(void *)base;
    size_t len = 0;
    if (disk->disk.ops->read(disk, f->id, (uint64_t)offset, buf, (size_t)amount, &len, NULL))
        return SQLITE_IOERR_READ;
    if (len == (size_t)amount)
        return SQLITE_OK;
    memset((char *)buf + len, 0, (size_t)amount - len);
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *base, const void *bytes, int amount, sqlite3_int64 offset)
{
    const struct file *f = (struct file *)(void *)base;
    return disk->disk.ops->write(disk, f->id, (uint64_t)offset, bytes, (size_t)amount, NULL)
               ? SQLITE_IOERR_WRITE
               : SQLITE_OK;
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    const struct file *f = (struct file *)(void *)base;
    return disk->disk.ops->truncate(disk, f->id, (uint64_t)size, NULL) ? SQLITE_IOERR_TRUNCATE
                                                                       : SQLITE_OK;
}

static int file_sync(sqlite3_file *base, int flags)
{
    struct file *f = (struct file *)(void *)base;
    (void)flags;
    if (disk->disk.ops->sync(disk, f->id, NULL) ||
        (f->sync_name && disk->disk.ops->sync_folder(disk, folder, NULL)))
        return SQLITE_IOERR_FSYNC;
    f->sync_name = false;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *ret)
{
    const struct file *f = (struct file *)(void *)base;
    uint64_t size = 0;
    if (disk->disk.ops->size(disk, f->id, &size, NULL))
        return SQLITE_IOERR_FSTAT;
    *ret = (sqlite3_int64)size;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *base, int level)
{
    (void)base, (void)level;
    return SQLITE_OK;
}

static int file_reserved(sqlite3_file *base, int *ret)
{
    (void)base;
    *ret = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *base, int op, void *arg)
{
    (void)base, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *base)
{
    (void)base;
    return AW_DISK_SIM_SECTOR;
}

static int file_traits(sqlite3_file *base)
{
    (void)base;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE; /* what the one of Unix takes for granted too */
}

static int shm_map(sqlite3_file *base, int region, int bytes, int extend, void volatile **ret)
{
    struct file *f = (struct file *)(void *)base;
    *ret = NULL;
    if ((uint32_t)region >= SHM_REGIONS || bytes != SHM_BYTES)
        return SQLITE_IOERR_SHMMAP;
    if (!f->shm[region] && extend && !(f->shm[region] = calloc(1, SHM_BYTES)))
        return SQLITE_NOMEM;
    *ret = f->shm[region];
    return SQLITE_OK;
}

static int shm_lock(sqlite3_file *base, int offset, int n, int flags)
{
    (void)base, (void)offset, (void)n, (void)flags;
    return SQLITE_OK;
}

static void shm_barrier(sqlite3_file *base)
{
    (void)base;
}

static int shm_unmap(sqlite3_file *base, int deletes)
{
    struct file *f = (struct file *)(void *)base;
    (void)deletes;
    for (uint32_t i = 0; i < SHM_REGIONS; i++) {
        free(f->shm[i]);
        f->shm[i] = NULL;
    }
    return SQLITE_OK;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_lock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

static bool exists(const char *name)
{
    size_t len;
    return aw_disk_sim_get(disk, name, &len);
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *ret)
{
    const int logs = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;
    struct file *f = (struct file *)(void *)base;
    (void)vfs;
    *f = (struct file){.id = -1};
    if (!name) /* a temporary file: nothing here is large enough to need one */
        return SQLITE_CANTOPEN;
    bool creates = !exists(name);
    if (creates && !(flags & SQLITE_OPEN_CREATE))
        return SQLITE_CANTOPEN;
    if (disk->disk.ops->open(disk, name, AW_DISK_WRITE, &f->id, NULL))
        return SQLITE_CANTOPEN;
    f->sync_name = creates && (flags & logs);
    f->base.pMethods = &file_methods;
    if (ret)
        *ret = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_name)
{
    (void)vfs;
    if (!exists(name))
        return SQLITE_IOERR_DELETE_NOENT;
    if (disk->disk.ops->unlink(disk, name, NULL))
        return SQLITE_IOERR_DELETE;
    return sync_name && disk->disk.ops->sync_folder(disk, folder, NULL) ? SQLITE_IOERR_DIR_FSYNC
                                                                        : SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    (void)vfs, (void)flags;
    *ret = exists(name);
    return SQLITE_OK;
}

static int vfs_full(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
    (void)vfs;
    return snprintf(ret, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int vfs_chance(sqlite3_vfs *vfs, int count, char *ret)
{
    (void)vfs;
    static struct aw_rng rng = {{1, 2, 3, 4}}; /* SQLite seeds a generator of its own with it */
    for (int i = 0; i < count; i++)
        ret[i] = (char)aw_rng_below(&rng, 256);
    return count;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us;
}

static int vfs_time(sqlite3_vfs *vfs, double *ret)
{
    (void)vfs;
    *ret = 2460000.5;
    return SQLITE_OK;
}

static int vfs_error(sqlite3_vfs *vfs, int size, char *ret)
{
    (void)vfs, (void)size, (void)ret;
    return 0;
}

static sqlite3_vfs vfs = {
    .iVersion = 1,
    .szOsFile = sizeof(struct file),
    .mxPathname = 512,
    .zName = VFS_NAME,
    .xOpen = vfs_open,
    .xDelete = vfs_delete,
    .xAccess = vfs_access,
    .xFullPathname = vfs_full,
    .xRandomness = vfs_chance,
    .xSleep = vfs_sleep,
    .xCurrentTime = vfs_time,
    .xGetLastError = vfs_error,
};

/* The folder is a real one as well: the lock beside the store is not SQLite's. */
static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
        return -1;
    snprintf(path, sizeof path, "%s/store.db", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sqlite3_vfs_unregister(&vfs);
    return rmdir(folder);
}

/* ---- the run ---- */

struct plan {
    bool power_safe, retains;
};

struct promised {
    uint32_t tick_count;    /* committed, and acknowledged */
    uint32_t flushed_count; /* of them when the last flush was acknowledged */
};

static void make_tick_row(struct sample_row *r, uint32_t tick, uint32_t workload)
{
    const char name[2] = {(char)('a' + workload), '\0'};
    make_row(r, name, tick / STEPS, tick % STEPS);
    r->row.truncated = tick % STEPS == STEPS - 1;
}

static enum aw_err write_tick(struct aw_store *store, uint32_t tick)
{
    struct sample_row r;
    enum aw_err err = aw_store_begin(store, NULL);
    if (err)
        return err;
    for (uint32_t w = 0; w < WORKLOADS; w++) {
        make_tick_row(&r, tick, w);
        enum aw_err appended = aw_store_append(store, &r.row, NULL);
        err = err ? err : appended;
    }
    enum aw_err committed = aw_store_commit(store, NULL);
    return err ? err : committed;
}

/* Ticks, with a flush, retention and a restart now and then, until the power is gone. */
static void run(const struct plan *plan, struct promised *promised)
{
    const struct aw_store_options options = {.power_safe = plan->power_safe};
    const struct aw_store_retention retention = {.episodes_max = KEPT, .before_us = INT64_MIN};
    struct aw_store store = {0};
    *promised = (struct promised){0};
    if (aw_store_open(&store, path, &options, NULL, NULL))
        return;
    for (uint32_t tick = 0; tick < TICKS && !disk->power_off; tick++) {
        if (write_tick(&store, tick))
            break;
        promised->tick_count = tick + 1;
        if (tick % 5 == 3 && aw_store_flush(&store, NULL) == AW_OK)
            promised->flushed_count = tick + 1;
        if (plan->retains && tick % STEPS == STEPS - 1 &&
            aw_store_retain(&store, &retention, NULL, NULL))
            break;
        if (tick == 9) {
            aw_store_close(&store);
            if (aw_store_open(&store, path, &options, NULL, NULL))
                return;
        }
    }
    aw_store_close(&store);
}

struct looking {
    uint32_t next[WORKLOADS]; /* tick that must follow; UINT32_MAX: any */
};

static enum aw_err look(void *ctx, const struct aw_store_row *row)
{
    struct looking *looking = ctx;
    struct sample_row r;
    uint32_t w = (uint32_t)(row->workload[0] - 'a'), tick = row->episode * STEPS + row->step;
    assert_true(w < WORKLOADS);
    make_tick_row(&r, tick, w);
    assert_true(aw__row_same(&r.row, row));
    assert_true(looking->next[w] == UINT32_MAX || looking->next[w] == tick); /* no gaps */
    looking->next[w] = tick + 1;
    return AW_OK;
}

/* Opens what is left, checks it against what was promised, and goes on. */
static void check_left(const struct plan *plan, const struct promised *promised)
{
    const struct aw_store_options options = {.power_safe = plan->power_safe};
    struct aw_store store;
    struct aw_diag diag = {0};
    struct looking looking = {0};
    uint32_t sure = plan->power_safe ? promised->tick_count : promised->flushed_count;
    if (aw_store_open(&store, path, &options, NULL, &diag) || aw_store_check(&store, &diag))
        fail_msg("%s: %s", diag.file, diag.text);
    if (plan->retains) /* the first that is kept is the beginning of any episode */
        memset(looking.next, 0xff, sizeof looking.next);
    assert_ok(aw_store_scan(&store, &AW_STORE_EVERY, look, &looking, NULL));
    uint32_t ticks = looking.next[0] == UINT32_MAX ? 0 : looking.next[0];
    for (uint32_t w = 1; w < WORKLOADS; w++) /* a tick is there or it is not */
        assert_int_equal(looking.next[w], looking.next[0]);
    if (ticks < sure)
        fail_msg("ticks after %u are lost, %u were promised", ticks, sure);
    assert_true(ticks <= promised->tick_count + 1); /* and at most the one under way beyond */
    assert_ok(write_tick(&store, ticks));
    assert_ok(aw_store_check(&store, &diag));
    aw_store_close(&store);
}

static void cut_at_every_step(const struct plan *plan)
{
    uint64_t cuts = 0, acknowledged = 0;
    bool struck = true;
    for (uint64_t at = 1; struck; at++) {
        struct aw_disk_sim sim;
        struct promised promised;
        assert_ok(aw_disk_sim_init(&sim, at, NULL));
        disk = &sim;
        assert_ok(sim.disk.ops->make_folder(&sim, folder, NULL));
        sim.faults.cut_at = sim.change_count + at;
        run(plan, &promised);
        struck = sim.power_off;
        for (uint64_t seed = 0; seed < SEEDS; seed++, cuts++) {
            struct aw_disk_sim left;
            assert_ok(aw_disk_sim_copy(&left, &sim));
            disk = &left;
            aw_disk_sim_power_cut(&left, seed * 1000 + at);
            check_left(plan, &promised);
            aw_disk_sim_deinit(&left);
        }
        acknowledged += promised.tick_count;
        aw_disk_sim_deinit(&sim);
    }
    print_message("# %ju power cuts\n", (uintmax_t)cuts);
    assert_true(cuts > 300 && acknowledged > 300);
}

static void with_power_safe_no_acknowledged_row_is_lost(void **state)
{
    (void)state;
    cut_at_every_step(&(struct plan){.power_safe = true});
}

static void with_power_safe_retention_drops_whole_episodes_or_none(void **state)
{
    (void)state;
    cut_at_every_step(&(struct plan){.power_safe = true, .retains = true});
}

static void as_it_comes_only_the_newest_rows_since_a_flush_can_be_lost(void **state)
{
    (void)state;
    cut_at_every_step(&(struct plan){.power_safe = false});
}

static void as_it_comes_a_power_cut_can_lose_acknowledged_rows(void **state)
{
    uint32_t lost = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct aw_disk_sim sim;
        struct aw_store store;
        struct aw_store_counts counts = {0};
        assert_ok(aw_disk_sim_init(&sim, seed, NULL));
        disk = &sim;
        assert_ok(sim.disk.ops->make_folder(&sim, folder, NULL));
        assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
        for (uint32_t tick = 0; tick < 5; tick++)
            assert_ok(write_tick(&store, tick));
        aw_disk_sim_power_cut(&sim, seed);
        aw_store_close(&store);
        assert_ok(aw_store_open(&store, path, NULL, NULL, NULL));
        assert_ok(aw_store_check(&store, NULL));
        assert_ok(aw_store_counts(&store, NULL, &counts, NULL));
        lost += counts.rows < 5 * WORKLOADS;
        aw_store_close(&store);
        aw_disk_sim_deinit(&sim);
    }
    assert_true(lost > 10); /* else this simulation cuts nothing */
}

AW_TEST_GROUP("store-power")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_power_safe_no_acknowledged_row_is_lost),
        cmocka_unit_test(with_power_safe_retention_drops_whole_episodes_or_none),
        cmocka_unit_test(as_it_comes_only_the_newest_rows_since_a_flush_can_be_lost),
        cmocka_unit_test(as_it_comes_a_power_cut_can_lose_acknowledged_rows),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
