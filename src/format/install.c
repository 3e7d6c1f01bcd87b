#include "format/install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "format/install_layout.h"
#include "format/install_manifest.h"
#include "format/install_receipt.h"
#include "format/le.h"

struct tt_install {
    char *dir;
    int dirfd; /* open during tt_install_open only */
    tt_manifest m;
    char manifest_sha256[TT_SHA256_HEX];
    bool has_receipt;
    tt_index weights, mtp;
    uint32_t *crc; /* n_experts for each layer, then for each draft layer */
    char **expert_paths;
    size_t n_expert_paths;
};

/* Opens a regular file of the install and asks for its size and time; follows no links. */
static tt_status open_rel(int dirfd, const char *rel, int *fd_out, struct stat *sb, tt_error *err)
{
    char part[TT_MAX_INSTALL_REL + 1];
    int at = dirfd, fd = -1, e = 0;
    const char *slash;
    for (const char *p = rel;; p = slash + 1) {
        slash = strchr(p, '/');
        size_t len = slash != NULL ? (size_t)(slash - p) : strlen(p);
        memcpy(part, p, len);
        part[len] = '\0';
        fd = openat(at, part,
                    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (slash != NULL ? O_DIRECTORY : O_NONBLOCK));
        e = errno;
        if (at != dirfd)
            close(at);
        if (fd < 0 || slash == NULL)
            break;
        at = fd;
    }
    if (fd < 0)
        return e == ENOENT ? tt_fail_at(err, TT_ERR_NOT_FOUND, rel, -1,
                                        "%s is missing in the install: install again", rel)
                           : tt_fail_errno(err, e, rel, "cannot open %s of the install", rel);
    if (fstat(fd, sb) != 0 || !S_ISREG(sb->st_mode)) {
        close(fd);
        return tt_fail_at(err, TT_ERR_FORMAT, rel, -1, "%s is not a regular file", rel);
    }
    *fd_out = fd;
    return TT_OK;
}

/* Reads the first n bytes of a listed file, or the whole file for n = 0. */
static tt_status read_rel(const tt_install *in, const char *rel, size_t max, size_t n, char **bytes,
                          size_t *len, tt_error *err)
{
    int fd = -1;
    struct stat sb;
    TT_TRY(open_rel(in->dirfd, rel, &fd, &sb, err));
    uint64_t want = n > 0 ? n : (uint64_t)sb.st_size;
    tt_status st = TT_OK;
    char *buf = NULL;
    if (want > max)
        st = tt_fail_at(err, TT_ERR_LIMIT, rel, -1, "%s has %llu bytes, at most %zu are accepted",
                        rel, (unsigned long long)want, max);
    else if ((buf = malloc(want + 1)) == NULL)
        st = tt_fail_at(err, TT_ERR_NOMEM, rel, -1, "out of memory for %llu bytes of %s",
                        (unsigned long long)want, rel);
    else
        st = tt_file_pread(fd, rel, buf, want, 0, err);
    close(fd);
    if (st != TT_OK) {
        free(buf);
        return st;
    }
    buf[want] = '\0';
    *bytes = buf;
    *len = want;
    return TT_OK;
}

static tt_status load_manifest(tt_install *in, tt_error *err)
{
    char *text = NULL;
    size_t len = 0;
    tt_status st = read_rel(in, TT_MANIFEST_NAME, TT_MAX_MANIFEST, 0, &text, &len, err);
    if (st == TT_ERR_NOT_FOUND)
        return tt_fail_at(err, st, in->dir, -1, "%s is not an install: it has no " TT_MANIFEST_NAME,
                          in->dir);
    if (st != TT_OK)
        return st;
    st = tt_sha256_of(text, len, in->manifest_sha256, err);
    if (st == TT_OK)
        st = tt_manifest_parse(text, len, TT_MANIFEST_NAME, &in->m, err);
    free(text);
    return st;
}

static tt_status stat_files(tt_install *in, tt_error *err)
{
    for (size_t i = 0; i < in->m.n_files; i++) {
        tt_install_file *f = &in->m.files[i];
        struct stat sb;
        int fd = -1;
        TT_TRY(open_rel(in->dirfd, f->rel, &fd, &sb, err));
        close(fd);
        if ((uint64_t)sb.st_size != f->size)
            return tt_fail_at(err, TT_ERR_CORRUPT, f->rel, -1,
                              "%s has %llu bytes, the manifest says %llu: install again", f->rel,
                              (unsigned long long)sb.st_size, (unsigned long long)f->size);
        f->mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    }
    return TT_OK;
}

static tt_status check_receipt(tt_install *in, tt_error *err)
{
    char *text = NULL;
    size_t len = 0;
    tt_receipt r = {0};
    tt_error inner;
    tt_status st = read_rel(in, TT_RECEIPT_NAME, TT_MAX_MANIFEST, 0, &text, &len, &inner);
    if (st == TT_ERR_NOT_FOUND)
        return TT_OK;
    if (st == TT_OK)
        st = tt_receipt_parse(text, len, TT_RECEIPT_NAME, &r, &inner);
    free(text);
    if (st == TT_ERR_NOMEM)
        return tt_fail(err, st, "%s", inner.message);
    if (st != TT_OK)
        return tt_receipt_refuse(in->dir, err, "%s is damaged (%.300s)", TT_RECEIPT_NAME,
                                 inner.message);
    st = tt_receipt_check(&r, &in->m, in->manifest_sha256, in->dir, err);
    tt_receipt_free(&r);
    in->has_receipt = st == TT_OK;
    return st;
}

/* One progress over the bytes of many files. */
typedef struct sum_progress {
    tt_progress_fn fn;
    void *ctx;
    uint64_t before, total;
} sum_progress;

static bool sum_step(void *ctx, uint64_t done, uint64_t size)
{
    (void)size;
    const sum_progress *s = ctx;
    return s->fn == NULL || s->fn(s->ctx, s->before + done, s->total);
}

static tt_status hash_files(const tt_install *in, tt_progress_fn progress, void *ctx, tt_error *err)
{
    sum_progress sum = {progress, ctx, 0, 0};
    char path[TT_MAX_PATH], hex[TT_SHA256_HEX];
    for (size_t i = 0; i < in->m.n_files; i++)
        sum.total += in->m.files[i].size;
    for (size_t i = 0; i < in->m.n_files; i++) {
        const tt_install_file *f = &in->m.files[i];
        TT_TRY(tt_install_path(in, f->rel, path, err));
        TT_TRY(tt_file_sha256(path, hex, NULL, sum_step, &sum, err));
        if (strcmp(hex, f->sha256) != 0)
            return tt_fail_at(err, TT_ERR_CORRUPT, f->rel, -1,
                              "%s does not have the SHA-256 that the manifest lists: install again",
                              f->rel);
        sum.before += f->size;
    }
    return TT_OK;
}

static tt_status load_index(tt_install *in, const tt_manifest_weights *w, tt_index *out,
                            tt_error *err)
{
    char *bytes = NULL, hex[TT_SHA256_HEX];
    size_t len = 0;
    if (w->file == NULL)
        return TT_OK;
    const tt_install_file *f = tt_manifest_find(&in->m, w->file);
    TT_TRY(read_rel(in, w->file, TT_MAX_WEIGHTS_INDEX, w->index_bytes, &bytes, &len, err));
    tt_status st = tt_sha256_of(bytes, len, hex, err);
    if (st == TT_OK && strcmp(hex, w->index_sha256) != 0)
        st = tt_fail_at(err, TT_ERR_CORRUPT, w->file, -1,
                        "the index of %s does not have the SHA-256 that the manifest lists: "
                        "install again",
                        w->file);
    if (st == TT_OK)
        st = tt_index_parse(bytes, len, f->size, w->file, out, err);
    free(bytes);
    return st;
}

static tt_status load_crc(tt_install *in, tt_error *err)
{
    const tt_arch *a = &in->m.arch;
    const tt_install_file *f = tt_manifest_find(&in->m, TT_CRC_NAME);
    char *bytes = NULL, hex[TT_SHA256_HEX];
    size_t len = 0;
    if (!tt_arch_is_moe(a))
        return TT_OK;
    size_t count = (size_t)a->n_experts * (a->n_layers + a->n_mtp_layers);
    TT_TRY(read_rel(in, TT_CRC_NAME, f->size, f->size, &bytes, &len, err));
    tt_status st = tt_sha256_of(bytes, len, hex, err);
    if (st == TT_OK && strcmp(hex, f->sha256) != 0)
        st = tt_fail_at(err, TT_ERR_CORRUPT, TT_CRC_NAME, -1,
                        "%s does not have the SHA-256 that the manifest lists: install again",
                        TT_CRC_NAME);
    char want[TT_CRC_HEADER_BYTES];
    tt_crc_header(want, a->n_experts, a->n_layers, a->n_mtp_layers);
    if (st == TT_OK && memcmp(bytes, want, sizeof want) != 0)
        st = tt_fail_at(err, TT_ERR_FORMAT, TT_CRC_NAME, -1,
                        "the header of %s is not that of a table for %u experts in %u + %u layers",
                        TT_CRC_NAME, a->n_experts, a->n_layers, a->n_mtp_layers);
    if (st == TT_OK && (in->crc = malloc(count * sizeof *in->crc)) == NULL)
        st = tt_fail_at(err, TT_ERR_NOMEM, TT_CRC_NAME, -1, "out of memory for %zu checksums",
                        count);
    for (size_t i = 0; st == TT_OK && i < count; i++)
        in->crc[i] = tt_get_u32(bytes + TT_CRC_HEADER_BYTES + 4 * i);
    free(bytes);
    return st;
}

static tt_status name_expert_files(tt_install *in, tt_error *err)
{
    const tt_arch *a = &in->m.arch;
    char rel[64], path[TT_MAX_PATH];
    if (!tt_arch_is_moe(a))
        return TT_OK;
    size_t n = (size_t)a->n_layers + a->n_mtp_layers;
    in->expert_paths = calloc(n, sizeof *in->expert_paths);
    for (size_t i = 0; in->expert_paths != NULL && i < n; i++) {
        bool mtp = i >= a->n_layers;
        tt_expert_file_name(rel, (uint32_t)(mtp ? i - a->n_layers : i), mtp);
        TT_TRY(tt_install_path(in, rel, path, err));
        in->expert_paths[i] = strdup(path);
        if (in->expert_paths[i] == NULL)
            break;
        in->n_expert_paths++;
    }
    if (in->n_expert_paths != n)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu paths", n);
    return TT_OK;
}

static tt_status open_checked(tt_install *in, unsigned flags, tt_progress_fn progress, void *ctx,
                              tt_error *err)
{
    TT_TRY(load_manifest(in, err));
    if (flags & TT_INSTALL_MANIFEST)
        return TT_OK;
    TT_TRY(stat_files(in, err));
    if (!(flags & TT_INSTALL_NO_RECEIPT))
        TT_TRY(check_receipt(in, err));
    if (!in->has_receipt && !(flags & TT_INSTALL_NO_HASH))
        TT_TRY(hash_files(in, progress, ctx, err));
    TT_TRY(load_crc(in, err));
    TT_TRY(load_index(in, &in->m.weights, &in->weights, err));
    TT_TRY(load_index(in, &in->m.mtp, &in->mtp, err));
    TT_TRY(tt_manifest_check_quantization(&in->m, &in->weights, &in->mtp, TT_MANIFEST_NAME, err));
    return name_expert_files(in, err);
}

void tt_install_locate(const char *dir, tt_error *err)
{
    char rel[sizeof err->file], path[TT_MAX_PATH + sizeof rel];
    if (err == NULL || err->file[0] == '\0' || err->file[0] == '/')
        return;
    snprintf(rel, sizeof rel, "%s", err->file);
    snprintf(path, sizeof path, "%s/%s", dir, rel);
    tt_error_set_file(err, path);
}

tt_status tt_install_open(const char *dir, unsigned flags, tt_progress_fn progress,
                          void *progress_ctx, tt_install **out, tt_error *err)
{
    tt_install *in = calloc(1, sizeof *in);
    if (in == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for an install");
    tt_status st = TT_OK;
    in->dirfd = -1;
    in->dir = realpath(dir, NULL);
    if (in->dir == NULL)
        st = tt_fail_errno(err, errno, dir, "cannot open the install %s", dir);
    else if ((in->dirfd = open(in->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        st = errno == ENOTDIR
                 ? tt_fail_at(err, TT_ERR_INVALID, dir, -1,
                              "%s is a file: an install is the folder that TinyTitanRepack makes",
                              dir)
                 : tt_fail_errno(err, errno, dir, "cannot open the install %s", dir);
    if (st == TT_OK) {
        st = open_checked(in, flags, progress, progress_ctx, err);
        if (st != TT_OK)
            tt_install_locate(in->dir, err);
    }
    if (in->dirfd >= 0)
        close(in->dirfd);
    in->dirfd = -1;
    if (st == TT_OK)
        *out = in;
    else
        tt_install_close(&in);
    return st;
}

void tt_install_close(tt_install **install)
{
    if (install == NULL || *install == NULL)
        return;
    tt_install *in = *install;
    for (size_t i = 0; i < in->n_expert_paths; i++)
        free(in->expert_paths[i]);
    free(in->expert_paths);
    free(in->crc);
    tt_index_free(&in->weights);
    tt_index_free(&in->mtp);
    tt_manifest_free(&in->m);
    free(in->dir);
    free(in);
    *install = NULL;
}

const char *tt_install_dir(const tt_install *in)
{
    return in->dir;
}

const char *tt_install_model_id(const tt_install *in)
{
    return in->m.model_id;
}

const char *tt_install_manifest_sha256(const tt_install *in)
{
    return in->manifest_sha256;
}

const tt_arch *tt_install_arch(const tt_install *in)
{
    return &in->m.arch;
}

const json_t *tt_install_manifest(const tt_install *in)
{
    return in->m.tree;
}

bool tt_install_has_receipt(const tt_install *in)
{
    return in->has_receipt;
}

const tt_index *tt_install_index(const tt_install *in)
{
    return &in->weights;
}

const tt_index *tt_install_mtp_index(const tt_install *in)
{
    return in->m.mtp.file != NULL ? &in->mtp : NULL;
}

const tt_expert_layout *tt_install_expert_layout(const tt_install *in)
{
    return in->m.experts.n_experts > 0 ? &in->m.experts : NULL;
}

const tt_expert_layout *tt_install_mtp_expert_layout(const tt_install *in)
{
    return in->m.mtp_experts.n_experts > 0 ? &in->m.mtp_experts : NULL;
}

const tt_ngram_layout *tt_install_ngram_layout(const tt_install *in)
{
    return in->m.ngrams.rows > 0 ? &in->m.ngrams : NULL;
}

const char *tt_install_expert_path(const tt_install *in, uint32_t layer, bool mtp)
{
    size_t i = (size_t)layer + (mtp ? in->m.arch.n_layers : 0);
    return in->expert_paths[i];
}

uint32_t tt_install_expert_crc(const tt_install *in, uint32_t layer, uint32_t expert, bool mtp)
{
    size_t row = (size_t)layer + (mtp ? in->m.arch.n_layers : 0);
    return in->crc[row * in->m.arch.n_experts + expert];
}

tt_status tt_install_path(const tt_install *in, const char *rel, char *out, tt_error *err)
{
    if (!tt_install_rel_valid(rel))
        return tt_fail(err, TT_ERR_INVALID, "\"%.260s\" is not a path inside an install", rel);
    return tt_path_join(out, in->dir, rel, err);
}

size_t tt_install_file_count(const tt_install *in)
{
    return in->m.n_files;
}

const tt_install_file *tt_install_file_at(const tt_install *in, size_t i)
{
    return &in->m.files[i];
}
