#include "tokenizer/chat.h"

#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "tokenizer/jinja.h"
#include "tokenizer/tokenizer.h"

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the variables of the chat template");
}

static tt_status parse(const char *text, const char *what, bool array, json_t **out, tt_error *err)
{
    json_t *j = NULL;
    TT_TRY(tt_json_parse_deep(text, strlen(text), TT_MAX_CHAT_DEPTH, what, &j, err));
    if (array ? !json_is_array(j) : !json_is_object(j)) {
        json_decref(j);
        return tt_fail(err, TT_ERR_INVALID, "%s must be a JSON %s", what,
                       array ? "array" : "object");
    }
    *out = j;
    return TT_OK;
}

/* ---- messages ---- */

static tt_status parse_arguments(json_t *call, tt_error *err)
{
    json_t *fn = json_object_get(call, "function"), *args = NULL;
    if (!json_is_object(fn))
        fn = call;
    json_t *text = json_object_get(fn, "arguments");
    if (!json_is_string(text))
        return TT_OK;
    tt_error ignored;
    if (tt_json_parse(json_string_value(text), json_string_length(text), "arguments", &args,
                      &ignored) != TT_OK)
        return TT_OK; /* no JSON: the template decides what to make of a text */
    if (!json_is_object(args)) {
        json_decref(args);
        return TT_OK;
    }
    return json_object_set_new(fn, "arguments", args) == 0 ? TT_OK : no_memory(err);
}

static tt_status check_messages(json_t *messages, tt_error *err)
{
    size_t i, k;
    json_t *message, *call;
    json_array_foreach(messages, i, message)
    {
        const json_t *role = json_object_get(message, "role");
        if (!json_is_object(message) || !json_is_string(role))
            return tt_fail(err, TT_ERR_INVALID,
                           "messages[%zu] must be an object with a \"role\" of type string", i);
        json_t *calls = json_object_get(message, "tool_calls");
        json_array_foreach(calls, k, call) TT_TRY(parse_arguments(call, err));
    }
    return TT_OK;
}

/* ---- variables ---- */

static tt_status put_tools(json_t *vars, const char *tools_json, tt_error *err)
{
    json_t *tools = NULL;
    if (tools_json != NULL)
        TT_TRY(parse(tools_json, "tools", true, &tools, err));
    if (tools == NULL || json_array_size(tools) == 0) {
        json_decref(tools);
        tools = json_null();
    }
    if (json_object_set_new(vars, "tools", tools) != 0 ||
        json_object_set_new(vars, "documents", json_null()) != 0)
        return no_memory(err);
    return TT_OK;
}

static tt_status put_options(json_t *vars, const tt_chat_options *opts, tt_error *err)
{
    json_t *extra = NULL;
    int bad = json_object_set_new(vars, "add_generation_prompt",
                                  json_boolean(!opts->no_generation_prompt));
    if (opts->thinking != TT_THINKING_DEFAULT)
        bad |= json_object_set_new(vars, "enable_thinking",
                                   json_boolean(opts->thinking == TT_THINKING_ON));
    if (bad)
        return no_memory(err);
    if (opts->extra_json == NULL)
        return TT_OK;
    TT_TRY(parse(opts->extra_json, "extra variables", false, &extra, err));
    bad = json_object_update(vars, extra);
    json_decref(extra);
    return bad ? no_memory(err) : TT_OK;
}

tt_status tt_chat_variables(const char *messages_json, const tt_chat_options *opts,
                            const json_t *tokens, json_t **out, tt_error *err)
{
    static const tt_chat_options none = {0};
    json_t *vars = json_object(), *messages = NULL;
    tt_status st = TT_OK;
    if (opts == NULL)
        opts = &none;
    if (vars == NULL)
        return no_memory(err);
    if (messages_json == NULL) {
        st = tt_fail(err, TT_ERR_INVALID, "messages are missing");
        goto done;
    }
    if (opts->thinking > TT_THINKING_OFF) {
        st = tt_fail(err, TT_ERR_INVALID, "thinking is %d, must be 0, 1 or 2", (int)opts->thinking);
        goto done;
    }
    TT_GOTO(parse(messages_json, "messages", true, &messages, err), done);
    st = check_messages(messages, err);
    if (json_object_set_new(vars, "messages", messages) != 0 && st == TT_OK)
        st = no_memory(err);
    if (st != TT_OK)
        goto done;
    TT_GOTO(put_tools(vars, opts->tools_json, err), done);
    if (tokens != NULL && json_object_update(vars, (json_t *)tokens) != 0) {
        st = no_memory(err);
        goto done;
    }
    TT_GOTO(put_options(vars, opts, err), done);
    *out = vars;
    return TT_OK;
done:
    json_decref(vars);
    return st;
}

/* ---- the public function ---- */

static tt_status named_tokens(const tt_tokenizer *tok, json_t **out, tt_error *err)
{
    static const char *const names[TT_NAMED_TOKENS] = {[TT_TOKEN_BOS] = "bos_token",
                                                       [TT_TOKEN_EOS] = "eos_token",
                                                       [TT_TOKEN_PAD] = "pad_token",
                                                       [TT_TOKEN_UNK] = "unk_token"};
    json_t *tokens = json_object();
    for (int i = 0; i < TT_NAMED_TOKENS; i++) {
        const char *text = tt_tokenizer_named_token(tok, (tt_named_token)i);
        if (text != NULL && json_object_set_new(tokens, names[i], json_string(text)) != 0) {
            json_decref(tokens);
            tokens = NULL;
            break;
        }
    }
    *out = tokens;
    return tokens == NULL ? no_memory(err) : TT_OK;
}

tt_status tt_chat_check_template(const tt_tokenizer *tok, tt_error *err)
{
    size_t len = 0;
    const char *source = tt_tokenizer_template(tok, &len);
    if (source == NULL)
        return TT_OK;
    tt_jinja_options jo;
    tt_jinja_options_default(&jo);
    jo.file = tt_tokenizer_template_file(tok);
    return tt_jinja_check(source, len, &jo, err);
}

tt_status tt_chat_render(const tt_tokenizer *tok, const char *messages_json,
                         const tt_chat_options *opts, char **text, size_t *len, tt_error *err)
{
    size_t source_len = 0;
    const char *source = tt_tokenizer_template(tok, &source_len);
    json_t *vars = NULL, *tokens = NULL;
    if (source == NULL)
        return tt_fail_at(
            err, TT_ERR_NOT_FOUND, tt_tokenizer_template_file(tok), -1,
            "the model has no chat template: convert the checkpoint again with this file "
            "beside its config.json, or use raw text");
    tt_jinja_options jo;
    tt_jinja_options_default(&jo);
    jo.file = tt_tokenizer_template_file(tok);
    if (opts != NULL && opts->now != 0)
        jo.now = opts->now;
    TT_TRY(named_tokens(tok, &tokens, err));
    tt_status st = tt_chat_variables(messages_json, opts, tokens, &vars, err);
    if (st == TT_OK)
        st = tt_jinja_render(source, source_len, vars, &jo, text, len, err);
    json_decref(vars);
    json_decref(tokens);
    return st;
}
