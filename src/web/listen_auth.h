/*
 * listen_auth.h - access by TCP: the address to listen on, the Host that a browser must have meant,
 * the token that lets orders through.
 *
 * Call order: parse an address, perhaps aw_file_read_token, then judge every request.
 * Memory:     plain struct.
 * Threads:    pure functions of their arguments.
 *
 * On a loopback address every user of the machine may look, and orders need the token. A page of
 * another site whose name points to 127.0.0.1 (DNS rebinding) is recognised by the Host that the
 * browser sends: only localhost and numeric addresses are taken. Beyond loopback everything but the
 * probes and the page's own files needs the token; no foreign page has that.
 *
 * A door for probes tells any client whether the process lives and is ready, and nothing else:
 * kubelets have no token.
 *
 * The trap: without TLS a token beyond loopback can be read on the way. Put a proxy with TLS in
 * front.
 */
#ifndef AW_WEB_LISTEN_AUTH_H
#define AW_WEB_LISTEN_AUTH_H

#include "base/file.h"

#include <sys/socket.h>

#define AW_LISTEN_AUTH_HOST_MAX 64u /* of a numeric address, with the NUL */

struct aw_listen_auth {
    char host[AW_LISTEN_AUTH_HOST_MAX]; /* numeric, without brackets */
    uint16_t port;                      /* 0: whichever is free */
    bool ipv6, loopback;
    bool probes;              /* for any client, and nothing but /healthz and /readyz */
    char token[AW_TOKEN_MAX]; /* "": none, nothing can be ordered */
};

/* "127.0.0.1:9180", "[::1]:9180", "localhost:9180" (127.0.0.1), "9180" (the same); port 0: any free
 * port. AW_ERR_FORMAT: not an address. */
AW_NODISCARD enum aw_err aw_listen_auth_parse(struct aw_listen_auth *door, const char *address,
                                              struct aw_diag *diag);
/* For bind. */
void aw_listen_auth_address(const struct aw_listen_auth *door, struct sockaddr_storage *ret,
                            socklen_t *ret_len);

struct aw_listen_auth_request {
    const char *method, *path;        /* path as it came, with its query */
    const char *host, *authorization; /* headers; NULL: none */
};
enum aw_listen_auth_verdict {
    AW_LISTEN_AUTH_OPEN,
    AW_LISTEN_AUTH_NO_HOST,    /* 400 */
    AW_LISTEN_AUTH_WRONG_HOST, /* 403 */
    AW_LISTEN_AUTH_READ_ONLY,  /* 403: there is no token that could be given */
    AW_LISTEN_AUTH_NO_TOKEN,   /* 401: none was given, or another */
    AW_LISTEN_AUTH_NO_PROBE,   /* 403: at a door for probes */
};
enum aw_listen_auth_verdict aw_listen_auth_judge(const struct aw_listen_auth *door,
                                                 const struct aw_listen_auth_request *request);
/* Whether the header carries the door's token; false where the door has none. The time it takes
 * does not tell how much of it was right. */
bool aw_listen_auth_knows(const struct aw_listen_auth *door, const char *authorization);

#endif
