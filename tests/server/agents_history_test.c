/* Proves that what coding agents send is accepted and rendered as it was looked at, and how much of
 * a prompt the next one begins with. The requests of tests/golden/agents/NAME.json have the shape
 * of real ones (tests/clients/agents/shape.mjs); what must come of them stands in NAME.txt, each
 * prompt but the first as what it lacks of the one before, and what it has instead.
 *
 * With --write it writes those: to be looked at before they are believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "server/chat_request.h"
#include "server/messages_request.h"
#include "server/prompt_render.h"
#include "server/response_request.h"

#define FOLDER "tests/golden/agents/"
#define MOST   (1u << 20)

static tt_tokenizer *tok;
static bool writing;
static tt_engine_info info = {
    .model = "scripted_4-Bit", .max_context = 65536, .has_template = true, .thinks = true};

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    (void)self;
    return tt_prompt_render(tok, r, out, err);
}

static const tt_server_engine_ops ops = {.render = render};
static const tt_server_engine engine = {&ops, NULL};

static bool read_body(const char *path, tt_fields *f, tt_response_store *store,
                      tt_response_plan *plan)
{
    if (strcmp(path, "/v1/messages") == 0)
        return tt_messages_request_read(f, &engine);
    if (strcmp(path, "/v1/responses") == 0)
        return tt_response_request_read(f, &engine, store, plan);
    assert_string_equal(path, "/v1/chat/completions");
    return tt_chat_request_read(f, &engine);
}

static void note(tt_buf *out, const char *what, const tt_buf *words)
{
    if (words->len > 0)
        tt_buf_printf(out, "%s: %s\n", what, words->data);
}

/* The text of a prompt, which is the caller's; what is told of the request goes to `out`. */
static char *prompt_of(const char *path, const json_t *body, tt_response_store *store, tt_buf *out)
{
    tt_answer_request r;
    tt_response_plan plan = {0};
    tt_refusal why;
    tt_fields f;
    char *text = NULL;
    size_t len = 0;
    tt_fields_init(&f, body, &info, &r, &why);
    if (!read_body(path, &f, store, &plan))
        fail_msg("%s: %s", why.param, why.message);
    assert_true(r.stream);
    const tt_engine_prompt *p = &r.turn.prompt;
    assert_int_equal(tt_tokenizer_decode(tok, p->ids, p->n, false, &text, &len, NULL), TT_OK);
    assert_int_equal(strlen(text), len);
    note(out, "adjusted", &f.adjusted);
    note(out, "ignored", &f.ignored);
    note(out, "repaired", &f.repaired);
    tt_fields_free(&f);
    tt_response_plan_free(&plan);
    tt_answer_request_free(&r);
    return text;
}

/* Where two prompts part, at the beginning of a character. */
static size_t common(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] != '\0' && a[n] == b[n])
        n++;
    while (n > 0 && ((unsigned char)a[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static void tell(const json_t *fixture, tt_buf *out)
{
    const char *path = json_string_value(json_object_get(fixture, "path"));
    tt_response_store *store = tt_response_store_create(4, MOST);
    char *before = NULL;
    size_t i;
    const json_t *body;
    assert_non_null(store);
    json_array_foreach(json_object_get(fixture, "bodies"), i, body)
    {
        tt_buf_printf(out, "==== request %zu\n", i + 1);
        char *now = prompt_of(path, body, store, out);
        size_t n = before != NULL ? common(before, now) : 0;
        if (before == NULL)
            tt_buf_printf(out, "---- prompt\n%s\n", now);
        else
            tt_buf_printf(out, "---- without\n%s\n---- with\n%s\n", before + n, now + n);
        tt_free(before);
        before = now;
    }
    tt_free(before);
    tt_response_store_close(&store);
}

/* Equal; a long text is told from the first difference on. */
static void same(const char *text, const char *want)
{
    size_t i = 0;
    while (text[i] != '\0' && text[i] == want[i])
        i++;
    if (text[i] != want[i])
        fail_msg("at byte %zu: %.300s\ninstead of: %.300s", i, text + i, want + i);
}

static void hold(const char *name)
{
    char path[128], *text = NULL;
    size_t len = 0;
    json_t *fixture = NULL;
    tt_error err = {.offset = -1};
    tt_buf out;
    tt_buf_init(&out, MOST);
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    if (tt_file_read(path, MOST, &text, &len, &err) != TT_OK ||
        tt_json_parse(text, len, path, &fixture, &err) != TT_OK)
        fail_msg("%s: %s", path, err.message);
    tt_free(text);
    tell(fixture, &out);
    assert_int_equal(out.failed, TT_OK);
    snprintf(path, sizeof path, FOLDER "%s.txt", name);
    if (writing) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(out.data, 1, out.len, f), out.len);
        assert_int_equal(fclose(f), 0);
    } else {
        assert_int_equal(tt_file_read(path, MOST, &text, &len, &err), TT_OK);
        same(out.data, text);
        tt_free(text);
    }
    json_decref(fixture);
    tt_buf_free(&out);
}

static void claude_code(void **state)
{
    (void)state;
    hold("claude");
}

static void codex(void **state)
{
    (void)state;
    hold("codex");
}

static void qwen_code(void **state)
{
    (void)state;
    hold("qwen");
}

static void opencode(void **state)
{
    (void)state;
    hold("opencode");
}

static int open_tok(void **state)
{
    (void)state;
    return tt_tokenizer_open("models/tales", &tok, NULL) == TT_OK ? 0 : -1;
}

static int close_tok(void **state)
{
    (void)state;
    tt_tokenizer_close(&tok);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claude_code),
        cmocka_unit_test(codex),
        cmocka_unit_test(qwen_code),
        cmocka_unit_test(opencode),
    };
    writing = argc == 2 && strcmp(argv[1], "--write") == 0;
    return cmocka_run_group_tests(tests, open_tok, close_tok);
}
