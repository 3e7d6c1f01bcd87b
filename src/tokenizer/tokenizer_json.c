#include "tokenizer/tokenizer_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/buf.h"
#include "base/limits.h"
#include "tokenizer/tok_utf8.h"
#include "tokenizer/vocab.h"

/* Values of the small tree. Published files need about 300; 65,536 added tokens would need 524,288.
 */
#define MAX_NODES 600000u

typedef enum where {
    IN_TREE,      /* everything else */
    IN_VOCAB,     /* inside model.vocab */
    IN_MERGES,    /* inside model.merges, between entries */
    IN_MERGE_PAIR /* inside one ["a", "b"] */
} where;

typedef struct parse {
    const char *file;
    yajl_handle yajl;
    tt_error *err;
    tt_status st;
    tt_buf blob;
    tt_tokenizer_json out;
    size_t cap_tokens, cap_merges;
    json_t *stack[TT_MAX_JSON_DEPTH]; /* open containers, borrowed from the tree */
    char *keys[TT_MAX_JSON_DEPTH];    /* pending key of the object at that depth */
    unsigned depth;
    size_t nodes;
    where where;
    bool seen_vocab, seen_merges;
    tt_json_token token;
    tt_json_merge merge;
    unsigned parts; /* of the pair being read */
} parse;

static int fail(parse *p, tt_status st, const char *fmt, ...) TT_PRINTF(3, 4);

static int fail(parse *p, tt_status st, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->st = tt_fail_at(p->err, st, p->file, (int64_t)yajl_get_bytes_consumed(p->yajl), "%s", text);
    return 0;
}

/* ---- the small tree ---- */

/* Hangs `v` into the open container; takes the reference. */
static int attach(parse *p, json_t *v)
{
    if (v == NULL)
        return fail(p, TT_ERR_NOMEM, "out of memory for the tree of settings");
    if (++p->nodes > MAX_NODES) {
        json_decref(v);
        return fail(p, TT_ERR_LIMIT, "more than %u values outside model.vocab and model.merges",
                    MAX_NODES);
    }
    if (p->depth == 0) {
        p->out.tree = v;
        return 1;
    }
    json_t *top = p->stack[p->depth - 1];
    int rc = 0;
    if (json_is_array(top)) {
        rc = json_array_append_new(top, v);
    } else {
        rc = json_object_set_new_nocheck(top, p->keys[p->depth - 1], v);
        free(p->keys[p->depth - 1]);
        p->keys[p->depth - 1] = NULL;
    }
    return rc == 0 ? 1 : fail(p, TT_ERR_NOMEM, "out of memory for the tree of settings");
}

static int open_container(parse *p, json_t *v)
{
    if (p->depth >= TT_MAX_JSON_DEPTH) {
        json_decref(v);
        return fail(p, TT_ERR_LIMIT, "JSON nests deeper than %u levels", TT_MAX_JSON_DEPTH);
    }
    if (!attach(p, v))
        return 0;
    p->stack[p->depth++] = v;
    return 1;
}

/* The pending key when the open container is the root's "model", else NULL. */
static const char *model_key(const parse *p)
{
    if (p->depth != 2 || p->keys[1] == NULL)
        return NULL;
    return json_object_get(p->stack[0], "model") == p->stack[1] ? p->keys[1] : NULL;
}

static bool is_model_key(const parse *p, const char *name)
{
    const char *key = model_key(p);
    return key != NULL && strcmp(key, name) == 0;
}

static void drop_key(parse *p)
{
    free(p->keys[p->depth - 1]);
    p->keys[p->depth - 1] = NULL;
}

/* ---- model.vocab and model.merges ---- */

static int keep(parse *p, const void *bytes, size_t n)
{
    tt_buf_append(&p->blob, bytes, n);
    if (tt_buf_status(&p->blob, p->err) == TT_OK)
        return 1;
    return fail(p, p->blob.failed, "the names of tokens and merges do not fit in %zu bytes",
                p->blob.max);
}

static int grow(parse *p, void **items, size_t *cap, size_t n, size_t size)
{
    if (n < *cap)
        return 1;
    size_t want = *cap == 0 ? 4096 : *cap * 2;
    void *more = realloc(*items, want * size);
    if (more == NULL)
        return fail(p, TT_ERR_NOMEM, "out of memory for %zu entries", want);
    *items = more;
    *cap = want;
    return 1;
}

static int vocab_key(parse *p, const char *name, size_t len)
{
    if (p->out.n_tokens >= TT_MAX_VOCAB)
        return fail(p, TT_ERR_LIMIT, "model.vocab has more than %u entries", TT_MAX_VOCAB);
    if (len == 0)
        return fail(p, TT_ERR_FORMAT, "model.vocab has an empty token");
    size_t start = p->blob.len, n = 0;
    if (!keep(p, name, len))
        return 0;
    p->token = (tt_json_token){.start = (uint32_t)start, .len = (uint32_t)len, .raw = true};
    if (tt_bytes_from_alphabet(name, len, p->blob.data + start, &n)) {
        p->blob.len = start + n;
        p->token.len = (uint32_t)n;
        p->token.raw = false;
    } else {
        memcpy(p->blob.data + start, name, len);
    }
    return 1;
}

static int vocab_value(parse *p, long long id)
{
    char shown[80];
    if (id < 0 || id >= (long long)TT_MAX_VOCAB)
        return fail(p, TT_ERR_LIMIT, "id %lld of token \"%s\" is out of range 0 to %u", id,
                    tt_show_bytes(p->blob.data + p->token.start, p->token.len, shown),
                    TT_MAX_VOCAB - 1);
    if (!grow(p, (void **)&p->out.tokens, &p->cap_tokens, p->out.n_tokens, sizeof p->token))
        return 0;
    p->token.id = (uint32_t)id;
    p->out.tokens[p->out.n_tokens++] = p->token;
    return 1;
}

/* One side of a merge, appended to the blob as bytes. */
static int merge_part(parse *p, const char *name, size_t len, uint32_t *out)
{
    char shown[80];
    size_t start = p->blob.len, n = 0;
    if (len == 0)
        return fail(p, TT_ERR_FORMAT, "model.merges[%zu] has an empty side", p->out.n_merges);
    if (!keep(p, name, len))
        return 0;
    if (!tt_bytes_from_alphabet(name, len, p->blob.data + start, &n))
        return fail(p, TT_ERR_FORMAT,
                    "model.merges[%zu] names \"%s\", which is not in the byte-level alphabet",
                    p->out.n_merges, tt_show_bytes(name, len, shown));
    p->blob.len = start + n;
    *out = (uint32_t)n;
    return 1;
}

static int merge_begin(parse *p)
{
    if (p->out.n_merges >= TT_MAX_VOCAB)
        return fail(p, TT_ERR_LIMIT, "model.merges has more than %u entries", TT_MAX_VOCAB);
    p->merge = (tt_json_merge){.start = (uint32_t)p->blob.len};
    p->parts = 0;
    return 1;
}

static int merge_end(parse *p)
{
    if (!grow(p, (void **)&p->out.merges, &p->cap_merges, p->out.n_merges, sizeof p->merge))
        return 0;
    p->out.merges[p->out.n_merges++] = p->merge;
    return 1;
}

static int merge_string(parse *p, const char *text, size_t len)
{
    char shown[80];
    const char *gap = memchr(text, ' ', len);
    size_t left = gap == NULL ? 0 : (size_t)(gap - text);
    if (gap == NULL || memchr(gap + 1, ' ', len - left - 1) != NULL)
        return fail(p, TT_ERR_FORMAT, "model.merges[%zu] is \"%s\", not two tokens and one space",
                    p->out.n_merges, tt_show_bytes(text, len, shown));
    return merge_begin(p) && merge_part(p, text, left, &p->merge.left) &&
           merge_part(p, gap + 1, len - left - 1, &p->merge.right) && merge_end(p);
}

static int pair_string(parse *p, const char *text, size_t len)
{
    if (p->parts >= 2)
        return fail(p, TT_ERR_FORMAT, "model.merges[%zu] has more than two sides", p->out.n_merges);
    return merge_part(p, text, len, p->parts++ == 0 ? &p->merge.left : &p->merge.right);
}

/* A value that the two lists have no place for. */
static int misplaced(parse *p, const char *what)
{
    if (p->where == IN_VOCAB)
        return fail(p, TT_ERR_FORMAT, "model.vocab holds %s where an id must stand", what);
    return fail(p, TT_ERR_FORMAT, "model.merges[%zu] holds %s, must be \"a b\" or [\"a\", \"b\"]",
                p->out.n_merges, what);
}

/* ---- events ---- */

static int on_null(void *ctx)
{
    parse *p = ctx;
    return p->where == IN_TREE ? attach(p, json_null()) : misplaced(p, "null");
}

static int on_boolean(void *ctx, int v)
{
    parse *p = ctx;
    return p->where == IN_TREE ? attach(p, json_boolean(v)) : misplaced(p, "true or false");
}

static int on_integer(void *ctx, long long v)
{
    parse *p = ctx;
    if (p->where == IN_VOCAB)
        return vocab_value(p, v);
    return p->where == IN_TREE ? attach(p, json_integer(v)) : misplaced(p, "a number");
}

static int on_double(void *ctx, double v)
{
    parse *p = ctx;
    return p->where == IN_TREE ? attach(p, json_real(v)) : misplaced(p, "a fraction");
}

static int on_string(void *ctx, const unsigned char *bytes, size_t len)
{
    parse *p = ctx;
    const char *text = (const char *)bytes;
    if (tt_utf8_check(text, len) != len)
        return fail(p, TT_ERR_FORMAT, "a string is not UTF-8");
    switch (p->where) {
    case IN_MERGES:
        return merge_string(p, text, len);
    case IN_MERGE_PAIR:
        return pair_string(p, text, len);
    case IN_VOCAB:
        return misplaced(p, "a string");
    default:
        return attach(p, json_stringn_nocheck(text, len));
    }
}

static int on_start_map(void *ctx)
{
    parse *p = ctx;
    if (p->where != IN_TREE)
        return misplaced(p, "an object");
    if (is_model_key(p, "vocab")) {
        if (p->seen_vocab)
            return fail(p, TT_ERR_FORMAT, "model.vocab stands twice");
        drop_key(p);
        p->seen_vocab = true;
        p->where = IN_VOCAB;
        return 1;
    }
    return open_container(p, json_object());
}

static int on_map_key(void *ctx, const unsigned char *bytes, size_t len)
{
    parse *p = ctx;
    const char *text = (const char *)bytes;
    char shown[80];
    if (tt_utf8_check(text, len) != len)
        return fail(p, TT_ERR_FORMAT, "a key is not UTF-8");
    if (p->where == IN_VOCAB)
        return vocab_key(p, text, len);
    if (memchr(text, 0, len) != NULL)
        return fail(p, TT_ERR_FORMAT, "a key holds U+0000");
    char *key = tt_copy_text(text, len);
    if (key == NULL)
        return fail(p, TT_ERR_NOMEM, "out of memory for a key");
    p->keys[p->depth - 1] = key;
    if (json_object_get(p->stack[p->depth - 1], key) != NULL)
        return fail(p, TT_ERR_FORMAT, "key \"%s\" stands twice in one object",
                    tt_show_bytes(text, len, shown));
    return 1;
}

static int on_end_map(void *ctx)
{
    parse *p = ctx;
    if (p->where == IN_VOCAB)
        p->where = IN_TREE;
    else
        p->depth--;
    return 1;
}

static int on_start_array(void *ctx)
{
    parse *p = ctx;
    if (p->where == IN_MERGES) {
        p->where = IN_MERGE_PAIR;
        return merge_begin(p);
    }
    if (p->where != IN_TREE)
        return misplaced(p, "a list");
    if (is_model_key(p, "vocab"))
        return fail(p, TT_ERR_UNSUPPORTED,
                    "model.vocab is a list (a Unigram model); only BPE is supported");
    if (is_model_key(p, "merges")) {
        if (p->seen_merges)
            return fail(p, TT_ERR_FORMAT, "model.merges stands twice");
        drop_key(p);
        p->seen_merges = true;
        p->where = IN_MERGES;
        return 1;
    }
    return open_container(p, json_array());
}

static int on_end_array(void *ctx)
{
    parse *p = ctx;
    if (p->where == IN_MERGE_PAIR) {
        if (p->parts != 2)
            return fail(p, TT_ERR_FORMAT, "model.merges[%zu] has %u sides, must have two",
                        p->out.n_merges, p->parts);
        p->where = IN_MERGES;
        return merge_end(p);
    }
    if (p->where == IN_MERGES)
        p->where = IN_TREE;
    else
        p->depth--;
    return 1;
}

/* ---- the whole file ---- */

/* yajl turns half a surrogate pair into "?"; it must not slip by. Returns its offset, or `len`. */
static size_t lone_surrogate(const char *text, size_t len)
{
    bool half = false; /* a high half stands just before */
    size_t i = 0;
    while (i < len) {
        const char *slash = memchr(text + i, '\\', len - i);
        if (slash == NULL)
            return half ? i : len;
        size_t at = (size_t)(slash - text);
        if (half && at != i)
            return i;
        bool u = at + 6 <= len && text[at + 1] == 'u' && (text[at + 2] | 32) == 'd';
        char kind = u ? (char)(text[at + 3] | 32) : '\0';
        bool high = u && (kind == '8' || kind == '9' || kind == 'a' || kind == 'b');
        bool low = u && kind >= 'c' && kind <= 'f';
        if (half != low)
            return at;
        half = high;
        i = at + (high || low ? 6 : 2);
    }
    return len;
}

static tt_status run(parse *p, const char *text, size_t len)
{
    size_t bad = lone_surrogate(text, len);
    if (bad < len)
        return tt_fail_at(p->err, TT_ERR_FORMAT, p->file, (int64_t)bad,
                          "half a surrogate pair in a \\u escape");
    yajl_status ys = yajl_parse(p->yajl, (const unsigned char *)text, len);
    if (ys == yajl_status_ok)
        ys = yajl_complete_parse(p->yajl);
    if (ys == yajl_status_client_canceled)
        return p->st;
    if (ys != yajl_status_ok) {
        unsigned char *why = yajl_get_error(p->yajl, 0, (const unsigned char *)text, len);
        char *end = why == NULL ? NULL : strchr((char *)why, '\n');
        if (end != NULL)
            *end = '\0';
        tt_status st =
            tt_fail_at(p->err, TT_ERR_FORMAT, p->file, (int64_t)yajl_get_bytes_consumed(p->yajl),
                       "broken JSON: %s", why == NULL ? "unreadable" : (char *)why);
        yajl_free_error(p->yajl, why);
        return st;
    }
    if (!json_is_object(p->out.tree))
        return tt_fail_at(p->err, TT_ERR_FORMAT, p->file, 0, "must hold a JSON object");
    return TT_OK;
}

tt_status tt_tokenizer_json_parse(const char *text, size_t len, const char *file,
                                  tt_tokenizer_json *out, tt_error *err)
{
    static const yajl_callbacks events = {on_null,    on_boolean,     on_integer,   on_double,
                                          NULL,       on_string,      on_start_map, on_map_key,
                                          on_end_map, on_start_array, on_end_array};
    if (len > TT_MAX_TOKENIZER_JSON)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "%zu bytes, at most %llu are accepted", len,
                          (unsigned long long)TT_MAX_TOKENIZER_JSON);
    parse *p = calloc(1, sizeof *p);
    if (p == NULL)
        return tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for the parser");
    p->file = file;
    p->err = err;
    /* Converted names are never longer than what the file spends on them. */
    tt_buf_init(&p->blob, len + 1);
    p->yajl = yajl_alloc(&events, NULL, p);
    tt_status st = p->yajl == NULL
                       ? tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for the parser")
                       : run(p, text, len);
    for (unsigned i = 0; i < TT_MAX_JSON_DEPTH; i++)
        free(p->keys[i]);
    if (p->yajl != NULL)
        yajl_free(p->yajl);
    if (st == TT_OK) {
        p->out.blob = p->blob.data;
        *out = p->out;
    } else {
        tt_buf_free(&p->blob);
        tt_tokenizer_json_free(&p->out);
    }
    free(p);
    return st;
}

void tt_tokenizer_json_free(tt_tokenizer_json *tj)
{
    free(tj->blob);
    free(tj->tokens);
    free(tj->merges);
    json_decref(tj->tree);
    *tj = (tt_tokenizer_json){0};
}
