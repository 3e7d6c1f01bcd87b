#include "repack/segments.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/install_layout.h"
#include "format/install_writer.h"
#include "format/quant.h"

#define RANGE_BYTES    (16 * TT_MIB)
#define SEGMENT_BYTES  (8 * TT_MIB)
#define SEGMENT_VALUES ((uint64_t)4 << 20) /* the converter's default chunk */
#define GAP_BYTES      (64 * TT_KIB)       /* read along rather than asked for apart */
#define FORMAT         1u                  /* of the cut; part of the fingerprint */

/* ---- cutting ---- */

typedef struct cutter {
    tt_segments s;
    uint64_t max_bytes, max_values;
    bool no_memory;
    const tt_st_tensor *too_long; /* a panel of its rows is more than a chunk */
    uint64_t its_cols;
} cutter;

static void add(cutter *c, const tt_segment *seg)
{
    tt_segments *s = &c->s;
    if (s->count == s->cap) {
        size_t cap = s->cap == 0 ? 256 : 2 * s->cap;
        tt_segment *grown = realloc(s->items, cap * sizeof *grown);
        if (grown == NULL) {
            c->no_memory = true;
            return;
        }
        s->items = grown;
        s->cap = cap;
    }
    s->items[s->count++] = *seg;
}

static void cut_copy(cutter *c, uint32_t file, const tt_st_tensor *t, uint64_t first, uint64_t n,
                     uint64_t at)
{
    uint32_t each = tt_st_dtype_bytes(t->dtype);
    uint64_t most = c->max_bytes / each;
    most = most > c->max_values ? c->max_values : most == 0 ? 1 : most;
    for (uint64_t done = 0; done < n && !c->no_memory;) {
        uint64_t step = n - done < most ? n - done : most;
        add(c, &(tt_segment){.src = t,
                             .first = first + done,
                             .count = step,
                             .file = file,
                             .at = at + done * each,
                             .bytes = step * each});
        done += step;
    }
}

/* Rows of a tensor that a segment takes: whole panels. The converter must be able to hold one. */
static uint64_t rows_of(cutter *c, const tt_st_tensor *t, uint64_t row_bytes, uint64_t row_values)
{
    uint64_t most = c->max_bytes / row_bytes, values = c->max_values / row_values;
    if (values < TT_PANEL && c->too_long == NULL)
        c->too_long = t, c->its_cols = row_values;
    most = most < values ? most : values;
    return most < TT_PANEL ? TT_PANEL : most / TT_PANEL * TT_PANEL;
}

/* One part of quantized input, from row `row0` of the tensor on. */
static void cut_turn(cutter *c, uint32_t file, const tt_st_tensor *t, uint64_t row0, uint64_t rows,
                     uint64_t cols, uint64_t per_row, uint64_t at)
{
    uint64_t bytes = per_row * tt_st_dtype_bytes(t->dtype), most = rows_of(c, t, bytes, cols);
    for (uint64_t row = 0; row < rows && !c->no_memory; row += most) {
        uint64_t n = rows - row < most ? rows - row : most;
        add(c, &(tt_segment){.src = t,
                             .first = (row0 + row) * per_row,
                             .count = n * per_row,
                             .per_row = (uint32_t)per_row,
                             .file = file,
                             .at = at + row * bytes,
                             .bytes = tt_quant_stored_rows(n) * bytes});
    }
}

/* Where the three parts of a tensor or of a matrix stand, and what it is made of. */
typedef struct place {
    uint32_t file;
    tt_dtype dtype;
    uint64_t rows, cols, words, scales, biases;
} place;

static void cut_encode(cutter *c, const place *p, const tt_piece *src)
{
    uint32_t bits = tt_dtype_bits(p->dtype);
    uint64_t each = tt_st_dtype_bytes(src->values->dtype);
    uint64_t groups = bits != 0 ? p->cols / TT_GROUP : 0; /* fp8 may become BF16 */
    uint64_t words_row = bits != 0 ? tt_quant_row_words_bytes(bits, p->cols) : 2 * p->cols;
    uint64_t most = rows_of(c, src->values, p->cols * each, p->cols);
    for (uint64_t row = 0; row < p->rows && !c->no_memory; row += most) {
        uint64_t n = p->rows - row < most ? p->rows - row : most;
        uint64_t stored = bits != 0 ? tt_quant_stored_rows(n) : n;
        add(c, &(tt_segment){.src = src->values,
                             .piece = src,
                             .row = row,
                             .first = (src->first_row + row) * p->cols,
                             .count = n * p->cols,
                             .cols = (uint32_t)p->cols,
                             .dtype = p->dtype,
                             .file = p->file,
                             .at = p->words + row * words_row,
                             .bytes = stored * words_row,
                             .scales_at = p->scales + row * groups * 2,
                             .biases_at = p->biases + row * groups * 2,
                             .sides = stored * groups * 2});
    }
}

static void cut_piece(cutter *c, const place *p, const tt_piece *src)
{
    uint64_t bits = tt_dtype_bits(p->dtype);
    if (src->scales != NULL) {
        uint64_t words = p->cols * bits / 32, groups = p->cols / TT_GROUP;
        uint64_t first = src->first_row;
        cut_turn(c, p->file, src->values, first, p->rows, p->cols, words, p->words);
        cut_turn(c, p->file, src->scales, first, p->rows, p->cols, groups, p->scales);
        cut_turn(c, p->file, src->biases, first, p->rows, p->cols, groups, p->biases);
    } else if (tt_piece_copied(src, p->dtype)) {
        cut_copy(c, p->file, src->values, src->first_row * p->cols, p->rows * p->cols, p->words);
    } else {
        cut_encode(c, p, src);
    }
}

static void cut_weights(cutter *c, uint32_t file, const tt_index *ix, const tt_piece *src)
{
    for (size_t i = 0; i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        place p = {file,
                   e->dtype,
                   1,
                   e->shape[e->rank - 1],
                   e->offset,
                   e->scales_offset,
                   e->biases_offset};
        for (uint32_t d = 0; d + 1 < e->rank; d++)
            p.rows *= e->shape[d];
        cut_piece(c, &p, &src[i]);
    }
}

static void cut_layer(cutter *c, uint32_t file, const tt_repack_plan *plan, size_t layer,
                      const tt_expert_layout *l)
{
    const tt_expert_mat *mats[TT_MATS] = {&l->gate, &l->up, &l->down};
    for (uint32_t e = 0; e < l->n_experts; e++) {
        for (unsigned m = 0; m < TT_MATS; m++) {
            uint64_t base = e * l->stride;
            place p = {file,
                       mats[m]->dtype,
                       mats[m]->rows,
                       mats[m]->cols,
                       base + mats[m]->words_offset,
                       base + mats[m]->scales_offset,
                       base + mats[m]->biases_offset};
            cut_piece(c, &p, tt_repack_plan_expert(plan, layer, e, m));
        }
    }
}

static void cut_ngrams(cutter *c, uint32_t file, const tt_table_plan *n)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < n->n_shards; i++) {
        place p = {file, n->layout.dtype, n->shard[i].values->shape[0], n->layout.cols, at, 0, 0};
        cut_piece(c, &p, &n->shard[i]);
        at += p.rows * n->layout.row_bytes;
    }
}

static uint32_t add_file(cutter *c, const char *rel, uint64_t size, const tt_index *ix)
{
    tt_payload_file *f = &c->s.files[c->s.n_files];
    snprintf(f->rel, sizeof f->rel, "%s", rel);
    f->size = size;
    f->index = ix;
    return c->s.n_files++;
}

static void cut_all(cutter *c, const tt_repack_plan *plan)
{
    const tt_arch *a = &plan->arch;
    cut_weights(c, add_file(c, TT_WEIGHTS_NAME, plan->weights.file_bytes, &plan->weights),
                &plan->weights, plan->weights_src);
    if (plan->mtp.count > 0)
        cut_weights(c, add_file(c, TT_MTP_WEIGHTS_NAME, plan->mtp.file_bytes, &plan->mtp),
                    &plan->mtp, plan->mtp_src);
    for (size_t row = 0; row < tt_repack_plan_expert_layers(plan); row++) {
        bool mtp = row >= a->n_layers;
        const tt_expert_layout *l = mtp ? &plan->mtp_experts : &plan->experts;
        char rel[64];
        tt_expert_file_name(rel, (uint32_t)(mtp ? row - a->n_layers : row), mtp);
        cut_layer(c, add_file(c, rel, l->stride * l->n_experts, NULL), plan, row, l);
    }
    if (plan->ngrams.n_shards > 0)
        cut_ngrams(c, add_file(c, TT_NGRAM_NAME, plan->ngrams.layout.file_bytes, NULL),
                   &plan->ngrams);
}

/* ---- order and ranges ---- */

static uint64_t begin_of(const tt_segment *s)
{
    return s->src->offset + s->first * tt_st_dtype_bytes(s->src->dtype);
}

static uint64_t end_of(const tt_segment *s)
{
    return s->src->offset + (s->first + s->count) * tt_st_dtype_bytes(s->src->dtype);
}

static int by_place(const void *pa, const void *pb)
{
    const tt_segment *a = pa, *b = pb;
    if (a->src->shard != b->src->shard)
        return a->src->shard < b->src->shard ? -1 : 1;
    uint64_t x = begin_of(a), y = begin_of(b);
    return x != y ? (x < y ? -1 : 1) : 0;
}

static tt_status make_ranges(tt_segments *s, uint64_t range_bytes, tt_error *err)
{
    s->ranges = calloc(s->count, sizeof *s->ranges);
    if (s->ranges == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a plan of %zu parts", s->count);
    tt_source_range *r = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const tt_segment *g = &s->items[i];
        uint64_t begin = begin_of(g), end = end_of(g);
        if (r == NULL || r->shard != g->src->shard || begin - r->end > GAP_BYTES ||
            end - r->begin > range_bytes) {
            r = &s->ranges[s->n_ranges++];
            *r = (tt_source_range){.shard = g->src->shard, .begin = begin, .first = i};
        }
        r->end = end;
        r->count++;
        if (end - begin > s->max_bytes)
            s->max_bytes = end - begin;
        if (g->bytes > s->max_bytes)
            s->max_bytes = g->bytes;
        if (16 * g->sides > s->max_bytes)
            s->max_bytes = 16 * g->sides;
    }
    for (size_t i = 0; i < s->n_ranges; i++)
        s->source_bytes += s->ranges[i].end - s->ranges[i].begin;
    return TT_OK;
}

static tt_status note(tt_sha256 *sha, tt_error *err, const char *fmt, ...) TT_PRINTF(3, 4);
static tt_status note(tt_sha256 *sha, tt_error *err, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tt_sha256_update(sha, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1, err);
}

/* Everything that decides which bytes a range is and where they go. */
static tt_status fingerprint(tt_segments *s, const tt_safetensors *source, tt_error *err)
{
    tt_sha256 *sha = NULL;
    tt_status st;
    TT_TRY(tt_sha256_create(&sha, err));
    TT_GOTO(note(sha, err, "cut %u install %u\n", FORMAT, TT_INSTALL_VERSION), out);
    for (uint32_t i = 0; i < tt_safetensors_shards(source); i++)
        TT_GOTO(note(sha, err, "shard %s %" PRIu64 "\n",
                     strrchr(tt_safetensors_shard_path(source, i), '/') + 1,
                     tt_safetensors_shard_size(source, i)),
                out);
    for (uint32_t i = 0; i < s->n_files; i++)
        TT_GOTO(note(sha, err, "file %s %" PRIu64 "\n", s->files[i].rel, s->files[i].size), out);
    for (size_t i = 0; i < s->n_ranges; i++) {
        const tt_source_range *r = &s->ranges[i];
        TT_GOTO(note(sha, err, "range %u %" PRIu64 " %" PRIu64 "\n", r->shard, r->begin, r->end),
                out);
        for (size_t k = r->first; k < r->first + r->count; k++) {
            const tt_segment *g = &s->items[k];
            TT_GOTO(note(sha, err,
                         "%" PRIu64 " %" PRIu64 " %d %d %u %u %u %" PRIu64 " %" PRIu64 " %" PRIu64
                         " %" PRIu64 "\n",
                         begin_of(g), end_of(g), (int)g->src->dtype,
                         g->piece != NULL ? (int)g->dtype : -1, g->cols, g->per_row, g->file, g->at,
                         g->bytes, g->scales_at, g->biases_at),
                    out);
        }
    }
    st = tt_sha256_finish(sha, s->fingerprint, err);
out:
    tt_sha256_close(&sha);
    return st;
}

tt_status tt_segments_create(const tt_safetensors *st, const tt_repack_plan *plan,
                             uint64_t range_bytes, uint64_t chunk_values, tt_segments *out,
                             tt_error *err)
{
    cutter c = {.max_values = chunk_values > 0 ? chunk_values : SEGMENT_VALUES};
    if (range_bytes == 0)
        range_bytes = RANGE_BYTES;
    c.max_bytes = range_bytes < SEGMENT_BYTES ? range_bytes : SEGMENT_BYTES;
    c.s.files = calloc(3 + tt_repack_plan_expert_layers(plan), sizeof *c.s.files);
    tt_status status = TT_OK;
    if (c.s.files != NULL)
        cut_all(&c, plan);
    if (c.s.files == NULL || c.no_memory)
        status = tt_fail(err, TT_ERR_NOMEM, "out of memory for a plan of %zu parts", c.s.count);
    else if (c.too_long != NULL)
        status = tt_fail(err, TT_ERR_LIMIT,
                         "tensor \"%.200s\" has rows of %" PRIu64 " values, at most %" PRIu64
                         " can be converted",
                         c.too_long->name, c.its_cols, c.max_values / TT_PANEL);
    if (status == TT_OK) {
        qsort(c.s.items, c.s.count, sizeof *c.s.items, by_place);
        status = make_ranges(&c.s, range_bytes, err);
    }
    if (status == TT_OK)
        status = fingerprint(&c.s, st, err);
    if (status == TT_OK)
        *out = c.s;
    else
        tt_segments_free(&c.s);
    return status;
}

void tt_segments_free(tt_segments *s)
{
    if (s == NULL)
        return;
    free(s->files);
    free(s->items);
    free(s->ranges);
    *s = (tt_segments){0};
}

/* ---- gaps ---- */

typedef struct span {
    uint32_t file;
    uint64_t begin, end;
} span;

static int by_begin(const void *pa, const void *pb)
{
    const span *a = pa, *b = pb;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return a->begin != b->begin ? (a->begin < b->begin ? -1 : 1) : 0;
}

static tt_status clear(tt_emit *e, uint64_t begin, uint64_t end, tt_error *err)
{
    static const unsigned char zeros[TT_PAGE_ALIGN];
    while (begin < end) {
        uint64_t n = end - begin < sizeof zeros ? end - begin : sizeof zeros;
        TT_TRY(tt_emit_write(e, zeros, n, begin, err));
        begin += n;
    }
    return TT_OK;
}

tt_status tt_segments_clear_gaps(const tt_segments *s, tt_emit *files, tt_error *err)
{
    size_t n = 0;
    span *spans = malloc((3 * s->count + 2 * s->n_files) * sizeof *spans);
    if (spans == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu parts", s->count);
    for (uint32_t i = 0; i < s->n_files; i++) {
        const tt_payload_file *f = &s->files[i];
        spans[n++] = (span){i, 0, f->index != NULL ? f->index->index_bytes : 0};
        spans[n++] = (span){i, f->size, f->size};
    }
    for (size_t i = 0; i < s->count; i++) {
        const tt_segment *g = &s->items[i];
        spans[n++] = (span){g->file, g->at, g->at + g->bytes};
        if (g->sides > 0) {
            spans[n++] = (span){g->file, g->scales_at, g->scales_at + g->sides};
            spans[n++] = (span){g->file, g->biases_at, g->biases_at + g->sides};
        }
    }
    qsort(spans, n, sizeof *spans, by_begin);
    tt_status st = TT_OK;
    for (size_t i = 1; i < n && st == TT_OK; i++)
        if (spans[i].file == spans[i - 1].file)
            st = clear(&files[spans[i].file], spans[i - 1].end, spans[i].begin, err);
    free(spans);
    return st;
}

/* ---- bytes ---- */

tt_status tt_segment_bytes_init(const tt_segments *s, tt_segment_bytes *b, tt_error *err)
{
    b->words = malloc(s->max_bytes + 64);
    b->scales = malloc(s->max_bytes / 16 + 64);
    b->biases = malloc(s->max_bytes / 16 + 64);
    if (b->words == NULL || b->scales == NULL || b->biases == NULL) {
        tt_segment_bytes_free(b);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a part of %" PRIu64 " bytes",
                       s->max_bytes);
    }
    return TT_OK;
}

void tt_segment_bytes_free(tt_segment_bytes *b)
{
    free(b->words);
    free(b->scales);
    free(b->biases);
    *b = (tt_segment_bytes){0};
}

tt_status tt_segment_convert(tt_converter *c, const tt_segment *s, tt_segment_bytes *out,
                             tt_error *err)
{
    if (s->per_row != 0)
        return tt_convert_turn(c, s->src, s->per_row, s->first / s->per_row, s->count / s->per_row,
                               out->words, err);
    if (s->piece == NULL)
        return tt_convert_copy(c, s->src, s->first, s->count, out->words, err);
    return tt_convert_rows(c, s->piece, s->dtype, s->cols, s->row, s->count / s->cols, out->words,
                           out->scales, out->biases, err);
}

tt_status tt_segment_read_back(const tt_segment *s, const tt_emit *files, tt_segment_bytes *out,
                               tt_error *err)
{
    const tt_emit *e = &files[s->file];
    TT_TRY(tt_file_pread(e->fd, e->path, out->words, s->bytes, s->at, err));
    if (s->sides == 0)
        return TT_OK;
    TT_TRY(tt_file_pread(e->fd, e->path, out->scales, s->sides, s->scales_at, err));
    return tt_file_pread(e->fd, e->path, out->biases, s->sides, s->biases_at, err);
}

tt_status tt_segment_write(const tt_segment *s, tt_emit *files, const tt_segment_bytes *b,
                           tt_error *err)
{
    tt_emit *e = &files[s->file];
    TT_TRY(tt_emit_write(e, b->words, s->bytes, s->at, err));
    if (s->sides == 0)
        return TT_OK;
    TT_TRY(tt_emit_write(e, b->scales, s->sides, s->scales_at, err));
    return tt_emit_write(e, b->biases, s->sides, s->biases_at, err);
}

tt_status tt_segment_hash(const tt_segment *s, const tt_segment_bytes *b, tt_sha256 *sha,
                          tt_error *err)
{
    TT_TRY(tt_sha256_update(sha, b->words, s->bytes, err));
    if (s->sides == 0)
        return TT_OK;
    TT_TRY(tt_sha256_update(sha, b->scales, s->sides, err));
    return tt_sha256_update(sha, b->biases, s->sides, err);
}
