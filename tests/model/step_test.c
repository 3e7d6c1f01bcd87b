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
    {#name, (const char *)s->name, rows * (uint64_t)(width) * sizeof(type)},

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
    const part common[] = {TT_SCRATCH_COMMON(PART){"logits", (const char *)s->logits,
                                                   (uint64_t)TT_LOGITS_ROWS * a->vocab_size *
                                                       sizeof(float)}},
               attention[] = {TT_SCRATCH_ATTENTION(PART)}, delta[] = {TT_SCRATCH_DELTA(PART)},
               ffn[] = {TT_SCRATCH_FFN(PART)};
    const part *blocks[] = {attention, delta, ffn};
    const size_t sizes[] = {sizeof attention / sizeof(part), sizeof delta / sizeof(part),
                            sizeof ffn / sizeof(part)};
    for (int b = 0; b < 3; b++) {
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
    static const uint32_t rows[] = {64, 128, 512};
    for (uint64_t seed = 0; seed < 60; seed++) {
        tt_arch a = tiny_arch(seed);
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
    uint64_t small = tt_scratch_cost(&a, 64), large = tt_scratch_cost(&a, 65536),
             logits = (uint64_t)TT_LOGITS_ROWS * TT_MAX_VOCAB * sizeof(float);
    assert_int_equal(large - logits, (small - logits) * 1024);
    assert_true(large < (uint64_t)1 << 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_a_block_do_not_meet),
        cmocka_unit_test(cost_does_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
