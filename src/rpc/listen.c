/* listen.c - see listen.h; and the file that holds a token. */
#include "rpc/listen.h"

#include <errno.h>
#include <fcntl.h>
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
                          "somebody listens there already");
    if (unlink(listen->path) && errno != ENOENT)
        return aw_fail_at(diag, AW_ERR_IO, listen->path, 0, 0, NULL, "cannot be removed: %s",
                          strerror(errno));
    return AW_OK;
}

enum aw_err aw_rpc_token_read(const char *path, char *ret_token, struct aw_diag *diag)
{
    char text[AW_RPC_TOKEN_MAX + 1];
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return aw_fail_at(diag, errno == ENOENT ? AW_ERR_NOTFOUND : AW_ERR_IO, path, 0, 0, NULL,
                          "%s", strerror(errno));
    const bool readable = !fstat(fd, &status);
    const ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (!readable || got < 0)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot be read");
    if (status.st_mode & (S_IRWXG | S_IRWXO))
        return aw_fail_at(diag, AW_ERR_CONFIG, path, 0, 0, NULL,
                          "others may read the token; make it its owner's alone: chmod 600");
    text[got] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    const size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return aw_fail_at(diag, AW_ERR_CONFIG, path, 1, (uint32_t)i + 1, NULL,
                              "a token has only printable characters, and no spaces");
    if (len < AW_RPC_TOKEN_MIN || len >= AW_RPC_TOKEN_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, path, 0, 0, NULL,
                          "expected a token of %u to %u characters, found %zu", AW_RPC_TOKEN_MIN,
                          AW_RPC_TOKEN_MAX - 1, len);
    memcpy(ret_token, text, len + 1);
    return AW_OK;
}
