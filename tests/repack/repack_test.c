/* Proves that a conversion leaves a verified install or nothing: all spellings of a checkpoint give
 * the same bytes, a conversion killed at any step leaves nothing that opens, and --overwrite never
 * loses what was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install.h"
#include "repack/target.h"
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

static void in_dir(char path[600], const char *name)
{
    snprintf(path, 600, "%s/%s", dir, name);
}

static tt_status opens(const char *path, tt_error *err)
{
    tt_install *in = NULL;
    tt_status st = tt_install_open(path, 0, NULL, NULL, &in, err);
    tt_install_close(&in);
    return st;
}

/* Names in the test directory that contain a text. */
static unsigned count_names(const char *with)
{
    unsigned n = 0;
    DIR *d = opendir(dir);
    struct dirent *e;
    while ((e = readdir(d)) != NULL)
        n += strstr(e->d_name, with) != NULL;
    closedir(d);
    return n;
}

static const char *const payload[] = {"model_weights.bin", "packed_experts/layer_00.bin",
                                      "packed_experts/layer_01.bin", "packed_experts/crc32c.bin"};

static void every_spelling_gives_the_same_bytes(void **state)
{
    for (unsigned bits = 4; bits <= 16; bits *= 2) {
        char first[600], next[600], name[32];
        mini_options o = mini_default();
        snprintf(name, sizeof name, "first-%u", bits);
        mini_install(dir, name, &o, bits, first);
        for (unsigned k = 1; k < 9; k++) {
            o.layout = (mini_layout)(k % 3);
            o.prefix = k / 3;
            o.shards = k;
            snprintf(name, sizeof name, "%u-%u", bits, k);
            mini_install(dir, name, &o, bits, next);
            for (size_t i = 0; i < sizeof payload / sizeof *payload; i++)
                assert_true(mini_same(first, next, payload[i]));
        }
    }
}

static void threads_and_chunks_do_not_change_a_byte(void **state)
{
    char source[600], first[600], other[600];
    mini_options o = mini_default();
    o.mtp = true;
    mini_install(dir, "first", &o, 4, first);
    in_dir(source, "source-first");
    const uint64_t chunks[] = {4096, 64 * 7 * 32, 65536}; /* at least a panel */
    for (unsigned k = 0; k < 3; k++) {
        char name[32];
        tt_error err = {0};
        snprintf(name, sizeof name, "other-%u", k);
        in_dir(other, name);
        tt_repack_options ro = {.input = source,
                                .output = other,
                                .model_id = "mini",
                                .threads = 1 + k,
                                .chunk_values = chunks[k]};
        ro.policy.build_bits = 4;
        assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_OK);
        for (size_t i = 0; i < sizeof payload / sizeof *payload; i++)
            assert_true(mini_same(first, other, payload[i]));
        assert_true(mini_same(first, other, "mtp_weights.bin"));
        assert_true(mini_same(first, other, "packed_experts/mtp_00.bin"));
        assert_true(mini_same(first, other, "manifest.json"));
    }
}

static tt_status no_text(void *ctx, const char *at, uint32_t vocab, bool *has_template,
                         tt_error *err)
{
    *(uint32_t *)ctx = vocab;
    *has_template = true;
    return tt_fail_at(err, TT_ERR_TEMPLATE, at, -1, "no");
}

static void text_is_judged_before_anything_is_written(void **state)
{
    char source[600], target[600];
    mini_options o = mini_default();
    uint32_t vocab = 0;
    in_dir(source, "source");
    in_dir(target, "target");
    assert_int_equal(tt_dir_make(source, NULL), TT_OK);
    mini_write(source, &o);
    tt_repack_options ro = {.input = source,
                            .output = target,
                            .check_text = no_text,
                            .check_ctx = &vocab,
                            .threads = 1};
    tt_error err = {0};
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_ERR_TEMPLATE);
    assert_string_equal(err.file, source);
    assert_int_equal(vocab, MINI_VOCAB);
    assert_int_equal(count_names("target"), 0);
    /* Where there is no tokenizer there is nothing to judge. */
    char file[700];
    snprintf(file, sizeof file, "%s/tokenizer.json", source);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_OK);
}

static void report_and_notes_tell_what_was_done(void **state)
{
    char source[600], target[600];
    mini_notes notes;
    tt_repack_events ev = mini_events(&notes);
    tt_repack_report r = {0};
    mini_options o = mini_default();
    o.vision = true;
    o.tokenizer = o.template = false;
    in_dir(source, "My model");
    in_dir(target, "t.gturbo/");
    assert_int_equal(tt_dir_make(source, NULL), TT_OK);
    mini_write(source, &o);
    tt_repack_options ro = {.input = source, .output = target, .threads = 1};
    tt_error err = {0};
    /* The directory's name is no model id. */
    assert_int_equal(tt_repack_run(&ro, &ev, &r, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "--model-id"));
    ro.model_id = "my/model:4";
    assert_int_equal(tt_repack_run(&ro, &ev, &r, &err), TT_OK);
    assert_string_equal(r.model_id, "my/model:4");
    assert_int_equal(r.vision_tensors, 1);
    assert_int_equal(r.experts, MINI_EXPERTS * MINI_LAYERS);
    assert_false(r.has_tokenizer);
    assert_non_null(strstr(notes.text, "warning: the checkpoint has no tokenizer.json"));
    assert_non_null(strstr(notes.text, "info: 1 vision tensors"));
    assert_int_equal(opens(target, &err), TT_OK);
    assert_int_equal(strcmp(r.path + strlen(r.path) - 9, "/t.gturbo"), 0);
}

typedef struct counted {
    uint64_t done, total;
} counted;

static bool count_up(void *ctx, uint64_t done, uint64_t total)
{
    counted *c = ctx;
    assert_true(done > c->done && done <= total);
    assert_true(c->total == 0 || c->total == total);
    *c = (counted){done, total};
    return true;
}

static void progress_ends_at_its_total(void **state)
{
    for (int k = 0; k < 4; k++) {
        char source[600], target[600];
        counted c = {0};
        tt_repack_events ev = {&c, count_up, NULL};
        mini_options o = mini_default();
        o.tokenizer = o.template = k & 1;
        o.dense = k & 2;
        o.mtp = true;
        snprintf(source, sizeof source, "%s/source-%d", dir, k);
        snprintf(target, sizeof target, "%s/t-%d", dir, k);
        assert_int_equal(tt_dir_make(source, NULL), TT_OK);
        mini_write(source, &o);
        tt_repack_options ro = {
            .input = source, .output = target, .model_id = "mini", .threads = 1};
        tt_repack_report r;
        assert_int_equal(tt_repack_run(&ro, &ev, &r, NULL), TT_OK);
        assert_int_equal(c.done, c.total);
        /* Everything but the manifest. */
        size_t manifest = 0;
        free(mini_slurp(target, "manifest.json", &manifest));
        assert_int_equal(c.total + manifest, r.bytes);
    }
}

static void what_stands_at_the_target_is_kept(void **state)
{
    char source[600], target[600], path[600];
    tt_error err = {0};
    mini_options o = mini_default();
    mini_install(dir, "t", &o, 4, target);
    in_dir(source, "source-t");
    assert_int_equal(mini_convert(source, target, 4, &err), TT_ERR_EXISTS);
    assert_non_null(strstr(err.message, "--overwrite"));
    assert_int_equal(opens(target, &err), TT_OK);
    /* Only installs are replaced, whatever the flags say. */
    tt_repack_options ro = {
        .input = source, .output = source, .model_id = "mini", .overwrite = true, .threads = 1};
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_ERR_EXISTS);
    in_dir(path, "file");
    mini_spew(dir, "file", "x", 1);
    ro.output = path;
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_ERR_EXISTS);
    in_dir(path, "link");
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_ERR_EXISTS);
    ro.output = "/";
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_ERR_INVALID);
    in_dir(path, "..");
    ro.output = path;
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_ERR_INVALID);
    in_dir(path, "nowhere/t");
    ro.output = path;
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_ERR_NOT_FOUND);
    assert_int_equal(count_names(".partial-"), 0);
}

static void overwrite_replaces(void **state)
{
    char source[600], target[600];
    tt_error err = {0};
    mini_options o = mini_default();
    mini_install(dir, "t", &o, 4, target);
    in_dir(source, "source-t");
    tt_repack_options ro = {
        .input = source, .output = target, .model_id = "other", .overwrite = true, .threads = 1};
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_OK);
    tt_install *in = NULL;
    assert_int_equal(tt_install_open(target, 0, NULL, NULL, &in, &err), TT_OK);
    assert_string_equal(tt_install_model_id(in), "other");
    assert_true(tt_install_has_receipt(in));
    tt_install_close(&in);
    assert_int_equal(count_names(".partial-"), 0);
}

/* ---- killed conversions ---- */

typedef struct killer {
    unsigned at, seen;
} killer;

static void count_step(killer *k)
{
    if (k->seen++ == k->at)
        kill(getpid(), SIGKILL);
}

static bool kill_in_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    count_step(ctx);
    return true;
}

static void kill_in_note(void *ctx, tt_note_kind kind, const char *text)
{
    (void)kind;
    (void)text;
    count_step(ctx);
}

/* Runs the conversion in a process that kills itself at the given step; true when it did. */
static bool run_killed(const tt_repack_options *o, unsigned at)
{
    killer k = {.at = at};
    tt_repack_events ev = {&k, kill_in_progress, kill_in_note};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(tt_repack_run(o, &ev, NULL, NULL) == TT_OK ? 0 : 1);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        return true;
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* No leftover of a killed conversion opens, in any way of opening. */
static void leftovers_do_not_open(void)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        char path[900];
        if (strstr(e->d_name, ".partial-") == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        assert_int_not_equal(opens(path, NULL), TT_OK);
    }
    closedir(d);
}

static void a_killed_conversion_leaves_nothing_that_opens(void **state)
{
    char source[600], target[600];
    mini_options o = mini_default();
    o.mtp = true;
    in_dir(source, "source");
    in_dir(target, "t");
    assert_int_equal(tt_dir_make(source, NULL), TT_OK);
    mini_write(source, &o);
    tt_repack_options ro = {.input = source, .output = target, .model_id = "mini", .threads = 1};
    unsigned step = 0;
    while (run_killed(&ro, step)) {
        assert_false(tt_dir_exists(target));
        leftovers_do_not_open();
        step++;
    }
    assert_true(step > 40); /* every tensor, every expert, every stage */
    assert_int_equal(opens(target, NULL), TT_OK);
    assert_int_equal(count_names(".partial-"), 0); /* the last run removed what the others left */
}

static void killed_while_overwriting_keeps_an_install(void **state)
{
    char source[600], target[600];
    mini_options o = mini_default();
    mini_install(dir, "t", &o, 4, target);
    in_dir(source, "source-t");
    tt_repack_options ro = {
        .input = source, .output = target, .model_id = "new", .overwrite = true, .threads = 1};
    for (unsigned step = 0; run_killed(&ro, step); step += 3) {
        tt_error err = {0};
        assert_int_equal(opens(target, &err), TT_OK);
        leftovers_do_not_open();
    }
    assert_int_equal(opens(target, NULL), TT_OK);
    assert_int_equal(count_names(".partial-"), 0);
}

typedef struct stopper {
    unsigned at, seen;
} stopper;

static bool stop_in_progress(void *ctx, uint64_t done, uint64_t total)
{
    stopper *s = ctx;
    return s->seen++ != s->at;
}

static void a_stopped_conversion_cleans_up(void **state)
{
    char source[600], target[600];
    mini_options o = mini_default();
    in_dir(source, "source");
    in_dir(target, "t");
    assert_int_equal(tt_dir_make(source, NULL), TT_OK);
    mini_write(source, &o);
    for (unsigned at = 0; at < 60; at += 7) {
        stopper s = {.at = at};
        tt_repack_events ev = {&s, stop_in_progress, NULL};
        tt_repack_options ro = {
            .input = source, .output = target, .model_id = "mini", .threads = 1};
        assert_int_equal(tt_repack_run(&ro, &ev, NULL, NULL), TT_ERR_ABORTED);
        assert_false(tt_dir_exists(target));
        assert_int_equal(count_names(".partial-"), 0);
    }
}

static void a_living_conversion_is_left_alone(void **state)
{
    char source[600], target[600], other[600];
    tt_error err = {0};
    mini_options o = mini_default();
    in_dir(target, "t");
    tt_target living = {.lock = -1};
    assert_int_equal(tt_target_init(&living, target, false, &err), TT_OK);
    assert_int_equal(tt_target_create(&living, NULL, &err), TT_OK);
    /* Another process converts to the same name meanwhile. */
    in_dir(source, "source");
    assert_int_equal(tt_dir_make(source, NULL), TT_OK);
    mini_write(source, &o);
    tt_repack_options ro = {.input = source, .output = target, .model_id = "mini", .threads = 1};
    assert_false(run_killed(&ro, UINT32_MAX));
    assert_true(tt_dir_exists(living.partial));
    strcpy(other, living.partial);
    /* The slower one finds the name taken and leaves nothing. */
    assert_int_not_equal(tt_target_publish(&living, &err), TT_OK);
    tt_target_drop(&living);
    assert_false(tt_dir_exists(other));
    assert_int_equal(opens(target, &err), TT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_spelling_gives_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_and_chunks_do_not_change_a_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(text_is_judged_before_anything_is_written, setup, teardown),
        cmocka_unit_test_setup_teardown(report_and_notes_tell_what_was_done, setup, teardown),
        cmocka_unit_test_setup_teardown(progress_ends_at_its_total, setup, teardown),
        cmocka_unit_test_setup_teardown(what_stands_at_the_target_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(overwrite_replaces, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_conversion_leaves_nothing_that_opens, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(killed_while_overwriting_keeps_an_install, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_conversion_cleans_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_living_conversion_is_left_alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
