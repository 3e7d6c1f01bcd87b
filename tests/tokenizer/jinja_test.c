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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "tokenizer/jinja.h"

#define NOW    1790000000 /* what the reference's clock shows */
#define GOLDEN "tests/golden/jinja/"

/* Defaults, but for the wall time: a busy machine must not fail a test. */
static tt_jinja_options patient(void)
{
    tt_jinja_options o;
    tt_jinja_options_default(&o);
    o.now = NOW;
    o.max_seconds = 600;
    return o;
}

static tt_status render(const char *source, const json_t *vars, char **text, size_t *len,
                        tt_error *err)
{
    tt_jinja_options o = patient();
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
        tt_jinja_options o = patient();
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

/* ---- golden files ---- */

static json_t *load(const char *path)
{
    json_t *j = NULL;
    tt_error err = {0};
    if (tt_json_load(path, 64 * TT_MIB, &j, &err) != TT_OK)
        fail_msg("%s: %s", path, err.message);
    return j;
}

/* Whether `source` over `vars` gives the recorded text, or fails where null is recorded. */
static bool as_recorded(const char *source, size_t source_len, const json_t *vars,
                        const json_t *want, const char *what)
{
    tt_jinja_options o = patient();
    tt_error err = {0};
    char *text = NULL;
    size_t len = 0;
    tt_status st = tt_jinja_render(source, source_len, vars, &o, &text, &len, &err);
    bool same = json_is_null(want) ? st == TT_ERR_TEMPLATE || st == TT_ERR_LIMIT
                                   : st == TT_OK && len == json_string_length(want) &&
                                         memcmp(text, json_string_value(want), len) == 0;
    if (!same)
        print_error("%s\n  recorded: %s\n  rendered: %s\n", what,
                    json_is_null(want) ? "(an error)" : json_string_value(want),
                    st == TT_OK ? text : err.message);
    tt_free(text);
    return same;
}

static void renders_every_style_as_recorded(void **state)
{
    json_t *chats = load(GOLDEN "conversations.json"), *styles = load(GOLDEN "styles.json"), *style;
    size_t i, k, differ = 0;
    json_array_foreach(styles, i, style)
    {
        const char *path = json_string_value(json_object_get(style, "template"));
        const json_t *texts = json_object_get(style, "texts");
        char *source = NULL, what[512];
        size_t len = 0;
        json_t *chat;
        assert_int_equal(tt_file_read(path, TT_MAX_TEMPLATE, &source, &len, NULL), TT_OK);
        assert_int_equal(json_array_size(texts), json_array_size(chats));
        json_array_foreach(chats, k, chat)
        {
            snprintf(what, sizeof what, "%s, \"%s\" (%zu)", path,
                     json_string_value(json_object_get(chat, "title")), k);
            differ += !as_recorded(source, len, json_object_get(chat, "vars"),
                                   json_array_get(texts, k), what);
        }
        free(source);
    }
    assert_true(i >= 10 && json_array_size(chats) >= 80);
    assert_int_equal(differ, 0);
    json_decref(styles);
    json_decref(chats);
}

static void renders_every_expression_as_recorded(void **state)
{
    json_t *all = load(GOLDEN "expressions.json"), *c;
    const json_t *vars = json_object_get(all, "vars");
    size_t i, differ = 0;
    json_array_foreach(json_object_get(all, "cases"), i, c)
    {
        const json_t *source = json_object_get(c, "template");
        const char *text = json_string_value(source);
        differ +=
            !as_recorded(text, json_string_length(source), vars, json_object_get(c, "text"), text);
    }
    assert_true(i >= 3000);
    assert_int_equal(differ, 0);
    json_decref(all);
}

/* ---- the reference itself, where it is installed ---- */

static const char *own_path;

static void agrees_with_the_live_reference(void **state)
{
    char command[4096], line[4096];
    snprintf(command, sizeof command,
             "/usr/bin/python3 -B tests/tokenizer/jinja_oracle.py '%s' --seed 7 --count 250 2>&1",
             own_path);
    if (access("/usr/bin/python3", X_OK) != 0) {
        print_message("skip: no /usr/bin/python3\n");
        skip();
    }
    FILE *p = popen(command, "r");
    assert_non_null(p);
    while (fgets(line, sizeof line, p) != NULL)
        print_message("%s", line);
    int status = pclose(p);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- single properties ---- */

static void expect_text(const char *source, const char *vars_json, const char *want)
{
    json_t *vars = json_loads(vars_json, 0, NULL);
    char *text = NULL;
    size_t len = 0;
    tt_error err = {0};
    assert_non_null(vars);
    if (render(source, vars, &text, &len, &err) != TT_OK)
        fail_msg("%s: %s", source, err.message);
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
    tt_free(text);
    json_decref(vars);
}

static void expect_error(const char *source, tt_status want, const char *part)
{
    json_t *vars = json_object();
    char *text = NULL;
    size_t len = 7;
    tt_error err = {0};
    tt_status st = render(source, vars, &text, &len, &err);
    if (st != want || err.status != want || strstr(err.message, part) == NULL)
        fail_msg("%.200s: %s \"%s\", want %s with \"%s\"", source, tt_status_name(st), err.message,
                 tt_status_name(want), part);
    assert_null(text);
    assert_int_equal(len, 7);
    json_decref(vars);
}

static void keeps_values_of_json_apart(void **state)
{
    expect_text(
        "{{ v }} {{ v|tojson }}", "{\"v\": [1, 1.0, -0.0, true, null, \"1\", 1e100]}",
        "[1, 1.0, -0.0, True, None, '1', 1e+100] [1, 1.0, -0.0, true, null, \"1\", 1e+100]");
    expect_text("{{ v|tojson }}", "{\"v\": {\"z\": 1, \"a\": 2, \"m\": {}}}",
                "{\"z\": 1, \"a\": 2, \"m\": {}}");
    expect_text("{{ v }}", "{\"v\": 9223372036854775807}", "9223372036854775807");
    expect_text("{{ range }}{{ v }}", "{\"range\": 1, \"v\": \"a\"}", "1a");
}

static void shows_the_clock_it_is_given(void **state)
{
    expect_text("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}", "{}", "2026-09-21 14:13:20");
    expect_text("{{ strftime_now('%A %d %B %f%z%Z.') }}", "{}", "Monday 21 September 000000.");
}

static void names_the_line_of_a_fault(void **state)
{
    expect_error("a\nb\n{{ x.y }}", TT_ERR_TEMPLATE, "line 3: 'x' is undefined");
    expect_error("{# c\n #}\n{% if %}", TT_ERR_TEMPLATE, "line 3: ");
    expect_error("{{ 'a\nb' }}\n\n{{ 1 / 0 }}", TT_ERR_TEMPLATE, "line 4: division by zero");
    expect_error("{% macro m() %}\n{{ none.x.y }}{% endmacro %}\n\n{{ m() }}", TT_ERR_TEMPLATE,
                 "line 2: 'None' has no attribute 'x'");
    expect_error("\n{{ raise_exception('stop here') }}", TT_ERR_TEMPLATE, "line 2: stop here");
    expect_error("\n\n{% include 'other' %}", TT_ERR_TEMPLATE,
                 "line 3: 'include' is not supported");
    expect_error("{{ {}.a.b }}", TT_ERR_TEMPLATE, "'dict object' has no attribute 'a'");
    expect_error("{{ a b }}", TT_ERR_TEMPLATE, "expected '}}', got 'b'");
    expect_error("{{ 1|nosuch }}", TT_ERR_TEMPLATE, "no filter named 'nosuch'");
}

/* What no conversation gets past is seen without one; what depends on it is not asked. */
static void is_checked_without_being_run(void **state)
{
    static const char *const good[] = {"", "x", "{% for a in b %}{{ a.c() }}{% endfor %}",
                                       "{{ raise_exception('no') }}", "{{ 1 // 0 }}"};
    static const struct {
        const char *source, *says;
    } bad[] = {{"{{", "line 1"},
               {"\n{% for %}", "line 2"},
               {"{% if a %}", "line 1"},
               {"{{ a | nonesuch }}", "nonesuch"},
               {"a\xff", "UTF-8"}};
    tt_jinja_options o = patient();
    tt_error err = {0};
    o.file = "chat_template.jinja";
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (tt_jinja_check(good[i], strlen(good[i]), &o, &err) != TT_OK)
            fail_msg("%s: %s", good[i], err.message);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tt_jinja_check(bad[i].source, strlen(bad[i].source), &o, &err),
                         TT_ERR_TEMPLATE);
        assert_string_equal(err.file, "chat_template.jinja");
        if (strstr(err.message, bad[i].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.message, bad[i].says);
    }
    o.max_memory = 1024;
    assert_int_equal(tt_jinja_check("{{ [1, 2, 3, 4, 5, 6, 7, 8] }}", 30, &o, &err), TT_ERR_LIMIT);
}

static void refuses_integers_past_64_bits(void **state)
{
    expect_error("{{ 9223372036854775807 + 1 }}", TT_ERR_TEMPLATE, "64 bits");
    expect_error("{{ 9223372036854775808 }}", TT_ERR_TEMPLATE, "64 bits");
    expect_error("{{ 10 ** 19 }}", TT_ERR_TEMPLATE, "64 bits");
    expect_error("{{ 1e19|int }}", TT_ERR_TEMPLATE, "64 bits");
}

static void keeps_templates_in_their_box(void **state)
{
    expect_text("{{ ''.__class__ }}{{ [].__len__ }}", "{}", "");
    expect_error("{{ ''.__class__.__mro__ }}", TT_ERR_TEMPLATE, "no attribute '__class__'");
    expect_error("{{ [].append(1) }}", TT_ERR_TEMPLATE, "unsafe");
    expect_error("{{ {}.update({1: 2}) }}", TT_ERR_TEMPLATE, "unsafe");
    expect_error("{{ '{0.__class__.x}'.format(1) }}", TT_ERR_TEMPLATE, "__class__");
    expect_error("{{ [1]|random }}", TT_ERR_TEMPLATE, "'random' is not supported");
    expect_error("{% extends 'x' %}", TT_ERR_TEMPLATE, "'extends' is not supported");
}

static void refuses_bad_input(void **state)
{
    tt_error err = {0};
    char *text = NULL;
    json_t *vars = json_object(), *list = json_array();
    assert_int_equal(tt_jinja_render("a\nb\xff", 4, vars, NULL, &text, NULL, &err),
                     TT_ERR_TEMPLATE);
    assert_int_equal(err.offset, 3);
    assert_non_null(strstr(err.message, "line 2"));
    assert_int_equal(tt_jinja_render("a", 1, list, NULL, &text, NULL, &err), TT_ERR_INVALID);
    char *big = calloc(1, TT_MAX_TEMPLATE + 1);
    assert_non_null(big);
    memset(big, ' ', TT_MAX_TEMPLATE + 1);
    assert_int_equal(tt_jinja_render(big, TT_MAX_TEMPLATE + 1, vars, NULL, &text, NULL, &err),
                     TT_ERR_LIMIT);
    assert_int_equal(tt_jinja_render(big, TT_MAX_TEMPLATE, vars, NULL, &text, NULL, &err), TT_OK);
    assert_int_equal(strlen(text), TT_MAX_TEMPLATE);
    tt_free(text);
    free(big);
    json_decref(vars);
    json_decref(list);
}

/* A NUL is a character like any other. */
static void carries_nul_characters(void **state)
{
    json_t *vars = json_pack("{s:s%}", "v", "a\0b", (size_t)3);
    char *text = NULL;
    size_t len = 0;
    static const char source[] = "{{ v|length }}\0{{ v }}";
    assert_int_equal(tt_jinja_render(source, sizeof source - 1, vars, NULL, &text, &len, NULL),
                     TT_OK);
    assert_int_equal(len, 5);
    assert_memory_equal(text, "3\0a\0b", 5);
    tt_free(text);
    json_decref(vars);
}

/* ---- hostile templates ---- */

/* `part` repeated, between two texts. */
static char *repeat(const char *before, const char *part, size_t times, const char *after)
{
    tt_buf b;
    tt_buf_init(&b, 64 * TT_MIB);
    tt_buf_puts(&b, before);
    for (size_t i = 0; i < times; i++)
        tt_buf_puts(&b, part);
    tt_buf_puts(&b, after);
    char *text = tt_buf_steal(&b, NULL);
    assert_non_null(text);
    return text;
}

static void stops_templates_that_want_too_much(void **state)
{
#define LOOP(n, body) "{% for i in range(" #n ") %}" body "{% endfor %}"
#define GROW(start, step, end)                                                                     \
    "{% set ns = namespace(v=" start ") %}" LOOP(100000, "{% set ns.v = " step " %}") end
    static const char *const templates[] = {
        LOOP(100000, LOOP(100000, "")),
        LOOP(100000, "{{ 'x' * 1000 }}"),
        LOOP(100000, LOOP(100000, "{% if i in 'abc' * 100000 %}{% endif %}")),
        "{{ 'x' * 10 ** 9 }}",
        "{{ 'x' * 10 ** 18 }}",
        "{{ 'ab' * 4611686018427387904 }}",
        "{{ [0] * 10 ** 9 }}",
        "{{ (0, 1) * 10 ** 18 }}",
        GROW("'x'", "ns.v ~ ns.v", ""),
        GROW("'x'", "ns.v + ns.v", ""),
        GROW("[0]", "ns.v + ns.v", ""),
        GROW("[0]", "[ns.v, ns.v]", "{{ ns.v }}"),
        GROW("[0]", "[ns.v]", "{{ ns.v }}"),
        GROW("[0]", "[ns.v]", "{{ ns.v|tojson }}"),
        GROW("[0]", "[ns.v]", "{{ ns.v == [ns.v] }}"),
        GROW("[0]", "[ns.v]", "{{ ns.v < [ns.v] }}"),
        GROW("(0,)", "(ns.v,)", "{{ {ns.v: 1} }}"),
        GROW("(0,)", "(ns.v,)", "{{ {}[ns.v] }}"),
        GROW("(0,)", "(ns.v,)", "{{ ns.v is filter }}"),
        "{% set ns = namespace(v=(0,)) %}" LOOP(60,
                                                "{% set ns.v = (ns.v, ns.v) %}") "{{ {}[ns.v] }}",
        "{% set ns = namespace(v=[0], w=[0]) %}" LOOP(
            60, "{% set ns.v = [ns.v, ns.v] %}{% set ns.w = [ns.w, ns.w] %}") "{{ ns.v == ns.w }}",
        "{% set ns = namespace(v=(0,)) %}" LOOP(60,
                                                "{% set ns.v = (ns.v, ns.v) %}") "{{ {ns.v: 1} }}",
        "{% set ns = namespace(v=[0]) %}" LOOP(60,
                                               "{% set ns.v = [ns.v, ns.v] %}") "{{ ns.v|tojson }}",
        "{% set ns = namespace(v=[0]|map('list')) %}" LOOP(
            5000, "{% set ns.v = ns.v|map('string') %}") "{{ ns.v|list }}",
        "{{ range(10 ** 9) }}",
        "{{ range(-9223372036854775807, 9223372036854775807) }}",
        "{{ range(0, 9223372036854775807, 1)|list }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('x') }}",
        "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%.999999999d' % 1 }}",
        "{{ '%.*f' % (999999999, 1.0) }}",
        "{{ '%*s' % (999999999, 1) }}",
        "{{ '{:>999999999}'.format('a') }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:0999999999,}'.format(1) }}",
        "{{ '{:.999999999f}'.format(1.0) }}",
        "{{ 'a'.center(10 ** 10) }}",
        "{{ 'a'.ljust(10 ** 18) }}",
        "{{ 'a'.zfill(10 ** 10) }}",
        "{{ 'a\tb'.expandtabs(10 ** 10) }}",
        "{{ 'a\nb'|indent(10 ** 10) }}",
        "{{ 'a'|center(10 ** 10) }}",
        "{{ [[1]]|tojson(indent=10 ** 10) }}",
        "{{ [1]|batch(10 ** 12, 0)|list }}",
        "{{ [1]|slice(10 ** 12)|list }}",
        "{{ ('x' * 10000).replace('', 'x' * 100000) }}",
        "{{ ('x' * 100000).join(range(100000)|map('string')) }}",
        "{{ range(100000)|join('x' * 100000) }}",
        LOOP(100000, "{{ ('a' * 100000 ~ 'b').rfind('ab') }}"),
        LOOP(100000, "{{ ('ab' * 100000).strip('ba') }}"),
        LOOP(100000, "{{ ('ab' * 100000).split('b')|length }}"),
        LOOP(100000, "{% set x = range(100000)|sort %}"),
        LOOP(100000,
             "{% set x = (range(1000)|map('string')|list) == (range(1000)|map('string')|list) %}"),
        LOOP(100000, "{% set x = 'x' * 1000000 %}"),
        LOOP(100000, "{% set x %}{{ 'x' * 1000000 }}{% endset %}"),
        LOOP(100000, "{{ ('é' * 100000)[50000] }}"),
        LOOP(100000, "{{ ('x' * 100000)|upper|lower|title|length }}"),
        LOOP(100000, "{{ ('x' * 100000)|tojson|e|length }}"),
        "{{ 2 ** 10 ** 18 }}",
        "{{ 7 ** 9223372036854775807 }}",
    };
    tt_jinja_options o;
    tt_jinja_options_default(&o);
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        json_t *vars = json_object();
        char *text = NULL;
        tt_error err = {0};
        tt_status st =
            tt_jinja_render(templates[i], strlen(templates[i]), vars, &o, &text, NULL, &err);
        /* The first few under the default limits, the others under tighter ones to save time. */
        o.max_steps = i < 4 ? o.max_steps : 1000000;
        o.max_memory = i < 4 ? o.max_memory : 16 * TT_MIB;
        o.max_output = i < 4 ? o.max_output : 8 * TT_MIB;
        if (st != TT_ERR_LIMIT && st != TT_ERR_TEMPLATE)
            fail_msg("%s: %s", templates[i], tt_status_name(st));
        json_decref(vars);
    }
}

static void stops_templates_that_nest_too_deep(void **state)
{
    static const struct {
        const char *before, *part, *after;
    } cases[] = {{"{{ ", "(", ""},
                 {"{{ ", "[", ""},
                 {"{{ ", "{1:", ""},
                 {"{{ ", "not ", "1 }}"},
                 {"{{ ", "- ", "1 }}"},
                 {"{{ 1", "[0", ""},
                 {"{{ x", ".a", " }}"},
                 {"{{ 'x'", "|upper", " }}"},
                 {"{{ x", "()", " }}"},
                 {"{{ x", " is none", " }}"},
                 {"{{ ", "1 if 1 else ", "1 }}"},
                 {"{{ 1", " if 1", " }}"},
                 {"{{ x", "|f(1", ""},
                 {"", "{% if 1 %}", ""},
                 {"", "{% for i in [1] %}", ""},
                 {"", "{% macro m() %}", ""},
                 {"", "{% set x %}", ""},
                 {"", "{% filter upper %}", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *source = repeat(cases[i].before, cases[i].part, 100000, cases[i].after);
        json_t *vars = json_object();
        char *text = NULL;
        tt_error err = {0};
        tt_status st = render(source, vars, &text, NULL, &err);
        if (st != TT_ERR_LIMIT && st != TT_ERR_TEMPLATE)
            fail_msg("%s: %s", cases[i].part, tt_status_name(st));
        free(source);
        json_decref(vars);
    }
}

/* Length alone is no fault. */
static void renders_long_chains(void **state)
{
    static const struct {
        const char *before, *part, *after;
    } cases[] = {{"{{ 1", " + 1", " }}"},
                 {"{{ 'a'", " ~ 'a'", " }}"},
                 {"{{ 1", " and 1", " }}"},
                 {"{{ [1", ", 1", "] }}"},
                 {"{% if 0 %}", "{% elif 0 %}", "{% endif %}"},
                 {"", "{% if 1 %}a{% endif %}", ""},
                 {"", "{{ 1 }}text\n", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *source = repeat(cases[i].before, cases[i].part, 20000, cases[i].after);
        json_t *vars = json_object();
        char *text = NULL;
        tt_error err = {0};
        if (render(source, vars, &text, NULL, &err) != TT_OK)
            fail_msg("%s: %s", cases[i].part, err.message);
        tt_free(text);
        free(source);
        json_decref(vars);
    }
}

/* Text that grows piece by piece costs what it grows. */
static void appends_in_linear_memory(void **state)
{
    char *text = NULL;
    size_t len = 0;
    tt_error err = {0};
    json_t *vars = json_object();
    const char *source = "{% set ns = namespace(v='') %}" LOOP(
        20000, "{% set ns.v = ns.v + 'a sentence of some length, ' ~ i %}") "{{ ns.v }}";
    if (render(source, vars, &text, &len, &err) != TT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(len, 20000 * 27 + 10 + 90 * 2 + 900 * 3 + 9000 * 4 + 10000 * 5);
    tt_free(text);
    json_decref(vars);
}

static void expect_limit(const char *source, tt_jinja_options o, const char *part)
{
    json_t *vars = json_object();
    char *text = NULL;
    tt_error err = {0};
    tt_status st = tt_jinja_render(source, strlen(source), vars, &o, &text, NULL, &err);
    if (st != TT_ERR_LIMIT || strstr(err.message, part) == NULL)
        fail_msg("%s: %s %s", source, tt_status_name(st), err.message);
    json_decref(vars);
}

static void each_limit_is_its_own(void **state)
{
    const char *source = "{% macro m(n) %}{{ 'x' * 20 }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}"
                         "{% endmacro %}" LOOP(600, "{{ m(3) }}");
    tt_jinja_options o, full = patient();
    full.max_depth = 4;
    full.max_output = 600 * 80;
    full.max_memory = 4 * TT_MIB;
    full.max_steps = 100000;
    json_t *vars = json_object();
    char *text = NULL;
    assert_int_equal(tt_jinja_render(source, strlen(source), vars, &full, &text, NULL, NULL),
                     TT_OK);
    tt_free(text);
    json_decref(vars);
    o = full;
    o.max_depth = 3;
    expect_limit(source, o, "macros nest deeper than 3");
    o = full;
    o.max_output--;
    expect_limit(source, o, "output is longer than 47999 bytes");
    o = full;
    o.max_memory = 100000;
    expect_limit(source, o, "more than 100000 bytes of memory");
    o = full;
    o.max_steps = 5000;
    expect_limit(source, o, "more than 5000 steps");
    o = full;
    o.max_seconds = -1;
    expect_limit(source, o, "longer than -1 seconds");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--serve") == 0)
        return serve();
    own_path = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_every_style_as_recorded),
        cmocka_unit_test(renders_every_expression_as_recorded),
        cmocka_unit_test(agrees_with_the_live_reference),
        cmocka_unit_test(keeps_values_of_json_apart),
        cmocka_unit_test(shows_the_clock_it_is_given),
        cmocka_unit_test(names_the_line_of_a_fault),
        cmocka_unit_test(is_checked_without_being_run),
        cmocka_unit_test(refuses_integers_past_64_bits),
        cmocka_unit_test(keeps_templates_in_their_box),
        cmocka_unit_test(refuses_bad_input),
        cmocka_unit_test(carries_nul_characters),
        cmocka_unit_test(stops_templates_that_want_too_much),
        cmocka_unit_test(stops_templates_that_nest_too_deep),
        cmocka_unit_test(renders_long_chains),
        cmocka_unit_test(appends_in_linear_memory),
        cmocka_unit_test(each_limit_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
