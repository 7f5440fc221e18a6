/* internal.h - what controllers of this room share. */
#ifndef AW_CONGESTION_INTERNAL_H
#define AW_CONGESTION_INTERNAL_H

#include "congestion/controller.h"

/* A delivery rate over as many intervals as it takes to see some acks. Zeroed is empty. */
struct aw__delivery {
    uint64_t acks;
    double from_s, until_s;
    double rate; /* packets/s, of the last measurement; 0: none yet */
    bool fresh;  /* the last call ended a measurement */
};
double aw__delivery_next(struct aw__delivery *delivery, const struct aw_monitor *mi,
                         uint32_t acks_min);

#endif
