/* Writes a synthetic model as a published checkpoint: bf16 safetensors, a shard a layer, and
 * config.json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bench/synth.h"
#include "bench/synth_out.h"
#include "bench/synth_progress.h"
#include "bench/synth_text.h"
#include "format/install_writer.h"
#include "format/safetensors.h"

#define CONFIG      "config.json"
#define INDEX       "model.safetensors.index.json"
#define BODY        "model.language_model."
#define BLOCK       ((uint64_t)(4 * TT_MIB))
#define NGRAM_PARTS 128u

typedef struct work {
    synth_model *m;
    synth_dir dir;
    json_t *map; /* weight_map of the index */
    uint64_t total, done;
    synth_progress progress;
    const volatile int *stop;
    unsigned char *buf;
} work;

/* Shard 0 has what belongs to no layer, shard 1 + l layer l. */
static uint32_t shard_of(const char *name)
{
    return strncmp(name, "layers.", 7) == 0 ? 1 + (uint32_t)strtoul(name + 7, NULL, 10) : 0;
}

static void shard_name(const work *w, uint32_t shard, char out[64])
{
    snprintf(out, 64, "model-%05u-of-%05u.safetensors", shard + 1, w->m->arch.n_layers + 1);
}

static void published_name(const synth_tensor *t, char out[192])
{
    const char *prefix = strncmp(t->name, "lm_head.", 8) == 0 ? "" : BODY;
    snprintf(out, 192, "%s%s", prefix, t->name);
}

/* ---- a shard ---- */

static tt_status declare(work *w, tt_st_writer *out, const char *name, uint32_t rank,
                         const uint64_t *shape, uint32_t shard, tt_st_dtype dtype, tt_error *err)
{
    char file[64];
    shard_name(w, shard, file);
    if (json_object_set_new(w->map, name, json_string(file)) != 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the index");
    return tt_st_writer_declare(out, name, dtype, rank, shape, err);
}

static tt_status declare_tensor(work *w, tt_st_writer *out, const synth_tensor *t, uint32_t shard,
                                tt_error *err)
{
    char name[192];
    bool conv = strstr(t->name, ".conv1d.") != NULL;
    const uint64_t plain[] = {t->rows, t->cols}, taps[] = {t->rows, 1, t->cols};
    published_name(t, name);
    return declare(w, out, name,
                   conv          ? 3
                   : t->cols > 0 ? 2
                                 : 1,
                   conv ? taps : plain, shard, t->dtype == TT_DTYPE_I64 ? TT_ST_I64 : TT_ST_BF16,
                   err);
}

static tt_status declare_experts(work *w, tt_st_writer *out, uint32_t layer, tt_error *err)
{
    const tt_arch *a = &w->m->arch;
    uint64_t E = a->n_experts, H = a->hidden_size, F = a->moe_intermediate;
    char name[192];
    snprintf(name, sizeof name, BODY "layers.%u.mlp.experts.gate_up_proj", layer);
    TT_TRY(declare(w, out, name, 3, (const uint64_t[]){E, 2 * F, H}, 1 + layer, TT_ST_BF16, err));
    snprintf(name, sizeof name, BODY "layers.%u.mlp.experts.down_proj", layer);
    return declare(w, out, name, 3, (const uint64_t[]){E, H, F}, 1 + layer, TT_ST_BF16, err);
}

static tt_status append(work *w, tt_st_writer *out, const synth_tensor *t, tt_error *err)
{
    tt_dtype dtype = t->dtype == TT_DTYPE_I64 ? TT_DTYPE_I64 : TT_DTYPE_BF16;
    uint64_t row_bytes = tt_dtype_bytes(dtype) * (t->cols > 0 ? t->cols : 1);
    uint64_t step = BLOCK / row_bytes;
    for (uint64_t row = 0; row < t->rows; row += step) {
        uint64_t n = t->rows - row < step ? t->rows - row : step;
        if (*w->stop)
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
        synth_rows(w->m, t, dtype, row, n, w->buf);
        TT_TRY(tt_st_writer_append(out, w->buf, n * row_bytes, err));
        w->done += n * row_bytes;
        synth_progress_show(&w->progress, w->done);
    }
    return TT_OK;
}

static tt_status append_experts(work *w, tt_st_writer *out, uint32_t layer, tt_error *err)
{
    synth_tensor t;
    for (uint32_t e = 0; e < w->m->arch.n_experts; e++)
        for (unsigned mat = 0; mat < 2; mat++) {
            synth_expert(w->m, layer, e, mat, &t);
            TT_TRY(append(w, out, &t, err));
        }
    for (uint32_t e = 0; e < w->m->arch.n_experts; e++) {
        synth_expert(w->m, layer, e, 2, &t);
        TT_TRY(append(w, out, &t, err));
    }
    return TT_OK;
}

/* The n-gram table is published in numbered parts. */
static tt_status declare_ngrams(work *w, tt_st_writer *out, tt_error *err)
{
    const tt_arch *a = &w->m->arch;
    const uint64_t shape[] = {w->m->ngrams.rows / NGRAM_PARTS, w->m->ngrams.cols};
    char name[192];
    for (uint32_t i = 0; i < NGRAM_PARTS; i++) {
        snprintf(name, sizeof name,
                 BODY "layers.%u.ple.ple_embedding.ngram_embedding.shard_%u.weight", a->ngram_layer,
                 i);
        TT_TRY(declare(w, out, name, 2, shape, 1 + a->ngram_layer, TT_ST_BF16, err));
    }
    return TT_OK;
}

static tt_status fill_shard(work *w, tt_st_writer *out, uint32_t shard, tt_error *err)
{
    const synth_model *m = w->m;
    bool experts = shard > 0 && tt_arch_is_moe(&m->arch);
    bool ngrams = m->ngrams.rows > 0 && shard == 1 + m->arch.ngram_layer;
    for (size_t i = 0; i < m->n_tensors; i++)
        if (shard_of(m->tensors[i].name) == shard)
            TT_TRY(declare_tensor(w, out, &m->tensors[i], shard, err));
    if (experts)
        TT_TRY(declare_experts(w, out, shard - 1, err));
    if (ngrams)
        TT_TRY(declare_ngrams(w, out, err));
    for (size_t i = 0; i < m->n_tensors; i++)
        if (shard_of(m->tensors[i].name) == shard)
            TT_TRY(append(w, out, &m->tensors[i], err));
    if (experts)
        TT_TRY(append_experts(w, out, shard - 1, err));
    return ngrams ? append(w, out, &m->table, err) : TT_OK;
}

static tt_status write_shard(work *w, uint32_t shard, tt_error *err)
{
    char name[64], path[TT_MAX_PATH];
    tt_st_writer *out = NULL;
    shard_name(w, shard, name);
    TT_TRY(tt_path_join(path, w->dir.partial, name, err));
    TT_TRY(tt_st_writer_create(path, &out, err));
    tt_status st = fill_shard(w, out, shard, err);
    if (st == TT_OK)
        return tt_st_writer_finish(&out, err);
    tt_st_writer_discard(&out);
    return st;
}

/* ---- config.json ---- */

static json_t *layer_types(const tt_arch *a)
{
    json_t *list = json_array();
    for (uint32_t l = 0; l < a->n_layers; l++)
        json_array_append_new(
            list,
            json_string(a->layer_kind[l] == TT_LAYER_FULL ? "full_attention" : "linear_attention"));
    return list;
}

/* What only qwen4_exp has. */
static json_t *streams_config(const synth_model *m)
{
    const tt_arch *a = &m->arch;
    if (a->streams == 0)
        return json_object();
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, "
                     "s:[i]}",
                     "hc_count", a->streams, "hc_lowrank", a->mix_rank, "indexer_n_heads",
                     a->indexer_heads, "indexer_kv_heads", 1, "indexer_head_dim", a->indexer_dim,
                     "indexer_budget", a->indexer_budget, "indexer_compress_ratio",
                     a->indexer_block, "ple_embed_dim", a->ngram_dim, "ple_conv_kernel_size", 4,
                     "ngram_size", a->ngram_size, "heads_per_ngram", a->ngram_heads,
                     "ngram_vocab_size_base", m->ngram_base, "split_ngram_parts", NGRAM_PARTS,
                     "eos_token_id", a->ngram_eos, "output_gate_type", "sigmoid", "ple_layer_ids",
                     a->ngram_layer + 1);
}

static json_t *text_config(const synth_model *m)
{
    const tt_arch *a = &m->arch;
    json_t *t = json_pack(
        "{s:s+, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:b, s:o}",
        "model_type", tt_family_name(a->family), "_text", "hidden_size", a->hidden_size,
        "num_hidden_layers", a->n_layers, "vocab_size", a->vocab_size, "max_position_embeddings",
        a->max_position, "num_attention_heads", a->n_heads, "num_key_value_heads", a->n_kv_heads,
        "head_dim", a->head_dim, "linear_num_key_heads", a->lin_key_heads, "linear_num_value_heads",
        a->lin_value_heads, "linear_key_head_dim", a->lin_key_dim, "linear_value_head_dim",
        a->lin_value_dim, "linear_conv_kernel_dim", a->conv_kernel, "hidden_act", "silu",
        "rms_norm_eps", a->rms_eps, "tie_word_embeddings", a->tied_head, "layer_types",
        layer_types(a));
    json_t *rope = json_pack("{s:s, s:f, s:f}", "rope_type", "default", "rope_theta", a->rope_theta,
                             "partial_rotary_factor", a->partial_rotary);
    json_t *ffn =
        tt_arch_is_moe(a)
            ? json_pack("{s:i, s:i, s:i, s:i}", "num_experts", a->n_experts, "num_experts_per_tok",
                        a->top_k, "moe_intermediate_size", a->moe_intermediate,
                        "shared_expert_intermediate_size", a->shared_intermediate)
            : json_pack("{s:i}", "intermediate_size", a->intermediate);
    json_t *next = streams_config(m);
    int rc = json_object_set_new(t, "rope_parameters", rope) | json_object_update(t, ffn) |
             json_object_update(t, next);
    json_decref(ffn);
    json_decref(next);
    if (rc == 0)
        return t;
    json_decref(t);
    return NULL;
}

static tt_status write_json(work *w, const char *name, json_t *tree, tt_error *err)
{
    char path[TT_MAX_PATH], *text = NULL;
    size_t len = 0;
    tt_status st = tree == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for %s", name)
                                : tt_path_join(path, w->dir.partial, name, err);
    if (st == TT_OK)
        st = tt_install_json(tree, &text, &len, err);
    if (st == TT_OK)
        st = tt_file_publish(path, text, len, err);
    free(text);
    json_decref(tree);
    return st;
}

static tt_status write_config(work *w, tt_error *err)
{
    const tt_arch *a = &w->m->arch;
    const char *name = a->streams > 0      ? "Qwen4ExpForConditionalGeneration"
                       : tt_arch_is_moe(a) ? "Qwen3_5MoeForConditionalGeneration"
                                           : "Qwen3_5ForConditionalGeneration";
    json_t *text = text_config(w->m);
    json_t *config = text == NULL
                         ? NULL
                         : json_pack("{s:[s], s:s, s:b, s:o, s:s}", "architectures", name,
                                     "model_type", tt_family_name(a->family), "tie_word_embeddings",
                                     a->tied_head, "text_config", text, "synth", w->m->parameters);
    return write_json(w, CONFIG, config, err);
}

/* ---- the whole ---- */

static uint64_t tensor_bytes(const synth_tensor *t)
{
    uint64_t each = t->dtype == TT_DTYPE_I64 ? 8 : 2;
    return each * t->rows * (t->cols > 0 ? t->cols : 1);
}

static tt_status write_all(work *w, tt_error *err)
{
    TT_TRY(synth_dir_create(&w->dir, err));
    for (uint32_t s = 0; s <= w->m->arch.n_layers; s++)
        TT_TRY(write_shard(w, s, err));
    json_t *index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)w->total,
                              "weight_map", w->map);
    TT_TRY(write_json(w, INDEX, index, err));
    TT_TRY(write_config(w, err));
    synth_text text;
    if (w->m->o.tokenizer != NULL)
        TT_TRY(synth_write_text(&text, w->m->o.tokenizer, w->dir.partial, "", w->m->arch.vocab_size,
                                err));
    return synth_dir_publish(&w->dir, err);
}

tt_status synth_write_checkpoint(synth_model *m, const volatile int *stop, uint64_t *bytes,
                                 tt_error *err)
{
    work w = {.m = m, .stop = stop, .dir.lock = -1, .map = json_object(), .buf = malloc(BLOCK)};
    const tt_arch *a = &m->arch;
    for (size_t i = 0; i < m->n_tensors; i++)
        w.total += tensor_bytes(&m->tensors[i]);
    w.total += (uint64_t)a->n_layers * a->n_experts * 6 * a->hidden_size * a->moe_intermediate;
    w.total += m->ngrams.rows * m->ngrams.row_bytes;
    tt_status st = w.map == NULL || w.buf == NULL
                       ? tt_fail(err, TT_ERR_NOMEM, "out of memory for a checkpoint")
                       : synth_dir_init(&w.dir, m->o.output, CONFIG, m->o.overwrite, err);
    if (st == TT_OK)
        st = synth_dir_space(&w.dir, w.total + 64 * TT_MIB, err);
    synth_progress_init(&w.progress, "writing", w.total, m->o.quiet);
    if (st == TT_OK)
        st = write_all(&w, err);
    synth_progress_end(&w.progress);
    if (st == TT_OK)
        *bytes = w.total;
    synth_dir_drop(&w.dir);
    json_decref(w.map);
    free(w.buf);
    return st;
}
