/*
 * validate.h - how wrong the simulated GPU is, on measurements that its laws were not fitted to.
 *
 * Every file of a folder (and of its folders) is told by its columns, never by its name. What is
 * held out, and how:
 *
 *   time, power         clock sweeps: of 12 clocks or fewer each in turn is predicted from the
 *                       others of the same program, and from what programs of other names that slow
 *                       alike leave over there; of more, a quarter of the clocks predicts the rest
 *   limit_time,_power   sweeps of power limits: each limit from the others of the same job
 *   gemm                each shape (operator and tensor parallelism) from the other shapes
 *   elementwise         half of the token counts from the other half, for each operator
 *   attention, network  half of the cases from the other half
 *   decode, prefill     each configuration (prompt, batch, answer; prompt, batch) from the others
 *                       of the same machine, and from what other machines leave over there
 *   length              prompts from other prompts (length_study.h)
 *   length_class        real predictions of classes: the medians of classes from the other half
 *
 * Memory:  freed again. Threads: no shared state.
 */
#ifndef AW_SERVING_VALIDATE_H
#define AW_SERVING_VALIDATE_H

#include <aware/err.h>

#define AW_VALIDATE_ROWS_MAX  256u
#define AW_VALIDATE_SKIPS_MAX 32u

struct aw_validate_row {
    char what[32];
    char file[128]; /* "" for all files together */
    uint64_t cases;
    double error_mean, error_p95;
    double tau, accuracy; /* NAN: not of this kind */
    double goal;          /* of error_mean; NAN: none */
};
struct aw_validate {
    uint32_t rows; /* those of all files first */
    struct aw_validate_row row[AW_VALIDATE_ROWS_MAX];
    uint32_t skipped; /* files of no known format, or that cannot be read */
    char skip[AW_VALIDATE_SKIPS_MAX][128], why[AW_VALIDATE_SKIPS_MAX][192];
    struct aw__validate_bag *bag; /* while it runs */
};
/* AW_ERR_NOTFOUND: no such folder; AW_ERR_NODATA: no file of a known format in it. A file that is
 * of no known format, or that cannot be read, is skipped, and `why` has the reason; where nothing
 * is left, the first file that could not be read is the error. */
AW_NODISCARD enum aw_err aw_validate_run(const char *folder, struct aw_validate *ret,
                                         struct aw_diag *diag);

/* --- for its files --- */

/* Relative errors of one file, by kind. */
void aw__validate_error(struct aw_validate *validate, const char *what, double predicted,
                        double measured);
struct aw_serving_table;
AW_NODISCARD enum aw_err aw__validate_clocks(struct aw_validate *validate, const char *path,
                                             const struct aw_serving_table *table, bool *ret_mine,
                                             struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__validate_operators(struct aw_validate *validate, const char *path,
                                                const struct aw_serving_table *table,
                                                bool *ret_mine, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__validate_phases(struct aw_validate *validate, const char *path,
                                             const struct aw_serving_table *table, bool *ret_mine,
                                             struct aw_diag *diag);

#endif
