/* api_metrics_test.c - what /metrics tells of agents of other processes. */
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "control/agent_exchange.h"
#include "web/api_testing.h"

static struct aw_api_world world;
static struct aw_agent_exchange *exchange;

static void no_wake(void *ctx)
{
    (void)ctx;
}

static int set_up(void **state)
{
    (void)state;
    aw_api_world_open_with(&world, AW_GUARD_AUTO, false);
    aw_api_world_run(&world, 2);
    assert_ok(aw_agent_exchange_new(&(struct aw_agent_exchange_config){.seats_max = 3}, NULL,
                                    &exchange, NULL));
    for (uint32_t i = 0; i < 3; i++) {
        struct aw_agent_exchange_seat seat = {.obs_dim = 12, .step_s = 15, .deadline_s = 60};
        snprintf(seat.name, sizeof seat.name, "shop/%u", i);
        assert_ok(aw_agent_exchange_open(exchange, i, &seat, NULL));
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aw_agent_exchange_free(exchange);
    aw_api_world_close(&world);
    return 0;
}

static char *scraped(void)
{
    const struct aw_api_request request = {.method = "GET", .path = "/metrics"};
    struct aw_api_response response;
    assert_ok(aw_api_answer(&world.api, &request, &response));
    assert_int_equal(response.status, 200);
    char *text = strndup(response.body, response.len);
    assert_non_null(text);
    aw_api_response_deinit(&response);
    return text;
}

static void assert_line(const char *text, const char *line)
{
    char whole[160];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(text, whole))
        fail_msg("no line %s", line);
}

static void without_external_agents_nothing_is_told_of_them(void **state)
{
    (void)state;
    char *text = scraped();
    assert_null(strstr(text, "aware_agent"));
    free(text);
}

static void questions_answers_refusals_and_standings_are_counted(void **state)
{
    static const float good[AW_ACTION_DIM] = {0}, beyond[AW_ACTION_DIM] = {2, 0, 0};
    const struct aw_external_agent_request question = {.obs_dim = 12};
    struct aw_agent_exchange_hello hello = {
        .workload = "shop/0", .agent = "td3", .version = "7", .wake = no_wake};
    struct aw_agent_exchange_seat seat;
    struct aw_agent_exchange_message message;
    struct aw_external_agent_answer answer;
    uint64_t ticket, other;
    (void)state;
    assert_ok(aw_agent_exchange_register(exchange, &hello, &ticket, &seat, NULL));
    assert_int_equal(aw_agent_exchange_register(exchange, &hello, &other, &seat, NULL),
                     AW_ERR_EXISTS);
    for (int i = 0; i < 3; i++) {
        aw_agent_exchange_ask(exchange, 0, &question, NULL);
        assert_true(aw_agent_exchange_poll(exchange, ticket, &message));
        (void)aw_agent_exchange_answer(exchange, ticket, message.question.id,
                                       i == 1 ? beyond : good, 3);
        aw_agent_exchange_hear(exchange, 0, &answer);
    }
    aw_agent_exchange_tell(
        exchange, 0, &(struct aw_agent_exchange_outcome){.standing = AW_EXTERNAL_AGENT_PROBATION});
    aw_api_agents(&world.api, exchange);
    char *text = scraped();
    static const char *const lines[] = {
        "aware_agent_seats{standing=\"absent\"} 2",
        "aware_agent_seats{standing=\"probation\"} 1",
        "aware_agent_seats{standing=\"aside\"} 0",
        "aware_agents_acting 0",
        "aware_agent_registrations_total{result=\"admitted\"} 1",
        "aware_agent_registrations_total{result=\"refused\"} 1",
        "aware_agent_questions_total 3",
        "aware_agent_answers_total 2",
        "aware_agent_refused_answers_total{reason=\"bounds\"} 1",
        "aware_agent_refused_answers_total{reason=\"late\"} 0",
        "aware_agent_answer_time_seconds_count 2",
        "aware_agent_deadline_used_ratio_bucket{le=\"1.0\"} 2",
        "aware_agent_deadline_used_ratio_count 2",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_line(text, lines[i]);
    assert_null(strstr(text, "td3")); /* what a stranger calls itself makes no series */
    free(text);
    aw_agent_exchange_leave(exchange, ticket);
    aw_api_agents(&world.api, NULL);
    text = scraped();
    assert_null(strstr(text, "aware_agent"));
    free(text);
}

AW_TEST_GROUP("api-metrics")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_external_agents_nothing_is_told_of_them),
        cmocka_unit_test(questions_answers_refusals_and_standings_are_counted),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
