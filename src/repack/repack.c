#include "repack/repack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install_layout.h"
#include "repack/assemble.h"
#include "repack/convert.h"
#include "repack/target.h"

#define AHEAD 4u /* experts that the disk is asked for before their turn */

/* One conversion. */
typedef struct work {
    const tt_repack_options *o;
    const tt_repack_events *ev;
    char model_id[TT_MAX_MODEL_ID + 1];
    tt_snapshot snap;
    tt_repack_plan plan;
    tt_target target;
    tt_converter *conv;
    tt_assembly a;
} work;

void tt_repack_time(char out[32])
{
    time_t now = time(NULL);
    struct tm tm;
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
}

/* ---- preparation ---- */

static tt_status choose_model_id(work *w, tt_error *err)
{
    const char *id = w->o->model_id;
    if (id == NULL)
        id = strrchr(w->snap.dir, '/') + 1;
    if (!tt_model_id_valid(id))
        return tt_fail(
            err, TT_ERR_INVALID,
            "\"%.100s\" cannot be a model id (1 to %u of A-Z a-z 0-9 . _ : / + @ -): give "
            "one with --model-id",
            id, TT_MAX_MODEL_ID);
    strcpy(w->model_id, id);
    return TT_OK;
}

static tt_status prepare(work *w, tt_error *err)
{
    TT_TRY(tt_target_init(&w->target, w->o->output, w->o->overwrite, err));
    TT_TRY(tt_snapshot_open(w->o->input, NULL, &w->snap, err));
    TT_TRY(choose_model_id(w, err));
    TT_TRY(tt_repack_plan_create(w->snap.st, w->snap.config, w->snap.config_path, &w->o->policy,
                                 w->ev, &w->plan, err));
    TT_TRY(tt_assembly_check_text(w->o, &w->snap, w->plan.arch.vocab_size, w->ev, err));
    TT_TRY(tt_assembly_init(&w->a, w->target.partial, &w->snap, &w->plan, err));
    w->a.total = tt_assembly_payload(&w->snap, &w->plan);
    TT_TRY(tt_target_space(&w->target, w->a.total + tt_assembly_slack(&w->plan), err));
    unsigned threads = w->o->threads != 0 ? w->o->threads : tt_physical_cores();
    return tt_converter_create(w->snap.st, threads, w->o->chunk_values, &w->conv, err);
}

/* ---- files ---- */

static tt_status write_weights(work *w, const char *rel, const tt_index *ix, const tt_piece *src,
                               char index_sha256[TT_SHA256_HEX], tt_error *err)
{
    tt_emit e;
    void *index = NULL;
    tt_status st;
    tt_note(w->ev, TT_NOTE_STAGE, "writing %s", rel);
    TT_TRY(tt_assembly_begin(&w->a, rel, &e, err));
    TT_GOTO(tt_index_encode(ix, &index, err), out);
    TT_GOTO(tt_sha256_of(index, ix->index_bytes, index_sha256, err), out);
    TT_GOTO(tt_emit_append(&e, index, ix->index_bytes, err), out);
    for (size_t i = 0; i < ix->count; i++)
        TT_GOTO(tt_convert_tensor(w->conv, &ix->entries[i], &src[i], &e, err), out);
    TT_GOTO(tt_emit_pad(&e, ix->file_bytes, err), out);
    st = tt_assembly_finish(&w->a, rel, &e, err);
out:
    free(index);
    tt_emit_drop(&e);
    return st;
}

/* The disk reads the next experts while the present one is converted. */
static void expect_expert(const work *w, size_t row, uint32_t expert, const tt_expert_layout *l)
{
    const tt_expert_mat *mats[TT_MATS] = {&l->gate, &l->up, &l->down};
    for (unsigned m = 0; m < TT_MATS && expert < l->n_experts; m++)
        tt_convert_expect(w->conv, tt_repack_plan_expert(&w->plan, row, expert, m), mats[m]->cols,
                          0, mats[m]->rows);
}

static tt_status write_layer(work *w, size_t row, unsigned char *expert, tt_error *err)
{
    const tt_arch *a = &w->plan.arch;
    bool mtp = row >= a->n_layers;
    const tt_expert_layout *l = mtp ? &w->plan.mtp_experts : &w->plan.experts;
    const tt_expert_mat *mats[TT_MATS] = {&l->gate, &l->up, &l->down};
    char rel[64];
    tt_emit e;
    tt_status st = TT_OK;
    tt_expert_file_name(rel, (uint32_t)(mtp ? row - a->n_layers : row), mtp);
    tt_note(w->ev, TT_NOTE_STAGE, "writing %s", rel);
    TT_TRY(tt_assembly_begin(&w->a, rel, &e, err));
    memset(expert, 0, l->stride);
    for (uint32_t i = 0; i < AHEAD; i++)
        expect_expert(w, row, i, l);
    for (uint32_t i = 0; i < l->n_experts; i++) {
        expect_expert(w, row, i + AHEAD, l);
        for (unsigned m = 0; m < TT_MATS; m++)
            TT_GOTO(tt_convert_mat(w->conv, mats[m], tt_repack_plan_expert(&w->plan, row, i, m),
                                   expert, err),
                    out);
        w->a.crc[row * a->n_experts + i] = tt_crc32c(0, expert, l->payload_bytes);
        TT_GOTO(tt_emit_append(&e, expert, l->stride, err), out);
    }
    st = tt_assembly_finish(&w->a, rel, &e, err);
out:
    tt_emit_drop(&e);
    return st;
}

static tt_status write_experts(work *w, tt_error *err)
{
    size_t rows = tt_repack_plan_expert_layers(&w->plan);
    char dir[TT_MAX_PATH];
    if (rows == 0)
        return TT_OK;
    TT_TRY(tt_path_join(dir, w->target.partial, TT_EXPERTS_DIR, err));
    TT_TRY(tt_dir_make(dir, err));
    uint64_t stride = w->plan.experts.stride;
    if (w->plan.mtp_experts.stride > stride)
        stride = w->plan.mtp_experts.stride;
    unsigned char *expert = aligned_alloc(TT_TENSOR_ALIGN, stride);
    if (expert == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for an expert of %llu bytes",
                       (unsigned long long)stride);
    tt_status st = TT_OK;
    for (size_t row = 0; row < rows && st == TT_OK; row++)
        st = write_layer(w, row, expert, err);
    free(expert);
    if (st == TT_OK)
        st = tt_assembly_crc_table(&w->a, err);
    return st == TT_OK ? tt_dir_sync(dir, err) : st;
}

static tt_status write_ngrams(work *w, tt_error *err)
{
    const tt_table_plan *n = &w->plan.ngrams;
    tt_emit e;
    tt_status st;
    if (n->n_shards == 0)
        return TT_OK;
    tt_note(w->ev, TT_NOTE_STAGE, "writing " TT_NGRAM_NAME);
    TT_TRY(tt_assembly_begin(&w->a, TT_NGRAM_NAME, &e, err));
    for (uint32_t i = 0; i < n->n_shards; i++)
        TT_GOTO(tt_convert_table(w->conv, &n->shard[i], n->layout.dtype, n->layout.cols, &e, err),
                out);
    TT_GOTO(tt_emit_pad(&e, n->layout.file_bytes, err), out);
    st = tt_assembly_finish(&w->a, TT_NGRAM_NAME, &e, err);
out:
    tt_emit_drop(&e);
    return st;
}

static tt_status write_all(work *w, tt_repack_report *r, tt_error *err)
{
    const tt_repack_plan *p = &w->plan;
    TT_TRY(tt_target_create(&w->target, w->ev, err));
    TT_TRY(write_weights(w, TT_WEIGHTS_NAME, &p->weights, p->weights_src,
                         w->a.content.weights_index_sha256, err));
    if (p->mtp.count > 0)
        TT_TRY(write_weights(w, TT_MTP_WEIGHTS_NAME, &p->mtp, p->mtp_src,
                             w->a.content.mtp_index_sha256, err));
    TT_TRY(write_experts(w, err));
    TT_TRY(write_ngrams(w, err));
    TT_TRY(tt_assembly_tokenizer(&w->a, err));
    TT_TRY(tt_assembly_manifest(&w->a, w->model_id, w->target.path, r, err));
    tt_note(w->ev, TT_NOTE_STAGE, "publishing %s", w->target.path);
    return tt_target_publish(&w->target, err);
}

tt_status tt_repack_run(const tt_repack_options *o, const tt_repack_events *ev,
                        tt_repack_report *report, tt_error *err)
{
    work *w = calloc(1, sizeof *w);
    tt_repack_report r = {0};
    if (w == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a conversion");
    w->o = o;
    w->ev = w->a.ev = ev;
    w->target.lock = -1;
    tt_status st = prepare(w, err);
    if (st == TT_OK)
        st = write_all(w, &r, err);
    if (st == TT_OK) {
        tt_assembly_report(&w->a, w->model_id, w->target.path, &r);
        if (report != NULL)
            *report = r;
    }
    tt_target_drop(&w->target);
    tt_converter_close(&w->conv);
    tt_repack_plan_free(&w->plan);
    tt_snapshot_close(&w->snap);
    tt_assembly_free(&w->a);
    free(w);
    return st;
}
