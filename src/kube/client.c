/* client.c - one request: turn, credential, transfer, verdict; and again where that is harmless. */
#include "kube/client_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define REQUEST_NAME_MAX 256u   /* "GET /api/v1/..." for diagnostics */
#define STOP_LOOK_US     250000 /* how often a wait looks whether it should end */

static const struct aw_kube_options defaults = {
    .requests_per_second = AW_KUBE_RATE_DEFAULT,
    .burst = AW_KUBE_BURST_DEFAULT,
    .attempts_max = AW_KUBE_ATTEMPTS_DEFAULT,
    .timeout_us = AW_KUBE_TIMEOUT_US,
    .answer_bytes_max = AW_KUBE_ANSWER_MAX,
};

enum aw_err aw_kube_open(struct aw_kube **ret_kube, const struct aw_kube_config *config,
                         const struct aw_kube_options *options, const struct aw_alloc *alloc,
                         struct aw_diag *diag)
{
    struct aw_kube_options wanted = options ? *options : defaults;
    if (wanted.requests_per_second <= 0)
        wanted.requests_per_second = defaults.requests_per_second;
    wanted.burst = wanted.burst ? wanted.burst : defaults.burst;
    wanted.attempts_max = wanted.attempts_max ? wanted.attempts_max : defaults.attempts_max;
    wanted.timeout_us = wanted.timeout_us ? wanted.timeout_us : defaults.timeout_us;
    if (!wanted.answer_bytes_max)
        wanted.answer_bytes_max = defaults.answer_bytes_max;
    struct aw_kube *kube = aw_alloc_new(alloc, 1, sizeof *kube);
    if (!kube)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a client");
    kube->alloc = alloc;
    kube->config = config;
    kube->options = wanted;
    aw_rng_init(&kube->rng, wanted.seed, 0);
    aw_kube_bucket_init(&kube->bucket, wanted.requests_per_second, wanted.burst);
    aw_kube_credential_init(&kube->credential, config, wanted.clock);
    enum aw_err err = aw__kube_transport_init(&kube->transport, config, diag);
    if (!err && aw__kube_transfer_init(&kube->request, &kube->transport, wanted.answer_bytes_max,
                                       false) != AW_OK)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a client");
    if (err)
        aw_kube_close(kube);
    else
        *ret_kube = kube;
    return err;
}

void aw_kube_close(struct aw_kube *kube)
{
    if (!kube)
        return;
    AW_ASSERT(kube->watch_count == 0);
    aw__kube_transfer_deinit(&kube->request);
    aw__kube_transport_deinit(&kube->transport);
    aw_kube_credential_deinit(&kube->credential);
    aw_alloc_free(kube->alloc, kube);
}

static bool stopped(const struct aw_kube *kube, bool last_words)
{
    return kube->stop && !last_words;
}

static enum aw_err fail_stopped(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_INTERRUPTED, "the client was told to stop");
}

/* Sleeps; in pieces, so that being told to stop is noticed. */
static enum aw_err pause_until(struct aw_kube *kube, int64_t until_us, bool last_words,
                               struct aw_diag *diag)
{
    const struct aw_clock *clock = kube->options.clock;
    int64_t now_us;
    while ((now_us = aw_clock_monotonic_us(clock)) < until_us) {
        if (stopped(kube, last_words))
            return fail_stopped(diag);
        const int64_t left_us = until_us - now_us;
        /* a signal that ends the sleep early is for whoever set the stop flag */
        (void)!aw_clock_sleep_until(clock,
                                    now_us + (left_us < STOP_LOOK_US ? left_us : STOP_LOOK_US));
    }
    return AW_OK;
}

enum aw_err aw__kube_take_turn(struct aw_kube *kube, int64_t deadline_us, bool last_words,
                               struct aw_diag *diag)
{
    const int64_t now_us = aw_clock_monotonic_us(kube->options.clock);
    const int64_t wait_us = last_words ? 0 : aw_kube_bucket_take(&kube->bucket, now_us);
    kube->counts.held = kube->bucket.held_count;
    kube->counts.held_us = kube->bucket.held_total_us;
    if (now_us + wait_us >= deadline_us)
        return aw_fail(diag, AW_ERR_DEADLINE, "held back by our own limit of %g requests a second",
                       kube->options.requests_per_second);
    return pause_until(kube, now_us + wait_us, last_words, diag);
}

/* One attempt, to its end. AW_OK: there is an answer of some status in kube->request. */
static enum aw_err attempt(struct aw_kube *kube, const struct aw_kube_request *request,
                           const char *name, const char *body, size_t body_len, int64_t deadline_us,
                           struct aw_diag *diag)
{
    struct aw__kube_transfer *transfer = &kube->request;
    const int64_t left_us = deadline_us - aw_clock_monotonic_us(kube->options.clock);
    const struct aw__kube_call call = {
        .method = request->method ? request->method : "GET",
        .path = request->path,
        .content_type =
            !body ? NULL : (request->content_type ? request->content_type : "application/json"),
        .body = body,
        .body_len = body_len,
        .timeout_us = left_us > 1000 ? left_us : 1000,
    };
    enum aw_err err = aw__kube_transfer_start(transfer, &call, &kube->credential, diag);
    if (err)
        return err;
    kube->counts.requests++;
    aw__kube_transport_perform(&kube->transport);
    while (!transfer->done) {
        if (stopped(kube, request->last_words)) {
            aw__kube_transfer_stop(transfer);
            return fail_stopped(diag);
        }
        aw__kube_transport_wait(&kube->transport, STOP_LOOK_US);
    }
    err = aw__kube_transfer_result(transfer, name, diag);
    kube->counts.unanswered += err != AW_OK;
    return err;
}

static bool is_post(const struct aw_kube_request *request)
{
    return request->method && !strcmp(request->method, "POST");
}

/* Whether trying again could help and cannot harm. */
static bool worth_retrying(const struct aw_kube *kube, const struct aw_kube_request *request,
                           enum aw_err err, const struct aw_kube_status *status)
{
    if (request->once)
        return false;
    if (status->code == 0) { /* nobody answered */
        if (err != AW_ERR_UNAVAILABLE)
            return false; /* too late, too large, no trust */
        return !is_post(request) || aw__kube_transfer_unsent(&kube->request);
    }
    if (status->code == 429)
        return true;
    return status->code >= 500 && status->code != 501 &&
           (!is_post(request) || status->retry_after_us > 0);
}

static enum aw_err read_answer(struct aw_kube *kube, const struct aw_kube_request *request,
                               const char *name, json_t **ret_body, struct aw_diag *diag)
{
    const struct aw__kube_transfer *transfer = &kube->request;
    const char *text = transfer->buf + transfer->first;
    const size_t len = transfer->len - transfer->first;
    json_t *body = NULL;
    if (!ret_body)
        return AW_OK;
    if (len > 0 && request->split) {
        const enum aw_err err =
            aw_kube_slices_cut(text, len, request->split, request->slices, &body, NULL);
        if (err == AW_ERR_NOMEM)
            return aw_fail(diag, err, "no memory for an answer");
    } else if (len > 0) {
        body = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    }
    if (len > 0 && !body)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                          "expected JSON from the server, found something else");
    *ret_body = body;
    return AW_OK;
}

/* What the server said, as an error with one sentence. */
static enum aw_err judge(struct aw_kube *kube, const char *name, struct aw_kube_status *status,
                         struct aw_diag *diag)
{
    const struct aw__kube_transfer *transfer = &kube->request;
    if (transfer->status >= 200 && transfer->status < 300) {
        *status = (struct aw_kube_status){.code = transfer->status};
        return AW_OK;
    }
    aw_kube_status_read(status, transfer->status, transfer->buf + transfer->first,
                        transfer->len - transfer->first, transfer->retry_after);
    kube->counts.refused += status->code == 429;
    kube->counts.server_errors += status->code >= 500;
    return aw_fail_at(diag, aw_kube_status_err(status), name, 0, 0, NULL, "%d %s%s%s", status->code,
                      aw_kube_reason_name(status->reason), status->message[0] ? ": " : "",
                      status->message);
}

static enum aw_err send_text(struct aw_kube *kube, const struct aw_kube_request *request,
                             const char *body, size_t body_len, json_t **ret_body,
                             struct aw_kube_status *status, struct aw_diag *diag)
{
    const struct aw_clock *clock = kube->options.clock;
    const int64_t deadline_us =
        aw_clock_monotonic_us(clock) +
        (request->timeout_us ? request->timeout_us : kube->options.timeout_us);
    struct aw_kube_backoff backoff = {AW_KUBE_BACKOFF_FIRST_US, AW_KUBE_BACKOFF_MAX_US, 0};
    char name[REQUEST_NAME_MAX];
    struct aw_text text;
    bool renewed = false;
    aw_text_init(&text, name, sizeof name); /* without the query: it may hold somebody's labels */
    aw_text_add(&text, "%s ", request->method ? request->method : "GET");
    aw_text_add_bytes(&text, request->path, strcspn(request->path, "?"));
    for (uint32_t tries = 1;; tries++) {
        *status = (struct aw_kube_status){0};
        enum aw_err err = aw__kube_take_turn(kube, deadline_us, request->last_words, diag);
        err = err ? err : aw_kube_credential_refresh(&kube->credential, diag);
        if (err)
            return err;
        kube->counts.retries += tries > 1;
        err = attempt(kube, request, name, body, body_len, deadline_us, diag);
        if (err == AW_ERR_INTERRUPTED)
            return err;
        err = err ? err : judge(kube, name, status, diag);
        if (!err)
            return read_answer(kube, request, name, ret_body, diag);
        if (status->code == 401 && !renewed && aw_kube_credential_expire(&kube->credential)) {
            renewed = true;
            continue;
        }
        if (tries >= kube->options.attempts_max || !worth_retrying(kube, request, err, status))
            return err;
        const int64_t wait_us = aw_kube_backoff_next(&backoff, status->retry_after_us, &kube->rng);
        const int64_t now_us = aw_clock_monotonic_us(clock);
        if (now_us + wait_us >= deadline_us)
            return err; /* what the last attempt met says more than "too late" */
        if (pause_until(kube, now_us + wait_us, request->last_words, diag) != AW_OK)
            return AW_ERR_INTERRUPTED;
    }
}

enum aw_err aw_kube_send(struct aw_kube *kube, const struct aw_kube_request *request,
                         json_t **ret_body, struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    struct aw_kube_status status = {0};
    char *body = NULL;
    size_t len = 0;
    enum aw_err err = AW_OK;
    if (request->split)
        *request->slices = (struct aw_kube_slices){0};
    if (request->body) {
        body = json_dumps(request->body, JSON_COMPACT);
        len = body ? strlen(body) : 0;
        if (!body)
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a request");
        else if (len > AW_KUBE_BODY_MAX)
            err = aw_fail(diag, AW_ERR_LIMIT, "a request of %zu bytes; the API server takes %zu",
                          len, AW_KUBE_BODY_MAX);
    }
    const char *sent = request->text ? request->text : body;
    len = request->text ? strlen(request->text) : len;
    err = err ? err : send_text(kube, request, sent, len, ret_body, &status, diag);
    free(body);
    if (ret_status)
        *ret_status = status;
    return err;
}

static bool any_watch_ready(const struct aw_kube *kube)
{
    for (uint32_t i = 0; i < kube->watch_count; i++) {
        const struct aw__kube_transfer *watch = kube->watches[i];
        const size_t from = watch->scanned > watch->first ? watch->scanned : watch->first;
        if (watch->done ||
            (watch->len > from && memchr(watch->buf + from, '\n', watch->len - from)))
            return true;
    }
    return false;
}

enum aw_err aw_kube_wait(struct aw_kube *kube, int64_t until_us)
{
    const struct aw_clock *clock = kube->options.clock;
    aw__kube_transport_perform(&kube->transport);
    for (;;) {
        const int64_t left_us = until_us - aw_clock_monotonic_us(clock);
        if (kube->stop)
            return AW_ERR_INTERRUPTED;
        if (left_us <= 0 || any_watch_ready(kube))
            break;
        aw__kube_transport_wait(&kube->transport, left_us < STOP_LOOK_US ? left_us : STOP_LOOK_US);
    }
    return AW_OK;
}

void aw_kube_stop(struct aw_kube *kube)
{
    kube->stop = true;
}

const struct aw_kube_counts *aw_kube_counts(const struct aw_kube *kube)
{
    return &kube->counts;
}

const struct aw_kube_config *aw_kube_where(const struct aw_kube *kube)
{
    return kube->config;
}
