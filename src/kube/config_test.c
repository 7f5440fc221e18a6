/* config_test.c - kubeconfig files as people have them, merged, wrong and hostile. */
#include "kube/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"

static const char plain[] = "apiVersion: v1\n"
                            "kind: Config\n"
                            "current-context: dev\n"
                            "contexts:\n"
                            "- name: dev\n"
                            "  context: {cluster: c, user: u, namespace: team}\n"
                            "- name: bare\n"
                            "  context: {cluster: c}\n"
                            "clusters:\n"
                            "- name: c\n"
                            "  cluster:\n"
                            "    server: https://127.0.0.1:6443/\n"
                            "    certificate-authority-data: aGVsbG8=\n"
                            "    extensions: [{name: x, extension: {a: 1}}]\n"
                            "users:\n"
                            "- name: u\n"
                            "  user:\n"
                            "    client-certificate-data: Y2VydA==\n"
                            "    client-key-data: a2V5\n"
                            "preferences: {}\n";

static enum aw_err parse(struct aw_kube_config *config, const char *text, const char *context,
                         struct aw_diag *diag)
{
    return aw_kube_config_parse(config, "/home/me/.kube/config", text, strlen(text), context, NULL,
                                diag);
}

static void a_context_brings_its_cluster_and_user(void **state)
{
    struct aw_kube_config config;
    (void)state;
    assert_ok(parse(&config, plain, NULL, NULL));
    assert_string_equal(config.server, "https://127.0.0.1:6443");
    assert_string_equal(config.ns, "team");
    assert_string_equal(config.ca.bytes, "hello");
    assert_int_equal(config.ca.len, 5);
    assert_string_equal(config.cert.bytes, "cert");
    assert_string_equal(config.key.bytes, "key");
    assert_string_equal(config.source, "context \"dev\" of /home/me/.kube/config");
    assert_false(config.insecure);
    aw_kube_config_deinit(&config);
    assert_ok(parse(&config, plain, "bare", NULL));
    assert_string_equal(config.ns, "default");
    assert_null(config.cert.bytes);
    aw_kube_config_deinit(&config);
    aw_kube_config_deinit(&config);
}

static const char head[] = "current-context: x\n"
                           "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
                           "clusters: [{name: c, cluster: {server: 'https://h'}}]\n";

static void a_user_may_be_a_token_a_file_or_a_program(void **state)
{
    struct aw_kube_config config;
    char text[1024];
    (void)state;
    snprintf(text, sizeof text, "%susers: [{name: u, user: {token: 12345}}]\n", head);
    assert_ok(parse(&config, text, NULL, NULL));
    assert_string_equal(config.token, "12345");
    aw_kube_config_deinit(&config);
    snprintf(text, sizeof text, "%susers: [{name: u, user: {tokenFile: t/tok}}]\n", head);
    assert_ok(parse(&config, text, NULL, NULL));
    assert_string_equal(config.token_file, "/home/me/.kube/t/tok");
    aw_kube_config_deinit(&config);
    snprintf(text, sizeof text,
             "%susers:\n"
             "- name: u\n"
             "  user:\n"
             "    exec:\n"
             "      apiVersion: client.authentication.k8s.io/v1\n"
             "      command: ./bin/login\n"
             "      args: [--cluster, 7]\n"
             "      env: [{name: A, value: b}, {name: EMPTY, value: null}]\n"
             "      interactiveMode: IfAvailable\n"
             "      provideClusterInfo: true\n",
             head);
    assert_ok(parse(&config, text, NULL, NULL));
    assert_string_equal(config.exec.command, "/home/me/.kube/./bin/login");
    assert_int_equal(config.exec.arg_count, 2);
    assert_string_equal(config.exec.args[1], "7");
    assert_string_equal(config.exec.env[0], "A=b");
    assert_string_equal(config.exec.env[1], "EMPTY=");
    assert_true(config.exec.cluster_info);
    aw_kube_config_deinit(&config);
    snprintf(text, sizeof text,
             "%susers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, "
             "command: aws, args: null, env: null}}}]\n",
             head);
    assert_ok(parse(&config, text, NULL, NULL));
    assert_string_equal(config.exec.command, "aws"); /* looked for in PATH */
    aw_kube_config_deinit(&config);
}

static void what_is_wrong_or_not_done_is_refused_without_its_secrets(void **state)
{
    static const struct {
        const char *why, *user;
        enum aw_err err;
        const char *text;
    } users[] = {
        {"impersonation", "{as: admin, token: hunter2}", AW_ERR_UNSUPPORTED, "impersonation"},
        {"a password", "{username: me, password: hunter2}", AW_ERR_UNSUPPORTED, "passwords"},
        {"a provider", "{auth-provider: {name: gcp}}", AW_ERR_UNSUPPORTED, "exec plugin"},
        {"no key", "{client-certificate-data: Y2VydA==}", AW_ERR_CONFIG, "with its key"},
        {"not base64", "{client-key-data: 'hunter2!'}", AW_ERR_CONFIG, "base64"},
        {"a list", "{client-key-data: [hunter2]}", AW_ERR_CONFIG, "base64"},
        {"a terminal",
         "{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: "
         "Always}}",
         AW_ERR_UNSUPPORTED, "terminal"},
        {"an old plugin", "{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}}",
         AW_ERR_UNSUPPORTED, "v1beta1"},
        {"no program", "{exec: {apiVersion: client.authentication.k8s.io/v1}}", AW_ERR_CONFIG,
         "command"},
        {"not a map", "hunter2", AW_ERR_CONFIG, "map"},
    };
    static const struct {
        const char *why, *text;
        enum aw_err err;
    } files[] = {
        {"empty", "  \n", AW_ERR_CONFIG},
        {"a list", "[1]", AW_ERR_CONFIG},
        {"no current context", "contexts: []", AW_ERR_CONFIG},
        {"context is missing", "current-context: a\ncontexts: []\n", AW_ERR_CONFIG},
        {"cluster is missing",
         "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\nclusters: []\n",
         AW_ERR_CONFIG},
        {"user is missing",
         "current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\n"
         "clusters: [{name: b, cluster: {server: 'https://x'}}]\n",
         AW_ERR_CONFIG},
        {"server is missing",
         "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n"
         "clusters: [{name: b, cluster: {}}]\n",
         AW_ERR_CONFIG},
        {"not for us",
         "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n"
         "clusters: [{name: b, cluster: {server: 'file:///etc/passwd'}}]\n",
         AW_ERR_CONFIG},
        {"trust nobody and somebody",
         "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n"
         "clusters: [{name: b, cluster: {server: 'https://x', insecure-skip-tls-verify: true, "
         "certificate-authority: /ca}}]\n",
         AW_ERR_CONFIG},
        {"not YAML", "a: [", AW_ERR_FORMAT},
    };
    struct aw_kube_config config;
    char text[1024];
    (void)state;
    for (uint32_t i = 0; i < sizeof users / sizeof *users; i++) {
        struct aw_diag diag = {0};
        snprintf(text, sizeof text, "%susers: [{name: u, user: %s}]\n", head, users[i].user);
        const enum aw_err err = parse(&config, text, NULL, &diag);
        if (err != users[i].err || !strstr(diag.text, users[i].text))
            fail_msg("%s: %s: %s", users[i].why, aw_err_name(err), diag.text);
        if (strcmp(users[i].why, "not a map") != 0) /* then it is no secret but a mistake */
            assert_null(strstr(diag.text, "hunter2"));
        assert_null(config.server);
    }
    for (uint32_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct aw_diag diag = {0};
        const enum aw_err err = parse(&config, files[i].text, NULL, &diag);
        if (err != files[i].err || !diag.text[0])
            fail_msg("%s: %s: %s", files[i].why, aw_err_name(err), diag.text);
    }
}

/* A folder with files, gone after the test. */
struct folder {
    char path[64];
};

static void folder_make(struct folder *folder)
{
    snprintf(folder->path, sizeof folder->path, "/tmp/aw-kube-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
}

static void folder_put(const struct folder *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_ok(aw_file_mkdirs(path, NULL));
    *slash = '/';
    assert_ok(aw_file_replace(path, text, strlen(text), NULL, NULL));
}

static void folder_drop(const struct folder *folder, const char *const *names)
{
    char path[256];
    for (; *names; names++) {
        snprintf(path, sizeof path, "%s/%s", folder->path, *names);
        if (unlink(path) != 0)
            rmdir(path);
    }
    assert_int_equal(rmdir(folder->path), 0);
}

static void several_files_are_merged_and_the_first_one_wins(void **state)
{
    static const char *const names[] = {"a", "b", "empty", NULL};
    struct folder folder;
    struct aw_kube_config config;
    char list[512];
    (void)state;
    folder_make(&folder);
    folder_put(&folder, "a",
               "current-context: two\n"
               "users: [{name: u, user: {token: first}}]\n");
    folder_put(&folder, "empty", "\n");
    folder_put(&folder, "b",
               "current-context: one\n"
               "users: [{name: u, user: {token: second, tokenFile: x}}]\n"
               "contexts: [{name: two, context: {cluster: c, user: u}}]\n"
               "clusters: [{name: c, cluster: {server: 'https://h', certificate-authority: "
               "pki/ca.crt}}]\n");
    snprintf(list, sizeof list, "%s/missing:%s/empty::%s/a:%s/b", folder.path, folder.path,
             folder.path, folder.path);
    const struct aw_kube_config_from from = {.kubeconfig = list, .home = "/nonexistent"};
    assert_ok(aw_kube_config_load(&config, &from, NULL, NULL));
    assert_string_equal(config.token, "first");
    assert_null(config.token_file); /* an entry is never put together from two files */
    snprintf(list, sizeof list, "%s/pki/ca.crt", folder.path);
    assert_string_equal(config.ca.file, list);
    aw_kube_config_deinit(&config);
    folder_drop(&folder, names);
}

static void where_to_look_follows_kubectl(void **state)
{
    static const char *const names[] = {".kube/config", ".kube",     "other", "token",
                                        "ca.crt",       "namespace", NULL};
    struct folder folder;
    struct aw_kube_config config;
    char other[256];
    (void)state;
    folder_make(&folder);
    struct aw_kube_config_from from = {.home = folder.path,
                                       .service_folder = folder.path,
                                       .service_host = "10.0.0.1",
                                       .service_port = "443"};
    struct aw_kube_config_from nowhere = {.home = folder.path};
    assert_int_equal(aw_kube_config_load(&config, &nowhere, NULL, NULL), AW_ERR_NOTFOUND);
    assert_int_equal(aw_kube_config_load(&config, &from, NULL, NULL), AW_ERR_CONFIG); /* no token */
    folder_put(&folder, "token", "secret\n");
    folder_put(&folder, "ca.crt", "pem");
    folder_put(&folder, "namespace", "team\n");
    assert_ok(aw_kube_config_load(&config, &from, NULL, NULL));
    assert_true(config.in_cluster);
    assert_string_equal(config.server, "https://10.0.0.1:443");
    assert_string_equal(config.ns, "team");
    assert_non_null(config.token_file);
    assert_non_null(config.ca.file);
    aw_kube_config_deinit(&config);
    from.service_host = "fd00::1";
    assert_ok(aw_kube_config_load(&config, &from, NULL, NULL));
    assert_string_equal(config.server, "https://[fd00::1]:443");
    aw_kube_config_deinit(&config);
    folder_put(&folder, ".kube/config", plain); /* a file of the user comes before the pod */
    assert_ok(aw_kube_config_load(&config, &from, NULL, NULL));
    assert_false(config.in_cluster);
    aw_kube_config_deinit(&config);
    snprintf(other, sizeof other, "%s/other", folder.path);
    from.path = other;
    assert_int_equal(aw_kube_config_load(&config, &from, NULL, NULL), AW_ERR_NOTFOUND);
    folder_put(&folder, "other",
               "{\"current-context\":\"j\",\"contexts\":[{\"name\":\"j\","
               "\"context\":{\"cluster\":\"c\"}}],\"clusters\":[{\"name\":\"c\","
               "\"cluster\":{\"server\":\"http://j\"}}]}");
    assert_ok(aw_kube_config_load(&config, &from, NULL, NULL));
    assert_string_equal(config.server, "http://j");
    aw_kube_config_deinit(&config);
    folder_drop(&folder, names);
}

static void without_memory_there_is_no_configuration_and_no_leak(void **state)
{
    (void)state;
    for (uint64_t limit = 0;; limit++) {
        struct aw_alloc_counting counting;
        struct aw_kube_config config;
        aw_alloc_counting_init(&counting);
        counting.fail_after = limit;
        const enum aw_err err = aw_kube_config_parse(&config, "x", plain, sizeof plain - 1, NULL,
                                                     &counting.alloc, NULL);
        if (!err)
            aw_kube_config_deinit(&config);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_in_range(limit, 0, 100);
    }
}

AW_TEST_GROUP("kube-config")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_brings_its_cluster_and_user),
        cmocka_unit_test(a_user_may_be_a_token_a_file_or_a_program),
        cmocka_unit_test(what_is_wrong_or_not_done_is_refused_without_its_secrets),
        cmocka_unit_test(several_files_are_merged_and_the_first_one_wins),
        cmocka_unit_test(where_to_look_follows_kubectl),
        cmocka_unit_test(without_memory_there_is_no_configuration_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
