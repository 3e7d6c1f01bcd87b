/* Any text as a hub's description of a repository: what is accepted is a commit, and names that can
 * be files of ours. */
#include <stdlib.h>
#include <string.h>

#include "repack/hub_listing.h"
#include "repack/hub_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_hub_listing l = {0};
    tt_error err = {0};
    const char *key;
    json_t *one;
    size_t i;
    if (tt_hub_listing_parse((const char *)data, size, "a/b-GGUF", "main", &l, &err) != TT_OK) {
        if (err.message[0] == '\0' || l.names != NULL)
            abort();
        return 0;
    }
    if (strlen(l.commit) != 40 || !tt_hub_listing_has(l.names, "config.json"))
        abort();
    json_array_foreach(l.names, i, one)
    {
        if (!tt_hub_file_name_valid(json_string_value(one)))
            abort();
    }
    json_object_foreach(l.sizes, key, one)
    {
        if (!tt_hub_listing_has(l.names, key) || json_integer_value(one) <= 0)
            abort();
    }
    tt_hub_listing_free(&l);
    return 0;
}
