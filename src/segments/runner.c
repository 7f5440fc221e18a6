/* runner.c - from what a description says to what really happens. */
#include "segments/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"
#include "base/units.h"
#include "segments/helpers.h"
#include "segments/kind.h"

#define SOURCE_BYTES   ((size_t)4 << 20)  /* of the file that requests read from */
#define TRANSFER_BYTES ((size_t)64 << 10) /* read and written at once */
#define PAGE_BYTES     4096u              /* the smallest there is */
#define MEASURE_ROUNDS 11                 /* of pieces */
#define MEASURE_FIXED  6                  /* of a request without a piece */
#define MEASURE_FEW    4                  /* pieces, to find out how many fill a round */
#define PIECES_MAX     1e8                /* of one request; a description beyond it is cut */

struct worker {
    struct aw_rng rng;
    char *buffer; /* [TRANSFER_BYTES] */
};

/* Memory of a request. */
struct block {
    void *at; /* NULL: none */
    size_t bytes;
    int64_t freed_us;
};

struct segment {
    const struct aw__segment_kind *kind;
    void *state;
    uint32_t parts; /* cores that a request can use at once */
};

struct aw_runner {
    const struct aw_alloc *alloc;
    struct aw_runner_config config;
    struct aw_demand demand;
    struct segment segment[AW_APP_SEGMENTS_MAX];
    struct aw_runner_cost cost[AW_APP_SEGMENTS_MAX]; /* piece_us 0: not known yet */
    struct aw__helpers *gang;
    int source_fd_plus_1, target_fd_plus_1; /* files without a name */
    struct worker *worker;                  /* [worker_count] */
    pthread_mutex_t lock;                   /* of what follows */
    struct block *block;                    /* [worker_count]: kept, the last freed on top */
    uint32_t block_count;
};

static double thread_cpu_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* ---- names ---- */

const char *aw_runner_kind_name(uint32_t index)
{
    AW_ASSERT(index < AW_RUNNER_KINDS + 1);
    return aw__kinds[index] ? aw__kinds[index]->name : NULL;
}

int aw_runner_kind(const char *name)
{
    for (int i = 0; aw__kinds[i]; i++) {
        if (!strcmp(aw__kinds[i]->name, name))
            return i;
    }
    return -1;
}

bool aw_runner_needs_objects(const struct aw_app *app)
{
    for (uint32_t i = 0; i < app->segment_count; i++) {
        const int kind = aw_runner_kind(app->segment[i].name);
        if (kind >= 0 && aw__kinds[kind]->exchange != aw__agent_exchange_none)
            return true;
    }
    return false;
}

/* ---- new ---- */

/* A file that has no name, so that nothing has to be cleaned up. */
static enum aw_err nameless(const char *dir, int *ret_fd, struct aw_diag *diag)
{
    char path[4096];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        /* a file system without O_TMPFILE: overlayfs before Linux 6.1, NFS */
        if (snprintf(path, sizeof path, "%s/aware-workload-XXXXXX", dir) < (int)sizeof path) {
            fd = mkostemp(path, O_CLOEXEC);
            if (fd >= 0)
                (void)unlink(path);
        }
    }
    if (fd < 0)
        return aw_fail_at(diag, AW_ERR_IO, dir, 0, 0, NULL, "no temporary file: %s",
                          strerror(errno));
    *ret_fd = fd;
    return AW_OK;
}

static enum aw_err source_fill(struct aw_runner *runner, struct aw_diag *diag)
{
    char *buffer = runner->worker[0].buffer;
    aw__prose(runner->config.seed, buffer, TRANSFER_BYTES);
    for (size_t at = 0; at < SOURCE_BYTES; at += TRANSFER_BYTES) {
        if (pwrite(runner->source_fd_plus_1 - 1, buffer, TRANSFER_BYTES, (off_t)at) !=
            (ssize_t)TRANSFER_BYTES)
            return aw_fail_at(diag, AW_ERR_IO, runner->config.temp_dir, 0, 0, NULL,
                              "a temporary file of %zu bytes: %s", SOURCE_BYTES, strerror(errno));
    }
    return AW_OK;
}

static enum aw_err files_open(struct aw_runner *runner, struct aw_diag *diag)
{
    double read_kib = 0, write_kib = 0;
    int fd = -1;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < runner->config.app.segment_count; i++) {
        read_kib += runner->config.app.segment[i].read_kib;
        write_kib += runner->config.app.segment[i].write_kib;
    }
    if (read_kib > 0 && !(err = nameless(runner->config.temp_dir, &fd, diag))) {
        runner->source_fd_plus_1 = fd + 1;
        err = source_fill(runner, diag);
    }
    if (!err && write_kib > 0 && !(err = nameless(runner->config.temp_dir, &fd, diag)))
        runner->target_fd_plus_1 = fd + 1;
    return err;
}

/* Helpers for the cores of this machine beyond one, as many as requests can use. */
static uint32_t helpers_of(const struct aw_runner_config *config)
{
    double parts = 1;
    for (uint32_t i = 0; i < config->app.segment_count; i++)
        parts = fmax(parts, config->app.segment[i].parallelism);
    const double wanted = (ceil(parts) - 1) * config->worker_count;
    const double useful = (double)aw_threads_cpu_count() * 2;
    return (uint32_t)fmin(fmin(wanted, useful), AW__HELPERS_HELPERS_MAX);
}

static enum aw_err segments_open(struct aw_runner *runner, uint32_t lane_count,
                                 struct aw_diag *diag)
{
    const struct aw_runner_config *config = &runner->config;
    for (uint32_t i = 0; i < config->app.segment_count; i++) {
        const struct aw_segment *described = &config->app.segment[i];
        struct segment *segment = &runner->segment[i];
        const int kind = aw_runner_kind(described->name);
        if (kind < 0)
            return aw_fail(diag, AW_ERR_UNSUPPORTED,
                           "%s: segment %u: expected a kind that can run, found \"%s\"",
                           config->app.name, i + 1, described->name);
        const bool grows = !config->families || config->families & 1u << described->family;
        const struct aw__setup setup = {.segment = described,
                                        .payload = grows ? config->payload : 1,
                                        .lane_count = lane_count,
                                        .seed = config->seed + i,
                                        .object_server = config->object_server,
                                        .alloc = runner->alloc};
        void *state = NULL;
        enum aw_err err = aw__kinds[kind]->open(&setup, &state, diag);
        if (err)
            return err;
        const double parts = fmin(ceil(described->parallelism), AW__HELPERS_PARTS_MAX);
        *segment = (struct segment){
            .kind = aw__kinds[kind], .state = state, .parts = parts > 1 ? (uint32_t)parts : 1};
    }
    return AW_OK;
}

enum aw_err aw_runner_new(const struct aw_runner_config *config, const struct aw_alloc *alloc,
                          struct aw_runner **ret_runner, struct aw_diag *diag)
{
    AW_ASSERT(config->worker_count >= 1 && config->worker_count <= AW_RUNNER_WORKERS_MAX);
    AW_ASSERT(config->payload > 0 && config->payload <= AW_RUNNER_PAYLOAD_MAX);
    struct aw_runner *runner = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = (unsigned char *)runner}) {
        struct aw_runner *self = aw_carve_take(&carve, 1, sizeof *self);
        struct worker *worker = aw_carve_take(&carve, config->worker_count, sizeof *worker);
        struct block *block = aw_carve_take(&carve, config->worker_count, sizeof *block);
        char *buffer = aw_carve_take(&carve, config->worker_count, TRANSFER_BYTES);
        if (runner) {
            *self = (struct aw_runner){
                .alloc = alloc, .config = *config, .worker = worker, .block = block};
            for (uint32_t i = 0; i < config->worker_count; i++) {
                worker[i].buffer = buffer + i * TRANSFER_BYTES;
                aw_rng_init(&worker[i].rng, config->seed, 1000 + i);
            }
            break;
        }
        if (!(runner = aw_alloc_new(alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u workers", config->worker_count);
    }
    (void)pthread_mutex_init(&runner->lock, NULL);
    aw_app_demand(&config->app, config->payload, config->families, &runner->demand);
    const uint32_t helpers = helpers_of(config);
    enum aw_err err = aw__helpers_new(helpers, config->worker_count, alloc, &runner->gang);
    if (err)
        (void)aw_fail(diag, err, "no threads for %u helpers", helpers);
    if (!err)
        err = files_open(runner, diag);
    if (!err)
        err = segments_open(runner, config->worker_count + helpers, diag);
    if (err)
        aw_runner_free(runner);
    else
        *ret_runner = runner;
    return err;
}

void aw_runner_free(struct aw_runner *runner)
{
    if (!runner)
        return;
    aw__helpers_free(runner->gang);
    for (uint32_t i = 0; i < AW_APP_SEGMENTS_MAX; i++) {
        if (runner->segment[i].kind)
            runner->segment[i].kind->close(runner->segment[i].state);
    }
    for (uint32_t i = 0; i < runner->block_count; i++)
        (void)munmap(runner->block[i].at, runner->block[i].bytes);
    (void)pthread_mutex_destroy(&runner->lock);
    if (runner->source_fd_plus_1)
        (void)close(runner->source_fd_plus_1 - 1);
    if (runner->target_fd_plus_1)
        (void)close(runner->target_fd_plus_1 - 1);
    aw_alloc_free(runner->alloc, runner);
}

const struct aw_demand *aw_runner_demand(const struct aw_runner *runner)
{
    return &runner->demand;
}

const struct aw_app *aw_runner_app(const struct aw_runner *runner)
{
    return &runner->config.app;
}

/* ---- run ---- */

static double lognormal(struct aw_rng *rng, double mean, double cv)
{
    if (!(mean > 0) || !(cv > 0))
        return fmax(mean, 0);
    const double sigma = sqrt(log1p(cv * cv));
    return mean * exp(sigma * aw_rng_normal(rng) - 0.5 * sigma * sigma);
}

/* Whole pieces whose expectation is `pieces`: what rounding drops of one request, another gets. */
static uint64_t pieces_draw(struct aw_rng *rng, double pieces)
{
    if (!(pieces > 0))
        return 0;
    pieces = fmin(pieces, PIECES_MAX);
    return (uint64_t)(pieces + aw_rng_double(rng));
}

struct split {
    const struct segment *segment;
    uint64_t first, count;
    uint32_t parts, owner;
    struct part {
        double cpu_us;
        enum aw_err err;
        struct aw_diag diag;
    } part[AW__HELPERS_PARTS_MAX];
};

static void split_run(void *ctx, uint32_t index, uint32_t lane)
{
    struct split *split = ctx;
    struct part *part = &split->part[index];
    const uint64_t from = split->count * index / split->parts;
    const uint64_t to = split->count * (index + 1) / split->parts;
    const double before = thread_cpu_us();
    part->err = split->segment->kind->pieces(split->segment->state, lane, split->first + from,
                                             to - from, &part->diag);
    part->cpu_us = thread_cpu_us() - before;
    if (lane == split->owner) /* whose time is taken around all of it */
        part->cpu_us = 0;
}

/* `count` pieces on as many cores as the segment can use; CPU time of helpers is added. */
static enum aw_err pieces_run(struct aw_runner *runner, const struct segment *segment,
                              uint32_t worker, uint64_t first, uint64_t count, double *helped_us,
                              struct aw_diag *diag)
{
    if (count == 0)
        return AW_OK;
    if (segment->parts == 1 || count < segment->parts)
        return segment->kind->pieces(segment->state, worker, first, count, diag);
    struct split split;
    split.segment = segment;
    split.first = first;
    split.count = count;
    split.parts = segment->parts;
    split.owner = worker;
    aw__helpers_run(runner->gang, worker, segment->parts, split_run, &split);
    for (uint32_t i = 0; i < segment->parts; i++)
        *helped_us += split.part[i].cpu_us;
    for (uint32_t i = 0; i < segment->parts; i++) {
        if (split.part[i].err) {
            if (diag)
                *diag = split.part[i].diag;
            return split.part[i].err;
        }
    }
    return AW_OK;
}

static enum aw_err bytes_move(struct aw_runner *runner, struct worker *worker, uint64_t read_bytes,
                              uint64_t write_bytes, struct aw_run *run, struct aw_diag *diag)
{
    const off_t last = (off_t)(SOURCE_BYTES - TRANSFER_BYTES);
    for (uint64_t left = read_bytes; left;) {
        const size_t take = left < TRANSFER_BYTES ? (size_t)left : TRANSFER_BYTES;
        const off_t at = (off_t)aw_rng_below(&worker->rng, (uint32_t)last);
        ssize_t n = pread(runner->source_fd_plus_1 - 1, worker->buffer, take, at);
        if (n <= 0)
            return aw_fail(diag, AW_ERR_IO, "reading a temporary file: %s", strerror(errno));
        left -= (uint64_t)n;
        run->read_bytes += (uint64_t)n;
    }
    for (uint64_t left = write_bytes; left;) {
        const size_t take = left < TRANSFER_BYTES ? (size_t)left : TRANSFER_BYTES;
        const off_t at = (off_t)aw_rng_below(&worker->rng, (uint32_t)last);
        ssize_t n = pwrite(runner->target_fd_plus_1 - 1, worker->buffer, take, at);
        if (n <= 0)
            return aw_fail(diag, AW_ERR_IO, "writing a temporary file: %s", strerror(errno));
        left -= (uint64_t)n;
        run->write_bytes += (uint64_t)n;
    }
    return AW_OK;
}

/* What one segment is asked to do for one request. */
struct order {
    double wait_us;
    double cpu_us;
    bool measured; /* for what it costs without any piece and without waiting */
};

static enum aw_err segment_run(struct aw_runner *runner, uint32_t index, uint32_t worker_index,
                               const struct aw_segment *at, const struct order *order,
                               struct aw_run *run, struct aw_diag *diag)
{
    struct worker *worker = &runner->worker[worker_index];
    const struct segment *segment = &runner->segment[index];
    const struct aw_runner_cost *cost = &runner->cost[index];
    const int64_t start_us = aw_clock_monotonic_us(NULL);
    const double cpu_before = thread_cpu_us();
    const bool described = runner->config.waits == AW_RUNNER_WAITS_DESCRIBED && !order->measured;
    double helped_us = 0;
    enum aw_err err = bytes_move(runner, worker, (uint64_t)(at->read_kib * AW_KIB_REAL),
                                 (uint64_t)(at->write_kib * AW_KIB_REAL), run, diag);
    if (!err) {
        const int64_t spent_us = aw_clock_monotonic_us(NULL) - start_us;
        const int64_t delay_us = (int64_t)order->wait_us - spent_us;
        err = segment->kind->exchange(segment->state, worker_index,
                                      described && delay_us > 0 ? delay_us : 0, diag);
    }
    const int64_t until_us = start_us + (int64_t)order->wait_us;
    while (!err && described && aw_clock_sleep_until(NULL, until_us) == AW_ERR_INTERRUPTED)
        ; /* a signal that is somebody else's */
    run->wait_us[index] = (double)(aw_clock_monotonic_us(NULL) - start_us);
    if (!err) {
        const uint64_t count =
            order->measured
                ? 0
                : pieces_draw(&worker->rng, (order->cpu_us - cost->fixed_us) / cost->piece_us);
        run->pieces[index] = count;
        err = pieces_run(runner, segment, worker_index, aw_rng_u64(&worker->rng) >> 32, count,
                         &helped_us, diag);
    }
    run->cpu_us[index] = thread_cpu_us() - cpu_before + helped_us;
    return err;
}

/* ---- memory ---- */

/* What a request holds while it is in flight. Blocks are kept for the next request for a while, as
 * an allocator keeps what was freed: mapping and clearing pages anew each time would cost some
 * requests more than they are described to cost altogether. */
static enum aw_err memory_hold(struct aw_runner *runner, double mib, struct block *ret_block,
                               struct aw_diag *diag)
{
    const size_t bytes = (size_t)(mib * AW_MIB_REAL);
    struct block block = {0};
    if (bytes == 0) {
        *ret_block = block;
        return AW_OK;
    }
    pthread_mutex_lock(&runner->lock);
    if (runner->block_count && runner->block[runner->block_count - 1].bytes >= bytes)
        block = runner->block[--runner->block_count];
    pthread_mutex_unlock(&runner->lock);
    if (block.at) {
        for (size_t i = 0; i < bytes; i += PAGE_BYTES) /* it is used, not only kept */
            ((volatile char *)block.at)[i] = 1;
        *ret_block = block;
        return AW_OK;
    }
    block.bytes = bytes;
    block.at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                    -1, 0);
    if (block.at == MAP_FAILED)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a request: %.3g MiB", mib);
    *ret_block = block;
    return AW_OK;
}

static void memory_release(struct aw_runner *runner, struct block block)
{
    if (!block.at)
        return;
    block.freed_us = aw_clock_monotonic_us(NULL);
    pthread_mutex_lock(&runner->lock);
    const bool kept = runner->block_count < runner->config.worker_count;
    if (kept)
        runner->block[runner->block_count++] = block;
    pthread_mutex_unlock(&runner->lock);
    if (!kept)
        (void)munmap(block.at, block.bytes);
    aw_runner_trim(runner);
}

void aw_runner_trim(struct aw_runner *runner)
{
    const int64_t before_us = aw_clock_monotonic_us(NULL) - AW_RUNNER_MEMORY_KEPT_US;
    struct block old = {0};
    pthread_mutex_lock(&runner->lock);
    /* the last freed is taken first, so those that nobody needs are at the bottom */
    if (runner->block_count && runner->block[0].freed_us < before_us) {
        old = runner->block[0];
        runner->block_count--;
        memmove(runner->block, runner->block + 1, runner->block_count * sizeof *runner->block);
    }
    pthread_mutex_unlock(&runner->lock);
    if (old.at)
        (void)munmap(old.at, old.bytes);
}

enum aw_err aw_runner_run(struct aw_runner *runner, uint32_t worker, double payload,
                          struct aw_run *ret_run, struct aw_diag *diag)
{
    AW_ASSERT(worker < runner->config.worker_count && runner->cost[0].piece_us > 0);
    const struct aw_runner_config *config = &runner->config;
    const double whole = fmin(fmax(payload, 0) * config->payload, AW_RUNNER_PAYLOAD_MAX);
    struct aw_segment at[AW_APP_SEGMENTS_MAX] = {{.name = ""}};
    struct aw_run run = {0};
    double flight_mib = 0;
    struct block block = {0};
    for (uint32_t i = 0; i < config->app.segment_count; i++) {
        aw_segment_at(&config->app.segment[i], whole, config->families, &at[i]);
        flight_mib = fmax(flight_mib, at[i].memory_flight_mib);
        run.send_bytes += (uint64_t)(at[i].send_kib * AW_KIB_REAL);
    }
    const double before_us = thread_cpu_us();
    enum aw_err err = memory_hold(runner, flight_mib, &block, diag);
    const double memory_us = thread_cpu_us() - before_us;
    struct aw_rng *rng = &runner->worker[worker].rng;
    for (uint32_t i = 0; !err && i < config->app.segment_count; i++) {
        const struct order order = {
            .wait_us = 1e3 * lognormal(rng, at[i].io_ms, at[i].io_cv),
            .cpu_us = 1e3 * config->work_scale * lognormal(rng, at[i].cpu_ms, at[i].cpu_cv),
        };
        run.segment_failed = i;
        err = segment_run(runner, i, worker, &at[i], &order, &run, diag);
    }
    memory_release(runner, block);
    run.cpu_us[0] += memory_us;
    *ret_run = run;
    return err;
}

/* ---- measuring ---- */

/* Both measure CPU time as on a processor that nobody else disturbs: the least of several rounds.
 * What others take from caches and from a shared core makes a round dearer, never cheaper, and it
 * is not the description's business. */

/* Of `count` pieces of a segment, on one lane. */
static enum aw_err pieces_measure(struct aw_runner *runner, uint32_t index, uint64_t count,
                                  double *ret_us, struct aw_diag *diag)
{
    const struct segment *segment = &runner->segment[index];
    double least_us = INFINITY;
    for (uint32_t r = 0; r < MEASURE_ROUNDS; r++) {
        const double before_us = thread_cpu_us();
        enum aw_err err = segment->kind->pieces(segment->state, 0, r * count, count, diag);
        if (err)
            return err;
        least_us = fmin(least_us, thread_cpu_us() - before_us);
    }
    *ret_us = least_us;
    return AW_OK;
}

/* Of a request that takes no piece: files and sockets. Few rounds, because each may have to wait
 * for another process. */
static enum aw_err fixed_measure(struct aw_runner *runner, uint32_t index, double *ret_us,
                                 struct aw_diag *diag)
{
    const struct order order = {.measured = true};
    struct aw_segment at;
    double least_us = INFINITY;
    aw_segment_at(&runner->config.app.segment[index], runner->config.payload,
                  runner->config.families, &at);
    for (uint32_t r = 0; r < MEASURE_FIXED; r++) {
        struct aw_run run = {0};
        enum aw_err err = segment_run(runner, index, 0, &at, &order, &run, diag);
        if (err)
            return err;
        least_us = fmin(least_us, run.cpu_us[index]);
    }
    *ret_us = least_us;
    return AW_OK;
}

/* What it costs a request to take memory that was kept and to use it: its first segment's. */
static double memory_cost_us(struct aw_runner *runner)
{
    double best_us = INFINITY;
    for (uint32_t i = 0; i < MEASURE_ROUNDS; i++) {
        struct block block = {0};
        const double before_us = thread_cpu_us();
        if (memory_hold(runner, runner->demand.memory_flight_mib, &block, NULL))
            return 0;
        best_us = fmin(best_us, thread_cpu_us() - before_us);
        memory_release(runner, block);
    }
    return best_us;
}

enum aw_err aw_runner_measure(struct aw_runner *runner, int64_t budget_us, struct aw_diag *diag)
{
    struct aw_runner_cost cost[AW_APP_SEGMENTS_MAX] = {{0}};
    for (uint32_t i = 0; i < runner->config.app.segment_count; i++) {
        double few_us = 0, many_us = 0;
        uint64_t pieces = MEASURE_FEW;
        enum aw_err err = pieces_measure(runner, i, pieces, &few_us, diag); /* warms up, too */
        if (!err) {
            const double share_us = (double)budget_us / MEASURE_ROUNDS;
            pieces = (uint64_t)fmax(share_us * MEASURE_FEW / fmax(few_us, 1), 8);
            err = pieces_measure(runner, i, pieces, &many_us, diag);
        }
        if (!err)
            err = fixed_measure(runner, i, &cost[i].fixed_us, diag);
        if (err)
            return err;
        cost[i].piece_us = fmax(many_us / (double)pieces, 1e-3);
    }
    cost[0].fixed_us += memory_cost_us(runner);
    aw_runner_costs_set(runner, cost);
    return AW_OK;
}

void aw_runner_costs_set(struct aw_runner *runner, const struct aw_runner_cost *cost)
{
    for (uint32_t i = 0; i < runner->config.app.segment_count; i++) {
        AW_ASSERT(cost[i].piece_us > 0 && cost[i].fixed_us >= 0);
        runner->cost[i] = cost[i];
    }
}

const struct aw_runner_cost *aw_runner_costs(const struct aw_runner *runner)
{
    return runner->cost;
}
