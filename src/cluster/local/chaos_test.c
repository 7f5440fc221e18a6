/* chaos_test.c - two hundred things at random under load; afterwards everything adds up. */
#include "cluster/local/local_testing.h"

#include "base/rng.h"
#include "base/units.h"
#include "cluster/local/cgroup_file.h"

#define OPERATIONS   200u
#define REPLICAS_MAX 6u

struct tally {
    uint32_t kills, restarts, oom_kills, replicas;
    int64_t cpu_millicores, memory_bytes;
};

static void sample_check(const struct aw_sample *sample, const struct tally *tally)
{
    assert_int_equal(sample->replicas_wanted, tally->replicas);
    assert_int_equal(sample->cpu_millicores_wanted, tally->cpu_millicores);
    assert_int_equal(sample->memory_bytes_wanted, tally->memory_bytes);
    assert_int_equal(sample->replicas_ready + sample->replicas_starting + sample->replicas_pending,
                     sample->pod_count);
    for (uint32_t i = 0; i < sample->pod_count; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(sample->pods[i].id, sample->pods[k].id);
}

static void operate(struct yard *yard, struct aw_rng *rng, struct tally *tally)
{
    struct aw_plan plan = {0};
    const uint32_t which = (uint32_t)(aw_rng_double(rng) * 8);
    switch (which) {
    case 0:
    case 1:
    case 2:
        plan.set = AW_PLAN_REPLICAS;
        plan.replicas = tally->replicas = 1 + (uint32_t)(aw_rng_double(rng) * REPLICAS_MAX);
        break;
    case 3:
        plan.set = AW_PLAN_CPU;
        plan.cpu_millicores = tally->cpu_millicores = 200 + (int64_t)(aw_rng_double(rng) * 400);
        break;
    case 4:
        plan.set = AW_PLAN_MEMORY;
        tally->memory_bytes = (96 + (int64_t)(aw_rng_double(rng) * 160)) * AW_MIB;
        plan.memory_bytes = tally->memory_bytes;
        break;
    case 5:
    case 6: {
        const uint32_t nth = (uint32_t)(aw_rng_double(rng) * tally->replicas);
        if (signal_replica(yard->local, yard->workload, nth, which == 5 ? SIGKILL : SIGTERM))
            tally->kills++;
        break;
    }
    default: {
        const struct aw_sample sample = yard_observe(yard);
        sample_check(&sample, tally);
        tally->restarts += sample.restarts;
        tally->oom_kills += sample.oom_kills;
        break;
    }
    }
    if (plan.set)
        yard_apply(yard, &plan);
}

/* Every hierarchy has a group per replica, with its process alone in it and the limits that were
 * asked for. Not so from a kill until the process is there again. */
static bool groups_look_right(struct yard *yard, const struct tally *tally)
{
    const struct aw__cgroup_tree *tree = &yard->local->tree;
    const struct aw__local_workload *workload = yard->local->workload[yard->workload];
    for (uint32_t part = 0; part < tree->part_count; part++)
        if (yard_groups(tree, part) != (int)tally->replicas)
            return false;
    for (uint32_t i = 0; i < workload->slots; i++) {
        const struct aw__replica *r = &workload->replica[i];
        if (r->phase == AW__REPLICA_NONE)
            continue;
        char doors[AW__CGROUP_ROLES][AW__CGROUP_PATH_MAX], text[256], expected[32];
        const uint32_t count = aw__cgroup_doors(tree, r->group, doors);
        snprintf(expected, sizeof expected, "%d\n", r->pid);
        for (uint32_t part = 0; part < count; part++)
            if (aw__cgroup_file_read(doors[part], text, sizeof text) <= 0 ||
                strcmp(text, expected) != 0)
                return false;
        struct aw__cgroup_usage usage;
        if (aw__cgroup_read(tree, r->group, &usage) ||
            usage.memory_limit_bytes != tally->memory_bytes ||
            r->cpu_millicores != tally->cpu_millicores)
            return false;
    }
    return true;
}

static bool groups_in_order(struct yard *yard, const struct tally *tally)
{
    pthread_mutex_lock(&yard->local->lock); /* the supervisor writes what is read here */
    const bool right = groups_look_right(yard, tally);
    pthread_mutex_unlock(&yard->local->lock);
    return right;
}

/* No machine is too busy for these: what fails with "books: " has failed (tools/run-tests). */
static void books_check(const struct aw_local_requests *r, const struct standin_load *load,
                        const struct tally *tally)
{
    const uint64_t others = r->refused + r->timed_out + r->failed;
    if (r->arrivals != r->completions + r->lost + others + r->aborted)
        fail_msg("books: %llu arrived, %llu did not end", (unsigned long long)r->arrivals,
                 (unsigned long long)(r->arrivals - r->completions - r->lost - others));
    if (r->lost + others != load->failed + load->cut || r->completions != load->ok)
        fail_msg("books: %llu lost and %llu answered, clients say %llu and %llu",
                 (unsigned long long)r->lost, (unsigned long long)r->completions,
                 (unsigned long long)(load->failed + load->cut), (unsigned long long)load->ok);
    if (r->lost > (uint64_t)tally->kills * load->clients) /* in flight on a killed one */
        fail_msg("books: %llu lost by %u kills", (unsigned long long)r->lost, tally->kills);
}

static void two_hundred_operations_under_load_leave_everything_in_order(void **state)
{
    (void)state;
    const char *given = getenv("AW_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    struct yard yard;
    struct aw_rng rng;
    struct tally tally = {.replicas = 3, .cpu_millicores = 500, .memory_bytes = 256 * AW_MIB};
    struct standin_load load = {.path = "/spin/500", .clients = 6, .pause_us = 500};
    print_message("seed %llu\n", (unsigned long long)seed);
    aw_rng_init(&rng, seed, 0);
    if (!yard_begin(&yard, NULL, tally.replicas))
        skip();
    load.port = aw_local_port(yard.local, yard.workload);
    wait_until(5, yard_is(&yard, tally.replicas));
    standin_load_begin(&load);
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        operate(&yard, &rng, &tally);
        standin_wait_ms((int64_t)(aw_rng_double(&rng) * 30));
    }
    struct aw_sample sample;
    /* a kill of the last moment may be seen only after everything looked settled */
    wait_until(20, (sample = yard_observe(&yard), tally.restarts += sample.restarts,
                    tally.oom_kills += sample.oom_kills,
                    sample.replicas_ready == tally.replicas && !sample.rollout &&
                        sample.pod_count == tally.replicas && groups_in_order(&yard, &tally)));
    standin_load_end(&load);
    sample_check(&sample, &tally);

    struct aw_local_requests r;
    wait_until(5, (aw_local_requests(yard.local, yard.workload, &r), r.in_flight == 0));
    books_check(&r, &load, &tally);
    assert_int_equal(r.refused + r.timed_out + r.failed + r.aborted, 0);
    assert_int_equal(tally.oom_kills, 0);
    /* one restart at the most for a kill; none where the replica was to go anyway */
    assert_true(tally.restarts <= tally.kills);
    assert_true(tally.kills > 3 && tally.restarts > 0); /* fewer where replicas start slowly */
    print_message("%llu requests, %u kills, %u restarts, %llu lost, %llu retries\n",
                  (unsigned long long)r.arrivals, tally.kills, tally.restarts,
                  (unsigned long long)r.lost, (unsigned long long)r.retries);
    yard_end(&yard);
}

AW_TEST_GROUP("local-chaos")
{
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return standin_main(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hundred_operations_under_load_leave_everything_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
