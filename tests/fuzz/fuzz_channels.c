/* Proves that no answer of a model does harm to its sorting into thoughts, text and calls, and that
 * cuts change nothing: the input behind its first byte is sorted whole, and in pieces of a length
 * that this byte gives. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/channels.h"
#include "server/server_limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, \"b\": {\"type\": \"boolean\"}}"
    "}}}]";

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* What came out; pieces of the same kind put together. */
typedef struct story {
    tt_buf told;
    int kind; /* of the last piece */
    size_t thought, text;
} story;

static bool hear(void *ctx, const tt_engine_event *e)
{
    story *s = ctx;
    bool flows = e->kind == TT_EVENT_TEXT || e->kind == TT_EVENT_THOUGHT;
    if (e->kind == TT_EVENT_CALL) {
        json_t *arguments = json_loadb(e->text, e->len, JSON_ALLOW_NUL, NULL);
        must(e->name != NULL && json_is_object(arguments));
        json_decref(arguments);
        tt_buf_puts(&s->told, e->name);
        tt_buf_putc(&s->told, '(');
    }
    must(!flows || e->len > 0);
    /* The text of a call that is none follows the word of it, or what was text before. */
    if (e->kind == TT_EVENT_BAD_CALL)
        return true;
    if (!flows || s->kind != (int)e->kind)
        tt_buf_printf(&s->told, "\n[%d]", (int)e->kind);
    tt_buf_append(&s->told, e->text, e->len);
    s->kind = (int)e->kind;
    return true;
}

static void sort_cut(story *s, const char *text, size_t n, size_t piece, bool plain, bool thought)
{
    tt_channels c;
    tt_error err = {.offset = -1};
    tt_engine_request r = {.tools = tools, .plain = plain, .in_thought = thought};
    *s = (story){.kind = -1};
    tt_buf_init(&s->told, 1u << 24);
    tt_channels_init(&c, &r, hear, s);
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < piece ? n - at : piece;
        must(tt_channels_push(&c, text + at, k, NULL, &err) == TT_OK);
    }
    must(tt_channels_end(&c, &err) == TT_OK);
    tt_channels_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *text = (const char *)data + 1;
    size_t n = size - 1, piece = 1 + data[0] / 4;
    bool plain = (data[0] & 3) == 3, thought = (data[0] & 1) != 0;
    story whole, cut;
    sort_cut(&whole, text, n, n, plain, thought);
    sort_cut(&cut, text, n, piece, plain, thought);
    must(whole.told.len == cut.told.len &&
         (cut.told.len == 0 || memcmp(whole.told.data, cut.told.data, cut.told.len) == 0));
    /* Plain text comes out as it is. */
    must(!plain || n == 0 ||
         (whole.told.len == n + 4 && memcmp(whole.told.data + 4, text, n) == 0));
    tt_buf_free(&whole.told);
    tt_buf_free(&cut.told);
    return 0;
}
