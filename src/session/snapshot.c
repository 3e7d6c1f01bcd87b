/* Snapshot of a session as one block. Layout, all integers little-endian:
 *
 *   0   8  magic "TTSNAP01"
 *   8   4  version 1
 *   12  4  CRC-32C of everything from byte 16 on
 *   16  8  total bytes
 *   24  4  length of the key; 28 4 number of tokens; 32 4 flags: bit 0 logits follow; 36 4
 * vocabulary size 40  8  bytes of KV rows; 48 8 bytes of recurrent state ([dk][dv] orientation,
 * f32); 56 8 reserved, zero 64     key (what the snapshot is bound to), padded to 8 with zeros
 *          tokens u32 each, padded to 8
 *          KV rows: for each full-attention layer K codes, V codes, K meta, V meta of all tokens,
 *            and of qwen4_exp index keys, those of blocks that are not complete as zeros
 *          recurrent block (recurrent.h): for each linear layer S and three convolution rows;
 *            of qwen4_exp also convolution rows of the n-gram block and raw index keys
 *          logits f32 [vocab], when flagged */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "session/session.h"

#define MAGIC      "TTSNAP01"
#define HEADER     64u
#define HAS_LOGITS 1u

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static void put64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get64(const unsigned char *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static uint64_t pad8(uint64_t n)
{
    return (n + 7) / 8 * 8;
}

/* Where the parts of a snapshot stand; the same sums for writing, sizing and checking. */
typedef struct parts {
    uint64_t key, tokens, kv, state, logits, total;
    uint64_t kv_bytes;
} parts;

static parts lay_out(const tt_session *s, uint64_t n, bool logits)
{
    parts p;
    p.kv_bytes = n * tt_kv_token_bytes(&s->model->arch, s->model->plan.kv_bits);
    p.key = HEADER;
    p.tokens = p.key + pad8(strlen(s->model->key));
    p.kv = p.tokens + pad8(n * sizeof(uint32_t));
    p.state = p.kv + p.kv_bytes;
    p.logits = p.state + s->recurrent.bytes;
    p.total = p.logits + (logits ? (uint64_t)s->model->arch.vocab_size * sizeof(float) : 0);
    return p;
}

size_t tt_session_snapshot_size(const tt_session *s)
{
    return lay_out(s, s->n, s->logits_valid).total;
}

tt_status tt_session_snapshot(const tt_session *s, void *buf, size_t size, tt_error *err)
{
    parts p = lay_out(s, s->n, s->logits_valid);
    unsigned char *b = buf;
    tt_ahead_drop((tt_session *)s); /* nothing that a caller can see */
    if (size != p.total)
        return tt_fail(err, TT_ERR_INVALID, "the snapshot needs %llu bytes, the buffer has %zu",
                       (unsigned long long)p.total, size);
    memset(b, 0, p.kv);
    memcpy(b, MAGIC, 8);
    put32(b + 8, 1);
    put64(b + 16, p.total);
    put32(b + 24, (uint32_t)strlen(s->model->key));
    put32(b + 28, s->n);
    put32(b + 32, s->logits_valid ? HAS_LOGITS : 0);
    put32(b + 36, s->model->arch.vocab_size);
    put64(b + 40, p.kv_bytes);
    put64(b + 48, s->recurrent.bytes);
    memcpy(b + p.key, s->model->key, strlen(s->model->key));
    for (uint32_t i = 0; i < s->n; i++)
        put32(b + p.tokens + 4 * (uint64_t)i, s->tokens[i]);
    tt_kv_cache_save(&s->kv, 0, s->n, b + p.kv);
    if (s->recurrent.bytes > 0)
        memcpy(b + p.state, s->recurrent.block, s->recurrent.bytes);
    if (s->logits_valid)
        memcpy(b + p.logits, s->logits, s->model->arch.vocab_size * sizeof(float));
    put32(b + 12, tt_crc32c(0, b + 16, p.total - 16));
    return TT_OK;
}

static tt_status broken(tt_error *err, int64_t offset, const char *what)
{
    return tt_fail_at(err, TT_ERR_FORMAT, NULL, offset, "the snapshot is broken: %s", what);
}

/* Word `i` of a key of `len` bytes, at most 79 printable characters of it; false past the end. */
static bool key_word(const char *key, size_t len, unsigned i, char out[80])
{
    size_t at = 0, n = 0;
    for (; i > 0 && at < len; at++)
        i -= key[at] == ' ';
    if (at >= len)
        return false;
    for (; at < len && key[at] != ' ' && n < 79; at++)
        out[n++] = key[at] > ' ' && key[at] <= '~' ? key[at] : '?';
    out[n] = '\0';
    return true;
}

/* Keys are "name value name value ...": says the first pair that is not the same. */
static tt_status other_key(const char *theirs, size_t len, const char *ours, tt_error *err)
{
    char a[2][80], b[2][80];
    for (unsigned i = 0;; i += 2) {
        if (!key_word(theirs, len, i, a[0]) || !key_word(theirs, len, i + 1, a[1]) ||
            !key_word(ours, strlen(ours), i, b[0]) || !key_word(ours, strlen(ours), i + 1, b[1]))
            return tt_fail(err, TT_ERR_STATE, "the snapshot was not made with \"%s\"", ours);
        if (strcmp(a[0], b[0]) != 0 || strcmp(a[1], b[1]) != 0)
            return tt_fail(err, TT_ERR_STATE,
                           "the snapshot was made with %s %s, this session has %s %s", a[0], a[1],
                           b[0], b[1]);
    }
}

static tt_status check_header(const tt_session *s, const unsigned char *b, size_t size, parts *p,
                              tt_error *err)
{
    if (size < HEADER || memcmp(b, MAGIC, 8) != 0)
        return broken(err, 0, "no TTSNAP01 header");
    if (get32(b + 8) != 1)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, NULL, 8,
                          "snapshot version %u is not supported, this is version 1", get32(b + 8));
    if (get64(b + 16) != size)
        return broken(err, 16, "its size does not match");
    if (get32(b + 12) != tt_crc32c(0, b + 16, size - 16))
        return tt_fail_at(err, TT_ERR_CORRUPT, NULL, 12,
                          "the snapshot does not match its checksum");
    uint32_t key_len = get32(b + 24), n = get32(b + 28), flags = get32(b + 32);
    const char *key = s->model->key;
    if (key_len > size - HEADER)
        return broken(err, 24, "its key is longer than the snapshot");
    if (key_len != strlen(key) || memcmp(b + HEADER, key, key_len) != 0)
        return other_key((const char *)b + HEADER, key_len, key, err);
    if (n > s->model->plan.max_context)
        return tt_fail(err, TT_ERR_CONTEXT,
                       "the snapshot has %u tokens, the context is %u: raise the maximum context",
                       n, s->model->plan.max_context);
    if (flags & ~HAS_LOGITS || get64(b + 56) != 0)
        return broken(err, 32, "unknown flags");
    if (n == 0 && flags != 0)
        return broken(err, 32, "it has logits without tokens");
    *p = lay_out(s, n, flags & HAS_LOGITS);
    if (p->total != size || get64(b + 40) != p->kv_bytes || get64(b + 48) != s->recurrent.bytes ||
        get32(b + 36) != s->model->arch.vocab_size)
        return broken(err, 40, "its parts do not match this model");
    for (uint32_t i = 0; i < n; i++)
        if (get32(b + p->tokens + 4 * (uint64_t)i) >= s->model->arch.vocab_size)
            return broken(err, (int64_t)(p->tokens + 4 * (uint64_t)i),
                          "a token is outside the vocabulary");
    return TT_OK;
}

tt_status tt_session_restore(tt_session *s, const void *buf, size_t size, tt_error *err)
{
    const unsigned char *b = buf;
    parts p = {0};
    TT_TRY(check_header(s, b, size, &p, err));
    uint32_t n = get32(b + 28);
    tt_ahead_reset(s);
    TT_TRY(tt_kv_cache_grow(&s->kv, n, err));
    for (uint32_t i = 0; i < n; i++)
        s->tokens[i] = get32(b + p.tokens + 4 * (uint64_t)i);
    tt_kv_cache_load(&s->kv, 0, n, b + p.kv);
    if (s->recurrent.bytes > 0)
        memcpy(s->recurrent.block, b + p.state, s->recurrent.bytes);
    s->n = n;
    s->logits_valid = (get32(b + 32) & HAS_LOGITS) != 0;
    if (s->logits_valid) {
        uint32_t vocab = s->model->arch.vocab_size;
        memcpy(s->logits, b + p.logits, vocab * sizeof *s->logits);
        tt_block_max(s->top, s->logits, vocab);
    }
    /* How these rows were made is not known. */
    memset(s->made, TT_MADE_UNKNOWN, tt_blocks(n));
    tt_session_keep(s);
    return TT_OK;
}
