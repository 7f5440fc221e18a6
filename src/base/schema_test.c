#include "base/schema.h"

#include "base/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct item {
    uint32_t whole;
    double share;
};

struct sample {
    char text[8];
    char name[8];
    bool boolean;
    uint32_t u32;
    uint64_t u64;
    double real, automatic, share, quantile, rate;
    int64_t cpu, memory, duration;
    uint32_t choice, set;
    uint32_t item_count;
    struct item item[2];
    struct {
        bool flag;
        double drain_s;
        uint32_t mode;
    } settings;
};

#define AT(member) \
    .offset = offsetof(struct sample, member), .size = sizeof(((struct sample *)0)->member)

static const char *const colours[] = {"red", "green", "blue", NULL};

static const struct aw_conf_field conf[] = {
    {"flag_one", AW_CONF_BOOL, 0, "true", 0, 0, NULL, "a flag", 0},
    {"drain_s", AW_CONF_F64,
     offsetof(struct sample, settings.drain_s) - offsetof(struct sample, settings), "3", 0, 10,
     NULL, "seconds", 0},
    {"mode", AW_CONF_U32,
     offsetof(struct sample, settings.mode) - offsetof(struct sample, settings), "7", 0, 9, NULL,
     "not for files", 0},
    {0},
};

static const struct aw_schema_field item_fields[] = {
    {.name = "whole",
     .type = AW_SCHEMA_U32,
     .offset = offsetof(struct item, whole),
     .min = 1,
     .max = 5,
     .initial = "4",
     .help = "whole"},
    {.name = "share",
     .type = AW_SCHEMA_SHARE,
     .flags = AW_SCHEMA_REQUIRED,
     .offset = offsetof(struct item, share),
     .max = 1,
     .help = "share"},
    {0},
};

static const struct aw_schema_field inner[] = {
    {.name = "real", .type = AW_SCHEMA_REAL, AT(real), .min = -1, .max = 1, .help = "real"},
    {.name = "automatic",
     .type = AW_SCHEMA_AUTO_REAL,
     AT(automatic),
     .initial = "auto",
     .help = "a"},
    {0},
};

static const struct aw_schema_field fields[] = {
    {.name = "text", .type = AW_SCHEMA_TEXT, AT(text), .initial = "word", .help = "text"},
    {.name = "name", .type = AW_SCHEMA_NAME, AT(name), .help = "name"},
    {.name = "boolean", .type = AW_SCHEMA_BOOL, AT(boolean), .initial = "true", .help = "truth"},
    {.name = "u32", .type = AW_SCHEMA_U32, AT(u32), .min = 2, .max = 9, .help = "whole"},
    {.name = "u64", .type = AW_SCHEMA_U64, AT(u64), .help = "whole"},
    {.name = "share", .type = AW_SCHEMA_SHARE, AT(share), .max = 1, .initial = "5%", .help = "s"},
    {.name = "quantile", .type = AW_SCHEMA_QUANTILE, AT(quantile), .initial = "p95", .help = "q"},
    {.name = "cpu", .type = AW_SCHEMA_CPU, AT(cpu), .min = 10, .max = 4000, .help = "CPU"},
    {.name = "memory",
     .type = AW_SCHEMA_MEMORY,
     AT(memory),
     .min = 1024,
     .max = INFINITY,
     .help = "memory"},
    {.name = "duration", .type = AW_SCHEMA_DURATION, AT(duration), .max = 1e9, .help = "time"},
    {.name = "rate", .type = AW_SCHEMA_RATE, AT(rate), .max = 100, .help = "rate"},
    {.name = "choice",
     .type = AW_SCHEMA_CHOICE,
     AT(choice),
     .choices = colours,
     .initial = "green",
     .help = "colour"},
    {.name = "set",
     .type = AW_SCHEMA_SET,
     AT(set),
     .choices = colours,
     .initial = "red,blue",
     .help = "colours"},
    {.name = "inner", .type = AW_SCHEMA_OBJECT, .fields = inner, .help = "an object"},
    {.name = "list",
     .type = AW_SCHEMA_LIST,
     .offset = offsetof(struct sample, item),
     .size = sizeof(struct item),
     .count_offset = offsetof(struct sample, item_count),
     .count_max = 2,
     .fields = item_fields,
     .help = "items"},
    {.name = "settings",
     .type = AW_SCHEMA_OBJECT,
     .offset = offsetof(struct sample, settings),
     .conf = conf,
     .conf_without = "mode",
     .help = "settings"},
    {.name = "labels", .type = AW_SCHEMA_TEXTS, .help = "texts"},
    {.name = "any", .type = AW_SCHEMA_ANY, .help = "anything"},
    {.name = "anyList", .type = AW_SCHEMA_ANY_LIST, .help = "a list"},
    {.name = "anyObject", .type = AW_SCHEMA_ANY_OBJECT, .help = "a map"},
    {.name = "refused", .type = AW_SCHEMA_ANY, .flags = AW_SCHEMA_REFUSED, .help = "of others"},
    {0},
};

struct heard {
    uint32_t count;
    struct aw_diag last;
};

static void hear(void *ctx, const struct aw_node *node, enum aw_err err, const struct aw_diag *diag)
{
    struct heard *heard = ctx;
    assert_non_null(node);
    assert_int_equal(err, AW_ERR_CONFIG);
    heard->count++;
    heard->last = *diag;
}

static struct heard decode(const char *text, struct sample *sample)
{
    struct heard heard = {0};
    const struct aw_schema_sink sink = {.take = hear, .ctx = &heard};
    struct aw_tree tree;
    assert_ok(aw_tree_load(&tree, "s.yaml", text, strlen(text), NULL, NULL));
    memset(sample, 0, sizeof *sample);
    aw_schema_defaults(fields, sample);
    aw_schema_decode(fields, &tree, tree.first, sample, &sink);
    aw_tree_deinit(&tree);
    return heard;
}

static void what_is_not_written_is_the_default(void **state)
{
    (void)state;
    struct sample s;
    assert_int_equal(decode("{}", &s).count, 0);
    assert_string_equal(s.text, "word");
    assert_string_equal(s.name, "");
    assert_true(s.boolean);
    assert_true(isnan(s.automatic));
    assert_true(s.share == 0.05 && s.quantile == 0.95);
    assert_int_equal(s.choice, 1);
    assert_int_equal(s.set, 5);
    assert_int_equal(s.item_count, 0);
    assert_true(s.settings.flag && s.settings.drain_s == 3);
    assert_int_equal(s.settings.mode, 7);
}

static void what_is_written_is_kept(void **state)
{
    (void)state;
    struct sample s;
    const struct heard heard =
        decode("text: 'a b'\nname: a-1.b\nboolean: false\nu32: 0x9\nu64: 9223372036854775807\n"
               "share: 12.5%\nquantile: 0.5\ncpu: 1.5\nmemory: 1.5Ki\nduration: 2m3s\nrate: 30/m\n"
               "choice: blue\nset: [green, green]\ninner: {real: -1, automatic: 3}\n"
               "list: [{share: 1}, {share: 0.25, whole: 2}]\n"
               "settings: {flagOne: false, drainSeconds: 4.5}\n"
               "labels: {a: b}\nany: [1, {x: y}]\nanyList: []\nanyObject: {}\n",
               &s);
    if (heard.count)
        fail_msg("%s: %s", heard.last.key, heard.last.text);
    assert_string_equal(s.text, "a b");
    assert_string_equal(s.name, "a-1.b");
    assert_false(s.boolean);
    assert_int_equal(s.u32, 9);
    assert_true(s.u64 == INT64_MAX);
    assert_true(s.share == 0.125 && s.quantile == 0.5);
    assert_int_equal(s.cpu, 1500);
    assert_int_equal(s.memory, 1536);
    assert_int_equal(s.duration, 123000000);
    assert_true(s.rate == 0.5 && s.real == -1 && s.automatic == 3);
    assert_int_equal(s.choice, 2);
    assert_int_equal(s.set, 2);
    assert_int_equal(s.item_count, 2);
    assert_true(s.item[0].whole == 4 && s.item[0].share == 1);
    assert_true(s.item[1].whole == 2 && s.item[1].share == 0.25);
    assert_true(!s.settings.flag && s.settings.drain_s == 4.5);
}

static void a_null_is_as_good_as_nothing(void **state)
{
    (void)state;
    struct sample s, none;
    assert_int_equal(decode("{}", &none).count, 0);
    assert_int_equal(decode("{text: null, u32: ~, inner: null, list: null, settings: "
                            "{flagOne: null}, refused: null, labels: null}",
                            &s)
                         .count,
                     0);
    s.automatic = none.automatic = 0; /* no two nan are equal */
    assert_memory_equal(&s, &none, sizeof s);
}

static void what_is_wrong_leaves_its_member_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key, *says, *why;
    } cases[] = {
        {"text: 12345678", "text", "a text of at most 7 bytes", "a number is no text"},
        {"text: abcdefgh", "text", "at most 7 bytes", "one byte too long"},
        {"name: a/b", "name", "lower-case", "no slash"},
        {"name: ''", "name", "lower-case", "nothing"},
        {"name: a.", "name", "both ends", "ends with a dot"},
        {"boolean: 1", "boolean", "true or false", "no truth"},
        {"boolean: 'true'", "boolean", "true or false", "nor is a text"},
        {"u32: 10", "u32", "from 2 to 9", "too many"},
        {"u32: -3", "u32", "from 2 to 9", "negative"},
        {"u32: 3.0", "u32", "whole", "not whole"},
        {"u32: '3'", "u32", "whole", "a text"},
        {"u64: -1", "u64", "whole", "negative"},
        {"share: 101%", "share", "0 to 1", "more than all"},
        {"share: '%'", "share", "0 to 1", "of what"},
        {"share: 1 %", "share", "0 to 1", "a space"},
        {"quantile: 0.98", "quantile", "p95", "nobody measures it"},
        {"cpu: 5m", "cpu", "from 10m to 4", "too little"},
        {"cpu: {}", "cpu", "an amount of CPU", "a map"},
        {"memory: 1", "memory", "of at least 1Ki", "too little"},
        {"memory: 1Kib", "memory", "an amount of memory", "no such unit"},
        {"duration: 5", "duration", "a duration", "5 what"},
        {"duration: 20m", "duration", "16m40s", "too long"},
        {"rate: 30", "rate", "a rate", "30 per what"},
        {"choice: Red", "choice", "did you mean \"red\"", "case"},
        {"choice: [red]", "choice", "one of: red", "a list"},
        {"set: red", "set", "a list of: red", "no list"},
        {"set: [pink]", "set[0]", "one of: red", "no such colour"},
        {"inner: 3", "inner", "a map", "no map"},
        {"inner: {real: 2}", "inner.real", "from -1 to 1", "too much"},
        {"inner: {automatic: Auto}", "inner.automatic", "auto or a number", "case"},
        {"list: {}", "list", "a list of at most 2", "no list"},
        {"list: [{share: 0}, {share: 0}, {share: 0}]", "list", "at most 2", "one too many"},
        {"list: [{}]", "list[0]", "missing key \"share\": share", "an item lacks it"},
        {"list: [3]", "list[0]", "a map", "no item"},
        {"settings: {flag_one: true}", "settings.flag_one", "did you mean \"flagOne\"", "spelling"},
        {"settings: {mode: 3}", "settings.mode", "unknown key", "kept from files"},
        {"settings: {drainSeconds: 11}", "settings.drainSeconds", "from 0 to 10", "too long"},
        {"labels: {a: 1}", "labels.a", "a string", "no text"},
        {"labels: []", "labels", "a map of texts", "no map"},
        {"anyList: {}", "anyList", "a list", "no list"},
        {"anyObject: []", "anyObject", "a map", "no map"},
        {"refused: 1", "refused", "not supported: of others", "known, and not taken"},
        {"inne: {}", "inne", "did you mean \"inner\"", "a typo"},
        {"refusd: {}", "refusd", "unknown key", "nobody meant what is refused"},
    };
    struct sample none, s;
    decode("{}", &none);
    none.automatic = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct heard heard = decode(cases[i].text, &s);
        if (heard.count != 1 || strcmp(heard.last.key, cases[i].key) != 0 ||
            !strstr(heard.last.text, cases[i].says))
            fail_msg("%s (%s): %u, %s: %s", cases[i].text, cases[i].why, heard.count,
                     heard.last.key, heard.last.text);
        assert_int_equal(heard.last.line, 1);
        s.automatic = 0;
        s.item_count = 0; /* the items that were right are there */
        memset(s.item, 0, sizeof s.item);
        assert_memory_equal(&s, &none, sizeof s);
    }
}

static void names_of_settings_are_written_as_kubernetes_writes_them(void **state)
{
    (void)state;
    static const struct {
        const char *key, *name;
    } cases[] = {
        {"kind", "kind"},
        {"hpa_target", "hpaTarget"},
        {"drain_s", "drainSeconds"},
        {"node_2_gib", "node2Gib"},
        {"backoff_max_s", "backoffMaxSeconds"},
        {"s", "s"},
    };
    char buf[AW_SCHEMA_NAME_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw_conf_field field = {.key = cases[i].key};
        assert_string_equal(aw_schema_conf_name(&field, buf, sizeof buf), cases[i].name);
    }
}

AW_TEST_GROUP("schema")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_written_is_the_default),
        cmocka_unit_test(what_is_written_is_kept),
        cmocka_unit_test(a_null_is_as_good_as_nothing),
        cmocka_unit_test(what_is_wrong_leaves_its_member_alone),
        cmocka_unit_test(names_of_settings_are_written_as_kubernetes_writes_them),
    };
    return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
