/*
 * alone.h - the p99 of a request that has a cluster to itself, remembered.
 *
 * aw_app_unloaded_p99_us draws thousands of requests, some milliseconds of CPU. Many copies of one
 * environment ask for the same applications again and again.
 *
 * Memory:  a table of AW__ALONE_PLACES applications, the process's; what comes later takes the
 *          place of what was there.
 * Threads: any.
 *
 * A pure function of its argument: what is remembered is what would be computed, bit by bit.
 */
#ifndef AW_ENV_AUTOSCALE_ALONE_H
#define AW_ENV_AUTOSCALE_ALONE_H

#include "workload/app.h"

#define AW__ALONE_PLACES 64u

double aw__alone_p99_us(const struct aw_app *app); /* at payload 1, nothing disturbed */

/* How often it had to be computed so far, for tests. */
uint64_t aw__alone_computed(void);

#endif
