/* listen.c - see listen.h. */
#include "rpc/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/net.h"

enum aw_err aw__listen_parse(struct aw__listen *listen, const char *text, struct aw_diag *diag)
{
    struct aw__listen made = {.local = true};
    struct sockaddr_in address;
    char printed[AW_NET_TEXT_MAX];
    const char *path = !strncmp(text, "unix:", 5) ? text + 5 : *text == '/' ? text : NULL;
    if (path) {
        if (!*path || strlen(path) >= sizeof made.path)
            return aw_fail(diag, AW_ERR_CONFIG,
                           "expected the path of a socket, 1 to %zu bytes, found %zu",
                           sizeof made.path - 1, strlen(path));
        snprintf(made.path, sizeof made.path, "%s", path);
        snprintf(made.target, sizeof made.target, "unix:%s", path);
    } else {
        if (aw_net_parse(text, &address, diag))
            return AW_ERR_CONFIG;
        made.local = aw_net_is_loopback(&address);
        snprintf(made.target, sizeof made.target, "%s",
                 aw_net_print(&address, printed, sizeof printed));
    }
    *listen = made;
    return AW_OK;
}

enum aw_err aw__listen_prepare(const struct aw__listen *listen, struct aw_diag *diag)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat there;
    if (!*listen->path || (lstat(listen->path, &there) && errno == ENOENT))
        return AW_OK;
    if (!S_ISSOCK(there.st_mode))
        return aw_fail_at(diag, AW_ERR_EXISTS, listen->path, 0, 0, NULL,
                          "is there already, and is not a socket");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return aw_fail(diag, AW_ERR_IO, "no socket: %s", strerror(errno));
    snprintf(address.sun_path, sizeof address.sun_path, "%s", listen->path);
    const bool refused =
        connect(fd, (const struct sockaddr *)&address, sizeof address) && errno == ECONNREFUSED;
    close(fd);
    if (!refused)
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, listen->path, 0, 0, NULL,
                          "someone listens there already");
    if (unlink(listen->path) && errno != ENOENT)
        return aw_fail_at(diag, AW_ERR_IO, listen->path, 0, 0, NULL, "cannot be removed: %s",
                          strerror(errno));
    return AW_OK;
}
