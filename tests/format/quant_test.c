/* Proves that the quantizer follows its definition: pinned digests over every matrix of the shipped
 * checkpoint, the same bytes from the scalar and the vectorised encoder, and the special groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "format/quant.h"
#include "format/safetensors.h"

/* SHA-256 over words, scales, biases of every matrix of models/tales whose rows 64 divides, in
 * order of names; and over their decoded values. Both from the numpy quantizer of the
 * specification. */
static const struct {
    uint32_t bits;
    const char *encoded, *decoded;
} pinned[] = {
    {4, "949b236a72389a5025e46bbbbd07fb6e64aca9f7074c5cdde1a31347ff49909a",
     "d2f6eb6c2ec77be7e779d76dd622a35dcb5f3ad3df415e5d77942ea36b7cec0c"},
    {8, "8a7f030e8690d5d8cfd03df5b5d7e5b1cea1bd35d4a870325422eb166c216e61",
     "ebdc684ea72cce112d2f3d7434c98847c14a2b8b314379389d46f62dd333e502"},
};

typedef struct coded {
    uint32_t *words;
    uint16_t *scales, *biases;
    size_t words_bytes, groups;
} coded;

static coded coded_new(uint32_t bits, uint64_t rows, uint64_t cols)
{
    uint64_t n = tt_quant_stored_rows(rows) * cols;
    coded c = {.words_bytes = n * bits / 8, .groups = n / TT_GROUP};
    c.words = malloc(c.words_bytes);
    c.scales = malloc(c.groups * 2);
    c.biases = malloc(c.groups * 2);
    assert_true(c.words != NULL && c.scales != NULL && c.biases != NULL);
    memset(c.words, 0xa5, c.words_bytes);
    return c;
}

static void coded_free(coded *c)
{
    free(c->words);
    free(c->scales);
    free(c->biases);
}

static void assert_same(const coded *a, const coded *b)
{
    assert_memory_equal(a->words, b->words, a->words_bytes);
    assert_memory_equal(a->scales, b->scales, a->groups * 2);
    assert_memory_equal(a->biases, b->biases, a->groups * 2);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const tt_st_tensor *const *)a)->name, (*(const tt_st_tensor *const *)b)->name);
}

static float *widened(const tt_safetensors *st, const tt_st_tensor *t, uint64_t *rows,
                      uint64_t *cols)
{
    uint64_t n = t->bytes / 2;
    uint16_t *raw = malloc(t->bytes);
    float *w = malloc(n * sizeof *w);
    assert_true(raw != NULL && w != NULL);
    assert_int_equal(t->dtype, TT_ST_BF16);
    assert_int_equal(tt_safetensors_read(st, t, 0, raw, t->bytes, NULL), TT_OK);
    for (uint64_t i = 0; i < n; i++)
        w[i] = tt_bf16_to_f32(raw[i]);
    free(raw);
    *cols = t->shape[t->rank - 1];
    *rows = n / *cols;
    return w;
}

/* Hashes one part row by row, and holds the turn against its inverse. */
static void hash_part(tt_sha256 *sha, uint32_t unit, uint64_t rows, uint64_t per_row,
                      const void *panels)
{
    size_t n = rows * per_row * unit, stored = tt_quant_stored_rows(rows) * per_row * unit;
    unsigned char *turned = malloc(n), *back = malloc(stored);
    assert_true(turned != NULL && back != NULL);
    tt_quant_from_panels(unit, rows, per_row, panels, turned);
    tt_quant_to_panels(unit, rows, per_row, turned, back);
    assert_memory_equal(back, panels, stored);
    assert_int_equal(tt_sha256_update(sha, turned, n, NULL), TT_OK);
    free(turned);
    free(back);
}

static void hash_tensor(uint32_t bits, const float *w, uint64_t rows, uint64_t cols, tt_pool *pool,
                        tt_sha256 *encoded, tt_sha256 *decoded)
{
    coded a = coded_new(bits, rows, cols), b = coded_new(bits, rows, cols);
    float *y = malloc(cols * sizeof *y);
    assert_int_equal(tt_quant_encode(bits, w, rows, cols, a.words, a.scales, a.biases, pool, NULL),
                     TT_OK);
    assert_int_equal(tt_quant_encode_ref(bits, w, rows, cols, b.words, b.scales, b.biases, NULL),
                     TT_OK);
    assert_same(&a, &b);
    hash_part(encoded, 4, rows, cols * bits / 32, a.words);
    hash_part(encoded, 2, rows, cols / TT_GROUP, a.scales);
    hash_part(encoded, 2, rows, cols / TT_GROUP, a.biases);
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t half = cols / 2; /* in two cuts */
        tt_quant_decode(bits, a.words, a.scales, a.biases, cols, r, 0, half, y);
        tt_quant_decode(bits, a.words, a.scales, a.biases, cols, r, half, cols - half, y + half);
        assert_int_equal(tt_sha256_update(decoded, y, cols * sizeof *y, NULL), TT_OK);
    }
    free(y);
    coded_free(&a);
    coded_free(&b);
}

static void shipped_checkpoint_has_the_pinned_codes(void **state)
{
    tt_safetensors *st = NULL;
    tt_pool *pool = NULL;
    assert_int_equal(tt_safetensors_open_dir("models/tales", &st, NULL), TT_OK);
    assert_int_equal(tt_pool_create(3, &pool, NULL), TT_OK);
    size_t count = tt_safetensors_count(st), n = 0;
    const tt_st_tensor **order = calloc(count, sizeof *order);
    for (size_t i = 0; i < count; i++) {
        const tt_st_tensor *t = tt_safetensors_at(st, i);
        if (t->rank >= 2 && t->shape[t->rank - 1] % TT_GROUP == 0)
            order[n++] = t;
    }
    assert_int_equal(n, 108);
    qsort(order, n, sizeof *order, by_name);
    for (int k = 0; k < 2; k++) {
        tt_sha256 *encoded, *decoded;
        char hex[TT_SHA256_HEX];
        assert_int_equal(tt_sha256_create(&encoded, NULL), TT_OK);
        assert_int_equal(tt_sha256_create(&decoded, NULL), TT_OK);
        for (size_t i = 0; i < n; i++) {
            uint64_t rows, cols;
            float *w = widened(st, order[i], &rows, &cols);
            hash_tensor(pinned[k].bits, w, rows, cols, pool, encoded, decoded);
            free(w);
        }
        assert_int_equal(tt_sha256_finish(encoded, hex, NULL), TT_OK);
        assert_string_equal(hex, pinned[k].encoded);
        assert_int_equal(tt_sha256_finish(decoded, hex, NULL), TT_OK);
        assert_string_equal(hex, pinned[k].decoded);
        tt_sha256_close(&encoded);
        tt_sha256_close(&decoded);
    }
    free(order);
    tt_pool_close(&pool);
    tt_safetensors_close(&st);
}

static uint32_t random_u32(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 32);
}

/* Any finite float whose magnitude stays where no range overflows: subnormals, zeros of both signs,
 * and for some groups only a handful of neighbouring values. */
static float random_weight(uint64_t *s, uint32_t kind)
{
    uint32_t u = random_u32(s);
    float f;
    switch (kind % 5) {
    case 0: /* every exponent below 2^126 */
        u = (u & 0x807fffffu) | (uint32_t)((random_u32(s) % 252u) << 23);
        break;
    case 1: /* neighbours: tiny ranges beside large values, ties */
        u = 0x43808000u + u % 5u * 0x4000u;
        break;
    case 2: /* subnormals */
        u &= 0x800000ffu;
        break;
    case 3: /* zeros of both signs and one small value */
        u = u % 7u == 0 ? 0xb0000000u : u & 0x80000000u;
        break;
    default: /* ordinary weights */
        return ((float)(u >> 8) - 8388608.0f) * 1e-8f;
    }
    memcpy(&f, &u, 4);
    return f;
}

static void scalar_and_vector_agree_on_any_bytes(void **state)
{
    enum { ROWS = 2000, COLS = 192 };
    float *w = malloc(sizeof *w * ROWS * COLS);
    uint64_t seed = 7;
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        w[i] = random_weight(&seed, i / TT_GROUP);
    tt_pool *pool = NULL;
    assert_int_equal(tt_pool_create(4, &pool, NULL), TT_OK);
    for (uint32_t bits = 4; bits <= 8; bits += 4) {
        coded a = coded_new(bits, ROWS, COLS), b = coded_new(bits, ROWS, COLS);
        assert_int_equal(
            tt_quant_encode(bits, w, ROWS, COLS, a.words, a.scales, a.biases, pool, NULL), TT_OK);
        assert_int_equal(
            tt_quant_encode_ref(bits, w, ROWS, COLS, b.words, b.scales, b.biases, NULL), TT_OK);
        assert_same(&a, &b);
        coded_free(&a);
        coded_free(&b);
    }
    tt_pool_close(&pool);
    free(w);
}

/* The same call on both encoders. */
static tt_status both(uint32_t bits, const float *w, uint64_t rows, uint64_t cols, coded *c,
                      tt_error *err)
{
    coded d = coded_new(bits, rows, cols);
    tt_error other = {0};
    *c = coded_new(bits, rows, cols);
    tt_status st = tt_quant_encode(bits, w, rows, cols, c->words, c->scales, c->biases, NULL, err);
    assert_int_equal(tt_quant_encode_ref(bits, w, rows, cols, d.words, d.scales, d.biases, &other),
                     st);
    if (st == TT_OK)
        assert_same(c, &d);
    else
        assert_string_equal(err->message, other.message);
    coded_free(&d);
    return st;
}

static void layout_is_least_significant_first(void **state)
{
    float w[TT_GROUP];
    coded c;
    for (uint32_t j = 0; j < TT_GROUP; j++)
        w[j] = (float)(j % 16); /* min 0, max 15: scale 1, code = value */
    assert_int_equal(both(4, w, 1, TT_GROUP, &c, NULL), TT_OK);
    assert_int_equal(c.scales[0], 0x3f80);
    assert_int_equal(c.biases[0], 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(c.words[i * TT_PANEL], i % 2 == 0 ? 0x76543210u : 0xfedcba98u);
    coded_free(&c);
    for (uint32_t j = 0; j < TT_GROUP; j++)
        w[j] = (float)(j == 63 ? 255 : j) - 3.0f;
    w[0] = -3.0f;
    assert_int_equal(both(8, w, 1, TT_GROUP, &c, NULL), TT_OK);
    assert_int_equal(c.words[0], 0x03020100u);
    assert_int_equal(c.words[15 * TT_PANEL], 0xff3e3d3cu);
    assert_int_equal(c.biases[0], 0xc040);
    coded_free(&c);
}

/* Rows side by side, the last panel filled up with zeros; what is not zero there is found. */
static void matrices_stand_in_panels(void **state)
{
    enum { ROWS = 41, COLS = 128 };
    float w[ROWS * COLS];
    coded c;
    for (uint32_t i = 0; i < ROWS * COLS; i++) {
        uint32_t row = i / COLS;
        w[i] = (float)(i % COLS % 16) + (float)row; /* scale 1, bias: the row's number */
    }
    assert_int_equal(both(4, w, ROWS, COLS, &c, NULL), TT_OK);
    assert_int_equal(c.groups, 64 * 2);
    for (uint32_t r = 0; r < 64; r++)
        for (uint32_t k = 0; k < 16; k++) {
            uint32_t at = (r / 32 * 16 + k) * 32 + r % 32;
            assert_int_equal(at, tt_quant_place(16, r, k));
            assert_int_equal(c.words[at], r >= ROWS ? 0 : k % 2 == 0 ? 0x76543210u : 0xfedcba98u);
            at = (r / 32 * 2 + k % 2) * 32 + r % 32;
            assert_int_equal(c.scales[at], r >= ROWS ? 0 : 0x3f80);
            assert_true(tt_bf16_to_f32(c.biases[at]) == (r >= ROWS ? 0 : (float)r));
        }
    const uint32_t *last = c.words + 16 * 32;
    assert_true(tt_quant_filling_is_zero(4, ROWS, 16, last));
    assert_true(tt_quant_filling_is_zero(2, ROWS, 2, c.scales + 2 * 32));
    assert_false(tt_quant_filling_is_zero(4, ROWS - 1, 16, last));
    c.words[(16 + 15) * 32 + 31] = 0x01000000u;
    assert_false(tt_quant_filling_is_zero(4, ROWS, 16, last));
    coded_free(&c);
}

static void ties_go_to_the_even_code(void **state)
{
    float w[TT_GROUP] = {0.0f, 0.5f, 1.5f, 2.5f, 3.5f, 15.0f};
    coded c;
    assert_int_equal(both(4, w, 1, TT_GROUP, &c, NULL), TT_OK);
    assert_int_equal(c.words[0], 0x00f42200u);
    coded_free(&c);
}

static void flat_and_tiny_groups(void **state)
{
    float w[3 * TT_GROUP];
    coded c;
    for (uint32_t j = 0; j < TT_GROUP; j++) {
        w[j] = 257.0f; /* not a bf16 value: bias 256, and still code 0 */
        w[TT_GROUP + j] = j % 2 ? 1e-45f : 0.0f;
        w[2 * TT_GROUP + j] = j % 2 ? -0.0f : 0.0f;
    }
    for (uint32_t bits = 4; bits <= 8; bits += 4) {
        assert_int_equal(both(bits, w, 1, 3 * TT_GROUP, &c, NULL), TT_OK);
        const uint16_t biases[] = {0x4380, 0, 0};
        for (int g = 0; g < 3; g++) {
            assert_int_equal(c.scales[g * TT_PANEL], 0x3f80);
            assert_int_equal(c.biases[g * TT_PANEL], biases[g]);
        }
        for (uint32_t i = 0; i < c.words_bytes / 4; i++)
            assert_int_equal(c.words[i], 0);
        coded_free(&c);
    }
}

static void refuses_what_is_not_finite(void **state)
{
    enum { ROWS = 40, COLS = 128 };
    float *w = calloc(ROWS * COLS, sizeof *w);
    tt_pool *pool = NULL;
    tt_error err = {0};
    coded c;
    assert_int_equal(tt_pool_create(4, &pool, NULL), TT_OK);
    w[7 * COLS + 101] = NAN;
    w[7 * COLS + 103] = INFINITY;
    w[31 * COLS] = -INFINITY;
    assert_int_equal(both(8, w, ROWS, COLS, &c, &err), TT_ERR_NUMERIC);
    assert_non_null(strstr(err.message, "row 7, column 101 is not a number"));
    assert_int_equal(tt_quant_encode(4, w, ROWS, COLS, c.words, c.scales, c.biases, pool, &err),
                     TT_ERR_NUMERIC);
    assert_non_null(strstr(err.message, "row 7, column 101"));
    coded_free(&c);
    w[7 * COLS + 101] = w[7 * COLS + 103] = 0;
    assert_int_equal(both(4, w, ROWS, COLS, &c, &err), TT_ERR_NUMERIC);
    assert_non_null(strstr(err.message, "row 31, column 0 is infinite"));
    coded_free(&c);
    w[31 * COLS] = 3e38f;
    w[31 * COLS + 1] = -3e38f;
    assert_int_equal(both(4, w, ROWS, COLS, &c, &err), TT_ERR_NUMERIC);
    assert_non_null(strstr(err.message, "row 31, columns 0 to 63"));
    coded_free(&c);
    tt_pool_close(&pool);
    free(w);
}

/* A later row is met first by another thread; the earlier one is still the one that is named. */
static void names_the_first_row_whoever_meets_it(void **state)
{
    enum { ROWS = 8000, COLS = 64 };
    float *w = calloc(ROWS * COLS, sizeof *w);
    tt_pool *pool = NULL;
    coded c = coded_new(4, ROWS, COLS);
    assert_int_equal(tt_pool_create(2, &pool, NULL), TT_OK);
    w[(ROWS / 2 - 1) * COLS] = NAN; /* last of the first half, first of the second */
    w[ROWS / 2 * COLS] = NAN;
    for (int i = 0; i < 50; i++) {
        tt_error err = {0};
        assert_int_equal(tt_quant_encode(4, w, ROWS, COLS, c.words, c.scales, c.biases, pool, &err),
                         TT_ERR_NUMERIC);
        assert_non_null(strstr(err.message, "row 3999, column 0"));
    }
    tt_pool_close(&pool);
    coded_free(&c);
    free(w);
}

static void refuses_other_shapes_and_widths(void **state)
{
    float w[TT_GROUP] = {0};
    uint32_t words[16 * TT_PANEL];
    uint16_t s[TT_PANEL], b[TT_PANEL];
    tt_error err = {0};
    assert_int_equal(tt_quant_encode(6, w, 1, 64, words, s, b, NULL, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "6 bits"));
    assert_int_equal(tt_quant_encode_ref(4, w, 1, 63, words, s, b, &err), TT_ERR_INVALID);
    assert_int_equal(tt_quant_encode(4, w, 0, 64, words, s, b, NULL, &err), TT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_checkpoint_has_the_pinned_codes),
        cmocka_unit_test(scalar_and_vector_agree_on_any_bytes),
        cmocka_unit_test(layout_is_least_significant_first),
        cmocka_unit_test(matrices_stand_in_panels),
        cmocka_unit_test(ties_go_to_the_even_code),
        cmocka_unit_test(flat_and_tiny_groups),
        cmocka_unit_test(refuses_what_is_not_finite),
        cmocka_unit_test(names_the_first_row_whoever_meets_it),
        cmocka_unit_test(refuses_other_shapes_and_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
