/* counters.c - see counters.h. */
#include "frequency/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int event_open(uint64_t config, int cpu)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof attr,
        .config = config,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void busy_read(const char *path, uint64_t *ret_busy, uint64_t *ret_idle)
{
    unsigned long long user, nice, system, idle, iowait, irq, soft, steal;
    FILE *in = fopen(path, "re");
    if (in && fscanf(in, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
                     &idle, &iowait, &irq, &soft, &steal) == 8) {
        *ret_busy = user + nice + system + irq + soft + steal;
        *ret_idle = idle + iowait;
    }
    if (in)
        (void)fclose(in);
}

void aw_counters_open(struct aw_counters *counters, uint32_t cpus, const char *stat)
{
    static const uint64_t config[AW_COUNT_KINDS] = {
        PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_STALLED_CYCLES_BACKEND};
    *counters = (struct aw_counters){
        .cpus = cpus < AW_COUNTER_CPUS_MAX ? cpus : AW_COUNTER_CPUS_MAX, .stat = stat};
    counters->hardware = true;
    for (uint32_t cpu = 0; cpu < counters->cpus; cpu++) {
        for (uint32_t kind = 0; kind < AW_COUNT_KINDS; kind++) {
            const int fd = counters->fd[cpu][kind] = event_open(config[kind], (int)cpu);
            if (fd >= 0)
                (void)!read(fd, counters->last[cpu][kind], sizeof counters->last[cpu][kind]);
            else if (kind == AW_COUNT_INSTRUCTIONS && counters->hardware) {
                counters->hardware = false;
                snprintf(counters->why, sizeof counters->why, "hardware counters: %s%s",
                         strerror(errno),
                         errno == EACCES || errno == EPERM
                             ? " (CAP_PERFMON, or perf_event_paranoid at most 0)"
                             : " (virtual machines often have none)");
            }
        }
    }
    busy_read(stat, &counters->busy, &counters->idle);
}

bool aw_counter_difference(const uint64_t before[3], const uint64_t now[3], double *ret_difference,
                           double *ret_share)
{
    if (now[0] < before[0] || now[1] < before[1] || now[2] < before[2])
        return false;
    const double enabled = (double)(now[1] - before[1]), running = (double)(now[2] - before[2]);
    *ret_share = enabled > 0 ? running / enabled : 1;
    *ret_difference = running > 0 ? (double)(now[0] - before[0]) * enabled / running : 0;
    return true;
}

void aw_counters_read(struct aw_counters *counters, struct aw_counted *ret)
{
    double sum[AW_COUNT_KINDS] = {0};
    bool known[AW_COUNT_KINDS] = {false};
    struct aw_counted counted = {.counted = 1, .use = (double)NAN};
    for (uint32_t cpu = 0; cpu < counters->cpus; cpu++) {
        for (uint32_t kind = 0; kind < AW_COUNT_KINDS; kind++) {
            uint64_t now[3];
            double difference, share;
            if (counters->fd[cpu][kind] < 0 ||
                read(counters->fd[cpu][kind], now, sizeof now) != sizeof now)
                continue;
            known[kind] = true;
            if (aw_counter_difference(counters->last[cpu][kind], now, &difference, &share)) {
                sum[kind] += difference;
                counted.counted = fmin(counted.counted, share);
            } else {
                counted.backwards = true;
            }
            memcpy(counters->last[cpu][kind], now, sizeof now);
        }
    }
    counted.instructions = known[0] ? sum[0] : (double)NAN;
    counted.cycles = known[1] ? sum[1] : (double)NAN;
    counted.stalls = known[2] ? sum[2] : (double)NAN;
    uint64_t busy = counters->busy, idle = counters->idle;
    busy_read(counters->stat, &busy, &idle);
    const uint64_t all = busy - counters->busy + idle - counters->idle;
    if (busy >= counters->busy && idle >= counters->idle && all)
        counted.use = (double)(busy - counters->busy) / (double)all;
    counters->busy = busy;
    counters->idle = idle;
    *ret = counted;
}

void aw_counters_close(struct aw_counters *counters)
{
    for (uint32_t cpu = 0; cpu < counters->cpus; cpu++) {
        for (uint32_t kind = 0; kind < AW_COUNT_KINDS; kind++) {
            if (counters->fd[cpu][kind] >= 0)
                (void)close(counters->fd[cpu][kind]);
        }
    }
    *counters = (struct aw_counters){0};
}
