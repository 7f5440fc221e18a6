/*
 * nvml.c - NVIDIA GPUs through NVML, loaded at run time.
 *
 * Own declarations of a stable ABI (nvml.h of the driver; names with a version are the ABI's, as
 * nvmlInit_v2). A symbol that is missing is a feature that is absent, but for the few without which
 * nothing works. Application clocks are deprecated and not used; locked clocks are (Volta and
 * later). Codes: 0 done, 2 invalid argument, 3 not supported, 4 no permission, 6 not found, 7
 * insufficient size, 9 driver not loaded, 13 function not found, 15 GPU lost, 18 library and driver
 * differ, 999 unknown.
 */
#include "device/devices.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define LIBRARY  "libnvidia-ml.so.1"
#define CLOCK_SM 1
#define CORE     0 /* the temperature sensor of the chip */

enum {
    NVML_OK = 0,
    NVML_ARGUMENT = 2,
    NVML_UNSUPPORTED = 3,
    NVML_PERMISSION = 4,
    NVML_SIZE = 7,
    NVML_NO_DRIVER = 9,
    NVML_LOST = 15,
    NVML_MISMATCH = 18
};

typedef void *nvml_device; /* opaque, as the library hands it out */
struct nvml_utilization {
    unsigned gpu, memory; /* percent */
};

typedef unsigned long long wide;
/* clang-format off */
/*     member         nvmlDevice...                         arguments after the device */
#define DEVICE_SYMBOLS(X)                                                               \
    X(uuid,           "GetUUID",                            char *, unsigned)           \
    X(name,           "GetName",                            char *, unsigned)           \
    X(memory_clocks,  "GetSupportedMemoryClocks",           unsigned *, unsigned *)     \
    X(clocks,         "GetSupportedGraphicsClocks",         unsigned, unsigned *, unsigned *) \
    X(max_clock,      "GetMaxClockInfo",                    int, unsigned *)            \
    X(lock,           "SetGpuLockedClocks",                 unsigned, unsigned)         \
    X(set_limit,      "SetPowerManagementLimit",            unsigned)                   \
    X(limit,          "GetPowerManagementLimit",            unsigned *)                 \
    X(limits,         "GetPowerManagementLimitConstraints", unsigned *, unsigned *)     \
    X(default_limit,  "GetPowerManagementDefaultLimit",     unsigned *)                 \
    X(clock,          "GetClockInfo",                       int, unsigned *)            \
    X(power,          "GetPowerUsage",                      unsigned *)                 \
    X(energy,         "GetTotalEnergyConsumption",          wide *)                     \
    X(reasons,        "GetCurrentClocksEventReasons",       wide *)                     \
    X(old_reasons,    "GetCurrentClocksThrottleReasons",    wide *)                     \
    X(utilization,    "GetUtilizationRates",                struct nvml_utilization *)  \
    X(temperature,    "GetTemperature",                     int, unsigned *)            \
    X(persistence,    "GetPersistenceMode",                 int *)                      \
    X(mig,            "GetMigMode",                         unsigned *, unsigned *)
/* clang-format on */

struct device {
    nvml_device handle;
    char id[AW_DEVICE_ID_MAX];
    uint32_t clock_count;
    uint32_t clock_mhz[AW_DEVICE_CLOCKS_MAX]; /* rising */
    bool limit_set;                           /* by this process */
};

struct nvml {
    const struct aw_alloc *alloc;
    void *library;
    uint32_t count;
    int (*init)(void);
    int (*shutdown)(void);
    int (*how_many)(unsigned *);
    int (*handle)(unsigned, nvml_device *);
    int (*unlock)(nvml_device);
#define X(member, symbol, ...) int (*member)(nvml_device, __VA_ARGS__);
    DEVICE_SYMBOLS(X)
#undef X
    struct device device[AW_DEVICES_MAX];
};

/* What a code means to the person who reads it. */
static enum aw_err judge(int code, const char *what, const char *id, struct aw_diag *diag)
{
    switch (code) {
    case NVML_OK:
        return AW_OK;
    case NVML_PERMISSION:
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "%s: %s: not permitted; it needs root or CAP_SYS_ADMIN: use the helper "
                       "(aware gpu helper, --device helper:SOCKET)",
                       id, what);
    case NVML_UNSUPPORTED:
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "%s: %s: this GPU cannot (locked clocks need Volta or later, and a whole "
                       "GPU: neither a vGPU nor a MIG slice)",
                       id, what);
    case NVML_ARGUMENT:
        return aw_fail(diag, AW_ERR_RANGE, "%s: %s: the driver refuses the value", id, what);
    case NVML_NO_DRIVER:
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       "%s: %s: the NVIDIA driver is not loaded (modprobe nvidia; nvidia-smi shows "
                       "whether it works)",
                       id, what);
    case NVML_MISMATCH:
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       "%s: %s: library and loaded driver are of different versions: reboot, or "
                       "reload the driver",
                       id, what);
    case NVML_LOST:
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       "%s: %s: the GPU is lost (it fell off the bus); it comes back after a reset "
                       "or a reboot",
                       id, what);
    default:
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s: %s: NVML code %d", id, what, code);
    }
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The clocks at the highest memory clock: the one under load. */
static void clocks_read(struct nvml *nvml, struct device *device)
{
    unsigned memory[AW_DEVICE_CLOCKS_MAX], clock[AW_DEVICE_CLOCKS_MAX], most = 0;
    unsigned memories = AW_DEVICE_CLOCKS_MAX, clocks = AW_DEVICE_CLOCKS_MAX;
    if (!nvml->memory_clocks || !nvml->clocks ||
        nvml->memory_clocks(device->handle, &memories, memory) != NVML_OK)
        return;
    for (unsigned i = 0; i < memories && i < AW_DEVICE_CLOCKS_MAX; i++)
        most = memory[i] > most ? memory[i] : most;
    if (!memories || nvml->clocks(device->handle, most, &clocks, clock) != NVML_OK)
        return;
    for (unsigned i = 0; i < clocks && i < AW_DEVICE_CLOCKS_MAX; i++)
        device->clock_mhz[device->clock_count++] = clock[i];
    qsort(device->clock_mhz, device->clock_count, sizeof *device->clock_mhz, by_number);
}

static uint32_t count(void *self)
{
    return ((struct nvml *)self)->count;
}

static void why_add(struct aw_text *why, const char *text)
{
    aw_text_add(why, "%s%s", why->len ? "; " : "", text);
}

static enum aw_err describe(void *self, uint32_t index, struct aw_device_info *ret_info,
                            struct aw_diag *diag)
{
    struct nvml *nvml = self;
    AW_ASSERT(index < nvml->count);
    const struct device *device = &nvml->device[index];
    struct aw_device_info info = {.capabilities = AW_DEVICE_IS_GPU,
                                  .clock_count = device->clock_count};
    struct aw_text why;
    unsigned value, low, high;
    int persistence;
    memcpy(info.id, device->id, sizeof info.id);
    memcpy(info.clock_mhz, device->clock_mhz, sizeof info.clock_mhz);
    aw_text_init(&why, info.why, sizeof info.why);
    enum aw_err err =
        judge(nvml->name(device->handle, info.name, sizeof info.name), "name", device->id, diag);
    if (err)
        return err;
    if (info.clock_count) {
        info.clock_mhz_min = info.clock_mhz[0];
        info.clock_mhz_max = info.clock_mhz[info.clock_count - 1];
    } else if (nvml->max_clock && nvml->max_clock(device->handle, CLOCK_SM, &value) == NVML_OK) {
        info.clock_mhz_max = value;
    }
    if (nvml->lock && nvml->unlock && info.clock_count)
        info.capabilities |= AW_DEVICE_SETS_CLOCK;
    else
        why_add(&why, "clocks cannot be locked (Volta or later, and a driver that can)");
    if (nvml->limits && nvml->limits(device->handle, &low, &high) == NVML_OK) {
        info.limit_mw_min = low;
        info.limit_mw_max = high;
        info.limit_mw_default = high;
        if (nvml->default_limit && nvml->default_limit(device->handle, &value) == NVML_OK)
            info.limit_mw_default = value;
        info.capabilities |= nvml->set_limit ? AW_DEVICE_SETS_LIMIT : 0u;
    }
    if (geteuid() != 0)
        why_add(&why, "setting needs root or the helper");
    if (nvml->persistence && nvml->persistence(device->handle, &persistence) == NVML_OK &&
        !persistence)
        why_add(&why, "persistence mode is off, so the driver forgets clocks when no program uses "
                      "the GPU (nvidia-smi -pm 1)");
    if (nvml->mig && nvml->mig(device->handle, &low, &high) == NVML_OK && low)
        why_add(&why, "MIG is on: a clock holds for all slices");
    *ret_info = info;
    return AW_OK;
}

static enum aw_err read_one(void *self, uint32_t index, int64_t now_us,
                            struct aw_device_reading *ret_reading, struct aw_diag *diag)
{
    struct nvml *nvml = self;
    AW_ASSERT(index < nvml->count);
    nvml_device handle = nvml->device[index].handle;
    struct aw_device_reading r = {.at_us = now_us};
    struct nvml_utilization utilization;
    unsigned value;
    wide total;
    int code = nvml->clock ? nvml->clock(handle, CLOCK_SM, &value) : NVML_UNSUPPORTED;
    if (code != NVML_OK && code != NVML_UNSUPPORTED)
        return judge(code, "clock", nvml->device[index].id, diag);
    if (code == NVML_OK) {
        r.known |= AW_DEVICE_CLOCK;
        r.clock_mhz = value;
    }
#define GET(bit, member, call)      \
    if ((call) == NVML_OK) {        \
        r.known |= (bit);           \
        r.member = (uint32_t)value; \
    }
    GET(AW_DEVICE_POWER, power_mw, nvml->power ? nvml->power(handle, &value) : -1)
    GET(AW_DEVICE_LIMIT, limit_mw, nvml->limit ? nvml->limit(handle, &value) : -1)
    GET(AW_DEVICE_TEMPERATURE, temperature_c,
        nvml->temperature ? nvml->temperature(handle, CORE, &value) : -1)
#undef GET
    if (nvml->energy && nvml->energy(handle, &total) == NVML_OK) {
        r.known |= AW_DEVICE_ENERGY;
        r.energy_uj = total * 1000u; /* mJ since the driver was loaded */
    }
    if (nvml->reasons && nvml->reasons(handle, &total) == NVML_OK) {
        r.known |= AW_DEVICE_REASONS;
        r.reasons = (uint32_t)total;
    }
    if (nvml->utilization && nvml->utilization(handle, &utilization) == NVML_OK) {
        r.known |= AW_DEVICE_BUSY;
        r.busy_permille = 10 * (utilization.gpu > 100 ? 100 : utilization.gpu);
    }
    *ret_reading = r;
    return AW_OK;
}

static enum aw_err set_clock(void *self, uint32_t index, uint32_t mhz,
                             int64_t now_us __attribute__((unused)), struct aw_diag *diag)
{
    struct nvml *nvml = self;
    AW_ASSERT(index < nvml->count);
    struct device *device = &nvml->device[index];
    if (!nvml->lock)
        return judge(NVML_UNSUPPORTED, "set clock", device->id, diag);
    bool listed = !device->clock_count;
    for (uint32_t i = 0; i < device->clock_count; i++)
        listed |= device->clock_mhz[i] == mhz;
    if (!listed)
        return aw_fail(diag, AW_ERR_RANGE, "%s: %u MHz is not a clock of this GPU", device->id,
                       mhz);
    return judge(nvml->lock(device->handle, mhz, mhz), "set clock", device->id, diag);
}

static enum aw_err set_limit(void *self, uint32_t index, uint32_t mw,
                             int64_t now_us __attribute__((unused)), struct aw_diag *diag)
{
    struct nvml *nvml = self;
    AW_ASSERT(index < nvml->count);
    struct device *device = &nvml->device[index];
    enum aw_err err =
        judge(nvml->set_limit ? nvml->set_limit(device->handle, mw) : NVML_UNSUPPORTED,
              "set power limit", device->id, diag);
    device->limit_set |= !err;
    return err;
}

/* Both are tried, whatever the first says. A limit is put back only where it differs. */
static enum aw_err reset(void *self, uint32_t index, int64_t now_us __attribute__((unused)),
                         struct aw_diag *diag)
{
    struct nvml *nvml = self;
    AW_ASSERT(index < nvml->count);
    struct device *device = &nvml->device[index];
    unsigned normal, present;
    enum aw_err err = judge(nvml->unlock ? nvml->unlock(device->handle) : NVML_UNSUPPORTED,
                            "reset clock", device->id, diag);
    if (nvml->set_limit && nvml->default_limit && nvml->limit &&
        nvml->default_limit(device->handle, &normal) == NVML_OK &&
        nvml->limit(device->handle, &present) == NVML_OK &&
        (device->limit_set || present != normal)) {
        struct aw_diag *second = err ? NULL : diag;
        const enum aw_err limit_err =
            judge(nvml->set_limit(device->handle, normal), "reset power limit", device->id, second);
        err = err ? err : limit_err;
        device->limit_set = limit_err && device->limit_set;
    }
    return err;
}

static void close_all(void *self)
{
    struct nvml *nvml = self;
    if (nvml->shutdown)
        (void)nvml->shutdown();
    (void)dlclose(nvml->library);
    aw_alloc_free(nvml->alloc, nvml);
}

static const struct aw_device_ops ops = {.name = "nvml",
                                         .count = count,
                                         .describe = describe,
                                         .read = read_one,
                                         .set_clock = set_clock,
                                         .set_limit = set_limit,
                                         .reset = reset,
                                         .close = close_all};

static enum aw_err symbols_find(struct nvml *nvml, const char *path, struct aw_diag *diag)
{
    /* POSIX lets a pointer to a function pass through one to an object; ISO C does not say so */
#define FIND(member, symbol)                                \
    do {                                                    \
        void *found = dlsym(nvml->library, symbol);         \
        memcpy(&nvml->member, &found, sizeof nvml->member); \
    } while (0)
#define X(member, symbol, ...) FIND(member, "nvmlDevice" symbol);
    DEVICE_SYMBOLS(X)
#undef X
    FIND(init, "nvmlInit_v2");
    FIND(shutdown, "nvmlShutdown");
    FIND(how_many, "nvmlDeviceGetCount_v2");
    FIND(handle, "nvmlDeviceGetHandleByIndex_v2");
    FIND(unlock, "nvmlDeviceResetGpuLockedClocks");
#undef FIND
    nvml->reasons = nvml->reasons ? nvml->reasons : nvml->old_reasons;
    if (nvml->init && nvml->how_many && nvml->handle && nvml->uuid && nvml->name)
        return AW_OK;
    return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s is not NVML, or older than its version 2", path);
}

static enum aw_err devices_find(struct nvml *nvml, struct aw_diag *diag)
{
    unsigned found = 0;
    enum aw_err err = judge(nvml->how_many(&found), "count", "NVML", diag);
    if (err)
        return err;
    for (unsigned i = 0; i < found && nvml->count < AW_DEVICES_MAX; i++) {
        struct device *device = &nvml->device[nvml->count];
        *device = (struct device){0};
        /* one that is lost or not ours to see is left out; its neighbours are not */
        if (nvml->handle(i, &device->handle) != NVML_OK ||
            nvml->uuid(device->handle, device->id, sizeof device->id) != NVML_OK)
            continue;
        clocks_read(nvml, device);
        nvml->count++;
    }
    if (!nvml->count)
        return aw_fail(
            diag, AW_ERR_NODATA,
            found ? "NVML knows %u GPUs, and none can be reached" : "NVML knows no GPU%.0u", found);
    return AW_OK;
}

enum aw_err aw__nvml_open(const char *library, const struct aw_alloc *alloc, struct aw_devices *ret,
                          struct aw_diag *diag)
{
    const char *path = library ? library : LIBRARY;
    struct nvml *nvml = aw_alloc_new(alloc, 1, sizeof *nvml);
    if (!nvml)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for NVML");
    nvml->alloc = alloc;
    enum aw_err err = AW_OK;
    if (!(nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        err = aw_fail(diag, AW_ERR_UNAVAILABLE,
                      "%s cannot be loaded: no NVIDIA driver here (in a container: run it with the "
                      "GPUs passed in)",
                      path);
        goto out;
    }
    if ((err = symbols_find(nvml, path, diag)) ||
        (err = judge(nvml->init(), "start", "NVML", diag)))
        goto out;
    if ((err = devices_find(nvml, diag))) {
        close_all(nvml);
        return err;
    }
    *ret = (struct aw_devices){&ops, nvml};
    return AW_OK;
out:
    if (nvml->library)
        (void)dlclose(nvml->library);
    aw_alloc_free(alloc, nvml);
    return err;
}
