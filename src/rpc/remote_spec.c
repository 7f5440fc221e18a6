/* remote_spec.c - descriptions of remote environments, and the table of those that were found. */
#include "rpc/remote_spec.h"

#include <aware/v1/environment.pb-c.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define PATH_DESCRIBE "/aware.v1.Environment/Describe"
#define LABEL_MAX     64u /* bytes of a name or unit of an axis, with its NUL; the rest is cut */

struct label {
    char text[LABEL_MAX];
};

/* Text of another process, for a terminal: cut, and without control bytes. */
static void plain(char *room, size_t size, const char *from)
{
    size_t len = 0;
    for (; from && from[len] && len + 1 < size; len++)
        room[len] = from[len] >= ' ' && from[len] <= '~' ? from[len] : '?';
    room[len] = '\0';
}

static enum aw_err space_check(const Aware__V1__Space *space, const char *what, bool action,
                               struct aw_diag *diag)
{
    if (!space)
        return aw_fail(diag, AW_ERR_FORMAT, "the description has no %s space", what);
    if (space->kind != AWARE__V1__SPACE__KIND__KIND_BOX &&
        (space->kind != AWARE__V1__SPACE__KIND__KIND_DISCRETE || !action))
        return aw_fail(diag, AW_ERR_FORMAT, "the %s space is of no kind that can be learned", what);
    if (space->n_axes < 1 || space->n_axes > AW_ENV_DIM_MAX)
        return aw_fail(diag, AW_ERR_FORMAT, "the %s space has %zu elements, expected 1 to %u", what,
                       space->n_axes, AW_ENV_DIM_MAX);
    if (space->kind == AWARE__V1__SPACE__KIND__KIND_DISCRETE)
        return AW_OK;
    for (size_t i = 0; i < space->n_axes; i++) {
        const float low = space->axes[i]->low, high = space->axes[i]->high;
        if (isnan(low) || isnan(high) || low > high ||
            (action && (!isfinite(low) || !isfinite(high) || low == high)))
            return aw_fail(diag, AW_ERR_FORMAT, "element %zu of the %s space goes from %g to %g%s",
                           i, what, (double)low, (double)high,
                           action ? "; an action needs finite bounds, the lower one first" : "");
    }
    return AW_OK;
}

static void space_make(const Aware__V1__Space *from, struct aw_space *space,
                       struct aw_space_axis *axis, struct label *label)
{
    const bool discrete = from->kind == AWARE__V1__SPACE__KIND__KIND_DISCRETE;
    const uint32_t count = (uint32_t)from->n_axes;
    *space = (struct aw_space){.kind = discrete ? AW_SPACE_DISCRETE : AW_SPACE_BOX,
                               .dim = discrete ? 1 : count,
                               .n = discrete ? count : 0,
                               .axes = axis};
    for (uint32_t i = 0; i < count; i++) {
        const Aware__V1__Axis *at = from->axes[i];
        const bool bounded = at->low != 0 || at->high != 0; /* proto3: absent is 0 */
        plain(label[2 * i].text, LABEL_MAX, at->name);
        plain(label[2 * i + 1].text, LABEL_MAX, at->unit);
        if (!*label[2 * i].text)
            snprintf(label[2 * i].text, LABEL_MAX, "%u", i);
        axis[i] = (struct aw_space_axis){.name = label[2 * i].text,
                                         .unit = label[2 * i + 1].text,
                                         .low = bounded ? at->low : -INFINITY,
                                         .high = bounded ? at->high : INFINITY};
    }
}

static enum aw_err options_make(struct aw__remote *remote, const Aware__V1__DescribeResponse *from,
                                struct aw_diag *diag)
{
    const size_t count =
        from->n_options < AW_REMOTE_OPTIONS_MAX ? from->n_options : AW_REMOTE_OPTIONS_MAX;
    if (count == 0)
        return AW_OK;
    if (!(remote->options = aw_alloc_new(NULL, count, sizeof *remote->options)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for options");
    for (size_t i = 0; i < count; i++) {
        struct aw_remote_option *option = &remote->options[i];
        plain(option->key, sizeof option->key, from->options[i]->key);
        plain(option->takes, sizeof option->takes, from->options[i]->type);
        plain(option->initial, sizeof option->initial, from->options[i]->default_value);
        plain(option->help, sizeof option->help, from->options[i]->help);
    }
    remote->option_count = (uint32_t)count;
    return AW_OK;
}

static enum aw_err spec_make(struct aw__remote *remote, const Aware__V1__DescribeResponse *from,
                             struct aw_diag *diag)
{
    enum aw_err err = space_check(from->observation, "observation", false, diag);
    if (err || (err = space_check(from->action, "action", true, diag)))
        return err;
    if (isnan(from->reward_low) || isnan(from->reward_high) || from->reward_low > from->reward_high)
        return aw_fail(diag, AW_ERR_FORMAT, "rewards go from %g to %g", (double)from->reward_low,
                       (double)from->reward_high);
    const size_t seen = from->observation->n_axes, count = seen + from->action->n_axes;
    struct aw_carve block = {0};
    aw_carve_take(&block, count, sizeof(struct aw_space_axis));
    aw_carve_take(&block, 2 * count, sizeof(struct label));
    if (!(remote->axes = aw_alloc_new(NULL, block.used, 1)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a description");
    block = (struct aw_carve){.base = remote->axes};
    struct aw_space_axis *axis = aw_carve_take(&block, count, sizeof *axis);
    struct label *label = aw_carve_take(&block, 2 * count, sizeof *label);
    const bool bounded = from->reward_low != 0 || from->reward_high != 0;
    remote->spec = (struct aw_env_spec){
        .name = remote->address,
        .summary = remote->summary,
        .episode_steps_max = from->episode_steps_max,
        .reward_low = bounded ? from->reward_low : -INFINITY,
        .reward_high = bounded ? from->reward_high : INFINITY,
        .solved_return = from->solved_case == AWARE__V1__DESCRIBE_RESPONSE__SOLVED_SOLVED_RETURN
                             ? from->solved_return
                             : NAN,
        .state_bytes = aw__remote_state_bytes,
    };
    space_make(from->observation, &remote->spec.observation, axis, label);
    space_make(from->action, &remote->spec.action, axis + seen, label + 2 * seen);
    plain(remote->summary, sizeof remote->summary, from->summary);
    if (!*remote->summary)
        snprintf(remote->summary, sizeof remote->summary, "%s, served over gRPC",
                 remote->target.env);
    plain(remote->fallback, sizeof remote->fallback, from->fallback_agent);
    return options_make(remote, from, diag);
}

enum aw_err aw__remote_describe(struct aw__remote *remote, const uint8_t *bytes, size_t size,
                                struct aw_diag *diag)
{
    Aware__V1__DescribeResponse *response = aware__v1__describe_response__unpack(NULL, size, bytes);
    if (!response)
        return aw_fail(diag, AW_ERR_FORMAT, "the answer is not a DescribeResponse");
    enum aw_err err = spec_make(remote, response, diag);
    aware__v1__describe_response__free_unpacked(response, NULL);
    return err;
}

void aw__remote_deinit(struct aw__remote *remote)
{
    aw_rpc_client_close(remote->client);
    aw_alloc_free(NULL, remote->axes);
    aw_alloc_free(NULL, remote->options);
    *remote = (struct aw__remote){.client = NULL};
}

/* ---- the table ---- */

static struct {
    pthread_mutex_t lock;
    struct aw__remote remote[AW_REMOTE_MAX];
    uint32_t count;
    char trouble[AW_DIAG_TEXT_MAX];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A factory is asked without a context, so each place of the table has a function of its own. */
#define MAKE(n)                                                                       \
    static enum aw_err make_##n(const struct aw_alloc *alloc, struct aw_env *ret_env, \
                                struct aw_diag *diag)                                 \
    {                                                                                 \
        return aw__remote_make(&table.remote[n], alloc, ret_env, diag);               \
    }
MAKE(0)
MAKE(1)
MAKE(2)
MAKE(3)
static enum aw_err (*const makes[])(const struct aw_alloc *, struct aw_env *,
                                    struct aw_diag *) = {make_0, make_1, make_2, make_3};
_Static_assert(sizeof makes / sizeof *makes == AW_REMOTE_MAX, "each place has its function");

uint32_t aw_remote_options(const struct aw_env_factory *factory,
                           const struct aw_remote_option **ret_options)
{
    for (uint32_t i = 0; i < AW_REMOTE_MAX; i++)
        if (factory == &table.remote[i].factory) {
            *ret_options = table.remote[i].options;
            return table.remote[i].option_count;
        }
    return 0;
}

void aw__remote_trouble_set(const char *text)
{
    pthread_mutex_lock(&table.lock);
    plain(table.trouble, sizeof table.trouble, text);
    pthread_mutex_unlock(&table.lock);
}

const char *aw_remote_trouble(char *buf, size_t size)
{
    pthread_mutex_lock(&table.lock);
    snprintf(buf, size, "%s", table.trouble);
    pthread_mutex_unlock(&table.lock);
    return buf;
}

static enum aw_err describe(struct aw__remote *remote, struct aw_diag *diag)
{
    Aware__V1__DescribeRequest request;
    Aware__V1__DescribeRequest__OptionsEntry entry[AW_RPC_TARGET_OPTIONS],
        *options[AW_RPC_TARGET_OPTIONS];
    struct aw_rpc_target *target = &remote->target;
    uint8_t bytes[AW__REMOTE_REQUEST_BYTES];
    struct aw_rpc_answer answer = {0};
    struct aw_diag why = {0};
    aware__v1__describe_request__init(&request);
    request.name = target->env;
    for (uint32_t i = 0; i < target->option_count; i++) {
        aware__v1__describe_request__options_entry__init(&entry[i]);
        entry[i].key = target->option[i].key;
        entry[i].value = target->option[i].value;
        options[i] = &entry[i];
    }
    request.n_options = target->option_count;
    request.options = options;
    const size_t size = aware__v1__describe_request__get_packed_size(&request);
    AW_ASSERT(size <= sizeof bytes);
    aware__v1__describe_request__pack(&request, bytes);
    enum aw_err err =
        aw_rpc_client_call(remote->client, PATH_DESCRIBE, bytes, size, &answer, NULL, &why);
    if (!err)
        err = aw__remote_describe(remote, answer.bytes, answer.size, &why);
    aw_rpc_answer_free(&answer);
    return err ? aw_fail(diag, err, "%.200s: %.280s", remote->address, why.text) : AW_OK;
}

static enum aw_err remote_open(struct aw__remote *remote, const char *address, struct aw_diag *diag)
{
    char token[AW_TOKEN_MAX] = "";
    enum aw_err err;
    if (strlen(address) >= sizeof remote->address)
        return aw_fail(diag, AW_ERR_LIMIT, "an address of more than %zu bytes",
                       sizeof remote->address - 1);
    snprintf(remote->address, sizeof remote->address, "%s", address);
    if ((err = aw_rpc_target_parse(&remote->target, address, diag)))
        return err;
    if (*remote->target.token_path &&
        (err = aw_file_read_token(remote->target.token_path, token, diag)))
        return err;
    const struct aw_rpc_client_config config = {
        .address = remote->target.address,
        .tls = remote->target.tls,
        .ca_path = *remote->target.ca_path ? remote->target.ca_path : NULL,
        .token = *token ? token : NULL,
        .timeout_us = (int64_t)remote->target.timeout_s * 1000000,
    };
    err = aw_rpc_client_open(&remote->client, &config, diag);
    explicit_bzero(token, sizeof token);
    return err ? err : describe(remote, diag);
}

static enum aw_err find(const char *address, const struct aw_env_factory **ret_factory,
                        struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    pthread_mutex_lock(&table.lock);
    uint32_t at = 0;
    while (at < table.count && strcmp(table.remote[at].address, address) != 0)
        at++;
    if (at == AW_REMOTE_MAX) {
        err = aw_fail(diag, AW_ERR_LIMIT, "more than %u environments that live elsewhere",
                      AW_REMOTE_MAX);
    } else if (at == table.count) {
        struct aw__remote *remote = &table.remote[at];
        if ((err = remote_open(remote, address, diag))) {
            aw__remote_deinit(remote);
        } else {
            remote->factory = (struct aw_env_factory){.spec = &remote->spec, .make = makes[at]};
            table.count++;
        }
    }
    if (!err)
        *ret_factory = &table.remote[at].factory;
    pthread_mutex_unlock(&table.lock);
    return err;
}

const struct aw_env_elsewhere aw_rpc_elsewhere = {
    .find = find,
    .fallback_name = aw__remote_fallback_name,
    .fallback = aw__remote_fallback,
};
