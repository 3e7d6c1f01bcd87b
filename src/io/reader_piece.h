/* reader_piece.h: what every reader does alike with a part of a read.
 *
 * Owns:      the cut into pieces, taking them from the page cache, the judgement of what the
 *            kernel returned.
 * Not here:  descriptors (reader_files.h), queues and threads.
 * Laws:      (1) a piece moves on by whole TT_IO_ALIGN when it goes around the page cache;  (2) a
 *            piece whose mirror fails goes on with the file;  (3) a piece whose file system refuses
 *            O_DIRECT goes on through the page cache and gives the pages back;  (4) a kernel that
 *            says "again" without end is a failure, not a loop.
 * Threads:   a piece belongs to one thread at a time.
 */
#ifndef TT_IO_READER_PIECE_H
#define TT_IO_READER_PIECE_H

#include "io/reader_files.h"

typedef struct tt_piece {
    tt_read *rd;
    uint64_t begin, at, end; /* of the read: where it began, how far it is */
    uint8_t copy;            /* 0: the file, 1: its mirror */
    bool buffered;
    bool warm; /* its pages were in the page cache before it came: they stay */
    uint16_t stalls;
    int failed_errno; /* after TT_PIECE_FAILED; 0: the file ended */
    uint64_t failed_at;
} tt_piece;

typedef enum tt_piece_step { TT_PIECE_DONE, TT_PIECE_GO_ON, TT_PIECE_FAILED } tt_piece_step;

/* The next piece of a read, at most `most` bytes. rd->issued stays. */
tt_piece tt_piece_next(tt_reader_files *f, tt_read *rd, bool direct, uint32_t most);
bool tt_piece_cached(const tt_reader_files *f, const tt_piece *p);
/* Takes what the page cache holds of a piece, from its start, and moves the piece on. */
void tt_piece_take_cached(const tt_reader_files *f, tt_piece *p, tt_reader_stats *s);
/* Where [at, end) is to be read, as the index tt_piece_slot(file, copy, buffered) and as fd. */
static inline uint32_t tt_piece_slot(uint32_t file, unsigned copy, bool buffered)
{
    return file * 4 + copy * 2 + buffered;
}
int tt_piece_fd(const tt_reader_files *f, const tt_piece *p);
static inline uint64_t tt_piece_offset(const tt_piece *p)
{
    return p->rd->offset + p->at;
}
static inline char *tt_piece_dst(const tt_piece *p)
{
    return (char *)p->rd->dst + p->at;
}
/* What to do after the kernel returned `res` (bytes or -errno) for [at, end). */
tt_piece_step tt_piece_judge(tt_reader_files *f, tt_piece *p, long res, tt_reader_stats *s);
/* The rest of a piece on the calling thread: DONE or FAILED. */
tt_piece_step tt_piece_run(tt_reader_files *f, tt_piece *p, tt_reader_stats *s);
/* Notes the failure of a piece in its read, unless one was noted before. */
void tt_piece_fail(const tt_piece *p);
void tt_reader_stats_add(tt_reader_stats *to, const tt_reader_stats *s);

#endif
