/* client_internal.h - what a watch needs of the client that it belongs to. */
#ifndef AW_KUBE_CLIENT_INTERNAL_H
#define AW_KUBE_CLIENT_INTERNAL_H

#include "kube/backoff.h"
#include "kube/client.h"
#include "kube/transport.h"

#define AW__KUBE_WATCHES_MAX 64u /* of one client; each has a connection */

struct aw_kube {
    const struct aw_alloc *alloc;
    const struct aw_kube_config *config;
    struct aw_kube_options options;
    struct aw__kube_transport transport;
    struct aw_kube_credential credential;
    struct aw__kube_transfer request; /* the one that is being made */
    struct aw_kube_bucket bucket;
    struct aw_rng rng;
    struct aw_kube_counts counts;
    struct aw__kube_transfer *watches[AW__KUBE_WATCHES_MAX]; /* open ones, in no order */
    uint32_t watch_count;
    _Atomic bool stop;
};

/* Takes a token of the bucket, waiting for it until `deadline_us`. */
AW_NODISCARD enum aw_err aw__kube_take_turn(struct aw_kube *kube, int64_t deadline_us,
                                            bool last_words, struct aw_diag *diag);

#endif
