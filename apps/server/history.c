/* Three walks: every message by itself, system messages, calls with their results. */
#include "server/history.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/server_limits.h"

#define BILLING   "x-anthropic-billing-header"
#define NO_RESULT "[no result]"

static bool no_memory(tt_refusal *why)
{
    return tt_refuse(why, 503, "memory_full", NULL, "there is no memory for the conversation");
}

static const char *text_of(const json_t *message, const char *key)
{
    const char *text = json_string_value(json_object_get(message, key));
    return text != NULL ? text : "";
}

static bool has_role(const json_t *message, const char *role)
{
    return strcmp(text_of(message, "role"), role) == 0;
}

/* ---- one message ---- */

/* The text of one part; NULL with `why`. */
static const json_t *part_text(const json_t *part, bool assistant, const char *where,
                               tt_refusal *why)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    char param[96];
    if (type == NULL) {
        snprintf(param, sizeof param, "%s.type", where);
        tt_refuse_value(why, param, "a part of content needs a type");
        return NULL;
    }
    bool refusal = assistant && strcmp(type, "refusal") == 0;
    if (!refusal && strcmp(type, "text") != 0) {
        snprintf(param, sizeof param, "%s.type", where);
        tt_refuse_unsupported(why, param, "the model reads text only");
        return NULL;
    }
    const json_t *text = json_object_get(part, refusal ? "refusal" : "text");
    if (!json_is_string(text)) {
        snprintf(param, sizeof param, "%s.%s", where, refusal ? "refusal" : "text");
        tt_refuse_value(why, param, "must be a text");
        return NULL;
    }
    return text;
}

/* Content as one text into `out`. */
static bool join_content(const json_t *message, size_t at, tt_buf *out, tt_refusal *why)
{
    const json_t *content = json_object_get(message, "content");
    char where[64];
    size_t i;
    json_t *part;
    if (content == NULL || json_is_null(content)) {
        const json_t *refusal = json_object_get(message, "refusal");
        if (json_is_string(refusal) && has_role(message, "assistant"))
            tt_buf_append(out, json_string_value(refusal), json_string_length(refusal));
        return true;
    }
    if (json_is_string(content)) {
        tt_buf_append(out, json_string_value(content), json_string_length(content));
        return true;
    }
    snprintf(where, sizeof where, "messages[%zu].content", at);
    if (!json_is_array(content))
        return tt_refuse_value(why, where, "must be a text or an array of parts");
    json_array_foreach(content, i, part)
    {
        snprintf(where, sizeof where, "messages[%zu].content[%zu]", at, i);
        const json_t *text = part_text(part, has_role(message, "assistant"), where, why);
        if (text == NULL)
            return false;
        tt_buf_append(out, json_string_value(text), json_string_length(text));
    }
    return true;
}

static bool check_role(const json_t *message, size_t at, const char **role, tt_refusal *why)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", NULL};
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]", at);
    if (!json_is_object(message))
        return tt_refuse_value(why, param, "must be an object");
    snprintf(param, sizeof param, "messages[%zu].role", at);
    const json_t *v = json_object_get(message, "role");
    if (v == NULL)
        return tt_refuse_missing(why, param);
    if (!json_is_string(v))
        return tt_refuse_value(why, param, "must be a text");
    const char *word = json_string_value(v);
    if (strcmp(word, "developer") == 0)
        word = "system";
    for (size_t i = 0; roles[i] != NULL; i++)
        if (strcmp(word, roles[i]) == 0) {
            *role = roles[i];
            return true;
        }
    return tt_refuse_value(why, param, "must be system, developer, user, assistant or tool");
}

/* Lines that change with every request would make every prompt a new one. */
static const char *without_billing(const char *text, size_t *n, tt_repairs *repairs)
{
    while (*n >= strlen(BILLING) && memcmp(text, BILLING, strlen(BILLING)) == 0) {
        const char *end = memchr(text, '\n', *n);
        size_t line = end == NULL ? *n : (size_t)(end - text) + 1;
        text += line;
        *n -= line;
        repairs->dropped_lines++;
    }
    return text;
}

/* ---- calls ---- */

/* Arguments as an object: what templates expect. */
static json_t *arguments_of(const json_t *given, tt_repairs *repairs)
{
    json_t *v = NULL;
    tt_error ignored;
    if (json_is_object(given))
        return json_deep_copy(given);
    if (given == NULL || json_is_null(given) ||
        (json_is_string(given) && json_string_length(given) == 0)) {
        repairs->wrapped_arguments++;
        return json_object();
    }
    if (json_is_string(given)) {
        if (tt_json_parse_deep(json_string_value(given), json_string_length(given),
                               TT_REQUEST_DEPTH, "arguments", &v, &ignored) == TT_OK) {
            if (json_is_object(v))
                return v;
            json_decref(v);
        }
        repairs->wrapped_arguments++;
        return json_pack("{s:O}", "input", given);
    }
    repairs->wrapped_arguments++;
    char *text = json_dumps(given, JSON_COMPACT | JSON_ENCODE_ANY);
    v = text != NULL ? json_pack("{s:s}", "input", text) : NULL;
    tt_free(text);
    return v;
}

static bool take_call(const json_t *call, size_t at, size_t k, json_t *seen, json_t *list,
                      tt_repairs *repairs, tt_refusal *why)
{
    char param[96], made[64];
    const json_t *fn = json_object_get(call, "function");
    const char *name = json_string_value(json_object_get(fn, "name"));
    const char *id = json_string_value(json_object_get(call, "id"));
    const char *given = id;
    snprintf(param, sizeof param, "messages[%zu].tool_calls[%zu].function.name", at, k);
    if (name == NULL)
        return tt_refuse_value(why, param, "a call needs a function with a name");
    if (id == NULL || *id == '\0' || json_object_get(seen, id) != NULL) {
        snprintf(made, sizeof made, "call_%zu_%zu", at, k);
        /* A client may have had the same thought. */
        for (unsigned again = 1; json_object_get(seen, made) != NULL; again++)
            snprintf(made, sizeof made, "call_%zu_%zu_%u", at, k, again);
        id = made;
        repairs->made_ids++;
    }
    json_t *arguments = arguments_of(json_object_get(fn, "arguments"), repairs);
    json_t *out = json_pack("{s:s, s:s, s:{s:s, s:o}}", "type", "function", "id", id, "function",
                            "name", name, "arguments", arguments);
    int bad = out == NULL;
    if (!bad && given != NULL)
        bad |= json_object_set_new(out, " given", json_string(given));
    bad |= json_object_set_new(seen, id, json_true());
    bad |= json_array_append_new(list, out);
    return bad == 0 || no_memory(why);
}

static bool take_calls(const json_t *message, size_t at, json_t *seen, json_t *out,
                       tt_repairs *repairs, tt_refusal *why)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    char param[64];
    size_t k;
    json_t *call;
    if (calls == NULL || json_is_null(calls) || !has_role(message, "assistant"))
        return true;
    snprintf(param, sizeof param, "messages[%zu].tool_calls", at);
    if (!json_is_array(calls))
        return tt_refuse_value(why, param, "must be an array");
    if (json_array_size(calls) == 0)
        return true;
    json_t *list = json_array();
    if (json_object_set_new(out, "tool_calls", list) != 0)
        return no_memory(why);
    json_array_foreach(calls, k,
                       call) if (!take_call(call, at, k, seen, list, repairs, why)) return false;
    return true;
}

/* ---- first walk ---- */

static json_t *copy_fields(const json_t *message, const char *role, const char *text, size_t n)
{
    json_t *out = json_object();
    int bad = json_object_set_new(out, "role", json_string(role));
    bad |= json_object_set_new(out, "content", json_stringn(text, n));
    const json_t *thought = json_object_get(message, "reasoning_content");
    if (!json_is_string(thought))
        thought = json_object_get(message, "reasoning");
    if (json_is_string(thought) && strcmp(role, "assistant") == 0)
        bad |= json_object_set(out, "reasoning_content", (json_t *)thought);
    const json_t *id = json_object_get(message, "tool_call_id");
    if (json_is_string(id) && strcmp(role, "tool") == 0)
        bad |= json_object_set(out, "tool_call_id", (json_t *)id);
    if (bad == 0)
        return out;
    json_decref(out);
    return NULL;
}

static bool take_message(const json_t *message, size_t at, json_t *seen, json_t *list,
                         tt_repairs *repairs, tt_refusal *why)
{
    const char *role = "";
    tt_buf text;
    if (!check_role(message, at, &role, why))
        return false;
    tt_buf_init(&text, TT_BODY_MOST);
    bool ok = join_content(message, at, &text, why);
    const char *p = text.data != NULL ? text.data : "";
    size_t n = text.len;
    if (strcmp(role, "system") == 0)
        p = without_billing(p, &n, repairs);
    json_t *out = ok ? copy_fields(message, role, p, n) : NULL;
    bool failed = text.failed != TT_OK;
    tt_buf_free(&text);
    if (!ok)
        return false;
    if (out == NULL || failed || !take_calls(message, at, seen, out, repairs, why)) {
        json_decref(out);
        return why->status != 0 ? false : no_memory(why);
    }
    bool empty = n == 0 && json_object_get(out, "tool_calls") == NULL;
    if (empty && (strcmp(role, "assistant") == 0 || strcmp(role, "system") == 0)) {
        repairs->dropped_messages += strcmp(role, "assistant") == 0;
        json_decref(out);
        return true;
    }
    return json_array_append_new(list, out) == 0 || no_memory(why);
}

/* ---- system messages ---- */

/* Texts may hold a NUL character. */
static void add_content(tt_buf *t, const json_t *message)
{
    const json_t *text = json_object_get(message, "content");
    tt_buf_append(t, json_string_value(text), json_string_length(text));
}

/* What is in `t` becomes the content of a message. */
static bool set_content(json_t *message, tt_buf *t)
{
    bool ok = t->failed == TT_OK &&
              json_object_set_new(message, "content", json_stringn(t->data, t->len)) == 0;
    tt_buf_free(t);
    return ok;
}

static void add_marked(tt_buf *t, const json_t *message)
{
    tt_buf_puts(t, "<system>\n");
    add_content(t, message);
    tt_buf_puts(t, "\n</system>");
}

/* Puts the system message at *i where a template takes it. */
static bool place_system(json_t *list, size_t *i, bool leading, tt_repairs *repairs)
{
    json_t *m = json_array_get(list, *i), *before = json_array_get(list, *i - 1);
    tt_buf t;
    tt_buf_init(&t, TT_BODY_MOST + 256);
    repairs->merged_systems += leading;
    repairs->moved_systems += !leading;
    if (has_role(before, "assistant")) {
        add_marked(&t, m);
        return set_content(m, &t) && json_object_set_new(m, "role", json_string("user")) == 0;
    }
    add_content(&t, before);
    tt_buf_puts(&t, leading ? "\n\n" : "\n");
    if (leading)
        add_content(&t, m);
    else
        add_marked(&t, m);
    bool ok = set_content(before, &t);
    json_array_remove(list, *i);
    --*i;
    return ok;
}

static bool place_systems(json_t *list, tt_repairs *repairs)
{
    bool leading = true;
    for (size_t i = 0; i < json_array_size(list); i++) {
        bool system = has_role(json_array_get(list, i), "system");
        if (system && i > 0 && !place_system(list, &i, leading, repairs))
            return false;
        if (!system)
            leading = false;
    }
    return true;
}

/* ---- calls and results ---- */

/* Takes the call that a result answers out of `open`; the result names it by the id that it has. */
static bool close_call(json_t *open, json_t *result)
{
    const char *id = json_string_value(json_object_get(result, "tool_call_id"));
    size_t i;
    json_t *call;
    json_array_foreach(open, i, call)
    {
        const char *given = json_string_value(json_object_get(call, " given"));
        if (id == NULL || (given != NULL && strcmp(given, id) == 0) ||
            strcmp(text_of(call, "id"), id) == 0)
            return json_object_set(result, "tool_call_id", json_object_get(call, "id")) == 0 &&
                   json_array_remove(open, i) == 0;
    }
    return true;
}

/* Results for what is left in `open`, in front of message i. */
static bool add_results(json_t *list, size_t *i, json_t *open, tt_repairs *repairs)
{
    size_t k;
    json_t *call;
    json_array_foreach(open, k, call)
    {
        json_t *m = json_pack("{s:s, s:s, s:s}", "role", "tool", "tool_call_id",
                              text_of(call, "id"), "content", NO_RESULT);
        if (m == NULL || json_array_insert_new(list, *i, m) != 0)
            return false;
        ++*i;
        repairs->added_results++;
    }
    return json_array_clear(open) == 0;
}

static bool answer_calls(json_t *list, tt_repairs *repairs)
{
    json_t *open = json_array(), *call;
    bool ok = open != NULL;
    size_t k;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        json_t *m = json_array_get(list, i);
        if (has_role(m, "tool")) {
            ok = close_call(open, m);
            continue;
        }
        ok = add_results(list, &i, open, repairs);
        json_t *calls = json_object_get(json_array_get(list, i), "tool_calls");
        json_array_foreach(calls, k, call) ok = ok && json_array_append(open, call) == 0;
    }
    size_t end = json_array_size(list);
    ok = ok && add_results(list, &end, open, repairs);
    json_decref(open);
    return ok;
}

/* The note of what a client called its call by is ours alone. */
static void forget_given(json_t *list)
{
    size_t i, k;
    json_t *m, *call;
    json_array_foreach(list, i, m)
    {
        json_t *calls = json_object_get(m, "tool_calls");
        json_array_foreach(calls, k, call)
        {
            json_object_del(call, " given");
        }
    }
}

/* ---- the whole ---- */

bool tt_history_repair(const json_t *messages, json_t **out, tt_repairs *repairs, tt_refusal *why)
{
    json_t *list = json_array(), *seen = json_object(), *message;
    bool ok = list != NULL && seen != NULL;
    size_t i;
    *repairs = (tt_repairs){0};
    why->status = 0;
    json_array_foreach(messages, i, message) ok =
        ok && take_message(message, i, seen, list, repairs, why);
    ok = ok && place_systems(list, repairs) && answer_calls(list, repairs);
    json_decref(seen);
    if (!ok) {
        json_decref(list);
        return why->status != 0 ? false : no_memory(why);
    }
    forget_given(list);
    *out = list;
    return true;
}

void tt_repairs_write(const tt_repairs *r, tt_buf *out)
{
    const struct {
        const char *name;
        uint32_t n;
    } rows[] = {{"merged_systems", r->merged_systems},       {"moved_systems", r->moved_systems},
                {"dropped_lines", r->dropped_lines},         {"made_ids", r->made_ids},
                {"wrapped_arguments", r->wrapped_arguments}, {"added_results", r->added_results},
                {"dropped_messages", r->dropped_messages}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].n > 0)
            tt_buf_printf(out, "%s%s=%u", out->len > 0 ? " " : "", rows[i].name, rows[i].n);
}
