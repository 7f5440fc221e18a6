/* drive_internal.h - a thread of the load generator, its connections and what it has counted. */
#ifndef AW_LOAD_DRIVE_INTERNAL_H
#define AW_LOAD_DRIVE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/http1.h"
#include "load/drive.h"

#define AW__DRIVE_IN_BYTES 65536u /* received at once */

enum aw__wire_state { AW__WIRE_NONE, AW__WIRE_CONNECTING, AW__WIRE_IDLE, AW__WIRE_BUSY };

struct aw__wire {
    int fd;
    enum aw__wire_state state;
    bool used;     /* it has carried a whole exchange before */
    bool retry;    /* this request is a second try */
    bool touched;  /* bytes of the answer have come */
    bool has_head; /* its head is known, its body is on its way */
    bool keep_alive;
    int status;
    enum aw_http1_framing framing;
    struct aw_http1_chunks chunks;
    uint64_t left;
    size_t out_sent;
    int64_t due_us, sent_us; /* of the request on it; monotonic */
    uint32_t next;           /* index + 1 of the next idle or unused one */
    uint32_t head_len;
    char *head; /* [AW_HTTP1_HEAD_BYTES_MAX]: an answer's head that came in pieces */
};

struct aw__driver {
    const struct aw_drive_config *config;
    const char *request; /* head and body; shared */
    size_t request_len;
    bool repeatable; /* the method may be tried again */
    uint32_t index;  /* of this thread */
    int64_t start_us;
    struct aw_timetable timetable;
    _Atomic bool *stop;

    int epoll_fd; /* -1: not open */
    pthread_t thread;
    bool started;
    enum aw_err err;
    struct aw_diag diag;

    uint32_t wire_max, wire_open, idle_first, unused_first; /* lists: index + 1; 0: empty */
    uint32_t idle_count, busy_count;
    bool serving;          /* requests that waited */
    struct aw__wire *wire; /* [wire_max] */
    int64_t *backlog;      /* ring of due times */
    uint32_t backlog_max, backlog_first, backlog_count, backlog_seen_max;
    char *in; /* [AW__DRIVE_IN_BYTES] */
    int64_t now_us, last_due_us, finished_us;

    struct aw_drive_totals all;
    struct aw_latency_histogram *latency, *service, *behind;
    struct aw_latency_histogram *interval; /* since it was last published */

    /* for the reporter */
    pthread_mutex_t lock;
    struct aw_drive_totals published;
    struct aw_latency_histogram *published_interval;
    uint32_t published_connections;
    _Atomic bool done;
};

/* wire.c */
enum aw_err aw__wire_open(struct aw__driver *driver, struct aw_diag *diag); /* epoll */
void aw__wire_close(struct aw__driver *driver);
void aw__wire_dispatch(struct aw__driver *driver, int64_t due_us);
void aw__wire_expire(struct aw__driver *driver);
/* Waits for events until then at most, and handles them. */
enum aw_err aw__wire_wait(struct aw__driver *driver, int64_t until_us, struct aw_diag *diag);

#endif
