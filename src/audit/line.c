/* line.c - one line of the audit log. */
#include "audit/line.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/tree.h"

#define SEQ_DIGITS_MAX 19u
#define AT_US_MAX      253402300799999999 /* 9999-12-31T23:59:59.999999Z */

const char aw__audit_zeros[AW_AUDIT_HASH_LEN + 1] =
    "0000000000000000000000000000000000000000000000000000000000000000";

/* ---- hash ---- */

enum aw_err aw__audit_digest_init(struct aw__audit_digest *digest, struct aw_diag *diag)
{
    digest->method = EVP_MD_fetch(NULL, "SHA256", NULL);
    digest->context = EVP_MD_CTX_new();
    if (digest->method && digest->context)
        return AW_OK;
    aw__audit_digest_deinit(digest);
    return aw_fail(diag, AW_ERR_UNSUPPORTED, "libcrypto has no SHA-256 here");
}

void aw__audit_digest_deinit(struct aw__audit_digest *digest)
{
    EVP_MD_CTX_free(digest->context);
    EVP_MD_free(digest->method);
    *digest = (struct aw__audit_digest){0};
}

enum aw_err aw__audit_hash(struct aw__audit_digest *digest, const char *body, size_t len,
                           char hash[AW_AUDIT_HASH_LEN + 1], struct aw_diag *diag)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[AW_AUDIT_HASH_LEN / 2];
    unsigned int raw_len = 0;
    if (EVP_DigestInit_ex(digest->context, digest->method, NULL) != 1 ||
        EVP_DigestUpdate(digest->context, body, len) != 1 ||
        EVP_DigestUpdate(digest->context, "}", 1) != 1 ||
        EVP_DigestFinal_ex(digest->context, raw, &raw_len) != 1 || raw_len != sizeof raw)
        return aw_fail(diag, AW_ERR_NOMEM, "libcrypto could not compute a hash");
    for (uint32_t i = 0; i < sizeof raw; i++) {
        hash[2 * i] = digits[raw[i] >> 4];
        hash[2 * i + 1] = digits[raw[i] & 15];
    }
    hash[AW_AUDIT_HASH_LEN] = '\0';
    return AW_OK;
}

/* ---- members ---- */

bool aw__audit_kind_fine(const char *kind)
{
    size_t len = strnlen(kind, AW_AUDIT_KIND_MAX);
    return len > 0 && len < AW_AUDIT_KIND_MAX &&
           strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

struct cursor {
    const char *at, *end;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static bool take(struct cursor *c, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, text, len) != 0)
        return false;
    c->at += len;
    return true;
}

static bool take_digits(struct cursor *c)
{
    const char *start = c->at;
    while (c->at < c->end && is_digit(*c->at))
        c->at++;
    return c->at > start;
}

static bool take_number(struct cursor *c)
{
    take(c, "-");
    if (!take(c, "0") && !take_digits(c))
        return false;
    if (take(c, ".") && !take_digits(c))
        return false;
    if (take(c, "e") || take(c, "E")) {
        if (!take(c, "+"))
            take(c, "-");
        return take_digits(c);
    }
    return true;
}

static bool take_escape(struct cursor *c)
{
    if (c->at == c->end)
        return false;
    char kind = *c->at++;
    if (kind != 'u')
        return kind && strchr("\"\\/bfnrt", kind);
    for (uint32_t i = 0; i < 4; i++, c->at++)
        if (c->at == c->end || !(is_hex(*c->at) || (*c->at >= 'A' && *c->at <= 'F')))
            return false;
    return true;
}

/* RFC 8259, section 7; that the bytes are UTF-8 is checked once for the whole line. */
static bool take_string(struct cursor *c)
{
    if (!take(c, "\""))
        return false;
    while (c->at < c->end) {
        unsigned char byte = (unsigned char)*c->at++;
        if (byte == '"')
            return true;
        if (byte < 0x20 || (byte == '\\' && !take_escape(c)))
            return false;
    }
    return false;
}

static bool take_value(struct cursor *c, uint32_t depth);

static bool take_list(struct cursor *c, uint32_t depth)
{
    if (take(c, "]"))
        return true;
    do {
        if (!take_value(c, depth + 1))
            return false;
    } while (take(c, ","));
    return take(c, "]");
}

static bool take_map(struct cursor *c, uint32_t depth)
{
    if (take(c, "}"))
        return true;
    do {
        if (!take_string(c) || !take(c, ":") || !take_value(c, depth + 1))
            return false;
    } while (take(c, ","));
    return take(c, "}");
}

static bool take_value(struct cursor *c, uint32_t depth)
{
    if (depth > AW_TREE_DEPTH_MAX || c->at == c->end)
        return false;
    if (*c->at == '"')
        return take_string(c);
    if (take(c, "["))
        return take_list(c, depth);
    if (take(c, "{"))
        return take_map(c, depth);
    return take(c, "true") || take(c, "false") || take(c, "null") || take_number(c);
}

/* A key spelt with escapes could mean one of these and not look like it. */
static bool key_fine(const char *key, size_t len)
{
    static const char *const taken[] = {"seq", "at", "kind", "first", "prev", "hash"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (len == strlen(taken[i]) && !memcmp(key, taken[i], len))
            return false;
    return !memchr(key, '\\', len);
}

enum aw_err aw__audit_check_members(const char *members, size_t len, struct aw_diag *diag)
{
    struct cursor c = {.at = members, .end = members + len};
    char quoted[AW_TEXT_QUOTE_MAX];
    if (len == 0)
        return AW_OK;
    if (aw_text_utf8_bad(members, len) != len)
        return aw_fail(diag, AW_ERR_FORMAT, "expected UTF-8, found other bytes at offset %zu",
                       aw_text_utf8_bad(members, len));
    do {
        const char *key = c.at;
        if (!take_string(&c))
            break;
        size_t key_len = (size_t)(c.at - key) - 2;
        if (!key_fine(key + 1, key_len))
            return aw_fail(diag, AW_ERR_RANGE,
                           "expected a key of the caller's own without escapes, found %s",
                           aw_text_quote(key + 1, key_len, quoted, sizeof quoted));
        if (!take(&c, ":") || !take_value(&c, 1))
            break;
        if (c.at == c.end)
            return AW_OK;
    } while (take(&c, ","));
    return aw_fail(diag, AW_ERR_FORMAT,
                   "expected JSON members without white space, found %s at offset %zu",
                   aw_text_quote(c.at, (size_t)(c.end - c.at), quoted, sizeof quoted),
                   (size_t)(c.at - members));
}

/* ---- time ---- */

bool aw_audit_format_at(int64_t at_us, char text[AW__AUDIT_AT_LEN + 1])
{
    struct tm tm;
    if (at_us < 0 || at_us > AT_US_MAX)
        return false;
    time_t seconds = (time_t)(at_us / 1000000);
    if (!gmtime_r(&seconds, &tm))
        return false;
    struct aw_text out;
    aw_text_init(&out, text, AW__AUDIT_AT_LEN + 1);
    aw_text_add(&out, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900, tm.tm_mon + 1,
                tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(at_us % 1000000));
    return !out.cut;
}

/* By writing it again: what is not written so was not written here. */
static bool parse_at(const char *text, int64_t *ret_us)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
    char again[AW__AUDIT_AT_LEN + 1];
    int part[7] = {0}, at = 0;
    for (uint32_t i = 0; i < AW__AUDIT_AT_LEN; i++) {
        if (shape[i] == 'd' ? !is_digit(text[i]) : text[i] != shape[i])
            return false;
        if (shape[i] == 'd')
            part[at] = part[at] * 10 + (text[i] - '0');
        else
            at++;
    }
    struct tm tm = {.tm_year = part[0] - 1900,
                    .tm_mon = part[1] - 1,
                    .tm_mday = part[2],
                    .tm_hour = part[3],
                    .tm_min = part[4],
                    .tm_sec = part[5]};
    int64_t us = (int64_t)timegm(&tm) * 1000000 + part[6];
    if (!aw_audit_format_at(us, again) || memcmp(again, text, AW__AUDIT_AT_LEN) != 0)
        return false;
    *ret_us = us;
    return true;
}

/* ---- lines ---- */

enum aw_err aw__audit_write_line(struct aw__audit_digest *digest,
                                 const struct aw__audit_fields *fields, char *buf, size_t size,
                                 size_t *ret_len, char hash[AW_AUDIT_HASH_LEN + 1],
                                 struct aw_diag *diag)
{
    char at[AW__AUDIT_AT_LEN + 1];
    struct aw_text out;
    AW_ASSERT(aw_audit_format_at(fields->at_us, at));
    aw_text_init(&out, buf, size);
    aw_text_add(&out, "{\"seq\":%ju,\"at\":\"%s\",\"kind\":\"%s\"", (uintmax_t)fields->seq, at,
                fields->kind);
    if (fields->first)
        aw_text_add(&out, ",\"first\":true");
    if (fields->members_len) {
        aw_text_add(&out, ",");
        aw_text_add_bytes(&out, fields->members, fields->members_len);
    }
    aw_text_add(&out, ",\"prev\":\"%.*s\"", (int)AW_AUDIT_HASH_LEN, fields->prev);
    if (out.cut)
        return aw_fail(diag, AW_ERR_LIMIT, "the line is larger than the %zu bytes that are left",
                       size);
    enum aw_err err = aw__audit_hash(digest, buf, out.len, hash, diag);
    if (err)
        return err;
    aw_text_add(&out, ",\"hash\":\"%s\"}\n", hash);
    if (out.cut)
        return aw_fail(diag, AW_ERR_LIMIT, "the line is larger than the %zu bytes that are left",
                       size);
    *ret_len = out.len;
    return AW_OK;
}

static bool take_hash(struct cursor *c, const char *label, const char **ret)
{
    if (!take(c, label) || (size_t)(c->end - c->at) < AW_AUDIT_HASH_LEN)
        return false;
    for (uint32_t i = 0; i < AW_AUDIT_HASH_LEN; i++)
        if (!is_hex(c->at[i]))
            return false;
    *ret = c->at;
    c->at += AW_AUDIT_HASH_LEN;
    return take(c, "\"");
}

static bool take_seq(struct cursor *c, uint64_t *ret)
{
    const char *start = c->at;
    uint64_t seq = 0;
    if (!take_digits(c) || *start == '0' || (size_t)(c->at - start) > SEQ_DIGITS_MAX)
        return false;
    for (const char *p = start; p < c->at; p++)
        seq = seq * 10 + (uint64_t)(*p - '0');
    *ret = seq;
    return true;
}

static bool take_kind(struct cursor *c, char kind[AW_AUDIT_KIND_MAX])
{
    const char *quote = memchr(c->at, '"', (size_t)(c->end - c->at));
    size_t len = quote ? (size_t)(quote - c->at) : 0;
    if (!quote || len >= AW_AUDIT_KIND_MAX)
        return false;
    memset(kind, 0, AW_AUDIT_KIND_MAX);
    memcpy(kind, c->at, len);
    c->at = quote + 1;
    return strlen(kind) == len && aw__audit_kind_fine(kind);
}

const char *aw__audit_read_line(struct aw__audit_digest *digest, const char *line, size_t len,
                                struct aw_audit_entry *entry, bool *ret_first)
{
    const size_t prev_len = AW__AUDIT_TAIL_LEN - 1; /* ,"prev":"<64 hex>" */
    struct cursor c = {.at = line, .end = line + len};
    char hash[AW_AUDIT_HASH_LEN + 1];
    *entry = (struct aw_audit_entry){.line = line, .line_len = len};
    if (len < AW__AUDIT_TAIL_LEN + prev_len)
        return "expected an entry, found a line that is too short for one";
    struct cursor tail = {.at = line + len - AW__AUDIT_TAIL_LEN - prev_len, .end = line + len};
    if (!take_hash(&tail, ",\"prev\":\"", &entry->prev) ||
        !take_hash(&tail, ",\"hash\":\"", &entry->hash) || !take(&tail, "}"))
        return "expected prev and hash at its end, found something else";
    if (aw__audit_hash(digest, line, len - AW__AUDIT_TAIL_LEN, hash, NULL))
        return "expected to compute its hash, found no memory for that";
    if (memcmp(hash, entry->hash, AW_AUDIT_HASH_LEN) != 0)
        return "expected the hash of what it says, found another: it was edited";
    c.end = line + len - AW__AUDIT_TAIL_LEN - prev_len;
    if (!take(&c, "{\"seq\":") || !take_seq(&c, &entry->seq))
        return "expected a sequence number at its beginning, found something else";
    if (!take(&c, ",\"at\":\"") || (size_t)(c.end - c.at) < AW__AUDIT_AT_LEN ||
        !parse_at(c.at, &entry->at_us))
        return "expected a time, found something else";
    c.at += AW__AUDIT_AT_LEN;
    if (!take(&c, "\",\"kind\":\"") || !take_kind(&c, entry->kind))
        return "expected a kind, found something else";
    *ret_first = take(&c, ",\"first\":true");
    if (c.at < c.end) {
        if (!take(&c, ",") || c.at == c.end)
            return "expected members, found something else";
        entry->members = c.at;
        entry->members_len = (size_t)(c.end - c.at);
        if (aw__audit_check_members(entry->members, entry->members_len, NULL))
            return "expected members as JSON, found something else";
    }
    entry->intact = true;
    return NULL;
}

/* The bytes after "key": of a member; the log writes its own members first and plainly. */
static bool find_member(const struct aw_audit_entry *entry, const char *key, struct cursor *ret)
{
    struct cursor c = {.at = entry->members, .end = entry->members + entry->members_len};
    while (c.at < c.end) {
        const char *start = c.at + 1;
        if (!take_string(&c))
            return false;
        bool found = (size_t)(c.at - start) == strlen(key) + 1 && !memcmp(start, key, strlen(key));
        if (!take(&c, ":"))
            return false;
        if (found) {
            *ret = c;
            return true;
        }
        if (!take_value(&c, 1) || !take(&c, ","))
            return false;
    }
    return false;
}

bool aw__audit_member_u64(const struct aw_audit_entry *entry, const char *key, uint64_t *ret)
{
    struct cursor c;
    return find_member(entry, key, &c) && take_seq(&c, ret);
}

bool aw__audit_member_hash(const struct aw_audit_entry *entry, const char *key,
                           char hash[AW_AUDIT_HASH_LEN + 1])
{
    struct cursor c;
    const char *digits;
    if (!find_member(entry, key, &c) || !take_hash(&c, "\"", &digits))
        return false;
    memcpy(hash, digits, AW_AUDIT_HASH_LEN);
    hash[AW_AUDIT_HASH_LEN] = '\0';
    return true;
}
