/* Proves that the form of norm weights follows from conv1d and values, for real and made
 * checkpoints, and that contradictions are refused instead of shifted twice or never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "repack/checkpoint.h"
#include "repack/norms.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

static char dir[512];

static int setup(void **state)
{
    tempdir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static tt_status plan_dir(const char *from, tt_arch *arch, tt_error *err)
{
    tt_snapshot snap = {0};
    tt_repack_plan plan = {0};
    tt_policy policy = {0};
    TT_TRY(tt_snapshot_open(from, NULL, &snap, err));
    tt_status st =
        tt_repack_plan_create(snap.st, snap.config, "config.json", &policy, NULL, &plan, err);
    if (st == TT_OK)
        *arch = plan.arch;
    tt_repack_plan_free(&plan);
    tt_snapshot_close(&snap);
    return st;
}

static void real_checkpoints(void **state)
{
    tt_arch a = {0};
    tt_error err;
    assert_int_equal(plan_dir("models/tales", &a, &err), TT_OK);
    assert_true(a.norm_offset);
    assert_true(a.mtp_norm_offset);
    assert_int_equal(plan_dir("tests/vectors/moe-random", &a, &err), TT_OK);
    assert_true(a.norm_offset);
    assert_int_equal(plan_dir("tests/vectors/dense-random-tied", &a, &err), TT_OK);
    assert_true(a.norm_offset);
}

static void body_and_draft_are_judged_apart(void **state)
{
    for (int k = 0; k < 4; k++) {
        tt_arch a = {0};
        tt_error err;
        mini_options o = mini_default();
        o.mtp = true;
        o.converted = k & 1;
        o.mtp_converted = k & 2;
        mini_write(dir, &o);
        assert_int_equal(plan_dir(dir, &a, &err), TT_OK);
        assert_int_equal(a.norm_offset, !(k & 1));
        assert_int_equal(a.mtp_norm_offset, !(k & 2));
    }
}

/* Only the conv weights change form; or only the norms. */
static void flip_conv(void *ctx, mini_tensor *t)
{
    if (strstr(t->canonical, "conv1d") == NULL)
        return;
    uint64_t swap = t->shape[1];
    t->shape[1] = t->shape[2];
    t->shape[2] = swap;
}

static void contradictions_are_refused(void **state)
{
    tt_arch a = {0};
    tt_error err;
    mini_options o = mini_default();
    o.edit = flip_conv;
    mini_write(dir, &o);
    assert_int_equal(plan_dir(dir, &a, &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "already shifted by one, their values"));
    o.converted = true;
    mini_write(dir, &o);
    assert_int_equal(plan_dir(dir, &a, &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "stored as published (1 + w), their values"));
}

static tt_status decide(unsigned raw, unsigned shifted, double mean, double negative, double mtp,
                        tt_arch *a)
{
    tt_norm_evidence ev = {.conv_raw = raw,
                           .conv_shifted = shifted,
                           .body = {10000, (uint64_t)(10000 * negative), 10000 * mean},
                           .mtp = {mtp < 0 ? 10000 : 0, 5000, 0}};
    *a = (tt_arch){.n_mtp_layers = 1};
    return tt_norms_decide(&ev, "config.json", NULL, a, NULL);
}

static void the_table_of_decisions(void **state)
{
    static const struct {
        unsigned raw, shifted;
        double mean, negative;
        int want; /* 1 offset, 0 whole, -1 refused */
    } cases[] = {
        {6, 0, -0.6, 0.9, 1},  /* trained, raw */
        {0, 6, 0.37, 0, 0},    /* the same, shifted: factors well below one are no contradiction */
        {6, 0, 0.4, 0, 1},     /* raw, all positive */
        {6, 0, 0.9, 0.1, 1},   /* raw, with negative values: whatever the mean */
        {0, 6, 0.4, 0.1, -1},  /* negative factors in a converted file */
        {6, 0, 0.0, 0, 1},     /* raw, untrained: zeros */
        {0, 6, 1.0, 0, 0},     /* shifted, untrained: ones */
        {0, 6, 1.0, 0.001, 0}, /* a stray negative factor proves nothing */
        {6, 0, 1.0, 0, -1},    /* shifted norms beside raw conv weights */
        {0, 6, 0.0, 0.5, -1},  /* raw norms beside converted conv weights */
        {0, 6, 0.01, 0, -1},   {3, 3, 0.0, 0.5, -1}, /* half converted */
        {0, 0, 0.0, 0.5, 1},                         /* no linear layers: the values alone */
        {0, 0, 1.1, 0, 0},     {0, 0, 0.4, 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_arch a;
        tt_status st =
            decide(cases[i].raw, cases[i].shifted, cases[i].mean, cases[i].negative, 0, &a);
        assert_int_equal(st == TT_OK, cases[i].want >= 0);
        if (st != TT_OK)
            continue;
        assert_int_equal(a.norm_offset, cases[i].want);
        assert_int_equal(a.mtp_norm_offset, a.norm_offset); /* unclear: as the body */
    }
    tt_arch a;
    assert_int_equal(decide(0, 6, 1.0, 0, -1, &a), TT_OK);
    assert_false(a.norm_offset);
    assert_true(a.mtp_norm_offset);
}

static void equal_tensors(void **state)
{
    mini_options o = mini_default();
    tt_safetensors *st = NULL;
    bool same = false;
    mini_write(dir, &o);
    assert_int_equal(tt_safetensors_open_dir(dir, &st, NULL), TT_OK);
    const char *const stem = "model.language_model.layers.1.mlp.shared_expert.";
    char name[128];
    snprintf(name, sizeof name, "%sup_proj.weight", stem);
    const tt_st_tensor *up = tt_safetensors_find(st, name);
    snprintf(name, sizeof name, "%sgate_proj.weight", stem);
    const tt_st_tensor *gate = tt_safetensors_find(st, name);
    const tt_st_tensor *norm = tt_safetensors_find(st, "model.language_model.norm.weight");
    assert_int_equal(tt_tensors_equal(st, up, up, &same, NULL), TT_OK);
    assert_true(same);
    assert_int_equal(tt_tensors_equal(st, up, gate, &same, NULL), TT_OK);
    assert_false(same);
    same = true;
    assert_int_equal(tt_tensors_equal(st, up, norm, &same, NULL), TT_OK);
    assert_false(same);
    tt_safetensors_close(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_checkpoints),
        cmocka_unit_test_setup_teardown(body_and_draft_are_judged_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(contradictions_are_refused, setup, teardown),
        cmocka_unit_test(the_table_of_decisions),
        cmocka_unit_test_setup_teardown(equal_tensors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
