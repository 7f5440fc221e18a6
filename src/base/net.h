/*
 * net.h - addresses as people write them, and listening sockets: IPv4 and TCP.
 *
 * Memory:  nothing is allocated.
 * Threads: no shared state.
 */
#ifndef AW_BASE_NET_H
#define AW_BASE_NET_H

#include <aware/err.h>

#include <netinet/in.h>

#define AW_NET_TEXT_MAX 32u /* bytes of a printed address, with its NUL */

/* "127.0.0.1:8080", ":8080" (this machine's loopback), "localhost:8080", "0.0.0.0:80". Names are
 * not looked up: whoever may reach the network says where in figures. */
AW_NODISCARD enum aw_err aw_net_parse(const char *text, struct sockaddr_in *ret,
                                      struct aw_diag *diag);
const char *aw_net_print(const struct sockaddr_in *address, char *buf, size_t size);
/* Whether it can only be this machine: 127.0.0.0/8. */
bool aw_net_is_loopback(const struct sockaddr_in *address);

/* A listening socket, not blocking and closed on exec. Port 0: the system chooses; `ret_bound` has
 * it. AW_ERR_CONFLICT: the address is taken; AW_ERR_UNAVAILABLE: it cannot be had. */
AW_NODISCARD enum aw_err aw_net_listen(const struct sockaddr_in *address, int backlog, int *ret_fd,
                                       struct sockaddr_in *ret_bound, struct aw_diag *diag);

#endif
