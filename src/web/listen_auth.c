/* listen_auth.c - an address, a Host and a token, judged. */
#include "web/listen_auth.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define LOOPBACK "127.0.0.1"

/* --- the address ------------------------------------------------------------------------------ */

static enum aw_err no_address(const char *text, struct aw_diag *diag)
{
    return aw_fail(
        diag, AW_ERR_FORMAT,
        "expected an address and a port such as 127.0.0.1:9180 or [::1]:9180, found %s",
        aw_text_quote(text, strlen(text), (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX));
}

/* Splits "host:port"; a host of six has brackets. `ret_host` of AW_LISTEN_AUTH_HOST_MAX bytes. */
static bool split(const char *text, char *ret_host, const char **ret_port)
{
    const char *begin = text, *end = strrchr(text, ':');
    if (*text == '[') {
        begin = text + 1;
        end = strchr(text, ']');
        if (!end || end[1] != ':')
            return false;
        *ret_port = end + 2;
    } else if (end) {
        *ret_port = end + 1;
    } else {
        begin = end = ""; /* a port alone */
        *ret_port = text;
    }
    if ((size_t)(end - begin) >= AW_LISTEN_AUTH_HOST_MAX)
        return false;
    memcpy(ret_host, begin, (size_t)(end - begin));
    ret_host[end - begin] = '\0';
    return true;
}

static bool is_loopback(const char *host, bool *ret_ipv6, bool *ret_numeric)
{
    struct in_addr four;
    struct in6_addr six;
    *ret_ipv6 = inet_pton(AF_INET6, host, &six) == 1;
    const bool is_four = inet_pton(AF_INET, host, &four) == 1;
    *ret_numeric = *ret_ipv6 || is_four;
    if (is_four)
        return ntohl(four.s_addr) >> 24 == 127;
    return *ret_ipv6 && IN6_IS_ADDR_LOOPBACK(&six);
}

enum aw_err aw_listen_auth_parse(struct aw_listen_auth *door, const char *address,
                                 struct aw_diag *diag)
{
    struct aw_listen_auth parsed = {.probes = door->probes};
    const char *port_text;
    uint64_t port;
    bool numeric;
    if (!split(address, parsed.host, &port_text) || strchr(port_text, '_') ||
        aw_text_parse_u64(port_text, &port) || port > UINT16_MAX)
        return no_address(address, diag);
    if (!*parsed.host || strcmp(parsed.host, "localhost") == 0)
        snprintf(parsed.host, sizeof parsed.host, LOOPBACK);
    parsed.loopback = is_loopback(parsed.host, &parsed.ipv6, &numeric);
    if (!numeric || (parsed.ipv6 && *address != '['))
        return no_address(address, diag);
    parsed.port = (uint16_t)port;
    memcpy(parsed.token, door->token, sizeof parsed.token);
    *door = parsed;
    return AW_OK;
}

void aw_listen_auth_address(const struct aw_listen_auth *door, struct sockaddr_storage *ret,
                            socklen_t *ret_len)
{
    *ret = (struct sockaddr_storage){0};
    if (door->ipv6) {
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(door->port)};
        inet_pton(AF_INET6, door->host, &six.sin6_addr);
        memcpy(ret, &six, sizeof six);
        *ret_len = sizeof six;
    } else {
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(door->port)};
        inet_pton(AF_INET, door->host, &four.sin_addr);
        memcpy(ret, &four, sizeof four);
        *ret_len = sizeof four;
    }
}

/* --- the token -------------------------------------------------------------------------------- */

bool aw_listen_auth_knows(const struct aw_listen_auth *door, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    char given[AW_TOKEN_MAX] = {0};
    unsigned char differs = 0;
    if (!*door->token || !authorization ||
        strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *text = authorization + sizeof scheme - 1;
    const size_t len = strnlen(text, sizeof given);
    if (len == sizeof given)
        return false;
    memcpy(given, text, len);
    for (size_t i = 0; i < sizeof given; i++) /* all of it, whatever differs first */
        differs |= (unsigned char)(given[i] ^ door->token[i]);
    return differs == 0;
}

/* --- a request -------------------------------------------------------------------------------- */

/* localhost or a numeric loopback address; whichever port, since tunnels have their own. */
static bool host_is_local(const struct aw_listen_auth *door, const char *host)
{
    char name[AW_LISTEN_AUTH_HOST_MAX];
    bool ipv6, numeric;
    const char *end = *host == '[' ? strchr(host, ']') : strchr(host, ':');
    const char *begin = *host == '[' ? host + 1 : host;
    const char *behind = *host == '[' && end ? end + 1 : end;
    if (*host == '[' && !end)
        return false;
    if (behind && *behind &&
        (*behind != ':' || strspn(behind + 1, "0123456789") != strlen(behind + 1)))
        return false;
    const size_t len = end ? (size_t)(end - begin) : strlen(begin);
    if (len == 0 || len >= sizeof name)
        return false;
    memcpy(name, begin, len);
    name[len] = '\0';
    return strcasecmp(name, "localhost") == 0 || strcmp(name, door->host) == 0 ||
           is_loopback(name, &ipv6, &numeric);
}

static bool begins(const char *path, const char *with)
{
    const size_t len = strlen(with);
    return strncmp(path, with, len) == 0 &&
           (path[len] == '\0' || path[len] == '/' || path[len] == '?');
}

/* What tells of workloads; the rest is files that everybody can build. */
static bool tells(const char *path)
{
    return begins(path, "/v1") || begins(path, "/metrics") || begins(path, "/reports");
}

enum aw_listen_auth_verdict aw_listen_auth_judge(const struct aw_listen_auth *door,
                                                 const struct aw_listen_auth_request *request)
{
    const bool reads = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    if (!request->host || !*request->host)
        return AW_LISTEN_AUTH_NO_HOST;
    if (door->probes)
        return reads && (strcmp(request->path, "/healthz") == 0 ||
                         strcmp(request->path, "/readyz") == 0)
                   ? AW_LISTEN_AUTH_OPEN
                   : AW_LISTEN_AUTH_NO_PROBE;
    if (door->loopback && !host_is_local(door, request->host))
        return AW_LISTEN_AUTH_WRONG_HOST;
    if (reads && (door->loopback || !tells(request->path)))
        return AW_LISTEN_AUTH_OPEN;
    if (!*door->token)
        return AW_LISTEN_AUTH_READ_ONLY;
    return aw_listen_auth_knows(door, request->authorization) ? AW_LISTEN_AUTH_OPEN
                                                              : AW_LISTEN_AUTH_NO_TOKEN;
}
