#include "memory_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define MOST_PENDING 65536u

typedef struct memory {
    tt_reader base;
    tt_read *pending[MOST_PENDING];
    uint32_t n;
} memory;

typedef struct place {
    uint64_t offset;
    uint32_t file, mark;
} place;

static place place_at(uint32_t file, uint64_t offset)
{
    return (place){.offset = offset, .file = file, .mark = 0x7ace7ace};
}

static void complete(tt_read *rd)
{
    uint64_t first = (rd->offset + TT_PAGE_ALIGN - 1) / TT_PAGE_ALIGN * TT_PAGE_ALIGN;
    for (uint64_t at = first; at < rd->offset + rd->bytes; at += TT_PAGE_ALIGN) {
        place p = place_at(rd->file, at);
        memcpy((char *)rd->dst + (at - rd->offset), &p, sizeof p);
    }
    rd->status = TT_OK;
    rd->state = TT_READ_DONE;
}

static tt_status memory_start(tt_reader *r, tt_read *rd, tt_error *err)
{
    memory *m = (memory *)r;
    if (m->n == MOST_PENDING)
        return tt_fail(err, TT_ERR_LIMIT, "too many reads in flight");
    rd->state = TT_READ_QUEUED;
    m->pending[m->n++] = rd;
    return TT_OK;
}

static tt_status memory_wait(tt_reader *r, tt_read *rd, tt_error *err)
{
    memory *m = (memory *)r;
    for (uint32_t i = m->n; rd->state == TT_READ_QUEUED && i-- > 0;) {
        if (m->pending[i] == rd) {
            m->pending[i] = m->pending[--m->n];
            complete(rd);
        }
    }
    return rd->state == TT_READ_DONE ? TT_OK : tt_fail(err, TT_ERR_STATE, "not started");
}

static void memory_poll(tt_reader *r)
{
    memory *m = (memory *)r;
    while (m->n > 0)
        complete(m->pending[--m->n]);
}

static const char *memory_path(const tt_reader *r, uint32_t file)
{
    (void)r;
    (void)file;
    return "memory";
}

static void memory_close(tt_reader *r)
{
    free(r);
}

static const tt_reader_ops without_poll = {.name = "memory",
                                           .start = memory_start,
                                           .wait = memory_wait,
                                           .path = memory_path,
                                           .close = memory_close};
static const tt_reader_ops with_poll = {.name = "memory",
                                        .start = memory_start,
                                        .wait = memory_wait,
                                        .poll = memory_poll,
                                        .path = memory_path,
                                        .close = memory_close};

tt_reader *memory_reader_open(bool polls)
{
    memory *m = calloc(1, sizeof *m);
    if (m == NULL)
        abort();
    m->base.ops = polls ? &with_poll : &without_poll;
    return &m->base;
}

bool memory_reader_holds(const void *bytes, uint64_t n, uint32_t file, uint64_t offset)
{
    for (uint64_t at = 0; at < n; at += TT_PAGE_ALIGN) {
        place p = place_at(file, offset + at);
        if (memcmp((const char *)bytes + at, &p, sizeof p) != 0)
            return false;
    }
    return true;
}
