/* Proves that slots lie whole and aligned in slabs of the size asked, that slabs are registered,
 * forgotten and given back one at a time, and that the cost is what is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "io/slot_memory.h"

#define STRIDE (3 * (uint64_t)TT_PAGE_ALIGN)

/* A reader that remembers what it was told. */
typedef struct noting {
    tt_reader base;
    char *slabs[16];
    uint64_t bytes[16];
    unsigned n;
    bool refuse;
} noting;

static tt_status note(tt_reader *r, void *base, uint64_t bytes, tt_error *err)
{
    noting *t = (noting *)r;
    if (t->refuse)
        return tt_fail(err, TT_ERR_NOMEM, "no");
    t->slabs[t->n] = base;
    t->bytes[t->n++] = bytes;
    return TT_OK;
}

static void forget(tt_reader *r, void *base)
{
    noting *t = (noting *)r;
    for (unsigned i = 0; i < t->n; i++) {
        if (t->slabs[i] == base) {
            t->slabs[i] = t->slabs[--t->n];
            return;
        }
    }
    fail();
}

static const tt_reader_ops noting_ops = {
    .name = "noting", .register_memory = note, .forget_memory = forget};

static void slots_lie_whole_in_slabs(void **state)
{
    static const uint64_t slab[] = {1, 4 * STRIDE, 4 * STRIDE + 9, 100 * STRIDE, 0};
    static const uint32_t want[] = {10, 3, 3, 1, 1};
    for (unsigned i = 0; i < 5; i++) {
        tt_slot_memory m;
        assert_int_equal(tt_slot_memory_alloc(&m, 10, STRIDE, slab[i], NULL, false, NULL), TT_OK);
        assert_int_equal(m.n_slabs, want[i]);
        uint64_t cost = 0;
        uint32_t slots = 0;
        for (uint32_t k = 0; k < m.n_slabs; k++) {
            cost += m.slabs[k].block_bytes + sizeof(tt_slab);
            assert_int_equal(m.slabs[k].first, slots);
            slots += m.slabs[k].n;
        }
        assert_int_equal(slots, 10);
        assert_int_equal(cost, tt_slot_memory_cost(10, STRIDE, slab[i]));
        for (uint32_t s = 0; s < 10; s++) {
            char *p = tt_slot_memory_at(&m, s);
            const tt_slab *in = &m.slabs[s / m.per_slab];
            assert_int_equal((uintptr_t)p % TT_PAGE_ALIGN, 0);
            assert_true(p >= (char *)in->block &&
                        p + STRIDE <= (char *)in->block + in->block_bytes);
            assert_true(p >= in->base && p + STRIDE <= in->base + in->n * STRIDE);
            memset(p, (int)s + 1, STRIDE);
        }
        for (uint32_t s = 0; s < 10; s++) {
            const char *p = tt_slot_memory_at(&m, s);
            assert_true(p[0] == (char)(s + 1) && p[STRIDE - 1] == (char)(s + 1));
        }
        tt_slot_memory_free(&m);
    }
}

/* 18 GB of 1.7 MB: no slab above 1 GiB, and enough of them. */
static void large_caches_come_in_slabs(void **state)
{
    uint64_t stride = 108 * (uint64_t)TT_PAGE_ALIGN, cost = tt_slot_memory_cost(10240, stride, 0);
    assert_true(cost >= 10240 * stride && cost < 10240 * stride + TT_MIB);
    assert_true(tt_slot_memory_cost(1000000, (uint64_t)1 << 50, 0) == UINT64_MAX);
    assert_true(tt_slot_memory_cost(4, UINT64_MAX / 2, 0) == UINT64_MAX);
    tt_slot_memory m;
    assert_int_equal(tt_slot_memory_alloc(&m, 1000, stride, 0, NULL, false, NULL), TT_OK);
    assert_true(m.n_slabs >= 8 && m.n_slabs <= 10);
    for (uint32_t i = 0; i < m.n_slabs; i++)
        assert_true(m.slabs[i].n * stride <= TT_SLAB_MAX &&
                    (uintptr_t)m.slabs[i].base % (2 * TT_MIB) == 0);
    tt_slot_memory_free(&m);
    assert_int_equal(tt_slot_memory_alloc(&m, 4, (uint64_t)1 << 50, 0, NULL, false, NULL),
                     TT_ERR_NOMEM);
}

static void slabs_are_told_forgotten_and_retired(void **state)
{
    tt_slot_memory m;
    noting r = {.base.ops = &noting_ops}, other = {.base.ops = &noting_ops, .refuse = true};
    tt_pool *pool = NULL;
    unsigned char pages[STRIDE / 4096];
    assert_int_equal(tt_pool_create(2, &pool, NULL), TT_OK);
    assert_int_equal(tt_slot_memory_alloc(&m, 10, STRIDE, 4 * STRIDE, pool, false, NULL), TT_OK);
    for (uint32_t s = 0; s < 10; s++) {
        assert_int_equal(mincore(tt_slot_memory_at(&m, s), STRIDE, pages), 0);
        for (unsigned i = 0; i < sizeof pages; i++)
            assert_true(pages[i] & 1);
    }
    tt_slot_memory_register(&m, &r.base);
    tt_slot_memory_register(&m, &r.base);
    assert_int_equal(r.n, 3);
    assert_true(r.bytes[0] == 4 * STRIDE && r.bytes[2] == 2 * STRIDE);
    assert_ptr_equal(r.slabs[1], tt_slot_memory_at(&m, 4));
    assert_int_equal(m.registered_bytes, 10 * STRIDE);
    tt_slot_memory_retire(&m, 1, &r.base);
    assert_int_equal(r.n, 2);
    assert_int_equal(m.registered_bytes, 6 * STRIDE);
    assert_int_equal(mincore(tt_slot_memory_at(&m, 5), STRIDE, pages), 0);
    for (unsigned i = 0; i < sizeof pages; i++)
        assert_false(pages[i] & 1);
    tt_slot_memory_forget(&m, &r.base);
    assert_int_equal(r.n, 0);
    tt_slot_memory_register(&m, &other.base);
    assert_int_equal(m.registered_bytes, 0);
    tt_slot_memory_register(&m, &r.base);
    assert_int_equal(r.n, 2);
    tt_slot_memory_free(&m);
    tt_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_lie_whole_in_slabs),
        cmocka_unit_test(large_caches_come_in_slabs),
        cmocka_unit_test(slabs_are_told_forgotten_and_retired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
