/* election_test.c - elections without a network: one server, several candidates, bad luck. */
#include "kube/election.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"

/* The one Lease, as an API server keeps it. */
struct server {
    bool there;
    struct aw_kube_lease lease;
    uint64_t version;
};

static enum aw_err server_put(struct server *server, const struct aw_kube_lease *wanted,
                              struct aw_kube_lease *ret)
{
    if (!wanted->resource_version[0] && server->there)
        return AW_ERR_EXISTS;
    if (wanted->resource_version[0] &&
        (!server->there || strcmp(wanted->resource_version, server->lease.resource_version) != 0))
        return AW_ERR_CONFLICT;
    server->there = true;
    server->lease = *wanted;
    snprintf(server->lease.resource_version, sizeof server->lease.resource_version, "%llu",
             (unsigned long long)++server->version);
    *ret = server->lease;
    return AW_OK;
}

enum luck { GOOD, UNREACHABLE, ANSWER_LOST };

/* What a candidate does at `now_us` of its own clock; returns when it wants to be asked again. */
static int64_t turn(struct aw_kube_election *election, struct server *server, int64_t now_us,
                    int64_t wall_us, enum luck luck)
{
    for (int i = 0; i < 10; i++) {
        struct aw_kube_lease wanted, got;
        int64_t due_us;
        enum aw_err err = luck == UNREACHABLE ? AW_ERR_UNAVAILABLE : AW_OK;
        switch (aw_kube_election_next(election, now_us, wall_us, 0.5, &wanted, &due_us)) {
        case AW_KUBE_ELECTION_WAIT:
            return due_us;
        case AW_KUBE_ELECTION_READ:
            aw_kube_election_saw(election, err, server->there ? &server->lease : NULL, now_us);
            break;
        case AW_KUBE_ELECTION_WRITE:
            err = err ? err : server_put(server, &wanted, &got);
            err = !err && luck == ANSWER_LOST ? AW_ERR_DEADLINE : err;
            aw_kube_election_wrote(election, err, &got, now_us);
            break;
        }
    }
    fail_msg("it never waits");
    return 0;
}

static void init(struct aw_kube_election *election, const char *name)
{
    struct aw_kube_election_config config = {0};
    snprintf(config.identity, sizeof config.identity, "%s", name);
    assert_ok(aw_kube_election_init(election, &config, NULL));
}

#define S 1000000ll

static void the_first_one_creates_the_lease_and_renews_it(void **state)
{
    struct server server = {0};
    struct aw_kube_election a;
    (void)state;
    init(&a, "a");
    assert_false(aw_kube_election_leading(&a, 0));
    assert_int_equal(turn(&a, &server, 0, 100 * S, GOOD), 2 * S);
    assert_true(aw_kube_election_leading(&a, 0));
    assert_string_equal(server.lease.holder, "a");
    assert_int_equal(server.lease.duration_s, 15);
    assert_int_equal(server.lease.transitions, 0);
    assert_int_equal(turn(&a, &server, 2 * S, 102 * S, GOOD), 4 * S);
    assert_int_equal(server.lease.acquired_us, 100 * S);
    assert_int_equal(server.lease.renewed_us, 102 * S);
    assert_int_equal(server.version, 2);
}

static void a_second_one_waits_for_a_whole_lease_without_a_change(void **state)
{
    struct server server = {0};
    struct aw_kube_election a, b;
    (void)state;
    init(&a, "a");
    init(&b, "b");
    turn(&a, &server, 0, 0, GOOD);
    /* the clock of b has another zero, and its wall clock is a year ahead: no matter */
    const int64_t zero = 7777 * S, ahead = 31536000 * S;
    turn(&b, &server, zero, ahead, GOOD);
    assert_false(aw_kube_election_leading(&b, zero));
    turn(&a, &server, 5 * S, 5 * S, GOOD); /* the last sign of life */
    for (int64_t at = 3 * S; at < 22 * S; at += 3 * S) {
        turn(&b, &server, zero + at, ahead + at, GOOD);
        /* it saw the change at 3, so nothing before 18 */
        assert_int_equal(aw_kube_election_leading(&b, zero + at), at >= 18 * S);
    }
    assert_string_equal(server.lease.holder, "b");
    assert_int_equal(server.lease.transitions, 1);
    assert_false(aw_kube_election_leading(&a, 16 * S)); /* had given up at 15 by itself */
    turn(&a, &server, 22 * S, 22 * S, GOOD);
    assert_false(aw_kube_election_leading(&a, 22 * S));
    assert_string_equal(server.lease.holder, "b");
}

static void a_leader_that_cannot_renew_stops_before_others_may_begin(void **state)
{
    struct server server = {0};
    struct aw_kube_election a;
    (void)state;
    init(&a, "a");
    turn(&a, &server, 0, 0, GOOD);
    for (int64_t at = 2 * S; at <= 12 * S; at += 2 * S) {
        turn(&a, &server, at, at, UNREACHABLE);
        assert_int_equal(aw_kube_election_leading(&a, at), at < 10 * S);
    }
    assert_int_equal(a.lost, 1);
    turn(&a, &server, 14 * S, 14 * S, GOOD); /* nobody took it: it is ours to take again */
    assert_true(aw_kube_election_leading(&a, 14 * S));
    assert_int_equal(server.lease.transitions, 0);
}

static void a_write_whose_answer_was_lost_is_looked_up(void **state)
{
    struct server server = {0};
    struct aw_kube_election a;
    (void)state;
    init(&a, "a");
    turn(&a, &server, 0, 0, ANSWER_LOST);
    assert_false(aw_kube_election_leading(&a, 0));
    assert_string_equal(server.lease.holder, "a");
    turn(&a, &server, 2 * S, 2 * S, GOOD);
    assert_true(aw_kube_election_leading(&a, 2 * S));
}

static void a_release_lets_the_next_one_in_at_once(void **state)
{
    struct server server = {0};
    struct aw_kube_election a, b;
    struct aw_kube_lease wanted, got;
    (void)state;
    init(&a, "a");
    init(&b, "b");
    turn(&a, &server, 0, 0, GOOD);
    turn(&b, &server, 0, 0, GOOD);
    assert_true(aw_kube_election_release(&a, 1 * S, 1 * S, &wanted));
    assert_false(aw_kube_election_leading(&a, 1 * S));
    assert_string_equal(wanted.holder, "");
    assert_ok(server_put(&server, &wanted, &got));
    turn(&b, &server, 3 * S, 3 * S, GOOD);
    assert_true(aw_kube_election_leading(&b, 3 * S));
    assert_int_equal(turn(&a, &server, 60 * S, 60 * S, GOOD), INT64_MAX); /* for good */
    assert_false(aw_kube_election_release(&a, 61 * S, 61 * S, &wanted));
}

static void a_lease_that_somebody_deleted_is_made_again(void **state)
{
    struct server server = {0};
    struct aw_kube_election a;
    (void)state;
    init(&a, "a");
    turn(&a, &server, 0, 0, GOOD);
    server.there = false;
    server.lease = (struct aw_kube_lease){0};
    turn(&a, &server, 2 * S, 2 * S, GOOD);
    assert_true(aw_kube_election_leading(&a, 2 * S));
    assert_true(server.there);
}

static void times_that_cannot_work_are_refused(void **state)
{
    static const struct aw_kube_election_config cases[] = {
        {.identity = ""},
        {.identity = "a", .lease_us = 10 * S, .renew_us = 10 * S},
        {.identity = "a", .renew_us = 2 * S, .retry_us = 2 * S},
        {.identity = "a", .lease_us = S / 2, .renew_us = S / 4, .retry_us = S / 8},
    };
    struct aw_kube_election election;
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(aw_kube_election_init(&election, &cases[i], NULL), AW_ERR_CONFIG);
}

/* Three candidates, each with a clock of its own zero, links that fail and answers that get lost,
 * long sleeps, a Lease that is deleted: never two leaders, and one again soon after the trouble. */
static void there_are_never_two_leaders_whatever_fails(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct server server = {0};
        struct aw_kube_election all[3];
        int64_t zero[3], due[3] = {0}, asleep[3] = {0};
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 0);
        for (int i = 0; i < 3; i++) {
            char name[8];
            snprintf(name, sizeof name, "c%d", i);
            init(&all[i], name);
            zero[i] = (int64_t)aw_rng_below(&rng, 1000000000);
            due[i] = zero[i];
        }
        for (int64_t now = 0; now < 400 * S; now += S / 4) {
            const bool calm = now >= 300 * S;
            int leaders = 0;
            for (int i = 0; i < 3; i++) {
                const int64_t mine = zero[i] + now;
                const double draw = aw_rng_double(&rng);
                if (!calm && aw_rng_below(&rng, 400) == 0)
                    asleep[i] = now + (int64_t)aw_rng_below(&rng, 40) * S;
                if ((calm || now >= asleep[i]) && mine >= due[i])
                    due[i] = turn(&all[i], &server, mine, mine,
                                  calm || draw < 0.5 ? GOOD
                                  : draw < 0.8       ? UNREACHABLE
                                                     : ANSWER_LOST);
                leaders += aw_kube_election_leading(&all[i], mine);
            }
            if (leaders > 1)
                fail_msg("seed %llu: two leaders at %lld s", (unsigned long long)seed,
                         (long long)(now / S));
            if (now >= 330 * S && leaders != 1)
                fail_msg("seed %llu: nobody leads", (unsigned long long)seed);
        }
    }
}

AW_TEST_GROUP("kube-election")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_one_creates_the_lease_and_renews_it),
        cmocka_unit_test(a_second_one_waits_for_a_whole_lease_without_a_change),
        cmocka_unit_test(a_leader_that_cannot_renew_stops_before_others_may_begin),
        cmocka_unit_test(a_write_whose_answer_was_lost_is_looked_up),
        cmocka_unit_test(a_release_lets_the_next_one_in_at_once),
        cmocka_unit_test(a_lease_that_somebody_deleted_is_made_again),
        cmocka_unit_test(times_that_cannot_work_are_refused),
        cmocka_unit_test(there_are_never_two_leaders_whatever_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
