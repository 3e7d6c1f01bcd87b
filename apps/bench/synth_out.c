#include "bench/synth_out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"

#define PARTIAL ".partial-"
#define BUFFER  ((size_t)(4 * TT_MIB))
#define DIRECT  4096u /* what O_DIRECT wants lengths and offsets to be multiples of */

/* ---- the directory ---- */

static tt_status too_long(const char *path, tt_error *err)
{
    return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes", TT_MAX_PATH - 1);
}

/* Splits off the last component and resolves the directory before it. */
static tt_status resolve(synth_dir *d, const char *output, tt_error *err)
{
    char copy[TT_MAX_PATH];
    size_t len = strlen(output);
    while (len > 1 && output[len - 1] == '/')
        len--;
    if (len >= sizeof copy)
        return too_long(output, err);
    memcpy(copy, output, len);
    copy[len] = '\0';
    char *slash = strrchr(copy, '/');
    const char *name = slash != NULL ? slash + 1 : copy;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return tt_fail(err, TT_ERR_INVALID, "\"%.200s\" is not a name for a directory", output);
    const char *dir = slash == NULL ? "." : slash == copy ? "/" : copy;
    if (slash != NULL)
        *slash = '\0';
    char *real = realpath(dir, NULL);
    if (real == NULL)
        return tt_fail_errno(err, errno, dir, "cannot write into %s", dir);
    int n = snprintf(d->parent, sizeof d->parent, "%s", real);
    int m = snprintf(d->path, sizeof d->path, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name);
    free(real);
    if (n >= (int)sizeof d->parent || m >= (int)sizeof d->path - 64)
        return too_long(output, err);
    return TT_OK;
}

tt_status synth_dir_init(synth_dir *d, const char *output, const char *marker, bool overwrite,
                         tt_error *err)
{
    struct stat sb;
    char mark[TT_MAX_PATH];
    *d = (synth_dir){.lock = -1};
    TT_TRY(resolve(d, output, err));
    if (lstat(d->path, &sb) != 0)
        return errno == ENOENT ? TT_OK
                               : tt_fail_errno(err, errno, d->path, "cannot stat %s", d->path);
    if (!overwrite)
        return tt_fail_at(err, TT_ERR_EXISTS, d->path, -1,
                          "%s exists: give another name, or --overwrite to replace it", d->path);
    TT_TRY(tt_path_join(mark, d->path, marker, err));
    if (!S_ISDIR(sb.st_mode) || !tt_file_exists(mark))
        return tt_fail_at(err, TT_ERR_EXISTS, d->path, -1,
                          "%s exists and holds no %s: it will not be replaced", d->path, marker);
    d->replace = true;
    return TT_OK;
}

tt_status synth_dir_space(const synth_dir *d, uint64_t need, tt_error *err)
{
    struct statvfs vfs;
    if (statvfs(d->parent, &vfs) != 0)
        return tt_fail_errno(err, errno, d->parent, "cannot ask for the free space of %s",
                             d->parent);
    uint64_t have = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    if (have < need)
        return tt_fail_at(err, TT_ERR_NO_SPACE, d->parent, -1,
                          "the model needs %.2f GB, %s has %.2f GB free: free some, write "
                          "elsewhere, or take fewer --layers",
                          (double)need / 1e9, d->parent, (double)have / 1e9);
    return TT_OK;
}

/* What a dead run left; a living one holds the lock. */
static void remove_leftovers(const synth_dir *d)
{
    char stem[TT_MAX_PATH + 16], path[TT_MAX_PATH];
    snprintf(stem, sizeof stem, "%s" PARTIAL, strrchr(d->path, '/') + 1);
    DIR *dir = opendir(d->parent);
    if (dir == NULL)
        return;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (strncmp(e->d_name, stem, strlen(stem)) != 0 ||
            tt_path_join(path, d->parent, e->d_name, NULL) != TT_OK)
            continue;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && tt_dir_remove(path, NULL) == TT_OK)
            fprintf(stderr, "removed %s, left over from an interrupted run\n", path);
        close(fd);
    }
    closedir(dir);
}

tt_status synth_dir_create(synth_dir *d, tt_error *err)
{
    char name[TT_MAX_PATH + 32];
    struct stat a, b;
    remove_leftovers(d);
    snprintf(name, sizeof name, "%s" PARTIAL "%ld", d->path, (long)getpid());
    if (strlen(name) >= sizeof d->partial)
        return too_long(name, err);
    if (mkdir(name, 0755) != 0)
        return tt_fail_errno(err, errno, name, "cannot make directory %s", name);
    strcpy(d->partial, name);
    d->lock = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* Between mkdir and flock another run may have taken it for a leftover. */
    if (d->lock < 0 || flock(d->lock, LOCK_EX | LOCK_NB) != 0 || fstat(d->lock, &a) != 0 ||
        stat(name, &b) != 0 || a.st_ino != b.st_ino)
        return tt_fail_errno(err, errno, name, "cannot lock %s", name);
    return TT_OK;
}

tt_status synth_dir_publish(synth_dir *d, tt_error *err)
{
    TT_TRY(tt_dir_sync(d->partial, err));
    unsigned how = d->replace ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, d->partial, AT_FDCWD, d->path, how) != 0)
        return tt_fail_errno(err, errno, d->path, "cannot rename %s to %s", d->partial, d->path);
    if (!d->replace)
        d->partial[0] = '\0';
    synth_dir_drop(d); /* after an exchange: what stood there before */
    return tt_dir_sync(d->parent, err);
}

void synth_dir_drop(synth_dir *d)
{
    if (d->partial[0] != '\0' && tt_dir_remove(d->partial, NULL) != TT_OK)
        fprintf(stderr, "cannot remove %s\n", d->partial);
    d->partial[0] = '\0';
    if (d->lock >= 0)
        close(d->lock);
    d->lock = -1;
}

/* ---- a file ---- */

tt_status synth_file_create(synth_file *f, const char *path, _Atomic uint64_t *done,
                            const _Atomic int *stop, tt_error *err)
{
    *f = (synth_file){.fd = -1, .done = done, .stop = stop};
    if (strlen(path) >= sizeof f->path)
        return too_long(path, err);
    strcpy(f->path, path);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    tt_status st = TT_OK;
    f->buf = aligned_alloc(DIRECT, BUFFER);
    if (f->buf == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory to write %s", path);
    TT_GOTO(tt_sha256_create(&f->sha, err), fail);
    f->fd = open(path, flags | O_DIRECT, 0644);
    if (f->fd < 0 && errno == EINVAL) { /* a file system without direct writes */
        unlink(path);
        f->fd = open(path, flags, 0644);
    }
    if (f->fd < 0) {
        st = tt_fail_errno(err, errno, path, "cannot create %s", path);
        goto fail;
    }
    return TT_OK;
fail:
    synth_file_drop(f);
    return st;
}

static tt_status flush(synth_file *f, tt_error *err)
{
    if (f->stop != NULL && atomic_load_explicit(f->stop, memory_order_relaxed))
        return tt_fail(err, TT_ERR_ABORTED, "stopped");
    if (f->len == 0)
        return TT_OK;
    int fl = fcntl(f->fd, F_GETFL);
    if (f->len % DIRECT != 0 && fl >= 0 && (fl & O_DIRECT) != 0 &&
        fcntl(f->fd, F_SETFL, fl & ~O_DIRECT) != 0)
        return tt_fail_errno(err, errno, f->path, "cannot write %s", f->path);
    TT_TRY(tt_sha256_update(f->sha, f->buf, f->len, err));
    TT_TRY(tt_file_pwrite(f->fd, f->path, f->buf, f->len, f->at - f->len, err));
    if (f->done != NULL)
        atomic_fetch_add_explicit(f->done, f->len, memory_order_relaxed);
    f->len = 0;
    return TT_OK;
}

tt_status synth_file_append(synth_file *f, const void *bytes, uint64_t n, tt_error *err)
{
    const unsigned char *p = bytes;
    while (n > 0) {
        size_t step = n < BUFFER - f->len ? (size_t)n : BUFFER - f->len;
        memcpy(f->buf + f->len, p, step);
        f->len += step;
        f->at += step;
        p += step;
        n -= step;
        if (f->len == BUFFER)
            TT_TRY(flush(f, err));
    }
    return TT_OK;
}

tt_status synth_file_pad(synth_file *f, uint64_t offset, tt_error *err)
{
    static const char zeros[16384];
    while (f->at < offset) {
        uint64_t n = offset - f->at;
        TT_TRY(synth_file_append(f, zeros, n < sizeof zeros ? n : sizeof zeros, err));
    }
    return TT_OK;
}

tt_status synth_file_finish(synth_file *f, synth_written *out, tt_error *err)
{
    struct stat sb;
    synth_written w = {.size = f->at};
    TT_TRY(flush(f, err));
    TT_TRY(tt_sha256_finish(f->sha, w.sha256, err));
    if (fsync(f->fd) != 0)
        return tt_fail_errno(err, errno, f->path, "cannot sync %s", f->path);
    if (fstat(f->fd, &sb) != 0)
        return tt_fail_errno(err, errno, f->path, "cannot stat %s", f->path);
    if ((uint64_t)sb.st_size != f->at)
        return tt_fail_at(err, TT_ERR_IO, f->path, -1, "%s has %lld bytes after %llu were written",
                          f->path, (long long)sb.st_size, (unsigned long long)f->at);
    int fd = f->fd;
    f->fd = -1;
    synth_file_drop(f);
    if (close(fd) != 0)
        return tt_fail_errno(err, errno, f->path, "cannot close %s", f->path);
    w.mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    *out = w;
    return TT_OK;
}

void synth_file_drop(synth_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    free(f->buf);
    f->buf = NULL;
    tt_sha256_close(&f->sha);
}
