/* stress.c - see stress.h. */
#include "service/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/threads.h"
#include "service/caller.h"

#define SLOT_US       10000
#define THREADS_MAX   32u
#define WRITE_BYTES   262144u
#define FILE_BYTES    ((off_t)64 << 20)
#define BULK_LEAST    16384.0
#define BULK_BYTES    262144.0
#define DISK_LANES    16u /* writes that wait at once: whoever comes then waits behind 4 MiB */
#define NET_LANES     32u /* answers that share the way with those of the service */
#define CPU_LANES     16u /* a pool of threads, as that of a service: one would get half at most */
#define VISIT_LANES   16u
#define MEMORY_BYTES  ((size_t)128 << 20) /* four times an LLC of 32 MiB */
#define LINE          64u
#define BEHIND_MOST_S 0.5 /* what could not be had in this time is not caught up with */
#define TIMEOUT_US    10000000

const char *const aw_stress_kind_names[] = {"cpu", "disk",   "network", "memory",
                                            "llc", "visits", NULL};

struct stress {
    const struct aw_stress_config *config;
    int64_t until_us;
    double share; /* of the amount, a thread */
    uint32_t lanes;
    struct aw__caller caller;
    int fd;
    char *block;
    size_t block_bytes;
    _Atomic uint32_t index, failed;
};

static void rest_until(int64_t at_us)
{
    while (aw_clock_monotonic_us(NULL) < at_us)
        (void)!aw_clock_sleep_until(NULL, at_us);
}

/* Something of `amount` a second, in portions: when the next is due. Who cannot keep up forgets
 * what was due long ago. */
static void pace(int64_t *due_us, double portion, double amount, int64_t until_us)
{
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    *due_us += (int64_t)(1e6 * portion / amount);
    if (*due_us < now_us - (int64_t)(1e6 * BEHIND_MOST_S))
        *due_us = now_us;
    rest_until(*due_us < until_us ? *due_us : until_us);
}

/* Lanes begin one after the other: all of them at once would be a burst, and no rate. */
static int64_t begin(struct stress *stress, double portion)
{
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    return now_us +
           (int64_t)(1e6 * portion / stress->share * stress->index++ / fmax(1, stress->lanes));
}

/* A share of a core: busy by this thread's own CPU clock, then idle until the slot is over. */
static void cpu(struct stress *stress)
{
    int64_t slot_us = aw_clock_monotonic_us(NULL);
    while (slot_us < stress->until_us) {
        const double busy_until_s = aw_clock_thread_cpu_s() + 1e-6 * SLOT_US * stress->share;
        slot_us += SLOT_US;
        for (uint64_t x = 88172645463325252u; aw_clock_thread_cpu_s() < busy_until_s &&
                                              aw_clock_monotonic_us(NULL) < stress->until_us;) {
            for (uint32_t i = 0; i < 2000; i++)
                x = x * 6364136223846793005u + 1442695040888963407u;
            __asm__ volatile("" : : "r"(x));
        }
        const int64_t now_us = aw_clock_monotonic_us(NULL);
        slot_us = slot_us < now_us - SLOT_US ? now_us : slot_us; /* throttled: not caught up with */
        rest_until(slot_us < stress->until_us ? slot_us : stress->until_us);
    }
}

static void disk(struct stress *stress)
{
    struct aw_rng rng;
    int64_t due_us = begin(stress, WRITE_BYTES);
    aw_rng_init(&rng, (uint64_t)due_us, 0);
    rest_until(due_us < stress->until_us ? due_us : stress->until_us);
    while (aw_clock_monotonic_us(NULL) < stress->until_us) {
        const off_t at =
            (off_t)WRITE_BYTES * aw_rng_below(&rng, (uint32_t)(FILE_BYTES / WRITE_BYTES));
        if (pwrite(stress->fd, stress->block, WRITE_BYTES, at) != (ssize_t)WRITE_BYTES &&
            errno != EINTR) {
            stress->failed++;
            return;
        }
        pace(&due_us, WRITE_BYTES, stress->share, stress->until_us);
    }
}

static void ask(struct stress *stress, const char *path, double portion)
{
    int64_t due_us = begin(stress, portion);
    const struct aw__caller_request request = {.method = "GET", .path = path};
    rest_until(due_us < stress->until_us ? due_us : stress->until_us);
    while (aw_clock_monotonic_us(NULL) < stress->until_us) {
        int status;
        /* a server that is away for a moment is no reason to end */
        if (aw__caller_call(&stress->caller, &request, &status, NULL))
            rest_until(aw_clock_monotonic_us(NULL) + SLOT_US);
        pace(&due_us, portion, stress->share, stress->until_us);
    }
}

static void network(struct stress *stress)
{
    char path[64];
    const double bytes = fmin(BULK_BYTES, fmax(BULK_LEAST, stress->share / 8));
    snprintf(path, sizeof path, "/bulk?bytes=%.0f", bytes);
    ask(stress, path, bytes);
}

static void visits(struct stress *stress)
{
    ask(stress, stress->config->path, 1);
}

static void memory(struct stress *stress)
{
    const size_t portion = (size_t)1 << 20;
    int64_t due_us = aw_clock_monotonic_us(NULL);
    size_t at = 0;
    while (aw_clock_monotonic_us(NULL) < stress->until_us) {
        for (size_t i = 0; i < portion; i += LINE)
            stress->block[at + i]++;
        at = (at + portion) % stress->block_bytes;
        pace(&due_us, (double)portion, stress->share, stress->until_us);
    }
}

static void llc(struct stress *stress)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 1, stress->index++);
    const uint32_t lines = (uint32_t)(stress->block_bytes / LINE);
    while (aw_clock_monotonic_us(NULL) < stress->until_us)
        for (uint32_t i = 0; i < 4096; i++)
            stress->block[(size_t)LINE * aw_rng_below(&rng, lines)]++;
}

static enum aw_err prepare(struct stress *stress, struct aw_diag *diag)
{
    const struct aw_stress_config *config = stress->config;
    char path[512];
    stress->fd = -1;
    stress->block_bytes = config->kind == AW_STRESS_LLC      ? (size_t)fmax(config->amount, 4096)
                          : config->kind == AW_STRESS_MEMORY ? MEMORY_BYTES
                                                             : WRITE_BYTES;
    stress->block = mmap(NULL, stress->block_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (stress->block == MAP_FAILED)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to stress with");
    if (config->kind == AW_STRESS_NETWORK || config->kind == AW_STRESS_VISITS)
        aw__caller_init(&stress->caller, &config->server, TIMEOUT_US);
    if (config->kind != AW_STRESS_DISK)
        return AW_OK;
    snprintf(path, sizeof path, "%s/aware-stress-XXXXXX", config->temp_dir);
    const int made = mkostemp(path, O_CLOEXEC);
    if (made >= 0) {
        stress->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
        unlink(path);
        close(made);
    }
    if (stress->fd < 0 || posix_fallocate(stress->fd, 0, FILE_BYTES))
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, config->temp_dir, 0, 0, NULL,
                          "no file of 64 MiB that is written past the page cache: %s",
                          strerror(errno));
    return AW_OK;
}

static void *run(void *ctx)
{
    static void (*const how[AW_STRESS_KINDS])(struct stress *) = {cpu,    disk, network,
                                                                  memory, llc,  visits};
    struct stress *stress = ctx;
    how[stress->config->kind](stress);
    return NULL;
}

enum aw_err aw_stress_run(const struct aw_stress_config *config, struct aw_diag *diag)
{
    struct stress stress = {.config = config,
                            .until_us = aw_clock_monotonic_us(NULL) + config->for_us};
    pthread_t thread[THREADS_MAX];
    uint32_t count = 1, begun = 0;
    int failed = 0;
    enum aw_err err = prepare(&stress, diag);
    if (config->kind == AW_STRESS_CPU)
        count = (uint32_t)fmin(THREADS_MAX, fmax(CPU_LANES, ceil(config->amount)));
    else if (config->kind == AW_STRESS_NETWORK)
        count = NET_LANES;
    else if (config->kind == AW_STRESS_DISK)
        count = DISK_LANES;
    else if (config->kind == AW_STRESS_VISITS)
        count = VISIT_LANES;
    stress.lanes = count;
    stress.share = config->amount / count;
    for (; begun < count && !err && !failed; begun += !failed)
        failed = aw_thread_begin(&thread[begun], run, &stress);
    for (uint32_t i = 0; i < begun; i++)
        (void)pthread_join(thread[i], NULL);
    if (failed)
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed));
    if (!err && stress.failed)
        err = aw_fail(diag, AW_ERR_IO, "the file could not be written");
    if (stress.fd >= 0)
        close(stress.fd);
    if (config->kind == AW_STRESS_NETWORK || config->kind == AW_STRESS_VISITS)
        aw__caller_deinit(&stress.caller);
    if (stress.block != MAP_FAILED)
        (void)munmap(stress.block, stress.block_bytes);
    return err;
}
