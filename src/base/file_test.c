#include "base/file.h"

#include "base/testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/aware-file-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(in_dir(name), "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The content of a file as a static string. */
static const char *get(const char *name)
{
    static char text[64];
    char *bytes = NULL;
    size_t len = 0;
    assert_ok(aw_file_read(in_dir(name), sizeof text - 1, NULL, &bytes, &len, NULL));
    memcpy(text, bytes, len + 1);
    aw_alloc_free(NULL, bytes);
    return text;
}

static uint32_t count_files(void)
{
    uint32_t count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static void clear_dir(void)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (e->d_name[0] != '.')
            remove(in_dir(e->d_name));
    closedir(d);
}

static void a_file_reads_whole_up_to_its_limit(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t len = 99;
    struct aw_diag diag;
    put("a", "hello");
    assert_ok(aw_file_read(in_dir("a"), 5, NULL, &bytes, &len, NULL));
    assert_int_equal(len, 5);
    assert_string_equal(bytes, "hello");
    aw_alloc_free(NULL, bytes);
    bytes = NULL;
    assert_int_equal(aw_file_read(in_dir("a"), 4, NULL, &bytes, &len, &diag), AW_ERR_LIMIT);
    assert_string_equal(diag.text, "expected at most 4 bytes, found more");
    assert_int_equal(aw_file_read(in_dir("none"), 4, NULL, &bytes, &len, &diag), AW_ERR_NOTFOUND);
    assert_string_equal(diag.text, "cannot open: No such file or directory");
    assert_int_equal(aw_file_read(dir, 4, NULL, &bytes, &len, &diag), AW_ERR_NOTFOUND);
    assert_string_equal(diag.text, "cannot read: Is a directory");
    assert_null(bytes);
    put("a", "");
    assert_ok(aw_file_read(in_dir("a"), 4, NULL, &bytes, &len, NULL));
    assert_int_equal(len, 0);
    aw_alloc_free(NULL, bytes);
    clear_dir();
}

/* A pipe has no size: the buffer grows, and every growth may fail. */
static void a_pipe_reads_whole_whatever_allocation_fails(void **state)
{
    (void)state;
    enum { BYTES = 20000 };
    static char sent[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        sent[i] = (char)('a' + i % 26);
    uint64_t fail_after = 0;
    for (enum aw_err err = AW_ERR_NOMEM; err; fail_after++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], sent, BYTES), BYTES);
        close(ends[1]);
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = fail_after;
        char *bytes = NULL;
        size_t len = 0;
        err = aw_file_read_fd(ends[0], "pipe", BYTES, &counting.alloc, &bytes, &len, NULL);
        close(ends[0]);
        if (err == AW_OK) {
            assert_int_equal(len, BYTES);
            assert_memory_equal(bytes, sent, BYTES);
            aw_alloc_free(&counting.alloc, bytes);
        } else {
            assert_int_equal(err, AW_ERR_NOMEM);
        }
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    assert_int_equal(fail_after, 5); /* 4, 8, 16, 32 KiB, and the attempt that needs no more */
}

static void a_replacement_keeps_the_mode_and_leaves_one_file(void **state)
{
    (void)state;
    struct stat st;
    assert_ok(aw_file_replace(in_dir("a"), "one", 3, NULL, NULL));
    assert_string_equal(get("a"), "one");
    assert_int_equal(chmod(in_dir("a"), 0640), 0);
    assert_ok(aw_file_replace(in_dir("a"), "second", 6, NULL, NULL));
    assert_string_equal(get("a"), "second");
    assert_int_equal(stat(in_dir("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(count_files(), 1);
    struct aw_diag diag;
    assert_int_equal(aw_file_replace(dir, "x", 1, NULL, &diag), AW_ERR_NOTFOUND);
    assert_int_equal(aw_file_replace(in_dir("no/such"), "x", 1, NULL, &diag), AW_ERR_NOTFOUND);
    clear_dir();
}

static void every_fault_leaves_the_old_or_the_new_content(void **state)
{
    (void)state;
    for (int crash = 0; crash < 2; crash++) {
        for (int existed = 0; existed < 2; existed++) {
            enum aw_err err = AW_ERR_IO;
            uint32_t n = 1, old_count = 0, new_count = 0;
            for (; err; n++) {
                clear_dir();
                if (existed)
                    put("a", "old content");
                struct aw_file_fault fault = {.fail_at = n, .crash = crash != 0};
                struct aw_file_writer writer;
                struct aw_diag diag = {0};
                err = aw_file_writer_open(&writer, in_dir("a"), &fault, &diag);
                if (!err)
                    err = aw_file_writer_write(&writer, "new ", 4, &diag);
                if (!err)
                    err = aw_file_writer_write(&writer, "content", 7, &diag);
                if (!err)
                    err = aw_file_writer_commit(&writer, &diag);
                else
                    aw_file_writer_abort(&writer);
                assert_true(err == AW_OK || err == AW_ERR_IO);
                assert_int_equal(err != AW_OK, diag.text[0] != 0);
                bool is_there = access(in_dir("a"), F_OK) == 0;
                bool is_new = is_there && strcmp(get("a"), "new content") == 0;
                if (!is_new) {
                    assert_int_equal(is_there, existed);
                    if (existed)
                        assert_string_equal(get("a"), "old content");
                }
                if (err && is_new)
                    assert_non_null(strstr(diag.text, "the new content is in place"));
                if (!crash)
                    assert_int_equal(count_files(), is_there);
                old_count += !is_new;
                new_count += is_new;
            }
            /* open, write, write, sync, close, rename keep the old; open and sync of the directory
             * come after the new is there; the last round has no fault. */
            assert_int_equal(old_count, 6);
            assert_int_equal(new_count, 3);
        }
    }
    clear_dir();
}

static void an_aborted_writer_leaves_nothing(void **state)
{
    (void)state;
    struct aw_file_writer writer;
    assert_ok(aw_file_writer_open(&writer, in_dir("a"), NULL, NULL));
    assert_ok(aw_file_writer_write(&writer, "x", 1, NULL));
    aw_file_writer_abort(&writer);
    aw_file_writer_abort(&writer);
    assert_int_equal(count_files(), 0);
}

static mode_t kind_of(const char *name)
{
    struct stat st;
    assert_int_equal(lstat(in_dir(name), &st), 0);
    return st.st_mode & S_IFMT;
}

/* What `--report /dev/null` as root must not do. The nodes here are our own. */
static void output_files_do_not_replace_devices_and_pipes(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    struct aw_diag diag = {0};
    assert_int_equal(aw_file_replace(in_dir("pipe"), "x", 1, NULL, &diag), AW_ERR_IO);
    assert_string_equal(diag.text, "cannot write: No such device or address");
    const int reader = open(in_dir("pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_ok(aw_file_replace(in_dir("pipe"), "told", 4, NULL, &diag));
    char heard[8] = "";
    assert_int_equal(read(reader, heard, sizeof heard), 4);
    assert_string_equal(heard, "told");
    assert_int_equal(kind_of("pipe"), S_IFIFO);
    struct aw_file_writer writer;
    assert_ok(aw_file_writer_open(&writer, in_dir("pipe"), NULL, NULL));
    aw_file_writer_abort(&writer);
    assert_int_equal(kind_of("pipe"), S_IFIFO);
    close(reader);
    assert_int_equal(symlink("pipe", in_dir("link")), 0);
    assert_int_equal(aw_file_replace(in_dir("link"), "x", 1, NULL, NULL), AW_ERR_IO);
    assert_int_equal(kind_of("link"), S_IFLNK);
    assert_int_equal(kind_of("pipe"), S_IFIFO);
    if (mknod(in_dir("null"), S_IFCHR | 0666, makedev(1, 3)) == 0) { /* root alone may */
        assert_ok(aw_file_replace(in_dir("null"), "gone", 4, NULL, NULL));
        assert_int_equal(kind_of("null"), S_IFCHR);
        assert_int_equal(mknod(in_dir("block"), S_IFBLK | 0666, makedev(0, 0)), 0);
        assert_int_equal(aw_file_replace(in_dir("block"), "x", 1, NULL, &diag), AW_ERR_IO);
        assert_int_equal(kind_of("block"), S_IFBLK);
    }
    clear_dir();
}

static void a_link_stays_a_link_and_its_file_is_replaced(void **state)
{
    (void)state;
    put("file", "old");
    char elsewhere[512];
    snprintf(elsewhere, sizeof elsewhere, "%s", in_dir("near"));
    assert_int_equal(symlink("file", in_dir("near")), 0);
    assert_int_equal(symlink(elsewhere, in_dir("far")), 0);
    assert_ok(aw_file_replace(in_dir("far"), "new", 3, NULL, NULL));
    assert_int_equal(kind_of("near"), S_IFLNK);
    assert_int_equal(kind_of("far"), S_IFLNK);
    assert_int_equal(kind_of("file"), S_IFREG);
    assert_string_equal(get("file"), "new");
    /* A link to what is not there yet makes it. */
    assert_int_equal(unlink(in_dir("file")), 0);
    assert_ok(aw_file_replace(in_dir("far"), "made", 4, NULL, NULL));
    assert_string_equal(get("file"), "made");
    assert_int_equal(count_files(), 3);
    struct aw_diag diag = {0};
    assert_int_equal(symlink("loop", in_dir("loop")), 0);
    assert_int_equal(aw_file_replace(in_dir("loop"), "x", 1, NULL, &diag), AW_ERR_IO);
    assert_string_equal(diag.text, "cannot write: Too many levels of symbolic links");
    clear_dir();
}

/* /dev/stdout is a link to /proc/self/fd/1: what the shell opened is appended to, not replaced. */
static void an_open_descriptor_named_by_proc_is_written_through(void **state)
{
    (void)state;
    put("log", "before, ");
    const int fd = open(in_dir("log"), O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    struct stat before, after;
    assert_int_equal(fstat(fd, &before), 0);
    assert_ok(aw_file_replace(name, "after", 5, NULL, NULL));
    assert_string_equal(get("log"), "before, after");
    assert_int_equal(stat(in_dir("log"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    close(fd);
    clear_dir();
}

#define TOKEN "0123456789abcdef-right"

static void a_token_is_its_owners_and_its_groups_alone_and_long_enough(void **state)
{
    enum { OWN, OTHER };
    static const struct {
        const char *text;
        mode_t mode;
        int group;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {TOKEN "\n", 0600, OWN, AW_OK, "a line"},
        {TOKEN, 0400, OWN, AW_OK, "without its end"},
        {TOKEN "\r\nmore\n", 0600, OWN, AW_OK, "the first line"},
        {TOKEN, 0440, OWN, AW_OK, "a Secret with defaultMode 0440 or 0400, and fsGroup"},
        {TOKEN, 0640, OWN, AW_OK, "a file of root, for the group of the daemon"},
        {TOKEN, 0644, OWN, AW_ERR_CONFIG, "a Secret without defaultMode: everybody can read it"},
        {TOKEN, 0660, OWN, AW_ERR_CONFIG, "the group can put in its own"},
        {TOKEN, 0440, OTHER, AW_ERR_CONFIG, "fsGroup is not a group of the process"},
        {TOKEN, 0600, OTHER, AW_OK, "the group has no rights"},
        {"short\n", 0600, OWN, AW_ERR_CONFIG, "can be guessed"},
        {"", 0600, OWN, AW_ERR_CONFIG, "nothing"},
        {"0123456789abcdef with space\n", 0600, OWN, AW_ERR_CONFIG, "no header carries it"},
        {"0123456789abcdef\xc3\xa9\n", 0600, OWN, AW_ERR_CONFIG, "not ASCII"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char token[AW_TOKEN_MAX] = "as it was";
        put("token", cases[i].text);
        const gid_t group = cases[i].group == OWN ? getegid() : 65532;
        if (chown(in_dir("token"), (uid_t)-1, group) != 0)
            continue; /* only root gives files away */
        assert_int_equal(chmod(in_dir("token"), cases[i].mode), 0);
        struct aw_diag diag = {0};
        if (aw_file_read_token(in_dir("token"), token, &diag) != cases[i].err)
            fail_msg("%s: %s", cases[i].why, diag.text);
        assert_string_equal(token, cases[i].err ? "as it was" : TOKEN);
        clear_dir();
    }
    char longest[AW_TOKEN_MAX + 1] = "", token[AW_TOKEN_MAX];
    memset(longest, 'x', AW_TOKEN_MAX);
    for (size_t len = AW_TOKEN_MAX; len >= AW_TOKEN_MAX - 1; len--) {
        longest[len] = '\0';
        put("token", longest);
        assert_int_equal(chmod(in_dir("token"), 0600), 0);
        assert_int_equal(aw_file_read_token(in_dir("token"), token, NULL),
                         len < AW_TOKEN_MAX ? AW_OK : AW_ERR_CONFIG);
    }
    clear_dir();
    assert_int_equal(aw_file_read_token(in_dir("token"), token, NULL), AW_ERR_NOTFOUND);
}

static void devices_without_end_and_silent_pipes_do_not_hang_readers(void **state)
{
    (void)state;
    struct aw_diag diag = {0};
    char *bytes = NULL;
    size_t len = 0;
    int fd = -1;
    /* its own node where that is allowed; the machine's is only read */
    const bool made = mknod(in_dir("zero"), S_IFCHR | 0444, makedev(1, 5)) == 0;
    assert_int_equal(
        aw_file_read(made ? in_dir("zero") : "/dev/zero", SIZE_MAX / 2, NULL, &bytes, &len, &diag),
        AW_ERR_UNSUPPORTED);
    assert_string_equal(diag.text, "expected a file, found a device");
    assert_ok(aw_file_read("/dev/null", 1, NULL, &bytes, &len, NULL));
    assert_int_equal(len, 0);
    aw_alloc_free(NULL, bytes);
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_equal(aw_file_open(in_dir("pipe"), 50, &fd, &diag), AW_ERR_UNAVAILABLE);
    assert_string_equal(diag.text, "nothing was written to this pipe for 0.05 s");
    assert_int_equal(fd, -1);
    /* Who writes later is waited for, and to the end. */
    const pid_t child = fork();
    if (child == 0) {
        usleep(100000);
        const int out = open(in_dir("pipe"), O_WRONLY | O_CLOEXEC);
        usleep(100000);
        _exit(out >= 0 && write(out, "late", 4) == 4 ? 0 : 1);
    }
    assert_string_equal(get("pipe"), "late");
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    clear_dir();
}

static void missing_directories_are_made(void **state)
{
    (void)state;
    struct stat st;
    struct aw_diag diag;
    assert_ok(aw_file_mkdirs(in_dir("x/y//z/"), NULL));
    assert_ok(aw_file_mkdirs(in_dir("x/y/z"), NULL));
    assert_int_equal(stat(in_dir("x/y/z"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    put("f", "");
    assert_int_equal(aw_file_mkdirs(in_dir("f"), &diag), AW_ERR_EXISTS);
    assert_string_equal(diag.text, "expected a directory, found something else");
    assert_int_equal(aw_file_mkdirs(in_dir("f/g"), &diag), AW_ERR_EXISTS);
    assert_int_equal(aw_file_mkdirs("", &diag), AW_ERR_NOTFOUND);
    remove(in_dir("x/y/z"));
    remove(in_dir("x/y"));
    clear_dir();
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    (void)state;
    clear_dir();
    return rmdir(dir);
}

AW_TEST_GROUP("file")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_reads_whole_up_to_its_limit),
        cmocka_unit_test(a_pipe_reads_whole_whatever_allocation_fails),
        cmocka_unit_test(a_replacement_keeps_the_mode_and_leaves_one_file),
        cmocka_unit_test(every_fault_leaves_the_old_or_the_new_content),
        cmocka_unit_test(an_aborted_writer_leaves_nothing),
        cmocka_unit_test(output_files_do_not_replace_devices_and_pipes),
        cmocka_unit_test(a_link_stays_a_link_and_its_file_is_replaced),
        cmocka_unit_test(an_open_descriptor_named_by_proc_is_written_through),
        cmocka_unit_test(a_token_is_its_owners_and_its_groups_alone_and_long_enough),
        cmocka_unit_test(devices_without_end_and_silent_pipes_do_not_hang_readers),
        cmocka_unit_test(missing_directories_are_made),
    };
    return cmocka_run_group_tests_name("file", tests, make_dir, drop_dir);
}
