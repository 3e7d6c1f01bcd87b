#include "base/stop_match.h"

#include <string.h>

#include "base/limits.h"

void tt_stop_match_init(tt_stop_match *m, const char *const *strings, size_t n)
{
    *m = (tt_stop_match){.strings = strings, .n = n};
    tt_buf_init(&m->text, 64 * TT_MIB);
}

void tt_stop_match_free(tt_stop_match *m)
{
    tt_buf_free(&m->text);
}

static void drop_sent(tt_stop_match *m)
{
    if (m->sent == 0)
        return;
    m->text.len -= m->sent;
    memmove(m->text.data, m->text.data + m->sent, m->text.len + 1);
    m->sent = 0;
}

/* Where the first complete stop string begins, or SIZE_MAX. */
static size_t first_match(const tt_stop_match *m)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < m->n; i++) {
        const char *at = memmem(m->text.data, m->text.len, m->strings[i], strlen(m->strings[i]));
        if (at != NULL && (size_t)(at - m->text.data) < best)
            best = (size_t)(at - m->text.data);
    }
    return best;
}

/* Length of the longest end of the text that a stop string begins with. */
static size_t held_length(const tt_stop_match *m)
{
    size_t held = 0;
    for (size_t i = 0; i < m->n; i++) {
        size_t most = strlen(m->strings[i]) - 1;
        if (most > m->text.len)
            most = m->text.len;
        for (; most > held; most--)
            if (memcmp(m->text.data + m->text.len - most, m->strings[i], most) == 0)
                held = most;
    }
    return held;
}

tt_status tt_stop_match_push(tt_stop_match *m, const char *text, size_t len, const char **ready,
                             size_t *n_ready, bool *matched, tt_error *err)
{
    drop_sent(m);
    tt_buf_append(&m->text, text, len);
    TT_TRY(tt_buf_status(&m->text, err));
    size_t end = m->text.len == 0 ? 0 : first_match(m);
    *matched = m->text.len > 0 && end != SIZE_MAX;
    if (!*matched)
        end = m->text.len - held_length(m);
    m->sent = end;
    *ready = m->text.len > 0 ? m->text.data : "";
    *n_ready = end;
    return TT_OK;
}

size_t tt_stop_match_found(const tt_stop_match *m)
{
    const char *at = m->text.data + m->sent;
    size_t left = m->text.len - m->sent, best = m->n;
    for (size_t i = 0; i < m->n; i++) {
        size_t n = strlen(m->strings[i]);
        if (n <= left && memcmp(at, m->strings[i], n) == 0 &&
            (best == m->n || n < strlen(m->strings[best])))
            best = i;
    }
    return best;
}

void tt_stop_match_flush(tt_stop_match *m, const char **ready, size_t *n_ready)
{
    drop_sent(m);
    m->sent = m->text.len;
    *ready = m->text.len > 0 ? m->text.data : "";
    *n_ready = m->text.len;
}
