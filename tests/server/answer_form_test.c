/* Proves what cannot be seen on the wire of how an answer is held to a form: that memory for
 * grammars which is full is a refusal that passes, that the words of the log have a bound, that the
 * kept grammar is used again, and that a request which is refused holds none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/chat_request.h"

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    (void)self;
    (void)r;
    (void)err;
    out->ids = calloc(4, sizeof *out->ids);
    out->n = 4;
    return out->ids != NULL ? TT_OK : TT_ERR_NOMEM;
}

static const tt_server_engine_ops ops = {.render = render};
static const tt_server_engine engine = {&ops, NULL};
static const tt_engine_info info = {.model = "m", .max_context = 100};
static const tt_engine_info *use = &info;

typedef struct reading {
    json_t *body;
    tt_answer_request r;
    tt_refusal why;
    tt_fields f;
} reading;

static bool read_body(reading *x, tt_grammar_shelf *shelf, const char *more)
{
    tt_buf body;
    tt_buf_init(&body, 1 << 20);
    tt_buf_printf(&body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]%s}",
                  more);
    assert_int_equal(tt_json_parse(body.data, body.len, "t", &x->body, NULL), TT_OK);
    tt_buf_free(&body);
    tt_fields_init(&x->f, x->body, use, &x->r, &x->why);
    x->f.grammars = shelf;
    return tt_chat_request_read(&x->f, &engine);
}

static void done(reading *x)
{
    tt_fields_free(&x->f);
    tt_answer_request_free(&x->r);
    json_decref(x->body);
    *x = (reading){0};
}

static tt_grammar_shelf *shelf_of(size_t most)
{
    tt_grammar_shelf *s = NULL;
    assert_int_equal(tt_grammar_shelf_create(most, &s, NULL), TT_OK);
    return s;
}

#define OBJECT ",\"response_format\":{\"type\":\"json_object\"}"
#define TOOL   ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"

static void full_memory_passes(void **state)
{
    (void)state;
    static const char *const forms[] = {OBJECT, TOOL ",\"tool_choice\":\"required\"", OBJECT TOOL};
    tt_grammar_shelf *s = shelf_of(1000);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        reading x = {0};
        assert_false(read_body(&x, s, forms[i]));
        assert_int_equal(x.why.status, 503);
        assert_string_equal(x.why.code, "memory_full");
        assert_null(x.r.turn.grammar);
        done(&x);
    }
    tt_grammar_shelf_close(&s);
}

static void grammars_are_used_again(void **state)
{
    (void)state;
    tt_grammar_shelf *s = shelf_of(TT_GRAMMARS);
    reading x = {0}, y = {0}, z = {0};
    assert_true(read_body(&x, s, OBJECT) && read_body(&y, s, OBJECT) && read_body(&z, s, ""));
    assert_non_null(x.r.turn.grammar);
    assert_ptr_equal(x.r.turn.grammar, y.r.turn.grammar);
    assert_null(z.r.turn.grammar);
    size_t bytes = tt_grammar_shelf_bytes(s);
    done(&x);
    done(&y);
    done(&z);
    assert_true(read_body(&x, s, OBJECT));
    assert_int_equal(tt_grammar_shelf_bytes(s), bytes);
    done(&x);
    /* Refused behind the grammar: the context has no room. */
    tt_engine_info small = info;
    small.max_context = 4;
    use = &small;
    assert_false(read_body(&x, s, OBJECT));
    assert_string_equal(x.why.code, "context_length_exceeded");
    use = &info;
    done(&x);
    tt_grammar_shelf_close(&s); /* the sanitizers would tell of one that is still lent */
}

static void words_of_the_log_have_a_bound(void **state)
{
    (void)state;
    tt_grammar_shelf *s = shelf_of(TT_GRAMMARS);
    reading x = {0};
    tt_buf more;
    tt_buf_init(&more, 1 << 20);
    tt_buf_puts(&more, ",\"tool_choice\":\"required\",\"tools\":[");
    for (unsigned i = 0; i < 200; i++)
        tt_buf_printf(&more,
                      "%s{\"type\":\"function\",\"function\":{\"name\":\"f%u\",\"parameters\":{"
                      "\"type\":\"object\",\"properties\":{\"a\":{\"not\":{}}}}}}",
                      i > 0 ? "," : "", i);
    tt_buf_puts(&more, "]");
    if (!read_body(&x, s, more.data))
        fail_msg("%s", x.why.message);
    assert_true(x.f.relaxed.failed == TT_OK && x.f.relaxed.len > 2000 && x.f.relaxed.len < 2200);
    assert_non_null(strstr(x.f.relaxed.data, "tools[0].function:not tools[1].function:not "));
    assert_string_equal(x.f.relaxed.data + x.f.relaxed.len - 5, " more");
    done(&x);
    tt_buf_free(&more);
    tt_grammar_shelf_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_memory_passes),
        cmocka_unit_test(grammars_are_used_again),
        cmocka_unit_test(words_of_the_log_have_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
