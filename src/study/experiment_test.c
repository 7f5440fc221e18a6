/* experiment_test.c - pieces that survive an interruption, figures, and who is learned from. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "study/experiment_internal.h"

#define CURVES   3u
#define EPISODES 3u

struct rig {
    struct aw_experiment_config config;
    struct aw__curve curve[CURVES];
    struct aw_adapt_point point[CURVES][EPISODES + 1];
    uint32_t told, stop_after;
};

static bool watch(void *ctx, const char *phase, uint32_t done, uint32_t total)
{
    struct rig *rig = ctx;
    assert_string_equal(phase, "trying");
    assert_true(done <= total);
    rig->told++;
    return rig->stop_after == 0 || rig->told < rig->stop_after;
}

static void rig_open(struct rig *rig, const char *work)
{
    memset(rig, 0, sizeof *rig);
    aw_experiment_config_init(&rig->config);
    snprintf(rig->config.load, sizeof rig->config.load, "diurnal:peak=2,period=1200");
    snprintf(rig->config.work, sizeof rig->config.work, "%s", work);
    snprintf(rig->config.version, sizeof rig->config.version, "test");
    rig->config.threads = 1;
    rig->config.progress = watch;
    rig->config.progress_ctx = rig;
    rig->config.pair = "episode_steps=20";
    for (uint32_t i = 0; i < CURVES; i++) {
        rig->curve[i] = (struct aw__curve){.who = "plain",
                                           .app = aw__test_first(&rig->config) + i,
                                           .seed = 1,
                                           .episodes = EPISODES,
                                           .point = rig->point[i]};
        aw__learner_plain(&rig->config, &rig->curve[i].pretrain);
        rig->curve[i].pretrain.context.hidden = 16;
        rig->curve[i].pretrain.context.rows = 16;
        rig->curve[i].pretrain.updates = 2;
    }
}

static uint32_t files_in(const char *path)
{
    DIR *dir = opendir(path);
    uint32_t count = 0;
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void empty(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    closedir(dir);
    assert_int_equal(rmdir(path), 0);
}

static void what_was_interrupted_goes_on_and_comes_to_the_same(void **state)
{
    (void)state;
    char one[] = "/tmp/aware-experiment-XXXXXX", two[] = "/tmp/aware-experiment-XXXXXX";
    assert_non_null(mkdtemp(one));
    assert_non_null(mkdtemp(two));
    static struct rig whole, parts;
    struct aw_diag diag = {0};
    rig_open(&whole, one);
    if (aw__curves(&whole.config, whole.curve, CURVES, "trying", NULL, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(files_in(one), CURVES);

    rig_open(&parts, two);
    parts.stop_after = 1;
    assert_int_equal(aw__curves(&parts.config, parts.curve, CURVES, "trying", NULL, &diag),
                     AW_ERR_INTERRUPTED);
    assert_int_equal(files_in(two), 1);
    rig_open(&parts, two);
    assert_ok(aw__curves(&parts.config, parts.curve, CURVES, "trying", NULL, &diag));
    for (uint32_t i = 0; i < CURVES; i++)
        for (uint32_t e = 0; e <= EPISODES; e++) {
            assert_true(whole.point[i][e].judged.paper == parts.point[i][e].judged.paper);
            assert_true(whole.point[i][e].lived.violations == parts.point[i][e].lived.violations);
        }
    empty(one);
    empty(two);
}

static void a_piece_is_taken_for_the_same_question_alone(void **state)
{
    (void)state;
    char work[] = "/tmp/aware-experiment-XXXXXX";
    assert_non_null(mkdtemp(work));
    static struct rig rig;
    rig_open(&rig, work);
    assert_ok(aw__curves(&rig.config, rig.curve, 1, "trying", NULL, NULL));
    const struct aw_adapt_point first = rig.point[0][EPISODES];
    rig_open(&rig, work);
    rig.curve[0].pretrain.context.gamma = 0.5;
    assert_ok(aw__curves(&rig.config, rig.curve, 1, "trying", NULL, NULL));
    rig_open(&rig, work);
    snprintf(rig.config.version, sizeof rig.config.version, "another");
    assert_ok(aw__curves(&rig.config, rig.curve, 1, "trying", NULL, NULL));
    assert_int_equal(files_in(work), 3);
    rig_open(&rig, work);
    assert_ok(aw__curves(&rig.config, rig.curve, 1, "trying", NULL, NULL));
    assert_int_equal(files_in(work), 3);
    static struct rig other;
    rig_open(&other, work);
    other.config.pairs[other.config.pair_count++] = "deadband=0";
    aw__learner_plain(&other.config, &other.curve[0].pretrain);
    other.curve[0].pretrain.context.hidden = other.curve[0].pretrain.context.rows = 16;
    other.curve[0].pretrain.updates = 2;
    assert_ok(aw__curves(&other.config, other.curve, 1, "trying", NULL, NULL));
    assert_int_equal(files_in(work), 4);                                /* in another environment */
    assert_memory_equal(&first, &rig.point[0][EPISODES], sizeof first); /* CPU time and all */
    empty(work);
}

static void a_damaged_piece_is_none(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-piece-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    const double wrote[3] = {1, 2, 3};
    double read[3] = {0};
    assert_ok(aw__piece_save(path, wrote, 3, NULL, NULL));
    assert_ok(aw__piece_load(path, read, 3, NULL));
    assert_memory_equal(read, wrote, sizeof read);
    assert_int_equal(aw__piece_load(path, read, 2, NULL), AW_ERR_NOTFOUND);
    assert_int_equal(pwrite(fd, "x", 1, 40), 1); /* the file behind the name is another by now */
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 40, SEEK_SET), 0);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    assert_int_equal(aw__piece_load(path, read, 3, NULL), AW_ERR_NOTFOUND);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(aw__piece_load(path, read, 3, NULL), AW_ERR_NOTFOUND);
    close(fd);
    unlink(path);
    assert_int_equal(aw__piece_load(path, read, 3, NULL), AW_ERR_NOTFOUND);
}

static void ranks_correlate_as_they_should(void **state)
{
    (void)state;
    double scratch[18];
    const double up[] = {1, 2, 3, 10, 20, 1000}, down[] = {6, 5, 4, 3, 2, 1};
    const double ties[] = {1, 1, 2, 2, 3, 3}, flat[] = {1, 1, 1, 1, 1, 1};
    assert_close(aw__rank_correlation(up, up, 6, scratch), 1, 1e-12);
    assert_close(aw__rank_correlation(up, down, 6, scratch), -1, 1e-12);
    assert_close(aw__rank_correlation(up, ties, 6, scratch), 0.9561828874675149, 1e-12);
    assert_close(aw__rank_correlation(up, flat, 6, scratch), 0, 0);
}

/* Two seeds that differ by 10, applications by 1: of one seed the mean is known to a fraction of 1,
 * of any seed to no better than 10. Each application counts with its own seed's figures alone. */
static void an_interval_knows_what_is_drawn_anew(void **state)
{
    (void)state;
    enum { APPS = 40 };
    double x[2 * APPS], twice[2 * APPS];
    for (uint32_t i = 0; i < 2 * APPS; i++) {
        x[i] = 100 + (i < APPS ? 0 : 10) + (i % 2 ? 0.5 : -0.5);
        twice[i] = 2 * x[i];
    }
    const struct aw_interval one = aw__resampled_mean(1, APPS, x);
    assert_true(one.low > 99.7 && one.low < 100 && one.high > 100 && one.high < 100.3);
    const struct aw_interval any = aw__resampled_mean(2, APPS, x);
    assert_true(any.low < 100 && any.high > 110);
    const struct aw_interval pooled = aw__resampled_mean(1, 2 * APPS, x);
    assert_true(pooled.low > 103 && pooled.high < 107);
    const struct aw_interval ratio = aw__resampled_ratio(2, APPS, twice, x);
    assert_close(ratio.low, 2, 1e-12);
    assert_close(ratio.high, 2, 1e-12);
    const double none[2] = {0}, some[2] = {0, 1};
    assert_true(isinf(aw__resampled_ratio(1, 2, some, none).high));
    assert_true(isnan(aw__resampled_mean(1, 1, x).low));
    assert_true(isnan(aw__resampled_mean(1, 0, x).high));
}

/* Figures of pairs: shares that are one together, and what fits another never fits better. */
static void what_is_carried_over_is_judged_in_every_application(void **state)
{
    (void)state;
    char work[] = "/tmp/aware-experiment-XXXXXX";
    assert_non_null(mkdtemp(work));
    static struct rig rig;
    static char path[2][AW_EXPERIMENT_PATH_MAX];
    static const struct aw__transfer how = {3e-4, 1e-3, 0.2, 5, 0};
    struct aw__crossed crossed = {.apps = 2, .converged = {40, 40}, .how = &how};
    struct aw_study_report *report = NULL;
    struct aw_diag diag = {0};
    rig_open(&rig, work);
    rig.config.progress = NULL;
    rig.config.paper = rig.config.bare = true; /* where there is something to lose */
    rig.config.pair = NULL; /* whole episodes: there must be enough to learn from */
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t app = aw__source_app(&rig.config, i);
        if (aw__source(&rig.config, app, 1, false, NULL, path[i], &diag))
            fail_msg("%s", diag.text);
        crossed.source[i] = path[i];
    }
    assert_ok(aw_study_report_new("crossing", "", NULL, &report, &diag));
    if (aw__cross(&rig.config, &crossed, NULL, report, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(report->figures, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_study_report_figure *figure = &report->figure[i];
        assert_true(figure->value < 1 && figure->interval.low <= figure->value &&
                    figure->value <= figure->interval.high);
    }
    assert_true(report->figure[1].value > -0.01); /* a search may stop a little short */
    assert_int_equal(report->tables, 1);
    for (uint32_t column = 0; column < 2; column++) {
        double sum = 0;
        for (uint32_t row = 0; row < report->table[0].rows; row++)
            sum += report->table[0].value[2 * row + column];
        assert_true(fabs(sum - 1) < 1e-9);
    }
    aw_study_report_free(report);
    empty(work);
}

static void every_experiment_has_a_name_of_its_own_and_says_what_it_shows(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (const struct aw_experiment_entry *entry = aw_experiments; entry->name; entry++, count++) {
        assert_true(aw_experiment_find(entry->name) == entry);
        assert_non_null(entry->shows);
        assert_non_null(entry->title);
        assert_non_null(entry->run);
    }
    assert_true(count > 3);
    assert_null(aw_experiment_find("alchemy"));
    assert_null(aw_experiment_find("all")); /* that is every one of them */
}

static void a_split_divides_applications_and_loads(void **state)
{
    (void)state;
    struct aw_experiment_config config;
    struct aw_diag diag = {0};
    aw_experiment_config_init(&config);
    assert_int_equal(aw__learn_count(&config), 760);
    assert_int_equal(aw__check_first(&config), 760);
    assert_int_equal(aw__test_first(&config), 800);
    config.learned = 200; /* as FLASH */
    assert_int_equal(aw__learn_count(&config), 160);
    assert_int_equal(aw__check_first(&config), 160);
    assert_int_equal(aw__test_first(&config), 200);
    for (config.learned = AW_EXPERIMENT_LEARNED_MIN; config.learned <= 900; config.learned++) {
        bool taken[AW_EXPERIMENT_POOL] = {0};
        for (uint32_t i = 0; i < 40; i++) {
            const uint32_t app = aw__source_app(&config, i);
            assert_true(app < aw__learn_count(&config) && !taken[app]);
            taken[app] = true;
        }
    }
    const struct aw_experiment_entry *adaptation = aw_experiment_find("adaptation");
    config.learned = 200;
    assert_ok(aw_experiment_check(adaptation, &config, NULL));
    assert_int_equal(aw_experiment_check(aw_experiment_find("ablation"), &config, &diag),
                     AW_ERR_USAGE);
    config.learned = 99;
    assert_int_equal(aw_experiment_check(adaptation, &config, &diag), AW_ERR_USAGE);
    config.learned = 900;
    config.apps = 101;
    assert_int_equal(aw_experiment_check(adaptation, &config, &diag), AW_ERR_USAGE);
    config.apps = 0;
    snprintf(config.model, sizeof config.model, "some.safetensors");
    assert_int_equal(aw_experiment_check(adaptation, &config, &diag), AW_ERR_USAGE);
    assert_string_equal(diag.key, "--split");
}

static void what_an_experiment_knows_nothing_of_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t apps, seeds, pairs;
        enum aw_err err;
        const char *key, *why;
    } cases[] = {
        {"embedding", 10, 0, 0, AW_OK, "", "it reports on as many as one likes"},
        {"embedding", 0, 2, 0, AW_ERR_USAGE, "--seeds", "its sources are taught once"},
        {"overhead", 1, 0, 0, AW_ERR_USAGE, "--apps", "nobody is adapted to"},
        {"ablation", 0, 2, 1, AW_OK, "", "models are taught anew"},
        {"ablation", 2, 0, 0, AW_ERR_USAGE, "--apps", "those for validation, all of them"},
        {"serving", 2, 2, 0, AW_OK, "", "whole lives"},
        {"serving", 2, 2, 1, AW_ERR_USAGE, "--set", "which are lived in no environment"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_experiment_config config;
        struct aw_diag diag = {0};
        aw_experiment_config_init(&config);
        config.apps = cases[i].apps;
        config.seeds = cases[i].seeds;
        config.pair_count = cases[i].pairs;
        config.pairs[0] = "deadband=0";
        if (aw_experiment_check(aw_experiment_find(cases[i].name), &config, &diag) != cases[i].err)
            fail_msg("%s: %s", cases[i].name, cases[i].why);
        assert_string_equal(diag.key, cases[i].key);
    }
}

AW_TEST_GROUP("experiments")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_interrupted_goes_on_and_comes_to_the_same),
        cmocka_unit_test(a_piece_is_taken_for_the_same_question_alone),
        cmocka_unit_test(a_damaged_piece_is_none),
        cmocka_unit_test(ranks_correlate_as_they_should),
        cmocka_unit_test(an_interval_knows_what_is_drawn_anew),
        cmocka_unit_test(what_is_carried_over_is_judged_in_every_application),
        cmocka_unit_test(a_split_divides_applications_and_loads),
        cmocka_unit_test(what_an_experiment_knows_nothing_of_is_refused),
        cmocka_unit_test(every_experiment_has_a_name_of_its_own_and_says_what_it_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
