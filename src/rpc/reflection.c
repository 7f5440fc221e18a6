/* reflection.c - see reflection.h. */
#include "rpc/reflection.h"

#include <grpc/reflection/v1alpha/reflection.pb-c.h>
#include <stdio.h>
#include <string.h>

#define V(name)     grpc__reflection__v1alpha__##name
#define ASKED(what) GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##what
#define TOLD(what)  GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##what
typedef Grpc__Reflection__V1alpha__ServerReflectionRequest request_message;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse response_message;

/* made at build time from proto/; the size leaves out the NUL that embedding adds */
extern const char aw__messages_set[];
extern const unsigned aw__messages_set_size;

void aw__reflection_init(struct aw__reflection *reflection)
{
    *reflection = (struct aw__reflection){0};
    enum aw_err err = aw__descriptors_index(&reflection->set, (const uint8_t *)aw__messages_set,
                                            aw__messages_set_size);
    AW_ASSERT(!err); /* what we embedded ourselves */
}

void aw__reflection_add(struct aw__reflection *reflection, const char *service)
{
    AW_ASSERT(reflection->service_count < AW_RPC_SERVICES_MAX + 2);
    reflection->service[reflection->service_count++] = service;
}

static void send(struct aw_rpc_reply *reply, request_message *request, response_message *response)
{
    response->original_request = request;
    response->valid_host = request->host;
    uint8_t *room =
        aw_rpc_reply_room(reply, V(server_reflection_response__get_packed_size)(response));
    if (room)
        V(server_reflection_response__pack)(response, room);
}

static void send_error(struct aw_rpc_reply *reply, request_message *request,
                       enum aw_rpc_status status, const char *text)
{
    Grpc__Reflection__V1alpha__ErrorResponse error;
    response_message response;
    char copy[AW_RPC_TEXT_MAX];
    V(error_response__init)(&error);
    V(server_reflection_response__init)(&response);
    snprintf(copy, sizeof copy, "%s", text);
    error.error_code = (int32_t)status;
    error.error_message = copy;
    response.message_response_case = TOLD(ERROR_RESPONSE);
    response.error_response = &error;
    send(reply, request, &response);
}

/* The file itself, then what it imports, each once. */
static void send_file(const struct aw__descriptors *set, struct aw_rpc_reply *reply,
                      request_message *request, const struct aw__descriptor_file *file)
{
    if (!file) {
        send_error(reply, request, AW_RPC_NOT_FOUND, "nothing here is called that");
        return;
    }
    const struct aw__descriptor_file *files[AW__DESCRIPTOR_FILES] = {file};
    ProtobufCBinaryData data[AW__DESCRIPTOR_FILES];
    uint32_t count = 1;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < files[i]->import_count; k++) {
            const struct aw__bytes name = files[i]->import[k];
            for (uint32_t f = 0; f < set->count; f++) {
                bool known = set->file[f].name.size != name.size ||
                             memcmp(set->file[f].name.at, name.at, name.size) != 0;
                for (uint32_t j = 0; j < count; j++)
                    known |= files[j] == &set->file[f];
                if (!known)
                    files[count++] = &set->file[f];
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        /* protobuf-c has no const bytes; packing only reads them */
        memcpy(&data[i].data, &files[i]->whole.at, sizeof data[i].data);
        data[i].len = files[i]->whole.size;
    }
    Grpc__Reflection__V1alpha__FileDescriptorResponse found =
        GRPC__REFLECTION__V1ALPHA__FILE_DESCRIPTOR_RESPONSE__INIT;
    response_message response;
    V(server_reflection_response__init)(&response);
    found.n_file_descriptor_proto = count;
    found.file_descriptor_proto = data;
    response.message_response_case = TOLD(FILE_DESCRIPTOR_RESPONSE);
    response.file_descriptor_response = &found;
    send(reply, request, &response);
}

static void send_services(const struct aw__reflection *reflection, struct aw_rpc_reply *reply,
                          request_message *request)
{
    Grpc__Reflection__V1alpha__ServiceResponse service[AW_RPC_SERVICES_MAX + 2];
    Grpc__Reflection__V1alpha__ServiceResponse *pointer[AW_RPC_SERVICES_MAX + 2];
    for (uint32_t i = 0; i < reflection->service_count; i++) {
        V(service_response__init)(&service[i]);
        memcpy(&service[i].name, &reflection->service[i], sizeof service[i].name);
        pointer[i] = &service[i];
    }
    Grpc__Reflection__V1alpha__ListServiceResponse list =
        GRPC__REFLECTION__V1ALPHA__LIST_SERVICE_RESPONSE__INIT;
    response_message response;
    V(server_reflection_response__init)(&response);
    list.n_service = reflection->service_count;
    list.service = pointer;
    response.message_response_case = TOLD(LIST_SERVICES_RESPONSE);
    response.list_services_response = &list;
    send(reply, request, &response);
}

static void info_open(void *ctx, struct aw_rpc_stream *stream, void **ret_self,
                      struct aw_rpc_reply *reply)
{
    (void)stream, (void)reply;
    *ret_self = ctx;
}

static void info_message(void *self, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    const struct aw__reflection *reflection = self;
    request_message *request = V(server_reflection_request__unpack)(NULL, size, bytes);
    if (!request) {
        aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "not a ServerReflectionRequest");
        return;
    }
    switch (request->message_request_case) {
    case ASKED(FILE_BY_FILENAME):
        send_file(&reflection->set, reply, request,
                  aw__descriptors_by_name(&reflection->set, request->file_by_filename));
        break;
    case ASKED(FILE_CONTAINING_SYMBOL):
        send_file(&reflection->set, reply, request,
                  aw__descriptors_by_symbol(&reflection->set, request->file_containing_symbol));
        break;
    case ASKED(LIST_SERVICES):
        send_services(reflection, reply, request);
        break;
    default:
        send_error(reply, request, AW_RPC_NOT_FOUND, "there are no extensions here");
        break;
    }
    V(server_reflection_request__free_unpacked)(request, NULL);
}

static void info_close(void *self)
{
    (void)self;
}

const struct aw_rpc_method aw__reflection_methods[] = {
    {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     .kind = AW_RPC_LOCKSTEP,
     .open = info_open,
     .message = info_message,
     .close = info_close},
    {.path = NULL},
};
