/* Proves that a disk is measured within bounds, that a choice is kept by device and believed only
 * after it was checked, and that a file which cannot be used costs nothing but a measurement. */
#include "../support/reader_laws.h"
#include <signal.h>
#include <sys/resource.h>

#include <sys/stat.h>

#include "base/file.h"
#include "io/reader_probe.h"

/* Sets the size that files of this process may grow to; a write beyond it fails as on a full disk
 * does. */
static void limit_files(rlim_t most)
{
    struct rlimit l;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = most < l.rlim_max ? most : l.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void slurp(const char *path, char out[8192])
{
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(tt_file_read(path, 8191, &text, &len, NULL), TT_OK);
    memcpy(out, text, len + 1);
    free(text);
}

static void spew(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void measuring_counts_what_it_reads(void **state)
{
    laws *f = *state;
    static const tt_reader_kind kinds[] = {TT_READER_AUTO, TT_READER_POOL, TT_READER_BUFFERED};
    const char *paths[LAWS_FILES] = {f->path[0], f->path[1], f->path[2]};
    for (unsigned i = 0; i < 3; i++) {
        tt_measure_options o = {.reader = {.kind = kinds[i], .depth = 4, .piece_bytes = 16384},
                                .read_bytes = 49152,
                                .seconds = 1000,
                                .max_bytes = 100 * 49152,
                                .seed = i};
        tt_measurement m;
        assert_int_equal(tt_reader_measure(paths, LAWS_FILES, &o, &m, NULL), TT_OK);
        assert_int_equal(m.bytes, 100 * 49152);
        assert_int_equal(m.reads, 100);
        assert_int_equal(m.stats.reads, 100);
        /* The page cache is left alone even where it could serve. */
        assert_int_equal(m.stats.bytes_disk, m.bytes);
        assert_int_equal(m.stats.bytes_cached, 0);
        assert_true(m.rate > 0);
        assert_non_null(strstr(m.describe, m.name));
        /* No time at all: what is in flight at once, and no more. */
        o.seconds = 0;
        assert_int_equal(tt_reader_measure(paths, LAWS_FILES, &o, &m, NULL), TT_OK);
        assert_in_range(m.reads, 1, 4);
    }
}

static void measuring_refuses_nonsense(void **state)
{
    laws *f = *state;
    tt_error err = {0};
    tt_measurement m;
    const char *paths[] = {f->path[0]}, *missing[] = {"/nonexistent/file"};
    tt_measure_options o = {.read_bytes = 5000};
    assert_int_equal(tt_reader_measure(paths, 1, &o, &m, &err), TT_ERR_INVALID);
    o.read_bytes = 0;
    assert_int_equal(tt_reader_measure(paths, 1, &o, &m, &err), TT_ERR_INVALID);
    o.read_bytes = LAWS_BYTES + 4096;
    assert_int_equal(tt_reader_measure(paths, 1, &o, &m, &err), TT_ERR_INVALID);
    o.read_bytes = 4096;
    assert_int_equal(tt_reader_measure(missing, 1, &o, &m, &err), TT_ERR_NOT_FOUND);
}

static void a_failing_disk_is_reported(void **state)
{
    laws *f = *state;
    tt_error err = {0};
    tt_measurement m;
    const char *paths[] = {f->path[0]};
    tt_measure_options o = {.reader = {.kind = TT_READER_POOL},
                            .read_bytes = 16384,
                            .seconds = 1000,
                            .max_bytes = 100 * 16384};
    kernel.fail_at = 50;
    assert_int_equal(tt_reader_measure(paths, 1, &o, &m, &err), TT_ERR_IO);
    assert_string_equal(err.file, f->path[0]);
}

typedef struct asked {
    const char *paths[LAWS_FILES];
    tt_probe_options o;
} asked;

static asked ask(const laws *f, const char *file)
{
    asked a = {.paths = {f->path[0], f->path[1], f->path[2]}};
    a.o = (tt_probe_options){
        .n = LAWS_FILES, .read_bytes = 49152, .seconds = 0.05, .cache_file = file};
    return a;
}

static tt_probe probe(asked *a)
{
    tt_probe p;
    tt_error err = {0};
    a->o.paths = a->paths;
    if (tt_reader_probe(&a->o, &p, &err) != TT_OK)
        fail_msg("%s", err.message);
    return p;
}

static void a_choice_is_kept_by_device(void **state)
{
    laws *f = *state;
    char file[700], text[80], json[8192];
    snprintf(file, sizeof file, "%s/deep/er/disks.json", f->dir);
    asked a = ask(f, file);
    tt_probe p = probe(&a);
    assert_true(p.probed && !p.cached);
    assert_true(p.rate > 0 && p.time > 0);
    assert_string_equal(p.note, "");
    tt_reader_options ro = {.depth = p.depth, .piece_bytes = p.piece_bytes};
    assert_true(p.depth > 0 && p.piece_bytes > 0);
    assert_int_equal(tt_reader_options_check(&ro, NULL), TT_OK);
    tt_probe_text(&p, text);
    assert_non_null(strstr(text, "measured"));
    assert_null(strstr(text, "cached"));

    kernel_reset();
    tt_probe q = probe(&a);
    assert_true(q.probed && q.cached);
    assert_int_equal(kernel.requests, 1); /* of the file of results; the disk was not asked */
    assert_int_equal(q.depth, p.depth);
    assert_int_equal(q.piece_bytes, p.piece_bytes);
    assert_int_equal(q.time, p.time);
    assert_string_equal(q.reader, p.reader);
    assert_string_equal(q.device, p.device);
    assert_true(q.rate > p.rate * 0.999 && q.rate < p.rate * 1.001);
    tt_probe_text(&q, text);
    assert_non_null(strstr(text, "cached"));

    /* Another kind of reader is another entry beside it. */
    a.o.kind = strcmp(p.reader, "pool") == 0 ? TT_READER_BUFFERED : TT_READER_POOL;
    q = probe(&a);
    assert_false(q.cached);
    assert_string_not_equal(q.reader, p.reader);
    q = probe(&a);
    assert_true(q.cached);
    a.o.kind = TT_READER_AUTO;
    assert_true(probe(&a).cached);
    slurp(file, json);
    assert_non_null(strstr(json, "\"pool\""));
    assert_non_null(strstr(json, p.device));
    /* Another device is not ours. */
    char *at = strstr(json, p.device);
    for (; at != NULL; at = strstr(at, p.device))
        *at = 'x';
    spew(file, json);
    assert_false(probe(&a).cached);
    slurp(file, json);
    assert_non_null(strstr(json, "\"x")); /* and stays */
}

static void damaged_files_are_measured_again(void **state)
{
    laws *f = *state;
    char file[700], good[64], json[8192];
    snprintf(file, sizeof file, "%s/disks.json", f->dir);
    asked a = ask(f, file);
    tt_probe p = probe(&a);
    slurp(file, json);
    snprintf(good, sizeof good, "\"depth\": %u", p.depth);
    char *at = strstr(json, good);
    assert_non_null(at);
    static const char *const depths[] = {"\"depth\": 0", "\"depth\":-1", "\"depty\": 8",
                                         "\"depth\":{}", "\"depth\": 9999"};
    for (unsigned i = 0; i < 5; i++) {
        char wrong[9000];
        snprintf(wrong, sizeof wrong, "%.*s%s%s", (int)(at - json), json, depths[i],
                 at + strlen(good));
        spew(file, wrong);
        p = probe(&a);
        assert_true(p.probed && !p.cached);
        assert_true(probe(&a).cached);
    }
    static const char *const texts[] = {
        "", "[]", "{", "{\"devices\": 3}", "{\"devices\": [1, {}]}", "\xff\xfe"};
    for (unsigned i = 0; i < 6; i++) {
        spew(file, texts[i]);
        assert_false(probe(&a).cached);
        assert_true(probe(&a).cached);
    }
}

/* No place to write to, a full disk, a folder in its place: it is measured, and the note says why
 * it will be again. */
static void a_file_that_cannot_be_kept(void **state)
{
    laws *f = *state;
    char file[700];
    snprintf(file, sizeof file, "%s/below/disks.json", f->path[0]);
    asked a = ask(f, file);
    tt_probe p = probe(&a);
    assert_true(p.probed && !p.cached);
    assert_true(p.note[0] != '\0');
    a = ask(f, f->dir);
    p = probe(&a);
    assert_true(p.probed && p.note[0] != '\0');
    limit_files(0); /* as on a full disk */
    snprintf(file, sizeof file, "%s/full.json", f->dir);
    a = ask(f, file);
    p = probe(&a);
    limit_files(RLIM_INFINITY);
    assert_true(p.probed && p.note[0] != '\0');
    assert_false(tt_file_exists(file));
    a = ask(f, NULL);
    p = probe(&a);
    assert_true(p.probed && !p.cached);
    assert_string_equal(p.note, "");
}

static void small_files_are_not_probed(void **state)
{
    laws *f = *state;
    char file[700];
    snprintf(file, sizeof file, "%s/disks.json", f->dir);
    asked a = ask(f, file);
    a.o.min_bytes = LAWS_FILES * LAWS_BYTES + 1;
    tt_probe p = probe(&a);
    assert_false(p.probed);
    assert_int_equal(p.depth, 0);
    assert_false(tt_file_exists(file));
    a.o.min_bytes--;
    assert_true(probe(&a).probed);
}

/* A measurement takes no more than it was given: without room for it there is none, and nothing is
 * kept; what is known already needs no room. */
static void measuring_keeps_to_its_memory(void **state)
{
    laws *f = *state;
    char file[700];
    snprintf(file, sizeof file, "%s/disks.json", f->dir);
    asked a = ask(f, file);
    uint64_t need = tt_probe_memory(a.o.read_bytes);
    assert_true(need >= 64 * (512 << 10)); /* the deepest candidate */
    assert_true(tt_probe_memory(64 * TT_MIB) <= TT_MEASURE_MEMORY + 2 * TT_MIB);
    a.o.memory = need - 1;
    tt_probe p = probe(&a);
    assert_false(p.probed);
    assert_non_null(strstr(p.note, "budget"));
    assert_false(tt_file_exists(file));
    a.o.memory = need;
    p = probe(&a);
    assert_true(p.probed && !p.cached);
    a.o.memory = 1;
    p = probe(&a);
    assert_true(p.probed && p.cached);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        LAWS_TEST(measuring_counts_what_it_reads),   LAWS_TEST(measuring_refuses_nonsense),
        LAWS_TEST(a_failing_disk_is_reported),       LAWS_TEST(a_choice_is_kept_by_device),
        LAWS_TEST(damaged_files_are_measured_again), LAWS_TEST(a_file_that_cannot_be_kept),
        LAWS_TEST(small_files_are_not_probed),       LAWS_TEST(measuring_keeps_to_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
