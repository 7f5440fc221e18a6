/* metrics_api.c - metrics.k8s.io: what metrics-server has seen of pods. */
#include <string.h>

#include "base/quantity.h"
#include "kube/metrics_internal.h"

/* The sum over containers. A pod of which one container cannot be read has none: half of its usage
 * would look like little usage. */
static bool read_usage(const json_t *pod, double *ret_cores, double *ret_bytes)
{
    const json_t *containers = json_object_get(pod, "containers"), *container;
    double cores = 0, bytes = 0;
    size_t i;
    if (json_array_size(containers) == 0)
        return false;
    json_array_foreach(containers, i, container)
    {
        int64_t nanocores, amount;
        const char *cpu = aw_kube_text_at(container, "usage.cpu");
        const char *memory = aw_kube_text_at(container, "usage.memory");
        if (aw_quantity_parse(cpu, AW_QUANTITY_NANO, AW_QUANTITY_POSITIVE_OR_0, &nanocores, NULL) ||
            aw_quantity_parse_memory(memory, &amount, NULL))
            return false;
        cores += 1e-9 * (double)nanocores;
        bytes += (double)amount;
    }
    *ret_cores = cores;
    *ret_bytes = bytes;
    return true;
}

static bool read_pod(const json_t *pod, const struct aw__api_visitor *visitor)
{
    struct aw_kube_meta meta;
    double cores, bytes;
    int64_t at_us;
    if (aw_kube_meta_read(pod, &meta, NULL) || !meta.ns[0] || !read_usage(pod, &cores, &bytes) ||
        aw_kube_time_parse(aw_kube_text_at(pod, "timestamp"), &at_us))
        return false;
    visitor->pod(visitor->ctx, meta.ns, meta.name, cores, bytes, at_us);
    return true;
}

enum aw_err aw__metrics_api_decode(const json_t *rest, struct aw_kube_slices *items,
                                   const struct aw__api_visitor *visitor, uint64_t *ret_dropped,
                                   struct aw_diag *diag)
{
    const char *kind = aw_kube_text_at(rest, "kind"); /* PodMetricsList; of a proxy, List */
    const size_t len = strlen(kind);
    uint64_t dropped = 0;
    json_t *pod = NULL;
    enum aw_err err = AW_OK;
    if (len < 4 || strcmp(kind + len - 4, "List") != 0 ||
        !json_is_array(json_object_get(rest, "items")))
        return aw_fail(diag, AW_ERR_FORMAT, "expected a PodMetricsList, found something else");
    while (!(err = aw_kube_slices_next(items, &pod, diag)) && pod) {
        dropped += !read_pod(pod, visitor);
        json_decref(pod);
    }
    *ret_dropped = dropped;
    return err;
}
