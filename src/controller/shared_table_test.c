/* shared_table_test.c - names that come, change and go while others look them up. */
#include "controller/shared_table.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/testing.h"

#define NAMES 200

static void name_of(int i, char buf[16])
{
    snprintf(buf, 16, "name-%d", i);
}

static void what_is_put_is_found_replaced_and_dropped(void **state)
{
    struct aw__shared_table directory;
    char name[16];
    (void)state;
    assert_ok(aw__shared_table_init(&directory, NAMES, NULL));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < NAMES; i++) {
            const int64_t value = 1000 * round + i;
            name_of(i, name);
            assert_ok(aw__shared_table_put(&directory, name, &value, sizeof value));
        }
        assert_int_equal(directory.count, NAMES);
        for (int i = 0; i < NAMES; i++) {
            name_of(i, name);
            const int64_t *value = aw__shared_table_find(&directory, name);
            assert_non_null(value);
            assert_int_equal(*value, 1000 * round + i);
        }
    }
    for (int i = 0; i < NAMES; i += 2) {
        name_of(i, name);
        aw__shared_table_drop(&directory, name);
        aw__shared_table_drop(&directory, name); /* gone already */
    }
    assert_int_equal(directory.count, NAMES / 2);
    for (int i = 0; i < NAMES; i++) {
        name_of(i, name);
        assert_int_equal(aw__shared_table_find(&directory, name) != NULL, i % 2);
    }
    aw__shared_table_deinit(&directory);
    aw__shared_table_deinit(&directory);
}

static void more_than_fit_are_left_out_and_counted(void **state)
{
    struct aw__shared_table directory;
    (void)state;
    assert_ok(aw__shared_table_init(&directory, 2, NULL));
    assert_ok(aw__shared_table_put(&directory, "a", "1", 2));
    assert_ok(aw__shared_table_put(&directory, "b", "2", 2));
    assert_int_equal(aw__shared_table_put(&directory, "c", "3", 2), AW_ERR_LIMIT);
    assert_ok(aw__shared_table_put(&directory, "a", "4", 2)); /* a new value needs no new place */
    assert_string_equal(aw__shared_table_find(&directory, "a"), "4");
    assert_null(aw__shared_table_find(&directory, "c"));
    assert_int_equal(directory.left_out, 1);
    aw__shared_table_deinit(&directory);
}

static void without_memory_the_old_value_stays(void **state)
{
    struct aw__shared_table directory;
    struct aw_alloc_counting counting;
    (void)state;
    aw_alloc_counting_init(&counting);
    assert_ok(aw__shared_table_init(&directory, 4, &counting.alloc));
    assert_ok(aw__shared_table_put(&directory, "a", "1", 2));
    counting.fail_after = counting.alloc_count;
    assert_int_equal(aw__shared_table_put(&directory, "a", "2", 2), AW_ERR_NOMEM);
    assert_string_equal(aw__shared_table_find(&directory, "a"), "1");
    aw__shared_table_deinit(&directory);
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw__shared_table_init(&directory, 4, &counting.alloc), AW_ERR_NOMEM);
}

/* Somebody who looks all the time: both halves of a value always belong together. */
struct reader {
    struct aw__shared_table *directory;
    _Atomic bool stop;
    _Atomic uint64_t looks;
    bool torn;
};

static void *look(void *ctx)
{
    struct reader *reader = ctx;
    while (!reader->stop) {
        aw__shared_table_enter(reader->directory);
        const int64_t *pair = aw__shared_table_find(reader->directory, "pair");
        reader->torn = reader->torn || (pair && pair[0] != -pair[1]);
        aw__shared_table_leave(reader->directory);
        reader->looks++;
    }
    return NULL;
}

static void who_looks_sees_whole_values_while_they_change(void **state)
{
    struct aw__shared_table directory;
    struct reader reader = {.directory = &directory};
    pthread_t thread;
    (void)state;
    assert_ok(aw__shared_table_init(&directory, 8, NULL));
    assert_int_equal(pthread_create(&thread, NULL, look, &reader), 0);
    for (int64_t i = 0; i < 20000 || reader.looks < 100; i++) {
        const int64_t pair[] = {i, -i};
        if (i % 7)
            assert_ok(aw__shared_table_put(&directory, "pair", pair, sizeof pair));
        else
            aw__shared_table_drop(&directory, "pair");
    }
    reader.stop = true;
    pthread_join(thread, NULL);
    assert_false(reader.torn);
    aw__shared_table_deinit(&directory);
}

AW_TEST_GROUP("controller-shared-table")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_found_replaced_and_dropped),
        cmocka_unit_test(more_than_fit_are_left_out_and_counted),
        cmocka_unit_test(without_memory_the_old_value_stays),
        cmocka_unit_test(who_looks_sees_whole_values_while_they_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
