/* csvlog.c - rows written whole, and a tail that can be cut off. */
#include "telemetry/csvlog.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

static void put(struct aw_csvlog *log, const char *bytes, size_t len)
{
    if (len > sizeof log->row - 1 - log->len) { /* one byte stays free for the newline */
        log->cut = true;
        return;
    }
    memcpy(log->row + log->len, bytes, len);
    log->len += len;
}

static void cell(struct aw_csvlog *log, const char *text)
{
    AW_ASSERT(log->cell_count < log->column_count);
    if (log->cell_count++)
        put(log, ",", 1);
    if (!strpbrk(text, ",\"\r\n")) {
        put(log, text, strlen(text));
        return;
    }
    put(log, "\"", 1);
    for (; *text; text++)
        put(log, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    put(log, "\"", 1);
}

void aw_csvlog_u64(struct aw_csvlog *log, uint64_t value)
{
    char digits[24], *p = digits + sizeof digits - 1;
    *p = '\0';
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    cell(log, p);
}

void aw_csvlog_real(struct aw_csvlog *log, double value)
{
    char text[AW_TEXT_REAL_MAX];
    cell(log, isnan(value) ? "" : aw_text_real(value, text, sizeof text));
}

void aw_csvlog_text(struct aw_csvlog *log, const char *value)
{
    cell(log, value);
}

enum aw_err aw_csvlog_end_row(struct aw_csvlog *log, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    AW_ASSERT(log->cell_count == log->column_count);
    if (log->cut) {
        err = aw_fail(diag, AW_ERR_LIMIT, "a row of the CSV file is longer than %u bytes",
                      AW_CSVLOG_ROW_MAX);
        goto out;
    }
    log->row[log->len++] = '\n';
    const char *p = log->row;
    while (log->len) {
        ssize_t wrote = write(log->fd_plus_1 - 1, p, log->len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            err = aw_fail(diag, AW_ERR_IO, "cannot write the CSV file: %s", strerror(errno));
            goto out;
        }
        p += wrote;
        log->len -= (size_t)wrote;
    }
out:
    log->len = 0;
    log->cell_count = 0;
    log->cut = false;
    return err;
}

static enum aw_err file_open(struct aw_csvlog *log, const char *path, int flags,
                             const char *const *columns, struct aw_diag *diag)
{
    *log = (struct aw_csvlog){0};
    while (columns[log->column_count])
        log->column_count++;
    AW_ASSERT(log->column_count > 0 && log->column_count <= AW_CSVLOG_COLUMNS_MAX);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666);
    if (fd < 0)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    log->fd_plus_1 = fd + 1;
    return AW_OK;
}

static void header_build(struct aw_csvlog *log, const char *const *columns)
{
    for (uint32_t i = 0; i < log->column_count; i++)
        cell(log, columns[i]);
}

enum aw_err aw_csvlog_create(struct aw_csvlog *log, const char *path, const char *const *columns,
                             struct aw_diag *diag)
{
    enum aw_err err = file_open(log, path, O_TRUNC, columns, diag);
    if (err)
        return err;
    header_build(log, columns);
    if ((err = aw_csvlog_end_row(log, diag)))
        aw_csvlog_close(log);
    return err;
}

/* Reads lines of a file without holding more than one. A newline inside quotes does not end it. */
struct lines {
    int fd;
    unsigned char chunk[8192];
    size_t have, next;
    char line[AW_CSVLOG_ROW_MAX];
    size_t len; /* of the line, without its newline */
};

/* False at the end of the file, at a line without its newline, and at one that is too long. */
static bool line_read(struct lines *lines)
{
    bool quoted = false;
    for (lines->len = 0;;) {
        if (lines->next == lines->have) {
            ssize_t got = read(lines->fd, lines->chunk, sizeof lines->chunk);
            if (got < 0 && errno == EINTR)
                continue;
            if (got <= 0)
                return false;
            lines->have = (size_t)got;
            lines->next = 0;
        }
        char c = (char)lines->chunk[lines->next++];
        if (c == '\n' && !quoted) {
            lines->line[lines->len] = '\0';
            return true;
        }
        quoted ^= c == '"';
        if (lines->len == sizeof lines->line - 1)
            return false;
        lines->line[lines->len++] = c;
    }
}

static bool line_step(const char *line, uint64_t *ret_step)
{
    char digits[24];
    size_t len = strcspn(line, ",");
    if (len >= sizeof digits)
        return false;
    memcpy(digits, line, len);
    digits[len] = '\0';
    return aw_text_parse_u64(digits, ret_step) == AW_OK;
}

enum aw_err aw_csvlog_resume(struct aw_csvlog *log, const char *path, const char *const *columns,
                             uint64_t step_max, char *last, size_t last_size, struct aw_diag *diag)
{
    struct lines lines = {0};
    uint64_t step;
    enum aw_err err = file_open(log, path, 0, columns, diag);
    if (err)
        return err;
    lines.fd = log->fd_plus_1 - 1;
    last[0] = '\0';
    header_build(log, columns);
    off_t keep = 0, size = lseek(lines.fd, 0, SEEK_END);
    lseek(lines.fd, 0, SEEK_SET);
    if (size == 0) {
        err = aw_csvlog_end_row(log, diag);
        goto out;
    }
    if (!line_read(&lines) || lines.len != log->len || memcmp(lines.line, log->row, log->len)) {
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, NULL, "expected the columns %.*s",
                         (int)log->len, log->row);
        goto out;
    }
    log->len = 0;
    log->cell_count = 0;
    for (keep = (off_t)lines.len + 1; line_read(&lines); keep += (off_t)lines.len + 1) {
        if (!line_step(lines.line, &step) || step > step_max)
            break;
        size_t len = lines.len < last_size ? lines.len : last_size - 1;
        memcpy(last, lines.line, len);
        last[len] = '\0';
    }
    if (ftruncate(lines.fd, keep) != 0 || lseek(lines.fd, keep, SEEK_SET) != keep)
        err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
out:
    if (err)
        aw_csvlog_close(log);
    return err;
}

void aw_csvlog_close(struct aw_csvlog *log)
{
    if (log->fd_plus_1)
        close(log->fd_plus_1 - 1);
    *log = (struct aw_csvlog){0};
}
