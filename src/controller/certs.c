/* certs.c - see certs.h. */
#include "controller/certs.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define FILE_NAME   "webhook.pem"
#define READ_MAX    64 /* authorities that are looked at */
#define SERIAL_SIZE 16 /* bytes; RFC 5280 allows 20 */

/* --- making --- */

static bool extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    const bool fine = extension && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return fine;
}

/* A certificate of `key` in the name of `common_name`, without extensions and signature. */
static X509 *begin_cert(EVP_PKEY *key, const char *common_name, int64_t now_us, int64_t life_us)
{
    unsigned char serial[SERIAL_SIZE] = {0};
    X509 *cert = X509_new();
    BIGNUM *number = NULL;
    bool fine = cert && RAND_bytes(serial, sizeof serial) == 1;
    serial[0] &= 0x7f; /* positive, and never 0 */
    serial[0] |= 0x40;
    number = fine ? BN_bin2bn(serial, sizeof serial, NULL) : NULL;
    fine =
        fine && number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) &&
        X509_set_version(cert, X509_VERSION_3) == 1 &&
        ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)((now_us - AW__CERT_SKEW_US) / 1000000)) &&
        ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)((now_us + life_us) / 1000000)) &&
        X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                                   (const unsigned char *)common_name, -1, -1, 0) == 1 &&
        X509_set_pubkey(cert, key) == 1;
    BN_free(number);
    if (!fine) {
        X509_free(cert);
        cert = NULL;
    }
    return cert;
}

static bool finish_cert(X509 *cert, X509 *issuer, EVP_PKEY *issuer_key)
{
    return X509_set_issuer_name(cert, X509_get_subject_name(issuer)) == 1 &&
           extend(cert, issuer, NID_authority_key_identifier, "keyid:always") &&
           X509_sign(cert, issuer_key, EVP_sha256()) > 0;
}

static bool take_text(BIO *bio, char *buf, size_t size)
{
    char *bytes;
    const long len = BIO_get_mem_data(bio, &bytes);
    if (len <= 0 || (size_t)len >= size)
        return false;
    memcpy(buf, bytes, (size_t)len);
    buf[len] = '\0';
    return true;
}

static bool print_cert(X509 *cert, char buf[AW__CERT_PEM_MAX])
{
    BIO *bio = BIO_new(BIO_s_mem());
    const bool fine =
        bio && PEM_write_bio_X509(bio, cert) == 1 && take_text(bio, buf, AW__CERT_PEM_MAX);
    BIO_free(bio);
    return fine;
}

static bool print_key(EVP_PKEY *key, char buf[AW__CERT_PEM_MAX])
{
    BIO *bio = BIO_new(BIO_s_secmem());
    const bool fine = bio &&
                      PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1 &&
                      take_text(bio, buf, AW__CERT_PEM_MAX);
    BIO_free(bio);
    return fine;
}

static X509 *read_cert(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return cert;
}

static EVP_PKEY *read_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return key;
}

/* When a certificate ends; 0: not known. */
static int64_t end_of(const X509 *cert)
{
    struct tm tm;
    if (!cert || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) != 1)
        return 0;
    return (int64_t)timegm(&tm) * 1000000;
}

static enum aw_err make_authority(struct aw__certs *certs, int64_t now_us, struct aw_diag *diag)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? begin_cert(key, "aware webhook authority", now_us, AW__CERT_CA_US) : NULL;
    const bool fine =
        cert && extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        extend(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        extend(cert, cert, NID_subject_key_identifier, "hash") && finish_cert(cert, cert, key) &&
        print_cert(cert, certs->ca) && print_key(key, certs->ca_key);
    certs->ca_expires_us = fine ? end_of(cert) : 0;
    X509_free(cert);
    EVP_PKEY_free(key);
    return fine ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "libcrypto could not make an authority");
}

/* The names as libcrypto takes them: "DNS:a,DNS:b,IP:c". */
static void print_names(const struct aw__certs_subject *subject, char *buf, size_t size)
{
    snprintf(buf, size, "DNS:%s.%s.svc,DNS:%s.%s,DNS:%s,DNS:%s.%s.svc.cluster.local%s%s",
             subject->service, subject->ns, subject->service, subject->ns, subject->service,
             subject->service, subject->ns, subject->address ? ",IP:" : "",
             subject->address ? subject->address : "");
}

static enum aw_err make_serving(struct aw__certs *certs, const struct aw__certs_subject *subject,
                                int64_t now_us, struct aw_diag *diag)
{
    char names[AW__CERT_NAMES_MAX];
    X509 *ca = read_cert(certs->ca);
    EVP_PKEY *ca_key = read_key(certs->ca_key), *key = EVP_EC_gen("P-256");
    X509 *cert = ca && ca_key && key ? begin_cert(key, "aware webhook", now_us, AW__CERT_US) : NULL;
    print_names(subject, names, sizeof names);
    const bool fine = cert && extend(cert, ca, NID_basic_constraints, "critical,CA:FALSE") &&
                      extend(cert, ca, NID_key_usage, "critical,digitalSignature") &&
                      extend(cert, ca, NID_ext_key_usage, "serverAuth") &&
                      extend(cert, ca, NID_subject_alt_name, names) &&
                      finish_cert(cert, ca, ca_key) && print_cert(cert, certs->cert) &&
                      print_key(key, certs->key);
    certs->expires_us = fine ? end_of(cert) : 0;
    X509_free(cert);
    X509_free(ca);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
    return fine ? AW_OK
                : aw_fail(diag, AW_ERR_NOMEM, "libcrypto could not make a certificate for %s",
                          names);
}

bool aw__certs_due(const struct aw__certs *certs, int64_t now_us)
{
    return certs->expires_us - now_us < AW__CERT_RENEW_US ||
           certs->ca_expires_us - now_us < AW__CERT_CA_RENEW_US;
}

enum aw_err aw__certs_renew(const struct aw__certs *certs, const struct aw__certs_subject *subject,
                            int64_t now_us, struct aw__certs *ret_certs, struct aw_diag *diag)
{
    struct aw__certs fresh = *certs;
    enum aw_err err = AW_OK;
    if (fresh.ca_expires_us - now_us < AW__CERT_CA_RENEW_US)
        err = make_authority(&fresh, now_us, diag);
    if (!err)
        err = make_serving(&fresh, subject, now_us, diag);
    if (!err)
        *ret_certs = fresh;
    aw__certs_deinit(&fresh);
    return err;
}

void aw__certs_deinit(struct aw__certs *certs)
{
    OPENSSL_cleanse(certs, sizeof *certs);
}

/* --- keeping --- */

/* Whether a serving certificate is for this subject: the name that the API server asks for. */
static bool fits(X509 *cert, const struct aw__certs_subject *subject)
{
    char name[AW__CERT_NAMES_MAX];
    snprintf(name, sizeof name, "%s.%s.svc", subject->service, subject->ns);
    return X509_check_host(cert, name, 0, 0, NULL) == 1 &&
           (!subject->address || X509_check_ip_asc(cert, subject->address, 0) == 1);
}

/* Takes a file apart; false: it has not all four parts, or they do not belong together. */
static bool parse(const char *bytes, size_t len, const struct aw__certs_subject *subject,
                  struct aw__certs *certs)
{
    BIO *bio = BIO_new_mem_buf(bytes, (int)len);
    X509 *ca = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    EVP_PKEY *ca_key = ca ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    X509 *cert = ca_key ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key = cert ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    EVP_PKEY *public = ca ? X509_get0_pubkey(ca) : NULL;
    const bool fine = key && public && X509_check_private_key(ca, ca_key) == 1 &&
                      X509_check_private_key(cert, key) == 1 && X509_verify(cert, public) == 1 &&
                      fits(cert, subject) && print_cert(ca, certs->ca) &&
                      print_key(ca_key, certs->ca_key) && print_cert(cert, certs->cert) &&
                      print_key(key, certs->key);
    certs->ca_expires_us = end_of(ca);
    certs->expires_us = end_of(cert);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error(); /* what was met here must not look like an error of somebody's connection */
    return fine;
}

/* The folder, its owner's alone. */
static enum aw_err open_folder(const char *dir, struct aw_diag *diag)
{
    struct stat st;
    if (stat(dir, &st) != 0) {
        enum aw_err err = aw_file_mkdirs(dir, diag);
        if (err)
            return err;
        if (chmod(dir, 0700) != 0 || stat(dir, &st) != 0)
            return aw_fail(diag, AW_ERR_IO, "%s: %s", dir, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode) || (st.st_mode & 0077))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "%s: expected a folder that is its owner's alone (0700), found %04o", dir,
                       (unsigned)(st.st_mode & 07777));
    return AW_OK;
}

enum aw_err aw__certs_save(const struct aw__certs *certs, const char *dir, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX], text[4 * AW__CERT_PEM_MAX];
    const int len =
        snprintf(text, sizeof text, "%s%s%s%s", certs->ca, certs->ca_key, certs->cert, certs->key);
    enum aw_err err = open_folder(dir, diag);
    if (!err && (size_t)snprintf(path, sizeof path, "%s/" FILE_NAME, dir) >= sizeof path)
        err = aw_fail(diag, AW_ERR_LIMIT, "%s: the path is too long", dir);
    if (!err) { /* a file that is there keeps its mode */
        const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || fchmod(fd, 0600) != 0)
            err = aw_fail(diag, AW_ERR_IO, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    if (!err)
        err = aw_file_replace(path, text, (size_t)len, NULL, diag);
    OPENSSL_cleanse(text, sizeof text);
    return err;
}

enum aw_err aw__certs_load(struct aw__certs *certs, const char *dir,
                           const struct aw__certs_subject *subject, int64_t now_us, bool *ret_made,
                           struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX], *bytes = NULL;
    size_t len = 0;
    enum aw_err err = open_folder(dir, diag);
    if (err)
        return err;
    snprintf(path, sizeof path, "%s/" FILE_NAME, dir);
    *certs = (struct aw__certs){0};
    err = aw_file_read(path, 4 * AW__CERT_PEM_MAX, NULL, &bytes, &len, diag);
    if (err && err != AW_ERR_NOTFOUND && err != AW_ERR_LIMIT)
        return err;
    if (!err && !parse(bytes, len, subject, certs))
        *certs = (struct aw__certs){0}; /* nothing of it is trusted */
    if (bytes)
        OPENSSL_cleanse(bytes, len);
    aw_alloc_free(NULL, bytes);
    *ret_made = aw__certs_due(certs, now_us);
    if (!*ret_made)
        return AW_OK;
    err = aw__certs_renew(certs, subject, now_us, certs, diag);
    return err ? err : aw__certs_save(certs, dir, diag);
}

/* --- the bundle --- */

static bool has(X509 *const *list, uint32_t count, const X509 *cert)
{
    for (uint32_t i = 0; i < count; i++)
        if (X509_cmp(list[i], cert) == 0)
            return true;
    return false;
}

/* The newest first, and always the same way: several who each keep theirs must agree. */
static int by_age(const void *a, const void *b)
{
    X509 *const *x = a, *const *y = b;
    const int64_t ends[] = {end_of(*x), end_of(*y)};
    return ends[0] != ends[1] ? (ends[0] > ends[1] ? -1 : 1) : X509_cmp(*x, *y);
}

bool aw__bundle_merge(const char *old, size_t old_len, const char *ca, int64_t now_us, char *buf,
                      size_t size)
{
    X509 *list[READ_MAX], *ours = read_cert(ca), *cert;
    BIO *bio = BIO_new_mem_buf(old, (int)(old_len < AW__BUNDLE_MAX ? old_len : AW__BUNDLE_MAX));
    char pem[AW__CERT_PEM_MAX];
    uint32_t count = 0, kept = 0;
    size_t len = 0;
    buf[0] = '\0';
    if (ours)
        list[count++] = ours;
    while (ours && bio && count < READ_MAX && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        if (end_of(cert) <= now_us || has(list, count, cert))
            X509_free(cert);
        else
            list[count++] = cert;
    }
    BIO_free(bio);
    ERR_clear_error(); /* the end of the text is one */
    qsort(list, count, sizeof(X509 *), by_age);
    bool placed = false;
    for (uint32_t i = 0; i < count; i++) {
        /* the last place is ours if we have none before it */
        const bool room = kept + !placed < AW__BUNDLE_CERTS_MAX || list[i] == ours;
        if (!room || !print_cert(list[i], pem) || len + strlen(pem) >= size)
            continue;
        placed = placed || list[i] == ours;
        memcpy(buf + len, pem, strlen(pem) + 1);
        len += strlen(pem);
        kept++;
    }
    for (uint32_t i = 0; i < count; i++)
        X509_free(list[i]);
    return count > 0 && (len != old_len || memcmp(buf, old, len) != 0);
}
