#include <stdio.h>
#include <stdlib.h>

#include "io/reader_piece.h"

typedef struct buffered {
    tt_reader base;
    tt_reader_files *files;
    uint32_t piece_bytes;
    tt_reader_stats stats;
} buffered;

static tt_status buffered_start(tt_reader *r, tt_read *rd, tt_error *err)
{
    return tt_reader_files_start(((buffered *)r)->files, rd, err);
}

static tt_status buffered_wait(tt_reader *r, tt_read *rd, tt_error *err)
{
    buffered *b = (buffered *)r;
    if (rd->state != TT_READ_QUEUED)
        return tt_reader_files_result(b->files, rd, err);
    while (rd->status == TT_OK && rd->issued < rd->bytes) {
        tt_piece p = tt_piece_next(b->files, rd, false, b->piece_bytes);
        if (tt_piece_run(b->files, &p, &b->stats) == TT_PIECE_FAILED)
            tt_piece_fail(&p);
        rd->issued = p.end;
    }
    rd->state = TT_READ_DONE;
    tt_reader_files_finish(b->files, rd, &b->stats);
    return tt_reader_files_result(b->files, rd, err);
}

static void buffered_stats(const tt_reader *r, tt_reader_stats *out)
{
    const buffered *b = (const buffered *)r;
    tt_reader_files_stats(b->files, &b->stats, out);
}

static const char *buffered_path(const tt_reader *r, uint32_t file)
{
    return tt_reader_files_path(((const buffered *)r)->files, file);
}

static void buffered_close(tt_reader *r)
{
    buffered *b = (buffered *)r;
    tt_reader_files_close(&b->files);
    free(b);
}

static const tt_reader_ops buffered_ops = {
    .name = "buffered",
    .start = buffered_start,
    .wait = buffered_wait,
    .stats = buffered_stats,
    .path = buffered_path,
    .close = buffered_close,
};

tt_status tt_reader_buffered_create(tt_reader_files **files, uint32_t piece_bytes, tt_reader **out,
                                    tt_error *err)
{
    buffered *b = calloc(1, sizeof *b);
    if (b == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a reader");
    b->base.ops = &buffered_ops;
    b->files = *files;
    b->piece_bytes = piece_bytes;
    tt_reader_files_describe(b->files, "buffered", false, piece_bytes, b->base.describe);
    *files = NULL;
    *out = &b->base;
    return TT_OK;
}
