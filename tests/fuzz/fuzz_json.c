/* Any bytes through the JSON parser. */
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *v = NULL;
    if (tt_json_parse((const char *)data, size, "input", &v, NULL) == TT_OK)
        json_decref(v);
    return 0;
}
