/* Proves that conversations and tools are checked with messages that name the file, that a file
 * reaches the template as it was written, what counts as a command, and where the history lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/chat_loop.h"
#include "cli/line_input.h"
#include "cli/prompt_text.h"

static char path[256];
static tt_error err;

static void put(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int make_path(void **state)
{
    (void)state;
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/prompt_text_test.%d", dir != NULL ? dir : "/tmp", getpid());
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void expect_messages(const char *text, const char *system, const char *want)
{
    char *json = NULL;
    put(text);
    assert_int_equal(tt_prompt_messages(path, system, &json, &err), TT_OK);
    assert_string_equal(json, want);
    tt_free(json);
}

static void a_file_stays_as_it_was_written(void **state)
{
    (void)state;
    static const char text[] =
        " [{\"role\": \"user\", \"content\": \"a\", \"n\": 0.1, \"k\": 1.0}]\n";
    expect_messages(text, NULL, text);
    expect_messages(text, "Be \"kind\".",
                    "[{\"role\": \"system\", \"content\": \"Be \\\"kind\\\".\"}, "
                    "{\"role\": \"user\", \"content\": \"a\", \"n\": 0.1, \"k\": 1.0}]\n");
}

static void refuse_messages(const char *text, const char *system, const char *word)
{
    char *json = NULL;
    put(text);
    err = (tt_error){0};
    assert_int_not_equal(tt_prompt_messages(path, system, &json, &err), TT_OK);
    assert_null(json);
    assert_string_equal(err.file, path);
    if (strstr(err.message, word) == NULL)
        fail_msg("\"%s\" does not speak of %s", err.message, word);
}

static void broken_conversations(void **state)
{
    (void)state;
    refuse_messages("", NULL, "");
    refuse_messages("[", NULL, "");
    refuse_messages("{}", NULL, "array");
    refuse_messages("[]", NULL, "no messages");
    refuse_messages("[1]", NULL, "entry 0");
    refuse_messages("[{\"role\": \"user\", \"content\": \"\"}, {\"role\": 3}]", NULL, "message 1");
    refuse_messages("[{\"role\": \"system\", \"content\": \"x\"}]", "s", "--system");
    refuse_messages("[{\"role\": \"bot\", \"content\": \"x\"}]", NULL,
                    "the role of message 0 is \"bot\", must be system");
    refuse_messages("[{\"role\": \"user\"}]", NULL, "message 0 has no \"content\"");
    refuse_messages("[{\"role\": \"user\", \"content\": null}]", NULL, "it is null");
    refuse_messages("[{\"role\": \"user\", \"content\": 3}]", NULL, "message 0");
    refuse_messages("[{\"role\": \"assistant\", \"content\": null}]", NULL, "it is null");
    refuse_messages("[{\"role\": \"user\", \"content\": null, \"tool_calls\": [{}]}]", NULL,
                    "null");
    /* What may be said without text, or in parts. */
    static const char quiet[] =
        "[{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{}]}, "
        "{\"role\": \"assistant\", \"tool_calls\": [{}]}, {\"role\": \"tool\", \"content\": \"\"}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}]";
    expect_messages(quiet, NULL, quiet);
    unlink(path);
    char *json = NULL;
    assert_int_equal(tt_prompt_messages(path, NULL, &json, &err), TT_ERR_NOT_FOUND);
}

static void refuse_tools(const char *text, const char *word)
{
    char *json = NULL;
    put(text);
    err = (tt_error){0};
    assert_int_not_equal(tt_prompt_tools(path, &json, &err), TT_OK);
    assert_string_equal(err.file, path);
    if (strstr(err.message, word) == NULL)
        fail_msg("\"%s\" does not speak of %s", err.message, word);
}

static void tools(void **state)
{
    (void)state;
    static const char good[] = "[{\"type\": \"function\", \"function\": {\"name\": \"add\"}}]";
    char *json = NULL;
    put(good);
    assert_int_equal(tt_prompt_tools(path, &json, &err), TT_OK);
    assert_string_equal(json, good);
    tt_free(json);
    refuse_tools("{\"name\": \"add\"}", "array");
    refuse_tools("[{\"function\": {}}]", "tool 0");
    refuse_tools("[\"add\"]", "entry 0");
}

static void single_prompts(void **state)
{
    (void)state;
    char *json = NULL;
    assert_int_equal(tt_prompt_single(NULL, "a\n\"b\"", 5, &json, &err), TT_OK);
    assert_string_equal(json, "[{\"role\": \"user\", \"content\": \"a\\n\\\"b\\\"\"}]");
    tt_free(json);
    assert_int_equal(tt_prompt_single("s", "u", 1, &json, &err), TT_OK);
    assert_string_equal(json, "[{\"role\": \"system\", \"content\": \"s\"}, "
                              "{\"role\": \"user\", \"content\": \"u\"}]");
    tt_free(json);
    assert_int_equal(tt_prompt_single(NULL, "a\0b", 3, &json, &err), TT_ERR_INVALID);
    assert_int_equal(tt_prompt_single(NULL, "\xff", 1, &json, &err), TT_ERR_FORMAT);
}

static void commands(void **state)
{
    (void)state;
    char word[16];
    const char *rest;
    assert_true(tt_chat_command("/system  Be kind. ", word, &rest));
    assert_string_equal(word, "system");
    assert_string_equal(rest, "Be kind. ");
    assert_true(tt_chat_command("/exit", word, &rest));
    assert_string_equal(rest, "");
    assert_true(tt_chat_command("/nonsense", word, &rest));
    assert_false(tt_chat_command("/etc/passwd is a file", word, &rest));
    assert_false(tt_chat_command(" /exit", word, &rest));
    assert_false(tt_chat_command("/", word, &rest));
    assert_false(tt_chat_command("/a1", word, &rest));
    assert_false(tt_chat_command("/aaaaaaaaaaaaaaaaaaaaaaa", word, &rest));
    assert_false(tt_chat_command("", word, &rest));
}

static void history_place(void **state)
{
    (void)state;
    char out[TT_MAX_PATH];
    assert_true(tt_history_path("/state", "/home/a", out));
    assert_string_equal(out, "/state/tinytitan/history");
    assert_true(tt_history_path("relative", "/home/a", out));
    assert_string_equal(out, "/home/a/.local/state/tinytitan/history");
    assert_true(tt_history_path(NULL, "/home/a", out));
    assert_string_equal(out, "/home/a/.local/state/tinytitan/history");
    assert_false(tt_history_path(NULL, NULL, out));
    assert_false(tt_history_path("", "", out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_stays_as_it_was_written),
        cmocka_unit_test(broken_conversations),
        cmocka_unit_test(tools),
        cmocka_unit_test(single_prompts),
        cmocka_unit_test(commands),
        cmocka_unit_test(history_place),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
