/* progress.c - the progress of a run, drawn. */
#include "frame/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame/layout.h"

#define BAR_CELLS      24u
#define RATE_SECONDS   3.0 /* time constant of the smoothed rate: steady, yet it follows a change */
#define RATE_PERIOD_US 200000

void aw_progress_init(struct aw_progress *progress, FILE *out, bool quiet, uint64_t step,
                      uint64_t total, int64_t now_us)
{
    uint64_t every = total / AW_STATUS_ROWS ? total / AW_STATUS_ROWS : 1;
    *progress = (struct aw_progress){
        .total = total,
        .row_next = (step / every + 1) * every,
        .rate_us = now_us,
        .rate_step = step,
    };
    aw_status_line_init(&progress->line, out, quiet);
}

static const char *return_text(double value, char *buf, size_t size)
{
    if (isnan(value))
        snprintf(buf, size, "-"); /* no episode has ended yet */
    else
        snprintf(buf, size, "%.*f", fabs(value) < 1000 ? 1 : 0, value);
    return buf;
}

static double fraction(const struct aw__progress_view *view)
{
    double done = (double)view->at->step / (double)(view->total ? view->total : 1);
    return done < 1 ? done : 1;
}

const char *aw__progress_line(const struct aw__progress_view *view, unsigned columns, char *buf,
                              size_t size)
{
    char piece[5][96], a[32], b[32];
    double done = fraction(view), left = (1 - done) * (double)view->total;
    /* the least important last: it is the first to be left out */
    snprintf(piece[0], sizeof piece[0], "%3d%%", (int)(100 * done));
    snprintf(piece[1], sizeof piece[1], "%s/%s steps",
             aw_count_format((double)view->at->step, a, sizeof a),
             aw_count_format((double)view->total, b, sizeof b));
    snprintf(piece[2], sizeof piece[2], "return %s",
             return_text(view->at->return_mean, a, sizeof a));
    snprintf(piece[3], sizeof piece[3], "%s/s",
             view->rate > 0 ? aw_count_format(view->rate, a, sizeof a) : "-");
    snprintf(piece[4], sizeof piece[4], "%s left",
             view->rate > 0 ? aw_seconds_format(left / view->rate, a, sizeof a) : "-");
    size_t used = 0, limit = columns > 1 ? columns - 1 : 0;
    limit = limit < size - 1 ? limit : size - 1;
    size_t words = 0;
    for (int i = 0; i < 5; i++)
        words += strlen(piece[i]) + (i ? 2 : 0);
    buf[0] = '\0';
    for (int i = 0; i < 5; i++) {
        size_t len = strlen(piece[i]);
        if (used + len + (i ? 2 : 0) > limit)
            break;
        used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? "  " : "", piece[i]);
        if (i == 0 && words + BAR_CELLS + 4 <= limit) { /* a bar only where all else fits too */
            char bar[BAR_CELLS + 1];
            for (unsigned c = 0; c < BAR_CELLS; c++)
                bar[c] = c < (unsigned)(done * BAR_CELLS) ? '#' : '.';
            bar[BAR_CELLS] = '\0';
            used += (size_t)snprintf(buf + used, size - used, "  [%s]", bar);
        }
    }
    return buf;
}

static void rate_update(struct aw_progress *progress, uint64_t step, int64_t now_us)
{
    double seconds = (double)(now_us - progress->rate_us) / 1e6;
    if (now_us - progress->rate_us < RATE_PERIOD_US || step == progress->rate_step)
        return;
    double now = (double)(step - progress->rate_step) / seconds;
    double weight = progress->rate > 0 ? 1 - exp(-seconds / RATE_SECONDS) : 1;
    progress->rate += weight * (now - progress->rate);
    progress->rate_us = now_us;
    progress->rate_step = step;
}

static void row_print(struct aw_progress *progress, const struct aw_train_progress *at)
{
    char rate[32], mean[32], length[32];
    if (!progress->headed)
        fprintf(progress->line.out, "%12s  %4s  %9s  %9s  %9s  %8s\n", "step", "%", "steps/s",
                "return", "length", "episodes");
    progress->headed = true;
    struct aw__progress_view view = {at, progress->total, progress->rate};
    fprintf(progress->line.out, "%12llu  %4d  %9s  %9s  %9s  %8llu\n", (unsigned long long)at->step,
            (int)(100 * fraction(&view)),
            progress->rate > 0 ? aw_count_format(progress->rate, rate, sizeof rate) : "-",
            return_text(at->return_mean, mean, sizeof mean),
            return_text(at->length_mean, length, sizeof length),
            (unsigned long long)at->episode_count);
    fflush(progress->line.out);
}

void aw_progress_update(struct aw_progress *progress, const struct aw_train_progress *at,
                        int64_t now_us)
{
    char line[AW_STATUS_LINE_MAX];
    if (progress->line.quiet)
        return;
    rate_update(progress, at->step, now_us);
    if (!progress->line.terminal) {
        uint64_t every = progress->total / AW_STATUS_ROWS ? progress->total / AW_STATUS_ROWS : 1;
        if (at->step < progress->row_next)
            return;
        progress->row_next = (at->step / every + 1) * every;
        row_print(progress, at);
        return;
    }
    struct aw__progress_view view = {at, progress->total, progress->rate};
    aw_status_line_draw(
        &progress->line, false, now_us, "%s",
        aw__progress_line(&view, aw_columns(progress->line.out), line, sizeof line));
}

void aw_progress_clear(struct aw_progress *progress)
{
    aw_status_line_clear(&progress->line);
}
