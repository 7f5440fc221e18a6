/* admission_test.c - the webhook over real TLS: sized pods, certificates, bad and many clients. */
#include "controller/admission.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "controller/certs.h"
#include "kube/kube_testing.h"

#define MPAS     "/apis/autoscaling.aware.dev/v1alpha1/multidimpodautoscalers"
#define SETS     "/apis/apps/v1/replicasets"
#define RANGES   "/api/v1/limitranges"
#define WEBHOOKS "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
#define LEASES   "/apis/coordination.k8s.io/v1/leases"
#define DAY_US   86400000000
#define CROWD    1000

struct world {
    struct aw_kube_world kube;
    struct aw_admission_config config;
    struct aw_admission *admission;
    char dir[64];
};

static void set_object(struct world *world, const char *mode, const char *cpu)
{
    char json[700];
    snprintf(json, sizeof json,
             "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web-mpa\",\"generation\":1},\"spec\":{"
             "\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":"
             "\"web\"},\"policy\":{\"updateMode\":\"%s\"}},\"status\":{\"observedGeneration\":1,"
             "\"recommendation\":{\"replicas\":3,\"cpu\":\"%s\",\"memory\":\"1Gi\",\"container\":"
             "\"app\",\"decision\":\"17\",\"time\":\"2026-01-01T00:00:00Z\"}}}",
             mode, cpu);
    aw_fake_apiserver_set(world->kube.twin, MPAS, json);
}

static void open_world(struct world *world, int64_t now_us)
{
    *world = (struct world){.dir = "/tmp/aware-admission-XXXXXX"};
    assert_non_null(mkdtemp(world->dir));
    aw_kube_world_open(&world->kube, &(struct aw_kube_options){.requests_per_second = 10000});
    world->kube.clock.wall_us = now_us;
    set_object(world, "Auto", "500m");
    aw_fake_apiserver_set(
        world->kube.twin, SETS,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web-x\",\"ownerReferences\":[{"
        "\"kind\":\"Deployment\",\"name\":\"web\",\"controller\":true}]}}");
    aw_fake_apiserver_set(
        world->kube.twin, WEBHOOKS,
        "{\"metadata\":{\"name\":\"aware\"},\"webhooks\":[{\"name\":\"a\",\"clientConfig\""
        ":{\"service\":{\"name\":\"aware\"}}}]}");
    world->config = (struct aw_admission_config){.service = "aware",
                                                 .ns = "sys",
                                                 .webhook = "aware",
                                                 .lease_ns = "sys",
                                                 .lease_name = AW_ADMISSION_LEASE,
                                                 .state_dir = world->dir,
                                                 .address = "127.0.0.1",
                                                 .clock = &world->kube.clock.clock};
}

static void begin(struct world *world)
{
    const struct aw_kube_server server = {0};
    assert_ok(
        aw_admission_new(&world->admission, world->kube.kube, &server, &world->config, NULL, NULL));
}

static void close_world(struct world *world)
{
    char path[128];
    aw_admission_free(world->admission);
    aw_kube_world_close(&world->kube);
    snprintf(path, sizeof path, "%s/webhook.pem", world->dir);
    unlink(path);
    assert_int_equal(rmdir(world->dir), 0);
}

/* Steps for `us` of the virtual clock, and until the copies are there. */
static void step(struct world *world, int64_t us)
{
    const int64_t end_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;
    aw_clock_virtual_advance(&world->kube.clock, us);
    do {
        (void)!aw_admission_step(world->admission, NULL);
        aw_clock_virtual_advance(&world->kube.clock, 1000000);
        (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 500);
        (void)!aw_kube_wait(world->kube.kube, aw_clock_monotonic_us(&world->kube.clock.clock));
    } while (!aw_admission_synced(world->admission) && aw_clock_monotonic_us(NULL) < end_us);
    assert_true(aw_admission_synced(world->admission));
}

/* The authorities that an API server would trust: the caBundle, decoded. */
static size_t bundle(struct world *world, char *buf, size_t size)
{
    json_t *object = aw_fake_apiserver_get(world->kube.twin, WEBHOOKS, "", "aware");
    const json_t *hook = json_array_get(json_object_get(object, "webhooks"), 0);
    const char *text = aw_kube_text_at(hook, "clientConfig.caBundle");
    assert_true(strlen(text) < size);
    memset(buf, 0, size);
    EVP_DecodeBlock((unsigned char *)buf, (const unsigned char *)text, (int)strlen(text));
    /* nothing else of the object was touched */
    assert_string_equal(aw_kube_text_at(hook, "clientConfig.service.name"), "aware");
    json_decref(object);
    return strlen(buf);
}

/* An answer while it comes in. */
struct answer {
    char body[16384];
    size_t len;
    long status;
};

static size_t collect(char *bytes, size_t size, size_t count, void *ctx)
{
    struct answer *answer = ctx;
    if (answer->len + size * count >= sizeof answer->body)
        return 0;
    memcpy(answer->body + answer->len, bytes, size * count);
    answer->len += size * count;
    answer->body[answer->len] = '\0';
    return size * count;
}

/* Asks as the API server does: by the name of the Service, trusting the bundle alone. The last of
 * `times` answers is kept, and how long the slowest took. */
static CURLcode ask_often(struct world *world, const char *path, const char *body, size_t len,
                          int times, struct answer *answer, int64_t *ret_slowest_us)
{
    static char trusted[AW__BUNDLE_MAX];
    char url[128], where[128];
    CURL *curl = curl_easy_init();
    CURLcode code = CURLE_OK;
    const unsigned port = aw_admission_port(world->admission);
    struct curl_blob blob = {trusted, bundle(world, trusted, sizeof trusted), CURL_BLOB_NOCOPY};
    snprintf(url, sizeof url, "https://aware.sys.svc:%u%s", port, path);
    snprintf(where, sizeof where, "aware.sys.svc:%u:127.0.0.1", port);
    struct curl_slist *hosts = curl_slist_append(NULL, where);
    *answer = (struct answer){0};
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_RESOLVE, hosts);
    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    if (body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)len);
    }
    *ret_slowest_us = 0;
    for (int i = 0; i < times && code == CURLE_OK; i++) {
        const int64_t begun_us = aw_clock_monotonic_us(NULL);
        answer->len = 0;
        code = curl_easy_perform(curl);
        const int64_t took_us = aw_clock_monotonic_us(NULL) - begun_us;
        *ret_slowest_us = took_us > *ret_slowest_us ? took_us : *ret_slowest_us;
    }
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
    curl_slist_free_all(hosts);
    curl_easy_cleanup(curl);
    return code;
}

static CURLcode ask(struct world *world, const char *path, const char *body, size_t len,
                    struct answer *answer)
{
    int64_t slowest_us;
    return ask_often(world, path, body, len, 1, answer, &slowest_us);
}

static const char review[] =
    "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":"
    "\"u-1\",\"operation\":\"CREATE\",\"namespace\":\"n\",\"resource\":{\"group\":\"\",\"version\":"
    "\"v1\",\"resource\":\"pods\"},\"object\":{\"metadata\":{\"generateName\":\"web-x-\","
    "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":\"web-x\","
    "\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":\"app\"}]}}}}";

/* The patch that a new pod gets, decoded; "" for none. */
static const char *patch_of(struct world *world, char *buf, size_t size)
{
    struct answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
    assert_int_equal(ask(world, AW_ADMISSION_PATH, review, strlen(review), answer), CURLE_OK);
    assert_int_equal(answer->status, 200);
    json_t *json = json_loads(answer->body, 0, NULL);
    free(answer);
    assert_string_equal(aw_kube_text_at(json, "response.uid"), "u-1");
    assert_true(json_is_true(aw_kube_at(json, "response.allowed")));
    const char *text = aw_kube_text_at(json, "response.patch");
    memset(buf, 0, size);
    assert_true(strlen(text) < size);
    EVP_DecodeBlock((unsigned char *)buf, (const unsigned char *)text, (int)strlen(text));
    json_decref(json);
    return buf;
}

static bool patched_with(struct world *world, const char *what)
{
    const int64_t end_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;
    char patch[2048];
    while (!strstr(patch_of(world, patch, sizeof patch), what)) {
        if (aw_clock_monotonic_us(NULL) > end_us)
            return false;
        step(world, 0);
    }
    return true;
}

static void a_new_pod_is_sized_as_the_object_says_now(void **state)
{
    struct world world;
    char patch[2048];
    (void)state;
    open_world(&world, aw_clock_now_us(NULL));
    begin(&world);
    step(&world, 0);
    assert_true(patched_with(&world, "\"500m\""));
    assert_non_null(strstr(patch_of(&world, patch, sizeof patch), "decision 17 of web-mpa"));
    set_object(&world, "Auto", "700m");
    assert_true(patched_with(&world, "\"700m\""));
    aw_fake_apiserver_set(
        world.kube.twin, RANGES,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"a\"},\"spec\":{\"limits\":[{"
        "\"type\":\"Container\",\"max\":{\"cpu\":\"600m\"}}]}}");
    assert_true(patched_with(&world, "\"600m\""));
    aw_fake_apiserver_remove(world.kube.twin, RANGES, "n", "a");
    assert_true(patched_with(&world, "\"700m\""));
    /* Off: from now on as the template has it */
    set_object(&world, "Off", "700m");
    const int64_t end_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;
    while (patch_of(&world, patch, sizeof patch)[0] && aw_clock_monotonic_us(NULL) < end_us)
        step(&world, 0);
    assert_string_equal(patch, "");
    const struct aw_admission_counts counts = aw_admission_counts(world.admission);
    assert_true(counts.reviews > counts.patched && counts.patched >= 4);
    assert_int_equal(counts.refused, 0);
    assert_int_equal(counts.renewed, 1);
    close_world(&world);
}

static void somebody_serves_shows_in_a_lease(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, aw_clock_now_us(NULL));
    aw_fake_apiserver_remove(world.kube.twin, WEBHOOKS, "", "aware");
    begin(&world);
    for (int i = 0; i < 3; i++)
        step(&world, 11000000);
    assert_null(
        aw_fake_apiserver_get(world.kube.twin, LEASES, "sys", AW_ADMISSION_LEASE)); /* not asked */
    aw_fake_apiserver_set(world.kube.twin, WEBHOOKS,
                          "{\"metadata\":{\"name\":\"aware\"},\"webhooks\":[]}");
    for (int i = 0; i < 3; i++)
        step(&world, 11000000);
    json_t *lease = aw_fake_apiserver_get(world.kube.twin, LEASES, "sys", AW_ADMISSION_LEASE);
    char first[AW_KUBE_TIME_MAX];
    snprintf(first, sizeof first, "%s", aw_kube_text_at(lease, "spec.renewTime"));
    assert_true(first[0]);
    json_decref(lease);
    step(&world, 11000000);
    lease = aw_fake_apiserver_get(world.kube.twin, LEASES, "sys", AW_ADMISSION_LEASE);
    assert_string_not_equal(aw_kube_text_at(lease, "spec.renewTime"), first);
    json_decref(lease);
    close_world(&world);
}

/* The defect: where the server resizes in place there was no webhook at all, mode Initial did
 * nothing, and what a scale-out made began with the size of the template. */
static void what_the_objects_need_decides_whether_it_serves(void **state)
{
    static const char *const modes[] = {"Initial", "Auto", "Recreate", "InPlaceOrRecreate",
                                        "Approve"};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const struct aw_kube_server server = {.pod_resize = true};
        static char trusted[AW__BUNDLE_MAX];
        struct world world;
        open_world(&world, aw_clock_now_us(NULL));
        world.config.when_needed = true;
        set_object(&world, "Off", "500m");
        assert_ok(aw_admission_new(&world.admission, world.kube.kube, &server, &world.config, NULL,
                                   NULL));
        for (int turn = 0; turn < 3; turn++)
            step(&world, 11000000);
        /* nobody asks: nothing is announced, and nobody is made to wait for an answer */
        assert_int_equal(aw_admission_port(world.admission), 0);
        assert_int_equal(bundle(&world, trusted, sizeof trusted), 0);
        assert_null(aw_fake_apiserver_get(world.kube.twin, LEASES, "sys", AW_ADMISSION_LEASE));
        set_object(&world, modes[i], "500m");
        const int64_t end_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;
        while (!aw_admission_port(world.admission) && aw_clock_monotonic_us(NULL) < end_us)
            step(&world, 0);
        if (!aw_admission_port(world.admission))
            fail_msg("%s: nobody serves", modes[i]);
        step(&world, 11000000);
        assert_true(patched_with(&world, "\"500m\""));
        json_t *lease = aw_fake_apiserver_get(world.kube.twin, LEASES, "sys", AW_ADMISSION_LEASE);
        assert_non_null(lease);
        json_decref(lease);
        close_world(&world);
    }
}

static void replicas_alone_need_no_webhook(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, aw_clock_now_us(NULL));
    world.config.when_needed = true;
    aw_fake_apiserver_set(
        world.kube.twin, MPAS,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web-mpa\",\"generation\":1},\"spec\":{"
        "\"scaleTargetRef\":{\"name\":\"web\"},\"policy\":{\"updateMode\":\"Auto\"}},\"status\":"
        "{\"observedGeneration\":1,\"recommendation\":{\"replicas\":3,\"time\":"
        "\"2026-01-01T00:00:00Z\"}}}");
    begin(&world);
    for (int i = 0; i < 3; i++)
        step(&world, 11000000);
    assert_int_equal(aw_admission_port(world.admission), 0);
    close_world(&world);
}

static void a_port_that_is_taken_is_told_and_tried_again(void **state)
{
    struct world world, other;
    struct aw_diag diag = {0};
    (void)state;
    open_world(&other, aw_clock_now_us(NULL));
    begin(&other);
    open_world(&world, aw_clock_now_us(NULL));
    world.config.when_needed = true;
    world.config.port = aw_admission_port(other.admission);
    begin(&world);
    for (int i = 0; i < 3; i++)
        step(&world, 11000000);
    assert_int_equal(aw_admission_port(world.admission), 0);
    assert_int_equal(aw_admission_step(world.admission, &diag), AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "port"));
    close_world(&other);
    for (int i = 0; i < 3; i++)
        step(&world, 11000000);
    assert_int_equal(aw_admission_port(world.admission), world.config.port);
    assert_true(patched_with(&world, "\"500m\""));
    close_world(&world);
}

static void certificates_are_renewed_while_it_serves(void **state)
{
    struct world world;
    static char before[AW__BUNDLE_MAX], after[AW__BUNDLE_MAX];
    char patch[2048];
    (void)state;
    /* started two months ago, as the clock of the machine has it */
    open_world(&world, aw_clock_now_us(NULL) - 61 * DAY_US);
    begin(&world);
    step(&world, 0);
    bundle(&world, before, sizeof before);
    assert_true(patched_with(&world, "\"500m\""));
    assert_int_equal(aw_admission_counts(world.admission).renewed, 1);
    step(&world, 61 * DAY_US);
    assert_int_equal(aw_admission_counts(world.admission).renewed, 2);
    bundle(&world, after, sizeof after);
    assert_string_equal(before, after); /* the same authority */
    assert_true(patch_of(&world, patch, sizeof patch)[0]);
    step(&world, 60000000); /* the old server has gone */
    assert_true(patch_of(&world, patch, sizeof patch)[0]);
    /* a process that is started again uses what is there */
    aw_admission_free(world.admission);
    begin(&world);
    assert_int_equal(aw_admission_counts(world.admission).renewed, 0);
    step(&world, 0);
    assert_true(patched_with(&world, "\"500m\""));
    close_world(&world);
}

static void a_caBundle_that_somebody_emptied_is_filled_again(void **state)
{
    struct world world;
    struct answer *answer = malloc(sizeof *answer);
    (void)state;
    open_world(&world, aw_clock_now_us(NULL));
    begin(&world);
    step(&world, 0);
    aw_fake_apiserver_set(
        world.kube.twin, WEBHOOKS,
        "{\"metadata\":{\"name\":\"aware\"},\"webhooks\":[{\"name\":\"a\",\"clientConfig\""
        ":{\"caBundle\":\"Cg==\",\"service\":{\"name\":\"aware\"}}}]}");
    assert_int_not_equal(ask(&world, AW_ADMISSION_PATH, review, strlen(review), answer), CURLE_OK);
    step(&world, AW_ADMISSION_BUNDLE_CHECK_US);
    assert_int_equal(ask(&world, AW_ADMISSION_PATH, review, strlen(review), answer), CURLE_OK);
    assert_int_equal(answer->status, 200);
    free(answer);
    close_world(&world);
}

static void what_is_no_review_is_refused_and_the_next_one_is_answered(void **state)
{
    struct world world;
    struct answer *answer = malloc(sizeof *answer);
    const size_t large = AW_ADMISSION_BODY_MAX + 1;
    char *body = malloc(large);
    assert_true(answer && body);
    (void)state;
    memset(body, ' ', large);
    open_world(&world, aw_clock_now_us(NULL));
    begin(&world);
    step(&world, 0);
    assert_int_equal(ask(&world, AW_ADMISSION_PATH, "{", 1, answer), CURLE_OK);
    assert_int_equal(answer->status, 400);
    assert_int_equal(ask(&world, "/other", review, strlen(review), answer), CURLE_OK);
    assert_int_equal(answer->status, 404);
    assert_int_equal(ask(&world, AW_ADMISSION_PATH, NULL, 0, answer), CURLE_OK);
    assert_int_equal(answer->status, 405);
    assert_int_equal(ask(&world, AW_ADMISSION_PATH, body, large, answer), CURLE_OK);
    assert_int_equal(answer->status, 413);
    assert_true(patched_with(&world, "\"500m\""));
    assert_int_equal(aw_admission_counts(world.admission).refused, 4);
    free(body);
    free(answer);
    close_world(&world);
}

static void a_thousand_silent_clients_keep_nobody_from_an_answer(void **state)
{
    static int crowd[CROWD];
    struct rlimit limit;
    struct world world;
    char patch[2048];
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 3 * CROWD) { /* both ends of the connections are ours */
        print_message("skipped: %d open files are needed, %llu are allowed\n", 3 * CROWD,
                      (unsigned long long)limit.rlim_max);
        skip();
    }
    limit.rlim_cur = limit.rlim_cur > 3 * CROWD ? limit.rlim_cur : 3 * CROWD;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    open_world(&world, aw_clock_now_us(NULL));
    begin(&world);
    step(&world, 0);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(aw_admission_port(world.admission)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(crowd[i] >= 0);
        assert_int_equal(connect(crowd[i], (const struct sockaddr *)&address, sizeof address), 0);
        if (i % 2) /* the beginning of a handshake, and no more */
            assert_int_equal(send(crowd[i], "\x16\x03\x01\x02", 4, MSG_NOSIGNAL), 4);
    }
    for (int i = 0; i < 5; i++)
        assert_true(patch_of(&world, patch, sizeof patch)[0]);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    assert_true(patch_of(&world, patch, sizeof patch)[0]);
    close_world(&world);
}

static void a_thousand_pods_over_one_connection_are_all_sized(void **state)
{
    struct world world;
    struct answer *answer = malloc(sizeof *answer);
    int64_t slowest_us;
    (void)state;
    open_world(&world, aw_clock_now_us(NULL));
    world.config.clock = NULL; /* the real one: how long answers take is printed below */
    begin(&world);
    step(&world, 0);
    assert_true(patched_with(&world, "\"500m\""));
    const int64_t begun_us = aw_clock_monotonic_us(NULL);
    assert_int_equal(
        ask_often(&world, AW_ADMISSION_PATH, review, strlen(review), 1000, answer, &slowest_us),
        CURLE_OK);
    const int64_t took_us = aw_clock_monotonic_us(NULL) - begun_us;
    const struct aw_admission_counts counts = aw_admission_counts(world.admission);
    assert_true(counts.patched >= 1000);
    print_message("1000 answers: %lld us each for the client, the slowest %lld us; of that %lld us "
                  "each to make them, the slowest %lld us\n",
                  (long long)took_us / 1000, (long long)slowest_us,
                  (long long)(counts.total_us / (int64_t)counts.reviews),
                  (long long)counts.slowest_us);
    free(answer);
    close_world(&world);
}

static void every_allocation_that_fails_is_survived(void **state)
{
    struct world world;
    const struct aw_kube_server server = {0};
    struct aw_alloc_counting counting;
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    open_world(&world, aw_clock_now_us(NULL));
    for (uint64_t n = 0; err; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw_admission_new(&world.admission, world.kube.kube, &server, &world.config,
                               &counting.alloc, NULL);
        if (err) {
            assert_int_equal(err, AW_ERR_NOMEM);
            assert_null(world.admission);
            assert_int_equal(counting.alloc_count, counting.free_count);
        }
    }
    close_world(&world);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

AW_TEST_GROUP("controller-admission")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_pod_is_sized_as_the_object_says_now),
        cmocka_unit_test(somebody_serves_shows_in_a_lease),
        cmocka_unit_test(what_the_objects_need_decides_whether_it_serves),
        cmocka_unit_test(replicas_alone_need_no_webhook),
        cmocka_unit_test(a_port_that_is_taken_is_told_and_tried_again),
        cmocka_unit_test(certificates_are_renewed_while_it_serves),
        cmocka_unit_test(a_caBundle_that_somebody_emptied_is_filled_again),
        cmocka_unit_test(what_is_no_review_is_refused_and_the_next_one_is_answered),
        cmocka_unit_test(a_thousand_silent_clients_keep_nobody_from_an_answer),
        cmocka_unit_test(a_thousand_pods_over_one_connection_are_all_sized),
        cmocka_unit_test(every_allocation_that_fails_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
