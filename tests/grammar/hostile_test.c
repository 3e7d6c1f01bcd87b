/* Proves that schemas which are deep, wide, multiply or go in circles end in a refusal that says
 * why, or compile within the limits, and in either case in 64 MiB: each is compiled by a process
 * that may have no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "grammar/compile.h"

#define MEMORY (64ull << 20)

/* Bytes that count against RLIMIT_DATA now. */
static uint64_t data_in_use(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmData: %llu", &kib) == 1)
            break;
    assert_non_null(f);
    fclose(f);
    return kib << 10;
}

/* Whether it ends as expected; says so when not. */
static bool ends_so(const char *text, size_t n, tt_status expect, const char *words)
{
    tt_error err = {0};
    tt_automaton m = {0};
    tt_status st = tt_compile_schema(text, n, true, NULL, &m, &err);
    bool ok = st == expect && m.n_states <= TT_AUTOMATON_STATES &&
              (st == TT_OK || strstr(err.message, words) != NULL);
    if (!ok)
        fprintf(stderr, "%.80s: %d, not %d, %u states: %s\n", text, st, expect, m.n_states,
                err.message);
    tt_automaton_free(&m);
    return ok;
}

/* Compiles and empties the text. */
static void ends(tt_buf *t, tt_status expect, const char *words)
{
    assert_int_equal(tt_buf_status(t, NULL), TT_OK);
    /* A sanitizer's own memory is many times that. */
    if (getenv("SANITIZED") != NULL) {
        assert_true(ends_so(t->data, t->len, expect, words));
    } else {
        int status = 0;
        uint64_t most = data_in_use() + MEMORY;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct rlimit limit = {most, most};
            bool ok =
                setrlimit(RLIMIT_DATA, &limit) == 0 && ends_so(t->data, t->len, expect, words);
            _exit(ok ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    tt_buf_clear(t);
}

static void put_times(tt_buf *t, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        tt_buf_puts(t, text);
}

/* What surrounds a schema n times over. */
static void nest(tt_buf *t, int n, const char *open, const char *inside, const char *close)
{
    put_times(t, n, open);
    tt_buf_puts(t, inside);
    put_times(t, n, close);
}

static void deep(void **state)
{
    tt_buf t;
    tt_buf_init(&t, 8u << 20);
    nest(&t, 64, "{\"type\":\"array\",\"minItems\":1,\"items\":", "{\"type\":\"null\"}", "}");
    ends(&t, TT_OK, "");
    nest(&t, 65, "{\"type\":\"array\",\"minItems\":1,\"items\":", "{\"type\":\"null\"}", "}");
    ends(&t, TT_ERR_LIMIT, "nests 65 levels deep, at most 64");
    nest(&t, 300, "{\"items\":", "{}", "}");
    ends(&t, TT_ERR_LIMIT, "deeper than 256 levels");
    nest(&t, 100000, "[", "", "]");
    ends(&t, TT_ERR_LIMIT, "deeper than 256 levels");
    nest(&t, 120, "{\"type\":\"array\",\"items\":", "{}", "}");
    ends(&t, TT_OK, "");
    nest(&t, 100, "{\"allOf\":[", "{\"type\":\"null\"}", "]}");
    ends(&t, TT_OK, "");
    nest(&t, 100, "{\"anyOf\":[{\"type\":\"boolean\"},", "{\"type\":\"null\"}", "]}");
    ends(&t, TT_OK, "");
    tt_buf_free(&t);
}

static void properties(tt_buf *t, int n, const char *each)
{
    tt_buf_puts(t, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < n; i++) {
        tt_buf_printf(t, "%s\"p%d\":", i > 0 ? "," : "", i);
        tt_buf_printf(t, each, i, i, i);
    }
    tt_buf_puts(t, "}");
}

static void wide(void **state)
{
    tt_buf t;
    tt_buf_init(&t, 8u << 20);
    properties(&t, 30000, "{\"type\":\"null\"}");
    tt_buf_puts(&t, "}");
    ends(&t, TT_ERR_LIMIT, "too large");
    properties(&t, 20000, "{\"type\":\"integer\"}");
    tt_buf_puts(&t, ",\"required\":[\"p0\"");
    for (int i = 1; i < 20000; i++)
        tt_buf_printf(&t, ",\"p%d\"", i);
    tt_buf_puts(&t, "]}");
    ends(&t, TT_ERR_LIMIT, "too large");
    properties(&t, 3000, "{\"type\":\"string\",\"pattern\":\"^[a-z]{3}%d(foo|bar){1,9}$\"}");
    tt_buf_puts(&t, "}");
    ends(&t, TT_ERR_UNSUPPORTED, "too much work");
    properties(&t, 1000, "{\"type\":\"string\",\"format\":\"email\",\"maxLength\":1%d}");
    tt_buf_puts(&t, "}");
    ends(&t, TT_ERR_LIMIT, "too large");
    properties(&t, 3000, "{\"type\":\"number\",\"minimum\":%d.12345678,\"maximum\":1%d000.5}");
    tt_buf_puts(&t, "}");
    ends(&t, TT_ERR_LIMIT, "too large");
    tt_buf_puts(&t, "{\"enum\":[0");
    for (uint32_t i = 0; i < 60000; i++)
        tt_buf_printf(&t, ",\"%08x\"", i * 2654435761u);
    tt_buf_puts(&t, "]}");
    ends(&t, TT_ERR_LIMIT, "more than 100,000 states");
    tt_buf_puts(&t, "{\"anyOf\":[{\"const\":0}");
    for (int i = 1; i <= 256; i++)
        tt_buf_printf(&t, ",{\"const\":%d}", i);
    tt_buf_puts(&t, "]}");
    ends(&t, TT_ERR_UNSUPPORTED, "more than 256 alternatives");
    tt_buf_puts(&t, "{\"const\":\"");
    put_times(&t, 900, "0123456789012345678901234567890123456789012345678901234567890123456789");
    put_times(&t, 900, "0123456789012345678901234567890123456789012345678901234567890123456789");
    tt_buf_puts(&t, "\"}");
    ends(&t, TT_ERR_LIMIT, "more than 100,000 states");
    tt_buf_puts(&t, "{\"title\":\"");
    put_times(&t, 1 << 17, "12345678");
    tt_buf_puts(&t, "\"}");
    ends(&t, TT_ERR_LIMIT, "at most 1048576 are read");
    tt_buf_free(&t);
}

/* References each of which stands at two places of the one before it. */
static void doubling(tt_buf *t, int n, const char *keyword)
{
    tt_buf_puts(t, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
    for (int i = 0; i < n; i++)
        tt_buf_printf(t,
                      "\"d%d\":{\"%s\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},",
                      i, keyword, i + 1, i + 1);
    tt_buf_printf(t, "\"d%d\":{\"type\":\"null\"}}}", n);
}

static void multiplying(void **state)
{
    static const char *const patterns[][2] = {
        {"^(a|b)*a(a|b){24}$", "more than 50,000 states"},
        {"^((a{1000}){1000}){1000}$", "more than 60,000 parts"},
        {"^(((a{0,100}){0,100}){0,100}){0,100}$", "more than 60,000 parts"},
        {"^(ab|c){0,100000}$", "more than 60,000 parts"},
        {"^(?=(.{7})*$)(?=(.{11})*$)(?=(.{13})*$)(?=(.{17})*$)(?=(.{19})*$).*$", "too large"},
        {"^(.?){400}x(.?){400}y(.?){400}$", "too much work"},
    };
    tt_buf t;
    tt_buf_init(&t, 8u << 20);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        tt_buf_printf(&t, "{\"type\":\"string\",\"pattern\":\"%s\"}", patterns[i][0]);
        ends(&t, TT_ERR_UNSUPPORTED, patterns[i][1]);
    }
    tt_buf_puts(&t, "{\"type\":\"string\",\"pattern\":\"^(ab|c)*$\",\"minLength\":100000}");
    ends(&t, TT_ERR_LIMIT, "more than 50,000 states");
    tt_buf_puts(&t, "{\"allOf\":[");
    for (int i = 0; i < 12; i++)
        tt_buf_printf(&t, "%s{\"anyOf\":[{\"minLength\":%d},{\"maxLength\":%d}]}", i ? "," : "",
                      i + 1, 100 + i);
    tt_buf_puts(&t, "]}");
    ends(&t, TT_ERR_UNSUPPORTED, "more than 256 alternatives");
    doubling(&t, 60, "anyOf");
    ends(&t, TT_ERR_UNSUPPORTED, "more than 256 alternatives");
    doubling(&t, 60, "oneOf");
    ends(&t, TT_ERR_UNSUPPORTED, "cannot be told apart");
    doubling(&t, 60, "allOf");
    ends(&t, TT_OK, "");
    /* Told apart by one property, however many they are. */
    tt_buf_puts(&t, "{\"oneOf\":[{\"const\":0}");
    for (int i = 1; i < 256; i++)
        tt_buf_printf(&t,
                      ",{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"k%d\"},\"v\":{"
                      "\"type\":\"string\"}},\"required\":[\"kind\"]}",
                      i);
    tt_buf_puts(&t, "]}");
    ends(&t, TT_OK, "");
    tt_buf_puts(&t, "{\"allOf\":[{}");
    for (int i = 2; i < 16; i++)
        tt_buf_printf(&t, ",{\"pattern\":\"^(.{%d})*$\"}", i);
    tt_buf_puts(&t, "]}");
    ends(&t, TT_ERR_UNSUPPORTED, "too large");
    tt_buf_free(&t);
}

static void circular(void **state)
{
    static const char *const schemas[][2] = {
        {"{\"$ref\":\"#\"}", "made of itself"},
        {"{\"allOf\":[{\"$ref\":\"#\"}]}", "made of itself"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "made of itself"},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"oneOf\":[{"
         "\"$ref\":\"#/$defs/a\"}]}}}",
         "made of itself"},
        {"{\"$ref\":\"#/$ref\"}", "no schema in this document"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
         "no document can satisfy it"},
        {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}",
         "no document can satisfy it"},
    };
    tt_buf t;
    tt_buf_init(&t, 8u << 20);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        tt_buf_puts(&t, schemas[i][0]);
        ends(&t, i < 5 ? TT_ERR_UNSUPPORTED : TT_ERR_INVALID, schemas[i][1]);
    }
    tt_buf_puts(&t, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
    for (int i = 0; i < 500; i++)
        tt_buf_printf(&t, "\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"}]},", i, (i + 1) % 500);
    tt_buf_puts(&t, "\"x\":{}}}");
    ends(&t, TT_ERR_UNSUPPORTED, "made of itself");
    tt_buf_free(&t);
}

/* The largest schema of a kind that compiles comes close to 100,000 states, and never above. */
static void takes_100000_states_and_not_one_more(void **state)
{
    uint32_t lo = 90000, hi = 110000, states = 0;
    while (hi - lo > 1) {
        uint32_t n = lo + (hi - lo) / 2;
        tt_automaton m = {0};
        tt_error err = {0};
        tt_buf t;
        tt_buf_init(&t, 1u << 20);
        tt_buf_puts(&t, "{\"const\":\"");
        for (uint32_t i = 0; i < n; i++)
            tt_buf_putc(&t, 'x');
        tt_buf_puts(&t, "\"}");
        tt_status st = tt_compile_schema(t.data, t.len, true, NULL, &m, &err);
        if (st == TT_OK) {
            lo = n;
            states = m.n_states;
        } else {
            hi = n;
            assert_int_equal(st, TT_ERR_LIMIT);
            assert_non_null(strstr(err.message, "more than 100,000 states"));
        }
        tt_automaton_free(&m);
        tt_buf_free(&t);
    }
    assert_int_equal(states, TT_AUTOMATON_STATES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep),
        cmocka_unit_test(wide),
        cmocka_unit_test(multiplying),
        cmocka_unit_test(circular),
        cmocka_unit_test(takes_100000_states_and_not_one_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
