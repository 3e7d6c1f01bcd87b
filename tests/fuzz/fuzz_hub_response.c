/* Feeds header lines to the reader of a hub's answers. */
#include <stdlib.h>
#include <string.h>

#include "repack/hub_response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_hub_response r;
    tt_hub_response_init(&r);
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end != NULL ? (size_t)(end - (data + at)) + 1 : size - at;
        tt_hub_response_line(&r, (const char *)data + at, n);
        at += n;
    }
    if (r.first != TT_HUB_UNKNOWN && (r.last < r.first || r.last == TT_HUB_UNKNOWN))
        abort();
    if (r.first != TT_HUB_UNKNOWN && r.total != TT_HUB_UNKNOWN && r.last >= r.total)
        abort();
    if (r.status < 0 || r.status > 999 || strlen(r.commit) >= sizeof r.commit ||
        strlen(tt_hub_response_id(&r)) >= sizeof r.etag)
        abort();
    return 0;
}
