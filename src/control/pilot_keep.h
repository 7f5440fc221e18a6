/*
 * pilot_keep.h - what a workload has learned, kept for a later process: one with other settings
 * perhaps, or of another build.
 *
 * A workload is found again by its name. With the settings and the build that it was kept by,
 * everything is as it was, to the byte. With other settings what the new ones leave true is kept
 * (aw_pilot_new_after says what), and a sentence says what is not. Members of another build are
 * matched by name (store/archive.h). What cannot be read costs this workload alone.
 *
 * Threads: as the pilot's.
 */
#ifndef AW_CONTROL_PILOT_KEEP_H
#define AW_CONTROL_PILOT_KEEP_H

#include "control/pilot.h"
#include "store/archive.h"

enum aw_pilot_found_kind {
    AW_PILOT_FOUND_NONE,       /* nothing was kept under this name */
    AW_PILOT_FOUND_SAME,       /* everything is as it was */
    AW_PILOT_FOUND_KEPT,       /* what was learned goes on, with other settings or another build */
    AW_PILOT_FOUND_ASKED_ANEW, /* the task has changed: the policy is kept, and judged again */
    AW_PILOT_FOUND_UNREADABLE, /* it learns from the beginning */
};

struct aw_pilot_found {
    enum aw_pilot_found_kind kind;
    char text[512]; /* why, as a sentence; "" where nothing is to be said */
};

/* Parts under `place` ("0/shop/api"), which is at most AW_ARCHIVE_NAME_MAX - 16 bytes long. */
void aw_pilot_keep(const struct aw_pilot *pilot, const char *place, struct aw_archive_writer *to);
/* `pilot` has just been made, and becomes one that knows what was kept under `place`. AW_ERR_NOMEM
 * alone is a failure: nothing changed. */
AW_NODISCARD enum aw_err aw_pilot_recover(struct aw_pilot **pilot, struct aw_archive *from,
                                          const char *place, struct aw_pilot_found *ret_found,
                                          struct aw_diag *diag);

#endif
