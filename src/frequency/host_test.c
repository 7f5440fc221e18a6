/* A machine's files below a folder of the test's own: what is read, noted and put back. */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"
#include "frequency/counters.h"
#include "frequency/host.h"

static char root[512], note[600];

static void put(const char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *text, const char *fmt, ...)
{
    char path[1200], name[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    snprintf(path, sizeof path, "%s/%s", root, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_ok(aw_file_mkdirs(path, NULL));
    *slash = '/';
    assert_ok(aw_file_replace(path, text, strlen(text), NULL, NULL));
}

static uint32_t khz(uint32_t policy, const char *file)
{
    char path[1200];
    unsigned value = 0;
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpufreq/policy%u/%s", root, policy, file);
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%u", &value), 1);
    fclose(in);
    return value;
}

static void policy_put(uint32_t policy, const char *file, const char *text)
{
    put(text, "devices/system/cpu/cpufreq/policy%u/%s", policy, file);
}

static int tree_open(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/aware-host-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(note, sizeof note, "%s/note.json", root);
    for (uint32_t p = 0; p < 2; p++) {
        char cpus[16];
        snprintf(cpus, sizeof cpus, "%u\n", p);
        policy_put(p, "scaling_driver", "intel_pstate\n");
        policy_put(p, "scaling_governor", "powersave\n");
        policy_put(p, "energy_performance_preference", "balance_power\n");
        policy_put(p, "affected_cpus", cpus);
        policy_put(p, "cpuinfo_min_freq", "800000\n");
        policy_put(p, "cpuinfo_max_freq", "3600000\n");
        policy_put(p, "base_frequency", "2400000\n");
        policy_put(p, "scaling_max_freq", p ? "3300000\n" : "3600000\n");
        policy_put(p, "scaling_min_freq", "1000000\n");
    }
    put("active\n", "devices/system/cpu/intel_pstate/status");
    put("0\n", "devices/system/cpu/intel_pstate/no_turbo");
    put("3\n", "devices/system/cpu/cpu0/thermal_throttle/core_throttle_count");
    put("4\n", "devices/system/cpu/cpu1/thermal_throttle/core_throttle_count");
    put("262143000000\n", "class/powercap/intel-rapl:0/max_energy_range_uj");
    put("262142000000\n", "class/powercap/intel-rapl:0/energy_uj");
    return 0;
}

static int tree_close(void **state)
{
    char command[600];
    (void)state;
    snprintf(command, sizeof command, "%s", root);
    const pid_t pid = fork();
    if (!pid) {
        execlp("rm", "rm", "-rf", command, (char *)NULL);
        _exit(1);
    }
    int status;
    return waitpid(pid, &status, 0) == pid ? 0 : -1;
}

static void a_probe_says_what_there_is(void **state)
{
    struct aw_host host;
    (void)state;
    assert_ok(aw_host_probe(root, &host, NULL));
    assert_int_equal(host.count, 2);
    assert_string_equal(host.policy[1].driver, "intel_pstate");
    assert_string_equal(host.driver_status, "active");
    assert_int_equal(host.policy[0].base_khz, 2400000);
    assert_int_equal(host.policy[1].cap_khz, 3300000);
    assert_true(host.turbo_known && host.turbo && host.energy);
    assert_int_equal(host.throttles, 7);
    assert_non_null(strstr(host.policy[0].why, "scaling_setspeed is not honoured"));
}

static void a_machine_without_policies_is_told_in_a_sentence(void **state)
{
    struct aw_host host;
    struct aw_diag diag;
    (void)state;
    assert_int_equal(aw_host_probe("/nowhere", &host, &diag), AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "virtual machines show none"));
}

static void what_was_found_is_put_back(void **state)
{
    struct aw_host host;
    struct aw_host_restored restored;
    (void)state;
    assert_ok(aw_host_probe(root, &host, NULL));
    assert_ok(aw_host_note(&host, root, note, NULL));
    policy_put(0, "scaling_max_freq", "900000\n");
    policy_put(0, "scaling_min_freq", "800000\n");
    /* a second run must not take what the first one set for what was found */
    assert_ok(aw_host_probe(root, &host, NULL));
    assert_int_equal(aw_host_note(&host, root, note, NULL), AW_ERR_EXISTS);
    assert_ok(aw_host_restore(note, &restored, NULL));
    assert_int_equal(restored.policies, 2);
    assert_int_equal(restored.changed, 1);
    assert_int_equal(khz(0, "scaling_max_freq"), 3600000);
    assert_int_equal(khz(0, "scaling_min_freq"), 1000000);
    assert_int_equal(khz(1, "scaling_max_freq"), 3300000);
    assert_ok(aw_host_restore(note, &restored, NULL)); /* and once more: nothing to do */
    assert_int_equal(restored.policies, 0);
}

static void a_run_that_was_killed_is_put_back(void **state)
{
    struct aw_host_restored restored;
    int status;
    (void)state;
    const pid_t pid = fork();
    if (!pid) {
        struct aw_host host;
        if (aw_host_probe(root, &host, NULL) || aw_host_note(&host, root, note, NULL))
            _exit(1);
        policy_put(1, "scaling_max_freq", "800000\n");
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(khz(1, "scaling_max_freq"), 800000);
    assert_ok(aw_host_restore(note, &restored, NULL));
    assert_int_equal(khz(1, "scaling_max_freq"), 3300000);
}

static void a_policy_that_refuses_keeps_the_note(void **state)
{
    struct aw_host host;
    struct aw_host_restored restored;
    struct aw_diag diag;
    char path[1200], moved[1300];
    (void)state;
    assert_ok(aw_host_probe(root, &host, NULL));
    assert_ok(aw_host_note(&host, root, note, NULL));
    /* a driver that takes nothing: writing is refused */
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpufreq/policy0/scaling_max_freq", root);
    snprintf(moved, sizeof moved, "%s.away", path);
    assert_int_equal(rename(path, moved), 0);
    assert_ok(aw_file_mkdirs(path, NULL));
    assert_int_equal(aw_host_restore(note, &restored, &diag), AW_ERR_CONFLICT);
    assert_int_equal(access(note, F_OK), 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(moved, path), 0);
    assert_ok(aw_host_restore(note, &restored, NULL));
    assert_int_not_equal(access(note, F_OK), 0);
}

static void energy_goes_on_over_a_wrap(void **state)
{
    struct aw_host_energy energy;
    (void)state;
    assert_true(aw_host_energy_open(&energy, root));
    put("262142500000\n", "class/powercap/intel-rapl:0/energy_uj");
    assert_close(aw_host_energy_read(&energy, root), 0.5, 1e-9);
    put("1500000\n", "class/powercap/intel-rapl:0/energy_uj");
    assert_close(aw_host_energy_read(&energy, root), 2, 1e-9);
}

static void counters_are_scaled_and_never_run_backwards(void **state)
{
    const uint64_t before[3] = {1000, 100, 100}, half[3] = {2000, 300, 200},
                   back[3] = {900, 400, 400};
    double difference, share;
    (void)state;
    assert_true(aw_counter_difference(before, half, &difference, &share));
    assert_close(difference, 2000, 1e-9); /* it ran half of the time */
    assert_close(share, 0.5, 1e-9);
    assert_false(aw_counter_difference(before, back, &difference, &share));
}

AW_TEST_GROUP("frequency-host")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_probe_says_what_there_is, tree_open, tree_close),
        cmocka_unit_test(a_machine_without_policies_is_told_in_a_sentence),
        cmocka_unit_test_setup_teardown(what_was_found_is_put_back, tree_open, tree_close),
        cmocka_unit_test_setup_teardown(a_run_that_was_killed_is_put_back, tree_open, tree_close),
        cmocka_unit_test_setup_teardown(a_policy_that_refuses_keeps_the_note, tree_open,
                                        tree_close),
        cmocka_unit_test_setup_teardown(energy_goes_on_over_a_wrap, tree_open, tree_close),
        cmocka_unit_test(counters_are_scaled_and_never_run_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
