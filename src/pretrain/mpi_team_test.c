/* mpi_team_test.c - alone without mpirun; with it, only with its module. The module itself is
 * tested where it is used (tests/cli, `mpirun -n 2 aware pretrain`). */
#include "pretrain/mpi_team.h"

#include <stdlib.h>
#include <string.h>

#include "base/testing.h"

static void forget(void)
{
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMI_SIZE");
}

static void without_mpirun_a_process_is_alone_and_sends_nothing(void **state)
{
    (void)state;
    static const char *const sizes[] = {NULL, "1", "0", "none"};
    for (uint32_t i = 0; i < 4; i++) {
        struct aw_mpi_team team;
        float values[2] = {1, -2};
        char byte = 'x';
        forget();
        if (sizes[i])
            setenv("OMPI_COMM_WORLD_SIZE", sizes[i], 1);
        assert_ok(aw_mpi_team_join(&team, NULL));
        assert_int_equal(team.rank, 0);
        assert_int_equal(team.size, 1);
        assert_ok(aw_mpi_team_mean(&team, values, 2));
        assert_true(values[0] == 1 && values[1] == -2);
        assert_ok(aw_mpi_team_broadcast(&team, &byte, 1));
        assert_int_equal(byte, 'x');
        assert_ok(aw_mpi_team_barrier(&team));
        aw_mpi_team_end(&team, 1); /* nobody to take along */
        aw_mpi_team_leave(&team);
    }
}

static void one_of_several_without_the_module_is_told_what_is_missing(void **state)
{
    (void)state;
    struct aw_mpi_team team;
    struct aw_diag diag = {0};
    forget();
    setenv("PMI_SIZE", "3", 1);
    /* where the module lies beside the test, it finds itself alone, which is as wrong */
    assert_int_equal(aw_mpi_team_join(&team, &diag), AW_ERR_UNSUPPORTED);
    forget();
    assert_non_null(strstr(diag.text, AW_MPI_TEAM_MODULE));
    assert_int_equal(team.size, 1);
    aw_mpi_team_leave(&team);
}

/* A module that counts what is asked of it. */
static uint32_t asked;
static bool lost;

static int fake_begin(uint32_t *rank, uint32_t *size)
{
    *rank = 1;
    *size = 4;
    return 0;
}
static int fake_sum(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] *= 4;
    asked++;
    return lost ? -1 : 0;
}
static int fake_broadcast(void *bytes, size_t count)
{
    (void)bytes;
    (void)count;
    asked++;
    return lost ? -1 : 0;
}
static int fake_barrier(void)
{
    asked++;
    return lost ? -1 : 0;
}
static void fake_finish(void)
{
    asked++;
}
static void fake_end(int status)
{
    asked += (uint32_t)status;
}

static void a_mean_is_a_share_of_the_sum_and_a_lost_member_is_an_error(void **state)
{
    (void)state;
    static const struct aw_mpi_team_ops ops = {
        AW_MPI_TEAM_VERSION, fake_begin,  fake_sum, fake_broadcast,
        fake_barrier,        fake_finish, fake_end};
    struct aw_mpi_team team = {.rank = 1, .size = 4, .ops = &ops};
    float values[2] = {3, -1};
    asked = 0;
    assert_ok(aw_mpi_team_mean(&team, values, 2));
    assert_true(values[0] == 3 && values[1] == -1);
    lost = true;
    assert_int_equal(aw_mpi_team_mean(&team, values, 2), AW_ERR_UNAVAILABLE);
    assert_int_equal(aw_mpi_team_broadcast(&team, values, 2), AW_ERR_UNAVAILABLE);
    assert_int_equal(aw_mpi_team_barrier(&team), AW_ERR_UNAVAILABLE);
    aw_mpi_team_end(&team, 10);
    aw_mpi_team_leave(&team);
    assert_int_equal(asked, 15);
    assert_int_equal(team.size, 1);
}

AW_TEST_GROUP("mpi-team")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_mpirun_a_process_is_alone_and_sends_nothing),
        cmocka_unit_test(one_of_several_without_the_module_is_told_what_is_missing),
        cmocka_unit_test(a_mean_is_a_share_of_the_sum_and_a_lost_member_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
