/* exec.c - exec plugins: run one, read the ExecCredential that it prints. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "kube/credential.h"
#include "kube/object.h"

#define REAP_STEP_US \
    2000 /* between two looks at whether a plugin that closed its output has ended */

extern char **environ;

static enum aw_err keep_secret(const struct aw_alloc *alloc, const json_t *text, char **ret)
{
    if (!json_is_string(text) || !json_string_length(text))
        return AW_OK;
    *ret = aw__kube_keep(alloc, json_string_value(text), json_string_length(text));
    return *ret ? AW_OK : AW_ERR_NOMEM;
}

enum aw_err aw_kube_exec_decode(const char *bytes, size_t len, const char *api_version,
                                const struct aw_alloc *alloc,
                                struct aw_kube_exec_answer *ret_answer, struct aw_diag *diag)
{
    struct aw_kube_exec_answer answer = {.expires_at_us = INT64_MAX};
    json_t *json = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *status = json_object_get(json, "status");
    const char *expires = aw_kube_text_at(status, "expirationTimestamp");
    enum aw_err err = AW_OK;
    if (strcmp(aw_kube_text_at(json, "kind"), "ExecCredential") != 0 || !json_is_object(status)) {
        err = aw_fail(diag, AW_ERR_FORMAT, "the plugin printed no ExecCredential with a status");
        goto out;
    }
    if (strcmp(aw_kube_text_at(json, "apiVersion"), api_version) != 0) {
        err = aw_fail(diag, AW_ERR_FORMAT, "the plugin printed another apiVersion than %s",
                      api_version);
        goto out;
    }
    err = keep_secret(alloc, json_object_get(status, "token"), &answer.token);
    err = err ? err
              : keep_secret(alloc, json_object_get(status, "clientCertificateData"), &answer.cert);
    err = err ? err : keep_secret(alloc, json_object_get(status, "clientKeyData"), &answer.key);
    if (err)
        aw_fail(diag, err, "no memory for a credential");
    else if (!answer.cert != !answer.key)
        err = aw_fail(diag, AW_ERR_FORMAT, "the plugin printed a certificate without its key");
    else if (!answer.token && !answer.cert)
        err = aw_fail(diag, AW_ERR_FORMAT, "the plugin printed neither token nor certificate");
    else if (expires[0] && aw_kube_time_parse(expires, &answer.expires_at_us))
        err = aw_fail(diag, AW_ERR_FORMAT,
                      "the plugin printed an expirationTimestamp that is not one");
    for (const char *at = answer.token; !err && at && *at; at++)
        if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f)
            err = aw_fail(diag, AW_ERR_FORMAT, "the plugin printed a token that is not one");
out:
    json_decref(json);
    if (err)
        aw_kube_exec_answer_deinit(&answer, alloc);
    else
        *ret_answer = answer;
    return err;
}

void aw_kube_exec_answer_deinit(struct aw_kube_exec_answer *answer, const struct aw_alloc *alloc)
{
    aw__kube_wipe(alloc, answer->token);
    aw__kube_wipe(alloc, answer->cert);
    aw__kube_wipe(alloc, answer->key);
    *answer = (struct aw_kube_exec_answer){0};
}

/* "KUBERNETES_EXEC_INFO={...}": what a plugin is told. NULL: no memory. */
static char *exec_info(const struct aw_kube_config *config)
{
    json_t *cluster = NULL;
    if (config->exec.cluster_info) {
        cluster = json_pack("{s:s, s:b, s:s*, s:s*}", "server", config->server,
                            "insecure-skip-tls-verify", config->insecure, "tls-server-name",
                            config->tls_server_name, "proxy-url", config->proxy_url);
        if (cluster && config->ca.bytes) {
            char *encoded = malloc(4 * (config->ca.len + 2) / 3 + 1);
            if (encoded)
                EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)config->ca.bytes,
                                (int)config->ca.len);
            if (!encoded || json_object_set_new(cluster, "certificate-authority-data",
                                                json_string(encoded)) != 0) {
                json_decref(cluster);
                free(encoded);
                return NULL;
            }
            free(encoded);
        }
    }
    json_t *info =
        json_pack("{s:s, s:s, s:{s:b, s:o*}}", "apiVersion", config->exec.api_version, "kind",
                  "ExecCredential", "spec", "interactive", 0, "cluster", cluster);
    char *json = info ? json_dumps(info, JSON_COMPACT) : NULL, *pair = NULL;
    json_decref(info);
    if (json && strlen(json) < AW_KUBE_EXEC_INFO_MAX &&
        asprintf(&pair, "KUBERNETES_EXEC_INFO=%s", json) < 0)
        pair = NULL;
    free(json);
    return pair;
}

static bool same_name(const char *a, const char *b)
{
    const size_t len = strcspn(a, "=");
    return !strncmp(a, b, len) && b[len] == '=';
}

/* Our environment, with what the plugin's entry adds or replaces. The array is the caller's. */
static char **plugin_environment(const struct aw_kube_exec *exec, char *info)
{
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **list = calloc(count + exec->env_count + 2, sizeof *list);
    for (size_t i = 0; list && i < count; i++) {
        bool replaced = same_name(info, environ[i]);
        for (uint32_t j = 0; j < exec->env_count; j++)
            replaced = replaced || same_name(exec->env[j], environ[i]);
        if (!replaced)
            list[used++] = environ[i];
    }
    for (uint32_t j = 0; list && j < exec->env_count; j++)
        list[used++] = exec->env[j];
    if (list)
        list[used] = info;
    return list;
}

static enum aw_err spawn(const struct aw_kube_exec *exec, char **environment, int output,
                         pid_t *ret_pid, struct aw_diag *diag)
{
    char *argv[AW_KUBE_EXEC_ARGS_MAX + 2] = {exec->command};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    for (uint32_t i = 0; i < exec->arg_count; i++)
        argv[i + 1] = exec->args[i];
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGTERM);
    sigaddset(&defaults, SIGINT);
    /* a group of its own, so that what it started ends with it */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    const int code = posix_spawnp(ret_pid, exec->command, &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (code == 0)
        return AW_OK;
    return aw_fail(diag, code == ENOENT ? AW_ERR_NOTFOUND : AW_ERR_CONFIG,
                   "cannot run the plugin %s: %s%s%s", exec->command, strerror(code),
                   exec->install_hint ? "; " : "", exec->install_hint ? exec->install_hint : "");
}

/* Reads all that the plugin prints. */
static enum aw_err read_output(int fd, char *buf, size_t *ret_len, int64_t until_us,
                               struct aw_diag *diag)
{
    size_t len = 0;
    for (;;) {
        const int64_t left_us = until_us - aw_clock_monotonic_us(NULL);
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        if (left_us <= 0)
            return aw_fail(diag, AW_ERR_DEADLINE, "the plugin did not end in time");
        const int ready = poll(&poller, 1, (int)(left_us / 1000) + 1);
        if (ready <= 0)
            continue; /* a signal, or time is up: the top of the loop knows */
        const ssize_t n = read(fd, buf + len, AW_KUBE_EXEC_OUTPUT_MAX - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return aw_fail(diag, AW_ERR_IO, "cannot read what the plugin prints: %s",
                           strerror(errno));
        if (n == 0)
            break;
        len += (size_t)n;
        if (len == AW_KUBE_EXEC_OUTPUT_MAX)
            return aw_fail(diag, AW_ERR_LIMIT, "the plugin printed more than %zu bytes",
                           AW_KUBE_EXEC_OUTPUT_MAX);
    }
    *ret_len = len;
    return AW_OK;
}

/* Waits for its end; kills it when that does not come. */
static enum aw_err reap(pid_t pid, bool fine, int64_t until_us, struct aw_diag *diag)
{
    int status = 0;
    pid_t ended = 0;
    while (fine && (ended = waitpid(pid, &status, WNOHANG)) == 0 &&
           aw_clock_monotonic_us(NULL) < until_us)
        usleep(REAP_STEP_US);
    if (ended == 0) {
        kill(-pid, SIGKILL);
        while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
        }
        if (fine)
            return aw_fail(diag, AW_ERR_DEADLINE, "the plugin did not end in time");
    }
    if (fine && ended == pid && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        return aw_fail(diag, AW_ERR_CONFIG, "the plugin failed with %s %d",
                       WIFEXITED(status) ? "exit status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return AW_OK;
}

enum aw_err aw__kube_exec_run(const struct aw_kube_config *config, int64_t timeout_us,
                              struct aw_kube_exec_answer *ret_answer, struct aw_diag *diag)
{
    const struct aw_kube_exec *exec = &config->exec;
    const int64_t until_us = aw_clock_monotonic_us(NULL) + timeout_us;
    int ends[2] = {-1, -1};
    size_t len = 0;
    pid_t pid = 0;
    enum aw_err err = AW_OK, reaped;
    char *info = exec_info(config), *buf = calloc(1, AW_KUBE_EXEC_OUTPUT_MAX);
    char **environment = info ? plugin_environment(exec, info) : NULL;
    if (!buf || !environment) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a plugin");
        goto out;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no pipe for a plugin: %s", strerror(errno));
        goto out;
    }
    err = spawn(exec, environment, ends[1], &pid, diag);
    if (err)
        goto out;
    close(ends[1]);
    ends[1] = -1;
    err = read_output(ends[0], buf, &len, until_us, diag);
    reaped = reap(pid, !err, until_us, diag);
    err = err ? err : reaped;
    err = err ? err
              : aw_kube_exec_decode(buf, len, exec->api_version, config->alloc, ret_answer, diag);
out:
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    if (buf)
        explicit_bzero(buf, AW_KUBE_EXEC_OUTPUT_MAX);
    free(buf);
    free(environment);
    free(info);
    return err;
}
