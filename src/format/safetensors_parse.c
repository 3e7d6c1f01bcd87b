#include "format/safetensors_parse.h"

#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/file.h"

#define PIECE       65536u /* bytes handed to the parser at a time */
#define BLOCK_BYTES 65536u

/* ---- names ---- */

struct tt_st_block {
    struct tt_st_block *next;
    size_t used;
    char text[BLOCK_BYTES];
};

const char *tt_st_names_add(tt_st_names *names, const char *text, size_t n)
{
    if (n + 1 > BLOCK_BYTES)
        return NULL;
    struct tt_st_block *b = names->blocks;
    if (b == NULL || BLOCK_BYTES - b->used < n + 1) {
        b = malloc(sizeof *b);
        if (b == NULL)
            return NULL;
        b->next = names->blocks;
        b->used = 0;
        names->blocks = b;
    }
    char *copy = b->text + b->used;
    memcpy(copy, text, n);
    copy[n] = '\0';
    b->used += n + 1;
    return copy;
}

void tt_st_names_free(tt_st_names *names)
{
    while (names->blocks != NULL) {
        struct tt_st_block *next = names->blocks->next;
        free(names->blocks);
        names->blocks = next;
    }
}

static uint64_t hash_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *name != '\0'; name++)
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return h;
}

bool tt_st_table_add(tt_st_table *t, const char *name, uint32_t value)
{
    if (t->count == t->cap) {
        size_t cap = t->cap == 0 ? 256 : t->cap * 2;
        tt_st_slot *slots = realloc(t->slots, cap * sizeof *slots);
        if (slots == NULL)
            return false;
        t->slots = slots;
        t->cap = cap;
    }
    t->slots[t->count++] = (tt_st_slot){.hash = hash_name(name), .name = name, .value = value};
    return true;
}

static int compare_slots(const void *pa, const void *pb)
{
    const tt_st_slot *a = pa, *b = pb;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return strcmp(a->name, b->name);
}

size_t tt_st_table_sort(tt_st_table *t)
{
    if (t->count > 1)
        qsort(t->slots, t->count, sizeof *t->slots, compare_slots);
    for (size_t i = 1; i < t->count; i++)
        if (compare_slots(&t->slots[i - 1], &t->slots[i]) == 0)
            return i;
    return 0;
}

const tt_st_slot *tt_st_table_find(const tt_st_table *t, const char *name)
{
    if (t->count == 0)
        return NULL;
    tt_st_slot key = {.hash = hash_name(name), .name = name};
    return bsearch(&key, t->slots, t->count, sizeof *t->slots, compare_slots);
}

void tt_st_table_free(tt_st_table *t)
{
    free(t->slots);
    *t = (tt_st_table){0};
}

/* ---- what both documents share ---- */

/* First member of both parser states: their callbacks see one context. */
typedef struct doc {
    yajl_handle yajl;
    const char *path;
    uint64_t base; /* file offset of the piece being parsed */
    uint64_t end;  /* file offset after the document */
    tt_status st;  /* why a callback stopped the parser */
    tt_error *err;
} doc;

static uint64_t here(const doc *d)
{
    uint64_t at = d->base + yajl_get_bytes_consumed(d->yajl);
    return at < d->end ? at : d->end;
}

/* Fails at the present byte; callbacks return its value to stop the parser. */
#define STOP(d, status, ...)                                                                       \
    ((d)->st = tt_fail_at((d)->err, (status), (d)->path, (int64_t)here(d), __VA_ARGS__), 0)

static int stop_nomem(doc *d)
{
    return STOP(d, TT_ERR_NOMEM, "out of memory while reading tensor names");
}

/* A string of the document as a C string of bounded length without control characters. */
static bool plain_text(const unsigned char *text, size_t n, size_t max)
{
    if (n == 0 || n > max)
        return false;
    for (size_t i = 0; i < n; i++)
        if (text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return true;
}

/* Feeds `n` bytes at `begin` to the parser, which is freed, and turns its verdict into ours. */
static tt_status feed(doc *d, int fd, uint64_t begin, uint64_t n)
{
    static const char *const strange = "parser stopped without a reason";
    unsigned char *piece = malloc(PIECE);
    yajl_status ys = yajl_status_ok;
    size_t len = 0;
    d->end = begin + n;
    if (piece == NULL || d->yajl == NULL) {
        d->st = tt_fail_at(d->err, TT_ERR_NOMEM, d->path, -1, "out of memory for the JSON parser");
        goto out;
    }
    for (uint64_t done = 0; done < n && ys == yajl_status_ok; done += len) {
        len = n - done < PIECE ? (size_t)(n - done) : PIECE;
        d->base = begin + done;
        d->st = tt_file_pread(fd, d->path, piece, len, d->base, d->err);
        if (d->st != TT_OK)
            goto out;
        ys = yajl_parse(d->yajl, piece, len);
    }
    if (ys == yajl_status_ok) {
        d->base = begin + n;
        len = 0;
        ys = yajl_complete_parse(d->yajl);
    }
    if (ys != yajl_status_ok && d->st == TT_OK) {
        unsigned char *text = yajl_get_error(d->yajl, 0, piece, len);
        const char *what = text != NULL ? (const char *)text : strange;
        d->st = tt_fail_at(d->err, TT_ERR_FORMAT, d->path, (int64_t)here(d),
                           "broken JSON near byte %llu: %.*s", (unsigned long long)here(d),
                           (int)strcspn(what, "\n"), what);
        yajl_free_error(d->yajl, text);
    }
out:
    free(piece);
    if (d->yajl != NULL)
        yajl_free(d->yajl);
    d->yajl = NULL;
    return d->st;
}

/* ---- header of a shard ---- */

enum header_state {
    H_START,     /* before the first brace */
    H_ROOT,      /* a tensor name, __metadata__ or the end */
    H_META,      /* the value of __metadata__ */
    H_META_KEY,  /* inside it */
    H_META_TEXT, /* one of its values */
    H_TENSOR,    /* the value of a tensor */
    H_FIELD,     /* one of its keys, or its end */
    H_DTYPE,
    H_SHAPE, /* before the bracket */
    H_DIM,
    H_OFFSETS, /* before the bracket */
    H_OFFSET
};
enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

typedef struct header {
    doc d;
    enum header_state state;
    bool seen_meta;
    unsigned seen;
    unsigned n_offsets;
    uint64_t offsets[2]; /* relative to the data section */
    tt_st_tensor t;
    uint64_t data, data_bytes;
    const tt_st_table *known;
    tt_st_names *names;
    tt_st_tensor_fn fn;
    void *ctx;
} header;

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[] = {
    [TT_ST_F32] = {"F32", 4}, [TT_ST_F16] = {"F16", 2},         [TT_ST_BF16] = {"BF16", 2},
    [TT_ST_U32] = {"U32", 4}, [TT_ST_I32] = {"I32", 4},         [TT_ST_I64] = {"I64", 8},
    [TT_ST_U8] = {"U8", 1},   [TT_ST_I8] = {"I8", 1},           [TT_ST_BOOL] = {"BOOL", 1},
    [TT_ST_F64] = {"F64", 8}, [TT_ST_U16] = {"U16", 2},         [TT_ST_I16] = {"I16", 2},
    [TT_ST_U64] = {"U64", 8}, [TT_ST_F8_E4M3] = {"F8_E4M3", 1}, [TT_ST_F8_E5M2] = {"F8_E5M2", 1},
};
#define N_DTYPES (sizeof dtypes / sizeof dtypes[0])

const char *tt_st_dtype_name(tt_st_dtype t)
{
    return (size_t)t < N_DTYPES ? dtypes[t].name : "?";
}

uint32_t tt_st_dtype_bytes(tt_st_dtype t)
{
    return (size_t)t < N_DTYPES ? dtypes[t].bytes : 0;
}

bool tt_st_dtype_parse(const char *text, size_t n, tt_st_dtype *out)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strlen(dtypes[i].name) == n && memcmp(dtypes[i].name, text, n) == 0) {
            *out = (tt_st_dtype)i;
            return true;
        }
    return false;
}

static int header_unexpected(header *h, const char *what)
{
    static const char *const wanted[] = {
        [H_START] = "the header object",
        [H_ROOT] = "a tensor name",
        [H_META] = "an object for __metadata__",
        [H_META_KEY] = "a key of __metadata__",
        [H_META_TEXT] = "a string in __metadata__",
        [H_TENSOR] = "an object describing the tensor",
        [H_FIELD] = "dtype, shape or data_offsets",
        [H_DTYPE] = "a string for dtype",
        [H_SHAPE] = "an array for shape",
        [H_DIM] = "a whole number in shape",
        [H_OFFSETS] = "an array for data_offsets",
        [H_OFFSET] = "a whole number in data_offsets",
    };
    const char *of = h->state >= H_TENSOR ? " of tensor " : "";
    const char *name = h->state >= H_TENSOR ? h->t.name : "";
    return STOP(&h->d, TT_ERR_FORMAT, "header%s%s: expected %s, found %s", of, name,
                wanted[h->state], what);
}

static int header_null(void *ctx)
{
    header *h = ctx;
    if (h->state != H_META) /* some writers put null for "no metadata" */
        return header_unexpected(h, "null");
    h->state = H_ROOT;
    return 1;
}

static int header_boolean(void *ctx, int value)
{
    return header_unexpected(ctx, value ? "true" : "false");
}

/* Digits only: no sign, fraction or exponent, at most 2^64 - 1. */
static bool whole_number(const char *text, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v))
            return false;
    }
    *out = v;
    return n > 0;
}

static int header_number(void *ctx, const char *text, size_t n)
{
    header *h = ctx;
    uint64_t v = 0;
    if (h->state != H_DIM && h->state != H_OFFSET)
        return header_unexpected(h, "a number");
    if (!whole_number(text, n, &v))
        return STOP(&h->d, TT_ERR_FORMAT,
                    "tensor %s: %.*s is not a whole number from 0 to 2^64 - 1", h->t.name,
                    n > 40 ? 40 : (int)n, text);
    if (h->state == H_DIM) {
        if (h->t.rank == TT_MAX_SOURCE_RANK)
            return STOP(&h->d, TT_ERR_LIMIT, "tensor %s has more than %u dimensions", h->t.name,
                        TT_MAX_SOURCE_RANK);
        h->t.shape[h->t.rank++] = v;
    } else {
        if (h->n_offsets == 2)
            return STOP(&h->d, TT_ERR_FORMAT, "tensor %s has more than two data_offsets",
                        h->t.name);
        h->offsets[h->n_offsets++] = v;
    }
    return 1;
}

static int header_string(void *ctx, const unsigned char *text, size_t n)
{
    header *h = ctx;
    if (h->state == H_META_TEXT) {
        h->state = H_META_KEY;
        return 1;
    }
    if (h->state != H_DTYPE)
        return header_unexpected(h, "a string");
    if (!tt_st_dtype_parse((const char *)text, n, &h->t.dtype))
        return STOP(&h->d, TT_ERR_UNSUPPORTED, "tensor %s has the unknown dtype \"%.*s\"",
                    h->t.name, n > 40 ? 40 : (int)n, (const char *)text);
    h->state = H_FIELD;
    return 1;
}

static int header_start_map(void *ctx)
{
    header *h = ctx;
    switch (h->state) {
    case H_START:
        h->state = H_ROOT;
        return 1;
    case H_META:
        h->state = H_META_KEY;
        return 1;
    case H_TENSOR:
        h->state = H_FIELD;
        return 1;
    default:
        return header_unexpected(h, "an object");
    }
}

static int header_name(header *h, const unsigned char *text, size_t n)
{
    if (n == strlen("__metadata__") && memcmp(text, "__metadata__", n) == 0) {
        if (h->seen_meta)
            return STOP(&h->d, TT_ERR_FORMAT, "__metadata__ stands in the header twice");
        h->seen_meta = true;
        h->state = H_META;
        return 1;
    }
    if (!plain_text(text, n, TT_MAX_NAME))
        return STOP(&h->d, TT_ERR_FORMAT,
                    "a tensor name of %zu bytes is refused: 1 to %u bytes without control "
                    "characters are accepted",
                    n, TT_MAX_NAME);
    char name[TT_MAX_NAME + 1];
    memcpy(name, text, n);
    name[n] = '\0';
    const tt_st_slot *known = h->known != NULL ? tt_st_table_find(h->known, name) : NULL;
    h->t = (tt_st_tensor){.name = known != NULL ? known->name : tt_st_names_add(h->names, name, n)};
    if (h->t.name == NULL)
        return stop_nomem(&h->d);
    h->seen = h->n_offsets = 0;
    h->state = H_TENSOR;
    return 1;
}

static int header_map_key(void *ctx, const unsigned char *text, size_t n)
{
    static const struct {
        const char *key;
        unsigned bit;
        enum header_state next;
    } fields[] = {{"dtype", SEEN_DTYPE, H_DTYPE},
                  {"shape", SEEN_SHAPE, H_SHAPE},
                  {"data_offsets", SEEN_OFFSETS, H_OFFSETS}};
    header *h = ctx;
    if (h->state == H_ROOT)
        return header_name(h, text, n);
    if (h->state == H_META_KEY) {
        h->state = H_META_TEXT;
        return 1;
    }
    for (size_t i = 0; i < 3; i++) {
        if (strlen(fields[i].key) != n || memcmp(fields[i].key, text, n) != 0)
            continue;
        if (h->seen & fields[i].bit)
            return STOP(&h->d, TT_ERR_FORMAT, "tensor %s has %s twice", h->t.name, fields[i].key);
        h->seen |= fields[i].bit;
        h->state = fields[i].next;
        return 1;
    }
    return STOP(&h->d, TT_ERR_FORMAT, "tensor %s has the unknown key \"%.*s\"", h->t.name,
                n > 40 ? 40 : (int)n, (const char *)text);
}

static int header_start_array(void *ctx)
{
    header *h = ctx;
    if (h->state != H_SHAPE && h->state != H_OFFSETS)
        return header_unexpected(h, "an array");
    h->state = h->state == H_SHAPE ? H_DIM : H_OFFSET;
    return 1;
}

static int header_end_array(void *ctx)
{
    header *h = ctx;
    h->state = H_FIELD;
    return 1;
}

/* Everything about one tensor that can be judged without the others. */
static int header_tensor(header *h)
{
    const char *name = h->t.name;
    if (h->seen != SEEN_ALL)
        return STOP(&h->d, TT_ERR_FORMAT, "tensor %s has no %s", name,
                    !(h->seen & SEEN_DTYPE)   ? "dtype"
                    : !(h->seen & SEEN_SHAPE) ? "shape"
                                              : "data_offsets");
    if (h->n_offsets != 2)
        return STOP(&h->d, TT_ERR_FORMAT, "tensor %s has %u data_offsets, not two", name,
                    h->n_offsets);
    uint64_t begin = h->offsets[0], end = h->offsets[1];
    uint64_t bytes = tt_st_dtype_bytes(h->t.dtype);
    for (uint32_t i = 0; i < h->t.rank; i++)
        if (__builtin_mul_overflow(bytes, h->t.shape[i], &bytes))
            return STOP(&h->d, TT_ERR_FORMAT, "the shape of tensor %s overflows 64 bits", name);
    if (end < begin || end > h->data_bytes)
        return STOP(&h->d, TT_ERR_FORMAT,
                    "tensor %s has the bytes %llu to %llu of a data section of %llu bytes: the "
                    "file is damaged or not downloaded completely",
                    name, (unsigned long long)begin, (unsigned long long)end,
                    (unsigned long long)h->data_bytes);
    if (end - begin != bytes)
        return STOP(&h->d, TT_ERR_FORMAT,
                    "tensor %s has %llu bytes of data, its shape and dtype need %llu", name,
                    (unsigned long long)(end - begin), (unsigned long long)bytes);
    h->t.offset = h->data + begin;
    h->t.bytes = bytes;
    h->d.st = h->fn(h->ctx, &h->t, h->d.err);
    return h->d.st == TT_OK;
}

static int header_end_map(void *ctx)
{
    header *h = ctx;
    if (h->state == H_FIELD && !header_tensor(h))
        return 0;
    if (h->state == H_FIELD || h->state == H_META_KEY)
        h->state = H_ROOT;
    return 1;
}

tt_status tt_st_parse_header(int fd, const char *path, uint64_t size, const tt_st_table *known,
                             tt_st_names *names, tt_st_tensor_fn fn, void *ctx, uint64_t *data,
                             tt_error *err)
{
    static const yajl_callbacks callbacks = {
        .yajl_null = header_null,
        .yajl_boolean = header_boolean,
        .yajl_number = header_number,
        .yajl_string = header_string,
        .yajl_start_map = header_start_map,
        .yajl_map_key = header_map_key,
        .yajl_end_map = header_end_map,
        .yajl_start_array = header_start_array,
        .yajl_end_array = header_end_array,
    };
    uint8_t raw[8];
    if (size < sizeof raw)
        return tt_fail_at(err, TT_ERR_FORMAT, path, 0,
                          "file of %llu bytes is too short for a safetensors header",
                          (unsigned long long)size);
    TT_TRY(tt_file_pread(fd, path, raw, sizeof raw, 0, err));
    uint64_t len = 0;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | raw[i];
    if (len > TT_MAX_SAFETENSORS_HEADER)
        return tt_fail_at(err, TT_ERR_LIMIT, path, 0,
                          "header claims %llu bytes, at most %llu are accepted: not a safetensors "
                          "file, or damaged",
                          (unsigned long long)len, (unsigned long long)TT_MAX_SAFETENSORS_HEADER);
    if (len > size - sizeof raw)
        return tt_fail_at(err, TT_ERR_FORMAT, path, 0,
                          "header claims %llu bytes, the file has %llu after its length: the file "
                          "is damaged or not downloaded completely",
                          (unsigned long long)len, (unsigned long long)(size - sizeof raw));
    header h = {.d = {.path = path, .err = err},
                .data = sizeof raw + len,
                .data_bytes = size - sizeof raw - len,
                .known = known,
                .names = names,
                .fn = fn,
                .ctx = ctx};
    h.d.yajl = yajl_alloc(&callbacks, NULL, &h);
    TT_TRY(feed(&h.d, fd, sizeof raw, len));
    *data = h.data;
    return TT_OK;
}

/* ---- model.safetensors.index.json ---- */

enum index_state {
    I_START,  /* before the first brace */
    I_ROOT,   /* a key of the root */
    I_OTHER,  /* the value of a key that is not ours, at any depth */
    I_MAP,    /* before the brace of weight_map */
    I_TENSOR, /* a tensor name or the end of weight_map */
    I_SHARD   /* its shard */
};

typedef struct index_doc {
    doc d;
    enum index_state state;
    unsigned depth; /* inside a value that is not ours */
    bool seen_map;
    const char *name;
    tt_st_names *names;
    tt_st_pair_fn fn;
    void *ctx;
} index_doc;

/* A scalar, or the end of a nested value, that belongs to a key of others. */
static int index_skip(index_doc *x, const char *what)
{
    static const char *const wanted[] = {
        [I_START] = "the index object", [I_ROOT] = "a key",
        [I_OTHER] = "a value",          [I_MAP] = "an object for weight_map",
        [I_TENSOR] = "a tensor name",   [I_SHARD] = "the file name of a shard",
    };
    if (x->state != I_OTHER)
        return STOP(&x->d, TT_ERR_FORMAT, "index%s%s: expected %s, found %s",
                    x->state == I_SHARD ? " entry of tensor " : "",
                    x->state == I_SHARD ? x->name : "", wanted[x->state], what);
    if (x->depth == 0)
        x->state = I_ROOT;
    return 1;
}

static int index_null(void *ctx)
{
    return index_skip(ctx, "null");
}

static int index_boolean(void *ctx, int value)
{
    return index_skip(ctx, value ? "true" : "false");
}

static int index_number(void *ctx, const char *text, size_t n)
{
    return index_skip(ctx, "a number");
}

/* A shard stands beside its index: a plain file name, nothing that leads elsewhere. */
static bool shard_name(const unsigned char *text, size_t n)
{
    return plain_text(text, n, 255) && memchr(text, '/', n) == NULL && text[0] != '.';
}

static int index_string(void *ctx, const unsigned char *text, size_t n)
{
    index_doc *x = ctx;
    if (x->state != I_SHARD)
        return index_skip(x, "a string");
    if (!shard_name(text, n))
        return STOP(&x->d, TT_ERR_FORMAT,
                    "tensor %s is in the shard \"%.*s\": only plain file names beside the index "
                    "are accepted",
                    x->name, n > 80 ? 80 : (int)n, (const char *)text);
    char shard[256];
    memcpy(shard, text, n);
    shard[n] = '\0';
    x->d.st = x->fn(x->ctx, x->name, shard, x->d.err);
    x->state = I_TENSOR;
    return x->d.st == TT_OK;
}

static int index_deeper(index_doc *x, const char *what)
{
    if (x->state != I_OTHER)
        return index_skip(x, what);
    if (++x->depth > TT_MAX_JSON_DEPTH)
        return STOP(&x->d, TT_ERR_LIMIT, "JSON nests deeper than %u levels", TT_MAX_JSON_DEPTH);
    return 1;
}

static int index_start_map(void *ctx)
{
    index_doc *x = ctx;
    if (x->state == I_START)
        x->state = I_ROOT;
    else if (x->state == I_MAP)
        x->state = I_TENSOR;
    else
        return index_deeper(x, "an object");
    return 1;
}

static int index_start_array(void *ctx)
{
    return index_deeper(ctx, "an array");
}

static int index_map_key(void *ctx, const unsigned char *text, size_t n)
{
    index_doc *x = ctx;
    if (x->state == I_ROOT) {
        bool map = n == strlen("weight_map") && memcmp(text, "weight_map", n) == 0;
        if (map && x->seen_map)
            return STOP(&x->d, TT_ERR_FORMAT, "weight_map stands in the index twice");
        x->seen_map |= map;
        x->state = map ? I_MAP : I_OTHER;
    } else if (x->state == I_TENSOR) {
        if (!plain_text(text, n, TT_MAX_NAME))
            return STOP(&x->d, TT_ERR_FORMAT,
                        "a tensor name of %zu bytes is refused: 1 to %u bytes without control "
                        "characters are accepted",
                        n, TT_MAX_NAME);
        x->name = tt_st_names_add(x->names, (const char *)text, n);
        if (x->name == NULL)
            return stop_nomem(&x->d);
        x->state = I_SHARD;
    }
    return 1;
}

static int index_end(void *ctx)
{
    index_doc *x = ctx;
    if (x->state == I_TENSOR)
        x->state = I_ROOT;
    else if (x->state == I_OTHER && --x->depth == 0)
        x->state = I_ROOT;
    return 1;
}

tt_status tt_st_parse_index(int fd, const char *path, uint64_t size, tt_st_names *names,
                            tt_st_pair_fn fn, void *ctx, tt_error *err)
{
    static const yajl_callbacks callbacks = {
        .yajl_null = index_null,
        .yajl_boolean = index_boolean,
        .yajl_number = index_number,
        .yajl_string = index_string,
        .yajl_start_map = index_start_map,
        .yajl_map_key = index_map_key,
        .yajl_end_map = index_end,
        .yajl_start_array = index_start_array,
        .yajl_end_array = index_end,
    };
    if (size > TT_MAX_INDEX_JSON)
        return tt_fail_at(err, TT_ERR_LIMIT, path, -1,
                          "index has %llu bytes, at most %llu are accepted",
                          (unsigned long long)size, (unsigned long long)TT_MAX_INDEX_JSON);
    index_doc x = {.d = {.path = path, .err = err}, .names = names, .fn = fn, .ctx = ctx};
    x.d.yajl = yajl_alloc(&callbacks, NULL, &x);
    TT_TRY(feed(&x.d, fd, 0, size));
    if (!x.seen_map)
        return tt_fail_at(err, TT_ERR_FORMAT, path, -1, "key \"weight_map\" is missing");
    return TT_OK;
}
