/* onnx.c - shapes of a graph, and what its operators cost. */
#include "serving/onnx.h"

#include <math.h>
#include <onnx/onnx.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "serving/placement.h"
#include "trace/read.h"

#define RANK_MAX 8u
#define STREAM   0.82 /* mu: of streaming, what no clock changes */

struct shape {
    const char *name;
    uint32_t rank;
    double dim[RANK_MAX];
    double element; /* bytes */
    bool known;
    const Onnx__TensorProto *data; /* of a constant */
};
struct graph {
    struct shape *shape;
    uint32_t shapes;
    double free;
};

/* Bytes of an element, by ONNX's TensorProto.DataType. */
static double element_bytes(int32_t type)
{
    switch (type) {
    case 2: /* uint8, int8, bool, float8 of four kinds */
    case 3:
    case 9:
    case 17:
    case 18:
    case 19:
    case 20:
        return 1;
    case 21: /* uint4, int4, float4 */
    case 22:
    case 23:
        return 0.5;
    case 4: /* uint16, int16, float16, bfloat16 */
    case 5:
    case 10:
    case 16:
        return 2;
    case 7: /* int64, double, uint64, complex64 */
    case 11:
    case 13:
    case 14:
        return 8;
    case 15: /* complex128 */
        return 16;
    default:
        return 4;
    }
}

static double numel(const struct shape *shape)
{
    double n = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        n *= shape->dim[i];
    return n;
}

static double bytes_of(const struct shape *shape)
{
    return shape && shape->known ? numel(shape) * shape->element : 0;
}

static struct shape *shape_find(const struct graph *graph, const char *name)
{
    for (uint32_t i = 0; *name && i < graph->shapes; i++)
        if (!strcmp(graph->shape[i].name, name))
            return &graph->shape[i];
    return NULL;
}

static struct shape *shape_add(struct graph *graph, const char *name)
{
    struct shape *shape = shape_find(graph, name);
    if (!shape) {
        shape = &graph->shape[graph->shapes++];
        *shape = (struct shape){.name = name, .element = 4};
    }
    return shape;
}

static void value_take(struct graph *graph, const Onnx__ValueInfoProto *value)
{
    if (!value->name || !value->type || !value->type->tensor_type ||
        !value->type->tensor_type->shape)
        return;
    const Onnx__TensorShapeProto *from = value->type->tensor_type->shape;
    struct shape *shape = shape_add(graph, value->name);
    if (from->n_dim > RANK_MAX)
        return;
    shape->rank = (uint32_t)from->n_dim;
    shape->known = true;
    shape->element = element_bytes(value->type->tensor_type->elem_type);
    for (uint32_t i = 0; i < shape->rank; i++)
        shape->dim[i] = from->dim[i]->has_dim_value && from->dim[i]->dim_value > 0
                            ? (double)from->dim[i]->dim_value
                            : graph->free;
}

static const Onnx__AttributeProto *attribute_find(const Onnx__NodeProto *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->name && !strcmp(node->attribute[i]->name, name))
            return node->attribute[i];
    return NULL;
}

static int64_t attribute(const Onnx__NodeProto *node, const char *name, int64_t missing)
{
    const Onnx__AttributeProto *found = attribute_find(node, name);
    return found ? found->i : missing;
}

static int64_t attribute_at(const Onnx__NodeProto *node, const char *name, size_t at,
                            int64_t missing)
{
    const Onnx__AttributeProto *found = attribute_find(node, name);
    return found && at < found->n_ints ? found->ints[at] : missing;
}

static void tensor_take(struct shape *shape, const Onnx__TensorProto *tensor)
{
    if (tensor->n_dims > RANK_MAX)
        return;
    shape->rank = (uint32_t)tensor->n_dims;
    shape->known = true;
    shape->element = element_bytes(tensor->data_type);
    shape->data = tensor;
    for (uint32_t d = 0; d < shape->rank; d++)
        shape->dim[d] = fmax((double)tensor->dims[d], 0);
}

/* A tensor, a list, or one number. */
static void constant_take(struct graph *graph, const Onnx__NodeProto *node)
{
    struct shape *shape = shape_add(graph, node->output[0]);
    const Onnx__AttributeProto *tensor = attribute_find(node, "value");
    const Onnx__AttributeProto *one = node->n_attribute ? node->attribute[0] : NULL;
    if (shape->known)
        return;
    if (tensor && tensor->t) {
        tensor_take(shape, tensor->t);
        return;
    }
    shape->known = true;
    shape->rank = one && (one->n_ints || one->n_floats);
    shape->dim[0] = one ? (double)(one->n_ints + one->n_floats) : 0;
    shape->element = one && (one->has_i || one->n_ints) ? 8 : 4;
}

/* A's rows, B's columns, and what they have in common. */
static bool product_of(const Onnx__NodeProto *node, const struct shape *a, const struct shape *b,
                       double *K, double *N)
{
    const bool gemm = !strcmp(node->op_type, "Gemm");
    if (!a || !b || !a->known || !b->known || a->rank < 1 || b->rank < 1 ||
        (gemm && (a->rank != 2 || b->rank != 2)))
        return false;
    const bool turned = gemm && attribute(node, "transA", 0),
               other = gemm && attribute(node, "transB", 0);
    *K = a->dim[turned ? 0 : a->rank - 1];
    *N = b->rank == 1 ? 1 : b->dim[other ? b->rank - 2 : b->rank - 1];
    return true;
}

static bool is_one_of(const char *type, const char *const *names)
{
    while (*names && strcmp(type, *names) != 0)
        names++;
    return *names;
}

/* Each output number comes of the numbers at its place, or of its row: the inputs' common shape. */
static const char *const element_wise[] = {"Abs",       "Acos",        "Acosh",
                                           "Add",       "And",         "Asin",
                                           "Asinh",     "Atan",        "Atanh",
                                           "BitShift",  "BitwiseAnd",  "BitwiseNot",
                                           "BitwiseOr", "BitwiseXor",  "Cast",
                                           "CastLike",  "Ceil",        "Celu",
                                           "Clip",      "Cos",         "Cosh",
                                           "Div",       "Elu",         "Equal",
                                           "Erf",       "Exp",         "Floor",
                                           "Gelu",      "Greater",     "GreaterOrEqual",
                                           "HardSwish", "HardSigmoid", "Identity",
                                           "IsInf",     "IsNaN",       "LeakyRelu",
                                           "Less",      "LessOrEqual", "Log",
                                           "Max",       "Mean",        "Min",
                                           "Mish",      "Mod",         "Mul",
                                           "Neg",       "Not",         "Or",
                                           "PRelu",     "Pow",         "Reciprocal",
                                           "Relu",      "Round",       "Selu",
                                           "Shrink",    "Sigmoid",     "Sign",
                                           "Sin",       "Sinh",        "Softplus",
                                           "Softsign",  "Sqrt",        "Sub",
                                           "Sum",       "Swish",       "Tan",
                                           "Tanh",      "Where",       "ThresholdedRelu",
                                           "Xor",       "FastGelu",    "BiasGelu",
                                           "QuickGelu", NULL};
/* The first output has the shape of the first input. */
static const char *const as_first[] = {"BatchNormalization",
                                       "CumSum",
                                       "DequantizeLinear",
                                       "Dropout",
                                       "GroupNormalization",
                                       "Hardmax",
                                       "InstanceNormalization",
                                       "LRN",
                                       "LayerNormalization",
                                       "LogSoftmax",
                                       "LpNormalization",
                                       "MeanVarianceNormalization",
                                       "QuantizeLinear",
                                       "RMSNormalization",
                                       "ScatterElements",
                                       "ScatterND",
                                       "SimplifiedLayerNormalization",
                                       "SkipLayerNormalization",
                                       "SkipSimplifiedLayerNormalization",
                                       "Softmax",
                                       "Trilu",
                                       NULL};
static const char *const truth[] = {
    "And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual",
    "Not", "Or",    "Xor",     "QuantizeLinear", NULL}; /* a byte each */
/* The second input says how large a number is. */
static const char *const of_second[] = {"Where", "DequantizeLinear", "CastLike", NULL};
static const char *const pools[] = {"MaxPool", "AveragePool", "LpPool", NULL};
static const char *const globals[] = {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", NULL};

/* The whole numbers of a constant of rank 0 or 1. False: it is none, or has more than RANK_MAX. */
static bool whole_of(const struct shape *shape, int64_t ret[RANK_MAX], uint32_t *count)
{
    const Onnx__TensorProto *data = shape ? shape->data : NULL;
    if (!data || !shape->known || shape->rank > 1 || numel(shape) > RANK_MAX)
        return false;
    const size_t n = (size_t)numel(shape);
    *count = (uint32_t)n;
    if (data->n_int64_data >= n && n)
        memcpy(ret, data->int64_data, n * sizeof *ret);
    else if (data->has_raw_data && data->raw_data.len >= n * sizeof *ret && n)
        memcpy(ret, data->raw_data.data, n * sizeof *ret);
    return !n || data->n_int64_data >= n ||
           (data->has_raw_data && data->raw_data.len >= n * sizeof *ret);
}

/* To a shape that is a constant: 0 keeps a dimension, -1 takes what is left. */
static bool reshape(const struct shape *in, const struct shape *to, struct shape *out)
{
    int64_t dims[RANK_MAX];
    double rest = numel(in);
    uint32_t open = RANK_MAX, n = 0;
    if (rest <= 0 || !whole_of(to, dims, &n) || n == 0)
        return false;
    out->rank = n;
    for (uint32_t i = 0; i < n; i++) {
        out->dim[i] = dims[i] > 0 ? (double)dims[i] : dims[i] == 0 && i < in->rank ? in->dim[i] : 1;
        open = dims[i] < 0 ? i : open;
        rest /= fmax(out->dim[i], 1);
    }
    if (open < RANK_MAX)
        out->dim[open] = rest;
    return true;
}

/* Dimensions of 1 stretch to those beside them, counted from the last. */
static bool broadcast(struct shape *out, const double *dim, uint32_t rank)
{
    if (rank > out->rank) {
        const uint32_t more = rank - out->rank;
        memmove(out->dim + more, out->dim, out->rank * sizeof *dim);
        for (uint32_t i = 0; i < more; i++)
            out->dim[i] = 1;
        out->rank = rank;
    }
    for (uint32_t i = 0; i < rank; i++) {
        double *own = &out->dim[out->rank - rank + i];
        if (*own != dim[i] && *own != 1 && dim[i] != 1)
            return false;
        *own = *own == 1 ? dim[i] : *own;
    }
    return true;
}

static bool product_shape(const Onnx__NodeProto *node, const struct shape *a, const struct shape *b,
                          struct shape *out)
{
    double K, N;
    if (!product_of(node, a, b, &K, &N))
        return false;
    out->rank = 0;
    if ((a->rank > 2 && !broadcast(out, a->dim, a->rank - 2)) ||
        (b->rank > 2 && !broadcast(out, b->dim, b->rank - 2)))
        return false;
    const bool turned = !strcmp(node->op_type, "Gemm") && attribute(node, "transA", 0);
    if (a->rank > 1)
        out->dim[out->rank++] = a->dim[turned ? a->rank - 1 : a->rank - 2];
    if (b->rank > 1)
        out->dim[out->rank++] = N;
    return true;
}

/* What a window that steps over the input leaves of it; `weights`: NULL of a pool. */
static bool window_shape(const Onnx__NodeProto *node, const struct shape *in,
                         const struct shape *weights, struct shape *out)
{
    const Onnx__AttributeProto *how = attribute_find(node, "auto_pad");
    const size_t len = how ? how->s.len : 0;
    const bool same = len > 4 && !memcmp(how->s.data, "SAME", 4),
               valid = len == 5 && !memcmp(how->s.data, "VALID", 5),
               up = !weights && attribute(node, "ceil_mode", 0);
    if (in->rank < 3 || (weights && weights->rank != in->rank))
        return false;
    const uint32_t space = in->rank - 2;
    if (weights)
        out->dim[1] = weights->dim[0];
    for (uint32_t i = 0; i < space; i++) {
        const double stride = (double)attribute_at(node, "strides", i, 1),
                     wide = (double)attribute_at(node, "dilations", i, 1),
                     kernel = weights ? weights->dim[i + 2]
                                      : (double)attribute_at(node, "kernel_shape", i, 0),
                     pad = same || valid ? 0
                                         : (double)attribute_at(node, "pads", i, 0) +
                                               (double)attribute_at(node, "pads", i + space, 0);
        if (stride < 1 || wide < 1 || kernel < 1)
            return false;
        const double steps = same ? ceil(in->dim[i + 2] / stride) - 1
                                  : (in->dim[i + 2] + pad - wide * (kernel - 1) - 1) / stride;
        out->dim[i + 2] = fmax((up ? ceil(steps) : floor(steps)) + 1, 1);
    }
    return true;
}

/* Axes as bits, of an attribute or of the second input. `all`: where none are said. */
static bool axes_of(const Onnx__NodeProto *node, const struct shape *input, uint32_t rank,
                    uint32_t all, uint32_t *ret)
{
    int64_t axes[RANK_MAX];
    uint32_t n = 0;
    const Onnx__AttributeProto *said = attribute_find(node, "axes");
    *ret = 0;
    if (said && said->n_ints <= RANK_MAX)
        for (; n < said->n_ints; n++)
            axes[n] = said->ints[n];
    else if (said || (node->n_input > 1 && *node->input[1] && !whole_of(input, axes, &n)))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t axis = axes[i] < 0 && axes[i] >= -(int64_t)rank ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank)
            return false;
        *ret |= 1u << axis;
    }
    *ret = n ? *ret : all;
    return true;
}

/* Takes axes out, or leaves them as 1. */
static void reduce(struct shape *out, uint32_t axes, bool keep)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < out->rank; i++) {
        const bool gone = axes >> i & 1;
        if (!gone || keep)
            out->dim[rank++] = gone ? 1 : out->dim[i];
    }
    out->rank = rank;
}

static bool unsqueeze(const Onnx__NodeProto *node, const struct shape *in, const struct shape *to,
                      struct shape *out)
{
    const Onnx__AttributeProto *said = attribute_find(node, "axes");
    int64_t unused[RANK_MAX];
    uint32_t axes, n = said && said->n_ints <= RANK_MAX ? (uint32_t)said->n_ints : 0;
    if ((!said && !whole_of(to, unused, &n)) || in->rank + n > RANK_MAX ||
        !axes_of(node, to, in->rank + n, 0, &axes))
        return false;
    out->rank = in->rank + n;
    for (uint32_t i = 0, from = 0; i < out->rank; i++) {
        if (!(axes >> i & 1) && from == in->rank)
            return false; /* an axis was said twice */
        out->dim[i] = axes >> i & 1 ? 1 : in->dim[from++];
    }
    return true;
}

static bool flatten(const Onnx__NodeProto *node, const struct shape *in, struct shape *out)
{
    int64_t axis = attribute(node, "axis", 1);
    axis = axis < 0 && axis >= -(int64_t)in->rank ? axis + in->rank : axis;
    if (axis < 0 || axis > in->rank)
        return false;
    double half[2] = {1, 1};
    for (uint32_t i = 0; i < in->rank; i++)
        half[i >= axis] *= in->dim[i];
    memcpy(out->dim, half, sizeof half);
    out->rank = 2;
    return true;
}

static bool transpose(const Onnx__NodeProto *node, const struct shape *in, struct shape *out)
{
    for (uint32_t i = 0; i < in->rank; i++) {
        const int64_t from = attribute_at(node, "perm", i, in->rank - 1 - i);
        if (from < 0 || from >= in->rank)
            return false;
        out->dim[i] = in->dim[from];
    }
    return true;
}

/* The shape of an operator's first output of its inputs', all of them known. `out` begins as the
 * first. False: it hangs on what the inputs hold, or is of an operator that is not known. */
static bool shape_of(const struct graph *graph, const Onnx__NodeProto *node,
                     const struct shape *const in[2], struct shape *out)
{
    const char *type = node->op_type;
    const bool argument = !strcmp(type, "ArgMax") || !strcmp(type, "ArgMin");
    uint32_t axes;
    if (is_one_of(type, as_first))
        return true;
    if (is_one_of(type, element_wise)) {
        for (size_t i = 1; i < node->n_input; i++) {
            const struct shape *one = shape_find(graph, node->input[i]);
            if (one && !broadcast(out, one->dim, one->rank))
                return false;
        }
        return true;
    }
    if (!strcmp(type, "Reshape"))
        return reshape(in[0], in[1], out);
    if (!strcmp(type, "Transpose"))
        return transpose(node, in[0], out);
    if (!strcmp(type, "Flatten"))
        return flatten(node, in[0], out);
    if (!strcmp(type, "Unsqueeze"))
        return unsqueeze(node, in[0], in[1], out);
    if (!strcmp(type, "MatMul") || !strcmp(type, "Gemm"))
        return product_shape(node, in[0], in[1], out);
    if (!strcmp(type, "Conv"))
        return in[1] && window_shape(node, in[0], in[1], out);
    if (is_one_of(type, pools))
        return window_shape(node, in[0], NULL, out);
    if (is_one_of(type, globals) && in[0]->rank > 2) {
        reduce(out, (1u << in[0]->rank) - 4, true);
        return true;
    }
    if (argument) {
        const int64_t axis = attribute(node, "axis", 0);
        axes = axis < 0 && axis >= -(int64_t)in[0]->rank ? 1u << (axis + in[0]->rank)
               : axis >= 0 && axis < in[0]->rank         ? 1u << axis
                                                         : 0;
        reduce(out, axes, attribute(node, "keepdims", 1));
        return axes;
    }
    if (!strncmp(type, "Reduce", 6)) {
        const uint32_t all =
            attribute(node, "noop_with_empty_axes", 0) ? 0 : (1u << in[0]->rank) - 1;
        if (!axes_of(node, in[1], in[0]->rank, all, &axes))
            return false;
        reduce(out, axes, attribute(node, "keepdims", 1));
        return true;
    }
    return false;
}

/* The shape of an operator's first output, where the file does not say it. */
static void infer(const struct graph *graph, const Onnx__NodeProto *node, struct shape *out)
{
    const struct shape *in[2] = {NULL, NULL};
    struct shape made;
    for (size_t i = 0; i < node->n_input; i++) {
        const struct shape *one = shape_find(graph, node->input[i]);
        if (*node->input[i] && (!one || !one->known))
            return;
        if (i < 2)
            in[i] = one;
    }
    if (!in[0])
        return;
    made = *in[0];
    made.name = out->name;
    made.data = NULL;
    if (!shape_of(graph, node, in, &made))
        return;
    if (is_one_of(node->op_type, truth))
        made.element = 1;
    else if (!strncmp(node->op_type, "Arg", 3))
        made.element = 8;
    else if (!strcmp(node->op_type, "Cast"))
        made.element = element_bytes((int32_t)attribute(node, "to", 1));
    else if (in[1] && is_one_of(node->op_type, of_second))
        made.element = in[1]->element;
    *out = made;
}

static double flops_of(struct graph *graph, const Onnx__NodeProto *node, const struct shape *out)
{
    const struct shape *a = node->n_input > 0 ? shape_find(graph, node->input[0]) : NULL,
                       *b = node->n_input > 1 ? shape_find(graph, node->input[1]) : NULL;
    double K, N;
    if ((!strcmp(node->op_type, "MatMul") || !strcmp(node->op_type, "Gemm")) &&
        product_of(node, a, b, &K, &N))
        return 2 * numel(out) * K;
    if (!strcmp(node->op_type, "Conv") && b && b->known && b->dim[0] > 0)
        return 2 * numel(out) * numel(b) / b->dim[0];
    return 4 * numel(out);
}

double aw_onnx_time(const struct aw_gpu_kind *kind, double bytes, double flops, double x)
{
    const struct aw_gpu_roof *roof = &kind->roof;
    return roof->fixed +
           pow(pow(bytes / roof->bandwidth * (STREAM + (1 - STREAM) / x), roof->corner) +
                   pow(flops / (roof->compute * x), roof->corner),
               1 / roof->corner);
}

static void operator_cost(struct aw_onnx_operator *op, const struct aw_gpu_kind *kind)
{
    op->time_s = aw_onnx_time(kind, op->bytes, op->flops, 1);
    op->sensitivity = (aw_onnx_time(kind, op->bytes, op->flops, 0.5) / op->time_s - 1) / 0.5;
    op->memory = 1 - op->sensitivity / 2;
}

static void graph_walk(struct graph *graph, const Onnx__GraphProto *from,
                       const struct aw_onnx_settings *settings, struct aw_onnx_model *ret)
{
    for (size_t i = 0; i < from->n_node; i++) {
        const Onnx__NodeProto *node = from->node[i];
        if (!node->op_type || node->n_output == 0)
            continue;
        if (!strcmp(node->op_type, "Constant")) {
            constant_take(graph, node);
            continue;
        }
        struct shape *out = shape_add(graph, node->output[0]);
        if (!out->known)
            infer(graph, node, out);
        if (!out->known) {
            ret->unknown++;
            continue;
        }
        struct aw_onnx_operator *op = &ret->operator[ret->operators++];
        snprintf(op->name, sizeof op->name, "%.95s",
                 node->name && *node->name ? node->name : node->output[0]);
        snprintf(op->type, sizeof op->type, "%.31s", node->op_type);
        for (size_t k = 0; k < node->n_input; k++)
            op->bytes += bytes_of(shape_find(graph, node->input[k]));
        for (size_t k = 0; k < node->n_output; k++)
            op->bytes += bytes_of(shape_find(graph, node->output[k]));
        op->flops = flops_of(graph, node, out);
        operator_cost(op, settings->kind);
    }
}

static enum aw_err sum_up(struct aw_onnx_model *model, double threshold, struct aw_diag *diag)
{
    double *score = aw_alloc_new(NULL, model->operators, sizeof *score);
    uint32_t *cluster = aw_alloc_new(NULL, model->operators, sizeof *cluster);
    enum aw_err err = AW_OK;
    if (!score || !cluster)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u operators", model->operators);
    for (uint32_t i = 0; !err && i < model->operators; i++) {
        const struct aw_onnx_operator *op = &model->operator[i];
        score[i] = op->sensitivity;
        model->bytes += op->bytes;
        model->flops += op->flops;
        model->time_s += op->time_s;
        model->memory += op->memory * op->time_s;
        model->sensitivity += op->sensitivity * op->time_s;
    }
    if (!err) {
        model->memory /= model->time_s;
        model->sensitivity /= model->time_s;
        model->clusters = aw_cluster(score, model->operators, threshold, cluster);
        for (uint32_t i = 0; i < model->operators; i++)
            model->operator[i].cluster = cluster[i];
    }
    aw_alloc_free(NULL, score);
    aw_alloc_free(NULL, cluster);
    return err;
}

static enum aw_err graph_take(const char *path, const Onnx__GraphProto *from,
                              const struct aw_onnx_settings *settings, struct aw_onnx_model *ret,
                              struct aw_diag *diag)
{
    struct graph graph = {.free = (double)settings->free};
    graph.shape = aw_alloc_new(NULL,
                               from->n_initializer + from->n_input + from->n_output +
                                   from->n_value_info + from->n_node + 1,
                               sizeof *graph.shape);
    ret->operator= aw_alloc_new(NULL, from->n_node + 1, sizeof *ret->operator);
    if (!graph.shape || !ret->operator) {
        aw_alloc_free(NULL, graph.shape);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    }
    snprintf(ret->name, sizeof ret->name, "%.63s", from->name ? from->name : "");
    for (size_t i = 0; i < from->n_input; i++)
        value_take(&graph, from->input[i]);
    for (size_t i = 0; i < from->n_output; i++)
        value_take(&graph, from->output[i]);
    for (size_t i = 0; i < from->n_value_info; i++)
        value_take(&graph, from->value_info[i]);
    for (size_t i = 0; i < from->n_initializer; i++) {
        const Onnx__TensorProto *tensor = from->initializer[i];
        if (!tensor->name || tensor->n_dims > RANK_MAX)
            continue;
        struct shape *shape = shape_add(&graph, tensor->name);
        tensor_take(shape, tensor);
        ret->weights_bytes += bytes_of(shape);
    }
    graph_walk(&graph, from, settings, ret);
    aw_alloc_free(NULL, graph.shape);
    if (ret->operators == 0)
        return aw_fail_at(diag, AW_ERR_NODATA, path, 0, 0, NULL,
                          "no operator has a shape: state the inputs' shapes in the model");
    return sum_up(ret, settings->threshold, diag);
}

enum aw_err aw_onnx_read(const char *path, const struct aw_onnx_settings *settings,
                         struct aw_onnx_model *ret, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t size = 0;
    memset(ret, 0, sizeof *ret);
    enum aw_err err = aw_packed_read(path, AW_ONNX_BYTES_MAX, NULL, &bytes, &size, diag);
    if (err)
        return err;
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, (const uint8_t *)bytes);
    aw_alloc_free(NULL, bytes);
    if (!model || !model->graph || !model->has_ir_version)
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "expected an ONNX model");
    else
        err = graph_take(path, model->graph, settings, ret, diag);
    if (model)
        onnx__model_proto__free_unpacked(model, NULL);
    if (err)
        aw_onnx_deinit(ret);
    return err;
}

void aw_onnx_deinit(struct aw_onnx_model *model)
{
    aw_alloc_free(NULL, model->operator);
    memset(model, 0, sizeof *model);
}
