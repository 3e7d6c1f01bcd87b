/* The format is Qwen 3.5's: <think>, </think>, <tool_call>, </tool_call>. */
#include "server/channels.h"

#include <string.h>

#include "base/json.h"
#include "server/server_limits.h"

#define OPEN_THOUGHT  "<think>"
#define CLOSE_THOUGHT "</think>"
#define OPEN_CALL     "<tool_call>"
#define CLOSE_CALL    "</tool_call>"
#define MOST_HELD     (TT_TOOL_CALL + (1u << 20))
#define MOST_REPORTS  (64u << 20)

enum state {
    START, /* nothing but white space has come: a thought may open */
    TEXT,
    THOUGHT,
    AFTER_THOUGHT, /* white space between the thought and the text goes */
    CALL
};

void tt_channels_init(tt_channels *c, const tt_engine_request *r, tt_engine_event_fn fn, void *ctx)
{
    *c = (tt_channels){.fn = fn,
                       .ctx = ctx,
                       .tools = r->tools,
                       .plain = r->plain,
                       .document = r->document,
                       .state = r->plain        ? TEXT
                                : r->in_thought ? THOUGHT
                                                : START};
    tt_buf_init(&c->held, MOST_HELD);
    tt_buf_init(&c->reports, MOST_REPORTS);
}

void tt_channels_free(tt_channels *c)
{
    tt_buf_free(&c->held);
    tt_buf_free(&c->reports);
}

bool tt_channels_in_thought(const tt_channels *c)
{
    return c->state == THOUGHT;
}

static bool blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void drop(tt_channels *c, size_t n)
{
    memmove(c->held.data, c->held.data + n, c->held.len - n);
    c->held.len -= n;
    c->held.data[c->held.len] = '\0';
}

static void tell(tt_channels *c, const tt_engine_event *event)
{
    if (!c->enough && !c->fn(c->ctx, event))
        c->enough = true;
}

/* ---- what comes out ---- */

static void say(tt_channels *c, const char *text, size_t n)
{
    if (n == 0)
        return;
    /* Text between two calls is kept apart from what was said before them. */
    if (c->called && c->spoke)
        tell(c, &(tt_engine_event){.kind = TT_EVENT_TEXT, .text = "\n\n", .len = 2});
    c->called = false;
    c->spoke = true;
    tell(c, &(tt_engine_event){.kind = TT_EVENT_TEXT,
                               .text = text,
                               .len = n,
                               .reports = (const tt_token_report *)c->reports.data,
                               .n_reports = c->reports.len / sizeof(tt_token_report)});
    tt_buf_clear(&c->reports);
}

/* The first n held bytes as text. */
static void release(tt_channels *c, size_t n)
{
    say(c, c->held.data, n);
    drop(c, n);
}

static void think(tt_channels *c, size_t n)
{
    size_t skip = 0;
    while (!c->thought && skip < n && blank(c->held.data[skip]))
        skip++;
    if (n > skip) {
        c->thought = true;
        tell(c, &(tt_engine_event){
                    .kind = TT_EVENT_THOUGHT, .text = c->held.data + skip, .len = n - skip});
    }
    drop(c, n);
}

/* ---- what is held back ---- */

/* Length of the longest end of [0, n) that `tag` begins with, the whole tag excluded. */
static size_t begins_at_end(const char *text, size_t n, const char *tag)
{
    size_t most = strlen(tag) - 1;
    if (most > n)
        most = n;
    for (; most > 0; most--)
        if (memcmp(text + n - most, tag, most) == 0)
            break;
    return most;
}

static size_t blanks_at_end(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && blank(text[n - 1 - k]))
        k++;
    return k;
}

static const char *find(const tt_channels *c, const char *tag)
{
    return c->held.len == 0 ? NULL : memmem(c->held.data, c->held.len, tag, strlen(tag));
}

/* ---- calls ---- */

/* The calls in [0, n); false when there is none, or something beside them. */
static tt_status take_calls(tt_channels *c, size_t n, bool *found, tt_error *err)
{
    char *json = NULL;
    json_t *tree = NULL;
    *found = false;
    tt_status st = tt_chat_parse(c->held.data, n, c->tools, &json, err);
    if (st == TT_OK)
        st = tt_json_parse_deep(json, strlen(json), TT_MAX_CHAT_DEPTH + 4, "a call", &tree, err);
    tt_free(json);
    /* What cannot be read is text: no turn fails for a call. */
    if (st != TT_OK)
        return st == TT_ERR_NOMEM ? st : TT_OK;
    const json_t *calls = json_object_get(tree, "tool_calls");
    size_t i;
    json_t *call;
    *found =
        json_array_size(calls) > 0 && json_string_length(json_object_get(tree, "content")) == 0;
    if (*found)
        json_array_foreach(calls, i, call)
        {
            char *arguments = json_dumps(json_object_get(call, "arguments"),
                                         JSON_COMPACT | JSON_REAL_PRECISION(15));
            if (arguments == NULL) {
                st = tt_fail(err, TT_ERR_NOMEM, "out of memory for a call");
                break;
            }
            tell(c, &(tt_engine_event){.kind = TT_EVENT_CALL,
                                       .name = json_string_value(json_object_get(call, "name")),
                                       .text = arguments,
                                       .len = strlen(arguments)});
            tt_free(arguments);
        }
    json_decref(tree);
    return st;
}

/* Whether the call up to its closing tag at `end` may go on: the tag stands in a value. */
static bool in_value(const tt_channels *c, const char *end)
{
    const char *p = c->held.data, *open = NULL, *close = NULL, *q;
    while ((q = memmem(p, (size_t)(end - p), "<parameter=", 11)) != NULL) {
        open = q;
        p = q + 1;
    }
    if (open == NULL)
        return false;
    p = open;
    while ((q = memmem(p, (size_t)(end - p), "</parameter>", 12)) != NULL) {
        close = q;
        p = q + 1;
    }
    return close == NULL;
}

static void bad_call(tt_channels *c, size_t n)
{
    tell(c, &(tt_engine_event){.kind = TT_EVENT_BAD_CALL});
    c->state = TEXT;
    release(c, n);
}

/* *again: what is held may hold more. */
static tt_status in_call(tt_channels *c, bool *again, tt_error *err)
{
    const char *p = c->held.data, *end;
    size_t left = c->held.len;
    *again = false;
    while ((end = memmem(p, left, CLOSE_CALL, strlen(CLOSE_CALL))) != NULL) {
        size_t n = (size_t)(end - c->held.data) + strlen(CLOSE_CALL);
        bool found = false;
        if (n <= TT_TOOL_CALL)
            TT_TRY(take_calls(c, n, &found, err));
        if (found) {
            tt_buf_clear(&c->reports);
            c->called = true;
            c->state = TEXT;
            drop(c, n);
            *again = true;
            return TT_OK;
        }
        if (n > TT_TOOL_CALL || !in_value(c, end)) {
            bad_call(c, n);
            *again = true;
            return TT_OK;
        }
        p = end + strlen(CLOSE_CALL);
        left = c->held.len - (size_t)(p - c->held.data);
    }
    if (c->held.len > TT_TOOL_CALL) {
        bad_call(c, strlen(OPEN_CALL));
        *again = true;
    }
    return TT_OK;
}

/* ---- states ---- */

static bool in_start(tt_channels *c)
{
    size_t skip = 0;
    while (skip < c->held.len && blank(c->held.data[skip]))
        skip++;
    const char *at = c->held.data + skip;
    size_t n = c->held.len - skip, tag = strlen(OPEN_THOUGHT);
    if (n >= tag && memcmp(at, OPEN_THOUGHT, tag) == 0) {
        drop(c, skip + tag);
        tt_buf_clear(&c->reports);
        c->state = THOUGHT;
        return true;
    }
    if (n < tag && (n == 0 || memcmp(at, OPEN_THOUGHT, n) == 0))
        return false;
    c->state = TEXT;
    return true;
}

static bool in_thought(tt_channels *c)
{
    const char *end = find(c, CLOSE_THOUGHT);
    if (end != NULL) {
        size_t n = (size_t)(end - c->held.data);
        size_t tail = blanks_at_end(c->held.data, n);
        think(c, n - tail);
        drop(c, tail + strlen(CLOSE_THOUGHT));
        tt_buf_clear(&c->reports);
        c->state = AFTER_THOUGHT;
        return true;
    }
    size_t keep = begins_at_end(c->held.data, c->held.len, CLOSE_THOUGHT);
    keep += blanks_at_end(c->held.data, c->held.len - keep);
    think(c, c->held.len - keep);
    return false;
}

static bool in_text(tt_channels *c)
{
    if (c->called) {
        size_t skip = 0;
        while (skip < c->held.len && blank(c->held.data[skip]))
            skip++;
        drop(c, skip);
    }
    if (c->document && !c->called && c->held.len > 0 && c->held.data[0] != '<')
        c->tools = NULL;
    if (c->plain || c->tools == NULL) {
        release(c, c->held.len);
        return false;
    }
    const char *open = find(c, OPEN_CALL);
    size_t n = open != NULL ? (size_t)(open - c->held.data)
                            : c->held.len - begins_at_end(c->held.data, c->held.len, OPEN_CALL);
    size_t tail = blanks_at_end(c->held.data, n);
    release(c, n - tail);
    if (open != NULL) {
        drop(c, tail);
        c->state = CALL;
    }
    return open != NULL;
}

static bool after_thought(tt_channels *c)
{
    size_t skip = 0;
    while (skip < c->held.len && blank(c->held.data[skip]))
        skip++;
    drop(c, skip);
    if (c->held.len > 0)
        c->state = TEXT;
    else
        tt_buf_clear(&c->reports);
    return c->held.len > 0;
}

static tt_status sort(tt_channels *c, tt_error *err)
{
    bool again = true;
    while (again && !c->enough && c->held.len > 0) {
        switch (c->state) {
        case START:
            again = in_start(c);
            break;
        case THOUGHT:
            again = in_thought(c);
            break;
        case AFTER_THOUGHT:
            again = after_thought(c);
            break;
        case CALL:
            TT_TRY(in_call(c, &again, err));
            break;
        default:
            again = in_text(c);
        }
    }
    return TT_OK;
}

tt_status tt_channels_push(tt_channels *c, const char *text, size_t len,
                           const tt_token_report *report, tt_error *err)
{
    if (report != NULL && c->state != THOUGHT)
        tt_buf_append(&c->reports, report, sizeof *report);
    tt_buf_append(&c->held, text, len);
    TT_TRY(tt_buf_status(&c->held, err));
    TT_TRY(tt_buf_status(&c->reports, err));
    return sort(c, err);
}

tt_status tt_channels_end(tt_channels *c, tt_error *err)
{
    (void)err;
    if (c->enough)
        return TT_OK;
    if (c->held.len > 0) {
        if (c->state == THOUGHT)
            think(c, c->held.len - blanks_at_end(c->held.data, c->held.len));
        else if (c->state == CALL)
            bad_call(c, c->held.len);
        else if (c->state != AFTER_THOUGHT &&
                 !(c->called && blanks_at_end(c->held.data, c->held.len) == c->held.len))
            release(c, c->held.len);
    }
    return TT_OK;
}
