/*
 * peer.h - the other side of a comparison: a Python process that runs a case on request.
 *
 * Call order: open, time as often as wanted, close.
 * Threads:    single owner.
 *
 * The peer is asked round by round, so that it and we alternate: on a shared machine two figures
 * compare only when they were taken in the same minute.
 */
#ifndef AW_BENCH_PEER_H
#define AW_BENCH_PEER_H

#include <aware/err.h>

#include <stdio.h>
#include <sys/types.h>

struct aw__peer {
    pid_t pid;
    FILE *to, *from;
    char version[64]; /* of PyTorch */
};

/* Starts AWARE_PYTHON, /usr/bin/python3 or python3, whichever can import torch, with the embedded
 * script. AW_ERR_UNAVAILABLE names the packages to install; AW_ERR_UNSUPPORTED: it multiplies
 * matrices without a tuned BLAS, and beating that would prove nothing. */
AW_NODISCARD enum aw_err aw__peer_open(struct aw__peer *peer, struct aw_diag *diag);
/* CPU seconds of one thread for `count` runs of `name`. */
AW_NODISCARD enum aw_err aw__peer_time(struct aw__peer *peer, const char *name, uint64_t count,
                                       double *ret_seconds, struct aw_diag *diag);
void aw__peer_close(struct aw__peer *peer); /* waits for it; a zeroed one is a no-op */

#endif
