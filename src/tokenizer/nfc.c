#include "tokenizer/nfc.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer/tok_utf8.h"

typedef struct stretch_of {
    uint32_t first, last;
} stretch_of;

/* Stretches of common scripts in which every code point is inert; a test holds them against the
 * tables of utf8proc. Unassigned stretches are left out: later versions of Unicode may fill them
 * with marks. */
static const stretch_of quiet[] = {
    {0x0000, 0x02ff}, {0x0388, 0x0482},   {0x048a, 0x058f},   {0x05d0, 0x05ea}, {0x0620, 0x064a},
    {0x0671, 0x06d5}, {0x0904, 0x0939},   {0x0e01, 0x0e37},   {0x0e40, 0x0e47}, {0x10d0, 0x10ff},
    {0x1e00, 0x1f70}, {0x2010, 0x2064},   {0x20a0, 0x20c0},   {0x212c, 0x2328}, {0x232b, 0x2adb},
    {0x3001, 0x3029}, {0x3041, 0x3096},   {0x309b, 0xa48c},   {0xac00, 0xd7a3}, {0xfe30, 0xfe6b},
    {0xff01, 0xffdc}, {0x1f000, 0x1faff}, {0x20000, 0x2a6df},
};

/* Marks and compositions that Unicode gained after version 9, whose tables the reference
 * implementation has. To it they are ordinary characters: ids come out equal only when nothing is
 * moved across them and nothing composed with them. Whole blocks where the block is that young. */
static const stretch_of later[] = {
    {0x07fd, 0x07ff},   {0x0897, 0x089f},   {0x08ca, 0x08d3},   {0x09fe, 0x09fe},
    {0x0c3c, 0x0c3c},   {0x0d3b, 0x0d3c},   {0x0eba, 0x0eba},   {0x1715, 0x1715},
    {0x1abf, 0x1aff},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x105c0, 0x105ff},
    {0x10d00, 0x10d8f}, {0x10e80, 0x10eff}, {0x10f30, 0x10faf}, {0x11070, 0x11070},
    {0x1133b, 0x1133b}, {0x11380, 0x113ff}, {0x1145e, 0x1145e}, {0x11800, 0x1184f},
    {0x11900, 0x1195f}, {0x119a0, 0x11aaf}, {0x11d00, 0x11daf}, {0x11f00, 0x11f5f},
    {0x16100, 0x1613f}, {0x16d40, 0x16d7f}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f},
    {0x1e100, 0x1e14f}, {0x1e290, 0x1e2ff}, {0x1e4d0, 0x1e5ff}, {0x1e6c0, 0x1e6ff},
};

static bool within(const stretch_of *list, size_t n, uint32_t cp)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (cp > list[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && cp >= list[low].first;
}

bool tt_nfc_later(uint32_t cp)
{
    return within(later, sizeof later / sizeof later[0], cp);
}

bool tt_nfc_inert(uint32_t cp)
{
    return cp < 0x300 || within(quiet, sizeof quiet / sizeof quiet[0], cp) || tt_nfc_later(cp);
}

static unsigned class_of(int32_t cp)
{
    return (unsigned)utf8proc_get_property(cp)->combining_class;
}

/* Orders v[0..n), all of class above zero, by class, keeping the order within a class. Runs are one
 * to three marks in any language; longer ones are counted into place so that hostile text stays
 * linear. */
static bool order_run(int32_t *v, size_t n)
{
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            int32_t cp = v[i];
            unsigned c = class_of(cp);
            size_t j = i;
            for (; j > 0 && class_of(v[j - 1]) > c; j--)
                v[j] = v[j - 1];
            v[j] = cp;
        }
        return true;
    }
    size_t at[257] = {0};
    int32_t *sorted = malloc(n * sizeof *sorted);
    if (sorted == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        at[(class_of(v[i]) & 255) + 1]++;
    for (size_t c = 1; c < 257; c++)
        at[c] += at[c - 1];
    for (size_t i = 0; i < n; i++)
        sorted[at[class_of(v[i]) & 255]++] = v[i];
    memcpy(v, sorted, n * sizeof *v);
    free(sorted);
    return true;
}

static bool order_marks(int32_t *v, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && class_of(v[end]) != 0)
            end++;
        if (end - i > 1 && !order_run(v + i, end - i))
            return false;
        i = end > i ? end : i + 1;
    }
    return true;
}

/* Normalises a stretch that starts and ends at a boundary. */
static tt_status stretch(const char *text, size_t n, tt_buf *out, tt_error *err)
{
    const int flags = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    /* One byte of text gives at most 1.5 code points (U+0390: two bytes, three of them). */
    size_t cap = 2 * n + 8, m = 0;
    int32_t *v = malloc(cap * sizeof *v);
    if (v == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for normalising %zu bytes", n);
    for (size_t i = 0, step; i < n; i += step) {
        int32_t cp = (int32_t)tt_utf8_read(text + i, &step);
        int boundary = 0;
        utf8proc_ssize_t got =
            utf8proc_decompose_char(cp, v + m, (utf8proc_ssize_t)(cap - m), flags, &boundary);
        if (got < 0 || (size_t)got > cap - m) {
            free(v);
            return tt_fail(err, TT_ERR_INTERNAL, "U+%04X does not decompose", (unsigned)cp);
        }
        m += (size_t)got;
    }
    if (!order_marks(v, m)) {
        free(v);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for normalising %zu bytes", n);
    }
    utf8proc_ssize_t composed =
        utf8proc_normalize_utf32(v, (utf8proc_ssize_t)m, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < composed; i++) {
        char utf8[4];
        tt_buf_append(out, utf8, tt_utf8_write((uint32_t)v[i], utf8));
    }
    free(v);
    if (composed < 0)
        return tt_fail(err, TT_ERR_INTERNAL, "normalisation failed");
    return TT_OK;
}

/* First offset at or after `i` whose character is not inert (or is, when `want`). */
static size_t scan(const char *text, size_t i, size_t n, bool want)
{
    while (i < n) {
        size_t ascii = want ? 0 : tt_ascii_prefix(text + i, n - i), step;
        i += ascii;
        if (i < n) {
            if (tt_nfc_inert(tt_utf8_read(text + i, &step)) == want)
                break;
            i += step;
        }
    }
    return i;
}

tt_status tt_nfc(const char *text, size_t n, tt_buf *out, bool *same, tt_error *err)
{
    size_t i = scan(text, 0, n, false), done = 0;
    if (i == n) {
        *same = true;
        return TT_OK;
    }
    *same = false;
    while (i < n) {
        /* The inert character before may join what follows; nothing joins across its left side. */
        size_t start = i, step;
        if (i > done && !tt_nfc_later(tt_utf8_read(text + tt_utf8_before(text, i), &step)))
            start = tt_utf8_before(text, i);
        size_t end = scan(text, i, n, true);
        tt_buf_append(out, text + done, start - done);
        TT_TRY(stretch(text + start, end - start, out, err));
        done = end;
        i = scan(text, end, n, false);
    }
    tt_buf_append(out, text + done, n - done);
    return tt_buf_status(out, err);
}
