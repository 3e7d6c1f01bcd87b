/* Proves the sampler against a brute-force definition, recorded ids, and the shape of its
 * distributions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/draw.h"
#include "sample/sampler.h"
#include "tinytitan/tinytitan.h"

#define VOCAB 900 /* seven blocks and a bit */

/* A generator of test data that has nothing to do with the sampler's. */
static uint64_t noise_state = 1;

static uint64_t noise(void)
{
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return noise_state >> 33;
}

static float noise_float(float from, float to)
{
    return from + (to - from) * (float)noise() / (float)(1u << 31);
}

static tt_sampler *make(const tt_sampler_options *o, uint32_t vocab)
{
    tt_sampler *s = NULL;
    tt_error err = {0};
    assert_int_equal(tt_sampler_create(o, vocab, &s, &err), TT_OK);
    return s;
}

static uint32_t choose(tt_sampler *s, const float *logits, uint32_t vocab)
{
    uint32_t id = UINT32_MAX;
    tt_error err = {0};
    float top[VOCAB / TT_BLOCK_MAX + 1];
    tt_block_max(top, logits, vocab);
    assert_int_equal(tt_sampler_choose(s, logits, top, &id, &err), TT_OK);
    return id;
}

static uint32_t sample(tt_sampler *s, const float *logits)
{
    uint32_t id = UINT32_MAX;
    tt_error err = {0};
    assert_int_equal(tt_sampler_sample(s, logits, &id, &err), TT_OK);
    return id;
}

/* ---- the definition, by full sort ---- */

typedef struct entry {
    double value, weight;
    uint32_t id;
} entry;

typedef struct history {
    uint32_t generated[VOCAB];
    bool seen[VOCAB];
} history;

static int best_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Fills the candidates in the order they are walked; returns how many. `h` may be NULL. */
static size_t define(const tt_sampler_options *o, const history *h, const float *logits,
                     uint32_t vocab, entry *out)
{
    size_t n = 0;
    for (uint32_t id = 0; id < vocab; id++) {
        if (logits[id] == -INFINITY)
            continue;
        double v = logits[id];
        if (h != NULL && h->seen[id])
            v = v > 0 ? v / o->repetition_penalty : v * o->repetition_penalty;
        if (h != NULL && h->generated[id] > 0)
            v -= (double)h->generated[id] * o->frequency_penalty + o->presence_penalty;
        out[n++] = (entry){.value = (float)v, .id = id};
    }
    qsort(out, n, sizeof *out, best_first);
    if (o->temperature == 0)
        return 1;
    if (o->top_k > 0 && o->top_k < n)
        n = o->top_k;
    double mass = 0, sum = 0, best = out[0].value;
    for (size_t i = 0; i < n; i++)
        mass += out[i].weight = exp((out[i].value - best) / o->temperature);
    if (o->top_p < 1) {
        size_t m = 0;
        while (m < n && sum < (double)o->top_p * mass)
            sum += out[m++].weight;
        n = m;
    }
    while (n > 1 && out[n - 1].weight < o->min_p)
        n--;
    if ((o->top_k == 0 || o->top_k >= vocab) && o->top_p == 1)
        qsort(out, n, sizeof *out, by_id);
    return n;
}

static uint32_t define_draw(const entry *c, size_t n, double unit)
{
    double mass = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        mass += c[i].weight;
    for (size_t i = 0; i < n; i++) {
        sum += c[i].weight;
        if (sum > unit * mass)
            return c[i].id;
    }
    return c[n - 1].id;
}

static void random_options(tt_sampler_options *o, uint32_t vocab)
{
    tt_sampler_options_default(o);
    o->seed = noise();
    o->temperature = noise() % 8 == 0 ? 0 : noise_float(0.05f, 3);
    if (noise() % 2 == 0)
        o->top_k = 1 + (uint32_t)noise() % (vocab + 3);
    if (noise() % 2 == 0)
        o->top_p = noise() % 6 == 0 ? noise_float(1e-6f, 1e-3f) : noise_float(0.01f, 1);
    if (noise() % 3 == 0)
        o->min_p = noise() % 6 == 0 ? 1 : noise_float(0, 0.5f);
    if (noise() % 3 == 0)
        o->repetition_penalty = noise_float(0.5f, 2);
    if (noise() % 3 == 0)
        o->presence_penalty = noise_float(-2, 2);
    if (noise() % 3 == 0)
        o->frequency_penalty = noise_float(-2, 2);
}

static void random_row(float *row, uint32_t vocab)
{
    unsigned kind = (unsigned)noise() % 4;
    for (uint32_t i = 0; i < vocab; i++) {
        row[i] = kind == 0   ? noise_float(-8, 8)
                 : kind == 1 ? (float)((int)(noise() % 7) - 3) /* many ties */
                 : kind == 2 ? 2.5f                            /* all equal */
                             : noise_float(-30, 0) * noise_float(0, 1);
        if (noise() % 10 == 0)
            row[i] = -INFINITY;
    }
    row[noise() % vocab] = 1;
}

/* Every draw, of every combination of filters, with and without maxima, lands on the id that the
 * definition names. */
static void agrees_with_the_definition(void **state)
{
    static float row[VOCAB];
    static entry c[VOCAB];
    static history h;
    unsigned sets[4] = {0};
    noise_state = 12345;
    for (unsigned round = 0; round < 3000; round++) {
        uint32_t vocab = round % 3 == 0 ? 1 + (uint32_t)noise() % 8 : 1 + (uint32_t)noise() % VOCAB;
        tt_sampler_options o;
        random_options(&o, vocab);
        tt_sampler *s = make(&o, vocab), *with = make(&o, vocab);
        tt_random stream;
        tt_random_seed(&stream, o.seed);
        memset(&h, 0, sizeof h);
        for (unsigned i = 0; i < 5; i++) {
            uint32_t id = (uint32_t)noise() % vocab;
            tt_sampler_accept(s, id, false);
            tt_sampler_accept(with, id, false);
            h.seen[id] = true;
        }
        for (unsigned step = 0; step < 12; step++) {
            random_row(row, vocab);
            size_t n = define(&o, &h, row, vocab, c);
            sets[n == 1 ? 0 : n < vocab / 4 ? 1 : n < vocab ? 2 : 3]++;
            uint32_t want =
                o.temperature == 0 ? c[0].id : define_draw(c, n, tt_random_unit(&stream));
            uint32_t got = sample(s, row);
            assert_int_equal(got, want);
            assert_int_equal(choose(with, row, vocab), want);
            tt_sampler_accept(s, got, true);
            tt_sampler_accept(with, got, true);
            h.seen[got] = true;
            h.generated[got]++;
        }
        tt_sampler_close(&s);
        tt_sampler_close(&with);
        assert_null(s);
    }
    for (unsigned i = 0; i < 4; i++)
        assert_true(sets[i] > 500); /* one, few, many, all candidates */
}

/* ---- block maxima ---- */

/* What must not be looked at is NaN, of which the maxima know nothing: a block whose maximum does
 * not pass the best that stand before it. */
static void blocks_that_cannot_matter_are_not_entered(void **state)
{
    enum { BLOCKS = VOCAB / TT_BLOCK_MAX };
    float row[BLOCKS * TT_BLOCK_MAX], top[BLOCKS];
    for (unsigned kind = 0; kind < 4; kind++) {
        tt_sampler_options o;
        tt_sampler_options_default(&o);
        o.temperature = kind % 2 == 0 ? 0 : 1;
        o.top_k = kind % 2 == 0 ? 0 : 3;
        o.presence_penalty = kind < 2 ? 0 : -1; /* lifts an id in the last block */
        tt_sampler *s = make(&o, BLOCKS * TT_BLOCK_MAX);
        for (uint32_t i = 0; i < BLOCKS * TT_BLOCK_MAX; i++)
            row[i] = i < TT_BLOCK_MAX ? 1 : NAN;
        for (uint32_t b = 0; b < BLOCKS; b++)
            top[b] = 1; /* equal is not above, and ids ascend */
        for (uint32_t i = 0; i < TT_BLOCK_MAX; i++)
            row[(BLOCKS - 1) * TT_BLOCK_MAX + i] = 1;
        uint32_t last = (BLOCKS - 1) * TT_BLOCK_MAX + 17, id = 0;
        tt_sampler_accept(s, last, true);
        unsigned lifted = 0;
        for (unsigned i = 0; i < 50; i++) {
            assert_int_equal(tt_sampler_choose(s, row, top, &id, NULL), TT_OK);
            assert_true(id == 0 || (kind % 2 == 1 && id < 3) || (kind >= 2 && id == last));
            lifted += id == last;
        }
        assert_true(kind < 2 ? lifted == 0 : kind == 2 ? lifted == 50 : lifted > 10);
        tt_sampler_close(&s);
    }
}

/* An id that is wanted, or that a penalty took out of the way, wherever it stands. */
static void every_place_is_found(void **state)
{
    float row[VOCAB];
    const uint32_t vocab = VOCAB - 3;
    for (unsigned kind = 0; kind < 3; kind++)
        for (uint32_t at = 0; at < vocab; at++) {
            tt_sampler_options o;
            tt_sampler_options_default(&o);
            o.frequency_penalty = kind == 0 ? 0 : kind == 1 ? 2 : -2;
            o.repetition_penalty = kind == 1 ? 2 : 1;
            tt_sampler *s = make(&o, vocab);
            for (uint32_t i = 0; i < vocab; i++)
                row[i] = (float)(i * 31 % 64) / 64;
            uint32_t best = (at + 500) % vocab;
            row[best] = 2;
            row[at] = kind == 1 ? 3 : kind == 2 ? 0.5f : 4;
            tt_sampler_accept(s, at, true); /* 3 becomes -0.5, 0.5 becomes 2.5 */
            assert_int_equal(choose(s, row, vocab), kind == 1 ? best : at);
            assert_int_equal(sample(s, row), kind == 1 ? best : at);
            tt_sampler_close(&s);
        }
}

/* ---- numbers that must never change ---- */

static void recorded_streams_stay(void **state)
{
    static const uint64_t zero[] = {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0,
                                    0x6aa594f1262d2d2c};
    static const uint64_t forty_two[] = {0x15780b2e0c2ec716, 0x6104d9866d113a7e, 0xae17533239e499a1,
                                         0xecb8ad4703b360a1};
    tt_random r;
    tt_random_seed(&r, 0);
    assert_true(r.s[0] == 0xe220a8397b1dcdaf && r.s[3] == 0xf88bb8a8724c81ec);
    for (unsigned i = 0; i < 4; i++)
        assert_true(tt_random_next(&r) == zero[i]);
    tt_random_seed(&r, 42);
    for (unsigned i = 0; i < 4; i++)
        assert_true(tt_random_next(&r) == forty_two[i]);
}

static void recorded_ids_stay(void **state)
{
    static const struct {
        tt_sampler_options o;
        uint32_t ids[24];
    } golden[] = {
        {{.temperature = 0.75f,
          .top_k = 20,
          .top_p = 0.9f,
          .min_p = 0.01f,
          .repetition_penalty = 1,
          .seed = 1234},
         {30, 57, 68, 87, 30, 87, 49, 60, 8,  38, 79, 90,
          60, 38, 19, 57, 38, 46, 46, 57, 27, 90, 49, 30}},
        {{.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 1234},
         {8,  87, 68, 90, 13, 90, 46, 21, 60, 65, 49, 27,
          19, 65, 38, 86, 60, 98, 98, 84, 79, 27, 38, 7}},
        {{.temperature = 1.5f, .top_p = 0.95f, .repetition_penalty = 1, .seed = 7},
         {73, 38, 100, 12, 72, 18, 60, 90, 57, 19, 5,  32,
          15, 48, 16,  35, 8,  16, 19, 19, 49, 84, 13, 38}},
    };
    float row[101];
    for (unsigned i = 0; i < 101; i++)
        row[i] = (float)(i * 37 % 101) / 16;
    for (unsigned k = 0; k < 3; k++) {
        tt_sampler *s = make(&golden[k].o, 101);
        for (unsigned pass = 0; pass < 2; pass++) {
            for (unsigned i = 0; i < 24; i++)
                assert_int_equal(sample(s, row), golden[k].ids[i]);
            tt_sampler_reset(s, golden[k].o.seed);
        }
        tt_sampler_close(&s);
    }
}

static void reset_forgets(void **state)
{
    tt_sampler_options o;
    tt_sampler_options_default(&o);
    o.frequency_penalty = 2;
    o.repetition_penalty = 10;
    const float row[4] = {1, 3, 2, 0};
    tt_sampler *s = make(&o, 4);
    tt_sampler_accept(s, 1, false);
    assert_int_equal(sample(s, row), 2);
    tt_sampler_accept(s, 2, true);
    tt_sampler_accept(s, 4, true); /* no such id */
    assert_int_equal(sample(s, row), 0);
    tt_sampler_reset(s, 9);
    assert_int_equal(sample(s, row), 1);
    tt_sampler_accept(s, 1, false);
    assert_int_equal(sample(s, row), 2);
    tt_sampler_close(&s);

    tt_sampler_options_default(&o);
    o.temperature = 1;
    o.seed = 5;
    float flat[64] = {0};
    tt_sampler *a = make(&o, 64), *b;
    o.seed = 6;
    b = make(&o, 64);
    uint32_t differ = 0;
    for (unsigned i = 0; i < 20; i++)
        differ += sample(a, flat) != sample(b, flat);
    assert_true(differ > 10);
    tt_sampler_reset(a, 77);
    tt_sampler_reset(b, 77);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(sample(a, flat), sample(b, flat));
    tt_sampler_close(&a);
    tt_sampler_close(&b);
}

/* ---- distributions ---- */

/* Pearson's statistic of `n` draws against the definition; ids outside it fail the test. */
static double chi_square(const tt_sampler_options *o, const float *row, uint32_t vocab, unsigned n,
                         size_t *cells)
{
    static entry c[VOCAB];
    static unsigned count[VOCAB];
    size_t kept = define(o, NULL, row, vocab, c);
    double mass = 0, chi = 0;
    memset(count, 0, sizeof count);
    tt_sampler *s = make(o, vocab);
    for (unsigned i = 0; i < n; i++)
        count[sample(s, row)]++;
    tt_sampler_close(&s);
    for (size_t i = 0; i < kept; i++)
        mass += c[i].weight;
    unsigned inside = 0;
    for (size_t i = 0; i < kept; i++) {
        double expected = n * c[i].weight / mass, d = count[c[i].id] - expected;
        chi += d * d / expected;
        inside += count[c[i].id];
    }
    assert_int_equal(inside, n);
    *cells = kept;
    return chi;
}

static void draws_follow_the_distribution(void **state)
{
    float row[40];
    for (unsigned i = 0; i < 40; i++)
        row[i] = 3 * sinf((float)i);
    tt_sampler_options o[5];
    for (unsigned i = 0; i < 5; i++) {
        tt_sampler_options_default(&o[i]);
        o[i].temperature = 0.9f;
        o[i].seed = 100 + i;
    }
    o[1].top_k = 7;
    o[2].top_p = 0.8f;
    o[3].min_p = 0.1f;
    o[4].temperature = 2.5f;
    for (unsigned i = 0; i < 5; i++) {
        size_t cells = 0;
        double chi = chi_square(&o[i], row, 40, 40000, &cells), dof = (double)cells - 1;
        assert_true(cells > 5);
        assert_true(i == 0 || i == 4 ? cells == 40 : cells < 40);
        /* Five standard deviations of the statistic, either side. */
        assert_true(fabs(chi - dof) < 5 * sqrt(2 * dof));
    }
}

/* ---- edges ---- */

static void greedy_takes_the_lowest_of_equals(void **state)
{
    tt_sampler_options o;
    tt_sampler_options_default(&o);
    const float ties[6] = {-1, 4, 4, 4, -INFINITY, 2}, zeros[3] = {-0.0f, 0.0f, -0.0f};
    tt_sampler *s = make(&o, 6);
    assert_int_equal(sample(s, ties), 1);
    tt_sampler_close(&s);
    s = make(&o, 3);
    assert_int_equal(sample(s, zeros), 0);
    tt_sampler_close(&s);

    o.temperature = 1;
    o.top_k = 2;
    s = make(&o, 6);
    for (unsigned i = 0; i < 50; i++) {
        uint32_t id = sample(s, ties);
        assert_true(id == 1 || id == 2);
    }
    tt_sampler_close(&s);
    o.top_k = 0;
    o.top_p = 0.5f; /* of three equals two reach it */
    const float equal[3] = {1, 1, 1};
    s = make(&o, 3);
    unsigned seen = 0;
    for (unsigned i = 0; i < 50; i++)
        seen |= 1u << sample(s, equal);
    assert_int_equal(seen, 3);
    tt_sampler_close(&s);
    s = make(&o, 2); /* of two equals one reaches it exactly */
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(sample(s, equal), 0);
    tt_sampler_close(&s);
}

static void broken_rows_are_errors(void **state)
{
    static const float bad[] = {NAN, -NAN, INFINITY};
    for (unsigned t = 0; t < 2; t++) {
        tt_sampler_options o;
        tt_sampler_options_default(&o);
        o.temperature = (float)t;
        tt_sampler *s = make(&o, 67);
        float row[67] = {0};
        for (unsigned kind = 0; kind < 3; kind++) {
            for (unsigned at = 0; at < 67; at++) {
                uint32_t id = 999;
                tt_error err = {0};
                row[at] = bad[kind];
                assert_int_equal(tt_sampler_sample(s, row, &id, &err), TT_ERR_NUMERIC);
                char where[32];
                snprintf(where, sizeof where, "id %u is", at);
                assert_non_null(strstr(err.message, where));
                assert_int_equal(id, 999);
                float top;
                tt_error again = {0};
                tt_block_max(&top, row, 67);
                assert_int_equal(tt_sampler_choose(s, row, &top, &id, &again), TT_ERR_NUMERIC);
                assert_string_equal(again.message, err.message);
                assert_int_equal(id, 999);
                row[at] = 0;
            }
        }
        for (unsigned at = 0; at < 67; at++)
            row[at] = -INFINITY;
        uint32_t id = 999;
        assert_int_equal(tt_sampler_sample(s, row, &id, NULL), TT_ERR_NUMERIC);
        assert_int_equal(id, 999);
        row[50] = -FLT_MAX;
        assert_int_equal(sample(s, row), 50);
        tt_sampler_close(&s);
    }
}

static void no_finite_value_is_an_error(void **state)
{
    const float wild[8] = {FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45f, -1e-45f, FLT_MAX, 3e38f, -3e38f};
    static const float temperature[] = {0, 1e-45f, 1e-30f, 1, 100};
    static const float penalty[] = {1e-45f, 1e-10f, 1, 1e10f, FLT_MAX};
    for (unsigned t = 0; t < 5; t++) {
        for (unsigned p = 0; p < 5; p++) {
            for (unsigned filters = 0; filters < 8; filters++) {
                tt_sampler_options o;
                tt_sampler_options_default(&o);
                o.temperature = temperature[t];
                o.repetition_penalty = penalty[p];
                o.presence_penalty = 2;
                o.frequency_penalty = -2;
                o.top_k = filters & 1 ? 5 : 0;
                o.top_p = filters & 2 ? 0.9f : 1;
                o.min_p = filters & 4 ? 0.2f : 0;
                tt_sampler *s = make(&o, 8);
                for (uint32_t i = 0; i < 16; i++) {
                    uint32_t id = sample(s, wild);
                    assert_in_range(id, 0, 7);
                    tt_sampler_accept(s, id, i % 2 == 0);
                }
                tt_sampler_close(&s);
            }
        }
    }
    /* Penalties saturate: what would overflow stays comparable and drawable. */
    for (unsigned t = 0; t < 2; t++) {
        const float high[2] = {2e38f, 3e38f}, low[2] = {-INFINITY, -3e38f};
        unsigned drawn = 0;
        tt_sampler_options huge;
        tt_sampler_options_default(&huge);
        huge.temperature = (float)t;
        huge.repetition_penalty = 1e-10f;
        tt_sampler *pair = make(&huge, 2);
        tt_sampler_accept(pair, 0, false);
        tt_sampler_accept(pair, 1, false);
        for (unsigned i = 0; i < 40; i++)
            drawn |= 1u << sample(pair, high);
        assert_int_equal(drawn, t == 0 ? 1 : 3);
        tt_sampler_close(&pair);
        huge.repetition_penalty = 1e10f;
        pair = make(&huge, 2);
        tt_sampler_accept(pair, 1, false);
        assert_int_equal(sample(pair, low), 1);
        tt_sampler_close(&pair);
    }
    /* Two equal best at a tiny temperature stay two. */
    tt_sampler_options o;
    tt_sampler_options_default(&o);
    o.temperature = 1e-45f;
    tt_sampler *s = make(&o, 8);
    unsigned seen = 0;
    for (unsigned i = 0; i < 40; i++)
        seen |= 1u << sample(s, wild);
    assert_int_equal(seen, 1u << 0 | 1u << 5);
    tt_sampler_close(&s);
}

static void logits_are_left_alone(void **state)
{
    float row[VOCAB], copy[VOCAB];
    noise_state = 3;
    random_row(row, VOCAB);
    memcpy(copy, row, sizeof row);
    tt_sampler_options o;
    random_options(&o, VOCAB);
    o.temperature = 1;
    o.repetition_penalty = 1.5f;
    tt_sampler *s = make(&o, VOCAB);
    for (uint32_t i = 0; i < 20; i++)
        tt_sampler_accept(s, sample(s, row), true);
    assert_memory_equal(row, copy, sizeof row);
    tt_sampler_close(&s);
}

static void options_are_checked(void **state)
{
    static const struct {
        size_t offset;
        float value;
        const char *name;
    } bad[] = {
#define BAD(field, value) {offsetof(tt_sampler_options, field), value, #field}
        BAD(temperature, -0.1f),
        BAD(temperature, 101),
        BAD(temperature, NAN),
        BAD(temperature, INFINITY),
        BAD(top_p, 0),
        BAD(top_p, 1.01f),
        BAD(top_p, -1),
        BAD(top_p, NAN),
        BAD(min_p, -0.1f),
        BAD(min_p, 1.1f),
        BAD(min_p, NAN),
        BAD(repetition_penalty, 0),
        BAD(repetition_penalty, -1),
        BAD(repetition_penalty, INFINITY),
        BAD(repetition_penalty, NAN),
        BAD(presence_penalty, 2.1f),
        BAD(presence_penalty, -2.1f),
        BAD(presence_penalty, NAN),
        BAD(frequency_penalty, 3),
        BAD(frequency_penalty, -3),
        BAD(frequency_penalty, NAN),
#undef BAD
    };
    tt_sampler *s = NULL;
    tt_error err = {0};
    tt_sampler_options o;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tt_sampler_options_default(&o);
        memcpy((char *)&o + bad[i].offset, &bad[i].value, sizeof(float));
        assert_int_equal(tt_sampler_create(&o, 8, &s, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, bad[i].name));
    }
    tt_sampler_options_default(&o);
    assert_int_equal(tt_sampler_create(&o, 0, &s, &err), TT_ERR_INVALID);
    assert_int_equal(tt_sampler_create(&o, UINT32_MAX, &s, &err), TT_ERR_INVALID);
    assert_int_equal(tt_sampler_create(NULL, 8, &s, &err), TT_ERR_INVALID);
    o.reserved[3] = 1;
    assert_int_equal(tt_sampler_create(&o, 8, &s, &err), TT_ERR_INVALID);
    assert_null(s);
    tt_sampler_close(&s);
    tt_sampler_close(NULL);
}

static void exponential_is_close(void **state)
{
    double worst = 0;
    for (int i = 0; i < 188679; i++) {
        double x = i * -0.00371; /* down to -700 */
        double e = fabs(tt_exp_neg(x) / exp(x) - 1);
        worst = e > worst ? e : worst;
    }
    assert_true(worst < 4.5e-16);
    assert_true(tt_exp_neg(0) == 1);
    assert_true(tt_exp_neg(-1e300) == 0);
    assert_true(tt_exp_neg(-INFINITY) == 0);
    assert_true(tt_exp_neg(-708) > 0);
}

/* A full-size vocabulary, every filter: the same answers as the definition. */
static void full_vocabulary(void **state)
{
    const uint32_t vocab = 248320;
    float *row = malloc(vocab * sizeof *row);
    entry *c = malloc(vocab * sizeof *c);
    assert_true(row != NULL && c != NULL);
    noise_state = 99;
    for (uint32_t i = 0; i < vocab; i++)
        row[i] = noise_float(-4, 4) * noise_float(0, 1) * noise_float(0, 3);
    float *top = malloc(tt_block_count(vocab) * sizeof *top);
    assert_non_null(top);
    tt_block_max(top, row, vocab);
    for (unsigned k = 0; k < 6; k++) {
        tt_sampler_options o;
        tt_sampler_options_default(&o);
        o.temperature = 1;
        o.seed = k;
        o.top_k = k == 1 ? 20 : k == 2 ? 100000 : 0;
        o.top_p = k == 3 ? 0.95f : k == 4 ? 0.9999999f : k == 2 ? 0.5f : 1;
        o.min_p = k == 5 ? 0.05f : 0;
        tt_random stream;
        tt_random_seed(&stream, k);
        tt_sampler *s = make(&o, vocab), *with = make(&o, vocab);
        size_t n = define(&o, NULL, row, vocab, c);
        for (unsigned i = 0; i < 3; i++) {
            uint32_t want = define_draw(c, n, tt_random_unit(&stream)), id = 0;
            assert_int_equal(sample(s, row), want);
            assert_int_equal(tt_sampler_choose(with, row, top, &id, NULL), TT_OK);
            assert_int_equal(id, want);
        }
        tt_sampler_close(&s);
        tt_sampler_close(&with);
    }
    free(top);
    free(row);
    free(c);
}

/* ---- masks ---- */

static void random_mask(uint64_t *mask, uint32_t vocab)
{
    unsigned kind = (unsigned)noise() % 3;
    memset(mask, 0, (VOCAB / 64 + 1) * sizeof *mask);
    for (uint32_t id = 0; id < vocab; id++)
        if (kind == 0 ? noise() % 50 == 0 : kind == 1 ? noise() % 2 == 0 : noise() % 50 != 0)
            mask[id / 64] |= (uint64_t)1 << id % 64;
}

static bool allowed(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> id % 64 & 1;
}

/* A mask is -Inf for what it does not allow: with every combination of options, after the same
 * history, the same ids come from the same stream. */
static void a_mask_is_minus_infinity(void **state)
{
    static float row[VOCAB], cut[VOCAB], before[VOCAB];
    uint64_t mask[VOCAB / 64 + 1];
    unsigned compared = 0;
    noise_state = 4711;
    for (unsigned round = 0; round < 1500; round++) {
        uint32_t vocab = round % 3 == 0 ? 2 + (uint32_t)noise() % 8 : 2 + (uint32_t)noise() % 898;
        tt_sampler_options o;
        random_options(&o, vocab);
        tt_sampler *s = make(&o, vocab), *plain = make(&o, vocab);
        for (unsigned step = 0; step < 8; step++) {
            uint32_t n = 0, finite = 0, id = 0;
            random_row(row, vocab);
            random_mask(mask, vocab);
            for (uint32_t i = 0; i < vocab; i++) {
                cut[i] = allowed(mask, i) ? row[i] : -INFINITY;
                n += allowed(mask, i);
                finite += cut[i] != -INFINITY;
            }
            if (vocab % 64 != 0)
                mask[vocab / 64] |= ~(uint64_t)0 << vocab % 64; /* no ids: of no account */
            memcpy(before, row, sizeof row);
            if (n < 2 || finite == 0) {
                tt_status want = n == 0 ? TT_ERR_INVALID : n == 1 ? TT_OK : TT_ERR_NUMERIC;
                assert_int_equal(tt_sampler_sample_masked(s, row, mask, &id, NULL), want);
                continue;
            }
            assert_int_equal(tt_sampler_sample_masked(s, row, mask, &id, NULL), TT_OK);
            assert_memory_equal(row, before, sizeof row);
            assert_true(allowed(mask, id) && id < vocab);
            assert_int_equal(id, sample(plain, cut));
            bool generated = noise() % 2 == 0;
            tt_sampler_accept(s, id, generated);
            tt_sampler_accept(plain, id, generated);
            compared++;
        }
        tt_sampler_close(&s);
        tt_sampler_close(&plain);
    }
    assert_true(compared > 8000);
}

static void no_mask_allows_everything(void **state)
{
    float row[VOCAB];
    uint64_t all[VOCAB / 64 + 1];
    tt_sampler_options o;
    tt_sampler_options_default(&o);
    o.temperature = 1;
    o.seed = 3;
    tt_sampler *plain = make(&o, VOCAB), *none = make(&o, VOCAB), *full = make(&o, VOCAB);
    memset(all, 0xff, sizeof all);
    for (unsigned i = 0; i < 100; i++) {
        uint32_t a = 0, b = 0, want;
        random_row(row, VOCAB);
        want = sample(plain, row);
        assert_int_equal(tt_sampler_sample_masked(none, row, NULL, &a, NULL), TT_OK);
        assert_int_equal(tt_sampler_sample_masked(full, row, all, &b, NULL), TT_OK);
        assert_int_equal(a, want);
        assert_int_equal(b, want);
    }
    tt_sampler_close(&plain);
    tt_sampler_close(&none);
    tt_sampler_close(&full);
}

/* One id alone needs no logits and no number of the stream. */
static void one_allowed_id_is_taken(void **state)
{
    float row[VOCAB], broken[VOCAB];
    uint64_t mask[VOCAB / 64 + 1];
    tt_sampler_options o;
    tt_sampler_options_default(&o);
    o.temperature = 1;
    o.seed = 11;
    tt_sampler *s = make(&o, VOCAB), *plain = make(&o, VOCAB);
    for (uint32_t i = 0; i < VOCAB; i++)
        broken[i] = NAN;
    for (uint32_t only = 0; only < VOCAB; only += 29) {
        uint32_t id = UINT32_MAX;
        memset(mask, 0, sizeof mask);
        mask[only / 64] = (uint64_t)1 << only % 64;
        mask[VOCAB / 64] |= (uint64_t)1 << 63; /* no id */
        assert_int_equal(tt_sampler_sample_masked(s, broken, mask, &id, NULL), TT_OK);
        assert_int_equal(id, only);
        random_row(row, VOCAB);
        assert_int_equal(sample(s, row), sample(plain, row));
    }
    tt_sampler_close(&s);
    tt_sampler_close(&plain);
}

static void masks_without_a_choice_are_errors(void **state)
{
    float row[VOCAB] = {0};
    uint64_t mask[VOCAB / 64 + 1] = {0};
    const uint32_t vocab = VOCAB - 3;
    for (unsigned kind = 0; kind < 3; kind++) {
        tt_sampler_options o;
        tt_sampler_options_default(&o);
        o.temperature = kind == 0 ? 0 : 1;
        o.top_k = kind == 2 ? 5 : 0;
        tt_sampler *s = make(&o, vocab);
        uint32_t id = 77;
        tt_error err = {0};
        memset(mask, 0, sizeof mask);
        mask[vocab / 64] = ~(uint64_t)0 << vocab % 64;
        assert_int_equal(tt_sampler_sample_masked(s, row, mask, &id, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, "no id"));
        mask[0] = 6;
        row[2] = NAN;
        assert_int_equal(tt_sampler_sample_masked(s, row, mask, &id, &err), TT_ERR_NUMERIC);
        assert_non_null(strstr(err.message, "id 2"));
        row[2] = INFINITY;
        assert_int_equal(tt_sampler_sample_masked(s, row, mask, &id, &err), TT_ERR_NUMERIC);
        row[1] = row[2] = -INFINITY;
        assert_int_equal(tt_sampler_sample_masked(s, row, mask, &id, &err), TT_ERR_NUMERIC);
        assert_int_equal(id, 77);
        row[1] = row[2] = 0;
        assert_int_equal(tt_sampler_sample_masked(s, row, mask, &id, &err), TT_OK);
        assert_true(id == 1 || id == 2);
        tt_sampler_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(blocks_that_cannot_matter_are_not_entered),
        cmocka_unit_test(every_place_is_found),
        cmocka_unit_test(recorded_streams_stay),
        cmocka_unit_test(recorded_ids_stay),
        cmocka_unit_test(reset_forgets),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(greedy_takes_the_lowest_of_equals),
        cmocka_unit_test(broken_rows_are_errors),
        cmocka_unit_test(no_finite_value_is_an_error),
        cmocka_unit_test(logits_are_left_alone),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(exponential_is_close),
        cmocka_unit_test(full_vocabulary),
        cmocka_unit_test(a_mask_is_minus_infinity),
        cmocka_unit_test(no_mask_allows_everything),
        cmocka_unit_test(one_allowed_id_is_taken),
        cmocka_unit_test(masks_without_a_choice_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
