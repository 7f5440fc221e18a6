/*
 * kube_test.c - pods and figures made by hand, and what a sample makes of them: missing is missing,
 * and what is wanted is what was asked only as long as somebody may still do it.
 */
#include "controller/kube_cluster.h"

#include "base/testing.h"
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define T0    INT64_C(1769860800000000) /* 2026-01-31T12:00:00Z */
#define S     INT64_C(1000000)
#define PODS  8u
#define BYTES 4096u

/* One pod as the API would show it. */
struct made {
    const char *uid, *phase, *node, *container, *waiting, *ended;
    const char *cpu, *cpu_limit, *memory; /* NULL: not said */
    bool not_ready, deleting;
    int restarts, ended_s; /* ended_s: seconds after T0 */
    int created_s;         /* after T0; may be negative */
    double cores, bytes;   /* used; NAN or 0: cores missing */
    int age_s;             /* of what was measured */
    int ready_s;           /* when it became ready, after T0 */
};

struct world {
    struct aw_clock_virtual clock;
    struct aw_kubecluster *cluster;
    struct aw_cluster ops;
    struct aw_kubecluster_pod pods[PODS];
    _Alignas(8) char bytes[PODS][BYTES];
    char uids[PODS][32];
    struct aw_kubecluster_view view;
    enum aw_err err;
};

static enum aw_err look(void *ctx, uint32_t workload, struct aw_kubecluster_view *ret)
{
    struct world *w = ctx;
    assert_int_equal(workload, 3);
    if (!w->err)
        *ret = w->view;
    return w->err;
}

static const struct aw_kube_figure no_figure = {.at_us = AW_KUBE_NEVER};

static struct aw_kube_figure figure(const struct world *w, double value, int age_s)
{
    return (struct aw_kube_figure){
        .value = value, .at_us = w->clock.wall_us - age_s * S, .pods = 0};
}

static void begin(struct world *w, bool in_place)
{
    const struct aw_kubecluster_place place = {
        .cpu_millicores = 4000, .memory_bytes = 4096 * AW_MIB, .container = "*"};
    *w = (struct world){.err = AW_OK};
    aw_clock_virtual_init(&w->clock, T0 + 3600 * S);
    struct aw_kubecluster_config config = {.source = {w, look},
                                           .clock = &w->clock.clock,
                                           .workloads_max = 4,
                                           .pods_max = 64,
                                           .in_place = in_place};
    assert_ok(aw_kubecluster_new(&config, NULL, &w->cluster, NULL));
    w->ops = aw_kubecluster_cluster(w->cluster);
    aw_kubecluster_bind(w->cluster, 3, &place);
    w->view.replicas_wanted = 2;
    struct aw_kube_workload_metrics *m = &w->view.service;
    m->requests_per_s = m->errors_per_s = m->in_flight = no_figure;
    m->latency_us_mean = m->latency_us_p50 = m->latency_us_p95 = m->latency_us_p99 = no_figure;
}

static void end(struct world *w)
{
    w->ops.ops->free(w->ops.self);
}

static json_t *pod_json(const struct made *made)
{
    char created[AW_KUBE_TIME_MAX], ended[AW_KUBE_TIME_MAX];
    aw_kube_time_print(T0 + made->created_s * S, created, sizeof created);
    aw_kube_time_print(T0 + made->ended_s * S, ended, sizeof ended);
    const char *name = made->container ? made->container : "web";
    json_t *requests = json_object(), *limits = json_object(), *last = json_object();
    if (made->cpu)
        json_object_set_new(requests, "cpu", json_string(made->cpu));
    if (made->memory)
        json_object_set_new(requests, "memory", json_string(made->memory));
    if (made->cpu_limit)
        json_object_set_new(limits, "cpu", json_string(made->cpu_limit));
    if (made->ended)
        json_object_set_new(last, "terminated",
                            json_pack("{s:s,s:s}", "reason", made->ended, "finishedAt", ended));
    json_t *pod = json_pack(
        "{s:{s:s,s:s,s:s},s:{s:s,s:[{s:s,s:{s:o,s:o}}]},"
        "s:{s:s,s:[{s:s,s:s}],s:[{s:s,s:i,s:b,s:o,s:o}]}}",
        "metadata", "name", made->uid, "namespace", "shop", "creationTimestamp", created, "spec",
        "nodeName", made->node ? made->node : "n1", "containers", "name", name, "resources",
        "requests", requests, "limits", limits, "status", "phase",
        made->phase ? made->phase : "Running", "conditions", "type", "Ready", "status",
        made->not_ready ? "False" : "True", "containerStatuses", "name", name, "restartCount",
        made->restarts, "ready", !made->not_ready, "lastState", last, "state",
        made->waiting ? json_pack("{s:{s:s}}", "waiting", "reason", made->waiting)
                      : json_pack("{s:{}}", "running"));
    assert_non_null(pod);
    if (made->deleting)
        json_object_set_new(json_object_get(pod, "metadata"), "deletionTimestamp",
                            json_string(created));
    return pod;
}

static void put(struct world *w, const struct made *made, uint32_t count)
{
    assert_true(count <= PODS);
    for (uint32_t i = 0; i < count; i++) {
        size_t len = 0;
        json_t *object = pod_json(&made[i]);
        assert_ok(aw_kube_project_pod(NULL, object, w->bytes[i], BYTES, &len));
        json_decref(object);
        snprintf(w->uids[i], sizeof w->uids[i], "%s", made[i].uid);
        w->pods[i] = (struct aw_kubecluster_pod){
            .uid = w->uids[i],
            .pod = (const struct aw_kube_pod *)(const void *)w->bytes[i],
            .started_us = T0 + made[i].created_s * S,
            .ready_change_us = T0 + made[i].ready_s * S,
            .used = {.cpu_cores = no_figure,
                     .memory_bytes = no_figure,
                     .throttled_share = no_figure},
        };
        if (made[i].cores != 0) {
            w->pods[i].used.cpu_cores = figure(w, made[i].cores, made[i].age_s);
            w->pods[i].used.memory_bytes = figure(w, made[i].bytes, made[i].age_s);
        }
    }
    w->view.pods = w->pods;
    w->view.pod_count = count;
}

static struct aw_sample seen(struct world *w)
{
    struct aw_sample sample;
    assert_ok(w->ops.ops->observe(w->ops.self, 3, INT64_MAX, &sample));
    assert_int_equal(sample.replicas_ready + sample.replicas_pending + sample.replicas_starting,
                     sample.pod_count);
    return sample;
}

static void asked(struct world *w, struct aw_plan plan)
{
    assert_ok(w->ops.ops->apply(w->ops.self, 3, &plan, INT64_MAX));
}

static void pass_s(struct world *w, int64_t seconds)
{
    aw_clock_virtual_advance(&w->clock, seconds * S);
}

#define PLAIN(name) .uid = name, .cpu = "500m", .memory = "512Mi"

/* --- one pod ---------------------------------------------------------------------------------- */

static void a_pod_counts_by_what_has_become_of_it(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        struct made pod;
        uint32_t ready, pending, starting;
        enum aw_pod_phase phase;
    } cases[] = {
        {"it serves", {PLAIN("a")}, 1, 0, 0, AW_POD_RUNNING},
        {"no node has room",
         {PLAIN("a"), .phase = "Pending", .node = "", .not_ready = true, .waiting = "x"},
         0,
         1,
         0,
         AW_POD_PENDING},
        {"its image is pulled",
         {PLAIN("a"), .phase = "Pending", .not_ready = true, .waiting = "ContainerCreating"},
         0,
         0,
         1,
         AW_POD_STARTING},
        {"it crashes again and again",
         {PLAIN("a"), .not_ready = true, .waiting = "CrashLoopBackOff"},
         0,
         0,
         1,
         AW_POD_STARTING},
        {"it runs and is not ready", {PLAIN("a"), .not_ready = true}, 0, 0, 1, AW_POD_RUNNING},
        {"a probe says ready, the phase does not",
         {PLAIN("a"), .phase = "Unknown"},
         0,
         0,
         1,
         AW_POD_STARTING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        begin(&w, false);
        put(&w, &cases[i].pod, 1);
        const struct aw_sample s = seen(&w);
        if (s.pod_count != 1 || s.replicas_ready != cases[i].ready ||
            s.replicas_pending != cases[i].pending || s.replicas_starting != cases[i].starting ||
            s.pods[0].phase != cases[i].phase)
            fail_msg("%s: %u ready, %u pending, %u starting, phase %d", cases[i].why,
                     s.replicas_ready, s.replicas_pending, s.replicas_starting, s.pods[0].phase);
        assert_true(!s.pods[0].ready || s.pods[0].started_us != AW_NEVER);
        end(&w);
    }
}

static void what_ended_or_is_being_deleted_is_no_replica(void **state)
{
    (void)state;
    const struct made pods[] = {{PLAIN("a")},
                                {PLAIN("b"), .deleting = true},
                                {PLAIN("c"), .phase = "Failed"},
                                {PLAIN("d"), .phase = "Succeeded"}};
    struct world w;
    begin(&w, false);
    put(&w, pods, 4);
    const struct aw_sample s = seen(&w);
    assert_int_equal(s.pod_count, 1);
    assert_int_equal(s.replicas_wanted, 2);
    end(&w);
}

static void the_size_is_the_request_then_the_limit_then_the_most_there_may_be(void **state)
{
    (void)state;
    static const struct {
        const char *cpu, *limit;
        int64_t millicores;
    } cases[] = {{"500m", "2", 500}, {NULL, "2", 2000}, {NULL, NULL, 4000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        const struct made pod = {.uid = "a", .cpu = cases[i].cpu, .cpu_limit = cases[i].limit};
        begin(&w, false);
        put(&w, &pod, 1);
        const struct aw_sample s = seen(&w);
        assert_int_equal(s.cpu_millicores_wanted, cases[i].millicores);
        assert_int_equal(s.pods[0].cpu_millicores, cases[i].millicores);
        assert_int_equal(s.memory_bytes_wanted, 4096 * AW_MIB);
        end(&w);
    }
}

static void a_named_container_is_the_one_that_is_sized(void **state)
{
    (void)state;
    struct world w;
    struct aw_kubecluster_meant meant;
    const struct made pod = {PLAIN("a"), .container = "proxy"};
    const struct aw_kubecluster_place place = {
        .cpu_millicores = 4000, .memory_bytes = 4096 * AW_MIB, .container = "app"};
    begin(&w, false);
    put(&w, &pod, 1);
    assert_int_equal(seen(&w).cpu_millicores_wanted, 500);
    assert_ok(aw_kubecluster_meant(w.cluster, 3, &meant));
    assert_string_equal(meant.container, "proxy");
    aw_kubecluster_bind(w.cluster, 3, &place); /* the pod has no such container */
    assert_int_equal(seen(&w).cpu_millicores_wanted, 4000);
    end(&w);
}

/* --- figures ---------------------------------------------------------------------------------- */

static void figures_of_all_replicas_are_summed_with_the_oldest_time(void **state)
{
    (void)state;
    struct world w;
    begin(&w, false);
    const struct made pods[] = {
        {PLAIN("a"), .cores = 0.2, .bytes = 100e6, .age_s = 10},
        {PLAIN("b"), .cores = 0.4, .bytes = 300e6, .age_s = 40},
        {PLAIN("c"), .cores = 9.9, .bytes = 900e6, .not_ready = true},
    };
    put(&w, pods, 3);
    w.view.service.requests_per_s = figure(&w, 50, 20);
    w.view.service.errors_per_s = figure(&w, 2, 20);
    w.view.service.latency_us_p99 = figure(&w, 81000, 20);
    const struct aw_sample s = seen(&w);
    assert_close(s.cpu_cores_used.value, 0.6, 1e-9);
    assert_int_equal(s.cpu_cores_used.at_us, s.at_us - 40 * S);
    assert_close(s.memory_bytes_used.value, 200e6, 1e-9);
    assert_close(s.memory_bytes_peak.value, 300e6, 1e-9);
    assert_close(s.arrivals_per_s.value, 50, 1e-9);
    assert_close(s.completions_per_s.value, 48, 1e-9);
    assert_close(s.latency_us_p99.value, 81000, 1e-9);
    assert_int_equal(s.latency_us_p50.at_us, AW_NEVER);
    assert_int_equal(s.throttled_share.at_us, AW_NEVER);
    assert_int_equal(s.net_bytes_per_s.at_us, AW_NEVER);
    assert_int_equal(s.disk_bytes_per_s.at_us, AW_NEVER);
    end(&w);
}

/* Our clock is three hours behind that of the nodes. */
static void a_start_in_the_future_is_no_reason_to_doubt_a_replica(void **state)
{
    struct world w;
    struct aw_sample sample;
    const struct made pods[] = {
        {.uid = "a", .created_s = 4 * 3600, .ready_s = 4 * 3600, .cpu = "1", .cores = 0.5},
        {.uid = "b", .created_s = 3610, .ready_s = 3620, .cpu = "1", .cores = 0.5},
    };
    (void)state;
    begin(&w, true);
    put(&w, pods, 2);
    assert_ok(w.ops.ops->observe(w.ops.self, 3, INT64_MAX, &sample));
    assert_int_equal(sample.pods[0].started_us, 1); /* as long ago as anything */
    assert_int_equal(sample.pods[0].ready_change_us, 1);
    assert_int_equal(sample.pods[1].ready_change_us,
                     T0 + 3620 * S); /* seconds are what clocks do */
    end(&w);
}

static void a_silent_replica_makes_the_sum_missing_unless_it_is_young(void **state)
{
    (void)state;
    struct world w;
    struct made pods[] = {{PLAIN("a"), .cores = 0.2, .bytes = 1e8},
                          {PLAIN("b"), .cores = 0.4, .bytes = 1e8},
                          {PLAIN("c"), .ready_s = 3600 - 30}};
    begin(&w, false);
    put(&w, pods, 3);
    assert_close(seen(&w).cpu_cores_used.value, 0.9, 1e-9); /* as busy as the others */
    pods[2].ready_s = 0;
    put(&w, pods, 3);
    assert_int_equal(seen(&w).cpu_cores_used.at_us, AW_NEVER);
    assert_int_equal(seen(&w).memory_bytes_used.at_us, AW_NEVER);
    assert_int_equal(seen(&w).memory_bytes_peak.at_us, AW_NEVER);
    end(&w);
}

static void requests_counted_by_too_few_replicas_are_missing(void **state)
{
    (void)state;
    struct world w;
    const struct made pods[] = {{PLAIN("a")}, {PLAIN("b")}};
    begin(&w, false);
    put(&w, pods, 2);
    w.view.service.requests_per_s = figure(&w, 50, 0);
    w.view.service.requests_per_s.pods = 1;
    assert_int_equal(seen(&w).arrivals_per_s.at_us, AW_NEVER);
    w.view.service.requests_per_s.pods = 2;
    assert_close(seen(&w).arrivals_per_s.value, 50, 1e-9);
    w.view.service.requests_per_s.pods = 0; /* a mesh's */
    assert_close(seen(&w).arrivals_per_s.value, 50, 1e-9);
    end(&w);
}

static void what_is_no_figure_is_missing(void **state)
{
    (void)state;
    static const double values[] = {NAN, INFINITY, -1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct world w;
        const struct made pod = {PLAIN("a"), .cores = values[i], .bytes = values[i]};
        begin(&w, false);
        put(&w, &pod, 1);
        w.view.service.requests_per_s = figure(&w, values[i], 0);
        const struct aw_sample s = seen(&w);
        assert_int_equal(s.cpu_cores_used.at_us, AW_NEVER);
        assert_int_equal(s.pods[0].memory_bytes_used.at_us, AW_NEVER);
        assert_int_equal(s.arrivals_per_s.at_us, AW_NEVER);
        assert_true(s.cpu_cores_used.value == 0 && s.arrivals_per_s.value == 0);
        end(&w);
    }
}

static void a_copy_that_cannot_be_believed_gives_no_sample(void **state)
{
    (void)state;
    struct world w;
    struct aw_sample sample = {.at_us = 7};
    begin(&w, false);
    w.err = AW_ERR_UNAVAILABLE;
    assert_int_equal(w.ops.ops->observe(w.ops.self, 3, 0, &sample), AW_ERR_UNAVAILABLE);
    w.err = AW_OK; /* no pod was ever seen: nobody knows a size */
    assert_int_equal(w.ops.ops->observe(w.ops.self, 3, 0, &sample), AW_ERR_NODATA);
    assert_int_equal(w.ops.ops->observe(w.ops.self, 0, 0, &sample), AW_ERR_NODATA);
    assert_int_equal(sample.at_us, 7);
    end(&w);
}

static void a_workload_without_pods_keeps_the_size_it_had(void **state)
{
    (void)state;
    struct world w;
    const struct made pod = {PLAIN("a")};
    begin(&w, false);
    put(&w, &pod, 1);
    seen(&w);
    put(&w, &pod, 0);
    w.view.replicas_wanted = 0;
    const struct aw_sample s = seen(&w);
    assert_int_equal(s.pod_count, 0);
    assert_int_equal(s.replicas_wanted, 0);
    assert_int_equal(s.cpu_millicores_wanted, 500);
    assert_int_equal(s.cpu_cores_used.at_us, AW_NEVER);
    end(&w);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void restarts_and_kills_are_those_since_the_last_look(void **state)
{
    (void)state;
    struct world w;
    struct made pods[] = {{PLAIN("a"), .restarts = 5, .ended = "OOMKilled", .ended_s = 10},
                          {PLAIN("b"), .restarts = 2, .ended = "OOMKilled", .ended_s = 3620}};
    begin(&w, false);
    put(&w, pods, 1);
    struct aw_sample s = seen(&w); /* what was before the program began is not news */
    assert_int_equal(s.restarts, 0);
    assert_int_equal(s.oom_kills, 0);
    const uint32_t id = s.pods[0].id;

    pods[0].restarts = 6;
    pods[0].ended_s = 3610;
    put(&w, pods, 1);
    s = seen(&w);
    assert_int_equal(s.restarts, 1);
    assert_int_equal(s.oom_kills, 1);
    assert_int_equal(s.pods[0].restart_count, 6);
    assert_int_equal(s.pods[0].id, id);
    s = seen(&w);
    assert_int_equal(s.restarts + s.oom_kills, 0);

    put(&w, pods, 2); /* a pod that came since has no past but this */
    s = seen(&w);
    assert_int_equal(s.restarts, 2);
    assert_int_equal(s.oom_kills, 1);
    assert_int_not_equal(s.pods[1].id, id);

    pods[0].ended = "Error";
    pods[0].restarts = 7;
    pods[0].ended_s = 3700;
    put(&w, pods, 2);
    s = seen(&w);
    assert_int_equal(s.restarts, 1);
    assert_int_equal(s.oom_kills, 0);
    end(&w);
}

static void pods_are_known_over_tidying_and_forgotten_when_they_are_gone(void **state)
{
    (void)state;
    struct world w;
    const struct made a = {PLAIN("a"), .restarts = 3};
    begin(&w, false);
    put(&w, &a, 1);
    const uint32_t id = seen(&w).pods[0].id;
    aw_kubecluster_tidy(w.cluster);
    assert_int_equal(seen(&w).pods[0].id, id);
    for (uint32_t i = 0; i < 1000; i++) { /* far more pods than there is room for at once */
        char uid[16];
        snprintf(uid, sizeof uid, "p%u", i);
        const struct made pod = {PLAIN(uid)};
        put(&w, &pod, 1);
        assert_true(seen(&w).pods[0].id != id);
        pass_s(&w, 60);
        aw_kubecluster_tidy(w.cluster);
    }
    put(&w, &a, 1);
    assert_true(seen(&w).pods[0].id != id);
    end(&w);
}

/* --- what is wanted --------------------------------------------------------------------------- */

static void what_was_asked_is_wanted_until_it_is_there(void **state)
{
    (void)state;
    struct world w;
    struct aw_kubecluster_meant meant;
    const struct made pods[] = {{PLAIN("a")}, {PLAIN("b")}};
    begin(&w, false);
    put(&w, pods, 2);
    seen(&w);
    asked(&w, (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 5});
    assert_int_equal(seen(&w).replicas_wanted, 5);
    assert_ok(aw_kubecluster_meant(w.cluster, 3, &meant));
    assert_int_equal(meant.plan.set, AW_PLAN_REPLICAS);
    w.view.replicas_wanted = 5;
    assert_int_equal(seen(&w).replicas_wanted, 5);
    assert_ok(aw_kubecluster_meant(w.cluster, 3, &meant));
    assert_int_equal(meant.plan.set, 0);
    assert_int_equal(meant.plan.replicas, 5);
    w.view.replicas_wanted = 4; /* a person, later */
    assert_int_equal(seen(&w).replicas_wanted, 4);
    end(&w);
}

static void a_third_number_is_somebody_elses_and_wins(void **state)
{
    (void)state;
    struct world w;
    const struct made pods[] = {{PLAIN("a")}, {PLAIN("b")}};
    begin(&w, false);
    put(&w, pods, 2);
    seen(&w);
    asked(&w, (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 5});
    w.view.replicas_wanted = 3;
    assert_int_equal(seen(&w).replicas_wanted, 3);
    w.view.replicas_wanted = 2;
    assert_int_equal(seen(&w).replicas_wanted, 2);
    end(&w);
}

static void what_nobody_carries_out_lapses(void **state)
{
    (void)state;
    struct world w;
    const struct made pods[] = {{PLAIN("a")}, {PLAIN("b")}};
    begin(&w, false);
    put(&w, pods, 2);
    seen(&w);
    asked(&w, (struct aw_plan){
                  .set = AW_PLAN_REPLICAS | AW_PLAN_CPU, .replicas = 5, .cpu_millicores = 1000});
    pass_s(&w, 299);
    struct aw_sample s = seen(&w);
    assert_int_equal(s.replicas_wanted, 5);
    assert_int_equal(s.cpu_millicores_wanted, 1000);
    assert_true(s.rollout);
    pass_s(&w, 2);
    s = seen(&w);
    assert_int_equal(s.replicas_wanted, 2);
    assert_int_equal(s.cpu_millicores_wanted, 500);
    assert_false(s.rollout);
    end(&w);
}

static void a_new_size_is_under_way_while_pods_come_to_have_it(void **state)
{
    (void)state;
    struct world w;
    struct made pods[] = {{PLAIN("a")}, {PLAIN("b")}, {PLAIN("c")}};
    begin(&w, true);
    assert_int_equal(w.ops.ops->capabilities(w.ops.self), AW_CLUSTER_IN_PLACE_RESIZE);
    put(&w, pods, 3);
    seen(&w);
    asked(&w, (struct aw_plan){.set = AW_PLAN_CPU | AW_PLAN_MEMORY,
                               .cpu_millicores = 1000,
                               .memory_bytes = 1024 * AW_MIB});
    for (uint32_t i = 0; i < 3; i++) { /* slowly, but it moves */
        pass_s(&w, 250);
        put(&w, pods, 3);
        const struct aw_sample s = seen(&w);
        assert_true(s.rollout);
        assert_int_equal(s.cpu_millicores_wanted, 1000);
        pods[i].cpu = "1";
        pods[i].memory = "1Gi";
        pods[i].created_s = 3600;
    }
    put(&w, pods, 3);
    const struct aw_sample s = seen(&w);
    assert_false(s.rollout);
    assert_int_equal(s.memory_bytes_wanted, 1024 * AW_MIB);
    end(&w);
}

static void sizes_for_pods_to_come_neither_lapse_nor_roll_out(void **state)
{
    (void)state;
    struct world w;
    struct aw_kubecluster_meant meant;
    const struct made pods[] = {{PLAIN("a")}, {PLAIN("b")}};
    const struct aw_kubecluster_place place = {
        .cpu_millicores = 4000, .memory_bytes = 4096 * AW_MIB, .new_pods_only = true};
    begin(&w, false);
    aw_kubecluster_bind(w.cluster, 3, &place);
    put(&w, pods, 2);
    seen(&w);
    asked(&w, (struct aw_plan){.set = AW_PLAN_CPU, .cpu_millicores = 1000});
    pass_s(&w, 100000);
    assert_false(seen(&w).rollout);
    assert_ok(aw_kubecluster_meant(w.cluster, 3, &meant));
    assert_int_equal(meant.plan.cpu_millicores, 1000);
    end(&w);
}

static void a_restart_takes_up_what_was_asked_and_no_more(void **state)
{
    (void)state;
    struct world w;
    const struct made pods[] = {{PLAIN("a")}, {PLAIN("b")}};
    const struct aw_plan plan = {.set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
                                 .replicas = 5,
                                 .cpu_millicores = 500,
                                 .memory_bytes = 512 * AW_MIB};
    begin(&w, false);
    put(&w, pods, 2);
    aw_kubecluster_remind(w.cluster, 3, &plan, w.clock.wall_us - 100 * S);
    const struct aw_sample s = seen(&w);
    assert_int_equal(s.replicas_wanted, 5);
    assert_false(s.rollout); /* its size is there already */
    pass_s(&w, 250);
    assert_int_equal(seen(&w).replicas_wanted, 2);
    end(&w);
}

static void a_rollout_of_its_own_is_told(void **state)
{
    (void)state;
    struct world w;
    const struct made pods[] = {{PLAIN("a"), .created_s = 10},
                                {.uid = "b", .cpu = "2", .memory = "1Gi", .created_s = 90}};
    begin(&w, false);
    put(&w, pods, 2);
    w.view.rolling = true;
    const struct aw_sample s = seen(&w);
    assert_true(s.rollout);
    assert_int_equal(s.cpu_millicores_wanted, 2000); /* of the pod that was made last */
    end(&w);
}

static void every_failure_to_get_memory_is_survived(void **state)
{
    (void)state;
    const struct aw_kubecluster_config config = {.source = {NULL, look}, .workloads_max = 4};
    for (uint64_t after = 0;; after++) {
        struct aw_alloc_counting counting;
        struct aw_kubecluster *cluster = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = after;
        const enum aw_err err = aw_kubecluster_new(&config, &counting.alloc, &cluster, NULL);
        aw_kubecluster_free(cluster);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_true(after < 8);
    }
}

AW_TEST_GROUP("cluster-kube")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_counts_by_what_has_become_of_it),
        cmocka_unit_test(what_ended_or_is_being_deleted_is_no_replica),
        cmocka_unit_test(the_size_is_the_request_then_the_limit_then_the_most_there_may_be),
        cmocka_unit_test(a_named_container_is_the_one_that_is_sized),
        cmocka_unit_test(figures_of_all_replicas_are_summed_with_the_oldest_time),
        cmocka_unit_test(a_start_in_the_future_is_no_reason_to_doubt_a_replica),
        cmocka_unit_test(a_silent_replica_makes_the_sum_missing_unless_it_is_young),
        cmocka_unit_test(requests_counted_by_too_few_replicas_are_missing),
        cmocka_unit_test(what_is_no_figure_is_missing),
        cmocka_unit_test(a_copy_that_cannot_be_believed_gives_no_sample),
        cmocka_unit_test(a_workload_without_pods_keeps_the_size_it_had),
        cmocka_unit_test(restarts_and_kills_are_those_since_the_last_look),
        cmocka_unit_test(pods_are_known_over_tidying_and_forgotten_when_they_are_gone),
        cmocka_unit_test(what_was_asked_is_wanted_until_it_is_there),
        cmocka_unit_test(a_third_number_is_somebody_elses_and_wins),
        cmocka_unit_test(what_nobody_carries_out_lapses),
        cmocka_unit_test(a_new_size_is_under_way_while_pods_come_to_have_it),
        cmocka_unit_test(sizes_for_pods_to_come_neither_lapse_nor_roll_out),
        cmocka_unit_test(a_restart_takes_up_what_was_asked_and_no_more),
        cmocka_unit_test(a_rollout_of_its_own_is_told),
        cmocka_unit_test(every_failure_to_get_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
