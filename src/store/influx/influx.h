/*
 * influx.h - what the files of this folder share: the connection, and how it is asked.
 *
 * Memory and threads: as aware/store.h.
 */
#ifndef AW_STORE_INFLUX_INFLUX_H
#define AW_STORE_INFLUX_INFLUX_H

#include <jansson.h>

#include "base/http.h"
#include "store/influx/pack.h"

#define AW__INFLUX_URL_MAX       1024u
#define AW__INFLUX_NAMES_MAX     16384u /* workloads */
#define AW__INFLUX_TAG_MAX       (3u * AW_STORE_NAME_MAX)
#define AW__INFLUX_PENDING_BYTES ((size_t)1 << 20) /* lines of a group before they are sent */
#define AW__INFLUX_QUERY_BYTES   ((size_t)64 << 10)
#define AW__INFLUX_LINE_MAX      (AW__PACK_TEXT_MAX + AW__INFLUX_TAG_MAX + 512u)

/* A workload, and the latest of its rows, so that an append knows whether its key may be taken. */
struct aw__influx_name {
    char name[AW_STORE_NAME_MAX];
    char tag[AW__INFLUX_TAG_MAX]; /* the name, percent-encoded */
    uint64_t last;                /* key */
    bool last_ended;
    struct aw_store_counts counts; /* at the last question */
};

struct aw__influx {
    const struct aw_alloc *alloc;
    struct aw_http *http;
    bool read_only, grouped;
    bool group_lost;  /* lines of the group may not have arrived */
    bool names_stale; /* `last` may speak of rows that did not arrive */
    char query_url[AW__INFLUX_URL_MAX], write_url[AW__INFLUX_URL_MAX];
    char shown[AW__INFLUX_URL_MAX]; /* host, port and database: no password */
    char database[AW_STORE_NAME_MAX];
    struct aw_text pending; /* lines that are not sent yet */
    struct aw_text query;   /* InfluxQL that is being put together */
    struct aw_text form;    /* the same, percent-encoded */
    struct aw__packed packed;
    struct aw__influx_name *names; /* [AW__INFLUX_NAMES_MAX], the first in the order of `order` */
    uint32_t *order;               /* by name */
    uint32_t name_count;
};

/* Takes the URL apart and connects; on failure the caller frees `s`. */
AW_NODISCARD enum aw_err aw__influx_connect(struct aw__influx *s, const char *url,
                                            const struct aw_store_options *options,
                                            struct aw_diag *diag);
/* Sends `pending`, if any. Whatever the outcome, it is empty after. */
AW_NODISCARD enum aw_err aw__influx_send(struct aw__influx *s, struct aw_diag *diag);
/* Asks what `query` holds, after sending what is pending. `*ret_results` is the array of results,
 * one per statement, none of them an error; the caller releases `*ret_root`. */
AW_NODISCARD enum aw_err aw__influx_ask(struct aw__influx *s, json_t **ret_root,
                                        json_t **ret_results, struct aw_diag *diag);
/* The values of the only series of result `index`: an array of rows; NULL: it is empty. */
json_t *aw__influx_values(json_t *results, size_t index);
/* The answer is not what the question asks for. */
enum aw_err aw__influx_odd(struct aw__influx *s, struct aw_diag *diag);

#endif
