/* mux_frame_test.c - frames are found again as they were put, wherever the bytes are cut. */
#include "base/mux_frame.h"

#include "base/rng.h"
#include "base/testing.h"

#include <string.h>

static void frames_are_found_as_they_were_put_wherever_they_are_cut(void **state)
{
    (void)state;
    static const struct aw_mux_frame_frame frames[] = {
        {.kind = AW_MUX_FRAME_REQUEST, .stream = 0x10002, .len = 5},
        {.kind = AW_MUX_FRAME_CREDIT, .stream = 7, .len = AW_MUX_FRAME_WINDOW},
        {.kind = AW_MUX_FRAME_CANCEL, .stream = UINT32_MAX},
        {.kind = AW_MUX_FRAME_ANSWER, .stream = 3, .len = AW_MUX_FRAME_PAYLOAD_MAX},
        {.kind = AW_MUX_FRAME_ANSWER, .stream = 3, .last = true},
        {.kind = AW_MUX_FRAME_REFUSED, .stream = 9},
        {.kind = AW_MUX_FRAME_FAREWELL},
    };
    static char bytes[2 * AW_MUX_FRAME_PAYLOAD_MAX];
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        const struct aw_mux_frame_frame *put = &frames[i];
        struct aw_mux_frame_frame got = {0};
        const size_t whole =
            AW_MUX_FRAME_HEAD_BYTES + (put->kind == AW_MUX_FRAME_CREDIT ? 0 : (size_t)put->len);
        memset(bytes, 'x', sizeof bytes);
        aw_mux_frame_put(bytes, put);
        for (size_t len = 0; len < whole; len++)
            assert_int_equal(aw_mux_frame_take(bytes, len, &got), AW_ERR_NODATA);
        assert_int_equal(got.bytes, 0);
        assert_ok(aw_mux_frame_take(bytes, sizeof bytes, &got));
        assert_int_equal(got.kind, put->kind);
        assert_int_equal(got.last, put->last);
        assert_int_equal(got.stream, put->stream);
        assert_int_equal(got.len, put->len);
        assert_int_equal(got.bytes, whole);
        assert_ptr_equal(got.payload, bytes + AW_MUX_FRAME_HEAD_BYTES);
    }
}

static void what_is_no_frame_is_said_to_be_none(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[4];
        const char *why;
    } cases[] = {
        {{0, 0, 0, 0}, "no kind"},
        {{AW_MUX_FRAME_KIND_END, 0, 0, 0}, "a kind that is not known"},
        {{'G', 'E', 'T', ' '}, "HTTP"},
        {{AW_MUX_FRAME_ANSWER, 0, 0xff, 0xff}, "a payload that is too long"},
        {{AW_MUX_FRAME_CANCEL, 0, 1, 0}, "a payload where there is none"},
        {{AW_MUX_FRAME_REQUEST, 1, 1, 0}, "the last of a request"},
        {{AW_MUX_FRAME_ANSWER, 2, 1, 0}, "more than the last"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[64] = {0};
        struct aw_mux_frame_frame got;
        memcpy(bytes, cases[i].bytes, sizeof cases[i].bytes);
        if (aw_mux_frame_take(bytes, sizeof bytes, &got) != AW_ERR_FORMAT)
            fail_msg("%s", cases[i].why);
    }
}

/* Whatever comes, a frame that is found lies within it and says what it could have been put as. */
static void a_frame_in_any_bytes_lies_within_them(void **state)
{
    (void)state;
    struct aw_rng rng;
    char bytes[128], again[AW_MUX_FRAME_HEAD_BYTES];
    uint32_t found = 0;
    aw_rng_init(&rng, 7, 0);
    for (int i = 0; i < 200000; i++) {
        struct aw_mux_frame_frame got;
        for (size_t at = 0; at < sizeof bytes; at += sizeof(uint64_t)) {
            const uint64_t word = aw_rng_u64(&rng);
            memcpy(bytes + at, &word, sizeof word);
        }
        bytes[0] = (char)(bytes[0] & 7);
        bytes[1] = (char)(bytes[1] & 1);
        bytes[3] = (char)(bytes[3] & 0x40);
        const size_t len = aw_rng_u64(&rng) % sizeof bytes;
        if (aw_mux_frame_take(bytes, len, &got))
            continue;
        assert_true(got.bytes <= len);
        aw_mux_frame_put(again, &got);
        assert_memory_equal(again, bytes, sizeof again);
        found++;
    }
    assert_true(found > 1000);
}

AW_TEST_GROUP("mux-frame")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_found_as_they_were_put_wherever_they_are_cut),
        cmocka_unit_test(what_is_no_frame_is_said_to_be_none),
        cmocka_unit_test(a_frame_in_any_bytes_lies_within_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
