#include "store/store_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define PIECE    (4 * TT_MIB)
#define UNSYNCED (32 * TT_MIB) /* written since the last sync, before a piece more */

/* ---- the system ---- */

static int sys_create(void *ctx, int dir, const char *name)
{
    (void)ctx;
    return openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int sys_open(void *ctx, int dir, const char *name)
{
    struct stat sb;
    (void)ctx;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

static ssize_t sys_read(void *ctx, int fd, void *buf, size_t n, uint64_t at)
{
    (void)ctx;
    return pread(fd, buf, n, (off_t)at);
}

static ssize_t sys_write(void *ctx, int fd, const void *buf, size_t n, uint64_t at)
{
    (void)ctx;
    return pwrite(fd, buf, n, (off_t)at);
}

static int sys_sync(void *ctx, int fd)
{
    (void)ctx;
    int rc = fdatasync(fd);
    if (rc == 0) /* the memory is worth more to experts */
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return rc;
}

static int sys_rename(void *ctx, int dir, const char *from, const char *to)
{
    (void)ctx;
    return renameat(dir, from, dir, to);
}

static int sys_remove(void *ctx, int dir, const char *name)
{
    (void)ctx;
    return unlinkat(dir, name, 0);
}

const tt_store_io tt_store_system_io = {.create = sys_create,
                                        .open = sys_open,
                                        .read = sys_read,
                                        .write = sys_write,
                                        .sync = sys_sync,
                                        .rename = sys_rename,
                                        .remove = sys_remove};

/* ---- the directory ---- */

/* Empty, or used before: the lock that stands in it is an empty file. */
static bool may_use(int fd)
{
    struct stat sb;
    if (fstatat(fd, "lock", &sb, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISREG(sb.st_mode) && sb.st_size == 0;
    DIR *d = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    bool empty = d != NULL;
    for (struct dirent *e = empty ? readdir(d) : NULL; e != NULL; e = readdir(d))
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    if (d != NULL)
        closedir(d);
    return empty;
}

static tt_status check_private(int fd, const char *path, tt_error *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return tt_fail_errno(err, errno, path, "cannot stat %s", path);
    if (sb.st_uid != geteuid())
        return tt_fail_at(err, TT_ERR_INVALID, path, -1,
                          "belongs to user %u, this is user %u: name a directory of your own",
                          (unsigned)sb.st_uid, (unsigned)geteuid());
    if ((sb.st_mode & 022) != 0)
        return tt_fail_at(err, TT_ERR_INVALID, path, -1,
                          "others may write to it (mode %04o): chmod 700 it, or name another",
                          (unsigned)sb.st_mode & 07777);
    if (!may_use(fd))
        return tt_fail_at(err, TT_ERR_INVALID, path, -1,
                          "holds files that are not of a prompt cache: name an empty directory");
    if ((sb.st_mode & 077) != 0 && fchmod(fd, 0700) != 0)
        return tt_fail_errno(err, errno, path, "cannot close %s to others", path);
    return TT_OK;
}

tt_status tt_store_dir_open(const char *path, int *dir, tt_error *err)
{
    TT_TRY(tt_dir_make_above(path, err));
    if (mkdir(path, 0700) != 0 && errno != EEXIST && errno != ENOTDIR)
        return tt_fail_errno(err, errno, path, "cannot make directory %s", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOTDIR)
        return tt_fail_at(err, TT_ERR_INVALID, path, -1, "is not a directory: name another");
    if (fd < 0)
        return tt_fail_errno(err, errno, path, "cannot open directory %s", path);
    tt_status st = check_private(fd, path, err);
    if (st != TT_OK)
        close(fd);
    else
        *dir = fd;
    return st;
}

tt_status tt_store_dir_lock(int dir, const char *path, int *lock, tt_error *err)
{
    int fd = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return tt_fail_errno(err, errno, path, "cannot open the lock in %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *lock = fd;
        return TT_OK;
    }
    int e = errno;
    close(fd);
    if (e == EWOULDBLOCK)
        return tt_fail_at(err, TT_ERR_STATE, path, -1, "another process has it");
    return tt_fail_errno(err, e, path, "cannot lock %s", path);
}

/* ---- whole files ---- */

static tt_status write_all(const tt_store_io *io, int fd, const char *name, const void *bytes,
                           size_t n, uint64_t at, tt_error *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = io->write(io->ctx, fd, (const char *)bytes + done, n - done, at + done);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return tt_fail_errno(err, r == 0 ? EIO : errno, name, "cannot write %s", name);
        done += (size_t)r;
    }
    return TT_OK;
}

static tt_status sync_file(const tt_store_io *io, int fd, const char *name, tt_error *err)
{
    return io->sync(io->ctx, fd) == 0 ? TT_OK
                                      : tt_fail_errno(err, errno, name, "cannot sync %s", name);
}

static tt_status write_pieces(const tt_store_io *io, int fd, const char *name, const char *payload,
                              size_t bytes, uint64_t at, tt_store_go_on go_on, void *ctx,
                              tt_error *err)
{
    uint64_t unsynced = at;
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < PIECE ? bytes - done : PIECE;
        if (go_on != NULL && !go_on(ctx))
            return tt_fail_at(err, TT_ERR_ABORTED, name, -1, "given up");
        TT_TRY(write_all(io, fd, name, payload + done, n, at + done, err));
        done += n;
        unsynced += n;
        if (unsynced > UNSYNCED) {
            TT_TRY(sync_file(io, fd, name, err));
            unsynced = 0;
        }
    }
    return sync_file(io, fd, name, err);
}

tt_status tt_store_file_write(const tt_store_io *io, int dir, const char *name, const void *head,
                              size_t head_bytes, const void *payload, size_t bytes,
                              tt_store_go_on go_on, void *ctx, tt_error *err)
{
    char tmp[TT_STORE_NAME + 8];
    snprintf(tmp, sizeof tmp, "%s.tmp", name);
    (void)io->remove(io->ctx, dir, tmp);
    int fd = io->create(io->ctx, dir, tmp);
    if (fd < 0)
        return tt_fail_errno(err, errno, name, "cannot create %s", tmp);
    tt_status st = write_all(io, fd, name, head, head_bytes, 0, err);
    if (st == TT_OK)
        st = write_pieces(io, fd, name, payload, bytes, head_bytes, go_on, ctx, err);
    if (close(fd) != 0 && st == TT_OK)
        st = tt_fail_errno(err, errno, name, "cannot close %s", tmp);
    if (st == TT_OK && io->rename(io->ctx, dir, tmp, name) != 0)
        st = tt_fail_errno(err, errno, name, "cannot rename %s", tmp);
    if (st != TT_OK)
        (void)io->remove(io->ctx, dir, tmp);
    return st;
}

/* Up to n bytes; fewer at the end of the file. */
static tt_status read_some(const tt_store_io *io, int fd, const char *name, void *buf, size_t n,
                           uint64_t at, size_t *got, tt_error *err)
{
    *got = 0;
    while (*got < n) {
        ssize_t r = io->read(io->ctx, fd, (char *)buf + *got, n - *got, at + *got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return tt_fail_errno(err, errno, name, "cannot read %s", name);
        if (r == 0)
            break;
        *got += (size_t)r;
    }
    return TT_OK;
}

static tt_status read_whole(const tt_store_io *io, int fd, const char *name, uint8_t *head,
                            void *payload, size_t bytes, tt_error *err)
{
    size_t got = 0, more = 0, past = 0;
    char end;
    TT_TRY(read_some(io, fd, name, head, TT_STORE_HEAD, 0, &got, err));
    if (got == TT_STORE_HEAD)
        TT_TRY(read_some(io, fd, name, payload, bytes, TT_STORE_HEAD, &more, err));
    if (more == bytes)
        TT_TRY(read_some(io, fd, name, &end, 1, TT_STORE_HEAD + bytes, &past, err));
    if (got == TT_STORE_HEAD && more == bytes && past == 0)
        return TT_OK;
    return tt_fail_at(err, TT_ERR_CORRUPT, name, -1, "has not the size that it should have");
}

tt_status tt_store_file_read(const tt_store_io *io, int dir, const char *name,
                             uint8_t head[TT_STORE_HEAD], void *payload, size_t bytes,
                             tt_error *err)
{
    int fd = io->open(io->ctx, dir, name);
    if (fd < 0)
        return tt_fail_errno(err, errno, name, "cannot open %s", name);
    tt_status st = read_whole(io, fd, name, head, payload, bytes, err);
    close(fd);
    return st;
}

tt_status tt_store_file_load(const tt_store_io *io, int dir, const char *name, size_t max,
                             uint8_t **bytes, size_t *n, tt_error *err)
{
    struct stat sb = {0};
    int fd = io->open(io->ctx, dir, name);
    if (fd < 0 || fstat(fd, &sb) != 0) {
        tt_status st = tt_fail_errno(err, errno, name, "cannot open %s", name);
        if (fd >= 0)
            close(fd);
        return st;
    }
    size_t size = (size_t)sb.st_size, got = 0;
    uint8_t *buf = (uint64_t)sb.st_size <= max ? malloc(size + 1) : NULL;
    tt_status st = TT_OK;
    if ((uint64_t)sb.st_size > max)
        st = tt_fail_at(err, TT_ERR_CORRUPT, name, -1, "is too large for what it should be");
    else if (buf == NULL)
        st = tt_fail_at(err, TT_ERR_NOMEM, name, -1, "out of memory for %zu bytes", size);
    else
        st = read_some(io, fd, name, buf, size, 0, &got, err);
    close(fd);
    if (st != TT_OK) {
        free(buf);
        return st;
    }
    *bytes = buf;
    *n = got;
    return TT_OK;
}
