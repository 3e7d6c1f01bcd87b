#include "tokenizer/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "tokenizer/tok_utf8.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t m = (__uint128_t)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint32_t hash_bytes(const char *bytes, size_t len)
{
    const uint64_t k1 = UINT64_C(0x9e3779b97f4a7c15), k2 = UINT64_C(0xd6e8feb86659fd93);
    uint64_t h = k1 ^ len, w;
    for (; len > 8; bytes += 8, len -= 8) {
        memcpy(&w, bytes, 8);
        h = mix(h ^ w, k2);
    }
    w = 0;
    memcpy(&w, bytes, len);
    h = mix(h ^ w, k1);
    return (uint32_t)(h ^ h >> 32);
}

bool tt_bytes_from_alphabet(const char *name, size_t len, char *out, size_t *out_len)
{
    size_t n = 0;
    for (size_t i = 0, step; i < len; i += step) {
        uint32_t cp = tt_utf8_read(name + i, &step);
        /* The bytes that do not stand for themselves, in ascending order: 0x00-0x20 (33 of them),
         * 0x7f-0xa0 (34), 0xad. */
        if ((cp >= 0x21 && cp <= 0x7e) || (cp >= 0xa1 && cp <= 0xff && cp != 0xad))
            out[n++] = (char)cp;
        else if (cp >= 0x100 && cp <= 0x120)
            out[n++] = (char)(cp - 0x100);
        else if (cp >= 0x121 && cp <= 0x142)
            out[n++] = (char)(cp - 0x121 + 0x7f);
        else if (cp == 0x143)
            out[n++] = (char)0xad;
        else
            return false;
    }
    *out_len = n;
    return true;
}

const char *tt_show_bytes(const char *bytes, size_t len, char out[80])
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (n > 48) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        if (c >= 0x20 && c < 0x7f)
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, 80 - n, "\\x%02x", c);
    }
    out[n] = '\0';
    return out;
}

uint32_t tt_vocab_find(const tt_vocab *v, const char *bytes, size_t len)
{
    if (len == 1)
        return v->byte_id[(unsigned char)bytes[0]];
    if (len > v->longest)
        return TT_NO_TOKEN;
    uint32_t h = hash_bytes(bytes, len);
    for (uint32_t i = h & v->mask;; i = (i + 1) & v->mask) {
        const tt_token_slot *s = &v->slots[i];
        if (s->id == TT_NO_TOKEN)
            return TT_NO_TOKEN;
        if (s->hash == h && v->start[s->id + 1] - v->start[s->id] == len &&
            memcmp(v->bytes + v->start[s->id], bytes, len) == 0)
            return s->id;
    }
}

const char *tt_vocab_bytes(const tt_vocab *v, uint32_t id, size_t *len)
{
    if (id >= v->n || v->flags[id] == 0)
        return NULL;
    *len = v->start[id + 1] - v->start[id];
    return v->bytes + v->start[id];
}

/* Whether added token `d` names model token `o` again, verbatim or in the byte-level alphabet. */
static bool same_content(const tt_token_def *o, const tt_token_def *d)
{
    if (o->len == d->len && memcmp(o->bytes, d->bytes, d->len) == 0)
        return true;
    size_t n = 0;
    char *bytes = malloc((size_t)d->len + 1);
    bool same = bytes != NULL && tt_bytes_from_alphabet(d->bytes, d->len, bytes, &n) &&
                n == o->len && memcmp(bytes, o->bytes, n) == 0;
    free(bytes);
    return same;
}

/* Fills flags and start[id + 1] = length; refuses ids given twice. `owner` remembers which entry an
 * id belongs to. */
static tt_status place(const tt_token_def *defs, size_t count, const char *file, tt_vocab *v,
                       uint32_t *owner, tt_error *err)
{
    char a[80], b[80];
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const tt_token_def *d = &defs[i];
        if (v->flags[d->id] == 0) {
            v->flags[d->id] = d->flags | TT_TOKEN_PRESENT;
            v->start[d->id + 1] = d->len;
            owner[d->id] = (uint32_t)i;
            total += d->len;
            continue;
        }
        const tt_token_def *o = &defs[owner[d->id]];
        bool again = (d->flags & TT_TOKEN_ADDED) != 0 && (v->flags[d->id] & TT_TOKEN_ADDED) == 0 &&
                     same_content(o, d);
        if (!again)
            return tt_fail_at(
                err, TT_ERR_FORMAT, file, -1, "id %u is given to \"%s\" and to \"%s\"", d->id,
                tt_show_bytes(o->bytes, o->len, a), tt_show_bytes(d->bytes, d->len, b));
        v->flags[d->id] |= d->flags;
    }
    if (total > TT_MAX_TOKENIZER_JSON)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "the tokens hold more than %llu bytes",
                          (unsigned long long)TT_MAX_TOKENIZER_JSON);
    return TT_OK;
}

/* Moves the bytes to their places in the order of ids. */
static tt_status copy_bytes(const tt_token_def *defs, tt_vocab *v, const uint32_t *owner,
                            tt_error *err)
{
    for (uint32_t id = 0; id < v->n; id++)
        v->start[id + 1] += v->start[id];
    v->bytes = malloc(v->start[v->n] + 1);
    if (v->bytes == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u bytes of tokens", v->start[v->n]);
    for (uint32_t id = 0; id < v->n; id++)
        if (v->flags[id] != 0)
            memcpy(v->bytes + v->start[id], defs[owner[id]].bytes, v->start[id + 1] - v->start[id]);
    return TT_OK;
}

/* Enters one model token into the hash; refuses a content that is there already. */
static tt_status enter(tt_vocab *v, uint32_t id, const char *file, tt_error *err)
{
    char shown[80];
    const char *bytes = v->bytes + v->start[id];
    uint32_t len = v->start[id + 1] - v->start[id], h = hash_bytes(bytes, len), i = h & v->mask;
    for (unsigned probes = 0; v->slots[i].id != TT_NO_TOKEN; i = (i + 1) & v->mask) {
        uint32_t other = v->slots[i].id;
        if (v->slots[i].hash == h && v->start[other + 1] - v->start[other] == len &&
            memcmp(v->bytes + v->start[other], bytes, len) == 0)
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                              "token \"%s\" has two ids, %u and %u, in model.vocab",
                              tt_show_bytes(bytes, len, shown), other, id);
        if (++probes > TT_MAX_PROBES)
            return tt_fail_at(err, TT_ERR_LIMIT, file, -1,
                              "model.vocab was made to collide in the hash table (at \"%s\")",
                              tt_show_bytes(bytes, len, shown));
    }
    v->slots[i] = (tt_token_slot){.hash = h, .id = id};
    if (len == 1)
        v->byte_id[(unsigned char)bytes[0]] = id;
    if (len > v->longest)
        v->longest = len;
    return TT_OK;
}

static tt_status build(const tt_token_def *defs, size_t count, const char *file, tt_vocab *v,
                       uint32_t *owner, tt_error *err)
{
    TT_TRY(place(defs, count, file, v, owner, err));
    TT_TRY(copy_bytes(defs, v, owner, err));
    for (uint32_t id = 0; id < v->n; id++)
        if ((v->flags[id] & TT_TOKEN_MODEL) != 0)
            TT_TRY(enter(v, id, file, err));
    return TT_OK;
}

tt_status tt_vocab_build(const tt_token_def *defs, size_t count, const char *file, tt_vocab *out,
                         tt_error *err)
{
    tt_vocab v = {0};
    uint64_t slots = 64;
    for (size_t i = 0; i < count; i++) {
        if (defs[i].id >= TT_MAX_VOCAB)
            return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "id %u is out of range, at most %u",
                              defs[i].id, TT_MAX_VOCAB - 1);
        if (defs[i].id >= v.n)
            v.n = defs[i].id + 1;
    }
    while (slots < 2 * (uint64_t)count)
        slots *= 2;
    if (slots > (uint64_t)4 * TT_MAX_VOCAB)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "%zu tokens, at most %u are accepted", count,
                          TT_MAX_VOCAB);
    v.mask = (uint32_t)slots - 1;
    v.start = calloc((size_t)v.n + 1, sizeof *v.start);
    v.flags = calloc((size_t)v.n + 1, sizeof *v.flags);
    v.slots = malloc(slots * sizeof *v.slots);
    uint32_t *owner = malloc(((size_t)v.n + 1) * sizeof *owner);
    tt_status st = TT_OK;
    if (v.start == NULL || v.flags == NULL || v.slots == NULL || owner == NULL) {
        st = tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for a vocabulary of %u", v.n);
    } else {
        memset(v.slots, 0xff, slots * sizeof *v.slots);
        memset(v.byte_id, 0xff, sizeof v.byte_id);
        st = build(defs, count, file, &v, owner, err);
    }
    free(owner);
    if (st != TT_OK) {
        tt_vocab_free(&v);
        return st;
    }
    *out = v;
    return TT_OK;
}

void tt_vocab_free(tt_vocab *v)
{
    free(v->bytes);
    free(v->start);
    free(v->flags);
    free(v->slots);
    *v = (tt_vocab){0};
}
