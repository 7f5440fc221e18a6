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
    struct aw__shared_table table;
    char name[16];
    (void)state;
    assert_ok(aw__shared_table_init(&table, NAMES, NULL));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < NAMES; i++) {
            const int64_t value = 1000 * round + i;
            name_of(i, name);
            assert_ok(aw__shared_table_put(&table, name, &value, sizeof value));
        }
        assert_int_equal(table.by_name.count, NAMES);
        for (int i = 0; i < NAMES; i++) {
            name_of(i, name);
            const int64_t *value = aw__shared_table_find(&table, name);
            assert_non_null(value);
            assert_int_equal(*value, 1000 * round + i);
        }
    }
    for (int i = 0; i < NAMES; i += 2) {
        name_of(i, name);
        aw__shared_table_drop(&table, name);
        aw__shared_table_drop(&table, name); /* gone already */
    }
    assert_int_equal(table.by_name.count, NAMES / 2);
    for (int i = 0; i < NAMES; i++) {
        name_of(i, name);
        assert_int_equal(aw__shared_table_find(&table, name) != NULL, i % 2);
    }
    aw__shared_table_deinit(&table);
    aw__shared_table_deinit(&table);
}

static void more_than_fit_are_left_out_and_counted(void **state)
{
    struct aw__shared_table table;
    (void)state;
    assert_ok(aw__shared_table_init(&table, 2, NULL));
    assert_ok(aw__shared_table_put(&table, "a", "1", 2));
    assert_ok(aw__shared_table_put(&table, "b", "2", 2));
    assert_int_equal(aw__shared_table_put(&table, "c", "3", 2), AW_ERR_LIMIT);
    assert_ok(aw__shared_table_put(&table, "a", "4", 2)); /* a new value needs no new place */
    assert_string_equal(aw__shared_table_find(&table, "a"), "4");
    assert_null(aw__shared_table_find(&table, "c"));
    assert_int_equal(table.left_out, 1);
    aw__shared_table_deinit(&table);
}

static void without_memory_the_old_value_stays(void **state)
{
    struct aw__shared_table table;
    struct aw_alloc_counting counting;
    (void)state;
    aw_alloc_counting_init(&counting);
    assert_ok(aw__shared_table_init(&table, 4, &counting.alloc));
    assert_ok(aw__shared_table_put(&table, "a", "1", 2));
    counting.fail_after = counting.alloc_count;
    assert_int_equal(aw__shared_table_put(&table, "a", "2", 2), AW_ERR_NOMEM);
    assert_string_equal(aw__shared_table_find(&table, "a"), "1");
    aw__shared_table_deinit(&table);
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw__shared_table_init(&table, 4, &counting.alloc), AW_ERR_NOMEM);
}

/* Somebody who looks all the time: both halves of a value always belong together. */
struct reader {
    struct aw__shared_table *table;
    _Atomic bool stop;
    _Atomic uint64_t looks;
    bool torn;
};

static void *look(void *ctx)
{
    struct reader *reader = ctx;
    while (!reader->stop) {
        aw__shared_table_enter(reader->table);
        const int64_t *pair = aw__shared_table_find(reader->table, "pair");
        reader->torn = reader->torn || (pair && pair[0] != -pair[1]);
        aw__shared_table_leave(reader->table);
        reader->looks++;
    }
    return NULL;
}

static void who_looks_sees_whole_values_while_they_change(void **state)
{
    struct aw__shared_table table;
    struct reader reader = {.table = &table};
    pthread_t thread;
    (void)state;
    assert_ok(aw__shared_table_init(&table, 8, NULL));
    assert_int_equal(pthread_create(&thread, NULL, look, &reader), 0);
    for (int64_t i = 0; i < 20000 || reader.looks < 100; i++) {
        const int64_t pair[] = {i, -i};
        if (i % 7)
            assert_ok(aw__shared_table_put(&table, "pair", pair, sizeof pair));
        else
            aw__shared_table_drop(&table, "pair");
    }
    reader.stop = true;
    pthread_join(thread, NULL);
    assert_false(reader.torn);
    aw__shared_table_deinit(&table);
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
