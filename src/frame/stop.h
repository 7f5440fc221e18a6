/*
 * stop.h - SIGINT and SIGTERM, as all verbs hear them: a number to look at between two pieces of
 * work, or something to wait for.
 *
 * Call order: catch, before threads are made, then look at aw_stop_signal; let_go only where the
 *             verb goes on to something that a signal may end. Or hold, wait, release.
 * Memory:     none.
 * Threads:    one process, one way to end: catch and let_go from the main thread; the numbers may
 *             be read anywhere.
 *
 * The trap: without `twice` a call that waits returns EINTR, and no number of signals ends a
 * process that does not look.
 */
#ifndef AW_FRAME_STOP_H
#define AW_FRAME_STOP_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic int aw_stop_signal; /* the signal that came; 0: none since catch */
extern _Atomic int aw_stop_hangup; /* not 0: SIGHUP came; its handler sets it back to 0 */

enum aw__stop_hangup_means {
    AW__STOP_HANGUP_DEFAULT, /* not caught */
    AW_STOP_HANGUP_NOTED,    /* in aw_stop_hangup */
    AW__STOP_HANGUP_ENDS,    /* as SIGTERM does */
};

struct aw_stop_config {
    bool
        twice; /* the second signal ends the process at once, and waiting calls are not disturbed */
    enum aw__stop_hangup_means hangup;
    const char *first_words;  /* written to standard error by the first signal; NULL: nothing */
    const char *second_words; /* by the second, before the end; both live as long as the process */
};
void aw_stop_catch(const struct aw_stop_config *config);
/* As it was before catch. What has come stays in aw_stop_signal. */
void aw_stop_let_go(void);

/* For a main thread that has nothing else to do: both signals are held back, in every thread that
 * is made after this, until one is waited for. Returns it. */
struct aw_stop_held {
    sigset_t before;
};
void aw_stop_hold(struct aw_stop_held *held);
int aw_stop_wait(void);
void aw_stop_release(const struct aw_stop_held *held);

#endif
