#include "server/response_request.h"

#include <string.h>

#include "server/chat_request.h"
#include "server/history.h"
#include "server/reply.h"
#include "server/request_memory.h"
#include "server/response_items.h"
#include "server/response_tools.h"

#define MOST_ECHO      (256 * TT_MIB)
#define COMPACT_TOKENS 4096u
#define COMPACT_SHARE  8u /* of the context */
#define COMPACT_REQUEST                                                                            \
    "Summarize the conversation up to here, so that it can be continued from your summary alone. " \
    "Keep what the user asked for and decided, word for word where it matters; what was done and " \
    "found out; names of files, functions and commands; what is still to be done. Answer with "    \
    "the summary and nothing else."

void tt_response_plan_free(tt_response_plan *p)
{
    if (p->responses != NULL)
        tt_item_list_free(p->responses, &p->context);
    tt_buf_free(&p->echo);
    json_decref(p->given);
    *p = (tt_response_plan){0};
}

/* ---- fields of other protocols ---- */

static bool take_row(const tt_field *row, tt_fields *f, const char *as, const char *name,
                     const json_t *v)
{
    while (strcmp(row->name, as) != 0)
        row++;
    return row->take(f, name, v);
}

static bool shared(tt_fields *f, const char *name, const json_t *v)
{
    return take_row(tt_shared_fields, f, name, name, v);
}

static bool as_chat(tt_fields *f, const char *name, const json_t *v)
{
    return take_row(tt_chat_fields, f, name, name, v);
}

/* ---- single fields ---- */

static bool text(tt_fields *f, const char *name, const json_t *v)
{
    return json_is_string(v) || tt_refuse_value(f->why, name, "%s must be a text", name);
}

static bool label(tt_fields *f, const char *name, const json_t *v)
{
    tt_fields_ignored(f, name);
    return text(f, name, v);
}

static bool boolean(tt_fields *f, const char *name, const json_t *v)
{
    bool ignored;
    return tt_fields_bool(f, name, v, &ignored);
}

static bool background(tt_fields *f, const char *name, const json_t *v)
{
    bool on = false;
    if (!tt_fields_bool(f, name, v, &on))
        return false;
    return !on || tt_refuse_unsupported(f->why, name, "nothing runs in the background here");
}

static bool top_logprobs(tt_fields *f, const char *name, const json_t *v)
{
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || n > TT_TOP_LOGPROBS)
        return tt_refuse_value(f->why, name, "%s must be a whole number from 0 to %u", name,
                               TT_TOP_LOGPROBS);
    f->out->turn.top_logprobs = (uint32_t)n;
    f->out->turn.logprobs |= n > 0;
    return true;
}

static bool truncation(tt_fields *f, const char *name, const json_t *v)
{
    const char *word = json_string_value(v);
    if (word != NULL && strcmp(word, "auto") == 0)
        tt_fields_adjusted(f, name);
    else if (word == NULL || strcmp(word, "disabled") != 0)
        return tt_refuse_value(f->why, name, "%s must be auto or disabled", name);
    return true;
}

static bool metadata(tt_fields *f, const char *name, const json_t *v)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return tt_refuse_value(f->why, name, "%s must be an object", name);
    json_object_foreach((json_t *)v, key, value) if (!json_is_string(value)) return tt_refuse_value(
        f->why, name, "%s may have texts only", name);
    return true;
}

static bool is_include(const json_t *v, const char *word)
{
    return json_is_string(v) && strcmp(json_string_value(v), word) == 0;
}

static bool include(tt_fields *f, const char *name, const json_t *v)
{
    size_t i;
    json_t *word;
    if (!json_is_array(v))
        return tt_refuse_value(f->why, name, "%s must be an array", name);
    json_array_foreach(v, i, word)
    {
        bool logprobs = is_include(word, "message.output_text.logprobs");
        f->out->turn.logprobs |= logprobs;
        if (!logprobs && !is_include(word, "reasoning.encrypted_content"))
            tt_fields_ignored(f, name);
    }
    return true;
}

static bool reasoning(tt_fields *f, const char *name, const json_t *v)
{
    static const char *const summaries[] = {"summary", "generate_summary", NULL};
    if (!json_is_object(v))
        return tt_refuse_value(f->why, name, "%s must be an object", name);
    const json_t *effort = tt_fields_get(v, "effort");
    if (effort != NULL &&
        !take_row(tt_chat_fields, f, "reasoning_effort", "reasoning.effort", effort))
        return false;
    for (int i = 0; summaries[i] != NULL; i++) {
        const json_t *summary = tt_fields_get(v, summaries[i]);
        if (summary == NULL)
            continue;
        if (!is_include(summary, "auto") && !is_include(summary, "concise") &&
            !is_include(summary, "detailed"))
            return tt_refuse_value(f->why, "reasoning.summary",
                                   "reasoning.summary must be auto, concise or detailed");
        if (!is_include(summary, "detailed"))
            tt_fields_adjusted(f, "reasoning.summary");
    }
    return true;
}

static bool text_format(tt_fields *f, const char *name, const json_t *v)
{
    if (!json_is_object(v))
        return tt_refuse_value(f->why, name, "%s must be an object", name);
    if (tt_fields_get(v, "verbosity") != NULL)
        tt_fields_ignored(f, "text.verbosity");
    const json_t *format = tt_fields_get(v, "format");
    return format == NULL || tt_form_take_format(f, "text.format", format, NULL);
}

static bool tool_choice(tt_fields *f, const char *name, const json_t *v)
{
    return tt_form_take_choice(f, name, v, false);
}

/* clang-format off */
static const tt_field table[] = {
    {"model", TT_FIELD_HONOURED, NULL},
    {"input", TT_FIELD_HONOURED, NULL},
    {"tools", TT_FIELD_HONOURED, NULL},
    {"stream", TT_FIELD_HONOURED, shared},
    {"temperature", TT_FIELD_HONOURED, shared},
    {"top_p", TT_FIELD_HONOURED, shared},
    {"top_k", TT_FIELD_HONOURED, shared},
    {"min_p", TT_FIELD_HONOURED, shared},
    {"repetition_penalty", TT_FIELD_HONOURED, shared},
    {"presence_penalty", TT_FIELD_HONOURED, shared},
    {"frequency_penalty", TT_FIELD_HONOURED, shared},
    {"seed", TT_FIELD_HONOURED, shared},
    {"max_output_tokens", TT_FIELD_HONOURED, tt_field_max_tokens},
    {"tool_choice", TT_FIELD_HONOURED, tool_choice},
    {"parallel_tool_calls", TT_FIELD_HONOURED, as_chat},
    {"chat_template_kwargs", TT_FIELD_HONOURED, as_chat},
    {"instructions", TT_FIELD_HONOURED, text},
    {"previous_response_id", TT_FIELD_HONOURED, text},
    {"store", TT_FIELD_HONOURED, boolean},
    {"reasoning", TT_FIELD_HONOURED, reasoning},
    {"text", TT_FIELD_HONOURED, text_format},
    {"top_logprobs", TT_FIELD_HONOURED, top_logprobs},
    {"include", TT_FIELD_HONOURED, include},
    {"metadata", TT_FIELD_HONOURED, metadata},
    {"truncation", TT_FIELD_HONOURED, truncation},
    {"background", TT_FIELD_HONOURED, background},
    {"prompt_cache_key", TT_FIELD_HONOURED, label},
    {"safety_identifier", TT_FIELD_HONOURED, label},
    {"stream_options", TT_FIELD_IGNORED, NULL},
    {"max_tool_calls", TT_FIELD_IGNORED, NULL},
    {"user", TT_FIELD_IGNORED, NULL},
    {"service_tier", TT_FIELD_IGNORED, NULL},
    {"prompt_cache_retention", TT_FIELD_IGNORED, NULL},
    {"prompt_cache_options", TT_FIELD_IGNORED, NULL},
    {"client_metadata", TT_FIELD_IGNORED, NULL},
    {"context_management", TT_FIELD_IGNORED, NULL},
    {"conversation", TT_FIELD_REFUSED, NULL},
    {"prompt", TT_FIELD_REFUSED, NULL},
    {"moderation", TT_FIELD_REFUSED, NULL},
    {NULL, TT_FIELD_HONOURED, NULL},
};

static const tt_field compact_table[] = {
    {"model", TT_FIELD_HONOURED, NULL},
    {"input", TT_FIELD_HONOURED, NULL},
    {"tools", TT_FIELD_HONOURED, NULL},
    {"instructions", TT_FIELD_HONOURED, text},
    {"previous_response_id", TT_FIELD_HONOURED, text},
    {"chat_template_kwargs", TT_FIELD_HONOURED, as_chat},
    {NULL, TT_FIELD_HONOURED, NULL},
};
/* clang-format on */

/* ---- the conversation ---- */

/* What makes a prompt. */
typedef struct conversation {
    tt_item_reader items;
    tt_response_tools tools;
    json_t *messages;
    uint32_t dropped;
    tt_thinking thinking;
    tt_effort effort;
    char *extra;
} conversation;

static bool no_memory(tt_fields *f)
{
    return tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the request");
}

static void free_conversation(conversation *c)
{
    tt_item_reader_free(&c->items);
    tt_response_tools_free(&c->tools);
    json_decref(c->messages);
    tt_free(c->extra);
}

static bool read_items(tt_fields *f, conversation *c)
{
    const json_t *previous = tt_fields_get(f->body, "previous_response_id");
    const char *id = tt_fields_word(previous);
    const json_t *input = tt_fields_get(f->body, "input");
    if (input == NULL && previous == NULL)
        return tt_refuse_missing(f->why, "input");
    if (previous != NULL && !tt_item_reader_previous(&c->items, id != NULL ? id : ""))
        return false;
    if (!tt_item_reader_input(&c->items, input))
        return false;
    if (c->items.hosted)
        tt_fields_ignored(f, "input");
    c->messages =
        tt_items_to_messages(c->items.items, tt_fields_get(f->body, "instructions"), &c->dropped);
    return c->messages != NULL || no_memory(f);
}

/* Everything but the rendering. `c` is to be freed whatever comes back. */
static bool read_conversation(tt_fields *f, tt_response_store *store, bool keep,
                              const json_t *level, conversation *c)
{
    *c = (conversation){0};
    return tt_item_reader_init(&c->items, store, keep, f->why) && read_items(f, c) &&
           tt_response_tools_read(f, c->items.items, &c->tools) &&
           tt_chat_reasoning(f, "reasoning.effort", level, &c->thinking, &c->extra, &c->effort);
}

static bool is_answered(const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    return role != NULL && strcmp(role, "assistant") == 0;
}

static bool dump_tools(tt_fields *f, const json_t *list, char **out)
{
    *out = NULL;
    if (json_array_size(list) == 0)
        return true;
    *out = json_dumps(list, JSON_COMPACT | JSON_REAL_PRECISION(15));
    return *out != NULL || no_memory(f);
}

/* Messages with their repairs, as JSON text (tt_free); NULL with f->why. What was repaired is told
 * once. */
static char *repair(tt_fields *f, const conversation *c, const json_t *messages)
{
    json_t *repaired = NULL;
    tt_repairs repairs;
    if (!tt_history_repair(messages, &repaired, &repairs, f->why))
        return NULL;
    repairs.dropped_messages += c->dropped;
    tt_buf_clear(&f->repaired);
    tt_repairs_write(&repairs, &f->repaired);
    char *text = !tt_tree_memory_full()
                     ? json_dumps(repaired, JSON_COMPACT | JSON_REAL_PRECISION(15))
                     : NULL;
    json_decref(repaired);
    if (text == NULL)
        no_memory(f);
    return text;
}

static bool render(tt_fields *f, const tt_server_engine *engine, const conversation *c,
                   const char *messages, const char *tools)
{
    tt_engine_prompt *p = &f->out->turn.prompt;
    tt_error err = {.offset = -1};
    tt_engine_render r = {
        .messages = messages, .tools = tools, .extra = c->extra, .thinking = c->thinking};
    tt_free(p->ids);
    *p = (tt_engine_prompt){0};
    tt_status st = engine->ops->render(engine->self, &r, p, &err);
    return st == TT_OK || tt_fields_render_failed(f, st, &err, "input");
}

/* ---- what is told back ---- */

static void write_json(tt_buf *b, const json_t *v)
{
    char *json =
        v != NULL ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;
    if (v != NULL && json == NULL)
        b->failed = TT_ERR_NOMEM;
    tt_buf_puts(b, json != NULL ? json : "null");
    tt_free(json);
}

/* What was given, or what stands for nothing given. */
static void write_or(tt_buf *b, const json_t *v, const char *otherwise)
{
    if (v != NULL)
        write_json(b, v);
    else
        tt_buf_puts(b, otherwise);
}

static void write_field(tt_buf *b, const tt_fields *f, const char *name)
{
    tt_buf_printf(b, ",\"%s\":", name);
    write_json(b, tt_fields_get(f->body, name));
}

/* In the order of the alphabet. */
static bool write_echo(tt_fields *f, const conversation *c, tt_response_plan *p)
{
    const tt_turn_request *t = &f->out->turn;
    const tt_sampler_options *s = &t->sampling;
    tt_buf *b = &p->echo;
    tt_buf_printf(b, "\"background\":false,\"frequency_penalty\":%.7g",
                  (double)s->frequency_penalty);
    write_field(b, f, "instructions");
    if (f->max_tokens != UINT64_MAX)
        tt_buf_printf(b, ",\"max_output_tokens\":%u", t->max_tokens);
    else
        tt_buf_puts(b, ",\"max_output_tokens\":null");
    tt_buf_puts(b, ",\"max_tool_calls\":null,\"metadata\":");
    write_or(b, tt_fields_get(f->body, "metadata"), "{}");
    write_field(b, f, "model");
    tt_buf_printf(b, ",\"parallel_tool_calls\":%s,\"presence_penalty\":%.7g",
                  t->one_call ? "false" : "true", (double)s->presence_penalty);
    write_field(b, f, "previous_response_id");
    write_field(b, f, "prompt_cache_key");
    tt_buf_puts(b, ",\"reasoning\":{\"effort\":");
    tt_buf_printf(b, c->effort >= 0 ? "\"%s\"" : "null",
                  tt_effort_words[c->effort >= 0 ? c->effort : 0]);
    tt_buf_printf(b, ",\"summary\":%s}", p->summary ? "\"detailed\"" : "null");
    write_field(b, f, "safety_identifier");
    tt_buf_printf(b, ",\"service_tier\":\"default\",\"temperature\":%.7g,\"text\":{\"format\":",
                  (double)s->temperature);
    write_or(b, tt_fields_get(tt_fields_get(f->body, "text"), "format"), "{\"type\":\"text\"}");
    tt_buf_puts(b, "},\"tool_choice\":");
    write_or(b, tt_fields_get(f->body, "tool_choice"), "\"auto\"");
    tt_buf_puts(b, ",\"tools\":");
    write_json(b, c->tools.echo);
    tt_buf_printf(b, ",\"top_logprobs\":%u,\"top_p\":%.7g,\"truncation\":\"disabled\"",
                  t->top_logprobs, (double)s->top_p);
    return b->failed == TT_OK || no_memory(f);
}

/* ---- the whole ---- */

static void init_plan(tt_response_plan *p, tt_response_store *store, const char *prefix)
{
    *p = (tt_response_plan){.responses = store};
    tt_buf_init(&p->echo, MOST_ECHO);
    tt_random_id(prefix, p->id);
}

static void take_options(const tt_fields *f, tt_response_plan *p)
{
    const json_t *thoughts = tt_fields_get(f->body, "reasoning");
    const json_t *words = tt_fields_get(f->body, "include");
    size_t i;
    json_t *word;
    p->store = !json_is_false(tt_fields_get(f->body, "store"));
    p->summary = tt_fields_get(thoughts, "summary") != NULL ||
                 tt_fields_get(thoughts, "generate_summary") != NULL;
    json_array_foreach(words, i, word)
    {
        p->carried |= is_include(word, "reasoning.encrypted_content");
    }
}

/* Of what was read for the prompt, only what is rendered stays in memory. */
static bool render_all(tt_fields *f, const tt_server_engine *engine, conversation *c)
{
    char *text = repair(f, c, c->messages);
    json_decref(c->messages);
    c->messages = NULL;
    json_array_clear(c->items.items);
    bool ok = text != NULL && render(f, engine, c, text, f->out->turn.tools);
    tt_free(text);
    return ok;
}

static bool make_prompt(tt_fields *f, const tt_server_engine *engine, conversation *c,
                        tt_response_plan *p)
{
    if (is_answered(c->messages))
        return tt_refuse_unsupported(f->why, "input",
                                     "the last item is the assistant's: answers are not continued");
    if (!tt_form_finish(f, c->tools.prompt, &c->tools.check, "parameters"))
        return false;
    if (f->form.calls != TT_CALLS_NONE && !dump_tools(f, c->tools.prompt, &f->out->turn.tools))
        return false;
    if (!render_all(f, engine, c) || !tt_fields_room(f, "input") || !write_echo(f, c, p))
        return false;
    p->given = json_incref(c->tools.given);
    p->context = c->items.kept;
    p->bytes = p->echo.len + c->items.bytes;
    c->items.kept = (tt_item_list){0};
    return true;
}

bool tt_response_request_read(tt_fields *f, const tt_server_engine *engine,
                              tt_response_store *store, tt_response_plan *p)
{
    conversation c;
    f->out->chat = true;
    init_plan(p, store, "resp_");
    if (!tt_fields_model(f) || !tt_fields_walk(f, NULL, table))
        return false;
    take_options(f, p);
    const json_t *level = tt_fields_get(tt_fields_get(f->body, "reasoning"), "effort");
    bool ok = read_conversation(f, store, p->store, level, &c) && make_prompt(f, engine, &c, p);
    free_conversation(&c);
    return ok;
}

/* ---- compaction ---- */

/* The system message and what comes from message `first` on, with the request behind it. */
static json_t *cut(const json_t *messages, size_t first)
{
    json_t *list = json_array(), *m;
    int bad = list == NULL;
    size_t i;
    json_array_foreach(messages, i, m)
    {
        const char *role = json_string_value(json_object_get(m, "role"));
        if (i >= first || (i == 0 && strcmp(role, "system") == 0))
            bad |= json_array_append(list, m);
    }
    bad |= json_array_append_new(
        list, json_pack("{s:s, s:s}", "role", "user", "content", COMPACT_REQUEST));
    if (bad == 0)
        return list;
    json_decref(list);
    return NULL;
}

static bool render_cut(tt_fields *f, const tt_server_engine *engine, const conversation *c,
                       const char *tools, size_t first)
{
    json_t *messages = cut(c->messages, first);
    char *text = messages != NULL ? repair(f, c, messages) : NULL;
    bool ok = text != NULL ? render(f, engine, c, text, tools) : messages == NULL && no_memory(f);
    json_decref(messages);
    tt_free(text);
    return ok;
}

/* The longest end of the conversation behind which a summary has room. */
static bool fit(tt_fields *f, const tt_server_engine *engine, const conversation *c,
                const char *tools, size_t tokens)
{
    size_t most = f->info->max_context - tokens, n = json_array_size(c->messages);
    size_t low = 0, high = n, at = 0; /* from `low` on it is too long, from `high` on it fits */
    if (!render_cut(f, engine, c, tools, 0))
        return false;
    if (f->out->turn.prompt.n <= most)
        return true;
    tt_fields_adjusted(f, "input");
    while (low + 1 < high) {
        at = low + (high - low) / 2;
        if (!render_cut(f, engine, c, tools, at))
            return false;
        if (f->out->turn.prompt.n <= most)
            high = at;
        else
            low = at;
    }
    return at == high || render_cut(f, engine, c, tools, high);
}

static bool make_compaction(tt_fields *f, const tt_server_engine *engine, conversation *c)
{
    uint32_t tokens = f->info->max_context / COMPACT_SHARE;
    char *tools = NULL;
    tokens = tokens > COMPACT_TOKENS ? COMPACT_TOKENS : tokens;
    if (json_array_size(c->items.items) == 0)
        return tt_refuse_value(f->why, "input", "there is nothing to summarize");
    if (!dump_tools(f, c->tools.prompt, &tools))
        return false;
    bool ok = fit(f, engine, c, tools, tokens);
    tt_free(tools);
    f->max_tokens = tokens;
    f->out->turn.sampling.temperature = 0;
    return ok && tt_fields_room(f, "input");
}

bool tt_response_compact_read(tt_fields *f, const tt_server_engine *engine,
                              tt_response_store *store, tt_response_plan *p)
{
    conversation c;
    f->out->chat = true;
    init_plan(p, store, "resp_");
    p->compact = true;
    if (!tt_fields_model(f) || !tt_fields_walk(f, NULL, compact_table))
        return false;
    json_t *level = json_string(tt_effort_words[TT_EFFORT_NONE]);
    bool ok = read_conversation(f, store, false, level, &c) && make_compaction(f, engine, &c);
    free_conversation(&c);
    json_decref(level);
    return ok;
}
