/* onnx_test.c - models written through the format's own messages: shapes, costs, damaged files. */
#include "serving/onnx.h"

#include <math.h>
#include <onnx/onnx.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/testing.h"

#define NODES 5

static char path[64];
static struct aw_onnx_settings settings;

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/aw-onnx-XXXXXX");
    settings = (struct aw_onnx_settings){aw_gpu_kind_find("a100"), 64, 0.25};
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void bytes_write(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* tokens x 256 -> MatMul 256 x 1024 -> Relu -> Reshape 0, 4, -1 -> Transpose -> MatMul by itself;
 * returns the packed bytes. `free_rows`: the first dimension has a name. */
static size_t model_pack(bool free_rows, uint8_t **ret)
{
    Onnx__TensorShapeProto__Dimension d[2] = {ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT,
                                              ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT};
    Onnx__TensorShapeProto__Dimension *dims[2] = {&d[0], &d[1]};
    if (free_rows) {
        d[0].dim_param = (char *)(uintptr_t) "tokens";
    } else {
        d[0].has_dim_value = true;
        d[0].dim_value = 8;
    }
    d[1].has_dim_value = true;
    d[1].dim_value = 256;
    Onnx__TensorShapeProto shape = ONNX__TENSOR_SHAPE_PROTO__INIT;
    shape.n_dim = 2;
    shape.dim = dims;
    Onnx__TypeProto__Tensor tensor = ONNX__TYPE_PROTO__TENSOR__INIT;
    tensor.has_elem_type = true;
    tensor.elem_type = 10; /* float16 */
    tensor.shape = &shape;
    Onnx__TypeProto type = ONNX__TYPE_PROTO__INIT;
    type.tensor_type = &tensor;
    Onnx__ValueInfoProto input = ONNX__VALUE_INFO_PROTO__INIT, *inputs[] = {&input};
    input.name = (char *)(uintptr_t) "x";
    input.type = &type;
    int64_t wide[] = {256, 1024}, three[] = {3}, to[] = {0, 4, -1}, perm[] = {1, 0, 2};
    Onnx__TensorProto weight = ONNX__TENSOR_PROTO__INIT, target = ONNX__TENSOR_PROTO__INIT;
    Onnx__TensorProto *weights[] = {&weight, &target};
    weight.name = (char *)(uintptr_t) "w";
    weight.has_data_type = target.has_data_type = true;
    weight.data_type = 10;
    weight.n_dims = 2;
    weight.dims = wide;
    target.name = (char *)(uintptr_t) "to";
    target.data_type = 7;
    target.n_dims = 1;
    target.dims = three;
    target.n_int64_data = 3;
    target.int64_data = to;
    Onnx__AttributeProto turn = ONNX__ATTRIBUTE_PROTO__INIT, *turns[] = {&turn};
    turn.name = (char *)(uintptr_t) "perm";
    turn.n_ints = 3;
    turn.ints = perm;
    static const char *const ops[NODES] = {"MatMul", "Relu", "Reshape", "Transpose", "Gather"};
    static const char *const in[NODES][2] = {
        {"x", "w"}, {"a", NULL}, {"b", "to"}, {"c", NULL}, {"d", "x"}};
    static const char *const out[NODES] = {"a", "b", "c", "d", "e"};
    Onnx__NodeProto node[NODES], *nodes[NODES];
    char *names[NODES][2], *ends[NODES];
    for (int i = 0; i < NODES; i++) {
        node[i] = (Onnx__NodeProto)ONNX__NODE_PROTO__INIT;
        nodes[i] = &node[i];
        node[i].op_type = (char *)(uintptr_t)ops[i];
        names[i][0] = (char *)(uintptr_t)in[i][0];
        names[i][1] = (char *)(uintptr_t)in[i][1];
        ends[i] = (char *)(uintptr_t)out[i];
        node[i].input = names[i];
        node[i].n_input = in[i][1] ? 2 : 1;
        node[i].output = &ends[i];
        node[i].n_output = 1;
    }
    node[3].attribute = turns;
    node[3].n_attribute = 1;
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    graph.name = (char *)(uintptr_t) "made";
    graph.input = inputs;
    graph.n_input = 1;
    graph.initializer = weights;
    graph.n_initializer = 2;
    graph.node = nodes;
    graph.n_node = NODES;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    model.has_ir_version = true;
    model.ir_version = 8;
    model.graph = &graph;
    *ret = aw_alloc_new(NULL, 1, onnx__model_proto__get_packed_size(&model));
    assert_non_null(*ret);
    return onnx__model_proto__pack(&model, *ret);
}

static void shapes_give_bytes_and_flops(void **state)
{
    (void)state;
    for (int free_rows = 0; free_rows < 2; free_rows++) {
        const double rows = free_rows ? 64 : 8;
        struct aw_onnx_model model;
        uint8_t *bytes;
        const size_t size = model_pack(free_rows, &bytes);
        bytes_write(bytes, size);
        aw_alloc_free(NULL, bytes);
        assert_ok(aw_onnx_read(path, &settings, &model, NULL));
        assert_string_equal(model.name, "made");
        assert_int_equal(model.operators, 4);
        assert_int_equal(model.unknown, 1); /* what is gathered hangs on the indices */
        const struct aw_onnx_operator *product = &model.operator[0];
        assert_string_equal(product->type, "MatMul");
        assert_close(product->flops, 2 * rows * 256 * 1024, 1e-6);
        assert_close(product->bytes, 2 * (rows * 256 + 256 * 1024 + rows * 1024), 1e-6);
        assert_close(model.weights_bytes, 2 * 256 * 1024 + 8 * 3, 1e-6);
        for (int i = 1; i < 4; i++) /* none changes how many numbers there are */
            assert_close(model.operator[i].flops, 4 * rows * 1024, 1e-6);
        double sum = 0;
        for (uint32_t i = 0; i < model.operators; i++)
            sum += model.operator[i].time_s;
        assert_close(model.time_s, sum, 1e-12);
        assert_true(model.clusters >= 1 && model.clusters <= 4);
        aw_onnx_deinit(&model);
    }
}

/* `pre` makes y of x, `op` the end of y (of x where there is no `pre`) and w; what is said of
 * attributes is said to both. A `pre` of "Constant" has no input: `op` is of x and y. */
struct graph_case {
    const char *pre, *op;
    int64_t x[4], w[4]; /* up to the first 0 */
    struct {
        const char *name;
        int64_t i, ints[4];
        size_t n;
    } said[4];
    double flops; /* of the last operator; 0: it has no shape */
    int32_t type; /* of w; 0: float */
    double weights;
};

static void case_write(const struct graph_case *of)
{
    Onnx__TensorShapeProto__Dimension d[4], *dims[4];
    Onnx__TensorShapeProto shape = ONNX__TENSOR_SHAPE_PROTO__INIT;
    Onnx__TypeProto__Tensor tensor = ONNX__TYPE_PROTO__TENSOR__INIT;
    Onnx__TypeProto type = ONNX__TYPE_PROTO__INIT;
    Onnx__ValueInfoProto input = ONNX__VALUE_INFO_PROTO__INIT, *inputs[] = {&input};
    Onnx__TensorProto weight = ONNX__TENSOR_PROTO__INIT, *weights[] = {&weight};
    Onnx__AttributeProto attribute[4], *attributes[4];
    Onnx__NodeProto node[2] = {ONNX__NODE_PROTO__INIT, ONNX__NODE_PROTO__INIT}, *nodes[2];
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    const bool constant = of->pre && !strcmp(of->pre, "Constant");
    char x[] = "x", y[] = "y", w[] = "w", z[] = "z", *first[] = {x};
    char *then[] = {of->pre && !constant ? y : x, constant ? y : w}, *ends[] = {y, z};
    for (shape.n_dim = 0; shape.n_dim < 4 && of->x[shape.n_dim]; shape.n_dim++) {
        dims[shape.n_dim] = &d[shape.n_dim];
        d[shape.n_dim] =
            (Onnx__TensorShapeProto__Dimension)ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT;
        d[shape.n_dim].has_dim_value = true;
        d[shape.n_dim].dim_value = of->x[shape.n_dim];
    }
    shape.dim = dims;
    tensor.has_elem_type = true;
    tensor.elem_type = 1;
    tensor.shape = &shape;
    type.tensor_type = &tensor;
    input.name = x;
    input.type = &type;
    weight.name = w;
    weight.has_data_type = true;
    weight.data_type = of->type ? of->type : 1;
    weight.dims = (int64_t *)(uintptr_t)of->w;
    while (weight.n_dims < 4 && of->w[weight.n_dims])
        weight.n_dims++;
    size_t said = 0;
    for (; said < 4 && of->said[said].name; said++) {
        attributes[said] = &attribute[said];
        attribute[said] = (Onnx__AttributeProto)ONNX__ATTRIBUTE_PROTO__INIT;
        attribute[said].name = (char *)(uintptr_t)of->said[said].name;
        attribute[said].has_i = !of->said[said].n;
        attribute[said].i = of->said[said].i;
        attribute[said].n_ints = of->said[said].n;
        attribute[said].ints = (int64_t *)(uintptr_t)of->said[said].ints;
    }
    for (size_t i = 0; i < 2; i++) {
        nodes[i] = &node[i];
        node[i].op_type = (char *)(uintptr_t)(i ? of->op : of->pre);
        node[i].input = i ? then : first;
        node[i].n_input = i ? 1 + (constant || weight.n_dims) : !constant;
        node[i].output = &ends[i];
        node[i].n_output = 1;
        node[i].attribute = attributes;
        node[i].n_attribute = said;
    }
    graph.input = inputs;
    graph.n_input = 1;
    graph.initializer = weights;
    graph.n_initializer = weight.n_dims > 0;
    graph.node = of->pre ? nodes : nodes + 1;
    graph.n_node = of->pre ? 2 : 1;
    model.has_ir_version = true;
    model.ir_version = 8;
    model.graph = &graph;
    uint8_t *bytes = aw_alloc_new(NULL, 1, onnx__model_proto__get_packed_size(&model));
    assert_non_null(bytes);
    bytes_write(bytes, onnx__model_proto__pack(&model, bytes));
    aw_alloc_free(NULL, bytes);
}

static void a_shape_is_right_or_unknown(void **state)
{
    static const struct graph_case cases[] = {
        {.op = "MaxPool",
         .x = {1, 64, 112, 112},
         .said = {{"kernel_shape", 0, {3, 3}, 2},
                  {"strides", 0, {2, 2}, 2},
                  {"pads", 0, {1, 1, 1, 1}, 4}},
         .flops = 4 * 64 * 56 * 56},
        {.op = "AveragePool",
         .x = {1, 8, 10, 10},
         .said = {{"kernel_shape", 0, {2, 2}, 2},
                  {"strides", 0, {3, 3}, 2},
                  {"ceil_mode", 1, {0}, 0}},
         .flops = 4 * 8 * 4 * 4},
        {.op = "MaxPool", .x = {1, 8, 10, 10}}, /* of no size */
        {.op = "MaxPool",
         .x = {1, 8, 10, 10},
         .said = {{"kernel_shape", 0, {2, 2}, 2}, {"strides", 0, {0, 0}, 2}}},
        {.op = "GlobalAveragePool", .x = {2, 64, 7, 7}, .flops = 4 * 128},
        {.op = "ReduceMean",
         .x = {2, 3, 4},
         .said = {{"axes", 0, {-2}, 1}, {"keepdims", 0, {0}, 0}},
         .flops = 4 * 8},
        {.op = "ReduceSum", .x = {2, 3, 4}, .flops = 4},
        {.op = "ReduceSum", .x = {2, 3, 4}, .w = {1}}, /* which axes is not said in the file */
        {.op = "ReduceSum", .x = {2, 3, 4}, .said = {{"axes", 0, {3}, 1}}},
        {.op = "ArgMax", .x = {2, 3, 4}, .said = {{"axis", 2, {0}, 0}}, .flops = 4 * 6},
        {.op = "TopK", .x = {2, 3, 4}},
        {.op = "ConvTranspose", .x = {1, 4, 8, 8}, .w = {4, 2, 3, 3}},
        {.pre = "TopK", .op = "Add", .x = {2, 3, 4}, .w = {4}},
        {.pre = "Constant", .op = "Add", .x = {2, 3, 4}, .flops = 4 * 24},
        {.op = "Add", .x = {8, 1}, .w = {1, 5}, .flops = 4 * 40},
        {.op = "Add", .x = {8, 2}, .w = {1, 5}},
        {.op = "MatMul", .x = {256}, .w = {256, 8}, .flops = 2 * 256 * 8},
        {.op = "MatMul", .x = {3, 4, 256}, .w = {256}, .flops = 2 * 256 * 12},
        {.pre = "Flatten",
         .op = "Gemm",
         .x = {2, 3, 4},
         .w = {4, 5},
         .said = {{"axis", 2, {0}, 0}},
         .flops = 2 * 6 * 5 * 4},
        {.pre = "Unsqueeze",
         .op = "GlobalAveragePool",
         .x = {3, 4},
         .said = {{"axes", 0, {0, -1}, 2}},
         .flops = 4 * 3},
        {.op = "Conv",
         .x = {1, 2, 9, 9},
         .w = {6, 2, 3, 3},
         .said = {{"strides", 0, {2, 2}, 2}},
         .flops = 2.0 * 6 * 16 * 18},
        {.op = "Conv", /* pads do not overflow */
         .x = {1, 1, 4, 1},
         .w = {1, 1, 1, 1},
         .said = {{"pads", 0, {INT64_MAX, 0, INT64_MAX, 0}, 4}},
         .flops = 2 * 0x1p64},
        {.op = "MatMul", .x = {2, 8}, .w = {8, 3}, .flops = 96, .type = 17, .weights = 24},
        {.op = "MatMul", .x = {2, 8}, .w = {8, 3}, .flops = 96, .type = 22, .weights = 12},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_onnx_model model;
        case_write(&cases[i]);
        const enum aw_err err = aw_onnx_read(path, &settings, &model, NULL);
        print_message("%s of %s\n", cases[i].op, cases[i].pre ? cases[i].pre : "x");
        assert_int_equal(err, cases[i].flops > 0 ? AW_OK : AW_ERR_NODATA);
        if (err)
            continue;
        assert_int_equal(model.unknown, 0);
        assert_close(model.operator[model.operators - 1].flops, cases[i].flops, 1e-6);
        if (cases[i].weights > 0)
            assert_close(model.weights_bytes, cases[i].weights, 1e-9);
        aw_onnx_deinit(&model);
    }
}

/* A large product hangs on the clock, streaming hardly does. */
static void the_law_tells_core_from_memory(void **state)
{
    (void)state;
    const struct aw_gpu_kind *kind = settings.kind;
    const double stream = aw_onnx_time(kind, 1e10, 1e6, 0.5) / aw_onnx_time(kind, 1e10, 1e6, 1),
                 core = aw_onnx_time(kind, 1e6, 1e14, 0.5) / aw_onnx_time(kind, 1e6, 1e14, 1);
    assert_close(stream, 1.18, 0.01);
    assert_close(core, 2, 0.01);
    assert_true(aw_onnx_time(kind, 0, 0, 1) > 0); /* a launch */
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    struct aw_onnx_model model;
    struct aw_diag diag = {0};
    uint8_t *bytes;
    const size_t size = model_pack(false, &bytes);
    bytes_write("stage,instruction\n", 18);
    assert_int_equal(aw_onnx_read(path, &settings, &model, &diag), AW_ERR_FORMAT);
    for (size_t i = 1; i < size; i++) { /* cut short, and each byte another */
        bytes_write(bytes, i);
        if (!aw_onnx_read(path, &settings, &model, NULL))
            aw_onnx_deinit(&model);
        bytes[i] ^= 0x55;
        bytes_write(bytes, size);
        if (!aw_onnx_read(path, &settings, &model, NULL)) {
            assert_true(isfinite(model.time_s));
            aw_onnx_deinit(&model);
        }
        bytes[i] ^= 0x55;
    }
    aw_alloc_free(NULL, bytes);
}

AW_TEST_GROUP("serving-onnx")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shapes_give_bytes_and_flops, setup, teardown),
        cmocka_unit_test_setup_teardown(a_shape_is_right_or_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(the_law_tells_core_from_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_files_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
