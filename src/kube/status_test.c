/* status_test.c - what the server's refusals mean; and how fast we may ask. */
#include "kube/status.h"

#include <string.h>

#include "base/testing.h"
#include "kube/backoff.h"

static void a_refusal_becomes_a_typed_error(void **state)
{
    static const struct {
        const char *why;
        int code;
        const char *body, *retry_after;
        enum aw_err err;
        enum aw_kube_reason reason;
        int64_t retry_us;
    } cases[] = {
        {"conflict", 409, "{\"kind\":\"Status\",\"reason\":\"Conflict\",\"code\":409}", NULL,
         AW_ERR_CONFLICT, AW_KUBE_CONFLICT, 0},
        {"the other 409", 409, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\"}", NULL,
         AW_ERR_EXISTS, AW_KUBE_ALREADY_EXISTS, 0},
        {"a proxy's page", 502, "<html>bad gateway</html>", NULL, AW_ERR_UNAVAILABLE,
         AW_KUBE_UNAVAILABLE, 0},
        {"nothing at all", 404, "", NULL, AW_ERR_NOTFOUND, AW_KUBE_NOT_FOUND, 0},
        {"retry in the object", 429,
         "{\"kind\":\"Status\",\"reason\":\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":3}"
         "}",
         NULL, AW_ERR_UNAVAILABLE, AW_KUBE_TOO_MANY_REQUESTS, 3000000},
        {"retry in the header", 503, "{}", "2", AW_ERR_UNAVAILABLE, AW_KUBE_UNAVAILABLE, 2000000},
        {"a date is not for us", 503, "{}", "Wed, 21 Oct 2026 07:28:00 GMT", AW_ERR_UNAVAILABLE,
         AW_KUBE_UNAVAILABLE, 0},
        {"absurd waits are cut", 503, "{}", "99999999999", AW_ERR_UNAVAILABLE, AW_KUBE_UNAVAILABLE,
         AW_KUBE_RETRY_AFTER_MAX_US},
        {"negative waits are none", 429,
         "{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":-5}}", NULL, AW_ERR_UNAVAILABLE,
         AW_KUBE_TOO_MANY_REQUESTS, 0},
        {"inside a watch", 0, "{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410}", NULL,
         AW_ERR_NODATA, AW_KUBE_EXPIRED, 0},
        {"a reason of the future", 418, "{\"kind\":\"Status\",\"reason\":\"Teapot\"}", NULL,
         AW_ERR_FORMAT, AW_KUBE_UNKNOWN, 0},
        {"forbidden", 403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\"}", NULL, AW_ERR_CONFIG,
         AW_KUBE_FORBIDDEN, 0},
        {"invalid", 422, "{\"kind\":\"Status\",\"reason\":\"Invalid\"}", NULL, AW_ERR_RANGE,
         AW_KUBE_INVALID, 0},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_kube_status status;
        aw_kube_status_read(&status, cases[i].code, cases[i].body, strlen(cases[i].body),
                            cases[i].retry_after);
        if (aw_kube_status_err(&status) != cases[i].err || status.reason != cases[i].reason ||
            status.retry_after_us != cases[i].retry_us)
            fail_msg("%s: %s %s %lld", cases[i].why, aw_err_name(aw_kube_status_err(&status)),
                     aw_kube_reason_name(status.reason), (long long)status.retry_after_us);
        assert_int_equal(aw_kube_status_is_gone(&status), cases[i].reason == AW_KUBE_EXPIRED);
    }
}

static void a_prometheus_says_why_too(void **state)
{
    static const char body[] = "{\"status\":\"error\",\"errorType\":\"bad_data\","
                               "\"error\":\"parse error\\nat char 3\"}";
    struct aw_kube_status status;
    (void)state;
    aw_kube_status_read(&status, 400, body, sizeof body - 1, NULL);
    assert_int_equal(aw_kube_status_err(&status), AW_ERR_FORMAT);
    assert_string_equal(status.message, "parse error at char 3");
}

static void a_message_is_one_printable_line(void **state)
{
    static const char body[] = "{\"kind\":\"Status\",\"message\":\"a\\nb\\u001b[31mc\\u0085d\"}";
    struct aw_kube_status status;
    (void)state;
    aw_kube_status_read(&status, 500, body, sizeof body - 1, NULL);
    assert_string_equal(status.message, "a b [31mc??d");
}

static void a_bucket_lets_a_burst_pass_and_then_the_rate(void **state)
{
    struct aw_kube_bucket bucket;
    int64_t now_us = 5000000;
    (void)state;
    aw_kube_bucket_init(&bucket, 10, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(aw_kube_bucket_take(&bucket, now_us), 0);
    assert_int_equal(aw_kube_bucket_take(&bucket, now_us), 100000);
    assert_int_equal(aw_kube_bucket_take(&bucket, now_us), 200000);
    assert_int_equal(bucket.held_count, 2);
    now_us += 10000000; /* rest does not save up more than the burst */
    for (int i = 0; i < 3; i++)
        assert_int_equal(aw_kube_bucket_take(&bucket, now_us), 0);
    assert_int_equal(aw_kube_bucket_take(&bucket, now_us), 100000);
}

static void waits_double_and_keep_what_the_server_asked_for(void **state)
{
    struct aw_kube_backoff backoff = {100000, 1000000, 0};
    struct aw_rng rng;
    int64_t limit_us = 100000;
    (void)state;
    aw_rng_init(&rng, 1, 0);
    for (int i = 0; i < 40; i++) {
        const int64_t wait_us = aw_kube_backoff_next(&backoff, 0, &rng);
        assert_in_range(wait_us, limit_us / 2, limit_us);
        limit_us = limit_us * 2 < 1000000 ? limit_us * 2 : 1000000;
    }
    assert_in_range(aw_kube_backoff_next(&backoff, 7000000, &rng), 7000000, 7700000);
    aw_kube_backoff_reset(&backoff);
    assert_in_range(aw_kube_backoff_next(&backoff, 0, &rng), 50000, 100000);
}

AW_TEST_GROUP("kube-status")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_becomes_a_typed_error),
        cmocka_unit_test(a_prometheus_says_why_too),
        cmocka_unit_test(a_message_is_one_printable_line),
        cmocka_unit_test(a_bucket_lets_a_burst_pass_and_then_the_rate),
        cmocka_unit_test(waits_double_and_keep_what_the_server_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
