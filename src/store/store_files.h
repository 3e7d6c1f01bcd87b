/* store_files.h: the directory of prompt state and its files, through calls that tests replace.
 *
 * Owns:      who may have the directory, its lock, whole files written and read.
 * Not here:  what is in them (store_format.h), which there are (state_store.h).
 * Laws:      (1) nothing follows a link;  (2) a file has its name only when all of it is written
 *            and synced;  (3) what failed leaves no file.
 * Threads:   reentrant; one writer a name.
 */
#ifndef TT_STORE_STORE_FILES_H
#define TT_STORE_STORE_FILES_H

#include <sys/types.h>

#include "store/store_format.h"

/* Calls of the system on files of one directory; each returns -1 with errno when it fails. */
typedef struct tt_store_io {
    void *ctx;
    int (*create)(void *ctx, int dir, const char *name); /* new, mode 0600: a descriptor */
    int (*open)(void *ctx, int dir, const char *name);   /* to read a regular file */
    ssize_t (*read)(void *ctx, int fd, void *buf, size_t n, uint64_t at);
    ssize_t (*write)(void *ctx, int fd, const void *buf, size_t n, uint64_t at);
    int (*sync)(void *ctx, int fd);
    int (*rename)(void *ctx, int dir, const char *from, const char *to);
    int (*remove)(void *ctx, int dir, const char *name);
} tt_store_io;

extern const tt_store_io tt_store_system_io;

/* Makes the directory (0700) where there is none, and opens it. One that is another user's, or that
 * others may write to, is TT_ERR_INVALID, and so is one that is neither empty nor was used before.
 * One that others may enter is closed to them. */
TT_MUST_CHECK tt_status tt_store_dir_open(const char *path, int *dir, tt_error *err);
/* TT_ERR_STATE when another process has it. */
TT_MUST_CHECK tt_status tt_store_dir_lock(int dir, const char *path, int *lock, tt_error *err);

/* Asked between two pieces of a file; false gives the file up (TT_ERR_ABORTED). */
typedef bool (*tt_store_go_on)(void *ctx);

/* Head and payload into `name` by way of "name.tmp"; at most 64 MiB of it are not synced at any
 * time. `go_on` may be NULL. */
TT_MUST_CHECK tt_status tt_store_file_write(const tt_store_io *io, int dir, const char *name,
                                            const void *head, size_t head_bytes,
                                            const void *payload, size_t bytes, tt_store_go_on go_on,
                                            void *ctx, tt_error *err);
/* Exactly a head and `bytes` of payload, which is all that the file has (else TT_ERR_CORRUPT). */
TT_MUST_CHECK tt_status tt_store_file_read(const tt_store_io *io, int dir, const char *name,
                                           uint8_t head[TT_STORE_HEAD], void *payload, size_t bytes,
                                           tt_error *err);
/* A whole file of at most `max` bytes, allocated. TT_ERR_NOT_FOUND when there is none. */
TT_MUST_CHECK tt_status tt_store_file_load(const tt_store_io *io, int dir, const char *name,
                                           size_t max, uint8_t **bytes, size_t *n, tt_error *err);

#endif
