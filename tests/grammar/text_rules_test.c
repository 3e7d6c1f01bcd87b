/* Proves that strings of a format take what the format is, and nothing beside it, to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "grammar/compile.h"
#include "support/taken.h"

static const struct {
    const char *format;
    const char *good[8], *bad[8];
} formats[] = {
    {"date",
     {"2024-02-29", "2000-02-29", "2023-12-31"},
     {"2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "2024-00-10", "24-01-01"}},
    {"time",
     {"23:59:59Z", "00:00:00.123+05:30"},
     {"24:00:00Z", "12:60:00Z", "12:00:00", "12:00:00+24:00", "1:00:00Z"}},
    {"date-time",
     {"2024-02-29T12:00:00Z", "2024-01-01T00:00:00.5-08:00"},
     {"2024-02-30T12:00:00Z", "2024-02-29 12:00:00Z", "2024-02-29"}},
    {"duration",
     {"P1Y2M3DT4H5M6S", "PT5M", "P3W", "P1D"},
     {"P", "PT", "P1", "1D", "P1W2D", "P1DT", "PT1S2M"}},
    {"email",
     {"a@b.org", "a.b+c@x-y.example.com"},
     {"a@b", "@b.org", "a..b@c.org", "a@-b.org", "a b@c.org"}},
    {"hostname", {"a", "a-b.example", "1.2"}, {"", "-a", "a-", "a..b", "a_b"}},
    {"ipv4", {"0.0.0.0", "255.255.255.255"}, {"256.1.1.1", "1.1.1", "01.1.1.1", "1.1.1.1."}},
    {"ipv6",
     {"::", "::1", "1:2:3:4:5:6:7:8", "fe80::a:b", "::ffff:1.2.3.4", "1::8"},
     {"1:2:3:4:5:6:7", "1::2::3", ":1", "12345::", "1:2:3:4:5:6:7:8:9"}},
    {"uuid",
     {"123e4567-e89b-12d3-a456-426614174000"},
     {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"}},
};

static void takes_its_format(void **state)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char text[200];
        tt_automaton m = {0};
        tt_error err = {0};
        snprintf(text, sizeof text, "{\"type\":\"string\",\"format\":\"%s\"}", formats[i].format);
        if (tt_compile_schema(text, strlen(text), true, NULL, &m, &err) != TT_OK)
            fail_msg("%s: %s", text, err.message);
        for (int good = 0; good < 2; good++) {
            const char *const *list = good ? formats[i].good : formats[i].bad;
            for (int k = 0; k < 8 && list[k] != NULL; k++) {
                snprintf(text, sizeof text, "\"%s\"", list[k]);
                if ((taken(&m, text) == TAKEN_ALL) != good)
                    fail_msg("%s %s: %d", formats[i].format, text, taken(&m, text));
            }
        }
        tt_automaton_free(&m);
    }
}

static void compile(const char *format, const char *more, tt_automaton *out)
{
    char text[200];
    tt_error err = {0};
    snprintf(text, sizeof text, "{\"type\":\"string\",\"format\":\"%s\"%s}", format, more);
    *out = (tt_automaton){0};
    if (tt_compile_schema(text, strlen(text), true, NULL, out, &err) != TT_OK)
        fail_msg("%s: %s", text, err.message);
}

/* The byte of a text, behind its quote, with which it goes wrong; TAKEN_ALL: none. */
static void goes_wrong_at_the_right_byte(void **state)
{
    static const struct {
        const char *format, *text;
        int at;
    } texts[] = {
        /* February 29 only where there is one; other months have their days. */
        {"date", "2024-02-29", TAKEN_ALL},
        {"date", "2023-02-29", 9},
        {"date", "2000-02-29", TAKEN_ALL},
        {"date", "1900-02-29", 9},
        {"date", "2100-02-29", 9},
        {"date", "2400-02-29", TAKEN_ALL},
        {"date", "0004-02-29", TAKEN_ALL},
        {"date", "2096-02-30", 8},
        {"date", "2023-02-28", TAKEN_ALL},
        {"date", "2024-04-31", 9},
        {"date", "2024-12-31", TAKEN_ALL},
        {"date", "2024-12-32", 9},
        {"date", "2024-00", 6},
        {"date", "2024-13", 6},
        {"date", "2024-01-00", 9},
        {"date", "02024", 4},
        {"time", "23:59:59.123456789Z", TAKEN_ALL},
        {"time", "23:59:59.1234567890", 18},
        {"time", "23:59:60Z", 6},
        {"time", "24", 1},
        {"time", "12:00:00.Z", 9},
        {"time", "12:00:00+23:59", TAKEN_ALL},
        {"time", "12:00:00+24", 10},
        {"date-time", "2024-02-29t", 10},
        {"date-time", "2023-02-29", 9},
        {"duration", "P", TAKEN_SHORT},
        {"duration", "P1Y1W", 4},
        {"duration", "PT1S1", 4},
        {"duration", "P0D", TAKEN_ALL},
        {"duration", "P1.5D", 2},
        /* Octets without zeros in front. */
        {"ipv4", "255.255.255.255", TAKEN_ALL},
        {"ipv4", "256", 2},
        {"ipv4", "00", 1},
        {"ipv4", "1.2.3.4.", 7},
        {"ipv6", "1:2:3:4:5:6:7:8", TAKEN_ALL},
        {"ipv6", "1:2:3:4:5:6:7:8:", 15},
        {"ipv6", "1::2::", 5},
        {"ipv6", "::ffff:255.255.255.255", TAKEN_ALL},
        {"ipv6", "12345", 4},
        {"ipv6", "1:2:3:4:5:6:7::", TAKEN_ALL},
        {"uuid", "00000000-0000-0000-0000-000000000000", TAKEN_ALL},
        {"uuid", "0000000-", 7},
        {"email", "a@b.c", TAKEN_ALL},
        {"email", ".a", 0},
        {"email", "a..", 2},
        {"email", "a@b", TAKEN_SHORT},
        {"email", "a@-", 2},
        {"email", "a@b-.c", 4},
        /* What may stand behind the scheme: an authority, a path with or without a slash. */
        {"uri", "http://h", TAKEN_ALL},
        {"uri", "http://u:p@h:80/p/q;v=1?k=v/?#f/?", TAKEN_ALL},
        {"uri", "a://", TAKEN_ALL},
        {"uri", "a:///p", TAKEN_ALL},
        {"uri", "a:/", TAKEN_ALL},
        {"uri", "a:/p//q", TAKEN_ALL},
        {"uri", "a:b@c/d", TAKEN_ALL},
        {"uri", "a:", TAKEN_SHORT},
        {"uri", "a:?", 2},
        {"uri", "1a:b", 0},
        {"uri", "/p", 0},
        {"uri", "a b", 1},
        {"uri", "a+.-1:x", TAKEN_ALL},
        {"uri", "a://h:8x", TAKEN_SHORT}, /* may be a user yet */
        {"uri", "a://u@h:8x", 9},
        {"uri", "a:%4", TAKEN_SHORT},
        {"uri", "a:%4g", 4},
        {"uri", "a:b#c#", 5},
        {"uri", "a://[", 4},
        {"uri", "a:b\303\251", 3},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tt_automaton m;
        char text[100];
        bool all = texts[i].at == TAKEN_ALL;
        compile(texts[i].format, "", &m);
        snprintf(text, sizeof text, "\"%s%s", texts[i].text, all ? "\"" : "");
        int at = taken(&m, text), want = texts[i].at < 0 ? texts[i].at : texts[i].at + 1;
        if (at != want)
            fail_msg("%s %s: %d", texts[i].format, text, at);
        if (texts[i].at == TAKEN_SHORT) {
            snprintf(text, sizeof text, "\"%s\"", texts[i].text);
            assert_int_equal(taken(&m, text), strlen(text) - 1);
        }
        tt_automaton_free(&m);
    }
}

/* Labels of 63 characters, 253 together. */
static void host_names_have_lengths(void **state)
{
    tt_automaton m;
    char text[400];
    compile("hostname", "", &m);
    for (int last = 60; last <= 64; last++) {
        memset(text, 'a', sizeof text);
        text[0] = '"';
        strcpy(text + 1 + last, "\"");
        assert_int_equal(taken(&m, text), last <= 63 ? TAKEN_ALL : 64);
        /* With three labels of 63 in front and their dots there are 61 characters left. */
        memset(text, 'a', sizeof text);
        text[0] = '"';
        for (int i = 1; i <= 3; i++)
            text[64 * i] = '.';
        strcpy(text + 1 + 192 + last, "\"");
        assert_int_equal(taken(&m, text), last <= 61 ? TAKEN_ALL : 254);
    }
    tt_automaton_free(&m);
    /* A shorter greatest length of the schema's own. */
    compile("hostname", ",\"maxLength\":3", &m);
    assert_int_equal(taken(&m, "\"a.b\""), TAKEN_ALL);
    assert_int_equal(taken(&m, "\"ab.c"), 3); /* a dot would want one more */
    assert_int_equal(taken(&m, "\"ab-"), 3);
    tt_automaton_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_its_format),
        cmocka_unit_test(goes_wrong_at_the_right_byte),
        cmocka_unit_test(host_names_have_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
