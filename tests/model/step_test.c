/* Proves the scratch of a step: every buffer has its rows, buffers of one block do not meet, those
 * of other blocks stay clear of what all share, nothing passes the end, and the cost is what is
 * taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../support/tiny_model.h"
#include "model/step.h"

typedef struct part {
    const char *name;
    const char *at;
    uint64_t bytes;
} part;

#define PART(type, name, width)                                                                    \
    {#name, (const char *)s->name, n * (uint64_t)(width) * sizeof(type)},

typedef struct parts {
    part list[64];
    size_t n;
} parts;

static void take(parts *p, const part *list, size_t n)
{
    memcpy(p->list + p->n, list, n * sizeof *list);
    p->n += n;
}

static void apart(const tt_scratch *s, const parts *p)
{
    const char *base = s->block;
    for (size_t i = 0; i < p->n; i++) {
        const part *a = &p->list[i];
        if ((uintptr_t)a->at % TT_TENSOR_ALIGN != 0 || a->at < base ||
            a->at + a->bytes > base + s->bytes)
            fail_msg("buffer %s stands outside the block or between lines", a->name);
        for (size_t k = 0; k < i; k++) {
            const part *b = &p->list[k];
            if (a->bytes > 0 && b->bytes > 0 && a->at < b->at + b->bytes &&
                b->at < a->at + a->bytes)
                fail_msg("buffers %s and %s meet", a->name, b->name);
        }
    }
}

static void check(const tt_arch *a, uint32_t rows)
{
    tt_scratch scratch, *s = &scratch;
    assert_int_equal(tt_scratch_init(s, a, rows, NULL), TT_OK);
    assert_int_equal(s->bytes, tt_scratch_cost(a, rows));
    uint32_t n = rows;
    const part common[] = {
        TT_SCRATCH_STEP(PART){"logits", (const char *)s->logits,
                              (uint64_t)TT_LOGITS_ROWS * a->vocab_size * sizeof(float)}};
    n = rows < TT_SPAN_ROWS ? rows : TT_SPAN_ROWS;
    const part attention[] = {TT_SCRATCH_ATTENTION(PART)}, delta[] = {TT_SCRATCH_DELTA(PART)},
               ffn[] = {TT_SCRATCH_FFN(PART)}, mix[] = {TT_SCRATCH_MIX(PART)},
               ngram[] = {TT_SCRATCH_NGRAM(PART)};
    const part *blocks[] = {attention, delta, ffn, mix, ngram};
    const size_t sizes[] = {sizeof attention / sizeof(part), sizeof delta / sizeof(part),
                            sizeof ffn / sizeof(part), sizeof mix / sizeof(part),
                            sizeof ngram / sizeof(part)};
    for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
        parts p = {.n = 0};
        take(&p, common, sizeof common / sizeof(part));
        take(&p, blocks[b], sizes[b]);
        apart(s, &p);
    }
    memset(s->block, 0xff, s->bytes); /* all of it is there */
    tt_scratch_free(s);
    assert_null(s->block);
    tt_scratch_free(s);
}

static void buffers_of_a_block_do_not_meet(void **state)
{
    static const uint32_t rows[] = {64, 512, 1536};
    for (uint64_t seed = 0; seed < 60; seed++) {
        tt_arch a = tiny_arch(seed);
        check(&a, rows[seed % 3]);
        a = tiny_arch_streams(seed);
        check(&a, rows[seed % 3]);
    }
}

static void cost_does_not_wrap(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 4096, 64);
    a.hidden_size = TT_MAX_HIDDEN;
    a.vocab_size = TT_MAX_VOCAB;
    a.n_heads = a.n_kv_heads = a.lin_key_heads = a.lin_value_heads = TT_MAX_HEADS;
    a.head_dim = a.lin_key_dim = a.lin_value_dim = TT_MAX_HEAD_DIM;
    a.moe_intermediate = a.shared_intermediate = TT_MAX_HIDDEN;
    uint64_t small = tt_scratch_cost(&a, 64), span = tt_scratch_cost(&a, TT_SPAN_ROWS),
             two = tt_scratch_cost(&a, 2 * TT_SPAN_ROWS), large = tt_scratch_cost(&a, 65536),
             logits = (uint64_t)TT_LOGITS_ROWS * (TT_MAX_VOCAB + tt_block_count(TT_MAX_VOCAB)) *
                      sizeof(float);
    assert_int_equal(span - logits, (small - logits) * (TT_SPAN_ROWS / 64));
    /* beyond a span only the buffers of all rows grow */
    assert_int_equal(large - span, (two - span) * (65536 / TT_SPAN_ROWS - 1));
    assert_true(two - span < (span - logits) / 2);
    assert_true(large < (uint64_t)1 << 42);
}

/* Spans cover the rows once, in order, end at absolute multiples, and show the same buffers. */
static void spans_cover_a_step(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 8, 3);
    tt_scratch scratch;
    static uint32_t tokens[2000];
    assert_int_equal(tt_scratch_init(&scratch, &a, 2000, NULL), TT_OK);
    static const uint32_t starts[] = {0, 64, 500, 512, 70001},
                          rows[] = {1, 16, 511, 512, 513, 2000};
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 6; k++) {
            tt_step s = {
                .arch = &a, .s = &scratch, .tokens = tokens, .pos0 = starts[i], .T = rows[k]};
            uint32_t at = 0;
            tt_span p;
            for (tt_span_first(&p, &s); p.step.T > 0; tt_span_next(&p, &s, 3)) {
                assert_int_equal(p.step.pos0, starts[i] + at);
                assert_true(at == 0 || p.step.pos0 % TT_SPAN_ROWS == 0);
                assert_true(p.step.T <= TT_SPAN_ROWS);
                assert_ptr_equal(p.step.tokens, tokens + at);
                assert_ptr_equal(p.step.s->h, scratch.h + (size_t)at * a.hidden_size);
                assert_ptr_equal(p.step.s->ids, scratch.ids + (size_t)at * a.top_k);
                assert_ptr_equal(p.step.s->cosine,
                                 scratch.cosine + (size_t)at * tt_rope_rotary(&a) / 2);
                assert_ptr_equal(p.step.s->m, scratch.m);
                at += p.step.T;
            }
            assert_int_equal(at, s.T);
        }
    }
    tt_scratch_free(&scratch);
}

static bool twice(void *ctx, uint32_t layer)
{
    unsigned *calls = ctx;
    assert_int_equal(layer, 7);
    return ++*calls < 2;
}

/* It is asked between spans, and one that is stopped has no more of them, from the first on. */
static void a_stopped_step_has_no_spans(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 8, 3);
    tt_scratch scratch;
    static uint32_t tokens[2000];
    unsigned calls = 0, spans = 0;
    tt_error err = {0};
    tt_span p;
    assert_int_equal(tt_scratch_init(&scratch, &a, 2000, NULL), TT_OK);
    tt_step s = {.arch = &a,
                 .s = &scratch,
                 .tokens = tokens,
                 .T = 2000,
                 .go_on = twice,
                 .go_on_ctx = &calls,
                 .err = &err};
    for (tt_span_first(&p, &s); p.step.T > 0; tt_span_next(&p, &s, 7))
        spans++;
    assert_int_equal(spans, 2);
    assert_int_equal(calls, 2);
    assert_int_equal(s.status, TT_ERR_ABORTED);
    tt_span_first(&p, &s);
    assert_int_equal(p.step.T, 0);
    tt_scratch_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_a_block_do_not_meet),
        cmocka_unit_test(cost_does_not_wrap),
        cmocka_unit_test(spans_cover_a_step),
        cmocka_unit_test(a_stopped_step_has_no_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
