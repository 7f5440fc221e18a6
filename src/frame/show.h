/*
 * show.h - answers of the daemon as people read them: members by path, amounts in human units,
 * times, plans, bars, and a document as YAML.
 *
 * Every format function writes into `buf` and returns it; what is not known is "-".
 *
 * Memory:  borrowed pointers into the document.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_FRAME_SHOW_H
#define AW_FRAME_SHOW_H

#include <aware/err.h>
#include <aware/resource.h>

#include <jansson.h>
#include <stdio.h>

#define AW_SHOW_MAX 64u /* bytes of a figure, with its NUL */

/* The member at a path with points between: "slo.latency_us". NULL: not there, or null. */
const json_t *aw_at(const json_t *object, const char *path);
double aw_at_real(const json_t *object, const char *path);      /* NAN: not a number */
int64_t aw_at_integer(const json_t *object, const char *path);  /* 0: not one */
const char *aw_at_text(const json_t *object, const char *path); /* "": not a text */
bool aw_at_true(const json_t *object, const char *path);

const char *aw_show_cpu(double millicores, char *buf, size_t size); /* "500m", "1.5" */
const char *aw_show_memory(double bytes, char *buf, size_t size);   /* "128Mi" */
/* Of any resource, by its unit. */
const char *aw_show_amount(enum aw_resource resource, double value, char *buf, size_t size);
const char *aw_show_latency(double us, char *buf, size_t size);                  /* "41ms" */
const char *aw_show_money(double dollars, char *buf, size_t size);               /* "$0.24" */
const char *aw_show_percent(double share, char *buf, size_t size);               /* "58%" */
const char *aw_show_change(double after, double before, char *buf, size_t size); /* "-23%" */
const char *aw_show_rate(double per_s, char *buf, size_t size);                  /* "120/s" */
const char *aw_show_age(double seconds, char *buf, size_t size); /* "5s", "3m", "2h30m", "4d" */
/* What has this unit in its name, "latency_us" or "memory_bytes_used", in human units. */
const char *aw_show_named(const char *name, double value, char *buf, size_t size);

/* RFC 3339 as the daemon writes it. AW_ERR_FORMAT. */
AW_NODISCARD enum aw_err aw_time_read(const char *text, int64_t *ret_us);
/* "2026-11-16 02:03:04"; simulated ones, which begin in 1970, as "3:04:00" and "1d 03:04:00". */
const char *aw_time_show(const char *text, char *buf, size_t size);
/* Back to what the daemon writes. */
const char *aw_time_write(int64_t us, char *buf, size_t size);
double aw__seconds_between(const char *from, const char *until); /* NAN: one is no time */

/* ", disk 64Mi" for every resource beyond the common three that `object` has an amount of, or
 * ", disk 1Mi to 512Mi" for {"min":, "max":}. Returns `buf`. */
const char *aw_show_more(const json_t *object, char *buf, size_t size);
/* "replicas 2 -> 3, memory 128Mi -> 256Mi"; "nothing" where nothing differs. `before` NULL: only
 * what is to be. */
#define AW_PLAN_MAX 160u
const char *aw_plan_show(const json_t *before, const json_t *after, char *buf, size_t size);

/* Where the policy of a decision's account began: "searched from the shared model default
 * (3f49..), known by 3 episodes of the fallback"; "-": at no model. */
const char *aw_show_origin(const json_t *account, char *buf, size_t size);

/* A bar of `width` cells for a share of 1. */
const char *aw_bar_show(double share, unsigned width, char *buf, size_t size);

/* A document as YAML in block style; a reader of YAML gets the same values. AW_ERR_IO. */
AW_NODISCARD enum aw_err aw_yaml_write(json_t *value, FILE *out);

#endif
