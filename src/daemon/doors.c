/* doors.c - log, state directory and doors of a daemon. */
#include "daemon/doors.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/sqlite.h"
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_FILE "lock"

/* --- log -------------------------------------------------------------------------------------- */

/* stderr is the journal's where $JOURNAL_STREAM names it (systemd.exec(5)). */
static bool stderr_is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;
    return text && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void aw_daemon_log(struct aw_log *log, bool level_given, bool format_given)
{
    if (!level_given)
        log->level = AW_LOG_INFO;
    if (!format_given && stderr_is_journal()) {
        log->format = AW_LOG_JOURNAL;
        log->colour = false;
    }
}

/* --- state directory -------------------------------------------------------------------------- */

enum aw_err aw_daemon_lock(const char *dir, bool private, int *ret_fd, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX + 32], holder[32] = "";
    const bool is_new = access(dir, F_OK) != 0;
    enum aw_err err = aw_file_mkdirs(dir, diag);
    if (err)
        return err;
    /* what a daemon keeps is its owner's, the socket among it */
    if (is_new && private && chmod(dir, 0700))
        return aw_fail_at(diag, AW_ERR_IO, dir, 0, 0, NULL, "%s", strerror(errno));
    snprintf(path, sizeof path, "%.*s/" LOCK_FILE, (int)(sizeof path - sizeof LOCK_FILE - 1), dir);
    *ret_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*ret_fd < 0)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    if (flock(*ret_fd, LOCK_EX | LOCK_NB)) {
        const ssize_t len = read(*ret_fd, holder, sizeof holder - 1);
        holder[len > 0 ? len : 0] = '\0';
        holder[strcspn(holder, "\n")] = '\0';
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, dir, 0, 0, NULL,
                          "another run%s%s%s is using it; end that one, or give another --state",
                          *holder ? " (process " : "", holder, *holder ? ")" : "");
    }
    const int len = snprintf(holder, sizeof holder, "%ld\n", (long)getpid());
    if (ftruncate(*ret_fd, 0) || pwrite(*ret_fd, holder, (size_t)len, 0) != len)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    return AW_OK;
}

void aw_daemon_mend(const char *path, struct aw_log *log)
{
    char aside[AW_FILE_PATH_MAX];
    aw_sqlite_set_aside(path, aw_clock_now_us(NULL), aside, sizeof aside);
    if (*aside)
        aw_log_warn(log, "a damaged file was put aside; what it held is not known any more",
                    AW_LOG_STR("file", path), AW_LOG_STR("aside", aside));
}

/* The log of the process, and under systemd the journal, has it until the audit log does. */
static void tell_unwritten(void *ctx, const char *entry)
{
    aw_log_warn(ctx, "changed, not yet in the audit log", AW_LOG_STR("entry", entry));
}

enum aw_err aw_daemon_record_open(const struct aw_daemon_record *record, struct aw_log *log,
                                  struct aw_desk **ret_steward, struct aw_diag *diag)
{
    struct aw_desk_config *config = aw_alloc_new(NULL, 1, sizeof *config);
    struct aw_audit_recovery recovery = {0};
    if (!config)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the desk");
    config->virtual_time = record->virtual_time;
    config->unwritten = tell_unwritten;
    config->unwritten_ctx = log;
    config->audit.no_sync = record->no_sync;
    config->audit.reserve_bytes = AW_DAEMON_RESERVE_BYTES;
    snprintf(config->folder, sizeof config->folder, "%.*s/" AW_DAEMON_AUDIT,
             (int)(sizeof config->folder - sizeof AW_DAEMON_AUDIT - 1), record->state);
    snprintf(config->journal, sizeof config->journal, "%.*s/" AW_DAEMON_JOURNAL,
             (int)(sizeof config->journal - sizeof AW_DAEMON_JOURNAL - 1), record->state);
    aw_daemon_mend(config->journal, log);
    const enum aw_err err = aw_desk_new(config, NULL, ret_steward, &recovery, diag);
    aw_alloc_free(NULL, config);
    if (!err && recovery.torn_bytes)
        aw_log_warn(log, "the audit log ended in the middle of an entry, which was cut off",
                    AW_LOG_STR("file", recovery.torn_file),
                    AW_LOG_INT("bytes", (int64_t)recovery.torn_bytes),
                    AW_LOG_STR("why", recovery.why));
    return err;
}

/* --- doors ------------------------------------------------------------------------------------ */

enum aw_err aw_daemon_door_read(const char *listen, const char *token, struct aw_listen_auth *door,
                                struct aw_diag *diag)
{
    struct aw_diag why = {0};
    if (!listen && token)
        return aw_fail(diag, AW_ERR_USAGE, "--token-file goes with --listen alone");
    if (!listen)
        return AW_OK;
    if (aw_listen_auth_parse(door, listen, &why))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--listen", "%s", why.text);
    if (!door->loopback && !token)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--listen",
                          "others can reach %s, so that it needs --token-file", door->host);
    return token ? aw_file_read_token(token, door->token, diag) : AW_OK;
}

enum aw_err aw_daemon_probes_read(const char *listen, struct aw_listen_auth *probes,
                                  struct aw_diag *diag)
{
    struct aw_diag why = {0};
    probes->probes = true;
    if (listen && aw_listen_auth_parse(probes, listen, &why))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--probes", "%s", why.text);
    return AW_OK;
}

/* As many connections as the system grants files for, and never those that logs and stores need: a
 * crowd of clients must not keep the loop from writing down what it does. */
static uint32_t connections_allowed(void)
{
    const rlim_t others = 256, wanted = AW_SERVER_CONNECTIONS_TCP + others;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return AW_SERVER_CONNECTIONS;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) && getrlimit(RLIMIT_NOFILE, &limit))
            return AW_SERVER_CONNECTIONS;
    }
    return limit.rlim_cur >= wanted                          ? AW_SERVER_CONNECTIONS_TCP
           : limit.rlim_cur > others + AW_SERVER_CONNECTIONS ? (uint32_t)(limit.rlim_cur - others)
                                                             : AW_SERVER_CONNECTIONS;
}

enum aw_err aw_doors_open(struct aw_doors *doors, struct aw_api *api, const char *socket,
                          const struct aw_listen_auth *door, const struct aw_listen_auth *probes,
                          struct aw_diag *diag)
{
    struct aw_server_config *listen = aw_alloc_new(NULL, 1, sizeof *listen);
    *doors = (struct aw_doors){0};
    if (!listen)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the API");
    snprintf(listen->path, sizeof listen->path, "%s", socket);
    enum aw_err err = aw_server_open(&doors->server, listen, api, diag);
    if (!err && *door->host) {
        listen->connections_max = connections_allowed();
        listen->path[0] = '\0';
        listen->door = *door;
        err = aw_server_open(&doors->page, listen, api, diag);
    }
    if (!err && *probes->host) {
        listen->connections_max = AW_SERVER_CONNECTIONS;
        listen->path[0] = '\0';
        listen->door = *probes;
        err = aw_server_open(&doors->probes, listen, api, diag);
    }
    aw_alloc_free(NULL, listen);
    return err;
}

void aw_doors_close(struct aw_doors *doors)
{
    aw_server_close(doors->probes);
    aw_server_close(doors->page);
    aw_server_close(doors->server);
    *doors = (struct aw_doors){0};
}

void aw_doors_tell(const struct aw_doors *doors, const struct aw_listen_auth *door,
                   struct aw_log *log)
{
    char url[AW_LISTEN_AUTH_HOST_MAX + 32];
    if (!doors->page)
        return;
    snprintf(url, sizeof url, "http://%s%s%s:%u/", door->ipv6 ? "[" : "", door->host,
             door->ipv6 ? "]" : "", aw_server_port(doors->page));
    aw_log_info(log, "page", AW_LOG_STR("url", url),
                AW_LOG_STR("orders", *door->token ? "with the token" : "read-only"));
}
