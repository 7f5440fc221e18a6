/* helper_client.c - the devices of a helper as aware/device.h has them, and spawning one. */
#include "device/helper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/net.h"
#include "device/devices.h"
#include "device/helper_wire.h"

#define ANSWER_S 5 /* a driver that hangs for longer is given up */

struct remote {
    const struct aw_alloc *alloc;
    int fd;
    pid_t child; /* that was spawned; 0: none */
    uint32_t count;
};

/* One question, one answer. */
static enum aw_err ask(struct remote *remote, enum aw__helper_op op, uint32_t index, uint32_t value,
                       int64_t now_us, struct aw__helper_tell *ret, struct aw_diag *diag)
{
    const struct aw__helper_ask question = {
        .magic = AW__HELPER_MAGIC, .op = op, .index = index, .value = value, .now_us = now_us};
    struct aw__helper_tell tell;
    ssize_t got = -1;
    if (remote->fd >= 0 &&
        send(remote->fd, &question, sizeof question, MSG_NOSIGNAL) == sizeof question) {
        do {
            got = recv(remote->fd, &tell, sizeof tell, 0);
        } while (got < 0 && errno == EINTR);
    }
    if (got != sizeof tell || tell.magic != AW__HELPER_MAGIC || tell.op != op) {
        /* an answer that comes late would be taken for the next: this connection is over, and
         * with it whatever was set */
        if (remote->fd >= 0)
            (void)close(remote->fd);
        remote->fd = -1;
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       "the helper that sets clocks does not answer; clocks are being reset");
    }
    if (tell.err)
        return aw_fail(diag, tell.err < AW_ERR_COUNT ? (enum aw_err)tell.err : AW_ERR_IO, "%.250s",
                       tell.text);
    *ret = tell;
    return AW_OK;
}

static uint32_t count(void *self)
{
    return ((struct remote *)self)->count;
}

static enum aw_err describe(void *self, uint32_t index, struct aw_device_info *ret_info,
                            struct aw_diag *diag)
{
    struct aw__helper_tell tell;
    enum aw_err err = ask(self, AW__HELPER_DESCRIBE, index, 0, 0, &tell, diag);
    if (!err)
        *ret_info = tell.info;
    return err;
}

static enum aw_err read_one(void *self, uint32_t index, int64_t now_us,
                            struct aw_device_reading *ret_reading, struct aw_diag *diag)
{
    struct aw__helper_tell tell;
    enum aw_err err = ask(self, AW__HELPER_READ, index, 0, now_us, &tell, diag);
    if (!err)
        *ret_reading = tell.reading;
    return err;
}

static enum aw_err set_clock(void *self, uint32_t index, uint32_t mhz, int64_t now_us,
                             struct aw_diag *diag)
{
    struct aw__helper_tell tell;
    return ask(self, AW__HELPER_CLOCK, index, mhz, now_us, &tell, diag);
}

static enum aw_err set_limit(void *self, uint32_t index, uint32_t mw, int64_t now_us,
                             struct aw_diag *diag)
{
    struct aw__helper_tell tell;
    return ask(self, AW__HELPER_LIMIT, index, mw, now_us, &tell, diag);
}

static enum aw_err reset(void *self, uint32_t index, int64_t now_us, struct aw_diag *diag)
{
    struct aw__helper_tell tell;
    return ask(self, AW__HELPER_RESET, index, 0, now_us, &tell, diag);
}

static void close_all(void *self)
{
    struct remote *remote = self;
    if (remote->fd >= 0)
        (void)close(remote->fd);
    if (remote->child) /* it resets first: who has closed finds the clocks as they were */
        (void)waitpid(remote->child, NULL, 0);
    aw_alloc_free(remote->alloc, remote);
}

static const struct aw_device_ops ops = {.name = "helper",
                                         .count = count,
                                         .describe = describe,
                                         .read = read_one,
                                         .set_clock = set_clock,
                                         .set_limit = set_limit,
                                         .reset = reset,
                                         .close = close_all};

/* Takes `fd`, whatever comes of it. */
static enum aw_err remote_new(int fd, pid_t spawned, const struct aw_alloc *alloc,
                              struct aw_devices *ret, struct aw_diag *diag)
{
    const struct timeval patience = {.tv_sec = ANSWER_S};
    struct aw__helper_tell tell;
    struct remote *remote = aw_alloc_new(alloc, 1, sizeof *remote);
    if (!remote) {
        (void)close(fd);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the helper's client");
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    *remote = (struct remote){.alloc = alloc, .fd = fd, .child = spawned};
    enum aw_err err = ask(remote, AW__HELPER_HELLO, 0, 0, 0, &tell, diag);
    if (!err && tell.count > AW_DEVICES_MAX)
        err = aw_fail(diag, AW_ERR_LIMIT, "the helper has %u devices", tell.count);
    if (err) {
        close_all(remote);
        return err;
    }
    remote->count = tell.count;
    *ret = (struct aw_devices){&ops, remote};
    return AW_OK;
}

enum aw_err aw_device_helper_connect(const char *path, const struct aw_alloc *alloc,
                                     struct aw_devices *ret, struct aw_diag *diag)
{
    struct sockaddr_un address;
    enum aw_err err = aw_net_unix(path, &address, diag);
    if (err)
        return err;
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        const int failed = errno;
        if (fd >= 0)
            (void)close(fd);
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       failed == EACCES ? "%s: %s; who may set clocks is the group of this socket"
                                        : "%s: %s; start a helper there: aware gpu helper --socket",
                       path, strerror(failed));
    }
    return remote_new(fd, 0, alloc, ret, diag);
}

/* The child: its own session, so that neither Ctrl-C nor a hangup of the terminal ends it before
 * its client; nothing open but the socket and what its devices open. */
AW_NORETURN static void child(const char *spec, int fd,
                              const struct aw_device_helper_config *config)
{
    struct aw_devices devices = {0};
    struct aw_diag diag = {0};
    sigset_t all;
    (void)setsid();
    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    if (fd > 3)
        (void)close_range(3, (unsigned)fd - 1, 0);
    (void)close_range((unsigned)fd + 1, ~0u, 0);
    enum aw_err err = aw_devices_open(spec, NULL, &devices, &diag);
    if (err) {
        /* the client's first question gets this answer */
        struct aw__helper_ask question;
        struct aw__helper_tell tell = {.magic = AW__HELPER_MAGIC, .err = err};
        snprintf(tell.text, sizeof tell.text, "%.250s", diag.text);
        if (recv(fd, &question, sizeof question, 0) == sizeof question)
            (void)send(fd, &tell, sizeof tell, MSG_NOSIGNAL);
        _exit(1);
    }
    err = aw_device_helper_serve(&devices, -1, fd, config, &diag);
    aw_devices_close(&devices);
    _exit(err ? 1 : 0);
}

enum aw_err aw_device_helper_spawn(const char *spec, const struct aw_device_helper_config *config,
                                   const struct aw_alloc *alloc, struct aw_devices *ret,
                                   struct aw_diag *diag)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no socket: %s", strerror(errno));
    const pid_t pid = fork();
    if (pid < 0) {
        (void)close(pair[0]);
        (void)close(pair[1]);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no process: %s", strerror(errno));
    }
    if (!pid)
        child(spec, pair[1], config);
    (void)close(pair[1]);
    return remote_new(pair[0], pid, alloc, ret, diag);
}

void aw_device_helper_beat(const struct aw_devices *devices)
{
    struct aw__helper_tell tell;
    if (devices->ops == &ops)
        (void)ask(devices->self, AW__HELPER_BEAT, 0, 0, 0, &tell, NULL);
}
