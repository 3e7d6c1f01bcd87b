/* Proves that a signal becomes a question, that the second one ends the program, that SIGHUP stays
 * ignored under nohup, and that a closed pipe and a file grown too large are errors of a write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stop.h"
#include "support/tempdir.h"

/* Runs `fn` in a child; returns the status that waitpid gives. */
static int in_child(int (*fn)(int), int arg)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(fn(arg));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int once(int sig)
{
    tt_stop_catch();
    if (tt_stop_signal() != 0 || *tt_stop_flag() != 0 || !tt_stop_progress(NULL, 0, 1))
        return 1;
    raise(sig);
    if (tt_stop_signal() != sig || *tt_stop_flag() != sig || tt_stop_progress(NULL, 0, 1))
        return 2;
    return tt_stop_code(tt_stop_signal());
}

static int twice(int sig)
{
    tt_stop_catch();
    raise(sig);
    raise(sig);
    return 1;
}

static int under_nohup(int sig)
{
    signal(SIGHUP, SIG_IGN);
    tt_stop_catch();
    raise(sig);
    return tt_stop_signal();
}

static void a_signal_is_a_question(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        int status = in_child(once, signals[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 128 + signals[i]);
        status = in_child(twice, signals[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
    }
    assert_int_equal(in_child(under_nohup, SIGHUP), 0);
    assert_string_equal(tt_stop_name(SIGTERM), "SIGTERM");
    assert_string_equal(tt_stop_name(SIGINT), "SIGINT");
    assert_string_equal(tt_stop_name(SIGHUP), "SIGHUP");
}

static int closed_pipe(int arg)
{
    int ends[2];
    (void)arg;
    tt_stop_catch();
    if (pipe(ends) != 0 || close(ends[0]) != 0)
        return 1;
    return write(ends[1], "x", 1) == -1 && errno == EPIPE ? 0 : 2;
}

static char path[600];

static int large_file(int arg)
{
    struct rlimit limit = {4096, 4096};
    char bytes[4096] = {0};
    (void)arg;
    tt_stop_catch();
    FILE *f = fopen(path, "we");
    if (f == NULL || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    if (write(fileno(f), bytes, sizeof bytes) != (ssize_t)sizeof bytes)
        return 2;
    int rc = write(fileno(f), bytes, 1) == -1 && errno == EFBIG ? 0 : 3;
    fclose(f);
    return rc;
}

static void writes_fail_instead(void **state)
{
    char dir[512];
    tempdir_make(dir);
    snprintf(path, sizeof path, "%s/file", dir);
    assert_int_equal(in_child(closed_pipe, 0), 0);
    assert_int_equal(in_child(large_file, 0), 0);
    tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_is_a_question),
        cmocka_unit_test(writes_fail_instead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
