/* credential.c - when to look again for who we are. */
#include "kube/credential.h"

#include <string.h>

#include "base/file.h"

void aw_kube_credential_init(struct aw_kube_credential *credential,
                             const struct aw_kube_config *config, const struct aw_clock *clock)
{
    *credential =
        (struct aw_kube_credential){.config = config, .clock = clock, .expires_at_us = INT64_MAX};
}

/* The token of a file, without the newline that an editor leaves. */
static enum aw_err read_token_file(struct aw_kube_credential *credential, struct aw_diag *diag)
{
    const struct aw_alloc *alloc = credential->config->alloc;
    char *bytes = NULL;
    size_t len = 0;
    enum aw_err err = aw_file_read(credential->config->token_file, AW_KUBE_TOKEN_BYTES_MAX, alloc,
                                   &bytes, &len, diag);
    if (err)
        return err;
    size_t end = len, first = 0;
    while (end && (unsigned char)bytes[end - 1] <= ' ')
        end--;
    while (first < end && (unsigned char)bytes[first] <= ' ')
        first++;
    bool fine = first < end;
    for (size_t i = first; i < end; i++) /* it becomes a header: nothing may end the line */
        fine = fine && (unsigned char)bytes[i] > ' ' && (unsigned char)bytes[i] < 0x7f;
    char *token = fine ? aw__kube_keep(alloc, bytes + first, end - first) : NULL;
    explicit_bzero(bytes, len);
    aw_alloc_free(alloc, bytes);
    if (!fine)
        return aw_fail_at(diag, AW_ERR_CONFIG, credential->config->token_file, 0, 0, NULL,
                          "expected a token, found something else");
    if (!token)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a token");
    aw__kube_wipe(alloc, credential->token);
    credential->token = token;
    return AW_OK;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static enum aw_err run_plugin(struct aw_kube_credential *credential, struct aw_diag *diag)
{
    const struct aw_alloc *alloc = credential->config->alloc;
    struct aw_kube_exec_answer answer = {0};
    enum aw_err err = aw__kube_exec_run(credential->config, AW_KUBE_EXEC_TIMEOUT_US, &answer, diag);
    if (err)
        return err;
    if (!same_text(credential->cert.bytes, answer.cert) ||
        !same_text(credential->key.bytes, answer.key))
        credential->cert_version++;
    aw__kube_wipe(alloc, credential->token);
    aw__kube_wipe(alloc, credential->cert.bytes);
    aw__kube_wipe(alloc, credential->key.bytes);
    credential->token = answer.token;
    credential->cert =
        (struct aw_kube_pem){answer.cert, answer.cert ? strlen(answer.cert) : 0, NULL};
    credential->key = (struct aw_kube_pem){answer.key, answer.key ? strlen(answer.key) : 0, NULL};
    credential->expires_at_us = answer.expires_at_us;
    return AW_OK;
}

enum aw_err aw_kube_credential_refresh(struct aw_kube_credential *credential, struct aw_diag *diag)
{
    const struct aw_kube_config *config = credential->config;
    const int64_t now_us = aw_clock_monotonic_us(credential->clock);
    enum aw_err err = AW_OK;
    if (config->token_file) {
        if (credential->loaded && now_us < credential->refresh_at_us)
            return AW_OK;
        err = read_token_file(credential, diag);
        if (err && credential->token)
            err = AW_OK; /* the old one may still do */
        credential->refresh_at_us = now_us + AW_KUBE_TOKEN_REREAD_US;
    } else if (config->exec.command) {
        /* the expiry is a wall time that somebody else's clock has made */
        const int64_t wall_us = aw_clock_now_us(credential->clock);
        if (credential->loaded && (credential->expires_at_us == INT64_MAX ||
                                   wall_us < credential->expires_at_us - AW_KUBE_EXEC_EARLY_US))
            return AW_OK;
        err = run_plugin(credential, diag);
    } else if (config->token && !credential->loaded) {
        credential->token = aw__kube_keep(config->alloc, config->token, strlen(config->token));
        err = credential->token ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for a token");
    }
    credential->loaded = !err || credential->loaded;
    return err;
}

bool aw_kube_credential_expire(struct aw_kube_credential *credential)
{
    if (!credential->config->token_file && !credential->config->exec.command)
        return false;
    credential->refresh_at_us = INT64_MIN;
    credential->expires_at_us = INT64_MIN + AW_KUBE_EXEC_EARLY_US;
    return true;
}

void aw_kube_credential_deinit(struct aw_kube_credential *credential)
{
    if (!credential->config)
        return;
    const struct aw_alloc *alloc = credential->config->alloc;
    aw__kube_wipe(alloc, credential->token);
    aw__kube_wipe(alloc, credential->cert.bytes);
    aw__kube_wipe(alloc, credential->key.bytes);
    *credential = (struct aw_kube_credential){0};
}
