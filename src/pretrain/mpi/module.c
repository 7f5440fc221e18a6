/*
 * module.c - what mpi_team.h needs of MPI, as a library that is loaded when needed.
 *
 * Sums are made of whole arrays in one order: every member gets the same bits, which weights that
 * must stay the same everywhere depend on. MPI_Allreduce does not promise that (MPI 4.0, section
 * 6.9.1, advises it); rank 0 adds up and tells the rest does.
 */
#include <limits.h>
#include <mpi.h>

#include "pretrain/mpi_team.h"

static int begin(uint32_t *ret_rank, uint32_t *ret_size)
{
    int rank = 0, size = 0, provided = 0;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS)
        return -1;
    *ret_rank = (uint32_t)rank;
    *ret_size = (uint32_t)size;
    return 0;
}

static int sum(float *values, size_t count)
{
    int rank = 0;
    if (count > INT_MAX || MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS)
        return -1;
    if (MPI_Reduce(rank == 0 ? MPI_IN_PLACE : values, values, (int)count, MPI_FLOAT, MPI_SUM, 0,
                   MPI_COMM_WORLD) != MPI_SUCCESS)
        return -1;
    return MPI_Bcast(values, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -1;
}

static int broadcast(void *bytes, size_t count)
{
    if (count > INT_MAX)
        return -1;
    return MPI_Bcast(bytes, (int)count, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -1;
}

static int barrier(void)
{
    return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -1;
}

static void finish(void)
{
    MPI_Finalize();
}

static void end(int status)
{
    MPI_Abort(MPI_COMM_WORLD, status);
}

extern __attribute__((visibility("default"))) const struct aw_mpi_team_ops aw_mpi_team_module;
const struct aw_mpi_team_ops aw_mpi_team_module = {
    AW_MPI_TEAM_VERSION, begin, sum, broadcast, barrier, finish, end};
