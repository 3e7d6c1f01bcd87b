/* Proves every law of io/expert_cache.h under a reader that delays, reorders, cuts, fails and
 * corrupts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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
#define SPLIT   (STRIDE / 2 - 96) /* rounded up by the cache */
#define PART    (STRIDE / 2)

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
    tt_expert_cache_options o;
} rig;

/* `change` (may be NULL) has its way with the options: by default twelve slots, the rule that is
 * easiest to follow, an expert in one part. */
static rig open_as(const faulty_options *faults, void (*change)(tt_expert_cache_options *))
{
    rig r = {0};
    tt_reader *inner = NULL;
    const char *names[LAYERS] = {paths[0], paths[1], paths[2]};
    assert_int_equal(tt_reader_open_buffered(names, LAYERS, &inner, NULL), TT_OK);
    faulty_options none;
    faulty_options_default(&none);
    assert_int_equal(faulty_reader_open(&inner, faults != NULL ? faults : &none, &r.reader, NULL),
                     TT_OK);
    r.o = (tt_expert_cache_options){.n_layers = LAYERS,
                                    .n_experts = EXPERTS,
                                    .top_k = 2,
                                    .slots_total = LAYERS * SLOTS,
                                    .stride = STRIDE,
                                    .payload_bytes = PAYLOAD,
                                    .reader = r.reader,
                                    .policy = TT_CACHE_LRU};
    if (change != NULL)
        change(&r.o);
    assert_int_equal(tt_expert_cache_create(&r.o, &r.cache, NULL), TT_OK);
    assert_int_equal(tt_expert_cache_slots(r.cache), r.o.slots_total);
    return r;
}

static void with_crc(tt_expert_cache_options *o)
{
    o->crc = crc;
}

/* Few enough that one layer can fill them. */
static void four_slots(tt_expert_cache_options *o)
{
    o->slots_total = SLOTS;
}

static void four_slots_crc(tt_expert_cache_options *o)
{
    o->slots_total = SLOTS;
    o->crc = crc;
}

static void in_parts(tt_expert_cache_options *o)
{
    o->split = SPLIT;
}

static void in_parts_crc(tt_expert_cache_options *o)
{
    o->split = SPLIT;
    o->crc = crc;
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
    uint32_t expert[EXPERTS + 1], slot[EXPERTS + 1], generation[EXPERTS + 1];
    bool hit[EXPERTS + 1];
} held;

static tt_status ask(rig *r, held *h, uint32_t layer, uint32_t n, const uint32_t *experts,
                     tt_error *err)
{
    memcpy(h->expert, experts, n * sizeof *experts);
    h->lease = (tt_expert_lease){.layer = layer,
                                 .n = n,
                                 .expert = h->expert,
                                 .slot = h->slot,
                                 .generation = h->generation,
                                 .hit = h->hit};
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
        assert_int_equal(tt_expert_cache_wait(r->cache, &h->lease, i, TT_EXPERT_ALL, &bytes, NULL),
                         TT_OK);
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
    rig r = open_as(NULL, with_crc);
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
    /* Layers do not share experts, and an empty ask is an ask. */
    assert_int_equal(ask(&r, &h, 0, 0, h.expert, NULL), TT_OK);
    use(&r, 0, 5);
    assert_int_equal(stats(&r).misses, 4);
    assert_int_equal(faulty_reader_started(r.reader), 4);
    close_rig(&r);
}

static void evicts_the_least_recently_used(void **state)
{
    rig r = open_as(NULL, four_slots);
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
    rig r = open_as(NULL, four_slots);
    held kept, other;
    const void *before[3], *after;
    assert_int_equal(ASK(&r, &kept, 2, 0, 1, 2), TT_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(
            tt_expert_cache_wait(r.cache, &kept.lease, i, TT_EXPERT_ALL, &before[i], NULL), TT_OK);
    for (uint32_t e = 3; e < EXPERTS; e++) {
        assert_int_equal(ASK(&r, &other, 2, e, 1), TT_OK);
        wait_good(&r, &other);
        tt_expert_cache_release(r.cache, &other.lease);
    }
    wait_good(&r, &kept);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(tt_expert_cache_wait(r.cache, &kept.lease, i, TT_EXPERT_ALL, &after, NULL),
                         TT_OK);
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
    rig r = open_as(NULL, with_crc);
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
        rig r = open_as(&o, four_slots_crc);
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
    rig r = open_as(NULL, four_slots);
    held a, b;
    tt_error err = {0};
    const uint32_t five[] = {0, 1, 2, 3, 4};
    assert_int_equal(ask(&r, &a, 0, 5, five, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "5 experts"));
    assert_int_equal(faulty_reader_started(r.reader), 0);
    assert_int_equal(ASK(&r, &a, 0, 0, 1, 2), TT_OK);
    wait_good(&r, &a);
    /* 2 is there and 5 would find the last slot, 6 would not: nothing is held or read. */
    assert_int_equal(tt_expert_cache_slots(r.cache), 1);
    const uint32_t more[] = {2, 5, 6};
    assert_int_equal(ask(&r, &b, 0, 3, more, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "under lease"));
    assert_int_equal(faulty_reader_started(r.reader), 3);
    assert_int_equal(stats(&r).asks, 3);
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
    rig r = open_as(NULL, four_slots);
    held h;
    const void *bytes = &r;
    assert_int_equal(ASK(&r, &h, LAYERS, 0), TT_ERR_INVALID);
    assert_int_equal(ASK(&r, &h, 0, 0, EXPERTS), TT_ERR_INVALID);
    assert_int_equal(ASK(&r, &h, 0, 3, 1, 3), TT_ERR_INVALID);
    assert_int_equal(faulty_reader_started(r.reader), 0);
    assert_int_equal(ASK(&r, &h, 0, 3, 1), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 2, TT_EXPERT_ALL, &bytes, NULL),
                     TT_ERR_STATE);
    tt_expert_cache_release(r.cache, &h.lease);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 0, TT_EXPERT_ALL, &bytes, NULL),
                     TT_ERR_STATE);
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
                    const void *bytes = NULL, *all = NULL;
                    st = tt_expert_cache_wait(r->cache, &h.lease, k, TT_EXPERT_GATE_UP, &bytes,
                                              &err);
                    if (st == TT_OK)
                        assert_memory_equal(bytes, content[layer][h.expert[k]], PART);
                    else
                        assert_null(bytes);
                    if (st == TT_OK)
                        st = tt_expert_cache_wait(r->cache, &h.lease, k, TT_EXPERT_ALL, &all, &err);
                    if (st == TT_OK)
                        assert_true(all == bytes && bytes_are(all, layer, h.expert[k]));
                    else
                        assert_null(all);
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

static void fail_once(enum fault kind, unsigned habit, uint64_t at, unsigned parts)
{
    static const tt_status want[FAULTS] = {TT_ERR_IO, TT_ERR_IO, TT_ERR_FORMAT, TT_ERR_CORRUPT};
    faulty_options o;
    faulty_options_default(&o);
    o.seed = at;
    o.eager = habit == 1;
    o.reorder = habit == 2;
    o.threaded = habit == 3;
    inject(&o, kind, at);
    /* Without checksums nobody sees a wrong bit. */
    rig r = open_as(&o, !parts ? with_crc : kind == CORRUPT ? in_parts_crc : in_parts);
    assert_int_equal(walk(&r, want[kind]), 1);
    assert_int_equal(walk(&r, want[kind]), 0);
    assert_int_equal(stats(&r).crc_failures, kind == CORRUPT);
    assert_int_equal(tt_expert_cache_slots(r.cache), r.o.slots_total);
    close_rig(&r);
}

/* Law 5, at every read of a walk, for every kind of failure and every habit of the reader. */
static void a_failure_at_every_read_is_clean(void **state)
{
    for (unsigned parts = 0; parts < 2; parts++) {
        rig calm = open_as(NULL, parts ? in_parts : with_crc);
        assert_int_equal(walk(&calm, TT_OK), 0);
        uint64_t reads = faulty_reader_started(calm.reader);
        close_rig(&calm);
        assert_true(reads > 24 * (parts + 1));
        for (enum fault kind = 0; kind < FAULTS; kind++)
            for (unsigned habit = 0; habit < 4; habit++)
                for (uint64_t at = 0; at < reads; at++)
                    fail_once(kind, habit, at, parts);
    }
}

/* Whoever joined a read that fails is told so too, and its slot is not reused under them. */
static void joined_failures_reach_everyone(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.fail_read = 1;
    rig r = open_as(&o, with_crc);
    held a, b, c;
    tt_error err = {0};
    const void *bytes = NULL;
    assert_int_equal(ASK(&r, &a, 0, 0, 1), TT_OK);
    assert_int_equal(ASK(&r, &b, 0, 1), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &b.lease, 0, TT_EXPERT_ALL, &bytes, &err),
                     TT_ERR_IO);
    assert_string_equal(err.file, paths[0]);
    err = (tt_error){0};
    assert_int_equal(tt_expert_cache_wait(r.cache, &a.lease, 1, TT_EXPERT_ALL, &bytes, &err),
                     TT_ERR_IO);
    assert_string_equal(err.file, paths[0]);
    assert_non_null(strstr(err.message, "layer 0 expert 1"));
    assert_null(bytes);
    assert_int_equal(tt_expert_cache_wait(r.cache, &a.lease, 0, TT_EXPERT_ALL, &bytes, &err),
                     TT_OK);
    /* Read again, into a slot of its own. */
    assert_int_equal(ASK(&r, &c, 0, 1, 2), TT_OK);
    assert_true(c.slot[0] != a.slot[1] && c.slot[1] != a.slot[1]);
    wait_good(&r, &c);
    assert_int_equal(tt_expert_cache_wait(r.cache, &a.lease, 1, TT_EXPERT_ALL, &bytes, &err),
                     TT_ERR_IO);
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
    rig r = open_as(&o, with_crc);
    held h;
    tt_error err = {0};
    const void *bytes = NULL;
    assert_int_equal(ASK(&r, &h, 2, 3, 6), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 0, TT_EXPERT_ALL, &bytes, &err),
                     TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 1, TT_EXPERT_ALL, &bytes, &err),
                     TT_ERR_CORRUPT);
    assert_string_equal(err.file, paths[2]);
    assert_int_equal(err.offset, 6 * STRIDE);
    assert_non_null(strstr(err.message, "layer 2 expert 6"));
    tt_expert_cache_release(r.cache, &h.lease);
    assert_int_equal(stats(&r).crc_failures, 1);
    close_rig(&r);

    /* Without checksums nobody looks: this is what --verify-reads is for. */
    r = open_as(&o, four_slots);
    assert_int_equal(ASK(&r, &h, 2, 3, 6), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 1, TT_EXPERT_ALL, &bytes, &err),
                     TT_OK);
    assert_false(bytes_are(bytes, 2, 6));
    close_rig(&r);
}

/* Laws 1, 2, 3, 4 and 6 together: overlapping leases, reads abandoned and failing, parts, polls,
 * heat, a slab that goes half way, in any order. */
enum {
    WALK_REORDER = 1,
    WALK_THREADED = 2,
    WALK_PIECES = 4,
    WALK_FAILING = 8,
    WALK_PARTS = 16, /* without checksums, so that parts come alone */
    WALK_MIXED = 32, /* decay, weights, warming up, a slab retired */
    WALK_MODES = 64
};
#define WALKERS 4

typedef struct walker {
    rig r;
    unsigned mode;
    uint64_t x;
    held h[WALKERS];
    bool live[WALKERS];
} walker;

static uint32_t draw(walker *w, uint32_t below)
{
    w->x = w->x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->x >> 33) % below;
}

static void look(walker *w, const held *h, uint32_t j, tt_expert_part part, bool must)
{
    const void *bytes = NULL;
    bool ready = tt_expert_cache_ready(w->r.cache, &h->lease, j, part);
    if (!must && !ready)
        return;
    tt_status st = tt_expert_cache_wait(w->r.cache, &h->lease, j, part, &bytes, NULL);
    if (st == TT_OK)
        assert_memory_equal(bytes, content[h->lease.layer][h->expert[j]],
                            part == TT_EXPERT_ALL ? STRIDE : PART);
    else
        assert_true(w->mode & WALK_FAILING && st == TT_ERR_IO);
}

static void ask_something(walker *w, unsigned k)
{
    static const float weight[] = {0.5f, 0.25f, 1.0f};
    uint32_t layer = draw(w, LAYERS), e = draw(w, EXPERTS), n = 1 + draw(w, 3);
    const uint32_t ids[] = {e, (e + 3) % EXPERTS, (e + 5) % EXPERTS};
    held *h = &w->h[k];
    memcpy(h->expert, ids, sizeof ids);
    h->lease = (tt_expert_lease){.layer = layer,
                                 .n = n,
                                 .prefill = w->mode & WALK_MIXED && draw(w, 2),
                                 .weight = w->mode & WALK_MIXED && draw(w, 2) ? weight : NULL,
                                 .expert = h->expert,
                                 .slot = h->slot,
                                 .generation = h->generation,
                                 .hit = h->hit};
    uint32_t room = tt_expert_cache_slots(w->r.cache);
    tt_status st = tt_expert_cache_ask(w->r.cache, &h->lease, NULL);
    assert_true(st == TT_OK || (st == TT_ERR_LIMIT && n > room));
    w->live[k] = st == TT_OK;
}

static void walk_step(walker *w)
{
    unsigned k = draw(w, WALKERS);
    if (draw(w, 3) == 0)
        tt_expert_cache_poll(w->r.cache);
    for (unsigned i = 0; i < WALKERS; i++)
        for (uint32_t j = 0; w->live[i] && j < w->h[i].lease.n; j++)
            if (i == k || draw(w, 4) == 0)
                look(w, &w->h[i], j, draw(w, 2) ? TT_EXPERT_ALL : TT_EXPERT_GATE_UP, i == k);
    if (!w->live[k]) {
        ask_something(w, k);
        return;
    }
    tt_expert_cache_release(w->r.cache, &w->h[k].lease);
    w->live[k] = false;
}

static void mixed_options(tt_expert_cache_options *o)
{
    o->policy = TT_CACHE_LFU_DECAY;
    o->half_life = 3;
    o->slab_bytes = 4 * STRIDE;
    o->crc = crc;
    o->split = SPLIT;
}

static void mixed_options_parts(tt_expert_cache_options *o)
{
    mixed_options(o);
    o->crc = NULL;
}

static void random_walks_hold_every_law(void **state)
{
    uint64_t warmed = 0;
    for (unsigned mode = 0; mode < WALK_MODES; mode++) {
        walker w = {.mode = mode, .x = mode * 77 + 5};
        faulty_options o;
        faulty_options_default(&o);
        o.seed = mode;
        o.reorder = mode & WALK_REORDER;
        o.threaded = mode & WALK_THREADED;
        o.piece = mode & WALK_PIECES ? TT_PAGE_ALIGN : 0;
        o.fail_every = mode & WALK_FAILING ? 7 : 0;
        w.r =
            open_as(&o, mode & WALK_MIXED ? mode & WALK_PARTS ? mixed_options_parts : mixed_options
                        : mode & WALK_PARTS ? in_parts
                                            : with_crc);
        unsigned long before = allocations;
        for (unsigned step = 0; step < 300; step++) {
            if (mode & WALK_MIXED && step % 50 == 20)
                tt_expert_cache_warm(w.r.cache, 1e6, 3 * STRIDE);
            if (mode & WALK_MIXED && step == 200)
                assert_int_equal(tt_expert_cache_retire_slab(w.r.cache, NULL), TT_OK);
            walk_step(&w);
        }
        if (COUNTS_ALLOCATIONS)
            assert_int_equal(allocations, before);
        tt_expert_cache_stats s = stats(&w.r);
        assert_int_equal(s.asks, s.hits + s.misses + s.joins);
        assert_true(s.hits > 10 && s.misses > 10 && s.evictions > 10);
        assert_int_equal(s.slots_total, mode & WALK_MIXED ? 8 : 12);
        assert_true(!(mode & WALK_MIXED) || s.prefill_asks > 10);
        warmed += s.warm_reads;
        close_rig(&w.r); /* with leases out and reads in flight */
    }
    assert_true(warmed > 10);
}

/* Reads in flight, wanted or not, end where they began. */
static void readers_can_be_exchanged(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.fail_read = 1;
    rig r = open_as(&o, with_crc), spare = open_as(NULL, with_crc);
    held gone, kept;
    const void *bytes = NULL;
    assert_int_equal(ASK(&r, &gone, 0, 2), TT_OK);
    tt_expert_cache_release(r.cache, &gone.lease);
    assert_int_equal(ASK(&r, &kept, 1, 3, 4), TT_OK);
    tt_expert_cache_set_reader(r.cache, spare.reader);
    assert_int_equal(faulty_reader_pending(r.reader), 0);
    assert_int_equal(faulty_reader_started(spare.reader), 0);
    assert_int_equal(tt_expert_cache_wait(r.cache, &kept.lease, 0, TT_EXPERT_ALL, &bytes, NULL),
                     TT_ERR_IO);
    assert_int_equal(tt_expert_cache_wait(r.cache, &kept.lease, 1, TT_EXPERT_ALL, &bytes, NULL),
                     TT_OK);
    assert_true(bytes_are(bytes, 1, 4));
    tt_expert_cache_release(r.cache, &kept.lease);
    assert_true(resident(&r, 0, 2));
    use(&r, 1, 3);
    assert_int_equal(faulty_reader_started(r.reader), 3);
    assert_int_equal(faulty_reader_started(spare.reader), 1);
    close_rig(&r);
    close_rig(&spare);
}

/* ---- who goes ---- */

static void by_decay(tt_expert_cache_options *o)
{
    o->policy = TT_CACHE_LFU_DECAY;
    o->half_life = 100;
}

static void four_by_decay(tt_expert_cache_options *o)
{
    by_decay(o);
    o->slots_total = SLOTS;
}

static void evicts_what_is_used_least(void **state)
{
    rig r = open_as(NULL, four_by_decay);
    for (unsigned i = 0; i < 5; i++) {
        use(&r, 0, 0);
        use(&r, 0, 1);
    }
    for (uint32_t e = 2; e < EXPERTS; e++)
        use(&r, 0, e); /* these make room for one another, longest ago first */
    assert_int_equal(stats(&r).evictions, 4);
    assert_true(resident(&r, 0, 0) && resident(&r, 0, 1) && resident(&r, 0, 6) &&
                resident(&r, 0, 7));
    /* What was evicted is remembered: by its second use 2 has as many as 6 had. */
    use(&r, 0, 2);
    use(&r, 0, 2);
    use(&r, 0, 2);
    use(&r, 0, 3);
    assert_true(resident(&r, 0, 2));
    close_rig(&r);
}

/* Half a lifetime on, new uses outweigh as many old ones. */
static void old_use_fades(void **state)
{
    rig r = open_as(NULL, four_by_decay);
    for (unsigned i = 0; i < 40; i++)
        use(&r, 0, 0);
    /* 2 * LAYERS uses are a token here. */
    for (unsigned i = 0; i < 700 * 2 * LAYERS; i++)
        use(&r, 1, i % 3);
    assert_int_equal(stats(&r).misses, 4);
    use(&r, 1, 4);
    use(&r, 1, 5);
    assert_false(resident(&r, 0, 0));
    close_rig(&r);
}

/* A token's worth of one layer more than every layer's: the floor holds. One slot less: it does
 * not. */
static void eight_slots(tt_expert_cache_options *o)
{
    o->slots_total = 8;
}

static void seven_slots(tt_expert_cache_options *o)
{
    o->slots_total = 7;
}

static void layers_keep_their_floor(void **state)
{
    for (unsigned floors = 0; floors < 2; floors++) {
        rig r = open_as(NULL, floors ? eight_slots : seven_slots);
        for (uint32_t e = 0; e < 3; e++)
            use(&r, 0, e);
        for (unsigned i = 0; i < 3 * EXPERTS; i++)
            use(&r, 1, i % EXPERTS);
        /* Of three that layer 0 had the two used last are left; for itself it exchanges them. */
        uint64_t misses = stats(&r).misses;
        use(&r, 0, 2);
        use(&r, 0, 1);
        assert_int_equal(stats(&r).misses - misses, floors ? 0 : 2);
        if (floors) {
            for (uint32_t e = 0; e < EXPERTS; e++)
                use(&r, 0, e);
            assert_int_equal(stats(&r).evictions, stats(&r).misses - 8);
        }
        close_rig(&r);
    }
}

/* The floor gives way when nothing else is left: an ask may have every slot. */
static void an_ask_may_take_every_slot(void **state)
{
    rig r = open_as(NULL, eight_slots);
    held h;
    for (uint32_t e = 0; e < 4; e++)
        use(&r, e % 2, e);
    assert_int_equal(ASK(&r, &h, 2, 0, 1, 2, 3, 4, 5, 6, 7), TT_OK);
    assert_int_equal(tt_expert_cache_slots(r.cache), 0);
    wait_good(&r, &h);
    tt_expert_cache_release(r.cache, &h.lease);
    assert_int_equal(tt_expert_cache_slots(r.cache), 8);
    close_rig(&r);
}

/* Below the cliff, where a token needs more slots than there are, keeping what was used last hits
 * nothing; keeping what is used most hits what fits. */
static void below_the_cliff_hot_experts_stay(void **state)
{
    double rate[2];
    for (unsigned decay = 0; decay < 2; decay++) {
        rig r = open_as(NULL, decay ? four_by_decay : four_slots);
        for (unsigned token = 0; token < 200; token++) {
            for (uint32_t layer = 0; layer < LAYERS; layer++) {
                held h;
                const uint32_t ids[] = {0, 1 + token % (EXPERTS - 1)};
                assert_int_equal(ask(&r, &h, layer, 2, ids, NULL), TT_OK);
                wait_good(&r, &h);
                tt_expert_cache_release(r.cache, &h.lease);
            }
        }
        tt_expert_cache_stats s = stats(&r);
        rate[decay] = (double)s.hits / (double)s.asks;
        close_rig(&r);
    }
    assert_true(rate[0] == 0.0);
    assert_true(rate[1] > 0.3); /* a third of what is asked is expert 0 of two of three layers */
}

/* A prefill goes over every expert and leaves what decode has earned. */
static void a_sweep_leaves_what_decode_earned(void **state)
{
    rig r = open_as(NULL, by_decay);
    static const float tenth = 0.1f;
    for (unsigned i = 0; i < 10; i++)
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            for (uint32_t e = 0; e < 3; e++)
                use(&r, layer, e);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        for (uint32_t e = 0; e < EXPERTS; e++) {
            held h = {.expert = {e}};
            h.lease = (tt_expert_lease){.layer = layer,
                                        .n = 1,
                                        .prefill = true,
                                        .weight = &tenth,
                                        .expert = h.expert,
                                        .slot = h.slot,
                                        .generation = h.generation,
                                        .hit = h.hit};
            assert_int_equal(tt_expert_cache_ask(r.cache, &h.lease, NULL), TT_OK);
            wait_good(&r, &h);
            tt_expert_cache_release(r.cache, &h.lease);
        }
    }
    assert_int_equal(stats(&r).prefill_asks, LAYERS * EXPERTS);
    assert_int_equal(stats(&r).prefill_hits, LAYERS * 3);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t e = 0; e < 3; e++)
            assert_true(resident(&r, layer, e));
    close_rig(&r);
}

/* ---- leases and parts ---- */

static void leases_of_an_older_generation_are_refused(void **state)
{
    rig r = open_as(NULL, four_slots);
    held old, copy, other;
    const void *bytes = NULL;
    assert_int_equal(ASK(&r, &old, 0, 0, 1, 2, 3), TT_OK);
    wait_good(&r, &old);
    copy = old;
    copy.lease.slot = copy.slot;
    copy.lease.generation = copy.generation;
    tt_expert_cache_release(r.cache, &old.lease);
    assert_int_equal(ASK(&r, &other, 0, 4, 5, 6, 7), TT_OK);
    wait_good(&r, &other);
    assert_int_equal(tt_expert_cache_wait(r.cache, &copy.lease, 0, TT_EXPERT_ALL, &bytes, NULL),
                     TT_ERR_STATE);
    assert_null(bytes);
    assert_true(tt_expert_cache_ready(r.cache, &copy.lease, 0, TT_EXPERT_ALL));
    close_rig(&r);
}

static bool poisoned(const void *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (((const unsigned char *)bytes)[i] != FAULTY_POISON)
            return false;
    return true;
}

/* Gate and up of every expert are asked before the first down. */
static void parts_come_in_order(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.fail_read = 3; /* the down part of the first of three */
    rig r = open_as(&o, in_parts);
    held h, other;
    const void *bytes = NULL, *all = NULL;
    tt_error err = {0};
    assert_int_equal(ASK(&r, &h, 1, 5, 2, 6), TT_OK);
    assert_int_equal(faulty_reader_started(r.reader), 6);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(
            tt_expert_cache_wait(r.cache, &h.lease, i, TT_EXPERT_GATE_UP, &bytes, NULL), TT_OK);
        assert_memory_equal(bytes, content[1][h.expert[i]], PART);
        assert_true(poisoned((const char *)bytes + PART, STRIDE - PART));
        assert_true(tt_expert_cache_ready(r.cache, &h.lease, i, TT_EXPERT_GATE_UP));
        assert_false(tt_expert_cache_ready(r.cache, &h.lease, i, TT_EXPERT_ALL));
        assert_int_equal(faulty_reader_pending(r.reader), 5 - i);
    }
    /* Still being loaded: whoever asks now joins. */
    assert_int_equal(ASK(&r, &other, 1, 6), TT_OK);
    assert_false(other.hit[0]);
    assert_int_equal(stats(&r).joins, 1);
    wait_good(&r, &other);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 2, TT_EXPERT_ALL, &all, NULL), TT_OK);
    assert_ptr_equal(all, bytes);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 0, TT_EXPERT_ALL, &all, &err),
                     TT_ERR_IO);
    assert_non_null(strstr(err.message, "layer 1 expert 5"));
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 0, TT_EXPERT_GATE_UP, &all, &err),
                     TT_ERR_IO);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 1, TT_EXPERT_ALL, &all, NULL), TT_OK);
    assert_int_equal(stats(&r).bytes_read, 2 * STRIDE);
    tt_expert_cache_release(r.cache, &h.lease);
    tt_expert_cache_release(r.cache, &other.lease);
    close_rig(&r);
}

/* Law 7. */
static void parts_wait_for_the_checksum(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.corrupt = 1; /* a bit of the down part */
    rig r = open_as(&o, in_parts_crc);
    held h;
    const void *bytes = NULL;
    assert_int_equal(ASK(&r, &h, 1, 5), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 0, TT_EXPERT_GATE_UP, &bytes, NULL),
                     TT_ERR_CORRUPT);
    assert_null(bytes);
    tt_expert_cache_release(r.cache, &h.lease);
    assert_int_equal(ASK(&r, &h, 1, 5), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, 0, TT_EXPERT_GATE_UP, &bytes, NULL),
                     TT_OK);
    assert_true(bytes_are(bytes, 1, 5));
    tt_expert_cache_release(r.cache, &h.lease);
    close_rig(&r);
}

/* What cannot be started whole is not started: the next ask reads it. */
static void a_part_that_cannot_be_started_ends_the_load(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.fail_start = 4; /* the down part of the second of three */
    rig r = open_as(&o, in_parts);
    held h;
    tt_error err = {0};
    const uint32_t ids[] = {0, 1, 2};
    assert_int_equal(ask(&r, &h, 0, 3, ids, &err), TT_ERR_IO);
    assert_non_null(strstr(err.message, "layer 0 expert 1"));
    assert_int_equal(tt_expert_cache_slots(r.cache), r.o.slots_total);
    /* The first was started whole and is joined, the others are read again. */
    assert_int_equal(ask(&r, &h, 0, 3, ids, NULL), TT_OK);
    assert_int_equal(stats(&r).joins, 1);
    assert_int_equal(faulty_reader_started(r.reader), 9);
    wait_good(&r, &h);
    tt_expert_cache_release(r.cache, &h.lease);
    close_rig(&r);
}

static void polls_tell_without_waiting(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.fail_read = 2;
    rig r = open_as(&o, with_crc);
    held h;
    const void *bytes = NULL;
    tt_error err = {0};
    assert_int_equal(ASK(&r, &h, 0, 0, 1, 2, 3), TT_OK);
    for (uint32_t i = 0; i < 4; i++)
        assert_false(tt_expert_cache_ready(r.cache, &h.lease, i, TT_EXPERT_ALL));
    for (unsigned i = 0; i < 200 && faulty_reader_pending(r.reader) > 0; i++)
        tt_expert_cache_poll(r.cache);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(tt_expert_cache_ready(r.cache, &h.lease, i, TT_EXPERT_ALL));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, i, TT_EXPERT_ALL, &bytes, &err),
                         i == 2 ? TT_ERR_IO : TT_OK);
    /* A failure that a poll came upon is told in the reader's words. */
    assert_non_null(strstr(err.message, "injected"));
    assert_non_null(strstr(err.message, "layer 0 expert 2"));
    tt_expert_cache_release(r.cache, &h.lease);
    close_rig(&r);
}

/* ---- memory ---- */

static void three_slabs(tt_expert_cache_options *o)
{
    o->slab_bytes = 4 * STRIDE + 1;
    o->policy = TT_CACHE_LRU;
}

static void slabs_retire_when_their_leases_go(void **state)
{
    rig r = open_as(NULL, three_slabs);
    held h, other, more;
    const void *bytes[2];
    tt_error err = {0};
    assert_int_equal(stats(&r).slabs, 3);
    assert_int_equal(stats(&r).registered_bytes, 12 * STRIDE);
    assert_int_equal(ASK(&r, &h, 0, 0, 1), TT_OK); /* slots 0 and 1 */
    assert_int_equal(ASK(&r, &other, 1, 0, 1, 2, 3, 4, 5, 6), TT_OK);
    wait_good(&r, &h);
    wait_good(&r, &other);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(tt_expert_cache_wait(r.cache, &h.lease, i, TT_EXPERT_ALL, &bytes[i], NULL),
                         TT_OK);
    /* The last slab has the fewest leases; the first is next when the middle one is busier. */
    assert_int_equal(tt_expert_cache_retire_slab(r.cache, NULL), TT_OK);
    assert_int_equal(stats(&r).slots_total, 8);
    assert_int_equal(stats(&r).slabs_leaving, 1);
    assert_int_equal(stats(&r).slabs_retired, 0);
    tt_expert_cache_release(r.cache, &other.lease);
    assert_int_equal(stats(&r).slabs_leaving, 0);
    assert_int_equal(stats(&r).slabs_retired, 1);
    assert_int_equal(stats(&r).registered_bytes, 8 * STRIDE);
    assert_int_equal(tt_expert_cache_slots(r.cache), 6);

    assert_int_equal(tt_expert_cache_retire_slab(r.cache, NULL), TT_OK);
    assert_int_equal(stats(&r).slots_total, 4);
    assert_int_equal(stats(&r).slabs_retired, 2);
    /* All that is left is the first slab, with a lease on two of its slots. */
    wait_good(&r, &h);
    assert_int_equal(tt_expert_cache_slots(r.cache), 2);
    assert_int_equal(ASK(&r, &more, 2, 0, 1, 2), TT_ERR_LIMIT);
    assert_int_equal(ASK(&r, &more, 2, 0, 1), TT_OK);
    wait_good(&r, &more);
    assert_int_equal(tt_expert_cache_retire_slab(r.cache, &err), TT_ERR_LIMIT);
    assert_true(err.message[0] != '\0');
    tt_expert_cache_release(r.cache, &h.lease);
    tt_expert_cache_release(r.cache, &more.lease);
    close_rig(&r);
}

/* Bytes under lease stay until the lease goes, then the pages are given back. */
static void retired_pages_are_given_back(void **state)
{
    rig r = open_as(NULL, three_slabs);
    held h[3];
    const void *bytes = NULL;
    for (uint32_t l = 0; l < 3; l++) {
        assert_int_equal(ASK(&r, &h[l], l, 0, 1, 2, 3), TT_OK);
        wait_good(&r, &h[l]);
    }
    assert_int_equal(tt_expert_cache_retire_slab(r.cache, NULL), TT_OK);
    assert_int_equal(tt_expert_cache_wait(r.cache, &h[2].lease, 3, TT_EXPERT_ALL, &bytes, NULL),
                     TT_OK);
    assert_true(bytes_are(bytes, 2, 3));
    /* Nobody new gets in, but those who hold it may ask again. */
    held again, refused;
    assert_int_equal(ASK(&r, &again, 2, 3), TT_OK);
    assert_true(again.hit[0]);
    assert_int_equal(ASK(&r, &refused, 2, 4), TT_ERR_LIMIT);
    tt_expert_cache_release(r.cache, &h[2].lease);
    assert_true(bytes_are(bytes, 2, 3));
    assert_int_equal(stats(&r).slabs_leaving, 1);
    tt_expert_cache_release(r.cache, &again.lease);
    assert_int_equal(stats(&r).slabs_retired, 1);
    unsigned char resident_pages[STRIDE / 4096];
    assert_int_equal(mincore((void *)(uintptr_t)bytes, STRIDE, resident_pages), 0);
    for (unsigned i = 0; i < sizeof resident_pages; i++)
        assert_false(resident_pages[i] & 1);
    tt_expert_cache_release(r.cache, &h[0].lease);
    use(&r, 2, 3);
    assert_int_equal(stats(&r).misses, 13);
    close_rig(&r);
}

static void retiring_ends_loads_nobody_waits_for(void **state)
{
    faulty_options o;
    faulty_options_default(&o);
    o.fail_every = 5;
    rig r = open_as(&o, three_slabs);
    held h;
    for (uint32_t l = 0; l < 3; l++) {
        assert_int_equal(ASK(&r, &h, l, 0, 1, 2, 3), TT_OK);
        tt_expert_cache_release(r.cache, &h.lease);
    }
    assert_int_equal(tt_expert_cache_retire_slab(r.cache, NULL), TT_OK);
    assert_int_equal(stats(&r).slabs_retired, 1);
    assert_int_equal(faulty_reader_pending(r.reader), 8);
    faulty_options_default(&o);
    faulty_reader_set(r.reader, &o);
    use(&r, 0, 1);
    close_rig(&r);
}

static void locked_slots(tt_expert_cache_options *o)
{
    o->lock = true;
}

/* A process that may lock nothing runs all the same, and says so. */
static void locking_is_best_effort(void **state)
{
    rig outside = open_as(NULL, locked_slots);
    tt_expert_cache_stats s = stats(&outside);
    assert_true(s.locked_bytes == 12 * STRIDE || s.lock_errno != 0);
    close_rig(&outside);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        rig r = open_as(NULL, NULL);
        /* Root may lock whatever the limit says. */
        if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (geteuid() == 0 && setresuid(1, 1, 1) != 0))
            _exit(2);
        tt_expert_cache_options o = r.o;
        tt_expert_cache *c = NULL;
        o.lock = true;
        if (tt_expert_cache_create(&o, &c, NULL) != TT_OK)
            _exit(3);
        tt_expert_cache_get_stats(c, &s);
        _exit(s.locked_bytes == 0 && (s.lock_errno == ENOMEM || s.lock_errno == EPERM) ? 0 : 4);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void slots_are_touched_by_a_pool(void **state)
{
    tt_pool *pool = NULL;
    assert_int_equal(tt_pool_create(2, &pool, NULL), TT_OK);
    rig r = open_as(NULL, NULL);
    tt_expert_cache_options o = r.o;
    tt_expert_cache *c = NULL;
    o.touch = pool;
    o.slab_bytes = 5 * STRIDE;
    assert_int_equal(tt_expert_cache_create(&o, &c, NULL), TT_OK);
    tt_expert_cache_close(&c);
    tt_pool_close(&pool);
    close_rig(&r);
}

/* ---- warming up ---- */

static void eager_polls(faulty_options *o)
{
    faulty_options_default(o);
    o->eager = true;
}

static void heat_up(rig *r, float *heat)
{
    for (uint32_t k = 0; k < LAYERS * EXPERTS; k++)
        heat[k] = k % EXPERTS < 5 ? (float)(k % EXPERTS) : -INFINITY;
    assert_int_equal(tt_expert_cache_set_heat(r->cache, heat, NULL), TT_OK);
}

static void warming_reads_the_hottest_within_bounds(void **state)
{
    faulty_options o;
    float heat[LAYERS * EXPERTS], after[LAYERS * EXPERTS];
    eager_polls(&o);
    rig r = open_as(&o, by_decay);
    heat_up(&r, heat);
    tt_expert_cache_warm(r.cache, 1e6, 7 * STRIDE);
    assert_true(tt_expert_cache_warming(r.cache));
    for (unsigned i = 0; i < 20; i++)
        tt_expert_cache_poll(r.cache);
    assert_false(tt_expert_cache_warming(r.cache));
    tt_expert_cache_stats s = stats(&r);
    assert_int_equal(s.warm_reads, 7);
    assert_int_equal(s.warm_bytes, 7 * STRIDE);
    assert_int_equal(s.misses, 0);
    assert_int_equal(s.bytes_read, 0);
    assert_int_equal(tt_expert_cache_get_heat(r.cache, after, NULL), TT_OK);
    for (uint32_t k = 0; k < LAYERS * EXPERTS; k++)
        assert_true(heat[k] == after[k] || fabsf(heat[k] - after[k]) < 1e-5f);
    for (uint32_t l = 0; l < LAYERS; l++)
        assert_true(resident(&r, l, 4) && resident(&r, l, 3));
    /* The time bound. */
    tt_expert_cache_warm(r.cache, 1e-9, 7 * STRIDE);
    tt_expert_cache_poll(r.cache);
    assert_false(tt_expert_cache_warming(r.cache));
    tt_expert_cache_warm(r.cache, 0, 0);
    assert_false(tt_expert_cache_warming(r.cache));
    assert_int_equal(stats(&r).warm_reads, 7);
    close_rig(&r);
}

static void warming_gives_way_to_asks(void **state)
{
    float heat[LAYERS * EXPERTS];
    rig r = open_as(NULL, by_decay); /* reads complete in wait, or now and then in a poll */
    held h, joined;
    heat_up(&r, heat);
    assert_int_equal(ASK(&r, &h, 0, 7), TT_OK);
    tt_expert_cache_warm(r.cache, 1e6, 100 * STRIDE);
    while (!tt_expert_cache_ready(r.cache, &h.lease, 0, TT_EXPERT_ALL)) {
        assert_int_equal(stats(&r).warm_reads, 0);
        tt_expert_cache_poll(r.cache);
    }
    wait_good(&r, &h);
    tt_expert_cache_poll(r.cache);
    assert_true(stats(&r).warm_reads > 0 && stats(&r).warm_reads <= 6);
    /* An expert on its way is joined, and then it is no longer in the background. */
    assert_int_equal(ASK(&r, &joined, 2, 4), TT_OK);
    assert_int_equal(stats(&r).joins + stats(&r).hits, 1);
    wait_good(&r, &joined);
    tt_expert_cache_release(r.cache, &joined.lease);
    tt_expert_cache_release(r.cache, &h.lease);
    /* To the end: colder experts than those that stand there are not read. */
    tt_expert_cache_warm_wait(r.cache);
    assert_false(tt_expert_cache_warming(r.cache));
    assert_int_equal(faulty_reader_pending(r.reader), 0);
    tt_expert_cache_stats s = stats(&r);
    assert_int_equal(s.warm_reads, 12);
    assert_int_equal(s.evictions, 1); /* the cold 7 went */
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t e = 1; e < 5; e++)
            assert_true(resident(&r, l, e));
    close_rig(&r);
}

static void failing_warm_reads_disturb_nobody(void **state)
{
    faulty_options o;
    float heat[LAYERS * EXPERTS];
    eager_polls(&o);
    o.fail_every = 2;
    rig r = open_as(&o, by_decay);
    heat_up(&r, heat);
    tt_expert_cache_warm(r.cache, 1e6, 100 * STRIDE);
    tt_expert_cache_warm_wait(r.cache);
    tt_expert_cache_stats s = stats(&r);
    assert_int_equal(s.warm_reads, LAYERS * 5);
    assert_int_equal(s.warm_failures, 8);
    assert_int_equal(tt_expert_cache_slots(r.cache), 12);
    assert_true(s.wait_seconds == 0);
    faulty_options_default(&o);
    faulty_reader_set(r.reader, &o);
    for (uint32_t e = 0; e < EXPERTS; e++)
        use(&r, 1, e);
    close_rig(&r);
}

static void forgetful(tt_expert_cache_options *o)
{
    o->policy = TT_CACHE_LFU_DECAY;
    o->half_life = 0.5;
}

/* A policy may forget within a token; what a profile keeps is remembered for hundreds. */
static void heat_is_remembered_longer_than_the_policy_does(void **state)
{
    float heat[LAYERS * EXPERTS];
    rig r = open_as(NULL, forgetful);
    for (unsigned i = 0; i < 240; i++)
        use(&r, 0, 1); /* of the 1/6 token that an ask of one is: forty tokens */
    for (unsigned i = 0; i < 60; i++)
        use(&r, 1, 2);
    assert_int_equal(tt_expert_cache_get_heat(r.cache, heat, NULL), TT_OK);
    assert_true(heat[1] > heat[EXPERTS + 2] + 1.5f);
    assert_true(heat[1] < heat[EXPERTS + 2] + 2.5f); /* four times as often: two */
    assert_true(isinf(heat[0]) && heat[0] < 0);
    close_rig(&r);
}

static void heat_is_checked(void **state)
{
    float heat[LAYERS * EXPERTS];
    rig r = open_as(NULL, by_decay), other = open_as(NULL, NULL);
    heat_up(&r, heat);
    assert_int_equal(tt_expert_cache_set_heat(other.cache, heat, NULL), TT_ERR_UNSUPPORTED);
    assert_int_equal(tt_expert_cache_get_heat(other.cache, heat, NULL), TT_ERR_UNSUPPORTED);
    const float bad[] = {NAN, INFINITY, 1e9f};
    for (unsigned i = 0; i < 3; i++) {
        heat[7] = bad[i];
        assert_int_equal(tt_expert_cache_set_heat(r.cache, heat, NULL), TT_ERR_INVALID);
    }
    assert_int_equal(tt_expert_cache_get_heat(r.cache, heat, NULL), TT_OK);
    assert_true(fabsf(heat[4] - 4.0f) < 1e-5f && isinf(heat[7]) && heat[7] < 0);
    close_rig(&r);
    close_rig(&other);
}

static void create_checks_its_options(void **state)
{
    rig r = open_as(NULL, four_slots);
    const tt_expert_cache_options good = {.n_layers = LAYERS,
                                          .n_experts = EXPERTS,
                                          .top_k = 2,
                                          .slots_total = 2 * LAYERS,
                                          .stride = STRIDE,
                                          .payload_bytes = STRIDE,
                                          .reader = r.reader};
    tt_expert_cache_options o[16];
    for (unsigned i = 0; i < 16; i++)
        o[i] = good;
    o[0].n_layers = 0;
    o[1].n_layers = TT_MAX_LAYERS + 1;
    o[2].n_experts = 0;
    o[3].n_experts = TT_MAX_EXPERTS + 1;
    o[4].top_k = 0;
    o[5].top_k = EXPERTS + 1;
    o[6].slots_total = 1;
    o[7].slots_total = LAYERS * EXPERTS + 1;
    o[8].stride = 0;
    o[9].stride = TT_PAGE_ALIGN + 4096;
    o[10].payload_bytes = STRIDE + 1;
    o[11].reader = NULL;
    o[12].policy = TT_CACHE_BELADY;
    o[13].policy = (tt_cache_policy_kind)9;
    o[14].half_life = -1;
    o[15].split = STRIDE + 1;
    tt_expert_cache *c = NULL;
    for (unsigned i = 0; i < 16; i++) {
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
        cmocka_unit_test(evicts_what_is_used_least),
        cmocka_unit_test(old_use_fades),
        cmocka_unit_test(layers_keep_their_floor),
        cmocka_unit_test(an_ask_may_take_every_slot),
        cmocka_unit_test(below_the_cliff_hot_experts_stay),
        cmocka_unit_test(a_sweep_leaves_what_decode_earned),
        cmocka_unit_test(leases_of_an_older_generation_are_refused),
        cmocka_unit_test(parts_come_in_order),
        cmocka_unit_test(parts_wait_for_the_checksum),
        cmocka_unit_test(a_part_that_cannot_be_started_ends_the_load),
        cmocka_unit_test(polls_tell_without_waiting),
        cmocka_unit_test(slabs_retire_when_their_leases_go),
        cmocka_unit_test(retired_pages_are_given_back),
        cmocka_unit_test(retiring_ends_loads_nobody_waits_for),
        cmocka_unit_test(locking_is_best_effort),
        cmocka_unit_test(slots_are_touched_by_a_pool),
        cmocka_unit_test(warming_reads_the_hottest_within_bounds),
        cmocka_unit_test(warming_gives_way_to_asks),
        cmocka_unit_test(failing_warm_reads_disturb_nobody),
        cmocka_unit_test(heat_is_remembered_longer_than_the_policy_does),
        cmocka_unit_test(heat_is_checked),
        cmocka_unit_test(create_checks_its_options),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
