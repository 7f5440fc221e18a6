/*
 * fake_nvml.h - what a fake libnvidia-ml.so.1 knows and did, in a file that tests map, too.
 *
 * The library is loaded as the real one would be, into the program under test and into its helper;
 * all of them see the one file that FAKE_NVML names. A test writes faults into it and reads what
 * was set. A file of zeroes is two healthy V100s with the old name of the reasons.
 */
#ifndef AW_TESTS_FAKE_NVML_H
#define AW_TESTS_FAKE_NVML_H

#include <stdint.h>

#define FAKE_NVML_ENV  "FAKE_NVML"
#define FAKE_NVML_GPUS 2u

struct fake_nvml_gpu {
    volatile uint32_t locked_mhz;   /* 0: not locked */
    volatile uint32_t limit_mw;     /* 0: the default */
    volatile uint32_t throttle_mhz; /* the clock stays below it; 0: it does not */
    volatile uint32_t locks, unlocks;
    volatile uint32_t lost;
    volatile uint32_t persistence_off;
    volatile uint32_t mig;
};
struct fake_nvml {
    volatile int init_code, set_code; /* returned by init; by whatever sets */
    volatile uint32_t ignores;        /* sets succeed and change nothing */
    volatile uint32_t no_gpus;
    volatile uint64_t energy_mj;
    struct fake_nvml_gpu gpu[FAKE_NVML_GPUS];
};

#endif
