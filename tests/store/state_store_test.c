/* Proves the directory of prompt state: what is read is what was written, after a restart, after a
 * death at any moment, after one byte changed anywhere, and after a disk that was full; the
 * directory is private, used by one process at a time, under its limit and swept at the start;
 * what cannot be read is dropped with all below it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/faulty_store.h"
#include "../support/tempdir.h"
#include "store/state_store.h"

#define KV     1000u
#define STATE  3000u
#define MOST   12u /* blocks of a line */
#define KEY    "state 1\nmodel m\nlevel a\n"
#define OTHER  "state 1\nmodel m\nlevel b\n"
#define ROOMY  TT_GIB
#define PROMPT (MOST * TT_BLOCK)

static char place[512]; /* of one test */
static faulty_store faults;
static uint8_t *payloads[64 * MOST * 2];
static size_t n_payloads;

static void free_payloads(void)
{
    while (n_payloads > 0)
        free(payloads[--n_payloads]);
}

static int set_up(void **state)
{
    (void)state;
    char base[512];
    tempdir_make(base);
    snprintf(place, sizeof place, "%.500s", base);
    chmod(place, 0700);
    faulty_store_clear(&faults);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tempdir_remove(place);
    free_payloads();
    return 0;
}

/* `io` NULL: the system's, without waiting for the disk. */
static tt_store *open_with(const char *key, uint64_t limit, const tt_store_io *io)
{
    static faulty_store none;
    static tt_store_io hasty;
    tt_store *s = NULL;
    tt_error err = {0};
    tt_store_options o = {.dir = place,
                          .key = key,
                          .limit = limit,
                          .kv_bytes = KV,
                          .state_bytes = STATE,
                          .max_blocks = 1000,
                          .kinds = TT_CHECKPOINTS,
                          .io = io != NULL ? io : &hasty};
    faulty_store_clear(&none);
    hasty = faulty_store_io(&none);
    if (tt_store_open(&o, &s, &err) != TT_OK)
        fail_msg("%s: %s", err.file, err.message);
    return s;
}

static tt_store *open_plain(void)
{
    return open_with(KEY, ROOMY, NULL);
}

static tt_store_stats stats_of(tt_store *s)
{
    tt_store_stats st;
    tt_store_get_stats(s, &st);
    return st;
}

/* "place/name", until the next call. */
static const char *path_of(const char *name)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/%.100s", place, name);
    return path;
}

/* ---- lines ---- */

/* Ids of line `i`: those of line 0 up to block i % MOST, then its own. */
static void ids_of(unsigned i, uint32_t ids[PROMPT])
{
    for (uint32_t t = 0; t < PROMPT; t++)
        ids[t] = t * 7 + (t / TT_BLOCK >= i % MOST ? i * 1000000 : 0);
}

/* What a block of this name holds: bytes that its name and part give. */
static void fill(const tt_digest *chain, tt_store_part part, uint8_t *out)
{
    uint64_t x = 0;
    memcpy(&x, chain->b, sizeof x);
    x += (uint64_t)part;
    for (size_t i = 0; i < (part == TT_STORE_KV ? KV : STATE); i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(x >> 56);
    }
}

static uint8_t *payload(const tt_digest *chain, tt_store_part part)
{
    uint8_t *p = malloc(part == TT_STORE_KV ? KV : STATE);
    assert_non_null(p);
    assert_true(n_payloads < sizeof payloads / sizeof payloads[0]);
    fill(chain, part, p);
    return payloads[n_payloads++] = p;
}

static uint8_t made_of(unsigned i, uint32_t block)
{
    return i % 5 == 4 && block == i % MOST ? 32 : TT_BLOCK;
}

/* Hands over `blocks` blocks of line i, with checkpoints after every `every`. */
static void leave(tt_store *s, unsigned i, uint32_t blocks, uint32_t every)
{
    uint32_t ids[PROMPT];
    tt_digest above = *tt_store_root(s), name;
    ids_of(i, ids);
    for (uint32_t b = 0; b < blocks; b++, above = name) {
        assert_int_equal(tt_store_chain(&above, ids + b * TT_BLOCK, made_of(i, b), &name, NULL),
                         TT_OK);
        if (!tt_store_has(s, &name, TT_STORE_KV) &&
            !tt_store_put_kv(s, &above, &name, made_of(i, b), payload(&name, TT_STORE_KV)))
            break;
        if ((b + 1) % every == 0 && !tt_store_has(s, &name, TT_STORE_STATE))
            (void)tt_store_put_state(s, &name, TT_CHECKPOINT_PROMPT,
                                     payload(&name, TT_STORE_STATE));
    }
    tt_store_handed_over(s);
}

/* Reads the longest prefix of line i; what comes is right, or it is a failure. Returns its tokens,
 * after as many tries as it takes. */
static uint32_t read_line(tt_store *s, unsigned i)
{
    uint32_t ids[PROMPT];
    ids_of(i, ids);
    tt_store_found f = tt_store_find(s, ids, PROMPT, PROMPT);
    for (; f.tokens > 0; f = tt_store_find_again(s, ids, PROMPT)) {
        uint8_t got[STATE], want[STATE];
        bool ok = tt_store_read(s, f.node, TT_STORE_STATE, got, NULL) == TT_OK;
        if (ok) {
            fill(&f.node->chain, TT_STORE_STATE, want);
            assert_memory_equal(got, want, STATE);
        }
        for (const tt_store_node *x = f.node; ok && x->tokens > 0; x = x->parent) {
            ok = tt_store_read(s, x, TT_STORE_KV, got, NULL) == TT_OK;
            if (!ok)
                break;
            fill(&x->chain, TT_STORE_KV, want);
            assert_memory_equal(got, want, KV);
        }
        if (ok)
            break;
    }
    return f.tokens;
}

/* ---- the directory itself ---- */

/* Every file of the directory by its name; returns how many. */
static size_t list(char names[][TT_STORE_NAME], size_t most)
{
    size_t n = 0;
    DIR *d = opendir(place);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (e->d_name[0] != '.') {
            assert_true(n < most);
            snprintf(names[n++], TT_STORE_NAME, "%.79s", e->d_name);
        }
    closedir(d);
    return n;
}

static uint64_t bytes_there(void)
{
    char names[512][TT_STORE_NAME];
    uint64_t sum = 0;
    for (size_t n = list(names, 512); n > 0; n--) {
        struct stat sb;
        assert_int_equal(stat(path_of(names[n - 1]), &sb), 0);
        assert_int_equal(sb.st_mode & 07777, 0600);
        sum += (uint64_t)sb.st_size;
    }
    return sum;
}

/* Of blocks and checkpoints there are as many files as are counted, and nothing half written. */
static void files_are_as_counted(tt_store *s)
{
    char names[512][TT_STORE_NAME];
    uint64_t files = 0;
    tt_store_stats st = stats_of(s);
    for (size_t n = list(names, 512); n > 0; n--) {
        assert_null(strstr(names[n - 1], ".tmp"));
        files += strlen(names[n - 1]) > 60;
    }
    assert_int_equal(files, st.blocks + st.checkpoints);
}

static void what_is_written_is_read_after_a_restart(void **state)
{
    (void)state;
    tt_store *s = open_with(KEY, ROOMY, &tt_store_system_io);
    assert_int_equal(read_line(s, 0), 0);
    leave(s, 0, 10, 5);
    leave(s, 3, 12, 12);
    leave(s, 4, 6, 6); /* a block that decode made half of */
    tt_store_wait(s);
    assert_int_equal(stats_of(s).bytes, bytes_there());
    for (int round = 0; round < 2; round++) {
        assert_int_equal(read_line(s, 0), 640);
        assert_int_equal(read_line(s, 3), PROMPT);
        assert_int_equal(read_line(s, 4), 384);
        assert_int_equal(read_line(s, 7), 320); /* as line 0 up to block 7: its checkpoint at 5 */
        assert_int_equal(read_line(s, 2), 0);   /* differs before the first checkpoint */
        assert_int_equal(stats_of(s).refused[TT_REFUSED_CORRUPT], 0);
        tt_store_close(&s);
        s = open_plain();
        assert_int_equal(stats_of(s).swept, 0);
    }
    tt_store_close(&s);
}

static void it_is_the_users_own(void **state)
{
    (void)state;
    char path[700], file[800];
    struct stat sb;
    tt_store *s = NULL;
    tt_error err = {0};
    tt_store_options o = {.dir = path, .key = KEY, .limit = ROOMY, .max_blocks = 9, .kinds = 9};
    o.kv_bytes = o.state_bytes = 1;
    /* made, with the folders above it */
    snprintf(path, sizeof path, "%s/a/b", place);
    assert_int_equal(tt_store_open(&o, &s, &err), TT_OK);
    tt_store_close(&s);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0700);
    /* closed to others who could read */
    chmod(path, 0755);
    assert_int_equal(tt_store_open(&o, &s, &err), TT_OK);
    tt_store_close(&s);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0700);
    /* not one that others could write to */
    static const mode_t open_to[] = {0720, 0702, 0777, 01777};
    for (size_t i = 0; i < sizeof open_to / sizeof open_to[0]; i++) {
        chmod(path, open_to[i]);
        assert_int_equal(tt_store_open(&o, &s, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, "others may write"));
        assert_int_equal(stat(path, &sb), 0);
        assert_int_equal(sb.st_mode & 07777, open_to[i]);
    }
    /* nor one with things in it that are not ours, whoever may read them: an index of theirs would
     * be taken for a damaged one of ours */
    chmod(path, 0755);
    tempdir_file(path, "notes", "x", 1, file);
    assert_int_equal(tt_store_open(&o, &s, &err), TT_OK); /* ours since before */
    tt_store_close(&s);
    char lock[720];
    snprintf(lock, sizeof lock, "%s/lock", path);
    tempdir_file(path, "index", "DIRC", 4, file);
    for (int turn = 0; turn < 4; turn++) {
        assert_int_equal(unlink(lock), 0);
        if (turn >= 2)
            tempdir_file(path, "lock", "x", 1, file); /* somebody's: ours is empty */
        chmod(path, turn % 2 == 0 ? 0755 : 0700);
        assert_int_equal(tt_store_open(&o, &s, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, "name an empty directory"));
        assert_int_equal(stat(path, &sb), 0);
        assert_int_equal(sb.st_mode & 07777, turn % 2 == 0 ? 0755 : 0700);
        snprintf(file, sizeof file, "%s/index", path);
        assert_int_equal(stat(file, &sb), 0);
        assert_int_equal(sb.st_size, 4);
        tempdir_file(path, "lock", "", 0, file);
    }
    assert_int_equal(tt_store_open(&o, &s, &err), TT_OK);
    tt_store_close(&s);
    /* nor another's */
    if (geteuid() == 0)
        assert_int_equal(chown(path, 12345, 12345), 0);
    else
        snprintf(path, sizeof path, "/");
    assert_int_equal(tt_store_open(&o, &s, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "belongs to user"));
    /* nor a file */
    snprintf(path, sizeof path, "%s/a/b/lock", place);
    assert_int_equal(tt_store_open(&o, &s, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "not a directory"));
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    tt_store *s = open_plain(), *second = NULL;
    tt_error err = {0};
    tt_store_options o = {.dir = place, .key = KEY, .limit = ROOMY, .max_blocks = 9, .kinds = 9};
    leave(s, 0, 4, 4);
    tt_store_wait(s);
    pid_t child = fork();
    if (child == 0) {
        tt_status st = tt_store_open(&o, &second, &err);
        _exit(st == TT_ERR_STATE && strstr(err.message, "another process") != NULL ? 0 : 1);
    }
    int rc = 0;
    assert_int_equal(waitpid(child, &rc, 0), child);
    assert_int_equal(rc, 0);
    /* it was left alone */
    assert_int_equal(read_line(s, 0), 256);
    tt_store_close(&s);
    s = open_plain();
    assert_int_equal(read_line(s, 0), 256);
    tt_store_close(&s);
}

static void what_no_index_names_is_swept(void **state)
{
    (void)state;
    char path[700];
    static const char *const swept[] = {
        "index.tmp", "0000000000000000000000000000000000000000000000000000000000000000.kv",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff.state",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff.state.tmp"};
    static const char *const kept[] = {
        "notes", "0000.kv", "index.old",
        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF.kv"};
    tempdir_file(place, "lock", "", 0, path); /* it was used before */
    for (size_t i = 0; i < 4; i++) {
        tempdir_file(place, swept[i], "x", 1, path);
        tempdir_file(place, kept[i], "x", 1, path);
    }
    tt_store *s = open_plain();
    assert_int_equal(stats_of(s).swept, 4);
    tt_store_close(&s);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(access(path_of(kept[i]), F_OK), 0);
        assert_int_not_equal(access(path_of(swept[i]), F_OK), 0);
    }
}

/* ---- keys ---- */

static void each_key_has_its_own(void **state)
{
    (void)state;
    tt_store *s = open_plain();
    leave(s, 0, 4, 4);
    tt_store_close(&s);
    s = open_with(OTHER, ROOMY, NULL);
    assert_string_equal(tt_store_other_key(s), "level a, not level b");
    assert_int_equal(read_line(s, 0), 0);
    assert_int_equal(tt_store_last_refusal(s), TT_REFUSED_KEY);
    assert_int_equal(stats_of(s).refused[TT_REFUSED_KEY], 1);
    leave(s, 1, 3, 3);
    tt_store_wait(s);
    assert_int_equal(read_line(s, 1), 192);
    assert_int_equal(stats_of(s).refused[TT_REFUSED_KEY], 1);
    tt_store_close(&s);
    s = open_plain();
    assert_string_equal(tt_store_other_key(s), "");
    assert_int_equal(read_line(s, 0), 256);
    assert_int_equal(read_line(s, 1), 64 * 0);
    tt_store_close(&s);
}

/* The 65th key takes the place of the one that nobody used for longest. */
static void keys_have_their_limit(void **state)
{
    (void)state;
    char key[32];
    for (unsigned k = 0; k <= TT_STORE_MAX_KEYS; k++) {
        snprintf(key, sizeof key, "state %u\n", k);
        tt_store *s = open_with(key, ROOMY, NULL);
        assert_int_equal(read_line(s, 0), 0);
        leave(s, 0, 2, 2);
        tt_store_close(&s);
    }
    for (unsigned k = TT_STORE_MAX_KEYS; k > 0; k--) {
        snprintf(key, sizeof key, "state %u\n", k);
        tt_store *s = open_with(key, ROOMY, NULL);
        assert_int_equal(read_line(s, 0), 128);
        tt_store_close(&s);
    }
    tt_store *s = open_with("state 0\n", ROOMY, NULL);
    assert_int_equal(read_line(s, 0), 0);
    tt_store_close(&s);
}

static void beyond_the_context_is_refused(void **state)
{
    (void)state;
    uint32_t ids[PROMPT];
    tt_store *s = open_plain();
    leave(s, 0, 10, 10);
    tt_store_wait(s);
    ids_of(0, ids);
    assert_int_equal(tt_store_find(s, ids, 512, 600).tokens, 0);
    assert_int_equal(tt_store_last_refusal(s), TT_REFUSED_CONTEXT);
    assert_int_equal(tt_store_find(s, ids, 512, 640).tokens, 0);
    assert_int_equal(tt_store_last_refusal(s), TT_REFUSED_NOTHING);
    assert_int_equal(tt_store_find(s, ids, 640, 640).tokens, 640);
    tt_store_close(&s);
}

/* ---- limits ---- */

static void it_stays_under_its_limit(void **state)
{
    (void)state;
    const uint64_t limit = 60000;
    tt_store *s = open_with(KEY, limit, NULL);
    for (unsigned i = 0; i < 40; i++) {
        leave(s, i, 4 + i % 8, 4);
        tt_store_wait(s);
        tt_store_stats st = stats_of(s);
        assert_true(st.bytes <= limit);
        assert_int_equal(st.bytes, bytes_there());
        (void)read_line(s, i);
        (void)read_line(s, 0);
    }
    assert_true(stats_of(s).evicted > 0);
    assert_true(read_line(s, 39) > 0);
    assert_true(read_line(s, 0) > 0); /* used again and again */
    tt_store_close(&s);
    /* a smaller one */
    s = open_with(KEY, limit / 3, NULL);
    assert_true(stats_of(s).bytes <= limit / 3);
    tt_store_close(&s);
    s = open_with(KEY, limit / 3, NULL);
    assert_true(bytes_there() <= limit / 3);
    assert_false(tt_store_fits(s, 100 * TT_BLOCK));
    tt_store_close(&s);
}

static void tables_have_their_limit(void **state)
{
    (void)state;
    tt_store *s = NULL;
    tt_store_options o = {.dir = place, .key = KEY, .limit = ROOMY, .kinds = TT_CHECKPOINTS};
    o.max_blocks = 30;
    o.kv_bytes = KV;
    o.state_bytes = STATE;
    assert_int_equal(tt_store_open(&o, &s, NULL), TT_OK);
    for (unsigned i = 0; i < 30; i++) {
        leave(s, i, MOST, 6);
        tt_store_wait(s);
        assert_true(stats_of(s).blocks <= 30);
        assert_int_equal(stats_of(s).bytes, bytes_there());
    }
    assert_true(stats_of(s).evicted > 0);
    tt_store_close(&s);
}

/* ---- what is damaged ---- */

static void write_three(void)
{
    tt_store *s = open_plain();
    leave(s, 0, 6, 3);
    leave(s, 4, 6, 6);
    leave(s, 11, 12, 12);
    tt_store_close(&s);
}

static void flip(const char *name, uint64_t at, uint8_t bits)
{
    uint8_t c;
    int fd = open(path_of(name), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, (off_t)at), 1);
    c ^= bits;
    assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
    close(fd);
}

/* Opens what is damaged: what is read is right, and what is read again comes from nothing that
 * failed. Then the same is left anew. */
static uint32_t look_and_mend(void)
{
    tt_store *s = open_plain();
    uint32_t sum = 0;
    for (unsigned i = 0; i < 12; i++)
        sum += read_line(s, i);
    uint64_t failed = stats_of(s).refused[TT_REFUSED_CORRUPT];
    for (unsigned i = 0; i < 12; i++)
        sum -= read_line(s, i);
    assert_int_equal(sum, 0);
    assert_int_equal(stats_of(s).refused[TT_REFUSED_CORRUPT], failed);
    leave(s, 0, 6, 3);
    leave(s, 4, 6, 6);
    leave(s, 11, 12, 12);
    tt_store_wait(s);
    assert_int_equal(read_line(s, 0), 384);
    assert_int_equal(read_line(s, 4), 384);
    assert_int_equal(read_line(s, 11), PROMPT);
    tt_store_close(&s);
    free_payloads();
    return (uint32_t)failed;
}

/* Some bytes of every file; all bytes of heads and of an index are in store_format_test.c. */
static void one_byte_anywhere(void **state)
{
    (void)state;
    static char names[256][TT_STORE_NAME];
    uint64_t seed = 42;
    unsigned flips = 0;
    write_three();
    size_t n = list(names, 256);
    for (size_t f = 0; f < n; f++) {
        struct stat sb;
        bool index = strcmp(names[f], "index") == 0;
        assert_int_equal(stat(path_of(names[f]), &sb), 0);
        unsigned step = index ? 61 : 389;
        for (uint64_t at = f % 128; at < (uint64_t)sb.st_size; at += step, flips++) {
            seed = seed * 6364136223846793005u + 1;
            flip(names[f], at, (uint8_t)(1u << (seed >> 61)));
            uint32_t failed = look_and_mend();
            /* the lock is empty; everything else is under a sum */
            assert_int_equal(failed, 1);
            assert_int_equal(access(path_of(names[f]), F_OK), 0);
        }
    }
    print_message("  %u bytes of %zu files\n", flips, n);
    assert_true(flips > 100);
}

static void files_that_are_short_long_or_gone(void **state)
{
    (void)state;
    static char names[256][TT_STORE_NAME];
    write_three();
    size_t n = list(names, 256);
    for (size_t f = 0; f < n; f++) {
        if (strlen(names[f]) < 60)
            continue;
        const char *path = path_of(names[f]);
        assert_int_equal(truncate(path, 100), 0);
        (void)look_and_mend();
        assert_int_equal(truncate(path, 5000), 0);
        (void)look_and_mend();
        assert_int_equal(unlink(path), 0);
        (void)look_and_mend();
        assert_int_equal(unlink(path_of(names[f])), 0);
        assert_int_equal(symlink("/etc/passwd", path), 0);
        (void)look_and_mend();
    }
}

/* One block in the place of another of the same size, sum and all. */
static void blocks_that_changed_places(void **state)
{
    (void)state;
    static char names[256][TT_STORE_NAME];
    write_three();
    size_t n = list(names, 256);
    const char *kv[2] = {NULL, NULL};
    for (size_t f = 0; f < n; f++)
        if (strlen(names[f]) == 67) {
            kv[1] = kv[0];
            kv[0] = names[f];
        }
    assert_non_null(kv[1]);
    char a[700], b[700], c[700];
    snprintf(a, sizeof a, "%s", path_of(kv[0]));
    snprintf(b, sizeof b, "%s", path_of(kv[1]));
    snprintf(c, sizeof c, "%s", path_of("between"));
    assert_int_equal(rename(a, c), 0);
    assert_int_equal(rename(b, a), 0);
    assert_int_equal(rename(c, b), 0);
    assert_true(look_and_mend() > 0);
}

static void reads_that_fail(void **state)
{
    (void)state;
    tt_store_io io = faulty_store_io(&faults);
    write_three();
    for (int call = FAULTY_OPEN; call <= FAULTY_READ; call++)
        for (unsigned at = 1; at < 12; at++) {
            faulty_store_clear(&faults);
            tt_store *s = open_with(KEY, ROOMY, &io);
            faults.fail[call] = faults.made[call] + at;
            for (unsigned i = 0; i < 12; i++)
                (void)read_line(s, i);
            assert_int_equal(stats_of(s).refused[TT_REFUSED_IO], 1);
            tt_store_close(&s);
            (void)look_and_mend();
        }
    for (unsigned at = 1; at < 12; at++) {
        faulty_store_clear(&faults);
        tt_store *s = open_with(KEY, ROOMY, &io);
        faults.corrupt = faults.made[FAULTY_READ] + 1 + 3 * at;
        for (unsigned i = 0; i < 12; i++)
            (void)read_line(s, i);
        tt_store_close(&s);
        (void)look_and_mend();
    }
}

/* ---- what is not written ---- */

static void calls_that_fail(void **state)
{
    (void)state;
    tt_store_io io = faulty_store_io(&faults);
    static const int calls[] = {FAULTY_CREATE, FAULTY_WRITE, FAULTY_SYNC, FAULTY_RENAME};
    for (size_t c = 0; c < 4; c++)
        for (unsigned at = 1; at < 40; at += 1 + at / 6) {
            faulty_store_clear(&faults);
            tt_store *s = open_with(KEY, ROOMY, &io);
            faults.fail[calls[c]] = faults.made[calls[c]] + at;
            leave(s, at, 8, 4);
            leave(s, at + 1, 12, 6);
            tt_store_wait(s);
            for (unsigned i = 0; i < 12; i++)
                (void)read_line(s, i);
            files_are_as_counted(s);
            tt_store_close(&s);
            s = open_plain();
            (void)read_line(s, at);
            leave(s, at, 8, 4);
            tt_store_wait(s);
            assert_true(read_line(s, at) >= 512);
            tt_store_close(&s);
            tempdir_remove(place);
            assert_int_equal(mkdir(place, 0700), 0);
            free_payloads();
        }
}

static void a_disk_that_is_full(void **state)
{
    (void)state;
    tt_store_io io = faulty_store_io(&faults);
    for (long long space = 0; space < 22000; space += 531) {
        faulty_store_clear(&faults);
        faults.space = space;
        tt_store *s = open_with(KEY, ROOMY, &io);
        leave(s, 0, 8, 4);
        tt_store_wait(s);
        uint32_t had = read_line(s, 0);
        assert_true(had == 0 || had == 256 || had == 512);
        assert_true(had == 512 || stats_of(s).refused[TT_REFUSED_IO] > 0);
        assert_true(had == 512 || stats_of(s).dropped > 0 || faults.space == 0);
        files_are_as_counted(s);
        /* room again: the same process goes on */
        faults.space = -1;
        leave(s, 0, 8, 4);
        tt_store_wait(s);
        assert_int_equal(read_line(s, 0), 512);
        tt_store_close(&s);
        s = open_plain();
        assert_int_equal(read_line(s, 0), 512);
        tt_store_close(&s);
        tempdir_remove(place);
        assert_int_equal(mkdir(place, 0700), 0);
        free_payloads();
    }
}

static void calls_that_do_half(void **state)
{
    (void)state;
    tt_store_io io = faulty_store_io(&faults);
    faults.piecewise = true;
    tt_store *s = open_with(KEY, ROOMY, &io);
    leave(s, 0, 8, 4);
    tt_store_wait(s);
    assert_int_equal(read_line(s, 0), 512);
    tt_store_close(&s);
    s = open_with(KEY, ROOMY, &io);
    assert_int_equal(read_line(s, 0), 512);
    assert_int_equal(stats_of(s).refused[TT_REFUSED_IO], 0);
    tt_store_close(&s);
}

/* What was withdrawn is not looked at any more, whatever stage it was in. */
static void what_is_withdrawn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        tt_store *s = open_plain();
        if (i % 2 == 1)
            tt_store_hold(s);
        size_t first = n_payloads;
        leave(s, i, 10, 5);
        /* the last of the line, then what is left of it */
        for (size_t k = n_payloads; k > first + i % 7; k--) {
            tt_store_withdraw(s, payloads[k - 1]);
            memset(payloads[k - 1], 0xA5, KV);
        }
        tt_store_close(&s);
        s = open_plain();
        (void)read_line(s, i);
        tt_store_close(&s);
        free_payloads();
    }
}

/* While a request reads experts nothing is written; closing writes all the same. */
static void a_request_that_reads_goes_first(void **state)
{
    (void)state;
    tt_store_io io = faulty_store_io(&faults);
    tt_store *s = open_with(KEY, ROOMY, &io);
    tt_store_hold(s);
    leave(s, 0, 8, 8);
    for (int i = 0; i < 200; i++) {
        tt_store_hold(s);
        assert_int_equal(faults.made[FAULTY_CREATE], 0);
        assert_int_equal(stats_of(s).waiting, 9);
    }
    tt_store_close(&s);
    s = open_plain();
    assert_int_equal(read_line(s, 0), 512);
    tt_store_hold(s);
    leave(s, 1, 8, 8);
    tt_store_wait(s); /* it ends by itself */
    assert_int_equal(read_line(s, 1), 512);
    tt_store_close(&s);
}

/* However large a checkpoint is, and whatever waits: one file at a time, synced on the way. */
static void little_is_outstanding(void **state)
{
    (void)state;
    const size_t n = 90 * TT_MIB;
    tt_store_io io = faulty_store_io(&faults);
    uint8_t *big = calloc(1, n), head[TT_STORE_HEAD] = {0};
    int dir = open(place, O_RDONLY | O_DIRECTORY);
    assert_true(dir >= 0 && big != NULL);
    tt_status st =
        tt_store_file_write(&io, dir, "big", head, sizeof head, big, n, NULL, NULL, NULL);
    assert_int_equal(st, TT_OK);
    assert_true(faults.most_unsynced <= 64 * TT_MIB);
    assert_int_equal(faults.unsynced, 0);
    assert_int_equal(unlinkat(dir, "big", 0), 0);
    close(dir);
    free(big);
    faulty_store_clear(&faults);
    tt_store *s = open_with(KEY, ROOMY, &io);
    for (unsigned i = 0; i < 20; i++)
        leave(s, i, MOST, 3);
    tt_store_wait(s);
    assert_true(stats_of(s).writes > 100);
    assert_true(faults.most_unsynced <= stats_of(s).index_written + STATE + TT_STORE_HEAD);
    tt_store_close(&s);
}

/* ---- death ---- */

/* Writes lines for ever, until the call that it dies in. */
static void write_until_death(unsigned seed, unsigned long long call)
{
    tt_store_io io = faulty_store_io(&faults);
    faults.die = call;
    tt_store *s = open_with(KEY, 90000, &io);
    for (unsigned i = seed;; i += 7) {
        leave(s, i % 60, 12, 3);
        (void)read_line(s, (i * 5) % 60);
        tt_store_wait(s);
        free_payloads();
    }
}

/* In a call that the seed says, and half way through it where it writes. */
static void killed_at_any_moment(void **state)
{
    (void)state;
    const char *times = getenv("STATE_KILLS");
    unsigned kills = times != NULL ? (unsigned)atoi(times) : 20;
    uint64_t found = 0, swept = 0, seed = 7;
    for (unsigned k = 0; k < kills; k++) {
        int rc = 0;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        pid_t child = fork();
        if (child == 0)
            write_until_death(k, 1 + (seed >> 40) % 700);
        assert_int_equal(waitpid(child, &rc, 0), child);
        assert_true(WIFSIGNALED(rc) && WTERMSIG(rc) == SIGKILL);
        tt_store *s = open_with(KEY, 90000, NULL);
        assert_int_equal(stats_of(s).refused[TT_REFUSED_CORRUPT], 0);
        files_are_as_counted(s);
        assert_true(stats_of(s).bytes <= 90000);
        swept += stats_of(s).swept;
        for (unsigned i = 0; i < 60; i++)
            found += read_line(s, i);
        assert_int_equal(stats_of(s).refused[TT_REFUSED_CORRUPT], 0);
        tt_store_close(&s);
    }
    print_message("  %u deaths: %llu tokens found, %llu files swept\n", kills,
                  (unsigned long long)found, (unsigned long long)swept);
    assert_true(found > 0 && swept > 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read_after_a_restart),
        TEST(it_is_the_users_own),
        TEST(one_process_at_a_time),
        TEST(what_no_index_names_is_swept),
        TEST(each_key_has_its_own),
        TEST(keys_have_their_limit),
        TEST(beyond_the_context_is_refused),
        TEST(it_stays_under_its_limit),
        TEST(tables_have_their_limit),
        TEST(one_byte_anywhere),
        TEST(files_that_are_short_long_or_gone),
        TEST(blocks_that_changed_places),
        TEST(reads_that_fail),
        TEST(calls_that_fail),
        TEST(a_disk_that_is_full),
        TEST(calls_that_do_half),
        TEST(what_is_withdrawn),
        TEST(a_request_that_reads_goes_first),
        TEST(little_is_outstanding),
        TEST(killed_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
