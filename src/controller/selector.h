/*
 * selector.h - which pods a label selector means, in the text form that the scale subresource has:
 * "app=web,tier!=db,env in (a,b),!canary,track".
 *
 * Call order: print makes the text of a Deployment's selector, pack the labels of a pod; then
 *             matches, as often as wanted.
 * Memory:     the caller's buffers. Threads: pure functions of their arguments.
 *
 * The trap: to Kubernetes an empty selector means everything. An autoscaler never scales
 * everything: here it means nothing, and so does a text that is not a selector.
 */
#ifndef AW_CONTROLLER_SELECTOR_H
#define AW_CONTROLLER_SELECTOR_H

#include <aware/err.h>

#include <jansson.h>

#define AW__LABELS_MAX      64u  /* of one pod that are kept */
#define AW__LABEL_BYTES_MAX 512u /* "prefix/key=value" with its NUL; the API allows 381 */

/* A metav1.LabelSelector as text. AW_ERR_LIMIT: `size` is too small; AW_ERR_FORMAT: not a
 * selector. */
AW_NODISCARD enum aw_err aw__selector_print(const json_t *selector, char *buf, size_t size);

/* `labels`: "key=value" texts one behind the other, each with its NUL, `len` bytes in all. */
bool aw__selector_matches(const char *selector, const char *labels, size_t len);

/* A "key=value" that everything selected has, for an index; false: it demands no such thing. */
bool aw__selector_pair(const char *selector, char *buf, size_t size);

/* The labels of an object in the form above; what does not fit is AW_ERR_LIMIT. */
AW_NODISCARD enum aw_err aw__labels_pack(const json_t *labels, char *buf, size_t size,
                                         size_t *ret_len);

#endif
