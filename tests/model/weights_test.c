/* Proves that the index is held to the architecture tensor by tensor: one that is missing, extra,
 * misshapen or of a wrong type is refused by its name before memory is taken; that what is
 * loaded is what the file says, in fields, types and cost; and that loading leaves no page in the
 * page cache that was not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/page_cache.h"
#include "../support/tiny_model.h"
#include "base/file.h"
#include "format/quant.h"
#include "model/weights.h"

typedef enum change { DROP, ADD, MORE_ROWS, LESS_COLS, TURN, RANK, INTEGERS } change;

typedef struct alteration {
    change how;
    size_t at;              /* entry */
    const char *added;      /* ADD */
    char name[TT_MAX_NAME]; /* of the entry that was altered */
    bool possible;
    size_t count; /* entries before */
} alteration;

static void alter(tt_index *ix, void *ctx)
{
    alteration *al = ctx;
    tt_index_entry *e = &ix->entries[al->at];
    al->count = ix->count;
    if (al->how == ADD) {
        size_t i = ix->count++;
        for (; i > 0 && strcmp(ix->entries[i - 1].name, al->added) > 0; i--)
            ix->entries[i] = ix->entries[i - 1];
        ix->entries[i] = (tt_index_entry){
            .name = al->added, .dtype = TT_DTYPE_F32, .rank = 2, .shape = {96, 64}};
        snprintf(al->name, sizeof al->name, "%s", al->added);
        al->possible = true;
        return;
    }
    snprintf(al->name, sizeof al->name, "%s", e->name);
    al->possible = true;
    switch (al->how) {
    case DROP:
        memmove(e, e + 1, (ix->count - al->at - 1) * sizeof *e);
        ix->count--;
        break;
    case MORE_ROWS:
        e->shape[0]++;
        break;
    case LESS_COLS:
        al->possible = e->shape[e->rank - 1] > 64;
        if (al->possible)
            e->shape[e->rank - 1] -= 64;
        break;
    case TURN: {
        uint64_t rows = e->shape[0];
        al->possible = e->rank == 2 && rows != e->shape[1];
        if (!al->possible)
            break;
        e->dtype = TT_DTYPE_F32;
        e->shape[0] = e->shape[1];
        e->shape[1] = rows;
        break;
    }
    case RANK: /* the same number of values in one dimension more */
        e->dtype = TT_DTYPE_F32;
        memmove(e->shape + 1, e->shape, e->rank * sizeof *e->shape);
        e->shape[0] = 1;
        e->rank++;
        break;
    case INTEGERS:
        e->dtype = TT_DTYPE_I64;
        break;
    case ADD:
        break;
    }
}

static tt_status check(const char *dir, tt_error *err)
{
    tt_install *in = NULL;
    tt_error e = {0};
    if (tt_install_open(dir, TT_INSTALL_NO_HASH, NULL, NULL, &in, &e) != TT_OK)
        fail_msg("opening %s: %s: %s", dir, e.file, e.message);
    tt_status st = tt_weights_check(in, err);
    if (st != TT_OK) { /* loading refuses it too, whoever forgot to check */
        tt_weights w;
        assert_int_equal(tt_weights_load(&w, in, NULL, NULL, NULL, &e), st);
        assert_string_equal(e.message, err->message);
    }
    tt_install_close(&in);
    return st;
}

/* One altered install for every tensor that can be altered so. */
static void each_is_named(const tt_arch *a, change how, const char *words)
{
    unsigned refused = 0;
    alteration al = {.how = how, .count = 1};
    for (al.at = 0; al.at < al.count; al.at++) {
        tiny_options o = {.arch = *a, .mat = TT_DTYPE_BF16, .alter = alter, .ctx = &al};
        tt_error err = {0};
        tt_status st = TT_OK;
        const char *dir = tiny_install_new(&o);
        if (!al.possible) {
            tiny_remove();
            continue;
        }
        st = check(dir, &err);
        char quoted[TT_MAX_NAME + 2];
        snprintf(quoted, sizeof quoted, "\"%s\"", al.name);
        if (st != TT_ERR_FORMAT || strstr(err.message, quoted) == NULL ||
            strstr(err.message, words) == NULL || strstr(err.file, TT_WEIGHTS_NAME) == NULL)
            fail_msg("%s altered: %s: %s: %s", al.name, tt_status_name(st), err.file, err.message);
        refused++;
        tiny_remove();
    }
    assert_true(refused >= 10);
}

static void every_tensor(change how, const char *words)
{
    tt_arch moe = tiny_arch_plain("lf", 5, 2), dense = tiny_arch_plain("fl", 0, 0);
    each_is_named(&moe, how, words);
    dense.tied_head = true;
    each_is_named(&dense, how, words);
}

static void missing_tensors_are_named(void **state)
{
    every_tensor(DROP, "is missing");
}

static void tensors_with_other_rows_are_named(void **state)
{
    every_tensor(MORE_ROWS, "has shape [");
}

static void tensors_of_another_rank_are_named(void **state)
{
    every_tensor(RANK, "has shape [1, ");
}

static void integers_are_named(void **state)
{
    every_tensor(INTEGERS, "tensor \"");
}

static void turned_and_narrowed_tensors_are_named(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 5, 2);
    a.hidden_size = 128;
    each_is_named(&a, TURN, "has shape [");
    each_is_named(&a, LESS_COLS, "has shape [");
}

static void extra_tensors_are_named(void **state)
{
    static const char *const extra[] = {"a",
                                        "zzz",
                                        "layers.0.mlp.gate.bias",
                                        "layers.2.mlp.gate.weight",
                                        "lm_head.weight",
                                        "mtp.fc.weight",
                                        "layers.1.linear_attn.A_log"};
    for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++) {
        alteration al = {.how = ADD, .added = extra[i]};
        tiny_options o = {
            .arch = tiny_arch_plain("lf", 5, 2), .mat = TT_DTYPE_BF16, .alter = alter, .ctx = &al};
        o.arch.tied_head = true;
        tt_error err = {0};
        assert_int_equal(check(tiny_install_new(&o), &err), TT_ERR_FORMAT);
        assert_non_null(strstr(err.message, "is not part of a qwen3_5_moe model"));
        assert_non_null(strstr(err.message, extra[i]));
        tiny_remove();
    }
}

/* ---- loading ---- */

typedef struct loaded {
    tt_install *in;
    tt_pool *pool;
    tt_weights w;
    char *file;
    size_t size;
} loaded;

static void load(loaded *l, const tiny_options *o, unsigned threads)
{
    const char *dir = tiny_install_new(o);
    char path[700];
    tt_error err = {0};
    snprintf(path, sizeof path, "%s/%s", dir, TT_WEIGHTS_NAME);
    assert_int_equal(tt_install_open(dir, TT_INSTALL_NO_HASH, NULL, NULL, &l->in, &err), TT_OK);
    assert_int_equal(tt_pool_create(threads, &l->pool, &err), TT_OK);
    assert_int_equal(tt_weights_load(&l->w, l->in, l->pool, NULL, NULL, &err), TT_OK);
    assert_int_equal(tt_file_read(path, 1 << 30, &l->file, &l->size, &err), TT_OK);
}

static void unload(loaded *l)
{
    tt_weights_free(&l->w);
    tt_pool_close(&l->pool);
    tt_install_close(&l->in);
    free(l->file);
    tiny_remove();
}

/* A matrix is the bytes of its entry, with its own type. */
static void same_mat(const loaded *l, const tt_mat *m, const char *name)
{
    const tt_index_entry *e = tt_index_find(tt_install_index(l->in), name);
    assert_non_null(e);
    if (m->dtype != e->dtype || m->rows != e->shape[0] || m->cols != e->shape[1] ||
        memcmp(m->words, l->file + e->offset, e->bytes) != 0 ||
        (e->scales_bytes > 0) != (m->scales != NULL) || (uintptr_t)m->words % TT_TENSOR_ALIGN != 0)
        fail_msg("%s is not what the file has", name);
    if (e->scales_bytes > 0) {
        assert_memory_equal(m->scales, l->file + e->scales_offset, e->scales_bytes);
        assert_memory_equal(m->biases, l->file + e->biases_offset, e->biases_bytes);
    }
}

static void same_vector(const loaded *l, const float *v, float add, const char *name)
{
    const tt_index_entry *e = tt_index_find(tt_install_index(l->in), name);
    assert_non_null(e);
    uint64_t n = e->shape[0] * (e->rank > 1 ? e->shape[1] : 1);
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        float x;
        memcpy(&half, l->file + e->offset + 2 * i, 2);
        if (e->dtype == TT_DTYPE_F32)
            memcpy(&x, l->file + e->offset + 4 * i, 4);
        else
            x = e->dtype == TT_DTYPE_F16 ? tt_f16_to_f32(half) : tt_bf16_to_f32(half);
        if (v[i] != x + add)
            fail_msg("%s[%u] is %g, the file has %g", name, (unsigned)i, (double)v[i], (double)x);
    }
}

static const char *in_layer(uint32_t l, const char *rest)
{
    static char name[128];
    snprintf(name, sizeof name, "layers.%u.%s", l, rest);
    return name;
}

static void same_layer(const loaded *l, uint32_t i)
{
    const tt_layer_weights *w = &l->w.layer[i];
    float add = tt_install_arch(l->in)->norm_offset ? 1 : 0;
    same_vector(l, w->norm_in, add, in_layer(i, "input_layernorm.weight"));
    same_vector(l, w->norm_post, add, in_layer(i, "post_attention_layernorm.weight"));
    if (w->kind == TT_LAYER_FULL) {
        same_mat(l, &w->attn.q, in_layer(i, "self_attn.q_proj.weight"));
        same_mat(l, &w->attn.k, in_layer(i, "self_attn.k_proj.weight"));
        same_mat(l, &w->attn.v, in_layer(i, "self_attn.v_proj.weight"));
        same_mat(l, &w->attn.o, in_layer(i, "self_attn.o_proj.weight"));
        same_vector(l, w->attn.q_norm, add, in_layer(i, "self_attn.q_norm.weight"));
        same_vector(l, w->attn.k_norm, add, in_layer(i, "self_attn.k_norm.weight"));
    } else {
        same_mat(l, &w->delta.qkv, in_layer(i, "linear_attn.in_proj_qkv.weight"));
        same_mat(l, &w->delta.z, in_layer(i, "linear_attn.in_proj_z.weight"));
        same_mat(l, &w->delta.b, in_layer(i, "linear_attn.in_proj_b.weight"));
        same_mat(l, &w->delta.a, in_layer(i, "linear_attn.in_proj_a.weight"));
        same_mat(l, &w->delta.out, in_layer(i, "linear_attn.out_proj.weight"));
        same_vector(l, w->delta.conv, 0, in_layer(i, "linear_attn.conv1d.weight"));
        same_vector(l, w->delta.A_log, 0, in_layer(i, "linear_attn.A_log"));
        same_vector(l, w->delta.dt_bias, 0, in_layer(i, "linear_attn.dt_bias"));
        same_vector(l, w->delta.norm, 0, in_layer(i, "linear_attn.norm.weight"));
    }
    bool moe = tt_arch_is_moe(tt_install_arch(l->in));
    same_mat(l, &w->mlp.gate,
             in_layer(i, moe ? "mlp.shared_expert.gate_proj.weight" : "mlp.gate_proj.weight"));
    same_mat(l, &w->mlp.up,
             in_layer(i, moe ? "mlp.shared_expert.up_proj.weight" : "mlp.up_proj.weight"));
    same_mat(l, &w->mlp.down,
             in_layer(i, moe ? "mlp.shared_expert.down_proj.weight" : "mlp.down_proj.weight"));
    if (!moe)
        return;
    same_mat(l, &w->router, in_layer(i, "mlp.gate.weight"));
    same_mat(l, &w->shared_gate, in_layer(i, "mlp.shared_expert_gate.weight"));
}

static void what_is_loaded_is_what_the_file_says(void **state)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        tiny_options o = {.arch = tiny_arch(seed), .seed = seed, .mixed = true};
        loaded l = {0};
        load(&l, &o, 1 + (unsigned)seed % 3);
        uint32_t seen[2] = {0, 0};
        same_mat(&l, &l.w.embed, "embed_tokens.weight");
        same_vector(&l, l.w.norm, o.arch.norm_offset ? 1 : 0, "norm.weight");
        if (o.arch.tied_head)
            assert_memory_equal(&l.w.head, &l.w.embed, sizeof l.w.head);
        else
            same_mat(&l, &l.w.head, "lm_head.weight");
        for (uint32_t i = 0; i < o.arch.n_layers; i++) {
            assert_int_equal(l.w.layer[i].kind, o.arch.layer_kind[i]);
            assert_int_equal(l.w.layer[i].kind_index, seen[l.w.layer[i].kind]++);
            same_layer(&l, i);
        }
        assert_int_equal(tt_weights_cost(l.in), l.w.payload_bytes + l.w.vectors_bytes +
                                                    o.arch.n_layers * sizeof(tt_layer_weights));
        unload(&l);
    }
}

typedef struct stopper {
    uint64_t calls, stop_at, last, total;
} stopper;

static bool count_calls(void *ctx, uint64_t done, uint64_t total)
{
    stopper *s = ctx;
    assert_true(done >= s->last && done <= total);
    s->last = done;
    s->total = total;
    return s->calls++ != s->stop_at;
}

static void loading_can_be_watched_and_stopped(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 0, 0);
    a.vocab_size = 700000; /* 96 MB at 16 bits: more than one round of pieces */
    a.tied_head = true;
    tiny_options o = {.arch = a, .mat = TT_DTYPE_BF16};
    const char *dir = tiny_install_new(&o);
    tt_install *in = NULL;
    tt_pool *pool = NULL;
    tt_weights w;
    tt_error err = {0};
    assert_int_equal(tt_install_open(dir, TT_INSTALL_NO_HASH, NULL, NULL, &in, &err), TT_OK);
    assert_int_equal(tt_pool_create(2, &pool, &err), TT_OK);
    stopper s = {.stop_at = UINT64_MAX};
    assert_int_equal(tt_weights_load(&w, in, pool, count_calls, &s, &err), TT_OK);
    assert_int_equal(s.last, s.total);
    assert_int_equal(s.total, w.payload_bytes);
    assert_true(s.calls >= 2);
    tt_weights_free(&w);
    for (uint64_t stop = 0; stop < s.calls; stop++) {
        stopper t = {.stop_at = stop};
        assert_int_equal(tt_weights_load(&w, in, pool, count_calls, &t, &err), TT_ERR_ABORTED);
        assert_null(w.payload);
        assert_null(w.layer);
    }
    /* the file shrinks, and goes away, between open and load */
    char path[700];
    snprintf(path, sizeof path, "%s/%s", dir, TT_WEIGHTS_NAME);
    assert_int_equal(truncate(path, 16384), 0);
    assert_int_equal(tt_weights_load(&w, in, pool, NULL, NULL, &err), TT_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "16384"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tt_weights_load(&w, in, pool, NULL, NULL, &err), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(err.file, TT_WEIGHTS_NAME));
    assert_null(w.payload);
    tt_weights_free(&w); /* again is fine */
    tt_pool_close(&pool);
    tt_install_close(&in);
    tiny_remove();
}

/* Where a file system has no other way than the page cache its pages are dropped again, so this
 * holds everywhere that can forget pages at all. */
static void loading_leaves_no_pages_behind(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 0, 0);
    a.vocab_size = 200000;
    tiny_options o = {.arch = a, .mat = TT_DTYPE_BF16};
    const char *dir = tiny_install_new(&o);
    tt_install *in = NULL;
    tt_pool *pool = NULL;
    tt_weights w;
    tt_error err = {0};
    char path[700];
    snprintf(path, sizeof path, "%s/%s", dir, TT_WEIGHTS_NAME);
    assert_int_equal(tt_install_open(dir, TT_INSTALL_NO_HASH, NULL, NULL, &in, &err), TT_OK);
    assert_int_equal(tt_pool_create(2, &pool, &err), TT_OK);
    uint64_t from = tt_install_index(in)->index_bytes,
             bytes = tt_install_index(in)->file_bytes - from;
    const uint64_t kept[] = {0, 5 * TT_MIB, bytes};
    for (unsigned i = 0; i < 3; i++) {
        if (!page_cache_drop(path)) {
            print_message("skip: the file system of the test keeps its pages\n");
            break;
        }
        if (kept[i] > 0)
            page_cache_load(path, from, kept[i]);
        /* The kernel may take a few pages at any time; nothing else may, and nobody adds any. */
        uint64_t before = page_cache_count(path, from, bytes), few = kept[i] / 8;
        assert_true(before <= kept[i] && before + few >= kept[i]);
        assert_int_equal(tt_weights_load(&w, in, pool, NULL, NULL, &err), TT_OK);
        uint64_t after = page_cache_count(path, from, bytes);
        assert_true(after <= before && after + few >= before);
        tt_weights_free(&w);
    }
    tt_pool_close(&pool);
    tt_install_close(&in);
    tiny_remove();
}

static int clean(void **state)
{
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_tensors_are_named),
        cmocka_unit_test(tensors_with_other_rows_are_named),
        cmocka_unit_test(tensors_of_another_rank_are_named),
        cmocka_unit_test(integers_are_named),
        cmocka_unit_test(turned_and_narrowed_tensors_are_named),
        cmocka_unit_test(extra_tensors_are_named),
        cmocka_unit_test(what_is_loaded_is_what_the_file_says),
        cmocka_unit_test(loading_can_be_watched_and_stopped),
        cmocka_unit_test(loading_leaves_no_pages_behind),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
