/* fleet_test.c - the event loop against recursions by hand, its books, and the rules. */
#include "serving/fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/testing.h"
#include "serving/requests.h"

/* One model on one device, and n requests of random work. */
static void small_world(struct aw_fleet_world *world, struct aw_fleet_load *load, uint32_t devices,
                        uint32_t n, double rate)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 11, 0);
    *world = (struct aw_fleet_world){.kind = aw_gpu_kind_find("v100"),
                                     .devices = devices,
                                     .models = 1,
                                     .memory = {0.3},
                                     .slo_s = {2},
                                     .weights_gb = {1},
                                     .replicas = {(UINT64_C(1) << devices) - 1}};
    *load = (struct aw_fleet_load){.count = n,
                                   .arrival_s = calloc(n, sizeof(double)),
                                   .model = calloc(n, sizeof(uint16_t)),
                                   .work_s = calloc(n, sizeof(float)),
                                   .guess_s = calloc(n, sizeof(float)),
                                   .high_s = calloc(n, sizeof(float)),
                                   .tokens = calloc(n, sizeof(float))};
    double at = 0;
    for (uint32_t i = 0; i < n; i++) {
        at += aw_rng_exponential(&rng, 1 / rate);
        load->arrival_s[i] = at;
        load->work_s[i] = load->guess_s[i] = (float)aw_rng_uniform(&rng, 0.05, 0.35);
        load->high_s[i] = 1.3f * load->work_s[i];
        load->tokens[i] = 1;
    }
    load->length_s = at;
}

static void load_free(struct aw_fleet_load *load)
{
    free(load->arrival_s);
    free(load->model);
    free(load->work_s);
    free(load->guess_s);
    free(load->high_s);
    free(load->tokens);
}

static struct aw_fleet_settings settings_of(uint32_t rule)
{
    struct aw_fleet_settings settings = {.order = {AW_SERVING_FCFS, 0},
                                         .power = aw_power_defaults,
                                         .switch_s = 0.02,
                                         .load_s = 8,
                                         .seed = 3};
    settings.power.rule = rule;
    return settings;
}

/* First come, first served at a fixed clock is Lindley's recursion. */
static void one_device_is_lindleys_recursion(void **state)
{
    (void)state;
    struct aw_fleet_world world;
    struct aw_fleet_load load;
    struct aw_fleet *fleet;
    struct aw_fleet_result result;
    small_world(&world, &load, 1, 5000, 3.5);
    assert_ok(aw_fleet_new(&world, load.count, &fleet, NULL));
    const double clocks[] = {1, 0.75};
    for (uint32_t c = 0; c < 2; c++) {
        struct aw_fleet_settings settings = settings_of(AW_POWER_STATIC);
        settings.power.static_x = clocks[c];
        assert_ok(aw_fleet_run(fleet, &load, &settings, &result));
        const double x = aw_gpu_grid(world.kind, clocks[c]);
        double free_at = 0, sum = 0, busy = 0;
        uint64_t missed = 0;
        for (uint32_t i = 0; i < load.count; i++) {
            const double time = (double)load.work_s[i] * (0.3 + 0.7 / x);
            free_at = fmax(free_at, load.arrival_s[i]) + time;
            sum += free_at - load.arrival_s[i];
            missed += free_at - load.arrival_s[i] > 2;
            busy += time;
        }
        assert_close(result.latency_mean_s, sum / load.count, 1e-6);
        assert_true(result.missed == missed);
        /* power by hand: busy and idle watts times their seconds */
        assert_close(result.busy_j, busy * aw_gpu_busy_w(world.kind, 0.3, x), 1e-6);
        assert_close(result.idle_j, (result.length_s - busy) * aw_gpu_idle_w(world.kind, x), 1e-6);
    }
    aw_fleet_free(fleet);
    load_free(&load);
}

static void books_balance_and_the_same_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    struct aw_fleet_world world;
    struct aw_fleet_load load;
    struct aw_fleet *fleet;
    struct aw_fleet_result result, again;
    small_world(&world, &load, 4, 20000, 8);
    assert_ok(aw_fleet_new(&world, load.count, &fleet, NULL));
    for (uint32_t rule = 0; rule < AW_POWER_RULES; rule++)
        for (uint32_t bad = 0; bad < 2; bad++) {
            struct aw_fleet_settings settings = settings_of(rule);
            settings.order = (struct aw_serving_order){AW_SERVING_SSJF, 10};
            settings.failed_share = bad ? 0.1 : 0;
            settings.thermal_share = bad ? 0.05 : 0;
            settings.thermal_x = 0.6;
            settings.power.replicas = bad;
            assert_ok(aw_fleet_run(fleet, &load, &settings, &result));
            assert_true(result.done + result.lost == load.count);
            double models = 0;
            for (uint32_t m = 0; m < world.models; m++)
                models += result.model_j[m];
            assert_close(models, result.busy_j, 1e-9);
            assert_close(result.energy_j, result.busy_j + result.idle_j, 1e-12);
            assert_close(result.energy_j, result.mean_w * result.length_s, 1e-9);
            assert_ok(aw_fleet_run(fleet, &load, &settings, &again));
            assert_memory_equal(&result, &again, sizeof result);
        }
    aw_fleet_free(fleet);
    load_free(&load);
}

/* The demanded saving on a load that nothing was chosen on, with a wrong profile. */
static void predictive_saves_and_keeps_attainment(void **state)
{
    (void)state;
    struct aw_requests requests;
    static const double loads[] = {0.1, 0.3}, goals[] = {1.7, 1.4};
    assert_ok(aw_requests_read("diurnal:peak=2,period=30m,length=1h", 5, 0, &requests, NULL));
    for (uint32_t l = 0; l < 2; l++) {
        struct aw_fleet_world world;
        struct aw_fleet_load load;
        struct aw_fleet *fleet;
        struct aw_fleet_result fixed, race, own;
        const struct aw_requests_plan plan = {.load = loads[l],
                                              .to = 1,
                                              .slo_scale = 5,
                                              .guess_sigma = 0.55,
                                              .wrong = 0.2,
                                              .seed = 9};
        assert_ok(aw_fleet_world_table(&world, aw_gpu_kind_find("v100"), 8, NULL));
        assert_ok(aw_requests_load(&requests, &plan, &world, &load, NULL));
        assert_ok(aw_fleet_new(&world, load.count, &fleet, NULL));
        struct aw_fleet_settings settings = settings_of(AW_POWER_FIXED);
        settings.order = (struct aw_serving_order){AW_SERVING_SSJF, 10};
        assert_ok(aw_fleet_run(fleet, &load, &settings, &fixed));
        settings.power.rule = AW_POWER_RACE;
        assert_ok(aw_fleet_run(fleet, &load, &settings, &race));
        settings.power.rule = AW_POWER_PREDICTIVE;
        assert_ok(aw_fleet_run(fleet, &load, &settings, &own));
        assert_close(fixed.busy_share, loads[l], 0.05);
        assert_true(fixed.mean_w / own.mean_w >= goals[l]);
        assert_true(own.mean_w < race.mean_w);
        assert_true(own.attainment >= fixed.attainment - 0.005);
        aw_fleet_free(fleet);
        aw_requests_load_deinit(&load);
    }
    aw_requests_deinit(&requests);
}

static void the_rules_do_what_their_pages_say(void **state)
{
    (void)state;
    const struct aw_power_settings settings = aw_power_defaults;
    bool up;
    /* printed: one partition with slack takes the clock down although another is at its limit */
    const struct aw_miad_seen mixed[] = {{1, 0, 0.5, 0.5}, {1, 0, 0.94, 0.94}};
    assert_true(aw_miad_printed(&settings, mixed, 2, 0.8, 0.3) < 0.8);
    assert_true(aw_miad(&settings, mixed, 2, false, 0.8, 0.3, &up) >= 0.8);
    const struct aw_miad_seen late[] = {{1, 0, 0.97, 0.97}};
    assert_close(aw_miad_printed(&settings, late, 1, 0.4, 0.3), 0.8, 1e-9);
    assert_close(aw_miad(&settings, late, 1, false, 1, 0.3, &up), 1, 1e-9);
    assert_true(up); /* at the largest clock and still late: a replica is wanted */
    /* predictive: 1 s of core work with 2 s left needs half the clock, and margin beyond */
    struct aw_power_settings plain = settings;
    plain.floor_x = plain.headroom = plain.risk = plain.switch_s = 0;
    plain.margin = 1;
    const struct aw_power_item one[] = {{2, 1, 0}};
    assert_close(aw_power_predict(&plain, one, 1, NULL, 0, 0.1, 1, 0), 0.5, 1e-9);
    const struct aw_power_item two[] = {{2, 1, 0}, {2.5, 1, 0}};
    assert_close(aw_power_predict(&plain, two, 2, NULL, 0, 0.1, 1, 0), 0.8, 1e-9);
    assert_close(aw_power_predict(&plain, NULL, 0, NULL, 0, 0.29, 1, 0.9), 0.29, 1e-9);
    /* a model with little slack on the same device makes it hurry */
    const struct aw_power_other other[] = {{1, 1}};
    assert_true(aw_power_predict(&plain, one, 1, other, 1, 0.1, 1, 0) > 0.9);
}

/* The least of joules and of the price of late requests. */
static void the_price_of_being_late_sets_the_clock(void **state)
{
    (void)state;
    const struct aw_gpu_kind *kind = aw_gpu_kind_find("v100");
    struct aw_power_settings settings = aw_power_defaults;
    settings.headroom = settings.switch_s = 0;
    struct aw_power_chance easy = aw_power_rest(1, 2, 0), hard = easy, lost = easy;
    easy.left_s = 100;
    hard.left_s = 4;
    lost.left_s = -1;
    const double cheap = aw_power_least(&settings, kind, &easy, 1, NULL, 0, 1, 0, 0),
                 dear = aw_power_least(&settings, kind, &hard, 1, NULL, 0, 1, 0, 0);
    assert_true(cheap < 0.75 && dear > cheap);
    /* nothing can be done for what is lost, but those behind it count */
    assert_close(aw_power_least(&settings, kind, &lost, 1, NULL, 0, 1, 0, 0), cheap, 1e-9);
    const struct aw_power_chance both[] = {lost, hard};
    assert_true(aw_power_least(&settings, kind, both, 2, NULL, 0, 1, 0, 0) >= dear);
    /* a higher price is a higher clock, and a full debt the largest */
    assert_true(aw_power_least(&settings, kind, &hard, 1, NULL, 0, 1, 0, 2) > dear);
    assert_close(aw_power_least(&settings, kind, &easy, 1, NULL, 0, 1, 0, AW_POWER_DEBT_FULL), 1,
                 1e-9);
    assert_close(aw_power_least(&settings, kind, NULL, 0, NULL, 0, 1, 0.9, 9), aw_gpu_x_min(kind),
                 1e-9);
    /* models that are asked for often, with little slack, make it hurry */
    const struct aw_power_other other[] = {{2, 0.5}};
    assert_true(aw_power_least(&settings, kind, &easy, 1, other, 1, 1, 0, 0) > cheap);
    /* what was served counts off, and who is far beyond what was foreseen is not done yet */
    assert_true(aw_power_rest(1, 2, 0.5).mean_s < easy.mean_s);
    assert_true(aw_power_rest(1, 2, 0.5).mean_s > 0.5 * easy.mean_s);
    assert_true(aw_power_rest(1, 2, 50).mean_s > 1);
}

static void the_price_bounds_what_the_clock_is_to_blame_for(void **state)
{
    (void)state;
    double debt = 0, spare = 0;
    uint32_t blamed = 0;
    const uint32_t n = 50000;
    for (uint32_t i = 0; i < n; i++) { /* the worst world: late unless the clock is the largest */
        const bool late = debt < AW_POWER_DEBT_FULL;
        blamed += late;
        debt = aw_power_bill(&aw_power_defaults, debt, late);
    }
    assert_true(blamed <= aw_power_defaults.blame * n + 9 / AW_POWER_BILL_GAIN + 1);
    for (uint32_t i = 0; i < 100; i++)
        spare = aw_power_spare(spare, true);
    assert_true(spare > 1); /* twice the devices, and more */
    for (uint32_t i = 0; i < 100000; i++)
        spare = aw_power_spare(spare, false);
    assert_close(spare, 0, 1e-9);
}

/* Of n requests no more than blame x n + 2/gain are made late by the guarded rule. */
static void the_guard_bounds_what_it_is_to_blame_for(void **state)
{
    (void)state;
    struct aw_rng rng;
    double caution = 0;
    uint32_t blamed = 0;
    const uint32_t n = 20000;
    aw_rng_init(&rng, 1, 0);
    for (uint32_t i = 0; i < n; i++) { /* the worst world: late unless the clock is the largest */
        const bool late = aw_rng_double(&rng) > caution;
        blamed += late;
        caution = aw_power_learn(&aw_power_defaults, caution, late);
    }
    assert_true(blamed <= aw_power_defaults.blame * n + 2 / AW_POWER_GAIN + 1);
}

static void a_million_requests_take_less_than_two_seconds(void **state)
{
    (void)state;
    struct aw_fleet_world world;
    struct aw_fleet_load load;
    struct aw_fleet *fleet;
    struct aw_fleet_result result;
    small_world(&world, &load, 16, 1000000, 40);
    assert_ok(aw_fleet_new(&world, load.count, &fleet, NULL));
    const struct aw_fleet_settings settings = settings_of(AW_POWER_PREDICTIVE);
    const clock_t begin = clock();
    assert_ok(aw_fleet_run(fleet, &load, &settings, &result));
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    print_message("1M requests, 16 devices: %.2f s of processor time\n", seconds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__has_feature)
    assert_true(seconds < 2);
#endif
    aw_fleet_free(fleet);
    load_free(&load);
}

AW_TEST_GROUP("serving-fleet")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_is_lindleys_recursion),
        cmocka_unit_test(books_balance_and_the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(predictive_saves_and_keeps_attainment),
        cmocka_unit_test(the_rules_do_what_their_pages_say),
        cmocka_unit_test(the_price_of_being_late_sets_the_clock),
        cmocka_unit_test(the_price_bounds_what_the_clock_is_to_blame_for),
        cmocka_unit_test(the_guard_bounds_what_it_is_to_blame_for),
        cmocka_unit_test(a_million_requests_take_less_than_two_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
