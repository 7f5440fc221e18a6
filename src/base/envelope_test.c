#include "base/envelope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/envelope_testing.h"
#include "base/file.h"
#include "base/testing.h"

/* A save format is one struct, its list and one struct aw_format. */
struct inner {
    float weight[2];
};
struct point {
    double x, y;
    uint32_t steps, unused;
    struct inner inner;
};
#define INNER(at) at weight
#define POINT(at) at x, at y, at steps, at unused, INNER(at inner.)
AW_LAYOUT(point_layout, struct point, 0, POINT());
static struct aw_format format = {
    .kind = "point", .what = "a point", .version = 2, .layout = {point_layout}};

struct saved {
    struct aw_envelope head;
    struct point point;
};
static const struct point some = {1.5, -2.5, 7, 0, {{3, 4}}};

static struct saved sealed(struct aw_format *by)
{
    struct saved saved = {.point = some};
    aw_envelope_seal(by, 11, &saved, sizeof saved);
    return saved;
}

static void what_was_sealed_is_opened(void **state)
{
    (void)state;
    struct saved saved = sealed(&format), again = sealed(&format);
    assert_ok(aw_envelope_open(&format, 11, &saved, sizeof saved, NULL));
    assert_memory_equal(&saved, &again, sizeof saved);
    assert_memory_equal(&saved.point, &some, sizeof some);
}

/* --- layouts ---------------------------------------------------------------------------------- */

/* All as long as struct point. */
struct swapped {
    double y, x;
    uint32_t steps, unused;
    struct inner inner;
};
struct retyped {
    double x, y;
    float steps;
    uint32_t unused;
    struct inner inner;
};
struct renamed {
    double x, y;
    uint32_t steps, episodes;
    struct inner inner;
};
struct moved {
    double x, y;
    struct inner inner;
    uint32_t steps, unused;
};
struct inner_other {
    uint32_t weight[2];
};
struct within {
    double x, y;
    uint32_t steps, unused;
    struct inner_other inner;
};
struct resized {
    double x, y;
    uint32_t steps[2];
    struct inner inner;
};
AW_LAYOUT(swapped_layout, struct swapped, 0, y, x, steps, unused, INNER(inner.));
AW_LAYOUT(retyped_layout, struct retyped, 0, POINT());
AW_LAYOUT(renamed_layout, struct renamed, 0, x, y, steps, episodes, INNER(inner.));
AW_LAYOUT(moved_layout, struct moved, 0, x, y, INNER(inner.), steps, unused);
AW_LAYOUT(within_layout, struct within, 0, POINT());
AW_LAYOUT(resized_layout, struct resized, 0, x, y, steps, INNER(inner.));

static void another_layout_of_the_same_size_is_refused(void **state)
{
    (void)state;
    struct {
        const char *why;
        aw_layout *layout;
        size_t bytes;
    } cases[] = {
        {"two members of one type have changed places", swapped_layout, sizeof(struct swapped)},
        {"a member has another type of the same size", retyped_layout, sizeof(struct retyped)},
        {"a member has another name, so another meaning", renamed_layout, sizeof(struct renamed)},
        {"members of other sizes have changed places", moved_layout, sizeof(struct moved)},
        {"a struct within has changed", within_layout, sizeof(struct within)},
        {"two members have become an array", resized_layout, sizeof(struct resized)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_format other = {
            .kind = "point", .what = "a point", .version = 2, .layout = {cases[i].layout}};
        struct aw_diag diag;
        struct saved saved = sealed(&other);
        print_message("%s\n", cases[i].why);
        assert_int_equal(cases[i].bytes, sizeof(struct point));
        assert_int_equal(aw_envelope_open(&format, 11, &saved, sizeof saved, &diag), AW_ERR_FORMAT);
        assert_non_null(strstr(diag.text, "made by another build"));
        assert_ok(aw_envelope_open(&other, 11, &saved, sizeof saved, NULL));
    }
}

static void every_layout_of_a_format_counts(void **state)
{
    (void)state;
    struct aw_format two = {
        .kind = "point", .what = "a point", .version = 2, .layout = {point_layout, moved_layout}};
    struct aw_format order = {
        .kind = "point", .what = "a point", .version = 2, .layout = {moved_layout, point_layout}};
    struct saved saved = sealed(&two);
    assert_int_equal(aw_envelope_open(&format, 11, &saved, sizeof saved, NULL), AW_ERR_FORMAT);
    assert_int_equal(aw_envelope_open(&order, 11, &saved, sizeof saved, NULL), AW_ERR_FORMAT);
}

struct padded {
    uint32_t count;
    double value;
    bool ready;
};
AW_LAYOUT(padded_layout, struct padded, 11, count, value, ready);

static void padding_is_said_and_counted(void **state)
{
    (void)state;
    assert_int_not_equal(padded_layout(0), 0);
    assert_int_not_equal(padded_layout(0), padded_layout(1));
}

/* --- refused ---------------------------------------------------------------------------------- */

static void every_bit_counts(void **state)
{
    (void)state;
    const struct saved good = sealed(&format);
    for (size_t bit = 0; bit < 8 * sizeof good; bit++) {
        struct saved bad = good;
        ((unsigned char *)&bad)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(aw_envelope_open(&format, 11, &bad, sizeof bad, NULL), AW_ERR_FORMAT);
    }
}

static void every_length_counts(void **state)
{
    (void)state;
    struct saved saved[2] = {sealed(&format), sealed(&format)};
    for (size_t size = 0; size < sizeof saved; size++) {
        char *exact = malloc(size ? size : 1); /* so that a sanitizer sees a byte too many */
        struct aw_diag diag = {0};
        memcpy(exact, saved, size);
        if (size == sizeof *saved)
            assert_ok(aw_envelope_open(&format, 11, exact, size, &diag));
        else
            assert_int_equal(aw_envelope_open(&format, 11, exact, size, &diag), AW_ERR_FORMAT);
        if (size < sizeof *saved)
            assert_non_null(strstr(diag.text, "truncated"));
        free(exact);
    }
}

static void a_refusal_is_a_sentence(void **state)
{
    (void)state;
    struct saved mark = sealed(&format), kind = mark, newer = mark, older = mark, layout = mark,
                 owner = mark, damaged = mark;
    mark.head.mark[0] = 'P';
    memcpy(kind.head.kind, "history", 8);
    newer.head.version = 3;
    older.head.version = 1;
    layout.head.layout++;
    owner.head.owner = 12;
    aw_testing_reseal(&kind, sizeof kind);
    aw_testing_reseal(&newer, sizeof newer);
    aw_testing_reseal(&older, sizeof older);
    aw_testing_reseal(&layout, sizeof layout);
    aw_testing_reseal(&owner, sizeof owner);
    damaged.point.x = 9;
    const struct {
        const struct saved *saved;
        const char *text;
    } cases[] = {
        {&mark, "expected a point, found something else: of an earlier version of aware"},
        {&kind, "expected a point (point), found \"history\""},
        {&newer, "a point was made by a newer version of aware: expected format 2, found 3"},
        {&older, "a point was made by an older version of aware: expected format 2, found 1"},
        {&layout, "a point was made by another build of aware: expected layout "},
        {&owner, "a point with other workloads, settings or seed"},
        {&damaged, "damaged: the checksum of a point does not match"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_diag diag;
        assert_int_equal(aw_envelope_open(&format, 11, cases[i].saved, sizeof mark, &diag),
                         AW_ERR_FORMAT);
        assert_int_equal(strncmp(diag.text, cases[i].text, strlen(cases[i].text)), 0);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static const char *path_of(const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "/tmp/aware-envelope-%d-%s", (int)getpid(), name);
    return buf;
}

/* The two versions before: at first a point had no steps, then it had steps and no weights. */
struct first {
    double x, y;
};
struct second {
    double x, y;
    uint32_t steps, unused;
};
AW_LAYOUT(first_layout, struct first, 0, x, y);
AW_LAYOUT(second_layout, struct second, 0, x, y, steps, unused);
static struct aw_format format_first = {
    .kind = "point", .what = "a point", .version = 1, .layout = {first_layout}};
static struct aw_format format_second = {
    .kind = "point", .what = "a point", .version = 2, .layout = {second_layout}};

static size_t second_bytes(size_t bytes)
{
    return bytes == sizeof(struct first) ? sizeof(struct second) : 0;
}
static enum aw_err second_of(const void *from, size_t bytes, void *to)
{
    struct second second = {0};
    memcpy(&second, from, bytes);
    second.steps = 1;
    memcpy(to, &second, sizeof second);
    return second.x < 0 ? AW_ERR_FORMAT : AW_OK;
}
static size_t third_bytes(size_t bytes)
{
    return bytes == sizeof(struct second) ? sizeof(struct point) : 0;
}
static enum aw_err third_of(const void *from, size_t bytes, void *to)
{
    memcpy(to, from, bytes);
    return AW_OK;
}

static struct aw_format_past past[] = {{.version = 1, .bytes = second_bytes, .migrate = second_of},
                                       {.version = 2, .bytes = third_bytes, .migrate = third_of}};
static struct aw_format format_third = {.kind = "point",
                                        .what = "a point",
                                        .version = 3,
                                        .past = past,
                                        .past_count = 2,
                                        .layout = {point_layout}};

/* The hash that a build had, as its files have it. */
static uint64_t layout_of(struct aw_format *of)
{
    struct saved saved = sealed(of);
    return saved.head.layout;
}

static void write_first(const char *path, double x)
{
    struct {
        struct aw_envelope head;
        struct first first;
    } old = {.first = {x, 2}};
    assert_ok(aw_envelope_write(&format_first, 11, &old, sizeof old, path, NULL));
}

static void old_state_is_migrated_step_by_step(void **state)
{
    (void)state;
    char path[64];
    void *bytes = NULL;
    size_t size = 0;
    past[0].layout = layout_of(&format_first);
    past[1].layout = layout_of(&format_second);
    write_first(path_of("old", path, sizeof path), 1);
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    assert_ok(
        aw_envelope_read(&format_third, 11, path, 4096, &counting.alloc, &bytes, &size, NULL));
    assert_int_equal(size, sizeof(struct saved));
    const struct saved *saved = bytes;
    assert_ok(aw_envelope_open(&format_third, 11, bytes, size, NULL));
    assert_true(saved->point.x == 1 && saved->point.y == 2 && saved->point.steps == 1);
    assert_true(saved->point.inner.weight[0] == 0);
    aw_alloc_free(&counting.alloc, bytes);
    assert_int_equal(counting.alloc_count, counting.free_count);
    unlink(path);
}

static void what_cannot_be_migrated_stays_as_it_was(void **state)
{
    (void)state;
    char path[64], *before = NULL, *after = NULL;
    size_t before_len = 0, after_len = 0, size = 0;
    void *bytes = NULL;
    struct aw_diag diag;
    past[0].layout = layout_of(&format_first);
    past[1].layout = layout_of(&format_second);
    write_first(path_of("refused", path, sizeof path), -1);
    assert_ok(aw_file_read(path, 4096, NULL, &before, &before_len, NULL));
    assert_int_equal(aw_envelope_read(&format_third, 11, path, 4096, NULL, &bytes, &size, &diag),
                     AW_ERR_FORMAT);
    assert_string_equal(diag.text, "a point of version 1 cannot be read");
    assert_string_equal(diag.file, path);
    assert_int_equal(aw_envelope_read(&format_third, 12, path, 4096, NULL, &bytes, &size, &diag),
                     AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "other workloads, settings or seed"));
    past[0].layout++; /* of the same version, by a build that nobody knows */
    assert_int_equal(aw_envelope_read(&format_third, 11, path, 4096, NULL, &bytes, &size, &diag),
                     AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "made by an older version of aware: expected format 3"));
    assert_int_equal(aw_envelope_read(&format, 11, path, 4096, NULL, &bytes, &size, &diag),
                     AW_ERR_FORMAT);
    assert_null(bytes);
    assert_ok(aw_file_read(path, 4096, NULL, &after, &after_len, NULL));
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, after_len);
    aw_alloc_free(NULL, before);
    aw_alloc_free(NULL, after);
    unlink(path);
}

static void a_file_that_cannot_be_read_makes_way_and_stays(void **state)
{
    (void)state;
    static const struct {
        enum aw_err err;
        bool moves;
    } row[] = {
        {AW_ERR_FORMAT, true}, {AW_ERR_LIMIT, true}, {AW_ERR_IO, true},        {AW_ERR_NOMEM, true},
        {AW_ERR_CONFIG, true}, {AW_OK, false},       {AW_ERR_NOTFOUND, false},
    };
    char path[64], aside[80], buf[80];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        write_first(path_of("aside", path, sizeof path), 1);
        snprintf(aside, sizeof aside, "%s.refused", path);
        const char *kept = aw_envelope_set_aside(path, row[i].err, buf, sizeof buf);
        assert_string_equal(kept, row[i].moves ? aside : "");
        assert_int_equal(access(aside, F_OK) == 0, row[i].moves);
        assert_int_equal(access(path, F_OK) == 0, !row[i].moves);
        assert_int_equal(unlink(row[i].moves ? aside : path), 0);
    }
}

static void memory_may_run_out_while_reading(void **state)
{
    (void)state;
    char path[64];
    void *bytes = NULL;
    size_t size = 0;
    past[0].layout = layout_of(&format_first);
    past[1].layout = layout_of(&format_second);
    write_first(path_of("memory", path, sizeof path), 1);
    enum aw_err err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err; n++) {
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw_envelope_read(&format_third, 11, path, 4096, &counting.alloc, &bytes, &size, NULL);
        if (err) {
            assert_int_equal(err, AW_ERR_NOMEM);
            assert_int_equal(counting.alloc_count, counting.free_count);
        } else {
            aw_alloc_free(&counting.alloc, bytes);
        }
        assert_true(n < 10);
    }
    unlink(path);
}

AW_TEST_GROUP("envelope")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_is_opened),
        cmocka_unit_test(another_layout_of_the_same_size_is_refused),
        cmocka_unit_test(every_layout_of_a_format_counts),
        cmocka_unit_test(padding_is_said_and_counted),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(every_length_counts),
        cmocka_unit_test(a_refusal_is_a_sentence),
        cmocka_unit_test(old_state_is_migrated_step_by_step),
        cmocka_unit_test(what_cannot_be_migrated_stays_as_it_was),
        cmocka_unit_test(a_file_that_cannot_be_read_makes_way_and_stays),
        cmocka_unit_test(memory_may_run_out_while_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
