/* Proves what TinyTitanRepack itself promises: exit codes, what goes to which stream, and that a
 * signal in the middle of a conversion leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

#define TOKENIZER                                                                                  \
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"                      \
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"

static char dir[512], program[512], source[600], target[600];
static char *out, *err;

static int setup(void **state)
{
    const char *build = getenv("BUILD");
    mini_options o = mini_default();
    tempdir_make(dir);
    snprintf(program, sizeof program, "%s/bin/TinyTitanRepack", build != NULL ? build : "build");
    snprintf(source, sizeof source, "%s/source", dir);
    snprintf(target, sizeof target, "%s/t.gturbo", dir);
    if (access(program, X_OK) != 0)
        fail_msg("%s is not there: run make", program);
    o.vision = true;
    if (tt_dir_make(source, NULL) != TT_OK)
        return 1;
    mini_write(source, &o);
    mini_spew(source, "tokenizer.json", TOKENIZER, sizeof TOKENIZER - 1);
    return 0;
}

static int teardown(void **state)
{
    free(out);
    free(err);
    out = err = NULL;
    tempdir_remove(dir);
    return 0;
}

static pid_t start(const char *const *args, int err_fd)
{
    char file[600], *argv[16] = {program};
    for (int i = 0; args[i] != NULL; i++)
        argv[i + 1] = (char *)args[i];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    for (int i = 1; i <= 2; i++) {
        snprintf(file, sizeof file, "%s/stream%d", dir, i);
        int fd = i == 2 && err_fd >= 0 ? err_fd
                                       : open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || dup2(fd, i) < 0)
            _exit(99);
    }
    execv(program, argv);
    _exit(98);
}

static int run(const char *const *args)
{
    int status = 0;
    size_t n = 0;
    pid_t pid = start(args, -1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    free(out);
    free(err);
    out = mini_slurp(dir, "stream1", &n);
    err = mini_slurp(dir, "stream2", &n);
    return WEXITSTATUS(status);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void convert_verify_inspect(void **state)
{
    assert_int_equal(RUN("--input-snapshot", source, "--output", target, "--model-id", "m"), 0);
    assert_non_null(strstr(out, "Installed m: "));
    assert_non_null(strstr(out, target));
    assert_non_null(strstr(err, "note: 1 vision tensors"));
    assert_non_null(strstr(err, "converting 100 %"));
    assert_null(strchr(err, '\r')); /* not a terminal */
    assert_int_equal(RUN("--verify-install", "--input-gturbo", target), 0);
    assert_non_null(strstr(out, "Verified "));
    assert_non_null(strstr(out, "/verified-install.json"));
    assert_int_equal(RUN("--inspect", "--input-gturbo", target), 0);
    assert_non_null(strstr(out, "embed_tokens.weight"));
    assert_non_null(strstr(out, "receipt             valid"));
    assert_string_equal(err, "");
    assert_int_equal(RUN("--inspect", "--json", "--input-gturbo", target), 0);
    json_t *tree = json_loads(out, 0, NULL);
    assert_non_null(tree);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(tree, "manifest"), "model_id")), "m");
    assert_true(json_array_size(json_object_get(tree, "tensors")) > 20);
    json_decref(tree);
    /* Inspecting shows what loading would refuse. */
    mini_spew(target, "verified-install.json", "{}", 2);
    assert_int_equal(RUN("--inspect", "--input-gturbo", target), 0);
    assert_non_null(strstr(out, "receipt             refused"));
    assert_int_equal(RUN("--verify-install", "--input-gturbo", target, "--quiet"), 0);
    assert_string_equal(out, "");
    assert_string_equal(err, "");
}

static void failures_exit_with_1(void **state)
{
    assert_int_equal(RUN("--input-snapshot", "/nonexistent", "--output", target), 1);
    assert_non_null(strstr(err, "TinyTitanRepack: conversion failed: "));
    assert_string_equal(out, "");
    assert_int_equal(RUN("--input-snapshot", source, "--output", target, "--quiet"), 0);
    assert_string_equal(out, "");
    assert_int_equal(RUN("--input-snapshot", source, "--output", target), 1);
    assert_non_null(strstr(err, "--overwrite"));
    assert_int_equal(RUN("--input-snapshot", source, "--output", target, "--overwrite"), 0);
    mini_poke(target, "packed_experts/layer_00.bin", 77, 1, true);
    assert_int_equal(RUN("--verify-install", "--input-gturbo", target), 1);
    assert_non_null(strstr(err, "verification failed: expert 0 of packed_experts/layer_00.bin"));
    assert_int_equal(RUN("--inspect", "--input-gturbo", dir), 1);
    assert_non_null(strstr(err, "inspection failed: "));
}

static void wrong_command_lines_exit_with_2(void **state)
{
    assert_int_equal(RUN("--frobnicate"), 2);
    assert_non_null(strstr(err, "unknown option --frobnicate; see --help"));
    assert_string_equal(out, "");
    assert_int_equal(RUN("--input-snapshot", source, "--output", target, "--bits", "6"), 2);
    assert_false(tt_dir_exists(target));
    assert_int_equal(RUN("--help"), 0);
    assert_non_null(strstr(out, "usage: TinyTitanRepack"));
    assert_int_equal(RUN("--version"), 0);
    assert_string_equal(out, "TinyTitanRepack " TT_VERSION_STRING "\n");
}

static unsigned partials(void)
{
    unsigned n = 0;
    DIR *d = opendir(dir);
    struct dirent *e;
    while ((e = readdir(d)) != NULL)
        n += strstr(e->d_name, ".partial-") != NULL;
    closedir(d);
    return n;
}

/* Waits until the program has its own handler for a signal. */
static void wait_for_handler(pid_t pid, int sig)
{
    char file[64], line[256];
    unsigned long long caught = 0;
    snprintf(file, sizeof file, "/proc/%ld/status", (long)pid);
    while (!(caught >> (sig - 1) & 1)) {
        FILE *f = fopen(file, "re");
        assert_non_null(f);
        while (fgets(line, sizeof line, f) != NULL)
            if (strncmp(line, "SigCgt:", 7) == 0)
                caught = strtoull(line + 7, NULL, 16);
        fclose(f);
        sched_yield();
    }
}

/* The program cannot get past its first note while nobody reads its stderr, so the signal comes in
 * the middle whatever the machine's speed. */
static void a_signal_leaves_nothing(void **state)
{
    if (getenv("EMULATED") != NULL) {
        print_message("skip: handlers of signals are the emulator's own\n");
        skip();
    }
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    static const char *const names[] = {"conversion stopped by SIGINT, nothing was changed",
                                        "stopped by SIGTERM", "stopped by SIGHUP"};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        int ends[2], status = 0;
        char buf[4096];
        memset(buf, '.', sizeof buf);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
        while (write(ends[1], buf, sizeof buf) > 0)
            ;
        while (write(ends[1], buf, 1) > 0)
            ;
        assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
        const char *const args[] = {"--input-snapshot", source, "--output", target, NULL};
        pid_t pid = start(args, ends[1]);
        close(ends[1]);
        wait_for_handler(pid, signals[i]);
        assert_int_equal(kill(pid, signals[i]), 0);
        char said[4096] = "";
        ssize_t n;
        while ((n = read(ends[0], buf, sizeof buf)) > 0)
            snprintf(said, sizeof said, "%.*s", (int)n, buf);
        close(ends[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 128 + signals[i]);
        assert_non_null(strstr(said, names[i]));
        assert_false(tt_dir_exists(target));
        assert_int_equal(partials(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(convert_verify_inspect, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_exit_with_1, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_command_lines_exit_with_2, setup, teardown),
        cmocka_unit_test_setup_teardown(a_signal_leaves_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
