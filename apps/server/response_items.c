/* Two steps: what a client sent becomes items in one form, and those become messages. */
#include "server/response_items.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/base64.h"
#include "server/request_memory.h"
#include "server/turn.h"

#define MOST_TEXT      (256 * TT_MIB)
#define SUMMARY_BEFORE "The conversation so far, summarized:\n<summary>\n"
#define SUMMARY_AFTER  "\n</summary>"

typedef enum item_kind {
    ITEM_MESSAGE,
    ITEM_CALL,
    ITEM_RESULT,
    ITEM_CUSTOM_CALL,
    ITEM_CUSTOM_RESULT,
    ITEM_REASONING,
    ITEM_REFERENCE,
    ITEM_COMPACTION,
    ITEM_TOOLS,
    ITEM_HOSTED,
    ITEM_OTHER
} item_kind;

static const struct {
    const char *type;
    item_kind kind;
    const char *id; /* what a made id begins with */
} kinds[] = {
    {"message", ITEM_MESSAGE, "msg_"},
    {"function_call", ITEM_CALL, "fc_"},
    {"function_call_output", ITEM_RESULT, "fco_"},
    {"custom_tool_call", ITEM_CUSTOM_CALL, "ctc_"},
    {"custom_tool_call_output", ITEM_CUSTOM_RESULT, "ctco_"},
    {"reasoning", ITEM_REASONING, "rs_"},
    {"item_reference", ITEM_REFERENCE, ""},
    {"compaction", ITEM_COMPACTION, "cmp_"},
    {"compaction_summary", ITEM_COMPACTION, "cmp_"},
    {"additional_tools", ITEM_TOOLS, "at_"},
    {"apply_patch_call", ITEM_HOSTED, ""},
    {"apply_patch_call_output", ITEM_HOSTED, ""},
    {"code_interpreter_call", ITEM_HOSTED, ""},
    {"computer_call", ITEM_HOSTED, ""},
    {"computer_call_output", ITEM_HOSTED, ""},
    {"file_search_call", ITEM_HOSTED, ""},
    {"image_generation_call", ITEM_HOSTED, ""},
    {"local_shell_call", ITEM_HOSTED, ""},
    {"local_shell_call_output", ITEM_HOSTED, ""},
    {"mcp_approval_request", ITEM_HOSTED, ""},
    {"mcp_approval_response", ITEM_HOSTED, ""},
    {"mcp_call", ITEM_HOSTED, ""},
    {"mcp_list_tools", ITEM_HOSTED, ""},
    {"program", ITEM_HOSTED, ""},
    {"program_output", ITEM_HOSTED, ""},
    {"shell_call", ITEM_HOSTED, ""},
    {"shell_call_output", ITEM_HOSTED, ""},
    {"tool_search_call", ITEM_HOSTED, ""},
    {"tool_search_output", ITEM_HOSTED, ""},
    {"web_search_call", ITEM_HOSTED, ""},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static bool no_memory(tt_refusal *why)
{
    return tt_refuse(why, 503, "memory_full", NULL, "there is no memory for the conversation");
}

/* The value, or NULL when it is missing or null. */
static json_t *get(const json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    return json_is_null(v) ? NULL : v;
}

static bool is_word(const json_t *v, const char *word)
{
    return json_is_string(v) && json_string_length(v) == strlen(word) &&
           strcmp(json_string_value(v), word) == 0;
}

/* ---- texts that clients carry ---- */

static const char *const carried_marks[] = {"tt1r", "tt1s"};
#define MARK 4u

void tt_carried_write(tt_buf *out, tt_carried kind, const char *text, size_t len)
{
    tt_buf b;
    tt_buf_init(&b, MOST_TEXT);
    tt_buf_append(&b, carried_marks[kind], MARK);
    tt_buf_append(&b, text, len);
    if (b.failed != TT_OK)
        out->failed = b.failed;
    else
        tt_base64_write(out, b.data, b.len);
    tt_buf_free(&b);
}

json_t *tt_carried_read(const json_t *carried, tt_carried kind)
{
    json_t *text = NULL;
    tt_buf b;
    tt_buf_init(&b, MOST_TEXT);
    if (json_is_string(carried) &&
        tt_base64_read(&b, json_string_value(carried), json_string_length(carried)) &&
        b.failed == TT_OK && b.len >= MARK && memcmp(b.data, carried_marks[kind], MARK) == 0)
        text = json_stringn(b.data + MARK, b.len - MARK); /* NULL when it is no UTF-8 */
    tt_buf_free(&b);
    return text;
}

bool tt_tool_name_write(tt_buf *out, const char *space, const char *name)
{
    if (space != NULL)
        tt_buf_printf(out, "%s.", space);
    tt_buf_puts(out, name);
    return out->failed == TT_OK;
}

/* ---- to the one form: parts ---- */

/* Of one item in work. */
typedef struct place {
    tt_item_reader *r;
    char name[32]; /* "input[3]" */
} place;

static const char *param(const place *at, const char *field, char out[96])
{
    snprintf(out, 96, "%s%s", at->name, field);
    return out;
}

/* A part of `content` or `output`; NULL when it was refused. */
static json_t *read_part(const place *at, const json_t *part, const char *field, size_t i,
                         bool assistant)
{
    static const char *const texts[] = {"input_text", "output_text", "text", "refusal", NULL};
    char name[64], p[96];
    const json_t *type = get(part, "type");
    int k = 0;
    while (texts[k] != NULL && !is_word(type, texts[k]))
        k++;
    bool refusal = k == 3;
    if (!json_is_string(type) || texts[k] == NULL || (refusal && !assistant)) {
        snprintf(name, sizeof name, ".%s[%zu].type", field, i);
        if (json_is_string(type))
            tt_refuse_unsupported(at->r->why, param(at, name, p), "the model reads text only");
        else
            tt_refuse_value(at->r->why, param(at, name, p), "a part needs a type");
        return NULL;
    }
    json_t *text = get(part, refusal ? "refusal" : "text");
    if (!json_is_string(text)) {
        snprintf(name, sizeof name, ".%s[%zu].%s", field, i, refusal ? "refusal" : "text");
        tt_refuse_value(at->r->why, param(at, name, p), "must be a text");
        return NULL;
    }
    json_t *out = refusal     ? json_pack("{s:s, s:O}", "type", "refusal", "refusal", text)
                  : assistant ? json_pack("{s:s, s:O, s:[], s:[]}", "type", "output_text", "text",
                                          text, "annotations", "logprobs")
                              : json_pack("{s:s, s:O}", "type", "input_text", "text", text);
    if (out == NULL)
        no_memory(at->r->why);
    return out;
}

/* Text or parts to an array of parts; NULL when it was refused. */
static json_t *read_parts(const place *at, json_t *v, const char *field, bool assistant)
{
    char name[64], p[96];
    size_t i;
    json_t *part, *list = json_array();
    snprintf(name, sizeof name, ".%s", field);
    if (json_is_string(v)) {
        json_t *one = json_pack("{s:s, s:O}", "type", "text", "text", v);
        json_array_append_new(list, read_part(at, one, field, 0, assistant));
        json_decref(one);
    } else if (v != NULL && !json_is_array(v)) {
        tt_refuse_value(at->r->why, param(at, name, p), "must be a text or an array of parts");
    }
    json_array_foreach(v, i, part)
    {
        json_t *made = read_part(at, part, field, i, assistant);
        if (made == NULL)
            break;
        json_array_append_new(list, made);
    }
    size_t want = json_is_string(v) ? 1 : json_array_size(v);
    if (at->r->why->status == 0 && list != NULL && json_array_size(list) == want)
        return list;
    if (at->r->why->status == 0)
        no_memory(at->r->why);
    json_decref(list);
    return NULL;
}

static bool join_parts(const json_t *parts, tt_buf *out)
{
    size_t i;
    json_t *part;
    json_array_foreach(parts, i, part)
    {
        const json_t *text = get(part, is_word(get(part, "type"), "refusal") ? "refusal" : "text");
        tt_buf_append(out, json_string_value(text), json_string_length(text));
    }
    return out->failed == TT_OK;
}

/* ---- to the one form: kinds ---- */

static json_t *read_message(const place *at, const json_t *raw)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer", NULL};
    const json_t *role = get(raw, "role");
    char p[96];
    int k = 0;
    if (role == NULL) {
        tt_refuse_missing(at->r->why, param(at, ".role", p));
        return NULL;
    }
    while (roles[k] != NULL && !is_word(role, roles[k]))
        k++;
    if (roles[k] == NULL) {
        tt_refuse_value(at->r->why, param(at, ".role", p),
                        "must be user, assistant, system or developer");
        return NULL;
    }
    json_t *parts = read_parts(at, get(raw, "content"), "content", k == 1);
    return parts == NULL ? NULL
                         : json_pack("{s:s, s:s, s:s, s:o}", "type", "message", "status",
                                     "completed", "role", roles[k], "content", parts);
}

/* A text of the item, which may have been sent as what it stands for. */
static json_t *text_of(const json_t *v)
{
    if (json_is_string(v))
        return json_incref((json_t *)v);
    char *text = v != NULL ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_t *out = json_string(text != NULL ? text : "");
    tt_free(text);
    return out;
}

static json_t *read_call(const place *at, const json_t *raw, bool custom)
{
    char p[96];
    json_t *name = get(raw, "name"), *id = get(raw, "call_id"), *space = get(raw, "namespace");
    if (!json_is_string(name)) {
        tt_refuse_value(at->r->why, param(at, ".name", p), "a call needs a name");
        return NULL;
    }
    json_t *out =
        json_pack("{s:s, s:s, s:O, s:o}", "type", custom ? "custom_tool_call" : "function_call",
                  "status", "completed", "name", name, custom ? "input" : "arguments",
                  text_of(get(raw, custom ? "input" : "arguments")));
    json_object_set_new(out, "call_id", json_is_string(id) ? json_incref(id) : json_string(""));
    if (json_is_string(space))
        json_object_set(out, "namespace", space);
    return out;
}

static json_t *read_result(const place *at, const json_t *raw, bool custom)
{
    json_t *id = get(raw, "call_id"), *parts = read_parts(at, get(raw, "output"), "output", false);
    tt_buf b;
    if (parts == NULL)
        return NULL;
    tt_buf_init(&b, MOST_TEXT);
    json_t *text = join_parts(parts, &b) ? json_stringn(b.data != NULL ? b.data : "", b.len) : NULL;
    tt_buf_free(&b);
    json_decref(parts);
    return json_pack("{s:s, s:s, s:o, s:o}", "type",
                     custom ? "custom_tool_call_output" : "function_call_output", "status",
                     "completed", "output", text, "call_id",
                     json_is_string(id) ? json_incref(id) : json_string(""));
}

/* The texts of a list of parts of one type. */
static json_t *read_texts(const json_t *list, const char *type)
{
    json_t *out = json_array(), *part;
    size_t i;
    json_array_foreach(list, i, part)
    {
        json_t *text = get(part, "text");
        if (json_is_string(text))
            json_array_append_new(out, json_pack("{s:s, s:O}", "type", type, "text", text));
    }
    return out;
}

static json_t *read_reasoning(const json_t *raw)
{
    json_t *carried = get(raw, "encrypted_content");
    json_t *out = json_pack("{s:s, s:s, s:o}", "type", "reasoning", "status", "completed",
                            "summary", read_texts(get(raw, "summary"), "summary_text"));
    json_t *content = read_texts(get(raw, "content"), "reasoning_text");
    if (json_array_size(content) > 0)
        json_object_set(out, "content", content);
    json_decref(content);
    if (json_is_string(carried))
        json_object_set(out, "encrypted_content", carried);
    return out;
}

static json_t *read_compaction(const place *at, const json_t *raw)
{
    char p[96];
    json_t *carried = get(raw, "encrypted_content");
    json_t *summary = tt_carried_read(carried, TT_CARRIED_SUMMARY);
    if (summary == NULL) {
        tt_refuse_value(at->r->why, param(at, ".encrypted_content", p),
                        "must be a summary that was made here");
        return NULL;
    }
    json_decref(summary);
    return json_pack("{s:s, s:O}", "type", "compaction", "encrypted_content", carried);
}

/* What is in the list is looked at with the other tools. */
static json_t *read_tools(const place *at, const json_t *raw)
{
    char p[96];
    json_t *tools = get(raw, "tools");
    if (!json_is_array(tools)) {
        tt_refuse_value(at->r->why, param(at, ".tools", p), "must be an array");
        return NULL;
    }
    return json_pack("{s:s, s:s, s:O}", "type", "additional_tools", "role", "developer", "tools",
                     tools);
}

/* ---- to the one form: items ---- */

static item_kind kind_of(const json_t *raw, const char **id)
{
    static const struct {
        const char *field, *type;
    } guesses[] = {{"role", "message"},
                   {"output", "function_call_output"},
                   {"arguments", "function_call"},
                   {"input", "custom_tool_call"},
                   {"summary", "reasoning"},
                   {"id", "item_reference"}};
    const json_t *type = get(raw, "type");
    const char *word = json_is_string(type) ? json_string_value(type) : "";
    for (size_t i = 0; type == NULL && *word == '\0' && i < sizeof guesses / sizeof guesses[0]; i++)
        if (get(raw, guesses[i].field) != NULL)
            word = guesses[i].type;
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].type, word) == 0) {
            *id = kinds[i].id;
            return kinds[i].kind;
        }
    return ITEM_OTHER;
}

/* Its own id, or one that is made. */
static bool name_item(json_t *item, const json_t *raw, const char *prefix, char id[TT_ITEM_ID])
{
    const json_t *given = get(raw, "id");
    size_t n = json_string_length(given);
    if (n > 0 && n < TT_ITEM_ID && strlen(json_string_value(given)) == n)
        memcpy(id, json_string_value(given), n + 1);
    else
        tt_random_id(prefix, id);
    return json_object_set_new(item, "id", json_string(id)) == 0;
}

static bool add_item(tt_item_reader *r, json_t *item, const char *id)
{
    if (json_array_append_new(r->items, item) != 0 || tt_tree_memory_full())
        return no_memory(r->why);
    if (!r->keep)
        return true;
    char *text = json_dumps(item, JSON_COMPACT);
    tt_stored_item *made = text != NULL ? tt_stored_item_new(id, text, strlen(text)) : NULL;
    tt_free(text);
    if (made != NULL)
        r->bytes += sizeof *made + made->len + sizeof made;
    return tt_item_list_add(r->store, &r->kept, made) || no_memory(r->why);
}

/* One that is kept; the caller's hold of it is taken over. */
static bool add_stored(tt_item_reader *r, tt_stored_item *stored)
{
    json_t *item = NULL;
    tt_error ignored;
    bool ok = tt_json_parse_deep(stored->text, stored->len, TT_REQUEST_DEPTH, "an item", &item,
                                 &ignored) == TT_OK &&
              json_array_append_new(r->items, item) == 0 && !tt_tree_memory_full();
    if (ok && r->keep)
        return tt_item_list_add(r->store, &r->kept, stored) || no_memory(r->why);
    tt_response_store_drop_item(r->store, stored);
    return ok || no_memory(r->why);
}

static bool read_reference(const place *at, const json_t *raw)
{
    char p[96];
    const json_t *id = get(raw, "id");
    if (!json_is_string(id))
        return tt_refuse_missing(at->r->why, param(at, ".id", p));
    /* What stands behind U+0000 would be lost, and none of ours has it. */
    bool whole = strlen(json_string_value(id)) == json_string_length(id);
    tt_stored_item *item =
        whole ? tt_response_store_item(at->r->store, json_string_value(id)) : NULL;
    if (item == NULL)
        return tt_refuse(at->r->why, 404, "item_not_found", param(at, ".id", p),
                         "there is no such item here, or it was forgotten");
    return add_stored(at->r, item);
}

static json_t *read_kind(const place *at, const json_t *raw, item_kind kind)
{
    switch (kind) {
    case ITEM_MESSAGE:
        return read_message(at, raw);
    case ITEM_CALL:
    case ITEM_CUSTOM_CALL:
        return read_call(at, raw, kind == ITEM_CUSTOM_CALL);
    case ITEM_RESULT:
    case ITEM_CUSTOM_RESULT:
        return read_result(at, raw, kind == ITEM_CUSTOM_RESULT);
    case ITEM_REASONING:
        return read_reasoning(raw);
    case ITEM_TOOLS:
        return read_tools(at, raw);
    default:
        return read_compaction(at, raw);
    }
}

static bool read_item(tt_item_reader *r, const json_t *raw, size_t i)
{
    place at = {.r = r};
    char p[96], id[TT_ITEM_ID];
    const char *prefix = "";
    snprintf(at.name, sizeof at.name, "input[%zu]", i);
    if (!json_is_object(raw))
        return tt_refuse_value(r->why, at.name, "must be an object");
    item_kind kind = kind_of(raw, &prefix);
    if (kind == ITEM_OTHER && get(raw, "type") == NULL)
        return tt_refuse_missing(r->why, param(&at, ".type", p));
    if (kind == ITEM_OTHER)
        return tt_refuse_unsupported(r->why, param(&at, ".type", p), "no such items are read here");
    r->hosted |= kind == ITEM_HOSTED;
    if (kind == ITEM_HOSTED)
        return true;
    if (kind == ITEM_REFERENCE)
        return read_reference(&at, raw);
    json_t *item = read_kind(&at, raw, kind);
    if (item == NULL)
        return r->why->status != 0 ? false : no_memory(r->why);
    if (name_item(item, raw, prefix, id))
        return add_item(r, item, id);
    json_decref(item);
    return no_memory(r->why);
}

/* ---- readers ---- */

bool tt_item_reader_init(tt_item_reader *r, tt_response_store *store, bool keep, tt_refusal *why)
{
    *r = (tt_item_reader){.store = store, .why = why, .keep = keep, .items = json_array()};
    return r->items != NULL || no_memory(why);
}

void tt_item_reader_free(tt_item_reader *r)
{
    json_decref(r->items);
    tt_item_list_free(r->store, &r->kept);
    r->items = NULL;
}

bool tt_item_reader_previous(tt_item_reader *r, const char *id)
{
    const tt_stored_response *before = tt_response_store_get(r->store, id);
    if (before == NULL)
        return tt_refuse(r->why, 404, "previous_response_not_found", "previous_response_id",
                         "there is no such response here, or it was forgotten");
    bool ok = true;
    for (size_t i = 0; ok && i < before->n_items; i++) {
        tt_response_store_hold_item(r->store, before->items[i]);
        ok = add_stored(r, before->items[i]);
    }
    tt_response_store_release(r->store, before);
    return ok;
}

bool tt_item_reader_input(tt_item_reader *r, const json_t *input)
{
    size_t i, n = json_is_array(input) ? json_array_size(input) : input != NULL;
    json_t *raw;
    if (n + json_array_size(r->items) > TT_MESSAGES)
        return tt_refuse_large(r->why, "input", "there may be %u items", TT_MESSAGES);
    if (json_is_string(input)) {
        json_t *one = json_pack("{s:s, s:O}", "role", "user", "content", input);
        bool ok = one != NULL ? read_item(r, one, 0) : no_memory(r->why);
        json_decref(one);
        return ok;
    }
    if (input != NULL && !json_is_array(input))
        return tt_refuse_value(r->why, "input", "input must be a text or an array of items");
    json_array_foreach(input, i, raw) if (!read_item(r, raw, i)) return false;
    return true;
}

/* ---- to messages ---- */

/* The message of the assistant in work. */
typedef struct builder {
    json_t *list;
    tt_buf text, thought;
    json_t *calls;
    bool open, spoke; /* there is one; it has a message */
    bool failed;
    uint32_t dropped;
} builder;

static json_t *take_text(tt_buf *b)
{
    json_t *text = b->failed == TT_OK ? json_stringn(b->len > 0 ? b->data : "", b->len) : NULL;
    tt_buf_clear(b);
    return text;
}

static void end_message(builder *b)
{
    if (!b->open)
        return;
    bool empty = b->text.len == 0 && json_array_size(b->calls) == 0;
    bool thought = b->thought.len > 0;
    json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", take_text(&b->text));
    json_t *reasoning = take_text(&b->thought);
    if (thought)
        b->failed |= json_object_set(m, "reasoning_content", reasoning) != 0;
    json_decref(reasoning);
    if (json_array_size(b->calls) > 0)
        b->failed |= json_object_set(m, "tool_calls", b->calls) != 0;
    json_decref(b->calls);
    b->calls = NULL;
    b->open = b->spoke = false;
    b->failed |= m == NULL;
    b->dropped += empty;
    if (empty)
        json_decref(m);
    else
        b->failed |= json_array_append_new(b->list, m) != 0;
}

/* What follows belongs to the assistant. */
static void begin_message(builder *b, bool next)
{
    if (next && b->spoke && json_array_size(b->calls) == 0)
        end_message(b);
    b->open = true;
}

static void add_call(builder *b, const json_t *item, bool custom)
{
    const json_t *space = get(item, "namespace"), *id = get(item, "call_id");
    json_t *text = get(item, custom ? "input" : "arguments");
    tt_buf name;
    begin_message(b, false);
    tt_buf_init(&name, MOST_TEXT);
    tt_tool_name_write(&name, json_string_value(space), json_string_value(get(item, "name")));
    json_t *arguments = custom ? json_pack("{s:O}", "input", text) : json_incref(text);
    json_t *call = json_pack("{s:s, s:O, s:{s:s, s:o}}", "type", "function", "id", id, "function",
                             "name", name.len > 0 ? name.data : "", "arguments", arguments);
    if (b->calls == NULL)
        b->calls = json_array();
    b->failed |= name.failed != TT_OK || json_array_append_new(b->calls, call) != 0;
    tt_buf_free(&name);
}

static void add_result(builder *b, const json_t *item)
{
    json_t *id = get(item, "call_id");
    end_message(b);
    json_t *m = json_pack("{s:s, s:O}", "role", "tool", "content", get(item, "output"));
    if (json_string_length(id) > 0)
        b->failed |= json_object_set(m, "tool_call_id", id) != 0;
    b->failed |= json_array_append_new(b->list, m) != 0;
}

static void add_message(builder *b, const json_t *item)
{
    const json_t *role = get(item, "role"), *parts = get(item, "content");
    tt_buf text;
    if (is_word(role, "assistant")) {
        begin_message(b, true);
        b->spoke = true;
        join_parts(parts, &b->text);
        b->failed |= b->text.failed != TT_OK;
        return;
    }
    end_message(b);
    tt_buf_init(&text, MOST_TEXT);
    join_parts(parts, &text);
    json_t *m = json_pack("{s:O, s:o}", "role", role, "content", take_text(&text));
    b->failed |= json_array_append_new(b->list, m) != 0;
    tt_buf_free(&text);
}

static void join_texts(const json_t *list, const char *between, tt_buf *out)
{
    size_t i;
    json_t *part;
    json_array_foreach(list, i, part)
    {
        const json_t *text = get(part, "text");
        tt_buf_puts(out, i > 0 ? between : "");
        tt_buf_append(out, json_string_value(text), json_string_length(text));
    }
}

static void add_thought(builder *b, const json_t *item)
{
    const json_t *content = get(item, "content");
    begin_message(b, true);
    if (json_array_size(content) > 0) {
        join_texts(content, "", &b->thought);
        return;
    }
    json_t *carried = tt_carried_read(get(item, "encrypted_content"), TT_CARRIED_THOUGHT);
    if (carried != NULL)
        tt_buf_append(&b->thought, json_string_value(carried), json_string_length(carried));
    else
        join_texts(get(item, "summary"), "\n\n", &b->thought);
    json_decref(carried);
    b->failed |= b->thought.failed != TT_OK;
}

static void add_summary(builder *b, const json_t *item)
{
    json_t *summary = tt_carried_read(get(item, "encrypted_content"), TT_CARRIED_SUMMARY);
    tt_buf text;
    end_message(b);
    tt_buf_init(&text, MOST_TEXT);
    tt_buf_puts(&text, SUMMARY_BEFORE);
    if (summary != NULL)
        tt_buf_append(&text, json_string_value(summary), json_string_length(summary));
    tt_buf_puts(&text, SUMMARY_AFTER);
    json_t *m = json_pack("{s:s, s:o}", "role", "user", "content", take_text(&text));
    b->failed |= json_array_append_new(b->list, m) != 0;
    json_decref(summary);
    tt_buf_free(&text);
}

static void add_one(builder *b, const json_t *item)
{
    const char *ignored;
    b->failed |= tt_tree_memory_full();
    switch (kind_of(item, &ignored)) {
    case ITEM_MESSAGE:
        add_message(b, item);
        break;
    case ITEM_CALL:
        add_call(b, item, false);
        break;
    case ITEM_CUSTOM_CALL:
        add_call(b, item, true);
        break;
    case ITEM_RESULT:
    case ITEM_CUSTOM_RESULT:
        add_result(b, item);
        break;
    case ITEM_REASONING:
        add_thought(b, item);
        break;
    case ITEM_TOOLS:
        break;
    default:
        add_summary(b, item);
    }
}

json_t *tt_items_to_messages(const json_t *items, const json_t *instructions, uint32_t *dropped)
{
    builder b = {.list = json_array()};
    size_t i;
    tt_buf_init(&b.text, MOST_TEXT);
    tt_buf_init(&b.thought, MOST_TEXT);
    if (json_string_length(instructions) > 0)
        b.failed |= json_array_append_new(b.list, json_pack("{s:s, s:O}", "role", "system",
                                                            "content", instructions)) != 0;
    for (i = 0; i < json_array_size(items) && !b.failed; i++)
        add_one(&b, json_array_get(items, i));
    end_message(&b);
    tt_buf_free(&b.text);
    tt_buf_free(&b.thought);
    *dropped = b.dropped;
    if (!b.failed)
        return b.list;
    json_decref(b.list);
    return NULL;
}
