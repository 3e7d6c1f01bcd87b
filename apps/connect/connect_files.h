/* connect_files.h: a settings file of another program, read, and written with what it was kept
 * beside it.
 *
 * Owns:      the order of reading, keeping a copy and replacing.
 * Not here:  what is changed in it.
 * Laws:      (1) a file is replaced whole or not at all;  (2) mode, and links that lead to it,
 *            stay;  (3) before anything is replaced it has a copy.
 * Threads:   any.
 */
#ifndef TT_CONNECT_CONNECT_FILES_H
#define TT_CONNECT_CONNECT_FILES_H

#include "base/buf.h"
#include "base/limits.h"

/* What stands there; a missing file is an empty text with *exists false. */
TT_MUST_CHECK tt_status tt_connect_read(const char *path, tt_buf *text, bool *exists,
                                        tt_error *err);
/* Writes it, its folders when they are missing, and where there was a file `copy` (TT_MAX_PATH + 64
 * bytes) receives the name of what is kept of it; else "". */
TT_MUST_CHECK tt_status tt_connect_write(const char *path, const tt_buf *text, char *copy,
                                         tt_error *err);

#endif
