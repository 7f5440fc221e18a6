/*
 * guard.h - safeguards around whoever chooses a frequency (SOL, ASPLOS 2022, section 4).
 *
 * Five things may go wrong, and each has an answer that does not ask the model: data that cannot be
 * true are dropped; a prediction that is too old is not used; a model that earns less than the
 * fallback is withheld for a while; frequency above nominal that buys nothing (cores that wait for
 * memory) is not given; a processor that throttles is not pushed.
 *
 * Call order: init, then every second: sample, predict (when the model has one), decide.
 * Memory:     plain struct. Threads: single owner; time is an argument.
 */
#ifndef AW_FREQUENCY_GUARD_H
#define AW_FREQUENCY_GUARD_H

#include <aware/err.h>

#define AW_GUARD_WINDOW 100u /* seconds of what is looked back at */

struct aw_frequency_guard_config {
    bool off[5];          /* by enum aw_frequency_break: for tests, which show what each is for */
    int64_t expiry_us;    /* of a prediction: 5 s */
    uint32_t bad_max;     /* samples in a row until the nominal frequency: 3 */
    double alpha_min;     /* 90th percentile of busy, unstalled cycles: 0.1 */
    double margin;        /* of reward, by which a model may be behind: 0.02 */
    uint32_t assess_s;    /* seconds that a verdict needs: 30 */
    uint32_t withheld_s;  /* that a poor model stays out: 300 */
    uint32_t throttled_s; /* without turbo after a throttle: 30 */
};
struct aw_frequency_guard_config aw_frequency_guard_default(void);

enum aw_frequency_break {
    AW_BREAK_DATA,     /* counters that ran backwards, figures out of range */
    AW_BREAK_LATE,     /* no fresh prediction */
    AW_BREAK_MODEL,    /* earns less than the fallback */
    AW_BREAK_USELESS,  /* cores wait for memory */
    AW_BREAK_THROTTLE, /* too hot, or at the power limit */
    AW_BREAK_NONE
};
const char *aw_frequency_break_text(enum aw_frequency_break why);

/* One second as counters gave it. */
struct aw_frequency_sample {
    double ghz, ips, use, watts; /* NAN: not known */
    double alpha;                /* (unhalted - stalled)/all cycles; NAN: not known */
    double counted;              /* share of the time that counters ran: below 0.1 is no count */
    uint64_t throttles;          /* a counter */
    bool backwards;              /* a counter went back */
    double reward;               /* of the second; NAN: not known */
    bool by_model;               /* the model chose its frequency */
};

struct aw_frequency_guard {
    struct aw_frequency_guard_config config;
    double min_ghz, nominal_ghz, max_ghz, watts_max;
    uint32_t bad;
    uint64_t throttles;
    bool throttles_known;
    int64_t calm_until_us, withheld_until_us;
    double alpha[AW_GUARD_WINDOW];
    uint32_t alphas;
    double model_sum, fallback_mean;
    uint32_t model_count, fallback_count;
    double predicted_ghz;
    int64_t predicted_us;
    bool predicted;
    uint64_t trips[AW_BREAK_NONE];
};
void aw_frequency_guard_init(struct aw_frequency_guard *guard,
                             const struct aw_frequency_guard_config *config, double min_ghz,
                             double nominal_ghz, double max_ghz, double watts_max);
/* False: the sample cannot be true and must not be learned from. */
bool aw_frequency_guard_sample(struct aw_frequency_guard *guard,
                               const struct aw_frequency_sample *sample, int64_t now_us);
/* What the model wants. Not finite or out of range counts as no prediction. */
void aw_frequency_guard_predict(struct aw_frequency_guard *guard, double ghz, int64_t now_us);
/* The frequency to ask for, and why it is not the model's (AW_BREAK_NONE: it is). `fallback_ghz` is
 * what the fallback wants. */
double aw_frequency_guard_decide(struct aw_frequency_guard *guard, double fallback_ghz,
                                 int64_t now_us, enum aw_frequency_break *ret_why);

#endif
