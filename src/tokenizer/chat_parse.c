/* Answers in the Qwen 3.5 format: thoughts in <think>, calls as XML elements. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"

typedef struct span {
    const char *p, *end;
} span;

typedef struct answer {
    const json_t *tools; /* or NULL */
    json_t *calls;
    tt_buf content;
    uint64_t budget; /* bytes that may still be searched: hostile text repeats openings */
} answer;

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the parsed answer");
}

/* ---- text ---- */

static bool blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static span trim(span s)
{
    while (s.p < s.end && blank(*s.p))
        s.p++;
    while (s.end > s.p && blank(s.end[-1]))
        s.end--;
    return s;
}

static bool starts(span s, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(s.end - s.p) >= n && memcmp(s.p, text, n) == 0;
}

static bool drop_end(span *s, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(s->end - s->p) < n || memcmp(s->end - n, text, n) != 0)
        return false;
    s->end -= n;
    return true;
}

static const char *find(span s, const char *text)
{
    return memmem(s.p, (size_t)(s.end - s.p), text, strlen(text));
}

/* find, paid from the budget; NULL as well when that is spent. */
static const char *find_paid(answer *a, span s, const char *text)
{
    const char *q = find(s, text);
    uint64_t cost = (uint64_t)((q == NULL ? s.end : q) - s.p) + 1;
    if (cost > a->budget)
        return NULL;
    a->budget -= cost;
    return q;
}

static const char *skip_blank(span s)
{
    while (s.p < s.end && blank(*s.p))
        s.p++;
    return s.p;
}

/* ---- parameter types ---- */

static const json_t *schema_of(const json_t *tools, span name)
{
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        const json_t *fn = json_object_get(tool, "function");
        if (!json_is_object(fn))
            fn = tool;
        const json_t *n = json_object_get(fn, "name");
        size_t len = (size_t)(name.end - name.p);
        if (json_is_string(n) && json_string_length(n) == len &&
            memcmp(json_string_value(n), name.p, len) == 0)
            return json_object_get(json_object_get(fn, "parameters"), "properties");
    }
    return NULL;
}

enum type_bits {
    T_STRING = 1,
    T_INTEGER = 2,
    T_NUMBER = 4,
    T_BOOLEAN = 8,
    T_OBJECT = 16,
    T_ARRAY = 32,
    T_NULL = 64
};

static unsigned type_bit(const json_t *type)
{
    static const struct {
        const char *name;
        unsigned bit;
    } types[] = {{"string", T_STRING},   {"integer", T_INTEGER}, {"number", T_NUMBER},
                 {"boolean", T_BOOLEAN}, {"object", T_OBJECT},   {"array", T_ARRAY},
                 {"null", T_NULL}};
    for (size_t i = 0; json_is_string(type) && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(json_string_value(type), types[i].name) == 0)
            return types[i].bit;
    return 0;
}

/* Types that a schema allows, 0 when it does not say. */
static unsigned types_of(const json_t *schema)
{
    static const char *const alternatives[] = {"anyOf", "oneOf"};
    const json_t *type = json_object_get(schema, "type");
    unsigned bits = type_bit(type);
    size_t i;
    json_t *item;
    json_array_foreach(type, i, item) bits |= type_bit(item);
    for (size_t k = 0; bits == 0 && k < 2; k++)
        json_array_foreach(json_object_get(schema, alternatives[k]), i, item) bits |=
            type_bit(json_object_get(item, "type"));
    return bits;
}

static bool fits(const json_t *v, unsigned types)
{
    if (types == 0)
        return true;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return types & T_OBJECT;
    case JSON_ARRAY:
        return types & T_ARRAY;
    case JSON_STRING:
        return types & T_STRING;
    case JSON_INTEGER:
        return types & (T_INTEGER | T_NUMBER);
    case JSON_REAL:
        return types & T_NUMBER;
    case JSON_NULL:
        return types & T_NULL;
    default:
        return types & T_BOOLEAN;
    }
}

/* Python's spellings, which templates put into the history that models imitate. */
static json_t *python_constant(span s)
{
    size_t n = (size_t)(s.end - s.p);
    if (n == 4 && memcmp(s.p, "True", 4) == 0)
        return json_true();
    if (n == 5 && memcmp(s.p, "False", 5) == 0)
        return json_false();
    return n == 4 && memcmp(s.p, "None", 4) == 0 ? json_null() : NULL;
}

/* 3.0 is an integer to JSON Schema. */
static json_t *as_integer(json_t *v)
{
    double d = json_real_value(v);
    if (d != floor(d) || fabs(d) > 9007199254740992.0)
        return v;
    json_decref(v);
    return json_integer((json_int_t)d);
}

static bool is_whole(span s)
{
    s.p += *s.p == '-';
    while (s.p < s.end && *s.p >= '0' && *s.p <= '9')
        s.p++;
    return s.p == s.end;
}

static json_t *value_of(span raw, unsigned types)
{
    json_t *v = NULL;
    tt_error ignored;
    span s = trim(raw);
    if (types != T_STRING && s.p < s.end) {
        if (types != 0)
            v = python_constant(s);
        if (v == NULL &&
            tt_json_parse(s.p, (size_t)(s.end - s.p), "argument", &v, &ignored) != TT_OK)
            v = NULL;
        if (json_is_real(v) && (types & T_INTEGER) && !(types & T_NUMBER))
            v = as_integer(v);
        /* Digits that no number here holds stay text, as nobody asked for a number. */
        if (json_is_real(v) && types == 0 && is_whole(s))
            types = T_STRING;
        if (v != NULL && fits(v, types))
            return v;
        json_decref(v);
    }
    return json_stringn(raw.p, (size_t)(raw.end - raw.p));
}

/* ---- calls ---- */

/* "<function=NAME>" or "<parameter=KEY>" at s->p; moves behind it. */
static bool open_tag(span *s, const char *tag, span *name)
{
    if (!starts(*s, tag))
        return false;
    const char *p = s->p + strlen(tag), *q = p;
    while (q < s->end && *q != '>' && *q != '<' && *q != '\n')
        q++;
    if (q >= s->end || *q != '>' || q == p)
        return false;
    *name = trim((span){p, q});
    s->p = q + 1;
    return name->p < name->end;
}

/* The closing tag of a value is one that another parameter or the end of the function follows:
 * values may speak of tags themselves. Moves behind it. */
static bool close_value(answer *a, span *s, span *value)
{
    const char *start = s->p, *q;
    span rest = *s;
    while ((q = find_paid(a, rest, "</parameter>")) != NULL) {
        rest.p = q + strlen("</parameter>");
        span next = {skip_blank(rest), rest.end};
        if (!starts(next, "<parameter=") && !starts(next, "</function>"))
            continue;
        *value = (span){start, q};
        if (value->p < value->end && *value->p == '\n')
            value->p++;
        if (value->end > value->p && value->end[-1] == '\n')
            value->end--;
        s->p = next.p;
        return true;
    }
    return false;
}

static json_t *new_call(span name, json_t *arguments)
{
    json_t *call = json_object();
    json_t *text = json_stringn(name.p, (size_t)(name.end - name.p));
    int bad = json_object_set_new(call, "name", text);
    bad |= json_object_set(call, "arguments", arguments);
    if (!bad)
        return call;
    json_decref(call);
    return NULL;
}

/* A whole call at s->p, "<tool_call>" to "</tool_call>": moves behind it and adds it. *found false:
 * it is malformed, nothing moved. */
static tt_status parse_call(answer *a, span *s, bool *found, tt_error *err)
{
    span rest = *s, name, key, value;
    json_t *arguments = json_object(), *call = NULL;
    tt_status st = arguments == NULL ? no_memory(err) : TT_OK;
    *found = false;
    rest.p += strlen("<tool_call>");
    rest.p = skip_blank(rest);
    if (st != TT_OK || !open_tag(&rest, "<function=", &name))
        goto done;
    const json_t *schema = schema_of(a->tools, name);
    rest.p = skip_blank(rest);
    while (open_tag(&rest, "<parameter=", &key)) {
        if (!close_value(a, &rest, &value))
            goto done;
        char *text = tt_copy_text(key.p, (size_t)(key.end - key.p));
        if (text == NULL ||
            json_object_set_new(arguments, text,
                                value_of(value, types_of(json_object_get(schema, text)))) != 0)
            st = no_memory(err);
        free(text);
        if (st != TT_OK)
            goto done;
    }
    if (!starts(rest, "</function>"))
        goto done;
    rest.p += strlen("</function>");
    rest.p = skip_blank(rest);
    if (!starts(rest, "</tool_call>"))
        goto done;
    rest.p += strlen("</tool_call>");
    call = new_call(name, arguments);
    if (call == NULL || json_array_append_new(a->calls, call) != 0) {
        st = no_memory(err);
        goto done;
    }
    s->p = rest.p;
    *found = true;
done:
    json_decref(arguments);
    return st;
}

/* Text between calls: white space next to a call goes, pieces are kept apart by a blank line. */
static void add_content(answer *a, span piece, bool after_call, bool before_call)
{
    span t = trim(piece);
    if (after_call)
        piece.p = t.p;
    if (before_call)
        piece.end = t.end > piece.p ? t.end : piece.p;
    if (piece.p >= piece.end)
        return;
    if (a->content.len > 0)
        tt_buf_puts(&a->content, "\n\n");
    tt_buf_append(&a->content, piece.p, (size_t)(piece.end - piece.p));
}

static tt_status parse_calls(answer *a, span s, tt_error *err)
{
    span piece = {s.p, s.p};
    bool after_call = false;
    const char *q;
    while ((q = find_paid(a, s, "<tool_call>")) != NULL) {
        bool found = false;
        span call = {q, s.end};
        TT_TRY(parse_call(a, &call, &found, err));
        if (!found) {
            s.p = q + 1;
            continue;
        }
        piece.end = q;
        add_content(a, piece, after_call, true);
        s.p = piece.p = call.p;
        after_call = true;
    }
    piece.end = s.end;
    add_content(a, piece, after_call, false);
    return TT_OK;
}

/* ---- thoughts ---- */

static bool begins_with_call(span s)
{
    static const char *const parts[] = {"<tool_call>", "<function="};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(parts[i]);
        s.p = skip_blank(s);
        if ((size_t)(s.end - s.p) < n || memcmp(s.p, parts[i], n) != 0)
            return false;
        s.p += n;
    }
    return true;
}

/* Takes the thought out of *s, which keeps what follows it. Text in front of a <think> goes to
 * the content. An answer that begins with a call has no thought: the tag is one of an argument. */
static span take_thought(answer *a, span *s)
{
    const char *open = find(*s, "<think>"), *close = find(*s, "</think>");
    span thought = {s->p, s->p}, lead = {s->p, s->p};
    if (begins_with_call(*s))
        return thought;
    if (close == NULL && (open == NULL || trim((span){s->p, open}).p != open))
        return thought; /* a <think> in the middle that is never closed is just text */
    if (open != NULL && (close == NULL || open < close)) {
        lead.end = open;
        thought.p = open + strlen("<think>");
    }
    thought.end = close == NULL ? s->end : close;
    s->p = close == NULL ? s->end : close + strlen("</think>");
    s->p = skip_blank(*s);
    lead = trim(lead);
    if (lead.p < lead.end)
        tt_buf_append(&a->content, lead.p, (size_t)(lead.end - lead.p));
    return trim(thought);
}

/* ---- the whole ---- */

static tt_status check_text(const char *text, size_t len, tt_error *err)
{
    if (len > TT_GIB)
        return tt_fail(err, TT_ERR_LIMIT, "an answer of %zu bytes is too long", len);
    for (size_t i = 0; i < len;) {
        int32_t cp = 0;
        utf8proc_ssize_t n =
            utf8proc_iterate((const uint8_t *)text + i, (utf8proc_ssize_t)(len - i), &cp);
        if (n <= 0)
            return tt_fail_at(err, TT_ERR_FORMAT, NULL, (int64_t)i,
                              "the answer is not valid UTF-8 at byte %zu", i);
        i += (size_t)n;
    }
    return TT_OK;
}

static tt_status to_json(const answer *a, span thought, char **json, tt_error *err)
{
    json_t *out = json_object();
    size_t n = (size_t)(thought.end - thought.p);
    const char *content = a->content.len > 0 ? a->content.data : "";
    int bad = json_object_set_new(out, "reasoning", json_stringn(thought.p, n));
    bad |= json_object_set_new(out, "content", json_stringn(content, a->content.len));
    bad |= json_object_set(out, "tool_calls", a->calls);
    char *text = bad ? NULL : json_dumps(out, JSON_COMPACT);
    json_decref(out);
    if (text == NULL)
        return no_memory(err);
    *json = text;
    return TT_OK;
}

tt_status tt_chat_parse(const char *text, size_t len, const char *tools_json, char **json,
                        tt_error *err)
{
    json_t *tools = NULL;
    TT_TRY(check_text(text, len, err));
    if (tools_json != NULL) {
        TT_TRY(tt_json_parse_deep(tools_json, strlen(tools_json), TT_MAX_CHAT_DEPTH, "tools",
                                  &tools, err));
        if (!json_is_array(tools)) {
            json_decref(tools);
            return tt_fail(err, TT_ERR_INVALID, "tools must be a JSON array");
        }
    }
    answer a = {.tools = tools, .calls = json_array(), .budget = 16 * (uint64_t)len + TT_MIB};
    span s = {text, text + len};
    while (drop_end(&s, "<|im_end|>") || drop_end(&s, "<|endoftext|>"))
        ;
    tt_buf_init(&a.content, 2 * len + 16);
    span thought = take_thought(&a, &s);
    tt_status st = a.calls == NULL ? no_memory(err) : parse_calls(&a, s, err);
    if (st == TT_OK)
        st = tt_buf_status(&a.content, err);
    if (st == TT_OK)
        st = to_json(&a, thought, json, err);
    tt_buf_free(&a.content);
    json_decref(a.calls);
    json_decref(tools);
    return st;
}
