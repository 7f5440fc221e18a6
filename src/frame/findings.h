/*
 * findings.h - what is wrong or odd in files of users, as lines on standard error.
 *
 * Memory:  none.
 * Threads: single owner.
 */
#ifndef AW_FRAME_FINDINGS_H
#define AW_FRAME_FINDINGS_H

#include "profile/profile.h"

/* As aw_profile_report takes it; `ctx` is a bool: in colour. */
void aw_finding_print(void *ctx, const struct aw_profile_finding *finding);

#endif
