/* reader.h: how expert bytes come from files into slots.
 *
 * Owns:      the interface; open descriptors belong to the implementation.
 * Not here:  which bytes are wanted (expert_cache.h), what they mean.
 * Laws:      (1) a read that was started completes exactly once, with TT_OK only when every byte
 *            is there;  (2) EINTR and short reads never surface;  (3) the first error of a read
 *            wins;  (4) the destination is not touched after completion.
 * Threads:   start and wait from one caller thread; implementations may have threads of their own.
 */
#ifndef TT_IO_READER_H
#define TT_IO_READER_H

#include "base/status.h"

typedef struct tt_reader tt_reader;

/* One read in flight; storage is the caller's and must stay until it completed. */
typedef struct tt_read {
    uint32_t file;
    uint64_t offset;
    uint64_t bytes;
    void *dst; /* aligned to TT_PAGE_ALIGN */
    /* private to the reader; zero before start */
    int state;
    tt_status status;
    uint64_t token;
} tt_read;

typedef struct tt_reader_ops {
    const char *name; /* "buffered", printed by --plan */
    tt_status (*start)(tt_reader *r, tt_read *rd, tt_error *err);
    tt_status (*wait)(tt_reader *r, tt_read *rd, tt_error *err); /* returns the read's status */
    const char *(*path)(const tt_reader *r, uint32_t file); /* for messages; owned by the reader */
    void (*close)(tt_reader *r);
} tt_reader_ops;

struct tt_reader {
    const tt_reader_ops *ops;
};

/* Plain reader: pread through the page cache on the calling thread, inside wait. `paths` are
 * borrowed for the call. */
TT_MUST_CHECK tt_status tt_reader_open_buffered(const char *const *paths, uint32_t n,
                                                tt_reader **out, tt_error *err);
void tt_reader_close(tt_reader **r);

#endif
