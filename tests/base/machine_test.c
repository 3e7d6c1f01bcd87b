/* Proves that the tightest of MemAvailable and the cgroup limits is found, for cgroup v1 and v2,
 * nested and absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/machine.h"

static char root[256];

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

static int setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/tt-machine-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(root) == NULL)
        return -1;
    put("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:    8000 kB\n");
    return 0;
}

static int teardown(void **state)
{
    return tt_dir_remove(root, NULL) == TT_OK ? 0 : -1;
}

static void without_cgroups(void **state)
{
    assert_int_equal(tt_machine_memory_available_at(root), 8000 * 1024);
    assert_int_equal(tt_machine_memory_available_at("/nowhere"), UINT64_MAX);
}

static void version_two_takes_the_tightest_parent(void **state)
{
    put("proc/self/cgroup", "0::/user.slice/app\n");
    put("sys/fs/cgroup/user.slice/app/memory.max", "max\n");
    put("sys/fs/cgroup/user.slice/memory.max", "4096000\n");
    put("sys/fs/cgroup/user.slice/memory.current", "1000000\n");
    put("sys/fs/cgroup/user.slice/memory.stat",
        "anon 5\ninactive_file 400000\nactive_file 200000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 4096000 - 400000);
}

static void version_one_reads_the_memory_controller(void **state)
{
    put("proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n");
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2048000\n");
    put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "48000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 2000000);
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"); /* unlimited */
    assert_int_equal(tt_machine_memory_available_at(root), 8000 * 1024);
}

static void version_one_takes_the_tightest_parent(void **state)
{
    put("proc/self/cgroup", "7:cpu,cpuacct:/a\n6:memory,hugetlb:/a/b/c\n1:name=systemd:/\n0::/\n");
    put("sys/fs/cgroup/memory/a/b/c/memory.limit_in_bytes", "6000000\n");
    put("sys/fs/cgroup/memory/a/b/c/memory.usage_in_bytes", "1000000\n");
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000000\n");
    put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "3000000\n");
    put("sys/fs/cgroup/memory/a/memory.stat",
        "inactive_file 1\ntotal_inactive_file 500000\ntotal_active_file 400000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 5000000 - (3000000 - 900000));
    /* Inside a container its own group is the mount point, whatever the path says. */
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 1900000);
    put("proc/self/cgroup", "6:memory:/elsewhere\n");
    assert_int_equal(tt_machine_memory_available_at(root), 1900000);
}

static void a_full_group_leaves_nothing(void **state)
{
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "1000\n");
    put("sys/fs/cgroup/memory.current", "5000\n");
    assert_int_equal(tt_machine_memory_available_at(root), 0);
}

static void this_process_has_a_peak(void **state)
{
    assert_true(tt_machine_peak_rss() > 100000);
}

static void memory_of_ones_own_is_counted(void **state)
{
    enum { BYTES = 48 << 20 };
    uint64_t before = tt_machine_own_memory();
    char *p = malloc(BYTES);
    assert_non_null(p);
    memset(p, 1, BYTES);
    uint64_t with = tt_machine_own_memory();
    assert_true(p[BYTES / 2] == 1);
    free(p);
    assert_true(before > 0);
    assert_true(with >= before + BYTES - (4 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_cgroups, setup, teardown),
        cmocka_unit_test_setup_teardown(version_two_takes_the_tightest_parent, setup, teardown),
        cmocka_unit_test_setup_teardown(version_one_reads_the_memory_controller, setup, teardown),
        cmocka_unit_test_setup_teardown(version_one_takes_the_tightest_parent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_group_leaves_nothing, setup, teardown),
        cmocka_unit_test(this_process_has_a_peak),
        cmocka_unit_test(memory_of_ones_own_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
