/*
 * onnx.h - a model's operators from an ONNX file: bytes, flops, time on a GPU, sensitivity.
 *
 * Shapes are those that the file states (inputs, weights, value_info). Where it states none for an
 * operator's output, it follows from the inputs, if all of them have one and the operator is among
 * those that are known: element-wise ones, norms, products, convolutions, pools, reductions and
 * what moves dimensions by constants. What is left without a shape is counted, and told. Nothing
 * is run.
 *
 *   bytes = all inputs + outputs       flops: 2 M N K of products, 2 x outputs x weights behind one
 *                                      of a convolution, a few for each output of the rest
 *   t(x)  = t0 + ((bytes/BW (mu + (1 - mu)/x))^p + (flops/(C x))^p)^(1/p)
 *
 * mu = .82: even what only streams slows by 18 % of 1/x (V100, vectorAdd). The sensitivity is the
 * paper's: by how much time grows from the largest clock to half of it, over that half; 2 for what
 * the core bounds. Clusters are those of Alg. 6.1, corrected.
 *
 * Memory:  the caller's to deinit. Threads: pure.
 */
#ifndef AW_SERVING_ONNX_H
#define AW_SERVING_ONNX_H

#include "serving/catalog.h"

#define AW_ONNX_BYTES_MAX ((size_t)1 << 31)

struct aw_onnx_operator {
    char name[96], type[32];
    double bytes, flops;
    double time_s;      /* at the largest clock */
    double memory;      /* share of it that no clock changes */
    double sensitivity; /* 0 to 2 */
    uint32_t cluster;
};
struct aw_onnx_model {
    char name[64];
    uint32_t operators, clusters;
    uint32_t unknown;     /* operators without a shape: not among them */
    double weights_bytes; /* of initializers */
    double bytes, flops, time_s, memory, sensitivity; /* of all, the last two weighted by time */
    struct aw_onnx_operator *operator;
};
struct aw_onnx_settings {
    const struct aw_gpu_kind *kind;
    int64_t free;     /* what stands for a dimension that has a name instead of a number */
    double threshold; /* of clusters */
};
/* AW_ERR_FORMAT: no ONNX file; AW_ERR_NODATA: no operator with a shape. Zeroed on failure. */
AW_NODISCARD enum aw_err aw_onnx_read(const char *path, const struct aw_onnx_settings *settings,
                                      struct aw_onnx_model *ret, struct aw_diag *diag);
void aw_onnx_deinit(struct aw_onnx_model *model);
/* Time of bytes and flops at clock x, by the law above. */
double aw_onnx_time(const struct aw_gpu_kind *kind, double bytes, double flops, double x);

#endif
