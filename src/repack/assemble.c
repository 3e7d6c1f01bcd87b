#include "repack/assemble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install_layout.h"

tt_status tt_assembly_init(tt_assembly *a, const char *dir, const tt_snapshot *snap,
                           const tt_repack_plan *plan, tt_error *err)
{
    size_t rows = tt_repack_plan_expert_layers(plan);
    a->dir = dir;
    a->snap = snap;
    a->plan = plan;
    if (rows > 0 && (a->crc = calloc(rows * plan->arch.n_experts, sizeof *a->crc)) == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for checksums");
    if (3 + rows + snap->n_tokenizer + 1 > TT_MAX_INSTALL_FILES)
        return tt_fail(err, TT_ERR_LIMIT, "the install would have more than %u files",
                       TT_MAX_INSTALL_FILES);
    return TT_OK;
}

void tt_assembly_free(tt_assembly *a)
{
    free(a->crc);
    a->crc = NULL;
}

uint64_t tt_assembly_payload(const tt_snapshot *snap, const tt_repack_plan *p)
{
    const tt_arch *a = &p->arch;
    uint64_t sum = p->weights.file_bytes + p->mtp.file_bytes + p->ngrams.layout.file_bytes;
    sum += p->experts.stride * p->experts.n_experts * a->n_layers;
    sum += p->mtp_experts.stride * p->mtp_experts.n_experts * a->n_mtp_layers;
    if (tt_arch_is_moe(a))
        sum += tt_crc_table_bytes(a->n_experts, a->n_layers, a->n_mtp_layers);
    for (size_t i = 0; i < snap->n_tokenizer; i++)
        sum += snap->tokenizer_bytes[i];
    return sum;
}

uint64_t tt_assembly_slack(const tt_repack_plan *plan)
{
    return 8 * TT_MIB + (tt_repack_plan_expert_layers(plan) + 16) * 16384;
}

tt_status tt_assembly_check_text(const tt_repack_options *o, tt_snapshot *snap, uint32_t vocab,
                                 const tt_repack_events *ev, tt_error *err)
{
    if (snap->has_tokenizer && o->check_text != NULL)
        TT_TRY(o->check_text(o->check_ctx, snap->dir, vocab, &snap->has_template, err));
    if (!snap->has_tokenizer)
        tt_note(ev, TT_NOTE_WARNING,
                "the checkpoint has no tokenizer.json: the install will compute logits from ids, "
                "and refuse text");
    else if (!snap->has_template)
        tt_note(ev, TT_NOTE_WARNING,
                "the checkpoint has no chat template: the install will complete text, and refuse "
                "chat");
    return TT_OK;
}

tt_status tt_assembly_begin(tt_assembly *a, const char *rel, tt_emit *e, tt_error *err)
{
    char path[TT_MAX_PATH];
    TT_TRY(tt_path_join(path, a->dir, rel, err));
    return tt_emit_create(e, path, a->ev, &a->done, a->total, err);
}

void tt_assembly_list(tt_assembly *a, const char *rel, const tt_emitted *is)
{
    size_t i = a->n_files++;
    a->emitted[i] = *is;
    snprintf(a->rels[i], sizeof a->rels[i], "%s", rel);
    a->files[i] = (tt_install_file){a->rels[i], is->size, a->emitted[i].sha256, is->mtime_ns};
}

tt_status tt_assembly_finish(tt_assembly *a, const char *rel, tt_emit *e, tt_error *err)
{
    tt_emitted is;
    TT_TRY(tt_emit_finish(e, &is, err));
    tt_assembly_list(a, rel, &is);
    return TT_OK;
}

tt_status tt_assembly_crc_table(tt_assembly *a, tt_error *err)
{
    const tt_arch *arch = &a->plan->arch;
    void *bytes = NULL;
    size_t len = 0;
    tt_emit e;
    TT_TRY(tt_assembly_begin(a, TT_CRC_NAME, &e, err));
    tt_status st = tt_crc_table_encode(a->crc, arch->n_experts, arch->n_layers, arch->n_mtp_layers,
                                       &bytes, &len, err);
    if (st == TT_OK)
        st = tt_emit_append(&e, bytes, len, err);
    if (st == TT_OK)
        st = tt_assembly_finish(a, TT_CRC_NAME, &e, err);
    free(bytes);
    tt_emit_drop(&e);
    return st;
}

static tt_status copy_file(tt_assembly *a, const char *name, tt_error *err)
{
    char from[TT_MAX_PATH], rel[64];
    tt_emit e;
    int fd = -1;
    uint64_t size = 0;
    const size_t step = TT_MIB;
    snprintf(rel, sizeof rel, TT_TOKENIZER_DIR "/%s", name);
    TT_TRY(tt_path_join(from, a->snap->dir, name, err));
    TT_TRY(tt_assembly_begin(a, rel, &e, err));
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
        st = tt_assembly_finish(a, rel, &e, err);
    if (fd >= 0)
        close(fd);
    free(buf);
    tt_emit_drop(&e);
    return st;
}

tt_status tt_assembly_tokenizer(tt_assembly *a, tt_error *err)
{
    char dir[TT_MAX_PATH];
    if (a->snap->n_tokenizer == 0)
        return TT_OK;
    tt_note(a->ev, TT_NOTE_STAGE, "writing " TT_TOKENIZER_DIR);
    TT_TRY(tt_path_join(dir, a->dir, TT_TOKENIZER_DIR, err));
    TT_TRY(tt_dir_make(dir, err));
    for (size_t i = 0; i < a->snap->n_tokenizer; i++)
        TT_TRY(copy_file(a, a->snap->tokenizer[i], err));
    return tt_dir_sync(dir, err);
}

static int by_rel(const void *a, const void *b)
{
    return strcmp(((const tt_install_file *)a)->rel, ((const tt_install_file *)b)->rel);
}

/* The receipt goes first: a partial directory with a manifest has a receipt for another path, and
 * is refused. */
tt_status tt_assembly_manifest(tt_assembly *a, const char *model_id, const char *final,
                               tt_repack_report *r, tt_error *err)
{
    char path[TT_MAX_PATH], now[32], *text = NULL, *receipt = NULL;
    size_t len = 0, receipt_len = 0;
    const tt_repack_plan *p = a->plan;
    tt_manifest_content *c = &a->content;
    c->writer = TT_REPACK_TOOL;
    c->model_id = model_id;
    c->arch = &p->arch;
    c->source = a->snap->source;
    c->weights = &p->weights;
    c->mtp = p->mtp.count > 0 ? &p->mtp : NULL;
    c->experts = p->experts.n_experts > 0 ? &p->experts : NULL;
    c->mtp_experts = p->mtp_experts.n_experts > 0 ? &p->mtp_experts : NULL;
    c->ngrams = p->ngrams.layout.rows > 0 ? &p->ngrams.layout : NULL;
    c->tokenizer = a->snap->n_tokenizer > 0;
    c->files = a->files;
    c->n_files = a->n_files;
    qsort(a->files, a->n_files, sizeof *a->files, by_rel);
    tt_note(a->ev, TT_NOTE_STAGE, "writing " TT_MANIFEST_NAME);
    TT_TRY(tt_manifest_encode(c, &text, &len, err));
    tt_repack_time(now);
    tt_status st = tt_sha256_of(text, len, r->manifest_sha256, err);
    if (st == TT_OK)
        st = tt_receipt_encode(r->manifest_sha256, final, a->files, a->n_files, TT_REPACK_TOOL, now,
                               &receipt, &receipt_len, err);
    if (st == TT_OK)
        st = tt_path_join(path, a->dir, TT_RECEIPT_NAME, err);
    if (st == TT_OK)
        st = tt_file_publish(path, receipt, receipt_len, err);
    if (st == TT_OK)
        st = tt_path_join(path, a->dir, TT_MANIFEST_NAME, err);
    if (st == TT_OK)
        st = tt_file_publish(path, text, len, err);
    free(text);
    free(receipt);
    r->bytes = len;
    for (size_t i = 0; i < a->n_files; i++)
        r->bytes += a->files[i].size;
    r->files = a->n_files + 1;
    return st;
}

void tt_assembly_report(const tt_assembly *a, const char *model_id, const char *path,
                        tt_repack_report *r)
{
    const tt_repack_plan *p = a->plan;
    snprintf(r->path, sizeof r->path, "%s", path);
    snprintf(r->model_id, sizeof r->model_id, "%s", model_id);
    r->tensors = p->weights.count + p->mtp.count;
    r->experts = tt_repack_plan_expert_layers(p) * p->arch.n_experts;
    r->vision_tensors = p->vision_tensors;
    r->kept_tensors = p->kept_tensors;
    r->has_tokenizer = a->snap->has_tokenizer;
    r->has_template = a->snap->has_template;
}
