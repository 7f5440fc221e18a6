/*
 * events.h - the event stream of a server: news for browsers, by server-sent events.
 *
 * Call order: open with the server; aw__events_answer for each listener; close before the HTTP
 *             library is stopped, which then must still run for a moment.
 * Memory:     one text of news at a time, shared by all, and those before it that a slow listener
 *             has not finished: at most one each. AW_EVENTS_STREAMS_MAX listeners.
 * Threads:    one of its own waits for ticks; the HTTP library's thread reads.
 *
 * News is the status of the daemon (/v1/status), at most twice a second and at least every
 * AW_EVENTS_BEAT_MS. A slow listener misses old news and gets the newest. A listener that is gone
 * is noticed when the next news cannot be sent.
 */
#ifndef AW_WEB_EVENTS_H
#define AW_WEB_EVENTS_H

#include <microhttpd.h>

#include "web/api.h"

#define AW_EVENTS_STREAMS_MAX 256u
#define AW_EVENTS_PERIOD_MS   500u
#define AW_EVENTS_BEAT_MS     5000u

struct aw__events; /* opaque */

AW_NODISCARD enum aw_err aw__events_open(struct aw__events **ret, struct aw_api *api,
                                         struct aw_diag *diag);
/* From now on the thread calls this too, at least every AW_EVENTS_BEAT_MS. */
void aw__events_beat(struct aw__events *events, void (*beat)(void *ctx), void *ctx);
/* Ends every stream and waits until the listeners know. NULL is a no-op. */
void aw__events_close(struct aw__events *events);
void aw__events_free(struct aw__events *events); /* once no stream can be read any more */
/* A response that never ends; the caller queues and destroys it. NULL: too many listen, or no
 * memory. */
struct MHD_Response *aw__events_answer(struct aw__events *events,
                                       struct MHD_Connection *connection);

#endif
