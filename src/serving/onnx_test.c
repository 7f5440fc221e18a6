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
        cmocka_unit_test_setup_teardown(the_law_tells_core_from_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_files_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
