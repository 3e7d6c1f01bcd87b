/* reader.h: how expert bytes come from files into slots.
 *
 * Owns:      the interface, the state of one read, the counters; open descriptors belong to the
 *            implementation (reader_files.h).
 * Not here:  which bytes are wanted (expert_cache.h), what they mean.
 * Laws:      (1) a read that was started completes exactly once, with TT_OK only when every byte
 *            is there;  (2) EINTR and short reads never surface;  (3) the first error of a read
 *            wins;  (4) the destination is not touched after completion: what is in flight when a
 *            read fails is waited for first;  (5) reads are handed to the disk in the order of
 *            start, so that the earliest asked finish first;  (6) no allocation after open;
 *            (7) waiting sleeps in the kernel, nothing spins;  (8) pages that the page cache
 *            holds are taken from there, pages that it lacks are not left there.
 * States:    IDLE -start-> QUEUED -> DONE. A read becomes DONE inside flush, poll or wait, on the
 *            caller's thread, so that tt_read_done needs no lock.
 * Threads:   one call at a time, from any thread; implementations may have threads of their own.
 */
#ifndef TT_IO_READER_H
#define TT_IO_READER_H

#include "base/limits.h"
#include "base/status.h"

#define TT_IO_ALIGN        4096u  /* of offsets, lengths and destinations: O_DIRECT asks for it */
#define TT_IO_MAX_SLAB     TT_GIB /* the kernel registers at most this much as one buffer */
#define TT_IO_DEPTH        32u    /* default pieces in flight */
#define TT_IO_MAX_DEPTH    256u
#define TT_IO_PIECE        ((uint32_t)(512 * TT_KIB)) /* default bytes of a piece */
#define TT_IO_MIN_PIECE    ((uint32_t)(16 * TT_KIB))
#define TT_IO_MAX_PIECE    ((uint32_t)(16 * TT_MIB))
#define TT_IO_MAX_THREADS  64u
#define TT_READER_TEXT     192u
#define TT_READER_WARM_MAX (4 * TT_MIB) /* copied from the page cache by one flush or poll */

typedef struct tt_reader tt_reader;

enum { TT_READ_IDLE = 0, TT_READ_QUEUED, TT_READ_DONE };

/* One read in flight; storage is the caller's and must stay until it completed. */
typedef struct tt_read {
    uint32_t file;
    uint64_t offset;
    uint64_t bytes;
    void *dst; /* these three are multiples of TT_IO_ALIGN */
    /* private to the reader; zero before start */
    int state;
    tt_status status;
    uint64_t token;
    struct tt_read *next;
    uint64_t issued;    /* bytes from the start that were handed on */
    uint32_t pending;   /* pieces handed on and not back */
    uint8_t list;       /* which list it is in */
    uint8_t copy;       /* 0: not chosen, 1: the file, 2: its mirror */
    bool cold;          /* the page cache was asked for the next piece already */
    int failed_errno;   /* 0: the file ended */
    uint64_t failed_at; /* offset in the file */
} tt_read;

/* Counters since open. Of reads: those that completed. Bytes count what arrived, so after a failure
 * or a change of source their sum may pass the bytes of the reads. */
typedef struct tt_reader_stats {
    uint64_t reads, failed_reads;
    uint64_t bytes_disk;   /* from the files or their mirror, the mirror's share included */
    uint64_t bytes_mirror; /* of these, from the mirror */
    uint64_t bytes_cached; /* out of the page cache */
    uint64_t pieces;       /* requests to the disk, those asked again not counted */
    uint64_t short_reads, retries;
    double kernel_seconds; /* inside system calls, summed over threads */
    bool mirror_lost;      /* a read of the mirror failed; everything comes from the files since */
    char note[256];        /* why the mirror was lost, else "" */
} tt_reader_stats;

typedef struct tt_reader_ops {
    const char *name; /* "uring", "pool", "buffered" */
    /* Queues a read; fails only on wrong use. */
    tt_status (*start)(tt_reader *r, tt_read *rd, tt_error *err);
    /* Hands everything queued to the disk as far as the depth allows; may be NULL. */
    void (*flush)(tt_reader *r);
    /* Flushes, and marks reads that completed; may be NULL. */
    void (*poll)(tt_reader *r);
    /* Flushes, waits for one read and returns its status; again and again if asked again. */
    tt_status (*wait)(tt_reader *r, tt_read *rd, tt_error *err);
    /* See the functions below; may be NULL. */
    tt_status (*register_memory)(tt_reader *r, void *base, uint64_t bytes, tt_error *err);
    void (*forget_memory)(tt_reader *r, void *base);
    void (*stats)(const tt_reader *r, tt_reader_stats *out);
    const char *(*path)(const tt_reader *r, uint32_t file); /* for messages; owned by the reader */
    /* Reads in flight are waited for, those that were only queued are forgotten. */
    void (*close)(tt_reader *r);
} tt_reader_ops;

struct tt_reader {
    const tt_reader_ops *ops;
    char describe[TT_READER_TEXT]; /* what was chosen and why, for --plan */
};

typedef enum tt_reader_kind {
    TT_READER_AUTO, /* the first of the others that works here */
    TT_READER_URING,
    TT_READER_POOL,
    TT_READER_BUFFERED
} tt_reader_kind;

typedef struct tt_reader_options {
    tt_reader_kind kind;
    uint32_t depth;         /* pieces in flight, 1..TT_IO_MAX_DEPTH; 0: TT_IO_DEPTH */
    uint32_t piece_bytes;   /* a multiple of TT_IO_ALIGN, MIN_PIECE..MAX_PIECE; 0: TT_IO_PIECE */
    uint32_t threads;       /* of pool and buffered, to TT_IO_MAX_THREADS; 0: the depth, 4 to 16 */
    const char *mirror_dir; /* a second copy of the files, by their names, or NULL */
    bool skip_page_cache;   /* measure the disk: do not look into the page cache */
} tt_reader_options;

/* "auto", "uring", "pool" or "buffered"; TT_ERR_INVALID for anything else. */
TT_MUST_CHECK tt_status tt_reader_kind_parse(const char *text, tt_reader_kind *kind, tt_error *err);
TT_MUST_CHECK tt_status tt_reader_options_check(const tt_reader_options *o, tt_error *err);

/* Opens a reader of files 0..n-1. With TT_READER_AUTO io_uring, threads with O_DIRECT and buffered
 * reads are tried in this order; a kind that was named and does not work is TT_ERR_UNSUPPORTED.
 * `paths` are borrowed for the call, `o` may be NULL. The mirror is looked for as MIRROR/name, then
 * as MIRROR/folder/name; a file of it that is missing or of another size is refused. */
TT_MUST_CHECK tt_status tt_reader_open(const char *const *paths, uint32_t n,
                                       const tt_reader_options *o, tt_reader **out, tt_error *err);
/* The plain reader: through the page cache on the calling thread, inside wait. */
TT_MUST_CHECK tt_status tt_reader_open_buffered(const char *const *paths, uint32_t n,
                                                tt_reader **out, tt_error *err);
void tt_reader_close(tt_reader **r);

void tt_reader_flush(tt_reader *r);
/* After it tt_read_done tells. Does not block; flush and poll copy at most TT_READER_WARM_MAX bytes
 * out of the page cache on the calling thread, so that compute is not held up. A reader without
 * threads completes reads in wait only. */
void tt_reader_poll(tt_reader *r);
static inline bool tt_read_done(const tt_read *rd)
{
    return rd->state == TT_READ_DONE;
}
/* Tells of memory that reads will go to, so that the kernel need not pin it for each of them: one
 * slab of at most TT_IO_MAX_SLAB; a destination inside lies wholly in one slab. Only wrong use
 * fails: where the kernel refuses, reads take the plain way and `describe` says so. */
TT_MUST_CHECK tt_status tt_reader_register_memory(tt_reader *r, void *base, uint64_t bytes,
                                                  tt_error *err);
/* Before a slab is unmapped or given back. Nothing may be in flight to it. */
void tt_reader_forget_memory(tt_reader *r, void *base);
void tt_reader_get_stats(const tt_reader *r, tt_reader_stats *out);

#endif
