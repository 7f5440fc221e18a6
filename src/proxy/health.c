/*
 * health.c - asks each upstream whether it is there: GET of a path, any answer below 500 is yes.
 *
 * An upstream that refuses a connection is out at once; one that does not answer is out after two
 * questions. One good answer brings it back.
 */
#include "proxy/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define FAILURES_MAX 2u
#define ANSWER_US    2000000

void aw__proxy_health_down(struct aw_proxy *proxy, struct aw__proxy_upstream *upstream,
                           const char *why)
{
    upstream->failures = FAILURES_MAX;
    snprintf(upstream->why, sizeof upstream->why, "%.95s", why);
    if (!upstream->healthy)
        return;
    upstream->healthy = false;
    upstream->down_us = proxy->now_us;
    aw_log_warn(proxy->config.log, "an upstream is down", AW_LOG_STR("upstream", upstream->text),
                AW_LOG_STR("why", why));
}

static void ended(struct aw_proxy *proxy, struct aw__proxy_upstream *upstream, const char *wrong)
{
    aw__proxy_unwatch(&upstream->probe.handle);
    upstream->probe.next_us = proxy->now_us + proxy->config.health_us;
    if (wrong) {
        if (++upstream->failures >= FAILURES_MAX)
            aw__proxy_health_down(proxy, upstream, wrong);
        return;
    }
    upstream->failures = 0;
    if (!upstream->healthy)
        aw_log_info(proxy->config.log, "an upstream is back",
                    AW_LOG_STR("upstream", upstream->text));
    proxy->dispatch_due |= !upstream->healthy;
    upstream->healthy = true;
    upstream->why[0] = '\0';
}

static void begin(struct aw_proxy *proxy, struct aw__proxy_upstream *upstream)
{
    struct aw__proxy_probe *probe = &upstream->probe;
    probe->handle.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe->handle.fd < 0)
        return; /* no descriptors: nothing is learned of the upstream */
    probe->asked = false;
    probe->got = 0;
    probe->deadline_us = proxy->now_us + ANSWER_US;
    if ((connect(probe->handle.fd, (const struct sockaddr *)&upstream->config.address,
                 sizeof upstream->config.address) != 0 &&
         errno != EINPROGRESS) ||
        !aw__proxy_watch(proxy, &probe->handle, AW__PROXY_PROBE,
                         (uint32_t)(upstream - proxy->upstream)))
        ended(proxy, upstream, strerror(errno));
}

void aw__proxy_health_event(struct aw_proxy *proxy, struct aw__proxy_upstream *upstream)
{
    struct aw__proxy_probe *probe = &upstream->probe;
    if (!probe->asked && probe->handle.writable) {
        char ask[AW_PROXY_HEALTH_MAX + 128];
        const int len =
            snprintf(ask, sizeof ask, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                     proxy->config.health, upstream->text);
        int failed = 0;
        socklen_t size = sizeof failed;
        (void)getsockopt(probe->handle.fd, SOL_SOCKET, SO_ERROR, &failed, &size);
        struct iovec part = {ask, (size_t)len};
        if (failed || aw__proxy_write(&probe->handle, &part, 1) != len) {
            if (failed)
                upstream->failures = FAILURES_MAX; /* nobody listens: no need to ask twice */
            ended(proxy, upstream,
                  failed ? strerror(failed) : "the health check could not be sent");
            return;
        }
        probe->asked = true;
    }
    while (probe->asked && probe->got < 12) {
        const ssize_t got =
            aw__proxy_read(&probe->handle, probe->answer + probe->got, 12 - probe->got);
        if (got < 0 || (!got && probe->handle.ended && !probe->handle.readable)) {
            ended(proxy, upstream, "no answer to the health check");
            return;
        }
        if (!got)
            return;
        probe->got += (uint32_t)got;
        probe->handle.readable = true;
    }
    if (probe->got < 12)
        return;
    const bool http = !memcmp(probe->answer, "HTTP/1.", 7);
    ended(proxy, upstream,
          !http                     ? "the health check got no HTTP"
          : probe->answer[9] == '5' ? "the health check got a status of 500 or more"
                                    : NULL);
}

void aw__proxy_health_sweep(struct aw_proxy *proxy, struct aw__proxy_upstream *upstream)
{
    if (upstream->probe.handle.fd < 0) {
        if (proxy->now_us >= upstream->probe.next_us)
            begin(proxy, upstream);
    } else if (proxy->now_us > upstream->probe.deadline_us) {
        ended(proxy, upstream, "no answer to the health check in time");
    }
}
