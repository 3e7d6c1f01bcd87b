/* Text: making, joining, cutting. Code points count where Python counts. */
#include <string.h>

#include "tokenizer/jinja_int.h"

uint32_t tt_jcp_next(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    if (s[0] < 0x80) {
        *p += 1;
        return s[0];
    }
    if (s[0] < 0xE0) {
        *p += 2;
        return (uint32_t)(s[0] & 0x1F) << 6 | (s[1] & 0x3F);
    }
    if (s[0] < 0xF0) {
        *p += 3;
        return (uint32_t)(s[0] & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 | (s[2] & 0x3F);
    }
    *p += 4;
    return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3F) << 12 |
           (uint32_t)(s[2] & 0x3F) << 6 | (s[3] & 0x3F);
}

uint32_t tt_jcp_prev(const char **p)
{
    do
        --*p;
    while (((unsigned char)**p & 0xC0) == 0x80);
    const char *q = *p;
    return tt_jcp_next(&q);
}

size_t tt_jcp_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

static uint32_t count_cp(const char *p, size_t n)
{
    uint32_t cp = 0;
    for (size_t i = 0; i < n; i++)
        cp += ((unsigned char)p[i] & 0xC0) != 0x80;
    return cp;
}

size_t tt_jcp_offset(const jstr *s, size_t cp)
{
    if (s->n == s->cp)
        return cp < s->n ? cp : s->n;
    if (cp >= s->cp)
        return s->n;
    const char *p = s->p;
    if (cp > s->cp / 2) {
        p = s->p + s->n;
        for (size_t i = s->cp; i > cp; i--)
            tt_jcp_prev(&p);
        return (size_t)(p - s->p);
    }
    for (size_t i = 0; i < cp; i++)
        tt_jcp_next(&p);
    return (size_t)(p - s->p);
}

size_t tt_jcp_index(const jstr *s, size_t offset)
{
    return s->n == s->cp ? offset : count_cp(s->p, offset);
}

/* ---- making ---- */

tt_status tt_jstr_borrow(jrun *r, const char *p, size_t n, jval *out)
{
    jstr *s;
    if (n > UINT32_MAX)
        return tt_jlimit(r, "a text of %zu bytes is too long", n);
    J_NEW(r, s, 1);
    *s = (jstr){.p = p, .n = (uint32_t)n, .cp = count_cp(p, n)};
    *out = J_STR(s);
    return tt_jcharge(r, n / 256);
}

tt_status tt_jstr(jrun *r, const char *p, size_t n, jval *out)
{
    char *copy;
    J_NEW(r, copy, n + 1);
    if (n > 0)
        memcpy(copy, p, n);
    return tt_jstr_borrow(r, copy, n, out);
}

tt_status tt_jstr_buf(jrun *r, tt_buf *b, jval *out)
{
    tt_status st = TT_OK;
    if (b->failed == TT_ERR_LIMIT)
        st = tt_jlimit(r, "a text would be longer than %zu bytes", b->max);
    else if (b->failed != TT_OK)
        st = tt_buf_status(b, r->err);
    else
        st = tt_jstr(r, b->len > 0 ? b->data : "", b->len, out);
    tt_buf_free(b);
    return st;
}

jval tt_jstr_const(jrun *r, const char *text, tt_status *st)
{
    jval v = J_NONE;
    if (*st == TT_OK)
        *st = tt_jstr_borrow(r, text, strlen(text), &v);
    return v;
}

tt_status tt_jsubstr(jrun *r, const jstr *s, size_t from, size_t to, jval *out)
{
    jstr *part;
    size_t n = to > from ? to - from : 0;
    J_NEW(r, part, 1);
    *part = (jstr){.p = s->p + from, .n = (uint32_t)n};
    part->cp = s->n == s->cp ? part->n : count_cp(part->p, n);
    *out = J_STR(part);
    return tt_jcharge(r, 1 + (s->n == s->cp ? 0 : n / 256));
}

bool tt_jstr_is(const jstr *s, const char *text)
{
    size_t n = strlen(text);
    return s->n == n && memcmp(s->p, text, n) == 0;
}

/* Valid UTF-8 sorts by bytes as it does by code points. */
int tt_jstr_cmp(const jstr *a, const jstr *b)
{
    int c = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    if (c != 0)
        return c < 0 ? -1 : 1;
    return a->n < b->n ? -1 : a->n > b->n;
}

const char *tt_jfind(const char *hay, size_t n, const char *needle, size_t m)
{
    return m == 0 ? hay : memmem(hay, n, needle, m);
}

/* ---- joining ---- */

/* Room behind a text that grew: the next text that starts with it may use the rest, so that
 * appending in a loop costs what is appended. */
struct jspare {
    char *bytes;
    size_t used, cap;
};

tt_status tt_jconcat(jrun *r, const jstr *a, const jstr *b, jval *out)
{
    size_t n = (size_t)a->n + b->n;
    jstr *s;
    if (n > UINT32_MAX)
        return tt_jlimit(r, "a text of %zu bytes is too long", n);
    J_NEW(r, s, 1);
    *s = (jstr){.n = (uint32_t)n, .cp = a->cp + b->cp, .spare = a->spare};
    bool append = a->spare != NULL && a->p + a->n == a->spare->bytes + a->spare->used &&
                  a->spare->cap - a->spare->used >= b->n;
    if (!append) {
        struct jspare *spare;
        size_t cap = a->n < 256 ? n + 1 : 2 * n;
        J_NEW(r, spare, 1);
        J_NEW(r, spare->bytes, cap);
        spare->cap = cap;
        spare->used = a->n;
        if (a->n > 0)
            memcpy(spare->bytes, a->p, a->n);
        s->spare = spare;
        s->p = spare->bytes;
        J_TRY(tt_jcharge(r, a->n / 64));
    } else {
        s->p = a->p;
    }
    if (b->n > 0)
        memcpy(s->spare->bytes + s->spare->used, b->p, b->n);
    s->spare->used += b->n;
    *out = J_STR(s);
    return tt_jcharge(r, b->n / 64);
}

tt_status tt_jstr_repeat(jrun *r, const jstr *s, int64_t times, jval *out)
{
    char *p;
    size_t n = 0;
    if (times <= 0 || s->n == 0)
        return tt_jstr_borrow(r, "", 0, out);
    if (__builtin_mul_overflow((size_t)s->n, (size_t)times, &n) || n > r->arena.max)
        return tt_jlimit(r, "a text repeated %lld times is too long", (long long)times);
    J_NEW(r, p, n + 1);
    if (s->n == 1)
        memset(p, s->p[0], n);
    else
        for (size_t i = 0; i < (size_t)times; i++)
            memcpy(p + i * s->n, s->p, s->n);
    J_TRY(tt_jcharge(r, n / 64));
    return tt_jstr_borrow(r, p, n, out);
}

tt_status tt_jstr_join(jrun *r, const jstr *sep, jval iterable, const jval *path, bool convert,
                       jval *out)
{
    jiter *it = NULL;
    tt_buf b;
    bool more = true, first = true;
    tt_status st = TT_OK;
    J_TRY(tt_jiter(r, iterable, &it));
    tt_buf_init(&b, r->o.max_memory);
    for (;;) {
        jval v;
        TT_GOTO(tt_jnext(r, it, &v, &more), done);
        if (!more)
            break;
        if (path != NULL)
            TT_GOTO(tt_jattr_walk(r, v, path->list, J_MISSING, &v), done);
        if (!first)
            tt_buf_append(&b, sep->p, sep->n);
        first = false;
        if (!convert && v.type != JT_STR) {
            st = tt_jfail(r, "join needs text, found %s", tt_jtype_name(v));
            goto done;
        }
        TT_GOTO(tt_jprint(r, &b, v), done);
    }
done:
    if (st != TT_OK) {
        tt_buf_free(&b);
        return st;
    }
    return tt_jstr_buf(r, &b, out);
}

/* ---- replacing, stripping, escaping ---- */

tt_status tt_jstr_replace(jrun *r, const jstr *s, const jstr *old, const jstr *with, int64_t count,
                          jval *out)
{
    tt_buf b;
    const char *p = s->p, *end = s->p + s->n;
    tt_buf_init(&b, r->o.max_memory);
    if (count < 0)
        count = INT64_MAX;
    for (; count > 0; count--) {
        const char *q = p;
        if (old->n > 0) {
            q = tt_jfind(p, (size_t)(end - p), old->p, old->n);
            if (q == NULL)
                break;
            tt_buf_append(&b, p, (size_t)(q - p));
            tt_buf_append(&b, with->p, with->n);
            p = q + old->n;
            continue;
        }
        tt_buf_append(&b, with->p, with->n); /* an empty text is found before every character */
        if (p == end)
            break;
        tt_jcp_next(&q);
        tt_buf_append(&b, p, (size_t)(q - p));
        p = q;
    }
    tt_buf_append(&b, p, (size_t)(end - p));
    uint64_t cost = s->n / 64 + b.len / 64;
    J_TRY(tt_jstr_buf(r, &b, out));
    return tt_jcharge(r, cost);
}

static bool in_set(uint32_t cp, const jstr *chars)
{
    if (chars == NULL)
        return tt_jcp_space(cp);
    for (const char *p = chars->p, *end = chars->p + chars->n; p < end;)
        if (tt_jcp_next(&p) == cp)
            return true;
    return false;
}

tt_status tt_jstr_strip(jrun *r, const jstr *s, const jstr *chars, bool left, bool right, jval *out)
{
    const char *p = s->p, *end = s->p + s->n;
    uint64_t per_char = chars == NULL ? 1 : 1 + chars->n;
    while (left && p < end) {
        const char *q = p;
        if (!in_set(tt_jcp_next(&q), chars))
            break;
        p = q;
    }
    while (right && end > p) {
        const char *q = end;
        if (!in_set(tt_jcp_prev(&q), chars))
            break;
        end = q;
    }
    J_TRY(tt_jcharge(r, (s->n - (uint64_t)(end - p)) * per_char / 16));
    return tt_jsubstr(r, s, (size_t)(p - s->p), (size_t)(end - s->p), out);
}

tt_status tt_jescape(jrun *r, jval v, jval *out)
{
    static const struct {
        char c;
        const char *text;
    } map[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    if (v.type == JT_STR && (v.flag & J_MARKUP)) {
        *out = v;
        return TT_OK;
    }
    J_TRY(tt_jto_str(r, v, &v));
    tt_buf b;
    tt_buf_init(&b, r->o.max_memory);
    for (uint32_t i = 0; i < v.s->n; i++) {
        const char *text = NULL;
        for (size_t k = 0; k < sizeof map / sizeof map[0]; k++)
            if (v.s->p[i] == map[k].c)
                text = map[k].text;
        if (text != NULL)
            tt_buf_puts(&b, text);
        else
            tt_buf_putc(&b, v.s->p[i]);
    }
    uint64_t cost = v.s->n / 16; /* out may be v */
    J_TRY(tt_jstr_buf(r, &b, out));
    out->flag = J_MARKUP;
    return tt_jcharge(r, cost);
}
