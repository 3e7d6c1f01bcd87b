/* Proves the hash of the n-gram block by the published rows, and that a step gets the rows of its
 * tokens from the disk: whatever the reader and the cut, across batches, with the two pages that a
 * row may lie in; that a failed read fails the step and leaves nothing in flight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/approx.h"
#include "../support/faulty_reader.h"
#include "../support/tiny_model.h"

/* ---- rows ---- */

/* Qwen3.8-Flash-Next; model-math 5.5 and 9.3. */
static const int64_t multipliers[] = {23703573157769, 20109073645365, 8052911324071};
static const int64_t sizes[] = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063,
                                20000069, 20000077, 20000081, 20000093, 20000107, 20000147,
                                20000153, 20000159, 20000161, 20000171};

static void published_rows(void **state)
{
    static const struct {
        uint32_t ids[4], n;
        uint64_t rows[16];
    } want[] = {
        {{9707, 11, 1879},
         3,
         {6380558, 26411572, 56460672, 78566983, 94693008, 106742196, 124822692, 148942556,
          164226950, 190352573, 210933682, 238908951, 242182004, 265475238, 299910982, 312121804}},
        {{9707, 11},
         2,
         {18158303, 36390029, 45652312, 70783524, 98191154, 114024957, 127804916, 159566246,
          175132467, 192583600, 217919476, 237199054, 259336807, 261799367, 289359313, 307699687}},
        {{9707, 248044, 11, 0},
         4,
         {16919051, 35719547, 45119965, 70280766, 97561658, 113322015, 126962555, 158483393,
          174274172, 190808175, 215248968, 233009046, 255051492, 277453500, 285000738, 303336027}}};
    tt_arch a = {.streams = 4, .ngram_size = 3, .ngram_heads = 8, .ngram_eos = 248044};
    int64_t offsets[16] = {0};
    for (int h = 1; h < 16; h++)
        offsets[h] = offsets[h - 1] + sizes[h - 1];
    tt_ngram_weights w = {.multipliers = multipliers, .sizes = sizes, .offsets = offsets};
    for (size_t c = 0; c < sizeof want / sizeof want[0]; c++) {
        uint64_t rows[16];
        tt_ngram_rows(rows, &a, &w, want[c].ids, want[c].n);
        for (int h = 0; h < 16; h++)
            assert_int_equal(rows[h], want[c].rows[h]);
    }
}

/* ---- reading ---- */

static tt_model *open_model(const char *reader, uint32_t cols, uint64_t seed)
{
    tiny_options o = {.arch = tiny_arch_plain("Slf", 4, 2), .seed = seed, .mat = TT_DTYPE_BF16};
    tt_model_options mo;
    tt_model_options_default(&mo);
    mo.threads = 1;
    mo.max_context = 400;
    mo.reader = reader;
    o.arch.ngram_dim = cols * tt_arch_ngrams(&o.arch);
    o.arch.ngram_rows = 250;
    return tiny_open(tiny_install_new(&o), &mo);
}

static char *load_table(const tt_model *m)
{
    char path[TT_MAX_PATH];
    uint64_t n = m->ngram.layout.file_bytes;
    char *table = malloc(n);
    assert_int_equal(tt_install_path(m->install, TT_NGRAM_NAME, path, NULL), TT_OK);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fread(table, 1, n, f), n);
    fclose(f);
    return table;
}

static void check_rows(const tt_model *m, const char *table, const float *e, const uint32_t *ids,
                       uint32_t from, uint32_t T)
{
    const tt_ngram_layout *l = &m->ngram.layout;
    uint64_t rows[TT_MAX_NGRAM_ROWS];
    for (uint32_t t = 0; t < T; t++) {
        tt_ngram_rows(rows, &m->arch, &m->weights.ngram, ids, from + t + 1);
        for (uint32_t h = 0; h < m->ngram.n; h++)
            for (uint32_t i = 0; i < l->cols; i++) {
                uint16_t v;
                memcpy(&v, table + rows[h] * l->row_bytes + 2 * i, 2);
                float want = l->dtype == TT_DTYPE_F16 ? tt_f16_to_f32(v) : tt_bf16_to_f32(v);
                assert_true(*e++ == want);
            }
    }
}

/* Steps of many sizes, taken in spans of many sizes. */
static void steps_at(const char *reader, uint32_t cols, uint64_t seed)
{
    static const uint32_t steps[] = {1, 1, 2, 300, 64, 1, 31}, spans[] = {1, 7, 64, 100, 512};
    tt_model *m = open_model(reader, cols, seed);
    char *table = load_table(m);
    uint32_t ids[400], at = 0, turn = 0;
    tt_rng r = {seed};
    float *e = tt_guard_new((size_t)512 * m->arch.ngram_dim);
    for (uint32_t i = 0; i < 400; i++)
        ids[i] = tt_rng_below(&r, 96); /* ends of texts among them */
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
        tt_error err = {0};
        tt_step s = {.model = m,
                     .arch = &m->arch,
                     .be = m->be,
                     .past = ids,
                     .tokens = ids + at,
                     .pos0 = at,
                     .T = steps[k],
                     .err = &err};
        tt_ngram_begin(&s);
        for (uint32_t done = 0, n; done < s.T; done += n) {
            tt_step part = s;
            n = spans[turn++ % 5];
            n = n < s.T - done ? n : s.T - done;
            part.T = n;
            part.tokens += done;
            part.pos0 += done;
            tt_ngram_take(&part, e);
            assert_int_equal(s.status, TT_OK);
            check_rows(m, table, e, ids, at + done, n);
        }
        tt_ngram_end(&s);
        at += s.T;
    }
    assert_int_equal(m->ngram.stats.rows, 400 * m->ngram.n);
    assert_true(m->ngram.stats.pages >= m->ngram.stats.rows);
    if (cols * 2 < TT_IO_ALIGN)
        assert_true(m->ngram.stats.pages <= 2 * m->ngram.stats.rows);
    tt_guard_free(e);
    free(table);
    tt_model_close(&m);
}

static void rows_come_from_the_disk(void **state)
{
    steps_at(NULL, 16, 2);
    steps_at("buffered", 160, 3); /* rows of 320 bytes, which pages cut */
    steps_at("pool", 48, 4);
    steps_at(NULL, 2500, 5); /* rows longer than a page */
    tiny_remove();
}

static void a_failed_read_fails_the_step(void **state)
{
    tt_model *m = open_model(NULL, 16, 2);
    tt_session *s = NULL;
    tt_error err = {0};
    uint32_t ids[300];
    faulty_options good, bad[5];
    for (uint32_t i = 0; i < 300; i++)
        ids[i] = i % 96;
    faulty_options_default(&good);
    good.reorder = true;
    for (int i = 0; i < 5; i++)
        bad[i] = good;
    tt_reader *inner = m->ngram.reader;
    assert_int_equal(faulty_reader_open(&inner, &good, &m->ngram.reader, &err), TT_OK);
    assert_int_equal(tt_session_create(m, &s, &err), TT_OK);
    for (int i = 0; i < 5; i++) { /* in the first batch, in a later one, at the beginning */
        uint64_t next = faulty_reader_started(m->ngram.reader);
        bad[i].fail_read = i == 0 ? next + 3 : i == 1 ? next + 700 : FAULTY_NEVER;
        bad[i].fail_start = i == 2 ? next : i == 3 ? next + 601 : FAULTY_NEVER;
        bad[i].shorten = i == 4 ? next + 1000 : FAULTY_NEVER;
        faulty_reader_set(m->ngram.reader, &bad[i]);
        assert_int_not_equal(tt_session_sync(s, ids, 300, NULL, NULL, &err), TT_OK);
        assert_int_equal(faulty_reader_pending(m->ngram.reader), 0);
        faulty_reader_set(m->ngram.reader, &good);
        if (i % 2 == 0)
            assert_int_equal(tt_session_sync(s, ids, 300, NULL, NULL, &err), TT_OK);
        assert_int_equal(tt_session_rewind(s, 0, &err), TT_OK);
    }
    tt_session_close(&s);
    tt_model_close(&m);
    tiny_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_rows),
        cmocka_unit_test(rows_come_from_the_disk),
        cmocka_unit_test(a_failed_read_fails_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
