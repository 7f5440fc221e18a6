/*
 * fuzz_rpc.c - any bytes as what comes over gRPC and is read by us: an address, a set of
 * descriptors, the description of an environment, the requests of a stream, what an agent says of
 * its answer, and the messages of an agent.
 *
 * The first byte says which.
 */
#include "fuzz.h"

#include "base/text.h"
#include "rpc/descriptors.h"
#include "rpc/env_service.h"
#include "rpc/remote_spec.h"
#include "rpc/server.h"
#include "rpc/target.h"
#include "safety/external_agent.h"

#include <aware/v1/agent.pb-c.h>
#include <grpc/slice.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void address(const uint8_t *data, size_t size)
{
    struct aw_rpc_target target = {0};
    struct aw_diag diag = {0};
    char *text = malloc(size + 1);
    AW_ASSERT(text);
    memcpy(text, data, size);
    text[size] = '\0';
    const enum aw_err err = aw_rpc_target_parse(&target, text, &diag);
    if (err)
        check_refusal(&diag, err);
    else
        AW_ASSERT(*target.address && *target.env && target.timeout_s > 0 &&
                  strlen(target.address) < sizeof target.address);
    for (uint32_t i = 0; !err && i < target.option_count; i++)
        AW_ASSERT(*target.option[i].key && *target.option[i].value);
    free(text);
}

static void descriptors(const uint8_t *data, size_t size)
{
    static const char *const symbols[] = {"a", "a.b", "a.b.c", "aware.v1.Environment.Step", "."};
    struct aw__descriptors set;
    if (aw__descriptors_index(&set, data, size))
        return;
    AW_ASSERT(set.count <= AW__DESCRIPTOR_FILES);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        const struct aw__descriptor_file *file = aw__descriptors_by_symbol(&set, symbols[i]);
        AW_ASSERT(!file || (file->whole.at >= data && file->whole.size <= size));
        aw__descriptors_by_name(&set, symbols[i]);
    }
}

static void description(const uint8_t *data, size_t size)
{
    struct aw__remote remote = {.address = "grpc://x:1/y"};
    struct aw_diag diag = {0};
    const enum aw_err err = aw__remote_describe(&remote, data, size, &diag);
    if (err) {
        check_refusal(&diag, err);
    } else {
        const struct aw_space *action = &remote.spec.action;
        AW_ASSERT(remote.spec.observation.dim > 0 && action->dim > 0);
        for (uint32_t i = 0; action->kind == AW_SPACE_BOX && i < action->dim; i++)
            AW_ASSERT(isfinite(action->axes[i].low) && action->axes[i].low < action->axes[i].high);
    }
    aw__remote_deinit(&remote);
}

/* Each request begins with its length in two bytes; an answer comes to each, or an end. */
static void stream(const uint8_t *data, size_t size)
{
    static struct aw_env_service *service;
    if (!service)
        AW_ASSERT(!aw_env_service_new(&service, "cartpole-v1", NULL));
    const struct aw_rpc_method *method = aw_env_service_service(service)->methods;
    struct aw_rpc_reply reply = {0};
    void *self = NULL;
    while (method->kind != AW_RPC_LOCKSTEP)
        method++;
    method->open(service, NULL, &self, &reply);
    AW_ASSERT(!reply.status);
    while (size >= 2 && !reply.status) {
        size_t len = (size_t)data[0] << 8 | data[1];
        data += 2;
        size -= 2;
        len = len < size ? len : size;
        method->message(self, data, len, &reply);
        AW_ASSERT(reply.filled || reply.status);
        uint8_t *none = aw_rpc_reply_room(&reply, 0); /* lets go of what there was */
        AW_ASSERT(none);
        data += len;
        size -= len;
    }
    if (reply.filled) {
        grpc_slice slice;
        memcpy(&slice, reply.slice, sizeof slice);
        grpc_slice_unref(slice);
    }
    method->close(self);
    struct aw_env_service_stats stats;
    aw_env_service_stats(service, &stats);
    AW_ASSERT(!stats.sessions && !stats.copies);
}

/* The first four bytes are how sure it is. */
static void words(const uint8_t *data, size_t size)
{
    struct aw_external_agent_words taken;
    float sure;
    if (size < sizeof sure)
        return;
    memcpy(&sure, data, sizeof sure);
    char *text = malloc(size - sizeof sure + 1);
    AW_ASSERT(text);
    memcpy(text, data + sizeof sure, size - sizeof sure);
    text[size - sizeof sure] = '\0';
    aw_external_agent_words_take(&taken, &sure, text);
    const size_t len = strlen(taken.explanation);
    AW_ASSERT(len < sizeof taken.explanation && aw_text_utf8_bad(taken.explanation, len) == len);
    for (size_t i = 0; i < len; i++)
        AW_ASSERT((unsigned char)taken.explanation[i] >= ' ' && taken.explanation[i] != 0x7f &&
                  taken.explanation[i] != '"' && taken.explanation[i] != '\\');
    AW_ASSERT(!taken.has_confidence || (taken.confidence >= 0 && taken.confidence <= 1));
    free(text);
}

/* As the service takes an action apart: what is good is three numbers in bounds, whatever came. */
static void agent(const uint8_t *data, size_t size)
{
    Aware__V1__AgentMessage *message = aware__v1__agent_message__unpack(NULL, size, data);
    if (!message)
        return;
    if (message->message_case == AWARE__V1__AGENT_MESSAGE__MESSAGE_ACTION) {
        const Aware__V1__Action *action = message->action;
        float taken[AW_ACTION_MAX] = {NAN, NAN, NAN};
        struct aw_external_agent_words said;
        const enum aw_external_agent_fault fault =
            aw_external_agent_check(action->values, action->n_values, AW_ACTION_DIM, taken);
        for (uint32_t i = 0; i < AW_ACTION_DIM; i++)
            AW_ASSERT(fault ? isnan(taken[i]) : taken[i] >= -1 && taken[i] <= 1);
        aw_external_agent_words_take(&said, &action->confidence, action->explanation);
        AW_ASSERT(memchr(said.explanation, '\0', sizeof said.explanation));
    }
    aware__v1__agent_message__free_unpacked(message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const uint8_t *, size_t) = {address, descriptors, description,
                                                               stream,  words,       agent};
    if (size)
        readers[data[0] % 6](data + 1, size - 1);
    return 0;
}
