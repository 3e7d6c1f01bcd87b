#include "io/reader_piece.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

#define MOST_STALLS 1000 /* "again" in a row for one piece */

tt_piece tt_piece_next(tt_reader_files *f, tt_read *rd, bool direct, uint32_t most)
{
    tt_reader_files_choose(f, rd);
    uint64_t left = rd->bytes - rd->issued;
    tt_piece p = {.rd = rd, .begin = rd->issued, .at = rd->issued};
    p.end = rd->issued + (left < most ? left : most);
    p.copy = rd->copy == 2 && !atomic_load(&f->mirror_lost);
    p.buffered = !direct || f->file[rd->file].copy[p.copy].direct < 0;
    return p;
}

bool tt_piece_cached(const tt_reader_files *f, const tt_piece *p)
{
    return tt_reader_files_cached(f, p->rd->file, tt_piece_offset(p), p->end - p->at);
}

void tt_piece_take_cached(const tt_reader_files *f, tt_piece *p, tt_reader_stats *s)
{
    struct iovec v = {tt_piece_dst(p), p->end - p->at};
    double begin = tt_now();
    ssize_t n =
        preadv2(f->file[p->rd->file].copy[0].cached, &v, 1, (off_t)tt_piece_offset(p), RWF_NOWAIT);
    s->kernel_seconds += tt_now() - begin;
    p->warm = true;
    if (n <= 0)
        return; /* the pages went meanwhile: the disk has them */
    uint64_t taken = (uint64_t)n / TT_IO_ALIGN * TT_IO_ALIGN;
    s->bytes_cached += taken;
    p->at += taken;
    p->begin = p->at;
}

int tt_piece_fd(const tt_reader_files *f, const tt_piece *p)
{
    const tt_file_copy *c = &f->file[p->rd->file].copy[p->copy];
    return p->buffered ? c->cached : c->direct;
}

/* What the piece brought into the page cache stands in its slot now. */
static void give_pages_back(const tt_reader_files *f, const tt_piece *p)
{
    (void)posix_fadvise(f->file[p->rd->file].copy[p->copy].cached,
                        (off_t)(p->rd->offset + p->begin), (off_t)(p->end - p->begin),
                        POSIX_FADV_DONTNEED);
}

static tt_piece_step failed(tt_reader_files *f, tt_piece *p, int errnum, uint64_t at,
                            tt_reader_stats *s)
{
    if (p->copy == 0) {
        p->failed_errno = errnum;
        p->failed_at = at;
        return TT_PIECE_FAILED;
    }
    tt_reader_files_lose_mirror(f, p->rd->file, errnum, at);
    p->copy = 0;
    p->at = p->at / TT_IO_ALIGN * TT_IO_ALIGN;
    p->buffered = f->file[p->rd->file].copy[0].direct < 0;
    p->stalls = 0;
    s->retries++;
    return TT_PIECE_GO_ON;
}

static tt_piece_step moved_on(tt_reader_files *f, tt_piece *p, uint64_t n, tt_reader_stats *s)
{
    uint64_t at = p->at + n;
    s->bytes_disk += n;
    s->bytes_mirror += p->copy == 1 ? n : 0;
    p->stalls = 0;
    if (at >= p->end) {
        p->at = p->end;
        if (p->buffered && !p->warm)
            give_pages_back(f, p);
        return TT_PIECE_DONE;
    }
    s->short_reads++;
    if (!p->buffered)
        at = at / TT_IO_ALIGN * TT_IO_ALIGN;
    /* Around the page cache only the end of a file makes less than a block. */
    if (at == p->at)
        return failed(f, p, 0, tt_piece_offset(p) + n, s);
    p->at = at;
    return TT_PIECE_GO_ON;
}

tt_piece_step tt_piece_judge(tt_reader_files *f, tt_piece *p, long res, tt_reader_stats *s)
{
    if (res > 0)
        return moved_on(f, p, (uint64_t)res, s);
    if (res == 0)
        return failed(f, p, 0, tt_piece_offset(p), s);
    /* A ring cancels what a thread that ended had in flight: asked again, it is read. */
    bool again = res == -EINTR || res == -EAGAIN || res == -ECANCELED;
    if (again && ++p->stalls < MOST_STALLS) {
        s->retries++;
        return TT_PIECE_GO_ON;
    }
    if (res == -EINVAL && !p->buffered) {
        p->buffered = true;
        s->retries++;
        return TT_PIECE_GO_ON;
    }
    return failed(f, p, (int)-res, tt_piece_offset(p), s);
}

tt_piece_step tt_piece_run(tt_reader_files *f, tt_piece *p, tt_reader_stats *s)
{
    if (tt_piece_cached(f, p))
        tt_piece_take_cached(f, p, s);
    if (p->at == p->end)
        return TT_PIECE_DONE;
    s->pieces++;
    tt_piece_step step = TT_PIECE_GO_ON;
    while (step == TT_PIECE_GO_ON) {
        double begin = tt_now();
        ssize_t n =
            pread(tt_piece_fd(f, p), tt_piece_dst(p), p->end - p->at, (off_t)tt_piece_offset(p));
        long res = n < 0 ? -errno : (long)n;
        s->kernel_seconds += tt_now() - begin;
        step = tt_piece_judge(f, p, res, s);
    }
    return step;
}

void tt_piece_fail(const tt_piece *p)
{
    tt_read *rd = p->rd;
    if (rd->status != TT_OK)
        return;
    rd->failed_errno = p->failed_errno;
    rd->failed_at = p->failed_at;
    rd->status =
        p->failed_errno == 0 ? TT_ERR_FORMAT : tt_fail_errno(NULL, p->failed_errno, NULL, "read");
}

void tt_reader_stats_add(tt_reader_stats *to, const tt_reader_stats *s)
{
    to->reads += s->reads;
    to->failed_reads += s->failed_reads;
    to->bytes_disk += s->bytes_disk;
    to->bytes_mirror += s->bytes_mirror;
    to->bytes_cached += s->bytes_cached;
    to->pieces += s->pieces;
    to->short_reads += s->short_reads;
    to->retries += s->retries;
    to->kernel_seconds += s->kernel_seconds;
}
