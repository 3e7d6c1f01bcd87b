/* Proves that no JSON, taken as config.json and as a manifest's architecture, does harm, and that a
 * record that was accepted survives the manifest unchanged. */
#include <stdlib.h>
#include <string.h>

#include "format/arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const tt_arch *a)
{
    json_t *first = NULL, *second = NULL;
    tt_arch b;
    if (tt_arch_check(a, NULL, NULL) != TT_OK || tt_arch_to_json(a, &first, NULL) != TT_OK ||
        tt_arch_from_json(first, "manifest.json", &b, NULL) != TT_OK ||
        tt_arch_to_json(&b, &second, NULL) != TT_OK || !json_equal(first, second))
        abort();
    json_decref(first);
    json_decref(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *tree = NULL;
    tt_arch a;
    tt_error err = {0};
    if (tt_json_parse((const char *)data, size, "config.json", &tree, &err) != TT_OK)
        return 0;
    if (tt_arch_from_config(tree, "config.json", &a, &err) == TT_OK)
        round_trip(&a);
    else if (err.message[0] == '\0')
        abort();
    if (tt_arch_from_json(tree, "manifest.json", &a, &err) == TT_OK)
        round_trip(&a);
    json_decref(tree);
    return 0;
}
