/* version.c - the verb `version`: what this binary is and what it stands on. */
#include <cblas.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "frame/json.h"
#include "frame/verbs.h"
#include "frame/version.h"
#include "nn/matmul.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* The vector extensions that decide which kernels run, as this machine has them. */
static const char *cpu_features(char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = '\0';
#if defined(__x86_64__)
    const struct {
        const char *name;
        bool present;
    } feature[] = {
        {"sse4.2", __builtin_cpu_supports("sse4.2")},
        {"avx2", __builtin_cpu_supports("avx2")},
        {"fma", __builtin_cpu_supports("fma")},
        {"avx512f", __builtin_cpu_supports("avx512f")},
    };
    for (size_t i = 0; i < sizeof feature / sizeof *feature; i++) {
        if (feature[i].present && used < size)
            used +=
                (size_t)snprintf(buf + used, size - used, "%s%s", used ? " " : "", feature[i].name);
    }
#endif
    if (!used)
        snprintf(buf, size, "baseline");
    return buf;
}

static enum aw_err version_run(const struct aw_call *run, struct aw_diag *diag)
{
    char cpu[128], blas[128];
    /* "OpenBLAS 0.3.21 DYNAMIC_ARCH ...": the first two words are the version. */
    const char *config = openblas_get_config();
    size_t name = strcspn(config, " "), number = name + strspn(config + name, " ");
    snprintf(blas, sizeof blas, "%.*s (%s)", (int)strcspn(config + number, " "), config + number,
             aw_matmul_kernels());
    const struct {
        const char *key, *value;
    } row[] = {
        {"version", AW_VERSION_NUMBER},
        {"source", AW_VERSION_SOURCE},
        {"compiler", COMPILER},
        {"cpu", cpu_features(cpu, sizeof cpu)},
        {"openblas", blas},
        {"jansson", jansson_version_str()},
        {"libyaml", yaml_get_version_string()},
        {"libc", gnu_get_libc_version()},
    };
    const size_t count = sizeof row / sizeof *row;
    if (!run->json) {
        printf("aware %s\n", AW_VERSION_NUMBER);
        for (size_t i = 1; i < count; i++)
            printf("  %-9s %s\n", row[i].key, row[i].value);
        return AW_OK;
    }
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, row[i].key, json_string(row[i].value));
    return aw_json_print(object, diag);
}

static const struct aw_example version_examples[] = {
    {"aware version", "for people"},
    {"aware version --output json", "for programs"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_version = {
    .name = "version",
    .summary = "Show the version and the libraries in use",
    .examples = version_examples,
    .json = true,
    .run = version_run,
};
