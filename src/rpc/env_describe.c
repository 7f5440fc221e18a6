/* env_describe.c - which environments there are, and everything about one of them. */
#include <aware/v1/environment.pb-c.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/conf.h"
#include "rpc/env_internal.h"

char *aw__text(const char *value)
{
    char *same;
    memcpy(&same, &value, sizeof same);
    return same;
}

enum aw_err aw__pairs_add(struct aw__pairs *pairs, const char *key, const char *value,
                          struct aw_diag *diag)
{
    if (pairs->count == AW__SESSION_PAIRS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %u options", AW__SESSION_PAIRS_MAX);
    char *room = pairs->text[pairs->count];
    const int len = snprintf(room, AW__OPTION_BYTES_MAX, "%s=%s", key, value);
    if (len < 0 || (size_t)len >= AW__OPTION_BYTES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "an option of more than %u bytes", AW__OPTION_BYTES_MAX);
    pairs->pair[pairs->count++] = room;
    return AW_OK;
}

enum aw_err aw__service_has(const struct aw_env_service *service, const char *name,
                            struct aw_diag *diag)
{
    const struct aw_env_factory *factory;
    if (*service->only && strcmp(service->only, name) != 0)
        return aw_fail(diag, AW_ERR_NOTFOUND, "this server has only %s", service->only);
    if (strstr(name, "://")) /* or a client could have us call on others */
        return aw_fail(diag, AW_ERR_NOTFOUND, "no environment here has an address for a name");
    return aw_env_find(name, &factory, diag);
}

void aw__env_list(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    enum { ENTRIES_MAX = 64 };
    const struct aw_env_service *service = ctx;
    Aware__V1__ListResponse__Entry entry[ENTRIES_MAX], *pointer[ENTRIES_MAX];
    Aware__V1__ListResponse response = AWARE__V1__LIST_RESPONSE__INIT;
    Aware__V1__ListRequest *request = aware__v1__list_request__unpack(NULL, size, bytes);
    if (!request) {
        aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "not a ListRequest");
        return;
    }
    aware__v1__list_request__free_unpacked(request, NULL);
    response.environments = pointer;
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++) {
        const size_t at = response.n_environments;
        if ((*service->only && strcmp(service->only, (*f)->spec->name) != 0) || at == ENTRIES_MAX)
            continue;
        aware__v1__list_response__entry__init(&entry[at]);
        entry[at].name = aw__text((*f)->spec->name);
        entry[at].summary = aw__text((*f)->spec->summary);
        pointer[response.n_environments++] = &entry[at];
    }
    uint8_t *room = aw_rpc_reply_room(reply, aware__v1__list_response__get_packed_size(&response));
    if (room)
        aware__v1__list_response__pack(&response, room);
}

/* Messages that hang together, from one block. */
struct parts {
    Aware__V1__Space *space;
    Aware__V1__Axis *axis, **axis_pointer;
    Aware__V1__Option *option, **option_pointer;
    char (*expects)[128];
};

static size_t axis_count(const struct aw_space *space)
{
    return space->kind == AW_SPACE_DISCRETE ? space->n : space->dim;
}

static void parts_carve(struct parts *parts, size_t axes, size_t options, struct aw_carve *block)
{
    parts->space = aw_carve_take(block, AW__PAGE_SPACES, sizeof *parts->space);
    parts->axis = aw_carve_take(block, axes, sizeof *parts->axis);
    parts->axis_pointer = aw_carve_take(block, axes, sizeof(void *));
    parts->option = aw_carve_take(block, options, sizeof *parts->option);
    parts->option_pointer = aw_carve_take(block, options, sizeof(void *));
    parts->expects = aw_carve_take(block, options, sizeof *parts->expects);
}

static void space_put(const struct aw_space *space, Aware__V1__Space *message,
                      Aware__V1__Axis *axis, Aware__V1__Axis **pointer)
{
    aware__v1__space__init(message);
    message->kind = space->kind == AW_SPACE_DISCRETE ? AWARE__V1__SPACE__KIND__KIND_DISCRETE
                                                     : AWARE__V1__SPACE__KIND__KIND_BOX;
    message->n_axes = axis_count(space);
    message->axes = pointer;
    for (size_t i = 0; i < message->n_axes; i++) {
        aware__v1__axis__init(&axis[i]);
        axis[i].name = aw__text(space->axes[i].name);
        axis[i].unit = aw__text(space->axes[i].unit ? space->axes[i].unit : "");
        axis[i].low = space->axes[i].low;
        axis[i].high = space->axes[i].high;
        pointer[i] = &axis[i];
    }
}

enum aw_err aw__page_make(struct aw__page *page, const struct aw_space *const *spaces,
                          size_t space_count, const struct aw_conf_field *fields,
                          struct aw_diag *diag)
{
    struct parts parts;
    struct aw_carve block = {0};
    size_t axes = 0, options = 0;
    AW_ASSERT(space_count <= AW__PAGE_SPACES);
    for (size_t i = 0; i < space_count; i++)
        axes += axis_count(spaces[i]);
    for (const struct aw_conf_field *f = fields; f && f->key; f++)
        options++;
    parts_carve(&parts, axes, options, &block);
    block = (struct aw_carve){.base = aw_alloc_new(NULL, block.used, 1)};
    if (!block.base)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a description");
    *page = (struct aw__page){.block = block.base, .option_count = options};
    parts_carve(&parts, axes, options, &block);
    page->options = parts.option_pointer;
    for (size_t i = 0, at = 0; i < space_count; at += axis_count(spaces[i++])) {
        page->space[i] = &parts.space[i];
        space_put(spaces[i], page->space[i], parts.axis + at, parts.axis_pointer + at);
    }
    for (size_t i = 0; i < options; i++) {
        Aware__V1__Option *option = &parts.option[i];
        aware__v1__option__init(option);
        option->key = aw__text(fields[i].key);
        aw_conf_expects(&fields[i], parts.expects[i], sizeof parts.expects[i]);
        option->type = parts.expects[i];
        option->default_value = aw__text(fields[i].initial);
        option->help = aw__text(fields[i].help);
        parts.option_pointer[i] = option;
    }
    return AW_OK;
}

void aw__page_free(struct aw__page *page)
{
    aw_alloc_free(NULL, page->block);
    *page = (struct aw__page){0};
}

static enum aw_err describe(const struct aw_env_spec *spec, const struct aw_conf_field *fields,
                            struct aw_rpc_reply *reply, struct aw_diag *diag)
{
    Aware__V1__DescribeResponse response;
    struct aw__page page = {0};
    const struct aw_space *const spaces[] = {&spec->observation, &spec->action};
    enum aw_err err = aw__page_make(&page, spaces, 2, fields, diag);
    if (err)
        return err;
    aware__v1__describe_response__init(&response);
    response.name = aw__text(spec->name);
    response.summary = aw__text(spec->summary);
    response.observation = page.space[0];
    response.action = page.space[1];
    response.episode_steps_max = spec->episode_steps_max;
    response.reward_low = spec->reward_low;
    response.reward_high = spec->reward_high;
    if (isfinite(spec->solved_return)) {
        response.solved_case = AWARE__V1__DESCRIBE_RESPONSE__SOLVED_SOLVED_RETURN;
        response.solved_return = spec->solved_return;
    }
    response.n_options = page.option_count;
    response.options = page.options;
    response.count_max = AW__SESSION_COPIES_MAX;
    response.idle_timeout_ms = AW_ENV_SERVICE_IDLE_US / 1000;
    uint8_t *room =
        aw_rpc_reply_room(reply, aware__v1__describe_response__get_packed_size(&response));
    if (room)
        aware__v1__describe_response__pack(&response, room);
    aw__page_free(&page);
    return AW_OK;
}

void aw__env_describe(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    const struct aw_env_service *service = ctx;
    const struct aw_env_factory *factory = NULL;
    struct aw_env env = {0};
    struct aw_diag diag = {0};
    struct aw__pairs *pairs = NULL;
    if (aw_rpc_reply_defer(reply))
        return; /* an environment is made to be described */
    Aware__V1__DescribeRequest *request = aware__v1__describe_request__unpack(NULL, size, bytes);
    if (!request) {
        aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "not a DescribeRequest");
        return;
    }
    enum aw_err err = aw__service_has(service, request->name, &diag);
    if (!err && !(pairs = aw_alloc_new(NULL, 1, sizeof *pairs)))
        err = aw_fail(&diag, AW_ERR_NOMEM, "no memory for options");
    for (size_t i = 0; !err && i < request->n_options; i++)
        err = aw__pairs_add(pairs, request->options[i]->key, request->options[i]->value, &diag);
    if (!err)
        err = aw_env_find(request->name, &factory, &diag);
    if (!err)
        err = aw_env_make_with(request->name, pairs->pair, pairs->count, NULL, &env, &diag);
    if (!err)
        err = describe(env.spec, factory->fields, reply, &diag);
    if (err)
        aw_rpc_reply_err(reply, err, &diag);
    aw_env_free(&env);
    aw_alloc_free(NULL, pairs);
    aware__v1__describe_request__free_unpacked(request, NULL);
}
