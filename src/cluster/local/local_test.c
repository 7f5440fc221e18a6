/* local_test.c - replicas as processes: limits, kills, restarts, and what a crash leaves behind. */
#include "cluster/local/local_testing.h"

#include "base/rng.h"
#include "base/units.h"

static void limits_are_those_of_the_control_group(void **state)
{
    (void)state;
    struct yard yard;
    if (!yard_begin(&yard, NULL, 1))
        skip();
    struct standin_load load = {.path = "/spin/2000", .clients = 4};
    load.port = aw_local_port(yard.local, yard.workload);
    wait_until(5, yard_is(&yard, 1));
    yard_apply(&yard, &(struct aw_plan){.set = AW_PLAN_CPU, .cpu_millicores = 200});
    wait_until(5, yard_is(&yard, 1));
    standin_load_begin(&load);
    standin_wait_ms(400);
    yard_observe(&yard);
    struct aw_sample busy;
    const int64_t patience = aw_clock_monotonic_us(NULL) + 20000000;
    do { /* where others leave it less than its limit, it takes longer until that bites */
        standin_wait_ms(1200);
        busy = yard_observe(&yard);
    } while (busy.throttled_share.value <= 0 && aw_clock_monotonic_us(NULL) < patience);
    standin_load_end(&load);
    /* it wants a core and has a fifth of one; less where the machine is busy */
    assert_true(busy.cpu_cores_used.value > 0.01 && busy.cpu_cores_used.value < 0.26);
    assert_true(busy.throttled_share.value > 0);
    assert_close(busy.pods[0].cpu_cores_used.value, busy.cpu_cores_used.value, 1e-9);
    assert_true(busy.memory_bytes_used.value > 0);
    assert_true(busy.memory_bytes_used.value < 256.0 * AW_MIB);
    assert_true(busy.memory_bytes_peak.value >= busy.memory_bytes_used.value);
    assert_true(busy.latency_us_p99.value > 2000);
    assert_true(busy.net_bytes_per_s.value > 0);
    yard_end(&yard);
}

/* A request of 30 ms a second under a quota of 20 ms: one or two periods of ten are throttled,
 * however few the kernel has counted, which has none for a group that sleeps. */
static void throttling_is_a_share_of_the_time_that_passed(void **state)
{
    (void)state;
    struct yard yard;
    if (!yard_begin(&yard, NULL, 1))
        skip();
    struct standin_load load = {.path = "/spin/30000", .clients = 1, .pause_us = 1000000};
    load.port = aw_local_port(yard.local, yard.workload);
    wait_until(5, yard_is(&yard, 1));
    yard_apply(&yard, &(struct aw_plan){.set = AW_PLAN_CPU, .cpu_millicores = 200});
    wait_until(5, yard_is(&yard, 1));
    standin_load_begin(&load);
    standin_wait_ms(400);
    yard_observe(&yard);
    standin_wait_ms(5000);
    const struct aw_sample calm = yard_observe(&yard);
    standin_load_end(&load);
    assert_true(load.ok > 0);
    assert_true(calm.throttled_share.value < 0.3);
    yard_end(&yard);
}

static void bytes_per_second_are_limited_when_that_is_asked_for(void **state)
{
    (void)state;
    static const char *const tcp[] = {"tcp", NULL};
    struct aw_diag diag = {0};
    for (int way = 0; way < 2; way++) { /* trunk and port */
        struct yard yard;
        yard_settings(&yard);
        yard.settings.network_out_mib_per_s = 0.01;
        if (!yard_new(&yard))
            skip();
        assert_ok(yard_add(&yard, way ? tcp : NULL, 1, 256 * AW_MIB, &diag));
        wait_until(5, yard_is(&yard, 1));
        /* 24 000 bytes, 16 KiB of them at once */
        const int64_t begin_us = aw_clock_monotonic_us(NULL);
        const int client = standin_connect(aw_local_port(yard.local, yard.workload));
        for (int i = 0; i < 600; i++)
            assert_int_equal(standin_get(client, "/", NULL, 0), 200);
        assert_true(aw_clock_monotonic_us(NULL) - begin_us > 500000);
        close(client);
        yard_end(&yard);
    }
}

/* Limits may add up to more than the machine has: who shares them out asks for this. */
static void capacity_is_what_settings_say(void **state)
{
    (void)state;
    struct yard yard;
    int64_t cpu, memory;
    yard_settings(&yard);
    yard.settings.memory_gib = 3;
    if (!yard_new(&yard))
        skip();
    aw_local_capacity(yard.local, &cpu, &memory);
    assert_int_equal(cpu, 64000);
    assert_int_equal(memory, INT64_C(3) << 30);
    yard_end(&yard);
}

/* Of all replicas together. */
static uint32_t yard_restarts(struct yard *yard)
{
    const struct aw_sample sample = yard_observe(yard);
    uint32_t count = 0;
    for (uint32_t i = 0; i < sample.pod_count; i++)
        count += sample.pods[i].restart_count;
    return count;
}

static void a_replica_that_answers_and_leaves_loses_nothing(void **state)
{
    (void)state;
    static const char *const tcp[] = {"tcp", NULL};
    for (int way = 0; way < 2; way++) { /* trunk and port */
        struct yard yard;
        struct aw_local_requests requests;
        if (!yard_begin(&yard, way ? tcp : NULL, 3))
            skip();
        const uint16_t port = aw_local_port(yard.local, yard.workload);
        for (uint32_t round = 0; round < 5; round++) { /* each of them once */
            wait_until(8, yard_restarts(&yard) == 3 * round && yard_is(&yard, 3));
            for (int i = 0; i < 3; i++)
                assert_int_equal(standin_ask(port, "/leave", NULL, 0), 200);
        }
        wait_until(1, (aw_local_requests(yard.local, yard.workload, &requests),
                       requests.completions == 15)); /* an answer is booked behind its last byte */
        assert_int_equal(requests.lost, 0);
        yard_end(&yard);
    }
}

static void too_little_memory_is_an_oom_kill_and_a_growing_pause(void **state)
{
    (void)state;
    static const char *const words[] = {"touch", TOUCHED, NULL};
    struct yard yard;
    struct aw_diag diag = {0};
    char trouble[256];
    uint32_t kills = 0, restarts = 0;
    yard_settings(&yard);
    if (!yard_new(&yard))
        skip();
    assert_ok(yard_add(&yard, words, 1, 24 * AW_MIB, &diag));
    struct aw_sample sample;
    wait_until(8, (sample = yard_observe(&yard), kills += sample.oom_kills,
                   restarts += sample.restarts, kills >= 3));
    assert_true(restarts >= 2 && restarts <= kills);
    sample = yard_observe(&yard);
    kills += sample.oom_kills;
    restarts += sample.restarts;
    assert_int_equal(sample.pod_count, 1);
    assert_int_equal(sample.replicas_starting, 1);
    assert_int_equal(sample.pods[0].oom_kill_count, kills);
    assert_int_equal(sample.pods[0].restart_count, restarts);
    aw_local_trouble(yard.local, yard.workload, trouble, sizeof trouble);
    assert_non_null(strstr(trouble, "out of memory"));
    /* with room enough it lives */
    yard_apply(&yard, &(struct aw_plan){.set = AW_PLAN_MEMORY, .memory_bytes = 128 * AW_MIB});
    wait_until(8, yard_is(&yard, 1));
    yard_end(&yard);
}

static void a_kill_from_outside_is_a_restart_and_no_oom_kill(void **state)
{
    (void)state;
    struct yard yard;
    if (!yard_begin(&yard, NULL, 2))
        skip();
    wait_until(5, yard_is(&yard, 2));
    const uint32_t id = yard_observe(&yard).pods[0].id;
    assert_true(signal_replica(yard.local, yard.workload, 1, SIGKILL));
    struct aw_sample sample;
    uint32_t restarts = 0, kills = 0;
    wait_until(5, (sample = yard_observe(&yard), restarts += sample.restarts,
                   kills += sample.oom_kills, restarts == 1));
    wait_until(5, yard_is(&yard, 2));
    sample = yard_observe(&yard);
    assert_int_equal(kills, 0);
    assert_int_equal(sample.restarts, 0); /* told once */
    assert_int_equal(sample.pods[0].id, id);
    assert_int_equal(sample.pods[0].restart_count + sample.pods[1].restart_count, 1);
    yard_end(&yard);
}

static void memory_in_use_is_not_taken_away(void **state)
{
    (void)state;
    static const char *const words[] = {"touch", TOUCHED, NULL};
    struct yard yard;
    if (!yard_begin(&yard, words, 1))
        skip();
    wait_until(5, yard_is(&yard, 1));
    yard_apply(&yard, &(struct aw_plan){.set = AW_PLAN_MEMORY, .memory_bytes = 32 * AW_MIB});
    standin_wait_ms(300);
    struct aw_sample sample = yard_observe(&yard);
    assert_true(sample.rollout);
    assert_int_equal(sample.pods[0].memory_bytes, 256 * AW_MIB);
    assert_int_equal(sample.oom_kills + sample.restarts, 0);
    yard_apply(&yard, &(struct aw_plan){.set = AW_PLAN_MEMORY, .memory_bytes = 96 * AW_MIB});
    wait_until(5, yard_is(&yard, 1));
    sample = yard_observe(&yard);
    assert_int_equal(sample.pods[0].memory_bytes, 96 * AW_MIB);
    assert_int_equal(sample.pods[0].restart_count, 0);
    yard_end(&yard);
}

static void a_program_that_is_not_there_gets_a_sentence(void **state)
{
    (void)state;
    static const char *const command[] = {"/nowhere/at/all", NULL};
    struct yard yard;
    struct aw_diag diag = {0};
    char trouble[256];
    yard_settings(&yard);
    if (!yard_new(&yard))
        skip();
    const struct aw_local_workload workload = {.command = command,
                                               .health_path = "",
                                               .replicas = 1,
                                               .replicas_max = 1,
                                               .cpu_millicores = 100,
                                               .memory_bytes = 64 * AW_MIB};
    assert_ok(aw_local_add(yard.local, &workload, &yard.workload, &diag));
    wait_until(5, (aw_local_trouble(yard.local, yard.workload, trouble, sizeof trouble), *trouble));
    assert_non_null(strstr(trouble, "/nowhere/at/all: No such file"));
    assert_int_equal(yard_observe(&yard).replicas_ready, 0);
    yard_end(&yard);
}

static void impossible_workloads_get_a_sentence(void **state)
{
    (void)state;
    static const char *const command[] = {"x", NULL}, *const nothing[] = {NULL};
    const struct aw_local_workload good = {.command = command,
                                           .health_path = "",
                                           .replicas = 1,
                                           .replicas_max = 2,
                                           .cpu_millicores = 100,
                                           .memory_bytes = 64 * AW_MIB};
    struct yard yard;
    yard_settings(&yard);
    if (!yard_new(&yard))
        skip();
    struct aw_local_workload bad[6] = {good, good, good, good, good, good};
    bad[0].command = nothing;
    bad[1].replicas = 3;
    bad[2].replicas_max = AW_LOCAL_REPLICAS_MAX + 1;
    bad[3].cpu_millicores = 0;
    bad[4].memory_bytes = (int64_t)1 << 50;
    bad[5].replicas = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct aw_diag diag = {0};
        uint32_t index;
        assert_int_not_equal(aw_local_add(yard.local, &bad[i], &index, &diag), AW_OK);
        assert_true(diag.text[0]);
    }
    yard_end(&yard);
}

static void io_device_set(struct yard *yard, const char *device)
{
    pthread_mutex_lock(&yard->local->lock);
    snprintf(yard->local->settings.io_device, sizeof yard->local->settings.io_device, "%s", device);
    pthread_mutex_unlock(&yard->local->lock);
}

static void a_replica_whose_limits_are_refused_does_not_run_without_them(void **state)
{
    (void)state;
    struct yard yard;
    struct aw_diag diag = {0};
    char trouble[256];
    yard_settings(&yard);
    if (!yard_new(&yard))
        skip();
    io_device_set(&yard, "0:0"); /* one that no kernel has */
    assert_ok(yard_add(&yard, NULL, 1, 64 * AW_MIB, &diag));
    wait_until(5, (aw_local_trouble(yard.local, yard.workload, trouble, sizeof trouble), *trouble));
    for (uint32_t i = 0; i < 50; i++) { /* pauses between tries are 0.4 s at most */
        assert_int_equal(yard_observe(&yard).replicas_ready, 0);
        pthread_mutex_lock(&yard.local->lock);
        for (uint32_t part = 0; part < yard.local->tree.part_count; part++)
            assert_int_equal(yard_groups(&yard.local->tree, part), 0);
        pthread_mutex_unlock(&yard.local->lock);
        standin_wait_ms(20);
    }
    assert_non_null(strstr(trouble, "0:0"));
    io_device_set(&yard, "");
    wait_until(5, yard_is(&yard, 1));
    const struct aw__cgroup_tree *tree = &yard.local->tree;
    struct aw__cgroup_usage usage;
    assert_ok(aw__cgroup_read(tree, yard.local->workload[0]->replica[0].group, &usage));
    assert_int_equal(usage.memory_limit_bytes, 64 * AW_MIB);
    yard_end(&yard);
}

static void a_device_whose_io_cannot_be_limited_is_told_at_once(void **state)
{
    (void)state;
    static const char *const devices[] = {"0:0", "sda", "8"};
    struct yard yard;
    char path[128];
    yard_settings(&yard);
    if (!yard_new(&yard))
        skip();
    aw_local_free(yard.local);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct aw_diag diag = {0};
        snprintf(yard.settings.io_device, sizeof yard.settings.io_device, "%s", devices[i]);
        assert_int_equal(aw_local_new(&yard.settings, 1, NULL, &yard.local, &diag), AW_ERR_CONFIG);
        assert_non_null(strstr(diag.text, "ioDevice"));
        assert_non_null(strstr(diag.text, devices[i]));
    }
    snprintf(path, sizeof path, "%s/lock", yard.run_dir);
    unlink(path);
    assert_int_equal(rmdir(yard.run_dir), 0); /* and nothing is left of it */
}

static void a_deaf_replica_is_ended_with_its_children(void **state)
{
    (void)state;
    static const char *const words[] = {"deaf", "child", NULL};
    struct yard yard;
    if (!yard_begin(&yard, words, 2))
        skip();
    wait_until(5, yard_is(&yard, 2));
    yard_apply(&yard, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 1});
    wait_until(5, yard_groups(&yard.local->tree, 0) == 1);
    yard_end(&yard);
}

static void requests_survive_scaling_in_and_resizing(void **state)
{
    (void)state;
    struct yard yard;
    if (!yard_begin(&yard, NULL, 4))
        skip();
    struct standin_load load = {.path = "/sleep/3", .clients = 8};
    load.port = aw_local_port(yard.local, yard.workload);
    wait_until(5, yard_is(&yard, 4));
    standin_load_begin(&load);
    for (uint32_t round = 0; round < 4; round++) {
        yard_apply(&yard, &(struct aw_plan){.set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
                                            .replicas = round % 2 ? 4 : 1,
                                            .cpu_millicores = 200 + 100 * round,
                                            .memory_bytes = (128 + 32 * round) * AW_MIB});
        wait_until(5, yard_is(&yard, round % 2 ? 4 : 1));
        /* who has gone has left its socket behind, and that is gone as well */
        wait_until(5, yard_sockets(&yard) == (round % 2 ? 4u : 1u));
        wait_until(5, yard_is_unix(&yard, true));
    }
    standin_load_end(&load);
    struct aw_local_requests requests;
    wait_until(5, (aw_local_requests(yard.local, yard.workload, &requests),
                   requests.in_flight == 0)); /* a client may know before the books do */
    assert_true(load.ok > 50);
    assert_int_equal(load.failed, 0);
    assert_int_equal(load.cut, 0);
    assert_int_equal(requests.arrivals, requests.completions);
    yard_end(&yard);
}

static void a_socket_of_a_life_that_was_killed_is_no_obstacle_to_the_next(void **state)
{
    (void)state;
    struct yard yard;
    if (!yard_begin(&yard, NULL, 1))
        skip();
    wait_until(5, yard_is(&yard, 1));
    for (uint32_t round = 0; round < 3; round++) {
        char body[32];
        uint32_t restarts = 0;
        const uint16_t port = aw_local_port(yard.local, yard.workload);
        assert_int_equal(standin_ask(port, "/pid", body, sizeof body), 200);
        assert_true(signal_replica(yard.local, yard.workload, 0, SIGKILL));
        wait_until(5, (restarts += yard_observe(&yard).restarts, restarts == 1));
        wait_until(5, yard_is(&yard, 1));
        wait_until(5, yard_is_unix(&yard, true));
        assert_int_equal(yard_sockets(&yard), 1);
    }
    yard_end(&yard);
}

static void without_a_socket_replicas_are_asked_on_their_port(void **state)
{
    (void)state;
    static const char *const words[] = {"tcp", NULL};
    struct yard yard;
    char base[64], path[256];
    struct aw_diag diag = {0};
    if (!yard_begin(&yard, words, 2)) /* it does not want the one that it is offered */
        skip();
    wait_until(5, yard_is(&yard, 2));
    assert_true(yard_is_unix(&yard, false));
    assert_int_equal(yard_sockets(&yard), 0);
    assert_int_equal(standin_ask(aw_local_port(yard.local, yard.workload), "/", NULL, 0), 200);
    yard_end(&yard);

    yard_settings(&yard); /* and here none can be offered: the directory's name is too long */
    snprintf(base, sizeof base, "%s", yard.run_dir);
    snprintf(yard.settings.run_dir, sizeof yard.settings.run_dir, "%s/%0120d", base, 0);
    assert_true(yard_new(&yard));
    assert_ok(yard_add(&yard, NULL, 2, 64 * AW_MIB, &diag));
    wait_until(5, yard_is(&yard, 2));
    assert_true(yard_is_unix(&yard, false));
    assert_int_equal(standin_ask(aw_local_port(yard.local, yard.workload), "/", NULL, 0), 200);
    aw_local_free(yard.local);
    snprintf(path, sizeof path, "%s/%0120d/lock", base, 0);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/%0120d", base, 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(base), 0);
}

/* --- without permission ----------------------------------------------------------------------- */

static void without_control_groups_there_is_one_sentence_and_nothing_else(void **state)
{
    (void)state;
    struct yard yard;
    struct aw_diag diag = {0};
    char root[] = "/tmp/aware-nocgroup-XXXXXX", path[128];
    assert_non_null(mkdtemp(root));
    yard_settings(&yard);
    snprintf(yard.settings.cgroup_root, sizeof yard.settings.cgroup_root, "%s", root);
    assert_int_equal(aw_local_new(&yard.settings, 1, NULL, &yard.local, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "control groups"));
    rmdir(root);
    snprintf(path, sizeof path, "%s/lock", yard.run_dir);
    unlink(path);
    assert_int_equal(rmdir(yard.run_dir), 0);
}

static void who_may_not_write_control_groups_is_told_what_that_takes(void **state)
{
    (void)state;
    struct yard yard;
    struct aw_diag diag = {0};
    char path[128];
    if (!yard_begin(&yard, NULL, 1)) /* where there are none, there is nothing to be told */
        skip();
    yard_end(&yard);
    yard_settings(&yard);
    const pid_t pid = fork();
    if (pid == 0) {
        char theirs[] = "/tmp/aware-nobody-XXXXXX";
        if (setgid(65534) || setuid(65534) || !mkdtemp(theirs))
            _exit(77);
        snprintf(yard.settings.run_dir, sizeof yard.settings.run_dir, "%s", theirs);
        const enum aw_err err = aw_local_new(&yard.settings, 1, NULL, &yard.local, &diag);
        snprintf(path, sizeof path, "%s/lock", theirs);
        unlink(path);
        const bool clean = rmdir(theirs) == 0;
        _exit(err == AW_ERR_UNSUPPORTED && clean && strstr(diag.text, "as root") ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    rmdir(yard.run_dir);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
}

/* --- after kill -9 ---------------------------------------------------------------------------- */

/* "PROGRAM victim RUN_DIR FD": scales up and down until it is killed. */
static int victim_main(char **argv)
{
    static const char *const words[] = {"child", NULL};
    struct aw_diag diag = {0};
    struct yard yard;
    yard_settings(&yard);
    rmdir(yard.run_dir);
    snprintf(yard.settings.run_dir, sizeof yard.settings.run_dir, "%s", argv[2]);
    const int pipe_fd = (int)strtol(argv[3], NULL, 10);
    if (aw_local_new(&yard.settings, 1, NULL, &yard.local, &diag))
        return 1;
    const struct aw__cgroup_tree *tree = &yard.local->tree;
    (void)!write(pipe_fd, tree, sizeof *tree);
    yard.cluster = aw_local_cluster(yard.local);
    if (yard_add(&yard, words, 3, 64 * AW_MIB, &diag))
        return 1;
    const uint16_t port = aw_local_port(yard.local, yard.workload);
    (void)!write(pipe_fd, &port, sizeof port);
    for (uint32_t i = 0;; i++) {
        yard_apply(&yard, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 1 + i % 4});
        standin_wait_ms(20);
    }
}

static pid_t victim_start(const struct yard *yard, int *ret_fd)
{
    int ends[2];
    char number[16];
    assert_int_equal(pipe(ends), 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "local", aw_test_group_name, "victim", yard->run_dir, number,
              (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

static void after_kill_9_cleaning_leaves_nothing(void **state)
{
    (void)state;
    struct yard yard;
    struct aw_rng rng;
    aw_rng_init(&rng, 7, 0);
    yard_settings(&yard);
    if (!yard_new(&yard)) /* whether it can be done here at all */
        skip();
    aw_local_free(yard.local);
    for (uint32_t round = 0; round < 8; round++) {
        struct aw__cgroup_tree tree = {0};
        struct aw_local_cleaned cleaned;
        struct aw_diag diag = {0};
        uint16_t port = 0;
        int from, status;
        const pid_t pid = victim_start(&yard, &from);
        /* at a random moment of its youth, sometimes before it has made anything */
        if (round % 2)
            (void)!read(from, &tree, sizeof tree);
        standin_wait_ms((int64_t)(aw_rng_double(&rng) * (round % 2 ? 300 : 20)));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        if (!tree.version)
            (void)!read(from, &tree, sizeof tree);
        (void)!read(from, &port, sizeof port);
        close(from);
        /* a replica between its fork and its exec holds the lock a moment longer than the dead */
        const int64_t limit = aw_clock_monotonic_us(NULL) + 5000000;
        do {
            if (aw_local_clean(yard.run_dir, &cleaned, &diag))
                fail_msg("round %u: %s", round, diag.text);
        } while (cleaned.alive && aw_clock_monotonic_us(NULL) < limit);
        assert_int_equal(cleaned.alive, 0);
        if (tree.version)
            yard_tree_gone(&tree);
        if (port) { /* no replica has inherited the balancer's socket */
            const int fd = standin_connect(port);
            assert_true(fd < 0);
        }
        assert_ok(aw_local_clean(yard.run_dir, &cleaned, &diag));
        assert_int_equal(cleaned.cleared, 0);
    }
    char path[128];
    snprintf(path, sizeof path, "%s/lock", yard.run_dir);
    unlink(path);
    assert_int_equal(rmdir(yard.run_dir), 0);
}

static void the_next_start_cleans_up_and_lets_the_living_live(void **state)
{
    (void)state;
    struct yard yard, second;
    struct aw__cgroup_tree tree = {0};
    struct aw_local_cleaned cleaned;
    int from, status;
    uint16_t port;
    if (!yard_begin(&yard, NULL, 1))
        skip();
    second = yard;
    const pid_t pid = victim_start(&yard, &from);
    assert_int_equal(read(from, &tree, sizeof tree), (ssize_t)sizeof tree);
    assert_int_equal(read(from, &port, sizeof port), (ssize_t)sizeof port);
    wait_until(5, yard_groups(&tree, 0) > 0);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    close(from);
    /* a second one beside the first, in the same run directory */
    struct aw_diag diag = {0};
    if (aw_local_new(&second.settings, 1, NULL, &second.local, &diag))
        fail_msg("%s", diag.text);
    yard_tree_gone(&tree);
    assert_ok(aw_local_clean(yard.run_dir, &cleaned, &diag));
    assert_int_equal(cleaned.alive, 2);
    assert_int_equal(cleaned.cleared, 0);
    wait_until(5, yard_is(&yard, 1));
    aw_local_free(second.local);
    assert_int_equal(standin_ask(aw_local_port(yard.local, yard.workload), "/", NULL, 0), 200);
    yard_end(&yard);
}

AW_TEST_GROUP("local")
{
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return standin_main(argc, argv);
    if (argc > 3 && !strcmp(argv[1], "victim"))
        return victim_main(argv);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_those_of_the_control_group),
        cmocka_unit_test(throttling_is_a_share_of_the_time_that_passed),
        cmocka_unit_test(bytes_per_second_are_limited_when_that_is_asked_for),
        cmocka_unit_test(capacity_is_what_settings_say),
        cmocka_unit_test(a_replica_that_answers_and_leaves_loses_nothing),
        cmocka_unit_test(too_little_memory_is_an_oom_kill_and_a_growing_pause),
        cmocka_unit_test(a_kill_from_outside_is_a_restart_and_no_oom_kill),
        cmocka_unit_test(memory_in_use_is_not_taken_away),
        cmocka_unit_test(a_program_that_is_not_there_gets_a_sentence),
        cmocka_unit_test(impossible_workloads_get_a_sentence),
        cmocka_unit_test(a_replica_whose_limits_are_refused_does_not_run_without_them),
        cmocka_unit_test(a_device_whose_io_cannot_be_limited_is_told_at_once),
        cmocka_unit_test(a_deaf_replica_is_ended_with_its_children),
        cmocka_unit_test(requests_survive_scaling_in_and_resizing),
        cmocka_unit_test(a_socket_of_a_life_that_was_killed_is_no_obstacle_to_the_next),
        cmocka_unit_test(without_a_socket_replicas_are_asked_on_their_port),
        cmocka_unit_test(without_control_groups_there_is_one_sentence_and_nothing_else),
        cmocka_unit_test(who_may_not_write_control_groups_is_told_what_that_takes),
        cmocka_unit_test(after_kill_9_cleaning_leaves_nothing),
        cmocka_unit_test(the_next_start_cleans_up_and_lets_the_living_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
