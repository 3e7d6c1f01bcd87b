#include "server/anthropic_models.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/http1.h"
#include "server/reply.h"

#define PAGE      20u
#define PAGE_MOST 1000u
#define VALUE     128u

/* ---- one model ---- */

static void write_name(tt_buf *b, const char *text)
{
    tt_reply_write_text(b, text, strlen(text));
}

static void write_time(tt_buf *b, int64_t at)
{
    struct tm t;
    time_t seconds = (time_t)at;
    if (gmtime_r(&seconds, &t) == NULL) {
        tt_buf_puts(b, "\"1970-01-01T00:00:00Z\"");
        return;
    }
    tt_buf_printf(b, "\"%04d-%02d-%02dT%02d:%02d:%02dZ\"", t.tm_year + 1900, t.tm_mon + 1,
                  t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
}

static void write_flag(tt_buf *b, const char *name, bool on)
{
    tt_buf_printf(b, "\"%s\":{\"supported\":%s}", name, on ? "true" : "false");
}

static void write_flags(tt_buf *b, const char *const *names, bool on)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        tt_buf_puts(b, i > 0 ? "," : "");
        write_flag(b, names[i], on);
    }
}

static void write_efforts(tt_buf *b, const bool *efforts)
{
    bool any = false;
    tt_buf_puts(b, "\"effort\":{");
    for (int i = TT_EFFORT_LOW; i < TT_EFFORTS; i++) {
        write_flag(b, tt_effort_words[i], efforts[i]);
        tt_buf_putc(b, ',');
        any |= efforts[i];
    }
    tt_buf_printf(b, "\"supported\":%s}", any ? "true" : "false");
}

static void write_capabilities(const tt_listed_model *m, tt_buf *b)
{
    static const char *const absent[] = {"batch",       "citations", "code_execution",
                                         "image_input", "pdf_input", NULL};
    static const char *const strategies[] = {"clear_thinking_20251015", "clear_tool_uses_20250919",
                                             "compact_20260112", NULL};
    static const char *const server_tools[] = {"code_execution", "web_search", NULL};
    static const char *const thinking[] = {"adaptive", "between_tools", "disabled", "enabled",
                                           NULL};
    tt_buf_puts(b, "{");
    write_flags(b, absent, false);
    tt_buf_putc(b, ',');
    write_flag(b, "structured_outputs", true);
    tt_buf_puts(b, ",\"context_management\":{");
    write_flags(b, strategies, false);
    tt_buf_puts(b, ",\"supported\":false},");
    write_efforts(b, m->efforts);
    tt_buf_puts(b, ",\"server_tools\":{");
    write_flags(b, server_tools, false);
    tt_buf_puts(b, ",\"supported\":false},\"thinking\":{\"supported\":true,\"types\":{");
    write_flags(b, thinking, true);
    tt_buf_puts(b, "}}}");
}

void tt_listed_model_write(const tt_listed_model *m, tt_buf *b)
{
    tt_buf_puts(b, "{\"type\":\"model\",\"id\":");
    write_name(b, m->id);
    tt_buf_puts(b, ",\"display_name\":");
    write_name(b, m->id);
    tt_buf_puts(b, ",\"created_at\":");
    write_time(b, m->created);
    tt_buf_printf(b,
                  ",\"max_input_tokens\":%u,\"max_tokens\":%u,\"lifecycle\":\"active\","
                  "\"line\":null,\"deprecated_at\":null,\"retires_at\":null,\"capabilities\":",
                  m->max_context, m->max_context);
    write_capabilities(m, b);
    tt_buf_putc(b, '}');
}

/* ---- a page ---- */

/* The value of `name` in a query; false when it is not there. One that cannot be read is "". */
static bool query_value(const char *target, const char *name, char value[VALUE])
{
    const char *at = strchr(target, '?');
    size_t k = strlen(name);
    while (at != NULL && *at != '\0') {
        at++;
        size_t n = strcspn(at, "&");
        if (n > k && strncmp(at, name, k) == 0 && at[k] == '=') {
            if (!tt_http1_decode(at + k + 1, n - k - 1, value, VALUE))
                value[0] = '\0';
            return true;
        }
        at += n;
    }
    return false;
}

/* *place of the model that the query names, untouched when it names none. */
static bool take_cursor(const char *target, const char *name, const tt_listed_model *list, size_t n,
                        size_t *place, tt_refusal *why)
{
    char value[VALUE];
    if (!query_value(target, name, value))
        return true;
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].id, value) == 0) {
            *place = i;
            return true;
        }
    return tt_refuse_value(why, name, "there is no such model in the list");
}

static bool take_limit(const char *target, size_t *limit, tt_refusal *why)
{
    char value[VALUE];
    if (!query_value(target, "limit", value))
        return true;
    size_t digits = strspn(value, "0123456789");
    *limit = digits > 0 && digits < 5 && value[digits] == '\0' ? strtoul(value, NULL, 10) : 0;
    return (*limit >= 1 && *limit <= PAGE_MOST) ||
           tt_refuse_value(why, "limit", "limit must be from 1 to %u", PAGE_MOST);
}

static void write_page(const tt_listed_model *list, size_t n, bool more, tt_buf *b)
{
    tt_buf_puts(b, "{\"data\":[");
    for (size_t i = 0; i < n; i++) {
        tt_buf_puts(b, i > 0 ? "," : "");
        tt_listed_model_write(&list[i], b);
    }
    tt_buf_printf(b, "],\"has_more\":%s,\"first_id\":", more ? "true" : "false");
    if (n > 0)
        write_name(b, list[0].id);
    else
        tt_buf_puts(b, "null");
    tt_buf_puts(b, ",\"last_id\":");
    if (n > 0)
        write_name(b, list[n - 1].id);
    else
        tt_buf_puts(b, "null");
    tt_buf_putc(b, '}');
}

bool tt_listed_models_write(const char *target, const tt_listed_model *list, size_t n, tt_buf *out,
                            tt_refusal *why)
{
    size_t limit = PAGE, after = SIZE_MAX, before = n;
    if (!take_limit(target, &limit, why) ||
        !take_cursor(target, "after_id", list, n, &after, why) ||
        !take_cursor(target, "before_id", list, n, &before, why))
        return false;
    if (after != SIZE_MAX && before != n)
        return tt_refuse_value(why, "before_id", "before_id and after_id exclude each other");
    size_t first = after == SIZE_MAX ? 0 : after + 1, left = before - first;
    size_t count = left < limit ? left : limit;
    /* A page before a model is the one that ends there. */
    if (before != n)
        first = before - count;
    write_page(list + first, count, left > limit, out);
    return true;
}
