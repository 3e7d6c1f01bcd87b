/* Answers as bytes; docs/http.md sections 2.6, 3 and 6. */
#include "server/reply.h"

#include <string.h>
#include <time.h>

/* ---- envelopes ---- */

static bool is_at_or_below(const char *target, const char *path)
{
    size_t n = strlen(path);
    return strncmp(target, path, n) == 0 && strchr("/?", target[n]) != NULL;
}

tt_envelope tt_reply_envelope(const char *target, bool anthropic_version)
{
    if (target == NULL)
        return TT_ENVELOPE_OPENAI;
    return is_at_or_below(target, "/v1/messages") ||
                   (anthropic_version && is_at_or_below(target, "/v1/models"))
               ? TT_ENVELOPE_ANTHROPIC
               : TT_ENVELOPE_OPENAI;
}

int tt_reply_status(tt_envelope envelope, int status)
{
    return envelope == TT_ENVELOPE_ANTHROPIC && status == 429 ? 529 : status;
}

static const char *openai_type(int status)
{
    switch (status) {
    case 429:
        return "rate_limit_error";
    case 500:
    case 503:
        return "server_error";
    default:
        return "invalid_request_error";
    }
}

static const char *anthropic_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
    case 503:
    case 529:
        return "overloaded_error";
    case 500:
        return "api_error";
    default:
        return "invalid_request_error";
    }
}

/* ---- text as JSON ---- */

/* Bytes of the character at p, or 0 when it is none: overlong forms, surrogates and numbers past
 * U+10FFFF are none. */
static size_t character(const unsigned char *p, size_t n)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (len == 0 || p[0] > 0xf4 || len > n)
        return 0;
    if (p[0] == 0xe0)
        low = 0xa0;
    else if (p[0] == 0xed)
        high = 0x9f;
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i < len; i++, low = 0x80, high = 0xbf)
        if (p[i] < low || p[i] > high)
            return 0;
    return len;
}

static void escape(tt_buf *out, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *at = c == 0 ? NULL : strchr(plain, c);
    if (at == NULL)
        tt_buf_printf(out, "\\u%04x", c);
    else
        tt_buf_printf(out, "\\%c", letter[at - plain]);
}

void tt_reply_write_text(tt_buf *out, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t done = 0, i = 0;
    tt_buf_putc(out, '"');
    while (i < len) {
        size_t n = character(p + i, len - i);
        bool special = n == 1 && (p[i] < ' ' || p[i] == '"' || p[i] == '\\' || p[i] == 0x7f);
        if (n > 0 && !special) {
            i += n;
            continue;
        }
        tt_buf_append(out, text + done, i - done);
        if (n == 0)
            tt_buf_puts(out, "\xef\xbf\xbd");
        else
            escape(out, p[i]);
        done = ++i;
    }
    tt_buf_append(out, text + done, len - done);
    tt_buf_putc(out, '"');
}

bool tt_reply_is_text(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0, n; i < len; i += n)
        if ((n = character(p + i, len - i)) == 0)
            return false;
    return true;
}

size_t tt_reply_piece(const char *text, size_t len, size_t most)
{
    size_t n = len < most ? len : most;
    while (n < len && n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static void write_string(tt_buf *out, const char *text)
{
    if (text == NULL)
        tt_buf_puts(out, "null");
    else
        tt_reply_write_text(out, text, strlen(text));
}

/* ---- errors ---- */

/* Codes that clients of Anthropic's interface look for in the details of an error. */
static bool is_detail(const char *code)
{
    return code != NULL && strcmp(code, "thread_unsupported_request") == 0;
}

void tt_reply_write_error(tt_buf *out, tt_envelope envelope, const tt_reply_error *error,
                          const char *request_id)
{
    tt_buf message;
    if (envelope == TT_ENVELOPE_OPENAI) {
        tt_buf_puts(out, "{\"error\":{\"message\":");
        write_string(out, error->message);
        tt_buf_printf(out, ",\"type\":\"%s\",\"param\":", openai_type(error->status));
        write_string(out, error->param);
        tt_buf_puts(out, ",\"code\":");
        write_string(out, error->code);
        tt_buf_puts(out, "}}");
        return;
    }
    tt_buf_init(&message, 1 << 16);
    if (error->param != NULL)
        tt_buf_printf(&message, "%s: ", error->param);
    tt_buf_puts(&message, error->message);
    tt_buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                  anthropic_type(error->status));
    write_string(out, message.failed == TT_OK ? message.data : error->message);
    if (is_detail(error->code))
        tt_buf_printf(out, ",\"details\":{\"error_code\":\"%s\"}", error->code);
    tt_buf_puts(out, "},\"request_id\":");
    write_string(out, request_id);
    tt_buf_putc(out, '}');
    tt_buf_free(&message);
}

/* ---- heads ---- */

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {413, "Content Too Large"},
                   {414, "URI Too Long"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"},
                   {529, "Overloaded"}};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "";
}

/* In English whatever the locale is. */
static void write_date(tt_buf *out, int64_t now)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t t = (time_t)now;
    struct tm g;
    if (gmtime_r(&t, &g) == NULL)
        return;
    tt_buf_printf(out, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n", days + 3 * g.tm_wday,
                  g.tm_mday, months + 3 * g.tm_mon, g.tm_year + 1900, g.tm_hour, g.tm_min,
                  g.tm_sec);
}

static void write_access(tt_buf *out, const tt_reply_head *head)
{
    const tt_http_verdict *v = head->verdict;
    if (v == NULL)
        return;
    if (v->ask_for_key && head->status == 401)
        tt_buf_puts(out, "WWW-Authenticate: Bearer\r\n");
    if (v->allow_origin == NULL)
        return;
    tt_buf_printf(out,
                  "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
                  "Access-Control-Expose-Headers: x-request-id, request-id, retry-after\r\n",
                  v->allow_origin);
    if (!v->preflight || head->status != 204)
        return;
    tt_buf_printf(out, "Access-Control-Allow-Methods: %s\r\nAccess-Control-Max-Age: 600\r\n",
                  head->allow == NULL ? "" : head->allow);
    if (v->allow_headers != NULL)
        tt_buf_printf(out, "Access-Control-Allow-Headers: %s\r\n", v->allow_headers);
}

void tt_reply_write_head(tt_buf *out, const tt_reply_head *head)
{
    bool stream = head->length == TT_LENGTH_STREAM;
    tt_buf_printf(out, "HTTP/1.1 %d %s\r\n", head->status, reason(head->status));
    write_date(out, head->now);
    if (head->status != 204)
        tt_buf_printf(out, "Content-Type: %s\r\n",
                      head->type == NULL ? "application/json" : head->type);
    if (head->status != 204 && !stream)
        tt_buf_printf(out, "Content-Length: %lld\r\n", (long long)head->length);
    if (stream && !head->old)
        tt_buf_puts(out, "Transfer-Encoding: chunked\r\n");
    tt_buf_puts(out, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
    if (head->request_id != NULL)
        tt_buf_printf(out, "%s: %s\r\n",
                      head->envelope == TT_ENVELOPE_ANTHROPIC ? "request-id" : "x-request-id",
                      head->request_id);
    if (head->allow != NULL)
        tt_buf_printf(out, "Allow: %s\r\n", head->allow);
    if (head->retry_after > 0)
        tt_buf_printf(out, "Retry-After: %u\r\n", head->retry_after);
    if (head->fields != NULL)
        tt_buf_puts(out, head->fields);
    write_access(out, head);
    if (head->close || head->old)
        tt_buf_puts(out, "Connection: close\r\n");
    tt_buf_puts(out, "\r\n");
}

void tt_reply_write_refusal(tt_buf *out, const tt_reply_head *head, const tt_reply_error *error,
                            bool no_body)
{
    tt_reply_head h = *head;
    tt_buf body;
    tt_buf_init(&body, 1 << 16);
    tt_reply_write_error(&body, head->envelope, error, head->request_id);
    h.status = tt_reply_status(head->envelope, error->status);
    h.type = NULL;
    h.length = (int64_t)body.len;
    /* A body that could not be made is none; the status line still says what matters. */
    if (body.failed != TT_OK)
        h.length = 0;
    tt_reply_write_head(out, &h);
    if (!no_body)
        tt_buf_append(out, body.data, (size_t)h.length);
    tt_buf_free(&body);
}

/* ---- streams ---- */

static void begin_chunk(tt_buf *out, bool chunked, size_t len)
{
    if (chunked)
        tt_buf_printf(out, "%zx\r\n", len);
}

static void end_chunk(tt_buf *out, bool chunked)
{
    if (chunked)
        tt_buf_puts(out, "\r\n");
}

void tt_sse_write(tt_buf *out, bool chunked, const char *name, const char *data, size_t len)
{
    /* "event: NAME\n", "data: DATA\n", "\n" */
    begin_chunk(out, chunked, (name == NULL ? 0 : strlen(name) + 8) + len + 8);
    if (name != NULL)
        tt_buf_printf(out, "event: %s\n", name);
    tt_buf_puts(out, "data: ");
    tt_buf_append(out, data, len);
    tt_buf_puts(out, "\n\n");
    end_chunk(out, chunked);
}

void tt_sse_write_comment(tt_buf *out, bool chunked, const char *text)
{
    begin_chunk(out, chunked, strlen(text) + 4);
    tt_buf_printf(out, ": %s\n\n", text);
    end_chunk(out, chunked);
}

void tt_sse_write_end(tt_buf *out, bool chunked)
{
    if (chunked)
        tt_buf_puts(out, "0\r\n\r\n");
}
