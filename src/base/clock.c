/* clock.c - CLOCK_REALTIME, CLOCK_MONOTONIC, and a clock made of two numbers. */
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define US_PER_S  1000000
#define NS_PER_US 1000

static int64_t read_us(clockid_t id)
{
    struct timespec ts;
    AW_ASSERT(clock_gettime(id, &ts) == 0);
    return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / NS_PER_US;
}

static int64_t real_now_us(void *self)
{
    (void)self;
    return read_us(CLOCK_REALTIME);
}

static int64_t real_monotonic_us(void *self)
{
    (void)self;
    return read_us(CLOCK_MONOTONIC);
}

static enum aw_err real_sleep_until(void *self, int64_t monotonic_us)
{
    (void)self;
    if (monotonic_us <= 0)
        return AW_OK;
    /* An absolute sleep does not drift when it is interrupted and begun again. */
    struct timespec until = {.tv_sec = monotonic_us / US_PER_S,
                             .tv_nsec = monotonic_us % US_PER_S * NS_PER_US};
    int failed = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    AW_ASSERT(failed == 0 || failed == EINTR);
    return failed ? AW_ERR_INTERRUPTED : AW_OK;
}

const struct aw_clock aw_clock_real = {real_now_us, real_monotonic_us, real_sleep_until, NULL};

static int64_t virtual_now_us(void *self)
{
    return ((struct aw_clock_virtual *)self)->wall_us;
}

static int64_t virtual_monotonic_us(void *self)
{
    return ((struct aw_clock_virtual *)self)->mono_us;
}

static enum aw_err virtual_sleep_until(void *self, int64_t monotonic_us)
{
    struct aw_clock_virtual *virt = self;
    if (monotonic_us > virt->mono_us) {
        virt->sleep_count++;
        aw_clock_virtual_advance(virt, monotonic_us - virt->mono_us);
    }
    return AW_OK;
}

void aw_clock_virtual_init(struct aw_clock_virtual *virt, int64_t wall_us)
{
    *virt = (struct aw_clock_virtual){
        .clock = {virtual_now_us, virtual_monotonic_us, virtual_sleep_until, virt},
        .wall_us = wall_us,
    };
}

void aw_clock_virtual_advance(struct aw_clock_virtual *virt, int64_t us)
{
    AW_ASSERT(us >= 0);
    AW_ASSERT(!__builtin_add_overflow(virt->wall_us, us, &virt->wall_us));
    AW_ASSERT(!__builtin_add_overflow(virt->mono_us, us, &virt->mono_us));
}

static const struct aw_clock *or_real(const struct aw_clock *clock)
{
    return clock ? clock : &aw_clock_real;
}

int64_t aw_clock_now_us(const struct aw_clock *clock)
{
    clock = or_real(clock);
    return clock->now_us(clock->self);
}

int64_t aw_clock_monotonic_us(const struct aw_clock *clock)
{
    clock = or_real(clock);
    return clock->monotonic_us(clock->self);
}

enum aw_err aw_clock_sleep_until(const struct aw_clock *clock, int64_t monotonic_us)
{
    clock = or_real(clock);
    return clock->sleep_until(clock->self, monotonic_us);
}

static double cpu_s(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now))
        return 0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double aw_clock_thread_cpu_s(void)
{
    return cpu_s(CLOCK_THREAD_CPUTIME_ID);
}

double aw_clock_process_cpu_s(void)
{
    return cpu_s(CLOCK_PROCESS_CPUTIME_ID);
}

/* --- for people ------------------------------------------------------------------------------- */

#define YEAR_US (INT64_C(365) * 86400 * 1000000)

const char *aw_time_show_us(int64_t us, char *buf, size_t size)
{
    struct tm tm;
    const time_t seconds = (time_t)(us / 1000000);
    if (us >= 0 && us < YEAR_US) {
        const long long day = us / 86400000000, s = us / 1000000 % 86400;
        if (day > 0)
            snprintf(buf, size, "%lldd %02lld:%02lld:%02lld", day, s / 3600, s / 60 % 60, s % 60);
        else
            snprintf(buf, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
        return buf;
    }
    if (!gmtime_r(&seconds, &tm) || !strftime(buf, size, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(buf, size, "?");
    return buf;
}
