/* Proves that no history does harm to its repair, and the laws of one that is repaired: a template
 * takes it, repairing it again changes nothing, and the history before a user's message is repaired
 * to the beginning of what the whole becomes. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/history.h"
#include "server/server_limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static const char *word(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : "";
}

static bool is(const json_t *message, const char *role)
{
    return strcmp(word(message, "role"), role) == 0;
}

/* Every call has an id of its own and an object, and its result before the next message. */
static void check_calls(const json_t *list, size_t at, json_t *ids)
{
    const json_t *calls = json_object_get(json_array_get(list, at), "tool_calls");
    size_t k;
    json_t *call;
    json_array_foreach(calls, k, call)
    {
        const char *id = word(call, "id");
        const json_t *fn = json_object_get(call, "function");
        bool answered = false;
        must(*id != '\0' && json_object_get(ids, id) == NULL && json_object_size(call) == 3);
        must(json_is_object(json_object_get(fn, "arguments")));
        must(json_object_set_new(ids, id, json_true()) == 0);
        for (size_t i = at + 1; i < json_array_size(list) && is(json_array_get(list, i), "tool");
             i++)
            answered |= strcmp(word(json_array_get(list, i), "tool_call_id"), id) == 0;
        must(answered);
    }
}

static void check(const json_t *list)
{
    size_t i;
    json_t *m, *ids = json_object();
    json_array_foreach(list, i, m)
    {
        must(is(m, "user") || is(m, "assistant") || is(m, "tool") || (is(m, "system") && i == 0));
        must(json_is_string(json_object_get(m, "content")));
        check_calls(list, i, ids);
    }
    json_decref(ids);
}

/* The first n messages; NULL when they are refused, in words. */
static json_t *repair(const json_t *messages, size_t n)
{
    json_t *some = json_array(), *out = NULL;
    tt_repairs repairs;
    tt_refusal why = {0};
    for (size_t i = 0; i < n; i++)
        must(json_array_append(some, json_array_get(messages, i)) == 0);
    if (!tt_history_repair(some, &out, &repairs, &why)) {
        must(why.status >= 400 && why.code != NULL && why.message[0] != '\0');
        out = NULL;
    }
    json_decref(some);
    return out;
}

static void check_beginnings(const json_t *messages, const json_t *whole)
{
    for (size_t k = 0; k < json_array_size(messages); k++) {
        if (!is(json_array_get(messages, k), "user"))
            continue;
        json_t *part = repair(messages, k);
        must(part != NULL && json_array_size(part) <= json_array_size(whole));
        for (size_t i = 0; i < json_array_size(part); i++)
            must(json_equal(json_array_get(part, i), json_array_get(whole, i)));
        json_decref(part);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *messages = NULL;
    tt_error err;
    if (tt_json_parse_deep((const char *)data, size, TT_REQUEST_DEPTH, "messages", &messages,
                           &err) != TT_OK)
        return 0;
    json_t *before = json_deep_copy(messages), *out = NULL, *again;
    if (json_is_array(messages) && json_array_size(messages) < 64)
        out = repair(messages, json_array_size(messages));
    must(json_equal(before, messages));
    if (out != NULL) {
        check(out);
        again = repair(out, json_array_size(out));
        must(again != NULL && json_equal(out, again));
        json_decref(again);
        check_beginnings(messages, out);
    }
    json_decref(out);
    json_decref(before);
    json_decref(messages);
    return 0;
}
