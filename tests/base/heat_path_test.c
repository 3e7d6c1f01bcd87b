/* Proves where TinyTitanCLI keeps heat profiles: in an install that can be written to, else below
 * the cache folder under a name of its own, and nowhere without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/tempdir.h"
#include "base/heat_path.h"

static char dir[512];

static void an_install_that_can_be_written_to(void **state)
{
    char out[TT_MAX_PATH], want[600], link[600];
    snprintf(want, sizeof want, "%s/" TT_HEAT_NAME, dir);
    assert_true(tt_heat_path(dir, "/c", "/h", out));
    assert_string_equal(out, want);
    assert_true(tt_heat_path(dir, NULL, NULL, out));
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink(dir, link), 0);
    assert_true(tt_heat_path(link, NULL, NULL, out));
    assert_string_equal(out, want);
    assert_int_equal(unlink(link), 0);
    assert_false(tt_heat_path("/no/such/install", "/c", "/h", out));
}

/* Runs as somebody who may not write; root may always. */
static int as_nobody(void)
{
    char out[TT_MAX_PATH], other[TT_MAX_PATH], longest[TT_MAX_PATH + 1];
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 77;
    if (access("/usr", W_OK) == 0)
        return 77;
    if (!tt_heat_path("/usr", "/c", "/h", out) || strncmp(out, "/c/tinytitan/heat/", 18) != 0 ||
        strlen(out) != 18 + 16 + 4 || strcmp(out + 34, ".bin") != 0)
        return 1;
    if (!tt_heat_path("/usr/bin/..", "/c", "/h", other) || strcmp(out, other) != 0)
        return 2;
    if (!tt_heat_path("/etc", "/c", "/h", other) || strcmp(out, other) == 0)
        return 3;
    if (!tt_heat_path("/usr", "relative", "/h", other) ||
        strncmp(other, "/h/.cache/tinytitan/heat/", 25) != 0 || strcmp(other + 25, out + 18) != 0)
        return 4;
    memset(longest, '/', sizeof longest);
    longest[TT_MAX_PATH] = '\0';
    if (tt_heat_path("/usr", NULL, NULL, out) || tt_heat_path("/usr", NULL, "h", out) ||
        tt_heat_path("/usr", longest, "/h", out))
        return 5;
    return 0;
}

static void one_that_cannot(void **state)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(as_nobody());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skip: this user may write everywhere\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int set_up(void **state)
{
    tempdir_make(dir);
    return 0;
}

static int tear_down(void **state)
{
    tempdir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_install_that_can_be_written_to),
        cmocka_unit_test(one_that_cannot),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
