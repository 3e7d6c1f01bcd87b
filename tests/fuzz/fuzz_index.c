/* Proves that no bytes taken as the index of a weights file do harm, and that there is exactly one
 * encoding of what was accepted. */
#include <stdlib.h>
#include <string.h>

#include "format/install_layout.h"
#include "format/install_writer.h"
#include "format/le.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_index ix;
    tt_error err = {0};
    /* Regions are whole pages; inputs come without the zeros at their end. */
    size_t n = tt_round_up(size > 0 ? size : 1, TT_PAGE_ALIGN);
    uint8_t *region = calloc(1, n);
    if (region == NULL)
        return 0;
    memcpy(region, data, size);
    uint64_t file_bytes = tt_get_u64(region + 32);
    if (tt_index_parse(region, n, file_bytes, "weights.bin", &ix, &err) == TT_OK) {
        void *again = NULL;
        if (tt_index_encode(&ix, &again, &err) != TT_OK || memcmp(again, region, n) != 0)
            abort();
        for (size_t i = 0; i < ix.count; i++)
            if (tt_index_find(&ix, ix.entries[i].name) != &ix.entries[i])
                abort();
        free(again);
        tt_index_free(&ix);
    } else if (err.message[0] == '\0') {
        abort();
    }
    free(region);
    return 0;
}
