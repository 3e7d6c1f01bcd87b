#include "format/install_receipt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "format/install_layout.h"

tt_status tt_receipt_refuse(const char *dir, tt_error *err, const char *fmt, ...)
{
    char what[512];
    tt_buf command;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    tt_buf_init(&command, 4 * (size_t)TT_MAX_PATH);
    tt_buf_puts(&command, "TinyTitanRepack --verify-install --input-gturbo ");
    tt_shell_quote(&command, dir);
    tt_status st;
    if (command.failed != TT_OK)
        st = tt_fail_at(err, TT_ERR_RECEIPT, dir, -1, "%s", what);
    else /* The command must come whole; what it is about may be cut. */
        st = tt_fail_at(err, TT_ERR_RECEIPT, dir, -1, "%.*s; check and re-issue it with: %s",
                        command.len < 700 ? (int)(700 - command.len) : 0, what, command.data);
    tt_buf_free(&command);
    return st;
}

static int by_rel(const void *a, const void *b)
{
    return strcmp(((const tt_install_file *)a)->rel, ((const tt_install_file *)b)->rel);
}

static tt_status get_digest(const json_t *obj, const char *key, const char *file, const char **out,
                            tt_error *err)
{
    const char *hex = NULL;
    TT_TRY(tt_json_get_string(obj, key, file, &hex, err));
    if (!tt_sha256_hex_valid(hex))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "key \"%s\" is not a SHA-256 digest", key);
    *out = hex;
    return TT_OK;
}

static tt_status read_file(const char *rel, const json_t *entry, const char *file,
                           tt_install_file *out, tt_error *err)
{
    static const char *const known[] = {"size", "mtime_ns", "sha256", NULL};
    if (!tt_install_rel_valid(rel))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "\"%.260s\" is not a path of an install",
                          rel);
    if (!json_is_object(entry))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "file \"%s\" is not an object", rel);
    out->rel = rel;
    TT_TRY(tt_manifest_keys(entry, known, "a file", file, err));
    TT_TRY(tt_json_get_u64(entry, "size", file, 0, (uint64_t)1 << 62, &out->size, err));
    const json_t *mtime = json_object_get(entry, "mtime_ns");
    if (!json_is_integer(mtime))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "key \"mtime_ns\" must be an integer");
    out->mtime_ns = json_integer_value(mtime);
    return get_digest(entry, "sha256", file, &out->sha256, err);
}

static tt_status read_files(tt_receipt *r, const char *file, tt_error *err)
{
    json_t *files = NULL, *entry;
    const char *rel;
    TT_TRY(tt_json_get_object(r->tree, "files", file, &files, err));
    size_t n = json_object_size(files);
    if (n < 1 || n > TT_MAX_INSTALL_FILES)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "%zu files are listed, must be 1 to %u", n,
                          TT_MAX_INSTALL_FILES);
    r->files = calloc(n, sizeof *r->files);
    if (r->files == NULL)
        return tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for %zu files", n);
    json_object_foreach(files, rel, entry)
    {
        TT_TRY(read_file(rel, entry, file, &r->files[r->n_files], err));
        r->n_files++;
    }
    qsort(r->files, r->n_files, sizeof *r->files, by_rel);
    return TT_OK;
}

static tt_status read_head(tt_receipt *r, const char *file, tt_error *err)
{
    static const char *const known[] = {
        "magic", "version", "manifest_sha256", "path", "files", "tool", "time", NULL};
    const char *magic = NULL;
    uint32_t version = 0;
    if (!json_is_object(r->tree))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "the receipt is not a JSON object");
    TT_TRY(tt_json_get_string(r->tree, "magic", file, &magic, err));
    if (strcmp(magic, TT_RECEIPT_MAGIC) != 0)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "the magic is not " TT_RECEIPT_MAGIC);
    TT_TRY(tt_json_get_u32(r->tree, "version", file, 1, TT_RECEIPT_VERSION, &version, err));
    TT_TRY(tt_manifest_keys(r->tree, known, "the receipt", file, err));
    TT_TRY(get_digest(r->tree, "manifest_sha256", file, &r->manifest_sha256, err));
    TT_TRY(tt_json_get_string(r->tree, "path", file, &r->path, err));
    TT_TRY(tt_json_get_string(r->tree, "tool", file, &r->tool, err));
    return tt_json_get_string(r->tree, "time", file, &r->time, err);
}

tt_status tt_receipt_parse(const char *text, size_t len, const char *file, tt_receipt *out,
                           tt_error *err)
{
    tt_receipt r = {0};
    tt_status st;
    if (len > TT_MAX_MANIFEST)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "receipt has %zu bytes, at most %llu", len,
                          (unsigned long long)TT_MAX_MANIFEST);
    TT_GOTO(tt_json_parse(text, len, file, &r.tree, err), out);
    TT_GOTO(read_head(&r, file, err), out);
    TT_GOTO(read_files(&r, file, err), out);
out:
    if (st == TT_OK)
        *out = r;
    else
        tt_receipt_free(&r);
    return st;
}

void tt_receipt_free(tt_receipt *r)
{
    if (r == NULL)
        return;
    free(r->files);
    json_decref(r->tree);
    *r = (tt_receipt){0};
}

tt_status tt_receipt_check(const tt_receipt *r, const tt_manifest *m, const char *manifest_sha256,
                           const char *dir, tt_error *err)
{
    if (strcmp(r->path, dir) != 0)
        return tt_receipt_refuse(dir, err, "the install was moved: its receipt is for %s", r->path);
    if (strcmp(r->manifest_sha256, manifest_sha256) != 0)
        return tt_receipt_refuse(dir, err, "the receipt is for another " TT_MANIFEST_NAME);
    if (r->n_files != m->n_files)
        return tt_receipt_refuse(dir, err, "the receipt lists %zu files, the manifest %zu",
                                 r->n_files, m->n_files);
    for (size_t i = 0; i < m->n_files; i++) {
        const tt_install_file *a = &r->files[i];
        const tt_install_file *b = &m->files[i];
        if (strcmp(a->rel, b->rel) != 0)
            return tt_receipt_refuse(dir, err, "the receipt does not list %s", b->rel);
        if (a->size != b->size || strcmp(a->sha256, b->sha256) != 0)
            return tt_receipt_refuse(dir, err, "the receipt does not agree with the manifest on %s",
                                     b->rel);
        if (a->mtime_ns != b->mtime_ns)
            return tt_receipt_refuse(dir, err, "%s was changed after the receipt was issued",
                                     b->rel);
    }
    return TT_OK;
}
