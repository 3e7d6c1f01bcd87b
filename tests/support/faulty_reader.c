#include "faulty_reader.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define MOST_PENDING 4096

typedef struct faulty {
    tt_reader base;
    tt_reader *inner;
    faulty_options o;
    uint64_t random, started;
    pthread_mutex_t lock;
    pthread_cond_t given, done;
    pthread_t thread;
    bool stop;
    tt_read *pending[MOST_PENDING];
    size_t n;
    tt_read *ended; /* by the thread; the caller calls them done */
} faulty;

void faulty_options_default(faulty_options *o)
{
    *o = (faulty_options){.fail_start = FAULTY_NEVER,
                          .fail_read = FAULTY_NEVER,
                          .shorten = FAULTY_NEVER,
                          .corrupt = FAULTY_NEVER};
}

static uint64_t draw(faulty *f)
{
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return f->random >> 33;
}

static tt_status read_range(faulty *f, const tt_read *rd, uint64_t begin, uint64_t n, tt_error *err)
{
    tt_read part = {
        .file = rd->file, .offset = rd->offset + begin, .bytes = n, .dst = (char *)rd->dst + begin};
    TT_TRY(f->inner->ops->start(f->inner, &part, err));
    return f->inner->ops->wait(f->inner, &part, err);
}

/* Brings a read to its end and returns what it is to report. rd->token is its number. */
static tt_status perform(faulty *f, const faulty_options *o, tt_read *rd, tt_error *err)
{
    uint64_t piece = o->piece > 0 ? o->piece : rd->bytes;
    uint64_t pieces = piece > 0 ? (rd->bytes + piece - 1) / piece : 0;
    for (uint64_t i = pieces; i-- > 0;) {
        uint64_t begin = i * piece, left = rd->bytes - begin;
        TT_TRY(read_range(f, rd, begin, left < piece ? left : piece, err));
    }
    if (rd->token == o->shorten) {
        memset((char *)rd->dst + rd->bytes / 2, FAULTY_POISON, rd->bytes - rd->bytes / 2);
        return tt_fail(err, TT_ERR_FORMAT, "injected: read %llu ended half way",
                       (unsigned long long)rd->token);
    }
    if (rd->token == o->fail_read || (o->fail_every > 0 && rd->token % o->fail_every == 0))
        return tt_fail(err, TT_ERR_IO, "injected: read %llu failed", (unsigned long long)rd->token);
    if (rd->token == o->corrupt)
        ((unsigned char *)rd->dst)[rd->bytes / 3] ^= 0x10;
    return TT_OK;
}

static tt_read *take(faulty *f, size_t i)
{
    tt_read *rd = f->pending[i];
    f->pending[i] = f->pending[--f->n];
    return rd;
}

static void complete(faulty *f, tt_read *rd)
{
    rd->status = perform(f, &f->o, rd, NULL);
    rd->state = TT_READ_DONE;
}

static void *thread_main(void *arg)
{
    faulty *f = arg;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (f->n == 0 && !f->stop)
            pthread_cond_wait(&f->given, &f->lock);
        if (f->n == 0)
            break;
        tt_read *rd = take(f, draw(f) % f->n);
        faulty_options o = f->o;
        pthread_mutex_unlock(&f->lock);
        tt_status st = perform(f, &o, rd, NULL);
        pthread_mutex_lock(&f->lock);
        rd->status = st;
        rd->next = f->ended;
        f->ended = rd;
        pthread_cond_broadcast(&f->done);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static tt_status faulty_start(tt_reader *r, tt_read *rd, tt_error *err)
{
    faulty *f = (faulty *)r;
    tt_status st = TT_OK;
    pthread_mutex_lock(&f->lock);
    rd->token = f->started++;
    if (rd->token == f->o.fail_start)
        st = tt_fail(err, TT_ERR_IO, "injected: start of read %llu failed",
                     (unsigned long long)rd->token);
    else if (f->n == MOST_PENDING)
        st = tt_fail(err, TT_ERR_LIMIT, "more than %u reads in flight", MOST_PENDING);
    if (st == TT_OK) {
        memset(rd->dst, FAULTY_POISON, rd->bytes);
        rd->state = TT_READ_QUEUED;
        f->pending[f->n++] = rd;
        if (f->o.eager && !f->o.threaded)
            complete(f, take(f, f->n - 1));
        pthread_cond_signal(&f->given);
    }
    pthread_mutex_unlock(&f->lock);
    return st;
}

static void take_ended(faulty *f)
{
    for (; f->ended != NULL; f->ended = f->ended->next)
        f->ended->state = TT_READ_DONE;
}

static void faulty_poll(tt_reader *r)
{
    faulty *f = (faulty *)r;
    pthread_mutex_lock(&f->lock);
    take_ended(f);
    /* One chance in two for some read, so that callers see both. */
    if (!f->o.threaded && f->n > 0 && draw(f) % 2 == 0)
        complete(f, take(f, draw(f) % f->n));
    pthread_mutex_unlock(&f->lock);
}

static tt_status faulty_wait(tt_reader *r, tt_read *rd, tt_error *err)
{
    faulty *f = (faulty *)r;
    pthread_mutex_lock(&f->lock);
    take_ended(f);
    while (f->o.threaded && rd->state == TT_READ_QUEUED) {
        pthread_cond_wait(&f->done, &f->lock);
        take_ended(f);
    }
    /* Others first, each with one chance in two, then the one that was asked for. */
    for (size_t i = 0; f->o.reorder && rd->state == TT_READ_QUEUED && i < f->n; i++) {
        size_t k = draw(f) % f->n;
        if (f->pending[k] != rd && draw(f) % 2 == 0)
            complete(f, take(f, k));
    }
    for (size_t i = 0; rd->state == TT_READ_QUEUED && i < f->n; i++)
        if (f->pending[i] == rd)
            complete(f, take(f, i));
    tt_status st = rd->state == TT_READ_DONE ? rd->status : TT_ERR_STATE;
    pthread_mutex_unlock(&f->lock);
    if (st != TT_OK)
        return tt_fail_at(err, st, r->ops->path(r, rd->file), (int64_t)rd->offset,
                          "injected fault in read %llu", (unsigned long long)rd->token);
    return TT_OK;
}

static tt_status faulty_register(tt_reader *r, void *base, uint64_t bytes, tt_error *err)
{
    return tt_reader_register_memory(((faulty *)r)->inner, base, bytes, err);
}

static void faulty_forget(tt_reader *r, void *base)
{
    tt_reader_forget_memory(((faulty *)r)->inner, base);
}

static const char *faulty_path(const tt_reader *r, uint32_t file)
{
    const faulty *f = (const faulty *)r;
    return f->inner->ops->path(f->inner, file);
}

static void faulty_close(tt_reader *r)
{
    faulty *f = (faulty *)r;
    if (f->o.threaded) {
        pthread_mutex_lock(&f->lock);
        f->stop = true;
        pthread_cond_signal(&f->given);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
    }
    pthread_cond_destroy(&f->given);
    pthread_cond_destroy(&f->done);
    pthread_mutex_destroy(&f->lock);
    tt_reader_close(&f->inner);
    free(f);
}

static const tt_reader_ops faulty_ops = {
    .name = "faulty",
    .start = faulty_start,
    .poll = faulty_poll,
    .wait = faulty_wait,
    .register_memory = faulty_register,
    .forget_memory = faulty_forget,
    .path = faulty_path,
    .close = faulty_close,
};

tt_status faulty_reader_open(tt_reader **inner, const faulty_options *o, tt_reader **out,
                             tt_error *err)
{
    if (o->piece % TT_PAGE_ALIGN != 0)
        return tt_fail(err, TT_ERR_INVALID, "pieces must be multiples of %u", TT_PAGE_ALIGN);
    faulty *f = calloc(1, sizeof *f);
    if (f == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a faulty reader");
    f->base.ops = &faulty_ops;
    snprintf(f->base.describe, sizeof f->base.describe, "faulty");
    f->inner = *inner;
    f->o = *o;
    f->random = o->seed;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->given, NULL);
    pthread_cond_init(&f->done, NULL);
    if (o->threaded && pthread_create(&f->thread, NULL, thread_main, f) != 0) {
        free(f);
        return tt_fail(err, TT_ERR_IO, "cannot start the reader's thread");
    }
    *inner = NULL;
    *out = &f->base;
    return TT_OK;
}

uint64_t faulty_reader_started(const tt_reader *r)
{
    return ((const faulty *)r)->started;
}

uint64_t faulty_reader_pending(tt_reader *r)
{
    faulty *f = (faulty *)r;
    pthread_mutex_lock(&f->lock);
    uint64_t n = f->n;
    pthread_mutex_unlock(&f->lock);
    return n;
}

void faulty_reader_set(tt_reader *r, const faulty_options *o)
{
    faulty *f = (faulty *)r;
    pthread_mutex_lock(&f->lock);
    bool threaded = f->o.threaded;
    f->o = *o;
    f->o.threaded = threaded;
    pthread_mutex_unlock(&f->lock);
}
