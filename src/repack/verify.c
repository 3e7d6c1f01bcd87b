#include "repack/verify.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "format/install_layout.h"
#include "format/install_writer.h"
#include "format/quant.h"
#include "repack/inventory.h"
#include "repack/repack.h"
#include "repack/scan.h"

typedef struct check {
    const tt_install *in;
    const tt_repack_events *ev;
    uint64_t total;
    atomic_uint_fast64_t experts;
    tt_install_file *files; /* as they are, for the receipt */
    tt_verify_report *report;
} check;

/* ---- descriptive checks ---- */

static tt_status check_tensors(const tt_install *in, tt_error *err)
{
    tt_inventory inv = {0};
    TT_TRY(tt_inventory_create(tt_install_arch(in), &inv, err));
    tt_status st =
        tt_inventory_check_index(&inv, tt_install_index(in), false, TT_WEIGHTS_NAME, err);
    if (st == TT_OK && tt_install_mtp_index(in) != NULL)
        st = tt_inventory_check_index(&inv, tt_install_mtp_index(in), true, TT_MTP_WEIGHTS_NAME,
                                      err);
    tt_inventory_free(&inv);
    return st;
}

static bool listed(const check *c, const char *rel)
{
    if (strcmp(rel, TT_MANIFEST_NAME) == 0 || strcmp(rel, TT_RECEIPT_NAME) == 0)
        return true;
    for (size_t i = 0; i < tt_install_file_count(c->in); i++) {
        const char *is = tt_install_file_at(c->in, i)->rel;
        size_t n = strlen(rel);
        if (strcmp(is, rel) == 0 || (strncmp(is, rel, n) == 0 && is[n] == '/'))
            return true;
    }
    return false;
}

/* Tells of files that nobody knows, in the install and its directories. */
static void tell_unlisted(check *c, const char *sub)
{
    char path[TT_MAX_PATH], rel[2 * TT_MAX_INSTALL_REL];
    if (tt_path_join(path, tt_install_dir(c->in), sub, NULL) != TT_OK)
        return;
    DIR *dir = opendir(path);
    struct dirent *d;
    while (dir != NULL && (d = readdir(dir)) != NULL) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        snprintf(rel, sizeof rel, "%s%s%s", sub, sub[0] != '\0' ? "/" : "", d->d_name);
        if (listed(c, rel) || strcmp(rel, TT_HEAT_NAME) == 0)
            continue;
        tt_note(c->ev, TT_NOTE_WARNING,
                "%s does not belong to the install and is not checked: remove it", rel);
        c->report->unlisted++;
    }
    if (dir != NULL)
        closedir(dir);
}

/* ---- reading everything ---- */

static bool all_zero(const unsigned char *p, uint64_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* The gaps between the parts of an expert and behind its payload. */
static bool gaps_are_zero(const tt_expert_layout *l, const unsigned char *p)
{
    const tt_expert_mat *mats[3] = {&l->gate, &l->up, &l->down};
    uint64_t end = 0;
    for (int m = 0; m < 3; m++) {
        const uint64_t parts[3][2] = {{mats[m]->words_offset, mats[m]->words_bytes},
                                      {mats[m]->scales_offset, mats[m]->scales_bytes},
                                      {mats[m]->biases_offset, mats[m]->biases_bytes}};
        for (int i = 0; i < 3; i++) {
            if (parts[i][1] == 0)
                continue;
            if (!all_zero(p + end, parts[i][0] - end))
                return false;
            end = parts[i][0] + parts[i][1];
        }
    }
    return all_zero(p + end, l->stride - end);
}

/* One part of an affine matrix of `rows` x `cols`: 0 words, 1 scales, 2 biases. */
typedef struct matrix_part {
    uint32_t unit; /* bytes */
    uint64_t per_row;
    uint64_t last; /* where its last panel begins */
} matrix_part;

static matrix_part part_of(tt_dtype dtype, uint64_t rows, uint64_t cols, int part)
{
    matrix_part p = {part == 0 ? 4 : 2,
                     part == 0 ? cols * tt_dtype_bits(dtype) / 32 : cols / TT_GROUP, 0};
    p.last = rows / TT_PANEL * TT_PANEL * p.per_row * p.unit;
    return p;
}

/* Rows of zeros fill up the last panel of every affine matrix of an expert. */
static bool filling_is_zero(const tt_expert_layout *l, const unsigned char *expert)
{
    const tt_expert_mat *mats[3] = {&l->gate, &l->up, &l->down};
    for (int m = 0; m < 3; m++) {
        const uint64_t at[3] = {mats[m]->words_offset, mats[m]->scales_offset,
                                mats[m]->biases_offset};
        for (int i = 0; i < 3 && tt_dtype_bits(mats[m]->dtype) != 0; i++) {
            matrix_part p = part_of(mats[m]->dtype, mats[m]->rows, mats[m]->cols, i);
            if (!tt_quant_filling_is_zero(p.unit, mats[m]->rows, p.per_row,
                                          expert + at[i] + p.last))
                return false;
        }
    }
    return true;
}

/* Layer number and kind of an expert file, false for any other file. */
static bool expert_file(const check *c, const char *rel, uint32_t *layer, bool *mtp)
{
    const tt_arch *a = tt_install_arch(c->in);
    char name[64];
    for (uint32_t i = 0; tt_arch_is_moe(a) && i < a->n_layers + a->n_mtp_layers; i++) {
        *mtp = i >= a->n_layers;
        *layer = *mtp ? i - a->n_layers : i;
        tt_expert_file_name(name, *layer, *mtp);
        if (strcmp(name, rel) == 0)
            return true;
    }
    return false;
}

/* Where the blocks of an expert file come from. */
typedef struct expert_blocks {
    check *c;
    const char *rel;
    const tt_expert_layout *l;
    uint32_t layer;
    bool mtp;
} expert_blocks;

/* One expert; a tt_scan_file.look. */
static tt_status check_expert(void *ctx, size_t file, uint64_t at, const unsigned char *block,
                              size_t n, tt_error *err)
{
    const expert_blocks *x = ctx;
    uint32_t e = (uint32_t)(at / x->l->stride);
    uint32_t want = tt_install_expert_crc(x->c->in, x->layer, e, x->mtp);
    if (n != x->l->stride)
        return tt_fail_at(err, TT_ERR_CORRUPT, x->rel, (int64_t)at, "expert %u of %s is cut off", e,
                          x->rel);
    uint32_t is = tt_crc32c(0, block, x->l->payload_bytes);
    if (is != want)
        return tt_fail_at(
            err, TT_ERR_CORRUPT, x->rel, (int64_t)at,
            "expert %u of %s has the CRC-32C %08x, the table says %08x: install again", e, x->rel,
            is, want);
    if (!gaps_are_zero(x->l, block) || !filling_is_zero(x->l, block))
        return tt_fail_at(err, TT_ERR_CORRUPT, x->rel, (int64_t)at,
                          "expert %u of %s has padding that is not zero", e, x->rel);
    atomic_fetch_add(&x->c->experts, 1);
    return TT_OK;
}

/* The last panel of a tensor, which rows of zeros may fill up. */
static tt_status check_filling(const tt_index_entry *e, const char *rel, const char *path, int fd,
                               tt_error *err)
{
    const uint64_t at[3] = {e->offset, e->scales_offset, e->biases_offset};
    const uint64_t cols = e->shape[e->rank - 1];
    uint64_t rows = 1;
    for (uint32_t d = 0; d + 1 < e->rank; d++)
        rows *= e->shape[d];
    if (tt_dtype_bits(e->dtype) == 0 || rows % TT_PANEL == 0)
        return TT_OK;
    tt_status st = TT_OK;
    for (int i = 0; i < 3 && st == TT_OK; i++) {
        matrix_part p = part_of(e->dtype, rows, cols, i);
        size_t n = TT_PANEL * p.per_row * p.unit;
        unsigned char *panel = malloc(n);
        st = panel == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for a panel of %s", e->name)
                           : tt_file_pread(fd, path, panel, n, at[i] + p.last, err);
        if (st == TT_OK && !tt_quant_filling_is_zero(p.unit, rows, p.per_row, panel))
            st = tt_fail_at(err, TT_ERR_CORRUPT, rel, (int64_t)(at[i] + p.last),
                            "%s: rows that fill up the last panel of \"%.200s\" are not zero: "
                            "install again",
                            rel, e->name);
        free(panel);
    }
    return st;
}

/* Padding between the tensors of a weights file; the index region was checked when it was opened.
 */
static tt_status check_padding(check *c, const char *rel, const char *path, const tt_index *ix,
                               tt_error *err)
{
    unsigned char pad[TT_PAGE_ALIGN];
    int fd = -1;
    uint64_t end = ix->index_bytes;
    TT_TRY(tt_file_open(path, &fd, NULL, err));
    tt_status st = TT_OK;
    for (size_t i = 0; i <= ix->count && st == TT_OK; i++) {
        const tt_index_entry *e = i < ix->count ? &ix->entries[i] : NULL;
        const uint64_t last[3][2] = {{ix->file_bytes, 0}, {0, 0}, {0, 0}};
        const uint64_t own[3][2] = {
            {e != NULL ? e->offset : 0, e != NULL ? e->bytes : 0},
            {e != NULL ? e->scales_offset : 0, e != NULL ? e->scales_bytes : 0},
            {e != NULL ? e->biases_offset : 0, e != NULL ? e->biases_bytes : 0}};
        for (int k = 0; k < 3 && st == TT_OK; k++) {
            const uint64_t *part = e != NULL ? own[k] : last[k];
            if (part[0] == 0)
                continue;
            st = tt_file_pread(fd, path, pad, part[0] - end, end, err);
            if (st == TT_OK && !all_zero(pad, part[0] - end))
                st = tt_fail_at(err, TT_ERR_CORRUPT, rel, (int64_t)end,
                                "%s has padding that is not zero", rel);
            end = part[0] + part[1];
        }
        if (st == TT_OK && e != NULL)
            st = check_filling(e, rel, path, fd, err);
    }
    close(fd);
    return st;
}

/* What stands behind the last row of the n-gram table. */
static tt_status check_ngrams(check *c, tt_error *err)
{
    const tt_ngram_layout *l = tt_install_ngram_layout(c->in);
    unsigned char pad[TT_PAGE_ALIGN];
    char path[TT_MAX_PATH];
    int fd = -1;
    if (l == NULL)
        return TT_OK;
    uint64_t end = l->rows * l->row_bytes, n = l->file_bytes - end;
    TT_TRY(tt_install_path(c->in, TT_NGRAM_NAME, path, err));
    TT_TRY(tt_file_open(path, &fd, NULL, err));
    tt_status st = tt_file_pread(fd, path, pad, n, end, err);
    close(fd);
    if (st == TT_OK && !all_zero(pad, n))
        st = tt_fail_at(err, TT_ERR_CORRUPT, TT_NGRAM_NAME, (int64_t)end,
                        TT_NGRAM_NAME " has padding that is not zero");
    return st;
}

/* What is read of file i, and how. */
static tt_status prepare_file(check *c, size_t i, tt_scan_file *f, expert_blocks *x, tt_error *err)
{
    const tt_install_file *is = tt_install_file_at(c->in, i);
    uint32_t layer = 0;
    bool mtp = false;
    TT_TRY(tt_install_path(c->in, is->rel, f->path, err));
    if (!expert_file(c, is->rel, &layer, &mtp))
        return TT_OK;
    const tt_expert_layout *l =
        mtp ? tt_install_mtp_expert_layout(c->in) : tt_install_expert_layout(c->in);
    *x = (expert_blocks){c, is->rel, l, layer, mtp};
    f->step = (size_t)l->stride;
    f->look = check_expert;
    f->ctx = x;
    return TT_OK;
}

static tt_status compare_file(check *c, size_t i, const tt_emitted *is, tt_error *err)
{
    const tt_install_file *f = tt_install_file_at(c->in, i);
    if (is->size != f->size)
        return tt_fail_at(err, TT_ERR_STATE, f->rel, -1, "%s changed while it was verified",
                          f->rel);
    if (strcmp(is->sha256, f->sha256) != 0)
        return tt_fail_at(err, TT_ERR_CORRUPT, f->rel, -1,
                          "%s does not have the SHA-256 that the manifest lists: install again",
                          f->rel);
    c->files[i] = *f;
    c->files[i].mtime_ns = is->mtime_ns;
    return TT_OK;
}

/* Every byte, several files at a time. */
static tt_status check_files(check *c, unsigned threads, tt_error *err)
{
    size_t n = tt_install_file_count(c->in);
    tt_scan_file *files = calloc(n, sizeof *files);
    expert_blocks *blocks = calloc(n, sizeof *blocks);
    c->files = calloc(n, sizeof *c->files);
    tt_status st = TT_OK;
    if (files == NULL || blocks == NULL || c->files == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu files", n);
    for (size_t i = 0; i < n && st == TT_OK; i++)
        st = prepare_file(c, i, &files[i], &blocks[i], err);
    if (st == TT_OK)
        st = tt_scan(files, n, threads != 0 ? threads : tt_physical_cores(), c->ev, err);
    for (size_t i = 0; i < n && st == TT_OK; i++) {
        st = compare_file(c, i, &files[i].is, err);
        c->total += files[i].is.size;
    }
    c->report->experts = atomic_load(&c->experts);
    free(files);
    free(blocks);
    return st;
}

static tt_status check_everything(check *c, unsigned threads, tt_error *err)
{
    char path[TT_MAX_PATH];
    TT_TRY(check_tensors(c->in, err));
    tell_unlisted(c, "");
    tell_unlisted(c, TT_EXPERTS_DIR);
    tell_unlisted(c, TT_TOKENIZER_DIR);
    TT_TRY(tt_install_path(c->in, TT_WEIGHTS_NAME, path, err));
    TT_TRY(check_padding(c, TT_WEIGHTS_NAME, path, tt_install_index(c->in), err));
    if (tt_install_mtp_index(c->in) != NULL) {
        TT_TRY(tt_install_path(c->in, TT_MTP_WEIGHTS_NAME, path, err));
        TT_TRY(check_padding(c, TT_MTP_WEIGHTS_NAME, path, tt_install_mtp_index(c->in), err));
    }
    TT_TRY(check_ngrams(c, err));
    return check_files(c, threads, err);
}

static tt_status issue_receipt(const check *c, tt_error *err)
{
    char path[TT_MAX_PATH], now[32], *text = NULL;
    size_t len = 0;
    const char *dir = tt_install_dir(c->in);
    tt_repack_time(now);
    TT_TRY(tt_path_join(path, dir, TT_RECEIPT_NAME, err));
    TT_TRY(tt_receipt_encode(tt_install_manifest_sha256(c->in), dir, c->files,
                             tt_install_file_count(c->in), TT_REPACK_TOOL " --verify-install", now,
                             &text, &len, err));
    tt_status st = tt_file_publish(path, text, len, err);
    free(text);
    return st;
}

tt_status tt_verify_run(const char *dir, bool write_receipt, unsigned threads,
                        const tt_repack_events *ev, tt_verify_report *report, tt_error *err)
{
    tt_install *in = NULL;
    tt_verify_report r = {0};
    check c = {.ev = ev, .report = &r};
    TT_TRY(tt_install_open(dir, TT_INSTALL_NO_RECEIPT | TT_INSTALL_NO_HASH, NULL, NULL, &in, err));
    c.in = in;
    tt_status st = check_everything(&c, threads, err);
    if (st == TT_OK && write_receipt)
        st = issue_receipt(&c, err);
    if (st == TT_OK) {
        snprintf(r.path, sizeof r.path, "%s", tt_install_dir(in));
        r.files = tt_install_file_count(in) + 1;
        r.bytes = c.total;
        tt_origin_of(tt_install_manifest(in), &r.origin);
        if (report != NULL)
            *report = r;
    } else {
        tt_install_locate(tt_install_dir(in), err);
    }
    free(c.files);
    tt_install_close(&in);
    return st;
}
