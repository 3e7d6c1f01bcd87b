/* Proves every law of io/expert_cache.h under a reader that delays, reorders, cuts, fails and
 * corrupts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/faulty_reader.h"
#include "../support/tempdir.h"
#include "base/hash.h"
#include "io/expert_cache.h"

#define LAYERS  3
#define EXPERTS 8
#define SLOTS   4
#define STRIDE  (2 * (uint64_t)TT_PAGE_ALIGN)
#define PAYLOAD (STRIDE - 100)

/* Counts what this program takes from the heap and the kernel. Sanitizers bring their own. */
static unsigned long allocations;
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n)
{
    allocations++;
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    allocations++;
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
    allocations++;
    return __libc_realloc(p, n);
}
void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
    allocations++;
    return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}
#else
#define COUNTS_ALLOCATIONS 0
#endif

static char dir[512], paths[LAYERS][600];
static unsigned char content[LAYERS][EXPERTS][STRIDE];
static uint32_t crc[LAYERS * EXPERTS];

static int make_files(void **state)
{
    tempdir_make(dir);
    for (uint32_t l = 0; l < LAYERS; l++) {
        for (uint32_t e = 0; e < EXPERTS; e++) {
            for (uint64_t i = 0; i < STRIDE; i++)
                content[l][e][i] = (unsigned char)(l * 97 + e * 13 + i * 7 + (i >> 9));
            crc[l * EXPERTS + e] = tt_crc32c(0, content[l][e], PAYLOAD);
        }
        char name[16];
        snprintf(name, sizeof name, "layer_%02u.bin", l);
        tempdir_file(dir, name, content[l], sizeof content[l], paths[l]);
    }
    return 0;
}

static int remove_files(void **state)
{
    tempdir_remove(dir);
    return 0;
}

typedef struct rig {
    tt_reader *reader;
    tt_expert_cache *cache;
} rig;

static rig open_rig(const faulty_options *faults, bool verify)
{
    rig r = {0};
    tt_reader *inner = NULL;
    const char *names[LAYERS] = {paths[0], paths[1], paths[2]};
    assert_int_equal(tt_reader_open_buffered(names, LAYERS, &inner, NULL), TT_OK);
    faulty_options none;
    faulty_options_default(&none);
    assert_int_equal(faulty_reader_open(&inner, faults != NULL ? faults : &none, &r.reader, NULL),
                     TT_OK);
    tt_expert_cache_options o = {.n_layers = LAYERS,
                                 .n_experts = EXPERTS,
                                 .top_k = 2,
                                 .slots_per_layer = SLOTS,
                                 .stride = STRIDE,
                                 .payload_bytes = PAYLOAD,
                                 .reader = r.reader,
                                 .crc = verify ? crc : NULL};
    assert_int_equal(tt_expert_cache_create(&o, &r.cache, NULL), TT_OK);
    assert_int_equal(tt_expert_cache_slots(r.cache), SLOTS);
    return r;
}

static void close_rig(rig *r)
{
    tt_expert_cache_close(&r->cache);
    assert_null(r->cache);
    tt_reader_close(&r->reader);
}

/* A lease with its storage. */
typedef struct held {
    tt_expert_lease lease;
    uint32_t expert[EXPERTS + 1], slot[EXPERTS + 1];
    bool hit[EXPERTS + 1];
} held;

static tt_status ask(rig *r, held *h, uint32_t layer, uint32_t n, const uint32_t *experts,
                     tt_error *err)
{
    memcpy(h->expert, experts, n * sizeof *experts);
    h->lease = (tt_expert_lease){
        .layer = layer, .n = n, .expert = h->expert, .slot = h->slot, .hit = h->hit};
    return tt_expert_cache_ask(r->cache, &h->lease, err);
}
#define ASK(r, h, layer, ...)                                                                      \
    ask(r, h, layer, sizeof((uint32_t[]){__VA_ARGS__}) / 4, (const uint32_t[]){__VA_ARGS__}, NULL)

static bool bytes_are(const void *bytes, uint32_t layer, uint32_t expert)
{
    return memcmp(bytes, content[layer][expert], STRIDE) == 0;
}

static void wait_good(rig *r, held *h)
{
    for (uint32_t i = 0; i < h->lease.n; i++) {
        const void *bytes = NULL;
        assert_int_equal(tt_expert_cache_wait(r->cache, &h->lease, i, &bytes, NULL), TT_OK);
        assert_int_equal((uintptr_t)bytes % TT_PAGE_ALIGN, 0);
        assert_true(bytes_are(bytes, h->lease.layer, h->expert[i]));
    }
}

static void use(rig *r, uint32_t layer, uint32_t expert)
{
    held h;
    assert_int_equal(ask(r, &h, layer, 1, &expert, NULL), TT_OK);
    wait_good(r, &h);
    tt_expert_cache_release(r->cache, &h.lease);
}

static bool resident(rig *r, uint32_t layer, uint32_t expert)
{
    held h;
    assert_int_equal(ask(r, &h, layer, 1, &expert, NULL), TT_OK);
    bool hit = h.hit[0];
    wait_good(r, &h);
    tt_expert_cache_release(r->cache, &h.lease);
    return hit;
}

static tt_expert_cache_stats stats(rig *r)
{
    tt_expert_cache_stats s;
    tt_expert_cache_get_stats(r->cache, &s);
    return s;
}

static void counts_hits_misses_and_evictions(void **state)
{
    rig r = open_rig(NULL, true);
    held h;
    assert_int_equal(ASK(&r, &h, 1, 5, 2), TT_OK);
    assert_false(h.hit[0] || h.hit[1]);
    wait_good(&r, &h);
    tt_expert_cache_release(r.cache, &h.lease);
    assert_int_equal(ASK(&r, &h, 1, 2, 7, 5), TT_OK);
    assert_true(h.hit[0] && !h.hit[1] && h.hit[2]);
    wait_good(&r, &h);
    tt_expert_cache_release(r.cache, &h.lease);
    tt_expert_cache_stats s = stats(&r);
    assert_int_equal(s.asks, 5);
    assert_int_equal(s.hits, 2);
    assert_int_equal(s.misses, 3);
    assert_int_equal(s.joins, 0);
    assert_int_equal(s.evictions, 0);
    assert_int_equal(s.bytes_read, 3 * STRIDE);
    assert_true(s.wait_seconds >= 0);
    /* Layers do not share slots, and an empty ask is an ask. */
    assert_int_equal(ask(&r, &h, 0, 0, h.expert, NULL), TT_OK);
    use(&r, 0, 5);
    assert_int_equal(stats(&r).misses, 4);
    assert_int_equal(faulty_reader_started(r.reader), 4);
    close_rig(&r);
}

static void evicts_the_least_recently_used(void **state)
{
    rig r = open_rig(NULL, false);
    for (uint32_t e = 0; e < SLOTS; e++)
        use(&r, 0, e);
    use(&r, 0, 0);
    use(&r, 0, 6); /* drops 1 */
    use(&r, 0, 2);
    use(&r, 0, 7); /* drops 3 */
    assert_int_equal(stats(&r).evictions, 2);
    assert_true(resident(&r, 0, 0) && resident(&r, 0, 2) && resident(&r, 0, 6) &&
                resident(&r, 0, 7));
    assert_false(resident(&r, 0, 3)); /* drops 0 */
    assert_false(resident(&r, 0, 0));
    close_rig(&r);
}

/* Law 1. */
static void slots_under_lease_are_not_reused(void **state)
{
    rig r = open_rig(NULL, false);
    held kept, other;
    const void *before[3], *after;
    assert_int_equal(ASK(&r, &kept, 2, 0, 1, 2), TT_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(tt_expert_cache_wait(r.cache, &kept.lease, i, &before[i], NULL), TT_OK);
    for (uint32_t e = 3; e < EXPERTS; e++) {
        assert_int_equal(ASK(&r, &other, 2, e, 1), TT_OK);
        wait_good(&r, &other);
        tt_expert_cache_release(r.cache, &other.lease);
    }
    wait_good(&r, &kept);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(tt_expert_cache_wait(r.cache, &kept.lease, i, &after, NULL), TT_OK);
        assert_ptr_equal(after, before[i]);
    }
    /* Expert 1 was asked and released by others, but the first lease still counts. */
    assert_int_equal(ASK(&r, &other, 2, 6, 7), TT_ERR_LIMIT);
    tt_expert_cache_release(r.cache, &kept.lease);
    assert_int_equal(ASK(&r, &other, 2, 4, 5, 6, 7), TT_OK);
    wait_good(&r, &other);
    tt_expert_cache_release(r.cache, &other.lease);
    close_rig(&r);
}

/* Law 3. */
static void loads_are_joined(void **state)
{
    rig r = open_rig(NULL, true);
    held a, b;
    assert_int_equal(ASK(&r, &a, 0, 3, 4), TT_OK);
    assert_int_equal(ASK(&r, &b, 0, 4, 5), TT_OK);
    assert_false(b.hit[0] || b.hit[1]);
    assert_int_equal(a.slot[1], b.slot[0]);
    assert_int_equal(faulty_reader_started(r.reader), 3);
    wait_good(&r, &b);
    wait_good(&r, &a);
    tt_expert_cache_release(r.cache, &a.lease);
    tt_expert_cache_release(r.cache, &b.lease);
    /* A read whose lease went away is still joined. */
    assert_int_equal(ASK(&r, &a, 0, 7), TT_OK);
    tt_expert_cache_release(r.cache, &a.lease);
    use(&r, 0, 7);
    assert_int_equal(faulty_reader_started(r.reader), 4);
    tt_expert_cache_stats s = stats(&r);
    assert_int_equal(s.joins, 2);
    assert_int_equal(s.misses, 4);
    assert_int_equal(s.bytes_read, 4 * STRIDE);
    close_rig(&r);
}

/* Slots whose loads nobody wants any more come free when something else is asked. */
static void abandoned_loads_give_way(void **state)
{
    for (unsigned failing = 0; failing < 2; failing++) {
        faulty_options o;
        faulty_options_default(&o);
        o.fail_every = failing;
        rig r = open_rig(&o, true);
        held h;
        assert_int_equal(ASK(&r, &h, 1, 0, 1, 2, 3), TT_OK);
        tt_expert_cache_release(r.cache, &h.lease);
        assert_int_equal(ASK(&r, &h, 1, 4, 5, 6, 7), TT_OK);
        faulty_options_default(&o);
        faulty_reader_set(r.reader, &o);
        wait_good(&r, &h);
        tt_expert_cache_release(r.cache, &h.lease);
        assert_int_equal(faulty_reader_started(r.reader), 8);
        assert_int_equal(stats(&r).evictions, failing ? 0 : 4);
        close_rig(&r);
    }
}

/* Law 4. */
static void more_than_the_slots_is_refused(void **state)
{
    rig r = open_rig(NULL, false);
    held a, b;
    tt_error err = {0};
    const uint32_t five[] = {0, 1, 2, 3, 4};
    assert_int_equal(ask(&r, &a, 0, 5, five, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "5 experts"));
    assert_int_equal(faulty_reader_started(r.reader), 0);
    assert_int_equal(ASK(&r, &a, 0, 0, 1, 2), TT_OK);
    /* 2 is there and 5 finds the last slot, 6 does not: nothing may stay held. */
    const uint32_t more[] = {2, 5, 6};
    assert_int_equal(ask(&r, &b, 0, 3, more, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "under lease"));
    tt_expert_cache_release(r.cache, &a.lease);
    assert_int_equal(ASK(&r, &b, 0, 4, 5, 6, 7), TT_OK);
    wait_good(&r, &b);
    tt_expert_cache_release(r.cache, &b.lease);
    tt_expert_cache_stats s = stats(&r);
    assert_int_equal(s.asks, s.hits + s.misses + s.joins);
    assert_int_equal(s.asks, 7);
    close_rig(&r);
}

static void wrong_asks_are_refused(void **state)
{
    rig r = open_rig(NULL, false);
    held h;
    const void *bytes = &r;
    assert_int_equal(ASK(&r, &h, LAYERS, 0), TT_ERR_INVALID);
    assert_int_equal(ASK(&r, &h, 0, 0, EXPERTS), TT_ERR_INVALID);
    assert_int_equal(ASK(&r, &h, 0, 3, 1, 3), TT_ERR_INVALID);
    assert_int_equal(faulty_reader_started(r.reader), 0);
    assert_int_equal(ASK(&r, &h, 0, 3, 1), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 2, &bytes, NULL), TT_ERR_STATE);
    tt_expert_cache_release(r.cache, &h.lease);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 0, &bytes, NULL), TT_ERR_STATE);
    assert_ptr_equal(bytes, &r);
    tt_expert_cache_release(r.cache, &h.lease); /* twice is harmless */
    assert_int_equal(ASK(&r, &h, 0, 4, 5, 6, 7), TT_OK);
    close_rig(&r);
}

enum fault { FAIL_START, FAIL_READ, SHORTEN, CORRUPT, FAULTS };

static void inject(faulty_options *o, enum fault kind, uint64_t at)
{
    uint64_t *where[FAULTS] = {&o->fail_start, &o->fail_read, &o->shorten, &o->corrupt};
    *where[kind] = at;
}

/* One walk of asks; returns how many failed, checking that each failure is clean. */
static unsigned walk(rig *r, tt_status want)
{
    static const uint32_t steps[][3] = {{0, 1, 2}, {2, 3, 4}, {0, 5, 6}, {6, 7, 1}, {4, 3, 0}};
    unsigned failures = 0;
    for (unsigned i = 0; i < 5; i++) {
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            for (unsigned attempt = 0;; attempt++) {
                held h;
                tt_error err = {0};
                tt_status st = ask(r, &h, layer, 3, steps[i], &err);
                bool leased = st == TT_OK;
                for (uint32_t k = 0; k < 3 && st == TT_OK; k++) {
                    const void *bytes = NULL;
                    st = tt_expert_cache_wait(r->cache, &h.lease, k, &bytes, &err);
                    if (st == TT_OK)
                        assert_true(bytes_are(bytes, layer, h.expert[k]));
                    else
                        assert_null(bytes);
                }
                if (leased)
                    tt_expert_cache_release(r->cache, &h.lease);
                if (st == TT_OK)
                    break;
                assert_int_equal(st, want);
                assert_int_equal(err.status, want);
                assert_non_null(strstr(err.message, "expert"));
                assert_int_equal(attempt, 0); /* the next ask works */
                failures++;
            }
        }
    }
    return failures;
}

/* Law 5, at every read of a walk, for every kind of failure and every habit of the reader. */
static void a_failure_at_every_read_is_clean(void **state)
{
    static const tt_status want[FAULTS] = {TT_ERR_IO, TT_ERR_IO, TT_ERR_FORMAT, TT_ERR_CORRUPT};
    rig calm = open_rig(NULL, true);
    assert_int_equal(walk(&calm, TT_OK), 0);
    uint64_t reads = faulty_reader_started(calm.reader);
    close_rig(&calm);
    assert_true(reads > 24);
    for (enum fault kind = 0; kind < FAULTS; kind++) {
        for (unsigned habit = 0; habit < 4; habit++) {
            for (uint64_t at = 0; at < reads; at++) {
                faulty_options o;
                faulty_options_default(&o);
                o.seed = at;
                o.eager = habit == 1;
                o.reorder = habit == 2;
                o.threaded = habit == 3;
                inject(&o, kind, at);
                rig r = open_rig(&o, true);
                assert_int_equal(walk(&r, want[kind]), 1);
                assert_int_equal(walk(&r, want[kind]), 0);
                assert_int_equal(stats(&r).crc_failures, kind == CORRUPT);
                close_rig(&r);
            }
        }
    }
}

/* Whoever joined a read that fails is told so too, and its slot is not reused under them. */
static void joined_failures_reach_everyone(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.fail_read = 1;
    rig r = open_rig(&o, true);
    held a, b, c;
    tt_error err = {0};
    const void *bytes = NULL;
    assert_int_equal(ASK(&r, &a, 0, 0, 1), TT_OK);
    assert_int_equal(ASK(&r, &b, 0, 1), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &b.lease, 0, &bytes, &err), TT_ERR_IO);
    assert_string_equal(err.file, paths[0]);
    err = (tt_error){0};
    assert_int_equal(tt_expert_cache_wait(r.cache, &a.lease, 1, &bytes, &err), TT_ERR_IO);
    assert_string_equal(err.file, paths[0]);
    assert_non_null(strstr(err.message, "layer 0 expert 1"));
    assert_null(bytes);
    assert_int_equal(tt_expert_cache_wait(r.cache, &a.lease, 0, &bytes, &err), TT_OK);
    /* Read again, into a slot of its own. */
    assert_int_equal(ASK(&r, &c, 0, 1, 2), TT_OK);
    assert_true(c.slot[0] != a.slot[1] && c.slot[1] != a.slot[1]);
    wait_good(&r, &c);
    assert_int_equal(tt_expert_cache_wait(r.cache, &a.lease, 1, &bytes, &err), TT_ERR_IO);
    tt_expert_cache_release(r.cache, &a.lease);
    tt_expert_cache_release(r.cache, &b.lease);
    tt_expert_cache_release(r.cache, &c.lease);
    assert_true(resident(&r, 0, 1));
    close_rig(&r);
}

static void checksums_name_the_place(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.corrupt = 1;
    rig r = open_rig(&o, true);
    held h;
    tt_error err = {0};
    const void *bytes = NULL;
    assert_int_equal(ASK(&r, &h, 2, 3, 6), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 0, &bytes, &err), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 1, &bytes, &err), TT_ERR_CORRUPT);
    assert_string_equal(err.file, paths[2]);
    assert_int_equal(err.offset, 6 * STRIDE);
    assert_non_null(strstr(err.message, "layer 2 expert 6"));
    tt_expert_cache_release(r.cache, &h.lease);
    assert_int_equal(stats(&r).crc_failures, 1);
    close_rig(&r);

    /* Without checksums nobody looks: this is what --verify-reads is for. */
    r = open_rig(&o, false);
    assert_int_equal(ASK(&r, &h, 2, 3, 6), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 1, &bytes, &err), TT_OK);
    assert_false(bytes_are(bytes, 2, 6));
    close_rig(&r);
}

/* Laws 1, 2, 3 and 6 together: overlapping leases, reads abandoned and failing, any order. */
static void random_walks_hold_every_law(void **state)
{
    for (unsigned mode = 0; mode < 16; mode++) {
        faulty_options o;
        faulty_options_default(&o);
        o.seed = mode;
        o.reorder = mode & 1;
        o.threaded = mode & 2;
        o.piece = mode & 4 ? TT_PAGE_ALIGN : 0;
        o.fail_every = mode & 8 ? 7 : 0;
        rig r = open_rig(&o, true);
        held h[4];
        bool live[4] = {0};
        uint64_t x = mode * 77 + 5;
        unsigned long before = allocations;
        for (unsigned step = 0; step < 400; step++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            unsigned k = (unsigned)(x >> 40) % 4, layer = (unsigned)(x >> 44) % LAYERS;
            for (unsigned i = 0; i < 4; i++) {
                for (uint32_t j = 0; live[i] && j < h[i].lease.n; j++) {
                    const void *bytes = NULL;
                    if ((i == k || (x >> i & 3) == 0) &&
                        tt_expert_cache_wait(r.cache, &h[i].lease, j, &bytes, NULL) == TT_OK)
                        assert_true(bytes_are(bytes, h[i].lease.layer, h[i].expert[j]));
                    else if (o.fail_every == 0 && i == k)
                        fail();
                }
            }
            if (live[k]) {
                tt_expert_cache_release(r.cache, &h[k].lease);
                live[k] = false;
            } else {
                uint32_t e = (uint32_t)(x >> 50) % EXPERTS, n = 1 + (uint32_t)(x >> 54) % 3;
                const uint32_t ids[] = {e, (e + 3) % EXPERTS, (e + 5) % EXPERTS};
                tt_status st = ask(&r, &h[k], layer, n, ids, NULL);
                assert_true(st == TT_OK || st == TT_ERR_LIMIT);
                live[k] = st == TT_OK;
            }
        }
        if (COUNTS_ALLOCATIONS)
            assert_int_equal(allocations, before);
        tt_expert_cache_stats s = stats(&r);
        assert_int_equal(s.asks, s.hits + s.misses + s.joins);
        assert_true(s.hits > 10 && s.misses > 10 && s.evictions > 10);
        close_rig(&r); /* with leases out and reads in flight */
    }
}

/* Reads in flight, wanted or not, end where they began. */
static void readers_can_be_exchanged(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.fail_read = 1;
    rig r = open_rig(&o, true), spare = open_rig(NULL, true);
    held gone, kept;
    const void *bytes = NULL;
    assert_int_equal(ASK(&r, &gone, 0, 2), TT_OK);
    tt_expert_cache_release(r.cache, &gone.lease);
    assert_int_equal(ASK(&r, &kept, 1, 3, 4), TT_OK);
    tt_expert_cache_set_reader(r.cache, spare.reader);
    assert_int_equal(faulty_reader_pending(r.reader), 0);
    assert_int_equal(faulty_reader_started(spare.reader), 0);
    assert_int_equal(tt_expert_cache_wait(r.cache, &kept.lease, 0, &bytes, NULL), TT_ERR_IO);
    assert_int_equal(tt_expert_cache_wait(r.cache, &kept.lease, 1, &bytes, NULL), TT_OK);
    assert_true(bytes_are(bytes, 1, 4));
    tt_expert_cache_release(r.cache, &kept.lease);
    assert_true(resident(&r, 0, 2));
    use(&r, 1, 3);
    assert_int_equal(faulty_reader_started(r.reader), 3);
    assert_int_equal(faulty_reader_started(spare.reader), 1);
    close_rig(&r);
    close_rig(&spare);
}

static void create_checks_its_options(void **state)
{
    rig r = open_rig(NULL, false);
    const tt_expert_cache_options good = {.n_layers = LAYERS,
                                          .n_experts = EXPERTS,
                                          .top_k = 2,
                                          .slots_per_layer = 2,
                                          .stride = STRIDE,
                                          .payload_bytes = STRIDE,
                                          .reader = r.reader};
    tt_expert_cache_options o[12];
    for (unsigned i = 0; i < 12; i++)
        o[i] = good;
    o[0].n_layers = 0;
    o[1].n_layers = TT_MAX_LAYERS + 1;
    o[2].n_experts = 0;
    o[3].n_experts = TT_MAX_EXPERTS + 1;
    o[4].top_k = 0;
    o[5].top_k = EXPERTS + 1;
    o[6].slots_per_layer = 1;
    o[7].slots_per_layer = EXPERTS + 1;
    o[8].stride = 0;
    o[9].stride = TT_PAGE_ALIGN + 4096;
    o[10].payload_bytes = STRIDE + 1;
    o[11].reader = NULL;
    tt_expert_cache *c = NULL;
    for (unsigned i = 0; i < 12; i++) {
        tt_error err = {0};
        assert_int_equal(tt_expert_cache_create(&o[i], &c, &err), TT_ERR_INVALID);
        assert_true(err.message[0] != '\0');
    }
    uint64_t cost = tt_expert_cache_cost(&good);
    assert_true(cost > LAYERS * 2 * STRIDE && cost < LAYERS * 2 * STRIDE + 64 * TT_KIB);
    tt_expert_cache_options huge = good;
    huge.stride = (UINT64_MAX / 4) & ~(uint64_t)(TT_PAGE_ALIGN - 1);
    assert_true(tt_expert_cache_cost(&huge) == UINT64_MAX);
    assert_int_equal(tt_expert_cache_create(&huge, &c, NULL), TT_ERR_NOMEM);
    huge.stride = (uint64_t)1 << 50;
    assert_int_equal(tt_expert_cache_create(&huge, &c, NULL), TT_ERR_NOMEM);
    assert_null(c);
    tt_expert_cache_close(&c);
    tt_expert_cache_close(NULL);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_hits_misses_and_evictions),
        cmocka_unit_test(evicts_the_least_recently_used),
        cmocka_unit_test(slots_under_lease_are_not_reused),
        cmocka_unit_test(loads_are_joined),
        cmocka_unit_test(abandoned_loads_give_way),
        cmocka_unit_test(more_than_the_slots_is_refused),
        cmocka_unit_test(wrong_asks_are_refused),
        cmocka_unit_test(a_failure_at_every_read_is_clean),
        cmocka_unit_test(joined_failures_reach_everyone),
        cmocka_unit_test(checksums_name_the_place),
        cmocka_unit_test(random_walks_hold_every_law),
        cmocka_unit_test(readers_can_be_exchanged),
        cmocka_unit_test(create_checks_its_options),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
