/* power_test.c - clocks follow the slack of a stand-in model server whose speed follows them; and
 * whatever goes wrong, they go up. */
#include "proxy/proxy_testing.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "audit/audit.h"
#include "base/alloc.h"
#include "device/sim.h"

#define TOKENS "x-tokens: 20\r\nx-seed: 1\r\n"
#define BODY   "{\"stream\":true,\"prompt\":\"how are you\"}"

/* A simulated GPU that tells the stand-in its clock, and a test what was done to it. */
struct card {
    struct aw_devices sim;
    struct aw_device_sim *world;
    struct aw_device_ops ops;
    _Atomic uint32_t permille, sets, resets, lowest_mhz, fault; /* fault: 1 lost, 2 refuses */
};

static struct card card;

static uint32_t card_count(void *self)
{
    (void)self;
    return card.sim.ops->count(card.sim.self);
}

static enum aw_err card_describe(void *self, uint32_t i, struct aw_device_info *ret,
                                 struct aw_diag *diag)
{
    (void)self;
    return card.sim.ops->describe(card.sim.self, i, ret, diag);
}

static enum aw_err card_read(void *self, uint32_t i, int64_t now_us, struct aw_device_reading *ret,
                             struct aw_diag *diag)
{
    (void)self;
    const struct aw_device_sim_fault fault = {.lost = card.fault == 1,
                                              .no_permission = card.fault == 2};
    aw_device_sim_fault(card.world, i, &fault);
    const enum aw_err err = card.sim.ops->read(card.sim.self, i, now_us, ret, diag);
    if (!err && i == 0)
        card.permille = ret->clock_mhz * 1000 / 1380;
    return err;
}

static enum aw_err card_clock(void *self, uint32_t i, uint32_t mhz, int64_t now_us,
                              struct aw_diag *diag)
{
    (void)self;
    card.sets++;
    const enum aw_err err = card.sim.ops->set_clock(card.sim.self, i, mhz, now_us, diag);
    if (!err && mhz < card.lowest_mhz)
        card.lowest_mhz = mhz;
    return err;
}

static enum aw_err card_limit(void *self, uint32_t i, uint32_t mw, int64_t now_us,
                              struct aw_diag *diag)
{
    (void)self;
    return card.sim.ops->set_limit(card.sim.self, i, mw, now_us, diag);
}

static enum aw_err card_reset(void *self, uint32_t i, int64_t now_us, struct aw_diag *diag)
{
    (void)self;
    card.resets++;
    return card.sim.ops->reset(card.sim.self, i, now_us, diag);
}

static void card_close(void *self)
{
    (void)self;
}

static struct aw_devices card_make(uint32_t count)
{
    const struct aw_device_sim_config config = {.count = count};
    card = (struct card){.permille = 1000, .lowest_mhz = UINT32_MAX};
    assert_ok(aw_device_sim_new(&config, NULL, &card.world));
    card.sim = aw_device_sim_devices(card.world);
    card.ops = (struct aw_device_ops){.name = "card",
                                      .count = card_count,
                                      .describe = card_describe,
                                      .read = card_read,
                                      .set_clock = card_clock,
                                      .set_limit = card_limit,
                                      .reset = card_reset,
                                      .close = card_close};
    return (struct aw_devices){&card.ops, NULL};
}

struct stage {
    struct scene scene;
    struct aw_devices devices;
    struct aw_audit *audit;
    char folder[64];
};

static void stage_make(struct stage *st, uint32_t rule, bool act, double cap_w, uint32_t count)
{
    const struct aw_standin_config model = {
        .decode_us = 4000, .slots = 4, .clock_permille = &card.permille};
    const struct aw_audit_config audit = {.no_sync = true};
    *st = (struct stage){.devices = card_make(count)};
    snprintf(st->folder, sizeof st->folder, "/tmp/aware-clocks-XXXXXX");
    assert_non_null(mkdtemp(st->folder));
    assert_ok(aw_audit_open(&st->audit, NULL, st->folder, &audit, NULL, NULL, NULL));
    struct aw_proxy_config config = {.devices = &st->devices,
                                     .slots = 4,
                                     .power = {.on = true,
                                               .act = act,
                                               .rule = aw_power_defaults,
                                               .latency_s = 2,
                                               .cap_w = cap_w,
                                               .audit = st->audit}};
    config.power.rule.rule = rule;
    config.power.rule.tick_s = 0.1; /* faster than in life: a test waits for it */
    scene_make(&st->scene, &config, &model, 1);
}

struct lines {
    uint32_t count;
    bool raised; /* to the largest clock: before the SLO was missed, or when it was */
};

static enum aw_err line_see(void *ctx, const struct aw_audit_entry *entry)
{
    struct lines *lines = ctx;
    assert_string_equal(entry->kind, "clock");
    lines->count++;
    lines->raised |= memmem(entry->line, entry->line_len, "\"to_mhz\":1380", 13) != NULL;
    return AW_OK;
}

/* Ends everything; the log has to hold. */
static struct lines stage_end(struct stage *st)
{
    struct lines lines = {0};
    struct aw_audit_report report;
    scene_end(&st->scene);
    aw_audit_close(st->audit);
    const enum aw_err err =
        aw_audit_verify(NULL, st->folder, NULL, line_see, &lines, NULL, &report, NULL);
    if (err != AW_ERR_NOTFOUND) /* a log without a line is none */
        assert_ok(err);
    card.sim.ops->close(card.sim.self);
    const pid_t pid = fork();
    if (!pid) {
        execlp("rm", "rm", "-rf", st->folder, (char *)NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return lines;
}

static void serve(const struct stage *st, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct answer a;
        ask_once(aw_proxy_port(st->scene.proxy), TOKENS, BODY, &a);
        assert_int_equal(a.status, 200);
        answer_free(&a);
    }
}

/* Waits until the page of clocks has the words. */
static bool page_says(const struct stage *st, const char *words)
{
    for (uint32_t i = 0; i < 200; i++) {
        char *page = page_get(aw_proxy_port(st->scene.proxy), "/aware/clocks");
        const bool there = strstr(page, words) != NULL;
        free(page);
        if (there)
            return true;
        (void)poll(NULL, 0, 50);
    }
    return false;
}

static void clocks_fall_with_slack_and_rise_at_once_when_an_slo_is_missed(void **state)
{
    static const uint32_t rules[] = {AW_POWER_MIAD, AW_POWER_PREDICTIVE};
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        struct stage st;
        struct answer a;
        stage_make(&st, rules[k], true, 0, 1);
        serve(&st, 20);
        assert_true(card.lowest_mhz < 1000); /* twenty times the time that an answer needs */
        ask_once(aw_proxy_port(st.scene.proxy), "x-tokens: 800\r\nx-seed: 2\r\n", BODY, &a);
        assert_true(a.complete);
        answer_free(&a);
        char *page = page_get(aw_proxy_port(st.scene.proxy), "/aware/clocks");
        assert_non_null(strstr(page, "\"wanted_mhz\":1380"));
        assert_non_null(strstr(page, "an SLO was missed"));
        free(page);
        assert_true(page_figure(aw_proxy_port(st.scene.proxy), "aware_proxy_clock_changes_total") >=
                    5);
        const struct lines lines = stage_end(&st);
        assert_true(lines.count >= 5 && lines.raised);
        assert_true(card.resets == 1); /* and at the end the clock is the system's again */
    }
}

static void nothing_is_set_in_a_dry_run_and_all_is_recorded(void **state)
{
    struct stage st;
    (void)state;
    stage_make(&st, AW_POWER_PREDICTIVE, false, 0, 1);
    serve(&st, 15);
    assert_true(page_says(&st, "would be set to"));
    assert_true(page_says(&st, "IDLE"));
    const struct lines lines = stage_end(&st);
    assert_true(lines.count > 0);
    assert_true(card.sets == 0 && card.resets == 0);
}

static void a_lost_device_and_a_refused_set_keep_the_clock_up(void **state)
{
    static const char *const words[] = {"the device does not answer", "refused or ignored"};
    (void)state;
    for (uint32_t fault = 1; fault <= 2; fault++) {
        struct stage st;
        stage_make(&st, AW_POWER_RACE, true, 0, 1);
        serve(&st, 3);
        assert_true(page_says(&st, "\"reason\":\"IDLE\""));
        card.fault = fault;
        if (fault == 2)
            serve(&st, 2); /* a set is tried, and refused */
        assert_true(page_says(&st, words[fault - 1]));
        assert_true(page_says(&st, "\"wanted_mhz\":1380"));
        card.fault = 0;
        (void)stage_end(&st);
    }
}

static void a_server_that_is_down_keeps_the_clock_up(void **state)
{
    struct stage st;
    (void)state;
    stage_make(&st, AW_POWER_RACE, true, 0, 1);
    serve(&st, 3);
    assert_true(page_says(&st, "\"reason\":\"IDLE\""));
    aw_standin_stop(st.scene.model[0]);
    st.scene.model[0] = NULL;
    assert_true(page_says(&st, "does not answer its health checks"));
    assert_true(page_says(&st, "\"wanted_mhz\":1380"));
    (void)stage_end(&st);
}

static void two_devices_stay_below_the_cap_while_they_want_more(void **state)
{
    struct stage st;
    (void)state;
    stage_make(&st, AW_POWER_FIXED, true, 400, 2);
    serve(&st, 10);
    assert_true(page_says(&st, "\"reason\":\"CAP\""));
    assert_true(page_figure(aw_proxy_port(st.scene.proxy), "aware_proxy_cap_kept") > 0);
    /* 45 W + 255 W x clock, a tenth on top, for each of two: below 400 W is below .54 */
    double sum = 0;
    for (uint32_t d = 0; d < 2; d++) {
        char name[64];
        snprintf(name, sizeof name, "aware_proxy_clock_mhz{device=\"sim%u\"}", d);
        sum += 1.1 * (45 + 255 * page_figure(aw_proxy_port(st.scene.proxy), name) / 1380);
    }
    assert_true(sum <= 400 && sum > 330);
    (void)stage_end(&st);
}

static void clocks_without_devices_or_a_record_are_refused(void **state)
{
    struct aw_proxy_config config = {.upstream_count = 1, .power = {.on = true}};
    struct aw_proxy *proxy = NULL;
    struct aw_diag diag = {0};
    (void)state;
    assert_ok(aw_listen_auth_parse(&config.door, "127.0.0.1:0", NULL));
    config.power.rule = aw_power_defaults;
    assert_int_equal(aw_proxy_open(&proxy, &config, NULL, &diag), AW_ERR_CONFIG);
    const struct aw_devices devices = card_make(1);
    config.devices = &devices;
    config.power.act = true;
    assert_int_equal(aw_proxy_open(&proxy, &config, NULL, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "audit"));
    card.sim.ops->close(card.sim.self);
}

AW_TEST_GROUP("proxy-power")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_fall_with_slack_and_rise_at_once_when_an_slo_is_missed),
        cmocka_unit_test(nothing_is_set_in_a_dry_run_and_all_is_recorded),
        cmocka_unit_test(a_lost_device_and_a_refused_set_keep_the_clock_up),
        cmocka_unit_test(a_server_that_is_down_keeps_the_clock_up),
        cmocka_unit_test(two_devices_stay_below_the_cap_while_they_want_more),
        cmocka_unit_test(clocks_without_devices_or_a_record_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
