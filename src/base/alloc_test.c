#include "base/alloc.h"
#include "base/testing.h"

#include <string.h>

static void heap_blocks_are_zeroed_and_aligned(void **state)
{
    (void)state;
    for (size_t n = 0; n < 200; n += 33) {
        unsigned char *block = aw_alloc_new(NULL, n, 1);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % AW_ALLOC_ALIGN, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(block[i], 0);
        aw_alloc_free(NULL, block);
    }
    aw_alloc_free(NULL, NULL);
}

/* From four megabytes on a block is in huge pages where the system has them. */
static void large_blocks_are_zeroed_and_aligned_too(void **state)
{
    (void)state;
    const size_t border = (size_t)4 << 20;
    static const ptrdiff_t beside[] = {-1, 0, 1, 4095, 4096, 12345, 3 << 20};
    for (size_t n = 0; n < sizeof beside / sizeof *beside; n++)
        for (int again = 0; again < 2; again++) { /* the second may be given used memory */
            const size_t bytes = border + (size_t)beside[n];
            unsigned char *block = aw_alloc_new(NULL, bytes, 1);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % AW_ALLOC_ALIGN, 0);
            assert_int_equal(block[0], 0);
            assert_memory_equal(block, block + 1, bytes - 1);
            memset(block, 0xa5, bytes);
            aw_alloc_free(NULL, block);
        }
}

static void an_overflowing_size_is_refused(void **state)
{
    (void)state;
    assert_null(aw_alloc_new(NULL, SIZE_MAX, 2));
    assert_null(aw_alloc_new(NULL, AW_ALLOC_BYTES_MAX, 2));
    struct aw_carve carve = {0};
    aw_carve_take(&carve, SIZE_MAX, 2);
    aw_carve_take(&carve, 1, 1);
    assert_null(aw_alloc_new(NULL, carve.used, 1));
}

static void the_counting_allocator_counts_and_fails_on_request(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 2;
    void *a = aw_alloc_new(&counting.alloc, 1, 8), *b = aw_alloc_new(&counting.alloc, 1, 8);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(aw_alloc_new(&counting.alloc, 1, 8));
    aw_alloc_free(&counting.alloc, a);
    aw_alloc_free(&counting.alloc, b);
    assert_int_equal(counting.alloc_count, 2);
    assert_int_equal(counting.free_count, 2);
}

static void an_arena_is_full_at_its_size(void **state)
{
    (void)state;
    _Alignas(16) unsigned char block[64];
    struct aw_arena arena = {.base = block, .size = sizeof block};
    memset(block, 'x', sizeof block);
    unsigned char *one = aw_arena_alloc(&arena, 1, 5);
    assert_int_equal(one[4], 0);
    assert_ptr_equal(aw_arena_alloc(&arena, 3, 16), block + 16);
    assert_null(aw_arena_alloc(&arena, 1, 1));
    assert_null(aw_arena_alloc(&arena, SIZE_MAX, 2));
}

static void carving_twice_gives_disjoint_aligned_parts(void **state)
{
    (void)state;
    struct aw_carve carve = {0};
    assert_null(aw_carve_take(&carve, 3, 4));
    assert_null(aw_carve_take(&carve, 1, 100));
    size_t size = carve.used;
    carve = (struct aw_carve){.base = aw_alloc_new(NULL, size, 1)};
    unsigned char *a = aw_carve_take(&carve, 3, 4), *b = aw_carve_take(&carve, 1, 100);
    assert_int_equal((uintptr_t)b % AW_ALLOC_ALIGN, 0);
    assert_true(b >= a + 12);
    assert_int_equal(carve.used, size);
    aw_alloc_free(NULL, carve.base);
}

AW_TEST_GROUP("alloc")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_blocks_are_zeroed_and_aligned),
        cmocka_unit_test(large_blocks_are_zeroed_and_aligned_too),
        cmocka_unit_test(an_overflowing_size_is_refused),
        cmocka_unit_test(the_counting_allocator_counts_and_fails_on_request),
        cmocka_unit_test(an_arena_is_full_at_its_size),
        cmocka_unit_test(carving_twice_gives_disjoint_aligned_parts),
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
