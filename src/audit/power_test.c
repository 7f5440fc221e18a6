/*
 * power_test.c - the audit log on disks that fill up, fail and lose their power.
 *
 * One workload of commits, rotations, retention and restarts is run over and over, and each time
 * something happens one step later. A twin remembers what was acknowledged. Afterwards: everything
 * acknowledged is there, as it was written; nothing else is, but for the commit that was under way;
 * what is there verifies; and the log goes on.
 */
#include "audit/audit_testing.h"
#include "audit/writer.h"

#define ENTRIES_MAX 512u
#define COMMITS     14u
#define MAYBE_MAX   16u
#define NOT_SEEN    UINT64_MAX

struct twin {
    uint64_t n_of_seq[ENTRIES_MAX]; /* [seq] acknowledged; NOT_SEEN: none */
    /* [seq] in commits that failed since the last that did not: one may be there after a crash */
    uint64_t maybe_of_seq[ENTRIES_MAX][MAYBE_MAX];
    uint64_t last_seq; /* acknowledged */
    uint64_t next_n;
    uint64_t failed_count;
    bool last_fine;         /* the last commit was acknowledged */
    bool reserved;          /* commits may use the reserve */
    uint64_t reserve_count; /* so many of them did */
};

static void twin_init(struct twin *twin)
{
    memset(twin, 0xff, sizeof *twin);
    twin->last_seq = twin->next_n = twin->failed_count = twin->reserve_count = 0;
    twin->reserved = twin->last_fine = false;
}

static void add_maybe(struct twin *twin, uint64_t seq, uint64_t n)
{
    uint32_t i = 0;
    while (twin->maybe_of_seq[seq][i] != NOT_SEEN)
        assert_true(++i < MAYBE_MAX);
    twin->maybe_of_seq[seq][i] = n;
}

/* One commit of `count` entries; true: acknowledged. */
static bool commit(struct aw_audit *audit, struct twin *twin, uint32_t count)
{
    uint64_t seqs[8], n = twin->next_n;
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(append_n(audit, n + i, &seqs[i], NULL));
        assert_true(seqs[i] < ENTRIES_MAX);
    }
    enum aw_err err =
        twin->reserved ? aw_audit_commit_reserved(audit, NULL) : aw_audit_commit(audit, NULL);
    twin->reserve_count += !err && aw_audit_on_reserve(audit);
    twin->next_n += count;
    twin->last_fine = !err;
    if (err) {
        assert_int_equal(err, AW_ERR_IO);
        twin->failed_count++;
        for (uint32_t i = 0; i < count; i++)
            add_maybe(twin, seqs[i], n + i);
    } else {
        memset(twin->maybe_of_seq, 0xff, sizeof twin->maybe_of_seq);
        for (uint32_t i = 0; i < count; i++)
            twin->n_of_seq[seqs[i]] = n + i;
        twin->last_seq = seqs[count - 1];
    }
    return !err;
}

struct looking {
    struct twin *twin;
    uint64_t first_seq, last_seq;
    bool adopts; /* what survived of a commit under way is part of the log from now on */
};

static enum aw_err look(void *ctx, const struct aw_audit_entry *entry)
{
    struct looking *looking = ctx;
    struct twin *twin = looking->twin;
    uint64_t n = n_of(entry);
    looking->first_seq = looking->first_seq ? looking->first_seq : entry->seq;
    looking->last_seq = entry->seq;
    assert_true(entry->seq < ENTRIES_MAX);
    bool fine = !strcmp(entry->kind, AW_AUDIT_KIND_RETAINED) || n == twin->n_of_seq[entry->seq];
    for (uint32_t i = 0; i < MAYBE_MAX && !fine && entry->seq > twin->last_seq; i++)
        fine = n == twin->maybe_of_seq[entry->seq][i];
    if (!fine)
        fail_msg("entry %ju says %ju, and %ju was acknowledged", (uintmax_t)entry->seq,
                 (uintmax_t)n, (uintmax_t)twin->n_of_seq[entry->seq]);
    if (looking->adopts)
        twin->n_of_seq[entry->seq] = n;
    return AW_OK;
}

/* What is on the disk against the twin. */
static void check(struct aw_disk_sim *sim, struct twin *twin, bool adopts)
{
    struct looking looking = {.twin = twin, .adopts = adopts};
    struct aw_audit_report report = {0};
    struct aw_diag diag = {0};
    enum aw_err err =
        aw_audit_verify(&sim->disk, FOLDER, NULL, look, &looking, NULL, &report, &diag);
    if (err == AW_ERR_NOTFOUND && twin->last_seq == 0)
        return;
    if (err)
        fail_msg("%s:%u: %s", diag.file, diag.line, diag.text);
    if (looking.last_seq < twin->last_seq)
        fail_msg("entries after %ju are lost, %ju were acknowledged", (uintmax_t)looking.last_seq,
                 (uintmax_t)twin->last_seq);
    assert_true(looking.first_seq == 1 || looking.first_seq <= report.retained_seq + 1);
    if (adopts)
        twin->last_seq = looking.last_seq;
}

/* Opens what a crash has left: that must always work on a disk that does. */
static void reopen_and_go_on(struct aw_disk_sim *sim, const struct aw_audit_config *config,
                             struct twin *twin, uint64_t *torn)
{
    struct aw_audit_recovery recovery;
    struct aw_audit_head last;
    struct aw_audit *audit = open_log(sim, config, &recovery);
    *torn += recovery.torn_bytes > 0;
    size_t len = 0;
    char aside[128];
    snprintf(aside, sizeof aside, FOLDER "/%s", recovery.torn_aside);
    if (recovery.torn_bytes) {
        assert_non_null(aw_disk_sim_get(sim, aside, &len));
        assert_int_equal(len, recovery.torn_bytes);
        assert_true(recovery.why[0]);
    }
    aw_audit_last(audit, &last);
    assert_true(last.seq >= twin->last_seq);
    check(sim, twin, true);
    assert_int_equal(twin->last_seq, last.seq);
    assert_true(commit(audit, twin, 2));
    assert_true(commit(audit, twin, 1));
    aw_audit_close(audit);
    check(sim, twin, false);
}

/* The workload; stops when the power is gone. Faults may make commits fail. */
static void run(struct aw_disk_sim *sim, const struct aw_audit_config *config, struct twin *twin)
{
    struct aw_audit *audit = NULL;
    for (uint32_t i = 0; i < COMMITS && !sim->power_off; i++) {
        if (i % 6 == 0) { /* a restart now and then */
            aw_audit_close(audit);
            audit = NULL;
            while (!sim->power_off &&
                   aw_audit_open(&audit, &sim->disk, FOLDER, config, NULL, NULL, NULL))
                ;
            if (sim->power_off)
                break;
            /* without the faults: they are for the log, not for the test */
            struct aw_disk_sim_faults faults = sim->faults;
            uint64_t calls = sim->call_count;
            sim->faults = (struct aw_disk_sim_faults){0};
            check(sim, twin, true);
            sim->faults = faults;
            sim->call_count = calls;
        }
        if (config->reserve_bytes) { /* full twice, once over a restart */
            twin->reserved = i % 3 != 2;
            sim->faults.space_bytes = (i >= 2 && i < 5) || (i >= 10 && i < 13);
        }
        commit(audit, twin, 1 + i % 4);
    }
    sim->faults.space_bytes = 0;
    twin->reserved = false;
    aw_audit_close(audit);
}

static const struct aw_audit_config configs[] = {
    {.file_bytes_max = 1200},
    {.file_bytes_max = 700, .files_max = 2},
    {.file_bytes_max = 1u << 20},
    {.file_bytes_max = 900, .files_max = 3, .reserve_bytes = 3000},
};
#define WITH_RESERVE 3u /* of them */

static void a_power_cut_at_any_step_loses_nothing_that_was_acknowledged(void **state)
{
    uint64_t cuts = 0, torn = 0, on_reserve = 0;
    (void)state;
    for (size_t c = 0; c < sizeof configs / sizeof configs[0]; c++) {
        bool struck = true;
        for (uint64_t at = 1; struck; at++) {
            struct aw_disk_sim sim;
            struct twin twin;
            assert_ok(aw_disk_sim_init(&sim, at, NULL));
            twin_init(&twin);
            sim.faults.cut_at = at;
            run(&sim, &configs[c], &twin);
            struck = sim.power_off;
            on_reserve += twin.reserve_count;
            for (uint64_t seed = 0; seed < 12; seed++, cuts++) {
                struct aw_disk_sim left;
                struct twin copy = twin;
                assert_ok(aw_disk_sim_copy(&left, &sim));
                aw_disk_sim_power_cut(&left, seed);
                reopen_and_go_on(&left, &configs[c], &copy, &torn);
                aw_disk_sim_deinit(&left);
            }
            aw_disk_sim_deinit(&sim);
        }
    }
    print_message("# %ju power cuts, %ju torn ends\n", (uintmax_t)cuts, (uintmax_t)torn);
    assert_true(cuts > 1000 && torn > 100 && on_reserve > 100);
}

static void a_power_cut_while_recovering_from_one_loses_nothing_either(void **state)
{
    uint64_t cuts = 0, torn = 0;
    (void)state;
    for (uint64_t at = 1; at < 110; at++) {
        struct aw_disk_sim sim;
        struct twin twin;
        assert_ok(aw_disk_sim_init(&sim, at, NULL));
        twin_init(&twin);
        sim.faults.cut_at = at;
        run(&sim, &configs[1], &twin);
        aw_disk_sim_power_cut(&sim, at);
        for (uint64_t more = 1; more < 12; more++, cuts++) {
            struct aw_disk_sim left;
            struct twin copy = twin;
            assert_ok(aw_disk_sim_copy(&left, &sim));
            left.faults.cut_at = left.change_count + more;
            run(&left, &configs[1], &copy);
            aw_disk_sim_power_cut(&left, more);
            reopen_and_go_on(&left, &configs[1], &copy, &torn);
            aw_disk_sim_deinit(&left);
        }
        aw_disk_sim_deinit(&sim);
    }
    print_message("# %ju second power cuts\n", (uintmax_t)cuts);
}

static void a_call_that_fails_at_any_step_voids_one_commit_and_no_other(void **state)
{
    uint64_t failures = 0, torn = 0;
    (void)state;
    for (uint64_t count = 1; count <= 5; count += 2) {
        bool struck = true;
        for (uint64_t at = 1; struck; at++) {
            struct aw_disk_sim sim;
            struct twin twin;
            assert_ok(aw_disk_sim_init(&sim, at, NULL));
            twin_init(&twin);
            sim.faults.fail_at = at;
            sim.faults.fail_count = count;
            run(&sim, &configs[1], &twin);
            struck = sim.call_count >= at;
            failures += twin.failed_count;
            sim.faults.fail_at = 0;
            check(&sim, &twin, false);
            /* and what was acknowledged after a failure survives a power cut like the rest */
            aw_disk_sim_power_cut(&sim, at);
            bool cleared = twin.last_fine;
            torn = 0;
            reopen_and_go_on(&sim, &configs[1], &twin, &torn);
            assert_true(torn == 0 || !cleared); /* before anything else was recorded */
            aw_disk_sim_deinit(&sim);
        }
    }
    assert_true(failures > 30);
}

static void a_power_cut_after_a_failed_call_loses_nothing(void **state)
{
    uint64_t torn = 0;
    (void)state;
    for (uint64_t fail = 4; fail < 90; fail += 3) {
        for (uint64_t cut = 1; cut < 8; cut++) {
            struct aw_disk_sim sim;
            struct twin twin;
            assert_ok(aw_disk_sim_init(&sim, fail, NULL));
            twin_init(&twin);
            sim.faults.fail_at = fail;
            sim.faults.fail_count = 2;
            sim.faults.cut_at = fail + cut - 2;
            run(&sim, &configs[0], &twin);
            aw_disk_sim_power_cut(&sim, cut);
            reopen_and_go_on(&sim, &configs[0], &twin, &torn);
            aw_disk_sim_deinit(&sim);
        }
    }
}

static void killed_at_any_step_the_log_goes_on(void **state)
{
    uint64_t torn = 0;
    bool struck = true;
    (void)state;
    for (uint64_t at = 1; struck; at++) {
        struct aw_disk_sim sim;
        struct twin twin;
        assert_ok(aw_disk_sim_init(&sim, at, NULL));
        twin_init(&twin);
        sim.faults.cut_at = at;
        run(&sim, &configs[0], &twin);
        struck = sim.power_off;
        sim.power_off = false; /* only the process is gone: the cache is whole */
        sim.faults.cut_at = 0;
        aw_disk_sim_kill(&sim);
        reopen_and_go_on(&sim, &configs[0], &twin, &torn);
        /* and the lines that it left without a sync are synced by now */
        aw_disk_sim_power_cut(&sim, at);
        reopen_and_go_on(&sim, &configs[0], &twin, &torn);
        aw_disk_sim_deinit(&sim);
    }
    assert_int_equal(torn, 0);
}

static void a_failed_commit_that_was_taken_back_does_not_come_again(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct aw_disk_sim sim;
        struct twin twin;
        uint64_t torn = 0;
        assert_ok(aw_disk_sim_init(&sim, seed, NULL));
        twin_init(&twin);
        struct aw_audit *audit = open_log(&sim, &configs[2], NULL);
        assert_true(commit(audit, &twin, 2));
        sim.faults.fail_at = sim.call_count + 2; /* the sync */
        assert_false(commit(audit, &twin, 3));
        assert_ok(aw__audit_clear(audit, NULL));
        memset(twin.maybe_of_seq, 0xff, sizeof twin.maybe_of_seq); /* it is gone for good */
        aw_disk_sim_power_cut(&sim, seed);
        aw_audit_close(audit);
        reopen_and_go_on(&sim, &configs[2], &twin, &torn);
        assert_int_equal(torn, 0);
        aw_disk_sim_deinit(&sim);
    }
}

static void a_power_cut_while_many_files_are_dropped_leaves_no_gap(void **state)
{
    bool struck = true;
    (void)state;
    for (uint64_t at = 1; struck; at++) {
        for (uint64_t seed = 0; seed < 8; seed++) {
            struct aw_disk_sim sim;
            struct twin twin;
            struct aw_audit_config fewer = {.file_bytes_max = 700, .files_max = 2};
            uint64_t torn = 0;
            assert_ok(aw_disk_sim_init(&sim, seed, NULL));
            twin_init(&twin);
            struct aw_audit *audit =
                open_log(&sim, &(struct aw_audit_config){.file_bytes_max = 700}, NULL);
            for (uint32_t i = 0; i < 8; i++)
                assert_true(commit(audit, &twin, 2));
            aw_audit_close(audit);
            sim.faults.cut_at = sim.change_count + at;
            audit = NULL;
            if (!aw_audit_open(&audit, &sim.disk, FOLDER, &fewer, NULL, NULL, NULL))
                commit(audit, &twin, 2);
            aw_audit_close(audit);
            struck = sim.power_off;
            aw_disk_sim_power_cut(&sim, seed);
            reopen_and_go_on(&sim, &fewer, &twin, &torn);
            aw_disk_sim_deinit(&sim);
        }
    }
}

static void on_a_full_disk_nothing_is_recorded_until_there_is_space(void **state)
{
    (void)state;
    for (uint64_t space = 1; space < 2600; space += 37) {
        struct aw_disk_sim sim;
        struct twin twin;
        struct aw_diag diag = {0};
        uint64_t torn = 0;
        assert_ok(aw_disk_sim_init(&sim, space, NULL));
        twin_init(&twin);
        struct aw_audit *audit = open_log(&sim, &configs[0], NULL);
        sim.faults.space_bytes = space;
        bool full = false;
        for (uint32_t i = 0; i < COMMITS; i++) {
            bool fine = commit(audit, &twin, 2);
            /* shorter entries may still fit once; then nothing does */
            full = full || !fine;
            check(&sim, &twin, false);
        }
        assert_true(full);
        sim.faults.space_bytes = 1; /* not even for the shortest */
        assert_ok(append_n(audit, 0, NULL, NULL));
        assert_int_equal(aw_audit_commit(audit, &diag), AW_ERR_IO);
        assert_non_null(strstr(diag.text, "No space left"));
        assert_ok(aw__audit_clear(audit, &diag));
        sim.faults.space_bytes = 0;
        assert_true(commit(audit, &twin, 2));
        aw_audit_close(audit);
        check(&sim, &twin, false);
        reopen_and_go_on(&sim, &configs[0], &twin, &torn);
        aw_disk_sim_deinit(&sim);
    }
}

static void a_full_disk_still_records_in_reserved_blocks(void **state)
{
    struct aw_disk_sim sim;
    struct twin twin;
    struct aw_diag diag = {0};
    uint64_t torn = 0;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    twin_init(&twin);
    struct aw_audit *audit = open_log(&sim, &configs[WITH_RESERVE], NULL);
    assert_true(commit(audit, &twin, 2));
    assert_false(aw_audit_on_reserve(audit));
    sim.faults.space_bytes = 1;
    uint32_t recorded = 0;
    for (uint32_t i = 0; i < 26; i++) {
        twin.reserved = i % 2 == 0;
        const bool fine = commit(audit, &twin, 1);
        if (!twin.reserved) /* blocks that are left are not for this */
            assert_false(fine);
        recorded += fine;
        check(&sim, &twin, false);
    }
    assert_in_range(recorded, 6, 12); /* until the reserve was full too */
    assert_true(twin.reserve_count == recorded);
    sim.faults.space_bytes = 0; /* there is room: an ordinary commit, and a reserve again */
    twin.reserved = false;
    assert_true(commit(audit, &twin, 2));
    assert_false(aw_audit_on_reserve(audit));
    sim.faults.space_bytes = 1;
    twin.reserved = true;
    assert_true(commit(audit, &twin, 2));
    aw_audit_close(audit);
    check(&sim, &twin, false);
    /* a restart on the full disk does not use what is reserved for ordinary entries */
    twin.reserved = false;
    audit = open_log(&sim, &configs[WITH_RESERVE], NULL);
    assert_ok(append_n(audit, 0, NULL, NULL));
    assert_int_equal(aw_audit_commit(audit, &diag), AW_ERR_IO);
    aw_audit_close(audit);
    sim.faults.space_bytes = 0;
    reopen_and_go_on(&sim, &configs[WITH_RESERVE], &twin, &torn);
    aw_disk_sim_deinit(&sim);
}

static void a_reserve_survives_a_restart_on_a_full_disk(void **state)
{
    struct aw_disk_sim sim;
    struct twin twin;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    twin_init(&twin);
    aw_audit_close(open_log(&sim, &configs[WITH_RESERVE], NULL));
    sim.faults.space_bytes = 1;
    struct aw_audit *audit = open_log(&sim, &configs[WITH_RESERVE], NULL);
    assert_false(commit(audit, &twin, 1));
    twin.reserved = true;
    assert_true(commit(audit, &twin, 1));
    aw_audit_close(audit);
    check(&sim, &twin, false);
    aw_disk_sim_deinit(&sim);
}

static void without_reservations_a_full_disk_refuses_all(void **state)
{
    struct aw_disk_sim sim;
    struct twin twin;
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    twin_init(&twin);
    sim.faults.no_reserve = true;
    struct aw_audit *audit = open_log(&sim, &configs[WITH_RESERVE], NULL);
    twin.reserved = true;
    assert_true(commit(audit, &twin, 1));
    sim.faults.space_bytes = 1;
    assert_false(commit(audit, &twin, 1));
    sim.faults.space_bytes = 0;
    assert_true(commit(audit, &twin, 1));
    aw_audit_close(audit);
    check(&sim, &twin, false);
    aw_disk_sim_deinit(&sim);
}

static void a_torn_end_on_a_full_disk_waits_for_space(void **state)
{
    struct aw_disk_sim sim;
    struct aw_audit_recovery recovery;
    struct aw_diag diag = {0};
    size_t len = 0;
    char bytes[4096], aside[128];
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    struct aw_audit *audit = open_log(&sim, NULL, NULL);
    record(audit, 0, 3);
    aw_audit_close(audit);
    const char *now = aw_disk_sim_get(&sim, FOLDER "/audit-00000001.jsonl", &len);
    memcpy(bytes, now, len);
    memcpy(bytes + len, "{\"seq\":4,", 9);
    snprintf(aside, sizeof aside, FOLDER "/torn-00000001-at-%zu.part", len);
    assert_ok(aw_disk_sim_put(&sim, FOLDER "/audit-00000001.jsonl", bytes, len + 9));
    sim.faults.space_bytes = 1;
    audit = open_log(&sim, NULL, &recovery);
    assert_int_equal(recovery.torn_bytes, 9);
    assert_int_equal(recovery.entry_count, 3);
    assert_string_equal(recovery.torn_file, "audit-00000001.jsonl");
    assert_string_equal(recovery.torn_aside, ""); /* not yet */
    assert_int_equal(aw__audit_clear(audit, &diag), AW_ERR_IO);
    assert_ok(append_n(audit, 3, NULL, &diag));
    assert_int_equal(aw_audit_commit(audit, &diag), AW_ERR_IO);
    sim.faults.space_bytes = 0;
    record(audit, 4, 1);
    aw_audit_close(audit);
    assert_verifies(&sim);
    assert_non_null(aw_disk_sim_get(&sim, aside, &len));
    assert_int_equal(len, 9);
    aw_disk_sim_deinit(&sim);
}

static void a_read_only_disk_is_told_at_once_or_at_the_next_commit(void **state)
{
    struct aw_disk_sim sim;
    struct aw_audit *other = NULL;
    struct twin twin;
    struct aw_diag diag = {0};
    (void)state;
    assert_ok(aw_disk_sim_init(&sim, 1, NULL));
    twin_init(&twin);
    struct aw_audit *audit = open_log(&sim, NULL, NULL);
    assert_true(commit(audit, &twin, 2));
    sim.faults.read_only = true;
    assert_false(commit(audit, &twin, 2));
    assert_false(commit(audit, &twin, 1));
    check(&sim, &twin, false);
    sim.faults.read_only = false;
    assert_true(commit(audit, &twin, 1));
    aw_audit_close(audit);
    sim.faults.read_only = true;
    assert_int_equal(aw_audit_open(&other, &sim.disk, FOLDER, NULL, NULL, NULL, &diag), AW_ERR_IO);
    assert_non_null(strstr(diag.text, "Read-only"));
    check(&sim, &twin, false); /* reading needs no more than reading */
    aw_disk_sim_deinit(&sim);
}

AW_TEST_GROUP("audit-power")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_cut_at_any_step_loses_nothing_that_was_acknowledged),
        cmocka_unit_test(a_power_cut_while_recovering_from_one_loses_nothing_either),
        cmocka_unit_test(a_call_that_fails_at_any_step_voids_one_commit_and_no_other),
        cmocka_unit_test(a_power_cut_after_a_failed_call_loses_nothing),
        cmocka_unit_test(killed_at_any_step_the_log_goes_on),
        cmocka_unit_test(a_failed_commit_that_was_taken_back_does_not_come_again),
        cmocka_unit_test(a_power_cut_while_many_files_are_dropped_leaves_no_gap),
        cmocka_unit_test(on_a_full_disk_nothing_is_recorded_until_there_is_space),
        cmocka_unit_test(a_full_disk_still_records_in_reserved_blocks),
        cmocka_unit_test(a_reserve_survives_a_restart_on_a_full_disk),
        cmocka_unit_test(without_reservations_a_full_disk_refuses_all),
        cmocka_unit_test(a_torn_end_on_a_full_disk_waits_for_space),
        cmocka_unit_test(a_read_only_disk_is_told_at_once_or_at_the_next_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
