/* Proves that docs/http.md, section 8, says the numbers that the server keeps, and that the limit
 * of a body follows the context between its ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "server/server_limits.h"

static char *page;

static void bodies_follow_the_context(void **state)
{
    (void)state;
    assert_int_equal(tt_body_limit(0), 16 * TT_MIB);
    assert_int_equal(tt_body_limit(1u << 20), 16 * TT_MIB);
    assert_int_equal(tt_body_limit((1u << 20) + 1), 16 * TT_MIB + 16);
    assert_int_equal(tt_body_limit((4u << 20) - 1), 64 * TT_MIB - 16);
    assert_int_equal(tt_body_limit(UINT32_MAX), 64 * TT_MIB);
}

/* 10000 as "10,000", 65536 as "64 KiB" with the unit. */
static const char *number(uint64_t n, const char *unit)
{
    static char text[64];
    uint64_t in = strcmp(unit, " MiB") == 0 ? TT_MIB : strcmp(unit, " KiB") == 0 ? TT_KIB : 1;
    assert_int_equal(n % in, 0);
    n /= in;
    if (n >= 1000)
        snprintf(text, sizeof text, "%llu,%03llu%s", (unsigned long long)n / 1000,
                 (unsigned long long)n % 1000, unit);
    else
        snprintf(text, sizeof text, "%llu%s", (unsigned long long)n, unit);
    return text;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The number stands in `row` and is not a part of a longer one. */
static bool holds(const char *row, const char *end, const char *want)
{
    size_t n = strlen(want);
    for (const char *at = row; at + n <= end; at++)
        if (strncmp(at, want, n) == 0 && !is_digit(at[-1]) && at[-1] != ',' && !is_digit(at[n]) &&
            !(at[n] == ',' && is_digit(at[n + 1])))
            return true;
    return false;
}

static void the_page_says_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *row;
        uint64_t n;
        const char *unit;
    } rows[] = {
        {"body", TT_BODY_BYTES_A_TOKEN, " bytes"},
        {"body", TT_BODY_LEAST, " MiB"},
        {"body", TT_BODY_MOST, " MiB"},
        {"all bodies and JSON trees together", TT_REQUEST_MEMORY, " MiB"},
        {"first line", TT_HTTP1_LINE_MAX, " bytes"},
        {"header block", TT_HTTP1_HEAD_MAX, " KiB"},
        {"header block", TT_HTTP1_FIELDS, " fields"},
        {"header deadline", TT_HEADER_SECONDS, " s"},
        {"body deadline", TT_BODY_SECONDS, " s"},
        {"keep-alive", TT_KEEP_ALIVE, " s"},
        {"connections", TT_CONNECTIONS, ""},
        {"connections", TT_DESCRIPTORS_SPARE, ""},
        {"pipelined ahead", TT_PIPELINED_AHEAD, " KiB"},
        {"dropped after a refusal", TT_DRAINED_BYTES, " MiB"},
        {"dropped after a refusal", TT_DRAINED_SECONDS, " s"},
        {"models of `--models-dir`", TT_MODELS, ""},
        {"queue", TT_QUEUE, " waiting"},
        {"queue", TT_QUEUE_MOST, ""},
        {"unread by the client of a stream", TT_OUTBOX, " MiB"},
        {"heartbeat", TT_HEARTBEAT_SECONDS, " s"},
        {"JSON depth", TT_REQUEST_DEPTH, ""},
        {"messages", TT_MESSAGES, ""},
        {"tools", TT_TOOLS, ""},
        {"schemas of tools", TT_SCHEMA, " KiB"},
        {"schemas of tools", TT_SCHEMAS, " MiB"},
        {"the schema of a format", TT_SCHEMA, " KiB"},
        {"compiled grammars", TT_GRAMMARS, " MiB"},
        {"stop strings", TT_STOP_STRINGS, ""},
        {"stop strings", TT_STOP_BYTES, " bytes"},
        {"one tool call", TT_TOOL_CALL, " KiB"},
        {"stored responses", TT_STORED_RESPONSES, ""},
        {"stored responses", TT_STORED_BYTES, " MiB"},
    };
    const char *section = strstr(page, "\n## 8. ");
    assert_non_null(section);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char begin[80];
        snprintf(begin, sizeof begin, "\n| %s |", rows[i].row);
        const char *row = strstr(section, begin);
        assert_non_null(row);
        const char *want = number(rows[i].n, rows[i].unit);
        if (!holds(row + 1, strchr(row + 1, '\n'), want))
            fail_msg("docs/http.md: the row \"%s\" lacks %s", rows[i].row, want);
    }
}

static int read_page(void **state)
{
    (void)state;
    size_t len;
    return tt_file_read("docs/http.md", 1 << 20, &page, &len, NULL) == TT_OK ? 0 : -1;
}

static int free_page(void **state)
{
    (void)state;
    tt_free(page);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_follow_the_context),
        cmocka_unit_test(the_page_says_the_same),
    };
    return cmocka_run_group_tests(tests, read_page, free_page);
}
