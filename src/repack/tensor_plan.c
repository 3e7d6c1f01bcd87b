#include "repack/tensor_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install_layout.h"
#include "format/quant.h"
#include "repack/norms.h"
#include "repack/source_name.h"

/* What the planning of one checkpoint shares. */
typedef struct planner {
    const tt_safetensors *st;
    const tt_policy *policy;
    const tt_repack_events *ev;
    const char *file;
    tt_mlx_config mlx;
    tt_repack_plan *plan;
    tt_piece *found;           /* source of each inventory item */
    tt_dtype *dtypes;          /* destination type of each inventory item */
    tt_dtype mats[2][TT_MATS]; /* destination types of experts: body, draft */
    bool mats_known[2][TT_MATS];
    const tt_st_tensor *ngram_scale; /* of an fp8 table */
} planner;

void tt_note(const tt_repack_events *ev, tt_note_kind kind, const char *fmt, ...)
{
    char text[1024];
    if (ev == NULL || ev->note == NULL)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ev->note(ev->ctx, kind, text);
}

static tt_status refuse(const planner *p, const tt_st_tensor *t, tt_status status, tt_error *err,
                        const char *what)
{
    return tt_fail_at(err, status, tt_safetensors_shard_path(p->st, t->shard), (int64_t)t->offset,
                      "tensor \"%.200s\" (%s): %s", t->name, tt_st_dtype_name(t->dtype), what);
}

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

/* The tensor whose name is t's with `from` at the end replaced by `to`, or NULL. */
static const tt_st_tensor *sibling(const planner *p, const tt_st_tensor *t, const char *from,
                                   const char *to)
{
    char name[TT_MAX_NAME + 16];
    size_t stem = strlen(t->name) - strlen(from);
    if (stem + strlen(to) >= sizeof name)
        return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)stem, t->name, to);
    return tt_safetensors_find(p->st, name);
}

static bool shape_is(const tt_st_tensor *t, uint32_t rank, const uint64_t *shape)
{
    if (t->rank != rank)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (t->shape[i] != shape[i])
            return false;
    return true;
}

static tt_status wrong_shape(const planner *p, const tt_st_tensor *t, uint32_t rank,
                             const uint64_t *want, tt_error *err)
{
    char is[128] = "", must[128] = "";
    for (uint32_t i = 0; i < t->rank && i < 5; i++)
        snprintf(is + strlen(is), sizeof is - strlen(is), "%s%llu", i > 0 ? " x " : "",
                 (unsigned long long)t->shape[i]);
    for (uint32_t i = 0; i < rank; i++)
        snprintf(must + strlen(must), sizeof must - strlen(must), "%s%llu", i > 0 ? " x " : "",
                 (unsigned long long)want[i]);
    return tt_fail_at(
        err, TT_ERR_FORMAT, tt_safetensors_shard_path(p->st, t->shard), (int64_t)t->offset,
        "tensor \"%.200s\" has shape [%s], the config calls for [%s]", t->name, is, must);
}

/* A quantized tensor: words with scales and biases of the right types and shapes. */
static tt_status resolve_affine(planner *p, const tt_st_tensor *t, uint32_t rank,
                                const uint64_t *shape, tt_piece *piece, tt_dtype *dtype,
                                tt_error *err)
{
    uint64_t words[TT_MAX_TENSOR_RANK], groups[TT_MAX_TENSOR_RANK];
    char module[TT_MAX_NAME + 1];
    uint32_t bits = 0;
    const tt_st_tensor *s = piece->scales, *b = piece->biases;
    if (t->dtype != TT_ST_U32)
        return refuse(p, t, TT_ERR_FORMAT, err, "it has .scales, but is not made of U32 words");
    if (b == NULL)
        return refuse(p, t, TT_ERR_UNSUPPORTED, err,
                      "it has .scales without .biases; only affine quantization can be read");
    snprintf(module, sizeof module, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    TT_TRY(tt_mlx_config_bits(&p->mlx, module, &bits, err));
    if (shape[rank - 1] % TT_GROUP != 0)
        return refuse(p, t, TT_ERR_FORMAT, err, "64 does not divide its quantized rows");
    memcpy(words, shape, sizeof words);
    memcpy(groups, shape, sizeof groups);
    words[rank - 1] = shape[rank - 1] * bits / 32;
    groups[rank - 1] = shape[rank - 1] / TT_GROUP;
    if (!shape_is(t, rank, words))
        return wrong_shape(p, t, rank, words, err);
    if (!shape_is(s, rank, groups))
        return wrong_shape(p, s, rank, groups, err);
    if (!shape_is(b, rank, groups))
        return wrong_shape(p, b, rank, groups, err);
    if (s->dtype != TT_ST_BF16 || b->dtype != TT_ST_BF16)
        return refuse(p, s->dtype != TT_ST_BF16 ? s : b, TT_ERR_UNSUPPORTED, err,
                      "scales and biases of quantized input must be BF16");
    *dtype = bits == 4 ? TT_DTYPE_Q4 : TT_DTYPE_Q8;
    return TT_OK;
}

/* Fp8 with the factors of its blocks. It becomes affine, or BF16 where source precision is kept. */
static tt_status resolve_fp8(planner *p, const tt_st_tensor *t, uint32_t rank,
                             const uint64_t *shape, tt_role role, tt_piece *piece, tt_dtype *dtype,
                             tt_error *err)
{
    uint64_t blocks[TT_MAX_TENSOR_RANK];
    const tt_st_tensor *b = piece->blocks = sibling(p, t, "", "_scale_inv");
    if (b == NULL)
        return refuse(
            p, t, TT_ERR_UNSUPPORTED, err,
            "it is fp8 without _scale_inv; only fp8 with factors of 128 x 128 blocks can be "
            "read");
    if (role == TT_ROLE_PLAIN || rank < 2)
        return refuse(p, t, TT_ERR_UNSUPPORTED, err, "tensors of its kind are never fp8");
    if (!shape_is(t, rank, shape))
        return wrong_shape(p, t, rank, shape, err);
    memcpy(blocks, shape, sizeof blocks);
    for (uint32_t i = rank - 2; i < rank; i++)
        blocks[i] = (shape[i] + TT_FP8_BLOCK - 1) / TT_FP8_BLOCK;
    if (!shape_is(b, rank, blocks))
        return wrong_shape(p, b, rank, blocks, err);
    if (b->dtype != TT_ST_F32 && b->dtype != TT_ST_F16 && b->dtype != TT_ST_BF16)
        return refuse(p, b, TT_ERR_UNSUPPORTED, err,
                      "factors of fp8 blocks must be F32, F16 or BF16");
    uint32_t bits = tt_policy_bits(p->policy, role, p->plan->quantized_input);
    if (bits != 16 && shape[rank - 1] % TT_GROUP != 0)
        p->plan->kept_tensors++;
    *dtype = bits == 16 || shape[rank - 1] % TT_GROUP != 0 ? TT_DTYPE_BF16
             : bits == 4                                   ? TT_DTYPE_Q4
                                                           : TT_DTYPE_Q8;
    return TT_OK;
}

/* Integers stay what they are. */
static tt_status resolve_integers(const planner *p, const tt_st_tensor *t, uint32_t rank,
                                  const uint64_t *shape, tt_piece *piece, tt_dtype *dtype,
                                  tt_error *err)
{
    if (t->dtype != TT_ST_I64)
        return refuse(p, t, TT_ERR_UNSUPPORTED, err, "tensors of its kind are I64");
    if (!shape_is(t, rank, shape))
        return wrong_shape(p, t, rank, shape, err);
    *piece = (tt_piece){.values = t};
    *dtype = TT_DTYPE_I64;
    return TT_OK;
}

/* Finds companions, checks type and shape, decides the destination's type. */
static tt_status resolve(planner *p, const tt_st_tensor *t, uint32_t rank, const uint64_t *shape,
                         tt_role role, tt_piece *piece, tt_dtype *dtype, tt_error *err)
{
    *piece = (tt_piece){.values = t};
    if (ends_with(t->name, ".weight")) {
        piece->scales = sibling(p, t, ".weight", ".scales");
        piece->biases = sibling(p, t, ".weight", ".biases");
    }
    if (piece->scales != NULL) {
        if (role == TT_ROLE_PLAIN)
            return refuse(p, t, TT_ERR_UNSUPPORTED, err, "tensors of its kind are never quantized");
        return resolve_affine(p, t, rank, shape, piece, dtype, err);
    }
    if (piece->biases != NULL)
        return refuse(p, piece->biases, TT_ERR_FORMAT, err, "there are .biases without .scales");
    if (t->dtype == TT_ST_F8_E4M3)
        return resolve_fp8(p, t, rank, shape, role, piece, dtype, err);
    if (t->dtype != TT_ST_F32 && t->dtype != TT_ST_F16 && t->dtype != TT_ST_BF16)
        return refuse(p, t, TT_ERR_UNSUPPORTED, err,
                      "weights must be F32, F16, BF16, fp8 (E4M3), or quantized as MLX affine");
    if (!shape_is(t, rank, shape))
        return wrong_shape(p, t, rank, shape, err);
    uint32_t bits = tt_policy_bits(p->policy, role, p->plan->quantized_input);
    *dtype = t->dtype == TT_ST_F32   ? TT_DTYPE_F32
             : t->dtype == TT_ST_F16 ? TT_DTYPE_F16
                                     : TT_DTYPE_BF16;
    if (bits == 16)
        return TT_OK;
    if (shape[rank - 1] % TT_GROUP != 0) {
        p->plan->kept_tensors++;
        if (p->plan->kept_tensors <= 20)
            tt_note(p->ev, TT_NOTE_INFO,
                    "%s keeps its source precision: 64 does not divide its rows of %llu values",
                    t->name, (unsigned long long)shape[rank - 1]);
        return TT_OK;
    }
    *dtype = bits == 4 ? TT_DTYPE_Q4 : TT_DTYPE_Q8;
    return TT_OK;
}

static tt_status doubled(const planner *p, const tt_st_tensor *t, const tt_piece *before,
                         tt_error *err)
{
    char what[600];
    snprintf(what, sizeof what, "\"%.300s\" gives the same weights", before->values->name);
    return refuse(p, t, TT_ERR_FORMAT, err, what);
}

/* Files the rows of one expert's matrix under its layer, id and place. */
static tt_status file_expert(planner *p, const tt_st_tensor *t, const tt_expert_name *n,
                             uint32_t expert, unsigned mat, const tt_piece *from,
                             uint64_t first_row, tt_error *err)
{
    size_t layer = n->layer + (n->mtp ? p->plan->arch.n_layers : 0);
    tt_piece *slot = tt_repack_plan_expert(p->plan, layer, expert, mat);
    if (slot->values != NULL)
        return doubled(p, t, slot, err);
    *slot = *from;
    slot->first_row = first_row;
    return TT_OK;
}

static tt_status same_type(planner *p, const tt_st_tensor *t, bool mtp, unsigned mat,
                           tt_dtype dtype, tt_error *err)
{
    if (p->mats_known[mtp][mat] && p->mats[mtp][mat] != dtype)
        return refuse(p, t, TT_ERR_UNSUPPORTED, err,
                      "experts of different layers would have different types or widths, which an "
                      "install cannot hold");
    p->mats[mtp][mat] = dtype;
    p->mats_known[mtp][mat] = true;
    return TT_OK;
}

static tt_status take_expert(planner *p, const tt_st_tensor *t, const tt_expert_name *n,
                             tt_error *err)
{
    const tt_arch *a = &p->plan->arch;
    uint64_t e = a->n_experts, f = a->moe_intermediate, h = a->hidden_size;
    if (!tt_arch_is_moe(a) || n->layer >= (n->mtp ? a->n_mtp_layers : a->n_layers) ||
        (n->form == TT_EXPERT_SINGLE && n->expert >= e))
        return refuse(p, t, TT_ERR_FORMAT, err, "the config knows no such layer or expert");
    bool gate_up = n->form == TT_EXPERT_FUSED_GATE_UP;
    unsigned mat = n->form == TT_EXPERT_FUSED_DOWN ? TT_MAT_DOWN : gate_up ? TT_MAT_GATE : n->mat;
    uint64_t rows = mat == TT_MAT_DOWN ? h : gate_up ? 2 * f : f;
    uint64_t cols = mat == TT_MAT_DOWN ? f : h;
    uint64_t stacked[TT_MAX_TENSOR_RANK] = {e, rows, cols},
             single[TT_MAX_TENSOR_RANK] = {rows, cols};
    bool one = n->form == TT_EXPERT_SINGLE;
    tt_piece piece;
    tt_dtype dtype = 0;
    TT_TRY(
        resolve(p, t, one ? 2 : 3, one ? single : stacked, TT_ROLE_EXPERTS, &piece, &dtype, err));
    TT_TRY(same_type(p, t, n->mtp, mat, dtype, err));
    if (gate_up)
        TT_TRY(same_type(p, t, n->mtp, TT_MAT_UP, dtype, err));
    if (one)
        return file_expert(p, t, n, n->expert, mat, &piece, 0, err);
    for (uint32_t i = 0; i < e; i++) {
        TT_TRY(file_expert(p, t, n, i, mat, &piece, i * rows, err));
        if (gate_up)
            TT_TRY(file_expert(p, t, n, i, TT_MAT_UP, &piece, i * rows + f, err));
    }
    return TT_OK;
}

/* conv1d stands as [C, 1, K] in raw checkpoints, as [C, K, 1] in converted ones; the bytes are the
 * same. */
static bool conv_shape(planner *p, const tt_st_tensor *t, const tt_want *w, uint64_t *shape)
{
    shape[0] = w->shape[0];
    bool raw = t->rank == 3 && t->shape[1] == 1 && t->shape[2] == w->shape[1];
    bool shifted = t->rank == 3 && t->shape[2] == 1 && t->shape[1] == w->shape[1] && !raw;
    shape[1] = shifted ? w->shape[1] : 1;
    shape[2] = shifted ? 1 : w->shape[1];
    p->plan->conv_raw += raw;
    p->plan->conv_shifted += shifted;
    return raw || shifted;
}

static tt_status take_resident(planner *p, const tt_st_tensor *t, const tt_want *w, tt_error *err)
{
    size_t i = (size_t)(w - p->plan->inventory.items);
    uint64_t shape[TT_MAX_TENSOR_RANK];
    uint32_t rank = w->rank;
    if (p->found[i].values != NULL)
        return doubled(p, t, &p->found[i], err);
    memcpy(shape, w->shape, sizeof shape);
    if (w->conv) {
        rank = 3;
        if (!conv_shape(p, t, w, shape))
            return wrong_shape(p, t, rank, shape, err);
    }
    if (w->integers)
        return resolve_integers(p, t, rank, shape, &p->found[i], &p->dtypes[i], err);
    return resolve(p, t, rank, shape, w->role, &p->found[i], &p->dtypes[i], err);
}

/* ---- the n-gram table ---- */

/* Room for a shard of this number. */
static tt_status reach_shard(planner *p, const tt_st_tensor *t, uint32_t number, tt_error *err)
{
    tt_table_plan *n = &p->plan->ngrams;
    if (number >= TT_MAX_SHARDS)
        return refuse(p, t, TT_ERR_LIMIT, err, "the n-gram table has too many shards");
    if (number < n->n_shards)
        return TT_OK;
    tt_piece *more = realloc(n->shard, (number + 1) * sizeof *more);
    if (more == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the n-gram table's shards");
    memset(more + n->n_shards, 0, (number + 1 - n->n_shards) * sizeof *more);
    n->shard = more;
    n->n_shards = number + 1;
    return TT_OK;
}

static tt_status take_ngram_shard(planner *p, const tt_st_tensor *t, uint32_t layer,
                                  uint32_t number, tt_error *err)
{
    const tt_arch *a = &p->plan->arch;
    if (tt_arch_ngrams(a) == 0 || layer != a->ngram_layer)
        return refuse(p, t, TT_ERR_FORMAT, err, "the config has no n-gram table there");
    if (t->dtype != TT_ST_BF16 && t->dtype != TT_ST_F16 && t->dtype != TT_ST_F8_E4M3)
        return refuse(p, t, TT_ERR_UNSUPPORTED, err, "an n-gram table must be BF16, F16 or fp8");
    if (t->rank != 2 || t->shape[1] != tt_arch_ngram_cols(a))
        return wrong_shape(p, t, 2, (const uint64_t[]){t->shape[0], tt_arch_ngram_cols(a)}, err);
    TT_TRY(reach_shard(p, t, number, err));
    tt_piece *s = &p->plan->ngrams.shard[number];
    if (s->values != NULL)
        return doubled(p, t, s, err);
    s->values = t;
    return TT_OK;
}

/* All fp8 shards have one factor. */
static tt_status take_ngram_scale(planner *p, const tt_st_tensor *t, tt_error *err)
{
    if (t->dtype != TT_ST_F32 && t->dtype != TT_ST_F16 && t->dtype != TT_ST_BF16)
        return refuse(p, t, TT_ERR_UNSUPPORTED, err, "it must be F32, F16 or BF16");
    if (t->bytes != tt_st_dtype_bytes(t->dtype))
        return refuse(p, t, TT_ERR_FORMAT, err, "it must be one value");
    p->ngram_scale = t;
    return TT_OK;
}

/* Shards are there from 0 on, of one type, and make up the table that the config calls for. */
static tt_status join_shards(planner *p, tt_error *err)
{
    const tt_arch *a = &p->plan->arch;
    tt_table_plan *n = &p->plan->ngrams;
    uint64_t rows = 0;
    if (tt_arch_ngrams(a) == 0)
        return TT_OK;
    for (uint32_t i = 0; i < n->n_shards; i++) {
        tt_piece *s = &n->shard[i];
        if (s->values == NULL)
            return tt_fail_at(err, TT_ERR_NOT_FOUND, p->file, -1,
                              "the checkpoint has no shard %u of the n-gram table", i);
        if (s->values->dtype != n->shard[0].values->dtype)
            return refuse(p, s->values, TT_ERR_UNSUPPORTED, err,
                          "shards of the n-gram table are of different types");
        if (s->values->dtype == TT_ST_F8_E4M3 && (s->blocks = p->ngram_scale) == NULL)
            return refuse(p, s->values, TT_ERR_NOT_FOUND, err,
                          "it is fp8, and the checkpoint has no weight_scale of the table");
        rows += s->values->shape[0];
    }
    if (rows != a->ngram_rows)
        return tt_fail_at(err, n->n_shards == 0 ? TT_ERR_NOT_FOUND : TT_ERR_FORMAT, p->file, -1,
                          "the n-gram table has %llu rows in %u shards, the config calls for %u",
                          (unsigned long long)rows, n->n_shards, a->ngram_rows);
    tt_ngram_layout_init(&n->layout, a,
                         n->shard[0].values->dtype == TT_ST_F16 ? TT_DTYPE_F16 : TT_DTYPE_BF16);
    return TT_OK;
}

/* A head beside tied embeddings: harmless when it repeats them. */
static tt_status take_tied_head(planner *p, const tt_st_tensor *t, tt_error *err)
{
    bool same = false;
    if (tt_safetensors_is_remote(p->st))
        return refuse(p, t, TT_ERR_UNSUPPORTED, err,
                      "the config ties the head to the embeddings, and whether this one repeats "
                      "them can be told from a downloaded checkpoint only (--input-snapshot)");
    for (size_t i = 0; i < tt_safetensors_count(p->st) && !same; i++) {
        const tt_st_tensor *e = tt_safetensors_at(p->st, i);
        const char *name = tt_source_canonical(e->name);
        if (name != NULL && strcmp(name, "embed_tokens.weight") == 0)
            TT_TRY(tt_tensors_equal(p->st, e, t, &same, err));
    }
    if (!same || sibling(p, t, ".weight", ".scales") != NULL)
        return refuse(p, t, TT_ERR_FORMAT, err,
                      "the config ties the head to the embeddings, and this is another head");
    tt_note(p->ev, TT_NOTE_INFO, "%s repeats the embeddings and is dropped: the head is tied",
            t->name);
    return TT_OK;
}

/* .scales, .biases and _scale_inv are fetched with their weights; here they only must have them. */
static bool is_companion(const planner *p, const tt_st_tensor *t)
{
    if (ends_with(t->name, "_scale_inv")) {
        const tt_st_tensor *of = sibling(p, t, "_scale_inv", "");
        return of != NULL && of->dtype == TT_ST_F8_E4M3;
    }
    return (ends_with(t->name, ".scales") && sibling(p, t, ".scales", ".weight") != NULL) ||
           (ends_with(t->name, ".biases") && sibling(p, t, ".biases", ".weight") != NULL);
}

static tt_status take(planner *p, const tt_st_tensor *t, tt_error *err)
{
    tt_expert_name expert;
    uint32_t ngram_layer, shard;
    if (tt_source_is_vision(t->name)) {
        p->plan->vision_tensors++;
        p->plan->vision_bytes += t->bytes;
        return TT_OK;
    }
    const char *name = tt_source_canonical(t->name);
    if (name == NULL)
        return refuse(p, t, TT_ERR_FORMAT, err, "it belongs to nothing that this program knows");
    if (is_companion(p, t))
        return TT_OK;
    if (tt_source_expert(name, &expert))
        return take_expert(p, t, &expert, err);
    if (tt_source_ngram_shard(name, &ngram_layer, &shard))
        return take_ngram_shard(p, t, ngram_layer, shard, err);
    if (tt_source_ngram_scale(name))
        return take_ngram_scale(p, t, err);
    const tt_want *w = tt_inventory_find(&p->plan->inventory, name);
    if (w != NULL)
        return take_resident(p, t, w, err);
    if (p->plan->arch.tied_head && strcmp(name, "lm_head.weight") == 0)
        return take_tied_head(p, t, err);
    return refuse(p, t, TT_ERR_FORMAT, err, "a model of this config has no such tensor");
}

static tt_status check_complete(const planner *p, tt_error *err)
{
    static const char *const mats[TT_MATS] = {"gate", "up", "down"};
    const tt_repack_plan *plan = p->plan;
    for (size_t i = 0; i < plan->inventory.count; i++)
        if (p->found[i].values == NULL)
            return tt_fail_at(err, TT_ERR_NOT_FOUND, p->file, -1,
                              "the checkpoint has no tensor \"%s\", which its config calls for",
                              plan->inventory.items[i].name);
    for (size_t l = 0; l < tt_repack_plan_expert_layers(plan); l++) {
        bool mtp = l >= plan->arch.n_layers;
        for (uint32_t e = 0; e < plan->arch.n_experts; e++)
            for (unsigned m = 0; m < TT_MATS; m++)
                if (tt_repack_plan_expert(plan, l, e, m)->values == NULL)
                    return tt_fail_at(err, TT_ERR_NOT_FOUND, p->file, -1,
                                      "the checkpoint has no %s projection of expert %u in layer "
                                      "%s%zu, which its config calls for",
                                      mats[m], e, mtp ? "mtp." : "",
                                      mtp ? l - plan->arch.n_layers : l);
    }
    return TT_OK;
}

/* The draft's layers are those that the tensors have. */
static tt_status count_draft(planner *p, tt_error *err)
{
    tt_arch *a = &p->plan->arch;
    int64_t last = -1;
    const char *example = NULL;
    for (size_t i = 0; i < tt_safetensors_count(p->st); i++) {
        const tt_st_tensor *t = tt_safetensors_at(p->st, i);
        const char *name = tt_source_canonical(t->name);
        if (name == NULL || strncmp(name, "mtp.", 4) != 0)
            continue;
        int64_t layer = tt_source_layer(name + 4);
        example = t->name;
        last = layer > last ? layer : last;
    }
    if (example == NULL) {
        if (a->n_mtp_layers > 0)
            tt_note(p->ev, TT_NOTE_INFO, "the checkpoint has no draft (mtp) tensors");
        a->n_mtp_layers = 0;
        return TT_OK;
    }
    int64_t layers = last + 1;
    if (layers < 1 || layers > TT_MAX_LAYERS ||
        (a->n_mtp_layers != 0 && layers != (int64_t)a->n_mtp_layers))
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                          "the config has %u draft layers, the tensors (\"%.200s\") have %lld",
                          a->n_mtp_layers, example, (long long)layers);
    a->n_mtp_layers = (uint32_t)layers;
    return TT_OK;
}

static tt_status allocate(planner *p, tt_error *err)
{
    tt_repack_plan *plan = p->plan;
    size_t n = plan->inventory.count, rows = tt_repack_plan_expert_layers(plan);
    p->found = calloc(n, sizeof *p->found);
    p->dtypes = calloc(n, sizeof *p->dtypes);
    if (rows > 0)
        plan->expert_src = calloc(rows * plan->arch.n_experts * TT_MATS, sizeof(tt_piece));
    if (p->found == NULL || p->dtypes == NULL || (rows > 0 && plan->expert_src == NULL))
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a plan of %zu tensors", n);
    return TT_OK;
}

/* The index of one weights file, in the order of the inventory, which is that of names. */
static tt_status lay_out(planner *p, bool mtp, tt_index *ix, tt_piece **src, tt_error *err)
{
    const tt_inventory *inv = &p->plan->inventory;
    ix->entries = calloc(inv->count, sizeof *ix->entries);
    *src = calloc(inv->count, sizeof **src);
    if (ix->entries == NULL || *src == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for an index of %zu tensors", inv->count);
    for (size_t i = 0; i < inv->count; i++) {
        const tt_want *w = &inv->items[i];
        if (w->mtp != mtp)
            continue;
        tt_index_entry *e = &ix->entries[ix->count];
        *e = (tt_index_entry){.name = w->name, .dtype = p->dtypes[i], .rank = w->rank};
        memcpy(e->shape, w->shape, sizeof e->shape);
        (*src)[ix->count++] = p->found[i];
    }
    return tt_index_layout(ix, mtp ? TT_MTP_WEIGHTS_NAME : TT_WEIGHTS_NAME, err);
}

static tt_status lay_out_experts(planner *p, bool mtp, tt_expert_layout *out, tt_error *err)
{
    const tt_arch *a = &p->plan->arch;
    const tt_dtype *d = p->mats[mtp];
    return tt_expert_layout_init(out, a->n_experts, a->hidden_size, a->moe_intermediate,
                                 d[TT_MAT_GATE], d[TT_MAT_UP], d[TT_MAT_DOWN], p->file, err);
}

static tt_status plan_all(planner *p, const json_t *config, tt_error *err)
{
    tt_repack_plan *plan = p->plan;
    TT_TRY(tt_arch_from_config(config, p->file, &plan->arch, err));
    TT_TRY(tt_mlx_config_read(config, p->file, &p->mlx, err));
    plan->quantized_input = p->mlx.obj != NULL;
    TT_TRY(count_draft(p, err));
    TT_TRY(tt_inventory_create(&plan->arch, &plan->inventory, err));
    TT_TRY(allocate(p, err));
    for (size_t i = 0; i < tt_safetensors_count(p->st); i++)
        TT_TRY(take(p, tt_safetensors_at(p->st, i), err));
    TT_TRY(check_complete(p, err));
    TT_TRY(join_shards(p, err));
    if (plan->vision_tensors > 0)
        tt_note(p->ev, TT_NOTE_INFO, "%llu vision tensors (%.1f MB) are left out: text only",
                (unsigned long long)plan->vision_tensors, (double)plan->vision_bytes / 1e6);
    if (plan->kept_tensors > 20)
        tt_note(p->ev, TT_NOTE_INFO, "%llu tensors in all keep their source precision for that",
                (unsigned long long)plan->kept_tensors);
    if (tt_safetensors_is_remote(p->st)) {
        plan->arch.norm_offset = plan->arch.mtp_norm_offset = plan->conv_shifted == 0;
    } else {
        tt_norm_evidence ev = {.conv_raw = plan->conv_raw, .conv_shifted = plan->conv_shifted};
        TT_TRY(tt_norms_measure(p->st, &plan->inventory, p->found, &ev, err));
        TT_TRY(tt_norms_decide(&ev, p->file, p->ev, &plan->arch, err));
    }
    TT_TRY(tt_arch_check(&plan->arch, p->file, err));
    TT_TRY(lay_out(p, false, &plan->weights, &plan->weights_src, err));
    if (tt_arch_is_moe(&plan->arch))
        TT_TRY(lay_out_experts(p, false, &plan->experts, err));
    if (plan->arch.n_mtp_layers == 0)
        return TT_OK;
    TT_TRY(lay_out(p, true, &plan->mtp, &plan->mtp_src, err));
    return tt_arch_is_moe(&plan->arch) ? lay_out_experts(p, true, &plan->mtp_experts, err) : TT_OK;
}

static tt_status measure_source(const tt_repack_plan *plan, const tt_safetensors *st,
                                const tt_index *ix, const tt_piece *src, tt_norm_values *v,
                                tt_error *err)
{
    for (size_t i = 0; i < ix->count; i++)
        if (tt_inventory_find(&plan->inventory, ix->entries[i].name)->offset_norm)
            TT_TRY(tt_norms_measure_one(st, src[i].values, v, err));
    return TT_OK;
}

tt_status tt_repack_plan_judge(tt_repack_plan *plan, const tt_safetensors *st, const char *file,
                               const tt_repack_events *events, tt_error *err)
{
    tt_norm_evidence ev = {.conv_raw = plan->conv_raw, .conv_shifted = plan->conv_shifted};
    TT_TRY(measure_source(plan, st, &plan->weights, plan->weights_src, &ev.body, err));
    TT_TRY(measure_source(plan, st, &plan->mtp, plan->mtp_src, &ev.mtp, err));
    TT_TRY(tt_norms_decide(&ev, file, events, &plan->arch, err));
    return tt_arch_check(&plan->arch, file, err);
}

tt_status tt_repack_plan_create(const tt_safetensors *st, const json_t *config, const char *file,
                                const tt_policy *policy, const tt_repack_events *ev,
                                tt_repack_plan *out, tt_error *err)
{
    tt_repack_plan plan = {0};
    planner p = {.st = st, .policy = policy, .ev = ev, .file = file, .plan = &plan};
    tt_status status = plan_all(&p, config, err);
    free(p.found);
    free(p.dtypes);
    if (status == TT_OK)
        *out = plan;
    else
        tt_repack_plan_free(&plan);
    return status;
}

void tt_repack_plan_free(tt_repack_plan *plan)
{
    if (plan == NULL)
        return;
    tt_index_free(&plan->weights);
    tt_index_free(&plan->mtp);
    free(plan->weights_src);
    free(plan->mtp_src);
    free(plan->expert_src);
    free(plan->ngrams.shard);
    tt_inventory_free(&plan->inventory); /* owns the names of the indexes */
    *plan = (tt_repack_plan){0};
}
