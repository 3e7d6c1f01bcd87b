/* synth_out.h: the directory that a synthetic model is written into, and its large files.
 *
 * Owns:      the partial directory beside the target, its lock, free space, the final rename; files
 *            written front to back around the page cache and hashed on the way.
 * Not here:  what is in them.
 * Laws:      (1) the target is absent, or complete, or what it was before;  (2) only a directory
 *            that holds `marker` is ever replaced;  (3) leftovers of dead runs are removed, those
 *            of living ones are not.
 * Threads:   a directory has one; files are independent.
 */
#ifndef TT_BENCH_SYNTH_OUT_H
#define TT_BENCH_SYNTH_OUT_H

#include <stdatomic.h>

#include "base/hash.h"
#include "base/limits.h"

typedef struct synth_dir {
    char path[TT_MAX_PATH];    /* absolute, that it will have */
    char parent[TT_MAX_PATH];  /* where it stands */
    char partial[TT_MAX_PATH]; /* where it is written; "" before synth_dir_create */
    int lock;                  /* descriptor of `partial`, -1: none */
    bool replace;
} synth_dir;

/* Finds the place and checks that it is free, or may be replaced. */
TT_MUST_CHECK tt_status synth_dir_init(synth_dir *d, const char *output, const char *marker,
                                       bool overwrite, tt_error *err);
TT_MUST_CHECK tt_status synth_dir_space(const synth_dir *d, uint64_t need, tt_error *err);
TT_MUST_CHECK tt_status synth_dir_create(synth_dir *d, tt_error *err);
TT_MUST_CHECK tt_status synth_dir_publish(synth_dir *d, tt_error *err);
/* Removes what was not published. */
void synth_dir_drop(synth_dir *d);

typedef struct synth_file {
    int fd;
    char path[TT_MAX_PATH];
    unsigned char *buf;
    size_t len;  /* in buf */
    uint64_t at; /* bytes appended */
    tt_sha256 *sha;
    _Atomic uint64_t *done; /* bytes of the whole job */
    const _Atomic int *stop;
} synth_file;

/* What finish found. */
typedef struct synth_written {
    uint64_t size;
    int64_t mtime_ns;
    char sha256[TT_SHA256_HEX];
} synth_written;

TT_MUST_CHECK tt_status synth_file_create(synth_file *f, const char *path, _Atomic uint64_t *done,
                                          const _Atomic int *stop, tt_error *err);
/* Appends; TT_ERR_ABORTED when `stop` is set. */
TT_MUST_CHECK tt_status synth_file_append(synth_file *f, const void *bytes, uint64_t n,
                                          tt_error *err);
/* Appends zeros up to an offset. */
TT_MUST_CHECK tt_status synth_file_pad(synth_file *f, uint64_t offset, tt_error *err);
/* Syncs, and closes on success. */
TT_MUST_CHECK tt_status synth_file_finish(synth_file *f, synth_written *out, tt_error *err);
/* Closes without finishing. Harmless after finish. */
void synth_file_drop(synth_file *f);

#endif
