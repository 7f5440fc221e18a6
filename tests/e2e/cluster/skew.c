/*
 * skew.c - a wall clock that is wrong by AWARE_SKEW_S seconds, for a program that loads this before
 * the C library (tests/e2e/cluster/skewed). Monotonic time and sleeping stay as they are: a machine
 * whose clock is wrong still waits as long as it should.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long skew_s(void)
{
    const char *text = getenv("AWARE_SKEW_S");
    return text ? strtol(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t which, struct timespec *ret)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    const int failed = real(which, ret);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        ret->tv_sec += skew_s();
    return failed;
}

time_t time(time_t *ret)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now = {0};
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    ret->tv_sec = now.tv_sec;
    ret->tv_usec = now.tv_nsec / 1000;
    return 0;
}
