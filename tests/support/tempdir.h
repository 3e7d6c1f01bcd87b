/* tempdir.h: a directory for one test, removed with everything in it.
 *
 * Owns:      the directory between make and remove.
 * Not here:  what tests put there.
 * Laws:      failures end the test program: nothing can be tested without a place for files.
 * Threads:   any.
 */
#ifndef TT_TEST_TEMPDIR_H
#define TT_TEST_TEMPDIR_H

#include <stddef.h>

/* Makes a directory below TMPDIR or /tmp; its path is written to `path`. */
void tempdir_make(char path[512]);
void tempdir_remove(const char *path);
/* Writes "dir/name" to `path` (600 bytes) and the bytes into that file. */
void tempdir_file(const char *dir, const char *name, const void *bytes, size_t n, char path[600]);

#endif
