#include "repack/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install_layout.h"
#include "format/install_writer.h"
#include "format/quant.h"
#include "repack/checkpoint.h"
#include "repack/target.h"

#define STEP (4 * TT_MIB)

typedef struct export_job {
    tt_install *in;
    tt_target target;
    const tt_repack_events *ev;
    tt_export_report *r;
    json_t *map;     /* tensor -> shard */
    json_t *modules; /* module -> bits, of all affine tensors */
    unsigned char *buf, *turned;
    char shard[64]; /* that is being written */
    tt_st_writer *w;
    int fd; /* that is being read */
    char from[TT_MAX_PATH];
    uint64_t total;
} export_job;

/* ---- names ---- */

static void full_name(const char *canonical, char out[TT_MAX_NAME + 64])
{
    const char *prefix = strncmp(canonical, "mtp.", 4) == 0       ? ""
                         : strncmp(canonical, "lm_head.", 8) == 0 ? "language_model."
                                                                  : "language_model.model.";
    snprintf(out, TT_MAX_NAME + 64, "%s%s", prefix, canonical);
}

static tt_st_dtype stored_as(tt_dtype t)
{
    switch (t) {
    case TT_DTYPE_F32:
        return TT_ST_F32;
    case TT_DTYPE_F16:
        return TT_ST_F16;
    case TT_DTYPE_BF16:
        return TT_ST_BF16;
    case TT_DTYPE_I64:
        return TT_ST_I64;
    default:
        return TT_ST_U32;
    }
}

/* ---- declaring ---- */

static tt_status declare_one(export_job *x, const char *name, tt_st_dtype dtype, uint32_t rank,
                             const uint64_t *shape, tt_error *err)
{
    TT_TRY(tt_st_writer_declare(x->w, name, dtype, rank, shape, err));
    x->r->tensors++;
    return json_object_set_new(x->map, name, json_string(x->shard)) == 0
               ? TT_OK
               : tt_fail(err, TT_ERR_NOMEM, "out of memory for an index");
}

/* A tensor, with scales and biases when it is affine. `name` ends in ".weight" then. */
static tt_status declare(export_job *x, const char *name, tt_dtype dtype, uint32_t rank,
                         const uint64_t *shape, tt_error *err)
{
    static const char *const tails[] = {".weight", ".scales", ".biases"};
    uint32_t bits = tt_dtype_bits(dtype);
    char module[TT_MAX_NAME + 64], full[TT_MAX_NAME + 96];
    if (bits == 0)
        return declare_one(x, name, stored_as(dtype), rank, shape, err);
    snprintf(module, sizeof module, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
    if (json_object_set_new(x->modules, module, json_integer(bits)) != 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a config");
    for (int i = 0; i < 3; i++) {
        uint64_t s[TT_MAX_SOURCE_RANK] = {0};
        memcpy(s, shape, rank * sizeof *s);
        s[rank - 1] = i == 0 ? s[rank - 1] * bits / 32 : s[rank - 1] / TT_GROUP;
        snprintf(full, sizeof full, "%s%s", module, tails[i]);
        TT_TRY(declare_one(x, full, i == 0 ? TT_ST_U32 : TT_ST_BF16, rank, s, err));
    }
    return TT_OK;
}

static tt_status declare_entry(export_job *x, const tt_index_entry *e, tt_error *err)
{
    char name[TT_MAX_NAME + 64];
    uint64_t shape[TT_MAX_SOURCE_RANK] = {0};
    size_t n = strlen(e->name), tail = strlen("conv1d.weight");
    full_name(e->name, name);
    memcpy(shape, e->shape, sizeof e->shape);
    if (n < tail || strcmp(e->name + n - tail, "conv1d.weight") != 0)
        return declare(x, name, e->dtype, e->rank, shape, err);
    /* The form says whether norm weights are shifted by one. */
    bool raw = tt_install_arch(x->in)->norm_offset;
    shape[2] = raw ? shape[1] : 1;
    shape[1] = raw ? 1 : shape[1];
    return declare(x, name, e->dtype, 3, shape, err);
}

/* ---- copying ---- */

static tt_status append(export_job *x, const void *bytes, size_t n, tt_error *err)
{
    TT_TRY(tt_st_writer_append(x->w, bytes, n, err));
    x->r->bytes += n;
    if (x->ev != NULL && x->ev->progress != NULL &&
        !x->ev->progress(x->ev->ctx, x->r->bytes < x->total ? x->r->bytes : x->total, x->total))
        return tt_fail(err, TT_ERR_ABORTED, "stopped");
    return TT_OK;
}

static tt_status copy(export_job *x, uint64_t at, uint64_t n, tt_error *err)
{
    while (n > 0) {
        size_t step = n < STEP ? (size_t)n : (size_t)STEP;
        TT_TRY(tt_file_pread(x->fd, x->from, x->buf, step, at, err));
        TT_TRY(append(x, x->buf, step, err));
        at += step;
        n -= step;
    }
    return TT_OK;
}

/* `rows` rows of one part of an affine matrix: panels become rows. */
static tt_status turn(export_job *x, uint64_t at, uint32_t unit, uint64_t rows, uint64_t per_row,
                      tt_error *err)
{
    uint64_t row_bytes = unit * per_row, most = STEP / row_bytes / TT_PANEL * TT_PANEL;
    if (most == 0)
        return tt_fail_at(err, TT_ERR_LIMIT, x->from, (int64_t)at,
                          "a row of %s has %llu bytes, an export takes at most %llu", x->from,
                          (unsigned long long)row_bytes, (unsigned long long)(STEP / TT_PANEL));
    for (uint64_t row = 0; row < rows; row += most) {
        uint64_t n = rows - row < most ? rows - row : most;
        TT_TRY(tt_file_pread(x->fd, x->from, x->buf, tt_quant_stored_rows(n) * row_bytes,
                             at + row * row_bytes, err));
        tt_quant_from_panels(unit, n, per_row, x->buf, x->turned);
        TT_TRY(append(x, x->turned, n * row_bytes, err));
    }
    return TT_OK;
}

static tt_status copy_entry(export_job *x, const tt_index_entry *e, tt_error *err)
{
    uint32_t bits = tt_dtype_bits(e->dtype);
    uint64_t cols = e->shape[e->rank - 1], rows = 1;
    if (bits == 0)
        return copy(x, e->offset, e->bytes, err);
    for (uint32_t d = 0; d + 1 < e->rank; d++)
        rows *= e->shape[d];
    TT_TRY(turn(x, e->offset, 4, rows, cols * bits / 32, err));
    TT_TRY(turn(x, e->scales_offset, 2, rows, cols / TT_GROUP, err));
    return turn(x, e->biases_offset, 2, rows, cols / TT_GROUP, err);
}

/* Part `part` of one matrix of every expert: a stack. */
static tt_status copy_stack(export_job *x, const tt_expert_layout *l, const tt_expert_mat *m,
                            int part, tt_error *err)
{
    const uint64_t at[3] = {m->words_offset, m->scales_offset, m->biases_offset};
    uint32_t bits = tt_dtype_bits(m->dtype);
    for (uint32_t e = 0; e < l->n_experts; e++) {
        uint64_t from = e * l->stride + at[part];
        if (bits != 0)
            TT_TRY(turn(x, from, part == 0 ? 4 : 2, m->rows,
                        part == 0 ? m->cols * bits / 32 : m->cols / TT_GROUP, err));
        else if (part == 0)
            TT_TRY(copy(x, from, m->words_bytes, err));
    }
    return TT_OK;
}

/* ---- shards ---- */

static tt_status begin_shard(export_job *x, uint32_t i, uint32_t of, const char *rel, tt_error *err)
{
    char path[TT_MAX_PATH];
    snprintf(x->shard, sizeof x->shard, "model-%05u-of-%05u.safetensors", i + 1, of);
    tt_note(x->ev, TT_NOTE_STAGE, "writing %s", x->shard);
    TT_TRY(tt_path_join(path, x->target.partial, x->shard, err));
    TT_TRY(tt_install_path(x->in, rel, x->from, err));
    TT_TRY(tt_file_open(x->from, &x->fd, NULL, err));
    TT_TRY(tt_st_writer_create(path, &x->w, err));
    return tt_st_writer_metadata(x->w, "format", "mlx", err);
}

static tt_status end_shard(export_job *x, tt_error *err)
{
    close(x->fd);
    x->fd = -1;
    return tt_st_writer_finish(&x->w, err);
}

static tt_status write_weights(export_job *x, uint32_t i, uint32_t of, const char *rel,
                               const tt_index *ix, tt_error *err)
{
    TT_TRY(begin_shard(x, i, of, rel, err));
    for (size_t k = 0; k < ix->count; k++)
        TT_TRY(declare_entry(x, &ix->entries[k], err));
    for (size_t k = 0; k < ix->count; k++)
        TT_TRY(copy_entry(x, &ix->entries[k], err));
    return end_shard(x, err);
}

static tt_status write_layer(export_job *x, uint32_t i, uint32_t of, uint32_t layer, bool mtp,
                             tt_error *err)
{
    static const char *const names[TT_MATS] = {"gate_proj", "up_proj", "down_proj"};
    const tt_expert_layout *l =
        mtp ? tt_install_mtp_expert_layout(x->in) : tt_install_expert_layout(x->in);
    const tt_expert_mat *mats[TT_MATS] = {&l->gate, &l->up, &l->down};
    char rel[64], canonical[128], name[TT_MAX_NAME + 64];
    tt_expert_file_name(rel, layer, mtp);
    TT_TRY(begin_shard(x, i, of, rel, err));
    for (unsigned m = 0; m < TT_MATS; m++) {
        uint64_t shape[TT_MAX_SOURCE_RANK] = {l->n_experts, mats[m]->rows, mats[m]->cols};
        snprintf(canonical, sizeof canonical, "%slayers.%u.mlp.switch_mlp.%s.weight",
                 mtp ? "mtp." : "", layer, names[m]);
        full_name(canonical, name);
        TT_TRY(declare(x, name, mats[m]->dtype, 3, shape, err));
    }
    for (unsigned m = 0; m < TT_MATS; m++) {
        for (int part = 0; part < 3; part++)
            TT_TRY(copy_stack(x, l, mats[m], part, err));
    }
    return end_shard(x, err);
}

static tt_status write_ngrams(export_job *x, uint32_t i, uint32_t of, const tt_ngram_layout *l,
                              tt_error *err)
{
    uint64_t shape[TT_MAX_SOURCE_RANK] = {l->rows, l->cols};
    char canonical[96], name[TT_MAX_NAME + 64];
    TT_TRY(begin_shard(x, i, of, TT_NGRAM_NAME, err));
    snprintf(canonical, sizeof canonical, "layers.%u.ple.ple_embedding.ngram_embedding.weight",
             tt_install_arch(x->in)->ngram_layer);
    full_name(canonical, name);
    TT_TRY(declare(x, name, l->dtype, 2, shape, err));
    TT_TRY(copy(x, 0, l->rows * l->row_bytes, err));
    return end_shard(x, err);
}

static tt_status write_shards(export_job *x, tt_error *err)
{
    const tt_arch *a = tt_install_arch(x->in);
    const tt_index *mtp = tt_install_mtp_index(x->in);
    uint32_t layers = tt_arch_is_moe(a) ? a->n_layers : 0,
             drafts = tt_arch_is_moe(a) && mtp != NULL ? a->n_mtp_layers : 0;
    const tt_ngram_layout *ngrams = tt_install_ngram_layout(x->in);
    uint32_t of = 1 + (mtp != NULL) + layers + drafts + (ngrams != NULL), i = 0;
    TT_TRY(write_weights(x, i++, of, TT_WEIGHTS_NAME, tt_install_index(x->in), err));
    if (mtp != NULL)
        TT_TRY(write_weights(x, i++, of, TT_MTP_WEIGHTS_NAME, mtp, err));
    for (uint32_t k = 0; k < layers; k++)
        TT_TRY(write_layer(x, i++, of, k, false, err));
    for (uint32_t k = 0; k < drafts; k++)
        TT_TRY(write_layer(x, i++, of, k, true, err));
    if (ngrams != NULL)
        TT_TRY(write_ngrams(x, i++, of, ngrams, err));
    x->r->shards = of;
    return TT_OK;
}

/* ---- the small files ---- */

static tt_status publish_json(const export_job *x, const char *name, const json_t *tree,
                              tt_error *err)
{
    char path[TT_MAX_PATH], *text = NULL;
    size_t len = 0;
    TT_TRY(tt_path_join(path, x->target.partial, name, err));
    TT_TRY(tt_install_json(tree, &text, &len, err));
    tt_status st = tt_file_publish(path, text, len, err);
    free(text);
    return st;
}

static tt_status write_index(const export_job *x, tt_error *err)
{
    json_t *tree = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)x->r->bytes,
                             "weight_map", x->map);
    tt_status st = tree == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for an index")
                                : publish_json(x, "model.safetensors.index.json", tree, err);
    json_decref(tree);
    return st;
}

static json_t *affine(json_int_t bits)
{
    return json_pack("{s:I, s:i, s:s}", "bits", bits, "group_size", (int)TT_GROUP, "mode",
                     "affine");
}

/* The most frequent width is the default; modules of the other one say so. */
static json_t *quantization(const export_job *x)
{
    const char *name;
    json_t *bits;
    size_t fours = 0, eights = 0;
    json_object_foreach(x->modules, name, bits)
    {
        fours += json_integer_value(bits) == 4;
        eights += json_integer_value(bits) == 8;
    }
    json_int_t usual = fours >= eights ? 4 : 8;
    json_t *all = affine(usual);
    json_object_foreach(x->modules, name, bits)
    {
        if (json_integer_value(bits) != usual)
            json_object_set_new(all, name, affine(json_integer_value(bits)));
    }
    return all;
}

static tt_status write_config(const export_job *x, tt_error *err)
{
    char path[TT_MAX_PATH];
    json_t *config = NULL;
    TT_TRY(tt_install_path(x->in, TT_TOKENIZER_DIR "/config.json", path, err));
    if (!tt_file_exists(path))
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, path, -1,
                          "the install has no %s, which its checkpoint would need", path);
    TT_TRY(tt_json_load(path, TT_MAX_CONFIG_JSON, &config, err));
    json_object_del(config, "quantization");
    json_object_del(config, "quantization_config");
    if (json_object_size(x->modules) > 0)
        json_object_set_new(config, "quantization", quantization(x));
    tt_status st = publish_json(x, "config.json", config, err);
    json_decref(config);
    return st;
}

static tt_status copy_small(const export_job *x, const char *name, tt_error *err)
{
    char from[TT_MAX_PATH], to[TT_MAX_PATH], rel[300], *bytes = NULL;
    size_t n = 0;
    snprintf(rel, sizeof rel, TT_TOKENIZER_DIR "/%s", name);
    TT_TRY(tt_install_path(x->in, rel, from, err));
    if (!tt_file_exists(from) || strcmp(name, "config.json") == 0)
        return TT_OK;
    TT_TRY(tt_path_join(to, x->target.partial, name, err));
    TT_TRY(tt_file_read(from, TT_MAX_TOKENIZER_JSON, &bytes, &n, err));
    tt_status st = tt_file_publish(to, bytes, n, err);
    free(bytes);
    return st;
}

static tt_status run(export_job *x, const char *install, const char *output, tt_error *err)
{
    TT_TRY(tt_target_init(&x->target, output, false, err));
    TT_TRY(tt_install_open(install, 0, NULL, NULL, &x->in, err));
    for (size_t i = 0; i < tt_install_file_count(x->in); i++)
        x->total += tt_install_file_at(x->in, i)->size;
    TT_TRY(tt_target_space(&x->target, x->total + 16 * TT_MIB, err));
    TT_TRY(tt_target_create(&x->target, x->ev, err));
    TT_TRY(write_shards(x, err));
    TT_TRY(write_index(x, err));
    TT_TRY(write_config(x, err));
    for (size_t i = 0; i < TT_SNAPSHOT_TOKENIZER_FILES; i++)
        TT_TRY(copy_small(x, tt_snapshot_tokenizer_names[i], err));
    snprintf(x->r->path, sizeof x->r->path, "%s", x->target.path);
    return tt_target_publish(&x->target, err);
}

tt_status tt_export_run(const char *install, const char *output, const tt_repack_events *ev,
                        tt_export_report *report, tt_error *err)
{
    tt_export_report r = {0};
    export_job x = {.ev = ev, .r = &r, .fd = -1, .target.lock = -1};
    x.map = json_object();
    x.modules = json_object();
    x.buf = malloc(STEP);
    x.turned = malloc(STEP);
    tt_status st = x.map == NULL || x.modules == NULL || x.buf == NULL || x.turned == NULL
                       ? tt_fail(err, TT_ERR_NOMEM, "out of memory for an export")
                       : run(&x, install, output, err);
    tt_st_writer_discard(&x.w);
    if (x.fd >= 0)
        close(x.fd);
    tt_target_drop(&x.target);
    tt_install_close(&x.in);
    json_decref(x.map);
    json_decref(x.modules);
    free(x.buf);
    free(x.turned);
    if (st == TT_OK && report != NULL)
        *report = r;
    return st;
}
