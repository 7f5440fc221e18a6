/*
 * admission_review.h - an AdmissionReview in, an AdmissionReview out: pure.
 *
 * A pod that is about to be created, whose owner has an object that sizes new pods, gets the
 * recommended requests (limits in proportion, LimitRanges obeyed) as a JSON patch, and an
 * annotation that says that we did it, and why. Everything else is allowed unchanged: other kinds,
 * other operations, pods without an owner, objects that are Off, too new to have been read, or
 * whose target another autoscaler has.
 *
 * The age of a recommendation does not matter here: a pod that is replaced while the recommender is
 * away should come back with the size that it had.
 *
 * Memory:  the answer is a jansson value, the caller's to decref.
 * Threads: pure but for the world's functions.
 *
 * The trap: no answer denies. There is no code for it, and there must not be.
 */
#ifndef AW_CONTROLLER_ADMISSION_REVIEW_H
#define AW_CONTROLLER_ADMISSION_REVIEW_H

#include "controller/sizing.h"

#define AW__REVIEW_UID_MAX    128u /* with the NUL; longer ones are not answered */
#define AW__REVIEW_ANNOTATION "autoscaling.aware.dev/sized"

/* What is known of the cluster. No function is NULL; what they return lives until the review ends.
 */
struct aw__review_world {
    /* The Deployment of a ReplicaSet; NULL: none, or the set is not known. */
    const char *(*deployment)(void *ctx, const char *ns, const char *set);
    /* The object of a target (aw__target_key), and its name; NULL: none. */
    const struct aw__mpa_intent *(*intent)(void *ctx, const char *target, const char **ret_name);
    /* The LimitRanges of a namespace; NULL: none. */
    const struct aw__limit_range *(*limits)(void *ctx, const char *ns);
    void *ctx;
};

enum aw__review_verdict {
    AW__REVIEW_UNREAD,  /* a pod, or something like one, that was not understood */
    AW__REVIEW_FOREIGN, /* no object here asks to size it */
    AW__REVIEW_FITTING, /* it has that size already */
    AW__REVIEW_SIZED,
};

/* AW_ERR_FORMAT: not an AdmissionReview that can be answered (admission.k8s.io v1 or v1beta1, with
 * a uid); AW_ERR_NOMEM. Else there is an answer, and it allows. */
AW_NODISCARD enum aw_err aw__review(const char *bytes, size_t len,
                                    const struct aw__review_world *world, json_t **ret_answer,
                                    enum aw__review_verdict *ret_verdict, struct aw_diag *diag);

#endif
