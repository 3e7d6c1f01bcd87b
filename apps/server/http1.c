/* HTTP/1.1 requests as a machine of one state a byte: where the input is cut cannot matter. */
#include "server/http1.h"

#include <string.h>
#include <strings.h>

/* Heads up to this size keep their memory from one request to the next. */
#define HEAD_KEPT 4096u

enum state {
    BEGIN,    /* before the first byte of a request */
    BEGIN_LF, /* inside the empty line that may stand there */
    METHOD,
    TARGET,
    VERSION,
    VERSION_LF,
    FIELD, /* at the first byte of a field, or of the empty line after the last */
    NAME,
    BLANKS, /* before a value */
    VALUE,
    VALUE_LF,
    FIELDS_LF, /* inside the empty line after the last field or trailer */
    HEAD_DONE, /* the head has been told, the body comes */
    SIZE,      /* at the first digit of a chunk's size */
    SIZE_MORE,
    EXTENSION,
    SIZE_LF,
    DATA, /* of a chunk */
    DATA_CR,
    DATA_LF,
    PLAIN, /* a body of known length */
    DONE,  /* complete, not yet told */
    DONE_TOLD,
    REFUSED
};

/* ---- refusals ---- */

static const struct {
    int status;
    const char *code, *text;
} refusals[] = {{0, "", ""},
#define ROW(name, status, code, text) {status, code, text},
                TT_HTTP1_REFUSALS(ROW)
#undef ROW
};

int tt_http1_refusal_status(tt_http1_refusal why)
{
    return refusals[why].status;
}

const char *tt_http1_refusal_code(tt_http1_refusal why)
{
    return refusals[why].code;
}

const char *tt_http1_refusal_text(tt_http1_refusal why)
{
    return refusals[why].text;
}

static bool refuse(tt_http1 *h, tt_http1_refusal why)
{
    h->why = why;
    h->state = REFUSED;
    return false;
}
#define REFUSE(h, name) refuse((h), TT_HTTP1_REFUSED_##name)

/* ---- characters ---- */

static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_text(unsigned char c)
{
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

static int hex(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ---- the head ---- */

void tt_http1_init(tt_http1 *h)
{
    memset(h, 0, sizeof *h);
    tt_buf_init(&h->text, TT_HTTP1_HEAD_MAX);
}

void tt_http1_free(tt_http1 *h)
{
    tt_buf_free(&h->text);
}

void tt_http1_next(tt_http1 *h)
{
    tt_buf text = h->text;
    if (h->state != DONE_TOLD)
        return;
    if (text.cap > HEAD_KEPT)
        tt_buf_free(&text);
    tt_http1_init(h);
    if (text.data != NULL) {
        tt_buf_clear(&text);
        h->text = text;
    }
}

static bool keep(tt_http1 *h, char c)
{
    tt_buf_putc(&h->text, c);
    return h->text.failed == TT_OK || REFUSE(h, MEMORY);
}

/* What every line end is made of; `next` follows the LF. */
static bool line_feed(tt_http1 *h, unsigned char c, int next)
{
    if (c != '\n')
        return REFUSE(h, LINE_ENDING);
    h->state = next;
    return true;
}

static bool in_method(tt_http1 *h, unsigned char c)
{
    if (is_token(c))
        return h->line > TT_HTTP1_METHOD ? REFUSE(h, REQUEST_LINE) : keep(h, (char)c);
    if (c == '\n')
        return REFUSE(h, LINE_ENDING);
    if (c != ' ' || h->line == 1)
        return REFUSE(h, REQUEST_LINE);
    h->state = TARGET;
    h->target = h->line;
    return keep(h, '\0');
}

static bool in_target(tt_http1 *h, unsigned char c)
{
    bool first = h->text.len == h->target;
    if (c == '\n')
        return REFUSE(h, LINE_ENDING);
    if (c == '\r' || (c == ' ' && first))
        return REFUSE(h, REQUEST_LINE);
    if (h->percent > 0) {
        int digit = hex(c);
        bool zero = digit == 0 && (h->percent == 2 || h->percent_zero);
        if (digit < 0 || (zero && h->percent == 1))
            return REFUSE(h, TARGET);
        h->percent_zero = zero;
        h->percent--;
    } else if (c == ' ') {
        h->state = VERSION;
        h->line = 0;
        h->have_target = true;
        return keep(h, '\0');
    } else if (c == '%') {
        h->percent = 2;
    }
    if (c <= ' ' || c >= 0x7f || c == '#' || (first && c != '/'))
        return REFUSE(h, TARGET);
    return keep(h, (char)c);
}

static bool in_version(tt_http1 *h, unsigned char c)
{
    static const char want[] = "HTTP/1.1\r";
    uint32_t at = h->line - 1;
    if (c == '\n')
        return REFUSE(h, LINE_ENDING);
    if ((at == 5 || at == 7) && c >= '0' && c <= '9' && c != '1') {
        if (at == 5 || c != '0')
            return REFUSE(h, VERSION);
        h->old = true;
    } else if (c != (unsigned char)want[at]) {
        return REFUSE(h, REQUEST_LINE);
    }
    if (c == '\r')
        h->state = VERSION_LF;
    return true;
}

/* ---- fields ---- */

const char *tt_http1_field(const tt_http1 *h, const char *name, unsigned *count)
{
    const char *first = NULL;
    unsigned n = 0;
    for (uint32_t i = 0; i < h->n_fields; i++)
        if (strcasecmp(h->text.data + h->name[i], name) == 0 && n++ == 0)
            first = h->text.data + h->value[i];
    if (count != NULL)
        *count = n;
    return first;
}

/* Whether a list of words, as Connection has it, names one. */
static bool lists(const char *list, const char *word)
{
    size_t len = strlen(word);
    while (*list != '\0') {
        list += strspn(list, " \t,");
        size_t n = strcspn(list, " \t,");
        if (n == len && strncasecmp(list, word, n) == 0)
            return true;
        list += n;
    }
    return false;
}

static bool take_length(tt_http1 *h, const char *value)
{
    size_t n = strspn(value, "0123456789");
    if (h->have_length || n == 0 || n > 19 || value[n] != '\0')
        return REFUSE(h, LENGTH);
    for (size_t i = 0; i < n; i++)
        h->length = h->length * 10 + (uint64_t)(value[i] - '0');
    h->have_length = true;
    return true;
}

/* What the field says about where the request ends. */
static bool take_framing(tt_http1 *h, const char *name, const char *value)
{
    if (strcasecmp(name, "content-length") == 0)
        return take_length(h, value);
    if (strcasecmp(name, "transfer-encoding") == 0) {
        if (h->chunked || h->old)
            return REFUSE(h, ENCODING);
        if (strcasecmp(value, "chunked") != 0)
            return REFUSE(h, CODING);
        h->chunked = true;
    } else if (strcasecmp(name, "expect") == 0 && !h->old) {
        if (strcasecmp(value, "100-continue") != 0)
            return REFUSE(h, EXPECT);
        h->expects = true;
    } else if (strcasecmp(name, "connection") == 0 && lists(value, "close")) {
        h->close = true;
    }
    return true;
}

/* A value is complete: blanks at its end are not part of it. Of trailers nothing is kept. */
static bool end_value(tt_http1 *h)
{
    h->state = VALUE_LF;
    if (h->trailers)
        return true;
    uint32_t at = h->n_fields - 1;
    tt_buf *t = &h->text;
    while (t->len > h->value[at] && (t->data[t->len - 1] == ' ' || t->data[t->len - 1] == '\t'))
        t->len--;
    return keep(h, '\0') && take_framing(h, t->data + h->name[at], t->data + h->value[at]);
}

static bool at_field(tt_http1 *h, unsigned char c)
{
    if (c == '\r') {
        h->state = FIELDS_LF;
        return true;
    }
    if (c == '\n')
        return REFUSE(h, LINE_ENDING);
    if (!is_token(c))
        return REFUSE(h, FIELD);
    if (h->n_fields + h->n_trailers == TT_HTTP1_FIELDS)
        return REFUSE(h, HEAD_LARGE);
    h->state = NAME;
    if (h->trailers) {
        h->n_trailers++;
        return true;
    }
    h->name[h->n_fields++] = (uint32_t)h->text.len;
    return keep(h, (char)c);
}

static bool in_name(tt_http1 *h, unsigned char c)
{
    if (c == '\n')
        return REFUSE(h, LINE_ENDING);
    if (c != ':')
        return !is_token(c) ? REFUSE(h, FIELD) : h->trailers || keep(h, (char)c);
    h->state = BLANKS;
    if (h->trailers)
        return true;
    h->value[h->n_fields - 1] = (uint32_t)h->text.len + 1;
    return keep(h, '\0');
}

static bool in_value(tt_http1 *h, unsigned char c)
{
    if (c == '\r')
        return end_value(h);
    if (c == '\n')
        return REFUSE(h, LINE_ENDING);
    if (!is_text(c))
        return REFUSE(h, FIELD);
    if (h->state == BLANKS && (c == ' ' || c == '\t'))
        return true;
    h->state = VALUE;
    return h->trailers || keep(h, (char)c);
}

static bool end_fields(tt_http1 *h, unsigned char c)
{
    if (!line_feed(h, c, h->trailers ? DONE : HEAD_DONE))
        return false;
    return !(h->chunked && h->have_length) || REFUSE(h, TWO_LENGTHS);
}

/* ---- the body ---- */

bool tt_http1_allow_body(tt_http1 *h, uint64_t most)
{
    h->allowed = most;
    return h->chunked || h->length <= most;
}

static bool begin_body(tt_http1 *h)
{
    h->left = h->length;
    h->line = 0;
    h->state = h->chunked ? SIZE : h->length > 0 ? PLAIN : DONE;
    return h->chunked || h->length <= h->allowed || REFUSE(h, BODY_LARGE);
}

/* The line before a chunk: its size, and extensions that nobody needs. */
static bool in_size(tt_http1 *h, unsigned char c)
{
    int digit = h->state == EXTENSION ? -1 : hex(c);
    if (c == '\n')
        return REFUSE(h, LINE_ENDING);
    if (++h->line > TT_HTTP1_CHUNK_MAX)
        return REFUSE(h, CHUNK);
    if (digit >= 0) {
        if (h->left >> 60 != 0)
            return REFUSE(h, BODY_LARGE);
        h->left = h->left << 4 | (uint64_t)digit;
        h->state = SIZE_MORE;
        return true;
    }
    if (h->state == SIZE)
        return REFUSE(h, CHUNK);
    if (c == '\r')
        h->state = SIZE_LF;
    else if (h->state == SIZE_MORE && c == ';')
        h->state = EXTENSION;
    else if (h->state == SIZE_MORE || !is_text(c))
        return REFUSE(h, CHUNK);
    return true;
}

static bool end_size(tt_http1 *h, unsigned char c)
{
    h->trailers = h->left == 0;
    if (!line_feed(h, c, h->trailers ? FIELD : DATA))
        return false;
    return h->left <= h->allowed - h->received || REFUSE(h, BODY_LARGE);
}

static bool end_chunk(tt_http1 *h, unsigned char c)
{
    if (c != (h->state == DATA_CR ? '\r' : '\n'))
        return REFUSE(h, CHUNK);
    h->line = 0;
    h->state = h->state == DATA_CR ? DATA_LF : SIZE;
    return true;
}

static size_t take_body(tt_http1 *h, const char *bytes, size_t n, tt_http1_event *event)
{
    size_t k = h->left < n ? (size_t)h->left : n;
    h->left -= k;
    h->received += k;
    if (h->left == 0)
        h->state = h->state == PLAIN ? DONE : DATA_CR;
    event->kind = TT_HTTP1_BODY;
    event->data = bytes;
    event->len = k;
    return k;
}

/* ---- the machine ---- */

static bool at_begin(tt_http1 *h, unsigned char c)
{
    if (c == '\r' && !h->skipped) {
        h->skipped = true;
        h->state = BEGIN_LF;
        return true;
    }
    h->state = METHOD;
    h->head_bytes = h->line = 1;
    return in_method(h, c);
}

/* The limits on the head, before a byte of it is looked at. */
static bool count(tt_http1 *h)
{
    if (h->state < METHOD || h->state > FIELDS_LF)
        return true;
    h->line++;
    /* Its CR is not of the line. */
    if (h->state <= VERSION && ++h->head_bytes > TT_HTTP1_LINE_MAX + 1)
        return REFUSE(h, TARGET_LONG);
    if (h->state > VERSION && ++h->head_bytes > TT_HTTP1_HEAD_MAX)
        return REFUSE(h, HEAD_LARGE);
    return true;
}

static bool step(tt_http1 *h, unsigned char c)
{
    if (!count(h))
        return false;
    switch (h->state) {
    case BEGIN:
        return at_begin(h, c);
    case BEGIN_LF:
        return line_feed(h, c, BEGIN);
    case METHOD:
        return in_method(h, c);
    case TARGET:
        return in_target(h, c);
    case VERSION:
        return in_version(h, c);
    case VERSION_LF:
    case VALUE_LF:
        return line_feed(h, c, FIELD);
    case FIELD:
        return at_field(h, c);
    case NAME:
        return in_name(h, c);
    case BLANKS:
    case VALUE:
        return in_value(h, c);
    case FIELDS_LF:
        return end_fields(h, c);
    case SIZE_LF:
        return end_size(h, c);
    case DATA_CR:
    case DATA_LF:
        return end_chunk(h, c);
    default:
        return in_size(h, c);
    }
}

size_t tt_http1_feed(tt_http1 *h, const char *bytes, size_t n, tt_http1_event *event)
{
    size_t at = 0;
    *event = (tt_http1_event){.kind = TT_HTTP1_MORE};
    if (h->state == HEAD_DONE)
        (void)begin_body(h);
    while (h->state != REFUSED && h->state != DONE && h->state != DONE_TOLD && at < n) {
        if (h->state == PLAIN || h->state == DATA)
            return at + take_body(h, bytes + at, n - at, event);
        if (step(h, (unsigned char)bytes[at++]) && h->state == HEAD_DONE) {
            event->kind = TT_HTTP1_HEAD;
            return at;
        }
    }
    if (h->state == REFUSED) {
        event->kind = TT_HTTP1_REFUSED;
        event->why = h->why;
    } else if (h->state == DONE) {
        h->state = DONE_TOLD;
        event->kind = TT_HTTP1_END;
    }
    return at;
}

/* ---- the request ---- */

bool tt_http1_in_head(const tt_http1 *h)
{
    return h->state >= METHOD && h->state <= FIELDS_LF && !h->trailers;
}

bool tt_http1_in_body(const tt_http1 *h)
{
    return (h->state >= HEAD_DONE && h->state <= DONE) || (h->trailers && h->state <= FIELDS_LF);
}

const char *tt_http1_method(const tt_http1 *h)
{
    return h->text.data;
}

const char *tt_http1_target(const tt_http1 *h)
{
    return h->have_target ? h->text.data + h->target : NULL;
}

bool tt_http1_keeps_alive(const tt_http1 *h)
{
    return !h->close && !h->old && h->state != REFUSED;
}

bool tt_http1_expects_continue(const tt_http1 *h)
{
    return h->expects && tt_http1_has_body(h);
}

bool tt_http1_has_body(const tt_http1 *h)
{
    return h->chunked || h->length > 0;
}

int64_t tt_http1_content_length(const tt_http1 *h)
{
    return h->chunked ? -1 : (int64_t)h->length;
}

bool tt_http1_is_old(const tt_http1 *h)
{
    return h->old;
}

bool tt_http1_decode(const char *path, size_t len, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)path[i];
        if (c == '%') {
            int high = i + 2 < len ? hex((unsigned char)path[i + 1]) : -1;
            int low = high >= 0 ? hex((unsigned char)path[i + 2]) : -1;
            c = low >= 0 ? high * 16 + low : 0;
            i += 2;
        }
        if (c == 0 || n + 1 >= cap)
            return false;
        out[n++] = (char)c;
    }
    if (cap == 0)
        return false;
    out[n] = '\0';
    return true;
}
