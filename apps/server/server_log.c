#include "server/server_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/reply.h"

#define MOST_LINE 16384u

static void write_time(tt_buf *b)
{
    struct timespec now;
    struct tm t;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &t);
    tt_buf_printf(b, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", t.tm_year + 1900, t.tm_mon + 1,
                  t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, now.tv_nsec / 1000000);
}

static void begin(const tt_server_log *log, tt_buf *b)
{
    tt_buf_init(b, MOST_LINE);
    tt_buf_puts(b, log->json ? "{\"time\":\"" : "");
    write_time(b);
    tt_buf_puts(b, log->json ? "\"" : "");
}

static void end(const tt_server_log *log, tt_buf *b)
{
    tt_buf_puts(b, log->json ? "}\n" : "\n");
    /* A log that cannot be written stops nothing. */
    ssize_t n = b->failed == TT_OK ? write(log->fd, b->data, b->len) : 0;
    (void)n;
    tt_buf_free(b);
}

/* Whether a value can stand in a plain line as it is: visible ASCII without quotes. */
static bool is_bare(const char *value)
{
    for (; *value != '\0'; value++)
        if (*value <= ' ' || *value > '~' || *value == '"' || *value == '\\')
            return false;
    return true;
}

static void word(const tt_server_log *log, tt_buf *b, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    if (log->json) {
        tt_buf_printf(b, ",\"%s\":", name);
        tt_reply_write_text(b, value, strlen(value));
    } else if (!is_bare(value)) {
        tt_buf_printf(b, " %s=", name);
        tt_reply_write_text(b, value, strlen(value));
    } else {
        tt_buf_printf(b, " %s=%s", name, value);
    }
}

static void number(const tt_server_log *log, tt_buf *b, const char *name, double v)
{
    tt_buf_printf(b, log->json ? ",\"%s\":%.10g" : " %s=%.10g", name, v);
}

void tt_log_say(const tt_server_log *log, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    tt_buf b;
    if (log->fd < 0)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    /* Names of files may hold line ends; a line of the log does not. */
    for (char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    begin(log, &b);
    if (log->json)
        word(log, &b, "message", text);
    else
        tt_buf_printf(&b, " %s", text);
    end(log, &b);
}

/* Milliseconds are enough. */
static double rounded(double seconds)
{
    return (double)(long long)(seconds * 1000 + 0.5) / 1000;
}

void tt_log_answer(const tt_server_log *log, const tt_log_request *r)
{
    tt_buf b;
    if (log->fd < 0)
        return;
    begin(log, &b);
    word(log, &b, "id", r->id);
    word(log, &b, "method", r->method);
    word(log, &b, "path", r->path);
    number(log, &b, "status", r->status);
    word(log, &b, "code", r->code);
    word(log, &b, "model", r->model);
    number(log, &b, "wait_s", rounded(r->wait_seconds));
    number(log, &b, "run_s", rounded(r->run_seconds));
    if (r->computed) {
        number(log, &b, "prompt_tokens", (double)r->prompt);
        number(log, &b, "cached_tokens", (double)r->cached);
        word(log, &b, "cache_tier", r->tier);
        word(log, &b, "cache_kind", r->kind);
        word(log, &b, "cache_refused", r->refused);
        number(log, &b, "generated_tokens", (double)r->generated);
        number(log, &b, "reasoning_tokens", (double)r->thought);
    }
    if (r->bad_calls > 0)
        number(log, &b, "unreadable_calls", r->bad_calls);
    word(log, &b, "adjusted", r->adjusted);
    word(log, &b, "ignored", r->ignored);
    word(log, &b, "repaired", r->repaired);
    word(log, &b, "relaxed", r->relaxed);
    word(log, &b, "detail", r->detail);
    end(log, &b);
}
