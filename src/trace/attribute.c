/* attribute.c - the attributes that matter, out of the dozens that a span or resource may have. */
#include <stdio.h>
#include <string.h>

#include "trace/read_internal.h"

#define IS(key, len, text) ((len) == sizeof(text) - 1 && !memcmp((key), (text), sizeof(text) - 1))

void aw__origin_take(struct aw__origin *resource, struct aw_names *names, const char *key,
                     size_t key_len, const char *value, size_t len)
{
    /* what a person can find again comes first: a pod has a name, an instance id is often random */
    static const struct {
        const char *key;
        uint32_t rank;
    } instances[] = {
        {"k8s.pod.name", 4}, {"service.instance.id", 3}, {"container.id", 2}, {"host.name", 1}};
    if (IS(key, key_len, "service.name")) {
        resource->service = aw_names_add(names, value, len);
        return;
    }
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++) {
        if (strlen(instances[i].key) == key_len && !memcmp(key, instances[i].key, key_len) && len &&
            instances[i].rank > resource->instance_rank) {
            resource->instance = aw_names_add(names, value, len);
            resource->instance_rank = instances[i].rank;
        }
    }
}

/* Servers that name a span by its method alone say the route beside it. */
static void add_route(struct aw_span *span, struct aw_names *names, const char *route, size_t len)
{
    char both[AW_NAME_BYTES_MAX];
    const char *name = aw_names_text(names, span->operation);
    const size_t name_len = strlen(name);
    if (!len || name_len + 1 + len >= sizeof both || memmem(name, name_len, route, len))
        return;
    const int used = snprintf(both, sizeof both, "%s %.*s", name, (int)len, route);
    span->operation = aw_names_add(names, both, (size_t)used);
}

void aw__span_take_text(struct aw_span *span, struct aw_names *names, const char *key,
                        size_t key_len, const char *value, size_t len)
{
    switch (key_len) {
    case sizeof "http.route" - 1:
        if (span->kind == AW_SPAN_SERVER && IS(key, key_len, "http.route"))
            add_route(span, names, value, len);
        break;
    case sizeof "peer.service" - 1:
        if (IS(key, key_len, "peer.service"))
            span->peer = aw_names_add(names, value, len);
        break;
    case sizeof "db.system" - 1:
    case sizeof "db.system.name" - 1:
    case sizeof "messaging.system" - 1:
        if (!span->peer && (IS(key, key_len, "db.system") || IS(key, key_len, "db.system.name") ||
                            IS(key, key_len, "messaging.system")))
            span->peer = aw_names_add(names, value, len);
        break;
    default:
        break;
    }
}

void aw__span_take_number(struct aw_span *span, const char *key, size_t key_len, int64_t value)
{
    if (IS(key, key_len, "http.request.resend_count") && value > 0)
        span->resend = value < UINT16_MAX ? (uint16_t)value : UINT16_MAX;
}
