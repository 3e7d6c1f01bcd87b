/* Proves the lines of the log, plain and as JSON: what stands in them and in which order, that
 * nothing in a value makes a second line, and that the longest words still fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "server/server_log.h"

static int ends[2];
static char line[65536];

/* What was written; one line. The time, 24 characters, is checked and taken off. */
static const char *written(bool json)
{
    ssize_t n = read(ends[0], line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = '\0';
    assert_ptr_equal(strchr(line, '\n'), line + n - 1);
    const char *at = line + (json ? strlen("{\"time\":\"") : 0);
    static const char form[] = "0000-00-00T00:00:00.000Z";
    for (size_t i = 0; i < sizeof form - 1; i++)
        assert_true(form[i] == '0' ? at[i] >= '0' && at[i] <= '9' : at[i] == form[i]);
    return at + sizeof form - 1;
}

static const tt_server_log *in(bool json)
{
    static tt_server_log log;
    log = (tt_server_log){.fd = ends[1], .json = json};
    return &log;
}

static const tt_log_request computed = {.id = "req_1",
                                        .method = "POST",
                                        .path = "/v1/chat/completions",
                                        .status = 200,
                                        .wait_seconds = 0.0126,
                                        .run_seconds = 2,
                                        .computed = true,
                                        .prompt = 20,
                                        .cached = 5,
                                        .tier = "ram",
                                        .kind = "turn",
                                        .refused = "too_large",
                                        .generated = 9,
                                        .thought = 4,
                                        .bad_calls = 1,
                                        .adjusted = "top_p max_tokens",
                                        .ignored = "user",
                                        .repaired = ""};

static void answers(void **state)
{
    (void)state;
    tt_log_answer(in(false), &computed);
    assert_string_equal(written(false),
                        " id=req_1 method=POST path=/v1/chat/completions status=200 wait_s=0.013 "
                        "run_s=2 prompt_tokens=20 cached_tokens=5 cache_tier=ram cache_kind=turn "
                        "cache_refused=too_large generated_tokens=9 "
                        "reasoning_tokens=4 unreadable_calls=1 adjusted=\"top_p max_tokens\" "
                        "ignored=user\n");
    tt_log_answer(in(true), &computed);
    assert_string_equal(
        written(true),
        "\",\"id\":\"req_1\",\"method\":\"POST\",\"path\":\"/v1/chat/completions\",\"status\":200,"
        "\"wait_s\":0.013,\"run_s\":2,\"prompt_tokens\":20,\"cached_tokens\":5,"
        "\"cache_tier\":\"ram\",\"cache_kind\":\"turn\",\"cache_refused\":\"too_large\","
        "\"generated_tokens\":9,\"reasoning_tokens\":4,\"unreadable_calls\":1,"
        "\"adjusted\":\"top_p max_tokens\",\"ignored\":\"user\"}\n");
    tt_log_request refused = {.id = "req_2",
                              .method = "GET",
                              .path = "other",
                              .status = 404,
                              .code = "not_found",
                              .adjusted = "",
                              .ignored = "",
                              .repaired = ""};
    tt_log_answer(in(false), &refused);
    assert_string_equal(
        written(false),
        " id=req_2 method=GET path=other status=404 code=not_found wait_s=0 run_s=0\n");
}

static void a_value_makes_no_second_line(void **state)
{
    (void)state;
    static const char *const values[] = {"a\nb", "a b\r\n\"c\"", "\x1b[31m", "a\"", "\\", "\xff\n"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        tt_log_request r = computed;
        json_t *tree = NULL;
        r.detail = values[i];
        tt_log_answer(in(false), &r);
        const char *detail = strstr(written(false), "detail=");
        assert_int_equal(detail[7], '"');
        for (const char *at = detail; at[1] != '\0'; at++)
            assert_true((unsigned char)*at >= ' ');
        tt_log_answer(in(true), &r);
        (void)written(true);
        assert_int_equal(tt_json_parse(line, strlen(line), "line", &tree, NULL), TT_OK);
        if (i != 5) /* a byte that is no UTF-8 is replaced */
            assert_string_equal(json_string_value(json_object_get(tree, "detail")), values[i]);
        json_decref(tree);
        tt_log_say(in(false), "socket %s", values[i]);
        assert_non_null(strstr(written(false), " socket "));
        tt_log_say(in(true), "socket %s", values[i]);
        (void)written(true);
        assert_int_equal(tt_json_parse(line, strlen(line), "line", &tree, NULL), TT_OK);
        json_decref(tree);
    }
}

static void sentences(void **state)
{
    (void)state;
    tt_log_say(in(false), "%s listens on 127.0.0.1:%u", "tales", 80u);
    assert_string_equal(written(false), " tales listens on 127.0.0.1:80\n");
    tt_log_say(in(true), "%s listens on 127.0.0.1:%u", "tales", 80u);
    assert_string_equal(written(true), "\",\"message\":\"tales listens on 127.0.0.1:80\"}\n");
}

/* Lists of words have at most 4,096 bytes (request_fields.c), a detail 767. */
static void the_longest_line(void **state)
{
    (void)state;
    char words[4097], detail[768];
    memset(words, 'w', sizeof words - 1);
    memset(detail, '\1', sizeof detail - 1); /* six bytes each as JSON */
    words[sizeof words - 1] = detail[sizeof detail - 1] = '\0';
    tt_log_request r = computed;
    r.adjusted = r.ignored = words;
    r.repaired = "moved_systems=4294967295";
    r.detail = detail;
    for (int json = 0; json < 2; json++) {
        tt_log_answer(in(json), &r);
        assert_non_null(strstr(written(json), "detail"));
    }
}

static void nobody_reads(void **state)
{
    (void)state;
    tt_server_log none = {.fd = -1};
    tt_log_say(&none, "nothing");
    tt_log_answer(&none, &computed);
}

static int open_pipe(void **state)
{
    (void)state;
    return pipe(ends);
}

static int close_pipe(void **state)
{
    (void)state;
    close(ends[0]);
    close(ends[1]);
    return 0;
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, open_pipe, close_pipe)
    const struct CMUnitTest tests[] = {
        WITH(answers),          WITH(a_value_makes_no_second_line), WITH(sentences),
        WITH(the_longest_line), cmocka_unit_test(nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
