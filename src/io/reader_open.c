#include <stdio.h>
#include <string.h>

#include "io/reader_files.h"

#define FEWEST_THREADS 4u
#define MOST_THREADS   16u

/* ---- the interface's own part ---- */

void tt_reader_flush(tt_reader *r)
{
    if (r->ops->flush != NULL)
        r->ops->flush(r);
}

void tt_reader_poll(tt_reader *r)
{
    if (r->ops->poll != NULL)
        r->ops->poll(r);
}

tt_status tt_reader_register_memory(tt_reader *r, void *base, uint64_t bytes, tt_error *err)
{
    if (base == NULL || (uintptr_t)base % TT_IO_ALIGN != 0 || bytes % TT_IO_ALIGN != 0 ||
        bytes == 0 || bytes > TT_IO_MAX_SLAB)
        return tt_fail(err, TT_ERR_INVALID,
                       "slab of %llu bytes at %p: both must be multiples of %u, at most %llu bytes",
                       (unsigned long long)bytes, base, TT_IO_ALIGN,
                       (unsigned long long)TT_IO_MAX_SLAB);
    return r->ops->register_memory != NULL ? r->ops->register_memory(r, base, bytes, err) : TT_OK;
}

void tt_reader_forget_memory(tt_reader *r, void *base)
{
    if (r->ops->forget_memory != NULL)
        r->ops->forget_memory(r, base);
}

void tt_reader_get_stats(const tt_reader *r, tt_reader_stats *out)
{
    *out = (tt_reader_stats){0};
    if (r->ops->stats != NULL)
        r->ops->stats(r, out);
}

void tt_reader_close(tt_reader **r)
{
    if (r == NULL || *r == NULL)
        return;
    (*r)->ops->close(*r);
    *r = NULL;
}

/* ---- options ---- */

static const char *const kinds[] = {"auto", "uring", "pool", "buffered"};

tt_status tt_reader_kind_parse(const char *text, tt_reader_kind *kind, tt_error *err)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(text, kinds[i]) == 0) {
            *kind = (tt_reader_kind)i;
            return TT_OK;
        }
    return tt_fail(err, TT_ERR_INVALID,
                   "reader \"%s\" is not known, choose auto, uring, pool or buffered", text);
}

tt_status tt_reader_options_check(const tt_reader_options *o, tt_error *err)
{
    if (o->depth > TT_IO_MAX_DEPTH)
        return tt_fail(err, TT_ERR_INVALID, "read depth is %u, must be 1 to %u", o->depth,
                       TT_IO_MAX_DEPTH);
    if (o->piece_bytes != 0 &&
        (o->piece_bytes % TT_IO_ALIGN != 0 || o->piece_bytes < TT_IO_MIN_PIECE ||
         o->piece_bytes > TT_IO_MAX_PIECE))
        return tt_fail(err, TT_ERR_INVALID,
                       "read pieces of %u bytes, must be a multiple of %u from %u to %u",
                       o->piece_bytes, TT_IO_ALIGN, TT_IO_MIN_PIECE, TT_IO_MAX_PIECE);
    if (o->threads > TT_IO_MAX_THREADS)
        return tt_fail(err, TT_ERR_INVALID, "%u threads that read, must be 1 to %u", o->threads,
                       TT_IO_MAX_THREADS);
    return TT_OK;
}

/* ---- the choice ---- */

typedef struct choice {
    uint32_t depth, piece_bytes, threads;
    char why[128]; /* what came before did not work, or "" */
} choice;

static choice settle(const tt_reader_options *o)
{
    choice c = {.depth = o->depth > 0 ? o->depth : TT_IO_DEPTH,
                .piece_bytes = o->piece_bytes > 0 ? o->piece_bytes : TT_IO_PIECE,
                .threads = o->threads};
    if (c.threads == 0)
        c.threads = c.depth < FEWEST_THREADS ? FEWEST_THREADS
                    : c.depth > MOST_THREADS ? MOST_THREADS
                                             : c.depth;
    return c;
}

static tt_status refuse(const tt_reader_files *f, const char *kind, tt_error *err)
{
    return tt_fail_at(err, TT_ERR_UNSUPPORTED, tt_reader_files_path(f, 0), -1,
                      "%s refuses O_DIRECT, which the %s reader needs: choose buffered or auto",
                      f->system, kind);
}

static tt_status open_auto(tt_reader_files **f, choice *c, tt_reader **out, tt_error *err)
{
    tt_error e = {0};
    if ((*f)->direct) {
        if (tt_reader_uring_create(f, c->depth, c->piece_bytes, out, &e) == TT_OK)
            return TT_OK;
        snprintf(c->why, sizeof c->why, "%.*s", (int)sizeof c->why - 1, e.message);
    } else {
        snprintf(c->why, sizeof c->why, "%s refuses O_DIRECT", (*f)->system);
    }
    if (tt_reader_pool_create(f, (*f)->direct, c->threads, c->piece_bytes, out, &e) == TT_OK)
        return TT_OK;
    snprintf(c->why, sizeof c->why, "%.*s", (int)sizeof c->why - 1, e.message);
    return tt_reader_buffered_create(f, c->piece_bytes, out, err);
}

static tt_status open_kind(tt_reader_kind kind, tt_reader_files **f, choice *c, tt_reader **out,
                           tt_error *err)
{
    switch (kind) {
    case TT_READER_URING:
        if (!(*f)->direct)
            return refuse(*f, "uring", err);
        return tt_reader_uring_create(f, c->depth, c->piece_bytes, out, err);
    case TT_READER_POOL:
        if (!(*f)->direct)
            return refuse(*f, "pool", err);
        return tt_reader_pool_create(f, true, c->threads, c->piece_bytes, out, err);
    case TT_READER_BUFFERED:
        return tt_reader_pool_create(f, false, c->threads, c->piece_bytes, out, err);
    case TT_READER_AUTO:
        break;
    }
    return open_auto(f, c, out, err);
}

tt_status tt_reader_open(const char *const *paths, uint32_t n, const tt_reader_options *opts,
                         tt_reader **out, tt_error *err)
{
    static const tt_reader_options defaults = {0};
    const tt_reader_options *o = opts != NULL ? opts : &defaults;
    TT_TRY(tt_reader_options_check(o, err));
    choice c = settle(o);
    tt_reader_files *f = NULL;
    tt_reader *r = NULL;
    TT_TRY(tt_reader_files_open(paths, n, o, &f, err));
    tt_status st = open_kind(o->kind, &f, &c, &r, err);
    tt_reader_files_close(&f);
    if (st != TT_OK)
        return st;
    size_t len = strlen(r->describe);
    if (c.why[0] != '\0')
        snprintf(r->describe + len, sizeof r->describe - len, " (%s)", c.why);
    *out = r;
    return TT_OK;
}

tt_status tt_reader_open_buffered(const char *const *paths, uint32_t n, tt_reader **out,
                                  tt_error *err)
{
    static const tt_reader_options defaults = {0};
    tt_reader_files *f = NULL;
    TT_TRY(tt_reader_files_open(paths, n, &defaults, &f, err));
    tt_status st = tt_reader_buffered_create(&f, TT_IO_PIECE, out, err);
    tt_reader_files_close(&f);
    return st;
}
