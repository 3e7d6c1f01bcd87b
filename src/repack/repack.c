#include "repack/repack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install_layout.h"
#include "format/install_writer.h"
#include "repack/checkpoint.h"
#include "repack/convert.h"
#include "repack/target.h"

/* One conversion. */
typedef struct work {
    const tt_repack_options *o;
    const tt_repack_events *ev;
    char model_id[TT_MAX_MODEL_ID + 1];
    tt_snapshot snap;
    tt_repack_plan plan;
    tt_target target;
    tt_converter *conv;
    uint32_t *crc;
    uint64_t done, total;
    /* The files so far; digests and names are stored beside them. */
    tt_install_file files[TT_MAX_INSTALL_FILES];
    tt_emitted emitted[TT_MAX_INSTALL_FILES];
    char rels[TT_MAX_INSTALL_FILES][64];
    size_t n_files;
    tt_manifest_content content;
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

static uint64_t payload_bytes(const work *w)
{
    const tt_repack_plan *p = &w->plan;
    const tt_arch *a = &p->arch;
    uint64_t sum = p->weights.file_bytes + p->mtp.file_bytes;
    sum += p->experts.stride * p->experts.n_experts * a->n_layers;
    sum += p->mtp_experts.stride * p->mtp_experts.n_experts * a->n_mtp_layers;
    if (tt_arch_is_moe(a))
        sum += tt_crc_table_bytes(a->n_experts, a->n_layers, a->n_mtp_layers);
    for (size_t i = 0; i < w->snap.n_tokenizer; i++)
        sum += w->snap.tokenizer_bytes[i];
    return sum;
}

static tt_status prepare(work *w, tt_error *err)
{
    const tt_arch *a = &w->plan.arch;
    TT_TRY(tt_target_init(&w->target, w->o->output, w->o->overwrite, err));
    TT_TRY(tt_snapshot_open(w->o->input, &w->snap, err));
    TT_TRY(choose_model_id(w, err));
    TT_TRY(tt_repack_plan_create(w->snap.st, w->snap.config, w->snap.config_path, &w->o->policy,
                                 w->ev, &w->plan, err));
    if (w->snap.has_tokenizer && w->o->check_text != NULL)
        TT_TRY(w->o->check_text(w->o->check_ctx, w->snap.dir, a->vocab_size, &w->snap.has_template,
                                err));
    if (!w->snap.has_tokenizer)
        tt_note(w->ev, TT_NOTE_WARNING,
                "the checkpoint has no tokenizer.json: the install will compute logits from ids, "
                "and refuse text");
    else if (!w->snap.has_template)
        tt_note(w->ev, TT_NOTE_WARNING,
                "the checkpoint has no chat template: the install will complete text, and refuse "
                "chat");
    size_t rows = tt_repack_plan_expert_layers(&w->plan);
    if (rows > 0 && (w->crc = calloc(rows * a->n_experts, sizeof *w->crc)) == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for checksums");
    if (2 + rows + w->snap.n_tokenizer + 1 > TT_MAX_INSTALL_FILES)
        return tt_fail(err, TT_ERR_LIMIT, "the install would have more than %u files",
                       TT_MAX_INSTALL_FILES);
    w->total = payload_bytes(w);
    /* Manifest, receipt, directories and the blocks that files round up to. */
    uint64_t slack = 8 * TT_MIB + (rows + 16) * 16384;
    TT_TRY(tt_target_space(&w->target, w->total + slack, err));
    unsigned threads = w->o->threads != 0 ? w->o->threads : tt_physical_cores();
    return tt_converter_create(w->snap.st, threads, w->o->chunk_values, &w->conv, err);
}

/* ---- files ---- */

static tt_status begin(work *w, const char *rel, tt_emit *e, tt_error *err)
{
    char path[TT_MAX_PATH];
    TT_TRY(tt_path_join(path, w->target.partial, rel, err));
    return tt_emit_create(e, path, w->ev, &w->done, w->total, err);
}

static tt_status finish(work *w, const char *rel, tt_emit *e, tt_error *err)
{
    size_t i = w->n_files;
    TT_TRY(tt_emit_finish(e, &w->emitted[i], err));
    snprintf(w->rels[i], sizeof w->rels[i], "%s", rel);
    w->files[i] = (tt_install_file){w->rels[i], w->emitted[i].size, w->emitted[i].sha256,
                                    w->emitted[i].mtime_ns};
    w->n_files++;
    return TT_OK;
}

static tt_status write_weights(work *w, const char *rel, const tt_index *ix, const tt_piece *src,
                               char index_sha256[TT_SHA256_HEX], tt_error *err)
{
    tt_emit e;
    void *index = NULL;
    tt_status st;
    tt_note(w->ev, TT_NOTE_STAGE, "writing %s", rel);
    TT_TRY(begin(w, rel, &e, err));
    TT_GOTO(tt_index_encode(ix, &index, err), out);
    TT_GOTO(tt_sha256_of(index, ix->index_bytes, index_sha256, err), out);
    TT_GOTO(tt_emit_append(&e, index, ix->index_bytes, err), out);
    for (size_t i = 0; i < ix->count; i++)
        TT_GOTO(tt_convert_tensor(w->conv, &ix->entries[i], &src[i], &e, err), out);
    TT_GOTO(tt_emit_pad(&e, ix->file_bytes, err), out);
    st = finish(w, rel, &e, err);
out:
    free(index);
    tt_emit_drop(&e);
    return st;
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
    TT_TRY(begin(w, rel, &e, err));
    memset(expert, 0, l->stride);
    for (uint32_t i = 0; i < l->n_experts; i++) {
        for (unsigned m = 0; m < TT_MATS; m++)
            TT_GOTO(tt_convert_mat(w->conv, mats[m], tt_repack_plan_expert(&w->plan, row, i, m),
                                   expert, err),
                    out);
        w->crc[row * a->n_experts + i] = tt_crc32c(0, expert, l->payload_bytes);
        TT_GOTO(tt_emit_append(&e, expert, l->stride, err), out);
    }
    st = finish(w, rel, &e, err);
out:
    tt_emit_drop(&e);
    return st;
}

static tt_status write_crc_table(work *w, tt_error *err)
{
    const tt_arch *a = &w->plan.arch;
    void *bytes = NULL;
    size_t len = 0;
    tt_emit e;
    TT_TRY(begin(w, TT_CRC_NAME, &e, err));
    tt_status st =
        tt_crc_table_encode(w->crc, a->n_experts, a->n_layers, a->n_mtp_layers, &bytes, &len, err);
    if (st == TT_OK)
        st = tt_emit_append(&e, bytes, len, err);
    if (st == TT_OK)
        st = finish(w, TT_CRC_NAME, &e, err);
    free(bytes);
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
        st = write_crc_table(w, err);
    return st == TT_OK ? tt_dir_sync(dir, err) : st;
}

static tt_status copy_file(work *w, const char *name, tt_error *err)
{
    char from[TT_MAX_PATH], rel[64];
    tt_emit e;
    int fd = -1;
    uint64_t size = 0;
    const size_t step = TT_MIB;
    snprintf(rel, sizeof rel, TT_TOKENIZER_DIR "/%s", name);
    TT_TRY(tt_path_join(from, w->snap.dir, name, err));
    TT_TRY(begin(w, rel, &e, err));
    char *buf = malloc(step);
    tt_status st = buf == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory to copy %s", name)
                               : tt_file_open(from, &fd, &size, err);
    for (uint64_t done = 0; st == TT_OK && done < size;) {
        size_t n = size - done < step ? (size_t)(size - done) : step;
        st = tt_file_pread(fd, from, buf, n, done, err);
        if (st == TT_OK)
            st = tt_emit_append(&e, buf, n, err);
        done += n;
    }
    if (st == TT_OK)
        st = finish(w, rel, &e, err);
    if (fd >= 0)
        close(fd);
    free(buf);
    tt_emit_drop(&e);
    return st;
}

static tt_status write_tokenizer(work *w, tt_error *err)
{
    char dir[TT_MAX_PATH];
    if (w->snap.n_tokenizer == 0)
        return TT_OK;
    tt_note(w->ev, TT_NOTE_STAGE, "writing " TT_TOKENIZER_DIR);
    TT_TRY(tt_path_join(dir, w->target.partial, TT_TOKENIZER_DIR, err));
    TT_TRY(tt_dir_make(dir, err));
    for (size_t i = 0; i < w->snap.n_tokenizer; i++)
        TT_TRY(copy_file(w, w->snap.tokenizer[i], err));
    return tt_dir_sync(dir, err);
}

static int by_rel(const void *a, const void *b)
{
    return strcmp(((const tt_install_file *)a)->rel, ((const tt_install_file *)b)->rel);
}

/* The receipt goes first: a partial directory with a manifest has a receipt for another path, and
 * is refused. */
static tt_status write_manifest(work *w, tt_repack_report *r, tt_error *err)
{
    char path[TT_MAX_PATH], now[32], *text = NULL, *receipt = NULL;
    size_t len = 0, receipt_len = 0;
    const tt_repack_plan *p = &w->plan;
    tt_manifest_content *c = &w->content;
    c->writer = TT_REPACK_TOOL;
    c->model_id = w->model_id;
    c->arch = &p->arch;
    c->source = w->snap.source;
    c->weights = &p->weights;
    c->mtp = p->mtp.count > 0 ? &p->mtp : NULL;
    c->experts = p->experts.n_experts > 0 ? &p->experts : NULL;
    c->mtp_experts = p->mtp_experts.n_experts > 0 ? &p->mtp_experts : NULL;
    c->tokenizer = w->snap.n_tokenizer > 0;
    c->files = w->files;
    c->n_files = w->n_files;
    qsort(w->files, w->n_files, sizeof *w->files, by_rel);
    tt_note(w->ev, TT_NOTE_STAGE, "writing " TT_MANIFEST_NAME);
    TT_TRY(tt_manifest_encode(c, &text, &len, err));
    tt_repack_time(now);
    tt_status st = tt_sha256_of(text, len, r->manifest_sha256, err);
    if (st == TT_OK)
        st = tt_receipt_encode(r->manifest_sha256, w->target.path, w->files, w->n_files,
                               TT_REPACK_TOOL, now, &receipt, &receipt_len, err);
    if (st == TT_OK)
        st = tt_path_join(path, w->target.partial, TT_RECEIPT_NAME, err);
    if (st == TT_OK)
        st = tt_file_publish(path, receipt, receipt_len, err);
    if (st == TT_OK)
        st = tt_path_join(path, w->target.partial, TT_MANIFEST_NAME, err);
    if (st == TT_OK)
        st = tt_file_publish(path, text, len, err);
    free(text);
    free(receipt);
    r->bytes = len;
    for (size_t i = 0; i < w->n_files; i++)
        r->bytes += w->files[i].size;
    r->files = w->n_files + 1;
    return st;
}

static tt_status write_all(work *w, tt_repack_report *r, tt_error *err)
{
    const tt_repack_plan *p = &w->plan;
    TT_TRY(tt_target_create(&w->target, w->ev, err));
    TT_TRY(write_weights(w, TT_WEIGHTS_NAME, &p->weights, p->weights_src,
                         w->content.weights_index_sha256, err));
    if (p->mtp.count > 0)
        TT_TRY(write_weights(w, TT_MTP_WEIGHTS_NAME, &p->mtp, p->mtp_src,
                             w->content.mtp_index_sha256, err));
    TT_TRY(write_experts(w, err));
    TT_TRY(write_tokenizer(w, err));
    TT_TRY(write_manifest(w, r, err));
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
    w->ev = ev;
    w->target.lock = -1;
    tt_status st = prepare(w, err);
    if (st == TT_OK)
        st = write_all(w, &r, err);
    if (st == TT_OK) {
        strcpy(r.path, w->target.path);
        strcpy(r.model_id, w->model_id);
        r.tensors = w->plan.weights.count + w->plan.mtp.count;
        r.experts = tt_repack_plan_expert_layers(&w->plan) * w->plan.arch.n_experts;
        r.vision_tensors = w->plan.vision_tensors;
        r.kept_tensors = w->plan.kept_tensors;
        r.has_tokenizer = w->snap.has_tokenizer;
        r.has_template = w->snap.has_template;
        if (report != NULL)
            *report = r;
    }
    tt_target_drop(&w->target);
    tt_converter_close(&w->conv);
    tt_repack_plan_free(&w->plan);
    tt_snapshot_close(&w->snap);
    free(w->crc);
    free(w);
    return st;
}
