/* Any bytes through tt_session_restore, with size and checksum made right so that the parser behind
 * them is reached. What is accepted must come out of the session again; what is refused must leave
 * it as it was. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "session/session.h"

#define CONTEXT 40u
#define VOCAB   32u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
    if (!truth)
        abort();
}

/* No install and no weights: a session needs the architecture, the plan and the key. */
static tt_session *session(void)
{
    static tt_model m;
    static tt_session *s;
    if (s != NULL)
        return s;
    m.arch = (tt_arch){.n_layers = 2,
                       .vocab_size = VOCAB,
                       .layer_kind = {TT_LAYER_LINEAR, TT_LAYER_FULL},
                       .n_heads = 1,
                       .n_kv_heads = 1,
                       .head_dim = 64,
                       .lin_key_heads = 1,
                       .lin_value_heads = 1,
                       .lin_key_dim = 2,
                       .lin_value_dim = 4,
                       .conv_kernel = 4};
    m.plan.max_context = CONTEXT;
    m.plan.kv_bits = 4;
    strcpy(m.key, "manifest 00 backend cpu level ref kv 4 yarn 1");
    expect(tt_session_create(&m, &s, NULL) == TT_OK);
    return s;
}

static void put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_session *s = session();
    tt_error err = {0};
    size_t n = tt_session_n_tokens(s), again;
    uint8_t *b = malloc(size > 0 ? size : 1), *copy;
    if (b == NULL)
        return 0;
    if (size > 0)
        memcpy(b, data, size);
    if (size >= 64) {
        put(b + 16, size, 8);
        put(b + 12, tt_crc32c(0, b + 16, size - 16), 4);
    }
    tt_status st = tt_session_restore(s, b, size, &err);
    if (st != TT_OK) {
        expect(err.status == st && err.message[0] != '\0');
        expect(tt_session_n_tokens(s) == n);
        free(b);
        return 0;
    }
    n = tt_session_n_tokens(s);
    expect(n <= CONTEXT && tt_session_reusable(s, n) == n);
    for (size_t i = 0; i < n; i++)
        expect(tt_session_tokens(s)[i] < VOCAB);
    expect(n > 0 || tt_session_logits(s) == NULL);
    again = tt_session_snapshot_size(s);
    copy = malloc(again);
    expect(again == size && copy != NULL);
    expect(tt_session_snapshot(s, copy, again, NULL) == TT_OK);
    expect(memcmp(b + 64, copy + 64, strlen(s->model->key)) == 0);
    free(copy);
    free(b);
    return 0;
}
