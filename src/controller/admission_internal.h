/* admission_internal.h - what the files of the webhook share. */
#ifndef AW_CONTROLLER_ADMISSION_INTERNAL_H
#define AW_CONTROLLER_ADMISSION_INTERNAL_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "controller/admission.h"
#include "controller/certs.h"
#include "controller/shared_table.h"
#include "kube/informer.h"

#define AW__ADMISSION_SETS_MAX   65536u
#define AW__ADMISSION_RANGES_MAX 4096u
#define AW__ADMISSION_DAEMONS    2u /* one that serves, and one that ends its requests */

/* An object of which new pods are sized. */
struct aw__sized_object {
    char name[AW_KUBE_NAME_MAX];
    _Alignas(8) char intent[]; /* struct aw__mpa_intent and what lies behind it */
};

/* Answers reviews over TLS, from what the tables have. */
struct aw__gate {
    struct aw__shared_table intents; /* by target: struct aw__sized_object */
    struct aw__shared_table sets;    /* by "namespace/ReplicaSet": its Deployment */
    struct aw__shared_table ranges;  /* by namespace: struct aw__limit_range */
    const struct aw_clock *clock;
    int listener; /* -1: none; daemons have copies of it */
    uint16_t port;
    struct MHD_Daemon *daemons[AW__ADMISSION_DAEMONS];
    int64_t leaving_us; /* monotonic: until when daemons[1] may finish */
    _Atomic size_t bodies_bytes;
    _Atomic uint64_t reviews, patched, unread, refused;
    _Atomic int64_t slowest_us, total_us;
};

/* The tables alone: nobody can ask before `listen`. AW_ERR_UNSUPPORTED, AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw__gate_open(struct aw__gate *gate, uint32_t objects_max,
                                       const struct aw_clock *clock, const struct aw_alloc *alloc,
                                       struct aw_diag *diag);
/* Listens; nothing is answered before `serve`. AW_ERR_UNAVAILABLE, AW_ERR_CONFIG: no address. */
AW_NODISCARD enum aw_err aw__gate_listen(struct aw__gate *gate, const char *address, uint16_t port,
                                         struct aw_diag *diag);
/* Serves with these certificates from now on; connections that use older ones end normally. */
AW_NODISCARD enum aw_err aw__gate_serve(struct aw__gate *gate, const struct aw__certs *certs,
                                        struct aw_diag *diag);
void aw__gate_tidy(struct aw__gate *gate); /* ends what has been left long enough */
void aw__gate_close(struct aw__gate *gate);

#endif
