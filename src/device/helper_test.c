/* helper_test.c - clocks go back however a controller ends: close, SIGKILL, silence; and what a
 * killed helper left is mended by the next. */
#include "device/nvml_testing.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file.h"
#include "device/devices.h"
#include "device/helper.h"

#define PATIENCE_MS 20000

static bool waited_for(const volatile uint32_t *what, uint32_t value)
{
    for (int ms = 0; ms < PATIENCE_MS && *what != value; ms += 5)
        (void)poll(NULL, 0, 5);
    return *what == value;
}

static void closing_the_devices_of_a_helper_resets_what_was_set(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    assert_ok(aw_device_helper_spawn(w.spec, &(struct aw_device_helper_config){0}, NULL, &d, NULL));
    assert_int_equal(d.ops->count(d.self), FAKE_NVML_GPUS);
    assert_ok(d.ops->set_clock(d.self, 0, 705, 0, NULL));
    assert_int_equal(w.fake->gpu[0].locked_mhz, 705);
    aw_devices_close(&d); /* returns when the helper has ended */
    assert_int_equal(w.fake->gpu[0].locked_mhz, 0);
    assert_int_equal(w.fake->gpu[1].unlocks, 0); /* what was not touched is left alone */
    nvml_world_end(&w);
}

static void a_controller_killed_with_sigkill_leaves_no_clock_behind(void **state)
{
    struct nvml_world w;
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    const pid_t pid = fork();
    if (!pid) { /* the controller */
        struct aw_devices d;
        if (aw_device_helper_spawn(w.spec, &(struct aw_device_helper_config){0}, NULL, &d, NULL) ||
            d.ops->set_clock(d.self, 0, 705, 0, NULL) ||
            d.ops->set_limit(d.self, 1, 150000, 0, NULL))
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(waited_for(&w.fake->gpu[1].limit_mw, 150000));
    assert_int_equal(w.fake->gpu[0].locked_mhz, 705);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(waited_for(&w.fake->gpu[0].locked_mhz, 0));
    assert_true(waited_for(&w.fake->gpu[1].limit_mw, 300000));
    nvml_world_end(&w);
}

static void a_silent_controller_loses_its_clocks_and_may_set_again(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    const struct aw_device_helper_config config = {.watchdog_us = 300000};
    assert_ok(aw_device_helper_spawn(w.spec, &config, NULL, &d, NULL));
    assert_ok(d.ops->set_clock(d.self, 0, 705, 0, NULL));
    for (int i = 0; i < 8; i++) { /* longer than the watchdog, and never silent */
        (void)poll(NULL, 0, 100);
        aw_device_helper_beat(&d);
    }
    assert_int_equal(w.fake->gpu[0].unlocks, 0);
    assert_true(waited_for(&w.fake->gpu[0].unlocks, 1));
    assert_int_equal(w.fake->gpu[0].locked_mhz, 0);
    assert_ok(d.ops->set_clock(d.self, 0, 810, 0, NULL));
    assert_int_equal(w.fake->gpu[0].locked_mhz, 810);
    aw_devices_close(&d);
    assert_int_equal(w.fake->gpu[0].locked_mhz, 0);
    nvml_world_end(&w);
}

static void errors_of_the_library_cross_the_wire(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    struct aw_diag diag = {0};
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    assert_int_equal(aw_device_helper_spawn("nvml:/nowhere", &(struct aw_device_helper_config){0},
                                            NULL, &d, &diag),
                     AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "cannot be loaded"));
    assert_ok(aw_device_helper_spawn(w.spec, &(struct aw_device_helper_config){0}, NULL, &d, NULL));
    assert_int_equal(d.ops->set_clock(d.self, 0, 9000, 0, &diag), AW_ERR_RANGE);
    w.fake->set_code = 4;
    assert_int_equal(d.ops->set_clock(d.self, 0, 705, 0, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "CAP_SYS_ADMIN"));
    w.fake->set_code = 0;
    aw_devices_close(&d);
    nvml_world_end(&w);
}

/* A helper at a socket, as a unit of systemd would start it. */
static pid_t helper_start(const struct nvml_world *w, const char *socket_path, const char *noted)
{
    const pid_t pid = fork();
    if (pid)
        return pid;
    struct aw_devices d;
    int fd;
    const struct aw_device_helper_config config = {.state_path = noted};
    if (aw_devices_open(w->spec, NULL, &d, NULL) ||
        aw_device_helper_listen(socket_path, &fd, NULL) ||
        aw_device_helper_serve(&d, fd, -1, &config, NULL))
        _exit(1);
    _exit(0);
}

static void connected(const char *socket_path, struct aw_devices *d)
{
    enum aw_err err = AW_ERR_UNAVAILABLE;
    for (int ms = 0; ms < PATIENCE_MS && err; ms += 10) {
        (void)poll(NULL, 0, 10);
        err = aw_device_helper_connect(socket_path, NULL, d, NULL);
    }
    assert_ok(err);
}

static void one_client_controls_and_others_may_read(void **state)
{
    struct nvml_world w;
    struct aw_devices a, b;
    struct aw_device_reading r;
    struct aw_diag diag = {0};
    char path[80];
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    snprintf(path, sizeof path, "%s.sock", w.path);
    const pid_t pid = helper_start(&w, path, NULL);
    connected(path, &a);
    connected(path, &b);
    assert_ok(a.ops->set_clock(a.self, 0, 705, 0, NULL));
    assert_ok(b.ops->read(b.self, 0, 0, &r, NULL));
    assert_int_equal(r.clock_mhz, 705);
    assert_int_equal(b.ops->set_clock(b.self, 0, 810, 0, &diag), AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "controls these devices already"));
    aw_devices_close(&b); /* a reader that leaves resets nothing */
    assert_ok(a.ops->read(a.self, 0, 0, &r, NULL));
    assert_int_equal(r.clock_mhz, 705);
    aw_devices_close(&a);
    assert_true(waited_for(&w.fake->gpu[0].locked_mhz, 0));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unlink(path);
    nvml_world_end(&w);
}

static void what_a_killed_helper_left_is_mended_by_the_next(void **state)
{
    struct nvml_world w;
    struct aw_devices a;
    struct aw_diag diag = {0};
    char path[80], noted[80];
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    snprintf(path, sizeof path, "%s.sock", w.path);
    snprintf(noted, sizeof noted, "%s.touched", w.path);
    pid_t pid = helper_start(&w, path, noted);
    connected(path, &a);
    assert_ok(a.ops->set_clock(a.self, 1, 705, 0, NULL));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(w.fake->gpu[1].locked_mhz, 705); /* nobody was left to reset it */
    assert_int_equal(a.ops->set_clock(a.self, 1, 810, 0, &diag), AW_ERR_UNAVAILABLE);
    aw_devices_close(&a);
    pid = helper_start(&w, path, noted); /* the stale socket is replaced */
    assert_true(waited_for(&w.fake->gpu[1].locked_mhz, 0));
    assert_int_equal(w.fake->gpu[0].unlocks, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unlink(path);
    unlink(noted);
    nvml_world_end(&w);
}

static void cap_is(const char *path, char *ret, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    if (!fgets(ret, (int)size, file)) /* a file is empty for a moment, as one of sysfs never is */
        snprintf(ret, size, "0");
    fclose(file);
}

/* cpufreq has no clock of its own to go back to: what it had is in the note alone. */
static void a_policy_of_a_killed_helper_gets_back_the_cap_that_it_had(void **state)
{
    static const char *const files[][2] = {{"cpuinfo_min_freq", "800000\n"},
                                           {"cpuinfo_max_freq", "3000000\n"},
                                           {"scaling_max_freq", "2500000\n"},
                                           {"scaling_cur_freq", "2500000\n"}};
    char root[] = "/tmp/aware-helper-XXXXXX", folder[200], path[300], sock[80], noted[80], text[32];
    struct nvml_world w = {0};
    struct aw_devices d;
    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/devices/system/cpu/cpufreq/policy0", root);
    assert_ok(aw_file_mkdirs(folder, NULL));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        assert_ok(aw_file_replace(path, files[i][1], strlen(files[i][1]), NULL, NULL));
    }
    snprintf(path, sizeof path, "%s/scaling_max_freq", folder);
    snprintf(w.spec, sizeof w.spec, "cpufreq:%s", root);
    snprintf(sock, sizeof sock, "%s/sock", root);
    snprintf(noted, sizeof noted, "%s/noted", root);
    for (int killed = 2; killed >= 0; killed--) { /* twice in a row, then it ends well */
        const pid_t pid = helper_start(&w, sock, noted);
        connected(sock, &d);
        assert_ok(d.ops->set_clock(d.self, 0, 1000u + (uint32_t)killed, 0, NULL));
        cap_is(path, text, sizeof text);
        assert_int_equal(strtol(text, NULL, 10), 1000000 + 1000 * killed);
        if (killed) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            aw_devices_close(&d);
            continue;
        }
        aw_devices_close(&d);
        for (int ms = 0; ms < PATIENCE_MS && strtol(text, NULL, 10) != 2500000; ms += 5) {
            (void)poll(NULL, 0, 5);
            cap_is(path, text, sizeof text);
        }
        assert_int_equal(strtol(text, NULL, 10), 2500000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    const pid_t rm = fork();
    if (!rm) {
        execlp("rm", "rm", "-rf", root, (char *)NULL);
        _exit(1);
    }
    waitpid(rm, NULL, 0);
}

AW_TEST_GROUP("device-helper")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_the_devices_of_a_helper_resets_what_was_set),
        cmocka_unit_test(a_controller_killed_with_sigkill_leaves_no_clock_behind),
        cmocka_unit_test(a_silent_controller_loses_its_clocks_and_may_set_again),
        cmocka_unit_test(errors_of_the_library_cross_the_wire),
        cmocka_unit_test(one_client_controls_and_others_may_read),
        cmocka_unit_test(what_a_killed_helper_left_is_mended_by_the_next),
        cmocka_unit_test(a_policy_of_a_killed_helper_gets_back_the_cap_that_it_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
