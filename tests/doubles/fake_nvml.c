/* fake_nvml.c - the functions of NVML that the program uses, over a mapped file. */
#include "doubles/fake_nvml.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT      __attribute__((visibility("default")))
#define MAX_MHZ     1380u
#define DEFAULT_MW  300000u
#define LOST        15
#define UNSUPPORTED 3
#define NOT_STARTED 1
#define TOO_SMALL   7

static struct fake_nvml *fake;

#define DECLARE(name, ...)        \
    EXPORT int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

DECLARE(nvmlInit_v2, void)
{
    const char *path = getenv(FAKE_NVML_ENV);
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || ftruncate(fd, (off_t)sizeof *fake))
        return 999;
    void *at = mmap(NULL, sizeof *fake, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return 999;
    fake = at;
    return fake->init_code;
}

DECLARE(nvmlShutdown, void)
{
    if (!fake)
        return NOT_STARTED;
    munmap(fake, sizeof *fake);
    fake = NULL;
    return 0;
}

static int reach(void *device)
{
    return !fake ? NOT_STARTED : ((struct fake_nvml_gpu *)device)->lost ? LOST : 0;
}

DECLARE(nvmlDeviceGetCount_v2, unsigned *count)
{
    *count = fake->no_gpus ? 0 : FAKE_NVML_GPUS;
    return 0;
}

DECLARE(nvmlDeviceGetHandleByIndex_v2, unsigned index, void **device)
{
    *device = &fake->gpu[index];
    return reach(*device);
}

DECLARE(nvmlDeviceGetUUID, void *device, char *text, unsigned size)
{
    snprintf(text, size, "GPU-00000000-0000-0000-0000-00000000000%u",
             (unsigned)((struct fake_nvml_gpu *)device - fake->gpu));
    return reach(device);
}

DECLARE(nvmlDeviceGetName, void *device, char *text, unsigned size)
{
    snprintf(text, size, "Tesla V100-SXM2-16GB");
    return reach(device);
}

DECLARE(nvmlDeviceGetSupportedMemoryClocks, void *device, unsigned *count, unsigned *mhz)
{
    mhz[0] = 877;
    *count = 1;
    return reach(device);
}

/* The real one lists falling clocks, and says how many where there is too little room. */
DECLARE(nvmlDeviceGetSupportedGraphicsClocks, void *device, unsigned memory, unsigned *count,
        unsigned *mhz)
{
    unsigned n = 0;
    if (memory != 877)
        return 2;
    for (unsigned x2 = 2 * MAX_MHZ; x2 >= 270; x2 -= 15) {
        if (n == *count)
            return TOO_SMALL;
        mhz[n++] = x2 / 2;
    }
    *count = n;
    return reach(device);
}

DECLARE(nvmlDeviceGetMaxClockInfo, void *device, int kind, unsigned *mhz)
{
    *mhz = MAX_MHZ;
    return kind == 1 ? reach(device) : UNSUPPORTED;
}

static int may_set(void *device)
{
    return fake->set_code ? fake->set_code : reach(device);
}

DECLARE(nvmlDeviceSetGpuLockedClocks, void *device, unsigned low, unsigned high)
{
    struct fake_nvml_gpu *gpu = device;
    const int code = low != high ? 2 : may_set(device);
    if (code)
        return code;
    gpu->locks++;
    if (!fake->ignores)
        gpu->locked_mhz = high;
    return 0;
}

DECLARE(nvmlDeviceResetGpuLockedClocks, void *device)
{
    struct fake_nvml_gpu *gpu = device;
    const int code = may_set(device);
    if (code)
        return code;
    gpu->locked_mhz = 0;
    gpu->unlocks++;
    return 0;
}

DECLARE(nvmlDeviceSetPowerManagementLimit, void *device, unsigned mw)
{
    const int code = mw < 100000 || mw > 300000 ? 2 : may_set(device);
    if (!code && !fake->ignores)
        ((struct fake_nvml_gpu *)device)->limit_mw = mw;
    return code;
}

DECLARE(nvmlDeviceGetPowerManagementLimit, void *device, unsigned *mw)
{
    const struct fake_nvml_gpu *gpu = device;
    *mw = gpu->limit_mw ? gpu->limit_mw : DEFAULT_MW;
    return reach(device);
}

DECLARE(nvmlDeviceGetPowerManagementLimitConstraints, void *device, unsigned *low, unsigned *high)
{
    *low = 100000;
    *high = 300000;
    return reach(device);
}

DECLARE(nvmlDeviceGetPowerManagementDefaultLimit, void *device, unsigned *mw)
{
    *mw = DEFAULT_MW;
    return reach(device);
}

DECLARE(nvmlDeviceGetClockInfo, void *device, int kind, unsigned *mhz)
{
    const struct fake_nvml_gpu *gpu = device;
    const unsigned clock = gpu->locked_mhz ? gpu->locked_mhz : MAX_MHZ;
    *mhz = gpu->throttle_mhz && gpu->throttle_mhz < clock ? gpu->throttle_mhz : clock;
    return kind == 1 ? reach(device) : UNSUPPORTED;
}

DECLARE(nvmlDeviceGetPowerUsage, void *device, unsigned *mw)
{
    *mw = 120000;
    return reach(device);
}

DECLARE(nvmlDeviceGetTotalEnergyConsumption, void *device, unsigned long long *mj)
{
    *mj = fake->energy_mj;
    return reach(device);
}

DECLARE(nvmlDeviceGetCurrentClocksThrottleReasons, void *device, unsigned long long *reasons)
{
    *reasons = ((struct fake_nvml_gpu *)device)->throttle_mhz ? 0x40 : 0;
    return reach(device);
}

DECLARE(nvmlDeviceGetPersistenceMode, void *device, int *mode)
{
    *mode = !((struct fake_nvml_gpu *)device)->persistence_off;
    return reach(device);
}

DECLARE(nvmlDeviceGetMigMode, void *device, unsigned *now, unsigned *next)
{
    *now = *next = ((struct fake_nvml_gpu *)device)->mig;
    return reach(device);
}
