/* cgroup_test.c - both versions of control groups, as directories of plain files. */
#include "cluster/local/cgroup.h"

#include "base/testing.h"
#include "cluster/local/cgroup_file.h"
#include "cluster/local/rundir.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID "0123456789abcdef"

/* --- a file system of plain files ------------------------------------------------------------- */

struct fake {
    char root[64];
};

static void fake_begin(struct fake *fake)
{
    *fake = (struct fake){.root = "/tmp/aware-cgroup-XXXXXX"};
    assert_non_null(mkdtemp(fake->root));
}

static const char *path_of(const struct fake *fake, const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[0], "%s/%s", fake->root, name);
    return path[turn];
}

static void fake_dir(const struct fake *fake, const char *name)
{
    assert_int_equal(mkdir(path_of(fake, name), 0755), 0);
}

static void fake_file(const struct fake *fake, const char *name, const char *text)
{
    FILE *file = fopen(path_of(fake, name), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char *fake_text(const struct fake *fake, const char *name)
{
    static char text[256];
    assert_true(aw__cgroup_file_read(path_of(fake, name), text, sizeof text) >= 0);
    return text;
}

static void fake_end(const struct fake *fake)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-r", "--", fake->root, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void v1_begin(struct fake *fake, struct aw__cgroup_tree *tree)
{
    fake_begin(fake);
    fake_dir(fake, "cpu,cpuacct");
    assert_int_equal(symlink("cpu,cpuacct", path_of(fake, "cpu")), 0);
    assert_int_equal(symlink("cpu,cpuacct", path_of(fake, "cpuacct")), 0);
    fake_dir(fake, "memory");
    fake_dir(fake, "blkio");
    struct aw_diag diag = {0};
    if (aw__cgroup_find(tree, fake->root, "", ID, &diag) || aw__cgroup_make(tree, &diag))
        fail_msg("%s", diag.text);
}

#define SUBTREE "aware-local-" ID

/* A group of version 2 with all files of its own that are looked at. */
static void v2_group(const struct fake *fake, const char *name, const char *controllers,
                     const char *control)
{
    char path[128];
    snprintf(path, sizeof path, "%s/cgroup.controllers", name);
    fake_file(fake, path, controllers);
    snprintf(path, sizeof path, "%s/cgroup.subtree_control", name);
    fake_file(fake, path, control);
    snprintf(path, sizeof path, "%s/cgroup.procs", name);
    fake_file(fake, path, "");
}

/* The kernel lets a group's files go with it. */
static void v2_group_empty(const struct fake *fake, const char *name)
{
    static const char *const files[] = {"cgroup.controllers", "cgroup.subtree_control",
                                        "cgroup.procs"};
    char path[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", name, files[i]);
        unlink(path_of(fake, path));
    }
}

/* In a plain directory nobody makes the files of a sub-tree but the test. */
static void v2_find(const struct fake *fake, const char *parent, struct aw__cgroup_tree *tree)
{
    struct aw_diag diag = {0};
    char name[128];
    if (aw__cgroup_find(tree, fake->root, parent, ID, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(mkdir(tree->part[0], 0755), 0);
    snprintf(name, sizeof name, "%s%s" SUBTREE, parent, *parent ? "/" : "");
    v2_group(fake, name, "cpu io memory\n", "");
}

static void v2_begin(struct fake *fake, struct aw__cgroup_tree *tree)
{
    fake_begin(fake);
    v2_group(fake, ".", "cpuset cpu io memory pids\n", "");
    v2_find(fake, "", tree);
}

/* A delegated group, with `procs` in it: not the root, so it has events. */
static void v2_delegated(struct fake *fake, const char *procs)
{
    fake_begin(fake);
    v2_group(fake, ".", "cpuset cpu io memory pids\n", "cpu io memory pids\n");
    fake_dir(fake, "mine");
    v2_group(fake, "mine", "cpu io memory pids\n", "");
    fake_file(fake, "mine/cgroup.events", "populated 1\n");
    fake_file(fake, "mine/cgroup.procs", procs);
}

#define V1_MEMORY "memory/aware-local-" ID "/r1/"
#define V1_CPU    "cpu/aware-local-" ID "/r1/"
#define V2        "aware-local-" ID "/r1/"

/* --- tests ------------------------------------------------------------------------------------ */

static void the_version_is_found_and_names_of_one_hierarchy_are_one(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    v1_begin(&fake, &tree);
    assert_int_equal(tree.version, 1);
    assert_int_equal(tree.part_count, 3);
    assert_int_equal(tree.of[AW__CGROUP_CPU], tree.of[AW__CGROUP_CPUACCT]);
    assert_int_not_equal(tree.of[AW__CGROUP_CPU], tree.of[AW__CGROUP_MEMORY]);
    assert_ok(aw__cgroup_drop(&tree, 100000, NULL));
    assert_int_equal(access(path_of(&fake, "memory/aware-local-" ID), F_OK), -1);
    assert_int_equal(access(path_of(&fake, "memory"), F_OK), 0);
    assert_ok(aw__cgroup_drop(&tree, 100000, NULL)); /* what is not there is a success */
    fake_end(&fake);

    v2_begin(&fake, &tree);
    assert_int_equal(tree.version, 2);
    assert_int_equal(tree.part_count, 1);
    fake_end(&fake);

    struct aw_diag diag = {0};
    fake_begin(&fake);
    assert_int_equal(aw__cgroup_find(&tree, fake.root, "", ID, &diag), AW_ERR_UNSUPPORTED);
    assert_true(diag.text[0]);
    fake_end(&fake);
}

static void version_1_limits_and_counters(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    struct aw__cgroup_usage usage;
    v1_begin(&fake, &tree);
    assert_int_equal(aw__cgroup_read(&tree, "r1", &usage), AW_ERR_NOTFOUND);
    assert_ok(aw__cgroup_add(&tree, "r1", NULL));
    fake_file(&fake, V1_CPU "cpu.cfs_period_us", "");
    fake_file(&fake, V1_CPU "cpu.cfs_quota_us", "-1\n");
    fake_file(&fake, V1_CPU "cpu.stat", "nr_periods 40\nnr_throttled 10\nthrottled_time 5\n");
    fake_file(&fake, V1_CPU "cpuacct.usage", "7654321000\n");
    fake_file(&fake, V1_MEMORY "memory.usage_in_bytes", "10000000\n");
    fake_file(&fake, V1_MEMORY "memory.limit_in_bytes", "20000000\n");
    fake_file(&fake, V1_MEMORY "memory.memsw.limit_in_bytes", "20000000\n");
    fake_file(&fake, V1_MEMORY "memory.stat",
              "cache 5\ninactive_file 1\ntotal_inactive_file 3000\n");
    fake_file(&fake, V1_MEMORY "memory.oom_control",
              "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    fake_file(
        &fake, "blkio/aware-local-" ID "/r1/blkio.throttle.io_service_bytes",
        "8:0 Read 4096\n8:0 Write 1000\n8:0 Sync 1\n8:0 Total 5096\n8:16 Read 4\nTotal 5100\n");
    assert_ok(aw__cgroup_read(&tree, "r1", &usage));
    assert_int_equal(usage.cpu_us, 7654321);
    assert_int_equal(usage.periods, 40);
    assert_int_equal(usage.throttled, 10);
    assert_int_equal(usage.memory_bytes, 9997000);
    assert_int_equal(usage.memory_limit_bytes, 20000000);
    assert_int_equal(usage.oom_kills, 2);
    assert_int_equal(usage.io_bytes, 5100);
    assert_ok(aw__cgroup_limit_cpu(&tree, "r1", 250, NULL));
    assert_string_equal(fake_text(&fake, V1_CPU "cpu.cfs_period_us"), "100000");
    assert_string_equal(fake_text(&fake, V1_CPU "cpu.cfs_quota_us"), "25000");
    assert_ok(aw__cgroup_limit_cpu(&tree, "r1", 1, NULL)); /* the kernel takes no less than 1 ms */
    assert_string_equal(fake_text(&fake, V1_CPU "cpu.cfs_quota_us"), "1000");
    fake_file(&fake, V1_CPU "cpu.shares", "1024\n");
    assert_ok(aw__cgroup_weigh(&tree, "r1", 500, NULL));
    assert_string_equal(fake_text(&fake, V1_CPU "cpu.shares"), "512");
    assert_int_equal(aw__cgroup_limit_memory(&tree, "r1", 9000000, NULL), AW_ERR_CONFLICT);
    assert_string_equal(fake_text(&fake, V1_MEMORY "memory.limit_in_bytes"), "20000000\n");
    assert_ok(aw__cgroup_limit_memory(&tree, "r1", 30000000, NULL));
    assert_string_equal(fake_text(&fake, V1_MEMORY "memory.limit_in_bytes"), "30000000");
    assert_string_equal(fake_text(&fake, V1_MEMORY "memory.memsw.limit_in_bytes"), "30000000");
    fake_file(&fake, "blkio/aware-local-" ID "/r1/blkio.throttle.read_bps_device", "");
    fake_file(&fake, "blkio/aware-local-" ID "/r1/blkio.throttle.write_bps_device", "");
    assert_ok(aw__cgroup_limit_io(&tree, "r1", "8:0", 1048576, 0, NULL));
    assert_string_equal(
        fake_text(&fake, "blkio/aware-local-" ID "/r1/blkio.throttle.read_bps_device"),
        "8:0 1048576");
    fake_end(&fake);
}

static void version_2_limits_and_counters(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    struct aw__cgroup_usage usage;
    v2_begin(&fake, &tree);
    assert_ok(aw__cgroup_add(&tree, "r1", NULL));
    fake_file(&fake, V2 "cpu.max", "max 100000\n");
    fake_file(&fake, V2 "cpu.stat",
              "usage_usec 123456\nuser_usec 1\nnr_periods 8\nnr_throttled 3\nthrottled_usec 9\n");
    fake_file(&fake, V2 "memory.current", "5000000\n");
    fake_file(&fake, V2 "memory.max", "max\n");
    fake_file(&fake, V2 "memory.swap.max", "max\n");
    fake_file(&fake, V2 "memory.stat", "anon 1\ninactive_file 1000000\n");
    fake_file(&fake, V2 "memory.events", "low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\n");
    fake_file(&fake, V2 "io.stat",
              "8:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=7 dios=0\n8:16 rbytes=3 wbytes=4\n");
    fake_file(&fake, V2 "io.max", "");
    assert_ok(aw__cgroup_read(&tree, "r1", &usage));
    assert_int_equal(usage.cpu_us, 123456);
    assert_int_equal(usage.periods, 8);
    assert_int_equal(usage.throttled, 3);
    assert_int_equal(usage.memory_bytes, 4000000);
    assert_true(usage.memory_limit_bytes == INT64_MAX);
    assert_int_equal(usage.oom_kills, 1);
    assert_int_equal(usage.io_bytes, 127);
    assert_ok(aw__cgroup_limit_cpu(&tree, "r1", 1500, NULL));
    assert_string_equal(fake_text(&fake, V2 "cpu.max"), "150000 100000");
    fake_file(&fake, V2 "cpu.weight", "100\n");
    assert_ok(aw__cgroup_weigh(&tree, "r1", 1000, NULL));
    assert_string_equal(fake_text(&fake, V2 "cpu.weight"), "39");
    /* version 2 would kill instead of refusing: it is not even tried */
    assert_int_equal(aw__cgroup_limit_memory(&tree, "r1", 3000000, NULL), AW_ERR_CONFLICT);
    assert_string_equal(fake_text(&fake, V2 "memory.max"), "max\n");
    assert_ok(aw__cgroup_limit_memory(&tree, "r1", 6000000, NULL));
    assert_string_equal(fake_text(&fake, V2 "memory.max"), "6000000");
    assert_string_equal(fake_text(&fake, V2 "memory.swap.max"), "0");
    assert_ok(aw__cgroup_limit_io(&tree, "r1", "8:0", 0, 2097152, NULL));
    assert_string_equal(fake_text(&fake, V2 "io.max"), "8:0 rbps=max wbps=2097152");
    char doors[AW__CGROUP_ROLES][AW__CGROUP_PATH_MAX];
    assert_int_equal(aw__cgroup_doors(&tree, "r1", doors), 1);
    assert_string_equal(doors[0], path_of(&fake, V2 "cgroup.procs"));
    fake_end(&fake);
}

static void missing_and_mangled_files_are_missing_figures(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key;
        int64_t value;
        const char *why;
    } cases[] = {
        {"", "a", -1, "empty"},
        {"a 1", "a", 1, "no line feed"},
        {"aa 1\na 2\n", "a", 2, "a longer key first"},
        {"a\n", "a", -1, "no value"},
        {"a -5\n", "a", -1, "negative"},
        {"a 99999999999999999999\n", "a", -1, "too large"},
        {"a x\n", "a", -1, "not a number"},
        {"\n\n\na 7\n", "a", 7, "empty lines"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (aw__cgroup_value(cases[i].text, cases[i].key) != cases[i].value)
            fail_msg("%s", cases[i].why);
    assert_int_equal(aw__cgroup_io_sum(""), 0);
    assert_int_equal(aw__cgroup_io_sum("garbage\n"), -1);
    assert_int_equal(aw__cgroup_blkio_sum("Total 0\n"), 0);

    struct fake fake;
    struct aw__cgroup_tree tree;
    struct aw__cgroup_usage usage;
    v2_begin(&fake, &tree);
    assert_ok(aw__cgroup_add(&tree, "r1", NULL));
    assert_ok(aw__cgroup_read(&tree, "r1", &usage));
    assert_int_equal(usage.cpu_us, -1);
    assert_int_equal(usage.memory_bytes, -1);
    assert_int_equal(usage.oom_kills, -1);
    assert_int_equal(usage.io_bytes, -1);
    fake_end(&fake);
}

/* Numbers of processes stand in files; those who are not members are not touched. */
static void a_stranger_is_never_ended(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    char number[32];
    int status;
    v2_begin(&fake, &tree);
    assert_ok(aw__cgroup_add(&tree, "r1", NULL));
    const pid_t stranger = fork();
    if (stranger == 0)
        for (;;)
            pause();
    snprintf(number, sizeof number, "%ld\n1\n0\n-1\n", (long)stranger);
    fake_file(&fake, V2 "cgroup.procs", number);
    assert_int_equal(aw__cgroup_end(&tree, "r1"), 4);
    usleep(20000);
    assert_int_equal(waitpid(stranger, &status, WNOHANG), 0); /* it lives */
    kill(stranger, SIGKILL);
    waitpid(stranger, &status, 0);
    fake_end(&fake);

    static const struct {
        const char *text;
        bool member;
        const char *why;
    } cases[] = {
        {"4:memory:/aware-local-" ID "/r1\n", true, "a group in it"},
        {"0::/user.slice/aware-local-" ID "\n", true, "itself"},
        {"0::/aware-local-" ID "0\n", false, "a longer name"},
        {"0::/x-aware-local-" ID "/r\n", false, "the end of another name"},
        {"0::/aware-local-fedcba9876543210/r1\n", false, "somebody else's"},
        {"0::/\n", false, "the top"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (aw__cgroup_member(cases[i].text, ID) != cases[i].member)
            fail_msg("%s", cases[i].why);
}

/* What a clean-up believes must name groups of its own run alone. */
static void a_state_that_names_anything_else_is_refused(void **state)
{
    (void)state;
#define GOOD  "aware-local 1\nid " ID "\nversion 1\n"
#define GROUP GOOD "group /sys/fs/cgroup/cpu/aware-local-" ID "\n"
    static const struct {
        const char *text;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {GOOD "group /sys/fs/cgroup/cpu/aware-local-" ID "\nend\n", AW_OK, "as it is written"},
        {GOOD "group /sys/fs/cgroup/cpu\nend\n", AW_ERR_FORMAT, "the hierarchy itself"},
        {GOOD "group /a/../b/aware-local-" ID "\nend\n", AW_ERR_FORMAT, "a way around"},
        {GOOD "group aware-local-" ID "\nend\n", AW_ERR_FORMAT, "relative"},
        {GOOD "group /aware-local-0000000000000000\nend\n", AW_ERR_FORMAT, "another run"},
        {GOOD "group /sys/aware-local-" ID "\n", AW_ERR_FORMAT, "cut short"},
        {GOOD "end\n", AW_ERR_FORMAT, "nothing named"},
        {GROUP "lent cpu memory io\nend\n", AW_OK, "controllers to take back"},
        {GROUP "lent io\nend\n", AW_OK, "one of them"},
        {GROUP "lent \nend\n", AW_ERR_FORMAT, "none of them"},
        {GROUP "lent pids\nend\n", AW_ERR_FORMAT, "one that is never lent"},
        {GROUP "lent cpu  memory\nend\n", AW_ERR_FORMAT, "not as it is written"},
        {GROUP "lent cpu memory io and so on\nend\n", AW_ERR_FORMAT, "too long"},
        {"aware-local 1\nid ../..\nversion 1\nend\n", AW_ERR_FORMAT, "an id that is a path"},
        {"aware-local 2\n", AW_ERR_FORMAT, "another version"},
        {"", AW_ERR_FORMAT, "empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw__cgroup_tree tree;
        if (aw__rundir_state_read(cases[i].text, &tree) != cases[i].err)
            fail_msg("%s", cases[i].why);
    }
    struct aw__cgroup_tree tree = {.version = 2, .part_count = 1, .id = ID}, back;
    char text[1024];
    snprintf(tree.part[0], sizeof tree.part[0], "/x/aware-local-" ID);
    for (uint32_t lent = 0; lent < 8; lent++) {
        tree.lent = lent;
        assert_ok(aw__rundir_state_write(&tree, text, sizeof text));
        assert_ok(aw__rundir_state_read(text, &back));
        assert_memory_equal(&tree, &back, sizeof tree);
    }
    assert_int_equal(aw__rundir_state_write(&tree, text, 20), AW_ERR_LIMIT);
}

static void version_2_without_its_controllers_is_told(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    struct aw_diag diag = {0};
    fake_begin(&fake);
    fake_file(&fake, "cgroup.controllers", "cpuset memory pids\n");
    fake_file(&fake, "cgroup.subtree_control", "");
    assert_ok(aw__cgroup_find(&tree, fake.root, "", ID, &diag));
    assert_int_equal(aw__cgroup_make(&tree, &diag), AW_ERR_UNSUPPORTED);
    assert_true(diag.text[0]);
    assert_int_equal(access(tree.part[0], F_OK), -1); /* nothing is left */
    fake_end(&fake);
}

/* What is already handed down is neither asked for nor taken back. */
static void controllers_that_were_off_are_off_again(void **state)
{
    (void)state;
    static const struct {
        const char *control, *during, *after, *why;
        uint32_t lent;
    } cases[] = {
        {"", "+cpu +memory +io", "-cpu -memory -io", "all of them", 7},
        {"cpu memory pids\n", "+io", "-io", "one of them", AW__CGROUP_SET_IO},
        {"cpuset memory\n", "+cpu +io", "-cpu -io", "a longer name", 5},
        {"cpu io memory\n", "cpu io memory\n", "cpu io memory\n", "none of them", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake fake;
        struct aw__cgroup_tree tree;
        struct aw_diag diag = {0};
        print_message("%s\n", cases[i].why);
        fake_begin(&fake);
        v2_group(&fake, ".", "cpuset cpu io memory pids\n", cases[i].control);
        fake_file(&fake, "cgroup.procs", "1\n2\n"); /* at the root nobody minds */
        v2_find(&fake, "", &tree);
        assert_int_equal(tree.lent, cases[i].lent);
        if (aw__cgroup_hand_down(&tree, &diag))
            fail_msg("%s", diag.text);
        assert_false(tree.moved);
        assert_int_equal(tree.lent, cases[i].lent);
        assert_string_equal(fake_text(&fake, "cgroup.subtree_control"), cases[i].during);
        assert_string_equal(fake_text(&fake, SUBTREE "/cgroup.subtree_control"),
                            "+cpu +memory +io");
        v2_group_empty(&fake, SUBTREE);
        assert_ok(aw__cgroup_drop(&tree, 100000, NULL));
        assert_string_equal(fake_text(&fake, "cgroup.subtree_control"), cases[i].after);
        assert_string_equal(fake_text(&fake, "cgroup.procs"), "1\n2\n");
        fake_end(&fake);
    }
}

static void who_is_alone_in_a_delegated_group_steps_aside_and_back(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    struct aw_diag diag = {0};
    char self[32];
    snprintf(self, sizeof self, "%ld", (long)getpid());
    v2_delegated(&fake, self);
    v2_find(&fake, "mine", &tree);
    fake_dir(&fake, "mine/" SUBTREE "/self");
    fake_file(&fake, "mine/" SUBTREE "/self/cgroup.procs", "");
    if (aw__cgroup_hand_down(&tree, &diag))
        fail_msg("%s", diag.text);
    assert_true(tree.moved);
    assert_string_equal(fake_text(&fake, "mine/" SUBTREE "/self/cgroup.procs"), self);
    assert_string_equal(fake_text(&fake, "mine/cgroup.subtree_control"), "+cpu +memory +io");
    assert_string_equal(fake_text(&fake, "mine/" SUBTREE "/cgroup.subtree_control"),
                        "+cpu +memory +io");

    fake_file(&fake, "mine/cgroup.procs", ""); /* as the kernel has it by now */
    assert_int_equal(aw__cgroup_drop(&tree, 0, &diag), AW_ERR_DEADLINE); /* files do not go */
    assert_false(tree.moved);
    assert_string_equal(fake_text(&fake, "mine/cgroup.procs"), self);
    assert_string_equal(fake_text(&fake, "mine/cgroup.subtree_control"), "-cpu -memory -io");
    assert_string_equal(fake_text(&fake, "mine/" SUBTREE "/cgroup.subtree_control"),
                        "-cpu -memory -io");
    v2_group_empty(&fake, "mine/" SUBTREE "/self");
    v2_group_empty(&fake, "mine/" SUBTREE);
    assert_ok(aw__cgroup_drop(&tree, 100000, &diag));
    assert_int_equal(access(tree.part[0], F_OK), -1);
    assert_string_equal(fake_text(&fake, "cgroup.subtree_control"), "cpu io memory pids\n");
    fake_end(&fake);
}

/* Of an empty group that was named, this process is no member, and never becomes one. */
static void an_empty_group_is_worked_in_from_outside(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    struct aw_diag diag = {0};
    v2_delegated(&fake, "");
    v2_find(&fake, "mine", &tree);
    if (aw__cgroup_hand_down(&tree, &diag))
        fail_msg("%s", diag.text);
    assert_false(tree.moved);
    v2_group_empty(&fake, "mine/" SUBTREE);
    assert_ok(aw__cgroup_drop(&tree, 100000, &diag));
    assert_string_equal(fake_text(&fake, "mine/cgroup.procs"), "");
    assert_string_equal(fake_text(&fake, "mine/cgroup.subtree_control"), "-cpu -memory -io");
    fake_end(&fake);
}

static void others_in_a_delegated_group_are_told_and_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *others, *told;
    } cases[] = {
        {"4711\n", "1 other process (the first is 4711)"},
        {"4711\n4712\n17\n", "3 other processes (the first is 4711)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake fake;
        struct aw__cgroup_tree tree;
        struct aw_diag diag = {0};
        char procs[128];
        snprintf(procs, sizeof procs, "%ld\n%s", (long)getpid(), cases[i].others);
        v2_delegated(&fake, procs);
        assert_ok(aw__cgroup_find(&tree, fake.root, "mine", ID, &diag));
        assert_int_equal(aw__cgroup_make(&tree, &diag), AW_ERR_UNSUPPORTED);
        assert_non_null(strstr(diag.text, path_of(&fake, "mine")));
        assert_non_null(strstr(diag.text, cases[i].told));
        assert_non_null(strstr(diag.text, "--scope -p Delegate=yes aware"));
        assert_non_null(strstr(diag.text, "cgroupParent"));
        assert_false(tree.moved);
        assert_string_equal(fake_text(&fake, "mine/cgroup.procs"), procs);
        assert_int_equal(access(tree.part[0], F_OK), -1); /* nothing is left */
        fake_end(&fake);
    }
}

/* kill -9: nobody knows more than was written down before. */
static void cleaning_takes_back_what_a_dead_run_was_lent(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    struct aw__rundir_counts counts;
    struct aw_diag diag = {0};
    struct aw__rundir rundir;
    v2_delegated(&fake, "");
    fake_file(&fake, "mine/cgroup.subtree_control", "io\n");
    assert_ok(aw__cgroup_find(&tree, fake.root, "mine", ID, &diag));
    if (aw__rundir_make(&rundir, path_of(&fake, "runs"), &tree, &diag))
        fail_msg("%s", diag.text);
    v2_find(&fake, "mine", &tree);
    assert_ok(aw__cgroup_hand_down(&tree, &diag));
    assert_string_equal(fake_text(&fake, "mine/cgroup.subtree_control"), "+cpu +memory");
    assert_ok(aw__rundir_clean(path_of(&fake, "runs"), 100000, &counts, &diag));
    assert_int_equal(counts.alive, 1); /* untouched */
    assert_string_equal(fake_text(&fake, "mine/cgroup.subtree_control"), "+cpu +memory");

    close(rundir.lock_fd_plus_1 - 1); /* as the kernel does for who is killed */
    v2_group_empty(&fake, "mine/" SUBTREE);
    if (aw__rundir_clean(path_of(&fake, "runs"), 100000, &counts, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(counts.cleared, 1);
    assert_int_equal(access(tree.part[0], F_OK), -1);
    assert_string_equal(fake_text(&fake, "mine/cgroup.subtree_control"), "-cpu -memory");
    fake_end(&fake);
}

static void a_run_folder_is_looked_at_before_its_rights_are_changed(void **state)
{
    (void)state;
    struct fake fake;
    struct aw__cgroup_tree tree;
    struct aw_diag diag = {0};
    struct aw__rundir rundir;
    struct stat st;
    char link[512];
    v2_delegated(&fake, "");
    assert_ok(aw__cgroup_find(&tree, fake.root, "mine", ID, &diag));
    snprintf(link, sizeof link, "%s", path_of(&fake, "link"));
    assert_int_equal(chmod(path_of(&fake, "mine"), 0755), 0);
    assert_int_equal(symlink(path_of(&fake, "mine"), link), 0);
    assert_int_equal(aw__rundir_make(&rundir, link, &tree, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "expected a directory that belongs to"));
    assert_int_equal(stat(path_of(&fake, "mine"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755); /* of what the link points to */
    unlink(link);
    fake_end(&fake);
}

AW_TEST_GROUP("local-cgroup")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_is_found_and_names_of_one_hierarchy_are_one),
        cmocka_unit_test(version_1_limits_and_counters),
        cmocka_unit_test(version_2_limits_and_counters),
        cmocka_unit_test(missing_and_mangled_files_are_missing_figures),
        cmocka_unit_test(a_stranger_is_never_ended),
        cmocka_unit_test(a_state_that_names_anything_else_is_refused),
        cmocka_unit_test(version_2_without_its_controllers_is_told),
        cmocka_unit_test(controllers_that_were_off_are_off_again),
        cmocka_unit_test(who_is_alone_in_a_delegated_group_steps_aside_and_back),
        cmocka_unit_test(an_empty_group_is_worked_in_from_outside),
        cmocka_unit_test(others_in_a_delegated_group_are_told_and_left_alone),
        cmocka_unit_test(cleaning_takes_back_what_a_dead_run_was_lent),
        cmocka_unit_test(a_run_folder_is_looked_at_before_its_rights_are_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
