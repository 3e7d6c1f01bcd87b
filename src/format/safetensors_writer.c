#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "format/safetensors.h"

struct tt_st_writer {
    char path[TT_MAX_PATH], tmp[TT_MAX_PATH + 32];
    int fd;
    tt_buf metadata, tensors; /* comma-separated members of the header */
    size_t count;
    uint64_t declared, written; /* bytes of data */
    uint64_t data;              /* offset of the data section; 0 before the header is written */
};

static tt_status nomem(const tt_st_writer *w, tt_error *err)
{
    return tt_fail_at(err, TT_ERR_NOMEM, w->path, -1, "out of memory for the header");
}

tt_status tt_st_writer_create(const char *path, tt_st_writer **out, tt_error *err)
{
    if (strlen(path) >= TT_MAX_PATH)
        return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    tt_st_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return tt_fail_at(err, TT_ERR_NOMEM, path, -1, "out of memory");
    strcpy(w->path, path);
    tt_buf_init(&w->metadata, TT_MIB);
    tt_buf_init(&w->tensors, TT_MAX_SAFETENSORS_HEADER - TT_MIB - TT_KIB);
    w->fd = tt_file_create_beside(path, w->tmp);
    if (w->fd < 0) {
        tt_status st = tt_fail_errno(err, errno, path, "cannot create %s", w->tmp);
        free(w);
        return st;
    }
    *out = w;
    return TT_OK;
}

static void put_string(tt_buf *b, const char *text)
{
    tt_buf_putc(b, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            tt_buf_printf(b, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            tt_buf_printf(b, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            tt_buf_putc(b, *text);
    }
    tt_buf_putc(b, '"');
}

static tt_status still_open(const tt_st_writer *w, const char *what, tt_error *err)
{
    if (w->data != 0)
        return tt_fail_at(err, TT_ERR_STATE, w->path, -1,
                          "%s comes after the first data: declare everything before", what);
    return TT_OK;
}

tt_status tt_st_writer_metadata(tt_st_writer *w, const char *key, const char *value, tt_error *err)
{
    TT_TRY(still_open(w, key, err));
    if (w->metadata.len > 0)
        tt_buf_putc(&w->metadata, ',');
    put_string(&w->metadata, key);
    tt_buf_putc(&w->metadata, ':');
    put_string(&w->metadata, value);
    return tt_buf_status(&w->metadata, err);
}

tt_status tt_st_writer_declare(tt_st_writer *w, const char *name, tt_st_dtype dtype, uint32_t rank,
                               const uint64_t *shape, tt_error *err)
{
    TT_TRY(still_open(w, name, err));
    uint64_t bytes = tt_st_dtype_bytes(dtype), end;
    if (bytes == 0 || rank > TT_MAX_SOURCE_RANK || w->count == TT_MAX_TENSORS)
        return tt_fail_at(err, TT_ERR_INVALID, w->path, -1,
                          "tensor %s: unknown dtype, more than %u dimensions or more than %u "
                          "tensors",
                          name, TT_MAX_SOURCE_RANK, TT_MAX_TENSORS);
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, shape[i], &bytes))
            return tt_fail_at(err, TT_ERR_LIMIT, w->path, -1, "the shape of tensor %s overflows",
                              name);
    if (__builtin_add_overflow(w->declared, bytes, &end))
        return tt_fail_at(err, TT_ERR_LIMIT, w->path, -1, "the file overflows at tensor %s", name);
    if (w->count > 0)
        tt_buf_putc(&w->tensors, ',');
    put_string(&w->tensors, name);
    tt_buf_printf(&w->tensors, ":{\"dtype\":\"%s\",\"shape\":[", tt_st_dtype_name(dtype));
    for (uint32_t i = 0; i < rank; i++)
        tt_buf_printf(&w->tensors, "%s%llu", i > 0 ? "," : "", (unsigned long long)shape[i]);
    tt_buf_printf(&w->tensors, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)w->declared,
                  (unsigned long long)end);
    TT_TRY(tt_buf_status(&w->tensors, err));
    w->declared = end;
    w->count++;
    return TT_OK;
}

/* Length, JSON, spaces up to a multiple of 8. */
static tt_status write_header(tt_st_writer *w, tt_error *err)
{
    tt_buf b;
    tt_buf_init(&b, TT_MAX_SAFETENSORS_HEADER + 16);
    tt_buf_append(&b, "\0\0\0\0\0\0\0\0", 8);
    tt_buf_putc(&b, '{');
    if (w->metadata.len > 0) {
        tt_buf_puts(&b, "\"__metadata__\":{");
        tt_buf_append(&b, w->metadata.data, w->metadata.len);
        tt_buf_puts(&b, w->count > 0 ? "}," : "}");
    }
    if (w->count > 0)
        tt_buf_append(&b, w->tensors.data, w->tensors.len);
    tt_buf_putc(&b, '}');
    while (b.failed == TT_OK && b.len % 8 != 0)
        tt_buf_putc(&b, ' ');
    tt_status st = b.failed == TT_OK ? TT_OK : nomem(w, err);
    if (st == TT_OK) {
        uint64_t len = b.len - 8;
        for (int i = 0; i < 8; i++)
            b.data[i] = (char)(len >> (8 * i) & 0xff);
        st = tt_file_pwrite(w->fd, w->tmp, b.data, b.len, 0, err);
    }
    if (st == TT_OK)
        w->data = b.len;
    tt_buf_free(&b);
    return st;
}

tt_status tt_st_writer_append(tt_st_writer *w, const void *bytes, size_t n, tt_error *err)
{
    if (w->data == 0)
        TT_TRY(write_header(w, err));
    if (n > w->declared - w->written)
        return tt_fail_at(err, TT_ERR_INVALID, w->path, -1,
                          "%zu bytes after %llu are more than the %llu that were declared", n,
                          (unsigned long long)w->written, (unsigned long long)w->declared);
    TT_TRY(tt_file_pwrite(w->fd, w->tmp, bytes, n, w->data + w->written, err));
    w->written += n;
    return TT_OK;
}

static tt_status publish(tt_st_writer *w, tt_error *err)
{
    char dir[TT_MAX_PATH];
    if (w->data == 0)
        TT_TRY(write_header(w, err));
    if (w->written != w->declared)
        return tt_fail_at(err, TT_ERR_STATE, w->path, -1,
                          "%llu bytes were declared, %llu were written",
                          (unsigned long long)w->declared, (unsigned long long)w->written);
    if (fsync(w->fd) != 0)
        return tt_fail_errno(err, errno, w->path, "cannot sync %s", w->tmp);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0)
        return tt_fail_errno(err, errno, w->path, "cannot close %s", w->tmp);
    if (rename(w->tmp, w->path) != 0)
        return tt_fail_errno(err, errno, w->path, "cannot rename %s", w->tmp);
    w->tmp[0] = '\0';
    strcpy(dir, w->path);
    return tt_dir_sync(dirname(dir), err);
}

tt_status tt_st_writer_finish(tt_st_writer **w, tt_error *err)
{
    tt_status st = publish(*w, err);
    tt_st_writer_discard(w);
    return st;
}

void tt_st_writer_discard(tt_st_writer **pw)
{
    if (pw == NULL || *pw == NULL)
        return;
    tt_st_writer *w = *pw;
    if (w->fd >= 0)
        close(w->fd);
    if (w->tmp[0] != '\0')
        unlink(w->tmp);
    tt_buf_free(&w->metadata);
    tt_buf_free(&w->tensors);
    free(w);
    *pw = NULL;
}
