#include "repack/target.h"

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
#include "base/hash.h"

#define PARTIAL ".partial-"
#define MARK    "published" /* digest of the manifest that is about to be renamed into place */

static tt_status too_long(const char *path, tt_error *err)
{
    return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes", TT_MAX_PATH - 1);
}

/* Splits off the last component and resolves the directory before it. */
static tt_status resolve(tt_target *t, const char *output, tt_error *err)
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
    if (len == 0 || strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return tt_fail(err, TT_ERR_INVALID, "\"%.200s\" is not a name for an install", output);
    const char *dir = slash == NULL ? "." : slash == copy ? "/" : copy;
    if (slash != NULL)
        *slash = '\0';
    char *real = realpath(dir, NULL);
    if (real == NULL)
        return tt_fail_errno(err, errno, dir, "cannot write into %s", dir);
    int n = snprintf(t->parent, sizeof t->parent, "%s", real);
    int m = snprintf(t->path, sizeof t->path, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name);
    free(real);
    if (n >= (int)sizeof t->parent || m >= (int)sizeof t->path - 64)
        return too_long(output, err);
    return TT_OK;
}

tt_status tt_target_locate(tt_target *t, const char *output, tt_error *err)
{
    *t = (tt_target){.lock = -1};
    return resolve(t, output, err);
}

tt_status tt_target_init(tt_target *t, const char *output, bool overwrite, tt_error *err)
{
    struct stat sb;
    char manifest[TT_MAX_PATH];
    TT_TRY(tt_target_locate(t, output, err));
    if (lstat(t->path, &sb) != 0)
        return errno == ENOENT ? TT_OK
                               : tt_fail_errno(err, errno, t->path, "cannot stat %s", t->path);
    if (!overwrite)
        return tt_fail_at(err, TT_ERR_EXISTS, t->path, -1,
                          "%s exists: give another name, or --overwrite to replace it", t->path);
    if (S_ISLNK(sb.st_mode))
        return tt_fail_at(err, TT_ERR_EXISTS, t->path, -1,
                          "%s is a symbolic link: give what it points to, or remove it", t->path);
    TT_TRY(tt_path_join(manifest, t->path, TT_MANIFEST_NAME, err));
    if (!S_ISDIR(sb.st_mode) || !tt_file_exists(manifest))
        return tt_fail_at(err, TT_ERR_EXISTS, t->path, -1,
                          "%s exists and is not an install (no " TT_MANIFEST_NAME
                          "): it will not be replaced",
                          t->path);
    t->replace = true;
    return TT_OK;
}

tt_status tt_target_space(const tt_target *t, uint64_t need, tt_error *err)
{
    struct statvfs vfs;
    if (statvfs(t->parent, &vfs) != 0)
        return tt_fail_errno(err, errno, t->parent, "cannot ask for the free space of %s",
                             t->parent);
    uint64_t have = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    if (have < need)
        return tt_fail_at(err, TT_ERR_NO_SPACE, t->parent, -1,
                          "the install needs %.2f GB (%llu bytes), %s has %.2f GB (%llu bytes) "
                          "free: free some, or write elsewhere",
                          (double)need / 1e9, (unsigned long long)need, t->parent,
                          (double)have / 1e9, (unsigned long long)have);
    return TT_OK;
}

/* A directory that a living conversion has locked is not taken. */
static void remove_leftover(const char *path, const tt_repack_events *ev)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && tt_dir_remove(path, NULL) == TT_OK)
        tt_note(ev, TT_NOTE_INFO, "removed %s, left over from an interrupted conversion", path);
    close(fd);
}

static void remove_leftovers(const tt_target *t, const tt_repack_events *ev)
{
    char stem[TT_MAX_PATH + 16], path[TT_MAX_PATH];
    snprintf(stem, sizeof stem, "%s" PARTIAL, strrchr(t->path, '/') + 1);
    DIR *dir = opendir(t->parent);
    if (dir == NULL)
        return;
    struct dirent *d;
    while ((d = readdir(dir)) != NULL)
        if (strncmp(d->d_name, stem, strlen(stem)) == 0 &&
            tt_path_join(path, t->parent, d->d_name, NULL) == TT_OK)
            remove_leftover(path, ev);
    closedir(dir);
}

tt_status tt_target_create(tt_target *t, const tt_repack_events *ev, tt_error *err)
{
    struct stat a, b;
    char name[TT_MAX_PATH + 32];
    remove_leftovers(t, ev);
    snprintf(name, sizeof name, "%s" PARTIAL "%ld", t->path, (long)getpid());
    if (strlen(name) >= sizeof t->partial)
        return too_long(name, err);
    if (mkdir(name, 0755) != 0)
        return tt_fail_errno(err, errno, name, "cannot make directory %s", name);
    strcpy(t->partial, name);
    t->lock = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* Between mkdir and flock another conversion may have taken it for a leftover. */
    if (t->lock < 0 || flock(t->lock, LOCK_EX | LOCK_NB) != 0 || fstat(t->lock, &a) != 0 ||
        stat(name, &b) != 0 || a.st_ino != b.st_ino)
        return tt_fail_errno(err, errno, name, "cannot lock %s", name);
    return TT_OK;
}

static bool work_path(const tt_target *t, char out[TT_MAX_PATH])
{
    return snprintf(out, TT_MAX_PATH, "%s.partial", t->path) < (int)TT_MAX_PATH - 64;
}

tt_target_work tt_target_find_work(const tt_target *t)
{
    char work[TT_MAX_PATH], path[TT_MAX_PATH], is[TT_SHA256_HEX], *mark = NULL;
    size_t len = 0;
    if (!work_path(t, work) || !tt_dir_exists(work))
        return TT_WORK_NONE;
    bool finished = tt_path_join(path, work, MARK, NULL) == TT_OK &&
                    tt_file_read(path, TT_SHA256_HEX, &mark, &len, NULL) == TT_OK &&
                    tt_path_join(path, t->path, TT_MANIFEST_NAME, NULL) == TT_OK &&
                    tt_file_sha256(path, is, NULL, NULL, NULL, NULL) == TT_OK &&
                    strcmp(mark, is) == 0;
    free(mark);
    return finished ? TT_WORK_FINISHED : TT_WORK_THERE;
}

tt_status tt_target_take_work(tt_target *t, tt_error *err)
{
    struct stat a, b;
    if (!work_path(t, t->work))
        return too_long(t->path, err);
    if (mkdir(t->work, 0755) != 0 && errno != EEXIST)
        return tt_fail_errno(err, errno, t->work, "cannot make directory %s", t->work);
    t->lock = open(t->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (t->lock < 0)
        return tt_fail_errno(err, errno, t->work, "cannot open %s", t->work);
    if (flock(t->lock, LOCK_EX | LOCK_NB) != 0 || fstat(t->lock, &a) != 0 ||
        stat(t->work, &b) != 0 || a.st_ino != b.st_ino) {
        close(t->lock);
        t->lock = -1;
        return tt_fail_at(err, TT_ERR_STATE, t->work, -1,
                          "another TinyTitanRepack works in %s: wait for it, or stop it", t->work);
    }
    TT_TRY(tt_path_join(t->partial, t->work, "install", err));
    return tt_dir_make(t->partial, err);
}

tt_status tt_target_discard(tt_target *t, tt_error *err)
{
    char manifest[TT_MAX_PATH];
    TT_TRY(tt_path_join(manifest, t->partial, TT_MANIFEST_NAME, err));
    unlink(manifest);
    TT_TRY(tt_dir_remove(t->work, err));
    t->work[0] = t->partial[0] = '\0';
    return tt_dir_sync(t->parent, err);
}

/* One step where the file system can exchange two names, so that a complete install stands there at
 * every moment; two steps where it cannot. The old install is then at t->partial. */
static tt_status replace(tt_target *t, tt_error *err)
{
    char old[TT_MAX_PATH + 8];
    if (renameat2(AT_FDCWD, t->partial, AT_FDCWD, t->path, RENAME_EXCHANGE) == 0)
        return TT_OK;
    snprintf(old, sizeof old, "%s-old", t->partial);
    if ((errno != EINVAL && errno != ENOSYS) || strlen(old) >= sizeof t->partial ||
        rename(t->path, old) != 0)
        return tt_fail_errno(err, errno, t->path, "cannot replace %s", t->path);
    if (rename(t->partial, t->path) != 0) {
        int e = errno;
        if (rename(old, t->path) != 0)
            return tt_fail_errno(err, e, t->path, "cannot replace %s, which is now %s", t->path,
                                 old);
        return tt_fail_errno(err, e, t->path, "cannot replace %s", t->path);
    }
    strcpy(t->partial, old);
    return TT_OK;
}

tt_status tt_target_publish(tt_target *t, tt_error *err)
{
    TT_TRY(tt_dir_sync(t->partial, err));
    if (t->work[0] != '\0') {
        /* Tells an installation that ended before its work directory was removed. */
        char mark[TT_MAX_PATH];
        TT_TRY(tt_path_join(mark, t->work, MARK, err));
        TT_TRY(tt_file_publish(mark, t->manifest_sha256, strlen(t->manifest_sha256), err));
    }
    if (t->replace) {
        TT_TRY(replace(t, err));
        TT_TRY(tt_dir_sync(t->parent, err));
        t->published = true;
        tt_target_drop(t);
        return TT_OK;
    }
    if (renameat2(AT_FDCWD, t->partial, AT_FDCWD, t->path, RENAME_NOREPLACE) != 0 &&
        ((errno != EINVAL && errno != ENOSYS) || rename(t->partial, t->path) != 0)) {
        if (errno == EEXIST || errno == ENOTEMPTY)
            return tt_fail_at(err, TT_ERR_EXISTS, t->path, -1,
                              "%s was made while this conversion ran, perhaps by another one: keep "
                              "it, or convert again with another name or --overwrite",
                              t->path);
        return tt_fail_errno(err, errno, t->path, "cannot rename %s to %s", t->partial, t->path);
    }
    t->partial[0] = '\0';
    t->published = true;
    TT_TRY(tt_dir_sync(t->parent, err));
    tt_target_drop(t);
    return TT_OK;
}

void tt_target_drop(tt_target *t)
{
    char manifest[TT_MAX_PATH];
    if (t->work[0] != '\0' && t->published && tt_dir_remove(t->work, NULL) != TT_OK)
        errno = 0;
    if (t->partial[0] != '\0' && t->work[0] == '\0') {
        /* Without its manifest it is no install, wherever the removal is interrupted. What cannot
         * be removed is left to the next conversion. */
        if (tt_path_join(manifest, t->partial, TT_MANIFEST_NAME, NULL) == TT_OK)
            unlink(manifest);
        if (tt_dir_remove(t->partial, NULL) != TT_OK)
            errno = 0;
    }
    t->partial[0] = '\0';
    if (t->lock >= 0)
        close(t->lock);
    t->lock = -1;
}
