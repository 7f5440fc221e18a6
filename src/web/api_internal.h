/*
 * api_internal.h - what the files of the API share: api.c finds the route, api_read.c and
 * api_workload.c tell the present, api_past.c what was, api_order.c what people want, api_diff.c
 * what files would change, api_series.c recent values, api_map.c which workloads are alike,
 * api_metrics.c what is scraped, api_capacity.c who has what of a shared cluster.
 *
 * A handler fills `body` (JSON, which the router writes) or writes `out` itself, and returns AW_OK;
 * or it returns an error with a diagnostic, and the router makes the answer.
 */
#ifndef AW_WEB_API_INTERNAL_H
#define AW_WEB_API_INTERNAL_H

#include "web/api.h"

#include <jansson.h>
#include <stdio.h>

#define AW__API_PARAMS_MAX 8u /* of one query */
#define AW__API_PARTS_MAX  6u /* of one path */

struct aw__api_param {
    const char *key, *value; /* decoded */
};

/* One request on its way. */
struct aw__api_call {
    struct aw_api *api;
    const struct aw_api_request *request;
    const char *part[AW__API_PARTS_MAX]; /* of the path behind /v1/, decoded */
    uint32_t part_count;
    struct aw__api_param param[AW__API_PARAMS_MAX];
    uint32_t param_count;
    char text[AW_API_PATH_MAX]; /* that the above point into */
    int64_t now_us;             /* the loop's present: later than its last tick */

    /* what it comes to */
    int status;
    json_t *body; /* owned */
    FILE *out;    /* text that is not made of `body`; NULL: it is */
    const char *content_type;
    char next[AW_API_HEADER_MAX];
    char allow[AW_API_HEADER_MAX];
};

typedef enum aw_err aw__api_handler(struct aw__api_call *call, struct aw_diag *diag);

/* Parameters; NULL: not given. */
const char *aw__api_param(const struct aw__api_call *call, const char *key);
AW_NODISCARD enum aw_err aw__api_limit(const struct aw__api_call *call, uint32_t initial,
                                       uint32_t max, uint32_t *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__api_id(const char *text, const char *key, uint64_t *ret,
                                    struct aw_diag *diag);
/* `since`: a time, or a duration before now; not given: INT64_MIN. */
AW_NODISCARD enum aw_err aw__api_since(const struct aw__api_call *call, int64_t *ret_us,
                                       struct aw_diag *diag);

/* Values. What is not finite, or AW_NEVER, is null. */
json_t *aw__json_num(double value);
json_t *aw__json_time(int64_t us);
json_t *aw__json_id(uint64_t id);                     /* 0: null */
json_t *aw__json_model(uint64_t model);               /* 0: null */
json_t *aw__json_plan(const struct aw_plan *plan);    /* what is set; nothing: null */
json_t *aw__json_amounts(const struct aw_plan *plan); /* all three */
/* Sets a member; a NULL value (no memory) is remembered in `*ok`. */
void aw__json_set(json_t *object, const char *key, json_t *value, bool *ok);
/* RFC 3339 with microseconds. Returns `buf`. */
#define AW__TIME_TEXT_MAX 40u
const char *aw__time_format(int64_t us, char *buf, size_t size);

/* Whether a decision has been taken since the loop was made. */
bool aw__api_decided(const struct aw_desk_view *view);
/* The three amounts in force behind the last decision; without one all 0. */
void aw__api_present(const struct aw_desk_view *view, struct aw_plan *ret);
/* The loop's present, between the last tick and the next. Under the desk's lock. */
int64_t aw__api_now_us(const struct aw_api *api);
/* What stands for a workload, as the next tick will see it. */
void aw__api_orders(const struct aw_api *api, const char *workload, int64_t now_us,
                    struct aw_orders *ret);
/* The workload that the path names, under the desk's lock. */
AW_NODISCARD enum aw_err aw__api_find(const struct aw__api_call *call,
                                      struct aw_desk_view *ret_view, struct aw_diag *diag);

/* Under the desk's lock: a row of a list, and the rest of a description. NULL: no memory. */
json_t *aw__api_row(struct aw_api *api, const struct aw_desk_view *view, int64_t now_us);
bool aw__api_describe(const struct aw_api *api, const struct aw_desk_view *view, int64_t now_us,
                      json_t *object);
json_t *aw__api_standing(const struct aw_standing *standing, int64_t now_us);
json_t *aw__api_freezes(const struct aw_api *api, int64_t now_us);
/* The answer to an order that was taken: as the log has it. */
json_t *aw__api_taken(const struct aw_api *api, uint64_t id, const struct aw_order *asked,
                      int64_t now_us);
/* Who holds, wants, borrows and lends of a shared cluster; null: nothing is shared. */
json_t *aw__api_capacity(const struct aw_api *api);
json_t *aw__api_proposals(const struct aw_api *api, const char *namespace, int64_t now_us);
/* What a workload is most like; null: it has no embedding. */
json_t *aw__api_alike(const struct aw_api *api, const char *workload);

/* Checks that the user is known and the loop will tick again. Without the desk's lock. */
AW_NODISCARD enum aw_err aw__api_may_order(const struct aw__api_call *call, struct aw_diag *diag);

/* Policies of a workload: looked at, taken out, handed in (api_policy.c). */
aw__api_handler aw__api_get_policy, aw__api_get_policy_file, aw__api_post_policy;

/* Entries of the audit log, newest first, as text "{...},{...}" between brackets. */
struct aw__api_entries {
    const char *workload; /* NULL: all; about this one else */
    const char *kind;     /* NULL: all */
    int64_t since_us;
    uint64_t before; /* ids below it; UINT64_MAX: all */
    uint32_t limit;
    uint64_t ret_next; /* `before` of the next page; 0: no further page */
};
AW_NODISCARD enum aw_err aw__api_entries(const struct aw_api *api, struct aw__api_entries *ask,
                                         FILE *out, struct aw_diag *diag);

aw__api_handler aw__api_get_health, aw__api_get_ready, aw__api_get_status, aw__api_get_workloads,
    aw__api_get_workload, aw__api_get_state, aw__api_get_explain, aw__api_get_history,
    aw__api_get_decision, aw__api_get_proposals, aw__api_get_freezes, aw__api_get_audit,
    aw__api_get_export, aw__api_get_series, aw__api_get_episodes, aw__api_get_fleet,
    aw__api_get_table, aw__api_get_embeddings, aw__api_get_reports, aw__api_get_metrics,
    aw__api_post_order, aw__api_post_diff, aw__api_get_capacity;

/* The body of POST /v1/orders; `now_us` of the call is read. */
AW_NODISCARD enum aw_err aw__api_order_read(const struct aw__api_call *call, json_t *body,
                                            struct aw_order *ret, struct aw_diag *diag);
/* The entries about a workload or service of this name, as the parameters say. */
AW_NODISCARD enum aw_err aw__api_history_of(struct aw__api_call *call, const char *name,
                                            struct aw_diag *diag);

/* The services of a graph (api_services.c). */
aw__api_handler aw__api_services_health, aw__api_services_status, aw__api_services_list,
    aw__api_services_one, aw__api_services_explain, aw__api_services_history,
    aw__api_services_freezes, aw__api_services_proposals, aw__api_services_order;

#endif
