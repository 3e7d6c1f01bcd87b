#include "repack/hub_response.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static void begin_answer(tt_hub_response *r, int status)
{
    r->status = status;
    r->length = r->first = r->last = r->total = r->retry_after = TT_HUB_UNKNOWN;
    r->etag[0] = r->error_code[0] = r->error_text[0] = '\0';
}

void tt_hub_response_init(tt_hub_response *r)
{
    *r = (tt_hub_response){.linked_size = TT_HUB_UNKNOWN};
    begin_answer(r, 0);
}

/* Digits from *p on; false when there are none or they overflow. */
static bool digits(const char **p, const char *end, uint64_t *out)
{
    uint64_t v = 0;
    const char *s = *p;
    while (s < end && *s >= '0' && *s <= '9') {
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return false;
        s++;
    }
    if (s == *p)
        return false;
    *p = s;
    *out = v;
    return true;
}

static void number(uint64_t *out, const char *s, const char *end)
{
    uint64_t v = 0;
    *out = digits(&s, end, &v) && s == end && v != TT_HUB_UNKNOWN ? v : TT_HUB_UNKNOWN;
}

/* "bytes 0-7/4096", "bytes 0-7/ *" or, with status 416, "bytes * /4096". */
static void content_range(tt_hub_response *r, const char *s, const char *end)
{
    uint64_t first = TT_HUB_UNKNOWN, last = TT_HUB_UNKNOWN, total = TT_HUB_UNKNOWN;
    if (end - s < 6 || strncasecmp(s, "bytes ", 6) != 0)
        return;
    s += 6;
    if (s < end && *s == '*') {
        s++;
    } else {
        if (!digits(&s, end, &first) || s == end || *s++ != '-' || !digits(&s, end, &last) ||
            last < first)
            return;
    }
    if (s == end || *s++ != '/')
        return;
    if (!(end - s == 1 && *s == '*') && (!digits(&s, end, &total) || s != end))
        return;
    if (first != TT_HUB_UNKNOWN && total != TT_HUB_UNKNOWN && last >= total)
        return;
    r->first = first;
    r->last = last;
    r->total = total;
}

/* Printable ASCII only; too long is absent. */
static void text(char *out, size_t size, const char *s, const char *end)
{
    size_t n = (size_t)(end - s);
    out[0] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] > 0x7e)
            return;
    if (n >= size)
        return;
    memcpy(out, s, n);
    out[n] = '\0';
}

static void tag(char *out, size_t size, const char *s, const char *end)
{
    if (end - s >= 2 && s[0] == 'W' && s[1] == '/')
        s += 2;
    if (end - s >= 2 && s[0] == '"' && end[-1] == '"') {
        s++;
        end--;
    }
    text(out, size, s, end);
}

static void field(tt_hub_response *r, const char *name, size_t len, const char *s, const char *end)
{
#define IS(t) (len == sizeof(t) - 1 && strncasecmp(name, t, len) == 0)
    if (IS("content-length"))
        number(&r->length, s, end);
    else if (IS("content-range"))
        content_range(r, s, end);
    else if (IS("retry-after"))
        number(&r->retry_after, s, end);
    else if (IS("etag"))
        tag(r->etag, sizeof r->etag, s, end);
    else if (IS("x-error-code"))
        text(r->error_code, sizeof r->error_code, s, end);
    else if (IS("x-error-message"))
        text(r->error_text, sizeof r->error_text, s, end);
    else if (IS("x-repo-commit"))
        text(r->commit, sizeof r->commit, s, end);
    else if (IS("x-linked-etag"))
        tag(r->linked_etag, sizeof r->linked_etag, s, end);
    else if (IS("x-linked-size"))
        number(&r->linked_size, s, end);
#undef IS
}

void tt_hub_response_line(tt_hub_response *r, const char *line, size_t n)
{
    const char *end = line + n, *s = line;
    while (end > line && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (end - s >= 5 && strncasecmp(s, "HTTP/", 5) == 0) {
        uint64_t status = 0;
        while (s < end && *s != ' ')
            s++;
        while (s < end && *s == ' ')
            s++;
        begin_answer(r, digits(&s, end, &status) && status <= 999 ? (int)status : 0);
        return;
    }
    const char *colon = memchr(s, ':', (size_t)(end - s));
    if (colon == NULL)
        return;
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    field(r, s, (size_t)(colon - s), value, end);
}

const char *tt_hub_response_id(const tt_hub_response *r)
{
    return r->linked_etag[0] != '\0' ? r->linked_etag : r->etag;
}
