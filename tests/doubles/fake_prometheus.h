/*
 * fake_prometheus.h - a Prometheus for tests that answers what it is told to, true or not.
 *
 * Strict about the form of a question (path, method, parameters, content type) as the real one is;
 * what it answers is the test's text, chosen by what the question contains. It evaluates nothing:
 * that questions mean what they should is tested against the real program (tests/kube).
 *
 * Call order: open; answers; point a client at `url`; close after the client.
 * Memory:     the process heap. Threads: every function may be called while it serves.
 */
#ifndef AW_DOUBLES_FAKE_PROMETHEUS_H
#define AW_DOUBLES_FAKE_PROMETHEUS_H

#include <aware/err.h>

struct aw_fake_prometheus;

struct aw_fake_prometheus *aw_fake_prometheus_open(void); /* NULL: no port, no memory */
void aw_fake_prometheus_close(struct aw_fake_prometheus *twin);
const char *aw_fake_prometheus_url(const struct aw_fake_prometheus *twin);

/* Questions that contain `match` are answered so from now on; the first match in the order of
 * calls counts, and a `match` that is there already is replaced. Copied. A status of 0: the
 * connection is cut. `body` NULL: an empty vector. Everything else is an empty vector too. */
void aw_fake_prometheus_answer(struct aw_fake_prometheus *twin, const char *match, int status,
                               const char *body);
void aw_fake_prometheus_forget(struct aw_fake_prometheus *twin); /* all answers */
/* Requests without "Bearer `token`" are 401 from now on. Copied. */
void aw_fake_prometheus_token(struct aw_fake_prometheus *twin, const char *token);

/* Questions so far that contain `match`. */
uint32_t aw_fake_prometheus_count(struct aw_fake_prometheus *twin, const char *match);
/* The last question that contains `match`, "" if none; until the next call of this function. */
const char *aw_fake_prometheus_last(struct aw_fake_prometheus *twin, const char *match);

#endif
