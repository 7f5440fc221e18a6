/* certs_test.c - certificates that are made, kept, renewed and announced. */
#include "controller/certs.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"

#define NOW_US 1769860800000000 /* 2026-01-31T12:00:00Z */
#define DAY_US 86400000000

static const struct aw__certs_subject subject = {"aware", "sys", NULL};

static X509 *read_pem(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    return cert;
}

/* Whether a client that trusts `ca` takes `pem` for `host` at a time. */
static bool trusted(const char *ca, const char *pem, const char *host, int64_t now_us)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    X509 *root = read_pem(ca), *cert = read_pem(pem);
    assert_true(root && cert);
    X509_STORE_add_cert(store, root);
    X509_STORE_CTX_init(ctx, store, cert, NULL);
    X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
    X509_VERIFY_PARAM_set_time(param, (time_t)(now_us / 1000000));
    X509_VERIFY_PARAM_set1_host(param, host, 0);
    X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_SERVER);
    const bool fine = X509_verify_cert(ctx) == 1;
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    X509_free(root);
    X509_free(cert);
    return fine;
}

static void open_folder(char dir[64])
{
    snprintf(dir, 64, "/tmp/aware-certs-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static void close_folder(const char *dir)
{
    char path[128];
    snprintf(path, sizeof path, "%s/webhook.pem", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

static void a_certificate_is_good_for_the_service_and_for_nobody_else(void **state)
{
    struct aw__certs certs;
    char dir[64];
    bool made = false;
    (void)state;
    open_folder(dir);
    assert_ok(aw__certs_load(&certs, dir, &subject, NOW_US, &made, NULL));
    assert_true(made);
    assert_true(trusted(certs.ca, certs.cert, "aware.sys.svc", NOW_US));
    assert_true(trusted(certs.ca, certs.cert, "aware.sys.svc.cluster.local", NOW_US));
    assert_true(trusted(certs.ca, certs.cert, "aware.sys.svc", NOW_US - AW__CERT_SKEW_US));
    assert_false(trusted(certs.ca, certs.cert, "aware.other.svc", NOW_US));
    assert_false(trusted(certs.ca, certs.cert, "aware.sys.svc", NOW_US + 91 * DAY_US));
    aw__certs_deinit(&certs);
    close_folder(dir);
}

static void what_was_made_is_used_again_until_it_is_due(void **state)
{
    struct aw__certs first, again, other;
    struct stat st;
    char dir[64], path[128];
    bool made = false;
    (void)state;
    open_folder(dir);
    assert_ok(aw__certs_load(&first, dir, &subject, NOW_US, &made, NULL));
    snprintf(path, sizeof path, "%s/webhook.pem", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_ok(aw__certs_load(&again, dir, &subject, NOW_US + 59 * DAY_US, &made, NULL));
    assert_false(made);
    assert_string_equal(first.cert, again.cert);
    assert_string_equal(first.key, again.key);
    /* its last third: another certificate of the same authority */
    assert_ok(aw__certs_load(&again, dir, &subject, NOW_US + 61 * DAY_US, &made, NULL));
    assert_true(made);
    assert_string_not_equal(first.cert, again.cert);
    assert_string_equal(first.ca, again.ca);
    assert_true(trusted(first.ca, again.cert, "aware.sys.svc", NOW_US + 140 * DAY_US));
    /* the last year of the authority: another one */
    assert_ok(aw__certs_load(&again, dir, &subject, NOW_US + 1500 * DAY_US, &made, NULL));
    assert_string_not_equal(first.ca, again.ca);
    /* for another name another certificate, and nothing of the file is trusted */
    const struct aw__certs_subject elsewhere = {"aware", "elsewhere", "127.0.0.1"};
    assert_ok(aw__certs_load(&other, dir, &elsewhere, NOW_US + 1500 * DAY_US, &made, NULL));
    assert_true(made);
    assert_string_not_equal(other.ca, again.ca);
    close_folder(dir);
}

static void a_file_that_is_broken_is_replaced(void **state)
{
    struct aw__certs certs, other;
    char dir[64], path[128], text[4 * AW__CERT_PEM_MAX];
    bool made = false;
    (void)state;
    open_folder(dir);
    snprintf(path, sizeof path, "%s/webhook.pem", dir);
    assert_ok(aw__certs_load(&certs, dir, &subject, NOW_US, &made, NULL));
    assert_ok(aw__certs_renew(&certs, &subject, NOW_US, &other, NULL));
    snprintf(text, sizeof text, "%s%s%s%s", certs.ca, certs.ca_key, certs.cert, other.key);
    assert_ok(aw_file_replace(path, text, strlen(text), NULL, NULL)); /* another's key */
    assert_ok(aw__certs_load(&certs, dir, &subject, NOW_US, &made, NULL));
    assert_true(made);
    assert_ok(aw_file_replace(path, "rubbish", 7, NULL, NULL));
    assert_ok(aw__certs_load(&certs, dir, &subject, NOW_US, &made, NULL));
    assert_true(made);
    assert_true(trusted(certs.ca, certs.cert, "aware.sys.svc", NOW_US));
    close_folder(dir);
}

static void a_folder_that_others_can_read_is_refused(void **state)
{
    struct aw__certs certs;
    char dir[64];
    bool made = false;
    (void)state;
    open_folder(dir);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(aw__certs_load(&certs, dir, &subject, NOW_US, &made, NULL), AW_ERR_CONFIG);
    assert_int_equal(chmod(dir, 0700), 0);
    close_folder(dir);
}

static void make(struct aw__certs *certs, int64_t now_us)
{
    const struct aw__certs none = {0};
    assert_ok(aw__certs_renew(&none, &subject, now_us, certs, NULL));
}

static uint32_t count_of(const char *bundle)
{
    uint32_t count = 0;
    while ((bundle = strstr(bundle, "-----BEGIN CERTIFICATE-----"))) {
        count++;
        bundle++;
    }
    return count;
}

static void a_bundle_has_everybodys_authority_once_and_in_one_order(void **state)
{
    struct aw__certs a, b;
    static char one[AW__BUNDLE_MAX], two[AW__BUNDLE_MAX], three[AW__BUNDLE_MAX];
    (void)state;
    make(&a, NOW_US);
    make(&b, NOW_US);
    assert_true(aw__bundle_merge("", 0, a.ca, NOW_US, one, sizeof one));
    assert_string_equal(one, a.ca);
    assert_false(aw__bundle_merge(one, strlen(one), a.ca, NOW_US, two, sizeof two));
    assert_true(aw__bundle_merge(one, strlen(one), b.ca, NOW_US, two, sizeof two));
    assert_int_equal(count_of(two), 2);
    assert_false(aw__bundle_merge(two, strlen(two), a.ca, NOW_US, three, sizeof three));
    assert_false(aw__bundle_merge(two, strlen(two), b.ca, NOW_US, three, sizeof three));
    /* what has ended goes, and so does what is none */
    assert_true(aw__bundle_merge("Cg==", 4, a.ca, NOW_US, one, sizeof one));
    assert_string_equal(one, a.ca);
    make(&b, NOW_US + 2000 * DAY_US);
    assert_true(
        aw__bundle_merge(two, strlen(two), b.ca, NOW_US + 2000 * DAY_US, three, sizeof three));
    assert_string_equal(three, b.ca);
}

static void a_bundle_does_not_grow_for_ever_and_never_loses_ours(void **state)
{
    struct aw__certs certs, old;
    static char bundle[AW__BUNDLE_MAX], next[AW__BUNDLE_MAX];
    (void)state;
    bundle[0] = '\0';
    make(&old, NOW_US - DAY_US);
    for (int i = 0; i < 12; i++) { /* a pod that was started a dozen times */
        make(&certs, NOW_US + i * 1000000);
        assert_true(aw__bundle_merge(bundle, strlen(bundle), certs.ca, NOW_US, next, sizeof next));
        memcpy(bundle, next, sizeof bundle);
        assert_non_null(strstr(bundle, certs.ca));
    }
    assert_int_equal(count_of(bundle), AW__BUNDLE_CERTS_MAX);
    assert_true(aw__bundle_merge(bundle, strlen(bundle), old.ca, NOW_US, next, sizeof next));
    assert_int_equal(count_of(next), AW__BUNDLE_CERTS_MAX);
    assert_non_null(strstr(next, old.ca)); /* the oldest of all, and it serves */
}

AW_TEST_GROUP("controller-certs")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_is_good_for_the_service_and_for_nobody_else),
        cmocka_unit_test(what_was_made_is_used_again_until_it_is_due),
        cmocka_unit_test(a_file_that_is_broken_is_replaced),
        cmocka_unit_test(a_folder_that_others_can_read_is_refused),
        cmocka_unit_test(a_bundle_has_everybodys_authority_once_and_in_one_order),
        cmocka_unit_test(a_bundle_does_not_grow_for_ever_and_never_loses_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
