/*
 * target.h - where requests go: a URL, and the guard against loading a stranger's server.
 *
 * Memory and threads: plain struct, pure function but for name look-up.
 */
#ifndef AW_LOAD_TARGET_H
#define AW_LOAD_TARGET_H

#include <aware/err.h>

#include <netinet/in.h>

#define AW_TARGET_HOST_MAX 256u
#define AW_TARGET_PATH_MAX 2048u

struct aw_target {
    struct sockaddr_in address;
    char host[AW_TARGET_HOST_MAX + 8]; /* as the Host header says it: with the port, unless 80 */
    char path[AW_TARGET_PATH_MAX];     /* and query, from '/' on */
};

/* "http://127.0.0.1:8080/path?query"; the scheme and the path may be left out. AW_ERR_USAGE: no
 * such URL, or an address beyond this machine without `allow_remote`; AW_ERR_UNSUPPORTED: https;
 * AW_ERR_UNAVAILABLE: a name that is not known. */
AW_NODISCARD enum aw_err aw_target_parse(const char *url, bool allow_remote, struct aw_target *ret,
                                         struct aw_diag *diag);

#endif
