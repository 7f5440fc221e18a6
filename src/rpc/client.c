/* client.c - see client.h. */
#include "rpc/client.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "rpc/library.h"

#define PEM_BYTES_MAX (1u << 20)
#define STATUS_US     5000000 /* how long a status may follow what failed */
#define LOOK_US       150     /* before a wait sleeps, where the last one was no longer */

struct aw_rpc_client {
    grpc_channel *channel;
    char address[256];
    char bearer[AW_TOKEN_MAX + 8]; /* "": none */
    int64_t timeout_us;
    bool looks; /* there is a processor for the other side meanwhile */
};

struct aw_rpc_talk {
    struct aw_rpc_client *client;
    grpc_completion_queue *queue;
    grpc_call *call;
    bool told;    /* how it ended is known */
    bool quick;   /* the last answer took less than waking up does */
    bool greeted; /* the batch of the first metadata is under way */
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    /* addresses that tell batches apart in the queue */
    char tag_initial, tag_status, tag_exchange, tag_send, tag_receive;
};

void aw_rpc_answer_free(struct aw_rpc_answer *answer)
{
    grpc_slice slice;
    if (answer->held) {
        memcpy(&slice, answer->slice, sizeof slice);
        grpc_slice_unref(slice);
    }
    *answer = (struct aw_rpc_answer){0};
}

/* Takes the message; its bytes stay where they are until the answer is freed. */
static bool answer_take(grpc_byte_buffer *buffer, struct aw_rpc_answer *answer)
{
    grpc_slice slice;
    if (!aw__message_flatten(buffer, &slice))
        return false;
    *answer = (struct aw_rpc_answer){.held = true};
    memcpy(answer->slice, &slice, sizeof slice);
    answer->size = GRPC_SLICE_LENGTH(slice);
    /* a small slice holds its bytes in itself: point into the copy */
    const size_t inlined = offsetof(grpc_slice, data.inlined.bytes);
    answer->bytes = slice.refcount ? slice.data.refcounted.bytes : answer->slice + inlined;
    return true;
}

/* ---- the connection ---- */

static enum aw_err credentials_make(const struct aw_rpc_client_config *config,
                                    grpc_channel_credentials **ret, struct aw_diag *diag)
{
    char *roots = NULL;
    size_t len;
    if (!config->tls) {
        *ret = grpc_insecure_credentials_create();
        return AW_OK;
    }
    enum aw_err err = AW_OK;
    if (config->ca_path)
        err = aw_file_read(config->ca_path, PEM_BYTES_MAX, NULL, &roots, &len, diag);
    if (!err && !(*ret = grpc_ssl_credentials_create(roots, NULL, NULL, NULL)))
        err = aw_fail(diag, AW_ERR_CONFIG, "no TLS with these certificates");
    aw_alloc_free(NULL, roots);
    return err;
}

enum aw_err aw_rpc_client_open(struct aw_rpc_client **ret,
                               const struct aw_rpc_client_config *config, struct aw_diag *diag)
{
    grpc_channel_credentials *credentials = NULL;
    if (strlen(config->address) >= sizeof((struct aw_rpc_client *)0)->address)
        return aw_fail(diag, AW_ERR_LIMIT, "an address of more than %zu bytes",
                       sizeof((struct aw_rpc_client *)0)->address - 1);
    struct aw_rpc_client *client = aw_alloc_new(NULL, 1, sizeof *client);
    if (!client)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a client");
    aw__library_open();
    enum aw_err err = credentials_make(config, &credentials, diag);
    if (err) {
        aw__library_close();
        aw_alloc_free(NULL, client);
        return err;
    }
    snprintf(client->address, sizeof client->address, "%s", config->address);
    if (config->token)
        snprintf(client->bearer, sizeof client->bearer, "Bearer %s", config->token);
    client->looks = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    client->timeout_us = config->timeout_us;
    /* Connections of its own: two clients of one server do not share a fate. No proxies: an
     * environment is where its address says. */
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         .value.integer = AW_RPC_MESSAGE_BYTES_MAX},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
         .value.integer = 1},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_ENABLE_HTTP_PROXY,
         .value.integer = 0},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)(uintptr_t)GRPC_ARG_ENABLE_RETRIES,
         .value.integer = 0},
    };
    const grpc_channel_args all = {.num_args = sizeof args / sizeof *args, .args = args};
    client->channel = grpc_channel_create(client->address, credentials, &all);
    grpc_channel_credentials_release(credentials);
    *ret = client;
    return AW_OK;
}

void aw_rpc_client_close(struct aw_rpc_client *client)
{
    if (!client)
        return;
    grpc_channel_destroy(client->channel);
    explicit_bzero(client->bearer, sizeof client->bearer);
    aw_alloc_free(NULL, client);
    aw__library_close();
}

/* ---- streams ---- */

static bool batch(struct aw_rpc_talk *talk, const grpc_op *ops, size_t count, void *tag)
{
    return grpc_call_start_batch(talk->call, ops, count, tag, NULL) == GRPC_CALL_OK;
}

/* Looks for a while before it sleeps: on a machine with nothing else to do, an answer of a quick
 * environment is there before an idle processor would be awake again. */
static grpc_event look(struct aw_rpc_talk *talk, void *tag, int64_t until_us)
{
    grpc_event event;
    do
        event =
            grpc_completion_queue_pluck(talk->queue, tag, gpr_time_0(GPR_CLOCK_MONOTONIC), NULL);
    while (event.type == GRPC_QUEUE_TIMEOUT && aw_clock_monotonic_us(NULL) < until_us);
    return event;
}

/* True when the batch is done well. One that is not done in time cancels the call. */
static bool wait(struct aw_rpc_talk *talk, void *tag, bool *ret_late)
{
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    if (talk->quick)
        event = look(talk, tag, begin_us + LOOK_US);
    if (event.type == GRPC_QUEUE_TIMEOUT)
        event = grpc_completion_queue_pluck(talk->queue, tag,
                                            aw__deadline_in_us(talk->client->timeout_us), NULL);
    talk->quick = talk->client->looks && aw_clock_monotonic_us(NULL) - begin_us < LOOK_US;
    *ret_late = event.type == GRPC_QUEUE_TIMEOUT;
    if (*ret_late) {
        grpc_call_cancel(talk->call, NULL);
        event = grpc_completion_queue_pluck(talk->queue, tag, aw__deadline_in_us(-1), NULL);
    }
    return event.success && !*ret_late;
}

/* The status follows what failed; where it does not come in time, the call is cancelled for it. */
static void status_wait(struct aw_rpc_talk *talk, int64_t patience_us)
{
    if (!talk->told && grpc_completion_queue_pluck(talk->queue, &talk->tag_status,
                                                   aw__deadline_in_us(patience_us), NULL)
                               .type == GRPC_QUEUE_TIMEOUT) {
        grpc_call_cancel(talk->call, NULL);
        grpc_completion_queue_pluck(talk->queue, &talk->tag_status, aw__deadline_in_us(-1), NULL);
    }
    talk->told = true;
}

/* Text of the other side, for a terminal: cut, and without control bytes. */
static void said_take(grpc_slice details, char *room, size_t size)
{
    const uint8_t *from = GRPC_SLICE_START_PTR(details);
    size_t len = 0;
    for (; len < GRPC_SLICE_LENGTH(details) && len + 1 < size; len++)
        room[len] = from[len] >= ' ' && from[len] <= '~' ? (char)from[len] : '?';
    room[len] = '\0';
}

/* How the call ended, in the words of the server or of the library. */
static enum aw_err ended(struct aw_rpc_talk *talk, bool late, enum aw_rpc_status *ret_status,
                         struct aw_diag *diag)
{
    char said[AW_RPC_TEXT_MAX];
    status_wait(talk, late ? 0 : STATUS_US);
    const enum aw_rpc_status status =
        late ? AW_RPC_DEADLINE_EXCEEDED : (enum aw_rpc_status)talk->status;
    if (ret_status)
        *ret_status = status;
    if (late)
        return aw_fail(diag, AW_ERR_DEADLINE, "%s did not answer within %g s",
                       talk->client->address, (double)talk->client->timeout_us / 1e6);
    said_take(talk->details, said, sizeof said);
    const enum aw_err err = status == AW_RPC_OK ? AW_ERR_UNAVAILABLE : aw_rpc_status_err(status);
    return aw_fail(diag, err, "%s ended the call: %s: %s", talk->client->address,
                   aw_rpc_status_name(status), said);
}

static void talk_free(struct aw_rpc_talk *talk)
{
    if (talk->call) {
        grpc_call_cancel(talk->call, NULL);
        status_wait(talk, -1);
        if (talk->greeted)
            grpc_completion_queue_pluck(talk->queue, &talk->tag_initial, aw__deadline_in_us(-1),
                                        NULL);
        grpc_call_unref(talk->call);
    }
    grpc_metadata_array_destroy(&talk->initial);
    grpc_metadata_array_destroy(&talk->trailing);
    grpc_slice_unref(talk->details);
    grpc_completion_queue_shutdown(talk->queue);
    while (grpc_completion_queue_pluck(talk->queue, talk, aw__deadline_in_us(-1), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(talk->queue);
    aw_alloc_free(NULL, talk);
    aw__library_close();
}

static struct aw_rpc_talk *talk_new(struct aw_rpc_client *client, const char *path,
                                    gpr_timespec deadline)
{
    struct aw_rpc_talk *talk = aw_alloc_new(NULL, 1, sizeof *talk);
    if (!talk)
        return NULL;
    aw__library_open();
    talk->client = client;
    talk->details = grpc_empty_slice();
    grpc_metadata_array_init(&talk->initial);
    grpc_metadata_array_init(&talk->trailing);
    talk->queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_slice method = grpc_slice_from_copied_string(path);
    talk->call = grpc_channel_create_call(client->channel, NULL, 0, talk->queue, method, NULL,
                                          deadline, NULL);
    grpc_slice_unref(method);
    return talk;
}

/* The batch that ends when the call does, and the one that sends who we are. */
static bool talk_begin(struct aw_rpc_talk *talk)
{
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    grpc_op first[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                        {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    grpc_metadata bearer = {.key = grpc_slice_from_static_string("authorization"),
                            .value = grpc_slice_from_copied_string(talk->client->bearer)};
    status.data.recv_status_on_client.trailing_metadata = &talk->trailing;
    status.data.recv_status_on_client.status = &talk->status;
    status.data.recv_status_on_client.status_details = &talk->details;
    if (*talk->client->bearer) {
        first[0].data.send_initial_metadata.count = 1;
        first[0].data.send_initial_metadata.metadata = &bearer;
    }
    first[1].data.recv_initial_metadata.recv_initial_metadata = &talk->initial;
    talk->told = !batch(talk, &status, 1, &talk->tag_status);
    talk->greeted = !talk->told && batch(talk, first, 2, &talk->tag_initial);
    grpc_slice_unref(bearer.value);
    return talk->greeted;
}

enum aw_err aw_rpc_talk_open(struct aw_rpc_talk **ret, struct aw_rpc_client *client,
                             const char *path, struct aw_diag *diag)
{
    struct aw_rpc_talk *talk = talk_new(client, path, gpr_inf_future(GPR_CLOCK_MONOTONIC));
    if (!talk)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a stream");
    /* Nobody waits here for the server's first metadata: Python's server sends it only with its
     * first answer. */
    if (!talk_begin(talk)) {
        enum aw_err err = ended(talk, false, NULL, diag);
        talk_free(talk);
        return err;
    }
    *ret = talk;
    return AW_OK;
}

static enum aw_err talk_batch(struct aw_rpc_talk *talk, const uint8_t *bytes, size_t size,
                              bool receives, void *tag, struct aw_rpc_answer *ret_answer,
                              struct aw_diag *diag)
{
    grpc_op ops[2];
    size_t count = 0;
    grpc_byte_buffer *out = bytes ? aw__message_copy(bytes, size) : NULL, *in = NULL;
    bool late = false;
    memset(ops, 0, sizeof ops);
    if (out) {
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].data.send_message.send_message = out;
    }
    if (receives) {
        ops[count].op = GRPC_OP_RECV_MESSAGE;
        ops[count++].data.recv_message.recv_message = &in;
    }
    const bool well = batch(talk, ops, count, tag) && wait(talk, tag, &late);
    grpc_byte_buffer_destroy(out);
    if (!well || (receives && (!in || !answer_take(in, ret_answer)))) {
        grpc_byte_buffer_destroy(in);
        return ended(talk, late, NULL, diag);
    }
    grpc_byte_buffer_destroy(in);
    return AW_OK;
}

enum aw_err aw_rpc_talk_exchange(struct aw_rpc_talk *talk, const uint8_t *bytes, size_t size,
                                 struct aw_rpc_answer *ret_answer, struct aw_diag *diag)
{
    return talk_batch(talk, bytes, size, true, &talk->tag_exchange, ret_answer, diag);
}

enum aw_err aw_rpc_talk_send(struct aw_rpc_talk *talk, const uint8_t *bytes, size_t size,
                             struct aw_diag *diag)
{
    return talk_batch(talk, bytes, size, false, &talk->tag_send, NULL, diag);
}

enum aw_err aw_rpc_talk_receive(struct aw_rpc_talk *talk, struct aw_rpc_answer *ret_answer,
                                struct aw_diag *diag)
{
    return talk_batch(talk, NULL, 0, true, &talk->tag_receive, ret_answer, diag);
}

void aw_rpc_talk_close(struct aw_rpc_talk *talk)
{
    if (talk)
        talk_free(talk);
}

/* ---- single calls ---- */

enum aw_err aw_rpc_client_call(struct aw_rpc_client *client, const char *path, const uint8_t *bytes,
                               size_t size, struct aw_rpc_answer *ret_answer,
                               enum aw_rpc_status *ret_status, struct aw_diag *diag)
{
    struct aw_rpc_talk *talk = talk_new(client, path, aw__deadline_in_us(client->timeout_us));
    grpc_byte_buffer *out, *in = NULL;
    grpc_op ops[6];
    enum aw_err err = AW_OK;
    if (!talk)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a call");
    grpc_metadata bearer = {.key = grpc_slice_from_static_string("authorization"),
                            .value = grpc_slice_from_copied_string(client->bearer)};
    memset(ops, 0, sizeof ops);
    out = aw__message_copy(bytes, size);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (*client->bearer) {
        ops[0].data.send_initial_metadata.count = 1;
        ops[0].data.send_initial_metadata.metadata = &bearer;
    }
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = out;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &talk->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &in;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &talk->trailing;
    ops[5].data.recv_status_on_client.status = &talk->status;
    ops[5].data.recv_status_on_client.status_details = &talk->details;
    talk->told = true; /* this one batch ends with the call, whose deadline ends it in time */
    if (!batch(talk, ops, 6, &talk->tag_exchange))
        err = aw_fail(diag, AW_ERR_IO, "%s: the call could not begin", client->address);
    else
        grpc_completion_queue_pluck(talk->queue, &talk->tag_exchange, aw__deadline_in_us(-1), NULL);
    if (!err && talk->status != GRPC_STATUS_OK)
        err = ended(talk, false, ret_status, diag);
    else if (!err && (!in || !answer_take(in, ret_answer)))
        err = aw_fail(diag, AW_ERR_FORMAT, "%s answered without a message", client->address);
    else if (!err && ret_status)
        *ret_status = AW_RPC_OK;
    grpc_byte_buffer_destroy(in);
    grpc_byte_buffer_destroy(out);
    grpc_slice_unref(bearer.value);
    talk_free(talk);
    return err;
}
