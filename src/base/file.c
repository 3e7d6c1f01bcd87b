#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/limits.h"

tt_status tt_file_open(const char *path, int *fd_out, uint64_t *size, tt_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tt_fail_errno(err, errno, path, "cannot open %s", path);
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
        int e = errno;
        close(fd);
        return tt_fail_errno(err, e, path, "cannot stat %s", path);
    }
    if (!S_ISREG(sb.st_mode)) {
        close(fd);
        return tt_fail_at(err, TT_ERR_IO, path, -1, "%s is not a regular file", path);
    }
    *fd_out = fd;
    if (size != NULL)
        *size = (uint64_t)sb.st_size;
    return TT_OK;
}

tt_status tt_file_pread(int fd, const char *path, void *buf, size_t n, uint64_t offset,
                        tt_error *err)
{
    char *p = buf;
    size_t done = 0;
    while (done < n) {
        ssize_t r = pread(fd, p + done, n - done, (off_t)(offset + done));
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return tt_fail_errno(err, errno, path, "read of %zu bytes at offset %llu failed", n,
                                 (unsigned long long)offset);
        if (r == 0)
            return tt_fail_at(
                err, TT_ERR_FORMAT, path, (int64_t)(offset + done),
                "file is truncated: wanted %zu bytes at offset %llu, it ends after %zu", n,
                (unsigned long long)offset, done);
        done += (size_t)r;
    }
    return TT_OK;
}

tt_status tt_file_pwrite(int fd, const char *path, const void *buf, size_t n, uint64_t offset,
                         tt_error *err)
{
    const char *p = buf;
    size_t done = 0;
    while (done < n) {
        ssize_t r = pwrite(fd, p + done, n - done, (off_t)(offset + done));
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return tt_fail_errno(err, errno, path, "write of %zu bytes at offset %llu failed", n,
                                 (unsigned long long)offset);
        done += (size_t)r;
    }
    return TT_OK;
}

tt_status tt_file_read(const char *path, size_t max, char **bytes, size_t *len, tt_error *err)
{
    int fd = -1;
    uint64_t size = 0;
    TT_TRY(tt_file_open(path, &fd, &size, err));
    tt_status st = TT_OK;
    char *buf = NULL;
    if (size > max)
        st =
            tt_fail_at(err, TT_ERR_LIMIT, path, -1, "file has %llu bytes, at most %zu are accepted",
                       (unsigned long long)size, max);
    else if ((buf = malloc(size + 1)) == NULL)
        st = tt_fail_at(err, TT_ERR_NOMEM, path, -1, "out of memory for %llu bytes",
                        (unsigned long long)size);
    else
        st = tt_file_pread(fd, path, buf, size, 0, err);
    close(fd);
    if (st != TT_OK) {
        free(buf);
        return st;
    }
    buf[size] = '\0';
    *bytes = buf;
    *len = size;
    return TT_OK;
}

tt_status tt_path_join(char *out, const char *dir, const char *name, tt_error *err)
{
    int n = snprintf(out, TT_MAX_PATH, "%s/%s", dir, name);
    if (n < 0 || (unsigned)n >= TT_MAX_PATH)
        return tt_fail_at(err, TT_ERR_LIMIT, dir, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    return TT_OK;
}

tt_status tt_dir_make_above(const char *path, tt_error *err)
{
    char folder[TT_MAX_PATH];
    if (strlen(path) >= sizeof folder)
        return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    for (const char *s = strchr(path + 1, '/'); s != NULL; s = strchr(s + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(s - path), path);
        if (!tt_dir_exists(folder))
            TT_TRY(tt_dir_make(folder, err));
    }
    return TT_OK;
}

tt_status tt_dir_sync(const char *path, tt_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tt_fail_errno(err, errno, path, "cannot open directory %s", path);
    int rc = fsync(fd), e = errno;
    close(fd);
    /* Some file systems have no fsync for directories; that is not a failure of ours. */
    if (rc != 0 && e != EINVAL)
        return tt_fail_errno(err, e, path, "cannot sync directory %s", path);
    return TT_OK;
}

int tt_file_create_beside(const char *path, char tmp[TT_MAX_PATH + 32])
{
    snprintf(tmp, TT_MAX_PATH + 32, "%s.tmp.%ld", path, (long)getpid());
    /* What stands there is a dead process's, or a link or pipe that somebody has laid. */
    (void)unlink(tmp);
    return open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

tt_status tt_file_check_replaced(const char *path, const char *what, const void *magic, size_t n,
                                 tt_error *err)
{
    struct stat sb;
    char head[64];
    if (lstat(path, &sb) != 0)
        return TT_OK;
    if (!S_ISREG(sb.st_mode))
        return tt_fail_at(
            err, TT_ERR_EXISTS, path, -1,
            "is there and no regular file, it will not be replaced; name another file");
    if (n == 0 || sb.st_size == 0)
        return TT_OK;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool same = fd >= 0 && n <= sizeof head && pread(fd, head, n, 0) == (ssize_t)n &&
                memcmp(head, magic, n) == 0;
    if (fd >= 0)
        close(fd);
    if (same)
        return TT_OK;
    return tt_fail_at(
        err, TT_ERR_EXISTS, path, -1,
        "is there and not %s, it will not be replaced; name another file or remove it", what);
}

tt_status tt_file_publish(const char *path, const void *bytes, size_t n, tt_error *err)
{
    char tmp[TT_MAX_PATH + 32], dir[TT_MAX_PATH];
    if (strlen(path) >= TT_MAX_PATH)
        return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    TT_TRY(tt_file_check_replaced(path, "", NULL, 0, err));
    int fd = tt_file_create_beside(path, tmp);
    if (fd < 0)
        return tt_fail_errno(err, errno, path, "cannot create %s", tmp);
    tt_status st = tt_file_pwrite(fd, path, bytes, n, 0, err);
    if (st == TT_OK && fsync(fd) != 0)
        st = tt_fail_errno(err, errno, path, "cannot sync %s", tmp);
    if (close(fd) != 0 && st == TT_OK)
        st = tt_fail_errno(err, errno, path, "cannot close %s", tmp);
    if (st == TT_OK && rename(tmp, path) != 0)
        st = tt_fail_errno(err, errno, path, "cannot rename %s", tmp);
    if (st != TT_OK) {
        unlink(tmp);
        return st;
    }
    snprintf(dir, sizeof dir, "%s", path);
    return tt_dir_sync(dirname(dir), err);
}

tt_status tt_file_sha256(const char *path, char hex[65], uint64_t *size_out,
                         tt_progress_fn progress, void *ctx, tt_error *err)
{
    int fd = -1;
    uint64_t size = 0;
    tt_sha256 *sha = NULL;
    const size_t step = 1 << 20;
    char *buf = malloc(step);
    tt_status st = TT_OK;
    if (buf == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a %zu-byte buffer", step);
    TT_GOTO(tt_file_open(path, &fd, &size, err), out);
    TT_GOTO(tt_sha256_create(&sha, err), out);
    for (uint64_t done = 0; done < size;) {
        size_t n = size - done < step ? (size_t)(size - done) : step;
        TT_GOTO(tt_file_pread(fd, path, buf, n, done, err), out);
        TT_GOTO(tt_sha256_update(sha, buf, n, err), out);
        done += n;
        if (progress != NULL && !progress(ctx, done, size)) {
            st = tt_fail_at(err, TT_ERR_ABORTED, path, -1, "stopped while hashing %s", path);
            goto out;
        }
    }
    TT_GOTO(tt_sha256_finish(sha, hex, err), out);
    if (size_out != NULL)
        *size_out = size;
out:
    tt_sha256_close(&sha);
    if (fd >= 0)
        close(fd);
    free(buf);
    return st;
}

bool tt_file_exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISREG(sb.st_mode);
}

bool tt_dir_exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

tt_status tt_dir_make(const char *path, tt_error *err)
{
    if (mkdir(path, 0755) != 0 && !(errno == EEXIST && tt_dir_exists(path)))
        return tt_fail_errno(err, errno, path, "cannot make directory %s", path);
    return TT_OK;
}

static int remove_one(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    (void)sb;
    (void)type;
    (void)ftw;
    return remove(path);
}

tt_status tt_dir_remove(const char *path, tt_error *err)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return tt_fail_errno(err, errno, path, "cannot remove %s", path);
    return TT_OK;
}
