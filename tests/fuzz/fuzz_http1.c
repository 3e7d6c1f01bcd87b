/* Proves that no bytes do harm to the HTTP reader and its policy, and that cuts change nothing: the
 * input is read whole, byte by byte, and in pieces of a length that its first byte gives, and what
 * happens is compared. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MOST 1000

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* What happened: heads, bodies and the end, in one row of bytes. */
typedef struct story {
    char *text;
    size_t len, cap;
} story;

static void tell(story *s, const void *bytes, size_t n)
{
    if (s->len + n > s->cap) {
        s->cap = (s->len + n) * 2 + 256;
        s->text = realloc(s->text, s->cap);
        must(s->text != NULL);
    }
    memcpy(s->text + s->len, bytes, n);
    s->len += n;
}

static void tell_head(story *s, const tt_http1 *h)
{
    static const char *const names[] = {"host", "content-length", "transfer-encoding", "x"};
    int64_t length = tt_http1_content_length(h);
    tell(s, tt_http1_method(h), strlen(tt_http1_method(h)) + 1);
    tell(s, tt_http1_target(h), strlen(tt_http1_target(h)) + 1);
    tell(s, &length, sizeof length);
    must(tt_http1_target(h)[0] == '/' && strlen(tt_http1_target(h)) < TT_HTTP1_LINE_MAX);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsigned n;
        const char *value = tt_http1_field(h, names[i], &n);
        must((n == 0) == (value == NULL) && n <= TT_HTTP1_FIELDS);
        if (value != NULL)
            tell(s, value, strlen(value) + 1);
    }
    /* What smuggling needs. */
    unsigned lengths, codings;
    tt_http1_field(h, "content-length", &lengths);
    tt_http1_field(h, "transfer-encoding", &codings);
    must(lengths + codings <= 1 && (codings == 1) == (length < 0));
}

/* Whatever a head holds: nobody without the key, no CORS for who was not named. */
static void judge(const tt_http1 *h)
{
    static const char *const named[] = {"https://a.example"};
    static const tt_http_policy p = {.port = 8080, .origins = named, .n_origins = 1, .key = "k"};
    tt_http_verdict v;
    bool in = tt_http_admit(&p, h, &v);
    must(in == (v.status == 0) && (in || (v.code != NULL && v.text != NULL)));
    must(v.allow_origin == NULL || strcasecmp(v.allow_origin, named[0]) == 0);
    must(!v.preflight || (in && v.allow_origin != NULL));
    const char *target = tt_http1_target(h);
    must(!in || v.preflight || tt_http1_field(h, "authorization", NULL) != NULL ||
         tt_http1_field(h, "x-api-key", NULL) != NULL || target[strcspn(target, "?") - 1] == '/' ||
         strncmp(target, "/health", 7) == 0);
    must(!in || tt_http1_field(h, "host", NULL) != NULL);
    bool fits = tt_http_check_content(h, &v);
    must(fits || v.status == 400 || v.status == 415);
}

static void read_cut(story *s, const char *bytes, size_t size, size_t piece)
{
    tt_http1 h;
    tt_http1_event e = {0};
    uint64_t body = 0;
    tt_http1_init(&h);
    for (size_t at = 0; at < size && e.kind != TT_HTTP1_REFUSED;) {
        size_t n = size - at < piece ? size - at : piece;
        do {
            size_t k = tt_http1_feed(&h, bytes + at, n, &e);
            must(k <= n && h.text.len <= TT_HTTP1_HEAD_MAX);
            at += k;
            n -= k;
            if (e.kind == TT_HTTP1_HEAD) {
                body = 0;
                tell_head(s, &h);
                judge(&h);
                (void)tt_http1_allow_body(&h, BODY_MOST);
            } else if (e.kind == TT_HTTP1_BODY) {
                body += e.len;
                must(e.len > 0 && body <= BODY_MOST && e.data + e.len == bytes + at);
                tell(s, e.data, e.len);
            } else if (e.kind == TT_HTTP1_END) {
                must(h.chunked || body == h.length);
                tell(s, "\n", 1);
                tt_http1_next(&h);
            } else if (e.kind == TT_HTTP1_REFUSED) {
                must(tt_http1_refusal_status(e.why) >= 400);
                tell(s, &e.why, sizeof e.why);
            }
        } while (e.kind != TT_HTTP1_MORE && e.kind != TT_HTTP1_REFUSED);
        must(e.kind == TT_HTTP1_REFUSED || n == 0);
    }
    tt_http1_free(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t pieces[3] = {size, 1, data[0] == 0 ? 256 : data[0]};
    story first = {0};
    for (int i = 0; i < 3; i++) {
        story s = {0};
        read_cut(&s, bytes, size - 1, pieces[i]);
        if (i == 0) {
            first = s;
            continue;
        }
        must(s.len == first.len && (s.len == 0 || memcmp(s.text, first.text, s.len) == 0));
        free(s.text);
    }
    free(first.text);

    char out[64];
    size_t n = size - 1;
    if (tt_http1_decode(bytes, n, out, sizeof out))
        must(strlen(out) <= n && strlen(out) < sizeof out);
    return 0;
}
