/* hash_table_test.c - the table against a plain list, with hashes that collide. */
#include "base/hash_table.h"

#include "base/rng.h"
#include "base/testing.h"

#define KEYS 300u

struct item {
    uint64_t hash;
    uint32_t key;
};

/* Few hashes for many keys, 0 among them. */
static uint64_t hash_of(uint32_t key)
{
    return key % 40;
}

static struct item *find(const struct aw_hash_table *table, uint32_t key)
{
    struct item *item = aw_hash_table_find(table, hash_of(key));
    while (item && item->key != key)
        item = aw_hash_table_next(table, item);
    return item;
}

static void walk(uint32_t room)
{
    struct aw_hash_table table;
    struct aw_rng rng;
    bool there[KEYS] = {false};
    uint32_t count = 0;
    aw_rng_init(&rng, 1, room);
    assert_ok(aw_hash_table_init(&table, sizeof(struct item), room, KEYS, NULL));
    for (uint32_t turn = 0; turn < 20000; turn++) {
        const uint32_t key = aw_rng_below(&rng, KEYS);
        struct item *item = find(&table, key);
        assert_int_equal(item != NULL, there[key]);
        if (item) {
            aw_hash_table_drop(&table, item);
        } else {
            item = aw_hash_table_add(&table, hash_of(key));
            assert_int_equal(item->key, 0);
            item->key = key;
        }
        there[key] = !there[key];
        count += there[key] ? 1 : UINT32_MAX;
        assert_int_equal(table.count, count);
        assert_true(2 * count <= table.places);
    }
    uint32_t seen = 0;
    for (uint32_t i = 0; i < table.places; i++) {
        const struct item *item = aw_hash_table_at(&table, i);
        seen += item != NULL;
        assert_true(!item || there[item->key]);
    }
    assert_int_equal(seen, count);
    aw_hash_table_clear(&table);
    assert_null(find(&table, 7));
    assert_int_equal(table.count, 0);
    aw_hash_table_deinit(&table);
    aw_hash_table_deinit(&table);
}

static void it_keeps_what_a_list_would_keep(void **state)
{
    (void)state;
    walk(KEYS); /* all at init */
    walk(0);    /* grows */
}

static void nothing_is_allocated_for_what_there_was_room_for(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw_hash_table table;
    aw_alloc_counting_init(&counting);
    assert_ok(aw_hash_table_init(&table, sizeof(struct item), 20, 20, &counting.alloc));
    for (uint32_t i = 0; i < 20; i++)
        assert_non_null(aw_hash_table_add(&table, i));
    assert_null(aw_hash_table_add(&table, 20));
    assert_int_equal(counting.alloc_count, 1);
    aw_hash_table_deinit(&table);
    assert_int_equal(counting.free_count, 1);
}

static void without_memory_it_stays_as_it_was(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw_hash_table table;
    uint32_t count = 0;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 1;
    assert_ok(aw_hash_table_init(&table, sizeof(struct item), 0, KEYS, &counting.alloc));
    while (aw_hash_table_add(&table, count + 1))
        count++;
    assert_true(count > 0 && count < KEYS);
    for (uint32_t i = 0; i < count; i++)
        assert_non_null(aw_hash_table_find(&table, i + 1));
    aw_hash_table_deinit(&table);
    counting.fail_after = 0;
    assert_int_equal(aw_hash_table_init(&table, sizeof(struct item), 0, KEYS, &counting.alloc),
                     AW_ERR_NOMEM);
    aw_hash_table_deinit(&table);
}

AW_TEST_GROUP("hash-table")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_what_a_list_would_keep),
        cmocka_unit_test(nothing_is_allocated_for_what_there_was_room_for),
        cmocka_unit_test(without_memory_it_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
