/*
 * net.h - addresses as people write them, and listening sockets: IPv4 and TCP, and Unix sockets.
 *
 * Memory:  nothing is allocated.
 * Threads: no shared state.
 */
#ifndef AW_BASE_NET_H
#define AW_BASE_NET_H

#include <aware/err.h>

#include <netinet/in.h>
#include <sys/un.h>

#define AW_NET_TEXT_MAX      32u  /* bytes of a printed address, with its NUL */
#define AW_NET_UNIX_PATH_MAX 108u /* bytes of a Unix socket's path, with its NUL: unix(7) */
/* The variable that offers a replica a path: if it listens there beside its port, it is asked
 * there. */
#define AW_NET_UNIX_ENV "AWARE_SOCKET"

/* "127.0.0.1:8080", ":8080" (this machine's loopback), "localhost:8080", "0.0.0.0:80". Names are
 * not looked up: hosts that may connect are given as IP addresses. */
AW_NODISCARD enum aw_err aw_net_parse(const char *text, struct sockaddr_in *ret,
                                      struct aw_diag *diag);
const char *aw_net_print(const struct sockaddr_in *address, char *buf, size_t size);
/* Whether it can only be this machine: 127.0.0.0/8. */
bool aw_net_is_loopback(const struct sockaddr_in *address);

/* A listening socket, not blocking and closed on exec. Port 0: the system chooses; `ret_bound` has
 * it. AW_ERR_CONFLICT: the address is taken; AW_ERR_UNAVAILABLE: it cannot be had. */
AW_NODISCARD enum aw_err aw_net_listen(const struct sockaddr_in *address, int backlog, int *ret_fd,
                                       struct sockaddr_in *ret_bound, struct aw_diag *diag);

/* AW_ERR_LIMIT: empty, or longer than AW_NET_UNIX_PATH_MAX. */
AW_NODISCARD enum aw_err aw_net_unix(const char *path, struct sockaddr_un *ret,
                                     struct aw_diag *diag);
/* The same at a path, for its owner alone (mode 0600). The caller unlinks the path: a file that a
 * dead process has left is AW_ERR_CONFLICT, and never removed here. */
AW_NODISCARD enum aw_err aw_net_listen_unix(const char *path, int backlog, int *ret_fd,
                                            struct aw_diag *diag);

/* All of it, with the flags of send(2) and no SIGPIPE; false: the connection is broken. */
bool aw_net_send_all(int fd, const char *bytes, size_t len, int flags);
/* recv(2), begun again after a signal. */
ssize_t aw_net_receive(int fd, char *buf, size_t size);

#endif
