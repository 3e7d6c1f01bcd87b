/* Proves that the segments of a plan and its index regions and padding cover every byte of the
 * payload once, that every segment lies in one range, and that only the same cut has the same
 * fingerprint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "repack/checkpoint.h"
#include "repack/segments.h"
#include "support/mini_checkpoint.h"
#include "support/tempdir.h"

static char dir[512];
static tt_error err;

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

static void mark(unsigned char *bytes, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        bytes[at + i]++;
}

static void check(const tt_segments *s)
{
    uint64_t padding = 0;
    for (uint32_t f = 0; f < s->n_files; f++) {
        unsigned char *bytes = calloc(s->files[f].size, 1);
        if (s->files[f].index != NULL)
            mark(bytes, 0, s->files[f].index->index_bytes);
        for (size_t i = 0; i < s->count; i++) {
            const tt_segment *g = &s->items[i];
            if (g->file != f)
                continue;
            mark(bytes, g->at, g->bytes);
            mark(bytes, g->scales_at, g->sides);
            mark(bytes, g->biases_at, g->sides);
        }
        for (uint64_t i = 0; i < s->files[f].size; i++) {
            assert_true(bytes[i] <= 1);
            padding += bytes[i] == 0;
        }
        free(bytes);
    }
    assert_true(padding < (1 + MINI_EXPERTS) * s->n_files * 16384 + 64 * s->count);
    size_t next = 0;
    for (size_t r = 0; r < s->n_ranges; r++) {
        const tt_source_range *range = &s->ranges[r];
        assert_int_equal(range->first, next);
        next += range->count;
        for (size_t i = range->first; i < next; i++) {
            const tt_segment *g = &s->items[i];
            uint64_t each = tt_st_dtype_bytes(g->src->dtype);
            assert_int_equal(g->src->shard, range->shard);
            assert_true(g->src->offset + g->first * each >= range->begin);
            assert_true(g->src->offset + (g->first + g->count) * each <= range->end);
        }
    }
    assert_int_equal(next, s->count);
}

static void everything_once(void **state)
{
    static const uint64_t range_bytes[] = {0, 1, 1000, 100000};
    char seen[4][TT_SHA256_HEX];
    for (unsigned k = 0; k < 4; k++) {
        mini_options o = mini_default();
        tt_snapshot snap;
        tt_repack_plan plan;
        tt_segments s;
        tt_policy policy = {.build_bits = k == 3 ? 16 : 4};
        o.layout = (mini_layout)(k % 3);
        o.shards = 1 + k;
        o.mtp = true;
        o.vision = true;
        char sub[600];
        snprintf(sub, sizeof sub, "%s/%u", dir, k);
        assert_int_equal(tt_dir_make(sub, &err), TT_OK);
        mini_write(sub, &o);
        assert_int_equal(tt_snapshot_open(sub, NULL, &snap, &err), TT_OK);
        assert_int_equal(tt_repack_plan_create(snap.st, snap.config, snap.config_path, &policy,
                                               NULL, &plan, &err),
                         TT_OK);
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(tt_segments_create(snap.st, &plan, range_bytes[i], 0, &s, &err),
                             TT_OK);
            check(&s);
            strcpy(seen[i], s.fingerprint);
            tt_segments_free(&s);
            assert_int_equal(tt_segments_create(snap.st, &plan, range_bytes[i], 0, &s, &err),
                             TT_OK);
            assert_string_equal(seen[i], s.fingerprint);
            tt_segments_free(&s);
        }
        assert_string_not_equal(seen[0], seen[1]);
        assert_string_not_equal(seen[1], seen[2]);
        tt_repack_plan_free(&plan);
        tt_snapshot_close(&snap);
    }
}

/* What the converter could not hold is refused before anything is fetched. */
static void rows_too_long_for_a_chunk(void **state)
{
    mini_options o = mini_default();
    tt_snapshot snap;
    tt_repack_plan plan;
    tt_segments s = {0};
    tt_policy policy = {.build_bits = 4};
    mini_write(dir, &o);
    assert_int_equal(tt_snapshot_open(dir, NULL, &snap, &err), TT_OK);
    assert_int_equal(
        tt_repack_plan_create(snap.st, snap.config, snap.config_path, &policy, NULL, &plan, &err),
        TT_OK);
    assert_int_equal(tt_segments_create(snap.st, &plan, 0, 32 * 64 - 1, &s, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "has rows of 64 values, at most 63"));
    assert_int_equal(tt_segments_create(snap.st, &plan, 0, 32 * 128, &s, &err), TT_OK);
    for (size_t i = 0; i < s.count; i++)
        assert_true(s.items[i].count <= 32 * 128);
    tt_segments_free(&s);
    tt_repack_plan_free(&plan);
    tt_snapshot_close(&snap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_once, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_too_long_for_a_chunk, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
