/*
 * checkpoint.c - the files of a run directory: saved as one, resumed as one.
 *
 * loop.state, little endian: magic, version, number of environments, counters, the ring of recent
 * returns, the last figures of the learner, size and checksum of the two files of the learner, the
 * snapshot of the vectoriser, and the CRC-32C of all bytes before. Everything has a fixed size but
 * the snapshot, whose length is written down and known in advance, so a reader never trusts it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "train/train_internal.h"

#define LOOP_MAGIC     "AWLOOP\r\n" /* a transfer as text would break it */
#define LOOP_VERSION   1u
#define LOOP_BYTES_MAX ((size_t)1 << 30)
#define LOOP_FIXED_MAX 8192u /* bytes of all but the snapshot */
#define SAVING         "checkpoint.tmp"
#define LOOP_FILE      "loop.state"
#define LEARNER_FILES  2u

static const char *const learner_file[LEARNER_FILES] = {"model.safetensors", "state.safetensors"};

struct file_sum {
    uint64_t size;
    uint32_t crc;
};

/* ---- bytes ---- */

struct writer {
    unsigned char *bytes;
    size_t len, size;
};

static void put(struct writer *w, const void *bytes, size_t len)
{
    AW_ASSERT(len <= w->size - w->len);
    memcpy(w->bytes + w->len, bytes, len);
    w->len += len;
}

static void put_u64(struct writer *w, uint64_t value)
{
    unsigned char le[8];
    for (unsigned i = 0; i < 8; i++)
        le[i] = (unsigned char)(value >> 8 * i);
    put(w, le, 8);
}

static void put_f64(struct writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_u64(w, bits);
}

/* Reading beyond the end yields zeroes and sets `over`, which the caller checks once. */
struct reader {
    const unsigned char *bytes;
    size_t at, len;
    bool over;
};

static const unsigned char *get(struct reader *r, size_t len)
{
    if (len > r->len - r->at) {
        r->over = true;
        return NULL;
    }
    r->at += len;
    return r->bytes + r->at - len;
}

static uint64_t get_u64(struct reader *r)
{
    const unsigned char *le = get(r, 8);
    uint64_t value = 0;
    for (unsigned i = 0; le && i < 8; i++)
        value |= (uint64_t)le[i] << 8 * i;
    return value;
}

static double get_f64(struct reader *r)
{
    uint64_t bits = get_u64(r);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- files ---- */

/* Size and checksum of a whole file. AW_ERR_NOTFOUND: there is none. */
static enum aw_err file_sum(const char *path, struct file_sum *ret, struct aw_diag *diag)
{
    unsigned char chunk[65536];
    struct file_sum sum = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return aw_fail_at(diag, errno == ENOENT ? AW_ERR_NOTFOUND : AW_ERR_IO, path, 0, 0, NULL,
                          "%s", strerror(errno));
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            enum aw_err err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
            close(fd);
            return err;
        }
        if (got == 0)
            break;
        sum.size += (uint64_t)got;
        sum.crc = aw_crc32c(sum.crc, chunk, (size_t)got);
    }
    close(fd);
    *ret = sum;
    return AW_OK;
}

static enum aw_err directory_sync(const char *path, struct aw_diag *diag)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool failed = fd < 0 || fsync(fd) != 0;
    enum aw_err err =
        failed ? aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno)) : AW_OK;
    if (fd >= 0)
        close(fd);
    return err;
}

/* Moves DIR/checkpoint.tmp/name to DIR/name; one that is gone was moved before. */
static enum aw_err move_up(const char *dir, const char *saving, const char *name,
                           struct aw_diag *diag)
{
    char from[AW_FILE_PATH_MAX], to[AW_FILE_PATH_MAX];
    enum aw_err err;
    if ((err = aw__path_join(saving, name, from, sizeof from, diag)) ||
        (err = aw__path_join(dir, name, to, sizeof to, diag)))
        return err;
    if (rename(from, to) != 0 && errno != ENOENT)
        return aw_fail_at(diag, AW_ERR_IO, to, 0, 0, NULL, "%s", strerror(errno));
    return AW_OK;
}

/* True for the files of a save, and for the halves of them that a crash left behind. */
static bool saved_by_us(const char *name)
{
    for (uint32_t i = 0; i < LEARNER_FILES; i++) {
        if (strncmp(name, learner_file[i], strlen(learner_file[i])) == 0)
            return true;
    }
    return strncmp(name, LOOP_FILE, strlen(LOOP_FILE)) == 0;
}

/* loop.state goes first: without it nothing that is left is taken for a checkpoint. */
static void saving_drop(const char *saving)
{
    char path[AW_FILE_PATH_MAX];
    if (!aw__path_join(saving, LOOP_FILE, path, sizeof path, NULL))
        unlink(path);
    DIR *dir = opendir(saving);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (saved_by_us(entry->d_name) &&
            !aw__path_join(saving, entry->d_name, path, sizeof path, NULL))
            unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(saving); /* what is left in it is not ours, and does no harm */
}

/* The second half of a save; resume repeats it when it was cut off. loop.state goes last: as long
 * as it lies in checkpoint.tmp, the move is not finished. */
static enum aw_err saving_finish(const char *dir, const char *saving, struct aw_diag *diag)
{
    enum aw_err err;
    for (uint32_t i = 0; i < LEARNER_FILES; i++) {
        if ((err = move_up(dir, saving, learner_file[i], diag)))
            return err;
    }
    if ((err = directory_sync(dir, diag)) || (err = move_up(dir, saving, LOOP_FILE, diag)) ||
        (err = directory_sync(dir, diag)))
        return err;
    saving_drop(saving);
    return AW_OK;
}

/* After a crash: finishes a complete checkpoint.tmp, drops an incomplete one. */
static enum aw_err saving_recover(const char *dir, struct aw_diag *diag)
{
    char saving[AW_FILE_PATH_MAX], loop[AW_FILE_PATH_MAX];
    enum aw_err err;
    if ((err = aw__path_join(dir, SAVING, saving, sizeof saving, diag)) ||
        (err = aw__path_join(saving, LOOP_FILE, loop, sizeof loop, diag)))
        return err;
    if (access(saving, F_OK) != 0)
        return AW_OK;
    if (access(loop, F_OK) == 0) /* it was replaced atomically, after all else was on disk */
        return saving_finish(dir, saving, diag);
    saving_drop(saving);
    return AW_OK;
}

/* ---- loop.state ---- */

static void loop_write(const struct aw_train *train, const struct file_sum *sums, struct writer *w)
{
    const struct aw_train_progress *progress = &train->progress;
    size_t vec_bytes = aw_vec_state_bytes(&train->vec);
    put(w, LOOP_MAGIC, 8);
    put_u64(w, LOOP_VERSION);
    put_u64(w, train->config.env_count);
    put_u64(w, vec_bytes);
    for (uint32_t i = 0; i < LEARNER_FILES; i++) {
        put_u64(w, sums[i].size);
        put_u64(w, sums[i].crc);
    }
    put_u64(w, progress->step);
    put_u64(w, progress->update_count);
    put_u64(w, progress->episode_count);
    put_u64(w, train->recent_count);
    put_u64(w, train->recent_next);
    for (uint32_t i = 0; i < AW_TRAIN_RECENT; i++) {
        put_f64(w, train->recent_return[i]);
        put_f64(w, train->recent_length[i]);
    }
    put_u64(w, progress->learn.update_count);
    put_u64(w, progress->learn.count);
    for (uint32_t i = 0; i < AW_LEARN_STATS_MAX; i++) {
        char name[AW__STAT_NAME_MAX] = "";
        bool used = i < progress->learn.count;
        if (used)
            snprintf(name, sizeof name, "%s", progress->learn.stat[i].name);
        put(w, name, sizeof name);
        put_f64(w, used ? progress->learn.stat[i].value : 0);
    }
    AW_ASSERT(vec_bytes <= w->size - w->len);
    aw_vec_state_save(&train->vec, w->bytes + w->len);
    w->len += vec_bytes;
    put_u64(w, aw_crc32c(0, w->bytes, w->len));
}

static enum aw_err loop_bad(const char *path, struct aw_diag *diag, const char *text)
{
    return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "%s", text);
}

/* Fills counters and environments from the bytes of loop.state. */
static enum aw_err loop_read(struct aw_train *train, const char *path, const void *bytes,
                             size_t len, struct file_sum *ret_sums, struct aw_diag *diag)
{
    struct reader r = {.bytes = bytes, .len = len};
    struct aw_train_progress progress = {0};
    const unsigned char *magic = get(&r, 8);
    if (!magic || memcmp(magic, LOOP_MAGIC, 8) != 0)
        return loop_bad(path, diag, "is not the state of a training loop");
    if (get_u64(&r) != LOOP_VERSION)
        return loop_bad(path, diag, "was written by another version of the program");
    r.at = len < 16 ? len : len - 8;
    if (get_u64(&r) != aw_crc32c(0, bytes, len < 16 ? len : len - 8))
        return loop_bad(path, diag, "is truncated or damaged: the checksum does not match");
    r.at = 16;
    uint64_t env_count = get_u64(&r), vec_bytes = get_u64(&r);
    if (env_count != train->config.env_count || vec_bytes != aw_vec_state_bytes(&train->vec))
        return loop_bad(path, diag, "does not fit run.json: other environments");
    for (uint32_t i = 0; i < LEARNER_FILES; i++) {
        ret_sums[i].size = get_u64(&r);
        ret_sums[i].crc = (uint32_t)get_u64(&r);
    }
    progress.step = get_u64(&r);
    progress.update_count = get_u64(&r);
    progress.episode_count = get_u64(&r);
    /* how well the environment's own agent did is not kept, only that its turn is over */
    progress.bootstrap_count = progress.episode_count < train->config.bootstrap_episodes
                                   ? progress.episode_count
                                   : train->config.bootstrap_episodes;
    progress.bootstrap_return = NAN;
    uint64_t recent_count = get_u64(&r), recent_next = get_u64(&r);
    if (recent_count > AW_TRAIN_RECENT || recent_next >= AW_TRAIN_RECENT ||
        progress.step > AW_TRAIN_STEPS_MAX + (uint64_t)AW_TRAIN_ENVS_MAX)
        return loop_bad(path, diag, "a counter is out of range");
    for (uint32_t i = 0; i < AW_TRAIN_RECENT; i++) {
        train->recent_return[i] = get_f64(&r);
        train->recent_length[i] = get_f64(&r);
    }
    progress.learn.update_count = get_u64(&r);
    uint64_t stat_count = get_u64(&r);
    if (stat_count > AW_LEARN_STATS_MAX)
        return loop_bad(path, diag, "a counter is out of range");
    progress.learn.count = (uint32_t)stat_count;
    for (uint32_t i = 0; i < AW_LEARN_STATS_MAX; i++) {
        const unsigned char *name = get(&r, AW__STAT_NAME_MAX);
        if (name) {
            memcpy(train->stat_name[i], name, AW__STAT_NAME_MAX);
            train->stat_name[i][AW__STAT_NAME_MAX - 1] = '\0';
        }
        progress.learn.stat[i].name = train->stat_name[i];
        progress.learn.stat[i].value = get_f64(&r);
    }
    const unsigned char *vec = get(&r, (size_t)vec_bytes);
    if (!vec || r.over || r.at + 8 != len)
        return loop_bad(path, diag, "has another length than it should");
    enum aw_err err = aw_vec_state_load(&train->vec, vec, (size_t)vec_bytes, diag);
    if (err)
        return err;
    train->progress = progress;
    train->recent_count = (uint32_t)recent_count;
    train->recent_next = (uint32_t)recent_next;
    aw__train_recent_update(train);
    return AW_OK;
}

/* ---- save ---- */

static enum aw_err saving_begin(struct aw_train *train, const char *saving, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    struct file_sum sums[LEARNER_FILES];
    struct writer w = {.size = LOOP_FIXED_MAX + aw_vec_state_bytes(&train->vec)};
    enum aw_err err;
    if ((err = aw_file_mkdirs(saving, diag)) ||
        (err = train->agent.ops->save(train->agent.self, saving, true, diag)))
        return err;
    for (uint32_t i = 0; i < LEARNER_FILES; i++) {
        if ((err = aw__path_join(saving, learner_file[i], path, sizeof path, diag)) ||
            (err = file_sum(path, &sums[i], diag)))
            return err;
    }
    if (!(w.bytes = aw_alloc_new(train->alloc, w.size, 1)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to save the environments");
    loop_write(train, sums, &w);
    if (!(err = aw__path_join(saving, LOOP_FILE, path, sizeof path, diag)))
        err = aw_file_replace(path, w.bytes, w.len, NULL, diag);
    aw_alloc_free(train->alloc, w.bytes);
    return err;
}

enum aw_err aw_train_save(struct aw_train *train, const char *dir, bool resumable,
                          struct aw_diag *diag)
{
    char saving[AW_FILE_PATH_MAX];
    enum aw_err err;
    if ((err = aw_file_mkdirs(dir, diag)) ||
        (err = aw__path_join(dir, SAVING, saving, sizeof saving, diag)) ||
        (err = saving_recover(dir, diag)) ||
        (err = aw__run_write(&train->config, train->factory, dir, diag)))
        return err;
    if (!resumable)
        return train->agent.ops->save(train->agent.self, dir, false, diag);
    if ((err = saving_begin(train, saving, diag))) {
        saving_drop(saving);
        return err;
    }
    return saving_finish(dir, saving, diag);
}

/* ---- load ---- */

static enum aw_err sums_check(const char *dir, const struct file_sum *sums, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    struct file_sum found;
    for (uint32_t i = 0; i < LEARNER_FILES; i++) {
        enum aw_err err = aw__path_join(dir, learner_file[i], path, sizeof path, diag);
        if (err || (err = file_sum(path, &found, diag)))
            return err;
        if (found.size != sums[i].size || found.crc != sums[i].crc)
            return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                              "is damaged or of another checkpoint than loop.state");
    }
    return AW_OK;
}

static enum aw_err loop_load(struct aw_train *train, const char *dir, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    struct file_sum sums[LEARNER_FILES];
    char *bytes = NULL;
    size_t len = 0;
    enum aw_err err;
    if ((err = saving_recover(dir, diag)) ||
        (err = aw__path_join(dir, LOOP_FILE, path, sizeof path, diag)) ||
        (err = aw_file_read(path, LOOP_BYTES_MAX, train->alloc, &bytes, &len, diag)))
        return err;
    err = loop_read(train, path, bytes, len, sums, diag);
    aw_alloc_free(train->alloc, bytes);
    return err ? err : sums_check(dir, sums, diag);
}

/* A total that the run has already passed cannot be what was meant. The last turn of all
 * environments may end a little beyond the total. */
static enum aw_err total_check(const struct aw_train *train, struct aw_diag *diag)
{
    uint64_t step = train->progress.step, steps = train->config.steps;
    if (step < steps + train->config.env_count)
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "steps",
                      "expected at least the %" PRIu64 " that the run has done, found %" PRIu64,
                      step, steps);
}

enum aw_err aw__train_load(const char *dir, uint64_t steps, bool resumable,
                           const struct aw_agent_factory *factory, const struct aw_alloc *alloc,
                           struct aw_train **ret_train, struct aw_diag *diag)
{
    struct aw_train_config config;
    struct aw_train *train = NULL;
    enum aw_err err = aw__run_read(dir, factory, &config, &factory, diag);
    if (err)
        return err;
    if (steps)
        config.steps = steps;
    if ((err = aw__train_new(&config, factory, alloc, &train, diag)))
        return err;
    if ((!resumable || (!(err = loop_load(train, dir, diag)) &&
                        !(err = steps ? total_check(train, diag) : AW_OK))) &&
        !(err = train->agent.ops->load(train->agent.self, dir, resumable, diag)))
        *ret_train = train;
    else
        aw_train_free(train);
    return err;
}

enum aw_err aw_train_resume(const char *dir, uint64_t steps, const struct aw_alloc *alloc,
                            struct aw_train **ret_train, struct aw_diag *diag)
{
    return aw__train_load(dir, steps, true, NULL, alloc, ret_train, diag);
}

enum aw_err aw_train_open(const char *dir, const struct aw_alloc *alloc,
                          struct aw_train **ret_train, struct aw_diag *diag)
{
    return aw__train_load(dir, 0, false, NULL, alloc, ret_train, diag);
}
