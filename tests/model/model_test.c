/* Proves that opening a model is all or nothing: wrong names, aborts at every call, files that
 * changed; nothing stays open or written; and that bytes of experts which are not those of the
 * install are seen when they are asked to be checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/tiny_model.h"
#include "format/install_layout.h"

static tt_model *const untouched = (tt_model *)16;

static const char *new_install(uint32_t experts)
{
    tiny_options o = {
        .arch = tiny_arch_plain("lf", experts, experts > 0 ? 3 : 0), .seed = 6, .mat = TT_DTYPE_Q8};
    return tiny_install_new(&o);
}

static unsigned open_files(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static unsigned threads_now(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/task");
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* Fails with `want` and words in its message, and nothing else happened. */
static void refused(const char *install, const tt_model_options *o, tt_status want,
                    const char *words)
{
    tt_model *m = untouched;
    tt_error err = {0};
    unsigned files = open_files(), threads = threads_now();
    tt_status st = tt_model_open(install, o, NULL, NULL, &m, &err);
    if (st != want || (strstr(err.message, words) == NULL && strstr(err.file, words) == NULL))
        fail_msg("wanted %s with \"%s\", got %s: %s: %s", tt_status_name(want), words,
                 tt_status_name(st), err.file, err.message);
    assert_ptr_equal(m, untouched);
    assert_int_equal(open_files(), files);
    assert_int_equal(threads_now(), threads);
}

static tt_model_options defaults(void)
{
    tt_model_options o;
    tt_model_options_default(&o);
    o.threads = 3;
    return o;
}

static void unknown_names_are_refused(void **state)
{
    const char *install = new_install(5);
    tt_model_options o = defaults();
    o.backend = "cuda";
    refused(install, &o, TT_ERR_UNSUPPORTED, "no backend 'cuda'; there are: cpu, ref");
    o.backend = "";
    refused(install, &o, TT_ERR_UNSUPPORTED, "no backend ''");
    o.backend = "CPU";
    refused(install, &o, TT_ERR_UNSUPPORTED, "'CPU'");
    o.backend = "cpu";
    o.cpu_level = "sse2";
    refused(install, &o, TT_ERR_UNSUPPORTED, "no CPU level 'sse2'; this machine has: ref");
    o.backend = "ref";
    o.cpu_level = "avx2";
    refused(install, &o, TT_ERR_UNSUPPORTED, "backend 'ref' has no level 'avx2'");
    static const char *const good[][3] = {{NULL, NULL, NULL},     {"cpu", "auto", NULL},
                                          {"cpu", "ref", "ref"},  {"ref", NULL, "ref"},
                                          {"ref", "auto", "ref"}, {"ref", "ref", "ref"}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        o.backend = good[i][0];
        o.cpu_level = good[i][1];
        tt_model *m = tiny_open(install, &o);
        const char *best = NULL;
        for (unsigned k = 0; tt_cpu_level_at(k) != NULL; k++)
            best = tt_cpu_level_at(k);
        assert_string_equal(m->be->level, good[i][2] != NULL ? good[i][2] : best);
        assert_string_equal(m->plan.cpu_level, m->be->level);
        assert_string_equal(m->plan.backend, good[i][0] != NULL ? good[i][0] : "cpu");
        tt_model_close(&m);
        assert_null(m);
    }
    tiny_remove();
}

typedef struct stopper {
    unsigned calls, stop_at;
} stopper;

static bool stop(void *ctx, uint64_t done, uint64_t total)
{
    stopper *s = ctx;
    assert_true(done <= total);
    return s->calls++ != s->stop_at;
}

static void forget_receipt(const char *install)
{
    char path[700];
    snprintf(path, sizeof path, "%s/" TT_RECEIPT_NAME, install);
    assert_int_equal(unlink(path), 0);
}

static void an_abort_at_every_call_leaves_nothing(void **state)
{
    for (int hashed = 0; hashed < 2; hashed++) {
        const char *install = new_install(5);
        tt_error err = {0};
        tt_model *m = NULL;
        if (hashed)
            forget_receipt(install);
        stopper all = {.stop_at = UINT32_MAX};
        assert_int_equal(tt_model_open(install, NULL, stop, &all, &m, &err), TT_OK);
        tt_model_close(&m);
        assert_true(all.calls >= (hashed ? 4u : 1u));
        unsigned files = open_files(), threads = threads_now();
        for (unsigned at = 0; at < all.calls; at++) {
            stopper s = {.stop_at = at};
            m = untouched;
            assert_int_equal(tt_model_open(install, NULL, stop, &s, &m, &err), TT_ERR_ABORTED);
            assert_ptr_equal(m, untouched);
            assert_int_equal(s.calls, at + 1);
            assert_int_equal(open_files(), files);
            assert_int_equal(threads_now(), threads);
        }
        tiny_remove();
    }
}

/* ---- files that are not what they were ---- */

/* Turns one bit; the time stays as it was when `quiet`. */
static void damage(const char *install, const char *rel, long offset, bool quiet)
{
    char path[700];
    struct stat sb;
    unsigned char c = 0;
    snprintf(path, sizeof path, "%s/%s", install, rel);
    assert_int_equal(stat(path, &sb), 0);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, offset), 1);
    c ^= 0x10;
    assert_int_equal(pwrite(fd, &c, 1, offset), 1);
    struct timespec times[2] = {sb.st_atim, sb.st_mtim};
    if (!quiet)
        times[1].tv_sec += 5;
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void damaged_files_are_refused(void **state)
{
    static const char *const files[] = {TT_WEIGHTS_NAME, "packed_experts/layer_01.bin",
                                        TT_CRC_NAME};
    tt_model_options o = defaults();
    for (int i = 0; i < 3; i++) {
        /* with a receipt, by the time of the file */
        const char *install = new_install(5);
        damage(install, files[i], 80, false);
        refused(install, &o, TT_ERR_RECEIPT, "--verify-install");
        tiny_remove();
        /* without one, by its digest */
        install = new_install(5);
        forget_receipt(install);
        damage(install, files[i], 80, true);
        refused(install, &o, TT_ERR_CORRUPT, files[i]);
        tiny_remove();
    }
    const char *install = new_install(5);
    char path[700];
    snprintf(path, sizeof path, "%s/packed_experts/layer_00.bin", install);
    assert_int_equal(unlink(path), 0);
    refused(install, &o, TT_ERR_NOT_FOUND, "layer_00.bin");
    tiny_remove();
    refused("/nowhere/at/all", &o, TT_ERR_NOT_FOUND, "/nowhere/at/all");
    refused("tests", &o, TT_ERR_NOT_FOUND, "is not an install");
}

static tt_status read_everything(tt_model *m, tt_error *err)
{
    tt_session *s = NULL;
    uint32_t ids[120];
    for (uint32_t i = 0; i < 120; i++)
        ids[i] = i * 31 % 96;
    assert_int_equal(tt_session_create(m, &s, err), TT_OK);
    tt_status st = tt_session_sync(s, ids, 120, NULL, NULL, err);
    tt_session_close(&s);
    return st;
}

/* An expert that went bad behind the receipt's back. */
static void bad_experts_are_seen_when_reads_are_checked(void **state)
{
    const char *install = new_install(5);
    tt_model_options o = defaults();
    tt_error err = {0};
    tt_model *m = tiny_open(install, &o);
    uint64_t stride = m->plan.expert_bytes;
    assert_int_equal(read_everything(m, &err), TT_OK);
    tt_model_close(&m);
    damage(install, "packed_experts/layer_01.bin", (long)(3 * stride + 77), true);
    m = tiny_open(install, &o); /* nobody asked */
    assert_int_equal(read_everything(m, &err), TT_OK);
    tt_model_close(&m);
    o.verify_reads = true;
    m = tiny_open(install, &o);
    assert_int_equal(read_everything(m, &err), TT_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "layer 1 expert 3"));
    assert_non_null(strstr(err.file, "layer_01.bin"));
    assert_int_equal(err.offset, (int64_t)(3 * stride));
    tt_model_close(&m);
    damage(install, "packed_experts/layer_01.bin", (long)(3 * stride + 77), true); /* and back */
    m = tiny_open(install, &o);
    assert_int_equal(read_everything(m, &err), TT_OK);
    tt_model_close(&m);
    tiny_remove();
}

static void the_key_says_what_a_snapshot_is_bound_to(void **state)
{
    const char *install = new_install(0);
    tt_model_options o = defaults();
    o.kv_bits = 16;
    o.cpu_level = "ref";
    o.yarn_factor = 2.5f;
    tt_model *m = tiny_open(install, &o);
    char want[200];
    snprintf(want, sizeof want, "manifest %s backend cpu level ref kv 16 yarn 2.5",
             tt_install_manifest_sha256(m->install));
    assert_string_equal(m->key, want);
    assert_true(m->load_seconds > 0);
    assert_null(m->cache);
    assert_null(m->reader);
    tt_model_close(&m);
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
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(an_abort_at_every_call_leaves_nothing),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(bad_experts_are_seen_when_reads_are_checked),
        cmocka_unit_test(the_key_says_what_a_snapshot_is_bound_to),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
