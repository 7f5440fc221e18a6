/* err.c - the error table, and diagnostics that are cut rather than overrun. */
#include <aware/err.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    bool transient;
    int exit_code;
    int http;
    const char *text;
} table[AW_ERR_COUNT] = {[AW_OK] = {"OK", false, 0, 200, "no error"},
#define X(name, transient, exit_code, http, text) \
    [AW_ERR_##name] = {#name, transient, exit_code, http, text},
                         AW_ERR_MAP(X)
#undef X
};

/* A code from outside the enum (a wild cast, a newer peer) is a bug of the caller. */
static unsigned row(enum aw_err err)
{
    AW_ASSERT((unsigned)err < AW_ERR_COUNT);
    return (unsigned)err;
}

const char *aw_err_name(enum aw_err err)
{
    return table[row(err)].name;
}

const char *aw_err_text(enum aw_err err)
{
    return table[row(err)].text;
}

bool aw_err_transient(enum aw_err err)
{
    return table[row(err)].transient;
}

int aw_err_exit_code(enum aw_err err)
{
    return table[row(err)].exit_code;
}

int aw_err_http_status(enum aw_err err)
{
    return table[row(err)].http;
}

AW_PRINTF(6, 0)
static void diag_fill(struct aw_diag *diag, const char *file, uint32_t line, uint32_t column,
                      const char *key, const char *fmt, va_list args)
{
    if (!diag)
        return;
    /* The arguments may point into the old contents of `diag`, so fill a fresh one first. */
    struct aw_diag fresh = {.line = line, .column = column};
    if (file)
        snprintf(fresh.file, sizeof fresh.file, "%s", file);
    if (key)
        snprintf(fresh.key, sizeof fresh.key, "%s", key);
    vsnprintf(fresh.text, sizeof fresh.text, fmt, args);
    *diag = fresh;
}

enum aw_err aw_fail(struct aw_diag *diag, enum aw_err err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_fill(diag, NULL, 0, 0, NULL, fmt, args);
    va_end(args);
    return err;
}

enum aw_err aw_fail_at(struct aw_diag *diag, enum aw_err err, const char *file, uint32_t line,
                       uint32_t column, const char *key, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_fill(diag, file, line, column, key, fmt, args);
    va_end(args);
    return err;
}

const char *aw_diag_format(const struct aw_diag *diag, enum aw_err err, char *buf, size_t size)
{
    if (!diag || (!diag->text[0] && !diag->file[0])) {
        snprintf(buf, size, "%s", aw_err_text(err));
        return buf;
    }
    char place[64] = "";
    if (diag->line && diag->column)
        snprintf(place, sizeof place, "%u:%u", diag->line, diag->column);
    else if (diag->line)
        snprintf(place, sizeof place, "%u", diag->line);
    const char *text = diag->text[0] ? diag->text : aw_err_text(err);
    snprintf(buf, size, "%s%s%s%s%s%s%s", diag->file, diag->file[0] && place[0] ? ":" : "", place,
             diag->file[0] || place[0] ? ": " : "", diag->key, diag->key[0] ? ": " : "", text);
    return buf;
}

_Noreturn void aw_assert_fail(const char *expr, const char *file, int line)
{
    fprintf(stderr, "aware: bug: %s:%d: %s does not hold\n", file, line, expr);
    abort();
}
