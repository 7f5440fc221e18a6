/* fuzz_json.c - any bytes as JSON: the same verdict and the same value as jansson alone gives. */
#include "fuzz_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct aw_tree tree;
    struct aw_diag diag = {0};
    const char *bytes = (const char *)data;
    enum aw_err err = aw_json_parse(&tree, "input", bytes, size, NULL, &diag);
    json_t *plain = json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (err) {
        check_refusal(&diag, err);
        /* jansson takes a NUL byte for the end of the text; we do not */
        AW_ASSERT(!plain || err == AW_ERR_LIMIT || memchr(bytes, 0, size));
    } else {
        bool marked = size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0;
        json_t *value = aw_json_from_node(tree.first);
        AW_ASSERT(marked || (plain && json_equal(plain, value)));
        json_decref(value);
        check_tree(&tree);
    }
    json_decref(plain);
    aw_tree_deinit(&tree);
    return 0;
}
