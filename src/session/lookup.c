#include "session/lookup.h"

/* How many tokens up to the one at `at` are those at the end, `id` included. */
static uint32_t match(const uint32_t *tokens, uint32_t n, uint32_t at)
{
    uint32_t k = 1;
    while (k < TT_LOOKUP_MOST && k <= at && tokens[at - k] == tokens[n - k])
        k++;
    return k;
}

uint32_t tt_lookup(const uint32_t *tokens, uint32_t n, uint32_t id, uint32_t most, uint32_t *out)
{
    uint32_t best = TT_LOOKUP_LEAST - 1, where = 0, count = 0;
    for (uint32_t at = n; at-- > 0 && best < TT_LOOKUP_MOST;) {
        uint32_t k = tokens[at] == id ? match(tokens, n, at) : 0;
        if (k > best) {
            best = k;
            where = at;
        }
    }
    if (best < TT_LOOKUP_LEAST)
        return 0;
    for (uint32_t at = where + 1; at <= n && count < most; at++)
        out[count++] = at < n ? tokens[at] : id;
    return count;
}
