/*
 * fuzz_graph.c - any text as the program of a service: refused in one line, or an application whose
 * requests run through it.
 */
#include "fuzz_tree.h"

#include "graph/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct aw_graph_app app;
    struct aw_graph_world *world = NULL;
    struct aw_diag diag = {0};
    char text[AW_GRAPH_PROGRAM_MAX];
    uint32_t service;
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    aw_graph_app_init(&app, "fuzz", 50);
    enum aw_err err = aw_graph_app_service(&app, "a", AW_GRAPH_LOGIC, &service, &diag);
    if (!err)
        err = aw_graph_app_op(&app, service, "", 1, text, &diag);
    if (!err)
        err = aw_graph_app_service(&app, "b", AW_GRAPH_STORE, &service, &diag);
    if (!err)
        err = aw_graph_app_op(&app, service, "", 1, "", &diag);
    if (!err)
        err = aw_graph_app_op(&app, service, "w", 1, "", &diag);
    if (!err)
        err = aw_graph_app_type(&app, "get", "a", 1, 10, &diag);
    if (!err)
        err = aw_graph_app_finish(&app, &diag);
    if (err) {
        AW_ASSERT(diag.text[0]);
        return 0;
    }
    if (aw_graph_world_new(&app, &(struct aw_graph_config){.seed = 1, .traced = 1}, NULL, &world))
        return 0;
    aw_graph_world_run(world, AW_GRAPH_S_NS / 10);
    aw_graph_world_free(world);
    return 0;
}
