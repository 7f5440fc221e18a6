/* api_test.c - every route, and every way to ask for nonsense. */
#include "web/api.h"

#include "base/testing.h"
#include "web/api_testing.h"

#include <jansson.h>
#include <math.h>

#define STEPS 60u

static struct aw_api_world world;

static int set_up(void **state)
{
    (void)state;
    aw_api_world_open(&world, AW_GUARD_AUTO);
    aw_api_world_run(&world, STEPS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aw_api_world_close(&world);
    return 0;
}

/* The answer's JSON, which the caller decrefs; fails where the status is another one. */
static json_t *ask(struct aw_api *api, const char *method, const char *path, const char *body,
                   int status)
{
    struct aw_api_response answer;
    const struct aw_api_request request = {.method = method,
                                           .path = path,
                                           .body = body,
                                           .body_len = body ? strlen(body) : 0,
                                           .by = AW_API_TESTING_BY};
    assert_ok(aw_api_answer(api, &request, &answer));
    if (answer.status != status)
        fail_msg("%s %s %s: %d %.*s", method, path, body ? body : "", answer.status,
                 (int)answer.len, answer.body);
    json_t *json = json_loadb(answer.body, answer.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json)
        fail_msg("%s %s: not JSON: %.*s", method, path, (int)answer.len, answer.body);
    aw_api_response_deinit(&answer);
    return json;
}

static json_t *get(const char *path)
{
    return ask(&world.api, "GET", path, NULL, 200);
}

static json_t *order(const char *body)
{
    return ask(&world.api, "POST", "/v1/orders", body, 201);
}

static const char *text_at(const json_t *json, const char *key)
{
    return json_string_value(json_object_get(json, key));
}

static json_int_t whole_at(const json_t *json, const char *key)
{
    return json_integer_value(json_object_get(json, key));
}

/* --- looking ---------------------------------------------------------------------------------- */

static void status_tells_who_where_and_how_it_stands(void **state)
{
    (void)state;
    json_t *json = get("/v1/status");
    assert_string_equal(text_at(json, "version"), "test");
    assert_int_equal(whole_at(json, "api"), 1);
    assert_true(json_is_true(json_object_get(json, "ok")));
    assert_int_equal(whole_at(json_object_get(json, "workloads"), "total"), 3);
    assert_int_equal(whole_at(json_object_get(json, "workloads"), "offline"), 3);
    assert_int_equal(whole_at(json_object_get(json, "counts"), "ticks"), STEPS);
    assert_true(json_real_value(json_object_get(json, "cost_per_hour")) > 0);
    assert_int_equal(json_array_size(json_object_get(json, "holds")), 0);
    assert_int_equal(json_array_size(json_object_get(json, "health")), 4);
    json_decref(json);
    json_decref(get("/v1/healthz"));
    json_decref(get("/v1/readyz"));
}

static void a_loop_without_a_tick_is_not_ready_and_a_stuck_one_not_healthy(void **state)
{
    (void)state;
    struct aw_clock_virtual clock;
    struct aw_api api;
    struct aw_api_config config = world.api_config;
    aw_clock_virtual_init(&clock, 0);
    config.clock = &clock.clock;
    config.stuck_s = 60;
    assert_ok(aw_api_init(&api, &config));
    json_decref(ask(&api, "GET", "/v1/healthz", NULL, 200));
    json_decref(ask(&api, "GET", "/v1/readyz", NULL, 503));
    aw_api_standby(&api, true); /* another process ticks */
    json_decref(ask(&api, "GET", "/v1/readyz", NULL, 200));
    aw_api_standby(&api, false);
    json_decref(ask(&api, "GET", "/v1/readyz", NULL, 503));
    aw_api_tick(&api, aw_job_counts(world.job), NULL);
    json_decref(ask(&api, "GET", "/v1/readyz", NULL, 200));
    aw_clock_virtual_advance(&clock, 61 * INT64_C(1000000));
    json_decref(ask(&api, "GET", "/v1/healthz", NULL, 503));
    json_decref(ask(&api, "GET", "/v1/readyz", NULL, 503));
    aw_api_tick(&api, aw_job_counts(world.job), "disk full");
    json_t *json = ask(&api, "GET", "/v1/status", NULL, 200);
    assert_true(json_is_false(json_object_get(json, "ok")));
    assert_non_null(
        strstr(json_string_value(json_array_get(json_object_get(json, "holds"), 0)), "disk full"));
    json_decref(json);
    aw_api_stopping(&api);
    json_decref(ask(&api, "GET", "/v1/readyz", NULL, 503));
    json_decref(ask(&api, "POST", "/v1/orders",
                    "{\"kind\":\"freeze\",\"scope\":\"all\",\"reason\":\"x\"}", 503));
    aw_api_switch(&api, NULL);
    json_decref(ask(&api, "GET", "/v1/status", NULL, 503));
    aw_api_deinit(&api);
}

static void lists_are_sorted_filtered_and_paged(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        size_t count;
        const char *first, *next; /* NULL: none */
        const char *why;
    } rows[] = {
        {"/v1/workloads", 3, "bank/cart", NULL, "in the order of names"},
        {"/v1/workloads/", 3, "bank/cart", NULL, "a slash at the end says nothing"},
        {"/v1/workloads?limit=1", 1, "bank/cart", "bank/cart", "a page"},
        {"/v1/workloads?limit=1&after=bank/cart", 1, "shop/cart", "shop/cart", "the next one"},
        {"/v1/workloads?limit=2&after=bank%2Fcart", 2, "shop/cart", NULL, "the last one"},
        {"/v1/workloads?after=zoo/x", 0, NULL, NULL, "beyond the end"},
        {"/v1/workloads?namespace=shop", 2, "shop/cart", NULL, "one namespace"},
        {"/v1/workloads?namespace=sho", 0, NULL, NULL, "a namespace is not a prefix"},
        {"/v1/workloads?stage=offline", 3, "bank/cart", NULL, "all are"},
        {"/v1/workloads?stage=serving", 0, NULL, NULL, "none is"},
        {"/v1/workloads?sort=stage&limit=3", 3, "bank/cart", NULL,
         "of equal ones the name decides"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *json = get(rows[i].path);
        const json_t *list = json_object_get(json, "workloads");
        if (json_array_size(list) != rows[i].count)
            fail_msg("%s (%s): %zu rows", rows[i].path, rows[i].why, json_array_size(list));
        if (rows[i].first)
            assert_string_equal(text_at(json_array_get(list, 0), "name"), rows[i].first);
        if (rows[i].next)
            assert_string_equal(text_at(json, "next"), rows[i].next);
        else
            assert_true(json_is_null(json_object_get(json, "next")));
        json_decref(json);
    }
}

static void dearest_and_latest_come_first_when_asked(void **state)
{
    (void)state;
    json_t *json = get("/v1/workloads?sort=cost");
    const json_t *list = json_object_get(json, "workloads");
    for (size_t i = 1; i < json_array_size(list); i++)
        assert_true(
            json_real_value(json_object_get(json_array_get(list, i - 1), "cost_per_hour")) >=
            json_real_value(json_object_get(json_array_get(list, i), "cost_per_hour")));
    json_decref(json);
    json = get("/v1/workloads?sort=changed");
    list = json_object_get(json, "workloads");
    for (size_t i = 1; i < json_array_size(list); i++)
        assert_true(whole_at(json_array_get(list, i - 1), "last_change") >=
                    whole_at(json_array_get(list, i), "last_change"));
    json_decref(json);
    json_decref(get("/v1/workloads?sort=slo"));
}

static void a_row_is_what_the_loop_decided(void **state)
{
    (void)state;
    struct aw_job_view view;
    aw_job_view(world.job, 0, &view);
    json_t *json = get("/v1/workloads/shop/cart");
    const struct aw_decision *decision = view.decision;
    assert_string_equal(text_at(json, "stage"), aw_stage_name(aw_pilot_stage(view.pilot)));
    assert_string_equal(text_at(json, "actor"), aw_actor_name(decision->actor));
    assert_string_equal(text_at(json, "mode"), "Auto");
    assert_int_equal(whole_at(json_object_get(json, "replicas"), "wanted"),
                     decision->guard.plan.replicas);
    assert_int_equal(whole_at(json, "memory_bytes"), decision->guard.plan.memory_bytes);
    assert_close(json_real_value(json_object_get(json, "arrivals_per_s")),
                 decision->reading.arrivals_per_s, 1e-12);
    json_decref(json);
}

static void a_description_has_all_that_people_ask_for(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "bounds",    "controlled",  "conditions", "stage_reason", "watchdog_reason",
        "estimate",  "stage_words", "budgets",    "freezes",      "pending",
        "emergency", "canary",      "decision",   "recent",       "prices",
        "fallback",  "agent",       "learning",   "seed"};
    json_t *json = get("/v1/workloads/shop/cart");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(json, keys[i]))
            fail_msg("no %s", keys[i]);
    assert_int_equal(json_array_size(json_object_get(json, "conditions")), 7);
    assert_true(json_array_size(json_object_get(json, "recent")) > 0);
    json_t *same = get("/v1/workloads/-/web"), *alone = get("/v1/workloads/web");
    assert_string_equal(text_at(same, "name"), "shop/web");
    assert_string_equal(text_at(alone, "name"), "shop/web");
    json_decref(same);
    json_decref(alone);
    json_decref(json);
    json = get("/v1/workloads/shop/cart/state");
    assert_string_equal(text_at(json, "workload"), "shop/cart");
    json_decref(json);
}

static void an_explanation_is_the_recorded_account_and_can_be_repeated(void **state)
{
    (void)state;
    json_t *json = get("/v1/workloads/shop/cart/explain");
    const json_int_t id = whole_at(json, "decision");
    assert_true(id > 0);
    assert_true(json_is_true(json_object_get(json_object_get(json, "detail"), "replayed")));
    assert_true(json_is_null(json_object_get(json, "detail_error")));
    assert_string_equal(text_at(json_object_get(json, "account"), "workload"), "shop/cart");
    char path[128];
    snprintf(path, sizeof path, "/v1/workloads/shop/cart/explain?decision=%lld", (long long)id);
    json_t *again = get(path);
    assert_true(json_equal(json_object_get(json, "account"), json_object_get(again, "account")));
    json_decref(again);
    snprintf(path, sizeof path, "/v1/decisions/%lld", (long long)id);
    again = get(path);
    assert_true(json_equal(json_object_get(json, "account"), json_object_get(again, "account")));
    assert_int_equal(whole_at(json_object_get(again, "entry"), "seq"), id);
    json_decref(again);
    snprintf(path, sizeof path, "/v1/workloads/shop/web/explain?decision=%lld", (long long)id);
    json_decref(ask(&world.api, "GET", path, NULL, 404)); /* somebody else's */
    json_decref(json);
}

/* --- what was --------------------------------------------------------------------------------- */

static void a_history_is_about_one_workload_newest_first_and_pages_to_its_end(void **state)
{
    (void)state;
    json_int_t last = INT64_MAX;
    char path[128] = "/v1/workloads/shop/cart/history?limit=2";
    size_t seen = 0;
    for (;;) {
        json_t *json = get(path);
        const json_t *entries = json_object_get(json, "entries");
        for (size_t i = 0; i < json_array_size(entries); i++) {
            const json_t *entry = json_array_get(entries, i);
            assert_true(whole_at(entry, "seq") < last);
            last = whole_at(entry, "seq");
            const char *whose = text_at(entry, "workload");
            assert_true(!whose || strcmp(whose, "shop/cart") == 0);
            seen++;
        }
        const json_int_t next = whole_at(json, "next");
        json_decref(json);
        if (!next)
            break;
        snprintf(path, sizeof path, "/v1/workloads/shop/cart/history?limit=2&before=%lld",
                 (long long)next);
    }
    json_t *all = get("/v1/workloads/shop/cart/history?limit=1000");
    assert_int_equal(json_array_size(json_object_get(all, "entries")), seen);
    assert_true(seen > 2);
    json_decref(all);
}

static void orders_about_all_are_in_everybodys_history(void **state)
{
    (void)state;
    json_decref(order("{\"kind\":\"freeze\",\"scope\":\"namespace\",\"name\":\"bank\","
                      "\"reason\":\"audit week\",\"for\":\"1h\"}"));
    json_t *bank = get("/v1/workloads/bank/cart/history?limit=1");
    json_t *shop = get("/v1/workloads/shop/cart/history?limit=1");
    assert_string_equal(text_at(json_array_get(json_object_get(bank, "entries"), 0), "kind"),
                        "order");
    assert_string_not_equal(text_at(json_array_get(json_object_get(shop, "entries"), 0), "kind"),
                            "order");
    json_decref(bank);
    json_decref(shop);
}

static void the_log_can_be_read_by_kind_and_time(void **state)
{
    (void)state;
    json_decref(ask(&world.api, "GET", "/v1/audit?kind=bogus", NULL, 400)); /* not "none" */
    json_t *json = get("/v1/audit?kind=start");
    assert_int_equal(json_array_size(json_object_get(json, "entries")), 1);
    json_decref(json);
    json = get("/v1/audit?since=0&kind=decision"); /* from now on */
    assert_int_equal(json_array_size(json_object_get(json, "entries")), 0);
    json_decref(json);
    json = get("/v1/audit?since=1970-01-01T00:00:00Z&kind=decision");
    assert_true(json_array_size(json_object_get(json, "entries")) > 3);
    json_decref(json);
}

/* Pages of an export put together are the whole of it. */
static void exports_page_without_loss(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t page;
        size_t least; /* lines in all */
    } rows[] = {{"trajectories", 50, 3 * (STEPS - 1)}, {"decisions", 2, 3}, {"audit", 3, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_api_request request = {.method = "GET", .by = AW_API_TESTING_BY};
        struct aw_api_response whole, page;
        char path[AW_API_PATH_MAX], next[AW_API_HEADER_MAX] = "";
        char *text = NULL;
        size_t len = 0, lines = 0;
        snprintf(path, sizeof path, "/v1/export?what=%s", rows[i].what);
        request.path = path;
        assert_ok(aw_api_answer(&world.api, &request, &whole));
        assert_int_equal(whole.status, 200);
        assert_string_equal(whole.content_type, "application/x-ndjson");
        assert_string_equal(whole.next, "");
        FILE *out = open_memstream(&text, &len);
        for (uint32_t turn = 0; turn < 1000; turn++) {
            snprintf(path, sizeof path, "/v1/export?what=%s&limit=%zu%s%s", rows[i].what,
                     rows[i].page, *next ? "&after=" : "", next);
            assert_ok(aw_api_answer(&world.api, &request, &page));
            if (page.status != 200)
                fail_msg("%s: %.*s", path, (int)page.len, page.body);
            fwrite(page.body, 1, page.len, out);
            memcpy(next, page.next, sizeof next);
            aw_api_response_deinit(&page);
            if (!*next)
                break;
        }
        fclose(out);
        for (size_t k = 0; k < len; k++)
            lines += text[k] == '\n';
        if (len != whole.len || memcmp(text, whole.body, len) || lines < rows[i].least)
            fail_msg("%s: %zu bytes in pages (%zu lines), %zu at once", rows[i].what, len, lines,
                     whole.len);
        free(text);
        aw_api_response_deinit(&whole);
    }
}

/* As the files of a stopped daemon have it. */
static void the_audit_log_is_exported_oldest_first(void **state)
{
    (void)state;
    struct aw_api_request request = {
        .method = "GET", .by = AW_API_TESTING_BY, .path = "/v1/export?what=audit"};
    struct aw_api_response whole;
    assert_ok(aw_api_answer(&world.api, &request, &whole));
    json_int_t before = -1;
    uint32_t lines = 0;
    for (const char *at = whole.body, *end = at + whole.len, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(stop);
        json_t *entry = json_loadb(at, (size_t)(stop - at), 0, NULL);
        const json_int_t seq = json_integer_value(json_object_get(entry, "seq"));
        assert_true(seq > before);
        before = seq;
        lines++;
        json_decref(entry);
    }
    assert_true(lines > 3);
    aw_api_response_deinit(&whole);
}

/* --- orders ----------------------------------------------------------------------------------- */

static void a_freeze_is_signed_stands_and_can_be_lifted(void **state)
{
    (void)state;
    json_t *json = order("{\"kind\":\"freeze\",\"name\":\"web\",\"down_only\":true,\"for\":\"2h\","
                         "\"reason\":\"sale\"}");
    const json_int_t id = whole_at(json, "id");
    assert_int_equal(whole_at(json, "affects"), 1);
    assert_string_equal(text_at(json_object_get(json, "order"), "name"), "shop/web");
    assert_string_equal(text_at(json_object_get(json, "order"), "by"), AW_API_TESTING_BY);
    json_decref(json);
    json = get("/v1/workloads/shop/web");
    assert_string_equal(text_at(json, "freeze"), "down");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(json, "orders"), 0)), id);
    json_decref(json);
    aw_api_world_run(&world, 3);
    char body[128];
    snprintf(body, sizeof body, "{\"kind\":\"unfreeze\",\"order\":%lld}", (long long)id);
    json_decref(order(body));
    json = get("/v1/workloads/shop/web");
    assert_string_equal(text_at(json, "freeze"), "none");
    json_decref(json);
    json_decref(ask(&world.api, "POST", "/v1/orders", body, 404)); /* it no longer stands */
}

static void the_last_change_can_be_undone_once(void **state)
{
    (void)state;
    json_t *json = get("/v1/workloads?sort=changed&limit=1");
    const json_t *row = json_array_get(json_object_get(json, "workloads"), 0);
    const json_int_t id = whole_at(row, "last_change");
    assert_true(id > 0);
    char body[128];
    snprintf(body, sizeof body, "{\"kind\":\"undo\",\"decision\":%lld,\"reason\":\"slow\"}",
             (long long)id);
    json_t *taken = order(body);
    assert_string_equal(text_at(json_object_get(taken, "order"), "name"), text_at(row, "name"));
    assert_true(json_is_object(json_object_get(json_object_get(taken, "order"), "plan")));
    json_decref(taken);
    json_t *standing = get("/v1/freezes");
    assert_int_equal(json_array_size(json_object_get(standing, "pins")), 1);
    assert_int_equal(json_array_size(json_object_get(standing, "freezes")), 1);
    json_decref(standing);
    json_decref(json);
}

static void an_emergency_has_a_floor_and_ends_with_calm(void **state)
{
    (void)state;
    json_decref(order("{\"kind\":\"emergency\",\"name\":\"bank/cart\",\"reason\":\"sale\"}"));
    json_t *json = get("/v1/workloads/bank/cart");
    const json_t *emergency = json_object_get(json, "emergency");
    assert_true(json_is_true(json_object_get(emergency, "urgent")));
    assert_true(whole_at(json_object_get(emergency, "floor"), "replicas") > 0);
    json_decref(json);
    json_decref(order("{\"kind\":\"calm\",\"name\":\"bank/cart\"}"));
    json = get("/v1/workloads/bank/cart");
    assert_true(json_is_false(json_object_get(json_object_get(json, "emergency"), "urgent")));
    assert_int_equal(json_array_size(json_object_get(json, "orders")), 1); /* it is let down */
    json_decref(json);
    aw_api_world_run(&world, 60 * 4 + 8); /* an hour of steps of 15 s, and a little */
    json = get("/v1/workloads/bank/cart");
    assert_true(json_is_null(json_object_get(json, "emergency"))); /* and not shown for ever */
    assert_int_equal(json_array_size(json_object_get(json, "orders")), 0);
    json_decref(json);
}

/* What `aware get`, describe, top, the overview, the table and a workload's page show is one figure
 * of one function. */
static void savings_are_one_figure_everywhere(void **state)
{
    (void)state;
    json_t *status = get("/v1/status"), *one = get("/v1/workloads/bank/cart"),
           *list = get("/v1/workloads"), *table = get("/v1/table");
    const double saved = json_number_value(json_object_get(one, "saved"));
    const json_t *rows = json_object_get(list, "workloads"),
                 *names = json_object_get(table, "name");
    bool seen = false;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (strcmp(name, "bank/cart") != 0)
            continue;
        const double shown = json_number_value(json_array_get(json_object_get(table, "saved"), i));
        assert_true(fabs(shown - saved) < 1e-5);
        seen = true;
    }
    assert_true(seen);
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(text_at(json_array_get(rows, i), "name"), "bank/cart") == 0)
            assert_true(json_number_value(json_object_get(json_array_get(rows, i), "saved")) ==
                        saved);
    assert_true(json_is_number(json_object_get(status, "saved")));
    json_decref(status);
    json_decref(one);
    json_decref(list);
    json_decref(table);
    const struct aw_recent_beside beside = {.steps = 1, .cost = 3, .twin_cost = 4};
    assert_true(aw_recent_saved(&beside, 9, 1) == 0.25); /* the twin, where there is one */
    assert_true(aw_recent_saved(&(struct aw_recent_beside){0}, 1, 2) == 0.5);
    assert_true(isnan(aw_recent_saved(NULL, 1, NAN)));
}

static void what_waits_is_approved_or_rejected_by_its_number(void **state)
{
    (void)state;
    struct aw_api_world waiting;
    aw_api_world_open(&waiting, AW_GUARD_APPROVE);
    json_t *json = NULL;
    const json_t *list = NULL;
    for (uint32_t turn = 0; turn < 200 && json_array_size(list) == 0; turn++) {
        json_decref(json);
        aw_api_world_run(&waiting, 1);
        json = ask(&waiting.api, "GET", "/v1/proposals", NULL, 200);
        list = json_object_get(json, "proposals");
    }
    assert_true(json_array_size(list) > 0);
    const json_t *one = json_array_get(list, 0);
    assert_true(json_is_object(json_object_get(one, "plan")));
    assert_true(json_real_value(json_object_get(one, "left_s")) > 0);
    char body[128];
    snprintf(body, sizeof body, "{\"kind\":\"approve\",\"decision\":%lld}",
             (long long)whole_at(one, "id"));
    json_t *taken = ask(&waiting.api, "POST", "/v1/orders", body, 201);
    assert_string_equal(text_at(json_object_get(taken, "order"), "name"), text_at(one, "workload"));
    json_decref(taken);
    json_decref(ask(&waiting.api, "POST", "/v1/orders", body, 404)); /* it waits no more */
    json_decref(json);
    aw_api_world_close(&waiting);
}

/* --- differences ------------------------------------------------------------------------------ */

#define PROFILE(namespace, name, rest)                                          \
    "apiVersion: autoscaling.aware.dev/v1alpha1\nkind: MultidimPodAutoscaler\n" \
    "metadata: {name: " name                                                    \
    ", namespace: " namespace "}\nspec:\n"                                      \
                              "  scaleTargetRef: {name: " name                  \
                              "}\n  constraints: {global: {maxReplicas: 12}}\n" rest

static void a_file_is_compared_with_what_runs(void **state)
{
    (void)state;
    json_t *json = ask(&world.api, "POST", "/v1/diff",
                       PROFILE("shop", "cart", "  guard: {replicasUpFactor: 3}\n") "---\n" PROFILE(
                           "new", "one", ""),
                       200);
    assert_string_equal(json_string_value(json_array_get(json_object_get(json, "added"), 0)),
                        "new/one");
    assert_int_equal(json_array_size(json_object_get(json, "removed")), 2);
    const json_t *changed = json_array_get(json_object_get(json, "changed"), 0);
    assert_string_equal(text_at(changed, "name"), "shop/cart");
    bool found = false;
    const json_t *settings = json_object_get(changed, "settings");
    for (size_t i = 0; i < json_array_size(settings); i++)
        found |= strstr(text_at(json_array_get(settings, i), "key"), "replicas_up_factor") ||
                 strstr(text_at(json_array_get(settings, i), "key"), "replicasUpFactor");
    assert_true(found);
    json_decref(json);
}

/* --- nonsense --------------------------------------------------------------------------------- */

static char long_path[AW_API_PATH_MAX + 16];
static const struct {
    const char *method, *path, *body;
    int status;
    const char *code, *says;
} wrong_requests[] = {
    {"GET", "/", NULL, 404, "NOTFOUND", "/v1/"},
    {"GET", "/v2/status", NULL, 404, "NOTFOUND", "/v1/"},
    {"GET", "/v1", NULL, 404, "NOTFOUND", "no such address"},
    {"GET", "/v1x/status", NULL, 404, "NOTFOUND", "/v1/"},
    {"GET", "", NULL, 404, "NOTFOUND", "/v1/"},
    {"GET", "/v1/nothing", NULL, 404, "NOTFOUND", "no such address"},
    {"GET", "/v1/a/b/c/d/e/f/g/h", NULL, 404, "NOTFOUND", "so many parts"},
    {"GET", "/v1//workloads", NULL, 404, "NOTFOUND", "no such address"},
    {"GET", "/v1/workloads//cart", NULL, 404, "NOTFOUND", "no such address"},
    {"GET", long_path, NULL, 413, "LIMIT", "address"},
    {"GET", "/v1/%zz", NULL, 400, "FORMAT", "hexadecimal"},
    {"GET", "/v1/status?%4", NULL, 400, "FORMAT", "hexadecimal"},
    {"GET", "/v1/workloads/a%00b", NULL, 400, "FORMAT", "control character"},
    {"GET", "/v1/workloads/a%0ab", NULL, 400, "FORMAT", "control character"},
    {"GET", "/v1/workloads/%ff", NULL, 400, "FORMAT", "UTF-8"},
    {"POST", "/v1/status", NULL, 405, "USAGE", "GET, HEAD"},
    {"GET", "/v1/orders", NULL, 405, "USAGE", "POST"},
    {"DELETE", "/v1/workloads/shop/cart", NULL, 405, "USAGE", "GET, HEAD"},
    {"BREW", "/v1/status", NULL, 405, "USAGE", "GET, HEAD"},
    {"GET", "/v1/status?limit=1", NULL, 400, "USAGE", "no such parameter"},
    {"GET", "/v1/workloads?lmit=1", NULL, 400, "USAGE", "namespace stage sort limit after"},
    {"GET", "/v1/workloads?limit=1&limit=2", NULL, 400, "USAGE", "twice"},
    {"GET", "/v1/workloads?a=1&b&c&d&e&f&g&h&i", NULL, 400, "USAGE", "more than"},
    {"GET", "/v1/workloads?=1", NULL, 400, "USAGE", "no such parameter"},
    {"GET", "/v1/workloads?limit=0", NULL, 400, "RANGE", "1 to 1000"},
    {"GET", "/v1/workloads?limit=1001", NULL, 400, "RANGE", "1 to 1000"},
    {"GET", "/v1/workloads?limit=-1", NULL, 400, "RANGE", "1 to 1000"},
    {"GET", "/v1/workloads?limit=", NULL, 400, "RANGE", "1 to 1000"},
    {"GET", "/v1/workloads?stage=flying", NULL, 400, "USAGE", "stage"},
    {"GET", "/v1/workloads?sort=colour", NULL, 400, "USAGE", "sort"},
    {"GET", "/v1/workloads?sort=cost&after=x", NULL, 400, "USAGE", "sort=name"},
    {"GET", "/v1/workloads/nobody", NULL, 404, "NOTFOUND", "nobody"},
    {"GET", "/v1/workloads/cart", NULL, 404, "NOTFOUND", "2 workloads are called cart"},
    {"GET", "/v1/workloads/shop/nobody/explain", NULL, 404, "NOTFOUND", "shop/nobody"},
    {"GET", "/v1/workloads/shop/cart/explain?decision=x", NULL, 400, "RANGE", "number"},
    {"GET", "/v1/workloads/shop/cart/explain?decision=99999", NULL, 404, "NOTFOUND", "99999"},
    {"GET", "/v1/workloads/shop/cart/history?since=yesterday", NULL, 400, "FORMAT", "since"},
    {"GET", "/v1/workloads/shop/cart/history?since=2026-02-30T00:00:00Z", NULL, 400, "FORMAT",
     "since"},
    {"GET", "/v1/workloads/shop/cart/history?before=0", NULL, 400, "RANGE", "before"},
    {"GET", "/v1/decisions/0", NULL, 400, "RANGE", "number"},
    {"GET", "/v1/decisions/77777", NULL, 404, "NOTFOUND", "77777"},
    {"GET", "/v1/export?what=secrets", NULL, 400, "USAGE", "trajectories"},
    {"GET", "/v1/export?after=x", NULL, 400, "USAGE", "Aware-Next"},
    {"GET", "/v1/export?after=1:2", NULL, 400, "USAGE", "Aware-Next"},
    {"GET", "/v1/export?what=audit&after=x", NULL, 400, "RANGE", "after"},
    {"GET", "/v1/export?limit=100001", NULL, 400, "RANGE", "100000"},
    {"POST", "/v1/orders", NULL, 400, "FORMAT", ""},
    {"POST", "/v1/orders", "{", 400, "FORMAT", ""},
    {"POST", "/v1/orders", "[]", 400, "FORMAT", "object"},
    {"POST", "/v1/orders", "{}", 400, "CONFIG", "freeze, unfreeze"},
    {"POST", "/v1/orders", "{\"kind\":\"none\"}", 400, "CONFIG", "freeze, unfreeze"},
    {"POST", "/v1/orders", "{\"kind\":1}", 400, "CONFIG", "freeze, unfreeze"},
    {"POST", "/v1/orders", "{\"kind\":\"freeze\",\"kind\":\"undo\"}", 400, "FORMAT", ""},
    {"POST", "/v1/orders", "{\"kind\":\"freeze\",\"scope\":\"all\"}", 400, "CONFIG", "reason"},
    {"POST", "/v1/orders", "{\"kind\":\"freeze\",\"reason\":\"x\"}", 400, "CONFIG", "name"},
    {"POST", "/v1/orders", "{\"kind\":\"freeze\",\"reason\":\"x\",\"name\":\"nobody\"}", 404,
     "NOTFOUND", "nobody"},
    {"POST", "/v1/orders", "{\"kind\":\"freeze\",\"reason\":\"x\",\"scope\":\"world\"}", 400,
     "CONFIG", "scope"},
    {"POST", "/v1/orders",
     "{\"kind\":\"freeze\",\"reason\":\"x\",\"scope\":\"all\",\"name\":\"shop\"}", 400, "CONFIG",
     "name"},
    {"POST", "/v1/orders",
     "{\"kind\":\"freeze\",\"reason\":\"x\",\"scope\":\"all\",\"by\":\"root\"}", 400, "CONFIG",
     "by"},
    {"POST", "/v1/orders", "{\"kind\":\"freeze\",\"reason\":\"x\",\"scope\":\"all\",\"for\":7}",
     400, "CONFIG", "duration"},
    {"POST", "/v1/orders",
     "{\"kind\":\"freeze\",\"reason\":\"x\",\"scope\":\"all\",\"for\":\"soon\"}", 400, "CONFIG",
     "for"},
    {"POST", "/v1/orders", "{\"kind\":\"freeze\",\"reason\":\"x\",\"scope\":\"all\",\"for\":\"0\"}",
     400, "CONFIG", "above 0"},
    {"POST", "/v1/orders",
     "{\"kind\":\"freeze\",\"reason\":\"x\",\"scope\":\"all\",\"for\":\"-2h\"}", 400, "CONFIG",
     "for"},
    {"POST", "/v1/orders", "{\"kind\":\"freeze\",\"reason\":\"two\\nlines\",\"scope\":\"all\"}",
     400, "CONFIG", "one line"},
    {"POST", "/v1/orders",
     "{\"kind\":\"freeze\",\"reason\":\"x\",\"scope\":\"all\",\"down_only\":1}", 400, "CONFIG",
     "true or false"},
    {"POST", "/v1/orders", "{\"kind\":\"undo\"}", 400, "CONFIG", "decision"},
    {"POST", "/v1/orders", "{\"kind\":\"undo\",\"decision\":\"7\"}", 400, "CONFIG", "number"},
    {"POST", "/v1/orders", "{\"kind\":\"undo\",\"decision\":-1}", 400, "CONFIG", "number"},
    {"POST", "/v1/orders", "{\"kind\":\"undo\",\"decision\":88888}", 404, "NOTFOUND", "88888"},
    {"POST", "/v1/orders", "{\"kind\":\"undo\",\"decision\":1}", 404, "NOTFOUND", "1"},
    {"POST", "/v1/orders", "{\"kind\":\"undo\",\"decision\":1,\"scope\":\"all\"}", 400, "CONFIG",
     "scope"},
    {"POST", "/v1/orders", "{\"kind\":\"approve\",\"decision\":1}", 404, "NOTFOUND", "1"},
    {"POST", "/v1/orders", "{\"kind\":\"reject\",\"decision\":1}", 404, "NOTFOUND", "1"},
    {"POST", "/v1/orders", "{\"kind\":\"unfreeze\",\"name\":\"web\"}", 404, "NOTFOUND", "web"},
    {"POST", "/v1/orders", "{\"kind\":\"unfreeze\",\"order\":5}", 404, "NOTFOUND", "5"},
    {"POST", "/v1/orders", "{\"kind\":\"emergency\",\"reason\":\"x\",\"scope\":\"all\"}", 400,
     "CONFIG", "one workload"},
    {"POST", "/v1/orders", "{\"kind\":\"emergency\",\"reason\":\"x\",\"name\":\"web\",\"plan\":{}}",
     400, "CONFIG", "plan"},
    {"POST", "/v1/orders",
     "{\"kind\":\"emergency\",\"reason\":\"x\",\"name\":\"web\",\"plan\":{\"replicas\":0}}", 400,
     "CONFIG", "replicas"},
    {"POST", "/v1/orders",
     "{\"kind\":\"emergency\",\"reason\":\"x\",\"name\":\"web\",\"plan\":{\"gpus\":1}}", 400,
     "CONFIG", "alone"},
    {"POST", "/v1/orders", "{\"kind\":\"calm\",\"name\":\"web\"}", 404, "NOTFOUND", "web"},
    {"POST", "/v1/diff", NULL, 400, "CONFIG", ""},
    {"POST", "/v1/diff", "{", 400, "FORMAT", ""},
    {"POST", "/v1/diff", "kind: Pod\n", 400, NULL, ""},
    {"POST", "/v1/diff", PROFILE("a", "b", "  nonsense: 1\n"), 400, NULL, "nonsense"},
};

static void whatever_is_wrong_gets_one_clear_line(void **state)
{
    (void)state;
    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    memcpy(long_path, "/v1/", 4);
    for (size_t i = 0; i < sizeof wrong_requests / sizeof *wrong_requests; i++) {
        json_t *json = ask(&world.api, wrong_requests[i].method, wrong_requests[i].path,
                           wrong_requests[i].body, wrong_requests[i].status);
        const json_t *error = json_object_get(json, "error");
        const char *code = text_at(error, "code"), *message = text_at(error, "message");
        if (!code || !message ||
            (wrong_requests[i].code && strcmp(code, wrong_requests[i].code) != 0) ||
            !strstr(message, wrong_requests[i].says) || strchr(message, '\n'))
            fail_msg("%s %s %s: %s: %s", wrong_requests[i].method, wrong_requests[i].path,
                     wrong_requests[i].body ? wrong_requests[i].body : "", code, message);
        json_decref(json);
    }
    json_t *json = get("/v1/freezes"); /* none of it was taken */
    assert_int_equal(json_array_size(json_object_get(json, "freezes")), 0);
    assert_int_equal(json_array_size(json_object_get(json, "pins")), 0);
    json_decref(json);
}

static void nobody_orders_anything_without_a_name(void **state)
{
    (void)state;
    static const char body[] = "{\"kind\":\"freeze\",\"scope\":\"all\",\"reason\":\"x\"}";
    struct aw_api_response answer;
    const struct aw_api_request request = {
        .method = "POST", .path = "/v1/orders", .body = body, .body_len = sizeof body - 1};
    assert_ok(aw_api_answer(&world.api, &request, &answer));
    assert_int_equal(answer.status, 400);
    aw_api_response_deinit(&answer);
}

static void a_body_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    char *body = calloc(1, AW_API_BODY_MAX + 1);
    struct aw_api_response answer;
    const struct aw_api_request request = {.method = "POST",
                                           .path = "/v1/diff",
                                           .body = body,
                                           .body_len = AW_API_BODY_MAX + 1,
                                           .by = AW_API_TESTING_BY};
    assert_ok(aw_api_answer(&world.api, &request, &answer));
    assert_int_equal(answer.status, 413);
    aw_api_response_deinit(&answer);
    free(body);
}

static void views_are_what_the_routes_answer(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    assert_ok(aw_api_views(&world.api, &text, &len));
    json_t *views = json_loadb(text, len, 0, NULL), *list = get("/v1/workloads");
    assert_true(json_equal(json_object_get(json_object_get(views, "workloads"), "workloads"),
                           json_object_get(list, "workloads")));
    assert_true(json_is_object(json_object_get(views, "status")));
    assert_true(json_is_array(json_object_get(json_object_get(views, "freezes"), "freezes")));
    json_decref(list);
    json_decref(views);
    free(text);
}

#define EACH(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

AW_TEST_GROUP("api")
{
    const struct CMUnitTest tests[] = {
        EACH(status_tells_who_where_and_how_it_stands),
        EACH(a_loop_without_a_tick_is_not_ready_and_a_stuck_one_not_healthy),
        EACH(lists_are_sorted_filtered_and_paged),
        EACH(dearest_and_latest_come_first_when_asked),
        EACH(a_row_is_what_the_loop_decided),
        EACH(a_description_has_all_that_people_ask_for),
        EACH(an_explanation_is_the_recorded_account_and_can_be_repeated),
        EACH(a_history_is_about_one_workload_newest_first_and_pages_to_its_end),
        EACH(orders_about_all_are_in_everybodys_history),
        EACH(the_log_can_be_read_by_kind_and_time),
        EACH(exports_page_without_loss),
        EACH(the_audit_log_is_exported_oldest_first),
        EACH(a_freeze_is_signed_stands_and_can_be_lifted),
        EACH(the_last_change_can_be_undone_once),
        EACH(an_emergency_has_a_floor_and_ends_with_calm),
        EACH(savings_are_one_figure_everywhere),
        EACH(what_waits_is_approved_or_rejected_by_its_number),
        EACH(a_file_is_compared_with_what_runs),
        EACH(whatever_is_wrong_gets_one_clear_line),
        EACH(nobody_orders_anything_without_a_name),
        EACH(a_body_beyond_the_limit_is_refused),
        EACH(views_are_what_the_routes_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
