#include "io/reader.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"

enum { READ_STARTED = 1, READ_DONE = 2 };

typedef struct buffered_file {
    int fd;
    char *path;
} buffered_file;

typedef struct buffered {
    tt_reader base;
    uint32_t n;
    buffered_file *files;
} buffered;

static tt_status buffered_start(tt_reader *r, tt_read *rd, tt_error *err)
{
    const buffered *b = (const buffered *)r;
    if (rd->file >= b->n)
        return tt_fail(err, TT_ERR_INVALID, "file %u asked, the reader has %u", rd->file, b->n);
    /* This reader would not mind, those that go around the page cache do: every caller keeps to
     * it. */
    if ((uintptr_t)rd->dst % TT_PAGE_ALIGN != 0)
        return tt_fail(err, TT_ERR_INVALID, "destination %p is not aligned to %u bytes", rd->dst,
                       TT_PAGE_ALIGN);
    rd->state = READ_STARTED;
    return TT_OK;
}

static tt_status buffered_wait(tt_reader *r, tt_read *rd, tt_error *err)
{
    const buffered *b = (const buffered *)r;
    const buffered_file *f = &b->files[rd->file];
    if (rd->state == READ_STARTED) {
        rd->state = READ_DONE;
        rd->status = tt_file_pread(f->fd, f->path, rd->dst, rd->bytes, rd->offset, err);
        return rd->status;
    }
    if (rd->state != READ_DONE)
        return tt_fail(err, TT_ERR_STATE, "a read was waited for that had not been started");
    if (rd->status != TT_OK)
        return tt_fail_at(err, rd->status, f->path, (int64_t)rd->offset,
                          "read of %llu bytes at offset %llu had failed",
                          (unsigned long long)rd->bytes, (unsigned long long)rd->offset);
    return TT_OK;
}

static const char *buffered_path(const tt_reader *r, uint32_t file)
{
    const buffered *b = (const buffered *)r;
    return file < b->n ? b->files[file].path : "";
}

static void buffered_close(tt_reader *r)
{
    buffered *b = (buffered *)r;
    for (uint32_t i = 0; b->files != NULL && i < b->n; i++) {
        if (b->files[i].fd >= 0)
            close(b->files[i].fd);
        free(b->files[i].path);
    }
    free(b->files);
    free(b);
}

static const tt_reader_ops buffered_ops = {
    .name = "buffered",
    .start = buffered_start,
    .wait = buffered_wait,
    .path = buffered_path,
    .close = buffered_close,
};

tt_status tt_reader_open_buffered(const char *const *paths, uint32_t n, tt_reader **out,
                                  tt_error *err)
{
    buffered *b = calloc(1, sizeof *b);
    tt_status st = TT_OK;
    if (b == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a reader");
    b->base.ops = &buffered_ops;
    b->files = calloc(n > 0 ? n : 1, sizeof *b->files);
    if (b->files == NULL) {
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for a reader of %u files", n);
        goto fail;
    }
    b->n = n;
    for (uint32_t i = 0; i < n; i++)
        b->files[i].fd = -1;
    for (uint32_t i = 0; i < n; i++) {
        b->files[i].path = strdup(paths[i]);
        if (b->files[i].path == NULL) {
            st = tt_fail(err, TT_ERR_NOMEM, "out of memory for a reader of %u files", n);
            goto fail;
        }
        TT_GOTO(tt_file_open(paths[i], &b->files[i].fd, NULL, err), fail);
    }
    *out = &b->base;
    return TT_OK;
fail:
    buffered_close(&b->base);
    return st;
}

void tt_reader_close(tt_reader **r)
{
    if (r == NULL || *r == NULL)
        return;
    (*r)->ops->close(*r);
    *r = NULL;
}
