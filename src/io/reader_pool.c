/* Threads that pread pieces, around the page cache or through it.
 *
 * The caller keeps what it started until flush hands it over, so that start takes no lock and the
 * threads see whole bursts. A read that ended waits in `ended` for the caller to call it DONE. */
#include <stdio.h>
#include <stdlib.h>

#include "io/reader_piece.h"

#define STACK_BYTES ((size_t)(256 * TT_KIB)) /* address space; a few pages are touched */

typedef struct read_list {
    tt_read *head, *tail;
} read_list;

typedef struct pool {
    tt_reader base;
    tt_reader_files *files;
    uint32_t piece_bytes, n_threads;
    bool direct;
    pthread_t threads[TT_IO_MAX_THREADS];
    read_list mine;       /* the caller's: started, not flushed */
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t given, done;
    read_list queue; /* reads that have pieces left */
    read_list ended;
    bool stop;
    tt_reader_stats stats;
} pool;

static void push(read_list *l, tt_read *rd)
{
    rd->next = NULL;
    if (l->tail != NULL)
        l->tail->next = rd;
    else
        l->head = rd;
    l->tail = rd;
}

static void drop(read_list *l, tt_read *rd)
{
    tt_read *before = NULL, *at = l->head;
    while (at != NULL && at != rd) {
        before = at;
        at = at->next;
    }
    if (at == NULL)
        return;
    *(before != NULL ? &before->next : &l->head) = rd->next;
    if (l->tail == rd)
        l->tail = before;
    rd->next = NULL;
}

/* ---- threads ---- */

/* One piece back from the disk; the lock is held. */
static void piece_back(pool *p, const tt_piece *piece, tt_piece_step step, const tt_reader_stats *s)
{
    tt_read *rd = piece->rd;
    tt_reader_stats_add(&p->stats, s);
    rd->pending--;
    if (step == TT_PIECE_FAILED) {
        tt_piece_fail(piece);
        drop(&p->queue, rd); /* the rest of it is not worth reading */
        rd->issued = rd->bytes;
    }
    if (rd->pending > 0 || rd->issued < rd->bytes)
        return;
    tt_reader_files_finish(p->files, rd, &p->stats);
    push(&p->ended, rd);
    pthread_cond_broadcast(&p->done);
}

static void *thread_main(void *arg)
{
    pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->queue.head == NULL && !p->stop)
            pthread_cond_wait(&p->given, &p->lock);
        if (p->stop)
            break;
        tt_read *rd = p->queue.head;
        tt_piece piece = tt_piece_next(p->files, rd, p->direct, p->piece_bytes);
        tt_reader_stats s = {0};
        rd->issued = piece.end;
        rd->pending++;
        if (rd->issued == rd->bytes)
            drop(&p->queue, rd);
        pthread_mutex_unlock(&p->lock);
        tt_piece_step step = tt_piece_run(p->files, &piece, &s);
        pthread_mutex_lock(&p->lock);
        piece_back(p, &piece, step, &s);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static tt_status start_threads(pool *p, uint32_t n, tt_error *err)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    int e = 0;
    while (p->n_threads < n && e == 0) {
        e = pthread_create(&p->threads[p->n_threads], &attr, thread_main, p);
        p->n_threads += e == 0;
    }
    pthread_attr_destroy(&attr);
    /* Fewer than asked still read. */
    if (p->n_threads == 0)
        return tt_fail_errno(err, e, NULL, "cannot start a thread that reads");
    return TT_OK;
}

/* ---- the caller ---- */

static tt_status pool_start(tt_reader *r, tt_read *rd, tt_error *err)
{
    pool *p = (pool *)r;
    TT_TRY(tt_reader_files_start(p->files, rd, err));
    push(&p->mine, rd);
    return TT_OK;
}

/* Both with the lock held. */
static void hand_over(pool *p)
{
    if (p->mine.head == NULL)
        return;
    if (p->queue.tail != NULL)
        p->queue.tail->next = p->mine.head;
    else
        p->queue.head = p->mine.head;
    p->queue.tail = p->mine.tail;
    p->mine = (read_list){0};
    pthread_cond_broadcast(&p->given);
}

static void take_ended(pool *p)
{
    for (tt_read *rd = p->ended.head, *next; rd != NULL; rd = next) {
        next = rd->next;
        rd->next = NULL;
        rd->state = TT_READ_DONE; /* from here on it is the caller's again */
    }
    p->ended = (read_list){0};
}

static void pool_flush(tt_reader *r)
{
    pool *p = (pool *)r;
    if (p->mine.head == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    hand_over(p);
    pthread_mutex_unlock(&p->lock);
}

static void pool_poll(tt_reader *r)
{
    pool *p = (pool *)r;
    pthread_mutex_lock(&p->lock);
    hand_over(p);
    take_ended(p);
    pthread_mutex_unlock(&p->lock);
}

static tt_status pool_wait(tt_reader *r, tt_read *rd, tt_error *err)
{
    pool *p = (pool *)r;
    pthread_mutex_lock(&p->lock);
    hand_over(p);
    take_ended(p);
    while (rd->state == TT_READ_QUEUED) {
        pthread_cond_wait(&p->done, &p->lock);
        take_ended(p);
    }
    pthread_mutex_unlock(&p->lock);
    return tt_reader_files_result(p->files, rd, err);
}

static void pool_stats(const tt_reader *r, tt_reader_stats *out)
{
    pool *p = (pool *)r;
    pthread_mutex_lock(&p->lock);
    tt_reader_files_stats(p->files, &p->stats, out);
    pthread_mutex_unlock(&p->lock);
}

static const char *pool_path(const tt_reader *r, uint32_t file)
{
    return tt_reader_files_path(((const pool *)r)->files, file);
}

static void pool_close(tt_reader *r)
{
    pool *p = (pool *)r;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->given);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->given);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    tt_reader_files_close(&p->files);
    free(p);
}

static const tt_reader_ops pool_ops = {
    .name = "pool",
    .start = pool_start,
    .flush = pool_flush,
    .poll = pool_poll,
    .wait = pool_wait,
    .stats = pool_stats,
    .path = pool_path,
    .close = pool_close,
};

static const tt_reader_ops buffered_pool_ops = {
    .name = "buffered",
    .start = pool_start,
    .flush = pool_flush,
    .poll = pool_poll,
    .wait = pool_wait,
    .stats = pool_stats,
    .path = pool_path,
    .close = pool_close,
};

tt_status tt_reader_pool_create(tt_reader_files **files, bool direct, uint32_t threads,
                                uint32_t piece_bytes, tt_reader **out, tt_error *err)
{
    pool *p = calloc(1, sizeof *p);
    if (p == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a reader");
    p->base.ops = direct ? &pool_ops : &buffered_pool_ops;
    p->files = *files;
    p->direct = direct;
    p->piece_bytes = piece_bytes;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->given, NULL);
    pthread_cond_init(&p->done, NULL);
    tt_status st = start_threads(p, threads, err);
    if (st != TT_OK) {
        p->files = NULL;
        pool_close(&p->base);
        return st;
    }
    char what[64];
    snprintf(what, sizeof what, "%s, %u threads", p->base.ops->name, p->n_threads);
    tt_reader_files_describe(p->files, what, direct, piece_bytes, p->base.describe);
    *files = NULL;
    *out = &p->base;
    return TT_OK;
}
