/* Proves synthetic models: what is written verifies, gives finite logits of sane size at every
 * width, routes as its chain says, comes again from its seed, converts from its checkpoint form,
 * and that a run which ends early leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../support/tempdir.h"
#include "base/file.h"
#include "bench/forced_ids.h"
#include "bench/synth.h"
#include "bench/synth_out.h"
#include "format/quant.h"
#include "repack/repack.h"
#include "repack/verify.h"
#include "session/session.h"

#define TOKENS 300

static char dir[512];
static const volatile int go_on = 0;

static int set_up(void **state)
{
    tempdir_make(dir);
    return 0;
}

static int tear_down(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static synth_options tiny(const char *output)
{
    return (synth_options){.preset = "tiny",
                           .output = output,
                           .bits = 4,
                           .table_bits = 8,
                           .locality = 1,
                           .seed = 1,
                           .quiet = true};
}

static const char *place(const char *name)
{
    static char path[8][600];
    static unsigned n;
    char *p = path[n++ % 8];
    snprintf(p, 600, "%s/%s", dir, name);
    return p;
}

static void write_one(const synth_options *o)
{
    synth_model m;
    tt_error err = {0};
    uint64_t bytes = 0;
    if (synth_open(o, &m, &err) != TT_OK || synth_write_install(&m, &go_on, &bytes, &err) != TT_OK)
        fail_msg("%s", err.message);
    assert_true(bytes > 0);
    synth_close(&m);
}

/* ---- a model at work ---- */

typedef struct watch {
    uint32_t n, n_layers, top_k;
    uint32_t *ids;     /* [layer][position][K] */
    float embed, last; /* largest size of a row's mean square */
    uint32_t H;
} watch;

static float size_of(const float *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(isfinite(x[i]));
        sum += (double)x[i] * x[i];
    }
    return (float)(sum / n);
}

static void see(void *ctx, tt_stage stage, uint32_t layer, uint32_t pos0, uint32_t rows,
                uint32_t cols, const void *data)
{
    watch *w = ctx;
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t *ids = (const uint32_t *)data + (size_t)r * cols;
        const float *x = (const float *)data + (size_t)r * cols;
        if (stage == TT_STAGE_ROUTER_IDS && w->ids != NULL)
            memcpy(w->ids + ((size_t)layer * w->n + pos0 + r) * cols, ids, cols * sizeof *ids);
        else if (stage == TT_STAGE_EMBED && size_of(x, cols) > w->embed)
            w->embed = size_of(x, cols);
        else if (stage == TT_STAGE_LAYER && size_of(x, cols) > w->last)
            w->last = size_of(x, cols);
    }
}

static tt_model *open_model(const char *path)
{
    tt_model_options mo;
    tt_model *m = NULL;
    tt_error err = {0};
    tt_model_options_default(&mo);
    mo.max_context = 512;
    mo.threads = 2;
    mo.prefill_chunk = 64;
    if (tt_model_open(path, &mo, NULL, NULL, &m, &err) != TT_OK)
        fail_msg("%s", err.message);
    return m;
}

/* Runs ids through prefill or decode and looks at everything that comes by. */
static void run_ids(const char *path, const uint32_t *ids, uint32_t n, bool decode, watch *w)
{
    tt_model *m = open_model(path);
    tt_session *s = NULL;
    const tt_trace trace = {see, w};
    assert_int_equal(tt_session_create(m, &s, NULL), TT_OK);
    tt_session_set_trace(s, &trace);
    assert_int_equal(tt_session_sync(s, ids, decode ? 1 : n, NULL, NULL, NULL), TT_OK);
    for (uint32_t i = 1; decode && i < n; i++)
        assert_int_equal(tt_session_decode(s, ids[i], NULL), TT_OK);
    const float *logits = tt_session_logits(s);
    float spread = sqrtf(size_of(logits, m->arch.vocab_size));
    assert_true(spread > 0.5f && spread < 40);
    tt_session_close(&s);
    tt_model_close(&m);
}

static void widths_verify_and_compute(void **state)
{
    static const struct {
        const char *preset;
        uint32_t bits, table, layers;
    } all[] = {{"tiny", 4, 8, 0},       {"tiny", 8, 4, 2},       {"tiny", 4, 16, 1},
               {"tiny-dense", 4, 8, 0}, {"tiny-dense", 8, 4, 3}, {"tiny-next", 4, 8, 0},
               {"tiny-next", 8, 16, 3}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        char name[64];
        snprintf(name, sizeof name, "width-%u", i);
        const char *path = place(name);
        synth_options o = tiny(path);
        o.preset = all[i].preset;
        o.bits = all[i].bits;
        o.table_bits = all[i].table;
        o.layers = all[i].layers;
        o.threads = 1 + i % 3;
        write_one(&o);
        tt_verify_report report;
        tt_error err = {0};
        if (tt_verify_run(path, false, 0, NULL, &report, &err) != TT_OK)
            fail_msg("%s %u bits: %s", o.preset, o.bits, err.message);
        tt_install *in = NULL;
        assert_int_equal(tt_install_open(path, 0, NULL, NULL, &in, NULL), TT_OK);
        assert_true(tt_install_has_receipt(in));
        uint32_t want = all[i].layers > 0 ? all[i].layers : 4;
        assert_int_equal(tt_install_arch(in)->n_layers, want);
        const tt_index_entry *head = tt_index_find(tt_install_index(in), "embed_tokens.weight");
        assert_int_equal(tt_dtype_bits(head->dtype), all[i].table == 16 ? 0 : all[i].table);
        tt_install_close(&in);
        uint32_t *ids = NULL;
        assert_int_equal(bench_ids_forced("chain", path, 100, &ids, NULL), TT_OK);
        watch w = {0};
        run_ids(path, ids, 100, false, &w);
        run_ids(path, ids, 20, true, &w);
        free(ids);
        /* Embeddings are of size 1, and stay what the residual stream is made of. */
        assert_true(w.embed > 0.8f && w.embed < 1.3f);
        assert_true(w.last > 0.8f && w.last < 1.6f);
    }
}

/* ---- routing ---- */

static double overlap(const uint32_t *picks, uint32_t tokens, uint32_t k)
{
    double n = 0;
    for (uint32_t i = 1; i < tokens; i++)
        for (uint32_t a = 0; a < k; a++)
            for (uint32_t b = 0; b < k; b++)
                n += picks[i * k + a] == picks[(i - 1) * k + b];
    return n / (tokens - 1);
}

static uint32_t distinct(const uint32_t *picks, uint32_t n)
{
    bool seen[TT_MAX_EXPERTS] = {0};
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += !seen[picks[i]];
        seen[picks[i]] = true;
    }
    return sum;
}

static void routes_as_its_chain(const char *preset)
{
    const char *path = place(preset);
    synth_options o = tiny(path);
    o.preset = preset;
    write_one(&o);
    synth_model m;
    assert_int_equal(synth_open(&o, &m, NULL), TT_OK);
    uint32_t L = m.arch.n_layers, K = m.arch.top_k, *ids = NULL;
    uint32_t *live = calloc((size_t)L * TOKENS, K * sizeof *live);
    uint32_t *chain = calloc(TOKENS, K * sizeof *chain);
    assert_int_equal(bench_ids_forced("chain", path, TOKENS, &ids, NULL), TT_OK);
    watch w = {.n = TOKENS, .ids = live};
    run_ids(path, ids, TOKENS, true, &w);
    double is[2] = {0, 0}, want[2] = {0, 0}, pool = 0;
    for (uint32_t l = 0; l < L; l++) {
        const uint32_t *at = live + (size_t)l * TOKENS * K;
        for (uint32_t i = 0; i < TOKENS; i++) {
            const uint32_t *members =
                bench_locality_pool(m.chain, l, bench_locality_cluster(m.chain, ids[i]));
            bench_locality_picks(m.chain, l, ids[i], chain + i * K);
            for (uint32_t k = 0; k < K; k++)
                for (uint32_t p = 0; p < m.lo.pool; p++)
                    pool += (double)(members[p] == at[i * K + k]) / (L * TOKENS * K);
        }
        is[0] += overlap(at, TOKENS, K) / L;
        want[0] += overlap(chain, TOKENS, K) / L;
        is[1] += (double)distinct(at, 128 * K) / L;
        want[1] += (double)distinct(chain, 128 * K) / L;
    }
    if (fabs(is[0] - want[0]) > 0.03 * K)
        fail_msg("overlap with the token before is %.3f, of the chain %.3f", is[0], want[0]);
    /* In so narrow a model the tokens' own parts are not quite apart from the clusters'. */
    if (fabs(is[1] - want[1]) > 0.07 * m.arch.n_experts)
        fail_msg("distinct experts are %.1f, of the chain %.1f", is[1], want[1]);
    if (pool < 0.8)
        fail_msg("%.2f of the picks are from the cluster's pool", pool);
    free(live);
    free(chain);
    free(ids);
    synth_close(&m);
}

static void the_live_model_routes_as_its_chain(void **state)
{
    routes_as_its_chain("tiny");
    routes_as_its_chain("tiny-next");
}

static void chances_are_those_of_the_picks(void **state)
{
    synth_options o = tiny("");
    synth_model m;
    assert_int_equal(synth_open(&o, &m, NULL), TT_OK);
    enum { DRAWS = 20000 };
    const uint32_t layer = 2, cluster = 5, E = m.arch.n_experts, K = m.arch.top_k;
    float *chance = calloc(E, sizeof *chance);
    double *got = calloc(E, sizeof *got), sum = 0, picked = 0;
    bench_locality_chances(m.chain, layer, cluster, chance);
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t ids[8];
        bench_locality_picks(m.chain, layer, cluster + i * m.lo.clusters, ids);
        for (uint32_t k = 0; k < K; k++)
            got[ids[k]] += 1.0 / DRAWS;
    }
    /* draws such that K experts are met on average */
    double draws = 0;
    while (picked < K) {
        draws += 0.01;
        picked = 0;
        for (uint32_t e = 0; e < E; e++)
            picked += 1 - exp(-draws * chance[e]);
    }
    for (uint32_t e = 0; e < E; e++) {
        sum += chance[e];
        double want = 1 - exp(-draws * chance[e]);
        if (fabs(want - got[e]) > 0.06)
            fail_msg("expert %u is picked by %.3f of the tokens, chances say %.3f", e, got[e],
                     want);
    }
    assert_true(fabs(sum - 1) < 1e-4);
    free(chance);
    free(got);
    synth_close(&m);
}

/* ---- the same again ---- */

static void assert_same_file(const char *a, const char *b, const char *name, bool same)
{
    char pa[700], pb[700], x[TT_SHA256_HEX], y[TT_SHA256_HEX];
    uint64_t size;
    snprintf(pa, sizeof pa, "%s/%s", a, name);
    snprintf(pb, sizeof pb, "%s/%s", b, name);
    assert_int_equal(tt_file_sha256(pa, x, &size, NULL, NULL, NULL), TT_OK);
    assert_int_equal(tt_file_sha256(pb, y, &size, NULL, NULL, NULL), TT_OK);
    if ((strcmp(x, y) == 0) != same)
        fail_msg("%s of %s and %s: %s", name, a, b, same ? "differ" : "are the same");
}

static void the_seed_decides_and_threads_do_not(void **state)
{
    const char *a = place("seed-a"), *b = place("seed-b"), *c = place("seed-c");
    synth_options o = tiny(a);
    o.threads = 1;
    write_one(&o);
    o.output = b;
    o.threads = 3;
    write_one(&o);
    o.output = c;
    o.seed = 2;
    write_one(&o);
    static const char *const names[] = {"model_weights.bin", "packed_experts/layer_00.bin",
                                        "packed_experts/layer_03.bin", "packed_experts/crc32c.bin",
                                        "manifest.json"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        assert_same_file(a, b, names[i], true);
        assert_same_file(a, c, names[i], false);
    }
}

static void forced_ids_come_from_the_manifest(void **state)
{
    const char *path = place("forced");
    synth_options o = tiny(path);
    o.seed = 77;
    o.locality = 0.25f;
    write_one(&o);
    synth_model m;
    uint32_t *ids = NULL, *again = NULL, *other = NULL;
    tt_error err = {0};
    assert_int_equal(synth_open(&o, &m, NULL), TT_OK);
    assert_int_equal(bench_ids_forced("chain", path, 50, &ids, NULL), TT_OK);
    assert_int_equal(bench_ids_forced("chain:77", path, 50, &again, NULL), TT_OK);
    assert_int_equal(bench_ids_forced("chain:78", path, 50, &other, NULL), TT_OK);
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(ids[i], bench_locality_next(m.chain));
    assert_memory_equal(ids, again, 50 * sizeof *ids);
    assert_memory_not_equal(ids, other, 50 * sizeof *ids);
    uint32_t *both = NULL; /* each sequence begins at the seed after the one before it */
    assert_int_equal(bench_ids_of("chain:77", path, 50, 2, &both, NULL), TT_OK);
    assert_memory_equal(both, ids, 50 * sizeof *ids);
    assert_memory_equal(both + 50, other, 50 * sizeof *ids);
    free(both);
    free(ids);
    free(again);
    free(other);
    synth_close(&m);
    assert_int_equal(bench_ids_forced("chain:", path, 5, &ids, &err), TT_ERR_INVALID);
    assert_int_equal(bench_ids_forced("chain:-1", path, 5, &ids, &err), TT_ERR_INVALID);
    assert_int_equal(bench_ids_forced("chain:7x", path, 5, &ids, &err), TT_ERR_INVALID);
    char file[600];
    tempdir_file(dir, "ids.json", "[3, 1, 2]", 9, file);
    assert_int_equal(bench_ids_forced(file, "no install", 3, &ids, NULL), TT_OK);
    assert_int_equal(ids[2], 2);
    free(ids);
    assert_int_equal(bench_ids_forced(file, path, 4, &ids, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "3 ids"));
}

/* ---- the checkpoint form ---- */

static void a_checkpoint_converts(void **state)
{
    static const char *const presets[] = {"tiny", "tiny-dense", "tiny-next"};
    for (unsigned i = 0; i < sizeof presets / sizeof *presets; i++) {
        char name[64];
        snprintf(name, sizeof name, "checkpoint-%u", i);
        const char *from = place(name);
        snprintf(name, sizeof name, "converted-%u", i);
        const char *to = place(name);
        synth_options o = tiny(from);
        o.preset = presets[i];
        synth_model m;
        uint64_t bytes = 0;
        tt_error err = {0};
        assert_int_equal(synth_open(&o, &m, NULL), TT_OK);
        if (synth_write_checkpoint(&m, &go_on, &bytes, &err) != TT_OK)
            fail_msg("%s", err.message);
        const tt_repack_options ro = {.input = from, .output = to, .threads = 2};
        tt_repack_report report;
        if (tt_repack_run(&ro, NULL, &report, &err) != TT_OK)
            fail_msg("%s", err.message);
        tt_install *in = NULL;
        assert_int_equal(tt_install_open(to, 0, NULL, NULL, &in, NULL), TT_OK);
        const tt_arch *a = tt_install_arch(in);
        assert_int_equal(a->n_experts, m.arch.n_experts);
        assert_memory_equal(a->layer_kind, m.arch.layer_kind, a->n_layers);
        assert_int_equal(tt_install_index(in)->count, m.n_tensors);
        tt_install_close(&in);
        uint32_t ids[40];
        for (uint32_t k = 0; k < 40; k++)
            ids[k] = bench_locality_next(m.chain);
        watch w = {0};
        run_ids(to, ids, 40, false, &w);
        synth_close(&m);
    }
}

/* ---- what cannot be, and what ends early ---- */

static unsigned entries(void)
{
    unsigned n = 0;
    DIR *d = opendir(dir);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static void an_interrupted_run_leaves_nothing(void **state)
{
    const char *path = place("stopped");
    synth_options o = tiny(path);
    synth_model m;
    uint64_t bytes = 0;
    static const volatile int stop = 1;
    tt_error err = {0};
    unsigned before = entries();
    assert_int_equal(synth_open(&o, &m, NULL), TT_OK);
    assert_int_equal(synth_write_install(&m, &stop, &bytes, &err), TT_ERR_ABORTED);
    assert_int_equal(synth_write_checkpoint(&m, &stop, &bytes, &err), TT_ERR_ABORTED);
    assert_int_equal(entries(), before);
    /* What a killed run left goes with the next one. */
    char left[700];
    snprintf(left, sizeof left, "%s.partial-999999", path);
    assert_int_equal(mkdir(left, 0755), 0);
    assert_int_equal(synth_write_install(&m, &go_on, &bytes, &err), TT_OK);
    assert_int_equal(entries(), before + 1);
    /* Something stands there now. */
    assert_int_equal(synth_write_install(&m, &go_on, &bytes, &err), TT_ERR_EXISTS);
    m.o.overwrite = true;
    assert_int_equal(synth_write_install(&m, &stop, &bytes, &err), TT_ERR_ABORTED);
    tt_verify_report report;
    assert_int_equal(tt_verify_run(path, false, 0, NULL, &report, NULL), TT_OK);
    assert_int_equal(synth_write_install(&m, &go_on, &bytes, &err), TT_OK);
    assert_int_equal(tt_verify_run(path, false, 0, NULL, &report, NULL), TT_OK);
    assert_int_equal(entries(), before + 1);
    /* A directory that is no model is nobody's to replace. */
    m.o.output = place("mine");
    assert_int_equal(mkdir(m.o.output, 0755), 0);
    assert_int_equal(synth_write_install(&m, &go_on, &bytes, &err), TT_ERR_EXISTS);
    m.o.output = place("no/such/dir");
    assert_int_equal(synth_write_install(&m, &go_on, &bytes, &err), TT_ERR_NOT_FOUND);
    synth_close(&m);
}

static void impossible_models_are_refused_in_words(void **state)
{
    synth_options o = tiny("");
    synth_model m;
    tt_error err = {0};
    o.preset = "qwen3.8-flash-next";
    o.layers = 1;
    assert_int_equal(synth_open(&o, &m, &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "ngram_layer is 1"));
    o.preset = "tiny";
    o.layers = 0;
    o.ngram_base = 100;
    assert_int_equal(synth_open(&o, &m, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "no n-gram table"));
    o.ngram_base = 0;
    o.layers = 5;
    assert_int_equal(synth_open(&o, &m, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "4 layers"));
    o.preset = "huge";
    assert_int_equal(synth_open(&o, &m, &err), TT_ERR_INVALID);
    synth_dir d;
    assert_int_equal(synth_dir_init(&d, place("space"), "x", false, &err), TT_OK);
    assert_int_equal(synth_dir_space(&d, UINT64_MAX / 2, &err), TT_ERR_NO_SPACE);
    assert_non_null(strstr(err.message, "free"));
}

/* The published geometry, without writing it: bytes of what is resident and of an expert. */
static void the_35b_has_its_published_size(void **state)
{
    synth_options o = tiny("");
    synth_model m;
    o.preset = "qwen3.6-35b-a3b";
    assert_int_equal(synth_open(&o, &m, NULL), TT_OK);
    uint64_t weights = 0;
    for (size_t i = 0; i < m.n_tensors; i++)
        weights += m.tensors[i].rows * (m.tensors[i].cols > 0 ? m.tensors[i].cols : 1);
    weights += (uint64_t)m.arch.n_layers * m.arch.n_experts * 3 * 2048 * 512;
    assert_int_equal(weights, 34660610688u);
    assert_int_equal(m.n_tensors, 693 - 2 * 40);
    assert_int_equal(m.experts.stride, 1769472);
    synth_close(&m);
}

/* The head is the embedding, so it counts once; KV heads and FFN widths decide the rest. */
static void the_dense_ones_have_their_published_sizes(void **state)
{
    static const struct {
        const char *preset;
        uint32_t layers, tensors;
        uint64_t weights;
    } all[] = {{"qwen3.5-2b", 24, 24 / 4 * (3 * 14 + 11) + 2, 1881825088},
               {"qwen3.5-4b", 32, 32 / 4 * (3 * 14 + 11) + 2, 4205751296}};
    for (unsigned i = 0; i < 2; i++) {
        synth_options o = tiny("");
        synth_model m;
        o.preset = all[i].preset;
        o.table_bits = 4;
        assert_int_equal(synth_open(&o, &m, NULL), TT_OK);
        uint64_t weights = 0;
        for (size_t k = 0; k < m.n_tensors; k++) {
            const synth_tensor *t = &m.tensors[k];
            weights += t->rows * (t->cols > 0 ? t->cols : 1);
            if (strcmp(t->name, "embed_tokens.weight") == 0)
                assert_int_equal(t->dtype, TT_DTYPE_Q4);
        }
        assert_true(m.arch.tied_head && m.arch.n_layers == all[i].layers);
        assert_int_equal(m.n_tensors, all[i].tensors);
        assert_int_equal(weights, all[i].weights);
        synth_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_verify_and_compute),
        cmocka_unit_test(the_live_model_routes_as_its_chain),
        cmocka_unit_test(chances_are_those_of_the_picks),
        cmocka_unit_test(the_seed_decides_and_threads_do_not),
        cmocka_unit_test(forced_ids_come_from_the_manifest),
        cmocka_unit_test(a_checkpoint_converts),
        cmocka_unit_test(an_interrupted_run_leaves_nothing),
        cmocka_unit_test(impossible_models_are_refused_in_words),
        cmocka_unit_test(the_35b_has_its_published_size),
        cmocka_unit_test(the_dense_ones_have_their_published_sizes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
