/* target.c - URLs, read no more generously than http1.h reads paths. */
#include "load/target.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/net.h"
#include "base/text.h"

#define PORT_DEFAULT 80u

static enum aw_err resolve(const char *host, uint16_t port, struct sockaddr_in *ret,
                           struct aw_diag *diag)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const int failed = getaddrinfo(host, NULL, &hints, &list);
    if (failed)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s: %s", host, gai_strerror(failed));
    memcpy(ret, list->ai_addr, sizeof *ret);
    ret->sin_port = htons(port);
    freeaddrinfo(list);
    return AW_OK;
}

static enum aw_err bad(const char *url, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_fail(diag, AW_ERR_USAGE,
                   "expected a URL such as http://127.0.0.1:8080/path, found %s",
                   aw_text_quote(url, strlen(url), quoted, sizeof quoted));
}

enum aw_err aw_target_parse(const char *url, bool allow_remote, struct aw_target *ret,
                            struct aw_diag *diag)
{
    struct aw_target target = {.address = {.sin_family = AF_INET}};
    char host[AW_TARGET_HOST_MAX], address[AW_TARGET_HOST_MAX + 8];
    uint64_t port = PORT_DEFAULT;
    const char *at = url;
    if (!strncmp(at, "https://", 8))
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "expected http, found https: requests are sent "
                       "in the clear, through no TLS");
    if (!strncmp(at, "http://", 7))
        at += 7;
    const size_t len = strcspn(at, "/?#");
    const char *rest = at + len;
    const char *colon = memchr(at, ':', len);
    const size_t host_len = colon ? (size_t)(colon - at) : len;
    if ((host_len == 0 && !colon) || host_len >= sizeof host || memchr(at, '@', len))
        return bad(url, diag);
    memcpy(host, at, host_len);
    host[host_len] = '\0';
    if (host_len == 0) /* ":8080", as aw_net_parse has it */
        snprintf(host, sizeof host, "127.0.0.1");
    if (colon) {
        char digits[8] = "";
        const size_t digits_len = len - host_len - 1;
        if (digits_len >= sizeof digits)
            return bad(url, diag);
        memcpy(digits, colon + 1, digits_len);
        if (aw_text_parse_u64(digits, &port) || port < 1 || port > UINT16_MAX)
            return bad(url, diag);
    }
    for (const char *c = rest; *c; c++) {
        if (*c <= ' ' || *c >= 0x7f || strchr("#\"<>", *c))
            return bad(url, diag);
    }
    if (snprintf(target.path, sizeof target.path, "%s%s", *rest == '/' ? "" : "/", rest) >=
        (int)sizeof target.path)
        return bad(url, diag);
    snprintf(address, sizeof address, "%s:%u", host, (unsigned)port);
    enum aw_err err = aw_net_parse(address, &target.address, NULL);
    if (err && allow_remote)
        err = resolve(host, (uint16_t)port, &target.address, diag);
    else if (err)
        err = aw_fail(diag, AW_ERR_USAGE,
                      "%s: a name may be any machine; load goes to this one (127.0.0.1) unless "
                      "--allow-remote says that the target may be pressed",
                      host);
    if (err)
        return err;
    if (!allow_remote && !aw_net_is_loopback(&target.address))
        return aw_fail(diag, AW_ERR_USAGE,
                       "%s is not this machine; a load generator in the wrong direction is an "
                       "attack, so that needs --allow-remote",
                       host);
    snprintf(target.host, sizeof target.host, "%s", port == PORT_DEFAULT ? host : address);
    *ret = target;
    return AW_OK;
}
