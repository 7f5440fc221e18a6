/*
 * prom_double.h - a Prometheus for tests that answers what it is told to, true or not.
 *
 * Strict about the form of a question (path, method, parameters, content type) as the real one is;
 * what it answers is the test's text, chosen by what the question contains. It evaluates nothing:
 * that questions mean what they should is tested against the real program (tests/kube).
 *
 * Call order: open; answers; point a client at `url`; close after the client.
 * Memory:     the process heap. Threads: every function may be called while it serves.
 */
#ifndef AW_KUBE_PROM_DOUBLE_H
#define AW_KUBE_PROM_DOUBLE_H

#include <aware/err.h>

struct aw_prom_double;

struct aw_prom_double *aw_prom_double_open(void); /* NULL: no port, no memory */
void aw_prom_double_close(struct aw_prom_double *twin);
const char *aw_prom_double_url(const struct aw_prom_double *twin);

/* Questions that contain `match` are answered so from now on; the first match in the order of
 * calls counts, and a `match` that is there already is replaced. Copied. A status of 0: the
 * connection is cut. `body` NULL: an empty vector. Everything else is an empty vector too. */
void aw_prom_double_answer(struct aw_prom_double *twin, const char *match, int status,
                           const char *body);
void aw_prom_double_forget(struct aw_prom_double *twin); /* all answers */
/* Requests without "Bearer `token`" are 401 from now on. Copied. */
void aw_prom_double_token(struct aw_prom_double *twin, const char *token);

/* Questions so far that contain `match`. */
uint32_t aw_prom_double_count(struct aw_prom_double *twin, const char *match);
/* The last question that contains `match`, "" if none; until the next call of this function. */
const char *aw_prom_double_last(struct aw_prom_double *twin, const char *match);

#endif
