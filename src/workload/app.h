/*
 * app.h - what runs: segments with their appetite, and applications made of them.
 *
 * A segment kind says what one request costs at payload 1: CPU time, waiting, memory, bytes; and
 * how each grows with the payload (value * payload^exponent). An application is a sequence of 1 to
 * 6 segments that every request passes in order, drawn with replacement from the kinds (AWARE
 * section 5.1). 1000 applications come from one seed.
 *
 * Memory:  plain structs, copied freely.
 * Threads: pure functions; chance is an argument.
 */
#ifndef AW_WORKLOAD_APP_H
#define AW_WORKLOAD_APP_H

#include <aware/err.h>

#include "base/rng.h"

#define AW_SEGMENT_BUILTIN_COUNT 16u
#define AW_SEGMENT_KINDS_MAX     64u /* built in and added by users */
#define AW_APP_SEGMENTS_MAX      6u
#define AW_APP_NAME_MAX          64u

/* Which of AWARE's seven disturbances changes the payload of a kind (section 2.3). */
enum aw_payload_family {
    AW_PAYLOAD_NONE,
    AW_PAYLOAD_FILE,  /* files read, written, streamed, compressed: 128-384 KB -> 512-1024 KB */
    AW_PAYLOAD_TABLE, /* rows scanned: 1024 -> 10240 */
    AW_PAYLOAD_FLOAT, /* floating-point operations: 1e8 -> 2e8 */
    AW_PAYLOAD_IMAGE, /* image side: 40 -> 160 pixels */
    AW_PAYLOAD_TEXT,  /* JSON bytes: 250-1000 -> 2000-5000 */
    AW_PAYLOAD_MODEL, /* matrix side of model serving: 50 -> 150 */
};

struct aw_segment {
    char name[AW_APP_NAME_MAX];
    enum aw_payload_family family;
    double cpu_ms;            /* mean CPU time of a request, on one core */
    double cpu_cv;            /* its coefficient of variation; lognormal */
    double io_ms, io_cv;      /* waiting off the CPU: disk, object store, database; lognormal */
    double memory_base_mib;   /* held by a replica as long as it runs */
    double memory_flight_mib; /* held by a request as long as it is in flight */
    double read_kib, write_kib, send_kib;                              /* per request */
    double cpu_exponent, io_exponent, memory_exponent, bytes_exponent; /* of the payload */
    double parallelism;   /* cores that one request can use at once, >= 1 */
    uint32_t threads;     /* requests a replica works on at once; 0: no limit */
    double cold_start_ms; /* from container start until it serves */
    /* How much longer CPU work takes while its core's other hardware thread is busy: 0 not at all,
     * 1 twice as long. Found by calibration (fitting/calibrate.h); descriptions have none. */
    double crowding;
    /* What the fast model's p99 is multiplied by where load is light; 0: by nothing. Found by
     * calibration too: its network knows requests like those of the pool, not each that exists. */
    double fast_tail;
};

struct aw_app {
    char name[AW_APP_NAME_MAX];
    uint32_t segment_count;
    struct aw_segment segment[AW_APP_SEGMENTS_MAX];
};

/* An application at some payload, summed over its segments: all that a cluster model needs beyond
 * the segments themselves. */
struct aw_demand {
    double cpu_ms; /* of the whole request, all its cores together */
    double cpu_cv; /* of its time on the CPU, which more cores shorten */
    double io_ms, io_cv;
    double memory_base_mib, memory_flight_mib;
    double disk_kib, net_kib;
    double parallelism; /* cores that a request can use, weighted by CPU time */
    uint32_t threads;   /* the tightest of its segments; 0: no limit */
    float crowding;     /* of its segments, weighted by CPU time */
    double cold_start_ms;
    double fast_tail; /* of its segments, weighted by CPU time; 0: none of them says any */
};

/* The built-in kinds, AW_SEGMENT_BUILTIN_COUNT of them. */
const struct aw_segment *aw_segment_builtin(void);

/* Draws application `index` of the pool of `seed`: the same whether or not other indices are drawn.
 * Each segment is its kind with its own scale (log-uniform), so two applications of one kind
 * differ. */
void aw_app_generate(uint64_t seed, uint32_t index, const struct aw_segment *kinds,
                     uint32_t kind_count, struct aw_app *ret_app);

/* The segment at `payload` times its payload, when its family is in `families` (0: all). */
void aw_segment_at(const struct aw_segment *segment, double payload, uint32_t families,
                   struct aw_segment *ret_segment);

/* `payload` multiplies the payload of every segment whose family is in `families` (bit 1 <<
 * family). families 0: all of them. */
void aw_app_demand(const struct aw_app *app, double payload, uint32_t families,
                   struct aw_demand *ret_demand);

/* p99 of a request alone on generous resources, in microseconds: the foot of an SLO. Sampled with a
 * fixed generator, so it is a property of the application. */
double aw_app_unloaded_p99_us(const struct aw_app *app, double payload, uint32_t families);

/* Requests/s with which the application keeps `cores` cores busy: to scale a load to it. */
double aw_app_rate_for(const struct aw_app *app, double cores);

#endif
