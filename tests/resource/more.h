/*
 * more.h - three rows behind those of aware/resource.h, for row_test.c: this is all that a new
 * resource takes, beside what sets it in a cluster.
 *
 * Included before everything else, by the compiler's command line.
 */
#ifndef AW_TESTS_RESOURCE_MORE_H
#define AW_TESTS_RESOURCE_MORE_H

/* clang-format off */
#define AW_RESOURCE_MORE(X)                                                                        \
    X(DISK,  disk_bytes_per_s, disk,  BYTES, INT64_C(1) << 40, false, false, CPU,                  \
      "disk of a replica in bytes per second", "a replica's disk bandwidth", "", "")               \
    X(CLOCK, clock_mhz,        clock, COUNT, 10000,            false, false, CPU,                  \
      "clock of a replica in MHz", "a replica's clock", "", "")                                    \
    X(HUGE,  huge_page_bytes,  huge,  BYTES, INT64_C(1) << 40, false, true,  MEMORY,               \
      "huge pages of a replica in bytes", "a replica's huge pages", "", "")
/* clang-format on */

#endif
