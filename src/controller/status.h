/*
 * status.h - the status of a MultidimPodAutoscaler, as a struct and as the object has it.
 *
 * This is all that passes between the controllers: the recommender writes it, the updater and the
 * admission webhook act on what they read of it, `kubectl get mpa` shows it.
 *
 * Call order: read what the object has (or begin zeroed); set what is known now; where differs says
 *             so, patch the object with json.
 * Memory:     a plain struct without pointers. JSON is jansson's, the caller's to decref.
 * Threads:    pure functions of their arguments.
 *
 * The trap: a recommendation is old when the recommender has not renewed it for a while, whatever
 * its values. Check its time and observedGeneration before acting on it.
 */
#ifndef AW_CONTROLLER_STATUS_H
#define AW_CONTROLLER_STATUS_H

#include <aware/cluster.h>

#include "kube/object.h"

/* The kind itself. */
extern const struct aw_kube_kind aw_mpa_kind;

#define AW_MPA_WORD_MAX    64u  /* of a reason, a mode, a stage; with the NUL, as all below */
#define AW_MPA_MESSAGE_MAX 320u /* of a sentence; longer ones are cut */
#define AW_MPA_ID_MAX      24u  /* of a decision: a number of the audit log */

/* clang-format off */
/*     id                       type                       True means */
#define AW_MPA_CONDITION_MAP(X)                                                                    \
    X(CONFIG_INVALID,          "ConfigInvalid",           "the object cannot be taken as it is")   \
    X(ABLE_TO_SCALE,           "AbleToScale",             "the target is there and can be scaled") \
    X(NO_PODS_MATCHED,         "NoPodsMatched",           "the target has no pods")                \
    X(SCALING_ACTIVE,          "ScalingActive",           "decisions are made on fresh figures")   \
    X(RECOMMENDATION_PROVIDED, "RecommendationProvided",  "there is a recommendation")             \
    X(LOW_CONFIDENCE,          "LowConfidence",           "what is known is too little to trust")  \
    X(SCALING_LIMITED,         "ScalingLimited",          "a rail or a bound holds it back")       \
    X(FALLBACK_ACTIVE,         "FallbackActive",          "the fallback decides, not the agent")   \
    X(FROZEN,                  "Frozen",                  "a person ordered that nothing changes")
/* clang-format on */
enum aw_mpa_condition_type {
#define X(id, type, means) AW_MPA_##id,
    AW_MPA_CONDITION_MAP(X)
#undef X
        AW_MPA_CONDITION_COUNT
};

/* metav1.Condition.status; ABSENT: the object has no such condition. */
enum aw_mpa_holds { AW_MPA_ABSENT, AW_MPA_FALSE, AW_MPA_TRUE, AW_MPA_UNKNOWN };

struct aw_mpa_condition {
    enum aw_mpa_holds holds;
    char reason[AW_MPA_WORD_MAX];
    char message[AW_MPA_MESSAGE_MAX];
    int64_t changed_us; /* wall: when `holds` changed last */
    int64_t generation; /* it was judged by */
};

/* What a replica and their number should be. */
struct aw_mpa_recommendation {
    bool given;
    int32_t replicas;
    int64_t cpu_millicores, memory_bytes; /* of one replica */
    char container[AW_KUBE_NAME_MAX];     /* the one that is sized; "": the first */
    char decision[AW_MPA_ID_MAX];
    int64_t at_us; /* wall: when it was last meant */
};

struct aw_mpa_status {
    int64_t generation;         /* observedGeneration; 0: none yet */
    char mode[AW_MPA_WORD_MAX]; /* "Off", "Initial", "Auto", "Approve"; "": not known */
    char stage[AW_MPA_WORD_MAX];
    int32_t replicas; /* that the target has; -1: not known */
    struct aw_mpa_recommendation recommendation;
    char slo[AW_MPA_WORD_MAX]; /* "99.4%" */
    struct {
        char id[AW_MPA_ID_MAX]; /* "": none yet */
        int64_t at_us;
        char actor[AW_MPA_WORD_MAX], reason[AW_MPA_WORD_MAX];
        char message[AW_MPA_MESSAGE_MAX];
    } last; /* decision */
    struct aw_mpa_condition condition[AW_MPA_CONDITION_COUNT];
};

void aw_mpa_status_init(struct aw_mpa_status *status);

/* Of an object or of its `status` alone. What cannot be understood counts as missing: the next
 * write puts it right. */
void aw_mpa_status_read(const json_t *status, struct aw_mpa_status *ret);
/* The value of `status`, for a merge patch: what is not known is null, so that nothing old stays.
 * NULL: no memory. */
json_t *aw_mpa_status_json(const struct aw_mpa_status *status);

/* The same in as few bytes as it has texts: there are thousands, and most of one is empty. Returns
 * the bytes that it takes, at most AW_MPA_PACKED_MAX; where `size` is less nothing of use is in
 * `buf`. */
#define AW_MPA_PACKED_MAX (sizeof(struct aw_mpa_status))
size_t aw_mpa_status_pack(const struct aw_mpa_status *status, void *buf, size_t size);
/* `len` 0: nothing is known. Of bytes that are no whole status, what is missing is empty. */
void aw_mpa_status_unpack(const void *bytes, size_t len, struct aw_mpa_status *ret);

/* Sets a condition; the time of its last change stays where it holds as it did. */
void aw_mpa_condition_set(struct aw_mpa_status *status, enum aw_mpa_condition_type type, bool holds,
                          int64_t now_us, const char *reason, const char *fmt, ...) AW_PRINTF(6, 7);
void aw_mpa_condition_drop(struct aw_mpa_status *status, enum aw_mpa_condition_type type);

/* How much of a difference there is between what is written and what is known now. */
enum aw_mpa_difference {
    AW_MPA_SAME,
    AW_MPA_WORDS, /* figures and sentences for people alone */
    AW_MPA_NEWS,  /* changes what updater or webhook do: to be written at once */
};
/* `deadband` is the relative change of a recommended size that is no news; 0: any is. */
enum aw_mpa_difference aw_mpa_status_differs(const struct aw_mpa_status *written,
                                             const struct aw_mpa_status *now, double deadband);

#endif
