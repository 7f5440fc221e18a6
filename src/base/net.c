/* net.c - addresses and listening sockets. */
#include "base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

#define PORT_MAX 65535u

enum aw_err aw_net_parse(const char *text, struct sockaddr_in *ret, struct aw_diag *diag)
{
    char host[INET_ADDRSTRLEN] = "127.0.0.1", quoted[AW_TEXT_QUOTE_MAX];
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *colon = strrchr(text, ':');
    const size_t host_len = colon ? (size_t)(colon - text) : 0;
    uint64_t port = 0;
    bool ok =
        colon && host_len < sizeof host && !aw_text_parse_u64(colon + 1, &port) && port <= PORT_MAX;
    if (ok && host_len && !(host_len == 9 && !memcmp(text, "localhost", 9))) {
        memcpy(host, text, host_len);
        host[host_len] = '\0';
    }
    if (!ok || inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return aw_fail(diag, AW_ERR_USAGE, "expected ADDRESS:PORT such as 127.0.0.1:8080, found %s",
                       aw_text_quote(text, strlen(text), quoted, sizeof quoted));
    address.sin_port = htons((uint16_t)port);
    *ret = address;
    return AW_OK;
}

const char *aw_net_print(const struct sockaddr_in *address, char *buf, size_t size)
{
    char host[INET_ADDRSTRLEN] = "?";
    (void)inet_ntop(AF_INET, &address->sin_addr, host, sizeof host);
    snprintf(buf, size, "%s:%u", host, ntohs(address->sin_port));
    return buf;
}

bool aw_net_is_loopback(const struct sockaddr_in *address)
{
    return ntohl(address->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

enum aw_err aw_net_listen(const struct sockaddr_in *address, int backlog, int *ret_fd,
                          struct sockaddr_in *ret_bound, struct aw_diag *diag)
{
    char text[AW_NET_TEXT_MAX];
    struct sockaddr_in bound;
    socklen_t len = sizeof bound;
    const int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* a port whose last owner has just gone may be had at once */
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (const struct sockaddr *)address, sizeof *address) != 0 ||
        listen(fd, backlog) != 0 || getsockname(fd, (struct sockaddr *)&bound, &len) != 0) {
        const int failed = errno;
        if (fd >= 0)
            (void)close(fd);
        return aw_fail(diag, failed == EADDRINUSE ? AW_ERR_CONFLICT : AW_ERR_UNAVAILABLE,
                       "cannot listen on %s: %s", aw_net_print(address, text, sizeof text),
                       strerror(failed));
    }
    *ret_fd = fd;
    *ret_bound = bound;
    return AW_OK;
}

enum aw_err aw_net_unix(const char *path, struct sockaddr_un *ret, struct aw_diag *diag)
{
    _Static_assert(sizeof ret->sun_path == AW_NET_UNIX_PATH_MAX, "as unix(7) has it");
    const size_t len = strlen(path);
    if (!len || len >= AW_NET_UNIX_PATH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "the path of a Unix socket has 1 to %u bytes, found %zu: %.64s",
                       AW_NET_UNIX_PATH_MAX - 1, len, path);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, path, len);
    return AW_OK;
}

enum aw_err aw_net_listen_unix(const char *path, int backlog, int *ret_fd, struct aw_diag *diag)
{
    struct sockaddr_un address;
    enum aw_err err = aw_net_unix(path, &address, diag);
    if (err)
        return err;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = false;
    /* Linux makes the file with the mode that the socket has when it is bound: nobody else can
     * connect in between, as somebody could before a chmod(2) of the file. */
    if (fd < 0 || fchmod(fd, 0600) != 0 ||
        !(bound = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0) ||
        listen(fd, backlog) != 0) {
        const int failed = errno;
        if (bound)
            (void)unlink(path);
        if (fd >= 0)
            (void)close(fd);
        return aw_fail(diag, failed == EADDRINUSE ? AW_ERR_CONFLICT : AW_ERR_UNAVAILABLE,
                       "cannot listen on %s: %s", path,
                       failed == EADDRINUSE ? "it is there already" : strerror(failed));
    }
    *ret_fd = fd;
    return AW_OK;
}

bool aw_net_send_all(int fd, const char *bytes, size_t len, int flags)
{
    while (len) {
        const ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL | flags);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

ssize_t aw_net_receive(int fd, char *buf, size_t size)
{
    ssize_t n;
    do
        n = recv(fd, buf, size, 0);
    while (n < 0 && errno == EINTR);
    return n;
}
