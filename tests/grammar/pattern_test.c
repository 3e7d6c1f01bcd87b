/* Proves that patterns take what a plain evaluator says they do: random trees of them, written out,
 * on every text of up to five letters; and that what is not regular is refused by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/pattern.h"
#include "support/approx.h"

#define MOST_NODES 64
#define MOST_TEXT  5

/* ---- the evaluator: sets of places in a text, as bits ---- */

typedef enum kind { LETTER, ANY, NOT_B, FIRST_TWO, BEGIN, END, CAT, EITHER, REPEAT, KINDS } kind;

typedef struct tree {
    struct node {
        kind kind;
        int a, b, min, max; /* max -1: none */
        char letter;
    } v[MOST_NODES];
    int n;
} tree;

static bool takes_letter(const struct node *x, char c)
{
    return x->kind == LETTER  ? c == x->letter
           : x->kind == NOT_B ? c != 'b'
                              : x->kind == ANY || c == 'a' || c == 'b';
}

static uint32_t after(const tree *t, int at, const char *text, int n, uint32_t from)
{
    const struct node *x = &t->v[at];
    uint32_t to = 0;
    switch (x->kind) {
    case BEGIN:
        return from & 1;
    case END:
        return from & (uint32_t)1 << n;
    case CAT:
        return after(t, x->b, text, n, after(t, x->a, text, n, from));
    case EITHER:
        return after(t, x->a, text, n, from) | after(t, x->b, text, n, from);
    case REPEAT:
        for (int i = 0; i < x->min; i++)
            from = after(t, x->a, text, n, from);
        /* More rounds than there are places bring nothing new. */
        for (int i = x->min; i < (x->max < 0 ? x->min + 12 : x->max); i++)
            from |= after(t, x->a, text, n, from);
        return from;
    default:
        for (int i = 0; i < n; i++)
            if ((from >> i & 1) && takes_letter(x, text[i]))
                to |= (uint32_t)1 << (i + 1);
        return to;
    }
}

static int grow(tree *t, tt_rng *r, int depth)
{
    int at = t->n++;
    struct node x = {.kind = tt_rng_u32(r) % KINDS, .letter = (char)('a' + tt_rng_u32(r) % 3)};
    if (depth == 0 && x.kind >= BEGIN)
        x.kind = LETTER;
    if (x.kind >= CAT) {
        x.a = grow(t, r, depth - 1);
        if (x.kind != REPEAT)
            x.b = grow(t, r, depth - 1);
    }
    x.min = (int)(tt_rng_u32(r) % 3);
    x.max = tt_rng_u32(r) % 2 ? -1 : x.min + (int)(tt_rng_u32(r) % 3);
    t->v[at] = x;
    return at;
}

static void put(const tree *t, int at, tt_buf *out)
{
    const struct node *x = &t->v[at];
    static const char *const words[] = {
        [ANY] = ".", [NOT_B] = "[^b]", [FIRST_TWO] = "[a-b]", [BEGIN] = "^", [END] = "$"};
    switch (x->kind) {
    case LETTER:
        tt_buf_putc(out, x->letter);
        return;
    case CAT:
    case EITHER:
        tt_buf_puts(out, x->kind == CAT ? "(" : "(?:");
        put(t, x->a, out);
        if (x->kind == EITHER)
            tt_buf_putc(out, '|');
        put(t, x->b, out);
        tt_buf_putc(out, ')');
        return;
    case REPEAT:
        tt_buf_puts(out, "(?:");
        put(t, x->a, out);
        if (x->max < 0)
            tt_buf_printf(out, "){%d,}", x->min);
        else
            tt_buf_printf(out, "){%d,%d}", x->min, x->max);
        return;
    default:
        tt_buf_puts(out, words[x->kind]);
    }
}

static void means_what_it_says(void **state)
{
    tt_rng r = {.s = 8};
    uint32_t taken = 0, refused = 0;
    for (int round = 0; round < 1500; round++) {
        tree t = {0};
        tt_dfa d = {0};
        tt_builder b;
        tt_buf text;
        tt_error err = {0};
        tt_buf_init(&text, 65536);
        tt_builder_init(&b);
        grow(&t, &r, 4);
        put(&t, 0, &text);
        if (tt_pattern_dfa(&b, text.data, text.len, &d, &err) != TT_OK)
            fail_msg("%.*s: %s", (int)text.len, text.data, err.message);
        for (int n = 0, count = 1; n <= MOST_TEXT; n++, count *= 3) {
            for (int i = 0; i < count; i++) {
                char s[MOST_TEXT + 1] = {0};
                for (int k = 0, rest = i; k < n; k++, rest /= 3)
                    s[k] = (char)('a' + rest % 3);
                bool want = after(&t, 0, s, n, ((uint32_t)2 << n) - 1) != 0;
                if (tt_dfa_accepts(&d, s, (size_t)n) != want)
                    fail_msg("%.*s on \"%s\": not %d", (int)text.len, text.data, s, want);
                taken += want;
                refused += !want;
            }
        }
        tt_dfa_free(&d);
        tt_builder_free(&b);
        tt_buf_free(&text);
    }
    assert_true(taken > 10000 && refused > 10000);
}

/* ---- single cases ---- */

static const struct {
    const char *pattern, *text;
    bool takes;
} cases[] = {
    {"^\\d{3}-\\w+$", "123-a_Z", true},
    {"^\\d{3}-\\w+$", "12-a", false},
    {"^\\d$", "\331\241", false}, /* an Arabic digit is none */
    {"^\\s$", "\302\240", true},
    {"^\\S$", "\302\240", false},
    {"^.$", "\360\237\230\200", true}, /* one character */
    {"^.$", "\n", false},
    {"^.$", "\342\200\250", false},
    {"^[^]$", "\n", true},
    {"^[]$", "a", false},
    {"^\\u{1F600}$", "\360\237\230\200", true},
    {"^\\ud83d\\ude00$", "\360\237\230\200", true},
    {"^[\\ud83d\\ude00-\\ud83d\\ude02]$", "\360\237\230\201", true},
    {"^\\x41\\u0042\\t$", "AB\t", true},
    {"^[\\b\\-\\]]$", "\b", true},
    {"^[\\w-]+$", "a-b", true},
    {"^[a-]$", "-", true},
    {"^a.*?b$", "axxb", true},
    {"^(?<year>\\d{4})$", "2024", true},
    {"^(?=.*[0-9])(?=.*[a-z]).{2,}$", "a1", true},
    {"^(?=.*[0-9])(?=.*[a-z]).{2,}$", "aa", false},
    {"^(?!ab)[a-c]+$", "abc", false},
    {"^(?!ab)[a-c]+$", "acb", true},
    {"^(?!.*--)[a-]+$", "a-a-", true},
    {"^(?!.*--)[a-]+$", "a--a", false},
    {"a|^b$", "xay", true},
    {"a|^b$", "xb", false},
    {"", "anything", true},
    {"^$", "", true},
    {"^$", "a", false},
    {"^\\/\\.$", "/.", true},
    {"$a", "a", false},
    {"$^", "a", false}, /* the start is not the place behind a character */
    {"$^", "", true},
    {"^a{x}$", "a{x}", true},
};

static void single_cases(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_builder b;
        tt_dfa d = {0};
        tt_error err = {0};
        tt_builder_init(&b);
        if (tt_pattern_dfa(&b, cases[i].pattern, strlen(cases[i].pattern), &d, &err) != TT_OK)
            fail_msg("%s: %s", cases[i].pattern, err.message);
        if (tt_dfa_accepts(&d, cases[i].text, strlen(cases[i].text)) != cases[i].takes)
            fail_msg("%s on \"%s\": not %d", cases[i].pattern, cases[i].text, cases[i].takes);
        tt_dfa_free(&d);
        tt_builder_free(&b);
    }
}

static const struct {
    const char *pattern;
    tt_status status;
    const char *words;
} faults[] = {
    {"(a)\\1", TT_ERR_UNSUPPORTED, "a back reference at character 4"},
    {"\\k<a>", TT_ERR_UNSUPPORTED, "back reference"},
    {"\\bword", TT_ERR_UNSUPPORTED, "word boundary"},
    {"\\p{L}", TT_ERR_UNSUPPORTED, "Unicode property"},
    {"a(?=b)", TT_ERR_UNSUPPORTED, "lookahead"},
    {"(?<=a)b", TT_ERR_UNSUPPORTED, "lookbehind"},
    {"(?<*a>b)", TT_ERR_INVALID, "name"}, /* PCRE2 looks behind here */
    {"(?<>b)", TT_ERR_INVALID, "name"},
    {"(?<1a>b)", TT_ERR_INVALID, "name"},
    {"(?<a", TT_ERR_INVALID, "name"},
    {"^(?=a)b|c", TT_ERR_UNSUPPORTED, "alternatives"},
    {"(?i)a", TT_ERR_UNSUPPORTED, "group of this kind"},
    {"(", TT_ERR_INVALID, "without an end"},
    {"a)", TT_ERR_INVALID, "not opened at character 2"},
    {"[a", TT_ERR_INVALID, "class without an end"},
    {"[b-a]", TT_ERR_INVALID, "range"},
    {"[\\d-z]", TT_ERR_INVALID, "range"},
    {"*a", TT_ERR_INVALID, "stands alone"},
    {"^*", TT_ERR_INVALID, "stands alone"},
    {"a**", TT_ERR_INVALID, "two repetitions"},
    {"a{2}{3}", TT_ERR_INVALID, "two repetitions"},
    {"{2}", TT_ERR_INVALID, "stands alone at character 1"},
    {"^{2}$", TT_ERR_INVALID, "stands alone"},
    {"a{3,2}", TT_ERR_INVALID, "wrong order"},
    {"a{2", TT_ERR_INVALID, "bounds without an end"},
    {"\\", TT_ERR_INVALID, "backslash"},
    {"\\q", TT_ERR_INVALID, "unknown escape"},
    {"\\xg0", TT_ERR_INVALID, "two digits"},
    {"\\u{110000}", TT_ERR_INVALID, "without a character"},
    {"a{100001}", TT_ERR_LIMIT, "100,000 repetitions"},
};

static void names_faults(void **state)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        tt_builder b;
        tt_dfa d = {0};
        tt_error err = {0};
        tt_builder_init(&b);
        tt_status st = tt_pattern_dfa(&b, faults[i].pattern, strlen(faults[i].pattern), &d, &err);
        if (st != faults[i].status || strstr(err.message, faults[i].words) == NULL)
            fail_msg("%s: %d %s", faults[i].pattern, st, err.message);
        assert_null(d.next);
        tt_builder_free(&b);
    }
}

static void nests_no_deeper_than_it_says(void **state)
{
    for (uint32_t depth = TT_PATTERN_NEST; depth <= TT_PATTERN_NEST + 1; depth++) {
        char text[300];
        tt_builder b;
        tt_dfa d = {0};
        memset(text, '(', depth);
        text[depth] = 'a';
        memset(text + depth + 1, ')', depth);
        tt_builder_init(&b);
        assert_int_equal(tt_pattern_dfa(&b, text, 2 * depth + 1, &d, NULL),
                         depth <= TT_PATTERN_NEST ? TT_OK : TT_ERR_LIMIT);
        tt_dfa_free(&d);
        tt_builder_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_what_it_says),
        cmocka_unit_test(single_cases),
        cmocka_unit_test(names_faults),
        cmocka_unit_test(nests_no_deeper_than_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
