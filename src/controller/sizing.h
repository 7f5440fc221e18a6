/*
 * sizing.h - from a recommended size to the requests and limits of a container.
 *
 * A recommendation is a request. The author of the template decided what a container may use beyond
 * it, as the ratio of limit to request; that ratio is kept (as the Vertical Pod Autoscaler does):
 * limit == request stays so, no limit stays none. A LimitRange of the namespace is obeyed, because
 * the API server would refuse what breaks it.
 *
 * Memory:  plain structs. Threads: pure functions of their arguments.
 *
 * The trap: the class of quality of service hangs on requests equal to limits. A pod may not change
 * it while it runs; see aw__sizing_keeps_qos.
 */
#ifndef AW_CONTROLLER_SIZING_H
#define AW_CONTROLLER_SIZING_H

#include "controller/mpa_intent.h"

/* Of a container; -1: none. */
struct aw__resources {
    int64_t request[AW__RESOURCES], limit[AW__RESOURCES];
};

/* What the LimitRanges of a namespace say, all of them together; -1: nothing. */
struct aw__limit_range {
    int64_t min[AW__RESOURCES], max[AW__RESOURCES];         /* of a container */
    int64_t default_limit[AW__RESOURCES];                   /* of a container that has none */
    int64_t pod_min[AW__RESOURCES], pod_max[AW__RESOURCES]; /* of all its containers together */
};
extern const struct aw__limit_range aw__limit_range_none;

/* Narrows `range` by the items of a LimitRange. AW_ERR_FORMAT: an amount that cannot be read; some
 * of its items may have been taken then. */
AW_NODISCARD enum aw_err aw__limit_range_add(struct aw__limit_range *range, const json_t *object);

/* As a projection of an informer of aw__limit_ranges; and what two of them say together. */
extern const struct aw_kube_kind aw__limit_ranges;
AW_NODISCARD enum aw_err aw__limit_range_project(void *ctx, const json_t *object, void *buf,
                                                 size_t size, size_t *ret_len);
void aw__limit_range_narrow(struct aw__limit_range *range, const struct aw__limit_range *by);

/* The size that `now` becomes when `wanted` is recommended (-1: that resource keeps its size).
 * `others`: the sum over the other containers of the pod. */
void aw__size(const struct aw__resources *now, const int64_t wanted[AW__RESOURCES],
              const struct aw__limit_range *range, const struct aw__resources *others,
              struct aw__resources *ret);

/* What a container of a pod has. */
struct aw__resources aw__resources_of(const struct aw_kube_container *container);
/* What the other containers of a pod have together. */
struct aw__resources aw__sizing_others(const struct aw_kube_pod *pod, uint32_t index);
/* The container that an intent sizes, the first where it names none; -1: the pod has none such. */
int32_t aw__sized_container(const struct aw__mpa_intent *intent, const struct aw_kube_pod *pod);

/* Whether a pod keeps its class when its container `index` becomes `size`. False too where the
 * class is not known yet. */
bool aw__sizing_keeps_qos(const struct aw_kube_pod *pod, uint32_t index,
                          const struct aw__resources *size);

/* |wanted - now| / now, the larger of both resources; a missing request is infinitely far. Only
 * what is wanted counts. */
double aw__sizing_distance(const struct aw__resources *now, const struct aw__resources *wanted);

#endif
