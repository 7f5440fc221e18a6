/* experiment_test.c - pieces that survive an interruption, figures, and who is learned from. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "control/experiment_internal.h"

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
                                           .app = AW__TEST_FIRST + i,
                                           .seed = 1,
                                           .episodes = EPISODES,
                                           .point = rig->point[i]};
        aw__learner_plain(&rig->config, &rig->curve[i].school);
        rig->curve[i].school.context.hidden = 16;
        rig->curve[i].school.context.rows = 16;
        rig->curve[i].school.updates = 2;
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
    rig.curve[0].school.context.gamma = 0.5;
    assert_ok(aw__curves(&rig.config, rig.curve, 1, "trying", NULL, NULL));
    rig_open(&rig, work);
    snprintf(rig.config.version, sizeof rig.config.version, "another");
    assert_ok(aw__curves(&rig.config, rig.curve, 1, "trying", NULL, NULL));
    assert_int_equal(files_in(work), 3);
    rig_open(&rig, work);
    assert_ok(aw__curves(&rig.config, rig.curve, 1, "trying", NULL, NULL));
    assert_int_equal(files_in(work), 3);
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_interrupted_goes_on_and_comes_to_the_same),
        cmocka_unit_test(a_piece_is_taken_for_the_same_question_alone),
        cmocka_unit_test(a_damaged_piece_is_none),
        cmocka_unit_test(ranks_correlate_as_they_should),
        cmocka_unit_test(an_interval_knows_what_is_drawn_anew),
        cmocka_unit_test(every_experiment_has_a_name_of_its_own_and_says_what_it_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
