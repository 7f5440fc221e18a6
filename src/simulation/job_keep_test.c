/* job_keep_test.c - what is learned outlives changes of the settings, of the workloads and of the
 * program. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "simulation/job_testing.h"
#include "store/archive_testing.h"

#define LIVED (9 * EPISODE + 5)

static char path[] = "/tmp/aw-keep-XXXXXX";

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/aw-keep-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

/* What is known of a workload. */
struct known {
    uint64_t policy;
    uint32_t episodes;
    enum aw_stage stage;
};

static struct known known(struct bench *b, uint32_t i)
{
    char *text = NULL;
    struct known ret = {.stage = aw_pilot_stage(aw_loop_pilot(aw_job_loop(b->job), i))};
    struct aw_job_view view;
    aw_job_view(b->job, i, &view);
    ret.episodes = view.episodes;
    if (aw_pilot_policy_text(view.pilot, &text, NULL) == AW_OK)
        ret.policy = aw_hash_text(AW_HASH_BEGIN, text);
    free(text);
    return ret;
}

struct heard {
    struct aw_pilot_found found[4];
    uint32_t count;
};

static void hear(void *ctx, uint32_t workload, const struct aw_pilot_found *found)
{
    struct heard *heard = ctx;
    heard->found[workload] = *found;
    heard->count++;
}

/* A life with both workloads that was saved. */
static void live(struct bench *b, struct known *ret)
{
    prepare(b);
    begin(b);
    run(b, LIVED);
    assert_ok(aw_job_save(b->job, path, NULL));
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        ret[i] = known(b, i);
        assert_true(ret[i].policy != 0 && ret[i].stage != AW_STAGE_OFFLINE);
    }
    aw_job_free(b->job);
    b->job = NULL;
}

static void again(struct bench *b, struct heard *heard)
{
    struct aw_diag diag = {0};
    *heard = (struct heard){0};
    if (aw_job_new(&b->config, NULL, &b->job, &diag) ||
        aw_job_recover(b->job, path, &(struct aw_job_recovery){.found = hear, .ctx = heard}, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(heard->count, b->config.count);
}

static void assert_same(const struct known *a, const struct known *b)
{
    assert_true(a->policy == b->policy);
    assert_int_equal(a->episodes, b->episodes);
    assert_int_equal(a->stage, b->stage);
}

/* --- settings --------------------------------------------------------------------------------- */

static void more_replicas(struct bench *b)
{
    b->workload[0].pilot.bounds.replicas_max = 14;
}
static void fewer_replicas(struct bench *b)
{
    b->workload[0].pilot.bounds.replicas_max = 6;
}
static void another_slo(struct bench *b)
{
    b->workload[0].pilot.slo.latency_us_p99 *= 1.25;
}
static void another_budget(struct bench *b)
{
    b->workload[0].pilot.slo_budget = 0.1;
}
static void other_prices(struct bench *b)
{
    b->workload[0].pilot.prices.hour[AW_RESOURCE_MEMORY] *= 2;
}
static void another_load(struct bench *b)
{
    aw_load_scale_mean(&b->load[0], 1.3 * aw_load_figures(&b->load[0]).mean_per_s);
}
static void another_seed(struct bench *b)
{
    b->config.seed++;
}
static void more_nodes(struct bench *b)
{
    b->config.sim.node_count += 2;
}
static void no_twin(struct bench *b)
{
    b->config.twin = false;
}
static void another_fallback(struct bench *b)
{
    b->workload[0].pilot.fallback.kind = AW_FALLBACK_HPA;
}

static void other_settings_keep_what_was_learned_and_a_new_task_asks_for_one_workload(void **state)
{
    (void)state;
    static const struct {
        void (*edit)(struct bench *b);
        enum aw_pilot_found_kind found;
        const char *said; /* of workload 0; NULL: nothing */
    } cases[] = {
        {more_replicas, AW_PILOT_FOUND_KEPT, "bounds.replicas_max 10 -> 14: what was learned is"},
        {fewer_replicas, AW_PILOT_FOUND_KEPT, "bounds.replicas_max 10 -> 6: what was learned is"},
        {another_slo, AW_PILOT_FOUND_ASKED_ANEW, "judged again from the offline stage on"},
        {another_budget, AW_PILOT_FOUND_ASKED_ANEW, "slo_budget 0.2 -> 0.1: the task has changed"},
        {other_prices, AW_PILOT_FOUND_ASKED_ANEW, "the task has changed"},
        {another_fallback, AW_PILOT_FOUND_KEPT, "what was learned is kept"},
        {another_load, AW_PILOT_FOUND_SAME, NULL},
        {another_seed, AW_PILOT_FOUND_SAME, NULL},
        {more_nodes, AW_PILOT_FOUND_SAME, NULL},
        {no_twin, AW_PILOT_FOUND_SAME, NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct bench b;
        struct known before[WORKLOADS];
        struct heard heard;
        live(&b, before);
        cases[k].edit(&b);
        again(&b, &heard);
        if (heard.found[0].kind != cases[k].found)
            fail_msg("case %zu: %d: %s", k, heard.found[0].kind, heard.found[0].text);
        if (cases[k].said && !strstr(heard.found[0].text, cases[k].said))
            fail_msg("case %zu: %s", k, heard.found[0].text);
        assert_int_equal(heard.found[1].kind, AW_PILOT_FOUND_SAME);
        assert_string_equal(heard.found[1].text, "");
        struct known after[WORKLOADS] = {known(&b, 0), known(&b, 1)};
        assert_same(&after[1], &before[1]);
        assert_true(after[0].policy == before[0].policy);
        assert_int_equal(after[0].stage, cases[k].found == AW_PILOT_FOUND_ASKED_ANEW
                                             ? AW_STAGE_OFFLINE
                                             : before[0].stage);
        assert_int_equal(aw_job_steps(b.job), LIVED);
        assert_true(aw_job_now_us(b.job) == aw_job_lived_us(b.job));
        run(&b, 3 * EPISODE); /* the store is behind, or ahead: both are lived with */
        assert_true(known(&b, 1).policy != 0);
        end(&b);
    }
}

/* Time goes on, whatever a step is. */
static void another_step_keeps_the_time(void **state)
{
    (void)state;
    struct bench b;
    struct known before[WORKLOADS];
    struct heard heard;
    live(&b, before);
    const int64_t lived = (int64_t)LIVED * 15000000;
    for (uint32_t i = 0; i < WORKLOADS; i++)
        b.workload[i].pilot.step_s = 30;
    again(&b, &heard);
    assert_true(aw_job_lived_us(b.job) == lived && aw_job_now_us(b.job) == lived);
    assert_int_equal(heard.found[0].kind, AW_PILOT_FOUND_ASKED_ANEW);
    run(&b, EPISODE);
    assert_true(aw_job_lived_us(b.job) == lived + EPISODE * INT64_C(30000000));
    end(&b);
}

/* What a workload has been asked to have is what it has, also in a world that is set up again. */
static void a_world_that_is_set_up_again_has_the_replicas_and_sizes_it_had(void **state)
{
    (void)state;
    struct bench b;
    struct heard heard;
    prepare(&b);
    begin(&b);
    run(&b, LIVED);
    struct aw_job_view view[WORKLOADS];
    for (uint32_t i = 0; i < WORKLOADS; i++)
        aw_job_view(b.job, i, &view[i]);
    assert_ok(aw_job_save(b.job, path, NULL));
    aw_job_free(b.job);
    b.config.seed++;
    again(&b, &heard);
    run(&b, 1);
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        struct aw_job_view now;
        aw_job_view(b.job, i, &now);
        assert_int_equal(now.decision->reading.replicas_ready, view[i].asked.replicas);
        assert_memory_equal(now.decision->reading.wanted, view[i].asked.amount,
                            sizeof view[i].asked.amount);
        assert_int_equal(now.decision->guard.plan.set, 0); /* not before a look */
        assert_true(now.decision->answered && now.decision->reading.arrivals_per_s >= 0);
    }
    end(&b);
}

/* --- workloads -------------------------------------------------------------------------------- */

static void workloads_come_and_go_and_the_others_lose_nothing(void **state)
{
    (void)state;
    struct bench b;
    struct known before[WORKLOADS], after;
    struct heard heard;
    live(&b, before);

    /* the first goes; what is kept of it stays in the file */
    struct aw_job_workload both[WORKLOADS];
    memcpy(both, b.workload, sizeof both);
    b.config.workloads = &both[1];
    b.config.count = 1;
    again(&b, &heard);
    assert_int_equal(heard.found[0].kind, AW_PILOT_FOUND_SAME);
    after = known(&b, 0);
    assert_same(&after, &before[1]);
    run(&b, EPISODE);
    assert_ok(aw_job_save(b.job, path, NULL));
    before[1] = known(&b, 0);
    aw_job_free(b.job);

    /* another one comes, in front of it */
    snprintf(both[0].pilot.name, sizeof both[0].pilot.name, "test/new");
    b.config.workloads = both;
    b.config.count = 2;
    again(&b, &heard);
    assert_int_equal(heard.found[0].kind, AW_PILOT_FOUND_NONE);
    assert_int_equal(heard.found[1].kind, AW_PILOT_FOUND_SAME);
    after = known(&b, 1);
    assert_same(&after, &before[1]);
    assert_int_equal(known(&b, 0).stage, AW_STAGE_OFFLINE);
    run(&b, EPISODE);
    assert_ok(aw_job_save(b.job, path, NULL));
    before[1] = known(&b, 1);
    aw_job_free(b.job);

    /* and the first comes back, and knows what it knew */
    b.config.workloads = b.workload;
    again(&b, &heard);
    assert_int_equal(heard.found[0].kind, AW_PILOT_FOUND_SAME);
    after = known(&b, 0);
    assert_same(&after, &before[0]);
    after = known(&b, 1);
    assert_same(&after, &before[1]);
    run(&b, EPISODE);
    end(&b);
}

/* --- the program ------------------------------------------------------------------------------ */

static char *file_bytes(size_t *ret_size)
{
    char *bytes = NULL;
    assert_ok(aw_file_read(path, 1u << 30, NULL, &bytes, ret_size, NULL));
    return bytes;
}

/* Members of every part of what is saved, that an older program did not have. */
static void the_save_of_an_older_program_is_read_by_the_names_of_its_members(void **state)
{
    (void)state;
    static const char *const members[] = {
        "extra_cost",     /* of a pilot */
        "relief. raises", /* of one of its parts */
        "lived.idle",     /* of a policy */
        "reversals_down", /* of an account */
        "next_event_us",  /* of the simulated cluster */
        "learn_waited",   /* of the loop */
        "guard/mode",     /* of the settings */
    };
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        struct bench b;
        struct known before[WORKLOADS];
        struct heard heard;
        size_t size;
        live(&b, before);
        char *bytes = file_bytes(&size);
        if (aw_testing_archive_rename(bytes, size, members[k]) == 0)
            fail_msg("there is no member %s", members[k]);
        assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
        aw_alloc_free(NULL, bytes);
        again(&b, &heard);
        for (uint32_t i = 0; i < WORKLOADS; i++) {
            const struct known after = known(&b, i);
            assert_true(heard.found[i].kind == AW_PILOT_FOUND_SAME ||
                        heard.found[i].kind == AW_PILOT_FOUND_KEPT);
            assert_true(after.policy == before[i].policy);
            assert_int_equal(after.stage, before[i].stage);
        }
        run(&b, 3 * EPISODE);
        end(&b);
    }
}

/* A run that an earlier program has saved: tests/golden/run-1.state, of live() above. With
 * AWARE_GOLDEN_WRITE=FILE this test writes such a file for the next version of the format; the old
 * ones stay, and are read for ever. */
static void a_run_that_an_earlier_program_has_saved_goes_on(void **state)
{
    (void)state;
    const char *folder = getenv("AW_TESTDATA"), *write = getenv("AWARE_GOLDEN_WRITE");
    struct bench b;
    struct known before[WORKLOADS];
    struct heard heard;
    char golden[512], *bytes = NULL;
    size_t size;
    snprintf(golden, sizeof golden, "%s/golden/run-1.state", folder ? folder : "tests");
    if (write) {
        live(&b, before);
        bytes = file_bytes(&size);
        assert_ok(aw_file_replace(write, bytes, size, NULL, NULL));
        aw_alloc_free(NULL, bytes);
        again(&b, &heard);
        end(&b);
    }
    prepare(&b);
    assert_ok(aw_store_open(&b.store, "memory", &(struct aw_store_options){0}, NULL, NULL));
    b.config.store = &b.store;
    assert_ok(aw_file_read(golden, 1u << 30, NULL, &bytes, &size, NULL));
    assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
    aw_alloc_free(NULL, bytes);
    again(&b, &heard);
    assert_int_equal(aw_job_steps(b.job), LIVED);
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        assert_true(heard.found[i].kind == AW_PILOT_FOUND_SAME ||
                    heard.found[i].kind == AW_PILOT_FOUND_KEPT);
        assert_true(known(&b, i).policy != 0 && known(&b, i).stage != AW_STAGE_OFFLINE);
    }
    run(&b, 3 * EPISODE);
    end(&b);
}

static void what_cannot_be_read_costs_one_workload_and_says_so(void **state)
{
    (void)state;
    struct bench b;
    struct known before[WORKLOADS];
    struct heard heard;
    size_t size;
    live(&b, before);
    char *bytes = file_bytes(&size);
    aw_testing_archive_version(bytes, size, "0/test/app-0/memory");
    assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
    aw_alloc_free(NULL, bytes);
    again(&b, &heard);
    assert_int_equal(heard.found[0].kind, AW_PILOT_FOUND_UNREADABLE);
    assert_non_null(strstr(heard.found[0].text, "it learns again"));
    assert_int_equal(known(&b, 0).stage, AW_STAGE_OFFLINE);
    assert_int_equal(heard.found[1].kind, AW_PILOT_FOUND_SAME);
    const struct known after = known(&b, 1);
    assert_same(&after, &before[1]);
    run(&b, 2 * EPISODE);
    end(&b);

    live(&b,
         before); /* a policy that cannot be read is sought again, on the record that there is */
    bytes = file_bytes(&size);
    aw_testing_archive_version(bytes, size, "0/test/app-1/policy");
    assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
    aw_alloc_free(NULL, bytes);
    again(&b, &heard);
    assert_int_equal(heard.found[1].kind, AW_PILOT_FOUND_ASKED_ANEW);
    assert_non_null(strstr(heard.found[1].text, "its policy"));
    assert_int_equal(heard.found[0].kind, AW_PILOT_FOUND_SAME);
    run(&b, 2 * EPISODE);
    end(&b);
}

/* A byte anywhere is another one: the file is read, or refused as a whole, and never believed. */
static void damage_costs_one_workload_at_most(void **state)
{
    (void)state;
    struct bench b;
    struct known before[WORKLOADS];
    struct heard heard;
    size_t size;
    live(&b, before);
    char *bytes = file_bytes(&size);
    uint32_t refused = 0, lost = 0;
    for (size_t at = 0; at < size; at += 997) {
        struct aw_diag diag = {0};
        bytes[at] ^= 4;
        assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
        bytes[at] ^= 4;
        assert_ok(aw_job_new(&b.config, NULL, &b.job, NULL));
        heard = (struct heard){0};
        const enum aw_err err = aw_job_recover(
            b.job, path, &(struct aw_job_recovery){.found = hear, .ctx = &heard}, &diag);
        refused += err == AW_ERR_FORMAT;
        uint32_t gone = 0;
        for (uint32_t i = 0; !err && i < WORKLOADS; i++)
            gone += known(&b, i).policy != before[i].policy;
        assert_true(gone <= 1);
        lost += gone;
        aw_job_free(b.job);
    }
    assert_true(refused < 6 && lost > 0);
    assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
    aw_alloc_free(NULL, bytes);
    again(&b, &heard);
    end(&b);
}

static void what_is_no_save_of_this_kind_is_refused_and_stays(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        char byte;
        const char *text;
    } cases[] = {
        {7, 3, "the state of a run was made by a newer version of aware"},
        {7, 1, "the state of a run was made by an older version of aware"},
        {8, 'h', "expected the state of a run (run), found \"hun"},
        {0, '0', "not a saved state"},
    };
    struct bench b;
    struct known before[WORKLOADS];
    size_t size;
    live(&b, before);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_diag diag = {0};
        char *bytes = file_bytes(&size);
        const char was = bytes[cases[i].at];
        bytes[cases[i].at] = cases[i].byte;
        assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
        assert_ok(aw_job_new(&b.config, NULL, &b.job, NULL));
        assert_int_equal(aw_job_load(b.job, path, &diag), AW_ERR_FORMAT);
        if (!strstr(diag.text, cases[i].text))
            fail_msg("found \"%s\"", diag.text);
        assert_string_equal(diag.file, path);
        size_t after_size;
        char *after = file_bytes(&after_size);
        assert_int_equal(after_size, size);
        assert_memory_equal(after, bytes, size);
        bytes[cases[i].at] = was;
        assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
        aw_alloc_free(NULL, after);
        aw_alloc_free(NULL, bytes);
        aw_job_free(b.job);
    }
    assert_int_equal(truncate(path, 3), 0);
    assert_ok(aw_job_new(&b.config, NULL, &b.job, NULL));
    assert_int_equal(aw_job_load(b.job, path, NULL), AW_ERR_FORMAT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(aw_job_load(b.job, path, NULL), AW_ERR_NOTFOUND);
    assert_int_equal(setup(NULL), 0);
    end(&b);
}

AW_TEST_GROUP("job-keep")
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(other_settings_keep_what_was_learned_and_a_new_task_asks_for_one_workload),
        TEST(another_step_keeps_the_time),
        TEST(a_world_that_is_set_up_again_has_the_replicas_and_sizes_it_had),
        TEST(workloads_come_and_go_and_the_others_lose_nothing),
        TEST(the_save_of_an_older_program_is_read_by_the_names_of_its_members),
        TEST(a_run_that_an_earlier_program_has_saved_goes_on),
        TEST(what_cannot_be_read_costs_one_workload_and_says_so),
        TEST(damage_costs_one_workload_at_most),
        TEST(what_is_no_save_of_this_kind_is_refused_and_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
