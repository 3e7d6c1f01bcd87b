/* Proves where bytes become operands: whatever the router picks, however many rows and slots, on
 * every level, the sum of a row is that of its experts alone in ascending id, byte for byte; and a
 * failed read leaves no lease behind. */
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
#include "base/file.h"
#include "format/install_layout.h"

#define E      11u
#define K      3u
#define LAYERS 2u
#define ROWS   704u

static const char *install;
static char *experts[LAYERS]; /* the files */
static float x[ROWS * 64];

static bool verify = true;

static tt_model *open_with(const char *level, uint32_t slots, unsigned threads)
{
    tt_model_options o;
    tt_model_options_default(&o);
    o.cpu_level = level;
    o.expert_slots = slots;
    o.threads = threads;
    o.prefill_chunk = ROWS;
    o.verify_reads = verify;
    return tiny_open(install, &o);
}

static tt_step step_of(tt_model *m, uint32_t T, bool prefill, tt_error *err)
{
    return (tt_step){.model = m,
                     .be = m->be,
                     .arch = &m->arch,
                     .s = &m->scratch,
                     .T = T,
                     .prefill = prefill,
                     .err = err};
}

/* ---- the definition: one row, one expert at a time ---- */

static tt_mat mat(const tt_expert_mat *t, const char *expert)
{
    tt_mat m = {
        .dtype = t->dtype, .rows = t->rows, .cols = t->cols, .words = expert + t->words_offset};
    if (t->scales_bytes > 0) {
        m.scales = (const uint16_t *)(const void *)(expert + t->scales_offset);
        m.biases = (const uint16_t *)(const void *)(expert + t->biases_offset);
    }
    return m;
}

static void row_by_definition(tt_model *m, float *acc, const float *row, const uint32_t *ids,
                              const float *p, uint32_t layer)
{
    const tt_expert_layout *l = tt_install_expert_layout(m->install);
    static const uint32_t zero = 0;
    float mid[64], y[64];
    memset(acc, 0, 64 * sizeof *acc);
    for (uint32_t e = 0; e < E; e++) {
        for (uint32_t k = 0; k < K; k++) {
            if (ids[k] != e)
                continue;
            const char *bytes = experts[layer] + e * l->stride;
            tt_expert_job j = {.gate = mat(&l->gate, bytes),
                               .up = mat(&l->up, bytes),
                               .down = mat(&l->down, bytes),
                               .x = row,
                               .m = mid,
                               .y = y,
                               .row = &zero,
                               .weight = &p[k],
                               .n = 1};
            m->be->ops->experts_gate_up(m->be, &j, 1);
            m->be->ops->experts_down(m->be, &j, 1);
            m->be->ops->experts_reduce(m->be, acc, 64, &j, 1);
        }
    }
}

/* ---- picks ---- */

typedef enum pattern { DRAWN, ALL_THE_SAME, ROUND, FROM_THE_END, PATTERNS } pattern;

static void pick(tt_model *m, uint32_t T, pattern how, tt_rng *r)
{
    for (uint32_t t = 0; t < T; t++) {
        for (uint32_t k = 0; k < K; k++) {
            uint32_t *id = &m->scratch.ids[t * K + k];
            bool again = true;
            while (again) {
                *id = how == DRAWN          ? tt_rng_below(r, E)
                      : how == ALL_THE_SAME ? 2 * k + 1
                      : how == ROUND        ? (t * K + k) % E
                                            : E - 1 - k;
                again = false;
                for (uint32_t i = 0; i < k; i++)
                    again = again || m->scratch.ids[t * K + i] == *id;
            }
            m->scratch.p[t * K + k] = tt_rng_uniform(r, 0.01f, 1);
        }
    }
}

/* One layer of a step, against the definition. */
static void check_layer(tt_step *s, uint32_t layer, pattern how, tt_rng *r)
{
    tt_model *m = s->model;
    float *acc = malloc(s->T * 64 * sizeof *acc), want[64];
    pick(m, s->T, how, r);
    memset(acc, 0x7f, s->T * 64 * sizeof *acc);
    tt_moe_ask(s, layer);
    tt_moe_run(s, acc, x, layer);
    if (s->status != TT_OK)
        fail_msg("%s", s->err->message);
    assert_int_equal(m->moe.leases.count, m->moe.leases.guessed);
    for (uint32_t t = 0; t < s->T; t++) {
        row_by_definition(m, want, x + (size_t)t * 64, m->scratch.ids + t * K, m->scratch.p + t * K,
                          layer);
        const void *sum = acc + (size_t)t * 64, *wanted = want; /* to the bit */
        if (memcmp(wanted, sum, sizeof want) != 0)
            fail_msg("level %s, %u slots, %u rows, %s, pattern %d: row %u is not its own sum",
                     m->be->level, m->plan.slots_per_layer, s->T, s->prefill ? "prefill" : "decode",
                     (int)how, t);
    }
    free(acc);
}

static void check(tt_model *m, uint32_t T, bool prefill, pattern how, tt_rng *r)
{
    tt_error err = {0};
    tt_step s = step_of(m, T, prefill, &err);
    check_layer(&s, tt_rng_below(r, LAYERS), how, r);
    tt_moe_end(&s);
    assert_int_equal(m->moe.leases.count, 0);
}

static void every_row_is_the_sum_of_its_experts(void **state)
{
    static const uint32_t slots[] = {K, K + 1, 7, E};
    for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            verify = k % 2 == 0; /* without checksums gate and up run before down is there */
            tt_model *m = open_with(tt_cpu_level_at(i), slots[k], 1 + k % 3);
            tt_rng r = {i * 10 + k + 1};
            for (uint32_t T = 1; T <= 17; T++)
                for (int how = 0; how < PATTERNS; how++)
                    check(m, T, T > TT_DECODE_ROWS || tt_rng_below(&r, 2), (pattern)how, &r);
            static const uint32_t many[] = {31, 63, 64, 130, ROWS};
            for (int t = 0; t < 5; t++)
                for (int how = 0; how < PATTERNS; how++)
                    check(m, many[t], true, (pattern)how, &r);
            tt_model_close(&m);
        }
    }
    verify = true;
}

/* ---- reading ahead ---- */

/* A prefill step over all layers reads no expert twice, whether it guessed right or not, and counts
 * no guess as an ask. */
static void a_step_reads_an_expert_at_most_once(void **state)
{
    static const uint32_t slots[] = {K, 5, E};
    uint64_t guessed = 0;
    for (uint32_t k = 0; k < 3; k++) {
        for (int how = 0; how < PATTERNS; how++) {
            tt_model *m = open_with(NULL, slots[k], 2);
            tt_rng r = {k * 10 + (uint32_t)how};
            tt_error err = {0};
            tt_step s = step_of(m, ROWS, true, &err);
            tt_expert_cache_stats st;
            uint64_t asked = 0;
            for (uint32_t l = 0; l < LAYERS; l++) {
                check_layer(&s, l, (pattern)how, &r);
                asked += m->moe.n_active;
            }
            assert_int_equal(m->moe.leases.count, 0); /* no layer is left to guess for */
            tt_expert_cache_get_stats(m->cache, &st);
            assert_int_equal(st.asks, asked);
            assert_int_equal(st.asks, st.hits + st.misses + st.joins);
            assert_int_equal(st.misses + st.guessed,
                             st.bytes_read / tt_install_expert_layout(m->install)->stride);
            assert_true(st.misses + st.guessed <= LAYERS * E);
            if (how == ROUND)
                assert_int_equal(st.misses + st.guessed, LAYERS * E);
            guessed += st.guessed;
            tt_model_close(&m);
        }
    }
    assert_true(guessed > 20);
}

/* ---- failures ---- */

static void make_faulty(tt_model *m, tt_reader **faulty)
{
    faulty_options o;
    tt_error err = {0};
    faulty_options_default(&o);
    assert_int_equal(faulty_reader_open(&m->reader, &o, faulty, &err), TT_OK);
    m->reader = *faulty;
    tt_expert_cache_set_reader(m->cache, *faulty);
}

/* A read that fails at any of the first places: the step says so once, and the next one is right.
 */
static void a_failed_read_ends_the_step_and_no_lease(void **state)
{
    tt_model *m = open_with(NULL, K, 1);
    tt_reader *faulty = NULL;
    make_faulty(m, &faulty);
    tt_rng r = {5};
    unsigned failed = 0;
    for (uint32_t at = 0; at < 12; at++) {
        for (int kind = 0; kind < 3; kind++) {
            faulty_options o;
            tt_error err = {0};
            bool prefill = at % 2 == 0;
            uint32_t T = prefill ? 200 : TT_DECODE_ROWS;
            tt_step s = step_of(m, T, prefill, &err);
            float *acc = calloc(T * 64, sizeof *acc);
            faulty_options_default(&o);
            *(kind == 0   ? &o.fail_start
              : kind == 1 ? &o.fail_read
                          : &o.corrupt) = faulty_reader_started(faulty) + at;
            faulty_reader_set(faulty, &o);
            pick(m, T, DRAWN, &r);
            tt_moe_ask(&s, 0);
            tt_moe_run(&s, acc, x, 0);
            tt_moe_end(&s);
            assert_int_equal(m->moe.leases.count, 0);
            if (s.status != TT_OK) {
                failed++;
                assert_int_equal(s.status, kind == 2 ? TT_ERR_CORRUPT : TT_ERR_IO);
                assert_int_equal(err.status, s.status);
                /* after a failure the calls of the page do nothing */
                tt_error before = err;
                tt_moe_ask(&s, 1);
                tt_moe_run(&s, acc, x, 1);
                assert_memory_equal(&before, &err, sizeof err);
                assert_int_equal(m->moe.leases.count, 0);
            }
            faulty_options_default(&o);
            faulty_reader_set(faulty, &o);
            check(m, T, prefill, DRAWN, &r);
            free(acc);
        }
    }
    assert_true(failed >= 20);
    assert_int_equal(faulty_reader_pending(faulty), 0);
    tt_model_close(&m);
}

/* ---- memory ---- */

static void cost_is_what_is_taken(void **state)
{
    static const uint32_t slots[] = {K, E};
    for (int i = 0; i < 2; i++) {
        tt_model *m = open_with(NULL, slots[i], 1);
        assert_int_equal(m->moe.bytes, tt_moe_cost(&m->arch, ROWS));
        /* room for a chunk's rows, and for all picks of a decode step */
        assert_int_equal(m->moe.rows_max, TT_MOE_ROWS);
        assert_true(m->moe.rows_max >= TT_DECODE_ROWS * K);
        assert_true(m->moe.window >= K && m->moe.window <= E);
        tt_model_close(&m);
    }
    tt_arch dense = tiny_arch_plain("l", 0, 0);
    assert_int_equal(tt_moe_cost(&dense, 512), 0);
    tt_arch large = tiny_arch_plain("l", 40, 30);
    assert_true(tt_moe_cost(&large, 64) > 30 * TT_DECODE_ROWS * 64 * sizeof(float));
    /* more rows than run at once cost their picks only */
    assert_true(tt_moe_cost(&large, 8192) - tt_moe_cost(&large, 4096) < 4096 * 30 * 16);
}

static int setup(void **state)
{
    tiny_options o = {.arch = tiny_arch_plain("lf", E, K), .seed = 8, .mat = TT_DTYPE_Q4};
    tt_rng r = {3};
    install = tiny_install_new(&o);
    for (uint32_t l = 0; l < LAYERS; l++) {
        char path[700], name[64];
        size_t n = 0;
        tt_expert_file_name(name, l, false);
        snprintf(path, sizeof path, "%s/%s", install, name);
        if (tt_file_read(path, 1 << 24, &experts[l], &n, NULL) != TT_OK)
            return -1;
    }
    tt_rng_fill(&r, x, ROWS * 64, 1);
    return 0;
}

static int teardown(void **state)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        tt_free(experts[l]);
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_the_sum_of_its_experts),
        cmocka_unit_test(a_step_reads_an_expert_at_most_once),
        cmocka_unit_test(a_failed_read_ends_the_step_and_no_lease),
        cmocka_unit_test(cost_is_what_is_taken),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
