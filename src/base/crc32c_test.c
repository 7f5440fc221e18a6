#include "base/crc32c.h"

#include <string.h>

#include "base/testing.h"

/* One bit at a time, straight from the definition. */
static uint32_t naive(const unsigned char *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

static void the_published_vectors_hold(void **state)
{
    (void)state;
    unsigned char bytes[32];
    static const struct {
        unsigned char start;
        int slope;
        uint32_t crc;
        const char *why;
    } row[] = {
        {0x00, 0, 0x8a9136aa, "RFC 3720: 32 bytes of zeroes"},
        {0xff, 0, 0x62a8ab43, "RFC 3720: 32 bytes of ones"},
        {0x00, 1, 0x46dd794e, "RFC 3720: 32 bytes ascending"},
        {0x1f, -1, 0x113fdb5c, "RFC 3720: 32 bytes descending"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        for (int k = 0; k < 32; k++)
            bytes[k] = (unsigned char)(row[i].start + k * row[i].slope);
        if (aw_crc32c(0, bytes, 32) != row[i].crc)
            fail_msg("%s: got %08x", row[i].why, aw_crc32c(0, bytes, 32));
    }
    assert_int_equal(aw_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(aw_crc32c(0, "", 0), 0);
}

static void it_equals_the_bitwise_twin_at_every_length_and_cut(void **state)
{
    (void)state;
    unsigned char bytes[97];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 197 + 31);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        assert_int_equal(aw_crc32c(0, bytes, size), naive(bytes, size));
        assert_int_equal(aw__crc32c_portable(0, bytes, size), naive(bytes, size));
        size_t cut = size / 3;
        assert_int_equal(aw_crc32c(aw_crc32c(0, bytes, cut), bytes + cut, size - cut),
                         naive(bytes, size));
    }
}

AW_TEST_GROUP("crc32c")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_hold),
        cmocka_unit_test(it_equals_the_bitwise_twin_at_every_length_and_cut),
    };
    return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
