/* peer.c - a child process, two pipes, one line each way. */
#include "bench/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const char aw__bench_torch_py[]; /* torch_peer.py, embedded by the build */

/* In the child: becomes Python, reading the script from its command line. */
static _Noreturn void become_python(const char *python, int in, int out)
{
    /* Must be set before OpenBLAS is loaded: it makes its threads then. */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    int null = open("/dev/null", O_WRONLY);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || (null >= 0 && dup2(null, 2) < 0))
        _exit(127);
    execlp(python, python, "-c", aw__bench_torch_py, (char *)NULL);
    _exit(127);
}

static enum aw_err start(struct aw__peer *peer, const char *python, struct aw_diag *diag)
{
    int down[2] = {-1, -1}, up[2] = {-1, -1};
    enum aw_err err = AW_OK;
    if (pipe2(down, O_CLOEXEC) < 0 || pipe2(up, O_CLOEXEC) < 0) {
        err = aw_fail(diag, AW_ERR_IO, "no pipe to a peer: %s", strerror(errno));
        goto out;
    }
    pid_t pid = fork();
    if (pid < 0) {
        err = aw_fail(diag, AW_ERR_IO, "no process for a peer: %s", strerror(errno));
        goto out;
    }
    if (pid == 0)
        become_python(python, down[0], up[1]);
    peer->pid = pid;
    peer->to = fdopen(down[1], "w");
    peer->from = fdopen(up[0], "r");
    if (peer->to)
        down[1] = -1;
    if (peer->from)
        up[0] = -1;
    if (!peer->to || !peer->from) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a peer's streams");
        goto out;
    }
    close(down[0]);
    close(up[1]);
    down[0] = up[1] = -1;
    char line[256];
    int fast = 0;
    if (!fgets(line, sizeof line, peer->from) ||
        sscanf(line, "ready %63s %d", peer->version, &fast) != 2)
        err = AW_ERR_UNAVAILABLE; /* this Python has no torch; another may */
    else if (!fast)
        err =
            aw_fail(diag, AW_ERR_UNSUPPORTED,
                    "PyTorch %s runs without a tuned BLAS and is no opponent: install the package "
                    "libopenblas0-pthread",
                    peer->version);
out:
    for (int i = 0; i < 2; i++) {
        if (down[i] >= 0)
            close(down[i]);
        if (up[i] >= 0)
            close(up[i]);
    }
    if (err)
        aw__peer_close(peer);
    return err;
}

enum aw_err aw__peer_open(struct aw__peer *peer, struct aw_diag *diag)
{
    const char *own = getenv("AWARE_PYTHON");
    const char *const candidates[] = {own && *own ? own : "/usr/bin/python3", "python3"};
    *peer = (struct aw__peer){0};
    signal(SIGPIPE, SIG_IGN); /* a peer that dies is an error, not our end */
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        enum aw_err err = start(peer, candidates[i], diag);
        if (err != AW_ERR_UNAVAILABLE)
            return err;
    }
    return aw_fail(diag, AW_ERR_UNAVAILABLE,
                   "no Python with PyTorch was found: install the packages python3-torch and "
                   "libopenblas0-pthread, or set AWARE_PYTHON");
}

enum aw_err aw__peer_time(struct aw__peer *peer, const char *name, uint64_t count,
                          double *ret_seconds, struct aw_diag *diag)
{
    char line[64], *end;
    if (fprintf(peer->to, "%s %llu\n", name, (unsigned long long)count) < 0 ||
        fflush(peer->to) != 0 || !fgets(line, sizeof line, peer->from))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "PyTorch ended while running %s", name);
    double seconds = strtod(line, &end);
    if (end == line || !(seconds > 0))
        return aw_fail(diag, AW_ERR_FORMAT, "PyTorch answered \"%.40s\" for %s", line, name);
    *ret_seconds = seconds;
    return AW_OK;
}

void aw__peer_close(struct aw__peer *peer)
{
    if (peer->to)
        fclose(peer->to);
    if (peer->from)
        fclose(peer->from);
    if (peer->pid > 0)
        while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    *peer = (struct aw__peer){0};
}
