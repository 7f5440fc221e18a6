/*
 * chain_test.c - the rows of more.h from what a user writes to what is told of it afterwards:
 * profile, bounds, action, plan, rails, cluster, sample, cost, row of a store, export, explanation.
 *
 * Whoever forgets them in between fails here. A small cluster carries plans out; its `apply`,
 * `observe` and `capabilities` are all that is written for them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "control/pilot.h"
#include "desk/explanation.h"
#include "profile/profile_testing.h"
#include "store/transfer.h"

#define STEP_US INT64_C(15000000)
#define TICKS   400u
#define NEW     (AW_PLAN_DISK | AW_PLAN_CLOCK | AW_PLAN_HUGE)

/* disk and huge pages by two lists, the clock by one: the narrower of all holds */
#define LIMITS                                                               \
    "  constraints:\n"                                                       \
    "    global: {maxReplicas: 9}\n"                                         \
    "    pod: {requests: {minAllowed: {disk: 1Mi, clock: 800, huge: 2Mi},\n" \
    "                     maxAllowed: {disk: 512Mi, clock: 3600, huge: 1Gi}}}\n"
#define LEARNING                                              \
    "  policy: {updateMode: Auto}\n"                          \
    "  learning:\n"                                           \
    "    bootstrap: false\n"                                  \
    "    agent: {name: external, settings: {probation: 1}}\n" \
    "    objective: {prices: {diskMibHour: 0.5, ghzHour: 0.25, hugeGibHour: 2}}\n"
static const char written[] = CART SLO LIMITS LEARNING;

/* --- a cluster that has them ------------------------------------------------------------------ */

struct rack {
    struct aw_sample sample;
    int64_t now_us;
};

static uint32_t rack_capabilities(const void *self)
{
    (void)self;
    return AW_CLUSTER_IN_PLACE_RESIZE | AW_CLUSTER_SETS(NEW);
}

static enum aw_err rack_observe(void *self, uint32_t workload, int64_t deadline_us,
                                struct aw_sample *ret_sample)
{
    struct rack *rack = self;
    (void)workload, (void)deadline_us;
    struct aw_figure *const figures[] = {
        &rack->sample.cpu_cores_used,    &rack->sample.memory_bytes_used,
        &rack->sample.memory_bytes_peak, &rack->sample.throttled_share,
        &rack->sample.disk_bytes_per_s,  &rack->sample.net_bytes_per_s,
        &rack->sample.arrivals_per_s,    &rack->sample.completions_per_s,
        &rack->sample.errors_per_s,      &rack->sample.in_flight,
        &rack->sample.latency_us_p50,    &rack->sample.latency_us_p95,
        &rack->sample.latency_us_p99,    &rack->sample.latency_us_mean};
    for (uint32_t i = 0; i < sizeof figures / sizeof *figures; i++)
        figures[i]->at_us = rack->now_us;
    rack->sample.at_us = rack->now_us;
    *ret_sample = rack->sample;
    return AW_OK;
}

static enum aw_err rack_apply(void *self, uint32_t workload, const struct aw_plan *plan,
                              int64_t deadline_us)
{
    struct rack *rack = self;
    (void)workload, (void)deadline_us;
    const struct aw_plan now = aw_plan_of(rack->sample.wanted), next = aw_plan_over(plan, &now);
    memcpy(rack->sample.wanted, next.amount, sizeof next.amount);
    rack->sample.replicas_ready = (uint32_t)next.replicas;
    return AW_OK;
}

static const struct aw_cluster_ops rack_ops = {.name = "rack",
                                               .capabilities = rack_capabilities,
                                               .observe = rack_observe,
                                               .apply = rack_apply};

/* --- one life --------------------------------------------------------------------------------- */

struct life {
    struct aw_profile_set set;
    struct aw_pilot_config config;
    struct aw_fallback_task task;
    struct aw_pilot *pilot;
    struct rack rack;
    struct aw_cluster cluster;
    struct aw_store store;
    uint32_t rows;
};

static void life_begin(struct life *life, const char *where)
{
    memset(life, 0, sizeof *life);
    life->set = read_sound(written);
    aw_pilot_config_of(&life->config, &life->set.profiles[0], true);
    life->cluster = (struct aw_cluster){.ops = &rack_ops, .self = &life->rack};
    life->task = (struct aw_fallback_task){.bounds = life->config.bounds,
                                           .slo_latency_us = life->config.slo.latency_us_p99};
    memcpy(life->task.amount,
           ((const int64_t[AW_RESOURCES]){3, 1000, 512 * AW_MIB, 64 * AW_MIB, 1600, 256 * AW_MIB}),
           sizeof life->task.amount);
    memcpy(life->rack.sample.wanted, life->task.amount, sizeof life->task.amount);
    life->rack.sample.replicas_ready = 3;
    life->rack.sample.cpu_cores_used.value = 1.5;
    life->rack.sample.memory_bytes_used.value = 200.0 * AW_MIB;
    life->rack.sample.memory_bytes_peak.value = 210.0 * AW_MIB;
    life->rack.sample.arrivals_per_s.value = life->rack.sample.completions_per_s.value = 50;
    life->rack.sample.latency_us_p99.value = 1e5;
    struct aw_diag diag = {0};
    if (aw_pilot_new(&life->config, &life->task, 0, NULL, &life->pilot, &diag))
        fail_msg("%s", diag.text);
    assert_ok(aw_store_open(&life->store, where, NULL, NULL, NULL));
}

static void life_end(struct life *life)
{
    aw_store_close(&life->store);
    aw_pilot_free(life->pilot);
    aw_profile_set_deinit(&life->set);
}

/* What a step costs at the prices of the profile, and of its defaults. */
static double worth(const struct aw_sample *sample)
{
    const double each = 0.04 * 1e-3 * (double)sample->cpu_millicores_wanted +
                        0.005 / AW_GIB_REAL * (double)sample->memory_bytes_wanted +
                        0.5 / AW_MIB_REAL * (double)sample->disk_bytes_per_s_wanted +
                        0.25 * 1e-3 * (double)sample->clock_mhz_wanted +
                        2 / AW_GIB_REAL * (double)sample->huge_page_bytes_wanted;
    return each * sample->replicas_ready * 15 / 3600;
}

/* What is wanted of each of the new ones stands behind all that a state has without them. */
static void see_limits(const struct life *life, const struct aw_external_agent_request *request)
{
    const struct aw_bounds *b = &life->config.bounds;
    assert_int_equal(request->obs_dim, AW_STATE_DEFAULT_DIM + 3);
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t r = AW_RESOURCE_MEMORY + 1 + i, at = AW_STATE_DEFAULT_DIM + i;
        const struct aw_space_axis *axis = aw_state_axis(request->obs_dim, NEW, at);
        char name[32];
        snprintf(name, sizeof name, "%s_limit", aw_resource_table[r].name);
        assert_string_equal(axis->name, name);
        assert_true(request->obs[at] >= axis->low && request->obs[at] <= axis->high);
        assert_close(request->obs[at],
                     log((double)life->rack.sample.wanted[r] / (double)b->min[r]) /
                         log((double)b->max[r] / (double)b->min[r]),
                     1e-5);
    }
    assert_string_equal(aw_state_axis(request->obs_dim, NEW, 0)->name, aw_state_axes[0].name);
}

/* An agent of another process that wanders over all that it may set. */
static void answer(struct life *life, uint32_t tick)
{
    struct aw_external_agent_request request;
    struct aw_external_agent_answer answer = {
        .agent = aw_external_agent_id("wanderer"), .took_s = 0.01, .name = "wanderer"};
    float values[AW_RESOURCES];
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        values[i] = sinf(0.02f * (float)tick + (float)i);
    if (!aw_pilot_asks(life->pilot, life->rack.now_us, &request))
        return;
    assert_int_equal(request.act_dim, AW_RESOURCES);
    see_limits(life, &request);
    answer.fault = aw_external_agent_check(values, AW_RESOURCES, request.act_dim, answer.action);
    assert_int_equal(answer.fault, AW_EXTERNAL_AGENT_FAULT_NONE);
    aw_pilot_hear(life->pilot, &answer);
}

static const struct aw_decision *life_tick(struct life *life, uint32_t tick)
{
    struct aw_sample sample;
    struct aw_store_row row;
    life->rack.now_us += STEP_US;
    assert_ok(life->cluster.ops->observe(life->cluster.self, 0, INT64_MAX, &sample));
    if (aw_pilot_observe(life->pilot, &sample, life->rack.now_us, &row)) {
        assert_int_equal(row.act_dim, AW_RESOURCES);
        assert_memory_equal(row.figures.amount, sample.wanted, sizeof sample.wanted);
        assert_close(row.figures.cost, worth(&sample), 1e-9);
        assert_ok(aw_store_append(&life->store, &row, NULL));
        life->rows++;
    }
    answer(life, tick);
    const struct aw_decision *decision = aw_pilot_decide(life->pilot, NULL, life->rack.now_us);
    const struct aw_plan *plan = &decision->guard.plan;
    if (plan->set)
        assert_ok(life->cluster.ops->apply(life->cluster.self, 0, plan, INT64_MAX));
    aw_pilot_applied(life->pilot, plan->set, life->rack.now_us);
    return decision;
}

/* --- what holds ------------------------------------------------------------------------------- */

static void a_profile_bounds_and_prices_what_a_row_names(void **state)
{
    (void)state;
    struct aw_profile_set set = read_sound(written);
    const struct aw_profile *p = &set.profiles[0];
    const struct aw_cluster rack = {.ops = &rack_ops};
    struct aw_diag diag = {0};
    assert_int_equal(p->pilot.controlled, AW_PLAN_ALL);
    assert_int_equal(p->pilot.bounds.disk_bytes_per_s_min, AW_MIB);
    assert_int_equal(p->pilot.bounds.clock_mhz_max, 3600);
    assert_int_equal(p->pilot.bounds.huge_page_bytes_max, 1024 * AW_MIB);
    assert_int_equal(p->pilot.bounds.cpu_millicores_max, 4000);
    assert_true(p->pilot.prices.disk_mib_hour == 0.5 && p->pilot.prices.ghz_hour == 0.25 &&
                p->pilot.prices.huge_gib_hour == 2 && p->pilot.prices.core_hour == 0.04);
    /* whoever cannot set it says so, and where it is written */
    assert_ok(aw_profile_actuated(p, aw_cluster_sets(&rack), "a rack", &diag));
    assert_int_equal(aw_profile_actuated(p, AW_PLAN_COMMON, "the local cluster", &diag),
                     AW_ERR_CONFIG);
    assert_string_equal(diag.file, "f.yaml");
    assert_int_equal(diag.line, 9);
    assert_non_null(strstr(diag.text, "the local cluster cannot set a replica's disk bandwidth"));
    aw_profile_set_deinit(&set);
}

static void a_profile_that_says_half_is_refused(void **state)
{
    static const struct {
        const char *why, *constraints, *says;
        uint32_t line;
    } cases[] = {
        {"no upper bound", "    pod: {requests: {minAllowed: {clock: 800}}}\n",
         "expected minAllowed.clock and maxAllowed.clock", 9},
        {"listed, and no bounds", "    containerControlledResources: [cpu, disk]\n",
         "expected minAllowed.disk and maxAllowed.disk", 9},
        {"the wrong way round",
         "    pod: {requests: {minAllowed: {huge: 2Gi}, maxAllowed: {huge: 1Gi}}}\n",
         "expected minAllowed.huge of at most maxAllowed.huge, found 2Gi and 1Gi", 9},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_profile_set set;
        static struct heard heard;
        char text[1024];
        snprintf(text, sizeof text, "%s%s  constraints:\n    global: {maxReplicas: 9}\n%s", CART,
                 SLO, cases[i].constraints);
        assert_int_equal(read_text(&set, text, &heard, NULL), AW_ERR_CONFIG);
        uint32_t error = 0; /* behind warnings */
        while (!heard.finding[error].err)
            error++;
        const struct aw_diag *diag = &heard.finding[error].diag;
        if (!strstr(diag->text, cases[i].says) || diag->line != cases[i].line)
            fail_msg("%s: %u: %s", cases[i].why, diag->line, diag->text);
        aw_profile_set_deinit(&set);
    }
}

static void what_is_bounded_and_not_listed_is_left_alone(void **state)
{
    (void)state;
    struct aw_profile_set set =
        read_sound(CART SLO "  constraints:\n    global: {maxReplicas: 9}\n"
                            "    containerControlledResources: [cpu, clock]\n"
                            "    pod: {requests: {minAllowed: {disk: 1Mi, clock: 800},\n"
                            "                     maxAllowed: {disk: 512Mi, clock: 3600}}}\n");
    const struct aw_profile *p = &set.profiles[0];
    assert_int_equal(p->pilot.controlled, AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_CLOCK);
    assert_int_equal(p->pilot.bounds.disk_bytes_per_s_max, 0);
    assert_int_equal(p->pilot.bounds.clock_mhz_max, 3600);
    aw_profile_set_deinit(&set);
}

static enum aw_err count_row(void *ctx, const struct aw_store_row *row)
{
    ++*(uint32_t *)ctx;
    assert_true(row->figures.clock_mhz >= 800 && row->figures.clock_mhz <= 3600);
    return AW_OK;
}

/* Out of the file, into another store, and out of that: the same bytes. */
static void export_and_import(struct aw_store *store, enum aw_transfer_format format)
{
    const struct aw_store_query all = AW_STORE_EVERY;
    struct aw_store other;
    char *text[2] = {NULL, NULL};
    size_t len[2];
    uint64_t rows;
    assert_ok(aw_store_open(&other, "memory",
                            &(struct aw_store_options){.act_dim_max = AW_RESOURCES}, NULL, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        FILE *out = open_memstream(&text[i], &len[i]);
        assert_ok(aw_store_export(i ? &other : store, &all, format, out, NULL, &rows, NULL));
        fclose(out);
        assert_int_equal(rows, TICKS - 1);
        if (i == 0) {
            FILE *in = fmemopen(text[0], len[0], "r");
            struct aw_diag diag = {0};
            if (aw_store_import(&other, format, in, "export", NULL, &rows, &diag))
                fail_msg("%u: %s", diag.line, diag.text);
            fclose(in);
        }
    }
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(text[0], text[1], len[0]);
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        assert_non_null(strstr(text[0], aw_resource_table[r].member));
    free(text[0]);
    free(text[1]);
    aw_store_close(&other);
}

static void told(const char *text, const char *path, bool there)
{
    json_t *root = json_loads(text, 0, NULL), *at = root;
    char key[64];
    for (const char *from = path; at && *from;) {
        const size_t len = strcspn(from, "/");
        snprintf(key, sizeof key, "%.*s", (int)len, from);
        at = json_object_get(at, key);
        from += len + (from[len] == '/');
    }
    if (!root || (at && !json_is_null(at)) != there)
        fail_msg("%s is %s in %s", path, there ? "not" : "still", text);
    json_decref(root);
}

static void an_explanation_names_it(const struct life *life, const struct aw_decision *decision)
{
    char *text = aw_explanation_text(&life->config, decision);
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++) {
        const char *parts[] = {"agent/plan", "plan/before", "plan/after", "standing"};
        char path[96];
        for (uint32_t i = 0; i < 4; i++) {
            snprintf(path, sizeof path, "%s/%s", parts[i], aw_resource_table[r].member);
            told(text, path, true);
        }
        snprintf(path, sizeof path, "agent/action/%s", aw_resource_table[r].name);
        told(text, path, true);
        snprintf(path, sizeof path, "state/%s_limit", aw_resource_table[r].name);
        told(text, path, true);
    }
    free(text);
    /* and it can be decided again from what is kept */
    struct aw_pilot_config back;
    struct aw_fallback_task task;
    text = aw_explanation_config_text(&life->config, &life->task);
    assert_ok(aw_explanation_config_read(text, &back, &task, NULL));
    assert_memory_equal(&back.prices, &life->config.prices, sizeof back.prices);
    assert_memory_equal(&back.bounds, &life->config.bounds, sizeof back.bounds);
    assert_memory_equal(task.amount, life->task.amount, sizeof task.amount);
    free(text);
}

static void a_row_goes_from_the_profile_to_the_record(void **state)
{
    char folder[] = "/tmp/aware-chain-XXXXXX", path[64];
    const struct aw_store_query all = AW_STORE_EVERY;
    uint32_t changed[AW_RESOURCES] = {0}, acted = 0, rows = 0;
    struct life life;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s.db", folder);
    life_begin(&life, path);
    for (uint32_t t = 0; t < TICKS; t++) {
        const struct aw_decision *decision = life_tick(&life, t);
        const struct aw_bounds *b = &life.config.bounds;
        for (uint32_t r = 0; r < AW_RESOURCES; r++) {
            changed[r] += (decision->guard.plan.set & AW_PLAN_BIT(r)) != 0;
            assert_true(life.rack.sample.wanted[r] >= b->min[r] &&
                        life.rack.sample.wanted[r] <= b->max[r]);
        }
        acted += decision->actor == AW_ACTOR_AGENT;
        if (decision->actor == AW_ACTOR_AGENT && acted % 50 == 1)
            an_explanation_names_it(&life, decision);
    }
    assert_true(acted > TICKS / 2);
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        if (changed[r] < 2)
            fail_msg("%s changed %u times", aw_resource_table[r].name, changed[r]);
    assert_int_equal(life.rows, TICKS - 1);
    assert_ok(aw_store_scan(&life.store, &all, count_row, &rows, NULL));
    assert_int_equal(rows, TICKS - 1);
    export_and_import(&life.store, AW_TRANSFER_JSONL);
    export_and_import(&life.store, AW_TRANSFER_CSV);
    life_end(&life);
    static const char *const ends[] = {"", "-wal", "-shm", "-lock"};
    for (uint32_t i = 0; i < 4; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
    assert_int_equal(rmdir(folder), 0);
}

AW_TEST_GROUP("chain")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_bounds_and_prices_what_a_row_names),
        cmocka_unit_test(a_profile_that_says_half_is_refused),
        cmocka_unit_test(what_is_bounded_and_not_listed_is_left_alone),
        cmocka_unit_test(a_row_goes_from_the_profile_to_the_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
