/* process.c - fork, enter the groups, exec. */
#include "cluster/local/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum stage { STAGE_PARENT, STAGE_GROUP, STAGE_LOG, STAGE_USER, STAGE_PROGRAM };
struct failure {
    int stage, why;
};

static void give_up(int pipe_fd, enum stage stage)
{
    const struct failure failure = {.stage = (int)stage, .why = errno};
    const ssize_t written = write(pipe_fd, &failure, sizeof failure);
    (void)written; /* the parent then only knows that it failed */
    _exit(127);
}

/* Between fork and exec: other threads' locks may be held for ever, so system calls only. */
static void child(const struct aw__process_start *start, pid_t parent, int pipe_fd)
{
    sigset_t none;
    for (uint32_t i = 0; i < start->door_count; i++) {
        const int fd = open(start->doors[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1)
            give_up(pipe_fd, STAGE_GROUP);
        close(fd);
    }
    setsid(); /* an interrupt typed at the controller is for the controller, which then drains */
    const int in = open("/dev/null", O_RDWR);
    const int out = start->log ? open(start->log, O_WRONLY | O_CREAT | O_APPEND, 0600) : in;
    if (in < 0 || out < 0)
        give_up(pipe_fd, STAGE_LOG);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    /* the calls themselves: the library would tell threads that are not in this process */
    if (start->uid && (syscall(SYS_setgroups, 0, NULL) ||
                       syscall(SYS_setresgid, start->gid, start->gid, start->gid) ||
                       syscall(SYS_setresuid, start->uid, start->uid, start->uid)))
        give_up(pipe_fd, STAGE_USER);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        give_up(pipe_fd, STAGE_USER);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user forgets it: prctl(2) */
    if (getppid() != parent)          /* it died before that was said */
        _exit(127);
    /* whatever is open elsewhere in this process is not the replica's */
    syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
    for (int number = 1; number < NSIG; number++) /* ignored ones would stay ignored */
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(start->argv[0], start->argv, start->envp);
    give_up(pipe_fd, STAGE_PROGRAM);
}

enum aw_err aw__process_spawn(const struct aw__process_start *start, int *ret_pid,
                              struct aw_diag *diag)
{
    int ends[2];
    sigset_t all, before;
    struct failure failure = {0};
    if (pipe2(ends, O_CLOEXEC))
        return aw_fail(diag, AW_ERR_IO, "no pipe: %s", strerror(errno));
    const pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours runs in the child */
    const pid_t pid = fork();
    if (pid == 0)
        child(start, parent, ends[1]);
    const int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    ssize_t got = 0;
    if (pid > 0)
        do
            got = read(ends[0], &failure, sizeof failure);
        while (got < 0 && errno == EINTR);
    close(ends[0]);
    if (pid < 0)
        return aw_fail(diag, AW_ERR_IO, "no process: %s", strerror(why));
    if (got == 0) { /* the pipe went with the exec */
        *ret_pid = (int)pid;
        return AW_OK;
    }
    aw__process_wait((int)pid);
    const bool missing = failure.stage == STAGE_PROGRAM && failure.why == ENOENT;
    static const char *const what[] = {"its parent is gone", "its control group", "its log",
                                       "its user", NULL};
    return aw_fail(diag, missing ? AW_ERR_NOTFOUND : AW_ERR_IO, "%s: %s",
                   failure.stage == STAGE_PROGRAM ? start->argv[0] : what[failure.stage],
                   strerror(failure.why));
}

enum aw__process_state aw__process_status(int pid, int *ret_code)
{
    int status;
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR))
        return AW__PROCESS_RUNS;
    if (ended < 0) { /* somebody else has reaped it: all that is known is that it is gone */
        *ret_code = 0;
        return AW__PROCESS_EXITED;
    }
    if (WIFSIGNALED(status)) {
        *ret_code = WTERMSIG(status);
        return AW__PROCESS_SIGNALLED;
    }
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return AW__PROCESS_EXITED;
}

void aw__process_wait(int pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
}
