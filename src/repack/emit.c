#include "repack/emit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define STEP ((uint64_t)4 << 20)
#define PUSH (8 * TT_MIB)

tt_status tt_emit_create(tt_emit *e, const char *path, const tt_repack_events *ev, uint64_t *done,
                         uint64_t total, tt_error *err)
{
    *e = (tt_emit){.fd = -1, .ev = ev, .done = done, .total = total};
    if (strlen(path) >= sizeof e->path)
        return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    strcpy(e->path, path);
    TT_TRY(tt_sha256_create(&e->sha, err));
    e->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (e->fd < 0) {
        tt_status st = tt_fail_errno(err, errno, path, "cannot create %s", path);
        tt_emit_drop(e);
        return st;
    }
    return TT_OK;
}

tt_status tt_emit_open(tt_emit *e, const char *path, uint64_t size, tt_error *err)
{
    struct stat sb;
    *e = (tt_emit){.fd = -1, .at = size};
    if (strlen(path) >= sizeof e->path)
        return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    strcpy(e->path, path);
    e->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    int rc = e->fd < 0 ? -1 : fstat(e->fd, &sb);
    if (rc == 0 && !S_ISREG(sb.st_mode)) {
        errno = EEXIST;
        rc = -1;
    }
    if (rc == 0 && (uint64_t)sb.st_size != size) {
        rc = ftruncate(e->fd, 0);
        if (rc == 0)
            rc = ftruncate(e->fd, (off_t)size);
    }
    if (rc != 0) {
        tt_status st = tt_fail_errno(err, errno, path, "cannot make %s", path);
        tt_emit_drop(e);
        return st;
    }
    return TT_OK;
}

tt_status tt_emit_write(tt_emit *e, const void *bytes, uint64_t n, uint64_t offset, tt_error *err)
{
    if (offset > e->at || n > e->at - offset)
        return tt_fail_at(err, TT_ERR_INTERNAL, e->path, (int64_t)offset,
                          "%llu bytes do not fit into the file", (unsigned long long)n);
    return tt_file_pwrite(e->fd, e->path, bytes, (size_t)n, offset, err);
}

/* Lets the disk write while the next bytes are made, so that little is left for the sync. What it
 * says is left to the sync too. */
static void push(tt_emit *e)
{
    if (e->at - e->pushed < PUSH)
        return;
    sync_file_range(e->fd, (off_t)e->pushed, (off_t)(e->at - e->pushed), SYNC_FILE_RANGE_WRITE);
    e->pushed = e->at;
}

tt_status tt_emit_append(tt_emit *e, const void *bytes, uint64_t n, tt_error *err)
{
    const char *p = bytes;
    while (n > 0) {
        size_t step = n < STEP ? (size_t)n : (size_t)STEP;
        TT_TRY(tt_file_pwrite(e->fd, e->path, p, step, e->at, err));
        TT_TRY(tt_sha256_update(e->sha, p, step, err));
        p += step;
        n -= step;
        e->at += step;
        push(e);
        *e->done += step;
        if (e->ev != NULL && e->ev->progress != NULL &&
            !e->ev->progress(e->ev->ctx, *e->done, e->total))
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
    }
    return TT_OK;
}

tt_status tt_emit_pad(tt_emit *e, uint64_t offset, tt_error *err)
{
    static const char zeros[16384];
    if (offset < e->at)
        return tt_fail_at(err, TT_ERR_INTERNAL, e->path, (int64_t)e->at,
                          "layout goes back to offset %llu", (unsigned long long)offset);
    while (e->at < offset) {
        uint64_t n = offset - e->at;
        TT_TRY(tt_emit_append(e, zeros, n < sizeof zeros ? n : sizeof zeros, err));
    }
    return TT_OK;
}

tt_status tt_emit_finish(tt_emit *e, tt_emitted *out, tt_error *err)
{
    struct stat sb;
    tt_emitted r = {.size = e->at};
    tt_status st = e->sha != NULL ? tt_sha256_finish(e->sha, r.sha256, err) : TT_OK;
    if (st == TT_OK && fsync(e->fd) != 0)
        st = tt_fail_errno(err, errno, e->path, "cannot sync %s", e->path);
    if (st == TT_OK && fstat(e->fd, &sb) != 0)
        st = tt_fail_errno(err, errno, e->path, "cannot stat %s", e->path);
    if (st == TT_OK && (uint64_t)sb.st_size != e->at)
        st = tt_fail_at(err, TT_ERR_IO, e->path, -1, "%s has %lld bytes after %llu were written",
                        e->path, (long long)sb.st_size, (unsigned long long)e->at);
    if (close(e->fd) != 0 && st == TT_OK)
        st = tt_fail_errno(err, errno, e->path, "cannot close %s", e->path);
    e->fd = -1;
    tt_emit_drop(e);
    if (st != TT_OK)
        return st;
    r.mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    *out = r;
    return TT_OK;
}

void tt_emit_drop(tt_emit *e)
{
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
    tt_sha256_close(&e->sha);
}
