/*
 * text.h - small tools for text: a bounded builder, quoting for people, numbers, UTF-8, CSV.
 *
 * Memory:  nothing is allocated; every function writes into a buffer of the caller and stops at its
 *          end. What was cut still ends with a NUL.
 * Threads: pure functions of their arguments.
 *
 * Numbers are read and written with a point whatever locale the process runs in: a library that
 * lets the locale decide writes "0,5" into JSON one day.
 */
#ifndef AW_BASE_TEXT_H
#define AW_BASE_TEXT_H

#include <aware/err.h>

/* A builder over the caller's buffer; its size is the maximum. */
struct aw_text {
    char *buf;
    size_t size; /* of buf, at least 1 */
    size_t len;  /* without the NUL */
    bool cut;    /* something did not fit */
};
void aw_text_init(struct aw_text *text, char *buf, size_t size);
void aw_text_add(struct aw_text *text, const char *fmt, ...) AW_PRINTF(2, 3);
void aw_text_add_bytes(struct aw_text *text, const char *bytes, size_t len);

/* For messages: `bytes` in double quotes, control (C1 too) and non-UTF-8 bytes as \xNN, cut with
 * "..." after AW_TEXT_QUOTE_SHOWN bytes. AW_TEXT_QUOTE_MAX bytes of `buf` always suffice. Returns
 * `buf`. */
#define AW_TEXT_QUOTE_SHOWN 48u
#define AW_TEXT_QUOTE_MAX   256u
const char *aw_text_quote(const char *bytes, size_t len, char *buf, size_t size);

/* The shortest of 15 to 17 (float: 6 to 9) digits that reads back to the same bits; "inf", "-inf"
 * and "nan" for what is not finite. Returns `buf`, of at least AW_TEXT_REAL_MAX bytes. */
#define AW_TEXT_REAL_MAX 32u
const char *aw_text_real(double value, char *buf, size_t size);
const char *aw_text_real_f32(float value, char *buf, size_t size);

/* Reads all of `text` as [+-] digits [. digits] [e [+-] digits], with digits on at least one side
 * of the point. AW_ERR_FORMAT: not a decimal number (spaces, "inf" and hexadecimal are not).
 * AW_ERR_RANGE: beyond the largest finite one. What is too small becomes the nearest, down to 0. */
AW_NODISCARD enum aw_err aw_text_parse_real(const char *text, double *ret);
AW_NODISCARD enum aw_err aw_text_parse_real_f32(const char *text, float *ret);

/* Reads all of `text` as decimal digits; single underscores between digits are allowed. */
AW_NODISCARD enum aw_err aw_text_parse_u64(const char *text, uint64_t *ret);

/* Bytes of the well-formed UTF-8 character at `bytes`, of which `left` may be read; 0: none. */
size_t aw_text_utf8_length(const char *bytes, size_t left);
/* Offset of the first byte that is not well-formed UTF-8 (RFC 3629: no surrogates, no over-long
 * forms, nothing beyond U+10FFFF); `len` when all is well. */
size_t aw_text_utf8_bad(const char *bytes, size_t len);

/* Line and column, both 1-based, the column in bytes, of a byte offset. Lines end with \n. */
void aw_text_place(const char *bytes, size_t offset, uint32_t *ret_line, uint32_t *ret_column);

/* --- CSV: cells of lines, pointing into the bytes given --- */

#define AW_CSV_CELLS_MAX 256u

struct aw_csv_cell {
    const char *at;
    size_t len;
};

/* Walks lines; quotes around a cell are taken off, "" inside one is left as it is. */
struct aw_csv_lines {
    const char *at, *end;
    uint32_t line;  /* of the cells that were given last */
    char separator; /* between cells; 0: a comma */
};
/* The next line that is not empty: its cells, at most AW_CSV_CELLS_MAX. 0: the end. */
uint32_t aw_csv_next(struct aw_csv_lines *lines, struct aw_csv_cell *cells);
/* The place of a head among cells; UINT32_MAX: not there. */
uint32_t aw_csv_find(const struct aw_csv_cell *cells, uint32_t count, const char *head);
/* A number; NAN: none. */
double aw_csv_real(const struct aw_csv_cell *cell);

#endif
