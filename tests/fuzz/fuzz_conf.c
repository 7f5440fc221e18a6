/*
 * fuzz_conf.c - lines of key=value, and the whole as YAML, into a table of every type.
 *
 * What is refused changes nothing; what is taken prints to text that is taken to the same bits.
 */
#include "fuzz.h"

#include "base/conf.h"
#include "base/yaml.h"

#include <math.h>
#include <string.h>

struct settings {
    bool flag;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
    uint32_t choice;
    struct aw_conf_u32_list list;
    char text[AW_CONF_TEXT_MAX];
};

static const char *const choices[] = {"relu", "tanh", NULL};

#define AW_CONF_OF struct settings
static const struct aw_conf_field table[] = {
    AW_CONF_PLAIN(flag, "true", ""),
    AW_CONF_NUMBER(u32, "64", 1, 1000000, ""),
    AW_CONF_NUMBER(u64, "1", 0, 0, ""),
    AW_CONF_NUMBER(f32, "0.3", 0, 1.0 / 3, ""),
    AW_CONF_NUMBER(f64, "1", -INFINITY, 1e300, ""),
    AW_CONF_ONE_OF(choice, "tanh", choices, ""),
    AW_CONF_NUMBER(list, "64,64", 1, 4096, ""),
    AW_CONF_PLAIN(text, "", ""),
    {0},
};

static void check_round_trip(const struct settings *settings)
{
    char buf[AW_CONF_TEXT_MAX];
    struct settings back;
    memset(&back, 0, sizeof back);
    for (const struct aw_conf_field *field = table; field->key; field++)
        AW_ASSERT(aw_conf_set(table, &back, field->key,
                              aw_conf_get(field, settings, buf, sizeof buf), NULL) == AW_OK);
    AW_ASSERT(memcmp(settings, &back, sizeof back) == 0);
}

static void check_outcome(enum aw_err err, const struct aw_diag *diag,
                          const struct settings *before, const struct settings *after)
{
    if (err) {
        check_refusal(diag, err);
        AW_ASSERT(memcmp(before, after, sizeof *before) == 0);
    } else {
        check_round_trip(after);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings settings, before;
    memset(&settings, 0, sizeof settings); /* padding is compared too */
    aw_conf_defaults(table, &settings);
    const char *at = (const char *)data, *end = at + size;
    while (at < end) {
        char line[600];
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        size_t kept = len < sizeof line - 1 ? len : sizeof line - 1;
        memcpy(line, at, kept);
        line[kept] = 0;
        memcpy(&before, &settings, sizeof before);
        struct aw_diag diag = {0};
        enum aw_err err = aw_conf_set_pair(table, &settings, line, &diag);
        check_outcome(err, &diag, &before, &settings);
        at = newline ? newline + 1 : end;
    }
    struct aw_tree tree;
    struct aw_diag diag = {0};
    memcpy(&before, &settings, sizeof before);
    enum aw_err err = aw_yaml_parse(&tree, "input", (const char *)data, size, NULL, &diag);
    if (err == AW_OK && tree.first)
        err = aw_conf_set_tree(table, &settings, &tree, tree.first, &diag);
    check_outcome(err, &diag, &before, &settings);
    aw_tree_deinit(&tree);
    return 0;
}
