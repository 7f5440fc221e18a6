/* status_line.c - how far something is, drawn. */
#include "frame/status_line.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame/layout.h"

bool aw_is_terminal(FILE *out)
{
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

void aw_status_line_init(struct aw_status_line *line, FILE *out, bool quiet)
{
    *line = (struct aw_status_line){.out = out, .quiet = quiet, .terminal = aw_is_terminal(out)};
}

void aw_status_line_draw(struct aw_status_line *line, bool must, int64_t now_us, const char *fmt,
                         ...)
{
    char text[AW_STATUS_LINE_MAX];
    va_list args;
    if (line->quiet || !line->terminal ||
        (!must && line->drawn && now_us - line->drawn_us < AW_STATUS_REDRAW_US))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    /* back to the left, the line, then erase what a longer one left behind */
    fprintf(line->out, "\r%.*s\033[K", (int)aw_columns(line->out) - 1, text);
    fflush(line->out);
    line->drawn = true;
    line->drawn_us = now_us;
}

bool aw_status_line_row(struct aw_status_line *line, uint64_t done, uint64_t total)
{
    const uint64_t due = total ? done * AW_STATUS_ROWS / total : 0;
    if (line->quiet || line->terminal || due <= line->rows)
        return false;
    line->rows = (uint32_t)due;
    return true;
}

void aw_status_line_clear(struct aw_status_line *line)
{
    if (line->drawn)
        fputs("\r\033[K", line->out);
    if (line->out)
        fflush(line->out);
    line->drawn = false;
}
