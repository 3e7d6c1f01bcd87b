#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_buf_init(tt_buf *b, size_t max)
{
    *b = (tt_buf){.max = max};
}

void tt_buf_free(tt_buf *b)
{
    free(b->data);
    *b = (tt_buf){.max = b->max};
}

void tt_buf_clear(tt_buf *b)
{
    b->len = 0;
    b->failed = TT_OK;
    if (b->data != NULL)
        b->data[0] = '\0';
}

static bool set_capacity(tt_buf *b, size_t cap)
{
    char *data = realloc(b->data, cap);
    if (data == NULL) {
        b->failed = TT_ERR_NOMEM;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

static bool fits(tt_buf *b, size_t n)
{
    if (b->failed != TT_OK)
        return false;
    if (n > b->max || b->len > b->max - n) {
        b->failed = TT_ERR_LIMIT;
        return false;
    }
    return true;
}

static bool reserve(tt_buf *b, size_t n)
{
    if (!fits(b, n))
        return false;
    size_t need = b->len + n + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need)
        cap += cap / 2;
    return set_capacity(b, cap);
}

void tt_buf_reserve(tt_buf *b, size_t n)
{
    if (fits(b, n) && b->len + n + 1 > b->cap && set_capacity(b, b->len + n + 1))
        b->data[b->len] = '\0';
}

void tt_buf_append(tt_buf *b, const void *bytes, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void tt_buf_puts(tt_buf *b, const char *text)
{
    tt_buf_append(b, text, strlen(text));
}

void tt_buf_putc(tt_buf *b, char c)
{
    tt_buf_append(b, &c, 1);
}

void tt_buf_printf(tt_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve(b, (size_t)n))
        return;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

tt_status tt_buf_status(const tt_buf *b, tt_error *err)
{
    switch (b->failed) {
    case TT_OK:
        return TT_OK;
    case TT_ERR_LIMIT:
        return tt_fail(err, TT_ERR_LIMIT, "output would be longer than %zu bytes", b->max);
    default:
        return tt_fail(err, b->failed, "out of memory at %zu bytes", b->len);
    }
}

char *tt_buf_steal(tt_buf *b, size_t *len)
{
    if (!reserve(b, 0))
        return NULL;
    b->data[b->len] = '\0';
    char *data = b->data;
    if (len != NULL)
        *len = b->len;
    *b = (tt_buf){.max = b->max};
    return data;
}

char *tt_copy_text(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}
