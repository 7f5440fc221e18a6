/*
 * program.c - the main of a room's test program, which has all groups of the room in it.
 *
 *     test-ROOM                  every group, each in a process of its own
 *     test-ROOM GROUP [WORD]...  this one; the words are its own
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/testing.h"

#define EXIT_SKIPPED 77
#define EXIT_USAGE   64

const char *aw_test_group_name;
static struct aw_test_group *groups, **groups_end = &groups;

void aw_test_group_add(struct aw_test_group *group)
{
    *groups_end = group;
    groups_end = &group->next;
}

static int run(const struct aw_test_group *group, int argc, char **argv)
{
    aw_test_group_name = group->name;
    return group->run(argc, argv);
}

static bool passes_alone(const struct aw_test_group *group)
{
    int status = -1;
    printf("# %s\n", group->name);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        exit(run(group, 1, (char *[]){strdup(group->name), NULL}));
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    return WIFEXITED(status) && (!WEXITSTATUS(status) || WEXITSTATUS(status) == EXIT_SKIPPED);
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (const struct aw_test_group *group = groups; group; group = group->next) {
        if (argc < 2)
            failed |= !passes_alone(group);
        else if (strcmp(group->name, argv[1]) == 0)
            return run(group, argc - 1, argv + 1);
    }
    if (argc < 2)
        return failed;
    fprintf(stderr, "%s: no group '%s'; there are:\n", argv[0], argv[1]);
    for (const struct aw_test_group *group = groups; group; group = group->next)
        fprintf(stderr, "  %s\n", group->name);
    return EXIT_USAGE;
}
