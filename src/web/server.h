/*
 * server.h - the API, the page and the event stream over HTTP, by libmicrohttpd: on a Unix socket,
 * or on a TCP address.
 *
 * Call order: open once the API is there; close before the API goes.
 * Memory:     libmicrohttpd's, bounded per connection; bodies up to AW_API_BODY_MAX each and
 *             AW_SERVER_BODIES_BYTES_MAX together, answers under way up to
 *             AW_SERVER_ANSWERS_BYTES_MAX together: what is more is refused, to be asked again.
 * Threads:    two of its own (requests; news), which take no signals. open and close have one
 * owner.
 *
 * The socket is its owner's alone (0600), and so is its folder where it is made here (0700). What
 * lies at its path is removed only if it is a socket without a listener. Access by TCP is decided
 * by the door (listen_auth.h), and no other site's page may read an answer. A request that drips in
 * byte by byte has a deadline, and beyond loopback one address has its share of the connections: no
 * client keeps all others out.
 *
 * The trap: sockets have short paths, 107 bytes on Linux.
 */
#ifndef AW_WEB_SERVER_H
#define AW_WEB_SERVER_H

#include "web/api.h"
#include "web/listen_auth.h"

#define AW_SERVER_CONNECTIONS       64u /* at once; more wait in the socket's queue */
#define AW_SERVER_CONNECTIONS_TCP   1024u
#define AW_SERVER_CONNECTIONS_MAX   1024u
#define AW_SERVER_QUEUE             256    /* connections that wait */
#define AW_SERVER_IDLE_S            10u    /* without a byte, then a connection is closed */
#define AW_SERVER_ARRIVE            2u     /* times that, then a request has arrived whole */
#define AW_SERVER_SHARE             8u     /* part of the connections that one address may have */
#define AW_SERVER_CONNECTION_BYTES  32768u /* request line and headers */
#define AW_SERVER_TCP_BYTES         16384u /* the same by TCP, where more may come */
#define AW_SERVER_PATH_MAX          108u   /* of a socket, with the NUL: sun_path of unix(7) */
#define AW_SERVER_BODIES_BYTES_MAX  (16u << 20)
#define AW_SERVER_ANSWERS_BYTES_MAX (80u << 20) /* one export and what else is asked meanwhile */

/* Zeroed but for the path, or the door, is all defaults. */
struct aw_server_config {
    char path[AW_DISK_PATH_MAX]; /* of a Unix socket; "": listen at the door */
    struct aw_listen_auth door;
    uint32_t connections_max; /* 0: AW_SERVER_CONNECTIONS or _TCP */
    uint32_t idle_s;          /* 0: AW_SERVER_IDLE_S */
};

struct aw_server; /* opaque */

/* AW_ERR_LIMIT: the path is too long. AW_ERR_EXISTS: there is something else at it.
 * AW_ERR_UNAVAILABLE: another process listens there already. AW_ERR_IO, AW_ERR_NOMEM. `api` is
 * borrowed.
 */
AW_NODISCARD enum aw_err aw_server_open(struct aw_server **ret_server,
                                        const struct aw_server_config *config, struct aw_api *api,
                                        struct aw_diag *diag);
/* Ends what is under way, removes the socket. NULL is a no-op. */
void aw_server_close(struct aw_server *server);
/* The port that is listened on; 0 for a Unix socket. */
uint16_t aw_server_port(const struct aw_server *server);

#endif
