#include "store/archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

static char path[64];

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/aware-archive-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

/* What an older program wrote. */
struct old_bin {
    float weight;
};
struct old {
    double cost;
    struct {
        uint32_t count;
        float ring[4];
    } guard;
    uint32_t gone;
    uint64_t steps;
    struct old_bin bin[2];
};
AW_LAYOUT(old_bin_layout, struct old_bin, 0, weight);
AW_LAYOUT(old_struct_layout, struct old, 0, cost, guard.count, guard.ring, gone, steps, bin);
static uint64_t old_layout(uint64_t hash)
{
    return old_struct_layout(old_bin_layout(hash));
}
static const struct old saved = {
    .cost = 1.5, .guard = {3, {1, 2, 3, 4}}, .gone = 9, .steps = 77, .bin = {{5}, {6}}};

/* A later one: members have come, gone and moved. */
struct grown {
    uint64_t steps;
    double added;
    double cost;
    struct {
        float ring[4];
        uint32_t count;
        uint32_t more;
    } guard;
    struct old_bin bin[2];
};
AW_LAYOUT(grown_struct_layout, struct grown, 0, steps, added, cost, guard.ring, guard.count,
          guard.more, bin);
static uint64_t grown_layout(uint64_t hash)
{
    return grown_struct_layout(old_bin_layout(hash));
}

/* Another: a ring is longer, and what a bin holds is another thing of the same size. */
struct new_bin {
    uint32_t weight;
};
struct widened {
    double cost;
    struct {
        uint32_t count;
        float ring[8];
    } guard;
    uint32_t unused;
    uint64_t steps;
    struct new_bin bin[2];
};
AW_LAYOUT(new_bin_layout, struct new_bin, 0, weight);
AW_LAYOUT(widened_struct_layout, struct widened, 0, cost, guard.count, guard.ring, unused, steps,
          bin);
static uint64_t widened_layout(uint64_t hash)
{
    return widened_struct_layout(new_bin_layout(hash));
}

static void write_old(const char *tail)
{
    struct aw_archive_writer writer;
    struct aw_shape shape;
    aw_shape_of(&shape, 1, old_layout);
    assert_ok(aw_archive_create(&writer, path, "thing", NULL, NULL));
    for (uint32_t i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u/thing", i);
        struct old thing = saved;
        thing.steps += i;
        unsigned char *to =
            aw_archive_add(&writer, name, &shape, sizeof thing + (tail ? strlen(tail) : 0));
        assert_non_null(to);
        memcpy(to, &thing, sizeof thing);
        if (tail)
            memcpy(to + sizeof thing, tail, strlen(tail));
    }
    char *raw = aw_archive_add(&writer, "raw", NULL, 3);
    memcpy(raw, "abc", 3);
    assert_ok(aw_archive_commit(&writer, NULL));
}

static void the_same_program_reads_the_same_bytes(void **state)
{
    (void)state;
    struct aw_archive archive;
    struct aw_archive_match match;
    struct aw_shape shape;
    struct old thing = {0};
    write_old(NULL);
    aw_shape_of(&shape, 1, old_layout);
    assert_ok(aw_archive_read(&archive, path, "thing", "a thing", NULL, NULL));
    assert_int_equal(archive.damaged, 0);
    const struct aw_archive_part *part = aw_archive_find(&archive, "0/thing");
    assert_ok(aw_archive_take(&archive, part, &shape, &thing, sizeof thing, &match));
    assert_true(match.same);
    assert_memory_equal(&thing, &saved, sizeof thing);
    part = aw_archive_find(&archive, "raw");
    assert_true(aw_archive_same(part, NULL, 3));
    assert_memory_equal(part->bytes, "abc", 3);
    assert_null(aw_archive_find(&archive, "3/thing"));
    aw_archive_close(&archive);
}

static void members_are_matched_by_name_and_new_ones_keep_their_beginning(void **state)
{
    (void)state;
    struct aw_archive archive;
    struct aw_archive_match match;
    struct aw_shape shape;
    struct grown thing = {.added = 42, .guard = {.more = 8}};
    write_old(NULL);
    aw_shape_of(&shape, 1, grown_layout);
    assert_ok(aw_archive_read(&archive, path, "thing", "a thing", NULL, NULL));
    assert_ok(aw_archive_take(&archive, aw_archive_find(&archive, "2/thing"), &shape, &thing,
                              sizeof thing, &match));
    assert_false(match.same);
    assert_int_equal(match.lost_count, 0);
    assert_true(thing.cost == 1.5 && thing.added == 42 && thing.steps == 79);
    assert_int_equal(thing.guard.count, 3);
    assert_int_equal(thing.guard.more, 8);
    assert_true(thing.guard.ring[3] == 4 && thing.bin[1].weight == 6);
    aw_archive_close(&archive);
}

static void what_changed_its_size_or_type_begins_anew_with_its_group(void **state)
{
    (void)state;
    struct aw_archive archive;
    struct aw_archive_match match;
    struct aw_shape shape;
    struct widened thing = {0};
    write_old(NULL);
    aw_shape_of(&shape, 1, widened_layout);
    assert_ok(aw_archive_read(&archive, path, "thing", "a thing", NULL, NULL));
    assert_ok(aw_archive_take(&archive, aw_archive_find(&archive, "0/thing"), &shape, &thing,
                              sizeof thing, &match));
    assert_true(thing.cost == 1.5 && thing.steps == 77);
    assert_int_equal(thing.guard.count, 0); /* a count without its ring would be a lie */
    assert_true(thing.guard.ring[0] == 0);
    assert_int_equal(thing.bin[0].weight, 0);
    assert_true(aw_archive_lost(&match, "guard") && aw_archive_lost(&match, "bin"));
    assert_false(aw_archive_lost(&match, "cost"));
    aw_archive_close(&archive);
}

static void another_version_and_another_tail_are_not_read(void **state)
{
    (void)state;
    struct aw_archive archive;
    struct aw_archive_match match;
    struct aw_shape shape;
    struct grown thing[2] = {{.added = 42}, {0}};
    write_old("weights of a network");
    aw_shape_of(&shape, 1, grown_layout);
    assert_ok(aw_archive_read(&archive, path, "thing", "a thing", NULL, NULL));
    const struct aw_archive_part *part = aw_archive_find(&archive, "1/thing");
    assert_int_equal(aw_archive_take(&archive, part, &shape, thing, sizeof *thing, &match),
                     AW_ERR_FORMAT);
    const size_t tail = strlen("weights of a network");
    assert_ok(aw_archive_take(&archive, part, &shape, thing, sizeof *thing + tail, &match));
    assert_memory_equal(&thing[1], "weights of a network", tail);
    aw_shape_of(&shape, 2, grown_layout);
    thing[0] = (struct grown){.added = 42};
    assert_int_equal(aw_archive_take(&archive, part, &shape, thing, sizeof *thing + tail, &match),
                     AW_ERR_FORMAT);
    assert_true(thing[0].added == 42 && thing[0].steps == 0);
    aw_archive_close(&archive);
}

/* Any byte of the file may be another one, and any end of it missing. */
static void damage_costs_no_more_than_the_part_it_is_in(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t size = 0;
    struct aw_shape shape;
    struct aw_archive_match match;
    write_old(NULL);
    aw_shape_of(&shape, 1, old_layout);
    assert_ok(aw_file_read(path, 1 << 20, NULL, &bytes, &size, NULL));
    for (size_t at = 16; at < size; at++) {
        struct aw_archive archive;
        uint32_t found = 0;
        bytes[at] ^= 0x40;
        assert_ok(aw_file_replace(path, bytes, size, NULL, NULL));
        bytes[at] ^= 0x40;
        assert_ok(aw_archive_read(&archive, path, "thing", "a thing", NULL, NULL));
        assert_true(archive.damaged > 0);
        for (uint32_t i = 0; i < 3; i++) {
            char name[16];
            struct old thing;
            snprintf(name, sizeof name, "%u/thing", i);
            const struct aw_archive_part *part = aw_archive_find(&archive, name);
            if (part && !aw_archive_take(&archive, part, &shape, &thing, sizeof thing, &match)) {
                assert_int_equal(thing.steps, 77 + i);
                found++;
            }
        }
        assert_true(found >= 2);
        aw_archive_close(&archive);
    }
    for (size_t len = 0; len < size; len += 7) {
        struct aw_archive archive;
        assert_ok(aw_file_replace(path, bytes, len, NULL, NULL));
        if (aw_archive_read(&archive, path, "thing", "a thing", NULL, NULL) == AW_OK)
            assert_true(archive.damaged > 0);
        aw_archive_close(&archive);
    }
    aw_alloc_free(NULL, bytes);
}

static void what_is_something_else_is_refused_with_a_sentence(void **state)
{
    (void)state;
    struct aw_archive archive;
    struct aw_diag diag;
    char head[16] = {'A', 'W', 'A', 'R', 'E', '\r', '\n', 1, 'j', 'o', 'b'};
    const struct {
        char last;
        const char *kind, *said;
    } cases[] = {{1, "job", "a thing was made by an older version of aware"},
                 {3, "job", "a thing was made by a newer version of aware"},
                 {2, "other", "expected a thing (other), found \"job"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        head[7] = cases[i].last;
        assert_ok(aw_file_replace(path, head, sizeof head, NULL, NULL));
        assert_int_equal(aw_archive_read(&archive, path, cases[i].kind, "a thing", NULL, &diag),
                         AW_ERR_FORMAT);
        assert_non_null(strstr(diag.text, cases[i].said));
    }
    head[0] = 'a';
    assert_ok(aw_file_replace(path, head, sizeof head, NULL, NULL));
    assert_int_equal(aw_archive_read(&archive, path, "job", "a thing", NULL, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "not a saved state"));
}

AW_TEST_GROUP("archive")
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_same_program_reads_the_same_bytes),
        TEST(members_are_matched_by_name_and_new_ones_keep_their_beginning),
        TEST(what_changed_its_size_or_type_begins_anew_with_its_group),
        TEST(another_version_and_another_tail_are_not_read),
        TEST(damage_costs_no_more_than_the_part_it_is_in),
        TEST(what_is_something_else_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
