/*
 * log.h - leveled, structured lines for people (text) or machines (JSON lines).
 *
 * Call order: init, then write from anywhere, until the descriptor is closed. A logger owns nothing
 *             and needs no deinit.
 * Memory:     a line is built on the stack, at most AW_LOG_LINE_MAX bytes; a longer one is cut and
 *             marked. Nothing is allocated.
 * Threads:    a logger may be shared. Each line is one write(2) of no more than PIPE_BUF bytes, so
 *             lines of several threads or processes never mix, not even in a pipe.
 *
 *     aw_log_info(&log, "episode finished", AW_LOG_INT("step", step), AW_LOG_NUM("return", ret));
 *
 * Arguments below the logger's level are not evaluated: do not hide side effects in them. Keys are
 * lower case with underscores; time, level and message are taken.
 */
#ifndef AW_BASE_LOG_H
#define AW_BASE_LOG_H

#include <aware/err.h>

#include "base/clock.h"

#define AW_LOG_LINE_MAX 4096 /* bytes with the newline: PIPE_BUF of Linux */

enum aw_log_level {
    AW_LOG_ERROR, /* something failed, and a person may have to act */
    AW_LOG_WARN,  /* something is odd, and was coped with */
    AW_LOG_INFO,  /* what an operator wants to see of normal life */
    AW_LOG_DEBUG,
};

enum aw_log_format {
    AW_LOG_TEXT,    /* 2026-01-31T12:00:00.123Z warn  message key=value */
    AW_LOG_JSON,    /* {"time":"...","level":"warn","message":"...","key":value} */
    AW_LOG_JOURNAL, /* <4>message key=value: sd-daemon(3); the journal has a clock of its own */
};

struct aw_log {
    int fd;                  /* borrowed; for a FILE *, its fileno */
    enum aw_log_level level; /* lines beyond it cost one comparison */
    enum aw_log_format format;
    bool colour;
    const struct aw_clock *clock;
    _Atomic uint64_t lost_count; /* lines that could not be written whole */
};

/* Colours only for text on a terminal while NO_COLOR is unset or empty (no-color.org). */
void aw_log_init(struct aw_log *log, int fd, enum aw_log_level level, enum aw_log_format format,
                 const struct aw_clock *clock);

/* From "error", "warn", "info" or "debug". An unknown name leaves `ret_level` alone. */
AW_NODISCARD enum aw_err aw_log_level_parse(const char *name, enum aw_log_level *ret_level);

enum aw_log_kind { AW_LOG_KIND_STR, AW_LOG_KIND_INT, AW_LOG_KIND_NUM, AW_LOG_KIND_BOOL };

struct aw_log_field {
    const char *key;
    enum aw_log_kind kind;
    union {
        const char *str; /* NULL is written as null */
        int64_t integer;
        double num; /* not finite: null in JSON, nan or inf in text */
        bool boolean;
    };
};

#define AW_LOG_STR(k, v) ((struct aw_log_field){.key = (k), .kind = AW_LOG_KIND_STR, .str = (v)})
#define AW_LOG_INT(k, v) \
    ((struct aw_log_field){.key = (k), .kind = AW_LOG_KIND_INT, .integer = (v)})
#define AW_LOG_NUM(k, v) ((struct aw_log_field){.key = (k), .kind = AW_LOG_KIND_NUM, .num = (v)})
#define AW_LOG_BOOL(k, v) \
    ((struct aw_log_field){.key = (k), .kind = AW_LOG_KIND_BOOL, .boolean = (v)})

/* A NULL logger is a silent one. */
static inline bool aw_log_enabled(const struct aw_log *log, enum aw_log_level level)
{
    return log && level <= log->level;
}

/* Writes one line whatever the logger's level; the macros below ask first. A write that fails is
 * counted, never reported: a logger has nowhere to report it. errno is preserved. */
void aw_log_write(struct aw_log *log, enum aw_log_level level, const char *message,
                  const struct aw_log_field *fields, size_t count);

/* The first, empty field lets a line without fields compile; it is skipped. */
#define aw_log_at(log, level, message, ...)                                             \
    do {                                                                                \
        struct aw_log *aw_log_it = (log);                                               \
        if (aw_log_enabled(aw_log_it, (level))) {                                       \
            const struct aw_log_field aw_log_fields[] = {{.key = NULL}, ##__VA_ARGS__}; \
            aw_log_write(aw_log_it, (level), (message), aw_log_fields + 1,              \
                         sizeof aw_log_fields / sizeof aw_log_fields[0] - 1);           \
        }                                                                               \
    } while (0)
#define aw_log_error(log, message, ...) aw_log_at(log, AW_LOG_ERROR, message, ##__VA_ARGS__)
#define aw_log_warn(log, message, ...)  aw_log_at(log, AW_LOG_WARN, message, ##__VA_ARGS__)
#define aw_log_info(log, message, ...)  aw_log_at(log, AW_LOG_INFO, message, ##__VA_ARGS__)
#define aw_log_debug(log, message, ...) aw_log_at(log, AW_LOG_DEBUG, message, ##__VA_ARGS__)

#endif
