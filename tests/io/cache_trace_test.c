/* Proves that events come back from a trace as they were told, and that damaged and hostile traces
 * are refused before the first event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/tempdir.h"
#include "base/file.h"
#include "base/hash.h"
#include "format/le.h"
#include "io/cache_trace.h"

#define HEADER 56

static char dir[512], path[600];

static const tt_cache_trace_info info = {.n_layers = 3,
                                         .n_experts = 300,
                                         .top_k = 4,
                                         .slots = 20,
                                         .policy = TT_CACHE_LRU,
                                         .half_life = 12.5,
                                         .expert_bytes = 1 << 20};

static int make(void **state)
{
    tempdir_make(dir);
    snprintf(path, sizeof path, "%s/t.trace", dir);
    return 0;
}

static int clean(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static const uint32_t first[] = {7, 299, 130}, index_of[] = {2, 0};
static const float weight[] = {1.0f, 0.25f, 0.003f};

static const tt_cache_event told[] = {
    {.kind = TT_TRACE_ASK, .lease = 0, .layer = 2, .n = 3, .expert = first},
    {.kind = TT_TRACE_READY, .layer = 2, .n = 1, .expert = first + 1},
    {.kind = TT_TRACE_ASK,
     .lease = 1,
     .layer = 0,
     .n = 3,
     .expert = first,
     .weight = weight,
     .prefill = true},
    {.kind = TT_TRACE_FAILED, .layer = 0, .n = 1, .expert = first},
    {.kind = TT_TRACE_ASK, .lease = 2, .layer = 1, .n = 0},
    {.kind = TT_TRACE_RELEASE, .lease = 0, .n = 2, .expert = index_of},
    {.kind = TT_TRACE_RELEASE, .lease = 2, .n = 0},
    {.kind = TT_TRACE_RELEASE, .lease = 1, .n = 0},
};
#define TOLD (sizeof told / sizeof *told)

static void tell(tt_cache_trace_writer *w)
{
    tt_cache_trace_begin(w, &info, 1 << 20);
    tt_cache_recorder r = tt_cache_trace_recorder(w);
    for (size_t i = 0; i < TOLD; i++)
        r.event(r.ctx, &told[i]);
}

static void same_event(const tt_cache_event *a, const tt_cache_event *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->prefill, b->prefill);
    assert_int_equal(a->lease, b->lease);
    assert_int_equal(a->layer, b->layer);
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++)
        assert_int_equal(a->expert[i], b->expert[i]);
    assert_int_equal(a->weight != NULL, b->weight != NULL);
    for (uint32_t i = 0; a->weight != NULL && i < a->n; i++)
        assert_true(a->weight[i] == b->weight[i]);
}

static void events_come_back(void **state)
{
    tt_cache_trace_writer w;
    tt_cache_trace t;
    tell(&w);
    assert_int_equal(tt_cache_trace_publish(&w, path, NULL), TT_OK);
    tt_cache_trace_cursor *c = malloc(sizeof *c);
    tt_cache_event e;
    for (unsigned again = 0; again < 2; again++) {
        assert_int_equal(tt_cache_trace_load(path, &t, NULL), TT_OK);
        assert_memory_equal(&t.info, &info, sizeof info);
        assert_int_equal(t.asks, 3);
        assert_int_equal(t.picks, 6);
        tt_cache_trace_rewind(c, &t);
        for (size_t i = 0; i < TOLD; i++) {
            assert_true(tt_cache_trace_next(c, &e));
            same_event(&e, &told[i]);
        }
        assert_false(tt_cache_trace_next(c, &e));
        tt_cache_trace_free(&t);
        /* Publishing does not end the writer. */
        assert_int_equal(tt_cache_trace_publish(&w, path, NULL), TT_OK);
    }
    free(c);
    tt_cache_trace_end(&w);
}

static void a_trace_that_outgrows_its_bound_is_not_published(void **state)
{
    tt_cache_trace_writer w;
    tt_cache_trace_begin(&w, &info, 10);
    for (size_t i = 0; i < TOLD; i++)
        tt_cache_trace_add(&w, &told[i]);
    char other[700];
    snprintf(other, sizeof other, "%s/big.trace", dir);
    assert_int_equal(tt_cache_trace_publish(&w, other, NULL), TT_ERR_LIMIT);
    assert_false(tt_file_exists(other));
    tt_cache_trace_end(&w);
}

static void damage_is_seen(void **state)
{
    tt_cache_trace_writer w;
    tt_cache_trace t;
    char *bytes = NULL;
    size_t n = 0;
    tell(&w);
    assert_int_equal(tt_cache_trace_publish(&w, path, NULL), TT_OK);
    tt_cache_trace_end(&w);
    assert_int_equal(tt_file_read(path, 1 << 20, &bytes, &n, NULL), TT_OK);
    assert_int_equal(tt_cache_trace_parse(bytes, n, "t", &t, NULL), TT_OK);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 4;
        assert_int_not_equal(tt_cache_trace_parse(bytes, n, "t", &t, NULL), TT_OK);
        bytes[i] ^= 4;
    }
    for (size_t cut = 0; cut < n; cut++)
        assert_int_not_equal(tt_cache_trace_parse(bytes, cut, "t", &t, NULL), TT_OK);
    tt_free(bytes);
}

/* A file of these event bytes with everything else right. */
static tt_status parse_events(const unsigned char *events, size_t n, tt_error *err)
{
    tt_cache_trace_writer w;
    tt_cache_trace t;
    char *bytes = NULL;
    size_t len = 0;
    tt_cache_trace_begin(&w, &info, 1 << 20);
    tt_buf_append(&w.buf, events, n);
    assert_int_equal(tt_cache_trace_publish(&w, path, NULL), TT_OK);
    tt_cache_trace_end(&w);
    assert_int_equal(tt_file_read(path, 1 << 20, &bytes, &len, NULL), TT_OK);
    tt_status st = tt_cache_trace_parse(bytes, len, "t", &t, err);
    tt_free(bytes);
    return st;
}

#define EVENTS(...)                                                                                \
    (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})

/* 0: ask layer n ids, 1 and 2: layer id, 3: release how many asks ago, n indexes. */
static void hostile_events_are_refused(void **state)
{
    tt_error err = {0};
    assert_int_equal(parse_events(EVENTS(0, 1, 2, 5, 6, 3, 1, 1, 1), &err), TT_OK);
    assert_int_equal(parse_events(EVENTS(0, 3, 1, 5), &err), TT_ERR_FORMAT); /* layer */
    assert_int_equal(err.offset, HEADER);
    assert_int_equal(parse_events(EVENTS(0, 1, 1, 0xac, 2), &err), TT_ERR_FORMAT); /* expert 300 */
    assert_int_equal(parse_events(EVENTS(0, 1, 2, 5, 5), &err), TT_ERR_FORMAT);    /* twice */
    assert_non_null(strstr(err.message, "twice"));
    assert_int_equal(parse_events(EVENTS(0, 1, 0xad, 2), &err), TT_ERR_FORMAT); /* 301 experts */
    assert_int_equal(parse_events(EVENTS(0, 1, 2, 5), &err), TT_ERR_FORMAT);    /* ends early */
    assert_int_equal(parse_events(EVENTS(0, 1, 1, 0x80), &err), TT_ERR_FORMAT);
    assert_int_equal(parse_events(EVENTS(8, 1, 1, 5, 0, 0, 0x80), &err), TT_ERR_FORMAT);
    assert_int_equal(parse_events(EVENTS(8, 1, 1, 5, 0, 0, 0xc0, 0x7f), &err), TT_ERR_FORMAT);
    assert_int_equal(parse_events(EVENTS(8, 1, 1, 5, 0, 0, 0x80, 0xbf), &err), TT_ERR_FORMAT);
    assert_int_equal(parse_events(EVENTS(16, 1, 1, 5), &err), TT_ERR_FORMAT); /* tag */
    assert_int_equal(parse_events(EVENTS(5, 1, 5), &err), TT_ERR_FORMAT);
    assert_int_equal(parse_events(EVENTS(1, 1, 0xac, 2), &err), TT_ERR_FORMAT);
    assert_int_equal(parse_events(EVENTS(3, 1, 0), &err), TT_ERR_FORMAT); /* nothing asked yet */
    assert_int_equal(parse_events(EVENTS(0, 1, 1, 5, 3, 0, 0), &err), TT_ERR_FORMAT);
    assert_int_equal(parse_events(EVENTS(0, 1, 1, 5, 3, 1, 1, 1), &err), TT_ERR_FORMAT); /* index */
    assert_int_equal(parse_events(EVENTS(0, 1, 1, 5, 3, 1, 0, 3, 1, 0), &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "not held"));
    assert_int_equal(err.offset, HEADER + 7);
    assert_int_equal(
        parse_events(EVENTS(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0),
                     &err),
        TT_ERR_FORMAT);
    /* Leases without end. */
    unsigned char *many = calloc(TT_TRACE_MAX_LEASES + 1, 3);
    assert_int_equal(parse_events(many, TT_TRACE_MAX_LEASES * 3, &err), TT_OK);
    assert_int_equal(parse_events(many, (TT_TRACE_MAX_LEASES + 1) * 3, &err), TT_ERR_FORMAT);
    free(many);
}

static void headers_are_checked(void **state)
{
    static const struct {
        unsigned at;
        uint32_t value;
        tt_status want;
    } wrong[] = {
        {0, 5, TT_ERR_FORMAT},           {8, 2, TT_ERR_UNSUPPORTED}, {12, 0, TT_ERR_FORMAT},
        {12, 257, TT_ERR_FORMAT},        {16, 0, TT_ERR_FORMAT},     {16, 4097, TT_ERR_FORMAT},
        {20, 0, TT_ERR_FORMAT},          {20, 301, TT_ERR_FORMAT},   {28, 4, TT_ERR_FORMAT},
        {36, 0x7ff80000, TT_ERR_FORMAT}, {48, 1, TT_ERR_FORMAT}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tt_cache_trace_writer w;
        tt_cache_trace t;
        char *bytes = NULL;
        size_t n = 0;
        tell(&w);
        assert_int_equal(tt_cache_trace_publish(&w, path, NULL), TT_OK);
        tt_cache_trace_end(&w);
        assert_int_equal(tt_file_read(path, 1 << 20, &bytes, &n, NULL), TT_OK);
        tt_put_u32(bytes + wrong[i].at, wrong[i].value);
        tt_put_u32(bytes + n - 4, tt_crc32c(0, bytes, n - 4));
        assert_int_equal(tt_cache_trace_parse(bytes, n, "t", &t, NULL), wrong[i].want);
        tt_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_back),
        cmocka_unit_test(a_trace_that_outgrows_its_bound_is_not_published),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(hostile_events_are_refused),
        cmocka_unit_test(headers_are_checked),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
