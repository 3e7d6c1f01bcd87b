#include "io/slot_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/mem.h"

#define PAGE      ((size_t)4096)
#define HUGE_PAGE (2 * TT_MIB)

/* Slots a slab; 0 when the whole cannot be counted. */
static uint32_t slots_a_slab(uint32_t n_slots, uint64_t stride, uint64_t slab_bytes)
{
    uint64_t all;
    if (stride == 0 || __builtin_mul_overflow((uint64_t)n_slots, stride, &all) || all >> 62 != 0)
        return 0;
    if (slab_bytes == 0) {
        slab_bytes = all / 8 > TT_SLAB_MIN ? all / 8 : TT_SLAB_MIN;
        slab_bytes = (slab_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    }
    if (slab_bytes > TT_SLAB_MAX)
        slab_bytes = TT_SLAB_MAX;
    uint64_t n = slab_bytes / stride;
    return n == 0 ? 1 : n < n_slots ? (uint32_t)n : n_slots;
}

/* Large blocks begin on a huge page; small ones get room to be aligned. */
static uint64_t block_bytes(uint32_t n, uint64_t stride)
{
    uint64_t bytes = n * stride;
    return bytes >= HUGE_PAGE ? bytes : bytes + TT_PAGE_ALIGN;
}

uint64_t tt_slot_memory_cost(uint32_t n_slots, uint64_t stride, uint64_t slab_bytes)
{
    uint32_t per_slab = slots_a_slab(n_slots, stride, slab_bytes);
    if (per_slab == 0)
        return n_slots == 0 ? 0 : UINT64_MAX;
    uint32_t whole = n_slots / per_slab, rest = n_slots % per_slab;
    return whole * (block_bytes(per_slab, stride) + sizeof(tt_slab)) +
           (rest > 0 ? block_bytes(rest, stride) + sizeof(tt_slab) : 0);
}

typedef struct touching {
    volatile char *base;
} touching;

static void touch_pages(void *ctx, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const touching *t = ctx;
    for (size_t i = begin; i < end; i++)
        t->base[i * PAGE] = 0;
}

static void lock_slab(tt_slot_memory *m, tt_slab *s)
{
    if (m->lock_errno != 0)
        return;
    /* Pages that were not touched yet are locked when they are. */
    if (mlock2(s->base, s->n * m->stride, MLOCK_ONFAULT) != 0) {
        m->lock_errno = errno;
        return;
    }
    s->locked = true;
    m->locked_bytes += s->n * m->stride;
}

tt_status tt_slot_memory_alloc(tt_slot_memory *m, uint32_t n_slots, uint64_t stride,
                               uint64_t slab_bytes, tt_pool *touch, bool lock, tt_error *err)
{
    tt_slot_memory q = {.stride = stride};
    q.per_slab = slots_a_slab(n_slots, stride, slab_bytes);
    if (q.per_slab == 0 || stride > TT_SLAB_MAX)
        return tt_fail(err, TT_ERR_NOMEM, "%u expert slots of %llu bytes cannot be had", n_slots,
                       (unsigned long long)stride);
    uint32_t slabs = (n_slots + q.per_slab - 1) / q.per_slab;
    tt_status st = TT_OK;
    q.slabs = calloc(slabs, sizeof *q.slabs);
    if (q.slabs == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u slabs of expert slots", slabs);
    for (uint32_t i = 0; i < slabs; i++) {
        tt_slab *s = &q.slabs[i];
        s->first = i * q.per_slab;
        s->n = n_slots - s->first < q.per_slab ? n_slots - s->first : q.per_slab;
        s->block_bytes = block_bytes(s->n, stride);
        TT_GOTO(tt_mem_alloc(s->block_bytes, "expert slots", &s->block, err), fail);
        s->base =
            (char *)(((uintptr_t)s->block + TT_PAGE_ALIGN - 1) / TT_PAGE_ALIGN * TT_PAGE_ALIGN);
        q.n_slabs++;
        touching t = {.base = s->base};
        if (touch != NULL)
            tt_pool_run(touch, s->n * stride / PAGE, HUGE_PAGE / PAGE, touch_pages, &t);
        if (lock)
            lock_slab(&q, s);
    }
    *m = q;
    return TT_OK;
fail:
    tt_slot_memory_free(&q);
    return st;
}

void tt_slot_memory_free(tt_slot_memory *m)
{
    for (uint32_t i = 0; i < m->n_slabs; i++)
        tt_mem_free(m->slabs[i].block, m->slabs[i].block_bytes);
    free(m->slabs);
    *m = (tt_slot_memory){0};
}

void tt_slot_memory_register(tt_slot_memory *m, tt_reader *reader)
{
    for (uint32_t i = 0; i < m->n_slabs; i++) {
        tt_slab *s = &m->slabs[i];
        if (s->retired || s->registered ||
            tt_reader_register_memory(reader, s->base, s->n * m->stride, NULL) != TT_OK)
            continue;
        s->registered = true;
        m->registered_bytes += s->n * m->stride;
    }
}

static void forget_slab(tt_slot_memory *m, tt_slab *s, tt_reader *reader)
{
    if (!s->registered)
        return;
    tt_reader_forget_memory(reader, s->base);
    s->registered = false;
    m->registered_bytes -= s->n * m->stride;
}

void tt_slot_memory_forget(tt_slot_memory *m, tt_reader *reader)
{
    for (uint32_t i = 0; i < m->n_slabs; i++)
        forget_slab(m, &m->slabs[i], reader);
}

void tt_slot_memory_retire(tt_slot_memory *m, uint32_t slab, tt_reader *reader)
{
    tt_slab *s = &m->slabs[slab];
    forget_slab(m, s, reader);
    if (s->locked) {
        (void)munlock(s->base, s->n * m->stride);
        s->locked = false;
        m->locked_bytes -= s->n * m->stride;
    }
    /* The address space stays, so that no pointer to a slot ever leads elsewhere. */
    (void)madvise(s->block, s->block_bytes, MADV_DONTNEED);
    s->leaving = false;
    s->retired = true;
}
