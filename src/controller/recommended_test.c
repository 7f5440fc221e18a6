/* recommended_test.c - a recommendation becomes the patch that a person would have written. */
#include "controller/recommended.h"

#include "base/testing.h"

#include <string.h>

static json_t *parse(const char *text)
{
    char *quoted = strdup(text);
    for (char *at = quoted; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    json_t *value = json_loads(quoted, 0, NULL);
    free(quoted);
    assert_non_null(value);
    return value;
}

#define TARGET(replicas, containers)                                                     \
    "{'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'namespace': 'shop', " \
    "'name': 'web'}, 'spec': {'replicas': " #replicas                                    \
    ", 'template': {'spec': {'containers': [" containers "]}}}}"
#define STATUS(fields) "{'status': {'recommendation': {" fields "'time': '2026-01-31T12:00:00Z'}}}"
#define PATCH(spec)                                                                      \
    "{'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'namespace': 'shop', " \
    "'name': 'web'}, 'spec': " spec "}"
#define APP                                                                          \
    "{'name': 'app', 'resources': {'requests': {'cpu': '500m', 'memory': '256Mi'}, " \
    "'limits': {'memory': '512Mi'}}}"
#define SIDECAR "{'name': 'proxy', 'resources': {'requests': {'cpu': 1}}}"

static void the_patch_has_what_changes_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *why, *status, *target, *now, *wanted;
    } cases[] = {
        {"replicas alone", STATUS("'replicas': 3, 'cpu': '500m', 'memory': '256Mi',"),
         TARGET(4, APP), PATCH("{'replicas': 4}"), PATCH("{'replicas': 3}")},
        {"a limit keeps its ratio to the request, none stays none",
         STATUS("'replicas': 4, 'cpu': '750m', 'memory': '512Mi',"), TARGET(4, APP),
         PATCH("{'template': {'spec': {'containers': [{'name': 'app', 'resources': {'requests': "
               "{'cpu': '500m', 'memory': '256Mi'}, 'limits': {'memory': '512Mi'}}}]}}}"),
         PATCH("{'template': {'spec': {'containers': [{'name': 'app', 'resources': {'requests': "
               "{'cpu': '750m', 'memory': '512Mi'}, 'limits': {'memory': '1Gi'}}}]}}}")},
        {"the container that is named, its CPU a number in the template",
         STATUS("'replicas': 4, 'cpu': '250m', 'memory': '0', 'container': 'proxy',"),
         TARGET(4, APP "," SIDECAR),
         PATCH("{'template': {'spec': {'containers': [{'name': 'proxy', 'resources': {'requests': "
               "{'cpu': '1'}}}]}}}"),
         PATCH("{'template': {'spec': {'containers': [{'name': 'proxy', 'resources': {'requests': "
               "{'cpu': '250m'}}}]}}}")},
        {"a request that the template lacks",
         STATUS("'replicas': 1, 'cpu': '0', 'memory': '64Mi',"), TARGET(1, "{'name': 'app'}"),
         PATCH("{'template': {'spec': {'containers': [{'name': 'app', 'resources': {'requests': "
               "{'memory': null}}}]}}}"),
         PATCH("{'template': {'spec': {'containers': [{'name': 'app', 'resources': {'requests': "
               "{'memory': '64Mi'}}}]}}}")},
        {"as recommended already", STATUS("'replicas': 4, 'cpu': '500m', 'memory': '256Mi',"),
         TARGET(4, APP), NULL, NULL},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *object = parse(cases[i].status), *target = parse(cases[i].target);
        json_t *now = NULL, *wanted = NULL;
        assert_int_equal(aw_recommended_patch(object, target, &now, &wanted, NULL), AW_OK);
        json_t *said[] = {now, wanted};
        const char *expected[] = {cases[i].now, cases[i].wanted};
        for (uint32_t k = 0; k < 2; k++) {
            json_t *value = expected[k] ? parse(expected[k]) : NULL;
            if (!json_equal(said[k], value) && (said[k] || value))
                fail_msg("%s: %s", cases[i].why, json_dumps(said[k], 0));
            json_decref(value);
        }
        json_decref(now);
        json_decref(wanted);
        json_decref(object);
        json_decref(target);
    }
}

static void what_cannot_become_a_patch_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *why, *status, *target;
        enum aw_err err;
    } cases[] = {
        {"nothing recommended yet", "{'status': {}}", TARGET(1, APP), AW_ERR_NODATA},
        {"no such container",
         STATUS("'replicas': 2, 'cpu': '1', 'memory': '0', 'container': 'gone',"), TARGET(1, APP),
         AW_ERR_FORMAT},
        {"a template without containers", STATUS("'replicas': 2, 'cpu': '1', 'memory': '0',"),
         TARGET(1, ""), AW_ERR_FORMAT},
        {"an amount that is none", STATUS("'replicas': 2, 'cpu': '1', 'memory': '0',"),
         TARGET(1, "{'name': 'app', 'resources': {'requests': {'cpu': 'many'}}}"), AW_ERR_FORMAT},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *object = parse(cases[i].status), *target = parse(cases[i].target);
        json_t *now = object, *wanted = object;
        if (aw_recommended_patch(object, target, &now, &wanted, NULL) != cases[i].err)
            fail_msg("%s", cases[i].why);
        assert_ptr_equal(now, object); /* untouched */
        json_decref(object);
        json_decref(target);
    }
}

AW_TEST_GROUP("controller-recommended")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_patch_has_what_changes_and_nothing_else),
        cmocka_unit_test(what_cannot_become_a_patch_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
