/* credential_test.c - tokens that change, programs that print them, programs that do not. */
#include "kube/credential.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"

#define V1 "client.authentication.k8s.io/v1"

struct world {
    char folder[64], file[128];
    struct aw_kube_config config;
    struct aw_clock_virtual clock;
    struct aw_kube_credential credential;
};

static void put(const char *path, const char *text)
{
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_true(fputs(text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static void open_world(struct world *world, const char *text)
{
    *world = (struct world){0};
    snprintf(world->folder, sizeof world->folder, "/tmp/aw-cred-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    snprintf(world->file, sizeof world->file, "%s/file", world->folder);
    put(world->file, text);
    assert_int_equal(chmod(world->file, 0700), 0);
    aw_clock_virtual_init(&world->clock, 1000000000000000);
    aw_kube_credential_init(&world->credential, &world->config, &world->clock.clock);
}

static void close_world(struct world *world)
{
    aw_kube_credential_deinit(&world->credential);
    unlink(world->file);
    assert_int_equal(rmdir(world->folder), 0);
}

static void a_token_file_is_read_anew_each_minute(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, "one\n");
    world.config.token_file = world.file;
    assert_ok(aw_kube_credential_refresh(&world.credential, NULL));
    assert_string_equal(world.credential.token, "one");
    put(world.file, "two");
    aw_clock_virtual_advance(&world.clock, AW_KUBE_TOKEN_REREAD_US - 1);
    assert_ok(aw_kube_credential_refresh(&world.credential, NULL));
    assert_string_equal(world.credential.token, "one");
    aw_clock_virtual_advance(&world.clock, 1);
    assert_ok(aw_kube_credential_refresh(&world.credential, NULL));
    assert_string_equal(world.credential.token, "two");
    /* refused by the server: at once */
    put(world.file, "three");
    assert_true(aw_kube_credential_expire(&world.credential));
    assert_ok(aw_kube_credential_refresh(&world.credential, NULL));
    assert_string_equal(world.credential.token, "three");
    /* gone for a moment, or full of rubbish: the old one is kept */
    put(world.file, "a\r\nX-Evil: 1");
    aw_clock_virtual_advance(&world.clock, AW_KUBE_TOKEN_REREAD_US);
    assert_ok(aw_kube_credential_refresh(&world.credential, NULL));
    assert_string_equal(world.credential.token, "three");
    close_world(&world);
}

static void a_token_file_that_never_was_is_an_error(void **state)
{
    struct world world;
    struct aw_diag diag = {0};
    (void)state;
    open_world(&world, "");
    world.config.token_file = world.file;
    assert_int_equal(aw_kube_credential_refresh(&world.credential, &diag), AW_ERR_CONFIG);
    assert_true(diag.text[0]);
    close_world(&world);
}

static void a_plugin_is_run_once_until_its_credential_expires(void **state)
{
    /* counts its runs in a file beside it; the expiry is 100 s after the clock's beginning */
    static const char script[] =
        "#!/bin/sh\n"
        "echo \"$ADDED\" >> \"$0.runs\"\n"
        "n=$(wc -l < \"$0.runs\")\n"
        "case $KUBERNETES_EXEC_INFO in *'\"server\":\"https://h\"'*) ;; *) exit 9;; esac\n"
        "echo '{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":"
        "{\"token\":\"'$1$n'\",\"expirationTimestamp\":\"2001-09-09T01:48:20Z\"}}'\n";
    struct world world;
    char api[] = V1, server[] = "https://h", arg[] = "tok", env[] = "ADDED=x", runs[160];
    (void)state;
    open_world(&world, script);
    world.config.server = server;
    world.config.exec = (struct aw_kube_exec){.command = world.file,
                                              .args = {arg},
                                              .arg_count = 1,
                                              .env = {env},
                                              .env_count = 1,
                                              .api_version = api,
                                              .cluster_info = true};
    for (int i = 0; i < 3; i++)
        assert_ok(aw_kube_credential_refresh(&world.credential, NULL));
    assert_string_equal(world.credential.token, "tok1");
    aw_clock_virtual_advance(&world.clock, 100000000 - AW_KUBE_EXEC_EARLY_US);
    assert_ok(aw_kube_credential_refresh(&world.credential, NULL));
    assert_string_equal(world.credential.token, "tok2");
    assert_true(aw_kube_credential_expire(&world.credential));
    assert_ok(aw_kube_credential_refresh(&world.credential, NULL));
    assert_string_equal(world.credential.token, "tok3");
    snprintf(runs, sizeof runs, "%s.runs", world.file);
    unlink(runs);
    close_world(&world);
}

static void a_plugin_that_fails_says_so_without_its_output(void **state)
{
    static const struct {
        const char *why, *script;
        enum aw_err err;
        const char *text;
    } cases[] = {
        {"fails", "#!/bin/sh\necho hunter2; exit 3\n", AW_ERR_CONFIG, "exit status 3"},
        {"prints rubbish", "#!/bin/sh\necho hunter2\n", AW_ERR_FORMAT, "ExecCredential"},
        {"is killed", "#!/bin/sh\nkill -9 $$\n", AW_ERR_CONFIG, "signal 9"},
        {"prints without end", "#!/bin/sh\nexec yes hunter2\n", AW_ERR_LIMIT, "more than"},
        {"hangs", "#!/bin/sh\nsleep 600\n", AW_ERR_DEADLINE, "in time"},
        {"closes its output and hangs", "#!/bin/sh\nexec >&-\nsleep 600\n", AW_ERR_DEADLINE,
         "in time"},
    };
    char api[] = V1, server[] = "https://h", missing[] = "/nonexistent/plugin", hint[] = "get it";
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world;
        struct aw_kube_exec_answer answer = {0};
        struct aw_diag diag = {0};
        open_world(&world, cases[i].script);
        world.config.server = server;
        world.config.exec = (struct aw_kube_exec){.command = world.file, .api_version = api};
        /* those that should not run into the limit get one that no load can reach */
        const int64_t timeout_us = cases[i].err == AW_ERR_DEADLINE ? 200000 : 60000000;
        const enum aw_err err = aw__kube_exec_run(&world.config, timeout_us, &answer, &diag);
        if (err != cases[i].err || !strstr(diag.text, cases[i].text))
            fail_msg("%s: %s: %s", cases[i].why, aw_err_name(err), diag.text);
        assert_null(strstr(diag.text, "hunter2"));
        close_world(&world);
    }
    struct aw_kube_config config = {
        .server = server, .exec = {.command = missing, .api_version = api, .install_hint = hint}};
    struct aw_kube_exec_answer answer;
    struct aw_diag diag = {0};
    assert_int_equal(aw__kube_exec_run(&config, 60000000, &answer, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "get it"));
}

static void what_a_plugin_prints_is_read_strictly(void **state)
{
    static const struct {
        const char *why, *text;
        enum aw_err err;
    } cases[] = {
        {"a token",
         "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}",
         AW_OK},
        {"a certificate",
         "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":"
         "{\"clientCertificateData\":\"c\",\"clientKeyData\":\"k\"}}",
         AW_OK},
        {"half a certificate",
         "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":"
         "{\"token\":\"t\",\"clientKeyData\":\"k\"}}",
         AW_ERR_FORMAT},
        {"nothing", "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":{}}",
         AW_ERR_FORMAT},
        {"another version",
         "{\"apiVersion\":\"" V1
         "beta1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}",
         AW_ERR_FORMAT},
        {"a header in the token",
         "{\"apiVersion\":\"" V1
         "\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\\r\\nx\"}}",
         AW_ERR_FORMAT},
        {"a wrong time",
         "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\","
         "\"expirationTimestamp\":\"soon\"}}",
         AW_ERR_FORMAT},
        {"no status", "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\"}", AW_ERR_FORMAT},
        {"not JSON", "token", AW_ERR_FORMAT},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_kube_exec_answer answer = {0};
        const enum aw_err err =
            aw_kube_exec_decode(cases[i].text, strlen(cases[i].text), V1, NULL, &answer, NULL);
        if (err != cases[i].err)
            fail_msg("%s: %s", cases[i].why, aw_err_name(err));
        aw_kube_exec_answer_deinit(&answer, NULL);
    }
}

AW_TEST_GROUP("kube-credential")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_file_is_read_anew_each_minute),
        cmocka_unit_test(a_token_file_that_never_was_is_an_error),
        cmocka_unit_test(a_plugin_is_run_once_until_its_credential_expires),
        cmocka_unit_test(a_plugin_that_fails_says_so_without_its_output),
        cmocka_unit_test(what_a_plugin_prints_is_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
