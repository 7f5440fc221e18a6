/* device_test.c - every backend keeps the contract; wishes are carried out and read back. */
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "device/devices.h"
#include "device/setter.h"
#include "device/sim.h"

#define MS 1000

static void file_write(const char *path, const char *text)
{
    assert_ok(aw_file_replace(path, text, strlen(text), NULL, NULL));
}

/* A sysfs of two policies; the first has a list of clocks. */
static void sysfs_make(char *root, size_t size)
{
    char path[600];
    snprintf(root, size, "/tmp/aware-device-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (int p = 0; p < 2; p++) {
        snprintf(path, sizeof path, "%s/devices/system/cpu/cpufreq/policy%d", root, p * 4);
        assert_ok(aw_file_mkdirs(path, NULL));
        static const struct {
            const char *name, *text;
        } files[] = {{"cpuinfo_min_freq", "800000\n"},
                     {"cpuinfo_max_freq", "3000000\n"},
                     {"scaling_max_freq", "2800000\n"},
                     {"scaling_cur_freq", "2800000\n"},
                     {"related_cpus", "0 1 2 3\n"},
                     {"cpuinfo_transition_latency", "20000\n"},
                     {"scaling_available_frequencies", "3000000 2800000 800000 1600000 \n"}};
        for (size_t i = 0; i < sizeof files / sizeof *files - (size_t)p; i++) {
            snprintf(path, sizeof path, "%s/devices/system/cpu/cpufreq/policy%d/%s", root, p * 4,
                     files[i].name);
            file_write(path, files[i].text);
        }
    }
    snprintf(path, sizeof path, "%s/class/powercap/intel-rapl:0", root);
    assert_ok(aw_file_mkdirs(path, NULL));
    snprintf(path, sizeof path, "%s/class/powercap/intel-rapl:0/energy_uj", root);
    file_write(path, "900\n");
    snprintf(path, sizeof path, "%s/class/powercap/intel-rapl:0/max_energy_range_uj", root);
    file_write(path, "1000\n");
}

static void text_of(const char *root, const char *file, char *ret, size_t size)
{
    char path[600], *bytes;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", root, file);
    assert_ok(aw_file_read(path, 4096, NULL, &bytes, &len, NULL));
    snprintf(ret, size, "%.*s", (int)strcspn(bytes, "\n"), bytes);
    aw_alloc_free(NULL, bytes);
}

static void tree_remove(const char *root)
{
    char command[600];
    snprintf(command, sizeof command, "%s", root);
    assert_memory_equal(command, "/tmp/aware-device-", 18);
    const pid_t pid = fork();
    if (!pid) {
        execlp("rm", "rm", "-rf", command, (char *)NULL);
        _exit(1);
    }
}

static void keeps_the_contract(struct aw_devices *devices)
{
    const uint32_t count = devices->ops->count(devices->self);
    assert_in_range(count, 1, AW_DEVICES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct aw_device_info info;
        struct aw_device_reading reading;
        assert_ok(devices->ops->describe(devices->self, i, &info, NULL));
        assert_true(*info.id && *info.name);
        for (uint32_t k = 1; k < info.clock_count; k++)
            assert_true(info.clock_mhz[k - 1] < info.clock_mhz[k]);
        assert_ok(devices->ops->read(devices->self, i, 1000, &reading, NULL));
        assert_true(reading.known & AW_DEVICE_CLOCK);
        if (!(info.capabilities & AW_DEVICE_SETS_CLOCK)) {
            assert_int_equal(devices->ops->set_clock(devices->self, i, 1000, 1000, NULL),
                             AW_ERR_UNSUPPORTED);
            continue;
        }
        const uint32_t low = aw_device_clock_near(&info, 0);
        assert_ok(devices->ops->set_clock(devices->self, i, low, 1000, NULL));
        assert_int_equal(
            devices->ops->set_clock(devices->self, i, info.clock_mhz_max + 1, 1000, NULL),
            AW_ERR_RANGE);
        assert_ok(devices->ops->reset(devices->self, i, 2000, NULL));
        assert_ok(devices->ops->reset(devices->self, i, 2000, NULL));
    }
    aw_devices_close(devices);
    aw_devices_close(devices); /* zeroed: a no-op */
}

static void simulated_devices_keep_the_contract(void **state)
{
    (void)state;
    struct aw_devices devices;
    assert_ok(aw_devices_open("sim:3", NULL, &devices, NULL));
    keeps_the_contract(&devices);
}

static void cpufreq_policies_keep_the_contract(void **state)
{
    (void)state;
    char root[64], spec[128];
    struct aw_devices devices;
    sysfs_make(root, sizeof root);
    snprintf(spec, sizeof spec, "cpufreq:%s", root);
    assert_ok(aw_devices_open(spec, NULL, &devices, NULL));
    keeps_the_contract(&devices);
    tree_remove(root);
}

static void a_policy_is_reset_to_what_it_was_and_its_energy_counter_wraps(void **state)
{
    (void)state;
    char root[64], spec[128], text[64], path[200];
    struct aw_devices d;
    struct aw_device_reading before, after;
    sysfs_make(root, sizeof root);
    snprintf(spec, sizeof spec, "cpufreq:%s", root);
    assert_ok(aw_devices_open(spec, NULL, &d, NULL));
    assert_ok(d.ops->read(d.self, 0, 0, &before, NULL));
    assert_ok(d.ops->set_clock(d.self, 0, 1600, 0, NULL));
    text_of(root, "devices/system/cpu/cpufreq/policy0/scaling_max_freq", text, sizeof text);
    assert_string_equal(text, "1600000");
    assert_int_equal(d.ops->set_clock(d.self, 0, 1700, 0, NULL), AW_ERR_RANGE); /* not listed */
    assert_ok(d.ops->set_clock(d.self, 1, 1700, 0, NULL));                      /* has no list */
    assert_ok(d.ops->reset(d.self, 0, 0, NULL));
    text_of(root, "devices/system/cpu/cpufreq/policy0/scaling_max_freq", text, sizeof text);
    assert_string_equal(text, "2800000");
    snprintf(path, sizeof path, "%s/class/powercap/intel-rapl:0/energy_uj", root);
    file_write(path, "100\n"); /* 900, then past 1000 */
    assert_ok(d.ops->read(d.self, 0, 0, &after, NULL));
    assert_int_equal(after.energy_uj - before.energy_uj, 200);
    aw_devices_close(&d);
    tree_remove(root);
}

static void a_recording_shows_again_what_was_recorded(void **state)
{
    (void)state;
    struct aw_devices sim, played;
    struct aw_device_info info;
    struct aw_device_reading reading[3], again;
    char path[] = "/tmp/aware-device-XXXXXX", spec[64], line[AW_DEVICE_CSV_LINE_MAX];
    const int fd = mkstemp(path);
    FILE *out = fdopen(fd, "w");
    assert_non_null(out);
    assert_ok(aw_devices_open("sim", NULL, &sim, NULL));
    assert_ok(sim.ops->describe(sim.self, 0, &info, NULL));
    fprintf(out, "%s\n", AW_DEVICE_CSV_HEAD);
    for (int i = 0; i < 3; i++) {
        assert_ok(sim.ops->set_clock(sim.self, 0, info.clock_mhz[10 * i], i * 100 * MS, NULL));
        assert_ok(sim.ops->read(sim.self, 0, i * 100 * MS + 50 * MS, &reading[i], NULL));
        fprintf(out, "%s\n", aw_device_csv_line(&info, &reading[i], line, sizeof line));
    }
    fclose(out);
    aw_devices_close(&sim);
    snprintf(spec, sizeof spec, "recorded:%s", path);
    assert_ok(aw_devices_open(spec, NULL, &played, NULL));
    for (int i = 0; i < 3; i++) {
        const int64_t at = 77 * MS + i * 100 * MS;
        assert_ok(played.ops->read(played.self, 0, at, &again, NULL));
        reading[i].at_us = at;
        assert_memory_equal(&again, &reading[i], sizeof again);
    }
    aw_devices_close(&played);
    assert_ok(aw_devices_open(spec, NULL, &played, NULL));
    keeps_the_contract(&played);
    unlink(path);
}

static void a_damaged_recording_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t line;
    } cases[] = {
        {"time,watts\n", 1},
        {AW_DEVICE_CSV_HEAD "\n1,a,b,1,2,3,4,5,6\n", 2},
        {AW_DEVICE_CSV_HEAD "\n1,a,b,1,2,3,4,5,6,7,8\n", 2},
        {AW_DEVICE_CSV_HEAD "\n1,a,b,1,2,3,4,5,6,7\n1,a,b,x,2,3,4,5,6,7\n", 3},
        {AW_DEVICE_CSV_HEAD "\n2,a,b,,,,,,,\n1,a,b,,,,,,,\n", 3},
    };
    char path[] = "/tmp/aware-device-XXXXXX", spec[64];
    close(mkstemp(path));
    snprintf(spec, sizeof spec, "recorded:%s", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_devices devices;
        struct aw_diag diag = {0};
        file_write(path, cases[i].text);
        assert_int_equal(aw_devices_open(spec, NULL, &devices, &diag), AW_ERR_FORMAT);
        assert_int_equal(diag.line, cases[i].line);
    }
    unlink(path);
}

struct world {
    struct aw_device_sim *sim;
    struct aw_devices devices;
    struct aw_setter setter;
};

static void world_make(struct world *w, bool act)
{
    const struct aw_device_sim_config config = {.count = 2, .switch_us = 20 * MS};
    assert_ok(aw_device_sim_new(&config, NULL, &w->sim));
    w->devices = aw_device_sim_devices(w->sim);
    assert_ok(
        aw_setter_init(&w->setter, &w->devices, &(struct aw_setter_config){.act = act}, NULL));
    aw_device_sim_busy(w->sim, 0, 1000, 0);
}

static void a_dry_run_sets_nothing(void **state)
{
    (void)state;
    struct world w;
    world_make(&w, false);
    aw_setter_want(&w.setter, 0, 705, 150000, 0);
    aw_setter_step(&w.setter, 100 * MS);
    assert_int_equal(w.setter.device[0].state, AW_SETTER_DRY);
    assert_int_equal(w.setter.device[0].reading.clock_mhz, 1380);
    assert_int_equal(w.setter.sets, 0);
    assert_ok(aw_setter_finish(&w.setter, 100 * MS, NULL));
    aw_devices_close(&w.devices);
}

static void a_set_is_on_its_way_until_the_clock_is_seen_to_move(void **state)
{
    (void)state;
    struct world w;
    world_make(&w, true);
    aw_setter_want(&w.setter, 0, 705, 0, 0);
    aw_setter_step(&w.setter, 5 * MS);
    assert_int_equal(w.setter.device[0].state, AW_SETTER_MOVING);
    aw_setter_step(&w.setter, 25 * MS);
    assert_int_equal(w.setter.device[0].state, AW_SETTER_DONE);
    assert_int_equal(w.setter.device[0].moved_us, 25 * MS);
    assert_int_equal(w.setter.device[1].state, AW_SETTER_FREE);
    aw_setter_want(&w.setter, 0, 705, 0, 30 * MS); /* the same wish is no second call */
    assert_int_equal(w.setter.sets, 1);
    assert_ok(aw_setter_finish(&w.setter, 40 * MS, NULL));
    aw_setter_step(&w.setter, 100 * MS);
    assert_int_equal(w.setter.device[0].reading.clock_mhz, 1380);
    aw_devices_close(&w.devices);
}

static void what_goes_wrong_with_a_set_is_told_apart(void **state)
{
    (void)state;
    static const struct {
        struct aw_device_sim_fault fault;
        enum aw_setter_state state;
        const char *why;
    } cases[] = {
        {{.ignores = true}, AW_SETTER_IGNORED, "it never moves"},
        {{.throttled_mhz = 500}, AW_SETTER_HELD, "heat holds it below"},
        {{.no_permission = true}, AW_SETTER_REFUSED, "only root may"},
        {{.lost = true}, AW_SETTER_LOST, "it fell off the bus"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        world_make(&w, true);
        aw_device_sim_fault(w.sim, 0, &cases[i].fault);
        aw_setter_want(&w.setter, 0, 705, 0, 0);
        for (int64_t t = 10 * MS; t < 2000 * MS; t += 10 * MS)
            aw_setter_step(&w.setter, t);
        assert_int_equal(w.setter.device[0].state, cases[i].state);
        if (cases[i].fault.ignores)
            assert_int_equal(w.setter.again, AW_SETTER_TRIES);
        aw_devices_close(&w.devices);
    }
}

static void a_clock_that_moves_away_is_set_again(void **state)
{
    (void)state;
    struct world w;
    world_make(&w, true);
    aw_setter_want(&w.setter, 0, 705, 0, 0);
    aw_setter_step(&w.setter, 50 * MS);
    assert_int_equal(w.setter.device[0].state, AW_SETTER_DONE);
    assert_ok(w.devices.ops->reset(w.devices.self, 0, 60 * MS, NULL)); /* a driver loaded anew */
    aw_setter_step(&w.setter, 90 * MS);
    aw_setter_step(&w.setter, 150 * MS);
    assert_int_equal(w.setter.device[0].state, AW_SETTER_DONE);
    assert_int_equal(w.setter.device[0].reading.clock_mhz, 705);
    assert_int_equal(w.setter.again, 1);
    aw_devices_close(&w.devices);
}

static void simulated_energy_is_the_integral_of_simulated_power(void **state)
{
    (void)state;
    struct world w;
    struct aw_device_reading r, last;
    double sum = 0;
    world_make(&w, true);
    assert_ok(w.devices.ops->read(w.devices.self, 0, 0, &last, NULL));
    for (int64_t t = MS; t <= 500 * MS; t += MS) {
        if (t == 100 * MS)
            assert_ok(w.devices.ops->set_clock(w.devices.self, 0, 705, t, NULL));
        assert_ok(w.devices.ops->read(w.devices.self, 0, t, &r, NULL));
        sum += last.power_mw * 1.0;
        last = r;
    }
    assert_close((double)r.energy_uj, sum, 1e-3);
    aw_devices_close(&w.devices);
}

static void a_backend_that_nobody_knows_is_refused_with_those_there_are(void **state)
{
    (void)state;
    struct aw_devices devices;
    struct aw_diag diag = {0};
    assert_int_equal(aw_devices_open("rocm", NULL, &devices, &diag), AW_ERR_USAGE);
    assert_non_null(strstr(diag.text, "recorded:FILE"));
    assert_int_equal(aw_devices_open("sim:0", NULL, &devices, &diag), AW_ERR_USAGE);
    assert_int_equal(aw_devices_open("sim:65", NULL, &devices, &diag), AW_ERR_USAGE);
    assert_int_equal(aw_devices_open("cpufreq:/nowhere", NULL, &devices, &diag),
                     AW_ERR_UNAVAILABLE);
}

AW_TEST_GROUP("device")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulated_devices_keep_the_contract),
        cmocka_unit_test(cpufreq_policies_keep_the_contract),
        cmocka_unit_test(a_policy_is_reset_to_what_it_was_and_its_energy_counter_wraps),
        cmocka_unit_test(a_recording_shows_again_what_was_recorded),
        cmocka_unit_test(a_damaged_recording_is_refused_with_its_line),
        cmocka_unit_test(a_dry_run_sets_nothing),
        cmocka_unit_test(a_set_is_on_its_way_until_the_clock_is_seen_to_move),
        cmocka_unit_test(what_goes_wrong_with_a_set_is_told_apart),
        cmocka_unit_test(a_clock_that_moves_away_is_set_again),
        cmocka_unit_test(simulated_energy_is_the_integral_of_simulated_power),
        cmocka_unit_test(a_backend_that_nobody_knows_is_refused_with_those_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
