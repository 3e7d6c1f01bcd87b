/* file.h: small files read whole, exact reads at an offset, files published whole, directories.
 *
 * Owns:      EINTR and short-read loops, the write-fsync-rename order.
 * Not here:  expert reads (io/), the layout of any file.
 * Laws:      (1) sizes are compared with a bound before memory is taken;  (2) a published file is
 *            complete or absent;  (3) every path is opened with O_CLOEXEC; regular files only.
 * Threads:   all functions are reentrant.
 */
#ifndef TT_BASE_FILE_H
#define TT_BASE_FILE_H

#include "base/limits.h"
#include "base/status.h"

/* Whole regular file of at most `max` bytes, allocated (tt_free) and NUL-terminated one past *len.
 */
TT_MUST_CHECK tt_status tt_file_read(const char *path, size_t max, char **bytes, size_t *len,
                                     tt_error *err);
/* Opens a regular file for reading and tells its size. */
TT_MUST_CHECK tt_status tt_file_open(const char *path, int *fd, uint64_t *size, tt_error *err);
/* Exactly n bytes at `offset`; an end of file before that is TT_ERR_FORMAT "truncated". `path` is
 * for errors. */
TT_MUST_CHECK tt_status tt_file_pread(int fd, const char *path, void *buf, size_t n,
                                      uint64_t offset, tt_error *err);
TT_MUST_CHECK tt_status tt_file_pwrite(int fd, const char *path, const void *buf, size_t n,
                                       uint64_t offset, tt_error *err);
/* Creates "PATH.tmp.PID" for writing, anew: never through a link, a pipe or a file that was there.
 * `path` is shorter than TT_MAX_PATH. A descriptor, or -1 with errno. */
int tt_file_create_beside(const char *path, char tmp[TT_MAX_PATH + 32]);
/* Whether a file may be written at `path`: nothing is there, or an empty regular file, or one that
 * begins with these n bytes (64 at most; 0: any regular file), which is what `what` names ("a heat
 * profile"). Otherwise TT_ERR_EXISTS. */
TT_MUST_CHECK tt_status tt_file_check_replaced(const char *path, const char *what,
                                               const void *magic, size_t n, tt_error *err);
/* Writes `path` by way of a temporary sibling: write, fsync, rename, fsync of the directory. Mode
 * 0644. What is there and no regular file is not replaced. */
TT_MUST_CHECK tt_status tt_file_publish(const char *path, const void *bytes, size_t n,
                                        tt_error *err);
/* SHA-256 of a whole file in one bounded buffer. `progress` (may be NULL) counts bytes against
 * `size`. */
TT_MUST_CHECK tt_status tt_file_sha256(const char *path, char hex[65], uint64_t *size,
                                       tt_progress_fn progress, void *ctx, tt_error *err);
bool tt_file_exists(const char *path);
bool tt_dir_exists(const char *path);
/* Makes the directory (0755); one that exists is fine. */
TT_MUST_CHECK tt_status tt_dir_make(const char *path, tt_error *err);
/* Makes the directories that `path` lies in. */
TT_MUST_CHECK tt_status tt_dir_make_above(const char *path, tt_error *err);
/* fsync of a directory, so that renames in it survive. */
TT_MUST_CHECK tt_status tt_dir_sync(const char *path, tt_error *err);
/* Removes a directory and everything below it; follows no links. A missing one is fine. */
TT_MUST_CHECK tt_status tt_dir_remove(const char *path, tt_error *err);
/* "dir/name" into `out` of TT_MAX_PATH bytes. */
TT_MUST_CHECK tt_status tt_path_join(char *out, const char *dir, const char *name, tt_error *err);

#endif
