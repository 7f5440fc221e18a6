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
    case 2: /* uint8, int8, bool */
    case 3:
    case 9:
        return 1;
    case 4: /* uint16, int16, float16, bfloat16 */
    case 5:
    case 10:
    case 16:
        return 2;
    case 7: /* int64, double, uint64 */
    case 11:
    case 13:
        return 8;
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

static struct shape *shape_find(struct graph *graph, const char *name)
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

static int64_t attribute(const Onnx__NodeProto *node, const char *name, int64_t missing)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->name && !strcmp(node->attribute[i]->name, name))
            return node->attribute[i]->i;
    return missing;
}

static int64_t attribute_at(const Onnx__NodeProto *node, const char *name, size_t at,
                            int64_t missing)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->name && !strcmp(node->attribute[i]->name, name) &&
            at < node->attribute[i]->n_ints)
            return node->attribute[i]->ints[at];
    return missing;
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

/* Operators whose outputs' shapes hang on what their inputs hold. */
static const char *const moved[] = {"Gather",  "Slice", "Concat", "Split", "Expand",         "Tile",
                                    "Squeeze", "Shape", "Resize", "Pad",   "ConstantOfShape"};

/* To a shape that is a constant: 0 keeps a dimension, -1 takes what is left. */
static void reshape(const struct shape *in, const struct shape *to, struct shape *out)
{
    const Onnx__TensorProto *data = to ? to->data : NULL;
    int64_t dims[RANK_MAX];
    double rest = in && in->known ? numel(in) : 0;
    uint32_t open = RANK_MAX;
    const size_t n = to && to->known && to->rank == 1 ? (size_t)to->dim[0] : 0;
    if (!data || rest <= 0 || n == 0 || n > RANK_MAX)
        return;
    if (data->n_int64_data >= n)
        memcpy(dims, data->int64_data, n * sizeof *dims);
    else if (data->has_raw_data && data->raw_data.len >= n * sizeof *dims)
        memcpy(dims, data->raw_data.data, n * sizeof *dims);
    else
        return;
    out->rank = (uint32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        out->dim[i] = dims[i] > 0 ? (double)dims[i] : dims[i] == 0 && i < in->rank ? in->dim[i] : 1;
        open = dims[i] < 0 ? i : open;
        rest /= fmax(out->dim[i], 1);
    }
    if (open < RANK_MAX)
        out->dim[open] = rest;
    out->element = in->element;
    out->known = true;
}

/* The shape of an operator's first output, where the file does not say it. */
static void infer(struct graph *graph, const Onnx__NodeProto *node, struct shape *out)
{
    const struct shape *in[2] = {NULL, NULL}, *largest = NULL;
    double K, N;
    for (size_t i = 0; i < node->n_input; i++) {
        const struct shape *one = shape_find(graph, node->input[i]);
        if (i < 2)
            in[i] = one;
        if (one && one->known && (!largest || numel(one) > numel(largest)))
            largest = one;
    }
    if (!strcmp(node->op_type, "Reshape")) {
        reshape(in[0], in[1], out);
        return;
    }
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        if (!strcmp(node->op_type, moved[i]))
            return; /* hangs on what the inputs hold */
    if (!strcmp(node->op_type, "MatMul") || !strcmp(node->op_type, "Gemm")) {
        if (!product_of(node, in[0], in[1], &K, &N))
            return;
        const struct shape *wide = in[0]->rank >= in[1]->rank ? in[0] : in[1];
        const char *name = out->name;
        *out = *wide;
        out->name = name;
        out->element = in[0]->element;
        out->data = NULL;
        if (out->rank > 1 && in[0]->rank > 1)
            out->dim[out->rank - 2] =
                in[0]->dim[in[0]->rank - (attribute(node, "transA", 0) ? 1 : 2)];
        out->dim[out->rank - 1] = N;
    } else if (!strcmp(node->op_type, "Conv") && in[0] && in[1] && in[0]->known && in[1]->known &&
               in[0]->rank == in[1]->rank && in[0]->rank > 2) {
        *out = (struct shape){.name = out->name, .rank = in[0]->rank, .element = in[0]->element};
        out->dim[0] = in[0]->dim[0];
        out->dim[1] = in[1]->dim[0];
        const uint32_t space = in[0]->rank - 2;
        for (uint32_t i = 0; i < space; i++) {
            const double stride = (double)attribute_at(node, "strides", i, 1),
                         wide = (double)attribute_at(node, "dilations", i, 1),
                         pad = (double)(attribute_at(node, "pads", i, 0) +
                                        attribute_at(node, "pads", i + space, 0));
            out->dim[i + 2] = fmax(
                floor((in[0]->dim[i + 2] + pad - wide * (in[1]->dim[i + 2] - 1) - 1) / stride) + 1,
                1);
        }
        out->known = true;
    } else if (largest) {
        const char *name = out->name;
        *out = *largest;
        out->name = name;
        out->data = NULL;
        for (uint32_t i = 0; !strcmp(node->op_type, "Transpose") && i < out->rank; i++) {
            const int64_t from = attribute_at(node, "perm", i, out->rank - 1 - i);
            out->dim[i] = from >= 0 && from < out->rank ? largest->dim[from] : 1;
        }
    }
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
        if (!node->op_type || node->n_output == 0 || !strcmp(node->op_type, "Constant"))
            continue;
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
        shape->rank = (uint32_t)tensor->n_dims;
        shape->known = true;
        shape->element = element_bytes(tensor->data_type);
        shape->data = tensor;
        for (uint32_t d = 0; d < shape->rank; d++)
            shape->dim[d] = fmax((double)tensor->dims[d], 0);
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
