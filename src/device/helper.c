/* helper.c - the privileged side: who controls, what was touched, when to put it back. */
#include "device/helper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/net.h"
#include "base/text.h"
#include "device/helper_wire.h"

#define TURN_MS     200 /* how often the stop flag is looked at */
#define NOTE_MAX    (AW_DEVICES_MAX * (AW_DEVICE_ID_MAX + 12u))
#define RESET_TRIES 20 /* of each device, 100 ms apart: a driver may be busy for a moment */

struct client {
    int fd; /* -1: none */
    pid_t pid;
    bool controls;
    int64_t heard_us;
};

struct helper {
    const struct aw_devices *devices;
    const struct aw_device_helper_config *config;
    int64_t watchdog_us;
    uint32_t count;
    bool touched[AW_DEVICES_MAX];
    char id[AW_DEVICES_MAX][AW_DEVICE_ID_MAX];
    uint32_t found[AW_DEVICES_MAX]; /* clock that reset puts back; 0: the driver knows */
    bool noted[AW_DEVICES_MAX];     /* `found` is of a note: what is there now was left behind */
    uint32_t low[AW_DEVICES_MAX], high[AW_DEVICES_MAX]; /* clocks that may be set */
    struct client client[AW_DEVICE_HELPER_CLIENTS_MAX];
};

/* What is touched, a line each: its id, and the clock that it had. The file is there before the
 * device is touched. */
static enum aw_err note(const struct helper *helper, struct aw_diag *diag)
{
    char bytes[NOTE_MAX];
    struct aw_text text;
    if (!helper->config->state_path)
        return AW_OK;
    aw_text_init(&text, bytes, sizeof bytes);
    for (uint32_t i = 0; i < helper->count; i++) {
        if (helper->touched[i])
            aw_text_add(&text, "%s %u\n", helper->id[i], helper->found[i]);
    }
    return aw_file_replace(helper->config->state_path, bytes, text.len, NULL, diag);
}

static enum aw_err reset_one(const struct helper *helper, uint32_t index, int64_t now_us,
                             struct aw_diag *diag)
{
    const struct aw_device_ops *ops = helper->devices->ops;
    return helper->noted[index] && helper->found[index]
               ? ops->set_clock(helper->devices->self, index, helper->found[index], now_us, diag)
               : ops->reset(helper->devices->self, index, now_us, diag);
}

static void reset_touched(struct helper *helper, const char *why, pid_t pid)
{
    bool any = false;
    for (uint32_t i = 0; i < helper->count; i++) {
        struct aw_diag diag = {0};
        enum aw_err err = AW_OK;
        if (!helper->touched[i])
            continue;
        for (uint32_t tries = 0; tries < RESET_TRIES; tries++) {
            err = reset_one(helper, i, aw_clock_monotonic_us(NULL), &diag);
            if (!err || !aw_err_transient(err))
                break;
            (void)poll(NULL, 0, 100);
        }
        any = true;
        if (err) {
            aw_log_error(helper->config->log, "a clock could not be reset",
                         AW_LOG_STR("device", helper->id[i]), AW_LOG_STR("why", diag.text));
            continue; /* stays noted, so that the next start tries again */
        }
        helper->touched[i] = false;
        aw_log_info(helper->config->log, "clock and limit reset",
                    AW_LOG_STR("device", helper->id[i]), AW_LOG_STR("because", why),
                    AW_LOG_INT("client", pid));
    }
    if (any && note(helper, NULL))
        aw_log_warn(helper->config->log, "the note of touched devices could not be written",
                    AW_LOG_STR("path", helper->config->state_path));
}

static void leave(struct helper *helper, struct client *client, const char *why)
{
    if (client->controls)
        reset_touched(helper, why, client->pid);
    (void)close(client->fd);
    *client = (struct client){.fd = -1};
}

static void join(struct helper *helper, int fd)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    for (uint32_t i = 0; i < AW_DEVICE_HELPER_CLIENTS_MAX; i++) {
        if (helper->client[i].fd >= 0)
            continue;
        helper->client[i] =
            (struct client){.fd = fd, .pid = peer.pid, .heard_us = aw_clock_monotonic_us(NULL)};
        return;
    }
    (void)close(fd);
}

/* Whether this client may set, which makes it the one that controls. */
static enum aw_err control(struct helper *helper, struct client *client, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < AW_DEVICE_HELPER_CLIENTS_MAX; i++) {
        const struct client *other = &helper->client[i];
        if (other != client && other->fd >= 0 && other->controls)
            return aw_fail(diag, AW_ERR_CONFLICT, "process %d controls these devices already",
                           (int)other->pid);
    }
    client->controls = true;
    return AW_OK;
}

static enum aw_err change(struct helper *helper, struct client *client,
                          const struct aw__helper_ask *ask, struct aw_diag *diag)
{
    const struct aw_device_ops *ops = helper->devices->ops;
    void *self = helper->devices->self;
    const uint32_t i = ask->index;
    enum aw_err err = control(helper, client, diag);
    if (err)
        return err;
    if (ask->op == AW__HELPER_CLOCK &&
        (ask->value < helper->low[i] || ask->value > helper->high[i]))
        return aw_fail(diag, AW_ERR_RANGE, "%s: expected %u to %u MHz, found %u", helper->id[i],
                       helper->low[i], helper->high[i], ask->value);
    if (ask->op == AW__HELPER_RESET) {
        if (!(err = reset_one(helper, i, ask->now_us, diag)))
            helper->touched[i] = false;
        (void)note(helper, NULL);
    } else {
        const bool before = helper->touched[i];
        helper->touched[i] = true;
        if (!before && (err = note(helper, diag))) {
            helper->touched[i] = false; /* what cannot be noted is not touched */
            return err;
        }
        err = ask->op == AW__HELPER_CLOCK ? ops->set_clock(self, i, ask->value, ask->now_us, diag)
                                          : ops->set_limit(self, i, ask->value, ask->now_us, diag);
    }
    aw_log_info(helper->config->log,
                ask->op == AW__HELPER_RESET   ? "reset"
                : ask->op == AW__HELPER_CLOCK ? "clock set"
                                              : "limit set",
                AW_LOG_STR("device", helper->id[i]), AW_LOG_INT("value", ask->value),
                AW_LOG_INT("client", client->pid), AW_LOG_STR("error", err ? diag->text : NULL));
    return err;
}

static void answer(struct helper *helper, struct client *client, const struct aw__helper_ask *ask)
{
    struct aw__helper_tell tell = {
        .magic = AW__HELPER_MAGIC, .op = ask->op, .count = helper->count};
    struct aw_diag diag = {0};
    enum aw_err err = AW_OK;
    const struct aw_device_ops *ops = helper->devices->ops;
    if (ask->op != AW__HELPER_HELLO && ask->op != AW__HELPER_BEAT && ask->index >= helper->count)
        err = aw_fail(&diag, AW_ERR_RANGE, "device %u of %u", ask->index, helper->count);
    else if (ask->op == AW__HELPER_DESCRIBE)
        err = ops->describe(helper->devices->self, ask->index, &tell.info, &diag);
    else if (ask->op == AW__HELPER_READ)
        err = ops->read(helper->devices->self, ask->index, ask->now_us, &tell.reading, &diag);
    else if (ask->op != AW__HELPER_HELLO && ask->op != AW__HELPER_BEAT)
        err = change(helper, client, ask, &diag);
    tell.err = err;
    snprintf(tell.text, sizeof tell.text, "%.250s", diag.text);
    if (send(client->fd, &tell, sizeof tell, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof tell)
        leave(helper, client, "the client does not take answers");
}

static void hear(struct helper *helper, struct client *client)
{
    struct aw__helper_ask ask;
    const ssize_t got = recv(client->fd, &ask, sizeof ask, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        leave(helper, client, "the client is gone");
        return;
    }
    if (got != sizeof ask || ask.magic != AW__HELPER_MAGIC || ask.op >= AW__HELPER_OPS) {
        leave(helper, client, "the client speaks otherwise");
        return;
    }
    client->heard_us = aw_clock_monotonic_us(NULL);
    answer(helper, client, &ask);
}

/* What a helper that was killed has left. */
static void mend(struct helper *helper)
{
    char *bytes = NULL;
    size_t len = 0;
    if (!helper->config->state_path ||
        aw_file_read(helper->config->state_path, NOTE_MAX, NULL, &bytes, &len, NULL))
        return;
    for (char *rest = bytes, *line; (line = strsep(&rest, "\n"));) {
        const char *id = strsep(&line, " ");
        uint64_t mhz = 0;
        if (!line || aw_text_parse_u64(line, &mhz) || mhz > UINT32_MAX)
            continue; /* torn: the rest of it is not there */
        for (uint32_t i = 0; i < helper->count; i++) {
            if (strcmp(id, helper->id[i]) != 0)
                continue;
            helper->touched[i] = helper->noted[i] = true;
            helper->found[i] = (uint32_t)mhz;
        }
    }
    aw_alloc_free(NULL, bytes);
    reset_touched(helper, "a helper before this one was killed", 0);
}

static enum aw_err helper_init(struct helper *helper, const struct aw_devices *devices,
                               const struct aw_device_helper_config *config, struct aw_diag *diag)
{
    *helper = (struct helper){.devices = devices,
                              .config = config,
                              .watchdog_us = config->watchdog_us ? config->watchdog_us
                                                                 : AW_DEVICE_HELPER_WATCHDOG_US,
                              .count = devices->ops->count(devices->self)};
    for (uint32_t i = 0; i < AW_DEVICE_HELPER_CLIENTS_MAX; i++)
        helper->client[i].fd = -1;
    for (uint32_t i = 0; i < helper->count; i++) {
        struct aw_device_info info;
        enum aw_err err = devices->ops->describe(devices->self, i, &info, diag);
        if (err)
            return err;
        memcpy(helper->id[i], info.id, sizeof info.id);
        helper->low[i] = info.clock_mhz_min;
        helper->high[i] = info.clock_mhz_max;
        helper->found[i] = info.clock_mhz_reset;
    }
    return AW_OK;
}

static bool any_client(const struct helper *helper)
{
    bool any = false;
    for (uint32_t i = 0; i < AW_DEVICE_HELPER_CLIENTS_MAX; i++)
        any |= helper->client[i].fd >= 0;
    return any;
}

static void turn(struct helper *helper, int listen_fd)
{
    struct pollfd fds[AW_DEVICE_HELPER_CLIENTS_MAX + 1];
    for (uint32_t i = 0; i < AW_DEVICE_HELPER_CLIENTS_MAX; i++)
        fds[i] = (struct pollfd){.fd = helper->client[i].fd, .events = POLLIN};
    fds[AW_DEVICE_HELPER_CLIENTS_MAX] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
    const int ready = poll(fds, AW_DEVICE_HELPER_CLIENTS_MAX + 1, TURN_MS);
    for (uint32_t i = 0; ready > 0 && i < AW_DEVICE_HELPER_CLIENTS_MAX; i++) {
        if (helper->client[i].fd >= 0 && fds[i].revents)
            hear(helper, &helper->client[i]);
    }
    if (ready > 0 && fds[AW_DEVICE_HELPER_CLIENTS_MAX].revents) {
        const int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            join(helper, fd);
    }
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    for (uint32_t i = 0; i < AW_DEVICE_HELPER_CLIENTS_MAX; i++) {
        struct client *client = &helper->client[i];
        if (client->fd < 0 || !client->controls || now_us - client->heard_us <= helper->watchdog_us)
            continue;
        /* it stays connected, and may set again; until then the clocks are the system's */
        reset_touched(helper, "the client was silent for too long", client->pid);
        client->controls = false;
    }
}

enum aw_err aw_device_helper_serve(const struct aw_devices *devices, int listen_fd, int client_fd,
                                   const struct aw_device_helper_config *config,
                                   struct aw_diag *diag)
{
    struct helper helper;
    enum aw_err err = helper_init(&helper, devices, config, diag);
    if (err)
        return err;
    mend(&helper);
    if (client_fd >= 0)
        join(&helper, client_fd);
    while (!(config->stop && *config->stop) && (listen_fd >= 0 || any_client(&helper)))
        turn(&helper, listen_fd);
    reset_touched(&helper, "the helper ends", 0);
    for (uint32_t i = 0; i < AW_DEVICE_HELPER_CLIENTS_MAX; i++) {
        if (helper.client[i].fd >= 0)
            (void)close(helper.client[i].fd);
    }
    return AW_OK;
}

enum aw_err aw_device_helper_listen(const char *path, int *ret_fd, struct aw_diag *diag)
{
    struct sockaddr_un address;
    enum aw_err err = aw_net_unix(path, &address, diag);
    if (err)
        return err;
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no socket: %s", strerror(errno));
    struct stat st;
    if (!connect(fd, (const struct sockaddr *)&address, sizeof address)) {
        (void)close(fd);
        return aw_fail(diag, AW_ERR_CONFLICT, "a helper listens at %s already", path);
    }
    if (!lstat(path, &st) && S_ISSOCK(st.st_mode))
        (void)unlink(path);
    if (fchmod(fd, 0660) || bind(fd, (const struct sockaddr *)&address, sizeof address) ||
        listen(fd, (int)AW_DEVICE_HELPER_CLIENTS_MAX)) {
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "cannot listen at %s: %s", path, strerror(errno));
        (void)close(fd);
        return err;
    }
    *ret_fd = fd;
    return AW_OK;
}
