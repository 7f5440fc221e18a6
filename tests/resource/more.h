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
      "disk of a replica in bytes per second", "a replica's disk bandwidth", "", "",               \
      0, 0, 1 << 20, disk_mib, 0x1p-20, "a MiB/s of disk", "0.001")                                \
    X(CLOCK, clock_mhz,        clock, COUNT, 10000,            false, false, CPU,                  \
      "clock of a replica in MHz", "a replica's clock", "", "",                                    \
      0, 0, 100, ghz, 1e-3, "a GHz", "0")                                                          \
    X(HUGE,  huge_page_bytes,  huge,  BYTES, INT64_C(1) << 40, false, true,  MEMORY,               \
      "huge pages of a replica in bytes", "a replica's huge pages", "", "",                        \
      0, 0, 2 << 20, huge_gib, 0x1p-30, "a GiB of huge pages", "0.006")
/* clang-format on */

#endif
