/* Proves that the options of the expert reader reach it, that plan and open say the same, that
 * every reader and a mirror give the same logits, and that losing the mirror fails no request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/mini_install.h"
#include "../support/page_cache.h"
#include "../support/tempdir.h"
#include "../support/tiny_model.h"
#include "base/file.h"
#include "base/rates_file.h"
#include "io/reader_probe.h"
#include "model/expert_reader.h"
#include "model/model.h"

static const char *install, *dense;
static char dir[512], mirror[600];

static int set_up(void **state)
{
    tiny_options o = {.arch = tiny_arch_plain("lf", 8, 2), .seed = 3, .mat = TT_DTYPE_Q8};
    (void)state;
    install = tiny_install_new(&o);
    o.arch = tiny_arch_plain("lf", 0, 0);
    dense = tiny_install_new(&o);
    tempdir_make(dir);
    snprintf(mirror, sizeof mirror, "%s/second.gturbo", dir);
    mini_copy(install, mirror);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_remove();
    tempdir_remove(dir);
    return 0;
}

static tt_model_options options(void)
{
    tt_model_options o;
    tt_model_options_default(&o);
    o.threads = 1;
    o.max_context = 128;
    o.expert_slots = 2;
    return o;
}

static void refused(const char *path, const tt_model_options *o, tt_status want, const char *word)
{
    tt_plan plan;
    tt_model *m = NULL;
    for (unsigned open = 0; open < 2; open++) {
        tt_error err = {0};
        tt_status st = open ? tt_model_open(path, o, NULL, NULL, &m, &err)
                            : tt_model_plan(path, o, &plan, &err);
        if (st != want || strstr(err.message, word) == NULL)
            fail_msg("wanted %s with \"%s\", got %s: %s", tt_status_name(want), word,
                     tt_status_name(st), err.message);
        assert_null(m);
    }
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    tt_model_options o = options();
    o.reader = "mmap";
    refused(install, &o, TT_ERR_INVALID, "mmap");
    o = options();
    o.io_depth = 257;
    refused(install, &o, TT_ERR_INVALID, "257");
    o = options();
    o.io_piece = 16384 + 1;
    refused(install, &o, TT_ERR_INVALID, "16385");
    o = options();
    o.expert_mirror = dense;
    refused(install, &o, TT_ERR_NOT_FOUND, "layer_00.bin");
    o.expert_mirror = install;
    refused(install, &o, TT_ERR_INVALID, "very file");
    o = options();
    o.expert_slots = 0;
    o.reader = "pool";
    refused(dense, &o, TT_ERR_INVALID, "dense");
    o.reader = NULL;
    o.expert_mirror = mirror;
    refused(dense, &o, TT_ERR_INVALID, "dense");
}

static void decode_some(tt_model *m, float *logits, uint32_t vocab)
{
    tt_session *s = NULL;
    uint32_t ids[40];
    tt_error err = {0};
    for (unsigned i = 0; i < 40; i++)
        ids[i] = i * 7 % vocab;
    assert_int_equal(tt_session_create(m, &s, NULL), TT_OK);
    if (tt_session_sync(s, ids, 40, NULL, NULL, &err) != TT_OK)
        fail_msg("%s: %s", err.file, err.message);
    for (unsigned i = 0; i < 20; i++)
        if (tt_session_decode(s, i * 11 % vocab, &err) != TT_OK)
            fail_msg("%s: %s", err.file, err.message);
    memcpy(logits, tt_session_logits(s), vocab * sizeof *logits);
    tt_session_close(&s);
}

static void forget_pages(const char *of)
{
    for (unsigned l = 0; l < 2; l++) {
        char path[700];
        snprintf(path, sizeof path, "%s/packed_experts/layer_%02u.bin", of, l);
        (void)page_cache_drop(path);
    }
}

static void every_reader_gives_the_same_logits(void **state)
{
    (void)state;
    static const char *const readers[] = {"buffered", "pool", "uring", "auto", NULL};
    float first[96], logits[96];
    for (unsigned i = 0; i < 10; i++) {
        tt_model_options o = options();
        tt_plan plan;
        tt_error err = {0};
        tt_model_stats stats;
        o.reader = readers[i / 2];
        o.io_depth = i % 2 ? 3 : 0;
        o.io_piece = i % 2 ? 16384 : 0;
        o.expert_mirror = i % 2 ? mirror : NULL;
        tt_status st = tt_model_plan(install, &o, &plan, &err);
        if (st == TT_ERR_UNSUPPORTED) {
            print_message("%s is not for here: %s\n", o.reader, err.message);
            continue;
        }
        assert_int_equal(st, TT_OK);
        forget_pages(install);
        forget_pages(mirror);
        tt_model *m = tiny_open(install, &o);
        const char *says = tt_model_get_plan(m)->reader;
        assert_string_equal(says, plan.reader);
        if (i / 2 < 3)
            assert_ptr_equal(strstr(says, readers[i / 2]), says);
        assert_non_null(strstr(says, i % 2 ? "16 KiB" : "512 KiB"));
        assert_int_equal(strstr(says, "second.gturbo") != NULL, i % 2);
        decode_some(m, i == 0 ? first : logits, 96);
        if (i > 0)
            assert_memory_equal(logits, first, sizeof first);
        tt_model_get_stats(m, &stats);
        assert_true(stats.expert_bytes_read > 0);
        assert_int_equal(stats.expert_bytes_disk + stats.expert_bytes_cached,
                         stats.expert_bytes_read);
        assert_int_equal(stats.expert_bytes_mirror > 0, i % 2 && stats.expert_bytes_disk > 0);
        assert_false(stats.expert_mirror_lost);
        tt_model_close(&m);
    }
}

static void losing_the_mirror_fails_no_request(void **state)
{
    (void)state;
    float first[96], logits[96];
    tt_model_options o = options();
    tt_model_stats stats;
    tt_model *m = tiny_open(install, &o);
    decode_some(m, first, 96);
    tt_model_close(&m);
    o.expert_mirror = mirror;
    m = tiny_open(install, &o);
    forget_pages(install);
    forget_pages(mirror);
    for (unsigned l = 0; l < 2; l++) {
        char path[700];
        snprintf(path, sizeof path, "%s/packed_experts/layer_%02u.bin", mirror, l);
        assert_int_equal(truncate(path, 0), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        decode_some(m, logits, 96);
        assert_memory_equal(logits, first, sizeof first);
    }
    tt_model_get_stats(m, &stats);
    if (stats.expert_bytes_disk > 0)
        assert_true(stats.expert_mirror_lost);
    tt_model_close(&m);
    /* At the next open it is refused by name. */
    refused(install, &o, TT_ERR_FORMAT, mirror);
}

/* A copy that goes bad under a model is told apart from the original, when reads are compared. */
static void a_bad_mirror_is_not_blamed_on_the_install(void **state)
{
    (void)state;
    tt_model_options o = options();
    tt_model_stats stats;
    tt_session *s = NULL;
    tt_error err = {0};
    o.expert_mirror = mirror;
    o.verify_reads = true;
    tt_model *m = tiny_open(install, &o);
    for (unsigned l = 0; l < 2; l++) {
        char path[700], junk[4096];
        struct stat sb;
        snprintf(path, sizeof path, "%s/packed_experts/layer_%02u.bin", mirror, l);
        memset(junk, 0x55, sizeof junk);
        FILE *f = fopen(path, "r+");
        assert_non_null(f);
        assert_int_equal(stat(path, &sb), 0);
        for (off_t at = 0; at < sb.st_size; at += (off_t)sizeof junk)
            assert_int_equal(fwrite(junk, 1, sizeof junk, f), sizeof junk);
        assert_int_equal(fclose(f), 0);
    }
    forget_pages(install);
    forget_pages(mirror);
    assert_int_equal(tt_session_create(m, &s, NULL), TT_OK);
    tt_status st = TT_OK;
    for (uint32_t i = 0; i < 60 && st == TT_OK; i++)
        st = tt_session_decode(s, i * 11 % 96, &err);
    tt_model_get_stats(m, &stats);
    if (stats.expert_bytes_mirror > 0) { /* a machine may keep pages that were to be dropped */
        assert_int_equal(st, TT_ERR_CORRUPT);
        assert_non_null(strstr(err.message, "expert mirror's copy"));
    }
    tt_session_close(&s);
    tt_model_close(&m);
}

/* Small installs are not probed, and what the caller set is not overruled. */
static void probes_know_their_place(void **state)
{
    (void)state;
    char file[600];
    tt_model_options o = options();
    tt_plan plan;
    snprintf(file, sizeof file, "%s/disks.json", dir);
    o.probe_file = file;
    assert_int_equal(tt_model_plan(install, &o, &plan, NULL), TT_OK);
    assert_null(strstr(plan.reader, "measured"));
    json_t *devices = tt_rates_load(file, "devices"); /* of memory there may be something */
    assert_int_equal(json_array_size(devices), 0);
    json_decref(devices);

    /* One whose files are large enough. */
    char large[700];
    snprintf(large, sizeof large, "%s/large.gturbo", dir);
    tiny_options to = {.arch = tiny_arch_plain("lf", 256, 2), .seed = 4, .mat = TT_DTYPE_Q8};
    to.arch.moe_intermediate = 704;
    to.coarse = true;
    tiny_install(&to, large);
    tt_model_options p = options();
    p.probe_file = file;
    assert_int_equal(tt_model_plan(large, &p, &plan, NULL), TT_OK);
    assert_true(2 * 256 * plan.expert_bytes >= TT_PROBE_MIN_BYTES);
    assert_non_null(strstr(plan.reader, "GB/s measured"));
    assert_null(strstr(plan.reader, ", cached"));
    assert_true(tt_file_exists(file));
    assert_int_equal(tt_model_plan(large, &p, &plan, NULL), TT_OK);
    assert_non_null(strstr(plan.reader, ", cached"));
    p.io_depth = 7;
    p.io_piece = 65536;
    assert_int_equal(tt_model_plan(large, &p, &plan, NULL), TT_OK);
    assert_null(strstr(plan.reader, "GB/s"));
    p.io_piece = 0;
    assert_int_equal(tt_model_plan(large, &p, &plan, NULL), TT_OK);
    assert_non_null(strstr(plan.reader, "GB/s"));
    assert_true(strstr(plan.reader, "depth 7") != NULL || strstr(plan.reader, "7 threads") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(options_out_of_range_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_reader_gives_the_same_logits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(losing_the_mirror_fails_no_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bad_mirror_is_not_blamed_on_the_install, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(probes_know_their_place, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
