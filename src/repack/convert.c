#include "repack/convert.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "format/fp8.h"
#include "format/le.h"
#include "format/quant.h"

/* Checkpoint and install are little-endian; bulk values are moved as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bulk data is moved as it lies");

#define CHUNK_VALUES ((uint64_t)4 << 20) /* 16 MiB of f32 */
#define SIDE_FACTOR  12u /* bytes of scales and biases held back for every value of a chunk */

struct tt_converter {
    const tt_safetensors *st;
    tt_pool *pool;
    uint64_t chunk;       /* values */
    unsigned char *raw;   /* chunk values of at most 4 bytes, as the checkpoint has them */
    float *f32;           /* chunk values */
    unsigned char *words; /* encoded chunk, or bf16 */
    uint16_t *scales, *biases;
    float fp8[256];
};

/* One tensor on its way. */
typedef struct job {
    tt_converter *c;
    const tt_piece *src;
    tt_dtype dtype;
    uint64_t rows, cols;
} job;

tt_status tt_converter_create(const tt_safetensors *st, unsigned threads, uint64_t chunk_values,
                              tt_converter **out, tt_error *err)
{
    tt_converter *c = calloc(1, sizeof *c);
    if (c == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a converter");
    c->st = st;
    for (unsigned i = 0; i < 256; i++)
        c->fp8[i] = tt_f8_e4m3_to_f32((uint8_t)i);
    c->chunk = chunk_values > 0 ? chunk_values : CHUNK_VALUES;
    c->raw = malloc(4 * c->chunk);
    c->f32 = malloc(4 * c->chunk);
    c->words = malloc(2 * c->chunk);
    c->scales = malloc(c->chunk / TT_GROUP * 2 + 2);
    c->biases = malloc(c->chunk / TT_GROUP * 2 + 2);
    tt_status status = TT_OK;
    if (c->raw == NULL || c->f32 == NULL || c->words == NULL || c->scales == NULL ||
        c->biases == NULL)
        status = tt_fail(err, TT_ERR_NOMEM, "out of memory for conversion buffers");
    if (status == TT_OK)
        status = tt_pool_create(threads, &c->pool, err);
    if (status != TT_OK) {
        tt_converter_close(&c);
        return status;
    }
    *out = c;
    return TT_OK;
}

void tt_converter_close(tt_converter **converter)
{
    if (converter == NULL || *converter == NULL)
        return;
    tt_converter *c = *converter;
    tt_pool_close(&c->pool);
    free(c->raw);
    free(c->f32);
    free(c->words);
    free(c->scales);
    free(c->biases);
    free(c);
    *converter = NULL;
}

/* Widening of a chunk to f32, cut over the pool; remembers the first value that is not finite. */
typedef struct widen {
    const unsigned char *raw;
    tt_st_dtype dtype;
    float *out; /* NULL: only look for values that are not finite */
    _Atomic uint64_t first_bad;
    const struct factors *factors; /* fp8 */
    const float *fp8;              /* its 256 values */
} widen;

/* Factors of the blocks that some rows lie in. */
typedef struct factors {
    bool one;            /* the tensor has a single one */
    float *at;           /* [rows of blocks][cols of blocks] */
    uint64_t first;      /* row of blocks that at[0] is of */
    uint64_t cols;       /* values in a row */
    uint64_t block_cols; /* blocks in a row */
    uint64_t mat_rows;   /* rows of one matrix of the stack */
    uint64_t row;        /* that the first value stands in */
} factors;

/* Blocks do not reach from one matrix of a stack into the next. */
static uint64_t block_row(uint64_t mat_rows, uint64_t row)
{
    uint64_t in_mat = (mat_rows + TT_FP8_BLOCK - 1) / TT_FP8_BLOCK;
    return row / mat_rows * in_mat + row % mat_rows / TT_FP8_BLOCK;
}

static float factor_of(const factors *f, uint64_t i)
{
    uint64_t row = f->row + i / f->cols, col = i % f->cols;
    if (f->one)
        return f->at[0];
    return f->at[(block_row(f->mat_rows, row) - f->first) * f->block_cols + col / TT_FP8_BLOCK];
}

static float widen_one(const unsigned char *raw, tt_st_dtype dtype, size_t i)
{
    uint16_t h;
    float f;
    switch (dtype) {
    case TT_ST_BF16:
        memcpy(&h, raw + 2 * i, 2);
        return tt_bf16_to_f32(h);
    case TT_ST_F16:
        memcpy(&h, raw + 2 * i, 2);
        return tt_f16_to_f32(h);
    case TT_ST_F8_E4M3:
        return tt_f8_e4m3_to_f32(raw[i]);
    default:
        memcpy(&f, raw + 4 * i, 4);
        return f;
    }
}

/* The usual case, without a branch for each value; false when one is not finite. */
static bool widen_bf16(const unsigned char *raw, float *out, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, raw + 2 * i, 2);
        bad |= (uint32_t)(h & 0x7f80) == 0x7f80;
        if (out != NULL)
            out[i] = tt_bf16_to_f32(h);
    }
    return bad == 0;
}

/* Fp8 with factors, a run within one block at a time. */
static bool widen_fp8(const widen *w, size_t begin, size_t end)
{
    const factors *f = w->factors;
    uint32_t bad = 0;
    for (size_t i = begin; i < end;) {
        uint64_t col = i % f->cols, run = TT_FP8_BLOCK - col % TT_FP8_BLOCK;
        float factor = factor_of(f, i);
        if (run > f->cols - col)
            run = f->cols - col;
        if (run > end - i)
            run = end - i;
        for (uint64_t k = 0; k < run; k++) {
            float v = w->fp8[w->raw[i + k]] * factor;
            bad |= !isfinite(v);
            w->out[i + k] = v;
        }
        i += run;
    }
    return bad == 0;
}

static void widen_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    widen *w = ctx;
    if (w->dtype == TT_ST_BF16 && w->factors == NULL &&
        widen_bf16(w->raw + 2 * begin, w->out != NULL ? w->out + begin : NULL, end - begin))
        return;
    if (w->factors != NULL && w->out != NULL && widen_fp8(w, begin, end))
        return;
    for (size_t i = begin; i < end; i++) {
        float f = widen_one(w->raw, w->dtype, i);
        if (w->factors != NULL)
            f *= factor_of(w->factors, i);
        if (w->out != NULL)
            w->out[i] = f;
        if (!isfinite(f)) {
            uint64_t seen = atomic_load(&w->first_bad);
            while (i < seen && !atomic_compare_exchange_weak(&w->first_bad, &seen, i))
                ;
        }
    }
}

/* Values of `t` from value `first` on, checked, widened into `out` when it is not NULL. */
static tt_status check_values(const tt_converter *c, const tt_st_tensor *t, uint64_t first,
                              uint64_t n, const unsigned char *raw, const factors *fs, float *out,
                              tt_error *err)
{
    widen w = {.raw = raw,
               .dtype = t->dtype,
               .out = out,
               .first_bad = UINT64_MAX,
               .factors = fs,
               .fp8 = c->fp8};
    tt_pool_run(c->pool, n, 4096, widen_part, &w);
    uint64_t bad = atomic_load(&w.first_bad);
    if (bad == UINT64_MAX)
        return TT_OK;
    uint32_t each = tt_st_dtype_bytes(t->dtype);
    return tt_fail_at(err, TT_ERR_NUMERIC, tt_safetensors_shard_path(c->st, t->shard),
                      (int64_t)(t->offset + (first + bad) * each),
                      "tensor \"%.200s\" has a value that is not finite (%s) at index %llu",
                      t->name, isnan(widen_one(raw, t->dtype, bad)) ? "NaN" : "Inf",
                      (unsigned long long)(first + bad));
}

/* Reads values [first, first + n) of `t` into `raw`, checked. */
static tt_status fetch(const tt_converter *c, const tt_st_tensor *t, uint64_t first, uint64_t n,
                       void *raw, float *f32, tt_error *err)
{
    uint32_t each = tt_st_dtype_bytes(t->dtype);
    TT_TRY(tt_safetensors_read(c->st, t, first * each, raw, n * each, err));
    if (t->dtype == TT_ST_U32 || t->dtype == TT_ST_I64)
        return TT_OK; /* words of quantized input, integers: every code is one */
    return check_values(c, t, first, n, raw, NULL, f32, err);
}

/* Reads the factors for rows [row, row + n) of fp8; f->at is allocated. */
static tt_status read_factors(const tt_converter *c, const tt_piece *src, uint64_t cols,
                              uint64_t row, uint64_t n, factors *f, tt_error *err)
{
    const tt_st_tensor *t = src->values, *b = src->blocks;
    uint32_t each = tt_st_dtype_bytes(b->dtype);
    *f = (factors){.one = b->bytes == each,
                   .cols = cols,
                   .block_cols = (cols + TT_FP8_BLOCK - 1) / TT_FP8_BLOCK,
                   .mat_rows = t->shape[t->rank - 2],
                   .row = row};
    f->first = f->one ? 0 : block_row(f->mat_rows, row);
    uint64_t count =
        f->one ? 1 : (block_row(f->mat_rows, row + n - 1) - f->first + 1) * f->block_cols;
    unsigned char *raw = malloc(count * each);
    f->at = malloc(count * sizeof *f->at);
    tt_status st = raw == NULL || f->at == NULL
                       ? tt_fail(err, TT_ERR_NOMEM, "out of memory for the factors of %s", t->name)
                       : tt_safetensors_read(c->st, b, f->first * f->block_cols * each, raw,
                                             count * each, err);
    if (st == TT_OK)
        st = check_values(c, b, f->first * f->block_cols, count, raw, NULL, f->at, err);
    free(raw);
    return st;
}

/* Values of rows [row, row + n) of a tensor into c->f32. */
static tt_status fetch_rows(const tt_converter *c, const tt_piece *src, uint64_t cols, uint64_t row,
                            uint64_t n, tt_error *err)
{
    const tt_st_tensor *t = src->values;
    factors f = {0};
    if (src->blocks == NULL)
        return fetch(c, t, row * cols, n * cols, c->raw, c->f32, err);
    TT_TRY(tt_safetensors_read(c->st, t, row * cols, c->raw, n * cols, err));
    tt_status st = read_factors(c, src, cols, row, n, &f, err);
    if (st == TT_OK)
        st = check_values(c, t, row * cols, n * cols, c->raw, &f, c->f32, err);
    free(f.at);
    return st;
}

typedef struct narrow {
    const float *from;
    uint16_t *to;
} narrow;

static void narrow_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const narrow *n = ctx;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        n->to[i] = tt_f32_to_bf16(n->from[i]);
}

tt_status tt_convert_copy(tt_converter *c, const tt_st_tensor *t, uint64_t first, uint64_t n,
                          void *out, tt_error *err)
{
    return fetch(c, t, first, n, out, NULL, err);
}

tt_status tt_convert_turn(tt_converter *c, const tt_st_tensor *t, uint64_t per_row, uint64_t row,
                          uint64_t n, void *out, tt_error *err)
{
    TT_TRY(fetch(c, t, row * per_row, n * per_row, c->raw, NULL, err));
    tt_quant_to_panels(tt_st_dtype_bytes(t->dtype), n, per_row, c->raw, out);
    return TT_OK;
}

/* Any of the outputs may be a buffer of the converter. */
tt_status tt_convert_rows(tt_converter *c, const tt_piece *src, tt_dtype dtype, uint64_t cols,
                          uint64_t row, uint64_t n, void *words, uint16_t *scales, uint16_t *biases,
                          tt_error *err)
{
    const tt_st_tensor *t = src->values;
    TT_TRY(fetch_rows(c, src, cols, src->first_row + row, n, err));
    if (tt_dtype_bits(dtype) == 0) { /* fp8 that keeps its precision */
        narrow w = {c->f32, words};
        tt_pool_run(c->pool, n * cols, 4096, narrow_part, &w);
        return TT_OK;
    }
    tt_status st =
        tt_quant_encode(tt_dtype_bits(dtype), c->f32, n, cols, words, scales, biases, c->pool, err);
    if (st == TT_OK)
        return TT_OK;
    return tt_fail_context(err, st, "tensor \"%.200s\", from row %llu", t->name,
                           (unsigned long long)(src->first_row + row));
}

void tt_convert_expect(const tt_converter *c, const tt_piece *src, uint64_t cols, uint64_t row,
                       uint64_t n)
{
    const tt_st_tensor *t = src->values;
    /* Words of quantized input are fewer than values; a little too much is no harm. */
    uint64_t each = t->dtype == TT_ST_U32 ? 1 : tt_st_dtype_bytes(t->dtype);
    tt_safetensors_expect(c->st, t, (src->first_row + row) * cols * each, n * cols * each);
}

static tt_status encode_rows(const job *j, uint64_t row, uint64_t n, void *words, uint16_t *scales,
                             uint16_t *biases, tt_error *err)
{
    return tt_convert_rows(j->c, j->src, j->dtype, j->cols, row, n, words, scales, biases, err);
}

/* Rows that fit into the buffers at a time: whole panels. */
static tt_status rows_at_a_time(const job *j, uint64_t *n, tt_error *err)
{
    uint64_t panels = j->c->chunk / j->cols / TT_PANEL;
    if (panels == 0)
        return tt_fail(err, TT_ERR_LIMIT, "tensor \"%.200s\" has rows of %llu values, at most %llu",
                       j->src->values->name, (unsigned long long)j->cols,
                       (unsigned long long)j->c->chunk / TT_PANEL);
    *n = panels * TT_PANEL;
    return TT_OK;
}

/* Copies one part of a tensor: `n` values of `t` from value `first` on. */
static tt_status copy_part(tt_converter *c, const tt_st_tensor *t, uint64_t first, uint64_t n,
                           tt_emit *out, tt_error *err)
{
    uint32_t each = tt_st_dtype_bytes(t->dtype);
    uint64_t most = each <= 4 ? c->chunk : c->chunk / 2;
    for (uint64_t done = 0; done < n;) {
        uint64_t step = n - done < most ? n - done : most;
        tt_safetensors_expect(c->st, t, (first + done + step) * each, 2 * step * each);
        TT_TRY(fetch(c, t, first + done, step, c->raw, NULL, err));
        TT_TRY(tt_emit_append(out, c->raw, step * each, err));
        done += step;
    }
    return TT_OK;
}

/* Words, scales and biases of quantized input: their units in a row. */
static uint64_t part_units(const job *j, int part)
{
    return part == 0 ? j->cols * tt_dtype_bits(j->dtype) / 32 : j->cols / TT_GROUP;
}

/* Appends one part of quantized input. */
static tt_status turn_part(const job *j, const tt_st_tensor *t, uint64_t per_row, tt_emit *out,
                           tt_error *err)
{
    uint32_t each = tt_st_dtype_bytes(t->dtype);
    uint64_t step = 0;
    TT_TRY(rows_at_a_time(j, &step, err));
    for (uint64_t row = 0; row < j->rows; row += step) {
        uint64_t n = j->rows - row < step ? j->rows - row : step, first = j->src->first_row + row;
        tt_safetensors_expect(j->c->st, t, (first + n) * per_row * each, 2 * n * per_row * each);
        TT_TRY(tt_convert_turn(j->c, t, per_row, first, n, j->c->f32, err));
        TT_TRY(tt_emit_append(out, j->c->f32, tt_quant_stored_rows(n) * per_row * each, err));
    }
    return TT_OK;
}

static tt_status copy_tensor(const job *j, const tt_index_entry *e, tt_emit *out, tt_error *err)
{
    const tt_st_tensor *parts[3] = {j->src->values, j->src->scales, j->src->biases};
    const uint64_t offsets[3] = {e->offset, e->scales_offset, e->biases_offset};
    for (int i = 0; i < 3 && parts[i] != NULL; i++) {
        TT_TRY(tt_emit_pad(out, offsets[i], err));
        if (j->src->scales != NULL)
            TT_TRY(turn_part(j, parts[i], part_units(j, i), out, err));
        else
            TT_TRY(copy_part(j->c, parts[i], j->src->first_row * j->cols, j->rows * j->cols, out,
                             err));
    }
    return TT_OK;
}

/* Bytes that n rows become: words, or values of fp8 that becomes BF16. */
static uint64_t words_bytes(tt_dtype dtype, uint64_t cols, uint64_t n)
{
    uint32_t bits = tt_dtype_bits(dtype);
    return bits != 0 ? tt_quant_stored_rows(n) * tt_quant_row_words_bytes(bits, cols)
                     : 2 * n * cols;
}

/* Parts of an encoded tensor that one pass over its rows appends. */
enum { WORDS = 1, SCALES = 2, BIASES = 4 };

static tt_status encode_pass(const job *j, unsigned append, uint16_t *all_scales,
                             uint16_t *all_biases, tt_emit *out, tt_error *err)
{
    tt_converter *c = j->c;
    uint64_t step = 0, groups = j->cols / TT_GROUP;
    TT_TRY(rows_at_a_time(j, &step, err));
    for (uint64_t row = 0; row < j->rows; row += step) {
        uint64_t n = j->rows - row < step ? j->rows - row : step;
        uint64_t sides = tt_quant_stored_rows(n) * groups * 2;
        tt_convert_expect(c, j->src, j->cols, row + n, 2 * step);
        uint16_t *scales = all_scales != NULL ? all_scales + row * groups : c->scales;
        uint16_t *biases = all_biases != NULL ? all_biases + row * groups : c->biases;
        TT_TRY(encode_rows(j, row, n, c->words, scales, biases, err));
        if (append & WORDS)
            TT_TRY(tt_emit_append(out, c->words, words_bytes(j->dtype, j->cols, n), err));
        if (append & SCALES)
            TT_TRY(tt_emit_append(out, scales, sides, err));
        if (append & BIASES)
            TT_TRY(tt_emit_append(out, biases, sides, err));
    }
    return TT_OK;
}

/* Scales and biases stand behind all words. While they are small they are held back; otherwise the
 * tensor is encoded again for each of them, so that memory stays bounded. */
static tt_status encode_tensor(const job *j, const tt_index_entry *e, tt_emit *out, tt_error *err)
{
    uint16_t *side = NULL;
    size_t half = e->scales_bytes / 2;
    tt_status st;
    if (e->scales_bytes == 0) { /* fp8 that becomes BF16 */
        TT_TRY(tt_emit_pad(out, e->offset, err));
        return encode_pass(j, WORDS, NULL, NULL, out, err);
    }
    if (2 * e->scales_bytes <= SIDE_FACTOR * j->c->chunk &&
        (side = malloc(2 * e->scales_bytes)) == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the scales of %s", e->name);
    TT_GOTO(tt_emit_pad(out, e->offset, err), out);
    TT_GOTO(encode_pass(j, WORDS, side, side != NULL ? side + half : NULL, out, err), out);
    TT_GOTO(tt_emit_pad(out, e->scales_offset, err), out);
    if (side != NULL)
        st = tt_emit_append(out, side, e->scales_bytes, err);
    else
        st = encode_pass(j, SCALES, NULL, NULL, out, err);
    if (st != TT_OK)
        goto out;
    TT_GOTO(tt_emit_pad(out, e->biases_offset, err), out);
    if (side != NULL)
        st = tt_emit_append(out, side + half, e->biases_bytes, err);
    else
        st = encode_pass(j, BIASES, NULL, NULL, out, err);
out:
    free(side);
    return st;
}

tt_status tt_convert_tensor(tt_converter *c, const tt_index_entry *entry, const tt_piece *src,
                            tt_emit *out, tt_error *err)
{
    job j = {c, src, entry->dtype, 1, entry->shape[entry->rank - 1]};
    for (uint32_t d = 0; d + 1 < entry->rank; d++)
        j.rows *= entry->shape[d];
    return tt_piece_copied(src, entry->dtype) ? copy_tensor(&j, entry, out, err)
                                              : encode_tensor(&j, entry, out, err);
}

tt_status tt_convert_mat(tt_converter *c, const tt_expert_mat *m, const tt_piece *src,
                         unsigned char *expert, tt_error *err)
{
    job j = {c, src, m->dtype, m->rows, m->cols};
    const tt_st_tensor *parts[3] = {src->values, src->scales, src->biases};
    unsigned char *to[3] = {expert + m->words_offset, expert + m->scales_offset,
                            expert + m->biases_offset};
    if (tt_piece_copied(src, m->dtype) && src->scales == NULL)
        return fetch(c, src->values, src->first_row * m->cols, (uint64_t)m->rows * m->cols, to[0],
                     NULL, err);
    uint64_t step = 0, groups = m->cols / TT_GROUP;
    TT_TRY(rows_at_a_time(&j, &step, err));
    for (uint64_t row = 0; row < m->rows; row += step) {
        uint64_t n = m->rows - row < step ? m->rows - row : step;
        for (int i = 0; i < 3 && src->scales != NULL; i++) {
            uint64_t per_row = part_units(&j, i);
            TT_TRY(tt_convert_turn(c, parts[i], per_row, src->first_row + row, n,
                                   to[i] + row * per_row * tt_st_dtype_bytes(parts[i]->dtype),
                                   err));
        }
        if (src->scales == NULL)
            TT_TRY(encode_rows(&j, row, n, to[0] + words_bytes(m->dtype, m->cols, row),
                               (uint16_t *)to[1] + row * groups, (uint16_t *)to[2] + row * groups,
                               err));
    }
    return TT_OK;
}

tt_status tt_convert_table(tt_converter *c, const tt_piece *shard, tt_dtype dtype, uint64_t cols,
                           tt_emit *out, tt_error *err)
{
    job j = {c, shard, dtype, shard->values->shape[0], cols};
    if (tt_piece_copied(shard, dtype))
        return copy_part(c, shard->values, 0, j.rows * cols, out, err);
    return encode_pass(&j, WORDS, NULL, NULL, out, err);
}
