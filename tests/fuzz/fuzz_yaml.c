/* fuzz_yaml.c - any bytes as YAML: refused in one line, or a sound tree that survives JSON. */
#include "fuzz_tree.h"

#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct aw_tree tree;
    struct aw_diag diag = {0};
    enum aw_err err = aw_yaml_parse(&tree, "input", (const char *)data, size, NULL, &diag);
    if (err)
        check_refusal(&diag, err);
    else
        check_tree(&tree);
    aw_tree_deinit(&tree);
    return 0;
}
