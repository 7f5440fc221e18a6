/* sizing.c - see sizing.h. */
#include "controller/sizing.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"

#define NONE_OF_BOTH \
    {                \
        -1, -1       \
    }

const struct aw__limit_range aw__limit_range_none = {
    NONE_OF_BOTH, NONE_OF_BOTH, NONE_OF_BOTH, NONE_OF_BOTH, NONE_OF_BOTH,
};

/* a * b / c without overflow on the way; what does not fit is the largest. */
static int64_t mul_div(int64_t a, int64_t b, int64_t c)
{
    const __int128 value = (__int128)a * b / c;
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* --- LimitRange --- */

const struct aw_kube_kind aw__limit_ranges = {"", "v1", "limitranges", "LimitRange", true};

static enum aw_err amount_at(const json_t *item, const char *map, enum aw__resource r, int64_t *ret)
{
    const json_t *value =
        json_object_get(json_object_get(item, map), r == AW__CPU ? "cpu" : "memory");
    const json_int_t whole = json_integer_value(value);
    const int64_t unit = r == AW__CPU ? 1000 : 1;
    *ret = -1;
    if (!value)
        return AW_OK;
    if (json_is_string(value))
        return aw_quantity_parse(json_string_value(value),
                                 r == AW__CPU ? AW_QUANTITY_MILLI : AW_QUANTITY_WHOLE,
                                 AW_QUANTITY_POSITIVE_OR_0, ret, NULL);
    if (!json_is_integer(value) || whole < 0 || whole > INT64_MAX / unit)
        return AW_ERR_FORMAT;
    *ret = (int64_t)whole * unit;
    return AW_OK;
}

static void lower(int64_t *bound, int64_t value)
{
    if (value >= 0 && (*bound < 0 || value < *bound))
        *bound = value;
}

static void raise_to(int64_t *bound, int64_t value)
{
    if (value > *bound)
        *bound = value;
}

enum aw_err aw__limit_range_add(struct aw__limit_range *range, const json_t *object)
{
    size_t i;
    const json_t *item;
    json_array_foreach(aw_kube_at(object, "spec.limits"), i, item)
    {
        const char *type = aw_kube_text_at(item, "type");
        const bool pod = !strcmp(type, "Pod");
        if (!pod && strcmp(type, "Container") != 0)
            continue; /* claims of storage */
        for (int r = 0; r < AW__RESOURCES; r++) {
            int64_t min, max, limit;
            if (amount_at(item, "min", (enum aw__resource)r, &min) != AW_OK ||
                amount_at(item, "max", (enum aw__resource)r, &max) != AW_OK ||
                amount_at(item, "default", (enum aw__resource)r, &limit) != AW_OK)
                return AW_ERR_FORMAT;
            raise_to(pod ? &range->pod_min[r] : &range->min[r], min);
            lower(pod ? &range->pod_max[r] : &range->max[r], max);
            if (!pod)
                lower(&range->default_limit[r], limit);
        }
    }
    return AW_OK;
}

enum aw_err aw__limit_range_project(void *ctx, const json_t *object, void *buf, size_t size,
                                    size_t *ret_len)
{
    struct aw__limit_range range = aw__limit_range_none;
    (void)ctx;
    if (size < sizeof range)
        return AW_ERR_LIMIT;
    enum aw_err err = aw__limit_range_add(&range, object);
    if (err)
        return err;
    memcpy(buf, &range, sizeof range);
    *ret_len = sizeof range;
    return AW_OK;
}

void aw__limit_range_narrow(struct aw__limit_range *range, const struct aw__limit_range *by)
{
    for (int r = 0; r < AW__RESOURCES; r++) {
        raise_to(&range->min[r], by->min[r]);
        lower(&range->max[r], by->max[r]);
        lower(&range->default_limit[r], by->default_limit[r]);
        raise_to(&range->pod_min[r], by->pod_min[r]);
        lower(&range->pod_max[r], by->pod_max[r]);
    }
}

/* --- requests and limits --- */

/* What is left of a bound of the whole pod once the others have theirs; -1: no bound. */
static int64_t left_over(int64_t bound, int64_t taken)
{
    if (bound < 0)
        return -1;
    taken = taken > 0 ? taken : 0;
    return bound > taken ? bound - taken : 0;
}

static void size_one(const struct aw__resources *now, int64_t wanted, int64_t default_limit,
                     int64_t min, int64_t max, enum aw__resource r, struct aw__resources *ret)
{
    const int64_t had = now->request[r];
    const int64_t had_limit = now->limit[r] >= 0 ? now->limit[r] : default_limit;
    int64_t request = wanted, limit = had_limit;
    if (had_limit >= 0 && had != 0) /* without a request the limit is one (the API's default) */
        limit = had < 0 || had == had_limit ? request : mul_div(request, had_limit, had);
    if (min >= 0 && request < min) {
        limit = limit >= 0 && request > 0 ? mul_div(limit, min, request) : limit;
        request = min;
    }
    if (max >= 0 && limit > max) {
        request = mul_div(request, max, limit);
        limit = max;
    }
    if (max >= 0 && request > max)
        request = max;
    if (min >= 0 && request < min) /* the range is narrower than the ratio: the range rules */
        request = min;
    if (limit >= 0 && request > limit)
        request = limit;
    ret->request[r] = request;
    ret->limit[r] = limit;
}

void aw__size(const struct aw__resources *now, const int64_t wanted[AW__RESOURCES],
              const struct aw__limit_range *range, const struct aw__resources *others,
              struct aw__resources *ret)
{
    *ret = *now;
    for (int r = 0; r < AW__RESOURCES; r++) {
        if (wanted[r] < 0)
            continue;
        const int64_t pod_min = left_over(range->pod_min[r], others->request[r]);
        const int64_t taken =
            others->limit[r] > others->request[r] ? others->limit[r] : others->request[r];
        const int64_t pod_max = left_over(range->pod_max[r], taken);
        int64_t min = range->min[r], max = range->max[r];
        raise_to(&min, pod_min > 0 ? pod_min : -1);
        lower(&max, pod_max);
        size_one(now, wanted[r], range->default_limit[r], min, max, (enum aw__resource)r, ret);
    }
}

struct aw__resources aw__resources_of(const struct aw_kube_container *container)
{
    return (struct aw__resources){
        .request = {container->cpu_request_millicores, container->memory_request_bytes},
        .limit = {container->cpu_limit_millicores, container->memory_limit_bytes},
    };
}

static const struct aw_kube_container *container_at(const struct aw_kube_pod *pod, uint32_t i)
{
    return aw_kube_span_item(pod, pod->containers, sizeof(struct aw_kube_container), i);
}

int32_t aw__sized_container(const struct aw__mpa_intent *intent, const struct aw_kube_pod *pod)
{
    const char *name = aw_kube_span_text(intent, intent->container);
    if (!name[0])
        return pod->containers.count > 0 ? 0 : -1;
    for (uint32_t i = 0; i < pod->containers.count; i++)
        if (!strcmp(aw_kube_span_text(pod, container_at(pod, i)->name), name))
            return (int32_t)i;
    return -1;
}

struct aw__resources aw__sizing_others(const struct aw_kube_pod *pod, uint32_t index)
{
    struct aw__resources sum = {{0, 0}, {0, 0}};
    for (uint32_t i = 0; i < pod->containers.count; i++) {
        const struct aw__resources one = aw__resources_of(container_at(pod, i));
        for (int r = 0; r < AW__RESOURCES && i != index; r++) {
            if (one.request[r] > 0 &&
                __builtin_add_overflow(sum.request[r], one.request[r], &sum.request[r]))
                sum.request[r] = INT64_MAX;
            if (one.limit[r] > 0 &&
                __builtin_add_overflow(sum.limit[r], one.limit[r], &sum.limit[r]))
                sum.limit[r] = INT64_MAX;
        }
    }
    return sum;
}

/* A limit without a request is both: the API server writes the request down, but not in reviews. */
static bool guaranteed(const struct aw__resources *have)
{
    for (int r = 0; r < AW__RESOURCES; r++)
        if (have->limit[r] <= 0 || (have->request[r] >= 0 && have->request[r] != have->limit[r]))
            return false;
    return true;
}

bool aw__sizing_keeps_qos(const struct aw_kube_pod *pod, uint32_t index,
                          const struct aw__resources *size)
{
    const char *qos = aw_kube_span_text(pod, pod->qos);
    bool all = guaranteed(size), amounts = false;
    for (uint32_t i = 0; i < pod->containers.count; i++) {
        const struct aw__resources have = aw__resources_of(container_at(pod, i));
        all = all && (i == index || guaranteed(&have));
    }
    for (int r = 0; r < AW__RESOURCES; r++)
        amounts = amounts || size->request[r] > 0 || size->limit[r] > 0;
    if (!strcmp(qos, "Guaranteed"))
        return all;
    if (!strcmp(qos, "Burstable"))
        return !all && amounts;
    return false; /* BestEffort has no amounts, and what is not known is not risked */
}

double aw__sizing_distance(const struct aw__resources *now, const struct aw__resources *wanted)
{
    double far = 0;
    for (int r = 0; r < AW__RESOURCES; r++) {
        const double want = (double)wanted->request[r], have = (double)now->request[r];
        if (want < 0 || want == have)
            continue;
        far = fmax(far, have <= 0 ? INFINITY : fabs(want - have) / have);
    }
    return far;
}
