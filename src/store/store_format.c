#include "store/store_format.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "format/le.h"

#define VERSION 1u

static const char block_magic[] = "TTSTATE1", index_magic[] = "TTINDEX1";
static const tt_digest zeros;

static tt_status bad(tt_error *err, int64_t offset, const char *what)
{
    return tt_fail_at(err, TT_ERR_CORRUPT, NULL, offset, "%s", what);
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

/* ---- block files ---- */

static uint32_t head_crc(const uint8_t *h)
{
    return tt_crc32c(tt_crc32c(0, h, 36), h + 40, TT_STORE_HEAD - 40);
}

void tt_store_head_write(const tt_store_head *h, uint8_t out[TT_STORE_HEAD])
{
    memset(out, 0, TT_STORE_HEAD);
    memcpy(out, block_magic, 8);
    tt_put_u32(out + 8, VERSION);
    tt_put_u32(out + 12, h->part);
    tt_put_u32(out + 16, h->tokens);
    tt_put_u32(out + 20, h->made);
    tt_put_u64(out + 24, h->bytes);
    tt_put_u32(out + 32, h->crc);
    memcpy(out + 40, h->chain.b, 32);
    memcpy(out + 72, h->key.b, 32);
    tt_put_u32(out + 36, head_crc(out));
}

/* Blocks end at multiples of 64 and have a making that is known. */
static bool place_valid(uint32_t tokens, uint32_t made)
{
    return tokens > 0 && tokens % TT_BLOCK == 0 && tokens <= TT_MAX_CONTEXT && made <= TT_BLOCK;
}

tt_status tt_store_head_read(const uint8_t in[TT_STORE_HEAD], tt_store_head *out, tt_error *err)
{
    tt_store_head h = {.part = (tt_store_part)tt_get_u32(in + 12),
                       .tokens = tt_get_u32(in + 16),
                       .made = tt_get_u32(in + 20),
                       .bytes = tt_get_u64(in + 24),
                       .crc = tt_get_u32(in + 32)};
    memcpy(h.chain.b, in + 40, 32);
    memcpy(h.key.b, in + 72, 32);
    if (memcmp(in, block_magic, 8) != 0)
        return bad(err, 0, "no TTSTATE1 head");
    if (tt_get_u32(in + 36) != head_crc(in))
        return bad(err, 36, "the head does not match its checksum");
    if (tt_get_u32(in + 8) != VERSION)
        return bad(err, 8, "not version 1");
    if ((h.part != TT_STORE_KV && h.part != TT_STORE_STATE) || !place_valid(h.tokens, h.made) ||
        h.bytes == 0 || h.bytes > TT_STORE_MAX_PAYLOAD || !all_zero(in + 104, 24))
        return bad(err, 12, "a field of the head is out of range");
    *out = h;
    return TT_OK;
}

/* ---- the index ---- */

void tt_store_index_item(const tt_store_index *ix, uint32_t i, tt_store_item *out)
{
    const uint8_t *p = ix->items + (size_t)i * TT_STORE_ITEM;
    memcpy(out->chain.b, p, 32);
    memcpy(out->parent.b, p + 32, 32);
    out->tokens = tt_get_u32(p + 64);
    out->key = tt_get_u32(p + 68);
    out->made = tt_get_u32(p + 72);
    out->kind = tt_get_u32(p + 76);
    out->kv_bytes = tt_get_u64(p + 80);
    out->state_bytes = tt_get_u64(p + 88);
    out->used = tt_get_u64(p + 96);
}

static bool item_valid(const tt_store_index *ix, uint32_t i, uint32_t kinds)
{
    tt_store_item it;
    tt_store_index_item(ix, i, &it);
    bool first = memcmp(&it.parent, &zeros, sizeof zeros) == 0;
    return it.key < ix->n_keys && it.kind < kinds && place_valid(it.tokens, it.made) &&
           first == (it.tokens == TT_BLOCK) && it.kv_bytes <= TT_STORE_MAX_PAYLOAD &&
           it.state_bytes <= TT_STORE_MAX_PAYLOAD && (it.kind > 0 || it.state_bytes == 0) &&
           it.used <= ix->clock &&
           all_zero(ix->items + (size_t)i * TT_STORE_ITEM + 104, TT_STORE_ITEM - 104);
}

static tt_status parse_keys(const uint8_t *b, size_t n, size_t *at, tt_store_index *ix,
                            tt_error *err)
{
    for (uint32_t k = 0; k < ix->n_keys; k++) {
        if (n - *at < 4)
            return bad(err, (int64_t)*at, "the index ends inside its keys");
        uint32_t len = tt_get_u32(b + *at);
        *at += 4;
        if (len == 0 || len > TT_STORE_MAX_KEY || len > n - *at || memchr(b + *at, 0, len) != NULL)
            return bad(err, (int64_t)*at, "a key of the index has no valid length");
        ix->key[k] = (const char *)b + *at;
        ix->key_len[k] = len;
        *at += len;
    }
    return TT_OK;
}

tt_status tt_store_index_parse(const void *bytes, size_t n, uint32_t kinds, tt_store_index *out,
                               tt_error *err)
{
    const uint8_t *b = bytes;
    size_t at = TT_STORE_INDEX_HEAD;
    if (n < at || n > TT_STORE_MAX_INDEX || memcmp(b, index_magic, 8) != 0)
        return bad(err, 0, "no TTINDEX1 head");
    if (tt_get_u32(b + 8) != VERSION)
        return bad(err, 8, "not version 1");
    if (tt_get_u64(b + 16) != n || tt_get_u32(b + 12) != tt_crc32c(0, b + 16, n - 16))
        return bad(err, 12, "the index does not match its checksum");
    tt_store_index ix = {
        .n_keys = tt_get_u32(b + 24), .n_items = tt_get_u32(b + 28), .clock = tt_get_u64(b + 32)};
    if (ix.n_keys > TT_STORE_MAX_KEYS || ix.n_items > TT_STORE_MAX_ITEMS ||
        ix.clock == UINT64_MAX || !all_zero(b + 40, 24))
        return bad(err, 24, "a field of the index is out of range");
    TT_TRY(parse_keys(b, n, &at, &ix, err));
    if ((uint64_t)ix.n_items * TT_STORE_ITEM != n - at)
        return bad(err, 28, "the index does not hold as many blocks as it says");
    ix.items = b + at;
    for (uint32_t i = 0; i < ix.n_items; i++)
        if (!item_valid(&ix, i, kinds))
            return bad(err, (int64_t)(at + (size_t)i * TT_STORE_ITEM),
                       "a block of the index is out of range");
    *out = ix;
    return TT_OK;
}

void tt_store_index_begin(tt_buf *b)
{
    static const char head[TT_STORE_INDEX_HEAD];
    tt_buf_append(b, head, sizeof head);
}

void tt_store_index_add_key(tt_buf *b, const char *text)
{
    uint8_t len[4];
    tt_put_u32(len, (uint32_t)strlen(text));
    tt_buf_append(b, len, sizeof len);
    tt_buf_puts(b, text);
}

void tt_store_index_add_item(tt_buf *b, const tt_store_item *it)
{
    uint8_t p[TT_STORE_ITEM] = {0};
    memcpy(p, it->chain.b, 32);
    memcpy(p + 32, it->parent.b, 32);
    tt_put_u32(p + 64, it->tokens);
    tt_put_u32(p + 68, it->key);
    tt_put_u32(p + 72, it->made);
    tt_put_u32(p + 76, it->kind);
    tt_put_u64(p + 80, it->kv_bytes);
    tt_put_u64(p + 88, it->state_bytes);
    tt_put_u64(p + 96, it->used);
    tt_buf_append(b, p, sizeof p);
}

void tt_store_index_end(tt_buf *b, uint32_t n_keys, uint32_t n_items, uint64_t clock)
{
    if (tt_buf_status(b, NULL) != TT_OK)
        return;
    uint8_t *h = (uint8_t *)b->data;
    memcpy(h, index_magic, 8);
    tt_put_u32(h + 8, VERSION);
    tt_put_u64(h + 16, b->len);
    tt_put_u32(h + 24, n_keys);
    tt_put_u32(h + 28, n_items);
    tt_put_u64(h + 32, clock);
    tt_put_u32(h + 12, tt_crc32c(0, h + 16, b->len - 16));
}

/* ---- names ---- */

void tt_store_file_name(const tt_digest *chain, tt_store_part part, char out[TT_STORE_NAME])
{
    for (size_t i = 0; i < sizeof chain->b; i++)
        snprintf(out + 2 * i, 3, "%02x", chain->b[i]);
    snprintf(out + 64, TT_STORE_NAME - 64, "%s", part == TT_STORE_KV ? ".kv" : ".state");
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tt_store_name_is_ours(const char *name, tt_digest *chain, int *part)
{
    *part = 0;
    if (strcmp(name, "index") == 0 || strcmp(name, "index.tmp") == 0)
        return true;
    for (size_t i = 0; i < 32; i++) {
        int high = hex_digit(name[2 * i]), low = high < 0 ? -1 : hex_digit(name[2 * i + 1]);
        if (low < 0)
            return false;
        chain->b[i] = (uint8_t)(high << 4 | low);
    }
    const char *end = name + 64;
    if (strcmp(end, ".kv") == 0)
        *part = TT_STORE_KV;
    else if (strcmp(end, ".state") == 0)
        *part = TT_STORE_STATE;
    return *part != 0 || strcmp(end, ".kv.tmp") == 0 || strcmp(end, ".state.tmp") == 0;
}

/* ---- digests ---- */

tt_status tt_store_chain(const tt_digest *parent, const uint32_t ids[TT_BLOCK], uint8_t made,
                         tt_digest *out, tt_error *err)
{
    uint8_t text[32 + 4 * TT_BLOCK + 1];
    memcpy(text, parent->b, 32);
    for (uint32_t i = 0; i < TT_BLOCK; i++)
        tt_put_u32(text + 32 + 4 * i, ids[i]);
    text[sizeof text - 1] = made;
    return tt_sha256_raw(text, sizeof text, out->b, err);
}

tt_status tt_store_key(const char *text, tt_digest *out, tt_error *err)
{
    return tt_sha256_raw(text, strlen(text), out->b, err);
}
