/* Proves that grammars written by hand take exactly what they say, against a matcher that knows
 * nothing of automata, and that faulty and hostile ones are refused with their place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/limits.h"
#include "support/grammar_text.h"

/* ---- what is written down ---- */

typedef struct example {
    const char *grammar;
    const char *takes[8], *not [8];
} example;

static const example examples[] = {
    {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno", "Yes", "yes "}},
    {"root ::= [a-c]+", {"a", "abccba"}, {"", "d", "abd", "A"}},
    {"root ::= [^a-c\\n]", {"d", "A", "\xc3\xa9", "\xf0\x9f\x98\x80", "]"}, {"a", "b", "\n", ""}},
    {"root ::= \"a\"? \"b\"* \"c\"", {"c", "ac", "bbc", "abbbc"}, {"", "aac", "cb", "ab"}},
    {"root ::= \"a\"{3}", {"aaa"}, {"", "aa", "aaaa"}},
    {"root ::= \"a\"{2,}", {"aa", "aaaaaaa"}, {"", "a"}},
    {"root ::= \"a\"{0,2}", {"", "a", "aa"}, {"aaa", "b"}},
    {"root ::= (\"a\" | \"b\") (\"c\" | )", {"a", "b", "ac", "bc"}, {"c", "", "ab"}},
    {"root ::= \"\"", {""}, {"a"}},
    {"root ::= .", {"a", "\n", "\xc3\xa9", "\xf0\x9f\x98\x80"}, {"", "ab", "\x80", "\xc3", "\xff"}},
    {"root ::= \"\\x41\\u00e9\\U0001f600\\n\\r\\t\\\\\\\"\"",
     {"A\xc3\xa9\xf0\x9f\x98\x80\n\r\t\\\""},
     {"A", "A\xe9"}},
    {"root ::= [\\]\\-\\\\]+", {"]", "-", "\\", "]-\\"}, {"", "a", "["}},
    {"root ::= [a-]+", {"a", "-", "a-a"}, {"b", ""}},
    {"root ::= [\\d]+ [\\w]", {"12", "1a", "1_"}, {"1", "a1", "1-"}},
    {"root ::= [\xc3\xa0-\xc3\xbf]",
     {"\xc3\xa9", "\xc3\xa0"},
     {"a", "\xc3\x9f", "\xc3", "\xc4\x80"}},
    {"# front\nroot ::= a # middle\n  b;\na ::= \"a\"\nb ::= \"b\" # end",
     {"ab"},
     {"a", "b", "ba"}},
    {"b ::= \"x\" root ::= b b", {"xx"}, {"x", "xxx"}},
    {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", ")", "(()", "())"}},
    {"root ::= t (\"+\" t)*\nt ::= [0-9]+ | \"(\" root \")\"",
     {"1", "1+2", "(1+(23))+4"},
     {"", "+", "1+", "(1", "1)"}},
    {"root ::= e e \"x\"\ne ::= \"a\" | ", {"x", "ax", "aax"}, {"", "a", "aaax"}},
    {"a-1_B ::= \"q\"\nroot ::= a-1_B", {"q"}, {""}},
    {"root ::= unused-is-fine? \"a\"\nunused-is-fine ::= \"b\"\nother ::= \"c\"",
     {"a", "ba"},
     {"c", "b"}},
};

static void examples_are_taken(void **state)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        tt_automaton m = automaton_of_ebnf(e->grammar);
        for (size_t k = 0; k < 8 && e->takes[k] != NULL; k++)
            if (!automaton_takes(&m, e->takes[k], strlen(e->takes[k])))
                fail_msg("%s: does not take \"%s\"", e->grammar,
                         shown(e->takes[k], strlen(e->takes[k])));
        for (size_t k = 0; k < 8 && e->not [k] != NULL; k++)
            if (automaton_takes(&m, e->not [k], strlen(e->not [k])))
                fail_msg("%s: takes \"%s\"", e->grammar, shown(e->not [k], strlen(e->not [k])));
        tt_automaton_free(&m);
    }
}

/* No NUL, no halves of surrogate pairs, no long forms, nothing above U+10FFFF. */
static void only_characters_of_a_text(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } bad[] = {{"\0", 1},
               {"\xc0\x80", 2},
               {"\xc1\xbf", 2},
               {"\xe0\x9f\xbf", 3},
               {"\xed\xa0\x80", 3},
               {"\xf0\x8f\xbf\xbf", 4},
               {"\xf4\x90\x80\x80", 4},
               {"\xf5\x80\x80\x80", 4},
               {"\xc3\x28", 2},
               {"\xff", 1}};
    tt_automaton m = automaton_of_ebnf("root ::= .* [^x]*");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (automaton_takes(&m, bad[i].text, bad[i].n))
            fail_msg("takes \"%s\"", shown(bad[i].text, bad[i].n));
    static const char good[] =
        "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90"
        "\x80\x80\xf4\x8f\xbf\xbf";
    assert_true(automaton_takes(&m, good, sizeof good - 1));
    tt_automaton_free(&m);
}

/* ---- against another matcher ---- */

enum { LITERAL, CLASS, SEQUENCE, CHOICE, REPEAT, RULE, AROUND };

typedef struct node {
    int kind, a, b, min, max;
} node;

enum { RULES = 3, NODES = 200 };

static node nodes[NODES];
static int n_nodes, rule_root[RULES];

/* A tree for rule `rule`. Rules are called from earlier ones, and from themselves behind an "a". */
static int plant(int rule, int depth)
{
    int at = n_nodes++;
    node x = {.kind = (int)grammar_noise(depth > 0 && n_nodes < NODES - 40 ? 7 : 2)};
    if (x.kind == RULE && rule + 1 == RULES)
        x.kind = LITERAL;
    switch (x.kind) {
    case LITERAL:
        x.a = (int)grammar_noise(4);
        break;
    case CLASS:
        x.a = (int)grammar_noise(3);
        break;
    case SEQUENCE:
    case CHOICE:
        x.a = plant(rule, depth - 1);
        x.b = plant(rule, depth - 1);
        break;
    case REPEAT:
        x.a = plant(rule, depth - 1);
        x.min = (int)grammar_noise(3);
        x.max = grammar_noise(3) == 0 ? -1 : x.min + (int)grammar_noise(3);
        break;
    case RULE:
        x.a = rule + 1 + (int)grammar_noise((uint32_t)(RULES - rule - 1));
        break;
    default:
        x.a = rule;
        break;
    }
    nodes[at] = x;
    return at;
}

static const char *const literals[] = {"a", "b", "ab", "\xc3\xa9"};
static const char *const classes[] = {"[a-b]", "[^b]", "."};

static void print(tt_buf *out, int at)
{
    const node *x = &nodes[at];
    switch (x->kind) {
    case LITERAL:
        tt_buf_printf(out, "\"%s\"", literals[x->a]);
        break;
    case CLASS:
        tt_buf_puts(out, classes[x->a]);
        break;
    case SEQUENCE:
    case CHOICE:
        tt_buf_puts(out, "(");
        print(out, x->a);
        tt_buf_puts(out, x->kind == CHOICE ? " | " : " ");
        print(out, x->b);
        tt_buf_puts(out, ")");
        break;
    case REPEAT:
        tt_buf_puts(out, "(");
        print(out, x->a);
        if (x->max < 0)
            tt_buf_printf(out, "){%d,}", x->min);
        else
            tt_buf_printf(out, "){%d,%d}", x->min, x->max);
        break;
    case RULE:
        tt_buf_printf(out, "r%d", x->a);
        break;
    default:
        tt_buf_printf(out, "(\"a\" r%d? \"b\")", x->a);
        break;
    }
}

/* Places of the text where `at` may end when it begins at one of `from`: sets of bits. */
static uint32_t ends(int at, uint32_t from, const char *text, size_t n)
{
    const node *x = &nodes[at];
    uint32_t out = 0, more;
    if (from == 0)
        return 0;
    switch (x->kind) {
    case LITERAL:
        for (size_t i = 0, k = strlen(literals[x->a]); i + k <= n; i++)
            if (from >> i & 1 && memcmp(text + i, literals[x->a], k) == 0)
                out |= 1u << (i + k);
        return out;
    case CLASS:
        for (size_t i = 0; i < n; i++) {
            bool two = text[i] == '\xc3' && i + 1 < n && text[i + 1] == '\xa9';
            bool ok = x->a == 0   ? text[i] == 'a' || text[i] == 'b'
                      : x->a == 1 ? text[i] == 'a' || two
                                  : text[i] == 'a' || text[i] == 'b' || two;
            if (from >> i & 1 && ok)
                out |= 1u << (i + (two ? 2 : 1));
        }
        return out;
    case SEQUENCE:
        return ends(x->b, ends(x->a, from, text, n), text, n);
    case CHOICE:
        return ends(x->a, from, text, n) | ends(x->b, from, text, n);
    case REPEAT:
        for (int i = 0; i < x->min; i++)
            from = ends(x->a, from, text, n);
        out = from;
        for (int i = x->min; x->max < 0 || i < x->max; i++, out |= more) {
            more = from = ends(x->a, from, text, n);
            if ((out | more) == out && x->max < 0)
                return out;
        }
        return out;
    case RULE:
        return ends(rule_root[x->a], from, text, n);
    default:
        for (size_t i = 0; i < n; i++)
            if (from >> i & 1 && text[i] == 'a')
                out |= 1u << (i + 1);
        out |= ends(rule_root[x->a], out, text, n);
        from = out;
        out = 0;
        for (size_t i = 0; i < n; i++)
            if (from >> i & 1 && text[i] == 'b')
                out |= 1u << (i + 1);
        return out;
    }
}

static void compare(const char *grammar, unsigned *took, unsigned *refused)
{
    tt_automaton m = automaton_of_ebnf(grammar);
    char text[16];
    for (size_t chars = 0; chars <= 6; chars++) {
        uint32_t all = 1;
        for (size_t i = 0; i < chars; i++)
            all *= 3;
        for (uint32_t k = 0; k < all; k++) {
            size_t n = 0;
            for (uint32_t i = 0, v = k; i < chars; i++, v /= 3) {
                text[n++] = v % 3 == 0 ? 'a' : v % 3 == 1 ? 'b' : '\xc3';
                if (v % 3 == 2)
                    text[n++] = '\xa9';
            }
            bool want = ends(rule_root[0], 1, text, n) >> n & 1;
            if (automaton_takes(&m, text, n) != want)
                fail_msg("%s: %s \"%s\"", grammar, want ? "does not take" : "takes",
                         shown(text, n));
            ++*(want ? took : refused);
        }
    }
    tt_automaton_free(&m);
}

static void random_grammars_are_what_they_say(void **state)
{
    unsigned took = 0, refused = 0;
    grammar_noise_seed(7);
    for (int round = 0; round < 60; round++) {
        tt_buf b;
        tt_buf_init(&b, TT_MIB);
        n_nodes = 0;
        for (int r = 0; r < RULES; r++) {
            rule_root[r] = plant(r, 4);
            tt_buf_printf(&b, r == 0 ? "root ::= r0\nr%d ::= " : "\nr%d ::= ", r);
            print(&b, rule_root[r]);
        }
        tt_buf_putc(&b, '\0');
        assert_int_equal(tt_buf_status(&b, NULL), TT_OK);
        compare((const char *)b.data, &took, &refused);
        tt_buf_free(&b);
    }
    assert_true(took > 1000 && refused > 1000);
}

/* ---- faults ---- */

static void refused(const char *grammar, size_t n, tt_status want, const char *said)
{
    tt_automaton m = {0}, untouched = {0};
    tt_error err = {0};
    tt_status st = tt_compile_ebnf(grammar, n, &m, &err);
    if (st != want || (said != NULL && strstr(err.message, said) == NULL))
        fail_msg("%.200s: status %d, \"%s\" where \"%s\" should be", grammar, st, err.message,
                 said);
    assert_memory_equal(&m, &untouched, sizeof m);
}

static void faults_are_told_with_their_place(void **state)
{
    static const struct {
        const char *grammar, *said;
    } cases[] = {
        {"", "no rule \"root\""},
        {"a ::= \"b\"", "no rule \"root\""},
        {"root ::= a", "line 1: there is no rule \"a\""},
        {"root ::= \"x\"\n  | b\nc ::= b", "line 2: there is no rule \"b\""},
        {"root ::= \"a", "line 1, column 10: a string without an end"},
        {"root ::= \"a\n\"", "line 1, column 10: a string without an end"},
        {"root ::=\n [a", "line 2, column 2: a class without an end"},
        {"root ::=\n [b-a]", "line 2, column 3: a range that is none"},
        {"root ::= [\\d-z]", "line 1, column 11: a range that is none"},
        {"root ::= (\"a\"", "line 1, column 10: a bracket without an end"},
        {"root ::= \"a\")", "line 1, column 13: a bracket that was not opened"},
        {"root ::= \"\\q\"", "line 1, column 11: an unknown escape"},
        {"root ::= \"\\x4\"", "line 1, column 11: an escape with too few digits"},
        {"root ::= \"\\ud800\"", "line 1, column 11: an escape that is no character"},
        {"root ::= \"\\x00\"", "line 1, column 11: an escape that is no character"},
        {"root ::= \"\\U00110000\"", "line 1, column 11: an escape that is no character"},
        {"root ::= \"a\"{", "line 1, column 13: a repetition without a number"},
        {"root ::= \"a\"{1", "line 1, column 13: a repetition without an end"},
        {"root ::= \"a\"{3,2}", "line 1, column 13: bounds in the wrong order"},
        {"root ::= \"a\"{100001}", "line 1, column 13: more than 100,000 repetitions"},
        {"root ::= \"a\"{99999999999999999999}", "line 1, column 13: more than 100,000"},
        {"root ::= \"a\"**", "line 1, column 14: two repetitions"},
        {"root ::= *", "line 1, column 10: a character that means nothing here"},
        {"root ::= @x", "line 1, column 10: an @ without a string"},
        {"root ::= @\"\"", "line 1, column 10: a token without an end"},
        {"root ::= @\"a", "line 1, column 10: a token without an end"},
        {"root = \"a\"", "line 1, column 1: no rule"},
        {"# one\nroot ::= \"a\"; \"b\"", "line 2, column 15: no rule"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: a rule of this name"},
        {"root ::= root \"a\"", "line 1: rule \"root\" begins with itself"},
        {"root ::= a\na ::= b \"x\"\nb ::= a \"y\" | \"z\"",
         "line 2: rule \"a\" begins with itself"},
        {"root ::= e root \"a\"\ne ::= \"b\"?", "begins with itself"},
        {"root ::= (\"\" | \"b\") root", "begins with itself"},
        {"root ::= \"a\\", "a backslash at the end"},
        {"root ::= \xff", "line 1, column 10: not valid UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].grammar, strlen(cases[i].grammar), TT_ERR_INVALID, cases[i].said);
    refused("root ::= \"\0\"", 12, TT_ERR_INVALID, "line 1, column 11: a NUL character");
    refused("root ::= \"a\" root", 17, TT_ERR_INVALID, NULL);
    refused("root ::= [^\\x01-\\U0010ffff]", 27, TT_ERR_INVALID, NULL);
}

/* n times a text, between two others. */
static char *many(const char *before, const char *text, size_t n, const char *after)
{
    tt_buf b;
    tt_buf_init(&b, 8 * TT_MIB);
    tt_buf_puts(&b, before);
    for (size_t i = 0; i < n; i++)
        tt_buf_puts(&b, text);
    tt_buf_puts(&b, after);
    char *s = tt_buf_steal(&b, NULL);
    assert_non_null(s);
    return s;
}

static void refused_many(const char *before, const char *text, size_t n, const char *after,
                         tt_status want, const char *said)
{
    char *s = many(before, text, n, after);
    refused(s, strlen(s), want, said);
    free(s);
}

static void hostile_grammars_end_in_a_refusal(void **state)
{
    static const char *const large[] = {
        "root ::= ((\"a\"{1000}){1000}){1000}",
        "root ::= (((.{100}){100}){100}){100}",
        "root ::= (\"a\" | \"b\")* \"a\" (\"a\" | \"b\"){24}",
        "root ::= \"a\"{0,100000}{0,100000}",
        "root ::= ((\"a\"{0,1000}){0,1000}){0,1000}",
    };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        refused(large[i], strlen(large[i]), strstr(large[i], "}{") ? TT_ERR_INVALID : TT_ERR_LIMIT,
                NULL);
    refused_many("root ::= ", "(", 101, "", TT_ERR_INVALID, "more than 100 brackets");
    refused_many("root ::= ", "(", 100000, "", TT_ERR_INVALID, "more than 100 brackets");
    refused_many("root ::= \"", "a", TT_MIB, "\"", TT_ERR_LIMIT, "1048576 are read");
    refused_many("root ::= \"", "a", 200000, "\"", TT_ERR_LIMIT, NULL);
    tt_buf b;
    tt_buf_init(&b, TT_MIB);
    tt_buf_puts(&b, "root ::= \"a\"\n");
    for (int i = 0; i < 10000; i++)
        tt_buf_printf(&b, "r%d ::= \"a\"\n", i);
    refused((const char *)b.data, b.len, TT_ERR_LIMIT, "more than 10000 rules");
    tt_buf_free(&b);
    /* Rules that need one another deeper than answers may be. */
    tt_buf_init(&b, TT_MIB);
    tt_buf_puts(&b, "root ::= \"a\" r0 \"b\"\n");
    for (int i = 0; i < 200; i++)
        tt_buf_printf(&b, "r%d ::= \"a\" r%d \"b\"\n", i, i + 1);
    tt_buf_puts(&b, "r200 ::= \"c\"");
    refused((const char *)b.data, b.len, TT_ERR_LIMIT, NULL);
    tt_buf_free(&b);
}

/* 100 brackets are taken, and a rule may call itself without end where it is the last thing. */
static void limits_are_not_met_early(void **state)
{
    char *open = many("root ::= ", "(", 100, "\"a\"");
    char *all = many(open, ")", 100, "");
    tt_automaton m = automaton_of_ebnf(all);
    assert_true(automaton_takes(&m, "a", 1));
    tt_automaton_free(&m);
    free(open);
    free(all);
    m = automaton_of_ebnf("root ::= \"a\" root | \"b\"");
    char *text = many("", "a", 100000, "b");
    assert_true(automaton_takes(&m, text, strlen(text)));
    free(text);
    tt_automaton_free(&m);
    /* Inside one another there are 64, and what is deeper has no beginning. */
    m = automaton_of_ebnf("root ::= \"(\" root \")\" | \"x\"");
    open = many("", "(", 60, "x");
    all = many(open, ")", 60, "");
    assert_true(automaton_takes(&m, all, strlen(all)));
    free(open);
    free(all);
    open = many("", "(", 1000, "");
    tt_gmatcher t = matcher_at(&m, m.starts.plain);
    size_t n = tt_gmatcher_push(&t, open, 1000);
    assert_in_range(n, TT_AUTOMATON_NEST - 2, TT_AUTOMATON_NEST + 1);
    assert_int_equal(tt_gmatcher_push(&t, open, n), n);
    assert_int_equal(tt_gmatcher_push(&t, "(", 1), 0);
    assert_int_equal(tt_gmatcher_push(&t, "x", 1), 1);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(tt_gmatcher_push(&t, ")", 1), 1);
    assert_true(tt_gmatcher_complete(&t));
    tt_gmatcher_free(&t);
    free(open);
    tt_automaton_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_taken),
        cmocka_unit_test(only_characters_of_a_text),
        cmocka_unit_test(random_grammars_are_what_they_say),
        cmocka_unit_test(faults_are_told_with_their_place),
        cmocka_unit_test(hostile_grammars_end_in_a_refusal),
        cmocka_unit_test(limits_are_not_met_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
