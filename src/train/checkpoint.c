/*
 * checkpoint.c - the files of a run directory: saved as one, resumed as one.
 *
 * loop.state is one struct, with size and checksum of the two files of the learner in it, and
 * behind it the snapshot of the vectoriser, all in one envelope.
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
#include "base/envelope.h"
#include "base/file.h"
#include "train/train_internal.h"

#define LOOP_BYTES_MAX ((size_t)1 << 30)
#define SAVING         "checkpoint.tmp"
#define LOOP_FILE      "loop.state"
#define LEARNER_FILES  2u

static const char *const learner_file[LEARNER_FILES] = {"model.safetensors", "state.safetensors"};

struct file_sum {
    uint64_t size;
    uint64_t crc;
};

struct loop_state {
    struct aw_envelope head; /* the owner is how many environments there are */
    struct file_sum learner[LEARNER_FILES];
    uint64_t step, update_count, episode_count;
    uint64_t recent_count, recent_next;
    double recent_return[AW_TRAIN_RECENT], recent_length[AW_TRAIN_RECENT];
    uint64_t learn_update_count, stat_count;
    char stat_name[AW_LEARN_STATS_MAX][AW__STAT_NAME_MAX];
    double stat_value[AW_LEARN_STATS_MAX];
};
AW_LAYOUT(loop_layout, struct loop_state, 0, AW_ENVELOPE(head.), learner, step, update_count,
          episode_count, recent_count, recent_next, recent_return, recent_length,
          learn_update_count, stat_count, stat_name, stat_value);
AW_LAYOUT(sum_layout, struct file_sum, 0, size, crc);
static struct aw_format format = {.kind = "train",
                                  .what = "the state of a training loop",
                                  .version = 1,
                                  .layout = {loop_layout, sum_layout}};

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

static void loop_write(const struct aw_train *train, struct loop_state *ret)
{
    const struct aw_train_progress *progress = &train->progress;
    ret->step = progress->step;
    ret->update_count = progress->update_count;
    ret->episode_count = progress->episode_count;
    ret->recent_count = train->recent_count;
    ret->recent_next = train->recent_next;
    memcpy(ret->recent_return, train->recent_return, sizeof ret->recent_return);
    memcpy(ret->recent_length, train->recent_length, sizeof ret->recent_length);
    ret->learn_update_count = progress->learn.update_count;
    ret->stat_count = progress->learn.count;
    for (uint32_t i = 0; i < progress->learn.count; i++) {
        snprintf(ret->stat_name[i], sizeof ret->stat_name[i], "%s", progress->learn.stat[i].name);
        ret->stat_value[i] = progress->learn.stat[i].value;
    }
}

/* Fills the counters. */
static enum aw_err loop_read(struct aw_train *train, const struct loop_state *loop)
{
    struct aw_train_progress *progress = &train->progress;
    if (loop->recent_count > AW_TRAIN_RECENT || loop->recent_next >= AW_TRAIN_RECENT ||
        loop->stat_count > AW_LEARN_STATS_MAX ||
        loop->step > AW_TRAIN_STEPS_MAX + (uint64_t)AW_TRAIN_ENVS_MAX)
        return AW_ERR_FORMAT;
    *progress = (struct aw_train_progress){.step = loop->step,
                                           .update_count = loop->update_count,
                                           .episode_count = loop->episode_count};
    /* how well the environment's own agent did is not kept, only that its turn is over */
    progress->bootstrap_count = progress->episode_count < train->config.bootstrap_episodes
                                    ? progress->episode_count
                                    : train->config.bootstrap_episodes;
    progress->bootstrap_return = NAN;
    memcpy(train->recent_return, loop->recent_return, sizeof loop->recent_return);
    memcpy(train->recent_length, loop->recent_length, sizeof loop->recent_length);
    memcpy(train->stat_name, loop->stat_name, sizeof loop->stat_name);
    progress->learn.update_count = loop->learn_update_count;
    progress->learn.count = (uint32_t)loop->stat_count;
    for (uint32_t i = 0; i < AW_LEARN_STATS_MAX; i++) {
        train->stat_name[i][AW__STAT_NAME_MAX - 1] = '\0';
        progress->learn.stat[i].name = train->stat_name[i];
        progress->learn.stat[i].value = loop->stat_value[i];
    }
    train->recent_count = (uint32_t)loop->recent_count;
    train->recent_next = (uint32_t)loop->recent_next;
    aw__train_recent_update(train);
    return AW_OK;
}

/* ---- save ---- */

static enum aw_err saving_begin(struct aw_train *train, const char *saving, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    struct file_sum sums[LEARNER_FILES];
    const size_t size = sizeof(struct loop_state) + aw_vec_state_bytes(&train->vec);
    enum aw_err err;
    if ((err = aw_file_mkdirs(saving, diag)) ||
        (err = train->agent.ops->save(train->agent.self, saving, true, diag)))
        return err;
    for (uint32_t i = 0; i < LEARNER_FILES; i++) {
        if ((err = aw__path_join(saving, learner_file[i], path, sizeof path, diag)) ||
            (err = file_sum(path, &sums[i], diag)))
            return err;
    }
    struct loop_state *loop = aw_alloc_new(train->alloc, size, 1);
    if (!loop)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to save the environments");
    memcpy(loop->learner, sums, sizeof sums);
    loop_write(train, loop);
    aw_vec_state_save(&train->vec, loop + 1);
    if (!(err = aw__path_join(saving, LOOP_FILE, path, sizeof path, diag)))
        err = aw_envelope_write(&format, train->config.env_count, loop, size, path, diag);
    aw_alloc_free(train->alloc, loop);
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
    struct loop_state loop;
    void *bytes = NULL;
    size_t len = 0;
    enum aw_err err;
    if ((err = saving_recover(dir, diag)) ||
        (err = aw__path_join(dir, LOOP_FILE, path, sizeof path, diag)) ||
        (err = aw_envelope_read(&format, train->config.env_count, path, LOOP_BYTES_MAX,
                                train->alloc, &bytes, &len, diag)))
        return err;
    const size_t vec_bytes = aw_vec_state_bytes(&train->vec);
    if (len != sizeof loop + vec_bytes) {
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                         "does not fit run.json: other environments");
    } else {
        memcpy(&loop, bytes, sizeof loop);
        err = aw_vec_state_load(&train->vec, (char *)bytes + sizeof loop, vec_bytes, diag);
        if (!err && loop_read(train, &loop))
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "a counter is out of range");
    }
    aw_alloc_free(train->alloc, bytes);
    return err ? err : sums_check(dir, loop.learner, diag);
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
