/* nvml_testing.h - the fake NVML library as tests use it: its path, and the file it shares. */
#ifndef AW_DEVICE_NVML_TESTING_H
#define AW_DEVICE_NVML_TESTING_H

#include "base/testing.h"
#include "doubles/fake_nvml.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct nvml_world {
    char path[64];
    char spec[512]; /* "nvml:LIBRARY" */
    struct fake_nvml *fake;
};

/* False: the test does not know where the library is (it was not started by Meson). */
static inline bool nvml_world_make(struct nvml_world *world)
{
    const char *library = getenv("AW_FAKE_NVML");
    if (!library)
        return false;
    snprintf(world->spec, sizeof world->spec, "nvml:%s", library);
    snprintf(world->path, sizeof world->path, "/tmp/aware-nvml-XXXXXX");
    const int fd = mkstemp(world->path);
    assert_true(fd >= 0 && !ftruncate(fd, (off_t)sizeof *world->fake));
    void *at = mmap(NULL, sizeof *world->fake, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    close(fd);
    world->fake = at;
    setenv(FAKE_NVML_ENV, world->path, 1);
    return true;
}

static inline void nvml_world_end(struct nvml_world *world)
{
    munmap(world->fake, sizeof *world->fake);
    unlink(world->path);
}

#endif
