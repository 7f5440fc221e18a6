/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target takes any bytes, must not crash, leak or hang, and checks what ought to hold for them
 * with AW_ASSERT. It runs under libFuzzer, or under driver.c over the files of a corpus.
 */
#ifndef AW_TESTS_FUZZ_H
#define AW_TESTS_FUZZ_H

#include <aware/err.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A refusal is one line that a terminal can show, whatever was in the input. */
static inline void check_refusal(const struct aw_diag *diag, enum aw_err err)
{
    char line[2048];
    aw_diag_format(diag, err, line, sizeof line);
    AW_ASSERT(err != AW_OK && diag->text[0]);
    for (const char *at = line; *at; at++)
        AW_ASSERT((unsigned char)*at >= 0x20 && *at != 0x7f);
}

#endif
