/* Proves that strings of a format take what the format is, and nothing beside it. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_its_format)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
