/* Proves that a want of memory is seen in PSI, in the room that limits leave and in their counters,
 * for cgroup v1 and v2, and that what is missing or history says nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../support/tempdir.h"
#include "base/limits.h"
#include "base/pressure.h"

static char root[512];

/* Writes a file below the root, making its directories. */
static void put(const char *rel, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", root, rel);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        mkdir(path, 0755);
        *p = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void drop(const char *rel)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", root, rel);
    assert_int_equal(remove(path), 0);
}

static int make_root(void **state)
{
    tempdir_make(root);
    put("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n");
    put("proc/pressure/memory", "some avg10=3.00 avg60=0.00 avg300=0.00 total=1\n"
                                "full avg10=0.50 avg60=0.00 avg300=0.00 total=1\n");
    return 0;
}

static int remove_root(void **state)
{
    tempdir_remove(root);
    return 0;
}

static tt_pressure *watch(uint64_t reserve)
{
    tt_pressure *p = NULL;
    const tt_pressure_options o = {.root = root, .reserve = reserve};
    assert_int_equal(tt_pressure_open(&o, &p, NULL), TT_OK);
    return p;
}

static void calm_machines_say_nothing(void **state)
{
    tt_pressure *p = watch(0);
    tt_pressure_report r;
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    assert_int_equal(r.left, 8000000 * TT_KIB);
    assert_int_equal(r.reserve, 8000000 * TT_KIB / 32);
    assert_true(r.full_avg10 == 0.5);
    assert_string_equal(r.cause, "");
    assert_int_equal(r.looks, 1);
    assert_int_equal(r.tight, 0);
    tt_pressure_close(&p);
    assert_null(p);
    tt_pressure_close(&p);
    tt_pressure_close(NULL);
}

static void nothing_to_read_is_no_pressure(void **state)
{
    tt_pressure *p = NULL;
    const tt_pressure_options o = {.root = "/nowhere", .reserve = TT_GIB};
    tt_pressure_report r;
    assert_int_equal(tt_pressure_open(&o, &p, NULL), TT_OK);
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    assert_true(r.left == UINT64_MAX);
    tt_pressure_close(&p);
}

static void too_little_room_is_tight(void **state)
{
    tt_pressure *p = watch(100 * TT_MIB);
    tt_pressure_report r;
    assert_int_equal(tt_pressure_poll(p, NULL), TT_PRESSURE_NONE);
    put("proc/meminfo", "MemAvailable: 102000 kB\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_TIGHT);
    assert_string_equal(r.cause, "reserve");
    assert_int_equal(r.tight, 1);
    put("proc/meminfo", "MemAvailable: 8000000 kB\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    assert_int_equal(r.looks, 3);
    tt_pressure_close(&p);
}

static void stalls_count_once_a_while(void **state)
{
    tt_pressure *p = watch(TT_MIB);
    tt_pressure_report r;
    put("proc/pressure/memory", "some avg10=90.00 total=1\nfull avg10=12.50 total=1\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_TIGHT);
    assert_string_equal(r.cause, "stalls");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    tt_pressure_close(&p);
    const tt_pressure_options o = {
        .root = root, .reserve = TT_MIB, .stall_percent = 12.5, .hold = 1e-9};
    assert_int_equal(tt_pressure_open(&o, &p, NULL), TT_OK);
    assert_int_equal(tt_pressure_poll(p, NULL), TT_PRESSURE_TIGHT);
    assert_int_equal(tt_pressure_poll(p, NULL), TT_PRESSURE_TIGHT);
    put("proc/pressure/memory", "some avg10=90.00 total=1\nfull avg10=12.49 total=1\n");
    assert_int_equal(tt_pressure_poll(p, NULL), TT_PRESSURE_NONE);
    put("proc/pressure/memory", "some avg10=0.00 total=1\nfull avg10=0.50 total=1\n");
    tt_pressure_close(&p);
}

static void polls_keep_to_the_interval(void **state)
{
    tt_pressure *p = NULL;
    const tt_pressure_options o = {.root = root, .reserve = 9000000 * TT_KIB, .interval = 1e6};
    tt_pressure_report r;
    assert_int_equal(tt_pressure_open(&o, &p, NULL), TT_OK);
    assert_int_equal(tt_pressure_poll(p, NULL), TT_PRESSURE_TIGHT);
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    assert_int_equal(r.looks, 1);
    assert_int_equal(r.level, TT_PRESSURE_TIGHT);
    tt_pressure_close(&p);
}

/* Counters from before do not count, nor do those of a parent's other children, nor hits that page
 * cache alone brought about. */
static void version_two_limits(void **state)
{
    tt_pressure_report r;
    put("proc/self/cgroup", "0::/slice/app\n");
    put("sys/fs/cgroup/slice/app/memory.max", "1000000000\n");
    put("sys/fs/cgroup/slice/app/memory.current", "990000000\n");
    put("sys/fs/cgroup/slice/app/memory.stat", "anon 5\ninactive_file 700000000\n");
    put("sys/fs/cgroup/slice/app/memory.events", "low 0\nhigh 2\nmax 7\noom 1\noom_kill 0\n");
    put("sys/fs/cgroup/slice/memory.events", "high 0\nmax 900\noom 0\n");
    put("sys/fs/cgroup/slice/app/memory.pressure", "some avg10=1.0\nfull avg10=3.25 total=1\n");
    tt_pressure *p = watch(400000000);
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    assert_int_equal(r.left, 710000000);
    assert_int_equal(r.limit_hits, 0);
    assert_true(r.full_avg10 == 3.25);
    put("sys/fs/cgroup/slice/memory.events", "high 0\nmax 950\noom 0\n");
    assert_int_equal(tt_pressure_poll(p, NULL), TT_PRESSURE_NONE);
    put("sys/fs/cgroup/slice/app/memory.events", "low 0\nhigh 2\nmax 8\noom 1\noom_kill 0\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_TIGHT);
    assert_string_equal(r.cause, "limit hit");
    assert_int_equal(r.limit_hits, 1);
    /* Local counts, where the kernel has them. */
    put("sys/fs/cgroup/slice/app/memory.events.local", "low 0\nhigh 2\nmax 8\noom 1\n");
    put("sys/fs/cgroup/slice/memory.events.local", "low 0\nhigh 3\nmax 0\noom 0\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_TIGHT);
    assert_int_equal(r.limit_hits, 4);
    put("sys/fs/cgroup/slice/app/memory.stat", "inactive_file 900000000\n");
    put("sys/fs/cgroup/slice/memory.events.local", "low 0\nhigh 4\nmax 0\noom 0\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    assert_int_equal(r.limit_hits, 5);
    tt_pressure_close(&p);
}

static void version_one_limits(void **state)
{
    tt_pressure_report r;
    put("proc/self/cgroup", "4:memory:/job\n0::/\n");
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000000\n");
    put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400000000\n");
    put("sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 100000000\n");
    put("sys/fs/cgroup/memory/job/memory.failcnt", "41\n");
    tt_pressure *p = watch(300000000);
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    assert_int_equal(r.left, 700000000);
    put("sys/fs/cgroup/memory/job/memory.failcnt", "43\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    assert_int_equal(r.limit_hits, 2);
    put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "550000000\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_NONE);
    put("sys/fs/cgroup/memory/job/memory.failcnt", "44\n");
    assert_int_equal(tt_pressure_poll(p, &r), TT_PRESSURE_TIGHT);
    assert_string_equal(r.cause, "limit hit");
    tt_pressure_close(&p);
    drop("proc/self/cgroup");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calm_machines_say_nothing),
        cmocka_unit_test(nothing_to_read_is_no_pressure),
        cmocka_unit_test(too_little_room_is_tight),
        cmocka_unit_test(stalls_count_once_a_while),
        cmocka_unit_test(polls_keep_to_the_interval),
        cmocka_unit_test(version_two_limits),
        cmocka_unit_test(version_one_limits),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
