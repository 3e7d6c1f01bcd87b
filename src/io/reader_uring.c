/* One io_uring: pieces of the earliest reads first, up to `depth` in flight.
 *
 * A piece in flight has a slot, its number is the user data of its entry; an entry is in the ring
 * at most once, so the ring is never full. A read whose next piece the page cache holds goes to
 * `warm`, so that copying it holds neither the disk nor, beyond a bound, the caller up: flush and
 * poll copy TT_READER_WARM_MAX, wait copies while the disk works.
 *
 * The ring is made without IORING_SETUP_SINGLE_ISSUER: calls may come from one thread now and from
 * another later. */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "io/reader_piece.h"

#define MOST_SLABS    1024u /* TiB of slots */
#define MOST_REFUSALS 200u  /* "again" in a row from the ring itself, a millisecond apart */

enum { LIST_NONE, LIST_QUEUE, LIST_WARM };

typedef struct read_list {
    tt_read *head, *tail;
} read_list;

typedef struct slab {
    char *base; /* NULL: free */
    uint64_t bytes;
    bool registered;
} slab;

typedef struct uring {
    tt_reader base;
    tt_reader_files *files;
    struct io_uring ring;
    bool ring_made, fixed_files, fixed_buffers;
    bool broken; /* the ring refuses to work: the calling thread reads by itself */
    uint32_t refusals;
    uint32_t depth, piece_bytes;
    tt_piece piece[TT_IO_MAX_DEPTH];
    uint32_t spare[TT_IO_MAX_DEPTH], n_spare; /* free slots */
    read_list list[3];                        /* QUEUE: reads with pieces left; WARM */
    slab slabs[MOST_SLABS];
    uint32_t n_slabs;
    tt_reader_stats stats;
} uring;

/* ---- lists ---- */

static void push(uring *u, uint8_t list, tt_read *rd, bool front)
{
    read_list *l = &u->list[list];
    rd->list = list;
    rd->next = front ? l->head : NULL;
    if (l->head == NULL)
        l->head = l->tail = rd;
    else if (front)
        l->head = rd;
    else
        l->tail = l->tail->next = rd;
}

static void leave_list(uring *u, tt_read *rd)
{
    read_list *l = &u->list[rd->list];
    tt_read *before = NULL, *at = l->head;
    if (rd->list == LIST_NONE)
        return;
    while (at != rd) {
        before = at;
        at = at->next;
    }
    *(before != NULL ? &before->next : &l->head) = rd->next;
    if (l->tail == rd)
        l->tail = before;
    rd->next = NULL;
    rd->list = LIST_NONE;
}

/* ---- pieces ---- */

static void finish_if_whole(uring *u, tt_read *rd)
{
    if (rd->pending > 0 || rd->issued < rd->bytes || rd->state != TT_READ_QUEUED)
        return;
    rd->state = TT_READ_DONE;
    tt_reader_files_finish(u->files, rd, &u->stats);
}

static void fail_read(uring *u, const tt_piece *p)
{
    tt_piece_fail(p);
    leave_list(u, p->rd); /* the rest of it is not worth reading */
    p->rd->issued = p->rd->bytes;
}

static const slab *slab_of(const uring *u, const char *dst, uint64_t bytes)
{
    for (uint32_t i = 0; i < u->n_slabs; i++) {
        const slab *s = &u->slabs[i];
        if (s->registered && dst >= s->base && dst + bytes <= s->base + s->bytes)
            return s;
    }
    return NULL;
}

static void put_in_ring(uring *u, uint32_t slot)
{
    const tt_piece *p = &u->piece[slot];
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    char *dst = tt_piece_dst(p);
    unsigned bytes = (unsigned)(p->end - p->at);
    int fd = u->fixed_files ? (int)tt_piece_slot(p->rd->file, p->copy, p->buffered)
                            : tt_piece_fd(u->files, p);
    const slab *s = slab_of(u, dst, bytes);
    if (s != NULL)
        io_uring_prep_read_fixed(sqe, fd, dst, bytes, tt_piece_offset(p), (int)(s - u->slabs));
    else
        io_uring_prep_read(sqe, fd, dst, bytes, tt_piece_offset(p));
    if (u->fixed_files)
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, slot);
}

/* A piece that is over, well or not. */
static void piece_over(uring *u, uint32_t slot, tt_piece_step step)
{
    tt_piece *p = &u->piece[slot];
    tt_read *rd = p->rd;
    if (step == TT_PIECE_FAILED)
        fail_read(u, p);
    u->spare[u->n_spare++] = slot;
    rd->pending--;
    finish_if_whole(u, rd);
}

static void send_piece(uring *u, uint32_t slot)
{
    tt_piece *p = &u->piece[slot];
    if (u->broken)
        piece_over(u, slot, tt_piece_run(u->files, p, &u->stats));
    else
        put_in_ring(u, slot);
}

static void piece_back(uring *u, uint32_t slot, int res)
{
    tt_piece *p = &u->piece[slot];
    tt_piece_step step = tt_piece_judge(u->files, p, res, &u->stats);
    /* What is left of a piece of a read that failed is not worth reading either. */
    if (step == TT_PIECE_GO_ON && p->rd->status == TT_OK)
        send_piece(u, slot);
    else
        piece_over(u, slot, step);
}

static void reap(uring *u)
{
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&u->ring, &cqe) == 0) {
        uint32_t slot = (uint32_t)io_uring_cqe_get_data64(cqe);
        int res = cqe->res;
        io_uring_cqe_seen(&u->ring, cqe);
        u->refusals = 0;
        piece_back(u, slot, res);
    }
}

/* ---- the ring ---- */

static void pause_a_moment(void)
{
    static const struct timespec millisecond = {.tv_nsec = 1000000};
    nanosleep(&millisecond, NULL);
}

/* The kernel took the ring away (a filter set up later, for one). What it has accepted it still
 * finishes, and that has to be waited for; the rest is read here. */
static void carry_on_without(uring *u)
{
    unsigned unsent = io_uring_sq_ready(&u->ring), mask = u->ring.sq.ring_mask;
    uint32_t mine[TT_IO_MAX_DEPTH];
    for (unsigned i = 0; i < unsent; i++)
        mine[i] = (uint32_t)u->ring.sq.sqes[(u->ring.sq.sqe_tail - unsent + i) & mask].user_data;
    u->broken = true;
    while (u->depth - u->n_spare > unsent) {
        pause_a_moment();
        reap(u);
    }
    for (unsigned i = 0; i < unsent; i++)
        send_piece(u, mine[i]);
}

/* Hands entries over, and with `wait` sleeps until one comes back. */
static void enter(uring *u, bool wait)
{
    if (u->broken || (!wait && io_uring_sq_ready(&u->ring) == 0))
        return;
    double begin = tt_now();
    int e = wait ? io_uring_submit_and_wait(&u->ring, 1) : io_uring_submit(&u->ring);
    u->stats.kernel_seconds += tt_now() - begin;
    if (e >= 0)
        u->refusals = 0;
    if (e >= 0 || e == -EINTR)
        return;
    bool again = e == -EAGAIN || e == -EBUSY;
    if (again && wait) /* short of memory: asking at once would get the same answer */
        pause_a_moment();
    if (!again || ++u->refusals >= MOST_REFUSALS)
        carry_on_without(u);
}

/* Every piece that the page cache lacks, in the order of the reads, as far as slots go. */
static void issue(uring *u)
{
    read_list *queue = &u->list[LIST_QUEUE];
    while (u->n_spare > 0 && queue->head != NULL) {
        tt_read *rd = queue->head;
        tt_piece p = tt_piece_next(u->files, rd, true, u->piece_bytes);
        if (!rd->cold && tt_piece_cached(u->files, &p)) {
            leave_list(u, rd);
            push(u, LIST_WARM, rd, false);
            continue;
        }
        rd->cold = false;
        rd->issued = p.end;
        rd->pending++;
        if (rd->issued == rd->bytes)
            leave_list(u, rd);
        uint32_t slot = u->spare[--u->n_spare];
        u->piece[slot] = p;
        u->stats.pieces++;
        send_piece(u, slot);
    }
}

/* One piece of a warm read. What the page cache lost meanwhile, and what follows and was never
 * there, is for the disk and first in the queue. */
static uint64_t copy_warm(uring *u, tt_read *rd)
{
    tt_piece p = tt_piece_next(u->files, rd, true, u->piece_bytes);
    tt_piece_take_cached(u->files, &p, &u->stats);
    uint64_t taken = p.at - rd->issued;
    rd->issued = p.at;
    if (p.at < p.end)
        rd->cold = true;
    else if (rd->issued < rd->bytes) {
        tt_piece more = tt_piece_next(u->files, rd, true, u->piece_bytes);
        if (tt_piece_cached(u->files, &more))
            return taken;
    }
    leave_list(u, rd);
    if (rd->issued < rd->bytes)
        push(u, LIST_QUEUE, rd, true);
    finish_if_whole(u, rd);
    return taken;
}

static void issue_and_send(uring *u)
{
    issue(u);
    enter(u, false);
}

/* ---- the interface ---- */

static tt_status uring_start(tt_reader *r, tt_read *rd, tt_error *err)
{
    uring *u = (uring *)r;
    TT_TRY(tt_reader_files_start(u->files, rd, err));
    push(u, LIST_QUEUE, rd, false);
    return TT_OK;
}

static void uring_flush(tt_reader *r)
{
    uring *u = (uring *)r;
    uint64_t copied = 0;
    issue_and_send(u);
    while (u->list[LIST_WARM].head != NULL && copied < TT_READER_WARM_MAX) {
        uint64_t n = copy_warm(u, u->list[LIST_WARM].head);
        copied += n;
        if (n == 0) /* gone from the page cache, and no slot may be free for it */
            break;
    }
    issue_and_send(u);
}

static void uring_poll(tt_reader *r)
{
    uring *u = (uring *)r;
    reap(u);
    uring_flush(r);
    reap(u);
}

static tt_status uring_wait(tt_reader *r, tt_read *rd, tt_error *err)
{
    uring *u = (uring *)r;
    while (rd->state == TT_READ_QUEUED) {
        reap(u);
        issue_and_send(u); /* after reaping: nothing in flight would be waited for without end */
        tt_read *warm = rd->list == LIST_WARM ? rd : u->list[LIST_WARM].head;
        if (rd->state == TT_READ_DONE)
            break;
        if (warm != NULL)
            copy_warm(u, warm);
        else if (rd->list == LIST_NONE && rd->pending == 0)
            return tt_fail(err, TT_ERR_STATE,
                           "a read was waited for on a reader that has not "
                           "started it");
        else
            enter(u, true);
    }
    return tt_reader_files_result(u->files, rd, err);
}

static void uring_stats(const tt_reader *r, tt_reader_stats *out)
{
    const uring *u = (const uring *)r;
    tt_reader_files_stats(u->files, &u->stats, out);
}

static const char *uring_path(const tt_reader *r, uint32_t file)
{
    return tt_reader_files_path(((const uring *)r)->files, file);
}

static void uring_close(tt_reader *r)
{
    uring *u = (uring *)r;
    if (u->ring_made) {
        /* The kernel writes to the destinations until the last piece is back. */
        while (u->list[LIST_QUEUE].head != NULL)
            leave_list(u, u->list[LIST_QUEUE].head);
        while (u->n_spare < u->depth) {
            enter(u, true);
            reap(u);
        }
        /* A ring is taken apart some time later; registered memory must not stay until then. */
        (void)io_uring_unregister_buffers(&u->ring);
        io_uring_queue_exit(&u->ring);
    }
    tt_reader_files_close(&u->files);
    free(u);
}

/* ---- memory ---- */

static void describe(uring *u)
{
    char what[64];
    uint32_t refused = 0;
    for (uint32_t i = 0; i < u->n_slabs; i++)
        refused += u->slabs[i].base != NULL && !u->slabs[i].registered;
    snprintf(what, sizeof what, "uring, depth %u%s", u->depth,
             refused > 0 ? ", memory not registered" : "");
    tt_reader_files_describe(u->files, what, true, u->piece_bytes, u->base.describe);
}

/* False where the kernel would rather not: RLIMIT_MEMLOCK, no memory, too old. */
static bool update_slab(uring *u, uint32_t index, void *base, uint64_t bytes)
{
    struct iovec v = {base, bytes};
    if (u->fixed_buffers)
        return io_uring_register_buffers_update_tag(&u->ring, index, &v, NULL, 1) == 1;
    return false;
}

static tt_status uring_register(tt_reader *r, void *base, uint64_t bytes, tt_error *err)
{
    uring *u = (uring *)r;
    uint32_t index = u->n_slabs;
    for (uint32_t i = u->n_slabs; i-- > 0;)
        if (u->slabs[i].base == NULL)
            index = i;
    if (index == MOST_SLABS)
        return tt_fail(err, TT_ERR_LIMIT, "more than %u slabs of expert slots", MOST_SLABS);
    slab *s = &u->slabs[index];
    *s = (slab){.base = base, .bytes = bytes};
    s->registered = update_slab(u, index, base, bytes);
    /* Refused once it is refused for all that follow, and asking costs a walk over the memory. */
    u->fixed_buffers = u->fixed_buffers && s->registered;
    if (index == u->n_slabs)
        u->n_slabs++;
    describe(u);
    return TT_OK;
}

static void uring_forget(tt_reader *r, void *base)
{
    uring *u = (uring *)r;
    for (uint32_t i = 0; i < u->n_slabs; i++) {
        slab *s = &u->slabs[i];
        if (s->base != base)
            continue;
        struct iovec none = {0};
        if (s->registered)
            (void)io_uring_register_buffers_update_tag(&u->ring, i, &none, NULL, 1);
        *s = (slab){0};
    }
    describe(u);
}

/* ---- open ---- */

static const tt_reader_ops uring_ops = {
    .name = "uring",
    .start = uring_start,
    .flush = uring_flush,
    .poll = uring_poll,
    .wait = uring_wait,
    .register_memory = uring_register,
    .forget_memory = uring_forget,
    .stats = uring_stats,
    .path = uring_path,
    .close = uring_close,
};

static tt_status make_ring(uring *u, tt_error *err)
{
    int e = -EINVAL;
    static const unsigned flags[] = {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};
    for (unsigned i = 0; i < 2 && e == -EINVAL; i++) {
        struct io_uring_params params = {.flags = flags[i]};
        e = io_uring_queue_init_params(u->depth, &u->ring, &params);
    }
    if (e < 0) {
        tt_status st = tt_fail_errno(err, -e, NULL, "io_uring cannot be set up");
        return st == TT_ERR_NOMEM ? st : TT_ERR_UNSUPPORTED;
    }
    u->ring_made = true;
    return TT_OK;
}

/* Both are shortcuts: without them the kernel looks files and pages up for every piece. */
static void register_files(uring *u)
{
    uint32_t n = u->files->n * 4;
    int *fds = malloc((n > 0 ? n : 1) * sizeof *fds);
    if (fds == NULL)
        return;
    for (uint32_t i = 0; i < u->files->n; i++)
        for (unsigned c = 0; c < 2; c++) {
            fds[tt_piece_slot(i, c, false)] = u->files->file[i].copy[c].direct;
            fds[tt_piece_slot(i, c, true)] = u->files->file[i].copy[c].cached;
        }
    u->fixed_files = n > 0 && io_uring_register_files(&u->ring, fds, n) == 0;
    u->fixed_buffers = io_uring_register_buffers_sparse(&u->ring, MOST_SLABS) == 0;
    free(fds);
}

/* A ring that can be made may still be one that does not work: a block of the first file, read
 * through it, tells before anything depends on it. */
static tt_status try_ring(uring *u, tt_error *err)
{
    if (u->files->n == 0 || u->files->file[0].size < TT_IO_ALIGN)
        return TT_OK;
    void *page = NULL;
    if (posix_memalign(&page, TT_IO_ALIGN, TT_IO_ALIGN) != 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a reader");
    tt_read rd = {.bytes = TT_IO_ALIGN, .dst = page};
    tt_residency residency = u->files->residency;
    u->files->residency = TT_RESIDENCY_NONE;
    tt_status st = uring_start(&u->base, &rd, err);
    if (st == TT_OK)
        st = uring_wait(&u->base, &rd, err);
    u->files->residency = residency;
    u->files->turn = 0;
    if (u->broken)
        st = tt_fail(err, TT_ERR_UNSUPPORTED, "io_uring can be set up and does not work");
    u->stats = (tt_reader_stats){0};
    free(page);
    return st;
}

tt_status tt_reader_uring_create(tt_reader_files **files, uint32_t depth, uint32_t piece_bytes,
                                 tt_reader **out, tt_error *err)
{
    uring *u = calloc(1, sizeof *u);
    if (u == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a reader");
    u->base.ops = &uring_ops;
    u->files = *files;
    u->depth = depth;
    u->piece_bytes = piece_bytes;
    for (uint32_t i = depth; i-- > 0;)
        u->spare[u->n_spare++] = i;
    tt_status st = make_ring(u, err);
    if (st == TT_OK) {
        register_files(u);
        st = try_ring(u, err);
    }
    if (st != TT_OK) {
        u->files = NULL;
        uring_close(&u->base);
        return st;
    }
    describe(u);
    *files = NULL;
    *out = &u->base;
    return TT_OK;
}
