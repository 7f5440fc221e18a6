/* process_test.c - who a replica's process is. Its groups are tested with the local cluster. */
#include "cluster/local/process.h"

#include "base/file.h"
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534u

static void a_command_of_root_runs_as_a_user_without_new_rights(void **state)
{
    (void)state;
    char folder[] = "/tmp/aware-process-XXXXXX", log[64];
    assert_non_null(mkdtemp(folder));
    snprintf(log, sizeof log, "%s/log", folder);
    char sh[] = "sh", c[] = "-c", path[] = "PATH=/usr/bin:/bin",
         ask[] = "id -u; id -g; id -G; grep -E '^NoNewPrivs|^CapEff' /proc/self/status";
    char *const argv[] = {sh, c, ask, NULL}, *const envp[] = {path, NULL};
    const bool root = geteuid() == 0;
    const struct aw__process_start start = {
        .argv = argv, .envp = envp, .log = log, .uid = root ? NOBODY : 0, .gid = root ? NOBODY : 0};
    struct aw_diag diag = {0};
    int pid = 0;
    if (aw__process_spawn(&start, &pid, &diag))
        fail_msg("%s", diag.text);
    aw__process_wait(pid);
    char *text = NULL;
    size_t len = 0;
    assert_ok(aw_file_read(log, 4096, NULL, &text, &len, NULL));
    assert_non_null(strstr(text, "NoNewPrivs:\t1\n"));
    if (root)
        assert_string_equal(text, "65534\n65534\n65534\nCapEff:\t0000000000000000\n"
                                  "NoNewPrivs:\t1\n");
    aw_alloc_free(NULL, text);
    unlink(log);
    rmdir(folder);
}

AW_TEST_GROUP("local-process")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_of_root_runs_as_a_user_without_new_rights),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
