/*
 * fuzz_door.c - any bytes as an address, a token and headers of a request by TCP: nobody orders
 * without the token, and no foreign name gets in by loopback.
 *
 * Lines: the address, the token, the method, the path, the Host, the Authorization. A line that is
 * missing is a header that is not there.
 */
#include "fuzz.h"

#include "web/listen_auth.h"
#include "web/page.h"
#include "web/reports.h"

#include <stdlib.h>
#include <string.h>

/* A Host that a browser sends for a name that somebody else owns has a letter beyond hexadecimal
 * ones, and is not localhost. */
static bool is_foreign(const char *host)
{
    return strncasecmp(host, "localhost", 9) != 0 && strpbrk(host, "ghijklmnopqrstuvwxyz") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *rest = text, *line[6] = {NULL};
    struct aw_listen_auth door = {0};
    struct aw_diag diag = {0};
    AW_ASSERT(text);
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < 6 && rest; i++)
        line[i] = strsep(&rest, "\n");
    const enum aw_err err = aw_listen_auth_parse(&door, line[0], &diag);
    if (err)
        check_refusal(&diag, err);
    else
        AW_ASSERT(*door.host && strlen(door.host) < sizeof door.host);
    struct sockaddr_storage address;
    socklen_t len;
    if (!err) {
        aw_listen_auth_address(&door, &address, &len);
        AW_ASSERT(len <= sizeof address);
        if (line[1] && strlen(line[1]) < sizeof door.token)
            memcpy(door.token, line[1], strlen(line[1]) + 1);
        const struct aw_listen_auth_request request = {.method = line[2] ? line[2] : "",
                                                       .path = line[3] ? line[3] : "",
                                                       .host = line[4],
                                                       .authorization = line[5]};
        const enum aw_listen_auth_verdict verdict = aw_listen_auth_judge(&door, &request);
        const bool knows = aw_listen_auth_knows(&door, line[5]);
        const bool reads = !strcmp(request.method, "GET") || !strcmp(request.method, "HEAD");
        AW_ASSERT(!knows || (*door.token && line[5] && strstr(line[5], door.token)));
        AW_ASSERT(verdict != AW_LISTEN_AUTH_OPEN || line[4]);
        AW_ASSERT(verdict != AW_LISTEN_AUTH_OPEN || reads || knows);
        AW_ASSERT(verdict != AW_LISTEN_AUTH_OPEN || !door.loopback || !is_foreign(line[4]));
    }
    if (line[3]) {
        /* what a path names is a file of the page, or a report with a name that is one */
        const struct aw_page_file *file = aw_page_find(line[3]);
        AW_ASSERT(!file || strncmp(file->path, line[3], strlen(file->path)) == 0);
        AW_ASSERT(!aw_report_name_sound(line[3]) ||
                  (*line[3] != '/' && *line[3] != '.' && !strstr(line[3], "/.")));
    }
    free(text);
    return 0;
}
