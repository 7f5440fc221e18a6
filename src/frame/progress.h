/*
 * progress.h - how a run is going, on stderr: one line that redraws on a terminal, rows otherwise.
 *
 * Call order: init, update as often as you like, clear before anything else is printed.
 * Memory:     none beyond the struct.
 * Threads:    single owner. Time is an argument.
 */
#ifndef AW_FRAME_PROGRESS_H
#define AW_FRAME_PROGRESS_H

#include <stdio.h>

#include "frame/status_line.h"
#include "train/train.h"

struct aw_progress {
    struct aw_status_line line;
    uint64_t total; /* steps of the whole run */
    uint64_t row_next;
    bool headed;     /* the head of the rows is out */
    int64_t rate_us; /* when `rate` was last brought up to date, and at which step */
    uint64_t rate_step;
    double rate; /* steps/s, smoothed over a few seconds; 0: not known yet */
};

/* What one redraw shows. */
struct aw__progress_view {
    const struct aw_train_progress *at;
    uint64_t total;
    double rate; /* steps/s */
};

void aw_progress_init(struct aw_progress *progress, FILE *out, bool quiet, uint64_t step,
                      uint64_t total, int64_t now_us);
void aw_progress_update(struct aw_progress *progress, const struct aw_train_progress *at,
                        int64_t now_us);
void aw_progress_clear(struct aw_progress *progress);

/* The line for a terminal of `columns`, never longer than columns - 1, without control characters:
 * what does not fit is left out, the least important first. Returns `buf`. */
const char *aw__progress_line(const struct aw__progress_view *view, unsigned columns, char *buf,
                              size_t size);

#endif
