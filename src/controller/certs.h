/*
 * certs.h - the certificates of the webhook: an authority of its own, and what it serves with.
 *
 * Made with libcrypto: P-256 keys, an authority for five years, a serving certificate for ninety
 * days with the names of the Service. The serving one is renewed in its last third, the authority
 * in its last year; a certificate that begins an hour ago is good for clocks that are behind.
 *
 * Call order: load; ask `due` now and then, and renew.
 * Memory:     plain structs; the keys are in them: clear with deinit.
 * Threads:    single owner.
 *
 * One file, "webhook.pem" in a folder that is its owner's alone, has all four parts, so that a
 * crash never leaves a certificate with another's key. A file that is not understood, has expired
 * or is for other names is replaced.
 *
 * The trap: a new authority must be in the caBundle of every webhook before its certificate is
 * served.
 */
#ifndef AW_CONTROLLER_CERTS_H
#define AW_CONTROLLER_CERTS_H

#include <aware/err.h>

#define AW__CERT_PEM_MAX     4096u
#define AW__CERT_CA_US       (5 * 365 * 86400000000) /* how long an authority lives */
#define AW__CERT_CA_RENEW_US (365 * 86400000000)     /* left, when another one is made */
#define AW__CERT_US          (90 * 86400000000)
#define AW__CERT_RENEW_US    (30 * 86400000000)
#define AW__CERT_SKEW_US     3600000000
#define AW__CERT_NAMES_MAX   640u /* of the names together */
#define AW__BUNDLE_MAX       32768u
#define AW__BUNDLE_CERTS_MAX 8u /* authorities of a caBundle; the oldest goes first */

struct aw__certs {
    char ca[AW__CERT_PEM_MAX], ca_key[AW__CERT_PEM_MAX];
    char cert[AW__CERT_PEM_MAX], key[AW__CERT_PEM_MAX];
    int64_t ca_expires_us, expires_us; /* wall */
};

/* What a certificate is for: "SERVICE.NS.svc" and its shorter and longer forms, and addresses. */
struct aw__certs_subject {
    const char *service, *ns;
    const char *address; /* an additional IP address; NULL: none */
};

/* Reads what `dir` has, or makes it, and the folder too. `ret_made`: a new serving certificate.
 * AW_ERR_CONFIG: the folder is not its owner's alone; AW_ERR_IO; AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw__certs_load(struct aw__certs *certs, const char *dir,
                                        const struct aw__certs_subject *subject, int64_t now_us,
                                        bool *ret_made, struct aw_diag *diag);
bool aw__certs_due(const struct aw__certs *certs, int64_t now_us);
/* Makes `ret_certs` from `certs`: with its authority, or with a new one where that is due. Nothing
 * is written. */
AW_NODISCARD enum aw_err aw__certs_renew(const struct aw__certs *certs,
                                         const struct aw__certs_subject *subject, int64_t now_us,
                                         struct aw__certs *ret_certs, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__certs_save(const struct aw__certs *certs, const char *dir,
                                        struct aw_diag *diag);
void aw__certs_deinit(struct aw__certs *certs); /* overwrites the keys */

/* Puts `ca` into a caBundle (PEM): in front, then the unexpired ones that were there, without
 * doubles. Text that is not a certificate is dropped. Returns whether `buf` differs from `old`. */
bool aw__bundle_merge(const char *old, size_t old_len, const char *ca, int64_t now_us, char *buf,
                      size_t size);

#endif
