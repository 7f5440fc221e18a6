/*
 * controller_test.c - `aware controller` as processes: one of two leads, who ends gives the Lease
 * back, people are answered, and what cannot begin says why.
 *
 * The API server is the double, in this process; the controllers are the program itself, in real
 * time. argv[1] is the program.
 */
#include "controller/status.h"
#include "kube/kube_testing.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MPAS    "/apis/autoscaling.aware.dev/v1alpha1/multidimpodautoscalers"
#define WAIT_US AW_TESTING_WAIT_US

static const char *program;

struct world {
    struct aw_fake_apiserver *twin;
    char folder[64];
};

static void put(struct world *w, const char *collection, const char *json)
{
    aw_fake_apiserver_set(w->twin, collection, json);
}

static void begin(struct world *w)
{
    char path[128];
    snprintf(w->folder, sizeof w->folder, "/tmp/aware-controller-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    assert_non_null(w->twin = aw_fake_apiserver_open());
    snprintf(path, sizeof path, "%s/kubeconfig", w->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"x\",\"contexts\":[{"
            "\"name\":\"x\",\"context\":{\"cluster\":\"x\",\"user\":\"x\",\"namespace\":\"own\"}}],"
            "\"clusters\":[{\"name\":\"x\",\"cluster\":{\"server\":\"%s\"}}],"
            "\"users\":[{\"name\":\"x\",\"user\":{}}]}\n",
            aw_fake_apiserver_url(w->twin));
    fclose(file);
    put(w, "/apis/apps/v1/deployments",
        "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"generation\":1},"
        "\"spec\":{\"replicas\":1,\"selector\":{\"matchLabels\":{\"app\":\"web\"}}},"
        "\"status\":{\"replicas\":1,\"readyReplicas\":1,\"updatedReplicas\":1,"
        "\"observedGeneration\":1}}");
    put(w, "/api/v1/pods",
        "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web-7-a\",\"labels\":{\"app\":\"web\"},"
        "\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"ownerReferences\":[{\"kind\":"
        "\"ReplicaSet\",\"name\":\"web-7\",\"uid\":\"r\",\"controller\":true}]},"
        "\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"app\",\"resources\":{"
        "\"requests\":"
        "{\"cpu\":\"500m\",\"memory\":\"512Mi\"}}}]},\"status\":{\"phase\":\"Running\","
        "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],\"containerStatuses\":[{"
        "\"name\":"
        "\"app\",\"restartCount\":0,\"ready\":true,\"state\":{\"running\":{}}}]}}");
    put(w, MPAS,
        "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"generation\":1},\"spec\":{"
        "\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"},"
        "\"goals\":{\"slo\":{\"latency\":{\"quantile\":\"p99\",\"target\":\"200ms\"}}},"
        "\"constraints\":{\"global\":{\"minReplicas\":1,\"maxReplicas\":5},\"container\":[{"
        "\"name\":\"*\",\"requests\":{\"minAllowed\":{\"cpu\":\"100m\",\"memory\":\"128Mi\"},"
        "\"maxAllowed\":{\"cpu\":\"2\",\"memory\":\"2Gi\"}}}]}}}");
}

static pid_t spawn(const char *const *args, const char *out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    assert_int_equal(
        posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)args, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static pid_t controller(struct world *w, const char *name)
{
    char config[128], state[128], out[128];
    snprintf(config, sizeof config, "%s/kubeconfig", w->folder);
    snprintf(state, sizeof state, "%s/%s", w->folder, name);
    snprintf(out, sizeof out, "%s/%s.log", w->folder, name);
    const char *const args[] = {program, "controller", "--kubeconfig", config, "--state",
                                state,   "--step",     "1s",           NULL};
    return spawn(args, out);
}

static int wait_for(pid_t pid)
{
    int status = 0;
    const int64_t begun_us = aw_clock_monotonic_us(NULL);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (aw_clock_monotonic_us(NULL) - begun_us > WAIT_US) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            fail_msg("it did not end");
        }
        usleep(10000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void holder_of(struct world *w, char *buf, size_t size)
{
    json_t *lease =
        aw_fake_apiserver_get(w->twin, "/apis/coordination.k8s.io/v1/leases", "own", "aware");
    snprintf(buf, size, "%s", aw_kube_text_at(lease, "spec.holderIdentity"));
    json_decref(lease);
}

#define until(condition)                                          \
    do {                                                          \
        const int64_t begun_us = aw_clock_monotonic_us(NULL);     \
        while (!(condition)) {                                    \
            if (aw_clock_monotonic_us(NULL) - begun_us > WAIT_US) \
                fail_msg("it never came true: %s", #condition);   \
            usleep(20000);                                        \
        }                                                         \
    } while (0)

static bool decided(struct world *w)
{
    struct aw_mpa_status status;
    json_t *object = aw_fake_apiserver_get(w->twin, MPAS, "shop", "web");
    aw_mpa_status_read(json_object_get(object, "status"), &status);
    json_decref(object);
    return !strcmp(status.mode, "Off") && *status.stage && *status.last.id;
}

static bool frozen(struct world *w)
{
    json_t *object = aw_fake_apiserver_get(w->twin, MPAS, "shop", "web");
    const bool is =
        !strcmp(aw_kube_text_at(object, "status.conditions[type=Frozen].status"), "True");
    json_decref(object);
    return is;
}

static void end(struct world *w)
{
    aw_fake_apiserver_close(w->twin);
    const char *const args[] = {"/bin/rm", "-rf", w->folder, NULL};
    const char *before = program;
    program = "/bin/rm";
    assert_int_equal(wait_for(spawn(args, "/dev/null")), 0);
    program = before;
}

static void one_of_two_leads_and_hands_over_when_it_ends(void **state)
{
    (void)state;
    struct world w;
    char first[256], second[256] = "";
    begin(&w);
    const pid_t a = controller(&w, "a");
    until(decided(&w));
    holder_of(&w, first, sizeof first);
    assert_true(*first);
    const pid_t b = controller(&w, "b");
    until(aw_fake_apiserver_watching(w.twin) >= 8); /* both follow four collections */
    kill(a, SIGTERM);
    assert_int_equal(wait_for(a), 0);
    until((holder_of(&w, second, sizeof second), *second && strcmp(first, second) != 0));
    kill(b, SIGTERM);
    assert_int_equal(wait_for(b), 0);
    holder_of(&w, second, sizeof second);
    assert_string_equal(second, ""); /* given back */
    assert_int_equal(aw_fake_apiserver_count(w.twin, "PATCH /apis/apps"), 0);
    assert_int_equal(aw_fake_apiserver_count(w.twin, "PATCH /api/v1"), 0);
    end(&w);
}

static void people_are_answered_over_its_socket(void **state)
{
    (void)state;
    struct world w;
    char folder[128], out[128], line[4096];
    begin(&w);
    snprintf(folder, sizeof folder, "%s/a", w.folder);
    snprintf(out, sizeof out, "%s/get", w.folder);
    const pid_t a = controller(&w, "a");
    until(decided(&w));
    const char *const get[] = {program, "get", "--state", folder, "--output", "json", NULL};
    assert_int_equal(wait_for(spawn(get, out)), 0);
    const char *const freeze[] = {program, "freeze",   "shop/web", "--state",
                                  folder,  "--reason", "a test",   NULL};
    assert_int_equal(wait_for(spawn(freeze, out)), 0);
    until(frozen(&w));
    FILE *file = fopen(out, "r");
    const size_t len = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[len] = '\0';
    assert_non_null(strstr(line, "shop/web"));
    kill(a, SIGTERM);
    assert_int_equal(wait_for(a), 0);
    end(&w);
}

static void what_cannot_begin_says_why(void **state)
{
    (void)state;
    struct world w;
    char config[128], folder[128], out[128], text[4096];
    begin(&w);
    snprintf(config, sizeof config, "%s/kubeconfig", w.folder);
    snprintf(folder, sizeof folder, "%s/a", w.folder);
    snprintf(out, sizeof out, "%s/out", w.folder);
    const char *const wrong[] = {program, "controller", "--roles", "king", NULL};
    assert_int_equal(wait_for(spawn(wrong, out)), 64);
    const pid_t a = controller(&w, "a");
    until(decided(&w));
    const char *const twice[] = {program, "controller", "--kubeconfig", config, "--state",
                                 folder,  NULL};
    assert_int_not_equal(wait_for(spawn(twice, out)), 0);
    FILE *file = fopen(out, "r");
    const size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = '\0';
    assert_non_null(strstr(text, "king"));
    assert_non_null(strstr(text, "is using it"));
    kill(a, SIGINT);
    assert_int_equal(wait_for(a), 0);
    end(&w);
}

/* What /metrics says over the socket of a process; false: it does not answer yet. */
static bool scrape(const char *path, char *buf, size_t size)
{
    static const char question[] = "GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = 0;
    ssize_t got = 0;
    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const bool asked = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                       write(fd, question, sizeof question - 1) == (ssize_t)sizeof question - 1;
    while (asked && len + 1 < size && (got = read(fd, buf + len, size - 1 - len)) > 0)
        len += (size_t)got;
    buf[len] = '\0';
    close(fd);
    return asked && len > 0;
}

static void every_role_shows_in_the_metrics(void **state)
{
    static const char *const names[] = {
        "aware_updater_changes_total{what=\"evict\"} ",
        "aware_updater_refusals_total{reason=\"budget\"} ",
        "aware_updater_objects{state=\"seen\"} 1",
        "aware_admission_answers_total{result=\"sized\"} 0",
        "aware_admission_certificates_total ",
        "aware_vpa_objects 0",
        "aware_vpa_status_writes_total 0",
    };
    static char text[1 << 20];
    struct world w;
    char config[128], folder[128], out[128], path[160];
    (void)state;
    begin(&w);
    snprintf(config, sizeof config, "%s/kubeconfig", w.folder);
    snprintf(folder, sizeof folder, "%s/all", w.folder);
    snprintf(out, sizeof out, "%s/all.log", w.folder);
    snprintf(path, sizeof path, "%s/socket", folder);
    const char *const args[] = {program,
                                "controller",
                                "--kubeconfig",
                                config,
                                "--state",
                                folder,
                                "--step",
                                "1s",
                                "--roles=recommender,updater,admission",
                                "--webhook=always",
                                "--webhook-port=0",
                                NULL};
    const pid_t pid = spawn(args, out);
    const int64_t begun_us = aw_clock_monotonic_us(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names;) {
        if (scrape(path, text, sizeof text) && strstr(text, names[i])) {
            i++;
            continue;
        }
        if (aw_clock_monotonic_us(NULL) - begun_us > WAIT_US) {
            kill(pid, SIGKILL);
            fail_msg("never in the metrics: %s\n%s", names[i], text);
        }
        usleep(50000);
    }
    kill(pid, SIGTERM);
    assert_int_equal(wait_for(pid), 0);
    end(&w);
}

/* The double resizes pods in place. With the default of --webhook new pods are sized there too. */
static void new_pods_are_sized_where_the_server_resizes(void **state)
{
    struct world w;
    char config[128], folder[128], out[128];
    (void)state;
    begin(&w);
    put(&w, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "{\"metadata\":{\"name\":\"aware\"},\"webhooks\":[{\"name\":\"a\",\"clientConfig\":{"
        "\"service\":{\"name\":\"aware\"}}}]}");
    put(&w, MPAS,
        "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"new\",\"generation\":1},\"spec\":{"
        "\"scaleTargetRef\":{\"name\":\"new\"},\"policy\":{\"updateMode\":\"Initial\"}},\"status\":"
        "{"
        "\"observedGeneration\":1,\"recommendation\":{\"replicas\":1,\"cpu\":\"1\",\"memory\":"
        "\"1Gi\",\"time\":\"2026-01-01T00:00:00Z\"}}}");
    snprintf(config, sizeof config, "%s/kubeconfig", w.folder);
    snprintf(folder, sizeof folder, "%s/new", w.folder);
    snprintf(out, sizeof out, "%s/new.log", w.folder);
    const char *const args[] = {program, "controller",        "--kubeconfig",     config, "--state",
                                folder,  "--roles=admission", "--webhook-port=0", NULL};
    const pid_t pid = spawn(args, out);
    /* it renews its Lease once the API server trusts it, and not before */
    json_t *lease = NULL;
    until((lease = aw_fake_apiserver_get(w.twin, "/apis/coordination.k8s.io/v1/leases", "own",
                                         "aware-admission")));
    json_decref(lease);
    kill(pid, SIGTERM);
    assert_int_equal(wait_for(pid), 0);
    end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_two_leads_and_hands_over_when_it_ends),
        cmocka_unit_test(people_are_answered_over_its_socket),
        cmocka_unit_test(what_cannot_begin_says_why),
        cmocka_unit_test(every_role_shows_in_the_metrics),
        cmocka_unit_test(new_pods_are_sized_where_the_server_resizes),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s AWARE\n", argv[0]);
        return 2;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
