/*
 * client.h - the daemon as the verbs see it: it answers over its socket, or it is stopped and what
 * it left in its state directory answers in its place, in the same documents.
 *
 * Where it is: --socket, else $AWARE_SOCKET, else `socket` in --state (aware-state).
 *
 * Call order: open, any number of questions and orders, close. What a question returns is the
 *             caller's to decref.
 * Memory:     libcurl's, jansson's, and a buffer for the largest answer.
 * Threads:    single owner.
 *
 * Looking works either way; of a stopped daemon stderr then says once of when it is. Of the orders
 * only freeze and unfreeze can be left for a daemon that is stopped: they need nothing but the log.
 */
#ifndef AW_OPERATE_CLIENT_H
#define AW_OPERATE_CLIENT_H

#include "base/http.h"
#include "frame/verb.h"

#include <jansson.h>

#define AW__CLIENT_STATE     "aware-state" /* directory, unless told otherwise */
#define AW__CLIENT_PAGE      1000u         /* of a list; the most that the API gives at once */
#define AW__CLIENT_LIST_MAX  100000u       /* rows of all pages */
#define AW__CLIENT_BODY_MAX  ((size_t)80 << 20)
#define AW__CLIENT_TIMEOUT_S 60u

/* The options of every verb that asks a daemon. */
#define AW__CLIENT_OPTIONS                                                                \
    {.name = "socket",                                                                    \
     .kind = AW_ARG_FILE,                                                                 \
     .arg = "PATH",                                                                       \
     .help = "socket of the daemon (default: $AWARE_SOCKET, or socket in --state)"},      \
    {                                                                                     \
        .name = "state", .kind = AW_ARG_DIR, .arg = "DIR",                                \
        .help = "directory of the daemon; read when it is stopped (default: aware-state)" \
    }

struct aw__client {
    const struct aw_call *run;
    char state[AW_TEXT_MAX];
    char socket[AW_TEXT_MAX];
    struct aw_http *http; /* NULL: the daemon is stopped */
    json_t *views;        /* what a stopped one left; NULL while it runs */
};

/* AW_ERR_UNAVAILABLE, AW_ERR_NOTFOUND: neither a daemon nor anything that one left; the diagnostic
 * says how to start one. On failure zeroed. */
AW_NODISCARD enum aw_err aw__client_open(struct aw__client *client, const struct aw_call *run,
                                         struct aw_diag *diag);
void aw__client_close(struct aw__client *client); /* a zeroed one is a no-op */
bool aw__client_running(const struct aw__client *client);
/* AW_ERR_UNAVAILABLE with `what` it cannot do while it is stopped; AW_OK while it runs. */
AW_NODISCARD enum aw_err aw__client_need(const struct aw__client *client, const char *what,
                                         struct aw_diag *diag);

/* One request of a running daemon. `body` NULL: GET, else POST of JSON. What the daemon refuses is
 * the error it says, in its words. */
AW_NODISCARD enum aw_err aw__client_ask(struct aw__client *client, const char *path,
                                        const json_t *body, json_t **ret, struct aw_diag *diag);
/* The same with any text to send, and the text that came back; it lives until the next request.
 * `body` NULL: GET. */
AW_NODISCARD enum aw_err aw__client_send(struct aw__client *client, const char *path,
                                         const char *body, const char *content_type,
                                         struct aw_http_answer *ret, struct aw_diag *diag);
/* "/v1/workloads/shop/cart/explain": `name` as a user writes it, "cart" or "shop/cart". Returns
 * `buf`. */
#define AW__CLIENT_PATH_MAX 2048u
const char *aw__client_path(const char *name, const char *tail, char *buf, size_t size);

/* --- questions, to a daemon or to its state --------------------------------------------------- */

AW_NODISCARD enum aw_err aw__client_status(struct aw__client *client, json_t **ret,
                                           struct aw_diag *diag);
/* All pages as one. `namespace` NULL: all. `sort` NULL: by name. */
AW_NODISCARD enum aw_err aw__client_workloads(struct aw__client *client, const char *namespace,
                                              const char *sort, json_t **ret, struct aw_diag *diag);
/* Of a stopped daemon: its row, the account of its last decision and its latest entries. */
AW_NODISCARD enum aw_err aw__client_workload(struct aw__client *client, const char *name,
                                             json_t **ret, struct aw_diag *diag);
/* `decision` 0: the last that was kept. `name` NULL: any workload; `decision` is not 0. */
AW_NODISCARD enum aw_err aw__client_explain(struct aw__client *client, const char *name,
                                            uint64_t decision, json_t **ret, struct aw_diag *diag);
/* Newest first. `name` NULL: of all. `since` as the API takes it, or NULL. `before`: only
 * what is older than this entry; 0: all. */
AW_NODISCARD enum aw_err aw__client_history(struct aw__client *client, const char *name,
                                            const char *since, uint32_t limit, uint64_t before,
                                            json_t **ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__client_freezes(struct aw__client *client, json_t **ret,
                                            struct aw_diag *diag);

/* An order as POST /v1/orders takes it; what it answers. Of a stopped daemon freeze and unfreeze
 * are written to its log, under its lock. */
AW_NODISCARD enum aw_err aw__client_order(struct aw__client *client, const json_t *order,
                                          json_t **ret, struct aw_diag *diag);

/* All that is known of a workload, as `describe` prints it (describe.c). */
void aw__describe_print(FILE *out, const json_t *workload, unsigned width, bool color);

/* --- what a stopped daemon left (offline_views.c)
 * ------------------------------------------------------ */

/* The row of a workload in views.json. AW_ERR_NOTFOUND, AW_ERR_USAGE: several of that name. */
AW_NODISCARD enum aw_err aw__offline_row(const struct aw__client *client, const char *name,
                                         json_t **ret_borrowed, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__offline_history(const struct aw__client *client, const char *name,
                                             const char *since, uint32_t limit, uint64_t before,
                                             json_t **ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__offline_explain(const struct aw__client *client, const char *name,
                                             uint64_t decision, json_t **ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__offline_order(const struct aw__client *client, const json_t *order,
                                           json_t **ret, struct aw_diag *diag);

#endif
