#include "repack/verify.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "format/install_layout.h"
#include "format/install_writer.h"
#include "repack/inventory.h"
#include "repack/repack.h"

#define STEP ((size_t)1 << 20)

typedef struct check {
    const tt_install *in;
    const tt_repack_events *ev;
    uint64_t done, total;
    unsigned char *buf; /* a step, or an expert if that is longer */
    size_t buf_bytes;
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
        if (listed(c, rel))
            continue;
        tt_note(c->ev, TT_NOTE_WARNING,
                "%s does not belong to the install and is not checked: remove it", rel);
        c->report->unlisted++;
    }
    if (dir != NULL)
        closedir(dir);
}

/* ---- reading everything ---- */

static tt_status advance(check *c, uint64_t n, tt_error *err)
{
    c->done += n;
    if (c->ev != NULL && c->ev->progress != NULL && !c->ev->progress(c->ev->ctx, c->done, c->total))
        return tt_fail(err, TT_ERR_ABORTED, "stopped");
    return TT_OK;
}

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

static tt_status check_expert(check *c, const char *rel, const tt_expert_layout *l, uint32_t layer,
                              bool mtp, uint64_t at, tt_error *err)
{
    uint32_t e = (uint32_t)(at / l->stride);
    uint32_t want = tt_install_expert_crc(c->in, layer, e, mtp);
    uint32_t is = tt_crc32c(0, c->buf, l->payload_bytes);
    c->report->experts++;
    if (is != want)
        return tt_fail_at(
            err, TT_ERR_CORRUPT, rel, (int64_t)at,
            "expert %u of %s has the CRC-32C %08x, the table says %08x: install again", e, rel, is,
            want);
    if (!gaps_are_zero(l, c->buf))
        return tt_fail_at(err, TT_ERR_CORRUPT, rel, (int64_t)at,
                          "expert %u of %s has padding that is not zero", e, rel);
    return TT_OK;
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
    }
    close(fd);
    return st;
}

static tt_status stat_file(int fd, const char *path, tt_install_file *f, tt_error *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return tt_fail_at(err, TT_ERR_IO, path, -1, "cannot stat %s", path);
    f->size = (uint64_t)sb.st_size;
    f->mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    return TT_OK;
}

/* Hashes a file in steps of `step` bytes, looking at each as an expert when `l` is given. */
static tt_status read_file(check *c, int fd, const char *path, const tt_install_file *f,
                           const tt_expert_layout *l, uint32_t layer, bool mtp, tt_error *err)
{
    tt_sha256 *sha = NULL;
    char hex[TT_SHA256_HEX];
    size_t step = l != NULL ? (size_t)l->stride : STEP;
    tt_status st;
    TT_TRY(tt_sha256_create(&sha, err));
    for (uint64_t at = 0; at < f->size;) {
        size_t n = f->size - at < step ? (size_t)(f->size - at) : step;
        TT_GOTO(tt_file_pread(fd, path, c->buf, n, at, err), out);
        TT_GOTO(tt_sha256_update(sha, c->buf, n, err), out);
        if (l != NULL)
            TT_GOTO(check_expert(c, f->rel, l, layer, mtp, at, err), out);
        TT_GOTO(advance(c, n, err), out);
        at += n;
    }
    TT_GOTO(tt_sha256_finish(sha, hex, err), out);
    if (strcmp(hex, f->sha256) != 0)
        st = tt_fail_at(err, TT_ERR_CORRUPT, f->rel, -1,
                        "%s does not have the SHA-256 that the manifest lists: install again",
                        f->rel);
out:
    tt_sha256_close(&sha);
    return st;
}

static tt_status check_file(check *c, size_t i, tt_error *err)
{
    const tt_install_file *f = tt_install_file_at(c->in, i);
    char path[TT_MAX_PATH];
    tt_install_file before = {0}, *after = &c->files[i];
    uint32_t layer = 0;
    bool mtp = false;
    int fd = -1;
    TT_TRY(tt_install_path(c->in, f->rel, path, err));
    bool experts = expert_file(c, f->rel, &layer, &mtp);
    const tt_expert_layout *l = !experts ? NULL
                                : mtp    ? tt_install_mtp_expert_layout(c->in)
                                         : tt_install_expert_layout(c->in);
    TT_TRY(tt_file_open(path, &fd, NULL, err));
    *after = *f;
    tt_status st = stat_file(fd, path, &before, err);
    if (st == TT_OK)
        st = read_file(c, fd, path, f, l, layer, mtp, err);
    if (st == TT_OK)
        st = stat_file(fd, path, after, err);
    close(fd);
    if (st == TT_OK && (after->size != f->size || before.mtime_ns != after->mtime_ns))
        st = tt_fail_at(err, TT_ERR_STATE, f->rel, -1, "%s changed while it was verified", f->rel);
    return st;
}

static tt_status check_everything(check *c, tt_error *err)
{
    const tt_expert_layout *l = tt_install_expert_layout(c->in),
                           *m = tt_install_mtp_expert_layout(c->in);
    char path[TT_MAX_PATH];
    size_t n = tt_install_file_count(c->in);
    TT_TRY(check_tensors(c->in, err));
    tell_unlisted(c, "");
    tell_unlisted(c, TT_EXPERTS_DIR);
    tell_unlisted(c, TT_TOKENIZER_DIR);
    c->buf_bytes = STEP;
    if (l != NULL && l->stride > c->buf_bytes)
        c->buf_bytes = l->stride;
    if (m != NULL && m->stride > c->buf_bytes)
        c->buf_bytes = m->stride;
    c->buf = malloc(c->buf_bytes);
    c->files = calloc(n, sizeof *c->files);
    if (c->buf == NULL || c->files == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu bytes", c->buf_bytes);
    for (size_t i = 0; i < n; i++)
        c->total += tt_install_file_at(c->in, i)->size;
    TT_TRY(tt_install_path(c->in, TT_WEIGHTS_NAME, path, err));
    TT_TRY(check_padding(c, TT_WEIGHTS_NAME, path, tt_install_index(c->in), err));
    if (tt_install_mtp_index(c->in) != NULL) {
        TT_TRY(tt_install_path(c->in, TT_MTP_WEIGHTS_NAME, path, err));
        TT_TRY(check_padding(c, TT_MTP_WEIGHTS_NAME, path, tt_install_mtp_index(c->in), err));
    }
    for (size_t i = 0; i < n; i++)
        TT_TRY(check_file(c, i, err));
    return TT_OK;
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

tt_status tt_verify_run(const char *dir, bool write_receipt, const tt_repack_events *ev,
                        tt_verify_report *report, tt_error *err)
{
    tt_install *in = NULL;
    tt_verify_report r = {0};
    check c = {.ev = ev, .report = &r};
    TT_TRY(tt_install_open(dir, TT_INSTALL_NO_RECEIPT | TT_INSTALL_NO_HASH, NULL, NULL, &in, err));
    c.in = in;
    tt_status st = check_everything(&c, err);
    if (st == TT_OK && write_receipt)
        st = issue_receipt(&c, err);
    if (st == TT_OK) {
        snprintf(r.path, sizeof r.path, "%s", tt_install_dir(in));
        r.files = tt_install_file_count(in) + 1;
        r.bytes = c.total;
        if (report != NULL)
            *report = r;
    } else {
        tt_install_locate(tt_install_dir(in), err);
    }
    free(c.buf);
    free(c.files);
    tt_install_close(&in);
    return st;
}
