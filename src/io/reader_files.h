/* reader_files.h: the descriptors of a reader.
 *
 * Owns:      two descriptors a file (around the page cache and through it), the same of the
 *            mirror, the question what the page cache holds, the choice between file and mirror.
 * Not here:  what becomes of a piece (reader_piece.h), how pieces reach the kernel
 *            (reader_uring.c, reader_pool.c, reader_buffered.c).
 * Laws:      (1) asking whether bytes are cached reads nothing and populates nothing;  (2) a
 *            mirror that is missing, differs in size or is the file itself is refused by name;
 *            (3) a mirror that was lost stays lost.
 * Threads:   tt_reader_files_cached and tt_reader_files_lose_mirror from any thread; the rest one
 *            at a time.
 */
#ifndef TT_IO_READER_FILES_H
#define TT_IO_READER_FILES_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/reader.h"

/* How the page cache is asked. preadv2(RWF_NOWAIT) alone will not do: on a miss Linux starts to
 * read ahead into the page cache. */
typedef enum tt_residency {
    TT_RESIDENCY_NONE,      /* it cannot be asked, so it is not used */
    TT_RESIDENCY_CACHESTAT, /* from Linux 6.5 */
    TT_RESIDENCY_MINCORE    /* of files that are one's own or writable */
} tt_residency;

typedef struct tt_file_copy {
    char *path;
    int direct; /* -1: O_DIRECT is refused */
    int cached;
} tt_file_copy;

typedef struct tt_reader_file {
    uint64_t size;
    tt_file_copy copy[2]; /* the file, its mirror (path NULL without) */
    void *map;            /* for mincore, or NULL */
} tt_reader_file;

typedef struct tt_reader_files {
    uint32_t n;
    tt_reader_file *file;
    bool direct; /* O_DIRECT works on the first file */
    bool skip_page_cache;
    tt_residency residency;
    char system[32]; /* file system of the first file */
    char mirror_dir[96];
    bool mirror;
    atomic_bool mirror_lost;
    pthread_mutex_t lock; /* of note */
    char note[256];
    uint64_t busy[2]; /* bytes of reads that are not complete, by copy */
    uint8_t turn;     /* copy that was chosen last */
} tt_reader_files;

TT_MUST_CHECK tt_status tt_reader_files_open(const char *const *paths, uint32_t n,
                                             const tt_reader_options *o, tt_reader_files **out,
                                             tt_error *err);
void tt_reader_files_close(tt_reader_files **f);
/* Path of a file, "" when there is none of that number. */
const char *tt_reader_files_path(const tt_reader_files *f, uint32_t file);
/* Name of the file system that holds `fd`, such as "ext4", else its magic number. */
void tt_file_system_name(int fd, char out[32]);

/* Checks what start was given and makes the read QUEUED. */
TT_MUST_CHECK tt_status tt_reader_files_start(tt_reader_files *f, tt_read *rd, tt_error *err);
/* The result of a read that is DONE, with the message of its failure. */
TT_MUST_CHECK tt_status tt_reader_files_result(const tt_reader_files *f, const tt_read *rd,
                                               tt_error *err);
/* Decides whether a read goes to the file or its mirror: to that which has less to do. */
void tt_reader_files_choose(tt_reader_files *f, tt_read *rd);
/* A read has come to its end: counts it. */
void tt_reader_files_finish(tt_reader_files *f, const tt_read *rd, tt_reader_stats *s);
/* Whether the page cache holds all of [offset, offset + bytes). */
bool tt_reader_files_cached(const tt_reader_files *f, uint32_t file, uint64_t offset,
                            uint64_t bytes);
/* `errnum` 0: the mirror's file ended early. */
void tt_reader_files_lose_mirror(tt_reader_files *f, uint32_t file, int errnum, uint64_t offset);
/* Counters with what is known here. */
void tt_reader_files_stats(tt_reader_files *f, const tt_reader_stats *s, tt_reader_stats *out);
/* "WHAT, pieces of N KiB, direct on ext4, ..." for tt_reader.describe. */
void tt_reader_files_describe(const tt_reader_files *f, const char *what, bool direct,
                              uint32_t piece_bytes, char out[TT_READER_TEXT]);

/* Each takes *files over on success. */
TT_MUST_CHECK tt_status tt_reader_uring_create(tt_reader_files **files, uint32_t depth,
                                               uint32_t piece_bytes, tt_reader **out,
                                               tt_error *err);
TT_MUST_CHECK tt_status tt_reader_pool_create(tt_reader_files **files, bool direct,
                                              uint32_t threads, uint32_t piece_bytes,
                                              tt_reader **out, tt_error *err);
TT_MUST_CHECK tt_status tt_reader_buffered_create(tt_reader_files **files, uint32_t piece_bytes,
                                                  tt_reader **out, tt_error *err);

#endif
