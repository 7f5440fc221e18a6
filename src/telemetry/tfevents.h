/*
 * tfevents.h - scalars over steps in the event-file format that TensorBoard reads.
 *
 * A file is a row of records: length (u64), its checksum, the bytes, their checksum, all little
 * endian (TFRecord); the checksum is CRC-32C, rotated and offset so that a checksum stored inside
 * a record does not weaken it. The bytes of a record are a protobuf Event: wall time (field 1),
 * step (2), then the file version (3, first record only) or a summary of tagged floats (5).
 *
 * Call order: create or resume, then add, then close.
 * Memory:     nothing is allocated; a record is built on the stack.
 * Threads:    single owner.
 *
 * A record is written by one call, so a crash leaves at most one broken record, at the end; resume
 * cuts it off. The name of the file must contain "tfevents" or TensorBoard does not see it.
 */
#ifndef AW_TELEMETRY_TFEVENTS_H
#define AW_TELEMETRY_TFEVENTS_H

#include <aware/err.h>

#define AW_TFEVENTS_SCALARS_MAX 32u   /* values of one record */
#define AW_TFEVENTS_TAG_MAX     64u   /* bytes of a tag, with its NUL */
#define AW_TFEVENTS_RECORD_MAX  4096u /* bytes of one record's content */

struct aw_tfevents {
    int fd_plus_1; /* so that a zeroed struct is closed */
};

struct aw_tfevents_scalar {
    const char *tag; /* "rollout/ep_rew_mean" */
    double value;    /* stored as a float, which is all the format has */
};

/* Starts an empty file, replacing what was there. `wall_s`: seconds since 1970. */
AW_NODISCARD enum aw_err aw_tfevents_create(struct aw_tfevents *events, const char *path,
                                            double wall_s, struct aw_diag *diag);
/* Goes on with a file: records of steps beyond `step_max`, and anything that is not a whole sound
 * record, are cut off together with all that follows. A missing file is created; one that this
 * program cannot have written (no sound first record) is AW_ERR_FORMAT and left alone. */
AW_NODISCARD enum aw_err aw_tfevents_resume(struct aw_tfevents *events, const char *path,
                                            uint64_t step_max, double wall_s, struct aw_diag *diag);

/* One record of `count` scalars. A value that is not finite is left out: TensorBoard draws it as
 * a gap either way. On failure the file may end in a broken record, which resume mends. */
AW_NODISCARD enum aw_err aw_tfevents_add(struct aw_tfevents *events, double wall_s, uint64_t step,
                                         const struct aw_tfevents_scalar *scalars, uint32_t count,
                                         struct aw_diag *diag);
void aw_tfevents_close(struct aw_tfevents *events); /* a zeroed one is a no-op */

#endif
