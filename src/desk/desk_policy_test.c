/* desk_policy_test.c - policies that people hand in: into the log, past the canary, and back. */
#include "desk/desk_testing.h"

#include <unistd.h>

#define EPISODE 10u

/* Both are served by a policy from the first tick on, each by one of its own. */
static void prepare_served(struct bench *b, uint32_t agent)
{
    prepare(b);
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        struct aw_pilot_config *config = &b->workload[i].pilot;
        config->learning = true;
        config->agent = agent;
        config->lifecycle.bootstrap = false;
        config->episode_steps = EPISODE;
        config->canary.shadow_steps = 4;
        config->canary.episodes = 1;
        config->canary.chance = 1e-12; /* that it is good is not what is asked here */
        config->canary.width = 1000;
        config->watchdog.slack = 1000;
        config->learner.hidden = 64;
    }
}

static char *text_of(const struct bench *b, uint32_t workload)
{
    char *text = NULL;
    assert_ok(aw_pilot_policy_text(aw_loop_pilot(aw_job_loop(b->job), workload), &text, NULL));
    return text;
}

static struct aw_desk_view view_of(struct bench *b, uint32_t workload)
{
    struct aw_desk_view view;
    aw_desk_lock(b->desk);
    aw_desk_peek(b->desk, workload, &view);
    aw_desk_unlock(b->desk);
    return view;
}

static enum aw_err propose(struct bench *b, const char *name, const char *text, uint64_t *ret_id,
                           struct aw_diag *diag)
{
    struct aw_order order = order_of(AW_ORDER_PROPOSE, AW_SCOPE_WORKLOAD, name);
    snprintf(order.by, sizeof order.by, "sam");
    return aw_desk_propose(b->desk, &order, text, strlen(text), aw_job_now_us(b->job), ret_id,
                           diag);
}

static void must_propose(struct bench *b, const char *name, const char *text)
{
    struct aw_diag diag = {0};
    if (propose(b, name, text, NULL, &diag))
        fail_msg("%s", diag.text);
}

/* How often a phrase is in the log, in entries of one kind. */
struct search {
    const char *kind, *phrase;
    uint32_t found;
};

static enum aw_err look(void *ctx, const struct aw_audit_entry *entry)
{
    struct search *search = ctx;
    search->found +=
        !strcmp(entry->kind, search->kind) &&
        memmem(entry->members, entry->members_len, search->phrase, strlen(search->phrase)) != NULL;
    return AW_OK;
}

static uint32_t logged(struct bench *b, const char *kind, const char *phrase)
{
    struct search search = {.kind = kind, .phrase = phrase};
    assert_ok(aw_audit_scan(&b->disk.disk, FOLDER, &AW_AUDIT_EVERY, look, &search, NULL, NULL));
    return search.found;
}

static void a_file_is_watched_tried_and_adopted(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag = {0};
    bool seen[AW_CANARY_STATE_COUNT] = {0};
    uint64_t id = 0;
    prepare_served(&b, AW_POLICY_CAPACITY);
    begin(&b);
    attach(&b);
    run(&b, 2);
    char *text = text_of(&b, 1), phrase[256];
    const uint64_t wanted = view_of(&b, 1).decision->policy_id;
    assert_int_not_equal(wanted, view_of(&b, 0).decision->policy_id);
    if (propose(&b, "cart-0", text, &id, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(view_of(&b, 0).policy_waits, id);
    /* who, why and which, before anything is done */
    snprintf(phrase, sizeof phrase, "\"id\":\"%016llx\"", (unsigned long long)wanted);
    assert_int_equal(logged(&b, "order", phrase), 1);
    assert_int_equal(logged(&b, "order", "\"by\":\"sam\""), 1);
    assert_int_equal(logged(&b, "order", "\"reason\":\"a test\""), 1);
    assert_int_equal(logged(&b, "policy", "aware-policy"), 1);
    assert_int_equal(view_of(&b, 0).decision->canary.state, AW_CANARY_NONE);
    for (uint32_t t = 0; t < 5 * EPISODE && !seen[AW_CANARY_ADOPTED]; t++) {
        run(&b, 1);
        seen[view_of(&b, 0).decision->canary.state] = true;
    }
    assert_true(seen[AW_CANARY_SHADOW] && seen[AW_CANARY_TRIAL] && seen[AW_CANARY_ADOPTED]);
    assert_int_equal(view_of(&b, 0).decision->policy_id, wanted);
    assert_int_equal(view_of(&b, 0).policy_tried, id);
    assert_int_equal(view_of(&b, 0).policy_err, AW_OK);
    snprintf(phrase, sizeof phrase, "\"of\":%llu,\"result\":\"done\"", (unsigned long long)id);
    assert_int_equal(logged(&b, "outcome", phrase), 1);
    free(text);
    end(&b);
}

static void a_person_takes_it_back_at_once(void **state)
{
    (void)state;
    for (uint32_t waited = 0; waited < 2; waited++) {
        struct bench b;
        struct aw_diag diag;
        prepare_served(&b, AW_POLICY_CAPACITY);
        begin(&b);
        attach(&b);
        run(&b, 2);
        char *text = text_of(&b, 1);
        const uint64_t good = view_of(&b, 0).decision->policy_id;
        must_propose(&b, "cart-0", text);
        if (waited) /* until it acts */
            for (uint32_t t = 0; !view_of(&b, 0).decision->canary.acts; t++) {
                assert_true(t < 3 * EPISODE);
                run(&b, 1);
            }
        const struct aw_order back = order_of(AW_ORDER_ROLLBACK, AW_SCOPE_WORKLOAD, "shop/cart-0");
        const uint64_t id = give(&b, &back);
        assert_int_equal(refused(&b, &back, &diag), AW_ERR_CONFLICT); /* that is under way */
        run(&b, 1);
        const struct aw_decision *decision = view_of(&b, 0).decision;
        assert_int_equal(decision->policy_id, good);
        assert_false(decision->canary.acts);
        assert_int_equal(decision->canary.state, waited ? AW_CANARY_ROLLED_BACK : AW_CANARY_NONE);
        if (waited)
            assert_int_equal(decision->canary.reason.cause, AW_CANARY_CAUSE_ORDERED);
        assert_int_equal(view_of(&b, 0).policy_tried, id);
        assert_int_equal(view_of(&b, 0).policy_err, AW_OK);
        /* what was tried and taken back is not tried again soon; what was not may be */
        must_propose(&b, "cart-0", text);
        run(&b, 1);
        assert_int_equal(view_of(&b, 0).policy_err, waited ? AW_ERR_CONFLICT : AW_OK);
        if (waited)
            assert_non_null(strstr(view_of(&b, 0).policy_why, "rolled back"));
        free(text);
        end(&b);
    }
}

/* The first digit behind `key` becomes another one. */
static char *with_another_digit(const char *text, const char *key)
{
    char *copy = strdup(text), *at = strstr(copy, key);
    assert_non_null(at);
    at = strpbrk(at + strlen(key), "0123456789");
    assert_non_null(at);
    *at = *at == '9' ? '8' : (char)(*at + 1);
    return copy;
}

static void what_cannot_be_tried_is_refused_in_a_line_and_changes_nothing(void **state)
{
    (void)state;
    struct bench b, other;
    struct aw_diag diag;
    prepare_served(&other, AW_POLICY_NETWORK);
    begin(&other);
    prepare_served(&b, AW_POLICY_CAPACITY);
    b.workload[1].pilot.learning = false;
    begin(&b);
    attach(&b);
    char *own = text_of(&b, 0), *network = text_of(&other, 0);
    char *edited = with_another_digit(own, "\"cpu\":"), *cut = strndup(own, strlen(own) / 2);
    const struct {
        const char *name, *text;
        enum aw_err err;
        const char *says, *why;
    } rows[] = {
        {"cart-0", own, AW_ERR_CONFLICT, "nothing has been decided", "before the first tick"},
        {"cart-0", own, AW_ERR_EXISTS, "is the one that", "it has that one"},
        {"cart-0", edited, AW_ERR_FORMAT, "checksum", "edited by hand"},
        {"cart-0", cut, AW_ERR_FORMAT, "not a policy", "half a file"},
        {"cart-0", "", AW_ERR_FORMAT, "not a policy", "empty"},
        {"cart-0", "\x89HDF\r\n", AW_ERR_FORMAT, "not a policy", "something else"},
        {"cart-0", "{\"format\":\"pickle\"}", AW_ERR_FORMAT, "aware-policy", "a foreign format"},
        {"cart-0", network, AW_ERR_CONFIG, "kind: expected formula", "of another kind"},
        {"bank/cart", own, AW_ERR_CONFLICT, "in the hands of its fallback", "nobody to stand by"},
        {"no/such", own, AW_ERR_NOTFOUND, "no workload", "nobody of that name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint64_t before = aw_desk_counts(b.desk)->entries;
        diag = (struct aw_diag){0};
        const enum aw_err err = propose(&b, rows[i].name, rows[i].text, NULL, &diag);
        if (err != rows[i].err || !strstr(diag.text, rows[i].says) || strchr(diag.text, '\n'))
            fail_msg("%s: %s: %s", rows[i].why, aw_err_name(err), diag.text);
        assert_int_equal(aw_desk_counts(b.desk)->entries, before);
        assert_int_equal(view_of(&b, 0).policy_waits, 0);
        if (i == 0)
            run(&b, 2);
    }
    const struct aw_order back = order_of(AW_ORDER_ROLLBACK, AW_SCOPE_WORKLOAD, "cart-0");
    assert_int_equal(refused(&b, &back, &diag), AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "last known good"));
    const struct aw_order bare = order_of(AW_ORDER_PROPOSE, AW_SCOPE_WORKLOAD, "cart-0");
    assert_int_equal(refused(&b, &bare, &diag), AW_ERR_CONFIG);
    free(own);
    free(network);
    free(edited);
    free(cut);
    end(&b);
    end(&other);
}

static void one_at_a_time(void **state)
{
    (void)state;
    struct bench b, third;
    struct aw_diag diag = {0};
    prepare_served(&third, AW_POLICY_CAPACITY);
    third.workload[0].pilot.seed = 77;
    begin(&third);
    prepare_served(&b, AW_POLICY_CAPACITY);
    begin(&b);
    attach(&b);
    run(&b, 2);
    char *text = text_of(&b, 1), *another = text_of(&third, 0);
    must_propose(&b, "cart-0", text);
    assert_int_equal(propose(&b, "cart-0", another, NULL, &diag), AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "waits for the next decision"));
    run(&b, 1);
    assert_int_equal(propose(&b, "cart-0", another, NULL, &diag), AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "is trying policy"));
    /* taken back and followed by another before the next tick: both happen, in their order */
    const struct aw_order back = order_of(AW_ORDER_ROLLBACK, AW_SCOPE_WORKLOAD, "cart-0");
    give(&b, &back);
    must_propose(&b, "cart-0", another);
    run(&b, 1);
    assert_int_equal(view_of(&b, 0).policy_err, AW_OK);
    assert_int_equal(view_of(&b, 0).decision->canary.state, AW_CANARY_SHADOW);
    free(text);
    free(another);
    end(&b);
    end(&third);
}

static void a_policy_that_cannot_be_written_down_is_not_taken(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag = {0};
    prepare_served(&b, AW_POLICY_CAPACITY);
    begin(&b);
    attach(&b);
    run(&b, 2);
    char *text = text_of(&b, 1);
    b.disk.faults.read_only = true;
    assert_int_equal(propose(&b, "cart-0", text, NULL, &diag), AW_ERR_IO);
    assert_non_null(strstr(diag.text, "not taken"));
    b.disk.faults.read_only = false;
    run(&b, 2);
    assert_int_equal(view_of(&b, 0).decision->canary.state, AW_CANARY_NONE);
    must_propose(&b, "cart-0", text);
    free(text);
    end(&b);
}

static char path[] = "/tmp/aware-policy-XXXXXX";

static int make_path(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void kill_and_start(struct bench *b)
{
    aw_job_free(b->job);
    aw_desk_free(b->desk);
    aw_disk_sim_kill(&b->disk);
    begin(b);
    assert_ok(aw_job_load(b->job, path, NULL));
    attach(b);
}

/* A network's text has many parts. */
static void what_a_restart_has_lost_is_tried_again_from_the_log_and_once(void **state)
{
    (void)state;
    for (uint32_t agent = AW_POLICY_CAPACITY; agent <= AW_POLICY_NETWORK; agent++) {
        struct bench b;
        prepare_served(&b, agent);
        for (uint32_t i = 0; i < WORKLOADS; i++) {
            b.workload[i].pilot.episode_steps = 100; /* nobody learns meanwhile */
            b.workload[i].pilot.canary.shadow_steps = 6;
        }
        begin(&b);
        attach(&b);
        run(&b, 2);
        assert_ok(aw_job_save(b.job, path, NULL));
        char *text = text_of(&b, 1);
        must_propose(&b, "cart-0", text);
        if (agent == AW_POLICY_NETWORK)
            assert_true(logged(&b, "policy", "\"parts\"") > 1);
        run(&b, 3);
        assert_int_equal(view_of(&b, 0).decision->canary.state, AW_CANARY_SHADOW);
        const uint64_t trial = view_of(&b, 0).decision->canary.trial;
        kill_and_start(&b); /* what was saved knows nothing of it */
        run(&b, 1);
        assert_int_equal(view_of(&b, 0).decision->canary.state, AW_CANARY_SHADOW);
        assert_int_equal(view_of(&b, 0).decision->canary.trial, trial);
        run(&b, 2);
        assert_ok(aw_job_save(b.job, path, NULL));
        const uint32_t tried = logged(&b, "outcome", "\"order\"");
        kill_and_start(&b); /* what was saved knows of it: it goes on */
        run(&b, 2);
        assert_int_equal(logged(&b, "outcome", "\"order\""), tried);
        assert_int_equal(view_of(&b, 0).decision->canary.trial, trial);
        free(text);
        end(&b);
    }
}

static void a_run_that_is_resumed_lives_its_policies_again(void **state)
{
    (void)state;
    uint64_t hash[2];
    uint32_t outcomes[2];
    for (uint32_t killed = 0; killed < 2; killed++) {
        struct bench b;
        prepare_served(&b, AW_POLICY_CAPACITY);
        b.steward_config.virtual_time = true;
        begin(&b);
        attach(&b);
        run(&b, 5);
        assert_ok(aw_job_save(b.job, path, NULL));
        const uint64_t at_save = b.hash;
        char *text = text_of(&b, 1);
        run(&b, 3);
        must_propose(&b, "cart-0", text);
        run(&b, 12);
        const struct aw_order back = order_of(AW_ORDER_ROLLBACK, AW_SCOPE_WORKLOAD, "cart-0");
        give(&b, &back);
        run(&b, 4);
        if (killed) {
            kill_and_start(&b);
            b.hash = at_save;
            run(&b, 19);
        }
        run(&b, 10);
        hash[killed] = b.hash;
        outcomes[killed] = logged(&b, "outcome", "\"order\"");
        assert_int_equal(view_of(&b, 0).decision->canary.reason.cause, AW_CANARY_CAUSE_ORDERED);
        free(text);
        end(&b);
    }
    assert_int_equal(hash[0], hash[1]);
    assert_int_equal(outcomes[0], outcomes[1]);
}

AW_TEST_GROUP("desk-policy")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_watched_tried_and_adopted),
        cmocka_unit_test(a_person_takes_it_back_at_once),
        cmocka_unit_test(what_cannot_be_tried_is_refused_in_a_line_and_changes_nothing),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(a_policy_that_cannot_be_written_down_is_not_taken),
        cmocka_unit_test(what_a_restart_has_lost_is_tried_again_from_the_log_and_once),
        cmocka_unit_test(a_run_that_is_resumed_lives_its_policies_again),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
