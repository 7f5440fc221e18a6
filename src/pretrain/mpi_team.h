/*
 * mpi_team.h - processes that were started together and work on one thing: their rank and number,
 * and the messages between them.
 *
 * The messages are MPI's (`mpirun -n 4 aware pretrain ...`). The program itself does not need MPI:
 * what does is a module beside it (libaware-mpi.so, built where MPI is found), which is loaded only
 * when mpirun started more than one process. Without mpirun a team has one member, and nothing is
 * sent.
 *
 * Call order: join; mean, broadcast and barrier, by all members in the same order; leave. A member
 *             that has failed calls end, which ends all members: they would wait for ever.
 * Memory:     none beyond the module's.
 * Threads:    one thread of each process.
 */
#ifndef AW_PRETRAIN_MPI_TEAM_H
#define AW_PRETRAIN_MPI_TEAM_H

#include <aware/err.h>

#define AW_MPI_TEAM_MODULE  "libaware-mpi.so"
#define AW_MPI_TEAM_SYMBOL  "aw_mpi_team_module"
#define AW_MPI_TEAM_VERSION 1u

/* What a module offers; no slot is ever NULL. A number other than 0: it failed. */
struct aw_mpi_team_ops {
    uint32_t version; /* AW_MPI_TEAM_VERSION, or it is not this program's */
    int (*begin)(uint32_t *ret_rank, uint32_t *ret_size);
    int (*sum)(float *values, size_t count); /* over all members, in place */
    int (*broadcast)(void *bytes, size_t count);
    int (*barrier)(void);
    void (*finish)(void);
    void (*end)(int status); /* ends all members, now; may return */
};

struct aw_mpi_team {
    uint32_t rank, size;               /* 0 of 1: alone */
    const struct aw_mpi_team_ops *ops; /* NULL: alone */
    void *module;
};

/* AW_ERR_UNSUPPORTED: one of several, and the module is not there or not of this version. */
AW_NODISCARD enum aw_err aw_mpi_team_join(struct aw_mpi_team *team, struct aw_diag *diag);
void aw_mpi_team_leave(struct aw_mpi_team *team); /* a zeroed one is a no-op */
void aw_mpi_team_end(struct aw_mpi_team *team, int status);

/* `team` is a struct aw_mpi_team, so that these fit where a function and a context are wanted.
 * AW_ERR_UNAVAILABLE: a member is lost. */
AW_NODISCARD enum aw_err aw_mpi_team_mean(void *team, float *values, size_t count);
AW_NODISCARD enum aw_err aw_mpi_team_broadcast(void *team, void *bytes,
                                               size_t count); /* of rank 0 */
AW_NODISCARD enum aw_err aw_mpi_team_barrier(void *team);

#endif
