#include "server/messages_history.h"

#include <stdio.h>
#include <string.h>

#define REMINDER  "<system-reminder>"
#define TYPE_MOST 64u /* characters of a block's type that becomes a tag */

/* Messages of one role that follow one another, and what came before them. */
typedef struct turn {
    tt_fields *f;
    json_t *list;     /* the messages so far */
    const char *role; /* of what is put together now, or NULL */
    json_t *texts;    /* of a user */
    json_t *results;
    json_t *calls;
    tt_buf text, thought; /* of an assistant */
    bool apart;           /* a block that is no text came after the text */
    uint32_t dropped_thoughts, hidden_parts, server_blocks;
} turn;

static bool no_memory(turn *t)
{
    return tt_refuse(t->f->why, 503, "memory_full", NULL,
                     "there is no memory for the conversation");
}

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    return type != NULL ? type : "";
}

static bool is(const json_t *block, const char *type)
{
    return strcmp(type_of(block), type) == 0;
}

/* ---- text ---- */

static void add_line(tt_buf *b, const char *text, size_t n)
{
    if (n > 0 && b->len > 0 && b->data[b->len - 1] != '\n')
        tt_buf_putc(b, '\n');
    tt_buf_append(b, text, n);
}

static void add_string(tt_buf *b, const json_t *text)
{
    add_line(b, json_string_value(text), json_string_length(text));
}

/* What is in `b`, which is freed; NULL when there was no memory. */
static json_t *take_string(tt_buf *b)
{
    json_t *s = b->failed == TT_OK ? json_stringn(b->len > 0 ? b->data : "", b->len) : NULL;
    tt_buf_free(b);
    return s;
}

static const json_t *text_of(turn *t, const json_t *block, const char *where)
{
    const json_t *text = json_object_get(block, "text");
    char param[128];
    if (json_is_string(text))
        return text;
    snprintf(param, sizeof param, "%s.text", where);
    tt_refuse_value(t->f->why, param, "must be a text");
    return NULL;
}

/* A block is an object with a type that can stand in a tag. */
static bool check_block(turn *t, const json_t *block, const char *where)
{
    char param[128];
    const char *type = type_of(block);
    size_t n = strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789_");
    snprintf(param, sizeof param, "%s.type", where);
    if (n == 0 || n > TYPE_MOST || type[n] != '\0')
        return tt_refuse_value(t->f->why, param, "a block needs a type of a-z 0-9 _");
    if (tt_fields_get(block, "cache_control") != NULL)
        tt_fields_ignored(t->f, "cache_control");
    return true;
}

static bool refuse_block(turn *t, const char *where)
{
    char param[128];
    snprintf(param, sizeof param, "%s.type", where);
    return tt_refuse_unsupported(t->f->why, param, "the model reads text only");
}

/* ---- blocks in other words ---- */

static bool is_hidden(const char *key)
{
    return strncmp(key, "encrypted", 9) == 0 || strcmp(key, "cache_control") == 0;
}

/* What only the one who wrote it can read says nothing to a model. */
static void strip(json_t *v)
{
    const char *key;
    size_t i;
    json_t *child;
    void *next;
    json_object_foreach_safe(v, next, key, child)
    {
        if (is_hidden(key))
            json_object_del(v, key);
        else
            strip(child);
    }
    json_array_foreach(v, i, child)
    {
        strip(child);
    }
}

static bool add_marked(turn *t, tt_buf *b, const json_t *block)
{
    json_t *copy = json_deep_copy(block);
    strip(copy);
    char *text = json_dumps(copy, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(copy);
    if (text == NULL)
        return no_memory(t);
    add_line(b, "<", 1);
    tt_buf_printf(b, "%s>\n", type_of(block));
    tt_buf_puts(b, text);
    tt_buf_printf(b, "\n</%s>", type_of(block));
    tt_free(text);
    t->server_blocks++;
    return true;
}

static void add_search_result(tt_buf *b, const json_t *block)
{
    size_t i;
    json_t *part;
    add_line(b, "<search_result>", 15);
    add_string(b, json_object_get(block, "title"));
    add_string(b, json_object_get(block, "source"));
    json_array_foreach(json_object_get(block, "content"), i, part)
    {
        add_string(b, json_object_get(part, "text"));
    }
    add_line(b, "</search_result>", 16);
}

/* ---- results ---- */

static bool add_result_block(turn *t, const json_t *block, const char *where, tt_buf *b)
{
    if (!check_block(t, block, where))
        return false;
    if (is(block, "text")) {
        const json_t *text = text_of(t, block, where);
        if (text != NULL)
            add_string(b, text);
        return text != NULL;
    }
    if (is(block, "image") || is(block, "document")) {
        /* A tool chose it, and without an answer the conversation would end here. */
        add_line(b, "[", 1);
        tt_buf_printf(b, "%s]", type_of(block));
        t->hidden_parts++;
        return true;
    }
    if (!is(block, "search_result"))
        return add_marked(t, b, block);
    add_search_result(b, block);
    return true;
}

static bool result_text(turn *t, const json_t *content, const char *where, tt_buf *b)
{
    char inner[96];
    size_t i;
    json_t *block;
    if (content == NULL || json_is_null(content))
        return true;
    if (json_is_string(content)) {
        add_string(b, content);
        return true;
    }
    snprintf(inner, sizeof inner, "%s.content", where);
    if (!json_is_array(content))
        return tt_refuse_value(t->f->why, inner, "must be a text or an array of blocks");
    json_array_foreach(content, i, block)
    {
        snprintf(inner, sizeof inner, "%s.content[%zu]", where, i);
        if (!add_result_block(t, block, inner, b))
            return false;
    }
    return true;
}

static bool says_error(const tt_buf *b)
{
    return b->len >= 5 && (b->data[0] == 'E' || b->data[0] == 'e') &&
           memcmp(b->data + 1, "rror", 4) == 0;
}

static bool take_result(turn *t, const json_t *block, const char *where)
{
    tt_buf text, whole;
    const json_t *id = json_object_get(block, "tool_use_id");
    tt_buf_init(&text, TT_BODY_MOST);
    if (!result_text(t, json_object_get(block, "content"), where, &text)) {
        tt_buf_free(&text);
        return false;
    }
    tt_buf_init(&whole, TT_BODY_MOST);
    if (json_is_true(json_object_get(block, "is_error")) && !says_error(&text))
        tt_buf_puts(&whole, "Error: ");
    tt_buf_append(&whole, text.data, text.len);
    if (text.failed != TT_OK)
        whole.failed = text.failed;
    tt_buf_free(&text);
    json_t *m = json_pack("{s:s, s:o}", "role", "tool", "content", take_string(&whole));
    int bad = m == NULL;
    if (!bad && json_is_string(id))
        bad |= json_object_set(m, "tool_call_id", (json_t *)id);
    bad |= json_array_append_new(t->results, m);
    return bad == 0 || no_memory(t);
}

/* ---- blocks of a user ---- */

static bool user_block(turn *t, const json_t *block, const char *where)
{
    if (is(block, "tool_result"))
        return take_result(t, block, where);
    if (is(block, "text")) {
        const json_t *text = text_of(t, block, where);
        return text != NULL && (json_array_append(t->texts, (json_t *)text) == 0 || no_memory(t));
    }
    if (!is(block, "search_result"))
        return refuse_block(t, where);
    tt_buf b;
    tt_buf_init(&b, TT_BODY_MOST);
    add_search_result(&b, block);
    return json_array_append_new(t->texts, take_string(&b)) == 0 || no_memory(t);
}

static bool is_reminder(const json_t *text)
{
    return strncmp(json_string_value(text), REMINDER, strlen(REMINDER)) == 0;
}

/* The texts of a user that are reminders, or that are none, one a line. */
static void join_texts(const turn *t, bool reminders, tt_buf *b)
{
    bool results = json_array_size(t->results) > 0;
    size_t i;
    json_t *text;
    json_array_foreach(t->texts, i, text)
    {
        if ((results && is_reminder(text)) == reminders)
            add_string(b, text);
    }
}

/* Reminders go to the last result: as a message of the user's they would be a new question, before
 * which templates drop the thoughts that they have rendered. */
static bool extend_result(turn *t)
{
    json_t *last = json_array_get(t->results, json_array_size(t->results) - 1);
    tt_buf b;
    if (last == NULL)
        return true;
    tt_buf_init(&b, 2 * TT_BODY_MOST);
    add_string(&b, json_object_get(last, "content"));
    join_texts(t, true, &b);
    return json_object_set_new(last, "content", take_string(&b)) == 0;
}

static bool end_user(turn *t)
{
    tt_buf b;
    tt_buf_init(&b, 2 * TT_BODY_MOST);
    join_texts(t, false, &b);
    bool any = b.len > 0 || json_array_size(t->results) == 0;
    bool ok = extend_result(t) && json_array_extend(t->list, t->results) == 0;
    json_t *text = take_string(&b);
    if (ok && any)
        ok = json_array_append_new(t->list,
                                   json_pack("{s:s, s:O}", "role", "user", "content", text)) == 0;
    json_decref(text);
    return ok && text != NULL;
}

/* ---- blocks of an assistant ---- */

static bool take_call(turn *t, const json_t *block, const char *where)
{
    char param[128];
    const json_t *name = json_object_get(block, "name"), *id = json_object_get(block, "id");
    const json_t *input = json_object_get(block, "input");
    snprintf(param, sizeof param, "%s.name", where);
    if (!json_is_string(name))
        return tt_refuse_value(t->f->why, param, "a call needs a name");
    json_t *fn = json_pack("{s:O}", "name", name);
    json_t *call = json_pack("{s:s, s:o}", "type", "function", "function", fn);
    int bad = call == NULL;
    if (!bad && input != NULL)
        bad |= json_object_set(fn, "arguments", (json_t *)input);
    if (!bad && json_is_string(id))
        bad |= json_object_set(call, "id", (json_t *)id);
    bad |= json_array_append_new(t->calls, call);
    t->apart = true;
    return bad == 0 || no_memory(t);
}

/* A call of a tool that another server ran, or what came of it. */
static bool is_server_block(const char *type)
{
    static const char end[] = "_tool_result";
    size_t n = strlen(type), k = sizeof end - 1;
    return strcmp(type, "server_tool_use") == 0 || strcmp(type, "mcp_tool_use") == 0 ||
           (n > k && strcmp(type + n - k, end) == 0);
}

static bool assistant_block(turn *t, const json_t *block, const char *where)
{
    if (is(block, "text")) {
        const json_t *text = text_of(t, block, where);
        if (text != NULL && json_string_length(text) > 0) {
            tt_buf_puts(&t->text, t->apart && t->text.len > 0 ? "\n\n" : "");
            tt_buf_append(&t->text, json_string_value(text), json_string_length(text));
            t->apart = false;
        }
        return text != NULL;
    }
    if (is(block, "tool_use"))
        return take_call(t, block, where);
    t->apart = true;
    if (is(block, "thinking")) {
        const json_t *thought = json_object_get(block, "thinking");
        if (json_is_string(thought))
            add_string(&t->thought, thought);
        return true;
    }
    if (is(block, "redacted_thinking")) {
        t->dropped_thoughts++;
        return true;
    }
    return is_server_block(type_of(block)) ? add_marked(t, &t->text, block)
                                           : refuse_block(t, where);
}

static bool end_assistant(turn *t)
{
    json_t *m = json_pack("{s:s}", "role", "assistant");
    int bad = m == NULL || t->text.failed != TT_OK || t->thought.failed != TT_OK;
    size_t thought = t->thought.len;
    json_t *said = take_string(&t->text), *hidden = take_string(&t->thought);
    bad |= json_object_set_new(m, "content", said);
    if (thought > 0)
        bad |= json_object_set(m, "reasoning_content", hidden);
    if (json_array_size(t->calls) > 0)
        bad |= json_object_set(m, "tool_calls", t->calls);
    json_decref(hidden);
    bad |= json_array_append_new(t->list, m);
    return bad == 0;
}

/* ---- turns ---- */

static bool begin_turn(turn *t, const char *role)
{
    t->role = role;
    t->texts = json_array();
    t->results = json_array();
    t->calls = json_array();
    tt_buf_init(&t->text, 2 * TT_BODY_MOST);
    tt_buf_init(&t->thought, TT_BODY_MOST);
    t->apart = false;
    return (t->texts != NULL && t->results != NULL && t->calls != NULL) || no_memory(t);
}

static void free_turn(turn *t)
{
    json_decref(t->texts);
    json_decref(t->results);
    json_decref(t->calls);
    t->texts = t->results = t->calls = NULL;
    tt_buf_free(&t->text);
    tt_buf_free(&t->thought);
    t->role = NULL;
}

static bool end_turn(turn *t)
{
    if (t->role == NULL)
        return true;
    bool ok = strcmp(t->role, "user") == 0 ? end_user(t) : end_assistant(t);
    free_turn(t);
    return ok || no_memory(t);
}

static bool take_block(turn *t, const json_t *block, const char *where)
{
    return check_block(t, block, where) &&
           (strcmp(t->role, "user") == 0 ? user_block(t, block, where)
                                         : assistant_block(t, block, where));
}

/* Text stands for one block of it. */
static bool take_words(turn *t, const json_t *text, const char *where)
{
    json_t *block = json_pack("{s:s, s:O}", "type", "text", "text", text);
    bool ok = block != NULL ? take_block(t, block, where) : no_memory(t);
    json_decref(block);
    return ok;
}

static bool take_content(turn *t, const json_t *content, size_t at)
{
    char where[96];
    size_t i;
    json_t *block;
    snprintf(where, sizeof where, "messages[%zu].content", at);
    if (json_is_string(content))
        return take_words(t, content, where);
    if (content == NULL || json_is_null(content))
        return tt_refuse_missing(t->f->why, where);
    if (!json_is_array(content))
        return tt_refuse_value(t->f->why, where, "must be a text or an array of blocks");
    json_array_foreach(content, i, block)
    {
        snprintf(where, sizeof where, "messages[%zu].content[%zu]", at, i);
        if (!take_block(t, block, where))
            return false;
    }
    return true;
}

/* ---- system text ---- */

static bool add_system(turn *t, json_t *text)
{
    json_t *m = json_pack("{s:s, s:o}", "role", "system", "content", text);
    return json_array_append_new(t->list, m) == 0 || no_memory(t);
}

static const json_t *system_block(turn *t, const json_t *block, const char *where)
{
    if (!check_block(t, block, where))
        return NULL;
    if (is(block, "text"))
        return text_of(t, block, where);
    refuse_block(t, where);
    return NULL;
}

/* Text or blocks of it; every block is a message of its own when `each`. */
static bool take_system(turn *t, const json_t *content, const char *name, bool each)
{
    char where[96];
    size_t i;
    json_t *block;
    tt_buf b;
    if (json_is_string(content))
        return add_system(t, json_incref((json_t *)content));
    if (!json_is_array(content))
        return tt_refuse_value(t->f->why, name, "must be a text or an array of text blocks");
    tt_buf_init(&b, TT_BODY_MOST);
    bool ok = true;
    json_array_foreach(content, i, block)
    {
        snprintf(where, sizeof where, "%s[%zu]", name, i);
        const json_t *text = ok ? system_block(t, block, where) : NULL;
        ok = text != NULL;
        if (ok && each)
            ok = add_system(t, json_incref((json_t *)text));
        else if (ok)
            add_string(&b, text);
    }
    json_t *whole = take_string(&b);
    if (!ok || each) {
        json_decref(whole);
        return ok;
    }
    return add_system(t, whole);
}

/* ---- the whole ---- */

static bool take_message(turn *t, const json_t *message, size_t at)
{
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]", at);
    if (!json_is_object(message))
        return tt_refuse_value(t->f->why, param, "must be an object");
    const json_t *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));
    snprintf(param, sizeof param, "messages[%zu].role", at);
    if (role == NULL)
        return tt_refuse_missing(t->f->why, param);
    if (strcmp(role, "system") == 0) {
        snprintf(param, sizeof param, "messages[%zu].content", at);
        return end_turn(t) && take_system(t, content, param, false);
    }
    bool user = strcmp(role, "user") == 0;
    if (!user && strcmp(role, "assistant") != 0)
        return tt_refuse_value(t->f->why, param, "must be user, assistant or system");
    if (t->role != NULL && strcmp(t->role, role) != 0 && !end_turn(t))
        return false;
    if (t->role == NULL && !begin_turn(t, user ? "user" : "assistant"))
        return false;
    t->apart = true; /* from the message before */
    return take_content(t, content, at);
}

static void write_notes(const turn *t)
{
    const struct {
        const char *name;
        uint32_t n;
    } rows[] = {{"dropped_thoughts", t->dropped_thoughts},
                {"hidden_parts", t->hidden_parts},
                {"server_blocks", t->server_blocks}};
    tt_buf *out = &t->f->repaired;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].n > 0)
            tt_buf_printf(out, "%s%s=%u", out->len > 0 ? " " : "", rows[i].name, rows[i].n);
}

bool tt_messages_history(tt_fields *f, const json_t *system, const json_t *messages, json_t **out)
{
    turn t = {.f = f, .list = json_array()};
    size_t i;
    json_t *message;
    bool ok = t.list != NULL || no_memory(&t);
    if (ok && system != NULL)
        ok = take_system(&t, system, "system", true);
    json_array_foreach(messages, i, message) ok = ok && take_message(&t, message, i);
    ok = ok && end_turn(&t);
    free_turn(&t);
    if (!ok) {
        json_decref(t.list);
        return false;
    }
    write_notes(&t);
    *out = t.list;
    return true;
}
