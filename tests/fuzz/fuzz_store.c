/*
 * fuzz_store.c - any bytes as trajectories, in both formats: refused in one line with its number,
 * or rows that go out and come in again unchanged.
 */
#include "fuzz.h"

#include "store/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (256u << 10)

static const struct aw_store_options options = {
    .rows_max = 64, .episodes_max = 64, .workloads_max = 64, .obs_dim_max = 32, .act_dim_max = 4};

static uint32_t lines_of(const char *text, size_t len)
{
    uint32_t lines = 1;
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    return lines;
}

/* The whole store as text, which the caller frees. */
static char *export_all(struct aw_store *store, enum aw_transfer_format format, size_t *ret_len)
{
    char *text = NULL;
    uint64_t rows;
    FILE *out = open_memstream(&text, ret_len);
    AW_ASSERT(out);
    AW_ASSERT(!aw_store_export(store, &AW_STORE_EVERY, format, out, NULL, &rows, NULL));
    AW_ASSERT(!fclose(out));
    return text;
}

static enum aw_err import_all(struct aw_store *store, enum aw_transfer_format format, char *text,
                              size_t len, uint64_t *rows, struct aw_diag *diag)
{
    FILE *in = fmemopen(text, len, "r");
    AW_ASSERT(in);
    enum aw_err err = aw_store_import(store, format, in, "input", NULL, rows, diag);
    fclose(in);
    return err;
}

static void check_round_trip(struct aw_store *store, enum aw_transfer_format format)
{
    struct aw_store other;
    size_t len = 0, len_again = 0;
    uint64_t rows;
    char *text = export_all(store, format, &len);
    AW_ASSERT(!aw_store_open(&other, "memory", &options, NULL, NULL));
    AW_ASSERT(len == 0 || !import_all(&other, format, text, len, &rows, NULL));
    char *again = export_all(&other, format, &len_again);
    AW_ASSERT(len == len_again && !memcmp(text, again, len));
    free(text);
    free(again);
    aw_store_close(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[TEXT_BYTES_MAX];
    size = size < sizeof text ? size : sizeof text;
    if (size == 0)
        return 0; /* fmemopen refuses it */
    for (enum aw_transfer_format format = AW_TRANSFER_JSONL; format <= AW_TRANSFER_CSV; format++) {
        struct aw_store store;
        struct aw_diag diag = {0};
        uint64_t rows = 0;
        memcpy(text, data, size);
        AW_ASSERT(!aw_store_open(&store, "memory", &options, NULL, NULL));
        enum aw_err err = import_all(&store, format, text, size, &rows, &diag);
        if (err) {
            check_refusal(&diag, err);
            AW_ASSERT(diag.line >= 1 && diag.line <= lines_of(text, size));
        }
        AW_ASSERT(!store.grouped && rows <= lines_of(text, size));
        AW_ASSERT(!aw_store_check(&store, NULL));
        check_round_trip(&store, AW_TRANSFER_JSONL);
        check_round_trip(&store, AW_TRANSFER_CSV);
        aw_store_close(&store);
    }
    return 0;
}
