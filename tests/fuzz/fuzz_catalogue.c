/* Any text as a catalogue: what is accepted can be asked for. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "repack/catalogue.h"
#include "repack/hub_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_catalogue c = {0};
    tt_error err = {0};
    const tt_catalogue_model *found = NULL;
    if (tt_catalogue_parse((const char *)data, size, "fuzz", &c, &err) != TT_OK) {
        if (err.message[0] == '\0' || c.models != NULL)
            abort();
        return 0;
    }
    for (size_t i = 0; i < c.count; i++) {
        const tt_catalogue_model *m = &c.models[i];
        if (!tt_hub_repository_valid(m->repository) || strlen(m->revision) > 40 ||
            (m->index_sha256 != NULL && !tt_sha256_hex_valid(m->index_sha256)))
            abort();
        if (tt_catalogue_find(&c, m->name, &found, &err) != TT_OK ||
            strcmp(found->name, m->name) != 0)
            abort();
    }
    if (tt_catalogue_find(&c, "none of them has this name", &found, &err) == TT_OK)
        abort();
    tt_catalogue_free(&c);
    return 0;
}
