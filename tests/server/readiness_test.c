/* Proves that a service manager gets its word, on a socket that is a file or an abstract name, and
 * that one that is not there, or does not listen, changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/readiness.h"
#include "support/tempdir.h"

static char dir[512];

/* A manager's socket; `name` as NOTIFY_SOCKET has it. */
static int listen_on(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    assert_true(n < sizeof at.sun_path);
    memcpy(at.sun_path, name, n);
    if (name[0] == '@')
        at.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
        0);
    return fd;
}

static void expect_word(int fd, const char *want)
{
    char got[64];
    ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(got, want, n);
}

static void a_file(void **state)
{
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/notify", dir);
    int fd = listen_on(path);
    assert_true(tt_readiness_send(path, "READY=1\n"));
    assert_true(tt_readiness_send(path, "STOPPING=1\n"));
    expect_word(fd, "READY=1\n");
    expect_word(fd, "STOPPING=1\n");
    /* Its file is there, and nobody behind it. */
    close(fd);
    assert_false(tt_readiness_send(path, "READY=1\n"));
}

static void an_abstract_name(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "@tinytitan-test-%d", (int)getpid());
    int fd = listen_on(name);
    assert_true(tt_readiness_send(name, "READY=1\n"));
    expect_word(fd, "READY=1\n");
    close(fd);
    assert_false(tt_readiness_send(name, "READY=1\n"));
}

static void names_that_are_none(void **state)
{
    (void)state;
    char longest[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    const char *const names[] = {NULL, "", "/", "@", "relative", "vsock:2:1", longest};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_false(tt_readiness_send(names[i], "READY=1\n"));
}

/* A manager that does not read holds nobody up. */
static void a_full_socket(void **state)
{
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/full", dir);
    int fd = listen_on(path), sent = 0;
    while (sent < 1000000 && tt_readiness_send(path, "READY=1\n"))
        sent++;
    assert_in_range(sent, 1, 999999);
    close(fd);
}

static int make_dir(void **state)
{
    (void)state;
    tempdir_make(dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    tempdir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file),
        cmocka_unit_test(an_abstract_name),
        cmocka_unit_test(names_that_are_none),
        cmocka_unit_test(a_full_socket),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
