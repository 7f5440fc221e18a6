/*
 * study_report.h - what an experiment found: figures beside the paper's, tables and curves.
 *
 * An experiment writes into it in the order in which it is to be read. The code that prints it (as
 * text, as JSON, as a page) knows nothing of the experiment.
 *
 * Call order: new; figure, table and row, plot, series and point, note, in any order; the members
 *             are read when all is in; free.
 * Memory:     grows up to the maxima below; what does not fit is refused (AW_ERR_RANGE), and so is
 *             what has an index that an earlier call returned for "full". Texts are cut.
 * Threads:    single owner.
 */
#ifndef AW_STUDY_STUDY_REPORT_H
#define AW_STUDY_STUDY_REPORT_H

#include <aware/err.h>

#include "base/alloc.h"
#include "base/stats.h"

#define AW_STUDY_REPORT_TEXT_MAX    160u
#define AW_STUDY_REPORT_FIGURES_MAX 256u
#define AW_STUDY_REPORT_TABLES_MAX  32u
#define AW_STUDY_REPORT_COLUMNS_MAX 16u
#define AW_STUDY_REPORT_ROWS_MAX    2000u
#define AW_STUDY_REPORT_PLOTS_MAX   32u
#define AW_STUDY_REPORT_SERIES_MAX  16u
#define AW_STUDY_REPORT_POINTS_MAX  4096u
#define AW_STUDY_REPORT_LABELS_MAX  32u
#define AW_STUDY_REPORT_NOTES_MAX   64u

enum aw_study_report_unit {
    AW_UNIT_PLAIN,
    AW_UNIT_SHARE, /* printed in % */
    AW_UNIT_TIMES, /* printed as 5.5x */
    AW_UNIT_SECONDS,
    AW_UNIT_BYTES,
    AW_UNIT_COUNT,
};

/* One number that the experiment is about. NAN: not known, not published, no interval. */
struct aw_study_report_figure {
    char name[AW_STUDY_REPORT_TEXT_MAX];
    enum aw_study_report_unit unit;
    double value;
    struct aw_interval interval; /* 95 % */
    double paper;                /* what was published */
    double goal;                 /* what is to be reached; `lower`: or less */
    bool lower;
};

struct aw_study_report_table {
    char title[AW_STUDY_REPORT_TEXT_MAX];
    uint32_t columns; /* of numbers; each row has a label before them */
    char column[AW_STUDY_REPORT_COLUMNS_MAX][48];
    enum aw_study_report_unit unit[AW_STUDY_REPORT_COLUMNS_MAX];
    uint32_t rows;
    char (*label)[64]; /* [rows] */
    double *value;     /* [rows][columns] */
};

enum aw_study_report_kind { AW_STUDY_REPORT_LINES, AW_STUDY_REPORT_DOTS, AW_STUDY_REPORT_BARS };
struct aw_study_report_point {
    double x, y;
    double low, high; /* a band or whisker; NAN: none */
};
struct aw_study_report_series {
    char name[64];
    uint32_t points;
    struct aw_study_report_point *point;
};
struct aw_study_report_plot {
    char title[AW_STUDY_REPORT_TEXT_MAX], x[48], y[48];
    enum aw_study_report_kind kind;
    bool log; /* both axes; nothing but lines of what is above 0 */
    uint32_t series_count;
    struct aw_study_report_series series[AW_STUDY_REPORT_SERIES_MAX];
    uint32_t labels; /* words that stand for values of x, as under groups of bars */
    struct {
        double x;
        char text[48];
    } label[AW_STUDY_REPORT_LABELS_MAX];
};

struct aw_study_report {
    char name[48], title[AW_STUDY_REPORT_TEXT_MAX];
    char command[512], source[64]; /* what makes the same page again */
    uint32_t apps, seeds;          /* that it stands on, as the experiment says; 0: not said */
    uint32_t figures, tables, plots, notes;
    struct aw_study_report_figure figure[AW_STUDY_REPORT_FIGURES_MAX];
    struct aw_study_report_table table[AW_STUDY_REPORT_TABLES_MAX];
    struct aw_study_report_plot plot[AW_STUDY_REPORT_PLOTS_MAX];
    char note[AW_STUDY_REPORT_NOTES_MAX][512];
    const struct aw_alloc *alloc;
};

AW_NODISCARD enum aw_err aw_study_report_new(const char *name, const char *title,
                                             const struct aw_alloc *alloc,
                                             struct aw_study_report **ret, struct aw_diag *diag);
void aw_study_report_free(struct aw_study_report *report); /* NULL is a no-op */

/* The figure may be changed afterwards (interval, paper, goal): they begin as NAN. NULL: full. */
struct aw_study_report_figure *aw_study_report_figure(struct aw_study_report *report,
                                                      enum aw_study_report_unit unit, double value,
                                                      const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));
/* OPEN: there is no goal. A value that is not known misses its goal. */
enum aw_study_report_verdict { AW_STUDY_REPORT_OPEN, AW_STUDY_REPORT_MET, AW_STUDY_REPORT_MISSED };
enum aw_study_report_verdict aw_study_report_verdict(const struct aw_study_report_figure *figure);
/* `columns` ends with NULL. The index of the table, for row; AW_STUDY_REPORT_TABLES_MAX: full. */
uint32_t aw_study_report_table(struct aw_study_report *report, const char *title,
                               const char *const *columns, const enum aw_study_report_unit *units);
/* `values` [columns]. A failure leaves the table as it was. */
AW_NODISCARD enum aw_err aw_study_report_row(struct aw_study_report *report, uint32_t table,
                                             const double *values, const char *label_format, ...)
    __attribute__((format(printf, 4, 5)));
/* The index of the plot; AW_STUDY_REPORT_PLOTS_MAX: full. */
uint32_t aw_study_report_plot(struct aw_study_report *report, enum aw_study_report_kind kind,
                              const char *title, const char *x, const char *y);
/* The index of the series in its plot; AW_STUDY_REPORT_SERIES_MAX: full. */
uint32_t aw_study_report_series(struct aw_study_report *report, uint32_t plot, const char *name);
AW_NODISCARD enum aw_err aw_study_report_point(struct aw_study_report *report, uint32_t plot,
                                               uint32_t series, double x, double y, double low,
                                               double high);
/* What stands below `x` in place of the number. */
AW_NODISCARD enum aw_err aw_study_report_label(struct aw_study_report *report, uint32_t plot,
                                               double x, const char *text);
/* Beyond AW_STUDY_REPORT_NOTES_MAX they are left out. */
void aw_study_report_note(struct aw_study_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
