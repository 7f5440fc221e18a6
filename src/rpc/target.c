/* target.c - see target.h. */
#include "rpc/target.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* A piece of the text; never NUL-terminated. */
struct piece {
    const char *at;
    size_t len;
};

static enum aw_err copy(struct piece piece, char *room, size_t size, const char *what,
                        struct aw_diag *diag)
{
    if (!piece.len || piece.len >= size)
        return aw_fail(diag, AW_ERR_USAGE, "%s: expected 1 to %zu bytes, found %zu", what, size - 1,
                       piece.len);
    memcpy(room, piece.at, piece.len);
    room[piece.len] = '\0';
    return AW_OK;
}

static bool is(struct piece piece, const char *word)
{
    return piece.len == strlen(word) && !memcmp(piece.at, word, piece.len);
}

#define SET_PREFIX "set."

static enum aw_err env_option(struct aw_rpc_target *target, struct piece key, struct piece value,
                              struct aw_diag *diag)
{
    if (target->option_count == AW_RPC_TARGET_OPTIONS)
        return aw_fail(diag, AW_ERR_USAGE, "more than %u options of the environment",
                       AW_RPC_TARGET_OPTIONS);
    struct aw_rpc_target_option *made = &target->option[target->option_count];
    enum aw_err err = copy(key, made->key, sizeof made->key, "the key of an option", diag);
    if (!err)
        err = copy(value, made->value, sizeof made->value, made->key, diag);
    target->option_count += !err;
    return err;
}

static enum aw_err option(struct aw_rpc_target *target, struct piece key, struct piece value,
                          struct aw_diag *diag)
{
    char number[16], quoted[AW_TEXT_QUOTE_MAX];
    uint64_t seconds;
    if (is(key, "env"))
        return copy(value, target->env, sizeof target->env, "env", diag);
    if (is(key, "ca"))
        return copy(value, target->ca_path, sizeof target->ca_path, "ca", diag);
    if (is(key, "token"))
        return copy(value, target->token_path, sizeof target->token_path, "token", diag);
    const size_t set = strlen(SET_PREFIX);
    if (key.len > set && !memcmp(key.at, SET_PREFIX, set))
        return env_option(target, (struct piece){key.at + set, key.len - set}, value, diag);
    if (!is(key, "timeout"))
        return aw_fail(diag, AW_ERR_USAGE,
                       "expected env, ca, token, timeout or set.KEY after ?, found %s",
                       aw_text_quote(key.at, key.len, quoted, sizeof quoted));
    enum aw_err err = copy(value, number, sizeof number, "timeout", diag);
    if (err)
        return err;
    if (aw_text_parse_u64(number, &seconds) || seconds < 1 || seconds > AW_RPC_TIMEOUT_S_MAX)
        return aw_fail(diag, AW_ERR_USAGE, "timeout: expected 1 to %u seconds, found %s",
                       AW_RPC_TIMEOUT_S_MAX,
                       aw_text_quote(value.at, value.len, quoted, sizeof quoted));
    target->timeout_s = (uint32_t)seconds;
    return AW_OK;
}

static enum aw_err options(struct aw_rpc_target *target, const char *at, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    while (*at && !err) {
        const size_t len = strcspn(at, "&"), key = strcspn(at, "=&");
        if (key == len)
            return aw_fail(diag, AW_ERR_USAGE, "expected KEY=VALUE after ?, found no =");
        err = option(target, (struct piece){at, key}, (struct piece){at + key + 1, len - key - 1},
                     diag);
        at += len + (at[len] == '&');
    }
    return err;
}

/* HOST:PORT, where HOST may be [v6]. */
static bool has_port(struct piece host)
{
    const char *colon = memrchr(host.at, ':', host.len);
    const size_t digits = colon ? (size_t)(host.at + host.len - colon - 1) : 0;
    if (!colon || colon == host.at || !digits || digits > 5)
        return false;
    for (size_t i = 1; i <= digits; i++)
        if (colon[i] < '0' || colon[i] > '9')
            return false;
    return true;
}

static enum aw_err printable(const char *text, struct aw_diag *diag)
{
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~')
            return aw_fail(diag, AW_ERR_USAGE,
                           "an address of an environment has neither spaces nor control bytes");
    return AW_OK;
}

enum aw_err aw_rpc_target_parse(struct aw_rpc_target *target, const char *text,
                                struct aw_diag *diag)
{
    struct aw_rpc_target made = {.timeout_s = AW_RPC_TIMEOUT_S};
    const char *rest = strstr(text, "://");
    enum aw_err err = printable(text, diag);
    if (err)
        return err;
    const struct piece scheme = {text, rest ? (size_t)(rest - text) : 0};
    const bool is_unix = is(scheme, "grpc+unix");
    made.tls = is(scheme, "grpcs");
    if (!rest || (!is_unix && !made.tls && !is(scheme, "grpc")))
        return aw_fail(diag, AW_ERR_USAGE,
                       "expected grpc://HOST:PORT/NAME, grpcs://HOST:PORT/NAME or "
                       "grpc+unix:///PATH?env=NAME");
    rest += 3;
    const size_t len = strcspn(rest, "?");
    if (is_unix) {
        char path[sizeof made.address - 5];
        if (*rest != '/')
            return aw_fail(diag, AW_ERR_USAGE, "expected an absolute path after grpc+unix://");
        if ((err = copy((struct piece){rest, len}, path, sizeof path, "the path", diag)))
            return err;
        snprintf(made.address, sizeof made.address, "unix:%s", path);
    } else {
        const struct piece host = {rest, strcspn(rest, "/?")};
        if (!has_port(host))
            return aw_fail(diag, AW_ERR_USAGE, "expected HOST:PORT after %.*s://", (int)scheme.len,
                           scheme.at);
        if ((err = copy(host, made.address, sizeof made.address, "the host", diag)))
            return err;
        if (host.len + 1 < len &&
            (err = copy((struct piece){rest + host.len + 1, len - host.len - 1}, made.env,
                        sizeof made.env, "the name of the environment", diag)))
            return err;
    }
    if (rest[len] == '?' && (err = options(&made, rest + len + 1, diag)))
        return err;
    if (!*made.env)
        return aw_fail(diag, AW_ERR_USAGE, "which environment of that server? expected %s",
                       is_unix ? "?env=NAME" : "/NAME after the port");
    if (*made.ca_path && !made.tls)
        return aw_fail(diag, AW_ERR_USAGE, "ca: only grpcs:// has certificates");
    if (*made.token_path && !made.tls && !is_unix && strncmp(made.address, "127.", 4) != 0 &&
        strncmp(made.address, "localhost:", 10) != 0)
        return aw_fail(diag, AW_ERR_USAGE,
                       "a token is sent only with grpcs://, on a Unix socket, or to this machine");
    *target = made;
    return AW_OK;
}
