/*
 * disk_sim.h - a disk in memory that fills up, breaks, slows down and loses its power, on demand.
 *
 * A write is visible at once and durable once its file was synced; a new, changed or removed name
 * once its folder was. When the power is cut, what was durable stays. Of the rest any part may be
 * there: each write whole, not at all, its first bytes, or some of its sectors with zeros between
 * them, independently of other writes and files; each change of a name, or not. The same seed and
 * the same calls give the same bytes.
 *
 * One thing is taken for granted, as SQLite does (https://www.sqlite.org/psow.html): writing some
 * bytes of a sector does not harm its other bytes.
 *
 * Call order: init; pass &sim.disk on; set `faults` at any time; after faults.cut_at has struck, or
 *             whenever one likes, power_cut, and open files anew; deinit.
 * Memory:     grows with what is written, up to the maxima below; AW_ERR_NOMEM, or AW_ERR_LIMIT.
 * Threads:    single owner.
 *
 * The trap: a sync that fails on a broken disk (faults.fail_at) may have written any part, and
 * forgets what it has not written, as Linux does. Syncing again then succeeds and promises nothing.
 */
#ifndef AW_BASE_DISK_SIM_H
#define AW_BASE_DISK_SIM_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/rng.h"

#define AW_DISK_SIM_PATH_MAX   512u         /* bytes of a path, with its NUL */
#define AW_DISK_SIM_FILES_MAX  4096u        /* that exist or are open */
#define AW_DISK_SIM_BYTES_MAX  (1ull << 32) /* of one file */
#define AW_DISK_SIM_CHANGE_MAX (1u << 20)   /* waiting for one sync */
#define AW_DISK_SIM_SECTOR     512u         /* bytes: what a disk writes as one */

struct aw_disk_sim_faults {
    uint64_t fail_at;     /* calls from this one on (by call_count; 1 is the first) fail; 0: none */
    uint64_t fail_count;  /* so many of them; 0: one */
    uint64_t cut_at;      /* the power goes in this change (by change_count); 0: it stays */
    uint64_t space_bytes; /* all files together; 0: without limit. A write takes what is left */
    bool no_reserve;      /* a file system that cannot reserve blocks */
    bool read_only;
    int64_t slow_us;                /* what each call takes, on `clock` */
    struct aw_clock_virtual *clock; /* NULL: calls take no time */
};

struct aw__disk_sim_state;

struct aw_disk_sim {
    struct aw_disk disk; /* pass &sim.disk on */
    struct aw_disk_sim_faults faults;
    uint64_t call_count;   /* all calls but close, so far */
    uint64_t change_count; /* of them those that change something: a cut can strike there */
    uint64_t sync_count;   /* of them those of a file or folder */
    bool power_off;        /* faults.cut_at has struck: every call fails until power_cut */
    struct aw__disk_sim_state *state;
};

/* On failure `sim` is zeroed. A simulated disk must not be moved: its files point to it. */
AW_NODISCARD enum aw_err aw_disk_sim_init(struct aw_disk_sim *sim, uint64_t seed,
                                          const struct aw_alloc *alloc);
void aw_disk_sim_deinit(struct aw_disk_sim *sim); /* a zeroed one is a no-op */

/* Another disk with the same content, cache and counters; no files are open on it, and it has no
 * faults. `to` is not initialised yet; on failure it is zeroed. */
AW_NODISCARD enum aw_err aw_disk_sim_copy(struct aw_disk_sim *to, const struct aw_disk_sim *from);

/* Cuts the power and restores it: see above for what is left. Files that were open are closed,
 * locks are gone, and so is faults.cut_at. */
void aw_disk_sim_power_cut(struct aw_disk_sim *sim, uint64_t seed);
/* Ends the process that uses the disk, as kill -9 does: the same, but the cache is kept. */
void aw_disk_sim_kill(struct aw_disk_sim *sim);

/* For tests that damage files: replaces the whole content, durably. */
AW_NODISCARD enum aw_err aw_disk_sim_put(struct aw_disk_sim *sim, const char *path,
                                         const void *bytes, size_t len);
/* What a reader sees now; borrowed until the next call. NULL: no such file. */
const char *aw_disk_sim_get(const struct aw_disk_sim *sim, const char *path, size_t *ret_len);

#endif
