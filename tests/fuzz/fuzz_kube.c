/*
 * fuzz_kube.c - any bytes as what an API server says: a line of a watch, a Status, a Lease, the
 * lists of discovery, a time.
 */
#include "fuzz.h"

#include "kube/discovery.h"
#include "kube/lease.h"
#include "kube/status.h"
#include "kube/watch.h"

#include <stdlib.h>
#include <string.h>

static void check_status(const struct aw_kube_status *status)
{
    AW_ASSERT(status->code != 0 && strlen(status->message) < AW_KUBE_MESSAGE_MAX);
    AW_ASSERT(status->retry_after_us >= 0 && status->retry_after_us <= AW_KUBE_RETRY_AFTER_MAX_US);
    for (const char *at = status->message; *at; at++)
        AW_ASSERT((unsigned char)*at >= 0x20 && *at != 0x7f);
    AW_ASSERT(aw_kube_status_err(status) < AW_ERR_COUNT);
}

static void check_watch(const char *bytes, size_t size)
{
    struct aw_kube_watch_event event = {0};
    struct aw_kube_meta meta;
    struct aw_diag diag = {0};
    char key[AW_KUBE_KEY_MAX];
    enum aw_err err = aw_kube_watch_decode(bytes, size, &event, &diag);
    if (err) {
        check_refusal(&diag, err);
        return;
    }
    AW_ASSERT(strlen(event.resource_version) < AW_KUBE_VERSION_MAX);
    if (event.type == AW_KUBE_ERROR)
        check_status(&event.status);
    else
        AW_ASSERT(event.resource_version[0]);
    if (aw_kube_meta_read(event.object, &meta, &diag) == AW_OK) {
        aw_kube_meta_key(&meta, key, sizeof key);
        AW_ASSERT(strlen(key) == strlen(meta.ns) + strlen(meta.name) + (meta.ns[0] ? 1 : 0));
        AW_ASSERT(aw_kube_name_valid(meta.name));
    }
    json_decref(event.object);
}

/* A Lease that was read is written and read back as the same. */
static void check_lease(const json_t *json)
{
    struct aw_kube_lease lease, back;
    if (aw_kube_lease_read(json, &lease, NULL) != AW_OK)
        return;
    json_t *object = aw_kube_lease_write(&lease, "n", "x");
    if (!object)
        return; /* a holder that was cut within a character */
    AW_ASSERT(aw_kube_lease_read(object, &back, NULL) == AW_OK);
    AW_ASSERT(!strcmp(lease.holder, back.holder) && lease.duration_s == back.duration_s);
    json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    struct aw_kube_status status;
    struct aw_kube_server server = {0};
    struct aw_diag diag = {0};
    int64_t us;
    char text[64], printed[AW_KUBE_TIME_MAX];
    check_watch(bytes, size);
    aw_kube_status_read(&status, 0, bytes, size, NULL);
    check_status(&status);
    json_t *json = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    check_lease(json);
    (void)!aw_kube_read_version(json, &server, &diag);
    (void)!aw_kube_read_groups(json, &server, &diag);
    (void)!aw_kube_read_core(json, &server, &diag);
    AW_ASSERT(strlen(server.eviction) < AW_KUBE_WORD_MAX);
    json_decref(json);
    const size_t len = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, bytes, len);
    text[len] = '\0';
    aw_kube_status_read(&status, 503, NULL, 0, text);
    check_status(&status);
    if (aw_kube_time_parse(text, &us) == AW_OK) {
        int64_t again = 0;
        aw_kube_time_print(us, printed, sizeof printed);
        AW_ASSERT(aw_kube_time_parse(printed, &again) == AW_OK);
    }
    return 0;
}
