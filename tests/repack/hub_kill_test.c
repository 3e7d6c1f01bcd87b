/* Proves that an installation from a hub that is killed at any moment, or that meets a full disk at
 * any write, is continued to the same bytes, and that no range that was finished is asked for
 * again.
 *
 * HUB_KILLS kills (10) and HUB_FULL full disks (40); HUB_SEED repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install.h"
#include "repack/checkpoint.h"
#include "repack/hub_install.h"
#include "repack/hub_state.h"
#include "repack/segments.h"
#include "support/mini_install.h"
#include "support/tempdir.h"
#include "support/test_hub.h"

#define REPO  "some-org/Some-Model"
#define RANGE 2048

/* ---- a disk that is full from some write on ---- */

static atomic_long writes, full_at; /* full_at 0: never */

static bool full(void)
{
    long n = atomic_fetch_add(&writes, 1) + 1, at = atomic_load(&full_at);
    if (at == 0 || n < at)
        return false;
    errno = ENOSPC;
    return true;
}

/* In place of the C library's, for the whole program. */
ssize_t pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    if (!full())
        return syscall(SYS_pwrite64, fd, buf, n, at);
    /* A full disk takes what still fits. */
    return n > 8 && atomic_load(&writes) == atomic_load(&full_at)
               ? syscall(SYS_pwrite64, fd, buf, n / 2, at)
               : -1;
}
int mkdir(const char *path, mode_t mode);
int mkdir(const char *path, mode_t mode)
{
    return full() ? -1 : (int)syscall(SYS_mkdirat, -100, path, mode);
}
int ftruncate(int fd, off_t size);
int ftruncate(int fd, off_t size)
{
    return full() ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
int fsync(int fd);
int fsync(int fd)
{
    return full() ? -1 : (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd);
int fdatasync(int fd)
{
    return full() ? -1 : (int)syscall(SYS_fdatasync, fd);
}

/* ---- the installation, here or in a process of its own ---- */

static long events_left; /* until this process ends itself; 0: never */
static long events_seen;

static void one_event(void)
{
    events_seen++;
    if (events_left > 0 && --events_left == 0)
        raise(SIGKILL);
}

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    one_event();
    return true;
}

static void on_note(void *ctx, tt_note_kind kind, const char *text)
{
    one_event();
}

static const tt_repack_events events = {NULL, on_progress, on_note};

static tt_hub_install_options options(const char *url, const char *target, bool resume)
{
    return (tt_hub_install_options){
        .repack = {.output = target, .model_id = "m", .threads = 1},
        .hub = {.endpoint = url, .repository = REPO, .revision = "main", .second_ms = 1},
        .range_bytes = RANGE,
        .resume = resume};
}

/* argv: child URL TARGET RESUME EVENTS */
static int child(char **argv)
{
    tt_hub_install_options o = options(argv[2], argv[3], argv[4][0] == '1');
    tt_error err = {0};
    events_left = atol(argv[5]);
    if (tt_hub_install(&o, &events, NULL, NULL, &err) == TT_OK)
        return 0;
    fprintf(stderr, "%s\n", err.message);
    return 1;
}

static char dir[512], source[600], local[600], target[600], partial[700];
static test_hub *hub;
static tt_error err;

static int setup(void **state)
{
    mini_options o = mini_default();
    tempdir_make(dir);
    snprintf(source, sizeof source, "%s/source", dir);
    snprintf(local, sizeof local, "%s/local.gturbo", dir);
    snprintf(target, sizeof target, "%s/t.gturbo", dir);
    snprintf(partial, sizeof partial, "%s/t.gturbo.partial", dir);
    o.shards = 3;
    o.mtp = true;
    if (tt_dir_make(source, NULL) != TT_OK)
        return 1;
    mini_write(source, &o);
    tt_repack_options ro = {.input = source, .output = local, .model_id = "m", .threads = 1};
    if (tt_repack_run(&ro, NULL, NULL, &err) != TT_OK)
        return 1;
    hub = test_hub_start(source, REPO);
    return 0;
}

static int teardown(void **state)
{
    test_hub_stop(&hub);
    tempdir_remove(dir);
    return 0;
}

static void must(tt_status st)
{
    if (st != TT_OK)
        fail_msg("%s", err.message);
}

static void is_the_same(void)
{
    tt_install *in = NULL;
    must(tt_install_open(target, 0, NULL, NULL, &in, &err));
    assert_true(tt_install_has_receipt(in));
    for (size_t i = 0; i < tt_install_file_count(in); i++)
        assert_true(mini_same(target, local, tt_install_file_at(in, i)->rel));
    tt_install_close(&in);
    assert_false(tt_dir_exists(partial));
}

/* ---- what was finished is not asked for again ---- */

typedef struct finished {
    tt_snapshot snap;
    tt_repack_plan plan;
    tt_segments seg;
    tt_hub_state state;
} finished;

/* The ranges that the journal calls done, as an installation cuts them. */
static void look(finished *f)
{
    static const tt_policy policy;
    char path[800], *bytes = NULL;
    size_t n = 0, good = 0;
    *f = (finished){0};
    tt_hub_state_init(&f->state);
    must(tt_snapshot_open(source, NULL, &f->snap, &err));
    must(tt_repack_plan_create(f->snap.st, f->snap.config, f->snap.config_path, &policy, NULL,
                               &f->plan, &err));
    must(tt_segments_create(f->snap.st, &f->plan, RANGE, 0, &f->seg, &err));
    snprintf(path, sizeof path, "%s/journal", partial);
    if (tt_file_read(path, 1 << 26, &bytes, &n, NULL) == TT_OK)
        must(tt_journal_parse(bytes, n, tt_hub_state_line, &f->state, &good, &err));
    free(bytes);
    if (f->state.n_ranges > 0)
        assert_string_equal(f->state.plan, f->seg.fingerprint);
}

static void forget(finished *f)
{
    tt_hub_state_free(&f->state);
    tt_segments_free(&f->seg);
    tt_repack_plan_free(&f->plan);
    tt_snapshot_close(&f->snap);
}

static void nothing_came_again(const finished *f, const char *after)
{
    for (size_t i = 0; i < f->state.n_ranges; i++) {
        const tt_source_range *r = &f->seg.ranges[i];
        const char *shard = strrchr(tt_safetensors_shard_path(f->snap.st, r->shard), '/') + 1;
        if (f->state.ranges[i][0] != '\0' &&
            test_hub_sent_within(hub, shard, r->begin, r->end) != 0)
            fail_msg("range %zu of %s was finished and was fetched again after %s", i, shard,
                     after);
    }
}

/* ---- kills ---- */

static uint64_t seed;
static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static _Atomic pid_t victim;
static _Atomic unsigned kill_at; /* requests from now, or 0 */

static void kill_at_request(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (kill_at == 0 || --kill_at > 0)
        return;
    /* Within the body, when there is one. */
    if (r->begin % 3 == 0)
        a->cut = a->length / 2;
    kill(victim, SIGKILL);
}

/* Runs an installation in a process of its own; true when it came to its end. */
static bool run_child(bool resume, long events_until, unsigned requests_until)
{
    char number[32], byte = 0;
    int status = 0, go[2];
    snprintf(number, sizeof number, "%ld", events_until);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char *args[] = {
            "hub_kill_test", "child", (char *)test_hub_url(hub), target, resume ? "1" : "0",
            number,          NULL};
        /* The fault must know whom to kill before the first request. */
        if (read(go[0], &byte, 1) == 1)
            execv("/proc/self/exe", args);
        _exit(99);
    }
    assert_true(pid > 0);
    victim = pid;
    kill_at = requests_until;
    assert_int_equal(write(go[1], &byte, 1), 1);
    close(go[0]);
    close(go[1]);
    assert_int_equal(TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)), pid);
    kill_at = 0;
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

static void kills(void **state)
{
    const char *rounds_text = getenv("HUB_KILLS"), *seed_text = getenv("HUB_SEED");
    unsigned rounds = rounds_text != NULL ? (unsigned)atoi(rounds_text) : 10, done = 0, killed = 0;
    seed = seed_text != NULL ? strtoull(seed_text, NULL, 10) : (uint64_t)getpid() * 2654435761u + 1;
    printf("HUB_SEED=%llu HUB_KILLS=%u\n", (unsigned long long)seed, rounds);
    /* How many moments there are. */
    test_hub_set_fault(hub, kill_at_request, NULL);
    unsigned before = test_hub_requests(hub);
    tt_hub_install_options o = options(test_hub_url(hub), target, false);
    must(tt_hub_install(&o, &events, NULL, NULL, &err));
    uint64_t requests = test_hub_requests(hub) - before, moments = (uint64_t)events_seen;
    is_the_same();
    must(tt_dir_remove(target, &err));
    while (killed < rounds) {
        finished f;
        bool resume = tt_dir_exists(partial);
        look(&f);
        test_hub_forget(hub);
        bool by_request = draw(2) == 0;
        bool whole = run_child(resume, by_request ? 0 : 1 + (long)draw(moments),
                               by_request ? 1 + (unsigned)draw(requests) : 0);
        nothing_came_again(&f, "a kill");
        forget(&f);
        if (whole) {
            is_the_same();
            must(tt_dir_remove(target, &err));
            done++;
        } else {
            killed++;
            tt_install *in = NULL;
            char inner[800];
            snprintf(inner, sizeof inner, "%s/install", partial);
            assert_int_not_equal(tt_install_open(inner, 0, NULL, NULL, &in, NULL), TT_OK);
        }
    }
    if (tt_dir_exists(partial)) {
        assert_true(run_child(true, 0, 0));
        is_the_same();
    }
    printf("%u kills, %u installations came to their end meanwhile\n", killed, done);
}

/* ---- full disks ---- */

static void full_disks(void **state)
{
    const char *text = getenv("HUB_FULL");
    long most = text != NULL ? atol(text) : 40;
    atomic_store(&writes, 0);
    tt_hub_install_options o = options(test_hub_url(hub), target, false);
    must(tt_hub_install(&o, &events, NULL, NULL, &err));
    long all = atomic_load(&writes), step = all / most > 0 ? all / most : 1;
    is_the_same();
    must(tt_dir_remove(target, &err));
    for (long at = 1; at <= all; at += step) {
        finished f;
        char what[600];
        o = options(test_hub_url(hub), target, false);
        atomic_store(&writes, 0);
        atomic_store(&full_at, at);
        tt_status st = tt_hub_install(&o, &events, NULL, NULL, &err);
        atomic_store(&full_at, 0);
        if (st == TT_OK) { /* fewer writes this time, or one whose failure does no harm */
            is_the_same();
            must(tt_dir_remove(target, &err));
            continue;
        }
        if (st != TT_ERR_NO_SPACE)
            fail_msg("write %ld of %ld: %d %s", at, all, st, err.message);
        if (tt_dir_exists(target)) { /* published, and what came after failed */
            must(tt_dir_remove(target, &err));
            must(tt_dir_remove(partial, &err));
            continue;
        }
        snprintf(what, sizeof what, "write %ld of %ld: %.400s", at, all, err.message);
        look(&f);
        test_hub_forget(hub);
        o = options(test_hub_url(hub), target, tt_dir_exists(partial));
        must(tt_hub_install(&o, &events, NULL, NULL, &err));
        nothing_came_again(&f, what);
        forget(&f);
        is_the_same();
        must(tt_dir_remove(target, &err));
    }
    printf("%ld writes, every %ldth failed once\n", all, step);
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "child") == 0)
        return child(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kills, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
