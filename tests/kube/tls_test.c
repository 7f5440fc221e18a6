/*
 * tls_test.c - the client against a server that asks for certificates: who is trusted, who we are.
 *
 * Keys and certificates are made on the spot with OpenSSL; the server takes one connection at a
 * time and answers every request with one small object.
 */
#include "base/testing.h"
#include "kube/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct identity {
    EVP_PKEY *key;
    X509 *cert;
    char *cert_pem, *key_pem;
};

static char *pem_of(const struct identity *identity, bool key)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes, *copy;
    assert_non_null(bio);
    if (key)
        assert_int_equal(PEM_write_bio_PrivateKey(bio, identity->key, NULL, NULL, 0, NULL, NULL),
                         1);
    else
        assert_int_equal(PEM_write_bio_X509(bio, identity->cert), 1);
    const long len = BIO_get_mem_data(bio, &bytes);
    copy = calloc(1, (size_t)len + 1); /* the bytes have no end of a string */
    assert_non_null(copy);
    memcpy(copy, bytes, (size_t)len);
    BIO_free(bio);
    return copy;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
}

/* Signed by `issuer`, or by itself and then an authority. */
static void make_identity(struct identity *identity, const struct identity *issuer,
                          const char *name, const char *alt_names)
{
    static long serial;
    X509 *cert = X509_new();
    identity->key = EVP_EC_gen("P-256");
    identity->cert = cert;
    assert_non_null(identity->key);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, identity->key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509 *issuer_cert = issuer ? issuer->cert : cert;
    X509_set_issuer_name(cert, X509_get_subject_name(issuer_cert));
    add_extension(cert, issuer_cert, NID_basic_constraints,
                  issuer ? "CA:FALSE" : "critical,CA:TRUE");
    if (alt_names)
        add_extension(cert, issuer_cert, NID_subject_alt_name, alt_names);
    assert_true(X509_sign(cert, issuer ? issuer->key : identity->key, EVP_sha256()) > 0);
    identity->cert_pem = pem_of(identity, false);
    identity->key_pem = pem_of(identity, true);
}

static void free_identity(struct identity *identity)
{
    EVP_PKEY_free(identity->key);
    X509_free(identity->cert);
    free(identity->cert_pem);
    free(identity->key_pem);
}

struct server {
    SSL_CTX *context;
    int listener;
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t lock;
    bool stop;
    char peer[64], host[128], sni[64]; /* of the last request */
};

static void answer(struct server *server, SSL *ssl)
{
    static const char text[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n"
        "Connection: close\r\n\r\n{\"kind\":\"Ok\"}";
    char request[4096];
    int len = 0, n;
    while (len < (int)sizeof request - 1 &&
           (n = SSL_read(ssl, request + len, (int)sizeof request - 1 - len)) > 0) {
        len += n;
        request[len] = '\0';
        if (strstr(request, "\r\n\r\n"))
            break;
    }
    request[len] = '\0';
    const char *host = strstr(request, "Host: "), *sni = SSL_get_servername(ssl, 0);
    X509 *peer = SSL_get1_peer_certificate(ssl);
    pthread_mutex_lock(&server->lock);
    server->peer[0] = '\0';
    if (peer)
        X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, server->peer,
                                  sizeof server->peer);
    snprintf(server->host, sizeof server->host, "%.*s", host ? (int)strcspn(host + 6, "\r") : 0,
             host ? host + 6 : "");
    snprintf(server->sni, sizeof server->sni, "%s", sni ? sni : "");
    pthread_mutex_unlock(&server->lock);
    X509_free(peer);
    (void)!SSL_write(ssl, text, (int)sizeof text - 1);
    SSL_shutdown(ssl);
}

static void *serve(void *ctx)
{
    struct server *server = ctx;
    for (;;) {
        const int fd = accept(server->listener, NULL, NULL);
        pthread_mutex_lock(&server->lock);
        const bool stop = server->stop;
        pthread_mutex_unlock(&server->lock);
        if (fd < 0 || stop) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        SSL *ssl = SSL_new(server->context);
        SSL_set_fd(ssl, fd);
        if (SSL_accept(ssl) == 1)
            answer(server, ssl);
        SSL_free(ssl);
        close(fd);
    }
}

static void start(struct server *server, const struct identity *identity, const struct identity *ca)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *server = (struct server){.context = SSL_CTX_new(TLS_server_method())};
    assert_non_null(server->context);
    assert_int_equal(SSL_CTX_use_certificate(server->context, identity->cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(server->context, identity->key), 1);
    if (ca) { /* whoever comes must show a certificate of this authority */
        X509_STORE_add_cert(SSL_CTX_get_cert_store(server->context), ca->cert);
        SSL_CTX_set_verify(server->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                           NULL);
    }
    pthread_mutex_init(&server->lock, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server->listener, 8), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    server->stop = true;
    pthread_mutex_unlock(&server->lock);
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    SSL_CTX_free(server->context);
    pthread_mutex_destroy(&server->lock);
}

struct world {
    struct identity ca, other_ca, server_id, client_id, stranger_id;
    struct server server;
    char url[64], ns[8];
};

static void open_world(struct world *world, bool mutual)
{
    *world = (struct world){.ns = "default"};
    make_identity(&world->ca, NULL, "ca", NULL);
    make_identity(&world->other_ca, NULL, "other", NULL);
    make_identity(&world->server_id, &world->ca, "server", "IP:127.0.0.1,DNS:api.test");
    make_identity(&world->client_id, &world->ca, "aware", NULL);
    make_identity(&world->stranger_id, &world->other_ca, "stranger", NULL);
    start(&world->server, &world->server_id, mutual ? &world->ca : NULL);
    snprintf(world->url, sizeof world->url, "https://127.0.0.1:%u", world->server.port);
}

static void close_world(struct world *world)
{
    stop(&world->server);
    free_identity(&world->ca);
    free_identity(&world->other_ca);
    free_identity(&world->server_id);
    free_identity(&world->client_id);
    free_identity(&world->stranger_id);
}

static struct aw_kube_pem pem(char *text)
{
    return (struct aw_kube_pem){.bytes = text, .len = strlen(text)};
}

/* One request, one attempt. */
static enum aw_err ask(const struct aw_kube_config *config, struct aw_diag *diag)
{
    struct aw_kube *kube = NULL;
    json_t *body = NULL;
    assert_ok(aw_kube_open(&kube, config, NULL, NULL, diag));
    const struct aw_kube_request request = {
        .path = "/version", .once = true, .timeout_us = 60000000};
    enum aw_err err = aw_kube_send(kube, &request, &body, NULL, diag);
    if (!err)
        assert_string_equal(aw_kube_text_at(body, "kind"), "Ok");
    json_decref(body);
    aw_kube_close(kube);
    return err;
}

static void a_server_is_trusted_by_its_authority_alone(void **state)
{
    struct world world;
    struct aw_diag diag = {0};
    (void)state;
    open_world(&world, false);
    struct aw_kube_config config = {.server = world.url, .ns = world.ns};
    config.ca = pem(world.ca.cert_pem);
    assert_ok(ask(&config, &diag));
    config.ca = pem(world.other_ca.cert_pem);
    assert_int_equal(ask(&config, &diag), AW_ERR_CONFIG);
    assert_true(diag.text[0]);
    config.ca = (struct aw_kube_pem){0}; /* the system knows nothing of it */
    assert_int_equal(ask(&config, &diag), AW_ERR_CONFIG);
    config.insecure = true;
    assert_ok(ask(&config, &diag));
    close_world(&world);
}

static void a_server_under_another_name_is_checked_by_that_name(void **state)
{
    struct world world;
    char name[] = "api.test", wrong[] = "other.test", host[64];
    (void)state;
    open_world(&world, false);
    struct aw_kube_config config = {
        .server = world.url, .ns = world.ns, .tls_server_name = name, .ca = pem(world.ca.cert_pem)};
    assert_ok(ask(&config, NULL));
    snprintf(host, sizeof host, "127.0.0.1:%u", world.server.port);
    pthread_mutex_lock(&world.server.lock);
    assert_string_equal(world.server.sni, "api.test");
    assert_string_equal(world.server.host, host);
    pthread_mutex_unlock(&world.server.lock);
    config.tls_server_name = wrong;
    assert_int_equal(ask(&config, NULL), AW_ERR_CONFIG);
    close_world(&world);
}

static void we_are_known_by_our_certificate_inline_or_in_a_file(void **state)
{
    struct world world;
    struct aw_diag diag = {0};
    char cert_file[] = "/tmp/aw-cert-XXXXXX", key_file[] = "/tmp/aw-key-XXXXXX";
    (void)state;
    open_world(&world, true);
    struct aw_kube_config config = {.server = world.url,
                                    .ns = world.ns,
                                    .ca = pem(world.ca.cert_pem),
                                    .cert = pem(world.client_id.cert_pem),
                                    .key = pem(world.client_id.key_pem)};
    assert_ok(ask(&config, &diag));
    pthread_mutex_lock(&world.server.lock);
    assert_string_equal(world.server.peer, "aware");
    pthread_mutex_unlock(&world.server.lock);
    const int cert_fd = mkstemp(cert_file), key_fd = mkstemp(key_file);
    const size_t cert_len = strlen(world.client_id.cert_pem);
    const size_t key_len = strlen(world.client_id.key_pem);
    assert_int_equal(write(cert_fd, world.client_id.cert_pem, cert_len), cert_len);
    assert_int_equal(write(key_fd, world.client_id.key_pem, key_len), key_len);
    config.cert = (struct aw_kube_pem){.file = cert_file};
    config.key = (struct aw_kube_pem){.file = key_file};
    assert_ok(ask(&config, &diag));
    /* nobody, somebody else's, and a key that does not fit */
    config.cert = config.key = (struct aw_kube_pem){0};
    assert_int_not_equal(ask(&config, &diag), AW_OK);
    config.cert = pem(world.stranger_id.cert_pem);
    config.key = pem(world.stranger_id.key_pem);
    assert_int_not_equal(ask(&config, &diag), AW_OK);
    config.key = pem(world.client_id.key_pem);
    assert_int_equal(ask(&config, &diag), AW_ERR_CONFIG);
    assert_null(strstr(diag.text, "PRIVATE"));
    close(cert_fd);
    close(key_fd);
    unlink(cert_file);
    unlink(key_file);
    close_world(&world);
}

/* A plugin brings the certificate; the configuration has none. */
static void a_plugins_certificate_is_shown(void **state)
{
    struct world world;
    char path[] = "/tmp/aw-plugin-XXXXXX", api[] = "client.authentication.k8s.io/v1";
    (void)state;
    open_world(&world, true);
    const int fd = mkstemp(path);
    FILE *script = fdopen(fd, "w");
    assert_non_null(script);
    json_t *credential =
        json_pack("{s:s, s:s, s:{s:s, s:s}}", "apiVersion", api, "kind", "ExecCredential", "status",
                  "clientCertificateData", world.client_id.cert_pem, "clientKeyData",
                  world.client_id.key_pem);
    char *text = json_dumps(credential, JSON_COMPACT);
    fprintf(script, "#!/bin/sh\ncat <<'END'\n%s\nEND\n", text);
    assert_int_equal(fchmod(fd, 0700), 0);
    assert_int_equal(fclose(script), 0);
    struct aw_kube_config config = {.server = world.url,
                                    .ns = world.ns,
                                    .ca = pem(world.ca.cert_pem),
                                    .exec = {.command = path, .api_version = api}};
    assert_ok(ask(&config, NULL));
    pthread_mutex_lock(&world.server.lock);
    assert_string_equal(world.server.peer, "aware");
    pthread_mutex_unlock(&world.server.lock);
    free(text);
    json_decref(credential);
    unlink(path);
    close_world(&world);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* of the server: clients that trust nobody hang up on it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_trusted_by_its_authority_alone),
        cmocka_unit_test(a_server_under_another_name_is_checked_by_that_name),
        cmocka_unit_test(we_are_known_by_our_certificate_inline_or_in_a_file),
        cmocka_unit_test(a_plugins_certificate_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
