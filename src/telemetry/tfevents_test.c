#include "telemetry/tfevents.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/testing.h"

/* Written out by hand from the format: wall time 1.5 and the version; then wall time 2, step 300,
 * "a/b" = -2.25. */
static const unsigned char version_record[] = {
    0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e,
    0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32, 0x2a, 0x28, 0x64, 0x6c,
};
static const unsigned char scalar_record[] = {
    0x1a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x12, 0x9b, 0xd8, 0x2d, 0x09, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x10, 0xac, 0x02, 0x2a, 0x0c, 0x0a, 0x0a,
    0x0a, 0x03, 0x61, 0x2f, 0x62, 0x15, 0x00, 0x00, 0x10, 0xc0, 0x22, 0x62, 0x85, 0xee,
};

static char dir[] = "/tmp/aware-tfevents-XXXXXX";
static char path[64];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/x.tfevents", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static size_t slurp(unsigned char *to, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(to, 1, size, file);
    fclose(file);
    return len;
}

static void add(struct aw_tfevents *events, double wall_s, uint64_t step, double value)
{
    struct aw_tfevents_scalar scalar = {"a/b", value};
    assert_ok(aw_tfevents_add(events, wall_s, step, &scalar, 1, NULL));
}

static void a_file_has_the_bytes_of_the_format(void **state)
{
    (void)state;
    unsigned char bytes[256];
    struct aw_tfevents events;
    assert_ok(aw_tfevents_create(&events, path, 1.5, NULL));
    add(&events, 2, 300, -2.25);
    aw_tfevents_close(&events);
    aw_tfevents_close(&events);
    assert_int_equal(slurp(bytes, sizeof bytes), sizeof version_record + sizeof scalar_record);
    assert_memory_equal(bytes, version_record, sizeof version_record);
    assert_memory_equal(bytes + sizeof version_record, scalar_record, sizeof scalar_record);
}

static void a_value_that_is_not_finite_is_left_out(void **state)
{
    (void)state;
    unsigned char bytes[256];
    struct aw_tfevents events;
    const struct aw_tfevents_scalar scalars[] = {{"x", NAN}, {"a/b", -2.25}, {"y", INFINITY}};
    assert_ok(aw_tfevents_create(&events, path, 1.5, NULL));
    assert_ok(aw_tfevents_add(&events, 2, 300, scalars, 3, NULL));
    aw_tfevents_close(&events);
    slurp(bytes, sizeof bytes);
    assert_memory_equal(bytes + sizeof version_record, scalar_record, sizeof scalar_record);
}

static void resume_drops_later_steps_and_a_broken_tail(void **state)
{
    (void)state;
    unsigned char whole[512], again[512];
    struct aw_tfevents events;
    assert_ok(aw_tfevents_create(&events, path, 1.5, NULL));
    add(&events, 1, 0, 1);
    add(&events, 2, 300, 2);
    add(&events, 3, UINT64_MAX / 2, 3);
    aw_tfevents_close(&events);
    size_t size = slurp(whole, sizeof whole);

    assert_ok(aw_tfevents_resume(&events, path, 300, 9, NULL));
    add(&events, 3, UINT64_MAX / 2, 3);
    aw_tfevents_close(&events);
    assert_int_equal(slurp(again, sizeof again), size);
    assert_memory_equal(whole, again, size);

    assert_ok(aw_tfevents_resume(&events, path, 299, 9, NULL));
    add(&events, 2, 300, 2);
    add(&events, 3, UINT64_MAX / 2, 3);
    aw_tfevents_close(&events);
    assert_int_equal(slurp(again, sizeof again), size);
    assert_memory_equal(whole, again, size);

    /* cut at every byte of the last two records, and with a flipped byte at each: what is sound
     * before it stays, and the same records make the file whole again */
    for (size_t cut = sizeof version_record; cut < size; cut++) {
        assert_int_equal(truncate(path, (off_t)cut), 0);
        assert_ok(aw_tfevents_resume(&events, path, UINT64_MAX, 9, NULL));
        aw_tfevents_close(&events);
        size_t kept = slurp(again, sizeof again);
        assert_true(kept <= cut);
        assert_memory_equal(whole, again, kept);
        FILE *file = fopen(path, "wb");
        fwrite(whole, 1, cut, file);
        fputc(whole[cut] ^ 0x10, file);
        fwrite(whole + cut + 1, 1, size - cut - 1, file);
        fclose(file);
        assert_ok(aw_tfevents_resume(&events, path, UINT64_MAX, 9, NULL));
        aw_tfevents_close(&events);
        kept = slurp(again, sizeof again);
        assert_true(kept <= cut);
        assert_memory_equal(whole, again, kept);
        file = fopen(path, "wb");
        fwrite(whole, 1, size, file);
        fclose(file);
    }
}

static void a_foreign_file_is_refused_and_left_alone(void **state)
{
    (void)state;
    unsigned char bytes[64];
    struct aw_tfevents events;
    struct aw_diag diag;
    FILE *file = fopen(path, "wb");
    fputs("not an event file at all", file);
    fclose(file);
    assert_int_equal(aw_tfevents_resume(&events, path, 5, 9, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.file, path);
    assert_int_equal(slurp(bytes, sizeof bytes), 24);
    aw_tfevents_close(&events);
    assert_int_equal(aw_tfevents_create(&events, "/nonexistent/x", 1, &diag), AW_ERR_IO);
    aw_tfevents_close(&events);
}

static void a_missing_file_is_begun_by_resume(void **state)
{
    (void)state;
    unsigned char bytes[64];
    struct aw_tfevents events;
    unlink(path);
    assert_ok(aw_tfevents_resume(&events, path, 5, 1.5, NULL));
    aw_tfevents_close(&events);
    assert_int_equal(slurp(bytes, sizeof bytes), sizeof version_record);
    assert_memory_equal(bytes, version_record, sizeof version_record);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    struct aw_tfevents events;
    struct aw_diag diag;
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(aw_tfevents_create(&events, "/dev/full", 1, &diag), AW_ERR_IO);
    aw_tfevents_close(&events);
}

AW_TEST_GROUP("tfevents")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_has_the_bytes_of_the_format),
        cmocka_unit_test(a_value_that_is_not_finite_is_left_out),
        cmocka_unit_test(resume_drops_later_steps_and_a_broken_tail),
        cmocka_unit_test(a_foreign_file_is_refused_and_left_alone),
        cmocka_unit_test(a_missing_file_is_begun_by_resume),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests_name("tfevents", tests, setup, teardown);
}
