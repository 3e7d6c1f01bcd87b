#include "connect/connect_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "connect/settings_json.h"

#define COPIES 999

tt_status tt_connect_read(const char *path, tt_buf *text, bool *exists, tt_error *err)
{
    char *bytes = NULL;
    size_t len = 0;
    struct stat sb;
    *exists = stat(path, &sb) == 0;
    if (!*exists && errno == ENOENT && lstat(path, &sb) == 0)
        return tt_fail_at(
            err, TT_ERR_NOT_FOUND, path, -1,
            "it is a link that leads to nothing: remove it, or make what it leads to; "
            "left as it is");
    if (!*exists && errno == ENOENT)
        return TT_OK;
    TT_TRY(tt_file_read(path, TT_SETTINGS_MAX, &bytes, &len, err));
    tt_buf_append(text, bytes, len);
    tt_free(bytes);
    return tt_buf_status(text, err);
}

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, bytes, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        bytes += k;
        n -= (size_t)k;
    }
    return true;
}

/* PATH.before-tinytitan, or the first of its kind that is free. */
static tt_status keep_copy(const char *path, mode_t mode, const char *bytes, size_t n, char *copy,
                           tt_error *err)
{
    int fd = -1;
    for (int i = 1; fd < 0 && i <= COPIES; i++) {
        snprintf(copy, TT_MAX_PATH + 64, i == 1 ? "%s.before-tinytitan" : "%s.before-tinytitan.%d",
                 path, i);
        fd = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
        if (fd < 0 && errno != EEXIST)
            return tt_fail_errno(err, errno, copy, "what is there cannot be kept");
    }
    if (fd < 0)
        return tt_fail_at(err, TT_ERR_EXISTS, copy, -1, "there are %d copies: remove some", COPIES);
    bool ok = fchmod(fd, mode & 0777) == 0 && write_all(fd, bytes, n) && fsync(fd) == 0;
    int e = errno;
    close(fd);
    if (ok)
        return TT_OK;
    unlink(copy);
    return tt_fail_errno(err, e, copy, "what is there cannot be kept");
}

static tt_status replace(const char *path, mode_t mode, const tt_buf *text, tt_error *err)
{
    char tmp[TT_MAX_PATH + 32];
    int fd = tt_file_create_beside(path, tmp);
    if (fd < 0)
        return tt_fail_errno(err, errno, path, "cannot be written");
    bool ok =
        fchmod(fd, mode & 0777) == 0 && write_all(fd, text->data, text->len) && fsync(fd) == 0;
    int e = errno;
    close(fd);
    if (ok && rename(tmp, path) == 0)
        return TT_OK;
    e = ok ? errno : e;
    unlink(tmp);
    return tt_fail_errno(err, e, path, "cannot be written");
}

tt_status tt_connect_write(const char *path, const tt_buf *text, char *copy, tt_error *err)
{
    tt_buf old;
    struct stat sb;
    char real[TT_MAX_PATH];
    bool exists = false;
    copy[0] = '\0';
    TT_TRY(tt_dir_make_above(path, err));
    tt_buf_init(&old, TT_SETTINGS_MAX);
    TT_TRY(tt_connect_read(path, &old, &exists, err));
    /* What links lead to is replaced, and they lead to it still. */
    char *resolved = exists ? realpath(path, NULL) : NULL;
    snprintf(real, sizeof real, "%s", resolved != NULL ? resolved : path);
    free(resolved);
    mode_t mode = exists && stat(real, &sb) == 0 ? sb.st_mode : 0600;
    tt_status st = exists ? keep_copy(path, mode, old.data, old.len, copy, err) : TT_OK;
    if (st == TT_OK)
        st = replace(real, mode, text, err);
    tt_buf_free(&old);
    return st;
}
