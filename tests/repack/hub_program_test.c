/* Proves what TinyTitanRepack itself promises about hubs: the catalogue, the plan that fetches
 * headers only, events for programs, exit codes, continuing after a signal, the environment that it
 * reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/mini_install.h"
#include "support/tempdir.h"
#include "support/test_hub.h"

#define REPO   "Qwen/Qwen3.5-2B"
#define COMMIT "15852e8c16360a2fea060d615a32b45270f8a8fc"

static char dir[512], program[600], target[600], partial[700];
static char *out, *err;
static test_hub *hub;
static _Atomic pid_t victim;

static int setup(void **state)
{
    const char *build = getenv("BUILD");
    tempdir_make(dir);
    snprintf(program, sizeof program, "%s/bin/TinyTitanRepack", build != NULL ? build : "build");
    snprintf(target, sizeof target, "%s/a t.gturbo", dir);
    snprintf(partial, sizeof partial, "%s/a t.gturbo.partial", dir);
    if (access(program, X_OK) != 0)
        fail_msg("%s is not there: run make", program);
    hub = test_hub_start("models/tales", REPO);
    test_hub_set_commit(hub, COMMIT);
    return 0;
}

static int teardown(void **state)
{
    test_hub_stop(&hub);
    free(out);
    free(err);
    out = err = NULL;
    tempdir_remove(dir);
    return 0;
}

static void become(const char *const *args)
{
    static const char *const others[] = {"HF_TOKEN",   "HTTPS_PROXY", "https_proxy", "http_proxy",
                                         "HTTP_PROXY", "ALL_PROXY",   "all_proxy"};
    char file[600], *argv[24] = {program};
    for (int i = 0; args[i] != NULL; i++)
        argv[i + 1] = (char *)args[i];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        unsetenv(others[i]);
    setenv("HF_ENDPOINT", test_hub_url(hub), 1);
    for (int i = 1; i <= 2; i++) {
        snprintf(file, sizeof file, "%s/stream%d", dir, i);
        int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || dup2(fd, i) < 0)
            _exit(99);
    }
    execv(program, argv);
    _exit(98);
}

static int run(const char *const *args)
{
    int status = 0, go[2];
    size_t n = 0;
    char byte = 0;
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (read(go[0], &byte, 1) == 1)
            become(args);
        _exit(97);
    }
    assert_true(pid > 0);
    victim = pid; /* faults know it before the first request */
    assert_int_equal(write(go[1], &byte, 1), 1);
    close(go[0]);
    close(go[1]);
    assert_int_equal(TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)), pid);
    free(out);
    free(err);
    out = mini_slurp(dir, "stream1", &n);
    err = mini_slurp(dir, "stream2", &n);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void has(const char *text, const char *what)
{
    if (strstr(text, what) == NULL)
        fail_msg("\"%s\" is not in:\n%s", what, text);
}

static void by_name(void **state)
{
    assert_int_equal(RUN("--list-models"), 0);
    has(out, "qwen3.5-2b");
    has(out, REPO);
    assert_int_equal(RUN("--list-models", "--json"), 0);
    json_t *tree = json_loads(out, 0, NULL);
    assert_true(json_array_size(json_object_get(tree, "models")) >= 8);
    json_decref(tree);
    assert_int_equal(RUN("--model", "qwen3.5-2b", "--output", target), 0);
    has(out, "Installed qwen3.5-2b: ");
    has(out, "Source revision: " REPO " " COMMIT);
    has(out, "All 3 shards were read whole and verified");
    has(err, "installing 100 %");
    assert_null(strchr(err, '\r'));
    assert_int_equal(RUN("--verify-install", "--input-gturbo", target, "--against", "models/tales"),
                     0);
    has(out, "the same bytes");
    has(out, "Verified ");
    has(out, "Source: " REPO " " COMMIT "; all 3 shards were read whole and verified");
    assert_int_equal(RUN("--inspect", "--input-gturbo", target), 0);
    has(out, COMMIT "; all 3 shards were read whole and verified");
    assert_int_equal(RUN("--verify-install", "--input-gturbo", target, "--json"), 0);
    has(out, "\"source\":{\"commit\":\"" COMMIT "\",\"ranges\":0,\"repository\":\"" REPO
             "\",\"shards\":3,\"verified\":3}");
    char back[700];
    snprintf(back, sizeof back, "%s/back", dir);
    assert_int_equal(RUN("--export-snapshot", back, "--input-gturbo", target), 0);
    has(out, "Exported ");
    assert_int_equal(RUN("--model", "no-such", "--output", target), 1);
    has(err, "qwen3.5-2b");
    /* The catalogue's commit is not what the hub has. */
    test_hub_set_commit(hub, TEST_HUB_COMMIT);
    assert_int_equal(RUN("--model", "qwen3.5-2b", "--output", target, "--overwrite"), 1);
    has(err, "the catalogue has " COMMIT);
    assert_false(tt_dir_exists(partial));
}

static void plans_from_headers_alone(void **state)
{
    assert_int_equal(RUN("--plan", "--repo", REPO, "--output", target), 0);
    has(out, COMMIT);
    has(out, "embed_tokens.weight");
    has(out, "packed_experts/layer_00.bin");
    has(out, "GB needed");
    assert_true(test_hub_sent(hub) < 100000); /* of 38 MB */
    assert_false(tt_dir_exists(partial));
    assert_false(tt_dir_exists(target));
    assert_int_equal(RUN("--plan", "--repo", REPO, "--output", target, "--json"), 0);
    json_t *tree = json_loads(out, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(tree, "event")), "plan");
    assert_true(json_integer_value(json_object_get(tree, "source_bytes")) > 30000000);
    json_decref(tree);
}

/* Every line is an object with an event; the last is `last`. */
static void events_end_with(const char *last)
{
    char *save = NULL, seen[64] = "";
    for (char *line = strtok_r(out, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        json_t *tree = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(tree, "event"));
        assert_non_null(event);
        snprintf(seen, sizeof seen, "%s", event);
        json_decref(tree);
    }
    assert_string_equal(seen, last);
}

static void events(void **state)
{
    assert_int_equal(RUN("--repo", REPO, "--output", target, "--json"), 0);
    has(out, "\"event\":\"progress\"");
    has(out, "\"text\":\"downloading model-00002-of-00003.safetensors\"");
    events_end_with("done");
    assert_string_equal(err, "");
    test_hub_set_fault(hub, test_hub_gate, NULL);
    assert_int_equal(RUN("--repo", REPO, "--output", target, "--overwrite", "--json"), 1);
    events_end_with("failed");
    has(err, "accept its terms");
    assert_int_equal(RUN("--plan", "--repo", REPO, "--output", target, "--json"), 1);
    events_end_with("failed");
    test_hub_set_fault(hub, NULL, NULL);
    assert_int_equal(
        RUN("--verify-install", "--input-gturbo", target, "--against", "models/tales", "--json"),
        0);
    has(out, "\"event\":\"compared\"");
    events_end_with("done");
}

static void stop_it(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    unsigned *left = ctx;
    if (!r->content || !r->ranged || r->end - r->begin < 1000000 || *left == 0 || --*left > 0)
        return;
    kill(victim, SIGTERM);
    a->cut = 1000;
    a->stall = true;
}

static void stopped_and_continued(void **state)
{
    unsigned left = 3;
    test_hub_set_fault(hub, stop_it, &left);
    assert_int_equal(RUN("--repo", REPO, "--revision", "main", "--output", target), 128 + SIGTERM);
    has(err, "stopped by SIGTERM");
    test_hub_set_fault(hub, NULL, NULL);
    bool begun = tt_dir_exists(partial);
    if (begun) {
        /* for a shell: a space */
        has(err, "continue it with: TinyTitanRepack --resume --output '");
        assert_int_equal(RUN("--repo", REPO, "--output", target), 1);
        has(err, "--resume");
        assert_int_equal(RUN("--resume", "--output", target), 0);
        assert_int_equal(RUN("--discard-partial", "--output", target), 1);
    }
    /* Stopped again, and given up. */
    left = 3;
    test_hub_set_fault(hub, stop_it, &left);
    assert_int_equal(RUN("--repo", REPO, "--output", target, "--overwrite"), 128 + SIGTERM);
    test_hub_set_fault(hub, NULL, NULL);
    if (tt_dir_exists(partial))
        assert_int_equal(RUN("--discard-partial", "--output", target), 0);
    assert_false(tt_dir_exists(partial));
}

int main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {T(by_name), T(plans_from_headers_alone), T(events),
                                       T(stopped_and_continued)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
