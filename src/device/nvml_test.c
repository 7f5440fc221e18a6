/* nvml_test.c - the backend for NVIDIA GPUs against a fake of the library, through its real ABI. */
#include "device/nvml_testing.h"

#include <string.h>

#include "device/devices.h"
#include "device/setter.h"

static void the_fake_gpus_are_listed_with_rising_clocks_and_limits(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    struct aw_device_info info;
    struct aw_device_reading r;
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    assert_ok(aw_devices_open(w.spec, NULL, &d, NULL));
    assert_int_equal(d.ops->count(d.self), FAKE_NVML_GPUS);
    assert_ok(d.ops->describe(d.self, 1, &info, NULL));
    assert_string_equal(info.id, "GPU-00000000-0000-0000-0000-000000000001");
    assert_int_equal(info.clock_count, 167);
    assert_int_equal(info.clock_mhz[0], 135);
    assert_int_equal(info.clock_mhz_max, 1380);
    assert_int_equal(info.limit_mw_default, 300000);
    assert_true(info.capabilities & AW_DEVICE_SETS_CLOCK);
    w.fake->energy_mj = 5000000000ull; /* more than 32 bits of anything */
    assert_ok(d.ops->read(d.self, 1, 42, &r, NULL));
    assert_int_equal(r.energy_uj, 5000000000000ull);
    assert_int_equal(r.clock_mhz, 1380);
    assert_int_equal(r.power_mw, 120000);
    assert_true(r.known & AW_DEVICE_REASONS);                         /* by their old name */
    assert_false(r.known & (AW_DEVICE_BUSY | AW_DEVICE_TEMPERATURE)); /* symbols it lacks */
    aw_devices_close(&d);
    nvml_world_end(&w);
}

static void a_clock_and_a_limit_are_set_and_reset(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    assert_ok(aw_devices_open(w.spec, NULL, &d, NULL));
    assert_ok(d.ops->set_clock(d.self, 0, 705, 0, NULL));
    assert_ok(d.ops->set_limit(d.self, 0, 150000, 0, NULL));
    assert_int_equal(w.fake->gpu[0].locked_mhz, 705);
    assert_int_equal(w.fake->gpu[0].limit_mw, 150000);
    assert_int_equal(d.ops->set_clock(d.self, 0, 706, 0, NULL), AW_ERR_RANGE);
    assert_int_equal(d.ops->set_limit(d.self, 0, 99999, 0, NULL), AW_ERR_RANGE);
    assert_ok(d.ops->reset(d.self, 0, 0, NULL));
    assert_int_equal(w.fake->gpu[0].locked_mhz, 0);
    assert_int_equal(w.fake->gpu[0].limit_mw, 300000);
    assert_int_equal(w.fake->gpu[1].unlocks, 0);
    aw_devices_close(&d);
    nvml_world_end(&w);
}

static void every_code_of_the_library_becomes_a_sentence(void **state)
{
    static const struct {
        int init, set;
        enum aw_err err;
        const char *says;
    } cases[] = {
        {9, 0, AW_ERR_UNAVAILABLE, "modprobe nvidia"},
        {18, 0, AW_ERR_UNAVAILABLE, "different versions"},
        {999, 0, AW_ERR_UNAVAILABLE, "999"},
        {0, 4, AW_ERR_UNSUPPORTED, "root or CAP_SYS_ADMIN"},
        {0, 3, AW_ERR_UNSUPPORTED, "Volta"},
        {0, 2, AW_ERR_RANGE, "refuses the value"},
        {0, 15, AW_ERR_UNAVAILABLE, "lost"},
        {0, 999, AW_ERR_UNAVAILABLE, "999"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nvml_world w;
        struct aw_devices d = {0};
        struct aw_diag diag = {0};
        if (!nvml_world_make(&w))
            skip();
        w.fake->init_code = cases[i].init;
        w.fake->set_code = cases[i].set;
        enum aw_err err = aw_devices_open(w.spec, NULL, &d, &diag);
        if (!cases[i].init) {
            assert_ok(err);
            err = d.ops->set_clock(d.self, 0, 705, 0, &diag);
        }
        assert_int_equal(err, cases[i].err);
        if (!strstr(diag.text, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", diag.text, cases[i].says);
        aw_devices_close(&d);
        nvml_world_end(&w);
    }
}

static void without_library_or_gpus_the_sentence_says_what_to_do(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    struct aw_diag diag = {0};
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    assert_int_equal(aw_devices_open("nvml:/nowhere/libnvidia-ml.so.1", NULL, &d, &diag),
                     AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "no NVIDIA driver here"));
    assert_int_equal(aw_devices_open("nvml:libm.so.6", NULL, &d, &diag), AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "is not NVML"));
    w.fake->no_gpus = 1;
    assert_int_equal(aw_devices_open(w.spec, NULL, &d, &diag), AW_ERR_NODATA);
    assert_string_equal(diag.text, "NVML knows no GPU");
    nvml_world_end(&w);
}

static void persistence_and_slices_are_told(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    struct aw_device_info info;
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    w.fake->gpu[0].persistence_off = 1;
    w.fake->gpu[1].mig = 1;
    assert_ok(aw_devices_open(w.spec, NULL, &d, NULL));
    assert_ok(d.ops->describe(d.self, 0, &info, NULL));
    assert_non_null(strstr(info.why, "persistence mode is off"));
    assert_ok(d.ops->describe(d.self, 1, &info, NULL));
    assert_non_null(strstr(info.why, "MIG is on"));
    aw_devices_close(&d);
    nvml_world_end(&w);
}

static void a_lost_neighbour_leaves_the_other_gpu_usable(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    struct aw_device_reading r;
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    w.fake->gpu[0].lost = 1;
    assert_ok(aw_devices_open(w.spec, NULL, &d, NULL));
    assert_int_equal(d.ops->count(d.self), 1);
    assert_ok(d.ops->read(d.self, 0, 0, &r, NULL));
    w.fake->gpu[1].lost = 1;
    assert_int_equal(d.ops->read(d.self, 0, 0, &r, NULL), AW_ERR_UNAVAILABLE);
    aw_devices_close(&d);
    nvml_world_end(&w);
}

static void a_set_that_the_driver_ignores_or_heat_holds_is_seen(void **state)
{
    struct nvml_world w;
    struct aw_devices d;
    struct aw_setter s;
    (void)state;
    if (!nvml_world_make(&w))
        skip();
    assert_ok(aw_devices_open(w.spec, NULL, &d, NULL));
    assert_ok(aw_setter_init(&s, &d, &(struct aw_setter_config){.act = true, .wait_us = 10}, NULL));
    w.fake->ignores = 1;
    aw_setter_want(&s, 0, 705, 0, 0);
    for (int64_t t = 20; t < 200; t += 20)
        aw_setter_step(&s, t);
    assert_int_equal(s.device[0].state, AW_SETTER_IGNORED);
    assert_int_equal(w.fake->gpu[0].locks, 1 + AW_SETTER_TRIES);
    w.fake->ignores = 0;
    w.fake->gpu[0].throttle_mhz = 300;
    aw_setter_want(&s, 0, 810, 0, 200);
    aw_setter_step(&s, 220);
    assert_int_equal(s.device[0].state, AW_SETTER_HELD);
    assert_ok(aw_setter_finish(&s, 300, NULL));
    assert_int_equal(w.fake->gpu[0].locked_mhz, 0);
    aw_devices_close(&d);
    nvml_world_end(&w);
}

AW_TEST_GROUP("device-nvml")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fake_gpus_are_listed_with_rising_clocks_and_limits),
        cmocka_unit_test(a_clock_and_a_limit_are_set_and_reset),
        cmocka_unit_test(every_code_of_the_library_becomes_a_sentence),
        cmocka_unit_test(without_library_or_gpus_the_sentence_says_what_to_do),
        cmocka_unit_test(persistence_and_slices_are_told),
        cmocka_unit_test(a_lost_neighbour_leaves_the_other_gpu_usable),
        cmocka_unit_test(a_set_that_the_driver_ignores_or_heat_holds_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
