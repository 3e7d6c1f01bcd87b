/* Proves that the tightest memory limit wins: meminfo, cgroup v1 and v2, on the way up the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/machine.h"

static char root[256];

/* Writes a file below the made-up root, with its folders. */
static void put(const char *name, const char *text)
{
    char path[1024];
    int n = snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; p < path + n; p++) {
        if (*p == '/') {
            *p = '\0';
            assert_int_equal(tt_dir_make(path, NULL), TT_OK);
            *p = '/';
        }
    }
    assert_int_equal(tt_file_publish(path, text, strlen(text), NULL), TT_OK);
}

static int make_root(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/machine_test.XXXXXX", tmp ? tmp : "/tmp");
    if (mkdtemp(root) == NULL)
        return 1;
    put("proc/meminfo", "MemTotal:       24000000 kB\nMemFree:         1000 kB\n"
                        "MemAvailable:    8000000 kB\n");
    return 0;
}

static int remove_root(void **state)
{
    return tt_dir_remove(root, NULL) != TT_OK;
}

#define AVAILABLE (8000000ull * 1024)

static void without_limits_it_is_what_is_available(void **state)
{
    assert_int_equal(tt_machine_memory_available_at(root), AVAILABLE);
    assert_int_equal(tt_machine_memory_available_at("/no/such/root"), UINT64_MAX);
    put("proc/self/cgroup", "0::/user\n");
    put("sys/fs/cgroup/user/memory.max", "max\n");
    assert_int_equal(tt_machine_memory_available_at(root), AVAILABLE);
}

static void cgroup_v2_limits_count_on_the_way_up(void **state)
{
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "3000000000\n");
    put("sys/fs/cgroup/a/b/memory.current", "1000000000\n");
    put("sys/fs/cgroup/a/b/memory.stat", "anon 5\ninactive_file 400000000\nactive_file 9\n");
    assert_int_equal(tt_machine_memory_available_at(root), 2400000000u);
    /* The parent is tighter. */
    put("sys/fs/cgroup/a/memory.max", "2000000000\n");
    put("sys/fs/cgroup/a/memory.current", "1500000000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 500000000u);
    /* A container sees its own group at the mount. */
    put("sys/fs/cgroup/memory.max", "100000000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 100000000u);
    put("sys/fs/cgroup/memory.current", "200000000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 0);
}

static void cgroup_v1_limits_count(void **state)
{
    put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n1:name=systemd:/y\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
    put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "73741824\n");
    put("sys/fs/cgroup/memory/job/memory.stat", "cache 1\ntotal_inactive_file 1000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 1000001000u);
}

static void garbage_is_no_limit(void **state)
{
    put("proc/self/cgroup", "garbage\n::\n0\n:\n");
    assert_int_equal(tt_machine_memory_available_at(root), AVAILABLE);
    put("proc/self/cgroup", "0::/a\n");
    put("sys/fs/cgroup/a/memory.max", "lots\n");
    assert_int_equal(tt_machine_memory_available_at(root), AVAILABLE);
}

static void this_machine_answers(void **state)
{
    assert_true(tt_machine_memory_available() > 0);
    assert_true(tt_machine_peak_rss() > 100 * TT_KIB);
}

int main(void)
{
#define IN_ROOT(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        IN_ROOT(without_limits_it_is_what_is_available),
        IN_ROOT(cgroup_v2_limits_count_on_the_way_up),
        IN_ROOT(cgroup_v1_limits_count),
        IN_ROOT(garbage_is_no_limit),
        cmocka_unit_test(this_machine_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
