/* graph_mesh_test.c - a graph of services as real processes: CPU contention in one of them is found
 * and mended, what was given is taken back, and nothing is left. */
#include <dirent.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/testing.h"
#include "daemon/graph_run.h"
#include "firm/score.h"

#define WARM_STEPS  36u /* steps until what is usual is known */
#define FAULT_STEPS 80u /* in which it has to be mended */
#define BACK_STEPS  90u /* after it, in which what was given goes back */
#define BACK_SHARE  0.9 /* peaks of use fade slowly: it goes back bit by bit */
#define VICTIM      "cart"
#define FROM_CORES  0.25
#define STRESS      0.8 /* cores, in a group that has a quarter of one */

static const char graph[] =
    "kind: ServiceGraph\n"
    "name: small-shop\n"
    "rate: 25/s\n"
    "services:\n"
    "- {name: front, class: web, cpu: 1ms, limits: {cpu: 300m}, calls: \"auth, par(cart, "
    "stock)\"}\n"
    "- {name: auth, cpu: 1ms, limits: {cpu: 250m}}\n"
    "- {name: cart, cpu: 1.5ms, limits: {cpu: 250m}, calls: \"cart-db\"}\n"
    "- {name: cart-db, class: store, cpu: 1ms, limits: {cpu: 250m, disk: 8M, network: 1M}}\n"
    "- {name: stock, class: cache, cpu: 1ms, limits: {cpu: 250m}, calls: \"async(mail)\"}\n"
    "- {name: mail, cpu: 1ms, limits: {cpu: 250m}}\n"
    "requests:\n"
    "- {name: order, entry: front, slo: 300ms}\n";

struct place {
    char folder[64], graph[96], run_dir[96];
    struct aw_graph_app app;
    struct aw_local_settings cluster;
    struct aw_mesh *mesh;
    struct aw_graph_run *run;
};

static bool program_is_there(void)
{
    char path[4096];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path - 32);
    assert_true(len > 0);
    path[len] = '\0';
    snprintf(strrchr(path, '/') + 1, 32, "aware-workload");
    return access(path, X_OK) == 0;
}

/* False: not here, and it has been said why. */
static bool place_open(struct place *place)
{
    struct aw_diag diag = {0};
    *place = (struct place){.folder = "/tmp/aware-mesh-XXXXXX"};
    if (!program_is_there()) {
        print_message("skipped: aware-workload has not been built\n");
        return false;
    }
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->graph, sizeof place->graph, "%s/graph.yaml", place->folder);
    snprintf(place->run_dir, sizeof place->run_dir, "%s/run", place->folder);
    FILE *file = fopen(place->graph, "we");
    assert_non_null(file);
    assert_true(fputs(graph, file) >= 0 && fclose(file) == 0);
    assert_ok(aw_graph_app_read(place->graph, &place->app, NULL));
    aw_mesh_fit(&place->app);
    aw_conf_defaults(aw_local_fields, &place->cluster);
    snprintf(place->cluster.run_dir, sizeof place->cluster.run_dir, "%s", place->run_dir);
    place->cluster.drain_s = 1;
    place->cluster.stop_s = 1;
    const struct aw_mesh_config config = {
        .app = &place->app, .graph = place->graph, .cluster = &place->cluster, .seed = 1};
    enum aw_err err = aw_mesh_open(&place->mesh, &config, &diag);
    if (err == AW_ERR_UNSUPPORTED) {
        print_message("skipped: %s\n", diag.text);
        unlink(place->graph);
        return false;
    }
    err = err ? err : aw_mesh_ready(place->mesh, NULL, &diag);
    err = err ? err : aw_mesh_load_begin(place->mesh, &diag);
    if (err)
        fail_msg("%s", diag.text);
    struct aw_graph_run_config run = {
        .app = &place->app, .mesh = place->mesh, .kind = AW_FIRM_RULE, .version = "test"};
    snprintf(run.state, sizeof run.state, "%s/state", place->folder);
    if (aw_graph_run_open(&place->run, &run, &diag))
        fail_msg("%s", diag.text);
    return true;
}

static uint32_t entries(const char *path)
{
    DIR *dir = opendir(path);
    uint32_t count = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void place_close(struct place *place)
{
    aw_graph_run_close(place->run, "the end of the test");
    aw_mesh_close(place->mesh);
    assert_int_equal(entries(place->run_dir), 1); /* the lock of all runs */
    assert_int_equal(nftw(place->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void step(struct place *place, struct aw_graph_run_step *ret)
{
    struct aw_diag diag = {0};
    if (aw_graph_run_step(place->run, ret, &diag))
        fail_msg("%s", diag.text);
}

/* What the kernel has, in cores. */
static double limit_of(struct place *place, uint32_t service)
{
    int64_t cpu = -1, disk = -1;
    /* workloads are numbered as they were started: callees first */
    for (uint32_t w = 0; w < place->app.service_count; w++)
        if (aw_local_port(aw_mesh_local(place->mesh), w) == aw_mesh_port(place->mesh, service))
            assert_ok(aw_local_limits(aw_mesh_local(place->mesh), w, 0, &cpu, &disk));
    return 1e-3 * (double)cpu;
}

static void cpu_contention_in_a_service_is_found_and_mended_and_taken_back(void **state)
{
    struct place place;
    struct aw_graph_run_step at;
    (void)state;
    if (!place_open(&place))
        skip();
    const uint32_t victim = aw_graph_service_find(&place.app, VICTIM);
    const struct aw_graph_plant plant = aw_mesh_plant(place.mesh);
    const struct aw_graph_stress none = {{0}, 0, 0};
    struct aw_graph_stress stress = {{0}, 0, 0};
    stress.amount[AW_GRAPH_CPU] = STRESS;
    uint32_t held = 0, requests = 0;
    for (uint32_t n = 0; n < WARM_STEPS || held < 2; n++) {
        step(&place, &at);
        held = at.sight->missed ? 0 : held + 1;
        requests += at.requests;
        assert_true(n < 4 * WARM_STEPS);
    }
    assert_true(requests > 100);
    assert_true(at.sight->has_baseline);
    assert_true(limit_of(&place, victim) <= FROM_CORES + 0.001);

    assert_ok(plant.ops->stress(plant.self, victim, &stress));
    bool missed = false, given = false;
    double most = 0;
    held = 0;
    for (uint32_t n = 0; n < FAULT_STEPS && !(given && held >= 2); n++) {
        step(&place, &at);
        missed = missed || at.sight->missed;
        held = at.sight->missed ? 0 : held + 1;
        for (uint64_t i = at.orders_before; i < at.desk->order_count; i++) {
            const struct aw_firm_order *order = &at.desk->order[i % AW_FIRM_ORDERS_MAX];
            given = given || (order->service == victim && order->resource == AW_GRAPH_CPU &&
                              order->kind == AW_FIRM_LIMIT && order->to > 2 * order->from);
        }
        most = fmax(most, limit_of(&place, victim));
    }
    assert_true(missed); /* else there was nothing to mend */
    assert_true(given);
    assert_true(held >= 2);
    assert_true(most > 2 * FROM_CORES); /* the kernel has it */

    assert_ok(plant.ops->stress(plant.self, victim, &none));
    double least = most;
    for (uint32_t n = 0; n < BACK_STEPS && least > BACK_SHARE * most; n++) {
        step(&place, &at);
        least = fmin(least, limit_of(&place, victim));
    }
    assert_true(least <= BACK_SHARE * most);
    place_close(&place);
}

static void what_this_machine_cannot_do_is_refused_with_the_reason(void **state)
{
    struct place place;
    (void)state;
    if (!place_open(&place))
        skip();
    const struct aw_graph_plant plant = aw_mesh_plant(place.mesh);
    const struct aw_mesh_actuators *can = aw_mesh_actuators(place.mesh);
    const struct aw_graph_stress delay = {{0}, 1000, 0};
    assert_int_equal(plant.ops->stress(plant.self, 0, &delay), AW_ERR_UNSUPPORTED);
    assert_true(*aw_mesh_trouble(place.mesh) != '\0');
    assert_int_equal(plant.ops->scale(plant.self, 0, 1, true), AW_ERR_UNSUPPORTED);
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        const struct aw_graph_service *its = &place.app.services[0];
        const enum aw_err err =
            plant.ops->limit(plant.self, 0, (enum aw_graph_resource)r, its->limit[r]);
        assert_int_equal(err, *can->why[r] ? AW_ERR_UNSUPPORTED : AW_OK);
        assert_int_equal(
            plant.ops->limit(plant.self, 0, (enum aw_graph_resource)r, 2 * its->high[r]),
            AW_ERR_RANGE);
    }
    assert_true(*can->why[AW_GRAPH_CPU] == '\0'); /* or the place would not have opened */
    place_close(&place);
}

AW_TEST_GROUP("graph-mesh")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_contention_in_a_service_is_found_and_mended_and_taken_back),
        cmocka_unit_test(what_this_machine_cannot_do_is_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
