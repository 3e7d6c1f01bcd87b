/* Proves how log probabilities of Completions name tokens: text as text, parts of characters as
 * bytes, so that no two names are one; and that a token's place counts the characters before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/answer.h"

static tt_token_chance chance(const char *text, float logprob)
{
    tt_token_chance c = {.len = (uint8_t)strlen(text), .logprob = logprob};
    memcpy(c.text, text, c.len);
    return c;
}

static void no_flush(void *ctx)
{
    (void)ctx;
}

/* "ä", then the two halves of "é", then "x". */
static void tokens_of_completions(void **state)
{
    (void)state;
    static tt_token_report r[4];
    static const char *const texts[] = {"\xc3\xa4", "\xc3", "\xa9", "x"};
    static const char text[] = "\xc3\xa4\xc3\xa9x";
    for (int i = 0; i < 4; i++) {
        r[i].token = r[i].top[0] = chance(texts[i], -0.5f);
        r[i].top[1] = chance("\xe2\x80", -2);
        r[i].top[2] = chance("\x80", -INFINITY);
        r[i].n_top = 3;
    }
    tt_answer_request request = {.turn = {.n = 1, .logprobs = true, .top_logprobs = 3}};
    tt_turn_usage usage = {0};
    tt_answer_writer w;
    tt_buf out;
    tt_buf_init(&out, 1 << 16);
    tt_answer_writer_init(&w, &request, "m", 1, false, &out, no_flush, NULL);
    tt_turn_sink sink = tt_answer_writer_sink(&w);
    sink.begin(sink.ctx, 0);
    sink.text(sink.ctx, 0, text, sizeof text - 1, r, 4);
    sink.end(sink.ctx, 0, TT_TURN_STOP);
    tt_answer_writer_end(&w, &usage);
    assert_int_equal(tt_buf_status(&out, NULL), TT_OK);
    const char *lists = strstr(out.data, "\"logprobs\":");
    static const char tops[] = "\"bytes:\\\\xe2\\\\x80\":-2,\"bytes:\\\\x80\":-9999";
    char want[1024];
    snprintf(want, sizeof want,
             "\"logprobs\":{\"tokens\":[\"\xc3\xa4\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"x\"],"
             "\"token_logprobs\":[-0.5,-0.5,-0.5,-0.5],\"top_logprobs\":[{\"\xc3\xa4\":-0.5,%s},"
             "{\"bytes:\\\\xc3\":-0.5,%s},{\"bytes:\\\\xa9\":-0.5,%s},{\"x\":-0.5,%s}],"
             "\"text_offset\":[0,1,2,2]},\"finish_reason\":\"stop\"}],",
             tops, tops, tops, tops);
    assert_non_null(lists);
    assert_int_equal(strncmp(lists, want, strlen(want)), 0);
    json_t *tree = NULL; /* a name twice would be a fault */
    assert_int_equal(tt_json_parse(out.data, out.len, "answer", &tree, NULL), TT_OK);
    json_decref(tree);
    tt_answer_writer_free(&w);
    tt_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_completions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
