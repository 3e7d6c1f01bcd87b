/* Any bytes as the events of a trace: refused with an error, or played by every policy. The frame
 * around them is made right, so that the checksum does not keep everything out. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "format/le.h"
#include "io/cache_replay.h"

#define HEADER 56

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void play(const tt_cache_trace *t)
{
    static const uint32_t slots[] = {1, 3, 9};
    for (int policy = 0; policy < 4; policy++) {
        for (unsigned i = 0; i < 3; i++) {
            const tt_replay_options o = {.slots = slots[i], .policy = (tt_cache_policy_kind)policy};
            tt_replay_result r;
            if (slots[i] > t->info.n_layers * t->info.n_experts)
                continue;
            /* guesses do not count */
            if (tt_cache_replay(t, &o, &r, NULL) != TT_OK ||
                r.asks != r.hits + r.misses + r.joins || r.asks > t->picks)
                abort();
        }
    }
}

/* The first byte says whether the header comes from the input too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    bool whole = data[0] & 1;
    data++;
    size--;
    size_t n = whole ? size : HEADER + size + 4;
    char *file = calloc(1, n > 0 ? n : 1);
    tt_cache_trace t;
    tt_error err = {0};
    if (file == NULL)
        return 0;
    memcpy(file + (whole ? 0 : HEADER), data, size);
    if (!whole) {
        static const uint32_t header[] = {1, 2, 6, 2, 3, 0};
        memcpy(file, "TTTRACE", 8);
        for (unsigned i = 0; i < 6; i++)
            tt_put_u32(file + 8 + i * 4, header[i]);
    }
    if (n >= HEADER + 4) {
        tt_put_u64(file + 48, n - HEADER - 4);
        tt_put_u32(file + n - 4, tt_crc32c(0, file, n - 4));
    }
    if (tt_cache_trace_parse(file, n, "fuzz", &t, &err) != TT_OK) {
        if (err.message[0] == '\0')
            abort();
    } else if (t.info.n_layers * t.info.n_experts < 4096) {
        play(&t);
    }
    free(file);
    return 0;
}
