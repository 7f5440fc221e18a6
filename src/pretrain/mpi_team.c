/* mpi_team.c - alone, or with the module that speaks MPI. */
#include "pretrain/mpi_team.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

/* How many mpirun says there are: Open MPI's word, then that of MPICH and Slurm. */
static uint64_t size_asked(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    for (const char *const *name = names; *name; name++) {
        const char *text = getenv(*name);
        uint64_t size = 0;
        if (text && !aw_text_parse_u64(text, &size))
            return size;
    }
    return 1;
}

/* Beside the program, as it is built, or where it is installed. */
static void *module_open(void)
{
    static const char *const places[] = {"/" AW_MPI_TEAM_MODULE,
                                         "/../lib/aware/" AW_MPI_TEAM_MODULE, NULL};
    char folder[AW_FILE_PATH_MAX], path[AW_FILE_PATH_MAX + 64];
    const ssize_t len = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (len <= 0)
        return NULL;
    folder[len] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    for (const char *const *place = places; *place; place++) {
        snprintf(path, sizeof path, "%s%s", folder, *place);
        /* MPI loads parts of its own, which want to see its symbols */
        void *module = access(path, R_OK) ? NULL : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (module)
            return module;
    }
    return NULL;
}

enum aw_err aw_mpi_team_join(struct aw_mpi_team *team, struct aw_diag *diag)
{
    const uint64_t asked = size_asked();
    *team = (struct aw_mpi_team){.size = 1};
    if (asked <= 1)
        return AW_OK;
    void *module = module_open();
    if (!module)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "one of %llu processes, but " AW_MPI_TEAM_MODULE
                       " cannot be loaded: build where MPI is installed (libopenmpi-dev), or start "
                       "one process without mpirun",
                       (unsigned long long)asked);
    const struct aw_mpi_team_ops *ops = dlsym(module, AW_MPI_TEAM_SYMBOL);
    const bool begun =
        ops && ops->version == AW_MPI_TEAM_VERSION && !ops->begin(&team->rank, &team->size);
    if (!begun || team->size != asked) {
        const uint32_t size = team->size;
        if (begun)
            ops->finish();
        *team = (struct aw_mpi_team){.size = 1};
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       begun ? "one of %llu processes, but " AW_MPI_TEAM_MODULE
                               " sees %u: it was built for another MPI than this mpirun's"
                             : "one of %llu processes, but " AW_MPI_TEAM_MODULE
                               " is of another version of this program or does not start (%u)",
                       (unsigned long long)asked, size);
    }
    team->ops = ops;
    team->module = module;
    return AW_OK;
}

void aw_mpi_team_leave(struct aw_mpi_team *team)
{
    /* The module stays loaded: MPI has handlers of its own that run when the process ends. */
    if (team->ops)
        team->ops->finish();
    *team = (struct aw_mpi_team){.size = 1};
}

void aw_mpi_team_end(struct aw_mpi_team *team, int status)
{
    if (team->ops)
        team->ops->end(status);
}

enum aw_err aw_mpi_team_mean(void *ctx, float *values, size_t count)
{
    const struct aw_mpi_team *team = ctx;
    if (!team->ops)
        return AW_OK;
    if (team->ops->sum(values, count))
        return AW_ERR_UNAVAILABLE;
    const float share = 1.0f / (float)team->size;
    for (size_t i = 0; i < count; i++)
        values[i] *= share;
    return AW_OK;
}

enum aw_err aw_mpi_team_broadcast(void *ctx, void *bytes, size_t count)
{
    const struct aw_mpi_team *team = ctx;
    return !team->ops || !team->ops->broadcast(bytes, count) ? AW_OK : AW_ERR_UNAVAILABLE;
}

enum aw_err aw_mpi_team_barrier(void *ctx)
{
    const struct aw_mpi_team *team = ctx;
    return !team->ops || !team->ops->barrier() ? AW_OK : AW_ERR_UNAVAILABLE;
}
